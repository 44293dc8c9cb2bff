"""The formulas of sizing: Little's law, the window of a connection, the quota that carries a load. All exact."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from iocurve.units import GIB, SECOND_NS


def in_flight(iops: Fraction | int, latency_ns: Fraction | int) -> Fraction:
    """Little's law: the operations in flight that a rate needs at a mean latency."""
    return Fraction(iops) * latency_ns / SECOND_NS


def iops_of(operations_in_flight: Fraction | int, latency_ns: Fraction | int) -> Fraction:
    """Little's law: the rate that a number of operations in flight reaches at a mean latency, which is not 0."""
    return Fraction(operations_in_flight) * SECOND_NS / latency_ns


def window_bytes(bytes_per_s: Fraction | int, round_trip_ns: Fraction | int) -> int:
    """Bandwidth-delay product: the window that a TCP connection needs for a rate over a round trip."""
    return math.ceil(Fraction(bytes_per_s) * round_trip_ns / SECOND_NS)


def smallest(carries: Callable[[int], bool], at_least: int, at_most: int) -> int | None:
    """The smallest whole number within bounds for which ``carries`` holds, by bisection; None where none does.

    ``carries`` holds for every number above one for which it holds.
    """
    if at_least > at_most or not carries(at_most):
        return None
    low, high = at_least, at_most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if carries(middle) else (middle + 1, high)
    return low


def smallest_quota(carries: Callable[[int], bool], at_least_gib: int, at_most_gib: int) -> int | None:
    """The smallest quota in bytes, a whole number of GiB within bounds, that carries a load; None where none does."""
    gib = smallest(lambda quota_gib: carries(quota_gib * GIB), at_least_gib, at_most_gib)
    return None if gib is None else gib * GIB
