"""Finds the limits that the points of one run show together, on a target that says nothing of itself.

A single closed loop fills its depth at any limit, so it proves little. Loads that differ prove more: those that reach
the same MiB/s at several block sizes are at a limit on bytes, those that reach the same IOPS at one on operations or at
the server's own speed, and where the time in flight is that of an idle target, the depth is the limit (J. D. C. Little,
"A proof for the queuing formula L = λW", Operations Research 9, 1961). What fits as well as something else is
``possible``, and not ``likely``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from iocurve.analysis.limit_kinds import Confidence, Limit, limit
from iocurve.analysis.observations import (
    FACTOR_MIN,
    MIXES_DIFFER,
    UNLOADED,
    WAITS,
    CommonCeiling,
    ObservedPoint,
    ceiling,
    connections_pay,
    factor,
    observations,
    ratio_bounds,
    same_but_depth,
    waiting,
)
from iocurve.foundation.units import MIB, counted, format_bytes, format_depth, format_latency, format_number
from iocurve.result.document import Point, RateName, TargetFacts

MORE = 1.2
"""A rate that exceeds another by this factor is not held by the same limit."""
NO_MORE = 1.1
"""A point is below the knee if more depth gives more than this."""
EITHER = "an IOPS limit, or the server's own speed: these points do not tell them apart"
OF_CLIENT = "all from {}: a limit of each client looks the same"


def limits_together(points: Iterable[Point], target: TargetFacts) -> dict[int, Limit]:
    """The limits that points show together, by the identity of the point; a point that tells nothing has none."""
    return limits_shown(observations(points, target), target)


def limits_shown(found: Sequence[ObservedPoint], target: TargetFacts) -> dict[int, Limit]:
    """The same of points that are observed already."""
    pairs = list(same_but_depth(found))
    judged = sorted(_judged_ceilings(found, pairs, target), key=_rank)
    verdicts = {id(one.point): _depth_verdict(one, pairs, target) for one in found}
    for one in found:
        shown = next((limit for at, limit in judged if at.holds(one)), None)
        verdicts[id(one.point)] = shown or verdicts[id(one.point)]
    return {key: verdict for key, verdict in verdicts.items() if verdict}


Judged = tuple[CommonCeiling, Limit]
"""A ceiling with the limit that it shows."""


def _rank(judged: Judged) -> tuple[int, int]:
    """The surest first, and of those the one that holds most points."""
    at, found = judged
    order: list[Confidence] = ["certain", "likely", "possible", "none"]
    return order.index(found.confidence), -len(at.members)


# ---- ceilings

Pairs = Sequence[tuple[ObservedPoint, ObservedPoint]]


def _judged_ceilings(found: Sequence[ObservedPoint], pairs: Pairs, target: TargetFacts) -> Iterator[Judged]:
    for scope in ("volume", "connection"):
        for quantity in ("bytes_per_s", "iops"):
            for kind in ("any", "read", "write"):
                at = ceiling(found, quantity, kind, scope)
                verdict = _ceiling_limit(at, found, pairs, target) if at else None
                if at and verdict:
                    yield at, verdict


def _ceiling_limit(
    at: CommonCeiling, found: Sequence[ObservedPoint], pairs: Pairs, target: TargetFacts
) -> Limit | None:
    depth = _not_the_depth(at, pairs)
    is_equal = factor(at, depth is not None) >= FACTOR_MIN
    if not (_scope_fits(at, found) and _kind_fits(at, found)):
        return None
    if not is_equal and not (depth and _exceeded(at, found)):
        return _open(at, found, target, depth) if depth and at.kind == "any" and at.scope == "volume" else None
    is_sure = is_equal and _scope_is_told(at, found) and _kind_is_told(at, found)
    is_either = at.quantity == "iops" and at.scope == "volume"
    confidence: Confidence = "likely" if is_sure and not is_either else "possible"
    evidence = [
        _equality(at, found),
        *([] if is_equal else [_refuted(at)]),
        *([depth] if depth else []),
        *_connections_evidence(at, found),
        *_caveats(at, found),
    ]
    return limit(_code(at), _text(at), target, confidence=confidence, evidence=evidence)


def _open(at: CommonCeiling, found: Sequence[ObservedPoint], target: TargetFacts, depth: str) -> Limit:
    """A ceiling of which is known that the depth is not the cause, and no more."""
    text = "saturated, not at the depth: a limit on bytes or on operations, or the server's own speed"
    return limit("saturated", text, target, confidence="likely", evidence=[_equality(at, found), depth])


def _code(at: CommonCeiling) -> str:
    if at.scope == "connection":
        return "connection_throughput" if at.quantity == "bytes_per_s" else "connection_requests"
    of = "" if at.kind == "any" else f"{at.kind}_"
    return f"volume_{of}{'throughput' if at.quantity == 'bytes_per_s' else 'iops'}"


def _text(at: CommonCeiling) -> str:
    of = "" if at.kind == "any" else f" on {at.kind}s"
    if at.scope == "connection":
        if at.quantity == "iops":
            return "at the operations that the server takes of a connection, at a time or per second"
        return f"at a limit of about {_amount(at)} that a connection has{of}"
    if at.quantity == "iops":
        return f"at about {_amount(at)}{of}: {EITHER}"
    return f"at a limit of about {_amount(at)}{of}"


def _amount(at: CommonCeiling) -> str:
    if at.quantity == "iops":
        return f"{at.value:,.0f} IOPS"
    return f"{format_number(at.value / MIB, 4)} MiB/s"


def _scope_fits(at: CommonCeiling, found: Sequence[ObservedPoint]) -> bool:
    """A limit of each connection shows only where their number matters."""
    return at.scope == "volume" or _scope_is_told(at, found)


def _scope_is_told(at: CommonCeiling, found: Sequence[ObservedPoint]) -> bool:
    """True if other numbers of connections show what they do at one block size, or if there are no connections."""
    numbers: dict[int, set[int]] = {}
    for one in _held(at, found):
        numbers.setdefault(one.block_bytes, set()).add(one.connections)
    if any(len(of_size) > 1 or of_size == {0} for of_size in numbers.values()):
        return True
    return at.scope == "connection" and any(connections_pay(one, found) for one in at.members)


def _kind_fits(at: CommonCeiling, found: Sequence[ObservedPoint]) -> bool:
    """A limit of one kind shows only where mixes have equal rates of that kind, or where all kinds have more."""
    return at.kind == "any" or _mixes_differ(_held(at, found)) or _all_have_more(at, found)


def _kind_is_told(at: CommonCeiling, found: Sequence[ObservedPoint]) -> bool:
    """True if several mixes are at the ceiling, or if no others were measured."""
    return at.kind != "any" or _mixes_differ(_held(at, found)) or not _mixes_differ(found)


def _held(at: CommonCeiling, found: Iterable[ObservedPoint]) -> list[ObservedPoint]:
    """The points at a ceiling. This machine may have held some up: they do not prove it, but tell what it counts."""
    return [one for one in found if at.holds(one)]


def _mixes_differ(found: Iterable[ObservedPoint]) -> bool:
    shares = [one.mix for one in found]
    return max(shares) - min(shares) >= MIXES_DIFFER


def _all_have_more(at: CommonCeiling, found: Iterable[ObservedPoint]) -> bool:
    """True if reads and writes together exceed the ceiling of one kind."""
    of_all = replace(at, kind="any")
    return any(of_all.value_of(one) >= MORE * at.value for one in found if not one.is_held_up)


def _exceeded(at: CommonCeiling, found: Iterable[ObservedPoint]) -> bool:
    """True if a load has more of the other quantity, which therefore does not hold the ceiling's points."""
    other: RateName = "iops" if at.quantity == "bytes_per_s" else "bytes_per_s"
    most = max(one.rate(at.kind, other) for one in at.members)
    return any(one.rate(at.kind, other) >= MORE * most for one in found if not one.is_held_up)


