"""What the report shows: one figure per question, each a chart or two and a table with the exact figures.

Figures follow from the axes of a family of points, not from its name: points along ``read_percent`` are a mix, points
along ``depth`` a latency curve. Whatever varies in no way that is known here gets its course over time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from iocurve.limits import SHORT, depth_series, limits_of, volume_description
from iocurve.report import advice, charts, published
from iocurve.report.charts import Chart
from iocurve.result import Note, Point, Result
from iocurve.summary import Summary, Totals
from iocurve.units import format_bytes

LIMITED_BY = "limited by"
GRID_AXES = ("kind", "block_bytes", "order", "clients", "target", "nconnect")
SERIES_AXES = ("nconnect", "target", "clients")
"""Axes whose values stand beside each other in a group; the first of them that varies."""
OVER_TIME_POINTS_MAX = 6
"""A family with more points than this is told by its table alone."""


@dataclass(frozen=True)
class Table:
    """Rows of text under a heading."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: int = 1
    """How many columns at the left are words; the others are figures."""

    def style(self, column: int) -> str:
        """How a column is set: ``text`` at the left, ``figure``, and words at the end."""
        if column < self.text_columns:
            return "text"
        return "text last" if self.columns[column] == LIMITED_BY else "figure"


@dataclass(frozen=True)
class Figure:
    """One question answered: the charts show it, the table has the figures."""

    slug: str
    """For file names and links."""
    title: str
    caption: str
    charts: tuple[Chart, ...]
    table: Table


@dataclass(frozen=True)
class Measured:
    """A point with what it adds up to and what limited it."""

    point: Point
    summary: Summary
    limit: Note | None

    def axis(self, name: str) -> float:
        """Value of a numeric axis."""
        return float(self.point.axes[name])

    @property
    def mix(self) -> str:
        """Read and write shares as people write them: ``75:25``."""
        return f"{self.axis('read_percent'):g}:{100 - self.axis('read_percent'):g}"


@dataclass(frozen=True)
class Family:
    """Points that differ in their axes only."""

    name: str
    members: tuple[Measured, ...]

    def varies(self, axis: str) -> bool:
        """Whether the axis is there and takes several values."""
        return len({member.point.axes.get(axis) for member in self.members}) > 1

    @property
    def is_mix(self) -> bool:
        """A series of read and write shares."""
        return self.varies("read_percent") and not self.varies("depth")

    @property
    def is_rate(self) -> bool:
        """A series of rates at which operations were due."""
        return self.varies("rate")

    @property
    def is_grid(self) -> bool:
        """Loads that differ in kind, block size, connections, clients or target."""
        return any(self.varies(axis) for axis in GRID_AXES)

    @property
    def is_depth(self) -> bool:
        """One or more series of depths."""
        return self.varies("depth")

    @property
    def is_sequential(self) -> bool:
        """Counted in MiB/s rather than in IOPS."""
        return self.members[0].point.axes.get("order") == "sequential"

    @property
    def load(self) -> str:
        """Block size and order, as far as they are the same everywhere: ``4 KiB random``; empty where none is known."""
        axes = self.members[0].point.axes
        words = []
        if "block_bytes" in axes and not self.varies("block_bytes"):
            words.append(format_bytes(int(axes["block_bytes"])))
        if "order" in axes and not self.varies("order"):
            words.append(str(axes["order"]))
        return " ".join(words)

    @property
    def subject(self) -> str:
        """What is done, as the start of a title: ``4 KiB random read``."""
        kinds = {kind for member in self.members for kind in member.summary.kinds}
        return f"{self.load} {kinds.pop() if len(kinds) == 1 else ''}".strip() or self.name

    @property
    def fixed(self) -> str:
        """Axes that are the same on all points, in words: ``depth 64, nconnect 8``."""
        axes = self.members[0].point.axes
        named = [axis for axis in ("depth", "nconnect") if axis in axes and not self.varies(axis)]
        return ", ".join(f"{axis} {axes[axis]}" for axis in named)

    def series(self) -> dict[str, list[Measured]]:
        """The depth series by what sets them apart: ``nconnect 8``."""
        measured = {id(member.point): member for member in self.members}
        found = depth_series(member.point for member in self.members)
        return {self._distinction(points[0]): [measured[id(point)] for point in points] for points in found}

    def _distinction(self, point: Point) -> str:
        return ", ".join(
            f"{axis} {value}" for axis, value in point.axes.items() if axis != "depth" and self.varies(axis)
        )


