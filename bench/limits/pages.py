"""First pages in simulated time: what iocurve names on the points of an envelope, on targets drawn by seed.

A target is drawn from a family: the kinds of servers of the limits bench, and further ones with two limits, limits of
one kind of operation, windows, credits, caches and other clients. A page is the short envelope with its probes; ``why
--confirm`` follows on its fastest point. The truth of a point comes from relaxing the server: each of its limits by a
quarter, and the depth to twice, each in a page for itself. What gives more held the point down; where two do, both
names are right. Families are split by chance into those that rules were set on and those that are only scored.

A live page is of iocurve's engine and the stub server with the same limits, one on each processor, with two processes
that never sleep on the client's or on the server's. Where a point reached less than its rate in simulated time, this
machine held it, and its processors are a right name as well. Live pages end with their probes.
"""

from __future__ import annotations

import math
import os
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Literal, Protocol

from bench.limits import held_out, kinds
from bench.limits.case import HELD_OUT, KINDS, Case, Kind, Load, logarithmic, service
from bench.limits.examine import CONFIDENT, GENERAL, HELD_UP, Machine, final_name, hogs, judged_name, stub
from bench.limits.simulated import ADDRESS, IDLE_SHARE, on_own_files, planned, simulated
from iocurve.analysis.limits import Known, verdicts_of
from iocurve.analysis.observations import observations
from iocurve.engine.plan import Plan
from iocurve.foundation.units import SECOND_NS
from iocurve.measure import local, variations
from iocurve.measure.confirm import RUNTIME_NS, confirmation_of
from iocurve.measure.scenario import runner
from iocurve.measure.why import diagnose
from iocurve.model.fit import TargetPart, explained
from iocurve.result import host
from iocurve.result.document import Limit, Point, Probe, Result, TargetFacts

assert kinds
assert held_out  # their definition registers them
FACTS = TargetFacts(kind="nfs", address=ADDRESS)
RELAXED = 1.25
BINDS, BINDS_AS_WELL = 0.4, 0.5
"""The limit of a point gives at least this part of its relaxation, and of what the first gives."""
NAMED_SHARE = 0.5
"""A page is right if its limit is named at this share of the points that the limit holds."""
LOOKED_AT_SEED = 43
MIXES, DEPTHS, CONNECTIONS = (100, 75, 50, 25, 0), (1, 8, 64), (1, 8)
LOADS = {
    **{f"random-4k {percent}": Load(32, 4, 1, percent, 2, 0.5, 0.1) for percent in MIXES},
    **{f"sequential-64k {percent}": Load(8, 64, 1, percent, 2, 0.5, 0.1, 256, "random = false") for percent in MIXES},
    **{
        f"random-4k nconnect {count} depth {depth}": Load(depth, 4, count, 100, 1, 0.5, 0.1)
        for count in CONNECTIONS
        for depth in DEPTHS
    },
}
"""The points of a short envelope, in order."""
_OF_THE_LOAD = {"rate of the load", "rates of two jobs", "think time"}

Limits = tuple[str, ...]
Draw = Callable[[random.Random], Limits]


def _delay(draw: random.Random) -> str:
    return f"delay,service={service(draw, 150, 1500)[0]}"


def _iops(draw: random.Random, of: str = "a", times: float = 1) -> str:
    burst = logarithmic(draw, 1, 60)
    return f"bucket,of={of},rate={logarithmic(draw, 800, 8000) * times:.0f},burst={burst:.0f}"


def _bytes(draw: random.Random, of: str = "a") -> str:
    return (
        f"bucket,unit=b,of={of},rate={logarithmic(draw, 15, 120) * 2**20:.0f},burst={draw.choice((1, 4, 16)) * 65536}"
    )


def _near(draw: random.Random) -> Limits:
    rate, block_kib = logarithmic(draw, 800, 4000), draw.choice((4, 64))
    of_bytes = rate * block_kib * 1024 * draw.uniform(0.85, 1.15)
    return _delay(draw), f"bucket,rate={rate},burst=10", f"bucket,unit=b,rate={of_bytes:.0f},burst=262144"


def _credits(draw: random.Random) -> Limits:
    base = logarithmic(draw, 500, 2000)
    burst_rate = base * draw.uniform(2, 4)
    spent = (burst_rate - base) * draw.uniform(1, 6)
    return _delay(draw), f"bucket,rate={base},burst={spent:.0f}", f"bucket,rate={burst_rate:.0f},burst=20"


def _changes(draw: random.Random) -> Limits:
    rate = logarithmic(draw, 800, 5000)
    after, factor = rate * draw.uniform(2, 7), draw.choice((draw.uniform(0.4, 0.7), draw.uniform(1.5, 2.5)))
    return _delay(draw), f"bucket,rate={rate},burst=10,after={after:.0f},factor={factor:.2f}"


