"""Names the limit of an emulated disk that held a point down. The engine labels the limit; the plan has its value."""

from __future__ import annotations

from iocurve.analysis.levels import levels
from iocurve.analysis.limit_kinds import Limit, limit
from iocurve.analysis.measured_load import MeasuredLoad
from iocurve.engine.plan import DiskPlan, IoLimits
from iocurve.units import MB, SECOND_NS, format_duration, format_number

PREFIX = "limited_by_"
"""Starts the labels that the engine gives to limits. Reports show them as limits, not as labels."""
BASELINE_TOLERANCE = 0.1
"""The rate after burst credits ran out is within this fraction of the baseline."""


def disk_limit(load: MeasuredLoad) -> Limit | None:
    """The limits that most operations of a worker waited for; None if they waited for none."""
    found: dict[str, str] = {}
    disks: dict[str, DiskPlan] = {}
    for worker in load.workers:
        disk = worker.plan.disk
        for label in worker.outcome.labels if disk else ():
            if disk and label.startswith(PREFIX):
                code = label.removeprefix(PREFIX)
                found.setdefault(_text(code, disk), code)
                disks.setdefault(code, disk)
    if not found:
        return None
    code = next(iter(found.values()))
    evidence = [
        "most operations waited for this limit, as the emulated disk counted them",
        f"{load.iops():,.0f} IOPS, {format_number(load.bytes_per_s() / MB, 5)} MB/s measured",
    ]
    if exhausted := _exhausted(load, code, disks[code]):
        return limit("burst_credits", exhausted, load.target, evidence=evidence)
    return limit(code, f"at {' and '.join(found)}", load.target, evidence=evidence)


def _exhausted(load: MeasuredLoad, code: str, disk: DiskPlan) -> str | None:
    """The moment at which burst credits ran out, in words; None where they did not."""
    name, limits = _limits(code.rpartition("_")[0], disk)
    step = levels([interval.iops for interval in load.course])
    if limits.burst is None or step is None:
        return None
    is_iops = code.endswith("iops")
    baseline = limits.iops if is_iops else limits.bytes_per_s
    scale = 1.0 if is_iops else load.bytes_per_s() / load.iops()
    if abs(step.after * scale / baseline - 1) > BASELINE_TOLERANCE:
        return None
    at_s = (load.course[step.index].start_ns - load.course[0].start_ns) / SECOND_NS
    lasts = format_duration(limits.burst.duration_ns)
    return (
        f"burst credits of the {name} ran out {format_number(at_s, 3)} s into the measured time: "
        f"{step.before:,.0f} IOPS before, {step.after:,.0f} after; a full bucket lasts {lasts}"
    )


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
