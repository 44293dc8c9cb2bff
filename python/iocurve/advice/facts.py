"""Published facts about clients and protocols, as data (``facts/*.toml``), each with its page and date; and laws.

Facts about service levels are in ``volume/profiles``, those about disks and virtual machines in ``targets``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path

from iocurve.foundation.structs import Page, Struct, bundled_names, read_bundled
from iocurve.foundation.units import GIB, SECOND_NS

DIRECTORY = Path(__file__).parent / "facts"


class Fact(Struct):
    """One number of a page."""

    about: str
    """The fact in words: ``connections of a mount, at most``."""
    value: int
    unit: str = ""
    source: str


class FactFile(Struct):
    """Facts about one subject."""

    title: str
    sources: dict[str, Page]
    facts: dict[str, Fact]


@cache
def files() -> dict[str, FactFile]:
    """All fact files by name."""
    return {name: FactFile.from_builtins(read_bundled(DIRECTORY, name)) for name in bundled_names(DIRECTORY)}


def value(file: str, name: str) -> int:
    """The number of a fact. Raises ``KeyError``."""
    return files()[file].facts[name].value


def cite(file: str, name: str) -> str:
    """The page of a fact and its date. Raises ``KeyError``."""
    return str(files()[file].sources[files()[file].facts[name].source])


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
