"""The kernel's counters of one mount or device, and of processes: at one instant, and between instants."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Literal

import msgspec

from iocurve.advice.doctor import local, machine, nfs
from iocurve.advice.doctor.host import ClientMount, HostFiles, mounts, nfs_statistics
from iocurve.advice.observation import KindObserved, LimitNear, Observation, ObservedInterval, ProcessObserved
from iocurve.foundation.errors import TargetError
from iocurve.foundation.units import MB, counted, format_latency
from iocurve.machine.files import text_of
from iocurve.machine.mounts import SECTOR_BYTES, device_name, nearest
from iocurve.machine.processes import io_bytes, open_files, process_directories
from iocurve.result.caps import Cap
from iocurve.targets.disk import vms

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
    subject: Subject, taken: Sequence[CounterSample], processes: tuple[Processes, Processes] | None = None
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


REACHED = 0.95
"""Share of a limit from which the load counts as limited by it; published results lie 1 to 2 % around their caps."""
WAIT_SHARE = 0.5
DEPTH_MIN = 2
"""Fewer operations in flight do not wait for one another."""
SESSIONS = "max_session_slots=180, as far as the server gives them: iocurve doctor has the command"
QUEUE = "a larger nr_requests, as far as the device takes it"

Rate = Callable[[Observation | ObservedInterval], float]


KnownLimit = tuple[str, float, str, Rate, str, str]
"""Name, value, unit, the rate that it limits, source, and the change that raises it."""


def near(
    observed: Observation, subject: Subject, host: HostFiles, caps: Sequence[Cap], profile: str, vm: str | None
) -> Observation:
    """Adds the known limits to an observation, those of which most is used first."""
    known = [*_of_caps(caps, profile, observed.connections or 1), *_of_vm(vm, subject), *_of_client(subject, host)]
    found = [
        LimitNear(
            name=name,
            value=value,
            unit=unit,
            observed=rate(observed),
            peak=max(map(rate, observed.intervals), default=rate(observed)),
            source=source,
            next_step=next_step,
        )
        for name, value, unit, rate, source, next_step in known
        if value > 0
    ]
    return observed.replace(limits=tuple(sorted(found, key=lambda one: -one.share)))


def verdict(observed: Observation) -> list[str]:
    """The limits that the load runs into, and where its latency is spent."""
    lines: list[str] = []
    if not observed.read.operations + observed.write.operations:
        return lines
    reached = [one for one in observed.limits if one.share >= REACHED]
    for one in reached:
        how = "runs into" if one.observed / one.value >= REACHED else "reaches at times"
        lines.append(f"{how} the limit on {one.name}: {_amounts(one)} ({one.source})")
    if observed.limits and not reached:
        one = observed.limits[0]
        lines.append(f"no known limit is reached; the nearest is {one.name}: {_amounts(one)} ({one.source})")
    if not observed.limits:
        lines.append("no limit is known: give --profile and --quota, or --vm")
    waits = [(kind, part) for kind, part in (("reads", observed.read), ("writes", observed.write)) if part.operations]
    for kind, part in waits:
        waited = part.client_wait_us_total
        if waited is not None and part.latency_us_total and waited / part.latency_us_total > WAIT_SHARE:
            share = waited / part.latency_us_total
            lines.append(
                f"{share:.0%} of the latency of {kind} is spent waiting in the client, for a slot or a connection: "
                "more connections (nconnect) help, a faster server does not"
            )
    return lines


def for_twice_the_rate(observed: Observation) -> str:
    """The change for twice the rate: that of the limit that is reached, or else more operations in flight."""
    reached = [one for one in observed.limits if one.observed / one.value >= REACHED]
    if reached:
        return f"for twice the rate: {reached[0].next_step}"
    if not observed.read.operations + observed.write.operations:
        return ""
    latency_ns = 1e9 * observed.depth / observed.iops
    return (
        f"for twice the rate at this mean latency of {format_latency(latency_ns)} the application must keep "
        f"{2 * observed.depth:,.3g} in flight instead of {observed.depth:,.3g} (Little's law)"
    )


def for_half_the_latency(observed: Observation) -> str:
    """The change for half the latency: of the waits that the counters tell; empty where they tell none."""
    total = observed.read.latency_us_total + observed.write.latency_us_total
    waited = (observed.read.client_wait_us_total or 0.0) + (observed.write.client_wait_us_total or 0.0)
    if total and waited / total >= WAIT_SHARE:
        return (
            f"for half the latency: no wait in the client, which is {waited / total:.0%} of it; more connections help"
        )
    if any(one.observed / one.value >= REACHED for one in observed.limits) and observed.depth >= DEPTH_MIN:
        return (
            f"for half the latency at the same rate: {observed.depth / 2:,.3g} in flight instead of "
            f"{observed.depth:,.3g}; the others wait for the limit (Little's law)"
        )
    return ""


def _amounts(one: LimitNear) -> str:
    observed, value, peak = (
        f"{each:,.0f}" if each >= 1_000 else f"{each:.4g}" for each in (one.observed, one.value, one.peak)
    )
    return f"{observed} of {value} {one.unit}, {peak} at most ({one.share:.0%})"


def _server_depth(one: Observation | ObservedInterval) -> float:
    """Requests between client and server: by Little's law from the time without the wait in the client."""
    return sum(part.server_us_total or 0.0 for part in (one.read, one.write)) / 1e6 / one.read.seconds


