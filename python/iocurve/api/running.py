"""A measurement in a thread: live snapshots, a clean stop, the result at the end."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, wait
from contextvars import copy_context
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar, cast

import msgspec

from iocurve.engine.outcome import IntervalKind, Live
from iocurve.engine.plan import FLUSH_KINDS
from iocurve.foundation.errors import Interrupted
from iocurve.foundation.units import MIB, MICROSECOND_NS, SECOND_NS
from iocurve.measure.campaign import Measure
from iocurve.report.progress import NoView, Progress, StartedPoint
from iocurve.report.views import with_observer
from iocurve.result.document import Result
from iocurve.result.summary import Summary

P = ParamSpec("P")
T = TypeVar("T")
AT_EXIT_S = 10.0
"""Longest time for which the end of the program waits for a run that it stops."""


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


class Running(Generic[T]):
    """A function that measures, in a thread.

    Iterating, also with ``async for``, gives a ``Snapshot`` of each reporting interval; a slow reader gets the newest
    one and misses some.
    ``await running`` gives the result, too; when the task is cancelled the run ends in order first. Leaving a ``with``
    block stops a run that still goes on. A stopped run keeps what it measured: the state of its result is
    ``interrupted``.
    """

    def __init__(self, measure: Callable[[], T]) -> None:
        self._watch = Watch()
        self._future: Future[T] = Future()
        self._future.set_running_or_notify_cancel()
        _ALL.add(self)
        # A daemon, because the interpreter waits for other threads before it calls ``_end_all``.
        context = copy_context()
        threading.Thread(target=context.run, args=(self._run, measure), name="iocurve", daemon=True).start()

    def _run(self, measure: Callable[[], T]) -> None:
        _HERE.watch = self._watch
        try:
            found = measure()
        except KeyboardInterrupt:
            self._future.set_exception(Interrupted("the run was stopped before it measured anything"))
        except BaseException as error:  # noqa: BLE001 - raised again where the result is wanted
            self._future.set_exception(error)
        else:
            self._future.set_result(found)
        finally:
            self._watch.end()

    @property
    def done(self) -> bool:
        """True once the run has ended, also with an error."""
        return self._future.done()

    def stop(self) -> None:
        """Requests a clean stop and returns at once; a second call gives the run 0.3 s to end."""
        self._watch.stop()

    def result(self) -> T:
        """Waits for the end; gives what the function returned, or raises what it raised.

        Ctrl-C stops the run cleanly; after a second one ``KeyboardInterrupt`` is raised.
        Raises ``Interrupted`` if the run was stopped before it measured anything.
        """
        try:
            return self._future.result()
        except KeyboardInterrupt:
            self._end()
            return self._future.result()

    def _end(self) -> None:
        """Stops the run and waits for its end; a further Ctrl-C ends the wait."""
        self.stop()
        try:
            wait([self._future])
        except KeyboardInterrupt:
            self.stop()
            raise

    def __iter__(self) -> Iterator[Snapshot]:
        version = 0
        try:
            while (found := self._watch.after(version)) is not None:
                version, snapshot = found
                yield snapshot
        except KeyboardInterrupt:
            self.stop()
            raise
        self._raise_failure()

    async def __aiter__(self) -> AsyncIterator[Snapshot]:
        import asyncio

        version = 0
        try:
            while (found := await asyncio.to_thread(self._watch.after, version)) is not None:
                version, snapshot = found
                yield snapshot
        except asyncio.CancelledError:
            self.stop()
            raise
        self._raise_failure()

    def _raise_failure(self) -> None:
        """Raises the error of the run, unless the run was stopped before it measured anything."""
        error = self._future.exception()
        if error is not None and not (self._watch.is_stopping and isinstance(error, Interrupted)):
            raise error

    def __await__(self) -> Generator[object, None, T]:
        return self._awaited().__await__()

    async def _awaited(self) -> T:
        import asyncio

        future = asyncio.wrap_future(self._future)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            self.stop()
            await asyncio.wait([future])
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.done:
            self._end()
        if error is None:
            self._raise_failure()

    def __repr__(self) -> str:
        return f"<Running: {'ended' if self.done else 'stopping' if self._watch.is_stopping else 'running'}>"


def start(measure: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Running[T]:
    """Starts a function that measures in a thread: ``start(iocurve.run, job, target=directory)``.

    It may be one of iocurve's or one that calls them, several times, too. Its errors are raised where its result is
    wanted. The end of the program stops the run in order.
    """
    return Running(lambda: measure(*args, **kwargs))


def measured(measure: Measure, out: Path | str | None) -> Result:
    """Measures in the thread of the ``Running`` that calls this, or in a new one, which a Ctrl-C then stops.

    With ``out`` the report is written to this directory.
    """
    watch = cast(Watch | None, getattr(_HERE, "watch", None))
    if watch is None:
        return start(measured, measure, out).result()
    view = with_observer(watch)
    if out is None:
        return measure(view, lambda _: None)
    # Loaded here: a run without a report loads nothing that draws one.
    from iocurve.report.page import ReportDirectory

    with ReportDirectory(Path(out)) as directory:
        return directory.finish(measure(view, directory.keep))


_HERE = threading.local()
_ALL: weakref.WeakSet[Running[Any]] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """Stops the runs that still go on, so that they remove their files."""
    running = [one for one in _ALL if not one.done]
    for one in running:
        one.stop()
    wait([one._future for one in running], timeout=AT_EXIT_S)
