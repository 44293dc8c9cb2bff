"""Statistics of each reported job, merged as fio merges them; the common input of fio's output formats.

With ``--client`` the output of each host is followed by "All clients" with the totals of all hosts and all jobs. fio
3.33 prints the same lines; its own "All clients" is missing where a job file has several sections.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

import msgspec
from msgspec.structs import replace

from iocurve.dialects.fio.job import FioCommand, SectionReport
from iocurve.engine.derived import block_bytes_min, measured_ns, with_drained
from iocurve.engine.outcome import CpuTime, SteadyOutcome, WorkerOutcome
from iocurve.engine.plan import METADATA_KINDS, LatencyTarget, OperationKind, Plan, SyncKind, Worker
from iocurve.foundation.units import SECOND_NS
from iocurve.result.document import ClientOutcome, Point, Result
from iocurve.result.summary import Latency, MergedOperations, Spread, busy_ns

KIND_NAMES: tuple[OperationKind, ...] = ("read", "write", "trim")
MIXED = "mixed"
"""Name of all kinds together (``unified_rw_reporting``)."""
DEPTHS = ("1", "2", "4", "8", "16", "32", ">=64")
"""Lower bounds of fio's iodepth levels."""
BATCHES = ("0", "4", "8", "16", "32", "64", ">=64")
"""Upper bounds of fio's submit and complete levels."""

_STEPS = (2, 4, 10, 20, 50, 100, 250, 500, 750, 1000)
LATENCY_BUCKETS = {
    "latency_ns": [(step, str(step)) for step in _STEPS],
    "latency_us": [(step * 1000, str(step)) for step in _STEPS],
    "latency_ms": [(step * 1_000_000, str(step)) for step in (*_STEPS, 2000)] + [(2**63, ">=2000")],
}
"""Upper bounds in nanoseconds with fio's labels, ascending over the three scales."""


class Direction(MergedOperations, frozen=True):
    """The reads, writes or trims of a reported job. fio's lat is ``service``, its slat ``submission``, its clat
    ``completion``."""

    idle_ns: int
    """Part of ``busy_ns`` that fio does not count for this kind: the verify phase, or the load before it."""
    bandwidth: Spread
    """In KiB/s."""
    iops_samples: Spread
    share_of_group: float
    """Mean bandwidth in percent of the group's bandwidth."""

    @property
    def runtime_ns(self) -> int:
        """Time in which at least one of its workers ran, drain included: as in fio where they start together."""
        return busy_ns(self.users) - self.idle_ns

    @property
    def runtime_ms(self) -> int:
        """Runtime in milliseconds; at least 1 if there were operations."""
        return max(1, round(self.runtime_ns / 1e6)) if self.operations else 0

    @property
    def iops(self) -> float:
        """Operations per second."""
        return self.operations * SECOND_NS / self.runtime_ns if self.runtime_ns else 0.0

    @property
    def bytes_per_s(self) -> float:
        """Bytes per second."""
        return self.bytes * SECOND_NS / self.runtime_ns if self.runtime_ns else 0.0


def steady_means(steady: SteadyOutcome) -> tuple[float, float, float]:
    """Means of IOPS, bytes per second and latency in ns of the samples of a steady state test; 0 without samples."""
    count = len(steady.samples) or 1
    rows = [(sample.iops, sample.bytes_per_s, sample.latency_ns) for sample in steady.samples] or [(0.0, 0.0, 0.0)]
    iops, bytes_per_s, latency_ns = (math.fsum(column) / count for column in zip(*rows, strict=True))
    return iops, bytes_per_s, latency_ns


