"""``iocurve run SCENARIO``, ``iocurve scenario list`` and ``show``: from the command line to requests."""

from __future__ import annotations

import fnmatch
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from iocurve.analysis.check_names import Vocabulary
from iocurve.foundation.errors import Diagnostic, DialectError, TargetError, option
from iocurve.foundation.units import MILLISECOND_NS, SECOND_NS, counted, format_bytes, format_duration
from iocurve.job.model import Load, Said, Section, TreeLoad
from iocurve.measure import campaign as campaigns
from iocurve.measure.data_set import MULTIPLE_BYTES
from iocurve.measure.scenario import document as documents
from iocurve.measure.scenario import runner
from iocurve.measure.scenario.cases import Case, Cases, groups_of, scaled
from iocurve.measure.scenario.document import Family, Form, Scenario
from iocurve.measure.scenario.runner import FormName, Request
from iocurve.measure.search.command import workload_of
from iocurve.report.progress import View
from iocurve.result.document import Axis, Result, TargetFacts
from iocurve.result.document_file import RESULT_NAME
from iocurve.targets import target as targets

ROUNDS_MAX = 100
"""Most turns of a point."""
SPEED = re.compile(r"&speed=[^&]*")
"""The part of an embedded target's text that makes it slower."""


def requested(
    scenario: Scenario,
    named: Sequence[str] | Mapping[str, targets.Target],
    *,
    quick: bool,
    full: bool,
    scale: float | None,
    points: Sequence[str],
    full_speed: bool = False,
    create: bool = False,
    overwrite: bool,
    keep_data: bool,
) -> Request:
    """The request of a command line. Raises ``DialectError`` and ``TargetError``.

    ``named`` has targets as the user writes them, or each target of the scenario by its name.

    Without a target the scenario's embedded ones run, in the short form unless the full one is requested.
    """
    if sum((quick, full, scale is not None)) > 1:
        raise DialectError([Diagnostic(f"{option('quick')}, {option('full')} and {option('scale')}: choose one")])
    form, name = _form(scenario, quick or not (named or full or scale), scale)
    return Request(
        scenario=scenario,
        form=form,
        form_name=name,
        targets=_targets(scenario, named, create=create, full_speed=full_speed),
        overwrite=overwrite,
        keep_data=keep_data,
        is_wanted=_filter(scenario, points),
        probe=scenario.probe,
    )


def run(request: Request, directory: Path, *, resume: bool = False, quiet: bool = False) -> Result:
    """Runs a request; writes result and report to ``directory``.

    Raises ``ResultError``, ``PlanError``, and ``TargetError`` or ``RunError`` when nothing could be measured.
    """
    found = earlier(request, directory) if resume else None

    def carried_out(view: View, keep: campaigns.Keep) -> Result:
        if not quiet:
            print(announcement(request), file=sys.stderr)
        return runner.carry_out(request, view, keep, found)

    return campaigns.into_directory(directory, carried_out, quiet=quiet)


