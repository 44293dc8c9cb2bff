"""Figures that set loads, families and published figures side by side."""

from __future__ import annotations

from collections.abc import Sequence

from iocurve.analysis import connections as advice
from iocurve.analysis import published
from iocurve.analysis.families import GRID_AXES, Family, Measured
from iocurve.report import charts
from iocurve.report.cells import (
    ENDING,
    Figure,
    Table,
    about_far,
    count,
    decimal,
    ending,
    in_sight,
    iops,
    mib_per_s,
    percentile,
    published_marks,
    ratio,
    sentence,
    series_name,
    slug,
)
from iocurve.result.document import Result
from iocurve.units import format_bytes

SERIES_AXES = ("nconnect", "target", "clients")
"""Axes whose values stand beside each other in a group; the first of them that varies."""


# ---- loads beside each other


def grid(family: Family, result: Result) -> Figure:
    """Loads beside each other."""
    what = _unit(family)
    rate = mib_per_s if what == "MiB/s" else iops
    series_axis = next((axis for axis in SERIES_AXES if family.varies(axis)), None)
    bars = [
        charts.GroupBar(
            _place(family, member, series_axis),
            series_name(member, series_axis),
            rate(member.summary),
            member.summary.latency.percentile(99),
        )
        for member in family.members
    ]
    marks = published_marks(family, result, what, lambda member: _place(family, member, series_axis), series_axis)
    near, far = in_sight(marks, max(bar.value for bar in bars))
    title = f"{family.subject}: {what}"
    return Figure(
        slug=slug(f"{family.name} {what}"),
        title=title,
        caption=" ".join([*sentence(family.fixed), *about_far(far)]),
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
                series_name(member, series_axis),
                count(member.summary.iops),
                decimal(member.summary.mib_per_s),
                *(percentile(percent)(member.summary) for percent in (50.0, 99.0)),
                ratio(member, base) if member is not base else "",
                *ending(member),
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


def single_loads(found: Sequence[Family], result: Result) -> list[Figure]:
    """Families of a scenario that have one point each, beside each other."""
    singles = [family for family in found if len(family.members) == 1] if result.scenario else []
    if len(singles) < 2:
        return []
    bars, rows, marks = [], [], []
    for family in singles:
        (member,) = family.members
        title = family.subject
        for kind, totals in member.summary.kinds.items():
            bars.append(charts.GroupBar(title, kind, totals.iops, totals.latency.percentile(99)))
            rows.append((title, kind, count(totals.iops), decimal(totals.mib_per_s), percentile(99.0)(totals)))
        marks += [
            charts.Published(title, one.figure.value, one.reference.title, one.figure.kind)
            for one in published.compared(result)
            if one.point is member.point and one.figure.unit == "IOPS" and one.figure.kind != "total"
        ]
    near, far = in_sight(marks, max(bar.value for bar in bars))
    return [
        Figure(
            slug="all-loads",
            title="All loads beside each other",
            caption=" ".join(about_far(far)),
            charts=(charts.grouped(bars, "IOPS", None, near),),
            table=Table(("load", "kind", "IOPS", "MiB/s", "p99 µs"), tuple(rows), text_columns=2),
        )
    ]


def comparisons(found: Sequence[Family], result: Result) -> list[Figure]:
    """Families that the scenario sets side by side, mix by mix or depth by depth."""
    named = {family.name: family for family in found}
    comparisons = result.scenario.comparisons if result.scenario else ()
    figures = []
    for comparison in comparisons:
        members = [named[name] for name in comparison.families if name in named]
        axis = next((axis for axis in ("read_percent", "depth") if any(one.varies(axis) for one in members)), None)
        if len(members) > 1 and axis:
            figures.append(_compared(comparison.title, members, axis))
    return figures


def _compared(title: str, members: Sequence[Family], axis: str) -> Figure:
    what = _unit(members[0])
    rate = mib_per_s if what == "MiB/s" else iops
    by_place: dict[str, dict[str, Measured]] = {}
    for family in members:
        for member in family.members:
            place = member.mix if axis == "read_percent" else f"{member.axis(axis):g}"
            by_place.setdefault(place, {})[family.subject] = member
    # Only what was measured of all of them compares.
    common = {place: at for place, at in by_place.items() if len(at) == len(members)}
    bars = [
        charts.GroupBar(place, name, rate(member.summary), member.summary.latency.percentile(99))
        for place, at in common.items()
        for name, member in at.items()
    ]
    names = [family.subject for family in members]
    rows = [
        (
            place,
            *(decimal(rate(at[name].summary)) if what == "MiB/s" else count(at[name].summary.iops) for name in names),
            *(f"{rate(at[name].summary) / rate(at[names[0]].summary):.2f} ×" for name in names[1:]),
        )
        for place, at in common.items()
    ]
    columns = ("read:write" if axis == "read_percent" else axis, *(f"{name}, {what}" for name in names))
    return Figure(
        slug=slug(title),
        title=title,
        caption="Measured in all of them only.",
        charts=(charts.grouped(bars, what, None),) if bars else (),
        table=Table((*columns, *(f"{name} to the first" for name in names[1:])), tuple(rows)),
    )


# ---- where more connections pay


def advice_table(family: Family) -> Figure:
    """Green, yellow or red for each load: what more connections do to its rate and latency."""
    rows = [
        (
            *_load_cells(pair.few),
            count(pair.few.summary.iops),
            count(pair.many.summary.iops),
            f"{pair.gain:.2f} ×",
            decimal(pair.few.summary.latency.mean_ns / 1000),
            decimal(pair.many.summary.latency.mean_ns / 1000),
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
        slug=slug(f"{family.name} advice"),
        title=family.title or f"Where nconnect {many} pays",
        caption=advice.CAPTION,
        charts=(charts.advice(advice.cells(family.members)),),
        table=Table(columns, tuple(rows), text_columns=2),
    )


def _load_cells(member: Measured) -> tuple[str, str, str]:
    axes = member.point.axes
    return str(axes.get("kind", "")), format_bytes(int(axes.get("block_bytes", 0))), str(axes.get("depth", ""))


def with_published(result: Result) -> list[Figure]:
    """A table for each reference: measured, published, ratio, and what was different."""
    figures, compared = [], published.compared(result)
    for reference in result.references:
        pairs = [one for one in compared if one.reference is reference]
        if not pairs:
            continue
        rows = [
            (
                one.point.name,
                one.figure.kind,
                published.figure_text(one.measured, one.figure.unit),
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
                slug=slug(f"published {reference.name}"),
                title=f"Beside published figures: {reference.title}",
                caption=caption,
                charts=(),
                table=Table(columns, tuple(rows), text_columns=2),
            )
        )
    return figures
