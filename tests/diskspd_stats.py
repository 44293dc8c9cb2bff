"""Synthetic statistics of threads for tests of DiskSpd's output."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from data.synthetic import latency as synthetic_latency
from data.synthetic import worker_outcome
from iocurve._native import Histogram
from iocurve.dialects.diskspd.job import ThreadRow
from iocurve.dialects.diskspd.output.text import TargetStats
from iocurve.dialects.diskspd.read.values import OffsetZone
from iocurve.engine.outcome import IntervalKind, IntervalOutcome, KindOutcome, LatencyOutcome
from iocurve.foundation.units import MIB, SECOND_NS
from iocurve.machine.processes import Processor, Topology
from iocurve.result.document import MachineUse, ProcessorUse

ONE_PROCESSOR = Topology("host", (Processor(0, 0, 0, 0),), "performance")
START = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
BUSY = MachineUse(busy_share=0.55, cpus=1, processors=(ProcessorUse(processor=0, user_share=0.3, system_share=0.25),))


def latency(*values_ms: float) -> LatencyOutcome:
    histogram = Histogram()
    for value in values_ms:
        histogram.record(round(value * 1e6))
    mean = sum(values_ms) / len(values_ms) * 1e6
    deviation = math.sqrt(sum((value * 1e6 - mean) ** 2 for value in values_ms) / len(values_ms))
    return LatencyOutcome(
        count=len(values_ms),
        min_ns=round(min(values_ms) * 1e6),
        max_ns=round(max(values_ms) * 1e6),
        mean_ns=mean,
        stddev_ns=deviation,
        histogram=histogram.encode(),
    )


def row(path: str = "testfile1.dat", *zones: OffsetZone) -> ThreadRow:
    return ThreadRow(path, 10 * MIB, zones, (0,))


def did(count: int, size: int, *values_ms: float) -> KindOutcome:
    """Operations of one kind; some tests give fewer latencies than operations, or none."""
    service = latency(*values_ms) if values_ms else synthetic_latency({})
    return KindOutcome(operations=count, bytes=size, errors=0, short=0, service=service, response=None)


def stats(
    row: ThreadRow, kinds: Mapping[str, KindOutcome], counts: Sequence[tuple[int, int]], seconds: float = 1.0
) -> TargetStats:
    """A thread on a target that did ``kinds``; ``counts`` are the reads and writes of each interval."""
    length = round(seconds * SECOND_NS)
    intervals = [
        IntervalOutcome(
            index=number,
            ramp=False,
            start_ns=number * length,
            end_ns=(number + 1) * length,
            operations={"read": in_interval(reads), "write": in_interval(writes)},
        )
        for number, (reads, writes) in enumerate(counts)
    ]
    return TargetStats(row, (worker_outcome(kinds, intervals=intervals),))


def in_interval(count: int) -> IntervalKind:
    return IntervalKind(
        operations=count,
        bytes=0,
        errors=0,
        mean_ns=1.5e6,
        stddev_ns=0.5e6,
        p50_ns=0,
        p99_ns=0,
        min_ns=250_000,
        max_ns=2_500_000,
    )


def mixed(path: str = "testfile1.dat") -> TargetStats:
    """The values of DiskSpd's own test of its text output."""
    kinds = {"read": did(6, 4 * MIB, 1, 2, 3, 4, 5, 6), "write": did(10, 2 * MIB)}
    return stats(row(path), kinds, [(1, 0)] * 10)
