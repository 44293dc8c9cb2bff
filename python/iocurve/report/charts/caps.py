"""The known limits of targets, as lines in charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from iocurve.result.document import TargetFacts
from iocurve.units import MB, MIB, format_number

FAR = 2.5
"""A limit more than this many times the highest figure is left out of a chart."""


@dataclass(frozen=True)
class CapLine:
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
