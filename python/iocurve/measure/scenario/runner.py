"""Runs a scenario on its targets.

Probes follow the last point: they look for the limits of the fastest loads where the points leave them open. A probe
repeats the load of a point with one change at a time (``iocurve.measure.why``), on the files of the run. A file or
device that was there before is only read.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Literal

import msgspec
from msgspec.structs import replace

from iocurve.analysis.limit_kinds import kind_of
from iocurve.analysis.limits import Known, verdicts_of, wants_probe
from iocurve.analysis.load_limits import HELD_UP, sleeps
from iocurve.analysis.load_names import rate_unit, workers_of
from iocurve.analysis.measured_load import MeasuredLoad
from iocurve.analysis.observations import tells_nothing
from iocurve.engine.derived import on_existing_files, with_workers
from iocurve.engine.outcome import Live
from iocurve.engine.plan import Plan
from iocurve.foundation.errors import Interrupted, IocurveError, TargetError, option, remedies
from iocurve.foundation.units import MILLISECOND_NS, SECOND_NS, counted, format_bytes, format_duration
from iocurve.job.model import Job
from iocurve.job.resolve import plan_here
from iocurve.measure import campaign as campaigns
from iocurve.measure import local
from iocurve.measure.campaign import Campaign, EnoughTurns, Keep, Measurement, every_turn
from iocurve.measure.data_set import require_reachable
from iocurve.measure.deployment import assigned
from iocurve.measure.machines import THIS_MACHINE, Machines
from iocurve.measure.run_files import RunFiles, tell_leftovers
from iocurve.measure.scenario.caches import CHECK_PAIRS, Caches, turn_ns
from iocurve.measure.scenario.cases import Case, CaseGroup, Cases, groups_of
from iocurve.measure.scenario.document import Form, Scenario
from iocurve.measure.why import RESTED, diagnose
from iocurve.report.progress import View
from iocurve.result import reference
from iocurve.result.document import FamilyFacts, Point, Probe, Result, ScenarioFacts, TargetFacts
from iocurve.result.paired import PAIRS_MIN
from iocurve.result.stalls import disturbance
from iocurve.targets import opened_target
from iocurve.targets import target as targets
from iocurve.targets.opened_target import OpenedTarget
from iocurve.targets.target import Target

FormName = Literal["full", "short", "scaled"]
CLIENTS_STAND_IN = (
    "the clients are emulated by workers on this machine, which share its processors; "
    "a server on loopback sees an address for each"
)
CLIENTS_REAL = "each client is an agent of the cluster"
REPEATS_MAX = 3
"""A point that others on this machine disturb is measured again at most this many times."""
OPERATIONS = 368
"""Operations of a point in the short form, at least, if it gets them in time: the largest of as many is an upper bound
of the p99, so that a check of it can be told."""
LONGER_MAX = 4
"""A point that is slow gets at most this multiple of its time for them."""
PREPARED_EARLIER = "prepared by the run that was resumed"


class Request(msgspec.Struct, frozen=True):
    """The scenario to run, with the user's options."""

    scenario: Scenario
    form: Form
    form_name: FormName
    targets: Mapping[str, Target]
    overwrite: bool = False
    keep_data: bool = False
    nfs_timeout_ns: int | None = None
    """Time after which a silent server fails the run. Default: the URL's, or a minute."""
    is_wanted: Callable[[Case], bool] = lambda _: True
    probe: bool = True
    """Look for limits that the points leave open, after the last of them."""
    machines: Machines = THIS_MACHINE
    repeats_max: int = REPEATS_MAX
    """Times that a run is measured again while others disturb it."""
    enough_turns: EnoughTurns | None = None
    """Ends turns before the form's number of rounds. Default: none does."""
    margin: float | None = None
    """Smallest difference between compared points that matters. Default: the scenario's."""
    bought: TargetFacts | None = None
    """The service level and the quota of a target that does not state them, and the limits that follow."""
    patience_ns: int | None = None
    """No point starts that would end after this time, and those left out are named. Default: ``longest_ns``."""

    def facts(self, target: Target) -> TargetFacts:
        """The facts of a target, with what was bought."""
        stated = {name: getattr(self.bought, name) for name in BOUGHT} if self.bought else {}
        return targets.facts_of(target).replace(**stated)

    def in_rounds(self, rounds: int | None) -> Request:
        """The request with this number of rounds; None leaves that of the form."""
        return self if rounds is None else replace(self, form=replace(self.form, rounds=rounds))

    @property
    def cluster_clients(self) -> int:
        """Agents of a cluster; 0 where clients are emulated on this machine."""
        return 0 if self.machines is THIS_MACHINE else self.machines.count


