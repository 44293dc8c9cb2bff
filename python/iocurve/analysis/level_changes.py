"""Finds where a series of rates leaves its level: in a step, or in a drift.

The noise is modelled as AR(1), because successive intervals of a run depend on one another. For each correlation of a
grid the series is whitened; the likelihood of one level is compared with that of two levels, for every place of the
step, and with that of a straight line. Each model takes the correlation that suits it best, so that a step is told
from correlated noise (the likelihood ratio over all places: D. W. K. Andrews, "Tests for parameter instability and
structural change with unknown change point", Econometrica 61, 1993).

Rates are not Gaussian: a few intervals stall, and noise that multiplies is skewed. A mean that a few far values move
would be called a change, so values far from the median are pulled in before the test (Huber's and Tukey's winsorizing:
P. J. Huber, E. M. Ronchetti, "Robust Statistics", Wiley 2009, section 1.7), and the change must show both in the rates
and in their logarithms. Ranks would resist any tails, but the ranks of a step in 20 values are those of correlated
noise.

The least ratios come from simulation: of series without a change at most 1 in 100 are called one, for 10 to 200 values
and correlations up to 0.9, for Gaussian and lognormal noise, for heavy tails (Student's t with 3 degrees of freedom) of
correlations up to 0.5, and where single values drop out of uncorrelated noise. Nothing is promised where strongly
correlated noise jumps, or where several values in a row drop out: a level that lasts is a level.
``docs/evidence/accuracy.md`` has the counts, and next to them the power of the best test that there can be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heappush, heappushpop
from itertools import accumulate, pairwise
from operator import add, mul
from statistics import fmean, median

import msgspec

from iocurve.result.stats import robust_deviation

CORRELATIONS = (0.0, 0.2, 0.4, 0.55, 0.7, 0.8, 0.87, 0.92, 0.95)
CORRELATION_LONG, LONG = 0.98, 400
"""In a series of more than ``LONG`` values, noise of this correlation looks like levels, too; a shorter one would not
tell it from a drift."""
LIKELIHOOD_RATIO_MIN = 19.0
"""Twice the logarithm of the likelihood ratio beyond which a change is real, against strongly correlated noise."""
UNCORRELATED_LESS = 3.0
"""The ratio against noise without correlation may be this much less, because such noise looks less like a change."""
CORRELATION_STRONG = 0.9
STEP_PENALTY = 3.0
"""The place of a step is one more thing that is chosen: a step must be better than a drift by this much."""
DRIFT_PENALTY = 4.0
"""Correlated noise looks more like a drift than like a step, so a drift needs a ratio that is larger by this much."""
FAR = 4.0
"""Values farther from the median than this are pulled in, in robust standard deviations."""
LOGARITHM_MIN = 1e-3
"""Least rate that has a logarithm, relative to the median."""
VALUES_MIN = 10
SEGMENT_MIN = 3
"""The fewest values that make a level."""
CHANGE_MIN = 0.05
"""Changes of no more than this fraction are left alone."""
NOISE_MIN = 1e-9
"""Least variance, relative to the square of the mean, so that a series without noise can be judged too."""


class LevelStep(msgspec.Struct, frozen=True):
    """A change from one level to another."""

    index: int
    """The index of the first value at the new level."""
    before: float
    after: float


class Drift(msgspec.Struct, frozen=True):
    """A steady change."""

    slope: float
    """Per value."""
    first: float
    """The straight line at the first value."""
    last: float


SEGMENT_RATIO_MIN = 15.5
"""Twice the logarithm of the likelihood ratio beyond which 10 separate runs are not at one level, ..."""
SEGMENT_RATIO_GROWTH = 3.0
"""... and by how much it grows with each e-fold of runs, among which there are more segments to choose from."""
SEGMENT_CORRELATIONS = CORRELATIONS[:4]
"""Correlations of runs that are apart in time; those of intervals of one run are larger."""
SEGMENT_LONGEST = 100
"""The most values of a segment after which the level returns."""


def segment_change(values: Sequence[float]) -> range | None:
    """The places of a series of separate runs that are at another level; None where it keeps to one level.

    A level may return after them, which one step would not explain: such changes are called epidemic (B. Levin,
    J. Kline, "The cusum test of homogeneity with an application in spontaneous abortion epidemiology", Statistics in
    Medicine 4, 1985). They must show in the values and in their logarithms.
    """
    if len(values) < VALUES_MIN:
        return None
    pulled = _pulled_in(values)
    found = _segment(pulled)
    if found is None or _segment(_pulled_in(_logarithms(values))) is None:
        return None
    inside = fmean(values[found.start : found.stop])
    outside = fmean([*values[: found.start], *values[found.stop :]])
    return found if abs(inside - outside) > CHANGE_MIN * max(inside, outside) else None


def _segment(values: Sequence[float]) -> range | None:
    whitened = [_Whitened(values, correlation) for correlation in SEGMENT_CORRELATIONS]
    likelihood, found = max((one.segment() for one in whitened), key=lambda each: each[0])
    one_level = max(one.likelihood(0.0) for one in whitened)
    least = SEGMENT_RATIO_MIN + SEGMENT_RATIO_GROWTH * math.log(len(values) / VALUES_MIN)
    return found if 2 * (likelihood - one_level) > least else None


def level_change(values: Sequence[float]) -> LevelStep | Drift | None:
    """The change that explains the series best; None where it keeps to one level."""
    if len(values) < VALUES_MIN:
        return None
    found = _significant(_pulled_in(values))
    if found is None or _significant(_pulled_in(_logarithms(values))) is None:
        return None
    return _drift(values, found) if found.is_drift else _step(values, found)


def _significant(values: Sequence[float]) -> _Fit | None:
    """The change that explains the series best, if one level does not explain it."""
    correlations = (*CORRELATIONS, CORRELATION_LONG) if len(values) > LONG else CORRELATIONS
    whitened = [_Whitened(values, correlation) for correlation in correlations]
    least = max(2 * one.likelihood(0.0) + _ratio_min(one.correlation) for one in whitened)
    step = max((one.step() for one in whitened), key=lambda fit: fit.likelihood)
    drift = max((one.drift() for one in whitened), key=lambda fit: fit.likelihood)
    if max(2 * step.likelihood, 2 * drift.likelihood - DRIFT_PENALTY) < least:
        return None
    return step if 2 * step.likelihood > 2 * drift.likelihood + STEP_PENALTY else drift


def _pulled_in(values: Sequence[float]) -> Sequence[float]:
    """The series with its far values at the limit of ``FAR``; as it is if more than half of it is equal."""
    middle, reach = median(values), FAR * robust_deviation(values)
    return [min(max(value, middle - reach), middle + reach) for value in values] if reach else values


def _logarithms(values: Sequence[float]) -> Sequence[float]:
    least = LOGARITHM_MIN * median(values)
    return [math.log(max(value, least)) for value in values] if least > 0 else values


class _Fit(msgspec.Struct, frozen=True):
    likelihood: float
    """Logarithm."""
    slope: float
    correlation: float
    is_drift: bool
    index: int = 0


def _ratio_min(correlation: float) -> float:
    """The least ratio to the likelihood of one level with noise of this correlation."""
    return LIKELIHOOD_RATIO_MIN - UNCORRELATED_LESS * max(0.0, 1 - correlation / CORRELATION_STRONG)


class _Whitened:
    """A series without its AR(1) correlation (Prais and Winsten) and without its level."""

    def __init__(self, values: Sequence[float], correlation: float) -> None:
        self._count = len(values)
        self.correlation = correlation
        self._first = math.sqrt(1 - correlation**2)
        self._constant = self._transformed([1.0] * self._count)
        self._constant_power = _dot(self._constant, self._constant)
        self._values = self._levelled(self._transformed(values))
        self._power = _dot(self._values, self._values)
        self._floor = NOISE_MIN * self._count * fmean(values) ** 2

    def likelihood(self, explained: float) -> float:
        """Logarithm of the likelihood, up to a constant, of a change that explains this share of the sum of squares."""
        left = max(self._power - explained, self._floor, 1e-300)
        return math.log(self._first) - self._count / 2 * math.log(left)

    def step(self) -> _Fit:
        """The step that explains most, of those that leave two levels."""
        rest = 1 - self.correlation
        # The sum of the whitened values from each index on.
        tails = [*reversed(list(accumulate(reversed(self._values)))), 0.0]

        def explained(index: int) -> float:
            after = self._count - 1 - index
            constant = rest + rest**2 * after
            power = 1 + rest**2 * after - constant**2 / self._constant_power
            product = self._values[index] + rest * tails[index + 1]
            return product**2 / power

        index = max(range(SEGMENT_MIN, self._count - SEGMENT_MIN + 1), key=explained)
        return _Fit(self.likelihood(explained(index)), 0.0, self.correlation, is_drift=False, index=index)

    def segment(self) -> tuple[float, range]:
        """The likelihood of the segment that explains most, and the segment; one that does not return is a step."""
        count, rest, correlation = self._count, 1 - self.correlation, self.correlation
        sums = [0.0, *accumulate(self._values)]
        best, place = 0.0, range(count, count)
        for start in range(SEGMENT_MIN, count - SEGMENT_MIN + 1):
            returning = range(start + SEGMENT_MIN, min(start + SEGMENT_LONGEST, count - SEGMENT_MIN) + 1)
            for end in (*returning, count):
                length, back = end - 1 - start, end < count
                constant = rest + rest**2 * length - (correlation * rest if back else 0.0)
                power = 1 + rest**2 * length + (correlation**2 if back else 0.0) - constant**2 / self._constant_power
                product = self._values[start] + rest * (sums[end] - sums[start + 1])
                product -= correlation * self._values[end] if back else 0.0
                if product**2 > best * power:
                    best, place = product**2 / power, range(start, end)
        return self.likelihood(best), place

    def drift(self) -> _Fit:
        """A straight line."""
        middle = (self._count - 1) / 2
        line = self._levelled(self._transformed([at - middle for at in range(self._count)]))
        power, product = _dot(line, line), _dot(line, self._values)
        return _Fit(self.likelihood(product**2 / power), product / power, self.correlation, is_drift=True)

    def _transformed(self, values: Sequence[float]) -> list[float]:
        return [self._first * values[0], *(value - self.correlation * before for before, value in pairwise(values))]

    def _levelled(self, values: Sequence[float]) -> list[float]:
        level = _dot(values, self._constant) / self._constant_power
        return [value - level * constant for value, constant in zip(values, self._constant, strict=True)]


def _step(values: Sequence[float], fit: _Fit) -> LevelStep | None:
    before, after = fmean(values[: fit.index]), fmean(values[fit.index :])
    return LevelStep(fit.index, before, after) if abs(after - before) > CHANGE_MIN * max(before, after) else None


def _drift(values: Sequence[float], fit: _Fit) -> Drift | None:
    slope = _Whitened(values, fit.correlation).drift().slope
    half = slope * (len(values) - 1) / 2
    first, last = fmean(values) - half, fmean(values) + half
    return Drift(slope, first, last) if abs(last - first) > CHANGE_MIN * max(first, last) else None


def _dot(first: Sequence[float], second: Sequence[float]) -> float:
    return math.fsum(map(mul, first, second))


LEVEL_MIN = 3
"""The fewest intervals that make a level."""
DROP_MIN = 1.15
"""The first level is at least this many times the second."""
SPREAD_MAX = 0.15
"""A level is flat if its median absolute deviation is at most this fraction of its median."""
REST_MAX = 0.6
"""Two levels leave at most this fraction of the absolute deviations that one level leaves."""


def levels(rates: Sequence[float], spread_max: float = SPREAD_MAX) -> LevelStep | None:
    """The two levels of a series that falls once; None where it is level, drifts or rises.

    The interval in which the rate falls belongs to neither level, and may have the index of the step. ``spread_max``
    says how flat a level is.
    """
    splits = range(LEVEL_MIN, len(rates) - LEVEL_MIN)
    if not splits or max(rates) < DROP_MIN * min(rates):
        return None
    left = list(map(add, _running_deviations(rates), _running_deviations(rates[::-1])[-2::-1]))
    # Running sums are rounded: the exact ones decide among the least.
    least = min(left[index] for index in splits) + 1e-9 * math.fsum(rates)
    best = min((index for index in splits if left[index] <= least), key=lambda index: _rest(rates, index))
    before, after = rates[:best], rates[best + 1 :]
    high, low = median(before), median(after)
    if low <= 0 or high < DROP_MIN * low or max(_spread(before), _spread(after)) > spread_max:
        return None
    if _rest(rates, best) > REST_MAX * _deviations(rates):
        return None
    is_noise = len(rates) > VALUES_MIN and level_change([*before, *after]) is None
    return None if is_noise else LevelStep(best, high, low)


def _rest(rates: Sequence[float], index: int) -> float:
    return _deviations(rates[:index]) + _deviations(rates[index + 1 :])


def _running_deviations(rates: Sequence[float]) -> list[float]:
    """The absolute deviations from its median of each start of a series, the empty one first."""
    lower, upper, found, above = list[float](), list[float](), [0.0], 0.0
    for number, rate in enumerate(rates):
        to, via, signed = (upper, lower, -rate) if number % 2 else (lower, upper, rate)
        heappush(to, -(moved := heappushpop(via, signed)))
        # The sum of the upper half less that of the lower one.
        above += signed - 2 * moved
        found.append(above if number % 2 else above - lower[0])
    return found


def _deviations(rates: Sequence[float]) -> float:
    middle = median(rates)
    return math.fsum(abs(rate - middle) for rate in rates)


def _spread(rates: Sequence[float]) -> float:
    middle = median(rates)
    return median(abs(rate - middle) for rate in rates) / middle if middle else math.inf
