"""Infers the rate at which the share of late operations is the allowed one, from counts at several rates.

Late operations come in clusters: who waits in one queue is late together. The number of clusters is what counts, and a
count of few clusters is far from normal, so:

- The size of clusters is taken from the late operations themselves: their numbers in successive batches of time, of
  one length at all rates, because few batches of a short run hide how they depend on one another. How much more these
  vary than numbers of independent operations is the dispersion (P. McCullagh and J. A. Nelder, "Generalized Linear
  Models", 1989, chapter 4). A percentile below the limited one would not do: operations that wait for a token bucket
  are late together, and the others do not wait at all.
- A queue near its capacity is a reflected Brownian motion, whatever feeds it (J. F. C. Kingman, "The single server
  queue in heavy traffic", Mathematical Proceedings of the Cambridge Philosophical Society 57, 1961). The time that it
  spends above a high level comes in clumps of the mean length v / 2 d², with a second moment of four times the mean's
  square (D. Aldous, "Probability Approximations via the Poisson Clumping Heuristic", 1989, sections B and D); d is the
  spare capacity and v the variance of the work that arrives. So the dispersion is 2 v / (1 - load)²: of several
  rates only v has to be estimated. With Poisson arrivals v is 1 and the squared coefficient of variation of the service
  times, which is what a few clusters start from.
- The logit of the late share is a straight line in the rate. Its likelihood is that of a sum of clumps (a compound
  Poisson law: B. Jørgensen, "The Theory of Dispersion Models", 1997, chapter 4), so that no late operations at all are
  worth what they are worth. The bounds are the rates that the likelihood ratio does not exclude, whatever the slope.
- A share may be almost the same at all rates up to a knee: many servers have no queue before it (S. Halfin, W. Whitt,
  "Heavy-traffic limits for queues with many exponential servers", Operations Research 29, 1981). So a line bounds the
  crossing on a side only where the counts on this side show its slope. Otherwise the bound is what follows from a share
  that does not fall with the rate, of which there may be none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import pairwise

import msgspec
from msgspec.structs import replace

from iocurve.result.stats import student_quantile

CONFIDENCE = 0.97
"""Confidence level of the interval; more than 95 % for the choice of the rates, which depends on what was counted."""
BATCHES = 30
"""Batches of time that show the size of clusters, in the longest run."""
CORRELATION_MAX = 0.95
"""Highest correlation of successive batches; a higher one may be a change that never ends."""
SPARE_MIN = 0.003
"""Least spare capacity, relative to the capacity: the capacity itself is not known better."""
PRIOR_FREEDOM = 4
"""Degrees of freedom that the expected variance of the work weighs before clusters show theirs."""
CLUMP_MOMENT = 4.0
"""Second moment of the size of a clump, relative to the square of its mean."""
CLUSTERS_PER_FREEDOM = 9
"""Clusters that tell as much of their variance as one degree of freedom: half of the fourth moment of their sizes,
relative to the square of the second."""
FEW = 24
"""The largest of heavy tails are missing among few clusters: what these vary is too small by this over their number."""
SLOPE_MIN, SLOPE_MAX = 0.5, 4000.0
"""Change of the logit of the late share per relative change of the rate."""
SLOPE_STEPS = 14
FITTED_AROUND = 0.15
"""Distance from the crossing within which a straight line is good enough, relative to the rate."""
GRID = 20
"""Rates of which the most likely one is chosen."""
FLAT = 0.02
"""Rates whose deviance differs by less are equally likely: the middle of them is the answer."""
HALVINGS = 9
GOLDEN = (math.sqrt(5) - 1) / 2

Counts = tuple[int, int]
"""Operations, and late ones among them."""


class LateCount(msgspec.Struct, frozen=True, dict=True):
    """Counts at one rate, in the order of time."""

    rate: float
    intervals: Sequence[Counts]

    @cached_property
    def operations(self) -> int:
        """Operations of all intervals."""
        return sum(operations for operations, _ in self.intervals)

    @cached_property
    def late(self) -> int:
        """Those of them that were late."""
        return sum(late for _, late in self.intervals)


class Crossing(msgspec.Struct, frozen=True):
    """The rate at which the late share is the allowed one; a bound is None if the counts give none."""

    rate: float
    low: float | None
    high: float | None
    slope: float
    """Change of the logit of the share, per relative change of the rate."""


class Clusters(msgspec.Struct, frozen=True):
    """The clusters of late operations, as all rates together show them."""

    variance: float
    """Variance of the work that arrives, relative to its mean."""
    freedom: int
    """Degrees of freedom of the variance."""
    capacity: float

    @classmethod
    def of(cls, several: Sequence[LateCount], capacity: float, expected: float) -> Clusters:
        """From all rates: one that happened to have few late operations must not count for more.

        ``expected`` is the variance of the work before clusters show theirs. Where clusters last for several batches,
        the variance over all is that of an AR(1) series.
        """
        length = max([1, *(len(one.intervals) // BATCHES for one in several)])
        squares = products = 0.0
        number = occupied = 0
        for one in several:
            rests, late = _rests(one, length)
            spare = _spare(one.rate, capacity) / math.sqrt(2)
            squares += sum((rest * spare) ** 2 for rest in rests)
            products += sum(first * second * spare**2 for first, second in pairwise(rests))
            number += max(0, len(rests) - 1)
            occupied += late
        if not squares:
            return cls(expected, PRIOR_FREEDOM, capacity)
        found = products / squares
        correlation = min(max(found + (1 + 3 * found) / number, 0.0), CORRELATION_MAX)
        longer = (1 + correlation) / (1 - correlation)
        # The Poisson number of clusters that leaves as many batches without any.
        clusters = max(1.0, -number * math.log1p(-min(occupied, number - 0.5) / number) / longer)
        size = squares / number * longer * (clusters + FEW) / clusters
        freedom = 1 / (longer / number + CLUSTERS_PER_FREEDOM / clusters)
        variance = (PRIOR_FREEDOM * expected + freedom * size) / (PRIOR_FREEDOM + freedom)
        return cls(variance, round(PRIOR_FREEDOM + freedom), capacity)

    def dispersion(self, rate: float) -> float:
        """Variance of a late count at a rate, relative to that of independent operations; at least 1."""
        return max(1.0, 2 * self.variance / _spare(rate, self.capacity) ** 2)


def crossing(
    several: Sequence[LateCount],
    share: float,
    clusters: Clusters,
    bounds: tuple[float, float],
    near: float | None = None,
) -> Crossing:
    """The crossing between two rates, which bound it if nothing else does.

    Rates that are not ``near`` say only that the share grows with the rate: there the line may bend.
    """
    lowest, highest = bounds
    terms = [
        _Term.of(one, share, clusters.dispersion(one.rate), near is None or abs(one.rate / near - 1) <= FITTED_AROUND)
        for one in several
        if one.operations
    ]

    def deviance(rate: float) -> float:
        return _least(partial(_sum, terms, rate))[0]

    step = (highest / lowest) ** (1 / GRID)
    grid = [lowest * step**number for number in range(GRID + 1)]
    found = [deviance(rate) for rate in grid]
    near = grid[min(range(len(grid)), key=found.__getitem__)]
    finer = [near * step ** (number / GRID - 0.5) for number in range(GRID + 1)]
    places = [*zip(grid, found, strict=True), *((rate, deviance(rate)) for rate in finer if lowest <= rate <= highest)]
    least = min(value for _, value in places)
    likely = [rate for rate, value in places if value <= least + FLAT]
    best = math.sqrt(min(likely) * max(likely))
    freedom = max(1, sum(term.is_telling for term in terms) - 2)
    excluded = student_quantile(clusters.freedom, CONFIDENCE) ** 2
    slope = _least(partial(_sum, terms, best))[1]
    growing = [replace(term, on_line=False) for term in terms]

    def bound(end: float, inner: float) -> float | None:
        """The bound towards an end: by the line if that side shows its slope."""
        side = [term for term in terms if term.on_line and (term.rate - best) * (end - best) > 0]
        of_side = partial(_sum, side, best)
        if of_side(0.0) - _least(of_side)[0] > excluded:
            return _bound(deviance, end, inner, least + excluded * max(1.0, least / freedom))
        return _bound(lambda rate: _sum(growing, rate, 0.0), end, inner, _sum(growing, best, 0.0) + excluded)

    return Crossing(best, bound(lowest, min(likely)), bound(highest, max(likely)), slope)


class _Term(msgspec.Struct, frozen=True):
    """One rate in the likelihood: a compound Poisson count whose variance is a power of its mean."""

    rate: float
    operations: int
    late: int
    odds: float
    """The allowed share, as odds."""
    power: float
    scale: float
    on_line: bool

    @classmethod
    def of(cls, one: LateCount, share: float, dispersion: float, on_line: bool) -> _Term:
        dispersion = max(dispersion * (1 - share), 1e-9)
        clump = max(min(dispersion, 1.0), dispersion / CLUMP_MOMENT)
        form = clump / max(dispersion - clump, 1e-6 * clump)
        power = (form + 2) / (form + 1)
        scale = dispersion * math.pow(one.operations * share, 1 - power)
        return cls(one.rate, one.operations, one.late, share / (1 - share), power, scale, on_line)

    @property
    def is_telling(self) -> bool:
        """True where the limit allows a clump, or there was one."""
        mean = self.operations * self.odds / (1 + self.odds)
        return 2 / self.scale * math.pow(max(self.late, mean), 2 - self.power) / (2 - self.power) > 1

    def deviance(self, crossing: float, slope: float) -> float:
        """Twice the distance in log likelihood from a line that crosses the allowed share at a rate."""
        away = self.rate / crossing - 1
        odds = self.odds * math.exp(max(-40.0, min(40.0, slope * away))) if self.on_line else self.odds
        mean = self.operations * odds / (1 + odds)
        if not self.on_line and (self.late < mean) == (away < 0):
            return 0.0
        one, two, late = 1 - self.power, 2 - self.power, self.late
        if not late:
            return 2 / self.scale * math.pow(mean, two) / two
        ones, twos = math.pow(late, one) - math.pow(mean, one), math.pow(late, two) - math.pow(mean, two)
        return 2 / self.scale * (late * ones / one - twos / two)


def _sum(terms: Sequence[_Term], crossing: float, slope: float) -> float:
    return sum(term.deviance(crossing, slope) for term in terms)


def _least(deviance: Callable[[float], float]) -> tuple[float, float]:
    """The least deviance over all slopes, and its slope."""
    low, high = math.log(SLOPE_MIN), math.log(SLOPE_MAX)
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = deviance(math.exp(left)), deviance(math.exp(right))
    for _ in range(SLOPE_STEPS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = deviance(math.exp(left))
        else:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = deviance(math.exp(right))
    return (at_left, math.exp(left)) if at_left <= at_right else (at_right, math.exp(right))


def _bound(deviance: Callable[[float], float], end: float, inner: float, most: float) -> float | None:
    """The rate towards ``end`` beyond which the deviance is too large; None if it is not."""
    if deviance(end) <= most:
        return None
    outer = end
    for _ in range(HALVINGS):
        middle = math.sqrt(inner * outer)
        inner, outer = (middle, outer) if deviance(middle) <= most else (inner, middle)
    return outer


def _spare(rate: float, capacity: float) -> float:
    return max(1 - rate / capacity, SPARE_MIN)


def _rests(one: LateCount, length: int) -> tuple[list[float], int]:
    """How far each batch of ``length`` intervals is from the share of all, in standard deviations of independent
    operations, and the number of batches with late operations; none where they do not differ.
    """
    intervals = [counts for counts in one.intervals if counts[0]]
    parts = [intervals[start : start + length] for start in range(0, len(intervals), length)]
    share = one.late / one.operations if one.operations else 0.0
    if not 0 < share < 1 or len(parts) < 2:
        return [], 0
    batches = [(sum(count for count, _ in part), sum(late for _, late in part)) for part in parts]
    rests = [(late - count * share) / math.sqrt(count * share * (1 - share)) for count, late in batches]
    return rests, sum(late > 0 for _, late in batches)
