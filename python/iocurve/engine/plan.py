"""The plan of a run: the contract between Python, which resolves a job into a plan, and the engine.

A plan leaves nothing open: sizes are bytes, times are nanoseconds, and ``None`` is a decision ("no limit").
``crates/engine/src/plan`` is the same contract in Rust; ``tests/test_plan_contract.py`` compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, get_args

from msgspec import Meta

from iocurve.structs import Struct, TaggedStruct

U16 = Annotated[int, Meta(ge=0, lt=2**16)]
U32 = Annotated[int, Meta(ge=0, lt=2**32)]
U64 = int
"""0 to 2^64 - 1. msgspec cannot check bounds above 2^63; Rust checks this one."""
Count = Annotated[int, Meta(ge=1, lt=2**32)]
Nanos = U64

Durability = Literal["none", "data_sync", "file_sync"]
Percentage = Annotated[int, Meta(ge=0, le=100)]
Layout = Literal["existing", "fill", "reserve", "new", "create", "recreate", "recreate_reserve", "nothing"]
FileSelect = Literal["round_robin", "random", "by_size", "sequential"]
HostCache = Literal["none", "read_only", "read_write"]
MetadataKind = Literal["create", "open", "close", "getattr", "setattr", "access", "rename", "delete", "mkdir", "rmdir"]
"""Operations on names and attributes, which move no data. They need a metadata engine. A rename goes to the path of the
file whose index is its offset."""
OperationKind = Literal[
    "read",
    "write",
    "trim",
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
    "fsync",
    "fdatasync",
    "sync_file_range",
    "fsync_at_end",
]
SyncKind = Literal["fsync", "fdatasync", "sync_file_range"]
"""Flushes that a ``SyncPlan`` issues."""
METADATA_KINDS: tuple[MetadataKind, ...] = get_args(MetadataKind)
FLUSH_KINDS = ("fsync", "fdatasync", "sync_file_range", "fsync_at_end")
"""Kinds that move no data, and do not count as requested operations."""


class FileOpen(Struct):
    """Flags that local files are opened with."""

    direct: bool
    """Bypass the page cache (O_DIRECT)."""
    durability: Durability
    """Guarantee of a completed write: none (NFS: UNSTABLE), O_DSYNC (DATA_SYNC) or O_SYNC (FILE_SYNC)."""
    invalidate: bool
    """Drop the file's pages from the page cache before the run."""


class NullEngine(TaggedStruct, tag="null"):
    """No I/O: the cost of the loop itself."""


class SyncEngine(TaggedStruct, tag="sync"):
    """pread and pwrite, one at a time."""

    open: FileOpen


class AioEngine(TaggedStruct, tag="aio"):
    """Linux native AIO (io_submit)."""

    open: FileOpen


class UringEngine(TaggedStruct, tag="uring"):
    """io_uring with registered files and buffers."""

    open: FileOpen


class NfsMount(Struct):
    """A user-space NFS mount."""

    host: str
    port: U16 | None
    """TCP port of the NFS program; None asks the server's portmapper."""
    mount_port: U16 | None
    """TCP port of the MOUNT program; None asks the server's portmapper."""
    export: str
    version: Literal[3, 4]
    """3, or 4 for 4.1."""
    nconnect: Annotated[int, Meta(ge=1, le=16)]
    """TCP connections of each worker."""
    uid: U32
    gid: U32
    durability: Durability
    timeout_ns: Nanos
    """The engine gives up when the server has not answered for this long."""
    keep_payload: bool
    """READ payload is copied to the worker's buffers; otherwise large payloads are discarded in the kernel."""
    source: str | None = None
    """Local address of all connections, MOUNT's too; None leaves the choice to the system."""
    session_slots: Annotated[int, Meta(ge=1, le=1024)] = 64
    """NFSv4.1: slots to ask the server for, the most calls in flight of each worker."""


class NfsEngine(TaggedStruct, tag="nfs"):
    """User-space NFS over ``nconnect`` TCP connections that belong to this worker."""

    mount: NfsMount


