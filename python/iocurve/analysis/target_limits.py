"""Finds the limit of a known target that a point reached: a cap of the volume, of a client or of a connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from iocurve.analysis.levels import Levels, levels
from iocurve.analysis.limit_kinds import Confidence, Limit, limit
from iocurve.analysis.measured_load import MeasuredLoad, WorkerLoad
from iocurve.result.document import FurtherLimits, TargetFacts
from iocurve.units import MIB, SECOND_NS, TIB, counted, format_duration, format_number

TOLERANCE = 0.02
"""A rate within this fraction of a limit counts as at the limit; published results lie 1 to 2 % around theirs."""
SERVER_TOLERANCE = 0.06
"""The same for the server's own speed, to which the work around each operation adds."""
IN_SERVICE = 0.6
"""A connection's requests are the limit when at least this fraction of them is being worked on."""
FITTED = {
    "connection_throughput": "bandwidth_mib_per_s_per_connection",
    "connection_iops": "iops_per_connection",
}
"""The figure of a profile behind a limit, where it may be fitted to published results."""
FIGURES = {
    "throughput_write_mib_per_s": "write throughput",
    "iops_read": "read IOPS",
    "iops_write": "write IOPS",
    "bandwidth_mib_per_s_per_connection": "bandwidth of a connection",
    "iops_per_connection": "IOPS of a connection",
}
"""The figures of profiles that may be fitted, in words."""
SURE = 0.85
"""From this fraction on, that is certain."""
STEP = 1.1
"""Burst credits ran out if the rate before was this many times the baseline."""
BASELINE_TOLERANCE = 0.1
"""The rate after burst credits ran out is within this fraction of the baseline."""


@dataclass(frozen=True)
class Cap:
    """A limit with its value, and the rate that is measured against it."""

    code: str
    text: str
    value: float
    measured: float
    unit: str

    @property
    def used(self) -> float:
        """The measured rate as a fraction of the limit."""
        return self.measured / self.value if self.value else 0.0

    @property
    def evidence(self) -> str:
        """The measured rate beside the limit."""
        if self.unit == "IOPS":
            return f"{self.measured:,.0f} IOPS measured, {self.value:,.0f} allowed ({self.used:.1%})"
        return f"{_mib(self.measured)} MiB/s measured, {_mib(self.value)} allowed ({self.used:.1%})"


def volume_description(target: TargetFacts) -> str:
    """The service level and the quota that set the volume's limit: ``ultra, 4 TiB``; empty where neither is known."""
    quota = f"{target.quota_bytes / TIB:g} TiB" if target.quota_bytes else None
    speed = f"at {100 * target.speed:.3g} % of its speed" if target.speed and target.speed != 1 else None
    return ", ".join(part for part in (target.service_level, quota, speed) if part)


def fitted_figures(targets: Iterable[TargetFacts]) -> list[str]:
    """The figures of targets that are fitted to published results, each once, in words."""
    names = dict.fromkeys(name for target in targets for name in target.fitted)
    return [FIGURES.get(name, name.replace("_", " ")) for name in names]


Rule = Callable[[MeasuredLoad, float], Limit | None]
"""Finds a limit of the target that a load reached, with its rates multiplied by a factor."""


def target_limit(load: MeasuredLoad) -> Limit | None:
    """The limit of the target that the load reached; None where it reached none that is known."""
    return _reached(load, (_burst, _volume_cap, _client_cap, *CONNECTION_RULES, _server_parallelism))


def shared_limit(load: MeasuredLoad) -> Limit | None:
    """The limit of the target on all clients together that the load reached."""
    return _reached(load, (_burst, _volume_cap, _server_parallelism))


def client_limit(load: MeasuredLoad) -> Limit | None:
    """The limit of the target on each client that some reached."""
    return _reached(load, (_client_cap,))


def connection_limit(load: MeasuredLoad) -> Limit | None:
    """The limit of the target on each connection that some reached."""
    return _reached(load, CONNECTION_RULES)


