"""Groups the points of a result by the kind of limit that held them down, and advises on twice the fastest point."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from iocurve.analysis.families import GRID_AXES, PointFamily
from iocurve.analysis.headlines import Headline
from iocurve.analysis.limit_kinds import (
    LIMIT_KINDS,
    SURE,
    UNKNOWN,
    Confidence,
    is_sure,
    kind_of,
    may_be_of_burst,
    next_steps,
)
from iocurve.analysis.load_names import axis_text
from iocurve.foundation.units import (
    MIB,
    TIB,
    capitalised,
    counted,
    format_bytes,
    format_count,
    format_latency,
    format_number,
)
from iocurve.result.document import Limit, Point, Result, TargetFacts
from iocurve.result.stalls import Condition

NOT_KNOWN = "the limit is not known"


class LimitGroup(msgspec.Struct, frozen=True):
    """The points that one kind of limit held down."""

    code: str
    """A key of ``LIMIT_KINDS``."""
    confidence: Confidence
    """Confidence of the verdict on these points."""
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
    held: dict[_Verdict, list[tuple[PointFamily, list[Point]]]] = {}
    for family in families:
        for verdict, members in _by_verdict(family).items():
            held.setdefault(verdict, []).append((family, members))
    groups = [_group(result, verdict, parts) for verdict, parts in held.items()]
    return sorted(groups, key=lambda group: (group.confidence not in SURE, group.code == UNKNOWN, -group.count))


_Verdict = tuple[str, Confidence]


def _by_verdict(family: PointFamily) -> dict[_Verdict, list[Point]]:
    found: dict[_Verdict, list[Point]] = {}
    for member in family.members:
        verdict = (member.limit.code, member.limit.confidence) if member.limit else (UNKNOWN, "none")
        found.setdefault(verdict, []).append(member)
    return found


def _group(result: Result, verdict: _Verdict, parts: Sequence[tuple[PointFamily, list[Point]]]) -> LimitGroup:
    code, confidence = verdict
    members = [member for _, of_family in parts for member in of_family]
    limits = [member.limit for member in members if member.limit and code != UNKNOWN]
    texts = list(dict.fromkeys(limit.text for limit in limits)) or [NOT_KNOWN]
    steps = next_steps(result.target_of(members[0]), limits) if limits else _experiment(members)
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


def _points_with_limits(family: PointFamily, members: Iterable[Point]) -> list[str]:
    """The points of each text of the limit, with that text."""
    by_text: dict[str, list[Point]] = {}
    for member in members:
        by_text.setdefault(member.limit.text if member.limit else "", []).append(member)
    return [f"{_points_text(family, of_text)}: {text}" for text, of_text in by_text.items()]


def _points_text(family: PointFamily, members: Sequence[Point]) -> str:
    """The points by what distinguishes them in their family: ``4 KiB random read: depth 32, 64``."""
    if len(family.members) == 1:
        return family.title or members[0].name
    if not (family.title or family.is_measured_along_axes):
        return _names_of_points(family, members)
    return f"{family.heading}: {_names(family, members)}"


def _names(family: PointFamily, members: Sequence[Point]) -> str:
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


def _names_of_points(family: PointFamily, members: Sequence[Point]) -> str:
    """The places of the points on the axes of their family, or their names. A search may measure a point repeatedly."""
    axes = [axis for axis in GRID_AXES if family.varies(axis)]
    names = [
        " ".join(axis_text(axis, member.axes[axis]) for axis in axes if axis in member.axes) or member.name
        for member in members
    ]
    return ", ".join(f"{name} (× {count})" if count > 1 else name for name, count in Counter(names).items())


def _depths(name: str, series: Sequence[Point], members: Sequence[Point]) -> str:
    depths = ", ".join(f"{member.axis('depth'):g}" for member in series if member in members)
    return f"{name} at depth {depths}" if name else f"depth {depths}"


def _experiment(members: Sequence[Point]) -> list[str]:
    """The step that would name the limit; an imported load cannot be repeated."""
    return [] if all(member.imported for member in members) else [LIMIT_KINDS[UNKNOWN].next_step]


class Twice(msgspec.Struct, frozen=True):
    """The changes for twice the rate, and for half the latency, of one point."""

    point: str
    for_rate: str
    for_latency: str

    @property
    def lines(self) -> list[str]:
        """``For twice the throughput: …``; empty where nothing is known."""
        rows = (("For twice the throughput", self.for_rate), ("For half the latency", self.for_latency))
        return [f"{what}: {change} (fastest point: {self.point})." for what, change in rows if change]


def twice_of(result: Result, verdicts: tuple[Limit | None, ...]) -> Twice | None:
    """The advice for the point with the highest throughput; None where its verdict is not sure."""
    pairs = [(point, limit) for point, limit in zip(result.points, verdicts, strict=True) if not point.imported]
    sure = [(point, limit) for point, limit in pairs if limit and is_sure(limit) and point.summary().iops > 0]
    if not sure:
        return None
    point, limit = max(sure, key=lambda pair: pair[0].summary().bytes_per_s)
    fastest = max((one for one, _ in pairs), key=lambda one: one.summary().bytes_per_s)
    if fastest is not point:
        return None
    target = result.target_of(point)
    found = Twice(point.name, _for_rate(point, limit, target), _for_latency(point, limit, target))
    return found if found.lines else None


def _connections(point: Point) -> int:
    axis = point.axes.get("nconnect")
    return axis if isinstance(axis, int) else 1


def _for_rate(point: Point, limit: Limit, target: TargetFacts) -> str:
    change = _raised(point, limit, target)
    return f"{change}, once its sustained rate is known" if change and may_be_of_burst(limit.code, target) else change


def _raised(point: Point, limit: Limit, target: TargetFacts) -> str:
    summary = point.summary()
    if limit.code == "volume_throughput":
        return _quota(target, summary.bytes_per_s)
    return kind_of(limit.code).twice.format(
        iops2=f"{format_count(2 * summary.iops)} IOPS",
        mib2=f"{format_number(2 * summary.bytes_per_s / MIB, 4)} MiB/s",
        connections2=f"{2 * _connections(point)} connections",
        depth2=format_number(round(2 * summary.concurrency_achieved), 4),
        latency=format_latency(summary.service.mean_ns),
    )


def _quota(target: TargetFacts, bytes_per_s: float) -> str:
    """The quota by the formula of the service level: each TiB more gives the same, up to the level's ceiling."""
    wanted = f"{format_number(2 * bytes_per_s / MIB, 4)} MiB/s"
    gain, quota, cap = target.next_tib_bytes_per_s, target.quota_bytes, target.throughput_bytes_per_s
    raised = f"raise the volume's limit to {wanted}"
    if gain is None or quota is None or cap is None or (target.speed or 1) != 1:
        return raised
    # Only advice on a quota needs the profiles; a run loads this module to measure.
    from iocurve.model.links import service_level_throughput

    ceiling = service_level_throughput(target.service_level)
    is_beyond = gain <= 0 if ceiling is None else 2 * cap > ceiling
    if is_beyond:
        ends = f" at {format_number(ceiling / MIB, 4)} MiB/s" if ceiling else ""
        other = f"iocurve size --throughput {2 * bytes_per_s / MIB:.0f}MiB/s"
        return f"this service level ends{ends}: use another level or several volumes ({other})"
    if gain <= 0:
        # The limit was set by hand, below that of the quota.
        return raised
    needed = quota + round(cap / gain * TIB)
    step = f"{format_number(gain / MIB, 4)} MiB/s for each TiB"
    return f"{wanted} need a quota of {format_bytes(needed)} at this level ({step})"


