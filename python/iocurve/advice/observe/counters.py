"""The kernel's counters of one mount or device, and of processes: at one instant, and between instants."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Literal

import msgspec

from iocurve.advice.doctor import local
from iocurve.advice.doctor.host import HostFiles
from iocurve.advice.doctor.mounts import ClientMount, mounts, nfs_statistics
from iocurve.advice.observation import (
    KindObserved,
    LimitNear,
    Observation,
    ObservedInterval,
    ProcessObserved,
)
from iocurve.foundation.errors import TargetError
from iocurve.machine.files import text_of
from iocurve.machine.mounts import SECTOR_BYTES, device_name, nearest
from iocurve.machine.processes import io_bytes, open_files, process_directories

Clock = Callable[[], float]
SERVER_READ_BYTES, SERVER_WRITTEN_BYTES = 4, 5
"""Fields of ``bytes:`` in mountstats, from 0: what READ and WRITE calls moved."""


class KindCounters(msgspec.Struct, frozen=True):
    """Counters of one kind of operation. Times are sums in µs; None where the kernel does not split them."""

    operations: int
    bytes: int
    total_us: int
    client_wait_us: int | None = None
    server_us: int | None = None


class CounterSample(msgspec.Struct, frozen=True):
    """All counters of the subject at one instant."""

    time_s: float
    read: KindCounters
    write: KindCounters
    other_operations: int = 0


class Subject(msgspec.Struct, frozen=True):
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


class Processes(msgspec.Struct):
    """Bytes that each process has moved to and from storage (``/proc/PID/io``)."""

    root: Path = Path("/")
    moved: dict[tuple[int, str], tuple[int, int]] = msgspec.field(default_factory=dict)
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
        point, number = subject.name, text_of(self.root / subject.device.path / "dev").strip() if subject.device else ""
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


PROCESSES_MAX = 10
"""Most processes in an observation."""
Sleep = Callable[[float], None]


def samples(
    subject: Subject,
    seconds: float,
    interval_s: float,
    root: Path = Path("/"),
    sleep: Sleep = time.sleep,
    clock: Clock = time.monotonic,
) -> Iterator[CounterSample]:
    """Samples at even times; the last one at the end. Raises ``TargetError`` if the subject goes away."""
    first = subject.sample(root, clock)
    yield first
    number = 1
    while True:
        due = min(number * interval_s, seconds)
        sleep(max(0.0, first.time_s + due - clock()))
        yield subject.sample(root, clock)
        if due >= seconds:
            return
        number += 1


def interval(earlier: CounterSample, later: CounterSample, start_s: float) -> ObservedInterval:
    """The operations between two samples. Raises ``TargetError`` if the counters went back."""
    return ObservedInterval(
        start_s=start_s,
        read=_between(earlier, later, earlier.read, later.read),
        write=_between(earlier, later, earlier.write, later.write),
    )


def observation(
    subject: Subject,
    taken: Sequence[CounterSample],
    processes: tuple[Processes, Processes] | None = None,
    limits: Sequence[LimitNear] = (),
) -> Observation:
    """The observation of two samples or more. Raises ``TargetError`` if there are fewer, or counters went back."""
    if len(taken) < 2:
        raise TargetError(f"{subject.name}: nothing was observed; watch for at least one interval")
    first, last = taken[0], taken[-1]
    whole = interval(first, last, 0.0)
    pairs = itertools.pairwise(taken)
    seconds = last.time_s - first.time_s
    began = datetime.fromtimestamp(time.time() - seconds, UTC)
    return Observation(
        subject=subject.name,
        counters=subject.counters,
        began=began.isoformat(timespec="seconds"),
        seconds=seconds,
        read=whole.read,
        write=whole.write,
        other_operations=last.other_operations - first.other_operations,
        intervals=tuple(interval(one, two, one.time_s - first.time_s) for one, two in pairs),
        processes=moved(*processes, subject) if processes else (),
        limits=tuple(limits),
        connections=len(subject.mount.transports) or subject.mount.nconnect if subject.mount else None,
    )


def moved(before: Processes, after: Processes, subject: Subject) -> tuple[ProcessObserved, ...]:
    """The processes that moved bytes in between; those that have ended are not there.

    Processes with files open on the subject come first, then the busiest.
    """
    found = []
    for (pid, name), (read, written) in after.moved.items():
        read_before, written_before = before.moved.get((pid, name), (0, 0))
        if read > read_before or written > written_before:
            found.append((read - read_before, written - written_before, pid, name))
    busiest = [
        ProcessObserved(
            pid=pid, name=name, read_bytes=read, write_bytes=written, has_files_open=after.has_open(pid, subject)
        )
        for read, written, pid, name in sorted(found, key=lambda one: -(one[0] + one[1]))
    ]
    # Others work on other file systems, or for the kernel.
    return tuple(sorted(busiest, key=lambda one: not one.has_files_open)[:PROCESSES_MAX])


def _between(earlier: CounterSample, later: CounterSample, before: KindCounters, after: KindCounters) -> KindObserved:
    seconds = later.time_s - earlier.time_s
    if after.operations < before.operations or seconds <= 0:
        raise TargetError("the counters went back: it was mounted or attached again while it was observed")
    return KindObserved(
        operations=after.operations - before.operations,
        bytes=after.bytes - before.bytes,
        seconds=seconds,
        latency_us_total=after.total_us - before.total_us,
        client_wait_us_total=_difference(after.client_wait_us, before.client_wait_us),
        server_us_total=_difference(after.server_us, before.server_us),
    )


def _difference(after: int | None, before: int | None) -> float | None:
    return None if after is None or before is None else float(after - before)