def egress_together(load: MeasuredLoad, clients: int) -> str | None:
    """The sum of the clients' egress, as evidence; None where no such limit is known or nothing is written."""
    each = load.target.client_egress_bytes_per_s
    if not each or clients < 2 or not load.kind("write"):
        return None
    return f"the egress of {clients} clients together is {_mib(clients * each)} MiB/s, {_mib(each)} each"


def _reached(load: MeasuredLoad, rules: Sequence[Rule]) -> Limit | None:
    if load.target.kind == "emulated_disk":
        return None
    reached = next((found for rule in rules if (found := rule(load, 1.0))), None)
    if reached or load.held_up <= 1 + TOLERANCE:
        return reached and _with_origin(reached, load.target)
    # The processors were held up, so the mean is below a limit that the load was at in between.
    between = next((found for rule in rules if (found := rule(load, load.held_up))), None)
    stalls = f"between stalls of this machine the rate was {load.held_up - 1:.0%} higher than in the mean"
    if between is None:
        return None
    likely = between.replace(confidence="likely", evidence=(*between.evidence, stalls))
    return _with_origin(likely, load.target)


def _with_origin(found: Limit, target: TargetFacts) -> Limit:
    """The limit; one that is fitted says so."""
    if FITTED.get(found.code) not in target.fitted:
        return found
    remark = "the limit is fitted to published results; it is not published itself"
    return found.replace(evidence=(*found.evidence, remark))


def caps_of(load: MeasuredLoad, factor: float = 1.0) -> list[Cap]:
    """The caps of the volume, each with the rate that is measured against it."""
    target, further = load.target, _further(load.target)
    described = volume_description(target)
    origin = f" ({described})" if described else ""
    rates = (
        ("volume_throughput", "", None, target.throughput_bytes_per_s),
        ("volume_read_throughput", " on reads", "read", further.throughput_read_bytes_per_s),
        ("volume_write_throughput", " on writes", "write", further.throughput_write_bytes_per_s),
    )
    operations = (
        # With credits for a burst, the baseline is no cap; _burst judges both.
        ("volume_iops", "", None, None if further.burst_iops else target.iops),
        ("volume_read_iops", " on reads", "read", further.iops_read),
        ("volume_write_iops", " on writes", "write", further.iops_write),
    )
    return [
        Cap(code, f"{_mib(rate)} MiB/s{of}{origin}", rate, factor * load.bytes_per_s(kind), "bytes")
        for code, of, kind, rate in rates
        if rate
    ] + [
        Cap(code, f"{rate:,} IOPS{of}{origin}", rate, factor * load.iops(kind), "IOPS")
        for code, of, kind, rate in operations
        if rate
    ]


# ---- the volume


def _volume_cap(load: MeasuredLoad, factor: float) -> Limit | None:
    """The cap with the highest use, if it is reached."""
    caps = caps_of(load, factor)
    reached = [cap for cap in caps if cap.used >= 1 - TOLERANCE]
    if not reached:
        return None
    cap = max(reached, key=lambda one: round(one.used, 2))
    others = [f"other limits: {other.evidence}" for other in caps if other is not cap]
    text = f"at the volume's limit of {cap.text}{_excess(cap)}"
    return limit(cap.code, text, load.target, evidence=[cap.evidence, *others])


def _excess(cap: Cap) -> str:
    """A rate above the limit includes a burst allowance, which a longer run would use up."""
    above = cap.used - 1
    return f", {above:.0%} above it: a burst allowance is part of this figure" if above > TOLERANCE else ""


