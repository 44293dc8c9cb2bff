"""Simulated targets under Poisson arrivals: queues, token buckets, servers that are slow at times.

A target is a function of arrival times that returns response times. The true rate is known from theory, or the limit is
the percentile of a long simulation at a rate that is chosen.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iocurve.measure.search.ceiling import RAMP_SHARE, IsDecided, LatencyLimit, Trial, Try

Times = NDArray[np.float64]
Transform = Callable[[NDArray[np.complex128]], NDArray[np.complex128]]
"""Laplace transform of service times."""
Serve = Callable[[Times, np.random.Generator], Times]
"""Response times of operations that arrive at these times, in seconds."""
INTERVAL_S = 0.2
RAMP_S_MIN = 0.3
LONG_OPERATIONS = 1_000_000
"""Operations of each of the simulations that a limit is taken from."""
LONG_RUNS = 3


@dataclass(frozen=True)
class Case:
    """A target and the highest rate that meets a limit."""

    serve: Serve
    capacity: float
    rate: float
    limit: LatencyLimit


@dataclass(frozen=True)
class SimulatedResponses:
    """Response times of a simulated run."""

    times_ns: Times

    @property
    def count(self) -> int:
        return len(self.times_ns)

    @property
    def variation(self) -> float:
        return float(np.var(self.times_ns) / np.mean(self.times_ns) ** 2) if self.count else 0.0

    def percentile(self, percent: float) -> float:
        ordered = np.sort(self.times_ns)
        return float(ordered[max(0, min(self.count, math.ceil(self.count * percent / 100)) - 1)])

    def merged(self, other: SimulatedResponses) -> SimulatedResponses:
        return SimulatedResponses(np.concatenate([self.times_ns, other.times_ns]))


def attempts(case: Case, chance: np.random.Generator) -> Try:
    """Runs of a target, each from an empty queue, with a ramp."""

    def attempt(rate: float, seconds: float, is_decided: IsDecided) -> Trial:
        ramp = max(RAMP_S_MIN, RAMP_SHARE * seconds)
        arrivals = poisson(rate, ramp + seconds, chance)
        responses = case.serve(arrivals, chance) if len(arrivals) else arrivals
        done = arrivals + responses
        counted = (done >= ramp) & (done < ramp + seconds)
        responses = responses[counted] * 1e9
        number = max(1, round(seconds / INTERVAL_S))
        places = np.minimum(((done[counted] - ramp) / seconds * number).astype(int), number - 1)
        operations = np.bincount(places, minlength=number)
        late = np.bincount(places, weights=responses > case.limit.limit_ns, minlength=number)
        sums = zip(np.cumsum(operations), np.cumsum(late), strict=True)
        ended = next((at for at, (all_, late_) in enumerate(sums, 1) if is_decided(int(all_), int(late_))), number)
        length = seconds * ended / number
        intervals = tuple((int(one), int(two)) for one, two in zip(operations[:ended], late[:ended], strict=True))
        return Trial(length, ramp + length, intervals, SimulatedResponses(responses[places < ended]))

    return attempt


def is_well_posed(case: Case, chance: np.random.Generator, patience_s: float, off: float = 0.05) -> bool:
    """True where an ideal experiment tells the true rate to ``off`` of it in the time that a search has.

    The experiment spends half of the time below the true rate by ``off``, and half as far above. Both shares of late
    operations must differ from the allowed one by more than the 95 % interval that a run of that length has at the true
    rate. Above the capacity all are late at last. What many such runs at the true rate do not show, none can tell.
    """
    seconds, allowed = patience_s / 2 / (1 + RAMP_SHARE), case.limit.late_share
    if seconds * case.rate * allowed < LATE_LEAST:
        return False
    number = math.ceil(min(max(POSED_OPERATIONS / seconds / case.rate, POSED_RUNS[0]), POSED_RUNS[1]))

    def shares(rate: float) -> Times:
        if rate >= case.capacity:
            return np.ones(1)
        arrivals = poisson(rate, (1 + RAMP_SHARE) * seconds * number, chance)
        late = case.serve(arrivals, chance) * 1e9 > case.limit.limit_ns
        run, inside = np.divmod(arrivals, (1 + RAMP_SHARE) * seconds)
        places = run[inside >= RAMP_SHARE * seconds].astype(int)
        counts = np.bincount(places, minlength=number)
        found: Times = np.bincount(places, late[inside >= RAMP_SHARE * seconds], number) / np.maximum(1, counts)
        return found

    at = shares(case.rate)
    if abs(at.mean() / allowed - 1) > SHOWN:
        return False
    told = 1.96 * at.std(ddof=1)
    return bool(allowed - shares(case.rate * (1 - off)).mean() > told < shares(case.rate * (1 + off)).mean() - allowed)


LATE_LEAST = 4
"""Fewer late operations, though independent, differ by more than half from run to run."""
POSED_OPERATIONS, POSED_RUNS = 2_000_000, (12, 60)
"""Operations of the runs at one rate together, and least and most of these runs."""
SHOWN = 0.25
"""Runs at the true rate have the allowed share, or late operations are rarer than all the runs are long."""


def poisson(rate: float, seconds: float, chance: np.random.Generator) -> Times:
    """Arrival times of a Poisson process."""
    expected = rate * seconds
    times: Times = np.cumsum(chance.exponential(1 / rate, int(expected + 8 * math.sqrt(expected) + 20)))
    return times[times < seconds]


def waits(arrivals: Times, services: Times) -> Times:
    """Waiting times of one server (D. V. Lindley's recursion)."""
    walk = np.concatenate([[0.0], np.cumsum(services[:-1] - np.diff(arrivals))])
    return walk - np.minimum.accumulate(np.minimum(walk, 0))


def one_server(services: Callable[[np.random.Generator, int], Times]) -> Serve:
    """A queue with any service times (M/G/1)."""

    def serve(arrivals: Times, chance: np.random.Generator) -> Times:
        drawn = services(chance, len(arrivals))
        return waits(arrivals, drawn) + drawn

    return serve


def exponential(capacity: float) -> Serve:
    """M/M/1."""
    return one_server(lambda chance, count: chance.exponential(1 / capacity, count))


def fixed(capacity: float) -> Serve:
    """M/D/1."""
    return one_server(lambda _chance, count: np.full(count, 1 / capacity))


def lognormal(capacity: float, sigma: float) -> Serve:
    """M/G/1 with lognormal service times."""
    middle = -sigma * sigma / 2 - math.log(capacity)
    return one_server(lambda chance, count: chance.lognormal(middle, sigma, count))


def weibull(capacity: float, shape: float) -> Serve:
    """M/G/1 with Weibull service times: with a shape below 1 a stretched exponential."""
    scale = 1 / capacity / math.gamma(1 + 1 / shape)
    return one_server(lambda chance, count: scale * chance.weibull(shape, count))


def pareto(capacity: float, tail: float) -> Serve:
    """M/G/1 with Pareto service times from 0, whose tail falls with a power above 2."""
    return one_server(lambda chance, count: (tail - 1) / capacity * chance.pareto(tail, count))


def two_kinds(capacity: float, share: float, factor: float) -> Serve:
    """M/G/1 with exponential service times, of which a share takes longer by a factor."""
    mean = 1 - share + share * factor

    def services(chance: np.random.Generator, count: int) -> Times:
        return np.where(chance.random(count) < share, factor, 1.0) * chance.exponential(1 / mean / capacity, count)

    return one_server(services)


def several_servers(capacity: float, servers: int) -> Serve:
    """M/M/c."""

    def serve(arrivals: Times, chance: np.random.Generator) -> Times:
        free = [0.0] * servers
        responses = np.empty(len(arrivals))
        for place, service in enumerate(chance.exponential(servers / capacity, len(arrivals))):
            done = max(arrivals[place], free[0]) + service
            heapq.heapreplace(free, done)
            responses[place] = done - arrivals[place]
        return responses

    return serve


def bucket(capacity: float, burst: int, base_s: float) -> Serve:
    """A fixed latency behind a token bucket, full at first; with a burst of 1 a leaky bucket."""

    def serve(arrivals: Times, _chance: np.random.Generator) -> Times:
        owed = waits(arrivals, np.full(len(arrivals), 1 / capacity))
        return np.maximum(0.0, owed - (burst - 1) / capacity) + base_s

    return serve


def two_levels(capacity: float, slowdown: float, fast_s: float, slow_s: float) -> Serve:
    """A server of fixed service times that is slower at times; both times are exponential."""
    speed = (fast_s + slow_s) / (fast_s + slow_s / slowdown)

    def serve(arrivals: Times, chance: np.random.Generator) -> Times:
        count = math.ceil(4 * arrivals[-1] / (fast_s + slow_s)) + 200
        lengths = chance.exponential(1.0, 2 * count) * np.tile([fast_s, slow_s], count)
        work = lengths * np.tile([speed, speed / slowdown], count)
        times, done = (np.concatenate([[0.0], np.cumsum(one)]) for one in (lengths, work))
        by_work = np.interp(arrivals, times, done)
        ends = by_work + waits(by_work, np.full(len(arrivals), 1 / capacity)) + 1 / capacity
        finished: Times = np.interp(ends, done, times)
        return finished - arrivals

    return serve


def bucket_case(capacity: float, burst: int, base_s: float, factor: float, share: float) -> Case:
    """A token bucket whose limit is a factor of its base latency; the truth is that of M/D/1."""
    beyond = burst - 1 + base_s * (factor - 1) * capacity
    low, high = 1e-6, 1 - 1e-9
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if fixed_tail(middle, beyond) > share else (middle, high)
    return Case(
        bucket(capacity, burst, base_s),
        capacity,
        low * capacity,
        LatencyLimit(100 * (1 - share), factor * base_s * 1e9),
    )


def fixed_tail(load: float, services: float) -> float:
    """Probability that an operation waits longer than a number of service times (M/D/1; A. K. Erlang, 1909).

    Far out it is the exponential that the sum tends to, which does not cancel.
    """
    if services < ERLANG_SERVICES_MAX:
        terms = [
            (load * (number - services)) ** number / math.factorial(number) * math.exp(-load * (number - services))
            for number in range(math.floor(services) + 1)
        ]
        return 1 - (1 - load) * math.fsum(terms)
    low, high = 1e-9, 50.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if load * math.expm1(middle) < middle else (low, middle)
    return (1 - load) / (load * math.exp(low) - 1) * math.exp(-low * services)


ERLANG_SERVICES_MAX = 8.0


def simulated_case(serve: Serve, capacity: float, load: float, share: float, chance: np.random.Generator) -> Case:
    """A target whose limit is the percentile of long simulations at a rate."""
    found = []
    for _ in range(LONG_RUNS):
        arrivals = poisson(load * capacity, LONG_OPERATIONS / load / capacity, chance)
        found.append(serve(arrivals, chance)[len(arrivals) // 10 :])
    limit_s = float(np.quantile(np.concatenate(found), 1 - share))
    return Case(serve, capacity, load * capacity, LatencyLimit(100 * (1 - share), limit_s * 1e9))


def general_case(serve: Serve, transform: Transform, capacity: float, load: float, share: float) -> Case:
    """M/G/1 with a limit that is exact (the formula of F. Pollaczek and A. Y. Khinchine, inverted)."""
    low, high = 0.0, 1 / capacity
    while general_tail(transform, load * capacity, load, high) > share:
        low, high = high, 2 * high
    for _ in range(GENERAL_HALVINGS):
        middle = (low + high) / 2
        late = general_tail(transform, load * capacity, load, middle)
        low, high = (middle, high) if late > share else (low, middle)
    return Case(serve, capacity, load * capacity, LatencyLimit(100 * (1 - share), high * 1e9))


GENERAL_HALVINGS = 16
"""The limit is within 2e-5 of its size."""


def general_tail(transform: Transform, rate: float, load: float, seconds: float) -> float:
    """Probability that a response takes longer (M/G/1).

    The Laplace transform of the tail is inverted by a Fourier series with Euler summation (J. Abate and W. Whitt,
    "Numerical inversion of Laplace transforms of probability distributions", ORSA Journal on Computing 7, 1995).
    """
    number = np.arange(EULER_TERMS + EULER_SUMS + 1)
    places = ((EULER_DAMPING + 2j * np.pi * number) / (2 * seconds)).astype(np.complex128)
    served = transform(places)
    responses = (1 - load) * places * served / (places - rate + rate * served)
    terms = ((1 - responses) / places).real * np.where(number % 2, -1.0, 1.0)
    terms[0] /= 2
    sums = np.cumsum(terms)[EULER_TERMS:]
    weights = np.array([math.comb(EULER_SUMS, one) for one in range(EULER_SUMS + 1)]) / 2**EULER_SUMS
    return float(math.exp(EULER_DAMPING / 2) / seconds * np.dot(weights, sums))


EULER_DAMPING = 18.4
"""The error of the series is e to the minus this."""
EULER_TERMS, EULER_SUMS = 60, 12


def numeric_transform(times: Callable[[Times, Times], Times]) -> Transform:
    """Laplace transform of times that follow from a normal variable and the probability of a larger one, by the
    trapezoidal rule.
    """
    normal = np.linspace(-10.0, 10.0, 8001)
    served = times(normal, np.array([math.erfc(one / math.sqrt(2)) / 2 for one in normal]))
    weights = np.exp(-normal * normal / 2)
    weights /= weights.sum()
    return lambda places: np.exp(-np.outer(places, served)) @ weights


def lognormal_transform(capacity: float, sigma: float) -> Transform:
    """Of lognormal service times."""
    return numeric_transform(lambda normal, _: np.exp(-sigma * sigma / 2 + sigma * normal) / capacity)


def weibull_transform(capacity: float, shape: float) -> Transform:
    """Of Weibull service times."""
    scale = 1 / capacity / math.gamma(1 + 1 / shape)
    return numeric_transform(lambda _, larger: scale * (-np.log(larger)) ** (1 / shape))


def pareto_transform(capacity: float, tail: float) -> Transform:
    """Of Pareto service times."""
    return numeric_transform(lambda _, larger: (tail - 1) / capacity * (larger ** (-1 / tail) - 1))


def two_kinds_transform(capacity: float, share: float, factor: float) -> Transform:
    """Laplace transform of exponential service times, of which a share takes longer by a factor."""
    short = 1 / capacity / (1 - share + share * factor)
    return lambda places: (1 - share) / (1 + short * places) + share / (1 + factor * short * places)


def exponential_case(capacity: float, load: float, share: float) -> Case:
    """M/M/1: response times are exponential."""
    limit_s = -math.log(share) / (capacity * (1 - load))
    return Case(exponential(capacity), capacity, load * capacity, LatencyLimit(100 * (1 - share), limit_s * 1e9))


def several_servers_case(capacity: float, servers: int, load: float, share: float) -> Case:
    """M/M/c; the limit is exact. Below the knee many servers have the same late share at all rates."""
    low, high = 0.0, 1e6 * servers / capacity
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if several_servers_tail(middle, capacity, servers, load) > share else (low, middle)
    limit = LatencyLimit(100 * (1 - share), high * 1e9)
    return Case(several_servers(capacity, servers), capacity, load * capacity, limit)


def several_servers_tail(seconds: float, capacity: float, servers: int, load: float) -> float:
    """Probability that a response takes longer (M/M/c; Erlang's C formula)."""
    service, blocked = capacity / servers, 1.0
    for number in range(1, servers + 1):
        blocked = load * servers * blocked / (number + load * servers * blocked)
    waits_share = blocked / (1 - load * (1 - blocked))
    spare = capacity * (1 - load)
    served = math.exp(-service * seconds)
    # The sum of an exponential wait and an exponential service; equal rates give an Erlang distribution.
    if abs(spare / service - 1) < EQUAL_RATES:
        return served + waits_share * service * seconds * served
    delayed = (spare * served - service * math.exp(-spare * seconds)) / (spare - service)
    return (1 - waits_share) * served + waits_share * delayed


EQUAL_RATES = 1e-6


def drawn(family: str, chance: np.random.Generator, capacities: tuple[float, float] = (50.0, 10_000.0)) -> Case:
    """A case of a family with parameters drawn at random."""
    lowest, highest = capacities
    capacity = math.exp(chance.uniform(math.log(lowest), math.log(highest)))
    load, share = chance.uniform(0.3, 0.97), float(chance.choice([0.05, 0.01, 0.001]))
    if family == "token bucket":
        base_s, burst = math.exp(chance.uniform(math.log(1e-4), math.log(1e-2))), round(1000 ** chance.random())
        return bucket_case(capacity, burst, base_s, chance.uniform(1.2, 3), share)
    if family == "M/M/1":
        return exponential_case(capacity, load, share)
    if family == "M/M/c":
        return several_servers_case(capacity, int(chance.integers(2, 33)), load, share)
    if family in HEAVY:
        serve, transform, parameters = HEAVY[family]
        values = [chance.uniform(low, high) for low, high in parameters]
        return general_case(serve(capacity, *values), transform(capacity, *values), capacity, load, share)
    made: dict[str, Callable[[], Serve]] = {
        "M/D/1": lambda: fixed(capacity),
        "two speeds": lambda: two_levels(
            capacity, chance.uniform(1.5, 10), chance.uniform(0.02, 0.3), chance.uniform(0.01, 0.1)
        ),
    }
    return simulated_case(made[family](), capacity, load, share, chance)


HEAVY: dict[str, tuple[Callable[..., Serve], Callable[..., Transform], tuple[tuple[float, float], ...]]] = {
    "M/G/1, lognormal": (lognormal, lognormal_transform, ((0.5, 1.8),)),
    "M/G/1, two kinds": (two_kinds, two_kinds_transform, ((0.005, 0.1), (5, 50))),
    "M/G/1, Weibull": (weibull, weibull_transform, ((0.35, 0.9),)),
    "M/G/1, Pareto": (pareto, pareto_transform, ((2.2, 4.0),)),
}
"""Service times of large variance, with the ranges of their parameters; limits are exact."""
FAMILIES = (
    "token bucket",
    "M/M/1",
    "M/D/1",
    "M/G/1, lognormal",
    "M/G/1, two kinds",
    "M/G/1, Weibull",
    "M/G/1, Pareto",
    "M/M/c",
    "two speeds",
)
