"""Runs jobs for programs: the loads of a dialect, as their files say or on another target, without a tool's output."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from iocurve.dialects.base import Prepared, TimedJob
from iocurve.engine.plan import FilePlan, Plan
from iocurve.errors import Diagnostic, PlanError
from iocurve.job.model import PlanNote, Said
from iocurve.job.resolve import plan_here
from iocurve.measure import campaign as campaigns
from iocurve.measure.campaign import Campaign, Keep, Measurement
from iocurve.measure.data_set import require_reachable, target_fields
from iocurve.measure.deployment import replicated
from iocurve.measure.jobs import files_to_remove, measure_plan, removal, target_facts, with_notes
from iocurve.measure.machines import THIS_MACHINE, Machines
from iocurve.report.view import View
from iocurve.result.document import Result, TargetFacts
from iocurve.targets import opened_target
from iocurve.targets.opened_target import OpenedTarget
from iocurve.targets.target import Target


@dataclass(frozen=True)
class Program:
    """Plans that run one after another, each a point."""

    kind: str
    """Kind of run in the result: the name of a dialect."""
    plans: tuple[Plan, ...]
    notes: tuple[PlanNote, ...] = ()
    target: TargetFacts | None = None
    """Default: what the plans name."""
    machines: Machines = THIS_MACHINE

    def measure(self, view: View, keep: Keep) -> Result:
        """Measures all points. Raises ``TargetError`` or ``RunError`` when nothing could be measured."""
        started = campaigns.started(self.kind, self.plans[0].name, self.target or target_facts(self.plans))
        noted = with_notes(started, self.notes)
        campaign = Campaign(noted, view, keep, count=len(self.plans), machines=self.machines)
        files = files_to_remove(self.kind, self.plans, self.machines)

        def body(campaign: Campaign) -> None:
            for plan in self.plans:
                measure_plan(campaign, files, Measurement(plan, self.kind))

        return campaigns.carry_out(campaign, body, removal(files))


def as_written(kind: str, prepared: Prepared, machines: Machines = THIS_MACHINE) -> Program:
    """The plans of a command line, on the targets that it names. Raises ``PlanError`` and ``TargetError``."""
    _require_this_machine(prepared)
    if prepared.output_without_run() is not None:
        raise PlanError([Diagnostic("this runs nothing; ask on the command line")])
    notes = tuple(prepared.require_runnable())
    # A dialect that writes its output while it measures keeps the loop over its runs to itself.
    plans = tuple(prepared.plans) if prepared.writes_output_at_end else tuple(map(_plan, prepared.jobs()))
    prepared.make_directories()
    return Program(kind, _on_machines(plans, prepared, machines), notes, machines=machines)


def measured_on(
    target: Target,
    kind: str,
    prepared: Prepared,
    view: View,
    keep: Keep,
    *,
    overwrite: bool,
    machines: Machines = THIS_MACHINE,
) -> Result:
    """Measures the loads of a command line on another target, which is open meanwhile.

    Raises ``PlanError``, and ``TargetError`` or ``RunError`` when nothing could be measured.
    """
    _require_this_machine(prepared)
    require_reachable(target, machines)
    jobs = prepared.jobs()
    writes = any(section.load.writes for one in jobs for section in one.job.sections)
    opened_target.check_overwrites(target, overwrite=overwrite, writes=writes)
    with opened_target.opened(target) as found:
        moved = [TimedJob(one.job.changed(partial(_on_target, found)), one.interval_ns) for one in jobs]
        plans = _on_machines(tuple(map(_plan, moved)), prepared, machines)
        return Program(kind, plans, prepared.notes, found.facts, machines).measure(view, keep)


def _on_machines(plans: tuple[Plan, ...], prepared: Prepared, machines: Machines) -> tuple[Plan, ...]:
    """The plans on every load client, each with its files."""
    if machines is THIS_MACHINE:
        return plans

    def own_names(file: FilePlan, client: int) -> FilePlan:
        return file.replace(path=prepared.client_path(file.path, client))

    return tuple(replicated(plan, machines.count, own_names) for plan in plans)


def _require_this_machine(prepared: Prepared) -> None:
    if prepared.cluster is not None:
        text = "load clients of a cluster are for the command line; leave out --client, --on and --map-host"
        raise PlanError([Diagnostic(text)])


def _plan(one: TimedJob) -> Plan:
    return plan_here(one.job, one.interval_ns)


def _on_target(opened: OpenedTarget, said: Said) -> Said:
    """The fields of a section on another target: files keep their names, without directories."""
    engine = said.get("engine")
    said = said.but(nfs_url=None, disk=None, directories=None, engine=None if engine in ("nfs", "null") else engine)
    if opened.path is not None:
        return said.but(paths=(opened.path,))
    names = tuple(Path(path).name for path in said.get("paths") or ())
    return target_fields(opened).over(said.but(paths=names or None))
