"""Turns a time span into a job: each thread is one worker on each target, with -o as its queue depth.

``WORDS`` has DiskSpd's names for the fields of a section.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import mul
from pathlib import Path

import msgspec

from iocurve.dialects.diskspd.read.profile import TargetParameters, TimeSpan, flags
from iocurve.dialects.diskspd.read.rules import Findings
from iocurve.dialects.diskspd.read.values import OffsetZone
from iocurve.dialects.diskspd.targets import ResolvedTarget, resolve_target, shares, zones_of
from iocurve.engine.plan import FixedBlocks, Plan
from iocurve.foundation.errors import Where
from iocurve.foundation.units import MILLISECOND_NS, SECOND_NS
from iocurve.job.model import EngineName, Fields, Job, PerKind, Said, Words, ZoneShare, ZonesSaid
from iocurve.job.resolve import PathFacts
from iocurve.job.resolve.checks import MAX_WORKERS

_FIELDS = {
    "path": "paths", "create_bytes": "file_bytes", "end_bytes": "size", "base_bytes": "offset",
    "block_bytes": "blocks", "requests": "depth", "threads": "numjobs", "write_percent": "read_percent",
    "random_percent": "random", "spans": "distribution", "thread_stride_bytes": "start_increment_bytes",
    "cache": "direct", "write_through": "durability", "bytes_per_ms": "rate_total_bytes",
    "iops": "rate_total_operations", "think_ms": "think_ns", "zero_buffers": "payload_zero",
    "buffer_bytes": "payload_pool_bytes", "duration_s": "runtime_ns", "warmup_s": "ramp_ns",
    "cooldown_s": "cooldown_ns", "seed": "seed", "affinity": "cpus",
}  # fmt: skip
"""For a field of a profile the section's field that it sets."""
WORDS = Words(
    names={
        **{_FIELDS[name]: f"-{letter}" for _, name, letter, _ in flags() if name in _FIELDS},
        **dict.fromkeys(("engine", "direct"), "-S"),
        **dict.fromkeys(("reads", "writes"), "-w"),
        **dict.fromkeys(("random", "align_bytes"), "-r"),
        **dict.fromkeys(("rate_total_operations", "rate_total_bytes"), "-g"),
        **dict.fromkeys(("payload_zero", "payload_pool_bytes"), "-Z"),
        "paths": "the target",
        "size": "-f",
        "offset": "-B",
        "random_percent": "-rs",
        "distribution": "-rd",
        "gap_bytes": "-s",
        "repeatable": "-z",
        "cpus": "-a",
    },
    joint="",
    asks={"direct": "-Su", "repeat": "seed 0", "no repeat": "-z", "no create": "no -c", "size": "-c1G"},
    worker="thread",
)


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
"""DiskSpd's defaults."""

PATTERN = bytes(range(256)).hex()
"""The bytes DiskSpd writes by default: 0, 1, 2, …, 255, repeated."""


class ThreadRow(msgspec.Struct, frozen=True):
    """One thread on one target: a row of DiskSpd's results."""

    path: str
    bytes: int
    """Size of the file."""
    zones: tuple[OffsetZone, ...]
    """The effective distribution (-rd); offsets count from the start of the region."""
    workers: tuple[int, ...]
    """Indexes of the workers in the plan. With -p there is one worker per operation in flight."""


Threads = tuple[tuple[ThreadRow, ...], ...]
"""For each DiskSpd thread its rows; a row specifies the workers of the plan that make it up."""


class PreparedSpan(msgspec.Struct, frozen=True):
    """A time span with its job and plan."""

    span: TimeSpan
    job: Job
    plan: Plan
    threads: Threads


def build(
    span: TimeSpan,
    number: int | None,
    stat: Callable[[str], PathFacts],
    cpus: Sequence[int],
    directory: Path,
    findings: Findings,
) -> tuple[Job, Threads] | None:
    """Builds the job of a time span, the ``number``-th if there are several; with the rows of each thread.

    Returns None and adds errors to ``findings`` if the time span cannot run. ``cpus`` are those of the machine.
    """
    _check_processors(span, findings)
    _check_workers(span, findings)
    found = [resolve_target(target, span, stat, directory, findings) for target in span.targets]
    targets = [one for one in found if one is not None]
    if len(targets) < len(found) or findings.errors:
        return None
    parts = list(_parts(span, targets, findings))
    if findings.errors:
        return None
    builder = _JobBuilder(span, cpus)
    for part in parts:
        builder.add(part)
    name = " ".join(dict.fromkeys(target.path for target in span.targets))
    job = Job.of(name if number is None else f"{name} ({number})", WORDS, builder.sections, DEFAULTS)
    threads = span.threads or sum(target.threads for target in span.targets)
    return job, tuple(tuple(builder.rows.get(thread, ())) for thread in range(threads))


