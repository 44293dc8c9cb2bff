"""Figures of searches: all that a search found, and the knee between its bounds."""

from __future__ import annotations

from iocurve.analysis import Reading
from iocurve.analysis.families import Family
from iocurve.analysis.searches import Knee
from iocurve.report import charts
from iocurve.report.cells import Figure, Table, caps, slug
from iocurve.report.charts import Chart
from iocurve.result.document import SearchFacts
from iocurve.units import format_number

KNEE_CAPTION = (
    "The knee is where two bounds meet: the rate if no operation waited for another, and the capacity. Below it more "
    "operations in flight raise the rate, above it they only wait longer."
)


def found(reading: Reading) -> list[Figure]:
    """All that a search found; of a knee also the rate by the operations in flight, between both bounds."""
    search = reading.result.search
    if search is None:
        return []
    family = next((family for family in reading.families if family.is_depth), None)
    chart = _knee_chart(family, reading, reading.knee) if family and reading.knee else None
    title = f"{family.subject}: IOPS by operations in flight" if family and chart else "What the search found"
    return [
        Figure(
            slug=slug(title),
            title=title,
            caption=KNEE_CAPTION if chart else "",
            charts=(chart,) if chart else (),
            table=_findings_table(search),
        )
    ]


def _knee_chart(family: Family, reading: Reading, knee: Knee) -> Chart:
    dots = [charts.DepthDot(int(member.axis("depth")), member.summary.iops) for member in family.members]
    limits = charts.within_sight(caps(family.members, reading, "IOPS"), family.fastest.summary.iops)
    return charts.knee_curve(dots, limits, knee)


def _findings_table(search: SearchFacts) -> Table:
    """All that a search found, with full figures."""
    rows = [
        (finding.name, f"{format_number(finding.figure.value)} {finding.unit}".rstrip(), finding.figure.bounds_text)
        for finding in search.findings
    ]
    return Table(("found", "figure", "bounds"), tuple(rows))
