"""The knee: the smallest queue depth that reaches nearly full throughput.

Two bounds hold for any closed system (Denning and Buzen, "The operational analysis of queueing network models",
ACM Computing Surveys 10, 1978): with N in flight it carries at most N / R, R being the latency of an unloaded target,
and at most its capacity C. They meet at the knee of the asymptotes, N* = C x R. A target with a sharp knee reaches its
capacity there. One with a soft curve reaches 50 to 70 % of it, so the depths at which the rate is 90, 95 and 99 % of
the capacity are found too.

C is measured where more in flight gives no more: the climb goes on until a step to four times as much in flight gains
less than half a per cent. R is measured where operations do not hinder one another. Points then go where the curve
bends, and where the depths for the shares of the capacity lie.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iocurve.measure.search import usl
from iocurve.result.stats import Estimate, pooled, product, ratio, scaled

GROWTH = 0.005
"""The target is saturated if four times the depth gains less than this."""
GROWTH_UNSURE = 0.02
"""A gain below this that is within its standard error of ``GROWTH`` counts as none, too."""
STEP = 4
SHARES = (0.9, 0.95, 0.99)
"""Shares of the capacity whose depths are found."""
SHARE_GAP = 1.3
"""A depth is known well enough where the measured depths on both sides are within this factor."""
SHARE_POINTS_MAX = 2
"""Points that are measured for the depth of one share."""
SAME = 0.03
"""Points whose rate per operation in flight (or whose rate) is so near to the best count as on the bound."""
ASYMPTOTE_STEP = STEP
"""The asymptote is taken from the deepest sample and the deepest that has at most one over this in flight."""
ASYMPTOTE_GROWTH = 0.08
"""A rate that grows by more is too far from its asymptote to show it."""
FLAT_ERRORS = 2.0
"""Rates that differ by no more standard errors than this are not told apart."""
BEND = 0.05
"""The search measures between neighbours if a rate differs from both bounds by more than this."""
BEND_POINTS_MAX = 3


@dataclass(frozen=True)
class Sample:
    """The measurement at one queue depth."""

    in_flight: int
    iops: Estimate
    latency_ns: Estimate


Measure = Callable[[int], Sample]


@dataclass(frozen=True)
class ShareDepth:
    """The queue depth that reaches a share of the capacity."""

    share: float
    in_flight: float
    low: float | None
    """None if no bound is known."""
    high: float | None


@dataclass(frozen=True)
class Knee:
    """The outcome of a search."""

    samples: tuple[Sample, ...]
    """In order of queue depth."""
    in_flight: Estimate
    """N*: capacity × unloaded latency."""
    capacity_iops: Estimate
    unloaded_ns: Estimate
    at: Sample
    """Measured at the knee, to the next whole number."""
    shares: tuple[ShareDepth, ...]
    """By share."""
    saturated: bool
    """False if the rate still grew at the highest depth allowed: then all figures are lower bounds."""
    stopped: str
    """The reason why the search ended, for people."""
    law: usl.Usl | None


def find(measure: Measure, iodepth_max: int, shares: Sequence[float] = SHARES) -> Knee:
    """Searches from depth 1 upwards, and finds the depths that reach the ``shares`` of the capacity."""
    samples: dict[int, Sample] = {}

    def at(in_flight: int) -> Sample:
        if in_flight not in samples:
            samples[in_flight] = measure(in_flight)
        return samples[in_flight]

    saturated, stopped = _climb(at, iodepth_max)
    knee = _knee(list(samples.values()))
    nearest = min(max(1, round(knee.mean)), iodepth_max)
    for _ in range(2):
        # A point measured there may itself lie on a bound and move the knee a little.
        at(nearest)
        knee = _knee(list(samples.values()))
        nearest = min(max(1, round(knee.mean)), iodepth_max)
    _bend(at, samples, knee.mean)
    for share in shares:
        _close_in(at, samples, share)
    knee = _knee(list(samples.values()))
    found = sorted(samples.values(), key=lambda sample: sample.in_flight)
    return Knee(
        samples=tuple(found),
        in_flight=knee,
        capacity_iops=_capacity(found),
        unloaded_ns=_unloaded(found),
        at=at(nearest),
        shares=tuple(_share_depth(found, share) for share in sorted(shares)),
        saturated=saturated,
        stopped=stopped,
        law=usl.fit([(sample.in_flight, sample.iops) for sample in found]),
    )


def find_capacity(measure: Measure, iodepth_max: int) -> Estimate:
    """Operations per second of a saturated target, searched from depth 1 upwards."""
    samples: list[Sample] = []

    def at(in_flight: int) -> Sample:
        samples.append(measure(in_flight))
        return samples[-1]

    _climb(at, iodepth_max)
    return _capacity(samples)


def _climb(at: Measure, iodepth_max: int) -> tuple[bool, str]:
    """Raises the depth until the rate stops growing; returns True if it did, and the reason for the end."""
    before, in_flight = at(1), STEP
    while in_flight < iodepth_max:
        now = at(in_flight)
        if _has_ended(ratio(now.iops, before.iops), 1.0):
            return True, _flat(before, now)
        before, in_flight = now, in_flight * STEP
    now = at(iodepth_max)
    if _has_ended(ratio(now.iops, before.iops), _steps(before.in_flight, iodepth_max)):
        return True, _flat(before, now)
    return False, f"the rate still grew at depth {iodepth_max}, the highest allowed (--iodepth-max)"


def _has_ended(growth: Estimate, steps: float) -> bool:
    """True if a number of steps (or part of one) gains nothing."""
    gain = growth.mean - 1
    error = growth.error if math.isfinite(growth.error) else 0.0
    return gain < GROWTH * steps or (gain < GROWTH_UNSURE * steps and gain - error < GROWTH * steps)


def _steps(low: int, high: int) -> float:
    """The part of a whole step between two samples."""
    return math.log(high / low) / math.log(STEP) if high > low else 0.0


def _flat(before: Sample, now: Sample) -> str:
    gain = now.iops.mean / before.iops.mean - 1
    return f"from depth {before.in_flight} to {now.in_flight} the rate changed by only {gain:+.1%}"


def _knee(samples: Sequence[Sample]) -> Estimate:
    return product(_capacity(samples), scaled(_unloaded(samples), 1e-9))


def _capacity(samples: Sequence[Sample]) -> Estimate:
    """Operations per second of a saturated target: the samples on the upper bound, or the rate that they tend to."""
    best = max(samples, key=lambda sample: sample.iops.mean)
    tended = _asymptote(samples, best)
    return tended or pooled([sample.iops for sample in samples if sample is best or _is_flat(sample, best)])


def _asymptote(samples: Sequence[Sample], best: Sample) -> Estimate | None:
    """The rate towards which the last samples grow, where they still do a little and surely.

    The time in the system, N / X, becomes a straight line in N with a slope of 1 / C.
    """
    before = max(
        (sample for sample in samples if sample.in_flight <= best.in_flight / ASYMPTOTE_STEP),
        key=lambda sample: sample.in_flight,
        default=None,
    )
    if before is None or best.in_flight < max(sample.in_flight for sample in samples):
        return None
    growth = ratio(best.iops, before.iops)
    if not growth.mean < 1 + ASYMPTOTE_GROWTH or growth.mean - FLAT_ERRORS * growth.error <= 1:
        return None
    rest = before.in_flight / best.in_flight
    mean = (1 - rest) / (1 / best.iops.mean - rest / before.iops.mean)
    error = (
        mean * math.hypot(best.iops.error / best.iops.mean, rest * before.iops.error / before.iops.mean) / (1 - rest)
    )
    return Estimate(mean, error, min(best.iops.batches, before.iops.batches))


def _is_flat(sample: Sample, best: Sample) -> bool:
    """True of a rate that the errors do not tell from the best; below the best depth it may still be growing."""
    missing = best.iops.mean - sample.iops.mean
    error = math.hypot(sample.iops.error, best.iops.error)
    near = SAME if sample.in_flight > best.in_flight else GROWTH
    if not math.isfinite(error):
        return missing <= near * best.iops.mean
    return missing <= max(near * best.iops.mean, FLAT_ERRORS * error) and missing <= SAME * best.iops.mean


def _unloaded(samples: Sequence[Sample]) -> Estimate:
    """Nanoseconds that each in flight takes, by Little's law, where the rate is in proportion to what is in flight."""
    loads = [ratio(Estimate(1e9 * sample.in_flight, 0.0, sample.iops.batches), sample.iops) for sample in samples]
    best = min(load.mean for load in loads)
    return pooled([load for load in loads if load.mean <= best * (1 + SAME)])


