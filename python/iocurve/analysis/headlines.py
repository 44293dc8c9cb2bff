"""The headline figures of a result: the few numbers that a reader came for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iocurve.analysis import connections
from iocurve.analysis.families import Family
from iocurve.result.document import Finding, Result
from iocurve.result.summary import Summary
from iocurve.units import format_count, format_latency

RATES_MAX = 5
"""A family without axes shows at most this many rates of its jobs."""
SEARCH_HEADLINES_MAX = 3
"""A search shows its answer first, then the figures measured there."""


@dataclass(frozen=True)
class Headline:
    """One figure with its unit and its meaning."""

    value: str
    unit: str
    what: str
    """The meaning: ``4 KiB random reads``."""


def headlines_of(result: Result, families: Sequence[Family]) -> list[Headline]:
    """The findings of a search; otherwise the best figures of each family."""
    if result.search:
        return [_search_headline(finding) for finding in result.search.findings[:SEARCH_HEADLINES_MAX]]
    return [headline for family in families for headline in _family_headlines(family)]


def _search_headline(finding: Finding) -> Headline:
    return Headline(f"{finding.figure.value:,.4g}", finding.unit, finding.name)


def _family_headlines(family: Family) -> list[Headline]:
    if family.is_mix:
        return _mix_headlines(family)
    if family.is_advice:
        return _advice_headlines(family)
    if family.is_depth:
        return _depth_headlines(family)
    return _job_headlines(family)


def _mix_headlines(family: Family) -> list[Headline]:
    """Pure reads and pure writes."""
    pure = ((100.0, "reads"), (0.0, "writes"))
    return [
        Headline(*_rate(family, member.summary), f"{family.load} {word}")
        for percent, word in pure
        for member in family.members
        if member.axis("read_percent") == percent
    ]


def _rate(family: Family, summary: Summary) -> tuple[str, str]:
    if family.is_sequential:
        return f"{summary.mib_per_s:,.0f}", "MiB/s"
    return format_count(summary.iops), "IOPS"


def _advice_headlines(family: Family) -> list[Headline]:
    pairs = connections.pairs(family.members)
    pays = sum(pair.advice == "pays" for pair in pairs)
    _, most = connections.fewest_and_most(family.members)
    return [Headline(f"{pays}", f"of {len(pairs)}", f"loads gain from nconnect {most}")]


def _depth_headlines(family: Family) -> list[Headline]:
    shallow = min(family.members, key=lambda member: member.axis("depth"))
    return [_latency_headline(shallow.summary, f"p50 of a {family.subject} at depth {shallow.axis('depth'):g}")]


def _job_headlines(family: Family) -> list[Headline]:
    """Rates of the fastest point by report group: without axes nothing else singles out a point."""
    groups = family.fastest.point.report_groups()
    rates = [
        Headline(format_count(totals.iops), "IOPS", f"{_prefix(group, groups)}{kind}s, {totals.mib_per_s:,.1f} MiB/s")
        for group in groups
        for kind, totals in group.kinds.items()
    ]
    # A median over jobs that have nothing to do with each other means nothing.
    median = [_latency_headline(family.fastest.summary, "p50, all operations")] if len(groups) == 1 else []
    return rates[:RATES_MAX] + median


def _prefix(group: Summary, groups: Sequence[Summary]) -> str:
    return f"{group.name}: " if len(groups) > 1 else ""


def _latency_headline(summary: Summary, what: str) -> Headline:
    value, unit = format_latency(summary.latency.percentile(50)).split(" ")
    return Headline(value, unit, what)
