"""Fits the model of a target to measured points: which limits explain them, and what they leave open.

A limit shows as equality: points that differ in depth, block size or mix reach the same rate, no point reaches
more, and operations wait. One point alone shows no limit.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Literal, get_args

import msgspec

from iocurve.foundation.structs import Struct
from iocurve.foundation.units import KIB, SECOND_NS
from iocurve.result.caps import CAPS, Cap, Kind
from iocurve.volume.limits import AddedLatency, Limits, Parallelism

OTHER = 1.5
"""Block sizes differ by this factor."""
MIXES_DIFFER = 0.2
"""Shares of reads that differ by less are the same mix."""


WAITS = 1.25
"""Operations wait where their latency is this multiple of the least one."""
SCOPES = {"connections": "connection", "clients": "client"}
"""Scopes of limits other than the volume, by what of a load tells them apart."""


class ShownLimit(Struct):
    """A limit, and the points that show it."""

    cap: Cap
    half_width: float
    """Of its 95 % interval, relative."""
    points: tuple[str, ...]


class Fit(Struct):
    """The limits that explain a result."""

    limits: Limits
    shown: tuple[ShownLimit, ...] = ()
    points: int
    """Points that were used."""
    iops_max: float
    """The highest rate of a point: above it nothing was measured."""
    open: tuple[str, ...] = ()
    """Questions that the points leave open."""
    served: tuple[str, ...] = ()
    """Points that show the server's own speed."""
    idle: tuple[str, ...] = ()
    """Points that reach no limit: their latency is that of an idle target."""


def fitted(rows: Sequence[LoadRate]) -> Fit:
    """The limits of the profile that explains points best, of the parts that a service level can have."""
    best = max(
        (
            one
            for scatter, softness in SCATTERS
            for one in _profiles(_scattered(rows, scatter), softness, _told_apart(rows), CAPS_MAX)
        ),
        key=lambda one: one.score,
    )
    of_latency = [at for at in best.used if at.part.quantity == "in_flight"]
    shown = []
    for cap in CAPS:
        for at in best.used:
            if (at.part.quantity, at.part.kind, at.part.scope) == (cap.quantity, cap.kind, cap.scope):
                names = tuple(row.name for row in at.members)
                shown.append(
                    ShownLimit(cap=cap.replace(value=round(at.value)), half_width=NORMAL_95 * at.error, points=names)
                )
    caps = tuple(one.cap for one in shown)
    base_ns = min((round(SECOND_NS / at.value) for at in of_latency), default=0)
    served = next((at for at in best.used if at.part.quantity == "time"), None)
    return Fit(
        limits=Limits(
            caps=caps, latency=AddedLatency(base_ns=base_ns), parallelism=_parallelism(served) if served else None
        ),
        served=tuple(row.name for row in served.members) if served else (),
        shown=tuple(shown),
        points=len(rows),
        iops_max=max(row.iops for row in rows),
        open=tuple(_left_open(rows, caps, has_idle=bool(of_latency))),
        idle=tuple(dict.fromkeys(row.name for at in of_latency for row in at.members)),
    )


def _told_apart(rows: Sequence[LoadRate]) -> list[TargetPart]:
    """The caps of volumes that the mixes, connections and clients of points tell apart."""
    kinds = [kind for kind in get_args(Kind) if all(row.share(kind) == 1 for row in rows)]
    scopes = {"volume"} | {scope for name, scope in SCOPES.items() if _differ(rows, name)}
    parts = [
        TargetPart(cap.quantity, cap.kind, cap.scope)
        for cap in CAPS
        if cap.quantity != "requests" and cap.scope in scopes and (has_mixes(rows) or cap.kind == kinds[-1])
    ]
    parts += _speed(rows)
    return [part for part in parts if _shows(rows, part)]


def _speed(rows: Sequence[LoadRate]) -> list[TargetPart]:
    """A server with a time for an operation and one for its bytes, of reads and of writes, by their highest rates."""
    of_kinds = [[row for row in rows if row.mix == mix] for mix in (1, 0)]
    times = [_times(ours, TargetPart("iops")) if ours else None for ours in of_kinds]
    reads, writes = (one or other for one, other in zip(times, times[::-1], strict=True))
    if not reads or not writes or any(ours and not one for ours, one in zip(of_kinds, times, strict=True)):
        return []
    block_bytes, write_bytes = (operation / byte for operation, byte in (reads, writes))
    return [TargetPart("time", block_bytes=block_bytes, write_cost=writes[0] / reads[0], write_bytes=write_bytes)]


