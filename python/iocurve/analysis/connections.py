"""Where more connections pay: a colour for each load, from its measured rate and latency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from iocurve.analysis.families import Measured
from iocurve.report.charts import AdviceCell
from iocurve.units import format_bytes, format_latency

PAYS = 1.10
"""So many times the rate, and it pays."""
HARMS = 0.95
"""Less than so many times the rate, and it harms."""
CAPTION = (
    f"Green pays: at least {PAYS:.2f} times the rate with more connections. Red harms: less than {HARMS:.2f} times, so "
    "that each operation waits longer. Yellow is neutral. A field has the gain, and the mean latency without and with."
)


@dataclass(frozen=True)
class Pair:
    """A load with few connections and with many."""

    few: Measured
    many: Measured

    @property
    def gain(self) -> float:
        """Rate with many to that with few."""
        return self.many.summary.iops / self.few.summary.iops if self.few.summary.iops else 0.0

    @property
    def advice(self) -> Literal["pays", "neutral", "harms"]:
        """In a closed loop the latency follows from the rate, so that the gain tells both."""
        return "pays" if self.gain >= PAYS else "harms" if self.gain < HARMS else "neutral"


def compared_connections(members: Sequence[Measured]) -> tuple[int, int]:
    """Fewest and most connections."""
    values = sorted({int(member.axis("nconnect")) for member in members})
    return values[0], values[-1]


def pairs(members: Sequence[Measured]) -> list[Pair]:
    """Loads that were measured with the fewest and the most connections, in order."""
    few, many = compared_connections(members)
    found: dict[tuple[tuple[str, object], ...], dict[int, Measured]] = {}
    for member in members:
        axes = tuple((name, value) for name, value in member.point.axes.items() if name != "nconnect")
        found.setdefault(axes, {})[int(member.axis("nconnect"))] = member
    return [Pair(at[few], at[many]) for at in found.values() if few in at and many in at]


def cells(members: Sequence[Measured]) -> list[AdviceCell]:
    """The fields of the coloured table."""
    return [
        AdviceCell(
            row=_row(pair.few),
            depth=int(pair.few.axis("depth")),
            advice=pair.advice,
            text=f"{pair.gain:.2f} ×/{format_latency(pair.few.summary.latency.mean_ns)} → "
            f"{format_latency(pair.many.summary.latency.mean_ns)}",
        )
        for pair in pairs(members)
    ]


def _row(member: Measured) -> str:
    axes = member.point.axes
    return f"{axes.get('kind', '')} {format_bytes(int(axes.get('block_bytes', 0)))}".strip()


def load_text(member: Measured) -> str:
    """``read 4 KiB at depth 16``."""
    return f"{_row(member)} at depth {member.axis('depth'):g}"
