"""Charts of lines: latency over the rate, the rate over the operations in flight, rate and latency over time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import altair as alt
import msgspec
from msgspec.structs import asdict

from iocurve.analysis.findings import KneeFinding
from iocurve.foundation.units import (
    MIB,
    MICROSECOND_NS,
    MILLISECOND_NS,
    SECOND_NS,
    format_count,
    format_latency,
    format_number,
)
from iocurve.report.chart_bars import Bar
from iocurve.report.chart_style import (
    COUNT_LABEL,
    INK,
    MUTED,
    READ,
    SERIES_COLORS,
    CapLine,
    Chart,
    at_value,
    data,
    end_of_axis,
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
from iocurve.result.summary import Latency, SeriesInterval

KNEE_COLOR = "#D55E00"
CURVE_HEIGHT = 380


# ---- latency over the rate


class LatencyDot(msgspec.Struct, frozen=True):
    """One percentile at one load of one series."""

    series: str
    load: float
    """Depth or rate; lines connect the dots in this order."""
    label: str
    rate: float
    percentile: str
    latency_ns: float


def latency_curve(
    dots: Sequence[LatencyDot],
    caps: Sequence[CapLine],
    unit: str = "IOPS",
    knee: KneeFinding | None = None,
    *,
    is_joined: bool = True,
) -> Chart:
    """The dots are labelled with their load; a line for each series and percentile joins them."""
    axis = latency_axis([*(dot.latency_ns for dot in dots), *([knee.latency_ns] if knee else [])])
    values = [
        asdict(dot)
        | {
            "latency": axis.value(dot.latency_ns),
            "latency_text": format_latency(dot.latency_ns),
            "line": f"{dot.series} {dot.percentile}",
        }
        for dot in dots
    ]
    x = alt.Scale(domain=[0, end_of_axis(max(dot.rate for dot in dots), caps)])
    base = alt.Chart(data(values)).encode(
        x=alt.X("rate:Q", title=unit, scale=x, axis=rate_axis(unit)),
        y=axis.y(),
        color=series_color([dot.series for dot in dots]),
    )
    dash = alt.StrokeDash(
        "percentile:N", title=None, scale=alt.Scale(domain=["p50", "p99"], range=[[1, 0], [5, 4]]), legend=legend()
    )
    lines = base.mark_line(strokeWidth=2, opacity=1 if is_joined else 0)
    lines = lines.encode(strokeDash=dash, order="load:Q", detail="line:N")
    last = texts(percentile="percentile", latency_text="latency")
    tooltip = [*texts(series="series", label="load"), rate_tooltip("rate", unit), *last]
    marks = [mark for name in ("p50", "p99") for mark in _dots(base, name, tooltip)]
    found = _knee_in_latency(knee, axis.value(knee.latency_ns)) if knee else []
    layers = alt.layer(*limit_lines("x", caps), lines, *marks, *found)
    return finished(independent_strokes(layers), height=CURVE_HEIGHT)


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
    return [dots.encode(tooltip=tooltip), labels.encode(text="label:N", color=alt.value(MUTED))]


def _knee_in_latency(knee: KneeFinding, latency: float) -> list[alt.Chart]:
    """A line at the capacity, and a ring at the mean latency of the knee."""
    place, text = {"rate": knee.iops, "latency": latency}, f"knee, mean {format_latency(knee.latency_ns)}"
    return [_capacity_line("x", knee), *_knee_ring(place, "rate:Q", "latency:Q", text)]


# ---- the rate over the operations in flight


def knee_curve(rates: Mapping[int, float], caps: Sequence[CapLine], knee: KneeFinding) -> Chart:
    """IOPS by the operations in flight, with both bounds of a closed system; they meet at the knee."""
    place = {"depth": knee.in_flight, "iops": knee.capacity_iops}
    rings = _knee_ring(place, "depth:Q", "iops:Q", f"knee, {format_number(knee.in_flight, 3)} in flight")
    highest = max(*rates.values(), knee.capacity_iops)
    curve = _counts_curve(rates, highest, caps, "Operations in flight (log scale)", "in flight", 1.15)
    layers = [*limit_lines("y", caps), _light_load(knee, min(rates)), _capacity_line("y", knee), *curve, *rings]
    return finished(independent_strokes(alt.layer(*layers)), height=CURVE_HEIGHT)


def _counts_curve(
    rates: Mapping[int, float], highest: float, caps: Sequence[CapLine], title: str, name: str, step: float
) -> list[alt.Chart]:
    """IOPS by a count on a logarithmic axis, which goes on by ``step`` at both ends: a line and its dots."""
    counts = sorted(rates)
    base = alt.Chart(data([{"depth": count, "iops": iops} for count, iops in rates.items()])).encode(
        x=alt.X(
            "depth:Q",
            title=title,
            scale=alt.Scale(type="log", domain=[counts[0] / step, counts[-1] * step], nice=False),
            axis=alt.Axis(values=counts, labelExpr="format(datum.value, ',')", labelOverlap="greedy", grid=False),
        ),
        y=alt.Y("iops:Q", title="IOPS", scale=alt.Scale(domain=[0, end_of_axis(highest, caps)]), axis=rate_axis()),
    )
    tooltip = [alt.Tooltip("depth:Q", title=name, format=","), rate_tooltip("iops", "IOPS")]
    return [
        base.mark_line(strokeWidth=2, color=SERIES_COLORS[0]).encode(order="depth:Q"),
        base.mark_circle(size=56, opacity=1, color=SERIES_COLORS[0]).encode(tooltip=tooltip),
    ]


# ---- the rate over the number of clients


def clients_curve(dots: Sequence[Bar], caps: Sequence[CapLine], unit: str, each: CapLine | None = None) -> Chart:
    """The rate over the number of clients, a line for each series; ``each`` is a limit of each single client."""
    rows = [{"series": dot.series, "clients": int(dot.place), "rate": dot.value} for dot in dots]
    most = max(int(dot.place) for dot in dots)
    highest = max(dot.value for dot in dots)
    x = alt.Scale(domain=[0, most * 1.05], nice=False)
    y = alt.Scale(domain=[0, end_of_axis(highest, caps)], clamp=True)
    base = alt.Chart(data(rows)).encode(
        x=alt.X("clients:Q", title="Clients", scale=x, axis=alt.Axis(tickMinStep=1, format="d", grid=False)),
        y=alt.Y("rate:Q", title=unit, scale=y, axis=rate_axis()),
        color=series_color(list(dict.fromkeys(dot.series for dot in dots))),
    )
    tooltip = [alt.Tooltip("clients:Q", title="clients", format=","), rate_tooltip("rate", unit)]
    line = base.mark_line(strokeWidth=2).encode(order="clients:Q")
    circles = base.mark_circle(size=56, opacity=1).encode(tooltip=tooltip)
    sloped = [_sum_of_limits(each, most, end_of_axis(highest, caps))] if each else []
    return finished(
        independent_strokes(alt.layer(*limit_lines("y", caps), *sloped, line, circles)), height=CURVE_HEIGHT
    )


def _sum_of_limits(each: CapLine, most: int, top: float) -> alt.Chart:
    """The limit of one client, times their number, as far as the chart goes."""
    last = min(float(most), top / each.value)
    return _bound(f"all clients: {each.label}", [{"clients": at, "rate": at * each.value} for at in (0.0, last)])


def _light_load(knee: KneeFinding, lowest: int) -> alt.Chart:
    """The bound at light load, N / unloaded latency; a curve on a logarithmic axis."""
    steps = 40
    loads = [lowest * (knee.in_flight / lowest) ** (step / steps) for step in range(steps + 1)]
    rows = [{"depth": load, "iops": load * SECOND_NS / knee.unloaded_ns} for load in loads]
    return _bound(f"no waiting: {format_latency(knee.unloaded_ns)} each", rows)


def _bound(label: str, rows: Sequence[Mapping[str, float]]) -> alt.Chart:
    """A dotted line through rows of two fields, of which the second is a rate."""
    x, y = rows[0]
    line = alt.Chart(data([{**row, "bound": label} for row in rows])).mark_line(strokeDash=[2, 3], strokeWidth=1.5)
    chart: alt.Chart = line.encode(x=f"{x}:Q", y=f"{y}:Q", stroke=_bound_stroke())
    return chart


def _capacity_line(axis: str, knee: KneeFinding) -> alt.Chart:
    rows = [{"bound": f"capacity {format_count(knee.capacity_iops)} IOPS", "value": knee.capacity_iops}]
    chart: alt.Chart = at_value(alt.Chart(data(rows)).mark_rule(strokeWidth=1.5), axis).encode(stroke=_bound_stroke())
    return chart


def _bound_stroke() -> alt.Stroke:
    return alt.Stroke("bound:N", title=None, scale=alt.Scale(range=[KNEE_COLOR]), legend=legend())


def _knee_ring(place: dict[str, float], x: str, y: str, text: str) -> list[alt.Chart]:
    base = alt.Chart(data([place | {"text": text}])).encode(x=x, y=y)
    ring = base.mark_point(shape="circle", size=190, strokeWidth=2.5, stroke=KNEE_COLOR, filled=False, opacity=1)
    label = base.mark_text(align="left", baseline="top", dx=9, dy=9, fontSize=12, fontWeight=600, color=INK)
    # A white rim keeps the label legible where a line runs through it.
    rim = base.mark_text(
        align="left", baseline="top", dx=9, dy=9, fontSize=12, fontWeight=600, stroke="white", strokeWidth=4
    )
    return [ring.encode(tooltip="text:N"), rim.encode(text="text:N"), label.encode(text="text:N")]


# ---- latency by kind of operation


def kind_latencies(latencies: Sequence[Bar]) -> Chart:
    """A dot at the median of each kind at each point, a hollow one at the 99th percentile, and a line between them."""
    kinds = list(dict.fromkeys(one.series for one in latencies))
    places = list(dict.fromkeys(one.place for one in latencies))
    axis = latency_axis(latency for one in latencies for latency in (one.p50_ns, one.p99_ns))
    rows = [
        {
            "kind": one.series,
            "series": one.place,
            "latency": axis.value(one.p50_ns),
            "high_latency": axis.value(one.p99_ns),
            "p50": format_latency(one.p50_ns),
            "p99": format_latency(one.p99_ns),
        }
        for one in latencies
    ]
    base = alt.Chart(data(rows)).encode(
        x=alt.X("kind:N", scale=alt.Scale(domain=kinds), title=None, axis=group_axis(kinds)),
        xOffset=alt.XOffset("series:N", sort=places),
        y=axis.y(),
        color=series_color(places),
    )
    tooltip = texts(kind="kind", series="series", p50="p50", p99="p99")
    lines = base.mark_rule(strokeWidth=2).encode(y2="high_latency:Q")
    medians = base.mark_circle(size=56, opacity=1).encode(tooltip=tooltip)
    tails = base.mark_point(size=46, fill="white", opacity=1).encode(y=alt.Y("high_latency:Q"), tooltip=tooltip)
    return finished(alt.layer(lines, medians, tails), height=CURVE_HEIGHT)


# ---- latency by percentile

PERCENTS = (10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99, 99.995, 99.999)
OPERATIONS_ABOVE = 1
"""Least operations above a percentile that is drawn."""


def percentile_curves(latencies: Mapping[str, Latency]) -> list[Chart]:
    """Latency by percentile for each kind of operation, as far as there are operations above the percentile.

    The axis is logarithmic in the operations above: 90, 99 and 99.9 % are equally far apart.
    """
    values = [
        (kind, percent, latency.percentile(percent))
        for kind, latency in latencies.items()
        for percent in PERCENTS
        if latency.histogram and round(latency.count * (100 - percent), 6) >= OPERATIONS_ABOVE * 100
    ]
    if not values:
        return []
    axis = latency_axis(latency_ns for *_, latency_ns in values)
    rows = [
        {
            "kind": kind,
            "percentile": f"p{percent:g}",
            "one_in": 100 / (100 - percent),
            "latency": axis.value(latency_ns),
            "shown": format_latency(latency_ns),
        }
        for kind, percent, latency_ns in values
    ]
    x = alt.X(
        "one_in:Q",
        title="Percentile (log scale of the operations above it)",
        scale=alt.Scale(type="log", domain=[1, max(100.0, *(100 / (100 - percent) for _, percent, _ in values))]),
        axis=alt.Axis(values=[2, 10, 100, 1e3, 1e4, 1e5], labelExpr="format(100 - 100 / datum.value, '.6~g') + ' %'"),
    )
    base = alt.Chart(data(rows)).encode(
        x=x,
        y=axis.y(),
        color=kind_color("kind", list(latencies)),
        tooltip=texts(kind="kind", percentile="percentile", shown="latency"),
    )
    curves = alt.layer(base.mark_line(strokeWidth=2), base.mark_circle(size=36, opacity=1))
    return [finished(curves, description="Latency by percentile")]


# ---- the rate over the number of files


def files_curve(rates: Mapping[int, float]) -> Chart:
    """IOPS over the number of files in each directory."""
    title, step = "Files in each directory (log scale)", 1.3
    return finished(alt.layer(*_counts_curve(rates, max(rates.values()), (), title, "files", step)), CURVE_HEIGHT)


# ---- over time


TimeMark = tuple[int, int, int, str]
"""Something that happened: its group, start and end in ns since the group's start, and a text."""


