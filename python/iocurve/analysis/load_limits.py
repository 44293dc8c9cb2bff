"""Finds the limit on the side of the load: the requested load, the processors of this machine, the depth."""

from __future__ import annotations

import math
from collections.abc import Sequence

from iocurve.analysis.limit_kinds import Confidence, Limit, limit
from iocurve.analysis.measured_load import IN_FLIGHT, MeasuredLoad, WorkerLoad
from iocurve.analysis.target_limits import TOLERANCE
from iocurve.engine.derived import block_bytes_mean, measured_ns
from iocurve.engine.plan import FLUSH_KINDS, OperationPlan, Rate, Think
from iocurve.foundation.units import SECOND_NS, format_bytes, format_depth, format_duration, format_number
from iocurve.result.document import MachineUse
from iocurve.result.stalls import DELAYED, FOREIGN_SHARE, STARVED, starved_party, starved_share

HELD_UP = "cpu_contention"
"""The verdict that other points or a repetition may refute: others may leave the processors meanwhile."""
BUSY = 0.95
"""A processor that is busy for more than this fraction counts as saturated."""
CROWDED = 0.75
"""From this share of a machine's processors on, a thread that waits for one may wait because all are busy."""
OURS = 0.75
"""Share of the busy processors that load and target have at least where they crowd each other."""
AT_LATENCY = 0.6
"""The depth is the limit when the known latency explains at least this fraction of the time in flight."""
SURE = 0.85
"""From this fraction on, that is certain."""
CONTENDED = 0.5
"""Others that use more than this fraction of a busy machine hold up whatever else runs on it."""
EXPLAINED = 0.5
"""Others kept a thread waiting if they had a processor for this part of the time."""
PAUSED = 0.3
"""Think time counts as the limit when the load pauses for at least this fraction of the time."""
DEVICE_SHARE = 0.1
"""The page cache answers when storage moves less than this fraction of what is read."""
POISSON_ERRORS = 3.0
"""A rate of random arrivals is reached if it is missed by fewer standard errors of the count than this."""


# ---- the requested load


def asked_limit(load: MeasuredLoad) -> Limit | None:
    """The rate or the think time that the load was given."""
    return _rate_limit(load) or _think_limit(load)


def _rate_limit(load: MeasuredLoad) -> Limit | None:
    """All workers at the rates that they were given. Without a rate, a worker leaves the total unbounded."""
    # Groups run one after another: their rates make no total.
    if len(load.point.plan.groups) > 1 or not load.workers:
        return None
    flows = [[one for one in load.workers if _flow(one) == flow] for flow in dict.fromkeys(map(_flow, load.workers))]
    asked = [_asked_iops(workers) for workers in flows]
    if any(rate is None for rate in asked):
        return None
    total = math.fsum(rate for rate in asked if rate is not None)
    achieved = load.iops()
    expected = total * load.summary.window_ns / SECOND_NS
    missing = max(TOLERANCE, POISSON_ERRORS / math.sqrt(expected) if _is_random(load) and expected else 0.0)
    if achieved < total * (1 - missing):
        return None
    # The window may begin and end right next to an operation of each worker.
    if expected and achieved > total * (1 + missing + len(load.workers) / expected):
        text = f"catching up: {achieved:,.0f} IOPS at a requested rate of {format_number(total)}"
        behind = "operations that were due before the window completed in it: the ramp was short, or held up"
        return limit("backlog", text, load.target, evidence=[behind])
    evidence = (
        [f"{achieved:,.0f} IOPS measured, {format_number(total)} requested ({achieved / total:.1%})"] if total else []
    )
    groups = {worker.outcome.report_group for worker in load.workers}
    if len(groups) > 1 or any(worker.plan.flow for worker in load.workers):
        text = f"at the rates asked of its jobs, {format_number(total)} IOPS together"
        return limit("group_rate", text, load.target, evidence=evidence)
    return limit("rate", f"at the requested rate, {format_number(total)} IOPS", load.target, evidence=evidence)


def _flow(worker: WorkerLoad) -> object:
    """Workers of one flow keep their operations in proportion, so a rate of one bounds them all."""
    return ("flow", worker.plan.flow.id) if worker.plan.flow else ("worker", id(worker))


def _asked_iops(workers: Sequence[WorkerLoad]) -> float | None:
    """The rate asked of workers that depend on each other; None where nothing bounds them."""
    rates = [_worker_rate(worker) for worker in workers]
    if len(workers) == 1:
        return rates[0]
    weights = [worker.plan.flow.weight if worker.plan.flow else 1 for worker in workers]
    bounds = [rate / weight for weight, rate in zip(weights, rates, strict=True) if rate is not None]
    return min(bounds) * sum(weights) if bounds else None


