"""Compares the rates of two points, and of pairs with few and many connections: a ratio, its interval, its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec
from msgspec.structs import asdict

from iocurve.foundation.units import format_bytes
from iocurve.result.document import Point
from iocurve.result.paired import RateRatio


class Gain(RateRatio, frozen=True):
    """The rate of a point relative to that of another."""

    noise: str | None = None
    """How others disturbed one of the points; None if they did not."""

    @property
    def text(self) -> str:
        """``1.42 × [1.35, 1.50]``; ``1.42 ×`` where the points were measured once."""
        return " ".join(filter(None, (f"{self.value:.2f} ×", self.bounds_text)))

    @property
    def times_text(self) -> str:
        """``1.42 times [1.35, 1.50]``."""
        return " ".join(filter(None, (f"{self.value:.2f} times", self.bounds_text)))

    @property
    def verdict_text(self) -> str:
        """``no difference of 10 % or more``, ``inconclusive: 1 of 5 runs had no operations``, ``faster, noisy``."""
        return ", ".join(filter(None, (super().verdict_text, self.noise and "noisy")))

    @property
    def full_text(self) -> str:
        """The ratio with its verdict: ``1.42 × [1.35, 1.50], faster``."""
        return f"{self.text}, {self.verdict_text}"


def gain_of(member: Point, base: Point) -> Gain | None:
    """Compares the rates of two points, in the unit of the first; None where the base measured nothing."""
    found = member.speedup_over(base)
    return Gain(**asdict(found), noise=member.noise or base.noise) if found else None


NOTHING = Gain(0.0, None, None, doubt="no operations")
"""The gain where the base measured nothing."""


def spread_text(members: Sequence[Point]) -> str:
    """The smallest and the largest gain: ``0.90 times [0.87, 0.93] the rate (read 4 KiB at depth 1) to …``."""
    ordered = sorted(pairs(members), key=lambda pair: pair.gain.value)
    if not ordered:
        return ""
    least, most = ordered[0], ordered[-1]
    return (
        f"{least.gain.times_text} the rate ({load_text(least.few)}) to {most.gain.times_text} ({load_text(most.few)})"
    )


class Pair(msgspec.Struct, frozen=True, dict=True):
    """A load measured with the fewest connections and with the most."""

    few: Point
    many: Point

    @cached_property
    def gain(self) -> Gain:
        """The rate with many connections divided by the rate with few.

        In a closed loop latency follows from the rate, so the gain covers both.
        """
        return gain_of(self.many, self.few) or NOTHING


def fewest_and_most(members: Sequence[Point]) -> tuple[int, int]:
    """The smallest and the largest number of connections."""
    values = sorted({int(member.axis("nconnect")) for member in members})
    return values[0], values[-1]


def pairs(members: Sequence[Point]) -> list[Pair]:
    """The loads that were measured both with the fewest and with the most connections, in order."""
    few, many = fewest_and_most(members)
    found: dict[tuple[tuple[str, object], ...], dict[int, Point]] = {}
    for member in members:
        axes = tuple((name, value) for name, value in member.axes.items() if name != "nconnect")
        found.setdefault(axes, {})[int(member.axis("nconnect"))] = member
    return [Pair(at[few], at[many]) for at in found.values() if few in at and many in at]


def kind_and_block(member: Point) -> str:
    """``read 4 KiB``."""
    axes = member.axes
    return f"{axes.get('kind', '')} {format_bytes(int(axes.get('block_bytes', 0)))}".strip()


def load_text(member: Point) -> str:
    """``read 4 KiB at depth 16``."""
    return f"{kind_and_block(member)} at depth {member.axis('depth'):g}"