def _neighbour(draw: random.Random) -> Limits:
    share, period_ms = draw.uniform(0.3, 0.8), logarithmic(draw, 500, 4000)
    return _delay(draw), f"shared,rate={logarithmic(draw, 800, 6000)},share={share:.2f},period_ms={period_ms:.0f}"


def _cold(draw: random.Random) -> Limits:
    return (
        f"cache,service=constant:{logarithmic(draw, 1000, 5000)}",
        f"delay,service=exponential:{draw.uniform(100, 400):.0f}",
    )


def _stations(draw: random.Random) -> str:
    count, per_s = draw.randint(2, 8), logarithmic(draw, 1500, 8000)
    return f"stations,count={count},service={service(draw, count / per_s * 1e6, count / per_s * 1.01e6, 'cel')[0]}"


def _of_kind(kind: Kind, draw: random.Random) -> Limits:
    return kind.draw(draw).limits


FAMILIES: dict[str, Draw] = {
    "page: caps on reads and on writes": lambda draw: (_delay(draw), _iops(draw, "r"), _iops(draw, "w")),
    "page: byte caps on reads and on writes": lambda draw: (_delay(draw), _bytes(draw, "r"), _bytes(draw, "w")),
    "page: a cap on reads below one on all": lambda draw: (_delay(draw), _iops(draw, "r"), _iops(draw, "a", 2)),
    "page: a byte cap on writes below one on all": lambda draw: (_delay(draw), _bytes(draw, "w"), _bytes(draw)),
    "page: two limits within 15 %": _near,
    "page: caps on operations and on bytes": lambda draw: (_delay(draw), _iops(draw), _bytes(draw)),
    "page: credits spent during the page": _credits,
    "page: a cap that changes during the page": _changes,
    "page: another client that comes and goes": _neighbour,
    "page: windows of 0.25 to 1 s": lambda draw: (
        _delay(draw),
        f"window,rate={logarithmic(draw, 800, 6000)},period_ms={draw.uniform(250, 1000):.0f}",
    ),
    "page: a cold cache": _cold,
    "page: stations and a byte cap": lambda draw: (_stations(draw), _bytes(draw)),
    "page: slots of a connection and a cap": lambda draw: (
        f"in_flight,per=c,count={draw.choice((4, 8, 16))}",
        _delay(draw),
        _iops(draw, "a", 2),
    ),
    "page: latency alone": lambda draw: (_delay(draw),),
    **{name: partial(_of_kind, kind) for name, kind in {**KINDS, **HELD_OUT}.items() if name not in _OF_THE_LOAD},
}


