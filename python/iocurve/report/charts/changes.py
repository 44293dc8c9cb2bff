"""Charts of comparisons and histories: changes in percent with their intervals, and a figure over runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import altair as alt

from iocurve.report.charts.gains import COLORS
from iocurve.report.charts.style import INK, MUTED, SERIES_COLORS, Chart, data, finished, legend
from iocurve.result.paired import Verdict

ROW_HEIGHT = 30
ROWS_HEIGHT_MIN = 90
HISTORY_HEIGHT = 240
LABEL_WIDTH = 320
"""Pixels for the names of points."""


@dataclass(frozen=True)
class Change:
    """A figure relative to that of the base."""

    point: str
    percent: float
    low: float | None
    high: float | None
    verdict: Verdict
    text: str


def changes(found: Sequence[Change], margin_percent: float) -> Chart:
    """A dot for each change with its interval; dashed lines are at the margin, and the solid one at no change."""
    present = [name for name in COLORS if name in {one.verdict for one in found}]
    scale = alt.Scale(domain=present, range=[COLORS[name] for name in present])
    points = list(dict.fromkeys(one.point for one in found))
    ends = [value for one in found for value in (one.percent, one.low, one.high) if value is not None]
    reach = 1.1 * max([margin_percent, *map(abs, ends)])
    base = alt.Chart(data([asdict(one) for one in found])).encode(
        y=alt.Y("point:N", sort=points, title=None, axis=alt.Axis(labelLimit=LABEL_WIDTH)),
        tooltip=[alt.Tooltip("point:N", title="point"), alt.Tooltip("text:N", title="change")],
    )
    x = alt.Scale(domain=[max(-100.0, -reach), reach], nice=False)
    title = alt.Axis(labelExpr="format(datum.value, '+') + ' %'", tickCount=8)
    rule = base.transform_filter("isValid(datum.low) && isValid(datum.high)").mark_rule(strokeWidth=1.5, color=INK)
    bars = rule.encode(x=alt.X("low:Q", scale=x, axis=title, title="Change"), x2="high:Q")
    dots = base.mark_circle(size=110, opacity=1, stroke=INK, strokeWidth=1).encode(
        x=alt.X("percent:Q", scale=x), color=alt.Color("verdict:N", title=None, scale=scale, legend=legend(present))
    )
    lines = [
        alt.Chart(data([{"at": at}])).mark_rule(color=color, strokeWidth=1, strokeDash=dash).encode(x="at:Q")
        for at, color, dash in (
            (0.0, INK, [1, 0]),
            (margin_percent, MUTED, [4, 4]),
            (-100 * margin_percent / (100 + margin_percent), MUTED, [4, 4]),
        )
    ]
    return finished(alt.layer(bars, *lines, dots), height=max(ROWS_HEIGHT_MIN, ROW_HEIGHT * len(points)))


@dataclass(frozen=True)
class HistoryDot:
    """A figure of one run."""

    number: int
    """Place of the run, from 1."""
    value: float
    low: float | None
    high: float | None
    text: str
    """The run and its figure."""


@dataclass(frozen=True)
class HistoryLevel:
    """A straight line between two runs."""

    first: int
    last: int
    start: float
    end: float


def history(dots: Sequence[HistoryDot], levels: Sequence[HistoryLevel], unit: str) -> Chart:
    """The figure of each run with its interval, its levels, and a dashed line at each change."""
    base = alt.Chart(data([asdict(dot) for dot in dots])).encode(
        x=alt.X(
            "number:Q", title="Run", axis=alt.Axis(tickMinStep=1, format="d"), scale=alt.Scale(nice=False, zero=False)
        )
    )
    top = 1.1 * max([*(dot.high or dot.value for dot in dots), *(dot.value for dot in dots)])
    y = alt.Scale(domain=[0, top])
    layers = [
        base.transform_filter("isValid(datum.low) && isValid(datum.high)")
        .mark_rule(color=MUTED, strokeWidth=1.5)
        .encode(y=alt.Y("low:Q", scale=y, title=unit), y2="high:Q"),
        base.mark_circle(size=60, opacity=1, color=SERIES_COLORS[0]).encode(
            y=alt.Y("value:Q", scale=y, title=unit), tooltip=alt.Tooltip("text:N", title="run")
        ),
    ]
    lines = [asdict(level) for level in levels]
    layers.append(
        alt.Chart(data(lines))
        .mark_rule(color=INK, strokeWidth=2)
        .encode(x="first:Q", x2="last:Q", y=alt.Y("start:Q", scale=y), y2="end:Q")
    )
    if marks := [{"at": level.first - 0.5} for level in levels[1:]]:
        dashed = alt.Chart(data(marks)).mark_rule(color="#D55E00", strokeDash=[5, 4], strokeWidth=1.5)
        layers.append(dashed.encode(x="at:Q"))
    return finished(alt.layer(*layers), height=HISTORY_HEIGHT)
