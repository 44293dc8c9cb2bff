"""The highest rate that meets a latency limit. Open loop: latency counts from each operation's scheduled time.

"p99 is at most 2 ms" says that at most 1 % of the operations are late. So each trial is a count of late operations, and
the search looks for the rate at which their share is the one that is allowed:

- A rate is tried until the count differs from the allowed one by more than chance explains. Late operations come in
  clusters, since they wait in the same queue; how much they cluster is estimated from how trials of one rate differ
  (the dispersion of quasi-likelihood: P. McCullagh and J. A. Nelder, "Generalized Linear Models", 1989, chapter 4).
- While that decides, the bracket is halved. Targets whose latency jumps at their limit need nothing else.
- An undecided rate is near the allowed one. More rates around it are tried, the logit of the late share is
  fitted as a straight line in the logarithm of the rate, and the answer is where the line crosses the allowed share,
  with the interval of E. C. Fieller ("Some problems in interval estimation", Journal of the Royal Statistical Society
  B 16, 1954).

The arrivals are Poisson: fewer operations than due are a shortfall only where the arrival law does not explain them. A
trial without operations says nothing. The bracket is meant to hold the true rate in 95 of 100 searches;
``docs/truth.md`` has the counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, Self

from iocurve.measure.search.late_share import Crossing, crossing
from iocurve.result.stats import Estimate, student_quantile

TRIAL_LATE_OPERATIONS = 5
"""Late operations that the limit allows in a trial of the shortest length, ..."""
TRIAL_LIMITS = 5
"""... which is at least this multiple of the latency limit."""
TRIAL_S_MAX = 120.0
"""Longest trial, unless its count of late operations needs more time."""
RAMP_SHARE = 0.3
"""Ramp of a trial, relative to its length: a queue starts empty."""
LATE_CLUSTERS_ENOUGH = 16
"""Clusters of late operations allowed in the trials of a rate after which an undecided rate stays undecided."""
TRIALS_MIN = 3
TRIALS_ENOUGH = 8
TRIALS_MAX = 80
DISPERSION = 3.0
"""Expected dispersion before the trials show theirs, ..."""
DISPERSION_TRIALS = 3
"""... and the number of trials that this expectation weighs."""
CLUSTER_FACTOR = 10
"""Ratio of the share of operations used to estimate clusters to the late share."""
DECIDED = 0.995
"""Confidence of the count that decides a rate."""
SHORT_ERRORS = 4.0
"""Shortfall that decides a rate, in standard errors of the arrivals."""
AROUND_FIRST = 0.05
"""Distance of the rates tried around an undecided one, ..."""
AROUND_LOGITS = 0.6
"""... later the distance over which the logit of the late share changes by this value, ..."""
AROUND_MIN, AROUND_MAX = 0.005, 0.08
"""... within these bounds."""
FITTED_AROUND = 0.12
"""Greatest distance of fitted rates: a straight line is good enough within it."""
ROUND_TRIALS = 4
"""Trials of each rate in a round."""
ROUND_GROWTH = 1.5
"""Growth of the trials from round to round, so that a long search has few rounds."""
ROUNDS_MIN = 2
OPERATIONS_MIN = 40_000
"""A search at low rates may take longer until it has this number of operations, ..."""
LONGER_MAX = 3
"""... but at most this multiple of the usual time."""
CLUSTER_GROWTH = 1.25
"""Size of clusters of late operations relative to clusters at the percentile used to estimate them."""
STEPS_MAX = 24


class Responses(Protocol):
    """A distribution of response times."""

    @property
    def count(self) -> int:
        """Number of operations."""

    def percentile(self, percent: float) -> float:
        """Nanoseconds that ``percent`` of all operations did not exceed."""

    def over(self, limit_ns: float) -> int:
        """Number of operations that took longer."""

    def merged(self, other: Self, /) -> Responses:
        """Both together."""


@dataclass(frozen=True)
class Trial:
    """One run at a rate."""

    seconds: float
    """Length of the measured window."""
    responses: Responses


Try = Callable[[float, float], Trial]
"""Runs a rate (operations per second) for a time (seconds)."""


@dataclass(frozen=True)
class Limit:
    """A latency limit."""

    percent: float
    """Percentile of response times."""
    limit_ns: float

    @property
    def late_share(self) -> float:
        """Share of the operations that may take longer."""
        return 1 - self.percent / 100

    def trial_s(self, rate: float, shortest_s: float, precision: float) -> float:
        """Length of an informative trial.

        A queue of mean load forgets how it began in about rate x limit² / 5 where the limit just holds (the relaxation
        time of M/M/1 in heavy traffic), and sooner where the load is less than the capacity by the precision.
        """
        limit_s = self.limit_ns / 1e9
        relaxation_s = min(rate * limit_s**2, 4 / (rate * (precision / 2) ** 2), TRIAL_S_MAX)
        late_s = TRIAL_LATE_OPERATIONS / self.late_share / rate
        return max(shortest_s, late_s, min(TRIAL_LIMITS * limit_s, TRIAL_S_MAX), relaxation_s)


@dataclass(frozen=True)
class Bounds:
    """A figure with bounds; None where the data give no bound."""

    value: float
    low: float | None
    high: float | None


@dataclass
class Verdict:
    """All trials at one rate."""

    rate: float
    """Operations per second that were due."""
    limit: Limit
    trials: list[Trial] = field(default_factory=list)
    counts: list[tuple[int, int]] = field(default_factory=list)
    """Operations and late operations of each trial."""
    responses: Responses | None = None
    """Response latencies of all trials; None without operations."""
    _spread: float | None = None

    def add(self, trial: Trial) -> None:
        """One more trial."""
        self.trials.append(trial)
        self.counts.append((trial.responses.count, trial.responses.over(self.limit.limit_ns)))
        self._spread = None
        if trial.responses.count:
            self.responses = trial.responses if self.responses is None else self.responses.merged(trial.responses)

    @property
    def holds(self) -> bool | None:
        """True where the limit holds, False where it does not; None where the trials do not tell."""
        if self._falls_short():
            return False
        if not self.operations:
            return None
        if self.late > self.operations / 2 and self.limit.late_share < 0.25:
            return False
        if len(self.trials) < TRIALS_MIN:
            return None
        allowed = self.operations * self.limit.late_share
        error = math.sqrt(allowed * (1 - self.limit.late_share) * self.dispersion)
        errors = student_quantile(len(self.trials) - 1 + DISPERSION_TRIALS, DECIDED)
        return self.late < allowed if abs(self.late - allowed) >= errors * error else None

    @property
    def is_exhausted(self) -> bool:
        """True if more trials are not worth their time."""
        enough = self.operations * self.limit.late_share >= LATE_CLUSTERS_ENOUGH * self.dispersion
        return (enough and len(self.trials) >= TRIALS_ENOUGH) or len(self.trials) >= TRIALS_MAX

    @property
    def operations(self) -> int:
        """Operations of all trials."""
        return sum(operations for operations, _ in self.counts)

    @property
    def late(self) -> int:
        """Operations that took longer than the limit."""
        return sum(late for _, late in self.counts)

    @property
    def seconds(self) -> float:
        """Measured time."""
        return math.fsum(trial.seconds for trial in self.trials)

    @property
    def latency_ns(self) -> Bounds:
        """The limited percentile over all trials, with the order statistics that bound it."""
        if self.responses is None:
            return Bounds(math.nan, None, None)
        share = self.limit.percent / 100
        half = 196 * math.sqrt(share * (1 - share) * self.dispersion / self.operations)
        low, high = self.limit.percent - half, self.limit.percent + half
        return Bounds(
            self.responses.percentile(self.limit.percent),
            self.responses.percentile(low) if low > 0 else None,
            self.responses.percentile(high) if high < 100 else None,
        )

    @property
    def dispersion(self) -> float:
        """Variance of the late counts, relative to that of independent operations; at least 1.

        It is taken from how often trials exceed a percentile below the limited one, which they do often enough to tell.
        """
        known, trials = DISPERSION * DISPERSION_TRIALS, max(0, len(self.trials) - 1)
        return max(1.0, CLUSTER_GROWTH * (known + self.spread) / (DISPERSION_TRIALS + trials))

    @property
    def spread(self) -> float:
        """Squared deviations of the trials, relative to the binomial variance; of ``len(trials) - 1`` degrees."""
        if self._spread is None:
            self._spread = self._spread_of_trials()
        return self._spread

    def _spread_of_trials(self) -> float:
        if self.responses is None or len(self.trials) < 2:
            return 0.0
        level = self.responses.percentile(100 * (1 - min(0.5, CLUSTER_FACTOR * self.limit.late_share)))
        counts = [
            (trial.responses.count, trial.responses.over(level)) for trial in self.trials if trial.responses.count
        ]
        share = sum(number for _, number in counts) / self.operations
        if not 0 < share < 1:
            return DISPERSION * (len(self.trials) - 1)
        return math.fsum((number - count * share) ** 2 / (count * share * (1 - share)) for count, number in counts)

    def _falls_short(self) -> bool:
        """True where more operations are missing than the arrivals and a queue within the limit explain."""
        due = self.rate * self.seconds
        waiting = self.rate * self.limit.limit_ns / 1e9 * len(self.trials)
        return due - self.operations > SHORT_ERRORS * math.sqrt(due) + waiting


@dataclass(frozen=True)
class Ceiling:
    """The outcome of a search."""

    verdicts: tuple[Verdict, ...]
    """In the order in which the rates were first tried."""
    answer: Bounds | None
    """The highest rate that meets the limit; None if none was found."""
    nearest: Verdict | None
    """The measured rate nearest to the answer."""
    stopped: str
    """The reason why the search ended, for people."""


def find(
    attempt: Try,
    capacity: Estimate,
    limit: Limit,
    precision: float,
    shortest_s: float = 1.0,
    longest_s: float = 600.0,
) -> Ceiling:
    """Searches between nothing and the capacity, which a closed loop has shown.

    A trial takes at least ``shortest_s``; a search whose trials took ``longest_s`` gives the bounds that it has.
    """
    return _Search(attempt, capacity, limit, precision, shortest_s, longest_s).run()


def judge(attempt: Try, verdict: Verdict, seconds: float, is_spent: Callable[[], bool] = lambda: False) -> bool | None:
    """Repeats trials of a rate until it is clear whether the limit holds, or more are not worth their time."""
    while True:
        verdict.add(attempt(verdict.rate, seconds))
        if verdict.holds is not None or verdict.is_exhausted or is_spent():
            return verdict.holds


class _Search:
    def __init__(
        self, attempt: Try, capacity: Estimate, limit: Limit, precision: float, shortest_s: float, longest_s: float
    ) -> None:
        self._attempt = attempt
        self._capacity = capacity
        self._limit = limit
        self._precision = precision
        self._shortest_s = shortest_s
        self._longest_s = max(longest_s, min(OPERATIONS_MIN / capacity.mean, LONGER_MAX * longest_s))
        self._verdicts: dict[float, Verdict] = {}
        self._top = capacity.mean * (1 - precision / 2)
        """The highest rate that is tried: a rate at the capacity itself has a queue without end."""
        self._capacity_max = capacity.high if math.isfinite(capacity.error) else capacity.mean

    def run(self) -> Ceiling:
        low, high, undecided = self._halve()
        if undecided is None:
            return self._bracketed(low, high)
        return self._fitted(undecided, low, high)

    def _halve(self) -> tuple[float, float | None, float | None]:
        """The highest rate that held, the lowest that failed, and an undecided one in between if there is one."""
        low, high, rate = 0.0, None, self._capacity.mean / 2
        for _ in range(STEPS_MAX):
            holds = self._judged(rate).holds
            if holds is None:
                return low, high, rate
            low, high = (rate, high) if holds else (low, rate)
            if high is None:
                if low >= self._top or self._is_spent():
                    break
                # A limit that all loads keep is common, and one that fails at the top does so at once.
                rate = self._top
            elif high - low <= self._precision * high or high < self._capacity.mean / 1000 or self._is_spent():
                break
            else:
                rate = (low + high) / 2
        return low, high, None

    def _bracketed(self, low: float, high: float | None) -> Ceiling:
        if not low:
            lowest = f"{high or 0.0:,.6g} IOPS, {100 * (high or 0.0) / self._capacity.mean:.2g} % of capacity"
            return self._ceiling(None, f"the limit is missed even at {lowest}")
        if high is None and low < self._top:
            answer = Bounds(low, low, self._capacity_max)
            return self._ceiling(answer, f"more trials would take too long: the limit holds at {low:,.6g} IOPS")
        if high is None:
            answer = Bounds(low, low, max(low, self._capacity_max))
            return self._ceiling(answer, "the limit holds up to the capacity of the target")
        answer = Bounds(low, low, high)
        stopped = f"the bracket is within {1 - low / high:.1%}: {low:,.6g} IOPS held, {high:,.6g} did not"
        return self._ceiling(answer, stopped)

    def _fitted(self, undecided: float, low: float, high: float | None) -> Ceiling:
        """Tries two rates around an undecided one until the crossing is known to the precision."""
        near, around, answer = undecided, AROUND_FIRST, None
        rounds = 0
        while not self._is_spent():
            for rate in (near * (1 - around), near * (1 + around)):
                self._try(min(rate, self._top), ROUND_GROWTH**rounds)
            found = self._crossing(near)
            if found is None:
                # If no operation or every operation is late, there is no line: the crossing is farther that way.
                near = min(near * (1 + around if self._is_early(near) else 1 - around), self._top)
                continue
            answer = self._bounded(found, low, high)
            rounds += 1
            if rounds >= ROUNDS_MIN and self._is_precise(answer):
                return self._ceiling(answer, "the bounds of the rate are within the precision")
            if abs(found.rate / near - 1) > around:
                near = min(max(found.rate, near * (1 - around)), near * (1 + around), self._top)
                around = min(max(AROUND_LOGITS / found.slope, AROUND_MIN), AROUND_MAX)
        answer = answer or Bounds(undecided, low or None, high)
        return self._ceiling(answer, "more trials would take too long: the rate is known only to its bounds")

    def _is_early(self, near: float) -> bool:
        """True where fewer operations than allowed are late around a rate."""
        used = [verdict for verdict in self._verdicts.values() if abs(verdict.rate / near - 1) <= FITTED_AROUND]
        late, operations = sum(verdict.late for verdict in used), sum(verdict.operations for verdict in used)
        return late <= operations * self._limit.late_share

    def _is_spent(self) -> bool:
        """True where the search has taken long enough."""
        return math.fsum(verdict.seconds for verdict in self._verdicts.values()) >= self._longest_s

    def _is_precise(self, answer: Bounds) -> bool:
        if answer.low is None or answer.high is None:
            return False
        return answer.high - answer.low <= 2 * self._precision * answer.value

    def _crossing(self, near: float) -> Crossing | None:
        used = [verdict for verdict in self._verdicts.values() if abs(verdict.rate / near - 1) <= FITTED_AROUND]
        freedom = DISPERSION_TRIALS + sum(len(verdict.trials) - 1 for verdict in used)
        # One dispersion for all: a rate that happened to have many late operations must not count for less.
        spread = math.fsum(verdict.spread for verdict in used)
        dispersion = CLUSTER_GROWTH * (DISPERSION * DISPERSION_TRIALS + spread) / freedom
        counts = [
            (verdict.rate, count / max(1.0, dispersion), late / max(1.0, dispersion))
            for verdict in used
            for count, late in verdict.counts
        ]
        return crossing(counts, self._limit.late_share, near, freedom)

    def _bounded(self, found: Crossing, low: float, high: float | None) -> Bounds:
        """Rates that held or failed for sure bound what the fit leaves open, and so does the capacity."""
        value = min(found.rate, self._capacity.mean)
        upper = min(one for one in (found.high, high, self._capacity_max) if one is not None)
        return Bounds(value, found.low or low or None, max(upper, value))

    def _judged(self, rate: float) -> Verdict:
        verdict = self._verdicts.setdefault(rate, Verdict(rate, self._limit))
        judge(self._attempt, verdict, self._trial_s(rate), self._is_spent)
        return verdict

    def _try(self, rate: float, longer: float) -> None:
        verdict = self._verdicts.setdefault(rate, Verdict(rate, self._limit))
        for _ in range(ROUND_TRIALS):
            verdict.add(self._attempt(rate, longer * self._trial_s(rate)))

    def _trial_s(self, rate: float) -> float:
        return self._limit.trial_s(rate, self._shortest_s, self._precision)

    def _ceiling(self, answer: Bounds | None, stopped: str) -> Ceiling:
        verdicts = tuple(self._verdicts.values())
        nearest = min(verdicts, key=lambda one: abs(one.rate - answer.value)) if answer else None
        return Ceiling(verdicts, answer, nearest, stopped)
