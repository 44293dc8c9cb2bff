"""The intervals of a run: operations of each kind with their latencies, and their average."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iocurve.engine.outcome import IntervalKind, WorkerOutcome
from iocurve.machine.processors import Processors
from iocurve.result.course import group_intervals
from iocurve.result.summary import NOTHING, together
from iocurve.units import MIB, SECOND_NS

TRANSFERS = frozenset({"read", "write"})


@dataclass(frozen=True)
class Row:
    """One interval, or the average of several."""

    label: str
    """Number of the interval, or ``avg_2-10``."""
    seconds: float
    parts: Mapping[str, IntervalKind]
    """By kind of operation. An open that creates the file counts as create and as open, as in vdbench."""
    counted: frozenset[str]
    """Operations that the rate counts: reads and writes, or what file workloads request without opens around it."""
    processors: Processors | None
    averaged: tuple[Row, ...] = ()
    """The intervals that an average is over."""

    @property
    def both(self) -> IntervalKind:
        """All counted operations."""
        return together(self.of(kind) for kind in sorted(self.counted))

    @property
    def rate(self) -> float:
        """Counted operations per second."""
        return self.per_second(self.both)

    def of(self, kind: str) -> IntervalKind:
        """Operations of a kind."""
        return self.parts.get(kind, NOTHING)

    def per_second(self, part: IntervalKind) -> float:
        """Operations per second."""
        return part.operations / self.seconds if self.seconds else 0.0

    def mib_per_s(self, part: IntervalKind) -> float:
        """Throughput in vdbench's MB/sec (1024**2)."""
        return part.bytes / MIB / self.seconds if self.seconds else 0.0

    @property
    def transfers(self) -> IntervalKind:
        """Reads and writes."""
        return together(self.of(kind) for kind in sorted(TRANSFERS))

    @property
    def read_percent(self) -> float:
        """Reads in percent of all transfers."""
        every = self.transfers.operations
        return 100 * self.of("read").operations / every if every else 0.0

    @property
    def queue_depth(self) -> float:
        """Mean number of operations in flight: rate x response time."""
        return self.rate * self.both.mean_ns / SECOND_NS


def row(
    label: str,
    seconds: float,
    kinds: Mapping[str, IntervalKind],
    counted: frozenset[str] = TRANSFERS,
    processors: Processors | None = None,
) -> Row:
    """Makes a row of the operations of each kind."""
    parts = dict(kinds)
    if "create" in parts:
        parts["open"] = together(parts[kind] for kind in ("open", "create") if kind in parts)
    return Row(label, seconds, parts, counted, processors)


def rows(
    workers: Sequence[WorkerOutcome],
    interval_ns: int,
    counted: frozenset[str] = TRANSFERS,
    processors: Sequence[Processors | None] = (),
) -> list[Row]:
    """The intervals of workers as rows numbered from 1; groups run one after another."""
    made = []
    for number, interval in enumerate(group_intervals(map(_without_ramp, workers))):
        length_ns = interval.end_ns - interval.start_ns
        # Skip a rest shorter than 1 % of the interval at the end of the run.
        if length_ns >= interval_ns // 100 or interval.operations:
            used = processors[number] if number < len(processors) else None
            made.append(row(str(number + 1), max(1, length_ns) / SECOND_NS, interval.operations, counted, used))
    return made


def _without_ramp(worker: WorkerOutcome) -> WorkerOutcome:
    """The worker without a difference between its ramp and what follows: vdbench's intervals do not end with a ramp."""
    return worker.replace(intervals=tuple(interval.replace(ramp=False) for interval in worker.intervals))


def average(made: Sequence[Row], skipped: int) -> Row | None:
    """Merges all rows but the first ``skipped`` (vdbench's ``avg_2-10``); None if no row is left."""
    counted = made[skipped:]
    if not counted:
        return None
    known = [one.processors for one in counted if one.processors]
    kinds = {kind for one in counted for kind in one.parts}
    return Row(
        label=f"avg_{skipped + 1}-{len(made)}",
        seconds=math.fsum(one.seconds for one in counted),
        parts={kind: together(one.of(kind) for one in counted) for kind in kinds},
        counted=counted[0].counted,
        processors=Processors.mean(known) if known else None,
        averaged=tuple(counted),
    )
