"""Compares the rates of two points: a ratio with its interval and its verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace

from iocurve.analysis.families import MeasuredPoint
from iocurve.result.document import OWN_LIMITS
from iocurve.result.paired import RateRatio, Verdict


@dataclass(frozen=True)
class Gain:
    """The rate of a point relative to that of another."""

    figure: RateRatio
    disturbance: str | None = None
    """How others disturbed one of the points; None if they did not."""

    @property
    def ratio(self) -> float:
        """The rate divided by that of the base."""
        return self.figure.value

    @property
    def verdict(self) -> Verdict:
        """``faster``, ``slower``, ``no difference`` or ``cannot tell``, the same everywhere."""
        return self.figure.verdict

    @property
    def text(self) -> str:
        """``1.42 × [1.35, 1.50]``; ``1.42 ×`` where the points were measured once."""
        return " ".join(filter(None, (f"{self.ratio:.2f} ×", self.bounds_text)))

    @property
    def times_text(self) -> str:
        """``1.42 times [1.35, 1.50]``."""
        return " ".join(filter(None, (f"{self.ratio:.2f} times", self.bounds_text)))

    @property
    def bounds_text(self) -> str:
        """``[1.35, 1.50]``; empty without an interval."""
        return self.figure.bounds_text

    @property
    def verdict_text(self) -> str:
        """``no difference of 10 % or more``, ``cannot tell: 1 of 5 turns had no operations``, ``faster, disturbed``."""
        return ", ".join(filter(None, (self.figure.verdict_text, self.disturbance and "disturbed")))

    @property
    def full_text(self) -> str:
        """The ratio with its verdict: ``1.42 × [1.35, 1.50], faster``."""
        return f"{self.text}, {self.verdict_text}"


def gain_of(member: MeasuredPoint, base: MeasuredPoint) -> Gain | None:
    """Compares the rates of two points, in the unit of the first; None where the base measured nothing."""
    figure = member.point.gain_over(base.point)
    if figure is None:
        return None
    limits = [one.limit.short_name for one in (member, base) if one.limit and one.limit.code in OWN_LIMITS]
    disturbance = member.point.disturbance or base.point.disturbance
    return Gain(replace(figure, own_limit=next(iter(limits), figure.own_limit)), disturbance)
