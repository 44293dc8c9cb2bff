"""Reads what a search found: its load, and the knee for charts to mark."""

from __future__ import annotations

from dataclasses import dataclass

from iocurve.analysis.load_names import load_name, workers_of
from iocurve.result.document import Result, SearchFacts
from iocurve.units import MICROSECOND_NS


@dataclass(frozen=True)
class Knee:
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
