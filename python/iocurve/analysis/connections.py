"""Advises where more connections pay, load by load, from the measured rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from iocurve.analysis.families import MeasuredPoint
from iocurve.analysis.gains import NO_DIFFERENCE, Gain, gain_of
from iocurve.result.document import Interval
from iocurve.units import format_bytes

PAYS = 1.10
"""From this ratio of the rates on, more connections pay."""
HARMS = 0.95
"""Below this ratio of the rates, more connections harm."""
NOTHING = Gain(Interval(value=0.0, low=None, high=None))
"""The gain where one of the points measured nothing."""
Advice = Literal["pays", "neutral", "harms", "no difference seen", "not told"]


@dataclass(frozen=True)
class Pair:
    """A load measured with the fewest connections and with the most."""

    few: MeasuredPoint
    many: MeasuredPoint

    @cached_property
    def gain(self) -> Gain:
        """The rate with many connections divided by the rate with few."""
        return gain_of(self.many, self.few) or NOTHING

    @property
    def advice(self) -> Advice:
        """The verdict on the gain. In a closed loop latency follows from the rate, so the gain covers both.

        There is none without an interval that leaves out 1, and where this machine bounds the rates.
        """
        if not self.gain.is_told:
            return NO_DIFFERENCE if self.gain.difference == "none seen" else "not told"
        return "pays" if self.gain.ratio >= PAYS else "harms" if self.gain.ratio < HARMS else "neutral"


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
