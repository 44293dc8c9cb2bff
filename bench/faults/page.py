"""Runs the rows of a matrix, prints them, and writes the page with their table."""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.faults.rows import Row, Seen

Columns = Mapping[str, Callable[[Row, Seen], str]]
"""The text of a cell by the title of its column."""
COLUMNS: Columns = {
    "row": lambda row, _: row.name,
    "what is broken": lambda row, _: row.broken,
    "expected end": lambda row, _: row.expected,
    "seen end": lambda _, seen: seen.end,
}
"""The first columns of every matrix."""


@dataclass(frozen=True)
class Page:
    """A page around the table of a matrix."""

    path: Path
    head: str
    columns: Columns
    tail: str


def verdict(_row: Row, seen: Seen) -> str:
    """Says if a row ended as expected."""
    return "yes" if not seen.faults else "no: " + "; ".join(seen.faults)


def add_options(parser: argparse.ArgumentParser, page: Page) -> None:
    """The options that every matrix has."""
    parser.add_argument("rows", nargs="*", help="names of rows; all if none is named, and then the page is written")
    parser.add_argument("--out", type=Path, default=page.path, help="page to write (default: %(default)s)")


def run_rows(parser: argparse.ArgumentParser, options: argparse.Namespace, known: Sequence[Row], page: Page) -> int:
    """Runs the rows that the options name. Returns 1 if one did not end as expected."""
    if unknown := set(options.rows) - {row.name for row in known}:
        parser.error(f"there is no row {', '.join(unknown)}; choose from {', '.join(row.name for row in known)}")
    lines, failed = [], False
    for row in known:
        if not options.rows or row.name in options.rows:
            seen = _run(row)
            failed |= bool(seen.faults)
            lines.append(_cells(text(row, seen) for text in page.columns.values()))
            print(lines[-1], flush=True)
    if not options.rows:
        ran = f"\nRun on {datetime.now(UTC):%Y-%m-%d}.\n"
        table = [_cells(page.columns), _cells("---" for _ in page.columns), *lines]
        options.out.write_text(page.head + "\n".join(table) + "\n" + ran + page.tail, encoding="utf-8")
    return int(failed)


def _run(row: Row) -> Seen:
    with tempfile.TemporaryDirectory(prefix="iocurve-faults-") as folder:
        try:
            return row.run(Path(folder))
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            return Seen("not run", faults=[f"the row itself failed: {error}"])


def _cells(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
