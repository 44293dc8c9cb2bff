"""Writes fio's log files: ``write_bw_log``, ``write_iops_log``, ``write_lat_log``, ``write_hist_log``, ``write_iolog``.

A line is milliseconds, value, direction, bytes, [offset,] priority. Without ``log_avg_msec`` there is a line for each
operation; its bandwidth is the operation's bytes over its own latency. The slat log is empty if the submission latency
is not measured separately.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from iocurve import _native
from iocurve.dialects.fio.job import FioCommand
from iocurve.dialects.fio.output.job_stats import BINS, KIND_NAMES, counts_by_bin
from iocurve.dialects.fio.read.draft import Logs
from iocurve.engine.derived import LogRecords, measured_ns, unpack, with_drained
from iocurve.engine.outcome import WorkerOutcome
from iocurve.engine.plan import Worker
from iocurve.foundation.errors import TargetError
from iocurve.foundation.units import MICROSECOND_NS, MILLISECOND_NS, SECOND_NS
from iocurve.result.document import Result


class Record(msgspec.Struct, frozen=True):
    """All operations of one kind in a window."""

    at_ns: int
    """End of the window, counted from the start of the worker's measured window."""
    length_ns: int
    kind: int
    operations: int
    bytes: int
    mean_ns: float
    max_ns: float


def planned(prepared: FioCommand) -> list[Path]:
    """One file of each kind of log that the sections ask for, with the name for the first job."""
    paths = []
    for logs in (section.reporting.logs for section in prepared.sections):
        kinds = ((logs.bandwidth, "bw"), (logs.latency, "lat"), (logs.iops, "iops"), (logs.histogram, "clat_hist"))
        paths += [Path(f"{prefix}_{kind}.1.log") for prefix, kind in kinds if prefix]
        paths += [Path(logs.iolog)] if logs.iolog else []
    return paths


def write(prepared: FioCommand, result: Result) -> list[Path]:
    """Writes the log files that the sections ask for. Returns their paths. Raises ``TargetError``."""
    contents: dict[Path, list[str]] = {}
    for number, logs, worker in _logged(prepared, result):
        epoch_ms = int(result.created.timestamp() * 1000) if logs.unix_epoch else 0
        for prefix, name, lines in _files(logs, worker, epoch_ms):
            suffix = f".{number}" if logs.per_job else ""
            contents.setdefault(Path(f"{prefix}_{name}{suffix}.log"), []).extend(lines)
    for path, lines in contents.items():
        _write(path, lines)
    return [*contents, *_write_iologs(prepared, result)]


def _write_iologs(prepared: FioCommand, result: Result) -> list[Path]:
    """Writes the traces of write_iolog. As in fio, all jobs append to one file, also to one that exists."""
    traces: dict[Path, list[str]] = {}
    for _, logs, worker in _logged(prepared, result):
        if logs.iolog:
            planned = prepared.plan.groups[worker.group].workers[worker.worker]
            traces.setdefault(Path(logs.iolog), []).extend(_iolog_lines(worker, planned))
    for path, lines in traces.items():
        _write(path, lines, mode="a")
    return list(traces)


def _iolog_lines(worker: WorkerOutcome, planned: Worker) -> Iterator[str]:
    """Yields a trace that ``read_iolog`` replays: version 3 of fio's iolog.

    Lines are microseconds, file, action, offset and length, in the order in which operations were submitted.
    """
    assert worker.log is not None, "a worker with write_iolog has a log"
    names = [_name(file.path) for file in planned.files]
    yield "fio version 3 iolog\n"
    for action in ("add", "open"):
        yield from (f"0 {name} {action}\n" for name in names)
    last_us = 0
    for last_us, kind, offset, length, file in _submitted(unpack(worker.log)):
        yield f"{last_us} {names[file]} {kind} {offset} {length}\n"
    yield from (f"{last_us} {name} close\n" for name in names)


