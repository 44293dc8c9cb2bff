"""The progress of a run in words: the current point, its progress and its figures; and the views that show it.

Figures are in fio's units: IOPS with k and M, MiB/s, latencies in µs and ms.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

import msgspec

from iocurve.engine.outcome import IntervalKind, Live
from iocurve.foundation.units import (
    LARGE_BLOCK_BYTES,
    MIB,
    SECOND_NS,
    format_bytes,
    format_count,
    format_duration,
    format_latency,
    format_number,
)
from iocurve.result.caps import Cap
from iocurve.result.host import MachineMeter
from iocurve.result.summary import Summary

CLIENTS_SHOWN = 12
"""Most jobs, and most agents, with an own row in the live view."""
PROCESSORS_FROM = 0.8
"""Least use of the processors of this machine that is shown as a limit."""
_Part = tuple[str, str, int, int]
"""A job or a client: its name and state, and the operations and bytes of its newest interval."""
NAME_COLUMNS = 20
"""Width of names in the live view, whose lines then fit 80 columns."""
POINT_COLUMNS = 26
INTERVALS_KEPT = 600
"""Intervals of a point that the charts of a live view show: ten minutes at one second each."""
NOISE_EVERY_S = 1.0
POINT_COLUMNS_MAX = 37
"""Longer names of points are cut, so that the line of a finished point fits 80 columns."""
METRICS: dict[str, tuple[str, Callable[[float], str]]] = {
    "iops": ("IOPS", format_count),
    "p50_ns": ("p50", format_latency),
    "p99_ns": ("p99", format_latency),
}
"""Charts over time: the metric, its name, and the form of its values."""
PHASES = {
    "layout": "laying out files",
    "prepare": "preparing",
    "ready": "waiting for all clients",
    "ramp": "ramp",
    "run": "running",
    "done": "finishing",
}


class StartedPoint(msgspec.Struct, frozen=True):
    """A point that begins, or one of its turns."""

    index: int
    """From 0."""
    count: int | None
    """Number of points; None where a search decides after each point whether another follows."""
    name: str
    seconds_expected: float
    interval_ns: int = SECOND_NS
    """Reporting interval of its plan."""
    turn: tuple[int, int] = (1, 1)
    """Number of the turn that begins (from 1), and number of turns of the point."""
    is_again: bool = False
    """The point is measured again, because others disturbed it."""
    seconds_planned: float = 0.0
    """Expected time of all points with their turns; 0 where it is unknown."""
    name_columns: int = POINT_COLUMNS
    """Width of the names of all points."""
    caps: tuple[Cap, ...] = ()
    """Known limits of the target."""
    seconds_left: float = 0.0
    """Most time that is left for a search; 0 where that is unknown."""

    @property
    def title(self) -> str:
        """The name, with the turn where there are several."""
        number, turns = self.turn
        turn = [] if turns == 1 else [f"run {number} of {turns}"]
        return ", ".join([self.name, *turn, *(["again (noisy)"] if self.is_again else [])])

    @property
    def size(self) -> float:
        """Part of the point that begins: one turn of several."""
        return 1 / self.turn[1]


TimeChart = tuple[str, Sequence[float], str]
"""The name of a metric, its values over time, and a text of the newest, the least and the largest one."""


class View:
    """Observes a run of several points; this one ignores all of it."""

    def point_started(self, point: StartedPoint) -> None:
        """A point begins, or one of its turns."""

    def preparing(self, purpose: str | None) -> None:
        """A load that is not measured runs for the point, until None is given."""

    def update(self, live: Live) -> None:
        """Gets the state of the engine, several times a second."""

    def turn_finished(self) -> None:
        """The turn that was started last has ended; its point has further turns."""

    def point_finished(self, summary: Summary, noise: str | None = None) -> None:
        """The point that was started last has ended; others disturbed it, or did not."""

    def report_written(self, path: Path) -> None:
        """The report of the run is in this file."""

    def warned(self, text: str) -> None:
        """The point that begins is not planned well."""


class NoView(View):
    """Shows nothing."""


class Progress(View):
    """A view that shows nothing: the current point, its progress and course, and the time left for the plan.

    ``clock`` returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._course: deque[dict[str, IntervalKind]] = deque(maxlen=INTERVALS_KEPT)
        self._intervals, self._interval_s = 0, 1.0
        self._finished: list[tuple[str, str, str]] = []
        """Points that have ended and are not shown yet: position, line, and state."""
        self._meter: MachineMeter | None = None
        self._sampled, self._noise, self._used = 0.0, "", 0.0
        self._point: StartedPoint | None = None
        self._started = 0.0
        self._preparation: str | None = None
        self._live: Live | None = None
        self._seconds_done = 0.0
        self._points_done = 0.0
        self._pace = (0.0, 0.0)
        """Expected and passed seconds of the points so far; the first, which lays out files, counts as expected."""

    def point_started(self, point: StartedPoint) -> None:
        """A point begins, or one of its turns."""
        if point.size == 1:
            # Points that an earlier run measured count as done.
            self._points_done = max(self._points_done, point.index)
        if self._point is not None:
            # The run that was disturbed ends without a finished point.
            self._end_run(self._point)
        self._point, self._started, self._live = point, self._clock(), None
        self._course.clear()
        self._interval_s = point.interval_ns / SECOND_NS

    def update(self, live: Live) -> None:
        """Keeps the state of the engine, and each interval of the point's own load."""
        self._live = live
        if live.intervals != self._intervals and self._preparation is None:
            self._course.append(live.operations)
        self._intervals = live.intervals

    def point_finished(self, summary: Summary, noise: str | None = None) -> None:
        """Ends the point that was started last, and keeps its line."""
        columns = self.name_columns
        if position := self.end_point():
            self._finished.append((position, *finished_line(summary, noise, columns)))

    def preparing(self, purpose: str | None) -> None:
        """A load that is not measured runs for the point, until None is given."""
        self._preparation, self._live = purpose, None

    def turn_finished(self) -> None:
        """Ends the running turn; its point has further turns."""
        self.end_point()

    def end_point(self) -> str:
        """Ends the running point; gives its position, `` 3/26`` or ``3``, or nothing where none runs."""
        point, self._point = self._point, None
        if point is None:
            return ""
        self._end_run(point)
        self._points_done += point.size
        if point.count is None:
            return f"{point.index + 1:>2}"
        return f"{point.index + 1:>{len(str(point.count))}}/{point.count}"

    def _end_run(self, point: StartedPoint) -> None:
        expected, passed = self._pace
        seconds = self._clock() - self._started
        self._seconds_done += seconds
        if not expected:
            seconds = min(seconds, point.seconds_expected)
        self._pace = (expected + (0.0 if point.is_again else point.seconds_expected), passed + seconds)

    def position(self) -> str:
        """``point 3 of 26``, or ``point 3`` of a search; empty for the only point."""
        assert self._point is not None
        if self._point.count == 1:
            return ""
        of = "" if self._point.count is None else f" of {self._point.count}"
        return f"point {self._point.index + 1}{of}"

    def seconds_left(self) -> float:
        """Estimates the rest of the whole plan: later points exceed their expected time as much as those so far.

        Where the time of all is not known, later points take as long as the average of those so far.

        Of a search it is the most time that the search may still take. 0 where nothing runs, or where neither is known.
        """
        point = self._point
        if point is None:
            return 0.0
        running = self._clock() - self._started
        if (count := point.count) is None:
            return max(0.0, point.seconds_left - running)
        this = max(point.seconds_expected, running)
        if point.seconds_planned:
            expected, passed = self._pace
            ahead = point.seconds_planned - expected - (0.0 if point.is_again else point.seconds_expected)
            return this - running + max(0.0, ahead) * (max(1.0, passed / expected) if expected else 1.0)
        with_this = self._points_done + point.size
        mean = (self._seconds_done + this) / with_this
        return this - running + mean * max(0.0, count - with_this)

    @property
    def name_columns(self) -> int:
        """Width of the names of all points."""
        return self._point.name_columns if self._point else POINT_COLUMNS

    def phase(self) -> str:
        """``running, 1.0 s``; of a load that prepares the point its purpose."""
        if self._live is None:
            return self._preparation or "starting"
        if self._live.waiting is not None:
            return self._live.waiting
        phase = PHASES.get(self._live.phase, self._live.phase)
        if self._preparation is not None:
            phase = self._preparation if self._live.phase == "run" else f"{self._preparation}: {phase}"
        if self._live.phase == "layout" and self._live.layout_bytes_total:
            return f"{phase}: {format_bytes(self._live.layout_bytes)} of {format_bytes(self._live.layout_bytes_total)}"
        return f"{phase}, {self._live.elapsed_ns / SECOND_NS:.1f} s"

    def rates(self) -> list[str]:
        """Rates and latencies of the newest interval, a line for each kind of operation."""
        if (measured := self._measured()) is None:
            return []
        live, interval_ns = measured
        return [_live_line(kind, part, interval_ns) for kind, part in live.operations.items()]

    def latencies(self) -> list[str]:
        """Mean and longest latency of the newest interval, and operations in flight by Little's law."""
        if (measured := self._measured()) is None:
            return []
        live, interval_ns = measured
        shown = ((kind, part) for kind, part in live.operations.items() if part.operations)
        return [
            f"{kind:<{NAME_COLUMNS}} mean {format_latency(part.mean_ns or 0):>8}"
            f"   max {format_latency(part.max_ns or 0):>8}"
            f"   {format_number(part.operations * (part.mean_ns or 0) / interval_ns, 3)} in flight"
            for kind, part in shown
        ]

    def approached(self) -> str:
        """The limit that the newest interval is closest to: ``97 % of the target's throughput limit``.

        A limit of each client is compared with the mean of the clients, and the processors of this machine count, too.
        """
        if (measured := self._measured()) is None or self._point is None:
            return ""
        (live, interval_ns), most, text = measured, PROCESSORS_FROM, ""
        if self._used >= most:
            most, text = self._used, f"{100 * self._used:.0f} % of this machine's processors"
        for cap in self._point.caps:
            parts = [part for kind, part in live.operations.items() if cap.kind in ("any", kind)]
            done = sum(part.bytes if cap.quantity == "bytes_per_s" else part.operations for part in parts)
            each = max(1, len(live.clients)) if cap.scope == "client" else 1
            share = done * SECOND_NS / interval_ns / cap.value / each
            if cap.scope == "connection" or cap.quantity == "requests" or share <= (most if text else 0):
                continue
            named = f"target's {cap.text} limit" if cap.scope == "volume" else f"target's limit on {cap.text}"
            most, text = share, f"{100 * share:.0f} % of the {named}"
        return text

    def job_rows(self, rows_max: int = CLIENTS_SHOWN + 1) -> list[str]:
        """The newest rates of each of several jobs, as those of clients."""
        jobs = self._live.jobs if self._live else {}
        parts = [(name, "running", part.operations, part.bytes) for name, part in jobs.items()]
        return self._rows(parts if len(parts) > 1 else [], "jobs", rows_max)

    def client_rows(self, rows_max: int = CLIENTS_SHOWN + 1) -> list[str]:
        """The newest rates of each agent.

        Of more clients than there are rows, those that no longer run and then the slowest are shown, and a count of the
        rest with their mean.
        """
        clients = self._live.clients if self._live else ()
        parts = [(client.host, client.state, client.operations, client.bytes) for client in clients]
        return self._rows(parts, "clients", rows_max)

    def _rows(self, parts: Sequence[_Part], of: str, rows_max: int) -> list[str]:
        if (measured := self._measured()) is None:
            return []
        seconds = measured[1] / SECOND_NS
        if len(parts) <= rows_max:
            return [_part_row(part, seconds) for part in parts]
        first = sorted(parts, key=lambda part: (part[1] == "running", part[3], part[2]))
        shown, rest = first[: rows_max - 1], first[rows_max - 1 :]
        return [*(_part_row(part, seconds) for part in shown), _rest_row(rest, of, seconds)]

    def course(self, metric: str) -> list[float]:
        """Values of all kinds together in each interval so far: ``iops``, or the highest ``p50_ns`` or ``p99_ns``."""
        intervals = [interval.values() for interval in list(self._course)]
        if metric == "iops":
            return [sum(kind.operations for kind in kinds) / self._interval_s for kinds in intervals]
        return [max((getattr(kind, metric) or 0 for kind in kinds), default=0) for kinds in intervals]

    def noise(self) -> str:
        """``processors 93 % busy, other programs and local servers 3 %``, sampled once a second; empty at first."""
        now = self._clock()
        if self._meter and now < self._sampled + NOISE_EVERY_S:
            return self._noise
        use = self._meter and self._meter.use()
        if use and use.others_share is not None:
            steal_percent = 100 * (use.steal_share or 0.0)
            steal = f", the hypervisor {steal_percent:.0f} %" if steal_percent >= 1 else ""
            others = f"other programs and local servers {100 * use.others_share:.0f} %"
            self._used = use.busy_share
            self._noise = f"processors {100 * use.busy_share:.0f} % busy, {others}{steal}"
        self._meter, self._sampled = MachineMeter(), now
        return self._noise

    def chart(self, metric: str) -> TimeChart | None:
        """A metric of ``METRICS`` over the time of the point; None before the first interval."""
        name, form = METRICS[metric]
        if not (values := self.course(metric)):
            return None
        least = min(filter(None, values), default=0)
        text = f"now {form(values[-1])}, {form(least)} to {form(max(values))}"
        return name, values, text

    def _measured(self) -> tuple[Live, int] | None:
        """The state of the point's own load and its interval; figures of another load would look like the point's."""
        if self._point is None or self._live is None or self._preparation is not None:
            return None
        return self._live, self._point.interval_ns


