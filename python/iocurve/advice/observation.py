"""A saved observation: the rates, sizes and latencies of an application's own I/O, from the kernel's counters.

``iocurve observe --out`` writes it, ``iocurve size --from`` reads it.

``job_file`` makes a job whose load is similar to the observed one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import tomli_w

from iocurve.foundation.errors import ResultError, TargetError
from iocurve.foundation.structs import Struct, refusal
from iocurve.foundation.units import KIB, MIB, format_bytes

FORMAT: Literal["iocurve-observation-1"] = "iocurve-observation-1"
OperationKind = Literal["read", "write"]


class KindObserved(Struct):
    """The operations of one kind over a span of time."""

    operations: int
    """Operations completed."""
    bytes: int
    """Bytes that they moved."""
    seconds: float
    """The span of time."""
    latency_us_total: float
    """Sum of the operations' latencies, from the request of the file system or application to completion."""
    client_wait_us_total: float | None = None
    """The part before the request was sent: waiting for a slot or a connection. None where counters do not tell."""
    server_us_total: float | None = None
    """The part from sending to the reply: network and server. None where counters do not tell."""

    @property
    def iops(self) -> float:
        """Operations per second."""
        return self.operations / self.seconds

    @property
    def mib_per_s(self) -> float:
        """Throughput in MiB/s."""
        return self.bytes / MIB / self.seconds

    @property
    def mean_bytes(self) -> float | None:
        """Mean size; None without operations."""
        return self._mean(self.bytes)

    @property
    def mean_us(self) -> float | None:
        """Mean latency in µs; None without operations."""
        return self._mean(self.latency_us_total)

    @property
    def client_wait_us(self) -> float | None:
        """Mean wait in the client in µs; None without operations or where counters do not tell."""
        return self._mean(self.client_wait_us_total)

    @property
    def server_us(self) -> float | None:
        """Mean time of network and server in µs; None without operations or where counters do not tell."""
        return self._mean(self.server_us_total)

    def _mean(self, total: float | None) -> float | None:
        return total / self.operations if self.operations and total is not None else None

    @property
    def depth(self) -> float:
        """Operations in flight on average, by Little's law: rate times mean latency."""
        return self.latency_us_total / 1e6 / self.seconds


class ObservedInterval(Struct):
    """One sampling interval."""

    start_s: float
    """Start, in seconds from the start of the observation."""
    read: KindObserved
    write: KindObserved


class ProcessObserved(Struct):
    """I/O of one process over the whole observation (``/proc/PID/io``), on all file systems."""

    pid: int
    name: str
    read_bytes: int
    """Bytes that the process caused to be fetched from storage."""
    write_bytes: int
    """Bytes that it caused to be sent to storage."""
    has_files_open: bool
    """It had a file of the observed mount or device open at the end."""


class LimitNear(Struct):
    """A known limit, and the part of it that was used."""

    name: str
    """The limit in words: ``throughput``, ``requests in flight, 4 connections``."""
    value: float
    unit: str
    observed: float
    """The mean of the whole observation."""
    peak: float
    """The highest interval."""
    source: str
    next_step: str = ""
    """The change that raises the limit."""

    @property
    def share(self) -> float:
        """The highest interval as a part of the limit."""
        return self.peak / self.value


class Observation(Struct):
    """An application's I/O on one mount or device."""

    format: Literal["iocurve-observation-1"] = FORMAT
    subject: str
    """The mount point, or the name of the block device."""
    counters: Literal["mountstats", "diskstats"]
    """The source of the counts. mountstats counts operations between client and server, without reads from the
    client's page cache; diskstats counts those of the block device, with the file system's own."""
    began: str
    """Start as ISO 8601 in UTC."""
    seconds: float
    read: KindObserved
    write: KindObserved
    other_operations: int = 0
    """NFS operations that are neither reads nor writes: GETATTR, LOOKUP, COMMIT."""
    intervals: tuple[ObservedInterval, ...] = ()
    processes: tuple[ProcessObserved, ...] = ()
    limits: tuple[LimitNear, ...] = ()
    connections: int | None = None
    """TCP connections of the mount that were open; None for devices."""

    @property
    def iops(self) -> float:
        """Reads and writes per second."""
        return self.read.iops + self.write.iops

    @property
    def mib_per_s(self) -> float:
        """Throughput of reads and writes in MiB/s."""
        return self.read.mib_per_s + self.write.mib_per_s

    @property
    def read_share(self) -> float | None:
        """Reads as a part of reads and writes; None without operations."""
        operations = self.read.operations + self.write.operations
        return self.read.operations / operations if operations else None

    @property
    def depth(self) -> float:
        """Reads and writes in flight on average."""
        return self.read.depth + self.write.depth

    @classmethod
    def load(cls, path: Path) -> Observation:
        """Reads a saved observation. Raises ``ResultError``."""
        try:
            return cls.from_json(path.read_bytes())
        except OSError as error:
            raise ResultError(f"{path}: {error.strerror}") from None
        except ValueError as error:
            raise ResultError(f"{path} is not an observation (iocurve observe --out): {refusal(error)}") from None


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
