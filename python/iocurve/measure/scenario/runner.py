"""Carries out a scenario: point after point, each kept as soon as it is measured, so that a run can be resumed."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from iocurve import _native
from iocurve.engine.outcome import Live, Outcome
from iocurve.engine.plan import Plan
from iocurve.errors import Interrupted, RunError, TargetError
from iocurve.job.model import Job
from iocurve.job.resolve import plan_here
from iocurve.measure import campaign as series
from iocurve.measure import local
from iocurve.measure.scenario.caches import Caches
from iocurve.measure.scenario.cases import Case, Cases
from iocurve.measure.scenario.document import Form, Scenario
from iocurve.report.console import LiveView
from iocurve.result import host, reference
from iocurve.result.document import FamilyFacts, Point, Result, ScenarioFacts, TargetFacts
from iocurve.targets import opened_target as place
from iocurve.targets import target as targets
from iocurve.targets.opened_target import Place
from iocurve.targets.target import Target
from iocurve.units import SECOND_NS, format_bytes, format_duration

FormName = Literal["full", "short", "scaled"]
Keep = Callable[[Result], None]
CLIENTS_STAND_IN = (
    "the clients are stand-ins: workers on this machine, which share its processors; "
    "to a server on loopback each has an address of its own"
)


@dataclass(frozen=True)
class Request:
    """What a person asked for."""

    scenario: Scenario
    form: Form
    form_name: FormName
    targets: Mapping[str, Target]
    overwrite: bool = False
    keep_data: bool = False
    is_wanted: Callable[[Case], bool] = lambda _: True


def shortened(request: Request, left_out: int) -> tuple[str, ...]:
    """What is smaller than in full, or left out."""
    full, form = request.scenario.full, request.form
    sizes = (
        ("data set", full.size_bytes, form.size_bytes, format_bytes),
        ("unrelated data", full.unrelated_bytes, form.unrelated_bytes, format_bytes),
        ("ramp", full.ramp_ns, form.ramp_ns, format_duration),
        ("each point", full.runtime_ns, form.runtime_ns, format_duration),
    )
    texts = [f"{what} {text(now)} instead of {text(whole)}" for what, whole, now, text in sizes if now != whole]
    for name, family in form.families.items():
        whole = full.families[name]
        texts += [
            f"{name}: {axis} {', '.join(map(str, values))} only"
            for axis, values in family.axes.items()
            if values != whole.axes.get(axis)
        ]
        was, now = whole.runtime_ns, family.runtime_ns
        if was != now and (was, now) != (full.runtime_ns, form.runtime_ns):
            texts.append(f"{name}: each point {format_duration(now)} instead of {format_duration(was)}")
    if left_out:
        texts.append(f"{left_out} points left out (--points)")
    return tuple(texts)


@contextmanager
def opened(named: Mapping[str, Target]) -> Iterator[dict[str, Place]]:
    """All targets while they can be loaded. Raises ``TargetError``."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(place.opened(target)) for name, target in named.items()}


def carry_out(request: Request, view: LiveView, keep: Keep, earlier: Result | None = None) -> Result:
    """Measures all points; those that ``earlier`` has finished are taken over.

    ``keep`` is given the result after each point.
    Raises ``PlanError``, and ``TargetError`` or ``RunError`` when nothing could be measured.
    """
    with opened(request.targets) as places:
        return _Run(request, places, view, keep, earlier).run()


def started(request: Request, cases: Sequence[Case], tag: str, left_out: int) -> Result:
    """The result without points."""
    scenario = request.scenario
    facts = {name: targets.facts_of(target) for name, target in request.targets.items()}
    several = " and ".join(fact.address for fact in facts.values())
    target = next(iter(facts.values())) if len(facts) == 1 else TargetFacts(kind="several", address=several)
    families = {case.family.name: case.family for case in cases}.values()
    said = ScenarioFacts(
        name=scenario.name,
        title=scenario.title,
        why=scenario.why,
        form=request.form_name,
        shortened=shortened(request, left_out),
        targets=facts,
        families=tuple(FamilyFacts(name=one.name, title=one.title, cache=one.cache) for one in families),
        comparisons=scenario.comparisons,
        tag=tag,
    )
    ceiling = _native.null_ceiling(series.NULL_CEILING_S)
    result = Result.start("scenario", scenario.title, host.collect(), target, ceiling)
    references = tuple(reference.load(name) for name in scenario.references)
    result = result.replace(scenario=said, references=references)
    if any(int(case.axes.get("clients", 1)) > 1 for case in cases):
        return result.with_note("clients_stand_in", CLIENTS_STAND_IN, "info")
    return result


