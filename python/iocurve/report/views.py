"""The views of a run that are shown together: on the terminal, as a page, as snapshots, and those of other parts."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from pathlib import Path

import msgspec

from iocurve.engine.outcome import IntervalKind, Live
from iocurve.engine.plan import FLUSH_KINDS
from iocurve.foundation.errors import TargetError, option
from iocurve.foundation.units import MIB, MICROSECOND_NS, SECOND_NS
from iocurve.report.progress import METRICS, NoView, PlainView, Progress, StartedPoint, View, whole_seconds
from iocurve.result.summary import Summary

EVENT_EVERY_S = 1.0


def _together(views: Sequence[View]) -> View:
    """Several views of one run as one: each gets every call of a method of ``View``."""
    found = View()
    for name in filter(lambda name: not name.startswith("_"), vars(View)):
        setattr(found, name, partial(_call_each, [getattr(view, name) for view in views]))
    return found


def _call_each(calls: Sequence[Callable[..., None]], *arguments: object) -> None:
    for call in calls:
        call(*arguments)


_FILLS_SCREEN: ContextVar[bool | None] = ContextVar("fills_screen", default=None)
_OBSERVER: ContextVar[View | None] = ContextVar("observer", default=None)


@contextmanager
def observed_by(view: View) -> Iterator[None]:
    """A further view, such as the one that serves metrics, sees all runs that start while the context lasts."""
    token = _OBSERVER.set(with_observer(view))
    try:
        yield
    finally:
        _OBSERVER.reset(token)


@contextmanager
def filling_screen(fills_screen: bool | None) -> Iterator[None]:
    """Runs that start while the context lasts take the whole terminal, or do not; None decides by their length."""
    token = _FILLS_SCREEN.set(fills_screen)
    try:
        yield
    finally:
        _FILLS_SCREEN.reset(token)


def with_observer(view: View) -> View:
    """The view, together with that of ``observed_by``."""
    observer = _OBSERVER.get()
    return _together([view, observer]) if observer else view


@contextmanager
def progress_view(*, keeps_lines: bool = True, quiet: bool = False) -> Iterator[View]:
    """A live view where stderr is a terminal, plain lines elsewhere; nothing if ``quiet``.

    ``keeps_lines`` leaves a line for each finished point. The view of ``observed_by`` sees the run, too.
    """
    with _own_view(keeps_lines=keeps_lines, quiet=quiet) as view:
        yield with_observer(view)


def _own_view(*, keeps_lines: bool, quiet: bool) -> AbstractContextManager[View]:
    if quiet:
        return nullcontext(NoView())
    if not sys.stderr.isatty():
        return nullcontext(PlainView(sys.stderr, keeps_lines=keeps_lines))
    # Only a terminal needs the library that draws on one.
    from iocurve.report.live import TerminalView

    return TerminalView(keeps_lines=keeps_lines, fills_screen=_FILLS_SCREEN.get())


class ServedProgress(Progress):
    """The progress of a run as a page, its events, and the report at the end.

    The measuring thread makes each event once a second; threads that answer browsers only read it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self._next_event = clock()
        self._event = b""
        self._report = ""
        self.ended = threading.Event()

    def update(self, live: Live) -> None:
        """Makes an event of the state of the engine, unless the last one is too young."""
        super().update(live)
        if self._clock() >= self._next_event:
            self._next_event = self._clock() + EVENT_EVERY_S
            self._event = b"data: " + msgspec.json.encode(self._state()) + b"\n\n"

    def report_written(self, path: Path) -> None:
        """Keeps the report for the browsers."""
        self._report = path.read_text(encoding="utf-8")

    def answer(self, path: str) -> tuple[str, Iterable[bytes]] | None:
        """Gives the page or its events."""
        if path == "/":
            from importlib.resources import files

            return "text/html; charset=utf-8", [(files(__package__) / "live.html").read_bytes()]
        return ("text/event-stream", self._events()) if path == "/events" else None

    def _events(self) -> Iterator[bytes]:
        yield self._event
        while not self.ended.wait(EVENT_EVERY_S):
            yield self._event
        yield b"event: end\ndata: " + msgspec.json.encode(self._report) + b"\n\n"

    def _state(self) -> dict[str, object]:
        """All that the page shows."""
        point, left = self._point, self.seconds_left()
        passed = self._seconds_done + self._clock() - self._started
        phase = [self.position() if point else "", self.phase(), f"{whole_seconds(left)} left" if left else ""]
        return {
            "title": point.title if point else "preparing",
            "phase": ", ".join(filter(None, phase)),
            "done": passed / (passed + left) if left else None,
            "rates": [*self.rates(), *self.latencies()],
            "approached": self.approached(),
            "charts": [
                dict(zip(("name", "values", "text"), chart, strict=True))
                for chart in filter(None, map(self.chart, METRICS))
            ],
            "jobs": self.job_rows(),
            "clients": self.client_rows(),
            "finished": [f"{position}  {line}{state}" for position, line, state in self._finished],
            "noise": self.noise(),
        }


