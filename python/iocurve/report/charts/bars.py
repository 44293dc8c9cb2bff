"""Charts of bars, with the published figures that belong beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import altair as alt

from iocurve.report.charts.caps import Cap
from iocurve.report.charts.style import (
    INK,
    Chart,
    data,
    end_of_axis,
    finished,
    independent_strokes,
    kind_color,
    legend,
    limit_line,
    rate_axis,
    series_color,
)
from iocurve.units import format_count

PUBLISHED_COLOR = "#A8005C"
"""The colour of published figures; no measured figure has it."""
LABELS_WIDTH = 920.0
"""Pixels that the labels of an axis share."""
UPRIGHT_LABELS_MAX = 8
"""The labels of more groups than this are tilted."""


@dataclass(frozen=True)
class PublishedMark:
    """A published figure at a place of a chart's horizontal axis."""

    place: str
    value: float
    source: str
    series: str = ""
    """The bar of a group that the figure belongs to."""


# ---- reads and writes by mix


@dataclass(frozen=True)
class MixBar:
    """One kind of operation at one mix."""

    mix: str
    kind: str
    rate: float
    p50_ns: int
    p99_ns: int


def mix(bars: Sequence[MixBar], unit: str, cap: Cap | None, published: Sequence[PublishedMark] = ()) -> Chart:
    """Stacked bars of reads and writes; ``unit`` is that of the rates."""
    totals = {name: sum(bar.rate for bar in bars if bar.mix == name) for name in dict.fromkeys(bar.mix for bar in bars)}
    order = list(totals)
    highest = max([*totals.values(), *(mark.value for mark in published)])
    x = alt.X("mix:N", scale=alt.Scale(domain=order), title="Mix, read:write (%)", axis=alt.Axis(labelAngle=0))
    stacked = _stacked(bars, unit, x, alt.Scale(domain=[0, end_of_axis(highest, cap)]))
    labels = _total_labels(totals, unit, x)
    # A white rim keeps a figure legible where the line of the limit runs through it.
    rims = labels.mark_text(dy=-10, stroke="white", strokeWidth=5, strokeJoin="round", fontSize=12, fontWeight=600)
    marks = _published(published, alt.X("place:N", scale=alt.Scale(domain=order)), unit)
    return finished(independent_strokes(alt.layer(stacked, *limit_line("y", cap), rims, labels, *marks)))


def _stacked(bars: Sequence[MixBar], unit: str, x: alt.X, scale: alt.Scale) -> alt.Chart:
    rows = [asdict(bar) | {"p50": bar.p50_ns / 1000, "p99": bar.p99_ns / 1000} for bar in bars]
    chart: alt.Chart = (
        alt.Chart(data(rows))
        .mark_bar(size=46)
        .encode(
            x=x,
            y=alt.Y("rate:Q", title=unit, stack="zero", scale=scale, axis=rate_axis(unit)),
            color=kind_color(bar.kind for bar in bars),
            order=alt.Order("kind:N", sort="ascending"),
            tooltip=[
                alt.Tooltip("mix:N", title="mix"),
                alt.Tooltip("kind:N", title="kind"),
                alt.Tooltip("rate:Q", title=unit, format=",.1f"),
                alt.Tooltip("p50:Q", title="p50 (µs)", format=",.1f"),
                alt.Tooltip("p99:Q", title="p99 (µs)", format=",.1f"),
            ],
        )
    )
    return chart


def _total_labels(totals: dict[str, float], unit: str, x: alt.X) -> alt.Chart:
    rows = [{"mix": name, "total": total, "label": _number(total, unit)} for name, total in totals.items()]
    chart: alt.Chart = (
        alt.Chart(data(rows))
        .mark_text(dy=-10, color=INK, fontSize=12, fontWeight=600)
        .encode(x=x, y="total:Q", text="label:N")
    )
    return chart


def _number(value: float, unit: str) -> str:
    """IOPS are shortened to k and M, MiB/s are not."""
    return f"{value:,.0f}" if unit == "MiB/s" else format_count(value)


