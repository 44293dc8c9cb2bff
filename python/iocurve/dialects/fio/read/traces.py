"""A section that replays a trace (read_iolog): the trace overrides the section's own load options."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

from iocurve.dialects.fio.read import iolog
from iocurve.dialects.fio.read.draft import Draft
from iocurve.engine.plan import BlockRange, Blocks, BlockShare, BlockSplit, FixedBlocks, Replay
from iocurve.job.model import PerKind

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


def replay(draft: Draft) -> None:
    """Applies read_iolog and the replay_… options."""
    path = draft.deferred.get("read_iolog")
    if path is None:
        for name in (name for name in _OPTIONS if name in draft.option_positions):
            draft.note(name, "no_effect", f"{name} has no effect without read_iolog")
        return
    for name in _EXCLUDED:
        if name in draft.option_positions and draft.deferred.get(name) != "none":
            draft.error(name, f"{name} is not supported yet with read_iolog")
    for name in (name for name in _UNUSED if name in draft.option_positions):
        draft.note(name, "no_effect", f"{name} has no effect with read_iolog, as in fio")
    if draft.value("engine") in ("mmap", "nfs"):
        draft.error("read_iolog", "read_iolog is not supported yet with ioengine=mmap and nfs")
    align = draft.deferred.get("replay_align", 0)
    if align & (align - 1):
        draft.error("replay_align", f"replay_align={align} is not a power of two")
    elif not draft.errors:
        _read(draft, path, align)


def _read(draft: Draft, path: Path, align: int) -> None:
    options = iolog.ReplayOptions(
        stalls=not draft.deferred.get("replay_no_stall"),
        redirect=draft.deferred.get("replay_redirect"),
        align_bytes=align,
        scale=draft.deferred.get("replay_scale", 0) or 1,
        time_percent=draft.deferred.get("replay_time_scale", 0) or 100,
        skipped_actions=draft.deferred.get("replay_skip", frozenset()),
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
    kinds = [kind for kind in ("read", "write", "trim") if kind in trace.blocks]
    if not kinds:
        draft.error("read_iolog", f"'{path}' has no reads, writes or trims")
        return
    sizes = {kind: _blocks(trace.blocks[kind]) for kind in kinds}
    any_size = next(iter(sizes.values()))
    for field in (
        "fsync_every",
        "fdatasync_every",
        "sync_file_range_every",
        "operations",
        "transfer",
        "size",
        "offset",
    ):
        draft.fields.pop(field, None)
    draft.fields |= {
        "replay": Replay(path=trace.path, records=trace.records, paced=options.stalls),
        "replay_flushes": tuple(kind for kind in ("fsync", "fdatasync") if kind in trace.blocks),
        "paths": tuple(trace.files),
        "file_bytes": (trace.end_bytes, trace.end_bytes),
        "create_on_open": True,
        "blocks": PerKind(**{kind: sizes.get(kind, any_size) for kind in ("read", "write", "trim")}),
        "random": False,
        "loops": 1,
        "read_percent": 50.0,
        **{f"{kind}s": kind in kinds for kind in ("read", "write", "trim")},
    }


def _blocks(sizes: Counter[int]) -> Blocks:
    if len(sizes) == 1:
        return FixedBlocks(bytes=next(iter(sizes)))
    if len(sizes) > _SIZES_MAX:
        return BlockRange(low=min(sizes), high=max(sizes), step=math.gcd(*sizes))
    return BlockSplit(parts=tuple(BlockShare(bytes=size, weight=min(sizes[size], 2**32 - 1)) for size in sorted(sizes)))
