"""Confidence intervals of means, and of what is computed from them.

``series_mean`` is for successive intervals of one run, which depend on one another; ``sample_mean`` is for values that
do not, such as repeated runs. Both promise that 95 of 100 intervals hold the true mean.
``docs/evidence/accuracy.md`` counts how many did, for AR(1) series: at least 93 of 100 from 20 values and correlations
up to 0.7, 90 and more of correlations up to 0.95.

Successive intervals of a run are correlated (queues, caches, credits), so the textbook standard error is too small. How
much too small cannot be told exactly from a short series, and a method that pretends it can covers too rarely. This
one weighs the candidates: the series is modelled as AR(1) noise, alone or with white noise added, for each of a few
correlations; the likelihood of its cosine transform says how plausible each model is; the interval is that of the
mixture. The frame is that of U. K. Müller, "HAC corrections for strongly autocorrelated time series", Journal of
Business & Economic Statistics 32, 2014; the cosine transform and its variances follow E. Lazarus, D. J. Lewis, J. H.
Stock and M. W. Watson, "HAR inference: recommendations for practice", same journal 36, 2018. The weights of the models
were set by simulation, so that coverage is even over the correlations. Fractional noise stands for long memory; a long
series can tell it from short memory, so its weight grows with the length.

A mean is also unsure because events are few: see ``_of_events`` and ``_of_levels``. Events that a series does not show
are in no interval.
"""

from __future__ import annotations

import cmath
import math
from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, groupby, pairwise
from operator import mul
from statistics import NormalDist, fmean, median, stdev
from typing import NamedTuple

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
"""... its interval is wider by this factor, which was set by simulation (``docs/evidence/accuracy.md``)."""
DEPENDENT_FACTOR = 1.1
"""The same for a series that tells less than half as much as independent values would: its dependence is an estimate,
too."""
EVENTS_MIN = 5
"""Fewer rare events say little of how often they come: the mean of their number is known to a factor of two."""
RAREST_SEEN = 1 / 3
"""Of events that come at random every third of the time of a series, or more often, 95 of 100 series show one (the rule
of three: J. A. Hanley, A. Lippman-Hand, "If nothing goes wrong, is everything all right?", JAMA 249, 1983)."""
GAUSSIAN_MAD = 1.4826
"""Standard deviation of Gaussian noise, in median absolute deviations."""


class Bounded(NamedTuple):
    """A figure with the bounds of its interval; None is an unknown bound."""

    value: float
    low: float | None
    high: float | None


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


def values_missing(values: Sequence[float]) -> int:
    """Further values that a series needs, at the least, before its interval is that of its noise: 0 if it has enough.

    A series without a stable mean needs as many again. One with rare events, or with levels that come back, needs
    ``EVENTS_MIN`` of them.
    """
    if len(values) < VALUES_MIN:
        return VALUES_MIN - len(values)
    found = mean_interval(values, 1 - CONFIDENCE)
    if math.isinf(found.half_width):
        return len(values)
    if found.events is None:
        return 0
    return max(0, math.ceil(len(values) * (EVENTS_MIN / max(1, found.events) - 1)))


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


