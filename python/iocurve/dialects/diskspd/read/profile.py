"""The parameters of a DiskSpd run in DiskSpd's own terms: time spans, each with targets.

Each field is defined once: its default, its element in XML profiles and its flag. The command line and an XML profile
both become a ``Profile``, which is written as XML in the order of the fields. Flags and elements that set several
fields are in ``options`` and ``profile_xml``. Sizes are in bytes; names carry the unit of times.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from iocurve.dialects.diskspd.read import values, xml_text
from iocurve.dialects.diskspd.read.xml_text import Convert, boolean, whole, word
from iocurve.foundation.errors import Where

CacheMode = Literal["cached", "local_disabled", "disabled"]
ResultFormat = Literal["text", "xml"]
PrecreateFiles = Literal["UseMaxSize", "CreateOnlyFilesWithConstantSizes", "CreateOnlyFilesWithConstantOrZeroSizes"]

TEMPLATE_PREFIX = "*"
"""Marks a path as a template: ``*1`` is replaced by the first target of the command line."""
_U64 = whole(values.U64_MAX)
_COUNT = whole(values.U32_MAX, 1)


@dataclass(frozen=True)
class Element:
    """The XML element of a field."""

    name: str
    read: Convert[object]
    only_if_set: bool
    """True if DiskSpd omits the element where the value is 0 or false."""
    in_group: bool
    """True if the element is written together with those of other fields."""

    def is_written(self, value: object) -> bool:
        """True if a field with this value is written by itself."""
        return not self.in_group and value is not None and (bool(value) or not self.only_if_set)


Flag = tuple[str, values.Reader]
"""The flag of a field: its letter, and the reader of its value."""
T = TypeVar("T")


def field(
    default: T,
    element: str | None = None,
    read: Convert[object] | None = None,
    flag: Flag | None = None,
    *,
    only_if_set: bool = False,
    in_group: bool = False,
) -> T:
    """Defines a field. Without ``read`` its element is a boolean or a number of 32 bits, as the default is."""
    read = read or (boolean if isinstance(default, bool) else whole(values.U32_MAX))
    said = Element(element, read, only_if_set, in_group) if element else None
    made: T = dataclasses.field(default=default, metadata={"element": said, "flag": flag})
    return made


def elements(kind: type[Part]) -> dict[str, Element]:
    """The elements of a class by the names of its fields, in the order in which they are written."""
    found = {each.name: each.metadata.get("element") for each in dataclasses.fields(kind)}
    return {name: element for name, element in found.items() if element}


def flags() -> Iterator[tuple[type[Part], str, str, values.Reader]]:
    """The flags that set one field: its class and its name, the letter, and the reader of the value."""
    for kind in (Profile, TimeSpan, TargetParameters):
        for each in dataclasses.fields(kind):
            if flag := each.metadata.get("flag"):
                yield kind, each.name, *flag


@dataclass
class Positioned:
    """A part of a profile, with the positions of its fields."""

    positions: dict[str, Where] = dataclasses.field(default_factory=dict, compare=False, kw_only=True)
    """Positions of the fields that are set in the text."""

    def where(self, *fields: str) -> Where | None:
        """Position of the first of these fields that is set in the text."""
        return next((self.positions[name] for name in fields if name in self.positions), None)


@dataclass
class TargetParameters(Positioned):
    """A file or device, and the load on it."""

    path: str = field("", "Path", xml_text.text)
    block_bytes: int = field(
        64 * 1024,
        "BlockSize",
        whole(values.U32_MAX - 1, 1),
        flag=("b", values.sizes(f"a block has 1 to {values.U32_MAX - 1} bytes", 1, values.U32_MAX - 1)),
    )
    base_bytes: int = field(0, "BaseFileOffset", _U64)
    sequential_hint: bool = field(False, "SequentialScan")
    random_hint: bool = field(False, "RandomAccess")
    temporary_hint: bool = field(False, "TemporaryFile")
    large_pages: bool = field(False, "UseLargePages", flag=("l", values.switch))
    cache: CacheMode = "cached"
    write_through: bool = field(False, "WriteThrough", only_if_set=True)
    memory_mapped: bool = field(False, "MemoryMappedIo", only_if_set=True)
    flush: values.FlushMode | None = field(
        None, "FlushType", word("ViewOfFile", "NonVolatileMemory", "NonVolatileMemoryNoDrain"), flag=("N", values.flush)
    )
    zero_buffers: bool = False
    buffer_bytes: int = 0
    """Size of the buffer of random data that writes are taken from (-Z<size>)."""
    buffer_path: str = ""
    parallel: bool = field(False, "ParallelAsyncIO", flag=("p", values.switch))
    burst: int | None = field(None, "BurstSize", flag=("i", values.positive("operations in a burst")))
    think_ms: int | None = field(None, "ThinkTime", flag=("j", values.positive("milliseconds between bursts")))
    create_bytes: int | None = field(None, "FileSize", _U64, flag=("c", values.Given.size))
    """Size of the file to create."""
    alignment_bytes: int = field(0, "StrideSize", _U64, in_group=True)
    """Alignment (-r) or stride (-s); 0: the block size."""
    interlocked: bool = field(False, "InterlockedSequential", in_group=True)
    random_percent: int = field(0, "RandomRatio", whole(99, 1), in_group=True)
    distribution: values.DistributionKind = "Percent"
    spans: tuple[values.OffsetZone, ...] = ()
    thread_stride_bytes: int = field(0, "ThreadStride", _U64, flag=("T", values.sizes("needs a distance above 0", 1)))
    end_bytes: int = field(0, "MaxFileSize", _U64)
    """End of the region; 0: the target's size."""
    requests: int = field(2, "RequestCount", _COUNT, flag=("o", values.positive("operations in flight")))
    write_percent: int = field(0, "WriteRatio", whole(100), flag=("w", values.write_percent))
    bytes_per_ms: int = 0
    iops: int = 0
    threads: int = field(1, "ThreadsPerFile", _COUNT, flag=("t", values.positive("threads per target")))
    io_priority: int = field(
        3,
        "IOPriority",
        xml_text.priority,
        flag=("I", values.numbers("needs a priority: 1 (very low), 2 (low) or 3 (normal)", 1, 3)),
    )
    weight: int = field(1, "Weight")
    thread_weights: tuple[tuple[int, int], ...] = ()
    """Threads of the pool that use this target, with weights; weight 0 is the target's."""

    @property
    def step_bytes(self) -> int:
        """Stride of sequential operations, alignment of random operations."""
        return self.alignment_bytes or self.block_bytes

    @property
    def is_paced(self) -> bool:
        """True if -g limits the throughput."""
        return bool(self.bytes_per_ms or self.iops)

    def set_spans(self, kind: values.DistributionKind, spans: list[values.OffsetZone]) -> None:
        """Sets the distribution. Operations that the spans leave over go to the rest of the target."""
        used, last = sum(span.io_percent for span in spans), spans[-1]
        self.distribution, self.spans = kind, tuple(spans)
        if used < 100:
            start = last.start + last.length
            length = 100 - start if kind == "Percent" and start < 100 else 0
            self.spans += (values.OffsetZone(100 - used, start, length),)


