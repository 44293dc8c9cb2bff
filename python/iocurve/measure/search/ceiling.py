"""The most load at which a latency limit still holds, by an open loop: operations are due at their time.

A rate holds if the latency's percentile over repeated runs is below the limit, and fails if it is above, each with
confidence; only where it stays undecided does its mean decide. The bracket between the highest rate that held and the
lowest that failed is halved until it is narrow enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iocurve.result.stats import Estimate, sample_mean

REPEATS_MIN = 3
REPEATS_MAX = 8
KEPT_UP = 0.98
"""A target that carries less of what is due has failed, whatever its latency."""
STEPS_MAX = 24


@dataclass(frozen=True)
class Trial:
    """One run at a rate."""

    iops: float
    """Carried."""
    latency_ns: float
    """The percentile that is limited, of response times."""


Try = Callable[[float], Trial]


@dataclass(frozen=True)
class Verdict:
    """What repeated runs at one rate say."""

    rate: float
    """Operations per second that were due."""
    iops: Estimate
    latency_ns: Estimate
    holds: bool
    is_sure: bool
    """False: the interval holds the limit, and the mean decided."""


@dataclass(frozen=True)
class Ceiling:
    """What came of a search."""

    verdicts: tuple[Verdict, ...]
    """In the order in which they were tried."""
    best: Verdict | None
    """The highest rate that held; None if none did."""
    failed_rate: float | None
    """The lowest rate that failed; None if none did."""
    stopped: str
    """Why the search ended, for people."""


def find(attempt: Try, capacity_iops: float, limit_ns: float, precision: float) -> Ceiling:
    """Searches between nothing and ``capacity_iops``, which a closed loop has shown."""
    verdicts: list[Verdict] = []
    low, high = 0.0, capacity_iops * (1 + precision)
    rate = capacity_iops * 0.5
    while len(verdicts) < STEPS_MAX:
        verdict = judge(attempt, rate, limit_ns)
        verdicts.append(verdict)
        low, high = (max(low, rate), high) if verdict.holds else (low, min(high, rate))
        if high - low <= precision * high or high < capacity_iops / 1000:
            break
        rate = (low + high) / 2
    held = [verdict for verdict in verdicts if verdict.holds]
    failed = [verdict.rate for verdict in verdicts if not verdict.holds]
    best = max(held, key=lambda verdict: verdict.rate, default=None)
    return Ceiling(tuple(verdicts), best, min(failed, default=None), _why(best, failed, capacity_iops, precision))


def judge(attempt: Try, rate: float, limit_ns: float) -> Verdict:
    """Repeats a rate until it is clear whether the limit holds."""
    trials: list[Trial] = []
    while True:
        trials.append(attempt(rate))
        latency = sample_mean([trial.latency_ns for trial in trials])
        iops = sample_mean([trial.iops for trial in trials])
        if iops.mean < rate * KEPT_UP:
            return Verdict(rate, iops, latency, holds=False, is_sure=True)
        if len(trials) >= REPEATS_MIN and (latency.high <= limit_ns or latency.low > limit_ns):
            return Verdict(rate, iops, latency, holds=latency.mean <= limit_ns, is_sure=True)
        if len(trials) >= REPEATS_MAX:
            return Verdict(rate, iops, latency, holds=latency.mean <= limit_ns, is_sure=False)


def _why(best: Verdict | None, failed: list[float], capacity: float, precision: float) -> str:
    if best is None:
        return f"even {min(failed):,.0f} IOPS, a thousandth of what the target carries, do not keep the limit"
    if not failed or best.rate >= capacity * (1 - precision):
        return "the limit holds up to all that the target carries"
    return f"the highest rate that held and the lowest that failed are within {precision:.1%}"
