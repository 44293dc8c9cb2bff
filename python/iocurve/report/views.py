"""The views of a run that are shown together: on the terminal, as a page, and those that other parts add."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from threading import Event

import msgspec

from iocurve.engine.outcome import Live
from iocurve.foundation.errors import TargetError, option
from iocurve.report.progress import METRICS, NoView, PlainView, Progress, View, whole_seconds

EVENT_EVERY_S = 1.0


class _Together(View):
    """Several views of one run: each gets every call of a method of ``View``."""

    def __init__(self, views: Sequence[View]) -> None:
        for name in filter(lambda name: not name.startswith("_"), vars(View)):
            setattr(self, name, partial(_call_each, [getattr(view, name) for view in views]))


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
    return _Together([view, observer]) if observer else view


@contextmanager
def progress_view(*, keeps_lines: bool = True, quiet: bool = False) -> Iterator[View]:
    """A live view where stderr is a terminal, plain lines elsewhere; nothing if ``quiet``.

    ``keeps_lines`` leaves a line for each finished point. The view of ``observed_by`` sees the run, too.
    """
    with _shown(keeps_lines=keeps_lines, quiet=quiet) as view:
        yield with_observer(view)


def _shown(*, keeps_lines: bool, quiet: bool) -> AbstractContextManager[View]:
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
        self.ended = Event()

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
            "charts": [chart for metric in METRICS if (chart := self.chart(metric))],
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
