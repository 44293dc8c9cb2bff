"""Progress of a run as plain lines: what a log or a pipe gets instead of a live view."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from iocurve.engine.outcome import Live
from iocurve.report.progress import Progress, finished_line, whole_seconds
from iocurve.result.summary import Summary

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
        self._live = live
        if self._clock() >= self._next_line:
            self._next_line = self._clock() + PLAIN_LINE_EVERY_S
            if line := self._line():
                print(line, file=self._out, flush=True)

    def point_finished(self, summary: Summary) -> None:
        """Writes the point that was started last."""
        position = self.end_point()
        if position and self._keeps_lines:
            line, state = finished_line(summary)
            print(f"{position}  {line}{state}", file=self._out, flush=True)

    def _line(self) -> str:
        if self._point is None:
            return "" if self._preparation is None else self.phase()
        left = f" ({whole_seconds(self.seconds_left())} left)" if self._point.count else ""
        return "; ".join([f"{self.position()}{left}, {self._point.title}, {self.phase()}", *self.rates()])