class JobStats(msgspec.Struct, frozen=True):
    """One job entry of fio's output: a job of a section, or with group_reporting all jobs of a group."""

    report: SectionReport
    """The job, or the first job of the group."""
    last_report: SectionReport
    """The job, or the last job of the group."""
    group: int
    """fio's groupid."""
    workers: tuple[WorkerOutcome, ...]
    directions: Mapping[str, Direction]
    syncs: Latency
    """Latency of fsync, fdatasync and sync_file_range, which fio does not count as operations."""
    sync_count: int
    """Number of fsyncs; fio does not count the other two kinds."""
    target: LatencyTarget | None
    """The latency target of the depth search; None without one."""

    @property
    def shown(self) -> tuple[str, ...]:
        """Names of the directions in the output, by unified_rw_reporting."""
        asked = self.report.reporting.mixed
        return (MIXED,) if asked == "mixed" else (*KIND_NAMES, MIXED) if asked == "both" else KIND_NAMES

    @property
    def error(self) -> int:
        """errno of the first error that ended a worker, else of the first that was counted; 0 without one."""
        ended = [worker.errno or errno.EIO for worker in self.workers if worker.state == "failed"]
        counted = [failed.errno for worker in self.workers for failed in worker.failures]
        return next(iter((*ended, *counted)), 0)

    @property
    def errors(self) -> dict[str, int]:
        """Counts of errors by fio's names; empty without continue_on_error and ignore_error."""
        options = self.last_report.global_options | self.last_report.options
        if options.get("continue_on_error", "none") in ("none", "0") and "ignore_error" not in options:
            return {}
        counted = sum(failed.count for worker in self.workers for failed in worker.failures)
        return {"total_err": counted + sum(bool(worker.error) for worker in self.workers), "first_error": self.error}

    @property
    def runtime_ns(self) -> int:
        """Sum of the measured windows of its workers."""
        return sum(measured_ns(worker) for worker in self.workers)

    @property
    def elapsed_s(self) -> int:
        """Seconds from the start of its group to its own end, rounded up."""
        return math.ceil(max((worker.drained_ns for worker in self.workers), default=0) / SECOND_NS)

    @property
    def cpu(self) -> CpuTime:
        """CPU time, context switches and page faults of all its workers."""
        return self.directions[MIXED].cpu

    @property
    def only_laid_out(self) -> bool:
        """True if the job laid out its files, and had no operations to do."""
        return self.report.only_lays_out and not self.error

    def cpu_percent(self, mode: str) -> float:
        """Mean CPU usage of its workers in percent of one processor. ``mode`` is ``user_ns`` or ``system_ns``."""
        return 100.0 * getattr(self.cpu, mode) / self.runtime_ns if self.runtime_ns else 0.0

    @property
    def depth(self) -> int:
        """iodepth: as found by latency_target if there is one, else as written."""
        return next((worker.latency_depth for worker in self.workers if worker.latency_depth), self.report.depth)

    @property
    def steady_state(self) -> SteadyOutcome | None:
        """Result of the group's steady state test; None without one."""
        return next((worker.steady_state for worker in self.workers if worker.steady_state), None)

    def depth_percent(self) -> dict[str, float]:
        """Operations in percent, by the number in flight just after submission."""
        return _percent(DEPTHS, self.directions[MIXED].levels("depth_levels"))

    def submit_percent(self) -> dict[str, float]:
        """Submit calls in percent, by the number of operations submitted at once."""
        return _percent(BATCHES, self.directions[MIXED].levels("submit_levels"))

    def complete_percent(self) -> dict[str, float]:
        """Reap calls in percent, by the number of completions reaped at once."""
        return _percent(BATCHES, self.directions[MIXED].levels("complete_levels"))

    def latency_percent(self) -> dict[str, dict[str, float]]:
        """Operations in percent, by fio's latency ranges. A range is labelled with its upper bound."""
        shares = {scale: {name: 0.0 for _, name in bounds} for scale, bounds in LATENCY_BUCKETS.items()}
        bounds = [(bound, scale, name) for scale, names in LATENCY_BUCKETS.items() for bound, name in names]
        histogram = self.directions[MIXED].completion.histogram
        counts = histogram.buckets() if histogram else []
        total = sum(count for _, count in counts)
        for lowest, count in counts:
            scale, name = next((scale, name) for bound, scale, name in bounds if lowest < bound)
            shares[scale][name] += 100.0 * count / total
        return shares


