"""Detects steady states in a series of rates.

The window is that of SNIA's Solid State Storage Performance Test Specification (section "steady state"): over five
rounds the values stay within 20 % of their average from the lowest to the highest, and the least-squares line through
them rises or falls by no more than 10 % of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

ROUNDS = 5
RANGE_MAX = 0.20
SLOPE_MAX = 0.10


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