def families(result: Result) -> list[Family]:
    """Points by family, in the order in which they were measured; points that measured nothing are left out."""
    members: dict[str, list[Measured]] = {}
    for point, limit in zip(result.points, limits_of(result), strict=True):
        if point.summary().operations:
            members.setdefault(point.family, []).append(Measured(point, point.summary(), limit))
    return [Family(name, tuple(points)) for name, points in members.items()]


def figures(result: Result) -> list[Figure]:
    """All figures of a result, in the order of its families; what compares several comes after them."""
    found = families(result)
    return [
        *(figure for family in found for figure in _figures(family, result)),
        *_comparisons(found, result),
        *_beside_published(result),
    ]


def _figures(family: Family, result: Result) -> list[Figure]:
    if family.is_mix:
        return [_mix(family, result)]
    if family.is_depth and family.varies("nconnect") and (family.varies("block_bytes") or family.varies("kind")):
        return [_advice(family, result)]
    if family.is_depth:
        return [_latency(family, result), *_side_by_side(family, result)]
    if family.is_rate:
        return [_by_rate(family, result)]
    if family.is_grid:
        return [_grid(family, result)]
    return [_over_time(family, result)]


def _titled(family: Family, result: Result, otherwise: str) -> str:
    """What the scenario calls the family."""
    named = {one.name: one.title for one in result.scenario.families} if result.scenario else {}
    return named.get(family.name, otherwise)


# ---- read and write shares


def _mix(family: Family, result: Result) -> Figure:
    what = "MiB/s" if family.is_sequential else "IOPS"
    rate = _mib_per_s if family.is_sequential else _iops
    bars = [
        charts.MixBar(member.mix, kind, rate(totals), totals.latency.percentile(50), totals.latency.percentile(99))
        for member in family.members
        for kind, totals in member.summary.kinds.items()
    ]
    cap = charts.throughput_cap(result.target) if family.is_sequential else _iops_cap(family, result)
    seen = charts.within_sight(cap, max(rate(member.summary) for member in family.members))
    title = f"{_titled(family, result, family.subject)}: {what} by mix"
    marks = _marks(family, result, what, lambda member: member.mix)
    near, far = _near(marks, max(rate(member.summary) for member in family.members))
    caption = "Reads and writes together fill a bar; the mix is read:write in percent of operations."
    return Figure(
        slug=_slug(title),
        title=title,
        caption=" ".join([caption, *_sentence(family.fixed), *_about(cap, seen, result), *_far(far)]),
        charts=(charts.mix(bars, what, seen, near),),
        table=_mix_table(family),
    )


def _mix_table(family: Family) -> Table:
    columns = (
        "read:write",
        "IOPS",
        "read IOPS",
        "write IOPS",
        "MiB/s",
        "read p50 µs",
        "read p99 µs",
        "write p50 µs",
        "write p99 µs",
    )
    rows = [
        (
            member.mix,
            _count(member.summary.iops),
            *(_of(member.summary, kind, lambda totals: _count(totals.iops)) for kind in ("read", "write")),
            _decimal(member.summary.mib_per_s),
            *(
                _of(member.summary, kind, _percentile(percent))
                for kind in ("read", "write")
                for percent in (50.0, 99.0)
            ),
            *_ending(member),
        )
        for member in family.members
    ]
    return Table((*columns, *ENDING), tuple(rows))


# ---- depth


def _latency(family: Family, result: Result) -> Figure:
    dots = [
        _dot(series, member, "depth", f"{member.axis('depth'):g}", name, percent)
        for series, members in family.series().items()
        for member in members
        for name, percent in (("p50", 50), ("p99", 99))
    ]
    cap, seen = _depth_cap(family, result)
    title = f"{_titled(family, result, family.subject)}: latency against IOPS"
    caption = (
        "Each dot is one depth, which is written beside it: to the right more load is carried, "
        "upwards the wait is longer. Where a curve turns upwards, more depth only adds latency."
    )
    return Figure(
        slug=_slug(title),
        title=title,
        caption=" ".join([caption, *_sentence(family.fixed), *_about(cap, seen, result)]),
        charts=(charts.latency_curve(dots, seen),),
        table=_depth_table(family),
    )


