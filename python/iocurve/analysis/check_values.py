"""The values of the names in checks, with their 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import NormalDist

import msgspec
from msgspec.structs import replace

from iocurve.analysis.check_names import Measure, Name
from iocurve.foundation.units import (
    MIB,
    MICROSECOND_NS,
    SECOND_NS,
    format_bytes,
    format_count,
    format_latency,
    format_number,
)
from iocurve.result.document import Interval, Point, Result
from iocurve.result.figures import KindFigures
from iocurve.result.percentiles import effective_count, independent_operations, percentile_interval
from iocurve.result.stalls import longest_stall
from iocurve.result.stats import CONFIDENCE
from iocurve.result.summary import Latency, Totals


class Value(msgspec.Struct, frozen=True):
    """A measured value, or a text."""

    value: float | str
    low: float | None = None
    """Lower bound of the 95 % interval; minus infinity where there is only an upper one, None without an interval."""
    high: float | None = None
    seconds: float = 0.0
    """Measured time behind the value; 0 where it is unknown."""
    operations: int = 0
    """Operations behind a latency."""
    operations_wanted: int | None = None
    """The fewest operations that would give both bounds, where one is missing for lack of operations."""

    @property
    def seconds_wanted(self) -> float | None:
        """Measured time that would give both bounds, where one is missing for lack of operations."""
        return self.operations_wanted and self.seconds * self.operations_wanted / self.operations


class PointValues(msgspec.Struct, frozen=True):
    """The values of one point. A value is None where the point has none, such as the p99 of a kind that it lacks."""

    result: Result
    point: Point

    def of(self, name: Name) -> Value | None:
        """The value of a name."""
        if name.is_of_result:
            return found_value(self.result, name)
        totals = self.point.summary() if name.kind is None else self.point.summary().kinds.get(name.kind)
        if totals is None:
            return None
        if name.statistic:
            found = _latency(self.point, totals, name)
        elif name.figure in _WITH_INTERVAL:
            found = _WITH_INTERVAL[name.figure](self, name)
        else:
            return None if (plain := self._plain(name)) is None else Value(plain)
        return found and replace(found, seconds=self.point.summary().window_ns / SECOND_NS)

    def _plain(self, name: Name) -> float | str | None:
        """A value without an interval."""
        texts = {"name": self.point.name, "series": self.point.family, "state": self.point.summary().state}
        if name.kind is not None:
            return _figure(self.point.kind_figures[name.kind], name)
        if name.figure in texts:
            return texts[name.figure]
        if name.figure == "target":
            return self.point.target or self.result.target.address
        if name.figure in self.point.axes:
            return self.point.axes[name.figure]
        return _figure(self.point.figures, name)

    def _rate(self, name: Name) -> Value | None:
        rate, unit = ("iops", 1) if name.figure == "iops" else ("bytes_per_s", MIB)
        return _scaled(self.point.rate_interval("iops" if rate == "iops" else "bytes_per_s", name.kind), unit)

    def _stall(self, _: Name) -> Value | None:
        found = longest_stall(self.point.outcome.workers)
        return None if self.point.imported else Value(found[1] / MICROSECOND_NS if found else 0.0)

    def _speedup(self, _: Name) -> Value | None:
        names = self.point.compared_with
        base = next((one for one in self.result.points if names and one.name == names[0]), None)
        found = self.point.speedup_over(base) if base is not None and base is not self.point else None
        return None if found is None else Value(found.value, found.low, found.high)


def _figure(figures: KindFigures, name: Name) -> float | str | None:
    value: float | str | None = getattr(figures, name.figure, None)
    return value


_WITH_INTERVAL: Mapping[str, Callable[[PointValues, Name], Value | None]] = {
    "iops": PointValues._rate,
    "mib_per_s": PointValues._rate,
    "speedup": PointValues._speedup,
    "stall": PointValues._stall,
}


def found_value(result: Result, name: Name) -> Value | None:
    """The finding of a search."""
    findings = result.search.findings if result.search else ()
    found = next((one.figure for one in findings if one.name == name.figure), None)
    return None if found is None else _scaled(found, 1)


def _scaled(figure: Interval, unit: float) -> Value | None:
    """In another unit; None for a value that an imported result does not state."""
    if math.isnan(figure.value):
        return None
    if figure.low is None and figure.high is None:
        return Value(figure.value / unit)
    low = -math.inf if figure.low is None else figure.low / unit
    return Value(figure.value / unit, low, math.inf if figure.high is None else figure.high / unit)


def _latency(point: Point, totals: Totals, name: Name) -> Value | None:
    """A latency in µs: the response latency under a rate, unless the name says service.

    Intervals are of percentiles and means of service latencies.
    """
    is_response = name.figure == "response_" or (not name.figure and totals.response is not None)
    latency = totals.response if is_response else totals.service
    if latency is None or not latency.count:
        return None
    count = None if is_response or name.statistic in ("min", "max") else _independent(point, name)
    low, high = (None, None) if count is None else _bounds(latency, name, count)
    bounds = totals.unfinished + (totals.missed if is_response else 0)
    if bounds and name.statistic != "min":
        by_chance = math.inf if count is not None and high is None else high
        low, high = low if low is not None else latency.min_ns, _highest(latency, name, bounds, by_chance)
    value = {
        "min": latency.min_ns,
        "mean": latency.mean_ns,
        "max": latency.max_ns,
        "percentile": latency.percentile(name.percent),
    }[name.statistic]
    found = _scaled(Interval(value=value, low=low, high=high), MICROSECOND_NS)
    if found is None or count is None or high is not None:
        return found
    return replace(found, operations=latency.count, operations_wanted=_count_wanted(name.percent))


def _highest(latency: Latency, name: Name, bounds: int, high: float | None) -> float:
    """The upper bound of a latency of which ``bounds`` values are lower bounds; ``high`` is that by chance alone."""
    rank = name.percent + 100 * bounds / latency.count
    if name.statistic != "percentile" or rank > 100:
        return math.inf
    return max(latency.percentile(rank), high or 0.0)


def _independent(point: Point, name: Name) -> float | None:
    """The number of independent operations behind a latency."""
    if name.statistic == "percentile":
        return independent_operations(point, name.percent, name.kind)
    return effective_count(point, name.kind)


def _bounds(latency: Latency, name: Name, count: float) -> tuple[float | None, float | None]:
    if name.statistic == "percentile":
        low, high = percentile_interval(latency, name.percent, count)
        if high is None and latency.count >= _count_wanted(name.percent):
            # The independent operations are too few for a rank between them. All operations lie below the largest.
            high = latency.max_ns
        return low, high
    reach = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * latency.stddev_ns / math.sqrt(count)
    return max(float(latency.min_ns), latency.mean_ns - reach), latency.mean_ns + reach


def _count_wanted(percent: float) -> int:
    """The fewest operations of which the largest is an upper bound of a percentile, as sure as those of intervals."""
    return math.ceil(math.log((1 - CONFIDENCE) / 2) / math.log(percent / 100))


# ---- as text


def text_of(value: float | str, measure: Measure) -> str:
    """A value with its unit: ``2.31 ms``, ``12.8k``, ``"depth"``."""
    if isinstance(value, str):
        return f'"{value}"'
    return _TEXTS[measure](value)


_TEXTS: Mapping[Measure, Callable[[float], str]] = {
    "time": lambda value: format_latency(value * MICROSECOND_NS),
    "rate": lambda value: f"{format_count(value)} IOPS",
    "throughput": lambda value: f"{format_number(value, 4)} MiB/s",
    "size": lambda value: format_bytes(round(value)),
    "count": lambda value: f"{value:,.0f}",
    "number": lambda value: format_number(value, 4),
    "share": lambda value: f"{format_number(value, 3)} %",
    "text": str,
}


def interval_text(value: Value, measure: Measure) -> str:
    """``95 %: 1.9 ms to 2.4 ms``; empty without an interval."""
    if value.low is None or value.high is None or value.high == -value.low == math.inf:
        return ""
    if math.isinf(value.low):
        return f"at most {text_of(value.high, measure)}"
    if math.isinf(value.high):
        return f"at least {text_of(value.low, measure)}"
    low, high = text_of(value.low, measure), text_of(value.high, measure)
    return "" if low == high else f"95 %: {low} to {high}"
