"""Fits the model of a target to measured points: which limits explain them, and what they leave open.

A limit shows as equality: points that differ in depth, block size or mix reach the same rate, no point reaches
more, and operations wait. One point alone shows no limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from statistics import median

import msgspec

from iocurve.foundation.structs import Struct
from iocurve.foundation.units import SECOND_NS
from iocurve.result.caps import CAPS, Cap
from iocurve.result.document import Point
from iocurve.volume.limits import AddedLatency, Limits

SAME = 0.03
"""Rates that differ by less are equal."""
OTHER = 1.5
"""Depths and block sizes differ by this factor."""
OTHER_MIX = 0.15
CAPS_MAX = 4
"""Most limits of a fit."""
WAITS = 1.25
"""Operations wait where their latency is this multiple of the least one."""


class Fit(Struct):
    """The limits that explain a result."""

    limits: Limits
    points: int
    """Points that were used."""
    iops_max: float
    """The highest rate of a point: above it nothing was measured."""
    open: tuple[str, ...] = ()
    """Questions that the points leave open."""


class ClosedPoint(msgspec.Struct, frozen=True):
    """A point in a closed loop."""

    rates: dict[tuple[str, str], float]
    """By quantity and kind of operation, as caps count them."""
    in_flight: float
    block_bytes: float
    reads: float
    """Share of the operations."""
    latency_s: float
    interval: tuple[float, float]
    """Bounds of its rates, as parts of them."""

    def is_at(self, quantity: str, kind: str, value: float) -> bool:
        """True if the rate is a value, or its interval has it."""
        low, high = (self.rates[quantity, kind] * bound for bound in self.interval)
        return low <= value * (1 + SAME) and high >= value * (1 - SAME)


def fitted(points: Iterable[Point]) -> Fit | None:
    """The limits that explain reads and writes in closed loops; None without such points."""
    rows = [row for point in points if (row := _row(point))]
    if not rows:
        return None
    found = explaining(rows)
    idle = [row.latency_s for row in rows if not any(_reaches(row, cap) for cap in found)]
    latency = AddedLatency(base_ns=round(min(idle, default=0.0) * SECOND_NS))
    iops_max = max(row.rates["iops", "any"] for row in rows)
    return Fit(
        limits=Limits(caps=found, latency=latency),
        points=len(rows),
        iops_max=iops_max,
        open=tuple(_left_open(rows, found, idle)),
    )


def _row(point: Point) -> ClosedPoint | None:
    """None for a point with a rate, with other operations, or without any."""
    summary = point.summary()
    kinds = {kind: totals for kind, totals in summary.kinds.items() if totals.operations}
    if summary.paced or not kinds or set(kinds) - {"read", "write"}:
        return None
    rates = {("iops", "any"): summary.iops, ("bytes_per_s", "any"): summary.bytes_per_s}
    for kind in ("read", "write"):
        rates["iops", kind] = kinds[kind].iops if kind in kinds else 0.0
        rates["bytes_per_s", kind] = kinds[kind].bytes_per_s if kind in kinds else 0.0
    rate = point.rate_interval()
    return ClosedPoint(
        rates=rates,
        in_flight=summary.depth_requested,
        block_bytes=summary.bytes_per_s / summary.iops,
        reads=rates["iops", "read"] / summary.iops,
        latency_s=summary.service.mean_ns / SECOND_NS,
        interval=(
            1.0 if rate.low is None else rate.low / rate.value,
            1.0 if rate.high is None else rate.high / rate.value,
        ),
    )


def explaining(rows: Sequence[ClosedPoint]) -> tuple[Cap, ...]:
    """The fewest limits that leave the fewest waiting points without one; of equals those with the most points."""
    least = min(row.latency_s for row in rows)
    waiting = [row for row in rows if row.latency_s > least * WAITS]
    candidates = [found for cap in CAPS if cap.scope == "volume" and (found := _candidate(rows, cap))]
    has_mixes = len({round(row.reads, 1) for row in rows}) > 1
    sets = [few for count in range(CAPS_MAX + 1) for few in combinations(candidates, count)]

    def cost(caps: tuple[Cap, ...]) -> tuple[int, int, int, int]:
        unexplained = sum(not any(_reaches(row, cap) for cap in caps) for row in waiting)
        shown = sum(_reaches(row, cap) for row in waiting for cap in caps)
        return unexplained, len(caps), -shown, sum((cap.kind == "any") != has_mixes for cap in caps)

    return min(sets, key=cost)


def _candidate(rows: Sequence[ClosedPoint], cap: Cap) -> Cap | None:
    """A cap at the most that a point reaches, if loads that differ reach it; a joint one if different mixes do."""
    key = cap.quantity, cap.kind
    for value in sorted((row.rates[key] for row in rows if row.rates[key]), reverse=True):
        if any(row.rates[key] * row.interval[0] > value * (1 + SAME) for row in rows):
            return None
        near = [row.rates[key] for row in rows if abs(row.rates[key] / value - 1) <= SAME]
        pairs = combinations([row for row in rows if row.rates[key] in near], 2)
        if any(_mixes_differ(*pair) or (cap.kind != "any" and _loads_differ(*pair)) for pair in pairs):
            return cap.replace(value=round(median(near)))
    return None


def _loads_differ(one: ClosedPoint, other: ClosedPoint) -> bool:
    ratios = one.in_flight / other.in_flight, one.block_bytes / other.block_bytes
    return any(max(ratio, 1 / ratio) > OTHER for ratio in ratios)


def _mixes_differ(one: ClosedPoint, other: ClosedPoint) -> bool:
    return abs(one.reads - other.reads) >= OTHER_MIX


def _reaches(row: ClosedPoint, cap: Cap) -> bool:
    return row.is_at(cap.quantity, cap.kind, cap.value)


def _left_open(rows: Sequence[ClosedPoint], found: Sequence[Cap], idle: Sequence[float]) -> Iterator[str]:
    blocks = [row.block_bytes for row in rows]
    quantities = {cap.quantity for cap in found}
    if len(quantities) == 2 and max(blocks) <= OTHER * min(blocks):
        yield "all points have one block size: whether operations or bytes are limited is not known"
    if not found:
        yield "no two loads reach the same rate: no limit is known"
    if not idle:
        yield "each point reaches a limit: the latency of an idle target is not known"
    for kind, other in (("read", "write"), ("write", "read")):
        if all(not row.rates["iops", kind] for row in rows):
            yield f"no point has {kind}s: what limits them, and whether they share the limits of {other}s, is not known"
