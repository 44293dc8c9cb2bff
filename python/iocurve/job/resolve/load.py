"""What a worker does: operations, places, pace, flushes, payload and end."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from iocurve.engine import plan as planned
from iocurve.job.model import Percent, PerKind, Preference, Section, ZonesSaid, settled
from iocurve.job.resolve.blocks import kinds, largest_block, smallest_block
from iocurve.job.resolve.files import Region
from iocurve.units import SECOND_NS

_ENDLESS = 2**64 - 1

# -- operations --------------------------------------------------------------------------------------------------------


def operations(section: Section, regions: Sequence[Region]) -> tuple[planned.OperationPlan, ...]:
    """The kinds of operations with their weights, sizes and places."""
    blocks, percent = settled(section.blocks), int(settled(section.read_percent))
    mixed = section.reads and section.writes
    shares = {"read": percent if mixed else 100, "write": 100 - percent if mixed else 100, "trim": 100}
    used = kinds(section)
    places = settled(section.random_percent) if section.random else PerKind.same(0)
    aligned = section.align_bytes or PerKind.same(0)
    rates = {kind: _rate(section, kind) for kind in used}
    mix = tuple(
        planned.OperationPlan(
            kind=kind,
            share=shares[kind],
            blocks=getattr(blocks, kind),
            align_bytes=getattr(aligned, kind) if section.random else 0,
            random_percent=getattr(places, kind),
            distribution=_distribution(section, kind, regions),
            rate=rates[kind],
        )
        for kind in used
        if shares[kind] or any(rates.values())
    )
    flushes = section.replay_flushes or ()
    return (*mix, *(mix[0].replace(kind=kind) for kind in flushes))


def _distribution(section: Section, kind: str, regions: Sequence[Region]) -> planned.Distribution:
    preference: Preference = planned.Uniform()
    if section.random and section.distribution is not None:
        preference = getattr(section.distribution, kind)
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
    """Where the next operation goes."""
    # fio seeds its chance anew for each loop, but not where a time has passes follow one another.
    repeats = section.random and section.repeatable and section.seed is None
    repeats = repeats and not (section.time_based and section.runtime_ns)
    return planned.Access(
        cover=settled(section.cover) if section.random else "once",
        passes="same" if repeats or not section.random else "fresh",
        run_length=section.run_length or 1,
        gap_bytes=section.gap_bytes or 0,
        gap_spread_bytes=section.gap_spread_bytes or 0,
        at_end=section.at_end or "wrap",
        position=section.position or "kind",
        strided=_strided(section) if section.zone_bytes else None,
    )


def _strided(section: Section) -> planned.Strided:
    zone = settled(section.zone_bytes)
    return planned.Strided(
        range_bytes=section.zone_range_bytes or zone, zone_bytes=zone, skip_bytes=section.zone_skip_bytes or 0
    )


# -- pace --------------------------------------------------------------------------------------------------------------


def depth(section: Section) -> int:
    """In flight; engines that do one operation at a time run at 1."""
    return 1 if section.engine in ("sync", "mmap") else settled(section.depth)


def batch(section: Section) -> planned.Batch:
    """How operations are handed over and fetched."""
    least = section.batch_complete_min
    return planned.Batch(
        submit=section.batch_submit or 0,
        complete_min=1 if least is None else least,
        complete_max=section.batch_complete_max or 0,
        low=section.depth_low or 0,
    )


def total_rate(section: Section) -> planned.Rate | None:
    """A rate for all kinds together."""
    if section.rate_total_operations:
        rate = Fraction(section.rate_total_operations).limit_denominator(1_000_000)
        return _paced(section, "operations", rate)
    return _paced(section, "bytes", Fraction(section.rate_total_bytes)) if section.rate_total_bytes else None


def _rate(section: Section, kind: str) -> planned.Rate | None:
    for unit, rates in (("operations", section.rate_operations), ("bytes", section.rate_bytes)):
        count = getattr(rates, kind) if rates is not None else None
        if count:
            return _paced(section, unit, Fraction(count))
    return None


def _paced(section: Section, unit: str, per_second: Fraction) -> planned.Rate:
    return planned.Rate.from_builtins(
        {
            "unit": unit,
            "count": per_second.numerator,
            "per_ns": per_second.denominator * SECOND_NS,
            "arrivals": section.arrivals or "even",
        }
    )


def think(section: Section) -> planned.Think | None:
    """Pauses between operations."""
    if not section.think_ns:
        return None
    return planned.Think(
        pause_ns=section.think_ns,
        spin_ns=min(section.think_spin_ns or 0, section.think_ns),
        every=section.think_every or (0 if section.think_every_ns else 1),
        counts=section.think_counts or "completed",
        every_ns=section.think_every_ns or None,
        drains=section.think_drains is not False,
        moves_schedule=section.think_moves_schedule or False,
    )


def syncs(section: Section) -> tuple[planned.SyncPlan, ...]:
    """Flushes between writes."""
    asked: tuple[tuple[planned.SyncKind, int | None], ...] = (
        ("fsync", section.fsync_every),
        ("fdatasync", section.fdatasync_every),
        ("sync_file_range", section.sync_file_range_every),
    )
    return tuple(planned.SyncPlan(kind=kind, every=every) for kind, every in asked if every and section.writes)


def latency_target(section: Section) -> planned.LatencyTarget | None:
    """The search for a depth."""
    if not section.latency_target_ns:
        return None
    return planned.LatencyTarget(
        target_ns=section.latency_target_ns,
        window_ns=section.latency_window_ns or SECOND_NS,
        percentile=section.latency_percentile or 100,
        run_on=section.latency_run_on or False,
    )


def processors(section: Section, clone: int) -> tuple[int, ...]:
    """Those a worker may run on."""
    cpus = section.cpus or ()
    return (cpus[clone % len(cpus)],) if section.cpus_split and cpus else cpus


# -- end ---------------------------------------------------------------------------------------------------------------


def end(section: Section, regions: Sequence[Region]) -> planned.End:
    """What ends a worker."""
    runtime = section.runtime_ns or None
    if section.replay:
        return planned.End(runtime_ns=runtime, bytes=None, operations=section.replay.records, when_full=False)
    if section.time_based and runtime:
        return planned.End(runtime_ns=runtime, bytes=None, operations=None, when_full=bool(section.until_full))
    loops = settled(section.loops)
    # A block that is trimmed and then written counts twice.
    each = 2 if section.trims and section.writes else 1
    operations = min(section.operations * loops * each, _ENDLESS) if section.operations else None
    transferred = min(_bytes_to_transfer(section, regions, loops) * each, _ENDLESS)
    if section.until_full and not section.size and not section.file_bytes:
        transferred = section.transfer if isinstance(section.transfer, int) else 0
    return planned.End(
        runtime_ns=runtime, bytes=transferred or None, operations=operations, when_full=bool(section.until_full)
    )


def _bytes_to_transfer(section: Section, regions: Sequence[Region], loops: int) -> int:
    """A pass over the whole blocks of all regions per loop; an amount to transfer ends a pass early or adds to it."""
    block = smallest_block(section)
    whole = sum(_pass_bytes(section, region.bytes, block) for region in regions)
    if isinstance(section.transfer, Percent):
        whole, transfer = whole * (section.transfer.percent or 100) // 100, 0
    else:
        transfer = section.transfer or 0
    if isinstance(section.size, int) and section.size:
        whole = min(whole, section.size)
    return max(loops * min(whole, transfer), transfer) if transfer else loops * whole


def verify(section: Section, regions: Sequence[Region], ending: planned.End) -> planned.Verify | None:
    """Each of several loops is read back by itself."""
    if section.verify is None or section.verify.map or ending.bytes is None:
        return section.verify
    loop = _bytes_to_transfer(section, regions, 1)
    return section.verify.replace(pass_bytes=loop if loop < ending.bytes else None)


def log(section: Section, ending: planned.End) -> planned.LogPlan | None:
    """Not more records than there can be."""
    if section.log is None:
        return None
    window, most = section.log.window_ns, section.log.records
    if section.replay and window is None:
        most = section.replay.records
    elif window and ending.runtime_ns:
        most = (ending.runtime_ns // window + 2) * len(kinds(section))
    elif window is None and ending.bytes:
        most = ending.bytes // smallest_block(section) + 1
    return section.log.replace(records=min(most, section.log.records))


def _pass_bytes(section: Section, region_bytes: int, block: int) -> int:
    """What one pass transfers: with steps that lead exactly to the end of the region, fio ends there; others wrap."""
    gap = 0 if section.random else section.gap_bytes or 0
    if gap > 0 and largest_block(section) == block and (region_bytes - block) % (block + gap) == 0:
        return ((region_bytes - block) // (block + gap) + 1) * block
    return region_bytes - region_bytes % block


# -- payload -----------------------------------------------------------------------------------------------------------


def payload(section: Section) -> planned.Payload:
    """What is written."""
    content = _content(section)
    scrambles = (
        isinstance(content, planned.RandomContent) if section.payload_scramble is None else section.payload_scramble
    )
    return planned.Payload(
        content=content,
        renew="refill" if section.payload_refill else "scramble" if scrambles else "keep",
        compress_percent=section.payload_compress_percent or 0,
        compress_chunk_bytes=section.payload_compress_chunk_bytes or 0,
        dedupe_percent=section.payload_dedupe_percent or 0,
    )


def _content(section: Section) -> planned.Content:
    """As in fio, a share to compress is filled up with a pattern or zeros, and what is only deduplicated is random."""
    compresses, dedupes = section.payload_compress_percent, section.payload_dedupe_percent
    if section.payload_pattern and (compresses or not dedupes):
        return planned.PatternContent(bytes=section.payload_pattern)
    if section.payload_pool_bytes:
        return planned.PoolContent(bytes=section.payload_pool_bytes, path=section.payload_pool_path)
    return planned.ZeroContent() if section.payload_zero and not (compresses or dedupes) else planned.RandomContent()