class MmapEngine(TaggedStruct, tag="mmap"):
    """Copies from and to files mapped into memory; a flush is msync."""

    open: FileOpen


class SpaceEngine(TaggedStruct, tag="space"):
    """Calls that allocate or cut the space of files, one at a time; they move no data (fio's falloc and ftruncate)."""

    open: FileOpen
    call: Literal["fallocate", "ftruncate"]
    """fallocate: a write allocates its range and extends the file, a read allocates it and keeps the length, a trim
    punches a hole. ftruncate: a write cuts or extends the file to its offset."""


class MetadataEngine(TaggedStruct, tag="metadata"):
    """Metadata operations on local files and directories, one at a time, with reads and writes of open files."""

    open: FileOpen
    keep_open: bool
    """Create and open leave the file open for reads and writes, until it is closed or deleted; otherwise they close it
    at once."""


class NfsMetadataEngine(TaggedStruct, tag="nfs_metadata"):
    """Metadata operations on an NFS export, one call at a time on one connection."""

    mount: NfsMount
    keep_open: bool
    """As in ``MetadataEngine``."""


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


class IoBurst(Struct):
    """Limits that hold while credits last: each operation and byte above the base limits costs a credit, each below
    gains one."""

    iops: U64
    bytes_per_s: U64
    duration_ns: Nanos
    """Time that full credits last at the full burst."""


class IoLimits(Struct):
    """Operations and bytes per second, reads and writes together."""

    iops: U64
    bytes_per_s: U64
    burst: IoBurst | None = None


class VmPlan(Struct):
    """A virtual machine. Disks that name the same one share its limits."""

    name: str
    uncached: IoLimits | None
    """Limits of operations that go to disks; None is no limit."""
    cached: IoLimits | None
    """Limits of operations on disks with a host cache, whether they hit the cache or not."""
    cache_bytes: U64
    """Size of the cache that all disks share."""


class DiskPlan(Struct):
    """A cloud disk, emulated over local files: each operation runs immediately, but completes only when the disk and
    its virtual machine would have completed it."""

    name: str
    """Name of the disk, for messages."""
    state_path: str
    """File that keeps the cached blocks and the burst credits from run to run. Workers that name the same file share
    the disk. While a run uses the disk, no other run can use one in the same directory."""
    limits: IoLimits
    """Limits of the disk, or of several striped disks together."""
    io_bytes: Count
    """The largest operation that counts as one, in bytes; a larger one counts as several."""
    cache: HostCache
    """Caching by the virtual machine's host. none: no caching. read_only: reads and writes fill the cache; a write
    completes once it is on the disk. read_write: a write completes once it is in the cache, and goes to the disk
    later."""
    latency_ns: Nanos = 0
    """Latency added to each operation that goes to the disk."""
    vm: VmPlan | None = None
    """Virtual machine that the disk is attached to; None sets no further limits."""


class FilePlan(Struct):
    """A file or device, and the region of it that is used."""

    path: str
    """For NFS, relative to the export."""
    offset_bytes: U64
    bytes: U64
    start_bytes: U64 = 0
    """Offset in the region at which sequential operations begin."""
    layout: Layout
    """Preparation before the run. existing: the file must exist and be long enough. fill: created if missing, and
    written up to the region's end; existing data stay. reserve: created if missing, and extended without writing. new:
    the file must not exist; it is created and written. create: created if missing; the length stays. recreate: created
    if missing, emptied if not, and written (the user asked for it). recreate_reserve: as recreate, but extended without
    writing. nothing: left as it is; metadata operations create the file or directory, or find it there."""
    keep: bool
    """False removes the file after the run if the run created it."""


class Rate(Struct):
    """An open-loop rate: ``count`` per ``per_ns``. The k-th operation is due at exactly k × per / count."""

    unit: Literal["operations", "bytes"]
    count: U64
    per_ns: U64
    arrivals: Literal["even", "poisson"] = "even"
    """even: equal distances. poisson: exponentially distributed distances with the mean of the rate."""


