"""Commands that measure a target: the envelope, scenarios and job files, searches; and those that list scenarios."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter, validators
from msgspec.structs import replace

from iocurve.analysis.check_names import Vocabulary
from iocurve.cli import checks, common
from iocurve.cli.exits import status
from iocurve.cli.machines import CLUSTER, ClusterOptions
from iocurve.dialects.native.command import DIALECT as NATIVE
from iocurve.foundation.errors import Diagnostic, DialectError
from iocurve.foundation.units import GIB, SECOND_NS
from iocurve.measure import campaign as campaigns
from iocurve.measure import jobs, programs
from iocurve.measure.scenario import command as scenarios
from iocurve.measure.scenario import document as documents
from iocurve.measure.scenario.runner import REPEATS_MAX, Request
from iocurve.measure.search import command as searches
from iocurve.measure.search.loads import Effort
from iocurve.result.document import Result, TargetFacts
from iocurve.targets import target as targets
from iocurve.volume.spec import ExportSpec, facts

if TYPE_CHECKING:
    from iocurve.analysis.check_expressions import Expression
    from iocurve.measure.campaign import Measure


Scenario = Annotated[
    str | Path,
    Parameter(converter=lambda _, tokens: tokens[0].value, completer=lambda _: documents.names(), show_default=False),
]
"""The name of a scenario, or a file."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """Permissions to create and to overwrite the target."""

    create: common.Flag = False
    """Create the target as a file if it does not exist."""
    overwrite: common.Flag = False
    """Allow writes to existing files and devices. Their data is lost."""


FILES = FileOptions()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class EnvelopeOptions:
    """The options of the envelope alone."""

    rw: str | None = None
    """Kind and order, as in fio: randread, randwrite, randrw, read, write or rw. Default: all mixes, random and
    sequential."""
    bs: str | None = None
    """Block size, as in fio: 8k. Default: 4k random, 64k sequential."""
    iodepth: common.AtLeast1 | None = None
    """Queue depth of each job of the mixes, and the highest of the series by depth. Default: 32, sequential 8; 256."""
    numjobs: common.AtLeast1 | None = None
    """Jobs of the mixes. Default: one for each processor, at most 4."""
    runtime: common.TimeNs | None = None
    """Measured time of each point: 10s. Default: 2s, with --quick 500ms."""
    size: common.SizeBytes | None = None
    """Data set, all files together: 10GiB. Default: 1GiB, with --quick 256MiB."""
    timeout: common.TimeNs | None = None
    """Stop when an NFS server has not answered for this time. Default: the URL's timeo, or 60s."""
    read_only: common.Flag = False
    """Measure reads only; nothing is written."""
    retries: common.AtLeast0 = REPEATS_MAX
    """Times that a noisy point is measured again."""
    no_confirm: common.Flag = False
    """Skip the perturbation tests: the fastest loads again, with one change at a time, where points leave the
    bottleneck open."""

    profile: str | None = None
    """Service level that was bought, with --quota: the report says what it promises, what was reached, and the quota
    for twice as much (iocurve profile list)."""
    quota: str | None = None
    """Size that was bought: 2TiB."""
    search_time: common.TimeNs | None = None
    """Start no point that would end after this time, and say what is left out: 10m. Default: 2m with --quick, or half
    as much again as is said to be needed, if that is known."""

    def bought(self) -> TargetFacts | None:
        """The facts of the purchase; None without one. Raises ``DialectError``."""
        if self.profile is None and self.quota is None:
            return None
        if self.profile is None or self.quota is None:
            raise DialectError([Diagnostic("--profile and --quota: give both, the service level and its size")])
        return facts("", ExportSpec(profile=self.profile, quota=self.quota))

    def load(self) -> scenarios.EnvelopeLoad:
        """The words of the load that were given."""
        return scenarios.EnvelopeLoad(self.rw, self.bs, self.iodepth, self.numjobs, self.runtime)


ENVELOPE = EnvelopeOptions()


