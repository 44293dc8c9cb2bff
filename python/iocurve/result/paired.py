"""The ratio of two rates that were measured in turns: its confidence interval and the verdict on it.

Points that take turns (A B B A B A …) have one pair of rates in each round. The logarithm of their ratio is the value,
so that bounds are positive and the ratio of A to B is the inverse of that of B to A. The interval is Student's. From
``COVARIATE_PAIRS_MIN`` pairs on, which of the two ran first in its round is a covariate, so that a steady drift of the
machine does not count as an error (the period effect of a crossover design: S. Senn, "Cross-over Trials in Clinical
Research", Wiley 2002). ``docs/evidence/accuracy.md`` counts how often intervals hold the true ratio, and how often
verdicts are wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean, median
from typing import Literal

import msgspec

from iocurve.foundation.units import counted
from iocurve.result.stats import CONFIDENCE, student_quantile

Verdict = Literal["faster", "slower", "no difference", "inconclusive"]
"""faster, slower: the interval excludes equal rates. no difference: the interval excludes a difference that matters.
inconclusive: the interval allows for both."""
SEEN = 1.43
"""Half widths of an interval that a difference needs so that 8 of 10 intervals exclude equal rates: 1 + z(80 %) /
z(97.5 %). At a higher confidence, and from few turns, a little less would do."""
MARGIN = 0.1
"""Smallest relative difference that matters, where no other is requested."""
PAIRS_MIN = 3
"""Fewer pairs get no interval."""
COVARIATE_PAIRS_MIN = 4
"""In fewer pairs the covariate would leave one degree of freedom, for which Student's factor is 12.7."""
BOUNDS_MAX = 10.0
"""A bound that lies farther from the ratio than this factor says nothing of its size, and is left out."""
CORRELATIONS = tuple(step / 20 for step in range(1, 20))
"""Correlations of neighbouring turns against which an interval is widened."""
WIDENING_PAIRS_MAX = 16
"""More pairs are widened as this number of pairs."""


def verdict(low: float | None, high: float | None, margin: float = MARGIN) -> Verdict:
    """The verdict on a ratio, from the bounds of its confidence interval; None is an unknown bound.

    ``no difference`` is the outcome of two one-sided tests against 1 + ``margin`` and its inverse (D. J. Schuirmann, "A
    comparison of the two one-sided tests procedure and the power approach for assessing the equivalence of average
    bioavailability", Journal of Pharmacokinetics and Biopharmaceutics 15, 1987). Both tests use the interval that is
    shown, so each has half of its level. A difference that is smaller than the margin and certain is still one.
    """
    if low is not None and low > 1:
        return "faster"
    if high is not None and high < 1:
        return "slower"
    if low is not None and high is not None and 1 / (1 + margin) < low and high < 1 + margin:
        return "no difference"
    return "inconclusive"


def margin_text(margin: float) -> str:
    """``10 %``."""
    return f"{100 * margin:.3g} %"


CHOSEN_SHARE = 0.6
"""Share of its errors that an interval keeps where the number of turns was chosen by their noise.

Turns that look enough by chance are those whose noise looks small. By simulation at most 5.5 % of intervals missed with
it, 8.6 % without it; with heavy tails of 5 and 7 %, 3.0 and 2.8 % (``docs/evidence/accuracy.md``)."""


def confidence_of_turns(confidence: float, *, are_chosen: bool) -> float:
    """The confidence at which turns are judged, so that a wanted one holds although their noise chose their number."""
    return 1 - (1 - confidence) * CHOSEN_SHARE if are_chosen else confidence


class RatePair(msgspec.Struct, frozen=True):
    """The rates of two points in one round."""

    rate: float
    base: float
    order: int
    """Number of the turn with ``rate`` among the turns of all points."""
    base_order: int
    resolution: float = 0.0
    """Relative error of the ratio that counting leaves: the sum of those of both rates (``counting_resolution``)."""


