"""The terminal: a live view while points run, and a table of the results.

The live view goes to stderr, so that stdout has only the output that a program may read. Figures are in fio's units:
IOPS with k and M, MiB/s, latencies in µs and ms.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, ConsoleOptions, ConsoleRenderable, Group, RenderableType, RenderResult
from rich.live import Live as Display
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from iocurve.analysis import Reading, read
from iocurve.engine.outcome import IntervalKind, Live
from iocurve.result.document import Result
from iocurve.result.summary import Summary
from iocurve.units import MIB, SECOND_NS, format_bytes, format_count, format_duration, format_latency

PLAIN_LINE_EVERY_S = 5.0
"""The interval of plain lines, which replace the live view where stderr is not a terminal."""
REDRAW_EVERY_S = 0.1
PHASES = {"layout": "laying out files", "prepare": "preparing", "ramp": "ramp", "run": "running", "done": "finishing"}


class View(Protocol):
    """Observes a run of several points."""

    def point_started(
        self, index: int, count: int, name: str, seconds_expected: float, interval_ns: int = SECOND_NS
    ) -> None:
        """Point ``index`` (from 0) of ``count`` runs; ``interval_ns`` is the reporting interval of its plan."""

    def update(self, live: Live) -> None:
        """Gets the state of the engine, several times a second."""

    def point_finished(self, summary: Summary) -> None:
        """The point that was started last has ended."""


class NoView:
    """Shows nothing."""

    def point_started(
        self, index: int, count: int, name: str, seconds_expected: float, interval_ns: int = SECOND_NS
    ) -> None:
        """Ignored."""

    def update(self, live: Live) -> None:
        """Ignored."""

    def point_finished(self, summary: Summary) -> None:
        """Ignored."""


class LiveView:
    """Shows a run of several points: the running point, the progress of the whole plan, the latest rates.

    On a terminal the view redraws in place; elsewhere it writes a plain line every few seconds.
    ``clock`` returns seconds. ``keeps_lines`` leaves a line for each finished point.
    """

    def __init__(
        self,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        keeps_lines: bool = True,
    ) -> None:
        self._keeps_lines = keeps_lines
        self._console = console or Console(stderr=True)
        self._clock = clock
        self._point: _Point | None = None
        self._live: Live | None = None
        self._seconds_done = 0.0
        self._next_draw = clock()
        self._display = Display(console=self._console, get_renderable=self._render, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._display.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._point = None
        self._display.stop()

    def point_started(
        self, index: int, count: int, name: str, seconds_expected: float, interval_ns: int = SECOND_NS
    ) -> None:
        """Shows point ``index`` (from 0) of ``count``; ``interval_ns`` is the reporting interval of its plan."""
        self._point = _Point(index, count, name, seconds_expected, interval_ns, self._clock())
        self._live = None

    def update(self, live: Live) -> None:
        """Shows the state of the engine. Call it as often as you like: the view redraws at its own pace."""
        self._live = live
        if self._clock() < self._next_draw:
            return
        if self._console.is_terminal:
            self._next_draw = self._clock() + REDRAW_EVERY_S
            self._display.refresh()
        else:
            self._next_draw = self._clock() + PLAIN_LINE_EVERY_S
            self._console.print(self._plain_line(), soft_wrap=True, highlight=False)

    def point_finished(self, summary: Summary) -> None:
        """Prints a line that stays for the point that was started last."""
        if self._point is not None:
            self._seconds_done += self._clock() - self._point.started
            position = f"{self._point.index + 1:>{len(str(self._point.count))}}/{self._point.count}"
            line = Text.assemble((f"{position}  ", "dim"), _finished_line(summary))
            if self._keeps_lines:
                self._console.print(line, soft_wrap=True, highlight=False)
        self._point = None
        if self._console.is_terminal:
            self._display.refresh()

    def seconds_left(self) -> float:
        """Estimates the rest of the whole plan: later points take as long as the average of those so far."""
        if self._point is None:
            return 0.0
        point = self._point
        running = self._clock() - point.started
        this = max(point.seconds_expected, running)
        mean = (self._seconds_done + this) / (point.index + 1)
        return this - running + mean * (point.count - point.index - 1)

    def _render(self) -> RenderableType:
        if self._point is None:
            return Text()
        return Group(self._overall(), self._now(), *self._figures())

    def _overall(self) -> RenderableType:
        assert self._point is not None
        passed = self._seconds_done + self._clock() - self._point.started
        left = self.seconds_left()
        line = Table.grid(padding=(0, 2))
        line.add_row(
            f"point {self._point.index + 1} of {self._point.count}",
            ProgressBar(total=max(passed + left, 1e-9), completed=passed, width=32, complete_style="cyan"),
            f"{_whole_seconds(left)} left",
        )
        return line

    def _now(self) -> Text:
        assert self._point is not None
        return Text.assemble((self._point.name, "bold"), f"  {self._phase()}")

    def _phase(self) -> str:
        if self._live is None:
            return "starting"
        phase = PHASES.get(self._live.phase, self._live.phase)
        if self._live.phase == "layout" and self._live.layout_bytes_total:
            return f"{phase}: {format_bytes(self._live.layout_bytes)} of {format_bytes(self._live.layout_bytes_total)}"
        return f"{phase}, {self._live.elapsed_ns / SECOND_NS:.1f} s"

    def _figures(self) -> list[Text]:
        assert self._point is not None
        if self._live is None:
            return []
        return [
            Text("  " + _live_line(kind, part, self._point.interval_ns)) for kind, part in self._live.operations.items()
        ]

    def _plain_line(self) -> str:
        if self._point is None:
            return ""
        position = f"point {self._point.index + 1} of {self._point.count}"
        left = f"{_whole_seconds(self.seconds_left())} left"
        figures = [figure.plain.strip() for figure in self._figures()]
        return "; ".join([f"{position} ({left}), {self._point.name}, {self._phase()}", *figures])


def _whole_seconds(seconds: float) -> str:
    return format_duration(round(seconds) * SECOND_NS) if round(seconds) else "0 s"


@dataclass(frozen=True)
class _Point:
    """The running point."""

    index: int
    count: int
    name: str
    seconds_expected: float
    interval_ns: int
    started: float


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


def _live_line(kind: str, part: IntervalKind, interval_ns: int) -> str:
    seconds = interval_ns / SECOND_NS
    return _figures_line(kind, part.operations / seconds, part.bytes / seconds, part.p50_ns, part.p99_ns, part.errors)


def _finished_line(summary: Summary) -> Text:
    if not summary.operations:
        return Text(f"{summary.name}: nothing was measured ({summary.state})", style="red")
    latency = summary.latency
    figures = _figures_line(
        summary.name,
        summary.iops,
        summary.bytes_per_s,
        latency.percentile(50),
        latency.percentile(99),
        summary.errors,
    )
    return Text(figures) + Text("" if summary.state == "finished" else f"  {summary.state}", style="red")


def _figures_line(name: str, iops: float, bytes_per_s: float, p50_ns: int, p99_ns: int, errors: int) -> str:
    line = (
        f"{name:<26} {format_count(iops):>6} IOPS {bytes_per_s / MIB:>9,.1f} MiB/s"
        f"   p50 {format_latency(p50_ns):>8}   p99 {format_latency(p99_ns):>8}"
    )
    return f"{line}   {errors} errors" if errors else line
