"""The command line: one short function for each command, in modules by subject."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from iocurve._native import VERSION

if TYPE_CHECKING:
    from iocurve.errors import IocurveError
    from iocurve.result.document import Result

EXIT_INCOMPLETE = 1
EXIT_USAGE = 2
EXIT_CANNOT_RUN = 3


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a command and exits with one of the statuses that ``iocurve --help`` lists."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:
        print(VERSION)
        sys.exit()
    # Everything below takes longer to load than that takes to print.
    from iocurve.cli import streams
    from iocurve.measure import interrupts

    streams.open_closed()
    try:
        status = _told_status_of(words)
        status = status if streams.flush() else status or EXIT_INCOMPLETE
    except KeyboardInterrupt:
        # A second signal, while the end of the command was under way.
        status = interrupts.exit_status()
    if arguments is None:
        interrupts.leave_at_once()
    sys.exit(status)


def _told_status_of(words: list[str]) -> int:
    """As ``_status_of``, also for a signal, and for what no command can do anything about."""
    from iocurve.cli import streams
    from iocurve.measure import interrupts

    try:
        return _status_of(words)
    except KeyboardInterrupt:
        return interrupts.exit_status()
    except FileNotFoundError as error:
        if error.filename is not None:
            raise
        # Only getcwd(2) fails so without a name.
        print("iocurve: the current directory was removed; change to another one", file=sys.stderr)
    except OSError as error:
        if error.filename is not None:
            raise
        streams.tell_unwritable(error)
    return EXIT_INCOMPLETE


def _status_of(words: list[str]) -> int:
    """Runs a command; an error becomes a message and an exit status."""
    from iocurve.errors import DialectError, Interrupted, IocurveError, PlanError
    from iocurve.measure.interrupts import exit_status

    try:
        return _run(words)
    except (DialectError, PlanError) as error:
        complain(error)
        return EXIT_USAGE
    except Interrupted as error:
        complain(error)
        return exit_status()
    except IocurveError as error:
        complain(error)
        return EXIT_INCOMPLETE


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


def _run(arguments: list[str]) -> int:
    """Loads only the modules of one command: a fio job runs without the command parser, whose import takes longer."""
    from iocurve.dialects.registry import REGISTRY

    if arguments and arguments[0] in REGISTRY:
        from iocurve.cli import dialects

        return dialects.run(arguments[0], arguments[1:])
    from iocurve.cli.commands import run

    return run(arguments)
