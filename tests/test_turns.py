"""Points that take turns: their order, their merged outcome, their gains, repeats of disturbed runs, resuming."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from bench.truth.simulated import gain_coverage
from data import synthetic
from iocurve.analysis import read
from iocurve.engine.outcome import Outcome, State
from iocurve.engine.plan import Plan
from iocurve.errors import Interrupted
from iocurve.measure import campaign as campaigns
from iocurve.measure import local
from iocurve.measure.campaign import Campaign, Measurement, turn_places
from iocurve.measure.scenario.cases import Cases
from iocurve.measure.scenario.document import ROUNDS, TURN_NS_MIN, load
from iocurve.measure.scenario.groups import groups_of
from iocurve.report.table import result_table
from iocurve.report.view import NoView
from iocurve.result import turns
from iocurve.result.disturbance import disturbance
from iocurve.result.document import MachineUse, Point, Result
from iocurve.result.paired import WIDENING, RatePair, rate_ratio
from iocurve.result.stats import student_quantile
from iocurve.targets.opened_target import UNOPENED
from iocurve.units import MILLISECOND_NS, SECOND_NS
from plans import null_plan

PLAN = null_plan()
QUIET = MachineUse(busy_share=0.3, cpus=2, own_share=0.2, target_share=0.05, others_share=0.02, steal_share=0.0)
BUSY = QUIET.replace(busy_share=0.9, others_share=0.48)


class Runs:
    """Replaces the native engine: each run has the next rate, use of the machine and end."""

    def __init__(self, *ends: tuple[int, MachineUse, State] | Exception) -> None:
        self.ends = list(ends)
        self.seeds: list[int] = []

    def measure(self, plan: Plan, *_: object) -> local.Measured:
        end = self.ends.pop(0)
        if isinstance(end, BaseException):
            raise end
        iops, machine, state = end
        self.seeds.append(plan.groups[0].workers[0].seed)
        return local.Measured(plan, outcome(iops, state=state), None, machine)


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
    monkeypatch: pytest.MonkeyPatch,
    runs: Runs,
    rounds: int,
    *,
    names: Sequence[str] = ("a", "b"),
    earlier: Result | None = None,
    after: Callable[[Point], Point] = lambda point: point,
    kept: list[Result] | None = None,
) -> Result:
    monkeypatch.setattr(local, "measure", runs.measure)
    seeds = iter(range(100, 1000))

    def again() -> Plan:
        worker = PLAN.groups[0].workers[0].replace(seed=next(seeds))
        return PLAN.replace(groups=(PLAN.groups[0].replace(workers=(worker,)),))

    def keep(result: Result) -> None:
        if kept is not None:
            kept.append(result)

    points = earlier.points if earlier else ()
    campaign = Campaign(synthetic.result([]), NoView(), keep, order=names, earlier=points)
    group = [
        Measurement(PLAN, "family", name=name, plan_again=again, repeats_max=3, after=after, axes={"nconnect": number})
        for number, name in enumerate(names)
    ]
    return campaigns.carry_out(campaign, lambda campaign: campaign.take_turns(group, rounds))


# ---- order and merging


def test_points_take_turns_forwards_and_backwards() -> None:
    assert "".join("AB"[place.member] for place in turn_places(2, 4)) == "ABBAABBA"
    assert "".join("ABC"[place.member] for place in turn_places(3, 3)) == "ABCCBAABC"
    assert [place.order for place in turn_places(3, 2)] == [1, 2, 3, 4, 5, 6]


def test_the_turns_of_a_point_are_merged_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(*map(done, (100, 200, 220, 120)))
    result = carried_out(monkeypatch, runs, 2)
    first, second = result.points
    assert result.state == first.outcome.state == second.outcome.state == "finished"
    assert [(turn.round, turn.order, turn.iops) for turn in first.turns] == [(1, 1, 100.0), (2, 4, 120.0)]
    assert [(turn.round, turn.order, turn.iops) for turn in second.turns] == [(1, 2, 200.0), (2, 3, 220.0)]
    assert (first.summary().operations, first.summary().iops, first.summary().window_ns) == (220, 110.0, 2 * SECOND_NS)
    assert first.compared_with == second.compared_with == ("a", "b")
    assert len({*first.turns[0].seeds, *first.turns[1].seeds, *second.turns[1].seeds}) == 3
    assert Result.from_json(result.to_json()) == result


def test_a_merged_outcome_reads_as_one_run_without_gaps() -> None:
    whole = turns.merged(outcome(100, latency_ns=1000), outcome(300, latency_ns=3000))
    (worker,) = whole.workers
    half = SECOND_NS // 2
    assert [(one.index, one.ramp, one.start_ns, one.end_ns) for one in worker.intervals] == [
        (0, True, 0, half),
        (1, False, half, 2 * half),
        (2, False, 2 * half, 3 * half),
        (4, False, 3 * half, 4 * half),
        (5, False, 4 * half, 5 * half),
    ]
    assert (worker.window_start_ns, worker.window_end_ns) == (half, 5 * half)
    service = worker.operations["read"].service
    assert (service.count, service.min_ns, service.max_ns, service.mean_ns) == (400, 1000, 3000, 2500.0)
    assert service.stddev_ns == pytest.approx(math.sqrt(0.25 * 1500**2 + 0.75 * 500**2))


def test_each_turn_is_kept_as_soon_as_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Result] = []
    carried_out(monkeypatch, Runs(*map(done, (100, 200, 220, 120))), 2, kept=kept)
    assert [[len(point.turns) for point in result.points] for result in kept[:4]] == [[1], [1, 1], [1, 2], [2, 2]]
    states = [[point.outcome.state for point in result.points] for result in kept[:4]]
    assert states[1] == ["interrupted", "interrupted"]
    assert states[2] == ["interrupted", "finished"]


# ---- interruption and resuming


def test_an_interruption_in_the_middle_of_a_turn_keeps_everything_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    first = carried_out(monkeypatch, Runs(done(100), done(200), (50, QUIET, "interrupted")), 2)
    assert (first.state, first.incomplete_reason) == ("interrupted", "point 2 of 2 (b) was cut short: interrupted")
    assert [[turn.state for turn in point.turns] for point in first.points] == [
        ["finished"],
        ["finished", "interrupted"],
    ]
    assert [point.summary().operations for point in first.points] == [100, 250]
    assert [point.outcome.state for point in first.points] == ["interrupted", "interrupted"]
    whole = carried_out(monkeypatch, Runs(done(220), done(120)), 2, earlier=first)
    assert whole.state == "finished"
    assert [point.outcome.state for point in whole.points] == ["finished", "finished"]
    assert [[(turn.round, turn.state) for turn in point.turns] for point in whole.points] == [
        [(1, "finished"), (2, "finished")],
        [(1, "finished"), (2, "interrupted"), (2, "finished")],
    ]
    assert [point.summary().operations for point in whole.points] == [220, 470]


def test_an_interruption_between_turns_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    result = carried_out(monkeypatch, Runs(done(100), Interrupted("interrupted: filling caches")), 6)
    assert (result.state, [len(point.turns) for point in result.points]) == ("interrupted", [1])


def test_finished_points_are_not_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    first = carried_out(monkeypatch, Runs(*map(done, (100, 200, 220, 120))), 2)
    again = carried_out(monkeypatch, Runs(), 2, earlier=first)
    assert again.points == first.points


def test_facts_are_added_once_all_points_had_their_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int]] = []

    def after(point: Point) -> Point:
        seen.append((point.name, len(point.turns)))
        return point.replace(target="volume")

    result = carried_out(monkeypatch, Runs(*map(done, (100, 200, 220, 120))), 2, after=after)
    assert seen == [("a", 2), ("b", 2)]
    assert [point.target for point in result.points] == ["volume", "volume"]


# ---- disturbance


@pytest.mark.parametrize(
    ("use", "told"),
    [
        (QUIET, None),
        (None, None),
        (QUIET.replace(others_share=0.1), "other processes used 10% of the processors"),
        (QUIET.replace(others_share=0.099), None),
        (QUIET.replace(steal_share=0.02), "the hypervisor took 2%"),
        # Threads of the load and of the target wait for each other: not a disturbance by itself.
        (QUIET.replace(thread_delay_share=0.6), None),
        (
            QUIET.replace(thread_delay_share=0.1, others_share=0.09),
            None,
        ),
        (
            QUIET.replace(cpus=4, thread_delay_share=0.1, others_share=0.05),
            "a thread waited for a processor for 10% of the time",
        ),
    ],
)
def test_others_disturb_a_run_from_the_thresholds_on(use: MachineUse | None, told: str | None) -> None:
    assert disturbance(use, SECOND_NS) == told


def test_a_run_shorter_than_the_counters_can_tell_is_not_called_disturbed() -> None:
    assert disturbance(BUSY, 199 * MILLISECOND_NS) is None


def test_a_disturbed_turn_is_measured_again_at_most_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first turn is disturbed once; the second stays disturbed, and its least disturbed run counts."""
    worse = BUSY.replace(others_share=0.6)
    runs = Runs(done(10, BUSY), done(100), done(50, worse), done(60, BUSY), done(40, worse), done(41, worse))
    first, second = carried_out(monkeypatch, runs, 1).points
    assert (first.summary().iops, first.repeats, first.disturbance) == (100.0, 1, None)
    assert (second.summary().iops, second.repeats) == (60.0, 3)
    assert second.disturbance == "1 of 1 turns: other processes used 48% of the processors"
    assert runs.ends == []


