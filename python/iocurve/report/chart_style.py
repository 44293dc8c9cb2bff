"""The parts that all charts share: colours, axes, legends, lines at limits.

The colours are those of Okabe and Ito, which people with any colour vision tell apart. Reads and writes have the same
colour in every chart, and no other series has theirs.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import msgspec
from altair.utils import schemapi
from msgspec.structs import replace

from iocurve.foundation.units import MB, MIB, format_number
from iocurve.result.document import TargetFacts

# Else each mark is compared with the schema when it is made, and again in each chart that has it.
schemapi.disable_debug_mode()

Chart = dict[str, Any]
"""A Vega-Lite specification."""

READ, WRITE, INK, MUTED, GRID = "#0072B2", "#E69F00", "#1b1f24", "#57606a", "#e7eaee"
KIND_COLORS = {"read": READ, "write": WRITE}
SERIES_COLORS = ["#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#000000"]
FURTHER_COLORS = [
    *("#332288", "#88CCEE", "#44AA99", "#117733", "#999933", "#DDCC77", "#CC6677", "#882255", "#AA4499", "#BBBBBB")
]
"""Colors for kinds of operation other than reads and writes: Paul Tol's muted scheme (SRON/EPS/TN/09-002)."""
DARK_COLORS = {
    INK: "#e6edf3",
    MUTED: "#9aa4af",
    GRID: "#2a3037",
    "white": "#14181d",
    READ: "#2a93d5",
    "#000000": "#ffffff",
    "#332288": "#9a8ee0",
    "#882255": "#d0709e",
    "#117733": "#3fa45e",
    "#A8005C": "#ff6fb5",
}
"""Colors on a dark page, where those of a light one would vanish."""
ON_COLOR = "#000"
"""Text on an area of a color, on light and dark pages."""
HEIGHT = 300
CHARACTER_WIDTH, LEGEND_SYMBOL_WIDTH = 7, 36
"""Pixels."""
LABEL_CHARACTERS = 120
LIMIT_DASHES = [[7, 4], [2, 3], [12, 4]]
FONT = (
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', 'Liberation Sans', Arial, sans-serif"
)
COUNT_LABEL = (
    "datum.value >= 1e6 ? format(datum.value / 1e6, ',.4~r') + 'M'"
    " : datum.value >= 1e3 ? format(datum.value / 1e3, ',.4~r') + 'k' : format(datum.value, ',.4~r')"
)
"""Vega expression: a count with thousands and millions shortened. No number is in scientific notation."""

LABELS_WIDTH = 1200.0
"""Pixels that the tilted labels of an axis share."""
UPRIGHT_LABELS_MAX = 4
"""The labels of more groups than this are tilted, unless they are short."""
SHORT_LABEL = 7
_UNBROKEN = "replace(datum.label, /([0-9]) ([KMG]iB)/g, '$1\u00a0$2')"
_LABEL_LINES = f"slice(split(replace({_UNBROKEN}, /(.{{1,14}})( |$)/g, '$1\\n'), '\\n'), 0, -1)"
"""Vega expression: a label in lines of up to 14 characters, so that it fits a narrow page."""


def finished(
    chart: alt.Chart | alt.LayerChart | alt.FacetChart, height: int = HEIGHT, *, description: str = ""
) -> Chart:
    """The specification of a chart that fills the width of the page, without decoration.

    ``description`` is the heading of a chart that is not the only one of its figure.
    """
    config = alt.Config(
        font=FONT,
        view=alt.ViewConfig(stroke=None),
        axis=alt.AxisConfig(
            gridColor=GRID,
            domainColor=MUTED,
            tickColor=MUTED,
            labelColor=MUTED,
            titleColor=INK,
            titleFontWeight=500,
            labelFontSize=12,
            titleFontSize=12.5,
            titlePadding=10,
        ),
        axisX=alt.AxisConfig(grid=False),
        legend=alt.LegendConfig(labelColor=INK, labelFontSize=12, padding=0, offset=12, columnPadding=18),
    )
    # One call for all properties: altair copies the chart with its rows in each.
    styled = chart.properties(width="container", height=height, background="white", config=config)
    specification: Chart = styled.to_dict(validate=False)
    if description:
        specification["description"] = description
    # Legends side by side would not fit a narrow page, so they go above each other. Altair refuses this setting: the
    # schema of Vega-Lite, which it checks, allows less here than Vega accepts.
    specification["config"]["legend"]["layout"] = {"top": {"direction": "vertical", "margin": 5, "anchor": "start"}}
    return specification


