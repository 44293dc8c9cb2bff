"""The outcome of a run, as the engine returns it.

Generated from ``crates/engine/src/outcome.rs`` by ``make contract``. ``iocurve.engine.derived`` computes values from
outcomes.
"""

from __future__ import annotations

from typing import Literal

from iocurve.foundation.structs import Struct

State = Literal["finished", "interrupted", "failed"]
"""End of a worker.

finished: Ended as planned.
interrupted: Was stopped; what it measured is kept.
failed: Failed; what it measured until then is kept.
"""


class LatencyOutcome(Struct):
    """A latency distribution."""

    count: int
    """Values recorded."""
    min_ns: int
    """Smallest, exact."""
    max_ns: int
    """Largest, exact."""
    mean_ns: float
    """Mean, exact."""
    stddev_ns: float
    """Standard deviation of the population."""
    histogram: str
    """``HdrHistogram`` V2 with DEFLATE, base64; three significant digits."""


class KindOutcome(Struct):
    """One kind of operation in a worker's measured window.

    Latencies are of the operations that completed in the window and of those that it left over: a target that is
    slow or stalls at the end is in them.
    """

    operations: int
    """Operations that completed in the window."""
    bytes: int
    """Bytes they moved."""
    errors: int
    """Operations that failed."""
    short: int
    """Operations that moved fewer bytes than requested."""
    drained: int = 0
    """Operations that were due in the window, or submitted in it without a rate, and completed after it."""
    drained_bytes: int = 0
    """Bytes they moved."""
    unfinished: int = 0
    """Operations that were due in the window, or submitted in it without a rate, and had not completed when the worker
    ended. Each is in the latencies with the age that it had then, a lower bound."""
    missed: int = 0
    """Operations that were due in the window and never submitted, under a rate. Each is in the response latency with
    its age at the end of the window, a lower bound."""
    entries: int = 0
    """Entries of directories that they listed; 0 for all kinds but ``readdir`` and ``readdirplus``."""
    late: int = 0
    """Operations whose response took longer than the plan's ``response_limit_ns``; 0 without one."""
    service: LatencyOutcome
    """Service latency: from submission to completion."""
    response: LatencyOutcome | None
    """Response latency: from due time to completion, under a rate; None in a closed loop, where it equals the service
    latency."""
    submission: LatencyOutcome | None = None
    """Submission latency (fio's slat): from submission to sending; None unless it was measured."""
    completion: LatencyOutcome | None = None
    """Completion latency (fio's clat): from sending to completion; None unless submission latency was measured."""


class CpuTime(Struct):
    """CPU time, context switches and page faults of a thread."""

    user_ns: int
    """In user mode."""
    system_ns: int
    """In the kernel."""
    context_switches: int
    """Voluntary and involuntary context switches."""
    major_faults: int = 0
    """Page faults that waited for I/O."""
    minor_faults: int = 0
    """Page faults without I/O."""


class ConnectionOutcome(Struct):
    """A TCP connection as the kernel reports it (``TCP_INFO``); times and counts since it was made."""

    rtt_ns: int
    """Smoothed round-trip time."""
    rtt_ns_min: int
    """Smallest round-trip time."""
    congestion_window: int
    """Congestion window, in segments."""
    segment_bytes: int
    """Largest segment to send."""
    retransmits: int
    """Segments that were sent again."""
    busy_ns: int
    """Time with data to send or unacknowledged."""
    receive_window_limited_ns: int
    """Part of the busy time in which the receiver's window held the sender back."""
    send_buffer_limited_ns: int
    """Part of the busy time in which the send buffer held the sender back."""
    sent_bytes: int = 0
    """Bytes that were sent and acknowledged."""
    received_bytes: int = 0
    """Bytes that were received."""


class FailureOutcome(Struct):
    """Operations of one kind on a tree that failed with one error, in the measured window or outside."""

    kind: str
    """Kind of the operations."""
    path: str
    """Path of the first."""
    errno: int
    """``errno``."""
    error: str
    """Its message."""
    count: int
    """Number of the operations."""


