"""A saved observation: the rates, sizes and latencies of an application's own I/O, from the kernel's counters.

``iocurve observe --out`` writes it, ``iocurve size --from`` reads it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from iocurve.foundation.errors import ResultError
from iocurve.foundation.structs import Struct
from iocurve.foundation.units import MIB

FORMAT: Literal["iocurve-observation-1"] = "iocurve-observation-1"
OperationKind = Literal["read", "write"]
KINDS: tuple[OperationKind, ...] = ("read", "write")


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
        return self.bytes / self.operations if self.operations else None

    @property
    def mean_us(self) -> float | None:
        """Mean latency in µs; None without operations."""
        return self.latency_us_total / self.operations if self.operations else None

    @property
    def client_wait_us(self) -> float | None:
        """Mean wait in the client in µs; None without operations or where counters do not tell."""
        total = self.client_wait_us_total
        return total / self.operations if self.operations and total is not None else None

    @property
    def server_us(self) -> float | None:
        """Mean time of network and server in µs; None without operations or where counters do not tell."""
        total = self.server_us_total
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
            raise ResultError(f"{path} is not an observation (iocurve observe --out): {error}") from None
