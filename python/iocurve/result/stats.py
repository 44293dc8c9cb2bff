"""Confidence intervals of means, and of what is computed from them.

``series_mean`` is for successive intervals of one run, which depend on one another; ``sample_mean`` is for values that
do not, such as repeated runs. Both promise that 95 of 100 intervals hold the true mean. ``docs/truth.md`` counts how
many did, for AR(1) series: 93 to 97 of 100 from 20 values and correlations up to 0.7, 90 and more of correlations up to
0.95.

Successive intervals of a run are correlated (queues, caches, credits), so the textbook standard error is too small. How
much too small cannot be told exactly from a short series, and a method that pretends it can covers too rarely. This
one weighs the candidates: the series is modelled as AR(1) noise, alone or with white noise added, for each of a few
correlations; the likelihood of its cosine transform says how plausible each model is; the interval is that of the
mixture. The frame is that of U. K. Müller, "HAC corrections for strongly autocorrelated time series", Journal of
Business & Economic Statistics 32, 2014; the cosine transform and its variances follow E. Lazarus, D. J. Lewis, J. H.
Stock and M. W. Watson, "HAR inference: recommendations for practice", same journal 36, 2018. The weights of the models
were set by simulation, so that coverage is even over the correlations.
"""

from __future__ import annotations

import cmath
import math
from array import array
from collections.abc import Sequence
from functools import lru_cache
from operator import mul
from statistics import NormalDist, fmean, median, stdev

import msgspec
from msgspec.structs import replace

CONFIDENCE = 0.95
"""Confidence level of all intervals here."""
VALUES_MIN = 8
"""A shorter series tells too little about how its values depend on one another: it gets no interval."""
FREEDOM_MIN = 4
"""Least degrees of freedom of an estimate from a series; its interval is exact whatever they are."""
FEW = 8
"""With no more independent values than this, a series that stopped early was partly chosen by luck: ..."""
FEW_FACTOR = 1.5
"""... its interval is wider by this factor, which was set by simulation (``docs/truth.md``)."""
DEPENDENT_FACTOR = 1.1
"""The same for a series that tells less than half as much as independent values would: its dependence is an estimate,
too."""
GAUSSIAN_MAD = 1.4826
"""Standard deviation of Gaussian noise, in median absolute deviations."""


