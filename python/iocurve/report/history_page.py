"""The page of a history: each figure over the runs, with intervals, levels and changes."""

from __future__ import annotations

from iocurve.analysis.history import Series
from iocurve.foundation.units import counted
from iocurve.report import charts
from iocurve.report.cells import ReportFigure, slug
from iocurve.report.compared import value_text
from iocurve.report.history import History, changes, table
from iocurve.report.page import rendered
from iocurve.report.table import Table
from iocurve.result.version import iocurve_version

CAPTION = "Bars are 95 % intervals of a run. Lines are levels, and dashed ones the changes between them."


def page(history: History) -> str:
    """The page, which needs nothing but itself."""
    overview = ReportFigure("series", "All series", "", (), table(history))
    first, last = history.runs[0].result.created, history.runs[-1].result.created
    return rendered(
        "compared.html",
        title="History",
        version=iocurve_version(),
        sources=[],
        subtitle=f"{counted(len(history.runs), 'run')}, {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC",
        notes=history.notes,
        missing=[],
        figures=[overview, *(_figure(history, one) for one in history.series)],
    )


def _figure(history: History, series: Series) -> ReportFigure:
    values = list(zip(series.runs, series.values, strict=True))
    texts = [history.run_text(series, index) for index in range(len(values))]
    dots = [
        charts.HistoryDot(run + 1, one.value, one.low, one.high, f"{text}: {value_text(series.name, one.value)}")
        for (run, one), text in zip(values, texts, strict=True)
    ]
    levels = [
        charts.HistoryLevel(series.runs[one.first] + 1, series.runs[one.last] + 1, one.start, one.end)
        for one in series.levels
    ]
    unit = "IOPS" if series.name == "iops" else series.name
    title = f"{series.point}: {unit}"
    found = changes(history, series)
    listed = Table(("change",), [(text,) for text in found or ["none"]])
    return ReportFigure(slug(title), title, CAPTION, (charts.history(dots, levels, unit),), listed)
