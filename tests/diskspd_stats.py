"""Synthetic statistics of threads for tests of DiskSpd's output."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from iocurve._native import Histogram
from iocurve.dialects.diskspd.job import Row
from iocurve.dialects.diskspd.output.span_stats import Bucket, Part, TargetStats
from iocurve.dialects.diskspd.output.system import Processor, System
from iocurve.dialects.diskspd.read.distribution import Zone
from iocurve.engine.outcome import LatencyOutcome
from iocurve.result.document import MachineUse, ProcessorUse
from iocurve.units import MIB

ONE_PROCESSOR = System("host", (Processor(0, 0, 0, 0),), "performance")
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


def row(path: str = "testfile1.dat", *zones: Zone) -> Row:
    return Row(path, 10 * MIB, zones, (0,))


def buckets(*operations: int) -> tuple[Bucket, ...]:
    return tuple(Bucket(1.0, count, 1.5, 0.5, 0.25, 2.5) for count in operations)


def mixed(path: str = "testfile1.dat") -> TargetStats:
    """The values of DiskSpd's own test of its text output."""
    reads = Part(4 * MIB, 6, (latency(1, 2, 3, 4, 5, 6),), buckets(*[1] * 10))
    return TargetStats(row(path), reads, Part(2 * MIB, 10, (), buckets(*[0] * 10)))
