"""What runs: the contract between Python, which resolves a job into a plan, and the engine.

Everything is decided here: sizes are bytes, times are nanoseconds, and ``None`` is a decision ("no limit").
``crates/engine/src/plan.rs`` is the same contract in Rust; ``tests/test_plan_contract.py`` holds the two together.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from iocurve.structs import Struct, TaggedStruct

U16 = Annotated[int, Meta(ge=0, lt=2**16)]
U32 = Annotated[int, Meta(ge=0, lt=2**32)]
U64 = int
"""0 to 2^64 - 1; msgspec bounds no number above 2^63, so Rust alone checks it."""
Count = Annotated[int, Meta(ge=1, lt=2**32)]
Nanos = U64

Durability = Literal["none", "data_sync", "file_sync"]
Percentage = Annotated[int, Meta(ge=0, le=100)]
Layout = Literal["existing", "fill", "reserve", "new", "create", "recreate", "recreate_reserve"]
FileSelect = Literal["round_robin", "random", "by_size", "sequential"]
HostCache = Literal["none", "read_only", "read_write"]
OperationKind = Literal["read", "write", "trim", "fsync", "fdatasync", "sync_file_range", "fsync_at_end"]
SyncKind = Literal["fsync", "fdatasync", "sync_file_range"]
"""Flushes after so many writes."""
FLUSH_KINDS = ("fsync", "fdatasync", "sync_file_range", "fsync_at_end")
"""Operations that move no data and are not of those that are asked for."""


class FileOpen(Struct):
    """How local files are opened."""

    direct: bool
    """Bypass the page cache (O_DIRECT)."""
    durability: Durability
    """What a completed write promises."""
    invalidate: bool
    """Drop the file's pages from the page cache before the run."""


class NullEngine(TaggedStruct, tag="null"):
    """Nothing is done: the cost of the loop itself."""


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
    version: Literal[3]
    nconnect: Annotated[int, Meta(ge=1, le=16)]
    """TCP connections of one worker."""
    uid: U32
    gid: U32
    durability: Durability
    timeout_ns: Nanos
    """Give up when the server has not answered for this long."""
    keep_payload: bool
    """Whether READ payload reaches the worker's buffers; False lets large payloads be discarded in the kernel."""
    source: str | None = None
    """Address of this machine that all connections come from, MOUNT's too; None leaves the choice to the system."""


class NfsEngine(TaggedStruct, tag="nfs"):
    """User-space NFS over ``nconnect`` TCP connections of the worker's own."""

    mount: NfsMount


class MmapEngine(TaggedStruct, tag="mmap"):
    """Copies from and to files mapped into memory; a flush is msync."""

    open: FileOpen


EnginePlan = NullEngine | SyncEngine | AioEngine | UringEngine | MmapEngine | NfsEngine


class IoBurst(Struct):
    """Limits that hold while credits last: each operation and byte above the limits costs one, each below gains one."""

    iops: U64
    bytes_per_s: U64
    duration_ns: Nanos
    """How long the credits last at the full burst, if none are gone yet."""


class IoLimits(Struct):
    """Operations and bytes per second, reads and writes together."""

    iops: U64
    bytes_per_s: U64
    burst: IoBurst | None = None


class VmPlan(Struct):
    """A virtual machine, whose limits all disks with the same name of it share."""

    name: str
    uncached: IoLimits | None
    """Of what goes to disks."""
    cached: IoLimits | None
    """Of what goes to disks with a host cache, whether it is in the cache or not."""
    cache_bytes: U64
    """Size of the cache of all its disks."""


