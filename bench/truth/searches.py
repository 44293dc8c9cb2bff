"""Measures how often searches find the knee and the highest rate, on simulated targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np

from bench.truth import open_loops
from bench.truth.table import Row, row
from iocurve.measure.search import ceiling
from iocurve.result.stats import Bounded, Estimate

SEED = 1
PRECISION, PATIENCE_S = 0.02, 120.0
"""Defaults of ``iocurve max``."""
PATIENT_OPERATIONS = 2_000_000
"""Most operations of a search with the patience that the first one says it needs."""
NARROW = 0.05
"""Half of the bracket of a well-posed case is at most this, relative to the rate, in four of five."""
DRAWN_COLUMNS = ("targets", "bracket holds", "half of it", "well-posed: holds", "half at most 5 %", "half of it there")
SLOW_CAPACITIES, SLOW_OPERATIONS = (20.0, 500.0), 1_000_000


def most_load(scale: float) -> Iterator[Row]:
    """Searches with the default patience: known cases, and cases drawn at random."""
    runs = max(1, round(30 * scale))
    for load in (0.5, 0.8, 0.95):
        for capacity in (50.0, 300.0, 1_000.0, 10_000.0):
            case = open_loops.exponential_case(capacity, load, 0.01)
            name = f"M/M/1, capacity {capacity:,.0f}, p99 limit that holds to {load:.0%} of it"
            yield _searched(name, partial(_same, case), runs)
    for burst in (1, 10, 50, 1_000):
        for capacity in (50.0, 300.0, 1_000.0, 10_000.0):
            case = open_loops.bucket_case(capacity, burst, 1e-3, 2.0, 0.01)
            name = f"token bucket, {capacity:,.0f} IOPS, burst {burst:,}, p99 limit twice the base"
            yield _searched(name, partial(_same, case), runs)
    for family in open_loops.FAMILIES:
        if family != "M/M/c":
            yield _patient(family, runs)
    for family in ("M/M/1", "token bucket", *open_loops.HEAVY):
        yield _slow(family, runs)


@dataclass(frozen=True)
class Searched:
    """A search on a drawn target."""

    held: bool
    half: float
    """Half of the bracket, relative to the true rate."""
    is_well_posed: bool

    @classmethod
    def of(cls, family: str, seed: int) -> Searched:
        """The target that a seed gives."""
        chance = np.random.default_rng([SEED, seed, *f"{family}, drawn at random".encode()])
        case = open_loops.drawn(family, chance)
        is_well_posed = open_loops.is_well_posed(case, np.random.default_rng([SEED, seed]), PATIENCE_S)
        answer = _found(case, chance, PATIENCE_S).answer or Bounded(case.rate, None, math.inf)
        low, high = answer.low or 0.0, answer.high or math.inf
        return cls(low <= case.rate <= high, (high - low) / 2 / case.rate, is_well_posed)


def loads_drawn(scale: float) -> Iterator[Row]:
    """Searches with the default patience on drawn targets, and those that an ideal experiment could answer in it."""
    runs, every = max(1, round(40 * scale)), []
    for family in open_loops.FAMILIES:
        found = [Searched.of(family, seed) for seed in range(runs)]
        every += found
        yield _drawn_row(family, found)
    yield _drawn_row("all", every)


def _drawn_row(family: str, every: Sequence[Searched]) -> Row:
    posed = [one for one in every if one.is_well_posed]
    narrow = sum(one.half <= NARROW for one in posed)
    wide = f"±{median(one.half for one in every):.0%}"
    half = f"±{median(one.half for one in posed):.1%}" if posed else "–"
    counts = [f"{sum(one.held for one in some)} of {len(some)}" for some in (every, posed)]
    return family, counts[0], wide, counts[1], f"{narrow} of {len(posed)}", half


def _same(case: open_loops.Case, _chance: np.random.Generator) -> open_loops.Case:
    return case


def _searched(name: str, made: Callable[[np.random.Generator], open_loops.Case], runs: int) -> Row:
    held, errors, precise, widths = 0, [], 0, []
    for seed in range(runs):
        chance = np.random.default_rng([SEED, seed, *name.encode()])
        case = made(chance)
        found = _found(case, chance, PATIENCE_S)
        precise += found.ending != "patience"
        if found.answer is None or found.answer.high is None:
            continue
        errors.append(found.answer.value / case.rate - 1)
        widths.append((found.answer.high - (found.answer.low or 0.0)) / 2 / case.rate)
        held += (found.answer.low or 0.0) <= case.rate <= found.answer.high
    near = sum(abs(error) <= 0.03 for error in errors)
    measured = (
        f"bracket holds {held / runs:.1%}; median {median(errors):+.1%}; within 3 %: {near / runs:.0%}; half of the "
        f"bracket {median(widths):.1%}; precision reached {precise / runs:.0%}"
    )
    return row(name, "95 % hold; within 3 %, or the patience that it needs", measured, runs)


def _patient(family: str, runs: int) -> Row:
    """Searches that are repeated with the patience that the answer of the first says, if that is simulated soon."""
    name = f"{family}, drawn at random, with the patience that its answer says"
    held, errors, precise, patience = 0, [], 0, []
    for seed in range(runs):
        chance = np.random.default_rng([SEED, seed, *f"{family}, patient".encode()])
        case = open_loops.drawn(family, chance)
        needed_s = _found(case, chance, PATIENCE_S).needed_s
        if needed_s is None or needed_s * case.rate > PATIENT_OPERATIONS:
            continue
        found = _found(case, chance, needed_s)
        patience.append(needed_s)
        precise += found.ending != "patience"
        if found.answer is None or found.answer.high is None:
            continue
        errors.append(found.answer.value / case.rate - 1)
        held += (found.answer.low or 0.0) <= case.rate <= found.answer.high
    near, repeated = sum(abs(error) <= 0.03 for error in errors), len(patience)
    measured = f"bracket holds {held}; within 3 %: {near}; precision reached {precise}"
    if patience:
        measured += f"; patience {median(patience) / 60:,.0f} min in the median, {max(patience) / 60:,.0f} at most"
    return row(name, "within 3 %", measured, repeated)


def _slow(family: str, runs: int) -> Row:
    """Searches at low rates, for as long as they say they need or a number of operations takes."""
    held, precise, wrong = 0, 0, 0
    for seed in range(runs):
        chance = np.random.default_rng([SEED, seed, *f"{family}, slow".encode()])
        case = open_loops.drawn(family, chance, SLOW_CAPACITIES)
        found = _found(case, chance, PATIENCE_S)
        if found.needed_s is not None:
            found = _found(case, chance, min(found.needed_s, SLOW_OPERATIONS / case.rate))
        if found.answer is None or found.answer.high is None:
            continue
        held += (found.answer.low or 0.0) <= case.rate <= found.answer.high
        if found.ending != "patience":
            precise += 1
            wrong += abs(found.answer.value / case.rate - 1) > 0.03
    measured = f"bracket holds {held / runs:.0%}; precision reached {precise}, beyond 3 % of these: {wrong}"
    name = f"{family}, drawn at random, capacity 20 to 500, up to 1 million operations"
    return row(name, "95 % hold; none beyond 3 % with the precision reached", measured, runs)


def _found(case: open_loops.Case, chance: np.random.Generator, patience_s: float) -> ceiling.Ceiling:
    shown = Estimate(case.capacity * (1 + 0.003 * chance.standard_normal()), 0.003 * case.capacity, 30)
    budget = ceiling.Budget(PRECISION, patience_s)
    return ceiling.find(open_loops.attempts(case, chance), shown, case.limit, budget)
