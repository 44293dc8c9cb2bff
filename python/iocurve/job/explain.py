"""Explains a plan in words: load, files, bytes, end conditions, duration and warnings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from iocurve.engine.derived import block_bytes_mean
from iocurve.engine.describe import (
    batch_text,
    flush_text,
    latency_target_text,
    load_text,
    log_text,
    offsets_text,
    payload_text,
    rate_text,
    steady_state_text,
    think_text,
    verify_text,
)
from iocurve.engine.plan import (
    FilePlan,
    MetadataEngine,
    NfsEngine,
    NfsMetadataEngine,
    NullEngine,
    OperationPlan,
    Plan,
    Rate,
    SpaceEngine,
    Worker,
)
from iocurve.foundation.errors import Diagnostic
from iocurve.foundation.units import SECOND_NS, counted, format_bytes, format_count, format_duration
from iocurve.job.model import PlanNote
from iocurve.job.resolve import Machine
from iocurve.job.resolve.machine import ENDLESS

FILES_SHOWN = 6
"""Files of each job that are listed; the rest is counted."""


def explain(
    plan: Plan,
    notes: Sequence[PlanNote],
    obstacles: Sequence[Diagnostic],
    machine: Machine,
    *,
    called: str = "job",
    parts: str | None = None,
) -> str:
    """Explains a plan as plain text.

    ``called`` is the dialect's name for a worker of a job; ``parts`` replaces "jobs and workers" in the headline.
    """
    lines = [_headline(plan, parts)]
    for number, group in enumerate(plan.groups):
        if len(plan.groups) > 1:
            lines += ["", f"Group {number + 1} of {len(plan.groups)}" + (", after the one before it" if number else "")]
        for workers in _jobs(group.workers):
            lines += ["", *explain_job(workers, machine, called)]
    lines += ["", f"Time: {_total_time(plan)}", f"Layout before the run: {_layout(_workers(plan), machine)}"]
    lines += _section("Warnings", (str(note) for note in notes if note.level == "warning"))
    lines += _section("Notes", (str(note) for note in notes if note.level == "info"))
    lines += _section("Cannot run on this machine", map(str, obstacles))
    return "\n".join(lines) + "\n"


def _headline(plan: Plan, parts: str | None) -> str:
    in_flight = max(sum(worker.depth for worker in group.workers) for group in plan.groups)
    jobs = sum(len(_jobs(group.workers)) for group in plan.groups)
    parts = parts or f"{counted(jobs, 'job')}, {counted(len(_workers(plan)), 'worker')}"
    return f"{plan.name}: {parts}, at most {in_flight} in flight"


def _jobs(workers: Iterable[Worker]) -> list[list[Worker]]:
    """Workers grouped by job; two jobs may have the same name."""
    jobs: list[list[Worker]] = []
    for worker in workers:
        if worker.jobnum == 0 or not jobs:
            jobs.append([])
        jobs[-1].append(worker)
    return jobs


def explain_job(workers: Sequence[Worker], machine: Machine, called: str) -> list[str]:
    """The workers of one job: load, engine, rates, files, end; ``called`` is the dialect's name for a worker."""
    first = workers[0]
    in_flight = len(workers) * first.depth
    return [
        f"{first.job}: {load_text(first)}",
        f"  in flight  {counted(len(workers), called)} × depth {first.depth} = {in_flight}",
        f"  engine     {_engine(first)}",
        *_rates(workers, called),
        *_details(workers),
        *_files(workers, machine),
        f"  ends       {_ending(first, '' if len(workers) == 1 else f' per {called}')}",
    ]


def _details(workers: Sequence[Worker]) -> list[str]:
    """Settings that differ from a plain job, a line each."""
    worker = workers[0]
    writes = any(operation.kind == "write" for operation in worker.operations)
    said = {
        "offsets": offsets_text(worker),
        "batches": batch_text(worker.batch),
        "pauses": think_text(worker.think) if worker.think else "",
        "flushes": flush_text(worker),
        "writes": payload_text(worker.payload) if writes else "",
        "compares": verify_text(worker.verify, writes) if worker.verify else "",
        "searches": latency_target_text(worker.latency_target) if worker.latency_target else "",
        "steady": steady_state_text(worker.steady_state) if worker.steady_state else "",
        "records": log_text(worker.log) if worker.log else "",
        "processors": ", ".join(map(str, sorted({cpu for worker in workers for cpu in worker.cpus}))),
        "share": f"weight {worker.flow.weight} in flow {worker.flow.id}" if worker.flow else "",
        "waits for": " and ".join(worker.wait_for),
    }
    return [f"  {label:<10} {text}" for label, text in said.items() if text]


