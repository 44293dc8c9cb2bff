"""Finds the limit of a known target that a point reached: a cap of the volume, of a client or of a connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from iocurve.analysis.level_changes import LevelStep, levels
from iocurve.analysis.limit_kinds import Confidence, Limit, limit
from iocurve.analysis.measured_load import MeasuredLoad, WorkerLoad
from iocurve.engine.plan import DiskPlan, IoLimits
from iocurve.foundation.units import MB, MIB, SECOND_NS, TIB, counted, format_duration, format_number
from iocurve.result.caps import CAPS, EGRESS, Cap
from iocurve.result.document import TargetFacts

TOLERANCE = 0.02
"""A rate within this fraction of a limit counts as at the limit; published results lie 1 to 2 % around theirs."""
SERVER_TOLERANCE = 0.06
"""The same for the server's own speed, to which the work around each operation adds."""
IN_SERVICE = 0.6
"""A connection's requests are the limit when at least this fraction of them is being worked on."""
SURE = 0.85
"""From this fraction on, that is certain."""
STEP = 1.1
"""Burst credits ran out if the rate before was this many times the baseline."""
BASELINE_TOLERANCE = 0.1
"""The rate after burst credits ran out is within this fraction of the baseline."""


def volume_description(target: TargetFacts) -> str:
    """The service level and the quota that set the volume's limit: ``ultra, 4 TiB``; empty where neither is known."""
    quota = f"{target.quota_bytes / TIB:g} TiB" if target.quota_bytes else None
    speed = f"at {100 * target.speed:.3g} % of its speed" if target.speed and target.speed != 1 else None
    return ", ".join(part for part in (target.service_level, quota, speed) if part)


def fitted_figures(targets: Iterable[TargetFacts]) -> list[str]:
    """The figures of targets that are fitted to published results, each once, in words."""
    names = dict.fromkeys(name for target in targets for name in target.fitted)
    texts = {cap.figure: cap.text for cap in CAPS}
    return [texts.get(name, name.replace("_", " ")) for name in names]


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
    each = load.target.cap(EGRESS)
    if not each or clients < 2 or not load.kind("write"):
        return None
    together, one = (format_number(egress / MIB, 5) for egress in (clients * each, each))
    return f"the egress of {clients} clients together is {together} MiB/s, {one} each"


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


def _evidence(cap: Cap, rate: float) -> str:
    """The measured rate next to the cap."""
    return f"{_amount(cap, rate)} {_unit(cap)} measured, {_allowed(cap, rate)}"


def _allowed(cap: Cap, rate: float) -> str:
    """The cap without its unit, and how much of it is used."""
    return f"{_amount(cap)} allowed ({rate / cap.value:.1%})"


def _is_reached(cap: Cap, rate: float) -> bool:
    return rate / cap.value >= 1 - TOLERANCE


def _amount(cap: Cap, rate: float | None = None) -> str:
    """A rate in the unit of a cap; that of the cap itself by default."""
    value = cap.value if rate is None else rate
    return f"{value:,.0f}" if cap.quantity == "iops" else format_number(value / MIB, 5)


def _rate(load: MeasuredLoad | WorkerLoad, cap: Cap) -> float:
    """The rate that counts against a cap."""
    kind = None if cap.kind == "any" else cap.kind
    if cap.quantity == "bytes_per_s" and cap.reads_per_write:
        return load.bytes_per_s() - load.bytes_per_s("read") * (1 - 1 / cap.reads_per_write)
    return load.iops(kind) if cap.quantity == "iops" else load.bytes_per_s(kind)


def _unit(cap: Cap) -> str:
    return "IOPS" if cap.quantity == "iops" else "MiB/s"


def caps_of(load: MeasuredLoad, factor: float = 1.0) -> list[tuple[Cap, float]]:
    """The caps of the volume, each with the rate that counts against it."""
    # With credits for a burst, the baseline is no cap; _burst judges both.
    caps = (cap for cap in load.target.caps if cap.scope == "volume" and not cap.burst)
    return [(cap, factor * _rate(load, cap)) for cap in caps if cap.value]


