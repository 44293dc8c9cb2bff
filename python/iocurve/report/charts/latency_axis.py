"""Axes of latencies: logarithmic, in the unit that fits their values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import altair as alt

from iocurve.units import MICROSECOND_NS, MILLISECOND_NS, SECOND_NS

ROOM = 1.2
"""The axis reaches this much further than the values, so that labels fit at both ends."""
SMALLEST = 0.01
"""A larger unit is used as long as the lowest mark is not below this part of it."""
UNITS = (("s", SECOND_NS), ("ms", MILLISECOND_NS), ("µs", MICROSECOND_NS))
LABEL = "format(datum.value, ',.3~r')"
"""Vega expression: a number with up to three digits, never in scientific notation."""


@dataclass(frozen=True)
class LatencyAxis:
    """An axis with its unit; charts draw the field ``latency``, which is in that unit."""

    unit: str
    unit_ns: int
    marks: Sequence[float]
    """In the unit of the axis, from the lowest to the highest."""

    def value(self, latency_ns: float) -> float:
        """A latency in the unit of the axis."""
        return latency_ns / self.unit_ns

    def y(self, *, title: str = "Latency") -> alt.Y:
        """The vertical axis of a chart."""
        return alt.Y(
            "latency:Q",
            title=f"{title} ({self.unit}, log scale)",
            scale=alt.Scale(type="log", domain=[self.marks[0], self.marks[-1]], nice=False, clamp=True),
            axis=alt.Axis(values=list(self.marks), labelExpr=LABEL),
        )


def latency_axis(latencies_ns: Iterable[float]) -> LatencyAxis:
    """The axis for some latencies, with marks at 1, 2 and 5 of each power of ten."""
    positive = [latency for latency in latencies_ns if latency > 0] or [float(MICROSECOND_NS)]
    marks = [step * 10.0**power for power in range(13) for step in (1, 2, 5)]
    low = max((mark for mark in marks if mark <= min(positive) / ROOM), default=marks[0])
    high = min((mark for mark in marks if mark >= max(positive) * ROOM), default=marks[-1])
    unit, unit_ns = next(((name, size) for name, size in UNITS if low >= SMALLEST * size and high >= size), UNITS[-1])
    return LatencyAxis(unit, unit_ns, [mark / unit_ns for mark in marks if low <= mark <= high])
