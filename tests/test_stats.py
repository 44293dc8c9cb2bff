"""Statistics: intervals of means and percentiles, steady states, and levels that are left."""

import math
import random
from collections.abc import Sequence
from functools import partial
from statistics import fmean, median
from typing import Any

import numpy as np
import pytest

from bench.truth import families, series, simulated
from bench.truth.best_test import Alternative, power_bound
from data import synthetic
from goldens import cases, has, present
from iocurve.analysis.level_changes import Drift, LevelStep, level_change, levels, segment_change
from iocurve.foundation.units import SECOND_NS
from iocurve.measure.scenario.caches import window
from iocurve.measure.search.loads import Stopping
from iocurve.result import stats
from iocurve.result.document import Point
from iocurve.result.percentiles import effective_count, order_ranks, percentile_interval
from iocurve.result.stats import (
    Estimate,
    compared_half_width,
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
from iocurve.result.summary import merge_latencies


@cases("analysis/student_quantiles_are_those")
def test_student_quantiles_are_those_of_the_tables(freedom: int, quantile: float) -> None:
    assert student_quantile(freedom) == pytest.approx(quantile, abs=2e-4)


def test_independent_values_have_the_textbook_interval() -> None:
    estimate = sample_mean([9.0, 11.0, 10.0, 10.0, 12.0, 8.0, 10.0, 10.0])
    assert (estimate.mean, estimate.batches) == (10.0, 8)
    assert estimate.half_width == pytest.approx(student_quantile(7) * math.sqrt(10 / 7) / math.sqrt(8))


def autoregressive(chance: random.Random, count: int, correlation: float, deviation: float = 1) -> list[float]:
    values, level = [], 0.0
    for _ in range(count):
        level = correlation * level + chance.gauss(0, deviation)
        values.append(level)
    return values


def test_values_that_depend_on_their_neighbours_tell_less() -> None:
    estimate = series_mean([100 + value for value in autoregressive(random.Random(1), 512, 0.9)])
    plain = Estimate(estimate.mean, math.sqrt(1 / (1 - 0.81)) / math.sqrt(512), 512)
    assert estimate.batches < 256
    assert estimate.error > 2 * plain.error


@pytest.mark.slow
def test_intervals_of_correlated_values_hold_the_true_mean_as_often_as_they_say() -> None:
    chance = random.Random(2)
    found = [series_mean([50 + value for value in autoregressive(chance, 256, 0.7)]) for _ in range(400)]
    assert 0.93 <= sum(one.low <= 50 <= one.high for one in found) / 400 <= 0.98


def test_one_value_tells_nothing_about_its_error() -> None:
    assert sample_mean([3.0]).half_width == math.inf


def test_errors_carry_over_to_first_order() -> None:
    a, b = Estimate(100.0, 3.0, 10), Estimate(50.0, 2.0, 20)
    assert ratio(a, b).mean == 2.0
    assert ratio(a, b).error == pytest.approx(2 * math.hypot(0.03, 0.04))
    assert product(a, b).error == pytest.approx(5000 * math.hypot(0.03, 0.04))


def test_models_that_a_series_speaks_against_do_not_decide_how_sure_a_comparison_is() -> None:
    """At the confidence that five comparisons share, the tails of improbable models would make this ratio 1.7."""
    half_widths = {
        confidence: median(
            compared_half_width([random.Random(f"{run} {at}").gauss(1000, 30) for at in range(40)], 0, confidence)
            for run in range(20)
        )
        for confidence in (0.95, 0.99)
    }
    assert half_widths[0.99] < 1.6 * half_widths[0.95]


@cases("analysis/pooled")
def test_pooled_estimates(parts: list[list[Any]], expected: dict[str, Any]) -> None:
    has(pooled([Estimate(*part) for part in parts]), expected)


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
    values = [1000 + value for value in autoregressive(random.Random(5), 200, 1, 20)]
    stopping = Stopping(0.02)
    assert not any(stopping.enough(values[:count]) for count in range(1, 200))


def test_a_quiet_series_stops_at_the_shortest_length() -> None:
    chance = random.Random(6)
    stopping, values = Stopping(0.02), [chance.gauss(1000, 5) for _ in range(40)]
    assert not any(stopping.enough(values[:count]) for count in range(40))
    assert stopping.enough(values)


@cases("analysis/half_widths")
def test_the_half_width_of_a_series(values: list[float], times: int, half_width: float) -> None:
    assert series_mean(values * times).half_width == half_width


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


@cases("analysis/intervals_of_families_hold_where_their")
def test_intervals_of_families_hold_where_their_events_are_seen(family: str, held: float) -> None:
    case = next(one for one in families.cases() if (one.family, one.part) == (family, "tuning"))
    assert families.held_share(case, 100, runs=6) >= held


# ---- intervals of percentiles


MS = 1_000_000


@cases("analysis/ranks_are_those_of_the_binomial")
def test_ranks_are_those_of_the_binomial(count: int, share: float, ranks: list[int]) -> None:
    assert list(order_ranks(count, share, 0.95)) == ranks


def test_the_gaussian_takes_over_without_a_step() -> None:
    exact, gaussian = order_ranks(40_000, 0.5, 0.95), order_ranks(40_001, 0.5, 0.95)
    assert abs(exact[0] - gaussian[0]) <= 1
    assert abs(exact[1] - gaussian[1]) <= 1


@cases("analysis/percentile_bounds")
def test_the_interval_of_a_percentile(
    times: int, most_ms: int, percent: float, count: float, bounds_ms: list[float | None]
) -> None:
    """``times`` operations take 1 ms, as many 2 ms, up to ``most_ms``."""
    values = merge_latencies([synthetic.latency({ms * MS: times for ms in range(1, most_ms + 1)})])
    expected = [bound and pytest.approx(bound * MS, rel=1e-3) for bound in bounds_ms]
    assert list(percentile_interval(values, percent, count)) == expected


def test_intervals_hold_the_percentile_as_often_as_they_say() -> None:
    chance, hits = random.Random(1), 0
    for _ in range(400):
        values: dict[int, int] = {}
        for _ in range(200):
            value = int(chance.expovariate(1 / MS))
            values[value] = values.get(value, 0) + 1
        low, high = percentile_interval(merge_latencies([synthetic.latency(values)]), 90, 200)
        hits += low is not None and high is not None and low <= 2.302585 * MS <= high
    assert 376 <= hits <= 396


def point_of(means_ns: Sequence[float], stddev_ns: float) -> Point:
    """One worker, 100 operations in each second; the mean latency of each second is given."""
    seconds = [
        made.replace(operations={"read": made.operations["read"].replace(mean_ns=mean_ns)})
        for made, mean_ns in zip(synthetic.intervals([100] * len(means_ns)), means_ns, strict=True)
    ]
    total = synthetic.kind({MS: 100 * len(means_ns)}, 4096)
    total = total.replace(service=total.service.replace(stddev_ns=stddev_ns))
    window = (0, len(means_ns) * SECOND_NS)
    worker = synthetic.worker_outcome({"read": total}, window_ns=window, intervals=seconds)
    return synthetic.point(synthetic.plan([synthetic.worker_plan()]), worker)


def test_operations_that_depend_on_one_another_count_for_fewer() -> None:
    chance = random.Random(0)
    # The mean of 100 independent latencies varies by a tenth of what one of them does.
    alone = effective_count(point_of([chance.gauss(MS, 0.1 * MS) for _ in range(100)], MS))
    alike = effective_count(point_of([chance.gauss(MS, MS) for _ in range(100)], MS))
    assert alone == pytest.approx(10_000, rel=0.3)
    assert alike == pytest.approx(100, rel=0.3)


def test_a_count_is_at_most_all_operations_and_unknown_for_short_runs() -> None:
    assert effective_count(point_of([MS] * 20, MS)) == 2000
    assert effective_count(point_of([MS] * 3, MS)) is None


# ---- steady states


def test_four_rounds_are_too_few() -> None:
    assert window([1.0] * 4) is None


def test_the_window_is_snias() -> None:
    found = present(window([1.0, 90.0, 100.0, 110.0, 95.0, 105.0]))
    # The range is 20 of 100; the line through 90, 100, 110, 95, 105 rises by 2.5 a round.
    assert found == (100.0, True)


@pytest.mark.parametrize("rounds", [[89.0, 100, 110, 95, 106], [95.0, 98, 100, 103, 106]])
def test_either_limit_alone_keeps_it_from_being_steady(rounds: list[float]) -> None:
    assert present(window(rounds))[1] is False


# ---- levels that are left


def test_long_series_of_strongly_correlated_noise_keep_their_level() -> None:
    """11 to 16 of 100 such series did not where noise was taken to be correlated by 0.95 at most."""
    found = simulated.changes(600, 0.98, 0.1, 40)
    assert len(found) - found.count(None) <= 2


@cases("analysis/level_changes")
def test_a_change_of_level_is_told_from_a_drift_and_from_noise(
    parts: list[list[float]], change: dict[str, float] | None, stretch: list[int] | None
) -> None:
    """``parts`` are first value, number of values and slope; ``stretch`` is that of another level among runs."""
    values = [first + slope * at for first, count, slope in parts for at in range(int(count))]
    found = level_change(values)
    assert (found is None) == (change is None)
    has(found, change or {})
    assert segment_change(values) == (stretch and range(*stretch))


def test_credits_that_are_spent_are_a_level_change() -> None:
    chance = random.Random(1)
    values = [chance.gauss(level, 300) for level in [10_000] * 30 + [4_000] * 20]
    found = level_change(values)
    assert isinstance(found, LevelStep)
    assert found.index == 30
    assert found.before == pytest.approx(10_000, rel=0.02)
    assert found.after == pytest.approx(4_000, rel=0.05)


@pytest.mark.slow
def test_noise_is_no_level_change() -> None:
    called = []
    for seed in range(400):
        chance = random.Random(seed)
        if level_change([chance.gauss(1_000, 100) for _ in range(60)]) is not None:
            called.append(seed)
    # One in 400; the promise is at most one in 100.
    assert called == [116]


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


@pytest.mark.parametrize(("count", "runs"), [(20, 200), (30, 200), (60, 100)])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_correlated_noise_is_no_change(count: int, correlation: float, runs: int) -> None:
    assert simulated.changes(count, correlation, 0.1, runs=runs).count(None) >= 0.98 * runs


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
    assert levels([3000.0] * 6 + [2000.0] + [1000.0] * 6) == LevelStep(6, 3000.0, 1000.0)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "correlation"), [(20, 0.5), (30, 0.0), (60, 0.5)])