@contextmanager
def served_progress(port: int) -> Iterator[str]:
    """Serves a page of the runs that start while the context lasts, on loopback; yields its URL.

    Raises ``TargetError``.
    """
    from iocurve.foundation.serving import http_served

    view = ServedProgress()
    with ExitStack() as stack:
        try:
            url = stack.enter_context(http_served(view.answer, "127.0.0.1", port, is_page=True))
        except OSError as error:
            raise TargetError(f"{option('serve')} {port}: cannot listen on 127.0.0.1: {error.strerror}") from None
        stack.callback(view.ended.set)
        stack.enter_context(observed_by(view))
        yield url


class KindSnapshot(msgspec.Struct, frozen=True):
    """One kind of operation in the newest interval; latencies are service latencies, None without operations."""

    operations: int
    errors: int
    iops: float
    mib_per_s: float
    mean_us: float | None
    p50_us: float | None
    p99_us: float | None
    max_us: float | None

    @classmethod
    def of(cls, part: IntervalKind, interval_ns: int) -> KindSnapshot:
        """The rates and latencies of an interval."""
        seconds, is_known = interval_ns / SECOND_NS, part.operations > 0

        def us(nanoseconds: float | None) -> float | None:
            return nanoseconds / MICROSECOND_NS if is_known and nanoseconds is not None else None

        return cls(
            operations=part.operations,
            errors=part.errors,
            iops=part.operations / seconds,
            mib_per_s=part.bytes / seconds / MIB,
            mean_us=us(part.mean_ns),
            p50_us=us(part.p50_ns),
            p99_us=us(part.p99_ns),
            max_us=us(part.max_ns),
        )


class Snapshot(msgspec.Struct, frozen=True):
    """A run at one moment. Rates and latencies are those of the newest reporting interval, 0 and None before it."""

    point: str
    """Name of the point that runs."""
    number: int
    """Of this point, from 1."""
    count: int | None
    """Number of points; None where a search decides after each point whether another follows."""
    phase: str
    """``layout``, ``prepare``, ``ramp``, ``run`` or ``done``."""
    elapsed_s: float
    """Since the start of the point, or of the phase ``layout``."""
    seconds_left: float
    """Estimated time until the last point ends, its ramp included; 0 where it is unknown."""
    waiting: str | None
    """The server that the run waits for, and why; None if it waits for none."""
    kinds: Mapping[str, KindSnapshot]
    """Each kind of operation by its name: ``read``, ``write``."""

    @property
    def iops(self) -> float:
        """Operations per second of all kinds together, without flushes."""
        return sum(one.iops for one in self._counted())

    @property
    def mib_per_s(self) -> float:
        """Throughput of all kinds together, in MiB/s."""
        return sum(one.mib_per_s for one in self._counted())

    @property
    def errors(self) -> int:
        """Failed operations of all kinds."""
        return sum(one.errors for one in self.kinds.values())

    @property
    def p50_us(self) -> float | None:
        """Median latency; None where several kinds run, whose percentiles do not add up (``kinds`` has them)."""
        return self._only("p50_us")

    @property
    def p99_us(self) -> float | None:
        """99th percentile of the latency; None where several kinds run."""
        return self._only("p99_us")

    def _counted(self) -> list[KindSnapshot]:
        return [one for kind, one in self.kinds.items() if kind not in FLUSH_KINDS]

    def _only(self, name: str) -> float | None:
        counted = self._counted()
        found: float | None = getattr(counted[0], name) if len(counted) == 1 else None
        return found


