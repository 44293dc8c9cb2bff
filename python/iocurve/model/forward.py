"""The forward function of the model: what the limits of a target leave of a load (docs/predict.md).

A closed load with N operations in flight reaches at most N / R, R being the latency of an idle target (Little), and no
more than each limit allows. Parts of a load that share a limit have equal shares of it. Credits, and workers that end
at different times, make the rates a path over time, which is followed from event to event.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import msgspec
from msgspec.structs import replace

from iocurve.engine import plan as plans
from iocurve.engine.derived import block_bytes_mean
from iocurve.foundation.structs import Struct
from iocurve.foundation.units import SECOND_NS
from iocurve.model.links import LinkLimit, Standing, disk_links, scope_links, speed_links, volume_links
from iocurve.result.caps import Kind
from iocurve.volume.limits import Limits, Parallelism

STEPS_MAX = 10_000
"""Most events of a path; each worker has a few, and so has each bucket of credits."""
HORIZON_S = 3600.0
"""Time for which a load without an end is followed."""
SAVED_S = 1 / 64
"""A limit on a rate saves up what it allows in this time, as those of the embedded volume do."""
KINDS = ("read", "write")
IN_FLIGHT = "operations in flight ÷ latency"
REQUESTED = "the requested rate"
SERVERS = "the server's own speed"
NEAR = 1.1
"""A limit is near if a load that is this multiple of it would reach it."""


class ModelledTarget(Struct):
    """A target: a volume by its limits, with the machine and the mount that use it."""

    name: str
    """The profile, which says where its figures were published."""
    limits: Limits = Limits()
    networks: tuple[LinkLimit, ...] = ()
    """The network of a client."""
    nconnect: int = 1
    """TCP connections of a mount, which all jobs of a client share; a user-space client says its."""
    standing: Standing = "published"
    """The source of the limits."""
    is_fresh: bool = False
    """The load reads and writes what the server's cache does not hold; else it has run for long before."""


class KindRate(Struct):
    """One kind of operation, over the measured window."""

    kind: str
    iops: float
    bytes_per_s: float
    latency_ns: float | None
    """Mean latency; None where the target says nothing of its latency."""


class Prediction(Struct):
    """The figures of workers that start together."""

    kinds: tuple[KindRate, ...]
    iops: float
    bytes_per_s: float
    latency_ns: float | None
    """Mean latency of all kinds."""
    is_upper_bound: bool
    """True if the rates are the most that limits allow: the latency is not known, so more in flight may be needed."""
    binds: str
    """The limit that holds back most of the operations; empty where none is known."""
    binding: LinkLimit | None = None
    """The same limit with its source; None where the load itself is the limit."""
    near: tuple[str, ...] = ()
    """Other limits that are reached, or would be by a rate that is a tenth higher."""
    in_flight: int
    knee: float | None
    """Operations in flight that reach the same rate; None where the latency is not known."""
    requested_iops: float | None = None
    """Under a rate: the operations per second that are due."""
    seconds: float | None
    """From the start to the end of the last worker; None without an end."""
    ends_by: str
    """``time``, ``size``, ``operations`` or empty."""
    phases: tuple[tuple[float, float], ...] = ()
    """Length in seconds and IOPS of each part of the path, in order."""
    credits_s: float | None = None
    """The time after which burst credits are spent; None where they last."""


class Constraint(msgspec.Struct):
    """One limit and the load on it: the sum of rate × use over all parts stays within the capacity."""

    name: str
    capacity: float
    use: dict[int, float]
    """The use of an operation, by the number of the part."""
    delays: Kind | None = None
    """The operations that wait for this limit; None where the load itself is the limit."""
    link: LinkLimit | None = None
    high: float = 0.0
    """Capacity while credits last."""
    credits: float = 0.0
    """Operations or bytes beyond the capacity that are left."""

    @property
    def allows(self) -> float:
        """The capacity now."""
        return self.high if self.credits > 0 else self.capacity

    def load(self, rates: Mapping[int, float]) -> float:
        """The use by all parts at these rates."""
        return sum(rates[number] * use for number, use in self.use.items() if number in rates)


