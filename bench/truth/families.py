"""Counts what the intervals of a series promise and hold, for families of noise that are drawn by a seed.

Each family has six sets of parameters. Chance splits them: three families are only scored, and so are three of the six
sets of each other family. Rules and factors were set on the tuning sets, with other seeds than those that
score: ``python -m bench.truth.families --tuning`` draws the series that rules may be set on, ``python -m bench.truth
families`` all others.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from bench.truth import series
from bench.truth.series import Array, Make
from bench.truth.simulated import ORDERS
from bench.truth.table import Row, row
from iocurve.analysis.compare import ratio_bounds
from iocurve.analysis.level_changes import level_change
from iocurve.measure.campaign import turn_places
from iocurve.measure.search.loads import Stopping
from iocurve.result.paired import RatePair, rate_ratio, verdict
from iocurve.result.stats import (
    CONFIDENCE,
    RAREST_SEEN,
    Bounded,
    Estimate,
    compared_half_width,
    judged_mean,
    series_mean,
)

LENGTHS = (20, 40, 100, 200, 400)
COMPARED_LENGTHS = (40, 200)
"""Lengths of the single runs that are compared with one another."""
TURN_VALUES, ROUNDS = 20, 5
ALARM_LENGTH = 100
LONGEST = 400
STOPPED_BY = 200
"""Values after which a run is cut off."""
PRECISION = 0.02
SETS = 6
FAMILIES_SCORED = 3
SPLIT_SEED = 40
TUNING_SEED, SCORE_SEED = 1, 3
RUNS = 75
COLUMNS = (
    "family",
    "sets",
    *(f"{length} values" for length in LENGTHS),
    "stopped early",
    "of these hold",
    "stopped too early",
    "compare, 40 and 200 values",
    "ab",
    "alarms",
)

Drawn = Callable[[np.random.Generator], Make]
"""Draws the parameters of a family."""


def _log_uniform(chance: np.random.Generator, low: float, high: float) -> float:
    return math.exp(chance.uniform(math.log(low), math.log(high)))


def fractional(chance: np.random.Generator, count: int, *, order: float, deviation: float) -> tuple[Array, Array]:
    """Fractional noise, exact (R. B. Davies, D. S. Harte, "Tests for Hurst effect", Biometrika 74, 1987)."""
    lags = np.arange(1, count + 1)
    covariances = np.concatenate(([1.0], np.cumprod((lags - 1 + order) / (lags - order))))
    spectrum = np.fft.fft(np.concatenate((covariances, covariances[-2:0:-1]))).real.clip(min=0)
    size = len(spectrum)
    noise = chance.standard_normal(size) + 1j * chance.standard_normal(size)
    values = np.fft.fft(np.sqrt(spectrum / size) * noise).real[:count]
    return 1 + deviation * values, np.ones(count)


def two_speeds(chance: np.random.Generator, count: int, *, dwell: float, gap: float) -> tuple[Array, Array]:
    """Two levels, each of which lasts for ``dwell`` values on average."""
    is_low = (np.cumsum(chance.random(count) < 1 / dwell) + chance.integers(2)) % 2
    return 1 - gap * is_low + series.QUIET * chance.standard_normal(count), np.full(count, 1 - gap / 2)


def pareto(chance: np.random.Generator, count: int, *, tail: float, size: int) -> tuple[Array, Array]:
    """Completions in successive intervals of one operation at a time, whose service time has a Pareto tail."""
    mean, warm = tail / (tail - 1), 20
    ends = np.cumsum((1 + chance.pareto(tail, (count + 2 * warm) * size * 4)) / mean / size)
    counts = np.histogram(ends, bins=np.arange(warm, warm + count + 1))[0]
    return counts / size, np.ones(count)


def saw_tooth(chance: np.random.Generator, count: int, *, period: float, gap: float) -> tuple[Array, Array]:
    """Rates that fall along each period by a share and then jump back."""
    place = (np.arange(count) / period + chance.random()) % 1
    return 1 + gap * (0.5 - place) + series.QUIET * chance.standard_normal(count), np.ones(count)


def sine(chance: np.random.Generator, count: int, *, period: float, gap: float) -> tuple[Array, Array]:
    """Rates that swing."""
    place = np.arange(count) / period + chance.random()
    return 1 + gap / 2 * np.sin(2 * math.pi * place) + series.QUIET * chance.standard_normal(count), np.ones(count)


def stalls(
    chance: np.random.Generator, count: int, *, every: float, lasts: float, is_random: bool
) -> tuple[Array, Array]:
    """Nothing completes for ``lasts`` intervals after each ``every`` of work, or after a random one of this mean."""
    number = math.ceil(3 * count / (every + lasts)) + 60
    works = chance.exponential(every, number) if is_random else np.full(number, every)
    starts = np.cumsum(works + lasts) - chance.uniform(10, 20) * (every + lasts)
    edges = np.arange(count + 1)
    # Work done until each edge: all that precedes a stall, up to the next one.
    times = np.ravel(np.column_stack((starts - lasts, starts)))
    done = np.ravel(np.column_stack((np.cumsum(works), np.cumsum(works))))
    rates = np.diff(np.interp(edges, times, done))
    truth = every / (every + lasts)
    return rates * (1 + series.QUIET * chance.standard_normal(count)), np.full(count, truth)


FAMILIES: dict[str, Drawn] = {
    "AR(1)": lambda chance: series.fixed(chance.uniform(0, 0.95), series.spread(chance)),
    "AR(1) with tails of t(3)": lambda chance: partial(series.student, correlation=chance.uniform(0, 0.6)),
    "long memory, d below 0.3": lambda chance: partial(
        fractional, order=chance.uniform(0.05, 0.3), deviation=series.spread(chance)
    ),
    "long memory, d 0.3 to 0.45": lambda chance: partial(
        fractional, order=chance.uniform(0.3, 0.45), deviation=series.spread(chance)
    ),
    "drop-outs to zero": lambda chance: partial(series.dropouts, share=_log_uniform(chance, 0.01, 0.1), depth=1.0),
    "two speeds": lambda chance: partial(
        two_speeds, dwell=_log_uniform(chance, 5, 60), gap=_log_uniform(chance, 0.05, 0.5)
    ),
    "Pareto service": lambda chance: partial(
        pareto, tail=chance.uniform(1.4, 2.5), size=round(_log_uniform(chance, 20, 200))
    ),
    "saw-tooth": lambda chance: partial(
        saw_tooth, period=_log_uniform(chance, 8, 120), gap=_log_uniform(chance, 0.05, 0.5)
    ),
    "sine": lambda chance: partial(sine, period=_log_uniform(chance, 8, 120), gap=_log_uniform(chance, 0.05, 0.5)),
    "stalls by count": lambda chance: partial(
        stalls, every=_log_uniform(chance, 10, 200), lasts=_log_uniform(chance, 0.5, 5), is_random=False
    ),
    "stalls by time": lambda chance: partial(
        stalls, every=_log_uniform(chance, 10, 200), lasts=_log_uniform(chance, 0.5, 5), is_random=True
    ),
}


@dataclass(frozen=True)
class Case:
    """A family with its sets of parameters of one part."""

    family: str
    part: str
    """``tuning`` or ``scored``."""
    sets: tuple[Make, ...]


def cases() -> list[Case]:
    """The families with their parameters, split by chance."""
    chance = np.random.default_rng(SPLIT_SEED)
    scored = set(chance.permutation(len(FAMILIES))[:FAMILIES_SCORED].tolist())
    found = []
    for number, (family, drawn) in enumerate(FAMILIES.items()):
        sets = [drawn(chance) for _ in range(SETS)]
        order = chance.permutation(SETS).tolist()
        parts = {"scored": order} if number in scored else {"tuning": order[::2], "scored": order[1::2]}
        found += [Case(family, part, tuple(sets[one] for one in members)) for part, members in parts.items()]
    return found


SWING_SEEN = 4
"""A series shows a drift or a level of a swing whose period is more than this number of times its length."""


def _event_distance(make: Make) -> float | None:
    """The mean distance of events, or of changes between levels, in values; None in a family without such."""
    known = make.keywords if isinstance(make, partial) else {}
    if "share" in known:
        return float(1 / known["share"])
    if "every" in known:
        return float(known["every"] + known["lasts"])
    return known.get("dwell")


def _hides(make: Make, values: Array) -> bool:
    """The series shows nothing of the events of its family, or too little of its swing."""
    if isinstance(make, partial) and "period" in make.keywords:
        return bool(make.keywords["period"] > SWING_SEEN * len(values))
    return _event_distance(make) is not None and _shows_nothing(values)


@dataclass
class Held:
    """Counts of intervals."""

    runs: int = 0
    declined: int = 0
    held: int = 0
    unseen: int = 0
    """Intervals that missed the mean, of series in which no event and no other level can be seen."""

    def add(self, estimate: Estimate, truth: float, *, shows_nothing: bool) -> None:
        self.runs += 1
        if math.isinf(estimate.half_width):
            self.declined += 1
        elif estimate.low <= truth <= estimate.high:
            self.held += 1
        else:
            self.unseen += shows_nothing

    @property
    def share(self) -> float:
        """Share of the intervals that held, of those that were given."""
        return self.held / given if (given := self.runs - self.declined) else math.nan

    @property
    def seen_share(self) -> float:
        """The same, without the unseen ones."""
        return self.held / given if (given := self.runs - self.declined - self.unseen) else math.nan

    @property
    def _seen_text(self) -> str:
        return "none" if self.runs == self.declined + self.unseen else f"{self.seen_share:.0%}"

    @property
    def text(self) -> str:
        """``60 % (seen 97 %), 2 % declined``."""
        if self.runs == self.declined:
            return "declined" if self.runs else "–"
        seen = f" (seen {self._seen_text})" if self.unseen else ""
        return f"{self.share:.0%}{seen}" + (f", {self.declined / self.runs:.0%} declined" if self.declined else "")


@dataclass
class Counted:
    """Counts of the series of a case."""

    runs: int = 0
    lengths: dict[int, Held] = field(default_factory=lambda: {length: Held() for length in LENGTHS})
    stopped: Held = field(default_factory=Held)
    too_early: int = 0
    """Runs that ended by their precision and missed the mean, although events come as often as a search says that its
    points see them."""
    false: dict[int, int] = field(default_factory=lambda: dict.fromkeys(COMPARED_LENGTHS, 0))
    """Pairs of single runs of the same target that were called different."""
    false_turns: int = 0
    alarms: int = 0


def counted(case: Case, runs: int, seed: int) -> Counted:
    """Draws series of all sets of a case, the same number of each."""
    found = Counted()
    for number, make in enumerate(case.sets):
        for run in range(runs):
            chance = np.random.default_rng([seed, list(FAMILIES).index(case.family), number, run])
            _count(found, make, chance)
    return found


def held_share(case: Case, length: int, runs: int) -> float:
    """Share of the intervals of one length that hold, where the series shows its events; for tests."""
    found = Held()
    for number, make in enumerate(case.sets):
        for run in range(runs):
            drawn, means = make(np.random.default_rng([TUNING_SEED, number, run]), length)
            found.add(series_mean(drawn.tolist()), float(means[0]), shows_nothing=_hides(make, drawn))
    return found.seen_share


def _count(found: Counted, make: Make, chance: np.random.Generator) -> None:
    found.runs += 1
    drawn, means = make(chance, LONGEST)
    values, truth = drawn.tolist(), float(means[0])
    for length, held in found.lengths.items():
        held.add(series_mean(values[:length]), truth, shows_nothing=_hides(make, drawn[:length]))
    stopping = Stopping(PRECISION)
    length = next((count for count in range(1, STOPPED_BY) if stopping.enough(values[:count])), 0)
    if length:
        estimate, before = judged_mean(values[:length], stopping.first), found.stopped.held
        found.stopped.add(estimate, truth, shows_nothing=_hides(make, drawn[:length]))
        distance = _event_distance(make)
        is_frequent = distance is not None and distance <= RAREST_SEEN * length
        found.too_early += is_frequent and found.stopped.held == before
    other = make(chance, max(COMPARED_LENGTHS))[0].tolist()
    for length in COMPARED_LENGTHS:
        found.false[length] += _is_different(values[:length], other[:length])
    turned = make(chance, 2 * ROUNDS * TURN_VALUES)[0]
    found.false_turns += differs_in_turns(turned, str(chance.integers(ORDERS)))
    found.alarms += level_change(values[:ALARM_LENGTH]) is not None


def _shows_nothing(values: Array) -> bool:
    """No value is six standard deviations of white noise from the median."""
    noise = max(float(np.median(np.abs(np.diff(values)))) / 0.954, 1e-12)
    return float(np.abs(values - np.median(values)).max()) < 6 * noise


def _bounded(values: Sequence[float]) -> Bounded:
    mean = math.fsum(values) / len(values)
    half = compared_half_width(values, 0, CONFIDENCE)
    return Bounded(mean, mean - half if half < mean else None, mean + half if math.isfinite(half) else None)


def _is_different(first: Sequence[float], second: Sequence[float]) -> bool:
    """Two single runs, as ``compare`` judges their rates."""
    if not any(first) or not any(second):
        return False
    low, high = ratio_bounds(_bounded(second), _bounded(first))
    return verdict(low, high) in ("faster", "slower")


def differs_in_turns(values: Array, seed: str) -> bool:
    """Turns of one series in a drawn order, as ``ab`` judges their rates."""
    rates = values.reshape(-1, TURN_VALUES).mean(axis=1).tolist()
    turns: tuple[dict[int, tuple[float, int]], ...] = ({}, {})
    for place, rate in zip(turn_places(2, ROUNDS, seed), rates, strict=True):
        turns[place.member][place.round] = (rate, place.order)
    base, own = turns
    ratio = rate_ratio([RatePair(own[one][0], base[one][0], own[one][1], base[one][1]) for one in base])
    return ratio is not None and ratio.verdict in ("faster", "slower")


def _row(case: Case, found: Counted) -> Row:
    return (
        case.family,
        f"{len(case.sets)} {case.part}",
        *(held.text for held in found.lengths.values()),
        f"{found.stopped.runs / found.runs:.0%}",
        found.stopped.text,
        f"{found.too_early / found.runs:.1%}",
        " and ".join(f"{found.false[length] / found.runs:.1%}" for length in COMPARED_LENGTHS),
        f"{found.false_turns / found.runs:.1%}",
        f"{found.alarms / found.runs:.1%}",
    )


def scored(scale: float) -> Iterator[Row]:
    """The sets that are only scored, with seeds that no rule was set on."""
    yield from _rows("scored", scale, SCORE_SEED)


def _rows(part: str, scale: float, seed: int) -> Iterator[Row]:
    for case in cases():
        if case.part == part:
            yield _row(case, counted(case, max(1, round(RUNS * scale)), seed))


SAMPLED_S = 30
SAMPLED_LENGTHS = (0.1, 1.0)
"""Lengths of intervals in seconds."""
TICK_S = 0.01


def _capped_windows(chance: np.random.Generator, count: int) -> tuple[Array, Array]:
    """A cap in windows of 0.2 to 2 s: all of a window's operations complete in its first part, and then none."""
    window, part = _log_uniform(chance, 0.2, 2) / TICK_S, chance.uniform(0.1, 0.9)
    place = (np.arange(count) / window + chance.random()) % 1
    return (place < part) / part, np.ones(count)


