"""Levels that are left, in steps and in drifts."""

from __future__ import annotations

import random
from statistics import fmean

import pytest

from bench.truth import simulated
from iocurve.analysis.level_changes import Drift, Step, level_change


def test_credits_that_are_spent_are_a_level_change() -> None:
    chance = random.Random(1)
    values = [chance.gauss(level, 300) for level in [10_000] * 30 + [4_000] * 20]
    found = level_change(values)
    assert isinstance(found, Step)
    assert found.index == 30
    assert found.before == pytest.approx(10_000, rel=0.02)
    assert found.after == pytest.approx(4_000, rel=0.05)


def test_levels_without_any_noise_shift_where_they_do() -> None:
    assert level_change([5.0] * 6 + [3.0] * 7) == Step(6, 5.0, 3.0)


def test_noise_is_no_level_change() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        assert level_change([chance.gauss(1_000, 100) for _ in range(60)]) is None


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
    near = [change for change in found if isinstance(change, Step) and abs(change.index - at) <= 2]
    assert len(near) >= 95


@pytest.mark.parametrize(("correlation", "deviation"), [(0.0, 0.03), (0.5, 0.02)])
def test_a_drift_is_told_from_a_step(correlation: float, deviation: float) -> None:
    found = simulated.changes(60, correlation, deviation, runs=100, shape=lambda place: 1.2 - 0.4 * place / 59)
    drifts = [change for change in found if isinstance(change, Drift)]
    assert len(drifts) >= 95
    assert fmean(drift.slope for drift in drifts) == pytest.approx(-0.4 * simulated.MEAN / 59, rel=0.1)


def test_a_drift_is_told_with_its_ends() -> None:
    found = level_change([100.0 + 2 * place for place in range(20)])
    assert isinstance(found, Drift)
    assert (found.slope, found.first, found.last) == pytest.approx((2.0, 100.0, 138.0))
