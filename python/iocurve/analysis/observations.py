"""The points of a run that can be compared to find the limits of a target that says nothing of itself.

Each is a closed loop with all of its depth in flight, of reads and writes of one block size, whose rate is known well
enough. A point that was held up by this machine is marked: it proves nothing, but it can turn out to be at a limit that
others prove.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from iocurve.analysis.measured_load import IN_FLIGHT, MeasuredLoad
from iocurve.engine.plan import FixedBlocks
from iocurve.model.fit import DISTANCE_MAX, ERROR_MIN, LoadRate
from iocurve.result.document import Point, TargetFacts
from iocurve.result.stalls import STARVED, STEAL_SHARE, waited_for_others
from iocurve.result.stats import judged_mean, sample_mean

ERROR_MAX = 0.15
"""A rate that is known less well is compared with none."""
NORMAL = 1.96
"""Half widths of 95 % intervals are this many standard errors of a normal distribution."""
REPEATS_MIN = 3
SERIES_MIN = 8
HELD_UP = 1.02
"""A rate that is higher by this factor between stalls of this machine was held up."""
KNOWN_KINDS = ("nfs", "directory", "file", "device", "unknown")


class ObservedPoint(LoadRate, frozen=True, kw_only=True, dict=True):
    """A point with what bears on its limit. Points are compared with those of the same order of offsets."""

    point: Point
    workers: int
    """Threads of the load."""
    latency_ns: float
    """Mean."""


def tells_nothing(target: TargetFacts) -> bool:
    """True of a target whose limits are not known: a server, a file system or a device, and no emulation."""
    told = (target.servers, target.service_ns, target.latency_ns, target.latency_mean_ns)
    return target.kind in KNOWN_KINDS and not target.caps and not any(told)


def observations(points: Iterable[Point], target: TargetFacts) -> list[ObservedPoint]:
    """The points that can be compared."""
    return [found for point in points if (found := _observation(MeasuredLoad(point, target)))]


def _observation(load: MeasuredLoad) -> ObservedPoint | None:
    summary, point = load.summary, load.point
    if len(point.plan.groups) > 1 or not summary.operations or summary.errors or summary.paced:
        return None
    if any(client.state not in ("finished", "merged") for client in point.clients):
        return None
    machines = max(1, len(point.clients))
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
    if (
        size is None
        or others
        or kinds - {"read", "write"}
        or len(load.clients) > machines
        or not is_full
        or error is None
    ):
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
        clients=machines,
    )


def _mix(load: MeasuredLoad) -> float:
    operations = [operation for worker in load.workers for operation in worker.plan.operations]
    shares = math.fsum(one.share for one in operations)
    return math.fsum(one.share for one in operations if one.kind == "read") / shares if shares else 1.0


def _error(load: MeasuredLoad) -> float | None:
    turns = [turn.iops for turn in load.point.runs if turn.state == "finished"]
    return relative_error(turns, [interval.iops for interval in load.course], load.point.length_chosen_by)


def relative_error(turns: Sequence[float], rates: Sequence[float], chosen_by: int = 0) -> float | None:
    """Relative standard error of a rate, from its turns or else its intervals; None where it is not known well enough.

    A short series of intervals does not show how they depend on one another: they are taken as independent, with
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


GROWS = 1.4
"""Smallest gain from twice of a thing where that thing is the limit."""
SAME = 1.2
"""Greatest gain from twice the depth, or more, where the depth is not the limit."""
WAITS = 3.0
"""A latency of this many times that of an idle target shows that the depth is not the limit: then twice the depth gives
at most 1.2 times the rate in a network of balanced stations, and less in any other (J. Zahorjan, K. C. Sevcik, D. L.
Eager and B. Galler, "Balanced job bound analysis of queueing networks", CACM 25, 1982)."""
UNLOADED = 0.9
"""The share of the time in flight that the latency of an idle target explains where the depth is the limit."""


# ---- what the depth and the connections do


def ratio_bounds(one: ObservedPoint, other: ObservedPoint) -> tuple[float, float]:
    """The bounds of the ratio of two rates."""
    return _bounds(one.iops / other.iops, one, other)


def same_but_depth(found: Iterable[ObservedPoint]) -> Iterator[tuple[ObservedPoint, ObservedPoint]]:
    """Pairs that differ in their depth alone, by at least a factor of two, the smaller depth first."""
    quiet = [one for one in found if not one.is_held_up]
    for one, other in combinations(quiet, 2):
        low, high = sorted((one, other), key=lambda each: each.depth)
        is_same = (low.load, low.workers, low.connections) == (high.load, high.workers, high.connections)
        if is_same and high.depth >= 2 * low.depth:
            yield low, high


def waiting(low: ObservedPoint, high: ObservedPoint) -> tuple[float, float]:
    """Bounds of the latency at the greater depth relative to that at the smaller."""
    return _bounds(high.latency_ns / low.latency_ns, high, low)


def _bounds(ratio: float, one: ObservedPoint, other: ObservedPoint) -> tuple[float, float]:
    error = DISTANCE_MAX * math.hypot(one.error, other.error)
    return ratio * math.exp(-error), ratio * math.exp(error)


def connections_pay(few: ObservedPoint, found: Iterable[ObservedPoint]) -> ObservedPoint | None:
    """A point with more connections and else the same load, which has a higher rate: a limit of each connection."""
    for one in found:
        is_same = (one.load, one.workers, one.depth) == (few.load, few.workers, few.depth) and not one.is_held_up
        if is_same and one.connections >= 2 * few.connections > 0 and ratio_bounds(one, few)[0] >= GROWS:
            return one
    return None
