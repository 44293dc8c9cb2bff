"""Searches, on simulated targets: their measured loads, their findings, and their reasons to stop."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from bench.truth import curves, open_loops, simulated
from data import synthetic
from goldens import Golden, cases, matches, present
from iocurve.analysis.check_names import SEARCHES
from iocurve.analysis.headlines import headlines_of
from iocurve.cli.measure import SearchOptions
from iocurve.foundation.errors import DialectError, TargetError
from iocurve.foundation.units import MIB, MILLISECOND_NS, SECOND_NS, format_duration
from iocurve.job.model import Section
from iocurve.measure.campaign import into_directory
from iocurve.measure.search import ceiling, knee, usl
from iocurve.measure.search.capacity import CurvePoint, capacity_of, depth_bounds
from iocurve.measure.search.ceiling import Budget, LatencyLimit, MeasuredRate, Trial
from iocurve.measure.search.command import Question, curve_search, findings_text, knee_search, max_search, workload_of
from iocurve.measure.search.facts import BOUNDS, knee_facts, length_remarks, max_facts
from iocurve.measure.search.knee import Sample
from iocurve.measure.search.late_share import Clusters, LateCount, crossing
from iocurve.measure.search.loads import Effort
from iocurve.result.document import Result
from iocurve.result.document_file import RESULT_NAME
from iocurve.result.stats import Estimate, sample_mean
from iocurve.targets import target as targets


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


@pytest.mark.parametrize(("seconds", "point_s"), [(None, 10), (60, 3), (1, 0.5)])
def test_a_time_for_the_search_shortens_its_points(seconds: int | None, point_s: float) -> None:
    options = SearchOptions(search_time=None if seconds is None else seconds * SECOND_NS)
    effort = options.question("volume:unlimited").effort
    assert (effort.longest_ns, effort.patience_ns) == (point_s * SECOND_NS, (seconds or 120) * SECOND_NS)


@pytest.mark.parametrize("iodepth_max", [2, 64])
def test_a_knee_of_rates_without_intervals_has_none(iodepth_max: int) -> None:
    def unsure(in_flight: int) -> Sample:
        return Sample(in_flight, Estimate(min(in_flight, 4) * 1e3, math.inf, 1), Estimate(1e6, math.inf, 1))

    assert math.isinf(knee.find(unsure, iodepth_max).unloaded_ns.error)


def one_server(in_flight: float) -> float:
    """One server of 50 µs behind 1 ms: the mean value analysis of a closed system."""
    queue = rate = 0.0
    for number in range(1, int(in_flight) + 1):
        wait = 50e-6 * (1 + queue)
        rate = number / (1e-3 + wait)
        queue = rate * wait
    return rate


CURVES: dict[str, Callable[[float], float]] = {
    "20,000 IOPS, 5 ms": capped(20_000, 0.005),
    "100 IOPS, 40 ms": capped(100, 0.04),
    "1 ms, without a limit": capped(1e9, 0.001),
    "1,000 IOPS at any depth": lambda _: 1000.0,
    "1,000 IOPS from depth 4 on, and twice as many from depth 200 on": lambda n: (
        250 * min(n, 4) + 10 * min(max(n - 100, 0), 100)
    ),
    "falling from depth 50 on": lambda n: 1_000 * n / (1 + (n / 50) ** 2),
    "a soft bend": lambda n: 20_000 * math.tanh(n / 40),
    "20,000 IOPS, contended": lambda n: 1_000 * n / (1 + 0.05 * (n - 1)),
    "tending to 20,000 IOPS": lambda n: 200 * n / (1 + 0.01 * (n - 1)),
    "one server": one_server,
}


@cases("measure/knees")
def test_a_knee_is_found_with_few_points_and_told(
    curve: str, how: dict[str, Any], in_flight: float | None, capacity: float | None, golden: Golden
) -> None:
    target = Simulated(CURVES[curve], noise=how.get("noise", 0.01))
    found = knee.find(target, how.get("iodepth_max", 4096), look_max=how.get("look_max", knee.DEPTH_MAX))
    assert in_flight is None or found.in_flight.mean == pytest.approx(in_flight, rel=0.05)
    facts = knee_facts("rw=randread", found, None)
    (bounds,) = (finding.figure for finding in facts.findings if finding.name == "capacity")
    assert capacity is None or (bounds.low or 0) <= capacity <= (bounds.high or math.inf)
    rate = (bounds.kind, bounds.high is None, f"{found.capacity_iops.mean:.3g}")
    golden.check([found.saturated, found.form, found.grew_again_at, found.stopped, target.asked, rate, facts.remarks])


SOFT = ("a soft bend", "20,000 IOPS, contended", "tending to 20,000 IOPS")


@pytest.mark.parametrize("curve", SOFT)
def test_the_capacity_of_a_soft_curve_is_not_low(curve: str) -> None:
    found = [knee.find_capacity(Simulated(CURVES[curve], seed=seed), 4096).mean / 20_000 for seed in range(40)]
    assert fmean(found) == pytest.approx(1, abs=0.005)


def test_depths_for_shares_of_the_capacity_are_found() -> None:
    found = knee.find(Simulated(CURVES["a soft bend"], noise=0.002), 4096, (0.5, 0.9, 0.95, 0.99))
    assert [depth.share for depth in found.shares] == [0.5, 0.9, 0.95, 0.99]
    for depth in found.shares:
        true = 40 * math.atanh(depth.share)
        assert depth.in_flight == pytest.approx(true, rel=0.07)
        assert present(depth.low) <= true <= (depth.high or math.inf)


def test_the_depth_for_a_share_of_the_capacity_is_the_answer_where_it_is_asked_for() -> None:
    found = knee.find(Simulated(CURVES["a soft bend"], noise=0.002), 4096, (0.8, 0.9))
    facts = knee_facts("rw=randread", found, 80.0)
    assert facts.question == "the smallest queue depth that reaches 80 % of the target's capacity"
    assert [finding.name for finding in facts.findings][:2] == ["depth for 80 % of capacity", "knee"]
    assert "depth for 90 % of capacity" in [finding.name for finding in facts.findings]
    assert SEARCHES["knee"].items() <= {finding.name: finding.unit for finding in facts.findings}.items()
    assert "the knee is soft: the rate there is 76 to 77 % of the capacity" in facts.remarks[0]
    assert facts.remarks[1] == BOUNDS


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_bound_of_a_power_law_is_its_asymptote(power: float) -> None:
    points = [CurvePoint(4**step, 1_000 - 500 * 4.0 ** (-step * power), 1e-6, 30) for step in range(1, 7)]
    found = capacity_of(tuple(points))
    # No error of a rate is taken to be below a thousandth.
    assert found.iops.high == pytest.approx(1_000, rel=3e-3)
    assert found.iops.low <= 1_000


def test_rates_that_grow_together_have_not_reached_the_capacity() -> None:
    # Stalls of 67 ms: the whole rate of 3,850/s needs 257 in flight, and each rate alone may be it.
    rates = {1: 385, 4: 1515, 10: 3503, 16: 3591, 32: 3622, 45: 3621, 64: 3660, 109: 3682, 273: 3847, 1024: 3874}
    points = tuple(CurvePoint(depth, float(rate), 0.015 * rate, 60) for depth, rate in rates.items())
    found = capacity_of(points)
    assert found.top.in_flight > 64
    for share, true in ((0.95, 64), (0.99, 216)):
        low, high = depth_bounds(points, found, share)
        assert low <= true <= (high or math.inf)


@cases("measure/hurried_searches")
def test_a_search_whose_time_is_over_measures_no_further_depth(depths: int, stopped: str) -> None:
    whole, hurried = (Simulated(lambda in_flight: 20_000 * math.tanh(in_flight / 100)) for _ in range(2))
    full = knee.find(whole, 4096)
    found = knee.find(hurried, 4096, is_over=lambda: len(hurried.asked) >= depths)
    assert hurried.asked == whole.asked[: max(2, depths)]
    assert stopped in found.stopped
    assert "--search-time" not in full.stopped
    if depths > 2:
        assert found.in_flight.low <= 100 <= found.in_flight.high


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


def test_the_law_gives_back_its_own_terms() -> None:
    def rate(in_flight: float) -> float:
        return 1000 * in_flight / (1 + 0.03 * (in_flight - 1) + 0.0002 * in_flight * (in_flight - 1))

    points = [(n, Simulated(rate, noise=0.005)(n).iops) for n in (1, 2, 4, 8, 16, 32, 64, 128)]
    law = present(usl.fit(points))
    for term, true in ((law.rate, 1000), (law.contention, 0.03), (law.coherency, 0.0002)):
        assert term.low <= true <= term.high
        assert term.mean == pytest.approx(true, rel=0.1)
    assert law.misfits == ()


def test_where_the_law_does_not_fit_is_said() -> None:
    points = [(n, Simulated(capped(20_000, 0.005), noise=0.002)(n).iops) for n in (1, 4, 16, 64, 100, 256, 1024)]
    law = present(usl.fit(points))
    assert 100 in {in_flight for in_flight, _, _ in law.misfits}


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


P99_2MS = LatencyLimit(99.0, 2e6)
TWO_MINUTES = Budget(0.02, 120.0)


def searched(case: open_loops.Case, seed: int = 1, budget: Budget = TWO_MINUTES) -> ceiling.Ceiling:
    chance = np.random.default_rng(seed)
    return ceiling.find(open_loops.attempts(case, chance), exact(case.capacity), case.limit, budget)


def exact(capacity: float) -> Estimate:
    return Estimate(capacity, capacity * 1e-3, 30)


def never_late(capacity: float, limit: LatencyLimit = P99_2MS) -> open_loops.Case:
    return open_loops.Case(lambda arrivals, _: np.full(len(arrivals), 1e-3), capacity, capacity, limit)


def responses(*times_ns: float) -> open_loops.SimulatedResponses:
    return open_loops.SimulatedResponses(np.array(times_ns))


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        open_loops.bucket_case(1_000.0, 50, 1e-3, 2.0, 0.01),
        open_loops.bucket_case(300.0, 10, 1e-3, 2.0, 0.01),
        open_loops.exponential_case(1_000.0, 0.8, 0.01),
        open_loops.exponential_case(50.0, 0.95, 0.01),
    ],
    ids=["bucket of 50", "bucket of 10", "queue", "slow queue"],
)
def test_the_bracket_holds_the_true_rate(case: open_loops.Case) -> None:
    found = [searched(case, seed, Budget(0.05, 60.0)).answer for seed in range(8)]
    held = sum(one is not None and (one.low or 0.0) <= case.rate <= (one.high or math.inf) for one in found)
    # Of brackets that hold in 95 of 100 searches, fewer than 6 of 8 hold in 6 of 1,000 rounds.
    assert held >= 6


def test_patience_bounds_the_time_of_all_runs() -> None:
    case = open_loops.exponential_case(1_000.0, 0.5, 0.01)
    spent: list[float] = []
    attempt = open_loops.attempts(case, np.random.default_rng(1))

    def counted(rate: float, seconds: float, is_decided: ceiling.IsDecided) -> Trial:
        trial = attempt(rate, seconds, is_decided)
        spent.append(trial.spent_s)
        return trial

    found = ceiling.find(counted, exact(1_000.0), case.limit, Budget(0.001, 30.0))
    assert found.ending == "patience"
    assert 25 < sum(spent) < 31
    assert sum(rate.seconds for rate in found.rates) < 30


def test_more_patience_narrows_the_bracket() -> None:
    case = open_loops.exponential_case(1_000.0, 0.9, 0.01)
    widths = []
    for patience_s in (30.0, 1_000.0):
        answer = present(searched(case, 3, Budget(0.001, patience_s)).answer)
        widths.append(present(answer.high) - (answer.low or 0.0))
    assert widths[1] < widths[0] / 2


def test_an_answer_is_never_above_the_capacity() -> None:
    case = never_late(1_000.0)
    answer = present(searched(case).answer)
    assert answer.value <= exact(1_000.0).high


ENDINGS = {
    "patience": (open_loops.exponential_case(50.0, 0.95, 0.01), "the patience ended: the precision would need "),
    "capacity": (never_late(100_000.0), "the limit holds up to the capacity of the target"),
    "missed": (never_late(10_000.0, LatencyLimit(99.0, 1e3)), "the limit is missed even at "),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_end_of_a_search_is_told(ending: str) -> None:
    case, stopped = ENDINGS[ending]
    found = searched(case)
    facts = max_facts("rw=randread", P99_2MS, exact(case.capacity), found)
    assert (found.ending, found.answer is None, facts.remarks == ()) == (ending, ending == "missed", ending == "missed")
    assert facts.stopped.startswith(stopped)
    assert ending != "patience" or present(found.needed_s) > 120
    assert ending != "capacity" or present(found.answer).value == pytest.approx(100_000, rel=0.03)


@pytest.mark.parametrize("patience_s", [0.6, 2.0, 10.0])
def test_a_rate_that_misses_the_limit_is_never_the_answer(patience_s: float) -> None:
    """A closed loop reaches 1,000 IOPS, but the target is slow: no rate that the patience allows meets 5 ms."""
    limit = LatencyLimit(99.0, 5e6)
    trial = Trial(0.5, 0.6, ((100, 60),) * 5, responses(*[26.5e6] * 100))
    found = ceiling.find(lambda *_: trial, exact(1_000.0), limit, replace(TWO_MINUTES, patience_s=patience_s))
    assert found.answer is None
    facts = max_facts("rw=randread", limit, exact(1_000.0), found)
    assert ([one.name for one in facts.findings], facts.unanswered) == (["capacity"], "highest rate")
    assert facts.rows[0] == ("highest rate", "none shown", "")
    assert findings_text(facts).splitlines()[1].split() == ["highest", "rate", "none", "shown"]
    headline, _ = headlines_of(synthetic.envelope().replace(search=facts), [], [])
    assert (headline.what, headline.value) == ("highest rate", "none shown")


@pytest.mark.parametrize("seed", range(8))
def test_the_percentile_at_the_answer_meets_the_limit(seed: int) -> None:
    case = open_loops.exponential_case(10_000.0, 0.9, 0.01)
    found = searched(case, seed, replace(TWO_MINUTES, patience_s=8.0))
    assert (found.answer is None) == (found.nearest is None) == (found.latency_ns is None)
    if found.latency_ns:
        assert found.latency_ns.value <= case.limit.limit_ns


def test_this_machine_is_named_where_it_and_not_the_target_missed_the_limit() -> None:
    late = never_late(10_000.0, LatencyLimit(99.0, 1e3))
    attempt = open_loops.attempts(late, np.random.default_rng(1))

    def by_machine(rate: float, seconds: float, is_decided: ceiling.IsDecided) -> Trial:
        trial = attempt(rate, seconds, is_decided)
        return replace(trial, late_by_machine=sum(late for _, late in trial.intervals))

    found = ceiling.find(by_machine, exact(10_000.0), late.limit, TWO_MINUTES)
    assert found.late_by_machine == 1
    facts = max_facts("rw=randread", P99_2MS, exact(10_000.0), found)
    assert facts.remarks[0].startswith("this machine missed the limit: it submitted 100% of the late operations late")


def test_late_operations_of_this_machine_bound_the_target_from_below_only() -> None:
    """Half a percent of the operations are submitted late below the true rate, and 20 % above 0.6 of it."""
    case = open_loops.exponential_case(10_000.0, 0.9, 0.01)
    attempt = open_loops.attempts(case, np.random.default_rng(1))

    def jittery(rate: float, seconds: float, is_decided: ceiling.IsDecided) -> Trial:
        trial = attempt(rate, seconds, is_decided)
        share = 0.2 if rate > 5_400 else 0.0
        intervals = tuple((number, min(number, late + round(share * number))) for number, late in trial.intervals)
        more = sum(late for _, late in intervals) - sum(late for _, late in trial.intervals)
        return replace(trial, intervals=intervals, late_by_machine=more)

    found = ceiling.find(jittery, exact(10_000.0), case.limit, TWO_MINUTES)
    assert found.late_by_machine > 0.5
    answer = present(found.answer)
    assert answer.value < 6_000
    assert present(answer.high) >= 0.98 * case.rate


def counted(rate: float, *trials: Trial) -> MeasuredRate:
    measured = MeasuredRate(rate, P99_2MS)
    for trial in trials:
        measured.add(trial)
    return measured


def test_operations_that_never_complete_are_late() -> None:
    assert counted(12_000.0, Trial(1.0, 1.3, ((10_000, 0),), responses(1e6))).counted.late == 12_000 - 10_000 - 24
    assert counted(12_000.0, Trial(1.0, 1.3, (), responses())).is_overloaded


@pytest.mark.parametrize("rate", [50.0, 1_000.0, 20_000.0])
def test_counts_of_poisson_arrivals_are_no_shortfall(rate: float) -> None:
    """The operations of a short run vary by their square root."""
    trial = Trial(1.0, 1.3, ((round(rate - 3 * math.sqrt(rate)), 0),), responses(1e6))
    assert counted(rate, trial).counted.late == 0


def test_a_run_without_operations_says_nothing() -> None:
    measured = counted(3.0, Trial(0.1, 0.4, (), responses()))
    assert not measured.is_overloaded
    assert math.isnan(measured.latency_ns(1.0).value)


def test_a_percentile_has_the_bounds_of_its_order_statistics() -> None:
    trial = Trial(1.0, 1.3, ((10_000, 0),), responses(*(float(number) for number in range(10_000))))
    latency = counted(10_000.0, *[trial] * 5).latency_ns(3.0)
    assert 9_850 < present(latency.low) < latency.value == 9_899 < present(latency.high) <= 9_999
    few = counted(10.0, Trial(1.0, 1.3, ((10, 0),), responses(*(1e6,) * 10)))
    assert few.latency_ns(3.0) == (1e6, 1e6, None)


def test_a_cluster_that_lasts_for_intervals_counts_once() -> None:
    """As many late operations, alone or all together: the dispersion is that of the clusters."""
    scattered = LateCount(900.0, tuple((100, 5) if place % 10 == 0 else (100, 0) for place in range(100)))
    together = LateCount(900.0, tuple((100, 50) if place == 50 else (100, 0) for place in range(100)))
    lasting = LateCount(900.0, tuple((100, 10) if 50 <= place < 55 else (100, 0) for place in range(100)))
    alone, *clusters = (Clusters.of([one], 1_000.0, 1.0).dispersion(900.0) for one in (scattered, together, lasting))
    assert alone < min(clusters)


def test_clusters_are_seen_where_an_interval_has_few_operations() -> None:
    """Of four operations at most one is late: successive intervals hardly tell that clusters last for 60 of them."""
    slow = LateCount(10.0, tuple((4, int(place % 600 < 60 and place % 2)) for place in range(6_000)))
    assert Clusters.of([slow], 20.0, 1.0).dispersion(10.0) > 10


def test_short_runs_do_not_make_clusters_look_larger() -> None:
    """Clusters of exponential sizes, their variance twice the square of the mean, at ten rates for 2 to 30 s each."""
    found = []
    for seed in range(30):
        chance = np.random.default_rng(seed)
        several = []
        for place in range(10):
            late = [
                int(chance.exponential(5.0, number).sum()) for number in chance.poisson(0.6, round(10 * 1.35**place))
            ]
            several.append(LateCount(1_000.0 + place, tuple((300, one) for one in late)))
        found.append(Clusters.of(several, 2_000.0, 2.5).dispersion(1_000.0))
    assert 8 < fmean(found) < 13


@cases("measure/slopes")
def test_a_bound_needs_counts_that_show_a_slope(late: tuple[int, ...], low: float | None, high: float | None) -> None:
    rates = (700.0, 800.0, 900.0, 1_000.0, 1_100.0)
    counted = [LateCount(rate, ((20_000, count),)) for rate, count in zip(rates, late, strict=True)]
    found = crossing(counted, 0.05, Clusters(1.0, 30, 5_000.0), (500.0, 1_200.0), 950.0)
    assert (found.low is None, found.high is None) == (low is None, high is None)
    assert low is None or found.low is None or found.low >= low
    assert high is None or found.high is None or found.high <= high


def test_the_theory_of_one_server_is_that_of_its_simulation() -> None:
    chance = np.random.default_rng(1)
    arrivals = open_loops.poisson(800.0, 5_000.0, chance)
    waited = open_loops.waits(arrivals, np.full(len(arrivals), 1e-3))
    for services in (0.5, 3.0, 7.9, 8.1, 12.0):
        expected = open_loops.fixed_tail(0.8, services)
        assert float(np.mean(waited > services * 1e-3)) == pytest.approx(expected, rel=0.15)


def test_a_workload_is_in_fios_words() -> None:
    section, defaults = workload_of("rw=randrw rwmixread=70 bs=8k")
    load = Section.of(section, defaults).load
    assert (load.reads, load.writes, load.read_percent) == (True, True, 70.0)


def test_what_the_interval_of_a_short_point_cannot_know_is_told() -> None:
    points = synthetic.envelope().points[:2]
    assert length_remarks(points) == ()
    (remark,) = length_remarks([point.replace(length_chosen_by=20) for point in points])
    shortest = min(point.summary().window_ns for point in points)
    assert f"the shortest here after {format_duration(shortest)}: stalls and drops that come less often than" in remark
    assert f"every {format_duration(round(shortest / 3))} may be in no interval" in remark
    assert f"longer than about {format_duration(shortest // 4)};" in remark


def test_points_in_a_hurry_take_a_part_of_the_patience() -> None:
    effort = Effort(patience_ns=30 * SECOND_NS)
    assert effort.hurried(20).longest_ns == 1_500 * MILLISECOND_NS
    assert effort.hurried(1_000).longest_ns == effort.shortest_ns
    assert replace(effort, patience_ns=3_600 * SECOND_NS).hurried(20).longest_ns == effort.longest_ns


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
    rate_ns=100 * MILLISECOND_NS,
    patience_ns=2_000 * MILLISECOND_NS,
    repeats_max=0,
)


def asked(target: str) -> Question:
    return Question(targets.parse(target), "rw=randread bs=4k", 8 * MIB, SHORT, iodepth_max=64)


@pytest.mark.slow
def test_a_knee_is_found_on_a_volume_and_told(tmp_path: Path) -> None:
    result = into_directory(tmp_path, knee_search(asked("volume:unlimited?iops=2000&latency=4ms")))
    search = present(result.search)
    assert (result.state, "knee" in findings_text(search)) == ("finished", True)
    matches("measure#knee found volume", [finding.name for finding in search.findings][:3])
    assert ({point.family for point in result.points}, Result.read(tmp_path / RESULT_NAME)) == ({"depth"}, result)


@pytest.mark.slow
def test_a_search_leaves_a_directory_as_it_was(tmp_path: Path) -> None:
    (place := tmp_path / "data").mkdir()
    result = into_directory(tmp_path / "out", curve_search(asked(str(place)), 2))
    assert ([point.family for point in result.points].count("curve"), list(place.iterdir())) == (2, [])


@pytest.mark.slow
def test_a_curve_that_has_no_more_time_leaves_out_steps(tmp_path: Path) -> None:
    question = replace(asked("volume:unlimited?iops=2000"), limit_ns=1)
    result = into_directory(tmp_path, curve_search(question, 4))
    assert present(result.search).stopped.endswith(
        "4 even steps up to the closed-loop capacity; --search-time left out 3 steps"
    )
    assert [point.family for point in result.points].count("curve") == 1


@pytest.mark.slow
def test_the_most_load_is_told_with_what_did_not_hold(tmp_path: Path) -> None:
    result = into_directory(tmp_path, max_search(asked("volume:unlimited?iops=2000"), 50.0, 500 * MILLISECOND_NS))
    assert present(result.search).question == "the highest rate with p50 response time at most 500 ms"
    assert {point.family for point in result.points} == {"depth", "max"}


def test_a_search_does_not_write_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "precious"
    path.write_bytes(bytes(4 * MIB))
    question = replace(asked(str(path)), workload="rw=randwrite bs=4k")
    with pytest.raises(TargetError, match="--overwrite to allow the writes"):
        into_directory(tmp_path / "out", knee_search(question))


def test_responses_of_several_servers() -> None:
    """One server is M/M/1; of two, W. Feller's formulas give 1/3 that wait at half of the capacity."""
    assert open_loops.several_servers_tail(0.01, 1000, 1, 0.5) == pytest.approx(math.exp(-5))
    assert open_loops.several_servers_tail(0.0, 1000, 2, 0.5) == 1
    expected = 2 / 3 * math.exp(-1) + 1 / 3 * 2 * math.exp(-1)
    assert open_loops.several_servers_tail(1 / 500, 1000, 2, 0.5) == pytest.approx(expected, rel=1e-4)
    case = open_loops.several_servers_case(1000, 8, 0.7, 0.01)
    assert open_loops.several_servers_tail(case.limit.limit_ns / 1e9, 1000, 8, 0.7) == pytest.approx(0.01)
