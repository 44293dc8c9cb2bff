"""Fits the share of late operations against the rate, and finds the rate at which it is the allowed one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from iocurve.result.stats import student_quantile

CONFIDENCE = 0.97
"""Confidence level of the interval; more than 95 % for the choice of the rates, which depends on what was counted."""
NEWTON_STEPS = 50
STEP = 0.001
"""Resolution of the bounds, relative to the rate."""
BOUND_MAX = 0.3
"""Bounds farther away than this are none."""

Counts = tuple[float, float, float]
"""Rate, operations and late operations of one trial, divided by their dispersion."""


@dataclass(frozen=True)
class Crossing:
    """The rate at which the late share is the allowed one; a bound is None if the counts give none."""

    rate: float
    low: float | None
    high: float | None
    slope: float
    """Change of the logit of the share, per relative change of the rate."""


def crossing(counts: Sequence[Counts], share: float, near: float, freedom: int) -> Crossing | None:
    """The crossing near a rate; None where nothing can be fitted.

    ``freedom`` is how many degrees of freedom the dispersion has by which the counts were divided.
    """
    used = [(rate / near - 1, count, late) for rate, count, late in counts if count]
    if len({at for at, _, _ in used}) < 2:
        return None
    line = _fitted(used, share)
    if line is None or line.slope <= 0:
        return None
    factor = student_quantile(freedom, CONFIDENCE)
    at = line.crossing(share)
    low, high = (line.bound(share, at, step, factor) for step in (-STEP, STEP))
    lower, upper = (None if bound is None else near * (1 + bound) for bound in (low, high))
    return Crossing(near * (1 + at), lower, upper, line.slope)


@dataclass(frozen=True)
class _Line:
    """The logit of the late share, with its covariance."""

    level: float
    slope: float
    covariance: tuple[float, float, float]
    """Variance of the level, covariance of both, variance of the slope."""

    def share(self, at: float) -> float:
        return _share(self.level + self.slope * at)

    def crossing(self, share: float) -> float:
        return (_logit(share) - self.level) / self.slope

    def bound(self, share: float, start: float, step: float, factor: float) -> float | None:
        """The last place at which the line may still cross (Fieller)."""
        at = start
        while abs(at - start) <= BOUND_MAX:
            level, both, slope = self.covariance
            error = math.sqrt(max(0.0, level + 2 * at * both + at * at * slope))
            if abs(self.level + self.slope * at - _logit(share)) > factor * error:
                return at
            at += step
        return None


def _fitted(used: Sequence[tuple[float, float, float]], share: float) -> _Line | None:
    """Newton's method for the two terms of a logistic regression."""
    level, slope = _logit(share), 5.0
    for _ in range(NEWTON_STEPS):
        shares = [_share(level + slope * at) for at, _, _ in used]
        weights = [count * one * (1 - one) for (_, count, _), one in zip(used, shares, strict=True)]
        rests = [late - count * one for (_, count, late), one in zip(used, shares, strict=True)]
        a, b, c = (math.fsum(w * at**power for w, (at, _, _) in zip(weights, used, strict=True)) for power in range(3))
        determinant = a * c - b * b
        if determinant <= 1e-12 * a * c:
            return None
        first, second = math.fsum(rests), math.fsum(rest * at for rest, (at, _, _) in zip(rests, used, strict=True))
        change = (c * first - b * second) / determinant, (a * second - b * first) / determinant
        # Steps are short, so that a share near 0 or 1 does not throw the line away.
        scale = min(1.0, 2.0 / max(1e-9, abs(change[0]), abs(change[1]) * 0.15))
        level, slope = level + scale * change[0], slope + scale * change[1]
        if max(map(abs, change)) < 1e-7:
            return _Line(level, slope, (c / determinant, -b / determinant, a / determinant))
    return None


def _share(logit: float) -> float:
    return 1 / (1 + math.exp(-max(-40.0, min(40.0, logit))))


def _logit(share: float) -> float:
    return math.log(share / (1 - share))
