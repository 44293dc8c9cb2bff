"""Remarks on the clients of a point that readers of its figures must know."""

from __future__ import annotations

from collections.abc import Iterator

from iocurve.result.document import Point

ERROR_SHARE = 0.1
"""A clock error or a late start above this fraction of an interval is reported."""
MUCH = "more than a tenth of an interval; do not compare its intervals with those of other clients"


def client_notes(point: Point) -> Iterator[tuple[str, str]]:
    """Code and text of each remark."""
    most_ns = ERROR_SHARE * point.plan.interval_ns
    for client in point.clients:
        if client.clock and client.clock.error_ns > most_ns:
            yield "clock_error", f"load client {client.name}: its clock is known only to within {MUCH}"
        if client.clock and abs(client.clock.drift_ns or 0) > most_ns + client.clock.error_ns:
            yield "clock_drift", f"load client {client.name}: its clock moved by {MUCH} during a point"
        if client.late_ns > most_ns:
            yield "late_start", f"load client {client.name}: it started late, by {MUCH}"
