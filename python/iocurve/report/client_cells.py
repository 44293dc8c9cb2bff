"""The cells of tables about load clients, in the terminal and on the page."""

from __future__ import annotations

from iocurve.analysis.fairness import counted_clients, fairness_of
from iocurve.result.document import Point
from iocurve.units import MIB, format_count


def clients_cell(point: Point) -> str:
    """The clients that count: ``11 of 12``."""
    return f"{len(counted_clients(point))} of {len(point.clients)}"


def fairness_cells(point: Point) -> tuple[str, str, str]:
    """The slowest and the fastest client with their rates, and Jain's index."""
    fairness = fairness_of(point)
    if fairness is None:
        return "", "", ""
    names = {client.client: client.name for client in point.clients}

    def named(client: int, rate: float) -> str:
        shown = f"{rate / MIB:,.1f} MiB/s" if fairness.rate == "bytes_per_s" else f"{format_count(rate)} IOPS"
        return f"{names[client]}: {shown}"

    index = fairness.jain_index
    return (
        named(fairness.slowest, fairness.slowest_rate),
        named(fairness.fastest, fairness.fastest_rate),
        "" if index is None else f"{index:.3f}",
    )
