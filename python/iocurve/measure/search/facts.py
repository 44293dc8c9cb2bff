"""Findings and remarks of a search, as the result keeps them."""

from __future__ import annotations

from collections.abc import Sequence

from iocurve.measure.search import ceiling, knee, usl
from iocurve.result.document import Finding, Interval, SearchFacts
from iocurve.result.stats import Estimate, ratio, scaled
from iocurve.units import format_latency


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
            _finding("knee", "in flight", found.in_flight),
            _finding("load at the knee", "IOPS", found.at.iops),
            _finding("latency at the knee", "µs", scaled(found.at.latency_ns, 1e-3)),
            _finding("capacity reached at the knee", "%", scaled(ratio(found.at.iops, found.capacity_iops), 100)),
            *depths.values(),
            _finding("capacity", "IOPS", found.capacity_iops),
            _finding("unloaded latency", "µs", scaled(found.unloaded_ns, 1e-3)),
            *(_law_findings(law) if law else []),
        ),
        stopped=found.stopped,
        remarks=(*_depth_remarks(found), *(_misfits(law) if law else [])),
    )


def max_facts(workload: str, limit: ceiling.Limit, capacity: Estimate, found: ceiling.Ceiling) -> SearchFacts:
    """The findings of a search for the highest rate that meets a latency limit."""
    findings = [_finding("capacity", "IOPS", capacity)]
    remarks = []
    if found.answer and found.nearest:
        latency = found.nearest.latency_ns
        bounds = (None if bound is None else bound / 1e3 for bound in (latency.low, latency.high))
        there = Finding(
            name=f"p{limit.percent:g} at this rate", unit="µs", figure=_interval(latency.value / 1e3, *bounds)
        )
        findings = [Finding(name="highest rate", unit="IOPS", figure=_answer(found.answer)), there, *findings]
        if found.nearest.rate != found.answer.value:
            remarks.append(f"p{limit.percent:g} was measured at {found.nearest.rate:,.6g} IOPS, the nearest rate")
    allowed = format_latency(round(limit.limit_ns))
    return SearchFacts(
        question=f"the highest rate with p{limit.percent:g} response time at most {allowed}",
        workload=workload,
        findings=tuple(findings),
        stopped=found.stopped,
        remarks=tuple(remarks),
    )


def curve_facts(workload: str, capacity: Estimate, steps: int) -> SearchFacts:
    """The findings of a latency curve."""
    return SearchFacts(
        question="latency against load",
        workload=workload,
        findings=(_finding("capacity", "IOPS", capacity),),
        stopped=f"{steps} even steps up to the closed-loop capacity",
    )


def _knee_question(percent_of_capacity: float | None) -> str:
    if percent_of_capacity:
        return f"the smallest queue depth that reaches {percent_of_capacity:g} % of the target's capacity"
    return "the knee: the queue depth where capacity and unloaded latency meet"


def _depth_finding(depth: knee.ShareDepth) -> Finding:
    return Finding(
        name=f"depth for {100 * depth.share:g} % of capacity",
        unit="in flight",
        figure=_interval(depth.in_flight, depth.low, depth.high),
    )


def _depth_remarks(found: knee.Knee) -> list[str]:
    if found.saturated:
        return []
    highest = found.samples[-1]
    reached = f"--iodepth-max {highest.in_flight} was reached while the rate still grew"
    if found.capacity_iops.mean > highest.iops.mean:
        return [f"{reached}: the capacity is the rate that it tends to, as far as the last two depths tell"]
    return [f"{reached}: capacity, knee and depths are lower bounds"]


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
    places = ", ".join(f"{misfit.in_flight} ({misfit.fitted / misfit.measured - 1:+.0%})" for misfit in law.misfits)
    return [f"the universal scalability law does not fit the measurement at these depths: {places}"]


def _answer(answer: ceiling.Bounds) -> Interval:
    if answer.low == answer.value:
        return Interval(value=answer.value, low=answer.low, high=answer.high, kind="bracket")
    return _interval(answer.value, answer.low, answer.high)


def _interval(value: float, low: float | None, high: float | None) -> Interval:
    return Interval(value=value, low=low, high=high)


def _finding(name: str, unit: str, estimate: Estimate) -> Finding:
    return Finding(name=name, unit=unit, figure=Interval.of(estimate))
