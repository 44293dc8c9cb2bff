"""The one measuring loop: runs plans one after another and keeps each point as soon as it is measured.

What is measured next is decided by a body: the cases of a scenario, the strategy of a search, the runs of a job. The
body calls ``Campaign.measure``; everything that can happen to a run is handled here, once.
"""

from __future__ import annotations

import math
import random
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise
from pathlib import Path
from time import monotonic

import msgspec

from iocurve._native import null_ceiling
from iocurve.analysis.limits import with_verdicts
from iocurve.analysis.load_names import along_axes
from iocurve.engine.derived import block_bytes_max, with_workers
from iocurve.engine.outcome import Live, Outcome, State
from iocurve.engine.plan import Plan
from iocurve.foundation.errors import Interrupted, IocurveError, RunError, option
from iocurve.foundation.units import SECOND_NS, counted, format_duration
from iocurve.measure import interrupts, local
from iocurve.measure.machines import THIS_MACHINE, Machines, client_notes, stall_text
from iocurve.report.progress import POINT_COLUMNS, StartedPoint, View
from iocurve.report.views import progress_view
from iocurve.result import host, stalls, turns
from iocurve.result.course import singly
from iocurve.result.document import (
    NOTHING_MEASURED,
    Axis,
    ClientOutcome,
    MachineUse,
    NoteLevel,
    Point,
    Probe,
    Result,
    SearchFacts,
    TargetFacts,
)
from iocurve.result.paired import MARGIN, PAIRS_MIN
from iocurve.result.stalls import disturbance, severity, starved_volume
from iocurve.result.turns import phases_of

NULL_CEILING_S = 0.1
"""Run time of the null engine, which measures the rate of the loop without I/O."""

HURRIED_NS = SECOND_NS
"""Longest time for which the clean-up of a run that failed or was interrupted waits for a server."""

CleanUp = Callable[[int | None], None]
"""Removes the files of a run; waits for a silent server as long as given in ns, or by default as long as the load does.

Raises ``TargetError`` if files stay.
"""

NAMED_MAX = 3
"""Points that are named among those left out."""

Keep = Callable[[Result], None]
"""Called with the result after each point, so that a late failure loses at most one point."""


class Measurement(msgspec.Struct, frozen=True):
    """A point before it is measured."""

    plan: Plan
    family: str
    axes: dict[str, Axis] = msgspec.field(default_factory=dict)
    name: str | None = None
    """Default: the name of the plan."""
    phases: tuple[str, ...] = ()
    """Names of the groups of the plan, each a point; empty: all of them are one point."""
    target: str | None = None
    """Name of the scenario's target that the point loads."""
    seconds_expected: float | None = None
    """Default: the run time that the plan asks for."""
    enough: local.Enough = local.run_to_the_end
    poll_s: float = local.POLL_S
    before: Callable[[], None] = lambda: None
    """Called before the point runs, once the view shows it."""
    after: Callable[[Point], Point] = lambda point: point
    """Called after a point that finished; it may add facts to the point."""
    plan_again: Callable[[], Plan] | None = None
    """Makes the plan of a further run, with new offsets. Default: the same plan."""
    repeats_max: int = 0
    """The point is measured again at most this many times where others on this machine disturb it."""
    margin: float = MARGIN
    """Smallest relative difference from the points that it takes turns with that matters."""
    runs_chosen: bool = False
    """The number of its turns is chosen by their noise."""
    compared: tuple[str, ...] = ()
    """Names of the points that take turns, first the base of this point's gain. Default: all, first the first one."""
    keeps_intervals: bool = False
    """Some output needs every interval of each worker; otherwise later ones are joined, for less memory."""
    length_is_users: bool = False
    """The user chose depth and run time, not a search or a scenario: a run that is short for its target is remarked."""
    may_be_empty: bool = False
    """True if a run in which nothing completed is not an error of the command."""

    @property
    def title(self) -> str:
        """The name in views and tables."""
        return self.plan.name if self.name is None else self.name


EnoughTurns = Callable[[Result, int], bool]
"""Says by the result so far, and the number of rounds, whether points that take turns need no further ones."""


