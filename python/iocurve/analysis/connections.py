"""Advises where more connections pay, load by load, from the measured rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from iocurve.analysis.families import MeasuredPoint
from iocurve.units import format_bytes

PAYS = 1.10
"""From this ratio of the rates on, more connections pay."""
HARMS = 0.95
"""Below this ratio of the rates, more connections harm."""


@dataclass(frozen=True)
class Pair:
    """A load measured with the fewest connections and with the most."""

    few: MeasuredPoint
    many: MeasuredPoint

    @property
    def gain(self) -> float:
        """The rate with many connections divided by the rate with few."""
        return self.many.summary.iops / self.few.summary.iops if self.few.summary.iops else 0.0

    @property
    def advice(self) -> Literal["pays", "neutral", "harms"]:
        """The verdict on the gain. In a closed loop latency follows from the rate, so the gain covers both."""
        return "pays" if self.gain >= PAYS else "harms" if self.gain < HARMS else "neutral"


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
