"""``iocurve knee``, ``iocurve max``, ``iocurve curve``: searches on a target, from words to a result."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from iocurve.dialects.fio import command as fio
from iocurve.errors import DialectError, Mistake
from iocurve.job.model import Said, Section
from iocurve.measure import campaign as campaigns
from iocurve.measure.campaign import Campaign, Keep
from iocurve.measure.search import ceiling, knee, usl
from iocurve.measure.search.loads import Effort, Loads
from iocurve.report.view import View
from iocurve.result.document import Finding, Interval, Result, SearchFacts
from iocurve.result.stats import Estimate, scaled
from iocurve.targets import opened_target
from iocurve.targets.target import Target
from iocurve.units import format_latency

OUR_OPTIONS = ("size", "runtime", "iodepth", "numjobs", "filename", "directory", "rate", "rate_iops", "ioengine")
"""fio's words for what a search decides itself."""


@dataclass(frozen=True)
class Question:
    """What is searched, where."""

    target: Target
    workload: str
    """fio's words: ``rw=randread bs=4k``."""
    size_bytes: int
    effort: Effort
    iodepth_max: int = 4096
    """Most that is tried."""
    overwrite: bool = False


def workload_of(text: str) -> tuple[Said, Said]:
    """A workload in fio's words, and fio's defaults for what it leaves open. Raises ``DialectError``."""
    try:
        words = [word if word.startswith("--") else f"--{word}" for word in shlex.split(text)]
    except ValueError as error:
        raise DialectError([Mistake(f"--workload {text}: {error}")]) from None
    decided = [word for word in words if word[2:].partition("=")[0] in OUR_OPTIONS]
    if decided:
        raise DialectError([Mistake(f"--workload: {decided[0]} is for the search to decide; leave it out")])
    prepared = fio.prepare(["--name=load", "--size=1m", "--ioengine=io_uring", "--direct=1", "--norandommap", *words])
    if odd := [Mistake(f"--workload: {note.text}") for note in prepared.notes if note.code == "odd_value"]:
        raise DialectError(odd)
    (section,) = prepared.job.sections
    kept = section.said.but(name=None, size=None, engine=None, paths=None).at({})
    return kept, prepared.job.defaults.but(engine="uring")


def find_knee(question: Question, directory: Path, *, quiet: bool = False) -> Result:
    """How much must be in flight to have all that a target carries.

    Raises ``DialectError``, ``PlanError``, and ``TargetError`` or ``RunError`` when nothing could be measured.
    """

    def search(loads: Loads) -> SearchFacts:
        found = knee.find(loads.closed, question.iodepth_max)
        return _knee_facts(question, found)

    return _searched(question, "knee", search, directory, quiet=quiet)


def find_max(question: Question, percent: float, limit_ns: int, directory: Path, *, quiet: bool = False) -> Result:
    """The most load at which a percentile of response times keeps a limit. Raises as ``find_knee``."""

    def search(loads: Loads) -> SearchFacts:
        capacity = knee.find_capacity(loads.closed, question.iodepth_max)
        loads.family = "max"
        found = ceiling.find(lambda rate: loads.open(rate, percent), capacity.mean, limit_ns, question.effort.precision)
        return _ceiling_facts(question, percent, limit_ns, capacity, found)

    return _searched(question, "max", search, directory, quiet=quiet)


def draw_curve(question: Question, steps: int, directory: Path, *, quiet: bool = False) -> Result:
    """Latency at even steps of load up to what the target carries. Raises as ``find_knee``."""

    def search(loads: Loads) -> SearchFacts:
        capacity = knee.find_capacity(loads.closed, question.iodepth_max)
        loads.family = "curve"
        for step in range(1, steps + 1):
            loads.open(capacity.mean * step / steps, 99.0)
        return SearchFacts(
            question="latency against load",
            workload=question.workload,
            findings=(_finding("capacity", "IOPS", capacity),),
            stopped=f"{steps} even steps up to all that the target carries in a closed loop",
        )

    return _searched(question, "curve", search, directory, quiet=quiet)