def every_turn(_result: Result, _rounds: int) -> bool:
    """Takes all turns."""
    return False


class CutShort(Exception):  # noqa: N818 - it ends a campaign, which may be what the user wanted
    """A plan ended before its time; the campaign ends with it."""

    def __init__(self, state: State, reason: str, outcome: Outcome) -> None:
        super().__init__(reason)
        self.state, self.reason, self.outcome = state, reason, outcome


class Campaign:
    """Measures points for a body and collects them in ``result``."""

    def __init__(
        self,
        result: Result,
        view: View,
        keep: Keep,
        *,
        count: int | None = None,
        order: Sequence[str] = (),
        earlier: Iterable[Point] = (),
        keeps_points: bool = True,
        machines: Machines = THIS_MACHINE,
    ) -> None:
        """``order`` has the names of all points; the result has them in this order, whichever is measured first."""
        self._count = len(order) if order else count
        facts = machines.cluster_facts()
        self.result, self.machines = result.replace(cluster=facts, points_planned=self._count), machines
        if facts and facts.missing:
            text = f"measured without {', '.join(facts.missing)}: {counted(machines.count, 'agent')} took part"
            self.result = self.result.with_note("clients_missing", text)
        self._view, self._keep, self._keeps_points = view, interrupts.undivided(keep), keeps_points
        self._order = {name: place for place, name in enumerate(order)}
        self._earlier = {point.name: point for point in earlier}
        self.measured = 0
        """Number of points so far."""
        self.starved_volumes: dict[str, float] = {}
        """By point the share of time for which the measured volume was starved, 0 where it was not."""
        self.failed: list[str] = []
        """Reasons why points failed that did not end the campaign."""
        self._rates: dict[object, float] = {}
        """IOPS of each load so far, by its kinds and block sizes."""
        self.seconds_planned = 0.0
        """Expected time of all points with their turns, for the view and for repeats; 0 where it is unknown."""
        self._seconds_again = 0.0
        """Time that repeats of disturbed runs took so far."""
        self._ends_s = self._share_ends_s = self._again_most_s = math.inf
        self._turns_began_s = 0.0

    def limit_time(self, patience_ns: int | None) -> None:
        """The time that is left from now on; None: any."""
        self._ends_s = math.inf if patience_ns is None else monotonic() + patience_ns / SECOND_NS
        self._share_ends_s = self._ends_s

    def share_time(self, share: float, expected_s: float) -> None:
        """The points that follow have this part of the time that is left; what they are not expected to need of it is
        for repeats of disturbed runs."""
        has_s = share * self.seconds_left
        self._share_ends_s = monotonic() + has_s
        self._again_most_s = self._seconds_again + has_s - expected_s

    @property
    def seconds_left(self) -> float:
        """Time in which measurements may end; infinite without a limit."""
        return self._ends_s - monotonic()

    def note_left_out(self, names: Sequence[str]) -> None:
        """Notes points that are left out because the time is over."""
        text = f"{option('search_time')} left out {counted(len(names), 'point')}: {', '.join(names[:NAMED_MAX])}"
        self.result = self.result.with_note("left_out", text + (" …" if names[NAMED_MAX:] else ""), "info")

    def ends_turns(self, done: int, rounds: int, enough: EnoughTurns) -> bool:
        """True after ``done`` of at most ``rounds`` rounds if they are enough, or another one would take too long.

        An interval needs ``PAIRS_MIN``, which may take time from the points after these.
        """
        now = monotonic()
        without_repeats = now - self._seconds_again
        if not done:
            self._turns_began_s = without_repeats
        round_s = (without_repeats - self._turns_began_s) / max(1, done)
        if done and now + round_s > (self._ends_s if done < PAIRS_MIN else self._share_ends_s):
            text = f"{option('search_time')} ended the runs after {done} of {rounds}"
            self.result = self.result.with_note("left_out", text, "info")
            return True
        return enough(self.result, done)

    def leave_out(self) -> None:
        """A point of the count will not be measured."""
        if self._count is not None:
            self._count -= 1
            self.result = self.result.replace(points_planned=self._count)

    def measure(self, next_one: Measurement) -> Point:
        """Measures a point and keeps it. A point that an earlier run finished is reused.

        Raises ``CutShort`` where it does not finish (it is kept all the same), ``TargetError`` or ``RunError`` where
        nothing was measured.
        """
        earlier = self._finished_earlier(next_one)
        if earlier is not None:
            return earlier
        attempts = Attempts(next_one.repeats_max)
        kept: Point | None = None
        while self._goes_on(attempts):
            plan = next_one.plan if kept is None else _plan_again(next_one)
            run = self._run(next_one, plan, is_again=kept is not None)
            attempts.runs.append(run)
            kept = self._put(attempts.point, kept)
            self._require_finished(next_one, run)
        assert kept is not None, "there is at least one attempt"
        self._note_emptiness(next_one, kept)
        point = self._amended(next_one.after(kept), kept)
        self._view.point_finished(point.summary(), point.noise)
        return point

    def measure_phases(self, one: Measurement) -> Outcome:
        """Measures a point for each phase of a plan, and keeps those that started. Raises as ``measure``."""
        run, machines = self._started(one, one.plan)
        for number, phase in enumerate(map(along_axes, phases_of(run, one.phases, machines))):
            if number:
                self._show(one, phase.plan, name=phase.name)
            self._remark(one, phase)
            self._note_emptiness(one, phase)
            self._put(phase, None)
            if phase.outcome.state != "finished":
                self._view.point_finished(phase.summary())
                raise CutShort(run.outcome.state, self._placed(phase.name, run), run.outcome)
            self._view.point_finished(phase.summary(), phase.noise)
        return run.outcome

    def add_run(self, one: Measurement, before: Point | None) -> tuple[Point, Point]:
        """Measures a point, or measures one again whose runs add up; gives the point and the run.

        A run that others disturb is repeated and counts only as often as there is no better one. Raises as ``measure``.
        """
        attempts = Attempts(one.repeats_max)
        kept = before
        while self._goes_on(attempts):
            attempts.runs.append(self._run(one, one.plan, is_again=kept is not None))
            point = turns.with_run(before, attempts.best, attempts.discarded) if before else attempts.point
            kept = self._put(point, kept)
            self._require_finished(one, attempts.runs[-1])
        assert kept is not None, "there is at least one attempt"
        self._note_emptiness(one, kept)
        self._view.point_finished(kept.summary(), kept.noise)
        return kept, attempts.best

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """A point that fails inside is kept, and does not end the campaign: the target may be back for the next one."""
        try:
            yield
        except CutShort as cut:
            if cut.state != "failed":
                raise
            self.failed.append(cut.reason)

    def ended(self, state: State, reason: str | None = None, search: SearchFacts | None = None) -> Result:
        """The result at the end of the campaign; it has failed where points have."""
        reasons = [*self.failed, *([reason] if reason else [])]
        state = "failed" if self.failed and state == "finished" else state
        return self.result.replace(search=search).ended(state, "; ".join(reasons) or None)

    def take_turns(self, group: Sequence[Measurement], rounds: int, enough: EnoughTurns = every_turn) -> None:
        """Measures points that are compared in turns: A B B A B A …, for three A B C C B A …, and keeps each turn.

        ``enough`` says after each round whether further ones are needed; there are ``rounds`` at most.
        Turns and points that an earlier run finished are reused. A point of which a turn fails has no more turns; the
        others go on. Raises as ``measure`` does.
        """
        names = tuple(one.title for one in group)
        waiting = [one for one in group if self._finished_earlier(one) is None]
        points = {one.title: self._taken_over(one, lambda earlier: bool(earlier.runs)) for one in waiting}
        for place in turn_places(len(waiting), rounds, f"{self.order_seed} {names}"):
            if place.starts_round and self.ends_turns(place.round - 1, rounds, enough):
                break
            one = waiting[place.member]
            before = points.get(one.title)
            if one.title not in points or turns.has_turn(before, place.round):
                continue
            del points[one.title]
            with self.going_on():
                points[one.title], _ = self.take_turn(one, before, place, rounds, names)
        for one in waiting:
            point = points.get(one.title)
            if point is not None:
                self._amended(one.after(turns.in_state(point, "finished")), point)

    def end_turns(self, points: Iterable[Point]) -> None:
        """Ends points that need no further turns."""
        for point in points:
            if point.outcome.state == "interrupted":
                self._amended(turns.in_state(point, "finished"), point)

    @property
    def order_seed(self) -> str:
        """Draws the order of turns; a run that is resumed has the one of the earlier run."""
        return self.result.scenario.tag if self.result.scenario else self.result.created.isoformat()

    def take_turn(
        self, one: Measurement, before: Point | None, place: TurnPlace, rounds: int, names: tuple[str, ...]
    ) -> tuple[Point, Point]:
        """One turn of a point, measured again where others disturb it and the point has repeats left.

        Gives the point with all its turns, and the run. Raises as ``measure`` does.
        """
        attempts = Attempts(one.repeats_max - (before.retries if before else 0))
        kept = before
        while self._goes_on(attempts):
            is_first = before is None and not attempts.runs
            run = self._run(
                one, one.plan if is_first else _plan_again(one), (place.round, rounds), is_again=bool(attempts.runs)
            )
            attempts.runs.append(run)
            # A run that was cut short before it measured anything is no turn.
            if before is None or attempts.best.outcome.state == "finished" or attempts.best.summary().operations:
                point = turns.with_turn(before, attempts.best, (place.round, place.order), attempts.discarded)
                compared = point.replace(
                    compared_with=one.compared or names, margin=one.margin, runs_chosen=one.runs_chosen
                )
                kept = self._put(turns.in_state(compared, _state(point, rounds)), kept)
            self._require_finished(one, run)
        assert kept is not None, "there is at least one attempt"
        is_last = place.round == rounds
        self._note_emptiness(one, kept if is_last else attempts.best, is_turn=not is_last)
        if is_last:
            self._view.point_finished(kept.summary(), kept.noise)
        else:
            self._view.turn_finished()
        return kept, attempts.best

    def take_turn_of_phases(
        self,
        one: Measurement,
        points: dict[str, Point],
        place: TurnPlace,
        rounds: int,
        compared: Sequence[tuple[str, ...]],
    ) -> Outcome:
        """One turn of a plan whose phases are points, each compared with those of its names; else as ``take_turn``."""
        before = [points.get(name) for name in one.phases]
        attempts = Attempts(one.repeats_max - max(point.retries if point else 0 for point in before))
        while self._goes_on(attempts):
            plan = one.plan if not any(before) and not attempts.runs else _plan_again(one)
            run, _ = self._started(one, plan, (place.round, rounds), is_again=bool(attempts.runs))
            attempts.runs.append(run)
            if run.outcome.state != "finished":
                break
        others = [phases_of(each, one.phases) for each in attempts.discarded]
        for number, phase in enumerate(phases_of(attempts.best, one.phases)):
            discarded = [each[number] for each in others if number < len(each)]
            point = turns.with_turn(before[number], phase, (place.round, place.order), discarded)
            point = point.replace(compared_with=compared[number], margin=one.margin, runs_chosen=one.runs_chosen)
            points[phase.name] = self._put(turns.in_state(point, _state(point, rounds)), before[number])
        self._require_finished(one, attempts.runs[-1])
        if place.round == rounds:
            self._view.point_finished(attempts.best.summary(), attempts.best.noise)
        else:
            self._view.turn_finished()
        return attempts.best.outcome

    def prepare(self, plan: Plan, purpose: str, enough: local.Enough = local.run_to_the_end) -> Outcome:
        """Runs a plan that is no point of the result, such as a cache warm-up or a cache check.

        Raises ``Interrupted`` or ``RunError`` where it does not finish, ``TargetError`` where it cannot run.
        """
        self._view.preparing(purpose)
        try:
            outcome = local.finished(self.machines.start(plan, purpose), self._watch(enough))
        finally:
            self._view.preparing(None)
        return self._whole(purpose, outcome)

    def repeat(self, plan: Plan, purpose: str) -> Point:
        """Measures a load that is no point of the result, such as a probe. Raises as ``prepare`` does."""
        self._view.preparing(purpose)
        try:
            point, _ = local.measure(plan, self._watch(local.run_to_the_end), machines=self.machines)
        finally:
            self._view.preparing(None)
        self._whole(purpose, point.outcome)
        return point

    def add_probe(self, probe: Probe) -> None:
        """Keeps what a probe found."""
        self.result = self.result.replace(perturbation_tests=(*self.result.perturbation_tests, probe))
        self._keep(self.result)

    def _whole(self, purpose: str, outcome: Outcome) -> Outcome:
        self._note_obstacles(purpose, outcome)
        if outcome.state == "interrupted":
            raise Interrupted(f"interrupted: {purpose}")
        if outcome.state != "finished":
            raise RunError(f"{purpose}: {reason(outcome)}")
        return outcome

    def finish(self, result: Result) -> None:
        """Keeps the result in its final state, with the verdict on what limited each point."""
        self.result = with_verdicts(result)
        self._keep(self.result)

    def clean_up(self, remove: CleanUp) -> None:
        """Removes the files of the run. A file that stays is noted in the result; it never costs what was measured."""
        try:
            with interrupts.delivered():
                remove(None if self.result.state == "finished" else HURRIED_NS)
        except (IocurveError, KeyboardInterrupt) as error:
            self._note_files_left(str(error) or "interrupted")
            if self.measured:
                self._keep(self.result)
            else:
                print(f"iocurve: {self.result.notes[-1].text}", file=sys.stderr)

    def _note_obstacles(self, title: str, outcome: Outcome) -> None:
        """Notes servers that were waited for, and files that stay."""
        for stall in outcome.stalls:
            self.result = self.result.with_note("server_stalled", f"{title}: {stall_text(stall)}")
        if outcome.files_left is not None:
            self._note_files_left(outcome.files_left)

    def _note_files_left(self, why: str) -> None:
        self.result = self.result.with_note("files_left", f"files of this run are left on the target: {why}", "error")

    def _run(self, one: Measurement, plan: Plan, turn: tuple[int, int] = (1, 1), *, is_again: bool = False) -> Point:
        """Runs a plan once."""
        point, _ = self._started(one, plan, turn, is_again=is_again)
        self._remark(one, point)
        return point

    def _started(
        self, one: Measurement, plan: Plan, turn: tuple[int, int] = (1, 1), *, is_again: bool = False
    ) -> tuple[Point, Sequence[MachineUse | None]]:
        """Runs a plan once; gives the point, and the use of this machine in each phase."""
        if text := self._foreseen(one, plan):
            self._view.warned(text)
        self._show(one, plan, turn, is_again=is_again)
        one.before()
        plan = plan if one.keeps_intervals else _with_joined_intervals(plan)
        watch = self._watch(one.enough)
        began = monotonic()
        point, machines = local.measure(plan, watch, one.poll_s, self.machines, bool(one.phases))
        self._seconds_again += is_again * (monotonic() - began)
        name = plan.name if one.name is None else one.name
        point = point.replace(name=name, family=one.family, axes=one.axes, target=one.target)
        self._note_obstacles(one.title, point.outcome)
        return point, machines

    def _goes_on(self, attempts: Attempts) -> bool:
        """True if a further attempt is due. All repeats together take about as long as was said for the points."""
        is_over = 0 < self.seconds_planned <= self._seconds_again
        if attempts.runs and attempts.wants_more and is_over:
            time = format_duration(round(self._seconds_again * SECOND_NS))
            text = f"noisy runs were measured again for {time}, and then no more"
            self.result = self.result.with_note("repeats_over", text, "info")
            return False
        is_over = monotonic() >= self._share_ends_s or self._seconds_again >= self._again_most_s
        return attempts.wants_more and not (attempts.runs and is_over)

    def _show(
        self, one: Measurement, plan: Plan, turn: tuple[int, int] = (1, 1), *, is_again: bool = False, name: str = ""
    ) -> None:
        """Shows in the view that a point starts."""
        self._view.point_started(
            StartedPoint(
                index=self._order.get(one.title, self.measured - is_again),
                count=self._count,
                name=name or one.title,
                seconds_expected=_seconds(plan) if one.seconds_expected is None else one.seconds_expected,
                interval_ns=plan.interval_ns,
                turn=turn,
                is_again=is_again,
                seconds_planned=self.seconds_planned,
                seconds_left=0.0 if math.isinf(self._ends_s) else self.seconds_left,
                caps=self.result.target.caps,
                name_columns=max([POINT_COLUMNS, *map(len, self._order)]),
            )
        )

    def _remark(self, one: Measurement, point: Point) -> None:
        """Notes what a run shows of itself: that its target was slow, or that the client was held up."""
        self._rates[_load_of(point.plan)] = point.summary().iops
        for code, text in chain(client_notes(point), stalls.remarks(point)):
            if code != stalls.SLOW_TARGET or one.length_is_users:
                self.result = self.result.with_note(code, text)

    def _note_emptiness(self, one: Measurement, point: Point, *, is_turn: bool = False) -> None:
        """Notes that nothing was measured. It is an error of a whole point; another turn or attempt may have more."""
        if point.is_empty:
            title = one.title if point.phase is None else point.name
            level: NoteLevel = "warning" if is_turn or one.may_be_empty else "error"
            self.result = self.result.with_note("nothing_measured", f"{title}: {NOTHING_MEASURED}", level)

    def _foreseen(self, one: Measurement, plan: Plan) -> str:
        """A warning of a run that is short for its depth at the rate of the same load before, or of the target's limit.

        Empty without one.
        """
        rate = self._rates.get(_load_of(plan)) or stalls.limit_iops(self.result.target, plan)
        workers = [worker for group in plan.groups for worker in group.workers]
        lengths = [worker.end.runtime_ns for worker in workers if worker.end.runtime_ns]
        is_paced = any(worker.rate or any(kind.rate for kind in worker.operations) for worker in workers)
        if not (one.length_is_users and rate and lengths) or is_paced:
            return ""
        depth = max(sum(worker.depth for worker in group.workers) for group in plan.groups)
        return stalls.foreseen_text(one.title, depth, rate, max(lengths))

    def _finished_earlier(self, one: Measurement) -> Point | None:
        """A point that an earlier run finished, added to the result."""
        return self._taken_over(one, lambda earlier: earlier.outcome.state == "finished")

    def _taken_over(self, one: Measurement, is_wanted: Callable[[Point], bool]) -> Point | None:
        """A point of an earlier run, added to the result."""
        earlier = self._earlier.get(one.title)
        if earlier is None or not is_wanted(earlier):
            return None
        self._add(earlier)
        return earlier

    def _put(self, point: Point, instead_of: Point | None) -> Point:
        """Keeps a point, in the place of an earlier state of it."""
        if instead_of is None:
            self._add(point)
        else:
            self._replace(instead_of, point)
        self.starved_volumes[point.name] = starved_volume(point.machine)
        self._keep(self.result)
        return point

    def _add(self, point: Point) -> None:
        self.measured += 1
        if not self._keeps_points:
            return
        points = (*self.result.points, point)
        if self._order:
            points = tuple(sorted(points, key=lambda one: self._order[one.name]))
        self.result = self.result.replace(points=points)

    def _replace(self, old: Point, new: Point) -> None:
        points = tuple(new if point is old else point for point in self.result.points)
        self.result = self.result.replace(points=points)

    def _amended(self, point: Point, kept: Point) -> Point:
        """Adds facts to a point that was kept."""
        if self._keeps_points and point is not kept:
            self._put(point, kept)
        return point

    def _require_finished(self, one: Measurement, run: Point) -> None:
        """Raises ``CutShort`` where a run ended before its time."""
        if run.outcome.state == "finished":
            return
        self._view.point_finished(run.summary())
        raise CutShort(run.outcome.state, self._placed(one.title, run), run.outcome)

    def _watch(self, enough: local.Enough) -> local.Enough:
        def watch(live: Live) -> bool:
            self._view.update(live)
            return enough(live)

        return watch

    def _placed(self, title: str, run: Point) -> str:
        """The reason why a point was cut short, with the point's number."""
        why = reason(run.outcome, run.clients)
        number = self._order.get(title, self.measured - 1) + 1
        return why if self._count in (None, 1) else f"point {number} of {self._count} ({title}) was cut short: {why}"


