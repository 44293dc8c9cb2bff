"""fio's latency bins (``json+``, ``write_hist_log``): 64 bins per power of two, each labelled with its middle."""

from __future__ import annotations

from collections.abc import Iterable

BITS = 6
"""Each value below 2 ** (BITS + 1) has its own bin; above that, each power of two has 2 ** BITS bins."""
BINS = 29 << BITS
"""Number of bins, 1,856. The last bin holds all larger values."""


def bin_index(value_ns: int) -> int:
    """Index of the bin that holds a latency."""
    shift = max(0, value_ns.bit_length() - BITS - 1)
    offset = (value_ns >> shift) & ((1 << BITS) - 1)
    return min(((shift + 1) << BITS) + offset if value_ns >> BITS else value_ns, BINS - 1)


def bin_middle_ns(number: int) -> int:
    """Middle of a bin in nanoseconds."""
    if number < 2 << BITS:
        return number
    shift = (number >> BITS) - 1
    offset = number & ((1 << BITS) - 1)
    return (1 << (shift + BITS)) + (offset << shift) + (1 << shift >> 1)


def counts_by_bin(buckets: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Converts the (lowest value, count) pairs of a finer histogram to counts by bin index, ascending."""
    counts: dict[int, int] = {}
    for lowest, count in buckets:
        number = bin_index(lowest)
        counts[number] = counts.get(number, 0) + count
    return dict(sorted(counts.items()))
