"""Finds the rate that several loads reach and none exceeds, and what it counts.

A limit holds different loads at the same value of what it counts: one on bytes at equal MiB/s for each block size, one
on operations at equal IOPS, one of each connection at equal rates per connection, one on reads at equal rates of reads
for each mix. Values that have nothing to do with each other are seldom equal: if the ratio of two is taken as anything
within the range that block sizes and depths allow (a uniform distribution of its logarithm), then the Bayes factor
tells by how much equality speaks for a limit (R. E. Kass and A. E. Raftery, "Bayes factors", Journal of the American
Statistical Association 90, 1995). Unrelated values reach a factor of 100 in at most 1 of 100 cases.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from iocurve.analysis.observations import ERROR_MIN, Kind, ObservedPoint
from iocurve.result.document import RateName

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


@dataclass(frozen=True)
class CommonCeiling:
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
