"""Tables in the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.table import Table
from rich.text import Text

from iocurve.analysis import Reading
from iocurve.analysis.client_limits import client_verdicts, counted_clients, fairness_of, limited_clients
from iocurve.result.disturbance import condition
from iocurve.result.document import Point, Result
from iocurve.result.summary import Summary
from iocurve.units import MIB, UNKNOWN_TEXT, format_count, format_latency

TEXT_COLUMNS_MIN = 14
"""Narrower than this, a column of text is hard to read."""


class FittingTable:
    """A table that shows each cell whole at any width.

    A terminal too narrow for all columns gets the essential ones; one too narrow for those gets a list of each row's
    cells.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        essential: Collection[str] | None = None,
        numbers: Collection[str] = (),
        texts: Collection[str] = (),
        has_header: bool = True,
    ) -> None:
        """``rows`` are cells in the order of ``columns``; an empty row is a gap. Columns of ``texts`` may wrap."""
        self._columns, self._rows, self._numbers, self._texts = columns, rows, numbers, texts
        self._essential = columns if essential is None else essential
        self._has_header = has_header

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for columns in (self._columns, [name for name in self._columns if name in self._essential]):
            table = self._table(columns)
            if console.measure(table, options=options.update(max_width=10_000)).minimum <= options.max_width:
                yield table
                return
        yield from self._list()

    def _table(self, columns: Sequence[str]) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold", show_header=self._has_header)
        for name in columns:
            if name in self._texts:
                table.add_column(name, min_width=TEXT_COLUMNS_MIN, overflow="fold")
            else:
                justify: JustifyMethod = "right" if name in self._numbers else "left"
                table.add_column(name, justify=justify, no_wrap=True, min_width=self._width(name))
        places = [self._columns.index(name) for name in columns]
        for row in self._rows:
            table.add_row(*(row[place] for place in places if row))
        return table

    def _width(self, name: str) -> int:
        """The longest cell of a column."""
        place = self._columns.index(name)
        cells = [row[place] for row in self._rows if row]
        return max(map(cell_len, [name, *cells] if self._has_header else cells), default=0)

    def _list(self) -> Iterator[Text]:
        labels = self._columns[1:] if self._has_header else [""] * (len(self._columns) - 1)
        width = max(map(len, labels))
        for row in self._rows:
            yield Text(row[0] if row else "", style="bold", overflow="fold")
            for label, cell in zip(labels, row[1:], strict=False):
                if cell:
                    yield Text(f"  {label:<{width}}  {cell}".rstrip(), overflow="fold")


@dataclass(frozen=True)
class _Column:
    """A column: one figure of each point."""

    title: str
    essential: bool
    cell: Callable[[Summary], str]


def _percentile(percent: float) -> Callable[[Summary], str]:
    return lambda summary: format_latency(summary.latency.percentile(percent))


def _decimal(value: float) -> str:
    return UNKNOWN_TEXT if math.isnan(value) else f"{value:,.1f}"


def _in_flight(summary: Summary) -> str:
    achieved = _decimal(summary.concurrency_achieved)
    return achieved if math.isnan(summary.depth_requested) else f"{achieved} of {summary.depth_requested:g}"


GAIN = "gain"
COLUMNS = (
    _Column("IOPS", True, lambda summary: format_count(summary.iops)),
    _Column("MiB/s", True, lambda summary: _decimal(summary.mib_per_s)),
    _Column("mean", False, lambda summary: format_latency(summary.latency.mean_ns)),
    _Column("p50", True, _percentile(50)),
    _Column("p99", True, _percentile(99)),
    _Column("p99.9", False, _percentile(99.9)),
    _Column("in flight", False, _in_flight),
)


def result_table(reading: Reading) -> FittingTable:
    """All points in one table, with a gap between families."""
    rows: list[tuple[str, ...]] = []
    points = reading.result.points
    last = [GAIN] if any(point.compared_with for point in points) else []
    for index, (point, verdict) in enumerate(zip(points, reading.verdicts, strict=True)):
        if index and point.family != points[index - 1].family:
            rows.append(())
        figures = (column.cell(point.summary()) for column in COLUMNS)
        limit = [verdict.label if verdict else "", condition(point) if point.disturbance else ""]
        gain = [reading.gain_text(point)] if last else []
        rows.append((point.name, *figures, ", ".join(filter(None, limit)), *gain))
    return FittingTable(
        ("point", *(column.title for column in COLUMNS), "limited by", *last),
        rows,
        essential=("point", *(column.title for column in COLUMNS if column.essential), "limited by", *last),
        numbers=[column.title for column in COLUMNS],
        texts=("point", "limited by", *last),
    )


CLIENT_COLUMNS = ("point", "clients", "slowest", "fastest", "fairness", "clients limited by")


def clients_table(result: Result) -> FittingTable | None:
    """The points that ran on load clients: how evenly these shared the target, and what limited each."""
    rows = []
    for point in result.points:
        if point.clients:
            limited = limited_clients(client_verdicts(point, result.target_of(point)), len(point.clients))
            rows.append((point.name, clients_cell(point), *fairness_cells(point), limited))
    if not rows:
        return None
    return FittingTable(CLIENT_COLUMNS, rows, numbers=("fairness",), texts=("clients limited by",))


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
