"""The parameters of a DiskSpd run in DiskSpd's own terms, with its defaults: time spans, each with targets.

The command line and an XML profile both become a ``Profile``. Sizes are in bytes; names carry the unit of times.
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
"""Marks a path as a template: ``*1`` is replaced by the first target of the command line."""


@dataclass(frozen=True)
class Span:
    """A part of a distribution: a share of the operations, and the part of the target they access."""

    io_percent: int
    start: int
    """Start in percent or bytes of the target, like ``length``. Parts follow each other without a gap."""
    length: int
    """In an absolute distribution 0 means up to the end of the target."""


@dataclass
class Target:
    """A file or device, and the load on it."""

    path: str = ""
    block_bytes: int = 64 * 1024
    alignment_bytes: int = 0
    """Alignment (-r) or stride (-s); 0: the block size."""
    random_percent: int = 0
    distribution: DistributionKind = "Percent"
    spans: tuple[Span, ...] = ()
    base_bytes: int = 0
    end_bytes: int = 0
    """End of the region; 0: the target's size."""
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
    """Size of the buffer of random data that writes are taken from (-Z<size>)."""
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
    """Threads of the pool that use this target, with weights; weight 0 is the target's."""
    positions: dict[str, Where] = field(default_factory=dict, compare=False)
    """Positions of the fields that are set in the text."""

    @property
    def step_bytes(self) -> int:
        """Stride of sequential operations, alignment of random operations."""
        return self.alignment_bytes or self.block_bytes

    @property
    def is_paced(self) -> bool:
        """True if -g limits the throughput."""
        return bool(self.bytes_per_ms or self.iops)

    def set_spans(self, kind: DistributionKind, spans: list[Span]) -> None:
        """Sets the distribution. Operations that the spans leave over go to the rest of the target."""
        used, last = sum(span.io_percent for span in spans), spans[-1]
        self.distribution, self.spans = kind, tuple(spans)
        if used < 100:
            start = last.start + last.length
            length = 100 - start if kind == "Percent" and start < 100 else 0
            self.spans += (Span(100 - used, start, length),)

    def where(self, *fields: str) -> Where | None:
        """Position of the first of these fields that is set in the text."""
        return next((self.positions[name] for name in fields if name in self.positions), None)


@dataclass
class TimeSpan:
    """A run: warm up time, measured time and cool down time."""

    duration_s: int = 10
    warmup_s: int = 5
    cooldown_s: int = 0
    seed: int = 0
    random_write_data: bool = False
    threads: int = 0
    """Threads of a pool in which each thread uses all targets (-F); 0: each target has its own threads (-t)."""
    requests: int = 0
    """Queue depth of each thread of a pool over all its targets (-O); 0: each target has its own (-o)."""
    affinity: tuple[tuple[int, int], ...] = ()
    """Pairs of processor group and processor; threads are bound to them round robin."""
    affinity_disabled: bool = False
    completion_routines: bool = False
    measure_latency: bool = False
    measure_iops_deviation: bool = False
    bucket_ms: int = 1000
    targets: list[Target] = field(default_factory=list)
    positions: dict[str, Where] = field(default_factory=dict, compare=False)

    @property
    def shares_requests(self) -> bool:
        """True if -O applies: the threads of a pool share their queue depth over all targets."""
        return bool(self.threads and self.requests)

    def where(self, *fields: str) -> Where | None:
        """Position of the first of these fields that is set in the text."""
        return next((self.positions[name] for name in fields if name in self.positions), None)


@dataclass
class Profile:
    """All parameters of one DiskSpd call."""

    time_spans: list[TimeSpan] = field(default_factory=list)
    progress: int = 0
    result_format: ResultFormat = "text"
    profile_only: bool = False
    """Print the profile and run nothing (-Rp)."""
    verbose: bool = False
    verbose_stats: bool = False
    experiment_flags: int = 0
    precreate_files: PrecreateFiles | None = None
    etw: dict[str, bool] = field(default_factory=dict)
    """Kernel events to trace, by their XML names."""
    command_line: str = field(default="", compare=False)
    positions: dict[str, Where] = field(default_factory=dict, compare=False)
