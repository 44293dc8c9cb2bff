"""Counts how often comparisons of results find a difference where there is none, and where there is one."""

from __future__ import annotations

from collections.abc import Iterator

from bench.truth.compared_runs import Counted, Runs, Turns, counted
from bench.truth.table import Row, row

SEED = 1
DRAWN_TURNS = 6
"""Times as many comparisons of A with A for turns under the noise that is hardest to tell."""
FIGURES = {"iops": "IOPS", "p50_us": "p50", "p99_us": "p99"}


def compared(scale: float) -> Iterator[Row]:
    """A against A, A against 1.05 A and A against 1.2 A, for single runs and for turns."""
    for name, case, most in _cases():
        runs = max(1, round(most * scale))
        # 1,000 comparisons would show 5 % as anything from 3.7 to 6.5 %.
        more = runs * DRAWN_TURNS if isinstance(case, Turns) and case.deviation is None else runs
        same = counted(case, 1.0, more, SEED)
        yield row(f"{name}: A against A, any difference", "at most 5 %", f"{same.different / more:.1%}", more)
        for speed in (1.05, 1.2):
            found = counted(case, speed, runs, SEED)
            yield row(f"{name}: A against {speed:g} A, faster", "", _power(found), runs)
        told = ", ".join(f"{text} {same.share(figure, 'no difference'):.0%}" for figure, text in FIGURES.items())
        yield row(f"{name}: A against A, no difference of 10 % or more", "", told, more)


def _cases() -> Iterator[tuple[str, Runs | Turns, int]]:
    for correlation in (0.0, 0.5, 0.7, 0.9):
        yield f"1 load, 30 intervals, rho = {correlation:g}", Runs(correlation=correlation), 200
    yield "1 load, 120 intervals, any rho to 0.9", Runs(intervals=120, correlation=None), 100
    yield "1 load, 30 intervals, any rho, stalls", Runs(correlation=None, stalls=True), 200
    yield "8 loads, 30 intervals, any rho", Runs(loads=8, correlation=None), 60
    yield "8 loads, 30 intervals, any rho, stalls", Runs(loads=8, correlation=None, stalls=True), 60
    for rounds in (3, 5, 10):
        for deviation in (0.01, 0.03):
            yield f"turns, 2 × {rounds} runs, sd {deviation:.0%}", Turns(rounds, deviation), 1000
        yield f"turns, 2 × {rounds} runs, any correlation, sd and drift", Turns(rounds, None), 1000


def _power(found: Counted) -> str:
    wrong = max(found.share(figure, "slower") for figure in FIGURES)
    shares = ", ".join(f"{text} {found.share(figure, 'faster'):.0%}" for figure, text in FIGURES.items())
    return f"{shares}; slower {wrong:.1%} at most"
