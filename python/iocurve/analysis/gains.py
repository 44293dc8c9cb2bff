"""Compares the rates of two points: a ratio with its interval, and whether a difference is seen at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from iocurve.analysis.families import MeasuredPoint
from iocurve.analysis.load_names import RateUnit
from iocurve.result.document import Interval

THIS_MACHINE = ("machine", "generator", "foreign_cpu")
"""Limits of the machine that makes the load: a ratio of rates that they bound says nothing of the target."""
NO_DIFFERENCE: Final = "no difference seen"

Difference = Literal["more", "less", "none seen", "not told"]


@dataclass(frozen=True)
class Gain:
    """The rate of a point relative to that of another."""

    figure: Interval
    disturbance: str | None = None
    """How others disturbed one of the points; None if they did not."""
    own_limit: str | None = None
    """The short name of the limit of this machine that bounds one of the points; None without."""

    @property
    def ratio(self) -> float:
        """The rate divided by that of the base."""
        return self.figure.value

    @property
    def difference(self) -> Difference:
        """The side of 1 on which the interval lies; ``not told`` without an interval."""
        low, high = self.figure.low, self.figure.high
        if low is None or high is None:
            return "not told"
        return "more" if low > 1 else "less" if high < 1 else "none seen"

    @property
    def is_told(self) -> bool:
        """A difference is seen, and it is one of the target and not of this machine."""
        return self.difference in ("more", "less") and self.own_limit is None

    @property
    def text(self) -> str:
        """``1.42 × [1.35, 1.50]``; ``1.42 ×`` where the points were measured once."""
        return " ".join([f"{self.ratio:.2f} ×", *([bounds] if (bounds := self.bounds_text) else [])])

    @property
    def bounds_text(self) -> str:
        """``[1.35, 1.50]``; empty without an interval."""
        low, high = self.figure.low, self.figure.high
        return "" if low is None or high is None else f"[{low:.2f}, {high:.2f}]"

    @property
    def verdict(self) -> str:
        """``no difference seen``, ``disturbed``, and other notes on the ratio; may be empty."""
        return ", ".join(
            [
                *([NO_DIFFERENCE] if self.difference == "none seen" else []),
                *(["disturbed"] if self.disturbance else []),
                *([f"limited by {self.own_limit}"] if self.own_limit else []),
            ]
        )

    @property
    def full_text(self) -> str:
        """The ratio with its verdict: ``1.02 × [0.97, 1.07], no difference seen``."""
        return ", ".join(filter(None, (self.text, self.verdict)))


def gain_of(member: MeasuredPoint, base: MeasuredPoint, unit: RateUnit = "IOPS") -> Gain | None:
    """Compares the rates of two points; None where one of them measured nothing."""
    figure = member.point.gain_over(base.point, "iops" if unit == "IOPS" else "bytes_per_s")
    if figure is None:
        return None
    limits = [one.limit for one in (member, base) if one.limit and one.limit.code in THIS_MACHINE]
    disturbance = member.point.disturbance or base.point.disturbance
    return Gain(figure, disturbance, limits[0].short_name if limits else None)