class Attempts(msgspec.Struct):
    """The runs of one point, or of one of its turns: a disturbed run is repeated while repeats are left.

    What the target did is never repeated away: a run in which it stalled is not measured again, and counts.
    """

    repeats_max: int
    runs: list[Point] = msgspec.field(default_factory=list)

    @property
    def wants_more(self) -> bool:
        """True before the first run, and as long as all runs were disturbed and repeats are left."""
        return not self.runs or (self.repeats < self.repeats_max and not any(map(_counts, self.runs)))

    @property
    def best(self) -> Point:
        """The run that others disturbed least, after one with a stall; one that did not finish is the last choice."""
        finished = [run for run in self.runs if run.outcome.state == "finished"]
        return min(
            finished or self.runs,
            key=lambda run: (stalls.of_target(run) is None, bool(disturbance(run)), severity(run.machine)),
        )

    @property
    def discarded(self) -> list[Point]:
        """All runs but the best."""
        best = self.best
        return [run for run in self.runs if run is not best]

    @property
    def repeats(self) -> int:
        """Number of runs after the first."""
        return len(self.runs) - 1

    @property
    def point(self) -> Point:
        """The best run, with the fields that tell of disturbances."""
        replaced = tuple(turns.turn_of(run, (1, 1)) for run in self.discarded)
        return self.best.replace(retries=self.repeats, discarded=replaced, noise=disturbance(self.best))