def job_stats(prepared: FioCommand, result: Result) -> list[JobStats]:
    """The job entries of fio's output, in fio's order."""
    sections = prepared.by_worker(prepared.sections)
    blocks = _blocks_of_metadata(prepared)
    workers = [
        _as_direction(with_drained(worker), sections[worker.group, worker.worker], blocks)
        for point in result.points
        for worker in point.outcome.workers
    ]
    entries = []
    for number, group in enumerate(prepared.report_groups):
        members = tuple(worker for worker in workers if worker.report_group == number)
        if members:
            entries.append((prepared.sections[group.section], group.number, members))
    totals = _bandwidth_of_groups(entries)
    return [
        JobStats(
            report=report,
            last_report=sections[members[-1].group, members[-1].worker],
            group=number,
            workers=members,
            directions=_directions(members, prepared.plan, totals[number]),
            syncs=MergedOperations(members, get_args(SyncKind)).service,
            sync_count=MergedOperations(members, ("fsync",)).service.count,
            target=_planned(members[0], prepared.plan).latency_target,
        )
        for report, number, members in entries
    ]


def _blocks_of_metadata(prepared: FioCommand) -> dict[str, int]:
    """Bytes that fio counts for a metadata operation, by the name of the job."""
    loads = [(section.name, section.load) for section in prepared.job.sections if section.load.metadata]
    return {name or "": block_bytes_min(load.blocks.read if load.reads else load.blocks.write) for name, load in loads}


def _as_direction(worker: WorkerOutcome, report: SectionReport, blocks: Mapping[str, int]) -> WorkerOutcome:
    """The worker with its metadata operations as reads or writes of a block, which is how fio counts them."""
    found = next((kind for kind in METADATA_KINDS if kind in worker.operations), None)
    if found is None:
        return worker
    direction = "read" if report.direction.removeprefix("rand").startswith("r") else "write"
    block = blocks[worker.job]
    done = worker.operations[found]
    intervals = [
        interval.replace(operations={direction: kind.replace(bytes=kind.operations * block)})
        for interval in worker.intervals
        for kind in interval.operations.values()
    ]
    operations = {direction: done.replace(bytes=done.operations * block)}
    return worker.replace(operations=operations, intervals=tuple(intervals))


def _bandwidth_of_groups(
    entries: Sequence[tuple[SectionReport, int, tuple[WorkerOutcome, ...]]],
) -> dict[int, dict[str, float]]:
    """Bandwidth in KiB/s of all jobs with the same groupid, by groupid and kind: over the time in which one ran."""
    groups: dict[int, list[WorkerOutcome]] = {}
    for _, number, members in entries:
        groups.setdefault(number, []).extend(members)
    views = {
        number: {kind: MergedOperations(tuple(members), (kind,)) for kind in KIND_NAMES}
        for number, members in groups.items()
    }
    return {
        number: {
            kind: view.bytes * SECOND_NS / (busy_ns(view.users) or SECOND_NS) / 1024 for kind, view in kinds.items()
        }
        for number, kinds in views.items()
    }


def _percent(levels: Sequence[str], counts: Mapping[str, int]) -> dict[str, float]:
    total = sum(counts.get(level, 0) for level in levels)
    return {level: 100.0 * counts.get(level, 0) / total if total else 0.0 for level in levels}


def _directions(
    workers: Sequence[WorkerOutcome], plan: Plan, group_bandwidth: Mapping[str, float]
) -> dict[str, Direction]:
    apart = {kind: _direction((kind,), workers, plan, group_bandwidth[kind]) for kind in KIND_NAMES}
    return apart | {MIXED: _direction(KIND_NAMES, workers, plan, sum(group_bandwidth.values()))}


def _direction(kinds: Sequence[str], workers: Sequence[WorkerOutcome], plan: Plan, group_bandwidth: float) -> Direction:
    view = MergedOperations(workers, kinds)
    bandwidth = view.spread("bytes", plan.interval_ns).scaled(1 / 1024)
    return Direction(
        workers=workers,
        kinds=kinds,
        idle_ns=min(
            (
                measured_ns(worker) - max(_active_ns(worker, kind, plan) for kind in kinds if kind in worker.operations)
                for worker in view.users
            ),
            default=0,
        ),
        bandwidth=bandwidth,
        iops_samples=view.spread("operations", plan.interval_ns),
        share_of_group=min(100.0, 100.0 * bandwidth.mean / group_bandwidth) if group_bandwidth else 0.0,
    )


def _planned(worker: WorkerOutcome, plan: Plan) -> Worker:
    return plan.groups[worker.group].workers[worker.worker]


