"""The capacity of a target, and bounds of it that hold whatever the form of its curve.

A fit extrapolates by its own form: a curve that approaches its capacity as 1 / N and one that does so exponentially
look alike where both are measured, and differ where they end. So no form is assumed here, only how curves of saturation
bend. What the rate still misses of the capacity, C - X(N), falls ever faster on a double logarithmic scale: this holds
for a power law of any exponent (with equality, far out), for exponentials of any power, for the universal scalability
law, for closed networks of queues, and for what is cut off by a limit. Three depths then bound C from above. Where they
follow a power law, the bound is the extrapolation of A. C. Aitken ("On Bernoulli's numerical solution of algebraic
equations", Proceedings of the Royal Society of Edinburgh 46, 1926). What was measured bounds C from below.

A rate that falls with depth has a maximum, which is its capacity. There the curve lies below the secants of its
neighbours: in N where it rises, in log N where it falls.

Rates of several runs of one load differ by more than one run shows; ``REPEAT`` and Birge's ratio allow for that (random
effects, as in meta-analysis: C. Roever, G. Knapp and T. Friede, "Hartung-Knapp-Sidik-Jonkman approach and its
modification for random-effects meta-analysis with few studies", BMC Medical Research Methodology 15, 2015).
``docs/evidence/accuracy.md`` counts how often the bounds hold, on families of curves that they were not made for.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import msgspec

from iocurve.result.stats import Estimate, pooled

REPEAT = 0.005
"""Standard deviation between runs of one load, relative to the rate, that no single run shows."""
UNKNOWN_ERROR = 0.02
"""Relative error of a rate whose error is unknown."""
ERRORS = 1.96
"""Standard errors on each side of a bound."""
BOTH_ERRORS = 1.4
"""Standard errors of each of two rates where both count against a bound: together they are worth ``ERRORS``."""
FLAT = 0.003
"""A rate is flat where it surely misses at most this fraction of the capacity."""
FALL_ERRORS = 3.0
"""Standard errors of a fall that is no chance, though the best of several rates is compared; ..."""
FALLING_ERRORS = 2.3
"""Standard errors of the best of about three rates."""
MISSING_MAX = 1.0
"""A bound that is farther above what was measured, relative to it, is none."""
ASYMPTOTE_GROWTH = 0.08
"""A rate that grows by more over a step is too far from its asymptote to show it."""
TREND_ERRORS = 2.0
"""Standard errors of a slope over the depths of the top that is no chance: the rate still grows there."""
STAND_ERRORS = 2.0
"""Standard errors of each of three rates that show a plateau; ..."""
STAND_FROM = 8.0
"""... the last of them is below the best rate by more standard errors than this."""
SECANT = 1.3
"""Two points of a secant are at least this factor apart, so that it is not chance alone."""
STEP = 4
"""Factor from depth to depth of a climb."""
FALL = 0.01
"""... it also exceeds this fraction."""

Form = Literal["flat", "approaching", "growing", "falling"]
"""flat: the capacity was measured. approaching: the rate may still grow, up to a bound. growing: no bound is known.
falling: the rate has a maximum."""


class Range(msgspec.Struct, frozen=True):
    """A figure with bounds."""

    mean: float
    low: float
    high: float
    """Infinite if no upper bound is known."""


class CurvePoint(msgspec.Struct, frozen=True):
    """The rate at a queue depth."""

    in_flight: int
    rate: float
    error: float
    """Standard error, with what repeated runs differ in."""
    batches: int

    @classmethod
    def of(cls, in_flight: int, iops: Estimate) -> CurvePoint:
        """From a measured rate."""
        error = iops.error if math.isfinite(iops.error) else UNKNOWN_ERROR * iops.mean
        return cls(in_flight, iops.mean, math.hypot(error, REPEAT * iops.mean), max(iops.batches, 2))


class Capacity(msgspec.Struct, frozen=True):
    """The highest rate over all depths."""

    iops: Range
    form: Form
    top: CurvePoint
    """The points that have the capacity, or come nearest, as one at the lowest of their depths."""
    missing: float
    """Most that the top misses of the capacity, relative to the top."""
    grew_again_at: int | None
    """The depth from which the rate grew again after a plateau, or after it had slowed down; None if it did not."""


@lru_cache(maxsize=8)
def capacity_of(points: tuple[CurvePoint, ...]) -> Capacity:
    """The capacity that points in order of depth show; a search asks for the same several times."""
    whole = _rising(points)
    is_falling = len(whole) < len(points)
    stand = _stand(whole)
    rising = whole[stand:]
    top = _top(rising)
    below = rising[: len(rising) - len(top)]
    mean = pooled([Estimate(point.rate, point.error, point.batches) for point in top])
    pool = CurvePoint(top[0].in_flight, mean.mean, mean.error, mean.batches)
    # Two rates with a maximum between them look flat, so the rates before them tell nothing.
    most = hidden_peak(points)[0] if is_falling else pool.rate + _missing([*below, pool])
    missing = max(0.0, most / pool.rate - 1)
    error = pool.error * (FALLING_ERRORS if is_falling else ERRORS)
    if is_falling:
        form: Form = "falling"
    elif missing <= FLAT:
        form = "flat"
    else:
        form = "approaching" if missing < MISSING_MAX else "growing"
    high = pool.rate * (1 + missing) + error if form != "growing" else math.inf
    value = _asymptote([*below, pool]) if form == "approaching" else pool.rate
    if is_falling:
        # A smooth maximum is at most half as high above the points as its secants meet.
        value = max(value, min(_vertex(points), pool.rate * (1 + missing / 2)))
    iops = Range(min(value, high), pool.rate - error, high)
    return Capacity(iops, form, pool, missing, whole[stand].in_flight if stand else None)


def _asymptote(points: Sequence[CurvePoint]) -> float:
    """The rate towards which the last points tend as 1 / N, the law of queues and of contention."""
    last = points[-1]
    before = next((point for point in reversed(points) if point.in_flight * STEP <= last.in_flight), None)
    if before is None or not 1 < last.rate / before.rate < 1 + ASYMPTOTE_GROWTH:
        return last.rate
    # The time in the system, N / X, becomes a straight line in N with a slope of 1 / C.
    rest = before.in_flight / last.in_flight
    return (1 - rest) / (1 / last.rate - rest / before.rate)


def _rising(points: Sequence[CurvePoint]) -> Sequence[CurvePoint]:
    """The points up to the last one that may have the highest rate; after it the rate falls."""
    best = max(points, key=lambda point: point.rate)
    last = max(number for number, point in enumerate(points) if not _is_below(point, best))
    return points[: last + 1]


def _stand(rising: Sequence[CurvePoint]) -> int:
    """The number of the point from which the rate grew again after it had slowed down; 0 where it did not.

    Nothing that happened before tells what happens at the top.
    """
    best = max(rising, key=lambda point: point.rate)
    rest = [best.rate + ERRORS * best.error - point.rate for point in rising]
    start = 0
    for far, place, near in itertools.combinations(range(len(rising)), 3):
        errors = [STAND_ERRORS * rising[number].error for number in (far, place, near)]
        if rest[near] <= STAND_FROM * rising[near].error or rest[far] <= errors[0]:
            continue
        part = math.log(rising[place].in_flight / rising[far].in_flight)
        part /= math.log(rising[near].in_flight / rising[far].in_flight)
        line = (1 - part) * math.log(rest[far] - errors[0]) + part * math.log(rest[near] - errors[2])
        if math.log(rest[place] + errors[1]) < line:
            start = max(start, place)
    return start


def _is_below(point: CurvePoint, best: CurvePoint) -> bool:
    lost = best.rate - point.rate
    return lost > max(FALL * best.rate, FALL_ERRORS * math.hypot(point.error, best.error))


def _top(rising: Sequence[CurvePoint]) -> Sequence[CurvePoint]:
    """The last points, those that surely have the capacity and differ by no more than chance explains; at least one."""
    start = len(rising) - 1
    last = rising[start]
    while start and not _is_below(rising[start - 1], last) and _missing(rising[:start]) <= FLAT * last.rate:
        if _grows(rising[start - 1 :]):
            break
        start -= 1
    return rising[start:]


def _grows(points: Sequence[CurvePoint]) -> bool:
    """True if rates that differ by no more than chance each grow together, as where ever longer queues outlast stalls.

    The test is that of a weighted line over the logarithm of depth.
    """
    weights = [1 / point.error**2 for point in points]
    depths = [math.log(point.in_flight) for point in points]
    middle = math.fsum(map(math.prod, zip(weights, depths, strict=True))) / math.fsum(weights)
    away = [weight * (depth - middle) for weight, depth in zip(weights, depths, strict=True)]
    slope = math.fsum(one * point.rate for one, point in zip(away, points, strict=True))
    spread = math.fsum(one * (depth - middle) for one, depth in zip(away, depths, strict=True))
    return slope > TREND_ERRORS * math.sqrt(spread)


def _missing(points: Sequence[CurvePoint]) -> float:
    """Most that the last rate misses of the capacity, by the way in which the rates before it missed it."""
    first, last = points[0], points[-1]
    # Below the first depth, which is 1, the rate is in proportion to it.
    origin = [(1 / STEP, first.rate / STEP, 0.0)] if first.in_flight == 1 else []
    lower = [*origin, *((point.in_flight, point.rate, point.error) for point in points[:-1])]
    most = math.inf
    for far, near in itertools.combinations(lower, 2):
        place = math.log(near[0] / far[0]) / math.log(last.in_flight / far[0])
        slack = BOTH_ERRORS * (near[2] + last.error)
        most = min(most, _crossing(last.rate - far[1], max(last.rate - near[1] + slack, 0.0), place, most))
    return most


def _crossing(far: float, near: float, place: float, most: float) -> float:
    """The largest r for which ln(near + r) is not below the line from ln(far + r) to ln(r), at ``place`` along it.

    Infinite if it is above ``most``.
    """

    def is_above(rest: float) -> bool:
        return place * math.log(rest) + (1 - place) * math.log(far + rest) > math.log(near + rest)

    if far <= 0 or near >= (1 - place) * far:
        return math.inf
    low, high = 1e-9 * far, min(1e3 * far, most)
    if not is_above(high):
        return math.inf
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_above(middle) else (middle, high)
    return high


def hidden_peak(points: Sequence[CurvePoint]) -> tuple[float, int]:
    """The highest rate that a maximum between points can have next to the best one, and the depth of it."""
    best = max(range(len(points)), key=lambda number: points[number].rate)
    found = [_apex(points, number) for number in (best - 1, best) if 0 <= number < len(points) - 1]
    return max(found, default=(points[best].rate, points[best].in_flight))


def _vertex(points: Sequence[CurvePoint]) -> float:
    """The highest rate of the parabola (over log N) through the best point and its neighbours."""
    best = max(range(len(points)), key=lambda number: points[number].rate)
    if not 0 < best < len(points) - 1:
        return points[best].rate
    left, middle, right = points[best - 1 : best + 2]
    before, after = math.log(left.in_flight / middle.in_flight), math.log(right.in_flight / middle.in_flight)
    rise, fall = (left.rate - middle.rate) / before, (right.rate - middle.rate) / after
    bend = (fall - rise) / (after - before)
    slope = rise - bend * before
    return middle.rate - slope**2 / (4 * bend) if bend < 0 else middle.rate


def _apex(points: Sequence[CurvePoint], number: int) -> tuple[float, int]:
    """The place between two points where the secants before the first and after the second meet."""
    left, right = points[number], points[number + 1]
    before = next((one for one in reversed(points[:number]) if one.in_flight * SECANT <= left.in_flight), None)
    after = next((one for one in points[number + 2 :] if one.in_flight >= right.in_flight * SECANT), None)
    if before is None:
        rise = left.rate / left.in_flight
    else:
        rise = max(0.0, (left.rate - before.rate) / (left.in_flight - before.in_flight))
    fall = max(0.0, (right.rate - after.rate) / math.log(after.in_flight / right.in_flight)) if after else math.inf
    low, high = float(left.in_flight), float(right.in_flight)
    for _ in range(50):
        middle = (low + high) / 2
        is_rising = left.rate + rise * (middle - left.in_flight) < right.rate + fall * math.log(
            right.in_flight / middle
        )
        low, high = (middle, high) if is_rising else (low, middle)
    return left.rate + rise * (low - left.in_flight), round(low)


def depth_bounds(points: Sequence[CurvePoint], capacity: Capacity, share: float) -> tuple[float, float | None]:
    """Bounds of the smallest depth that reaches a share of the capacity; None if no depth surely does.

    Between two points the curve is above their chord and below the secant before them where they show that it bends
    that way; elsewhere it is only known not to fall.
    """
    ratios = [_ratio(point, capacity) for point in points]
    first = next((number for number, one in enumerate(ratios) if one.high >= share), None)
    if first is None:
        return float(points[-1].in_flight), None
    reached = next((number for number, one in enumerate(ratios) if one.low >= share), None)
    high = None
    if reached is not None:
        high = float(points[reached].in_flight)
        if reached and _bends(points, ratios, reached):
            left, right = ratios[reached - 1], ratios[reached]
            part = (share - left.low) / (right.low - left.low)
            high = points[reached - 1].in_flight + part * (high - points[reached - 1].in_flight)
    return _lowest(points, ratios, first, share), high


def _ratio(point: CurvePoint, capacity: Capacity) -> Range:
    """The rate of a point relative to the capacity."""
    top = capacity.top
    mean = point.rate / top.rate
    error = ERRORS * mean * math.hypot(point.error / point.rate, top.error / top.rate)
    if abs(mean - 1) <= error and point.in_flight >= top.in_flight:
        return Range(1.0, 1 / (1 + capacity.missing), 1.0)
    return Range(mean, (mean - error) / (1 + capacity.missing), mean + error)


def _lowest(points: Sequence[CurvePoint], ratios: Sequence[Range], number: int, share: float) -> float:
    """The lowest depth between a point and the one before it that may reach the share."""
    if not number:
        return min(float(points[0].in_flight), share / ratios[0].high * points[0].in_flight)
    left = points[number - 1]
    if not (_bends(points, ratios, number) and (number < 2 or _bends(points, ratios, number - 1))):
        return float(left.in_flight)
    rise = _rise(points, ratios, number - 1)
    return left.in_flight + max(0.0, share - ratios[number - 1].high) / rise


def _bends(points: Sequence[CurvePoint], ratios: Sequence[Range], number: int) -> bool:
    """True if the curve rises less from the point before to this one than it did up to there."""
    left, right = points[number - 1], points[number]
    rise = _rise(points, ratios, number - 1)
    return ratios[number].mean - ratios[number - 1].mean <= rise * (right.in_flight - left.in_flight)


def _rise(points: Sequence[CurvePoint], ratios: Sequence[Range], number: int) -> float:
    """Most that the ratio rises by depth before a point."""
    point, ratio = points[number], ratios[number]
    far = next((one for one in range(number - 1, -1, -1) if points[one].in_flight * SECANT <= point.in_flight), None)
    if far is None:
        return ratio.high / point.in_flight
    error = BOTH_ERRORS / ERRORS * (ratio.high - ratio.mean + ratios[far].high - ratios[far].mean)
    return (ratio.mean - ratios[far].mean + error) / (point.in_flight - points[far].in_flight)
