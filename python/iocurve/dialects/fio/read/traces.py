"""A section that replays a trace (read_iolog): the trace overrides the section's own load options."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

from iocurve.dialects.fio.read import iolog
from iocurve.dialects.fio.read.draft import Draft
from iocurve.engine.plan import BlockRange, Blocks, BlockShare, BlockSplit, FixedBlocks, OperationKind, Replay, SyncKind
from iocurve.job.model import Ending, Files, Load, PerKind

_SIZES_MAX = 64
"""A trace with more block sizes than this is described by a range of sizes."""
_OPTIONS = ("replay_no_stall", "replay_redirect", "replay_align", "replay_scale", "replay_time_scale", "replay_skip")
_EXCLUDED = ("verify", "rate", "rate_iops", "file_append", "fill_device", "zonemode", "offset", "offset_increment")
_UNUSED = (
    "filename",
    "size",
    "io_size",
    "filesize",
    "nrfiles",
    "number_ios",
    "loops",
    "time_based",
    "fsync",
    "fdatasync",
)

_REPLACED = (
    "fsync_every",
    "fdatasync_every",
    "sync_file_range_every",
    "operations",
    "transfer",
    "size",
    "offset",
)
"""Fields that a trace replaces."""
_FLUSHES: tuple[SyncKind, ...] = ("fsync", "fdatasync")


def replay(draft: Draft) -> None:
    """Applies read_iolog and the replay_… options."""
    path, align = draft.deferred.read_iolog, draft.deferred.replay_align
    if path is None:
        draft.note_unused(_OPTIONS, "without read_iolog")
        return
    for name in _EXCLUDED:
        is_off = name == "zonemode" and draft.deferred.zonemode == "none"
        if name in draft.option_positions and not is_off:
            draft.error(name, f"{name} is not supported yet with read_iolog")
    draft.note_unused(_UNUSED, "with read_iolog, as in fio")
    if draft.target.engine in ("mmap", "nfs"):
        draft.error("read_iolog", "read_iolog is not supported yet with ioengine=mmap and nfs")
    if align & (align - 1):
        draft.error("replay_align", f"replay_align={align} is not a power of two")
    elif not draft.errors:
        _read(draft, path)


def _read(draft: Draft, path: Path) -> None:
    asked = draft.deferred
    options = iolog.ReplayOptions(
        stalls=not asked.replay_no_stall,
        redirect=asked.replay_redirect,
        align_bytes=asked.replay_align,
        scale=asked.replay_scale,
        time_percent=asked.replay_time_scale,
        skipped_actions=asked.replay_skip,
    )
    try:
        trace = iolog.read(path, options)
    except ValueError as error:
        draft.error("read_iolog", str(error))
        return
    if trace.skipped_lines:
        count = f"{trace.skipped_lines}, the first is line {trace.first_skipped_line}"
        text = f"invalid lines of {path} are skipped, as in fio: {count}"
        draft.note("read_iolog", "trace_lines", text, "warning")
    found = PerKind[OperationKind](read="read", write="write", trim="trim").map(trace.blocks.get)
    any_sizes = found.read or found.write or found.trim
    if any_sizes is None:
        draft.error("read_iolog", f"'{path}' has no reads, writes or trims")
        return
    draft.reset(*_REPLACED)
    draft.put(
        Load,
        replay=Replay(path=trace.path, records=trace.records, paced=options.stalls),
        replay_flushes=tuple(kind for kind in _FLUSHES if kind in trace.blocks),
        reads=bool(found.read),
        writes=bool(found.write),
        trims=bool(found.trim),
        blocks=found.map(lambda sizes: _blocks(sizes or any_sizes)),
        random=False,
        read_percent=50.0,
    )
    end = trace.end_bytes
    draft.put(Files, paths=tuple(trace.files), file_bytes=(end, end), create_on_open=True)
    draft.put(Ending, loops=1)


def _blocks(sizes: Counter[int]) -> Blocks:
    if len(sizes) == 1:
        return FixedBlocks(bytes=next(iter(sizes)))
    if len(sizes) > _SIZES_MAX:
        return BlockRange(low=min(sizes), high=max(sizes), step=math.gcd(*sizes))
    return BlockSplit(parts=tuple(BlockShare(bytes=size, weight=min(sizes[size], 2**32 - 1)) for size in sorted(sizes)))
