"""Renders fio's ``normal`` output: the lines and words that people and scripts look for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import groupby, islice

from iocurve.dialects.fio.job import FioCommand, SectionReport
from iocurve.dialects.fio.output.disk_util import DiskUse
from iocurve.dialects.fio.output.job_stats import (
    KIND_NAMES,
    Direction,
    JobStats,
    clients_of,
    job_stats,
    of_client,
    steady_means,
    total_of_clients,
)
from iocurve.engine.derived import block_bytes_max, block_bytes_min, difference_text
from iocurve.foundation.units import SECOND_NS
from iocurve.job.model import Section
from iocurve.result.document import Result
from iocurve.result.summary import Latency, Spread, busy_ns

_UNITS = (("nsec", 1), ("usec", 1000), ("msec", 1_000_000))
_SCALES = {"latency_ns": "nsec", "latency_us": "usec", "latency_ms": "msec"}
_SHARES_PER_LINE = 5


def render(prepared: FioCommand, result: Result) -> str:
    """Renders ``--output-format=normal``, of several hosts in fio's client form."""
    if hosts := clients_of(result):
        lines = [f"hostname={host.name}, iocurve-{result.iocurve}" for host in hosts]
        lines += [f"<{host.name}> {line}" for host in hosts for line in _starting(prepared, host.client)]
        for host in hosts:
            lines += [f"<{host.name}> ", *_jobs(prepared, of_client(prepared, result, host.client))[1:]]
        if (total := total_of_clients(prepared, result)) is not None:
            lines += _job(total, result)
    else:
        *headers, threads = _starting(prepared, 0)
        lines = [*headers, f"iocurve-{result.iocurve}", threads, *_jobs(prepared, result)]
    if not hosts and (uses := prepared.disks.uses()):
        lines += ["", "Disk stats (read/write):", *map(_disk, uses)]
    return "\n".join(lines) + "\n"


def _starting(prepared: FioCommand, client: int) -> list[str]:
    """The settings of each section that a client runs, and the number of its threads."""
    placed = prepared.placement or [{client}] * len(prepared.sections)
    sections = zip(prepared.job.sections, prepared.sections, placed, strict=True)
    workers = iter([worker for group in prepared.plan.groups for worker in group.workers])
    lines, threads = [], 0
    for section, report, hosts in sections:
        members = list(islice(workers, section.numjobs))
        if client not in hosts:
            continue
        threads += len(members)
        lines.append(_header(section, report, prepared.report_groups[members[0].report_group].number))
        lines += ["..."] if len(members) > 1 else []
    return [*lines, f"Starting {threads} thread{'' if threads == 1 else 's'}"]


def _jobs(prepared: FioCommand, result: Result) -> list[str]:
    """The jobs, and the status of each group."""
    jobs = job_stats(prepared, result)
    lines = []
    for job in jobs:
        # As in fio, a job that has done nothing has no lines (create_only).
        lines += [""] if job.only_laid_out else ["", *_job(job, result)]
    for number, members in groupby(jobs, key=lambda job: job.group):
        lines += ["", f"Run status group {number} (all jobs):", *_status(list(members))]
    return lines


def _disk(disk: DiskUse) -> str:
    counts = disk.counts
    pairs = [f"{name}={counts[f'read_{name}']}/{counts[f'write_{name}']}" for name in ("ios", "merges", "ticks")]
    text = ", ".join(pairs).replace("merges=", "merge=")
    return f"  {disk.name}: {text}, in_queue={counts['in_queue']}, util={disk.util_percent:3.2f}%"


def scaled(value: float, base: int, unit: str = "") -> str:
    """Formats a value with up to four digits and a prefix, as fio does: ``599``, ``2399Ki``, ``12.8k``, ``1235k``."""
    prefixes = ("", "Ki", "Mi", "Gi", "Ti", "Pi") if base == 1024 else ("", "k", "M", "G", "T", "P")
    power = 0
    while value > 9999 and power < len(prefixes) - 1:
        value, power = value / base, power + 1
    digits = max(0, 3 - len(str(int(value)))) if power else 0
    return f"{value:.{digits}f}{prefixes[power]}{unit}"


