"""Names the limit of an emulated disk that held a point down. The engine labels the limit; the plan has its value."""

from __future__ import annotations

from iocurve.analysis.limit_kinds import Limit
from iocurve.engine.plan import DiskPlan, IoLimits
from iocurve.result.document import Point
from iocurve.targets.disk_data import MB
from iocurve.units import format_number

PREFIX = "limited_by_"
"""Starts the labels by which the engine names a limit. Reports show them as limits, not as labels."""


def disk_limit(point: Point) -> Limit | None:
    """The limits that most operations of a worker waited for; None if they waited for none."""
    found: dict[str, str] = {}
    for outcome in point.outcome.workers:
        disk = point.plan.groups[outcome.group].workers[outcome.worker].disk
        for label in outcome.labels if disk else ():
            if disk and label.startswith(PREFIX):
                code = label.removeprefix(PREFIX)
                found.setdefault(_text(code, disk), code)
    if not found:
        return None
    return Limit(code=next(iter(found.values())), text=f"at {' and '.join(found)}")


def _text(code: str, disk: DiskPlan) -> str:
    where, _, figure = code.rpartition("_")
    name, limits = _limits(where, disk)
    value = f"{limits.iops:,} IOPS" if figure == "iops" else f"{format_number(limits.bytes_per_s / MB)} MB/s"
    burst = limits.burst
    if burst:
        above = f"{burst.iops:,} IOPS" if figure == "iops" else f"{format_number(burst.bytes_per_s / MB)} MB/s"
        value += f" ({above} while burst credits last)"
    return f"the {name} limit of {value}"


def _limits(where: str, disk: DiskPlan) -> tuple[str, IoLimits]:
    if where == "disk" or disk.vm is None:
        return f"disk's ({disk.name})", disk.limits
    limits = disk.vm.cached if where == "vm_cached" else disk.vm.uncached
    assert limits is not None, "the engine names only limits that the plan has"
    return f"virtual machine's ({disk.vm.name}) {where.removeprefix('vm_')}", limits
