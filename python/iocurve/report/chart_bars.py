"""Charts of bars with the published figures that belong to them, of gains, advice and changes, and of a history."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import altair as alt
import msgspec
from msgspec.structs import asdict

from iocurve.foundation.units import format_count, format_latency
from iocurve.report.chart_style import (
    INK,
    KIND_COLORS,
    MUTED,
    ON_COLOR,
    SERIES_COLORS,
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
    texts,
)
from iocurve.result.paired import MARGIN, Verdict
from iocurve.result.stats import Bounded

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
            tooltip=[*texts(place="load", series="kind"), rate_tooltip("value", unit), *texts(p50="p50", p99="p99")],
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
        tooltip=[*texts(place="load", series="series"), rate_tooltip("value", unit), *texts(p99="p99")],
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
    diamonds = (
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
        )
    )
    return [diamonds if offset is None else diamonds.encode(xOffset=offset)]


# ---- gains, advice and changes

GAINS_HEIGHT = 220
VERDICT_COLORS: dict[str, str] = {
    "faster": "#009E73",
    "slower": "#D55E00",
    "no difference": "#b9c0c8",
    "inconclusive": "#dfe3e8",
}


class JudgedBar(Bar, frozen=True, kw_only=True):
    """A value with a verdict: a ratio of two rates, or a change."""

    verdict: Verdict
    text: str
    """The value with its interval and its doubts."""
    is_disturbed: bool = False
    margin: float = MARGIN


def _verdict_color(colors: Mapping[str, str], names: Sequence[str]) -> alt.Color:
    """The colours of those verdicts that are present."""
    present = [name for name in colors if name in names]
    scale = alt.Scale(domain=present, range=[colors[name] for name in present])
    return alt.Color("verdict:N", title=None, scale=scale, legend=legend(present))


def gains(bars: Sequence[JudgedBar], base: str) -> Chart:
    """Bars of ratios to ``base``; the error bars are 95 % intervals."""
    groups = list(dict.fromkeys(bar.place for bar in bars))
    series = list(dict.fromkeys(bar.series for bar in bars))
    rows = [asdict(bar) | {"label": f"{bar.value:.2f} ×{' *' if bar.is_disturbed else ''}"} for bar in bars]
    highest = max([1.0, *(bar.high or bar.value for bar in bars)])
    base_chart = alt.Chart(data(rows)).encode(
        x=alt.X("place:N", scale=alt.Scale(domain=groups), title=None, axis=group_axis(groups)),
        xOffset=alt.XOffset("series:N", sort=series),
        tooltip=texts(place="load", series="compared", text=f"to {base}"),
    )
    y = alt.Y("value:Q", title=f"Speedup over {base} (×)", scale=alt.Scale(domain=[0, 1.15 * highest]))
    columns = base_chart.mark_bar().encode(y=y, color=_verdict_color(VERDICT_COLORS, [bar.verdict for bar in bars]))
    unity = alt.Chart(data([{"one": 1.0}])).mark_rule(color=INK, strokeWidth=1).encode(y="one:Q")
    layers = [columns, unity, *error_bars(base_chart, rows), *_ratio_labels(base_chart, len(bars))]
    return finished(independent_strokes(alt.layer(*layers)), height=GAINS_HEIGHT)


def _ratio_labels(base: alt.Chart, bars: int) -> list[alt.Chart]:
    """The ratios above the error bars, as long as they fit."""
    if bars > LABELLED_BARS_MAX:
        return []
    placed = base.transform_calculate(top="isValid(datum.high) ? datum.high : datum.value")
    return [placed.mark_text(dy=-9, fontSize=11, fontWeight=600, color=INK).encode(y="top:Q", text="label:N")]


WaterfallBar = tuple[str, float, float, str, Verdict | None]
"""A bar of a waterfall: its place, start and end, the value with its interval, and its verdict.