def over_time(
    series: Sequence[SeriesInterval], caps: Sequence[CapLine] = (), marks: Sequence[TimeMark] = ()
) -> list[Chart]:
    """IOPS with ``marks``, and mean and largest latency, over time; no charts for fewer than two intervals."""
    offsets = group_starts(series)
    values = [
        {
            "second": (offsets[part.group] + (part.start_ns + part.end_ns) / 2) / SECOND_NS,
            # A line breaks between groups and after the ramp: no load was measured in between.
            "stretch": f"{part.group} {part.kind} {part.ramp}",
            "kind": part.kind,
            "phase": "ramp" if part.ramp else "measured",
            "iops": part.iops,
            "mib_per_s": part.bytes_per_s / MIB,
            "mean": part.mean_ns,
            "max": part.max_ns,
        }
        for part in series
    ]
    if len({value["second"] for value in values}) < 2:
        return []
    marked = [
        {"start": (offsets[group] + start) / SECOND_NS, "end": (offsets[group] + end) / SECOND_NS, "mark": text}
        for group, start, end, text in marks
        if group in offsets
    ]
    return [_rate_over_time(values, series, caps, marked), _latency_over_time(values, series)]


def _marks(marks: Sequence[Mapping[str, object]]) -> list[alt.Chart]:
    """A band, which is a line where it has no length, with its text at the top."""
    if not marks:
        return []
    base = alt.Chart(data(marks)).encode(x="start:Q", tooltip=alt.Tooltip("mark:N", title="mark"))
    band = base.mark_rect(color=KNEE_COLOR, opacity=0.15).encode(x2="end:Q")
    line = base.mark_rule(color=KNEE_COLOR, strokeWidth=1.5, strokeDash=[5, 4])
    text = base.mark_text(align="left", dx=5, fontSize=11, color=INK).encode(y=alt.value(8), text="mark:N")
    return [band, line, text]


