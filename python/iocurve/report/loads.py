"""Figures of one family: by mix, by depth, by rate, over time."""

from __future__ import annotations

from collections.abc import Iterable

from iocurve.analysis import Reading
from iocurve.analysis.families import Family, MeasuredPoint
from iocurve.report import charts
from iocurve.report.cells import (
    LAST_COLUMNS,
    Figure,
    Table,
    cap_caption,
    caption,
    count,
    cpu,
    decimal,
    far_caption,
    iops_cap,
    kind_cell,
    last_cells,
    near_and_far,
    near_iops_cap,
    percentile_us,
    published_marks,
    rate,
    rate_unit,
    ratio,
    slug,
)
from iocurve.report.prose import sentence
from iocurve.result.summary import Totals

OVER_TIME_POINTS_MAX = 6
"""A family with more points than this gets a table and no charts."""

MIX_CAPTION = "Reads and writes together fill a bar; the mix is read:write in percent of operations."
DEPTH_CAPTION = (
    "Each dot is one depth, which is written beside it: to the right more load is carried, upwards the wait is longer. "
    "Where a curve turns upwards, more depth only adds latency."
)
RATE_CAPTION = (
    "Operations were due at even rates, whether earlier ones were done or not; latencies are from when each was due. "
    "Beside each dot is its part of the highest rate."
)


# ---- by mix


def mix(family: Family, reading: Reading) -> Figure:
    """Reads and writes by mix."""
    unit, target = rate_unit(family), reading.result.target
    highest = max(rate(member.summary, unit) for member in family.members)
    cap = charts.throughput_cap(target) if family.is_sequential else iops_cap(family, target)
    near_cap = charts.within_sight(cap, highest)
    near, far = near_and_far(published_marks(family, reading, unit, lambda member: member.mix), highest)
    title = f"{family.subject}: {unit} by mix"
    return Figure(
        slug=slug(title),
        title=title,
        caption=caption(
            MIX_CAPTION,
            sentence(family.fixed),
            cap_caption(cap, target, is_drawn=near_cap is not None),
            far_caption(far),
        ),
        charts=(charts.mix(_mix_bars(family, unit), unit, near_cap, near),),
        table=_mix_table(family),
    )


def _mix_bars(family: Family, unit: str) -> list[charts.MixBar]:
    return [
        charts.MixBar(
            member.mix, kind, rate(totals, unit), totals.latency.percentile(50), totals.latency.percentile(99)
        )
        for member in family.members
        for kind, totals in member.summary.kinds.items()
    ]


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
    kinds = ("read", "write")
    rows = [
        (
            member.mix,
            count(member.summary.iops),
            *(kind_cell(member.summary, kind, lambda totals: count(totals.iops)) for kind in kinds),
            decimal(member.summary.mib_per_s),
            *(kind_cell(member.summary, kind, percentile_us(percent)) for kind in kinds for percent in (50.0, 99.0)),
            *last_cells(member),
        )
        for member in family.members
    ]
    return Table((*columns, *LAST_COLUMNS), tuple(rows))


# ---- by depth


def latency(family: Family, reading: Reading) -> Figure:
    """Latency over IOPS, a dot for each depth."""
    target = reading.result.target
    cap, near_cap = iops_cap(family, target), near_iops_cap(family, target)
    dots = [
        dot
        for series, members in family.series.items()
        for member in members
        for dot in _dots(series, member, "depth", f"{member.axis('depth'):g}")
    ]
    title = f"{family.subject}: latency against IOPS"
    return Figure(
        slug=slug(title),
        title=title,
        caption=caption(DEPTH_CAPTION, sentence(family.fixed), cap_caption(cap, target, is_drawn=near_cap is not None)),
        charts=(charts.latency_curve(dots, near_cap),),
        table=_depth_table(family),
    )


def _dots(series: str, member: MeasuredPoint, axis: str, label: str) -> list[charts.LatencyDot]:
    """The median and the 99th percentile of a point."""
    summary = member.summary
    return [
        charts.LatencyDot(
            series, member.axis(axis), label, summary.iops, f"p{percent}", summary.latency.percentile(percent)
        )
        for percent in (50, 99)
    ]


def _depth_table(family: Family) -> Table:
    columns = ("depth", "IOPS", "MiB/s", "mean µs", "p50 µs", "p99 µs", "p99.9 µs", "in flight")
    has_series = family.series.keys() != {""}
    rows = [
        (
            *((series,) if has_series else ()),
            f"{member.axis('depth'):g}",
            count(member.summary.iops),
            decimal(member.summary.mib_per_s),
            decimal(member.summary.latency.mean_ns / 1000),
            *(percentile_us(percent)(member.summary) for percent in (50.0, 99.0, 99.9)),
            decimal(member.summary.concurrency_achieved),
            *last_cells(member),
        )
        for series, members in family.series.items()
        for member in members
    ]
    first = ("series",) if has_series else ()
    return Table((*first, *columns, *LAST_COLUMNS), tuple(rows), text_columns=2 if has_series else 1)