class LoadPart(msgspec.Struct):
    """Equal workers of a job, and how far they are."""

    workers: Sequence[plans.Worker]
    shares: Sequence[tuple[plans.OperationPlan, float]]
    """Each kind with its share of the operations."""
    requested: float
    """Operations per second that are due; infinite without a rate."""
    hits: float = 0.0
    """The share of the operations whose data the server's cache holds."""
    rest: float = math.inf
    """Operations until the end."""
    ends: float = math.inf
    counts: dict[str, float] = {}
    """Operations in the measured window, by kind."""
    busy: dict[str, float] = {}
    """Seconds that these operations took, all together, by kind."""

    @property
    def first(self) -> plans.Worker:
        """One of the workers."""
        return self.workers[0]

    @property
    def in_flight(self) -> int:
        """Operations in flight, all workers together."""
        return len(self.workers) * depth_of(self.first)

    @property
    def is_random(self) -> bool:
        """True if operations are due at random times."""
        return any(rate.arrivals == "poisson" for rate in (self.first.rate, *(o.rate for o, _ in self.shares)) if rate)

    @property
    def starts(self) -> float:
        """Start of the load in seconds."""
        return self.first.start_delay_ns / SECOND_NS

    @property
    def window(self) -> float:
        """Start of the measured window in seconds."""
        return self.starts + self.first.ramp_ns / SECOND_NS

    @property
    def mean_bytes(self) -> float:
        """Mean bytes of an operation."""
        return self.mean(lambda one: block_bytes_mean(one.blocks))

    def mean(self, of: Callable[[plans.OperationPlan], float]) -> float:
        """The mean of a value of operations, by their shares."""
        return sum(share * of(one) for one, share in self.shares)

    def mean_latency(self, of_kinds: Mapping[str, float]) -> float:
        """The mean of a latency of each kind, in its unit."""
        return self.mean(lambda one: of_kinds[one.kind])


def _unloaded_s(one: plans.OperationPlan, service: ModelledTarget, disk: plans.DiskPlan | None) -> float:
    """The mean latency of an operation on an idle target, in seconds; 0 where it is not known."""
    found = disk.latency_ns if disk else service.limits.unloaded_ns(_kind(one), block_bytes_mean(one.blocks))
    return found / SECOND_NS


def _served_s(speed: Parallelism, one: plans.OperationPlan) -> float:
    """The time that a server takes for an operation, in seconds."""
    return speed.takes_ns(_kind(one), block_bytes_mean(one.blocks)) / SECOND_NS


def hit_share(worker: plans.Worker, held: float) -> float:
    """The share of the operations whose data a cache (LRU) holds, of a load that has run for long.

    ``held`` is the part of the files that fits into the cache. In the same order again each block comes when the others
    have been: all or none is held. In a new order, of which the block at the place x of a pass (0 to 1) comes at y in
    the next, 1 - x + x y of the blocks are between: held + (1 - held) ln(1 - held) of the blocks find fewer than fit.
    """
    if held >= 1:
        return 1.0
    random = [one for one in worker.operations if one.random_percent]
    if worker.access.cover == "independent" or any(not isinstance(one.distribution, plans.Uniform) for one in random):
        return held if random else 0.0
    return held + (1 - held) * math.log(1 - held) if random and worker.access.passes == "fresh" else 0.0


def depth_of(worker: plans.Worker) -> int:
    """Operations that a worker really has in flight: one where its engine waits for each."""
    engine = worker.engine
    if isinstance(engine, plans.SyncEngine | plans.MmapEngine) or (
        isinstance(engine, plans.AioEngine) and not engine.open.direct
    ):
        return 1
    slots = (
        engine.mount.session_slots
        if isinstance(engine, plans.NfsEngine) and engine.mount.version == 4
        else worker.depth
    )
    return min(worker.depth, slots)


