"""Probes after the last point: they look for the limits of the fastest loads where the points leave them open.

A probe repeats the load of a point with one change at a time (``iocurve.measure.why``), on the files of the run. A file
or device that was there before is only read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from iocurve.analysis.limits import verdicts_of, wants_probe
from iocurve.analysis.load_names import rate_unit, workers_of
from iocurve.analysis.observations import tells_nothing
from iocurve.engine.plan import Plan
from iocurve.foundation.errors import Interrupted, IocurveError
from iocurve.foundation.units import SECOND_NS
from iocurve.measure.campaign import Campaign
from iocurve.measure.why import HELD_UP, diagnose
from iocurve.result.document import Point, Probe, Result

PROBES_MAX = 2
PATIENCE_S = 15.0
"""Longest time of one probe, after which it ends with the verdict that it has."""
LONG_S = PROBES_MAX * PATIENCE_S
"""Time of all probes of a run; ..."""
SHORT_S = 8.0
"""... after the short form of a scenario."""
LEAST_S = 2.0
"""A probe is not started with less time than this."""

PlanAgain = Callable[[str], Plan | None]
"""The plan of a point for another run; None where it must not run again."""


def probe(campaign: Campaign, plan_again: PlanAgain, seconds: float) -> None:
    """Probes the fastest loads whose limit is open, for ``seconds`` in all.

    Ctrl-C ends the probes and costs no point.
    """
    tried: list[str] = []
    until_s = time.monotonic() + seconds
    try:
        while len(tried) < PROBES_MAX and (point := _next(campaign.result, tried, plan_again)):
            left_s = until_s - time.monotonic()
            if left_s < LEAST_S:
                break
            tried.append(point.name)
            _probe(campaign, point, plan_again, min(PATIENCE_S, left_s))
    except (Interrupted, KeyboardInterrupt):
        campaign.result = campaign.result.with_note("probe_interrupted", "the probes were interrupted", "info")
    except IocurveError as error:
        campaign.result = campaign.result.with_note("probe_failed", f"a probe failed: {error}", "info")


def _next(result: Result, tried: Sequence[str], plan_again: PlanAgain) -> Point | None:
    """The fastest load of those counted in IOPS, then of those counted in MiB/s; reads before writes."""
    places: dict[tuple[bool, int], Point] = {}
    done = [_place(point) for point in result.points if point.name in tried]
    for point, verdict in zip(result.points, verdicts_of(result), strict=True):
        place = _place(point)
        if place in done or not _is_probed(point, result) or not wants_probe(verdict):
            continue
        if place not in places or point.summary().bytes_per_s > places[place].summary().bytes_per_s:
            places[place] = point
    return next((places[place] for place in sorted(places) if plan_again(places[place].name)), None)


def _place(point: Point) -> tuple[bool, int]:
    """Sorts reads before writes before mixes, and IOPS before MiB/s."""
    (kind, *others) = point.summary().kinds
    return rate_unit(workers_of(point)) == "MiB/s", 2 if others else {"read": 0, "write": 1}.get(kind, 2)


def _is_probed(point: Point, result: Result) -> bool:
    """True for a closed loop that ran to its end on one target that states no limits."""
    summary = point.summary()
    is_known = not tells_nothing(result.target_of(point))
    return not (is_known or summary.paced or point.clients or point.outcome.state != "finished" or not summary.bytes)


def _probe(campaign: Campaign, point: Point, plan_again: PlanAgain, patience_s: float) -> None:
    plan = plan_again(point.name)
    assert plan is not None, "it was asked for before"
    start = time.monotonic()
    run = partial(campaign.repeat, purpose=f"probing what limits {point.name}")
    limit, base = diagnose(plan, campaign.result.target_of(point), run, patience_s)
    if limit.code != HELD_UP:
        elapsed_ns = round((time.monotonic() - start) * SECOND_NS)
        campaign.add_probe(Probe(point=point.name, limit=limit, iops=base.summary().iops, elapsed_ns=elapsed_ns))
