"""Describes the parts of a plan in words, for ``--explain`` and reports."""

from __future__ import annotations

from collections.abc import Sequence

from iocurve.engine.plan import (
    Access,
    Batch,
    BlockRange,
    Blocks,
    BlockShare,
    BlockSplit,
    Distribution,
    FixedBlocks,
    LatencyTarget,
    LogPlan,
    Normal,
    OperationPlan,
    Pareto,
    PatternContent,
    Payload,
    PoolContent,
    Rate,
    SteadyState,
    Think,
    Tree,
    TreeTask,
    Uniform,
    Verify,
    Worker,
    ZeroContent,
    Zipf,
)
from iocurve.foundation.units import counted, format_bytes, format_duration, format_latency

ZONES_SHOWN = 12
PATTERN_SHOWN = 16
"""Digits of a pattern that are shown."""


def block_text(blocks: Blocks) -> str:
    """``4 KiB``, ``4 KiB to 64 KiB``, ``4 KiB (50 %) or 64 KiB (50 %)``."""
    if isinstance(blocks, FixedBlocks):
        return format_bytes(blocks.bytes)
    if isinstance(blocks, BlockRange):
        return f"{format_bytes(blocks.low)} to {format_bytes(blocks.high)}"
    total = sum(part.weight for part in blocks.parts) or 1
    return " or ".join(f"{format_bytes(part.bytes)} ({100 * part.weight / total:.3g} %)" for part in blocks.parts)


def order_text(operation: OperationPlan) -> str:
    """``random``, ``sequential``, ``30 % random``."""
    if operation.random_percent in (0, 100):
        return "random" if operation.random_percent else "sequential"
    return f"{operation.random_percent} % random"


def load_text(worker: Worker) -> str:
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


def _tree_text(tree: Tree) -> str:
    of_level = [tree.width**level for level in range(1, tree.depth + 1)]
    files = tree.files * (sum(of_level) if tree.files_on_all_levels else of_level[-1])
    blocks = BlockSplit(parts=tuple(BlockShare(bytes=size.bytes, weight=size.weight) for size in tree.sizes))
    sizes = block_text(blocks) if len(tree.sizes) > 1 else format_bytes(tree.sizes[0].bytes)
    directories = "1 directory" if sum(of_level) == 1 else f"{sum(of_level):,} directories"
    return f"{directories} and {counted(files, 'file')} of {sizes}"


def _tasks_text(tasks: Sequence[TreeTask], operations: Sequence[OperationPlan]) -> str:
    if "fill" in tasks:
        return "creates and writes what is missing"
    if "mix" not in tasks:
        return ", then ".join(tasks)
    drawn = [operation for operation in operations if operation.share]
    total = sum(operation.share for operation in drawn)
    return ", ".join(f"{100 * operation.share / total:.3g} % {operation.kind}" for operation in drawn)


def rate_text(rate: Rate, what: str, numjobs: int, called: str) -> str:
    """``100 reads/s per job, 400/s in all``; ``called`` is the dialect's name for a worker."""
    seconds = rate.per_ns / 1e9
    each, total = rate.count / seconds, numjobs * rate.count / seconds
    arrivals = ", Poisson arrivals" if rate.arrivals == "poisson" else ""
    if rate.unit == "operations":
        return f"{each:,.12g} {what}/s per {called}, {total:,.12g}/s in all{arrivals}"
    return f"{what} {format_bytes(int(each))}/s per {called}, {format_bytes(int(total))}/s in all{arrivals}"


def offsets_text(worker: Worker) -> str:
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


def _steps(access: Access) -> list[str]:
    if access.gap_bytes < 0:
        return [f"steps {format_bytes(-access.gap_bytes)} back after each operation"]
    spread = f" to {format_bytes(access.gap_bytes + access.gap_spread_bytes)}" if access.gap_spread_bytes else ""
    if access.gap_bytes or spread:
        return [f"skips {format_bytes(access.gap_bytes)}{spread} after each operation"]
    return []


