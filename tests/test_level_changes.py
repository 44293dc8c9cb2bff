"""Levels that are left, in steps and in drifts."""

from __future__ import annotations

import random
from functools import partial
from statistics import fmean

import numpy as np
import pytest

from bench.truth import series, simulated
from bench.truth.best_test import Alternative, power_bound
from iocurve.analysis.level_changes import Drift, Levels, LevelStep, level_change, levels, segment_change


def test_credits_that_are_spent_are_a_level_change() -> None:
    chance = random.Random(1)
    values = [chance.gauss(level, 300) for level in [10_000] * 30 + [4_000] * 20]
    found = level_change(values)
    assert isinstance(found, LevelStep)
    assert found.index == 30
    assert found.before == pytest.approx(10_000, rel=0.02)
    assert found.after == pytest.approx(4_000, rel=0.05)


def test_levels_without_any_noise_shift_where_they_do() -> None:
    assert level_change([5.0] * 6 + [3.0] * 7) == LevelStep(6, 5.0, 3.0)


@pytest.mark.slow
def test_noise_is_no_level_change() -> None:
    called = []
    for seed in range(400):
        chance = random.Random(seed)
        if level_change([chance.gauss(1_000, 100) for _ in range(60)]) is not None:
            called.append(seed)
    # One in 400; the promise is at most one in 100.
    assert called == [116]


def test_a_small_step_is_none() -> None:
    assert level_change([100.0] * 10 + [95.0] * 10) is None


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_correlated_noise_is_no_change(correlation: float) -> None:
    found = simulated.changes(60, correlation, 0.1, runs=100)
    assert found.count(None) >= 98


@pytest.mark.parametrize("at", [4, 30, 56])
@pytest.mark.parametrize(("correlation", "deviation"), [(0.0, 0.02), (0.9, 0.03)])
def test_a_step_of_a_tenth_is_found_near_the_ends_too(correlation: float, deviation: float, at: int) -> None:
    found = simulated.changes(60, correlation, deviation, runs=100, shape=lambda place: 0.9 if place >= at else 1.0)
    near = [change for change in found if isinstance(change, LevelStep) and abs(change.index - at) <= 2]
    # A few values at an end of correlated noise that wanders look as far as single stalls, which are pulled in.
    assert len(near) >= (95 if at == 30 or correlation == 0 else 85)


@pytest.mark.parametrize(("correlation", "deviation"), [(0.0, 0.03), (0.5, 0.02)])
def test_a_drift_is_told_from_a_step(correlation: float, deviation: float) -> None:
    found = simulated.changes(60, correlation, deviation, runs=100, shape=lambda place: 1.2 - 0.4 * place / 59)
    drifts = [change for change in found if isinstance(change, Drift)]
    assert len(drifts) >= 95
    assert fmean(drift.slope for drift in drifts) == pytest.approx(-0.4 * simulated.MEAN / 59, rel=0.1)


@pytest.mark.parametrize("count", [20, 30])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_short_series_have_as_few_false_alarms(count: int, correlation: float) -> None:
    found = simulated.changes(count, correlation, 0.1, runs=200)
    assert found.count(None) >= 196


@pytest.mark.parametrize(
    "make",
    [
        partial(series.lognormal, correlation=0.0, sigma=(0.7, 0.7)),
        partial(series.lognormal, correlation=0.9, sigma=(0.3, 0.3)),
        partial(series.student, correlation=0.5),
        partial(series.dropouts, share=0.05),
    ],
)
def test_heavy_tails_and_stalls_are_no_change(make: series.Make) -> None:
    found = simulated.changes_of(make, 60, runs=100)
    assert found.count(None) >= 98


def test_a_fall_is_found_among_stalls() -> None:
    found = simulated.changes_of(partial(series.dropouts, share=0.05), 60, runs=50, fall=0.3)
    assert sum(isinstance(change, LevelStep) for change in found) >= 45


def test_two_levels_are_more_than_correlated_noise() -> None:
    noise = [series.fixed(0.9, 0.2)(np.random.default_rng([1, run]), 20)[0].tolist() for run in range(100)]
    assert sum(levels(values) is not None for values in noise) <= 2
    assert levels([3000.0] * 6 + [2000.0] + [1000.0] * 6) == Levels(6, 3000.0, 1000.0)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "correlation"), [(20, 0.5), (30, 0.0), (60, 0.5)])
def test_steps_are_found_nearly_as_often_as_any_test_can(count: int, correlation: float) -> None:
    at = count // 2
    found = simulated.changes(count, correlation, 0.03, runs=100, shape=lambda place: 0.9 if place >= at else 1.0)
    near = [change for change in found if isinstance(change, LevelStep) and abs(change.index - at) <= 2]
    best = power_bound(Alternative(count, correlation, 0.1 / 0.03), runs=200)
    # Two shares of 100 and 200 runs differ by as much as 0.15 by chance.
    assert len(near) / 100 >= best - 0.15


def test_a_drift_is_told_with_its_ends() -> None:
    found = level_change([100.0 + 2 * place for place in range(20)])
    assert isinstance(found, Drift)
    assert (found.slope, found.first, found.last) == pytest.approx((2.0, 100.0, 138.0))


def test_a_level_that_returns_is_found() -> None:
    """15 % less in 8 of 40 runs, which one step does not explain."""
    found = 0
    for seed in range(50):
        chance = random.Random(seed)
        values = [chance.gauss(1_000, 20) * (0.85 if 20 <= place < 28 else 1) for place in range(40)]
        segment = segment_change(values)
        found += segment is not None and abs(segment.start - 20) <= 1 and abs(segment.stop - 28) <= 1
    assert found >= 48


def test_a_level_that_does_not_return_ends_with_the_series() -> None:
    assert segment_change([5.0] * 6 + [3.0] * 7) == range(6, 13)


@pytest.mark.parametrize("correlation", [0.0, 0.3])
def test_separate_runs_without_a_change_have_none(correlation: float) -> None:
    """The promise is 1 in 100: of 200 series 7 or more would show one with a chance of 0.5 %."""
    found = 0
    for seed in range(200):
        values = simulated.autoregressive(random.Random(seed), 30, correlation, 0.05)
        found += segment_change(values) is not None
    assert found < 7


def test_changes_of_few_per_cent_are_left_alone_among_runs() -> None:
    assert segment_change([100.0] * 10 + [96.0] * 10 + [100.0] * 10) is None