def _slow_noise(chance: np.random.Generator, count: int) -> tuple[Array, Array]:
    """Noise that lasts for 0.2 to 2 s."""
    correlation = math.exp(-TICK_S / chance.uniform(0.2, 2))
    return series.autoregressive(chance, count, correlation=correlation)


def _stalled(chance: np.random.Generator, count: int) -> tuple[Array, Array]:
    """Stalls of 0.1 to 1 s at random, every 2 to 10 s on average."""
    every, lasts = chance.uniform(2, 10) / TICK_S, _log_uniform(chance, 0.1, 1) / TICK_S
    return stalls(chance, count, every=every, lasts=lasts, is_random=True)


SAMPLED: dict[str, Make] = {
    "a cap in windows of 0.2 to 2 s": _capped_windows,
    "noise that lasts for 0.2 to 2 s": _slow_noise,
    "stalls of 0.1 to 1 s, every 2 to 10 s": _stalled,
}


def sampled(scale: float) -> Iterator[Row]:
    """The same runs of 30 s in intervals of 100 ms and of 1 s."""
    runs = max(1, round(400 * scale))
    for number, (case, make) in enumerate(SAMPLED.items()):
        shares = []
        for length_s in SAMPLED_LENGTHS:
            size, found = round(length_s / TICK_S), Held()
            for run in range(runs):
                drawn, means = make(np.random.default_rng([SCORE_SEED, number, run]), round(SAMPLED_S / TICK_S))
                values = drawn.reshape(-1, size).mean(axis=1)
                hides = make is _stalled and _shows_nothing(values)
                found.add(series_mean(values.tolist()), float(means[0]), shows_nothing=hides)
            shares.append(f"{1000 * length_s:,.0f} ms: {found.text}")
        yield row(case, "at least 93 %", "; ".join(shares), runs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table of the sets that rules may be set on."""
    parser = argparse.ArgumentParser(prog="python -m bench.truth.families", description=__doc__)
    parser.add_argument("--tuning", action="store_true", help="the sets that rules may be set on, with their seed")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the number of series")
    options = parser.parse_args(arguments)
    part, seed = ("tuning", TUNING_SEED) if options.tuning else ("scored", SCORE_SEED)
    print(" | ".join(COLUMNS))
    for cells in _rows(part, options.scale, seed):
        print(" | ".join(cells), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
