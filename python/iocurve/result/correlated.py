"""The confidence interval of the mean of a series whose values depend on their neighbours.

Successive intervals of a run are correlated (queues, caches, credits), so the textbook standard error is too small. How
much too small cannot be told exactly from a short series, and a method that pretends it can covers too rarely. This
one weighs the candidates: the series is modelled as AR(1) noise, alone or with white noise added, for each of a few
correlations; the likelihood of its cosine transform says how plausible each model is; the interval is that of the
mixture. The frame is that of U. K. Müller, "HAC corrections for strongly autocorrelated time series", Journal of
Business & Economic Statistics 32, 2014; the cosine transform and its variances follow E. Lazarus, D. J. Lewis, J. H.
Stock and M. W. Watson, "HAR inference: recommendations for practice", same journal 36, 2018. The weights of the models
were set by simulation, so that coverage is even over the correlations; ``docs/truth.md`` has the counts.
"""

from __future__ import annotations

import cmath
import math
from array import array
from collections.abc import Sequence
from functools import lru_cache
from operator import mul
from statistics import fmean

import msgspec

CORRELATIONS = (0.0, 0.2, 0.4, 0.55, 0.7, 0.8, 0.87, 0.92, 0.96, 0.99)
"""Lag-1 correlations of the AR(1) part."""
SHARES = (1.0, 0.5, 0.25)
"""Shares of the variance that the AR(1) part has; the rest is white noise."""
MIXED_WEIGHT = 0.1
"""Weight of a model with white noise, relative to one without."""
VALUES_MAX = 256
"""Longer series are averaged over neighbours down to this many values; the sum of the series stays the same."""
UNDECIDED = 0.9
"""Beyond this probability of the strongest correlation the series may as well have no mean: no interval is given."""


class MeanInterval(msgspec.Struct, frozen=True):
    """The half width of the interval of a mean."""

    half_width: float
    """Infinite where the series cannot support an interval."""
    effective: float
    """The number of independent values that would tell as much about the mean."""


def mean_interval(values: Sequence[float], tail: float) -> MeanInterval:
    """The interval that leaves out ``tail`` of the probability. Needs at least three values."""
    cells = _cells(values)
    powers = [coefficient**2 for coefficient in _cosines(cells)]
    total = math.fsum(powers)
    if total <= 1e-24 * len(cells) * fmean(cells) ** 2:
        return MeanInterval(0.0, float(len(values)))
    table = _table(len(cells))
    spreads = [math.fsum(map(mul, powers, model.weights)) for model in table]
    chances = _posterior(table, spreads, len(powers))
    strongest = math.fsum(
        chance for chance, model in zip(chances, table, strict=True) if model.correlation == CORRELATIONS[-1]
    )
    if strongest > UNDECIDED:
        return MeanInterval(math.inf, 1.0)
    errors = [
        math.sqrt(model.inflation * spread / len(powers) / len(cells))
        for model, spread in zip(table, spreads, strict=True)
    ]
    inflation = math.fsum(chance * model.inflation for chance, model in zip(chances, table, strict=True))
    return MeanInterval(_quantile(errors, chances, len(powers), tail), len(values) / max(1.0, inflation))


class _Model(msgspec.Struct, frozen=True):
    """One candidate for a series of a given length, scaled to a variance of 1."""

    correlation: float
    prior: float
    """Logarithm, not normalised."""
    weights: tuple[float, ...]
    """One over the variance of each cosine coefficient."""
    log_determinant: float
    inflation: float
    """Variance of the mean, relative to that of as many independent values."""


@lru_cache(maxsize=64)
def _table(count: int) -> tuple[_Model, ...]:
    """The models of a series of ``count`` values."""
    return tuple(
        _model(count, correlation, share)
        for correlation in CORRELATIONS
        for share in (SHARES if correlation else SHARES[:1])
    )


