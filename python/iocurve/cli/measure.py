"""Commands that measure a target: the envelope, scenarios and job files, searches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators
from rich.console import Console

from iocurve.cli import status
from iocurve.cli.common import bytes_of, time_of
from iocurve.dialects.native.command import DIALECT as NATIVE
from iocurve.errors import DialectError, Mistake
from iocurve.measure import jobs
from iocurve.measure.scenario import command as scenarios
from iocurve.measure.scenario import document as documents
from iocurve.measure.search import command as searches
from iocurve.measure.search.loads import Effort
from iocurve.report.table import result_table
from iocurve.result.document import Result
from iocurve.targets import target as targets


def envelope(
    target: str | None = None,
    /,
    *,
    quick: bool = False,
    out: Path = Path("iocurve-report"),
    unlimited: bool = False,
    size: str | None = None,
    timeout: str | None = None,
    overwrite: bool = False,
    read_only: bool = False,
) -> int:
    """Measure a target's read and write mixes and its latency under load.

    Parameters
    ----------
    target
        A directory, a file, a block device, or nfs://host[:port]/export?nconnect=8. Without one, the embedded
        NFS volume is started (ultra, 4 TiB) and measured.
    quick
        Short points and few depths: under 20 seconds.
    out
        Directory for report.html, result.json and points.csv.
    unlimited
        Without a target: the embedded volume without a service level, as fast as this machine is.
    size
        Data set, all files together (1GiB; with --quick 256MiB).
    timeout
        Give up when an NFS server has not answered for so long (60s, or the URL's timeo); until then it is waited for,
        as a hard mount does.
    overwrite
        Allow writes to a file or device that is already there. What is in it is lost.
    read_only
        Measure reads alone: nothing is written.
    """
    asked = scenarios.envelope(
        target or ("volume:unlimited" if unlimited else None),
        quick=quick,
        size_bytes=None if size is None else bytes_of("--size", size),
        nfs_timeout_ns=None if timeout is None else time_of("--timeout", timeout),
        overwrite=overwrite,
        read_only=read_only,
    )
    return _shown(scenarios.run(asked, out), out)


def run(
    job: str,
    /,
    *,
    target: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    short: Annotated[bool, Parameter(negative="")] = False,
    full: Annotated[bool, Parameter(negative="")] = False,
    scale: str | None = None,
    points: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    out: Path | None = None,
    resume: Annotated[bool, Parameter(negative="")] = False,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    keep_data: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Run a scenario (iocurve scenario list) or a job file (TOML).

    Parameters
    ----------
    job
        A scenario's name, or a file: a scenario of your own (docs/scenarios.md) or a job file (docs/jobs.md).
    target
        Of a scenario: a directory, a file, a device, nfs://host/export, volume:PROFILE?quota=4TiB or disk:NAME; with
        several targets NAME=TARGET for each. Without one the embedded target plays, in the short form.
    short
        The scenario's short form: the same shape, smaller and shorter; the result says what was shortened.
    full
        The full form on the embedded target, too.
    scale
        Data and times cut to a part: 1/100.
    points
        Only these: families (random-4k*) and values of axes (read_percent=100,0).
    out
        Directory for report.html, result.json and points.csv (of a scenario: iocurve-report).
    resume
        Go on with the scenario in --out: points that are finished are not measured again.
    overwrite
        Allow writes to a file or device that is already there. What is in it is lost.
    keep_data
        Leave the scenario's data files where they are, for --resume.
    """
    path = Path(job)
    if path.suffix == ".toml" and not documents.is_scenario(path):
        result = jobs.run(NATIVE, [job], out)
        assert result is not None, "a job file asks nothing"
        Console().print(result_table(result))
        return status(result)
    asked = scenarios.requested(
        documents.load(job),
        target,
        short=short,
        full=full,
        scale=scale,
        points=points,
        overwrite=overwrite,
        keep_data=keep_data,
    )
    directory = out or Path("iocurve-report")
    return _shown(scenarios.run(asked, directory, resume=resume), directory)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """What every search takes."""

    workload: str = "rw=randread bs=4k"
    """In fio's words: rw=randrw rwmixread=70 bs=8k."""
    in_flight_max: int = 4096
    """Most operations in flight that are tried."""
    precision: str = "2%"
    """Each point ends when half of its confidence interval is so small a part of its rate."""
    size: str = "1GiB"
    """Data set, all files together."""
    out: Path = Path("iocurve-report")
    """Directory for report.html, result.json and points.csv."""
    overwrite: Annotated[bool, Parameter(negative="")] = False
    """Allow writes to a file or device that is already there. What is in it is lost."""

    def question(self, target: str) -> searches.Question:
        """What is asked of a target. Raises ``DialectError`` and ``TargetError``."""
        try:
            part = float(self.precision.removesuffix("%")) / (100 if self.precision.endswith("%") else 1)
            if not 0 < part < 1:
                raise ValueError
        except ValueError:
            raise DialectError([Mistake(f"--precision {self.precision}: write a part such as 2% or 0.02")]) from None
        if self.in_flight_max < 1:
            raise DialectError([Mistake(f"--in-flight-max {self.in_flight_max}: at least 1")])
        return searches.Question(
            target=targets.parse(target),
            workload=self.workload,
            size_bytes=bytes_of("--size", self.size),
            effort=Effort(precision=part),
            in_flight_max=self.in_flight_max,
            overwrite=self.overwrite,
        )


SEARCH = SearchOptions()


def find_knee(target: str, /, *, options: SearchOptions = SEARCH) -> int:
    """Find the smallest queue depth that reaches full throughput.

    Parameters
    ----------
    target
        A directory, a file, a device, nfs://host/export?nconnect=8, volume:PROFILE?quota=4TiB or disk:NAME.
    """
    return _shown(searches.find_knee(options.question(target), options.out), options.out)


def find_max(
    target: str,
    /,
    *,
    p50: str | None = None,
    p95: str | None = None,
    p99: str | None = None,
    p999: str | None = None,
    options: SearchOptions = SEARCH,
) -> int:
    """Find the highest rate that meets a latency limit (open loop).

    Parameters
    ----------
    target
        A directory, a file, a device, nfs://host/export?nconnect=8, volume:PROFILE?quota=4TiB or disk:NAME.
    p50
        Half of the operations may take so long: 500us.
    p95
        95 % of them may.
    p99
        99 % of them may: 2ms.
    p999
        99.9 % of them may.
    """
    said = [(50.0, "--p50", p50), (95.0, "--p95", p95), (99.0, "--p99", p99), (99.9, "--p999", p999)]
    limits = [(percent, time_of(option, text)) for percent, option, text in said if text is not None]
    if len(limits) != 1:
        raise DialectError([Mistake("name one latency limit: --p50, --p95, --p99 or --p999, as in --p99 2ms")])
    percent, limit_ns = limits[0]
    return _shown(searches.find_max(options.question(target), percent, limit_ns, options.out), options.out)


def draw_curve(
    target: str,
    /,
    *,
    steps: Annotated[int, Parameter(validator=validators.Number(gte=1, lte=100))] = 10,
    options: SearchOptions = SEARCH,
) -> int:
    """Plot latency against IOPS in even steps up to the target's maximum (open loop).

    Parameters
    ----------
    target
        A directory, a file, a device, nfs://host/export?nconnect=8, volume:PROFILE?quota=4TiB or disk:NAME.
    steps
        Points of the curve.
    """
    return _shown(searches.draw_curve(options.question(target), steps, options.out), options.out)


def _shown(result: Result, out: Path) -> int:
    """Prints what was measured and where the report is; gives the exit status."""
    Console().print(result_table(result))
    if result.search:
        print(f"\n{searches.shown(result.search)}")
    print(f"\nreport: {out / 'report.html'}")
    return status(result)
