"""Runs on targets that say nothing, drawn at random by seed, for verdicts that compare the points of a run.

A target has a latency for each kind of operation and size, and none, one or two limits of any scope and quantity, whose
values are drawn far below and far above what the loads ask for; limits may be hard or soft. Loads are those of an
envelope or drawn at random. Rates vary between intervals and, unseen by them, between points; some points are held up.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from iocurve.analysis.observations import ObservedPoint, relative_error
from iocurve.analysis.run_limits import limits_shown
from iocurve.engine.outcome import Outcome
from iocurve.engine.plan import Plan
from iocurve.foundation.units import GIB, KIB, MICROSECOND_NS, MILLISECOND_NS, SECOND_NS
from iocurve.result.document import Limit, Point, TargetFacts

SILENT = TargetFacts(kind="nfs", address="nfs://drawn/at-random")
INTERVALS, TURNS = 5, 6
SEEN = 0.5
SURE = ("certain", "likely")
BINDS = {"depth": 1.1}
BINDS_ELSE = 1.02
"""A limit within this factor of the lowest binds as well."""
GROWTH = 1.3
"""The depth is the limit if twice of it gives this much; the promise is 1.4 times, or 1.2 times where it is not."""


@dataclass(frozen=True)
class Load:
    """A closed loop."""

    block_bytes: int
    read_share: float
    depth: int
    workers: int
    connections: int
    in_turns: bool = False


@dataclass(frozen=True)
class Bound:
    """One thing that bounds the rate of a load."""

    code: str
    """The verdict that names it."""
    iops: Callable[[Load], float]


@dataclass(frozen=True)
class Drawn:
    """A target."""

    bounds: tuple[Bound, ...]
    sharpness: float
    """The norm in which bounds combine: infinite for a hard limit, 1 for the softest."""
    noise: float
    """Relative standard deviation of intervals."""
    hidden_noise: float
    """Relative standard deviation between points, which their intervals do not show."""
    held_up: float
    """Share of runs that are held up, half of which is seen; each turn is a run."""
    limits: tuple[str, ...] = field(default=())

    def iops(self, load: Load) -> float:
        """The rate of a load without noise."""
        rates = [bound.iops(load) for bound in self.bounds]
        lowest = min(rates)
        if math.isinf(self.sharpness):
            return lowest
        together = math.fsum(math.pow(lowest / rate, self.sharpness) for rate in rates)
        return lowest / math.pow(together, 1 / self.sharpness)

    def binding(self, load: Load) -> set[str]:
        """The verdicts that are right."""
        rates = [(bound.code, bound.iops(load)) for bound in self.bounds]
        lowest = min(rate for _, rate in rates)
        found = {code for code, rate in rates if rate <= BINDS.get(code, BINDS_ELSE) * lowest}
        growth = self.iops(replace(load, depth=2 * load.depth)) / self.iops(load)
        return found | ({"depth"} if growth >= GROWTH else {"saturated"} if growth <= GROWTH else set())


def drawn(chance: random.Random, count: int, kind: Literal["hard", "soft"]) -> Drawn:
    """A target with a number of limits apart from the depth and the server's speed."""
    latency = _latency(chance)
    scale = chance.choice(_envelope(chance.random() < 0.5))
    limits = [_limit(chance, scale, latency) for _ in range(count)]
    return Drawn(
        bounds=(Bound("depth", lambda load: load.depth / latency(load)), *limits),
        sharpness=math.inf if kind == "hard" else math.exp(chance.uniform(0, math.log(12))),
        noise=math.exp(chance.uniform(math.log(0.0005), math.log(0.06))),
        hidden_noise=chance.choice((0.0, 0.002, 0.01, 0.03)),
        held_up=chance.choice((0.0, 0.02, 0.1)),
        limits=tuple(bound.code for bound in limits),
    )


def _log(chance: random.Random, low: float, high: float) -> float:
    return math.exp(chance.uniform(math.log(low), math.log(high)))


def _latency(chance: random.Random) -> Callable[[Load], float]:
    """Seconds of an operation on an idle target."""
    read_ns = _log(chance, 30 * MICROSECOND_NS, 8 * MILLISECOND_NS)
    write_ns = read_ns * chance.choice((1.0, _log(chance, 0.3, 4)))
    stream = _log(chance, GIB / 64, 8 * GIB)

    def seconds(load: Load) -> float:
        mean_ns = load.read_share * read_ns + (1 - load.read_share) * write_ns
        return mean_ns / SECOND_NS + load.block_bytes / stream

    return seconds


def _limit(chance: random.Random, scale: Load, latency: Callable[[Load], float]) -> Bound:
    """A limit around the rate that one load would have without."""
    rate = scale.depth / latency(scale) * _log(chance, 0.02, 4)
    what = chance.choice(("throughput", "iops", "server", "connection_throughput", "connection_iops", "slots"))
    kind = chance.choice(("", "", "read_", "write_"))
    if what == "server":
        service_bytes = chance.choice((GIB, _log(chance, 4 * KIB, GIB)))
        return Bound("server_parallelism", lambda load: rate / (1 + load.block_bytes / service_bytes))
    if what == "slots":
        slots = chance.choice((1, 2, 4, 8, 16))
        return Bound("connection_requests", lambda load: slots * load.connections / latency(load))
    if what.startswith("connection"):
        each = rate / scale.connections * (scale.block_bytes if what.endswith("throughput") else 1)
        if what == "connection_iops":
            return Bound("connection_requests", lambda load: each * load.connections)
        return Bound(what, lambda load: each * load.connections / load.block_bytes)
    return Bound(f"volume_{kind}{what}", _cap(kind, rate, scale.block_bytes if what == "throughput" else 0))


