"""The live view of a run on a terminal: a few lines in place, or the whole screen for a run that takes long."""

from __future__ import annotations

import io
import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from types import FrameType, TracebackType
from typing import Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live as Display
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from iocurve.engine.outcome import Live
from iocurve.report.progress import AT_KILL, CLIENTS_SHOWN, Progress, StartedPoint, whole_seconds
from iocurve.result.summary import Summary

REDRAW_EVERY_S = 0.25
SCREEN_EVERY_S = 1.0
SCREEN_FROM_S = 10.0
"""Least length of a run that takes the whole screen by default."""
OTHER_LINES = 5
"""Lines of the view above the rates, and below for the cursor."""
FINISHED_SHOWN = 4
"""Most lines of finished points on the whole screen; they are all printed at the end."""
ROWS_WITH_FINISHED = 20
"""Least rows of a terminal that show finished points."""
BAR_COLUMNS = 32
CHART_ROWS_MIN = 5
MESSAGE_BYTES = 400
EIGHTHS = " ▁▂▃▄▅▆▇█"
PAGES = {
    "r": ("rate", ("iops", "p99_ns")),
    "l": ("latency", ("p50_ns", "p99_ns")),
    "j": ("jobs", ("iops",)),
    "c": ("clients", ("iops",)),
}
"""Pages of the screen by key: the name and the charts."""


