"""The highest rate that meets a latency limit. Open loop: latency counts from each operation's scheduled time.

"p99 is at most 2 ms" says that at most 1 % of the operations are late. So a run at a rate counts late operations, and
the search looks for the rate at which their share is the one that is allowed:

- The bracket between a rate with too few and one with too many late operations is halved, in short runs.
- Then rates around the crossing run for as long as it takes, each longer than all its runs before. All counts of a rate
  add up. ``late_share`` says where the crossing is, and within which bounds, from all counts together.
- It ends when the bounds are within the precision, or with the patience of the user: then the answer is the bracket
  that the counts give, and the time that the precision would take is said.

A run is long compared with the time in which the target forgets how it began. A queue forgets in about r / (c - r)²
seconds at a rate of r and a capacity of c, and so does a token bucket of any size (the relaxation time of reflected
Brownian motion: J. Abate and W. Whitt, "Transient behavior of regulated Brownian motion", Advances in Applied
Probability 19, 1987). A rate is beyond the capacity where most operations are late: of a target that allows a share of
s, at most a part s / h of all runs ever has a share of h (the maximal ergodic inequality), so such a run may end early.

The arrivals are Poisson: fewer operations than due are a shortfall only where the arrival law does not explain them. A
run without operations says nothing. The bracket is meant to hold the true rate in 95 of 100 searches;
``docs/evidence/accuracy.md`` has the counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, Protocol, Self

import msgspec

from iocurve.measure.search.late_share import FITTED_AROUND, Clusters, Counts, Crossing, LateCount, crossing
from iocurve.result.stats import Bounded, Estimate

RAMP_SHARE = 0.15
"""Ramp of a run, relative to its length: a queue starts empty."""
RUN_LATE_OPERATIONS = 5
"""Late operations that the limit allows in a run of the shortest length, ..."""
RUN_LIMITS = 5
"""... which is at least this multiple of the latency limit, ..."""
RUN_RELAXATIONS = 20
"""... and of the time in which a queue at this rate forgets how it began, ..."""
RUN_PATIENCE = 0.1
"""... but at most this share of the patience."""
GROWTH = 0.1
"""Length of a run, relative to that of all runs before it: a long search has few runs."""
LONGEST_PATIENCE = 0.3
"""Longest run, as a share of the patience."""
OVERLOADED_SHARE = 0.5
"""Share of late operations beyond which a rate is beyond the capacity, ..."""
OVERLOADED_RARE = 0.02
"""... or a higher one, of which the chance at a rate that meets the limit is this."""
OVERLOADED_SHARE_MAX = 0.95
OVERLOADED_COUNT = 100
"""Least number of late operations that show it."""
OVERLOADED_ALLOWED = 0.2
"""A limit that allows more late operations has no such share."""
SHORT_ERRORS = 4.0
"""Operations due that did not complete are late beyond this number of standard errors of the arrivals."""
LOCATED = 0.1
"""Width of the bracket at which halving ends, relative to the rate."""
LOWEST = 1e-3
"""Lowest rate that is tried, relative to the capacity."""
AROUND_LOGITS = 0.6
"""Least distance of the rates around the crossing: the logit of the late share changes by this value, ..."""
AROUND_MAX = 0.1
"""... and the greatest distance, relative to the rate."""
MACHINE_SHARE = 0.2
"""Share of the late operations from which on this machine is a part of the answer, ..."""
MACHINE_LATE = 5
"""... and their least number."""
ROUNDS_MIN = 3
STEPS_MAX = 24


class Responses(Protocol):
    """A distribution of response times."""

    @property
    def count(self) -> int:
        """Number of operations."""

    @property
    def variation(self) -> float:
        """Squared coefficient of variation."""

    def percentile(self, percent: float) -> float:
        """Nanoseconds that ``percent`` of all operations did not exceed."""

    def merged(self, other: Self, /) -> Responses:
        """Both together."""


class Trial(msgspec.Struct, frozen=True):
    """One run at a rate."""

    seconds: float
    """Length of the measured window."""
    spent_s: float
    """Time that the run took in all."""
    intervals: tuple[Counts, ...]
    """Operations and late operations of successive intervals."""
    responses: Responses
    late_by_machine: int = 0
    """Late operations that this machine submitted late and the target completed within the limit."""


IsDecided = Callable[[int, int], bool]
"""Called with the operations and the late operations of a run so far; True ends the run."""
Try = Callable[[float, float, IsDecided], Trial]
"""Runs a rate (operations per second) for a time (seconds)."""


class LatencyLimit(msgspec.Struct, frozen=True):
    """A latency limit."""

    percent: float
    """Percentile of response times."""
    limit_ns: float

    @property
    def late_share(self) -> float:
        """Share of the operations that may take longer."""
        return 1 - self.percent / 100

    def is_overloaded(self, operations: int, late: int) -> bool:
        """True if the number of late operations shows that the rate is beyond the capacity."""
        share = min(max(OVERLOADED_SHARE, self.late_share / OVERLOADED_RARE), OVERLOADED_SHARE_MAX)
        return self.late_share <= OVERLOADED_ALLOWED and late >= OVERLOADED_COUNT and late > share * operations


class MeasuredRate(msgspec.Struct):
    """All runs at one rate."""

    rate: float
    """Operations per second that were due."""
    limit: LatencyLimit
    seconds: float = 0.0
    """Measured time."""
    late_by_machine: int = 0
    """Late operations that this machine submitted late and the target completed within the limit."""
    intervals: list[Counts] = msgspec.field(default_factory=list)
    responses: Responses | None = None
    """Response latencies of all runs; None without operations."""

    def add(self, trial: Trial) -> None:
        """One more run."""
        self.late_by_machine += trial.late_by_machine
        self.seconds += trial.seconds
        self.intervals += trial.intervals
        due, completed = self.rate * trial.seconds, sum(operations for operations, _ in trial.intervals)
        missing = due - completed - self.rate * self.limit.limit_ns / 1e9
        if missing > SHORT_ERRORS * math.sqrt(due):
            self.intervals.append((round(missing), round(missing)))
        if trial.responses.count:
            self.responses = trial.responses if self.responses is None else self.responses.merged(trial.responses)

    @property
    def counted(self) -> LateCount:
        """The counts in the order of time."""
        return LateCount(self.rate, tuple(self.intervals))

    @property
    def of_target(self) -> LateCount:
        """The counts without the operations that are late by this machine."""
        counted = self.counted
        share = 1 - self.late_by_machine / max(1, counted.late)
        return LateCount(self.rate, tuple((operations, int(late * share)) for operations, late in counted.intervals))

    @property
    def is_overloaded(self) -> bool:
        """True where the rate is beyond what the target can do."""
        counted = self.counted
        return self.limit.is_overloaded(counted.operations, counted.late)

    @property
    def is_early(self) -> bool:
        """True where no more operations than allowed are late."""
        counted = self.counted
        return not self.is_overloaded and counted.late <= counted.operations * self.limit.late_share

    def latency_ns(self, dispersion: float) -> Bounded:
        """The limited percentile over all runs, with the order statistics that bound it."""
        if self.responses is None:
            return Bounded(math.nan, None, None)
        share = self.limit.percent / 100
        half = 196 * math.sqrt(share * (1 - share) * dispersion / self.responses.count)
        low, high = self.limit.percent - half, self.limit.percent + half
        return Bounded(
            self.responses.percentile(self.limit.percent),
            self.responses.percentile(low) if low > 0 else None,
            self.responses.percentile(high) if high < 100 else None,
        )


Ending = Literal["precision", "patience", "capacity", "missed"]


class Ceiling(msgspec.Struct, frozen=True):
    """The outcome of a search."""

    rates: tuple[MeasuredRate, ...]
    """In the order in which they were first tried."""
    answer: Bounded | None
    """The highest rate that meets the limit; None if no measured rate met it."""
    nearest: MeasuredRate | None
    """The measured rate that met the limit and is nearest to the answer."""
    latency_ns: Bounded | None
    """The limited percentile at the nearest rate."""
    ending: Ending
    needed_s: float | None = None
    """The patience that the precision would need; None where it was reached."""
    late_by_machine: float = 0.0
    """Share of the late operations near the answer that this machine submitted late; 0 where it is not large."""


class Budget(msgspec.Struct, frozen=True):
    """The precision and the time of a search."""

    precision: float
    """Half of the bracket, relative to the rate."""
    patience_s: float
    """Time that all runs may take together."""
    shortest_s: float = 1.0
    """Shortest run."""


def find(attempt: Try, capacity: Estimate, limit: LatencyLimit, budget: Budget) -> Ceiling:
    """Searches between nothing and the capacity, which a closed loop has shown."""
    return _Search(attempt, capacity, limit, budget).run()


class _Search:
    def __init__(self, attempt: Try, capacity: Estimate, limit: LatencyLimit, budget: Budget) -> None:
        self._attempt = attempt
        self._capacity = capacity.mean
        self._limit = limit
        self._budget = budget
        self._spent_s = 0.0
        self._rates: dict[float, MeasuredRate] = {}
        self._top = capacity.mean * (1 - budget.precision / 2)
        """The highest rate that is tried: a rate at the capacity itself has a queue without end."""
        self._capacity_max = capacity.high if math.isfinite(capacity.error) else capacity.mean

    def run(self) -> Ceiling:
        if not self._locate():
            return self._ceiling(None, "missed", None)
        rounds, found = 0, self._crossing()
        while rounds < ROUNDS_MIN or self._width(found) > 2 * self._budget.precision:
            if not self._run(self._next(found, rounds)):
                # The variance of a count falls with the time.
                ratio = self._width(found) / (2 * self._budget.precision)
                return self._ceiling(found, "patience", self._spent_s * max(1.2, ratio**2))
            found, rounds = self._crossing(), rounds + 1
        return self._ceiling(found, "capacity" if found.high is None and not self._overloaded else "precision", None)

    def _locate(self) -> bool:
        """Halves the bracket; False where no rate at all meets the limit."""
        low, high, rate = 0.0, math.inf, self._capacity / 2
        for _ in range(STEPS_MAX):
            if not self._run(rate):
                break
            if self._rates[rate].is_early:
                low = rate
            else:
                high = rate
            if low >= self._top or high < self._capacity * LOWEST or (high < math.inf and high - low <= LOCATED * high):
                break
            # A limit that all loads keep is common, and one that fails at the top does so at once.
            rate = self._top if high == math.inf else (low + high) / 2
        return low > 0 or high >= self._capacity * LOWEST

    def _run(self, rate: float) -> bool:
        """Runs a rate, longer than all its runs before; False where the patience has ended."""
        budget = self._budget
        left_s = (budget.patience_s - self._spent_s) / (1 + RAMP_SHARE)
        if left_s < budget.shortest_s / 2:
            return False
        measured = self._rates.setdefault(rate, MeasuredRate(rate, self._limit))
        wanted_s = max(self._run_s(rate), measured.seconds, GROWTH * self._spent_s)
        seconds = min(wanted_s, LONGEST_PATIENCE * budget.patience_s, left_s)
        trial = self._attempt(rate, seconds, self._limit.is_overloaded)
        self._spent_s += trial.spent_s
        measured.add(trial)
        return True

    def _run_s(self, rate: float) -> float:
        """Length of the first run at a rate."""
        late_s = RUN_LATE_OPERATIONS / self._limit.late_share / rate
        limits_s = RUN_LIMITS * self._limit.limit_ns / 1e9
        spare = max(self._least_capacity - rate, self._budget.precision / 2 * rate)
        wanted = max(late_s, limits_s, RUN_RELAXATIONS * rate / spare**2)
        return max(self._budget.shortest_s, min(wanted, RUN_PATIENCE * self._budget.patience_s))

    @property
    def _overloaded(self) -> list[float]:
        return [measured.rate for measured in self._rates.values() if measured.is_overloaded]

    @property
    def _least_capacity(self) -> float:
        """The capacity, or the lowest rate that was beyond it."""
        return min([self._capacity, *self._overloaded])

    def _crossing(self, *, of_target: bool = False) -> Crossing:
        """The crossing: first by a line through all rates, then by one through those near it."""
        highest = min([self._capacity_max, *self._overloaded])
        several = [one for one in self._rates.values() if not one.is_overloaded]
        used = [one.of_target if of_target else one.counted for one in several]
        if not used:
            return Crossing(highest, None, None, 1.0)
        bounds = min([highest, *(one.rate for one in used)]) * (1 - AROUND_MAX), highest
        share, clusters = self._limit.late_share, self._clusters(used)
        return crossing(used, share, clusters, bounds, crossing(used, share, clusters, bounds).rate)

    def _clusters(self, used: Sequence[LateCount]) -> Clusters:
        """Response times at the lowest rate are near to service times."""
        lowest = min(self._rates.values(), key=lambda one: one.rate)
        variation = lowest.responses.variation if lowest.responses else 0.0
        return Clusters.of(used, self._least_capacity, 1 + variation)

    def _width(self, found: Crossing) -> float:
        return (self._high(found) - (found.low or 0.0)) / found.rate

    def _high(self, found: Crossing) -> float:
        return found.high or min([self._capacity_max, *self._overloaded])

    def _next(self, found: Crossing, rounds: int) -> float:
        """The next rate: on the side of the wider bound, halfway to it."""
        below, above = found.rate - (found.low or 0.0), self._high(found) - found.rate
        is_below = below > above if max(below, above) > 1.5 * min(below, above) else rounds % 2 == 0
        least = min(AROUND_LOGITS / found.slope, AROUND_MAX) * found.rate
        away = min(max((below if is_below else above) / 2, least), AROUND_MAX * found.rate)
        wanted = min(found.rate - away if is_below else found.rate + away, self._top)
        rate = min(self._rates, key=lambda one: abs(one - wanted))
        if abs(rate / wanted - 1) > self._budget.precision / 2:
            rate = wanted
        return rate if rate < min([math.inf, *self._overloaded]) else (found.low or found.rate)

    def _ceiling(self, found: Crossing | None, ending: Ending, needed_s: float | None) -> Ceiling:
        rates = tuple(self._rates.values())
        met = [one for one in rates if one.is_early]
        if found is None or not met:
            by_machine = self._late_by_machine([min(rates, key=lambda one: one.rate)])
            return Ceiling(rates, None, None, None, ending, needed_s, by_machine)
        nearest = min(met, key=lambda one: abs(one.rate - found.rate))
        by_machine = self._late_by_machine([one for one in rates if abs(one.rate / found.rate - 1) <= FITTED_AROUND])
        high = self._high(self._crossing(of_target=True)) if by_machine else self._high(found)
        clusters = self._clusters([one.counted for one in rates if not one.is_overloaded])
        latency = nearest.latency_ns(clusters.dispersion(nearest.rate))
        answer = Bounded(found.rate, found.low, max(high, found.rate))
        return Ceiling(rates, answer, nearest, latency, ending, needed_s, by_machine)

    def _late_by_machine(self, rates: Sequence[MeasuredRate]) -> float:
        late, by_machine = sum(one.counted.late for one in rates), sum(one.late_by_machine for one in rates)
        return by_machine / late if by_machine >= max(MACHINE_LATE, MACHINE_SHARE * late) else 0.0