# ---- the volume


def _volume_cap(load: MeasuredLoad, factor: float) -> Limit | None:
    """The cap with the highest use, if it is reached."""
    caps = caps_of(load, factor)
    reached = [(cap, rate) for cap, rate in caps if _is_reached(cap, rate)]
    if not reached:
        return None
    cap, rate = max(reached, key=lambda one: round(one[1] / one[0].value, 2))
    others = [f"other limits: {_evidence(*other)}" for other in caps if other[0] is not cap]
    of = "" if cap.kind == "any" else f" on {cap.kind}s"
    described = volume_description(load.target)
    origin = f" ({described})" if described else ""
    text = f"at the volume's limit of {_amount(cap)} {_unit(cap)}{of}{origin}{_excess(rate / cap.value)}"
    return limit(cap_code(cap), text, load.target, evidence=[_evidence(cap, rate), *others])


def cap_code(cap: Cap) -> str:
    """The code of a cap of the volume."""
    return f"volume_{cap.text.replace(' ', '_').lower()}"


def _excess(used: float) -> str:
    """A rate above the limit includes a burst allowance, which a longer run would use up."""
    return f", {used - 1:.0%} above it: a burst allowance is part of this figure" if used - 1 > TOLERANCE else ""


def _burst(load: MeasuredLoad, factor: float) -> Limit | None:
    cap = next((cap for cap in load.target.caps if cap.burst), None)
    if cap is None or not cap.burst or not cap.burst.credits or not 0 < cap.value < cap.burst.value:
        return None
    baseline, burst, unit = cap.value, cap.burst, _unit(cap)
    top = _amount(cap.replace(value=burst.value))
    lasts = format_duration(round(burst.credits / (burst.value - baseline) * SECOND_NS))
    full = f"a full bucket of credits sustains {top} {unit} for {lasts}"
    step = levels([interval.iops for interval in load.course] if unit == "IOPS" else _data_rates(load, cap))
    if step and _is_exhaustion(step, baseline):
        at_s = (load.course[step.index].start_ns - load.course[0].start_ns) / SECOND_NS
        before, after = (_amount(cap.replace(value=round(rate))) for rate in (step.before, step.after))
        text = (
            f"burst credits ran out {format_number(at_s, 3)} s into the measured time: {before} {unit} before, "
            f"{after} after, at the baseline of {_amount(cap)}"
        )
        return limit("burst_credits", text, load.target, evidence=[full])
    rate = factor * _rate(load, cap)
    if rate >= burst.value * (1 - TOLERANCE):
        text = f"at the burst limit of {top} {unit}, which holds while credits last"
        return limit("burst_iops" if unit == "IOPS" else "burst_throughput", text, load.target, evidence=[full])
    if abs(rate / baseline - 1) <= TOLERANCE:
        text = f"at the baseline of {_amount(cap)} {unit}: the burst credits are spent"
        measured = _amount(cap.replace(value=round(rate)))
        evidence = [f"{measured} {unit} measured, {_amount(cap)} allowed without credits", full]
        return limit("burst_credits", text, load.target, evidence=evidence)
    return None


def _data_rates(load: MeasuredLoad, cap: Cap) -> list[float]:
    """The bytes per second of each interval that count against a cap, in the mix of the whole load."""
    share = _rate(load, cap) / (load.bytes_per_s() or 1.0)
    return [share * interval.bytes_per_s for interval in load.course]


def _is_exhaustion(step: LevelStep, baseline: float) -> bool:
    return step.before > STEP * step.after and abs(step.after / baseline - 1) <= BASELINE_TOLERANCE


# ---- clients and connections