class TerminalView(Progress):
    """Shows the running point, the progress of the whole plan and the latest rates, redrawn in place.

    ``fills_screen`` takes the whole screen for any run, or for none; None decides by the expected length. On the whole
    screen single keys act, and what others write to the terminal appears when the run has ended.
    """

    def __init__(
        self,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        keeps_lines: bool = True,
        fills_screen: bool | None = None,
    ) -> None:
        super().__init__(clock)
        # The console keeps its stream when that of the process is held back.
        self._console, self._keeps_lines = console or Console(file=sys.stderr), keeps_lines
        self._begun = self._next_draw = clock()
        self._fills_screen, self._page, self._is_paused, self._is_ending = fills_screen, "r", False, False
        self._held: dict[str, tuple[TextIO, io.TextIOWrapper, io.BytesIO]] = {}
        """The streams of the process, those that stand for them, and what was written to these."""
        self._terminal: list[int | list[bytes | int]] | None = None
        """The settings of the terminal before keys acted."""
        self._size, self._is_full = self._console.size, False
        self._display = self._in_place()

    def _in_place(self) -> Display:
        return Display(
            console=self._console,
            get_renderable=self._render,
            auto_refresh=False,
            transient=True,
            # A file or a pipe gets the output, not the terminal that shows the view.
            redirect_stdout=sys.stdout.isatty(),
        )

    def __enter__(self) -> Self:
        self._display.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._point = None
        self._leave_screen()
        self._display.stop()

    def point_started(self, point: StartedPoint) -> None:
        """A point begins, or one of its turns."""
        super().point_started(point)
        if self._wants_screen():
            self._take_screen()

    def update(self, live: Live) -> None:
        """Shows the state of the engine. Call it as often as you like: the view redraws at its own pace."""
        super().update(live)
        if self._wants_screen():
            self._take_screen()
        is_due = self._clock() >= self._next_draw and not self._is_paused
        if self._acted_on_keys() or is_due or self._is_resized():
            self._next_draw = self._clock() + (SCREEN_EVERY_S if self._is_full else REDRAW_EVERY_S)
            self._display.refresh()

    def point_finished(self, summary: Summary, noise: str | None = None) -> None:
        """Prints a line that stays for the point that was started last; on the whole screen, when that is left."""
        super().point_finished(summary, noise)
        if not self._is_full:
            self._print_finished()
        if not self._is_paused:
            self._display.refresh()

    def warned(self, text: str) -> None:
        """Writes a line to stderr, which the whole screen holds back."""
        print(f"warning: {text}", file=sys.stderr)

    def _print_finished(self) -> None:
        for line in self._finished_lines() if self._keeps_lines else ():
            self._console.print(line, soft_wrap=True, highlight=False)
        self._finished.clear()

    def _finished_lines(self, at_most: int = 0) -> list[Text]:
        """The lines of the last points, of all of them for 0."""
        shown = self._finished[-at_most:]
        return [Text.assemble((f"{position}  ", "dim"), line, (state, "red")) for position, line, state in shown]

    # ---- the screen

    def _wants_screen(self) -> bool:
        if self._is_full or self._fills_screen is False or not self._display.is_started:
            return False
        seconds = self._clock() - self._begun + self.seconds_left()
        is_long = seconds > SCREEN_FROM_S and _is_in_foreground() and not self._console.is_dumb_terminal
        return self._fills_screen or is_long

    def _take_screen(self) -> None:
        """Enters the alternate screen; holds back what others write to the terminal, and lets single keys act."""
        self._display.stop()
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream.isatty():
                held = io.BytesIO()
                self._held[name] = stream, io.TextIOWrapper(held, encoding="utf-8", write_through=True), held
                setattr(sys, name, self._held[name][1])
        self._display = Display(
            console=self._console,
            get_renderable=self._render_screen,
            auto_refresh=False,
            screen=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._is_full = True
        AT_KILL.append(self._stop_screen)
        self._start_screen()

    def _start_screen(self) -> None:
        with suppress(OSError, ValueError, termios.error):
            signal.signal(signal.SIGTSTP, self._suspend)
            self._terminal = termios.tcgetattr(sys.stdin)
            tty.setcbreak(sys.stdin)
        self._display.start(refresh=True)

    def _stop_screen(self) -> None:
        self._display.stop()
        if self._terminal is not None:
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._terminal)
            self._terminal = None

    def _suspend(self, _number: int, _frame: FrameType | None) -> None:
        """Ctrl-Z: the shell gets a whole terminal, and the view its screen when the process goes on."""
        self._stop_screen()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        if _is_in_foreground():
            self._start_screen()

    def _leave_screen(self) -> None:
        """Restores the terminal, and prints what was held back."""
        if not self._is_full:
            return
        self._stop_screen()
        self._is_full = False
        AT_KILL.remove(self._stop_screen)
        for name, (stream, _, held) in self._held.items():
            setattr(sys, name, stream)
            stream.write(held.getvalue().decode())
            stream.flush()
        self._held.clear()
        self._print_finished()

    # ---- keys

    def _acted_on_keys(self) -> bool:
        """Acts on the keys that were pressed; False without one."""
        keys = ""
        if self._terminal is not None:
            with suppress(OSError, ValueError):
                while select.select([sys.stdin], [], [], 0)[0] and (read := os.read(sys.stdin.fileno(), 32)):
                    keys += read.decode(errors="replace").lower()
        for key in keys:
            self._press(key)
        return bool(keys)

    def _press(self, key: str) -> None:
        if key in PAGES:
            self._page = key
        elif key == "p":
            self._is_paused = not self._is_paused
        elif key == "q" and not self._is_ending:
            self._is_ending = True
            signal.raise_signal(signal.SIGINT)

    def _is_resized(self) -> bool:
        before, self._size = self._size, self._console.size
        return self._size != before

    # ---- what is drawn

    def _render(self) -> RenderableType:
        if self._point is None:
            return Text("" if self._preparation is None else self.phase())
        name = Text(self._point.title, "bold")
        phase = Text(f"  {self.phase()}", no_wrap=True, overflow="ellipsis")
        rates = self.rates()
        # The view must fit the terminal: rich cuts off the last lines, or scrolls.
        free = self._console.height - len(rates) - OTHER_LINES
        clients = self.client_rows(max(2, min(CLIENTS_SHOWN + 1, free)))
        jobs = self.job_rows(min(CLIENTS_SHOWN + 1, free - len(clients))) if free - len(clients) > 1 else []
        rows = [Text(f"  {row}", no_wrap=True, overflow="ellipsis") for row in (*jobs, *clients)]
        return Group(*self._overall(), name, phase, *(Text(f"  {line}") for line in rates), *rows)

    def _overall(self) -> list[RenderableType]:
        """The position and the progress of the plan; nothing for the only point if its time is unknown."""
        passed = self._seconds_done + self._clock() - self._started
        left, position = self.seconds_left(), self.position()
        if not left:
            return [Text(position)] if position else []
        line = Table.grid(padding=(0, 2))
        line.add_row(
            *([position] if position else []),
            ProgressBar(total=max(passed + left, 1e-9), completed=passed, width=BAR_COLUMNS, complete_style="cyan"),
            f"{whole_seconds(left)} left",
        )
        return [line]

    def _render_screen(self) -> RenderableType:
        """All lines of the screen: what runs, its rates, charts or clients, what has ended, this machine, the keys."""
        columns, rows = self._console.size
        title, shown = PAGES[self._page]
        top = [
            Text(f"iocurve · {title}" if self._point is None else self._point.title, "bold"),
            *(self._overall() if self._point else []),
            Text(self.phase()),
            *map(Text, self.rates()),
            Text(self.approached(), "dim"),
        ]
        bottom = [Text(self._last_message(), "yellow"), Text(self.noise(), "dim"), self._key_line()]
        ended = self._finished_lines(FINISHED_SHOWN) if rows >= ROWS_WITH_FINISHED else []
        free = rows - len(top) - len(bottom) - len(ended) - (1 if ended else 0)
        body = []
        rows_max = max(2, free - CHART_ROWS_MIN)
        if title == "clients":
            body = [Text(row) for row in self.client_rows(rows_max) or ["This machine is the only client."]]
        elif title == "jobs":
            body = [Text(row) for row in self.job_rows(rows_max) or ["All load is of one job."]]
        elif title == "latency":
            body = [Text(line) for line in self.latencies()]
        body += self._charts(shown, columns, free - len(body))
        padding = [Text()] * (free - len(body))
        return Group(*top, *body, *padding, *([*ended, Text()] if ended else []), *bottom)

    def _charts(self, metrics: Sequence[str], columns: int, rows: int) -> list[Text]:
        """A chart of each metric over time in equal parts of the rows, below its newest, least and largest value."""
        lines: list[Text] = []
        for name, values, text in filter(None, map(self.chart, metrics)):
            lines.append(Text(f"{name} over time: {text}", "dim"))
            lines += [Text(line, "cyan") for line in bars(values, columns, max(1, rows // len(metrics) - 1))]
        return lines

    def _last_message(self) -> str:
        """The last line that others wrote to stderr."""
        written = self._held["stderr"][2].getvalue() if "stderr" in self._held else b""
        return written[-MESSAGE_BYTES:].decode(errors="replace").rstrip().rpartition("\n")[2]

    def _key_line(self) -> Text:
        keys = [f"{key} {name}" for key, (name, _) in PAGES.items()]
        keys += ["p go on" if self._is_paused else "p pause", "ending" if self._is_ending else "q end"]
        return Text.assemble((f" {' · '.join(keys)} ", "reverse"))


def bars(values: Sequence[float], columns: int, rows: int = 1) -> list[str]:
    """Bars from zero to the largest value, from left to right; the mean of several values where these are more.

    Gives the lines from the top.
    """
    if len(values) > columns:
        edges = [place * len(values) // columns for place in range(columns + 1)]
        values = [sum(values[low:high]) / (high - low) for low, high in pairwise(edges)]
    most = max(values, default=0) or 1
    heights = [round(value / most * 8 * rows) for value in values]
    return ["".join(EIGHTHS[min(8, max(0, height - 8 * row))] for height in heights) for row in reversed(range(rows))]


def _is_in_foreground() -> bool:
    """True if keys of the terminal reach this process: in the background it would fight the shell for the screen."""
    with suppress(OSError, ValueError):
        return os.isatty(sys.stdin.fileno()) and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    return False
