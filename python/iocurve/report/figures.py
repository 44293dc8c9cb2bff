"""Chooses the figures of a report: each is a chart or two, and a table with the exact values.

The axes of a family decide, not its name: points along ``read_percent`` are drawn as a mix, points along ``depth`` as a
latency curve. A family that varies along no known axis is drawn over time; where a scenario has several of them, they
are bars side by side, and their course over time is folded.
"""

from __future__ import annotations

from collections.abc import Sequence

from iocurve.analysis import Reading
from iocurve.analysis.client_limits import ClientVerdict, client_verdicts, limited_clients
from iocurve.analysis.families import PointFamily
from iocurve.analysis.findings import KneeFinding
from iocurve.foundation.units import MIB, format_count, sentence
from iocurve.report import chart_curves, chart_style, comparisons, loads
from iocurve.report.cells import LAST_COLUMNS, ReportFigure, caps, cells, cpu, points_table, rate_bar, target_of
from iocurve.report.chart_style import Chart
from iocurve.report.table import Cell, Table, clients_cell, fairness_cells
from iocurve.result.caps import EGRESS
from iocurve.result.document import Point, SearchFacts


def figures(reading: Reading) -> list[ReportFigure]:
    """The loads side by side, the figures of each family, then those that compare families; folded ones last."""
    of_families = _family_figures(reading)
    return [
        *comparisons.beside_each_other(reading),
        *search_figures(reading),
        *(figure for figure in of_families if not figure.is_folded),
        *comparisons.comparisons(reading),
        *comparisons.with_published(reading),
        *shared(reading),
        *(figure for figure in of_families if figure.is_folded),
    ]


OVER_TIME_MAX = 48
"""Of more points without axes one table has them all: charts of each over time would fill most of a large page."""


def _family_figures(reading: Reading) -> list[ReportFigure]:
    """The figures of each family; of many points without axes one figure."""
    families = reading.families
    single = [family for family in families if not family.is_measured_along_axes]
    members = tuple(member for family in single for member in family.members)
    if len(members) <= OVER_TIME_MAX:
        return [figure for family in families for figure in family_figures(family, reading)]
    along = [family for family in families if family.is_measured_along_axes]
    of_along = [figure for family in along for figure in family_figures(family, reading)]
    return [*of_along, loads.by_job(PointFamily("", members))]


def family_figures(family: PointFamily, reading: Reading) -> list[ReportFigure]:
    """The figures of one family, at least one."""
    return [*_by_axes(family, reading), *loads.by_kind(family)]


def _by_axes(family: PointFamily, reading: Reading) -> list[ReportFigure]:
    if family.varies("files"):
        return [loads.by_files(family)]
    if family.is_scale_out:
        return [scale_out(family, reading)]
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


EXPLORED = ("iops", "mib_per_s", "p50_us", "p99_us", "p99_9_us", "max_us", "cpu_us_per_operation")
"""Figures that the reader may draw over each other and over the parameters of points, by their names in points.csv."""
EXPLORED_CAPTION = "Choose what goes across, what goes upwards, and what the colors tell apart."


def explored(reading: Reading) -> list[ReportFigure]:
    """Any parameter or figure of the points over any other; nothing where no parameter differs."""
    records = reading.result.to_records()
    axes = list(dict.fromkeys(axis for point in reading.result.points for axis in point.axes))
    varying = [axis for axis in axes if len({record.get(axis) for record in records}) > 1]
    numbers = [axis for axis in varying if all(isinstance(record.get(axis), int | float) for record in records)]
    if not numbers:
        return []
    known = [name for name in EXPLORED if any(record.get(name) for record in records)]
    fields = [*varying, *known]
    rows = [{"point": record["name"], **{name: record.get(name) for name in fields}} for record in records]
    table = Table(
        ("point", *fields),
        [tuple(_explored_cell(value) for value in row.values()) for row in rows],
        numbers=[*numbers, *known],
    )
    chart = chart_curves.any_against_any(rows, fields, numbers[0], known[0] if known else fields[-1])
    return [ReportFigure("parameters", "Any value over any other", EXPLORED_CAPTION, (chart,), table, is_folded=True)]


def _explored_cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


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
    text, drawn = (KNEE_CAPTION, [chart]) if chart else ("", [])
    return [ReportFigure.of(title, text, charts=drawn, table=_findings_table(search))]