@cache
def looked_at() -> frozenset[str]:
    """The families that rules were set on, half of them; the others are only scored."""
    return frozenset(random.Random(LOOKED_AT_SEED).sample(sorted(FAMILIES), len(FAMILIES) // 2))


# ---- the truth


def names_of(limit: str, block_kib: int) -> frozenset[str]:
    """The names that are right for a part of a server that holds a point down; none for a part that has no name."""
    policy, _, rest = limit.partition(",")
    keys = dict(word.split("=") for word in rest.split(","))
    if policy in ("stations", "batches") or (policy == "in_flight" and "per" not in keys):
        return frozenset({"server_parallelism", *(["volume_throughput"] if "us_per_kib" in keys else [])})
    if policy == "in_flight":
        return frozenset({"connection_requests", "connection_iops"})
    if "rate" not in keys:
        return frozenset()
    of = {"r": "read_", "w": "write_"}.get(keys.get("of", ""), "")
    is_bytes = keys.get("unit") == "b"
    if keys.get("per") == "c":
        return frozenset({"connection_throughput"} if is_bytes else {"connection_iops", "connection_requests"})
    found = {f"volume_{of}{'throughput' if is_bytes else 'iops'}"}
    if float(keys.get("unit_bytes", math.inf)) < 1024 * block_kib:
        found.add(f"volume_{of}throughput")
    if keys.get("per") == "a":
        found |= {"client_read", "client_egress"} if is_bytes else {"client_iops"}
    if float(keys.get("burst", 0)) > float(keys["rate"]) / 2 or "factor" in keys:
        found |= {"burst_credits", "burst_iops"}
    return frozenset(found)


def _relaxed(limit: str) -> tuple[str, float] | None:
    """A limit with more of what it gives, and how much more; None for a part without a capacity."""
    if found := re.search(r"rate=([\d.]+)", limit):
        return limit.replace(found[0], f"rate={RELAXED * float(found[1]):.1f}"), RELAXED
    if found := re.search(r"count=(\d+)", limit):
        more = max(int(found[1]) + 1, round(RELAXED * int(found[1])))
        return limit.replace(found[0], f"count={more}"), more / int(found[1])
    return None


def _rates(limits: Limits, seed: int, times: int = 1) -> list[float]:
    """The rate of each point of a page."""
    with simulated(Case(limits, (), frozenset()), seed, beside_hogs=False) as server:
        return [server.rate(planned(replace(load, depth=times * load.depth), seed)) for load in LOADS.values()]


def truths(limits: Limits, seed: int) -> list[frozenset[str]]:
    """The names that are right for each point; none where nothing was clearly the limit."""
    base = _rates(limits, seed)
    gains: dict[str, list[float]] = {"depth": _gains(base, _rates(limits, seed, 2), 2)}
    for at, limit in enumerate(limits):
        if relaxed := _relaxed(limit):
            more, factor = relaxed
            gains[limit] = _gains(base, _rates((*limits[:at], more, *limits[at + 1 :]), seed), factor)
    return [
        binding_names({part: each[at] for part, each in gains.items()}, load) for at, load in enumerate(LOADS.values())
    ]


def _gains(base: Sequence[float], more: Sequence[float], factor: float) -> list[float]:
    """Growth of each rate as a part of the factor, in logarithms."""
    return [math.log(max(1, high) / max(1, low)) / math.log(factor) for low, high in zip(base, more, strict=True)]


def binding_names(gains: dict[str, float], load: Load) -> frozenset[str]:
    """The names that are right, by what each part gives a point; none where nothing clearly holds it down."""
    most = max(gains.values())
    if most < BINDS:
        return frozenset()
    names = [
        frozenset({"depth"}) if part == "depth" else names_of(part, load.block_kib)
        for part, gain in gains.items()
        if gain >= BINDS_AS_WELL * most
    ]
    return frozenset().union(*names) if all(names) else frozenset()


# ---- pages


class Server(Protocol):
    """The target of a page."""

    port: int

    @property
    def clock_s(self) -> float:
        """Time now."""

    def run(self, plan: Plan) -> Point:
        """Runs a plan."""


def measured(server: Server, seed: int) -> Result:
    """A page without its probes."""
    points = []
    for name, load in LOADS.items():
        point = server.run(planned(load, seed, server.port))
        points.append(point.replace(name=name, family=name.rpartition(" ")[0]))
    return Result.start("run", "page", host.collect(), FACTS, None).replace(points=tuple(points))


def probed(result: Result, server: Server) -> Result:
    """The page with the probes of a short envelope."""
    tried: list[str] = []
    known: Known = {}
    plans = {point.name: on_own_files(point.plan) for point in result.points}
    until_s = server.clock_s + runner.probe_short_s(result)
    while len(tried) < runner.PROBES_MAX and (point := runner.next_probe(result, tried, plans.get, known)):
        left_s = until_s - server.clock_s
        if left_s < runner.PROBE_LEAST_S:
            break
        tried.append(point.name)
        limit, base = diagnose(
            plans[point.name], FACTS, server.run, min(left_s, runner.PROBE_PATIENCE_S), lambda: server.clock_s
        )
        probe = Probe(point=point.name, limit=limit, iops=base.summary().iops, elapsed_ns=SECOND_NS)
        result = result.replace(perturbation_tests=(*result.perturbation_tests, probe))
    return result


def examined(name: str, seed: int) -> dict[str, Any]:
    """The record of a page in simulated time: the judgement on its points, with probes and after ``why --confirm``."""
    limits, machine = _drawn(name, seed), Machine()
    right = truths(limits, seed)
    with simulated(Case(limits, (), frozenset()), seed, beside_hogs=False) as server:
        bare = measured(server, seed)
        found = _judged(bare, right, server)
    return {**machine.facts(), **_of_family(name, seed, limits), **found}


def _drawn(name: str, seed: int) -> Limits:
    return FAMILIES[name](random.Random(f"{name} {seed}"))


def _of_family(name: str, seed: int, limits: Limits) -> dict[str, Any]:
    return {"kind": name, "seed": seed, "limits": limits, "scored": name not in looked_at()}


def _judged(bare: Result, right: Sequence[frozenset[str]], server: Server, *, confirms: bool = True) -> dict[str, Any]:
    """The judgement on a page, on the same with probes, and on its fastest point after ``why --confirm``."""
    result = probed(bare, server)
    verdicts = verdicts_of(result)
    fastest = max(range(len(verdicts)), key=lambda at: result.points[at].summary().iops)
    confirmed = _confirmed(result.points[fastest], verdicts[fastest], server) if confirms else {"final": None}
    return {
        "points": list(LOADS),
        "right": [sorted(one) for one in right],
        "bare": judged_page(verdicts_of(bare), right),
        "judged": judged_page(verdicts, right),
        "names": [_name(one) in true for one, true in zip(verdicts, right, strict=True) if _name(one) and true],
        "weights": _weights(bare, right),
        "named": [[one.code, one.confidence] if one else None for one in verdicts],
        "confirmed": (
            judged_name(right[fastest], confirmed["final"], IDLE_SHARE) if confirms and right[fastest] else "void"
        ),
        "fastest": fastest,
        **confirmed,
    }


# ---- live pages

Party = Literal["client", "server"]
HOGS = 2
HELD_SHARE = 0.9
"""A point that reached less than this part of its rate in simulated time was held by this machine."""


@dataclass
class Live:
    """The stub server, loaded by iocurve's engine."""

    port: int

    @property
    def clock_s(self) -> float:
        """Time now."""
        return time.monotonic()

    def run(self, plan: Plan) -> Point:
        """Runs a plan."""
        return local.measure(plan)[0]


def examined_live(busy: Party, name: str, seed: int) -> dict[str, Any]:
    """The record of a page in real time, next to busy processes."""
    limits, machine = _drawn(name, seed), Machine()
    rates, right = _rates(limits, seed), truths(limits, seed)
    first, *_, last = sorted(os.sched_getaffinity(0))
    with _on(last if busy == "server" else first), hogs(HOGS), _on(last), stub(limits, seed) as server, _on(first):
        live = Live(server.port)
        bare = measured(live, seed)
        shares = [point.summary().iops / max(1, rate) for point, rate in zip(bare.points, rates, strict=True)]
        right = [
            true | frozenset(HELD_UP) if true and share < HELD_SHARE else true
            for true, share in zip(right, shares, strict=True)
        ]
        found = _judged(bare, right, live, confirms=False)
    return {**machine.facts(), **_of_family(name, seed, limits), **found, "shares": [round(one, 3) for one in shares]}


LIVE = {f"live-pages-busy-{busy}": partial(examined_live, busy) for busy in ("client", "server")}


@contextmanager
def _on(processor: int) -> Iterator[None]:
    """Keeps this process, and the processes that it starts meanwhile, on one processor."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {processor})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


# ---- judgements


def _weights(page: Result, right: Sequence[frozenset[str]]) -> list[tuple[float, bool]]:
    """The weight of the first part of each point that profiles explain, and whether the part holds the point down."""
    true = {id(point): names for point, names in zip(page.points, right, strict=True) if names}
    found = observations(page.points, FACTS)
    pairs = zip(found, explained(found).shares, strict=True) if found else ()
    firsts = [(one, max(share, key=lambda part: share[part]), share) for one, share in pairs if id(one.point) in true]
    return [(share[part], bool(_names(part) & true[id(one.point)])) for one, part, share in firsts if part]


def _names(part: TargetPart) -> frozenset[str]:
    """The names of a part; equal IOPS are a limit's or the server's, which weights do not tell apart."""
    if part.quantity == "in_flight":
        return frozenset({"depth"})
    if part.quantity == "time" or part.scope == "file":
        return frozenset({"server_parallelism", "volume_throughput", "volume_iops"})
    unit = "throughput" if part.quantity == "bytes_per_s" else "iops"
    if part.scope == "connection":
        return frozenset({f"connection_{unit}", "connection_requests"})
    of = "" if part.kind == "any" else f"{part.kind}_"
    return frozenset({f"volume_{of}{unit}", "server_parallelism"} if unit == "iops" else {f"volume_{of}{unit}"})


def _confirmed(point: Point, verdict: Limit | None, server: Server) -> dict[str, Any]:
    plan: Plan = variations.shortened(on_own_files(point.plan), RUNTIME_NS)
    found = confirmation_of(plan, FACTS, server.run, verdict, lambda: server.clock_s)
    again = found.verdict.to_builtins() if found.verdict else None
    alone = verdict.to_builtins() if verdict else {}
    final = final_name({**alone, "outcome": found.outcome, "verdict_now": again})
    return {"final": final, "outcome": found.outcome, "evidence": list(found.evidence)}


def judged_page(verdicts: Sequence[Limit | None], right: Sequence[frozenset[str]]) -> str:
    """A page is false if a sure name is; right if the limit of most points is named for at least half of them."""
    pairs = list(zip(verdicts, right, strict=True))
    names = [(_name(verdict), true) for verdict, true in pairs if true]
    if any(name not in true for name, true in names if name):
        return "false"
    held = [(name, true) for name, true in names if "depth" not in true] or names
    if not held:
        return "void"
    return "right" if sum(name is not None for name, _ in held) >= NAMED_SHARE * len(held) else "undecided"


def _name(verdict: Limit | None) -> str | None:
    is_sure = verdict is not None and verdict.confidence in CONFIDENT and verdict.code not in GENERAL
    return verdict.code if verdict is not None and is_sure else None
