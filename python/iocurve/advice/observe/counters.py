"""The kernel's counters of one mount or device, and of processes, at one instant."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Literal

from iocurve.advice.doctor import local
from iocurve.advice.doctor.host import HostFiles
from iocurve.advice.doctor.mounts import ClientMount, mounts, nfs_statistics
from iocurve.errors import TargetError
from iocurve.machine.block_devices import SECTOR_BYTES, device_name
from iocurve.machine.files import text_of
from iocurve.machine.mounts import nearest
from iocurve.machine.processes import io_bytes, open_files, process_directories

Clock = Callable[[], float]
SERVER_READ_BYTES, SERVER_WRITTEN_BYTES = 4, 5
"""Fields of ``bytes:`` in mountstats, from 0: what READ and WRITE calls moved."""


@dataclass(frozen=True)
class KindCounters:
    """Counters of one kind of operation. Times are sums in µs; None where the kernel does not split them."""

    operations: int
    bytes: int
    total_us: int
    client_wait_us: int | None = None
    server_us: int | None = None


@dataclass(frozen=True)
class CounterSample:
    """All counters of the subject at one instant."""

    time_s: float
    read: KindCounters
    write: KindCounters
    other_operations: int = 0


@dataclass(frozen=True)
class Subject:
    """A mount or device that can be sampled."""

    name: str
    """The mount point, or the name of the device."""
    counters: Literal["mountstats", "diskstats"]
    path: str
    """The file with the counters, without the leading slash."""
    mount: ClientMount | None = None
    device: local.Device | None = None

    def sample(self, root: Path = Path("/"), clock: Clock = time.monotonic) -> CounterSample:
        """Reads the counters. Raises ``TargetError`` if the mount or device is gone."""
        before = clock()
        try:
            text = (root / self.path).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise TargetError(f"/{self.path}: {error.strerror}; {self.name} is gone") from None
        instant = (before + clock()) / 2
        sample = self._nfs(text, instant) if self.mount else _device(text, instant)
        if sample is None:
            raise TargetError(f"/{self.path} has no counters of {self.name}; was it unmounted or removed?")
        return sample

    def _nfs(self, text: str, instant: float) -> CounterSample | None:
        found = dict(nfs_statistics(text)).get(self.name)
        if found is None:
            return None
        operations, moved, _ = found
        reads, writes = operations.get("READ"), operations.get("WRITE")
        if reads is None or writes is None or len(moved) <= SERVER_WRITTEN_BYTES:
            return None
        read, write = (
            KindCounters(one.operations, size, 1_000 * one.execute_ms, 1_000 * one.queue_ms, 1_000 * one.rtt_ms)
            for one, size in ((reads, moved[SERVER_READ_BYTES]), (writes, moved[SERVER_WRITTEN_BYTES]))
        )
        total = sum(one.operations for one in operations.values())
        return CounterSample(instant, read, write, total - reads.operations - writes.operations)


def find_subject(text: str, host: HostFiles) -> Subject:
    """The mount that a path is on, or a device. Raises ``TargetError``."""
    known = local.devices(host)
    by_name = {device.name: device for device in known.values()}
    device = by_name.get(text.removeprefix("/dev/"))
    if device is None and host.is_live and Path(text).is_block_device():
        device = known.get(device_name(Path(text).stat().st_rdev))
    if device is None:
        if host.is_live and not Path(text).exists():
            raise TargetError(f"{text}: there is no such directory or device; give a mount or /dev/sda")
        mount = nearest(Path(text).resolve() if host.is_live else PurePath(text), mounts(host))
        if isinstance(mount, ClientMount):
            return Subject(mount.point, "mountstats", "proc/self/mountstats", mount=mount)
        device = local.device_of(mount, known) if mount else None
        if device is None:
            kind = mount.kind if mount else "no mount"
            raise TargetError(f"{text} is on {kind}, which has no counters; give an NFS mount or a block device")
    return Subject(device.name, "diskstats", f"{device.path}/stat", device=device)


def _device(text: str, instant: float) -> CounterSample | None:
    """Documentation/block/stat.rst: I/Os, merges, sectors, milliseconds; first of reads, then of writes."""
    words = [int(word) for word in text.split() if word.isdigit()]
    if len(words) < 8:
        return None
    read, write = (KindCounters(words[at], SECTOR_BYTES * words[at + 2], 1_000 * words[at + 3]) for at in (0, 4))
    return CounterSample(instant, read, write)


@dataclass
class Processes:
    """Bytes that each process has moved to and from storage (``/proc/PID/io``)."""

    root: Path = Path("/")
    moved: dict[tuple[int, str], tuple[int, int]] = field(default_factory=dict)
    """(read, written) by number and name; processes of other users need root."""

    @classmethod
    def now(cls, root: Path = Path("/")) -> Processes:
        """All processes whose counters may be read."""
        found: dict[tuple[int, str], tuple[int, int]] = {}
        for process in process_directories(root / "proc"):
            if values := io_bytes(process):
                name = text_of(process / "comm").strip()
                found[int(process.name), name] = values.get("read_bytes", 0), values.get("write_bytes", 0)
        return cls(root, found)

    def has_open(self, pid: int, subject: Subject) -> bool:
        """True if a process has a file open on the mount, or the device itself or a file on its file system."""
        point, number = subject.name, _device_number(subject, self.root)
        for entry in open_files(self.root / f"proc/{pid}"):
            try:
                if subject.mount is not None:
                    target = str(entry.readlink())
                    if target == point or target.startswith(f"{point.rstrip('/')}/"):
                        return True
                elif number in (device_name(entry.stat().st_dev), device_name(entry.stat().st_rdev)):
                    return True
            except OSError:
                continue
        return False


def _device_number(subject: Subject, root: Path) -> str:
    return text_of(root / subject.device.path / "dev").strip() if subject.device else ""
