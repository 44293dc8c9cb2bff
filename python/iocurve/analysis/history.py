"""A directory of results as a history: figures over runs, and the runs at which they changed.

Runs are apart in time and depend little on one another, so a series is searched for runs at another level, whether or
not the level returns after them (``level_changes.segment_change``): of series without a change, at most 1 in 100 shows
one. A change divides the series, and each part is searched again.

Such a change takes three runs. The newest run has its own verdict: whether it is outside of what came before it, which
is what a nightly run wants to know in the morning.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from functools import cached_property
from itertools import pairwise
from statistics import fmean, stdev

import msgspec

from iocurve.analysis.compare import figure_interval
from iocurve.analysis.level_changes import CHANGE_MIN, VALUES_MIN, Drift, level_change, segment_change
from iocurve.analysis.matching import point_key
from iocurve.result.document import Point, Result
from iocurve.result.stats import Bounded, student_tail

FALSE_ALARMS = 0.01
"""Share of series without a change in which one is found; ``docs/evidence/accuracy.md`` counts it."""
RUNS_MIN = VALUES_MIN
"""Fewer runs are not searched for changes."""
SMALLEST = CHANGE_MIN
"""Smaller changes are not reported."""
BEFORE_MIN = 5
"""The newest run is judged by at least this many runs before it."""
NEWEST_P = 0.004
"""Least probability of a newest run that is not outside: those that were outside themselves are left out of the spread,
which makes it too small, so that this is ``FALSE_ALARMS`` in effect."""
SPREAD_MIN = 1e-4
"""Least standard deviation between runs, relative to their mean: figures that are exactly equal are rare."""


HistoryRun = tuple[str, Result]
"""The path of a result of a history, and the result."""


class Level(msgspec.Struct, frozen=True):
    """Runs between two changes."""

    first: int
    """Index of its first run in the series."""
    last: int
    start: float
    """The figure at the first run: the mean of a level, or the end of a straight line where it drifts."""
    end: float

    @property
    def is_drift(self) -> bool:
        """The figure changes steadily."""
        return self.start != self.end


class Newest(msgspec.Struct, frozen=True):
    """The newest run of a series, judged by the runs before it at its level."""

    before: float
    """Mean of these runs."""
    value: float
    p: float
    """Probability of a run as far from their mean, if nothing changed."""

    @property
    def is_outside(self) -> bool:
        """The run is not explained by the spread of those before it, and the difference matters."""
        return self.p < NEWEST_P and abs(self.value - self.before) > SMALLEST * max(self.value, self.before)


class Series(msgspec.Struct, frozen=True, dict=True):
    """One figure of one point over the runs that have it."""

    point: str
    family: str
    name: str
    runs: tuple[int, ...]
    """Indices into the runs of the history."""
    values: tuple[Bounded, ...]

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The levels of the series, one after another; a single one where it did not change."""
        return tuple(_levels([one.value for one in self.values], 0))

    @property
    def newest(self) -> Newest | None:
        """The verdict on the newest run; None where fewer than ``BEFORE_MIN`` runs are before it at its level."""
        level = self.levels[-1]
        values = [one.value for one in self.values[level.first : level.last + 1]]
        return None if level.is_drift else _newest(values)


def _newest(values: Sequence[float]) -> Newest | None:
    """Judges the last value by those before it, of which none was outside when it was the newest."""
    before, found = list(values[:BEFORE_MIN]), None
    for value in values[BEFORE_MIN:]:
        mean = fmean(before)
        spread = max(stdev(before), SPREAD_MIN * mean) * math.sqrt(1 + 1 / len(before))
        p = student_tail(abs(value - mean) / spread, len(before) - 1) if spread else 1.0
        found = Newest(mean, value, p)
        before += [] if found.is_outside else [value]
    return found


def histories(runs: Sequence[HistoryRun], names: Sequence[str]) -> list[Series]:
    """The series of each point, by name, family and axes, in the order of their first run; ``runs`` are in order."""
    found: dict[tuple[tuple[Hashable, int], str], list[tuple[int, Point, Bounded]]] = {}
    for number, (_, result) in enumerate(runs):
        same = Counter[Hashable]()
        for point in result.points:
            same[point_key(point)] += 1
            for name in names:
                value = figure_interval(point, name)
                if value is not None:
                    # Points that a result has twice are two series.
                    key = point_key(point), same[point_key(point)]
                    found.setdefault((key, name), []).append((number, point, value))
    return [
        Series(
            entries[0][1].name + (f" ({occurrence})" if occurrence > 1 else ""),
            entries[0][1].family,
            name,
            tuple(number for number, _, _ in entries),
            tuple(value for _, _, value in entries),
        )
        for ((_, occurrence), name), entries in found.items()
    ]


def _levels(values: Sequence[float], first: int) -> list[Level]:
    last = first + len(values) - 1
    change = level_change(values)
    if isinstance(change, Drift):
        return [Level(first, last, change.first, change.last)]
    if segment := segment_change(values):
        places = [0, segment.start, *([segment.stop] if segment.stop < len(values) else []), len(values)]
        return [level for low, high in pairwise(places) for level in _levels(values[low:high], first + low)]
    mean = fmean(values)
    return [Level(first, last, mean, mean)]