def _dot(series: str, member: Measured, axis: str, label: str, percentile: str, percent: float) -> charts.LatencyDot:
    latency = member.summary.latency.percentile(percent)
    return charts.LatencyDot(series, member.axis(axis), label, member.summary.iops, percentile, latency)


def _depth_table(family: Family) -> Table:
    columns = ("depth", "IOPS", "MiB/s", "mean µs", "p50 µs", "p99 µs", "p99.9 µs", "in flight")
    apart = family.series().keys() != {""}
    rows = [
        (
            *((series,) if apart else ()),
            f"{member.axis('depth'):g}",
            _count(member.summary.iops),
            _decimal(member.summary.mib_per_s),
            _decimal(member.summary.latency.mean_ns / 1000),
            *(_percentile(percent)(member.summary) for percent in (50.0, 99.0, 99.9)),
            _decimal(member.summary.concurrency_achieved),
            *_ending(member),
        )
        for series, members in family.series().items()
        for member in members
    ]
    return Table((*(("series",) if apart else ()), *columns, *ENDING), tuple(rows), text_columns=2 if apart else 1)


def _side_by_side(family: Family, result: Result) -> list[Figure]:
    """Several series beside each other, depth by depth."""
    series = family.series()
    if len(series) < 2:
        return []
    bars = [
        charts.DepthBar(name, int(member.axis("depth")), member.summary.iops)
        for name, members in series.items()
        for member in members
    ]
    names = " and ".join(series) if len(series) == 2 else "all series"
    title = f"{family.subject}: {names} side by side"
    return [
        Figure(
            slug=_slug(f"{family.subject} side by side"),
            title=title,
            caption="IOPS at the same depth, all operations in flight counted over all connections.",
            charts=(charts.depth_bars(bars, _depth_cap(family, result)[1]),),
            table=_side_by_side_table(series),
        )
    ]


def _side_by_side_table(series: dict[str, list[Measured]]) -> Table:
    by_depth: dict[float, dict[str, Measured]] = {}
    for name, members in series.items():
        for member in members:
            by_depth.setdefault(member.axis("depth"), {})[name] = member
    first, *others = series
    rows = [
        (
            f"{depth:g}",
            *(_count(at[name].summary.iops) if name in at else "" for name in series),
            *(_ratio(at[name], at[first]) if name in at and first in at else "" for name in others),
            *(_percentile(99.0)(at[name].summary) if name in at else "" for name in series),
        )
        for depth, at in sorted(by_depth.items())
    ]
    columns = (
        *(f"{name}, IOPS" for name in series),
        *(f"{name} to {first}" if len(others) > 1 else "ratio" for name in others),
        *(f"{name}, p99 µs" for name in series),
    )
    return Table(("depth", *columns), tuple(rows))


def _ratio(measured: Measured, base: Measured) -> str:
    return f"{measured.summary.iops / base.summary.iops:.2f} ×" if base.summary.iops else ""


# ---- rates


def _by_rate(family: Family, result: Result) -> Figure:
    highest = max(member.axis("rate") for member in family.members)
    dots = [
        _dot("", member, "rate", f"{member.axis('rate') / highest:.0%}", name, percent)
        for member in family.members
        for name, percent in (("p50", 50.0), ("p99", 99.0))
    ]
    cap, seen = _depth_cap(family, result)
    title = f"{family.subject}: latency by load"
    caption = (
        "Operations were due at even rates, whether earlier ones were done or not; latencies are from when each was "
        "due. Beside each dot is its part of the highest rate."
    )
    columns = ("IOPS due", "IOPS", "MiB/s", "p50 µs", "p99 µs", "p99.9 µs", "in flight")
    rows = [
        (
            _count(member.axis("rate")),
            _count(member.summary.iops),
            _decimal(member.summary.mib_per_s),
            *(_percentile(percent)(member.summary) for percent in (50.0, 99.0, 99.9)),
            _decimal(member.summary.concurrency_achieved),
            *_ending(member),
        )
        for member in sorted(family.members, key=lambda member: member.axis("rate"))
    ]
    return Figure(
        slug=_slug(f"{family.name} {title}"),
        title=title,
        caption=" ".join([caption, *_about(cap, seen, result)]),
        charts=(charts.latency_curve(dots, seen),),
        table=Table((*columns, *ENDING), tuple(rows)),
    )


