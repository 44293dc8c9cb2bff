"""Measures how often searches find the knee and the highest rate, on simulated targets."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

from bench.truth import simulated
from bench.truth.table import Row, row
from iocurve.measure.search import ceiling
from iocurve.result.stats import Estimate

SEED = 1
QUEUE_IOPS = 1_000.0
"""Capacity of the simulated queues; another one only scales time."""


def most_load(scale: float) -> Iterator[Row]:
    runs = max(1, round(200 * scale))
    for rate in (50.0, 300.0, 1_000.0, 10_000.0, 100_000.0):
        yield _searched(f"1 ms up to {rate:,.0f} IOPS, then late", rate, rate, partial(_sharp, rate), 2e6, runs)
    runs = max(1, round(40 * scale))
    for load in (0.5, 0.8, 0.95):
        limit_ns = 1e9 * _queue(1).limit_at(load, 0.01)
        name = f"M/M/1, capacity {QUEUE_IOPS:,.0f}, p99 limit that holds to {load:.0%} of it"
        yield _searched(name, load * QUEUE_IOPS, QUEUE_IOPS, lambda seed: _queue(seed).trial, limit_ns, runs)


def _queue(seed: int) -> simulated.Queue:
    return simulated.Queue(QUEUE_IOPS, 1, random.Random(f"{SEED} {seed}"))


def _searched(
    name: str, true: float, carried: float, target: Callable[[int], ceiling.Try], limit_ns: float, runs: int
) -> Row:
    held, errors = 0, []
    for seed in range(runs):
        chance = random.Random(f"{SEED} {seed}")
        shown = Estimate(carried * chance.gauss(1, 0.003), 0.003 * carried, 30)
        found = ceiling.find(target(seed), shown, ceiling.Limit(99.0, limit_ns), 0.02)
        if found.answer is None:
            continue
        errors.append(found.answer.value / true - 1)
        held += (found.answer.low or 0.0) <= true <= (found.answer.high or math.inf)
    near = sum(abs(error) <= 0.03 for error in errors)
    measured = f"bracket holds {held / runs:.1%}; median {median(errors):+.1%}; within 3 %: {near / runs:.1%}"
    return row(name, "95 % hold; within 3 %", measured, runs)


def _sharp(capacity: float, seed: int) -> ceiling.Try:
    chance = random.Random(f"{SEED} {seed}")

    def attempt(rate: float, seconds: float) -> ceiling.Trial:
        due = min(rate, capacity) * seconds
        count = max(0, round(due + math.sqrt(due) * chance.gauss(0, 1)))
        late_ns = 1e6 + max(0.0, rate / capacity - 1) * seconds * 1e9
        return ceiling.Trial(seconds, simulated.SortedResponses((late_ns,) * count))

    return attempt