@dataclass
class TimeSpan(Positioned):
    """A run: warm up time, measured time and cool down time."""

    completion_routines: bool = field(False, "CompletionRoutines", flag=("x", values.switch))
    measure_latency: bool = field(False, "MeasureLatency", flag=("L", values.switch))
    measure_iops_deviation: bool = field(False, "CalculateIopsStdDev")
    affinity_disabled: bool = field(False, "DisableAffinity", flag=("n", values.switch))
    duration_s: int = field(10, "Duration", flag=("d", values.seconds(10)))
    warmup_s: int = field(5, "Warmup", flag=("W", values.seconds(5)))
    cooldown_s: int = field(0, "Cooldown", flag=("C", values.seconds(0)))
    threads: int = field(0, "ThreadCount", flag=("F", values.positive("threads in all")))
    """Threads of a pool in which each thread uses all targets (-F); 0: each target has its own threads (-t)."""
    requests: int = field(0, "RequestCount", flag=("O", values.positive("operations in flight per thread")))
    """Queue depth of each thread of a pool over all its targets (-O); 0: each target has its own (-o)."""
    bucket_ms: int = field(1000, "IoBucketDuration", _COUNT)
    seed: int = field(0, "RandSeed", flag=("z", values.seed))
    # DiskSpd itself omits -Zr from the profiles it prints, so running such a profile loses it.
    random_write_data: bool = field(False, "RandomWriteData", only_if_set=True)
    affinity: tuple[tuple[int, int], ...] = ()
    """Pairs of processor group and processor; threads are bound to them round robin."""
    targets: list[TargetParameters] = dataclasses.field(default_factory=list)

    @property
    def shares_requests(self) -> bool:
        """True if -O applies: the threads of a pool share their queue depth over all targets."""
        return bool(self.threads and self.requests)


@dataclass
class Profile(Positioned):
    """All parameters of one DiskSpd call."""

    progress: int = field(0, "Progress", flag=("P", values.progress))
    experiment_flags: int = field(0, "ExperimentFlags", flag=(":", values.experiment), only_if_set=True)
    result_format: ResultFormat = field("text", "ResultFormat", word("text", "xml"))
    profile_only: bool = False
    """Print the profile and run nothing (-Rp)."""
    verbose: bool = field(False, "Verbose")
    verbose_stats: bool = field(False, "VerboseStats", only_if_set=True)
    precreate_files: PrecreateFiles | None = field(
        None,
        "PrecreateFiles",
        word("UseMaxSize", "CreateOnlyFilesWithConstantSizes", "CreateOnlyFilesWithConstantOrZeroSizes"),
    )
    etw: dict[str, bool] = dataclasses.field(default_factory=dict)
    """Kernel events to trace, by their XML names."""
    time_spans: list[TimeSpan] = dataclasses.field(default_factory=list)
    command_line: str = dataclasses.field(default="", compare=False)


Part = Profile | TimeSpan | TargetParameters
"""The parts of a profile that have fields with elements and flags."""
