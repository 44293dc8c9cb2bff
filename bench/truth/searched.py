"""Searches for the knee on servers drawn at random, in simulated time: queues with heavy tails, windows, stalls.

A point of a search ends by the rule that ends it on a real target. The truth are long runs of the same server: at the
bounds of a depth that reaches a share of the capacity they tell whether the share is reached between them.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from bench.limits.case import Case, logarithmic
from bench.limits.simulated import Array, Server, simulated
from bench.truth.table import Row
from iocurve.foundation.units import SECOND_NS
from iocurve.measure.search import knee
from iocurve.measure.search.capacity import Range
from iocurve.measure.search.loads import FIRST_STOP, Effort, Stopping
from iocurve.result.stats import judged_mean

SEED = 43
DEPTH_MAX = 2048
EFFORT = Effort()
WORKERS = 2
LONG_OPERATIONS, LONG_S_MIN, LONG_S_MAX = 400_000, 30.0, 600.0
"""Length of the runs that tell the truth."""
BATCHES = 20
ERRORS = 2.0
"""Standard errors of a long run within which a figure counts as true."""
FIGURES = ("capacity", "knee", "90 %", "95 %", "99 %")
COLUMNS = ("servers", *FIGURES, "samples", "runs")


@dataclass(frozen=True)
class Drawn:
    """A server, and its capacity in operations per second."""

    limits: tuple[str, ...]
    capacity: float


Draw = Callable[[random.Random], Drawn]


def _delay(draw: random.Random) -> str:
    return f"delay,service=exponential:{logarithmic(draw, 150, 1500)}"


def _cap(draw: random.Random, policy: str) -> Drawn:
    rate = logarithmic(draw, 800, 8000)
    return Drawn((_delay(draw), policy.format(rate=rate)), rate)


def _queue(draw: random.Random, shape: str, *more: str) -> Drawn:
    """Servers with one queue, and a delay."""
    count, rate = draw.randint(1, 16), logarithmic(draw, 1000, 8000)
    mean_us = count / rate * 1e6
    if shape == "bimodal":
        share, factor = draw.uniform(0.01, 0.1), draw.uniform(5, 40)
        fast = mean_us / (1 - share + share * factor)
        times = f"bimodal:{fast:.2f}:{fast * factor:.2f}:{share:.4f}"
    elif shape == "lognormal":
        times = f"lognormal:{mean_us:.2f}:{draw.uniform(0.8, 1.6):.2f}"
    elif shape == "pareto":
        times = f"pareto:{mean_us:.2f}:{draw.uniform(2.1, 3):.2f}"
    else:
        times = f"exponential:{mean_us:.2f}"
    return Drawn((_delay(draw), f"stations,count={count},service={times}", *more), rate)


def _pauses(draw: random.Random, low_ms: float, high_ms: float) -> tuple[str, float]:
    """Stalls of the whole server, as every client sees them, and their share of the time."""
    period, share = logarithmic(draw, low_ms, high_ms), draw.uniform(0.05, 0.15)
    return f"pauses,period_ms={period},pause_ms={period * share:.1f}", share


def _stalling(draw: random.Random, low_ms: float, high_ms: float) -> Drawn:
    """A server that takes no operation meanwhile: it has its whole rate only where its queue outlasts a stall."""
    found = _queue(draw, "exponential")
    pause, _ = _pauses(draw, low_ms, high_ms)
    return Drawn((pause, *found.limits), found.capacity)


FAMILIES: dict[str, Draw] = {
    "stalls every 0.3 to 3 s": lambda draw: _stalling(draw, 300, 3000),
    "stalls every 60 to 300 ms": lambda draw: _stalling(draw, 60, 300),
    "a cap in sliding windows": lambda draw: _cap(
        draw, f"sliding,rate={{rate}},period_ms={logarithmic(draw, 20, 500)}"
    ),
    "a cap in windows of 20 to 250 ms": lambda draw: _cap(
        draw, f"window,rate={{rate}},period_ms={logarithmic(draw, 20, 250)}"
    ),
    "a cap behind a latency": lambda draw: _cap(draw, f"bucket,rate={{rate}},burst={draw.choice((1, 10, 100))}"),
    "M/M/c": lambda draw: _queue(draw, "exponential"),
    "M/G/c, lognormal": lambda draw: _queue(draw, "lognormal"),
    "M/G/c, two kinds": lambda draw: _queue(draw, "bimodal"),
    "M/G/c, Pareto": lambda draw: _queue(draw, "pareto"),
    "a cap in windows of 0.25 to 1 s": lambda draw: _cap(
        draw, f"window,rate={{rate}},period_ms={draw.uniform(250, 1000):.0f}"
    ),
}


class Measured:
    """Measures depths of a server, as a search does."""

    def __init__(self, server: Server) -> None:
        self.count = 0
        self._server = server
        self._long: dict[int, tuple[float, float, float]] = {}

    def __call__(self, in_flight: int) -> knee.Sample:
        self.count += 1
        ramp_ns, interval_ns = EFFORT.ramp_ns, EFFORT.interval_ns
        done = self._run(in_flight, ramp_ns + EFFORT.longest_ns)
        count = EFFORT.longest_ns // interval_ns
        places = (done[:, 4] - ramp_ns) // interval_ns
        inside = (places >= 0) & (places < count)
        rates = np.bincount(places[inside], minlength=count).tolist()
        sums = np.bincount(places[inside], (done[:, 4] - done[:, 3])[inside], count).tolist()
        stopping = Stopping(EFFORT.precision, max(FIRST_STOP, EFFORT.shortest_ns // interval_ns))
        ended = next((at for at in range(1, count + 1) if stopping.enough(rates[1:at])), count)
        per_s = SECOND_NS / interval_ns
        rate = judged_mean([one * per_s for one in rates[:ended]], stopping.first)
        latencies = [total / one for total, one in zip(sums[:ended], rates[:ended], strict=True) if one]
        latency = judged_mean(latencies, stopping.first)
        return knee.Sample(in_flight, rate, latency.moved(sum(sums[:ended]) / max(1, sum(rates[:ended]))))

    def long(self, in_flight: int) -> tuple[float, float, float]:
        """Rate of a long run, its standard error, and the mean latency in seconds."""
        if in_flight not in self._long:
            trial = self._run(in_flight, SECOND_NS)
            seconds = min(max(LONG_OPERATIONS / max(1, len(trial)), LONG_S_MIN), LONG_S_MAX)
            done = self._run(in_flight, round((1 + seconds) * SECOND_NS))
            done = done[(done[:, 4] >= SECOND_NS) & (done[:, 4] < (1 + seconds) * SECOND_NS)]
            places = ((done[:, 4] - SECOND_NS) * BATCHES // round(seconds * SECOND_NS)).astype(int)
            counts = np.bincount(places, minlength=BATCHES)[:BATCHES]
            error = float(counts.std(ddof=1) / math.sqrt(BATCHES) / max(1.0, counts.mean()))
            rate = len(done) / seconds
            latency_s = float((done[:, 4] - done[:, 3]).mean()) / SECOND_NS
            self._long[in_flight] = rate, error * rate, latency_s
        return self._long[in_flight]

    def reached(self, depth: float) -> tuple[float, float]:
        """The true rate at a depth, which need not be whole, and its standard error."""
        low = max(1, math.floor(depth))
        at_low = self.long(low)
        if low == depth or depth <= 1:
            return at_low[0] * min(1.0, depth), at_low[1]
        at_high, part = self.long(low + 1), depth - low
        return at_low[0] + part * (at_high[0] - at_low[0]), max(at_low[1], at_high[1])

    def _run(self, in_flight: int, end_ns: int) -> Array:
        workers = min(in_flight, WORKERS)
        depths = [in_flight // workers + (each < in_flight % workers) for each in range(workers)]
        lines = [f"worker {depth} 1 1 {each} 16777216 100 4096 0 0 0 1 {end_ns}\n" for each, depth in enumerate(depths)]
        done, _ = self._server.carried_out(lines)
        return done


@dataclass
class Counted:
    """The outcomes of the searches on one family."""

    runs: int = 0
    held: Counter[str] = field(default_factory=Counter)
    halves: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in FIGURES})
    """Half of each interval, relative to its figure."""
    samples: list[int] = field(default_factory=list)

    def add(self, found: knee.Knee, measured: Measured, drawn: Drawn) -> dict[str, str]:
        """Counts one search; returns what is said and true of the figures that are wrong."""
        self.runs += 1
        self.samples.append(measured.count)
        wrong = {}
        whole = found.capacity_iops
        ranges = {"capacity": whole, "knee": found.in_flight}
        ranges |= {_named(one): Range(one.in_flight, one.low or 0.0, one.high or math.inf) for one in found.shares}
        for name, one in ranges.items():
            self.halves[name].append((one.high - one.low) / 2 / one.mean)
        if not whole.low <= drawn.capacity <= whole.high:
            wrong["capacity"] = f"{whole.low:.0f} to {whole.high:.0f}, true {drawn.capacity:.0f}"
        true = drawn.capacity * measured.long(1)[2]
        slack = 1 + ERRORS * measured.long(1)[1] / measured.long(1)[0]
        if not found.in_flight.low / slack <= true <= found.in_flight.high * slack:
            wrong["knee"] = f"{found.in_flight.low:.2f} to {found.in_flight.high:.2f}, true {true:.2f}"
        for share in found.shares:
            if problem := self._missed(share, measured, share.share * drawn.capacity):
                wrong[_named(share)] = problem
        self.held.update(set(FIGURES) - wrong.keys())
        return wrong

    def cell(self, name: str) -> str:
        """The share of the searches whose interval has a figure, and the median of half of the interval."""
        half = median(self.halves[name])
        return f"{self.held[name] / self.runs:.0%}, " + (f"±{half:.1%}" if math.isfinite(half) else "no upper bound")

    @staticmethod
    def _missed(share: knee.ShareDepth, measured: Measured, wanted: float) -> str:
        low, error = measured.reached(share.low or 0.0)
        if low - ERRORS * error > wanted:
            return f"from {share.low:.1f}, where {low / wanted:.1%} of the share is reached"
        if share.high is None:
            return ""
        high, error = measured.reached(share.high)
        return (
            f"up to {share.high:.1f}, where {high / wanted:.1%} of the share is reached"
            if high + ERRORS * error < wanted
            else ""
        )


def _named(share: knee.ShareDepth) -> str:
    return f"{share.share:.0%}".replace("%", " %")


@contextmanager
def drawn_server(family: str, seed: int) -> Iterator[tuple[Drawn, Measured]]:
    """The server that a seed gives."""
    drawn = FAMILIES[family](random.Random(f"{SEED} {family} {seed}"))
    with simulated(Case(drawn.limits, (), frozenset()), seed, beside_hogs=False) as server:
        yield drawn, Measured(server)


def searched(family: str, runs: int, tell: Callable[[str], None] = lambda _: None) -> Counted:
    """Searches on servers of a family, drawn by seed."""
    counted = Counted()
    for seed in range(runs):
        with drawn_server(family, seed) as (drawn, measured):
            found = knee.find(measured, DEPTH_MAX)
            if wrong := counted.add(found, measured, drawn):
                tell(f"{family} {seed}: {drawn.limits}: {wrong}")
    return counted


def knees_drawn(scale: float) -> Iterator[Row]:
    """Counts how often each figure of a search is in its interval, and how wide that is, family by family."""
    runs = max(1, round(40 * scale))
    for family in FAMILIES:
        found = searched(family, runs)
        yield family, *map(found.cell, FIGURES), f"{np.mean(found.samples):.1f}", str(runs)