def _cap(kind: str, rate: float, block_bytes: int) -> Callable[[Load], float]:
    def iops(load: Load) -> float:
        share = {"": 1.0, "read_": load.read_share, "write_": 1 - load.read_share}[kind]
        each = rate * block_bytes / load.block_bytes if block_bytes else rate
        return each / share if share else math.inf

    return iops


# ---- loads


def _envelope(is_quick: bool) -> list[Load]:
    """The loads of the envelope of a plain NFS URL."""
    mixes = [
        Load(size, read_percent / 100, 2 * depth, 2, 2)
        for size, depth in ((4 * KIB, 32), (64 * KIB, 8))
        for read_percent in (100, 75, 50, 25, 0)
    ]
    depths = (1, 8, 64) if is_quick else (1, 4, 16, 64, 256)
    return mixes + [Load(4 * KIB, 1.0, depth, 1, n, in_turns=True) for n in (1, 8) for depth in depths]


def _any_loads(chance: random.Random) -> list[Load]:
    sizes = chance.sample([KIB * 2**power for power in range(2, 11)], chance.choice((1, 2, 3)))
    depths = chance.sample([2**power for power in range(9)], chance.choice((1, 2, 3)))
    mixes = chance.choice(((1.0,), (0.0,), (1.0, 0.0), (1.0, 0.7, 0.0), (1.0, 0.5)))
    numbers = chance.choice(((1,), (4,), (1, 4)))
    return [Load(size, mix, depth, 1, n) for size in sizes for mix in mixes for n in numbers for depth in depths]


def observed(target: Drawn, loads: Sequence[Load], chance: random.Random) -> list[tuple[Load, ObservedPoint]]:
    """The points of a run that can be compared."""
    return [(load, one) for load in loads if (one := _observed(target, load, chance))]


def _observed(target: Drawn, load: Load, chance: random.Random) -> ObservedPoint | None:
    level = target.iops(load) * math.exp(chance.gauss(0, target.hidden_noise))
    held_up = [_held_up(target, chance) for _ in range(TURNS if load.in_turns else 1)]
    factors = held_up if load.in_turns else held_up * INTERVALS
    rates = [level * factor * math.exp(chance.gauss(0, target.noise)) for factor in factors]
    error = relative_error(rates if load.in_turns else [], rates)
    if error is None:
        return None
    mean = math.fsum(rates) / len(rates)
    operations = max(1, round(mean / 2))
    drawn_share = chance.gauss(load.read_share, math.sqrt(load.read_share * (1 - load.read_share) / operations))
    return ObservedPoint(
        point=Point(name="drawn", family="drawn", axes={}, plan=_PLAN, outcome=_OUTCOME),
        block_bytes=load.block_bytes,
        mix=load.read_share,
        read_share=min(1.0, max(0.0, drawn_share)),
        order="100",
        depth=load.depth,
        workers=load.workers,
        files=load.workers,
        connections=load.connections,
        iops=mean,
        error=error,
        operations=operations,
        latency_ns=load.depth / mean * SECOND_NS,
        is_held_up=min(held_up) < 1 and chance.random() < SEEN,
    )


def _held_up(target: Drawn, chance: random.Random) -> float:
    return chance.uniform(0.4, 1) if chance.random() < target.held_up else 1.0


_PLAN = Plan(name="drawn", interval_ns=SECOND_NS, groups=())
_OUTCOME = Outcome(state="finished", workers=())


# ---- counts


@dataclass(frozen=True)
class Judged:
    """A verdict on a point, and what is right."""

    target: Drawn
    load: Load
    limit: Limit | None
    """None where the points show nothing together."""
    right: frozenset[str]

    @property
    def outcome(self) -> str:
        """``right``, ``wrong``, or ``open`` where nothing is claimed."""
        if self.limit is None or self.limit.confidence not in SURE:
            return "open"
        return "right" if self.limit.code in self.right else "wrong"


def run(seed: str, count: int, kind: Literal["hard", "soft"]) -> Iterator[Judged]:
    """The verdicts on the points of one run."""
    chance = random.Random(f"{seed} {count} {kind}")
    target = drawn(chance, count, kind)
    loads = _envelope(chance.random() < 0.5) if chance.random() < 0.6 else _any_loads(chance)
    points = observed(target, loads, chance)
    found = limits_shown([one for _, one in points], SILENT)
    is_one_kind = len({load.read_share for load, _ in points}) == 1
    for load, one in points:
        right = target.binding(load)
        # If only reads were measured, a limit on all operations cannot be told from one on reads.
        alike = {code.replace(f"_{of}_", "_") for code in right for of in ("read", "write")} if is_one_kind else set()
        yield Judged(target, load, found.get(id(one.point)), frozenset(right | alike))


def counts(count: int, kind: Literal["hard", "soft"], seeds: range) -> Counter[str]:
    """Verdicts and runs by their outcome: a run is wrong if any of its verdicts is."""
    total: Counter[str] = Counter()
    for seed in seeds:
        outcomes = [one.outcome for one in run(str(seed), count, kind)]
        total.update(outcomes)
        total["runs"] += 1
        total["wrong runs"] += "wrong" in outcomes
    return total


ALL_SEEDS = range(130)
"""Of each number of limits, hard and soft: 1,040 runs, in a minute of a processor."""
FORMS: tuple[Literal["hard", "soft"], ...] = ("hard", "soft")


def main() -> None:
    """Prints the counts of all runs, by the number of limits and their form."""
    for form in FORMS:
        for limits in range(4):
            found = counts(limits, form, ALL_SEEDS)
            named = found["right"] + found["wrong"]
            print(f"{form} {limits}: {named:,} named of {named + found['open']:,}, wrong {found['wrong'] / named:.2%}")


if __name__ == "__main__":
    main()