class FixedBlocks(TaggedStruct, tag="fixed"):
    """Operations of one size."""

    bytes: Count

    @property
    def smallest(self) -> int:
        """Bytes of the smallest operation."""
        return self.bytes

    @property
    def largest(self) -> int:
        """Bytes of the largest operation."""
        return self.bytes

    @property
    def mean(self) -> float:
        """Mean bytes per operation."""
        return self.bytes


class BlockRange(TaggedStruct, tag="range"):
    """``low``, ``low + step`` and so on up to ``high``, all equally likely."""

    low: Count
    high: Count
    step: Count

    @property
    def smallest(self) -> int:
        """Bytes of the smallest operation."""
        return self.low

    @property
    def largest(self) -> int:
        """Bytes of the largest operation."""
        return self.high

    @property
    def mean(self) -> float:
        """Mean bytes per operation."""
        return (self.low + self.low + (self.high - self.low) // self.step * self.step) / 2


class BlockShare(Struct):
    """One of several block sizes."""

    bytes: Count
    weight: U32


class BlockSplit(TaggedStruct, tag="split"):
    """Several sizes by weight (fio's bssplit)."""

    parts: Annotated[tuple[BlockShare, ...], Meta(min_length=1)]

    @property
    def smallest(self) -> int:
        """Bytes of the smallest operation."""
        return min(part.bytes for part in self.parts)

    @property
    def largest(self) -> int:
        """Bytes of the largest operation."""
        return max(part.bytes for part in self.parts)

    @property
    def mean(self) -> float:
        """Mean bytes per operation."""
        weight = sum(part.weight for part in self.parts)
        return sum(part.bytes * part.weight for part in self.parts) / weight if weight else self.smallest


Blocks = FixedBlocks | BlockRange | BlockSplit


class Uniform(TaggedStruct, tag="uniform"):
    """All blocks are equally likely."""


class Zipf(TaggedStruct, tag="zipf"):
    """The k-th most popular block has a probability proportional to 1/k^theta."""

    theta: Annotated[float, Meta(gt=0)]
    center: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Position of the most popular block, as a fraction of the region; None spreads popular blocks by a hash."""


class Pareto(TaggedStruct, tag="pareto"):
    """Self-similar: a share of 1 - h of the operations goes to a share h of the blocks."""

    h: Annotated[float, Meta(gt=0, lt=1)]
    center: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Position of the most popular block, as a fraction of the region; None spreads popular blocks by a hash."""


class Normal(TaggedStruct, tag="normal"):
    """Gaussian around the middle of the region."""

    deviation_percent: Annotated[float, Meta(gt=0)]
    """Standard deviation, in per cent of the region."""
    center: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Position of the mean, as a fraction of the region; None is 0.5."""


class Zone(Struct):
    """A part of a region with its share of the operations."""

    access_percent: Annotated[float, Meta(ge=0, le=100)]
    offset_bytes: U64
    bytes: U64


class Zones(TaggedStruct, tag="zones"):
    """Zones one after another, each with its share of the operations."""

    zones: Annotated[tuple[Zone, ...], Meta(min_length=1)]


Distribution = Uniform | Zipf | Pareto | Normal | Zones


class OperationPlan(Struct):
    """One kind of operation in a worker's mix."""

    kind: OperationKind
    share: U32
    """Weight in the mix. If any operation has a rate, each kind is paced by itself and weights are ignored."""
    blocks: Blocks
    align_bytes: U64 = 0
    """Alignment of random offsets; 0 is the smallest block."""
    random_percent: Percentage
    """Per cent of the operations that go to a random offset; the others continue after the last one."""
    distribution: Distribution = Uniform()
    """Distribution of random offsets."""
    rate: Rate | None
    """Rate limit of this kind; None is as fast as possible."""


class Strided(Struct):
    """Zones with gaps between them: the worker transfers ``zone_bytes`` in a zone, then moves to the next (fio's
    zonemode=strided)."""

    range_bytes: U64
    """Bytes of the region that a zone spans."""
    zone_bytes: U64
    """Bytes to transfer in a zone before moving to the next."""
    skip_bytes: U64
    """Bytes skipped after a zone."""


class Access(Struct):
    """Order of the offsets in a file."""

    cover: Literal["once", "independent"] = "once"
    """once: a random pass visits every block once (fio's random map). independent: each offset is drawn independently
    (fio's norandommap)."""
    passes: Literal["same", "fresh"] = "same"
    """same: each pass over the region repeats the random sequence of the first (fio's randrepeat=1). fresh: it does
    not."""
    run_length: Count = 1
    """Consecutive operations at each random offset, the first included (fio's randread:8)."""
    gap_bytes: int = 0
    """Bytes skipped after each sequential operation; negative goes backwards (fio's read:8k)."""
    gap_spread_bytes: U64 = 0
    """Further bytes skipped, drawn from 0 up to this (vdbench's stride)."""
    at_end: Literal["wrap", "stop"] = "wrap"
    """At the end of the region a sequential worker returns to the start (wrap) or ends (stop)."""
    position: Literal["kind", "worker", "job", "identical", "repeated"] = "kind"
    """Sharing of the sequential position. kind: each kind has its own. worker: all kinds of the worker share one. job:
    all workers of the job share one (DiskSpd's -si). identical: the kinds take turns at each offset, and the last of
    them advances it (fio's trimwrite). repeated: each kind has its own, and repeats an offset for the rest of its run
    (fio's rw_sequencer=identical)."""
    strided: Strided | None = None


class End(Struct):
    """Conditions that end a worker, whichever comes first. Without any, the worker runs until it is stopped."""

    runtime_ns: Nanos | None
    """Length of the measured window, after the ramp."""
    bytes: U64 | None
    """Bytes transferred, all kinds together, ramp included."""
    operations: U64 | None
    """Operations, all kinds together, ramp included."""
    when_full: bool = False
    """A write that fails for lack of space ends the worker cleanly (fio's fill_device); otherwise the worker fails."""


class RandomContent(TaggedStruct, tag="random"):
    """Random bytes from the worker's seed."""


class ZeroContent(TaggedStruct, tag="zero"):
    """Zeros."""


class PatternContent(TaggedStruct, tag="pattern"):
    """A pattern, repeated from the start of each buffer."""

    bytes: Annotated[str, Meta(pattern="^([0-9a-f]{2}|o{16})+$")]
    """In hexadecimal; sixteen o mean the offset of the block (8 bytes, little-endian; fio's %o)."""


class PoolContent(TaggedStruct, tag="pool"):
    """Bytes from a random offset of a pool that is made once (DiskSpd's -Z1M)."""

    bytes: U64
    path: str | None
    """File that fills the pool; None fills it with random bytes."""


Content = RandomContent | ZeroContent | PatternContent | PoolContent


class Payload(Struct):
    """Data that are written."""

    content: Content
    renew: Literal["keep", "scramble", "refill"]
    """Change of a buffer before each write. keep: none. scramble: a few bytes of each 512 (fio's scramble_buffers).
    refill: all bytes are new (fio's refill_buffers)."""
    compress_percent: Percentage = 0
    """Per cent by which the content can be compressed; that share is zeros (or the pattern)."""
    compress_chunk_bytes: U32 = 0
    """Bytes in which the compressible share is kept; 0 is the whole block."""
    dedupe_percent: Percentage = 0
    """Per cent of the blocks that repeat an earlier block."""
    dedupe_set_blocks: U64 = 0
    """Blocks that the repeated ones are drawn from (fio's dedupe_mode=working_set); 0 repeats the last block that is
    not a duplicate."""


class Batch(Struct):
    """Batch sizes of submission and completion; the defaults submit and complete as soon as possible."""

    submit: U32 = 0
    """Most operations submitted at once; 0 is all that are due."""
    complete_min: U32 = 1
    """Completions to wait for at once; 0 polls without waiting."""
    complete_max: U32 = 0
    """Most completions reaped at once; 0 is all that are available."""
    low: U32 = 0
    """Once the depth is reached, the worker submits nothing until at most this many are in flight (fio's iodepth_low);
    0 is the depth itself."""


class Think(Struct):
    """Pauses between operations (fio's thinktime, DiskSpd's -i and -j)."""

    pause_ns: Nanos
    spin_ns: Nanos = 0
    """Part of the pause in which the processor is kept busy."""
    every: U32 = 1
    """Operations between pauses; 0 sets no number, and ``every_ns`` alone decides."""
    counts: Literal["completed", "issued"] = "completed"
    """Operations that count towards a pause: completed ones, or submitted ones (issued)."""
    every_ns: Nanos | None = None
    """Length of the load between pauses, if ``every`` operations do not come first (fio's thinktime_iotime)."""
    drains: bool = True
    """Operations in flight complete before a pause begins (fio); otherwise the pause begins at once (DiskSpd)."""
    moves_schedule: bool = False
    """A pause moves due times (fio's rate_ignore_thinktime); otherwise the worker catches up."""


class SyncPlan(Struct):
    """A flush after every ``every`` writes, reported as its own kind (NFS: COMMIT)."""

    kind: SyncKind
    every: Count


class Replay(Struct):
    """A recording of operations to replay (fio's read_iolog)."""

    path: str
    """File of records, little-endian: due time (u64, ns since the worker's start), offset (u64), bytes (u32), index of
    the file (u32), index of the kind in ``OperationKind`` (u32), 4 bytes of zeros."""
    records: U64
    paced: bool
    """Each operation waits for its due time; otherwise they run as fast as possible."""


class SizeShare(Struct):
    """One of several file sizes. The size of a file follows from its number alone."""

    bytes: U64
    weight: U32
    """Share of the files, relative to the other sizes."""


class Tree(Struct):
    """Directories ``vdb.LEVEL_NUMBER.dir`` below a root, with files ``vdb_fNUMBER.file`` in them."""

    depth: Count
    """Levels of directories."""
    width: Count
    """Directories in each directory."""
    files: Count
    """Files in each directory that has files."""
    files_on_all_levels: bool
    """Every directory has files, not only those of the lowest level."""
    sizes: Annotated[tuple[SizeShare, ...], Meta(min_length=1)]
    sizes_spread: bool = False
    """Sizes are drawn evenly between a half and one and a half times the size."""
    used_bytes: U64 | None = None
    """Only files with this sum of sizes are used, chosen at random; None uses all."""
    creates_parents: bool = False
    """Missing directories above the root are created, too."""


class SequentialSelect(TaggedStruct, tag="sequential"):
    """In turn; all workers on the tree share the position."""


class RandomSelect(TaggedStruct, tag="random"):
    """All equally likely."""


class SkewedSelect(TaggedStruct, tag="skewed"):
    """Half of the selections go to the first files."""

    half_within_ppm: Count
    """Those files, in millionths of all files."""


class AfterTransfers(TaggedStruct, tag="transfers"):
    """A file is closed after a number of transfers."""

    count: U64


class AfterPercent(TaggedStruct, tag="percent"):
    """A file is closed after a part of its size."""

    percent: Percentage


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
]
"""The first three are shared by all workers on the tree: each file or directory is done by one of them. remove: deletes
everything below the root that has a name of such a tree. make_directories, fill: create what is missing, and write all
files to their size. The others go on until the worker ends: transfer opens a file, reads and writes it, and closes
it."""


