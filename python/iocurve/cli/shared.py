"""Options of iocurve on the command lines of other tools: they are taken out before the tool's own rules apply."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from iocurve.analysis.check_names import Vocabulary
from iocurve.cli import checks
from iocurve.cli.checks import CheckOptions
from iocurve.cli.common import observed, parse_metrics_address
from iocurve.cli.exits import status
from iocurve.cli.machines import SSH, ClusterOptions, OnLoss
from iocurve.dialects.base import AddedWord, ClusterRequest, Dialect, ParsedCommand, numbered
from iocurve.dialects.registry import SHARED_FLAGS, SHARED_OPTIONS, SHARED_SYNONYMS
from iocurve.foundation.errors import COMMAND_LINE, Diagnostic, DialectError, Where
from iocurve.measure import interrupts, jobs

if TYPE_CHECKING:
    from iocurve.analysis.check_expressions import Expression
    from iocurve.measure.machines import Machines
    from iocurve.result.document import Result

_OF_A_CLUSTER = ("--on", "--clients")


def run(dialect: Dialect, arguments: Sequence[str]) -> int:
    """Runs a command line of a dialect that has options of iocurve; gives the exit status.

    The checks go to stderr: stdout has the output of the tool. Raises ``DialectError`` and ``TargetError``.
    """
    own, rest, numbers = split(arguments)
    options = CheckOptions(
        fail_if=tuple(own["--fail-if"]), junit=_path(own["--junit"]), markdown=_path(own["--markdown"])
    )
    cluster = _cluster(own, rest)
    if dialect.information(rest) is None:
        for line in _predicted(own, lambda: prepared(dialect, arguments)):
            print(f"predicted: {line}", file=sys.stderr)
    parsed: list[list[Expression]] = []
    is_checked = any(own[option] for option in ("--fail-if", "--junit", "--markdown"))
    before_run = (lambda plans: parsed.append(options.parsed(Vocabulary.of_plans(plans)))) if is_checked else None
    interrupts.install()
    fills_screen = False if own["--no-live"] else True if own["--live"] else None
    with observed(_place(own["--metrics"]), fills_screen=fills_screen, page_port=_port(own["--serve"])):
        if cluster.hosts is not None:
            result = _run_on_hosts(dialect, cluster, rest, numbers, before_run)
        else:
            with numbered(dialect, numbers) as told:
                result = jobs.run(told, rest, cluster=partial(on_cluster, cluster), before_run=before_run)
    if result is None:
        return 0
    checked = checks.report(result, parsed[-1] if parsed else [], options, sys.stderr)
    return status(result) or checked


def prepared(dialect: Dialect, arguments: Sequence[str]) -> ParsedCommand:
    """A command line of a dialect that may have options of iocurve, without running it. Raises as ``run``."""
    own, rest, numbers = split(arguments)
    cluster = _cluster(own, rest)
    words = _added(dialect, cluster.listed(), rest) if cluster.hosts is not None else []
    with numbered(dialect, [*(0 for _ in words), *numbers]) as told:
        return told.prepare([*words, *rest])


def _predicted(own: Mapping[str, Sequence[str]], prepare: Callable[[], ParsedCommand]) -> list[str]:
    """The prediction of the service level of ``--profile``, in a line for each run.

    Raises ``DialectError`` for a service level that does not exist; a load that cannot be predicted runs all the same.
    """
    profile, quota = _last(own["--profile"]), _last(own["--quota"])
    if profile is None and quota is None:
        return []
    if profile is None or quota is None:
        raise DialectError([Diagnostic("--profile and --quota go together: --profile anf-premium --quota 4TiB")])
    from iocurve.advice import predict

    service = predict.service(profile, quota)
    command = prepare()
    try:
        return [] if command.only_prints else list(predict.short_text(predict.predicted(command, service)))
    except DialectError as error:
        return [one.text for one in error.errors]


def _cluster(own: Mapping[str, Sequence[str]], rest: Sequence[str]) -> ClusterOptions:
    cluster = ClusterOptions(
        hosts=_last(own["--hosts"]),
        ssh=_last(own["--ssh"]) or SSH,
        remote_dir=_last(own["--remote-dir"]) or "",
        tls=bool(own["--tls"]),
        allow_missing=bool(own["--allow-missing"]),
        on_loss=_on_loss(own["--on-loss"]),
    )
    cluster.require_sense(names_cluster=any(word.partition("=")[0] in _OF_A_CLUSTER for word in rest))
    return cluster


@contextmanager
def on_cluster(options: ClusterOptions, request: ClusterRequest) -> Iterator[Machines]:
    """Agents on the machines that a command line selects."""
    with options.reached(request.address, request.count) as (_, opened), opened(request.names) as machines:
        yield machines


def _run_on_hosts(
    dialect: Dialect,
    cluster: ClusterOptions,
    rest: Sequence[str],
    numbers: Sequence[int],
    before_run: jobs.BeforeRun | None,
) -> Result | None:
    """Runs a command line on hosts; the words for these are the tool's own (``Dialect.on_hosts``)."""
    listed = cluster.listed()
    words = _added(dialect, listed, rest)
    with numbered(dialect, [*(0 for _ in words), *numbers]) as told:
        if not jobs.needs_machines(told, [*words, *rest], before_run):
            return jobs.run(told, [*words, *rest])
    with cluster.reached() as (names, opened):

        def clients(request: ClusterRequest) -> AbstractContextManager[Machines]:
            return opened(request.names or names)

        words = _added(dialect, names or listed, rest)
        with numbered(dialect, [*(0 for _ in words), *numbers]) as told:
            return jobs.run(told, [*words, *rest], cluster=clients, before_run=before_run)


