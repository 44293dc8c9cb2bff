"""Measures how often intervals, changes of level and fits are right, by simulation."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import fmean

from bench.truth import simulated
from bench.truth.best_test import SEGMENT_MIN, Alternative, power_bound
from bench.truth.table import Row, row
from iocurve.analysis.level_changes import Drift, Step
from iocurve.result.stats import series_mean

SEED = 1


def intervals(scale: float) -> Iterator[Row]:
    runs = max(1, round(1000 * scale))
    for count in (20, 30, 60, 200):
        for correlation in (0.0, 0.3, 0.5, 0.7, 0.9):
            counted = simulated.coverage(series_mean, count, correlation, runs, seed=SEED)
            declined = f", {counted.declined} declined" if counted.declined else ""
            expected = "93 to 97 %" if correlation <= 0.7 else "at least 90 %"
            yield row(f"{count} values, rho = {correlation:g}", expected, f"{counted.share:.1%}{declined}", runs)
    for count in (20, 60, 200):
        counted = simulated.coverage(series_mean, count, 0.9, runs, share=0.5, seed=SEED)
        yield row(f"{count} values, rho = 0.9 under as much white noise", "no promise", f"{counted.share:.1%}", runs)


def stopping(scale: float) -> Iterator[Row]:
    runs = max(1, round(500 * scale))
    for correlation in (0.0, 0.3, 0.5, 0.7, 0.9):
        for deviation in (0.01, 0.03, 0.06):
            counted = simulated.coverage_when_stopped(correlation, deviation, runs, seed=SEED)
            expected = "93 to 97 %" if correlation <= 0.7 else "at least 90 %"
            measured = f"{counted.share:.1%}, after {counted.length / runs:.0f} values"
            yield row(f"rho = {correlation:g}, sd {deviation:.0%}", expected, measured, runs)


def gains(scale: float) -> Iterator[Row]:
    """Ratios of points that take turns, verdicts on them, and verdicts on caches."""
    runs = max(1, round(2000 * scale))
    for rounds in (3, 4, 6, 10):
        for members in (2, 3, 8):
            for correlation, drift in ((0.0, 0.0), (0.5, 0.0), (0.7, 0.0), (0.9, 0.0), (0.5, 0.3)):
                noise = simulated.TurnNoise(correlation=correlation, drift=drift)
                counted = simulated.gain_coverage(members, rounds, noise, runs, seed=SEED)
                drifted = f", {drift:.0%} lost" if drift else ""
                case = f"{rounds} rounds of {members} points, rho = {correlation:g}{drifted}"
                yield row(case, "at least 93 %", f"{counted.share:.1%}, ±{counted.widths / runs:.1%}", runs)
    for rounds in (3, 4, 6, 10):
        for shape in simulated.SHAPES:
            yield from _gain_verdicts(rounds, shape, runs)
    for shape in simulated.SHAPES:
        wrong = simulated.cache_verdicts(shape, runs, has_cache=False, seed=SEED)
        yield row(f"no cache, {shape}: cached", "at most 1 %", f"{wrong / runs:.1%}", runs)
        found = simulated.cache_verdicts(shape, runs, has_cache=True, seed=SEED)
        yield row(f"cache, at least 1.5 times as fast, {shape}: cached", "at least 90 %", f"{found / runs:.1%}", runs)


def _gain_verdicts(rounds: int, shape: str, runs: int) -> Iterator[Row]:
    found = {
        truth: simulated.gain_verdicts(rounds, shape, truth, runs, seed=SEED)
        for truth in (1.0, 1 / 1.1, 1.1, 1.05, 1.2)
    }
    case = f"{rounds} rounds, {shape}"
    same, less, more = found[1.0], found[1 / 1.1], found[1.1]
    yield row(
        f"{case}: A against A, faster or slower", "at most 5 %", f"{(same['faster'] + same['slower']) / runs:.1%}", runs
    )
    wrong = max(less["no difference"], more["no difference"])
    yield row(f"{case}: A against 1.1 A, no difference", "at most 5 %", f"{wrong / runs:.1%}", runs)
    told = f"{same['no difference'] / runs:.0%}; faster at 1.05 {found[1.05]['faster'] / runs:.0%}"
    yield row(f"{case}: power", "", f"no difference at 1 {told}, at 1.2 {found[1.2]['faster'] / runs:.0%}", runs)


def steps(scale: float) -> Iterator[Row]:
    """False alarms, steps and drifts in AR(1) noise."""
    for count, most in ((20, 1000), (60, 1000), (200, 300)):
        runs = max(1, round(most * scale))
        for correlation in (0.0, 0.5, 0.7, 0.9):
            found = simulated.changes(count, correlation, 0.1, runs, seed=SEED)
            called = 1 - found.count(None) / runs
            case = f"no change, {count} values, rho = {correlation:g}, sd 10 %"
            yield row(case, "at most 1 %", f"{called:.1%}", runs)
    runs = max(1, round(200 * scale))
    for count in (20, 30, 60):
        for correlation in (0.0, 0.5, 0.7, 0.9):
            yield _anywhere(count, correlation, runs)
    for count, at in ((60, 56), (200, 100), (200, 4)):
        for correlation in (0.0, 0.5, 0.7, 0.9):
            case = f"fall of 10 % at {at} of {count} values, rho = {correlation:g}, sd 3 %"
            found = simulated.changes(count, correlation, 0.03, runs, shape=partial(_fall, at), seed=SEED)
            yield row(case, "at least 95 %", f"{_share_near(found, [at] * runs):.1%} as a step", runs)
    for correlation in (0.0, 0.5, 0.9):
        found = simulated.changes(200, correlation, 0.03, runs, shape=lambda at: 1.15 - 0.3 * at / 199, seed=SEED)
        drifts = sum(isinstance(change, Drift) for change in found) / runs
        yield row(f"fall of 30 % along 200 values, rho = {correlation:g}, sd 3 %", "a drift", f"{drifts:.1%}", runs)


def _anywhere(count: int, correlation: float, runs: int) -> Row:
    """A step at a random place, compared with the best possible test."""
    places = [random.Random(f"{SEED} {run}").randint(SEGMENT_MIN, count - SEGMENT_MIN) for run in range(runs)]
    found = [
        simulated.changes(count, correlation, 0.03, 1, shape=partial(_fall, at), seed=run)[0]
        for run, at in enumerate(places)
    ]
    best = power_bound(Alternative(count, correlation, 0.1 / 0.03))
    case = f"fall of 10 % anywhere in {count} values, rho = {correlation:g}, sd 3 %"
    return row(
        case, f"at least 95 %; no test finds more than {best:.0%}", f"{_share_near(found, places):.1%} as a step", runs
    )


def _fall(at: int, place: int) -> float:
    return 0.9 if place >= at else 1.0


def _share_near(found: Sequence[Step | Drift | None], places: Sequence[int]) -> float:
    """Share of the steps that were found within two values of their place."""
    near = [isinstance(change, Step) and abs(change.index - at) <= 2 for change, at in zip(found, places, strict=True)]
    return fmean(near)


def law(scale: float) -> Iterator[Row]:
    runs = max(1, round(300 * scale))
    for contention, coherency in ((0.03, 0.0002), (0.05, 0.0), (0.0, 0.0)):
        for noise in (0.02, 0.17):
            counted = simulated.law_coverage((1000.0, contention, coherency), noise, runs, seed=SEED)
            case = f"sigma = {contention:g}, kappa = {coherency:g}, sd of a point {noise / math.sqrt(12):.1%}"
            shares = ", ".join(
                f"{name} {held / runs:.1%}"
                for name, held in zip(("lambda", "sigma", "kappa"), counted.held, strict=True)
            )
            yield row(f"{case}: coverage", "93 to 97 %", shares, runs)
            yield row(f"{case}: misfit called", "at most 5 %", f"{counted.misfits / runs:.1%}", runs)
