"""The plan of a run: the contract between Python, which resolves a job into a plan, and the engine.

A plan leaves nothing open: sizes are bytes, times are nanoseconds, and None is a decision ("no limit").

Generated from ``crates/engine/src/plan`` by ``make contract``; ``plan.toml`` describes fields and values.
``iocurve.engine.derived`` computes values from plans.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from msgspec import Meta

from iocurve.foundation.structs import Struct, TaggedStruct

U16 = Annotated[int, Meta(ge=0, lt=2**16)]
U32 = Annotated[int, Meta(ge=0, lt=2**32)]
U64 = int
"""0 to 2^64 - 1. msgspec cannot check bounds above 2^63; Rust checks this one."""
Count = Annotated[int, Meta(ge=1, lt=2**32)]
Percentage = Annotated[int, Meta(ge=0, le=100)]
Durability = Literal["none", "data_sync", "file_sync"]
"""Guarantee of a completed write."""


class FileOpen(Struct):
    """Flags that local files are opened with."""

    direct: bool
    durability: Durability
    invalidate: bool


class NfsTls(Struct):
    """TLS of a user-space NFS mount."""

    ca: str | None = None
    certificate: str | None = None
    insecure: bool = False


class NfsMount(Struct):
    """A user-space NFS mount."""

    host: str
    port: U16 | None
    mount_port: U16 | None
    export: str
    version: Literal[3, 4]
    nconnect: Annotated[int, Meta(ge=1, le=16)]
    uid: U32
    gid: U32
    durability: Durability
    timeout_ns: U64
    keep_payload: bool
    source: str | None = None
    session_slots: Annotated[int, Meta(ge=1, le=1024)] = 64
    rsize: Annotated[int, Meta(ge=1024, le=1048576)] | None = None
    wsize: Annotated[int, Meta(ge=1024, le=1048576)] | None = None
    tls: NfsTls | None = None


SpaceCall = Literal["fallocate", "ftruncate"]
"""Call of the space engine."""


class NullEngine(TaggedStruct, tag="null"):
    """No I/O: the cost of the loop itself."""


class SyncEngine(TaggedStruct, tag="sync"):
    """pread and pwrite, one at a time."""

    open: FileOpen


class AioEngine(TaggedStruct, tag="aio"):
    """Linux native AIO (``io_submit``)."""

    open: FileOpen


class UringEngine(TaggedStruct, tag="uring"):
    """``io_uring`` with registered files and buffers."""

    open: FileOpen


class MmapEngine(TaggedStruct, tag="mmap"):
    """Copies from and to files mapped into memory; a flush is ``msync``."""

    open: FileOpen


class NfsEngine(TaggedStruct, tag="nfs"):
    """User-space NFS over ``nconnect`` TCP connections that belong to this worker."""

    mount: NfsMount


class SpaceEngine(TaggedStruct, tag="space"):
    """Calls that allocate or cut the space of files, one at a time; they move no data (fio's falloc and ftruncate)."""

    open: FileOpen
    call: SpaceCall


class MetadataEngine(TaggedStruct, tag="metadata"):
    """Metadata operations on local files and directories, with reads and writes of open files: those of a tree in
    threads, one for each operation in flight, others one at a time."""

    open: FileOpen
    keep_open: bool


class NfsMetadataEngine(TaggedStruct, tag="nfs_metadata"):
    """Metadata operations on an NFS export, with reads and writes of open files: calls in flight on the connections."""

    mount: NfsMount
    keep_open: bool


EnginePlan = (
    NullEngine
    | SyncEngine
    | AioEngine
    | UringEngine
    | MmapEngine
    | NfsEngine
    | SpaceEngine
    | MetadataEngine
    | NfsMetadataEngine
)
"""Engine that performs the I/O."""


class IoBurst(Struct):
    """Limits that hold while credits last: each operation and byte above the base limits costs a credit, each below
    gains one."""

    iops: U64
    bytes_per_s: U64
    duration_ns: U64


class IoLimits(Struct):
    """Operations and bytes per second, reads and writes together."""

    iops: U64
    bytes_per_s: U64
    burst: IoBurst | None = None


HostCache = Literal["none", "read_only", "read_write"]
"""Caching of a disk by the host of its virtual machine."""


class VmPlan(Struct):
    """A virtual machine. Disks that name the same one share its limits."""

    name: str
    uncached: IoLimits | None
    cached: IoLimits | None
    cache_bytes: U64


class DiskPlan(Struct):
    """A cloud disk, emulated over local files: each operation runs immediately, but completes only when the disk and
    its virtual machine would have completed it."""

    name: str
    state_path: str
    limits: IoLimits
    io_bytes: Count
    cache: HostCache
    latency_ns: U64 = 0
    vm: VmPlan | None = None


Layout = Literal["existing", "fill", "reserve", "new", "create", "recreate", "recreate_reserve", "directory", "nothing"]
"""Preparation of a file before the run."""


class FilePlan(Struct):
    """A file or device, and the region of it that is used."""

    path: str
    offset_bytes: U64
    bytes: U64
    start_bytes: U64 = 0
    layout: Layout
    keep: bool


FileSelect = Literal["round_robin", "random", "by_size", "sequential"]
"""Order in which operations go to files."""
MetadataKind = Literal[
    "create",
    "open",
    "close",
    "getattr",
    "setattr",
    "access",
    "rename",
    "delete",
    "mkdir",
    "rmdir",
    "lookup",
    "link",
    "symlink",
    "readlink",
    "readdir",
    "readdirplus",
    "copy",
    "read_file",
    "write_file",
]
"""Operations on names and attributes, which move no data. They need a metadata engine."""
SyncKind = Literal["fsync", "fdatasync", "sync_file_range"]
"""Flushes that a ``SyncPlan`` issues."""
FlushKind = Literal[SyncKind, "fsync_at_end"]
"""Kinds that move no data, and do not count as requested operations."""
OperationKind = Literal["read", "write", "trim", MetadataKind, FlushKind]
"""Kinds of operation. Reads, writes and trims come first, then metadata operations, which need a metadata engine.
Flushes (NFS: COMMIT) come last; only a replay has them in its mix."""
METADATA_KINDS: tuple[MetadataKind, ...] = get_args(MetadataKind)
FLUSH_KINDS: tuple[FlushKind, ...] = get_args(FlushKind)


class BlockShare(Struct):
    """One of several block sizes."""

    bytes: Count
    weight: U32


class FixedBlocks(TaggedStruct, tag="fixed"):
    """Operations of one size."""

    bytes: Count


class BlockRange(TaggedStruct, tag="range"):
    """``low``, ``low + step`` and so on up to ``high``, all equally likely."""

    low: Count
    high: Count
    step: Count


class BlockSplit(TaggedStruct, tag="split"):
    """Several sizes by weight (fio's bssplit)."""

    parts: Annotated[tuple[BlockShare, ...], Meta(min_length=1)]


Blocks = FixedBlocks | BlockRange | BlockSplit
"""Bytes of one operation."""


class Zone(Struct):
    """A part of a region, with its share of the operations."""

    access_percent: Annotated[float, Meta(ge=0, le=100)]
    offset_bytes: U64
    bytes: U64


class Uniform(TaggedStruct, tag="uniform"):
    """All blocks are equally likely."""


class Zipf(TaggedStruct, tag="zipf"):
    """The k-th most popular block has a probability proportional to 1/k^theta."""

    theta: Annotated[float, Meta(gt=0)]
    center: Annotated[float, Meta(ge=0, le=1)] | None = None


class Pareto(TaggedStruct, tag="pareto"):
    """Self-similar: a share of 1 - h of the operations goes to a share h of the blocks."""

    h: Annotated[float, Meta(gt=0, lt=1)]
    center: Annotated[float, Meta(ge=0, le=1)] | None = None


class Normal(TaggedStruct, tag="normal"):
    """Gaussian around the middle of the region."""

    deviation_percent: Annotated[float, Meta(gt=0)]
    center: Annotated[float, Meta(ge=0, le=1)] | None = None


class Zones(TaggedStruct, tag="zones"):
    """Consecutive zones, each with a share of the operations."""

    zones: Annotated[tuple[Zone, ...], Meta(min_length=1)]


Distribution = Uniform | Zipf | Pareto | Normal | Zones
"""Distribution of random offsets. In Zipf and Pareto the popular blocks are spread over the region by a hash; normal
and zones have locations."""
RateUnit = Literal["operations", "bytes"]
"""Unit of a rate."""
Arrivals = Literal["even", "poisson"]
"""Distribution of the arrivals of a rate."""


class Rate(Struct):
    """An open-loop rate: ``count`` per ``per_ns``. The k-th operation is due at exactly k × per / count."""

    unit: RateUnit
    count: U64
    per_ns: U64
    arrivals: Arrivals = "even"


class OperationPlan(Struct):
    """One kind of operation in a worker's mix."""

    kind: OperationKind
    share: U32
    blocks: Blocks
    align_bytes: U64 = 0
    random_percent: Percentage
    distribution: Distribution = Uniform()
    rate: Rate | None


Cover = Literal["once", "independent"]
"""Order of the random blocks in a pass."""
Passes = Literal["same", "fresh"]
"""Random sequence of the next pass over the region."""
AtEnd = Literal["wrap", "stop"]
"""Behaviour at the end of the region in sequential order."""
Position = Literal["kind", "worker", "job", "identical", "repeated"]
"""Sharing of the sequential position."""


class Strided(Struct):
    """Zones with gaps between them: a window of ``range_bytes`` that advances by ``range_bytes + skip_bytes`` when
    ``zone_bytes`` have been transferred in it (fio's ``zonemode=strided``)."""

    range_bytes: U64
    zone_bytes: U64
    skip_bytes: U64


class Access(Struct):
    """Order of the offsets in a file."""

    cover: Cover = "once"
    passes: Passes = "same"
    run_length: Count = 1
    gap_bytes: int = 0
    gap_spread_bytes: U64 = 0
    at_end: AtEnd = "wrap"
    short_last_block: bool = False
    position: Position = "kind"
    strided: Strided | None = None


class Batch(Struct):
    """Batch sizes of submission and completion. ``submit`` 0, ``complete_min`` 1, ``complete_max`` 0 and ``low`` 0
    submit and complete as soon as possible."""

    submit: U32 = 0
    complete_min: U32 = 1
    complete_max: U32 = 0
    low: U32 = 0


ThinkCounts = Literal["completed", "issued"]
"""Operations that count towards a pause."""


class Think(Struct):
    """Pauses between operations (fio's ``thinktime``, DiskSpd's ``-i`` and ``-j``)."""

    pause_ns: U64
    spin_ns: U64 = 0
    every: U32 = 1
    counts: ThinkCounts = "completed"
    every_ns: U64 | None = None
    drains: bool = True
    moves_schedule: bool = False


class SyncPlan(Struct):
    """A flush after every ``every`` writes, reported as its own kind (NFS: COMMIT)."""

    kind: SyncKind
    every: Count


class Replay(Struct):
    """Replay of a recording (fio's ``read_iolog``). ``operations`` lists its kinds and their largest sizes."""

    path: str
    records: U64
    paced: bool


class SizeShare(Struct):
    """One of several file sizes. The size of a file follows from its number and the sizes."""

    bytes: U64
    weight: U32


class TreePart(Struct):
    """Every ``of``-th file of a tree."""

    number: U32
    of: Count


class TreeNames(Struct):
    """Names of directories and files, in which ``{}`` is the number, from 0, in the directory above (elbencho)."""

    directory: str
    file: str


class Tree(Struct):
    """Directories below a root, with files in them: ``vdb.LEVEL_NUMBER.dir`` and ``vdb_fNUMBER.file``, numbered over
    the whole tree from 0, unless the tree has other names."""

    depth: Count
    width: Count
    files: Count
    files_on_all_levels: bool
    sizes: Annotated[tuple[SizeShare, ...], Meta(min_length=1)]
    sizes_spread: bool = False
    used_bytes: U64 | None = None
    part: TreePart | None = None
    further_roots: tuple[str, ...] = ()
    creates_parents: bool = False
    names: TreeNames | None = None


TreeTask = Literal[
    "remove",
    "make_directories",
    "fill",
    "transfer",
    "create",
    "open",
    "getattr",
    "setattr",
    "access",
    "delete",
    "mkdir",
    "rmdir",
    "lookup",
    "link",
    "symlink",
    "readlink",
    "readdir",
    "readdirplus",
    "rename",
    "copy",
    "read_file",
    "write_file",
    "mix",
]
"""A task of a worker on a tree."""


class SequentialSelect(TaggedStruct, tag="sequential"):
    """In turn; all workers on the tree share the position."""


class RandomSelect(TaggedStruct, tag="random"):
    """All equally likely."""


class SkewedSelect(TaggedStruct, tag="skewed"):
    """Files near the start are more likely: half of the selections go to the first files."""

    half_within_ppm: Count


TreeSelect = SequentialSelect | RandomSelect | SkewedSelect
"""Order in which files and directories of a tree are selected."""


class AfterTransfers(TaggedStruct, tag="transfers"):
    """A file is closed after a number of transfers."""

    count: U64


class AfterPercent(TaggedStruct, tag="percent"):
    """A file is closed after a part of its size."""

    percent: Percentage


StopAfter = AfterTransfers | AfterPercent
"""End of the transfers on one file. Sequential transfers continue there when the file is opened again."""


class TreeWork(Struct):
    """Work on the files of a directory tree, one file after another (vdbench's FSD and FWD). The worker's only file is
    the root of the tree, which is created where it is missing; its operations give the kinds that the tasks need, their
    transfer sizes, and the shares of reads and writes."""

    tree: Tree
    tasks: Annotated[tuple[TreeTask, ...], Meta(min_length=1)]
    select: TreeSelect
    select_once: bool = False
    delete_first: bool = False
    flush_before_close: bool = False
    files_shared: bool = False
    times_files: bool = False
    rate_group: U32 | None = None
    stop_after: StopAfter | None = None
    target: str | None = None


class Flow(Struct):
    """Share of the operations of all workers with the same id (vdbench's skew, fio's flow): a worker that is ahead
    waits."""

    id: U32
    weight: Count


class End(Struct):
    """Conditions that end a worker, whichever comes first. Without any, the worker runs until it is stopped."""

    runtime_ns: U64 | None
    bytes: U64 | None
    operations: U64 | None
    when_full: bool = False


class Tolerance(Struct):
    """Failed operations that are counted, with the first path of each kind and error, and do not end the worker."""

    kinds: tuple[OperationKind, ...] = ()
    errnos: tuple[int, ...] = ()
    errors_max: U64 | None = None


EndsOthers = Literal["never", "always", "on_error", "together"]
"""Ends the other workers of a group when a worker has ended."""


class LatencyTarget(Struct):
    """Search for the largest depth, up to the worker's, at which a percentage of the operations stays within a latency
    (fio's ``latency_target``)."""

    target_ns: U64
    window_ns: U64
    percentile: Annotated[float, Meta(gt=0, le=100)]
    run_on: bool


SteadyFigure = Literal["iops", "bandwidth", "latency"]
"""Figure that must be steady."""
SteadyCriterion = Literal["deviation", "slope"]
"""Property that must be small."""


class SteadyState(Struct):
    """Criterion for a steady state (fio's steadystate, SNIA PTS), which ends the workers of the report group."""

    figure: SteadyFigure
    criterion: SteadyCriterion
    limit: Annotated[float, Meta(ge=0)]
    limit_is_percent: bool
    duration_ns: U64
    ramp_ns: U64
    check_ns: U64


class RandomContent(TaggedStruct, tag="random"):
    """Random bytes from the worker's seed."""


class ZeroContent(TaggedStruct, tag="zero"):
    """Zeros."""


class PatternContent(TaggedStruct, tag="pattern"):
    """A pattern, repeated from the start of each buffer."""

    bytes: Annotated[str, Meta(pattern="^([0-9a-f]{2}|o{16})+$")]


class PoolContent(TaggedStruct, tag="pool"):
    """Bytes from a random offset of a pool that is filled once (DiskSpd's ``-Z1M``), from a file or at random."""

    bytes: U64
    path: str | None


Content = RandomContent | ZeroContent | PatternContent | PoolContent
"""Content of the buffers."""
Renew = Literal["keep", "scramble", "refill"]
"""Change of a buffer before each write."""


class Payload(Struct):
    """Data that are written."""

    content: Content
    renew: Renew
    compress_percent: Percentage = 0
    compress_chunk_bytes: U32 = 0
    dedupe_percent: Percentage = 0
    dedupe_set_blocks: U64 = 0


VerifyMethod = Literal[
    "header",
    "null",
    "pattern",
    "pattern_header",
    "crc7",
    "crc16",
    "crc32",
    "crc32c",
    "crc64",
    "xxhash",
    "md5",
    "sha1",
    "sha256",
    "sha512",
    "sha3224",
    "sha3256",
    "sha3384",
    "sha3512",
]
"""Method of verification."""


class VerifyMap(Struct):
    """Files that remember what was written. Operations lock their range; others wait until it is unlocked."""

    paths: tuple[str, ...]
    before_write: bool
    after_write: bool
    take_over: bool
    tree: str | None = None


class Verify(Struct):
    """Comparison of data that are read with what was written. Blocks carry a header with magic, length, offset, seed
    and checksum, or hold a pattern."""

    method: VerifyMethod
    interval_bytes: U32 = 0
    header_offset: U32 = 0
    pattern: Annotated[str, Meta(pattern="^([0-9a-f]{2}|o{16})*$")] = ""
    read_back: bool = True
    pass_bytes: U64 | None = None
    backlog: U32 | None = None
    backlog_batch: U32 = 0
    only: bool = False
    fatal: bool = False
    dump: bool = False
    map: VerifyMap | None = None


class LogPlan(Struct):
    """A log of operations, in addition to the intervals."""

    window_ns: U64 | None
    histograms: bool
    records: U64
    files: bool = False


class Worker(Struct):
    """One thread: its engine, its files, its load."""

    job: str
    jobnum: U32
    report_group: U32
    engine: EnginePlan
    disk: DiskPlan | None = None
    files: Annotated[tuple[FilePlan, ...], Meta(min_length=1)]
    file_select: FileSelect
    file_run: Count = 1
    operations: Annotated[tuple[OperationPlan, ...], Meta(min_length=1)]
    access: Access
    depth: Count
    batch: Batch = Batch()
    rate: Rate | None = None
    response_limit_ns: U64 | None = None
    intervals_singly: U32 | None = None
    think: Think | None = None
    syncs: tuple[SyncPlan, ...] = ()
    replay: Replay | None = None
    tree: TreeWork | None = None
    sync_at_end: bool = False
    flow: Flow | None = None
    wait_for: tuple[str, ...] = ()
    start_delay_ns: U64
    ramp_ns: U64
    end: End
    tolerates: tuple[Tolerance, ...] = ()
    whole_transfers: bool = False
    cooldown_ns: U64 = 0
    ends_others: EndsOthers = "never"
    ends_run: bool = False
    ends_exit_group_only: bool = False
    exit_group: U32 = 0
    client: U32 = 0
    latency_target: LatencyTarget | None = None
    steady_state: SteadyState | None = None
    seed: U64
    payload: Payload
    verify: Verify | None = None
    log: LogPlan | None = None
    submission_latency: bool = False
    cpus: tuple[U32, ...] = ()


class Group(Struct):
    """Workers that start at the same instant."""

    workers: Annotated[tuple[Worker, ...], Meta(min_length=1)]


class Plan(Struct):
    """A whole run: groups that start one after another."""

    version: Literal[2] = 2
    name: str
    interval_ns: U64
    groups: Annotated[tuple[Group, ...], Meta(min_length=1)]
