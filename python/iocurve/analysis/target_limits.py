"""Finds the limit of a known target that a point reached: a cap of the volume, of a client or of a connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

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
FIGURES = {
    "throughput_write_mib_per_s": "write throughput",
    "iops_read": "read IOPS",
    "iops_write": "write IOPS",
    "bandwidth_mib_per_s_per_connection": "bandwidth of a connection",
    "bandwidth_read_mib_per_s_per_connection": "read bandwidth of a connection",
    "bandwidth_write_mib_per_s_per_connection": "write bandwidth of a connection",
    "iops_per_connection": "IOPS of a connection",
    "iops_read_per_connection": "read IOPS of a connection",
    "iops_write_per_connection": "write IOPS of a connection",
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
        return reached
    # The processors were held up, so the mean is below a limit that the load was at in between.
    between = next((found for rule in rules if (found := rule(load, load.held_up))), None)
    stalls = f"between stalls of this machine the rate was {load.held_up - 1:.0%} higher than in the mean"
    if between is None:
        return None
    return between.replace(confidence="likely", evidence=(*between.evidence, stalls))


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


@dataclass(frozen=True)
class LinkCap:
    """A limit of each client, or of each connection."""

    code: str
    rate: int | None
    unit: Literal["MiB/s", "IOPS"]
    kind: str | None = None
    """The operations that count; None counts all."""
    figure: str = ""
    """The figure of a profile behind the limit, where it may be fitted to published results."""

    def of(self, worker: WorkerLoad) -> float:
        """The rate of a worker that counts."""
        return worker.iops(self.kind) if self.unit == "IOPS" else worker.bytes_per_s(self.kind)

    def is_reached(self, rate: float) -> bool:
        """True for a rate at the limit."""
        return self.rate is not None and rate >= self.rate * (1 - TOLERANCE)

    def amount(self, rate: float) -> str:
        """A rate without its unit."""
        return f"{rate:,.0f}" if self.unit == "IOPS" else _mib(rate)


def _client_caps(target: TargetFacts) -> list[LinkCap]:
    """A client is a source address. Egress is the data that a client sends, which are its writes."""
    further = _further(target)
    return [
        LinkCap("client_egress", target.client_egress_bytes_per_s, "MiB/s", "write"),
        LinkCap("client_read", further.client_read_bytes_per_s, "MiB/s", "read"),
        LinkCap("client_iops", further.client_iops_write, "IOPS", "write", "iops_write_per_client"),
        LinkCap("client_iops", further.client_iops_read, "IOPS", "read", "iops_read_per_client"),
    ]


def _connection_caps(target: TargetFacts) -> list[LinkCap]:
    further = _further(target)
    throughput = (
        ("bandwidth_mib_per_s_per_connection", further.connection_bytes_per_s, None),
        ("bandwidth_read_mib_per_s_per_connection", further.connection_read_bytes_per_s, "read"),
        ("bandwidth_write_mib_per_s_per_connection", further.connection_write_bytes_per_s, "write"),
    )
    operations = (
        ("iops_per_connection", further.connection_iops, None),
        ("iops_read_per_connection", further.connection_iops_read, "read"),
        ("iops_write_per_connection", further.connection_iops_write, "write"),
    )
    return [LinkCap("connection_throughput", rate, "MiB/s", kind, figure) for figure, rate, kind in throughput] + [
        LinkCap("connection_iops", rate, "IOPS", kind, figure) for figure, rate, kind in operations
    ]


def _client_cap(load: MeasuredLoad, factor: float) -> Limit | None:
    for cap in _client_caps(load.target):
        rates = [factor * sum(map(cap.of, workers)) for workers in load.clients.values()]
        count = sum(map(cap.is_reached, rates))
        if count:
            who = f"{count} of {len(rates)} clients" if len(rates) > 1 else "the client"
            return _link_limit(load.target, cap, who, "client", max(rates))
    return None


def _connection_cap(load: MeasuredLoad, factor: float) -> Limit | None:
    """A worker spreads its operations evenly over its connections."""
    workers = [worker for worker in load.workers if worker.connections]
    for cap in _connection_caps(load.target):
        rates = [factor * cap.of(worker) / worker.connections for worker in workers]
        count = sum(one.connections for one, rate in zip(workers, rates, strict=True) if cap.is_reached(rate))
        if count:
            return _link_limit(load.target, cap, _connections(count, load.connections), "connection", max(rates))
    return None


def _link_limit(target: TargetFacts, cap: LinkCap, who: str, whose: str, fastest: float) -> Limit:
    """The limit that some clients or connections reached, the fastest of them with this rate."""
    rate = cap.rate or 0
    name = "egress" if cap.code == "client_egress" else "limit"
    of = f" for {cap.kind}s" if cap.kind else ""
    text = f"{who} at the {name} of {cap.amount(rate)} {cap.unit} that a {whose} has{of}"
    used = f"{cap.amount(rate)} allowed ({fastest / rate:.1%})"
    evidence = [f"{cap.amount(fastest)} {cap.unit} of one {whose}, {used}"]
    if cap.figure in target.fitted:
        evidence.append("the limit is fitted to published results; it is not published itself")
    return limit(cap.code, text, target, evidence=evidence)


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
    return worker.iops() * _latency_ns(worker, load) / SECOND_NS / worker.connections


def _latency_ns(worker: WorkerLoad, load: MeasuredLoad) -> int:
    """The latency of the server itself: the one that is known, or else the smallest that was measured."""
    known = _further(load.target).latency_mean_ns or load.target.latency_ns
    return known or min(kind.service.min_ns for kind in worker.outcome.operations.values())


CONNECTION_RULES: tuple[Rule, ...] = (_connection_cap, _connection_requests)


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