def _submitted(records: LogRecords) -> list[tuple[int, str, int, int, int]]:
    columns = (records.at_ns, records.service_ns, records.kind, records.offset, records.bytes, records.file)
    found = [
        (at_ns - int(service_ns), kind, offset, length, file)
        for at_ns, service_ns, kind, offset, length, file in zip(*columns, strict=True)
    ]
    found.sort(key=lambda each: each[0])
    return [(at_ns // MICROSECOND_NS, *rest) for at_ns, *rest in found]


def _name(path: str) -> str:
    """The name as a job in the current directory would have it."""
    inside = os.path.relpath(path)
    return path if inside.startswith("..") else inside


def _write(path: Path, lines: Iterable[str], mode: Literal["w", "a"] = "w") -> None:
    try:
        with path.open(mode, encoding="utf-8") as file:
            file.writelines(lines)
    except OSError as error:
        raise TargetError(f"log {path} cannot be written: {error.strerror}") from None


def lost_records(result: Result) -> int:
    """Number of records (operations or windows) beyond the limit of the logs."""
    workers = [worker for point in result.points for worker in point.outcome.workers]
    return sum(worker.log.lost for worker in workers if worker.log)


def _logged(prepared: FioCommand, result: Result) -> Iterator[tuple[int, Logs, WorkerOutcome]]:
    """Yields the workers that have a log, each with its number in the whole run, from 1."""
    workers = [with_drained(worker) for point in result.points for worker in point.outcome.workers]
    done = {(worker.group, worker.worker): worker for worker in workers}
    for number, (place, report) in enumerate(prepared.by_worker(prepared.sections).items(), 1):
        worker = done.get(place)
        if worker is not None and worker.log is not None:
            yield number, report.reporting.logs, worker


def _files(logs: Logs, worker: WorkerOutcome, epoch_ms: int) -> Iterator[tuple[str, str, Iterable[str]]]:
    """Yields prefix, name and lines of each log file of a worker."""
    log = worker.log
    assert log is not None

    def lines(name: str) -> Iterator[str]:
        if not logs.window_ms:
            yield _native.operation_lines(log, name, KIND_NAMES, worker.window_start_ns, epoch_ms, logs.offsets)
            return
        value = {"bw": _bandwidth, "iops": _iops}.get(name, _LATENCIES[logs.window_value])
        window_ns = logs.window_ms * MILLISECOND_NS
        records = unpack(log)
        for record in _windows(records, _latencies(records, name), worker, window_ns):
            # fio has no rate of the part of a window in which the job ends.
            if name in {"bw", "iops"} and record.length_ns < window_ns:
                continue
            offset = "0, " if logs.offsets else ""
            yield f"{epoch_ms + record.at_ns // MILLISECOND_NS}, {value(record)}, {record.kind}, 0, {offset}0\n"

    if logs.bandwidth:
        yield logs.bandwidth, "bw", () if logs.without_bandwidth else lines("bw")
    if logs.iops:
        yield logs.iops, "iops", lines("iops")
    if logs.latency:
        written = {"lat": not logs.without_latency, "slat": logs.submission, "clat": not logs.without_completion}
        for name in (name for name, is_written in written.items() if is_written):
            yield logs.latency, name, lines(name)
    if logs.histogram:
        by_window = _histograms(unpack(log), worker, logs, log.window_ns is not None)
        yield logs.histogram, "clat_hist", (f"{epoch_ms + moment}, {rest}\n" for moment, rest in by_window)


def _bandwidth(record: Record) -> str:
    """KiB/s."""
    return str(int(record.bytes * SECOND_NS / record.length_ns / 1024))


def _iops(record: Record) -> str:
    return str(int(record.operations * SECOND_NS / record.length_ns))


_LATENCIES: dict[str, Callable[[Record], str]] = {
    "avg": lambda record: str(int(record.mean_ns)),
    "max": lambda record: str(int(record.max_ns)),
    "both": lambda record: f"{int(record.mean_ns)}, {int(record.max_ns)}",
}


Latencies: TypeAlias = tuple[Sequence[float], Sequence[float]]
"""Mean and maximum of each record, in ns."""


def _latencies(records: LogRecords, name: str) -> Latencies:
    """Latencies of fio's log ``name``: lat, or its parts slat and clat. slat is empty if it was not measured."""
    service, submission = records.service_ns, records.submission_ns
    if name == "slat":
        return submission, records.submission_ns_max or submission
    if name == "lat" or not submission:
        return service, records.service_ns_max or service
    completion = [whole - part for whole, part in zip(service, submission, strict=True)]
    return completion, records.completion_ns_max or completion


def _windows(records: LogRecords, latencies: Latencies, worker: WorkerOutcome, window_ns: int) -> Iterator[Record]:
    """Yields a record for each window and kind. The time is the window's end; the last window may be shorter."""
    columns = (records.at_ns, records.kind, records.operations, records.bytes)
    rows = zip(*columns, *latencies, strict=False)
    known = [each for each in rows if each[1] in KIND_NAMES]
    start_ns = worker.window_start_ns
    known.sort(key=lambda each: ((each[0] - start_ns) // window_ns, KIND_NAMES.index(each[1])))
    for (number, kind), group in groupby(known, key=lambda each: ((each[0] - start_ns) // window_ns, each[1])):
        parts = list(group)
        operations = sum(part[2] for part in parts)
        end_ns = min((number + 1) * window_ns, measured_ns(worker))
        yield Record(
            at_ns=end_ns,
            length_ns=max(1, end_ns - number * window_ns),
            kind=KIND_NAMES.index(kind),
            operations=operations,
            bytes=sum(part[3] for part in parts),
            mean_ns=sum(part[4] * part[2] for part in parts) / operations if operations else 0.0,
            max_ns=max(part[5] for part in parts),
        )


def _histograms(records: LogRecords, worker: WorkerOutcome, logs: Logs, is_windowed: bool) -> Iterator[tuple[int, str]]:
    """Yields milliseconds, and a line of direction, bytes and counts; a count sums 2 ** coarseness of fio's bins."""
    window_ns = (logs.histogram_window_ms or logs.window_ms or 1) * MILLISECOND_NS
    counts: dict[tuple[int, int], list[int]] = {}
    width = BINS >> logs.histogram_coarseness
    latencies = _latencies(records, "clat")[0]
    for index, kind in enumerate(records.kind):
        if kind in KIND_NAMES:
            window = (records.at_ns[index] - worker.window_start_ns) // window_ns
            row = counts.setdefault((window, KIND_NAMES.index(kind)), [0] * width)
            histogram = _native.Histogram.decode(records.histograms[index]) if is_windowed else None
            buckets = histogram.buckets() if histogram else [(int(latencies[index]), 1)]
            for number, count in counts_by_bin(buckets).items():
                row[number >> logs.histogram_coarseness] += count
    for (window, direction), row in sorted(counts.items()):
        moment = min((window + 1) * window_ns, measured_ns(worker)) // MILLISECOND_NS
        yield moment, ", ".join(map(str, (direction, 0, *row)))
