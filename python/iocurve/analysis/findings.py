"""The findings of a result beside its limits: the knees of its depth series, the gain of more connections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iocurve.analysis import connections
from iocurve.analysis.families import Family, MeasuredPoint
from iocurve.analysis.limits import knee
from iocurve.units import format_count, format_latency

SAME = 0.02
"""Rates that differ by less than this fraction are reported as the same."""


def findings_of(families: Iterable[Family]) -> list[str]:
    """One sentence for each knee and gain, family by family."""
    return [finding for family in families for finding in _family_findings(family)]


def _family_findings(family: Family) -> list[str]:
    if family.is_advice:
        return _advice(family)
    if family.is_depth:
        return _knees(family) + _gain(family)
    return []


# ---- connections


def _advice(family: Family) -> list[str]:
    """The smallest and the largest gain of more connections."""
    pairs = sorted(connections.pairs(family.members), key=lambda pair: pair.gain)
    if not pairs:
        return []
    least, most = pairs[0], pairs[-1]
    return [
        f"{family.heading}: more connections give from {least.gain:.2f} times the rate "
        f"({connections.load_text(least.few)}) to {most.gain:.2f} times ({connections.load_text(most.few)})."
    ]


# ---- depth series


def _knees(family: Family) -> list[str]:
    return [_knee(family, name, series) for name, series in family.series.items()]


def _knee(family: Family, name: str, series: Sequence[MeasuredPoint]) -> str:
    subject = f"{family.heading}, {name}" if name else family.heading
    start = knee([member.point for member in series])
    if start is None:
        return f"{subject}: IOPS still grow at the greatest depth measured ({series[-1].axis('depth'):g})."
    at, last = next(member for member in series if member.point is start), series[-1]
    waits = [format_latency(member.summary.latency.percentile(50)) for member in (at, last)]
    return (
        f"{subject}: IOPS grow up to depth {at.axis('depth'):g} ({format_count(at.summary.iops)}); from there to depth "
        f"{last.axis('depth'):g} the median wait goes from {waits[0]} to {waits[1]} {_for_iops(at, last)}."
    )


def _for_iops(at: MeasuredPoint, last: MeasuredPoint) -> str:
    gain = last.summary.iops / at.summary.iops - 1
    return f"for {gain:+.0%} IOPS" if abs(gain) >= 0.005 else "for no more IOPS"


def _gain(family: Family) -> list[str]:
    """The best rate of the last series against that of the first."""
    if len(family.series) < 2:
        return []
    best = {name: max(member.summary.iops for member in series) for name, series in family.series.items()}
    first, *_, last = best
    ratio = best[last] / best[first]
    if abs(ratio - 1) < SAME:
        return [f"{family.heading}: {first} and {last} reach the same, {format_count(best[last])} IOPS."]
    return [
        f"{family.heading}: {last} reaches {format_count(best[last])} IOPS, {ratio:.2f} times the "
        f"{format_count(best[first])} of {first}."
    ]
