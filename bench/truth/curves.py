"""Measures how often a search for the knee holds the truth, on families of curves whose parameters are drawn at random.

Each family is a law of throughput by queue depth from the literature of queueing networks, of scalability, or of
saturation in general. The rules of ``iocurve.measure.search.knee`` were designed on the first half of the families and
the other half verifies them. A new family is a function that draws a curve, and a line in ``FAMILIES``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from bench.truth.table import Row
from iocurve.measure.search import knee
from iocurve.result.stats import Estimate, ratio, series_mean

DEPTH_MAX = 4096
SEED = 23
VALUES = 30
"""Intervals of a point."""


@dataclass(frozen=True)
class Curve:
    """Operations per second by queue depth, whose truth is known."""

    rate: Callable[[float], float]
    capacity: float
    """Least upper bound of the rate over all depths."""
    peak: float = math.inf
    """Depth with the highest rate; the rate falls beyond it."""

    def depth(self, share: float) -> float:
        """The smallest depth that reaches a share of the capacity; infinite beyond any depth of interest."""
        low, high = 0.0, min(self.peak, 1e7)
        if self.rate(high) < share * self.capacity:
            return math.inf
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if self.rate(middle) >= share * self.capacity else (middle, high)
        return high


Draw = Callable[[random.Random], Curve]


def _log_uniform(chance: random.Random, low: float, high: float) -> float:
    return math.exp(chance.uniform(math.log(low), math.log(high)))


def _capacity(chance: random.Random) -> float:
    return _log_uniform(chance, 500, 500_000)


def _sharp(chance: random.Random) -> Curve:
    top, bend = _capacity(chance), _log_uniform(chance, 2, 500)
    return Curve(lambda n: top * min(n / bend, 1), top)


def _tanh(chance: random.Random) -> Curve:
    top, bend = _capacity(chance), _log_uniform(chance, 2, 300)
    return Curve(lambda n: top * math.tanh(n / bend), top)


def _contention(chance: random.Random) -> Curve:
    """The universal scalability law without coherency cost (Amdahl's law)."""
    top, bend = _capacity(chance), _log_uniform(chance, 2, 200)
    return Curve(lambda n: top * n / (n + bend - 1), top)


def _network(demands: Sequence[float], delay: float) -> Callable[[float], float]:
    """Exact mean value analysis (Reiser and Lavenberg, Journal of the ACM 27, 1980), as far as it is needed."""
    queues, rates = [0.0] * len(demands), [0.0]

    def whole(number: int) -> float:
        nonlocal queues
        while len(rates) <= number:
            times = [demand * (1 + queue) for demand, queue in zip(demands, queues, strict=True)]
            rates.append(len(rates) / (delay + math.fsum(times)))
            queues = [rates[-1] * time for time in times]
        return rates[number]

    return _between(whole)


def _between(whole: Callable[[int], float]) -> Callable[[float], float]:
    """A curve that is known at whole depths, with straight lines between."""

    def rate(depth: float) -> float:
        at = min(int(depth), 2 * DEPTH_MAX)
        return whole(at) + (whole(at + 1) - whole(at)) * min(depth - at, 1)

    return rate


def _unbalanced(chance: random.Random) -> Curve:
    demands = [_log_uniform(chance, 1e-5, 1e-3) for _ in range(chance.randint(2, 6))]
    return Curve(_network(demands, max(demands) * _log_uniform(chance, 0.1, 100)), 1 / max(demands))


def _balanced(chance: random.Random) -> Curve:
    """Stations of one demand: X(N) = C N / (N + M - 1)."""
    stations, top = chance.randint(2, 40), _capacity(chance)
    return Curve(lambda n: top * n / (n + stations - 1), top)


def _machines(chance: random.Random) -> Curve:
    """Several servers with one queue, and a delay: the machine-repair model."""
    servers, service = chance.randint(1, 32), _log_uniform(chance, 1e-5, 1e-2)
    delay = service * _log_uniform(chance, 0.1, 30)

    def whole(number: int) -> float:
        weight, total, busy = 1.0, 1.0, 0.0
        for waiting in range(1, number + 1):
            weight *= (number - waiting + 1) / delay * service / min(waiting, servers)
            total += weight
            busy += weight * min(waiting, servers)
            if total > 1e200:
                weight, total, busy = weight / total, 1.0, busy / total
        return busy / total / service

    known: dict[int, float] = {}
    return Curve(_between(lambda n: known.setdefault(n, whole(n)) if n not in known else known[n]), servers / service)


def _stretched(chance: random.Random) -> Curve:
    top, bend, power = _capacity(chance), _log_uniform(chance, 2, 100), chance.uniform(0.4, 1.3)
    return Curve(lambda n: -top * math.expm1(-((n / bend) ** power)), top)


def _hill(chance: random.Random) -> Curve:
    top, bend, power = _capacity(chance), _log_uniform(chance, 2, 100), chance.uniform(0.6, 3)
    return Curve(lambda n: top / (1 + (bend / n) ** power) if n else 0.0, top)


def _rounded(chance: random.Random) -> Curve:
    """Both asymptotes, joined by a bend of any sharpness: (1 + (K / N)^p)^(-1 / p)."""
    top, bend, power = _capacity(chance), _log_uniform(chance, 2, 300), chance.uniform(1, 6)
    return Curve(lambda n: top * (1 + (bend / n) ** power) ** (-1 / power) if n else 0.0, top)


def _arctangent(chance: random.Random) -> Curve:
    top, bend = _capacity(chance), _log_uniform(chance, 2, 100)
    return Curve(lambda n: top * 2 / math.pi * math.atan(n / bend), top)


def _error_function(chance: random.Random) -> Curve:
    top, bend = _capacity(chance), _log_uniform(chance, 2, 300)
    return Curve(lambda n: top * math.erf(n / bend), top)


def _rational(chance: random.Random) -> Curve:
    """(N^2 + a N) / (N^2 + b N + c) with b > a."""
    top, near, far = _capacity(chance), _log_uniform(chance, 2, 50), _log_uniform(chance, 4, 100)
    share = chance.uniform(0, 0.9)
    return Curve(lambda n: top * (n * n + share * far * n) / (n * n + far * n + near * far), top)


def _capped_queue(chance: random.Random) -> Curve:
    """A limit, as of a token bucket, below what the servers behind it carry."""
    inner = chance.choice((_contention, _machines, _tanh, _unbalanced))(chance)
    top = inner.capacity * chance.uniform(0.3, 0.97)
    return Curve(lambda n: min(inner.rate(n), top), top)


def _two_slopes(chance: random.Random) -> Curve:
    """Proportional up to a bend, then less steep up to the capacity."""
    top, first = _capacity(chance), _log_uniform(chance, 2, 50)
    part, last = chance.uniform(0.3, 0.9), first * _log_uniform(chance, 2, 16)
    return Curve(
        lambda n: top * (part * n / first if n < first else min(1, part + (1 - part) * (n - first) / (last - first))),
        top,
    )


def _plateau(chance: random.Random) -> Curve:
    """Flat over some depths, and growth beyond: another path, or another server, that only many operations reach."""
    top, first, part = _capacity(chance), _log_uniform(chance, 2, 16), chance.uniform(0.5, 0.9)
    start = first * _log_uniform(chance, 4, 24)
    last = start * _log_uniform(chance, 1.5, 6)
    return Curve(
        lambda n: top * (part * min(n / first, 1) + (1 - part) * min(max(n - start, 0) / (last - start), 1)), top
    )


def _two_tiers(chance: random.Random) -> Curve:
    """Two kinds of servers, each with its own share and depth."""
    one, other = chance.choice((_sharp, _tanh, _contention))(chance), _stretched(chance)
    return Curve(lambda n: one.rate(n) + other.rate(n), one.capacity + other.capacity)


def _coherency(chance: random.Random) -> Curve:
    """The universal scalability law with a maximum (retrograde)."""
    bend, peak = _log_uniform(chance, 2, 50), _log_uniform(chance, 8, 500)
    sigma, base = 1 / bend, _capacity(chance)
    kappa = (1 - sigma) / peak**2
    return _peaked(lambda n: base * n / (1 + sigma * (n - 1) + kappa * n * (n - 1)), peak)


def _thrashing(chance: random.Random) -> Curve:
    """Saturates, and loses rate the more operations wait."""
    top, bend, power = _capacity(chance), _log_uniform(chance, 2, 100), chance.uniform(0.6, 2)
    lost = bend * _log_uniform(chance, 5, 100)
    sharp = chance.uniform(1, 6)
    return _peaked(lambda n: top * (1 + (bend / n) ** sharp) ** (-1 / sharp) / (1 + (n / lost) ** power), bend)


def _peaked(rate: Callable[[float], float], about: float) -> Curve:
    """A curve with one maximum, by golden section over the logarithm of depth."""
    low, high = math.log(max(0.01 * about, 0.5)), math.log(100 * about)
    part = (math.sqrt(5) - 1) / 2
    for _ in range(90):
        left, right = high - part * (high - low), low + part * (high - low)
        low, high = (low, right) if rate(math.exp(left)) >= rate(math.exp(right)) else (left, high)
    peak = math.exp(low)
    # Depths are whole.
    best = max((max(1, math.floor(peak)), math.ceil(peak)), key=rate)
    return Curve(lambda n: rate(n) if n else 0.0, rate(best), best)


DESIGNED: dict[str, Draw] = {
    "limit and fixed latency": _sharp,
    "tanh": _tanh,
    "USL, kappa = 0": _contention,
    "closed network, unbalanced": _unbalanced,
    "stretched exponential": _stretched,
    "two slopes": _two_slopes,
    "plateau, then growth": _plateau,
    "USL, kappa > 0": _coherency,
}
"""The rules were designed on these."""
VERIFIED: dict[str, Draw] = {
    "closed network, balanced": _balanced,
    "M/M/c and delay": _machines,
    "Hill": _hill,
    "bend of any sharpness": _rounded,
    "arctangent": _arctangent,
    "error function": _error_function,
    "rational": _rational,
    "limit before a queue": _capped_queue,
    "two tiers": _two_tiers,
    "saturation, then thrashing": _thrashing,
}
"""These only verify the rules."""


@dataclass(frozen=True)
class Noise:
    """The noise that a measurement adds to a curve; deviations are relative."""

    name: str
    deviation: float
    """Deviation of the values of a point."""
    correlation: float = 0.0
    """Of neighbouring values of a point."""
    drift: float = 0.0
    """Deviation of the level from point to point."""


INDEPENDENT = Noise("independent", 0.01)
CORRELATED = Noise("correlated", 0.01, 0.65, 0.005)


class Measured:
    """Measures a curve with noise."""

    def __init__(self, curve: Curve, noise: Noise, chance: random.Random) -> None:
        self.count = 0
        self._curve, self._noise, self._chance = curve, noise, chance

    def __call__(self, in_flight: int) -> knee.Sample:
        self.count += 1
        chance, noise = self._chance, self._noise
        level = self._curve.rate(in_flight) * chance.gauss(1, noise.drift)
        value, rates = chance.gauss(0, 1), []
        for _ in range(VALUES):
            rates.append(level * (1 + noise.deviation * value))
            value = noise.correlation * value + math.sqrt(1 - noise.correlation**2) * chance.gauss(0, 1)
        iops = series_mean(rates)
        return knee.Sample(in_flight, iops, ratio(Estimate(1e9 * in_flight, 0.0, iops.batches), iops))


COLUMNS = (
    "curves",
    "noise",
    "capacity held",
    "median error",
    "half width",
    "bounds without a form",
    "depth for 90 % held",
    "depth for 99 % held",
    "samples",
    "runs",
)


@dataclass
class Counted:
    """The outcomes of the searches on one family of curves."""

    runs: int = 0
    held: int = 0
    """Searches whose bounds hold the capacity."""
    unknown: int = 0
    """Searches that give bounds instead of a confidence interval."""
    depths_held: dict[float, int] = field(default_factory=lambda: dict.fromkeys(knee.SHARES, 0))
    errors: list[float] = field(default_factory=list)
    """Errors of the capacity relative to the truth; half widths are relative to it, too."""
    half_widths: list[float] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)

    def add(self, found: knee.Knee, curve: Curve, samples: int) -> None:
        """Counts one search."""
        capacity = found.capacity_iops
        self.runs += 1
        self.held += capacity.low <= curve.capacity <= capacity.high
        self.unknown += found.form != "flat"
        self.errors.append(capacity.mean / curve.capacity - 1)
        self.half_widths.append((capacity.high - capacity.low) / 2 / curve.capacity)
        self.samples.append(samples)
        for depth in found.shares:
            true = curve.depth(depth.share)
            self.depths_held[depth.share] += (depth.low or 0.0) <= true <= (depth.high or math.inf)