def _burst(load: MeasuredLoad, factor: float) -> Limit | None:
    further, baseline = _further(load.target), load.target.iops
    if not (further.burst_iops and further.burst_credits and baseline) or baseline >= further.burst_iops:
        return None
    lasts = format_duration(round(further.burst_credits / (further.burst_iops - baseline) * SECOND_NS))
    full = f"a full bucket of credits sustains {further.burst_iops:,} IOPS for {lasts}"
    step = levels([interval.iops for interval in load.course])
    if step and _is_exhaustion(step, baseline):
        at_s = (load.course[step.index].start_ns - load.course[0].start_ns) / SECOND_NS
        text = (
            f"burst credits ran out {format_number(at_s, 3)} s into the measured time: {step.before:,.0f} IOPS before, "
            f"{step.after:,.0f} after, at the baseline of {baseline:,}"
        )
        return limit("burst_credits", text, load.target, evidence=[full])
    iops = factor * load.iops()
    if iops >= further.burst_iops * (1 - TOLERANCE):
        text = f"at the burst limit of {further.burst_iops:,} IOPS, which holds while credits last"
        return limit("burst_iops", text, load.target, evidence=[full])
    if abs(iops / baseline - 1) <= TOLERANCE:
        text = f"at the baseline of {baseline:,} IOPS: the burst credits are spent"
        evidence = [f"{iops:,.0f} IOPS measured, {baseline:,} allowed without credits", full]
        return limit("burst_credits", text, load.target, evidence=evidence)
    return None


def _is_exhaustion(step: Levels, baseline: float) -> bool:
    return step.before > STEP * step.after and abs(step.after / baseline - 1) <= BASELINE_TOLERANCE


# ---- clients and connections


def _client_cap(load: MeasuredLoad, factor: float) -> Limit | None:
    """A client is a source address. Egress is the data that a client sends, which are its writes."""
    written = _clients_at(load, factor, "write", load.target.client_egress_bytes_per_s)
    if written:
        who, rate, evidence = written
        text = f"{who} at the egress of {_mib(rate)} MiB/s that a client has for writes"
        return limit("client_egress", text, load.target, evidence=[evidence])
    read = _clients_at(load, factor, "read", _further(load.target).client_read_bytes_per_s)
    if read:
        who, rate, evidence = read
        text = f"{who} at the limit of {_mib(rate)} MiB/s that a client has for reads"
        return limit("client_read", text, load.target, evidence=[evidence])
    return None


def _clients_at(load: MeasuredLoad, factor: float, kind: str, rate: int | None) -> tuple[str, int, str] | None:
    """The clients that reached a rate, in words, with the rate and the evidence."""
    if rate is None:
        return None
    found = [factor * sum(worker.bytes_per_s(kind) for worker in workers) for workers in load.clients.values()]
    count = sum(one >= rate * (1 - TOLERANCE) for one in found)
    if not count:
        return None
    who = f"{count} of {len(found)} clients" if len(found) > 1 else "the client"
    fastest = max(found)
    return (
        who,
        rate,
        f"{_mib(fastest)} MiB/s of one client, {_mib(rate)} allowed ({fastest / rate:.1%})",
    )


def _connection_throughput(load: MeasuredLoad, factor: float) -> Limit | None:
    rate = _further(load.target).connection_bytes_per_s
    if not rate or not load.connections:
        return None
    at_limit = [worker for worker in load.workers if factor * _of_connection(worker) >= rate * (1 - TOLERANCE)]
    count = sum(worker.connections for worker in at_limit)
    if not count:
        return None
    fastest = factor * max(_of_connection(worker) for worker in at_limit)
    text = f"{_connections(count, load.connections)} at the limit of {_mib(rate)} MiB/s that a connection has"
    return limit(
        "connection_throughput",
        text,
        load.target,
        evidence=[f"{_mib(fastest)} MiB/s of a connection, {_mib(rate)} allowed ({fastest / rate:.1%})"],
    )