class DiskPlan(Struct):
    """A disk of a cloud, emulated over local files: each operation is done at once and handed back when the disk and
    its virtual machine would have had it done."""

    name: str
    """What people call it."""
    state_path: str
    """File that keeps what the cache holds and the burst credits from run to run. Workers that name the same one share
    the disk; while a run uses it, no other can use one in the same directory."""
    limits: IoLimits
    """Of the disk itself, or of several striped ones together."""
    io_bytes: Count
    """The largest operation that counts as one; a larger one counts as several."""
    cache: HostCache
    """What its virtual machine's host keeps of it: nothing; what was read or written, with writes done once the disk
    has them (read_only) or once the cache has them (read_write)."""
    latency_ns: Nanos = 0
    """Added to each operation that goes to the disk."""
    vm: VmPlan | None = None
    """What it is attached to; None sets no further limits."""


class FilePlan(Struct):
    """One file (or device) and the region of it that is used."""

    path: str
    """For NFS relative to the export."""
    offset_bytes: U64
    bytes: U64
    start_bytes: U64 = 0
    """Where in the region sequential operations begin."""
    layout: Layout
    """existing: must be there and long enough. fill: created if missing, written where it is shorter.
    reserve: created if missing, extended without writing. new: must not exist; created and written.
    create: created if missing, with whatever length it has. recreate: created if missing, emptied if not, and written
    (the user said so). recreate_reserve: the same, but extended without writing."""
    keep: bool
    """False removes the file after the run if the run created it."""


class Rate(Struct):
    """An open-loop rate: ``count`` per ``per_ns``; the k-th operation is due at exactly k x per / count."""

    unit: Literal["operations", "bytes"]
    count: U64
    per_ns: U64
    arrivals: Literal["even", "poisson"] = "even"
    """even: at equal distances. poisson: at exponentially distributed ones of that mean."""


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
        """Bytes of an operation in the mean."""
        return self.bytes


