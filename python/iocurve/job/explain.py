"""Explains a plan in words: load, files, bytes, end conditions, duration and warnings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from iocurve.engine import plan as planned
from iocurve.engine.derived import block_bytes_mean, block_text, order_text, pattern_text, payload_text
from iocurve.foundation.errors import Diagnostic
from iocurve.foundation.units import SECOND_NS, counted, format_bytes, format_count, format_duration, format_latency
from iocurve.job.model import PlanNote
from iocurve.job.resolve import Machine
from iocurve.job.resolve.machine import ENDLESS

FILES_SHOWN = 6
"""Files of each job that are listed; the rest is counted."""


def explain(
    plan: planned.Plan,
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
    lines += _connections(plan)
    lines += section_lines("Warnings", (str(note) for note in notes if note.level == "warning"))
    lines += section_lines("Notes", (str(note) for note in notes if note.level == "info"))
    lines += section_lines("Cannot run on this machine", map(str, obstacles))
    return "\n".join(lines) + "\n"


def _headline(plan: planned.Plan, parts: str | None) -> str:
    in_flight = max(sum(worker.depth for worker in group.workers) for group in plan.groups)
    jobs = sum(len(_jobs(group.workers)) for group in plan.groups)
    parts = parts or f"{counted(jobs, 'job')}, {counted(len(_workers(plan)), 'worker')}"
    return f"{plan.name}: {parts}, at most {in_flight} in flight"


def _jobs(workers: Iterable[planned.Worker]) -> list[list[planned.Worker]]:
    """Workers grouped by job; two jobs may have the same name."""
    jobs: list[list[planned.Worker]] = []
    for worker in workers:
        if worker.jobnum == 0 or not jobs:
            jobs.append([])
        jobs[-1].append(worker)
    return jobs


def explain_job(workers: Sequence[planned.Worker], machine: Machine, called: str) -> list[str]:
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


def _details(workers: Sequence[planned.Worker]) -> list[str]:
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


def _engine(worker: planned.Worker) -> str:
    if isinstance(worker.engine, planned.NullEngine):
        return "null: no I/O"
    if isinstance(worker.engine, planned.NfsMetadataEngine):
        mount = worker.engine.mount
        version = "NFSv4.1" if mount.version == 4 else "NFSv3"
        return (
            f"metadata operations over {version}, {_at_once(worker.depth, 'call')}, on nfs://{mount.host}{mount.export}"
        )
    if isinstance(worker.engine, planned.MetadataEngine):
        # Threads are for trees alone.
        at_once = worker.depth if worker.tree else 1
        return f"metadata operations on local files, {_at_once(at_once, 'operation')}"
    if isinstance(worker.engine, planned.NfsEngine):
        mount = worker.engine.mount
        port = f":{mount.port}" if mount.port else ""
        source = f" from {mount.source}" if mount.source else ""
        connections = f"{counted(mount.nconnect, 'connection')} per worker{source}"
        version = "4.1" if mount.version == 4 else "3"
        slots = f", {counted(mount.session_slots, 'slot')}" if mount.version == 4 else ""
        sizes = "".join(f", {name} {size}" for name, size in (("rsize", mount.rsize), ("wsize", mount.wsize)) if size)
        return f"NFSv{version} client, {connections}{slots}{sizes} to nfs://{mount.host}{port}{mount.export}"
    if isinstance(worker.engine, planned.SpaceEngine):
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


def _rates(workers: Sequence[planned.Worker], called: str) -> list[str]:
    first = workers[0]
    rates = [(operation.rate, f"{operation.kind}s") for operation in first.operations]
    texts = [rate_text(rate, what, len(workers), called) for rate, what in [*rates, (first.rate, "operations")] if rate]
    return [f"  rate       {text}" for text in texts]


def _files(workers: Sequence[planned.Worker], machine: Machine) -> list[str]:
    if workers[0].tree:
        return [f"  root       {file.path}" for file in _distinct(workers)[:FILES_SHOWN]]
    by_path: dict[str, list[planned.FilePlan]] = {}
    for file in _distinct(workers):
        by_path.setdefault(file.path, []).append(file)
    total = sum(map(_bytes_used, by_path.values()))
    up_to = "up to " if workers[0].end.when_full else ""
    lines = [f"  files      {counted(len(by_path), 'file')}, {up_to}{format_bytes(total)} used"]
    for path, parts in [*by_path.items()][:FILES_SHOWN]:
        last = max(parts, key=lambda part: part.offset_bytes + part.bytes)
        start = min(part.offset_bytes for part in parts)
        whole = last.replace(offset_bytes=start, bytes=last.offset_bytes + last.bytes - start)
        several = f", in {len(parts)} parts of {format_bytes(parts[0].bytes)}" if len(parts) > 1 else ""
        lines.append(f"             {path}: {_file(whole, workers[0], machine)}{several}")
    if len(by_path) > FILES_SHOWN:
        lines.append(f"             … and {format_count(len(by_path) - FILES_SHOWN)} more")
    return lines


def _bytes_used(parts: Sequence[planned.FilePlan]) -> int:
    """Bytes of a file that its parts cover; parts may overlap."""
    total = end = 0
    for part in sorted(parts, key=lambda one: one.offset_bytes):
        last = part.offset_bytes + part.bytes
        total += max(0, last - max(part.offset_bytes, end))
        end = max(end, last)
    return total


def _connections(plan: planned.Plan) -> list[str]:
    """The TCP connections of all workers that run at once, where several have some."""
    mounts: dict[str, tuple[int, int]] = {}
    for group in plan.groups:
        found: dict[str, list[int]] = {}
        for worker in group.workers:
            if isinstance(worker.engine, planned.NfsEngine):
                mount = worker.engine.mount
                found.setdefault(f"nfs://{mount.host}{mount.export}", []).append(mount.nconnect)
        for address, each in found.items():
            mounts[address] = max(mounts.get(address, (0, 0)), (sum(each), len(each)))
    return [f"Connections: {total} to {address} in all" for address, (total, count) in mounts.items() if count > 1]


def _file(file: planned.FilePlan, worker: planned.Worker, machine: Machine) -> str:
    region = format_bytes(file.bytes) + (f" from byte {file.offset_bytes}" if file.offset_bytes else "")
    if isinstance(worker.engine, planned.NullEngine):
        return f"{region}, not accessed"
    if isinstance(worker.engine, planned.NfsEngine):
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


def _ending(worker: planned.Worker, each: str) -> str:
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


def _has_an_end(worker: planned.Worker) -> bool:
    """True for tasks on a tree that each file or directory has once."""
    return worker.tree is not None and "mix" not in worker.tree.tasks


def _total_time(plan: planned.Plan) -> str:
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


def _longest_ns(worker: planned.Worker) -> int | None:
    """The longest time a worker can take; None if it depends on the volume."""
    runtime_ns = worker.end.runtime_ns
    ends = [
        end
        for end in (None if runtime_ns is None else runtime_ns + worker.cooldown_ns, _paced_ns(worker))
        if end is not None
    ]
    return worker.start_delay_ns + worker.ramp_ns + min(ends) if ends else None


def _paced_ns(worker: planned.Worker) -> int | None:
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


def _mean_bytes(operations: Sequence[planned.OperationPlan]) -> float:
    shares = sum(operation.share for operation in operations) or 1
    return sum(block_bytes_mean(operation.blocks) * operation.share for operation in operations) / shares


def _bytes_per_second(rate: planned.Rate | None, mean_bytes: float) -> float:
    if rate is None:
        return 0.0
    return rate.count * (mean_bytes if rate.unit == "operations" else 1) * SECOND_NS / rate.per_ns


def _may_end_early(worker: planned.Worker) -> bool:
    end = worker.end
    return end.bytes is not None or end.operations is not None or worker.steady_state is not None


def layout_bytes(workers: Iterable[planned.Worker], length_of: Callable[[str], int]) -> tuple[int, int]:
    """Bytes to write and to preallocate before a run; ``length_of`` gives the length of a file that may be there."""
    needs: dict[tuple[str, bool], tuple[int, bool]] = {}
    for worker, file in _laid_out(workers):
        is_anew = isinstance(worker.engine, planned.NfsEngine) or file.layout.startswith("recreate")
        key = file.path, is_anew
        end, is_filled = needs.get(key, (0, False))
        needs[key] = max(end, file.offset_bytes + file.bytes), is_filled or file.layout in ("fill", "new", "recreate")
    totals = {True: 0, False: 0}
    for (path, is_anew), (end, is_filled) in needs.items():
        totals[is_filled] += max(0, end - (0 if is_anew else length_of(path)))
    return totals[True], totals[False]


def _layout(workers: Sequence[planned.Worker], machine: Machine) -> str:
    """Bytes to write and to preallocate; for NFS an upper bound, because existing files are not known beforehand."""
    written, reserved = layout_bytes(workers, lambda path: machine.stat(path).bytes)
    parts = [f"{format_bytes(written)} to write"] if written else []
    parts += [f"{format_bytes(reserved)} to preallocate"] if reserved else []
    is_remote = any(isinstance(worker.engine, planned.NfsEngine) for worker, _ in _laid_out(workers))
    most = "at most " if is_remote else ""
    return most + " and ".join(parts) if parts else "nothing to do"


def _laid_out(workers: Iterable[planned.Worker]) -> Iterator[tuple[planned.Worker, planned.FilePlan]]:
    for worker in workers:
        if not isinstance(worker.engine, planned.NullEngine) and not worker.tree:
            yield from ((worker, file) for file in worker.files if file.layout not in ("existing", "create"))


def _distinct(workers: Iterable[planned.Worker]) -> list[planned.FilePlan]:
    """Files without duplicates; workers may share files."""
    found = {(file.path, file.offset_bytes): file for worker in workers for file in worker.files}
    return list(found.values())


def unpredictable(worker: planned.Worker) -> Iterator[tuple[str, str]]:
    """Parts of a load that no limit of a target counts: the field of the job, and the reason."""
    other = [one.kind for one in worker.operations if one.kind not in ("read", "write")]
    paced = sum(one.rate is not None for one in worker.operations)
    if isinstance(worker.engine, planned.MetadataEngine | planned.NfsMetadataEngine) or worker.tree:
        yield "metadata", "no published limit counts operations on names and attributes"
    elif isinstance(worker.engine, planned.NullEngine):
        yield "engine", "no I/O reaches the target"
    elif isinstance(worker.engine, planned.SpaceEngine) or other:
        yield "trims", f"no published limit counts {', '.join(other) or 'allocated space'}"
    fields = {
        "rate_operations": (0 < paced < len(worker.operations), "only one of the kinds has a rate"),
        "replay": (worker.replay, "the recording decides"),
        "think_ns": (worker.think, "pauses depend on when operations complete"),
        "latency_target_ns": (worker.latency_target, "the search of a depth decides"),
        "flow": (worker.flow, "workers wait for each other"),
        "wait_for": (worker.wait_for, "its start depends on when other jobs end"),
        "syncs": (worker.syncs, "no published limit counts flushes"),
        "verify": (worker.verify and worker.verify.read_back, "data are read back between the writes"),
    }
    yield from ((field, reason) for field, (value, reason) in fields.items() if value)


def section_lines(title: str, items: Iterable[str]) -> list[str]:
    """A list with a title, each item once; nothing without items."""
    lines = [f"  - {item}" for item in dict.fromkeys(items)]
    return ["", f"{title}:", *lines] if lines else []


def _workers(plan: planned.Plan) -> list[planned.Worker]:
    return [worker for group in plan.groups for worker in group.workers]


ZONES_SHOWN = 12


def load_text(worker: planned.Worker) -> str:
    """``70 % 4 KiB random reads and 30 % 8 KiB random writes``."""
    first, *others = worker.operations
    if worker.tree:
        return f"{_tree_text(worker.tree.tree)}, {_tasks_text(worker.tree.tasks, worker.operations)}"
    if worker.replay:
        kinds = ", ".join(f"{operation.kind}s" for operation in worker.operations)
        pace = "at the recorded times" if worker.replay.paced else "as fast as possible"
        return f"{worker.replay.records:,} operations of a trace ({kinds}), {pace}"
    if worker.access.position == "identical" and {operation.kind for operation in worker.operations} == {
        "trim",
        "write",
    }:
        return f"{block_text(first.blocks)} {order_text(first)} trims, each followed by a write of the same block"
    shares = sum(operation.share for operation in worker.operations)
    is_mixed = others and not any(operation.rate for operation in worker.operations)
    parts = []
    for operation in worker.operations:
        mix = f"{100 * operation.share / (shares or 1):.3g} % " if is_mixed else ""
        percent = operation.random_percent
        order, part = (f"{order_text(operation)} ", "") if percent in (0, 100) else ("", f" ({percent} % random)")
        parts.append(f"{mix}{block_text(operation.blocks)} {order}{operation.kind}s{part}")
    return " and ".join(parts)


def _tree_text(tree: planned.Tree) -> str:
    of_level = [tree.width**level for level in range(1, tree.depth + 1)]
    files = tree.files * (sum(of_level) if tree.files_on_all_levels else of_level[-1])
    parts = tuple(planned.BlockShare(bytes=size.bytes, weight=size.weight) for size in tree.sizes)
    sizes = block_text(planned.BlockSplit(parts=parts)) if len(parts) > 1 else format_bytes(tree.sizes[0].bytes)
    directories = "1 directory" if sum(of_level) == 1 else f"{sum(of_level):,} directories"
    return f"{directories} and {counted(files, 'file')} of {sizes}"


def _tasks_text(tasks: Sequence[planned.TreeTask], operations: Sequence[planned.OperationPlan]) -> str:
    if "fill" in tasks:
        return "creates and writes what is missing"
    if "mix" not in tasks:
        return ", then ".join(tasks)
    drawn = [operation for operation in operations if operation.share]
    total = sum(operation.share for operation in drawn)
    return ", ".join(f"{100 * operation.share / total:.3g} % {operation.kind}" for operation in drawn)


def rate_text(rate: planned.Rate, what: str, numjobs: int, called: str) -> str:
    """``100 reads/s per job, 400/s in all``; ``called`` is the dialect's name for a worker."""
    seconds = rate.per_ns / 1e9
    each, total = rate.count / seconds, numjobs * rate.count / seconds
    arrivals = ", Poisson arrivals" if rate.arrivals == "poisson" else ""
    if rate.unit == "operations":
        return f"{each:,.12g} {what}/s per {called}, {total:,.12g}/s in all{arrivals}"
    return f"{what} {format_bytes(int(each))}/s per {called}, {format_bytes(int(total))}/s in all{arrivals}"


