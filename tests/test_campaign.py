"""The measuring loop: results that it keeps, ends of a run, points reused from an earlier run."""

import io
from typing import Any

import pytest
from msgspec.structs import replace

from data import synthetic
from goldens import cases
from iocurve.dialects.base import Step
from iocurve.engine import plan
from iocurve.foundation.errors import Interrupted, RunError, TargetError
from iocurve.foundation.units import SECOND_NS
from iocurve.measure import campaign as campaigns
from iocurve.measure import local
from iocurve.measure.campaign import Campaign, Measurement
from iocurve.measure.jobs import gap_text
from iocurve.report.progress import NoView, PlainView
from iocurve.result import stalls
from iocurve.result.caps import caps
from iocurve.result.document import Result, TargetFacts
from plans import null_plan

ERRORS = {error.__name__: error for error in (TargetError, RunError, Interrupted, KeyboardInterrupt)}


class Runs:
    """Replaces the native engine: every run ends as the test says, with a state or an error."""

    def __init__(self, *ends: Any) -> None:
        self.ends = list(ends)

    def measure(self, plan: plan.Plan, *_: object) -> synthetic.Measured:
        end = self.ends.pop(0)
        if isinstance(end, BaseException):
            raise end
        worker = synthetic.worker_outcome({"read": synthetic.kind({100: 5}, 4096)}, state=end)
        return synthetic.measured(plan, synthetic.outcome(worker).replace(state=end))


def carried_out(
    monkeypatch: pytest.MonkeyPatch,
    runs: Runs,
    names: list[str],
    earlier: Result | None = None,
    count: int | None = None,
) -> tuple[Result, list[int]]:
    monkeypatch.setattr(local, "measure", runs.measure)
    kept: list[int] = []
    points = earlier.points if earlier else ()
    head = synthetic.result([])
    campaign = Campaign(head, NoView(), lambda result: kept.append(len(result.points)), count=count, earlier=points)

    def body(campaign: Campaign) -> None:
        for name in names:
            campaign.measure(Measurement(null_plan(), "family", name=name))

    return campaigns.carry_out(campaign, body), kept


@cases("measure/ends_of_points")
def test_every_point_is_kept_as_soon_as_it_is_measured(
    monkeypatch: pytest.MonkeyPatch, ends: list[Any], names: str, found: list[Any], kept: list[int]
) -> None:
    runs = Runs(*(end if isinstance(end, str) else ERRORS[end[0]](*end[1:]) for end in ends))
    result, numbers = carried_out(monkeypatch, runs, list(names), count=len(names))
    assert [result.state, result.incomplete_reason, [point.name for point in result.points]] == found
    assert numbers == kept


def test_an_error_before_the_first_point_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TargetError, match="gone"):
        carried_out(monkeypatch, Runs(TargetError("gone")), ["a"])


def deep(depth: int, seconds: int, block_bytes: int = 4096) -> plan.Plan:
    worker = synthetic.worker_plan(depth=depth, runtime_ns=seconds * SECOND_NS, block_bytes=block_bytes)
    return synthetic.plan([worker])


@cases("measure/short_for_a_known_rate")
def test_a_run_that_is_short_for_a_known_rate_is_remarked_before_it(
    monkeypatch: pytest.MonkeyPatch, second: dict[str, int], users: bool, told: str | None
) -> None:
    """The point before had 10 IOPS."""
    before: list[str] = []
    out = io.StringIO()

    def measure(plan: plan.Plan, *_: object) -> synthetic.Measured:
        before.append(out.getvalue())
        worker = synthetic.worker_outcome({"read": synthetic.kind({100: 40}, 4096)}, window_ns=(0, 4 * SECOND_NS))
        return synthetic.measured(plan, synthetic.outcome(worker))

    monkeypatch.setattr(local, "measure", measure)
    campaign = Campaign(synthetic.result([]), PlainView(out, keeps_lines=False), lambda _: None)
    for name, one in (("first", deep(1, 4)), ("second", deep(**second))):
        campaign.measure(Measurement(one, "family", name=name, length_is_users=users))
    assert before[0] == ""
    assert before[1].startswith(f"warning: second: {told}") if told else before[1] == ""


@cases("measure/at_most")
def test_the_limits_of_a_target_say_what_a_plan_may_do_at_most(
    limits: dict[str, int], target: dict[str, Any], iops: float | None
) -> None:
    facts = TargetFacts(kind="embedded_volume", address="a", caps=caps(limits), **target)
    assert stalls.limit_iops(facts, deep(1, 1, block_bytes=4096)) == iops


def test_the_time_between_phases_is_told_where_it_is_long() -> None:
    worker = synthetic.worker_outcome({"read": synthetic.kind({100: 40}, 4096)}, window_ns=(0, 2 * SECOND_NS))
    outcome = synthetic.outcome(worker)
    step = Step(name="File stat", plan=lambda _: None, pause_ns=SECOND_NS, is_timed_phase=True)
    # The time since the phase before includes 2 s of its load and 1 s of pause.
    assert gap_text(step, outcome, 4 * SECOND_NS) == ""
    assert gap_text(step, outcome, 6 * SECOND_NS).startswith("3 s passed between the phase before")
    assert gap_text(replace(step, is_timed_phase=False), outcome, 6 * SECOND_NS) == ""


def test_points_finished_by_an_earlier_run_are_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = carried_out(monkeypatch, Runs("finished", "interrupted"), ["a", "b", "c"])
    again, _ = carried_out(monkeypatch, Runs("finished", "finished"), ["a", "b", "c"], first)
    assert again.points[0] is first.points[0]
    assert [point.outcome.state for point in again.points] == ["finished"] * 3
