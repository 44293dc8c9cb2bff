"""Runs what was written in a dialect: prepares, measures, answers in that dialect's form."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from iocurve.dialects.base import Dialect, Prepared
from iocurve.engine import plan as planned
from iocurve.engine.outcome import Live, Outcome
from iocurve.engine.plan import Plan
from iocurve.errors import PlanError, TargetError
from iocurve.job.model import PlanNote
from iocurve.measure import campaign as campaigns
from iocurve.measure.campaign import Campaign, CutShort, Measurement
from iocurve.report.view import NoView, View, progress_view
from iocurve.result import host
from iocurve.result.document import Result, TargetFacts
from iocurve.targets.disk_facts import disk_facts


def run(dialect: Dialect, arguments: Sequence[str], out: Path | None = None) -> Result | None:
    """Runs a command line of a dialect and answers as its tool does; None where there was nothing to run.

    ``out`` is a directory for the report, where the dialect's own words name none.
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
    return _measured(dialect.name, prepared, prepared.out or out)


def _measured(kind: str, prepared: Prepared, out: Path | None) -> Result:
    notes, obstacles = prepared.check()
    _tell(notes)
    if obstacles:
        raise PlanError(obstacles)
    _require_writable(prepared.output_paths())
    prepared.make_directories()
    plans = prepared.plans
    with _view(prepared, len(plans)) as view:
        campaign = Campaign(
            campaigns.started(kind, plans[0].name, _target_facts(plans), with_ceiling=out is not None),
            view,
            lambda _: None,
            keeps_points=out is not None or prepared.writes_output_at_end,
        )
        result = campaigns.carry_out(campaign, lambda campaign: _run(kind, prepared, campaign))
    for note in notes:
        result = result.with_note(note.code, str(note), note.level)
    result = prepared.write_output(result)
    if out is not None:
        # A job without a report loads nothing that draws one.
        from iocurve.report import page

        page.write_all(result, out)
    return result


def _run(kind: str, prepared: Prepared, campaign: Campaign) -> None:
    """Everything the dialect asks for; it sees a plan that was cut short, too, before that ends the campaign."""
    cut_short: list[CutShort] = []

    def run_plan(plan: Plan, enough: Callable[[Live], bool]) -> Outcome:
        try:
            return campaign.measure(Measurement(plan, kind, enough=enough)).outcome
        except CutShort as cut:
            cut_short.append(cut)
            return cut.outcome

    prepared.measure(run_plan)
    if cut_short:
        raise cut_short[0]


def convert(prepared: Prepared) -> str:
    """A job file of what was written in another dialect. Raises ``PlanError`` where none can say it."""
    from iocurve.dialects.native.output.toml import write

    return write(prepared.jobs(), prepared.source)


def _view(prepared: Prepared, plans: int) -> AbstractContextManager[View]:
    return progress_view(keeps_lines=plans > 1) if prepared.shows_progress else nullcontext(NoView())


def _tell(notes: Iterable[PlanNote]) -> None:
    """Notes go to stderr, so that stdout keeps to the answer."""
    for note in notes:
        print(f"{note.level}: {note}", file=sys.stderr)


def _require_writable(paths: Iterable[Path]) -> None:
    """What cannot be written after a run is known before it. Raises ``TargetError``."""
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


def _target_facts(plans: Sequence[Plan]) -> TargetFacts:
    """Where the files are, if that is one place."""
    workers = [worker for plan in plans for group in plan.groups for worker in group.workers]
    mounts = {worker.engine.mount for worker in workers if isinstance(worker.engine, planned.NfsEngine)}
    disks = {worker.disk for worker in workers if worker.disk}
    paths = {
        str(Path(file.path).absolute().parent)
        for worker in workers
        if not (worker.disk or isinstance(worker.engine, planned.NfsEngine | planned.NullEngine))
        for file in worker.files
    }
    places = len(mounts) + len(disks) + len(paths)
    if places > 1:
        return TargetFacts(kind="several", address=f"{places} places")
    for disk in disks:
        return disk_facts(disk)
    for mount in mounts:
        return _nfs_facts(mount)
    for path in paths:
        return TargetFacts(kind="directory", address=path, mount=host.mount_of(Path(path)))
    return TargetFacts(kind="null", address="null")


def _nfs_facts(mount: planned.NfsMount) -> TargetFacts:
    port = f":{mount.port}" if mount.port else ""
    return TargetFacts(kind="nfs", address=f"nfs://{mount.host}{port}{mount.export}?nconnect={mount.nconnect}")
