"""Charts of lines: latency over IOPS, and rate and latency over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import altair as alt

from iocurve.report.charts.caps import Cap
from iocurve.report.charts.style import (
    Chart,
    data,
    end_of_axis,
    finished,
    kind_color,
    legend,
    limit_line,
    rate_axis,
    series_color,
)
from iocurve.result.summary import SeriesInterval
from iocurve.units import MIB, SECOND_NS

LABEL_ROOM = 1.2
"""The axis of latencies reaches this much further than the values, so that labels fit at both ends."""
LATENCY_LABEL = (
    "datum.value >= 1e6 ? datum.value / 1e6 + ' s'"
    " : datum.value >= 1e3 ? datum.value / 1e3 + ' ms' : datum.value + ' µs'"
)
"""Vega expression: microseconds in the unit that reads best."""


# ---- latency over IOPS


@dataclass(frozen=True)
class LatencyDot:
    """One percentile at one load of one series."""

    series: str
    load: float
    """Depth or rate; lines connect the dots in this order."""
    label: str
    iops: float
    percentile: str
    latency_ns: int


def latency_curve(dots: Sequence[LatencyDot], cap: Cap | None) -> Chart:
    """A line for each series and percentile; the dots are labelled with their load."""
    values = [
        asdict(dot) | {"latency_us": dot.latency_ns / 1000, "line": f"{dot.series} {dot.percentile}"} for dot in dots
    ]
    fastest = max(dot.iops for dot in dots)
    base = alt.Chart(data(values)).encode(
        x=alt.X("iops:Q", title="IOPS", scale=alt.Scale(domain=[0, end_of_axis(fastest, cap)]), axis=rate_axis()),
        y=_latency_axis([value["latency_us"] for value in values]),
        color=series_color([dot.series for dot in dots]),
    )
    dash = alt.StrokeDash(
        "percentile:N", title=None, scale=alt.Scale(domain=["p50", "p99"], range=[[1, 0], [5, 4]]), legend=legend()
    )
    lines = base.mark_line(strokeWidth=2).encode(strokeDash=dash, order="load:Q", detail="line:N")
    tooltip = [
        alt.Tooltip("series:N", title="series"),
        alt.Tooltip("label:N", title="load"),
        alt.Tooltip("iops:Q", title="IOPS", format=",.0f"),
        alt.Tooltip("percentile:N", title="percentile"),
        alt.Tooltip("latency_us:Q", title="latency (µs)", format=",.1f"),
    ]
    marks = [mark for name in ("p50", "p99") for mark in _dots(base, name, tooltip)]
    return finished(alt.layer(*limit_line("x", cap), lines, *marks), height=380)


def _dots(base: alt.Chart, percentile: str, tooltip: list[alt.Tooltip]) -> list[alt.Chart]:
    """The dots of one percentile with their labels. Curves run close, so the percentiles differ in shape and side."""
    chosen = base.transform_filter(alt.datum.percentile == percentile)
    median = percentile == "p50"
    dots = chosen.mark_circle(size=46, opacity=1) if median else chosen.mark_point(fill="white", size=46, opacity=1)
    labels = chosen.mark_text(
        align="left" if median else "right",
        baseline="top" if median else "bottom",
        dx=7 if median else -7,
        dy=2 if median else -2,
        fontSize=10.5,
    )
    return [dots.encode(tooltip=tooltip), labels.encode(text="label:N")]


# ---- over time


def over_time(series: Sequence[SeriesInterval]) -> list[Chart]:
    """IOPS, and mean and largest latency, over time; no charts for fewer than two intervals."""
    offsets = _group_offsets(series)
    values = [
        {
            "second": (offsets[part.group] + (part.start_ns + part.end_ns) / 2) / SECOND_NS,
            # A line breaks between groups and after the ramp: no load was measured in between.
            "stretch": f"{part.group} {part.kind} {part.ramp}",
            "kind": part.kind,
            "phase": "ramp" if part.ramp else "measured",
            "iops": part.iops,
            "mib_per_s": part.bytes_per_s / MIB,
            "mean": part.mean_ns / 1000,
            "max": part.max_ns / 1000,
        }
        for part in series
    ]
    if len({value["second"] for value in values}) < 2:
        return []
    return [_rate_over_time(values), _latency_over_time(values)]


def _rate_over_time(values: Sequence[dict[str, Any]]) -> Chart:
    tooltip = [
        alt.Tooltip("second:Q", title="second", format=".1f"),
        alt.Tooltip("phase:N", title="phase"),
        alt.Tooltip("kind:N", title="kind"),
        alt.Tooltip("iops:Q", title="IOPS", format=",.0f"),
        alt.Tooltip("mib_per_s:Q", title="MiB/s", format=",.1f"),
    ]
    base = alt.Chart(data(values)).encode(
        x=_time_axis(),
        y=alt.Y("iops:Q", title="IOPS", scale=alt.Scale(zero=True), axis=rate_axis()),
        color=kind_color(value["kind"] for value in values),
        opacity=_phase_opacity(),
        detail="stretch:N",
    )
    return finished(alt.layer(base.mark_line(strokeWidth=2), base.mark_circle(size=34).encode(tooltip=tooltip)))


def _latency_over_time(values: Sequence[dict[str, Any]]) -> Chart:
    rows = [value | {"which": which, "latency_us": value[which]} for value in values for which in ("mean", "max")]
    base = alt.Chart(data(rows)).encode(
        x=_time_axis(),
        y=_latency_axis([row["latency_us"] for row in rows]),
        color=kind_color(value["kind"] for value in values),
        opacity=_phase_opacity(),
        detail=["stretch:N", "which:N"],
    )
    dash = alt.StrokeDash(
        "which:N", title=None, scale=alt.Scale(domain=["mean", "max"], range=[[1, 0], [5, 4]]), legend=legend()
    )
    tooltip = [
        alt.Tooltip("second:Q", title="second", format=".1f"),
        alt.Tooltip("phase:N", title="phase"),
        alt.Tooltip("kind:N", title="kind"),
        alt.Tooltip("which:N", title="which"),
        alt.Tooltip("latency_us:Q", title="latency (µs)", format=",.1f"),
    ]
    lines = base.mark_line(strokeWidth=2).encode(strokeDash=dash)
    return finished(alt.layer(lines, base.mark_circle(size=34).encode(tooltip=tooltip)), height=220)


def _time_axis() -> alt.X:
    return alt.X("second:Q", title="Time (s)", scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=10))


def _phase_opacity() -> alt.Opacity:
    """The ramp is faint, because it is not counted."""
    return alt.Opacity("phase:O", scale=alt.Scale(domain=["measured", "ramp"], range=[1, 0.3]), legend=None)


def _group_offsets(series: Sequence[SeriesInterval]) -> dict[int, int]:
    """The start of each group: groups run one after another."""
    ends: dict[int, int] = {}
    for part in series:
        ends[part.group] = max(ends.get(part.group, 0), part.end_ns)
    offsets, start = {}, 0
    for group in sorted(ends):
        offsets[group] = start
        start += ends[group]
    return offsets


# ---- the axis of latencies


def _latency_axis(values_us: Sequence[float]) -> alt.Y:
    """A logarithmic axis with marks at 1, 2 and 5 of each power of ten and room for labels at both ends."""
    positive = [value for value in values_us if value > 0] or [1.0]
    marks = [step * 10.0**power for power in range(-3, 10) for step in (1, 2, 5)]
    low = max((mark for mark in marks if mark <= min(positive) / LABEL_ROOM), default=marks[0])
    high = min((mark for mark in marks if mark >= max(positive) * LABEL_ROOM), default=marks[-1])
    return alt.Y(
        "latency_us:Q",
        title="Latency (log scale)",
        scale=alt.Scale(type="log", domain=[low, high], nice=False, clamp=True),
        axis=alt.Axis(values=[mark for mark in marks if low <= mark <= high], labelExpr=LATENCY_LABEL),
    )
