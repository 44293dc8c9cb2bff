"""Advises where more connections pay, load by load, from the measured rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from iocurve.analysis.families import MeasuredPoint
from iocurve.analysis.gains import Gain, gain_of
from iocurve.result.paired import RateRatio
from iocurve.units import format_bytes

NOTHING = Gain(RateRatio(0.0, None, None, doubt="no operations"))
"""The gain where the base measured nothing."""


def spread_text(members: Sequence[MeasuredPoint]) -> str:
    """The smallest and the largest gain: ``0.90 times [0.87, 0.93] the rate (read 4 KiB at depth 1) to …``."""
    ordered = sorted(pairs(members), key=lambda pair: pair.gain.ratio)
    if not ordered:
        return ""
    least, most = ordered[0], ordered[-1]
    return (
        f"{least.gain.times_text} the rate ({load_text(least.few)}) to {most.gain.times_text} ({load_text(most.few)})"
    )


@dataclass(frozen=True)
class Pair:
    """A load measured with the fewest connections and with the most."""

    few: MeasuredPoint
    many: MeasuredPoint

    @cached_property
    def gain(self) -> Gain:
        """The rate with many connections divided by the rate with few.

        In a closed loop latency follows from the rate, so the gain covers both.
        """
        return gain_of(self.many, self.few) or NOTHING


def fewest_and_most(members: Sequence[MeasuredPoint]) -> tuple[int, int]:
    """The smallest and the largest number of connections."""
    values = sorted({int(member.axis("nconnect")) for member in members})
    return values[0], values[-1]


def pairs(members: Sequence[MeasuredPoint]) -> list[Pair]:
    """The loads that were measured both with the fewest and with the most connections, in order."""
    few, many = fewest_and_most(members)
    found: dict[tuple[tuple[str, object], ...], dict[int, MeasuredPoint]] = {}
    for member in members:
        axes = tuple((name, value) for name, value in member.point.axes.items() if name != "nconnect")
        found.setdefault(axes, {})[int(member.axis("nconnect"))] = member
    return [Pair(at[few], at[many]) for at in found.values() if few in at and many in at]


def kind_and_block(member: MeasuredPoint) -> str:
    """``read 4 KiB``."""
    axes = member.point.axes
    return f"{axes.get('kind', '')} {format_bytes(int(axes.get('block_bytes', 0)))}".strip()


def load_text(member: MeasuredPoint) -> str:
    """``read 4 KiB at depth 16``."""
    return f"{kind_and_block(member)} at depth {member.axis('depth'):g}"