class _ThreadSet(msgspec.Struct, frozen=True):
    """Threads with the same load on the same targets."""

    threads: Sequence[int]
    """Thread numbers."""
    targets: Sequence[ResolvedTarget]
    """With -O several: the threads choose one of them for each operation."""


def _parts(span: TimeSpan, targets: Sequence[ResolvedTarget], findings: Findings) -> Iterator[_ThreadSet]:
    if span.shares_requests:
        yield from _pools(span, targets, findings)
        return
    first = 0
    for found in targets:
        count = span.threads or found.target.threads
        threads = range(count) if span.threads else range(first, first + count)
        first += count
        if found.target.parallel and found.target.thread_stride_bytes:
            # All operations in flight of a thread start at the thread's own offset.
            yield from (_ThreadSet((thread,), (found,)) for thread in threads)
        else:
            yield _ThreadSet(threads, (found,))


def _pools(span: TimeSpan, targets: Sequence[ResolvedTarget], findings: Findings) -> Iterator[_ThreadSet]:
    """Groups the threads of a pool by the targets they use."""
    pools: dict[tuple[int, ...], list[int]] = {}
    for thread in range(span.threads):
        weights = (found.target.thread_weights for found in targets)
        used = tuple(index for index, of in enumerate(weights) if not of or thread in dict(of))
        pools.setdefault(used, []).append(thread)
    for used, threads in pools.items():
        chosen = [targets[index] for index in used]
        if not chosen:
            continue
        _check_pool(chosen, threads, findings)
        yield _ThreadSet(threads, chosen)


def _check_pool(chosen: Sequence[ResolvedTarget], threads: Sequence[int], findings: Findings) -> None:
    """Refuses pools that one worker over several targets cannot run."""
    first, where = chosen[0], chosen[-1].target.where("weight", "ThreadTargets", "target", "path")
    weights = {_weight(found.target, thread) for found in chosen for thread in threads}
    if len(weights) > 1:
        findings.error("targets of different weights cannot be run yet", where, "give all targets the same <Weight>")
    if any(_load(found.target) != _load(first.target) for found in chosen):
        text = "with -O (<RequestCount> of a time span) targets with different loads cannot be run yet"
        findings.error(text, where, "give each target its own <RequestCount> instead")
    kinds = {(found.nfs_url, found.is_created) for found in chosen}
    if len(kinds) > 1 or not (_are_alike(chosen) or all(map(_is_used_whole, chosen))):
        text = "with -O parts of targets of different sizes or kinds cannot be run yet"
        findings.error(text, where, "give them equal sizes with -c or -f, or set the queue depth with -o")


def _are_alike(chosen: Sequence[ResolvedTarget]) -> bool:
    return len({found.region_bytes for found in chosen}) == 1


def _is_used_whole(found: ResolvedTarget) -> bool:
    """True if the region runs from the base offset to the end of the target, whatever its size."""
    is_to_its_end = found.region_bytes == found.bytes - found.target.base_bytes
    return is_to_its_end and not found.is_created and not found.nfs_url and not found.target.spans


def _weight(target: TargetParameters, thread: int) -> int:
    return next((weight for number, weight in target.thread_weights if number == thread and weight), target.weight)


def _load(target: TargetParameters) -> tuple[object, ...]:
    """The fields of a target that must be equal for one worker to use both."""
    fields = vars(target) | {"path": None, "positions": None, "thread_weights": None, "weight": None, "requests": None}
    return tuple(fields.items())


def _check_workers(span: TimeSpan, findings: Findings) -> None:
    """Limits the number of workers before any object is created per worker."""
    slots = [target.requests if target.parallel else 1 for target in span.targets]
    threads = [span.threads or target.threads for target in span.targets]
    workers = span.threads if span.shares_requests else sum(map(mul, threads, slots))
    if workers > MAX_WORKERS:
        where = span.where("threads") or span.targets[0].where("threads", "requests")
        findings.error(f"{workers} workers are too many; {MAX_WORKERS} can run at once", where, "use fewer threads")


def _check_processors(span: TimeSpan, findings: Findings) -> None:
    groups = sorted({group for group, _ in span.affinity} - {0})
    if groups:
        text = f"there is no processor group {groups[0]}: on Linux all processors are in group 0"
        findings.error(text, span.where("affinity"), "write -a with the numbers of the processors")