def _for_latency(point: Point, limit: Limit, target: TargetFacts) -> str:
    summary = point.summary()
    flying, mean_ns = summary.concurrency_achieved, summary.service.mean_ns
    own_ns = target.latency_mean_ns or 0
    if kind_of(limit.code).has_queue and flying >= 2:
        if own_ns and mean_ns / 2 < own_ns:
            return f"the volume itself adds {format_latency(own_ns)}: half of {format_latency(mean_ns)} is below that"
        half = max(1, round(flying / 2))
        return (
            f"{half} in flight instead of {round(flying)} have the same rate and wait half as long, by Little's law "
            f"({format_number(summary.iops, 4)}/s × {format_latency(mean_ns / 2)} = {format_number(flying / 2, 3)})"
        )
    if limit.code == "depth":
        return "the target answers as fast as it does: nothing waits in a queue"
    return ""


def bought_of(result: Result, verdicts: Sequence[Limit | None], twice: Twice | None) -> str:
    """The limits that were bought, the rate reached, its limit, and the change for twice; empty without a purchase."""
    target = result.target
    points = [(point, limit) for point, limit in zip(result.points, verdicts, strict=True) if point.summary().iops]
    if target.kind == "embedded_volume" or not (target.service_level and target.quota_bytes and points):
        return ""
    unit = "MiB/s" if any(cap.quantity == "bytes_per_s" for cap in target.caps) else "IOPS"
    point, limit = max(points, key=lambda one: getattr(one[0].figures, "mib_per_s" if unit == "MiB/s" else "iops"))
    kinds = {"any", *point.summary().kinds} if len(point.summary().kinds) == 1 else {"any"}
    counted_here = [
        cap.value / (MIB if unit == "MiB/s" else 1)
        for cap in target.caps
        if cap.scope == "volume" and cap.kind in kinds and (cap.quantity == "bytes_per_s") == (unit == "MiB/s")
    ]
    had = (point.figures.mib_per_s if unit == "MiB/s" else point.figures.iops) or 0.0
    promised = f"{format_number(min(counted_here), 4)} {unit} " if counted_here else ""
    share = f", {100 * had / min(counted_here):.0f} %" if counted_here else ""
    limited = f"{limit.short_name} ({limit.confidence})" if limit and is_sure(limit) else NOT_KNOWN
    return (
        f"Bought: {promised}({target.service_level}, {format_bytes(target.quota_bytes)}). "
        f"Got: {format_number(had, 4)} {unit}{share} ({point.name}). Bottleneck: {limited}."
        + (f" For twice: {twice.for_rate}." if twice and twice.for_rate else "")
    )


