"""Draws the charts of reports: Vega-Lite specifications from plain values, one function for each kind of chart."""

from iocurve.report.charts.bars import DepthBar, GroupBar, MixBar, PublishedMark, depth_bars, grouped, mix
from iocurve.report.charts.caps import FAR, Cap, iops_cap, throughput_cap, within_sight
from iocurve.report.charts.coloured_table import AdviceCell, advice
from iocurve.report.charts.curves import LatencyDot, latency_curve, over_time
from iocurve.report.charts.style import Chart, labelled

__all__ = [
    "FAR",
    "AdviceCell",
    "Cap",
    "Chart",
    "DepthBar",
    "GroupBar",
    "LatencyDot",
    "MixBar",
    "PublishedMark",
    "advice",
    "depth_bars",
    "grouped",
    "iops_cap",
    "labelled",
    "latency_curve",
    "mix",
    "over_time",
    "throughput_cap",
    "within_sight",
]
