"""The table of all forms of output: HTML pages, the terminal and Markdown; and the tables of a result in a terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Self

import msgspec

from iocurve.analysis import Reading
from iocurve.analysis.client_limits import client_verdicts, counted_clients, fairness_of, limited_clients
from iocurve.foundation.units import (
    MIB,
    MICROSECOND_NS,
    MILLISECOND_NS,
    SECOND_NS,
    UNKNOWN_TEXT,
    format_count,
    format_depth,
    format_latency,
)
from iocurve.result.document import Point, Result
from iocurve.result.stalls import condition
from iocurve.result.summary import Summary

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
    from rich.table import Table as RichTable
    from rich.text import Text

# Pages and Markdown need no rich, which takes a while to load.

LIMITED_BY = "limited by"
SENTENCES = (LIMITED_BY, "changes", "verdict")
"""Columns of sentences."""
LONG_CELL = 22
"""Columns with longer cells wrap on a page, so that a table fits it."""
SENTENCE_COLUMNS_MIN = 14
"""Narrower than this, a column of sentences is hard to read in a terminal."""


class Nanoseconds(msgspec.Struct, frozen=True):
    """A latency, which a table shows in the unit of its column."""

    value: float


Cell = str | Nanoseconds


class Markup(str):
    """A cell that is Markdown already: its characters are not escaped."""

    __slots__ = ()


def bold(text: str) -> Markup:
    """Text in bold."""
    return Markup(f"**{escaped(text)}**")


def code(text: str) -> Markup:
    """Text in a code span; a table takes every bar for a border."""
    fence = "``" if "`" in text else "`"
    return Markup(fence + " ".join(text.split()).replace("|", "\\|") + fence)


_MARKUP = re.compile(r"[\\`*<>|#~@]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|\[(?=[^\]]*\][\[(:])")
"""Characters that Markdown or HTML would read; an underscore within a word and a bracket without a link are text."""


def escaped(text: str) -> str:
    """Text in one line, which Markdown shows as it is."""
    return _MARKUP.sub(lambda found: "\\" + found[0], " ".join(text.split()))


class Table(msgspec.Struct, frozen=True):
    """Rows of text under the names of their columns; an empty row is a gap.

    A terminal shows each cell whole at any width: one too narrow for all columns gets the essential ones, one too
    narrow for those gets a list of each row's cells.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Collection[str] = ()
    """Columns that are aligned to the right."""
    sentences: Collection[str] = ()
    """Columns that may wrap."""
    essential: Collection[str] | None = None
    """Columns for a narrow terminal. Default: all."""
    has_header: bool = True

    @classmethod
    def of(cls, columns: Sequence[str], rows: Sequence[Sequence[Cell]], text_columns: int = 1) -> Self:
        """Makes a table of figures: after ``text_columns`` of words all columns but those of sentences are numbers.

        All latencies are in one unit, which is added to the names of their columns. The largest latency is a number
        below 10,000 in that unit.
        """
        latencies = [
            cell.value for row in rows for cell in row if isinstance(cell, Nanoseconds) and not math.isnan(cell.value)
        ]
        unit, unit_ns = next(((unit, size) for unit, size in _UNITS if max(latencies, default=0) < 10_000 * size), _S)
        names = [
            _with_unit(name, unit) if any(isinstance(row[index], Nanoseconds) for row in rows) else name
            for index, name in enumerate(columns)
        ]
        shown = [
            tuple(_latency(cell.value, unit_ns) if isinstance(cell, Nanoseconds) else cell for cell in row)
            for row in rows
        ]
        return cls(tuple(names), tuple(shown), numbers=names[text_columns:], sentences=SENTENCES)

    # ---- HTML, by figure.html

    def styles(self) -> list[str]:
        """The CSS classes of each column; numbers of usual length have none."""
        return [self._style(place, name) for place, name in enumerate(self.columns)]

    def _style(self, column: int, name: str) -> str:
        if name in self.sentences:
            return "text last"
        longest = max((len(row[column]) for row in self.rows if row), default=0)
        style = "" if name in self.numbers else "text"
        return f"{style} long".lstrip() if max(longest, len(name)) > LONG_CELL else style

    # ---- Markdown

    def markdown(self) -> list[str]:
        """The lines of the table."""
        rows = [[cell if isinstance(cell, Markup) else escaped(cell) for cell in row] for row in self.rows if row]
        return [f"| {' | '.join(line)} |" for line in (self.columns, ["---"] * len(self.columns), *rows)]

    # ---- terminal

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for columns in (self.columns, [name for name in self.columns if name in (self.essential or self.columns)]):
            table = self._rich(columns)
            if console.measure(table, options=options.update(max_width=10_000)).minimum <= options.max_width:
                yield table
                return
        yield from self._list()

    def _rich(self, columns: Sequence[str]) -> RichTable:
        from rich.table import Table as RichTable

        table = RichTable(box=None, pad_edge=False, header_style="bold", show_header=self.has_header)
        for name in columns:
            if name in self.sentences:
                table.add_column(name, min_width=SENTENCE_COLUMNS_MIN, overflow="fold")
            else:
                justify: JustifyMethod = "right" if name in self.numbers else "left"
                table.add_column(name, justify=justify, no_wrap=True, min_width=self._width(name))
        places = [self.columns.index(name) for name in columns]
        for row in self.rows:
            table.add_row(*(row[place] for place in places if row))
        return table

    def _width(self, name: str) -> int:
        """The longest cell of a column."""
        from rich.cells import cell_len

        place = self.columns.index(name)
        cells = [row[place] for row in self.rows if row]
        return max(map(cell_len, [name, *cells] if self.has_header else cells), default=0)

    def _list(self) -> Iterator[Text]:
        from rich.text import Text

        labels = self.columns[1:] if self.has_header else [""] * (len(self.columns) - 1)
        width = max(map(len, labels))
        for row in self.rows:
            yield Text(row[0] if row else "", style="bold", overflow="fold")
            for label, cell in zip(labels, row[1:], strict=False):
                if cell:
                    yield Text(f"  {label:<{width}}  {cell}".rstrip(), overflow="fold")


