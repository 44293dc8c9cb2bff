"""The load that must be carried: rates, mix and size of operations, latency, capacity."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Literal

from iocurve.engine.structs import Struct
from iocurve.errors import Diagnostic, DialectError
from iocurve.result.caps import Kind
from iocurve.units import MIB, format_bytes, format_latency, format_number

Quantity = Literal["bytes_per_s", "iops", "in_flight"]
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


def demanded(
    *,
    bytes_per_s: int = 0,
    iops: int = 0,
    read_percent: float = 100.0,
    block_bytes: int | None = None,
    latency_ns: int | None = None,
    round_trip_ns: int | None = None,
    capacity_bytes: int = 0,
) -> Demand:
    """A load; with a block size throughput and IOPS follow from each other, and the larger one counts.

    Raises ``DialectError`` where nothing is demanded.
    """
    if not (bytes_per_s or iops):
        raise DialectError([Diagnostic("nothing to size: give --throughput 4500MiB/s, --iops 100k or --from RESULT")])
    if block_bytes:
        iops = max(iops, math.ceil(Fraction(bytes_per_s, block_bytes)))
        bytes_per_s = max(bytes_per_s, iops * block_bytes)
    return Demand(
        bytes_per_s=bytes_per_s,
        iops=iops,
        read_percent=read_percent,
        block_bytes=block_bytes,
        latency_ns=latency_ns,
        round_trip_ns=round_trip_ns,
        capacity_bytes=capacity_bytes,
    )


def parse_mix(text: str) -> float:
    """``70:30`` as 70.0: per cent of reads and of writes. Raises ``ValueError``."""
    found = _MIX.match(text)
    if found is None or int(found[1]) + int(found[2]) != 100:
        raise ValueError(f"'{text}' is not a mix of reads and writes such as 70:30")
    return float(found[1])