# ---- groups


@dataclass(frozen=True)
class GroupBar:
    """One bar of a group."""

    group: str
    series: str
    value: float
    p99_ns: int


def grouped(bars: Sequence[GroupBar], unit: str, cap: Cap | None, published: Sequence[PublishedMark] = ()) -> Chart:
    """Groups of bars; ``unit`` is that of the values."""
    series = list(dict.fromkeys(bar.series for bar in bars))
    groups = list(dict.fromkeys(bar.group for bar in bars))
    highest = max([*(bar.value for bar in bars), *(mark.value for mark in published)])
    offset = alt.XOffset("series:N", sort=series)
    chart = (
        alt.Chart(data([asdict(bar) | {"p99": bar.p99_ns / 1000} for bar in bars]))
        .mark_bar()
        .encode(
            x=alt.X("group:N", scale=alt.Scale(domain=groups), title=None, axis=_group_axis(len(groups))),
            xOffset=offset,
            y=alt.Y(
                "value:Q", title=unit, scale=alt.Scale(domain=[0, end_of_axis(highest, cap)]), axis=rate_axis(unit)
            ),
            color=series_color(series),
            tooltip=[
                alt.Tooltip("group:N", title="load"),
                alt.Tooltip("series:N", title="series"),
                alt.Tooltip("value:Q", title=unit, format=",.1f"),
                alt.Tooltip("p99:Q", title="p99 (µs)", format=",.1f"),
            ],
        )
    )
    marks = _published(published, alt.X("place:N", scale=alt.Scale(domain=groups)), unit, offset)
    return finished(independent_strokes(alt.layer(chart, *limit_line("y", cap), *marks)))


def _group_axis(groups: int) -> alt.Axis:
    return alt.Axis(labelAngle=0 if groups <= UPRIGHT_LABELS_MAX else -40, labelLimit=LABELS_WIDTH / groups)


@dataclass(frozen=True)
class DepthBar:
    """One series at one depth."""

    series: str
    depth: int
    iops: float


def depth_bars(bars: Sequence[DepthBar], cap: Cap | None) -> Chart:
    """Several series as bars beside each other, by depth."""
    series = list(dict.fromkeys(bar.series for bar in bars))
    scale = alt.Scale(domain=[0, end_of_axis(max(bar.iops for bar in bars), cap)])
    chart = (
        alt.Chart(data([asdict(bar) for bar in bars]))
        .mark_bar()
        .encode(
            x=alt.X("depth:O", title="Depth (operations in flight)", axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("series:N", sort=series),
            y=alt.Y("iops:Q", title="IOPS", scale=scale, axis=rate_axis()),
            color=series_color(series),
            tooltip=[
                alt.Tooltip("series:N", title="series"),
                alt.Tooltip("depth:O", title="depth"),
                alt.Tooltip("iops:Q", title="IOPS", format=",.0f"),
            ],
        )
    )
    return finished(alt.layer(chart, *limit_line("y", cap)))


# ---- published figures


def _published(
    marks: Sequence[PublishedMark], x: alt.X, unit: str, offset: alt.XOffset | None = None
) -> list[alt.Chart]:
    """Hollow diamonds, so that published figures do not look like measured ones."""
    if not marks:
        return []
    encoding: dict[str, Any] = {} if offset is None else {"xOffset": offset}
    return [
        alt.Chart(data([asdict(mark) | {"legend": "published"} for mark in marks]))
        .mark_point(shape="diamond", size=130, filled=False, strokeWidth=2.2, opacity=1)
        .encode(
            x=x,
            y="value:Q",
            stroke=alt.Stroke("legend:N", title=None, scale=alt.Scale(range=[PUBLISHED_COLOR]), legend=legend()),
            tooltip=[
                alt.Tooltip("value:Q", title=f"published, {unit}", format=",.0f"),
                alt.Tooltip("source:N", title="source"),
            ],
            **encoding,
        )
    ]
