"""Simulated measurements whose truth is known: series of rates, servers and closed systems."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iocurve.analysis.level_changes import Drift, Step, level_change
from iocurve.measure.search.stopping import Stopping
from iocurve.result.stats import Estimate

MEAN = 1000.0
"""True mean of all series."""


def autoregressive(chance: random.Random, count: int, correlation: float, deviation: float) -> list[float]:
    """AR(1) noise about ``MEAN``; ``deviation`` is the standard deviation relative to the mean."""
    innovation = math.sqrt(1 - correlation**2)
    level = chance.gauss(0, 1)
    values = []
    for _ in range(count):
        values.append(MEAN * (1 + deviation * level))
        level = correlation * level + innovation * chance.gauss(0, 1)
    return values


@dataclass
class Coverage:
    """Counts of runs."""

    runs: int = 0
    declined: int = 0
    """Runs that gave no interval."""
    held: int = 0
    """Runs whose interval held the truth."""
    widths: float = 0.0
    """Sum of the half widths, relative to the mean."""
    length: int = 0
    """Sum of the lengths of the series."""

    def add(self, estimate: Estimate, truth: float, length: int = 0) -> None:
        self.runs += 1
        self.length += length
        if math.isinf(estimate.half_width):
            self.declined += 1
            return
        self.held += estimate.low <= truth <= estimate.high
        self.widths += estimate.precision

    @property
    def share(self) -> float:
        """Of the runs that gave an interval."""
        given = self.runs - self.declined
        return self.held / given if given else math.nan


def coverage(
    mean: Callable[[Sequence[float]], Estimate], count: int, correlation: float, runs: int, seed: int = 1
) -> Coverage:
    """Intervals of series of a fixed length."""
    counted = Coverage()
    for run in range(runs):
        chance = random.Random(f"{seed} {count} {correlation} {run}")
        counted.add(mean(autoregressive(chance, count, correlation, 0.05)), MEAN, count)
    return counted


def coverage_when_stopped(
    correlation: float, deviation: float, runs: int, *, precision: float = 0.02, longest: int = 200, seed: int = 1
) -> Coverage:
    """Intervals of series that end as soon as the interval is narrow enough, at the latest after ``longest`` values."""
    counted = Coverage()
    for run in range(runs):
        values = autoregressive(
            random.Random(f"{seed} {deviation} {correlation} {run}"), longest, correlation, deviation
        )
        stopping = Stopping(precision)
        length = next((count for count in range(1, longest) if stopping.enough(values[:count])), longest)
        counted.add(stopping.estimate(values[:length]), MEAN, length)
    return counted


def changes(
    count: int,
    correlation: float,
    deviation: float,
    runs: int,
    *,
    shape: Callable[[int], float] = lambda _place: 1.0,
    seed: int = 1,
) -> list[Step | Drift | None]:
    """Changes of level that are found in series; ``shape`` is the true course, relative to ``MEAN``."""
    found = []
    for run in range(runs):
        noise = autoregressive(random.Random(f"{seed} {count} {correlation} {run}"), count, correlation, deviation)
        found.append(level_change([value + MEAN * (shape(place) - 1) for place, value in enumerate(noise)]))
    return found