def _distribution_text(distribution: Distribution) -> str:
    if isinstance(distribution, Uniform):
        return ""
    if isinstance(distribution, Zipf):
        text, center = f"zipf with theta {distribution.theta:g}", distribution.center
    elif isinstance(distribution, Pareto):
        text, center = f"pareto with h {distribution.h:g}", distribution.center
    elif isinstance(distribution, Normal):
        text = f"normal with a standard deviation of {distribution.deviation_percent:.3g} %"
        center = distribution.center
    else:
        zones = [f"{zone.access_percent:g} % in {format_bytes(zone.bytes)}" for zone in distribution.zones]
        more = [f"and {len(zones) - ZONES_SHOWN} more"] if len(zones) > ZONES_SHOWN else []
        return f"zones: {', '.join([*zones[:ZONES_SHOWN], *more])}"
    return text if center is None else f"{text}, centered at {100 * center:.3g} % of the region"


def batch_text(batch: Batch) -> str:
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


def think_text(think: Think) -> str:
    """``50 µs after every 4 completed operations``."""
    after = [f"{format_duration(think.every_ns)} of load"] if think.every_ns else []
    if think.every:
        after.append(f"{'operation' if think.every == 1 else f'{think.every} operations'} {think.counts}")
    when = f"after every {' or '.join(after)}"
    spin = f", {format_latency(think.spin_ns)} of it spinning" if think.spin_ns else ""
    drains = "" if think.drains else ", with operations still in flight"
    schedule = "; pauses move due times" if think.moves_schedule else ""
    return f"{format_latency(think.pause_ns)} {when}{spin}{drains}{schedule}"


def flush_text(worker: Worker) -> str:
    """``fsync after every 16 writes; all files after the last operation``."""
    parts = []
    for sync in worker.syncs:
        every = "write" if sync.every == 1 else f"{sync.every} writes"
        parts.append(f"{sync.kind} after every {every}")
    if worker.sync_at_end:
        parts.append("all files after the last operation")
    return "; ".join(parts)


def payload_text(payload: Payload) -> str:
    """Written data; empty if they are just random bytes."""
    content = payload.content
    parts = []
    if isinstance(content, ZeroContent):
        parts.append("zeros")
    elif isinstance(content, PatternContent):
        parts.append(f"the pattern {_short(content.bytes)}")
    elif isinstance(content, PoolContent):
        source = f"from {content.path}" if content.path else "of random bytes"
        parts.append(f"random parts of a pool of {format_bytes(content.bytes)} {source}")
    if payload.compress_percent:
        chunk = f" in every {format_bytes(payload.compress_chunk_bytes)}" if payload.compress_chunk_bytes else ""
        parts.append(f"{payload.compress_percent} % compressible{chunk}")
    if payload.dedupe_percent:
        drawn = f", drawn from {payload.dedupe_set_blocks:,} blocks" if payload.dedupe_set_blocks else ""
        parts.append(f"{payload.dedupe_percent} % of the blocks are duplicates{drawn}")
    return "; ".join(parts)


def _short(pattern: str) -> str:
    text = pattern.replace("o" * 16, "<offset>")
    return text if len(text) <= PATTERN_SHOWN else f"{text[:PATTERN_SHOWN]}…"


def verify_text(verify: Verify, writes: bool) -> str:
    """Method and time of verification."""
    pattern = f" {_short(verify.pattern)}" if verify.pattern else ""
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


def latency_target_text(target: LatencyTarget) -> str:
    """The search for the depth that a latency allows."""
    then = ", then goes on at that depth" if target.run_on else ""
    return (
        f"for the largest depth at which {target.percentile:g} % of operations take at most "
        f"{format_latency(target.target_ns)}, {format_duration(target.window_ns)} per depth{then}"
    )


def steady_state_text(steady: SteadyState) -> str:
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


def log_text(log: LogPlan) -> str:
    """The log of operations."""
    what = f"windows of {format_duration(log.window_ns)}" if log.window_ns else "each operation"
    histograms = ", with histograms" if log.histograms else ""
    return f"{what}{histograms}, at most {log.records:,} records per worker"
