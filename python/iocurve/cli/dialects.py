"""Commands that run other tools' jobs. They parse their own arguments, so that they start without a command parser."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from iocurve.cli.exits import status
from iocurve.dialects.registry import SHARED_OPTIONS, load

if TYPE_CHECKING:
    from iocurve.dialects.base import ClusterRequest
    from iocurve.measure.machines import Machines


def run(dialect: str, arguments: Sequence[str]) -> int:
    """Runs a command line of a dialect; gives the exit status."""
    from iocurve.measure import interrupts, jobs

    loaded = load(dialect)
    if any(argument.startswith(SHARED_OPTIONS) for argument in arguments):
        from iocurve.cli import shared

        return shared.run(loaded, arguments)
    interrupts.install()
    result = jobs.run(loaded, arguments, cluster=_clients)
    return 0 if result is None else status(result)


@contextmanager
def _clients(asked: ClusterRequest) -> Iterator[Machines]:
    """Load clients on the machines that a tool's own words select."""
    from iocurve.cli.machines import CLUSTER
    from iocurve.cli.shared import on_cluster

    with on_cluster(CLUSTER, asked) as group:
        yield group


def fio(*arguments: Path) -> int:
    """As ``run``. The command parser lists this function but never calls it; shells complete paths."""
    return run("fio", [str(argument) for argument in arguments])


def vdbench(*arguments: Path) -> int:
    """As ``fio``."""
    return run("vdbench", [str(argument) for argument in arguments])


def mdtest(*arguments: Path) -> int:
    """As ``fio``."""
    return run("mdtest", [str(argument) for argument in arguments])


def elbencho(*arguments: Path) -> int:
    """As ``fio``."""
    return run("elbencho", [str(argument) for argument in arguments])


def diskspd(*arguments: Path) -> int:
    """As ``fio``."""
    return run("diskspd", [str(argument) for argument in arguments])
