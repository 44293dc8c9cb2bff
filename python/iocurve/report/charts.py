"""How the report draws: Vega-Lite charts over plain values, one function per kind of chart.

Colours are those of Okabe and Ito, which people with any colour vision tell apart. Reads and writes have the same
colour wherever they appear, and no series has theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import altair as alt

from iocurve.result.document import TargetFacts
from iocurve.result.summary import SeriesInterval
from iocurve.units import MIB, SECOND_NS, format_count

Chart = dict[str, Any]
"""A Vega-Lite specification."""

READ, WRITE, INK, MUTED, GRID = "#0072B2", "#E69F00", "#1b1f24", "#57606a", "#e7eaee"
KINDS = {"read": READ, "write": WRITE}
PUBLISHED = "#A8005C"
"""Of figures that others have published; nothing that is measured has it."""
SERIES = ["#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#000000"]
HEIGHT = 300
FONT = (
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', 'Liberation Sans', Arial, sans-serif"
)
LABEL_ROOM = 1.2
LABEL_WIDTH = 920.0
"""Pixels that the labels of an axis share."""
FAR = 2.5
"""A limit more than this many times the highest figure is left out of a chart."""
LATENCY_LABEL = (
    "datum.value >= 1e6 ? datum.value / 1e6 + ' s'"
    " : datum.value >= 1e3 ? datum.value / 1e3 + ' ms' : datum.value + ' µs'"
)
"""Vega expression: microseconds in the unit that reads best."""
COUNT_LABEL = (
    "datum.value >= 1e6 ? format(datum.value / 1e6, '.4~g') + 'M'"
    " : datum.value >= 1e3 ? format(datum.value / 1e3, '.4~g') + 'k' : datum.value"
)
"""Vega expression: a count with thousands and millions shortened."""


@dataclass(frozen=True)
class Cap:
    """A known limit of the target, in the unit of the axis it is drawn on."""

    value: float
    label: str


def throughput_cap(target: TargetFacts) -> Cap | None:
    """The target's limit in MiB/s."""
    if not target.throughput_bytes_per_s:
        return None
    mib_per_s = target.throughput_bytes_per_s / MIB
    return Cap(mib_per_s, f"limit {mib_per_s:,.5g} MiB/s")


def iops_cap(target: TargetFacts, block_bytes: int) -> Cap | None:
    """The lower of the target's limit in IOPS and what its throughput limit allows at a block size (0: unknown)."""
    caps = []
    if target.iops:
        caps.append(Cap(target.iops, f"limit {target.iops:,} IOPS"))
    if target.throughput_bytes_per_s and block_bytes:
        iops = target.throughput_bytes_per_s / block_bytes
        caps.append(Cap(iops, f"limit {target.throughput_bytes_per_s / MIB:,.5g} MiB/s = {iops:,.0f} IOPS"))
    return min(caps, key=lambda cap: cap.value, default=None)


def within_sight(cap: Cap | None, highest: float) -> Cap | None:
    """The limit, unless it is so far above the highest figure that it would only flatten the chart."""
    return cap if cap and cap.value <= FAR * highest else None


@dataclass(frozen=True)
class MixBar:
    """One kind of operation at one mix."""

    mix: str
    kind: str
    rate: float
    p50_ns: int
    p99_ns: int


@dataclass(frozen=True)
class PublishedMark:
    """A figure that others have published, at a place of a chart's horizontal axis."""

    place: str
    value: float
    source: str
    series: str = ""
    """Of grouped bars: which of a group's it belongs to."""


def mix(bars: Sequence[MixBar], what: str, cap: Cap | None, published: Sequence[PublishedMark] = ()) -> Chart:
    """Stacked bars of reads and writes; ``what`` is the unit of the rate."""
    order = list(dict.fromkeys(bar.mix for bar in bars))
    totals = {name: sum(bar.rate for bar in bars if bar.mix == name) for name in order}
    highest = max([*totals.values(), *(mark.value for mark in published)])
    x = alt.X("mix:N", scale=alt.Scale(domain=order), title="Mix, read:write (%)", axis=alt.Axis(labelAngle=0))
    shown = [asdict(bar) | {"p50": bar.p50_ns / 1000, "p99": bar.p99_ns / 1000} for bar in bars]
    stacked = (
        alt.Chart(_data(shown))
        .mark_bar(size=46)
        .encode(
            x=x,
            y=alt.Y(
                "rate:Q", title=what, stack="zero", scale=alt.Scale(domain=[0, _top(highest, cap)]), axis=_axis(what)
            ),
            color=_kind_color(bar.kind for bar in bars),
            order=alt.Order("kind:N", sort="ascending"),
            tooltip=[
                alt.Tooltip("mix:N", title="mix"),
                alt.Tooltip("kind:N", title="kind"),
                alt.Tooltip("rate:Q", title=what, format=",.1f"),
                alt.Tooltip("p50:Q", title="p50 (µs)", format=",.1f"),
                alt.Tooltip("p99:Q", title="p99 (µs)", format=",.1f"),
            ],
        )
    )
    labels = (
        alt.Chart(
            _data([{"mix": name, "total": total, "label": _number(total, what)} for name, total in totals.items()])
        )
        .mark_text(dy=-10, color=INK, fontSize=12, fontWeight=600)
        .encode(x=x, y="total:Q", text="label:N")
    )
    # A white rim keeps a figure legible where the limit's line runs through it.
    rims = labels.mark_text(dy=-10, stroke="white", strokeWidth=5, strokeJoin="round", fontSize=12, fontWeight=600)
    marks = _published(published, alt.X("place:N", scale=alt.Scale(domain=order)), what)
    return _finished(_apart(alt.layer(stacked, *_rule("y", cap), rims, labels, *marks)))


