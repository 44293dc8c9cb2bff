"""Statistics of a time span by thread, target and direction, computed from the outcomes of its workers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from iocurve.dialects.diskspd.invocation import PreparedSpan
from iocurve.dialects.diskspd.job import Row
from iocurve.engine.outcome import IntervalOutcome, LatencyOutcome, Outcome, WorkerOutcome
from iocurve.result.summary import Latency, merge_latencies
from iocurve.units import MILLISECOND_NS, SECOND_NS


@dataclass(frozen=True)
class Bucket:
    """Operations of one interval."""

    seconds: float
    operations: int = 0
    mean_ms: float = 0.0
    deviation_ms: float = 0.0
    min_ms: float = 0.0
    max_ms: float = 0.0

    @property
    def iops(self) -> float:
        """Rate over the interval."""
        return self.operations / self.seconds


@dataclass(frozen=True)
class Part:
    """Operations of one direction, or of both directions merged."""

    bytes: int
    operations: int
    latencies: tuple[LatencyOutcome, ...]
    buckets: tuple[Bucket, ...]
    """Buckets in order, from the start of the measured time."""

    @property
    def latency(self) -> Latency:
        """Latency from submission to completion."""
        return merge_latencies(self.latencies)

    @property
    def iops_deviation(self) -> float:
        """Standard deviation of the IOPS of the intervals."""
        if not self.buckets:
            return 0.0
        mean = math.fsum(bucket.iops for bucket in self.buckets) / len(self.buckets)
        return math.sqrt(math.fsum((bucket.iops - mean) ** 2 for bucket in self.buckets) / len(self.buckets))


@dataclass(frozen=True)
class TargetStats:
    """One thread on one target."""

    row: Row
    reads: Part
    writes: Part

    @property
    def total(self) -> Part:
        """Reads and writes merged."""
        return merged([self.reads, self.writes])


@dataclass(frozen=True)
class SpanStats:
    """A time span of the results."""

    seconds: float
    """Length of the measured time; 0 if the run was stopped before it began."""
    threads: tuple[tuple[TargetStats, ...], ...]

    @property
    def targets(self) -> list[TargetStats]:
        """Threads on targets, over all threads."""
        return [target for thread in self.threads for target in thread]

    @property
    def reads(self) -> Part:
        """Reads of all threads."""
        return merged([target.reads for target in self.targets])

    @property
    def writes(self) -> Part:
        """Writes of all threads."""
        return merged([target.writes for target in self.targets])

    @property
    def total(self) -> Part:
        """Reads and writes of all threads."""
        return merged([self.reads, self.writes])


def span_stats(prepared: PreparedSpan, outcome: Outcome | None, clients: int = 1) -> SpanStats:
    """Adds up the workers of each thread. ``outcome`` is None if the time span never ran.

    On a cluster the threads of the second load client follow those of the first.
    """
    if outcome is None:
        return SpanStats(0.0, ())
    numbers = {place: number for number, place in enumerate(_worker_positions(prepared))}
    lengths = [len(group.workers) for group in prepared.plan.groups]
    workers = {
        (worker.worker // lengths[worker.group], numbers[worker.group, worker.worker % lengths[worker.group]]): worker
        for worker in outcome.workers
    }
    threads = tuple(
        tuple(_target(row, [workers[client, n] for n in row.workers if (client, n) in workers]) for row in rows)
        for client in range(clients)
        for rows in prepared.threads
    )
    return SpanStats(max((worker.window_ns for worker in workers.values()), default=0) / SECOND_NS, threads)


def merged(parts: Sequence[Part]) -> Part:
    """Merges several parts into one."""
    return Part(
        bytes=sum(part.bytes for part in parts),
        operations=sum(part.operations for part in parts),
        latencies=tuple(latency for part in parts for latency in part.latencies),
        buckets=_merged_buckets([part.buckets for part in parts]),
    )


def _worker_positions(prepared: PreparedSpan) -> list[tuple[int, int]]:
    """Group index and index within the group, for each worker of a plan."""
    groups = prepared.plan.groups
    return [(group, worker) for group in range(len(groups)) for worker in range(len(groups[group].workers))]


def _target(row: Row, workers: Sequence[WorkerOutcome]) -> TargetStats:
    reads, writes = (merged([_part(worker, kind) for worker in workers]) for kind in ("read", "write"))
    return TargetStats(row, reads, writes)


def _part(worker: WorkerOutcome, kind: str) -> Part:
    outcome = worker.operations.get(kind)
    buckets = tuple(_bucket(interval, kind) for interval in worker.intervals if _is_measured(interval))
    if outcome is None:
        return Part(0, 0, (), buckets)
    return Part(outcome.bytes, outcome.operations, (outcome.service,), buckets)


def _is_measured(interval: IntervalOutcome) -> bool:
    """True if the interval counts. A rest shorter than a millisecond at the end of the run does not."""
    return not interval.ramp and interval.end_ns - interval.start_ns >= MILLISECOND_NS // 2


def _bucket(interval: IntervalOutcome, kind: str) -> Bucket:
    seconds = (interval.end_ns - interval.start_ns) / SECOND_NS
    did = interval.operations.get(kind)
    if did is None:
        return Bucket(seconds)
    latencies = (value / MILLISECOND_NS for value in (did.mean_ns, did.stddev_ns, did.min_ns, did.max_ns))
    return Bucket(seconds, did.operations, *latencies)


def _merged_buckets(series: Iterable[tuple[Bucket, ...]]) -> tuple[Bucket, ...]:
    """Merges bucket by bucket; a worker that ended early adds nothing to the later ones."""
    columns: list[list[Bucket]] = []
    for buckets in series:
        columns += [[] for _ in range(len(buckets) - len(columns))]
        for column, bucket in zip(columns, buckets, strict=False):
            column.append(bucket)
    return tuple(map(_merged_bucket, columns))


def _merged_bucket(buckets: Sequence[Bucket]) -> Bucket:
    operations = sum(bucket.operations for bucket in buckets)
    mean = math.fsum(bucket.operations * bucket.mean_ms for bucket in buckets) / (operations or 1)
    squares = (bucket.operations * (bucket.deviation_ms**2 + (bucket.mean_ms - mean) ** 2) for bucket in buckets)
    return Bucket(
        seconds=max(bucket.seconds for bucket in buckets),
        operations=operations,
        mean_ms=mean,
        deviation_ms=math.sqrt(math.fsum(squares) / (operations or 1)),
        min_ms=min((bucket.min_ms for bucket in buckets if bucket.operations), default=0.0),
        max_ms=max(bucket.max_ms for bucket in buckets),
    )