# ---- loads beside each other


def _grid(family: Family, result: Result) -> Figure:
    what = _unit(family)
    rate = _mib_per_s if what == "MiB/s" else _iops
    series_axis = next((axis for axis in SERIES_AXES if family.varies(axis)), None)
    bars = [
        charts.GroupBar(
            _place(family, member, series_axis),
            _series_name(member, series_axis),
            rate(member.summary),
            member.summary.latency.percentile(99),
        )
        for member in family.members
    ]
    marks = _marks(family, result, what, lambda member: _place(family, member, series_axis), series_axis)
    near, far = _near(marks, max(bar.value for bar in bars))
    title = f"{_titled(family, result, family.subject)}: {what}"
    return Figure(
        slug=_slug(f"{family.name} {what}"),
        title=title,
        caption=" ".join([*_sentence(family.fixed), *_far(far)]),
        charts=(charts.grouped(bars, what, None, near),),
        table=_grid_table(family, series_axis),
    )


def _grid_table(family: Family, series_axis: str | None) -> Table:
    """A row for each load; with a series its gain over the first one of the same load."""
    first: dict[str, Measured] = {}
    rows = []
    for member in family.members:
        place = _place(family, member, series_axis)
        base = first.setdefault(place, member)
        rows.append(
            (
                place,
                _series_name(member, series_axis),
                _count(member.summary.iops),
                _decimal(member.summary.mib_per_s),
                *(_percentile(percent)(member.summary) for percent in (50.0, 99.0)),
                _ratio(member, base) if member is not base else "",
                *_ending(member),
            )
        )
    columns = ("load", "series", "IOPS", "MiB/s", "p50 µs", "p99 µs", "gain")
    return Table((*columns, *ENDING), tuple(rows), text_columns=2)


def _unit(family: Family) -> str:
    return "MiB/s" if family.is_sequential else "IOPS"


def _place(family: Family, member: Measured, series_axis: str | None) -> str:
    """What sets a load apart from others: ``4 KiB read``."""
    axes = [axis for axis in GRID_AXES if family.varies(axis) and axis != series_axis]
    words = [
        format_bytes(int(value)) if axis == "block_bytes" else f"{axis} {value}" if axis in SERIES_AXES else str(value)
        for axis, value in ((axis, member.point.axes[axis]) for axis in axes if axis in member.point.axes)
    ]
    return " ".join(words) or family.name


def _series_name(member: Measured, series_axis: str | None) -> str:
    if series_axis is None:
        return ""
    value = member.point.axes.get(series_axis, "")
    return str(value) if series_axis == "target" else f"{series_axis} {value}"


def _comparisons(found: Sequence[Family], result: Result) -> list[Figure]:
    """Families that the scenario sets side by side, mix by mix or depth by depth."""
    named = {family.name: family for family in found}
    comparisons = result.scenario.comparisons if result.scenario else ()
    figures = []
    for comparison in comparisons:
        members = [named[name] for name in comparison.families if name in named]
        axis = next((axis for axis in ("read_percent", "depth") if any(one.varies(axis) for one in members)), None)
        if len(members) > 1 and axis:
            figures.append(_compared(comparison.title, members, axis, result))
    return figures