def envelope(
    target: common.TargetText | None = None,
    /,
    *,
    quick: common.Flag = False,
    out: common.ReportOut = common.OUT,
    options: EnvelopeOptions = ENVELOPE,
    files: FileOptions = FILES,
    cluster: ClusterOptions = CLUSTER,
    output: common.MeasuredOutput = common.MEASURED_OUTPUT,
) -> int:
    """Measure a target's read and write mixes, and its latency under load.

    Parameters
    ----------
    target
        A directory, a file, a block device, nfs://host[:port]/export?nconnect=8 or volume:PROFILE?quota=4TiB. Default:
        the embedded NFS volume (ultra, 4 TiB); volume:unlimited is as fast as this machine.
    quick
        Reduced run, short points and few queue depths: about 20 seconds.
    """
    asked = scenarios.envelope(
        str(target) if target else None,
        quick=quick,
        size_bytes=options.size,
        load=options.load(),
        nfs_timeout_ns=options.timeout,
        create=files.create,
        overwrite=files.overwrite,
        read_only=options.read_only,
    )
    asked = replace(asked, probe=not options.no_confirm, repeats_max=options.retries, bought=options.bought())
    asked = replace(asked, patience_ns=options.search_time)
    expressions = output.checks.parsed(scenarios.vocabulary(asked))
    with output.observed(), cluster.machines(*asked.targets.values()) as machines:
        result = scenarios.run(replace(asked, machines=machines), out, quiet=output.quiet)
    return show_result(result, out, output, expressions)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ScenarioRunOptions:
    """The targets, the form and the points of a scenario."""

    target: Annotated[tuple[str, ...], common.Many] = ()
    """A directory, a file, a device, nfs://host/export, volume:PROFILE?quota=4TiB or disk:NAME; NAME=TARGET for each
    where a scenario has several. Default of a scenario: the embedded target, in a reduced run; of a job file: what the
    file names."""
    quick: common.Flag = False
    """Reduced run of a scenario: the same shape with less data and time."""
    full: common.Flag = False
    """Full run, also on the embedded target."""
    scale: common.Ratio | None = None
    """Scale data and times of the full run down to this fraction: 1/100."""
    full_speed: common.Flag = False
    """Run the embedded target at the full speed of its service. Default: the fraction that two processors sustain."""
    points: Annotated[tuple[str, ...], common.Many] = ()
    """Run only these points: series (random-4k*) and values of parameters (read_percent=100,0)."""
    runs: common.Rounds | None = None
    """Interleaved runs of each compared point, at least 3 for an interval. Default: the scenario's, 6."""
    retries: common.AtLeast0 = REPEATS_MAX
    """Times that a noisy point is measured again."""
    margin: common.Ratio | None = None
    """Smallest difference between compared points that matters: 5%. Default: the scenario's, 10%."""
    search_time: common.TimeNs | None = None
    """Start no point that would end after this time, and say what is left out: 10m. Default: 2m with --quick, or half
    as much again as is said to be needed, if that is known."""

    def request(self, scenario: str, files: FileOptions, *, keep_data: bool) -> Request:
        """The request of a scenario. Raises ``DialectError`` and ``TargetError``."""
        request = scenarios.requested(
            documents.load(scenario),
            self.target,
            quick=self.quick,
            full=self.full,
            scale=self.scale,
            points=self.points,
            full_speed=self.full_speed,
            create=files.create,
            overwrite=files.overwrite,
            keep_data=keep_data,
        )
        request = replace(request.in_rounds(self.runs), margin=self.margin, repeats_max=self.retries)
        return replace(request, patience_ns=self.search_time)


SCENARIO = ScenarioRunOptions()


def run(
    job: Scenario,
    /,
    *,
    scenario: ScenarioRunOptions = SCENARIO,
    out: Path | None = None,
    resume: common.Flag = False,
    files: FileOptions = FILES,
    keep_data: common.Flag = False,
    no_confirm: common.Flag = False,
    cluster: ClusterOptions = CLUSTER,
    output: common.MeasuredOutput = common.MEASURED_OUTPUT,
) -> int:
    """Run a scenario (a published methodology) or a job file (TOML).

    Parameters
    ----------
    job
        The name of a scenario (iocurve scenario list), or a file: a scenario (docs/scenarios.md) or a job
        (docs/jobs.md).
    out
        Directory for report.html, result.json and points.csv. Default for a scenario: iocurve-report.
    resume
        Resume the scenario in --out: finished points are not measured again.
    keep_data
        Keep the scenario's data files, for --resume.
    no_confirm
        Skip the perturbation tests that a scenario runs where its points leave the bottleneck open.
    """
    path = Path(job)
    if path.suffix == ".toml" and not documents.is_scenario(path):
        reason = f"this is for scenarios, and {path} is a job file"
        own = dataclasses.replace(scenario, target=())
        common.refuse(reason, own, resume=resume, keep_data=keep_data, no_confirm=no_confirm)
        if scenario.target:
            return _run_job_elsewhere(path, scenario.target, files, out, cluster, output)
        common.refuse("this creates a --target; a job file creates its files", create=files.create)
        return _run_job(path, files, out, cluster, output)
    request = scenario.request(str(job), files, keep_data=keep_data)
    request = replace(request, probe=request.probe and not no_confirm)
    directory = out or common.OUT
    expressions = output.checks.parsed(scenarios.vocabulary(request))
    with output.observed(), cluster.machines(*request.targets.values()) as machines:
        result = scenarios.run(replace(request, machines=machines), directory, resume=resume, quiet=output.quiet)
    return show_result(result, directory, output, expressions)