def _header(section: Section, report: SectionReport, group: int) -> str:
    blocks = section.load.blocks
    shown = [
        "-".join(scaled(size, 1024, "B") for size in (block_bytes_min(sizes), block_bytes_max(sizes)))
        for sizes in blocks.values()
    ]
    ranges = ", ".join(f"({letter}) {sizes}" for letter, sizes in zip("RWT", shown, strict=True))
    engine = f"ioengine={section.target.engine_asked}, iodepth={report.depth}"
    return f"{report.name}: (g={group}): rw={report.direction}, bs={ranges}, {engine}"


def _job(job: JobStats, result: Result) -> list[str]:
    moment = result.created.astimezone().strftime("%a %b %e %H:%M:%S %Y")
    number = f"err={job.error:2}" + (f" (error={os.strerror(job.error)})" if job.error else "")
    # All workers are threads of this process, so all have its pid.
    jobs = f"(groupid={job.group}, jobs={len(job.workers)})"
    lines = [f"{job.report.name}: {jobs}: {number}: pid={os.getpid()}: {moment}"]
    lines += [f"  error        : {error}" for error in dict.fromkeys(worker.error for worker in job.workers) if error]
    lines += [f"  verification : {difference_text(found)}" for worker in job.workers for found in worker.differences]
    if job.report.description:
        lines.append(f"  Description  : [{job.report.description}]")
    for kind in job.shown:
        if job.directions[kind].operations:
            lines += _direction(kind, job.directions[kind], job)
    for scale, shares in job.latency_percent().items():
        lines += _shares(f"lat ({_SCALES[scale]})", shares)
    if job.syncs.count:
        lines += ["  fsync/fdatasync/sync_file_range:", _latency_line("sync", job.syncs)]
        lines += _percentiles("sync", job.syncs, job.report.reporting.percentiles)
    lines.append(
        f"  cpu          : usr={job.cpu_percent('user_ns'):.2f}%, sys={job.cpu_percent('system_ns'):.2f}%, "
        f"ctx={job.cpu.context_switches}, majf={job.cpu.major_faults}, minf={job.cpu.minor_faults}"
    )
    totals = ",".join(str(job.directions[kind].operations) for kind in KIND_NAMES)
    shorts = ",".join(str(job.directions[kind].short) for kind in KIND_NAMES)
    return [
        *lines,
        f"  IO depths    : {_levels(job.depth_percent())}",
        f"     submit    : {_levels(job.submit_percent())}",
        f"     complete  : {_levels(job.complete_percent())}",
        f"     issued rwts: total={totals},{job.sync_count} short={shorts},0 dropped=0,0,0,0",
        *_errors(job),
        f"     latency   : {_latency_target(job)}, depth={job.depth}",
        *_steady_state(job),
    ]


def _errors(job: JobStats) -> list[str]:
    """The line that fio has with continue_on_error and ignore_error, errors or not."""
    if not job.errors:
        return []
    total, first = job.errors.values()
    return [f"     errors    : total={total}, first_error={first}/<{os.strerror(first)}>"]


