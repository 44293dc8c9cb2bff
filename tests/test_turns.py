"""Points that take turns: their order, their merged outcome, their gains, repeats of disturbed runs, resuming."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from bench.truth.families import differs_in_turns, sine
from bench.truth.simulated import SHAPES, TurnNoise, capped_gain_coverage, gain_coverage, gain_verdicts
from data import synthetic
from goldens import Golden, cases, document, has, matches, picked, present
from iocurve.analysis import read
from iocurve.engine.outcome import Outcome, State
from iocurve.engine.plan import Plan
from iocurve.foundation.errors import Interrupted
from iocurve.foundation.units import MILLISECOND_NS, SECOND_NS
from iocurve.measure import campaign as campaigns
from iocurve.measure import local
from iocurve.measure.campaign import Campaign, Measurement, turn_places
from iocurve.measure.scenario.cases import CaseGroup, Cases, groups_of
from iocurve.measure.scenario.document import TURN_NS_MIN, Form, load
from iocurve.report.progress import NoView
from iocurve.report.table import result_table
from iocurve.result import turns
from iocurve.result.document import MachineUse, Point, Result
from iocurve.result.paired import RatePair, RateRatio, Verdict, counting_resolution, rate_ratio, verdict
from iocurve.result.stalls import noise
from iocurve.result.stats import student_quantile
from iocurve.targets.opened_target import UNOPENED
from plans import null_plan

PLAN = null_plan()
QUIET = MachineUse(busy_share=0.3, cpus=2, own_share=0.2, target_share=0.05, others_share=0.02, steal_share=0.0)
BUSY = QUIET.replace(busy_share=0.9, others_share=0.48)


class Runs:
    """Replaces the native engine: each run has the next rate, use of the machine and end."""

    def __init__(self, *ends: tuple[int, MachineUse, State] | Exception) -> None:
        self.ends = list(ends)
        self.seeds: list[int] = []

    def measure(self, plan: Plan, *_: object) -> synthetic.Measured:
        end = self.ends.pop(0)
        if isinstance(end, BaseException):
            raise end
        iops, machine, state = end
        self.seeds.append(plan.groups[0].workers[0].seed)
        return synthetic.measured(plan, outcome(iops, state=state), machine)


def outcome(count: int, *, state: State = "finished", latency_ns: int = 1000) -> Outcome:
    """A second with ``count`` reads in two intervals, after a ramp of half a second."""
    half = SECOND_NS // 2
    intervals = [
        synthetic.interval(0, 0, half, {"read": 7}, 4096).replace(ramp=True),
        synthetic.interval(1, half, 2 * half, {"read": count // 2}, 4096),
        synthetic.interval(2, 2 * half, 3 * half, {"read": count - count // 2}, 4096),
    ]
    worker = synthetic.worker_outcome(
        {"read": synthetic.kind({latency_ns: count}, 4096)},
        window_ns=(half, 3 * half),
        intervals=intervals if count else [],
        state=state,
    )
    return synthetic.outcome(worker)


def done(iops: int, machine: MachineUse = QUIET) -> tuple[int, MachineUse, State]:
    return iops, machine, "finished"


def carried_out(
    runs: Runs,
    rounds: int,
    *,
    names: Sequence[str] = ("a", "b"),
    earlier: Result | None = None,
    after: Callable[[Point], Point] = lambda point: point,
    keep: Callable[[Result], None] = lambda _: None,
    by_point: Sequence[Sequence[int]] = (),
) -> Result:
    """``by_point`` has the rates of each point, in the order of its turns."""
    seeds = iter(range(100, 1000))

    def again() -> Plan:
        worker = PLAN.groups[0].workers[0].replace(seed=next(seeds))
        return PLAN.replace(groups=(PLAN.groups[0].replace(workers=(worker,)),))

    points = earlier.points if earlier else ()
    campaign = Campaign(synthetic.result([]), NoView(), keep, order=names, earlier=points)
    if by_point:
        iterators = [iter(rates) for rates in by_point]
        places = turn_places(len(names), rounds, f"{campaign.order_seed} {names}")
        runs.ends = [done(next(iterators[place.member])) for place in places]
    group = [
        Measurement(PLAN, "family", name=name, plan_again=again, repeats_max=3, after=after, axes={"nconnect": number})
        for number, name in enumerate(names)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "measure", runs.measure)
        return campaigns.carry_out(campaign, lambda campaign: campaign.take_turns(group, rounds))


@cases("measure/turns")
def test_turns_of_two_points(ends: list[Any], by_point: list[list[int]], paths: list[str], golden: Golden) -> None:
    """``ends`` are rates of two rounds, with states where runs are cut short; ``by_point`` are those of any number."""
    made = [done(end) if isinstance(end, int) else (end[0], QUIET, end[1]) for end in ends]
    result = carried_out(Runs(*made), len(by_point[0]) if by_point else 2, by_point=by_point)
    told = {"result": result, "records": result.to_records(), "gains": list(map(read(result).gain_text, result.points))}
    golden.check([document(picked(told, path)) for path in paths])


# ---- order and merging


def test_points_take_turns_forwards_and_backwards() -> None:
    assert "".join("ABC"[place.member] for place in turn_places(3, 2, "a seed")) == "ABCCBA"
    assert [place.order for place in turn_places(3, 2, "a seed")] == [1, 2, 3, 4, 5, 6]
    assert turn_places(2, 9, "a seed") == turn_places(2, 9, "a seed")


@pytest.mark.parametrize("rounds", [3, 4, 5, 6, 10])
def test_the_rounds_that_run_backwards_are_drawn_and_follow_no_rhythm(rounds: int) -> None:
    """Two points in turns are A B or B A in each round."""
    drawn = set()
    for seed in range(50):
        members = [place.member for place in turn_places(2, rounds, str(seed))]
        assert all({first, second} == {0, 1} for first, second in zip(members[::2], members[1::2], strict=True))
        drawn.add(tuple(members[::2]))
    assert len(drawn) >= 4, "they are drawn"
    for firsts in drawn:
        assert 0 < sum(firsts[:5]) < min(rounds, 5), "a steady drift favours neither, however early the turns end"
        alternates = all(one != other for one, other in pairwise(firsts[:5]))
        assert rounds == 3 or not alternates, "a target that swings with a period of four turns favours neither"


@pytest.mark.parametrize("period", [40, 80, 160])
def test_a_rhythm_of_the_target_favours_neither_of_two_points(period: int) -> None:
    """With A B B A A B B A, 57 of 100 targets with a period of four turns, of 20 values each, were called different."""
    different = 0
    for run in range(60):
        values, _ = sine(np.random.default_rng(run), 200, period=period, gap=0.2)
        different += differs_in_turns(values, str(run))
    # 6 % of 60 are 3.6, with a standard error of 1.8.
    assert different <= 8


def test_the_turns_of_a_point_are_merged_and_kept() -> None:
    result = carried_out(Runs(*map(done, (100, 200, 220, 120))), 2)
    first, second = result.points
    assert (first.summary().operations, first.summary().iops, first.summary().window_ns) == (220, 110.0, 2 * SECOND_NS)
    assert len({*first.runs[0].seeds, *first.runs[1].seeds, *second.runs[1].seeds}) == 3
    assert Result.from_json(result.to_json()) == result


def test_a_merged_outcome_reads_as_one_run_without_gaps() -> None:
    whole = turns.merged(outcome(100, latency_ns=1000), outcome(300, latency_ns=3000))
    (worker,) = whole.workers
    half = SECOND_NS // 2
    matches(
        "measure#merged outcome reads", [(one.index, one.ramp, one.start_ns, one.end_ns) for one in worker.intervals]
    )
    assert (worker.window_start_ns, worker.window_end_ns) == (half, 5 * half)
    service = worker.operations["read"].service
    assert (service.count, service.min_ns, service.max_ns, service.mean_ns) == (400, 1000, 3000, 2500.0)
    assert service.stddev_ns == pytest.approx(math.sqrt(0.25 * 1500**2 + 0.75 * 500**2))


def test_each_turn_is_kept_as_soon_as_it_ends() -> None:
    kept: list[Result] = []
    carried_out(Runs(*map(done, (100, 200, 220, 120))), 2, keep=kept.append)
    assert [[len(point.runs) for point in result.points] for result in kept[:4]] == [[1], [1, 1], [1, 2], [2, 2]]
    states = [[point.outcome.state for point in result.points] for result in kept[1:3]]
    assert states == [["interrupted", "interrupted"], ["interrupted", "finished"]]


# ---- interruption and resuming


def test_an_interruption_in_the_middle_of_a_turn_keeps_everything_in_order() -> None:
    first = carried_out(Runs(done(100), done(200), (50, QUIET, "interrupted")), 2)
    assert (first.state, first.incomplete_reason) == ("interrupted", "point 2 of 2 (b) was cut short: interrupted")
    matches("measure#interruption middle", [[turn.state for turn in point.runs] for point in first.points])
    assert [point.summary().operations for point in first.points] == [100, 250]
    assert [point.outcome.state for point in first.points] == ["interrupted", "interrupted"]
    whole = carried_out(Runs(done(220), done(120)), 2, earlier=first)
    assert (whole.state, [point.outcome.state for point in whole.points]) == ("finished", ["finished", "finished"])
    matches(
        "measure#interruption middle 2",
        [[(turn.repetition, turn.state) for turn in point.runs] for point in whole.points],
    )
    assert [point.summary().operations for point in whole.points] == [220, 470]


def test_an_interruption_between_turns_keeps_them() -> None:
    result = carried_out(Runs(done(100), Interrupted("interrupted: filling caches")), 6)
    assert (result.state, [len(point.runs) for point in result.points]) == ("interrupted", [1])


def test_finished_points_are_not_measured_again() -> None:
    first = carried_out(Runs(*map(done, (100, 200, 220, 120))), 2)
    again = carried_out(Runs(), 2, earlier=first)
    assert again.points == first.points


def test_facts_are_added_once_all_points_had_their_turns() -> None:
    seen: list[tuple[str, int]] = []

    def after(point: Point) -> Point:
        seen.append((point.name, len(point.runs)))
        return point.replace(target="volume")

    result = carried_out(Runs(*map(done, (100, 200, 220, 120))), 2, after=after)
    assert (seen, [point.target for point in result.points]) == ([("a", 2), ("b", 2)], ["volume", "volume"])


# ---- noise


def measured(runs: Runs, repeats_max: int = 3) -> Point:
    """A point without turns."""
    campaign = Campaign(synthetic.result([]), NoView(), lambda _: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "measure", runs.measure)
        point = campaign.measure(Measurement(PLAN, "family", name="a", repeats_max=repeats_max))
    assert campaign.result.points == (point,)
    return point


@cases("measure/disturbed")
def test_others_disturb_a_run_from_the_thresholds_on(use: dict[str, float] | None, told: str | None) -> None:
    assert noise(None if use is None else QUIET.replace(**use), SECOND_NS) == told


def test_a_run_shorter_than_the_counters_can_tell_is_not_called_disturbed() -> None:
    assert noise(BUSY, 199 * MILLISECOND_NS) is None


def test_a_disturbed_turn_is_measured_again_at_most_three_times() -> None:
    """The first turn is disturbed once; the second stays disturbed, and its least disturbed run counts."""
    worse = BUSY.replace(others_share=0.6)
    runs = Runs(done(10, BUSY), done(100), done(50, worse), done(60, BUSY), done(40, worse), done(41, worse))
    first, second = carried_out(runs, 1).points
    assert (first.summary().iops, first.retries, first.noise) == (100.0, 1, None)
    assert (second.summary().iops, second.retries) == (60.0, 3)
    assert (second.noise, runs.ends) == ("1 of 1 runs: other processes used 48% of the processors", [])


def test_a_point_without_turns_is_measured_again_and_marked() -> None:
    runs = Runs(*[done(count, BUSY) for count in (1, 2, 3, 4)])
    point = measured(runs)
    assert (point.retries, point.noise) == (3, "other processes used 48% of the processors")
    told = synthetic.result([point])
    matches("measure#point without", read(told).doubts[-1])
    assert told.to_records()[0]["noise"] == "other processes used 48% of the processors"
    assert result_table(read(told)).rows[0][-1].endswith("noisy")


STARVED = BUSY.replace(target_delay_share=0.9)


class Stalling(Runs):
    """Runs of 10 s at 100 IOPS; a negative number is that of the seconds for which the target stalled."""

    def measure(self, plan: Plan, *_: object) -> synthetic.Measured:
        end = self.ends.pop(0)
        assert not isinstance(end, BaseException)
        count, machine, _state = end
        latencies = {1_000_000: 1000} if count > 0 else {1_000_000: 1000, -count * SECOND_NS: 1}
        worker = synthetic.worker_outcome(
            {"read": synthetic.kind(latencies, 4096)}, window_ns=(0, 10 * SECOND_NS), intervals=[]
        )
        return synthetic.measured(plan, synthetic.outcome(worker), machine)


@pytest.mark.parametrize(
    ("ends", "counts", "repeats"),
    [
        pytest.param([done(-3, BUSY)], 3.0, 0, id="a disturbed run with a stall is not repeated"),
        pytest.param([done(1, BUSY), done(-3, BUSY)], 3.0, 1, id="nor is the stall of a repeat left out"),
        pytest.param([done(1, BUSY), done(-3)], 3.0, 1, id="nor that of a quiet one"),
        pytest.param([done(-3, STARVED), done(1)], 0.001, 1, id="unless the target had no processor"),
    ],
)
def test_a_stall_of_the_target_is_never_repeated_away(
    ends: list[tuple[int, MachineUse, State]], counts: float, repeats: int
) -> None:
    runs = Stalling(*ends)
    point = measured(runs)
    longest_s = point.summary().service.max_ns / SECOND_NS
    assert (longest_s, point.retries, len(point.discarded), runs.ends) == (counts, repeats, repeats, [])
    again = carried_out(Stalling(*ends, done(1)), 1).points
    assert (again[0].summary().service.max_ns / SECOND_NS, len(again[0].discarded)) == (counts, repeats)


def test_the_runs_that_do_not_count_stand_in_every_output() -> None:
    runs = Stalling(done(-3, STARVED), done(1))
    point = measured(runs)
    result = Result.from_builtins(synthetic.result([point]).to_builtins())
    (one,) = result.points[0].discarded
    assert (one.max_ns, one.noise) == (3 * SECOND_NS, STARVED_TEXT)
    told = (
        "a was measured again 1 time because others used this machine; runs that do not count: "
        f"100 IOPS, longest operation 3 s ({STARVED_TEXT})"
    )
    assert f"{told}." in read(result).doubts
    assert result.to_records()[0]["discarded"] == f"100 IOPS, longest operation 3 s ({STARVED_TEXT})"
    assert read(result).trust[1].endswith("; 1 disturbed run measured again, longest operation 3 s")


STARVED_TEXT = (
    "other processes used 48% of the processors, a thread of the target waited for a processor for 90% of the time"
)


def test_a_run_that_may_not_be_repeated_is_marked_only() -> None:
    runs = Runs(done(1, BUSY))
    point = measured(runs, 0)
    assert (point.retries, point.noise, runs.ends) == (0, "other processes used 48% of the processors", [])


def test_repeats_take_about_as_long_as_the_points_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run takes two thirds of the time that was said: the second point has no repeats."""
    runs = Runs(*[done(count, BUSY) for count in (1, 2, 3, 4)])
    now = iter(range(0, 100, 2))
    monkeypatch.setattr(campaigns, "monotonic", lambda: next(now))
    monkeypatch.setattr(local, "measure", runs.measure)
    campaign = Campaign(synthetic.result([]), NoView(), lambda _: None)
    campaign.seconds_planned = 3.0
    points = [campaign.measure(Measurement(PLAN, "family", name=name, repeats_max=3)) for name in "ab"]
    assert ([point.retries for point in points], runs.ends) == ([2, 0], [])
    assert [note.text for note in campaign.result.notes] == ["noisy runs were measured again for 4 s, and then no more"]