def offsets_text(worker: planned.Worker) -> str:
    """The order of offsets beyond "random" and "sequential"; empty if there is nothing to add."""
    access = worker.access
    random = [operation for operation in worker.operations if operation.random_percent]
    parts = list(dict.fromkeys(_distribution_text(operation.distribution) for operation in random))
    aligned = {operation.align_bytes for operation in random if operation.align_bytes}
    parts += [f"at multiples of {format_bytes(size)}" for size in sorted(aligned)]
    if access.run_length > 1:
        where = "the same offset" if access.position == "repeated" else "consecutive offsets"
        parts.append(f"runs of {access.run_length} operations at {where}")
    parts += _steps(access)
    parts += {
        "kind": [],
        "worker": ["all kinds share one position"] if len(worker.operations) > 1 else [],
        "job": ["all workers of the job share one position"],
        "identical": [],
        "repeated": [],
    }[access.position]
    if access.strided:
        zone = access.strided
        parts.append(
            f"zones of {format_bytes(zone.range_bytes)}: {format_bytes(zone.zone_bytes)} in each, then "
            f"{format_bytes(zone.skip_bytes)} skipped"
        )
    if access.at_end == "stop":
        parts.append("stops at the end of the region")
    if worker.file_run > 1:
        parts.append(f"{worker.file_run} operations per file before the next")
    return "; ".join(part for part in parts if part)