def forward(group: plans.Group, service: ModelledTarget) -> Prediction:
    """The figures of workers that start together. A caller refuses those with ``unpredictable``.

    Rates are infinite where nothing that is known limits them.
    """
    parts = _parts(group.workers, service)
    of_kinds: list[dict[str, float]] = [
        {one.kind: _unloaded_s(one, service, part.first.disk) for one, _ in part.shares} for part in parts
    ]
    latency = {number: part.mean_latency(of_kinds[number]) for number, part in enumerate(parts)}
    constraints = _constraints(parts, service, latency)
    phases: list[tuple[float, float]] = []
    held: dict[str, float] = {}
    near: dict[str, float] = {}
    credits_s = None
    now = 0.0
    for _ in range(STEPS_MAX):
        active = [number for number, part in enumerate(parts) if part.starts <= now < part.ends and part.rest > 0]
        rates, binding = fill(parts, constraints, active)
        seconds = min(_until_event(parts, constraints, rates, now), HORIZON_S if active else 0.0)
        if seconds <= 0:
            break
        for number, rate in rates.items():
            one = binding[number]
            waits = _random_waits(parts[number], number, constraints, rates)
            _count(parts[number], rate, now, seconds, _latencies(parts[number], rate, of_kinds[number], one, waits))
            held[one.name] = held.get(one.name, 0.0) + rate * seconds
        phases.append((seconds, sum(rates.values())))
        for one in constraints:
            if one.load(rates) * NEAR >= one.allows:
                near[one.name] = near.get(one.name, 0.0) + seconds
        now += seconds
        for one in constraints:
            if _spent(one, rates, seconds):
                credits_s = now
        if not all(parts[number].ends < math.inf or parts[number].rest < math.inf for number in active) and (
            seconds == HORIZON_S or math.inf in rates.values()
        ):
            break
    found = _summary(parts, constraints, latency, tuple(phases), held, credits_s)
    lasting = [name for name, seconds in near.items() if name != found.binds and seconds > now / 2]
    return found.replace(near=tuple(lasting))


# ---- parts and limits


def _parts(workers: Sequence[plans.Worker], service: ModelledTarget) -> list[LoadPart]:
    """The workers by equal loads."""
    cache = None if service.is_fresh else service.limits.server_cache
    held = cache.bytes / max(1, working_set(workers)) if cache else 0.0
    alike: dict[bytes, list[plans.Worker]] = {}
    for worker in workers:
        kept = worker.replace(files=(), jobnum=0, seed=0, cpus=(), log=None, verify=None)
        alike.setdefault(msgspec.json.encode(kept), []).append(worker)
    return [_part(equal, hit_share(equal[0], held)) for equal in alike.values()]


def working_set(workers: Iterable[plans.Worker]) -> int:
    """The bytes of all files."""
    return sum({(file.path, file.offset_bytes): file.bytes for one in workers for file in one.files}.values())


def _part(workers: Sequence[plans.Worker], hits: float) -> LoadPart:
    """Kinds with a rate each are sent in the order in which they are due: their rates are their shares."""
    first, count = workers[0], len(workers)
    weights = [_per_second(one.rate, block_bytes_mean(one.blocks)) if one.rate else 0.0 for one in first.operations]
    total = sum(weights)
    if not total:
        weights = [float(one.share) for one in first.operations]
    # Kinds of a replay have no share.
    shares = [weight / sum(weights) if any(weights) else 1 / len(weights) for weight in weights]
    part = LoadPart(workers, tuple(zip(first.operations, shares, strict=True)), math.inf, hits, counts={}, busy={})
    if total:
        part.requested = total * count
    elif first.rate:
        part.requested = _per_second(first.rate, part.mean_bytes) * count
    end = first.end
    if end.runtime_ns is not None:
        part.ends = part.window + end.runtime_ns / SECOND_NS
    if end.bytes is not None:
        part.rest = end.bytes / part.mean_bytes * count
    if end.operations is not None:
        part.rest = min(part.rest, end.operations * count)
    return part


def _per_second(rate: plans.Rate, mean_bytes: float) -> float:
    return rate.count / (mean_bytes if rate.unit == "bytes" else 1) * SECOND_NS / rate.per_ns


