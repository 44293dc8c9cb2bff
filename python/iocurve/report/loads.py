"""Figures of one family: its mix, its latency curve, its rates, its course over time."""

from __future__ import annotations

from collections.abc import Iterable

from iocurve.analysis.families import Family, Measured
from iocurve.report import charts
from iocurve.report.cells import (
    ENDING,
    Figure,
    Table,
    about,
    about_far,
    count,
    cpu,
    decimal,
    depth_cap,
    ending,
    in_sight,
    iops,
    iops_cap,
    mib_per_s,
    of,
    percentile,
    published_marks,
    ratio,
    sentence,
    slug,
)
from iocurve.result.document import Result
from iocurve.result.summary import Totals

OVER_TIME_POINTS_MAX = 6
"""A family with more points than this is told by its table alone."""


# ---- read and write shares


def mix(family: Family, result: Result) -> Figure:
    """Reads and writes by mix."""
    what = "MiB/s" if family.is_sequential else "IOPS"
    rate = mib_per_s if family.is_sequential else iops
    bars = [
        charts.MixBar(member.mix, kind, rate(totals), totals.latency.percentile(50), totals.latency.percentile(99))
        for member in family.members
        for kind, totals in member.summary.kinds.items()
    ]
    cap = charts.throughput_cap(result.target) if family.is_sequential else iops_cap(family, result)
    seen = charts.within_sight(cap, max(rate(member.summary) for member in family.members))
    title = f"{family.subject}: {what} by mix"
    marks = published_marks(family, result, what, lambda member: member.mix)
    near, far = in_sight(marks, max(rate(member.summary) for member in family.members))
    caption = "Reads and writes together fill a bar; the mix is read:write in percent of operations."
    return Figure(
        slug=slug(title),
        title=title,
        caption=" ".join([caption, *sentence(family.fixed), *about(cap, seen, result), *about_far(far)]),
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
            count(member.summary.iops),
            *(of(member.summary, kind, lambda totals: count(totals.iops)) for kind in ("read", "write")),
            decimal(member.summary.mib_per_s),
            *(of(member.summary, kind, percentile(percent)) for kind in ("read", "write") for percent in (50.0, 99.0)),
            *ending(member),
        )
        for member in family.members
    ]
    return Table((*columns, *ENDING), tuple(rows))


# ---- depth


def latency(family: Family, result: Result) -> Figure:
    """Latency over IOPS, dot by depth."""
    dots = [
        _dot(series, member, "depth", f"{member.axis('depth'):g}", name, percent)
        for series, members in family.series().items()
        for member in members
        for name, percent in (("p50", 50), ("p99", 99))
    ]
    cap, seen = depth_cap(family, result)
    title = f"{family.subject}: latency against IOPS"
    caption = (
        "Each dot is one depth, which is written beside it: to the right more load is carried, "
        "upwards the wait is longer. Where a curve turns upwards, more depth only adds latency."
    )
    return Figure(
        slug=slug(title),
        title=title,
        caption=" ".join([caption, *sentence(family.fixed), *about(cap, seen, result)]),
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
            count(member.summary.iops),
            decimal(member.summary.mib_per_s),
            decimal(member.summary.latency.mean_ns / 1000),
            *(percentile(percent)(member.summary) for percent in (50.0, 99.0, 99.9)),
            decimal(member.summary.concurrency_achieved),
            *ending(member),
        )
        for series, members in family.series().items()
        for member in members
    ]
    return Table((*(("series",) if apart else ()), *columns, *ENDING), tuple(rows), text_columns=2 if apart else 1)


def side_by_side(family: Family, result: Result) -> list[Figure]:
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
            slug=slug(f"{family.subject} side by side"),
            title=title,
            caption="IOPS at the same depth, all operations in flight counted over all connections.",
            charts=(charts.depth_bars(bars, depth_cap(family, result)[1]),),
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
            *(count(at[name].summary.iops) if name in at else "" for name in series),
            *(ratio(at[name], at[first]) if name in at and first in at else "" for name in others),
            *(percentile(99.0)(at[name].summary) if name in at else "" for name in series),
        )
        for depth, at in sorted(by_depth.items())
    ]
    columns = (
        *(f"{name}, IOPS" for name in series),
        *(f"{name} to {first}" if len(others) > 1 else "ratio" for name in others),
        *(f"{name}, p99 µs" for name in series),
    )
    return Table(("depth", *columns), tuple(rows))


# ---- rates


def by_rate(family: Family, result: Result) -> Figure:
    """Latency over IOPS, dot by rate."""
    highest = max(member.axis("rate") for member in family.members)
    dots = [
        _dot("", member, "rate", f"{member.axis('rate') / highest:.0%}", name, percent)
        for member in family.members
        for name, percent in (("p50", 50.0), ("p99", 99.0))
    ]
    cap, seen = depth_cap(family, result)
    title = f"{family.subject}: latency by load"
    caption = (
        "Operations were due at even rates, whether earlier ones were done or not; latencies are from when each was "
        "due. Beside each dot is its part of the highest rate."
    )
    columns = ("IOPS due", "IOPS", "MiB/s", "p50 µs", "p99 µs", "p99.9 µs", "in flight")
    rows = [
        (
            count(member.axis("rate")),
            count(member.summary.iops),
            decimal(member.summary.mib_per_s),
            *(percentile(percent)(member.summary) for percent in (50.0, 99.0, 99.9)),
            decimal(member.summary.concurrency_achieved),
            *ending(member),
        )
        for member in sorted(family.members, key=lambda member: member.axis("rate"))
    ]
    return Figure(
        slug=slug(f"{family.name} {title}"),
        title=title,
        caption=" ".join([caption, *about(cap, seen, result)]),
        charts=(charts.latency_curve(dots, seen),),
        table=Table((*columns, *ENDING), tuple(rows)),
    )


# ---- anything else


def over_time(family: Family, result: Result) -> Figure:
    """The course over time, and a row for each job."""
    names = list(dict.fromkeys(member.point.name for member in family.members))
    title = family.title or (names[0] if len(names) == 1 and names[0] != result.name else "By job")
    drawn = family.members if len(family.members) <= OVER_TIME_POINTS_MAX else ()
    drawings = tuple(chart for member in drawn for chart in charts.over_time(member.point.series()))
    return Figure(
        slug=slug(f"{family.name} {title}"),
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
        *(percentile(percent)(totals) for percent in (50.0, 99.0, 99.9)),
        decimal(totals.latency.max_ns / 1000),
        f"{totals.errors:,}",
    )
