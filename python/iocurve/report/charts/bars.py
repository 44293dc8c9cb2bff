"""Charts of bars, with the published figures that belong to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import msgspec
from msgspec.structs import asdict

from iocurve.foundation.units import format_count, format_latency
from iocurve.report.charts.style import (
    INK,
    KIND_COLORS,
    CapLine,
    Chart,
    data,
    end_of_axis,
    error_bars,
    finished,
    group_axis,
    independent_strokes,
    kind_color,
    legend,
    limit_lines,
    rate_axis,
    rate_tooltip,
    series_color,
)

PUBLISHED_COLOR = "#A8005C"
"""The colour of published figures; no measured figure has it."""
LABELLED_BARS_MAX = 12


class PublishedMark(msgspec.Struct, frozen=True):
    """A published figure at a place of a chart's horizontal axis."""

    place: str
    value: float
    source: str
    series: str = ""
    """The bar of a group that the figure belongs to."""
    legend: str = "published"
    """``published × 0.1`` where the value is a fraction of the published one, as the speed of the target is."""


# ---- reads and writes by mix


class MixBar(msgspec.Struct, frozen=True):
    """One kind of operation at one mix."""

    mix: str
    kind: str
    rate: float
    p50_ns: float
    p99_ns: float
    low: float | None = None
    """Lower bound of the interval of the whole stack, the same in each of its bars; None without one."""
    high: float | None = None


def mix(
    bars: Sequence[MixBar],
    unit: str,
    caps: Sequence[CapLine],
    published: Sequence[PublishedMark] = (),
    title: str | None = "Mix, read:write (%)",
) -> Chart:
    """Stacked bars of reads and writes; ``unit`` is that of the rates, ``title`` that of the bars."""
    totals = {name: sum(bar.rate for bar in bars if bar.mix == name) for name in dict.fromkeys(bar.mix for bar in bars)}
    order = list(totals)
    tops = {bar.mix: max(bar.high or 0.0, totals[bar.mix]) for bar in bars}
    highest = max([*tops.values(), *(mark.value for mark in published)])
    x = alt.X("mix:N", scale=alt.Scale(domain=order), title=title, axis=group_axis(order))
    stacked = _stacked(bars, unit, x, alt.Scale(domain=[0, end_of_axis(highest, caps)]))
    labels = _total_labels(totals, tops, unit, x)
    # A white rim keeps a figure legible where the line of the limit runs through it.
    bounded = {bar.mix: {"mix": bar.mix, "low": bar.low, "high": bar.high} for bar in bars}
    base = alt.Chart(data(list(bounded.values()))).encode(x=x)
    rims = labels.mark_text(dy=-10, stroke="white", strokeWidth=5, strokeJoin="round", fontSize=12, fontWeight=600)
    marks = _published(published, alt.X("place:N", scale=alt.Scale(domain=order)), unit)
    return finished(
        independent_strokes(
            alt.layer(stacked, *error_bars(base, list(bounded.values())), *limit_lines("y", caps), rims, labels, *marks)
        )
    )


def _stacked(bars: Sequence[MixBar], unit: str, x: alt.X, scale: alt.Scale) -> alt.Chart:
    rows = [asdict(bar) | {"p50": format_latency(bar.p50_ns), "p99": format_latency(bar.p99_ns)} for bar in bars]
    chart: alt.Chart = (
        alt.Chart(data(rows))
        .mark_bar(width={"band": 0.6})
        .encode(
            x=x,
            y=alt.Y("rate:Q", title=unit, stack="zero", scale=scale, axis=rate_axis(unit)),
            color=kind_color(bar.kind for bar in bars),
            order=alt.Order("kind:N", sort="ascending"),
            tooltip=[
                alt.Tooltip("mix:N", title="load"),
                alt.Tooltip("kind:N", title="kind"),
                rate_tooltip("rate", unit),
                alt.Tooltip("p50:N", title="p50"),
                alt.Tooltip("p99:N", title="p99"),
            ],
        )
    )
    return chart


def _total_labels(totals: dict[str, float], tops: dict[str, float], unit: str, x: alt.X) -> alt.Chart:
    """The figures above the bars and their error bars."""
    rows = [{"mix": name, "top": tops[name], "label": _number(total, unit)} for name, total in totals.items()]
    chart: alt.Chart = (
        alt.Chart(data(rows))
        .mark_text(dy=-10, color=INK, fontSize=12, fontWeight=600)
        .encode(x=x, y="top:Q", text="label:N")
    )
    return chart


def _number(value: float, unit: str) -> str:
    """IOPS are shortened to k and M, MiB/s are not."""
    return f"{value:,.0f}" if unit == "MiB/s" else format_count(value)


# ---- groups


class GroupBar(msgspec.Struct, frozen=True):
    """One bar of a group."""

    group: str
    series: str
    value: float
    p99_ns: float
    low: float | None = None
    """Lower bound of the interval; None without one."""
    high: float | None = None


