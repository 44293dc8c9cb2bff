"""Finds the limits that the points of one run show together, on a target that says nothing of itself.

A single closed loop fills its depth at any limit, so it proves little. Loads that differ prove more: those that reach
the same MiB/s at several block sizes are at a limit on bytes, those that reach the same IOPS at one on operations or at
the server's own speed, and where the time in flight is that of an idle target, the depth is the limit (J. D. C. Little,
"A proof for the queuing formula L = λW", Operations Research 9, 1961). What fits as well as something else is
``possible``, and not ``likely``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Literal

import msgspec

from iocurve.analysis.bursts import UNEVEN_DELAYED, VARIED
from iocurve.analysis.limit_kinds import LIMIT_KINDS, Limit, limit
from iocurve.analysis.observations import (
    UNLOADED,
    WAITS,
    ObservedPoint,
    connections_pay,
    ratio_bounds,
    same_but_depth,
    waiting,
)
from iocurve.foundation.units import MIB, counted, format_bytes, format_depth, format_latency, format_number
from iocurve.model.fit import Explanation, PartCeiling, TargetPart, explained, has_mixes
from iocurve.result.document import TargetFacts
from iocurve.result.stalls import target_starved_share

LIKELY, POSSIBLE, LISTED = 0.95, 0.45, 0.02
"""A limit is named where profiles that share it have the first weight, and possible from the second; less than the last
is left out of lists."""
NEARLY_ALL = 10
"""Times of a server of which one is this many times the other are nearly all of the one."""
LATENCY, ANY_OPERATIONS = TargetPart("in_flight"), TargetPart("iops")
BYTES_OF_KIND = (TargetPart("bytes_per_s", "read"), TargetPart("bytes_per_s", "write"))
CRISP, CRISP_OF_MANY, MANY = 0.02, 0.05, 8
"""Points that spread by more may be equal by chance, unless a depth shows that operations wait. The second is for at
least so many loads of several depths."""
MEMBERS_MIN = 3
"""Fewer points at a ceiling show no limit."""
NO_MORE = 1.1
"""A point is below the knee if more depth gives more than this."""
EITHER = "an IOPS limit, or the server's own speed: these points do not tell them apart"
OF_CLIENT = "all from {}: a limit of each client looks the same"


def limits_shown(found: Sequence[ObservedPoint], target: TargetFacts) -> dict[int, Limit]:
    """The limits that points show together, by the identity of the point; a point that tells nothing has none."""
    if not found:
        return {}
    pairs = list(same_but_depth(found))
    profiles = _without_refuted(explained(found), found, pairs)
    verdicts = {
        id(one.point): _verdict(one, share, profiles, found, pairs, target)
        for one, share in zip(found, profiles.shares, strict=True)
    }
    return {key: verdict for key, verdict in verdicts.items() if verdict}


def same_bytes(
    points: Sequence[ObservedPoint], found: Sequence[ObservedPoint], target: TargetFacts
) -> dict[int, Limit]:
    """A limit on bytes that is possible, for points that have as many of a kind per second as one of other blocks."""
    verdicts = {}
    for part, one, other in itertools.product(BYTES_OF_KIND, points, found):
        value = part.value_of(one)
        if one.block_bytes != other.block_bytes and abs(part.value_of(other) - value) < CRISP * value:
            text = f"at as many MiB/s of {part.kind}s as {other.name}, which may be a limit"
            verdicts[id(one.point)] = limit(_code(part), text, target, confidence="possible")
    return verdicts


Pairs = Sequence[tuple[ObservedPoint, ObservedPoint]]
Share = Mapping[TargetPart | None, float]
"""The weight of the profiles in which a part holds a point down."""


def _without_refuted(profiles: Explanation, found: Sequence[ObservedPoint], pairs: Pairs) -> Explanation:
    """The profiles without servers, where completions at a ceiling are too even for one."""
    even = {
        part.scope
        for part, at in profiles.ceilings.items()
        if part.kind == "any" and len(at.members) >= MEMBERS_MIN and _limit_or_server(at, found, pairs)[0] == "limit"
    }
    smallest = min(one.block_bytes for one in found)
    shares = []
    for share in profiles.shares:
        # One that takes next to no time for an operation has a limit on bytes.
        left = {
            part: weight
            for part, weight in share.items()
            if not part
            or part.quantity != "time"
            or part.scope not in even
            or part.block_bytes * NEARLY_ALL <= smallest
        }
        total = math.fsum(left.values())
        shares.append({part: weight / total for part, weight in left.items()} if total else share)
    return msgspec.structs.replace(profiles, shares=tuple(shares))


def _verdict(
    one: ObservedPoint,
    share: Share,
    profiles: Explanation,
    found: Sequence[ObservedPoint],
    pairs: Pairs,
    target: TargetFacts,
) -> Limit | None:
    shown = {part: at for part, at in profiles.ceilings.items() if len(at.members) >= MEMBERS_MIN}
    weights = {
        part: _weight_with_servers(part, share, found) + _of_connections(at, share, found)
        for part, at in shown.items()
        if at.holds(one) or _weight(part, share, found) >= LIKELY
    }
    # Of equal ones the first: a limit of the volume.
    part = max(weights, key=lambda part: round(weights[part], 1), default=None)
    if part and weights[part] >= POSSIBLE:
        return _ceiling_limit(shown[part], share, found, pairs, target)
    return _depth_verdict(one, pairs, target) or _depth_of_profiles(one, profiles, found, target)


def _ceiling_limit(
    at: PartCeiling, share: Share, found: Sequence[ObservedPoint], pairs: Pairs, target: TargetFacts
) -> Limit:
    depth, weight = _not_the_depth(at, pairs), _weight(at.part, share, found)
    code, text, told = _code(at.part), _text(at), ""
    is_of_operations = at.part.at_any_time == ANY_OPERATIONS
    if is_of_operations:
        cause, told = _limit_or_server(at, found, pairs)
        if cause == "server":
            code, text = "server_parallelism", f"at the server's own speed, about {_amount(at)}"
            weight = _weight_with_servers(at.part, share, found)
        elif not cause:
            text = f"{text}: {EITHER}"
    is_sure = weight >= LIKELY and (told or not is_of_operations) and _scope_is_told(at, found)
    # As many in flight have one rate of a kind in each mix where that kind takes nearly all of the time.
    is_equal = _is_crisp(at, found) if at.part.kind == "any" else len({one.depth for one in at.members}) > 1
    is_sure = is_sure and (depth is not None or is_equal)
    evidence = [
        _equality(at, found),
        *([told] if told else []),
        *([depth] if depth else []),
        *_connections_evidence(at, found),
        *_caveats(at, found),
        *([] if weight >= LIKELY else [f"what explains all points: {_remaining(share)}"]),
    ]
    return limit(code, text, target, confidence="likely" if is_sure else "possible", evidence=evidence)


def _limit_or_server(
    at: PartCeiling, found: Sequence[ObservedPoint], pairs: Pairs
) -> tuple[Literal["limit", "server", ""], str]:
    """The cause of equal IOPS, and the evidence for it.

    Operations that wait for a server are done as unevenly as its service times vary, which the least loaded point has
    (D. R. Cox, "Renewal Theory", Methuen 1962, chapter 4); a limit lets them through evenly, or window by window.
    """
    waiting = [one for one in _held(at, found) if not one.is_held_up]
    windows = [one for one in waiting if one.is_in_windows]
    if len(windows) >= MEMBERS_MIN:
        return "limit", f"{len(windows)} points have as many operations in each window, and none between windows"
    idle = min((one for one in found if not one.is_held_up), key=lambda one: one.latency_ns, default=None)
    if idle is None:
        return "", ""
    variation = idle.latency_variation
    spreads = [
        one.dispersion
        for one in waiting
        if one.dispersion is not None
        and one.latency_ns >= WAITS * idle.latency_ns
        and one.point.plan.interval_ns >= LATENCIES_A_CELL * idle.latency_ns
    ]
    if len(spreads) < MEMBERS_MIN or variation < VARIED:
        return "", ""
    spread = median(spreads)
    text = f"counts of intervals vary by {spread:.2g} of what random arrivals do, single latencies by {variation:.2g}"
    if spread <= EVEN * variation:
        return ("", "") if _is_soft(at, pairs) else ("limit", f"{text}: too even for a server")
    is_quiet = all(target_starved_share(one.point.machine) < UNEVEN_DELAYED for one in waiting)
    is_server = is_quiet and UNEVEN[0] * variation <= spread <= UNEVEN[1] * variation
    return ("server", text) if is_server else ("", "")


def _is_soft(at: PartCeiling, pairs: Pairs) -> bool:
    """True if a depth near the knee has less than the latency and the ceiling allow.

    So has a server of constant service times behind a latency that varies; a limit with saved tokens makes up for it.
    """
    for low, high in pairs:
        idle = min((first for first, then in pairs if then is low), key=lambda one: one.depth, default=None)
        if idle and at.holds(high) and not at.holds(low):
            allowed = at.part.value_of(idle) * low.depth / idle.depth
            if 0 < at.part.value_of(low) < KNEE_SHARE * min(allowed, at.value) and allowed < KNEE_TIMES * at.value:
                return True
    return False


KNEE_SHARE, KNEE_TIMES = 0.93, 2.0
"""The share of what is allowed that a hard limit gives at least, up to this many times the depth of the knee."""
EVEN, UNEVEN = 0.1, (0.5, 2.0)
"""Parts of the squared variation of single latencies: completions vary by at most the first at a limit, and by the
others at a server."""
LATENCIES_A_CELL = 10
"""Completions are counted over at least this many latencies of an idle target."""


def _weight(part: TargetPart, share: Share, found: Sequence[ObservedPoint]) -> float:
    """The weight of a limit. A server whose time is nearly all for operations, or for bytes, has the limit of these."""
    sizes = [one.block_bytes for one in found]
    if part.quantity == "iops":
        alike = [one for one in _servers(part, share) if one.block_bytes >= NEARLY_ALL * max(sizes)]
    else:
        alike = [one for one in _servers(part, share) if one.block_bytes * NEARLY_ALL <= min(sizes)]
    return share.get(part, 0.0) + math.fsum(share[one] for one in alike)


def _weight_with_servers(part: TargetPart, share: Share, found: Sequence[ObservedPoint]) -> float:
    """The same, where equal IOPS are as well those of a server that takes a time for each byte."""
    if part.quantity != "iops":
        return _weight(part, share, found)
    return share.get(part, 0.0) + math.fsum(share[one] for one in _servers(part, share))


def _servers(part: TargetPart, share: Share) -> list[TargetPart]:
    return [one for one in share if one and one.quantity == "time" and (one.scope, part.kind) == (part.scope, "any")]


def _of_connections(at: PartCeiling, share: Share, found: Sequence[ObservedPoint]) -> float:
    """The weight of the same limit of each connection, where all have as many."""
    is_of_one_size = len({one.block_bytes for one in at.members}) == 1
    if at.part.scope == "connection" or at.part.kind != "any" or is_of_one_size or _scope_is_told(at, found):
        return 0.0
    return _weight(TargetPart(at.part.quantity, scope="connection"), share, found)


def _remaining(share: Share) -> str:
    """``MiB/s limit 63 %, depth 37 %``."""
    ranked = sorted(((part, weight) for part, weight in share.items() if weight >= LISTED), key=lambda one: -one[1])
    return ", ".join(f"{_short_name(part)} {weight:.0%}" for part, weight in ranked)


def _short_name(part: TargetPart | None) -> str:
    if part is None:
        return "none of them"
    if part.scope == "volume" and part.quantity in ("in_flight", "time"):
        return LIMIT_KINDS["depth" if part.quantity == "in_flight" else "server_parallelism"].short_name
    return LIMIT_KINDS[_code(part)].short_name


def _code(part: TargetPart) -> str:
    if part.scope == "file":
        return "server_parallelism"
    if part.scope == "connection":
        return "connection_throughput" if part.quantity == "bytes_per_s" else "connection_requests"
    of = "" if part.kind == "any" else f"{part.kind}_"
    return f"volume_{of}{'throughput' if part.quantity == 'bytes_per_s' else 'iops'}"


def _text(at: PartCeiling) -> str:
    of = "" if at.part.kind == "any" else f" on {at.part.kind}s"
    if at.part.scope == "connection":
        if at.part.quantity == "iops":
            return "at the operations that the server takes of a connection, at a time or per second"
        return f"at a limit of about {_amount(at)} that a connection has{of}"
    if at.part.scope == "file":
        return f"at what the server does for one file, about {_amount(at)}"
    return f"at a limit of about {_amount(at)}{of}"


def _amount(at: PartCeiling) -> str:
    if at.part.quantity == "iops":
        return f"{at.value:,.0f} IOPS"
    return f"{format_number(at.value / MIB, 4)} MiB/s"


def _scope_is_told(at: PartCeiling, found: Sequence[ObservedPoint]) -> bool:
    """True if other numbers of connections show what they do, or if there are no connections."""
    if at.part.scope == "file":
        return len({one.files for one in _held(at, found)}) > 1
    numbers = {one.connections for one in _held(at, found)}
    if len(numbers) > 1 or numbers == {0}:
        return True
    # A connection has no limit for one kind of operation alone, which another kind exceeds.
    if at.part.kind != "any" and not any(connections_pay(one, found) for one in found):
        return True
    return at.part.scope == "connection" and any(connections_pay(one, found) for one in _held(at, found))


def _held(at: PartCeiling, found: Iterable[ObservedPoint]) -> list[ObservedPoint]:
    """The points at a ceiling. This machine may have held some up: they do not prove it, but tell what it counts."""
    return [one for one in found if at.holds(one)]


def _not_the_depth(at: PartCeiling, pairs: Pairs) -> str | None:
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


def _equality(at: PartCeiling, found: Sequence[ObservedPoint]) -> str:
    """``64 MiB/s at 4 KiB and 64 KiB, in 5 mixes of reads and writes (12 points, ±0.3%)``."""
    of = "" if at.part.kind == "any" else f" of {at.part.kind}s"
    each = "" if at.part.scope == "volume" else f" on each {at.part.scope}"
    held = _held(at, found)
    sizes = _listed([format_bytes(size) for size in sorted({one.block_bytes for one in held})])
    mixes = len({one.mix for one in held})
    mixed = f", in {mixes} mixes of reads and writes" if mixes > 1 else ""
    return f"{_amount(at)}{of}{each} at {sizes}{mixed} ({counted(len(held), 'point')}, ±{_spread(at, found):.1%})"


def _is_crisp(at: PartCeiling, found: Sequence[ObservedPoint]) -> bool:
    """True if enough loads, not counting the same with other connections, have the same but for a little."""
    loads = {(one.load, one.depth) for one in at.members}
    is_of_many = len(loads) >= MANY and len({depth for _, depth in loads}) > 1
    return len(loads) >= MEMBERS_MIN and _spread(at, found) <= (CRISP_OF_MANY if is_of_many else CRISP)


def _spread(at: PartCeiling, found: Sequence[ObservedPoint]) -> float:
    """Half of the relative distance between the least and the most that points at a ceiling have."""
    values = [at.part.value_of(one) for one in _held(at, found)]
    return (max(values) - min(values)) / (2 * at.value)


def _connections_evidence(at: PartCeiling, found: Sequence[ObservedPoint]) -> Iterator[str]:
    for one in _held(at, found):
        if at.part.scope == "connection" and (more := connections_pay(one, found)):
            yield f"{more.connections} instead of {counted(one.connections, 'connection')}: {_times(more, one)}"
            return
    numbers = sorted({one.connections for one in _held(at, found)})
    if at.part.scope == "volume" and len(numbers) > 1:
        yield f"{_listed(list(map(str, numbers)))} connections reach the same"


def _caveats(at: PartCeiling, found: Sequence[ObservedPoint]) -> Iterator[str]:
    if at.part.kind == "any" and not has_mixes(_held(at, found)):
        kind = "read" if at.members[0].mix > 0.5 else "write"
        measured = "not reached by other mixes" if has_mixes(found) else "other mixes were not measured"
        yield f"{measured}: it may hold for {kind}s alone"
    if at.part.at_any_time != at.part:
        yield "another value holds for the points before or after: credits that end look the same"
    if at.part.scope == "volume" and any(one.connections for one in at.members):
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


def _depth_of_profiles(
    one: ObservedPoint, profiles: Explanation, found: Sequence[ObservedPoint], target: TargetFacts
) -> Limit | None:
    """The depth, where every likely profile has no more than its latency for a point."""
    likely = [row for row, share in zip(found, profiles.shares, strict=True) if share.get(LATENCY, 0.0) >= LIKELY]
    if not any(row is one for row in likely):
        return None
    # Operations do not wait if others at half or twice the depth take as long.
    alike = [row for row in likely if 1 / WAITS <= row.latency_ns / one.latency_ns <= WAITS and not row.is_held_up]
    low, high = (pick([*alike, one], key=lambda row: row.depth) for pick in (min, max))
    # Busy processors add to a latency; one that is no longer shows that they are not the limit.
    is_delayed = one.is_held_up and one.latency_ns > low.latency_ns / UNLOADED
    if is_delayed or max(high.depth / one.depth, one.depth / low.depth) < 2:
        return None
    evidence = f"{_latencies(low, high)}: the latency of {counted(len(alike), 'point')}, at any rate"
    return _at_depth(one, target, evidence)


def _times(one: ObservedPoint, other: ObservedPoint) -> str:
    return f"{format_number(one.iops / other.iops, 3)} times the IOPS"


def _saturated(target: TargetFacts, evidence: str) -> Limit:
    return limit(
        "saturated", "saturated: more depth adds mostly latency", target, confidence="likely", evidence=[evidence]
    )


def _at_depth(one: ObservedPoint, target: TargetFacts, evidence: str) -> Limit:
    text = f"at the requested depth, {format_depth(one.depth)} in flight; more gives more"
    return limit("depth", text, target, confidence="likely", evidence=[evidence])
