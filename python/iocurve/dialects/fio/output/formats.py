"""Renders a result in fio's output formats: normal, terse, json and json+."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from iocurve.dialects.fio.information import FIO_VERSION
from iocurve.dialects.fio.job import FioCommand, Format
from iocurve.dialects.fio.output import normal as normal_output
from iocurve.dialects.fio.output.disk_util import DiskUse
from iocurve.dialects.fio.output.job_stats import (
    Direction,
    JobStats,
    bin_middle_ns,
    clients_of,
    counts_by_bin,
    job_stats,
    of_client,
    steady_means,
    total_of_clients,
)
from iocurve.dialects.fio.read.draft import Reporting
from iocurve.result.document import Result
from iocurve.result.summary import Latency, Spread


def render(prepared: FioCommand, result: Result) -> str:
    """Output in each format of --output-format, one after another."""
    # JSON has the state under its key "iocurve".
    is_told = result.state == "finished" or set(prepared.output.formats) <= {"json", "json+"}
    first = "" if is_told else f"fio: incomplete: {result.incomplete_reason}\n"
    return first + "".join(_render(name, prepared, result) for name in prepared.output.formats)


def _render(name: Format, prepared: FioCommand, result: Result) -> str:
    if name == "normal":
        return normal_output.render(prepared, result)
    if name == "terse":
        return render_terse(prepared, result)
    return render_json(prepared, result, with_bins=name == "json+")


def render_json(prepared: FioCommand, result: Result, *, with_bins: bool = False) -> str:
    """Renders ``--output-format=json``, or ``json+`` with latency bins. The key ``iocurve`` shows that iocurve ran."""
    import json

    moment = result.created.timestamp()
    said = prepared.sections[0].global_options if prepared.sections else {}
    # As in fio, options without a value are left out.
    global_options = {name: value for name, value in said.items() if value}
    of_clients = bool(clients_of(result))
    uses = [] if of_clients else prepared.disks.uses()
    disks = [{"name": disk.name, **disk.counts, "util": _decimal(disk.util_percent)} for disk in uses]
    document = {
        "fio version": FIO_VERSION,
        "iocurve": {
            "version": result.iocurve,
            "state": result.state,
            "note": "measured by iocurve, in the format of fio 3.33",
            "notes": [str(note) for note in prepared.notes],
        },
        "timestamp": int(moment),
        "timestamp_ms": int(moment * 1000),
        "time": result.created.astimezone().strftime("%a %b %e %H:%M:%S %Y"),
        **({"global options": global_options} if global_options else {}),
        **_jobs(prepared, result, with_bins),
        # The disks of several hosts are not known here; fio leaves an empty list out, except of its clients.
        **({"disk_util": disks} if disks or of_clients else {}),
    }
    # fio writes a blank before the colon, and some scripts read the JSON with grep.
    return json.dumps(document, indent=2, separators=(",", " : ")) + "\n"


def _jobs(prepared: FioCommand, result: Result, with_bins: bool) -> dict[str, object]:
    """The jobs; of several hosts those of each, and their total, as fio's clients print it."""
    hosts = clients_of(result)
    if not hosts:
        return {"jobs": [_job(job, with_bins) for job in job_stats(prepared, result)]}
    stats = [
        _job(job, with_bins) | {"hostname": host.name}
        for host in hosts
        for job in job_stats(prepared, of_client(prepared, result, host.client))
    ]
    total = total_of_clients(prepared, result)
    # The total belongs to no host; fio writes the last host here.
    return {"client_stats": [*stats, _job(total, with_bins) | {"hostname": ""}] if total else stats}


def _job(job: JobStats, with_bins: bool) -> dict[str, object]:
    options = {name: value for name, value in job.last_report.options.items() if value}
    described = {"desc": job.report.description} if job.report.description else {}
    return {
        "jobname": job.report.name,
        "groupid": job.group,
        "error": job.error,
        "eta": 0,
        "elapsed": job.elapsed_s,
        # As in fio, those of the last job of a reported group. Parsers rely on rw and iodepth even if they are not set.
        "job options": {"rw": job.last_report.direction, "iodepth": str(job.last_report.depth)} | options,
        **{kind: _direction(job.directions[kind], job.report.reporting, with_bins) for kind in job.shown},
        **_syncs(job, with_bins),
        "job_runtime": round(job.runtime_ns / 1e6),
        "usr_cpu": _decimal(job.cpu_percent("user_ns")),
        "sys_cpu": _decimal(job.cpu_percent("system_ns")),
        "ctx": job.cpu.context_switches,
        "majf": job.cpu.major_faults,
        "minf": job.cpu.minor_faults,
        "iodepth_level": _decimals(job.depth_percent()),
        "iodepth_submit": _decimals(job.submit_percent()),
        "iodepth_complete": _decimals(job.complete_percent()),
        **{scale: _decimals(shares) for scale, shares in job.latency_percent().items()},
        "latency_depth": job.depth,
        # In fio the target is in nanoseconds and the window in microseconds.
        "latency_target": job.target.target_ns if job.target else 0,
        "latency_percentile": job.target.percentile if job.target else 100.0,
        "latency_window": job.target.window_ns // 1000 if job.target else 0,
        **job.errors,
        **described,
        **_steady_state(job),
        "iocurve": _ours(job),
    }


