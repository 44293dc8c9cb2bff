"""The table of a result in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderResult
from rich.table import Table

from iocurve.analysis import Reading, read
from iocurve.result.document import Result
from iocurve.result.summary import Summary
from iocurve.units import format_count, format_latency


def result_table(result: Result) -> ConsoleRenderable:
    """All points in one table, with a gap between families; a narrow terminal gets only the essential columns."""
    return _ResultTable(read(result))


class _ResultTable:
    """A table that chooses its columns by the width of the terminal."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = self._table(COLUMNS)
        fits = console.measure(wide, options=options.update(max_width=10_000)).maximum <= options.max_width
        yield wide if fits else self._table([column for column in COLUMNS if column.essential])

    def _table(self, columns: Sequence[_Column]) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("point", no_wrap=True)
        for column in columns:
            table.add_column(column.title, justify="right", no_wrap=True)
        table.add_column("limited by", no_wrap=True)
        points = self._reading.result.points
        for index, (point, limit) in enumerate(zip(points, self._reading.limits, strict=True)):
            if index and point.family != points[index - 1].family:
                table.add_row()
            summary = point.summary()
            table.add_row(point.name, *(column.cell(summary) for column in columns), limit.short_name if limit else "")
        return table


@dataclass(frozen=True)
class _Column:
    """A column: one figure of each point."""

    title: str
    essential: bool
    cell: Callable[[Summary], str]


def _percentile(percent: float) -> Callable[[Summary], str]:
    return lambda summary: format_latency(summary.latency.percentile(percent))


COLUMNS = (
    _Column("IOPS", True, lambda summary: format_count(summary.iops)),
    _Column("MiB/s", True, lambda summary: f"{summary.mib_per_s:,.1f}"),
    _Column("mean", False, lambda summary: format_latency(summary.latency.mean_ns)),
    _Column("p50", True, _percentile(50)),
    _Column("p99", True, _percentile(99)),
    _Column("p99.9", False, _percentile(99.9)),
    _Column("in flight", False, lambda summary: f"{summary.concurrency_achieved:.1f} of {summary.depth_requested:g}"),
)
