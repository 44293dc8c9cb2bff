"""The command that says why two commands give different figures."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from cyclopts import Parameter

from iocurve.advice import differ as advice
from iocurve.advice import predict
from iocurve.advice.differ import Attribution, FieldExperiment, RunLength
from iocurve.cli import common
from iocurve.cli.exits import status
from iocurve.foundation.units import SECOND_NS, counted, format_duration
from iocurve.measure.scenario.runner import REPEATS_MAX
from iocurve.result.document import Result
from iocurve.targets import target as targets

OUT = Path("iocurve-differ")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The runs of each combination of fields."""

    runs: common.Rounds = 7
    """Runs of each combination of fields, interleaved; at least 3 for an interval."""
    runtime: common.TimeNs = 2 * SECOND_NS
    """Measured time of each run, whatever the commands say."""
    ramp_time: common.TimeNs = SECOND_NS // 2
    """Time before it that is not measured."""
    margin: common.Ratio = 0.05
    """Smallest difference that matters."""
    retries: common.AtLeast0 = REPEATS_MAX
    """Times that a noisy point is measured again."""

    def run(self) -> RunLength:
        """The length and number of runs."""
        return RunLength(
            runtime_ns=self.runtime, ramp_ns=self.ramp_time, rounds=self.runs, margin=self.margin, repeats=self.retries
        )


RUN = RunOptions()


def differ(
    a: str,
    b: str,
    /,
    *,
    profile: str | None = None,
    quota: common.SizeText | None = None,
    latency: common.TimeText | None = None,
    target: common.TargetText | None = None,
    run: RunOptions = RUN,
    out: Path = OUT,
    json: common.JsonFlag = False,
    quiet: common.QuietFlag = False,
) -> int:
    """Show in which fields two commands differ; with --target measure how much of the gap each field makes.

    Parameters
    ----------
    a
        A command line of fio, vdbench, diskspd, elbencho or run JOB.toml, in quotes; or a result of one, also one that
        iocurve import made of fio's JSON.
    b
        Another one, of the same tool or of another.
    profile
        A service level (iocurve profile list), or a profile file that ends in .toml.
    quota
        Size of the volume.
    latency
        Mean latency of an operation on the idle volume. Default: the profile's, if it states one.
    target
        A directory, nfs://host/export or volume:PROFILE: run both commands there, on separate files, and switch one
        field after another from A's value to B's.
    out
        Directory for differ.html, result.json and report.html.
    """
    both = advice.sides((a, b))
    found, measured = advice.differences(*both), advice.MeasuredRates.of(both)
    expected = _expected(both, profile, quota, latency)
    if target is None:
        common.refuse("nothing is measured without --target", run, out=None if out == OUT else out)
        _show(found, None, expected, measured, json=json, quiet=quiet)
        return 0

    def told(experiment: FieldExperiment) -> None:
        if not quiet:
            took = format_duration(round(experiment.seconds()) * SECOND_NS)
            loads = counted(len(experiment.plans), "load")
            print(f"info: {loads}, {counted(run.runs, 'run')} each: about {took}", file=sys.stderr)

    named = targets.parse(str(target))
    result, attributed = advice.measured(both, named, run.run(), out, told, quiet=quiet or json)
    if attributed is None:
        return status(result)
    page = _written((a, b), found, attributed, result, out)
    _show(found, attributed, expected, measured, json=json, quiet=quiet)
    if not (json or quiet):
        print(f"page: {page}")
    return status(result)


def _expected(
    both: tuple[advice.Side, advice.Side], profile: str | None, quota: str | None, latency: str | None
) -> dict[str, float] | None:
    if profile is not None and quota is not None:
        return advice.expected(*both, predict.service(profile, quota, latency=latency))
    common.refuse("--profile and --quota go together", profile=profile, quota=quota, latency=latency)
    return None


def _written(
    sources: tuple[str, str], found: list[advice.FieldDifference], attributed: Attribution, result: Result, out: Path
) -> Path:
    from iocurve.advice import differ_page

    return differ_page.write(sources, found, attributed, result, out)


def _show(
    found: list[advice.FieldDifference],
    attributed: Attribution | None,
    expected: dict[str, float] | None,
    measured: advice.MeasuredRates | None,
    *,
    json: bool,
    quiet: bool,
) -> None:
    from iocurve.advice import differ_page

    if json:
        common.show_json(differ_page.document(found, attributed, expected, measured))
        return
    if quiet:
        return
    if not found:
        print("no field differs")
    else:
        common.show(differ_page.differences_table(found, expected))
    if measured is not None:
        print(f"\n{differ_page.measured_text(measured)}")
    if attributed is not None:
        print()
        common.show(differ_page.shares_table(attributed.factors))
        print(f"\n{differ_page.sentence(attributed.factors)}")
        for text in differ_page.remarks(attributed):
            print(text)
