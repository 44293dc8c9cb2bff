"""The offset distribution of a hotband, as in vdbench.

vdbench draws a distance from a cache-like distribution: one share of the operations falls into the first 16,000
bytes, another into the next 16,000, the others into ranges that double. A distance beyond the end of the band wraps
to its start; writes are shifted by one hundredth of the band. The density is piecewise constant, so zones represent it
exactly.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from itertools import pairwise

from iocurve.job.model import Preference, ZoneShare, ZonesSaid

_STEP_BYTES = 16_000
_CUMULATIVE_SHARES = (
    *(0.087217, 0.10101, 0.132206, 0.159946, 0.201713, 0.262602, 0.32645, 0.366902, 0.386175, 0.436941),
    *(0.482631, 0.523752, 0.56076, 0.594068, 0.624045, 0.651024, 0.675305, 0.697159, 0.716827, 0.734528),
    *(0.750459, 0.764797, 0.777701, 0.789314, 0.799767, 0.809174, 0.81764),
)
"""Cumulative share of the operations within 16,000 bytes, 32,000, 64,000, … in vdbench 5.04.06."""
_BEYOND_BYTES = 239_475_000_000
"""Length of the range after the last of these, over which the remaining operations are uniform."""
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
            *(edge for position in _density_changes(count * block) for edge in _block_edges(position, block, count)),
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


def _positions() -> list[int]:
    ends = [_STEP_BYTES << number for number in range(len(_CUMULATIVE_SHARES))]
    return [0, *ends, ends[-1] + _BEYOND_BYTES]


def _density_changes(band: int) -> list[int]:
    """Offsets in the band at which the density changes."""
    return [position % band for position in _positions()]


def _block_edges(position: int, block: int, count: int) -> tuple[int, ...]:
    """Edges of the block that contains a change of density; the block is a separate zone."""
    return tuple(edge for edge in (position // block, -(-position // block)) if 0 <= edge <= count)


def _share_between(start: int, end: int, band: int) -> float:
    """Share of the operations from ``start`` to ``end`` of the band, over all wraps."""
    positions, cumulative = _positions(), [0.0, *_CUMULATIVE_SHARES, 1.0]

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