def carry_out(request: Request, view: View, keep: Keep, earlier: Result | None = None) -> Result:
    """Measures all points, except those that ``earlier`` has finished.

    Calls ``keep`` with the result after each point.
    Raises ``PlanError``, and ``TargetError`` or ``RunError`` if nothing could be measured.
    """
    # Check before anything is opened.
    _check_overwrites(request)
    for target in request.targets.values():
        require_reachable(target, request.machines)
    with opened(request.targets) as found:
        tell_leftovers(found.values(), view)
        if request.bought is not None:
            found = {name: replace(one, facts=request.facts(request.targets[name])) for name, one in found.items()}
        return _Run(request, found, earlier).measured(view, keep)


BOUGHT = ("service_level", "quota_bytes", "caps", "next_tib_bytes_per_s", "fitted")
"""The facts that a profile states of a target at a quota."""


@contextmanager
def opened(named: Mapping[str, Target]) -> Iterator[dict[str, OpenedTarget]]:
    """Opens all targets while the context lasts. Raises ``TargetError``."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(opened_target.opened(target)) for name, target in named.items()}


def shortened(request: Request, cases: Sequence[Case], left_out: int) -> tuple[str, ...]:
    """Descriptions of the reductions against the full form; ``cases`` are the points to measure."""
    full, form = request.scenario.full, request.form
    sizes = (
        ("data set", full.size_bytes, form.size_bytes, format_bytes),
        ("unrelated data", full.unrelated_bytes, form.unrelated_bytes, format_bytes),
        ("ramp", full.ramp_ns, form.ramp_ns, format_duration),
        ("each point", full.runtime_ns, form.runtime_ns, format_duration),
    )
    texts = [f"{what} {text(now)} instead of {text(whole)}" for what, whole, now, text in sizes if now != whole]
    if form.runtime_ns != full.runtime_ns:
        texts += _turns_shown(groups_of(cases, request.scenario.comparisons, form))
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
    if (there := request.cluster_clients) and (clients := _clients_wanted(request.scenario)) > there:
        texts.append(f"{there} clients instead of {clients}")
    if form.rounds != full.rounds:
        texts.append(f"{counted(form.rounds, 'repetition')} of compared points instead of {full.rounds}")
    if left_out:
        texts.append(f"{left_out} points left out")
    return tuple(texts)


def _turns_shown(groups: Sequence[CaseGroup]) -> list[str]:
    """The measured time of points that take turns, whose turns may not be shorter than ``TURN_NS_MIN``."""
    times = {(group.rounds * group.turn_ns, group.rounds) for group in groups if group.rounds > 1}
    return [f"each compared point {format_duration(time)} in {rounds} runs" for time, rounds in sorted(times)]


def started(request: Request, cases: Sequence[Case], tag: str, left_out: int) -> Result:
    """The new result, without points."""
    scenario = request.scenario
    facts = {name: request.facts(target) for name, target in request.targets.items()}
    several = " and ".join(fact.address for fact in facts.values())
    target = next(iter(facts.values())) if len(facts) == 1 else TargetFacts(kind="several", address=several)
    families = {case.family.name: case.family for case in cases}.values()
    said = ScenarioFacts(
        name=scenario.name,
        title=scenario.title,
        why=scenario.why,
        question=scenario.question,
        answer=scenario.answer,
        form=request.form_name,
        shortened=shortened(request, cases, left_out),
        targets=facts,
        families=tuple(FamilyFacts(name=one.name, title=one.title, cache=one.cache) for one in families),
        comparisons=scenario.comparisons,
        tag=tag,
    )
    result = campaigns.started("scenario", scenario.title, target)
    references = tuple(reference.load(name) for name in scenario.references)
    result = result.replace(scenario=said, references=references)
    if request.cluster_clients:
        return result.with_note("clients_real", CLIENTS_REAL, "info")
    if any(int(case.axes.get("clients", 1)) > 1 for case in cases):
        return result.with_note("clients_stand_in", CLIENTS_STAND_IN, "info")
    return result


class _Run:
    def __init__(self, request: Request, found: Mapping[str, OpenedTarget], earlier: Result | None) -> None:
        self.request, self.earlier, self.found = request, earlier, found
        tag = earlier.scenario.tag if earlier and earlier.scenario else secrets.token_hex(4)
        self.cases = Cases(request.scenario, request.form, found, tag, request.nfs_timeout_ns, request.cluster_clients)
        self.clients: dict[str, tuple[int, ...]] = {}
        self.files = RunFiles(f"iocurve-{request.scenario.name}-{tag}", found.values(), request.machines)

    def measured(self, view: View, keep: Keep) -> Result:
        everything = self.cases.all()
        self.clients = {case.job.name: case.clients for case in everything}
        wanted = [case for case in everything if self.request.is_wanted(case)]
        if not wanted:
            raise TargetError(f"{option('points')} leaves no point to measure")
        _check_space(self.request, wanted)
        result = started(self.request, wanted, self.cases.tag, len(everything) - len(wanted))
        result = result.replace(perturbation_tests=self.earlier.perturbation_tests if self.earlier else ())
        earlier = self.earlier.points if self.earlier else ()
        machines, order = self.request.machines, [case.name for case in wanted]
        campaign = Campaign(result, view, keep, order=order, earlier=earlier, machines=machines)
        return campaigns.carry_out(campaign, lambda campaign: self._measure(campaign, wanted), self._remove_files)

    def _remove_files(self, patience_ns: int | None) -> None:
        if self.request.keep_data:
            self.files.keep()
        else:
            self.files.remove(patience_ns)

    def _measure(self, campaign: Campaign, cases: Sequence[Case]) -> None:
        caches = Caches(self.cases, self._plan, campaign.prepare)
        groups = groups_of(cases, self.request.scenario.comparisons, self.request.form)
        campaign.seconds_planned = self._planned_ns(groups) / SECOND_NS
        facts = {name: one.facts for name, one in self.found.items()}
        rest_ns = times_ns(self.cases, groups, facts)
        most_ns = longest_ns(self.request.form_name, ONCE_NS + sum(rest_ns), facts)
        campaign.limit_time(self.request.patience_ns or (most_ns and most_ns - 2 * ONCE_NS))
        left_out: list[str] = []
        for place, group in enumerate(groups):
            if place and _least_ns(group) > campaign.seconds_left * SECOND_NS:
                left_out += [case.name for case in group.cases]
                continue
            campaign.share_time(rest_ns[place] / sum(rest_ns[place:]), rest_ns[place] / SECOND_NS)
            measurements = [self._measurement(case, group, caches) for case in group.cases]
            if group.rounds > 1:
                campaign.take_turns(measurements, group.rounds, self.request.enough_turns or every_turn)
            else:
                for measurement in measurements:
                    with campaign.going_on():
                        campaign.measure(measurement)
            self.files.identify()
        if left_out:
            campaign.note_left_out(left_out)
        if self.request.probe and self.request.machines is THIS_MACHINE and not campaign.result.perturbation_tests:
            longest_s = probe_short_s(campaign.result) if self.request.form_name == "short" else PROBE_LONG_S
            seconds = min(longest_s, campaign.seconds_left)
            probe(campaign, partial(self._plan_again, {case.name: case for case in cases}), seconds)

    def _plan_again(self, cases: Mapping[str, Case], name: str) -> Plan | None:
        """The plan of a point for a probe. A file or device that was named is only read."""
        case = cases[name]
        is_named = any(self.found[target].path is not None for target in case.on)
        if is_named and case.writes:
            return None
        plan = self._plan(case.job)
        return with_workers(plan, lambda _, worker: on_existing_files(worker)) if is_named else plan

    def _planned_ns(self, groups: Sequence[CaseGroup]) -> int:
        """The time of all points that no earlier run has finished, with their ramps."""
        earlier = self.earlier.points if self.earlier else ()
        finished = {point.name for point in earlier if point.outcome.state == "finished"}
        left = ((group, sum(case.name not in finished for case in group.cases)) for group in groups)
        return sum(group.measured_ns * cases // len(group.cases) for group, cases in left)

    def _measurement(self, case: Case, group: CaseGroup, caches: Caches) -> Measurement:
        plan = self._plan(case.job)
        preparations: list[str] = []

        def after(point: Point) -> Point:
            said = preparations[0] if preparations else PREPARED_EARLIER
            return point.replace(cache=caches.facts(case, plan, said, point))

        ends = {worker.end.runtime_ns for one in plan.groups for worker in one.workers}
        is_short = self.request.form_name == "short" and group.rounds == 1 and ends == {group.turn_ns}
        return Measurement(
            _longer(plan, LONGER_MAX) if is_short else plan,
            case.family.name,
            case.axes,
            case.name,
            enough=enough_operations(group.ramp_ns + group.turn_ns) if is_short else local.run_to_the_end,
            poll_s=self.request.form.interval_ns / 2 / SECOND_NS if is_short else local.POLL_S,
            target=case.on[0] if len(case.on) == 1 else None,
            seconds_expected=(group.ramp_ns + group.turn_ns) / SECOND_NS,
            before=lambda: preparations.append(caches.prepare(case, plan)),
            after=after,
            plan_again=lambda: _longer(self._plan(case.job), LONGER_MAX if is_short else 1),
            repeats_max=self.request.repeats_max,
            margin=self.request.margin or self.request.scenario.margin,
            runs_chosen=self.request.enough_turns is not None,
            compared=group.compared(case),
        )

    def _plan(self, job: Job) -> Plan:
        plan = plan_here(job, self.request.form.interval_ns)
        if self.request.cluster_clients and job.name in self.clients:
            plan = assigned(plan, self.clients[job.name])
        self.files.announce(plan)
        return plan


# ---- the time of a scenario


RUN_NS = 120 * MILLISECOND_NS
"""Time to start and to end a run: threads, connections, files that are opened."""
ONCE_NS = 4 * SECOND_NS
"""Time to start the targets, and to write the report."""
SHORT_NS = 120 * SECOND_NS
"""The short form of a scenario ends after this time, or the one that is expected if that is longer."""
SLACK = 1.5
"""Another form ends after this multiple of the time that is expected, if that is known."""


def are_known(targets: Mapping[str, TargetFacts]) -> bool:
    """True if the time to lay out files and to fill caches is known."""
    return all(one.cap("throughput_bytes_per_s") for one in targets.values())


def longest_ns(form: FormName, expected_ns: int, targets: Mapping[str, TargetFacts]) -> int | None:
    """The time after which a run ends, with fewer repetitions and points; None: it ends with its last point."""
    if form == "short":
        return max(SHORT_NS, expected_ns)
    return max(SHORT_NS, round(SLACK * expected_ns)) if are_known(targets) else None


def times_ns(cases: Cases, groups: Sequence[CaseGroup], targets: Mapping[str, TargetFacts]) -> list[int]:
    """The time of each group with its ramps, caches and files, before it runs.

    The time of each turn with its ramp is exact; the time around it is an estimate for two processors. Points that
    others disturb, and servers that are slower than what they state, take longer.
    Data is read and written at the throughput that a target states; where it states none, that time is left out.
    """
    needs_more = any(case.family.cache == "uncached" for group in groups for case in group.cases)
    data = cases.form.size_bytes + (cases.form.unrelated_bytes if needs_more else 0)
    loaded = {name for group in groups for case in group.cases for name in case.on}
    laid_out_ns = sum(_moved_ns(data, targets[name]) for name in loaded)
    checked: set[str] = set()
    times: list[int] = []
    for group in groups:
        times.append(0 if times else laid_out_ns)
        for case in group.cases:
            times[-1] += group.rounds * (group.ramp_ns + group.turn_ns + _before_ns(case, cases, targets) + RUN_NS)
            if case.family.cache != "untouched" and case.reads and case.family.name not in checked:
                checked.add(case.family.name)
                times[-1] += 2 * CHECK_PAIRS * (turn_ns(cases.form_of(case).runtime_ns) + RUN_NS)
    return times


def _before_ns(case: Case, cases: Cases, targets: Mapping[str, TargetFacts]) -> int:
    """The time to bring caches into the state that a case asks for."""
    form, policy = cases.form_of(case), case.family.cache
    if policy == "untouched":
        return 0
    if policy == "cached":
        return form.length_ns + RUN_NS
    data = cases.form.size_bytes if policy == "warmed" else cases.form.unrelated_bytes
    settle_ns = form.settle_ns or (form.runtime_ns if policy == "warmed" else 0)
    return settle_ns + sum(_moved_ns(data, targets[name]) + RUN_NS for name in case.on)


def _moved_ns(size_bytes: int, facts: TargetFacts) -> int:
    throughput = facts.cap("throughput_bytes_per_s")
    return size_bytes * SECOND_NS // throughput if throughput else 0


def _least_ns(group: CaseGroup) -> int:
    """The measured time of as many turns as an interval needs."""
    return group.measured_ns * min(group.rounds, PAIRS_MIN) // group.rounds


def _longer(plan: Plan, factor: int) -> Plan:
    """The plan with its run time multiplied."""
    return with_workers(
        plan,
        lambda _, one: one.replace(end=one.end.replace(runtime_ns=one.end.runtime_ns and factor * one.end.runtime_ns)),
    )


def enough_operations(least_ns: int) -> local.Enough:
    """Ends a run after ``least_ns``, its ramp included, as soon as the measured window has ``OPERATIONS``."""
    in_ramp = None

    def enough(live: Live) -> bool:
        nonlocal in_ramp
        if live.phase != "run":
            # Also before a run that is repeated.
            in_ramp = None
            return False
        total = sum(totals.operations for totals in live.totals.values())
        in_ramp = total if in_ramp is None else in_ramp
        return live.elapsed_ns >= least_ns and total - in_ramp >= OPERATIONS

    return enough


def _check_overwrites(request: Request) -> None:
    """Refuses writes to existing files and devices unless the user allows them. Raises ``TargetError``."""
    everything = Cases.unopened(request.scenario, request.form, request.cluster_clients).all()
    cases = [case for case in everything if request.is_wanted(case)]
    for name, target in request.targets.items():
        writes = any(case.writes for case in cases if name in case.on)
        opened_target.check_overwrites(target, overwrite=request.overwrite, writes=writes)


def _clients_wanted(scenario: Scenario) -> int:
    return max(
        max([family.clients, *map(int, scenario.full.families[family.name].axes.get("clients", ()))])
        for family in scenario.families
    )


def _check_space(request: Request, cases: Sequence[Case]) -> None:
    """Checks that the data sets fit, if the free space is known. Raises ``TargetError``."""
    needs_more = any(case.family.cache == "uncached" for case in cases)
    needed = request.form.size_bytes + (request.form.unrelated_bytes if needs_more else 0)
    used = [target for name, target in request.targets.items() if any(name in case.on for case in cases)]
    try:
        opened_target.check_space([(target, needed) for target in used])
    except TargetError as error:
        ways = ("use {quick} or {scale} 1/1000 for a smaller data set", "use {quick} or a smaller {size}")
        raise TargetError(f"{error}; {remedies(*ways, 'make room')}") from None


PROBES_MAX = 2
PROBE_PATIENCE_S = 15.0
"""Longest time of one probe, after which it ends with the verdict that it has."""
PROBE_LONG_S = PROBES_MAX * PROBE_PATIENCE_S
"""Time of all probes of a run; ..."""
PROBE_SHORT_S, PROBE_NOISY_S = 8.0, 20.0
"""... after the short form of a scenario; and where others disturbed half of its points or more."""
PROBE_LEAST_S = 2.0
"""A probe is not started with less time than this."""


def probe_short_s(result: Result) -> float:
    """Time of all probes after the short form of a scenario."""
    noisy = [point for point in result.points if disturbance(point)]
    return PROBE_NOISY_S if noisy and 2 * len(noisy) >= len(result.points) else PROBE_SHORT_S


PlanAgain = Callable[[str], Plan | None]
"""The plan of a point for another run; None where it must not run again."""


def probe(campaign: Campaign, plan_again: PlanAgain, seconds: float) -> None:
    """Probes the fastest loads whose limit is open, for ``seconds`` in all.

    Ctrl-C ends the probes and costs no point.
    """
    tried: list[str] = []
    known: Known = {}
    until_s = time.monotonic() + seconds
    try:
        while len(tried) < PROBES_MAX and (point := next_probe(campaign.result, tried, plan_again, known)):
            left_s = until_s - time.monotonic()
            if left_s < PROBE_LEAST_S:
                break
            tried.append(point.name)
            _probe(campaign, point, plan_again, min(PROBE_PATIENCE_S, left_s))
    except (Interrupted, KeyboardInterrupt):
        campaign.result = campaign.result.with_note("probe_interrupted", "the probes were interrupted", "info")
    except IocurveError as error:
        campaign.result = campaign.result.with_note("probe_failed", f"a probe failed: {error}", "info")


def next_probe(result: Result, tried: Sequence[str], plan_again: PlanAgain, known: Known) -> Point | None:
    """The load of the verdict that most share, the fastest of them: in IOPS, then in MiB/s; reads before writes.

    On a noisy machine, those that hardly need a processor and share their verdict come first.
    ``known`` keeps what the points show together from one probe to the next.
    """
    places: dict[tuple[bool, int], tuple[int, bool, float, Point]] = {}
    done = [_place(point) for point in result.points if point.name in tried]
    verdicts = verdicts_of(result, known)
    shared = Counter(verdict.text for verdict in verdicts if verdict and kind_of(verdict.code).counts)
    for point, verdict in zip(result.points, verdicts, strict=True):
        place = _place(point)
        if verdict is None or place in done or not _is_probed(point, result) or not wants_probe(verdict):
            continue
        alike, load = shared[verdict.text], MeasuredLoad(point, result.target_of(point))
        # Others that hold the processors that a load needs hide what the target does to it.
        is_clear = not disturbance(point) or (alike > 0 and sleeps(load, RESTED))
        found = (alike, is_clear, point.summary().bytes_per_s, point)
        places[place] = max(places.get(place, found), found, key=lambda one: one[:3])
    ordered = [places[place][3] for place in sorted(places, key=lambda place: (not places[place][1], place))]
    return next((point for point in ordered if plan_again(point.name)), None)


def _place(point: Point) -> tuple[bool, int]:
    """Sorts reads before writes before mixes, and IOPS before MiB/s."""
    (kind, *others) = point.summary().kinds
    return rate_unit(workers_of(point)) == "MiB/s", 2 if others else {"read": 0, "write": 1}.get(kind, 2)


def _is_probed(point: Point, result: Result) -> bool:
    """True for a closed loop that ran to its end on one target that states no limits."""
    summary = point.summary()
    is_known = not tells_nothing(result.target_of(point))
    return not (is_known or summary.paced or point.clients or point.outcome.state != "finished" or not summary.bytes)


def _probe(campaign: Campaign, point: Point, plan_again: PlanAgain, patience_s: float) -> None:
    plan = plan_again(point.name)
    assert plan is not None, "it was asked for before"
    start = time.monotonic()
    run = partial(campaign.repeat, purpose=f"probing what limits {point.name}")
    limit, base = diagnose(plan, campaign.result.target_of(point), run, patience_s)
    if limit.code != HELD_UP:
        elapsed_ns = round((time.monotonic() - start) * SECOND_NS)
        campaign.add_probe(Probe(point=point.name, limit=limit, iops=base.summary().iops, elapsed_ns=elapsed_ns))
