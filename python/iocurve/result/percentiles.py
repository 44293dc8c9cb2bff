"""Intervals of percentiles: between which order statistics the percentile of the load lies, with 95 % confidence.

Of n independent operations, the number that are faster than the true percentile p is binomial(n, p), whatever the
distribution of latencies is; its quantiles are the ranks of the bounds (H. A. David and H. N. Nagaraja, "Order
Statistics", 3rd ed. 2003, section 7.1). The operations of a run depend on one another, so n is the number of
independent ones that would tell as much.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

from iocurve.engine.plan import FLUSH_KINDS
from iocurve.result.document import Point
from iocurve.result.stats import CONFIDENCE, VALUES_MIN, judged_mean, mean_interval, sample_mean
from iocurve.result.summary import Latency

EXACT_VARIANCE_MAX = 10_000.0
"""Above this variance the binomial is taken to be Gaussian: its ranks then differ by less than one."""


def percentile_interval(
    latency: Latency, percent: float, effective_count: float, confidence: float = CONFIDENCE
) -> tuple[float | None, float | None]:
    """Bounds of a percentile in ns, None on a side on which too few operations lie to give one.

    ``effective_count`` is the number of independent operations, at most all (``effective_count(point)``).
    """
    count = math.floor(min(effective_count, latency.count))
    if latency.histogram is None or count < 1:
        return None, None
    low, high = order_ranks(count, percent / 100, confidence)
    if count < latency.count:
        # Each independent operation stands for several of the histogram. The upper bound lies at the largest of these,
        # the lower bound at the smallest: else the lower bound of a high percentile would be the maximum of the run.
        low -= 1
    return (
        latency.percentile(100 * low / count) if low >= 1 else None,
        latency.percentile(100 * high / count) if high <= count else None,
    )


def effective_count(point: Point, kind: str | None = None) -> float | None:
    """The number of independent operations that would tell the mean service latency as exactly as the run does.

    It is the variance of single latencies, by that of their mean: from the turns, or from the intervals of one run.
    None where these are too few; turns keep no latencies by kind. Response latencies have no such series.
    """
    summary = point.summary()
    latency = (summary if kind is None else summary.kinds[kind]).service
    if not point.runs:
        means = [one.mean_ns for one in point.course(kind) if one.iops and not math.isnan(one.mean_ns)]
        found = judged_mean(means, point.length_chosen_by)
    elif kind is None or len(summary.kinds) == 1:
        found = sample_mean([turn.mean_ns for turn in point.runs if turn.state == "finished"])
    else:
        return None
    # Student's t widens the interval of the mean of few turns or intervals, and with it that of a percentile.
    error = found.half_width / NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    if not latency.count or math.isinf(error) or math.isnan(latency.stddev_ns):
        return None
    return min(float(latency.count), (latency.stddev_ns / error) ** 2) if error else float(latency.count)


def independent_operations(point: Point, percent: float, kind: str | None = None) -> float | None:
    """The number of independent operations that would tell one percentile of a point as exactly as the run does.

    Slow operations of one kind come as those of all kinds do.

    It is the least of ``effective_count``, of the share of independent values among the rates of the run, and of the
    clusters in which operations above the percentile occur: a stall makes many slow operations at once. Their number is
    that of the blocks estimator of the extremal index, with the intervals of the run as blocks (R. L. Smith,
    I. Weissman, "Estimating the extremal index", Journal of the Royal Statistical Society B 56, 1994). None where
    ``effective_count`` is. ``docs/evidence/accuracy.md`` counts how often differences of such percentiles are
    called wrongly.
    """
    if kind is not None:
        own, every = effective_count(point, kind), independent_operations(point, percent)
        summary = point.summary()
        share = summary.kinds[kind].service.count / max(1, summary.service.count)
        return None if own is None or every is None else min(own, every * share)
    count = effective_count(point)
    if count is None:
        return None
    rates = [one.iops for one in point.course()]
    operations = point.summary().service.count
    of_rates = operations * mean_interval(rates, 0.5).effective / len(rates) if len(rates) >= VALUES_MIN else count
    return min(count, of_rates, operations * _cluster_share(point, percent))


def _cluster_share(point: Point, percent: float) -> float:
    """The clusters of operations above a percentile, divided by these operations; 1 where every interval has some."""
    largest: dict[tuple[int, int], float] = {}
    for one in point.series():
        if not one.ramp and one.kind not in FLUSH_KINDS:
            place = (one.group, one.index)
            largest[place] = max(largest.get(place, 0), one.max_ns if one.iops else 0)
    latency = point.summary().service
    threshold = latency.percentile(percent)
    beyond = sum(value > threshold for value in largest.values())
    if beyond in (0, len(largest)) or any(math.isnan(value) for value in largest.values()):
        return 1.0
    per_interval = latency.count / len(largest) * -math.log(percent / 100)
    return min(1.0, -math.log1p(-beyond / len(largest)) / per_interval)


@lru_cache(maxsize=256)
def order_ranks(count: int, share: float, confidence: float) -> tuple[int, int]:
    """Ranks (from 1) of the order statistics between which the ``share`` quantile lies; 0 or count + 1 is no bound."""
    tail = (1 - confidence) / 2
    variance = count * share * (1 - share)
    if variance > EXACT_VARIANCE_MAX:
        reach = NormalDist().inv_cdf(1 - tail) * math.sqrt(variance)
        return math.floor(count * share - reach), math.ceil(count * share + reach) + 1
    # P(X(low) > quantile) = P(B < low) and P(X(high) < quantile) = P(B >= high), with B binomial.
    reach = 10 * math.sqrt(variance) + 20
    first, last = max(0, math.floor(count * share - reach)), min(count, math.ceil(count * share + reach))
    low, below = first, 0.0
    while low < last and below + _binomial(count, share, low) <= tail:
        below += _binomial(count, share, low)
        low += 1
    high, above = last + 1, 0.0
    while high > first and above + _binomial(count, share, high - 1) <= tail:
        above += _binomial(count, share, high - 1)
        high -= 1
    return low, high


def _binomial(count: int, share: float, successes: int) -> float:
    """The probability of a number of successes."""
    ways = math.lgamma(count + 1) - math.lgamma(successes + 1) - math.lgamma(count - successes + 1)
    return math.exp(ways + successes * math.log(share) + (count - successes) * math.log1p(-share))
