"""The workers of a time span by thread and target, viewed as DiskSpd's output needs them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from iocurve.dialects.diskspd.job import PreparedSpan, ThreadRow
from iocurve.engine.derived import measured_ns
from iocurve.engine.outcome import GroupInterval, Outcome, WorkerOutcome
from iocurve.foundation.units import MILLISECOND_NS, SECOND_NS
from iocurve.result.course import measured_intervals, work
from iocurve.result.summary import MergedOperations, Spread

READS, WRITES, BOTH = ("read",), ("write",), ("read", "write")
"""Kinds of operations of a view."""


class TargetStats(msgspec.Struct, frozen=True):
    """One thread on one target."""

    row: ThreadRow
    workers: tuple[WorkerOutcome, ...]

    def view(self, kinds: Sequence[str]) -> MergedOperations:
        """The workers of the row, merged."""
        return MergedOperations(self.workers, kinds)


class SpanStats(msgspec.Struct, frozen=True):
    """A time span of the results."""

    seconds: float
    """Length of the measured time; 0 if the run was stopped before it began."""
    threads: tuple[tuple[TargetStats, ...], ...]

    @property
    def paths(self) -> list[str]:
        """Paths of the targets, each once."""
        return list(dict.fromkeys(target.row.path for thread in self.threads for target in thread))

    def workers(self, path: str | None = None) -> list[WorkerOutcome]:
        """The workers of all rows, or of those on the target ``path``."""
        targets = (target for thread in self.threads for target in thread)
        return [worker for target in targets if path in (None, target.row.path) for worker in target.workers]


def span_stats(prepared: PreparedSpan, outcome: Outcome | None, clients: int = 1) -> SpanStats:
    """Groups the workers by thread and target. ``outcome`` is None if the time span never ran.

    On a cluster the threads of the second agent follow those of the first.
    """
    if outcome is None:
        return SpanStats(0.0, ())
    lengths = [len(group.workers) for group in prepared.plan.groups]
    places = ((group, worker) for group, length in enumerate(lengths) for worker in range(length))
    numbers = {place: number for number, place in enumerate(places)}
    workers = {
        (worker.worker // lengths[worker.group], numbers[worker.group, worker.worker % lengths[worker.group]]): worker
        for worker in outcome.workers
    }
    threads = tuple(
        tuple(
            TargetStats(row, tuple(workers[client, n] for n in row.workers if (client, n) in workers)) for row in rows
        )
        for client in range(clients)
        for rows in prepared.threads
    )
    return SpanStats(max((measured_ns(worker) for worker in workers.values()), default=0) / SECOND_NS, threads)


def buckets(workers: Sequence[WorkerOutcome]) -> list[GroupInterval]:
    """The intervals that count. A rest shorter than a millisecond at the end of the run does not."""
    return [one for one in measured_intervals(workers) if one.end_ns - one.start_ns >= MILLISECOND_NS // 2]


def iops(interval: GroupInterval, kinds: Sequence[str]) -> float:
    """Rate over one interval."""
    return work(interval, kinds).operations / ((interval.end_ns - interval.start_ns) / SECOND_NS)


def iops_deviation(view: MergedOperations) -> float:
    """Standard deviation of the IOPS of the intervals."""
    return Spread.of([iops(interval, view.kinds) for interval in buckets(view.workers)]).stddev
