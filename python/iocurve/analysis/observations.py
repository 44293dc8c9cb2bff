"""The points of a run that can be compared to find the limits of a target that says nothing of itself.

Each is a closed loop with all of its depth in flight, of reads and writes of one block size, whose rate is known well
enough. A point that was held up by this machine is marked: it proves nothing, but it can turn out to be at a limit that
others prove.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import combinations
from typing import Literal

import msgspec

from iocurve.analysis.measured_load import IN_FLIGHT, MeasuredLoad
from iocurve.engine.plan import FixedBlocks
from iocurve.result.document import Point, RateName, TargetFacts
from iocurve.result.stalls import STARVED, STEAL_SHARE, waited_for_others
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


class ObservedPoint(msgspec.Struct, frozen=True, dict=True):
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
    clients: int = 1
    """Machines of the load."""

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


Scope = Literal["volume", "connection"]
FACTOR_MIN = 100.0
"""Least Bayes factor of a limit that explains equal values against values that are unrelated."""
MEMBERS_MIN = 3
DISTANCE_MAX = 2.6
"""Values that differ by more standard errors are not equal (1 % of equal ones do)."""
MIXES_DIFFER = 0.2
"""Shares of reads that differ by less are the same mix."""
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


class CommonCeiling(msgspec.Struct, frozen=True):
    """The highest value of a quantity, which several points have."""

    quantity: RateName
    kind: Kind
    scope: Scope
    value: float
    """Operations or bytes per second, of a connection where the scope is one."""
    error: float
    """Relative standard error."""
    members: tuple[ObservedPoint, ...]
    """The points that prove it, none of which was held up."""

    @property
    def blocks(self) -> list[int]:
        """The block sizes of its members."""
        return sorted({one.block_bytes for one in self.members})

    def value_of(self, one: ObservedPoint) -> float:
        """The value of a point that is compared with the ceiling; 0 if there is none."""
        return _value(one, self.quantity, self.kind, self.scope)

    def holds(self, one: ObservedPoint) -> bool:
        """True if a point is at the ceiling, also if this machine held it up."""
        value = self.value_of(one)
        return (
            value > 0 < self.value
            and _distance(value, one.rate_error(self.kind), self.value, self.error) <= DISTANCE_MAX
        )


def ceiling(found: Iterable[ObservedPoint], quantity: RateName, kind: Kind, scope: Scope) -> CommonCeiling | None:
    """The points at the highest value, if there are several; one alone at the top shows that there is no ceiling."""
    values = [(one, _value(one, quantity, kind, scope)) for one in found if not one.is_held_up]
    ranked = sorted(((one, value) for one, value in values if value), key=lambda pair: -pair[1])
    members: list[tuple[ObservedPoint, float]] = []
    value, error = 0.0, math.inf
    for one, next_value in ranked:
        if members and _distance(next_value, one.rate_error(kind), value, error) > DISTANCE_MAX:
            break
        members.append((one, next_value))
        value, error = _pooled([(each, member.rate_error(kind)) for member, each in members])
    if len(members) < MEMBERS_MIN:
        return None
    return CommonCeiling(quantity, kind, scope, value, error, tuple(one for one, _ in members))


def factor(found: CommonCeiling, depth_excluded: bool) -> float:
    """The Bayes factor of a limit on the ceiling's quantity against unrelated rates at each block size.

    If the depth may be the limit, block sizes are not counted whose equality the same latency would explain.
    """
    logarithm, known = 0.0, list[ObservedPoint]()
    for size in found.blocks:
        members = [one for one in found.members if one.block_bytes == size]
        if known:
            logarithm += _log_factor(found, known, members, depth_excluded)
        known += members
    return math.exp(min(700.0, logarithm))


def _log_factor(
    found: CommonCeiling, known: Sequence[ObservedPoint], further: Sequence[ObservedPoint], depth_excluded: bool
) -> float:
    (value, error), (other, other_error) = _group(found, known), _group(found, further)
    together = math.hypot(error, other_error)
    sizes = math.log(max(one.block_bytes for one in further) / max(one.block_bytes for one in known))
    depths = min(abs(math.log(one.depth / two.depth)) for one in further for two in known)
    if not depth_excluded:
        # With the same latency, the rates of two loads are as their depths.
        explained = min(
            abs(math.log(_of_depth(found.quantity, one) / _of_depth(found.quantity, two)))
            for one in further
            for two in known
        )
        if explained <= DISTANCE_MAX * together + ERROR_MIN:
            return 0.0
    distance = math.log(other / value) / together
    return math.log((sizes + depths) / (together * math.sqrt(2 * math.pi))) - distance**2 / 2


def _of_depth(quantity: RateName, one: ObservedPoint) -> float:
    return one.depth * (one.block_bytes if quantity == "bytes_per_s" else 1)


def _group(found: CommonCeiling, members: Sequence[ObservedPoint]) -> tuple[float, float]:
    value, error = _pooled([(found.value_of(one), one.rate_error(found.kind)) for one in members])
    # A bucket lets the same burst through in each, so the burst stays whole in the mean.
    return value, math.hypot(error, ERROR_MIN)


def _pooled(values: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The mean of values with relative errors, by its logarithm, and its relative error."""
    weights = [1 / error**2 for _, error in values]
    total = math.fsum(weights)
    logarithm = math.fsum(weight * math.log(value) for (value, _), weight in zip(values, weights, strict=True)) / total
    return math.exp(logarithm), math.sqrt(1 / total)


def _distance(value: float, error: float, other: float, other_error: float) -> float:
    """Standard errors between two values."""
    return abs(math.log(value / other)) / math.hypot(error, other_error)


def _value(one: ObservedPoint, quantity: RateName, kind: Kind, scope: Scope) -> float:
    if scope == "connection" and not one.connections:
        return 0.0
    return one.rate(kind, quantity) / (one.connections if scope == "connection" else 1)


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