def _rate_over_time(
    values: Sequence[Mapping[str, object]],
    series: Sequence[SeriesInterval],
    caps: Sequence[CapLine],
    marks: Sequence[Mapping[str, object]],
) -> Chart:
    tooltip = [*_moment(), rate_tooltip("iops", "IOPS"), rate_tooltip("mib_per_s", "MiB/s")]
    base = alt.Chart(data(values)).encode(
        x=_time_axis(),
        y=alt.Y("iops:Q", title="IOPS", scale=alt.Scale(zero=True), axis=rate_axis()),
        color=kind_color("kind", [part.kind for part in series]),
        opacity=_phase_opacity(),
        detail="stretch:N",
    )
    lines, circles = base.mark_line(strokeWidth=2), base.mark_circle(size=34).encode(tooltip=tooltip)
    layers = alt.layer(*limit_lines("y", caps), *_marks(marks), lines, circles)
    return finished(independent_strokes(layers), description="Operations per second over time")


def _latency_over_time(values: Sequence[Mapping[str, object]], series: Sequence[SeriesInterval]) -> Chart:
    both = [
        (value, which, latency_ns)
        for value, part in zip(values, series, strict=True)
        for which, latency_ns in (("mean", part.mean_ns), ("max", part.max_ns))
    ]
    axis = latency_axis([latency_ns for *_, latency_ns in both])
    rows = [
        {**value, "which": which, "latency": axis.value(latency_ns), "latency_text": format_latency(latency_ns)}
        for value, which, latency_ns in both
    ]
    base = alt.Chart(data(rows)).encode(
        x=_time_axis(),
        y=axis.y(),
        color=kind_color("kind", [part.kind for part in series]),
        opacity=_phase_opacity(),
        detail=["stretch:N", "which:N"],
    )
    dash = alt.StrokeDash(
        "which:N", title=None, scale=alt.Scale(domain=["mean", "max"], range=[[1, 0], [5, 4]]), legend=legend()
    )
    tooltip = [*_moment(), *texts(which="which", latency_text="latency")]
    lines = base.mark_line(strokeWidth=2).encode(strokeDash=dash)
    layers = alt.layer(lines, base.mark_circle(size=34).encode(tooltip=tooltip))
    return finished(layers, height=220, description="Mean and longest latency over time")


