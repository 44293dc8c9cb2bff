"""The tables of ``docs/evidence/accuracy.md``: one section each, between two marks in the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "accuracy.md"
CONCLUSION = ("case", "expected", "measured", "runs")
"""Columns of a table of conclusions."""

Row = tuple[str, ...]
Rows = Callable[[float], Iterator[Row]]
"""Gives the rows of a table; the argument scales the number of runs or operations."""


@dataclass(frozen=True)
class Section:
    """A table and the function that measures it."""

    rows: Rows
    columns: Sequence[str] = CONCLUSION
    is_real_time: bool = False
    """True if it measures this machine: it runs alone."""


def row(case: str, expected: str, measured: str, runs: int) -> Row:
    """A row of a table of conclusions."""
    return case, expected, measured, f"{runs:,}"


def with_table(page: str, name: str, columns: Sequence[str], rows: Sequence[Row]) -> str:
    """The page with another table between the marks of a section."""
    before, opening, rest = page.partition(f"<!-- table: {name} -->\n")
    _, closing, after = rest.partition(f"<!-- end: {name} -->\n")
    if not (opening and closing):
        raise SystemExit(f"{PAGE} has no marks for a table named {name}")
    lines = [_line(columns), _line(["---", *["---:"] * (len(columns) - 1)]), *map(_line, rows)]
    return before + opening + "\n" + "\n".join(lines) + "\n\n" + closing + after


def rows_of(page: str, name: str) -> list[Row]:
    """The rows of a table in the page, without its columns."""
    text = page.partition(f"<!-- table: {name} -->\n")[2].partition(f"<!-- end: {name} -->\n")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines[2:]]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
