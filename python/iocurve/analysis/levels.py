"""Finds two flat levels in a series of rates: the fingerprint of burst credits that run out.

Levels are medians and spreads are median absolute deviations, so that a few intervals in which the machine was held up
do not count. The shape of two levels is common in strongly correlated noise, so a series that is long enough for the
test of ``level_changes`` must pass it too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from iocurve.analysis.level_changes import VALUES_MIN, level_change

LEVEL_MIN = 3
"""The fewest intervals that make a level."""
DROP_MIN = 1.15
"""The first level is at least this many times the second."""
SPREAD_MAX = 0.15
"""A level is flat if its median absolute deviation is at most this fraction of its median."""
REST_MAX = 0.6
"""Two levels leave at most this fraction of the absolute deviations that one level leaves."""


@dataclass(frozen=True)
class Levels:
    """A series that falls from one level to another."""

    index: int
    """The index of the first value at the second level, or of the one in which the series falls."""
    before: float
    after: float


def levels(rates: Sequence[float], spread_max: float = SPREAD_MAX) -> Levels | None:
    """The two levels of a series that falls once; None where it is level, drifts or rises.

    The interval in which the rate falls belongs to neither level. ``spread_max`` says how flat a level is.
    """
    splits = range(LEVEL_MIN, len(rates) - LEVEL_MIN)
    best = min(splits, key=lambda index: _rest(rates, index), default=None)
    if best is None:
        return None
    before, after = rates[:best], rates[best + 1 :]
    high, low = median(before), median(after)
    if low <= 0 or high < DROP_MIN * low or max(_spread(before), _spread(after)) > spread_max:
        return None
    if _rest(rates, best) > REST_MAX * _deviations(rates):
        return None
    flat = [*before, *after]
    is_noise = len(flat) >= VALUES_MIN and level_change(flat) is None
    return None if is_noise else Levels(best, high, low)


def _rest(rates: Sequence[float], index: int) -> float:
    return _deviations(rates[:index]) + _deviations(rates[index + 1 :])


def _deviations(rates: Sequence[float]) -> float:
    middle = median(rates)
    return math.fsum(abs(rate - middle) for rate in rates)


def _spread(rates: Sequence[float]) -> float:
    middle = median(rates)
    return median(abs(rate - middle) for rate in rates) / middle if middle else math.inf