def _bend(at: Measure, samples: dict[int, Sample], knee: float) -> None:
    """Looks between neighbours around the knee where the rate is well below both bounds."""
    found = list(samples.values())
    capacity, unloaded = _capacity(found).mean, _unloaded(found).mean
    for _ in range(BEND_POINTS_MAX):
        ordered = sorted(samples)
        gaps = [
            (math.log(high / low), math.isqrt(low * high))
            for low, high in itertools.pairwise(ordered)
            if math.isqrt(low * high) not in samples
            and low <= knee * STEP
            and high >= knee / STEP
            and any(_off(samples[load], capacity, unloaded) > BEND for load in (low, high))
        ]
        if not gaps:
            return
        at(max(gaps)[1])


def _off(sample: Sample, capacity: float, unloaded_ns: float) -> float:
    """The distance of a rate below both bounds."""
    bound = min(capacity, sample.in_flight / unloaded_ns * 1e9)
    return 1 - sample.iops.mean / bound


def _close_in(at: Measure, samples: dict[int, Sample], share: float) -> None:
    """Measures where the depth of a share of the capacity seems to be, until its neighbours are near."""
    for _ in range(SHARE_POINTS_MAX):
        found = sorted(samples.values(), key=lambda sample: sample.in_flight)
        capacity, unloaded = _capacity(found).mean, _unloaded(found).mean
        below, above = _neighbours(found, share * capacity)
        if below is None or above is None or above.in_flight <= SHARE_GAP * below.in_flight:
            return
        bend = min(BEND, max(GROWTH, (1 - share) / 2))
        if max(_off(below, capacity, unloaded), _off(above, capacity, unloaded)) <= bend:
            # Both lie on the asymptotes, and so does what is between them.
            return
        guess = round(_between(below, above, share * capacity))
        if guess in samples:
            return
        at(guess)


