"""Traps: where a load is not what one may think, a note says so.

Each function looks at one section, as it was said and with defaults filled in, and at the workers it became.
"""

from __future__ import annotations

from collections.abc import Sequence

from iocurve import plan as planned
from iocurve.model import Note, Section, named, settled
from iocurve.units import format_bytes


def traps(said: Section, section: Section, workers: Sequence[planned.Worker]) -> list[Note]:
    """Those that apply."""
    notes = (trap(said, section, workers) for trap in _TRAPS)
    return [note for note in notes if note is not None]


def _engine_mapped(said: Section, section: Section, _workers: Sequence[planned.Worker]) -> Note | None:
    runs = {
        "sync": "pread and pwrite, one at a time",
        "aio": "Linux native AIO",
        "uring": "io_uring with registered files and buffers",
        "nfs": "iocurve's own NFSv3 client",
        "null": "no I/O: the cost of the loop itself",
    }
    text = f"ioengine={section.engine_asked} runs as {runs[settled(section.engine)]}"
    return Note("engine", text, said.where("engine"))


def _depth_capped(said: Section, section: Section, _workers: Sequence[planned.Worker]) -> Note | None:
    if section.engine != "sync" or settled(section.depth) == 1:
        return None
    text = f"iodepth={section.depth} has no effect: ioengine={section.engine_asked} does one operation at a time"
    return Note("depth_capped", text, said.where("depth", "engine"), "warning")


def _page_cache(said: Section, section: Section, _workers: Sequence[planned.Worker]) -> Note | None:
    if section.direct or section.engine in ("null", "nfs"):
        return None
    text = "without direct=1 the page cache answers: the figures may be those of memory"
    if section.engine == "aio" and settled(section.depth) > 1:
        text = (
            "libaio without direct=1 blocks on submission: what is in flight stays near 1, and the page cache answers"
        )
    return Note("page_cache", text, said.where("direct", "engine"), "warning")


def _ends_after_size(said: Section, section: Section, _workers: Sequence[planned.Worker]) -> Note | None:
    if section.time_based and not section.runtime_ns:
        text = "time_based without a runtime has no effect: each worker ends when its size is transferred"
        return Note("time_based_without_runtime", text, said.where("time_based"), "warning")
    if section.time_based or not section.runtime_ns:
        return None
    text = "runtime only caps: without time_based a worker ends earlier when its size is transferred"
    return Note("runtime_caps", text, said.where("runtime_ns"), "warning")


def _ramp(said: Section, section: Section, _workers: Sequence[planned.Worker]) -> Note | None:
    if not section.ramp_ns:
        return None
    return Note("ramp_added", "ramp_time comes before the runtime and is not part of it", said.where("ramp_ns"))


def _mix_lost(said: Section, section: Section, workers: Sequence[planned.Worker]) -> Note | None:
    if not (section.reads and section.writes) or not _is_paced(workers):
        return None
    text = f"under a rate each direction is paced by itself: the mix of {section.read_percent:g} % reads is lost"
    where = said.where("read_percent", "rate_operations", "rate_bytes")
    return Note("mix_lost", text, where, "warning")


def _rate_per_clone(said: Section, _section: Section, workers: Sequence[planned.Worker]) -> Note | None:
    if not _is_paced(workers):
        return None
    totals = [_rate_total(operation, len(workers)) for operation in workers[0].operations if operation.rate]
    text = f"a rate holds per direction and per clone: {' and '.join(totals)} in all"
    return Note("rate_per_clone", text, said.where("rate_operations", "rate_bytes"))


def _rate_total(operation: planned.OperationPlan, workers: int) -> str:
    rate = settled(operation.rate)
    total = rate.count * workers
    if rate.unit == "operations":
        return f"{total:,} {operation.kind}s per second"
    return f"{operation.kind}s of {format_bytes(total)} per second"


def _size_per_clone(said: Section, section: Section, workers: Sequence[planned.Worker]) -> Note | None:
    if len(workers) == 1:
        return None
    if section.paths:
        text = f"all {len(workers)} clones share {named(section.paths)}"
        if not section.random and not section.offset_increment:
            text += " and go through it side by side, block for block: most of it may come from a cache"
        return Note("file_shared", text, said.where("paths"), "warning" if not section.random else "info")
    total = sum(file.bytes for worker in workers for file in worker.files)
    text = f"size holds per clone: {len(workers)} clones have files of their own, {format_bytes(total)} in all"
    return Note("size_per_clone", text, said.where("size", "file_bytes", "clones"))


def _connections_per_clone(said: Section, _section: Section, workers: Sequence[planned.Worker]) -> Note | None:
    engine = workers[0].engine
    if not isinstance(engine, planned.NfsEngine) or engine.mount.nconnect == 1 or len(workers) == 1:
        return None
    text = f"nconnect holds per clone: {engine.mount.nconnect * len(workers)} connections in all"
    return Note("connections_per_clone", text, said.where("nconnect", "nfs_url"))


def _repeated_offsets(said: Section, section: Section, _workers: Sequence[planned.Worker]) -> Note | None:
    repeats = section.random and section.reads and section.repeatable and section.seed is None
    if not repeats or section.engine == "null":
        return None
    text = (
        "every run visits the same blocks in the same order (randrepeat=1): a second run may be answered by caches; "
        "randrepeat=0 excludes that"
    )
    return Note("offsets_repeat", text, said.where("repeatable", "random"), "warning")


def _independent_draws(said: Section, section: Section, _workers: Sequence[planned.Worker]) -> Note | None:
    if not section.random:
        return None
    if section.cover == "independent":
        text = "norandommap: offsets are drawn independently, so some blocks come twice and some never"
        return Note("offsets_independent", text, said.where("cover"))
    return Note("offsets_once", "each block is visited once per pass, in random order", said.where("random"))


def _payload_repeats(said: Section, section: Section, _workers: Sequence[planned.Worker]) -> Note | None:
    if not section.writes or section.payload_refill or section.engine == "null":
        return None
    if section.payload_zero:
        text = "zeros are written: volumes that compress or skip zeros will look fast"
        return Note("payload_zero", text, said.where("payload_zero"), "warning")
    text = "written data repeat between operations (refill_buffers=0): volumes that deduplicate may look fast"
    return Note("payload_repeats", text, said.where("payload_refill", "writes"))


def _cpus_not_bound(said: Section, section: Section, _workers: Sequence[planned.Worker]) -> Note | None:
    if len(section.cpus or ()) < 2 or section.cpus_split:
        return None
    text = "cpus_allowed with several processors leaves the choice to the scheduler; cpus_allowed_policy=split binds"
    return Note("cpus_not_bound", text, said.where("cpus"), "warning")


def _block_misfit(said: Section, _section: Section, workers: Sequence[planned.Worker]) -> Note | None:
    blocks = [operation.blocks.smallest for operation in workers[0].operations]
    left = [file.bytes % block for worker in workers for file in worker.files for block in blocks]
    if not any(left):
        return None
    text = f"the last {format_bytes(max(left))} of a file stay unused: its size is not a multiple of the block size"
    return Note("block_misfit", text, said.where("size", "file_bytes", "blocks"))


_TRAPS = (
    _engine_mapped,
    _depth_capped,
    _page_cache,
    _ends_after_size,
    _ramp,
    _mix_lost,
    _rate_per_clone,
    _size_per_clone,
    _connections_per_clone,
    _independent_draws,
    _repeated_offsets,
    _payload_repeats,
    _cpus_not_bound,
    _block_misfit,
)


def _is_paced(workers: Sequence[planned.Worker]) -> bool:
    return any(operation.rate for operation in workers[0].operations)
