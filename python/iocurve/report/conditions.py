"""The conditions of a result: the facts that a reader needs to run it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from iocurve.analysis.limits import volume_description
from iocurve.engine.plan import NfsEngine, OperationPlan, Worker
from iocurve.job.describe import block_text, payload_text
from iocurve.result.document import Result, TargetFacts
from iocurve.units import MIB, SECOND_NS, format_bytes, format_count, format_duration, format_latency, format_number

SEEDS_LISTED_MAX = 8


def conditions(result: Result) -> dict[str, dict[str, str]]:
    """Names and values by heading; facts that are not known are left out."""
    return {"Run": _run(result), "Machine": _machine(result), "Target": _target(result.target), "Load": _load(result)}


def _run(result: Result) -> dict[str, str]:
    ceiling = result.null_ceiling_operations_per_s
    ceiling_text = f"{format_count(ceiling)} operations/s per worker (null engine)" if ceiling else "not measured"
    return {
        "Name": result.name,
        "Started": result.created.strftime("%Y-%m-%d %H:%M:%S UTC"),
        "Kind": result.kind,
        "iocurve": result.iocurve,
        "Ended": result.state,
        "Ceiling of the loop": ceiling_text,
    }


def _machine(result: Result) -> dict[str, str]:
    host = result.host
    return {
        "Host": host.hostname,
        "Processor": f"{host.cpu_model}, {host.cpus} usable",
        "Memory": format_bytes(host.memory_bytes),
        "System": f"{host.distribution}, Linux {host.kernel}",
        "TCP congestion control": host.tcp_congestion_control or "unknown",
        "Python": host.python,
    }


def _target(target: TargetFacts) -> dict[str, str]:
    facts = {
        "Kind": target.kind.replace("_", " "),
        "Address": target.address,
        "Level and quota": volume_description(target),
        "Throughput limit": _bandwidth(target.throughput_bytes_per_s),
        "IOPS limit": f"{target.iops:,}" if target.iops else "",
        "Added latency": format_latency(target.latency_ns) if target.latency_ns else "",
        "Client's egress": _bandwidth(target.client_egress_bytes_per_s),
        "Store": target.store or "",
    }
    if target.mount:
        facts["File system"] = f"{target.mount.file_system} on {target.mount.mount_point} ({target.mount.device})"
        facts["Mount options"] = target.mount.options
    return {name: fact for name, fact in facts.items() if fact}


def _bandwidth(bytes_per_s: int | None) -> str:
    return f"{format_number(bytes_per_s / MIB)} MiB/s" if bytes_per_s else ""


def _load(result: Result) -> dict[str, str]:
    workers = [worker for point in result.points for group in point.plan.groups for worker in group.workers]
    summaries = [point.summary() for point in result.points]
    facts = {
        "Jobs": _jobs(result),
        "Engine": _distinct(engine for summary in summaries for engine in summary.engines),
        "NFS mount": _distinct(_mount(worker) for worker in workers),
        "Files per worker": _distinct(_files(worker) for worker in workers),
        "Order": _distinct(_order(worker) for worker in workers),
        "Measured time": _distinct(_runtime(worker) for worker in workers),
        "Ramp": _distinct(format_duration(worker.ramp_ns) for worker in workers if worker.ramp_ns) or "none",
        "Cool-down": _distinct(format_duration(worker.cooldown_ns) for worker in workers if worker.cooldown_ns),
        "Written data": _distinct(map(_payload, workers)),
        "Seeds": _seeds(workers),
    }
    return {name: fact for name, fact in facts.items() if fact}


def _jobs(result: Result) -> str:
    """Kinds, blocks and depth of each job of a single point; the tables have them for points along axes."""
    if len(result.points) != 1:
        return ""
    workers = [worker for group in result.points[0].plan.groups for worker in group.workers]
    clones = Counter(_job_text(worker) for worker in workers)
    return "; ".join(f"{text} (× {count})" if count > 1 else text for text, count in clones.items())


def _job_text(worker: Worker) -> str:
    kinds = ", ".join(_operation_text(operation) for operation in worker.operations)
    return f"{worker.job}: {kinds}, depth {worker.depth}"


def _operation_text(operation: OperationPlan) -> str:
    rate = operation.rate
    if rate is None:
        return f"{operation.kind} {block_text(operation.blocks)}"
    count = format_count(rate.count) if rate.unit == "operations" else format_bytes(rate.count)
    pace = f"{count}/s" if rate.per_ns == SECOND_NS else f"{count} per {format_duration(rate.per_ns)}"
    return f"{operation.kind} {block_text(operation.blocks)} at {pace}"


def _distinct(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(text for text in texts if text))


def _mount(worker: Worker) -> str:
    if not isinstance(worker.engine, NfsEngine):
        return ""
    mount = worker.engine.mount
    promise = {"none": "unstable writes", "data_sync": "data-sync writes", "file_sync": "file-sync writes"}
    return f"NFSv{mount.version}, nconnect {mount.nconnect}, {promise[mount.durability]}"


def _files(worker: Worker) -> str:
    return f"{len(worker.files)} × {format_bytes(max(file.bytes for file in worker.files))}"


def _order(worker: Worker) -> str:
    if not any(operation.random_percent for operation in worker.operations):
        return "sequential"
    cover = "each block once a pass" if worker.access.cover == "once" else "independent draws"
    return f"random, {cover}"


def _payload(worker: Worker) -> str:
    return f"{payload_text(worker.payload) or 'random bytes'}, {worker.payload.renew}"


def _runtime(worker: Worker) -> str:
    if worker.end.runtime_ns is not None:
        return format_duration(worker.end.runtime_ns)
    return format_bytes(worker.end.bytes) if worker.end.bytes is not None else "until its operations are done"


def _seeds(workers: list[Worker]) -> str:
    seeds = list(dict.fromkeys(worker.seed for worker in workers))
    listed = ", ".join(map(str, seeds[:SEEDS_LISTED_MAX]))
    more = len(seeds) - SEEDS_LISTED_MAX
    return listed if more <= 0 else f"{listed} and {more} more (in result.json)"
