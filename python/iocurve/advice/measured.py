"""A load that was measured or observed, as the start of a sizing: rates, mix, block size, latency with its interval."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec

from iocurve.advice.observation import FORMAT, Observation, ObservedInterval
from iocurve.analysis.check_names import Name
from iocurve.analysis.check_values import PointValues
from iocurve.foundation.errors import ResultError
from iocurve.foundation.units import MIB, MICROSECOND_NS, format_latency, format_number
from iocurve.result.document import Interval, Point, Result

FORMAT_WITHIN = 200
"""The format of an observation is its first key."""
_MEAN = Name("service_mean", 1, "time", figure="service_", statistic="mean")


class MeasuredDemand(msgspec.Struct, frozen=True):
    """A measured load. Rates are those of the upper bounds of their intervals, so that what is sized carries them."""

    text: str
    """The load, its rates and latency with intervals, and where they come from."""
    bytes_per_s: int
    iops: int
    read_percent: float
    block_bytes: int
    latency_ns: int | None
    latency_bounds_ns: tuple[float, float] | None
    warning: str = ""


def from_file(path: Path, *, iops: int, bytes_per_s: int, block_bytes: int | None) -> MeasuredDemand:
    """Reads a result and takes the point that carries a demand with the least load, or else the fastest.

    Without a demand (0) that is the fastest point, by throughput where operations are large. An observation is taken
    whole, whatever the demand. Raises ``ResultError``.
    """
    if _is_observation(path):
        return _of_observation(Observation.load(path))
    result = Result.read(path)
    points = [point for point in result.points if _block(point) and point.summary().iops > 0]
    if block_bytes:
        points = [point for point in points if abs(_block(point) / block_bytes - 1) < 0.5]
    if not points:
        what = f"with blocks of about {block_bytes:,} bytes" if block_bytes else "that moved data"
        raise ResultError(f"{path} has no point {what}: nothing can be sized from it")
    enough = [one for one in points if _low(one, "iops") >= iops and _low(one, "bytes_per_s") >= bytes_per_s]
    is_demanded = bool(iops or bytes_per_s)
    if is_demanded and enough:
        chosen = min(enough, key=lambda point: point.summary().iops)
    else:
        chosen = max(points, key=lambda point: _rate(point, "bytes_per_s" if bytes_per_s else "iops").value)
    return _measured(result, chosen, is_short=is_demanded and not enough)


def _is_observation(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return FORMAT.encode() in file.read(FORMAT_WITHIN)
    except OSError:
        return False


def _of_observation(observed: Observation) -> MeasuredDemand:
    """The rates of the busiest intervals, with the mean sizes, mix and latency of the whole. Raises ``ResultError``."""
    operations = observed.read.operations + observed.write.operations
    if not operations:
        raise ResultError(f"{observed.subject} was idle while it was observed: nothing can be sized from it")
    spans = observed.intervals or (ObservedInterval(start_s=0, read=observed.read, write=observed.write),)
    iops = max(one.read.iops + one.write.iops for one in spans)
    mib_per_s = max(one.read.mib_per_s + one.write.mib_per_s for one in spans)
    latency_us = (observed.read.latency_us_total + observed.write.latency_us_total) / operations
    text = (
        f"{observed.subject}, observed for {observed.seconds:.0f} s: {format_number(observed.iops, 4)} IOPS, "
        f"{format_number(observed.mib_per_s, 4)} MiB/s on average, {format_number(iops, 4)} IOPS and "
        f"{format_number(mib_per_s, 4)} MiB/s in the busiest intervals, mean latency "
        f"{format_latency(latency_us * MICROSECOND_NS)}"
    )
    return MeasuredDemand(
        text=text,
        bytes_per_s=math.ceil(mib_per_s * MIB),
        iops=math.ceil(iops),
        read_percent=round(100 * observed.read.operations / operations, 1),
        block_bytes=round((observed.read.bytes + observed.write.bytes) / operations),
        latency_ns=round(latency_us * MICROSECOND_NS),
        latency_bounds_ns=None,
    )


def _measured(result: Result, point: Point, *, is_short: bool) -> MeasuredDemand:
    rate, data = _rate(point, "iops"), _rate(point, "bytes_per_s")
    latency = PointValues(result, point).of(_MEAN)
    mean_ns = float(latency.value) * MICROSECOND_NS if latency and not isinstance(latency.value, str) else None
    bounds = None
    if latency and latency.low is not None and latency.high is not None and math.isfinite(latency.high - latency.low):
        bounds = latency.low * MICROSECOND_NS, latency.high * MICROSECOND_NS
    shown = f"{point.name}: {format_number(rate.value, 4)} IOPS{_bounds(rate)}"
    if mean_ns is not None:
        spread = f" [{format_latency(bounds[0])}, {format_latency(bounds[1])}]" if bounds else ""
        shown += f", mean latency {format_latency(mean_ns)}{spread}"
    carried = f"the fastest point ({point.name}) carried {format_number(data.value / (1 << 20), 4)} MiB/s, "
    short = f"{carried}{format_number(rate.value, 4)} IOPS{_bounds(rate)}: the demand was not measured here"
    return MeasuredDemand(
        text=shown,
        bytes_per_s=math.ceil(data.value if data.high is None else data.high),
        iops=math.ceil(rate.value if rate.high is None else rate.high),
        read_percent=_read_percent(point),
        block_bytes=_block(point),
        latency_ns=None if mean_ns is None else round(mean_ns),
        latency_bounds_ns=bounds,
        warning=short if is_short else "",
    )


def _rate(point: Point, rate: str) -> Interval:
    return point.rate_interval("iops" if rate == "iops" else "bytes_per_s")


def _low(point: Point, rate: str) -> float:
    found = _rate(point, rate)
    return found.value if found.low is None else found.low


def _block(point: Point) -> int:
    """Mean bytes of an operation; 0 where nothing was moved."""
    figures = point.figures
    return round(figures.bytes / figures.operations) if figures.bytes and figures.operations else 0


def _read_percent(point: Point) -> float:
    kinds = point.summary().kinds
    reads = sum(totals.operations for kind, totals in kinds.items() if kind == "read")
    both = sum(totals.operations for kind, totals in kinds.items() if kind in ("read", "write"))
    return round(100 * reads / both, 1) if both else 100.0


def _bounds(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return ""
    return f" [{format_number(interval.low, 4)}, {format_number(interval.high, 4)}]"
