"""How evenly load clients share a target."""

from __future__ import annotations

from iocurve.result.document import ClientOutcome, Fairness, Point, RateName
from iocurve.result.summary import jain_index


def counted_clients(point: Point) -> list[ClientOutcome]:
    """The clients whose records count in the totals."""
    return [client for client in point.clients if client.state in ("finished", "merged", "interrupted")]


def fairness_of(point: Point) -> Fairness | None:
    """The shares of the clients that count, by throughput, or by IOPS where no data moved; None without clients."""
    shares = [(client.client, point.of_client(client.client)) for client in counted_clients(point)]
    if not shares:
        return None
    rate: RateName = "bytes_per_s" if any(summary.bytes_per_s for _, summary in shares) else "iops"
    rates = [(getattr(summary, rate), client) for client, summary in shares]
    slowest, fastest = min(rates), max(rates, key=lambda one: one[0])
    return Fairness(
        rate=rate,
        jain_index=jain_index([value for value, _ in rates]),
        slowest=slowest[1],
        slowest_rate=slowest[0],
        fastest=fastest[1],
        fastest_rate=fastest[0],
    )