def _engine(worker: Worker) -> str:
    if isinstance(worker.engine, NullEngine):
        return "null: no I/O"
    if isinstance(worker.engine, NfsMetadataEngine):
        mount = worker.engine.mount
        version = "NFSv4.1" if mount.version == 4 else "NFSv3"
        return (
            f"metadata operations over {version}, {_at_once(worker.depth, 'call')}, on nfs://{mount.host}{mount.export}"
        )
    if isinstance(worker.engine, MetadataEngine):
        # Threads are for trees alone.
        at_once = worker.depth if worker.tree else 1
        return f"metadata operations on local files, {_at_once(at_once, 'operation')}"
    if isinstance(worker.engine, NfsEngine):
        mount = worker.engine.mount
        port = f":{mount.port}" if mount.port else ""
        source = f" from {mount.source}" if mount.source else ""
        connections = f"{counted(mount.nconnect, 'connection')} per worker{source}"
        version = "4.1" if mount.version == 4 else "3"
        slots = f", {counted(mount.session_slots, 'slot')}" if mount.version == 4 else ""
        sizes = "".join(f", {name} {size}" for name, size in (("rsize", mount.rsize), ("wsize", mount.wsize)) if size)
        return f"NFSv{version} client, {connections}{slots}{sizes} to nfs://{mount.host}{port}{mount.export}"
    if isinstance(worker.engine, SpaceEngine):
        return f"{worker.engine.call}, one at a time"
    names = {"sync": "pread and pwrite", "aio": "Linux native AIO", "uring": "io_uring", "mmap": "mapped files"}
    if worker.disk:
        return f"{names[worker.engine.kind]}, on an emulated {worker.disk.name}"
    caching = "direct, bypassing the page cache" if worker.engine.open.direct else "through the page cache"
    durable = {"none": "", "data_sync": ", O_DSYNC", "file_sync": ", O_SYNC"}[worker.engine.open.durability]
    return f"{names[worker.engine.kind]}, {caching}{durable}"


def _at_once(depth: int, what: str) -> str:
    """``one call at a time``, ``up to 32 calls at a time``."""
    return f"one {what} at a time" if depth == 1 else f"up to {depth} {what}s at a time"


def _rates(workers: Sequence[Worker], called: str) -> list[str]:
    first = workers[0]
    rates = [(operation.rate, f"{operation.kind}s") for operation in first.operations]
    texts = [rate_text(rate, what, len(workers), called) for rate, what in [*rates, (first.rate, "operations")] if rate]
    return [f"  rate       {text}" for text in texts]


def _files(workers: Sequence[Worker], machine: Machine) -> list[str]:
    files = _distinct(workers)
    if workers[0].tree:
        return [f"  root       {file.path}" for file in files[:FILES_SHOWN]]
    total = sum(file.bytes for file in files)
    up_to = "up to " if workers[0].end.when_full else ""
    lines = [f"  files      {counted(len(files), 'file')}, {up_to}{format_bytes(total)} used"]
    lines += [f"             {file.path}: {_file(file, workers[0], machine)}" for file in files[:FILES_SHOWN]]
    if len(files) > FILES_SHOWN:
        lines.append(f"             … and {format_count(len(files) - FILES_SHOWN)} more")
    return lines


def _file(file: FilePlan, worker: Worker, machine: Machine) -> str:
    region = format_bytes(file.bytes) + (f" from byte {file.offset_bytes}" if file.offset_bytes else "")
    if isinstance(worker.engine, NullEngine):
        return f"{region}, not accessed"
    if isinstance(worker.engine, NfsEngine):
        made = "recreated" if file.layout.startswith("recreate") else "created if missing"
        return f"{region}, {'must exist' if file.layout == 'existing' else made}"
    facts = machine.stat(file.path)
    if facts.kind == "block":
        return f"{region} of a {format_bytes(facts.bytes)} device"
    if facts.kind in ENDLESS:
        return f"{region} of a device without a length"
    if facts.kind == "missing":
        return f"{region}, will be created" if file.layout != "existing" else f"{region}, is missing"
    if file.layout.startswith("recreate"):
        return f"{region}, exists and will be recreated"
    longer = file.layout not in ("existing", "create") and file.offset_bytes + file.bytes > facts.bytes
    return f"{region}, exists{', will be extended' if longer else ''}"


def _ending(worker: Worker, each: str) -> str:
    parts = []
    if worker.end.runtime_ns is not None:
        parts.append(f"after {format_duration(worker.end.runtime_ns)}")
    if worker.end.bytes is not None:
        parts.append(f"after {format_bytes(worker.end.bytes)} transferred{each}")
    if worker.end.operations is not None:
        parts.append(f"after {worker.end.operations:,} operations")
    if worker.end.when_full:
        parts.append("when no space is left")
    ending = ", or ".join(parts) or ("when nothing is left to do" if _has_an_end(worker) else "when it is stopped")
    before = []
    if worker.start_delay_ns:
        before.append(f"starts after {format_duration(worker.start_delay_ns)}")
    if worker.ramp_ns:
        before.append(f"ramp of {format_duration(worker.ramp_ns)}, not counted")
    first = ", whichever comes first" if len(parts) > 1 else ""
    cooling = [f"then {format_duration(worker.cooldown_ns)} of load, not counted"] if worker.cooldown_ns else []
    others = f"the other workers of its group{' and of later groups' if worker.ends_run else ''}"
    if worker.ends_exit_group_only:
        others = f"the other workers of group {worker.exit_group}"
    after = {
        "never": [],
        "always": [f"then {others} end too"],
        "on_error": [f"an error ends {others}"],
        "together": [f"{others} end once all workers with this setting have ended"],
    }[worker.ends_others]
    return "; ".join([*before, ending + first, *cooling, *after])


