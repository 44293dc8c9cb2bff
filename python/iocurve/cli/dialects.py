"""Commands that run other tools' jobs. They parse their own arguments, so that they start without a command parser."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from iocurve.cli.exits import EXIT_CANNOT_RUN, status
from iocurve.dialects.registry import SHARED_OPTIONS, load

if TYPE_CHECKING:
    from iocurve.dialects.base import ClusterRequest, ParsedCommand
    from iocurve.measure.machines import Machines


def run(dialect: str, arguments: Sequence[str]) -> int:
    """Runs a command line of a dialect; gives the exit status."""
    from iocurve.measure import interrupts, jobs

    loaded = load(dialect)
    if _has_shared_options(arguments):
        from iocurve.cli import shared

        return shared.run(loaded, arguments)
    interrupts.install()
    result = jobs.run(loaded, arguments, cluster=_clients)
    return 0 if result is None else status(result)


def explain(dialect: str, arguments: Sequence[str]) -> int:
    """Prints the plans of a command line of a dialect; gives the exit status."""
    if tuple(arguments) == ("--help",):
        return run(dialect, arguments)
    from iocurve.measure import interrupts

    loaded = load(dialect)
    if not _has_shared_options(arguments):
        interrupts.install()
        return print_explanation(loaded.prepare(arguments), (dialect, *arguments))
    from iocurve.cli import shared

    interrupts.install()
    return print_explanation(shared.prepared(loaded, arguments), (dialect, *arguments))


def print_explanation(command: ParsedCommand, words: Sequence[str]) -> int:
    """Prints the plans of a command line, and the command that predicts them; gives the exit status.

    Raises ``RunError`` if the engine would refuse a plan.
    """
    from iocurve import _native
    from iocurve.dialects.base import is_predictable

    plans = list(command.plans())
    for plan in plans:
        _native.check_plan(plan.to_json())
    print(command.explanation(), end="")
    if any(map(is_predictable, plans)):
        print(f"\nPredict it: iocurve predict {shlex.join(words)} --profile PROFILE --quota SIZE")
    return EXIT_CANNOT_RUN if command.obstacles else 0


def _has_shared_options(arguments: Sequence[str]) -> bool:
    return any(argument.startswith(SHARED_OPTIONS) for argument in arguments)


@contextmanager
def _clients(asked: ClusterRequest) -> Iterator[Machines]:
    """Agents on the machines that a tool's own words select."""
    from iocurve.cli.machines import CLUSTER
    from iocurve.cli.shared import on_cluster

    with on_cluster(CLUSTER, asked) as group:
        yield group


def _listed(name: str) -> Callable[..., int]:
    """A command that the parser lists and never calls, as ``iocurve.cli`` runs dialects; shells complete paths."""

    def command(*arguments: Path) -> int:
        return run(name, [str(argument) for argument in arguments])

    return command


fio, vdbench, mdtest, elbencho, diskspd = map(_listed, ("fio", "vdbench", "mdtest", "elbencho", "diskspd"))
