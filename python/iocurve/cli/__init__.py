"""The command line: one short function for each command, in modules by subject."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from iocurve._native import VERSION


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a command and exits with one of the statuses that ``iocurve --help`` lists."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:
        print(VERSION)
        sys.exit()
    # Everything below takes longer to load than that takes to print.
    from iocurve.cli import exits
    from iocurve.measure import interrupts

    exits.open_closed()
    try:
        status = _told_status_of(words)
        status = status if exits.flush() else status or exits.EXIT_INCOMPLETE
    except KeyboardInterrupt:
        # A second signal, while the end of the command was under way.
        status = interrupts.exit_status()
    if arguments is None:
        interrupts.leave_at_once()
    sys.exit(status)


def _told_status_of(words: list[str]) -> int:
    """As ``_status_of``, also for a signal, and for what no command can do anything about."""
    from iocurve.cli import exits
    from iocurve.measure import interrupts

    try:
        return _status_of(words)
    except KeyboardInterrupt:
        return interrupts.exit_status()
    except OSError as error:
        if error.filename is not None:
            if not _is_named(str(error.filename), words):
                raise
            print(f"iocurve: {error.filename}: {error.strerror}", file=sys.stderr)
        elif isinstance(error, FileNotFoundError):
            # Only getcwd(2) fails so without a name.
            print("iocurve: the current directory was removed; change to another one", file=sys.stderr)
        else:
            exits.tell_unwritable(error)
    return exits.EXIT_INCOMPLETE


def _is_named(path: str, words: Sequence[str]) -> bool:
    """True for a path that the user wrote, or one below it; others are internal."""
    named = [word.rpartition("=")[2].rstrip("/") for word in words]
    return any(f"/{name}/" in f"/{path}/" for name in named if name)


def _status_of(words: list[str]) -> int:
    """Runs a command; an error becomes a message and an exit status."""
    from iocurve.cli.exits import EXIT_INCOMPLETE, EXIT_USAGE, complain
    from iocurve.foundation.errors import Interrupted, IocurveError
    from iocurve.measure.interrupts import exit_status

    try:
        return _run(words)
    except Interrupted as error:
        complain(error)
        return exit_status()
    except IocurveError as error:
        complain(error)
        return EXIT_INCOMPLETE if error.ran else EXIT_USAGE


def _run(arguments: list[str]) -> int:
    """Loads only the modules of one command: a fio job runs without the command parser, whose import takes longer."""
    from iocurve.dialects.registry import REGISTRY

    if arguments and arguments[0] in REGISTRY:
        from iocurve.cli import dialects

        return dialects.run(arguments[0], arguments[1:])
    from iocurve.cli.commands import run

    return run(arguments)
