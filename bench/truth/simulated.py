"""Simulated measurements whose truth is known: series of rates, servers and closed systems."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.truth.series import Make
from iocurve.analysis.cache_evidence import compared, repeated_evidence
from iocurve.analysis.history import Series
from iocurve.analysis.level_changes import SEGMENT_MIN, Drift, LevelStep, level_change
from iocurve.measure.campaign import turn_places
from iocurve.measure.scenario.caches import CHECK_PAIRS
from iocurve.measure.search import usl
from iocurve.measure.search.loads import Stopping
from iocurve.result.document import CacheFacts
from iocurve.result.paired import RatePair, RateRatio, Verdict, counting_resolution, rate_ratio
from iocurve.result.stats import Bounded, Estimate, judged_mean, sample_mean

MEAN = 1000.0
"""True mean of all series."""
ORDERS = 50
"""Orders of turns that are drawn for each number of points and rounds."""


def autoregressive(
    chance: random.Random, count: int, correlation: float, deviation: float, *, share: float = 1.0
) -> list[float]:
    """AR(1) noise about ``MEAN``; ``deviation`` is the standard deviation relative to the mean.

    ``share`` of the variance is AR(1), the rest is white.
    """
    innovation = math.sqrt(1 - correlation**2)
    level = chance.gauss(0, 1)
    values = []
    for _ in range(count):
        white = math.sqrt(1 - share) * chance.gauss(0, 1) if share < 1 else 0.0
        values.append(MEAN * (1 + deviation * (math.sqrt(share) * level + white)))
        level = correlation * level + innovation * chance.gauss(0, 1)
    return values


@dataclass
class Coverage:
    """Counts of runs."""

    runs: int = 0
    declined: int = 0
    """Runs that gave no interval."""
    held: int = 0
    """Runs whose interval held the truth."""
    widths: float = 0.0
    """Sum of the half widths, relative to the mean."""
    length: int = 0
    """Sum of the lengths of the series."""

    def add(self, estimate: Estimate, truth: float, length: int = 0) -> None:
        self.runs += 1
        self.length += length
        if math.isinf(estimate.half_width):
            self.declined += 1
            return
        self.held += estimate.low <= truth <= estimate.high
        self.widths += estimate.precision

    @property
    def share(self) -> float:
        """Share of the runs that gave an interval."""
        given = self.runs - self.declined
        return self.held / given if given else math.nan


def coverage(
    mean: Callable[[Sequence[float]], Estimate],
    count: int,
    correlation: float,
    runs: int,
    *,
    share: float = 1.0,
    seed: int = 1,
) -> Coverage:
    """Intervals of series of a fixed length."""
    counted = Coverage()
    for run in range(runs):
        chance = random.Random(f"{seed} {count} {correlation} {run}")
        counted.add(mean(autoregressive(chance, count, correlation, 0.05, share=share)), MEAN, count)
    return counted


@dataclass(frozen=True)
class TurnNoise:
    """The noise of the logarithms of rates from turn to turn."""

    shape: str = "normal"
    """``normal``; ``heavy tails``: Student's t with 2 degrees of freedom; ``dropouts``: normal, and 5 % of the turns
    lose 60 %; ``skewed``: shifted lognormal, downwards."""
    deviation: float = 0.03
    """Standard deviation of the normal noise from which it is made."""
    correlation: float = 0.0
    """Of neighbouring turns."""
    drift: float = 0.0
    """Loss along all turns; of a gain it is negative."""

    @classmethod
    def drawn(cls, chance: random.Random, shape: str) -> TurnNoise:
        """Deviations of 1 to 15 %, correlations up to 0.9, drifts of up to 30 % in both directions."""
        deviation = math.exp(chance.uniform(math.log(0.01), math.log(0.15)))
        return cls(shape, deviation, chance.uniform(0, 0.9), chance.uniform(-0.3, 0.3))

    def rates(self, chance: random.Random, count: int) -> list[float]:
        """Rates of successive turns about 1."""
        normal = [value / MEAN - 1 for value in autoregressive(chance, count, self.correlation, 1)]
        return [
            math.exp(self.deviation * self._shaped(value, chance) + self._dropout(chance) - self.drift * place / count)
            for place, value in enumerate(normal)
        ]

    def _shaped(self, value: float, chance: random.Random) -> float:
        if self.shape == "heavy tails":
            return value / math.sqrt(chance.expovariate(1))
        return math.exp(0.5) - math.exp(value) if self.shape == "skewed" else value

    def _dropout(self, chance: random.Random) -> float:
        return math.log(0.4) if self.shape == "dropouts" and chance.random() < 0.05 else 0.0


SHAPES = ("normal", "heavy tails", "dropouts", "skewed")


def turns_ratio(members: int, rounds: int, truth: float, noise: TurnNoise, chance: random.Random) -> RateRatio:
    """The ratio of the last point to the first, where points take turns."""
    places = turn_places(members, rounds, str(chance.randrange(ORDERS)))
    rates: tuple[dict[int, tuple[float, int]], ...] = ({}, {})
    for place, rate in zip(places, noise.rates(chance, len(places)), strict=True):
        if place.member in (0, members - 1):
            rates[place.member > 0][place.round] = (rate, place.order)
    base, own = rates
    found = rate_ratio([RatePair(truth * own[turn][0], base[turn][0], own[turn][1], base[turn][1]) for turn in base])
    assert found is not None
    return found


def gain_coverage(members: int, rounds: int, noise: TurnNoise, runs: int, *, seed: int = 1) -> Coverage:
    """Intervals of the ratio of the last point to the first; the true one is 1.5."""
    counted = Coverage()
    for run in range(runs):
        found = turns_ratio(members, rounds, 1.5, noise, random.Random(f"{seed} {members} {rounds} {noise} {run}"))
        counted.runs += 1
        low, high = found.low or 0.0, found.high or math.inf
        counted.held += low <= 1.5 <= high
        # A bound that is left out counts as ten times the ratio.
        counted.widths += min(high / low if low else math.inf, 100) ** 0.5 - 1
    return counted


def capped_gain_coverage(truth: float, runs: int, *, rate: float, batch: int, depth: int, seed: int = 1) -> Coverage:
    """Intervals of the ratio of two caps on steady targets: a turn of 1 s counts the operations that complete in it.

    The cap lets ``batch`` operations through at a time, with ``depth`` in flight. A run's turns begin at one place of
    the cap's rhythm, or each at another, so that counts hardly vary, or by a batch.
    """
    counted = Coverage()
    for run in range(runs):
        chance = random.Random(f"{seed} {truth} {rate} {batch} {run}")
        same = [chance.random(), chance.random()] if run % 2 else None
        pairs = []
        for number in range(5):
            phases = same or [chance.random(), chance.random()]
            caps = (truth * rate, rate)
            counts = [math.floor(cap / batch + phase) * batch for cap, phase in zip(caps, phases, strict=True)]
            left = [counting_resolution(count, depth, batch) for count in counts]
            own, base = 2 * number + 1 + (number % 2 == 0), 2 * number + 1 + (number % 2 == 1)
            pairs.append(RatePair(counts[0], counts[1], own, base, sum(left)))
        found = rate_ratio(pairs)
        assert found is not None, "rates are not 0"
        counted.runs += 1
        counted.held += (found.low or 0.0) <= truth <= (found.high or math.inf)
        counted.widths += ((found.high or math.inf) / (found.low or 1.0)) ** 0.5 - 1
    return counted


def gain_verdicts(rounds: int, shape: str, truth: float, runs: int, *, seed: int = 1) -> Counter[Verdict]:
    """Verdicts on the last of 2 to 8 points that take turns, under drawn noise."""
    found: Counter[Verdict] = Counter()
    for run in range(runs):
        chance = random.Random(f"{seed} {rounds} {shape} {truth} {run}")
        found[turns_ratio(chance.randint(2, 8), rounds, truth, TurnNoise.drawn(chance, shape), chance).verdict] += 1
    return found


def cache_verdicts(shape: str, runs: int, *, has_cache: bool, seed: int = 1) -> int:
    """Runs in which repeated offsets were called faster, under drawn noise.

    With a cache, hits are 1.5 to 30 times as fast as misses, 50 to 100 % of the reads at repeated offsets hit and up to
    30 % of those at fresh ones; the load as a whole is at least 1.5 times as fast.
    """
    found = 0
    for run in range(runs):
        chance = random.Random(f"{seed} {shape} {has_cache} {run}")
        noise, truth = TurnNoise.drawn(chance, shape), _cache_gain(chance) if has_cache else 1.0
        rates = noise.rates(chance, 2 * CHECK_PAIRS)
        # Repeated, fresh, fresh, repeated, and so on.
        repeated = [truth * rates[2 * pair + pair % 2] for pair in range(CHECK_PAIRS)]
        fresh = [rates[2 * pair + 1 - pair % 2] for pair in range(CHECK_PAIRS)]
        evidence = repeated_evidence(compared(CacheFacts(policy="uncached"), repeated, fresh))
        found += evidence is not None and evidence.says == "cached"
    return found


def _cache_gain(chance: random.Random) -> float:
    while True:
        speed = math.exp(chance.uniform(math.log(1.5), math.log(30)))
        repeated, fresh = chance.uniform(0.5, 1), chance.uniform(0, 0.3)
        gain = (1 - fresh + fresh / speed) / (1 - repeated + repeated / speed)
        if gain >= 1.5:
            return gain


@dataclass
class StoppedCoverage:
    """Runs that end as soon as their mean is precise enough, and at the latest after a length."""

    stopped: Coverage = field(default_factory=Coverage)
    cut_off: Coverage = field(default_factory=Coverage)

    @property
    def length(self) -> float:
        """Mean length of a series."""
        return (self.stopped.length + self.cut_off.length) / (self.stopped.runs + self.cut_off.runs)


def coverage_when_stopped(
    make: Make, runs: int, *, precision: float = 0.02, longest: int = 200, seed: int = 1
) -> StoppedCoverage:
    """Intervals of series that end as ``Stopping`` says; the truth of a series is the mean of what was measured."""
    counted = StoppedCoverage()
    for run in range(runs):
        drawn, means = make(np.random.default_rng([seed, run]), longest)
        values, stopping = (MEAN * drawn).tolist(), Stopping(precision)
        length = next((count for count in range(1, longest) if stopping.enough(values[:count])), longest)
        ended = counted.stopped if length < longest else counted.cut_off
        ended.add(judged_mean(values[:length], stopping.first), MEAN * float(means[:length].mean()), length)
    return counted


def changes(
    count: int,
    correlation: float,
    deviation: float,
    runs: int,
    *,
    shape: Callable[[int], float] = lambda _place: 1.0,
    seed: int = 1,
) -> list[LevelStep | Drift | None]:
    """Changes of level that are found in series; ``shape`` is the true course, relative to ``MEAN``."""
    found = []
    for run in range(runs):
        noise = autoregressive(random.Random(f"{seed} {count} {correlation} {run}"), count, correlation, deviation)
        found.append(level_change([value + MEAN * (shape(place) - 1) for place, value in enumerate(noise)]))
    return found


def changes_of(
    make: Make, count: int, runs: int, *, fall: float = 0.0, seed: int = 1
) -> list[LevelStep | Drift | None]:
    """Changes of level that are found in series of a family; they fall at a place drawn for each."""
    found = []
    for run in range(runs):
        chance = np.random.default_rng([seed, run])
        values, _ = make(chance, count)
        at = int(chance.integers(SEGMENT_MIN, count - SEGMENT_MIN + 1))
        values[at:] *= 1 - fall
        found.append(level_change((MEAN * values).tolist()))
    return found


@dataclass
class HistoryCount:
    """Histories in which a change was found."""

    changed: int = 0
    """Histories with several levels, or a drift."""
    outside: int = 0
    """Histories whose newest run is outside of what came before."""


def history(
    count: int, correlation: float, runs: int, *, fall: float = 0.0, places: range = range(0), seed: int = 1
) -> HistoryCount:
    """Histories with a spread of 5 % between runs, of which those at ``places`` are lower by ``fall``."""
    counted = HistoryCount()
    for run in range(runs):
        chance = random.Random(f"{seed} {count} {correlation} {run}")
        noise = autoregressive(chance, count, correlation, 0.05)
        values = [value * (1 - fall if place in places else 1.0) for place, value in enumerate(noise)]
        one = Series("", "", "iops", tuple(range(count)), tuple(Bounded(value, None, None) for value in values))
        counted.changed += len(one.levels) > 1 or one.levels[0].is_drift
        counted.outside += one.newest is not None and one.newest.is_outside
    return counted


@dataclass
class LawCoverage:
    """Counts of fits of the universal scalability law."""

    runs: int = 0
    held: list[int] = field(default_factory=lambda: [0, 0, 0])
    """Fits whose interval held the true lambda, sigma, kappa."""
    misfits: int = 0
    """Fits with a point that was called a misfit."""


def law_coverage(
    terms: tuple[float, float, float], noise: float, runs: int, *, values: int = 12, seed: int = 1
) -> LawCoverage:
    """Fits to curves that follow the law; ``noise`` is that of one of the ``values`` of a point."""
    rate, contention, coherency = terms
    counted = LawCoverage()
    for run in range(runs):
        chance = random.Random(f"{seed} {terms} {noise} {run}")
        points = []
        for load in (1, 2, 4, 8, 16, 32, 64, 128):
            true = rate * load / (1 + contention * (load - 1) + coherency * load * (load - 1))
            points.append((load, sample_mean([true * chance.gauss(1, noise) for _ in range(values)])))
        law = usl.fit(points)
        assert law is not None
        counted.runs += 1
        counted.misfits += bool(law.misfits)
        for place, (term, true) in enumerate(zip((law.rate, law.contention, law.coherency), terms, strict=True)):
            counted.held[place] += term.low <= true <= term.high
    return counted
