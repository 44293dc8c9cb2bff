"""Figures of loads that mix many kinds of operation: the rate and the latency of each kind."""

from __future__ import annotations

import math

from iocurve.analysis import Reading
from iocurve.analysis.families import MeasuredPoint, PointFamily
from iocurve.analysis.load_names import axis_text
from iocurve.engine.plan import METADATA_KINDS
from iocurve.report import charts
from iocurve.report.cells import LAST_COLUMNS, ReportFigure, caption, count, last_cells, percentile, slug
from iocurve.report.table import Cell, Nanoseconds, Table, decimal
from iocurve.units import sentence

RATE_CAPTION = "The kinds of operation fill a bar."
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
            caption=caption(RATE_CAPTION, LATENCY_CAPTION, sentence(family.fixed)),
            charts=(charts.mix(bars, "IOPS", (), title=None), charts.kind_latencies(latencies)),
            table=_table(family, kinds),
        )
    ]


def by_files(family: PointFamily, reading: Reading) -> ReportFigure:
    """The rate over the number of files in each directory."""
    del reading
    title = f"{family.subject}: IOPS by files in each directory"
    dots = [charts.DepthDot(int(member.axis("files")), member.summary.iops) for member in family.members]
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
        charts=(charts.files_curve(dots),),
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