def labelled(chart: Chart, text: str) -> Chart:
    """The chart with text below it, in lines that fit an image; unchanged for empty text."""
    if not text:
        return chart
    title = {
        "text": textwrap.wrap(text, LABEL_CHARACTERS, break_on_hyphens=False),
        "anchor": "end",
        "fontSize": 11,
        "fontWeight": "normal",
        "color": MUTED,
        "orient": "bottom",
    }
    return chart | {"title": title}


def data(rows: Sequence[Mapping[str, object]]) -> alt.InlineData:
    """Rows as the data of a chart. Values that are not known (NaN) have no mark."""
    known = [{name: None if value != value else value for name, value in row.items()} for row in rows]
    return _Rows(values=known)


class _Rows(alt.InlineData):
    """Rows that copies of a chart share: altair copies a chart for each mark and layer, and changes no rows."""

    def __deepcopy__(self, _memo: object) -> _Rows:
        return _Rows(values=self.values)


def end_of_axis(highest: float, caps: Sequence[CapLine]) -> float:
    """The end of an axis, with room above the highest figure and the limits."""
    return 1.1 * max([highest, *(cap.value for cap in caps)])


def limit_lines(axis: str, caps: Sequence[CapLine]) -> list[alt.Chart]:
    """Dashed lines at the limits. The legend names them: a label at a line could cover a figure."""
    if not caps:
        return []
    labels = [cap.label for cap in caps]
    dashes = alt.Scale(domain=labels, range=[LIMIT_DASHES[index % len(LIMIT_DASHES)] for index in range(len(labels))])
    lines = alt.Chart(data([{"limit": cap.label, "value": cap.value} for cap in caps])).mark_rule(strokeWidth=1.5)
    return [
        at_value(lines, axis).encode(
            stroke=alt.Stroke(
                "limit:N", title=None, scale=alt.Scale(domain=labels, range=[INK]), legend=legend(labels)
            ),
            strokeDash=alt.StrokeDash("limit:N", title=None, scale=dashes, legend=legend(labels)),
            tooltip=alt.Tooltip("limit:N", title="limit"),
        )
    ]


def at_value(chart: alt.Chart, axis: str) -> alt.Chart:
    """The chart with its field ``value`` on one of the axes."""
    placed: alt.Chart = chart.encode(y="value:Q") if axis == "y" else chart.encode(x="value:Q")
    return placed


def error_bars(base: alt.Chart, rows: Sequence[Mapping[str, object]]) -> list[alt.Chart]:
    """A line from the lower bound to the upper one, with a tick at each; none without an interval."""
    if not any(row["low"] is not None and row["high"] is not None for row in rows):
        return []
    known = base.transform_filter("isValid(datum.low) && isValid(datum.high)")
    ticks = [
        known.mark_tick(color=INK, size=10, thickness=1.5, orient="horizontal").encode(y=f"{bound}:Q")
        for bound in ("low", "high")
    ]
    return [known.mark_rule(color=INK, strokeWidth=1.5).encode(y="low:Q", y2="high:Q"), *ticks]


def kind_color(field: str, kinds: Iterable[str]) -> alt.Color:
    """The colours of the kinds of operations that are present, which a field has."""
    wanted = list(dict.fromkeys(kinds))
    others = [kind for kind in wanted if kind not in KIND_COLORS]
    colors = KIND_COLORS | {kind: FURTHER_COLORS[index % len(FURTHER_COLORS)] for index, kind in enumerate(others)}
    present = [kind for kind in colors if kind in wanted]
    scale = alt.Scale(domain=present, range=[colors[kind] for kind in present])
    return alt.Color(f"{field}:N", title=None, scale=scale, legend=legend(present if others else ()))


def series_color(series: Sequence[str]) -> alt.Color:
    """A colour for each series; a single series without a name gets no legend."""
    names = list(dict.fromkeys(series))
    colors = [KIND_COLORS.get(name, SERIES_COLORS[index % len(SERIES_COLORS)]) for index, name in enumerate(names)]
    scale = alt.Scale(domain=names, range=colors)
    return alt.Color("series:N", title=None, scale=scale, legend=legend(names) if names != [""] else None)


def legend(names: Sequence[str] = ()) -> alt.Legend:
    """A legend above the chart, in a row; where the names would not fit, one below another."""
    needed = sum(LEGEND_SYMBOL_WIDTH + CHARACTER_WIDTH * len(name) for name in names)
    return alt.Legend(
        orient="top",
        direction="horizontal",
        columns=alt.ExprRef(f"width < {needed} ? 1 : 0") if len(names) > 1 else alt.Undefined,
        labelLimit=420,
        symbolStrokeWidth=2,
        symbolOpacity=1,
    )


