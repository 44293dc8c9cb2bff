"""Signals that end a run: Ctrl-C (INT), TERM and HUP.

The first signal asks for a clean end, the second for an end at once; both arrive as ``KeyboardInterrupt``. Both wait
while a result is written (``deferred``). A third signal ends the process.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from types import FrameType
from typing import ParamSpec

P = ParamSpec("P")

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
POLITE_MAX = 2
"""Signals that leave the process the time to write its result."""


class _Signals:
    """The signals that the process has received."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self.are_deferred = self.is_one_pending = self.are_over = False

    def handle(self, number: int, _frame: FrameType | None) -> None:
        self.received.append(number)
        if self.are_over:
            os._exit(exit_status())
        elif len(self.received) > POLITE_MAX:
            # Loaded long ago where there is a terminal to restore.
            from iocurve.report.progress import AT_KILL

            for restore in AT_KILL:
                restore()
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif self.are_deferred:
            self.is_one_pending = True
        else:
            raise KeyboardInterrupt


_signals = _Signals()


def install() -> None:
    """Lets the ending signals raise ``KeyboardInterrupt``. A signal that the process ignores (nohup) stays ignored.

    Call this when the modules of a command are loaded: Python drops an exception that a signal raises while it releases
    the lock of an import. Until then a signal ends the process.
    """
    # msgspec loads datetime from C and overlooks an exception there: the signal would be lost, and the first value that
    # msgspec reads would end the process with SIGSEGV.
    import_module("datetime")
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _signals.handle)


@contextmanager
def restored() -> Iterator[None]:
    """Restores the handlers that a library replaces in the context: Ray ends a process at once on TERM."""
    handlers = {number: signal.getsignal(number) for number in ENDING}
    try:
        yield
    finally:
        # Only the main thread may set handlers, and no other can replace them.
        if _is_main_thread():
            for number, handler in handlers.items():
                signal.signal(number, handler)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def exit_status() -> int:
    """The exit status of a run that was interrupted: 128 and the number of the first signal, as in a shell."""
    return 128 + next(iter(_signals.received), signal.SIGINT)


def leave_at_once() -> None:
    """Ends the process at any further signal, with the status of the first one. Call this when nothing is left to do.

    An exception would leave ``python -m`` with the status of SIGINT, whatever the signal.
    """
    _signals.are_over = True


@contextmanager
def deferred() -> Iterator[None]:
    """Lets signals wait while the context lasts, so that what was measured is written whole.

    Signals arrive in the main thread: in another thread neither this nor ``delivered`` changes anything.
    """
    if not _is_main_thread():
        yield
        return
    before, _signals.are_deferred = _signals.are_deferred, True
    try:
        yield
    finally:
        _signals.are_deferred = before


@contextmanager
def delivered() -> Iterator[None]:
    """Inside ``deferred``: raises ``KeyboardInterrupt`` at a signal while the context lasts, or at one that waits."""
    if not _is_main_thread():
        yield
        return
    before, _signals.are_deferred = _signals.are_deferred, False
    try:
        if _signals.is_one_pending:
            _signals.is_one_pending = False
            raise KeyboardInterrupt
        yield
    finally:
        _signals.are_deferred = before


def undivided(write: Callable[P, None]) -> Callable[P, None]:
    """The same function, during which signals wait; it raises ``KeyboardInterrupt`` when it has ended.

    A second signal would end the removal of the temporary file that the first one left.
    """

    @wraps(write)
    def whole(*args: P.args, **kwargs: P.kwargs) -> None:
        with deferred():
            write(*args, **kwargs)
        if not _signals.are_deferred:
            with delivered():
                pass

    return whole