@pytest.mark.parametrize(
    ("limit_s", "share", "runs_each", "repeats"),
    [(100, 0.5, 3, 0), (100, 0.9, 4, 0), (50, 0.9, 2, 0), (1000, 1, 6, 6), (140, 1, 6, 2)],
)
def test_turns_and_repeats_end_with_their_share_of_the_time(
    monkeypatch: pytest.MonkeyPatch, limit_s: int, share: float, runs_each: int, repeats: int
) -> None:
    """A run takes 10 s. As many rounds as an interval needs may take from later points; repeats take what is left."""
    runs, now = Runs(*[done(1, BUSY)] * 18), [0]

    def measure(plan: Plan, *_: object) -> synthetic.Measured:
        now[0] += 10
        return runs.measure(plan)

    monkeypatch.setattr(campaigns, "monotonic", lambda: now[0])
    monkeypatch.setattr(local, "measure", measure)
    campaign = Campaign(synthetic.result([]), NoView(), lambda _: None, order=("a", "b"))
    campaign.limit_time(limit_s * SECOND_NS)
    campaign.share_time(share, 120)
    campaign.take_turns([Measurement(PLAN, "family", name=name, repeats_max=3) for name in "ab"], 6)
    found = campaign.result.points
    assert [(len(point.runs), point.outcome.state) for point in found] == [(runs_each, "finished")] * 2
    assert sum(point.retries for point in found) == repeats
    notes = [] if runs_each == 6 else [f"--search-time ended the runs after {runs_each} of 6"]
    assert [note.text for note in campaign.result.notes if note.code == "left_out"] == notes