class Watch(NoView):
    """Shows nothing, keeps the newest snapshot for another thread, and passes requests to stop to the measuring one."""

    def __init__(self) -> None:
        self._progress = Progress()
        self._changed = threading.Condition()
        self._point: StartedPoint | None = None
        self._starts = self._version = 0
        self._is_preparing = self._has_ended = False
        self._place: object = None
        self._newest: Snapshot | None = None
        self._stops = self._stops_passed = 0

    # ---- called by the measuring thread

    def point_started(self, point: StartedPoint) -> None:
        """A point starts. Raises ``KeyboardInterrupt`` if the run is to stop."""
        self._require_wanted()
        self._progress.point_started(point)
        self._point, self._starts = point, self._starts + 1

    def preparing(self, purpose: str | None) -> None:
        """A load that is not measured starts or ends. Raises ``KeyboardInterrupt`` if none is to start."""
        if purpose is not None:
            self._require_wanted()
        self._progress.preparing(purpose)
        self._is_preparing = purpose is not None

    def update(self, live: Live) -> None:
        """Keeps a snapshot of each interval, and of each second before the first.

        Raises ``KeyboardInterrupt`` once for each request to stop: the run then ends as after Ctrl-C.
        """
        if self._stops > self._stops_passed:
            self._stops_passed += 1
            raise KeyboardInterrupt
        point = self._point
        place = (self._starts, live.group, live.intervals or (live.phase, live.elapsed_ns // SECOND_NS))
        if point is None or self._is_preparing or place == self._place:
            return
        self._place = place
        kinds = {kind: KindSnapshot.of(part, point.interval_ns) for kind, part in live.operations.items()}
        snapshot = Snapshot(
            point=point.name,
            number=point.index + 1,
            count=point.count,
            phase=live.phase,
            elapsed_s=live.elapsed_ns / SECOND_NS,
            seconds_left=self._progress.seconds_left(),
            waiting=live.waiting,
            kinds=kinds,
        )
        with self._changed:
            self._newest, self._version = snapshot, self._version + 1
            self._changed.notify_all()

    def turn_finished(self) -> None:
        """The running turn ends."""
        self._progress.turn_finished()

    def point_finished(self, summary: Summary, noise: str | None = None) -> None:
        """The running point ends."""
        del summary, noise
        self._progress.end_point()

    def end(self) -> None:
        """No further snapshot comes."""
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def _require_wanted(self) -> None:
        if self._stops:
            raise KeyboardInterrupt

    # ---- called by other threads

    @property
    def is_stopping(self) -> bool:
        """True once a stop was requested."""
        return self._stops > 0

    def stop(self) -> None:
        """Requests a clean stop; the second request gives the run little time, as a second Ctrl-C does."""
        self._stops += 1

    def after(self, version: int) -> tuple[int, Snapshot] | None:
        """Waits for a snapshot newer than ``version``; None once the run has ended and there is none."""
        with self._changed:
            self._changed.wait_for(lambda: self._version > version or self._has_ended)
            if self._version == version or self._newest is None:
                return None
            return self._version, self._newest
