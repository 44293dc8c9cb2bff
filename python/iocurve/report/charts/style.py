"""The parts that all charts share: colours, axes, legends, lines at limits.

The colours are those of Okabe and Ito, which people with any colour vision tell apart. Reads and writes have the same
colour in every chart, and no other series has theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt

from iocurve.report.charts.caps import Cap

Chart = dict[str, Any]
"""A Vega-Lite specification."""

READ, WRITE, INK, MUTED, GRID = "#0072B2", "#E69F00", "#1b1f24", "#57606a", "#e7eaee"
KIND_COLORS = {"read": READ, "write": WRITE}
SERIES_COLORS = ["#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#000000"]
HEIGHT = 300
FONT = (
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', 'Liberation Sans', Arial, sans-serif"
)
COUNT_LABEL = (
    "datum.value >= 1e6 ? format(datum.value / 1e6, '.4~g') + 'M'"
    " : datum.value >= 1e3 ? format(datum.value / 1e3, '.4~g') + 'k' : datum.value"
)
"""Vega expression: a count with thousands and millions shortened."""


def finished(chart: alt.Chart | alt.LayerChart | alt.FacetChart, height: int = HEIGHT) -> Chart:
    """The specification of a chart that fills the width of the page, without decoration."""
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
    # Legends side by side would not fit a narrow page, so they go above each other. Altair refuses this setting: the
    # schema of Vega-Lite, which it checks, allows less here than Vega accepts.
    specification["config"]["legend"]["layout"] = {"top": {"direction": "vertical", "margin": 5, "anchor": "start"}}
    return specification


def labelled(chart: Chart, text: str) -> Chart:
    """The chart with a line of text below it; unchanged for empty text."""
    if not text:
        return chart
    title = {"text": text, "anchor": "end", "fontSize": 11, "fontWeight": "normal", "color": MUTED, "orient": "bottom"}
    return chart | {"title": title}


def data(rows: Sequence[dict[str, Any]]) -> alt.InlineData:
    """Rows as the data of a chart."""
    return alt.InlineData(values=list(rows))


def end_of_axis(highest: float, cap: Cap | None) -> float:
    """The end of an axis, with room above the highest figure and the limit."""
    return 1.1 * max(highest, cap.value if cap else 0)


def limit_line(axis: str, cap: Cap | None) -> list[alt.Chart]:
    """A dashed line at the limit. The legend names it: a label at the line could cover a figure."""
    if cap is None:
        return []
    encoding: dict[str, Any] = {axis: alt.datum(cap.value)}
    return [
        alt.Chart(data([{"limit": cap.label}]))
        .mark_rule(strokeDash=[7, 4], strokeWidth=1.5)
        .encode(stroke=alt.Stroke("limit:N", title=None, scale=alt.Scale(range=[INK]), legend=legend()), **encoding)
    ]


def kind_color(kinds: Iterable[str]) -> alt.Color:
    """The colours of the kinds of operations that are present."""
    wanted = set(kinds)
    present = [kind for kind in KIND_COLORS if kind in wanted]
    scale = alt.Scale(domain=present, range=[KIND_COLORS[kind] for kind in present])
    return alt.Color("kind:N", title=None, scale=scale, legend=legend())


def series_color(series: Sequence[str]) -> alt.Color:
    """A colour for each series; a single series without a name gets no legend."""
    names = list(dict.fromkeys(series))
    colors = [KIND_COLORS.get(name, SERIES_COLORS[index % len(SERIES_COLORS)]) for index, name in enumerate(names)]
    scale = alt.Scale(domain=names, range=colors)
    return alt.Color("series:N", title=None, scale=scale, legend=legend() if names != [""] else None)


def legend() -> alt.Legend:
    """A legend above the chart."""
    return alt.Legend(orient="top", direction="horizontal", labelLimit=420, symbolStrokeWidth=2, symbolOpacity=1)


def rate_axis(unit: str = "IOPS") -> alt.Axis:
    """An axis of rates with so few marks that their numbers stay apart on narrow pages."""
    label = "format(datum.value, ',')" if unit == "MiB/s" else COUNT_LABEL
    return alt.Axis(labelExpr=label, tickCount=8)


def independent_strokes(chart: alt.LayerChart | alt.FacetChart) -> alt.LayerChart | alt.FacetChart:
    """Lets limits and published figures have different colours."""
    resolved: alt.LayerChart | alt.FacetChart = chart.resolve_scale(stroke="independent")
    return resolved
