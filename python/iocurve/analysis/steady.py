"""Detects steady states and shifts of level in a series of rates.

The window is that of SNIA's Solid State Storage Performance Test Specification (section "steady state"): over five
rounds the values stay within 20 % of their average from the lowest to the highest, and the least-squares line through
them rises or falls by no more than 10 % of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

ROUNDS = 5
RANGE_MAX = 0.20
SLOPE_MAX = 0.10
SEGMENT_MIN = 5
"""The fewest values that make a level."""
SHIFT_MIN = 0.10
"""Levels that differ by less than this fraction count as one."""
SHIFT_ERRORS = 6.0
"""Two levels must be this many standard errors apart. High, because every index of a series is tried."""


@dataclass(frozen=True)
class Window:
    """The spread and the slope of some rounds."""

    average: float
    range_share: float
    """The highest minus the lowest value, relative to the average."""
    slope_share: float
    """The rise or fall of the least-squares line over the rounds, relative to the average."""

    @property
    def is_steady(self) -> bool:
        """True within both of SNIA's limits."""
        return self.range_share <= RANGE_MAX and self.slope_share <= SLOPE_MAX


@dataclass(frozen=True)
class Shift:
    """A change of level in the middle of a run."""

    index: int
    """The index of the first value at the new level."""
    before: float
    after: float


def window(rounds: Sequence[float]) -> Window | None:
    """The window of the newest rounds; None while there are too few."""
    newest = list(rounds[-ROUNDS:])
    if len(newest) < ROUNDS:
        return None
    average = fmean(newest)
    if average == 0:
        return Window(0.0, 0.0, 0.0)
    middle = (ROUNDS - 1) / 2
    slope = sum((place - middle) * value for place, value in enumerate(newest)) / sum(
        (place - middle) ** 2 for place in range(ROUNDS)
    )
    return Window(average, (max(newest) - min(newest)) / average, abs(slope) * (ROUNDS - 1) / average)


def attained(rounds: Sequence[float]) -> int | None:
    """The first round whose window was steady; None if there was none."""
    for end in range(ROUNDS, len(rounds) + 1):
        found = window(rounds[:end])
        if found and found.is_steady:
            return end - 1
    return None


def shift(values: Sequence[float]) -> Shift | None:
    """The clearest shift of level; None where the values keep to one level."""
    best, best_errors = None, SHIFT_ERRORS
    for index in range(SEGMENT_MIN, len(values) - SEGMENT_MIN + 1):
        before, after = values[:index], values[index:]
        error = math.hypot(stdev(before) / math.sqrt(len(before)), stdev(after) / math.sqrt(len(after)))
        low, high = fmean(before), fmean(after)
        apart = abs(high - low) / error if error else math.inf if high != low else 0.0
        if apart > best_errors and abs(high - low) > SHIFT_MIN * max(low, high):
            best, best_errors = Shift(index, low, high), apart
            if apart == math.inf:
                return best
    return best