class TreeWork(Struct):
    """Work on the files of a directory tree, one file after another (vdbench's FSD and FWD). The root is the worker's
    only file."""

    tree: Tree
    tasks: Annotated[tuple[TreeTask, ...], Meta(min_length=1)]
    """One after another."""
    select: SequentialSelect | RandomSelect | SkewedSelect
    """Order in which files and directories are selected."""
    select_once: bool = False
    """Each file is selected once; the worker then ends."""
    delete_first: bool = False
    """A file that exists is deleted and created again before it is written."""
    flush_before_close: bool = False
    """A file that was written is flushed before it is closed."""
    files_shared: bool = False
    """Several workers may use one file at the same time."""
    stop_after: AfterTransfers | AfterPercent | None = None
    """End of the transfers on a file; None is as many bytes as the file has."""


class LatencyTarget(Struct):
    """A search for the largest depth, up to the worker's, at which a percentage of the operations stays within a
    latency (fio's latency_target)."""

    target_ns: Nanos
    window_ns: U64
    """Length of the window in which each depth is tried."""
    percentile: Annotated[float, Meta(gt=0, le=100)]
    """Per cent of the operations that must be within the limit."""
    run_on: bool
    """The worker goes on at the depth found; otherwise finding it ends the worker."""


class SteadyState(Struct):
    """Criterion for a steady state (fio's steadystate, SNIA PTS), which ends the workers of the report group."""

    figure: Literal["iops", "bandwidth", "latency"]
    criterion: Literal["deviation", "slope"]
    """Property that must be small: the largest deviation of a sample from the mean, or the slope of the least-squares
    line."""
    limit: Annotated[float, Meta(ge=0)]
    """Limit of that property: in per cent of the mean, or in the figure's own unit (operations/s, bytes/s, ns; a slope
    per check)."""
    limit_is_percent: bool
    duration_ns: U64
    ramp_ns: Nanos
    check_ns: U64
    """Time between two samples."""


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