class RateRatio(msgspec.Struct, frozen=True):
    """Rate divided by base: the geometric mean over the rounds, with its interval."""

    value: float
    low: float | None
    """None if it is unknown, or farther from the value than ``BOUNDS_MAX``."""
    high: float | None
    margin: float = MARGIN
    """Smallest relative difference that matters."""
    doubt: str = ""
    """The reason for missing bounds, and turns without operations."""
    own_limit: str = ""
    """The limit of this machine that bounds one of the rates, so that the ratio says nothing of the target."""

    @property
    def verdict(self) -> Verdict:
        """The verdict by the bounds."""
        return "inconclusive" if self.own_limit else verdict(self.low, self.high, self.margin)

    @property
    def verdict_text(self) -> str:
        """The verdict with the margin and with doubts: ``no difference of 10 % or more``."""
        text: str = self.verdict
        if text == "no difference":
            text += f" of {margin_text(self.margin)} or more"
        elif self.is_small:
            text += f", by less than {margin_text(self.margin)}"
        reasons = ", ".join(filter(None, (self.own_limit and f"limited by {self.own_limit}", self.doubt)))
        return f"{text}: {reasons}" if reasons else text

    @property
    def detectable(self) -> float | None:
        """The relative difference that 8 of 10 such comparisons would have found; None without bounds on both sides."""
        return (self.high / self.low) ** (SEEN / 2) - 1 if self.low and self.high else None

    @property
    def is_small(self) -> bool:
        """There is a difference, and the interval excludes one that matters."""
        within = self.low is not None and self.high is not None and 1 / (1 + self.margin) < self.low
        return within and self.verdict in ("faster", "slower") and (self.high or 0) < 1 + self.margin

    @property
    def bounds_text(self) -> str:
        """``[1.35, 1.50]``, ``at least 12.0``; empty without bounds."""
        low = None if self.low is None else _excluding_one(self.low, is_beyond=self.low > 1)
        high = None if self.high is None else _excluding_one(self.high, is_beyond=self.high < 1)
        if low is not None and high is not None:
            return f"[{low}, {high}]"
        return f"at least {low}" if low is not None else f"at most {high}" if high is not None else ""


def _excluding_one(bound: float, *, is_beyond: bool) -> str:
    """``1.35``; a bound that excludes 1 by little does not read as 1.00: ``0.9962``."""
    text = f"{bound:.2f}"
    return f"{bound:.4f}" if is_beyond and text == "1.00" else text


def counting_resolution(operations: float, in_flight: float = 1.0, batch: float = 1.0) -> float:
    """Relative error of a rate because its window begins and ends between completions.

    ``batch`` operations complete at once, at most all in flight: a moment later the count has as many more.
    """
    return min(1.0, max(1.0, min(in_flight, batch)) / operations) if operations else 1.0


def rate_ratio(pairs: Sequence[RatePair], margin: float = MARGIN, confidence: float = CONFIDENCE) -> RateRatio | None:
    """The ratio; None where all rates of the base are zero, or without pairs."""
    if not any(pair.base > 0 for pair in pairs):
        return None
    if any(pair.rate <= 0 or pair.base <= 0 for pair in pairs):
        return _ratio_by_rank(pairs, margin, confidence)
    values = [math.log(pair.rate / pair.base) for pair in pairs]
    if len(pairs) < PAIRS_MIN:
        doubt = f"{counted(len(pairs), 'run')} each" if len(pairs) > 1 else "measured once"
        return RateRatio(math.exp(fmean(values)), None, None, margin, doubt)
    mean, error, freedom = _balanced_mean(values, _orders(pairs))
    half_width = _widening(_places(pairs)) * error * student_quantile(freedom, confidence)
    # Turns may begin at the same place of a steady rhythm, so that their counts hide this error.
    half_width = max(half_width, math.log1p(fmean(pair.resolution for pair in pairs)))
    low, high = _bound(mean, -half_width), _bound(mean, half_width)
    doubt = "" if half_width <= math.log(BOUNDS_MAX) else "the rates of the runs differ too much for bounds"
    return RateRatio(math.exp(mean), low, high, margin, doubt if low is None and high is None else "")


def _bound(mean: float, distance: float) -> float | None:
    """A bound of the ratio. One that is far off is kept only where it excludes equal rates."""
    excludes_equal = mean * (mean + distance) > 0 and abs(mean + distance) < abs(mean)
    return math.exp(mean + distance) if excludes_equal or abs(distance) <= math.log(BOUNDS_MAX) else None


def _balanced_mean(values: Sequence[float], order: Sequence[float]) -> tuple[float, float, int]:
    """The mean of the values as if both orders were as frequent, its standard error, and its degrees of freedom."""
    weights, slopes = _weights(order)
    mean = math.fsum(weight * value for weight, value in zip(weights, values, strict=True))
    slope = math.fsum(one * value for one, value in zip(slopes, values, strict=True))
    freedom = len(values) - (2 if any(slopes) else 1)
    rest = math.fsum((value - mean - slope * one) ** 2 for one, value in zip(order, values, strict=True))
    return mean, math.sqrt(rest / freedom * math.fsum(weight**2 for weight in weights)), freedom