def test_a_point_without_turns_is_measured_again_and_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(*[done(count, BUSY) for count in (1, 2, 3, 4)])
    monkeypatch.setattr(local, "measure", runs.measure)
    campaign = Campaign(synthetic.result([]), NoView(), lambda _: None)
    point = campaign.measure(Measurement(PLAN, "family", name="a", repeats_max=3))
    assert (point.repeats, point.disturbance) == (3, "other processes used 48% of the processors")
    assert campaign.result.points == (point,)
    told = synthetic.result([point])
    assert read(told).doubts[-1] == (
        "1 of 1 point were disturbed by other work on this machine, also when measured again: "
        "a (other processes used 48% of the processors)."
    )
    assert told.to_records()[0]["disturbance"] == "other processes used 48% of the processors"
    assert "disturbed" in result_table(told)._columns


def test_a_run_that_may_not_be_repeated_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(done(1, BUSY))
    monkeypatch.setattr(local, "measure", runs.measure)
    point = Campaign(synthetic.result([]), NoView(), lambda _: None).measure(Measurement(PLAN, "family"))
    assert (point.repeats, point.disturbance, runs.ends) == (0, None, [])


# ---- gains


def pairs(*rates: tuple[float, float]) -> list[RatePair]:
    return [RatePair(rate, base, number % 2 == 0) for number, (rate, base) in enumerate(rates)]