def _active_ns(worker: WorkerOutcome, kind: str, plan: Plan) -> int:
    """Runtime of one kind. fio times the load and the verify phase after it separately."""
    planned = _planned(worker, plan)
    whole_ns = measured_ns(worker)
    if kind != "read":
        return whole_ns - worker.read_back_ns
    # With a backlog, most reads are in flight next to writes, outside the verify phase.
    if planned.verify and planned.verify.backlog is not None:
        return whole_ns
    return whole_ns if any(each.kind == "read" for each in planned.operations) else worker.read_back_ns or whole_ns


# -- latency bins ------------------------------------------------------------------------------------------------------

BITS = 6
"""fio's latency bins (``json+``, ``write_hist_log``) are labelled with their middle. Each value below
2 ** (BITS + 1) has its own bin; above that, each power of two has 2 ** BITS bins."""
BINS = 29 << BITS
"""Number of bins, 1,856. The last bin holds all larger values."""


def bin_index(value_ns: int) -> int:
    """Index of the bin that holds a latency."""
    shift = max(0, value_ns.bit_length() - BITS - 1)
    offset = (value_ns >> shift) & ((1 << BITS) - 1)
    return min(((shift + 1) << BITS) + offset if value_ns >> BITS else value_ns, BINS - 1)


def bin_middle_ns(number: int) -> int:
    """Middle of a bin in nanoseconds."""
    if number < 2 << BITS:
        return number
    shift = (number >> BITS) - 1
    offset = number & ((1 << BITS) - 1)
    return (1 << (shift + BITS)) + (offset << shift) + (1 << shift >> 1)


def counts_by_bin(buckets: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Converts the (lowest value, count) pairs of a finer histogram to counts by bin index, ascending."""
    counts: dict[int, int] = {}
    for lowest, count in buckets:
        number = bin_index(lowest)
        counts[number] = counts.get(number, 0) + count
    return dict(sorted(counts.items()))


ALL_CLIENTS = "All clients"


def clients_of(result: Result) -> Sequence[ClientOutcome]:
    """The hosts, in the order of the command line; empty without ``--client``."""
    return result.points[0].clients if result.points else ()


def of_client(prepared: FioCommand, result: Result, client: int) -> Result:
    """The result of one host, as if it had run alone."""
    (point,) = result.points
    groups = point.plan.groups
    workers = [one for one in _workers(prepared, point) if groups[one[0].group].workers[one[0].worker].client == client]
    return _with_workers(result, point, workers)


def all_clients(prepared: FioCommand, result: Result) -> tuple[FioCommand, Result]:
    """One reported job of all hosts and jobs."""
    (point,) = result.points
    first = replace(prepared.sections[0], name=ALL_CLIENTS, description=None)
    group = replace(prepared.report_groups[0], section=0, number=0)
    together = replace(prepared, sections=(first, *prepared.sections[1:]), report_groups=(group,))
    workers = [(worker, changed.replace(report_group=0)) for worker, changed in _workers(prepared, point)]
    return together, _with_workers(result, point, workers)


def total_of_clients(prepared: FioCommand, result: Result) -> JobStats | None:
    """The figures of all hosts; None if nothing was measured or there is only one host, as in fio."""
    if len(clients_of(result)) < 2:
        return None
    stats = job_stats(*all_clients(prepared, result))
    return stats[0] if stats else None


def _workers(prepared: FioCommand, point: Point) -> list[tuple[WorkerOutcome, WorkerOutcome]]:
    """Each worker, and the same at its place in the plan of one host."""
    hosts = range(len(point.clients))
    places = [
        [place for client in hosts for place in range(len(group.workers)) if prepared.runs_on(number, place, client)]
        for number, group in enumerate(prepared.plan.groups)
    ]
    return [(worker, worker.replace(worker=places[worker.group][worker.worker])) for worker in point.outcome.workers]


def _with_workers(result: Result, point: Point, workers: Sequence[tuple[WorkerOutcome, WorkerOutcome]]) -> Result:
    outcome = point.outcome.replace(workers=tuple(changed for _, changed in workers))
    return result.replace(points=(point.replace(outcome=outcome),))
