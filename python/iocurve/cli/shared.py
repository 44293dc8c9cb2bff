"""Options of iocurve on the command lines of other tools: they are taken out before the tool's own rules apply."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from iocurve.analysis.check_names import Vocabulary
from iocurve.cli import checks
from iocurve.cli.checks import CheckOptions
from iocurve.cli.common import SSH, needs_hosts, report_host, served_metrics
from iocurve.cli.exits import status
from iocurve.cli.quantities import parse_metrics_address
from iocurve.cluster.host_lists import parse_hosts, running_cluster
from iocurve.dialects.base import ClusterRequest, Dialect, numbered
from iocurve.dialects.registry import SHARED_FLAGS, SHARED_OPTIONS
from iocurve.errors import COMMAND_LINE, Diagnostic, DialectError, Where
from iocurve.measure import interrupts, jobs

if TYPE_CHECKING:
    from iocurve.analysis.check_expressions import Expression
    from iocurve.measure.machines import Machines
    from iocurve.result.document import Result

_OF_HOSTS = ("--ssh", *SHARED_FLAGS)


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
    before_run = (lambda plans: expressions.extend(options.parsed(Vocabulary.of_plans(plans)))) if is_checked else None
    interrupts.install()
    with served_metrics(_place(own["--metrics"])):
        if own["--hosts"]:
            result = _run_on_hosts(dialect, own, rest, numbers, before_run)
        elif alone := [option for option in _OF_HOSTS if own[option]]:
            raise DialectError([Diagnostic(needs_hosts(option)) for option in alone])
        else:
            with numbered(dialect, numbers) as told:
                result = jobs.run(told, rest, cluster=clients, before_run=before_run)
    if result is None:
        return 0
    checked = checks.report(result, expressions, options, sys.stderr)
    return status(result) or checked


def _run_on_hosts(
    dialect: Dialect,
    own: Mapping[str, Sequence[str]],
    rest: Sequence[str],
    numbers: Sequence[int],
    before_run: jobs.BeforeRun | None,
) -> Result | None:
    """Runs a command line on hosts that ssh reaches; the words for these are the tool's own (``Dialect.on_hosts``)."""
    if any(argument.partition("=")[0] == "--on" for argument in rest):
        raise DialectError([Diagnostic("--hosts starts a cluster of these hosts: --on does not go with it")])
    listed = own["--hosts"][-1]
    if running := running_cluster(listed):
        raise DialectError([Diagnostic(f"--hosts {listed}: a RayCluster needs no ssh: --on {running[0]}")])
    hosts = parse_hosts(listed)
    words = dialect.on_hosts([host.name for host in hosts], rest)
    with numbered(dialect, [*(0 for _ in words), *numbers]) as told:
        if not jobs.needs_machines(told, [*words, *rest]):
            return jobs.run(told, [*words, *rest])
    from iocurve.cluster import hosts as over_ssh

    ssh = own["--ssh"][-1] if own["--ssh"] else SSH
    options = {"allow_missing": bool(own["--allow-missing"]), "tls": bool(own["--tls"])}
    with over_ssh.started(hosts, ssh, report_host, **options) as (cluster, missing):

        def clients(asked: ClusterRequest) -> AbstractContextManager[Machines]:
            return over_ssh.load_clients(cluster, missing, asked.names)

        words = dialect.on_hosts(list(cluster.hosts), rest)
        with numbered(dialect, [*(0 for _ in words), *numbers]) as told:
            return jobs.run(told, [*words, *rest], cluster=clients, before_run=before_run)


def split(arguments: Sequence[str]) -> tuple[dict[str, list[str]], list[str], list[int]]:
    """The values of the shared options, the other arguments, and the number (from 1) of each of these.

    Raises ``DialectError`` for an option without a value.
    """
    own: dict[str, list[str]] = {option: [] for option in SHARED_OPTIONS}
    rest: list[tuple[int, str]] = []
    waiting = ""
    for number, argument in enumerate(arguments, 1):
        name, equals, value = argument.partition("=")
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


def _path(values: Sequence[str]) -> Path | None:
    return Path(values[-1]) if values else None


def _place(values: Sequence[str]) -> tuple[str, int] | None:
    """The host and the port of metrics. Raises ``DialectError``."""
    try:
        return parse_metrics_address(values[-1]) if values else None
    except ValueError as error:
        raise DialectError([Diagnostic(f"--metrics: {error}")]) from None
