"""Draws the charts of reports: Vega-Lite specifications from plain values, one function for each kind of chart."""

from iocurve.report.charts.bars import DepthBar, GroupBar, MixBar, PublishedMark, depth_bars, grouped, mix
from iocurve.report.charts.caps import FAR, CapLine, caps, within_sight
from iocurve.report.charts.curves import (
    ClientsDot,
    DepthDot,
    LatencyDot,
    clients_curve,
    files_curve,
    kind_latencies,
    knee_curve,
    latency_curve,
    over_time,
)
from iocurve.report.charts.gains import AdviceCell, GainBar, advice, gains
from iocurve.report.charts.style import Chart, labelled

__all__ = [
    "FAR",
    "AdviceCell",
    "CapLine",
    "Chart",
    "ClientsDot",
    "DepthBar",
    "DepthDot",
    "GainBar",
    "GroupBar",
    "LatencyDot",
    "MixBar",
    "PublishedMark",
    "advice",
    "caps",
    "clients_curve",
    "depth_bars",
    "files_curve",
    "gains",
    "grouped",
    "kind_latencies",
    "knee_curve",
    "labelled",
    "latency_curve",
    "mix",
    "over_time",
    "within_sight",
]