def _steps(access: planned.Access) -> list[str]:
    if access.gap_bytes < 0:
        return [f"steps {format_bytes(-access.gap_bytes)} back after each operation"]
    spread = f" to {format_bytes(access.gap_bytes + access.gap_spread_bytes)}" if access.gap_spread_bytes else ""
    if access.gap_bytes or spread:
        return [f"skips {format_bytes(access.gap_bytes)}{spread} after each operation"]
    return []


def _distribution_text(distribution: planned.Distribution) -> str:
    if isinstance(distribution, planned.Uniform):
        return ""
    if isinstance(distribution, planned.Zipf):
        text, center = f"zipf with theta {distribution.theta:g}", distribution.center
    elif isinstance(distribution, planned.Pareto):
        text, center = f"pareto with h {distribution.h:g}", distribution.center
    elif isinstance(distribution, planned.Normal):
        text = f"normal with a standard deviation of {distribution.deviation_percent:.3g} %"
        center = distribution.center
    else:
        zones = [f"{zone.access_percent:g} % in {format_bytes(zone.bytes)}" for zone in distribution.zones]
        more = [f"and {len(zones) - ZONES_SHOWN} more"] if len(zones) > ZONES_SHOWN else []
        return f"zones: {', '.join([*zones[:ZONES_SHOWN], *more])}"
    return text if center is None else f"{text}, centered at {100 * center:.3g} % of the region"


