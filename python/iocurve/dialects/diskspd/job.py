"""A time span becomes a job: each thread on each target is a worker, as deep as -o says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import mul
from pathlib import Path
from typing import Any

from iocurve.dialects.diskspd.read.distribution import Zone, shares, zones_of
from iocurve.dialects.diskspd.read.profile import Target, TimeSpan
from iocurve.dialects.diskspd.read.rules import Findings
from iocurve.dialects.diskspd.targets import Found, find
from iocurve.dialects.diskspd.words import WORDS
from iocurve.engine.plan import FixedBlocks
from iocurve.errors import Where
from iocurve.job.model import EngineName, Job, PerKind, Said, ZoneShare, ZonesSaid
from iocurve.job.resolve import Machine
from iocurve.job.resolve.checks import MAX_WORKERS
from iocurve.units import MILLISECOND_NS, SECOND_NS

DEFAULTS = Said.of(
    engine="uring",
    file_name_pattern="{job}",
    create=False,
    random=False,
    read_percent=100.0,
    blocks=PerKind.same(FixedBlocks(bytes=64 * 1024)),
    cover="independent",
    at_end="wrap",
    depth=2,
    runtime_ns=10 * SECOND_NS,
    time_based=True,
    ramp_ns=5 * SECOND_NS,
    payload_scramble=False,
    cpus_split=True,
)
"""What DiskSpd does where nothing is said."""

PATTERN = bytes(range(256)).hex()
"""What DiskSpd writes by default."""


@dataclass(frozen=True)
class Row:
    """A thread's part of a target, as DiskSpd reports it."""

    path: str
    bytes: int
    """Of the file."""
    zones: tuple[Zone, ...]
    """The distribution as it came to be, from the start of the region."""
    workers: tuple[int, ...]
    """Their places in the plan: several where each operation in flight is a worker of its own (-p)."""


@dataclass(frozen=True)
class Built:
    """A job, and which of its workers are which thread of DiskSpd's."""

    job: Job
    threads: tuple[tuple[Row, ...], ...]
    """By thread: a row for each target."""


def build(span: TimeSpan, number: int | None, machine: Machine, directory: Path, findings: Findings) -> Built | None:
    """Makes the job of a time span (the ``number``-th of several); None where ``findings`` tell why it cannot run."""
    _check_processors(span, findings)
    _check_workers(span, findings)
    found = [find(target, span, machine, directory, findings) for target in span.targets]
    targets = [one for one in found if one is not None]
    if len(targets) < len(found) or findings.mistakes:
        return None
    parts = list(_parts(span, targets, findings))
    if findings.mistakes:
        return None
    builder = _Builder(span, sorted(machine.cpus()))
    for part in parts:
        builder.add(part)
    name = " ".join(dict.fromkeys(target.path for target in span.targets))
    job = Job.of(name if number is None else f"{name} ({number})", WORDS, builder.sections, DEFAULTS)
    return Built(job, tuple(tuple(builder.rows.get(thread, ())) for thread in range(_threads(span))))


def _threads(span: TimeSpan) -> int:
    return span.threads or sum(target.threads for target in span.targets)


@dataclass(frozen=True)
class _Part:
    """Threads that do the same with the same targets."""

    threads: Sequence[int]
    """Numbers of the threads."""
    targets: Sequence[Found]
    """Several where the threads choose between them for each operation (-O)."""


def _parts(span: TimeSpan, targets: Sequence[Found], findings: Findings) -> Iterator[_Part]:
    if span.shares_requests:
        yield from _pools(span, targets, findings)
        return
    first = 0
    for found in targets:
        count = span.threads or found.target.threads
        threads = range(count) if span.threads else range(first, first + count)
        first += count
        if found.target.parallel and found.target.thread_stride_bytes:
            # Each operation in flight of a thread starts where the thread does.
            yield from (_Part((thread,), (found,)) for thread in threads)
        else:
            yield _Part(threads, (found,))


def _pools(span: TimeSpan, targets: Sequence[Found], findings: Findings) -> Iterator[_Part]:
    """Threads of a pool by the targets they use."""
    pools: dict[tuple[int, ...], list[int]] = {}
    for thread in range(span.threads):
        used = tuple(index for index, found in enumerate(targets) if _uses(found.target, thread))
        pools.setdefault(used, []).append(thread)
    for used, threads in pools.items():
        chosen = [targets[index] for index in used]
        if not chosen:
            continue
        _check_pool(chosen, threads, findings)
        yield _Part(threads, chosen)


def _uses(target: Target, thread: int) -> bool:
    return not target.thread_weights or any(thread == number for number, _ in target.thread_weights)


