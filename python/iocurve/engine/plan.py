"""The plan of a run: the contract between Python, which resolves a job into a plan, and the engine.

A plan leaves nothing open: sizes are bytes, times are nanoseconds, and None is a decision ("no limit").

Generated from ``crates/engine/src/plan`` by ``make contract``. ``iocurve.engine.derived`` computes values from
plans.
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
"""Guarantee of a completed write.

none: No guarantee (NFS: UNSTABLE).
data_sync: The data are on stable storage (``O_DSYNC``; NFS: ``DATA_SYNC``).
file_sync: Data and attributes are on stable storage (``O_SYNC``; NFS: ``FILE_SYNC``).
"""


class FileOpen(Struct):
    """Flags that local files are opened with."""

    direct: bool
    """Bypass the page cache (``O_DIRECT``)."""
    durability: Durability
    """Guarantee of a completed write."""
    invalidate: bool
    """Drop the file's pages from the page cache before the run and, without ``direct``, before each further pass."""


class NfsTls(Struct):
    """TLS of a user-space NFS mount."""

    ca: str | None = None
    """PEM file with the authorities that are trusted; None: those of the system."""
    certificate: str | None = None
    """PEM file with the client's certificate and its key, for servers that ask for one."""
    insecure: bool = False
    """Any certificate is accepted: encrypted, but the server is not known."""


class NfsMount(Struct):
    """A user-space NFS mount."""

    host: str
    """Host name or address."""
    port: U16 | None
    """TCP port of the NFS program; None asks the server's portmapper."""
    mount_port: U16 | None
    """TCP port of the MOUNT program; None asks the server's portmapper."""
    export: str
    """Exported path, as the MOUNT program knows it."""
    version: Literal[3, 4]
    """Protocol version: 3, or 4 for 4.1."""
    nconnect: Annotated[int, Meta(ge=1, le=16)]
    """TCP connections of each worker, 1 to 16."""
    uid: U32
    """``AUTH_SYS`` user."""
    gid: U32
    """``AUTH_SYS`` group."""
    durability: Durability
    """Guarantee of a completed write."""
    timeout_ns: U64
    """The engine gives up when the server has not answered for this long."""
    keep_payload: bool
    """READ payload is copied to the worker's buffers; otherwise large payloads are discarded in the kernel."""
    source: str | None = None
    """Local address of all connections, MOUNT's too; None leaves the choice to the system."""
    session_slots: Annotated[int, Meta(ge=1, le=1024)] = 64
    """NFSv4.1: slots to ask the server for, the most calls in flight of each worker; 1 to 1024."""
    rsize: Annotated[int, Meta(ge=1024, le=1048576)] | None = None
    """Most bytes of one READ, also where the server takes more; None is the server's limit."""
    wsize: Annotated[int, Meta(ge=1024, le=1048576)] | None = None
    """Most bytes of one WRITE, also where the server takes more; None is the server's limit."""
    tls: NfsTls | None = None
    """TLS of all connections but the portmapper's (RFC 9289); None: nothing is encrypted."""


SpaceCall = Literal["fallocate", "ftruncate"]
"""Call of the space engine.

fallocate: ``fallocate(2)`` of the range: a write allocates it and extends the file, a read allocates it and keeps
    the length, a trim punches a hole.
ftruncate: ``ftruncate(2)`` of the file to the offset of a write.
"""


class NullEngine(TaggedStruct, tag="null"):
    """No I/O: the cost of the loop itself."""


class SyncEngine(TaggedStruct, tag="sync"):
    """pread and pwrite, one at a time."""

    open: FileOpen
    """Flags that files are opened with."""


class AioEngine(TaggedStruct, tag="aio"):
    """Linux native AIO (``io_submit``)."""

    open: FileOpen
    """Flags that files are opened with."""


class UringEngine(TaggedStruct, tag="uring"):
    """``io_uring`` with registered files and buffers."""

    open: FileOpen
    """Flags that files are opened with."""


class MmapEngine(TaggedStruct, tag="mmap"):
    """Copies from and to files mapped into memory; a flush is ``msync``."""

    open: FileOpen
    """Flags that files are opened with."""


class NfsEngine(TaggedStruct, tag="nfs"):
    """User-space NFS over ``nconnect`` TCP connections that belong to this worker."""

    mount: NfsMount
    """Server, export and connections."""


class SpaceEngine(TaggedStruct, tag="space"):
    """Calls that allocate or cut the space of files, one at a time; they move no data (fio's falloc and ftruncate)."""

    open: FileOpen
    """Flags that files are opened with."""
    call: SpaceCall
    """The call that an operation makes."""


class MetadataEngine(TaggedStruct, tag="metadata"):
    """Metadata operations on local files and directories, with reads and writes of open files: those of a tree in
    threads, one for each operation in flight, others one at a time."""

    open: FileOpen
    """Flags that files are opened with."""
    keep_open: bool
    """Create and open leave the file open for reads and writes, until it is closed or deleted; otherwise they close it
    at once."""


