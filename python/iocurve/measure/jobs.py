"""Runs jobs of a dialect: prepares, measures, and answers in that dialect's form."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from iocurve.analysis.load_names import load_axes, load_family
from iocurve.dialects.base import ClusterRequest, Dialect, Measured, ParsedCommand, Step
from iocurve.engine import plan as planned
from iocurve.engine.outcome import Live, Outcome
from iocurve.engine.plan import FilePlan, Plan
from iocurve.foundation.errors import Interrupted, PlanError, TargetError, option
from iocurve.foundation.units import SECOND_NS, format_duration
from iocurve.job.model import PlanNote
from iocurve.measure import campaign as campaigns
from iocurve.measure import interrupts
from iocurve.measure.campaign import Campaign, CutShort, Measurement
from iocurve.measure.deployment import replicated
from iocurve.measure.local import Enough
from iocurve.measure.machines import THIS_MACHINE, Machines
from iocurve.measure.run_files import tell_leftovers_of_plans
from iocurve.report.views import progress_view
from iocurve.result import host
from iocurve.result.document import Result, TargetFacts
from iocurve.result.stalls import starved_volume_text
from iocurve.targets.nfs_url import nfs_address

if TYPE_CHECKING:
    from iocurve.measure.run_files import RunFiles
    from iocurve.report.page import ReportDirectory


NO_TARGET = TargetFacts(kind="null", address="null")
FILES_PLANNED_AHEAD = 20_000
"""Files of the plans that are made before a run, to look for what earlier runs left."""

BeforeRun = Callable[[Iterable[Plan]], None]
"""Called with the plans before they run; what it raises ends the command."""
RunPlan = Callable[[Step, Plan, Enough], Outcome]
"""Runs the plan of a step. Raises ``CutShort`` where it does not finish."""
OpenCluster = Callable[[ClusterRequest], AbstractContextManager[Machines]]
"""Opens agents on machines of a cluster."""


def run(
    dialect: Dialect,
    arguments: Sequence[str],
    out: Path | None = None,
    *,
    quiet: bool = False,
    machines: Machines = THIS_MACHINE,
    cluster: OpenCluster | None = None,
    before_run: BeforeRun | None = None,
) -> Result | None:
    """Runs a command line of a dialect and answers as its tool does; None where there was nothing to run.

    ``out`` is a directory for the report, where the dialect's own words name none. With ``quiet`` neither progress nor
    notes are printed; the result keeps the notes. ``cluster`` opens the machines that the command line names.
    With ``before_run`` the result has all points, also where the output of the tool needs none.
    Raises ``DialectError``, ``PlanError``, and ``TargetError`` or ``RunError`` when nothing could be measured.
    """
    information = dialect.information(arguments)
    if information is not None:
        print(information)
        return None
    command = dialect.prepare(arguments)
    if command.only_prints is not None:
        _tell(command.notes)
        sys.stdout.write(command.only_prints)
        return None
    if command.needs.cluster is None or cluster is None:
        return _measured(dialect.name, command, command.out or out, machines, before_run, quiet=quiet)
    with cluster(command.needs.cluster) as clients:
        return _measured(dialect.name, command, command.out or out, clients, before_run, quiet=quiet)


def needs_machines(dialect: Dialect, arguments: Sequence[str], before_run: BeforeRun | None = None) -> bool:
    """False for a command line that runs nothing, such as ``--help``; refuses what cannot run before hosts are started.

    Raises ``DialectError``, ``PlanError`` and ``TargetError`` for all that this machine can know.
    """
    if dialect.information(arguments) is not None:
        return False
    command = dialect.prepare(arguments)
    if command.only_prints is not None:
        return False
    command.require_runnable()
    if before_run:
        before_run(command.plans())
    _require_writable(command.needs.output_paths)
    return True


def require_no_overwrites(command: ParsedCommand, *, overwrite: bool) -> None:
    """Refuses a job that writes to what exists, unless the user allows it. Raises ``TargetError``."""
    found = [note for note in command.notes if note.code == "overwrites"]
    if found and not overwrite:
        raise TargetError("\n".join(f"{note}; {option('overwrite')} allows it" for note in found))


def _measured(
    kind: str,
    command: ParsedCommand,
    out: Path | None,
    machines: Machines,
    before_run: BeforeRun | None,
    *,
    quiet: bool,
) -> Result:
    if not quiet:
        _tell(command.notes)
    command.require_runnable()
    if before_run:
        before_run(command.plans())
    _require_writable(command.needs.output_paths)
    command.needs.make_directories()
    if not quiet:
        tell_leftovers_of_plans(list(_planned_ahead(command)), machines)
    directory = None if out is None else _report_directory(out)
    with interrupts.deferred():
        with progress_view(keeps_lines=command.count != 1, quiet=quiet or not command.needs.progress) as view:
            campaign = Campaign(
                campaigns.started(kind, command.title, NO_TARGET, with_ceiling=out is not None),
                view,
                directory.keep if directory else lambda _: None,
                count=command.count,
                keeps_points=out is not None or command.needs.points or before_run is not None,
                machines=machines,
            )
            result = measure_steps(campaign, kind, command, writes=True, keeps_job=directory is not None)
        told = len(result.notes)
        try:
            result = command.finish(result)
        finally:
            # Output that cannot be written costs no report.
            if directory:
                result = directory.finish(result)
    if not quiet:
        campaigns.tell_waits(result)
        if text := starved_volume_text(campaign.starved_volumes):
            _tell([PlanNote("volume_starved", text, None, "warning")])
        _tell(PlanNote(note.code, note.text, None, note.level) for note in result.notes[told:] if note.level != "error")
    return result


def measure_steps(
    campaign: Campaign,
    kind: str,
    command: ParsedCommand,
    *,
    writes: bool,
    keeps_job: bool = True,
    target: TargetFacts | None = None,
) -> Result:
    """Measures each step as a point, with the tool's output if it ``writes``. Raises as ``campaigns.carry_out``.

    With ``keeps_job`` the result has the job, where TOML can express it. ``target`` is the one target of all steps; by
    default the plans say which it is.
    """
    used, needs = UsedTargets(campaign, kind, target), command.needs
    if keeps_job:
        with contextlib.suppress(PlanError):
            campaign.result = campaign.result.replace(job=convert(command))
    ended_ns: int | None = None

    def run(step: Step, plan: Plan, enough: Enough) -> Outcome:
        nonlocal ended_ns
        if (replicas := needs.replicas) is not None:
            plan = replicated(plan, campaign.machines.count, partial(_renamed, replicas.path), replicas.runs_on)
        used.add(plan)
        enough = used.identifying(enough)
        axes = {} if step.axes is None else load_axes(plan) | dict(step.axes)
        measurement = Measurement(
            plan,
            load_family(plan) or kind if axes else kind,
            axes,
            name=step.title or None,
            phases=step.phases,
            enough=enough,
            keeps_intervals=needs.intervals and writes,
            length_is_users=True,
            may_be_empty=not needs.operations,
        )
        if step.phases:
            return campaign.measure_phases(measurement)
        outcome = campaign.measure(measurement).outcome
        before_ns, ended_ns = ended_ns, time.monotonic_ns()
        if before_ns is not None and (text := gap_text(step, outcome, ended_ns - before_ns)):
            campaign.result = campaign.result.with_note("between_phases", f"{plan.name}: {text}")
        return outcome

    def body(campaign: Campaign) -> None:
        walk(command, run, writes=writes, left_out=campaign.leave_out)

    return with_notes(campaigns.carry_out(campaign, body, used.remove), command.notes)


GAP_NS_MIN = SECOND_NS
"""A longer time between two phases is remarked."""


def gap_text(step: Step, outcome: Outcome, passed_ns: int) -> str:
    """A sentence on the time before the phase that has just ended; empty where it was short.

    ``passed_ns`` is the time since the phase before; the gap is what is left of it without this phase's load and
    without a requested pause. It is in none of the tool's rows.
    """
    load_ns = max((worker.drained_ns for worker in outcome.workers), default=0)
    gap_ns = passed_ns - load_ns - step.pause_ns
    if not step.is_timed_phase or gap_ns <= GAP_NS_MIN:
        return ""
    return (
        f"{format_duration(gap_ns)} passed between the phase before and its load, in which the target was "
        "prepared and files were opened, synced or removed; no row has that time"
    )


def _renamed(path: Callable[[str, int], str], file: FilePlan, client: int) -> FilePlan:
    return file.replace(path=path(file.path, client))


def walk(
    command: ParsedCommand,
    run: RunPlan,
    *,
    writes: bool = True,
    left_out: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Runs the steps of a command line in all rounds, until one does not finish.

    With ``writes`` the tool's output is written, all but ``ParsedCommand.finish``. ``left_out`` is called for a step
    that does not run. Raises what the functions of the steps raise, and ``CutShort`` once the output is written.
    """
    with command.running():
        with command.writing(command.notes) if writes else nullcontext():
            cut = _walk_rounds(command, partial(_walk_step, run=run, writes=writes, left_out=left_out), clock, sleep)
        if cut:
            raise cut