@dataclass(frozen=True)
class GroupBar:
    """One bar of a group of bars beside each other."""

    group: str
    series: str
    value: float
    p99_ns: int


def grouped(bars: Sequence[GroupBar], what: str, cap: Cap | None, published: Sequence[PublishedMark] = ()) -> Chart:
    """Bars beside each other in groups; ``what`` is the unit of the values."""
    series = list(dict.fromkeys(bar.series for bar in bars))
    groups = list(dict.fromkeys(bar.group for bar in bars))
    highest = max([*(bar.value for bar in bars), *(mark.value for mark in published)])
    scale = alt.Scale(domain=[0, _top(highest, cap)])
    offset = alt.XOffset("series:N", sort=series)
    chart = (
        alt.Chart(_data([asdict(bar) | {"p99": bar.p99_ns / 1000} for bar in bars]))
        .mark_bar()
        .encode(
            x=alt.X(
                "group:N",
                scale=alt.Scale(domain=groups),
                title=None,
                axis=alt.Axis(labelAngle=0 if len(groups) < 9 else -40, labelLimit=LABEL_WIDTH / len(groups)),
            ),
            xOffset=offset,
            y=alt.Y("value:Q", title=what, scale=scale, axis=_axis(what)),
            color=_series_color(series),
            tooltip=[
                alt.Tooltip("group:N", title="load"),
                alt.Tooltip("series:N", title="series"),
                alt.Tooltip("value:Q", title=what, format=",.1f"),
                alt.Tooltip("p99:Q", title="p99 (µs)", format=",.1f"),
            ],
        )
    )
    marks = _published(published, alt.X("place:N", scale=alt.Scale(domain=groups)), what, offset)
    return _finished(_apart(alt.layer(chart, *_rule("y", cap), *marks)))


@dataclass(frozen=True)
class AdviceCell:
    """One load in a table of advice."""

    row: str
    """Kind and block size."""
    depth: int
    advice: str
    """pays, neutral, harms."""
    text: str


def advice(cells: Sequence[AdviceCell]) -> Chart:
    """A table in green, yellow and red; words say the same, for those who do not tell the colours apart."""
    rows = list(dict.fromkeys(cell.row for cell in cells))
    base = alt.Chart(_data([asdict(cell) for cell in cells])).encode(
        x=alt.X("depth:O", title="Depth (operations in flight)", axis=alt.Axis(labelAngle=0, orient="top")),
        y=alt.Y("row:N", sort=rows, title=None),
    )
    colors = {"pays": "#8fd19e", "neutral": "#ffe08a", "harms": "#f1a5a0"}
    scale = alt.Scale(domain=list(colors), range=list(colors.values()))
    boxes = base.mark_rect(stroke="white", strokeWidth=3).encode(
        color=alt.Color("advice:N", title=None, scale=scale, legend=_legend())
    )
    texts = base.mark_text(fontSize=11.5, color=INK, lineBreak="/").encode(text="text:N")
    return _finished(alt.layer(boxes, texts), height=46 * len(rows))


def _published(
    marks: Sequence[PublishedMark], x: alt.X, what: str, offset: alt.XOffset | None = None
) -> list[alt.Chart]:
    """Published figures as hollow diamonds: they are not measured, and look it."""
    if not marks:
        return []
    encoding: dict[str, Any] = {} if offset is None else {"xOffset": offset}
    return [
        alt.Chart(_data([asdict(mark) | {"legend": "published"} for mark in marks]))
        .mark_point(shape="diamond", size=130, filled=False, strokeWidth=2.2, opacity=1)
        .encode(
            x=x,
            y="value:Q",
            stroke=alt.Stroke("legend:N", title=None, scale=alt.Scale(range=[PUBLISHED]), legend=_legend()),
            tooltip=[
                alt.Tooltip("value:Q", title=f"published, {what}", format=",.0f"),
                alt.Tooltip("source:N", title="source"),
            ],
            **encoding,
        )
    ]