DifferenceKind = Literal[
    "flipped_bits",
    "torn_write",
    "lost_write",
    "stale_read",
    "older_data",
    "misdirected_write",
    "damaged",
    "missing",
    "unexpected",
    "wrong_size",
]
"""Nature of a difference.

flipped_bits: A few bits differ.
torn_write: The first sectors are right, the others are not.
lost_write: An older write is there, at a second read, too.
stale_read: An older write was read; a second read is right.
older_data: A lost write or a stale read, and it is not known which.
misdirected_write: The block belongs elsewhere.
damaged: Anything else.
missing: A file or directory is not there.
unexpected: A file or directory is there that was removed or renamed.
wrong_size: The size of a file is not that of what was written.
"""


class DifferenceOutcome(Struct):
    """A block, or an interval of one, that does not hold what was written; or a name or a size that is not as it was
    left, without offsets and lengths."""

    path: str
    """Path of the file."""
    offset: int
    """Offset in the file."""
    length: int
    """Bytes compared."""
    first_offset: int
    """Offset of the first byte that differs, if it is known; else the same as ``offset``."""
    kind: DifferenceKind
    """Nature of the difference."""
    found_write: int | None
    """Number of the write that was found among those of the worker, or with a map among those of the place."""
    expected_write: int | None
    """Number of the write that belongs there; None if it is not known."""
    persists: bool | None
    """A second read found a difference, too; None without a second read."""
    text: str
    """The difference in words."""


class LastWrite(Struct):
    """A write near the end of a worker."""

    file: int
    """Index of its file in the plan."""
    offset: int
    """Its offset in the file."""


class IntervalKind(Struct):
    """One kind of operation in one interval; latencies are service latencies."""

    operations: int
    """Completed operations."""
    bytes: int
    """Bytes they moved."""
    errors: int
    """Operations that failed."""
    late: int = 0
    """Operations whose response took longer than the plan's ``response_limit_ns``; 0 without one."""
    entries: int = 0
    """Entries of directories that they listed; 0 for all kinds but ``readdir`` and ``readdirplus``."""
    mean_ns: float
    """Mean service latency."""
    stddev_ns: float
    """Its standard deviation, of the population."""
    p50_ns: int | None
    """Median service latency; None in joined intervals of one worker."""
    p99_ns: int | None
    """99th percentile of the service latency; None in joined intervals of one worker."""
    min_ns: int
    """Smallest service latency, exact."""
    max_ns: int
    """Largest service latency, exact."""


class IntervalOutcome(Struct):
    """One worker in one interval. Times are since the group's start."""

    index: int
    """Number of the interval since the group's start; interval k is [k, k+1) × ``interval_ns``. Of joined ones the
    first."""
    joined: int = 1
    """Number of intervals that are joined."""
    ramp: bool
    """The interval belongs to the ramp. One that straddles the ramp's end is split in two records."""
    start_ns: int
    """Start, since the group's start."""
    end_ns: int
    """End, since the group's start."""
    operations: dict[str, IntervalKind]
    """By kind: only kinds that completed something or failed."""


class Absence(Struct):
    """A time in which the load client did not run. Latencies and rates of that time are not the target's."""

    start_ns: int
    """Start, since the group's start."""
    duration_ns: int
    """Its length."""


class SteadySample(Struct):
    """All workers of a report group in one period."""

    end_ns: int
    """End of the period, since the group's start."""
    iops: float
    """Operations per second."""
    bytes_per_s: float
    """Bytes per second."""
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