def _connection_iops(load: MeasuredLoad, factor: float) -> Limit | None:
    rate = _further(load.target).connection_iops
    if not rate or not load.connections:
        return None
    found = [(worker, factor * worker.iops / worker.connections) for worker in load.workers if worker.connections]
    at_limit = [(worker, iops) for worker, iops in found if iops >= rate * (1 - TOLERANCE)]
    if not at_limit:
        return None
    count, fastest = sum(worker.connections for worker, _ in at_limit), max(iops for _, iops in at_limit)
    text = f"{_connections(count, load.connections)} at the limit of {rate:,} IOPS that a connection has"
    evidence = f"{fastest:,.0f} IOPS of a connection, {rate:,} allowed ({fastest / rate:.1%})"
    return limit("connection_iops", text, load.target, evidence=[evidence])


def _of_connection(worker: WorkerLoad) -> float:
    """A worker spreads its operations evenly over its connections."""
    return worker.bytes_per_s() / worker.connections if worker.connections else 0.0


def _connections(count: int, all_of_them: int) -> str:
    if all_of_them == 1:
        return "the connection"
    return f"all {count} connections" if count == all_of_them else f"{count} of {all_of_them} connections"


def _connection_requests(load: MeasuredLoad, factor: float) -> Limit | None:
    """More requests are in flight than the server takes of a connection, and it works on all that it takes."""
    most = _further(load.target).connection_requests_in_flight
    if not most:
        return None
    held = [worker for worker in load.workers if _is_held_by(worker, most, load, factor)]
    if not held:
        return None
    in_flight = max(worker.plan.depth / worker.connections for worker in held)
    served = factor * max(_in_service(worker, load) for worker in held)
    text = f"at the {counted(most, 'request')} in flight that the server takes of a connection"
    latency = format_duration(_latency_ns(held[0], load))
    evidence = [
        f"{format_number(in_flight, 4)} requests in flight on a connection, the server works on "
        f"{format_number(served, 4)} of them (IOPS x {latency} of latency)"
    ]
    confidence: Confidence = "certain" if served >= SURE * most else "likely"
    return limit("connection_requests", text, load.target, confidence=confidence, evidence=evidence)


def _is_held_by(worker: WorkerLoad, most: int, load: MeasuredLoad, factor: float) -> bool:
    return (
        worker.connections > 0
        and worker.plan.depth > most * worker.connections
        and factor * _in_service(worker, load) >= IN_SERVICE * most
    )


def _in_service(worker: WorkerLoad, load: MeasuredLoad) -> float:
    """Requests of a connection that the server works on, by Little's law."""
    return worker.iops * _latency_ns(worker, load) / SECOND_NS / worker.connections


def _latency_ns(worker: WorkerLoad, load: MeasuredLoad) -> int:
    """The latency of the server itself: the one that is known, or else the smallest that was measured."""
    known = _further(load.target).latency_mean_ns or load.target.latency_ns
    return known or min(kind.service.min_ns for kind in worker.outcome.operations.values())


CONNECTION_RULES: tuple[Rule, ...] = (_connection_throughput, _connection_iops, _connection_requests)


# ---- the server


def _server_parallelism(load: MeasuredLoad, factor: float) -> Limit | None:
    servers, service_ns = _further(load.target).servers, _further(load.target).service_ns
    if not servers or not service_ns:
        return None
    most = servers * SECOND_NS / service_ns
    iops = factor * load.iops()
    if iops < most * (1 - SERVER_TOLERANCE):
        return None
    text = f"at the server's own speed: {servers} at a time, {format_duration(service_ns)} each"
    evidence = [f"{iops:,.0f} IOPS measured, {most:,.0f} possible ({iops / most:.1%})"]
    return limit("server_parallelism", text, load.target, evidence=evidence)


def _mib(bytes_per_s: float) -> str:
    return format_number(bytes_per_s / MIB, 5)


def _further(target: TargetFacts) -> FurtherLimits:
    return target.further or FurtherLimits()


def caps_used(load: MeasuredLoad) -> Iterator[str]:
    """The share of each known cap that the load used, for verdicts that no cap explains."""
    for cap in caps_of(load):
        yield f"below the volume's limit: {cap.evidence}"