def test_a_ratio_is_the_geometric_mean_of_the_pairs_with_students_interval() -> None:
    factors = (1.01, 1.01, 0.99, 0.99)
    found = rate_ratio(pairs(*((200 * factor, 100) for factor in factors)))
    assert found is not None
    logs = [math.log(2 * factor) for factor in factors]
    mean = sum(logs) / 4
    half = WIDENING * student_quantile(2) * math.sqrt(sum((log - mean) ** 2 for log in logs) / 2 / 4)
    expected = math.exp(mean), math.exp(mean - half), math.exp(mean + half)
    assert (found.value, found.low, found.high) == pytest.approx(expected)


def test_a_steady_drift_changes_neither_the_ratio_nor_its_interval() -> None:
    """A machine that loses a tenth with every turn, and a ratio of 2."""
    speeds = [0.9**turn for turn in range(8)]
    ahead = [
        RatePair(200 * speeds[2 * one + (one % 2 == 0)], 100 * speeds[2 * one + (one % 2 == 1)], one % 2 == 0)
        for one in range(4)
    ]
    found = rate_ratio(ahead)
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((2, 2, 2))


@pytest.mark.parametrize("rates", [[], [(0.0, 100.0)] * 4])
def test_nothing_is_compared_with_nothing(rates: list[tuple[float, float]]) -> None:
    assert rate_ratio(pairs(*rates)) is None