def _load_of(plan: Plan) -> object:
    """Plans of equal kinds and block sizes have about the same rate on a target that is slow."""
    workers = [worker for group in plan.groups for worker in group.workers]
    return frozenset((kind.kind, block_bytes_max(kind.blocks)) for worker in workers for kind in worker.operations)


def _with_joined_intervals(plan: Plan) -> Plan:
    kept = singly(sum(len(group.workers) for group in plan.groups))
    return with_workers(plan, lambda _, worker: worker.replace(intervals_singly=kept))


def _counts(run: Point) -> bool:
    """True if the run is not measured again: others did not disturb it, or the target stalled."""
    return not disturbance(run) or stalls.of_target(run) is not None


class TurnPlace(msgspec.Struct, frozen=True):
    """The place of a turn."""

    round: int
    """From 1."""
    order: int
    """Among all turns, from 1."""
    member: int
    """Index of the point."""
    starts_round: bool


BLOCK = 5
"""Rounds whose order is drawn together, so that both orders occur however early the turns end."""


def turn_places(members: int, rounds: int, seed: str) -> list[TurnPlace]:
    """The order of turns: some rounds run backwards, so that a steady drift favours no point; ``seed`` draws which.

    If every other round did, a target whose rate swings with a period of four turns would favour one point in all
    rounds (randomised blocks: R. A. Fisher, "The Design of Experiments", Oliver & Boyd 1935).
    """
    chance, order_of = random.Random(seed), (list(range(members)), list(reversed(range(members))))
    backwards = [one for first in range(0, rounds, BLOCK) for one in _backwards(min(BLOCK, rounds - first), chance)]
    flat = [(number, member) for number, one in enumerate(backwards, 1) for member in order_of[one]]
    return [
        TurnPlace(number, order, member, starts_round=(order - 1) % members == 0)
        for order, (number, member) in enumerate(flat, 1)
    ]