class NfsMetadataEngine(TaggedStruct, tag="nfs_metadata"):
    """Metadata operations on an NFS export, with reads and writes of open files: calls in flight on the connections."""

    mount: NfsMount
    """Server and export."""
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
"""Engine that performs the I/O."""


class IoBurst(Struct):
    """Limits that hold while credits last: each operation and byte above the base limits costs a credit, each below
    gains one."""

    iops: U64
    """Operations per second; at least the base limit."""
    bytes_per_s: U64
    """Bytes per second; at least the base limit."""
    duration_ns: U64
    """Time that full credits last at the full burst."""


class IoLimits(Struct):
    """Operations and bytes per second, reads and writes together."""

    iops: U64
    """Operations per second; at least 1."""
    bytes_per_s: U64
    """Bytes per second; at least 1."""
    burst: IoBurst | None = None
    """Higher limits while burst credits last."""


HostCache = Literal["none", "read_only", "read_write"]
"""Caching of a disk by the host of its virtual machine.

none: No caching.
read_only: Reads and writes fill the cache; a write completes once it is on the disk.
read_write: Reads and writes fill the cache; a write completes once it is in the cache, and goes to the disk later.
"""


class VmPlan(Struct):
    """A virtual machine. Disks that name the same one share its limits."""

    name: str
    """Name of the machine."""
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
    """Caching by the virtual machine's host."""
    latency_ns: U64 = 0
    """Latency added to each operation that goes to the disk."""
    vm: VmPlan | None = None
    """Virtual machine that the disk is attached to; None sets no further limits."""


Layout = Literal["existing", "fill", "reserve", "new", "create", "recreate", "recreate_reserve", "directory", "nothing"]
"""Preparation of a file before the run.

existing: The file must exist and be long enough (always so for devices and the null engine).
fill: Created if missing, and written up to the region's end; existing data stay.
reserve: Created if missing, and extended to the region's end without writing; existing data stay.
new: The file must not exist; it is created and written.
create: Created if missing; the length stays. Writes behind the end extend the file, reads there return no data.
recreate: Created if missing, emptied if not, and written. Existing data are lost: the user requested it.
recreate_reserve: As ``recreate``, but extended without writing.
directory: A directory, created if missing; what it has stays.
nothing: Nothing is prepared: metadata operations create the file or directory, or find it there.
"""


class FilePlan(Struct):
    """A file or device, and the region of it that is used."""

    path: str
    """Path; for NFS relative to the export."""
    offset_bytes: U64
    """Start of the region."""
    bytes: U64
    """Length of the region."""
    start_bytes: U64 = 0
    """Offset in the region at which sequential operations begin."""
    layout: Layout
    """Preparation before the run."""
    keep: bool
    """The file stays after the run; otherwise the run removes it if it created it."""


FileSelect = Literal["round_robin", "random", "by_size", "sequential"]
"""Order in which operations go to files.

round_robin: One file after another, in turn.
random: Random, all files equally likely.
by_size: Random, in proportion to the size of the region: all bytes are equally likely.
sequential: One file to its end, then the next.
"""
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
Flushes (NFS: COMMIT) come last; only a replay has them in its mix.

read: Reads data.
write: Writes data.
trim: Discards a range (``BLKDISCARD``; ``FALLOC_FL_PUNCH_HOLE`` on files).
create: Creates a regular file, or opens it if it exists (NFS: CREATE, UNCHECKED).
open: Opens a file (NFS: LOOKUP).
close: Closes an open file (NFS: COMMIT if unstable data were written to it, else no call).
getattr: Gets the attributes of a name with ``stat(2)`` (NFS: LOOKUP, or GETATTR if the file is open).
setattr: Sets access and modification time to now with ``utimensat(2)`` (NFS: LOOKUP unless the file is open, then
    SETATTR).
access: Checks that a name may be read with ``faccessat(2)`` (NFS: LOOKUP unless the file is open, then ACCESS).
rename: Renames a file to the path of another file, whose index the address has as its offset. A file with that name
    is never replaced.
delete: Removes a file (NFS: REMOVE).
mkdir: Creates a directory.
rmdir: Removes an empty directory.
lookup: Finds a name with ``faccessat(2)`` of ``F_OK`` (NFS: LOOKUP).
link: Gives a file a second name, whose index the address has as its offset (NFS: LOOKUP unless the file is open,
    then LINK).
symlink: Creates a symbolic link to a file of the same directory; the address has the link's index as its offset.
readlink: Reads a symbolic link with ``readlink(2)`` (``NFSv3``: LOOKUP, then READLINK).
readdir: Lists a directory to its end: names only, as ``getdents64(2)`` (NFS: READDIR until its end).
readdirplus: Lists a directory to its end, with the attributes of its entries: ``getdents64(2)`` and ``statx(2)`` of
    each (``NFSv3``: READDIRPLUS, ``NFSv4.1``: READDIR with attributes, until its end).
