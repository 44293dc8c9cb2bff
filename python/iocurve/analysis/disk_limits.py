"""Which limit of an emulated disk held a point down: the engine says which, the plan how much that is."""

from __future__ import annotations

from iocurve.engine.plan import DiskPlan, IoLimits
from iocurve.result.document import Note, Point
from iocurve.targets.disk_data import MB

PREFIX = "limited_by_"
"""Of the engine's labels that say which; they are told as limits and not as labels."""
SHORT = {
    "disk_iops": "disk's IOPS",
    "disk_throughput": "disk's MB/s",
    "vm_uncached_iops": "VM's uncached IOPS",
    "vm_uncached_throughput": "VM's uncached MB/s",
    "vm_cached_iops": "VM's cached IOPS",
    "vm_cached_throughput": "VM's cached MB/s",
}
"""Names of the limits for narrow places, by code."""
STEPS = {
    "disk_iops": "For more IOPS, use a larger disk, stripe several, or let a host cache serve the reads.",
    "disk_throughput": "For more throughput, use a larger disk, stripe several, or let a host cache serve the reads.",
    "vm_uncached_iops": "The virtual machine lets no more IOPS through to its disks: use a larger one.",
    "vm_uncached_throughput": "The virtual machine lets no more bytes through to its disks: use a larger one.",
    "vm_cached_iops": "The virtual machine serves no more IOPS with a host cache: use a larger one.",
    "vm_cached_throughput": "The virtual machine serves no more bytes with a host cache: use a larger one.",
}
"""What to do next, by code."""


def disk_limit(point: Point) -> Note | None:
    """The limits that most operations of a worker waited for; None where there are none."""
    found: dict[str, str] = {}
    for outcome in point.outcome.workers:
        disk = point.plan.groups[outcome.group].workers[outcome.worker].disk
        for label in outcome.labels if disk else ():
            if disk and label.startswith(PREFIX):
                code = label.removeprefix(PREFIX)
                found.setdefault(_text(code, disk), code)
    if not found:
        return None
    return Note(code=next(iter(found.values())), text=f"at {' and '.join(found)}")


def _text(code: str, disk: DiskPlan) -> str:
    where, _, figure = code.rpartition("_")
    name, limits = _limits(where, disk)
    value = f"{limits.iops:,} IOPS" if figure == "iops" else f"{limits.bytes_per_s / MB:,.6g} MB/s"
    burst = limits.burst
    if burst:
        above = f"{burst.iops:,} IOPS" if figure == "iops" else f"{burst.bytes_per_s / MB:,.6g} MB/s"
        value += f" ({above} while burst credits last)"
    return f"the {name} limit of {value}"


def _limits(where: str, disk: DiskPlan) -> tuple[str, IoLimits]:
    if where == "disk" or disk.vm is None:
        return f"disk's ({disk.name})", disk.limits
    limits = disk.vm.cached if where == "vm_cached" else disk.vm.uncached
    assert limits is not None, "what holds operations up is a limit of the plan"
    return f"virtual machine's ({disk.vm.name}) {where.removeprefix('vm_')}", limits