def _backwards(rounds: int, chance: random.Random) -> list[bool]:
    """Draws which rounds of a block run backwards: not all, not none, and not every other one.

    Of one or two rounds the second does. Of four, two do: a single one would be fitted exactly by the order as a
    covariate, whatever it measured.
    """
    least = rounds // 2 if rounds < BLOCK else 1
    while rounds >= PAIRS_MIN:
        drawn = [chance.random() < 0.5 for _ in range(rounds)]
        alternates = rounds > PAIRS_MIN and all(one != other for one, other in pairwise(drawn))
        if least <= sum(drawn) <= rounds - least and not alternates:
            return drawn
    return [number % 2 == 1 for number in range(rounds)]


def _plan_again(one: Measurement) -> Plan:
    return one.plan_again() if one.plan_again else one.plan


def _state(point: Point, rounds: int) -> State:
    """The state of a point that takes turns: interrupted as long as turns are missing."""
    if all(turns.has_turn(point, number) for number in range(1, rounds + 1)):
        return "finished"
    return "failed" if point.runs[-1].state == "failed" else "interrupted"


Measure = Callable[[View, Keep], Result]
"""Measures with a view, and keeps the result after each point."""
Body = Callable[[Campaign], SearchFacts | None]
"""Measures points; the findings of a search become part of the result."""


