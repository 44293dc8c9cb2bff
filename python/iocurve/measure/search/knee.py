"""The knee: how much must be in flight to have all that a target carries, and no more.

Two bounds hold for any closed system (Denning and Buzen, "The operational analysis of queueing network models",
ACM Computing Surveys 10, 1978): with N in flight it carries at most N / R, R being the latency of an unloaded target,
and at most its capacity C. They meet at N* = C × R: below it more in flight gives more, above it only longer waits.

Both are measured: C where more in flight gives no more, R where operations do not hinder one another. Points then go
where the curve bends, so that one sees how sharply it does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

from iocurve.measure.search import usl
from iocurve.result.stats import Estimate, pooled, product, ratio, scaled

GROWTH = 0.05
"""Less gain than this from one step to one of four times as much in flight, and the target is saturated."""
STEP = 4
SAME = 0.03
"""Points whose rate per operation in flight (or whose rate) is so near to the best count as on the bound."""
BEND = 0.05
"""Neighbours between which a rate differs from both bounds by more than this are looked between."""
BEND_POINTS_MAX = 3


@dataclass(frozen=True)
class Sample:
    """What was measured with so much in flight."""

    in_flight: int
    iops: Estimate
    latency_ns: Estimate


Measure = Callable[[int], Sample]


@dataclass(frozen=True)
class Knee:
    """What came of a search."""

    samples: tuple[Sample, ...]
    """By what was in flight."""
    in_flight: Estimate
    """N*: capacity × unloaded latency."""
    capacity_iops: Estimate
    unloaded_ns: Estimate
    at: Sample
    """Measured at the knee, to the next whole number."""
    saturated: bool
    """False: the target still carried more where the search had to end, so that all this is a lower bound."""
    stopped: str
    """Why the search ended, for people."""
    law: usl.Usl | None


def find(measure: Measure, iodepth_max: int) -> Knee:
    """Searches from one in flight upwards."""
    samples: dict[int, Sample] = {}

    def at(in_flight: int) -> Sample:
        if in_flight not in samples:
            samples[in_flight] = measure(in_flight)
        return samples[in_flight]

    saturated, stopped = _climb(at, iodepth_max)
    knee = _knee(list(samples.values()))
    nearest = min(max(1, round(knee.mean)), iodepth_max)
    for _ in range(2):
        # What is measured there may itself lie on a bound and move the knee a little.
        at(nearest)
        knee = _knee(list(samples.values()))
        nearest = min(max(1, round(knee.mean)), iodepth_max)
    _bend(at, samples, knee.mean)
    knee = _knee(list(samples.values()))
    found = sorted(samples.values(), key=lambda sample: sample.in_flight)
    return Knee(
        samples=tuple(found),
        in_flight=knee,
        capacity_iops=_capacity(found),
        unloaded_ns=_unloaded(found),
        at=at(nearest),
        saturated=saturated,
        stopped=stopped,
        law=usl.fit([(sample.in_flight, sample.iops) for sample in found]),
    )


def find_capacity(measure: Measure, iodepth_max: int) -> Estimate:
    """Operations per second of a saturated target, found from one in flight upwards."""
    samples: list[Sample] = []

    def at(in_flight: int) -> Sample:
        samples.append(measure(in_flight))
        return samples[-1]

    _climb(at, iodepth_max)
    return _capacity(samples)


def _climb(at: Measure, iodepth_max: int) -> tuple[bool, str]:
    """Ever more in flight until that gives no more; whether it came to that, and why it ended."""
    before, in_flight = at(1), STEP
    while in_flight < iodepth_max:
        now = at(in_flight)
        if now.iops.mean < before.iops.mean * (1 + GROWTH):
            return True, _flat(before, now)
        before, in_flight = now, in_flight * STEP
    now = at(iodepth_max)
    if now.iops.mean < before.iops.mean * (1 + GROWTH * _share(before.in_flight, iodepth_max)):
        return True, _flat(before, now)
    return False, f"{iodepth_max} in flight is the most that was to be tried, and the rate still grew"


def _share(low: int, high: int) -> float:
    """How much of a whole step lies between."""
    return math.log(high / low) / math.log(STEP) if high > low else 0.0


def _flat(before: Sample, now: Sample) -> str:
    gain = now.iops.mean / before.iops.mean - 1
    return f"from {before.in_flight} to {now.in_flight} in flight the rate changed by {gain:+.1%} only"


def _knee(samples: list[Sample]) -> Estimate:
    return product(_capacity(samples), scaled(_unloaded(samples), 1e-9))


def _capacity(samples: list[Sample]) -> Estimate:
    """Operations per second of the samples that lie on the upper bound."""
    best = max(sample.iops.mean for sample in samples)
    return pooled([sample.iops for sample in samples if sample.iops.mean >= best * (1 - SAME)])


def _unloaded(samples: list[Sample]) -> Estimate:
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
    """How far below both bounds a rate is."""
    bound = min(capacity, sample.in_flight / unloaded_ns * 1e9)
    return 1 - sample.iops.mean / bound