def test_two_pairs_get_no_interval() -> None:
    found = rate_ratio(pairs((200, 100), (200, 100)))
    assert found is not None
    assert found.value == pytest.approx(2)
    assert (found.low, found.high) == (None, None)


def test_the_gain_of_two_points_is_that_of_their_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    result = carried_out(monkeypatch, Runs(*map(done, (100, 200, 200, 100, 100, 200, 200, 100))), 4)
    base, point = result.points
    gain = point.gain_over(base)
    assert gain is not None
    assert (gain.value, gain.low, gain.high) == pytest.approx((2.0, 2.0, 2.0))
    record = result.to_records()[1]
    assert record["gain_over"] == "a"
    assert record["gain"] == pytest.approx(2.0)
    assert result.to_records()[0]["gain"] is None


def test_points_that_took_no_turns_have_a_ratio_without_an_interval() -> None:
    one, two = synthetic.envelope().points[:2]
    found = two.gain_over(one)
    assert found is not None
    assert (found.low, found.high) == (None, None)


@pytest.mark.parametrize(
    ("members", "correlation", "drift"), [(2, 0.0, 0.0), (2, 0.5, 0.0), (2, 0.7, 0.3), (3, 0.5, 0.3), (8, 0.7, 0.0)]
)
def test_intervals_of_gains_hold_the_truth(members: int, correlation: float, drift: float) -> None:
    """AR(1) noise over the turns of all points, and a steady drift; fixed seeds. docs/truth.md has more runs."""
    counted = gain_coverage(members, ROUNDS, correlation, drift, runs=1000)
    assert 0.93 <= counted.share <= 0.97


# ---- groups of a scenario


def grouped(name: str, *, rounds: int = ROUNDS) -> list[list[str]]:
    scenario = load(name)
    form = replace(scenario.short, rounds=rounds)
    cases = Cases(scenario, form, {need.name: UNOPENED for need in scenario.targets}, "").all()
    return [[case.name for case in group.cases] for group in groups_of(cases, scenario.comparisons, form)]


def test_points_that_differ_only_in_a_compared_axis_are_a_group() -> None:
    first, *_ = grouped("anf-vdbench")[6:]
    assert first == ["latency-8k near depth 12", "latency-8k far depth 12"]
    assert [len(group) for group in grouped("anf-vdbench")] == [1] * 6 + [2] * 4


def test_families_that_are_compared_are_a_group_mix_by_mix() -> None:
    groups = grouped("anf-regular-iops")
    assert [len(group) for group in groups] == [2, 2, 2, 1, 1, 1]
    assert groups[0] == ["random-4k-cached 100:0", "random-4k 100:0"]


def test_a_turn_is_a_part_of_the_time_and_never_too_short() -> None:
    scenario = load("anf-vdbench")
    for form, turn_ns in ((scenario.short, TURN_NS_MIN), (scenario.full, 100 * SECOND_NS)):
        cases = Cases(scenario, form, {need.name: UNOPENED for need in scenario.targets}, "").all()
        single, group = (groups_of(cases, (), form)[index] for index in (0, 6))
        assert (single.rounds, single.turn_ns) == (1, form.runtime_ns)
        assert (group.rounds, group.turn_ns) == (6, turn_ns)
        runtimes = {section.ending.runtime_ns for case in group.cases for section in case.job.sections}
        assert runtimes == {turn_ns}