def carry_out(campaign: Campaign, body: Body, remove: CleanUp = lambda _: None) -> Result:
    """Runs a body until it returns, fails, or a point is cut short; then removes the files of the run.

    The result keeps everything measured until then, whatever happened. Raises what the body raised where nothing was
    measured at all.
    """
    with interrupts.deferred():
        try:
            with interrupts.delivered():
                found = body(campaign)
            result = campaign.ended("finished", search=found)
        except CutShort as cut:
            result = campaign.ended(cut.state, cut.reason)
        except (Exception, KeyboardInterrupt) as error:
            result = campaign.ended(*_end(error, campaign.measured))
            if not campaign.measured:
                campaign.clean_up(remove)
                raise
        campaign.finish(result)
        campaign.clean_up(remove)
    return campaign.result


def _end(error: BaseException, points: int) -> tuple[State, str]:
    """The state that an error leaves a campaign in, and the reason."""
    if isinstance(error, Interrupted | KeyboardInterrupt):
        return "interrupted", str(error) or f"interrupted after {counted(points, 'point')}"
    if isinstance(error, IocurveError):
        return "failed", str(error)
    if isinstance(error, MemoryError):
        return "failed", "this machine, or its memory limit, has no memory left"
    if isinstance(error, OSError):
        return "failed", f"{error.filename or 'stdout'}: {error.strerror}"
    traceback.print_exception(error)
    return "failed", f"internal error, please report it: {type(error).__name__}: {error}"


