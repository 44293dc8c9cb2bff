"""The load that must be carried: rates, mix and size of operations, latency, capacity; or that of a measurement."""

from __future__ import annotations

import math
import re
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from iocurve.advice.observation import FORMAT, Observation, ObservedInterval
from iocurve.analysis.check_names import Name
from iocurve.analysis.check_values import PointValues
from iocurve.foundation.errors import Diagnostic, DialectError, ResultError, unknown
from iocurve.foundation.structs import Struct
from iocurve.foundation.units import MIB, MICROSECOND_NS, format_bytes, format_latency, format_number
from iocurve.model.links import Quantity
from iocurve.result.caps import Kind
from iocurve.result.document import Interval, Point, Result
from iocurve.targets import disk as published
from iocurve.volume import profile as profiles
from iocurve.volume.validation import InvalidDocument, validated

_MIX = re.compile(r"(\d{1,3}):(\d{1,3})\Z")


class Demand(Struct):
    """A load. 0 where nothing is demanded of a quantity; None where it is not known."""

    bytes_per_s: int = 0
    iops: int = 0
    read_percent: float = 100.0
    """Share of the reads, of IOPS and of bytes."""
    block_bytes: int | None = None
    """Size of an operation; None: throughput and IOPS are demanded each by itself."""
    latency_ns: int | None = None
    """Mean latency of an operation."""
    round_trip_ns: int | None = None
    """Network round trip. Default: the latency."""
    capacity_bytes: int = 0

    @property
    def in_flight(self) -> Fraction | None:
        """Operations in flight by Little's law; None where the latency or the IOPS are not known."""
        if self.latency_ns is None or not self.iops:
            return None
        return Fraction(self.iops * self.latency_ns, 1_000_000_000)

    def share(self, kind: Kind) -> Fraction:
        """The share of a kind of operation: of reads, of writes, or of both together."""
        reads = Fraction(self.read_percent) / 100
        return {"any": Fraction(1), "read": reads, "write": 1 - reads}[kind]

    def of(self, quantity: Quantity, kind: Kind = "any") -> Fraction:
        """The demand on a quantity by a kind of operation; 0 where nothing is demanded."""
        total: Fraction | int = (self.in_flight or 0) if quantity == "in_flight" else getattr(self, quantity)
        return self.share(kind) * total

    def completed(self) -> Demand:
        """The demand; with a block size throughput and IOPS follow from each other, and the larger one counts.

        Raises ``DialectError`` where nothing is demanded.
        """
        if not (self.bytes_per_s or self.iops):
            text = "nothing to size: give --throughput 4500MiB/s, --iops 100k or --from RESULT"
            raise DialectError([Diagnostic(text)])
        if not self.block_bytes:
            return self
        iops = max(self.iops, math.ceil(Fraction(self.bytes_per_s, self.block_bytes)))
        return self.replace(iops=iops, bytes_per_s=max(self.bytes_per_s, iops * self.block_bytes))

    @property
    def text(self) -> str:
        """``4,500 MiB/s, 576,000 IOPS of 8 KiB, 70 % reads, 1 ms``."""
        parts = []
        if self.bytes_per_s:
            parts.append(f"{format_number(self.bytes_per_s / MIB)} MiB/s")
        if self.iops:
            parts.append(f"{self.iops:,} IOPS")
        if self.block_bytes:
            parts.append(f"blocks of {format_bytes(self.block_bytes)}")
        parts.append(f"{self.read_percent:g} % reads")
        if self.latency_ns is not None:
            parts.append(f"mean latency {format_latency(self.latency_ns)}")
        if self.capacity_bytes:
            parts.append(f"at least {format_bytes(self.capacity_bytes)}")
        return ", ".join(parts)


def parse_mix(text: str) -> float:
    """``70:30`` as 70.0: per cent of reads and of writes. Raises ``ValueError``."""
    found = _MIX.match(text)
    if found is None or int(found[1]) + int(found[2]) != 100:
        raise ValueError(f"'{text}' is not a mix of reads and writes such as 70:30")
    return float(found[1])


Amount = Annotated[float, Meta(ge=0)]


class Alternative(Struct):
    """A volume, a share or disks that carry a load."""

    name: str
    """A profile, a disk or a disk size."""
    kind: Literal["volume", "disk"]
    how: str = ""
    """``auto QoS``, ``manual QoS``, ``set``, ``on burst credits``; of disks the virtual machine."""
    provisioned: str
    """The purchase in words: ``quota 70.3125 TiB``."""
    gib: int
    """Capacity of the volume, of all disks, or of a pool from which a volume takes its throughput."""
    pool_gib: int | None = None
    """Capacity of the pool that is paid for, whole TiB; None where ``gib`` is."""
    count: int = 1
    """Disks in the stripe."""
    iops_set: int | None = None
    """IOPS that are paid for; None where they come with the size."""
    mib_per_s_set: int | None = None
    """Throughput that is paid for; None where it comes with the size."""
    vm: str | None = None
    formula: str = ""
    binds_first: str = ""
    next_step: str = ""
    notes: tuple[str, ...] = ()
    source: str = ""
    month: float | None = None
    """Price of a month by the user's prices; None without one."""


class Impossible(Struct):
    """A product that does not carry the load."""

    name: str
    why: str


class Price(Struct):
    """The price of a product for a month; what is left out costs nothing."""

    month: Amount = 0.0
    """Of each disk or machine."""
    gib_month: Amount = 0.0
    iops_month: Amount = 0.0
    """Of each provisioned operation per second."""
    mib_per_s_month: Amount = 0.0
    """Of each provisioned MiB/s."""


class Prices(Struct):
    """Prices by product: ``[prices.anf-premium]``, ``[prices.premium-ssd-p30]``, ``[prices.Standard_D32s_v5]``."""

    currency: str = ""
    prices: dict[str, Price]

    def priced(self, one: Alternative) -> Alternative:
        """The alternative with its price; without one if a product has no price."""
        own = self.prices.get(one.name)
        machine = self.prices.get(one.vm) if one.vm else Price()
        if own is None or machine is None:
            return one
        sizes = own.month * one.count + own.gib_month * (one.pool_gib or one.gib)
        rates = own.iops_month * (one.iops_set or 0) + own.mib_per_s_month * (one.mib_per_s_set or 0)
        return one.replace(month=round(sizes + rates + machine.month, 2))


def read_prices(path: Path) -> Prices:
    """Reads the prices of a user. Raises ``DialectError`` with every error and its place."""
    try:
        found = validated(tomllib.loads(path.read_text(encoding="utf-8")), Prices)
    except InvalidDocument as error:
        raise DialectError([Diagnostic(f"--prices {path}: {error}")]) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"this is not TOML: {error}"
        raise DialectError([Diagnostic(f"--prices {path}: {reason}")]) from None
    known = product_names()
    errors = [unknown("product", name, known, "iocurve size --sources") for name in found.prices if name not in known]
    if errors:
        raise DialectError([Diagnostic(f"--prices {path}: {error.text}") for error in errors])
    return found


def product_names() -> list[str]:
    """The names that a price can have: service levels, disks, sizes of disks, and machines."""
    families = published.families()
    sizes = [f"{name}-{size}" for name, family in families.items() for size in family.sizes]
    return [*profiles.names(), *families, *sizes, *published.vms()]


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


def measured_demand(path: Path, *, iops: int, bytes_per_s: int, block_bytes: int | None) -> MeasuredDemand:
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
