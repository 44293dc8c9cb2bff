"""What the engine hands back for one plan; ``crates/engine/src/outcome.rs`` is the same contract in Rust."""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass
from typing import Any, Literal

from iocurve.structs import Struct

State = Literal["finished", "interrupted", "failed"]


class LatencyOutcome(Struct):
    """A latency distribution."""

    count: int
    min_ns: int
    """Exact, as is the largest."""
    max_ns: int
    mean_ns: float
    """Exact."""
    stddev_ns: float
    """Of the population."""
    histogram: str
    """HdrHistogram V2 with DEFLATE, base64; three significant digits."""


class KindOutcome(Struct):
    """One kind of operation in a worker's measured window."""

    operations: int
    bytes: int
    errors: int
    short: int
    """Operations that moved fewer bytes than asked."""
    service: LatencyOutcome
    """Submit to done."""
    response: LatencyOutcome | None
    """Due to done, under a rate; None in a closed loop, where the two are the same."""
    submission: LatencyOutcome | None = None
    """Submit to handed over; None where that was not measured apart."""
    completion: LatencyOutcome | None = None
    """Handed over to done; None likewise."""


class CpuTime(Struct):
    """CPU time, context switches and page faults of a thread."""

    user_ns: int
    system_ns: int
    context_switches: int
    major_faults: int = 0
    """That waited for I/O."""
    minor_faults: int = 0


class ConnectionOutcome(Struct):
    """A TCP connection as the kernel reports it (``TCP_INFO``); times and counts since it was made."""

    rtt_ns: int
    """Smoothed round-trip time."""
    rtt_ns_min: int
    congestion_window: int
    """In segments."""
    segment_bytes: int
    retransmits: int
    """Segments that were sent again."""
    busy_ns: int
    """Time with data to send or unacknowledged."""
    receive_window_limited_ns: int
    """Part of the busy time in which the receiver's window held the sender back."""
    send_buffer_limited_ns: int
    """Part of the busy time in which the send buffer held the sender back."""


class IntervalKind(Struct):
    """One kind of operation in one interval; latencies are service latencies."""

    operations: int
    bytes: int
    errors: int
    mean_ns: float
    stddev_ns: float
    """Of the population."""
    p50_ns: int
    p99_ns: int
    min_ns: int
    max_ns: int


class IntervalOutcome(Struct):
    """One worker in one interval; times since the group's start."""

    index: int
    ramp: bool
    """An interval that straddles the ramp's end is split in two records."""
    start_ns: int
    end_ns: int
    operations: dict[str, IntervalKind]
    """By kind: only kinds that completed something or failed."""


class SteadySample(Struct):
    """All workers of a report group in one period."""

    end_ns: int
    """Of the period, since the group's start."""
    iops: float
    bytes_per_s: float
    latency_ns: float
    """Mean service latency."""


class SteadyOutcome(Struct):
    """What came of waiting for a steady state."""

    attained_ns: int | None
    """When the figures had come to hold steady, since the group's start; None if they never did."""
    criterion: float
    """What was compared with the limit: the deviation or the slope, in per cent of the mean if the limit is."""
    deviation: float
    """Largest from the mean of the samples, in the figure's unit."""
    slope: float
    """Of the least-squares line, in the figure's unit per sample."""
    samples: tuple[SteadySample, ...]
    """The newest, at most as many as are judged."""


@dataclass(frozen=True)
class LogRecords:
    """A log as lists: entry k of each is record k. Times since the group's start."""

    at_ns: list[int]
    """When the operation was done, or the window began."""
    kind: list[str]
    bytes: list[int]
    service_ns: list[float]
    """Submit to done; the mean over a window."""
    response_ns: list[int]
    """Due to done; empty where the worker is not paced, and with windows."""
    offset: list[int]
    """In its file; empty with windows."""
    operations: list[int]
    """In the window; 1 of each operation by itself."""
    service_ns_max: list[int]
    """Largest in the window; empty without windows."""
    submission_ns: list[float]
    """Submit to handed over; the mean over a window. Empty where that was not measured apart."""
    submission_ns_max: list[int]
    """Largest in the window; empty likewise."""
    completion_ns_max: list[int]
    """Largest time from hand-over to done in the window; empty likewise."""
    histograms: list[str]
    """As in LatencyOutcome, from hand-over to done where that was measured apart; empty where none were asked for."""


