"""Searches, on simulated targets: their measured loads, their findings, and their reasons to stop."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean

import pytest

from bench.truth import curves, simulated
from iocurve.errors import DialectError, TargetError
from iocurve.job.model import Section
from iocurve.measure.search import ceiling, knee, usl
from iocurve.measure.search.capacity import Point, capacity_of
from iocurve.measure.search.ceiling import Bounds, Limit, Trial, Verdict
from iocurve.measure.search.command import Question, draw_curve, find_knee, find_max, shown, workload_of
from iocurve.measure.search.facts import knee_facts
from iocurve.measure.search.knee import Sample
from iocurve.measure.search.loads import Effort
from iocurve.result.document import RESULT_NAME, Result
from iocurve.result.stats import Estimate, sample_mean
from iocurve.targets import target as targets
from iocurve.units import MIB, MILLISECOND_NS


@dataclass
class Simulated:
    """A closed system, measured in batches that vary a little."""

    rate: Callable[[float], float]
    noise: float = 0.01
    seed: int = 1
    asked: list[int] = field(default_factory=list)

    def __call__(self, in_flight: int) -> Sample:
        self.asked.append(in_flight)
        chance = random.Random(f"{self.seed} {in_flight}")
        rates = [self.rate(in_flight) * chance.gauss(1, self.noise) for _ in range(12)]
        return Sample(in_flight, sample_mean(rates), sample_mean([1e9 * in_flight / rate for rate in rates]))


def capped(capacity: float, latency_s: float) -> Callable[[float], float]:
    """A fixed latency, and a limit on the rate."""
    return lambda in_flight: min(in_flight / latency_s, capacity)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("capacity", "latency_s"), [(20_000, 0.005), (5_000, 0.002), (100_000, 0.0005), (700, 0.0031)])
def test_the_knee_of_a_fixed_latency_and_a_cap_is_their_product(capacity: float, latency_s: float, seed: int) -> None:
    found = knee.find(Simulated(capped(capacity, latency_s), seed=seed), 4096)
    assert found.saturated
    assert found.in_flight.mean == pytest.approx(capacity * latency_s, rel=0.03)
    assert found.in_flight.low <= capacity * latency_s * 1.03
    assert found.in_flight.high >= capacity * latency_s * 0.97


def test_a_sharp_knee_takes_few_points() -> None:
    target = Simulated(capped(20_000, 0.005), noise=0.002)
    found = knee.find(target, 4096)
    assert target.asked == [1, 4, 16, 64, 256, 1024, 4096, 100]
    assert found.at.in_flight == 100
    assert found.stopped == "from depth 256 to 1024 the rate changed by only -0.1%, and up to 4096 by +0.1%"


def test_a_soft_knee_is_looked_at_more_closely_where_it_bends() -> None:
    """One server of 50 µs behind 1 ms: the mean value analysis of a closed system."""

    def rate(in_flight: float) -> float:
        queue = 0.0
        carried = 0.0
        for number in range(1, int(in_flight) + 1):
            wait = 50e-6 * (1 + queue)
            carried = number / (1e-3 + wait)
            queue = carried * wait
        return carried

    found = knee.find(Simulated(rate, noise=0.002), 4096)
    # Capacity 20,000, unloaded 1.05 ms.
    assert found.in_flight.mean == pytest.approx(21, rel=0.05)
    around = [sample.in_flight for sample in found.samples if 4 < sample.in_flight < 64]
    assert len(around) >= 3


def test_a_target_that_still_grows_gives_a_lower_bound() -> None:
    found = knee.find(Simulated(capped(1e9, 0.001)), 300)
    assert not found.saturated
    assert found.stopped == "the rate still grew at depth 300, the highest allowed (--iodepth-max)"


@pytest.mark.parametrize(
    ("rate", "capacity"),
    [
        (lambda n: 20_000 * math.tanh(n / 40), 20_000),
        (lambda n: 1_000 * n / (1 + 0.05 * (n - 1)), 20_000),
        (lambda n: 200 * n / (1 + 0.01 * (n - 1)), 20_000),
    ],
)
def test_the_capacity_of_a_soft_curve_is_not_low(rate: Callable[[float], float], capacity: float) -> None:
    found = [knee.find_capacity(Simulated(rate, seed=seed), 4096).mean / capacity for seed in range(40)]
    assert fmean(found) == pytest.approx(1, abs=0.005)


def test_depths_for_shares_of_the_capacity_are_found() -> None:
    found = knee.find(Simulated(lambda n: 20_000 * math.tanh(n / 40), noise=0.002), 4096, (0.5, 0.9, 0.95, 0.99))
    assert [depth.share for depth in found.shares] == [0.5, 0.9, 0.95, 0.99]
    for depth in found.shares:
        true = 40 * math.atanh(depth.share)
        assert depth.in_flight == pytest.approx(true, rel=0.07)
        assert depth.low is not None
        assert depth.low <= true <= (depth.high or math.inf)


def test_the_depth_for_a_share_of_the_capacity_is_the_answer_where_it_is_asked_for() -> None:
    found = knee.find(Simulated(lambda n: 20_000 * math.tanh(n / 40), noise=0.002), 4096, (0.8, 0.9))
    facts = knee_facts("rw=randread", found, 80.0)
    assert facts.question == "the smallest queue depth that reaches 80 % of the target's capacity"
    assert [finding.name for finding in facts.findings][:2] == ["depth for 80 % of capacity", "knee"]
    assert "depth for 90 % of capacity" in [finding.name for finding in facts.findings]
    assert facts.remarks == () or facts.remarks[0].startswith("the universal scalability law")


def test_a_search_that_ends_at_the_highest_depth_says_so() -> None:
    growing = knee_facts("rw=randread", knee.find(Simulated(capped(1e9, 0.001)), 300), None)
    assert growing.remarks[0] == (
        "--iodepth-max 300 was reached while the rate still grew: capacity, knee and depths are lower bounds"
    )
    soft = Simulated(lambda n: 200 * n / (1 + 0.01 * (n - 1)), noise=0.002)
    tending = knee_facts("rw=randread", knee.find(soft, 4096), None)
    assert tending.remarks[0].startswith("the form of the curve is unknown: the rate may still grow beyond depth 4096.")
    (capacity,) = (finding.figure for finding in tending.findings if finding.name == "capacity")
    assert capacity.kind == "bounds"
    assert (capacity.low or 0) <= 20_000 <= (capacity.high or 0)


def test_a_capacity_without_an_upper_bound_is_told_as_at_least() -> None:
    growing = knee_facts("rw=randread", knee.find(Simulated(capped(1e9, 0.001)), 300), None)
    (capacity,) = (finding.figure for finding in growing.findings if finding.name == "capacity")
    assert (capacity.kind, capacity.high) == ("bounds", None)
    assert capacity.bounds_text.startswith("at least 29")


def plateau(in_flight: float) -> float:
    """1,000 IOPS from depth 4 on; from depth 100 to 200 the rate doubles."""
    return 250 * min(in_flight, 4) + 10 * min(max(in_flight - 100, 0), 100)


def test_a_plateau_is_not_the_capacity_where_the_rate_grows_beyond_it() -> None:
    found = knee.find(Simulated(plateau), 4096)
    assert found.capacity_iops.low <= 2_000 <= found.capacity_iops.high
    assert found.capacity_iops.mean == pytest.approx(2_000, rel=0.01)
    assert found.grew_again_at is not None
    assert 4 <= found.grew_again_at < 200
    assert "grew again beyond it" in " ".join(knee_facts("rw=randread", found, None).remarks)


def test_a_last_look_goes_no_deeper_than_a_second_of_latency_and_the_memory_for_it() -> None:
    slow, large = Simulated(capped(100, 0.04), noise=0.002), Simulated(capped(20_000, 0.005), noise=0.002)
    assert knee.find(slow, 4096).saturated
    assert max(slow.asked) == 100
    assert knee.find(large, 4096, look_max=64).saturated
    assert max(large.asked) == 1024


def test_the_capacity_of_a_rate_that_falls_is_its_maximum() -> None:
    def rate(in_flight: float) -> float:
        return 1_000 * in_flight / (1 + (in_flight / 50) ** 2)

    found = knee.find(Simulated(rate), 4096)
    assert found.form == "falling"
    assert found.capacity_iops.low <= 25_000 <= found.capacity_iops.high
    assert found.capacity_iops.mean == pytest.approx(25_000, rel=0.02)
    assert "the capacity is the maximum" in knee_facts("rw=randread", found, None).remarks[0]


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_bound_of_a_power_law_is_its_asymptote(power: float) -> None:
    points = [Point(4**step, 1_000 - 500 * 4.0 ** (-step * power), 1e-6, 30) for step in range(1, 7)]
    found = capacity_of(tuple(points))
    # No error of a rate is taken to be below a thousandth.
    assert found.iops.high == pytest.approx(1_000, rel=3e-3)
    assert found.iops.low <= 1_000


@pytest.mark.parametrize("noise", [curves.INDEPENDENT, curves.CORRELATED], ids=lambda noise: noise.name)
def test_bounds_hold_on_curves_of_any_form(noise: curves.Noise) -> None:
    counted = [curves.searched(family, noise, 3) for family in curves.DESIGNED | curves.VERIFIED]
    runs = sum(one.runs for one in counted)
    assert sum(one.held for one in counted) >= 0.93 * runs
    for share in (0.9, 0.99):
        assert sum(one.depths_held[share] for one in counted) >= 0.93 * runs
    # The form is known where a limit is sharp, and not where the rate approaches its limit slowly or falls.
    by_name = dict(zip(curves.DESIGNED | curves.VERIFIED, counted, strict=True))
    assert by_name["error function"].unknown <= 1
    assert by_name["USL, kappa > 0"].unknown == 3


def test_a_target_of_one_server_has_its_knee_at_one() -> None:
    found = knee.find(Simulated(lambda _: 1000.0, noise=0.002), 4096)
    assert found.in_flight.mean == pytest.approx(1.0, rel=0.02)
    assert found.at.in_flight == 1


def test_the_law_gives_back_its_own_terms() -> None:
    def rate(in_flight: float) -> float:
        return 1000 * in_flight / (1 + 0.03 * (in_flight - 1) + 0.0002 * in_flight * (in_flight - 1))

    points = [(n, Simulated(rate, noise=0.005)(n).iops) for n in (1, 2, 4, 8, 16, 32, 64, 128)]
    law = usl.fit(points)
    assert law is not None
    for term, true in ((law.rate, 1000), (law.contention, 0.03), (law.coherency, 0.0002)):
        assert term.low <= true <= term.high
        assert term.mean == pytest.approx(true, rel=0.1)
    assert law.misfits == ()
    assert law.peak_in_flight == pytest.approx(math.sqrt(0.97 / 0.0002), rel=0.05)


def test_where_the_law_does_not_fit_is_said() -> None:
    points = [(n, Simulated(capped(20_000, 0.005), noise=0.002)(n).iops) for n in (1, 4, 16, 64, 100, 256, 1024)]
    law = usl.fit(points)
    assert law is not None
    assert 100 in {misfit.in_flight for misfit in law.misfits}


@pytest.mark.slow
@pytest.mark.parametrize(("contention", "coherency"), [(0.03, 0.0002), (0.05, 0.0), (0.0, 0.0)])
@pytest.mark.parametrize("noise", [0.02, 0.2])
def test_terms_are_as_sure_as_they_say(contention: float, coherency: float, noise: float) -> None:
    counted = simulated.law_coverage((1000.0, contention, coherency), noise, runs=60)
    # Four standard errors of a count of 60 are 11 points.
    assert counted.held[0] >= 50
    assert min(counted.held) >= 50
    assert counted.misfits <= 9


def test_three_points_are_too_few_for_the_law() -> None:
    assert usl.fit([(n, Estimate(1000.0 * n, 1.0, 10)) for n in (1, 2, 4)]) is None


P99_2MS = Limit(99.0, 2e6)


@dataclass
class Sharp:
    """A fixed latency up to a rate, and a queue without end beyond it; Poisson arrivals."""

    capacity: float
    latency_ns: float = 1e6
    chance: random.Random = field(default_factory=lambda: random.Random(3))
    tried: list[float] = field(default_factory=list)

    def __call__(self, rate: float, seconds: float) -> Trial:
        self.tried.append(rate)
        due = min(rate, self.capacity) * seconds
        count = max(0, round(due + math.sqrt(due) * self.chance.gauss(0, 1)))
        late_ns = self.latency_ns + max(0.0, rate / self.capacity - 1) * seconds * 1e9
        return Trial(seconds, simulated.SortedResponses((late_ns,) * count))


def exact(capacity: float) -> Estimate:
    return Estimate(capacity, capacity * 1e-3, 30)


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.5, 0.9])
@pytest.mark.parametrize("capacity", [300.0, 100_000.0])
def test_the_most_load_under_a_limit_is_found_within_its_bounds(capacity: float, load: float) -> None:
    held = 0
    for seed in range(3):
        queue = simulated.Queue(capacity, 1, random.Random(seed))
        limit = Limit(90.0, 1e9 * queue.limit_at(load, 0.1))
        found = ceiling.find(queue.trial, exact(capacity), limit, 0.02, 0.0, 50_000 / capacity)
        assert found.answer is not None
        assert found.answer.value == pytest.approx(load * capacity, rel=0.08)
        held += (found.answer.low or 0.0) <= load * capacity <= (found.answer.high or math.inf)
    assert held >= 2


@pytest.mark.parametrize("capacity", [50.0, 300.0, 1_000.0, 20_000.0])
def test_counts_of_poisson_arrivals_are_no_shortfall(capacity: float) -> None:
    """The operations of a short trial vary by their square root."""
    for seed in range(10):
        found = ceiling.find(Sharp(capacity, chance=random.Random(seed)), exact(capacity), P99_2MS, 0.02)
        assert found.answer is not None
        assert found.answer.value == pytest.approx(capacity, rel=0.03)
        assert found.stopped == "the limit holds up to the capacity of the target"


def test_an_answer_is_never_above_the_capacity() -> None:
    found = ceiling.find(Sharp(2_000.0), exact(1_000.0), P99_2MS, 0.02)
    assert found.answer is not None
    assert found.answer.value <= 1_000


def test_a_sharp_limit_is_bracketed() -> None:
    target = Sharp(6_000.0)
    found = ceiling.find(target, exact(10_000.0), P99_2MS, 0.02)
    assert found.answer is not None
    assert found.answer.low == found.answer.value <= 6_000
    assert found.answer.high == pytest.approx(6_000, rel=0.03)
    assert found.stopped.startswith("the bracket is within ")


@pytest.mark.slow
def test_a_rate_is_repeated_until_it_is_clear() -> None:
    queue = simulated.Queue(10_000.0, 1, random.Random(3))
    limit = Limit(99.0, 1e9 * queue.limit_at(0.8, 0.01))
    near = Verdict(8_000.0, limit)
    assert ceiling.judge(queue.trial, near, 0.1) is None
    assert len(near.trials) >= ceiling.TRIALS_ENOUGH
    low = Verdict(1_000.0, limit)
    assert ceiling.judge(queue.trial, low, 1.0) is True
    assert len(low.trials) < ceiling.TRIALS_ENOUGH


def test_a_target_that_does_not_keep_up_has_failed_at_once() -> None:
    verdict = Verdict(12_000.0, P99_2MS)
    assert ceiling.judge(Sharp(10_000.0), verdict, 1.0) is False
    assert len(verdict.trials) == 1


def test_a_trial_without_operations_says_nothing() -> None:
    verdict = Verdict(3.0, P99_2MS)
    verdict.add(Trial(0.1, simulated.SortedResponses(())))
    assert verdict.holds is None
    assert math.isnan(verdict.latency_ns.value)


def test_a_percentile_has_the_bounds_of_its_order_statistics() -> None:
    verdict = Verdict(10_000.0, P99_2MS)
    for _ in range(5):
        verdict.add(Trial(1.0, simulated.SortedResponses(tuple(float(number) for number in range(10_000)))))
    latency = verdict.latency_ns
    assert latency.low is not None
    assert latency.high is not None
    assert 9_850 < latency.low < latency.value == 9_899 < latency.high <= 9_999
    few = Verdict(10.0, P99_2MS)
    few.add(Trial(1.0, simulated.SortedResponses((1e6,) * 10)))
    assert few.latency_ns == Bounds(1e6, 1e6, None)


def test_a_limit_that_nothing_keeps_is_said() -> None:
    found = ceiling.find(Sharp(10_000.0), exact(10_000.0), Limit(99.0, 1e3), 0.02)
    assert found.answer is None
    assert found.stopped.startswith("the limit is missed even at ")


def test_a_limit_that_all_loads_keep_is_said() -> None:
    found = ceiling.find(Sharp(1e9), exact(10_000.0), P99_2MS, 0.02)
    assert found.answer is not None
    assert found.answer.value == pytest.approx(10_000, rel=0.03)
    assert found.stopped == "the limit holds up to the capacity of the target"


def test_a_workload_is_in_fios_words() -> None:
    section, defaults = workload_of("rw=randrw rwmixread=70 bs=8k")
    load = Section.of(section, defaults).load
    assert (load.reads, load.writes, load.read_percent) == (True, True, 70.0)


def test_what_a_search_decides_itself_is_refused() -> None:
    with pytest.raises(DialectError, match="--iodepth=4 is for the search to decide"):
        workload_of("rw=randread iodepth=4")
    with pytest.raises(DialectError, match="--workload: fio and iocurve read only the beginning of '4x', as 4 bytes"):
        workload_of("rw=randread bs=4x")


# ---- on real targets

SHORT = Effort(
    precision=0.2,
    ramp_ns=20 * MILLISECOND_NS,
    interval_ns=20 * MILLISECOND_NS,
    shortest_ns=160 * MILLISECOND_NS,
    longest_ns=400 * MILLISECOND_NS,
    trial_ns=100 * MILLISECOND_NS,
    trials_ns=1_000 * MILLISECOND_NS,
)


def asked(target: str) -> Question:
    return Question(targets.parse(target), "rw=randread bs=4k", 8 * MIB, SHORT, iodepth_max=64)


@pytest.mark.slow
def test_a_knee_is_found_on_a_volume_and_told(tmp_path: Path) -> None:
    result = find_knee(asked("volume:unlimited?iops=2000&latency=4ms"), tmp_path)
    assert result.state == "finished"
    assert result.search is not None
    assert [finding.name for finding in result.search.findings][:3] == [
        "knee",
        "load at the knee",
        "latency at the knee",
    ]
    assert {point.family for point in result.points} == {"depth"}
    assert Result.read(tmp_path / RESULT_NAME) == result
    assert "knee" in shown(result.search)


@pytest.mark.slow
def test_a_search_leaves_a_directory_as_it_was(tmp_path: Path) -> None:
    place = tmp_path / "data"
    place.mkdir()
    result = draw_curve(asked(str(place)), 2, tmp_path / "out")
    assert [point.family for point in result.points].count("curve") == 2
    assert list(place.iterdir()) == []


@pytest.mark.slow
def test_the_most_load_is_told_with_what_did_not_hold(tmp_path: Path) -> None:
    result = find_max(asked("volume:unlimited?iops=2000"), 50.0, 500 * MILLISECOND_NS, tmp_path)
    assert result.search is not None
    assert result.search.question == "the highest rate with p50 response time at most 500 ms"
    assert {point.family for point in result.points} == {"depth", "max"}


def test_a_search_does_not_write_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_bytes(bytes(4 * MIB))
    question = replace(asked(str(path)), workload="rw=randwrite bs=4k")
    with pytest.raises(TargetError, match="--overwrite to allow the writes"):
        find_knee(question, tmp_path / "out")
