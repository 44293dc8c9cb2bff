"""The page of a comparison: curves over each other, and each figure's changes with their intervals.

The page of a history has each figure over the runs, with intervals, levels and changes.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from iocurve._native import VERSION
from iocurve.analysis.compare import NAMES, Difference, label
from iocurve.analysis.families import PointFamily
from iocurve.analysis.history import Series
from iocurve.foundation.units import capitalised, counted
from iocurve.report import chart_bars, chart_curves
from iocurve.report.cells import ReportFigure, latency_dots, rate_unit, slug
from iocurve.report.compared import (
    FIGURE_NAMES,
    Compared,
    History,
    change_text,
    conditions_table,
    history_changes,
    history_table,
    table,
    value_text,
)
from iocurve.report.page import rendered
from iocurve.report.table import Table
from iocurve.result.figures import of_kind, plain
from iocurve.result.paired import margin_text

LOADS = ("depth", "rate", "clients")
"""Axes along which a curve is drawn."""
CAPTION = (
    "Bars are intervals that hold together with 95 %. Dashed: differences of {margin}, the smallest that matter. "
    "A change of a latency to the right is slower."
)


def page(compared: Compared) -> str:
    """The page, which needs nothing but itself."""
    return rendered(
        "compared.html",
        title="Comparison",
        version=VERSION,
        sources=list(zip(compared.labels, compared.sources, strict=True)),
        subtitle=f"{counted(len(compared.comparison.differences), 'figure')} compared",
        finding=f"{capitalised(compared.summary)}." if compared.summary else "There is no figure to compare.",
        notes=compared.notes,
        missing=compared.unmatched,
        figures=[*_conditions(compared), *_curves(compared), *_changes(compared), _table(compared)],
    )


def _conditions(compared: Compared) -> Iterator[ReportFigure]:
    if differing := conditions_table(compared):
        named = replace(differing, columns=("condition", *compared.labels))
        yield ReportFigure("conditions", "Conditions that differ", "", (), named)


def _table(compared: Compared) -> ReportFigure:
    return ReportFigure("differences", "All differences", "", (), table(compared))


def _changes(compared: Compared) -> Iterator[ReportFigure]:
    """A chart for each figure, of all operations of a point and of each kind."""
    comparison = compared.comparison
    for name in NAMES:
        found = [one for one in comparison.differences if of_kind(plain(one.name))[1] == name]
        if found:
            chart = chart_bars.changes([_change(compared, one) for one in found], 100 * comparison.margin)
            title = f"{FIGURE_NAMES[name]}: change"
            caption = CAPTION.format(margin=margin_text(comparison.margin))
            shown = Table(
                ("point", "change", "verdict"), [_row(compared, one) for one in found], sentences=("verdict",)
            )
            yield ReportFigure(slug(title), title, caption, (chart,), shown)


def _change(compared: Compared, one: Difference) -> chart_bars.JudgedBar:
    name, change, verdict = _row(compared, one)
    low, high, text = one.low_percent, one.high_percent, f"{change}, {verdict}"
    return chart_bars.JudgedBar(name, "", one.change_percent, low=low, high=high, verdict=one.verdict, text=text)


def _row(compared: Compared, one: Difference) -> tuple[str, str, str]:
    kind = of_kind(one.name)[0]
    name = f"{one.point}, {kind}s" if kind in ("read", "write") else f"{one.point}, {kind}" if kind else one.point
    name = f"{name} ({label(one.other)})" if len(compared.sources) > 2 else name
    return name, change_text(one), one.verdict_text


def _curves(compared: Compared) -> Iterator[ReportFigure]:
    """Latency over the rate of each family that has an axis of loads, all results over each other."""
    results = compared.comparison.results
    names = dict.fromkeys(point.family for result in results for point in result.points)
    for name in names if len(results) > 1 else ():
        families = [_family(compared, place, name) for place in range(len(results))]
        axis = next((axis for axis in LOADS if all(one is not None and one.varies(axis) for one in families)), None)
        known = [one for one in families if one is not None]
        if axis and known:
            unit = rate_unit(known[0])
            dots = [
                dot
                for one in known
                for member in one.members
                for dot in latency_dots(one.name, member, unit, axis, f"{member.axes[axis]}")
            ]
            is_joined = all(len({member.axis(axis) for member in one.members}) == len(one.members) for one in known)
            chart = chart_curves.latency_curve(dots, [], unit, is_joined=is_joined)
            dots_table = Table.of(("result", axis, unit, "percentile", "latency"), [_cells(dot) for dot in dots])
            yield ReportFigure(slug(f"curve {name}"), f"{name}: latency over the rate", "", (chart,), dots_table)


def _family(compared: Compared, place: int, name: str) -> PointFamily | None:
    points = [point for point in compared.comparison.results[place].points if point.family == name]
    members = tuple(point for point in points if point.summary().operations)
    return PointFamily(label(place), members) if members else None


def _cells(dot: chart_curves.LatencyDot) -> tuple[str, ...]:
    return dot.series, dot.label, f"{dot.rate:,.1f}", dot.percentile, f"{dot.latency_ns / 1000:,.1f} µs"


HISTORY_CAPTION = "Bars are 95 % intervals of a run. Lines are levels, and dashed ones the changes between them."


def history_page(history: History) -> str:
    """The page, which needs nothing but itself."""
    overview = ReportFigure("series", "All series", "", (), history_table(history))
    first, last = (history.runs[place][1].created for place in (0, -1))
    return rendered(
        "compared.html",
        title="History",
        version=VERSION,
        sources=[],
        subtitle=f"{counted(len(history.runs), 'run')}, {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC",
        finding=history.summary,
        notes=history.notes,
        missing=[],
        figures=[overview, *(_series_figure(history, one) for one in history.series)],
    )


def _series_figure(history: History, series: Series) -> ReportFigure:
    values = list(zip(series.runs, series.values, strict=True))
    texts = [history.run_text(series, index) for index in range(len(values))]
    dots = [
        (run + 1, one, f"{text}: {value_text(series.name, one.value)}")
        for (run, one), text in zip(values, texts, strict=True)
    ]
    levels = [(series.runs[one.first] + 1, series.runs[one.last] + 1, one.start, one.end) for one in series.levels]
    unit = "IOPS" if series.name == "iops" else series.name
    title = f"{series.point}: {unit}"
    found = history_changes(history, series)
    listed = Table(("change",), [(text,) for text in found or ["none"]])
    return ReportFigure(slug(title), title, HISTORY_CAPTION, (chart_bars.history(dots, levels, unit),), listed)