class VerifyMap(Struct):
    """Files that remember what was written. Operations lock their range; others wait until it is unlocked."""

    paths: tuple[str, ...]
    """One map for each of the worker's files, created if missing. Blocks are marked with the map's name."""
    before_write: bool
    """A range is read and compared before it is written again."""
    after_write: bool
    """A range is read and compared as soon as it was written."""
    take_over: bool
    """The run that wrote the files may have been cut off: where a write was in flight, the block before it is accepted,
    too."""


class Verify(Struct):
    """Comparison of data that are read with what was written. Blocks carry a header with magic, length, offset, seed
    and checksum, or hold a pattern."""

    method: VerifyMethod
    interval_bytes: U32 = 0
    """Bytes with one header each, a divisor of all block sizes; 0 is the largest divisor."""
    header_offset: U32 = 0
    pattern: Annotated[str, Meta(pattern="^([0-9a-f]{2}|o{16})*$")] = ""
    """For methods with a pattern; in hexadecimal, as in ``PatternContent``."""
    read_back: bool = True
    """Written data are read back and compared (fio's do_verify)."""
    pass_bytes: U64 | None = None
    """Bytes issued, all kinds together, after which written data are read back before the next pass begins (a loop of
    fio's); None reads back once, at the end."""
    backlog: U32 | None = None
    """Number of writes after which they are read back at once, without waiting for the end of the pass."""
    backlog_batch: U32 = 0
    """Writes of a backlog that are read back in one go; 0 is all of them."""
    only: bool = False
    """Writes nothing: reads and compares what an earlier run with this plan wrote (fio's verify_only)."""
    fatal: bool = False
    """The first difference ends the worker at once; otherwise the worker fails at its end."""
    dump: bool = False
    """Blocks that differ, and the blocks expected, are dumped into the current directory under fio's names
    (NAME.OFFSET.received, NAME.OFFSET.expected)."""
    map: VerifyMap | None = None
    """Files that remember what was written, for other workers and later runs; every read is compared (vdbench's data
    validation). None compares only what this worker knows."""


