"""Resolves a target of a profile to a file, a device or a file in an NFS export, and to the region that is used."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import msgspec
from msgspec.structs import replace

from iocurve.dialects.diskspd.read.profile import TargetParameters, TimeSpan
from iocurve.dialects.diskspd.read.rules import Findings
from iocurve.dialects.diskspd.read.values import OffsetZone
from iocurve.foundation.units import format_bytes
from iocurve.job.resolve import PathFacts

_WINDOWS_DRIVE = re.compile(r"#\d+|[A-Za-z]:|\\\\\.\\.*", re.ASCII)
_WINDOWS_FILE = re.compile(r"[A-Za-z]:[\\/].*|\\\\.*|.*\\.*", re.ASCII | re.DOTALL)
_NFS = "nfs://"


class ResolvedTarget(msgspec.Struct, frozen=True):
    """A target on this machine."""

    target: TargetParameters
    path: str
    """Path for the job: absolute, or relative to the NFS export."""
    nfs_url: str | None
    """URL of the export; None for a local target."""
    bytes: int
    """Size of the file or device during the run."""
    is_created: bool
    buffer_path: str | None = None
    """File whose content fills the write buffer (-Z<size>,file)."""

    @property
    def region_bytes(self) -> int:
        """Length of the region that is used; it starts at the base offset."""
        end = min(self.bytes, self.target.end_bytes or self.bytes)
        return end - self.target.base_bytes


def resolve_target(
    target: TargetParameters, span: TimeSpan, stat: Callable[[str], PathFacts], directory: Path, findings: Findings
) -> ResolvedTarget | None:
    """Resolves a target. Returns None and adds an error to ``findings`` if it cannot be used."""
    where = target.where("path", "target")
    if _WINDOWS_DRIVE.fullmatch(target.path) or _WINDOWS_FILE.fullmatch(target.path):
        kind = "drive" if _WINDOWS_DRIVE.fullmatch(target.path) else "path"
        pattern = re.match(r"[A-Za-z]:[\\/]", target.path)
        origin, goal = (f"{pattern[0]}*", "/data") if pattern else (target.path, "/dev/sdb")
        findings.error(
            f"{target.path} is a Windows {kind}", where, f"map it to a Linux path: --map-target '{origin}={goal}'"
        )
        return None
    found = _remote(target, findings) if target.path.startswith(_NFS) else _local(target, stat, directory, findings)
    if found is None or not _starts_inside(found, span, findings):
        return None
    _note(found, findings)
    return replace(found, buffer_path=_buffer_path(target, stat, directory, findings))


def _buffer_path(
    target: TargetParameters, stat: Callable[[str], PathFacts], directory: Path, findings: Findings
) -> str | None:
    if not target.buffer_bytes or not target.buffer_path:
        return None
    path = str(directory / target.buffer_path)
    if stat(path).kind != "file":
        text = f"{path} is not a regular file, so it cannot fill the write buffer (-Z)"
        findings.error(text, target.where("buffer_path", "WriteBufferContent"))
    return path


def _remote(target: TargetParameters, findings: Findings) -> ResolvedTarget | None:
    where = target.where("path", "target")
    address, question, options = target.path.partition("?")
    export, slash, name = address.removeprefix(_NFS).rpartition("/")
    if not slash or not name or "/" not in export:
        text = f"{target.path} names no file in an NFS export"
        findings.error(text, where, "write nfs://host/export/file")
        return None
    size = target.create_bytes or target.end_bytes
    if not size:
        text = f"the size of {target.path} is not given"
        findings.error(text, where, "give -c<size> to create it or -f<size> if it exists")
        return None
    return ResolvedTarget(target, name, f"{_NFS}{export}{question}{options}", size, bool(target.create_bytes))


def _local(
    target: TargetParameters, stat: Callable[[str], PathFacts], directory: Path, findings: Findings
) -> ResolvedTarget | None:
    where = target.where("path", "target")
    path = str(directory / target.path)
    facts = stat(path)
    if facts.kind == "block":
        if target.create_bytes:
            text = f"-c has no effect on the device {path}: all of the device is used"
            findings.note("no_effect", text, target.where("create_bytes"), "warning")
        return ResolvedTarget(target, path, None, facts.bytes, is_created=False)
    if target.create_bytes and facts.kind in ("missing", "file"):
        return ResolvedTarget(target, path, None, target.create_bytes, is_created=True)
    if facts.kind == "missing":
        findings.error(f"{path} does not exist", where, "-c creates it, as in -c1G")
    elif facts.kind == "file" and not facts.bytes:
        findings.error(f"{path} is empty", where, "-c recreates it with a size, as in -c1G")
    elif facts.kind == "file":
        return ResolvedTarget(target, path, None, facts.bytes, is_created=False)
    else:
        kind = "a directory" if facts.kind == "directory" else "neither a file nor a block device"
        findings.error(f"{path} is {kind}", where, "name a file")
    return None


def _starts_inside(found: ResolvedTarget, span: TimeSpan, findings: Findings) -> bool:
    target = found.target
    threads = span.threads or target.threads
    start = (threads - 1) * target.thread_stride_bytes
    if start + target.block_bytes <= found.region_bytes:
        return True
    text = (
        f"{target.path} is too small: {format_bytes(found.bytes)}, base offset {target.base_bytes}, "
        f"and its last thread starts {start} bytes after the base offset with blocks of {target.block_bytes} bytes"
    )
    findings.error(text, target.where("thread_stride_bytes", "base_bytes", "create_bytes", "path", "target"))
    return False


def _note(found: ResolvedTarget, findings: Findings) -> None:
    target = found.target
    if target.end_bytes > found.bytes:
        text = f"{target.path} has {found.bytes} bytes, less than the end of the region ({target.end_bytes})"
        findings.note("file_shorter", text, target.where("end_bytes"), "warning")
    if found.is_created and found.region_bytes + target.base_bytes < found.bytes:
        text = (
            f"{target.path} is created with {format_bytes(found.region_bytes + target.base_bytes)}, the part used, "
            f"not {format_bytes(found.bytes)}"
        )
        findings.note("file_not_longer", text, target.where("create_bytes"))


def zones_of(target: TargetParameters, region_bytes: int) -> list[OffsetZone]:
    """The zones of a target's distribution in a region; parts without operations are omitted.

    The rules are DiskSpd's. Percentages are rounded down to offsets that operations can start at; a part too small for
    one offset gives its share to its neighbour. Sizes are kept; parts beyond the end of the region are dropped.
    """
    if target.distribution == "Absolute":
        return _absolute(target, region_bytes)
    return _Percentages(target.step_bytes, aligned_bytes(target, region_bytes)).of(target.spans)


def aligned_bytes(target: TargetParameters, region_bytes: int) -> int:
    """Length of the range of possible start offsets: from 0 to one step after the last offset."""
    last = region_bytes - target.block_bytes
    return last - last % target.step_bytes + target.step_bytes


def shares(zones: list[OffsetZone]) -> list[Fraction]:
    """Shares of the zones in percent of the operations, scaled to a sum of 100."""
    total = sum(zone.io_percent for zone in zones)
    return [Fraction(100 * zone.io_percent, total) for zone in zones]


def _absolute(target: TargetParameters, region_bytes: int) -> list[OffsetZone]:
    zones = []
    for span in target.spans:
        if not span.io_percent:
            continue
        if span.start >= region_bytes:
            break
        length = span.length
        if not length or span.start + length > region_bytes:
            length = region_bytes - span.start
            if length < target.block_bytes:
                break
        zones.append(OffsetZone(span.io_percent, span.start, length))
    return zones


class _Percentages(msgspec.Struct):
    step: int
    whole: int
    """Length of the range of possible start offsets."""

    zones: list[OffsetZone] = msgspec.field(default_factory=list)
    carry: int = 0
    """Operations of parts without a possible offset, in percent; the next zone takes them."""

    def of(self, spans: tuple[OffsetZone, ...]) -> list[OffsetZone]:
        for span in spans:
            start, end = self._bounds(span)
            if span.io_percent and end < start:
                self._pass_on(span.io_percent, end)
            elif span.io_percent:
                self._add(span.io_percent, start - start % self.step, end)
        if self.carry and not self.zones:
            self.zones.append(OffsetZone(0, self.whole - self.step, self.step))
        if self.carry:
            self.zones[-1].io_percent += self.carry
            self.zones[-1].length = self.whole - self.zones[-1].start
        return self.zones

    def _pass_on(self, io_percent: int, end: int) -> None:
        """Gives the operations of a part without a possible offset to the neighbour."""
        if self.zones and self.zones[-1].start == end:
            self.zones[-1].io_percent += io_percent
        else:
            self.carry += io_percent

    def _add(self, io_percent: int, start: int, end: int) -> None:
        """Adds the zone of a part; the zone before keeps an offset that both would have."""
        if start < end and self.zones and self.zones[-1].start == start:
            start += self.step
            self.zones[-1].length += self.step
            if start == self.whole:
                self.carry += io_percent
                return
            if start == end:
                self.zones[-1].io_percent += io_percent
                return
        if self.carry and self.zones and self.zones[-1].io_percent < io_percent:
            self.zones[-1].io_percent += self.carry
            self.carry = 0
        self.zones.append(OffsetZone(io_percent + self.carry, start, end - start))
        self.carry = 0

    def _bounds(self, span: OffsetZone) -> tuple[int, int]:
        start = span.start * self.whole // 100
        is_last = span.start + span.length == 100
        end = self.whole if is_last else start + span.length * self.whole // 100
        return start, end - end % self.step