def _not_the_depth(at: CommonCeiling, pairs: Pairs) -> str | None:
    """The figures that show that the depth does not hold a ceiling's points; None where nothing shows it."""
    members = set(map(id, at.members))
    of_members = [(low, high) for low, high in pairs if id(high) in members]
    flat = [(low, high) for low, high in of_members if id(low) in members]
    if flat:
        low, high = max(flat, key=lambda pair: pair[1].depth / pair[0].depth)
        return f"depth {low.depth:g} and {high.depth:g} give the same: the depth is not the limit"
    waits = [(low, high) for low, high in of_members if waiting(low, high)[0] >= WAITS]
    if waits:
        low, high = max(waits, key=lambda pair: pair[1].latency_ns / pair[0].latency_ns)
        return f"{_latencies(low, high)}: most of that is waiting, so the depth is not the limit"
    return None


def _latencies(low: ObservedPoint, high: ObservedPoint) -> str:
    """``3.91 ms in flight at depth 64, 1.09 ms at depth 1``."""
    return (
        f"{format_latency(high.latency_ns)} in flight at depth {high.depth:g}, {format_latency(low.latency_ns)} at "
        f"depth {low.depth:g}"
    )


# ---- evidence in words


def _equality(at: CommonCeiling, found: Sequence[ObservedPoint]) -> str:
    """``64 MiB/s at 4 KiB and 64 KiB, in 5 mixes of reads and writes (12 points, ±0.3%)``."""
    of = "" if at.kind == "any" else f" of {at.kind}s"
    each = " on each connection" if at.scope == "connection" else ""
    held = _held(at, found)
    sizes = _listed([format_bytes(size) for size in sorted({one.block_bytes for one in held})])
    mixes = len({one.mix for one in held})
    mixed = f", in {mixes} mixes of reads and writes" if mixes > 1 else ""
    values = [at.value_of(one) for one in held]
    spread = (max(values) - min(values)) / (2 * at.value)
    return f"{_amount(at)}{of}{each} at {sizes}{mixed} ({counted(len(held), 'point')}, ±{spread:.1%})"