def _run_job(
    path: Path, files: FileOptions, out: Path | None, cluster: ClusterOptions, output: common.MeasuredOutput
) -> int:
    """Runs a job file on the targets that it names."""
    expressions: list[Expression] = []
    jobs.require_no_overwrites(NATIVE.prepare([str(path)]), overwrite=files.overwrite)
    if cluster != CLUSTER:
        jobs.needs_machines(NATIVE, [str(path)])
    with output.observed(), cluster.machines() as machines:
        result = jobs.run(
            NATIVE,
            [str(path)],
            out,
            quiet=output.quiet,
            machines=machines,
            before_run=lambda plans: expressions.extend(output.checks.parsed(Vocabulary.of_plans(plans))),
        )
    assert result is not None, "a job file asks nothing"
    return show_result(result, out, output, expressions)


def _run_job_elsewhere(
    path: Path,
    named: Sequence[str],
    files: FileOptions,
    out: Path | None,
    cluster: ClusterOptions,
    output: common.MeasuredOutput,
) -> int:
    """Runs a job file on another target: files keep their names, without directories."""
    if len(named) > 1:
        raise DialectError([Diagnostic(f"--target: {path} is a job file, which takes one target")])
    target, command = targets.parse(named[0], create=files.create), NATIVE.prepare([str(path)])
    expressions = output.checks.parsed(Vocabulary.of_plans(command.plans()))
    directory = out or common.OUT
    with output.observed(), cluster.machines(target) as machines:
        permitted = partial(programs.measured_on, overwrite=files.overwrite, machines=machines)
        measure = partial(permitted, target, NATIVE.name, command)
        result = campaigns.into_directory(directory, measure, quiet=output.quiet)
    return show_result(result, directory, output, expressions)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """The options of every search."""

    workload: str = "rw=randread bs=4k"
    """In fio's words: 'rw=randrw rwmixread=70 bs=8k'."""
    rw: str | None = None
    """Kind and order, as in fio: randrw. With --bs and --rwmixread it overrides --workload."""
    bs: str | None = None
    """Block size, as in fio: 8k."""
    rwmixread: common.AtLeast0 | None = None
    """Percentage of reads, as in fio: 70."""
    numjobs: common.AtLeast1 | None = None
    """Threads that share the queue depth. Default: one for each processor, at most 8."""
    iodepth_max: common.AtLeast1 = 4096
    """Highest queue depth to try."""
    runtime: common.TimeNs = 10 * SECOND_NS
    """Longest time of a point; it ends sooner at its --precision."""
    precision: common.Ratio = 0.02
    """Measure each point until its 95 % confidence interval is about this fraction of the mean."""
    retries: common.AtLeast0 = 1
    """Times that a noisy point is measured again."""
    size: common.SizeBytes = GIB
    """Data set, all files together."""
    search_time: common.TimeNs | None = None
    """Longest time of the search; max then ends with the bracket that it has, knee with wider bounds. Low rates need
    long: 10m. Default: 2m for max, 20 times --runtime for others."""
    out: common.ReportOut = common.OUT
    files: FileOptions = FILES
    cluster: ClusterOptions = CLUSTER
    output: common.MeasuredOutput = common.MEASURED_OUTPUT

    def words(self) -> str:
        """The workload, in fio's words."""
        own = {"rw": self.rw, "bs": self.bs, "rwmixread": self.rwmixread}
        return " ".join([self.workload, *(f"{name}={value}" for name, value in own.items() if value is not None)])

    def question(self, target: common.TargetText) -> searches.Question:
        """The search of a target. Raises ``DialectError`` and ``TargetError``."""
        effort = Effort(
            precision=self.precision, repeats_max=self.retries, longest_ns=self.runtime, workers=self.numjobs
        )
        if self.search_time is not None:
            effort = replace(effort, patience_ns=self.search_time).hurried(searches.CLOSED_POINTS)
        return searches.Question(
            target=targets.parse(str(target), create=self.files.create),
            workload=self.words(),
            size_bytes=self.size,
            effort=effort,
            limit_ns=self.search_time,
            iodepth_max=self.iodepth_max,
            overwrite=self.files.overwrite,
        )

    def carry_out(
        self, question: searches.Question, search: Callable[[searches.Question], Measure], known: Vocabulary
    ) -> int:
        """Searches, and shows what was found; gives the exit status."""
        expressions = self.output.checks.parsed(known)
        with self.output.observed(), self.cluster.machines(question.target) as machines:
            measure = search(replace(question, machines=machines))
            result = campaigns.into_directory(self.out, measure, quiet=self.output.quiet)
        return show_result(result, self.out, self.output, expressions)


