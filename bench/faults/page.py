"""Runs the rows of a matrix, prints them, and writes the page with their table."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.faults.rows import Row
from bench.faults.seen import CannotRunError, Seen

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
    if seen.faults:
        return "no: " + "; ".join(seen.faults)
    return f"not run: {seen.not_run}" if seen.not_run else "yes"


def add_options(parser: argparse.ArgumentParser, page: Page) -> None:
    """The options that every matrix has."""
    parser.add_argument("rows", nargs="*", help="names of rows (default: all); the page keeps the lines of other rows")
    parser.add_argument("--out", type=Path, default=page.path, help="page to write (default: %(default)s)")


def run_rows(parser: argparse.ArgumentParser, options: argparse.Namespace, known: Sequence[Row], page: Page) -> int:
    """Runs the rows that the options name. Returns 1 if one did not end as expected."""
    if unknown := set(options.rows) - {row.name for row in known}:
        parser.error(f"there is no row {', '.join(unknown)}; choose from {', '.join(row.name for row in known)}")
    # A program that a shell starts in the background ignores these, and so would the clients that are to get them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    lines, failed = _written(options.out), False
    for row in known:
        if not options.rows or row.name in options.rows:
            seen = _run(row)
            failed |= bool(seen.faults)
            lines[row.name] = _cells(text(row, seen) for text in page.columns.values())
            print(lines[row.name], flush=True)
    kept = [lines[row.name] for row in known if row.name in lines]
    table = [_cells(page.columns), _cells("---" for _ in page.columns), *kept]
    load = f"load average {os.getloadavg()[2]:.0f} in the last 15 minutes"
    written = f"\nWritten on {datetime.now(UTC):%Y-%m-%d}, {load}; rows may have run one by one.\n"
    options.out.write_text(page.head + "\n".join(table) + "\n" + written + page.tail, encoding="utf-8")
    return int(failed)


def _written(page: Path) -> dict[str, str]:
    """The lines of a page, by the names of their rows."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return {line.split(" | ")[0].removeprefix("| "): line for line in lines}


def _run(row: Row) -> Seen:
    with tempfile.TemporaryDirectory(prefix="iocurve-faults-") as directory:
        try:
            return row.run(Path(directory))
        except CannotRunError as error:
            return Seen("not run", not_run=str(error))
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            return Seen("not run", faults=[f"the row itself failed: {error}"])


def _cells(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
