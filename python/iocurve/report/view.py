"""The views that show the progress of a run.

Views write to stderr, so that stdout has only the output that a program may read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Protocol

from iocurve.engine.outcome import Live
from iocurve.report.progress import PlainView, StartedPoint
from iocurve.result.summary import Summary


class View(Protocol):
    """Observes a run of several points."""

    def point_started(self, point: StartedPoint) -> None:
        """A point begins, or one of its turns."""

    def preparing(self, purpose: str | None) -> None:
        """A load that is not measured runs for the point, until None is given."""

    def update(self, live: Live) -> None:
        """Gets the state of the engine, several times a second."""

    def turn_finished(self) -> None:
        """The turn that was started last has ended; its point has further turns."""

    def point_finished(self, summary: Summary, disturbance: str | None = None) -> None:
        """The point that was started last has ended; others disturbed it, or did not."""


class NoView:
    """Shows nothing."""

    def point_started(self, point: StartedPoint) -> None:
        """Ignored."""

    def preparing(self, purpose: str | None) -> None:
        """Ignored."""

    def update(self, live: Live) -> None:
        """Ignored."""

    def turn_finished(self) -> None:
        """Ignored."""

    def point_finished(self, summary: Summary, disturbance: str | None = None) -> None:
        """Ignored."""


class Together:
    """Several views of one run."""

    def __init__(self, views: Sequence[View]) -> None:
        self._views = views

    def point_started(self, point: StartedPoint) -> None:
        """Passed on."""
        for view in self._views:
            view.point_started(point)

    def preparing(self, purpose: str | None) -> None:
        """Passed on."""
        for view in self._views:
            view.preparing(purpose)

    def update(self, live: Live) -> None:
        """Passed on."""
        for view in self._views:
            view.update(live)

    def turn_finished(self) -> None:
        """Passed on."""
        for view in self._views:
            view.turn_finished()

    def point_finished(self, summary: Summary, disturbance: str | None = None) -> None:
        """Passed on."""
        for view in self._views:
            view.point_finished(summary, disturbance)


_OBSERVER: ContextVar[View | None] = ContextVar("observer", default=None)


@contextmanager
def observed_by(view: View) -> Iterator[None]:
    """A further view, such as the one that serves metrics, sees all runs that start while the context lasts."""
    token = _OBSERVER.set(view)
    try:
        yield
    finally:
        _OBSERVER.reset(token)


def with_observer(view: View) -> View:
    """The view, together with that of ``observed_by``."""
    observer = _OBSERVER.get()
    return Together([view, observer]) if observer else view


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

    return TerminalView(keeps_lines=keeps_lines)
