"""Runs jobs of a dialect: prepares, measures, and answers in that dialect's form."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from iocurve.dialects.base import ClusterRequest, Dialect, Prepared
from iocurve.engine import plan as planned
from iocurve.engine.outcome import Live, Outcome
from iocurve.engine.plan import FilePlan, Plan
from iocurve.errors import PlanError, TargetError
from iocurve.job.model import PlanNote
from iocurve.measure import campaign as campaigns
from iocurve.measure import interrupts
from iocurve.measure.campaign import Campaign, CleanUp, CutShort, Measurement
from iocurve.measure.deployment import replicated
from iocurve.measure.leftovers import tell_leftovers_of_plans
from iocurve.measure.local import Enough
from iocurve.measure.machines import THIS_MACHINE, Machines
from iocurve.report.view import progress_view
from iocurve.result import host
from iocurve.result.disturbance import starved_volume_text
from iocurve.result.document import Result, TargetFacts
from iocurve.targets.disk_facts import disk_facts
from iocurve.targets.nfs_url import nfs_address

if TYPE_CHECKING:
    from iocurve.measure.run_files import RunFiles
    from iocurve.report.directory import ReportDirectory


BeforeRun = Callable[[Sequence[Plan]], None]
"""Called with the plans before they run; what it raises ends the command."""
OpenCluster = Callable[[ClusterRequest], AbstractContextManager[Machines]]
"""Opens load clients on machines of a cluster."""


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
    prepared = dialect.prepare(arguments)
    output = prepared.output_without_run()
    if output is not None:
        _tell(prepared.notes)
        sys.stdout.write(output)
        return None
    if prepared.cluster is None or cluster is None:
        return _measured(dialect.name, prepared, prepared.out or out, machines, before_run, quiet=quiet)
    with cluster(prepared.cluster) as clients:
        return _measured(dialect.name, prepared, prepared.out or out, clients, before_run, quiet=quiet)


def needs_machines(dialect: Dialect, arguments: Sequence[str], before_run: BeforeRun | None = None) -> bool:
    """False for a command line that runs nothing, such as ``--help``; refuses what cannot run before hosts are started.

    Raises ``DialectError``, ``PlanError`` and ``TargetError`` for all that this machine can know.
    """
    if dialect.information(arguments) is not None:
        return False
    prepared = dialect.prepare(arguments)
    if prepared.output_without_run() is not None:
        return False
    prepared.require_runnable()
    if before_run:
        before_run(prepared.plans)
    _require_writable(prepared.output_paths())
    return True


def _measured(
    kind: str, prepared: Prepared, out: Path | None, machines: Machines, before_run: BeforeRun | None, *, quiet: bool
) -> Result:
    notes, obstacles = prepared.check()
    if not quiet:
        _tell(notes)
    if obstacles:
        raise PlanError(obstacles)
    if before_run:
        before_run(prepared.plans)
    _require_writable(prepared.output_paths())
    prepared.make_directories()
    plans = prepared.plans
    if not quiet:
        tell_leftovers_of_plans(plans, machines)
    directory = None if out is None else _report_directory(out)
    with interrupts.deferred():
        with progress_view(keeps_lines=len(plans) > 1, quiet=quiet or not prepared.shows_progress) as view:
            campaign = Campaign(
                campaigns.started(
                    kind, prepared.title or plans[0].name, target_facts(plans), with_ceiling=out is not None
                ),
                view,
                directory.keep if directory else lambda _: None,
                count=len(plans),
                keeps_points=out is not None or prepared.writes_output_at_end or before_run is not None,
                machines=machines,
            )
            files = files_to_remove(kind, plans, machines)
            result = campaigns.carry_out(campaign, partial(_run, kind, prepared, files), removal(files))
        result = with_notes(result, notes)
        told = len(result.notes)
        try:
            result = prepared.write_output(result)
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


def with_notes(result: Result, notes: Iterable[PlanNote]) -> Result:
    """The result with the notes of a job."""
    for note in notes:
        result = result.with_note(note.code, str(note), note.level)
    return result


def removal(files: RunFiles | None) -> CleanUp:
    """Removes the files at the end, if there are any to remove."""
    return files.remove if files else lambda _: None


def _report_directory(path: Path) -> ReportDirectory:
    """Loaded here: a job without a report loads nothing that draws one. Raises ``TargetError``."""
    from iocurve.report.directory import ReportDirectory

    return ReportDirectory(path)


def files_to_remove(kind: str, plans: Sequence[Plan], machines: Machines) -> RunFiles | None:
    """The files that the run makes and does not keep; None if it keeps all."""
    workers = [worker for plan in plans for group in plan.groups for worker in group.workers]
    if all(file.keep for worker in workers for file in worker.files):
        return None
    from iocurve.measure.run_files import RunFiles

    return RunFiles(f"iocurve-{kind}-{secrets.token_hex(4)}", machines=machines, unkept=True)


def _run(kind: str, prepared: Prepared, files: RunFiles | None, campaign: Campaign) -> None:
    """Runs all plans of the dialect, which also sees the outcome of a plan that was cut short."""
    cut_short: list[CutShort] = []

    def own_names(file: FilePlan, client: int) -> FilePlan:
        return file.replace(path=prepared.client_path(file.path, client))

    def run_plan(plan: Plan, enough: Enough) -> Outcome:
        try:
            if not prepared.places_workers:
                plan = replicated(plan, campaign.clients, own_names, prepared.runs_on)
            measurement = Measurement(plan, kind, enough=enough, keeps_intervals=prepared.needs_intervals)
            return measure_plan(campaign, files, measurement)
        except CutShort as cut:
            cut_short.append(cut)
            return cut.outcome

    prepared.measure(run_plan)
    if cut_short:
        raise cut_short[0]


def measure_plan(campaign: Campaign, files: RunFiles | None, measurement: Measurement) -> Outcome:
    """Measures a plan as a point. Raises as ``Campaign.measure``."""
    if files:
        files.announce(measurement.plan)
        measurement = replace(measurement, enough=identifying(files, measurement.enough))
    return campaign.measure(measurement).outcome


def identifying(files: RunFiles, enough: Enough) -> Enough:
    """As ``enough``; notes which files the run has made as soon as they are laid out."""
    is_done = False

    def watch(live: Live) -> bool:
        nonlocal is_done
        if not is_done and live.phase not in ("layout", "prepare"):
            is_done = True
            files.identify()
        return enough(live)

    return watch


def convert(prepared: Prepared) -> str:
    """The job file (TOML) of a job in another dialect. Raises ``PlanError`` if TOML cannot express it."""
    from iocurve.dialects.native.output import write

    return write(prepared.jobs(), prepared.source)


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


def target_facts(plans: Sequence[Plan]) -> TargetFacts:
    """The target of all workers, or ``several``."""
    workers = [worker for plan in plans for group in plan.groups for worker in group.workers]
    over_nfs = planned.NfsEngine | planned.NfsMetadataEngine
    mounts = {worker.engine.mount for worker in workers if isinstance(worker.engine, over_nfs)}
    disks = {worker.disk for worker in workers if worker.disk}
    paths = {
        str(Path(file.path).absolute().parent)
        for worker in workers
        if not (worker.disk or isinstance(worker.engine, over_nfs | planned.NullEngine))
        for file in worker.files
    }
    places = len(mounts) + len(disks) + len(paths)
    if places > 1:
        return TargetFacts(kind="several", address=f"{places} places")
    for disk in disks:
        return disk_facts(disk)
    for mount in mounts:
        return TargetFacts(kind="nfs", address=nfs_address(mount))
    for path in paths:
        return TargetFacts(kind="directory", address=path, mount=host.mount_of(Path(path)))
    return TargetFacts(kind="null", address="null")
