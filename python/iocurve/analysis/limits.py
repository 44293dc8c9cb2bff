"""What limited a run: the nearest of the known limits, named, with the figure it was reached at.

A limit is only named where the measurement shows it. Which one it is decides what to do next; ``advice`` says what.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iocurve.analysis import disk_limits
from iocurve.engine.outcome import WorkerOutcome
from iocurve.engine.plan import NfsEngine, OperationPlan, Plan
from iocurve.result.document import Axis, Note, Point, Result, TargetFacts
from iocurve.result.summary import Summary, summarise
from iocurve.units import MIB, SECOND_NS, TIB

TOLERANCE = 0.02
"""How near to a limit counts as at it; published results lie 1 to 2 % around theirs."""
BUSY = 0.95
"""Share of a processor from which on it counts as used up."""
IN_FLIGHT = 0.9
"""Share of the requested depth that is in flight when nothing but the depth holds the load back."""
GROWTH = 0.05
"""Less gain than this from one step of depth to the next is none."""

SHORT = {
    "volume_throughput": "MiB/s limit",
    "volume_iops": "IOPS limit",
    "client_egress": "client's egress",
    "rate": "rate asked",
    "machine": "this machine",
    "generator": "load's thread",
    "saturated": "saturation",
    "depth": "depth",
    **disk_limits.SHORT,
}
"""Names of the limits for narrow places, by code."""


def limits_of(result: Result) -> list[Note | None]:
    """What limited each point, in the order of the points, seen beside its neighbours in a depth series."""
    saturated = {id(point): note for series in depth_series(result.points) for point, note in _saturated(series)}
    limits = [limit_of(point, result.target_of(point)) for point in result.points]
    return [
        saturated.get(id(point), limit) if limit and limit.code == "depth" else limit
        for point, limit in zip(result.points, limits, strict=True)
    ]


def limit_of(point: Point, target: TargetFacts) -> Note | None:
    """What limited one point, seen by itself; None where nothing was measured or no known limit was reached."""
    summary = point.summary()
    if not summary.operations:
        return None
    return (
        disk_limits.disk_limit(point)
        or _volume_limit(summary, target)
        or _client_limit(point, target)
        or _rate_limit(point.plan, summary)
        or _machine_limit(point)
        or _generator_limit(summary)
        or _depth_limit(summary)
    )


def depth_series(points: Iterable[Point]) -> list[list[Point]]:
    """Points that differ in nothing but their depth, by depth; only where there are several."""
    series: dict[tuple[tuple[str, Axis], ...], list[Point]] = {}
    for point in points:
        if "depth" in point.axes:
            others = (("family", point.family), *((key, value) for key, value in point.axes.items() if key != "depth"))
            series.setdefault(others, []).append(point)
    return [sorted(members, key=_depth) for members in series.values() if len(members) > 1]


def knee(series: Sequence[Point]) -> Point | None:
    """Of a depth series, the point from which on more depth gives no more IOPS; None while they still grow."""
    iops = [point.summary().iops for point in series]
    for index, point in enumerate(series[:-1]):
        if max(iops[index + 1 :]) < iops[index] * (1 + GROWTH):
            return point
    return None


def advice(result: Result, limits: Iterable[Note]) -> list[str]:
    """What to do next to get past the limits that were named, each step once."""
    steps = (_step(code, result.target) for code in dict.fromkeys(limit.code for limit in limits))
    return [step for step in steps if step]


def volume_description(target: TargetFacts) -> str:
    """What the volume's limit comes from: ``ultra, 4 TiB``; empty where that is not known."""
    quota = f"{target.quota_bytes / TIB:g} TiB" if target.quota_bytes else None
    return ", ".join(part for part in (target.service_level, quota) if part)


def _volume_limit(summary: Summary, target: TargetFacts) -> Note | None:
    if target.kind == "emulated_disk":
        return None
    described = volume_description(target)
    origin = f" ({described})" if described else ""
    throughput, iops = target.throughput_bytes_per_s, target.iops
    if throughput and summary.bytes_per_s >= throughput * (1 - TOLERANCE):
        text = f"at the volume's limit of {throughput / MIB:,.5g} MiB/s{origin}"
        return Note(code="volume_throughput", text=text + _excess(summary.bytes_per_s, throughput))
    if iops and summary.iops >= iops * (1 - TOLERANCE):
        return Note(
            code="volume_iops", text=f"at the volume's limit of {iops:,} IOPS{origin}{_excess(summary.iops, iops)}"
        )
    return None


