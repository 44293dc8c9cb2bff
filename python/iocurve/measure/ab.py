"""``iocurve ab``: measures two targets, or runs two command lines, in turns A B B A B A …"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path

import msgspec

from iocurve.analysis.compare import compare_turns
from iocurve.dialects.base import ParsedCommand, Step
from iocurve.dialects.native.command import DIALECT as NATIVE
from iocurve.dialects.registry import REGISTRY, as_printed, load
from iocurve.engine.outcome import Outcome
from iocurve.engine.plan import Plan
from iocurve.foundation.errors import Diagnostic, DialectError, PlanError, words_of
from iocurve.foundation.units import MILLISECOND_NS, numbered
from iocurve.measure import campaign as campaigns
from iocurve.measure.campaign import Campaign, Keep, Measure, Measurement, TurnPlace, every_turn, turn_places
from iocurve.measure.jobs import NO_TARGET, UsedTargets, require_no_overwrites, walk, with_notes
from iocurve.measure.local import Enough
from iocurve.measure.scenario import command as scenarios
from iocurve.measure.scenario.document import Family, FamilyForm, FamilyJob, Form, Scenario, TargetNeed
from iocurve.measure.scenario.runner import Request
from iocurve.measure.search.command import workload_of
from iocurve.report.progress import View
from iocurve.result.document import Point, Result
from iocurve.targets.target import Target

LABELS = ("A", "B")
FAMILY = "load"
DATA_KINDS = frozenset({"read", "write", "trim", "fsync", "fdatasync", "sync_file_range"})
INTERVALS = 20
"""Least number of reporting intervals of a run."""


class TargetLoad(msgspec.Struct, frozen=True):
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


RUNS_MIN, RUNS_MAX = 5, 20
"""Runs where their number is chosen by their noise."""
SEEN_SHARE = 0.5
"""A difference of this part of the margin would be found in 8 of 10 comparisons once there are enough runs."""


def enough_runs(result: Result, rounds: int) -> bool:
    """True once the noise between runs is known to be small enough: the size of a difference does not count."""
    if rounds < RUNS_MIN:
        return False
    found = [one.speed for one in compare_turns(result, result.points[0].margin).of("iops")]
    return all(one.detectable is not None and one.detectable <= SEEN_SHARE * one.margin for one in found)


def of_targets(named: Sequence[Target], load: TargetLoad, runs: int | None, *, overwrite: bool) -> Request:
    """A scenario of one load whose axis is the target; without ``runs`` by the number that its noise needs.

    Raises ``DialectError``.
    """
    enough_turns = enough_runs if runs is None else None
    runs = RUNS_MAX if runs is None else runs
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
        why="The runs of both targets are interleaved, with the same load.",
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
        enough_turns=enough_turns,
        overwrite=overwrite,
        probe=False,
    )


def run_targets(request: Request, directory: Path, *, quiet: bool = False) -> Result:
    """Measures both targets; writes result and report. Raises as ``scenario.command.run``."""
    return scenarios.run(request, directory, quiet=quiet)


# ---- command lines


def parsed(text: str, *, overwrite: bool = False) -> ParsedCommand:
    """A command line that can take turns. Raises ``DialectError``, ``PlanError`` and ``TargetError``.

    ``overwrite`` allows a job file (TOML) to write to existing files.
    """
    words = as_printed(words_of(text))
    if words and words[0] in REGISTRY:
        command = load(words[0]).prepare(words[1:])
    elif len(words) == 2 and words[0] == "run" and words[1].endswith(".toml"):
        command = NATIVE.prepare(words[1:])
        require_no_overwrites(command, overwrite=overwrite)
    else:
        known = ", ".join([*REGISTRY, "run JOB.toml"])
        raise DialectError([Diagnostic(f"'{text}' is no command to compare; it starts with one of {known}")])
    if command.needs.cluster is not None:
        raise DialectError([Diagnostic(f"'{text}' runs on several machines; ab runs commands on this machine alone")])
    if command.only_prints is not None or not command.steps:
        raise DialectError([Diagnostic(f"'{text}' runs nothing")])
    if command.count is None:
        raise DialectError([Diagnostic(f"'{text}' repeats its runs without an end; ab needs their number")])
    for step in command.steps:
        if step.optional:
            why = "depends on what the runs before it measure"
            raise DialectError([Diagnostic(f"'{text}': whether {step.name} runs {why}; ab compares all runs")])
    return command


def of_commands(
    commands: Sequence[str],
    runs: int | None,
    margin: float,
    repeats: int,
    before_turn: Callable[[int], None] = lambda _: None,
    *,
    overwrite: bool = False,
    patience_ns: int | None = None,
) -> Measure:
    """The function that runs both command lines in turns.

    Each runs ``runs`` times, or as often as the noise needs. Disturbed runs are measured again, ``repeats`` times at
    most. No round starts that would end after ``patience_ns``. Both are planned before either runs. The outputs of
    their tools are not written. ``before_turn`` is called with the index of the command before each of its turns.
    Raises ``DialectError``, ``PlanError`` and ``TargetError``; the function ``TargetError`` or ``RunError`` when
    nothing could be measured.
    """
    members = [parsed(text, overwrite=overwrite) for text in commands]
    for member in members:
        member.require_runnable()
    if obstacles := [obstacle for one in members for obstacle in one.obstacles]:
        raise PlanError(obstacles)
    counts = [one.count for one in members]
    titles = [_titles(command, label) for command, label in zip(members, LABELS, strict=True)]
    if len(set(counts)) > 1:
        each = " and ".join(f"'{text}' has {number}" for text, number in zip(commands, counts, strict=True))
        raise DialectError([Diagnostic(f"ab compares runs of the same number, and {each}")])
    name = " and ".join(commands)

    def measure(view: View, keep: Keep) -> Result:
        # Whichever goes first is drawn, and says nothing of the points' order.
        campaign = Campaign(campaigns.started("ab", name, NO_TARGET), view, keep, order=[*chain(*titles)])
        campaign.limit_time(patience_ns)
        turns = _Turns(campaign, members, titles, UsedTargets(campaign, "ab"), runs, margin, repeats, before_turn)
        result = campaigns.carry_out(campaign, lambda _: turns.run(), turns.used.remove)
        return with_notes(result, [note for one in members for note in one.notes])

    return measure


class _Turns(msgspec.Struct):
    """The turns of two commands, each with all of its steps."""

    campaign: Campaign
    members: Sequence[ParsedCommand]
    titles: Sequence[Sequence[str]]
    """The names of the points of each command."""
    used: UsedTargets
    runs: int | None
    margin: float
    repeats: int
    before_turn: Callable[[int], None]

    @property
    def rounds(self) -> int:
        """The most runs of each."""
        return RUNS_MAX if self.runs is None else self.runs

    def run(self) -> None:
        points: dict[str, Point] = {}
        pairs = {name: both for both in zip(*self.titles, strict=True) for name in both}
        enough = enough_runs if self.runs is None else every_turn
        for place in turn_places(len(self.members), self.rounds, self.campaign.order_seed):
            if place.starts_round and self.campaign.ends_turns(place.round - 1, self.rounds, enough):
                self.campaign.end_turns(points.values())
                return
            self.before_turn(place.member)
            command = self.members[place.member]
            command.needs.make_directories()
            walk(command, partial(self._run_step, place, points, iter(self.titles[place.member]), pairs), writes=False)

    def _run_step(
        self,
        place: TurnPlace,
        points: dict[str, Point],
        titles: Iterator[str],
        pairs: Mapping[str, tuple[str, ...]],
        step: Step,
        plan: Plan,
        enough: Enough,
    ) -> Outcome:
        """Steps of the same number in both commands are compared, and so are their phases."""
        names = tuple(islice(titles, len(step.phases) or 1))
        self.used.add(plan)
        one = Measurement(
            plan,
            FAMILY,
            name=plan.name if step.phases else names[0],
            phases=names if step.phases else (),
            enough=self.used.identifying(enough),
            margin=self.margin,
            repeats_max=self.repeats if can_run_again(plan) else 0,
            runs_chosen=self.runs is None,
        )
        if step.phases:
            compared = [pairs[name] for name in names]
            return self.campaign.take_turn_of_phases(one, points, place, self.rounds, compared)
        (name,) = names
        points[name], run = self.campaign.take_turn(one, points.get(name), place, self.rounds, pairs[name])
        return run.outcome


def _titles(command: ParsedCommand, label: str) -> list[str]:
    """The names of the points of one command: those of its steps and phases, the same ones numbered."""
    steps = [*command.steps, *list(command.again) * ((command.rounds or 1) - 1)]
    names = [name for step in steps for name in (step.phases or (step.title or step.name,))]
    return [label] if len(names) == 1 else [f"{label} {name}" for name in numbered(names)]


def can_run_again(plan: Plan) -> bool:
    """False if the plan makes or removes names: a second run would find those of the first."""
    workers = [worker for group in plan.groups for worker in group.workers]
    return all(one.tree is None and {kind.kind for kind in one.operations} <= DATA_KINDS for one in workers)
