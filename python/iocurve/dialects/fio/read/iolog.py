"""Reads fio's traces (read_iolog), versions 2 and 3, into records that the engine streams.

In a section that replays a trace, the trace overrides the section's own load options.
"""

from __future__ import annotations

import atexit
import math
import os
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, get_args

import msgspec

from iocurve.dialects.fio.read.draft import Deferred, Draft
from iocurve.engine.plan import BlockRange, Blocks, BlockShare, BlockSplit, FixedBlocks, OperationKind, Replay, SyncKind
from iocurve.job.model import Ending, Files, Load, PerKind

_VERSIONS = {b"fio version 2 iolog": 2, b"fio version 3 iolog": 3}
_KINDS: dict[str, OperationKind] = {
    "read": "read",
    "write": "write",
    "trim": "trim",
    "sync": "fsync",
    "datasync": "fdatasync",
}
_NUMBERS = {kind: number for number, kind in enumerate(get_args(OperationKind))}
_RECORD = struct.Struct("<QQIIIxxxx")
_DUE_LIMIT_NS = 2**63
_LINE_BYTES = 4096
"""A longer line is read as several lines, as in fio."""


def read(path: Path, options: Deferred) -> Trace:
    """Reads a trace line by line, by the replay_… options. Raises ``ValueError`` if the file is not a trace."""
    try:
        with path.open("rb") as lines:
            version = _VERSIONS.get(lines.readline(_LINE_BYTES).strip())
            if version is None:
                raise ValueError(f"'{path}' is not an iolog of fio version 2 or 3; other formats are not supported yet")
            trace = Trace(version, options)
            trace.read(lines)
            return trace
    except OSError as error:
        raise ValueError(f"'{path}' cannot be read: {error.strerror}") from error


class Trace(msgspec.Struct):
    """A trace, read line by line."""

    version: int
    options: Deferred
    path: str = ""
    """Temporary file with the records."""
    records: int = 0
    blocks: dict[OperationKind, Counter[int]] = msgspec.field(default_factory=dict)
    """Number of operations of each size, by kind."""
    files: dict[str, int] = msgspec.field(default_factory=dict)
    """Index of each file, by name."""
    end_bytes: int = 0
    """Largest end offset of all operations."""
    skipped_lines: int = 0
    """Number of lines that could not be read."""
    first_skipped_line: int = 0
    """Line number of the first of them; 0 if there is none."""
    _due_ns: int = 0
    _last_us: int = 0

    def read(self, lines: BinaryIO) -> None:
        """Reads the lines below the first, and writes the records to a file that ends with this process."""
        import tempfile

        handle, self.path = tempfile.mkstemp(prefix="iocurve-replay-")
        atexit.register(Path(self.path).unlink, missing_ok=True)
        with os.fdopen(handle, "wb") as records:
            for record in self._records(lines):
                records.write(record)
                self.records += 1

    def _records(self, lines: BinaryIO) -> Iterator[bytes]:
        for number, line in enumerate(iter(lambda: lines.readline(_LINE_BYTES), b""), 2):
            try:
                record = self._record(line.decode().split())
            except ValueError:
                self.skipped_lines += 1
                self.first_skipped_line = self.first_skipped_line or number
                continue
            if record is not None:
                yield record

    def _record(self, words: list[str]) -> bytes | None:
        delay_ns = self._delay_ns(int(words.pop(0))) if self.version == 3 and words else 0
        if len(words) == 2:
            self._file_action(*words)
            self._pause(delay_ns)
            return None
        name, action, offset_text, size = words[:4]
        offset, bytes_ = int(offset_text), int(size)
        if not (0 <= offset < 2**63 and 0 <= bytes_ < 2**32):
            raise ValueError(offset_text)
        if action == "wait" and self.version == 2:
            # The time counts from the start, not from the previous operation.
            self._due_ns = max(self._due_ns, min(offset * 1_000_000, _DUE_LIMIT_NS))
            return None
        if action not in _KINDS:
            raise ValueError(action)
        file = self.files.get(self.options.replay_redirect or name)
        if file is None:
            raise ValueError(name)
        if action in self.options.replay_skip:
            return None
        self._pause(delay_ns)
        return self._operation(_KINDS[action], offset, bytes_, file)

    def _operation(self, kind: OperationKind, offset: int, size: int, file: int) -> bytes | None:
        if kind in ("fsync", "fdatasync"):
            offset = size = 0
        elif size == 0:
            raise ValueError(kind)
        offset //= self.options.replay_scale
        offset -= offset % (self.options.replay_align or 1)
        self.blocks.setdefault(kind, Counter())[size] += 1
        self.end_bytes = max(self.end_bytes, offset + size)
        due_ns = 0 if self.options.replay_no_stall else self._due_ns
        return _RECORD.pack(due_ns, offset, size, file, _NUMBERS[kind])

    def _file_action(self, name: str, action: str) -> None:
        name = self.options.replay_redirect or name
        if action == "add":
            self.files.setdefault(name, len(self.files))
        elif action not in ("open", "close") or name not in self.files:
            raise ValueError(action)

    def _delay_ns(self, at_us: int) -> int:
        """Delay after the previous line; 0 while the previous line has the time 0, as in fio."""
        if not 0 <= at_us < 2**63:
            raise ValueError(at_us)
        last, self._last_us = self._last_us, at_us
        return (at_us - last) * 100_000 // self.options.replay_time_scale if 0 < last <= at_us else 0

    def _pause(self, delay_ns: int) -> None:
        self._due_ns = min(self._due_ns + delay_ns, _DUE_LIMIT_NS)


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

_REPLACED = ("fsync_every", "fdatasync_every", "sync_file_range_every", "operations", "transfer", "size", "offset")
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
    try:
        trace = read(path, draft.deferred)
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
        replay=Replay(path=trace.path, records=trace.records, paced=not draft.deferred.replay_no_stall),
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