def side_by_side(family: Family, reading: Reading) -> list[Figure]:
    """Several depth series as bars beside each other; no figure for a single series."""
    series = family.series
    if len(series) < 2:
        return []
    bars = [
        charts.DepthBar(name, int(member.axis("depth")), member.summary.iops)
        for name, members in series.items()
        for member in members
    ]
    names = " and ".join(series) if len(series) == 2 else "all series"
    return [
        Figure(
            slug=slug(f"{family.subject} side by side"),
            title=f"{family.subject}: {names} side by side",
            caption="IOPS at the same depth, all operations in flight counted over all connections.",
            charts=(charts.depth_bars(bars, near_iops_cap(family, reading.result.target)),),
            table=_side_by_side_table(series),
        )
    ]


def _side_by_side_table(series: dict[str, list[MeasuredPoint]]) -> Table:
    by_depth: dict[float, dict[str, MeasuredPoint]] = {}
    for name, members in series.items():
        for member in members:
            by_depth.setdefault(member.axis("depth"), {})[name] = member
    first, *others = series
    rows = [
        (
            f"{depth:g}",
            *(count(at[name].summary.iops) if name in at else "" for name in series),
            *(ratio(at[name], at[first]) if name in at and first in at else "" for name in others),
            *(percentile_us(99.0)(at[name].summary) if name in at else "" for name in series),
        )
        for depth, at in sorted(by_depth.items())
    ]
    columns = (
        *(f"{name}, IOPS" for name in series),
        *(f"{name} to {first}" if len(others) > 1 else "ratio" for name in others),
        *(f"{name}, p99 µs" for name in series),
    )
    return Table(("depth", *columns), tuple(rows))


# ---- by rate


def by_rate(family: Family, reading: Reading) -> Figure:
    """Latency over IOPS, a dot for each rate."""
    target = reading.result.target
    cap, near_cap = iops_cap(family, target), near_iops_cap(family, target)
    highest = max(member.axis("rate") for member in family.members)
    dots = [
        dot for member in family.members for dot in _dots("", member, "rate", f"{member.axis('rate') / highest:.0%}")
    ]
    title = f"{family.subject}: latency by load"
    return Figure(
        slug=slug(f"{family.name} {title}"),
        title=title,
        caption=caption(RATE_CAPTION, cap_caption(cap, target, is_drawn=near_cap is not None)),
        charts=(charts.latency_curve(dots, near_cap),),
        table=_rate_table(family),
    )


def _rate_table(family: Family) -> Table:
    columns = ("IOPS due", "IOPS", "MiB/s", "p50 µs", "p99 µs", "p99.9 µs", "in flight")
    rows = [
        (
            count(member.axis("rate")),
            count(member.summary.iops),
            decimal(member.summary.mib_per_s),
            *(percentile_us(percent)(member.summary) for percent in (50.0, 99.0, 99.9)),
            decimal(member.summary.concurrency_achieved),
            *last_cells(member),
        )
        for member in sorted(family.members, key=lambda member: member.axis("rate"))
    ]
    return Table((*columns, *LAST_COLUMNS), tuple(rows))


# ---- over time


def over_time(family: Family, reading: Reading) -> Figure:
    """Rate and latency over time, and a row for each job."""
    names = list(dict.fromkeys(member.point.name for member in family.members))
    title = family.title or (names[0] if len(names) == 1 and names[0] != reading.result.name else "By job")
    drawn = family.members if len(family.members) <= OVER_TIME_POINTS_MAX else ()
    drawings = tuple(chart for member in drawn for chart in charts.over_time(member.point.series()))
    return Figure(
        slug=slug(f"{family.name} {title}"),
        title=title,
        caption="Over time, all jobs together; faint dots are the ramp, which is not counted." if drawings else "",
        charts=drawings,
        table=_job_table(family.members),
    )


def _job_table(members: Iterable[MeasuredPoint]) -> Table:
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
        (group.name, kind, *_job_cells(totals), cpu(group))
        for member in members
        for group in member.point.report_groups()
        for kind, totals in group.kinds.items()
    ]
    return Table(columns, tuple(rows), text_columns=2)


def _job_cells(totals: Totals) -> tuple[str, ...]:
    return (
        count(totals.iops),
        decimal(totals.mib_per_s),
        decimal(totals.latency.mean_ns / 1000),
        *(percentile_us(percent)(totals) for percent in (50.0, 99.0, 99.9)),
        decimal(totals.latency.max_ns / 1000),
        f"{totals.errors:,}",
    )
