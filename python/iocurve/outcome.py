"""What the engine hands back for one plan; ``crates/engine/src/outcome.rs`` is the same contract in Rust."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

State = Literal["finished", "interrupted", "failed"]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LatencyOutcome(_Model):
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


class KindOutcome(_Model):
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


class CpuTime(_Model):
    """CPU time and context switches of a thread."""

    user_ns: int
    system_ns: int
    context_switches: int


class IntervalKind(_Model):
    """One kind of operation in one interval; latencies are service latencies."""

    operations: int
    bytes: int
    errors: int
    mean_ns: float
    stddev_ns: float
    """Of the population."""
    p50_ns: int
    p99_ns: int
    max_ns: int


class IntervalOutcome(_Model):
    """One worker in one interval; times since the group's start."""

    index: int
    ramp: bool
    """An interval that straddles the ramp's end is split in two records."""
    start_ns: int
    end_ns: int
    operations: dict[str, IntervalKind]
    """By kind: only kinds that completed something or failed."""


class WorkerOutcome(_Model):
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
    """Operations in flight just after a submission: how often at most 1, 2, 4, ..."""
    reconnects: int
    labels: tuple[str, ...]
    """What a reader must know about the figures."""
    intervals: tuple[IntervalOutcome, ...]

    @property
    def window_ns(self) -> int:
        """Length of the measured window."""
        return max(0, self.window_end_ns - self.window_start_ns)

    @property
    def cpu_share(self) -> float:
        """Share of one processor that the worker's thread used in its window."""
        return (self.cpu.user_ns + self.cpu.system_ns) / self.window_ns if self.window_ns else 0.0


class Outcome(_Model):
    """What one plan measured."""

    state: State
    """The worst of its workers'."""
    workers: tuple[WorkerOutcome, ...]
    """One per worker that was started, in plan order."""


class Live(_Model):
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