def test_steps_are_found_nearly_as_often_as_any_test_can(count: int, correlation: float) -> None:
    at = count // 2
    found = simulated.changes(count, correlation, 0.03, runs=100, shape=lambda place: 0.9 if place >= at else 1.0)
    near = [change for change in found if isinstance(change, LevelStep) and abs(change.index - at) <= 2]
    best = power_bound(Alternative(count, correlation, 0.1 / 0.03), runs=200)
    # Two shares of 100 and 200 runs differ by as much as 0.15 by chance.
    assert len(near) / 100 >= best - 0.15


def test_a_level_that_returns_is_found() -> None:
    """15 % less in 8 of 40 runs, which one step does not explain."""
    found = 0
    for seed in range(50):
        chance = random.Random(seed)
        values = [chance.gauss(1_000, 20) * (0.85 if 20 <= place < 28 else 1) for place in range(40)]
        segment = segment_change(values)
        found += segment is not None and abs(segment.start - 20) <= 1 and abs(segment.stop - 28) <= 1
    assert found >= 48


@pytest.mark.parametrize("correlation", [0.0, 0.3])
def test_separate_runs_without_a_change_have_none(correlation: float) -> None:
    """The promise is 1 in 100: of 200 series 7 or more would show one with a chance of 0.5 %."""
    found = 0
    for seed in range(200):
        values = simulated.autoregressive(random.Random(seed), 30, correlation, 0.05)
        found += segment_change(values) is not None
    assert found < 7
