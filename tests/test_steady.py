"""Steady states."""

from __future__ import annotations

import pytest

from goldens import present
from iocurve.measure.scenario.caches import attained, window


def test_four_rounds_are_too_few() -> None:
    assert window([1.0] * 4) is None


def test_the_window_is_snias() -> None:
    found = present(window([1.0, 90.0, 100.0, 110.0, 95.0, 105.0]))
    assert found.average == 100.0
    assert found.range_share == pytest.approx(0.20)
    # The line through 90, 100, 110, 95, 105 rises by 2.5 a round.
    assert found.slope_share == pytest.approx(0.10)
    assert found.is_steady


@pytest.mark.parametrize("rounds", [[89.0, 100, 110, 95, 106], [95.0, 98, 100, 103, 106]])
def test_either_limit_alone_keeps_it_from_being_steady(rounds: list[float]) -> None:
    found = present(window(rounds))
    assert not found.is_steady


def test_it_is_attained_with_the_first_window_within_the_limits() -> None:
    assert attained([10.0, 20, 40, 80, 90, 95, 97, 98, 98, 98]) == 8
    assert attained([1.0, 2, 4, 8, 16, 32, 64]) is None