SEARCH = SearchOptions()


def find_knee(
    target: common.MeasuredTarget,
    /,
    *,
    percent_of_capacity: Annotated[float, Parameter(validator=validators.Number(gt=0, lt=100))] | None = None,
    options: SearchOptions = SEARCH,
) -> int:
    """Find the knee, the queue depth where unloaded latency and full throughput meet, and those of 90 to 99 % of it.

    Parameters
    ----------
    percent_of_capacity
        Find the queue depth that reaches this share of the capacity instead, e.g. 95.
    """
    question = replace(options.question(target), percent_of_capacity=percent_of_capacity)
    return options.carry_out(question, searches.knee_search, searches.vocabulary(question, "knee"))


def find_max(
    target: common.MeasuredTarget,
    /,
    *,
    p50: common.TimeNs | None = None,
    p95: common.TimeNs | None = None,
    p99: common.TimeNs | None = None,
    p999: common.TimeNs | None = None,
    options: SearchOptions = SEARCH,
) -> int:
    """Find the highest rate that meets a latency limit. Open loop: latency counts from each request's scheduled time.

    Parameters
    ----------
    p50
        Median latency limit: 500us.
    p95
        95th percentile latency limit.
    p99
        99th percentile latency limit: 2ms.
    p999
        99.9th percentile latency limit.
    """
    limits = [(percent, ns) for percent, ns in ((50.0, p50), (95.0, p95), (99.0, p99), (99.9, p999)) if ns is not None]
    if len(limits) != 1:
        raise DialectError([Diagnostic("name one latency limit: --p50, --p95, --p99 or --p999, as in --p99 2ms")])
    percent, limit_ns = limits[0]
    question = options.question(target)
    search = partial(searches.max_search, percent=percent, limit_ns=limit_ns)
    return options.carry_out(question, search, searches.vocabulary(question, "max", percent))


def draw_curve(
    target: common.MeasuredTarget,
    /,
    *,
    steps: Annotated[int, Parameter(validator=validators.Number(gte=1, lte=100))] = 10,
    options: SearchOptions = SEARCH,
) -> int:
    """Plot latency against IOPS in even steps up to the target's maximum. Open loop, as in iocurve max.

    Parameters
    ----------
    steps
        Points of the curve.
    """
    question = options.question(target)
    search = partial(searches.curve_search, steps=steps)
    return options.carry_out(question, search, searches.vocabulary(question, "curve"))


def show_result(
    result: Result, out: Path | None, output: common.OutputOptions, expressions: Sequence[Expression]
) -> int:
    """Prints the figures, the path of the report and the checks, or the result document; gives the exit status."""
    if output.json:
        sys.stdout.write(result.document().decode())
    elif not output.quiet:
        common.show_tables(result)
        if result.search:
            print(f"\n{searches.findings_text(result.search)}")
        if out and not any(note.code == "report_not_written" for note in result.notes):
            print(f"\nreport: {out / 'report.html'}")
    is_plain = output.json or output.quiet
    if expressions and not is_plain:
        print()
    # The status of an incomplete measurement goes before that of a check.
    checked = checks.report(result, expressions, output.checks, sys.stderr if is_plain else None)
    return status(result) or checked


scenario_commands = App(
    name="scenario", help="List, show and run published methodologies.", group_parameters=common.PARAMETERS
)
scenario_commands.command(
    run, name="run", help_epilogue=common.example("iocurve scenario run anf-vdbench --target nfs://10.0.0.4/vol")
)


@scenario_commands.command(name="list", help_epilogue=common.example("iocurve scenario list"))
def list_scenarios(*, json: common.JsonFlag = False) -> int:
    """List the scenarios: published methodologies, ready to run."""
    common.show_titles({name: documents.load(name).title for name in documents.names()}, json=json)
    return 0


@scenario_commands.command(name="show", help_epilogue=common.example("iocurve scenario show azure-disk"))
def show_scenario(name: Scenario, /, *, json: common.JsonFlag = False) -> int:
    """Print the purpose of a scenario, its measurements and their duration.

    Parameters
    ----------
    name
        The name of a scenario (iocurve scenario list), or a file that ends in .toml.
    """
    scenario = documents.load(str(name))
    if json:
        common.show_json(scenarios.described(scenario))
    else:
        print(scenarios.description(scenario))
    return 0
