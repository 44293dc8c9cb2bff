"""Counts how often comparisons of results find a difference where there is none, and where there is one."""

from __future__ import annotations

import random
from collections.abc import Iterator

from bench.truth.compared_runs import DIFFERENT, Counted, Runs, Turns, counted
from bench.truth.simulated import ORDERS, TurnNoise
from bench.truth.table import Row, row
from iocurve.measure.ab import RUNS_MAX, RUNS_MIN, SEEN_SHARE
from iocurve.measure.campaign import turn_places
from iocurve.result.paired import RatePair, RateRatio, confidence_of_turns, rate_ratio
from iocurve.result.stats import CONFIDENCE

SEED = 1
DRAWN_TURNS = 6
"""Times as many comparisons of A with A for turns under the noise that is hardest to tell."""
FIGURES = {"iops": "IOPS", "p50_us": "p50", "p99_us": "p99"}


def compared(scale: float) -> Iterator[Row]:
    """A against A, A against 1.05 A and A against 1.2 A, for single runs and for turns."""
    for name, case, most in _cases():
        runs = max(1, round(most * scale))
        # 1,000 comparisons would show 5 % as anything from 3.7 to 6.5 %.
        more = runs * DRAWN_TURNS if isinstance(case, Turns) and case.deviation is None else runs
        same = counted(case, 1.0, more, SEED)
        yield row(f"{name}: A against A, any difference", "at most 5 %", f"{same.different / more:.1%}", more)
        for speed in (1.05, 1.2):
            found = counted(case, speed, runs, SEED)
            yield row(f"{name}: A against {speed:g} A, faster", "", _power(found), runs)
        told = ", ".join(f"{text} {same.share(figure, 'no difference'):.0%}" for figure, text in FIGURES.items())
        yield row(f"{name}: A against A, no difference of 10 % or more", "", told, more)


POWER_COLUMNS = ("noise between runs", "runs", "false", "5 % found", "10 % found", "comparisons")
NOISES = (0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1)
COMPARED = 1500
"""Comparisons of equal targets; a third as many of different ones."""


def power(scale: float) -> Iterator[Row]:
    """Shares of comparisons of one figure that find a difference, by the noise between runs and their number."""
    for shape in ("normal", "heavy tails"):
        for deviation in NOISES:
            for rounds in (5, 10, None):
                noise = TurnNoise(shape, deviation)
                same, runs = _ratios(noise, 1.0, rounds, round(COMPARED * scale))
                found = [_ratios(noise, speed, rounds, round(COMPARED * scale / 3))[0] for speed in (1.05, 1.1)]
                shares = (sum(one.verdict in DIFFERENT for one in each) / len(each) for each in (same, *found))
                count = f"{rounds}" if rounds else f"chosen: {runs:.1f}"
                yield f"{deviation:.1%}, {shape}", count, *(f"{one:.1%}" for one in shares), f"{len(same):,}"


def _ratios(noise: TurnNoise, speed: float, rounds: int | None, count: int) -> tuple[list[RateRatio], float]:
    """The ratios of comparisons, and the mean number of runs; without ``rounds`` the number that ``ab`` takes."""
    found: list[RateRatio] = []
    runs = 0
    count = max(1, count)
    for number in range(count):
        chance = random.Random(f"{SEED} {noise} {speed} {rounds} {number}")
        # Comparisons with one order follow each other, so that its widening is computed once.
        places = turn_places(2, rounds or RUNS_MAX, str(number * ORDERS // count))
        sides: tuple[dict[int, tuple[float, int]], ...] = ({}, {})
        for place, rate in zip(places, noise.rates(chance, len(places)), strict=True):
            sides[place.member][place.round] = (rate, place.order)
        base, own = sides
        pairs = [RatePair(speed * own[at][0], base[at][0], own[at][1], base[at][1]) for at in sorted(base)]
        confidence = confidence_of_turns(CONFIDENCE, are_chosen=rounds is None)
        for enough in [rounds] if rounds else range(RUNS_MIN, RUNS_MAX + 1):
            ratio = rate_ratio(pairs[:enough], confidence=confidence)
            if ratio and ratio.detectable is not None and ratio.detectable <= SEEN_SHARE * ratio.margin:
                break
        assert ratio is not None, "no rate is zero"
        found.append(ratio)
        runs += enough
    return found, runs / len(found)


def _cases() -> Iterator[tuple[str, Runs | Turns, int]]:
    for correlation in (0.0, 0.5, 0.7, 0.9):
        yield f"1 load, 30 intervals, rho = {correlation:g}", Runs(correlation=correlation), 200
    yield "1 load, 120 intervals, any rho to 0.9", Runs(intervals=120, correlation=None), 100
    yield "1 load, 30 intervals, any rho, stalls", Runs(correlation=None, stalls=True), 200
    yield "8 loads, 30 intervals, any rho", Runs(loads=8, correlation=None), 60
    yield "8 loads, 30 intervals, any rho, stalls", Runs(loads=8, correlation=None, stalls=True), 60
    for rounds in (3, 5, 10):
        for deviation in (0.01, 0.03):
            yield f"interleaved, {rounds} runs of each, sd {deviation:.0%}", Turns(rounds, deviation), 1000
        yield f"interleaved, {rounds} runs of each, any correlation, sd and drift", Turns(rounds, None), 1000


def _power(found: Counted) -> str:
    wrong = max(found.share(figure, "slower") for figure in FIGURES)
    shares = ", ".join(f"{text} {found.share(figure, 'faster'):.0%}" for figure, text in FIGURES.items())
    return f"{shares}; slower {wrong:.1%} at most"
