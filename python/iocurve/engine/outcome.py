"""The outcome of a run, as the engine returns it; ``crates/engine/src/outcome.rs`` is the same contract in Rust."""

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
    """Exact, as ``max_ns`` is."""
    max_ns: int
    mean_ns: float
    """Exact."""
    stddev_ns: float
    """Standard deviation of the population."""
    histogram: str
    """HdrHistogram V2 with DEFLATE, base64; three significant digits."""


class KindOutcome(Struct):
    """One kind of operation in a worker's measured window."""

    operations: int
    bytes: int
    errors: int
    short: int
    """Operations that moved fewer bytes than requested."""
    service: LatencyOutcome
    """From submission to completion."""
    response: LatencyOutcome | None
    """From due time to completion, under a rate; None in a closed loop, where it equals the service latency."""
    submission: LatencyOutcome | None = None
    """From submission to sending (fio's slat); None unless it was measured."""
    completion: LatencyOutcome | None = None
    """From sending to completion (fio's clat); None unless submission latency was measured."""


class CpuTime(Struct):
    """CPU time, context switches and page faults of a thread."""

    user_ns: int
    system_ns: int
    context_switches: int
    major_faults: int = 0
    """Page faults that waited for I/O."""
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
    """Standard deviation of the population."""
    p50_ns: int
    p99_ns: int
    min_ns: int
    max_ns: int


class IntervalOutcome(Struct):
    """One worker in one interval; times since the group's start."""

    index: int
    ramp: bool
    """The interval belongs to the ramp. One that straddles the ramp's end is split in two records."""
    start_ns: int
    end_ns: int
    operations: dict[str, IntervalKind]
    """By kind: only kinds that completed something or failed."""


class SteadySample(Struct):
    """All workers of a report group in one period."""

    end_ns: int
    """End of the period, since the group's start."""
    iops: float
    bytes_per_s: float
    latency_ns: float
    """Mean service latency."""


class SteadyOutcome(Struct):
    """Steady state of a report group."""

    attained_ns: int | None
    """Time at which the figures became steady, since the group's start; None if they never did."""
    criterion: float
    """Value compared with the limit: the deviation or the slope, in per cent of the mean if the limit is."""
    deviation: float
    """Largest deviation from the mean of the samples, in the figure's unit."""
    slope: float
    """Slope of the least-squares line, in the figure's unit per sample."""
    samples: tuple[SteadySample, ...]
    """The newest samples, at most one window of them."""


@dataclass(frozen=True)
class LogRecords:
    """A log as lists: entry k of each list is record k. Times are since the group's start."""

    at_ns: list[int]
    """Completion of the operation, or start of the window."""
    kind: list[str]
    bytes: list[int]
    service_ns: list[float]
    """Service latency; the mean over a window."""
    response_ns: list[int]
    """Response latency; empty where the worker is not paced, and with windows."""
    offset: list[int]
    """Offset in the file; empty with windows."""
    file: list[int]
    """Index of the file among those of the worker; empty unless the plan asks for it."""
    operations: list[int]
    """Operations in the window; 1 where each record is one operation."""
    service_ns_max: list[int]
    """Largest service latency in the window; empty without windows."""
    submission_ns: list[float]
    """Submission latency; the mean over a window. Empty unless it was measured."""
    submission_ns_max: list[int]
    """Largest submission latency in the window; empty without windows, and unless it was measured."""
    completion_ns_max: list[int]
    """Largest completion latency in the window; empty without windows, and unless submission latency was measured."""
    histograms: list[str]
    """As in ``LatencyOutcome``; of the completion latency where submission latency was measured. Empty unless the plan
    has them."""


class LogOutcome(Struct):
    """A log of operations: one record for each operation, or one for each kind in each window. Columns are packed; see
    ``unpack``."""

    window_ns: int | None
    """Length of a window; None where each record is one operation. The last window may be shorter."""
    records: int
    lost: int
    """Records beyond the plan's maximum."""
    kinds: tuple[str, ...]
    at_ns: str
    kind: str
    bytes: str
    service_ns: str
    response_ns: str
    offset: str
    file: str = ""
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
            file=_column("I", self.file),
            operations=[1] * self.records if self.window_ns is None else _column("Q", self.operations),
            service_ns_max=_column("Q", self.service_ns_max),
            submission_ns=_column("d", self.submission_ns),
            submission_ns_max=_column("Q", self.submission_ns_max),
            completion_ns_max=_column("Q", self.completion_ns_max),
            histograms=list(self.histograms),
        )


def _column(figure: str, packed: str) -> list[Any]:
    """Unpacks figures, little-endian; ``figure`` is their format in ``struct``."""
    raw = base64.b64decode(packed)
    return list(struct.unpack(f"<{len(raw) // struct.calcsize(f'<{figure}')}{figure}", raw))


class DifferenceOutcome(Struct):
    """A block, or an interval of one, that does not hold what was written."""

    path: str
    offset: int
    length: int
    """Bytes compared."""
    first_offset: int
    """Offset of the first byte that differs, if it is known; else the same as ``offset``."""
    kind: Literal[
        "flipped_bits", "torn_write", "lost_write", "stale_read", "older_data", "misdirected_write", "damaged"
    ]
    """What it looks like; ``older_data`` is a lost write or a stale read, and it is not known which."""
    found_write: int | None
    """Number of the write that was found among those of the worker, or with a map among those of the place."""
    expected_write: int | None
    """Number of the write that belongs there; None if it is not known."""
    persists: bool | None
    """A second read found a difference, too; None without a second read."""
    text: str

    def __str__(self) -> str:
        return f"{self.kind.replace('_', ' ')}: {self.length} bytes at offset {self.offset} of {self.path}: {self.text}"