class LogPlan(Struct):
    """A log of operations, besides the intervals."""

    window_ns: Nanos | None
    """Adds operations up over windows of this length; None records each operation, with its offset."""
    histograms: bool
    """Each window keeps its latency histogram."""
    records: U64
    """Most records; later ones are counted as lost."""
    files: bool = False
    """Each operation is recorded with its file."""


class Flow(Struct):
    """Share of the operations of all workers with the same id (vdbench's skew, fio's flow): a worker that is ahead
    waits."""

    id: U32
    """Workers of a group with the same id share a flow."""
    weight: Annotated[int, Meta(ge=1, lt=2**32)]
    """Share, relative to the other workers."""


class Worker(Struct):
    """One thread: its engine, its files, its load."""

    job: str
    jobnum: U32
    """Number of this worker in the job (fio's $jobnum), from 0."""
    report_group: U32
    """Workers with the same number are reported as one (fio's group_reporting)."""
    engine: EnginePlan
    disk: DiskPlan | None = None
    """Emulated disk that the files are on; None uses the files as they are."""
    files: Annotated[tuple[FilePlan, ...], Meta(min_length=1)]
    file_select: FileSelect
    file_run: Count = 1
    """Consecutive operations on one file before the next is selected."""
    operations: Annotated[tuple[OperationPlan, ...], Meta(min_length=1)]
    access: Access
    depth: Count
    """Most operations in flight (queue depth); a synchronous engine runs at 1."""
    batch: Batch = Batch()
    rate: Rate | None = None
    """Rate limit of all kinds together, with the shares of the mix kept; excludes rates of single kinds."""
    think: Think | None = None
    syncs: tuple[SyncPlan, ...] = ()
    """Flushes after writes; where several are due, only the first is issued (fio)."""
    replay: Replay | None = None
    """Replays a recording instead of what ``operations`` and ``access`` would choose."""
    tree: TreeWork | None = None
    """Works on the files of a directory tree instead of what ``files`` and ``access`` would choose."""
    sync_at_end: bool = False
    """Flush every file once, after the last operation (fio's end_fsync)."""
    flow: Flow | None = None
    """Keeps operations in proportion to those of other workers of the group; None runs independently."""
    wait_for: tuple[str, ...] = ()
    """Jobs of the same group whose workers must all have ended before this one starts (fio's wait_for)."""
    start_delay_ns: Nanos
    ramp_ns: Nanos
    """Load that runs before the measured window and is not counted."""
    end: End
    cooldown_ns: Nanos = 0
    """Load that continues after the window that ``end.runtime_ns`` ends, and is not counted (DiskSpd's -C)."""
    ends_others: Literal["never", "always", "on_error", "together"] = "never"
    """Ends the other workers of the group when this one has ended (fio's exitall), when it has failed (fio's
    exitall_on_error), or once all workers of the group with this setting have ended (vdbench's seekpct=eof)."""
    ends_run: bool = False
    """Later groups are then left out, too (fio's exit_what=all)."""
    ends_exit_group_only: bool = False
    """Ends only workers with the same ``exit_group`` (fio's exit_what=group)."""
    exit_group: U32 = 0
    """fio's groupid: counts stonewall and new_group."""
    client: U32 = 0
    """Load client that runs the worker, from 0; a run without a cluster has one client, which runs all."""
    latency_target: LatencyTarget | None = None
    steady_state: SteadyState | None = None
    seed: U64
    payload: Payload
    verify: Verify | None = None
    log: LogPlan | None = None
    submission_latency: bool = False
    """Measures submission latency apart (fio's slat): each operation is then sent to the kernel as soon as it is
    submitted. Only for engines that carry out operations after they were sent."""
    cpus: tuple[U32, ...] = ()
    """Processors that the thread may run on; empty leaves the choice to the scheduler."""


class Group(Struct):
    """Workers that start at the same instant."""

    workers: Annotated[tuple[Worker, ...], Meta(min_length=1)]

    def on_clients(self, clients: Sequence[int]) -> Group:
        """The same workers, each on its load client."""
        placed = zip(self.workers, clients, strict=True)
        return self.replace(workers=tuple(worker.replace(client=client) for worker, client in placed))


class Plan(Struct):
    """A whole run: groups that start one after another."""

    version: Literal[2] = 2
    name: str
    interval_ns: U64
    """Length of one reporting interval."""
    groups: Annotated[tuple[Group, ...], Meta(min_length=1)]
