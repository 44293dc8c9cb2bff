"""Chooses the figures of a report: each is a chart or two, and a table with the exact values.

The axes of a family decide, not its name: points along ``read_percent`` are drawn as a mix, points along ``depth`` as a
latency curve. A family that varies along no known axis is drawn over time; where a scenario has several of them, they
are bars side by side, and their course over time is folded.
"""

from __future__ import annotations

from iocurve.analysis import Reading
from iocurve.analysis.families import PointFamily
from iocurve.analysis.findings import KneeFinding
from iocurve.foundation.units import format_number
from iocurve.report import charts, clients, comparisons, loads
from iocurve.report.cells import ReportFigure, caps, slug
from iocurve.report.charts import Chart
from iocurve.report.table import Table
from iocurve.result.document import SearchFacts


def figures(reading: Reading) -> list[ReportFigure]:
    """The loads side by side, the figures of each family, then those that compare families; folded ones last."""
    of_families = [figure for family in reading.families for figure in _family_figures(family, reading)]
    return [
        *comparisons.beside_each_other(reading),
        *search_figures(reading),
        *(figure for figure in of_families if not figure.is_folded),
        *comparisons.comparisons(reading),
        *comparisons.with_published(reading),
        *clients.shared(reading),
        *(figure for figure in of_families if figure.is_folded),
    ]


def _family_figures(family: PointFamily, reading: Reading) -> list[ReportFigure]:
    return [*_by_axes(family, reading), *loads.by_kind(family, reading)]


def _by_axes(family: PointFamily, reading: Reading) -> list[ReportFigure]:
    if family.varies("files"):
        return [loads.by_files(family, reading)]
    if family.is_scale_out:
        return [clients.scale_out(family, reading)]
    if family.is_mix:
        return [loads.mix(family, reading)]
    if family.is_advice:
        return [comparisons.advice_table(family)]
    if family.is_depth:
        return [loads.latency(family, reading), *loads.side_by_side(family, reading)]
    if family.is_rate:
        return [loads.by_rate(family, reading)]
    if family.is_grid:
        return [comparisons.grid(family, reading)]
    if len(family.members) > loads.OVER_TIME_POINTS_MAX:
        return [loads.by_job(family)]
    is_folded = len(comparisons.single_families(reading)) > 0
    each = family.each_point() if len(family.members) > 1 else [family]
    return [loads.over_time(one, reading, is_folded=is_folded) for one in each]


KNEE_CAPTION = (
    "The knee is where two bounds meet: the rate if no operation waited for another, and the capacity. Below it more "
    "operations in flight raise the rate, above it they only wait longer."
)


def search_figures(reading: Reading) -> list[ReportFigure]:
    """All that a search found; of a knee also the rate by the operations in flight, between both bounds."""
    search = reading.result.search
    if search is None:
        return []
    family = next((family for family in reading.families if family.is_depth), None)
    chart = _knee_chart(family, reading, reading.knee) if family and reading.knee else None
    title = f"{family.subject}: IOPS by operations in flight" if family and chart else "What the search found"
    return [
        ReportFigure(
            slug=slug(title),
            title=title,
            caption=KNEE_CAPTION if chart else "",
            charts=(chart,) if chart else (),
            table=_findings_table(search),
        )
    ]


def _knee_chart(family: PointFamily, reading: Reading, knee: KneeFinding) -> Chart:
    rates = {int(member.axis("depth")): member.summary.iops for member in family.members}
    limits = charts.within_sight(caps(family.members, reading, "IOPS"), family.fastest.summary.iops)
    return charts.knee_curve(rates, limits, knee)


def _findings_table(search: SearchFacts) -> Table:
    """All that a search found, with full figures."""
    rows = [
        (finding.name, f"{format_number(finding.figure.value, 3)} {finding.unit}".rstrip(), finding.figure.bounds_text)
        for finding in search.findings
    ]
    return Table.of(("found", "figure", "bounds"), rows)