# ---- gains


def pairs(*rates: tuple[float, float]) -> list[RatePair]:
    """Rates and those of their bases, in turns A B B A …."""
    return [
        RatePair(rate, base, 2 * number + (number % 2 == 0), 2 * number + (number % 2 == 1))
        for number, (rate, base) in enumerate(rates)
    ]


def told(*rates: tuple[float, float], margin: float = 0.1) -> RateRatio:
    return present(rate_ratio(pairs(*rates), margin))


def test_a_ratio_is_the_geometric_mean_of_the_pairs_with_students_interval() -> None:
    """Widened for the correlation of turns that makes the pairs A B B A A B B A resemble each other most."""
    factors = (1.01, 1.01, 0.99, 0.99)
    found = told(*((200 * factor, 100) for factor in factors))
    logs = [math.log(2 * factor) for factor in factors]
    mean = sum(logs) / 4
    widening = max(map(standard_error_ratio, (0.2, 0.25, 0.3, 0.35, 0.4)))
    half = widening * student_quantile(2) * math.sqrt(sum((log - mean) ** 2 for log in logs) / 2 / 4)
    expected = math.exp(mean), math.exp(mean - half), math.exp(mean + half)
    assert (found.value, found.low, found.high) == pytest.approx(expected, rel=1e-3)