class LogOutcome(Struct):
    """A log of operations: one record for each operation, or for each kind in each window. Columns have one entry per
    record, in the order of completion; they are little-endian, in base64."""

    window_ns: int | None
    """Length of a window; None where each record is one operation. The last window may be shorter."""
    records: int
    """Records kept."""
    lost: int
    """Records beyond the plan's maximum."""
    kinds: tuple[str, ...]
    """Names of the kinds, by their numbers."""
    at_ns: str
    """``u64``: completion of the operation, or start of the window, since the group's start."""
    kind: str
    """``u8``: number of the kind."""
    bytes: str
    """``u64``: bytes moved."""
    service_ns: str
    """``f64``: service latency, the mean over a window."""
    response_ns: str
    """``u64``: response latency of an operation; empty if the worker is not paced."""
    offset: str
    """``u64``: offset of an operation in its file; empty with windows."""
    file: str = ""
    """``u32``: index of an operation's file in the plan; empty unless the plan asks for it."""
    operations: str
    """``u64``: operations in a window; empty without windows."""
    service_ns_max: str
    """``u64``: largest service latency in a window; empty without windows."""
    submission_ns: str = ""
    """``f64``: submission latency, the mean over a window; empty unless it was measured."""
    submission_ns_max: str = ""
    """``u64``: largest submission latency in a window; empty unless it was measured."""
    completion_ns_max: str = ""
    """``u64``: largest completion latency in a window; empty unless submission latency was measured."""
    histograms: tuple[str, ...]
    """One histogram per record, if the plan has them, as in ``LatencyOutcome``; of the completion latency where
    submission latency was measured."""


class WorkerOutcome(Struct):
    """Outcome of one worker. Times are since the group's start."""

    group: int
    """Index of its group in the plan."""
    worker: int
    """Index in its group."""
    job: str
    """Name of its job."""
    jobnum: int
    """Number in its job, from 0."""
    report_group: int
    """Workers with the same number are reported as one."""
    engine: str
    """Description of the engine (``io_uring, registered buffers and files``)."""
    state: State
    """How the worker ended."""
    error: str | None
    """Message of the error, if it failed."""
    errno: int | None = None
    """``errno`` of the error; EIO where the error has no number."""
    window_start_ns: int
    """Start of the measured window, since the group's start."""
    window_end_ns: int
    """End of the measured window, since the group's start."""
    drained_ns: int
    """Completion of the last operation, since the group's start."""
    drained_operations: int
    """Operations that completed after the window, those of the cool-down included."""
    operations: dict[str, KindOutcome]
    """By kind: only kinds in the plan."""
    files: LatencyOutcome | None = None
    """Time of each file of a tree from its open to its close; None unless the plan records it."""
    cpu: CpuTime
    """CPU time of the worker's thread in its window."""
    depth_levels: dict[str, int]
    """Operations by the number in flight just after their submission: 1, 2 or more, 4 or more, … (the key is the lower
    bound, as in fio; ``>=64`` last)."""
    submit_levels: dict[str, int] = {}
    """Submissions by batch size: up to 4, 8, 16, 32, 64 (the key is the upper bound, as in fio; ``>=64`` last)."""
    complete_levels: dict[str, int] = {}
    """Reaps by batch size, with the same keys; ``0`` counts polls that found none."""
    latency_depth: int | None
    """Depth that the search for a latency target has converged to; None without a search."""
    read_back_ns: int
    """Part of the window in which written data were read back, and nothing else was done."""
    reconnects: int
    """Connections that were re-established (NFS)."""
    counters: dict[str, int] = {}
    """Counters of the engine, by name: of an emulated disk ``reads``, ``cache_read_hits``, ``waited_for_disk_iops``; of
    NFS ``verifier_changes``, where there are any; of NFSv4.1 ``session_slots``, ``session_calls``, ``slot_waits``,
    ``slot_wait_ns``, ``session_recoveries``; of reads ``sampled_reads`` and ``zero_reads`` (blocks of zeros), and
    ``file_bytes`` with ``unwritten_bytes``, where there are any."""
    connections: tuple[ConnectionOutcome, ...] = ()
    """TCP connections at the end of the run (NFS)."""
    labels: tuple[str, ...]
    """Facts that a reader of the figures must know (``payload_discarded``, …)."""
    failures: tuple[FailureOutcome, ...] = ()
    """Operations that failed and did not end the worker, by kind and error; at most 100."""
    differences: tuple[DifferenceOutcome, ...] = ()
    """Differences found by verification, in the order in which they were found; at most 1000."""
    last_writes: tuple[LastWrite, ...] = ()
    """Up to ``depth`` writes of each file that completed last, newest first; empty without verification."""
    intervals: tuple[IntervalOutcome, ...]
    """One for each interval, ramp included; later ones are joined where the plan says so (``intervals_singly``)."""
    absences: tuple[Absence, ...] = ()
    """Times in which this process did not run, although its load was to: it was stopped, or had no processor."""
    steady_state: SteadyOutcome | None
    """Steady state of the whole report group; None where the plan has none."""
    log: LogOutcome | None
    """Log of the measured window, if the plan has one."""


