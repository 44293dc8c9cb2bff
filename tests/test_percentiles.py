"""Intervals of percentiles."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from data import synthetic
from iocurve.foundation.units import SECOND_NS
from iocurve.result.document import Point
from iocurve.result.percentiles import effective_count, order_ranks, percentile_interval
from iocurve.result.summary import merge_latencies

MS = 1_000_000


@pytest.mark.parametrize(
    ("count", "share", "ranks"),
    # The first three are in tables of distribution-free intervals of the median; the others follow from the binomial.
    [(10, 0.5, (2, 9)), (20, 0.5, (6, 15)), (50, 0.5, (18, 33)), (1, 0.5, (0, 2)), (100, 0.99, (97, 101))],
)
def test_ranks_are_those_of_the_binomial(count: int, share: float, ranks: tuple[int, int]) -> None:
    assert order_ranks(count, share, 0.95) == ranks


def test_the_gaussian_takes_over_without_a_step() -> None:
    exact, gaussian = order_ranks(40_000, 0.5, 0.95), order_ranks(40_001, 0.5, 0.95)
    assert abs(exact[0] - gaussian[0]) <= 1
    assert abs(exact[1] - gaussian[1]) <= 1


def test_a_percentile_beyond_the_operations_has_no_upper_bound() -> None:
    values = merge_latencies([synthetic.latency({MS: 500, 2 * MS: 500})])
    low, high = percentile_interval(values, 99.9, 1000)
    assert (low, high) == (2 * MS, None)
    assert percentile_interval(values, 50, 0.5) == (None, None)


def test_fewer_independent_operations_give_a_wider_interval() -> None:
    values = merge_latencies([synthetic.latency({count * MS: 1 for count in range(1, 1001)})])
    assert percentile_interval(values, 50, 10_000) == pytest.approx((469 * MS, 532 * MS), rel=1e-3)
    assert percentile_interval(values, 50, 10) == pytest.approx((100 * MS, 900 * MS), rel=1e-3)


def test_the_lower_bound_of_few_independent_operations_is_not_the_maximum() -> None:
    values = merge_latencies([synthetic.latency({count * MS: 1 for count in range(1, 1001)})])
    # In 98 of 100 cases all 20 independent operations are below the 99.9th percentile; each stands for 50.
    low, high = percentile_interval(values, 99.9, 20)
    assert low == pytest.approx(950 * MS, rel=1e-3)
    assert high is None


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
    seconds = []
    for number, mean_ns in enumerate(means_ns):
        made = synthetic.interval(number, number * SECOND_NS, (number + 1) * SECOND_NS, {"read": 100}, 4096)
        seconds.append(made.replace(operations={"read": made.operations["read"].replace(mean_ns=mean_ns)}))
    total = synthetic.kind({MS: 100 * len(means_ns)}, 4096)
    total = total.replace(service=total.service.replace(stddev_ns=stddev_ns))
    window = (0, len(means_ns) * SECOND_NS)
    worker = synthetic.worker_outcome({"read": total}, window_ns=window, intervals=seconds)
    plan, outcome = synthetic.plan([synthetic.worker_plan()]), synthetic.outcome(worker)
    return Point(name="reads", family="reads", axes={}, plan=plan, outcome=outcome)


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