def _worker_rate(worker: WorkerLoad) -> float | None:
    operations = [operation for operation in worker.plan.operations if operation.kind not in FLUSH_KINDS]
    if worker.plan.rate:
        return _per_s(worker.plan.rate, _mean_bytes(operations))
    rates = [_per_s(operation.rate, block_bytes_mean(operation.blocks)) for operation in operations if operation.rate]
    return math.fsum(rates) if len(rates) == len(operations) else None


def _per_s(rate: Rate, block_bytes: float) -> float:
    per_s = rate.count * SECOND_NS / rate.per_ns
    return per_s if rate.unit == "operations" else per_s / block_bytes


def _mean_bytes(operations: Sequence[OperationPlan]) -> float:
    shares = sum(operation.share for operation in operations)
    weighted = math.fsum(operation.share * block_bytes_mean(operation.blocks) for operation in operations)
    return weighted / shares if shares else block_bytes_mean(operations[0].blocks)


def _is_random(load: MeasuredLoad) -> bool:
    rates = [rate for one in load.workers for rate in (one.plan.rate, *(op.rate for op in one.plan.operations)) if rate]
    return any(rate.arrivals == "poisson" for rate in rates)


def _think_limit(load: MeasuredLoad) -> Limit | None:
    paused = [_paused_share(worker, worker.plan.think) for worker in load.workers if worker.plan.think]
    if not paused or len(paused) < len(load.workers) or min(paused) < PAUSED:
        return None
    pause_ns = max(worker.plan.think.pause_ns for worker in load.workers if worker.plan.think)
    return limit(
        "think_time",
        f"at the requested think time, {format_duration(pause_ns)} a pause",
        load.target,
        evidence=[f"the load pauses for {min(paused):.0%} of the time"],
    )


def _paused_share(worker: WorkerLoad, think: Think) -> float:
    """Share of the window that a worker's pauses take."""
    pauses = worker.operations / think.every if think.every else 0.0
    window_ns = measured_ns(worker.outcome)
    if think.every_ns is not None:
        period_ns = think.every_ns + think.pause_ns
        pauses = max(pauses, window_ns / period_ns if period_ns else 0.0)
    return min(1.0, pauses * think.pause_ns / window_ns) if window_ns else 0.0


# ---- this machine


def cache_limit(load: MeasuredLoad) -> Limit | None:
    """The page cache of this machine, where it answered nearly all buffered reads."""
    machine, read = load.point.machine, load.kind("read")
    if machine is None or machine.device_read_bytes is None or read is None or not read.bytes:
        return None
    opened = [getattr(worker.plan.engine, "open", None) for worker in load.workers if not worker.plan.disk]
    if len(opened) < len(load.workers) or any(one is None or one.direct for one in opened):
        return None
    if machine.device_read_bytes > DEVICE_SHARE * read.bytes:
        return None
    moved = f"{format_bytes(read.bytes)} were read, {format_bytes(machine.device_read_bytes)} came from storage"
    return limit("page_cache", f"answered by the page cache of {load.machine_name}", load.target, evidence=[moved])


def processor_limit(load: MeasuredLoad) -> Limit | None:
    """The processors: the load's own thread, this machine, or others that hold its processors."""
    summary, machine = load.summary, load.point.machine
    if machine is not None and machine.own_share is None and machine.busy_share >= BUSY:
        return _machine(load, machine)
    if summary.cpu_share_max >= BUSY:
        return limit(
            "generator",
            f"a worker's thread more than {BUSY:.0%} busy: the load, not the target",
            load.target,
            confidence="likely",
            evidence=[f"its thread used {summary.cpu_share_max:.0%} of a processor", *shares_of(machine)],
        )
    return _contention(load, machine) if machine is not None else None


def _contention(load: MeasuredLoad, machine: MachineUse) -> Limit | None:
    """Threads that were ready to run and got no processor, or a target that used all of one."""
    delayed = starved_share(machine)
    others = (machine.others_share or 0.0) + (machine.steal_share or 0.0)
    ours = (machine.own_share or 0.0) + (machine.target_share or 0.0)
    is_ready = load.summary.cpu_share_max + delayed >= BUSY
    waits = delayed >= STARVED or (delayed >= DELAYED and is_ready)
    if others > ours and waits:
        return _foreign(load, machine)
    # Others that fill the idle time make a machine busy, but limit a load only where its threads wait.
    is_busy = machine.busy_share >= BUSY and ours >= others and (waits or others < FOREIGN_SHARE)
    if is_busy or ((machine.target_share or 0.0) * machine.cpus >= BUSY and is_ready):
        return _machine(load, machine)
    # Others may use less of the machine, and most of the processor that a thread waits for.
    return _foreign(load, machine) if waits and others * machine.cpus >= EXPLAINED * delayed else None


def crowded_limit(load: MeasuredLoad) -> Limit | None:
    """Processors that load and target share and that are nearly busy, while threads that are ready wait for one."""
    machine = load.point.machine
    if machine is None or machine.own_share is None or machine.busy_share < CROWDED:
        return None
    delayed = starved_share(machine)
    if delayed < STARVED or machine.own_share + (machine.target_share or 0.0) < OURS * machine.busy_share:
        return None
    waited = f"a thread that was ready waited for a processor {delayed:.0%} of the time"
    text = f"load and target share the processors of {load.machine_name}: {waited}"
    return _processors(load, text, "possible")


