"""Draws the charts of reports: Vega-Lite specifications from plain values, one function for each kind of chart."""

from iocurve.report.charts.bars import DepthBar, GroupBar, MixBar, PublishedMark, depth_bars, grouped, mix
from iocurve.report.charts.caps import FAR, Cap, caps, within_sight
from iocurve.report.charts.coloured_table import AdviceCell, advice
from iocurve.report.charts.curves import DepthDot, LatencyDot, knee_curve, latency_curve, over_time
from iocurve.report.charts.gains import GainBar, gains
from iocurve.report.charts.style import Chart, labelled

__all__ = [
    "FAR",
    "AdviceCell",
    "Cap",
    "Chart",
    "DepthBar",
    "DepthDot",
    "GainBar",
    "GroupBar",
    "LatencyDot",
    "MixBar",
    "PublishedMark",
    "advice",
    "caps",
    "depth_bars",
    "gains",
    "grouped",
    "knee_curve",
    "labelled",
    "latency_curve",
    "mix",
    "over_time",
    "within_sight",
]
