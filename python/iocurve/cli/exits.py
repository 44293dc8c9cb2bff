"""The end of a command: exit statuses, messages, and standard streams that are closed, full or of a narrow encoding."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iocurve.foundation.errors import IocurveError
    from iocurve.result.document import Result

EXIT_INCOMPLETE = 1
EXIT_USAGE = 2
EXIT_CANNOT_RUN = 3
STDOUT, STDERR = 1, 2


def open_closed() -> None:
    """Gives closed standard streams a descriptor, so that no file of the run takes their place.

    Writing to a closed stdout then fails as it does in other tools. A character that the encoding of stdout lacks is
    written as a question mark.
    """
    for number in (0, STDOUT, STDERR):
        try:
            os.fstat(number)
        except OSError:
            # The lowest descriptor that is free is this one. Only stderr may be written to.
            os.open(os.devnull, os.O_WRONLY if number == STDERR else os.O_RDONLY)
    if sys.stdout is None:
        sys.stdout = os.fdopen(STDOUT, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(STDERR, "w", encoding="utf-8", closefd=False)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def flush() -> bool:
    """Writes out what stdout still holds; False if that fails."""
    try:
        sys.stdout.flush()
    except OSError as error:
        tell_unwritable(error)
        return False
    return True


def tell_unwritable(error: OSError) -> None:
    """Prints why stdout cannot be written, unless its reader has seen enough, and drops what it still holds."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT)
    if not isinstance(error, BrokenPipeError):
        print(f"iocurve: stdout cannot be written: {error.strerror}", file=sys.stderr)


def complain(error: IocurveError) -> None:
    """Prints what is wrong."""
    print(f"iocurve: {error}", file=sys.stderr)


def status(result: Result) -> int:
    """The exit status of a measurement. What could not be done, and why a result is incomplete, goes to stderr."""
    from iocurve.measure.interrupts import exit_status

    undone = [note.text for note in result.notes if note.level == "error"]
    for text in undone:
        print(f"iocurve: {text}", file=sys.stderr)
    if result.state == "finished":
        return EXIT_INCOMPLETE if undone else 0
    print(f"iocurve: incomplete: {result.incomplete_reason}", file=sys.stderr)
    return exit_status() if result.state == "interrupted" else EXIT_INCOMPLETE
