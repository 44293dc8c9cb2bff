"""Renders ``--output-format=terse``, versions 2 to 5: a line per job, fields separated by semicolons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from iocurve.dialects.fio.information import FIO_VERSION
from iocurve.dialects.fio.invocation import FioCommand
from iocurve.dialects.fio.output.disk_util import DiskUse
from iocurve.dialects.fio.output.job_stats import Direction, JobStats, clients_of, job_stats, of_client
from iocurve.dialects.fio.read.draft import Reporting
from iocurve.result.document import Result
from iocurve.result.summary import Latency, Spread

PERCENTILES = 20
"""Number of percentile fields; unused ones are ``0%=0``."""


def render(prepared: FioCommand, result: Result) -> str:
    """Renders a line per reported job, of several hosts one after the other, as fio's clients do."""
    version = prepared.output.terse_version
    disks = list(_disks(prepared.disks.uses())) if version > 2 else []
    hosts = [of_client(prepared, result, host.client) for host in clients_of(result)]
    jobs = [job for one in hosts or [result] for job in job_stats(prepared, one)]
    return "".join(";".join(_fields(job, version, disks)) + "\n" for job in jobs)


def _disks(uses: Iterable[DiskUse]) -> Iterator[str]:
    for disk in uses:
        yield disk.name
        yield from map(str, disk.counts.values())
        yield f"{disk.util_percent:.2f}%"


def _fields(job: JobStats, version: int, disks: Sequence[str]) -> Iterator[str]:
    yield str(version)
    if version > 2:
        yield FIO_VERSION
    yield from (job.report.name, str(job.group), str(job.error))
    kinds = ("read", "write") if version == 3 else ("read", "write", "trim")
    for kind in kinds if job.report.reporting.mixed == "none" else job.shown:
        yield from _direction(job.directions[kind], job.report.reporting, version)
    yield from (f"{job.cpu_percent(mode):.6f}%" for mode in ("user_ns", "system_ns"))
    yield from map(str, (job.cpu.context_switches, job.cpu.major_faults, job.cpu.minor_faults))
    yield from (f"{share:.1f}%" for share in job.depth_percent().values())
    yield from _latency_ranges(job)
    yield from disks
    yield from map(str, job.errors.values())
    if job.report.description:
        yield job.report.description


def _direction(direction: Direction, reporting: Reporting, version: int) -> Iterator[str]:
    yield str(direction.bytes >> 10)
    yield str(int(direction.bytes_per_s / 1024))
    yield str(int(direction.iops))
    yield str(direction.runtime_ms)
    yield from _latency(direction.submission)
    yield from _latency(direction.completion)
    yield from _percentiles(direction.completion, reporting)
    yield from _latency(direction.service)
    bandwidth, iops = direction.bandwidth, direction.iops_samples
    yield from (str(int(bandwidth.smallest)), str(int(bandwidth.largest)), f"{direction.share_of_group:.6f}%")
    yield from _spread(bandwidth)
    if version >= 5:
        yield from (str(bandwidth.count), str(int(iops.smallest)), str(int(iops.largest)), *_spread(iops))
        yield str(iops.count)


def _latency(latency: Latency) -> Iterator[str]:
    """Minimum, maximum, mean and standard deviation in microseconds."""
    yield from (str(latency.min_ns // 1000), str(latency.max_ns // 1000))
    yield from (f"{latency.mean_ns / 1000:.6f}", f"{latency.stddev_ns / 1000:.6f}")


def _percentiles(latency: Latency, reporting: Reporting) -> Iterator[str]:
    asked = sorted(reporting.percentiles)[:PERCENTILES]
    yield from (f"{percent:.6f}%={latency.percentile(percent) // 1000}" for percent in asked)
    yield from ["0%=0"] * (PERCENTILES - len(asked))


def _spread(samples: Spread) -> Iterator[str]:
    yield from (f"{samples.mean:.6f}", f"{samples.stddev:.6f}")


def _latency_ranges(job: JobStats) -> Iterator[str]:
    """Shares by microseconds, then milliseconds. Latencies below 1 µs count in the first range, as in fio."""
    shares = job.latency_percent()
    microseconds = list(shares["latency_us"].values())
    microseconds[0] += sum(shares["latency_ns"].values())
    yield from (f"{share:.2f}%" for share in (*microseconds, *shares["latency_ms"].values()))