def _foreign(load: MeasuredLoad, machine: MachineUse) -> Limit:
    who = starved_party(machine)
    delay = f"{starved_share(machine):.0%}"
    text = f"others hold the processors: a thread of the {who} was ready and waited for one for {delay} of the time"
    if not sleeps(load):
        return limit(HELD_UP, text, load.target, confidence="likely", evidence=shares_of(machine))
    doubt = "it slept for the rest: what it waited for may be the limit"
    return limit(HELD_UP, text, load.target, confidence="possible", evidence=[*shares_of(machine), doubt])


def sleeps(load: MeasuredLoad, most: float = BUSY) -> bool:
    """True if the threads of load and target ran or waited for a processor for less than this share of the time."""
    if (machine := load.point.machine) is None:
        return False
    of_load = load.summary.cpu_share_max + (machine.thread_delay_share or 0.0)
    of_target = (machine.target_share or 0.0) * machine.cpus + (machine.target_delay_share or 0.0)
    return max(of_load, of_target) < most


def _machine(load: MeasuredLoad, machine: MachineUse) -> Limit:
    processors = f"all {machine.cpus} processors" if machine.cpus > 1 else "the processor"
    if machine.busy_share >= BUSY:
        text = f"{processors} of {load.machine_name} more than {BUSY:.0%} busy"
    else:
        text = f"the target, on {load.machine_name}, uses {(machine.target_share or 0.0) * machine.cpus:.1f} processors"
    return _processors(load, text, "likely")


def _processors(load: MeasuredLoad, text: str, confidence: Confidence) -> Limit:
    code = "client_cpu" if load.is_client else "machine"
    return limit(code, text, load.target, confidence=confidence, evidence=shares_of(load.point.machine))


def shares_of(machine: MachineUse | None) -> list[str]:
    """The share of each party in the use of the processors."""
    if machine is None or machine.own_share is None:
        return []
    shares = (
        ("the load", machine.own_share),
        ("the target", machine.target_share),
        ("others", machine.others_share),
        ("other guests of the host", machine.steal_share),
    )
    used = ", ".join(f"{name} {share:.0%}" for name, share in shares if share is not None)
    delays = (("load", machine.thread_delay_share), ("target", machine.target_delay_share))
    waited = (
        f"a thread of the {who} waited for a processor for {delay:.0%} of the time"
        for who, delay in delays
        if delay is not None
    )
    return [f"of {machine.cpus} processors: {used}", *waited]


# ---- depth


def latency_limit(load: MeasuredLoad) -> Limit | None:
    """The depth, where the known latency of the target explains the time in flight."""
    known_ns, summary = _known_latency_ns(load), load.summary
    if not known_ns or not _is_full(load):
        return None
    explained = load.held_up * summary.iops * known_ns / SECOND_NS / summary.depth_requested
    if explained < AT_LATENCY:
        return None
    told = f"the target's latency of {format_duration(known_ns)} is {explained:.0%} of the time in flight"
    confidence: Confidence = "certain" if explained >= SURE else "likely"
    return limit("depth", _depth_text(load), load.target, confidence=confidence, evidence=[_law(load), told])


def depth_limit(load: MeasuredLoad) -> Limit | None:
    """The depth, where all of it is in flight. A closed loop always fills its depth, so alone that proves little."""
    if not _is_full(load) or _known_latency_ns(load) or _is_contended(load.point.machine):
        return None
    doubt = "a closed loop fills its depth at any other limit, too"
    return limit("depth", _depth_text(load), load.target, confidence="possible", evidence=[_law(load), doubt])


def _is_full(load: MeasuredLoad) -> bool:
    summary = load.summary
    return not summary.paced and summary.concurrency_achieved >= summary.depth_requested * IN_FLIGHT


def _depth_text(load: MeasuredLoad) -> str:
    achieved, asked = load.summary.concurrency_achieved, format_depth(load.summary.depth_requested)
    return f"at the requested depth, {format_number(achieved, 3)} of {asked} in flight on average; more may give more"


def _law(load: MeasuredLoad) -> str:
    in_flight = f"{format_number(load.summary.concurrency_achieved, 4)} in flight on average (IOPS x mean latency)"
    return f"{in_flight}, {format_depth(load.summary.depth_requested)} requested"


def _is_contended(machine: MachineUse | None) -> bool:
    """Others use most of this machine, so its latencies are not those of the target."""
    return machine is not None and machine.busy_share >= BUSY and (machine.others_share or 0.0) > CONTENDED


def _known_latency_ns(load: MeasuredLoad) -> int | None:
    target = load.target
    return target.latency_mean_ns or target.service_ns or target.latency_ns