def grouped(
    bars: Sequence[GroupBar], unit: str, caps: Sequence[CapLine], published: Sequence[PublishedMark] = ()
) -> Chart:
    """Groups of bars; ``unit`` is that of the values. Reads go before writes."""
    series = sorted(
        dict.fromkeys(bar.series for bar in bars),
        key=lambda name: list(KIND_COLORS).index(name) if name in KIND_COLORS else -1,
    )
    groups = list(dict.fromkeys(bar.group for bar in bars))
    highest = max([*(max(bar.value, bar.high or 0.0) for bar in bars), *(mark.value for mark in published)])
    offset = alt.XOffset("series:N", sort=series)
    rows = [asdict(bar) | {"p99": format_latency(bar.p99_ns)} for bar in bars]
    chart = (
        alt.Chart(data(rows))
        .mark_bar()
        .encode(
            x=alt.X("group:N", scale=alt.Scale(domain=groups), title=None, axis=group_axis(groups)),
            xOffset=offset,
            y=alt.Y(
                "value:Q", title=unit, scale=alt.Scale(domain=[0, end_of_axis(highest, caps)]), axis=rate_axis(unit)
            ),
            color=series_color(series),
            tooltip=[
                alt.Tooltip("group:N", title="load"),
                alt.Tooltip("series:N", title="series"),
                rate_tooltip("value", unit),
                alt.Tooltip("p99:N", title="p99"),
            ],
        )
    )
    marks = _published(published, alt.X("place:N", scale=alt.Scale(domain=groups)), unit, offset)
    x = alt.X("group:N", scale=alt.Scale(domain=groups), title=None)
    base = alt.Chart(data(rows)).encode(x=x, xOffset=offset)
    # The mark of a published figure often lies where the bar ends, under its label.
    labels = _bar_labels(bars, unit, groups, offset, above=-18 if published else -8)
    return finished(
        independent_strokes(alt.layer(chart, *error_bars(base, rows), *limit_lines("y", caps), *labels, *marks))
    )


def _bar_labels(
    bars: Sequence[GroupBar], unit: str, groups: Sequence[str], offset: alt.XOffset, *, above: int
) -> list[alt.Chart]:
    """The figures above the bars, as long as they fit."""
    if len(bars) > LABELLED_BARS_MAX:
        return []
    rows = [asdict(bar) | {"label": _number(bar.value, unit), "top": max(bar.value, bar.high or 0.0)} for bar in bars]
    base = alt.Chart(data(rows)).encode(
        x=alt.X("group:N", scale=alt.Scale(domain=list(groups))), xOffset=offset, y="top:Q", text="label:N"
    )
    return [
        base.mark_text(dy=above, fontSize=11, fontWeight=600, stroke="white", strokeWidth=4, strokeJoin="round"),
        base.mark_text(dy=above, fontSize=11, fontWeight=600, color=INK),
    ]


class DepthBar(msgspec.Struct, frozen=True):
    """One series at one depth."""

    series: str
    depth: int
    rate: float
    low: float | None = None
    """Lower bound of the interval; None without one."""
    high: float | None = None


def depth_bars(bars: Sequence[DepthBar], unit: str, caps: Sequence[CapLine]) -> Chart:
    """Several series as bars side by side, by depth."""
    series = list(dict.fromkeys(bar.series for bar in bars))
    scale = alt.Scale(domain=[0, end_of_axis(max(max(bar.rate, bar.high or 0.0) for bar in bars), caps)])
    rows = [asdict(bar) for bar in bars]
    offset = alt.XOffset("series:N", sort=series)
    chart = (
        alt.Chart(data(rows))
        .mark_bar()
        .encode(
            x=alt.X("depth:O", title="Depth (operations in flight)", axis=alt.Axis(labelAngle=0)),
            xOffset=offset,
            y=alt.Y("rate:Q", title=unit, scale=scale, axis=rate_axis(unit)),
            color=series_color(series),
            tooltip=[
                alt.Tooltip("series:N", title="series"),
                alt.Tooltip("depth:O", title="depth"),
                rate_tooltip("rate", unit),
            ],
        )
    )
    base = alt.Chart(data(rows)).encode(x="depth:O", xOffset=offset)
    return finished(independent_strokes(alt.layer(chart, *error_bars(base, rows), *limit_lines("y", caps))))


# ---- published figures


def _published(
    marks: Sequence[PublishedMark], x: alt.X, unit: str, offset: alt.XOffset | None = None
) -> list[alt.Chart]:
    """Hollow diamonds, so that published figures do not look like measured ones."""
    if not marks:
        return []
    encoding: dict[str, Any] = {} if offset is None else {"xOffset": offset}
    return [
        alt.Chart(data([asdict(mark) for mark in marks]))
        .mark_point(shape="diamond", size=130, filled=False, strokeWidth=2.2, opacity=1)
        .encode(
            x=x,
            y="value:Q",
            stroke=alt.Stroke("legend:N", title=None, scale=alt.Scale(range=[PUBLISHED_COLOR]), legend=legend()),
            tooltip=[
                alt.Tooltip("value:Q", title=f"{marks[0].legend}, {unit}", format=",.0f"),
                alt.Tooltip("source:N", title="source"),
            ],
            **encoding,
        )
    ]
