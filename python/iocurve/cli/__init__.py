"""The command line: one short function for each command, in modules by subject."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a command and exits with one of the statuses that ``iocurve --help`` lists."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:
        from iocurve._native import VERSION

        print(VERSION)
        sys.exit()
    from iocurve.cli import exits

    exits.open_closed()
    if (information := _quick_information(words)) is not None:
        print(information)
        sys.exit(0 if exits.flush() else exits.EXIT_INCOMPLETE)
    # Everything below takes longer to load than that takes to print.
    from iocurve.measure import interrupts

    try:
        status = _told_status_of(words)
        status = status if exits.flush() else status or exits.EXIT_INCOMPLETE
    except KeyboardInterrupt:
        # A second signal, while the end of the command was under way.
        status = interrupts.exit_status()
    if arguments is None:
        interrupts.leave_at_once()
    sys.exit(status)


def _quick_information(words: list[str]) -> str | None:
    """The text of a command line that only asks for one which needs no more than its module."""
    if words in ([], ["--help"], ["-h"]):
        from iocurve.cli import listing

        columns, styled = listing.terminal()
        return listing.overview(columns, styled=styled)
    from iocurve.dialects.registry import quick_information

    return quick_information(words)


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
    from iocurve.cli.exits import EXIT_INCOMPLETE, complain
    from iocurve.dialects.registry import refusal_status
    from iocurve.foundation.errors import Interrupted, IocurveError
    from iocurve.measure.interrupts import exit_status

    try:
        return _run(words)
    except Interrupted as error:
        complain(error)
        return exit_status()
    except IocurveError as error:
        complain(error)
        return EXIT_INCOMPLETE if error.ran else refusal_status(words)


def _run(arguments: list[str]) -> int:
    """Loads only the modules of one command: a job runs without the command parser, whose import takes longer."""
    from iocurve.dialects.registry import REGISTRY

    if arguments and arguments[0] in REGISTRY:
        from iocurve.cli import dialects

        return dialects.run(arguments[0], arguments[1:])
    if arguments[:1] == ["explain"] and arguments[1:2] and arguments[1] in REGISTRY:
        from iocurve.cli import dialects

        return dialects.explain(arguments[1], arguments[2:])
    from iocurve.cli.commands import run

    return run(arguments)
