"""Finds the limit that held each point down, with the figures that show it.

A limit is named only where the measurement shows it; ``unknown`` says that it does not.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from iocurve.analysis.client_limits import client_verdicts, fairness_of, group_limit
from iocurve.analysis.limit_kinds import UNKNOWN, Limit, is_sure, kind_of, limit
from iocurve.analysis.load_limits import (
    HELD_UP,
    asked_limit,
    cache_limit,
    crowded_limit,
    depth_limit,
    latency_limit,
    processor_limit,
    shares_of,
)
from iocurve.analysis.measured_load import MeasuredLoad, network_evidence
from iocurve.analysis.observations import SAME, ObservedPoint, observations, tells_nothing
from iocurve.analysis.run_limits import limits_shown, same_bytes
from iocurve.analysis.target_limits import caps_used, disk_limit, target_limit, volume_description
from iocurve.model.fit import PartCeiling, TargetPart
from iocurve.result.document import Axis, Point, Probe, Result, TargetFacts

__all__ = ["depth_series", "knee", "limit_of", "verdict_of", "verdicts_of", "volume_description"]

GROWTH = 0.05
"""A smaller gain in IOPS from one depth to the next counts as none."""
NEAR = 0.05
"""Points of which this machine held one up are at the same value if these differ by no more."""


Known = dict[tuple[int, ...], tuple[Sequence[Point], Sequence[ObservedPoint], dict[int, Limit]]]
"""The joint findings on points, by their identities; the points are kept, so that no other has these."""


def verdicts_of(result: Result, known: Known | None = None) -> list[Limit | None]:
    """The verdict on each point, in the order of the points; None where nothing was measured.

    Verdicts that the result holds are taken over. Where a point by itself leaves the limit open, the points of a target
    that tells nothing of itself are compared with one another; in a depth series, points past the knee are saturated.
    Who asks again after further probes keeps ``known``, so that the same points are compared once.
    """
    verdicts = [point.limit or verdict_of(point, result.target_of(point)) for point in result.points]
    told = [(point, verdict) for point, verdict in zip(result.points, verdicts, strict=True) if not point.limit]
    held_up = {id(point) for point, verdict in told if _is_of_processors(verdict)}
    open_points = [point for point, verdict in told if _is_open(verdict) or id(point) in held_up]
    together = _together(open_points, held_up, result, {} if known is None else known)
    saturated = {
        id(point): found
        for series in depth_series(result.points)
        if not tells_nothing(result.target_of(series[0]))
        for point, found in _saturated(series, result)
    }
    found = [_surer(verdict, together.get(id(point))) for point, verdict in zip(result.points, verdicts, strict=True)]
    return [
        saturated.get(id(point), verdict) if _is_open(verdict) else verdict
        for point, verdict in zip(result.points, found, strict=True)
    ]


def _is_open(verdict: Limit | None) -> bool:
    """True if something else may be the limit."""
    return verdict is not None and (verdict.code == UNKNOWN or verdict.confidence == "possible")


def _is_of_processors(verdict: Limit | None) -> bool:
    """True of busy processors, which do not keep a load from a limit that it reaches all the same."""
    codes = ("machine", HELD_UP, "generator")
    return verdict is not None and verdict.code in codes and verdict.confidence == "likely"


def _surer(verdict: Limit | None, shown: Limit | None) -> Limit | None:
    """The limit that points show together. Busy processors stay the limit, unless other points prove the limit.

    Others that hold them are only one of two where other points show a rate that may be a limit.
    """
    if shown is None or not _is_of_processors(verdict):
        return verdict if shown is None else shown
    has_rate = kind_of(shown.code).counts is not None
    if is_sure(shown) and (has_rate or shown.code == "depth"):
        return shown
    return verdict.replace(confidence="possible") if verdict and verdict.code == HELD_UP and has_rate else verdict


def _together(points: Sequence[Point], held_up: Container[int], result: Result, known: Known) -> dict[int, Limit]:
    """The limits that points show together and that probes found, by target and number of agents.

    ``held_up`` has the identities of those whose own verdict is on processors.
    """
    by_target: dict[tuple[str, int], list[Point]] = {}
    for point in points:
        by_target.setdefault((result.target_of(point).address, len(point.clients)), []).append(point)
    verdicts: dict[int, Limit] = {}
    for of_target in by_target.values():
        target = result.target_of(of_target[0])
        if tells_nothing(target):
            key = tuple(map(id, of_target))
            if key not in known:
                seen: Sequence[ObservedPoint] = observations(of_target, target)
                known[key] = of_target, seen, limits_shown(seen, target)
            _, seen, shown = known[key]
            probed = probed_limits(seen, of_target, result.perturbation_tests, shown, target)
            verdicts |= same_bytes([one for one in seen if id(one.point) in held_up], seen, target) | shown
            verdicts |= {key: one for key, one in probed.items() if wants_probe(shown.get(key))}
    return verdicts


def wants_probe(verdict: Limit | None) -> bool:
    """True where a probe may tell more: a limit that is not known or not sure, and saturation, whose cause is open."""
    return not is_sure(verdict) or (verdict is not None and verdict.code == "saturated")


def with_verdicts(result: Result) -> Result:
    """The result with the verdicts on each point and on each of its clients stored in it."""
    judged = (
        point if point.limit == verdict else point.replace(limit=verdict)
        for point, verdict in zip(result.points, verdicts_of(result), strict=True)
    )
    return result.replace(points=tuple(_with_clients_judged(point, result) for point in judged))


def without_verdicts(point: Point) -> Point:
    """The point before it was judged."""
    clients = tuple(client.replace(limit=None) for client in point.clients)
    return point.replace(limit=None, fairness=None, clients=clients)


def _with_clients_judged(point: Point, result: Result) -> Point:
    if not point.clients:
        return point
    # A limit that points show together is one that the clients share.
    shared = point.limit if point.limit and kind_of(point.limit.code).counts else None
    verdicts = {one.client.client: one.limit for one in client_verdicts(point, result.target_of(point), shared)}
    clients = tuple(client.replace(limit=verdicts.get(client.client)) for client in point.clients)
    return point.replace(clients=clients, fairness=fairness_of(point))


def limit_of(point: Point, target: TargetFacts) -> Limit | None:
    """The limit of one point by itself; None where nothing was measured or no limit is named."""
    verdict = verdict_of(point, target)
    return None if verdict is None or verdict.code == UNKNOWN else verdict


def verdict_of(point: Point, target: TargetFacts) -> Limit | None:
    """The verdict on one point by itself; None where nothing was measured."""
    if not point.summary().operations:
        return None
    load = MeasuredLoad(point, target)
    if point.clients:
        return group_limit(load) or _unknown(load)
    return (
        disk_limit(load)
        or target_limit(load)
        or asked_limit(load)
        or cache_limit(load)
        or latency_limit(load)
        or processor_limit(load)
        or crowded_limit(load)
        or depth_limit(load)
        or _unknown(load)
    )


def depth_series(points: Iterable[Point]) -> list[list[Point]]:
    """Points that differ in nothing but their depth, sorted by depth; a series has at least two."""
    series: dict[tuple[tuple[str, Axis], ...], list[Point]] = {}
    for point in points:
        if "depth" in point.axes:
            others = (("family", point.family), *((key, value) for key, value in point.axes.items() if key != "depth"))
            series.setdefault(others, []).append(point)
    return [sorted(members, key=lambda point: point.axis("depth")) for members in series.values() if len(members) > 1]


def knee(series: Sequence[Point]) -> Point | None:
    """The point of a depth series after which IOPS no longer grow; None while they still do."""
    iops = [point.summary().iops for point in series]
    for index, point in enumerate(series[:-1]):
        if max(iops[index + 1 :]) < iops[index] * (1 + GROWTH):
            return point
    return None


def _unknown(load: MeasuredLoad) -> Limit:
    evidence = [*caps_used(load), *shares_of(load.point.machine), *network_evidence(load)]
    return limit(UNKNOWN, "the figures do not tell", load.target, confidence="none", evidence=evidence)


def _saturated(series: Sequence[Point], result: Result) -> list[tuple[Point, Limit]]:
    """Points from the knee on. Their depth is in flight all the time, but more depth would not help."""
    start = knee(series)
    if start is None:
        return []
    text = f"saturated from depth {start.axes['depth']} on: more depth adds latency only"
    return [
        (point, limit("saturated", text, result.target_of(point), confidence="likely"))
        for point in series[series.index(start) :]
    ]


def probed_limits(
    found: Sequence[ObservedPoint],
    points: Sequence[Point],
    probes: Sequence[Probe],
    together: Mapping[int, Limit],
    target: TargetFacts,
) -> dict[int, Limit]:
    """The limits that probes found, by the identity of the points that they speak for.

    ``together`` has what the points show without a probe.
    """
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
    if probed is None or probed.is_starved:
        return
    counts = kind_of(code).counts
    for one in found:
        if code == "depth":
            is_same = (one.load, one.workers, one.connections) == (probed.load, probed.workers, probed.connections)
            if is_same and one.depth <= probed.depth:
                yield one.point
        elif counts and (at := _at(probed, TargetPart(*counts))).holds(one):
            # One that this machine held up may be anywhere below a limit.
            is_known = not (probed.is_held_up or one.is_held_up)
            if is_known or abs(at.part.value_of(one) - at.value) <= NEAR * at.value:
                yield one.point


def _at(probed: ObservedPoint, part: TargetPart) -> PartCeiling:
    return PartCeiling(part, part.value_of(probed), probed.rate_error(part.kind), (probed,))