def searched(family: str, noise: Noise, runs: int) -> Counted:
    """Searches on curves of a family, drawn by seed."""
    draw, counted = (DESIGNED | VERIFIED)[family], Counted()
    for run in range(runs):
        chance = random.Random(f"{SEED} {family} {run}")
        curve = draw(chance)
        measured = Measured(curve, noise, chance)
        counted.add(knee.find(measured, DEPTH_MAX), curve, measured.count)
    return counted


def capacity(scale: float) -> Iterator[Row]:
    """Counts how often a search holds the capacity and the depths, family by family."""
    runs = max(1, round(100 * scale))
    for group, families in (("designed on", DESIGNED), ("verified on", VERIFIED)):
        for noise in (INDEPENDENT, CORRELATED):
            for family in families:
                yield _row(f"{family} ({group})", noise.name, searched(family, noise, runs))


def _row(family: str, noise: str, counted: Counted) -> Row:
    runs, depths = counted.runs, counted.depths_held
    return (
        family,
        noise,
        f"{counted.held / runs:.1%} {_binomial(counted.held, runs)}",
        f"{median(counted.errors):+.2%}",
        f"{median(counted.half_widths):.1%}",
        f"{counted.unknown / runs:.0%}",
        f"{depths[0.9] / runs:.1%}",
        f"{depths[0.99] / runs:.1%}",
        f"{fmean(counted.samples):.1f}",
        str(runs),
    )


def _binomial(held: int, runs: int) -> str:
    """The 95 % interval of a share (E. B. Wilson, Journal of the American Statistical Association 22, 1927)."""
    share, weight = held / runs, 1.96**2 / runs
    middle = (share + weight / 2) / (1 + weight)
    half = 1.96 * math.sqrt(share * (1 - share) / runs + weight / 4 / runs) / (1 + weight)
    return f"[{max(0.0, middle - half):.1%}, {min(1.0, middle + half):.1%}]"