class Stall(Struct):
    """A server that did not answer for a time, and was waited for as on a hard mount."""

    server: str
    """Address of the server."""
    phase: str
    """Phase of the run: ``layout``, ``prepare`` (mount), ``load``, ``cleanup``."""
    reason: str
    """Why the server was waited for (``Connection refused``)."""
    start_ns: int
    """Since the start of the run."""
    duration_ns: int
    """Length of the wait."""


class GroupInterval(Struct):
    """One interval, or several joined, of all workers of a group. Times are since the group's start."""

    group: int
    """Index of the group."""
    index: int
    """Number of the interval, the first of those that are joined."""
    joined: int
    """Number of intervals that are joined."""
    ramp: bool
    """The interval belongs to the ramp."""
    start_ns: int
    """Start of the first worker, since the group's start."""
    end_ns: int
    """End of the last worker, since the group's start."""
    operations: dict[str, IntervalKind]
    """By kind: only kinds that completed something or failed."""


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
    intervals: tuple[GroupInterval, ...] = ()
    """Course of each group over time, all workers together. The first 1,024 intervals are kept singly, the next 1,024
    in pairs, the next 2,048 in fours, and so on."""


class LiveTotals(Struct):
    """Totals of one kind of operation, or of one job, in the live view."""

    operations: int
    """Completed operations."""
    bytes: int
    """Bytes they moved."""
    errors: int
    """Operations that failed."""


class IntervalRecord(Struct):
    """An interval of a held run, merged over workers. Times are since the group's start."""

    group: int
    """Index of the group."""
    index: int
    """Number of the interval, from 0."""
    ramp: bool
    """The interval belongs to the ramp."""
    start_ns: int
    """Start, since the group's start."""
    end_ns: int
    """End, since the group's start."""
    operations: dict[str, KindOutcome]
    """By kind, with histograms."""
    jobs: dict[str, LiveTotals] = {}
    """By the name of the job."""


class LiveClient(Struct):
    """A load client in the live view."""

    host: str
    """Name of the client."""
    state: str
    """``running``, ``silent``, ``finished``, ``interrupted``, ``failed``, ``lost``."""
    operations: int = 0
    """Operations of all kinds in its newest interval."""
    bytes: int = 0
    """Bytes of all kinds in its newest interval."""


class Live(Struct):
    """Live view of a run, over all workers."""

    phase: str
    """``layout``, ``prepare``, ``ready`` (waits for the other clients), ``ramp``, ``run``, ``done``."""
    group: int
    """Index of the running group."""
    elapsed_ns: int
    """Since the group's start (since the run's start during layout)."""
    layout_bytes: int
    """Bytes written by the layout so far."""
    layout_bytes_total: int
    """Bytes the layout will write, as far as known."""
    intervals: int
    """Number of the newest interval that all running workers have closed, from 1; 0 before the first."""
    operations: dict[str, IntervalKind]
    """That interval, merged over workers, by kind."""
    jobs: dict[str, LiveTotals] = {}
    """That interval, by the name of the job."""
    totals: dict[str, LiveTotals] = {}
    """Totals of all intervals that workers have closed since the start of the run, ramps included, by kind."""
    waiting: str | None = None
    """The server that the run waits for, since when, and why; None if it waits for none."""
    clients: tuple[LiveClient, ...] = ()
    """The load clients; empty from the engine, which knows only this machine."""