_S = ("s", SECOND_NS)
_UNITS = (("µs", MICROSECOND_NS), ("ms", MILLISECOND_NS), _S)


def _with_unit(name: str, unit: str) -> str:
    """``p99 ms``; ``{unit}`` in a name says where the unit goes."""
    return name.replace("{unit}", unit) if "{unit}" in name else f"{name} {unit}"


def _latency(nanoseconds: float, unit_ns: int) -> str:
    """To 0.1 µs below 100 µs, to 1 µs above: the histograms have three digits."""
    if math.isnan(nanoseconds):
        return UNKNOWN_TEXT
    if unit_ns == MICROSECOND_NS:
        return decimal(nanoseconds / MICROSECOND_NS)
    microseconds = 4 if nanoseconds < 100 * MICROSECOND_NS else 3
    return f"{nanoseconds / unit_ns:,.{microseconds if unit_ns == MILLISECOND_NS else microseconds + 3}f}"


def decimal(value: float) -> str:
    """``1,234.5``."""
    return UNKNOWN_TEXT if math.isnan(value) else f"{value:,.1f}"


# ---- tables of a result


def _percentile(percent: float) -> Callable[[Summary], str]:
    return lambda summary: format_latency(summary.latency.percentile(percent))


def _in_flight(summary: Summary) -> str:
    achieved = decimal(summary.concurrency_achieved)
    return achieved if math.isnan(summary.depth_requested) else f"{achieved} of {format_depth(summary.depth_requested)}"


GAIN = "speedup"
COLUMNS: dict[str, Callable[[Summary], str]] = {
    "IOPS": lambda summary: format_count(summary.iops),
    "MiB/s": lambda summary: decimal(summary.mib_per_s),
    "mean": lambda summary: format_latency(summary.latency.mean_ns),
    "p50": _percentile(50),
    "p99": _percentile(99),
    "p99.9": _percentile(99.9),
    "in flight": _in_flight,
}
ESSENTIAL = ("IOPS", "MiB/s", "p50", "p99")
"""The columns for a narrow terminal."""


def result_table(reading: Reading) -> Table:
    """All points in one table, with a gap between families."""
    rows: list[tuple[str, ...]] = []
    points = reading.result.points
    last = [GAIN] if any(point.compared_with for point in points) else []
    for index, (point, verdict) in enumerate(zip(points, reading.verdicts, strict=True)):
        if index and point.family != points[index - 1].family:
            rows.append(())
        figures = (cell(point.summary()) for cell in COLUMNS.values())
        limit = limit_cell(point, verdict.label if verdict else "")
        gain = [reading.gain_text(point)] if last else []
        rows.append((point.name, *figures, limit, *gain))
    return Table(
        ("point", *COLUMNS, LIMITED_BY, *last),
        rows,
        essential=("point", *ESSENTIAL, LIMITED_BY, *last),
        numbers=[*COLUMNS],
        sentences=("point", LIMITED_BY, *last),
    )


def limit_cell(point: Point, limit: str) -> str:
    """The limit of a point, with the mark of a disturbed one, or of one that failed or was interrupted."""
    state = "" if point.outcome.state == "finished" else point.outcome.state
    return ", ".join(filter(None, (limit, condition(point) if point.noise else "", state)))


CLIENT_COLUMNS = ("point", "clients", "slowest", "fastest", "fairness", "clients limited by")


def clients_table(result: Result) -> Table | None:
    """The points that ran on agents: how evenly these shared the target, and what limited each."""
    rows = []
    for point in result.points:
        if point.clients:
            limited = limited_clients(client_verdicts(point, result.target_of(point)), len(point.clients))
            rows.append((point.name, clients_cell(point), *fairness_cells(point), limited))
    if not rows:
        return None
    return Table(CLIENT_COLUMNS, rows, numbers=("fairness",), sentences=("clients limited by",))


def clients_cell(point: Point) -> str:
    """The clients that count: ``11 of 12``."""
    return f"{len(counted_clients(point))} of {len(point.clients)}"


def fairness_cells(point: Point) -> tuple[str, str, str]:
    """The slowest and the fastest client with their rates, and Jain's index."""
    fairness = fairness_of(point)
    if fairness is None:
        return "", "", ""
    names = {client.client: client.name for client in point.clients}

    def named(client: int, rate: float) -> str:
        shown = f"{rate / MIB:,.1f} MiB/s" if fairness.rate == "bytes_per_s" else f"{format_count(rate)} IOPS"
        return f"{names[client]}: {shown}"

    index = fairness.jain_index
    return (
        named(fairness.slowest, fairness.slowest_rate),
        named(fairness.fastest, fairness.fastest_rate),
        "" if index is None else f"{index:.3f}",
    )