class _Run:
    def __init__(
        self, request: Request, places: Mapping[str, Place], view: LiveView, keep: Keep, earlier: Result | None
    ) -> None:
        self.request, self.view, self.keep, self.earlier = request, view, keep, earlier
        tag = earlier.scenario.tag if earlier and earlier.scenario else secrets.token_hex(4)
        self.cases = Cases(request.scenario, request.form, places, tag)
        self.caches = Caches(self.cases, self._plan, self._prepare)
        self.made: list[Plan] = []

    def run(self) -> Result:
        """All points."""
        everything = self.cases.all()
        cases = [case for case in everything if self.request.is_wanted(case)]
        if not cases:
            raise TargetError("--points leaves no point to measure")
        self._check(cases)
        result = started(self.request, cases, self.cases.tag, len(everything) - len(cases))
        done = {point.name: point for point in self.earlier.points} if self.earlier else {}
        try:
            for index, case in enumerate(cases):
                if (kept := done.get(case.name)) and kept.outcome.state == "finished":
                    result = result.with_point(kept)
                    continue
                result = self._with(result, case, index, len(cases))
                self.keep(result)
                if result.points[-1].name != case.name or result.points[-1].outcome.state != "finished":
                    return result
            result = result.ended("finished")
            self.keep(result)
            return result
        except KeyboardInterrupt:
            # It came between two runs.
            if not result.points:
                raise
            result = result.ended("interrupted", f"after {len(result.points)} of {len(cases)} points")
            self.keep(result)
            return result
        finally:
            self._clean_up()

    def _with(self, result: Result, case: Case, index: int, count: int) -> Result:
        """With the next point; ended where that one could not be finished."""
        form = self.request.form
        seconds = self.cases.form_of(case).length_ns / SECOND_NS
        self.view.point_started(index, count, case.name, seconds, form.interval_ns)
        try:
            point = self._measure(case)
        except (TargetError, RunError, Interrupted) as error:
            # What earlier points measured is kept.
            if not result.points:
                raise
            return result.ended("interrupted" if isinstance(error, Interrupted) else "failed", f"{case.name}: {error}")
        self.view.point_finished(point.summary())
        result = result.with_point(point)
        if point.outcome.state == "finished":
            return result
        why = f"point {index + 1} of {count} ({case.name}) was cut short: {series.reason(point.outcome)}"
        return result.ended(point.outcome.state, why)

    def _check(self, cases: Sequence[Case]) -> None:
        for name, target in self.request.targets.items():
            writes = any(
                section.over(case.job.defaults).writes
                for case in cases
                if name in case.on
                for section in case.job.sections
            )
            place.check_overwrites(target, overwrite=self.request.overwrite, writes=writes)
            if any(name in case.on for case in cases):
                self._check_room(target)

    def _check_room(self, target: Target) -> None:
        form = self.request.form
        try:
            place.check_room(target, form.size_bytes + form.unrelated_bytes)
        except TargetError as error:
            raise TargetError(f"{error}; --short or --scale 1/1000 take less") from None

    def _measure(self, case: Case) -> Point:
        preparation = self.caches.prepare(case)
        plan = self._plan(case.job)
        point = local.measure(plan, self.view.update).point(case.family.name, case.axes, case.name)
        is_whole = point.outcome.state == "finished"
        cache = self.caches.facts(case, plan, preparation) if is_whole else None
        return point.replace(cache=cache, target=case.on[0] if len(case.on) == 1 else None)

    def _prepare(self, plan: Plan, what: str, watch: local.Watch) -> Outcome:
        def update(live: Live) -> bool | None:
            self.view.update(live)
            return watch(live)

        outcome = local.run(plan, update)
        if outcome.state == "interrupted":
            raise Interrupted(f"interrupted: {what}")
        if outcome.state != "finished":
            raise RunError(f"{what}: {series.reason(outcome)}")
        return outcome

    def _plan(self, job: Job) -> Plan:
        plan = plan_here(job, self.request.form.interval_ns)
        self.made.append(plan)
        return plan

    def _clean_up(self) -> None:
        """Removes the files that were made; what a person named and was there stays."""
        if self.request.keep_data:
            return
        named = {str(Path(there.path).absolute()) for there in self.cases.places.values() if there.path and there.bytes}
        for plan in self.made:
            paths = {file.path for group in plan.groups for worker in group.workers for file in worker.files}
            if not paths & named:
                _native.remove_files(plan.to_json())