def rate_axis(unit: str = "IOPS") -> alt.Axis:
    """An axis of rates with so few marks that their numbers stay apart on narrow pages."""
    label = "format(datum.value, ',')" if unit == "MiB/s" else COUNT_LABEL
    return alt.Axis(labelExpr=label, tickCount=8)


def group_axis(groups: Sequence[str]) -> alt.Axis:
    """Upright labels in several lines; those of many groups are tilted, in one line."""
    longest = max((len(group) for group in groups), default=0)
    if len(groups) <= UPRIGHT_LABELS_MAX or longest <= SHORT_LABEL:
        return alt.Axis(labelAngle=0, labelExpr=_LABEL_LINES, labelOverlap=False, labelLimit=0)
    return alt.Axis(labelAngle=-40, labelLimit=LABELS_WIDTH / len(groups), labelOverlap=False)


def texts(**titles: str) -> list[alt.Tooltip]:
    """The texts of a row by their fields, each with its title."""
    return [alt.Tooltip(f"{field}:N", title=title) for field, title in titles.items()]


def rate_tooltip(field: str, unit: str) -> alt.Tooltip:
    """The full figure of a rate."""
    return alt.Tooltip(f"{field}:Q", title=unit, format=",.1f" if unit == "MiB/s" else ",.0f")


def independent_strokes(chart: alt.LayerChart | alt.FacetChart) -> alt.LayerChart | alt.FacetChart:
    """Lets limits and other marks have their own lines."""
    resolved: alt.LayerChart | alt.FacetChart = chart.resolve_scale(stroke="independent", strokeDash="independent")
    return resolved


FAR = 2.5
"""A limit more than this many times the highest figure is left out of a chart."""


class CapLine(msgspec.Struct, frozen=True):
    """A known limit of a target, in the unit of its axis."""

    value: float
    label: str


def caps(targets: Mapping[str, TargetFacts], unit: str, block_bytes: int) -> list[CapLine]:
    """The limit of each target in ``MiB/s`` or ``IOPS``; named by the target where targets have different ones.

    With a block size (0: unknown or several) a limit in the other unit counts too, and the lower of both holds.
    """
    found = {name: _lowest(target, unit, block_bytes) for name, target in targets.items()}
    known = {name: cap for name, cap in found.items() if cap}
    if len(set(known.values())) > 1:
        known = {name: replace(cap, label=f"{name}: {cap.label}") for name, cap in known.items()}
    return list(dict.fromkeys(sorted(known.values(), key=lambda cap: cap.value)))


def within_sight(found: Sequence[CapLine], highest: float) -> list[CapLine]:
    """The limits but those so far above the highest figure that they would flatten the chart."""
    return [cap for cap in found if cap.value <= FAR * highest]


def _lowest(target: TargetFacts, unit: str, block_bytes: int) -> CapLine | None:
    limits = _throughput_limits(target, block_bytes) if unit == "MiB/s" else _iops_limits(target, block_bytes)
    return min(limits, key=lambda cap: cap.value, default=None)


def _iops_limits(target: TargetFacts, block_bytes: int) -> list[CapLine]:
    limits = []
    if target.iops:
        limits.append(CapLine(target.iops, f"limit {target.iops:,} IOPS"))
    if target.throughput_bytes_per_s and block_bytes:
        iops = target.throughput_bytes_per_s / block_bytes
        limits.append(CapLine(iops, f"limit {_throughput(target)} = {iops:,.0f} IOPS"))
    return limits


def _throughput_limits(target: TargetFacts, block_bytes: int) -> list[CapLine]:
    limits = []
    if target.throughput_bytes_per_s:
        limits.append(CapLine(target.throughput_bytes_per_s / MIB, f"limit {_throughput(target)}"))
    if target.iops and block_bytes:
        mib_per_s = target.iops * block_bytes / MIB
        limits.append(CapLine(mib_per_s, f"limit {target.iops:,} IOPS = {format_number(mib_per_s, 5)} MiB/s"))
    return limits


def _throughput(target: TargetFacts) -> str:
    """In MiB/s; of a disk in MB/s as well, in which disks are sold."""
    bytes_per_s = target.throughput_bytes_per_s or 0
    mib_per_s = f"{format_number(bytes_per_s / MIB, 5)} MiB/s"
    return f"{format_number(bytes_per_s / MB, 5)} MB/s ({mib_per_s})" if target.kind == "emulated_disk" else mib_per_s
