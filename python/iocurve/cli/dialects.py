"""Commands that run other tools' words. They parse their own arguments, so that they start without a command parser."""

from __future__ import annotations

from collections.abc import Sequence

from iocurve.cli import status
from iocurve.dialects.registry import load


def run(dialect: str, arguments: Sequence[str]) -> int:
    """Runs a command line of a dialect; gives the exit status."""
    from iocurve.measure import jobs

    result = jobs.run(load(dialect), arguments)
    return 0 if result is None else status(result)