def _constraints(parts: Sequence[LoadPart], service: ModelledTarget, latency: Mapping[int, float]) -> list[Constraint]:
    """All limits of a load, those of single parts first."""
    found = []
    for number, part in enumerate(parts):
        if part.requested < math.inf:
            found.append(Constraint(REQUESTED, part.requested, {number: 1.0}))
        if latency[number]:
            found.append(Constraint(IN_FLIGHT, part.in_flight, {number: latency[number]}))
    for disk in {part.first.disk for part in parts}:
        using = {number: part for number, part in enumerate(parts) if part.first.disk == disk}
        if disk:
            found += _of_links(disk_links(disk, "", ""), using, service, disk)
            continue
        for client in sorted({part.first.client for part in using.values()}):
            found += _client_constraints({n: part for n, part in using.items() if part.first.client == client}, service)
        found += _of_links(volume_links(service.name, service.limits), using, service)
        if speed := service.limits.parallelism:
            use = {number: part.mean(partial(_served_s, speed)) for number, part in using.items()}
            found.append(Constraint(SERVERS, speed.servers, use, "any"))
    return found


def _client_constraints(parts: Mapping[int, LoadPart], service: ModelledTarget) -> Iterator[Constraint]:
    """The network and the connections of a client: a mount is shared, workers of a user-space client have their own."""
    yield from _of_links(scope_links(service.name, service.limits, "client", 1), parts, service)
    mounted = {number: part for number, part in parts.items() if not isinstance(part.first.engine, plans.NfsEngine)}
    yield from _of_links(service.networks, parts, service)
    holders = [(service.nconnect, mounted)] if mounted else []
    for number, part in parts.items():
        if isinstance(part.first.engine, plans.NfsEngine):
            holders.append((part.first.engine.mount.nconnect * len(part.workers), {number: part}))
    for connections, using in holders:
        links = scope_links(service.name, service.limits, "connection", connections)
        yield from _of_links(links, using, service)


def _of_links(
    links: Iterable[LinkLimit],
    parts: Mapping[int, LoadPart],
    service: ModelledTarget,
    disk: plans.DiskPlan | None = None,
) -> Iterator[Constraint]:
    for link in links:
        cost: dict[str, Callable[[plans.OperationPlan], float]] = {
            "bytes_per_s": lambda one: block_bytes_mean(one.blocks),
            "iops": lambda one: math.ceil(block_bytes_mean(one.blocks) / disk.io_bytes) if disk else 1.0,
            "in_flight": lambda one: _unloaded_s(one, service, disk),
        }
        use = {}
        for number, part in parts.items():
            counted = [one for one in part.shares if link.kind in ("any", one[0].kind)]
            use[number] = sum(
                share * cost[link.quantity](one) * _weight(link, one.kind, service, part.hits) for one, share in counted
            )
        use = {number: value for number, value in use.items() if value > 0}
        if use:
            told = link if disk or service.standing == "published" else replace(link, standing=service.standing)
            yield _with_burst(Constraint(link.name, float(link.capacity), use, link.kind, told), service, disk)


def _weight(link: LinkLimit, kind: str, service: ModelledTarget, hits: float) -> float:
    """The cost of an operation of a kind, or of its bytes, at a limit, with this share of hits in a server's cache."""
    weights = [cap.reads_per_write for cap in service.limits.caps if cap.reads_per_write]
    weight = 1 / weights[0] if weights and kind == "read" and link.name == "volume's throughput" else 1
    cache = service.limits.server_cache if link.name.startswith("volume's ") else None
    return weight * cache.cost(kind, link.quantity, hits) if cache else weight


def _with_burst(one: Constraint, service: ModelledTarget, disk: plans.DiskPlan | None) -> Constraint:
    """The limit with its burst, if it is the one that has credits."""
    assert one.link is not None
    if disk is None:
        bursts = {"volume's IOPS": service.limits.burst, "volume's throughput": service.limits.throughput_burst}
        if (burst := bursts.get(one.name)) is not None:
            one.high, one.credits = float(burst.value), float(burst.credits)
        return one
    for limits in (disk.limits, disk.vm and disk.vm.uncached):
        if (
            limits
            and limits.burst
            and one.link
            in {*speed_links("disks'", limits, one.link.kind, "")}
            | {*speed_links(f"{disk.vm.name if disk.vm else ''}'s uncached", limits, one.link.kind, "")}
        ):
            one.high = float(limits.burst.iops if one.link.quantity == "iops" else limits.burst.bytes_per_s)
            one.credits = (one.high - one.capacity) * limits.burst.duration_ns / SECOND_NS
    return one


