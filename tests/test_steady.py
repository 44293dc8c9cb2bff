"""Steady states, and levels that are left."""

from __future__ import annotations

import random

import pytest

from iocurve.analysis.steady import Shift, attained, shift, window


def test_four_rounds_are_too_few() -> None:
    assert window([1.0] * 4) is None


def test_the_window_is_snias() -> None:
    found = window([1.0, 90.0, 100.0, 110.0, 95.0, 105.0])
    assert found is not None
    assert found.average == 100.0
    assert found.range_share == pytest.approx(0.20)
    # The line through 90, 100, 110, 95, 105 rises by 2.5 a round.
    assert found.slope_share == pytest.approx(0.10)
    assert found.is_steady


@pytest.mark.parametrize("rounds", [[89.0, 100, 110, 95, 106], [95.0, 98, 100, 103, 106]])
def test_either_limit_alone_keeps_it_from_being_steady(rounds: list[float]) -> None:
    found = window(rounds)
    assert found is not None
    assert not found.is_steady


def test_it_is_attained_with_the_first_window_within_the_limits() -> None:
    assert attained([10.0, 20, 40, 80, 90, 95, 97, 98, 98, 98]) == 8
    assert attained([1.0, 2, 4, 8, 16, 32, 64]) is None


def test_credits_that_are_spent_are_a_shift() -> None:
    chance = random.Random(1)
    values = [chance.gauss(level, 300) for level in [10_000] * 30 + [4_000] * 20]
    found = shift(values)
    assert found is not None
    assert found.index == 30
    assert found.before == pytest.approx(10_000, rel=0.02)
    assert found.after == pytest.approx(4_000, rel=0.05)


def test_levels_without_any_noise_shift_where_they_do() -> None:
    assert shift([5.0] * 6 + [3.0] * 7) == Shift(6, 5.0, 3.0)


def test_noise_is_no_shift() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        assert shift([chance.gauss(1_000, 100) for _ in range(60)]) is None


def test_a_small_step_is_none() -> None:
    assert shift([100.0] * 10 + [95.0] * 10) is None