def _levels(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{level}={share:.1f}%" for level, share in shares.items())


def _latency_target(job: JobStats) -> str:
    if job.target is None:
        return "target=0, window=0, percentile=100.00%"
    window_us, percentile = job.target.window_ns // 1000, job.target.percentile
    return f"target={job.target.target_ns}, window={window_us}, percentile={percentile:.2f}%"


def _steady_state(job: JobStats) -> list[str]:
    steady, asked = job.steady_state, job.report.reporting.steady_state
    if steady is None or asked is None:
        return []
    figure, _, criterion = asked.partition(":")[0].partition("_")
    iops, bytes_per_s, _ = steady_means(steady)
    attained = "no" if steady.attained_ns is None else "yes"
    shown = f"{steady.criterion:.3f}{'%' if asked.endswith('%') else ''}"
    return [
        f"  steadystate  : attained={attained}, bw={_bandwidth(bytes_per_s)}, "
        f"iops={scaled(iops, 1000)}, {figure} {criterion or 'mean dev'}={shown}"
    ]


def _direction(kind: str, direction: Direction, job: JobStats) -> list[str]:
    amount = f"({scaled(direction.bytes, 1024, 'B')}/{direction.runtime_ms}msec)"
    lines = [f"  {kind}: IOPS={scaled(direction.iops, 1000)}, BW={_bandwidth(direction.bytes_per_s)}{amount}"]
    if direction.submission.count:
        lines.append(_latency_line("slat", direction.submission))
    lines += [_latency_line("clat", direction.completion), _latency_line(" lat", direction.service)]
    reporting = job.report.reporting
    if reporting.submission_percentiles and direction.submission.count:
        lines += _percentiles("slat", direction.submission, reporting.percentiles)
    if reporting.completion_percentiles:
        lines += _percentiles("clat", direction.completion, reporting.percentiles)
    if reporting.total_percentiles:
        lines += _percentiles("lat", direction.service, reporting.percentiles)
    return [
        *lines,
        f"   bw (  KiB/s): {_samples(direction.bandwidth, f'per={direction.share_of_group:.2f}%, ')}",
        f"   iops        : {_samples(direction.iops_samples, '')}",
    ]


def _latency_line(name: str, latency: Latency) -> str:
    unit, size = _unit(latency.min_ns, latency.max_ns, latency.stddev_ns)
    smallest, largest = (scaled(value // size, 1000) for value in (latency.min_ns, latency.max_ns))
    return (
        f"    {name} ({unit}): min={smallest}, max={largest}, "
        f"avg={latency.mean_ns / size:.2f}, stdev={latency.stddev_ns / size:.2f}"
    )


def _percentiles(name: str, latency: Latency, percents: Sequence[float]) -> list[str]:
    values = [(percent, latency.percentile(percent)) for percent in sorted(percents)]
    unit, size = _unit(values[0][1], values[-1][1], 2_000_000)
    cells = [f"{percent:5.2f}th=[{value // size:5d}]" for percent, value in values]
    rows = [", ".join(cells[start : start + 4]) for start in range(0, len(cells), 4)]
    return [f"    {name} percentiles ({unit}):", *(f"     | {row}{',' if row is not rows[-1] else ''}" for row in rows)]


def _unit(smallest: float, largest: float, spread: float) -> tuple[str, int]:
    """The coarsest unit that still shows the differences between the values."""
    chosen = _UNITS[0]
    for unit, size in _UNITS[1:]:
        if smallest > 2 * size and largest > 100 * size - 1 and spread > size:
            chosen = (unit, size)
    return chosen


def _samples(samples: Spread, share: str) -> str:
    return (
        f"min={samples.smallest:5.0f}, max={samples.largest:5.0f}, {share}"
        f"avg={samples.mean:.2f}, stdev={samples.stddev:.2f}, samples={samples.count}"
    )


def _shares(label: str, shares: dict[str, float]) -> list[str]:
    """Lines with the shares that round to more than 0."""
    cells = [f"{name}={share:.2f}%" for name, share in shares.items() if share >= 0.005]
    rows = [", ".join(cells[start : start + _SHARES_PER_LINE]) for start in range(0, len(cells), _SHARES_PER_LINE)]
    return [f"  {label:<13}: {row}" for row in rows]


def _status(jobs: Sequence[JobStats]) -> list[str]:
    lines = []
    for kind in dict.fromkeys(kind for job in jobs for kind in job.shown):
        parts = [job.directions[kind] for job in jobs if kind in job.shown and job.directions[kind].operations]
        if not parts:
            continue
        times = [part.runtime_ms for part in parts]
        each = sorted(part.bytes_per_s for part in parts)
        total = sum(part.bytes for part in parts)
        together = total * SECOND_NS / _together_ns(parts)
        lines.append(
            f"  {kind.upper():>5}: bw={_bandwidth(together)}, "
            f"{scaled(each[0], 1024, 'B/s')}-{scaled(each[-1], 1024, 'B/s')} "
            f"({scaled(each[0], 1000, 'B/s')}-{scaled(each[-1], 1000, 'B/s')}), "
            f"io={scaled(total, 1024, 'B')} ({scaled(total, 1000, 'B')}), run={min(times)}-{max(times)}msec"
        )
    return lines


def _together_ns(parts: Sequence[Direction]) -> int:
    """Time in which at least one of several jobs ran."""
    return busy_ns(worker for part in parts for worker in part.users) - min(part.idle_ns for part in parts)


def _bandwidth(bytes_per_s: float) -> str:
    return f"{scaled(bytes_per_s, 1024, 'B/s')} ({scaled(bytes_per_s, 1000, 'B/s')})"