def _syncs(job: JobStats, with_bins: bool) -> dict[str, object]:
    """Flushes, which fio leaves out of one report for all kinds."""
    if job.report.reporting.mixed == "mixed":
        return {}
    latency = _latency(job.syncs, job.report.reporting.percentiles, with_bins)
    return {"sync": {"total_ios": job.sync_count, "lat_ns": latency}}


def _steady_state(job: JobStats) -> dict[str, object]:
    steady, asked = job.steady_state, job.report.reporting.steady_state
    if steady is None or asked is None:
        return {}
    iops, bytes_per_s, latency_ns = steady_means(steady)
    data: dict[str, object] = {
        "bw_mean": round(bytes_per_s),
        "iops_mean": round(iops),
        "iops": [round(sample.iops) for sample in steady.samples],
        "bw": [round(sample.bytes_per_s) for sample in steady.samples],
    }
    if asked.startswith("lat"):
        latency = [round(sample.latency_ns) for sample in steady.samples]
        data |= {"lat_mean": round(latency_ns), "lat": latency}
    return {
        "steadystate": {
            "ss": asked,
            "duration": job.report.reporting.steady_state_duration_s,
            "attained": int(steady.attained_ns is not None),
            "criterion": f"{steady.criterion:f}{'%' if asked.endswith('%') else ''}",
            "max_deviation": _decimal(steady.deviation),
            "slope": _decimal(steady.slope),
            "data": data,
        }
    }


def _direction(direction: Direction, reporting: Reporting, with_bins: bool) -> dict[str, object]:
    bandwidth, iops = direction.bandwidth, direction.iops_samples
    percentiles = reporting.percentiles
    return {
        "io_bytes": direction.bytes,
        "io_kbytes": direction.bytes >> 10,
        "bw_bytes": int(direction.bytes_per_s),
        "bw": int(direction.bytes_per_s / 1024),
        "iops": _decimal(direction.iops),
        "runtime": direction.runtime_ms,
        "total_ios": direction.operations,
        "short_ios": direction.short,
        "drop_ios": 0,
        "slat_ns": _latency(direction.submission, percentiles if reporting.submission_percentiles else (), with_bins),
        "clat_ns": _latency(direction.completion, percentiles if reporting.completion_percentiles else (), with_bins),
        "lat_ns": _latency(direction.service, percentiles if reporting.total_percentiles else (), with_bins),
        "bw_min": int(bandwidth.smallest),
        "bw_max": int(bandwidth.largest),
        "bw_agg": _decimal(direction.share_of_group),
        "bw_mean": _decimal(bandwidth.mean),
        "bw_dev": _decimal(bandwidth.stddev),
        "bw_samples": bandwidth.count,
        "iops_min": int(iops.smallest),
        "iops_max": int(iops.largest),
        "iops_mean": _decimal(iops.mean),
        "iops_stddev": _decimal(iops.stddev),
        "iops_samples": iops.count,
    }


def _latency(latency: Latency, percentiles: tuple[float, ...] = (), with_bins: bool = False) -> dict[str, object]:
    fields: dict[str, object] = {
        "min": latency.min_ns,
        "max": latency.max_ns,
        "mean": _decimal(latency.mean_ns),
        "stddev": _decimal(latency.stddev_ns),
        "N": latency.count,
    }
    if latency.count and percentiles:
        fields["percentile"] = {f"{percent:.6f}": latency.percentile(percent) for percent in sorted(percentiles)}
        if with_bins and latency.histogram is not None:
            counts = counts_by_bin(latency.histogram.buckets())
            fields["bins"] = {str(bin_middle_ns(number)): count for number, count in counts.items()}
    return fields