def standard_error_ratio(correlation: float) -> float:
    """True by shown standard error of the mean of four pairs A B B A A B B A in AR(1) noise, by its covariances."""
    turns = np.arange(8)
    noise = correlation ** np.abs(turns - turns[:, None])
    pairs = np.eye(8)[[1, 2, 5, 6]] - np.eye(8)[[0, 3, 4, 7]]
    of_pairs = pairs @ noise @ pairs.T
    # The deviations of two values from their mean, squared, are half of the square of their difference.
    rest = sum(one @ of_pairs @ one / 2 for one in ([1, 0, -1, 0], [0, 1, 0, -1]))
    return math.sqrt(of_pairs.sum() / 16 / (rest / 2 / 4))


def test_a_steady_drift_changes_neither_the_ratio_nor_its_interval() -> None:
    """A machine that loses a tenth with every turn, and a ratio of 2."""
    speeds = [0.9**turn for turn in range(8)]
    ahead = [(200 * speeds[2 * one + (one % 2 == 0)], 100 * speeds[2 * one + (one % 2 == 1)]) for one in range(4)]
    found = told(*ahead)
    assert (found.value, found.low, found.high) == pytest.approx((2, 2, 2))


@pytest.mark.parametrize("rates", [[], [(100.0, 0.0)] * 4])
def test_nothing_is_compared_with_nothing(rates: list[tuple[float, float]]) -> None:
    assert rate_ratio(pairs(*rates)) is None