def _refuted(at: CommonCeiling) -> str:
    other = "IOPS" if at.quantity == "bytes_per_s" else "MiB/s"
    return f"other block sizes have more {other}, so that is not the limit here"


def _connections_evidence(at: CommonCeiling, found: Sequence[ObservedPoint]) -> Iterator[str]:
    for one in at.members:
        if at.scope == "connection" and (more := connections_pay(one, found)):
            yield f"{more.connections} instead of {counted(one.connections, 'connection')}: {_times(more, one)}"
            return
    numbers = sorted({one.connections for one in _held(at, found)})
    if at.scope == "volume" and len(numbers) > 1:
        yield f"{_listed(list(map(str, numbers)))} connections reach the same"


def _caveats(at: CommonCeiling, found: Sequence[ObservedPoint]) -> Iterator[str]:
    if at.kind == "any" and not _mixes_differ(_held(at, found)):
        kind = "read" if at.members[0].mix > 0.5 else "write"
        measured = "not reached by other mixes" if _mixes_differ(found) else "other mixes were not measured"
        yield f"{measured}: it may hold for {kind}s alone"
    if at.scope == "volume" and any(one.connections for one in at.members):
        clients = at.members[0].clients
        from_clients = OF_CLIENT.format("one client" if clients == 1 else counted(clients, "client"))
        yield from_clients if _scope_is_told(at, found) else "all with as many connections: each may have the limit"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


# ---- depth


def _depth_verdict(one: ObservedPoint, pairs: Pairs, target: TargetFacts) -> Limit | None:
    """The depth where no operation waits for another, saturation from the knee on, or None.

    A point just below the knee is neither.
    """
    if one.is_held_up:
        return None
    deeper = [high for low, high in pairs if low is one]
    shallower = [low for low, high in pairs if high is one]
    flat = [high for high in deeper if ratio_bounds(high, one)[1] <= NO_MORE]
    if flat:
        return _saturated(target, f"depth {flat[-1].depth:g} instead of {one.depth:g} gives {_times(flat[-1], one)}")
    if shallower:
        idle = min(shallower, key=lambda low: low.depth)
        least, most = waiting(idle, one)
        if least >= WAITS:
            return _saturated(target, f"{_latencies(idle, one)}: most of that is waiting")
        return _at_depth(one, target, f"{_latencies(idle, one)}: no wait") if most <= 1 / UNLOADED else None
    growing = [high for high in deeper if ratio_bounds(high, one)[0] >= (high.depth / one.depth) ** 0.5]
    return _at_depth(one, target, f"depth {growing[0].depth:g} gives {_times(growing[0], one)}") if growing else None


def _times(one: ObservedPoint, other: ObservedPoint) -> str:
    return f"{format_number(one.iops / other.iops, 3)} times the IOPS"


def _saturated(target: TargetFacts, evidence: str) -> Limit:
    return limit(
        "saturated", "saturated: more depth adds mostly latency", target, confidence="likely", evidence=[evidence]
    )


def _at_depth(one: ObservedPoint, target: TargetFacts, evidence: str) -> Limit:
    text = f"at the requested depth, {format_depth(one.depth)} in flight; more gives more"
    return limit("depth", text, target, confidence="likely", evidence=[evidence])
