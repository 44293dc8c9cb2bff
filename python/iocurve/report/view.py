"""The views that show the progress of a run.

Views write to stderr, so that stdout has only the output that a program may read.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from iocurve.engine.outcome import Live
from iocurve.report.plain import PlainView
from iocurve.result.summary import Summary
from iocurve.units import SECOND_NS


class View(Protocol):
    """Observes a run of several points."""

    def point_started(
        self,
        index: int,
        count: int | None,
        name: str,
        seconds_expected: float,
        interval_ns: int = SECOND_NS,
        turn: tuple[int, int] = (1, 1),
    ) -> None:
        """Point ``index`` (from 0) of ``count`` begins; ``interval_ns`` is the reporting interval of its plan.

        A search does not know ``count`` before its end. ``turn`` is the number of the turn that begins (from 1), and
        the number of turns of the point.
        """

    def update(self, live: Live) -> None:
        """Gets the state of the engine, several times a second."""

    def turn_finished(self) -> None:
        """The turn that was started last has ended; its point has further turns."""

    def point_finished(self, summary: Summary) -> None:
        """The point that was started last has ended."""


class NoView:
    """Shows nothing."""

    def point_started(
        self,
        index: int,
        count: int | None,
        name: str,
        seconds_expected: float,
        interval_ns: int = SECOND_NS,
        turn: tuple[int, int] = (1, 1),
    ) -> None:
        """Ignored."""

    def update(self, live: Live) -> None:
        """Ignored."""

    def turn_finished(self) -> None:
        """Ignored."""

    def point_finished(self, summary: Summary) -> None:
        """Ignored."""


def progress_view(*, keeps_lines: bool = True, quiet: bool = False) -> AbstractContextManager[View]:
    """A live view where stderr is a terminal, plain lines elsewhere; nothing if ``quiet``.

    ``keeps_lines`` leaves a line for each finished point.
    """
    if quiet:
        return nullcontext(NoView())
    if not sys.stderr.isatty():
        return nullcontext(PlainView(sys.stderr, keeps_lines=keeps_lines))
    # Only a terminal needs the library that draws on one.
    from iocurve.report.live import LiveView

    return LiveView(keeps_lines=keeps_lines)