def _compared(title: str, members: Sequence[Family], axis: str, result: Result) -> Figure:
    what = _unit(members[0])
    rate = _mib_per_s if what == "MiB/s" else _iops
    by_place: dict[str, dict[str, Measured]] = {}
    for family in members:
        for member in family.members:
            place = member.mix if axis == "read_percent" else f"{member.axis(axis):g}"
            by_place.setdefault(place, {})[_titled(family, result, family.name)] = member
    # Only what was measured of all of them compares.
    common = {place: at for place, at in by_place.items() if len(at) == len(members)}
    bars = [
        charts.GroupBar(place, name, rate(member.summary), member.summary.latency.percentile(99))
        for place, at in common.items()
        for name, member in at.items()
    ]
    names = [_titled(family, result, family.name) for family in members]
    rows = [
        (
            place,
            *(_decimal(rate(at[name].summary)) if what == "MiB/s" else _count(at[name].summary.iops) for name in names),
            *(f"{rate(at[name].summary) / rate(at[names[0]].summary):.2f} ×" for name in names[1:]),
        )
        for place, at in common.items()
    ]
    columns = ("read:write" if axis == "read_percent" else axis, *(f"{name}, {what}" for name in names))
    return Figure(
        slug=_slug(title),
        title=title,
        caption="Measured in all of them only.",
        charts=(charts.grouped(bars, what, None),) if bars else (),
        table=Table((*columns, *(f"{name} to the first" for name in names[1:])), tuple(rows)),
    )


# ---- where more connections pay


def _advice(family: Family, result: Result) -> Figure:
    """Green, yellow or red for each load: what more connections do to its rate and latency."""
    rows = [
        (
            *_load_cells(pair.few),
            _count(pair.few.summary.iops),
            _count(pair.many.summary.iops),
            f"{pair.gain:.2f} ×",
            _decimal(pair.few.summary.latency.mean_ns / 1000),
            _decimal(pair.many.summary.latency.mean_ns / 1000),
            pair.advice,
        )
        for pair in advice.pairs(family.members)
    ]
    few, many = advice.compared_connections(family.members)
    columns = (
        "kind",
        "block",
        "depth",
        f"IOPS, nconnect {few}",
        f"IOPS, nconnect {many}",
        "gain",
        f"mean µs, nconnect {few}",
        f"mean µs, nconnect {many}",
        "advice",
    )
    return Figure(
        slug=_slug(f"{family.name} advice"),
        title=_titled(family, result, f"Where nconnect {many} pays"),
        caption=advice.CAPTION,
        charts=(charts.advice(advice.cells(family.members)),),
        table=Table(columns, tuple(rows), text_columns=2),
    )


def _load_cells(member: Measured) -> tuple[str, str, str]:
    axes = member.point.axes
    return str(axes.get("kind", "")), format_bytes(int(axes.get("block_bytes", 0))), str(axes.get("depth", ""))


# ---- published figures


def _marks(
    family: Family, result: Result, what: str, place: Callable[[Measured], str], series_axis: str | None = None
) -> list[charts.Published]:
    members = {id(member.point): member for member in family.members}
    return [
        charts.Published(
            place(members[id(one.point)]),
            one.figure.value,
            one.reference.title,
            _series_name(members[id(one.point)], series_axis),
        )
        for one in published.compared(result)
        if id(one.point) in members and one.figure.unit == what
    ]


def _near(marks: Sequence[charts.Published], highest: float) -> tuple[list[charts.Published], list[charts.Published]]:
    """Those that can be drawn, and those so far above that they would only flatten the chart."""
    near = [mark for mark in marks if mark.value <= charts.FAR * highest]
    return near, [mark for mark in marks if mark not in near]


def _far(marks: Sequence[charts.Published]) -> list[str]:
    return ["Published figures lie far above and are in the table at the end only."] if marks else []


def _beside_published(result: Result) -> list[Figure]:
    """A table for each reference: measured, published, ratio, and what was different."""
    figures = []
    for reference in result.references:
        pairs = [one for one in published.compared(result) if one.reference is reference]
        if not pairs:
            continue
        rows = [
            (
                one.point.name,
                one.figure.kind,
                f"{one.measured:,.4g} {one.figure.unit}",
                published.described(one.figure),
                f"{one.ratio:.3f}",
                "same" if one.is_same else "",
                one.figure.text or "",
            )
            for one in pairs
        ]
        columns = (
            "point",
            "kind",
            "measured",
            "published",
            "ratio",
            f"within {published.TOLERANCE:.0%}",
            "of the figure",
        )
        differences = [
            f"{what}: {there} there, {here} here" for what, there, here in published.differences(result, reference)
        ]
        caption = f"Published by others at {reference.source}"
        caption += f" (state of {reference.date})" if reference.date else ""
        caption += "; measured under other conditions: " + "; ".join(differences) + "." if differences else "."
        caption += "".join(f" {remark[0].upper()}{remark[1:]}." for remark in reference.conditions.remarks)
        figures.append(
            Figure(
                slug=_slug(f"published {reference.name}"),
                title=f"Beside published figures: {reference.title}",
                caption=caption,
                charts=(),
                table=Table(columns, tuple(rows), text_columns=2),
            )
        )
    return figures


