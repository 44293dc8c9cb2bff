"""Reads what a search found: its headlines, and the knee for charts to mark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iocurve.analysis.load_names import load_name, workers_of
from iocurve.result.document import Finding, Result, SearchFacts
from iocurve.units import MICROSECOND_NS, format_count, format_latency, format_number

LAW_PREFIX = "USL "
"""Starts the names of the terms of the universal scalability law, which are no headlines."""


@dataclass(frozen=True)
class Headline:
    """One figure with its unit and its load."""

    value: str
    unit: str
    what: str
    """The load: ``8 KiB random writes, no cache``. For a latency, a gain or a search it says what the figure is."""
    detail: str = ""
    """Further figures of the same load: ``100 MiB/s · p50 40 ms · p99 40.4 ms``."""


@dataclass(frozen=True)
class Knee:
    """The knee and the capacity that a search found."""

    in_flight: float
    iops: float
    latency_ns: float
    capacity_iops: float
    unloaded_ns: float


def search_headlines(result: Result, search: SearchFacts) -> list[Headline]:
    """The findings in the order of the search, which puts its answer first."""
    load = search_load(result, search)
    return [_headline(finding, load) for finding in search.findings if not finding.name.startswith(LAW_PREFIX)]


def search_load(result: Result, search: SearchFacts) -> str:
    """The load of a search: ``4 KiB random reads``; in the words of its workload while it has no points."""
    loads = {load_name(workers_of(point)) for point in result.points if point.outcome.workers}
    return loads.pop() if len(loads) == 1 else search.workload


def found_knee(result: Result) -> Knee | None:
    """The knee; None where the search was for something else."""
    found = {finding.name: finding.figure.value for finding in result.search.findings} if result.search else {}
    try:
        return Knee(
            in_flight=found["knee"],
            iops=found["load at the knee"],
            latency_ns=found["latency at the knee"] * MICROSECOND_NS,
            capacity_iops=found["capacity"],
            unloaded_ns=found["unloaded latency"] * MICROSECOND_NS,
        )
    except KeyError:
        return None


def _headline(finding: Finding, load: str) -> Headline:
    value, _, unit = _text(finding)(finding.figure.value).partition(" ")
    bounds = _bounds(finding)
    return Headline(value, unit, finding.name, f"{load} · {bounds}" if bounds else load)


def _bounds(finding: Finding) -> str:
    low, high, text = finding.figure.low, finding.figure.high, _text(finding)
    if low is None or high is None:
        return ""
    if finding.figure.kind == "bracket":
        return f"{text(high)} did not hold"
    if text(low) == text(high):
        return ""
    (least, _, unit), (most, _, most_unit) = text(low).partition(" "), text(high).partition(" ")
    return f"95 %: {least if unit == most_unit else text(low)} to {most} {most_unit}".rstrip()


def _text(finding: Finding) -> Callable[[float], str]:
    """The text of a figure with its unit."""
    if finding.unit == "µs":
        return lambda value: format_latency(value * MICROSECOND_NS)
    if finding.unit == "IOPS":
        return lambda value: f"{format_count(value)} IOPS"
    return lambda value: f"{format_number(value, 3)} {finding.unit}".strip()
