"""What figures are made of: tables, the cells in them, and the sentences under titles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from iocurve.analysis import published
from iocurve.analysis.families import Family, Measured
from iocurve.analysis.limits import volume_description
from iocurve.report import charts
from iocurve.report.charts import Chart
from iocurve.result.document import Result
from iocurve.result.summary import Summary, Totals

LIMITED_BY = "limited by"


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


ENDING = ("CPU µs/op", LIMITED_BY)


def ending(member: Measured) -> tuple[str, str]:
    """CPU time per operation, and what limited the point: the last two cells of a row."""
    return cpu(member.summary), member.limit.short_name if member.limit else "no known limit"


def cpu(summary: Summary) -> str:
    """Microseconds per operation; empty where that is not known."""
    used = summary.cpu_us_per_operation
    return "" if used is None else f"{used:.2f}"


def of(summary: Summary, kind: str, cell: Callable[[Totals], str]) -> str:
    """The cell of one kind of operation; a dash where there is none."""
    return cell(summary.kinds[kind]) if kind in summary.kinds else "–"


def percentile(percent: float) -> Callable[[Totals], str]:
    """A cell with that percentile in microseconds."""
    return lambda totals: decimal(totals.latency.percentile(percent) / 1000)


def iops(totals: Totals) -> float:
    """Operations per second."""
    return totals.iops


def mib_per_s(totals: Totals) -> float:
    """Throughput."""
    return totals.mib_per_s


def count(value: float) -> str:
    """A whole number."""
    return f"{value:,.0f}"


def decimal(value: float) -> str:
    """With one decimal."""
    return f"{value:,.1f}"


def iops_cap(family: Family, result: Result) -> charts.Cap | None:
    """The limit in IOPS at the block size of a family."""
    blocks = {int(member.point.axes.get("block_bytes", 0)) for member in family.members}
    return charts.iops_cap(result.target, blocks.pop() if len(blocks) == 1 else 0)


def depth_cap(family: Family, result: Result) -> tuple[charts.Cap | None, charts.Cap | None]:
    """The limit in IOPS, and the same where it is near enough to be drawn."""
    cap = iops_cap(family, result)
    return cap, charts.within_sight(cap, max(member.summary.iops for member in family.members))


def about(cap: charts.Cap | None, seen: charts.Cap | None, result: Result) -> list[str]:
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


def sentence(words: str) -> list[str]:
    """Words as a sentence; none of none."""
    return [f"{words[0].upper()}{words[1:]}."] if words else []


def slug(title: str) -> str:
    """For file names and links."""
    words: Sequence[str] = "".join(letter if letter.isalnum() else " " for letter in title.lower()).split()
    return "-".join(words)


def ratio(measured: Measured, base: Measured) -> str:
    """How many times the base."""
    return f"{measured.summary.iops / base.summary.iops:.2f} ×" if base.summary.iops else ""


def published_marks(
    family: Family, result: Result, what: str, place: Callable[[Measured], str], series_axis: str | None = None
) -> list[charts.Published]:
    """Published figures at the places of a family, in the unit of its chart."""
    members = {id(member.point): member for member in family.members}
    return [
        charts.Published(
            place(members[id(one.point)]),
            one.figure.value,
            one.reference.title,
            series_name(members[id(one.point)], series_axis),
        )
        for one in published.compared(result)
        if id(one.point) in members and one.figure.unit == what
    ]


def in_sight(
    marks: Sequence[charts.Published], highest: float
) -> tuple[list[charts.Published], list[charts.Published]]:
    """Those that can be drawn, and those so far above that they would only flatten the chart."""
    near = [mark for mark in marks if mark.value <= charts.FAR * highest]
    return near, [mark for mark in marks if mark not in near]


def about_far(marks: Sequence[charts.Published]) -> list[str]:
    """That some are not drawn."""
    return ["Published figures lie far above and are in the table at the end only."] if marks else []


def series_name(member: Measured, series_axis: str | None) -> str:
    """What sets a bar apart from others of its group."""
    if series_axis is None:
        return ""
    value = member.point.axes.get(series_axis, "")
    return str(value) if series_axis == "target" else f"{series_axis} {value}"
