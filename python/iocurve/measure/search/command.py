"""``iocurve knee``, ``iocurve max``, ``iocurve curve``: from the command line to a result."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from iocurve.analysis.check_names import SEARCHES, Vocabulary
from iocurve.dialects.fio import command as fio
from iocurve.foundation.errors import Diagnostic, DialectError, option, words_of
from iocurve.foundation.units import SECOND_NS
from iocurve.job.model import Said, Section
from iocurve.measure import campaign as campaigns
from iocurve.measure.campaign import Campaign, Keep, Measure
from iocurve.measure.data_set import axes_of, require_reachable
from iocurve.measure.machines import THIS_MACHINE, Machines
from iocurve.measure.run_files import tell_leftovers
from iocurve.measure.search import ceiling, knee
from iocurve.measure.search.facts import curve_facts, knee_facts, length_remarks, max_facts
from iocurve.measure.search.loads import Effort, Loads
from iocurve.report.progress import View
from iocurve.result.document import Result, SearchFacts
from iocurve.targets import opened_target
from iocurve.targets.target import Target

OUR_OPTIONS = ("size", "runtime", "iodepth", "numjobs", "filename", "directory", "rate", "rate_iops", "ioengine")
"""fio's options that a search sets itself."""
CLOSED_POINTS = 20
"""The longest point of the search for the capacity takes this part of the patience: about six points, and others again
where something disturbed them."""
CLOSED_SHARE_MAX = 0.5
"""Most of the patience that the search for the capacity takes from the search for the rate."""


class Question(msgspec.Struct, frozen=True):
    """A search and its target."""

    target: Target
    workload: str
    """fio's words: ``rw=randread bs=4k``."""
    size_bytes: int
    effort: Effort
    limit_ns: int | None = None
    """Most time of the search; None: that of ``CLOSED_POINTS`` points."""
    iodepth_max: int = knee.DEPTH_MAX
    """Highest queue depth to try."""
    percent_of_capacity: float | None = None
    """The depth for this share of the capacity is the answer of a search for the knee; None: the knee itself."""
    overwrite: bool = False
    machines: Machines = THIS_MACHINE


def workload_of(text: str) -> tuple[Said, Said]:
    """A workload in fio's words, and fio's defaults for what it leaves open. Raises ``DialectError``."""
    words = [word if word.startswith("--") else f"--{word}" for word in words_of(text, option("workload"))]
    decided = [word for word in words if word[2:].partition("=")[0] in OUR_OPTIONS]
    if decided:
        raise DialectError(
            [Diagnostic(f"{option('workload')}: {decided[0]} is for the search to decide; leave it out")]
        )
    read = fio.read_command(["--name=load", "--size=1m", "--ioengine=io_uring", "--direct=1", "--norandommap", *words])
    if odd := [Diagnostic(f"{option('workload')}: {note.text}") for note in read.notes if note.code == "odd_value"]:
        raise DialectError(odd)
    (section,) = read.job.sections
    kept = section.said.but(name=None, size=None, engine=None, paths=None).at({})
    return kept, read.job.defaults.but(engine="uring")


def vocabulary(question: Question, kind: str, limit_percent: float | None = None) -> Vocabulary:
    """The names that the points and findings of a search will have, for checks. Raises ``DialectError``.

    ``limit_percent`` is the percentile of a latency limit.
    """
    workload, defaults = workload_of(question.workload)
    load = Section.of(workload, defaults).load
    findings = dict(SEARCHES[kind])
    if question.percent_of_capacity:
        findings[f"depth for {question.percent_of_capacity:g} % of capacity"] = "in flight"
    if limit_percent is not None:
        findings[f"p{limit_percent:g} at this rate"] = "µs"
    rate = [] if kind == "knee" else ["rate"]
    return Vocabulary(
        kinds=frozenset(load.kinds()),
        axes=frozenset([*axes_of(load), "depth", "nconnect", "clients", *rate]),
        findings=findings,
    )