def _weights(order: Sequence[float]) -> tuple[list[float], list[float]]:
    """The weights by which values add up to the balanced mean, and to the slope over the order (least squares)."""
    count, middle = len(order), fmean(order)
    spread = math.fsum((one - middle) ** 2 for one in order)
    if not spread or count < COVARIATE_PAIRS_MIN:
        return [1 / count] * count, [0.0] * count
    slopes = [(one - middle) / spread for one in order]
    return [1 / count - middle * slope for slope in slopes], slopes


# ---- turns that resemble their neighbours

Places = tuple[tuple[int, int], ...]
"""The numbers of both turns of each pair."""


def _orders(pairs: Sequence[RatePair]) -> list[float]:
    return [1.0 if pair.base_order < pair.order else -1.0 for pair in pairs]


def _places(pairs: Sequence[RatePair]) -> Places:
    """The numbers of the turns, counted from the first one."""
    first = min(min(pair.order, pair.base_order) for pair in pairs)
    return tuple((pair.order - first, pair.base_order - first) for pair in pairs)


@lru_cache(maxsize=256)
def _widening(places: Places) -> float:
    """The greatest factor by which an interval is too narrow if turns resemble their neighbours.

    Successive pairs then resemble each other, more so where their turns lie far apart. The correlation cannot be told
    from a few pairs, so the widening is that of the least favourable one: the standard error of the mean divided by the
    one that Student's formula gives, both for AR(1) noise over all turns.
    """
    if len(places) > WIDENING_PAIRS_MAX:
        return _widening(places[:WIDENING_PAIRS_MAX])
    weights, slopes = _weights([1.0 if base < own else -1.0 for own, base in places])
    return math.sqrt(max(1.0, *(_excess(places, weights, slopes, correlation) for correlation in CORRELATIONS)))


def _excess(places: Places, weights: Sequence[float], slopes: Sequence[float], correlation: float) -> float:
    """The variance of the mean of pairs, divided by the variance that they show."""
    powers = [correlation**lag for lag in range(1 + max(map(max, places)))]

    def covariance(one: tuple[int, int], other: tuple[int, int]) -> float:
        (own, base), (another, its_base) = one, other
        return (
            powers[abs(own - another)]
            - powers[abs(own - its_base)]
            - powers[abs(base - another)]
            + powers[abs(base - its_base)]
        )

    def quadratic(left: Sequence[float]) -> float:
        return math.fsum(
            first * second * covariance(one, other)
            for first, one in zip(left, places, strict=True)
            for second, other in zip(left, places, strict=True)
        )

    count = len(places)
    spread = math.fsum(slope**2 for slope in slopes)
    fitted = quadratic([1 / count] * count) * count + (quadratic(slopes) / spread if spread else 0.0)
    shown = math.fsum(covariance(one, one) for one in places) - fitted
    freedom = count - (2 if spread else 1)
    return quadratic(weights) / (math.fsum(weight**2 for weight in weights) * shown / freedom)


# ---- turns without operations


def _ratio_by_rank(pairs: Sequence[RatePair], margin: float, confidence: float) -> RateRatio:
    """The ratio where a turn had no operations, so that its logarithm is infinite: median and sign test interval."""
    lowest = sorted(_quotient(pair, unknown=0.0) for pair in pairs)
    highest = sorted(_quotient(pair, unknown=math.inf) for pair in pairs)
    rank = _rank(len(pairs), confidence)
    low, high = (lowest[rank], highest[-1 - rank]) if rank is not None else (None, None)
    middle = median(lowest)
    value = middle if math.isfinite(middle) else fmean(one.rate for one in pairs) / fmean(one.base for one in pairs)
    # As in _bound: a bound that is far off is kept only where it excludes equal rates.
    low = low if low is not None and (low > 1 or low * BOUNDS_MAX >= value) else None
    high = high if high is not None and (high < 1 or high <= value * BOUNDS_MAX) else None
    return RateRatio(value, low, high, margin, _idle(pairs))


def _quotient(pair: RatePair, unknown: float) -> float:
    if pair.base > 0:
        return pair.rate / pair.base
    return math.inf if pair.rate > 0 else unknown


def _rank(count: int, confidence: float) -> int | None:
    """The rank (from 0) of the order statistics, counted from both ends, whose interval holds the median."""
    beyond, found = 0.0, None
    for rank in range(count // 2):
        beyond += math.comb(count, rank) / 2**count
        if 2 * beyond > 1 - confidence:
            break
        found = rank
    return found


def _idle(pairs: Sequence[RatePair]) -> str:
    """``1 of 5 turns had no operations``."""
    sides = (("runs", [pair.rate for pair in pairs]), ("runs of the base", [pair.base for pair in pairs]))
    return ", ".join(
        f"{idle} of {len(rates)} {turns} had no operations"
        for turns, rates in sides
        if (idle := sum(rate <= 0 for rate in rates))
    )