def batch_text(batch: planned.Batch) -> str:
    """Batch sizes; empty if operations are submitted and reaped as soon as possible."""
    parts = [f"submits at most {batch.submit} at once"] if batch.submit else []
    if batch.complete_min == 0:
        parts.append("polls for completions without waiting")
    elif batch.complete_min != 1 or batch.complete_max:
        most = f" to {batch.complete_max}" if batch.complete_max else " or more"
        same = batch.complete_min == batch.complete_max
        parts.append(f"reaps {batch.complete_min}{'' if same else most} completions at once")
    if batch.low:
        parts.append(f"submits again when {batch.low} are in flight")
    return "; ".join(parts)


def think_text(think: planned.Think) -> str:
    """``50 µs after every 4 completed operations``."""
    after = [f"{format_duration(think.every_ns)} of load"] if think.every_ns else []
    if think.every:
        after.append(f"{'operation' if think.every == 1 else f'{think.every} operations'} {think.counts}")
    when = f"after every {' or '.join(after)}"
    spin = f", {format_latency(think.spin_ns)} of it spinning" if think.spin_ns else ""
    drains = "" if think.drains else ", with operations still in flight"
    schedule = "; pauses move due times" if think.moves_schedule else ""
    return f"{format_latency(think.pause_ns)} {when}{spin}{drains}{schedule}"


