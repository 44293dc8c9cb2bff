"""The known limits of a target, as lines in charts."""

from __future__ import annotations

from dataclasses import dataclass

from iocurve.result.document import TargetFacts
from iocurve.units import MIB, format_number

FAR = 2.5
"""A limit more than this many times the highest figure is left out of a chart."""


@dataclass(frozen=True)
class Cap:
    """A known limit of the target, in the unit of its axis."""

    value: float
    label: str


def throughput_cap(target: TargetFacts) -> Cap | None:
    """The target's limit in MiB/s."""
    if not target.throughput_bytes_per_s:
        return None
    mib_per_s = target.throughput_bytes_per_s / MIB
    return Cap(mib_per_s, f"limit {format_number(mib_per_s, 5)} MiB/s")


def iops_cap(target: TargetFacts, block_bytes: int) -> Cap | None:
    """The lower of the IOPS limit and the IOPS that the throughput limit allows at a block size (0: unknown)."""
    caps = []
    if target.iops:
        caps.append(Cap(target.iops, f"limit {target.iops:,} IOPS"))
    if target.throughput_bytes_per_s and block_bytes:
        iops = target.throughput_bytes_per_s / block_bytes
        mib_per_s = format_number(target.throughput_bytes_per_s / MIB, 5)
        caps.append(Cap(iops, f"limit {mib_per_s} MiB/s = {iops:,.0f} IOPS"))
    return min(caps, key=lambda cap: cap.value, default=None)


def within_sight(cap: Cap | None, highest: float) -> Cap | None:
    """The limit, unless it is so far above the highest figure that it would flatten the chart."""
    return cap if cap and cap.value <= FAR * highest else None
