"""Intervals of means, and when a series has told enough."""

from __future__ import annotations

import math
import random

import pytest

from bench.truth import families, series, simulated
from iocurve.measure.search.loads import Stopping
from iocurve.result import stats
from iocurve.result.stats import (
    Estimate,
    difference,
    judged_mean,
    mean_interval,
    pooled,
    product,
    ratio,
    sample_mean,
    series_mean,
    student_quantile,
    values_missing,
)


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (7, 2.3646), (10, 2.2281), (30, 2.0423), (1000, 1.9623)],
)
def test_student_quantiles_are_those_of_the_tables(freedom: int, quantile: float) -> None:
    assert student_quantile(freedom) == pytest.approx(quantile, abs=2e-4)


def test_independent_values_have_the_textbook_interval() -> None:
    estimate = sample_mean([9.0, 11.0, 10.0, 10.0, 12.0, 8.0, 10.0, 10.0])
    assert (estimate.mean, estimate.batches) == (10.0, 8)
    assert estimate.half_width == pytest.approx(student_quantile(7) * math.sqrt(10 / 7) / math.sqrt(8))


def test_values_that_depend_on_their_neighbours_tell_less() -> None:
    chance = random.Random(1)
    values, level = [], 0.0
    for _ in range(512):
        level = 0.9 * level + chance.gauss(0, 1)
        values.append(100 + level)
    estimate = series_mean(values)
    plain = Estimate(estimate.mean, math.sqrt(1 / (1 - 0.81)) / math.sqrt(512), 512)
    assert estimate.batches < 256
    assert estimate.error > 2 * plain.error


@pytest.mark.slow
def test_intervals_of_correlated_values_hold_the_true_mean_as_often_as_they_say() -> None:
    chance = random.Random(2)
    hits = 0
    for _ in range(400):
        values, level = [], 0.0
        for _ in range(256):
            level = 0.7 * level + chance.gauss(0, 1)
            values.append(50 + level)
        estimate = series_mean(values)
        hits += estimate.low <= 50 <= estimate.high
    assert 0.93 <= hits / 400 <= 0.98


def test_one_value_tells_nothing_about_its_error() -> None:
    assert sample_mean([3.0]).half_width == math.inf
    assert series_mean([3.0]).half_width == math.inf


def test_errors_carry_over_to_first_order() -> None:
    a, b = Estimate(100.0, 3.0, 10), Estimate(50.0, 2.0, 20)
    assert difference(a, b) == Estimate(50.0, math.hypot(3, 2), 10)
    assert ratio(a, b).mean == 2.0
    assert ratio(a, b).error == pytest.approx(2 * math.hypot(0.03, 0.04))
    assert product(a, b).error == pytest.approx(5000 * math.hypot(0.03, 0.04))


def test_pooled_estimates_weigh_by_what_they_tell() -> None:
    both = pooled([Estimate(100.0, 1.0, 10), Estimate(104.0, 3.0, 10)])
    assert both.mean == pytest.approx(100.4)
    assert both.batches == 20


def test_pooled_estimates_that_contradict_one_another_are_less_sure() -> None:
    both = pooled([Estimate(100.0, 1.0, 10), Estimate(110.0, 1.0, 10)])
    assert both.error == pytest.approx(5.0)


@pytest.mark.slow
@pytest.mark.parametrize("count", [20, 60])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.7, 0.9])
def test_coverage_is_even_over_correlations(count: int, correlation: float) -> None:
    counted = simulated.coverage(series_mean, count, correlation, runs=200)
    # Three standard errors of a count of 200 are 5 points.
    assert counted.declined == 0
    assert 0.90 <= counted.share <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.3, 0.7])
def test_points_that_stop_early_hold_as_often_as_those_that_are_cut_off(correlation: float) -> None:
    counted = simulated.coverage_when_stopped(series.fixed(correlation, 0.03), runs=100)
    # Two standard errors of 95 of 100 are 4.4.
    assert counted.stopped.runs >= 40
    assert counted.stopped.share >= 0.89


@pytest.mark.parametrize(("deviation", "stops"), [(60, True), (200, False)])
def test_luck_in_the_first_part_does_not_narrow_the_interval(deviation: float, stops: bool) -> None:
    """The first 20 values are equal by chance, the others vary: the interval is no narrower than that of the others."""
    chance = random.Random(4)
    values = [1000.0] * 20 + [chance.gauss(1000, deviation) for _ in range(20)]
    stopping = Stopping(0.02)
    assert any(stopping.enough(values[:count]) for count in range(1, 41)) == stops
    if stops:
        judged = series_mean(values[20:]).half_width * math.sqrt(20 / 40)
        assert judged_mean(values, stopping.first).half_width >= judged


