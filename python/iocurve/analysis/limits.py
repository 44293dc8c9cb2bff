"""Finds the limit that held each point down, with the value at which the point reached it.

A limit is named only where the measurement shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iocurve.analysis.disk_limits import disk_limit
from iocurve.analysis.limit_kinds import Limit
from iocurve.engine.outcome import WorkerOutcome
from iocurve.engine.plan import NfsEngine, OperationPlan, Plan
from iocurve.result.document import Axis, Point, Result, TargetFacts
from iocurve.result.summary import Summary, summarise
from iocurve.units import MIB, SECOND_NS, TIB, format_number

TOLERANCE = 0.02
"""A rate within this fraction of a limit counts as at the limit; published results lie 1 to 2 % around theirs."""
BUSY = 0.95
"""A processor that is busy for more than this fraction counts as saturated."""
IN_FLIGHT = 0.9
"""The depth counts as the limit when at least this fraction of it is in flight on average."""
GROWTH = 0.05
"""A smaller gain in IOPS from one depth to the next counts as none."""


def limits_of(result: Result) -> list[Limit | None]:
    """The limit of each point, in the order of the points; in a depth series, points past the knee are saturated."""
    saturated = {id(point): limit for series in depth_series(result.points) for point, limit in _saturated(series)}
    limits = [limit_of(point, result.target_of(point)) for point in result.points]
    return [
        saturated.get(id(point), limit) if limit and limit.code == "depth" else limit
        for point, limit in zip(result.points, limits, strict=True)
    ]


def limit_of(point: Point, target: TargetFacts) -> Limit | None:
    """The limit of one point by itself; None where nothing was measured or the point reached no known limit."""
    summary = point.summary()
    if not summary.operations:
        return None
    return (
        disk_limit(point)
        or _volume_limit(summary, target)
        or _client_limit(point, target)
        or _rate_limit(point.plan, summary)
        or _machine_limit(point)
        or _generator_limit(summary)
        or _depth_limit(summary)
    )


def depth_series(points: Iterable[Point]) -> list[list[Point]]:
    """Points that differ in nothing but their depth, sorted by depth; a series has at least two."""
    series: dict[tuple[tuple[str, Axis], ...], list[Point]] = {}
    for point in points:
        if "depth" in point.axes:
            others = (("family", point.family), *((key, value) for key, value in point.axes.items() if key != "depth"))
            series.setdefault(others, []).append(point)
    return [sorted(members, key=_depth) for members in series.values() if len(members) > 1]


def knee(series: Sequence[Point]) -> Point | None:
    """The point of a depth series after which IOPS no longer grow; None while they still do."""
    iops = [point.summary().iops for point in series]
    for index, point in enumerate(series[:-1]):
        if max(iops[index + 1 :]) < iops[index] * (1 + GROWTH):
            return point
    return None


def volume_description(target: TargetFacts) -> str:
    """The service level and the quota that set the volume's limit: ``ultra, 4 TiB``; empty where neither is known."""
    quota = f"{target.quota_bytes / TIB:g} TiB" if target.quota_bytes else None
    return ", ".join(part for part in (target.service_level, quota) if part)


def _volume_limit(summary: Summary, target: TargetFacts) -> Limit | None:
    if target.kind == "emulated_disk":
        return None
    described = volume_description(target)
    origin = f" ({described})" if described else ""
    throughput, iops = target.throughput_bytes_per_s, target.iops
    if throughput and summary.bytes_per_s >= throughput * (1 - TOLERANCE):
        text = f"at the volume's limit of {format_number(throughput / MIB, 5)} MiB/s{origin}"
        return Limit(code="volume_throughput", text=text + _excess(summary.bytes_per_s, throughput))
    if iops and summary.iops >= iops * (1 - TOLERANCE):
        text = f"at the volume's limit of {iops:,} IOPS{origin}"
        return Limit(code="volume_iops", text=text + _excess(summary.iops, iops))
    return None


def _client_limit(point: Point, target: TargetFacts) -> Limit | None:
    """A client is a source address; only writes count, since they are the data that a client sends."""
    egress = target.client_egress_bytes_per_s
    if egress is None:
        return None
    clients: dict[object, list[WorkerOutcome]] = {}
    for outcome in point.outcome.workers:
        engine = point.plan.groups[outcome.group].workers[outcome.worker].engine
        clients.setdefault(engine.mount.source if isinstance(engine, NfsEngine) else None, []).append(outcome)
    kinds = [summarise(point.name, point.plan, workers).kinds for workers in clients.values()]
    written = [found["write"].bytes_per_s if "write" in found else 0.0 for found in kinds]
    count = sum(rate >= egress * (1 - TOLERANCE) for rate in written)
    if not count:
        return None
    who = f"{count} of {len(clients)} clients" if len(clients) > 1 else "the client"
    text = f"{who} at the egress of {format_number(egress / MIB, 5)} MiB/s that a client has for writes"
    return Limit(code="client_egress", text=text)


def _excess(measured: float, limit: float) -> str:
    """A rate above the limit includes a burst allowance, which a longer run would use up."""
    above = measured / limit - 1
    return f", {above:.0%} above it: a burst allowance is part of this figure" if above > TOLERANCE else ""


def _rate_limit(plan: Plan, summary: Summary) -> Limit | None:
    operations = [operation for group in plan.groups for worker in group.workers for operation in worker.operations]
    # An operation without a rate leaves the total unbounded.
    if len(plan.groups) > 1 or not all(operation.rate for operation in operations):
        return None
    asked = sum(map(_asked_iops, operations))
    if summary.iops < asked * (1 - TOLERANCE):
        return None
    return Limit(code="rate", text=f"at the rate asked for, {format_number(asked)} IOPS")


def _asked_iops(operation: OperationPlan) -> float:
    rate = operation.rate
    if rate is None:
        return 0.0
    per_s = rate.count * SECOND_NS / rate.per_ns
    return per_s if rate.unit == "operations" else per_s / operation.blocks.mean


def _machine_limit(point: Point) -> Limit | None:
    machine = point.machine
    if machine is None or machine.busy_share < BUSY:
        return None
    processors = f"all {machine.cpus} processors" if machine.cpus > 1 else "the processor"
    return Limit(code="machine", text=f"{processors} of this machine more than {BUSY:.0%} busy")


def _generator_limit(summary: Summary) -> Limit | None:
    if summary.cpu_share_max < BUSY:
        return None
    return Limit(code="generator", text=f"a worker's thread more than {BUSY:.0%} busy: the load, not the target")


def _depth_limit(summary: Summary) -> Limit | None:
    if summary.paced or summary.concurrency_achieved < summary.depth_requested * IN_FLIGHT:
        return None
    depth = f"{summary.depth_requested:.6g}"
    return Limit(code="depth", text=f"at the depth asked for, {depth} in flight all the time; more may give more")


def _saturated(series: Sequence[Point]) -> list[tuple[Point, Limit]]:
    """Points from the knee on. Their depth is in flight all the time, but more depth would not help."""
    start = knee(series)
    if start is None:
        return []
    limit = Limit(code="saturated", text=f"saturated from depth {start.axes['depth']} on: more depth adds latency only")
    return [(point, limit) for point in series[series.index(start) :]]


def _depth(point: Point) -> float:
    return float(point.axes["depth"])
