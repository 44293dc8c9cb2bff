"""Takes the verdicts of probes over for the points that they speak for.

A probe repeats the load of one point. What it finds holds for other points with the same value of what the limit
counts: points at the MiB/s of a load that is at a limit on bytes are at that limit, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from iocurve.analysis.ceilings import SAME, CommonCeiling, Scope
from iocurve.analysis.limit_kinds import Limit, kind_of, limit
from iocurve.analysis.observations import Kind, ObservedPoint, observations
from iocurve.result.document import Point, Probe, RateName, TargetFacts


def probed_limits(
    points: Sequence[Point], probes: Sequence[Probe], together: Mapping[int, Limit], target: TargetFacts
) -> dict[int, Limit]:
    """The limits that probes found, by the identity of the points that they speak for.

    ``together`` has what the points show without a probe.
    """
    found = observations(points, target)
    verdicts: dict[int, Limit] = {}
    for probe in probes:
        point = next((one for one in points if one.name == probe.point), None)
        if point is None or not _is_same_load(point, probe):
            continue
        shown = together.get(id(point))
        verdict = _verdict(probe, shown, target)
        for one in [point, *_alike(point, probe.limit.code, found)]:
            verdicts.setdefault(id(one), verdict)
        if shown is not None and shown.code == probe.limit.code:
            verdicts = {key: verdict for key, limit in together.items() if limit == shown} | verdicts
    return verdicts


def _is_same_load(point: Point, probe: Probe) -> bool:
    """True if the load got the rate of the point again; caches or other loads may have changed it."""
    iops = point.summary().iops
    return iops > 0 and probe.iops > 0 and abs(math.log(probe.iops / iops)) <= math.log(SAME)


def _verdict(probe: Probe, shown: Limit | None, target: TargetFacts) -> Limit:
    """The verdict of a probe. One that is possible is likely where the points show the same without the probe."""
    told = probe.limit
    evidence = (*told.evidence, f"found by changes of the load of {probe.point} after the run")
    if told.confidence == "possible" and shown is not None and shown.code == told.code:
        return limit(told.code, told.text, target, confidence="likely", evidence=(*evidence, *shown.evidence))
    return told.replace(evidence=evidence)


def _alike(point: Point, code: str, found: Sequence[ObservedPoint]) -> Iterator[Point]:
    """Other points at the same value of what the limit counts; at the depth, the same load at smaller depths."""
    probed = next((one for one in found if one.point is point), None)
    if probed is None or probed.is_held_up:
        return
    counts = kind_of(code).counts
    for one in found:
        if code == "depth":
            is_same = (one.load, one.workers, one.connections) == (probed.load, probed.workers, probed.connections)
            if is_same and one.depth <= probed.depth:
                yield one.point
        elif counts and _at(probed, *counts).holds(one):
            yield one.point


def _at(probed: ObservedPoint, quantity: RateName, kind: Kind, scope: Scope) -> CommonCeiling:
    value = CommonCeiling(quantity, kind, scope, 0.0, 0.0, ()).value_of(probed)
    return CommonCeiling(quantity, kind, scope, value, probed.rate_error(kind), (probed,))