# ---- rates at one time


def fill(
    parts: Sequence[LoadPart], constraints: Sequence[Constraint], active: Sequence[int]
) -> tuple[dict[int, float], dict[int, Constraint]]:
    """The rates of the active parts, and the limit that holds each back, by max-min fairness.

    All rates grow in proportion to their claims until a limit is full; its parts stay there, and the others grow on.
    """
    rates, binding = dict.fromkeys(active, 0.0), {number: Constraint("", math.inf, {}) for number in active}
    free = set(active)
    speed = {number: _claim(parts[number], number, constraints) for number in active}
    while free:
        grows = {number: speed[number] for number in free}
        room = [
            (max(0.0, one.allows - one.load(rates)) / one.load(grows), one) for one in constraints if one.load(grows)
        ]
        # Of limits that are full at once the first is named.
        steps, first = min(room, key=lambda found: found[0], default=(math.inf, None))
        for number in free:
            rates[number] += speed[number] * steps
        stopped = free & set(first.use) if first else free
        binding |= dict.fromkeys(stopped, first) if first else {}
        free -= stopped
    return rates, binding


def _claim(part: LoadPart, number: int, constraints: Sequence[Constraint]) -> float:
    """The part of a shared limit that is due to a load: by its connections, or on a mount by what it has in flight."""
    engine = part.first.engine
    each = engine.mount.nconnect if isinstance(engine, plans.NfsEngine) else depth_of(part.first)
    costs = [one.use[number] / one.capacity for one in constraints if len(one.use) > 1 and number in one.use]
    return len(part.workers) * each / max(costs, default=1.0)


def _latencies(
    part: LoadPart, rate: float, unloaded: Mapping[str, float], binding: Constraint, arrivals: Mapping[Kind, float]
) -> dict[str, float]:
    """The latency of each kind by Little's law: the kinds that the limit counts have all of the waiting.

    Below all limits operations wait only where they arrive at random: ``arrivals`` has that, by what a limit counts.
    """
    waits = dict(arrivals)
    if binding.delays and rate:
        shares = [share for one, share in part.shares if binding.delays in ("any", one.kind)]
        waits = {binding.delays: max(0.0, part.in_flight / rate - part.mean_latency(unloaded)) / sum(shares)}
    found = {one.kind: waits.get("any", 0.0) + waits.get(_kind(one), 0.0) for one, _ in part.shares}
    # Without waiting a latency that is not known stays so.
    return {kind: unloaded[kind] + more or math.nan for kind, more in found.items()}


def _kind(operation: plans.OperationPlan) -> Kind:
    return "write" if operation.kind == "write" else "read"


def _random_waits(
    part: LoadPart, number: int, constraints: Sequence[Constraint], rates: Mapping[int, float]
) -> dict[Kind, float]:
    """Seconds that operations of a Poisson process wait for the limits, by what a limit counts (M/D/c)."""
    waits: dict[Kind, float] = {}
    for one in constraints if part.is_random else ():
        if one.delays and number in one.use and one.load(rates) < one.allows:
            waits[one.delays] = waits.get(one.delays, 0.0) + _random_wait(one, one.use[number], one.load(rates))
    return waits


def _random_wait(one: Constraint, use: float, load: float) -> float:
    """Half of what exponential service would give (Allen and Cunneen); a rate is one server with saved tokens."""
    busy = load / one.allows
    if one.name == SERVERS:
        servers, offered = round(one.capacity), load
        terms = [offered**count / math.factorial(count) for count in range(servers)]
        last = offered**servers / math.factorial(servers) / (1 - busy)
        return last / (sum(terms) + last) * use / (2 * servers * (1 - busy))
    wait = busy * use / one.allows / (2 * (1 - busy))
    return wait * math.exp(-busy * SAVED_S / wait) if wait else 0.0


# ---- the path


