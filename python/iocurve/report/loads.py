"""Figures of one family: by mix, by depth, by rate, over time, by kind of operation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from iocurve.analysis import Reading
from iocurve.analysis.families import PointFamily
from iocurve.analysis.level_changes import LevelStep, level_change
from iocurve.analysis.load_names import axis_text
from iocurve.engine.plan import METADATA_KINDS
from iocurve.foundation.units import format_count, sentence
from iocurve.report import chart_bars, chart_curves, chart_style
from iocurve.report.cells import (
    LAST_COLUMNS,
    ReportFigure,
    bars_caption,
    bounds,
    caps,
    caption,
    cells,
    count,
    cpu,
    drawn_caps,
    far_caption,
    gain_bar,
    gain_caption,
    last_cells,
    latency_dots,
    near_and_far,
    points_table,
    published_marks,
    rate,
    rate_bar,
    rate_unit,
    table_of_series,
)
from iocurve.report.table import Cell, Table, decimal
from iocurve.result.document import Point
from iocurve.result.stalls import absences, course_beside_stall, longest_stall, of_target

HEAT_CAPTION = (
    "Of latencies over time, the stronger a color, the more operations: those of an interval are spread between its "
    "minimum, median, 99th percentile and maximum, which are what a result keeps."
)
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
    unit = rate_unit(family)
    highest = max(rate(member.summary(), unit) for member in family.members)
    drawn, limits = drawn_caps(family, reading, unit, highest)
    near, far = near_and_far(published_marks(family, reading, unit, lambda member: member.mix), highest)
    bars = mix_bars(family, unit, lambda member: member.mix)
    return ReportFigure.of(
        f"{family.subject}: {unit} by mix",
        *(MIX_CAPTION, bars_caption(bars), sentence(family.fixed), limits, far_caption(far)),
        charts=[chart_bars.mix(bars, unit, drawn, near)],
        table=_mix_table(family),
    )


def mix_bars(family: PointFamily, unit: str, place: Callable[[Point], str]) -> list[chart_bars.Bar]:
    """Reads and writes of each point; those at the same place are stacked."""
    return [
        rate_bar(place(member), kind, totals, unit, bounds(member, unit))
        for member in family.members
        for kind, totals in member.summary().kinds.items()
    ]


def _mix_table(family: PointFamily) -> Table:
    kinds = ("read", "write")
    rows: list[tuple[Cell, ...]] = [
        (
            member.mix,
            *cells(member.summary(), "IOPS"),
            *(cell for kind in kinds for cell in cells(member.summary().kinds.get(kind), "IOPS")),
            *cells(member.summary(), "MiB/s"),
            *(cell for kind in kinds for cell in cells(member.summary().kinds.get(kind), "p50", "p99")),
            *last_cells(member),
        )
        for member in family.members
    ]
    latencies = [f"{kind} {name}" for kind in kinds for name in ("p50", "p99")]
    return Table.of(
        ("read:write", "IOPS", *(f"{kind} IOPS" for kind in kinds), "MiB/s", *latencies, *LAST_COLUMNS), rows
    )


# ---- by depth


def latency(family: PointFamily, reading: Reading) -> ReportFigure:
    """Latency over the rate, a dot for each depth."""
    unit = rate_unit(family)
    drawn, limits = drawn_caps(family, reading, unit, rate(family.fastest.summary(), unit))
    dots = [
        dot
        for series, members in family.series.items()
        for member in members
        for dot in latency_dots(series, member, unit, "depth", f"{member.axis('depth'):g}")
    ]
    return ReportFigure.of(
        f"{family.subject}: latency against {unit}",
        *(DEPTH_CAPTION, sentence(family.fixed), limits),
        charts=[chart_curves.latency_curve(dots, drawn, unit, reading.knee)] if dots else [],
        table=_depth_table(family),
    )


def _depth_table(family: PointFamily) -> Table:
    figures = ("IOPS", "MiB/s", "mean", "p50", "p99", "p99.9")
    first = ("series",) if family.series.keys() != {""} else ()
    rows = [
        ((*((series,) if first else ()), f"{member.axis('depth'):g}"), member)
        for series, members in family.series.items()
        for member in members
    ]
    return points_table((*first, "depth"), rows, figures, 1 + len(first), in_flight=True)


def side_by_side(family: PointFamily, reading: Reading) -> list[ReportFigure]:
    """Several depth series as bars side by side; no figure for a single series."""
    series, unit = family.series, rate_unit(family)
    if len(series) < 2:
        return []
    limits = chart_style.within_sight(caps(family.members, reading, unit), rate(family.fastest.summary(), unit))
    bars = [
        rate_bar(f"{depth:g}", name, member.summary(), unit, bounds(member, unit))
        for depth in sorted({member.axis("depth") for member in family.members})
        for name, members in series.items()
        for member in members
        if member.axis("depth") == depth
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
    drawn = chart_bars.grouped(bars, unit, limits, title="Depth (operations in flight)")
    figure = ReportFigure.of(
        f"{family.subject}: {names} side by side",
        f"{unit} at the same depth, all operations in flight counted over all connections.",
        gain_caption(ratios) or bars_caption(bars),
        charts=[drawn, *([chart_bars.gains(ratios, first)] if ratios else [])],
        table=table_of_series(
            "depth",
            _by_depth(series),
            list(series),
            unit,
            f"{{name}} to {first}" if len(others) > 1 else "ratio",
            "p99",
        ),
        name=f"{family.subject} side by side",
    )
    return [figure]


def _by_depth(series: dict[str, list[Point]]) -> dict[str, dict[str, Point]]:
    """The points of all series at each depth."""
    found: dict[float, dict[str, Point]] = {}
    for name, members in series.items():
        for member in members:
            found.setdefault(member.axis("depth"), {})[name] = member
    return {f"{depth:g}": at for depth, at in sorted(found.items())}


# ---- by rate


def by_rate(family: PointFamily, reading: Reading) -> ReportFigure:
    """Latency over IOPS, a dot for each rate."""
    drawn, limits = drawn_caps(family, reading, "IOPS", family.fastest.summary().iops)
    rates = [member.axis("rate") for member in family.members]
    # A search tries some rates repeatedly: a line would run to and fro, and labels would cover each other.
    is_repeated = len(set(rates)) < len(rates)
    dots = [
        dot
        for index, member in enumerate(family.members)
        for dot in latency_dots(
            "", member, "IOPS", "rate", "" if rates[index] in rates[:index] else f"{rates[index] / max(rates):.0%}"
        )
    ]
    return ReportFigure.of(
        f"{family.subject}: latency by load",
        *(RATE_CAPTION, limits),
        charts=[chart_curves.latency_curve(dots, drawn, is_joined=not is_repeated)],
        table=_rate_table(family),
        prefix=family.name,
    )


def _rate_table(family: PointFamily) -> Table:
    ordered = sorted(family.members, key=lambda member: member.axis("rate"))
    rows = [((count(member.axis("rate")),), member) for member in ordered]
    return points_table(("IOPS due",), rows, ("IOPS", "MiB/s", "p50", "p99", "p99.9"), in_flight=True)


# ---- over time


def over_time(family: PointFamily, reading: Reading, *, is_folded: bool = False) -> ReportFigure:
    """Rate and latency of the point of a family over time, and a row for each job."""
    (member,) = family.members
    title = family.title or (member.name if member.name != reading.result.name else "By job")
    limits = chart_style.within_sight(caps(family.members, reading, "IOPS"), member.summary().iops)
    seen = member.series()
    drawings = chart_curves.over_time(seen, limits, _marks(member))
    heat = chart_curves.heat_map(list(_shares(member)))
    text = caption(
        "All jobs together." if drawings else "",
        "Faint dots are the ramp, which is not counted." if drawings and any(one.ramp for one in seen) else "",
        HEAT_CAPTION if heat else "",
        sentence(f"the whole time was noisy: {member.noise}") if member.noise else "",
    )
    drawings += heat + chart_curves.percentile_curves(
        {kind: one.latency for kind, one in member.summary().kinds.items()}
    )
    table = _job_table(family.members)
    return replace(ReportFigure.of(title, text, charts=drawings, table=table, prefix=family.name), is_folded=is_folded)


def _marks(point: Point) -> list[chart_curves.TimeMark]:
    """A step to another level, a stall of the target, and the times in which the load did not run."""
    course, workers = course_beside_stall(point), point.outcome.workers
    change = level_change([interval.iops for interval in course])
    marks: list[chart_curves.TimeMark] = []
    if isinstance(change, LevelStep):
        at = course[change.index]
        levels = f"{format_count(change.before)} → {format_count(change.after)} IOPS"
        marks.append((at.group, at.start_ns, at.start_ns, levels))
    groups = sorted({worker.group for worker in workers})
    if len(groups) == 1 and (stall := longest_stall(workers)):
        label = "the target stalled" if of_target(point) else "operations stalled"
        marks.append((groups[0], stall[0], sum(stall), label))
    for group in groups:
        for one in absences([worker for worker in workers if worker.group == group]):
            end_ns = one.start_ns + one.duration_ns
            marks.append((group, one.start_ns, end_ns, "the load did not run"))
    return marks


def _shares(point: Point) -> Iterator[chart_curves.LatencyShare]:
    """The operations between the known latencies of each interval of each worker, where these are known."""
    starts = chart_curves.group_starts(point.series())
    for worker in point.outcome.workers:
        for interval in worker.intervals:
            start_ns = starts.get(worker.group, 0)
            at = (start_ns + interval.start_ns, start_ns + interval.end_ns)
            for kind in interval.operations.values():
                if kind.operations and kind.p50_ns is not None and kind.p99_ns is not None:
                    bounds = (kind.min_ns, kind.p50_ns, kind.p99_ns, kind.max_ns)
                    for low, high, part in zip(bounds, bounds[1:], (0.5, 0.49, 0.01), strict=False):
                        yield *at, low, high, kind.operations * part


def by_job(family: PointFamily) -> ReportFigure:
    """A row for each job of each point."""
    return ReportFigure.of(family.title or "By job", table=_job_table(family.members), prefix=family.name)


def _job_table(members: Sequence[Point]) -> Table:
    """One row per report group and kind of operation, as fio prints them, with the point where there are several."""
    figures = ("IOPS", "MiB/s", "mean", "p50", "p99", "p99.9", "max", "errors")
    point = ("point",) if len(members) > 1 else ()
    rows: list[tuple[Cell, ...]] = [
        (*((member.name,) if point else ()), group.name, kind, *cells(totals, *figures), cpu(group))
        for member in members
        for group in member.report_groups()
        for kind, totals in group.kinds.items()
    ]
    return Table.of((*point, "job", "kind", *figures, "CPU µs/op"), rows, text_columns=2 + len(point))


KIND_RATE_CAPTION = "The kinds of operation fill a bar."
LATENCY_CAPTION = "Below, full dots are medians and hollow ones 99th percentiles."


def by_kind(family: PointFamily) -> list[ReportFigure]:
    """The rate and the latency of each kind at each point; no figures for one kind, or for reads and writes alone."""
    done = [
        (place(family, member), member, kind, member.summary().kinds[kind])
        for member in family.members
        for kind in kinds_of(family)
        if kind in member.summary().kinds and member.summary().kinds[kind].operations
    ]
    kinds = {kind for _, _, kind, _ in done}
    if len(kinds) < 2 or not kinds & set(METADATA_KINDS):
        return []
    bars = [rate_bar(at, kind, totals, "IOPS") for at, _, kind, totals in done]
    latencies = chart_curves.kind_latencies([bar for bar in bars if not math.isnan(bar.p50_ns)])
    latency_figures = ("mean", "p50", "p99", "p99.9", "errors")
    rows: list[tuple[Cell, ...]] = [
        (
            at,
            kind,
            decimal(100 * totals.iops / member.summary().iops) if member.summary().iops else "",
            *cells(totals, "IOPS", "MiB/s", "entries/s", *latency_figures),
        )
        for at, member, kind, totals in done
    ]
    columns = ("point", "kind", "share %", "ops/s", "MiB/s", "entries/s", *latency_figures)
    return [
        ReportFigure.of(
            f"{family.subject}: by kind of operation",
            *(KIND_RATE_CAPTION, LATENCY_CAPTION, sentence(family.fixed)),
            charts=[chart_bars.mix(bars, "IOPS", (), title=None), latencies],
            table=Table.of(columns, rows, text_columns=2),
            prefix=family.name,
        )
    ]


def by_files(family: PointFamily) -> ReportFigure:
    """The rate over the number of files in each directory."""
    rows = [((f"{int(member.axis('files')):,}",), member) for member in family.members]
    return ReportFigure.of(
        f"{family.subject}: IOPS by files in each directory",
        sentence(family.fixed),
        charts=[
            chart_curves.files_curve({int(member.axis("files")): member.summary().iops for member in family.members})
        ],
        table=points_table(("files",), rows, ("IOPS", "p50", "p99", "p99.9")),
        prefix=family.name,
    )


def kinds_of(family: PointFamily) -> list[str]:
    """The kinds of all points, in the order of the first that has each."""
    done = (member.summary().kinds.items() for member in family.members)
    return list(dict.fromkeys(kind for kinds in done for kind, totals in kinds if totals.operations))


def place(family: PointFamily, member: Point) -> str:
    """The difference of a point from the others of its family: ``depth 8``."""
    axes = [axis for axis in member.axes if family.varies(axis)]
    return ", ".join(axis_text(axis, member.axes[axis]) for axis in axes) or family.subject