class EnvelopeLoad(msgspec.Struct, frozen=True):
    """The load of the envelope as fio names it; what is None stays as the scenario has it."""

    rw: str | None = None
    bs: str | None = None
    iodepth: int | None = None
    """Of each job of a mix; also the highest of the series by depth, which has one job."""
    numjobs: int | None = None
    runtime_ns: int | None = None

    def applied(self, scenario: Scenario, form: Form) -> tuple[Scenario, Form]:
        """The scenario and its form with this load. Raises ``DialectError``."""
        if self.rw and not self.bs:
            own = replace(self, bs=BS_RANDOM if self.rw.startswith("rand") else BS_SEQUENTIAL)
            return own.applied(scenario, form)
        words = {"rw": self.rw, "bs": self.bs}
        workload = workload_of(" ".join(f"{name}={value}" for name, value in words.items() if value is not None))
        load = Section.of(*workload).load
        runtime_ns = self.runtime_ns or form.runtime_ns
        families, forms = [], {}
        for family in scenario.families:
            axes = form.families[family.name].axes
            is_random = load.random if self.rw else bool(family.jobs[0].load.get("random"))
            if is_random != family.jobs[0].load.get("random") and "read_percent" in axes:
                continue
            changed = self._series(family, load) if "depth" in axes else self._mix(family, load)
            families.append(changed)
            forms[changed.name] = replace(
                form.families[family.name], axes=self._axes(axes, load), runtime_ns=runtime_ns
            )
        interval_ns = min(form.interval_ns, max(MILLISECOND_NS, runtime_ns // INTERVALS_MIN))
        form = replace(form, families=forms, runtime_ns=runtime_ns, interval_ns=interval_ns)
        return replace(scenario, families=tuple(families)), form

    def _axes(self, axes: Mapping[str, tuple[Axis, ...]], load: Load) -> dict[str, tuple[Axis, ...]]:
        changed = dict(axes)
        if self.rw and "read_percent" in axes and not (load.reads and load.writes):
            changed["read_percent"] = (100 if load.reads else 0,)
        if self.iodepth and "depth" in axes:
            changed["depth"] = (*(depth for depth in axes["depth"] if int(depth) < self.iodepth), self.iodepth)
        return changed

    def _mix(self, family: Family, load: Load) -> Family:
        (job,) = family.jobs
        own = Said.of(blocks=load.blocks if self.bs else None, depth=self.iodepth, numjobs=self.numjobs)
        job = replace(job, load=own.over(job.load), per_processor=job.per_processor and self.numjobs is None)
        return self._named(replace(family, jobs=(job,)), "random" if job.load.get("random") else "sequential", "mix")

    def _series(self, family: Family, load: Load) -> Family:
        (job,) = family.jobs
        kinds = {"random": load.random, "reads": load.reads, "writes": load.writes} if self.rw else {}
        own = Said.of(blocks=load.blocks if self.bs else None, **kinds)
        job = replace(job, load=own.over(job.load))
        turns = {"depth": (self.iodepth,)} if self.iodepth else family.turns
        order = "random" if job.load.get("random") else "sequential"
        kind = " mix" if load.reads and load.writes else " read" if load.reads or not self.rw else " write"
        return self._named(replace(family, jobs=(job,), turns=turns), order, "depth", kind)

    def _named(self, family: Family, order: str, what: str, kind: str = "") -> Family:
        if not self.bs:
            return family
        name = re.sub(r"[^\w.-]", "-", f"{order}-{self.bs}-{what}")
        return replace(family, name=name, title=f"{self.bs} {order}{kind}")


AS_IT_IS = EnvelopeLoad()
BS_RANDOM, BS_SEQUENTIAL = "4k", "64k"
"""Block sizes of the scenario."""
INTERVALS_MIN = 20
"""Intervals of a point, at least."""


def envelope(
    target: str | None,
    *,
    quick: bool = False,
    size_bytes: int | None = None,
    load: EnvelopeLoad = AS_IT_IS,
    nfs_timeout_ns: int | None = None,
    create: bool = False,
    overwrite: bool = False,
    read_only: bool = False,
) -> Request:
    """The envelope of a target: the scenario of that name, in full even on its embedded target.

    Raises ``DialectError`` and ``TargetError``.
    """
    scenario = documents.load("envelope")
    form = scenario.short if quick else scenario.full
    scenario, form = load.applied(scenario, form)
    return Request(
        scenario=scenario,
        form=form if size_bytes is None else replace(form, size_bytes=size_bytes),
        form_name="short" if quick else "full",
        targets=_targets(scenario, [] if target is None else [target], create=create),
        overwrite=overwrite,
        nfs_timeout_ns=nfs_timeout_ns,
        is_wanted=(lambda case: not case.writes) if read_only else (lambda _: True),
    )


def vocabulary(request: Request) -> Vocabulary:
    """The names that the points of a request will have, for checks."""
    wanted = [case for case in Cases.unopened(request.scenario, request.form).all() if request.is_wanted(case)]
    axes = {axis for case in wanted for axis in request.form.families[case.family.name].axes}
    return Vocabulary(
        kinds=frozenset(kind for case in wanted for section in case.job.sections for kind in section.load.kinds()),
        axes=frozenset(axes.union(*(case.axes for case in wanted))),
        families=frozenset(case.family.name for case in wanted),
    )


class FormFacts(msgspec.Struct, frozen=True):
    """Amount of work of one form of a scenario."""

    form: Form
    points: int
    measured_ns: int
    """Time of all points with their ramps, without file layout and cache warm-up."""
    expected_ns: int
    """Time of the whole run, as far as the targets state their throughput."""


def forms(scenario: Scenario) -> dict[str, FormFacts]:
    """Both forms of a scenario on its own targets: ``full`` and ``short``."""
    texts = {need.name: need.standard for need in scenario.targets}
    whole, slowed = (
        {name: targets.facts_of(targets.parse(text)) for name, text in said.items()}
        for said in ({name: SPEED.sub("", text) for name, text in texts.items()}, texts)
    )
    return {
        "full": _form_facts(scenario, scenario.full, whole, lambda _: True),
        "short": _form_facts(scenario, scenario.short, slowed, lambda _: True),
    }


def announcement(request: Request) -> str:
    """The line that starts a run: ``anf-nconnect, short form: 20 points, about 2 min``."""
    known = {name: targets.facts_of(target) for name, target in request.targets.items()}
    facts = _form_facts(request.scenario, request.form, known, request.is_wanted)
    more = "" if runner.are_known(known) else ", plus the time to lay out files and to fill caches"
    most_ns = request.patience_ns or runner.longest_ns(request.form_name, facts.expected_ns, known)
    time = f"about {_rounded(facts.expected_ns)}{more}" + (f", at most {_rounded(most_ns)}" if most_ns else "")
    return f"{request.scenario.name}, {request.form_name} form: {counted(facts.points, 'point')}, {time}"


def _form_facts(
    scenario: Scenario, form: Form, known: Mapping[str, TargetFacts], is_wanted: Callable[[Case], bool]
) -> FormFacts:
    points = Cases.unopened(scenario, form)
    cases = [case for case in points.all() if is_wanted(case)]
    groups = groups_of(cases, scenario.comparisons, form)
    measured_ns = sum(group.measured_ns for group in groups)
    expected_ns = runner.ONCE_NS + sum(runner.times_ns(points, groups, known))
    return FormFacts(form, len(cases), measured_ns, expected_ns)


def described(scenario: Scenario) -> dict[str, object]:
    """A scenario for programs. Sizes are in bytes, times in nanoseconds."""
    return {
        "name": scenario.name,
        "title": scenario.title,
        "question": scenario.question,
        "why": " ".join(scenario.why.split()),
        "targets": [{"name": need.name, "about": need.about, "default": need.standard} for need in scenario.targets],
        "forms": {name: _described_form(scenario, facts) for name, facts in forms(scenario).items()},
        "references": list(scenario.references),
    }


def _described_form(scenario: Scenario, facts: FormFacts) -> dict[str, object]:
    return {
        "points": facts.points,
        "files": scenario.files,
        "size_bytes": facts.form.size_bytes,
        "measured_ns": facts.measured_ns,
        "rounds": facts.form.rounds,
        "families": [
            {
                "name": family.name,
                "title": family.title,
                "cache": family.cache,
                "axes": facts.form.families[family.name].axes,
                "point_ns": facts.form.families[family.name].length_ns,
            }
            for family in scenario.families
        ],
    }


def description(scenario: Scenario) -> str:
    """A scenario for people: its purpose, its targets, its points in both forms, their duration."""
    about = [*filter(None, (scenario.question, " ".join(scenario.why.split())))]
    lines = [f"{scenario.name}: {scenario.title}", "", *about, "", "targets"]
    lines += [f"  {need.name}: {need.about} (default: {need.standard})" for need in scenario.targets]
    where = {"full": "a target of the default's full speed", "short": "the default target"}
    for name, facts in forms(scenario).items():
        lines += [
            "",
            f"{name}: {counted(facts.points, 'point')}, data set {format_bytes(facts.form.size_bytes)} in "
            f"{counted(scenario.files, 'file')}; {format_duration(facts.measured_ns)} of measuring, about "
            f"{_rounded(facts.expected_ns)} with files and caches on {where[name]}",
            *_turns_shown(scenario, facts.form),
        ]
        for family in scenario.families:
            measured = facts.form.families[family.name]
            varied = "; ".join(f"{axis} {', '.join(map(str, values))}" for axis, values in measured.axes.items())
            each = format_duration(measured.length_ns)
            lines.append(f"  {family.name} ({family.title}; {family.cache}): {varied or 'one point'}; {each} each")
            if name == "full":
                lines += _mixes_shown(family)
    if scenario.references:
        lines += ["", f"published figures to compare with: {', '.join(scenario.references)}"]
    return "\n".join(lines)


def _mixes_shown(family: Family) -> Iterator[str]:
    """The shares of the kinds of operation on trees."""
    for job in family.jobs:
        tree: TreeLoad | None = job.load.get("tree")
        if tree is not None:
            total = sum(tree.mix.values())
            shares = sorted(tree.mix.items(), key=lambda item: -item[1])
            yield "    " + ", ".join(f"{kind} {100 * share / total:.3g} %" for kind, share in shares)


def _turns_shown(scenario: Scenario, form: Form) -> list[str]:
    """Tells how points that are compared share the time."""
    cases = Cases.unopened(scenario, form).all()
    groups = [group for group in groups_of(cases, scenario.comparisons, form) if group.rounds > 1]
    if not groups:
        return []
    lengths = ", ".join(dict.fromkeys(format_duration(group.turn_ns) for group in groups))
    points = sum(len(group.cases) for group in groups)
    return [f"  {counted(points, 'point')} are compared by interleaved runs: {form.rounds} repetitions, {lengths} each"]


def _form(scenario: Scenario, quick: bool, scale: float | None) -> tuple[Form, FormName]:
    if quick:
        return scenario.short, "short"
    if scale is None:
        return scenario.full, "full"
    return scaled(scenario.full, scale, scenario.files * MULTIPLE_BYTES), "scaled"


def _targets(
    scenario: Scenario, named: Sequence[str] | Mapping[str, targets.Target], *, create: bool, full_speed: bool = False
) -> dict[str, targets.Target]:
    if full_speed and named:
        text = f"{option('full_speed')} is for the embedded target; leave it out, or leave out {option('target')}"
        raise DialectError([Diagnostic(text)])
    if isinstance(named, Mapping):
        return dict(named)
    needs = {need.name: need.standard for need in scenario.targets}
    if not named:
        texts = {name: SPEED.sub("", text) if full_speed else text for name, text in needs.items()}
        return {name: targets.parse(text) for name, text in texts.items()}
    said: dict[str, str] = {}
    for text in named:
        name, equals, place = text.partition("=")
        if equals and name in needs:
            said[name] = place
        elif len(needs) == 1 or len(named) == 1:
            said |= dict.fromkeys(needs, text)
        else:
            raise DialectError(
                [Diagnostic(f"{option('target')} {text}: say which of {', '.join(needs)} it is, as NAME=TARGET")]
            )
    if missing := needs.keys() - said.keys():
        raise DialectError(
            [Diagnostic(f"{option('target')}: name {' and '.join(sorted(missing))} as well, as NAME=TARGET")]
        )
    return {name: targets.parse(said[name], create=create) for name in needs}


def _filter(scenario: Scenario, points: Sequence[str]) -> Callable[[Case], bool]:
    """``random-4k*``, ``read_percent=100,0``: a point matches if any family and all axes match."""
    families = [text for text in points if "=" not in text]
    axes: dict[str, list[str]] = {}
    known = {axis for family in scenario.full.families.values() for axis in family.axes} | {
        "depth",
        "clients",
        "nconnect",
    }
    for text in points:
        axis, equals, values = text.partition("=")
        if equals and axis not in known:
            raise DialectError([Diagnostic(f"{option('points')} {text}: the axes are {', '.join(sorted(known))}")])
        if equals:
            axes[axis] = values.split(",")
    for text in families:
        if not fnmatch.filter([family.name for family in scenario.families], text):
            names = ", ".join(family.name for family in scenario.families)
            raise DialectError([Diagnostic(f"{option('points')} {text}: the families are {names}")])

    def is_wanted(case: Case) -> bool:
        in_family = not families or any(fnmatch.fnmatch(case.family.name, text) for text in families)
        return in_family and all(str(case.axes[axis]) in values for axis, values in axes.items() if axis in case.axes)

    return is_wanted


def earlier(request: Request, directory: Path) -> Result:
    """The result to resume: it has the same scenario, form and targets. Raises ``ResultError`` and ``TargetError``."""
    path = directory / RESULT_NAME
    found = Result.read(path)
    same = found.scenario is not None and (found.scenario.name, found.scenario.form) == (
        request.scenario.name,
        request.form_name,
    )
    facts = {name: targets.facts_of(target) for name, target in request.targets.items()}
    if not same or found.scenario is None or found.scenario.targets != facts:
        raise TargetError(
            f"{option('resume')}: {path} is of another scenario, form or target; choose another {option('out')}"
        )
    return found


def _rounded(time_ns: int) -> str:
    """An expected time with few digits: ``25 s``, ``1 min 50 s``, ``32 h 9 min``."""
    step_s = 60 if time_ns > 600 * SECOND_NS else 10 if time_ns > 60 * SECOND_NS else 1
    return format_duration(max(1, round(time_ns / SECOND_NS / step_s)) * step_s * SECOND_NS)