def _parallelism(at: PartCeiling) -> Parallelism:
    """One server with these times: more of them differ from it only in the latency below their speed."""
    part, read_ns = at.part, SECOND_NS / at.value
    write_ns = read_ns * part.write_cost
    return Parallelism(
        servers=1,
        service_ns=round(read_ns),
        per_kib_ns=round(read_ns * KIB / part.block_bytes),
        write_service_ns=round(write_ns),
        write_per_kib_ns=round(write_ns * KIB / part.write_bytes),
    )


def _shows(rows: Sequence[LoadRate], part: TargetPart) -> bool:
    """True of a cap that different mixes reach if it counts both kinds."""
    at = ceiling(rows, part)
    return at is not None and (part.kind != "any" or not has_mixes(rows) or has_mixes(at.members))


def _differ(rows: Sequence[LoadRate], name: str) -> bool:
    return len({getattr(row, name) for row in rows if row.connections}) > 1


def has_mixes(rows: Sequence[LoadRate]) -> bool:
    """True if points differ in the share of reads that they ask for."""
    mixes = [row.mix for row in rows]
    return max(mixes, default=0.0) - min(mixes, default=0.0) >= MIXES_DIFFER


def _scattered(rows: Sequence[LoadRate], scatter: float) -> list[LoadRate]:
    """The points with a scatter between them that their own series do not show."""
    return [msgspec.structs.replace(row, error=math.hypot(row.error, scatter)) for row in rows]


def _left_open(rows: Sequence[LoadRate], found: Sequence[Cap], *, has_idle: bool) -> Iterator[str]:
    blocks = [row.block_bytes for row in rows]
    quantities = {cap.quantity for cap in found}
    if all(row.is_held_up for row in rows):
        yield "this machine was too busy at every point: measure again when it is idle"
    if quantities and max(blocks) <= OTHER * min(blocks):
        yield "all points have one block size: whether operations or bytes are limited is not known"
    if not found:
        yield "no two loads reach the same rate: no limit is known"
    if not has_idle:
        yield "each point reaches a limit: the latency of an idle target is not known"
    kinds: tuple[tuple[Kind, Kind], ...] = (("read", "write"), ("write", "read"))
    for kind, other in kinds:
        if all(not row.share(kind) for row in rows):
            yield f"no point has {kind}s: what limits them, and whether they share the limits of {other}s, is not known"
    for name, scope in SCOPES.items():
        if found and any(row.connections for row in rows) and not _differ(rows, name):
            yield f"all points have as many {name}: a limit of each {scope} looks like one of the volume"


# ---- profiles that explain points