def test_noise_that_never_settles_is_not_stopped() -> None:
    chance = random.Random(5)
    values, level = [], 0.0
    for _ in range(200):
        level += chance.gauss(0, 20)
        values.append(1000 + level)
    stopping = Stopping(0.02)
    assert not any(stopping.enough(values[:count]) for count in range(1, 200))


def test_a_quiet_series_stops_at_the_shortest_length() -> None:
    chance = random.Random(6)
    stopping, values = Stopping(0.02), [chance.gauss(1000, 5) for _ in range(40)]
    assert not any(stopping.enough(values[:count]) for count in range(40))
    assert stopping.enough(values)


def test_a_series_that_is_too_short_gets_no_interval() -> None:
    assert series_mean([1.0, 2.0] * 3).half_width == math.inf


def test_a_series_without_a_stable_mean_gets_no_interval() -> None:
    assert series_mean([float(value) for value in range(100)]).half_width == math.inf


def test_a_series_that_does_not_vary_is_exact() -> None:
    assert series_mean([7.0] * 30).half_width == 0


# ---- rare events, levels that come back, long memory


def noise(count: int, seed: int = 1) -> list[float]:
    chance = random.Random(seed)
    return [chance.gauss(1000, 10) for _ in range(count)]


def test_one_rare_event_allows_for_several() -> None:
    """Of one event in 100 values the exact Poisson bound of the number is 5.57, and so the mean may be 46 lower."""
    values = noise(100)
    values[40] = 0.0
    found = mean_interval(values, 0.05)
    assert found.events == 1
    assert found.half_width == pytest.approx((5.57 - 1) * 1000 / 100, rel=0.05)
    assert values_missing(values) == 400


def test_neighbouring_values_are_one_event() -> None:
    apart, together = noise(100), noise(100)
    for at in (20, 50, 80):
        apart[at] = 0.0
    together[40:43] = [0.0] * 3
    assert (mean_interval(apart, 0.05).events, mean_interval(together, 0.05).events) == (3, 1)
    assert mean_interval(together, 0.05).half_width > 1.5 * mean_interval(apart, 0.05).half_width


def test_a_level_that_was_left_once_may_have_any_share_of_the_time() -> None:
    values = [value - 200 * (at >= 30) for at, value in enumerate(noise(60))]
    found = mean_interval(values, 0.05)
    # The mean lies somewhere between the levels, or there is none.
    assert found.half_width > 90
    assert values_missing(values) >= 60


def test_levels_that_alternate_often_are_known() -> None:
    values = [value - 200 * (at // 2 % 2) for at, value in enumerate(noise(200))]
    assert values_missing(values) == 0


def test_noise_without_events_keeps_its_interval() -> None:
    found = mean_interval(noise(100), 0.05)
    assert found.events is None
    assert found.half_width == pytest.approx(1.96 * 10 / 10, rel=0.25)
    assert values_missing(noise(100)) == 0


def test_a_series_stops_after_its_events_are_known() -> None:
    values = noise(400)
    stopping = Stopping(0.02)
    assert next(count for count in range(400) if stopping.enough(values[:count])) == 40
    values[10::60] = [0.0] * len(values[10::60])
    stopping = Stopping(0.02)
    assert not any(stopping.enough(values[:count]) for count in range(120))


def test_cosines_of_long_memory_have_the_variance_of_a_sum_over_all_pairs() -> None:
    count, order, index = 12, 0.3, 2
    covariances = [1.0]
    for lag in range(1, count):
        covariances.append(covariances[-1] * (lag - 1 + order) / (lag - order))
    row = [math.sqrt(2 / count) * math.cos(math.pi * index * (at + 0.5) / count) for at in range(count)]
    every = math.fsum(
        row[one] * row[other] * covariances[abs(one - other)] for one in range(count) for other in range(count)
    )
    assert stats.fractional_model(count, order).weights[index - 1] == pytest.approx(1 / every)


@pytest.mark.parametrize(
    ("family", "held"),
    [("long memory, d below 0.3", 0.9), ("drop-outs to zero", 0.93), ("two speeds", 0.9), ("Pareto service", 0.9)],
)
def test_intervals_of_families_hold_where_their_events_are_seen(family: str, held: float) -> None:
    case = next(one for one in families.cases() if (one.family, one.part) == (family, "tuning"))
    assert families.held_share(case, 100, runs=6) >= held
