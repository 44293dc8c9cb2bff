"""fio's latency bins (``json+``, ``write_hist_log``): 64 to each power of two, named by their middle."""

from __future__ import annotations

from collections.abc import Iterable

BITS = 6
"""Values below 2 ** (BITS + 1) have a bin each; above, a power of two has 2 ** BITS."""
BINS = 29 << BITS
"""1,856; the last one takes all that is larger."""


def bin_of(value_ns: int) -> int:
    """Number of the bin that holds a latency."""
    shift = max(0, value_ns.bit_length() - BITS - 1)
    place = (value_ns >> shift) & ((1 << BITS) - 1)
    return min(((shift + 1) << BITS) + place if value_ns >> BITS else value_ns, BINS - 1)


def middle_of(number: int) -> int:
    """Nanoseconds in the middle of a bin."""
    if number < 2 << BITS:
        return number
    shift = (number >> BITS) - 1
    place = number & ((1 << BITS) - 1)
    return (1 << (shift + BITS)) + (place << shift) + (1 << shift >> 1)


def bins(buckets: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Counts by number of bin, ascending, from (lowest value, count) pairs of a finer histogram."""
    counts: dict[int, int] = {}
    for lowest, count in buckets:
        number = bin_of(lowest)
        counts[number] = counts.get(number, 0) + count
    return dict(sorted(counts.items()))