def _searched(
    question: Question, kind: str, search: Callable[[Loads], SearchFacts], directory: Path, *, quiet: bool
) -> Result:
    workload, defaults = workload_of(question.workload)
    writes = Section.of(workload, defaults).load.writes
    opened_target.check_overwrites(question.target, overwrite=question.overwrite, writes=writes)

    def measure(view: View, keep: Keep) -> Result:
        with opened_target.opened(question.target) as found:
            name = f"{kind} of {found.facts.address}: {question.workload}"
            campaign = Campaign(campaigns.started(kind, name, found.facts), view, keep)
            loads = Loads(found, workload, defaults, question.size_bytes, question.effort, campaign, "depth")
            try:
                return campaigns.carry_out(campaign, lambda _: search(loads))
            finally:
                loads.remove_files()

    return campaigns.into_directory(directory, measure, quiet=quiet)


def _knee_facts(question: Question, found: knee.Knee) -> SearchFacts:
    remarks = [] if found.saturated else ["the target still carried more: the figures are lower bounds"]
    findings = [
        _finding("knee", "in flight", found.in_flight),
        _finding("load at the knee", "IOPS", found.at.iops),
        _finding("latency at the knee", "µs", scaled(found.at.latency_ns, 1e-3)),
        _finding("capacity", "IOPS", found.capacity_iops),
        _finding("unloaded latency", "µs", scaled(found.unloaded_ns, 1e-3)),
    ]
    if law := found.law:
        findings += [
            _finding("USL lambda", "IOPS", law.rate),
            _finding("USL sigma (contention)", "", law.contention),
            _finding("USL kappa (coherency)", "", law.coherency),
        ]
        remarks += _misfits(law)
    return SearchFacts(
        question="how much must be in flight to have all that the target carries",
        workload=question.workload,
        findings=tuple(findings),
        stopped=found.stopped,
        remarks=tuple(remarks),
    )


def _misfits(law: usl.Usl) -> list[str]:
    """Where the law does not describe what was measured, and by how much."""
    if not law.misfits:
        return []
    places = ", ".join(f"{misfit.in_flight} ({misfit.fitted / misfit.measured - 1:+.0%})" for misfit in law.misfits)
    return [f"the universal scalability law does not fit what was measured with so many in flight: {places}"]


def _ceiling_facts(
    question: Question, percent: float, limit_ns: int, capacity: Estimate, found: ceiling.Ceiling
) -> SearchFacts:
    findings = [_finding("capacity", "IOPS", capacity)]
    remarks = []
    if best := found.best:
        # The answer is as sure as the bracket is narrow.
        answer = Interval(value=best.rate, low=best.rate, high=found.failed_rate, kind="bracket")
        latency = _finding(f"p{percent:g} there", "µs", scaled(best.latency_ns, 1e-3))
        findings = [Finding(name="most load", unit="IOPS", figure=answer), latency, *findings]
        if not best.is_sure:
            remarks.append("at the highest rate that held, the latency's interval holds the limit: its mean decided")
    return SearchFacts(
        question=f"the most load with p{percent:g} of response times at most {format_latency(limit_ns)}",
        workload=question.workload,
        findings=tuple(findings),
        stopped=found.stopped,
        remarks=tuple(remarks),
    )


def _finding(name: str, unit: str, estimate: Estimate) -> Finding:
    return Finding(name=name, unit=unit, figure=Interval.of(estimate))


def shown(facts: SearchFacts) -> str:
    """What was found, in words."""
    lines = [f"{facts.question} ({facts.workload})"]
    width = max(len(finding.name) for finding in facts.findings)
    for finding in facts.findings:
        figure = finding.figure
        text = f"  {finding.name:<{width}}  {figure.value:>12,.6g} {finding.unit}"
        lines.append(f"{text}  ({figure.bounds_text})" if figure.bounds_text else text)
    lines += [f"stopped: {facts.stopped}", *facts.remarks]
    return "\n".join(lines)
