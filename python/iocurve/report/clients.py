"""The load clients of each point: how many finished, and how evenly they shared the target."""

from __future__ import annotations

from iocurve.analysis import Reading
from iocurve.report.cells import Figure, Table
from iocurve.result.document import Point
from iocurve.result.summary import Summary, jain_index
from iocurve.units import MIB, format_count

CAPTION = (
    "Fairness is Jain's index of the clients' throughput: 1 where all have the same, 1/n where one of n has all. "
    "A lost client counts in no figure."
)
COLUMNS = ("point", "slowest", "fastest", "clients", "IOPS", "MiB/s", "fairness")


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