def _check_pool(chosen: Sequence[Found], threads: Sequence[int], findings: Findings) -> None:
    """What one worker over several targets cannot do."""
    first, where = chosen[0], chosen[-1].target.where("weight", "ThreadTargets", "target", "path")
    weights = {_weight(found.target, thread) for found in chosen for thread in threads}
    if len(weights) > 1:
        findings.mistake("targets of different weights cannot be run yet", where, "give all targets the same <Weight>")
    if any(_load(found.target) != _load(first.target) for found in chosen):
        text = "with -O (<RequestCount> of a time span) targets with different loads cannot be run yet"
        findings.mistake(text, where, "give each target its own <RequestCount> instead")
    kinds = {(found.nfs_url, found.is_created) for found in chosen}
    if len(kinds) > 1 or not (_are_alike(chosen) or all(map(_is_used_whole, chosen))):
        text = "with -O parts of targets of different sizes or kinds cannot be run yet"
        findings.mistake(text, where, "make them alike with -c or -f, or say the operations in flight with -o")


def _are_alike(chosen: Sequence[Found]) -> bool:
    return len({found.region_bytes for found in chosen}) == 1


def _is_used_whole(found: Found) -> bool:
    """From the base offset to its end, wherever that is."""
    is_to_its_end = found.region_bytes == found.bytes - found.target.base_bytes
    return is_to_its_end and not found.is_created and not found.nfs_url and not found.target.spans


def _weight(target: Target, thread: int) -> int:
    return next((weight for number, weight in target.thread_weights if number == thread and weight), target.weight)


def _load(target: Target) -> tuple[object, ...]:
    """What two targets must have in common to be one worker's."""
    fields = vars(target) | {"path": None, "said": None, "thread_weights": None, "weight": None, "requests": None}
    return tuple(fields.items())


def _check_workers(span: TimeSpan, findings: Findings) -> None:
    """Before anything is made for each of them."""
    slots = [target.requests if target.parallel else 1 for target in span.targets]
    threads = [span.threads or target.threads for target in span.targets]
    workers = span.threads if span.shares_requests else sum(map(mul, threads, slots))
    if workers > MAX_WORKERS:
        where = span.where("threads") or span.targets[0].where("threads", "requests")
        findings.mistake(f"{workers} workers are too many; {MAX_WORKERS} can run at once", where, "use fewer threads")


def _check_processors(span: TimeSpan, findings: Findings) -> None:
    groups = sorted({group for group, _ in span.affinity} - {0})
    if groups:
        text = f"there is no processor group {groups[0]}: Linux has all processors in one (group 0)"
        findings.mistake(text, span.where("affinity"), "write -a with the numbers of the processors")


@dataclass
class _Builder:
    span: TimeSpan
    machine_cpus: Sequence[int]
    sections: list[Said] = field(default_factory=list)
    rows: dict[int, list[Row]] = field(default_factory=dict)
    workers: int = 0

    def add(self, part: _Part) -> None:
        target = part.targets[0].target
        slots = target.requests if target.parallel else 1
        for thread in part.threads:
            numbers = tuple(range(self.workers, self.workers + slots))
            self.workers += slots
            path = ", ".join(found.target.path for found in part.targets)
            total = sum(found.bytes for found in part.targets)
            row = Row(path, total, tuple(_zones(part.targets[0])), numbers)
            self.rows.setdefault(thread, []).append(row)
        section = self._section(part, slots)
        name = section.get("name")
        if name in {other.get("name") for other in self.sections}:
            section = section.but(name=f"{name} #{len(self.sections) + 1}")
        self.sections.append(section)

    def _section(self, part: _Part, slots: int) -> Said:
        span, first = self.span, part.targets[0]
        target = first.target
        fields: dict[str, Any] = {
            "name": ", ".join(found.target.path for found in part.targets),
            "clones": len(part.threads) * slots,
            "paths": tuple(found.path for found in part.targets),
            "offset": target.base_bytes,
            "depth": span.requests if span.shares_requests else 1 if target.parallel else target.requests,
            "blocks": PerKind.same(FixedBlocks(bytes=target.block_bytes)),
            "reads": target.write_percent < 100,
            "writes": target.write_percent > 0,
            "read_percent": 100.0 - target.write_percent,
            "runtime_ns": span.duration_s * SECOND_NS,
            "ramp_ns": span.warmup_s * SECOND_NS,
            "cooldown_ns": span.cooldown_s * SECOND_NS,
            "seed": span.seed,
            "cpus": self._cpus(part, slots),
        }
        if span.shares_requests:
            fields["file_select"] = "random"
        fields |= (
            _size(part)
            | _engine(first)
            | _order(first, part, slots)
            | _pace(target, _users(span, target), slots)
            | _payload(span, first)
        )
        return Said.of(**fields).at(_positions(span, target))

    def _cpus(self, part: _Part, slots: int) -> tuple[int, ...] | None:
        """Of each worker: threads take the processors in turn, unless that is switched off."""
        if self.span.affinity_disabled:
            return None
        cpus = [processor for _, processor in self.span.affinity] or self.machine_cpus
        return tuple(cpus[thread % len(cpus)] for thread in part.threads for _ in range(slots))