def _until_event(
    parts: Sequence[LoadPart], constraints: Sequence[Constraint], rates: Mapping[int, float], now: float
) -> float:
    """Seconds until a worker starts, ends its ramp or ends, or credits are spent."""
    times = [part.starts - now for part in parts if part.starts > now]
    for number, rate in rates.items():
        part = parts[number]
        times += [time - now for time in (part.window, part.ends) if time > now]
        if rate > 0:
            times.append(part.rest / rate)
    for one in constraints:
        if one.credits > 0 and (beyond := one.load(rates) - one.capacity) > 0:
            times.append(one.credits / beyond)
    return min(times, default=0.0)


def _spent(one: Constraint, rates: Mapping[int, float], seconds: float) -> bool:
    """Takes credits; True if the last ones are spent now."""
    beyond = one.load(rates) - one.capacity
    if one.credits <= 0 or beyond <= 0:
        return False
    one.credits -= beyond * seconds
    if one.credits <= 1e-9 * one.high:
        one.credits = 0.0
    return not one.credits


def _count(part: LoadPart, rate: float, now: float, seconds: float, latency: Mapping[str, float]) -> None:
    """Adds a phase to what a part has done; the ramp moves data and is not counted."""
    part.rest -= rate * seconds if part.rest < math.inf else 0.0
    if part.rest <= 1e-9 * rate * seconds:
        part.rest, part.ends = 0.0, now + seconds
    if now + 1e-12 < part.window:
        return
    for one, share in part.shares:
        done = rate * share * seconds
        part.counts[one.kind] = part.counts.get(one.kind, 0.0) + done
        part.busy[one.kind] = part.busy.get(one.kind, 0.0) + (done * latency[one.kind] if done else 0.0)


def _summary(
    parts: Sequence[LoadPart],
    constraints: Sequence[Constraint],
    latency: Mapping[int, float],
    phases: tuple[tuple[float, float], ...],
    held: Mapping[str, float],
    credits_s: float | None,
) -> Prediction:
    end = sum(seconds for seconds, _ in phases)
    length = max(end - min((part.window for part in parts if part.counts), default=0.0), 1e-9)
    kinds = tuple(found for kind in KINDS if (found := _kind_rate(parts, kind, length)))
    iops, bytes_per_s = sum(one.iops for one in kinds), sum(one.bytes_per_s for one in kinds)
    busy = sum(sum(part.busy.values()) for part in parts)
    binds = max(held, key=lambda name: held[name], default="")
    knees = [
        part.in_flight / max(1.0, _queue(part, seconds)) for part, seconds in zip(parts, latency.values(), strict=True)
    ]
    requested = sum(part.requested for part in parts)
    last = max(parts, key=lambda part: part.ends)
    return Prediction(
        kinds=kinds,
        iops=iops,
        bytes_per_s=bytes_per_s,
        latency_ns=_ns(busy, iops * length),
        is_upper_bound=not all(latency.values()),
        binds=binds,
        binding=next((one.link for one in constraints if one.name == binds), None),
        in_flight=sum(part.in_flight for part in parts),
        knee=sum(knees) if all(latency.values()) else None,
        requested_iops=requested if requested < math.inf else None,
        seconds=end if last.ends < math.inf else None,
        ends_by=""
        if last.ends == math.inf
        else "time"
        if last.rest
        else "size"
        if last.first.end.bytes
        else "operations",
        phases=phases,
        credits_s=credits_s,
    )


def _queue(part: LoadPart, unloaded: float) -> float:
    """Mean latency of a part, as a multiple of that on an idle target."""
    count, busy = sum(part.counts.values()), sum(part.busy.values())
    return busy / count / unloaded if count and unloaded else 1.0


def _kind_rate(parts: Sequence[LoadPart], kind: str, length: float) -> KindRate | None:
    """The rate of a kind over all parts; None where there is none."""
    count = busy = moved = 0.0
    for part in parts:
        sizes: dict[str, float] = {one.kind: block_bytes_mean(one.blocks) for one, _ in part.shares}
        count += part.counts.get(kind, 0.0)
        busy += part.busy.get(kind, 0.0)
        moved += part.counts.get(kind, 0.0) * sizes.get(kind, 0.0)
    if not count:
        return None
    return KindRate(kind=kind, iops=count / length, bytes_per_s=moved / length, latency_ns=_ns(busy, count))


def _ns(busy: float, count: float) -> float | None:
    return busy / count * SECOND_NS if count and math.isfinite(busy) else None