class BlockRange(TaggedStruct, tag="range"):
    """``low``, ``low + step`` and so on up to ``high``, with equal chance."""

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
        """Bytes of an operation in the mean."""
        return (self.low + self.low + (self.high - self.low) // self.step * self.step) / 2


class BlockShare(Struct):
    """One block size of several."""

    bytes: Count
    weight: U32


class BlockSplit(TaggedStruct, tag="split"):
    """One of several sizes, by weight."""

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
        """Bytes of an operation in the mean."""
        weight = sum(part.weight for part in self.parts)
        return sum(part.bytes * part.weight for part in self.parts) / weight if weight else self.smallest


Blocks = FixedBlocks | BlockRange | BlockSplit


class Uniform(TaggedStruct, tag="uniform"):
    """All blocks alike."""


class Zipf(TaggedStruct, tag="zipf"):
    """The k-th most popular block with a chance of 1/k^theta."""

    theta: Annotated[float, Meta(gt=0)]
    center: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Where the most popular block is, as a part of the region; None spreads by a hash."""


class Pareto(TaggedStruct, tag="pareto"):
    """Self-similar: a share of 1 - h of the operations goes to a share h of the blocks."""

    h: Annotated[float, Meta(gt=0, lt=1)]
    center: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Where the most popular block is, as a part of the region; None spreads by a hash."""


class Normal(TaggedStruct, tag="normal"):
    """Gaussian around the middle of the region."""

    deviation_percent: Annotated[float, Meta(gt=0)]
    """Standard deviation in per cent of the region."""
    center: Annotated[float, Meta(ge=0, le=1)] | None = None
    """The middle, as a part of the region; None is one half."""


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
    """Weight in the mix; with a rate on any operation each kind is paced by itself and weights do not count."""
    blocks: Blocks
    align_bytes: U64 = 0
    """Offsets of random operations are multiples of this; 0 is the smallest block."""
    random_percent: Percentage
    """How many go to a random place; the others go on from the last one."""
    distribution: Distribution = Uniform()
    """Which places chance prefers."""
    rate: Rate | None
    """Most that is asked of this kind; None is as fast as possible."""


class Strided(Struct):
    """A window that moves on when so much was transferred in it (fio's zonemode=strided)."""

    range_bytes: U64
    """Bytes of the region that a zone spans."""
    zone_bytes: U64
    """Bytes to transfer in a zone before the next."""
    skip_bytes: U64
    """Bytes left out after a zone."""


class Access(Struct):
    """Where in a file the next operation goes."""

    cover: Literal["once", "independent"] = "once"
    """once: every block once per random pass (fio's random map). independent: fio's norandommap."""
    passes: Literal["same", "fresh"] = "same"
    """Whether the next pass over the region repeats the random sequence of this one (fio's randrepeat=1)."""
    run_length: Count = 1
    """Operations at consecutive places that follow each random one, itself included (fio's randread:8)."""
    gap_bytes: int = 0
    """Left out after each sequential operation; negative goes backwards (fio's read:8k)."""
    gap_spread_bytes: U64 = 0
    """Further bytes to leave out, drawn up to this (vdbench's stride)."""
    at_end: Literal["wrap", "stop"] = "wrap"
    """What follows the end of the region in sequential order: its start, or the worker's end."""
    position: Literal["kind", "worker", "job", "identical", "repeated"] = "kind"
    """Who shares a sequential position: nobody; all kinds of a worker; all workers of a job (DiskSpd's -si);
    all kinds in turn, and only the last of them moves it on (fio's trimwrite); nobody, and a kind stays where it is for
    the rest of a run (fio's rw_sequencer=identical)."""
    strided: Strided | None = None


class End(Struct):
    """What ends a worker: whichever comes first; with none it runs until it is stopped."""

    runtime_ns: Nanos | None
    """Length of the measured window, after the ramp."""
    bytes: U64 | None
    """Bytes transferred, all kinds together, ramp included."""
    operations: U64 | None
    """Operations, all kinds together, ramp included."""
    when_full: bool = False
    """Whether a write for which there is no room ends the worker in order (fio's fill_device), not as failed."""


class RandomContent(TaggedStruct, tag="random"):
    """Random bytes from the worker's seed."""


class ZeroContent(TaggedStruct, tag="zero"):
    """Zeros."""


class PatternContent(TaggedStruct, tag="pattern"):
    """A pattern over and over, from the start of each buffer."""

    bytes: Annotated[str, Meta(pattern="^([0-9a-f]{2}|o{16})+$")]
    """In hexadecimal; sixteen o stand for the offset of the block (8 bytes, little-endian; fio's %o)."""


class PoolContent(TaggedStruct, tag="pool"):
    """Bytes from a random place of a pool that is made once (DiskSpd's -Z1M)."""

    bytes: U64
    path: str | None
    """File that fills the pool; None fills it by chance."""


Content = RandomContent | ZeroContent | PatternContent | PoolContent


class Payload(Struct):
    """What is written."""

    content: Content
    renew: Literal["keep", "scramble", "refill"]
    """What happens to a buffer before each write; scramble is fio's scramble_buffers, refill its refill_buffers."""
    compress_percent: Percentage = 0
    """By how much the content can be compressed; zeros (or the pattern) make up for it."""
    compress_chunk_bytes: U32 = 0
    """Bytes in which that share is kept; 0 is the whole block."""
    dedupe_percent: Percentage = 0
    """How many blocks have been written before."""


class Batch(Struct):
    """How operations are handed over and fetched; the defaults are as soon as possible."""

    submit: U32 = 0
    """Operations handed over at once at most; 0 is all that are due."""
    complete_min: U32 = 1
    """Completions that are waited for at once; 0 only looks."""
    complete_max: U32 = 0
    """Completions that are taken at once at most; 0 is all that are there."""
    low: U32 = 0
    """Once the depth is reached, nothing is handed over until no more than this many are in flight (fio's
    iodepth_low); 0 is the depth itself."""


class Think(Struct):
    """Pauses between operations (fio's thinktime, DiskSpd's -i and -j)."""

    pause_ns: Nanos
    spin_ns: Nanos = 0
    """Part of the pause in which the processor is kept busy."""
    every: U32 = 1
    """Operations between pauses; 0, with every_ns alone, is any number."""
    counts: Literal["completed", "issued"] = "completed"
    """Which operations count towards a pause."""
    every_ns: Nanos | None = None
    """Length of the load between pauses, if so many operations do not come first (fio's thinktime_iotime)."""
    drains: bool = True
    """Whether what is in flight comes back before a pause begins (fio); otherwise it begins at once (DiskSpd)."""
    moves_schedule: bool = False
    """Whether due times are moved by a pause (fio's rate_ignore_thinktime); otherwise what was missed is caught up
    with."""


class SyncPlan(Struct):
    """A flush after so many writes, reported as its kind (NFS: COMMIT)."""

    kind: SyncKind
    every: Count


class Replay(Struct):
    """Operations that were recorded elsewhere (fio's read_iolog)."""

    path: str
    """File of records: due time (u64, ns since the worker's start), offset (u64), bytes (u32), number of the file
    (u32), number of the kind (u32) among all kinds in their order, 4 bytes of zeros; little-endian."""
    records: U64
    paced: bool
    """Whether each waits for its time."""


class LatencyTarget(Struct):
    """A search for the depth at which so many per cent stay within a latency (fio's latency_target)."""

    target_ns: Nanos
    window_ns: U64
    """How long each depth is tried."""
    percentile: Annotated[float, Meta(gt=0, le=100)]
    run_on: bool
    """Whether to go on at the depth found until the worker's end."""


class SteadyState(Struct):
    """When figures hold steady (fio's steadystate, SNIA PTS); the report group's workers then end."""

    figure: Literal["iops", "bandwidth", "latency"]
    criterion: Literal["deviation", "slope"]
    """The largest deviation of a sample from the mean, or the slope of the least-squares line."""
    limit: Annotated[float, Meta(ge=0)]
    """In per cent of the mean, or in the figure's own unit (operations/s, bytes/s, ns; a slope per check)."""
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
    """What was written is remembered in files. One operation at a time is at a place; others wait for it."""

    paths: tuple[str, ...]
    """One for each of the worker's files; made where it is missing. Blocks bear the mark of its name."""
    before_write: bool
    """Whether a place is read and compared before it is written again."""
    after_write: bool
    """Whether a place is read and compared as soon as it was written."""
    take_over: bool
    """Whether the run that wrote the files may have ended in the middle: of a write that was under way, the one before
    is right, too."""


class Verify(Struct):
    """How what is read is compared with what was written: blocks carry a header with magic, length, offset, seed and
    checksum, or hold a pattern."""

    method: VerifyMethod
    interval_bytes: U32 = 0
    """Bytes with one header each, a divisor of all operations; 0 is the largest that there is."""
    header_offset: U32 = 0
    pattern: Annotated[str, Meta(pattern="^([0-9a-f]{2}|o{16})*$")] = ""
    """For the methods with one; in hexadecimal, as in ``PatternContent``."""
    read_back: bool = True
    """Whether what was written is read back and compared (fio's do_verify)."""
    pass_bytes: U64 | None = None
    """Bytes issued, all kinds together, after which what was written is read back, before the next pass begins (a loop
    of fio's); None is once, when all is written."""
    backlog: U32 | None = None
    """Written operations after which they are read back at once."""
    backlog_batch: U32 = 0
    """Operations read back in one go with a backlog; 0 is all of them."""
    only: bool = False
    """Nothing is written: what an earlier run with this plan wrote is read and compared."""
    fatal: bool = False
    """Whether the first difference ends the worker at once."""
    dump: bool = False
    """Whether blocks that differ, and what they should be, are written into the current directory, as fio names them
    (NAME.OFFSET.received, NAME.OFFSET.expected)."""
    map: VerifyMap | None = None
    """What was written is remembered in files that other workers and later runs go on with, and every read is compared
    with it (vdbench's data validation); None compares by what this worker alone knows."""


class LogPlan(Struct):
    """A record of the operations themselves, besides the intervals."""

    window_ns: Nanos | None
    """Operations are added up over windows of this length; None records each one, with its offset."""
    histograms: bool
    """Whether each window keeps its latency histogram."""
    records: U64
    """At most; what comes later is counted as lost."""


class Flow(Struct):
    """A part of the operations of all workers with the same number (vdbench's skew): whoever is ahead waits."""

    id: U32
    """Workers of a group with the same number belong together."""
    weight: Annotated[int, Meta(ge=1, lt=2**32)]
    """Its part, relative to the others'."""


class Worker(Struct):
    """One thread: its engine, its files, its load."""

    job: str
    clone: U32
    """Which clone of its job (fio's numjobs), from 0."""
    report_group: U32
    """Workers with the same number are reported as one (fio's group_reporting)."""
    engine: EnginePlan
    disk: DiskPlan | None = None
    """The emulated disk that the files lie on; None is the place itself."""
    files: Annotated[tuple[FilePlan, ...], Meta(min_length=1)]
    file_select: FileSelect
    file_run: Count = 1
    """Operations in a row that go to one file before the next is selected."""
    operations: Annotated[tuple[OperationPlan, ...], Meta(min_length=1)]
    access: Access
    depth: Count
    """Operations in flight at most; a synchronous engine runs at 1."""
    batch: Batch = Batch()
    rate: Rate | None = None
    """Most that is asked of all kinds together, the mix by shares kept; excludes rates of single operations."""
    think: Think | None = None
    syncs: tuple[SyncPlan, ...] = ()
    """Where several are due, the first of them comes alone (fio)."""
    replay: Replay | None = None
    """What was recorded elsewhere is done instead of what ``operations`` and ``access`` would choose."""
    sync_at_end: bool = False
    """Flush every file once, after the last operation (fio's end_fsync)."""
    flow: Flow | None = None
    """Keeps its operations in proportion to those of other workers of the group; None goes its own pace."""
    wait_for: tuple[str, ...] = ()
    """Start only when all workers of these jobs in the same group have ended (fio's wait_for)."""
    start_delay_ns: Nanos
    ramp_ns: Nanos
    """Load that runs but is not counted, before the measured window."""
    end: End
    cooldown_ns: Nanos = 0
    """Load that goes on after the window that ``end.runtime_ns`` ends, and is not counted (DiskSpd's -C)."""
    ends_others: Literal["never", "always", "on_error", "together"] = "never"
    """What happens to the others of its group when this worker has ended (fio's exitall, exitall_on_error)."""
    ends_run: bool = False
    """Whether later groups do not start then, either (fio's exit_what=all)."""
    ends_exit_group_only: bool = False
    """True if only workers with the same ``exit_group`` end then (fio's exit_what=group)."""
    exit_group: U32 = 0
    """fio's groupid: jobs up to the next stonewall or new_group."""
    latency_target: LatencyTarget | None = None
    steady_state: SteadyState | None = None
    seed: U64
    payload: Payload
    verify: Verify | None = None
    log: LogPlan | None = None
    submission_latency: bool = False
    """Whether the time until an operation is handed over is measured apart (fio's slat); every hand-over then enters
    the kernel by itself. For engines that carry out operations after they were handed over."""
    cpus: tuple[U32, ...] = ()
    """Processors the thread may run on; none leaves it to the scheduler."""


class Group(Struct):
    """Workers that start at the same instant."""

    workers: Annotated[tuple[Worker, ...], Meta(min_length=1)]


class Plan(Struct):
    """A whole run: groups that start one after another."""

    version: Literal[2] = 2
    name: str
    interval_ns: U64
    """Length of one reporting interval."""
    groups: Annotated[tuple[Group, ...], Meta(min_length=1)]
