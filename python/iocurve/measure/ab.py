"""``iocurve ab``: measures two targets, or runs two command lines, in turns A B B A …"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from iocurve.dialects.base import Prepared
from iocurve.dialects.native.command import DIALECT as NATIVE
from iocurve.dialects.registry import REGISTRY, load
from iocurve.engine.outcome import Outcome
from iocurve.engine.plan import Plan
from iocurve.errors import Diagnostic, DialectError, PlanError
from iocurve.measure import campaign as campaigns
from iocurve.measure import jobs
from iocurve.measure.campaign import Campaign, Keep, Measure, Measurement, TurnPlace, turn_places
from iocurve.measure.local import Enough
from iocurve.measure.machines import THIS_MACHINE
from iocurve.measure.run_files import RunFiles
from iocurve.measure.scenario import command as scenarios
from iocurve.measure.scenario.document import Family, FamilyForm, FamilyJob, Form, Scenario, TargetNeed
from iocurve.measure.scenario.runner import Request
from iocurve.measure.search.command import workload_of
from iocurve.report.view import View
from iocurve.result.document import Point, Result
from iocurve.targets.target import Target
from iocurve.units import MILLISECOND_NS

LABELS = ("A", "B")
FAMILY = "load"
INTERVALS = 20
"""Least number of reporting intervals of a run."""


@dataclass(frozen=True)
class TargetLoad:
    """The load on both targets."""

    workload: str
    """In fio's words: ``rw=randread bs=4k``."""
    depth: int
    """Queue depth of each job."""
    numjobs: int
    size_bytes: int
    """Data set of each target, all files together."""
    runtime_ns: int
    """Measured time of each run."""
    ramp_ns: int


def of_targets(named: Sequence[Target], load: TargetLoad, runs: int, *, overwrite: bool) -> Request:
    """A scenario of one load whose axis is the target. Raises ``DialectError``."""
    said, _ = workload_of(load.workload)
    interval_ns = max(50 * MILLISECOND_NS, min(1000 * MILLISECOND_NS, load.runtime_ns // INTERVALS))
    # A scenario shares the time of a point among its turns.
    family = FamilyForm({"target": LABELS}, load.ramp_ns, load.runtime_ns * runs, None)
    form = Form(
        size_bytes=load.size_bytes,
        unrelated_bytes=load.size_bytes,
        ramp_ns=load.ramp_ns,
        runtime_ns=load.runtime_ns * runs,
        interval_ns=interval_ns,
        rounds=runs,
        families={FAMILY: family},
    )
    job = FamilyJob("load", LABELS[0], said.but(depth=load.depth, numjobs=load.numjobs))
    scenario = Scenario(
        name="ab",
        title=f"{load.workload} on two targets",
        why="Both targets take turns with the same load.",
        question="Which target is faster?",
        answer="target",
        targets=tuple(TargetNeed(name, "", "") for name in LABELS),
        files=load.numjobs,
        full=form,
        short=form,
        families=(Family(FAMILY, load.workload, "untouched", 1, (job,)),),
        comparisons=(),
        references=(),
        probe=False,
    )
    return Request(
        scenario=scenario,
        form=form,
        form_name="full",
        targets=dict(zip(LABELS, named, strict=True)),
        overwrite=overwrite,
        probe=False,
    )


def run_targets(request: Request, directory: Path, *, quiet: bool = False) -> Result:
    """Measures both targets; writes result and report. Raises as ``scenario.command.run``."""
    return scenarios.run(request, directory, quiet=quiet)


# ---- command lines


def planned(text: str) -> tuple[str, Prepared]:
    """The name of the tool and the plans of a command line. Raises ``DialectError`` and ``PlanError``."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise DialectError([Diagnostic(f"{text}: {error}")]) from None
    if words[:1] == ["iocurve"]:
        words = words[1:]
    if words and words[0] in REGISTRY:
        name, prepared = words[0], load(words[0]).prepare(words[1:])
    elif len(words) == 2 and words[0] == "run" and words[1].endswith(".toml"):
        name, prepared = "run", NATIVE.prepare(words[1:])
    else:
        known = ", ".join([*REGISTRY, "run JOB.toml"])
        raise DialectError([Diagnostic(f"'{text}' is no command that can take turns; it starts with one of {known}")])
    if prepared.cluster is not None:
        raise DialectError([Diagnostic(f"'{text}' runs on several machines; ab runs commands on this machine alone")])
    if not prepared.plans:
        raise DialectError([Diagnostic(f"'{text}' runs nothing")])
    return name, prepared


def of_commands(
    commands: Sequence[str],
    runs: int,
    margin: float,
    repeats: int,
    before_turn: Callable[[int], None] = lambda _: None,
) -> Measure:
    """The function that runs both command lines in turns.

    Disturbed runs of each are measured again, ``repeats`` times at most. Both are planned before either runs. The
    outputs of their tools are not written. ``before_turn`` is called with the index of the command before each of its
    turns. Raises ``DialectError`` and ``PlanError``; the function ``TargetError`` or
    ``RunError`` when nothing could be measured.
    """
    prepared = [planned(text)[1] for text in commands]
    checked = [one.check() for one in prepared]
    if obstacles := [obstacle for _, found in checked for obstacle in found]:
        raise PlanError(obstacles)
    for one in prepared:
        one.make_directories()
    plans = [plan for one in prepared for plan in one.plans]
    name = " and ".join(commands)

    def measure(view: View, keep: Keep) -> Result:
        campaign = Campaign(campaigns.started("ab", name, jobs.target_facts(plans)), view, keep)
        files = jobs.files_to_remove("ab", plans, THIS_MACHINE)
        turns = _Turns(campaign, prepared, files, runs, margin, repeats, before_turn)
        result = campaigns.carry_out(campaign, lambda _: turns.run(), jobs.removal(files))
        return jobs.with_notes(result, [note for notes, _ in checked for note in notes])

    return measure


@dataclass
class _Turns:
    """The turns of two commands, each with all of its plans."""

    campaign: Campaign
    prepared: Sequence[Prepared]
    files: RunFiles | None
    rounds: int
    margin: float
    repeats: int
    before_turn: Callable[[int], None]

    def run(self) -> None:
        points: dict[str, Point] = {}
        for place in turn_places(len(self.prepared), self.rounds):
            self.before_turn(place.member)
            self._run_command(place, points)

    def _run_command(self, place: TurnPlace, points: dict[str, Point]) -> None:
        """All plans of a command; the plans of the same number in both commands are compared."""
        number = 0
        is_single = all(len(one.plans) == 1 for one in self.prepared)

        def run_plan(plan: Plan, enough: Enough) -> Outcome:
            nonlocal number
            number += 1
            names = tuple(label if is_single else f"{label} {number}" for label in LABELS)
            if self.files:
                self.files.announce(plan)
                enough = jobs.identifying(self.files, enough)
            one = Measurement(
                plan,
                FAMILY,
                name=names[place.member],
                enough=enough,
                margin=self.margin,
                repeats_max=self.repeats,
            )
            points[one.title], run = self.campaign.take_turn(one, points.get(one.title), place, self.rounds, names)
            return run.outcome

        self.prepared[place.member].measure(run_plan)