class Estimate(msgspec.Struct, frozen=True):
    """A mean and how sure it is."""

    mean: float
    error: float
    """Standard error of the mean."""
    batches: int
    """Independent values that would tell as much; 1 tells nothing about the error, which is infinite then."""

    @property
    def half_width(self) -> float:
        """Half the width of the confidence interval."""
        return self.error * student_quantile(self.batches - 1) if self.batches > 1 else math.inf

    @property
    def low(self) -> float:
        """Lower bound."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """Upper bound."""
        return self.mean + self.half_width

    @property
    def precision(self) -> float:
        """Half of the interval, relative to the mean."""
        return self.half_width / abs(self.mean) if self.mean else math.inf

    def moved(self, mean: float) -> Estimate:
        """Another mean of the same relative error: the series leaves out the ends of the window, so its mean is not
        quite the rate."""
        return Estimate(mean, self.error * mean / self.mean if self.mean else math.inf, self.batches)

    def widened(self, factor: float) -> Estimate:
        """The same mean with a wider interval."""
        return replace(self, error=self.error * factor)


def series_mean(values: Sequence[float]) -> Estimate:
    """The mean of values that were taken one after another, each over the same time.

    The method is in ``iocurve.result.stats``. Where the series cannot support an interval, because it is too short
    or has no stable mean, the error is infinite.
    """
    mean = fmean(values) if values else 0.0
    if len(values) < VALUES_MIN:
        return Estimate(mean, math.inf, min(len(values), 1))
    interval = mean_interval(values, 1 - CONFIDENCE)
    if math.isinf(interval.half_width):
        return Estimate(mean, math.inf, 1)
    freedom = max(FREEDOM_MIN, round(interval.effective) - 1)
    return Estimate(mean, interval.half_width / student_quantile(freedom), freedom + 1)


def judged_mean(values: Sequence[float], first: int) -> Estimate:
    """The mean of a series of which the ``first`` values chose the length.

    Its interval is that of the values after them, or that of the whole series where this is wider: a short second part
    may underestimate how much its values depend on one another.
    """
    if not first:
        return series_mean(values)
    # Intervals that are cut short are missing from the values.
    first = min(first, len(values) // 2)
    rest, whole = series_mean(values[first:]), series_mean(values)
    judged = rest.widened(_judged_share(len(values), first, rest.batches))
    widest = max(judged, whole, key=lambda one: one.half_width)
    return replace(widest.widened(_dependent_factor(len(values), whole.batches)), mean=whole.mean)


def judged_half_width(values: Sequence[float], first: int, confidence: float) -> float:
    """Half of the interval of ``judged_mean`` at another confidence level; infinite where there is none."""
    first = min(first, len(values) // 2)
    rest = values[first:]
    if len(rest) < VALUES_MIN:
        return math.inf
    interval = mean_interval(rest, 1 - confidence)
    judged = interval.half_width * _judged_share(len(values), first, interval.effective)
    if not first:
        return judged
    whole = mean_interval(values, 1 - confidence)
    return max(judged, whole.half_width) * _dependent_factor(len(values), whole.effective)


def _judged_share(count: int, first: int, independent: float) -> float:
    """The interval of the mean of ``count`` values, relative to that of the values after the ``first``."""
    return math.sqrt(1 - first / count) * (FEW_FACTOR if round(independent) <= FEW else 1.0)


def _dependent_factor(count: int, independent: float) -> float:
    return DEPENDENT_FACTOR if independent < count / 2 else 1.0


def sample_mean(values: Sequence[float]) -> Estimate:
    """The mean of independent values; one value tells nothing about its error."""
    if not values:
        return Estimate(0.0, math.inf, 0)
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.inf
    return Estimate(fmean(values), error, len(values))


def robust_deviation(values: Sequence[float]) -> float:
    """Standard deviation of Gaussian noise, from its median absolute deviation: a few far values hardly move it."""
    middle = median(values)
    return GAUSSIAN_MAD * median(abs(value - middle) for value in values)


def difference(first: Estimate, second: Estimate) -> Estimate:
    """First less second, of independent estimates."""
    return Estimate(first.mean - second.mean, math.hypot(first.error, second.error), _fewest(first, second))


def ratio(first: Estimate, second: Estimate) -> Estimate:
    """First by second, of independent estimates; to first order in their relative errors."""
    if not second.mean:
        return Estimate(math.nan, math.inf, 1)
    value = first.mean / second.mean
    relative = math.hypot(first.error / first.mean if first.mean else 0.0, second.error / second.mean)
    return Estimate(value, abs(value) * relative, _fewest(first, second))


def product(first: Estimate, second: Estimate) -> Estimate:
    """First times second, of independent estimates; to first order in their relative errors."""
    error = math.hypot(first.error * second.mean, second.error * first.mean)
    return Estimate(first.mean * second.mean, error, _fewest(first, second))


def scaled(estimate: Estimate, factor: float) -> Estimate:
    """In another unit."""
    return Estimate(estimate.mean * factor, estimate.error * factor, estimate.batches)


def pooled(estimates: Sequence[Estimate]) -> Estimate:
    """One mean of several estimates of the same figure, each weighted by how much it tells."""
    if len(estimates) == 1:
        return estimates[0]
    # No error is taken to be below a thousandth: nothing that is measured is surer than that.
    variances = [max(estimate.error, 1e-3 * abs(estimate.mean), 1e-12) ** 2 for estimate in estimates]
    weight = math.fsum(1 / variance for variance in variances)
    mean = math.fsum(one.mean / variance for one, variance in zip(estimates, variances, strict=True)) / weight
    # If they differ more than their errors explain, the errors are too small (Birge's ratio).
    spread = math.fsum(
        (one.mean - mean) ** 2 / variance for one, variance in zip(estimates, variances, strict=True)
    ) / (len(estimates) - 1)
    return Estimate(mean, math.sqrt(max(1.0, spread) / weight), sum(one.batches for one in estimates))


def student_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """Standard errors on each side of the mean (Student's t; Hill, "Student's t-quantiles", CACM 13, 1970)."""
    tail = 1 - confidence
    if freedom <= 0:
        return math.inf
    if freedom == 1:
        return 1 / math.tan(tail * math.pi / 2)
    if freedom == 2:
        return math.sqrt(2 / (tail * (2 - tail)) - 2)
    n = float(freedom)
    a = 1 / (n - 0.5)
    b = 48 / a**2
    c = ((20700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * math.sqrt(a * math.pi / 2) * n
    y = (d * tail) ** (2 / n)
    if y > 0.05 + a:
        x = NormalDist().inv_cdf(tail / 2)
        y = x * x
        if freedom < 5:
            c += 0.3 * (n - 4.5) * (x + 0.6)
        c = (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b + c
        y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x
        y = math.expm1(a * y * y)
    else:
        y = ((1 / (((n + 6) / (n * y) - 0.089 * d - 0.822) * (n + 2) * 3) + 0.5 / (n + 4)) * y - 1) * (n + 1) / (
            n + 2
        ) + 1 / y
    return math.sqrt(n * y)


def _fewest(first: Estimate, second: Estimate) -> int:
    return max(1, min(first.batches, second.batches))


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
