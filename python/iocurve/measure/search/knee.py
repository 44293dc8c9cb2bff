"""The knee: the smallest queue depth that reaches nearly full throughput.

Two bounds hold for any closed system (Denning and Buzen, "The operational analysis of queueing network models",
ACM Computing Surveys 10, 1978): with N in flight it carries at most N / R, R being the latency of an unloaded target,
and at most its capacity C. They meet at the knee of the asymptotes, N* = C x R. A target with a sharp knee reaches its
capacity there. One with a soft curve reaches 50 to 70 % of it, so the depths at which the rate is 90, 95 and 99 % of
the capacity are found too.

C is measured where more in flight gives no more: the climb goes on until a step to four times as much in flight gains
less than half a per cent, and a last look far beyond does not find that the rate has grown again. ``capacity`` has its
bounds. R is measured where operations do not hinder one another. Points then go where the curve bends, near a maximum,
and where the depths for the shares of the capacity lie.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from iocurve.foundation.errors import option
from iocurve.foundation.units import counted
from iocurve.measure.search import usl
from iocurve.measure.search.capacity import (
    STEP,
    Capacity,
    CurvePoint,
    Form,
    Range,
    capacity_of,
    depth_bounds,
    hidden_peak,
)
from iocurve.result.stats import Estimate, pooled, ratio

GROWTH = 0.005
"""The target is saturated if four times the depth gains less than this."""
GROWTH_UNSURE = 0.02
"""A gain below this that is within its standard error of ``GROWTH`` counts as none, too."""
DEPTH_MAX = 4096
"""Highest depth to try if no other is given."""
SHARES = (0.9, 0.95, 0.99)
"""Shares of the capacity whose depths are found."""
SHARE_GAP = 1.3
"""A depth is known well enough where the measured depths on both sides are within this factor."""
SHARE_POINTS_MAX = 2
"""Points that are measured for the depth of one share."""
SAME = 0.03
"""Points whose rate per operation in flight (or whose rate) is so near to the best count as on the bound."""
FLAT_ERRORS = 2.0
"""Rates that differ by no more standard errors than this are not told apart."""
BEND = 0.05
"""The search measures between neighbours if a rate differs from both bounds by more than this."""
BEND_POINTS_MAX = 3
LOOK = 16
"""A last look is this factor beyond the depth where the rate stopped growing, ..."""
LOOK_LATENCY_S = 1.0
"""... unless operations would take longer than this there."""
PEAK_POINTS_MAX = 5
PEAK_HIDDEN = 0.01
"""A maximum between two points may be this much above them, relative to them."""


class Sample(msgspec.Struct, frozen=True):
    """The measurement at one queue depth."""

    in_flight: int
    iops: Estimate
    latency_ns: Estimate


Measure = Callable[[int], Sample]


class ShareDepth(msgspec.Struct, frozen=True):
    """The queue depth that reaches a share of the capacity."""

    share: float
    in_flight: float
    low: float | None
    """None if no bound is known."""
    high: float | None


class Knee(msgspec.Struct, frozen=True):
    """The outcome of a search."""

    samples: tuple[Sample, ...]
    """In order of queue depth."""
    in_flight: Range
    """N*: capacity × unloaded latency."""
    capacity_iops: Range
    form: Form
    grew_again_at: int | None
    """The depth from which the rate grew again after a plateau."""
    unloaded_ns: Estimate
    at: Sample
    """Measured at the knee, to the next whole number, or at the depth next to it if the time was over before."""
    shares: tuple[ShareDepth, ...]
    """By share."""
    saturated: bool
    """False if the rate still grew at the highest depth allowed."""
    stopped: str
    """The reason why the search ended, for people."""
    law: usl.Usl | None


def find(
    measure: Measure,
    iodepth_max: int,
    shares: Sequence[float] = SHARES,
    look_max: int = DEPTH_MAX,
    is_over: Callable[[], bool] = lambda: False,
) -> Knee:
    """Searches from depth 1 upwards, and finds the depths that reach the ``shares`` of the capacity.

    The last look goes no deeper than ``look_max``. Once ``is_over`` is true, no further depth is measured.
    """
    at, samples = _remembered(measure, is_over)
    saturated, stopped = _climb(at, iodepth_max, look_max)
    steps: list[Callable[[], object]] = [
        partial(_find_peak, at, samples),
        partial(_knee_point, at, samples, iodepth_max),
        partial(_bend, at, samples),
        *(partial(_close_in, at, samples, share) for share in shares),
    ]
    for place, step in enumerate(steps):
        try:
            step()
        except TimeoutError:
            stopped += f"; {option('search_time')} left out {counted(len(steps) - place, 'step')} that narrow bounds"
            break
    try:
        nearest = _knee_point(at, samples, iodepth_max)
    except TimeoutError:
        middle = _knee(_ordered(samples)).mean
        nearest = min(samples.values(), key=lambda sample: abs(math.log(sample.in_flight / middle)))
    found = _ordered(samples)
    top = _capacity(found)
    return Knee(
        samples=tuple(found),
        in_flight=_knee(found),
        capacity_iops=top.iops,
        form=top.form,
        grew_again_at=top.grew_again_at,
        unloaded_ns=_unloaded(found),
        at=nearest,
        shares=tuple(_share_depth(found, share) for share in sorted(shares)),
        saturated=saturated,
        stopped=stopped,
        law=usl.fit([(sample.in_flight, sample.iops) for sample in found]),
    )


def find_capacity(measure: Measure, iodepth_max: int, look_max: int = DEPTH_MAX) -> Estimate:
    """Operations per second of a saturated target, searched from depth 1 upwards."""
    at, samples = _remembered(measure, lambda: False)
    _climb(at, iodepth_max, look_max)
    found = _capacity(_ordered(samples))
    return Estimate(found.iops.mean, found.top.error, found.top.batches)


def _remembered(measure: Measure, is_over: Callable[[], bool]) -> tuple[Measure, dict[int, Sample]]:
    """The function for each depth once, and what it has measured.

    It raises ``TimeoutError`` if the time is over and two depths are known, of which a curve needs no fewer.
    """
    samples: dict[int, Sample] = {}

    def at(in_flight: int) -> Sample:
        if in_flight not in samples:
            if len(samples) > 1 and is_over():
                raise TimeoutError
            samples[in_flight] = measure(in_flight)
        return samples[in_flight]

    return at, samples


def _climb(at: Measure, iodepth_max: int, look_max: int) -> tuple[bool, str]:
    """Raises the depth until the rate stops growing; returns True if it did, and the reason for the end.

    A last look far beyond tells whether it is only a plateau.
    """
    before, looked = at(1), 0
    while True:
        try:
            now = at(min(before.in_flight * STEP, iodepth_max))
        except TimeoutError:
            return False, f"{option('search_time')} is over, and the rate still grew at depth {before.in_flight}"
        if _has_ended(ratio(now.iops, before.iops), _steps(before.in_flight, now.in_flight)):
            if looked < 2 * now.in_flight:
                looked = min(iodepth_max, look_max, LOOK * now.in_flight, int(LOOK_LATENCY_S * now.iops.mean))
            if looked < 2 * now.in_flight:
                return True, _flat(before, now)
            try:
                beyond = at(looked)
            except TimeoutError:
                return True, f"{_flat(before, now)}; {option('search_time')} left out a look far beyond"
            if not _has_grown(now, beyond):
                return True, f"{_flat(before, now)}, and up to {looked} by {_gain(now, beyond):+.1%}"
        elif now.in_flight == iodepth_max:
            return False, f"the rate still grew at depth {iodepth_max}, the highest allowed (--iodepth-max)"
        before = now


def _has_grown(now: Sample, beyond: Sample) -> bool:
    growth = ratio(beyond.iops, now.iops)
    error = growth.error if math.isfinite(growth.error) else 0.0
    return growth.mean - FLAT_ERRORS * error > 1 + GROWTH_UNSURE


def _find_peak(at: Measure, samples: dict[int, Sample]) -> None:
    """Measures near the top of a rate that falls with depth until what its maximum can hide is little."""
    for _ in range(PEAK_POINTS_MAX):
        found = _capacity(_ordered(samples))
        peak, depth = hidden_peak(_points(_ordered(samples)))
        if found.form != "falling" or peak < (1 + PEAK_HIDDEN) * found.top.rate or depth in samples:
            return
        at(depth)


def _knee_point(at: Measure, samples: dict[int, Sample], iodepth_max: int) -> Sample:
    """Measures at the knee; the point may itself lie on a bound and move the knee a little."""
    for _ in range(2):
        nearest = at(min(max(1, round(_knee(_ordered(samples)).mean)), iodepth_max))
    return nearest


def _ordered(samples: dict[int, Sample]) -> list[Sample]:
    return [samples[depth] for depth in sorted(samples)]


def _has_ended(growth: Estimate, steps: float) -> bool:
    """True if a number of steps (or part of one) gains nothing."""
    gain = growth.mean - 1
    error = growth.error if math.isfinite(growth.error) else 0.0
    return gain < GROWTH * steps or (gain < GROWTH_UNSURE * steps and gain - error < GROWTH * steps)


def _steps(low: int, high: int) -> float:
    """The part of a whole step between two samples."""
    return math.log(high / low) / math.log(STEP) if high > low else 0.0


def _flat(before: Sample, now: Sample) -> str:
    gain = _gain(before, now)
    only = "only " if gain > -GROWTH_UNSURE else ""
    return f"from depth {before.in_flight} to {now.in_flight} the rate changed by {only}{gain:+.1%}"


def _gain(before: Sample, now: Sample) -> float:
    return now.iops.mean / before.iops.mean - 1


def _knee(samples: Sequence[Sample]) -> Range:
    capacity, unloaded = _capacity(samples).iops, _unloaded(samples)
    spread = math.hypot(1 - capacity.low / capacity.mean, unloaded.precision)
    above = math.hypot(capacity.high / capacity.mean - 1, unloaded.precision)
    mean = capacity.mean * unloaded.mean * 1e-9
    return Range(mean, mean * (1 - spread), mean * (1 + above))


def _capacity(samples: Sequence[Sample]) -> Capacity:
    return capacity_of(_points(samples))


def _points(samples: Sequence[Sample]) -> tuple[CurvePoint, ...]:
    return tuple(CurvePoint.of(sample.in_flight, sample.iops) for sample in samples)


def _unloaded(samples: Sequence[Sample]) -> Estimate:
    """Nanoseconds that each in flight takes, by Little's law, where the rate is in proportion to what is in flight."""
    loads = [ratio(Estimate(1e9 * sample.in_flight, 0.0, sample.iops.batches), sample.iops) for sample in samples]
    best = min(load.mean for load in loads)
    return pooled([load for load in loads if load.mean <= best * (1 + SAME)])


def _bend(at: Measure, samples: dict[int, Sample]) -> None:
    """Looks between neighbours around the knee where the rate is well below both bounds."""
    found = _ordered(samples)
    knee = _knee(found).mean
    capacity, unloaded = _capacity(found).iops.mean, _unloaded(found).mean
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
        found = _ordered(samples)
        capacity, unloaded = _capacity(found).iops.mean, _unloaded(found).mean
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
    """The depth by interpolation, with bounds that need no form of the curve between the points."""
    capacity = _capacity(samples)
    value = _depth_for(samples, share * capacity.iops.mean)
    low, high = depth_bounds(_points(samples), capacity, share)
    deepest = float(samples[-1].in_flight)
    return ShareDepth(share, min(max(deepest if value is None else value, low), high or math.inf), low, high)


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