@cases("measure/ratios")
def test_a_ratio_of_turns_has_a_verdict_and_the_bounds_that_its_turns_support(
    rates: list[tuple[float, float]], margin: float, expected: dict[str, Any]
) -> None:
    has(told(*rates, margin=margin), expected)


@cases("measure/bounds")
def test_bounds_of_a_ratio_are_told(value: float, low: float | None, high: float | None, text: str) -> None:
    assert RateRatio(value, low, high).bounds_text == text


@cases("measure/verdicts")
def test_a_verdict_says_what_the_interval_excludes(
    low: float | None, high: float | None, margin: float, expected: Verdict
) -> None:
    assert verdict(low, high, margin) == expected


def test_the_gain_of_two_points_is_that_of_their_rounds() -> None:
    result = carried_out(Runs(), 4, by_point=([100] * 4, [200] * 4))
    base, point = result.points
    gain = present(point.speedup_over(base))
    # The turns are equal: what is left is an operation more or less in each of 100 and of 200.
    assert (gain.value, gain.low, gain.high) == pytest.approx((2.0, 2.0 / 1.015, 2.03))
    record = result.to_records()[1]
    assert record["speedup_over"] == "a"
    assert record["speedup"] == pytest.approx(2.0)
    assert (record["speedup_margin"], record["speedup_verdict"]) == (0.1, "faster")
    assert result.to_records()[0]["speedup"] is None