def _part_row(part: _Part, seconds: float) -> str:
    name, state, operations, size = part
    row = _rates_row(name, operations / seconds, size / seconds / MIB)
    return row if state == "running" else f"{row}   {state}"


def _rest_row(parts: Sequence[_Part], of: str, seconds: float) -> str:
    """The jobs or clients without a row, with their mean rates."""
    whole = len(parts) * seconds
    iops, size = sum(part[2] for part in parts) / whole, sum(part[3] for part in parts) / whole
    return f"{_rates_row(f'… {len(parts)} more {of}', iops, size / MIB)} each"


def _rates_row(name: str, iops: float, mib_per_s: float) -> str:
    shown = name if len(name) <= NAME_COLUMNS else f"{name[: NAME_COLUMNS - 1]}…"
    return f"{shown:<{NAME_COLUMNS}} {format_count(iops):>6} IOPS {mib_per_s:>9,.1f} MiB/s"


def finished_line(summary: Summary, noise: str | None = None, name_columns: int = POINT_COLUMNS) -> tuple[str, str]:
    """Figures of a point that has ended, and how it ended where that was before its time or others disturbed it."""
    if not summary.operations:
        return "", f"{summary.name}: nothing was measured ({summary.state})"
    shown = summary.name
    if len(shown) > POINT_COLUMNS_MAX:
        shown = f"{shown[: POINT_COLUMNS_MAX - 1]}…"
    is_large = summary.bytes_per_s >= LARGE_BLOCK_BYTES * summary.iops
    rate = f"{summary.mib_per_s:,.0f} MiB/s" if is_large else f"{format_count(summary.iops)} IOPS"
    columns = min(name_columns, POINT_COLUMNS_MAX)
    figures = f"{shown:<{columns}} {rate:>11}  p99 {format_latency(summary.latency.percentile(99))}"
    if summary.errors:
        figures = f"{figures}  {summary.errors} errors"
    marks = [*([] if summary.state == "finished" else [summary.state]), *(["noisy"] if noise else [])]
    return figures, f"  {', '.join(marks)}" if marks else ""