LatencyShare = tuple[int, int, float, float, float]
"""Start and end of an interval, two latencies, all in ns, and the operations with latencies between these."""


COLUMNS_MAX = 100
CELLS_PER_DECADE = 12
SHARE_MIN = 0.01
"""Least share of the operations of a column that is drawn, in percent."""


def heat_map(shares: Sequence[LatencyShare]) -> list[Chart]:
    """Latencies over time: the stronger the color of a cell, the more of the operations of that time are in it.

    Operations are spread evenly, on the logarithmic axis, between the bounds of their share. No chart for a single
    interval.
    """
    if len({start_ns for start_ns, *_ in shares}) < 2:
        return []
    latest_ns = max(end_ns for _, end_ns, *_ in shares)
    column_ns = max(-(-latest_ns // COLUMNS_MAX), min(end_ns - start_ns for start_ns, end_ns, *_ in shares), 1)
    counts: dict[tuple[int, int], float] = {}
    totals: dict[int, float] = {}
    for start_ns, end_ns, low_ns, high_ns, operations in shares:
        column = (start_ns + end_ns) // 2 // column_ns
        totals[column] = totals.get(column, 0.0) + operations
        for cell, part in _cells_between(low_ns, high_ns):
            counts[column, cell] = counts.get((column, cell), 0.0) + operations * part
    axis = latency_axis(bound for _, _, *bounds, _ in shares for bound in bounds)
    rows = [
        {
            "second": column * column_ns / SECOND_NS,
            "end": (column + 1) * column_ns / SECOND_NS,
            "latency": axis.value(10 ** (cell / CELLS_PER_DECADE)),
            "above": axis.value(10 ** ((cell + 1) / CELLS_PER_DECADE)),
            "text": f"up to {format_latency(10 ** ((cell + 1) / CELLS_PER_DECADE))}",
            "share": round(percent, 2),
        }
        for (column, cell), operations in sorted(counts.items())
        if (percent := 100 * operations / totals[column]) >= SHARE_MIN
    ]
    opacity = alt.Scale(type="log", domain=[0.1, 100], range=[0.06, 1], clamp=True)
    chart = (
        alt.Chart(data(rows))
        .mark_rect(fill=READ)
        .encode(
            x=_time_axis(),
            x2="end:Q",
            y=axis.y(),
            y2="above:Q",
            opacity=alt.Opacity("share:Q", title="% of the operations", scale=opacity, legend=legend()),
            tooltip=[
                alt.Tooltip("second:Q", title="second", format=".1f"),
                alt.Tooltip("text:N", title="latency"),
                alt.Tooltip("share:Q", title="% of operations"),
            ],
        )
    )
    return [finished(chart, height=220, description="Share of the operations by latency, over time")]


def _cells_between(low_ns: float, high_ns: float) -> Iterator[tuple[int, float]]:
    """The cells between two latencies, with the part of the distance that each has."""
    low, high = (CELLS_PER_DECADE * math.log10(max(bound, 1.0)) for bound in (low_ns, high_ns))
    for cell in range(math.floor(low), math.floor(high) + 1):
        yield cell, (min(high, cell + 1) - max(low, cell)) / (high - low) if high > low else 1.0


def any_against_any(rows: Sequence[Mapping[str, object]], fields: Sequence[str], across: str, upwards: str) -> Chart:
    """A dot for each row; the reader chooses the fields across, upwards and of the color."""
    chosen = {"across": across, "upwards": upwards, "color": fields[0]}
    params = [
        alt.param(name=name, value=value, bind=alt.binding_select(options=list(fields), name=f"{name} "))
        for name, value in chosen.items()
    ]
    chart = (
        alt.Chart(data(rows), title=alt.TitleParams(alt.ExprRef("upwards + ' by ' + across"), color=INK))
        .mark_circle(size=64, opacity=0.9)
        .encode(
            x=alt.X("x:Q", title=None, scale=alt.Scale(zero=False), axis=alt.Axis(labelExpr=COUNT_LABEL)),
            y=alt.Y("y:Q", title=None, axis=alt.Axis(labelExpr=COUNT_LABEL)),
            color=alt.Color("hue:N", title=None, scale=alt.Scale(range=SERIES_COLORS), legend=legend()),
            tooltip=[alt.Tooltip("point:N"), *(alt.Tooltip(f"{name}:Q", title=name) for name in ("x", "y"))],
        )
        .transform_calculate(x="datum[across]", y="datum[upwards]", hue="'' + datum[color]")
        .add_params(*params)
    )
    return finished(chart, CURVE_HEIGHT)


def _moment() -> list[alt.Tooltip]:
    return [alt.Tooltip("second:Q", title="second", format=".1f"), *texts(phase="phase", kind="kind")]


def _time_axis() -> alt.X:
    return alt.X("second:Q", title="Time (s)", scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=10))


def _phase_opacity() -> alt.Opacity:
    """The ramp is faint, because it is not counted."""
    return alt.Opacity("phase:O", scale=alt.Scale(domain=["measured", "ramp"], range=[1, 0.3]), legend=None)


def group_starts(series: Sequence[SeriesInterval]) -> dict[int, int]:
    """The start of each group: groups run one after another."""
    ends: dict[int, int] = {}
    for part in series:
        ends[part.group] = max(ends.get(part.group, 0), part.end_ns)
    offsets, start = {}, 0
    for group in sorted(ends):
        offsets[group] = start
        start += ends[group]
    return offsets


ROOM = 1.2
"""The axis reaches this much further than the values, so that labels fit at both ends."""
SMALLEST = 0.01
"""A larger unit is used as long as the lowest mark is not below this part of it."""
UNITS = (("s", SECOND_NS), ("ms", MILLISECOND_NS), ("µs", MICROSECOND_NS))
LABEL = "format(datum.value, ',.3~r')"
"""Vega expression: a number with up to three digits, never in scientific notation."""


class LatencyAxis(msgspec.Struct, frozen=True):
    """An axis with its unit; charts draw the field ``latency``, which is in that unit."""

    unit: str
    unit_ns: int
    marks: Sequence[float]
    """In the unit of the axis, from the lowest to the highest."""

    def value(self, latency_ns: float) -> float:
        """A latency in the unit of the axis."""
        return latency_ns / self.unit_ns

    def y(self) -> alt.Y:
        """The vertical axis of a chart."""
        return alt.Y(
            "latency:Q",
            title=f"Latency ({self.unit}, log scale)",
            scale=alt.Scale(type="log", domain=[self.marks[0], self.marks[-1]], nice=False, clamp=True),
            axis=alt.Axis(values=list(self.marks), labelExpr=LABEL),
        )


def latency_axis(latencies_ns: Iterable[float]) -> LatencyAxis:
    """The axis for some latencies, with marks at 1, 2 and 5 of each power of ten."""
    positive = [latency for latency in latencies_ns if latency > 0] or [float(MICROSECOND_NS)]
    marks = [step * 10.0**power for power in range(13) for step in (1, 2, 5)]
    low = max((mark for mark in marks if mark <= min(positive) / ROOM), default=marks[0])
    high = min((mark for mark in marks if mark >= max(positive) * ROOM), default=marks[-1])
    unit, unit_ns = next(((name, size) for name, size in UNITS if low >= SMALLEST * size and high >= size), UNITS[-1])
    return LatencyAxis(unit, unit_ns, [mark / unit_ns for mark in marks if low <= mark <= high])
