"""Options of iocurve on the command lines of other tools: they are taken out before the tool's own rules apply."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from iocurve.analysis.check_names import Vocabulary
from iocurve.cli import checks, status
from iocurve.cli.checks import CheckOptions
from iocurve.cli.common import served_metrics
from iocurve.cli.dialects import SHARED
from iocurve.cli.quantities import parse_metrics_address
from iocurve.dialects.base import Dialect
from iocurve.errors import COMMAND_LINE, Diagnostic, DialectError
from iocurve.measure import interrupts, jobs

if TYPE_CHECKING:
    from iocurve.analysis.check_expressions import Expression


def run(dialect: Dialect, arguments: Sequence[str], clients: jobs.OpenCluster) -> int:
    """Runs a command line of a dialect that has options of iocurve; gives the exit status.

    The checks go to stderr: stdout has the output of the tool. Raises ``DialectError`` and ``TargetError``.
    """
    own, rest, numbers = split(arguments)
    options = CheckOptions(
        fail_if=tuple(own["--fail-if"]), junit=_path(own["--junit"]), markdown=_path(own["--markdown"])
    )
    expressions: list[Expression] = []
    is_checked = any(own[option] for option in ("--fail-if", "--junit", "--markdown"))

    interrupts.install()
    with served_metrics(_place(own["--metrics"])), _numbered(numbers):
        result = jobs.run(
            dialect,
            rest,
            cluster=clients,
            before_run=(lambda plans: expressions.extend(options.parsed(Vocabulary.of_plans(plans))))
            if is_checked
            else None,
        )
    if result is None:
        return 0
    checked = checks.report(result, expressions, options, sys.stderr)
    return status(result) or checked


def split(arguments: Sequence[str]) -> tuple[dict[str, list[str]], list[str], list[int]]:
    """The values of the shared options, the other arguments, and the number (from 1) of each of these.

    Raises ``DialectError`` for an option without a value.
    """
    own: dict[str, list[str]] = {option: [] for option in SHARED}
    rest: list[tuple[int, str]] = []
    waiting = ""
    for number, argument in enumerate(arguments, 1):
        name, equals, value = argument.partition("=")
        if waiting:
            own[waiting].append(argument)
            waiting = ""
        elif name not in own:
            rest.append((number, argument))
        elif equals:
            own[name].append(value)
        else:
            waiting = name
    if waiting:
        raise DialectError([Diagnostic(f"{waiting} needs a value")])
    return own, [argument for _, argument in rest], [number for number, _ in rest]


def _path(values: Sequence[str]) -> Path | None:
    return Path(values[-1]) if values else None


def _place(values: Sequence[str]) -> tuple[str, int] | None:
    """The host and the port of metrics. Raises ``DialectError``."""
    try:
        return parse_metrics_address(values[-1]) if values else None
    except ValueError as error:
        raise DialectError([Diagnostic(f"--metrics: {error}")]) from None


@contextmanager
def _numbered(numbers: Sequence[int]) -> Iterator[None]:
    """Errors of the tool's command line get the numbers of the whole command line."""

    def moved(error: Diagnostic) -> Diagnostic:
        where = error.where
        if where is None or where.source != COMMAND_LINE or not 1 <= where.line <= len(numbers):
            return error
        return replace(error, where=replace(where, line=numbers[where.line - 1]))

    try:
        yield
    except DialectError as error:
        raise DialectError([moved(one) for one in error.errors]) from None