def _added(dialect: Dialect, hosts: Sequence[str], rest: Sequence[str]) -> list[AddedWord]:
    """The tool's own words for hosts."""
    return [AddedWord(word) for word in dialect.on_hosts(hosts, rest)]


def split(arguments: Sequence[str]) -> tuple[dict[str, list[str]], list[str], list[int]]:
    """The values of the shared options, the other arguments, and the number (from 1) of each of these.

    Raises ``DialectError`` for an option without a value.
    """
    own: dict[str, list[str]] = {option: [] for option in SHARED_OPTIONS}
    rest: list[tuple[int, str]] = []
    waiting = ""
    for number, argument in enumerate(arguments, 1):
        name, equals, value = argument.partition("=")
        name = SHARED_SYNONYMS.get(name, name)
        if waiting:
            own[waiting].append(argument)
            waiting = ""
        elif name not in own:
            rest.append((number, argument))
        elif name in SHARED_FLAGS:
            if equals:
                raise DialectError([Diagnostic(f"{name} takes no value", Where(COMMAND_LINE, number))])
            own[name].append(name)
        elif equals:
            own[name].append(value)
        else:
            waiting = name
    if waiting:
        raise DialectError([Diagnostic(f"{waiting} needs a value")])
    return own, [argument for _, argument in rest], [number for number, _ in rest]


def _last(values: Sequence[str]) -> str | None:
    return values[-1] if values else None


def _on_loss(values: Sequence[str]) -> OnLoss:
    """Raises ``DialectError`` for another word."""
    words = {word: word for word in get_args(OnLoss)}
    value: OnLoss | None = words.get(values[-1] if values else "continue")
    if value is None:
        raise DialectError([Diagnostic(f"--on-loss {values[-1]}: choose {' or '.join(words)}")])
    return value


def _path(values: Sequence[str]) -> Path | None:
    return Path(values[-1]) if values else None


def _port(values: Sequence[str]) -> int | None:
    """The port of the page that shows a run. Raises ``DialectError``."""
    if not values:
        return None
    if not values[-1].isdecimal() or int(values[-1]) >= 1 << 16:
        raise DialectError([Diagnostic(f"--serve {values[-1]}: name a port, 0 for a free one")])
    return int(values[-1])


def _place(values: Sequence[str]) -> tuple[str, int] | None:
    """The host and the port of metrics. Raises ``DialectError``."""
    try:
        return parse_metrics_address(values[-1]) if values else None
    except ValueError as error:
        raise DialectError([Diagnostic(f"--metrics: {error}")]) from None
