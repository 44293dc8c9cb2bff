"""Figures of one family: by mix, by depth, by rate, over time, by kind of operation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from iocurve.analysis import Reading
from iocurve.analysis.families import MeasuredPoint, PointFamily
from iocurve.analysis.load_names import axis_text
from iocurve.engine.plan import METADATA_KINDS
from iocurve.foundation.units import sentence
from iocurve.report import charts
from iocurve.report.cells import (
    LAST_COLUMNS,
    ReportFigure,
    bars_caption,
    bounds,
    cap_caption,
    caps,
    caption,
    count,
    cpu,
    far_caption,
    gain_bar,
    gain_caption,
    kind_cell,
    last_cells,
    near_and_far,
    percentile,
    published_marks,
    rate,
    rate_unit,
    ratio,
    slug,
    target_of,
)
from iocurve.report.table import Cell, Nanoseconds, Table, decimal
from iocurve.result.summary import Totals

OVER_TIME_POINTS_MAX = 6
"""A family with more points than this gets a table and no charts."""

MIX_CAPTION = "Reads and writes together fill a bar; the mix is read:write in percent of operations."
DEPTH_CAPTION = (
    "Each dot is one depth, written next to it. To the right the rate is higher, upwards the latency. Once a curve "
    "turns upwards, more depth only adds latency."
)
RATE_CAPTION = (
    "Open loop: operations were due at even rates, and latency counts from each operation's scheduled time. Labels are "
    "shares of the highest rate."
)


# ---- by mix


def mix(family: PointFamily, reading: Reading) -> ReportFigure:
    """Reads and writes by mix."""
    unit, target = rate_unit(family), target_of(family, reading)
    highest = max(rate(member.summary, unit) for member in family.members)
    limits = caps(family.members, reading, unit)
    drawn = charts.within_sight(limits, highest)
    near, far = near_and_far(published_marks(family, reading, unit, lambda member: member.mix), highest)
    title = f"{family.subject}: {unit} by mix"
    bars = mix_bars(family, unit, lambda member: member.mix)
    return ReportFigure(
        slug=slug(title),
        title=title,
        caption=caption(
            MIX_CAPTION,
            bars_caption(bars),
            sentence(family.fixed),
            cap_caption(limits, drawn, target),
            far_caption(far),
        ),
        charts=(charts.mix(bars, unit, drawn, near),),
        table=_mix_table(family),
    )


def mix_bars(family: PointFamily, unit: str, place: Callable[[MeasuredPoint], str]) -> list[charts.MixBar]:
    """Reads and writes of each point; those at the same place are stacked."""
    return [
        charts.MixBar(
            place(member),
            kind,
            rate(totals, unit),
            totals.latency.percentile(50),
            totals.latency.percentile(99),
            *bounds(member, unit),
        )
        for member in family.members
        for kind, totals in member.summary.kinds.items()
    ]


def _mix_table(family: PointFamily) -> Table:
    columns = (
        "read:write",
        "IOPS",
        "read IOPS",
        "write IOPS",
        "MiB/s",
        "read p50",
        "read p99",
        "write p50",
        "write p99",
    )
    kinds = ("read", "write")
    rows: list[tuple[Cell, ...]] = [
        (
            member.mix,
            count(member.summary.iops),
            *(kind_cell(member.summary, kind, lambda totals: count(totals.iops)) for kind in kinds),
            decimal(member.summary.mib_per_s),
            *(kind_cell(member.summary, kind, percentile(percent)) for kind in kinds for percent in (50.0, 99.0)),
            *last_cells(member),
        )
        for member in family.members
    ]
    return Table.of((*columns, *LAST_COLUMNS), rows)


# ---- by depth


def latency(family: PointFamily, reading: Reading) -> ReportFigure:
    """Latency over the rate, a dot for each depth."""
    unit, target = rate_unit(family), target_of(family, reading)
    limits = caps(family.members, reading, unit)
    drawn = charts.within_sight(limits, rate(family.fastest.summary, unit))
    dots = [
        dot
        for series, members in family.series.items()
        for member in members
        for dot in _dots(series, member, unit, "depth", f"{member.axis('depth'):g}")
    ]
    title = f"{family.subject}: latency against {unit}"
    return ReportFigure(
        slug=slug(title),
        title=title,
        caption=caption(DEPTH_CAPTION, sentence(family.fixed), cap_caption(limits, drawn, target)),
        charts=(charts.latency_curve(dots, drawn, unit, reading.knee),) if dots else (),
        table=_depth_table(family),
    )


def _dots(series: str, member: MeasuredPoint, unit: str, axis: str, label: str) -> list[charts.LatencyDot]:
    """The median and the 99th percentile of a point."""
    summary = member.summary
    return [
        charts.LatencyDot(
            series, member.axis(axis), label, rate(summary, unit), f"p{percent}", summary.latency.percentile(percent)
        )
        for percent in (50, 99)
        if not math.isnan(summary.latency.percentile(percent))
    ]


def _depth_table(family: PointFamily) -> Table:
    columns = ("depth", "IOPS", "MiB/s", "mean", "p50", "p99", "p99.9", "in flight")
    has_series = family.series.keys() != {""}
    rows: list[tuple[Cell, ...]] = [
        (
            *((series,) if has_series else ()),
            f"{member.axis('depth'):g}",
            count(member.summary.iops),
            decimal(member.summary.mib_per_s),
            Nanoseconds(member.summary.latency.mean_ns),
            *(percentile(percent)(member.summary) for percent in (50.0, 99.0, 99.9)),
            decimal(member.summary.concurrency_achieved),
            *last_cells(member),
        )
        for series, members in family.series.items()
        for member in members
    ]
    first = ("series",) if has_series else ()
    return Table.of((*first, *columns, *LAST_COLUMNS), rows, text_columns=2 if has_series else 1)


def side_by_side(family: PointFamily, reading: Reading) -> list[ReportFigure]:
    """Several depth series as bars side by side; no figure for a single series."""
    series, unit = family.series, rate_unit(family)
    if len(series) < 2:
        return []
    limits = charts.within_sight(caps(family.members, reading, unit), rate(family.fastest.summary, unit))
    bars = [
        charts.DepthBar(name, int(member.axis("depth")), rate(member.summary, unit), *bounds(member, unit))
        for name, members in series.items()
        for member in members
    ]
    first, *others = series
    ratios = [
        bar
        for name in others
        for member in series[name]
        for base in series[first]
        if base.axis("depth") == member.axis("depth")
        for bar in gain_bar(f"depth {member.axis('depth'):g}", name, member, base)
    ]
    names = " and ".join(series) if len(series) == 2 else "all series"
    return [
        ReportFigure(
            slug=slug(f"{family.subject} side by side"),
            title=f"{family.subject}: {names} side by side",
            caption=caption(
                f"{unit} at the same depth, all operations in flight counted over all connections.",
                gain_caption(ratios) or bars_caption(bars),
            ),
            charts=(charts.depth_bars(bars, unit, limits), *([charts.gains(ratios, first)] if ratios else [])),
            table=_side_by_side_table(series, unit),
        )
    ]


def _side_by_side_table(series: dict[str, list[MeasuredPoint]], unit: str) -> Table:
    by_depth: dict[float, dict[str, MeasuredPoint]] = {}
    for name, members in series.items():
        for member in members:
            by_depth.setdefault(member.axis("depth"), {})[name] = member
    first, *others = series
    number = decimal if unit == "MiB/s" else count
    rows: list[tuple[Cell, ...]] = [
        (
            f"{depth:g}",
            *(number(rate(at[name].summary, unit)) if name in at else "" for name in series),
            *(ratio(at[name], at[first]) if name in at and first in at else "" for name in others),
            *(percentile(99.0)(at[name].summary) if name in at else "" for name in series),
        )
        for depth, at in sorted(by_depth.items())
    ]
    columns = (
        *(f"{name}, {unit}" for name in series),
        *(f"{name} to {first}" if len(others) > 1 else "ratio" for name in others),
        *(f"{name}, p99" for name in series),
    )
    return Table.of(("depth", *columns), rows)


# ---- by rate


def by_rate(family: PointFamily, reading: Reading) -> ReportFigure:
    """Latency over IOPS, a dot for each rate."""
    limits = caps(family.members, reading, "IOPS")
    drawn = charts.within_sight(limits, family.fastest.summary.iops)
    rates = [member.axis("rate") for member in family.members]
    # A search tries some rates repeatedly: a line would run to and fro, and labels would cover each other.
    is_repeated = len(set(rates)) < len(rates)
    dots = [
        dot
        for index, member in enumerate(family.members)
        for dot in _dots(
            "", member, "IOPS", "rate", "" if rates[index] in rates[:index] else f"{rates[index] / max(rates):.0%}"
        )
    ]
    title = f"{family.subject}: latency by load"
    return ReportFigure(
        slug=slug(f"{family.name} {title}"),
        title=title,
        caption=caption(RATE_CAPTION, cap_caption(limits, drawn, target_of(family, reading))),
        charts=(charts.latency_curve(dots, drawn, is_joined=not is_repeated),),
        table=_rate_table(family),
    )


def _rate_table(family: PointFamily) -> Table:
    columns = ("IOPS due", "IOPS", "MiB/s", "p50", "p99", "p99.9", "in flight")
    rows: list[tuple[Cell, ...]] = [
        (
            count(member.axis("rate")),
            count(member.summary.iops),
            decimal(member.summary.mib_per_s),
            *(percentile(percent)(member.summary) for percent in (50.0, 99.0, 99.9)),
            decimal(member.summary.concurrency_achieved),
            *last_cells(member),
        )
        for member in sorted(family.members, key=lambda member: member.axis("rate"))
    ]
    return Table.of((*columns, *LAST_COLUMNS), rows)


# ---- over time


def over_time(family: PointFamily, reading: Reading, *, is_folded: bool = False) -> ReportFigure:
    """Rate and latency of the point of a family over time, and a row for each job."""
    (member,) = family.members
    title = family.title or (member.point.name if member.point.name != reading.result.name else "By job")
    limits = charts.within_sight(caps(family.members, reading, "IOPS"), member.summary.iops)
    drawings = tuple(charts.over_time(member.point.series(), limits))
    return ReportFigure(
        slug=slug(f"{family.name} {title}"),
        title=title,
        caption="All jobs together. Faint dots are the ramp, which is not counted." if drawings else "",
        charts=drawings,
        table=_job_table(family.members),
        is_folded=is_folded,
    )


def by_job(family: PointFamily) -> ReportFigure:
    """A row for each job of each point."""
    title = family.title or "By job"
    return ReportFigure(slug(f"{family.name} {title}"), title, "", (), _job_table(family.members))


def _job_table(members: Sequence[MeasuredPoint]) -> Table:
    """One row per report group and kind of operation, as fio prints them, with the point where there are several."""
    has_points = len(members) > 1
    columns = (
        *(("point",) if has_points else ()),
        "job",
        "kind",
        "IOPS",
        "MiB/s",
        "mean",
        "p50",
        "p99",
        "p99.9",
        "max",
        "errors",
        "CPU µs/op",
    )
    rows: list[tuple[Cell, ...]] = [
        (*((member.point.name,) if has_points else ()), group.name, kind, *_job_cells(totals), cpu(group))
        for member in members
        for group in member.point.report_groups()
        for kind, totals in group.kinds.items()
    ]
    return Table.of(columns, rows, text_columns=3 if has_points else 2)


def _job_cells(totals: Totals) -> tuple[Cell, ...]:
    return (
        count(totals.iops),
        decimal(totals.mib_per_s),
        Nanoseconds(totals.latency.mean_ns),
        *(percentile(percent)(totals) for percent in (50.0, 99.0, 99.9)),
        Nanoseconds(totals.latency.max_ns),
        f"{totals.errors:,}",
    )


KIND_RATE_CAPTION = "The kinds of operation fill a bar."
LATENCY_CAPTION = "Below, full dots are medians and hollow ones 99th percentiles."


def by_kind(family: PointFamily, reading: Reading) -> list[ReportFigure]:
    """The rate and the latency of each kind at each point; no figures for one kind, or for reads and writes alone."""
    del reading
    kinds = kinds_of(family)
    if len(kinds) < 2 or not set(kinds) & set(METADATA_KINDS):
        return []
    title = f"{family.subject}: by kind of operation"
    bars = [
        charts.MixBar(
            place(family, member), kind, totals.iops, totals.latency.percentile(50), totals.latency.percentile(99)
        )
        for member in family.members
        for kind in kinds
        if (totals := member.summary.kinds.get(kind)) is not None and totals.operations
    ]
    latencies = [bar for bar in bars if not math.isnan(bar.p50_ns)]
    return [
        ReportFigure(
            slug=slug(f"{family.name} {title}"),
            title=title,
            caption=caption(KIND_RATE_CAPTION, LATENCY_CAPTION, sentence(family.fixed)),
            charts=(charts.mix(bars, "IOPS", (), title=None), charts.kind_latencies(latencies)),
            table=_table(family, kinds),
        )
    ]


def by_files(family: PointFamily, reading: Reading) -> ReportFigure:
    """The rate over the number of files in each directory."""
    del reading
    title = f"{family.subject}: IOPS by files in each directory"
    rates = {int(member.axis("files")): member.summary.iops for member in family.members}
    rows: list[tuple[Cell, ...]] = [
        (
            f"{int(member.axis('files')):,}",
            count(member.summary.iops),
            *(percentile(percent)(member.summary) for percent in (50.0, 99.0, 99.9)),
            *last_cells(member),
        )
        for member in family.members
    ]
    return ReportFigure(
        slug=slug(f"{family.name} {title}"),
        title=title,
        caption=sentence(family.fixed),
        charts=(charts.files_curve(rates),),
        table=Table.of(("files", "IOPS", "p50", "p99", "p99.9", *LAST_COLUMNS), rows),
    )


def kinds_of(family: PointFamily) -> list[str]:
    """The kinds of all points, in the order of the first that has each."""
    done = (member.summary.kinds.items() for member in family.members)
    return list(dict.fromkeys(kind for kinds in done for kind, totals in kinds if totals.operations))


def place(family: PointFamily, member: MeasuredPoint) -> str:
    """The difference of a point from the others of its family: ``depth 8``."""
    axes = [axis for axis in member.point.axes if family.varies(axis)]
    return ", ".join(axis_text(axis, member.point.axes[axis]) for axis in axes) or family.subject


def _table(family: PointFamily, kinds: list[str]) -> Table:
    columns = ("point", "kind", "share %", "ops/s", "MiB/s", "entries/s", "mean", "p50", "p99", "p99.9", "errors")
    rows: list[tuple[Cell, ...]] = [
        (
            place(family, member),
            kind,
            decimal(100 * totals.iops / member.summary.iops) if member.summary.iops else "",
            count(totals.iops),
            decimal(totals.mib_per_s),
            count(totals.entries_per_s) if totals.entries_per_s else "",
            Nanoseconds(totals.latency.mean_ns),
            *(percentile(percent)(totals) for percent in (50.0, 99.0, 99.9)),
            f"{totals.errors:,}",
        )
        for member in family.members
        for kind in kinds
        if (totals := member.summary.kinds.get(kind)) is not None and totals.operations
    ]
    return Table.of(columns, rows, text_columns=2)
