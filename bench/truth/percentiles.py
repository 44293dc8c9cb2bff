"""Counts how often the intervals of percentiles, on which checks rely, hold the percentile of the load."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from bench.truth.compared_runs import Load, point
from bench.truth.table import Row, row
from iocurve.result.percentiles import independent_operations, percentile_interval
from iocurve.result.summary import Latency

SEED = 1
INTERVALS = 40
LONG_INTERVALS = 1000
"""Intervals of the long runs that the truth is from, with levels that do not depend on one another."""
LOADS = 20
"""Loads of a row, each drawn by seed."""
PERCENTS = (50.0, 95.0, 99.0)


def percentiles(scale: float) -> Iterator[Row]:
    """Runs of 40 intervals."""
    for correlation in (0.0, 0.5, 0.8):
        for stalls in (False, True):
            runs = max(1, round(10 * scale))
            held, told = np.zeros(len(PERCENTS)), np.zeros(len(PERCENTS))
            for seed in range(LOADS):
                chance = np.random.default_rng([SEED, seed])
                load = Load.drawn(chance, "load", correlation, stalls=stalls)
                truth = _truth(load, chance)
                for _ in range(runs):
                    found = _intervals(load, chance)
                    told += [bounds != (None, None) for bounds in found]
                    held += [_holds(bounds, value) for bounds, value in zip(found, truth, strict=True)]
            shares = zip(PERCENTS, held, told, strict=True)
            measured = ", ".join(f"p{percent:g} {one / max(1, all_):.1%}" for percent, one, all_ in shares)
            name = f"{INTERVALS} intervals, rho = {correlation:g}{', stalls' if stalls else ''}"
            yield row(name, "at least 93 %", measured, runs * LOADS)


def _truth(load: Load, chance: np.random.Generator) -> list[float]:
    long = point(replace(load, correlation=0.0), LONG_INTERVALS, 1.0, chance).summary().service
    return [long.percentile(percent) for percent in PERCENTS]


def _intervals(load: Load, chance: np.random.Generator) -> list[tuple[float | None, float | None]]:
    made = point(load, INTERVALS, 1.0, chance)
    latency: Latency = made.summary().service
    counts = [independent_operations(made, percent) for percent in PERCENTS]
    return [
        (None, None) if count is None else percentile_interval(latency, percent, count)
        for percent, count in zip(PERCENTS, counts, strict=True)
    ]


def _holds(bounds: tuple[float | None, float | None], value: float) -> bool:
    """True if a bound that is given is on its side of the value; without any, nothing is claimed."""
    low, high = bounds
    return bounds != (None, None) and (low is None or low <= value) and (high is None or value <= high)