_RATES: dict[tuple[str, str], Rate] = {
    ("bytes_per_s", "any"): lambda one: one.read.mib_per_s + one.write.mib_per_s,
    ("bytes_per_s", "read"): lambda one: one.read.mib_per_s,
    ("bytes_per_s", "write"): lambda one: one.write.mib_per_s,
    ("iops", "any"): lambda one: one.read.iops + one.write.iops,
    ("iops", "read"): lambda one: one.read.iops,
    ("iops", "write"): lambda one: one.write.iops,
    ("requests", "any"): _server_depth,
    ("queue", "any"): lambda one: one.read.depth + one.write.depth,
}
_STEPS = {
    "volume": "twice the limit of the volume: iocurve size has the quota for it",
    "connection": "twice as many connections: iocurve doctor shows those of the mount",
    "client": "a second client, or a machine with twice the limit",
}
_UNITS = {"bytes_per_s": "MiB/s", "iops": "IOPS", "requests": "in flight"}


def _of_caps(caps: Sequence[Cap], profile: str, connections: int) -> Iterator[KnownLimit]:
    """The limits of the volume, and those of a connection times the connections."""
    for cap in caps:
        times = connections if cap.scope == "connection" else 1
        name = f"{cap.text}, {counted(connections, 'connection')}" if cap.scope == "connection" else cap.text
        value = cap.value * times / ((1 << 20) if cap.quantity == "bytes_per_s" else 1)
        rate = _RATES[cap.quantity, cap.kind]
        yield name, value, _UNITS[cap.quantity], rate, f"profile {profile}", _STEPS[cap.scope]


def _of_vm(vm: str | None, subject: Subject) -> Iterator[KnownLimit]:
    found = machine.find_vm(vm) if vm else None
    if found is None:
        return
    name, size = found
    family = vms()[name][0]
    source = f"{name}: {family.sources[size.source]}"
    network = machine.network_bytes_per_s(name)
    if subject.mount is not None:
        if network:
            rate = _RATES["bytes_per_s", "write"]
            yield "data sent by the machine", network / (1 << 20), "MiB/s", rate, source, _STEPS["client"]
        return
    if size.uncached is None:
        return
    yield "IOPS of the machine's disks", size.uncached.iops, "IOPS", _RATES["iops", "any"], source, _STEPS["client"]
    mib_per_s = size.uncached.mb_per_s * MB / (1 << 20)
    yield (
        "throughput of the machine's disks",
        mib_per_s,
        "MiB/s",
        _RATES["bytes_per_s", "any"],
        source,
        _STEPS["client"],
    )


def _of_client(subject: Subject, host: HostFiles) -> Iterator[KnownLimit]:
    """The limits of the client's own queues and slots."""
    mount, device = subject.mount, subject.device
    if mount is not None:
        connections = len(mount.transports) or mount.nconnect
        if mount.version.startswith("4"):
            slots = host.number("sys/module/nfs/parameters/max_session_slots") or nfs.SESSION_SLOTS_DEFAULT
            yield "session slots", slots, "in flight", _server_depth, "max_session_slots", SESSIONS
        else:
            slots = host.number("proc/sys/sunrpc/tcp_max_slot_table_entries") or 0
            name = f"slots of {counted(connections, 'connection')}"
            source = "tcp_max_slot_table_entries"
            yield name, slots * connections, "in flight", _server_depth, source, _STEPS["connection"]
    if device is not None:
        requests = host.number(f"{device.disk}/queue/nr_requests") or 0
        yield "requests of the device's queue", requests, "in flight", _RATES["queue", "any"], "nr_requests", QUEUE
