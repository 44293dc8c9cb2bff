"""The command line: one short function a command, in modules by what they are about."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from iocurve.cli import disk, measuring, tools, volumes
from iocurve.cli.common import EXIT_INCOMPLETE, EXIT_INTERRUPTED, EXIT_MISTAKE, app, complain
from iocurve.errors import Interrupted, IocurveError, TargetError

__all__ = ["app", "disk", "main", "measuring", "tools", "volumes"]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a command and exits: 0 all measured, 1 cut short, 2 a mistake in what was asked, 130 Ctrl-C."""
    try:
        status = app(arguments, result_action="return_value")
    except TargetError as error:
        complain(error)
        status = EXIT_INCOMPLETE
    except Interrupted as error:
        complain(error)
        status = EXIT_INTERRUPTED
    except IocurveError as error:
        complain(error)
        status = EXIT_MISTAKE
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has seen enough.
        status = EXIT_INCOMPLETE
    sys.exit(status or 0)
