"""The load clients of each point: how many finished, and how evenly they shared the target."""

from __future__ import annotations

from iocurve.analysis import Reading
from iocurve.analysis.families import Family
from iocurve.report import charts
from iocurve.report.cells import (
    LAST_COLUMNS,
    Cell,
    Figure,
    Table,
    caps,
    count,
    decimal,
    last_cells,
    percentile,
    rate,
    slug,
    target_of,
)
from iocurve.report.charts import Chart
from iocurve.report.prose import sentence
from iocurve.result.document import Point
from iocurve.result.summary import Summary, jain_index
from iocurve.units import MIB, format_count

CAPTION = (
    "Fairness is Jain's index of the clients' throughput: 1 where all have the same, 1/n where one of n has all. "
    "A lost client counts in no figure."
)
COLUMNS = ("point", "slowest", "fastest", "clients", "IOPS", "MiB/s", "fairness")


def scale_out(family: Family, reading: Reading) -> Figure:
    """Throughput and IOPS by the number of clients, with the limits of the volume and of all clients together."""
    title = f"{family.subject}: by number of clients"
    return Figure(
        slug=slug(f"{family.name} {title}"),
        title=title,
        caption=sentence(family.fixed),
        charts=(_curve(family, reading, "MiB/s"), _curve(family, reading, "IOPS")),
        table=_by_clients(family),
    )


def _curve(family: Family, reading: Reading, unit: str) -> Chart:
    dots = [
        charts.ClientsDot(series, int(member.axis("clients")), rate(member.summary, unit))
        for series, members in family.scale_out_series.items()
        for member in members
    ]
    highest = max(dot.rate for dot in dots)
    limits = charts.within_sight(caps(family.members, reading, unit), highest)
    return charts.clients_curve(dots, limits, unit, _egress(family, reading) if unit == "MiB/s" else None)


def _egress(family: Family, reading: Reading) -> charts.Cap | None:
    """The limit on the writes of each client, where all points only write."""
    limit = target_of(family, reading).client_egress_bytes_per_s
    only_writes = all(member.summary.kinds.keys() == {"write"} for member in family.members)
    return charts.Cap(limit / MIB, f"{limit / MIB:,.0f} MiB/s each") if limit and only_writes else None


def _by_clients(family: Family) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            series,
            f"{member.axis('clients'):g}",
            count(member.summary.iops),
            decimal(member.summary.mib_per_s),
            *(percentile(percent)(member.summary) for percent in (50.0, 99.0)),
            *last_cells(member),
        )
        for series, members in family.scale_out_series.items()
        for member in members
    ]
    return Table.of(("load", "clients", "IOPS", "MiB/s", "p50", "p99", *LAST_COLUMNS), rows)


def shared(reading: Reading) -> list[Figure]:
    """A table with a row for each point that ran on load clients."""
    points = [point for point in reading.result.points if point.clients]
    if not points:
        return []
    table = Table(COLUMNS, tuple(map(_row, points)), text_columns=3)
    return [Figure(slug="load-clients", title="Load clients", caption=CAPTION, charts=(), table=table)]


def _row(point: Point) -> tuple[str, ...]:
    counted = [client for client in point.clients if client.state in ("finished", "merged", "interrupted")]
    each = [point.of_client(client.client) for client in counted]
    summary = point.summary()
    fairness = jain_index([one.bytes_per_s for one in each])
    return (
        point.name,
        _named(min(each, key=_rate, default=None)),
        _named(max(each, key=_rate, default=None)),
        f"{len(counted)} of {len(point.clients)}",
        format_count(summary.iops),
        f"{summary.bytes_per_s / MIB:,.1f}",
        "" if fairness is None else f"{fairness:.3f}",
    )


def _rate(summary: Summary) -> float:
    return summary.bytes_per_s


def _named(summary: Summary | None) -> str:
    return "" if summary is None else f"{summary.name}: {summary.bytes_per_s / MIB:,.1f} MiB/s"