class LoadRate(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A closed loop of reads and writes of one block size, as it was measured."""

    block_bytes: int
    mix: float
    """The share of reads that the load asks for, 0 to 1."""
    read_share: float
    """The share of the operations that were reads."""
    order: str
    """The share of random offsets."""
    depth: float
    connections: int
    """TCP connections; 0 where the target is reached without."""
    files: int = 0
    """Files; 0 where that is not known."""
    iops: float
    error: float
    """Standard error of the rate, relative; the latency has the same, by Little's law."""
    operations: int
    """Operations that the rate counts."""
    is_held_up: bool = False
    """This machine held the load up: the target allows this rate, and may allow more."""
    is_starved: bool = False
    """... and it was this machine's processors that gave the rate, also where others have the same."""
    clients: int = 1
    """Machines of the load, or addresses from which it comes."""
    workers: int = 1
    """Threads of the load."""
    has_changed: bool = False
    """The rate went from one level to another."""
    at: int = 0
    """Its place in the order of measurement."""
    name: str = ""
    """The name of the point."""

    @property
    def load(self) -> tuple[int, float, str]:
        """The load, apart from its depth and its connections."""
        return self.block_bytes, self.mix, self.order

    def share(self, kind: Kind) -> float:
        """Share of the operations that are of a kind."""
        return {"any": 1.0, "read": self.read_share, "write": 1 - self.read_share}[kind]

    def rate(self, kind: Kind = "any", quantity: str = "iops") -> float:
        """The rate of a kind: operations or bytes per second."""
        return self.iops * self.share(kind) * (self.block_bytes if quantity == "bytes_per_s" else 1)

    def rate_error(self, kind: Kind = "any") -> float:
        """Relative standard error of the rate of a kind, which is drawn at random for each operation of a mix."""
        share = self.share(kind)
        drawn = (1 - share) / (share * self.operations) if share and self.operations else 0.0
        return math.hypot(self.error, math.sqrt(drawn))


class TargetPart(msgspec.Struct, frozen=True):
    """A part of a target that bounds rates: a cap of the volume or of each connection, or the latency."""

    quantity: Literal["iops", "bytes_per_s", "in_flight", "time"]
    kind: Kind = "any"
    scope: Literal["volume", "client", "connection", "file", "thread"] = "volume"
    of: tuple[object, ...] = ()
    """The loads that have this latency; empty for all."""
    block_bytes: float = 0.0
    """Bytes that take a server as long as an operation does."""
    write_cost: float = 1.0
    """The number of reads that a write counts as."""
    write_bytes: float = 0.0
    """Bytes that take a server as long as a write does; 0: as those of reads."""
    since: int = 0
    until: int = sys.maxsize
    """The cap holds for points from one place in the order of measurement on, and before another."""

    def value_of(self, row: LoadRate) -> float:
        """The value that a part counts: a rate, or for the latency operations per second and one in flight; else 0."""
        if not self.since <= row.at < self.until:
            return 0.0
        if self.quantity == "in_flight":
            return row.iops / row.depth if self.of == row.load[: len(self.of)] else 0.0
        value = row.rate(self.kind, self.quantity)
        if self.quantity == "time" or self.write_cost != 1:
            read, write = (
                1 + (row.block_bytes / each if each else 0)
                for each in (self.block_bytes, self.write_bytes or self.block_bytes)
            )
            value *= row.read_share * read + self.write_cost * (1 - row.read_share) * write
        count = _count(row, self.scope)
        return value / count if count else 0.0

    @property
    def parameters(self) -> int:
        """The number of values that were taken from points."""
        return 1 + (self.quantity == "time") + (self.write_cost != 1) + (self.write_bytes > 0)

    @property
    def without_cost(self) -> TargetPart:
        """The part by its name: writes that cost more are no limit for themselves."""
        return msgspec.structs.replace(self, write_cost=1.0)

    @property
    def at_any_time(self) -> TargetPart:
        """The part by its name: the values of a cap that changes are those of one limit."""
        return msgspec.structs.replace(self, since=0, until=sys.maxsize)


def _count(row: LoadRate, scope: str) -> int:
    """The number of volumes, clients, connections, files or threads that a load uses; 0 where it is not known."""
    if scope == "client":
        # Without connections there is no client of a server.
        return row.connections and row.clients
    return {"volume": 1, "connection": row.connections, "file": row.files, "thread": row.workers}[scope]


class PartCeiling(msgspec.Struct, frozen=True, dict=True):
    """The highest value of a part, which several points have: the part's capacity if it binds."""

    part: TargetPart
    value: float
    error: float
    """Relative standard error."""
    members: tuple[LoadRate, ...]
    """The points that show it, none of which was starved."""
    scatter: float = 0.0
    """Relative standard deviation between points that their own errors do not show."""

    def holds(self, row: LoadRate) -> bool:
        """True if a point is at the ceiling, also if this machine held it up."""
        value, error = self.part.value_of(row), math.hypot(row.rate_error(self.part.kind), self.scatter)
        return value > 0 < self.value and distance(value, error, self) <= DISTANCE_MAX

    @cached_property
    def named_part(self) -> TargetPart | None:
        """The part by its name; none for one that only one load shows, which may have any cause."""
        if len({(row.load, row.depth, _count(row, self.part.scope)) for row in self.members}) < 2:
            return None
        return TargetPart("in_flight") if self.part.quantity == "in_flight" else self.part.without_cost


class Explanation(msgspec.Struct, frozen=True):
    """The profiles that explain points, by what they say of each point."""

    ceilings: dict[TargetPart, PartCeiling]
    shares: tuple[dict[TargetPart | None, float], ...]
    """For each point the weight of the profiles in which a part binds; None where none explains the point."""


CAPS_OF_PROFILES = (
    *(TargetPart("bytes_per_s", kind) for kind in get_args(Kind)),
    *(TargetPart("iops", kind) for kind in get_args(Kind)),
    TargetPart("bytes_per_s", scope="connection"),
    TargetPart("iops", scope="connection"),
    TargetPart("iops", scope="file"),
)
DISTANCE_MAX = 2.6
"""Values that differ by more standard errors are not equal (1 % of equal ones do)."""
ERROR_MIN = 0.003
"""Least standard error of a rate, relative: what a token bucket lets through at once, and the edges of the window."""
RANGE = 6.0
"""Natural logarithms over which capacities are equally likely before they are measured."""
NORMAL = math.sqrt(2 * math.pi)
STRAY = 0.02
"""Share of points that nothing in a profile explains."""
SOFT_FALLS = 2.0
"""... less by this exponent of their ratio."""
BYTES_PER_S_MIN = 16 * 2**20
"""A latency that grows by more than the time of a byte at this rate is no latency, but waiting."""
NORMAL_95 = 1.96
"""Half of a 95 % interval has this many standard errors."""
PARTS_MAX, CAPS_MAX = 3, 4
"""Most parts of a profile that explains a verdict; most caps of a fit."""
GROWN_FROM, MANY = 5, 100
"""Profiles with further parts are built on this many of the best; from this many points on, on the best alone."""
SCATTERS, OF_OTHERS = ((0.0, 0.0), (0.01, 0.0), (0.03, 0.0), (0.005, 0.15)), (0.15, 0.0)
"""Relative standard deviations between points that their own series do not show, also those of others that come and go
where rates change; and how soft the limits are: where two
parts allow the same, the rate is lower by about this share, ..."""
USUAL = 0.5
"""Each further part makes a profile less likely by this factor."""


def ceiling(rows: Iterable[LoadRate], part: TargetPart, scatter: float = 0.0) -> PartCeiling | None:
    """The points at the highest value of a part; one alone may be at the top."""
    found = [
        (value, math.hypot(row.rate_error(part.kind), scatter), row)
        for row in rows
        if not row.is_starved and (value := part.value_of(row))
    ]
    found.sort(key=lambda one: -one[0])
    at: PartCeiling | None = None
    for count, (value, error, _) in enumerate(found, 1):
        if at and distance(value, error, at) > DISTANCE_MAX:
            break
        pooled = _pooled([one[:2] for one in found[:count]])
        at = PartCeiling(part, *pooled, tuple(row for *_, row in found[:count]), scatter)
    return at


def distance(value: float, error: float, at: PartCeiling) -> float:
    """Standard errors between a value and a ceiling."""
    return abs(math.log(value / at.value)) / math.hypot(error, at.error)


def _pooled(values: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The mean of values with relative errors, by its logarithm, and its relative error."""
    weights = [1 / error**2 for _, error in values]
    total = math.fsum(weights)
    logarithm = math.fsum(weight * math.log(value) for (value, _), weight in zip(values, weights, strict=True)) / total
    return math.exp(logarithm), math.sqrt(1 / total)


def explained(rows: Sequence[LoadRate]) -> Explanation:
    """The profiles that explain points, weighed by their evidence (Kass and Raftery 1995).

    A profile has a latency and up to three caps, and the rate of a point is the least that they allow. So a part's
    capacity is the highest value that points have, if the part binds at all. Each capacity costs the share of its range
    that its error leaves of it. Points may scatter by more than their own errors show.
    """
    # A part that one point alone shows may have any cause.
    changed = _changed(rows)
    parts = [*_caps(rows), *changed, *_servers(rows), *_weighted(rows)]
    found: list[Judged] = []
    scatters: list[tuple[float, float]] = []
    for scatter, softness in (*SCATTERS, OF_OTHERS) if any(row.has_changed for row in rows) else SCATTERS:
        profiles = _profiles(_scattered(rows, scatter), softness, parts, PARTS_MAX)
        found += profiles
        scatters.append((max(one.score for one in profiles), scatter))
    # Without others that come and go, one point that is clearly above a ceiling shows that there is none.
    scatter = OF_OTHERS[0] if max(scatters)[1] == OF_OTHERS[0] else 0.0
    ceilings = {part: at for part in (*_caps(rows), *changed) if (at := ceiling(rows, part, scatter))}
    return Explanation(ceilings, _shares(len(rows), found))


class Judged(msgspec.Struct, frozen=True):
    """A profile that was judged."""

    score: float
    """The logarithm of its evidence."""
    names: list[dict[TargetPart | None, float]]
    """The parts that may limit each point, by weight."""
    used: tuple[PartCeiling, ...]
    """Parts that bind."""


def _caps(rows: Sequence[LoadRate]) -> list[TargetPart]:
    """The caps that the loads of points tell apart."""
    of_kinds, has_connections = has_mixes(rows), any(row.connections for row in rows)
    files = len({row.files for row in rows})
    scopes = {"volume", *(["connection"] if has_connections else ()), *(["file"] if files > 1 else ())}
    return [part for part in CAPS_OF_PROFILES if (of_kinds or part.kind == "any") and part.scope in scopes]


def _changed(rows: Sequence[LoadRate]) -> list[TargetPart]:
    """A cap before and after the place in the order of measurement at which two values explain most points.

    Credits that end change a cap so, and so does whoever sets it.
    """
    found: list[TargetPart] = []
    places = sorted({row.at for row in rows})[1:] if len(rows) < MANY else ()
    for quantity in ("iops", "bytes_per_s"):
        members, *values = max(
            (
                (sum(_members(rows, part) for part in parts), *parts)
                for place in places
                for parts in [(TargetPart(quantity, until=place), TargetPart(quantity, since=place))]
            ),
            key=lambda one: one[0],
            default=(0,),
        )
        found += values if members > _members(rows, TargetPart(quantity)) + 1 else ()
    return found


def _members(rows: Sequence[LoadRate], part: TargetPart) -> int:
    at = ceiling(rows, part)
    return len(at.members) if at else 0


def _profiles(rows: Sequence[LoadRate], softness: float, parts: Sequence[TargetPart], parts_max: int) -> list[Judged]:
    ceilings = {
        part: at
        for part in parts
        if (at := ceiling(rows, part)) and len(at.members) > 1 and _may_wait(rows, at.members)
    }
    room = {part: [_room(at, row) for row in rows] for part, at in ceilings.items()}
    profiles = dict[tuple[TargetPart, ...], list[Judged]]()
    groups = {len({row.load[:length] for row in rows}): length for length in (3, 2, 1, 0)}
    latencies = [*(_latency(rows, length) for length in groups.values()), *_linear_latency(rows)]
    todo: list[tuple[TargetPart, ...]] = [()]
    for _ in range(parts_max + 1):
        for caps in todo:
            profiles[caps] = [
                _judged(rows, {cap: room[cap] for cap in caps}, ceilings, latency, softness) for latency in latencies
            ]
        best = sorted(profiles, key=lambda caps: -max(one.score for one in profiles[caps]))[
            : GROWN_FROM if len(rows) < MANY else 1
        ]
        grown = (tuple(part for part in ceilings if part in caps or part is new) for caps in best for new in ceilings)
        todo = [caps for caps in dict.fromkeys(grown) if caps not in profiles]
    return [one for each in profiles.values() for one in each]


def _may_wait(rows: Sequence[LoadRate], members: Sequence[LoadRate]) -> bool:
    """False of points that take no longer than shallower ones: the latency of an idle target varies, and is no cap."""
    if len(rows) >= MANY:
        return True
    pairs = [
        row.depth / row.iops > WAITS * other.depth / other.iops
        for row in members
        for other in rows
        if other.block_bytes == row.block_bytes and 2 * other.depth <= row.depth
    ]
    return not pairs or any(pairs)


def _servers(rows: Sequence[LoadRate]) -> list[TargetPart]:
    """A server, or one for each connection, that takes a time for an operation and one for its bytes."""
    scopes: tuple[Literal["volume", "connection"], ...] = ("volume", "connection")
    times = [(scope, _times(rows, TargetPart("iops", scope=scope))) for scope in scopes]
    return [TargetPart("time", scope=scope, block_bytes=found[0] / found[1]) for scope, found in times if found]


def _times(rows: Sequence[LoadRate], part: TargetPart) -> tuple[float, float] | None:
    """The times of an operation and of a byte that the rates of the smallest and the largest blocks have."""
    sizes = sorted({row.block_bytes for row in rows})
    small, large = (
        max(part.value_of(row) for row in rows if row.block_bytes == size) for size in (sizes[0], sizes[-1])
    )
    if not small > large > small * sizes[0] / sizes[-1]:
        return None
    byte_s = (1 / large - 1 / small) / (sizes[-1] - sizes[0])
    return 1 / small - sizes[0] * byte_s, byte_s


def _weighted(rows: Sequence[LoadRate]) -> list[TargetPart]:
    """Caps of which a write takes more than a read, as the rates of reads alone and of writes alone have it."""
    found = []
    for quantity in ("iops", "bytes_per_s"):
        part = TargetPart(quantity)
        reads = max((part.value_of(row) for row in rows if row.mix == 1), default=0.0)
        writes = max((part.value_of(row) for row in rows if row.mix == 0), default=0.0)
        if reads > writes * OTHER > 0:
            found.append(TargetPart(quantity, write_cost=reads / writes))
    return found


def _shares(count: int, profiles: Sequence[Judged]) -> tuple[dict[TargetPart | None, float], ...]:
    most = max(one.score for one in profiles)
    shares: tuple[dict[TargetPart | None, float], ...] = tuple({} for _ in range(count))
    total = math.fsum(math.exp(one.score - most) for one in profiles)
    for one in profiles:
        weight = math.exp(one.score - most) / total
        for share, name in zip(shares, one.names, strict=True):
            for part, part_share in name.items():
                share[part] = share.get(part, 0.0) + weight * part_share
    return shares


def _room(at: PartCeiling, row: LoadRate) -> float:
    """The logarithm of what a part allows to what a point has."""
    value = at.part.value_of(row)
    return math.log(at.value / value) if value else math.inf


class IdleLatency(msgspec.Struct, frozen=True):
    """The latency of an idle target for each point of a profile."""

    ceilings: list[PartCeiling]
    room: list[float]
    charges: tuple[float, ...]
    """Errors of its parameters."""
    score: float = 0.0
    """The logarithm of how usual it is."""


def _latency(rows: Sequence[LoadRate], length: int) -> IdleLatency:
    """A latency for all loads, or one by block size, by size and mix, or by those and the order of offsets."""
    found: dict[tuple[object, ...], PartCeiling] = {}
    for row in rows:
        key = row.load[:length]
        if key not in found:
            part = TargetPart("in_flight", of=key)
            # A load that was always held up has no latency that is known.
            found[key] = ceiling(rows, part) or PartCeiling(part, math.inf, ERROR_MIN, ())
    least = min(((row.block_bytes, 1 / found[row.load[:length]].value) for row in rows), default=(0, 0.0))
    unusual = [
        key
        for key, at in found.items()
        if key
        and isinstance(key[0], int)
        and 1 / at.value - least[1] > max(0, key[0] - least[0]) / BYTES_PER_S_MIN + 3 * least[1]
    ]
    # Such a latency explains any rate at one depth, so it names nothing.
    found |= {key: msgspec.structs.replace(found[key], members=()) for key in unusual}
    own = [found[row.load[:length]] for row in rows]
    rooms = [_room(at, row) for at, row in zip(own, rows, strict=True)]
    usual = len(unusual) * math.log(STRAY) + min(1, length) * math.log(USUAL)
    return IdleLatency(own, rooms, tuple(at.error for at in found.values()), usual)


def _linear_latency(rows: Sequence[LoadRate]) -> list[IdleLatency]:
    """A latency of reads, one of writes, and a time for each byte, as the least loaded points have them."""
    least: dict[tuple[int, float], float] = {}
    for row in rows:
        if not row.is_held_up:
            key = row.block_bytes, row.mix
            least[key] = min(least.get(key, math.inf), row.depth / row.iops)
    sizes, mixes = sorted({size for size, _ in least}), sorted({mix for _, mix in least})
    corners = [(size, mix) for size in (sizes[:1] + sizes[-1:]) for mix in (mixes[:1] + mixes[-1:])]
    if len(sizes) < 2 or len(mixes) < 2 or not all(corner in least for corner in corners):
        return []
    (low, high), span = (sizes[0], sizes[-1]), mixes[-1] - mixes[0]
    byte_s = max(0.0, min(least[high, mix] - least[low, mix] for mix in (mixes[0], mixes[-1])) / (high - low))
    if byte_s > 1 / BYTES_PER_S_MIN:
        return []
    slope = (least[low, mixes[-1]] - least[low, mixes[0]]) / span

    def latency(row: LoadRate) -> float:
        # A load that was held up may be beyond the mixes and sizes of those whose latency is known.
        mix, size = min(max(row.mix, mixes[0]), mixes[-1]), max(row.block_bytes, low)
        return least[low, mixes[0]] + slope * (mix - mixes[0]) + byte_s * (size - low)

    error = min(row.error for row in rows)
    rooms = [math.log(row.depth / row.iops / latency(row)) for row in rows]
    members = tuple(row for row, room in zip(rows, rooms, strict=True) if abs(room) <= DISTANCE_MAX * row.error)
    at = [PartCeiling(TargetPart("in_flight"), 1 / latency(row), error, members) for row in rows]
    return [IdleLatency(at, rooms, (error,) * 3, math.log(USUAL))]


def _judged(
    rows: Sequence[LoadRate],
    caps: dict[TargetPart, list[float]],
    ceilings: dict[TargetPart, PartCeiling],
    latency: IdleLatency,
    softness: float,
) -> Judged:
    """The evidence of a profile."""
    score = latency.score + len(caps) * math.log(USUAL)
    names: list[dict[TargetPart | None, float]] = []
    bounds = []
    for number, of_latency in enumerate(zip(latency.room, latency.ceilings, strict=True)):
        of_caps = ((room[number], ceilings[cap]) for cap, room in caps.items())
        bounds.append(sorted((of_latency, *of_caps), key=lambda one: one[0]))
    ties = [_tied(row, of_row) for row, of_row in zip(rows, bounds, strict=True)]
    # A part that allows no less than another wherever it seems to bind may allow more: then it does not bind.
    used = {tied[0].part: tied[0] for tied in ties if len(tied) == 1}
    for row, (nearest, *further), tied in zip(rows, bounds, ties, strict=True):
        first, binds = nearest
        error = row.rate_error(binds.part.kind)
        if first > 0 and further and softness:
            error = math.hypot(error, softness * math.exp(SOFT_FALLS * (first - further[0][0])))
        score += _log_likelihood(first, error, row)
        holding = [at for at in tied if at.part in used] or tied
        used.setdefault(holding[0].part, holding[0])
        # A point that was held up shows that the target allows at least its rate.
        is_explained = (first if row.is_held_up else abs(first)) <= DISTANCE_MAX * error
        of_row: dict[TargetPart | None, float] = {}
        for at in holding:
            name = at.named_part if is_explained else None
            of_row[name] = of_row.get(name, 0.0) + 1 / len(holding)
        names.append(of_row)
    charges = [*latency.charges] if any(part.quantity == "in_flight" for part in used) else []
    # A server's two times are two capacities, and so are the costs of reads and writes.
    charges += [at.error for part, at in used.items() if part.quantity != "in_flight" for _ in range(part.parameters)]
    # The place of a change is one of many.
    score -= sum(part.at_any_time != part for part in used) * math.log(len(rows)) / 2
    score -= math.fsum(math.log(RANGE / (max(error, ERROR_MIN / 3) * NORMAL)) for error in charges)
    return Judged(score, names, tuple(used.values()))


def _tied(row: LoadRate, bounds: Sequence[tuple[float, PartCeiling]]) -> list[PartCeiling]:
    """The parts that allow a point the least, as far as its error tells."""
    return [at for room, at in bounds if room - bounds[0][0] <= row.error] or [bounds[0][1]]


def _log_likelihood(room: float, error: float, row: LoadRate) -> float:
    """The likelihood of a rate that is lower than what a profile allows by a room in logarithms.

    A load that was held up has this rate or is anywhere below; that explains a low rate, and no equal ones.
    """
    below = (1.0 if room > -DISTANCE_MAX * error else STRAY) / RANGE
    if row.is_starved:
        return math.log(below)
    normal = math.exp(-((room / error) ** 2) / 2) / (error * NORMAL)
    if row.is_held_up:
        return math.log((normal + below) / 2)
    return math.log((1 - STRAY) * normal + STRAY / RANGE)
