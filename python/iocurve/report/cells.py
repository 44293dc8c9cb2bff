"""The parts that all figures share: cells of tables, limits and published figures in charts, captions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self

import msgspec

from iocurve.analysis import Reading
from iocurve.analysis.families import PointFamily
from iocurve.analysis.gains import gain_of
from iocurve.analysis.limits import volume_description
from iocurve.analysis.load_names import RateUnit, workers_of
from iocurve.engine.plan import FLUSH_KINDS, METADATA_KINDS, FixedBlocks
from iocurve.foundation.units import MIB, UNKNOWN_TEXT, capitalised
from iocurve.report import chart_bars, chart_curves, chart_style
from iocurve.report.chart_bars import PublishedMark
from iocurve.report.chart_style import CapLine, Chart
from iocurve.report.table import LIMITED_BY, Cell, Nanoseconds, Table, decimal, limit_cell
from iocurve.result.document import Point, Result, TargetFacts
from iocurve.result.paired import margin_text
from iocurve.result.summary import Summary, Totals

LAST_COLUMNS = ("CPU µs/op", LIMITED_BY)


class ReportFigure(msgspec.Struct, frozen=True):
    """Charts, and a table with their exact values."""

    slug: str
    """The name in file names and links."""
    title: str
    caption: str
    charts: tuple[Chart, ...]
    table: Table
    is_folded: bool = False
    """Closed on the page until a reader opens it."""

    @classmethod
    def of(
        cls, title: str, *sentences: str, charts: Sequence[Chart] = (), table: Table, prefix: str = "", name: str = ""
    ) -> Self:
        """A figure with sentences as its caption; its slug is of ``prefix`` and ``name``, by default the title."""
        return cls(slug(f"{prefix} {name or title}"), title, caption(*sentences), tuple(charts), table)


# ---- cells


def last_cells(member: Point) -> tuple[str, str]:
    """The cells of ``LAST_COLUMNS``: CPU time per operation, and the limit with the mark of a disturbed point."""
    return cpu(member.summary()), limit_cell(member, member.limit_label)


def cpu(summary: Summary) -> str:
    """Microseconds per operation; empty where that is not known."""
    used = summary.cpu_us_per_operation
    return "" if used is None else f"{used:.2f}"


FIGURES: Mapping[str, Callable[[Totals], Cell]] = {
    "IOPS": lambda totals: count(totals.iops),
    "MiB/s": lambda totals: decimal(totals.mib_per_s),
    "entries/s": lambda totals: count(totals.entries_per_s) if totals.entries_per_s else "",
    "mean": lambda totals: Nanoseconds(totals.latency.mean_ns),
    "p50": lambda totals: Nanoseconds(totals.latency.percentile(50)),
    "p99": lambda totals: Nanoseconds(totals.latency.percentile(99)),
    "p99.9": lambda totals: Nanoseconds(totals.latency.percentile(99.9)),
    "max": lambda totals: Nanoseconds(totals.latency.max_ns),
    "errors": lambda totals: f"{totals.errors:,}",
}
"""The columns of figures, and the cell that operations have in each."""


def cells(totals: Totals | None, *columns: str) -> list[Cell]:
    """The cells of some operations in columns of ``FIGURES``; dashes where there are no such operations."""
    return [FIGURES[name](totals) if totals else "–" for name in columns]


def ratio(measured: Point, base: Point) -> str:
    """The rate of a point relative to that of another: ``1.87 × [1.80, 1.95]``."""
    gain = gain_of(measured, base)
    return gain.full_text if gain else ""


def gain_bar(place: str, series: str, measured: Point, base: Point) -> list[chart_bars.JudgedBar]:
    """The bar of a gain; none where points were measured once."""
    gain = gain_of(measured, base)
    if gain is None or not measured.runs:
        return []
    return [
        chart_bars.JudgedBar(
            place,
            series,
            gain.value,
            low=gain.low,
            high=gain.high,
            verdict=gain.verdict,
            text=gain.full_text,
            is_disturbed=bool(gain.noise),
            margin=gain.margin,
        )
    ]


def points_table(
    columns: Sequence[str],
    rows: Iterable[tuple[Sequence[str], Point]],
    figures: Sequence[str],
    text_columns: int = 1,
    *,
    in_flight: bool = False,
) -> Table:
    """A row for each point: cells for ``columns``, its figures, those in flight if wanted, and ``LAST_COLUMNS``."""
    made: list[tuple[Cell, ...]] = [
        (
            *first,
            *cells(member.summary(), *figures),
            *((decimal(member.summary().concurrency_achieved),) if in_flight else ()),
            *last_cells(member),
        )
        for first, member in rows
    ]
    return Table.of((*columns, *figures, *(["in flight"] if in_flight else []), *LAST_COLUMNS), made, text_columns)


def latency_dots(series: str, member: Point, unit: str, axis: str, label: str) -> list[chart_curves.LatencyDot]:
    """The median and the 99th percentile of a point, as far as they are known."""
    summary = member.summary()
    return [
        chart_curves.LatencyDot(series, member.axis(axis), label, rate(summary, unit), f"p{percent}", latency_ns)
        for percent in (50, 99)
        if not math.isnan(latency_ns := summary.latency.percentile(percent))
    ]


def table_of_series(
    axis: str,
    places: Mapping[str, Mapping[str, Point]],
    names: Sequence[str],
    unit: str,
    ratio_name: str,
    *further: str,
) -> Table:
    """A row for each place, with the rate of each series there, the ratios to the first, and ``further`` columns.

    ``ratio_name`` names the column of a ratio; ``{name}`` in it stands for the series.
    """
    first, *others = names

    def values(at: Mapping[str, Point], column: str) -> list[Cell]:
        return [cells(at[name].summary(), column)[0] if name in at else "" for name in names]

    rows: list[list[Cell]] = [
        [
            place,
            *values(at, unit),
            *(ratio(at[name], at[first]) if name in at and first in at else "" for name in others),
            *(cell for column in further for cell in values(at, column)),
        ]
        for place, at in places.items()
    ]
    columns = [f"{name}, {column}" for column in further for name in names]
    ratios = [ratio_name.format(name=name) for name in others]
    return Table.of((axis, *(f"{name}, {unit}" for name in names), *ratios, *columns), rows)


BARS_CAPTION = "Error bars are 95 % intervals."
GAIN_CAPTION = (
    "Error bars are 95 % intervals, from interleaved runs: faster or slower if one excludes 1, no difference if "
    "it excludes differences of {margin} or more, and is inconclusive otherwise."
)
DISTURBED_CAPTION = "* noisy, by other work on this machine, also when measured again."


def bars_caption(bars: Iterable[chart_bars.Bar]) -> str:
    """Says what the error bars of rates mean; empty without error bars."""
    return BARS_CAPTION if any(bar.low is not None for bar in bars) else ""


def gain_caption(bars: Sequence[chart_bars.JudgedBar]) -> str:
    """Says what the error bars and the marks of gains mean; empty without gains."""
    if not bars:
        return ""
    margin = margin_text(bars[0].margin)
    disturbed = DISTURBED_CAPTION if any(bar.is_disturbed for bar in bars) else ""
    return caption(GAIN_CAPTION.format(margin=margin), disturbed)


def count(value: float) -> str:
    """``12,800``."""
    return UNKNOWN_TEXT if math.isnan(value) else f"{value:,.0f}"


# ---- rates


def rate_unit(family: PointFamily) -> RateUnit:
    """``MiB/s`` for sequential loads, ``IOPS`` for others."""
    return "MiB/s" if family.is_sequential else "IOPS"


def rate(totals: Totals, unit: str) -> float:
    """The rate in one of the units of ``rate_unit``."""
    return totals.mib_per_s if unit == "MiB/s" else totals.iops


def bounds(member: Point, unit: str, kind: str | None = None) -> tuple[float | None, float | None]:
    """The 95 % interval of a rate, in one of the units of ``rate_unit``; None where it is not known."""
    figure = member.rate_interval("bytes_per_s" if unit == "MiB/s" else "iops", kind)
    if figure.low is None or figure.high is None:
        return None, None
    scale = MIB if unit == "MiB/s" else 1
    return figure.low / scale, figure.high / scale


def rate_bar(
    place: str, series: str, totals: Totals, unit: str, interval: tuple[float | None, float | None] = (None, None)
) -> chart_bars.Bar:
    """The bar of a rate with its interval."""
    p50_ns, p99_ns = (totals.latency.percentile(percent) for percent in (50, 99))
    return chart_bars.Bar(place, series, rate(totals, unit), p50_ns, p99_ns, *interval)


# ---- limits in charts


def caps(points: Sequence[Point], reading: Reading, unit: str) -> list[CapLine]:
    """The limits of the targets that some points load, at the block size that all of them share."""
    targets = {name: facts for point in points for name, facts in targets_of(point, reading.result).items()}
    blocks = {block_bytes(point) for point in points}
    return chart_style.caps(targets, unit, blocks.pop() if len(blocks) == 1 else 0)


def drawn_caps(family: PointFamily, reading: Reading, unit: str, highest: float) -> tuple[list[CapLine], str]:
    """The limits of a family that are near its highest rate, and a caption of them and of those far above."""
    found = caps(family.members, reading, unit)
    near = chart_style.within_sight(found, highest)
    return near, cap_caption(found, near, target_of(family, reading))


def targets_of(point: Point, result: Result) -> dict[str, TargetFacts]:
    """The targets that a point loads, by the names of the scenario; a point with several jobs may load all of them."""
    if result.scenario and point.target is None:
        return result.scenario.targets
    return {point.target or "": result.target_of(point)}


def block_bytes(point: Point) -> int:
    """The block size of all operations of a point; 0 where there are several."""
    operations = [operation for worker in workers_of(point) for operation in worker.operations]
    if any(operation.kind in METADATA_KINDS for operation in operations):
        return 0
    sizes = {
        operation.blocks.bytes if isinstance(operation.blocks, FixedBlocks) else 0
        for operation in operations
        if operation.kind not in FLUSH_KINDS
    }
    return sizes.pop() if len(sizes) == 1 else 0


def cap_caption(found: Sequence[CapLine], near: Sequence[CapLine], target: TargetFacts) -> str:
    """Names the limits that are drawn, and those that are too far above; empty without limits."""
    drawn = f"Dashed: {_named(near, target)}." if near else ""
    return caption(drawn, far_cap_caption(found, near, target))


def far_cap_caption(found: Sequence[CapLine], near: Sequence[CapLine], target: TargetFacts) -> str:
    """Names the limits that are too far above to be drawn; empty without such limits."""
    far = [cap for cap in found if cap not in near]
    return capitalised(f"{_named(far, target)} {'is' if len(far) == 1 else 'are'} far above.") if far else ""


def target_of(family: PointFamily, reading: Reading) -> TargetFacts:
    """The target that the first point of a family loads."""
    return reading.result.target_of(family.members[0])


def _named(found: Sequence[CapLine], target: TargetFacts) -> str:
    if len(found) > 1:
        return f"the targets' limits ({'; '.join(cap.label for cap in found)})"
    origin = volume_description(target)
    whose = "the volume's" if target.kind in ("embedded_volume", "nfs") else "the target's"
    return f"{whose} {found[0].label}{f' ({origin})' if origin else ''}"


# ---- published figures in charts


def published_marks(
    family: PointFamily, reading: Reading, unit: str, place: Callable[[Point], str], series_axis: str | None = None
) -> list[PublishedMark]:
    """Marks for the published figures of a family that are in the unit of its chart."""
    members = {id(member) for member in family.members}
    return [
        PublishedMark(
            place(one.point), one.bounds[0], one.reference.title, series_name(one.point, series_axis), one.legend
        )
        for one in reading.published
        if id(one.point) in members and one.figure.unit == unit
    ]


def near_and_far(marks: Sequence[PublishedMark], highest: float) -> tuple[list[PublishedMark], list[PublishedMark]]:
    """Splits marks into those to draw and those so far above the bars that they would flatten the chart."""
    near = [mark for mark in marks if mark.value <= chart_style.FAR * highest]
    return near, [mark for mark in marks if mark not in near]


def far_caption(marks: Sequence[PublishedMark]) -> str:
    """Says that marks are not drawn; empty without such marks."""
    return "Published figures lie far above and are in the table at the end only." if marks else ""


def series_name(member: Point, series_axis: str | None) -> str:
    """The name of a bar within its group: ``nconnect 8``; empty without a series."""
    if series_axis is None:
        return ""
    value = member.axes.get(series_axis, "")
    return str(value) if series_axis == "target" else f"{series_axis} {value}"


# ---- text


def caption(*sentences: str) -> str:
    """Joins sentences; empty ones are left out."""
    return " ".join(filter(None, sentences))


def slug(title: str) -> str:
    """The title in lower case, with hyphens for everything that is no letter or digit."""
    return "-".join("".join(letter if letter.isalnum() else " " for letter in title.lower()).split())
