"""A measurement in a thread: live snapshots, served metrics, a clean stop, the result at the end."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar, cast

from iocurve.foundation.errors import Interrupted, argument_of, options_written_as
from iocurve.measure.campaign import Measure
from iocurve.report.views import Snapshot, Watch, observed_by, with_observer
from iocurve.result.document import Result

P = ParamSpec("P")
T = TypeVar("T")
AT_EXIT_S = 10.0
"""Longest time for which the end of the program waits for a run that it stops."""


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


@contextmanager
def metrics(port: int = 0, host: str = "127.0.0.1") -> Iterator[str]:
    """Serves OpenMetrics of all measurements that start in the block; gives the URL. Port 0 is any free one.

    Raises ``TargetError`` if the port cannot be listened on.
    """
    # The library of metrics takes a while to load.
    from iocurve.report.metrics import RunMetrics
    from iocurve.result.openmetrics import metrics_server

    seen = RunMetrics()
    with ExitStack() as stack:
        with options_written_as(argument_of):
            url = stack.enter_context(metrics_server(seen, host, port))
        stack.enter_context(observed_by(seen))
        yield url


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
