"""The command line: one short function for each command, in modules by subject."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from iocurve import _native

if TYPE_CHECKING:
    from iocurve.errors import IocurveError
    from iocurve.result.document import Result

EXIT_INCOMPLETE = 1
EXIT_MISTAKE = 2
EXIT_CANNOT_RUN = 3
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a command and exits with one of the statuses that ``iocurve --help`` lists."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:
        print(_native.VERSION)
        sys.exit()
    # Everything below takes longer to load than that takes to print.
    from iocurve.errors import DialectError, Interrupted, IocurveError, PlanError

    try:
        status = _run(words)
    except (DialectError, PlanError) as error:
        complain(error)
        status = EXIT_MISTAKE
    except Interrupted as error:
        complain(error)
        status = EXIT_INTERRUPTED
    except IocurveError as error:
        complain(error)
        status = EXIT_INCOMPLETE
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has seen enough.
        status = EXIT_INCOMPLETE
    sys.exit(status)


def complain(error: IocurveError) -> None:
    """Prints what is wrong."""
    print(f"iocurve: {error}", file=sys.stderr)


def status(result: Result) -> int:
    """The exit status of a measurement; the reason why one is incomplete goes to stderr."""
    if result.state == "finished":
        return 0
    print(f"iocurve: incomplete: {result.incomplete_reason}", file=sys.stderr)
    return EXIT_INTERRUPTED if result.state == "interrupted" else EXIT_INCOMPLETE


def _run(arguments: list[str]) -> int:
    """Loads only the modules of one command: a fio job runs without the command parser, whose import takes longer."""
    from iocurve.dialects.registry import REGISTRY

    if arguments and arguments[0] in REGISTRY:
        from iocurve.cli import dialects

        return dialects.run(arguments[0], arguments[1:])
    from iocurve.cli.commands import run

    return run(arguments)
