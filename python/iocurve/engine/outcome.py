"""The outcome of a run, as the engine returns it.

Generated from ``crates/engine/src/outcome.rs`` by ``make contract``; ``outcome.toml`` describes fields and values.
``iocurve.engine.derived`` computes values from outcomes.
"""

from __future__ import annotations

from typing import Literal

from iocurve.foundation.structs import Struct

State = Literal["finished", "interrupted", "failed"]
"""End of a worker."""


class LatencyOutcome(Struct):
    """A latency distribution."""

    count: int
    min_ns: int
    max_ns: int
    mean_ns: float
    stddev_ns: float
    histogram: str


class KindOutcome(Struct):
    """One kind of operation in a worker's measured window.

    Latencies are of the operations that completed in the window and of those that it left over: a target that is
    slow or stalls at the end is in them.
    """

    operations: int
    bytes: int
    errors: int
    short: int
    drained: int = 0
    drained_bytes: int = 0
    unfinished: int = 0
    missed: int = 0
    entries: int = 0
    late: int = 0
    service: LatencyOutcome
    response: LatencyOutcome | None
    submission: LatencyOutcome | None = None
    completion: LatencyOutcome | None = None


class CpuTime(Struct):
    """CPU time, context switches and page faults of a thread."""

    user_ns: int
    system_ns: int
    context_switches: int
    major_faults: int = 0
    minor_faults: int = 0


class ConnectionOutcome(Struct):
    """A TCP connection as the kernel reports it (``TCP_INFO``); times and counts since it was made."""

    rtt_ns: int
    rtt_ns_min: int
    congestion_window: int
    segment_bytes: int
    retransmits: int
    busy_ns: int
    receive_window_limited_ns: int
    send_buffer_limited_ns: int
    sent_bytes: int = 0
    received_bytes: int = 0


class FailureOutcome(Struct):
    """Operations of one kind on a tree that failed with one error, in the measured window or outside."""

    kind: str
    path: str
    errno: int
    error: str
    count: int


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
"""Nature of a difference."""


class DifferenceOutcome(Struct):
    """A block, or an interval of one, that does not hold what was written; or a name or a size that is not as it was
    left, without offsets and lengths."""

    path: str
    offset: int
    length: int
    first_offset: int
    kind: DifferenceKind
    found_write: int | None
    expected_write: int | None
    persists: bool | None
    text: str


class LastWrite(Struct):
    """A write near the end of a worker."""

    file: int
    offset: int


class IntervalKind(Struct):
    """One kind of operation in one interval; latencies are service latencies."""

    operations: int
    bytes: int
    errors: int
    late: int = 0
    entries: int = 0
    mean_ns: float
    stddev_ns: float
    p50_ns: int | None
    p99_ns: int | None
    min_ns: int
    max_ns: int


class IntervalOutcome(Struct):
    """One worker in one interval. Times are since the group's start."""

    index: int
    joined: int = 1
    ramp: bool
    start_ns: int
    end_ns: int
    operations: dict[str, IntervalKind]


class Absence(Struct):
    """A time in which the load client did not run. Latencies and rates of that time are not the target's."""

    start_ns: int
    duration_ns: int


class SteadySample(Struct):
    """All workers of a report group in one period."""

    end_ns: int
    iops: float
    bytes_per_s: float
    latency_ns: float


class SteadyOutcome(Struct):
    """Steady state of a report group."""

    attained_ns: int | None
    criterion: float
    deviation: float
    slope: float
    samples: tuple[SteadySample, ...]


class LogOutcome(Struct):
    """A log of operations: one record for each operation, or for each kind in each window. Columns have one entry per
    record, in the order of completion; they are little-endian, in base64."""

    window_ns: int | None
    records: int
    lost: int
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


class WorkerOutcome(Struct):
    """Outcome of one worker. Times are since the group's start."""

    group: int
    worker: int
    job: str
    jobnum: int
    report_group: int
    engine: str
    state: State
    error: str | None
    errno: int | None = None
    window_start_ns: int
    window_end_ns: int
    drained_ns: int
    drained_operations: int
    operations: dict[str, KindOutcome]
    files: LatencyOutcome | None = None
    cpu: CpuTime
    depth_levels: dict[str, int]
    submit_levels: dict[str, int] = {}
    complete_levels: dict[str, int] = {}
    latency_depth: int | None
    read_back_ns: int
    reconnects: int
    counters: dict[str, int] = {}
    connections: tuple[ConnectionOutcome, ...] = ()
    labels: tuple[str, ...]
    failures: tuple[FailureOutcome, ...] = ()
    differences: tuple[DifferenceOutcome, ...] = ()
    last_writes: tuple[LastWrite, ...] = ()
    intervals: tuple[IntervalOutcome, ...]
    absences: tuple[Absence, ...] = ()
    steady_state: SteadyOutcome | None
    log: LogOutcome | None


class Stall(Struct):
    """A server that did not answer for a time, and was waited for as on a hard mount."""

    server: str
    phase: str
    reason: str
    start_ns: int
    duration_ns: int


class GroupInterval(Struct):
    """One interval, or several joined, of all workers of a group. Times are since the group's start."""

    group: int
    index: int
    joined: int
    ramp: bool
    start_ns: int
    end_ns: int
    operations: dict[str, IntervalKind]


class Outcome(Struct):
    """The outcome of a whole plan."""

    state: State
    workers: tuple[WorkerOutcome, ...]
    stalls: tuple[Stall, ...] = ()
    files_left: str | None = None
    intervals: tuple[GroupInterval, ...] = ()


class LiveTotals(Struct):
    """Totals of one kind of operation, or of one job, in the live view."""

    operations: int
    bytes: int
    errors: int


class IntervalRecord(Struct):
    """An interval of a held run, merged over workers. Times are since the group's start."""

    group: int
    index: int
    ramp: bool
    start_ns: int
    end_ns: int
    operations: dict[str, KindOutcome]
    jobs: dict[str, LiveTotals] = {}


class LiveClient(Struct):
    """A load client in the live view."""

    host: str
    state: str
    operations: int = 0
    bytes: int = 0


class Live(Struct):
    """Live view of a run, over all workers."""

    phase: str
    group: int
    elapsed_ns: int
    layout_bytes: int
    layout_bytes_total: int
    intervals: int
    operations: dict[str, IntervalKind]
    jobs: dict[str, LiveTotals] = {}
    totals: dict[str, LiveTotals] = {}
    waiting: str | None = None
    clients: tuple[LiveClient, ...] = ()
