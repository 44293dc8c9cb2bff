"""The load of a worker: operations, offsets, pace, flushes, payload and end."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from iocurve.engine import plan as planned
from iocurve.engine.derived import block_bytes_min
from iocurve.foundation.units import SECOND_NS
from iocurve.job.model import Data, Pace, Percent, PerKind, Section, ZonesSaid
from iocurve.job.resolve.files import Region

Regions = Sequence[Region] | Sequence[planned.FilePlan]

_ENDLESS = 2**64 - 1

# -- operations --------------------------------------------------------------------------------------------------------


def operations(section: Section, regions: Regions) -> tuple[planned.OperationPlan, ...]:
    """The kinds of operations with their weights, sizes and offsets."""
    load, percent = section.load, int(section.load.read_percent)
    mixed = load.reads and load.writes
    shares = {"read": percent if mixed else 100, "write": 100 - percent if mixed else 100, "trim": 100}
    used = section.load.kinds()
    places = load.random_percent if load.random else PerKind.same(0)
    rates = {kind: _rate(section.pace, kind) for kind in used}
    mix = tuple(
        planned.OperationPlan(
            kind=kind,
            share=shares[kind],
            blocks=load.blocks.of(kind),
            align_bytes=load.align_bytes.of(kind) if load.random else 0,
            random_percent=places.of(kind),
            distribution=_distribution(section, kind, regions),
            rate=rates[kind],
        )
        for kind in used
        if shares[kind] or any(rates.values())
    )
    return (*mix, *(mix[0].replace(kind=kind) for kind in load.replay_flushes))


def _distribution(section: Section, kind: str, regions: Regions) -> planned.Distribution:
    if not section.load.random:
        return planned.Uniform()
    preference = section.load.distribution.of(kind)
    return _zones(preference, regions[0].bytes) if isinstance(preference, ZonesSaid) else preference


def _zones(said: ZonesSaid, region_bytes: int) -> planned.Zones:
    zones, offset = [], 0
    for share in said.zones:
        size = share.size
        length = region_bytes * size.percent // 100 if isinstance(size, Percent) else size
        zones.append(planned.Zone(access_percent=share.access_percent, offset_bytes=offset, bytes=length))
        offset += length
    return planned.Zones(zones=tuple(zones))


def access(section: Section) -> planned.Access:
    """Order of the offsets."""
    load = section.load
    # fio restarts its random generator for each loop, but not for the passes of a time-based job.
    repeats = load.random and section.data.repeatable and section.data.seed is None
    repeats = repeats and not (section.ending.time_based and section.ending.runtime_ns)
    strided = None
    if load.zone_bytes:
        strided = planned.Strided(
            range_bytes=load.zone_range_bytes or load.zone_bytes,
            zone_bytes=load.zone_bytes,
            skip_bytes=load.zone_skip_bytes,
        )
    return planned.Access(
        cover=load.cover if load.random else "once",
        passes="same" if repeats or not load.random else "fresh",
        run_length=load.run_length,
        gap_bytes=load.gap_bytes,
        gap_spread_bytes=load.gap_spread_bytes,
        at_end=load.at_end,
        short_last_block=load.short_last_block,
        position=load.position,
        strided=strided,
    )


# -- pace --------------------------------------------------------------------------------------------------------------


def depth(section: Section) -> int:
    """Queue depth; synchronous engines run at 1."""
    return 1 if section.target.engine in ("sync", "mmap") else section.pace.depth


def batch(pace: Pace) -> planned.Batch:
    """Batch sizes of submission and completion."""
    return planned.Batch(
        submit=pace.batch_submit,
        complete_min=pace.batch_complete_min,
        complete_max=pace.batch_complete_max,
        low=pace.depth_low,
    )


def total_rate(pace: Pace) -> planned.Rate | None:
    """The rate of all kinds together."""
    if pace.rate_total_operations:
        return _paced(pace, "operations", Fraction(pace.rate_total_operations).limit_denominator(1_000_000))
    return _paced(pace, "bytes", Fraction(pace.rate_total_bytes)) if pace.rate_total_bytes else None


def _rate(pace: Pace, kind: str) -> planned.Rate | None:
    if count := pace.rate_operations.of(kind):
        return _paced(pace, "operations", Fraction(count))
    if count := pace.rate_bytes.of(kind):
        return _paced(pace, "bytes", Fraction(count))
    return None


def _paced(pace: Pace, unit: Literal["operations", "bytes"], per_second: Fraction) -> planned.Rate:
    return planned.Rate(
        unit=unit, count=per_second.numerator, per_ns=per_second.denominator * SECOND_NS, arrivals=pace.arrivals
    )


def think(pace: Pace) -> planned.Think | None:
    """Pauses between operations."""
    if not pace.think_ns:
        return None
    return planned.Think(
        pause_ns=pace.think_ns,
        spin_ns=min(pace.think_spin_ns, pace.think_ns),
        every=pace.think_every or (0 if pace.think_every_ns else 1),
        counts=pace.think_counts,
        every_ns=pace.think_every_ns or None,
        drains=pace.think_drains,
        moves_schedule=pace.think_moves_schedule,
    )


def syncs(section: Section) -> tuple[planned.SyncPlan, ...]:
    """Flushes between writes."""
    if not section.load.writes:
        return ()
    asked: tuple[tuple[planned.SyncKind, int], ...] = (
        ("fsync", section.pace.fsync_every),
        ("fdatasync", section.pace.fdatasync_every),
        ("sync_file_range", section.pace.sync_file_range_every),
    )
    return tuple(planned.SyncPlan(kind=kind, every=every) for kind, every in asked if every)


def latency_target(pace: Pace) -> planned.LatencyTarget | None:
    """The search for the depth that a latency allows."""
    if not pace.latency_target_ns:
        return None
    return planned.LatencyTarget(
        target_ns=pace.latency_target_ns,
        window_ns=pace.latency_window_ns,
        percentile=pace.latency_percentile,
        run_on=pace.latency_run_on,
    )


def processors(section: Section, jobnum: int) -> tuple[int, ...]:
    """Processors that a worker may run on."""
    cpus = section.cpus
    return (cpus[jobnum % len(cpus)],) if section.cpus_split and cpus else cpus


# -- end ---------------------------------------------------------------------------------------------------------------


def end(section: Section, regions: Regions) -> planned.End:
    """Conditions that end a worker."""
    if section.ending.only_lays_out:
        return planned.End(runtime_ns=None, bytes=None, operations=0)
    runtime, when_full = section.ending.runtime_ns or None, section.files.until_full
    if section.load.replay:
        return planned.End(runtime_ns=runtime, bytes=None, operations=section.load.replay.records)
    if section.ending.endless or (section.ending.time_based and runtime):
        return planned.End(runtime_ns=runtime, bytes=None, operations=None, when_full=when_full)
    loops = section.ending.loops
    # A block that is trimmed and then written counts twice.
    each = 2 if section.load.trims and section.load.writes else 1
    operations = min(section.ending.operations * loops * each, _ENDLESS)
    transferred = min(_bytes_to_transfer(section, regions, loops) * each, _ENDLESS)
    if when_full and not section.files.size and not section.files.file_bytes:
        transferred = section.ending.transfer if isinstance(section.ending.transfer, int) else 0
    return planned.End(
        runtime_ns=runtime, bytes=transferred or None, operations=operations or None, when_full=when_full
    )


def _bytes_to_transfer(section: Section, regions: Regions, loops: int) -> int:
    """Bytes of ``loops`` passes over the whole blocks of all regions; ``transfer`` shortens or extends them."""
    block, size, transfer = section.load.smallest_block(), section.files.size, section.ending.transfer or 0
    whole = sum(_pass_bytes(section, region.bytes, block) for region in regions)
    if isinstance(transfer, Percent):
        whole, transfer = whole * (transfer.percent or 100) // 100, 0
    if isinstance(size, int) and size:
        whole = min(whole, size)
    return max(loops * min(whole, transfer), transfer) if transfer else loops * whole


def verify(section: Section, regions: Regions, ending: planned.End) -> planned.Verify | None:
    """Verification; each loop is read back by itself."""
    said = section.data.verify
    if said is None or said.map or ending.bytes is None:
        return said
    loop = _bytes_to_transfer(section, regions, 1)
    return said.replace(pass_bytes=loop if loop < ending.bytes else None)


_SPARE_RECORDS = 1024
"""For operations that are shorter than the smallest block, at the ends of regions."""


def log(section: Section, ending: planned.End) -> planned.LogPlan | None:
    """The log, with room for no more records than the load can produce."""
    asked = section.report.log
    if asked is None:
        return None
    window, most = asked.window_ns, asked.records
    verifies = bool(section.data.verify and section.load.writes)
    if section.load.replay and window is None:
        most = section.load.replay.records
    elif window and ending.runtime_ns and not verifies:
        most = (ending.runtime_ns // window + 2) * len(section.load.kinds())
    elif window is None and ending.bytes:
        operations = ending.bytes // section.load.smallest_block() + _SPARE_RECORDS
        # Verification reads each block that was written.
        most = operations * 2 if verifies else operations
    return asked.replace(records=min(most, asked.records))


def _pass_bytes(section: Section, region_bytes: int, block: int) -> int:
    """Bytes of one pass. fio ends a pass if its steps lead exactly to the end of the region; otherwise it wraps."""
    gap = 0 if section.load.random else section.load.gap_bytes
    if gap > 0 and section.load.largest_block() == block and (region_bytes - block) % (block + gap) == 0:
        return ((region_bytes - block) // (block + gap) + 1) * block
    return region_bytes - region_bytes % block


# -- payload -----------------------------------------------------------------------------------------------------------


def payload(section: Section, regions: Regions) -> planned.Payload:
    """Data that are written."""
    data = section.data
    content = _content(data)
    scrambles = data.payload_scramble
    if scrambles is None:
        scrambles = isinstance(content, planned.RandomContent)
    return planned.Payload(
        content=content,
        renew="refill" if data.payload_refill else "scramble" if scrambles else "keep",
        compress_percent=data.payload_compress_percent,
        compress_chunk_bytes=data.payload_compress_chunk_bytes,
        dedupe_percent=data.payload_dedupe_percent,
        dedupe_set_blocks=_set_blocks(section, regions),
    )


def _set_blocks(section: Section, regions: Regions) -> int:
    percent = section.data.payload_dedupe_set_percent
    if not (percent and section.data.payload_dedupe_percent):
        return 0
    written = sum(region.bytes for region in regions) * percent // 100
    return max(1, written // block_bytes_min(section.load.blocks.write))


def _content(data: Data) -> planned.Content:
    """As in fio, the compressible share is a pattern or zeros, and data that are only deduplicated are random."""
    compresses, dedupes = data.payload_compress_percent, data.payload_dedupe_percent
    if data.payload_pattern and (compresses or not dedupes):
        return planned.PatternContent(bytes=data.payload_pattern)
    if data.payload_pool_bytes:
        return planned.PoolContent(bytes=data.payload_pool_bytes, path=data.payload_pool_path)
    return planned.ZeroContent() if data.payload_zero and not (compresses or dedupes) else planned.RandomContent()
