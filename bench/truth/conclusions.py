"""Measures how often intervals, changes of level and fits are right, by simulation."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import fmean

import numpy as np

from bench.truth import series, simulated
from bench.truth.best_test import SEGMENT_MIN, Alternative, power_bound
from bench.truth.table import Row, row
from iocurve.analysis.level_changes import Drift, LevelStep, levels
from iocurve.result.stats import series_mean

SEED = 1
FEW = 30
"""Shares of fewer runs are shown as counts."""


def intervals(scale: float) -> Iterator[Row]:
    runs = max(1, round(1000 * scale))
    for count in (20, 30, 60, 200):
        for correlation in (0.0, 0.3, 0.5, 0.7, 0.9, 0.95):
            counted = simulated.coverage(series_mean, count, correlation, runs, seed=SEED)
            declined = f", {counted.declined} declined" if counted.declined else ""
            expected = "at least 93 %" if correlation <= 0.7 else "at least 90 %"
            yield row(f"{count} values, rho = {correlation:g}", expected, f"{counted.share:.1%}{declined}", runs)
    for count in (20, 60, 200):
        counted = simulated.coverage(series_mean, count, 0.9, runs, share=0.5, seed=SEED)
        yield row(f"{count} values, rho = 0.9 under as much white noise", "no promise", f"{counted.share:.1%}", runs)


STOPPING_COLUMNS = (
    "case",
    "promise",
    "stopped early",
    "of these hold",
    "half width",
    "cut off: hold",
    "values",
    "runs",
)
AT_LEAST = "at least 93 %"
STRONG = "at least 85 %"
UNSEEN = "none"
FEW_STOP = ("AR(1), rho = 0.9, sd 3%", "AR(1), rho = 0.95, sd 3%")
FALSE_ALARMS = "at most 1 %"


def stopping(scale: float) -> Iterator[Row]:
    """Points that end at a precision of 2 %, and after 200 values at the latest.

    Where few stop, more runs are made: a share of 30 that stopped would tell little.
    """
    for case, promise, make in _stopping_cases():
        runs = max(1, round((1600 if case in FEW_STOP else 400) * scale))
        counted = simulated.coverage_when_stopped(make, runs, seed=SEED)
        early = counted.stopped
        yield (
            case,
            promise,
            f"{early.runs / runs:.1%}",
            _held(early),
            f"±{early.widths / early.runs:.1%}" if early.runs else "",
            _held(counted.cut_off),
            f"{counted.length:.0f}",
            f"{runs:,}",
        )


def _stopping_cases() -> Iterator[tuple[str, str, series.Make]]:
    for correlation in (0.0, 0.3, 0.5, 0.7, 0.9, 0.95):
        promise = AT_LEAST if correlation <= 0.7 else STRONG
        for deviation in (0.01, 0.03, 0.06):
            yield f"AR(1), rho = {correlation:g}, sd {deviation:.0%}", promise, series.fixed(correlation, deviation)
        yield f"AR(1), rho = {correlation:g}, any sd", promise, series.fixed(correlation)
    yield "AR(1), any rho to 0.95, any sd", AT_LEAST, series.autoregressive
    yield "lognormal AR(1), any rho and sd", AT_LEAST, series.lognormal
    yield "moving average of 2 to 10", AT_LEAST, series.moving_average
    yield "AR(2), period 4 to 20", AT_LEAST, series.cyclic
    yield "drift of up to 30 % in AR(1)", AT_LEAST, series.drifting
    yield "AR(1) under white noise", STRONG, series.hidden
    yield "M/M/1: mean response times", AT_LEAST, series.queue
    for dwell in (2, 4, 8, 20, 80):
        promise = AT_LEAST if dwell == 2 else UNSEEN
        yield f"two levels, each for {dwell} values", promise, partial(series.switching, dwell=dwell)
    for period in (5, 10, 20, 40, 80):
        promise = AT_LEAST if period <= 20 else UNSEEN
        yield f"a dip every {period} values", promise, partial(series.dips, period=period)
    for share in (0.05, 0.3):
        yield f"{share:.0%} of values at random 60 % lower", UNSEEN, partial(series.dropouts, share=share)


def _held(counted: simulated.Coverage) -> str:
    """As a count where a share would mean little."""
    given = counted.runs - counted.declined
    declined = f", {counted.declined} declined" if counted.declined else ""
    return f"{counted.held} of {given}{declined}" if given < FEW else f"{counted.share:.1%}{declined}"


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
    for truth in (1.03, 1.05, 1.1):
        for batch, depth in ((1, 1), (1, 32), (8, 32)):
            counted = simulated.capped_gain_coverage(truth, runs, rate=1007.3, batch=batch, depth=depth, seed=SEED)
            case = f"a steady cap {truth - 1:.0%} higher, {batch} at a time, {depth} in flight, 5 rounds"
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
    """False alarms, steps and drifts: in AR(1) noise, and in noise with heavy tails and stalls."""
    yield from _gaussian_steps(scale)
    yield from _heavy_steps(scale)


def histories(scale: float) -> Iterator[Row]:
    """False alarms and power of a history of separate runs, with a spread of 5 % between them."""
    for count, most in ((12, 1000), (30, 1000), (60, 300)):
        for correlation in (0.0, 0.3, 0.5):
            runs = max(1, round(most * scale))
            promise = FALSE_ALARMS if correlation <= 0.3 else "none"
            yield _history(f"{count} runs, no change, rho = {correlation:g}", promise, runs, count, correlation)
    runs = max(1, round(200 * scale))
    for change in (0.05, 0.1, 0.15, 0.2, 0.3, 0.5):
        yield _history(f"40 runs, 8 of them {change:.0%} lower", "power", runs, 40, fall=change, places=range(20, 28))
        yield _history(f"40 runs, the last 3 {change:.0%} lower", "power", runs, 40, fall=change, places=range(37, 40))
        yield _history(f"40 runs, the last {change:.0%} lower", "power", runs, 40, fall=change, places=range(39, 40))


def _history(
    case: str,
    promise: str,
    runs: int,
    count: int,
    correlation: float = 0.0,
    *,
    fall: float = 0.0,
    places: range = range(0),
) -> Row:
    found = simulated.history(count, correlation, runs, fall=fall, places=places, seed=SEED)
    return row(case, promise, f"{found.changed / runs:.1%}; newest {found.outside / runs:.1%}", runs)


def _heavy_steps(scale: float) -> Iterator[Row]:
    for count, most in ((20, 1000), (60, 1000), (200, 1000)):
        runs = max(1, round(most * scale))
        for case, promise, make in _heavy_cases():
            found = simulated.changes_of(make, count, runs, seed=SEED)
            yield row(f"no change, {count} values, {case}", promise, f"{1 - found.count(None) / runs:.1%}", runs)
        for case, _, make in _two_levels_cases():
            named = sum(
                levels((simulated.MEAN * make(np.random.default_rng([SEED, run]), count)[0]).tolist()) is not None
                for run in range(runs)
            )
            yield row(f"two flat levels called, {count} values, {case}", FALSE_ALARMS, f"{named / runs:.1%}", runs)
    runs = max(1, round(100 * scale))
    for count in (20, 60):
        for case, promise, make in _heavy_cases():
            for fall in (0.1, 0.3) if promise == FALSE_ALARMS else ():
                found = simulated.changes_of(make, count, runs, fall=fall, seed=SEED)
                called = f"{1 - found.count(None) / runs:.0%} called"
                yield row(f"fall of {fall:.0%} anywhere in {count} values, {case}", "none", called, runs)


def _heavy_cases() -> Iterator[tuple[str, str, series.Make]]:
    for correlation in (0.0, 0.5, 0.9):
        case = f"lognormal, sigma 0.1 to 0.7, rho = {correlation:g}"
        yield case, FALSE_ALARMS, partial(series.lognormal, correlation=correlation, sigma=(0.1, 0.7))
    for correlation in (0.0, 0.5):
        case = f"innovations of Student's t (3), rho = {correlation:g}"
        yield case, FALSE_ALARMS, partial(series.student, correlation=correlation)
    for share in (0.02, 0.05, 0.15):
        yield f"{share:.0%} of values 60 % lower", FALSE_ALARMS, partial(series.dropouts, share=share)
    yield "moving average of 2 to 10", FALSE_ALARMS, series.moving_average
    yield "a dip every 12 values", FALSE_ALARMS, partial(series.dips, period=12)
    yield "innovations of Student's t (3), rho = 0.9", "none", partial(series.student, correlation=0.9)
    yield "stalls of 3 values on average, 5 % of the time", "none", partial(series.stalls, share=0.05, lasts=3)


def _two_levels_cases() -> Iterator[tuple[str, str, series.Make]]:
    for correlation in (0.5, 0.9):
        yield f"AR(1), rho = {correlation:g}, sd 20 %", FALSE_ALARMS, series.fixed(correlation, 0.2)


def _gaussian_steps(scale: float) -> Iterator[Row]:
    for count, most in ((20, 1000), (60, 1000), (200, 1000)):
        runs = max(1, round(most * scale))
        for correlation in (0.0, 0.5, 0.7, 0.9):
            found = simulated.changes(count, correlation, 0.1, runs, seed=SEED)
            called = 1 - found.count(None) / runs
            case = f"no change, {count} values, rho = {correlation:g}, sd 10 %"
            yield row(case, FALSE_ALARMS, f"{called:.1%}", runs)
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


def _share_near(found: Sequence[LevelStep | Drift | None], places: Sequence[int]) -> float:
    """Share of the steps that were found within two values of their place."""
    near = [
        isinstance(change, LevelStep) and abs(change.index - at) <= 2 for change, at in zip(found, places, strict=True)
    ]
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