def _ours(job: JobStats) -> dict[str, object]:
    """Figures that fio's format has no field for."""
    responses = {kind: direction for kind in job.shown if (direction := job.directions[kind].response)}
    return {
        "engine": " and ".join(dict.fromkeys(worker.engine for worker in job.workers)),
        "workers": len(job.workers),
        "labels": sorted({label for worker in job.workers for label in worker.labels}),
        "errors": list(dict.fromkeys(worker.error for worker in job.workers if worker.error)),
        "differences": [found.to_builtins() for worker in job.workers for found in worker.differences],
        "response_ns": {
            kind: _latency(response, job.report.reporting.percentiles) for kind, response in responses.items()
        },
    }


def _decimals(shares: Mapping[str, float]) -> dict[str, float]:
    return {name: _decimal(share) for name, share in shares.items()}


def _decimal(value: float) -> float:
    """Rounds to six decimal places, as fio prints."""
    return round(value, 6)


TERSE_PERCENTILES = 20
"""Number of percentile fields; unused ones are ``0%=0``."""


def render_terse(prepared: FioCommand, result: Result) -> str:
    """Renders a line per reported job, of several hosts one after the other, as fio's clients do."""
    version = prepared.output.terse_version
    disks = list(_disk_fields(prepared.disks.uses())) if version > 2 else []
    hosts = [of_client(prepared, result, host.client) for host in clients_of(result)]
    jobs = [job for one in hosts or [result] for job in job_stats(prepared, one)]
    return "".join(";".join(_terse_fields(job, version, disks)) + "\n" for job in jobs)


def _disk_fields(uses: Iterable[DiskUse]) -> Iterator[str]:
    for disk in uses:
        yield disk.name
        yield from map(str, disk.counts.values())
        yield f"{disk.util_percent:.2f}%"


def _terse_fields(job: JobStats, version: int, disks: Sequence[str]) -> Iterator[str]:
    yield str(version)
    if version > 2:
        yield FIO_VERSION
    yield from (job.report.name, str(job.group), str(job.error))
    kinds = ("read", "write") if version == 3 else ("read", "write", "trim")
    for kind in kinds if job.report.reporting.mixed == "none" else job.shown:
        yield from _direction_fields(job.directions[kind], job.report.reporting, version)
    yield from (f"{job.cpu_percent(mode):.6f}%" for mode in ("user_ns", "system_ns"))
    yield from map(str, (job.cpu.context_switches, job.cpu.major_faults, job.cpu.minor_faults))
    yield from (f"{share:.1f}%" for share in job.depth_percent().values())
    yield from _latency_ranges(job)
    yield from disks
    yield from map(str, job.errors.values())
    if job.report.description:
        yield job.report.description


def _direction_fields(direction: Direction, reporting: Reporting, version: int) -> Iterator[str]:
    yield str(direction.bytes >> 10)
    yield str(int(direction.bytes_per_s / 1024))
    yield str(int(direction.iops))
    yield str(direction.runtime_ms)
    yield from _latency_fields(direction.submission)
    yield from _latency_fields(direction.completion)
    yield from _percentile_fields(direction.completion, reporting)
    yield from _latency_fields(direction.service)
    bandwidth, iops = direction.bandwidth, direction.iops_samples
    yield from (str(int(bandwidth.smallest)), str(int(bandwidth.largest)), f"{direction.share_of_group:.6f}%")
    yield from _spread(bandwidth)
    if version >= 5:
        yield from (str(bandwidth.count), str(int(iops.smallest)), str(int(iops.largest)), *_spread(iops))
        yield str(iops.count)


def _latency_fields(latency: Latency) -> Iterator[str]:
    """Minimum, maximum, mean and standard deviation in microseconds."""
    yield from (str(latency.min_ns // 1000), str(latency.max_ns // 1000))
    yield from (f"{latency.mean_ns / 1000:.6f}", f"{latency.stddev_ns / 1000:.6f}")


def _percentile_fields(latency: Latency, reporting: Reporting) -> Iterator[str]:
    asked = sorted(reporting.percentiles)[:TERSE_PERCENTILES]
    yield from (f"{percent:.6f}%={latency.percentile(percent) // 1000}" for percent in asked)
    yield from ["0%=0"] * (TERSE_PERCENTILES - len(asked))


def _spread(samples: Spread) -> Iterator[str]:
    yield from (f"{samples.mean:.6f}", f"{samples.stddev:.6f}")


def _latency_ranges(job: JobStats) -> Iterator[str]:
    """Shares by microseconds, then milliseconds. Latencies below 1 µs count in the first range, as in fio."""
    shares = job.latency_percent()
    microseconds = list(shares["latency_us"].values())
    microseconds[0] += sum(shares["latency_ns"].values())
    yield from (f"{share:.2f}%" for share in (*microseconds, *shares["latency_ms"].values()))