def compared_half_width(values: Sequence[float], first: int, confidence: float) -> float:
    """Half of the interval of ``judged_mean`` for a comparison with another run; infinite where there is none.

    A slow change of the target counts twice there: each run has another part of it. So long memory has more weight.
    """
    first = min(first, len(values) // 2)
    rest = values[first:]
    if len(rest) < VALUES_MIN:
        return math.inf
    interval = mean_interval(rest, 1 - confidence, is_compared=True)
    judged = interval.half_width * _judged_share(len(values), first, interval.effective)
    if not first:
        return judged
    whole = mean_interval(values, 1 - confidence, is_compared=True)
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
    if not weight:
        return Estimate(fmean(one.mean for one in estimates), math.inf, sum(one.batches for one in estimates))
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
"""Beyond this probability of the strongest dependence the series may as well have no mean: no interval is given."""
ORDERS = {0.1: 1.5, 0.2: 1.5, 0.3: 0.7, 0.4: 0.4, 0.48: 0.2}
"""Orders of differencing of the models with long memory (0.5 has no mean), and their weights relative to those of
short memory."""
COMPARED_MEMORY = 8.0
"""Factor on these weights where two runs are compared, set by simulation."""
COMPARED_CHANCE_MIN = 0.02
"""Models that are less probable are left out there: at the confidence of many comparisons at once, the tail of one that
the series speaks against would decide."""
STRONG_ORDER = 0.3
"""Orders of long memory that fewer than 95 % of the intervals hold."""
WANDERS_MIN = 0.5
"""Probability of such an order beyond which a series is said to have it."""
STRONGEST_ORDER = max(ORDERS)
EXACT = 8
"""Cosine coefficients whose variance is exact; that of the others is the spectral density, less than 1 % off."""


class MeanInterval(msgspec.Struct, frozen=True):
    """The half width of the interval of a mean."""

    half_width: float
    """Infinite where the series cannot support an interval."""
    effective: float
    """The number of independent values that would tell as much about the mean."""
    events: int | None = None
    """Rare events, or returns to the rarer of two levels, that the series shows; None without such."""
    wanders: bool = False
    """The series has long memory of an order from ``STRONG_ORDER``: 95 % are not promised
    (``docs/evidence/accuracy.md``)."""


def mean_interval(values: Sequence[float], tail: float, *, is_compared: bool = False) -> MeanInterval:
    """The interval that leaves out ``tail`` of the probability. Needs at least three values.

    ``is_compared`` makes it one for a comparison with another run (``compared_half_width``).
    """
    found = _mixture_interval(values, tail, is_compared=is_compared)
    if not found.half_width or math.isinf(found.half_width):
        return found
    wider, events = _with_events(values, tail, found.half_width)
    if wider <= found.half_width:
        return replace(found, events=events)
    return MeanInterval(wider, max(1.0, found.effective * (found.half_width / wider) ** 2), events, found.wanders)


def _mixture_interval(values: Sequence[float], tail: float, *, is_compared: bool) -> MeanInterval:
    cells = _cells(values)
    powers = [coefficient**2 for coefficient in _cosines(cells)]
    total = math.fsum(powers)
    if total <= 1e-24 * len(cells) * fmean(cells) ** 2:
        return MeanInterval(0.0, float(len(values)))
    table = _table(len(cells))
    spreads = [math.fsum(map(mul, powers, model.weights)) for model in table]
    chances = _posterior(table, spreads, len(powers), math.log(COMPARED_MEMORY) if is_compared else 0.0)
    if is_compared:
        probable = [chance if chance >= COMPARED_CHANCE_MIN else 0.0 for chance in chances]
        chances = [chance / math.fsum(probable) for chance in probable]
    if math.fsum(chance for chance, model in zip(chances, table, strict=True) if model.is_strongest) > UNDECIDED:
        return MeanInterval(math.inf, 1.0)
    errors = [
        math.sqrt(model.inflation * spread / len(powers) / len(cells))
        for model, spread in zip(table, spreads, strict=True)
    ]
    inflation = math.fsum(chance * model.inflation for chance, model in zip(chances, table, strict=True))
    strong = math.fsum(chance for chance, model in zip(chances, table, strict=True) if model.order >= STRONG_ORDER)
    half_width = _quantile(errors, chances, len(powers), tail)
    return MeanInterval(half_width, len(values) / max(1.0, inflation), wanders=strong > WANDERS_MIN)


class _Model(msgspec.Struct, frozen=True):
    """One candidate for a series of a given length, scaled to a variance of 1."""

    is_strongest: bool
    """The strongest dependence of its kind."""
    order: float
    """Order of differencing of a model with long memory; 0 for the others."""
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
    short = (
        _autoregressive(count, correlation, share)
        for correlation in CORRELATIONS
        for share in (SHARES if correlation else SHARES[:1])
    )
    return (*short, *(fractional_model(count, order) for order in ORDERS))


def _autoregressive(count: int, correlation: float, share: float) -> _Model:
    variances = [
        share * variance + 1 - share for variance in (_variance(count, correlation, index) for index in range(1, count))
    ]
    prior = math.log(_prior(count, correlation) * (1 if share == 1 else MIXED_WEIGHT))
    inflation = share * _inflation(count, correlation) + 1 - share
    is_strongest = correlation == CORRELATIONS[-1]
    return _model(prior, variances, inflation, is_strongest=is_strongest, order=0.0)


def fractional_model(count: int, order: float) -> _Model:
    """Long memory: fractional noise, whose covariances fall by a power of the lag."""
    covariances = list(
        accumulate(range(1, count), lambda last, lag: last * (lag - 1 + order) / (lag - order), initial=1.0)
    )
    density = math.exp(2 * math.lgamma(1 - order) - math.lgamma(1 - 2 * order))
    variances = [
        _cosine_variance(covariances, index)
        if index <= EXACT
        else density * (2 * math.sin(math.pi * index / count / 2)) ** (-2 * order)
        for index in range(1, count)
    ]
    inflation = 1 + 2 * math.fsum((1 - lag / count) * covariances[lag] for lag in range(1, count))
    prior, is_strongest = math.log(ORDERS[order] * _length_factor(count)), order == STRONGEST_ORDER
    return _model(prior, variances, inflation, is_strongest=is_strongest, order=order)


def _length_factor(count: int) -> float:
    """Set by simulation: a short series without long memory would else get too wide an interval."""
    return math.pow(count / 90, 1.3)


def _model(prior: float, variances: Sequence[float], inflation: float, *, is_strongest: bool, order: float) -> _Model:
    weights = tuple(1 / variance for variance in variances)
    return _Model(is_strongest, order, prior, weights, math.fsum(map(math.log, variances)), inflation)


def _cosine_variance(covariances: Sequence[float], index: int) -> float:
    """Variance of a cosine coefficient of a series with these covariances, by lag."""
    count, angle = len(covariances), math.pi * index / len(covariances)
    by_lag = (
        covariances[lag] * ((count - lag) * math.cos(angle * lag) - math.sin(angle * lag) / math.sin(angle))
        for lag in range(1, count)
    )
    return covariances[0] + 2 / count * math.fsum(by_lag)


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


def _posterior(table: Sequence[_Model], spreads: Sequence[float], freedom: int, long_memory: float) -> list[float]:
    """Probabilities of the models; the unknown scale of the series is integrated out."""
    logs = [
        model.prior + long_memory * (model.order > 0) - (model.log_determinant + freedom * math.log(spread)) / 2
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
        beyond = math.fsum(chance * student_tail(middle / error, freedom) for error, chance in parts)
        low, high = (middle, high) if beyond > tail else (low, middle)
    return high


def student_tail(t: float, freedom: int) -> float:
    """Probability of both tails (D. L. Wallace, Annals of Mathematical Statistics 30, 1959)."""
    z = (8 * freedom + 1) / (8 * freedom + 3) * math.sqrt(freedom * math.log1p(t * t / freedom))
    return math.erfc(z / math.sqrt(2))


# ---- levels that come back, and rare events

FAR = 6.0
"""Values farther from the median than this are events, in robust standard deviations."""
RARE = 0.2
"""Events are no more than this share of the values."""
EXPLAINED_MIN = 0.8
"""Two levels explain at least this share of the variance of a series."""


def _with_events(values: Sequence[float], tail: float, plain: float) -> tuple[float, int | None]:
    """Half of the interval of a series with rare events or levels that come back, and the number of these."""
    quantile = NormalDist().inv_cdf(1 - tail / 2)
    ordered = sorted(values)
    found = [
        (_of_events if sum(beyond) <= RARE * len(values) else _of_levels)(values, beyond, quantile, plain)
        for beyond in _divisions(values, ordered)
    ]
    if not found:
        return plain, None
    mean, (half, events) = fmean(values), max(found)
    # No share of the time can put the mean beyond the farthest value.
    return min(half, max(mean - ordered[0], ordered[-1] - mean)), events


def _divisions(values: Sequence[float], ordered: Sequence[float]) -> Iterator[list[bool]]:
    """The series as two levels, and as its bulk with rare far values: True marks the rarer part."""
    if (two := _two_levels(ordered)) is not None:
        is_upper = [value > two for value in values]
        yield is_upper if 2 * sum(is_upper) <= len(values) else [not one for one in is_upper]
    middle, deviation = median(ordered), robust_deviation(values)
    for sign in (-1, 1) if deviation else ():
        beyond = [sign * (value - middle) > FAR * deviation for value in values]
        if 0 < sum(beyond) <= RARE * len(values):
            yield beyond


def _two_levels(ordered: Sequence[float]) -> float | None:
    """The last value of the lower of the two levels that explain the variance; None where no two levels do.

    N. Otsu, "A threshold selection method from gray-level histograms", IEEE Transactions on Systems, Man and
    Cybernetics 9, 1979.
    """
    count, mean = len(ordered), fmean(ordered)
    total = math.fsum((value - mean) ** 2 for value in ordered)
    sums = list(accumulate(value - mean for value in ordered))
    between, at = max((sums[at] ** 2 * count / (at + 1) / (count - at - 1), at) for at in range(count - 1))
    return ordered[at] if between > EXPLAINED_MIN * total else None


def _unexplained(values: Sequence[float], is_far: Sequence[bool]) -> tuple[float, float]:
    """The distance of two levels, and the share of the variance that lies within them."""
    mean, count = fmean(values), len(values)
    far = [value for value, beyond in zip(values, is_far, strict=True) if beyond]
    near = [value for value, beyond in zip(values, is_far, strict=True) if not beyond]
    gap = fmean(far) - fmean(near)
    total = math.fsum((value - mean) ** 2 for value in values)
    return gap, max(0.0, 1 - gap**2 * len(far) * len(near) / count / total)


def _of_events(values: Sequence[float], is_far: Sequence[bool], quantile: float, plain: float) -> tuple[float, int]:
    """The interval where far values are rare events, each of neighbouring values.

    The sum of the events is that of a Poisson number of them. Its bound is the score bound of their number, with the
    largest event in the place of a typical one, so that one more such event is allowed for, as in Bernstein's
    inequality (A. Maurer, M. Pontil, "Empirical Bernstein bounds and sample variance penalization", COLT 2009).
    """
    near = fmean(value for value, beyond in zip(values, is_far, strict=True) if not beyond)
    sizes = [
        math.fsum(value - near for value, _ in members)
        for beyond, members in groupby(zip(values, is_far, strict=True), key=lambda one: one[1])
        if beyond
    ]
    largest = max(map(abs, sizes))
    spread = math.sqrt(math.fsum(size**2 for size in sizes) + (quantile * largest / 2) ** 2)
    events = (quantile**2 / 2 * largest + quantile * spread) / len(values)
    return math.hypot(events, plain * math.sqrt(_unexplained(values, is_far)[1])), len(sizes)


def _of_levels(values: Sequence[float], is_high: Sequence[bool], quantile: float, plain: float) -> tuple[float, int]:
    """The interval where each of two levels is left at random: their shares of the time are those of a Markov chain.

    The chances to leave are binomial, with Wilson's interval each (E. B. Wilson, "Probable inference", Journal of the
    American Statistical Association 22, 1927); the interval of their ratio follows as in ``iocurve.analysis.compare``.
    """
    high, count = sum(is_high), len(values)
    left_high = max(1, sum(before and not after for before, after in pairwise(is_high)))
    left_low = max(1, sum(after and not before for before, after in pairwise(is_high)))
    chances = (left_high, high), (left_low, count - high)
    (low_leave, high_leave), (low_enter, high_enter) = (_wilson(*one, quantile) for one in chances)
    leave, enter = left_high / high, left_low / (count - high)
    up = math.hypot(math.log(high_enter / enter), math.log(leave / low_leave))
    down = math.hypot(math.log(enter / low_enter), math.log(high_leave / leave))
    share = high / count
    gap, unexplained = _unexplained(values, is_high)
    gap = abs(gap)
    reach = max(_share_at(share, up) - share, share - _share_at(share, -down))
    return math.hypot(gap * reach, plain * math.sqrt(unexplained)), min(left_high, left_low)


def _share_at(share: float, distance: float) -> float:
    """The share whose odds are farther by this distance on the scale of logarithms."""
    odds = share / (1 - share) * math.exp(distance)
    return odds / (1 + odds)


def _wilson(successes: int, count: int, quantile: float) -> tuple[float, float]:
    """Bounds of a probability."""
    share, square = min(successes / count, 1.0), quantile**2 / count
    middle, reach = share + square / 2, quantile * math.sqrt(share * (1 - share) / count + square / count / 4)
    return (middle - reach) / (1 + square), (middle + reach) / (1 + square)