def flush_text(worker: planned.Worker) -> str:
    """``fsync after every 16 writes; all files after the last operation``."""
    parts = []
    for sync in worker.syncs:
        every = "write" if sync.every == 1 else f"{sync.every} writes"
        parts.append(f"{sync.kind} after every {every}")
    if worker.sync_at_end:
        parts.append("all files after the last operation")
    return "; ".join(parts)


def verify_text(verify: planned.Verify, writes: bool) -> str:
    """Method and time of verification."""
    pattern = f" {pattern_text(verify.pattern)}" if verify.pattern else ""
    every = f" every {format_bytes(verify.interval_bytes)}" if verify.interval_bytes else ""
    at = f" at byte {verify.header_offset}" if verify.header_offset else ""
    parts = [f"{verify.method}{pattern}{every}{at}"]
    if verify.map:
        parts.append("every read is compared with what this run or an earlier one wrote")
        around = [
            name for name, is_so in (("before", verify.map.before_write), ("after", verify.map.after_write)) if is_so
        ]
        parts += [f"blocks are read {' and '.join(around)} they are written"] if around and writes else []
    elif verify.only:
        parts.append("writes nothing: compares what an earlier run wrote")
    elif writes and verify.backlog:
        batch = f" {verify.backlog_batch} at a time" if verify.backlog_batch else ""
        parts.append(f"read back{batch} after every {verify.backlog} writes")
    elif writes:
        parts.append("read back at the end" if verify.read_back else "not read back")
    parts += ["the first difference ends the worker"] if verify.fatal else []
    parts += ["blocks that differ are dumped into the current directory"] if verify.dump else []
    return "; ".join(parts)


def latency_target_text(target: planned.LatencyTarget) -> str:
    """The search for the depth that a latency allows."""
    then = ", then goes on at that depth" if target.run_on else ""
    return (
        f"for the largest depth at which {target.percentile:g} % of operations take at most "
        f"{format_latency(target.target_ns)}, {format_duration(target.window_ns)} per depth{then}"
    )


def steady_state_text(steady: planned.SteadyState) -> str:
    """The criterion for a steady state."""
    figure = {"iops": "IOPS", "bandwidth": "bandwidth", "latency": "latency"}[steady.figure]
    what = f"the slope of {figure}" if steady.criterion == "slope" else f"no sample of {figure}"
    limit = f"{steady.limit:g}{' %' if steady.limit_is_percent else ''}"
    verb = "stays within" if steady.criterion == "slope" else "is farther from the mean than"
    ramp = f", after {format_duration(steady.ramp_ns)}" if steady.ramp_ns else ""
    return (
        f"ends when {what} {verb} {limit} over {format_duration(steady.duration_ns)} "
        f"(a sample every {format_duration(steady.check_ns)}){ramp}"
    )


def log_text(log: planned.LogPlan) -> str:
    """The log of operations."""
    what = f"windows of {format_duration(log.window_ns)}" if log.window_ns else "each operation"
    histograms = ", with histograms" if log.histograms else ""
    return f"{what}{histograms}, at most {log.records:,} records per worker"