def _size(part: _Part) -> dict[str, Any]:
    first = part.targets[0]
    if first.is_created:
        end = first.target.base_bytes + first.region_bytes
        return {"create": True, "recreate": True, "file_bytes": (end, end)}
    return {"size": first.region_bytes * len(part.targets)} if _are_alike(part.targets) else {}


def _engine(found: Found) -> dict[str, Any]:
    target = found.target
    engine: EngineName = "nfs" if found.nfs_url else "mmap" if target.memory_mapped else "uring"
    fields: dict[str, Any] = {
        "engine": engine,
        "direct": target.cache != "cached",
        "durability": "data_sync" if target.write_through else "none",
    }
    if engine == "nfs":
        fields["nfs_url"] = found.nfs_url
    elif engine == "mmap":
        fields["engine_asked"] = "m"
    if target.flush and target.write_percent:
        fields["fdatasync_every"] = 1
    return fields


def _order(found: Found, part: _Part, slots: int) -> dict[str, Any]:
    target = found.target
    fields: dict[str, Any] = {}
    if target.random_percent:
        fields |= {"random": True, "random_percent": PerKind.same(target.random_percent)}
        if target.step_bytes != target.block_bytes:
            fields["align_bytes"] = PerKind.same(target.step_bytes)
        if target.spans:
            fields["distribution"] = PerKind.same(_distribution(found))
    if target.random_percent < 100:
        fields["gap_bytes"] = target.step_bytes - target.block_bytes
        fields["position"] = "job" if target.interlocked else "worker" if 0 < target.write_percent < 100 else "kind"
    if target.thread_stride_bytes and slots == 1:
        fields["start_increment_bytes"] = target.thread_stride_bytes
    elif target.thread_stride_bytes:
        fields["start_bytes"] = target.thread_stride_bytes * part.threads[0]
    return fields


def _zones(found: Found) -> list[Zone]:
    return zones_of(found.target, found.region_bytes) if found.target.spans else []


def _distribution(found: Found) -> ZonesSaid:
    """Zones one after another, those without operations between them."""
    zones = _zones(found)
    said: list[ZoneShare] = []
    place = 0
    for zone, percent in zip(zones, shares(zones), strict=True):
        if zone.start > place:
            said.append(ZoneShare(access_percent=0.0, size=zone.start - place))
        # A part without an offset of its own is one block.
        length = zone.length or found.target.step_bytes
        said.append(ZoneShare(access_percent=float(percent), size=min(length, found.region_bytes - zone.start)))
        place = max(place, zone.start + length)
    return ZonesSaid(zones=tuple(said))


def _users(span: TimeSpan, target: Target) -> int:
    """Threads that use a target."""
    return len(target.thread_weights) or span.threads or target.threads


def _pace(target: Target, threads: int, slots: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if target.iops:
        fields["rate_total_operations"] = target.iops / slots
    elif target.bytes_per_ms:
        fields["rate_total_bytes"] = max(1, target.bytes_per_ms * 1000 // slots)
    elif target.burst and target.think_ms:
        # A burst is that of all threads together.
        fields |= {
            "think_ns": target.think_ms * MILLISECOND_NS,
            "think_every": max(1, target.burst // threads // slots),
            "think_counts": "issued",
            "think_drains": False,
        }
    return fields


def _payload(span: TimeSpan, found: Found) -> dict[str, Any]:
    target = found.target
    if target.buffer_bytes:
        return {"payload_pool_bytes": target.buffer_bytes, "payload_pool_path": found.buffer_path}
    if target.zero_buffers:
        return {"payload_zero": True}
    return {"payload_refill": True} if span.random_write_data else {"payload_pattern": PATTERN}


_FIELDS = {
    "path": "paths",
    "create_bytes": "file_bytes",
    "end_bytes": "size",
    "base_bytes": "offset",
    "block_bytes": "blocks",
    "requests": "depth",
    "threads": "clones",
    "write_percent": "read_percent",
    "random_percent": "random",
    "spans": "distribution",
    "thread_stride_bytes": "start_increment_bytes",
    "cache": "direct",
    "write_through": "durability",
    "bytes_per_ms": "rate_total_bytes",
    "iops": "rate_total_operations",
    "think_ms": "think_ns",
    "zero_buffers": "payload_zero",
    "buffer_bytes": "payload_pool_bytes",
    "duration_s": "runtime_ns",
    "warmup_s": "ramp_ns",
    "cooldown_s": "cooldown_ns",
    "seed": "seed",
    "affinity": "cpus",
}
"""Which field of a section a field of a profile decides."""


def _positions(span: TimeSpan, target: Target) -> dict[str, Where]:
    said = {"name": target.where("path", "target")} | {
        _FIELDS[name]: place for name, place in span.said.items() if name in _FIELDS
    }
    said |= {_FIELDS[name]: place for name, place in target.said.items() if name in _FIELDS}
    return {name: place for name, place in said.items() if place is not None}