# ---- anything else


def _over_time(family: Family, result: Result) -> Figure:
    names = list(dict.fromkeys(member.point.name for member in family.members))
    title = names[0] if len(names) == 1 and names[0] != result.name else "By job"
    drawn = family.members if len(family.members) <= OVER_TIME_POINTS_MAX else ()
    drawings = tuple(chart for member in drawn for chart in charts.over_time(member.point.series()))
    return Figure(
        slug=_slug(f"{family.name} {title}"),
        title=title,
        caption="Over time, all jobs together; faint dots are the ramp, which is not counted." if drawings else "",
        charts=drawings,
        table=_job_table(family.members),
    )


def _job_table(members: Iterable[Measured]) -> Table:
    """One row per report group and kind of operation, as fio prints them."""
    columns = (
        "job",
        "kind",
        "IOPS",
        "MiB/s",
        "mean µs",
        "p50 µs",
        "p99 µs",
        "p99.9 µs",
        "max µs",
        "errors",
        "CPU µs/op",
    )
    rows = [
        (group.name, kind, *_job_cells(totals), _cpu(group))
        for member in members
        for group in member.point.report_groups()
        for kind, totals in group.kinds.items()
    ]
    return Table(columns, tuple(rows), text_columns=2)


def _job_cells(totals: Totals) -> tuple[str, ...]:
    return (
        _count(totals.iops),
        _decimal(totals.mib_per_s),
        _decimal(totals.latency.mean_ns / 1000),
        *(_percentile(percent)(totals) for percent in (50.0, 99.0, 99.9)),
        _decimal(totals.latency.max_ns / 1000),
        f"{totals.errors:,}",
    )


# ---- cells

ENDING = ("CPU µs/op", LIMITED_BY)


def _ending(member: Measured) -> tuple[str, str]:
    return _cpu(member.summary), SHORT[member.limit.code] if member.limit else "no known limit"


def _cpu(summary: Summary) -> str:
    used = summary.cpu_us_per_operation
    return "" if used is None else f"{used:.2f}"


def _of(summary: Summary, kind: str, cell: Callable[[Totals], str]) -> str:
    return cell(summary.kinds[kind]) if kind in summary.kinds else "–"


def _percentile(percent: float) -> Callable[[Totals], str]:
    return lambda totals: _decimal(totals.latency.percentile(percent) / 1000)


def _iops(totals: Totals) -> float:
    return totals.iops


def _mib_per_s(totals: Totals) -> float:
    return totals.mib_per_s


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _decimal(value: float) -> str:
    return f"{value:,.1f}"


def _iops_cap(family: Family, result: Result) -> charts.Cap | None:
    blocks = {int(member.point.axes.get("block_bytes", 0)) for member in family.members}
    return charts.iops_cap(result.target, blocks.pop() if len(blocks) == 1 else 0)


def _depth_cap(family: Family, result: Result) -> tuple[charts.Cap | None, charts.Cap | None]:
    """The limit in IOPS, and the same where it is near enough to be drawn."""
    cap = _iops_cap(family, result)
    return cap, charts.within_sight(cap, max(member.summary.iops for member in family.members))


def _about(cap: charts.Cap | None, seen: charts.Cap | None, result: Result) -> list[str]:
    """Where the limit comes from, and that it is out of sight where it is."""
    if cap is None:
        return []
    origin = volume_description(result.target)
    described = f" ({origin})" if origin else ""
    return [
        f"Dashed: the volume's {cap.label}{described}."
        if seen
        else f"The volume's {cap.label}{described} is far above."
    ]


def _sentence(words: str) -> list[str]:
    return [f"{words[0].upper()}{words[1:]}."] if words else []


def _slug(title: str) -> str:
    words: Sequence[str] = "".join(letter if letter.isalnum() else " " for letter in title.lower()).split()
    return "-".join(words)
