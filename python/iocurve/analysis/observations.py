"""The points of a run that can be compared to find the limits of a target that says nothing of itself.

Each is a closed loop with all of its depth in flight, of reads and writes of one block size, whose rate is known well
enough. A point that was held up by this machine is marked: it proves nothing, but it can turn out to be at a limit that
others prove.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from iocurve.analysis.measured_load import IN_FLIGHT, MeasuredLoad
from iocurve.engine.plan import FixedBlocks
from iocurve.result.disturbance import STARVED, STEAL_SHARE, waited_for_others
from iocurve.result.document import Point, RateName, TargetFacts
from iocurve.result.stats import judged_mean, sample_mean

Kind = Literal["any", "read", "write"]
ERROR_MIN = 0.003
"""Least standard error of a rate, relative: what a token bucket lets through at once, and the edges of the window."""
ERROR_MAX = 0.03
"""A rate that is known less well is compared with none."""
NORMAL = 1.96
"""Half widths of 95 % intervals are this many standard errors of a normal distribution."""
REPEATS_MIN = 3
SERIES_MIN = 8
HELD_UP = 1.02
"""A rate that is higher by this factor between stalls of this machine was held up."""
KNOWN_KINDS = ("nfs", "directory", "file", "device", "unknown")


@dataclass(frozen=True)
class ObservedPoint:
    """A point with what bears on its limit."""

    point: Point
    block_bytes: int
    mix: float
    """The share of reads that the load asks for, 0 to 1."""
    read_share: float
    """The share of the operations that were reads."""
    order: str
    """The share of random offsets: points are compared with those of the same order."""
    depth: float
    workers: int
    """Threads of the load."""
    connections: int
    """TCP connections; 0 where the target is reached without."""
    iops: float
    error: float
    """Standard error of the rate, relative; the latency has the same, by Little's law."""
    operations: int
    """Operations that the rate counts."""
    latency_ns: float
    """Mean."""
    is_held_up: bool = False
    """This machine held the load up."""

    @cached_property
    def load(self) -> tuple[int, float, str]:
        """The load, apart from its depth and its connections."""
        return self.block_bytes, self.mix, self.order

    def share(self, kind: Kind) -> float:
        """Share of the operations that are of a kind."""
        return {"any": 1.0, "read": self.read_share, "write": 1 - self.read_share}[kind]

    def rate(self, kind: Kind = "any", quantity: RateName = "iops") -> float:
        """The rate of a kind: operations or bytes per second."""
        return self.iops * self.share(kind) * (self.block_bytes if quantity == "bytes_per_s" else 1)

    def rate_error(self, kind: Kind = "any") -> float:
        """Relative standard error of the rate of a kind, which is drawn at random for each operation of a mix."""
        share = self.share(kind)
        drawn = (1 - share) / (share * self.operations) if share and self.operations else 0.0
        return math.sqrt(self.error**2 + drawn)


def tells_nothing(target: TargetFacts) -> bool:
    """True of a target whose limits are not known: a server, a file system or a device, and no emulation."""
    told = (target.servers, target.service_ns, target.latency_ns, target.latency_mean_ns)
    return target.kind in KNOWN_KINDS and not target.caps and not any(told)


def observations(points: Iterable[Point], target: TargetFacts) -> list[ObservedPoint]:
    """The points that can be compared."""
    return [found for point in points if (found := _observation(MeasuredLoad(point, target)))]


def _observation(load: MeasuredLoad) -> ObservedPoint | None:
    summary, point = load.summary, load.point
    if point.clients or len(point.plan.groups) > 1 or not summary.operations or summary.errors or summary.paced:
        return None
    blocks, orders, kinds = set(), set(), set()
    for worker in load.workers:
        if worker.plan.think:
            return None
        for operation in worker.plan.operations:
            kinds.add(operation.kind)
            orders.add(str(operation.random_percent))
            blocks.add(operation.blocks.bytes if isinstance(operation.blocks, FixedBlocks) else None)
    (size, *others) = blocks
    error = _error(load)
    is_full = summary.concurrency_achieved >= IN_FLIGHT * summary.depth_requested
    if size is None or others or kinds - {"read", "write"} or len(load.clients) > 1 or not is_full or error is None:
        return None
    return ObservedPoint(
        point=point,
        block_bytes=size,
        mix=_mix(load),
        read_share=load.iops("read") / load.iops(),
        order=" ".join(sorted(orders)),
        depth=summary.depth_requested,
        workers=len(load.workers),
        connections=load.connections,
        iops=load.iops(),
        error=error,
        operations=summary.operations,
        latency_ns=summary.service.mean_ns,
        is_held_up=_is_held_up(load),
    )


def _mix(load: MeasuredLoad) -> float:
    operations = [operation for worker in load.workers for operation in worker.plan.operations]
    shares = math.fsum(one.share for one in operations)
    return math.fsum(one.share for one in operations if one.kind == "read") / shares if shares else 1.0


def _error(load: MeasuredLoad) -> float | None:
    turns = [turn.iops for turn in load.point.turns if turn.state == "finished"]
    return relative_error(turns, [interval.iops for interval in load.course], load.point.length_chosen_by)


def relative_error(turns: Sequence[float], rates: Sequence[float], chosen_by: int = 0) -> float | None:
    """Relative standard error of a rate, from its turns or else its intervals; None where it is not known well enough.

    A short series of intervals cannot tell how they depend on one another: they are taken as independent, with
    Student's wide interval. The error of a search's point is from the intervals after the ``chosen_by`` ones that chose
    its length.
    """
    of_turns = len(turns) >= REPEATS_MIN
    estimate = (
        judged_mean(rates, chosen_by)
        if len(rates) >= SERIES_MIN and not of_turns
        else sample_mean(turns if of_turns else rates)
    )
    if not estimate.mean or not math.isfinite(estimate.half_width) or not (of_turns or len(rates) >= REPEATS_MIN):
        return None
    error = math.hypot(estimate.precision / NORMAL, ERROR_MIN)
    return error if error <= ERROR_MAX else None


def _is_held_up(load: MeasuredLoad) -> bool:
    """True if the load had too little of this machine. Shorter delays show in the intervals, and so in the error."""
    machine = load.point.machine
    if machine is None:
        return False
    return (
        waited_for_others(machine) >= STARVED or (machine.steal_share or 0.0) >= STEAL_SHARE or load.held_up > HELD_UP
    )