class _JobBuilder(msgspec.Struct):
    span: TimeSpan
    machine_cpus: Sequence[int]
    sections: list[Said] = msgspec.field(default_factory=list)
    rows: dict[int, list[ThreadRow]] = msgspec.field(default_factory=dict)
    workers: int = 0

    def add(self, part: _ThreadSet) -> None:
        target = part.targets[0].target
        slots = target.requests if target.parallel else 1
        for thread in part.threads:
            numbers = tuple(range(self.workers, self.workers + slots))
            self.workers += slots
            path = ", ".join(found.target.path for found in part.targets)
            total = sum(found.bytes for found in part.targets)
            row = ThreadRow(path, total, tuple(_zones(part.targets[0])), numbers)
            self.rows.setdefault(thread, []).append(row)
        section = self._section(part, slots)
        name = section.get("name")
        if name in {other.get("name") for other in self.sections}:
            section = section.but(name=f"{name} #{len(self.sections) + 1}")
        self.sections.append(section)

    def _section(self, part: _ThreadSet, slots: int) -> Said:
        span, first = self.span, part.targets[0]
        target = first.target
        fields: Fields = {
            "name": ", ".join(found.target.path for found in part.targets),
            "numjobs": len(part.threads) * slots,
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
            | _pace(target, len(target.thread_weights) or span.threads or target.threads, slots)
            | _payload(span, first)
        )
        return Said.of(**fields).at(_positions(span, target))

    def _cpus(self, part: _ThreadSet, slots: int) -> tuple[int, ...] | None:
        """The processor of each worker: threads are bound round robin. None with -n."""
        if self.span.affinity_disabled:
            return None
        cpus = [processor for _, processor in self.span.affinity] or self.machine_cpus
        return tuple(cpus[thread % len(cpus)] for thread in part.threads for _ in range(slots))


def _size(part: _ThreadSet) -> Fields:
    first = part.targets[0]
    if first.is_created:
        end = first.target.base_bytes + first.region_bytes
        return {"create": True, "recreate": True, "file_bytes": (end, end)}
    return {"size": first.region_bytes * len(part.targets)} if _are_alike(part.targets) else {}


def _engine(found: ResolvedTarget) -> Fields:
    target = found.target
    engine: EngineName | None = "nfs" if found.nfs_url else "mmap" if target.memory_mapped else None
    fields: Fields = {
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


def _order(found: ResolvedTarget, part: _ThreadSet, slots: int) -> Fields:
    target = found.target
    fields: Fields = {}
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


def _zones(found: ResolvedTarget) -> list[OffsetZone]:
    return zones_of(found.target, found.region_bytes) if found.target.spans else []


def _distribution(found: ResolvedTarget) -> ZonesSaid:
    """The zones in order, with gaps filled by zones without operations."""
    zones = _zones(found)
    zone_shares: list[ZoneShare] = []
    next_offset = 0
    for zone, percent in zip(zones, shares(zones), strict=True):
        if zone.start > next_offset:
            zone_shares.append(ZoneShare(access_percent=0.0, size=zone.start - next_offset))
        # A part too small for a separate offset is one block.
        length = zone.length or found.target.step_bytes
        size = min(length, found.region_bytes - zone.start)
        zone_shares.append(ZoneShare(access_percent=float(percent), size=size))
        next_offset = max(next_offset, zone.start + length)
    return ZonesSaid(zones=tuple(zone_shares))


def _pace(target: TargetParameters, threads: int, slots: int) -> Fields:
    fields: Fields = {}
    if target.iops:
        fields["rate_total_operations"] = target.iops / slots
    elif target.bytes_per_ms:
        fields["rate_total_bytes"] = max(1, target.bytes_per_ms * 1000 // slots)
    elif target.burst and target.think_ms:
        # -i counts the operations of all threads together.
        fields |= {
            "think_ns": target.think_ms * MILLISECOND_NS,
            "think_every": max(1, target.burst // threads // slots),
            "think_counts": "issued",
            "think_drains": False,
        }
    return fields


def _payload(span: TimeSpan, found: ResolvedTarget) -> Fields:
    target = found.target
    if target.buffer_bytes:
        return {"payload_pool_bytes": target.buffer_bytes, "payload_pool_path": found.buffer_path}
    if target.zero_buffers:
        return {"payload_zero": True}
    return {"payload_refill": True} if span.random_write_data else {"payload_pattern": PATTERN}


def _positions(span: TimeSpan, target: TargetParameters) -> dict[str, Where]:
    positions = {"name": target.where("path", "target")} | {
        _FIELDS[name]: where for name, where in span.positions.items() if name in _FIELDS
    }
    positions |= {_FIELDS[name]: where for name, where in target.positions.items() if name in _FIELDS}
    return {name: where for name, where in positions.items() if where is not None}