copy: Copies a file to the path of another, whose index the address has as its offset: opens both, reads and writes
    all, closes both.
read_file: Opens a file, reads all of it, closes it.
write_file: Creates a file or empties the one that exists, writes all of it, closes it. What was written is then on
    stable storage over NFS, as after a close(2) of a kernel client.
fsync: ``fsync(2)``, issued by a ``SyncPlan``.
fdatasync: ``fdatasync(2)``, issued by a ``SyncPlan``.
sync_file_range: ``sync_file_range(2)`` over the region written since the last flush, including the wait for
    write-back; issued by a ``SyncPlan``.
fsync_at_end: ``fsync(2)`` of a file after the last operation.
"""
METADATA_KINDS: tuple[MetadataKind, ...] = get_args(MetadataKind)
FLUSH_KINDS: tuple[FlushKind, ...] = get_args(FlushKind)


class BlockShare(Struct):
    """One of several block sizes."""

    bytes: Count
    """Size; at least 1."""
    weight: U32
    """Share of the operations, relative to the other sizes."""


class FixedBlocks(TaggedStruct, tag="fixed"):
    """Operations of one size."""

    bytes: Count
    """At least 1."""


class BlockRange(TaggedStruct, tag="range"):
    """``low``, ``low + step`` and so on up to ``high``, all equally likely."""

    low: Count
    """Smallest; at least 1."""
    high: Count
    """Largest."""
    step: Count
    """At least 1."""


class BlockSplit(TaggedStruct, tag="split"):
    """Several sizes by weight (fio's bssplit)."""

    parts: Annotated[tuple[BlockShare, ...], Meta(min_length=1)]
    """At least one, with a sum of weights above 0."""


Blocks = FixedBlocks | BlockRange | BlockSplit
"""Bytes of one operation."""


class Zone(Struct):
    """A part of a region, with its share of the operations."""

    access_percent: Annotated[float, Meta(ge=0, le=100)]
    """Per cent of the operations."""
    offset_bytes: U64
    """Start of the zone, from the region's start."""
    bytes: U64
    """Length of the zone."""


class Uniform(TaggedStruct, tag="uniform"):
    """All blocks are equally likely."""


class Zipf(TaggedStruct, tag="zipf"):
    """The k-th most popular block has a probability proportional to 1/k^theta."""

    theta: Annotated[float, Meta(gt=0)]
    """Above 0, not 1."""
    center: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Position of the most popular block, as a fraction of the region; None spreads popular blocks by a hash."""


class Pareto(TaggedStruct, tag="pareto"):
    """Self-similar: a share of 1 - h of the operations goes to a share h of the blocks."""

    h: Annotated[float, Meta(gt=0, lt=1)]
    """Between 0 and 1."""
    center: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Position of the most popular block, as a fraction of the region; None spreads popular blocks by a hash."""


class Normal(TaggedStruct, tag="normal"):
    """Gaussian around the middle of the region."""

    deviation_percent: Annotated[float, Meta(gt=0)]
    """Standard deviation in per cent of the region."""
    center: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Position of the mean, as a fraction of the region; None is one half."""


class Zones(TaggedStruct, tag="zones"):
    """Consecutive zones, each with a share of the operations."""

    zones: Annotated[tuple[Zone, ...], Meta(min_length=1)]
    """Zones in the order of their offsets. Anything beyond the region's end is cut off."""


Distribution = Uniform | Zipf | Pareto | Normal | Zones
"""Distribution of random offsets. In Zipf and Pareto the popular blocks are spread over the region by a hash; normal
and zones have locations."""
RateUnit = Literal["operations", "bytes"]
"""Unit of a rate.

operations: Operations.
bytes: Bytes.
"""
Arrivals = Literal["even", "poisson"]
"""Distribution of the arrivals of a rate.

even: Equal distances.
poisson: Exponentially distributed distances (a Poisson process) with the mean of the rate.
"""


class Rate(Struct):
    """An open-loop rate: ``count`` per ``per_ns``. The k-th operation is due at exactly k × per / count."""

    unit: RateUnit
    """Unit of ``count``."""
    count: U64
    """Units per ``per_ns``; at least 1."""
    per_ns: U64
    """At least 1."""
    arrivals: Arrivals = "even"
    """Distribution of the arrivals."""


class OperationPlan(Struct):
    """One kind of operation in a worker's mix."""

    kind: OperationKind
    """Kind of the operation."""
    share: U32
    """Weight in the mix. If any operation has a rate, each kind is paced by itself and weights are ignored."""
    blocks: Blocks
    """Block sizes."""
    align_bytes: U64 = 0
    """Alignment of random offsets; 0 is the smallest block."""
    random_percent: Percentage
    """Per cent of the operations that go to a random offset; the others continue after the last one."""
    distribution: Distribution = Uniform()
    """Distribution of random offsets."""
    rate: Rate | None
    """Rate limit of this kind; None is as fast as possible."""


Cover = Literal["once", "independent"]
"""Order of the random blocks in a pass.

once: Every block once per pass (fio's random map).
independent: Blocks are drawn independently (fio's ``norandommap``).
"""
Passes = Literal["same", "fresh"]
"""Random sequence of the next pass over the region.

same: The same sequence again (fio's ``randrepeat=1``).
fresh: A new sequence.
"""
AtEnd = Literal["wrap", "stop"]
"""Behaviour at the end of the region in sequential order.

wrap: Wraps to the region's start.
stop: Ends the worker once all its files are exhausted (vdbench's ``seekpct=eof``).
"""
Position = Literal["kind", "worker", "job", "identical", "repeated"]
"""Sharing of the sequential position.

kind: Each kind of operation of a worker has a position (fio).
worker: All kinds of a worker share a position (vdbench, DiskSpd).
job: All workers of a job share a position per file (DiskSpd's ``-si``).
identical: All kinds take turns at one position, which only the last kind advances: a range is trimmed, then written
    (fio's ``trimwrite``).
repeated: Each kind has a position, and repeats it for the rest of a run (fio's ``rw_sequencer=identical``).
"""


class Strided(Struct):
    """Zones with gaps between them: a window of ``range_bytes`` that advances by ``range_bytes + skip_bytes`` when
    ``zone_bytes`` have been transferred in it (fio's ``zonemode=strided``)."""

    range_bytes: U64
    """Bytes of the region that a zone spans (fio's ``zonerange``)."""
    zone_bytes: U64
    """Bytes to transfer in a zone before moving to the next (fio's ``zonesize``)."""
    skip_bytes: U64
    """Bytes skipped after a zone (fio's ``zoneskip``)."""


class Access(Struct):
    """Order of the offsets in a file."""

    cover: Cover = "once"
    """Order of the random blocks. With a distribution other than uniform a block can always come again."""
    passes: Passes = "same"
    """Random sequence of the next pass over the region."""
    run_length: Count = 1
    """Consecutive operations at each random offset, the first included (fio's ``randread:8``); at least 1."""
    gap_bytes: int = 0
    """Bytes skipped after each sequential operation; negative goes backwards (fio's ``read:8k``)."""
    gap_spread_bytes: U64 = 0
    """Further bytes skipped after each sequential operation, drawn from 0 up to this (vdbench's ``stride``)."""
    at_end: AtEnd = "wrap"
    """Behaviour at the end of the region in sequential order."""
    short_last_block: bool = False
    """The last sequential operation of a region has the bytes that are left (elbencho); otherwise bytes that are fewer
    than a block are skipped."""
    position: Position = "kind"
    """Sharing of the sequential position."""
    strided: Strided | None = None
    """fio's strided zones; None uses the whole region."""


class Batch(Struct):
    """Batch sizes of submission and completion. ``submit`` 0, ``complete_min`` 1, ``complete_max`` 0 and ``low`` 0
    submit and complete as soon as possible."""

    submit: U32 = 0
    """Most operations submitted at once; 0 is all that are due."""
    complete_min: U32 = 1
    """Completions to wait for at once; 0 polls without waiting."""
    complete_max: U32 = 0
    """Most completions reaped at once; 0 is all that are available."""
    low: U32 = 0
    """Once the depth is reached, the worker submits nothing until at most this many operations are in flight (fio's
    ``iodepth_low``); 0 is the depth itself."""


ThinkCounts = Literal["completed", "issued"]
"""Operations that count towards a pause.

completed: Completed operations.
issued: Submitted operations.
"""


class Think(Struct):
    """Pauses between operations (fio's ``thinktime``, DiskSpd's ``-i`` and ``-j``)."""

    pause_ns: U64
    """Length of a pause."""
    spin_ns: U64 = 0
    """Part of the pause in which the processor is kept busy."""
    every: U32 = 1
    """Operations between pauses; 0 sets no number, and ``every_ns`` alone decides."""
    counts: ThinkCounts = "completed"
    """Operations that count towards a pause."""
    every_ns: U64 | None = None
    """Length of the load between pauses, if ``every`` operations do not come first (fio's ``thinktime_iotime``)."""
    drains: bool = True
    """Operations in flight complete before a pause begins (fio); otherwise the pause begins at once (DiskSpd)."""
    moves_schedule: bool = False
    """A pause moves due times (fio's ``rate_ignore_thinktime``); otherwise the worker catches up."""


class SyncPlan(Struct):
    """A flush after every ``every`` writes, reported as its own kind (NFS: COMMIT)."""

    kind: SyncKind
    """``fsync``, ``fdatasync`` or ``sync_file_range``, each at most once."""
    every: Count
    """Writes between two flushes; at least 1."""


class Replay(Struct):
    """Replay of a recording (fio's ``read_iolog``). ``operations`` lists its kinds and their largest sizes."""

    path: str
    """File of records, little-endian: due time (u64, ns since the worker's start), offset (u64), bytes (u32), index of
    the file (u32), index of the kind in ``OperationKind`` (u32), 4 bytes of zeros."""
    records: U64
    """Number of records."""
    paced: bool
    """Each operation waits for its due time; otherwise they run as fast as possible."""


class SizeShare(Struct):
    """One of several file sizes. The size of a file follows from its number and the sizes."""

    bytes: U64
    """0 for empty files; an average size is at least 1."""
    weight: U32
    """Share of the files, relative to the other sizes."""


class TreePart(Struct):
    """Every ``of``-th file of a tree."""

    number: U32
    """First file, from 0; less than ``of``."""
    of: Count
    """Number of parts; at least 1."""


class TreeNames(Struct):
    """Names of directories and files, in which ``{}`` is the number, from 0, in the directory above (elbencho)."""

    directory: str
    """Name of a directory: ``d{}``. Without ``{}`` there is one."""
    file: str
    """Name of a file: ``r0-f{}``."""


class Tree(Struct):
    """Directories below a root, with files in them: ``vdb.LEVEL_NUMBER.dir`` and ``vdb_fNUMBER.file``, numbered over
    the whole tree from 0, unless the tree has other names."""

    depth: Count
    """Levels of directories; at least 1."""
    width: Count
    """Directories in each directory; at least 1."""
    files: Count
    """Files in each directory that has files; at least 1."""
    files_on_all_levels: bool
    """Every directory has files, not only those of the lowest level."""
    sizes: Annotated[tuple[SizeShare, ...], Meta(min_length=1)]
    """Sizes of files with their weights; at least one."""
    sizes_spread: bool = False
    """Sizes are drawn evenly between a half and one and a half times the size, in multiples of 1 KiB or more."""
    used_bytes: U64 | None = None
    """Only files with this sum of sizes are used, chosen at random from the part; None uses all."""
    part: TreePart | None = None
    """Only a part of the files is used: other clients have the other parts, and make and remove the same directories.
    None uses all."""
    further_roots: tuple[str, ...] = ()
    """Further roots: the directories of the first level are in the worker's root and in these in turn (elbencho)."""
    creates_parents: bool = False
    """Missing directories above the root are created, too."""
    names: TreeNames | None = None
    """Other names than vdbench's."""


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
"""A task of a worker on a tree.

remove: Removes everything below the root that has a name of such a tree; other files stay, with their directories.
make_directories: Creates the directories that are missing.
fill: Creates the files that are missing, and writes all files to their size.
transfer: Opens a file, reads and writes it, closes it. A sequential write creates the file if it does not exist.
create: Creates an empty file.
open: Opens and closes a file.
getattr: Gets the attributes of a file.
setattr: Sets the times of a file.
access: Checks the access to a file.
delete: Deletes a file.
mkdir: Creates a directory.
rmdir: Removes an empty directory.
lookup: Looks the name of a file up.
link: Gives a file a second name (``vdb_fNUMBER.link``).
symlink: Creates a symbolic link to a file (``vdb_fNUMBER.symlink``).
readlink: Reads the symbolic link to a file.
readdir: Lists a directory.
readdirplus: Lists a directory with attributes.
rename: Renames a file: to the second tree, or to ``vdb_fNUMBER.renamed`` and back.
copy: Copies a file: to the second tree, or to ``vdb_fNUMBER.copy``.
read_file: Reads a file as one operation.
write_file: Writes a file as one operation; the file is created if it does not exist.
mix: Draws a kind for each file or directory, by the shares of the worker's operations on names, attributes and whole
    files. A kind that finds nothing to work on in a few tries does its inverse first, which has its own latencies: a
    symlink is created before it is read, a file deleted before it is created.
"""


class SequentialSelect(TaggedStruct, tag="sequential"):
    """In turn; all workers on the tree share the position."""


class RandomSelect(TaggedStruct, tag="random"):
    """All equally likely."""


class SkewedSelect(TaggedStruct, tag="skewed"):
    """Files near the start are more likely: half of the selections go to the first files."""

    half_within_ppm: Count
    """Those files, in millionths of all files; at least 1."""


TreeSelect = SequentialSelect | RandomSelect | SkewedSelect
"""Order in which files and directories of a tree are selected."""


class AfterTransfers(TaggedStruct, tag="transfers"):
    """A file is closed after a number of transfers."""

    count: U64
    """At least 1."""


class AfterPercent(TaggedStruct, tag="percent"):
    """A file is closed after a part of its size."""

    percent: Percentage
    """1 to 100."""


StopAfter = AfterTransfers | AfterPercent
"""End of the transfers on one file. Sequential transfers continue there when the file is opened again."""


class TreeWork(Struct):
    """Work on the files of a directory tree, one file after another (vdbench's FSD and FWD). The worker's only file is
    the root of the tree, which is created where it is missing; its operations give the kinds that the tasks need, their
    transfer sizes, and the shares of reads and writes."""

    tree: Tree
    """Directories and files."""
    tasks: Annotated[tuple[TreeTask, ...], Meta(min_length=1)]
    """Tasks, one after another; at least one. Workers of a group on the same tree share the first three kinds: each
    file or directory is done by one of them, and the next task begins when all are done."""
    select: TreeSelect
    """Order in which files and directories are selected."""
    select_once: bool = False
    """Each file is selected once; the worker then ends."""
    delete_first: bool = False
    """A file that exists is deleted and created again before it is written."""
    flush_before_close: bool = False
    """A file that was written is flushed before it is closed."""
    files_shared: bool = False
    """Several workers may use one file at the same time."""
    times_files: bool = False
    """The time of each file from its open to its close is recorded."""
    rate_group: U32 | None = None
    """Workers of a group with the same number have the rate of the worker together, and each issues what is due next
    (vdbench's ``fwdrate``); None has it alone."""
    stop_after: StopAfter | None = None
    """End of the transfers on a file; None is as many bytes as the file has."""
    target: str | None = None
    """Root of a second tree of the same shape, to which ``copy`` and ``rename`` lead; None gives the copy or the
    renamed file another name in the same directory. Its directories must exist."""


class Flow(Struct):
    """Share of the operations of all workers with the same id (vdbench's skew, fio's flow): a worker that is ahead
    waits."""

    id: U32
    """Workers of a group with the same id share a flow."""
    weight: Count
    """Share, relative to the other workers; at least 1."""


class End(Struct):
    """Conditions that end a worker, whichever comes first. Without any, the worker runs until it is stopped."""

    runtime_ns: U64 | None
    """Length of the measured window, after the ramp."""
    bytes: U64 | None
    """Bytes transferred, all kinds together, ramp included."""
    operations: U64 | None
    """Operations, all kinds together, ramp included."""
    when_full: bool = False
    """A write that fails for lack of space ends the worker cleanly (fio's ``fill_device``); otherwise it fails the
    worker."""


class Tolerance(Struct):
    """Failed operations that are counted, with the first path of each kind and error, and do not end the worker."""

    kinds: tuple[OperationKind, ...] = ()
    """Kinds of operation; empty for all."""
    errnos: tuple[int, ...] = ()
    """Error numbers (errno); empty for all."""
    errors_max: U64 | None = None
    """Most failures of all workers of the group, those of every tolerance with a limit together: one more ends the
    worker that has it. None: no limit."""


EndsOthers = Literal["never", "always", "on_error", "together"]
"""Ends the other workers of a group when a worker has ended.

never: The others go on.
always: The others end cleanly, as finished (fio's ``exitall``); later groups still run.
on_error: The others end cleanly if this one failed (fio's ``exitall_on_error``).
together: The others end cleanly once all workers of the group with this setting have ended (vdbench's
    ``seekpct=eof``).
"""


class LatencyTarget(Struct):
    """Search for the largest depth, up to the worker's, at which a percentage of the operations stays within a latency
    (fio's ``latency_target``)."""

    target_ns: U64
    """Latency limit."""
    window_ns: U64
    """Length of the window in which each depth is tried."""
    percentile: Annotated[float, Meta(gt=0, le=100)]
    """Per cent of the operations that must be within the limit."""
    run_on: bool
    """The worker goes on at the depth found; otherwise finding it ends the worker."""


SteadyFigure = Literal["iops", "bandwidth", "latency"]
"""Figure that must be steady.

iops: Operations per second.
bandwidth: Bytes per second.
latency: Mean service latency.
"""
SteadyCriterion = Literal["deviation", "slope"]
"""Property that must be small.

deviation: The largest deviation of a sample from the mean.
slope: The slope of the least-squares line.
"""


class SteadyState(Struct):
    """Criterion for a steady state (fio's steadystate, SNIA PTS), which ends the workers of the report group."""

    figure: SteadyFigure
    """Figure that must be steady."""
    criterion: SteadyCriterion
    """Property of the figure that must be small."""
    limit: Annotated[float, Meta(ge=0)]
    """Limit of that property: in per cent of the mean, or in the figure's own unit (operations/s, bytes/s, ns; a slope
    per check)."""
    limit_is_percent: bool
    """``limit`` is in per cent of the mean, not in the figure's unit."""
    duration_ns: U64
    """Length of the window that must be steady."""
    ramp_ns: U64
    """Time ignored at the start."""
    check_ns: U64
    """Time between two samples."""


class RandomContent(TaggedStruct, tag="random"):
    """Random bytes from the worker's seed."""


class ZeroContent(TaggedStruct, tag="zero"):
    """Zeros."""


class PatternContent(TaggedStruct, tag="pattern"):
    """A pattern, repeated from the start of each buffer."""

    bytes: Annotated[str, Meta(pattern="^([0-9a-f]{2}|o{16})+$")]
    """Hexadecimal digits, at least one byte; ``oooooooooooooooo`` is the offset of the block (8 bytes, little-endian;
    fio's ``%o``)."""


class PoolContent(TaggedStruct, tag="pool"):
    """Bytes from a random offset of a pool that is filled once (DiskSpd's ``-Z1M``), from a file or at random."""

    bytes: U64
    """Size of the pool."""
    path: str | None
    """File that fills the pool; None fills it with random bytes."""


Content = RandomContent | ZeroContent | PatternContent | PoolContent
"""Content of the buffers."""
Renew = Literal["keep", "scramble", "refill"]
"""Change of a buffer before each write.

keep: The same bytes are written again.
scramble: A few bytes of each 512 change, so that no two blocks are equal (fio's ``scramble_buffers``).
refill: All bytes are new (fio's ``refill_buffers``).
"""


class Payload(Struct):
    """Data that are written."""

    content: Content
    """Content of the buffers."""
    renew: Renew
    """Change of a buffer before each write."""
    compress_percent: Percentage = 0
    """Per cent by which the content can be compressed; that share is zeros (or the pattern)."""
    compress_chunk_bytes: U32 = 0
    """Bytes in which the compressible share is kept; 0 is the whole block."""
    dedupe_percent: Percentage = 0
    """Per cent of the blocks that repeat an earlier block."""
    dedupe_set_blocks: U64 = 0
    """Blocks that the repeated ones are drawn from (fio's ``dedupe_mode=working_set``); 0 repeats the last block that
    is not a duplicate."""


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
"""Method of verification.

header: The header alone.
null: Nothing: blocks are read back and not compared.
pattern: The pattern alone, without a header.
pattern_header: The pattern after a header.
crc7: CRC-7.
crc16: CRC-16.
crc32: CRC-32 (IEEE).
crc32c: CRC-32C (Castagnoli).
crc64: CRC-64.
xxhash: xxHash (32 bits).
md5: MD5.
sha1: SHA-1.
sha256: SHA-256.
sha512: SHA-512.
sha3224: SHA3-224.
sha3256: SHA3-256.
sha3384: SHA3-384.
sha3512: SHA3-512.
"""


class VerifyMap(Struct):
    """Files that remember what was written. Operations lock their range; others wait until it is unlocked."""

    paths: tuple[str, ...]
    """One map for each of the worker's files, created if missing. Blocks are marked with the map's name."""
    before_write: bool
    """A range is read and compared before it is written again."""
    after_write: bool
    """A range is read and compared as soon as it was written."""
    take_over: bool
    """The run that wrote the files may have been cut off: if a write was in flight, the block before it is accepted,
    too."""
    tree: str | None = None
    """File that remembers which directories and files of a tree exist, created if missing; with ``take_over`` the tree
    is compared with it. None keeps that in memory."""


class Verify(Struct):
    """Comparison of data that are read with what was written. Blocks carry a header with magic, length, offset, seed
    and checksum, or hold a pattern."""

    method: VerifyMethod
    """Method of verification."""
    interval_bytes: U32 = 0
    """Bytes with one header each, a divisor of all block sizes; 0 is the largest divisor."""
    header_offset: U32 = 0
    """Offset of the header in an interval."""
    pattern: Annotated[str, Meta(pattern="^([0-9a-f]{2}|o{16})*$")] = ""
    """For methods with a pattern; in hexadecimal, as in ``PatternContent``."""
    read_back: bool = True
    """Written data are read back and compared (fio's ``do_verify``)."""
    pass_bytes: U64 | None = None
    """Bytes issued, all kinds together, after which written data are read back before the next pass begins (a loop of
    fio's); None reads back once, at the end."""
    backlog: U32 | None = None
    """Number of writes after which they are read back at once, without waiting for the end of the pass."""
    backlog_batch: U32 = 0
    """Writes of a backlog that are read back in one batch; 0 is all of them."""
    only: bool = False
    """Writes nothing: reads and compares what an earlier run with this plan wrote (fio's ``verify_only``)."""
    fatal: bool = False
    """The first difference ends the worker at once; otherwise the worker fails at its end."""
    dump: bool = False
    """Blocks that differ, and the blocks expected, are dumped into the current directory under fio's names
    (``NAME.OFFSET.received``, ``NAME.OFFSET.expected``)."""
    map: VerifyMap | None = None
    """Files that remember what was written, for other workers and later runs; every read is compared (vdbench's data
    validation). None compares only what this worker knows."""


class LogPlan(Struct):
    """A log of operations, in addition to the intervals."""

    window_ns: U64 | None
    """Adds operations up over windows of this length; None records each operation, with its offset."""
    histograms: bool
    """Each window keeps its latency histogram."""
    records: U64
    """Most records; later ones are counted as lost."""
    files: bool = False
    """Each operation is recorded with its file."""


class Worker(Struct):
    """One thread: its engine, its files, its load."""

    job: str
    """Name of the job this worker is a part of."""
    jobnum: U32
    """Number of this worker in the job (fio's ``$jobnum``), from 0."""
    report_group: U32
    """Workers with the same number are reported as one (fio's ``group_reporting``)."""
    engine: EnginePlan
    """Engine that performs the I/O."""
    disk: DiskPlan | None = None
    """Emulated disk that the files are on; None uses the files as they are."""
    files: Annotated[tuple[FilePlan, ...], Meta(min_length=1)]
    """Files that operations go to; at least one."""
    file_select: FileSelect
    """Order in which operations go to the files."""
    file_run: Count = 1
    """Consecutive operations on one file before the next is selected; at least 1."""
    operations: Annotated[tuple[OperationPlan, ...], Meta(min_length=1)]
    """Kinds of operation and their shares; at least one."""
    access: Access
    """Order of the offsets in a file."""
    depth: Count
    """Most operations in flight (queue depth); a synchronous engine runs at 1."""
    batch: Batch = Batch()
    """Batch sizes of submission and completion."""
    rate: Rate | None = None
    """Rate limit of all kinds together, with the shares of the mix kept; excludes rates of single kinds."""
    response_limit_ns: U64 | None = None
    """Response latency beyond which operations under a rate count as late, in intervals as in the window."""
    intervals_singly: U32 | None = None
    """Intervals of this worker that are kept singly, a power of two; the next as many are joined in pairs, twice as
    many in fours, and so on. None joins none."""
    think: Think | None = None
    """Pauses between operations."""
    syncs: tuple[SyncPlan, ...] = ()
    """Flushes after writes; if several are due, only the first is issued (fio)."""
    replay: Replay | None = None
    """Replays a recording instead of what ``operations`` and ``access`` would choose."""
    tree: TreeWork | None = None
    """Works on the files of a directory tree instead of what ``files`` and ``access`` would choose; needs a metadata
    engine that keeps files open."""
    sync_at_end: bool = False
    """Flush every file once, after the last operation (fio's ``end_fsync``)."""
    flow: Flow | None = None
    """Keeps operations in proportion to those of other workers of the group; None runs independently."""
    wait_for: tuple[str, ...] = ()
    """Jobs of the same group whose workers must all have ended before this one starts (fio's ``wait_for``)."""
    start_delay_ns: U64
    """Delay of the start, after the group's start or after the workers waited for."""
    ramp_ns: U64
    """Load that runs before the measured window and is not counted."""
    end: End
    """Conditions that end the worker."""
    tolerates: tuple[Tolerance, ...] = ()
    """Failures that do not end the worker; the first tolerance that fits an operation and its error applies."""
    whole_transfers: bool = False
    """A read or write that moves fewer bytes than requested has failed (``EIO``); else it counts with the bytes that it
    moved."""
    cooldown_ns: U64 = 0
    """Load that continues after the window that ``end.runtime_ns`` ends, and is not counted (DiskSpd's ``-C``)."""
    ends_others: EndsOthers = "never"
    """Ends the other workers of the group when this one has ended."""
    ends_run: bool = False
    """Later groups are then left out, too (fio's ``exit_what=all``)."""
    ends_exit_group_only: bool = False
    """Only workers with the same ``exit_group`` end then (fio's ``exit_what=group``)."""
    exit_group: U32 = 0
    """fio's groupid: counts ``stonewall`` and ``new_group``."""
    client: U32 = 0
    """Load client that runs the worker, from 0; a run without a cluster has one client, which runs all. The engine runs
    all workers of the plan that it is given."""
    latency_target: LatencyTarget | None = None
    """Searches for the depth that a latency allows, instead of running at ``depth``."""
    steady_state: SteadyState | None = None
    """Ends the report group's workers once their figures are steady; a criterion that is never met changes nothing."""
    seed: U64
    """Seed of all random choices of this worker."""
    payload: Payload
    """Data that are written."""
    verify: Verify | None = None
    """Verification: data that are read are compared with what was written."""
    log: LogPlan | None = None
    """Log of the operations, in addition to the intervals."""
    submission_latency: bool = False
    """Submission latency is measured apart (fio's slat): each batch is then sent as soon as it is submitted. Only for
    engines that complete operations after sending them."""
    cpus: tuple[U32, ...] = ()
    """Processors that the thread may run on; empty leaves the choice to the scheduler."""


class Group(Struct):
    """Workers that start at the same instant."""

    workers: Annotated[tuple[Worker, ...], Meta(min_length=1)]
    """Each worker is one thread."""


class Plan(Struct):
    """A whole run: groups that start one after another."""

    version: Literal[2] = 2
    """Version of this contract; this build runs version 2."""
    name: str
    """Name of the run, for messages."""
    interval_ns: U64
    """Length of one reporting interval."""
    groups: Annotated[tuple[Group, ...], Meta(min_length=1)]
    """Each group starts when the one before it has ended."""