def _has_an_end(worker: Worker) -> bool:
    """True for tasks on a tree that each file or directory has once."""
    return worker.tree is not None and "mix" not in worker.tree.tasks


def _total_time(plan: Plan) -> str:
    """The sum over groups of their longest workers; the speed of the volume is not known."""
    workers = _workers(plan)
    open_bytes = sum(worker.end.bytes or 0 for worker in workers if _longest_ns(worker) is None)
    known = sum(max(_longest_ns(worker) or 0 for worker in group.workers) for group in plan.groups)
    is_limit = any(_may_end_early(worker) for worker in workers if worker.end.runtime_ns is not None)
    duration = f"{'at most ' if is_limit else ''}{format_duration(known)}" if known else ""
    until = f"until {format_bytes(open_bytes)} is transferred" if open_bytes else ""
    if not until and any(worker.end.when_full for worker in workers if _longest_ns(worker) is None):
        until = "until no space is left"
    endless = [worker for worker in workers if _longest_ns(worker) is None]
    if not until and endless and all(_has_an_end(worker) for worker in endless):
        until = "until nothing is left to do"
    return ", and ".join(part for part in (duration, until) if part) or "until it is stopped"


def _longest_ns(worker: Worker) -> int | None:
    """The longest time a worker can take; None if it depends on the volume."""
    runtime_ns = worker.end.runtime_ns
    ends = [
        end
        for end in (None if runtime_ns is None else runtime_ns + worker.cooldown_ns, _paced_ns(worker))
        if end is not None
    ]
    return worker.start_delay_ns + worker.ramp_ns + min(ends) if ends else None


def _paced_ns(worker: Worker) -> int | None:
    """Duration of the transfer at the worker's rate, if the volume keeps up; None without a rate."""
    if worker.end.bytes is None:
        return None
    if worker.rate:
        per_second = _bytes_per_second(worker.rate, _mean_bytes(worker.operations))
    elif all(operation.rate for operation in worker.operations):
        per_second = sum(_bytes_per_second(each.rate, block_bytes_mean(each.blocks)) for each in worker.operations)
    else:
        return None
    return int(worker.end.bytes / per_second * SECOND_NS)


def _mean_bytes(operations: Sequence[OperationPlan]) -> float:
    shares = sum(operation.share for operation in operations) or 1
    return sum(block_bytes_mean(operation.blocks) * operation.share for operation in operations) / shares


def _bytes_per_second(rate: Rate | None, mean_bytes: float) -> float:
    if rate is None:
        return 0.0
    return rate.count * (mean_bytes if rate.unit == "operations" else 1) * SECOND_NS / rate.per_ns


def _may_end_early(worker: Worker) -> bool:
    end = worker.end
    return end.bytes is not None or end.operations is not None or worker.steady_state is not None


def _layout(workers: Sequence[Worker], machine: Machine) -> str:
    """Bytes to write and to preallocate; for NFS an upper bound, because existing files are not known beforehand."""
    needs: dict[tuple[str, bool], tuple[int, bool]] = {}
    for worker, file in _laid_out(workers):
        is_anew = isinstance(worker.engine, NfsEngine) or file.layout.startswith("recreate")
        key = file.path, is_anew
        end, is_filled = needs.get(key, (0, False))
        needs[key] = max(end, file.offset_bytes + file.bytes), is_filled or file.layout in ("fill", "new", "recreate")
    totals = {True: 0, False: 0}
    for (path, is_anew), (end, is_filled) in needs.items():
        totals[is_filled] += max(0, end - (0 if is_anew else machine.stat(path).bytes))
    parts = [f"{format_bytes(totals[True])} to write"] if totals[True] else []
    parts += [f"{format_bytes(totals[False])} to preallocate"] if totals[False] else []
    is_remote = any(isinstance(worker.engine, NfsEngine) for worker, _ in _laid_out(workers))
    most = "at most " if is_remote else ""
    return most + " and ".join(parts) if parts else "nothing to do"


def _laid_out(workers: Iterable[Worker]) -> Iterator[tuple[Worker, FilePlan]]:
    for worker in workers:
        if not isinstance(worker.engine, NullEngine) and not worker.tree:
            yield from ((worker, file) for file in worker.files if file.layout not in ("existing", "create"))


def _distinct(workers: Iterable[Worker]) -> list[FilePlan]:
    """Files without duplicates; workers may share files."""
    found = {(file.path, file.offset_bytes): file for worker in workers for file in worker.files}
    return list(found.values())


def _section(title: str, items: Iterable[str]) -> list[str]:
    lines = [f"  - {item}" for item in items]
    return ["", f"{title}:", *lines] if lines else []


def _workers(plan: Plan) -> list[Worker]:
    return [worker for group in plan.groups for worker in group.workers]
