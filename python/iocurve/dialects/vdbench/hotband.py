"""Where the operations of a hot band go, as vdbench draws them.

vdbench draws a distance from a curve that is made for caches: one part of the operations goes to the first 16,000
bytes, another to the next 16,000, then to ranges that double. What
lies beyond the end of the band begins again at its start; writes go one hundredth of the band further than reads. All
of it is a density in steps, so zones say it exactly.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from itertools import pairwise

from iocurve.job.model import Preference, ZoneShare, ZonesSaid

_STEP_BYTES = 16_000
_REACHED = (
    *(0.087217, 0.10101, 0.132206, 0.159946, 0.201713, 0.262602, 0.32645, 0.366902, 0.386175, 0.436941),
    *(0.482631, 0.523752, 0.56076, 0.594068, 0.624045, 0.651024, 0.675305, 0.697159, 0.716827, 0.734528),
    *(0.750459, 0.764797, 0.777701, 0.789314, 0.799767, 0.809174, 0.81764),
)
"""Share of the operations within 16,000 bytes, 32,000, 64,000 and so on, as vdbench 5.04.06 draws them."""
_BEYOND_BYTES = 239_475_000_000
"""Over which the others are spread evenly, after the last of these."""
_MEGABYTE = 1_000_000
SMALLEST_BAND = _MEGABYTE
"""Bytes."""


@lru_cache(maxsize=1024)
def hotband(band: int, block: int, *, writes: bool) -> Preference:
    """Zones of a band of so many bytes, whole blocks, with the operations that go there."""
    count = band // _MEGABYTE * _MEGABYTE // block
    shift = count // 100 if writes else 0
    edges = sorted(
        {0, count, *(edge for position in _folds(count * block) for edge in _around(position, block, count))}
    )
    if shift:
        edges = sorted({0, count, *((edge + shift) % count for edge in edges)})
    zones = []
    for first, end in pairwise(edges):
        start = (first - shift) % count
        share = _within(start * block, (start + end - first) * block, count * block)
        zones.append(ZoneShare(access_percent=100.0 * share, size=(end - first) * block))
    rest = band - count * block
    return ZonesSaid(zones=(*zones, *([ZoneShare(access_percent=0.0, size=rest)] if rest else [])))


def _positions() -> list[int]:
    ends = [_STEP_BYTES << number for number in range(len(_REACHED))]
    return [0, *ends, ends[-1] + _BEYOND_BYTES]


def _folds(band: int) -> list[int]:
    """Places in the band where the density changes."""
    return [position % band for position in _positions()]


def _around(position: int, block: int, count: int) -> tuple[int, ...]:
    """The block that a change of density falls into is a zone of its own."""
    return tuple(edge for edge in (position // block, -(-position // block)) if 0 <= edge <= count)


def _within(start: int, end: int, band: int) -> float:
    """Share of the operations from ``start`` to ``end`` of the band, whichever round they are of."""
    positions, reached = _positions(), [0.0, *_REACHED, 1.0]

    def upto(place: float) -> float:
        number = bisect_right(positions, place) - 1
        if number >= len(positions) - 1:
            return 1.0
        low, high = positions[number], positions[number + 1]
        return reached[number] + (reached[number + 1] - reached[number]) * (place - low) / (high - low)

    # All steps that lie in one round are summed at once where there are many rounds.
    rounds = -(-positions[-1] // band)
    if rounds <= _ROUNDS_EXACT:
        return sum(upto(base + end) - upto(base + start) for base in range(0, positions[-1], band))
    exact = sum(upto(base + end) - upto(base + start) for base in range(0, _ROUNDS_EXACT * band, band))
    return exact + (1 - upto(_ROUNDS_EXACT * band)) * (end - start) / band


_ROUNDS_EXACT = 256
"""Rounds beyond which a step covers the band so often that it is even."""