def test_points_that_took_no_turns_have_a_ratio_without_an_interval() -> None:
    one, two = synthetic.envelope().points[:2]
    found = present(two.speedup_over(one))
    assert (found.low, found.high) == (None, None)


@cases("measure/intervals_of_gains_hold_the_truth")
def test_intervals_of_gains_hold_the_truth(members: int, rounds: int, correlation: float, drift: float) -> None:
    """AR(1) noise over the turns of all points, and a steady drift; fixed seeds.

    docs/evidence/accuracy.md has more runs.
    """
    counted = gain_coverage(members, rounds, TurnNoise(correlation=correlation, drift=drift), 1000)
    assert counted.share >= 0.93


@pytest.mark.parametrize("truth", [1.03, 1.05, 1.1])
@pytest.mark.parametrize(("batch", "depth"), [(1, 1), (1, 32), (8, 32)])
def test_intervals_of_steady_gains_are_no_narrower_than_counts_allow(truth: float, batch: int, depth: int) -> None:
    counted = capped_gain_coverage(truth, 400, rate=1007.3, batch=batch, depth=depth)
    assert counted.share >= 0.93, f"{counted.share:.1%}"
    assert counted.widths / counted.runs < 0.03


def test_a_count_is_known_to_a_batch_of_completions() -> None:
    cases = [(1000, 0.3, 4), (1000, 32, 1), (1000, 32, 8), (1000, 32, 1 << 20), (0, 0, 0)]
    assert [counting_resolution(*one) for one in cases] == [0.001, 0.001, 0.008, 0.032, 1.0]
    run = outcome(500, latency_ns=20_000_000)
    worker = run.workers[0].replace(complete_levels={"0": 900, "4": 99, "8": 100, ">=64": 1})
    points = [synthetic.point(PLAN, one) for one in (worker, worker.replace(complete_levels={}))]
    several, single = (turns.turn_of(point, (1, 1)) for point in points)
    assert (several.batch, single.batch) == (8, 1)
    assert (several.resolution(), single.resolution(single.iops / 5)) == (8 / 500, 1 / 100)


@pytest.mark.parametrize("shape", SHAPES)
def test_verdicts_on_gains_are_seldom_wrong(shape: str) -> None:
    """Under drawn noise, correlation and drift; docs/evidence/accuracy.md has more runs."""
    for rounds in (3, 6):
        same, more = (gain_verdicts(rounds, shape, truth, 400) for truth in (1.0, 1.1))
        assert same["faster"] + same["slower"] <= 0.075 * 400
        assert more["no difference"] <= 0.05 * 400
    assert gain_verdicts(6, "normal", 1.2, 200)["faster"] > 0.7 * 200


# ---- groups of a scenario


def groups_in(name: str, form_name: str = "short", *, compared: bool = True) -> list[CaseGroup]:
    scenario = load(name)
    form: Form = getattr(scenario, form_name)
    cases = Cases(scenario, form, {need.name: UNOPENED for need in scenario.targets}, "").all()
    return groups_of(cases, scenario.comparisons if compared else (), form)


@cases("measure/groups")
def test_points_that_are_compared_take_turns(name: str, golden: Golden) -> None:
    """Points that differ only in a compared axis, families mix by mix, and only chosen axis values."""
    golden.check([[case.name for case in group.cases] for group in groups_in(name)])


@cases("measure/group_bases")
def test_the_gain_of_a_point_is_over_the_family_or_the_axis_value_that_it_is_compared_with(
    name: str, expected: dict[str, str]
) -> None:
    turns = [group for group in groups_in(name) if group.rounds > 1]
    assert expected.items() <= {case.name: group.compared(case)[0] for group in turns for case in group.cases}.items()


@pytest.mark.parametrize(("form_name", "turn_ns"), [("short", TURN_NS_MIN), ("full", 100 * SECOND_NS)])
def test_a_turn_is_a_part_of_the_time_and_never_too_short(form_name: str, turn_ns: int) -> None:
    groups = groups_in("anf-vdbench", form_name, compared=False)
    form: Form = getattr(load("anf-vdbench"), form_name)
    assert (groups[0].rounds, groups[0].turn_ns) == (1, form.runtime_ns)
    assert (groups[6].rounds, groups[6].turn_ns) == (6, turn_ns)
    runtimes = {section.ending.runtime_ns for case in groups[6].cases for section in case.job.sections}
    assert runtimes == {turn_ns}
