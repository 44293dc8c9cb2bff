"""How often intervals, changes of level and fits are right, by simulation."""

from __future__ import annotations

import math
from collections.abc import Iterator

from bench.truth import simulated
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
    runs = max(1, round(1000 * scale))
    for correlation in (0.0, 0.3, 0.5, 0.7, 0.9):
        for deviation in (0.01, 0.03, 0.06):
            counted = simulated.coverage_when_stopped(correlation, deviation, runs, seed=SEED)
            expected = "93 to 97 %" if correlation <= 0.7 else "at least 90 %"
            measured = f"{counted.share:.1%}, after {counted.length / runs:.0f} values"
            yield row(f"rho = {correlation:g}, sd {deviation:.0%}", expected, measured, runs)


def steps(scale: float) -> Iterator[Row]:
    runs = max(1, round(1000 * scale))
    for correlation in (0.0, 0.5, 0.7, 0.9):
        for count in (20, 60, 200):
            found = simulated.changes(count, correlation, 0.1, runs, seed=SEED)
            called = 1 - found.count(None) / runs
            yield row(
                f"no change, {count} values, rho = {correlation:g}, sd 10 %", "at most 1 %", f"{called:.1%}", runs
            )
    runs = max(1, round(200 * scale))
    for correlation in (0.0, 0.5, 0.7, 0.9):
        for count, at in ((60, 30), (60, 56), (200, 100), (200, 4)):
            case = f"fall of 10 % at {at} of {count} values, rho = {correlation:g}, sd 3 %"
            yield row(case, "at least 95 %", f"{_steps_found(count, at, correlation, runs):.1%} as a step", runs)
    for correlation in (0.0, 0.5, 0.9):
        found = simulated.changes(200, correlation, 0.03, runs, shape=lambda at: 1.15 - 0.3 * at / 199, seed=SEED)
        drifts = sum(isinstance(change, Drift) for change in found) / runs
        yield row(f"fall of 30 % along 200 values, rho = {correlation:g}, sd 3 %", "a drift", f"{drifts:.1%}", runs)


def _steps_found(count: int, at: int, correlation: float, runs: int) -> float:
    found = simulated.changes(
        count, correlation, 0.03, runs, shape=lambda place: 0.9 if place >= at else 1.0, seed=SEED
    )
    return sum(isinstance(change, Step) and abs(change.index - at) <= 2 for change in found) / runs


def law(scale: float) -> Iterator[Row]:
    runs = max(1, round(1000 * scale))
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
