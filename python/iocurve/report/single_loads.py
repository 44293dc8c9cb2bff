"""Loads without axes, those of a scenario or several points of jobs, as bars side by side."""

from __future__ import annotations

from collections.abc import Sequence

from iocurve.analysis import Reading, load_names
from iocurve.analysis.families import PointFamily
from iocurve.report import charts
from iocurve.report.cells import (
    ReportFigure,
    bars_caption,
    bounds,
    caps,
    caption,
    count,
    far_cap_caption,
    far_caption,
    last_cells,
    near_and_far,
    percentile,
    rate,
    target_of,
    targets_of,
)
from iocurve.report.charts import Chart
from iocurve.report.loads import mix_bars
from iocurve.report.table import LIMITED_BY, Cell, Table, decimal

BARS_MAX = 24
"""More loads than this have a table and no chart."""


def beside_each_other(reading: Reading) -> list[ReportFigure]:
    """One chart for each unit; no figure for fewer than two such loads."""
    singles = single_families(reading)
    if not singles:
        return []
    drawn = [_single_chart(unit, singles, reading) for unit in ("IOPS", "MiB/s") if len(singles) <= BARS_MAX]
    return [
        ReportFigure(
            slug="all-loads",
            title="All loads side by side",
            caption=caption(*dict.fromkeys(sentence for _, told in drawn for sentence in told)),
            charts=tuple(chart for chart, _ in drawn if chart),
            table=_singles_table(singles),
        )
    ]


def single_families(reading: Reading) -> list[PointFamily]:
    """The loads without axes, each as a family of one point, where there are several."""
    found = [one for family in reading.families if not family.is_measured_along_axes for one in family.each_point()]
    if reading.result.scenario:
        found = [family for family in reading.families if len(family.members) == 1]
    return found if len(found) > 1 else []


def _single_chart(unit: str, singles: Sequence[PointFamily], reading: Reading) -> tuple[Chart | None, tuple[str, ...]]:
    """The loads that are counted in a unit, and sentences on limits and published figures that are not drawn.

    Bars are stacked where reads and writes share a limit, which is that of one target.
    """
    families = [family for family in singles if _unit_of(family) == unit]
    if not families:
        return None, ()
    members = [family.members[0] for family in families]
    highest = max(rate(member.summary, unit) for member in members)
    limits = caps(members, reading, unit)
    drawn = charts.within_sight(limits, highest)
    near, far = near_and_far([mark for one in families for mark in _single_marks(one, reading, unit)], highest)
    told = (far_cap_caption(limits, drawn, target_of(families[0], reading)), far_caption(far))
    if all(len(targets_of(member.point, reading.result)) == 1 for member in members):
        stacks = [bar for family in families for bar in _stack(family, unit)]
        return charts.mix(stacks, unit, drawn, near, title=None), (*told, bars_caption(stacks))
    bars = [
        charts.GroupBar(
            family.subject,
            kind,
            rate(totals, unit),
            totals.latency.percentile(99),
            *bounds(family.members[0], unit, kind),
        )
        for family in families
        for kind, totals in family.members[0].summary.kinds.items()
    ]
    return charts.grouped(bars, unit, drawn, near), (*told, bars_caption(bars))


def _stack(family: PointFamily, unit: str) -> list[charts.MixBar]:
    return mix_bars(family, unit, lambda _: family.subject)


def _unit_of(family: PointFamily) -> str:
    return load_names.point_unit(family.members[0].point)


def _single_marks(family: PointFamily, reading: Reading, unit: str) -> list[charts.PublishedMark]:
    """The published rates of reads and writes of a family with one point."""
    (member,) = family.members
    return [
        charts.PublishedMark(family.subject, one.bounds[0], one.reference.title, one.figure.kind, one.legend)
        for one in reading.published
        if one.point is member.point and one.figure.unit == unit and one.figure.kind != "total"
    ]


def _singles_table(singles: Sequence[PointFamily]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            family.subject,
            kind,
            count(totals.iops),
            decimal(totals.mib_per_s),
            *(percentile(percent)(totals) for percent in (50.0, 99.0)),
            last_cells(family.members[0])[-1],
        )
        for family in singles
        for kind, totals in family.members[0].summary.kinds.items()
    ]
    return Table.of(("load", "kind", "IOPS", "MiB/s", "p50", "p99", LIMITED_BY), rows, text_columns=2)
