"""The headline figures of a result: at most five, each named by its load.

A search shows what it found, jobs the totals of their report groups. A scenario shows the best rate of each load, and
the latency at the smallest depth. Where there are too many, loads with a published figure go first, then the best IOPS,
the best throughput, the lowest latency and the advice, then further loads.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from iocurve.analysis import gains, load_names
from iocurve.analysis.families import GRID_AXES, PointFamily
from iocurve.analysis.findings import search_load
from iocurve.analysis.published import PublishedComparison
from iocurve.engine.outcome import WorkerOutcome
from iocurve.engine.plan import FLUSH_KINDS
from iocurve.foundation.units import MIB, MICROSECOND_NS, counted, format_count, format_latency, format_number
from iocurve.result.document import NONE_SHOWN, Finding, Point, Result, SearchFacts
from iocurve.result.stalls import MISSED_SHARE, Condition, condition, missed_share
from iocurve.result.summary import Summary, Totals, summarise

HEADLINES_MAX = 5
JOBS_NAMED_MAX = 3
LAW_PREFIX = "USL "
"""Starts the names of the terms of the universal scalability law, which are no headlines."""


class Headline(msgspec.Struct, frozen=True):
    """One figure with its unit and its load."""

    value: str
    unit: str
    what: str
    """The load: ``8 KiB random writes, no cache``. For a latency, a gain or a search it says what the figure is."""
    detail: str = ""
    """Further figures of the same load: ``100 MiB/s · p50 40 ms · p99 40.4 ms``."""
    bounds: str = ""
    """The interval of the figure: ``95 %: 99 to 101``, ``104 did not hold``; empty where it is not known."""
    mark: str = ""
    """Why the figure is doubtful: ``disturbed``, ``3 of 14 points disturbed``; empty if nothing disturbed it."""


def headlines_of(
    result: Result,
    families: Sequence[PointFamily],
    published: Sequence[PublishedComparison],
    at_most: int = HEADLINES_MAX,
) -> list[Headline]:
    """The headlines, in the order in which their loads were measured."""
    if result.search:
        return _search_headlines(result, result.search)[:at_most]
    stated = {id(one.point) for one in published}
    found = [candidate for family in families for candidate in _candidates(result, family, stated)]
    return [candidate.headline for candidate in _chosen(_best_of_each_load(found), at_most)]


def mark_of(points: Collection[Point]) -> str:
    """Why a figure of some points is doubtful: ``disturbed``, ``3 of 14 points disturbed``; empty without a doubt."""
    counts = Counter(map(condition, points))
    words: dict[Condition, str] = {"CPU-starved": "CPU-starved", "noisy": "noisy"}
    found = [(counts[state], word) for state, word in words.items() if counts[state]]
    if late := [share for point in points if (share := missed_share(point.summary())) > MISSED_SHARE]:
        found.append((len(late), f"missed up to {100 * max(late):.2g} % of due operations"))
    if len(points) == 1:
        return ", ".join(word for _, word in found)
    return ", ".join(f"{count} of {len(points)} points {word}" for count, word in found)


class _Candidate(msgspec.Struct, frozen=True):
    headline: Headline
    figure: Literal["IOPS", "MiB/s", "latency", "advice"]
    value: float
    """Compared with those of the same figure. For a latency it is negative, so that the lowest is the best."""
    is_published: bool = False


def _best_of_each_load(candidates: Iterable[_Candidate]) -> list[_Candidate]:
    """Families may measure a load again, at other depths for example. A published figure goes before a better rate."""
    best: dict[str, _Candidate] = {}
    for candidate in candidates:
        known = best.setdefault(candidate.headline.what, candidate)
        if (candidate.is_published, candidate.value) > (known.is_published, known.value):
            best[candidate.headline.what] = candidate
    return list(best.values())


def _chosen(candidates: Sequence[_Candidate], at_most: int) -> list[_Candidate]:
    best: dict[str, float] = {}
    for candidate in candidates:
        best[candidate.figure] = max(candidate.value, best.get(candidate.figure, candidate.value))

    def rank(candidate: _Candidate) -> tuple[bool, bool, bool]:
        is_best = candidate.value == best[candidate.figure]
        return not (candidate.is_published or is_best), not is_best, candidate.figure == "latency"

    first = sorted(candidates, key=rank)[:at_most]
    return [candidate for candidate in candidates if candidate in first]


def _candidates(result: Result, family: PointFamily, published: set[int]) -> list[_Candidate]:
    if family.is_advice:
        return _advice(family)
    if result.scenario or family.is_measured_along_axes or family.members[0].imported:
        rates = [_rate_of_point(result, family, member, published) for member in _best_points(family)]
        return rates + _lowest_latencies(result, family)
    return list(_rates_of_groups(family, is_named=len(result.points) > 1))


# ---- points along axes


def _best_points(family: PointFamily) -> list[Point]:
    """The point with the best rate for each load; of a series of mixes, pure reads and pure writes."""
    pure = [member for member in family.members if member.axes.get("read_percent") in (100, 0)]
    best: dict[str, Point] = {}
    for member in pure if family.is_mix and pure else family.members:
        load = load_names.point_load(member)
        known = best.setdefault(load, member)
        if member.summary().iops > known.summary().iops:
            best[load] = member
    return list(best.values())


def _rate_of_point(result: Result, family: PointFamily, member: Point, published: set[int]) -> _Candidate:
    found = _rate(
        _load(result, member),
        member.summary(),
        load_names.point_unit(member),
        place=_place(family, member, ("nconnect", "clients", "target", "depth", "rate")),
        is_published=any(id(other) in published for other in family.members),
    )
    return _of_point(found, member)


def _of_point(candidate: _Candidate, point: Point) -> _Candidate:
    """The rate of a whole point, with its interval and the mark of the point."""
    bounds = rate_bounds(point, candidate.headline.unit)
    return _marked(replace(candidate, headline=replace(candidate.headline, bounds=bounds)), point)


def _marked(candidate: _Candidate, point: Point) -> _Candidate:
    """The rate of some jobs of a point. Its interval is unknown: intervals are of whole points."""
    return replace(candidate, headline=replace(candidate.headline, mark=mark_of([point])))


def rate_bounds(point: Point, unit: str) -> str:
    """``95 %: 99 to 101``; ``95 %: ±0.02 %`` where both bounds round to the rate; empty where they are not known."""
    figure = point.rate_interval("iops" if unit == "IOPS" else "bytes_per_s")
    if figure.low is None or figure.high is None:
        return ""
    low, high = (_number_text(bound / (1 if unit == "IOPS" else MIB), unit) for bound in (figure.low, figure.high))
    relative = f"±{format_number(100 * (figure.high / figure.value - 1), 1)} %"
    return f"95 %: {relative if low == high else f'{low} to {high}'}"


def _load(result: Result, member: Point) -> str:
    """The load with what was done about caches: ``8 KiB random writes, no cache``."""
    cache = load_names.cache_word(result, member, member.summary().kinds)
    return ", ".join(filter(None, (load_names.point_load(member), cache)))


def _place(family: PointFamily, member: Point, axes: Iterable[str]) -> str:
    """The values of the axes in which the points of a family differ: ``nconnect 8, depth 64``."""
    named = [axis for axis in axes if family.varies(axis) and axis in member.axes]
    return ", ".join(load_names.axis_text(axis, member.axes[axis]) for axis in named)


def _lowest_latencies(result: Result, family: PointFamily) -> list[_Candidate]:
    """The median latency at the smallest depth, where depths were measured."""
    if not family.is_depth:
        return []
    shallow = min(family.members, key=lambda member: (member.axis("depth"), member.summary().latency.percentile(50)))
    latency = shallow.summary().latency
    if math.isnan(latency.percentile(50)):
        return []
    value, unit = format_latency(latency.percentile(50)).split(" ")
    what = f"p50 of {_load(result, shallow)} at depth {shallow.axis('depth'):g}"
    place = _place(family, shallow, [axis for axis in GRID_AXES if axis not in ("kind", "block_bytes", "order")])
    detail = _joined(place, f"p99 {format_latency(latency.percentile(99))}")
    headline = Headline(value, unit, what, detail, mark=mark_of([shallow]))
    return [_Candidate(headline, "latency", -latency.percentile(50))]


def _advice(family: PointFamily) -> list[_Candidate]:
    pairs = gains.pairs(family.members)
    faster = sum(pair.gain.verdict == "faster" and not pair.gain.is_small for pair in pairs)
    _, most = gains.fewest_and_most(family.members)
    what, mark = f"loads are faster with nconnect {most}", mark_of(family.members)
    return [_Candidate(Headline(f"{faster}", f"of {len(pairs)}", what, mark=mark), "advice", faster)]


# ---- jobs


def _rates_of_groups(family: PointFamily, *, is_named: bool) -> Iterator[_Candidate]:
    """The total of each report group of each point. The loads are named by point and jobs where there are several."""
    for member in family.members:
        groups = _groups(member)
        for outcomes in groups:
            total, workers = summarise("", member.plan, outcomes), load_names.workers_of(member, outcomes)
            names = [member.name] if is_named else []
            names += [_jobs(outcomes)] if len(groups) > 1 else []
            if total.operations:
                found = _rate(
                    ": ".join([*([", ".join(names)] if names else []), load_names.load_name(workers)]),
                    total,
                    load_names.rate_unit(workers),
                )
                yield _of_point(found, member) if len(groups) == 1 else _marked(found, member)


def _groups(point: Point) -> list[list[WorkerOutcome]]:
    """The report groups. Those of the same jobs are one: workers may report apart, their total counts."""
    numbered: dict[int, list[WorkerOutcome]] = {}
    for outcome in point.outcome.workers:
        numbered.setdefault(outcome.report_group, []).append(outcome)
    by_jobs: dict[tuple[str, ...], list[WorkerOutcome]] = {}
    for outcomes in numbered.values():
        by_jobs.setdefault(_job_names(outcomes), []).extend(outcomes)
    return list(by_jobs.values())


def _job_names(outcomes: Iterable[WorkerOutcome]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(outcome.job for outcome in outcomes))


def _jobs(outcomes: Iterable[WorkerOutcome]) -> str:
    """The names of the jobs of a group, as far as they fit."""
    names = _job_names(outcomes)
    if len(names) <= JOBS_NAMED_MAX:
        return ", ".join(names)
    return f"{names[0]} and {counted(len(names) - 1, 'more job')}"


# ---- one rate


def _rate(
    load: str, summary: Summary, unit: load_names.RateUnit, place: str = "", *, is_published: bool = False
) -> _Candidate:
    value = summary.mib_per_s if unit == "MiB/s" else summary.iops
    headline = Headline(rate_text(summary, unit), unit, load, _joined(place, *_details(summary, unit)))
    return _Candidate(headline, unit, value, is_published)


def _details(summary: Summary, unit: str) -> list[str]:
    """The rate in the other unit, and percentiles; of several kinds, the rate and p99 of each of the most frequent."""
    found = [(kind, one) for kind, one in summary.kinds.items() if kind not in FLUSH_KINDS and one.operations]
    kinds = found if len(found) <= load_names.KINDS_NAMED_MAX else sorted(found, key=lambda each: -each[1].operations)
    if len(kinds) > 1:
        shown = " MiB/s" if unit == "MiB/s" else ""
        rates = [
            (f"{rate_text(totals, unit)}{shown} {load_names.KIND_WORDS.get(kind, f'{kind}s')}", _percentile(totals, 99))
            for kind, totals in kinds[: load_names.KINDS_NAMED_MAX]
        ]
        return [", ".join(filter(None, parts)) for parts in rates]
    other = [f"{rate_text(summary, 'MiB/s')} MiB/s"] if unit == "IOPS" and summary.bytes_per_s else []
    return [*other, _percentile(summary, 50), _percentile(summary, 99)]


def rate_text(totals: Totals, unit: str) -> str:
    """The rate as tiles show it: ``44.2k`` IOPS, ``512.1`` MiB/s."""
    return _number_text(totals.iops if unit == "IOPS" else totals.mib_per_s, unit)


def _number_text(rate: float, unit: str) -> str:
    """IOPS are shortened to k and M, MiB/s are not."""
    if unit == "IOPS":
        return format_count(rate)
    return f"{rate:,.0f}" if rate >= 100 else format_number(rate, 3)


def _percentile(totals: Totals, percent: int) -> str:
    """``p99 40.4 ms``; empty where it is not known."""
    if math.isnan(totals.latency.percentile(percent)):
        return ""
    return f"p{percent} {format_latency(totals.latency.percentile(percent))}"


def _joined(*parts: str) -> str:
    return " · ".join(filter(None, parts))


# ---- searches


def _search_headlines(result: Result, search: SearchFacts) -> list[Headline]:
    """The findings in the order of the search, which puts its answer first."""
    load, mark = search_load(result, search), mark_of(result.points)
    found = [finding for finding in search.findings if not finding.name.startswith(LAW_PREFIX)]
    none = [Headline(NONE_SHOWN, "", search.unanswered, load)] if search.unanswered else []
    return [replace(one, mark=mark) for one in (*none, *(_finding_headline(finding, load) for finding in found))]


def _finding_headline(finding: Finding, load: str) -> Headline:
    value, _, unit = _text(finding)(finding.figure.value).partition(" ")
    return Headline(value, unit, finding.name, load, _bounds(finding))


def _bounds(finding: Finding) -> str:
    low, high, text = finding.figure.low, finding.figure.high, _text(finding)
    if finding.figure.kind == "bounds" and (low is None) != (high is None):
        return finding.figure.one_bound(text)
    if low is None or high is None:
        return ""
    if finding.figure.kind == "bracket":
        return f"{text(high)} did not hold"
    if text(low) == text(high):
        return ""
    (least, _, unit), (most, _, most_unit) = text(low).partition(" "), text(high).partition(" ")
    label = "bounds" if finding.figure.kind == "bounds" else "95 %"
    return f"{label}: {least if unit == most_unit else text(low)} to {most} {most_unit}".rstrip()


def _text(finding: Finding) -> Callable[[float], str]:
    """The text of a figure with its unit."""
    if finding.unit == "µs":
        return lambda value: format_latency(value * MICROSECOND_NS)
    if finding.unit == "IOPS":
        return lambda value: f"{format_count(value)} IOPS"
    return lambda value: f"{format_number(value, 3)} {finding.unit}".strip()
