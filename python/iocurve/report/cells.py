"""The parts that all figures share: tables and their cells, limits and published figures in charts, captions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iocurve.analysis import Reading
from iocurve.analysis.families import Family, MeasuredPoint
from iocurve.analysis.limits import volume_description
from iocurve.report import charts
from iocurve.report.charts import Cap, Chart, PublishedMark
from iocurve.result.document import TargetFacts
from iocurve.result.summary import Summary, Totals

LIMITED_BY = "limited by"
LAST_COLUMNS = ("CPU µs/op", LIMITED_BY)


@dataclass(frozen=True)
class Table:
    """Rows of text under the names of their columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: int = 1
    """The number of columns at the left that hold words; the others hold figures."""

    def style(self, column: int) -> str:
        """The CSS classes of a column."""
        if column < self.text_columns:
            return "text"
        return "text last" if self.columns[column] == LIMITED_BY else "figure"


@dataclass(frozen=True)
class Figure:
    """Charts, and a table with their exact values."""

    slug: str
    """The name in file names and links."""
    title: str
    caption: str
    charts: tuple[Chart, ...]
    table: Table


# ---- cells


def last_cells(member: MeasuredPoint) -> tuple[str, str]:
    """The cells of ``LAST_COLUMNS``: CPU time per operation, and the limit."""
    return cpu(member.summary), member.limit.short_name if member.limit else "no known limit"


def cpu(summary: Summary) -> str:
    """Microseconds per operation; empty where that is not known."""
    used = summary.cpu_us_per_operation
    return "" if used is None else f"{used:.2f}"


def kind_cell(summary: Summary, kind: str, cell: Callable[[Totals], str]) -> str:
    """The cell of one kind of operation; a dash where the point has none of that kind."""
    return cell(summary.kinds[kind]) if kind in summary.kinds else "–"


def percentile_us(percent: float) -> Callable[[Totals], str]:
    """Makes a cell with a percentile of the latency in microseconds."""
    return lambda totals: decimal(totals.latency.percentile(percent) / 1000)


def ratio(measured: MeasuredPoint, base: MeasuredPoint) -> str:
    """The IOPS of a point relative to those of another: ``1.87 ×``."""
    return f"{measured.summary.iops / base.summary.iops:.2f} ×" if base.summary.iops else ""


def count(value: float) -> str:
    """``12,800``."""
    return f"{value:,.0f}"


def decimal(value: float) -> str:
    """``1,234.5``."""
    return f"{value:,.1f}"


# ---- rates


def rate_unit(family: Family) -> str:
    """``MiB/s`` for sequential loads, ``IOPS`` for others."""
    return "MiB/s" if family.is_sequential else "IOPS"


def rate(totals: Totals, unit: str) -> float:
    """The rate in one of the units of ``rate_unit``."""
    return totals.mib_per_s if unit == "MiB/s" else totals.iops


# ---- limits in charts


def iops_cap(family: Family, target: TargetFacts) -> Cap | None:
    """The target's limit in IOPS at the block size of a family."""
    blocks = {int(member.point.axes.get("block_bytes", 0)) for member in family.members}
    return charts.iops_cap(target, blocks.pop() if len(blocks) == 1 else 0)


def near_iops_cap(family: Family, target: TargetFacts) -> Cap | None:
    """The limit in IOPS, where it is near enough to be drawn."""
    return charts.within_sight(iops_cap(family, target), family.fastest.summary.iops)


def cap_caption(cap: Cap | None, target: TargetFacts, *, is_drawn: bool) -> str:
    """Names the volume's limit and its origin; empty without a limit."""
    if cap is None:
        return ""
    origin = volume_description(target)
    described = f" ({origin})" if origin else ""
    if is_drawn:
        return f"Dashed: the volume's {cap.label}{described}."
    return f"The volume's {cap.label}{described} is far above."


# ---- published figures in charts


def published_marks(
    family: Family, reading: Reading, unit: str, place: Callable[[MeasuredPoint], str], series_axis: str | None = None
) -> list[PublishedMark]:
    """Marks for the published figures of a family that are in the unit of its chart."""
    members = {id(member.point): member for member in family.members}
    return [
        PublishedMark(
            place(members[id(one.point)]),
            one.figure.value,
            one.reference.title,
            series_name(members[id(one.point)], series_axis),
        )
        for one in reading.published
        if id(one.point) in members and one.figure.unit == unit
    ]


def near_and_far(marks: Sequence[PublishedMark], highest: float) -> tuple[list[PublishedMark], list[PublishedMark]]:
    """Splits marks into those to draw and those so far above the bars that they would flatten the chart."""
    near = [mark for mark in marks if mark.value <= charts.FAR * highest]
    return near, [mark for mark in marks if mark not in near]


def far_caption(marks: Sequence[PublishedMark]) -> str:
    """Says that marks are not drawn; empty without such marks."""
    return "Published figures lie far above and are in the table at the end only." if marks else ""


def series_name(member: MeasuredPoint, series_axis: str | None) -> str:
    """The name of a bar within its group: ``nconnect 8``; empty without a series."""
    if series_axis is None:
        return ""
    value = member.point.axes.get(series_axis, "")
    return str(value) if series_axis == "target" else f"{series_axis} {value}"


# ---- text


def caption(*sentences: str) -> str:
    """Joins sentences; empty ones are left out."""
    return " ".join(filter(None, sentences))


def slug(title: str) -> str:
    """The title in lower case, with hyphens for everything that is no letter or digit."""
    return "-".join("".join(letter if letter.isalnum() else " " for letter in title.lower()).split())
