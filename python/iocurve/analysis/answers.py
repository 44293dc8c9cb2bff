"""Answers the question of a scenario: the highest rates, a gain of more connections, clients, or another target, or the
fewest clients that reach the highest rate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from iocurve.analysis.families import PointFamily
from iocurve.analysis.gains import Gain, gain_of
from iocurve.analysis.headlines import Headline, mark_of, rate_bounds, rate_text
from iocurve.analysis.load_names import KIND_WORDS, RateUnit, load_name, point_unit, workers_of
from iocurve.foundation.units import format_latency
from iocurve.result.document import Axis, Point, Result

LISTED_MAX = 4
"""Most gains in the detail of the answer."""
FAMILIES, FEWEST_CLIENTS = "series", "fewest clients"
"""Answers that are no axis."""
REACHED = 0.95
"""A number of clients that gets this part of the highest rate reaches it."""
NOUNS = {"nconnect": "connections", "clients": "clients"}


_Compared = tuple[Point, Point, Gain]
"""The base, the other point and its gain."""


def answer_of(result: Result, families: Sequence[PointFamily]) -> list[Headline]:
    """The answer as the first headline; none without a question, and where what it asks for was not measured."""
    scenario = result.scenario
    if scenario is None or not scenario.question:
        return []
    if not scenario.answer:
        return _rates(families)
    if scenario.answer == FAMILIES:
        return _rates_of_families(families)
    if scenario.answer == FEWEST_CLIENTS:
        return [headline for family in families if family.varies("clients") for headline in _fewest_clients(family)][:1]
    found = list(_by_axis(scenario.answer, families))
    if not found:
        return []
    values: dict[str, str] = {}
    for _, other, gain in found:
        values.setdefault(_kinds(other), f"{gain.value:.2f} × {_kinds(other)}")
    detail = " · ".join(f"{_place(other)}: {gain.full_text}" for _, other, gain in found[:LISTED_MAX])
    mark = mark_of([member for base, other, _ in found[:LISTED_MAX] for member in (base, other)])
    before, after = (member.axes[scenario.answer] for member in found[0][:2])
    noun = f" {NOUNS[scenario.answer]}" if scenario.answer in NOUNS else ""
    return [Headline(", ".join(values.values()), "", f"{after}{noun} instead of {before}", detail, mark=mark)]


def _rates(families: Sequence[PointFamily]) -> list[Headline]:
    """The highest rate of each kind of operation alone: IOPS, or MiB/s where nothing is counted in IOPS."""
    pure = [
        one for family in families if not family.is_advice for one in family.members if len(one.summary().kinds) == 1
    ]
    units: list[RateUnit] = ["IOPS", "MiB/s"]
    for unit in units:
        alike = [one for one in pure if point_unit(one) == unit]
        kinds = sorted(kind for one in alike for kind in one.summary().kinds)
        found = [_highest(alike, kind) for kind in dict.fromkeys(kinds)]
        best = [member for member in found if member is not None]
        if best:
            break
    else:
        return []
    value = ", ".join(f"{rate_text(member.summary(), unit)} {_kinds(member)}" for member in best)
    told = [f"{_place(member)}: {rate_bounds(member, unit) or 'its interval is not known'}" for member in best]
    told += _throughputs(pure, best) if unit == "IOPS" else []
    detail = " · ".join(told + [text for family in families if (text := _growth(family))][:1])
    return [Headline(value, unit, "highest rates", detail, mark=mark_of(best))]


def _throughputs(members: Sequence[Point], shown: Sequence[Point]) -> list[str]:
    """``64 KiB sequential reads at depth 16: 512 MiB/s``: the most bytes of each kind, of a load that is not shown."""
    most = {
        kind: max((one for one in members if kind in one.summary().kinds), key=lambda one: one.summary().bytes_per_s)
        for member in shown
        for kind in member.summary().kinds
    }
    names = {_place(member) for member in shown}
    return [
        f"{_place(one)}: {rate_text(one.summary(), 'MiB/s')} MiB/s" for one in most.values() if _place(one) not in names
    ]


def _highest(members: Sequence[Point], kind: str) -> Point | None:
    of_kind = [member for member in members if kind in member.summary().kinds]
    return max(of_kind, key=_rate_of, default=None)


def _rate_of(member: Point) -> float:
    is_iops = point_unit(member) == "IOPS"
    return member.summary().iops if is_iops else member.summary().bytes_per_s


def _growth(family: PointFamily) -> str:
    """``p50 212 µs at depth 1, 4.1 ms at depth 256``: of the members of a depth series with fewest connections."""
    if not family.is_depth:
        return ""
    ordered = sorted(family.members, key=lambda member: member.axis("depth"))
    first, last = ordered[0], next(one for one in ordered if one.axis("depth") == ordered[-1].axis("depth"))
    medians = [member.summary().latency.percentile(50) for member in (first, last)]
    if first is last or any(math.isnan(median) for median in medians):
        return ""
    places = [f"at depth {member.axis('depth'):g}" for member in (first, last)]
    return f"p50 {format_latency(medians[0])} {places[0]}, {format_latency(medians[1])} {places[1]}"


def _rates_of_families(families: Iterable[PointFamily]) -> list[Headline]:
    """The highest rate of each family, and how a family responds to depth."""
    best = [(family, max(family.members, key=_rate_of)) for family in families if not family.is_advice]
    if not best:
        return []
    units = [point_unit(member) for _, member in best]
    unit = units[0] if len(set(units)) == 1 else ""
    rates = [
        " ".join(filter(None, (rate_text(member.summary(), own), "" if unit else own, _short_name(family))))
        for (family, member), own in zip(best, units, strict=True)
    ]
    told = []
    for (family, member), own in zip(best, units, strict=True):
        found = rate_bounds(member, own), _gain_of_depth(family), _growth(family)
        told.append(f"{_short_name(family)}: {', '.join(filter(None, found)) or 'its interval is not known'}")
    mark = mark_of([member for _, member in best])
    return [Headline(", ".join(rates), unit, "highest rates", " · ".join(told), mark=mark)]


def _short_name(family: PointFamily) -> str:
    """The title up to a colon, as in a sentence: ``front end``."""
    name = family.heading.partition(":")[0]
    return name[0].lower() + name[1:]


def _gain_of_depth(family: PointFamily) -> str:
    """``9.93 × at depth 64``: over the smallest depth."""
    if not family.is_depth:
        return ""
    base, fastest = min(family.members, key=lambda member: member.axis("depth")), family.fastest
    gain = None if base is fastest else gain_of(fastest, base)
    return f"{gain.text} at depth {fastest.axis('depth'):g}" if gain else ""


def _fewest_clients(family: PointFamily) -> Iterator[Headline]:
    """The fewest clients that reach the highest rate of a family, for each value of its other axes."""
    best = max(family.members, key=_rate_of)
    unit, texts, used = point_unit(best), [], [best]
    for name, members in family.scale_out_series.items():
        reached = [one for one in members if _rate_of(one) >= REACHED * _rate_of(best)]
        first = (reached or members[-1:])[0]
        # Fewer clients may reach it as well, as far as their intervals tell.
        least = next((one for one in members if _most_of(one, unit) >= REACHED * _rate_of(best)), first)
        used += [first] if first is not best else []
        counts = dict.fromkeys(f"{one.axis('clients'):g}" for one in (least, first))
        count = "–".join(counts) if reached else f"more than {first.axis('clients'):g}"
        texts.append(f"{count} with {name}" if name else count)
    details = [f"{_place(best)}: {rate_bounds(best, unit) or 'its interval is not known'}"]
    details += [f"{one.axis('clients'):g} clients get {rate_text(one.summary(), unit)} {unit}" for one in used[1:]]
    what = f"clients reach {rate_text(best.summary(), unit)} {unit}, the highest rate"
    yield Headline(", ".join(texts), "", what, " · ".join(details), mark=mark_of(used))


def _most_of(member: Point, unit: RateUnit) -> float:
    """The upper bound of the rate of a point; the rate itself where its interval is not known."""
    return member.rate_interval("iops" if unit == "IOPS" else "bytes_per_s").high or _rate_of(member)


def _by_axis(axis: str, families: Iterable[PointFamily]) -> Iterator[_Compared]:
    """The points at the last value of an axis, compared with those at the first."""
    for family in families:
        values = list(dict.fromkeys(member.axes[axis] for member in family.members if axis in member.axes))
        if len(values) > 1:
            sides = [_by_load(family, axis, value) for value in (values[0], values[-1])]
            yield from _one_of_each_kind(sides[0], sides[1], is_slowest=axis == "target")


def _by_load(family: PointFamily, axis: str, value: Axis) -> dict[object, Point]:
    """The points at one value of an axis, by their places on the others."""
    return {
        tuple((name, place) for name, place in member.axes.items() if name != axis): member
        for member in family.members
        if member.axes.get(axis) == value
    }


def _one_of_each_kind(
    bases: dict[object, Point], others: dict[object, Point], *, is_slowest: bool
) -> Iterator[_Compared]:
    """For each kind of operation the load with the highest rate. It is chosen by its rate and not by its gain.

    Of two targets the load with the lowest rate: with few in flight the distance shows, with many a common limit may.
    """
    sign = -1 if is_slowest else 1
    chosen: dict[tuple[str, ...], tuple[Point, Point]] = {}
    for load, other in others.items():
        kinds = tuple(other.summary().kinds)
        if load in bases and (
            kinds not in chosen or sign * (other.summary().iops - chosen[kinds][1].summary().iops) > 0
        ):
            chosen[kinds] = (bases[load], other)
    for base, other in chosen.values():
        gain = gain_of(other, base)
        if gain is not None:
            yield base, other, gain


def _kinds(member: Point) -> str:
    """``reads``, ``writes``, ``reads and writes``."""
    return " and ".join(KIND_WORDS.get(kind, f"{kind}s") for kind in member.summary().kinds)


def _place(member: Point) -> str:
    """``4 KiB random reads at depth 256``."""
    depth = f" at depth {member.axis('depth'):g}" if "depth" in member.axes else ""
    return f"{load_name(workers_of(member))}{depth}"