def _client_limit(point: Point, target: TargetFacts) -> Note | None:
    """Clients are told apart by the address that they come from; what they send is their writes."""
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
    text = f"{who} at the egress of {egress / MIB:,.5g} MiB/s that a client has for writes"
    return Note(code="client_egress", text=text)


def _excess(measured: float, limit: float) -> str:
    """A volume that carries more than its limit has given a burst, which a longer run would use up."""
    above = measured / limit - 1
    return f", {above:.0%} above it: a burst allowance is part of this figure" if above > TOLERANCE else ""


def _rate_limit(plan: Plan, summary: Summary) -> Note | None:
    operations = [operation for group in plan.groups for worker in group.workers for operation in worker.operations]
    # With an operation that is not paced, no rate bounds the whole.
    if len(plan.groups) > 1 or not all(operation.rate for operation in operations):
        return None
    asked = sum(map(_asked_iops, operations))
    if summary.iops < asked * (1 - TOLERANCE):
        return None
    return Note(code="rate", text=f"at the rate asked for, {asked:,.6g} IOPS")


def _asked_iops(operation: OperationPlan) -> float:
    rate = operation.rate
    if rate is None:
        return 0.0
    per_s = rate.count * SECOND_NS / rate.per_ns
    return per_s if rate.unit == "operations" else per_s / operation.blocks.mean


def _machine_limit(point: Point) -> Note | None:
    machine = point.machine
    if machine is None or machine.busy_share < BUSY:
        return None
    processors = f"all {machine.cpus} processors" if machine.cpus > 1 else "the processor"
    return Note(code="machine", text=f"{processors} of this machine more than {BUSY:.0%} busy")


def _generator_limit(summary: Summary) -> Note | None:
    if summary.cpu_share_max < BUSY:
        return None
    return Note(code="generator", text=f"a worker's thread more than {BUSY:.0%} busy: the load, not the target")


def _depth_limit(summary: Summary) -> Note | None:
    if summary.paced or summary.concurrency_achieved < summary.depth_requested * IN_FLIGHT:
        return None
    depth = f"{summary.depth_requested:.6g}"
    return Note(code="depth", text=f"at the depth asked for, {depth} in flight all the time; more may give more")


def _saturated(series: Sequence[Point]) -> list[tuple[Point, Note]]:
    """Points from the knee on: that their depth is used up says nothing, since more of it would not help."""
    start = knee(series)
    if start is None:
        return []
    note = Note(code="saturated", text=f"saturated from depth {start.axes['depth']} on: more depth adds latency only")
    return [(point, note) for point in series[series.index(start) :]]


def _depth(point: Point) -> float:
    return float(point.axes["depth"])


def _step(code: str, target: TargetFacts) -> str | None:
    steps = {
        "volume_throughput": f"For more throughput, raise {_throughput_lever(target)}.{_free(target)}",
        "volume_iops": f"For more IOPS, raise the volume's IOPS limit.{_free(target)}",
        "client_egress": "Clients at their egress write more only together: use more of them, or larger machines.",
        "machine": "This machine is used up, by the load, by what it measures or by something else: keep it quiet, "
        "or make the load elsewhere.",
        "generator": "The load's own thread is used up: for more, use more jobs, each a thread.",
        "depth": "Where the depth is the limit, a greater depth, more jobs or more connections may give more.",
        **disk_limits.STEPS,
        "saturated": "Where more depth only adds latency, more connections (nconnect) or clients may still give more.",
    }
    return steps.get(code)


def _throughput_lever(target: TargetFacts) -> str:
    if target.quota_bytes and target.throughput_bytes_per_s:
        per_tib = target.throughput_bytes_per_s / MIB / (target.quota_bytes / TIB)
        return f"the quota (each TiB more gives {per_tib:,.4g} MiB/s at this level) or the service level"
    return "the volume's throughput limit"


def _free(target: TargetFacts) -> str:
    """Our own volume can be measured without its limits."""
    return " --unlimited shows what this machine itself carries." if target.kind == "embedded_volume" else ""
