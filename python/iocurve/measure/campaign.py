"""Runs plans one after another: the points of one result."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from iocurve import _native
from iocurve.engine import plan as planned
from iocurve.engine.outcome import Live, Outcome
from iocurve.errors import RunError, TargetError
from iocurve.measure import local
from iocurve.report.console import LiveView
from iocurve.result import host
from iocurve.result.document import Point, Result, TargetFacts
from iocurve.targets.target import disk_facts
from iocurve.units import SECOND_NS

NULL_CEILING_S = 0.1


def measure(kind: str, name: str, plans: Sequence[planned.Plan], *, show_progress: bool) -> Result:
    """A point for each plan; one that does not finish is the last.

    Raises ``TargetError`` or ``RunError`` when nothing could be measured.
    """
    result = started(kind, name, plans)
    view: AbstractContextManager[LiveView | None] = LiveView() if show_progress else nullcontext()
    with view as live:
        for index, plan in enumerate(plans):
            if live:
                live.point_started(index, len(plans), plan.name, _seconds(plan), plan.interval_ns)
            try:
                one = point(kind, plan, live.update if live else _ignore)
            except (TargetError, RunError) as error:
                # What earlier plans measured is kept.
                if not result.points:
                    raise
                return result.ended("failed", str(error))
            result = result.with_point(one).ended(one.outcome.state, reason(one.outcome))
            if live and len(plans) > 1:
                live.point_finished(one.summary())
            if one.outcome.state != "finished":
                break
    return result


def started(kind: str, name: str, plans: Sequence[planned.Plan]) -> Result:
    """A result without points, of this machine and the places of the plans' files."""
    facts = _target_facts([worker for plan in plans for group in plan.groups for worker in group.workers])
    return Result.start(kind, name, host.collect(), facts, _native.null_ceiling(NULL_CEILING_S))


def point(kind: str, plan: planned.Plan, watch: local.Watch) -> Point:
    """Carries out one plan. Raises ``TargetError`` or ``RunError`` when nothing could be measured."""
    return local.measure(plan, watch).point(kind, {})


def reason(outcome: Outcome) -> str | None:
    """Why an outcome is not complete."""
    if outcome.state == "finished":
        return None
    errors = [f"{worker.job}: {worker.error}" for worker in outcome.workers if worker.error]
    return "; ".join(dict.fromkeys(errors)) or "interrupted"


def _ignore(_live: Live) -> None:
    """Nobody watches."""


def _target_facts(workers: Sequence[planned.Worker]) -> TargetFacts:
    """Where the files are, if that is one place."""
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


def _seconds(plan: planned.Plan) -> float:
    """Longest worker of each group, one group after another; 0 where the end is an amount."""
    ends = [
        [
            worker.start_delay_ns + worker.ramp_ns + (worker.end.runtime_ns or 0) + worker.cooldown_ns
            for worker in group.workers
        ]
        for group in plan.groups
    ]
    return sum(map(max, ends)) / SECOND_NS
