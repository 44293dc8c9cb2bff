"""Figures that compare: loads, families, connections, and measured figures with published ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iocurve.analysis import Reading, gains, published
from iocurve.analysis.families import GRID_AXES, PointFamily
from iocurve.analysis.gains import Pair
from iocurve.analysis.load_names import COMPARED_AXES, point_unit
from iocurve.analysis.published import PublishedComparison
from iocurve.foundation.units import format_bytes, format_latency, sentence
from iocurve.report import cells, chart_bars, chart_style
from iocurve.report.chart_style import Chart
from iocurve.report.table import LIMITED_BY, Cell, Nanoseconds, Table
from iocurve.result.document import Point
from iocurve.result.paired import MARGIN, margin_text
from iocurve.result.reference import Reference

ADVICE_CAPTION = (
    "Each cell shows the speedup with its 95 % interval, and the mean latency without and with more connections. Green "
    "is faster and red slower: the interval excludes 1. Yellow is no difference: it excludes differences of {margin} "
    "or more. Grey is inconclusive: it allows for both or is missing, or this machine was the limit."
)


# ---- loads of one family


def grid(family: PointFamily, reading: Reading) -> cells.ReportFigure:
    """Loads of a family as bars side by side."""
    unit = cells.rate_unit(family)
    series_axis = next((axis for axis in COMPARED_AXES if family.varies(axis)), None)
    bars = [
        cells.rate_bar(
            _place(family, member, series_axis),
            cells.series_name(member, series_axis),
            member.summary(),
            unit,
            cells.bounds(member, unit),
        )
        for member in family.members
    ]
    marks = cells.published_marks(
        family, reading, unit, lambda member: _place(family, member, series_axis), series_axis
    )
    highest = max(bar.value for bar in bars)
    near, far = cells.near_and_far(marks, highest)
    drawn, limits = cells.drawn_caps(family, reading, unit, highest)
    base, ratios = _gain_bars(family, series_axis)
    return cells.ReportFigure.of(
        f"{family.subject}: {unit}",
        *(
            sentence(family.fixed),
            limits,
            cells.far_caption(far),
            cells.gain_caption(ratios) or cells.bars_caption(bars),
        ),
        charts=[chart_bars.grouped(bars, unit, drawn, near), *([chart_bars.gains(ratios, base)] if ratios else [])],
        table=_grid_table(family, series_axis),
        name=f"{family.name} {unit}",
    )


def _gain_bars(family: PointFamily, series_axis: str | None) -> tuple[str, list[chart_bars.JudgedBar]]:
    """The name of the first series, and the gains of the others over it, load by load."""
    if series_axis is None:
        return "", []
    found = [
        bar
        for place, member, base in _with_first(family, series_axis)
        if member is not base
        for bar in cells.gain_bar(place, cells.series_name(member, series_axis), member, base)
    ]
    return cells.series_name(family.members[0], series_axis), found


def _with_first(family: PointFamily, series_axis: str | None) -> Iterator[tuple[str, Point, Point]]:
    """The place of each point, the point, and the first point at its place."""
    first: dict[str, Point] = {}
    for member in family.members:
        place = _place(family, member, series_axis)
        yield place, member, first.setdefault(place, member)


def _place(family: PointFamily, member: Point, series_axis: str | None) -> str:
    """The axes in which a load differs from others, in words: ``4 KiB read``."""
    axes = member.axes
    varying = [axis for axis in GRID_AXES if axis in axes and axis != series_axis and family.varies(axis)]
    return " ".join(_value_text(axis, axes[axis]) for axis in varying) or family.name


def _value_text(axis: str, value: int | float | str) -> str:
    if axis == "block_bytes":
        return format_bytes(int(value))
    return f"{axis} {value}" if axis in COMPARED_AXES else str(value)


def _grid_table(family: PointFamily, series_axis: str | None) -> Table:
    """A row for each load; in a series, its gain over the first one of the same load."""
    rows: list[tuple[Cell, ...]] = [
        (
            place,
            cells.series_name(member, series_axis),
            *cells.cells(member.summary(), "IOPS", "MiB/s", "p50", "p99"),
            cells.ratio(member, base) if member is not base else "",
            *cells.last_cells(member),
        )
        for place, member, base in _with_first(family, series_axis)
    ]
    columns = ("load", "series", "IOPS", "MiB/s", "p50", "p99", "speedup")
    return Table.of((*columns, *cells.LAST_COLUMNS), rows, text_columns=2)


# ---- several families


def comparisons(reading: Reading) -> list[cells.ReportFigure]:
    """The families that the scenario compares, mix by mix or depth by depth."""
    named = {family.name: family for family in reading.families}
    scenario = reading.result.scenario
    figures = []
    for comparison in scenario.comparisons if scenario else ():
        families = [named[name] for name in comparison.families if name in named]
        axis = next((axis for axis in ("read_percent", "depth") if any(one.varies(axis) for one in families)), None)
        if len(families) > 1 and axis:
            figures.append(_comparison(comparison.title, families, axis, reading))
    return figures


def _comparison(title: str, families: Sequence[PointFamily], axis: str, reading: Reading) -> cells.ReportFigure:
    unit = cells.rate_unit(families[0])
    common = _common_places(families, axis)
    bars = [
        cells.rate_bar(place, name, member.summary(), unit, cells.bounds(member, unit))
        for place, at in common.items()
        for name, member in at.items()
    ]
    limits = cells.caps([member for at in common.values() for member in at.values()], reading, unit)
    drawn = chart_style.within_sight(limits, max((bar.value for bar in bars), default=0))
    names = [family.subject for family in families]
    ratios = [
        bar
        for place, at in common.items()
        for name in names[1:]
        for bar in cells.gain_bar(place, name, at[name], at[names[0]])
    ]
    return cells.ReportFigure.of(
        title,
        *("Only loads that were measured in all of them.", cells.gain_caption(ratios) or cells.bars_caption(bars)),
        charts=[
            *([chart_bars.grouped(bars, unit, drawn)] if bars else []),
            *([chart_bars.gains(ratios, names[0])] if ratios else []),
        ],
        table=cells.table_of_series(
            "read:write" if axis == "read_percent" else axis, common, names, unit, "{name} to the first"
        ),
    )


def _common_places(families: Sequence[PointFamily], axis: str) -> dict[str, dict[str, Point]]:
    """The points of each family by place on the axis, for the places that all families have."""
    by_place: dict[str, dict[str, Point]] = {}
    for family in families:
        for member in family.members:
            place = member.mix if axis == "read_percent" else f"{member.axis(axis):g}"
            by_place.setdefault(place, {})[family.subject] = member
    return {place: at for place, at in by_place.items() if len(at) == len(families)}


# ---- connections


def advice_table(family: PointFamily) -> cells.ReportFigure:
    """The gain of more connections, load by load, in green, yellow and red."""
    pairs = gains.pairs(family.members)
    few, many = gains.fewest_and_most(family.members)
    columns = (
        "kind",
        "block",
        "depth",
        f"IOPS, nconnect {few}",
        f"IOPS, nconnect {many}",
        "speedup",
        f"mean {{unit}}, nconnect {few}",
        f"mean {{unit}}, nconnect {many}",
        "verdict",
    )
    return cells.ReportFigure.of(
        family.title or f"Where nconnect {many} pays",
        ADVICE_CAPTION.format(margin=margin_text(pairs[0].gain.margin if pairs else MARGIN)),
        charts=[chart_bars.advice(advice_cells(pairs))],
        table=Table.of(columns, list(map(_advice_row, pairs)), text_columns=2),
        name=f"{family.name} advice",
    )


def advice_cells(pairs: Sequence[Pair]) -> list[chart_bars.JudgedBar]:
    """The cells of the coloured table."""
    return [
        chart_bars.JudgedBar(
            gains.kind_and_block(pair.few),
            f"{pair.few.axis('depth'):g}",
            pair.gain.value,
            verdict=pair.gain.verdict,
            text="/".join(
                [
                    f"{pair.gain.value:.2f} ×{' *' if pair.gain.noise else ''}",
                    *([pair.gain.bounds_text] if pair.gain.bounds_text else []),
                    f"{format_latency(pair.few.summary().latency.mean_ns)} →",
                    format_latency(pair.many.summary().latency.mean_ns),
                ]
            ),
        )
        for pair in pairs
    ]


def _advice_row(pair: Pair) -> tuple[Cell, ...]:
    axes, few, many = pair.few.axes, pair.few.summary(), pair.many.summary()
    return (
        str(axes.get("kind", "")),
        format_bytes(int(axes.get("block_bytes", 0))),
        str(axes.get("depth", "")),
        cells.count(few.iops),
        cells.count(many.iops),
        pair.gain.text,
        Nanoseconds(few.latency.mean_ns),
        Nanoseconds(many.latency.mean_ns),
        pair.gain.verdict_text,
    )


# ---- published figures


def with_published(reading: Reading) -> list[cells.ReportFigure]:
    """A table for each reference that has figures for the points of the result."""
    return [
        _published_table(reference, found, reading)
        for reference in reading.result.references
        if (found := [one for one in reading.published if one.reference is reference])
    ]


def _published_table(
    reference: Reference, found: Sequence[PublishedComparison], reading: Reading
) -> cells.ReportFigure:
    at_speed = [f"at {speed:.3g} of the speed" for speed in dict.fromkeys(one.speed for one in found) if speed != 1]
    columns = ("point", "kind", "measured", "published", *at_speed[:1], "ratio", "of the figure")
    rows = [_published_row(one, is_slowed=bool(at_speed)) for one in found]
    blank = len(columns) - 4
    rows += [
        (member.name, "", rate_text(member), "in a chart only", *("",) * (blank - 1), part)
        for family in reading.families
        if (part := reference.charts_only.get(family.name))
        for member in family.members
    ]
    return cells.ReportFigure.of(
        f"Beside published figures: {reference.title}",
        _published_caption(reference, found, reading),
        table=Table.of(columns, rows, text_columns=2),
        name=f"published {reference.name}",
    )


def rate_text(member: Point) -> str:
    """The rate of a point in its unit: ``12,800 IOPS``."""
    unit = point_unit(member)
    return published.figure_text(*(cells.rate(member.summary(), unit),) * 2, unit)


def _published_row(one: PublishedComparison, *, is_slowed: bool) -> tuple[str, ...]:
    return (
        one.point.name,
        one.figure.kind,
        " ".join(
            filter(
                None,
                (
                    published.figure_text(one.measured, one.measured, one.figure.unit),
                    one.gain.bounds_text if one.gain else "",
                    one.gain.verdict_text if one.gain else "",
                ),
            )
        ),
        published.described(one.figure),
        *([one.expected_text] if is_slowed else []),
        f"{one.ratio:.3f}{', the same' if one.is_same else ''}",
        one.figure.text or "",
    )


def _published_caption(reference: Reference, pairs: Sequence[PublishedComparison], reading: Reading) -> str:
    """Source and date of the reference, the conditions that differed, and the remarks on the page."""
    date = f" (state of {reference.date})" if reference.date else ""
    found = published.differences(reading.result, reference)
    differences = "; ".join(f"{condition}: {there} there, {here} here" for condition, there, here in found)
    conditions = f"; measured under other conditions: {differences}" if differences else ""
    speeds = " and ".join(f"{speed:.3g}" for speed in dict.fromkeys(one.speed for one in pairs) if speed != 1)
    slowed = f"The target ran at {speeds} of its speed; ratios are to this fraction of published rates."
    return cells.caption(
        f"Published by others at {reference.source}{date}{conditions}.",
        slowed if speeds else "",
        f"The same: within {published.TOLERANCE:.0%}.",
        *map(sentence, reference.conditions.remarks),
    )


BARS_MAX = 24
"""More loads than this have a table and no chart."""


def beside_each_other(reading: Reading) -> list[cells.ReportFigure]:
    """One chart for each unit; no figure for fewer than two such loads."""
    singles = single_families(reading)
    if not singles:
        return []
    drawn = [_single_chart(unit, singles, reading) for unit in ("IOPS", "MiB/s") if len(singles) <= BARS_MAX]
    sentences = dict.fromkeys(sentence for _, told in drawn for sentence in told)
    drawings = [chart for chart, _ in drawn if chart]
    return [
        cells.ReportFigure.of(
            "All loads side by side", *sentences, charts=drawings, table=_singles_table(singles), name="all loads"
        )
    ]


def single_families(reading: Reading) -> list[PointFamily]:
    """The loads without axes, each as a family of one point, where there are several."""
    found = [one for family in reading.families if not family.is_measured_along_axes for one in family.each_point()]
    if reading.result.scenario:
        found = [family for family in reading.families if len(family.members) == 1]
    return found if len(found) > 1 else []


def _single_chart(unit: str, singles: Sequence[PointFamily], reading: Reading) -> tuple[Chart | None, tuple[str, ...]]:
    """The loads that are counted in a unit, and sentences on limits and published figures that are not drawn.

    Bars are stacked where reads and writes share a limit, which is that of one target.
    """
    families = [family for family in singles if point_unit(family.members[0]) == unit]
    if not families:
        return None, ()
    members = [family.members[0] for family in families]
    highest = max(cells.rate(member.summary(), unit) for member in members)
    limits = cells.caps(members, reading, unit)
    drawn = chart_style.within_sight(limits, highest)
    near, far = cells.near_and_far([mark for one in families for mark in _single_marks(one, reading, unit)], highest)
    told = (cells.far_cap_caption(limits, drawn, cells.target_of(families[0], reading)), cells.far_caption(far))
    is_stacked = all(len(cells.targets_of(member, reading.result)) == 1 for member in members)
    bars = [
        cells.rate_bar(family.subject, kind, totals, unit, cells.bounds(member, unit, None if is_stacked else kind))
        for family, member in zip(families, members, strict=True)
        for kind, totals in member.summary().kinds.items()
    ]
    chart = chart_bars.mix(bars, unit, drawn, near, None) if is_stacked else chart_bars.grouped(bars, unit, drawn, near)
    return chart, (*told, cells.bars_caption(bars))


def _single_marks(family: PointFamily, reading: Reading, unit: str) -> list[chart_bars.PublishedMark]:
    """The published rates of reads and writes of a family with one point."""
    (member,) = family.members
    return [
        chart_bars.PublishedMark(family.subject, one.bounds[0], one.reference.title, one.figure.kind, one.legend)
        for one in reading.published
        if one.point is member and one.figure.unit == unit and one.figure.kind != "total"
    ]


def _singles_table(singles: Sequence[PointFamily]) -> Table:
    figures = ("IOPS", "MiB/s", "p50", "p99")
    rows: list[tuple[Cell, ...]] = [
        (family.subject, kind, *cells.cells(totals, *figures), cells.last_cells(family.members[0])[-1])
        for family in singles
        for kind, totals in family.members[0].summary().kinds.items()
    ]
    return Table.of(("load", "kind", *figures, LIMITED_BY), rows, text_columns=2)
