"""A job file that makes a load similar to an observed one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import tomli_w

from iocurve.advice.observation import KindObserved, Observation
from iocurve.foundation.errors import TargetError
from iocurve.foundation.units import KIB, format_bytes

PAGE_BYTES, SECTOR_BYTES = 4 * KIB, 512
SIZE_ERROR = 0.005
"""A whole number of pages within this part of the mean stands for it."""
OWN_SHARE = 0.005
"""Fewer operations of a kind are those of the file system: times and its journal."""
WEIGHTS = 10_000
"""Sum of the weights of two sizes."""
DEPTH_FACTOR = 2
"""Room for bursts: the job keeps at most this many times the observed mean in flight."""


Access = Literal["random", "sequential"]


def job_file(observed: Observation, access: Access, data_bytes: int) -> str:
    """A job file (TOML); no counter has the access and the size of the data.

    Raises ``TargetError`` if nothing was read or written.
    """
    both = {"read": observed.read, "write": observed.write}
    total = sum(kind.operations for kind in both.values())
    kinds = {name: kind for name, kind in both.items() if kind.operations > OWN_SHARE * total}
    if not kinds:
        raise TargetError(f"{observed.subject}: no reads or writes were observed, so there is no load for a job")
    share = observed.read_share
    rates = {name: max(1, round(kind.iops)) for name, kind in kinds.items()}
    blocks = {name: _blocks(kind) for name, kind in kinds.items()}
    depth = max(1, math.ceil(DEPTH_FACTOR * observed.depth))
    section: dict[str, object] = {
        "name": "observed",
        "size": format_bytes(max(1, data_bytes // PAGE_BYTES) * PAGE_BYTES),
        "reads": "read" in kinds,
        "writes": "write" in kinds,
        "random": access == "random",
        # A block that is used once per pass is cut where it meets used ones, if there are several sizes.
        "cover": "independent",
        "depth": depth,
        "runtime": f"{max(1, round(observed.seconds))}s",
        "time_based": True,
        # A table must have a value for every kind; there are no trims.
        "blocks": blocks | {"trim": "4KiB"} if len(kinds) > 1 else next(iter(blocks.values())),
        "rate_operations": rates | {"trim": 0} if len(kinds) > 1 else next(iter(rates.values())),
    }
    if share is not None and len(kinds) > 1:
        section["read_percent"] = round(100 * share, 2)
    text = tomli_w.dumps({"name": "observed", "interval": "1s", "job": [section]})
    left_out = [f"{name}s, {each.operations:,}" for name, each in both.items() if each.operations and name not in kinds]
    return _comment(observed, access, data_bytes, left_out) + text


def _comment(observed: Observation, access: Access, data_bytes: int, left_out: Sequence[str]) -> str:
    lines = [
        f"A load like the one on {observed.subject}, watched for {observed.seconds:.0f} s from {observed.began}",
        f"({observed.counters}): {observed.iops:,.0f} IOPS, {observed.mib_per_s:,.1f} MiB/s,",
        f"{observed.depth:,.2f} in flight on average.",
        "Counters tell rates and mean sizes, but neither single sizes, access, size of the data nor its skew:",
        f"--access {access} and --data {format_bytes(data_bytes)} are the user's.",
        f"The depth is {DEPTH_FACTOR} times the observed mean, so that short bursts keep the rate.",
        *(f"Left out as the file system's own: {text}." for text in left_out),
        "Files are made in the current directory; set directories for another one.",
    ]
    return "".join(f"# {line}\n" for line in lines) + "\n"


def _blocks(kind: KindObserved) -> str | dict[str, object]:
    """The mean size: as it is if it is a whole number of pages (below one page: sectors), else two sizes around it."""
    mean = kind.mean_bytes or PAGE_BYTES
    unit = PAGE_BYTES if mean >= PAGE_BYTES else SECTOR_BYTES
    low = max(unit, int(mean // unit) * unit)
    above = max(0.0, (mean - low) / unit)
    if min(above, 1 - above) * unit < SIZE_ERROR * mean:
        return format_bytes(low + unit * round(above))
    weights = {low: round(WEIGHTS * (1 - above)), low + unit: round(WEIGHTS * above)}
    return {"kind": "split", "parts": [{"bytes": size, "weight": weight} for size, weight in weights.items()]}
