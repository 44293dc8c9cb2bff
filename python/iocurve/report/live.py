"""The live view of a run on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live as Display
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from iocurve.engine.outcome import Live
from iocurve.report.progress import CLIENTS_SHOWN, Progress, finished_line, whole_seconds
from iocurve.result.summary import Summary

REDRAW_EVERY_S = 0.1
OTHER_LINES = 5
"""Lines of the view above the rates, and below for the cursor."""


class TerminalView(Progress):
    """Shows the running point, the progress of the whole plan and the latest rates, redrawn in place."""

    def __init__(
        self,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        keeps_lines: bool = True,
    ) -> None:
        super().__init__(clock)
        self._console, self._keeps_lines = console or Console(stderr=True), keeps_lines
        self._next_draw = clock()
        self._display = Display(console=self._console, get_renderable=self._render, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        self._display.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._point = None
        self._display.stop()

    def update(self, live: Live) -> None:
        """Shows the state of the engine. Call it as often as you like: the view redraws at its own pace."""
        self._live = live
        if self._clock() >= self._next_draw:
            self._next_draw = self._clock() + REDRAW_EVERY_S
            self._display.refresh()

    def point_finished(self, summary: Summary, disturbance: str | None = None) -> None:
        """Prints a line that stays for the point that was started last."""
        columns = self.name_columns
        position = self.end_point()
        if position and self._keeps_lines:
            line, state = finished_line(summary, disturbance, columns)
            text = Text.assemble((f"{position}  ", "dim"), line, (state, "red"))
            self._console.print(text, soft_wrap=True, highlight=False)
        self._display.refresh()

    def _render(self) -> RenderableType:
        if self._point is None:
            return Text("" if self._preparation is None else self.phase())
        name = Text(self._point.title, "bold")
        phase = Text(f"  {self.phase()}", no_wrap=True, overflow="ellipsis")
        rates = self.rates()
        # The view must fit the terminal: rich cuts off the last lines, or scrolls.
        rows_max = min(CLIENTS_SHOWN + 1, self._console.height - len(rates) - OTHER_LINES)
        clients = [Text(f"  {row}", no_wrap=True, overflow="ellipsis") for row in self.client_rows(max(2, rows_max))]
        return Group(*self._overall(), name, phase, *(Text(f"  {line}") for line in rates), *clients)

    def _overall(self) -> list[RenderableType]:
        """The position and the progress of the plan; nothing for the only point if its time is unknown."""
        passed = self._seconds_done + self._clock() - self._started
        left, position = self.seconds_left(), self.position()
        if not left:
            return [Text(position)] if position else []
        line = Table.grid(padding=(0, 2))
        line.add_row(
            *([position] if position else []),
            ProgressBar(total=max(passed + left, 1e-9), completed=passed, width=32, complete_style="cyan"),
            f"{whole_seconds(left)} left",
        )
        return [line]
