"""Findings and remarks of a search, as the result keeps them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from iocurve.foundation.errors import option
from iocurve.foundation.units import counted, format_duration, format_latency
from iocurve.measure.search import ceiling, knee, usl
from iocurve.measure.search.capacity import REPEAT, Range
from iocurve.result.document import Finding, Interval, Point, SearchFacts
from iocurve.result.stats import RAREST_SEEN, Estimate, scaled

BOUNDS = (
    "bounds hold whatever the form of the curve is, and allow for a standard deviation of "
    f"{100 * REPEAT:g} % between runs of one load: in at least 95 of 100 searches, in more where runs differ by less"
)
HIGHEST_RATE = "highest rate"
NEEDED_S_MAX = 86_400.0
"""A longer patience is not proposed."""
SOFT = 90.0
"""A knee is soft where the rate surely is less than this per cent of the capacity."""
UNSEEN = 0.25
"""Changes that last for more than this part of a point may make its interval too narrow:
``docs/evidence/accuracy.md``."""


def knee_facts(workload: str, found: knee.Knee, percent_of_capacity: float | None) -> SearchFacts:
    """The findings of a search for the knee; the depth for ``percent_of_capacity``, if requested, is the answer."""
    depths = {share.share: _depth_finding(share) for share in found.shares}
    answer = depths.pop(percent_of_capacity / 100, None) if percent_of_capacity else None
    law = found.law
    return SearchFacts(
        question=_knee_question(percent_of_capacity),
        workload=workload,
        findings=(
            *([answer] if answer else []),
            _range_finding("knee", "in flight", found.in_flight),
            _finding("load at the knee", "IOPS", found.at.iops),
            _finding("latency at the knee", "µs", scaled(found.at.latency_ns, 1e-3)),
            _range_finding("capacity reached at the knee", "%", _reached(found)),
            *depths.values(),
            _range_finding("capacity", "IOPS", found.capacity_iops),
            _finding("unloaded latency", "µs", scaled(found.unloaded_ns, 1e-3)),
            *(_law_findings(law) if law else []),
        ),
        stopped=found.stopped,
        remarks=(*_form_remarks(found), BOUNDS, *(_misfits(law) if law else [])),
    )


def max_facts(
    workload: str, limit: ceiling.LatencyLimit, capacity: Estimate, found: ceiling.Ceiling, closed_s: float = 0.0
) -> SearchFacts:
    """The findings of a search for the highest rate that meets a latency limit.

    ``closed_s`` is the part of the patience that the search for the capacity took.
    """
    findings = [_finding("capacity", "IOPS", capacity)]
    remarks = []
    if found.answer and found.nearest and found.latency_ns:
        latency = found.latency_ns
        low, high = (None if bound is None else bound / 1e3 for bound in (latency.low, latency.high))
        percentile = Interval(value=latency.value / 1e3, low=low, high=high)
        there = Finding(name=f"p{limit.percent:g} at this rate", unit="µs", figure=percentile)
        answer = Interval(value=found.answer.value, low=found.answer.low or 0.0, high=found.answer.high)
        findings = [Finding(name=HIGHEST_RATE, unit="IOPS", figure=answer), there, *findings]
        if found.nearest.rate != found.answer.value:
            remarks.append(
                f"p{limit.percent:g} was measured at {found.nearest.rate:,.6g} IOPS, the nearest rate that met it"
            )
        if found.answer.low is None:
            remarks.append(
                "no rate was shown to meet the limit: too few operations were measured, or latency hardly depends on "
                "the rate; only the upper bound says something"
            )
    elif found.ending != "missed":
        lowest = min(found.rates, key=lambda one: one.rate, default=None)
        tried = f": the lowest that was tried is {lowest.rate:,.6g} IOPS" if lowest else ""
        remarks.append(f"no measured rate met the limit{tried}")
    allowed = format_latency(round(limit.limit_ns))
    return SearchFacts(
        question=f"the highest rate with p{limit.percent:g} response time at most {allowed}",
        workload=workload,
        findings=tuple(findings),
        stopped=_max_stopped(found, closed_s),
        remarks=(*_machine_remarks(found), *remarks),
        unanswered="" if found.answer else HIGHEST_RATE,
    )


def _max_stopped(found: ceiling.Ceiling, closed_s: float) -> str:
    if found.ending == "missed":
        lowest = min(found.rates, key=lambda one: one.rate)
        return f"the limit is missed even at {lowest.rate:,.6g} IOPS"
    if found.ending == "capacity":
        return "the limit holds up to the capacity of the target"
    if found.ending == "precision":
        return "the bounds of the rate are within the precision"
    needed_s = closed_s + (found.needed_s or 0.0)
    if needed_s > NEEDED_S_MAX:
        return "the patience ended: the precision would need more than a day; ask for less with --precision"
    return f"the patience ended: the precision would need about --search-time {_patience(needed_s)}"


def _patience(seconds: float) -> str:
    """A time as ``--search-time`` reads it: ``90s``, ``11m``, ``5h``."""
    for unit, length in (("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{math.ceil(seconds / length)}{unit}"
    return f"{math.ceil(seconds)}s"


def _machine_remarks(found: ceiling.Ceiling) -> list[str]:
    """Said where this machine and not the target missed the limit."""
    if not found.late_by_machine:
        return []
    share = f"{found.late_by_machine:.0%} of the late operations"
    if found.answer is None:
        return [f"this machine missed the limit: it submitted {share} late, and the target met the limit for them"]
    return [
        f"this machine is a part of the answer: it submitted {share} late, and the target met the limit for them; "
        "the upper bound is that of the target alone"
    ]


def length_remarks(points: Sequence[Point]) -> tuple[str, ...]:
    """Remark on events and changes that points that ended by their precision did not see."""
    lengths = [point.summary().window_ns for point in points if point.length_chosen_by]
    if not lengths:
        return ()
    shortest, rarest, unseen = (format_duration(round(min(lengths) * part)) for part in (1, RAREST_SEEN, UNSEEN))
    return (
        f"points end when their rates are precise enough, the shortest here after {shortest}: stalls and drops that "
        f"come less often than every {rarest} may be in no interval, and one may be too narrow where the target "
        f"stays faster or slower for longer than about {unseen}; a smaller --precision measures longer",
    )


def curve_facts(workload: str, capacity: Estimate, steps: int, left_out: int = 0) -> SearchFacts:
    """The findings of a latency curve."""
    over = f"; {option('search_time')} left out {counted(left_out, 'step')}" if left_out else ""
    return SearchFacts(
        question="latency against load",
        workload=workload,
        findings=(_finding("capacity", "IOPS", capacity),),
        stopped=f"{steps} even steps up to the closed-loop capacity{over}",
    )


def _knee_question(percent_of_capacity: float | None) -> str:
    if percent_of_capacity:
        return f"the smallest queue depth that reaches {percent_of_capacity:g} % of the target's capacity"
    return "the knee: the queue depth where capacity and unloaded latency meet"


def _reached(found: knee.Knee) -> Range:
    """Per cent of the capacity that the rate at the knee is."""
    capacity, rate = found.capacity_iops, found.at.iops
    percent = 100 * rate.mean / capacity.mean
    less = math.hypot(rate.precision, capacity.high / capacity.mean - 1)
    more = math.hypot(rate.precision, 1 - capacity.low / capacity.mean)
    return Range(percent, percent * (1 - less), percent * (1 + more))


def _depth_finding(depth: knee.ShareDepth) -> Finding:
    return Finding(
        name=f"depth for {100 * depth.share:g} % of capacity",
        unit="in flight",
        figure=Interval(value=depth.in_flight, low=depth.low, high=depth.high, kind="bounds"),
    )


def _form_remarks(found: knee.Knee) -> list[str]:
    """Caveats that follow from the form of the curve."""
    remarks, deepest = [], found.samples[-1].in_flight
    if found.form == "growing":
        remarks.append(
            f"--iodepth-max {deepest} was reached while the rate still grew: capacity, knee and depths are lower bounds"
        )
    if found.form == "approaching":
        remarks.append(
            f"the form of the curve is unknown: the rate may still grow beyond depth {deepest}. The capacity is at "
            "least what was measured and at most what the bend of the curve allows; its value between these bounds is "
            "an extrapolation (1 / depth)"
        )
    if found.form == "falling":
        remarks.append(
            "the rate has a maximum and falls at higher depths: the capacity is the maximum, and its upper bound is "
            "what the curve can hide between the depths that were measured"
        )
    if found.grew_again_at is not None:
        remarks.append(
            f"the rate slowed down or stood still up to depth {found.grew_again_at} and grew again beyond it: several "
            "parts of the target limit it one after another"
        )
    if (reached := _reached(found)).high < SOFT:
        remarks.append(
            f"the knee is soft: the rate there is {reached.low:.0f} to {reached.high:.0f} % of the capacity; "
            "the depths for shares of the capacity say what more in flight gains"
        )
    return remarks


def _law_findings(law: usl.Usl) -> Sequence[Finding]:
    return (
        _finding("USL lambda", "IOPS", law.rate),
        _finding("USL sigma (contention)", "", law.contention),
        _finding("USL kappa (coherency)", "", law.coherency),
    )


def _misfits(law: usl.Usl) -> list[str]:
    """The depths at which the law does not describe the measurement, with the differences."""
    if not law.misfits:
        return []
    places = ", ".join(f"{in_flight} ({fitted / rate - 1:+.0%})" for in_flight, rate, fitted in law.misfits)
    return [f"the universal scalability law does not fit the measurement at these depths: {places}"]


def _range_finding(name: str, unit: str, found: Range) -> Finding:
    """A figure that depends on the capacity, whose bounds assume no form of the curve."""
    low, high = (bound if math.isfinite(bound) else None for bound in (found.low, found.high))
    return Finding(name=name, unit=unit, figure=Interval(value=found.mean, low=low, high=high, kind="bounds"))


def _finding(name: str, unit: str, estimate: Estimate) -> Finding:
    return Finding(name=name, unit=unit, figure=Interval.of(estimate))
