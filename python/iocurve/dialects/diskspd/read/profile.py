"""What DiskSpd is told, in DiskSpd's own terms, with its defaults: time spans, each with targets.

Both the command line and an XML profile become a ``Profile``. Sizes are bytes, times in the unit their names carry.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from iocurve.errors import Where

CacheMode = Literal["cached", "local_disabled", "disabled"]
FlushMode = Literal["ViewOfFile", "NonVolatileMemory", "NonVolatileMemoryNoDrain"]
DistributionKind = Literal["Percent", "Absolute"]
ResultFormat = Literal["text", "xml"]
PrecreateFiles = Literal["UseMaxSize", "CreateOnlyFilesWithConstantSizes", "CreateOnlyFilesWithConstantOrZeroSizes"]

TEMPLATE_PREFIX = "*"
"""Begins a path that is to be replaced: ``*1`` is the first target of the command line."""


@dataclass(frozen=True)
class Span:
    """A part of the operations, and the part of the target that they go to; both follow on the one before."""

    io_percent: int
    start: int
    """Per cent or bytes of the target, as is the length."""
    length: int
    """0, in an absolute distribution: to the end of the target."""


@dataclass
class Target:
    """A file or device, and the load on it."""

    path: str = ""
    block_bytes: int = 64 * 1024
    alignment_bytes: int = 0
    """What -r or -s say; 0 is the block size."""
    random_percent: int = 0
    distribution: DistributionKind = "Percent"
    spans: tuple[Span, ...] = ()
    base_bytes: int = 0
    end_bytes: int = 0
    """No operation reaches beyond it; 0 is the target's size."""
    create_bytes: int | None = None
    """Size of the file to create."""
    requests: int = 2
    threads: int = 1
    write_percent: int = 0
    interlocked: bool = False
    parallel: bool = False
    thread_stride_bytes: int = 0
    cache: CacheMode = "cached"
    write_through: bool = False
    memory_mapped: bool = False
    flush: FlushMode | None = None
    zero_buffers: bool = False
    buffer_bytes: int = 0
    """Of random data that writes are taken from."""
    buffer_path: str = ""
    burst: int | None = None
    think_ms: int | None = None
    bytes_per_ms: int = 0
    iops: int = 0
    sequential_hint: bool = False
    random_hint: bool = False
    temporary_hint: bool = False
    large_pages: bool = False
    io_priority: int = 3
    weight: int = 1
    thread_weights: tuple[tuple[int, int], ...] = ()
    """Threads of the pool that use this target, with weights (0: the target's)."""
    said: dict[str, Where] = field(default_factory=dict, compare=False)
    """Where a field was said."""

    @property
    def step_bytes(self) -> int:
        """Distance of sequential operations, alignment of random ones."""
        return self.alignment_bytes or self.block_bytes

    @property
    def is_paced(self) -> bool:
        """Whether -g limits the throughput."""
        return bool(self.bytes_per_ms or self.iops)

    def set_spans(self, kind: DistributionKind, spans: list[Span]) -> None:
        """What the spans leave of the operations goes to the rest of the target."""
        used, last = sum(span.io_percent for span in spans), spans[-1]
        self.distribution, self.spans = kind, tuple(spans)
        if used < 100:
            start = last.start + last.length
            length = 100 - start if kind == "Percent" and start < 100 else 0
            self.spans += (Span(100 - used, start, length),)

    def where(self, *fields: str) -> Where | None:
        """The place of the first of these fields that was said."""
        return next((self.said[name] for name in fields if name in self.said), None)


@dataclass
class TimeSpan:
    """A run with a warm-up, a measured time and a cool-down."""

    duration_s: int = 10
    warmup_s: int = 5
    cooldown_s: int = 0
    seed: int = 0
    random_write_data: bool = False
    threads: int = 0
    """Of a pool that all use all targets; 0: each target has threads of its own."""
    requests: int = 0
    """Of each thread of a pool, over all its targets; 0: each target has its own."""
    affinity: tuple[tuple[int, int], ...] = ()
    """Processor groups and processors, in turn for the threads."""
    affinity_disabled: bool = False
    completion_routines: bool = False
    measure_latency: bool = False
    measure_iops_deviation: bool = False
    bucket_ms: int = 1000
    targets: list[Target] = field(default_factory=list)
    said: dict[str, Where] = field(default_factory=dict, compare=False)

    @property
    def shares_requests(self) -> bool:
        """Whether -O counts: the threads of a pool have so many requests over all their targets."""
        return bool(self.threads and self.requests)

    def where(self, *fields: str) -> Where | None:
        """The place of the first of these fields that was said."""
        return next((self.said[name] for name in fields if name in self.said), None)


@dataclass
class Profile:
    """Everything that one call of DiskSpd does."""

    time_spans: list[TimeSpan] = field(default_factory=list)
    progress: int = 0
    result_format: ResultFormat = "text"
    profile_only: bool = False
    """Nothing is run: the profile is printed."""
    verbose: bool = False
    verbose_stats: bool = False
    experiment_flags: int = 0
    precreate_files: PrecreateFiles | None = None
    etw: dict[str, bool] = field(default_factory=dict)
    """Kernel events to trace, by their XML names; empty: none."""
    command_line: str = field(default="", compare=False)
    said: dict[str, Where] = field(default_factory=dict, compare=False)
