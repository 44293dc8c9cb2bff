"""The region of an SD that a workload accesses, and its offset distribution: range, hotband, hitarea, streams."""

from __future__ import annotations

from bisect import bisect_right
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from random import Random

from iocurve.dialects.vdbench.planned import Placement
from iocurve.dialects.vdbench.read.values import band_bytes
from iocurve.engine.plan import Uniform
from iocurve.foundation.errors import Diagnostic, Where
from iocurve.job.model import Fields, PerKind, Preference, ZoneShare, ZonesSaid


def offset_fields(
    placement: Placement, hitarea: int, whole: int, block: int, rng: Random, errors: list[Diagnostic]
) -> Fields:
    """The region and the offset distribution of a workload on its SD, as fields of a section.

    ``whole`` is the size of the SD, ``block`` the largest transfer; ``rng`` draws the start of seqnz.
    """
    workload, storage, where = placement.workload, placement.storage[0], _where(placement)
    # Block 0 of a device holds its label: vdbench never accesses it, whatever the transfer size.
    start = storage.offset + (block if is_device(placement.luns[0]) else 0)
    band = workload.hotband or workload.band or storage.range
    low, end = band_bytes(band, whole) if band else (0, whole)
    if end > whole and band and not (band[1] <= 200 and not workload.hotband and workload.seek.percent == 100):
        text = "beyond the end of the SD only range= in percent is supported, with a purely random workload"
        errors.append(Diagnostic(text, where))
        return {}
    wraps = end > whole > 0
    fields = _region(start if wraps else max(start, _align_down(low, block)), whole if wraps else end)
    region = fields.get("file_bytes", (0, 0))[0] - fields["offset"]
    if wraps:
        fields["distribution"] = PerKind.same(_wrapped(low - start, end - whole - start, region))
    fields |= _distribution(placement, hitarea, region, block, errors, wraps=wraps)
    if placement.streams > 1:
        fields |= _stream(placement, fields["offset"], region, block)
    # The start is in the part of the stream.
    length = region // placement.streams
    if workload.seek.starts_anywhere and length > block:
        fields["start_bytes"] = rng.randrange(1, max(2, length // block)) * block
    return fields


def _where(placement: Placement) -> Where:
    return placement.workload.position_of("range", "hotband", "rhpct", "whpct")


def is_device(name: str) -> bool:
    """True if the name is that of a device; vdbench, too, decides by name."""
    return name.startswith(("/dev/", "\\"))


def _distribution(
    placement: Placement, hitarea: int, region: int, block: int, errors: list[Diagnostic], *, wraps: bool
) -> Fields:
    """Distribution of a hotband or a hit area."""
    workload = placement.workload
    hits = bool(workload.read_hits or workload.write_hits) and workload.seek.percent > 0
    if hits and (wraps or workload.hotband):
        text = "rhpct= and whpct= are not supported yet with this range or hotband"
        errors.append(Diagnostic(text, _where(placement)))
    if workload.hotband and not wraps:
        return _hot_zones(_where(placement), region, block, errors)
    return _hit_zones(placement, hitarea, region, block, errors) if hits and not wraps else {}


def _hit_zones(placement: Placement, hitarea: int, region: int, block: int, errors: list[Diagnostic]) -> Fields:
    area = _align_down(hitarea, block)
    if area < 4 * block or region - area < 4 * block:
        text = (
            f"the hit area ({hitarea} bytes) and the rest of the region ({region - hitarea} bytes) must "
            "each hold at least four transfers"
        )
        errors.append(Diagnostic(text, _where(placement), "use a smaller hitarea= or a larger size="))
        return {}

    def zones(percent: Decimal) -> Preference:
        shares = (ZoneShare(access_percent=float(percent), size=area),)
        return ZonesSaid(zones=(*shares, ZoneShare(access_percent=float(100 - percent), size=region - area)))

    read, write = zones(placement.workload.read_hits), zones(placement.workload.write_hits)
    return {"distribution": PerKind[Preference](read=read, write=write, trim=Uniform())}


def _hot_zones(where: Where, region: int, block: int, errors: list[Diagnostic]) -> Fields:
    if region < max(MIN_BAND_BYTES, block * 100):
        needs = f"a hotband needs at least {MIN_BAND_BYTES} bytes and room for 100 transfers"
        errors.append(Diagnostic(f"{needs}; this one has {region} bytes", where))
        return {}
    read, write = (hotband(region, block, writes=writes) for writes in (False, True))
    return {"distribution": PerKind[Preference](read=read, write=write, trim=Uniform())}


def _stream(placement: Placement, offset: int, region: int, block: int) -> Fields:
    length = _align_down(region // placement.streams, block)
    end = offset + (placement.stream + 1) * length
    return {"offset": offset + placement.stream * length, "file_bytes": (end, end)}


def _region(start: int, end: int) -> Fields:
    """Offset and end of the region; without an end the size of the file applies."""
    return {"offset": start} | ({"file_bytes": (end, end)} if end else {})


def _wrapped(low: int, wrapped: int, region: int) -> Preference:
    """Distribution over the last and the first part of the region, weighted by their sizes."""
    first, last = max(0, wrapped), region - low
    share = 100 * first / max(1, first + last)
    return ZonesSaid(
        zones=(
            ZoneShare(access_percent=float(share), size=first),
            ZoneShare(access_percent=0.0, size=region - first - last),
            ZoneShare(access_percent=100.0 - share, size=last),
        )
    )


def _align_down(size: int, block: int) -> int:
    return size - size % block


# -- hotband -----------------------------------------------------------------------------------------------------------
#
# vdbench draws a distance from a cache-like distribution: one share of the operations falls into the first 16,000
# bytes, another into the next 16,000, the others into ranges that double. A distance beyond the end of the band wraps
# to its start; writes are shifted by one hundredth of the band. The density is piecewise constant, so zones represent
# it exactly.

_STEP_BYTES = 16_000
_CUMULATIVE_SHARES = (
    *(0.087217, 0.10101, 0.132206, 0.159946, 0.201713, 0.262602, 0.32645, 0.366902, 0.386175, 0.436941),
    *(0.482631, 0.523752, 0.56076, 0.594068, 0.624045, 0.651024, 0.675305, 0.697159, 0.716827, 0.734528),
    *(0.750459, 0.764797, 0.777701, 0.789314, 0.799767, 0.809174, 0.81764),
)
"""Cumulative share of the operations within 16,000 bytes, 32,000, 64,000, … in vdbench 5.04.06."""
_BEYOND_BYTES = 239_475_000_000
"""Length of the range after the last of these, over which the remaining operations are uniform."""
_STEPS = [_STEP_BYTES << number for number in range(len(_CUMULATIVE_SHARES))]
_POSITIONS = [0, *_STEPS, _STEPS[-1] + _BEYOND_BYTES]
"""Distances at which the density changes."""
_MEGABYTE = 1_000_000
MIN_BAND_BYTES = _MEGABYTE


@lru_cache(maxsize=1024)
def hotband(band: int, block: int, *, writes: bool) -> Preference:
    """Zones of a band of ``band`` bytes, aligned to ``block``, with the share of the operations in each."""
    count = band // _MEGABYTE * _MEGABYTE // block
    shift = count // 100 if writes else 0
    edges = sorted(
        {
            0,
            count,
            *(edge for position in _POSITIONS for edge in _block_edges(position % (count * block), block, count)),
        }
    )
    if shift:
        edges = sorted({0, count, *((edge + shift) % count for edge in edges)})
    zones = []
    for first, end in pairwise(edges):
        start = (first - shift) % count
        share = _share_between(start * block, (start + end - first) * block, count * block)
        zones.append(ZoneShare(access_percent=100.0 * share, size=(end - first) * block))
    rest = band - count * block
    return ZonesSaid(zones=(*zones, *([ZoneShare(access_percent=0.0, size=rest)] if rest else [])))


def _block_edges(position: int, block: int, count: int) -> tuple[int, ...]:
    """Edges of the block that contains a change of density; the block is a separate zone."""
    return tuple(edge for edge in (position // block, -(-position // block)) if 0 <= edge <= count)


def _share_between(start: int, end: int, band: int) -> float:
    """Share of the operations from ``start`` to ``end`` of the band, over all wraps."""
    positions, cumulative = _POSITIONS, [0.0, *_CUMULATIVE_SHARES, 1.0]

    def share_below(offset: float) -> float:
        number = bisect_right(positions, offset) - 1
        if number >= len(positions) - 1:
            return 1.0
        low, high = positions[number], positions[number + 1]
        return cumulative[number] + (cumulative[number + 1] - cumulative[number]) * (offset - low) / (high - low)

    # Beyond _ROUNDS_EXACT wraps the density is uniform; sum up only the first ones.
    rounds = -(-positions[-1] // band)
    if rounds <= _ROUNDS_EXACT:
        return sum(share_below(base + end) - share_below(base + start) for base in range(0, positions[-1], band))
    exact = sum(share_below(base + end) - share_below(base + start) for base in range(0, _ROUNDS_EXACT * band, band))
    return exact + (1 - share_below(_ROUNDS_EXACT * band)) * (end - start) / band


_ROUNDS_EXACT = 256
"""Number of wraps after which a step covers the band often enough to count as uniform."""