SENTENCES_MAX = 4
RATES_NAMED_MAX = 3


def sentences_of(
    answer: Sequence[Headline],
    headlines: Sequence[Headline],
    groups: Sequence[LimitGroup],
    findings: Sequence[str],
    machine: Condition,
) -> list[str]:
    """The finding of a page, in at most four sentences; limits of this machine are no finding."""
    rates = [f"{one.value} {one.unit} ({one.what})" for one in headlines if one.unit in ("IOPS", "MiB/s")]
    if answer or (headlines and not rates):
        first = [*answer, *headlines][0]
        detail = first.detail.partition(" · ")[0]
        value = f"{first.value} {first.unit}".rstrip()
        found = [f"{capitalised(first.what)}: {value}{f' ({detail})' if detail else ''}."]
    else:
        *others, last = rates[:RATES_NAMED_MAX] or [""]
        verb = "reached" if machine in ("noisy", "CPU-starved") else "sustains"
        found = [f"It {verb} {' and '.join(filter(None, (', '.join(others), last)))}."] if rates else []
    held = [group for group in groups if group.confidence in SURE and not kind_of(group.code).is_of_client]
    of = counted(sum(group.count for group in groups), "point")
    surest = sorted(held, key=lambda group: group.confidence != "certain")[:1]
    shares = (f"{capitalised(one.text)} ({one.confidence}): {one.count} of {of}." for one in surest)
    return [*found, *shares, *findings][:SENTENCES_MAX]
