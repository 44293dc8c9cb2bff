"""A directory of results as a history: figures over runs, and the runs at which they changed.

Changes of level are found as within a run (``iocurve.analysis.level_changes``): of series without a change, at most
1 in 100 shows one. A step divides the series, and each part is searched again.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property

import msgspec

from iocurve.analysis.compare import Bounded, figure_interval
from iocurve.analysis.level_changes import CHANGE_MIN, VALUES_MIN, Drift, LevelStep, level_change
from iocurve.analysis.matching import point_key
from iocurve.result.document import Point, Result

FALSE_ALARMS = 0.01
"""Share of series without a change in which one is found; ``docs/truth.md`` counts it."""
RUNS_MIN = VALUES_MIN
"""Fewer runs are not searched for changes."""
SMALLEST = CHANGE_MIN
"""Smaller changes are not reported."""


class HistoryRun(msgspec.Struct, frozen=True):
    """A result of a history."""

    source: str
    """Path of the result."""
    result: Result


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


def histories(runs: Sequence[HistoryRun], names: Sequence[str]) -> list[Series]:
    """The series of each point, by name, family and axes, in the order of their first run; ``runs`` are in order."""
    found: dict[tuple[Hashable, str], list[tuple[int, Point, Bounded]]] = {}
    for number, run in enumerate(runs):
        for point in run.result.points:
            for name in names:
                value = figure_interval(point, name)
                if value is not None:
                    found.setdefault((point_key(point), name), []).append((number, point, value))
    return [
        Series(
            entries[0][1].name,
            entries[0][1].family,
            name,
            tuple(number for number, _, _ in entries),
            tuple(value for _, _, value in entries),
        )
        for (_, name), entries in found.items()
    ]


def _levels(values: Sequence[float], first: int) -> list[Level]:
    change = level_change(values)
    last = first + len(values) - 1
    if isinstance(change, LevelStep):
        return [*_levels(values[: change.index], first), *_levels(values[change.index :], first + change.index)]
    if isinstance(change, Drift):
        return [Level(first, last, change.first, change.last)]
    mean = sum(values) / len(values)
    return [Level(first, last, mean, mean)]
