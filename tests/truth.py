"""``make truth``: measures how often iocurve's conclusions are true, and writes the tables of docs/truth.md.

Each section is a function that gives rows; its table lies between two marks in the page, so that sections can be
measured by themselves: ``python tests/truth.py intervals steps``. A new section needs a function, a line in
``SECTIONS`` and its two marks in the page.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median

import simulated
from iocurve.analysis.level_changes import Drift, Step
from iocurve.measure.search import ceiling, knee
from iocurve.result.stats import Estimate, series_mean

PAGE = Path(__file__).parent.parent / "docs" / "truth.md"
SEED = 1
QUEUE_IOPS = 1_000.0
"""Capacity of the simulated queues; another one only scales time."""


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    case: str
    expected: str
    measured: str
    runs: int


Section = Callable[[float], Iterator[Row]]
"""Gives rows; the argument scales the number of runs."""


def intervals(scale: float) -> Iterator[Row]:
    runs = max(1, round(1000 * scale))
    for count in (20, 30, 60, 200):
        for correlation in (0.0, 0.3, 0.5, 0.7, 0.9):
            counted = simulated.coverage(series_mean, count, correlation, runs, seed=SEED)
            declined = f", {counted.declined} declined" if counted.declined else ""
            expected = "93 to 97 %" if correlation <= 0.7 else "at least 90 %"
            yield Row(f"{count} values, rho = {correlation:g}", expected, f"{counted.share:.1%}{declined}", runs)
    for count in (20, 60, 200):
        counted = simulated.coverage(series_mean, count, 0.9, runs, share=0.5, seed=SEED)
        yield Row(f"{count} values, rho = 0.9 under as much white noise", "no promise", f"{counted.share:.1%}", runs)


def stopping(scale: float) -> Iterator[Row]:
    runs = max(1, round(1000 * scale))
    for correlation in (0.0, 0.3, 0.5, 0.7, 0.9):
        for deviation in (0.01, 0.03, 0.06):
            counted = simulated.coverage_when_stopped(correlation, deviation, runs, seed=SEED)
            expected = "93 to 97 %" if correlation <= 0.7 else "at least 90 %"
            measured = f"{counted.share:.1%}, after {counted.length / runs:.0f} values"
            yield Row(f"rho = {correlation:g}, sd {deviation:.0%}", expected, measured, runs)


def gains(scale: float) -> Iterator[Row]:
    runs = max(1, round(2000 * scale))
    for rounds in (4, 6, 12):
        for members in (2, 3, 8):
            for correlation, drift in ((0.0, 0.0), (0.3, 0.0), (0.5, 0.0), (0.7, 0.0), (0.9, 0.0), (0.5, 0.3)):
                counted = simulated.gain_coverage(members, rounds, correlation, drift, runs, seed=SEED)
                drifted = f", {drift:.0%} lost" if drift else ""
                case = f"{rounds} rounds of {members} points, rho = {correlation:g}{drifted}"
                measured = f"{counted.share:.1%}, ±{counted.widths / runs:.1%}"
                yield Row(case, "93 to 97 %" if correlation <= 0.7 else "at least 90 %", measured, runs)


def steps(scale: float) -> Iterator[Row]:
    runs = max(1, round(1000 * scale))
    for correlation in (0.0, 0.5, 0.7, 0.9):
        for count in (20, 60, 200):
            found = simulated.changes(count, correlation, 0.1, runs, seed=SEED)
            called = 1 - found.count(None) / runs
            yield Row(
                f"no change, {count} values, rho = {correlation:g}, sd 10 %", "at most 1 %", f"{called:.1%}", runs
            )
    runs = max(1, round(200 * scale))
    for correlation in (0.0, 0.5, 0.7, 0.9):
        for count, at in ((60, 30), (60, 56), (200, 100), (200, 4)):
            case = f"fall of 10 % at {at} of {count} values, rho = {correlation:g}, sd 3 %"
            yield Row(case, "at least 95 %", f"{_steps_found(count, at, correlation, runs):.1%} as a step", runs)
    for correlation in (0.0, 0.5, 0.9):
        found = simulated.changes(200, correlation, 0.03, runs, shape=lambda at: 1.15 - 0.3 * at / 199, seed=SEED)
        drifts = sum(isinstance(change, Drift) for change in found) / runs
        yield Row(f"fall of 30 % along 200 values, rho = {correlation:g}, sd 3 %", "a drift", f"{drifts:.1%}", runs)


def _steps_found(count: int, at: int, correlation: float, runs: int) -> float:
    found = simulated.changes(
        count, correlation, 0.03, runs, shape=lambda place: 0.9 if place >= at else 1.0, seed=SEED
    )
    return sum(isinstance(change, Step) and abs(change.index - at) <= 2 for change in found) / runs


def law(scale: float) -> Iterator[Row]:
    runs = max(1, round(1000 * scale))
    for contention, coherency in ((0.03, 0.0002), (0.05, 0.0), (0.0, 0.0)):
        for noise in (0.02, 0.17):
            counted = simulated.law_coverage((1000.0, contention, coherency), noise, runs, seed=SEED)
            case = f"sigma = {contention:g}, kappa = {coherency:g}, sd of a point {noise / math.sqrt(12):.1%}"
            shares = ", ".join(
                f"{name} {held / runs:.1%}"
                for name, held in zip(("lambda", "sigma", "kappa"), counted.held, strict=True)
            )
            yield Row(f"{case}: coverage", "93 to 97 %", shares, runs)
            yield Row(f"{case}: misfit called", "at most 5 %", f"{counted.misfits / runs:.1%}", runs)


CURVES: dict[str, tuple[Callable[[float], float], float]] = {
    "min(N/5 ms, 20,000)": (lambda n: min(n / 0.005, 20_000), 20_000),
    "20,000 tanh(N/40)": (lambda n: 20_000 * math.tanh(n / 40), 20_000),
    "USL, sigma = 0.05, kappa = 0": (lambda n: 1_000 * n / (1 + 0.05 * (n - 1)), 20_000),
    "USL, sigma = 0.01, kappa = 0": (lambda n: 200 * n / (1 + 0.01 * (n - 1)), 20_000),
}


def capacity(scale: float) -> Iterator[Row]:
    runs = max(1, round(200 * scale))
    for name, (rate, true) in CURVES.items():
        found = [knee.find(_closed(rate, seed), 4096) for seed in range(runs)]
        bias = fmean(one.capacity_iops.mean for one in found) / true - 1
        held = sum(one.capacity_iops.low <= true <= one.capacity_iops.high for one in found)
        yield Row(f"{name}: capacity", "bias below 0.5 %", f"{bias:+.2%}; interval holds in {held / runs:.1%}", runs)
        for place, share in enumerate(knee.SHARES):
            depth = _true_depth(rate, share * true)
            depths = [one.shares[place] for one in found]
            held = sum((one.low or 0) <= depth <= (one.high or math.inf) for one in depths)
            off = median(one.in_flight for one in depths) / depth - 1
            measured = f"median off by {off:+.1%}; interval holds in {held / runs:.1%}"
            yield Row(f"{name}: depth for {share:.0%}", f"{depth:,.0f}", measured, runs)


def _closed(rate: Callable[[float], float], seed: int) -> knee.Measure:
    def measure(in_flight: int) -> knee.Sample:
        chance = random.Random(f"{SEED} {seed} {in_flight}")
        rates = [rate(in_flight) * chance.gauss(1, 0.01) for _ in range(30)]
        return knee.Sample(in_flight, series_mean(rates), series_mean([1e9 * in_flight / one for one in rates]))

    return measure


def _true_depth(rate: Callable[[float], float], wanted: float) -> float:
    low, high = 1.0, 4096.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if rate(middle) >= wanted else (middle, high)
    return high


def most_load(scale: float) -> Iterator[Row]:
    runs = max(1, round(200 * scale))
    for rate in (50.0, 300.0, 1_000.0, 10_000.0, 100_000.0):
        yield _searched(f"1 ms up to {rate:,.0f} IOPS, then late", rate, rate, partial(_sharp, rate), 2e6, runs)
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
    return Row(name, "95 % hold; within 3 %", measured, runs)


def _sharp(capacity: float, seed: int) -> ceiling.Try:
    chance = random.Random(f"{SEED} {seed}")

    def attempt(rate: float, seconds: float) -> ceiling.Trial:
        due = min(rate, capacity) * seconds
        count = max(0, round(due + math.sqrt(due) * chance.gauss(0, 1)))
        late_ns = 1e6 + max(0.0, rate / capacity - 1) * seconds * 1e9
        return ceiling.Trial(seconds, simulated.SortedResponses((late_ns,) * count))

    return attempt


SECTIONS: dict[str, Section] = {
    "intervals": intervals,
    "stopping": stopping,
    "gains": gains,
    "steps": steps,
    "law": law,
    "capacity": capacity,
    "most-load": most_load,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make truth", description=__doc__)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], help="all, if none is named")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the number of runs")
    options = parser.parse_args(arguments)
    for name in options.sections or SECTIONS:
        began = time.monotonic()
        rows = []
        for row in SECTIONS[name](options.scale):
            print(f"{name}: {row.case}: {row.measured} ({row.expected})", flush=True)
            rows.append(row)
        PAGE.write_text(_with_table(PAGE.read_text(encoding="utf-8"), name, rows), encoding="utf-8")
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    return 0


def _with_table(page: str, name: str, rows: Sequence[Row]) -> str:
    """The page with another table between the marks of a section."""
    before, opening, rest = page.partition(f"<!-- table: {name} -->\n")
    _, closing, after = rest.partition(f"<!-- end: {name} -->\n")
    if not (opening and closing):
        raise SystemExit(f"{PAGE} has no marks for a table named {name}")
    lines = ["| case | expected | measured | runs |", "| --- | --- | --- | ---: |"]
    lines += [f"| {row.case} | {row.expected} | {row.measured} | {row.runs:,} |" for row in rows]
    return before + opening + "\n" + "\n".join(lines) + "\n\n" + closing + after


if __name__ == "__main__":
    sys.exit(main())