@dataclass(frozen=True)
class LatencyDot:
    """One percentile at one load of one series."""

    series: str
    load: float
    """By which a line goes on: depth, rate."""
    label: str
    iops: float
    percentile: str
    latency_ns: int


def latency_curve(dots: Sequence[LatencyDot], cap: Cap | None) -> Chart:
    """Latency over IOPS, a line per series and percentile, dots labelled with their load."""
    values = [
        asdict(dot) | {"latency_us": dot.latency_ns / 1000, "line": f"{dot.series} {dot.percentile}"} for dot in dots
    ]
    fastest = max(dot.iops for dot in dots)
    base = alt.Chart(_data(values)).encode(
        x=alt.X("iops:Q", title="IOPS", scale=alt.Scale(domain=[0, _top(fastest, cap)]), axis=_axis()),
        y=_latency_axis([value["latency_us"] for value in values]),
        color=_series_color([dot.series for dot in dots]),
    )
    dash = alt.StrokeDash(
        "percentile:N", title=None, scale=alt.Scale(domain=["p50", "p99"], range=[[1, 0], [5, 4]]), legend=_legend()
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
    return _finished(alt.layer(*_rule("x", cap), lines, *marks), height=380)


def _dots(base: alt.Chart, percentile: str, tooltip: list[alt.Tooltip]) -> list[alt.Chart]:
    """Dots of one percentile and their loads; apart from each other in shape and side, for curves run close."""
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


@dataclass(frozen=True)
class DepthBar:
    """One series at one depth."""

    series: str
    depth: int
    iops: float


def depth_bars(bars: Sequence[DepthBar], cap: Cap | None) -> Chart:
    """Bars of several series beside each other, by depth."""
    series = list(dict.fromkeys(bar.series for bar in bars))
    highest = max(bar.iops for bar in bars)
    chart = (
        alt.Chart(_data([asdict(bar) for bar in bars]))
        .mark_bar()
        .encode(
            x=alt.X("depth:O", title="Depth (operations in flight)", axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("series:N", sort=series),
            y=alt.Y("iops:Q", title="IOPS", scale=alt.Scale(domain=[0, _top(highest, cap)]), axis=_axis()),
            color=_series_color(series),
            tooltip=[
                alt.Tooltip("series:N", title="series"),
                alt.Tooltip("depth:O", title="depth"),
                alt.Tooltip("iops:Q", title="IOPS", format=",.0f"),
            ],
        )
    )
    return _finished(alt.layer(chart, *_rule("y", cap)))


def over_time(series: Sequence[SeriesInterval]) -> list[Chart]:
    """IOPS, and mean and largest latency, over time; nothing where there are no two intervals to join."""
    offsets = _group_offsets(series)
    values = [
        {
            "second": (offsets[part.group] + (part.start_ns + part.end_ns) / 2) / SECOND_NS,
            # Neither from one group to the next nor from the ramp to what is measured is there a way in between.
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
    base = alt.Chart(_data(values)).encode(
        x=_time_axis(),
        y=alt.Y("iops:Q", title="IOPS", scale=alt.Scale(zero=True), axis=_axis()),
        color=_kind_color(value["kind"] for value in values),
        opacity=_phase_opacity(),
        detail="stretch:N",
    )
    return _finished(alt.layer(base.mark_line(strokeWidth=2), base.mark_circle(size=34).encode(tooltip=tooltip)))


def _latency_over_time(values: Sequence[dict[str, Any]]) -> Chart:
    rows = [value | {"which": which, "latency_us": value[which]} for value in values for which in ("mean", "max")]
    base = alt.Chart(_data(rows)).encode(
        x=_time_axis(),
        y=_latency_axis([row["latency_us"] for row in rows]),
        color=_kind_color(value["kind"] for value in values),
        opacity=_phase_opacity(),
        detail=["stretch:N", "which:N"],
    )
    dash = alt.StrokeDash(
        "which:N", title=None, scale=alt.Scale(domain=["mean", "max"], range=[[1, 0], [5, 4]]), legend=_legend()
    )
    tooltip = [
        alt.Tooltip("second:Q", title="second", format=".1f"),
        alt.Tooltip("phase:N", title="phase"),
        alt.Tooltip("kind:N", title="kind"),
        alt.Tooltip("which:N", title="which"),
        alt.Tooltip("latency_us:Q", title="latency (µs)", format=",.1f"),
    ]
    lines = base.mark_line(strokeWidth=2).encode(strokeDash=dash)
    return _finished(alt.layer(lines, base.mark_circle(size=34).encode(tooltip=tooltip)), height=220)


def _time_axis() -> alt.X:
    return alt.X("second:Q", title="Time (s)", scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=10))


def _phase_opacity() -> alt.Opacity:
    """The ramp is faint: it is shown, but not counted."""
    return alt.Opacity("phase:O", scale=alt.Scale(domain=["measured", "ramp"], range=[1, 0.3]), legend=None)


def _group_offsets(series: Sequence[SeriesInterval]) -> dict[int, int]:
    """Groups run one after another: each starts where the ones before it have ended."""
    ends: dict[int, int] = {}
    for part in series:
        ends[part.group] = max(ends.get(part.group, 0), part.end_ns)
    offsets, start = {}, 0
    for group in sorted(ends):
        offsets[group] = start
        start += ends[group]
    return offsets


# ---- what charts share


def _data(rows: Sequence[dict[str, Any]]) -> alt.InlineData:
    return alt.InlineData(values=list(rows))


def _top(highest: float, cap: Cap | None) -> float:
    """End of an axis: room above the highest figure and the limit."""
    return 1.1 * max(highest, cap.value if cap else 0)


def _rule(axis: str, cap: Cap | None) -> list[alt.Chart]:
    """A dashed line at the limit, named in the legend, where it cannot cover a figure."""
    if cap is None:
        return []
    encoding: dict[str, Any] = {axis: alt.datum(cap.value)}
    return [
        alt.Chart(_data([{"limit": cap.label}]))
        .mark_rule(strokeDash=[7, 4], strokeWidth=1.5)
        .encode(stroke=alt.Stroke("limit:N", title=None, scale=alt.Scale(range=[INK]), legend=_legend()), **encoding)
    ]


def _kind_color(kinds: Iterable[str]) -> alt.Color:
    wanted = set(kinds)
    present = [kind for kind in KINDS if kind in wanted]
    scale = alt.Scale(domain=present, range=[KINDS[kind] for kind in present])
    return alt.Color("kind:N", title=None, scale=scale, legend=_legend())


def _series_color(series: Sequence[str]) -> alt.Color:
    names = list(dict.fromkeys(series))
    colors = [KINDS.get(name, SERIES[index % len(SERIES)]) for index, name in enumerate(names)]
    legend = _legend() if names != [""] else None
    return alt.Color("series:N", title=None, scale=alt.Scale(domain=names, range=colors), legend=legend)


def _legend() -> alt.Legend:
    return alt.Legend(orient="top", direction="horizontal", labelLimit=420, symbolStrokeWidth=2, symbolOpacity=1)


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


def _number(value: float, unit: str) -> str:
    """IOPS are shortened to k and M as everywhere; MiB/s are not."""
    return f"{value:,.0f}" if unit == "MiB/s" else format_count(value)


def _axis(unit: str = "IOPS") -> alt.Axis:
    """With few enough marks that their numbers stay apart on narrow pages."""
    label = "format(datum.value, ',')" if unit == "MiB/s" else COUNT_LABEL
    return alt.Axis(labelExpr=label, tickCount=8)


def _apart(chart: alt.LayerChart | alt.FacetChart) -> alt.LayerChart | alt.FacetChart:
    """Limits and published figures have colours of their own."""
    apart: alt.LayerChart | alt.FacetChart = chart.resolve_scale(stroke="independent")
    return apart


def labelled(chart: Chart, text: str) -> Chart:
    """With a line that goes with the chart wherever it is shown."""
    if not text:
        return chart
    title = {"text": text, "anchor": "end", "fontSize": 11, "fontWeight": "normal", "color": MUTED, "orient": "bottom"}
    return chart | {"title": title}


def _finished(chart: alt.Chart | alt.LayerChart | alt.FacetChart, height: int = HEIGHT) -> Chart:
    """As wide as its place in the page, without decoration."""
    styled = (
        chart.properties(width="container", height=height, background="transparent")
        .configure(font=FONT)
        .configure_view(stroke=None)
        .configure_axis(
            gridColor=GRID,
            domainColor=MUTED,
            tickColor=MUTED,
            labelColor=MUTED,
            titleColor=INK,
            titleFontWeight=500,
            labelFontSize=12,
            titleFontSize=12.5,
            titlePadding=10,
        )
        .configure_axisX(grid=False)
        .configure_legend(
            labelColor=INK,
            labelFontSize=12,
            padding=0,
            offset=12,
            columnPadding=18,
        )
    )
    specification: Chart = styled.to_dict()
    # Legends above each other: beside each other they would not fit a narrow page. Vega takes more here than the
    # schema of Vega-Lite, by which Altair checks, knows of.
    specification["config"]["legend"]["layout"] = {"top": {"direction": "vertical", "margin": 5, "anchor": "start"}}
    return specification
