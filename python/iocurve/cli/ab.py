"""The command that measures two targets, or runs two commands, interleaved."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from msgspec.structs import replace

from iocurve.analysis.check_names import Vocabulary
from iocurve.analysis.compare import compare_turns
from iocurve.cli import common
from iocurve.cli.compare import OUTPUT, ComparisonOutput
from iocurve.cli.exits import status
from iocurve.cli.measure import FILES, FileOptions
from iocurve.foundation.errors import Diagnostic, DialectError
from iocurve.foundation.units import GIB, SECOND_NS
from iocurve.measure import ab as measured
from iocurve.measure import campaign as campaigns
from iocurve.measure.scenario import command as scenarios
from iocurve.measure.scenario.runner import REPEATS_MAX
from iocurve.report.compared import Compared
from iocurve.result.paired import MARGIN
from iocurve.result.stalls import discarded_text
from iocurve.targets import target as targets


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ComparedLoadOptions:
    """The load on two targets."""

    workload: str = "rw=randread bs=4k"
    """With --target, in fio's words: 'rw=randrw rwmixread=70 bs=8k'."""
    iodepth: common.AtLeast1 = 32
    """With --target: queue depth of each job."""
    numjobs: common.AtLeast1 = 1
    """With --target: number of jobs."""
    size: common.SizeBytes = GIB
    """With --target: data set of each, all files together."""
    runtime: common.TimeNs = 5 * SECOND_NS
    """With --target: measured time of each run."""
    ramp_time: common.TimeNs = SECOND_NS
    """With --target: time before it that is not measured."""

    def load(self) -> measured.TargetLoad:
        """The load of both targets."""
        return measured.TargetLoad(self.workload, self.iodepth, self.numjobs, self.size, self.runtime, self.ramp_time)


LOAD = ComparedLoadOptions()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunsOptions:
    """The number of the runs, and how sure they make a difference."""

    runs: common.Rounds | None = None
    """Runs of each; at least 3 for an interval. Default: 5 to 20, until half the margin would be seen in 8 of 10."""
    margin: common.Ratio = MARGIN
    """Smallest difference that matters: 5%."""
    retries: common.AtLeast0 = REPEATS_MAX
    """Times that a noisy point is measured again."""
    search_time: common.TimeNs | None = None
    """Start no runs that would end after this time: 2m. Default: all."""


RUNS = RunsOptions()


def ab(
    *commands: str,
    target: Annotated[tuple[str, ...], common.Many] = (),
    runs: RunsOptions = RUNS,
    load: ComparedLoadOptions = LOAD,
    files: FileOptions = FILES,
    out: Path = Path("iocurve-ab"),
    output: ComparisonOutput = OUTPUT,
    metrics: common.MetricsAddress | None = None,
) -> int:
    """Measure two targets, or run two commands, interleaved A B B A B A …, and compare them.

    Parameters
    ----------
    commands
        Two command lines of fio, vdbench, mdtest, elbencho, diskspd or run JOB.toml, each in quotes. Plans of the same
        number are compared.
    target
        Two targets for one load instead: directories, files, devices, nfs://host/export, volume:PROFILE or disk:NAME.
    out
        Directory for report.html, result.json and points.csv.
    metrics
        Serve OpenMetrics at http://HOST:PORT/metrics during the run, on 127.0.0.1 by default; port 0 takes a free
        one: 9100, 0.0.0.0:9100.
    """
    if (len(commands), len(target)) not in ((2, 0), (0, 2)):
        example = "iocurve ab --target /mnt/a --target /mnt/b"
        raise DialectError([Diagnostic(f"ab compares two commands or two targets, as in {example}")])
    if commands:
        common.refuse("this is for one load on two targets; the commands say what runs", load, create=files.create)
        expressions = output.parsed(Vocabulary())
        measure = measured.of_commands(
            commands, runs.runs, runs.margin, runs.retries, overwrite=files.overwrite, patience_ns=runs.search_time
        )
        with common.observed(metrics):
            result = campaigns.into_directory(out, measure)
        sources = commands
    else:
        named = [targets.parse(text, create=files.create) for text in target]
        request = measured.of_targets(named, load.load(), runs.runs, overwrite=files.overwrite)
        request = replace(request, margin=runs.margin, repeats_max=runs.retries, patience_ns=runs.search_time)
        expressions = output.parsed(scenarios.vocabulary(request))
        with common.observed(metrics):
            result = measured.run_targets(request, out)
        sources = target
    if result.state != "finished":
        return status(result)
    found = Compared(compare_turns(result, runs.margin), sources)
    output.show(found)
    if repeated := discarded_text(result.points):
        print(repeated, file=sys.stderr)
    checked = output.report(found, expressions)
    return status(result) or checked
