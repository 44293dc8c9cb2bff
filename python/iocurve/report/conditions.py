"""The conditions of a result: its heading and targets, and the facts that a reader needs to run it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from iocurve.analysis.findings import search_load
from iocurve.analysis.limits import volume_description
from iocurve.analysis.target_limits import fitted_figures
from iocurve.engine.derived import block_text, payload_text
from iocurve.engine.plan import NfsEngine, OperationPlan, Worker
from iocurve.foundation import units
from iocurve.result.caps import EGRESS
from iocurve.result.document import Result, ScenarioFacts, SearchFacts, TargetFacts

LISTED_MAX = 3
"""A list of more values than this is folded."""


class Folded(NamedTuple):
    """A long list, of which the page shows the summary until a reader opens it."""

    summary: str
    """``17 seeds``."""
    text: str


Fact = str | Folded


def conditions(result: Result) -> dict[str, dict[str, Fact]]:
    """Names and values by heading; facts that are not known are left out."""
    machines = {"Machine": _machine(result), **_cluster(result)}
    return {"Run": _run(result), **machines, **_targets(result), "Load": _load(result)}


def _run(result: Result) -> dict[str, Fact]:
    ceiling = result.null_ceiling_operations_per_s
    ceiling_text = f"{units.format_count(ceiling)} operations/s per worker (null engine)" if ceiling else "not measured"
    return {
        "Name": result.name,
        "Started": result.created.strftime("%Y-%m-%d %H:%M:%S UTC"),
        "Kind": result.kind,
        "iocurve": result.iocurve,
        "Ended": result.state,
        "Ceiling of the loop": ceiling_text,
        **_imported(result),
    }


def _imported(result: Result) -> dict[str, Fact]:
    """The tools and files of imported points."""
    imports = [point.imported for point in result.points if point.imported]
    facts = {
        "Measured by": _listed("tools", (facts.tool for facts in imports)),
        "Imported from": _listed("files", (facts.source for facts in imports)),
    }
    return {name: fact for name, fact in facts.items() if fact}


def _machine(result: Result) -> dict[str, Fact]:
    host = result.host
    if host is None:
        return {"Host": "not known"}
    return {
        "Host": host.hostname,
        "Processor": f"{host.cpu_model}, {host.cpus} usable",
        "Memory": units.format_bytes(host.memory_bytes),
        "System": f"{host.distribution}, Linux {host.kernel}",
        "TCP congestion control": host.tcp_congestion_control or "unknown",
        "Python": host.python,
    }


def _cluster(result: Result) -> dict[str, dict[str, Fact]]:
    """The framework that carries the agents, and its cost on their machines while no load runs."""
    cluster = result.cluster
    if cluster is None:
        return {}
    clients = {client.name: client for point in result.points for client in point.clients}
    facts: dict[str, Fact] = {
        "Framework": cluster.framework,
        "Agents": _listed("clients", (f"{one.name}, {one.host.cpus} processors" for one in clients.values())),
    }
    if cluster.missing:
        facts["Missing"] = ", ".join(cluster.missing)
    if cluster.idle:
        busiest = max(cluster.idle, key=lambda cost: cost.daemon_share)
        longest = max(cluster.idle, key=lambda cost: cost.longest_gap_ns)
        processors = ", ".join(map(str, busiest.daemon_processors[:LISTED_MAX]))
        bound = f"on processor {processors}" if len(busiest.daemon_processors) <= LISTED_MAX else "on all processors"
        facts["Idle daemons"] = f"{busiest.daemon_share:.2%} of a processor at most ({busiest.client}), {bound}"
        facts["Longest idle gap"] = (
            f"{units.format_latency(longest.longest_gap_ns)} in {longest.seconds:.1f} s of a spinning thread, "
            f"{longest.gap_share:.2%} in gaps ({longest.client}); those of other programs included"
        )
    return {"Cluster": facts}


def _targets(result: Result) -> dict[str, dict[str, Fact]]:
    """The target, or each of several targets by its name in the scenario."""
    named = result.scenario.targets if result.scenario else {}
    if len(named) < 2:
        return {"Target": _target(result.target)}
    return {f"Target {name}": _target(facts) for name, facts in named.items()}


def _target(target: TargetFacts) -> dict[str, Fact]:
    facts: dict[str, Fact] = {
        "Kind": target.kind.replace("_", " "),
        "Address": target.address,
        "Level and quota": volume_description(target),
        "Emulated speed": _speed(target.speed),
        "Fitted, not published": ", ".join(fitted_figures([target])),
        "Throughput limit": _bandwidth(target.throughput_bytes_per_s),
        "IOPS limit": f"{target.iops:,}" if target.iops else "",
        "Added latency": units.format_latency(target.latency_ns) if target.latency_ns else "",
        "Client's egress": _bandwidth(target.cap(EGRESS)),
        "Store": target.store or "",
    }
    if target.mount:
        facts["File system"] = f"{target.mount.file_system} on {target.mount.mount_point} ({target.mount.device})"
        facts["Mount options"] = target.mount.options
    return {name: fact for name, fact in facts.items() if fact}


def _speed(speed: float | None) -> str:
    """``10 % of the published: rates are multiplied by 0.1, latencies by 10``."""
    if speed is None or speed == 1:
        return ""
    return f"{speed:.4g} of the published: rates are multiplied by {speed:.4g}, latencies by {1 / speed:.4g}"


def _bandwidth(bytes_per_s: int | None) -> str:
    return f"{units.format_number(bytes_per_s / units.MIB)} MiB/s" if bytes_per_s else ""


def _load(result: Result) -> dict[str, Fact]:
    workers = [worker for point in result.points for group in point.plan.groups for worker in group.workers]
    summaries = [point.summary() for point in result.points]
    ramps = (units.format_duration(worker.ramp_ns) for worker in workers if worker.ramp_ns)
    cooldowns = (units.format_duration(worker.cooldown_ns) for worker in workers if worker.cooldown_ns)
    facts = {
        "Jobs": _jobs(result),
        "Engine": _listed("engines", (engine for summary in summaries for engine in summary.engines)),
        "NFS mount": _listed("mounts", map(_mount, workers)),
        "Session slots": _slots(result),
        "Files per worker": _listed("sets of files", map(_files, workers)),
        "Order": _listed("orders", map(_order, workers)),
        "Measured time": _listed("durations", (point.measured_text for point in result.points)),
        "Ramp": _listed("durations", ramps) or ("none" if workers else ""),
        "Cool-down": _listed("durations", cooldowns),
        "Written data": _listed("kinds of data", map(_payload, workers)),
        "Seeds": _listed("seeds", (str(worker.seed) for worker in workers), separator=", "),
    }
    return {name: fact for name, fact in facts.items() if fact}


def _jobs(result: Result) -> Fact:
    """Kinds, blocks and depth of each job of a single point; the tables have them for points along axes."""
    if len(result.points) != 1:
        return ""
    workers = [worker for group in result.points[0].plan.groups for worker in group.workers]
    jobs = Counter(_job_text(worker) for worker in workers)
    return _listed("jobs", (f"{text} (× {count})" if count > 1 else text for text, count in jobs.items()))


def _job_text(worker: Worker) -> str:
    kinds = ", ".join(_operation_text(operation) for operation in worker.operations)
    return f"{worker.job}: {kinds}, depth {worker.depth}"


def _operation_text(operation: OperationPlan) -> str:
    rate = operation.rate
    if rate is None:
        return f"{operation.kind} {block_text(operation.blocks)}"
    count = units.format_count(rate.count) if rate.unit == "operations" else units.format_bytes(rate.count)
    pace = f"{count}/s" if rate.per_ns == units.SECOND_NS else f"{count} per {units.format_duration(rate.per_ns)}"
    return f"{operation.kind} {block_text(operation.blocks)} at {pace}"


def _listed(what: str, texts: Iterable[str], separator: str = "; ") -> Fact:
    """Each text once; a long list is folded."""
    distinct = list(dict.fromkeys(text for text in texts if text))
    text = separator.join(distinct)
    return text if len(distinct) <= LISTED_MAX else Folded(f"{len(distinct):,} {what}", text)


def _mount(worker: Worker) -> str:
    if not isinstance(worker.engine, NfsEngine):
        return ""
    mount = worker.engine.mount
    promise = {"none": "unstable writes", "data_sync": "data-sync writes", "file_sync": "file-sync writes"}
    version = f"NFSv4.1, {mount.session_slots} slots" if mount.version == 4 else "NFSv3"
    sizes = "".join(f", {name} {size}" for name, size in (("rsize", mount.rsize), ("wsize", mount.wsize)) if size)
    return f"{version}, nconnect {mount.nconnect}{sizes}, {promise[mount.durability]}"


def _slots(result: Result) -> str:
    """The number of calls that waited for a slot of their NFSv4.1 session; that time is part of their latency."""
    counters = [worker.counters for point in result.points for worker in point.outcome.workers]
    slots, calls, waits, wait_ns = (
        sum(counter.get(name, 0) for counter in counters)
        for name in ("session_slots", "session_calls", "slot_waits", "slot_wait_ns")
    )
    if not slots or not calls:
        return ""
    if not waits:
        return "no call waited for a slot"
    server = "the rest of the latency is the server's and the network's"
    return (
        f"{100 * waits / calls:.3g} % of the calls waited for a slot, {units.format_latency(round(wait_ns / waits))} "
        f"on average ({units.format_latency(round(wait_ns / calls))} over all calls); {server}"
    )


def _files(worker: Worker) -> str:
    return f"{len(worker.files)} × {units.format_bytes(max(file.bytes for file in worker.files))}"


def _order(worker: Worker) -> str:
    if not any(operation.random_percent for operation in worker.operations):
        return "sequential"
    cover = "each block once a pass" if worker.access.cover == "once" else "independent draws"
    return f"random, {cover}"


def _payload(worker: Worker) -> str:
    return f"{payload_text(worker.payload) or 'random bytes'}, {worker.payload.renew}"


def heading(result: Result) -> str:
    """The name of the result; of a search, whose name has the target as well, the search and its load."""
    return f"{units.capitalised(result.kind)}: {search_load(result, result.search)}" if result.search else result.name


def targets(result: Result) -> list[tuple[str, str, str]]:
    """Name in the scenario (empty for a single target), address, and how it is emulated (empty for a real one)."""
    named = result.scenario.targets if result.scenario else {}
    if len(named) > 1:
        return [(name, facts.address, _emulation(facts)) for name, facts in named.items()]
    return [("", result.target.address, _emulation(result.target))]


def tools(result: Result) -> str:
    """The tools that measured the imported points: ``fio 3.33``; empty without such points."""
    return ", ".join(dict.fromkeys(point.imported.tool for point in result.points if point.imported))


def setting(result: Result) -> list[str]:
    """The aim and the form of the scenario, then the question of the search and how it ended."""
    return [
        *(_scenario(result.scenario) if result.scenario else ()),
        *(_search(result.search) if result.search else ()),
    ]


def incomplete_reason(result: Result) -> str:
    """The reason why points are missing or cut short, as a sentence; empty where the run is complete."""
    return units.sentence(result.incomplete_reason or ("" if result.state == "finished" else "no reason is recorded"))


def emulation_label(result: Result) -> str:
    """Names the emulated targets of a result; empty where all targets are real."""
    facts = result.scenario.targets.values() if result.scenario else [result.target]
    named = [
        _EMULATED[one.kind].format(what=one.address if result.scenario else volume_description(one) or "no limits")
        for one in facts
        if one.kind in _EMULATED
    ]
    return "emulated target: " + " and ".join(dict.fromkeys(named)) if named else ""


_EMULATED = {"embedded_volume": "embedded NFS volume ({what})", "emulated_disk": "disk ({what})"}


def _emulation(target: TargetFacts) -> str:
    """``emulated: embedded NFS volume (ultra, 4 TiB, 512 MiB/s)``; a disk is described by its address."""
    if target.kind == "embedded_volume":
        level = volume_description(target)
        return f"emulated: embedded NFS volume ({', '.join(filter(None, (level, *_limits(target)))) or 'no limits'})"
    return f"emulated disk ({', '.join(_limits(target)) or 'no limits'})" if target.kind == "emulated_disk" else ""


def _limits(target: TargetFacts) -> list[str]:
    """The limits for reads and writes together; disks are sold in MB/s."""
    throughput = target.throughput_bytes_per_s
    size, unit = (units.MB, "MB") if target.kind == "emulated_disk" else (units.MIB, "MiB")
    return [
        *([f"{target.iops:,} IOPS"] if target.iops else []),
        *([f"{units.format_number(throughput / size, 5)} {unit}/s"] if throughput else []),
    ]


def _scenario(scenario: ScenarioFacts) -> list[str]:
    shortened = [f"Not the full scenario: {'; '.join(scenario.shortened)}."] if scenario.shortened else []
    return [*filter(None, (scenario.question, " ".join(scenario.why.split()))), *shortened]


def _search(search: SearchFacts) -> list[str]:
    return [
        f"{units.capitalised(search.question)} ({search.workload}).",
        f"The search stopped: {search.stopped}.",
        *(f"{units.capitalised(remark)}." for remark in search.remarks),
    ]
