"""Charts of bars, with the published figures that belong to them."""

from __future__ import annotations

import math
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


class Bar(msgspec.Struct, frozen=True):
    """The rate of one series at one place."""

    place: str
    series: str
    """Kind of operation, or name among others at the same place."""
    value: float
    p50_ns: float = math.nan
    p99_ns: float = math.nan
    low: float | None = None
    """Lower bound of the interval, of a stack that of the whole; None without one."""
    high: float | None = None

    @property
    def top(self) -> float:
        """The end of the bar or of its error bar, whichever is higher."""
        return max(self.value, self.high or 0.0)


def _rows(bars: Sequence[Bar]) -> list[dict[str, object]]:
    """The rows of a chart."""
    return [
        asdict(bar) | {"p50": format_latency(bar.p50_ns), "p99": format_latency(bar.p99_ns), "top": bar.top}
        for bar in bars
    ]


# ---- reads and writes by mix


def mix(
    bars: Sequence[Bar],
    unit: str,
    caps: Sequence[CapLine],
    published: Sequence[PublishedMark] = (),
    title: str | None = "Mix, read:write (%)",
) -> Chart:
    """Stacked bars of reads and writes; ``unit`` is that of the rates, ``title`` that of the bars."""
    totals: dict[str, float] = {}
    for bar in bars:
        totals[bar.place] = totals.get(bar.place, 0.0) + bar.value
    # The interval is that of the whole stack, the same in each of its bars.
    stacks = {
        bar.place: {"place": bar.place, "low": bar.low, "high": bar.high, "label": _number(totals[bar.place], unit)}
        | {"top": max(bar.high or 0.0, totals[bar.place])}
        for bar in bars
    }
    highest = max([*(max(bar.high or 0.0, totals[bar.place]) for bar in bars), *(mark.value for mark in published)])
    x = alt.X("place:N", scale=alt.Scale(domain=list(totals)), title=title, axis=group_axis(list(totals)))
    scale = alt.Scale(domain=[0, end_of_axis(highest, caps)])
    stacked = (
        alt.Chart(data(_rows(bars)))
        .mark_bar(width={"band": 0.6})
        .encode(
            x=x,
            y=alt.Y("value:Q", title=unit, stack="zero", scale=scale, axis=rate_axis(unit)),
            color=kind_color("series", [bar.series for bar in bars]),
            order=alt.Order("series:N", sort="ascending"),
            tooltip=[
                alt.Tooltip("place:N", title="load"),
                alt.Tooltip("series:N", title="kind"),
                rate_tooltip("value", unit),
                alt.Tooltip("p50:N", title="p50"),
                alt.Tooltip("p99:N", title="p99"),
            ],
        )
    )
    base = alt.Chart(data(list(stacks.values()))).encode(x=x)
    labels = _labels(base, dy=-10, size=12, rim=5)
    marks = _published(published, alt.X("place:N", scale=alt.Scale(domain=list(totals))), unit)
    layers = [stacked, *error_bars(base, list(stacks.values())), *limit_lines("y", caps), *labels, *marks]
    return finished(independent_strokes(alt.layer(*layers)))


def _labels(base: alt.Chart, *, dy: int, size: int, rim: int) -> list[alt.Chart]:
    """The figures above the bars. A white rim keeps one legible where the line of the limit runs through it."""
    placed = base.encode(y="top:Q", text="label:N")
    return [
        placed.mark_text(dy=dy, stroke="white", strokeWidth=rim, strokeJoin="round", fontSize=size, fontWeight=600),
        placed.mark_text(dy=dy, color=INK, fontSize=size, fontWeight=600),
    ]


def _number(value: float, unit: str) -> str:
    """IOPS are shortened to k and M, MiB/s are not."""
    return f"{value:,.0f}" if unit == "MiB/s" else format_count(value)


# ---- groups


def grouped(
    bars: Sequence[Bar],
    unit: str,
    caps: Sequence[CapLine],
    published: Sequence[PublishedMark] = (),
    title: str | None = None,
) -> Chart:
    """Groups of bars; ``unit`` is that of the values, ``title`` that of the groups. Reads go before writes."""
    series = sorted(
        dict.fromkeys(bar.series for bar in bars),
        key=lambda name: list(KIND_COLORS).index(name) if name in KIND_COLORS else -1,
    )
    groups = list(dict.fromkeys(bar.place for bar in bars))
    highest = max([*(bar.top for bar in bars), *(mark.value for mark in published)])
    offset, domain = alt.XOffset("series:N", sort=series), alt.Scale(domain=groups)
    rows = [row | {"label": _number(bar.value, unit)} for row, bar in zip(_rows(bars), bars, strict=True)]
    base = alt.Chart(data(rows)).encode(
        x=alt.X("place:N", scale=domain, title=title, axis=group_axis(groups)), xOffset=offset
    )
    scale = alt.Scale(domain=[0, end_of_axis(highest, caps)])
    columns = base.mark_bar().encode(
        y=alt.Y("value:Q", title=unit, scale=scale, axis=rate_axis(unit)),
        color=series_color(series),
        tooltip=[
            alt.Tooltip("place:N", title="load"),
            alt.Tooltip("series:N", title="series"),
            rate_tooltip("value", unit),
            alt.Tooltip("p99:N", title="p99"),
        ],
    )
    marks = _published(published, alt.X("place:N", scale=domain), unit, offset)
    # The mark of a published figure often lies where the bar ends, under its label.
    labels = _labels(base, dy=-18 if published else -8, size=11, rim=4) if len(bars) <= LABELLED_BARS_MAX else []
    layers = [columns, *error_bars(base, rows), *limit_lines("y", caps), *labels, *marks]
    return finished(independent_strokes(alt.layer(*layers)))


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
