"""Groups the points of a result by the kind of limit that held them down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from iocurve.analysis.families import GRID_AXES, MeasuredPoint, PointFamily
from iocurve.analysis.limit_kinds import LIMIT_KINDS, SURE, UNKNOWN, Confidence, next_steps
from iocurve.analysis.load_names import axis_text
from iocurve.result.document import Result

NOT_KNOWN = "the limit is not known"


@dataclass(frozen=True)
class LimitGroup:
    """The points that one kind of limit held down."""

    code: str
    """A key of ``LIMIT_KINDS``."""
    confidence: Confidence
    """How sure the verdict on these points is."""
    name: str
    """The short name of the limit, as in all tables."""
    text: str
    """The limit: ``at the volume's limit of 512 MiB/s``; its short name where the points have different texts. If the
    limit is not sure, the text says first that it is not known."""
    count: int
    points: tuple[str, ...]
    """The points, family by family: ``64 KiB sequential: mix 100:0, 75:25``."""
    next_step: str
    """The step that gets past the limit; of a limit that is only possible, the step that would name it."""


def limit_groups_of(result: Result, families: Sequence[PointFamily]) -> list[LimitGroup]:
    """One group for each kind of limit and confidence, so that each measured point is in one group.

    The group with the most points goes first; those that are only possible, and then unknown limits, go last.
    """
    held: dict[_Verdict, list[tuple[PointFamily, list[MeasuredPoint]]]] = {}
    for family in families:
        for verdict, members in _by_verdict(family).items():
            held.setdefault(verdict, []).append((family, members))
    groups = [_group(result, verdict, parts) for verdict, parts in held.items()]
    return sorted(groups, key=lambda group: (group.confidence not in SURE, group.code == UNKNOWN, -group.count))


_Verdict = tuple[str, Confidence]


def _by_verdict(family: PointFamily) -> dict[_Verdict, list[MeasuredPoint]]:
    found: dict[_Verdict, list[MeasuredPoint]] = {}
    for member in family.members:
        verdict = (member.limit.code, member.limit.confidence) if member.limit else (UNKNOWN, "none")
        found.setdefault(verdict, []).append(member)
    return found


def _group(result: Result, verdict: _Verdict, parts: Sequence[tuple[PointFamily, list[MeasuredPoint]]]) -> LimitGroup:
    code, confidence = verdict
    members = [member for _, of_family in parts for member in of_family]
    limits = [member.limit for member in members if member.limit]
    texts = list(dict.fromkeys(limit.text for limit in limits)) or [NOT_KNOWN]
    steps = next_steps(result.target_of(members[0].point), limits) if limits else _experiment(members)
    if len(texts) == 1:
        points = [_points_text(family, of_family) for family, of_family in parts]
    else:
        points = [text for family, of_family in parts for text in _points_with_limits(family, of_family)]
    return LimitGroup(
        code=code,
        confidence=confidence,
        name=limits[0].short_name if limits else LIMIT_KINDS[UNKNOWN].short_name,
        text=_text(confidence, texts[0] if len(texts) == 1 else limits[0].short_name),
        count=len(members),
        points=tuple(points),
        next_step=" ".join(steps),
    )


def _text(confidence: Confidence, text: str) -> str:
    return f"{NOT_KNOWN}; possibly {text}" if confidence == "possible" else text


def _points_with_limits(family: PointFamily, members: Iterable[MeasuredPoint]) -> list[str]:
    """The points of each text of the limit, with that text."""
    by_text: dict[str, list[MeasuredPoint]] = {}
    for member in members:
        by_text.setdefault(member.limit.text if member.limit else "", []).append(member)
    return [f"{_points_text(family, of_text)}: {text}" for text, of_text in by_text.items()]


def _points_text(family: PointFamily, members: Sequence[MeasuredPoint]) -> str:
    """The points by what distinguishes them in their family: ``4 KiB random read: depth 32, 64``."""
    if len(family.members) == 1:
        return family.title or members[0].point.name
    if not (family.title or family.is_measured_along_axes):
        return _names_of_points(family, members)
    return f"{family.heading}: {_names(family, members)}"


def _names(family: PointFamily, members: Sequence[MeasuredPoint]) -> str:
    if len(members) == len(family.members):
        return "all points"
    if family.is_mix:
        return "mix " + ", ".join(member.mix for member in members)
    if family.is_advice:
        return f"{len(members)} of {len(family.members)} points"
    if family.is_depth:
        return "; ".join(
            _depths(name, series, members)
            for name, series in family.series.items()
            if any(member in members for member in series)
        )
    return _names_of_points(family, members)


def _names_of_points(family: PointFamily, members: Sequence[MeasuredPoint]) -> str:
    """The places of the points on the axes of their family, or their names. A search may measure a point repeatedly."""
    axes = [axis for axis in GRID_AXES if family.varies(axis)]
    names = [
        " ".join(axis_text(axis, member.point.axes[axis]) for axis in axes if axis in member.point.axes)
        or member.point.name
        for member in members
    ]
    return ", ".join(f"{name} (× {count})" if count > 1 else name for name, count in Counter(names).items())


def _depths(name: str, series: Sequence[MeasuredPoint], members: Sequence[MeasuredPoint]) -> str:
    depths = ", ".join(f"{member.axis('depth'):g}" for member in series if member in members)
    return f"{name} at depth {depths}" if name else f"depth {depths}"


def _experiment(members: Sequence[MeasuredPoint]) -> list[str]:
    """The step that would name the limit; an imported load cannot be repeated."""
    return [] if all(member.point.imported for member in members) else [LIMIT_KINDS[UNKNOWN].next_step]
