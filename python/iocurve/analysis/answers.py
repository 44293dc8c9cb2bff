"""Answers the question of a scenario that asks for a gain: of more connections, of more clients, of another target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from iocurve.analysis.families import Family, MeasuredPoint
from iocurve.analysis.gains import Gain, gain_of
from iocurve.analysis.headlines import Headline, mark_of
from iocurve.analysis.load_names import load_name, rate_unit, workers_of
from iocurve.result.document import Axis, Result

LISTED_MAX = 4
"""Most gains in the detail of the answer."""
NOUNS = {"nconnect": "connections", "clients": "clients"}


_Compared = tuple[MeasuredPoint, MeasuredPoint, Gain]
"""The base, the other point and its gain."""


def answer_of(result: Result, families: Sequence[Family]) -> list[Headline]:
    """The answer as the first headline; none where the scenario asks for no gain or where it was not measured."""
    scenario = result.scenario
    if scenario is None or not scenario.answer:
        return []
    found = list(_by_axis(scenario.answer, families))
    if not found:
        return []
    values: dict[str, str] = {}
    for _, other, gain in found:
        values.setdefault(_kinds(other), f"{gain.ratio:.2f} × {_kinds(other)}")
    detail = " · ".join(f"{_place(other)}: {gain.full_text}" for _, other, gain in found[:LISTED_MAX])
    mark = mark_of([member.point for base, other, _ in found[:LISTED_MAX] for member in (base, other)])
    before, after = (member.point.axes[scenario.answer] for member in found[0][:2])
    noun = f" {NOUNS[scenario.answer]}" if scenario.answer in NOUNS else ""
    return [Headline(", ".join(values.values()), "", f"{after}{noun} instead of {before}", detail, mark=mark)]


def _by_axis(axis: str, families: Iterable[Family]) -> Iterator[_Compared]:
    """The points at the last value of an axis, compared with those at the first."""
    for family in families:
        values = list(dict.fromkeys(member.point.axes[axis] for member in family.members if axis in member.point.axes))
        if len(values) > 1:
            sides = [_by_load(family, axis, value) for value in (values[0], values[-1])]
            yield from _fastest_of_each_kind(sides[0], sides[1])


def _by_load(family: Family, axis: str, value: Axis) -> dict[object, MeasuredPoint]:
    """The points at one value of an axis, by their places on the others."""
    return {
        tuple((name, place) for name, place in member.point.axes.items() if name != axis): member
        for member in family.members
        if member.point.axes.get(axis) == value
    }


def _fastest_of_each_kind(
    bases: dict[object, MeasuredPoint], others: dict[object, MeasuredPoint]
) -> Iterator[_Compared]:
    """For each kind of operation the load with the highest rate. It is chosen by its rate and not by its gain."""
    fastest: dict[tuple[str, ...], tuple[MeasuredPoint, MeasuredPoint]] = {}
    for load, other in others.items():
        kinds = tuple(other.summary.kinds)
        if load in bases and (kinds not in fastest or other.summary.iops > fastest[kinds][1].summary.iops):
            fastest[kinds] = (bases[load], other)
    for base, other in fastest.values():
        gain = gain_of(other, base, rate_unit(workers_of(other.point)))
        if gain is not None:
            yield base, other, gain


def _kinds(member: MeasuredPoint) -> str:
    """``reads``, ``writes``, ``reads and writes``."""
    return " and ".join(f"{kind}s" for kind in member.summary.kinds)


def _place(member: MeasuredPoint) -> str:
    """``4 KiB random reads at depth 256``."""
    depth = f" at depth {member.axis('depth'):g}" if "depth" in member.point.axes else ""
    return f"{load_name(workers_of(member.point))}{depth}"