class LogOutcome(Struct):
    """A log of operations: one record for each, or one for each kind in each window; columns are packed (`unpack`)."""

    window_ns: int | None
    """Length of a window; None where each record is one operation. The last may be shorter."""
    records: int
    lost: int
    """Records that found no room."""
    kinds: tuple[str, ...]
    at_ns: str
    kind: str
    bytes: str
    service_ns: str
    response_ns: str
    offset: str
    operations: str
    service_ns_max: str
    submission_ns: str = ""
    submission_ns_max: str = ""
    completion_ns_max: str = ""
    histograms: tuple[str, ...]

    def unpack(self) -> LogRecords:
        """The columns as lists."""
        return LogRecords(
            at_ns=_column("Q", self.at_ns),
            kind=[self.kinds[number] for number in base64.b64decode(self.kind)],
            bytes=_column("Q", self.bytes),
            service_ns=_column("d", self.service_ns),
            response_ns=_column("Q", self.response_ns),
            offset=_column("Q", self.offset),
            operations=[1] * self.records if self.window_ns is None else _column("Q", self.operations),
            service_ns_max=_column("Q", self.service_ns_max),
            submission_ns=_column("d", self.submission_ns),
            submission_ns_max=_column("Q", self.submission_ns_max),
            completion_ns_max=_column("Q", self.completion_ns_max),
            histograms=list(self.histograms),
        )


def _column(figure: str, packed: str) -> list[Any]:
    """Figures of eight bytes each, little-endian."""
    raw = base64.b64decode(packed)
    return list(struct.unpack(f"<{len(raw) // 8}{figure}", raw))


class WorkerOutcome(Struct):
    """One worker; times since the group's start."""

    group: int
    worker: int
    job: str
    clone: int
    report_group: int
    engine: str
    """What carried out the I/O, in words."""
    state: State
    error: str | None
    errno: int | None = None
    """Of the error; EIO where it has no number of its own."""
    window_start_ns: int
    """The measured window, after the ramp."""
    window_end_ns: int
    drained_ns: int
    drained_operations: int
    """Finished after the window and counted nowhere else."""
    operations: dict[str, KindOutcome]
    """By kind: only kinds in the plan."""
    cpu: CpuTime
    """Of the worker's thread in its window."""
    depth_levels: dict[str, int]
    """Operations by how many were in flight just after they were handed over: 1, 2 or more, 4 or more, ..."""
    submit_levels: dict[str, int] = {}
    """Times that operations were handed over, by how many at once: up to 4, 8, ..."""
    complete_levels: dict[str, int] = {}
    """Times that completions were fetched, likewise; ``0`` is looks that found none."""
    latency_depth: int | None
    """The depth that a search for what a latency allows has come to; None where none was searched for."""
    read_back_ns: int
    """Part of the window in which what had been written was read back, and nothing else was done."""
    reconnects: int
    counters: dict[str, int] = {}
    """Counters of the engine, by name: of an emulated disk ``reads``, ``cache_read_hits``, ``waited_for_disk_iops``."""
    connections: tuple[ConnectionOutcome, ...] = ()
    """TCP connections at the end of the run (NFS)."""
    labels: tuple[str, ...]
    """What a reader must know about the figures."""
    intervals: tuple[IntervalOutcome, ...]
    steady_state: SteadyOutcome | None
    """Of its whole report group; None where the plan has none."""
    log: LogOutcome | None
    """Operations of the measured window, where the plan has them logged."""

    @property
    def window_ns(self) -> int:
        """Length of the measured window."""
        return max(0, self.window_end_ns - self.window_start_ns)

    @property
    def cpu_share(self) -> float:
        """Share of one processor that the worker's thread used in its window."""
        return (self.cpu.user_ns + self.cpu.system_ns) / self.window_ns if self.window_ns else 0.0


class Outcome(Struct):
    """What one plan measured."""

    state: State
    """The worst of its workers'."""
    workers: tuple[WorkerOutcome, ...]
    """One per worker that was started, in plan order."""


class Live(Struct):
    """What runs now, over all workers."""

    phase: str
    """layout, prepare, ramp, run, done."""
    group: int
    elapsed_ns: int
    """Since the group's start (since the run's start during layout)."""
    layout_bytes: int
    layout_bytes_total: int
    intervals: int
    """Number of the newest interval that all running workers have closed, from 1; 0 before the first."""
    operations: dict[str, IntervalKind]
    """That interval, merged over workers."""
