"""Draws the charts of reports: Vega-Lite specifications from plain values, one function for each kind of chart."""

from iocurve.report.charts.bars import (
    Bar,
    HistoryDot,
    JudgedBar,
    PublishedMark,
    advice,
    changes,
    gains,
    grouped,
    history,
    mix,
)
from iocurve.report.charts.curves import (
    LatencyDot,
    clients_curve,
    files_curve,
    kind_latencies,
    knee_curve,
    latency_curve,
    over_time,
    percentile_curves,
)
from iocurve.report.charts.style import FAR, CapLine, Chart, caps, labelled, within_sight

__all__ = [
    "FAR",
    "Bar",
    "CapLine",
    "Chart",
    "HistoryDot",
    "JudgedBar",
    "LatencyDot",
    "PublishedMark",
    "advice",
    "caps",
    "changes",
    "clients_curve",
    "files_curve",
    "gains",
    "grouped",
    "history",
    "kind_latencies",
    "knee_curve",
    "labelled",
    "latency_curve",
    "mix",
    "over_time",
    "percentile_curves",
    "within_sight",
]