def _walk_rounds(
    command: ParsedCommand,
    walk_step: Callable[[Step, Measured], Outcome | CutShort | None],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> CutShort | None:
    started = clock()
    for number in count() if command.rounds is None else range(command.rounds):
        if number and command.seconds is not None and clock() >= started + command.seconds:
            return None
        measured: dict[int, Outcome] = {}
        for place, step in enumerate(command.again if number else command.steps):
            if step.pause_ns and (number or place):
                _pause(step.pause_ns, sleep)
            outcome = walk_step(step, measured)
            if isinstance(outcome, CutShort):
                return outcome
            if outcome is None:
                continue
            if outcome.state != "finished" or not step.goes_on(outcome):
                return None
            if step.kept:
                measured[place] = outcome
    return None


def _walk_step(
    step: Step, measured: Measured, *, run: RunPlan, writes: bool, left_out: Callable[[], None]
) -> Outcome | CutShort | None:
    """Runs one step; None if it is left out. A run that was cut short has output, too."""
    step.before()
    plan = step.plan(measured)
    if plan is None:
        left_out()
        return None
    follow, is_enough = step.follow(plan) if writes else lambda _: None, step.enough()

    def enough(live: Live) -> bool:
        follow(live)
        return is_enough(live)

    cut = None
    try:
        outcome = run(step, plan, enough)
    except CutShort as error:
        outcome, cut = error.outcome, error
    if outcome.state == "finished":
        step.after(outcome)
    if writes:
        step.answer(outcome)
    return cut or outcome


def _pause(pause_ns: int, sleep: Callable[[float], None]) -> None:
    try:
        sleep(pause_ns / SECOND_NS)
    except KeyboardInterrupt:
        raise Interrupted("stopped in the pause before a run") from None


def _planned_ahead(command: ParsedCommand) -> Iterator[Plan]:
    """The plans of the first steps, until these have many files."""
    files = 0
    for plan in command.plans():
        yield plan
        files += sum(len(worker.files) for group in plan.groups for worker in group.workers)
        if files > FILES_PLANNED_AHEAD:
            return


def with_notes(result: Result, notes: Iterable[PlanNote]) -> Result:
    """The result with the notes of a job."""
    for note in notes:
        result = result.with_note(note.code, str(note), note.level)
    return result


def _report_directory(path: Path) -> ReportDirectory:
    """Loaded here: a job without a report loads nothing that draws one. Raises ``TargetError``."""
    from iocurve.report.page import ReportDirectory

    return ReportDirectory(path)


class UsedTargets:
    """The targets of the plans of a campaign, and the files that the plans make there and do not keep."""

    def __init__(self, campaign: Campaign, kind: str, target: TargetFacts | None = None) -> None:
        """``target`` is the one target of all plans, where the caller knows it."""
        self._campaign, self._kind, self._target = campaign, kind, target
        self._files: RunFiles | None = None
        self._mounts: dict[str, planned.NfsMount] = {}
        self._disks: dict[planned.DiskPlan, None] = {}
        self._directories: dict[str, None] = {}
        self._named: dict[str, None] = {}
        """Directories of names that the plans only make, look up or remove."""

    def add(self, plan: Plan) -> None:
        """Adds the targets of a plan to the result, and lists its files in manifests. Raises ``TargetError``."""
        workers = [worker for group in plan.groups for worker in group.workers]
        for worker in workers:
            self._add(worker)
        self._campaign.result = self._campaign.result.replace(target=self._target or self._facts())
        if self._files is None and not all(file.keep for worker in workers for file in worker.files):
            from iocurve.measure.run_files import RunFiles

            run = f"iocurve-{self._kind}-{os.urandom(4).hex()}"
            self._files = RunFiles(run, machines=self._campaign.machines, unkept=True)
        if self._files:
            self._files.announce(plan)

    def identifying(self, enough: Enough) -> Enough:
        """As ``enough``; notes which files the run has made as soon as they are laid out."""
        return self._files.identifying(enough) if self._files else enough

    def remove(self, patience_ns: int | None) -> None:
        """Removes the files at the end, if there are any to remove. Raises ``TargetError`` if files stay."""
        if self._files:
            self._files.remove(patience_ns)

    def _add(self, worker: planned.Worker) -> None:
        engine = worker.engine
        if isinstance(engine, planned.NfsEngine | planned.NfsMetadataEngine):
            self._mounts.setdefault(nfs_address(engine.mount), engine.mount)
        elif worker.disk:
            self._disks[worker.disk] = None
        elif not isinstance(engine, planned.NullEngine):
            # There may be a million names in a few directories.
            parents = dict.fromkeys(file.path.rpartition("/")[0] or file.path[:1] for file in worker.files)
            found = self._named if isinstance(engine, planned.MetadataEngine) else self._directories
            found.update(dict.fromkeys(str(Path(parent).absolute()) for parent in parents))

    def _facts(self) -> TargetFacts:
        """The target of all plans so far, or ``several``. A name in a directory of the others is no other target."""
        highest = [one for one in self._named if not any(str(above) in self._named for above in Path(one).parents)]
        directories = dict.fromkeys([*self._directories, *highest])
        places = len(self._mounts) + len(self._disks) + len(directories)
        if places > 1:
            return TargetFacts(kind="several", address=f"{places} places")
        for disk in self._disks:
            # Other jobs need nothing of targets.
            from iocurve.targets.target import disk_facts

            return disk_facts(disk)
        for address in self._mounts:
            return TargetFacts(kind="nfs", address=address)
        for path in directories:
            return TargetFacts(kind="directory", address=path, mount=host.mount_of(Path(path)))
        return NO_TARGET


def convert(command: ParsedCommand) -> str:
    """The job file (TOML) of a job in another dialect. Raises ``PlanError`` if TOML cannot express it."""
    from iocurve.dialects.native.output import write

    return write(command.jobs(), command.source)


def _tell(notes: Iterable[PlanNote]) -> None:
    """Notes go to stderr, so that stdout keeps to the answer."""
    for note in notes:
        print(f"{note.level}: {note}", file=sys.stderr)


def _require_writable(paths: Iterable[Path]) -> None:
    """Checks before a run that its output files can be written. Raises ``TargetError``."""
    for path in paths:
        reason = None
        if not path.parent.is_dir():
            reason = f"there is no directory {path.parent}"
        elif path.is_dir():
            reason = "it is a directory"
        elif not os.access(path if path.exists() else path.parent, os.W_OK):
            reason = "Permission denied"
        if reason:
            raise TargetError(f"{path} cannot be written: {reason}")