def knee_search(question: Question) -> Measure:
    """Prepares the search for the smallest queue depth that reaches full throughput (the knee).

    Raises ``DialectError`` and ``TargetError``; what is given raises ``PlanError``, and ``TargetError`` or ``RunError``
    when nothing could be measured.
    """

    def search(loads: Loads) -> SearchFacts:
        percent = question.percent_of_capacity
        shares = {*knee.SHARES, *([percent / 100] if percent else [])}
        longest_s = (loads.effort.ramp_ns + loads.effort.longest_ns) / SECOND_NS

        def is_over() -> bool:
            return loads.campaign.seconds_left < longest_s

        found = knee.find(loads.closed, question.iodepth_max, sorted(shares), loads.look_max, is_over)
        return knee_facts(question.workload, found, percent)

    return _search(question, "knee", search)


def max_search(question: Question, percent: float, limit_ns: int) -> Measure:
    """Prepares the search for the highest rate at which a percentile of response times meets a limit, likewise."""

    def search(loads: Loads) -> SearchFacts:
        began, effort = time.monotonic(), question.effort
        loads.effort = effort.hurried(CLOSED_POINTS)
        capacity = knee.find_capacity(loads.closed, question.iodepth_max, loads.look_max)
        loads.effort, loads.family = effort, "max"
        limit = ceiling.LatencyLimit(percent, float(limit_ns))
        patience_s = effort.patience_ns / SECOND_NS
        closed_s = min(time.monotonic() - began, patience_s * CLOSED_SHARE_MAX)
        budget = ceiling.Budget(effort.precision, patience_s - closed_s, effort.rate_ns / SECOND_NS)

        def attempt(rate: float, seconds: float, is_decided: ceiling.IsDecided) -> ceiling.Trial:
            return loads.open(rate, seconds, limit_ns, is_decided)

        found = ceiling.find(attempt, capacity, limit, budget)
        return max_facts(question.workload, limit, capacity, found, closed_s)

    return _search(question, "max", search)


def curve_search(question: Question, steps: int) -> Measure:
    """Prepares the measurement of latency in even steps of load up to the target's capacity, likewise."""

    def search(loads: Loads) -> SearchFacts:
        capacity = knee.find_capacity(loads.closed, question.iodepth_max, loads.look_max)
        loads.family = "curve"
        seconds = question.effort.rate_ns / SECOND_NS
        left_out = 0
        for step in range(1, steps + 1):
            if step > 1 and loads.campaign.seconds_left < seconds:
                left_out += 1
                continue
            loads.open(capacity.mean * step / steps, seconds, None, lambda _operations, _late: False)
        return curve_facts(question.workload, capacity, steps, left_out)

    return _search(question, "curve", search)


def _search(question: Question, kind: str, search: Callable[[Loads], SearchFacts]) -> Measure:
    workload, defaults = workload_of(question.workload)
    writes = Section.of(workload, defaults).load.writes
    require_reachable(question.target, question.machines)
    opened_target.check_overwrites(question.target, overwrite=question.overwrite, writes=writes)

    def measure(view: View, keep: Keep) -> Result:
        with opened_target.opened(question.target) as found:
            tell_leftovers([found], view)
            name = f"{kind} of {found.facts.address}: {question.workload}"
            campaign = Campaign(campaigns.started(kind, name, found.facts), view, keep, machines=question.machines)
            loads = Loads(
                found, workload, defaults, question.size_bytes, question.effort, campaign, "depth", question.machines
            )

            def searched(_: Campaign) -> SearchFacts:
                campaign.limit_time(question.limit_ns or CLOSED_POINTS * question.effort.longest_ns)
                facts = search(loads)
                return facts.replace(remarks=(*facts.remarks, *length_remarks(campaign.result.points)))

            return campaigns.carry_out(campaign, searched, loads.files.remove)

    return measure


def findings_text(facts: SearchFacts) -> str:
    """The findings as text."""
    lines = [f"{facts.question} ({facts.workload})"]
    width = max(len(name) for name, _, _ in facts.rows)
    for name, figure, bounds in facts.rows:
        number, _, unit = figure.partition(" ")
        text = f"  {name:<{width}}  {number:>12} {unit}"
        lines.append(f"{text}  ({bounds})" if bounds else text)
    lines += [f"stopped: {facts.stopped}", *facts.remarks]
    return "\n".join(lines)
