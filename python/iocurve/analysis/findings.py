"""The findings of a result apart from its limits: the knees of its depth series, the gain of more connections."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from iocurve.analysis import gains
from iocurve.analysis.families import PointFamily
from iocurve.analysis.gains import Gain, gain_of
from iocurve.analysis.limit_kinds import is_sure
from iocurve.analysis.limits import knee
from iocurve.analysis.load_names import load_name, workers_of
from iocurve.foundation.units import MICROSECOND_NS, format_count, format_latency
from iocurve.result.document import Point, Result, SearchFacts
from iocurve.result.stalls import condition

SAME = 0.02
"""Rates that differ by less than this fraction are reported as the same."""


def findings_of(families: Iterable[PointFamily]) -> list[str]:
    """One sentence for each knee and gain, family by family."""
    return [finding for family in families for finding in _family_findings(family)]


def _family_findings(family: PointFamily) -> list[str]:
    if family.is_advice:
        return _advice(family)
    if family.is_depth:
        return _knees(family) + _gain(family)
    return []


# ---- connections


def _advice(family: PointFamily) -> list[str]:
    """The smallest and the largest gain of more connections."""
    spread = gains.spread_text(family.members)
    return [f"{family.heading}: more connections give from {spread}."] if spread else []


# ---- depth series


def _knees(family: PointFamily) -> list[str]:
    return [_knee(family, name, series) for name, series in family.series.items()]


def _knee(family: PointFamily, name: str, series: Sequence[Point]) -> str:
    subject = f"{family.heading}, {name}" if name else family.heading
    starved = sum(condition(member) == "CPU-starved" for member in series)
    if starved:
        return f"{subject}: {starved} of {len(series)} points CPU-starved, so that they show no knee."
    start = knee(series)
    found = series[-1].limit
    if start is None and found is not None and is_sure(found) and found.code != "depth":
        reached = f"depth {series[-1].axis('depth'):g} ({format_count(series[-1].summary().iops)})"
        return f"{subject}: IOPS grow up to {reached}, which is limited otherwise: {found.label}."
    if start is None:
        return f"{subject}: IOPS still grow at the greatest depth measured ({series[-1].axis('depth'):g})."
    last = series[-1]
    latency = [member.summary().latency for member in (start, last)]
    medians, means = [one.percentile(50) for one in latency], [one.mean_ns for one in latency]
    # An imported result may have means alone.
    name, latencies = ("mean", means) if any(map(math.isnan, medians)) else ("median", medians)
    waits = [format_latency(latency_ns) for latency_ns in latencies]
    return (
        f"{subject}: IOPS grow up to depth {start.axis('depth'):g} ({format_count(start.summary().iops)}); from there "
        f"to depth {last.axis('depth'):g} the {name} wait goes from {waits[0]} to {waits[1]} {_for_iops(start, last)}."
    )


def _for_iops(at: Point, last: Point) -> str:
    gain = last.summary().iops / at.summary().iops - 1
    return f"for {100 * gain:+.0f} % IOPS" if abs(gain) >= 0.005 else "for no more IOPS"


def _gain(family: PointFamily) -> list[str]:
    """The best rate of the last series against the first: at the same depth where these points took turns."""
    if len(family.series) < 2:
        return []
    first, *_, last = family.series
    best = _best(family.series[last])
    for base in family.series[first]:
        gain = gain_of(best, base)
        if gain and gain.bounds_text and base.axis("depth") == best.axis("depth"):
            return [_gain_in_turns(family, first, last, (best, base), gain)]
    other = _best(family.series[first])
    ratio = best.summary().iops / other.summary().iops
    if abs(ratio - 1) < SAME:
        return [f"{family.heading}: {first} and {last} reach the same, {format_count(best.summary().iops)} IOPS."]
    return [
        f"{family.heading}: {last} reaches {format_count(best.summary().iops)} IOPS, {ratio:.2f} times the "
        f"{format_count(other.summary().iops)} of {first}."
    ]


def _best(series: Sequence[Point]) -> Point:
    return max(series, key=lambda member: member.summary().iops)


def _gain_in_turns(family: PointFamily, first: str, last: str, points: tuple[Point, Point], gain: Gain) -> str:
    best, base = (format_count(point.summary().iops) for point in points)
    depth = f"depth {points[0].axis('depth'):g}"
    return f"{family.heading}: {last} reaches {best} IOPS at {depth} and {first} {base}: {gain.full_text}."


class KneeFinding(msgspec.Struct, frozen=True):
    """The knee and the capacity that a search found."""

    in_flight: float
    iops: float
    latency_ns: float
    capacity_iops: float
    unloaded_ns: float


def search_load(result: Result, search: SearchFacts) -> str:
    """The load of a search: ``4 KiB random reads``; in the words of its workload while it has no points."""
    loads = {load_name(workers_of(point)) for point in result.points if point.outcome.workers}
    return loads.pop() if len(loads) == 1 else search.workload


def found_knee(result: Result) -> KneeFinding | None:
    """The knee; None where the search was for something else."""
    found = {finding.name: finding.figure.value for finding in result.search.findings} if result.search else {}
    try:
        return KneeFinding(
            in_flight=found["knee"],
            iops=found["load at the knee"],
            latency_ns=found["latency at the knee"] * MICROSECOND_NS,
            capacity_iops=found["capacity"],
            unloaded_ns=found["unloaded latency"] * MICROSECOND_NS,
        )
    except KeyError:
        return None
