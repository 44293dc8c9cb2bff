"""The one measuring loop: runs plans one after another and keeps each point as soon as it is measured.

What is measured next is decided by a body: the cases of a scenario, the strategy of a search, the runs of a job. The
body calls ``Campaign.measure``; everything that can happen to a run is handled here, once.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from iocurve import _native, interrupts
from iocurve.analysis.limits import with_verdicts
from iocurve.engine.outcome import Live, Outcome, State
from iocurve.engine.plan import Plan
from iocurve.errors import Interrupted, IocurveError, RunError
from iocurve.measure import local
from iocurve.report.view import View, progress_view
from iocurve.result import host
from iocurve.result.document import Axis, Point, Result, SearchFacts, TargetFacts
from iocurve.units import SECOND_NS, counted, format_duration

NULL_CEILING_S = 0.1
"""Run time of the null engine, which measures the rate of the loop without I/O."""

STALLED = {
    "layout": "while files were laid out",
    "prepare": "before the load began",
    "load": "under the load",
    "cleanup": "while files were removed",
}
"""Where a stall lay, by the phase of the run."""

HURRIED_NS = SECOND_NS
"""Longest time for which the clean-up of a run that failed or was interrupted waits for a server."""

CleanUp = Callable[[int | None], None]
"""Removes the files of a run; waits for a silent server as long as given in ns, or by default as long as the load does.

Raises ``TargetError`` if files stay.
"""

Keep = Callable[[Result], None]
"""Called with the result after each point, so that a late failure loses at most one point."""


@dataclass(frozen=True)
class Measurement:
    """A point before it is measured."""

    plan: Plan
    family: str
    axes: dict[str, Axis] = field(default_factory=dict)
    name: str | None = None
    """Default: the name of the plan."""
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

    @property
    def title(self) -> str:
        """The name in views and tables."""
        return self.plan.name if self.name is None else self.name


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
        earlier: Iterable[Point] = (),
        keeps_points: bool = True,
    ) -> None:
        self.result = result
        self._view, self._keep, self._count, self._keeps_points = view, keep, count, keeps_points
        self._earlier = {point.name: point for point in earlier if point.outcome.state == "finished"}
        self.measured = 0
        """Number of points so far."""

    def measure(self, next_one: Measurement) -> Point:
        """Measures a point and keeps it. A point that an earlier run finished is reused.

        Raises ``CutShort`` where it does not finish (it is kept all the same), ``TargetError`` or ``RunError`` where
        nothing was measured.
        """
        earlier = self._earlier.get(next_one.title)
        if earlier is not None:
            self._add(earlier)
            return earlier
        plan, seconds = next_one.plan, next_one.seconds_expected
        expected = _seconds(plan) if seconds is None else seconds
        self._view.point_started(self.measured, self._count, next_one.title, expected, plan.interval_ns)
        next_one.before()
        measured = local.measure(plan, self._watch(next_one.enough), next_one.poll_s)
        point = measured.point(next_one.family, next_one.axes, next_one.name).replace(target=next_one.target)
        self._add(point)
        self._note_obstacles(next_one.title, point.outcome)
        self._keep(self.result)
        if point.outcome.state == "finished":
            point = self._amended(next_one.after(point))
        self._view.point_finished(point.summary())
        if point.outcome.state != "finished":
            raise CutShort(point.outcome.state, self._placed(next_one.title, point.outcome), point.outcome)
        return point

    def prepare(self, plan: Plan, purpose: str, enough: local.Enough = local.run_to_the_end) -> Outcome:
        """Runs a plan that is no point of the result, such as a cache warm-up or a cache check.

        Raises ``Interrupted`` or ``RunError`` where it does not finish, ``TargetError`` where it cannot run.
        """
        outcome = local.run(plan, self._watch(enough))
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

    def _add(self, point: Point) -> None:
        if self._keeps_points:
            self.result = self.result.with_point(point)
        self.measured += 1

    def _note_obstacles(self, title: str, outcome: Outcome) -> None:
        """Notes servers that were waited for, and files that stay."""
        for stall in outcome.stalls:
            text = (
                f"{title}: NFS server {stall.server} did not answer for {format_duration(stall.duration_ns)} "
                f"{STALLED[stall.phase]} ({stall.reason})"
            )
            self.result = self.result.with_note("server_stalled", text)
        if outcome.files_left is not None:
            self._note_files_left(outcome.files_left)

    def _note_files_left(self, why: str) -> None:
        self.result = self.result.with_note("files_left", f"files of this run are left on the target: {why}", "error")

    def _amended(self, point: Point) -> Point:
        """Adds facts to the newest point."""
        points = self.result.points
        if points and point is not points[-1]:
            self.result = self.result.replace(points=(*points[:-1], point))
            self._keep(self.result)
        return point

    def _watch(self, enough: local.Enough) -> local.Enough:
        def watch(live: Live) -> bool:
            self._view.update(live)
            return enough(live)

        return watch

    def _placed(self, title: str, outcome: Outcome) -> str:
        """The reason why a point was cut short, with the point's number."""
        why = reason(outcome)
        return why if self._count is None else f"point {self.measured} of {self._count} ({title}) was cut short: {why}"


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
            result = campaign.result.replace(search=found).ended("finished")
        except CutShort as cut:
            result = campaign.result.ended(cut.state, cut.reason)
        except (Exception, KeyboardInterrupt) as error:
            result = campaign.result.ended(*_end(error, campaign.measured))
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


def into_directory(directory: Path, measure: Callable[[View, Keep], Result], *, quiet: bool = False) -> Result:
    """Measures with a live view; ``result.json`` is kept in ``directory`` after every point, the report at the end.

    With ``quiet`` no progress is shown.

    Raises what ``measure`` raises, ``TargetError`` where nothing can be written there.
    """
    from iocurve.report.directory import ReportDirectory

    kept = ReportDirectory(directory)
    with interrupts.deferred():
        with interrupts.delivered(), progress_view(quiet=quiet) as view:
            result = measure(view, kept.keep)
        return kept.finish(result)


def started(kind: str, name: str, target: TargetFacts, *, with_ceiling: bool = True) -> Result:
    """A result without points, of this machine and moment; kept results include the null engine's rate."""
    ceiling = _native.null_ceiling(NULL_CEILING_S) if with_ceiling else None
    return Result.start(kind, name, host.collect(), target, ceiling)


def reason(outcome: Outcome) -> str:
    """The reason why an outcome is incomplete."""
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