def _client_cap(load: MeasuredLoad, factor: float) -> Limit | None:
    """A client is a source address. Caps on writes come first: egress is the cap that machines are sold with."""
    caps = (cap for cap in load.target.caps if cap.scope == "client")
    for cap in sorted(caps, key=lambda cap: (cap.quantity, cap.kind == "read")):
        rates = [factor * sum(_rate(worker, cap) for worker in workers) for workers in load.clients.values()]
        count = sum(_is_reached(cap, rate) for rate in rates)
        if count:
            who = f"{count} of {len(rates)} clients" if len(rates) > 1 else "the client"
            return _link_limit(load.target, cap, max(rates), who)
    return None


def _connection_cap(load: MeasuredLoad, factor: float) -> Limit | None:
    """A worker spreads its operations evenly over its connections."""
    workers = [worker for worker in load.workers if worker.connections]
    for cap in (cap for cap in load.target.caps if cap.scope == "connection" and cap.quantity != "requests"):
        rates = [factor * _rate(worker, cap) / worker.connections for worker in workers]
        count = sum(one.connections for one, rate in zip(workers, rates, strict=True) if _is_reached(cap, rate))
        if count:
            return _link_limit(load.target, cap, max(rates), _connections(count, load.connections))
    return None


def _link_limit(target: TargetFacts, cap: Cap, fastest: float, who: str) -> Limit:
    """The limit that some clients or connections reached, the fastest of them with this rate."""
    code = _link_code(cap)
    name = "egress" if code == "client_egress" else "limit"
    of = "" if cap.kind == "any" else f" for {cap.kind}s"
    text = f"{who} at the {name} of {_amount(cap)} {_unit(cap)} that a {cap.scope} has{of}"
    evidence = [f"{_amount(cap, fastest)} {_unit(cap)} of one {cap.scope}, {_allowed(cap, fastest)}"]
    if cap.figure in target.fitted:
        evidence.append("the limit is fitted to published results; it is not published itself")
    return limit(code, text, target, evidence=evidence)


def _link_code(cap: Cap) -> str:
    """The code of a limit of each client, or of each connection."""
    if cap.quantity == "iops":
        return f"{cap.scope}_iops"
    if cap.scope == "connection":
        return "connection_throughput"
    return "client_egress" if cap.kind == "write" else "client_read"


def _connections(count: int, all_of_them: int) -> str:
    if all_of_them == 1:
        return "the connection"
    return f"all {count} connections" if count == all_of_them else f"{count} of {all_of_them} connections"


def _connection_requests(load: MeasuredLoad, factor: float) -> Limit | None:
    """More requests are in flight than the server takes of a connection, and it works on all that it takes."""
    most = load.target.cap("connection.requests_in_flight")
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
    known = load.target.latency_mean_ns or load.target.latency_ns
    return known or min(kind.service.min_ns for kind in worker.outcome.operations.values())


CONNECTION_RULES: tuple[Rule, ...] = (_connection_cap, _connection_requests)


# ---- the server


def _server_parallelism(load: MeasuredLoad, factor: float) -> Limit | None:
    servers, service_ns = load.target.servers, load.target.service_ns
    if not servers or not service_ns:
        return None
    most = servers * SECOND_NS / service_ns
    iops = factor * load.iops()
    if iops < most * (1 - SERVER_TOLERANCE):
        return None
    text = f"at the server's own speed: {servers} at a time, {format_duration(service_ns)} each"
    evidence = [f"{iops:,.0f} IOPS measured, {most:,.0f} possible ({iops / most:.1%})"]
    return limit("server_parallelism", text, load.target, evidence=evidence)


def caps_used(load: MeasuredLoad) -> Iterator[str]:
    """The share of each known cap that the load used, for verdicts that no cap explains."""
    for cap, rate in caps_of(load):
        yield f"below the volume's limit: {_evidence(cap, rate)}"


PREFIX = "limited_by_"
"""Starts the labels that the engine gives to limits. Reports show them as limits, not as labels."""


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