def whole_seconds(seconds: float) -> str:
    """``20 s``."""
    return format_duration(round(seconds) * SECOND_NS) if round(seconds) else "0 s"


def _live_line(kind: str, part: IntervalKind, interval_ns: int) -> str:
    seconds = interval_ns / SECOND_NS
    if not part.operations:
        # Without operations there are no latencies: 0 ns would be the best of all.
        return f"{kind:<{NAME_COLUMNS}} {'no':>6} operations"
    rates = _rates_row(kind, part.operations / seconds, part.bytes / seconds / MIB)
    line = f"{rates}   p50 {format_latency(part.p50_ns or 0):>8}   p99 {format_latency(part.p99_ns or 0):>8}"
    return f"{line}   {part.errors} errors" if part.errors else line


PLAIN_LINE_EVERY_S = 5.0
"""Interval of plain lines."""


class PlainView(Progress):
    """Writes a line every few seconds, and one for each finished point."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic, *, keeps_lines: bool = True) -> None:
        super().__init__(clock)
        self._out, self._keeps_lines = out, keeps_lines
        self._next_line = clock()

    def update(self, live: Live) -> None:
        """Writes the state of the engine, unless the last line is too young."""
        super().update(live)
        if self._clock() >= self._next_line:
            self._next_line = self._clock() + PLAIN_LINE_EVERY_S
            if line := self._line():
                print(line, file=self._out, flush=True)

    def point_finished(self, summary: Summary, noise: str | None = None) -> None:
        """Writes the point that was started last."""
        super().point_finished(summary, noise)
        for position, line, state in self._finished if self._keeps_lines else ():
            print(f"{position}  {line}{state}", file=self._out, flush=True)
        self._finished.clear()

    def warned(self, text: str) -> None:
        """Writes a line."""
        print(f"warning: {text}", file=self._out)

    def _line(self) -> str:
        if self._point is None:
            return "" if self._preparation is None else self.phase()
        # A log has no columns to align.
        rates = [" ".join(rate.split()) for rate in self.rates()]
        first, *others = filter(None, (self.position(), self._point.title, self.phase()))
        return "; ".join([", ".join([f"{first}{self._left_text()}", *others]), *rates])

    def _left_text(self) -> str:
        left = self.seconds_left()
        return f" ({whole_seconds(left)} left)" if round(left) else ""


AT_KILL: list[Callable[[], None]] = []
"""Called before a signal ends the process at once: what restores the terminal."""