def _share_depth(samples: Sequence[Sample], share: float) -> ShareDepth:
    """The depth by interpolation, with those for the share less and plus the errors of the rates."""
    capacity = _capacity(samples)
    wanted = share * capacity.mean
    value = _depth_for(samples, wanted)
    below, above = _neighbours(samples, wanted)
    errors = [one.iops.precision for one in (below, above) if one is not None]
    # The capacity itself is sought no closer than GROWTH.
    precision = max(GROWTH, math.hypot(capacity.precision, max(errors, default=math.inf)))
    if value is None or not math.isfinite(precision):
        return ShareDepth(share, float(samples[-1].in_flight) if value is None else value, None, None)
    return ShareDepth(
        share, value, _depth_for(samples, wanted * (1 - precision)), _depth_for(samples, wanted * (1 + precision))
    )


def _depth_for(samples: Sequence[Sample], rate: float) -> float | None:
    """The smallest depth that carries a rate; None if no measured one does."""
    below, above = _neighbours(samples, rate)
    if above is None:
        return None
    return float(above.in_flight) if below is None else _between(below, above, rate)


def _neighbours(samples: Sequence[Sample], rate: float) -> tuple[Sample | None, Sample | None]:
    """The last sample before the rate is reached, and the one that reaches it."""
    for number, sample in enumerate(samples):
        if sample.iops.mean >= rate:
            return (samples[number - 1] if number else None), sample
    return (samples[-1] if samples else None), None


def _between(below: Sample, above: Sample, rate: float) -> float:
    """Interpolates the time in the system, N / X, over N: straight lines on both asymptotes."""
    low, high = below.in_flight / below.iops.mean, above.in_flight / above.iops.mean
    slope = (high - low) / (above.in_flight - below.in_flight)
    depth = rate * (low - slope * below.in_flight) / (1 - rate * slope) if rate * slope < 1 else math.inf
    return min(max(depth, float(below.in_flight)), float(above.in_flight))