class LastWrite(Struct):
    """A write near the end of a worker."""

    file: int
    """Index of its file in the plan."""
    offset: int


class WorkerOutcome(Struct):
    """One worker. Times are since the group's start."""

    group: int
    worker: int
    job: str
    jobnum: int
    report_group: int
    engine: str
    """Description of the engine: ``io_uring, registered buffers and files``."""
    state: State
    error: str | None
    errno: int | None = None
    """``errno`` of the error; EIO where the error has no number."""
    window_start_ns: int
    """Start of the measured window, after the ramp."""
    window_end_ns: int
    drained_ns: int
    """Completion of the last operation."""
    drained_operations: int
    """Operations that completed after the window; they are counted nowhere else."""
    operations: dict[str, KindOutcome]
    """By kind: only kinds in the plan."""
    cpu: CpuTime
    """CPU time of the worker's thread in its window."""
    depth_levels: dict[str, int]
    """Operations by the number in flight just after their submission: 1, 2 or more, 4 or more, … (the key is the lower
    bound)."""
    submit_levels: dict[str, int] = {}
    """Submissions by batch size: up to 4, 8, 16, … (the key is the upper bound)."""
    complete_levels: dict[str, int] = {}
    """Reaps by batch size, with the same keys; ``0`` counts polls that found none."""
    latency_depth: int | None
    """Depth that the search for a latency target has converged to; None without a search."""
    read_back_ns: int
    """Part of the window in which written data were read back, and nothing else was done."""
    reconnects: int
    counters: dict[str, int] = {}
    """Counters of the engine, by name: of an emulated disk ``reads``, ``cache_read_hits``, ``waited_for_disk_iops``;
    of NFSv4.1 ``session_slots``, ``session_calls``, ``slot_waits``, ``slot_wait_ns``, ``session_recoveries``."""
    connections: tuple[ConnectionOutcome, ...] = ()
    """TCP connections at the end of the run (NFS)."""
    labels: tuple[str, ...]
    """Facts that a reader of the figures must know: ``payload_discarded``."""
    differences: tuple[DifferenceOutcome, ...] = ()
    """Differences found by verification, in the order in which they were found; at most 1000."""
    last_writes: tuple[LastWrite, ...] = ()
    """The last writes that completed in each file, as many as the depth, newest first; empty without verification."""
    intervals: tuple[IntervalOutcome, ...]
    steady_state: SteadyOutcome | None
    """Steady state of the whole report group; None where the plan has none."""
    log: LogOutcome | None
    """Log of the measured window; None where the plan has none."""

    @property
    def window_ns(self) -> int:
        """Length of the measured window."""
        return max(0, self.window_end_ns - self.window_start_ns)

    @property
    def cpu_share(self) -> float:
        """Share of one processor that the worker's thread used in its window."""
        return (self.cpu.user_ns + self.cpu.system_ns) / self.window_ns if self.window_ns else 0.0


class Stall(Struct):
    """A server that did not answer for a time, and was waited for as on a hard mount."""

    server: str
    """Address of the server."""
    phase: str
    """Phase of the run: ``layout``, ``prepare`` (mount), ``load``, ``cleanup``."""
    reason: str
    """Why the server was waited for: ``Connection refused``."""
    start_ns: int
    """Since the start of the run."""
    duration_ns: int


class Outcome(Struct):
    """The outcome of a whole plan."""

    state: State
    """The worst state of its workers."""
    workers: tuple[WorkerOutcome, ...]
    """One for each worker that was started, in plan order."""
    stalls: tuple[Stall, ...] = ()
    """Waits for servers, in order, in every phase of the run."""
    files_left: str | None = None
    """Reason why files of the run could not be removed; None if they could."""


class IntervalRecord(Struct):
    """An interval of a held run, merged over workers. Times are since the group's start."""

    group: int
    index: int
    ramp: bool
    start_ns: int
    end_ns: int
    operations: dict[str, KindOutcome]


class LiveClient(Struct):
    """A load client in the live view."""

    host: str
    state: str
    """running, silent, finished, interrupted, failed, lost."""
    operations: int = 0
    """Operations of all kinds in its newest interval."""
    bytes: int = 0


class Live(Struct):
    """Live view of a run, over all workers."""

    phase: str
    """layout, prepare, ready (waits for the other clients), ramp, run, done."""
    group: int
    elapsed_ns: int
    """Since the group's start (since the run's start during layout)."""
    layout_bytes: int
    layout_bytes_total: int
    intervals: int
    """Number of the newest interval that all running workers have closed, from 1; 0 before the first."""
    operations: dict[str, IntervalKind]
    """That interval, merged over workers."""
    waiting: str | None = None
    """The server that the run waits for, since when, and why; None if it waits for none."""
    clients: tuple[LiveClient, ...] = ()
    """The load clients; empty where this machine is the only one."""