It is a whole (without a verdict), or one of the factors that lead from the first whole to the last.
"""


def waterfall(bars: Sequence[WaterfallBar], unit: str) -> Chart:
    """Factors one after another, each from where the one before ends, between two whole bars."""
    rows = [
        {"place": place, "start": start, "end": end, "text": text, "verdict": verdict or "measured"}
        | {"top": max(start, end), "label": text.partition(" [")[0]}
        for place, start, end, text, verdict in bars
    ]
    places = [place for place, *_ in bars]
    base = alt.Chart(data(rows)).encode(
        x=alt.X("place:N", scale=alt.Scale(domain=places), title=None, axis=group_axis(places)),
        tooltip=texts(place="load", text="value"),
    )
    y = alt.Scale(domain=[0, 1.12 * max(max(start, end) for _, start, end, *_ in bars)])
    columns = base.mark_bar(width={"band": 0.6}).encode(
        y=alt.Y("start:Q", title=unit, scale=y, axis=rate_axis(unit)),
        y2="end:Q",
        color=_verdict_color({"measured": MUTED} | VERDICT_COLORS, [verdict or "measured" for *_, verdict in bars]),
    )
    return finished(independent_strokes(alt.layer(columns, *_labels(base, dy=-8, size=11, rim=4))))


LINE_HEIGHT = 14
ROW_HEIGHT = 66
"""Up to four lines of text, so that a cell is narrow enough for narrow pages."""
ADVICE_COLORS: dict[Verdict, str] = {
    "faster": "#8fd19e",
    "no difference": "#ffe08a",
    "slower": "#f1a5a0",
    "inconclusive": "#dfe3e8",
}
ADVICE: tuple[Verdict, ...] = ("faster", "no difference", "slower")
"""Always in the legend."""


def advice(cells: Sequence[JudgedBar]) -> Chart:
    """A table in green, yellow and red, of kinds and blocks (``place``) by depth (``series``).

    The text, lines with a slash between them, repeats the verdict for readers who cannot distinguish the colours.
    """
    rows = list(dict.fromkeys(cell.place for cell in cells))
    base = alt.Chart(data([asdict(cell) | {"depth": int(cell.series)} for cell in cells])).encode(
        x=alt.X("depth:O", title="Depth (operations in flight)", axis=alt.Axis(labelAngle=0, orient="top")),
        y=alt.Y("place:N", sort=rows, title=None),
    )
    present = {cell.verdict for cell in cells}
    colors = {name: color for name, color in ADVICE_COLORS.items() if name in ADVICE or name in present}
    scale = alt.Scale(domain=list(colors), range=list(colors.values()))
    boxes = base.mark_rect(stroke="white", strokeWidth=3).encode(
        color=alt.Color("verdict:N", title=None, scale=scale, legend=legend())
    )
    # A text of several lines has its first line, not its middle, at the middle of the cell.
    lines = max((cell.text.count("/") for cell in cells), default=0) + 1
    above = -LINE_HEIGHT * (lines - 1) / 2
    texts = base.mark_text(fontSize=11.5, color=ON_COLOR, lineBreak="/", lineHeight=LINE_HEIGHT, dy=above).encode(
        text="text:N"
    )
    return finished(alt.layer(boxes, texts), height=ROW_HEIGHT * len(rows))


CHANGE_HEIGHT = 30
ROWS_HEIGHT_MIN = 90
HISTORY_HEIGHT = 240
LABEL_WIDTH = 320
"""Pixels for the names of points."""


def changes(found: Sequence[JudgedBar], margin_percent: float) -> Chart:
    """A dot for each change with its interval; dashed lines are at the margin, and the solid one at no change."""
    points = list(dict.fromkeys(one.place for one in found))
    ends = [value for one in found for value in (one.value, one.low, one.high) if value is not None]
    reach = 1.1 * max([margin_percent, *map(abs, ends)])
    base = alt.Chart(data([asdict(one) for one in found])).encode(
        y=alt.Y("place:N", sort=points, title=None, axis=alt.Axis(labelLimit=LABEL_WIDTH)),
        tooltip=texts(place="point", text="change"),
    )
    x = alt.Scale(domain=[max(-100.0, -reach), reach], nice=False)
    title = alt.Axis(labelExpr="format(datum.value, '+') + ' %'", tickCount=8)
    rule = base.transform_filter("isValid(datum.low) && isValid(datum.high)").mark_rule(strokeWidth=1.5, color=INK)
    bars = rule.encode(x=alt.X("low:Q", scale=x, axis=title, title="Change"), x2="high:Q")
    dots = base.mark_circle(size=110, opacity=1, stroke=INK, strokeWidth=1).encode(
        x=alt.X("value:Q", scale=x), color=_verdict_color(VERDICT_COLORS, [one.verdict for one in found])
    )
    lines = [
        alt.Chart(data([{"at": at}])).mark_rule(color=color, strokeWidth=1, strokeDash=dash).encode(x="at:Q")
        for at, color, dash in (
            (0.0, INK, [1, 0]),
            (margin_percent, MUTED, [4, 4]),
            (-100 * margin_percent / (100 + margin_percent), MUTED, [4, 4]),
        )
    ]
    return finished(alt.layer(bars, *lines, dots), height=max(ROWS_HEIGHT_MIN, CHANGE_HEIGHT * len(points)))


Line = tuple[int, int, float, float]
"""A straight line between two runs: the first, the last, and the value at each."""


def history(dots: Sequence[tuple[int, Bounded, str]], levels: Sequence[Line], unit: str) -> Chart:
    """The figure of each run with its interval, its levels, and a dashed line at each change.

    A dot has the place of its run, from 1, the figure, and a text of both.
    """
    rows = [{"number": number, **figure._asdict(), "text": text} for number, figure, text in dots]
    base = alt.Chart(data(rows)).encode(
        x=alt.X(
            "number:Q", title="Run", axis=alt.Axis(tickMinStep=1, format="d"), scale=alt.Scale(nice=False, zero=False)
        )
    )
    top = 1.1 * max(max(figure.high or figure.value, figure.value) for _, figure, _ in dots)
    y = alt.Scale(domain=[0, top])
    layers = [
        base.transform_filter("isValid(datum.low) && isValid(datum.high)")
        .mark_rule(color=MUTED, strokeWidth=1.5)
        .encode(y=alt.Y("low:Q", scale=y, title=unit), y2="high:Q"),
        base.mark_circle(size=60, opacity=1, color=SERIES_COLORS[0]).encode(
            y=alt.Y("value:Q", scale=y, title=unit), tooltip=alt.Tooltip("text:N", title="run")
        ),
    ]
    lines = [dict(zip(("first", "last", "start", "end"), level, strict=True)) for level in levels]
    layers.append(
        alt.Chart(data(lines))
        .mark_rule(color=INK, strokeWidth=2)
        .encode(x="first:Q", x2="last:Q", y=alt.Y("start:Q", scale=y), y2="end:Q")
    )
    if marks := [{"at": first - 0.5} for first, *_ in levels[1:]]:
        dashed = alt.Chart(data(marks)).mark_rule(color="#D55E00", strokeDash=[5, 4], strokeWidth=1.5)
        layers.append(dashed.encode(x="at:Q"))
    return finished(alt.layer(*layers), height=HISTORY_HEIGHT)