def into_directory(directory: Path, measure: Measure, *, quiet: bool = False) -> Result:
    """Measures with a live view; ``result.json`` is kept in ``directory`` after every point, the report at the end.

    With ``quiet`` no progress is shown.

    Raises what ``measure`` raises, ``TargetError`` where nothing can be written there, or where another run writes.
    """
    from iocurve.report.page import ReportDirectory

    with ReportDirectory(directory) as kept, interrupts.deferred():
        with interrupts.delivered(), progress_view(quiet=quiet) as view:
            result = measure(view, kept.keep)
        if not quiet:
            tell_waits(result)
        return kept.finish(result)


def tell_waits(result: Result) -> None:
    """Prints the remarks on stalls and other waits to stderr."""
    for note in result.notes:
        if note.code in stalls.CODES:
            print(f"{note.level}: {note.text}", file=sys.stderr)


def started(kind: str, name: str, target: TargetFacts, *, with_ceiling: bool = True) -> Result:
    """A result without points, of this machine and moment; kept results include the null engine's rate."""
    ceiling = null_ceiling(NULL_CEILING_S) if with_ceiling else None
    return Result.start(kind, name, host.collect(), target, ceiling)


def reason(outcome: Outcome, clients: Sequence[ClientOutcome] = ()) -> str:
    """The reason why an outcome is incomplete."""
    whole = [client for client in clients if client.state == "finished"]
    missing = [f"{client.name} {client.reason}" for client in clients if client.reason]
    if missing:
        return f"{len(whole)} of {counted(len(clients), 'agent')} finished: {'; '.join(missing)}"
    errors = [f"{worker.job}: {worker.error}" for worker in outcome.workers if worker.error]
    return "; ".join(dict.fromkeys(errors)) or "interrupted"


def _seconds(plan: Plan) -> float:
    """Longest worker of each group, one group after another; 0 where the end is an amount."""
    ends = [
        [
            worker.start_delay_ns + worker.ramp_ns + (worker.end.runtime_ns or 0) + worker.cooldown_ns
            for worker in group.workers
        ]
        for group in plan.groups
    ]
    return sum(map(max, ends)) / SECOND_NS