def _model(count: int, correlation: float, share: float) -> _Model:
    variances = [
        share * variance + 1 - share for variance in (_variance(count, correlation, index) for index in range(1, count))
    ]
    return _Model(
        correlation,
        math.log(_prior(count, correlation) * (1 if share == 1 else MIXED_WEIGHT)),
        tuple(1 / variance for variance in variances),
        math.fsum(map(math.log, variances)),
        share * _inflation(count, correlation) + 1 - share,
    )


def _prior(count: int, correlation: float) -> float:
    """Set by simulation: a short series without correlation would else get too wide an interval."""
    if correlation == 0:
        return 20 * math.pow(20 / min(max(count, 20), 45), 1.3)
    return math.pow(1 - correlation, 0.03 * min(max(count - 20, 0), 10))


def _variance(count: int, correlation: float, index: int) -> float:
    """Variance of a cosine coefficient of an AR(1) series, exact (the sums over lags are geometric)."""
    if correlation == 0:
        return 1.0
    angle = math.pi * index / count
    z = cmath.rect(correlation, angle)
    plain = (z - z**count) / (1 - z)
    by_lag = z * (1 - count * z ** (count - 1) + (count - 1) * z**count) / (1 - z) ** 2
    return 1 + 2 * (plain.real - (by_lag.real + plain.imag / math.sin(angle)) / count)


def _inflation(count: int, correlation: float) -> float:
    """Variance of the mean of an AR(1) series, times its length."""
    return 1 + 2 * math.fsum((1 - lag / count) * correlation**lag for lag in range(1, count))


def _cells(values: Sequence[float]) -> list[float]:
    """Means of neighbours, so that at most ``VALUES_MAX`` are left; a remainder at the start is left out."""
    size = -(-len(values) // VALUES_MAX)
    first = len(values) % size
    return [fmean(values[index : index + size]) for index in range(first, len(values), size)]


def _cosines(values: Sequence[float]) -> list[float]:
    """The cosine transform (type II, orthonormal) without its first coefficient."""
    mean = fmean(values)
    centred = [value - mean for value in values]
    return [sum(map(mul, centred, row)) for row in _cosine_rows(len(values))]


@lru_cache(maxsize=16)
def _cosine_rows(count: int) -> tuple[array[float], ...]:
    # The cosines repeat after 4 x count steps of half an angle.
    turn = [math.sqrt(2 / count) * math.cos(math.pi * step / (2 * count)) for step in range(4 * count)]
    return tuple(
        array("d", (turn[index * (2 * at + 1) % (4 * count)] for at in range(count))) for index in range(1, count)
    )


def _posterior(table: Sequence[_Model], spreads: Sequence[float], freedom: int) -> list[float]:
    """Probabilities of the models; the unknown scale of the series is integrated out."""
    logs = [
        model.prior - (model.log_determinant + freedom * math.log(spread)) / 2
        for model, spread in zip(table, spreads, strict=True)
    ]
    highest = max(logs)
    chances = [math.exp(log - highest) for log in logs]
    total = math.fsum(chances)
    return [chance / total for chance in chances]


def _quantile(errors: Sequence[float], chances: Sequence[float], freedom: int, tail: float) -> float:
    """The half width beyond which a mixture of Student distributions has ``tail`` of its probability."""
    parts = [(error, chance) for error, chance in zip(errors, chances, strict=True) if chance > 1e-7]
    low, high = 0.0, 50 * max(error for error, _ in parts)
    for _ in range(40):
        middle = (low + high) / 2
        beyond = math.fsum(chance * _student_tail(middle / error, freedom) for error, chance in parts)
        low, high = (middle, high) if beyond > tail else (low, middle)
    return high


def _student_tail(t: float, freedom: int) -> float:
    """Probability of both tails (D. L. Wallace, Annals of Mathematical Statistics 30, 1959)."""
    z = (8 * freedom + 1) / (8 * freedom + 3) * math.sqrt(freedom * math.log1p(t * t / freedom))
    return math.erfc(z / math.sqrt(2))
