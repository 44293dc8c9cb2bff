"""Finds what limited each agent of a point, and what that says of all of them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from iocurve.analysis.limit_kinds import UNKNOWN, Confidence, Limit, limit
from iocurve.analysis.load_limits import asked_limit, cache_limit, depth_limit, latency_limit, processor_limit
from iocurve.analysis.measured_load import MeasuredLoad
from iocurve.analysis.target_limits import client_limit, connection_limit, disk_limit, egress_together, shared_limit
from iocurve.result.document import ClientOutcome, Fairness, Point, RateName, TargetFacts
from iocurve.result.summary import jain_index

NAMED_MAX = 3
"""More clients than this are counted, not named."""


class ClientVerdict(msgspec.Struct, frozen=True):
    """The limit of one client."""

    number: int
    """Its place among the clients of the point, from 1."""
    client: ClientOutcome
    limit: Limit


def client_verdicts(point: Point, target: TargetFacts, together: Limit | None = None) -> list[ClientVerdict]:
    """The verdict on each client that measured anything. Verdicts that the result holds are taken over.

    A client that is not limited by itself has the limit of the target that all clients share; ``together`` is one that
    several points show.
    """
    shared = shared_limit(MeasuredLoad(point, target)) or together
    found = []
    for number, client in enumerate(point.clients, 1):
        part = point.part_of(client.client)
        if part.summary().operations:
            verdict = client.limit or _verdict(MeasuredLoad(part, target, is_client=True), shared, len(point.clients))
            found.append(ClientVerdict(number, client, verdict))
    return found


def _verdict(load: MeasuredLoad, shared: Limit | None, clients: int) -> Limit:
    own = own_limit(load)
    if own and (own.confidence != "possible" or shared is None):
        return own
    if shared:
        together = f", which {clients} clients share" if clients > 1 else ""
        return shared.replace(text=f"{shared.text}{together}", evidence=())
    return limit(UNKNOWN, "the figures do not tell", load.target, confidence="none")


def own_limit(load: MeasuredLoad) -> Limit | None:
    """Finds the limit that is a client's own; None where there is none."""
    return (
        disk_limit(load)
        or client_limit(load)
        or connection_limit(load)
        or asked_limit(load)
        or cache_limit(load)
        or latency_limit(load)
        or processor_limit(load)
        or depth_limit(load)
    )


# ---- all clients together


def group_limit(load: MeasuredLoad) -> Limit | None:
    """Finds the limit of clients that ran together: a shared one, the rate asked of all, or the own limit of some."""
    verdicts = client_verdicts(load.point, load.target)
    shared = shared_limit(load)
    if shared:
        return shared.replace(evidence=(*shared.evidence, *_beside(load, verdicts, shared)))
    return (
        client_limit(load)
        or connection_limit(load)
        or asked_limit(load)
        or _held(load, verdicts)
        or latency_limit(load)
        or depth_limit(load)
    )


def _beside(load: MeasuredLoad, verdicts: Sequence[ClientVerdict], shared: Limit) -> Iterator[str]:
    """Evidence next to a limit that the clients share: that none, or which of them, is limited by itself."""
    together = egress_together(load, len(verdicts))
    if together:
        yield together
    own = [verdict for verdict in verdicts if verdict.limit.code not in (shared.code, UNKNOWN)]
    if own:
        yield from _named(own, len(load.point.clients))
    elif len(verdicts) > 1:
        yield "no client is limited by itself"


def _held(load: MeasuredLoad, verdicts: Sequence[ClientVerdict]) -> Limit | None:
    """The most frequent limit that clients have by themselves."""
    codes = Counter(one.limit.code for one in verdicts if one.limit.code not in ("depth", UNKNOWN))
    if not codes:
        return None
    code, count = codes.most_common(1)[0]
    held = [one for one in verdicts if one.limit.code == code]
    is_all = count == len(verdicts)
    texts = {one.limit.text for one in held}
    text = held[0].limit.text if len(texts) == 1 else held[0].limit.short_name
    confidence: Confidence = held[0].limit.confidence if is_all else "possible"
    who = f"{who_of(held, len(load.point.clients))}: " if len(load.point.clients) > 1 else ""
    evidence = list(_named(held, len(load.point.clients))) if len(held) > 1 else list(held[0].limit.evidence)
    rest = [one for one in verdicts if one not in held]
    if rest:
        evidence.append(f"the others: {limited_clients(rest, len(load.point.clients))}")
    return limit(code, who + text, load.target, confidence=confidence, evidence=evidence)


def who_of(verdicts: Sequence[ClientVerdict], clients: int) -> str:
    """``client 2 of 3 (vm2)``, ``all 3 clients`` or ``5 of 12 clients``."""
    if len(verdicts) == 1:
        return f"client {verdicts[0].number} of {clients} ({verdicts[0].client.name})"
    return f"all {clients} clients" if len(verdicts) == clients else f"{len(verdicts)} of {clients} clients"


def _named(verdicts: Sequence[ClientVerdict], clients: int) -> Iterator[str]:
    for one in verdicts[:NAMED_MAX]:
        yield f"client {one.number} of {clients} ({one.client.name}): {one.limit.text}"
    if len(verdicts) > NAMED_MAX:
        yield f"{len(verdicts) - NAMED_MAX} more clients: {limited_clients(verdicts[NAMED_MAX:], clients)}"


def limited_clients(verdicts: Sequence[ClientVerdict], clients: int) -> str:
    """The clients by what limited them: ``client 2 of 3: client's CPU; 2 of 3 clients: MiB/s limit``."""
    by_limit: dict[str, list[ClientVerdict]] = {}
    for one in verdicts:
        by_limit.setdefault(one.limit.short_name, []).append(one)
    fewest_first = sorted(by_limit.items(), key=lambda item: len(item[1]))
    return "; ".join(f"{_count_of(members, clients)}: {name}" for name, members in fewest_first)


def _count_of(verdicts: Sequence[ClientVerdict], clients: int) -> str:
    if len(verdicts) == clients:
        return f"all {clients} clients" if clients > 1 else "the client"
    if len(verdicts) == 1:
        return f"client {verdicts[0].number} of {clients}"
    return f"{len(verdicts)} of {clients} clients"


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