def _knee_chart(family: PointFamily, reading: Reading, knee: KneeFinding) -> Chart:
    rates = {int(member.axis("depth")): member.summary().iops for member in family.members}
    limits = chart_style.within_sight(caps(family.members, reading, "IOPS"), family.fastest.summary().iops)
    return chart_curves.knee_curve(rates, limits, knee)


def _findings_table(search: SearchFacts) -> Table:
    """All that a search found, with full figures."""
    return Table.of(("found", "figure", "bounds"), search.rows)


CAPTION = (
    "Fairness is Jain's index of the clients' throughput: 1 where all have the same, 1/n where one of n has all. "
    "A lost client counts in no figure."
)
EACH_CAPTION = "A client that is not limited by itself has the limit that all clients share."
COLUMNS = ("point", "slowest", "fastest", "clients limited by", "clients", "IOPS", "MiB/s", "fairness")
OPEN_MAX = 24
"""A table with more rows is folded."""


def scale_out(family: PointFamily, reading: Reading) -> ReportFigure:
    """Throughput and IOPS by the number of clients, with the limits of the volume and of all clients together."""
    return ReportFigure.of(
        f"{family.subject}: by number of clients",
        sentence(family.fixed),
        charts=[_curve(family, reading, "MiB/s"), _curve(family, reading, "IOPS")],
        table=_by_clients(family),
        prefix=family.name,
    )


def _curve(family: PointFamily, reading: Reading, unit: str) -> Chart:
    dots = [
        rate_bar(f"{member.axis('clients'):g}", series, member.summary(), unit)
        for series, members in family.scale_out_series.items()
        for member in members
    ]
    highest = max(dot.value for dot in dots)
    limits = chart_style.within_sight(caps(family.members, reading, unit), highest)
    return chart_curves.clients_curve(dots, limits, unit, _egress(family, reading) if unit == "MiB/s" else None)


def _egress(family: PointFamily, reading: Reading) -> chart_style.CapLine | None:
    """The limit on the writes of each client, where all points only write."""
    limit = target_of(family, reading).cap(EGRESS)
    only_writes = all(member.summary().kinds.keys() == {"write"} for member in family.members)
    return chart_style.CapLine(limit / MIB, f"{limit / MIB:,.0f} MiB/s each") if limit and only_writes else None


def _by_clients(family: PointFamily) -> Table:
    rows = [
        ((series, f"{member.axis('clients'):g}"), member)
        for series, members in family.scale_out_series.items()
        for member in members
    ]
    return points_table(("load", "clients"), rows, ("IOPS", "MiB/s", "p50", "p99"))


def shared(reading: Reading) -> list[ReportFigure]:
    """A table with a row for each point that ran on agents, and one with a row for each client of each point."""
    result = reading.result
    judged = [(point, client_verdicts(point, result.target_of(point))) for point in result.points if point.clients]
    if not judged:
        return []
    table = Table.of(COLUMNS, [_row(point, verdicts) for point, verdicts in judged], text_columns=4)
    rows = [_client_row(point, one) for point, verdicts in judged for one in verdicts]
    each = Table.of(EACH_COLUMNS, rows, text_columns=2)
    is_long = len(rows) > OPEN_MAX
    return [
        ReportFigure(slug="agent", title="Agents", caption=CAPTION, charts=(), table=table),
        ReportFigure("each-agent", "Each agent", EACH_CAPTION, charts=(), table=each, is_folded=is_long),
    ]


def _row(point: Point, verdicts: Sequence[ClientVerdict]) -> tuple[str, ...]:
    summary, (slowest, fastest, index) = point.summary(), fairness_cells(point)
    return (
        point.name,
        slowest,
        fastest,
        limited_clients(verdicts, len(point.clients)),
        clients_cell(point),
        format_count(summary.iops),
        f"{summary.bytes_per_s / MIB:,.1f}",
        index,
    )


EACH_COLUMNS = ("point", "client", "IOPS", "MiB/s", "p50", "p99", *LAST_COLUMNS)


def _client_row(point: Point, one: ClientVerdict) -> tuple[Cell, ...]:
    summary = point.of_client(one.client.client)
    figures = cells(summary, "IOPS", "MiB/s", "p50", "p99")
    return (point.name, one.client.name, *figures, cpu(summary), one.limit.label)
