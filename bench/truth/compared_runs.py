"""Simulated results whose true difference is known, for ``iocurve compare`` and ``iocurve ab``.

A run is a closed loop of some intervals. Each interval has a level, correlated with its neighbours, which slows all of
its operations; single latencies are lognormal about that level, and some intervals stall: as many operations as are in
flight then take far longer. The rate of an interval is the depth divided by its mean latency.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.truth import series
from bench.truth.simulated import ORDERS, TurnNoise
from iocurve._native import Histogram
from iocurve.analysis.compare import Comparison, compare, compare_turns
from iocurve.engine.outcome import (
    CpuTime,
    IntervalKind,
    IntervalOutcome,
    KindOutcome,
    LatencyOutcome,
    Outcome,
    WorkerOutcome,
)
from iocurve.engine.plan import (
    Access,
    End,
    FilePlan,
    FixedBlocks,
    Group,
    NullEngine,
    OperationPlan,
    Payload,
    Plan,
    RandomContent,
    Worker,
)
from iocurve.foundation.units import KIB, MILLISECOND_NS, SECOND_NS
from iocurve.measure.ab import RUNS_MAX, RUNS_MIN, enough_runs
from iocurve.measure.campaign import turn_places
from iocurve.result.document import HostFacts, Point, Result, TargetFacts, Turn
from iocurve.result.paired import Verdict

BLOCK_BYTES = 4 * KIB
INTERVAL_OPERATIONS = 300
DIFFERENT: tuple[Verdict, ...] = ("faster", "slower")


@dataclass(frozen=True)
class Load:
    """A load and the noise that it meets."""

    name: str
    depth: int
    latency_ns: float
    """Mean at level 1, without stalls."""
    shape: float
    """Standard deviation of the logarithm of single latencies."""
    correlation: float
    """Correlation of the levels of neighbouring intervals."""
    deviation: float
    """Standard deviation of the logarithm of the levels."""
    stalls: float = 0.0
    """Share of the intervals that stall."""
    stall: float = 20.0
    """Latency in a stall, relative to the mean."""

    @classmethod
    def drawn(cls, chance: np.random.Generator, name: str, correlation: float, *, stalls: bool) -> Load:
        """A load of any depth and latency; intervals vary by 0.5 to 8 %."""
        return cls(
            name,
            int(2 ** chance.integers(0, 7)),
            float(np.exp(chance.uniform(math.log(5e4), math.log(5e6)))),
            float(chance.uniform(0.05, 1.0)),
            correlation,
            series.spread(chance),
            float(chance.uniform(0.02, 0.3)) if stalls else 0.0,
            float(chance.uniform(3, 50)),
        )


def point(load: Load, count: int, speed: float, chance: np.random.Generator) -> Point:
    """One run of a load, with everything ``speed`` times as fast."""
    levels = np.exp(load.deviation * series.correlated(chance, count, load.correlation)) * load.latency_ns / speed
    histogram, intervals, all_latencies = Histogram(), [], []
    # The clock of a simulated interval gives it the same number of operations, whatever the latency of the load is.
    length_ns = round(INTERVAL_OPERATIONS * load.latency_ns / load.depth)
    for index, level in enumerate(levels):
        is_stalled = chance.random() < load.stalls
        stalled_ns = load.stall * level if is_stalled else 0.0
        mean_ns = (INTERVAL_OPERATIONS * level + load.depth * stalled_ns) / INTERVAL_OPERATIONS
        number = max(1, round(length_ns * load.depth / mean_ns))
        latencies = level * np.exp(load.shape * chance.standard_normal(number) - load.shape**2 / 2)
        latencies[: load.depth] += stalled_ns
        latencies = np.maximum(1, latencies.astype(np.int64))
        all_latencies.append(latencies)
        for latency in latencies.tolist():
            histogram.record(latency)
        intervals.append(
            IntervalOutcome(
                index=index,
                ramp=False,
                start_ns=index * length_ns,
                end_ns=(index + 1) * length_ns,
                operations={"read": _interval(latencies)},
            )
        )
    return _point(load, intervals, np.concatenate(all_latencies), histogram)


def _interval(latencies: np.ndarray) -> IntervalKind:
    return IntervalKind(
        operations=len(latencies),
        bytes=len(latencies) * BLOCK_BYTES,
        errors=0,
        mean_ns=float(latencies.mean()),
        stddev_ns=float(latencies.std()),
        p50_ns=int(np.percentile(latencies, 50)),
        p99_ns=int(np.percentile(latencies, 99)),
        min_ns=int(latencies.min()),
        max_ns=int(latencies.max()),
    )


def _point(load: Load, intervals: Sequence[IntervalOutcome], latencies: np.ndarray, histogram: Histogram) -> Point:
    service = LatencyOutcome(
        count=len(latencies),
        min_ns=int(latencies.min()),
        max_ns=int(latencies.max()),
        mean_ns=float(latencies.mean()),
        stddev_ns=float(latencies.std()),
        histogram=histogram.encode(),
    )
    kind = KindOutcome(
        operations=len(latencies),
        bytes=len(latencies) * BLOCK_BYTES,
        errors=0,
        short=0,
        service=service,
        response=None,
        submission=None,
        completion=None,
    )
    worker = WorkerOutcome(
        group=0,
        worker=0,
        job=load.name,
        jobnum=0,
        report_group=0,
        engine="simulated",
        state="finished",
        error=None,
        window_start_ns=0,
        window_end_ns=intervals[-1].end_ns,
        drained_ns=intervals[-1].end_ns,
        drained_operations=0,
        operations={"read": kind},
        cpu=CpuTime(user_ns=len(latencies) * 1000, system_ns=0, context_switches=0),
        depth_levels={},
        latency_depth=None,
        read_back_ns=0,
        reconnects=0,
        labels=(),
        intervals=tuple(intervals),
        steady_state=None,
        log=None,
    )
    outcome = Outcome(state="finished", workers=(worker,))
    return Point(name=load.name, family="simulated", axes={}, plan=_plan(load.depth), outcome=outcome)


def _plan(depth: int) -> Plan:
    blocks = FixedBlocks(bytes=BLOCK_BYTES)
    worker = Worker(
        job="simulated",
        jobnum=0,
        report_group=0,
        engine=NullEngine(),
        files=(FilePlan(path="simulated", offset_bytes=0, bytes=1 << 30, layout="nothing", keep=True),),
        file_select="round_robin",
        operations=(OperationPlan(kind="read", share=1, blocks=blocks, random_percent=100, rate=None),),
        access=Access(cover="independent", passes="same"),
        depth=depth,
        start_delay_ns=0,
        ramp_ns=0,
        end=End(runtime_ns=SECOND_NS, bytes=None, operations=None),
        seed=1,
        payload=Payload(content=RandomContent(), renew="scramble"),
    )
    return Plan(name="simulated", interval_ns=100 * MILLISECOND_NS, groups=(Group(workers=(worker,)),))


_HOST = HostFacts(
    hostname="simulated",
    cpu_model="simulated",
    cpus=1,
    memory_bytes=1 << 30,
    kernel="",
    distribution="",
    tcp_congestion_control=None,
    python="",
)


def result(points: Iterable[Point]) -> Result:
    """A finished result."""
    started = Result.start("simulated", "simulated", _HOST, TargetFacts(kind="null", address="null"), None)
    return started.replace(points=tuple(points)).ended("finished")


# ---- comparisons


@dataclass(frozen=True)
class Runs:
    """Two results to compare: single runs of some loads."""

    loads: int = 1
    intervals: int = 30
    correlation: float | None = 0.5
    """None: drawn from 0 to 0.9 for each load."""
    stalls: bool = False

    def compared(self, speed: float, seed: int) -> Comparison:
        """A run, compared with another that is ``speed`` times as fast."""
        chance = np.random.default_rng([seed, self.loads, self.intervals])
        loads = [
            Load.drawn(
                chance,
                f"load {number}",
                float(chance.uniform(0, 0.9)) if self.correlation is None else self.correlation,
                stalls=self.stalls,
            )
            for number in range(self.loads)
        ]
        base, other = (result(point(load, self.intervals, each, chance) for load in loads) for each in (1.0, speed))
        return compare(base, other)


@dataclass(frozen=True)
class Turns:
    """Two points that take turns as ``iocurve ab`` measures them; each figure of a turn has separate noise."""

    rounds: int | None = 5
    """None: the number that ``ab`` takes by their noise."""
    deviation: float | None = 0.03
    """Standard deviation of the logarithm of the figures of a turn; None: noise as ``TurnNoise.drawn`` gives it."""

    def compared(self, speed: float, seed: int) -> Comparison:
        """A point, compared with another that is ``speed`` times as fast."""
        chance = random.Random(f"{seed} {self}")
        places = turn_places(2, self.rounds or RUNS_MAX, str(seed % ORDERS))
        noise = TurnNoise.drawn(chance, "normal") if self.deviation is None else TurnNoise(deviation=self.deviation)
        drawn = [noise.rates(chance, len(places)) for _ in range(5)]
        turns: tuple[list[Turn], list[Turn]] = ([], [])
        for at, place in enumerate(places):
            own = speed if place.member else 1.0
            iops, *times = [series_of[at] for series_of in drawn]
            turns[place.member].append(_turn(place.round, place.order, 1000 * iops * own, [one / own for one in times]))
        for count in range(self.rounds or RUNS_MIN, RUNS_MAX):
            found = result([self._point(name, own[:count]) for name, own in zip("AB", turns, strict=True)])
            if self.rounds or enough_runs(found, count):
                return compare_turns(found)
        return compare_turns(result([self._point(name, own) for name, own in zip("AB", turns, strict=True)]))

    def _point(self, name: str, turns: Sequence[Turn]) -> Point:
        base = point(_PLAIN, 2, 1.0, np.random.default_rng(1))
        return base.replace(
            name=name,
            runs=tuple(sorted(turns, key=lambda turn: turn.repetition)),
            compared_with=("A", "B"),
            runs_chosen=self.rounds is None,
        )


_PLAIN = Load("plain", 1, 1e6, 0.1, 0.0, 0.01)


def _turn(number: int, order: int, iops: float, times: Sequence[float]) -> Turn:
    nanoseconds = [round(1e6 * one) for one in times[:3]]
    return Turn(
        repetition=number,
        order=order,
        state="finished",
        window_ns=SECOND_NS,
        operations=1000,
        iops=iops,
        bytes_per_s=iops * BLOCK_BYTES,
        mean_ns=times[0],
        p50_ns=nanoseconds[0],
        p99_ns=nanoseconds[1],
        p99_9_ns=nanoseconds[2],
        cpu_us_per_operation=times[3],
        seeds=(number,),
    )


@dataclass
class Counted:
    """Verdicts of many comparisons."""

    comparisons: int = 0
    different: int = 0
    """Comparisons with a difference."""
    verdicts: Counter[tuple[str, Verdict]] = field(default_factory=Counter)
    """By figure."""

    def share(self, name: str, *verdicts: Verdict) -> float:
        """Share of the differences of one figure with one of the verdicts."""
        total = sum(count for (one, _), count in self.verdicts.items() if one == name)
        return sum(self.verdicts[name, verdict] for verdict in verdicts) / total if total else math.nan


def counted(case: Runs | Turns, speed: float, runs: int, seed: int = 1) -> Counted:
    """Compares two results many times."""
    found = Counted()
    for run in range(runs):
        comparison = case.compared(speed, seed * 1_000_000 + run)
        found.comparisons += 1
        found.different += any(one.verdict in DIFFERENT for one in comparison.differences)
        found.verdicts.update((one.name, one.verdict) for one in comparison.differences)
    return found
