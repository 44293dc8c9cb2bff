//! What runs: the contract between Python (which resolves a job into a plan) and the engine.
//!
//! Everything is decided here: sizes are bytes, times are nanoseconds, a `null` is a decision ("no limit").
//! `python/iocurve/plan.py` mirrors these types; a contract test holds the two together. No field may be left out:
//! serde would take a missing `Option` for `null`, hence the `deserialize_with`.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use iocurve_meter::Nanos;

pub(crate) mod plain;

/// A whole run: groups that start one after another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Version of this contract; this build runs version 2.
    pub version: u32,
    /// What people call the run.
    pub name: String,
    /// Length of one reporting interval.
    pub interval_ns: Nanos,
    /// Each group starts when the one before it has ended.
    pub groups: Vec<Group>,
}

/// Workers that start at the same instant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// One thread each.
    pub workers: Vec<Worker>,
}

/// One thread: its engine, its files, its load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Worker {
    /// Name of the job this worker is a clone of.
    pub job: String,
    /// Which clone of its job (fio's `numjobs`), from 0.
    pub clone: u32,
    /// Workers with the same number are reported as one (fio's `group_reporting`).
    pub report_group: u32,
    /// How I/O is carried out.
    pub engine: EnginePlan,
    /// The emulated disk that the files lie on; `null` is the place itself.
    #[serde(deserialize_with = "Option::deserialize")]
    pub disk: Option<DiskPlan>,
    /// What I/O goes to; at least one.
    pub files: Vec<FilePlan>,
    /// Which file the next operation goes to.
    pub file_select: FileSelect,
    /// Operations in a row that go to one file before the next is selected; 1 or more.
    pub file_run: u32,
    /// What is done, in which shares; at least one.
    pub operations: Vec<OperationPlan>,
    /// Where in a file the next operation goes.
    pub access: Access,
    /// Operations in flight at most; an engine that is synchronous runs at 1.
    pub depth: u32,
    /// How operations are handed over and fetched, where that is not as soon as possible.
    pub batch: Batch,
    /// Most that is asked of all kinds together, the mix by shares kept; excludes rates of single operations.
    #[serde(deserialize_with = "Option::deserialize")]
    pub rate: Option<Rate>,
    /// Pauses between operations.
    #[serde(deserialize_with = "Option::deserialize")]
    pub think: Option<Think>,
    /// Writes that are followed by a flush; where several are due, the first of them comes alone (fio).
    pub syncs: Vec<SyncPlan>,
    /// Flush every file once, after the last operation (fio's `end_fsync`).
    pub sync_at_end: bool,
    /// What was recorded elsewhere is done instead of what `operations` and `access` would choose.
    #[serde(deserialize_with = "Option::deserialize")]
    pub replay: Option<ReplayPlan>,
    /// Keeps its operations in proportion to those of other workers of the group; `null` goes its own pace.
    #[serde(deserialize_with = "Option::deserialize")]
    pub flow: Option<Flow>,
    /// Start only when all workers of these jobs in the same group have ended (fio's `wait_for`).
    pub wait_for: Vec<String>,
    /// Wait this long after the group's start (after those waited for).
    pub start_delay_ns: Nanos,
    /// Load that runs but is not counted, before the measured window.
    pub ramp_ns: Nanos,
    /// What ends the worker.
    pub end: End,
    /// Load that goes on after the window that `end.runtime_ns` ends, and is not counted (DiskSpd's `-C`).
    pub cooldown_ns: Nanos,
    /// What happens to the others when this worker has ended.
    pub ends_others: EndsOthers,
    /// Whether later groups do not start then, either (fio's `exit_what=all`).
    pub ends_run: bool,
    /// The depth that a latency allows is searched for, instead of running at `depth`.
    #[serde(deserialize_with = "Option::deserialize")]
    pub latency_target: Option<LatencyTarget>,
    /// Ends the report group's workers once their figures hold steady; a criterion that is never met changes nothing.
    #[serde(deserialize_with = "Option::deserialize")]
    pub steady_state: Option<SteadyState>,
    /// Seed of all chance in this worker.
    pub seed: u64,
    /// What is written.
    pub payload: Payload,
    /// What is read is compared with what was written.
    #[serde(deserialize_with = "Option::deserialize")]
    pub verify: Option<Verify>,
    /// A record of the operations themselves, besides the intervals.
    #[serde(deserialize_with = "Option::deserialize")]
    pub log: Option<LogPlan>,
    /// Whether the time until an operation is handed over is measured apart (fio's slat): every hand-over then enters the
    /// kernel by itself. For engines that carry out operations after they were handed over.
    pub submission_latency: bool,
    /// Processors the thread may run on; empty leaves it to the scheduler.
    pub cpus: Vec<u32>,
}

/// How operations are handed over and fetched. `submit` 0, `complete_min` 1, `complete_max` 0 and `low` 0 is as soon as possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// Operations handed over at once at most; 0 is all that are due.
    pub submit: u32,
    /// Completions that are waited for at once; 0 only looks.
    pub complete_min: u32,
    /// Completions that are taken at once at most; 0 is all that are there.
    pub complete_max: u32,
    /// Once the depth is reached, nothing is handed over until no more than this many are in flight (fio's
    /// `iodepth_low`); 0 is the depth itself.
    pub low: u32,
}

/// Pauses between operations (fio's `thinktime`, DiskSpd's `-i` and `-j`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Think {
    /// Length of a pause.
    pub pause_ns: Nanos,
    /// Part of the pause in which the processor is kept busy.
    pub spin_ns: Nanos,
    /// Operations between pauses; 0, with `every_ns` alone, is any number.
    pub every: u32,
    /// Whether operations are counted when handed over or when done.
    pub counts: ThinkCounts,
    /// Length of the load between pauses, if so many operations do not come first (fio's `thinktime_iotime`).
    #[serde(deserialize_with = "Option::deserialize")]
    pub every_ns: Option<Nanos>,
    /// Whether what is in flight comes back before a pause begins (fio); otherwise it begins at once (`DiskSpd`).
    pub drains: bool,
    /// Whether due times are moved by a pause (fio's `rate_ignore_thinktime`); otherwise what was missed is caught up with.
    pub moves_schedule: bool,
}

/// Which operations count towards a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkCounts {
    /// Those that are done.
    Completed,
    /// Those that are handed over.
    Issued,
}

/// A flush after so many writes, issued as an operation of its own and reported as its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyncPlan {
    /// `fsync`, `fdatasync` or `sync_file_range`, each at most once.
    pub kind: OperationKind,
    /// Writes between two; at least 1.
    pub every: u32,
}

/// Operations that were recorded elsewhere (fio's `read_iolog`): `operations` says which kinds there are and how large they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayPlan {
    /// File of records of 32 bytes, as `replay.rs` says.
    pub path: String,
    /// How many there are.
    pub records: u64,
    /// Whether each waits for its time; otherwise they follow each other as fast as possible.
    pub paced: bool,
}

/// A part of the operations of all workers with the same number (vdbench's skew, fio's `flow`): whoever is ahead waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Workers of a group with the same number belong together.
    pub id: u32,
    /// Its part, relative to the others'; at least 1.
    pub weight: u32,
}

/// What happens to the others when a worker has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndsOthers {
    /// Nothing.
    Never,
    /// They end in order, as finished (fio's `exitall`); later groups still run.
    Always,
    /// They end in order if this one failed (fio's `exitall_on_error`).
    OnError,
    /// They end in order once all workers of the group that say so have ended (vdbench's `seekpct=eof`).
    Together,
}

/// A search for the depth at which so many per cent of the operations stay within a latency, up to the worker's depth
/// (fio's `latency_target`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyTarget {
    /// The latency.
    pub target_ns: Nanos,
    /// How long each depth is tried.
    pub window_ns: Nanos,
    /// Per cent of operations that must be within it.
    pub percentile: f64,
    /// Whether to go on at the depth found until the worker's end; otherwise it ends the worker.
    pub run_on: bool,
}

/// When figures hold steady (fio's `steadystate`, SNIA PTS).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SteadyState {
    /// Which figure.
    pub figure: SteadyFigure,
    /// What of it must be small.
    pub criterion: SteadyCriterion,
    /// How small: in per cent of the mean, or in the figure's own unit (operations/s, bytes/s, ns; a slope per check).
    pub limit: f64,
    /// Whether `limit` is in per cent.
    pub limit_is_percent: bool,
    /// Over how long.
    pub duration_ns: Nanos,
    /// How long to let pass first.
    pub ramp_ns: Nanos,
    /// Time between two samples.
    pub check_ns: Nanos,
}

/// Which figure must hold steady.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SteadyFigure {
    /// Operations per second.
    Iops,
    /// Bytes per second.
    Bandwidth,
    /// Mean service latency.
    Latency,
}

/// What must be small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SteadyCriterion {
    /// The largest deviation of a sample from the mean.
    Deviation,
    /// The slope of the least-squares line.
    Slope,
}

/// How what is read is compared with what was written: blocks carry a header with magic, length, offset, seed and
/// checksum, or hold a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct Verify {
    /// What proves a block.
    pub method: VerifyMethod,
    /// Bytes with one header each, a divisor of all operations; 0 is the largest that there is.
    pub interval_bytes: u32,
    /// Where in an interval the header is.
    pub header_offset: u32,
    /// The pattern, for the methods with one; in hexadecimal.
    pub pattern: String,
    /// Whether what was written is read back and compared (fio's `do_verify`).
    pub read_back: bool,
    /// Bytes issued, all kinds together, after which what was written is read back, before the next pass begins (a loop
    /// of fio's); `null` is once, when all is written.
    #[serde(deserialize_with = "Option::deserialize")]
    pub pass_bytes: Option<u64>,
    /// Written operations after which they are read back at once, without waiting for the pass to end.
    #[serde(deserialize_with = "Option::deserialize")]
    pub backlog: Option<u32>,
    /// Operations read back in one go with a backlog; 0 is all of them.
    pub backlog_batch: u32,
    /// Nothing is written: what an earlier run with this plan wrote is read and compared (fio's `verify_only`).
    pub only: bool,
    /// Whether the first difference ends the worker (otherwise it ends it at the end, as failed).
    pub fatal: bool,
    /// Whether blocks that differ, and what they should be, are written into the current directory, as fio names them
    /// (`NAME.OFFSET.received`, `NAME.OFFSET.expected`).
    pub dump: bool,
    /// What was written is remembered in files that other workers and later runs go on with, and every read is compared
    /// with it (vdbench's data validation); `null` compares by what this worker alone knows.
    #[serde(deserialize_with = "Option::deserialize")]
    pub map: Option<VerifyMap>,
}

/// What was written is remembered in files. One operation at a time is at a place; others wait for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifyMap {
    /// One for each of the worker's files; made where it is missing. Blocks bear the mark of its name.
    pub paths: Vec<String>,
    /// Whether a place is read and compared before it is written again.
    pub before_write: bool,
    /// Whether a place is read and compared as soon as it was written.
    pub after_write: bool,
    /// Whether the run that wrote the files may have ended in the middle: of a write that was under way, the one before
    /// is right, too.
    pub take_over: bool,
}

/// What proves a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerifyMethod {
    /// The header alone.
    Header,
    /// Nothing: blocks are read back and not looked at.
    Null,
    /// The pattern alone, without a header.
    Pattern,
    /// The pattern after a header.
    PatternHeader,
    /// CRC-7.
    Crc7,
    /// CRC-16.
    Crc16,
    /// CRC-32 (IEEE).
    Crc32,
    /// CRC-32C (Castagnoli).
    Crc32c,
    /// CRC-64.
    Crc64,
    /// xxHash (32 bits).
    Xxhash,
    /// MD5.
    Md5,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
    /// SHA3-224.
    Sha3224,
    /// SHA3-256.
    Sha3256,
    /// SHA3-384.
    Sha3384,
    /// SHA3-512.
    Sha3512,
}

/// A record of the operations themselves; what of it is written to which log is decided after the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogPlan {
    /// Operations are added up over windows of this length; `null` records each one, with its offset.
    #[serde(deserialize_with = "Option::deserialize")]
    pub window_ns: Option<Nanos>,
    /// Whether each window keeps its latency histogram.
    pub histograms: bool,
    /// Records at most; what comes later is counted as lost, and said so.
    pub records: u64,
}

/// How I/O is carried out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum EnginePlan {
    /// Nothing is done: the cost of the loop itself.
    Null {},
    /// pread and pwrite, one at a time.
    Sync {
        /// How files are opened.
        open: FileOpen,
    },
    /// Linux native AIO (`io_submit`).
    Aio {
        /// How files are opened.
        open: FileOpen,
    },
    /// `io_uring` with registered files and buffers.
    Uring {
        /// How files are opened.
        open: FileOpen,
    },
    /// Copies from and to files mapped into memory; a flush is `msync`.
    Mmap {
        /// How files are opened.
        open: FileOpen,
    },
    /// User-space NFS over `nconnect` TCP connections of this worker's own.
    Nfs {
        /// Which server and export, and how to talk to it.
        mount: NfsMount,
    },
}

/// How local files are opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileOpen {
    /// Bypass the page cache (`O_DIRECT`).
    pub direct: bool,
    /// What a completed write promises.
    pub durability: Durability,
    /// Drop the file's pages from the page cache before the run.
    pub invalidate: bool,
}

/// What a completed write promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Nothing (NFS: UNSTABLE).
    None,
    /// The data are on stable storage (`O_DSYNC`; NFS: `DATA_SYNC`).
    DataSync,
    /// Data and attributes are (`O_SYNC`; NFS: `FILE_SYNC`).
    FileSync,
}

/// A user-space NFS mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NfsMount {
    /// Host name or address.
    pub host: String,
    /// TCP port of the NFS program; `null` asks the server's portmapper.
    #[serde(deserialize_with = "Option::deserialize")]
    pub port: Option<u16>,
    /// TCP port of the MOUNT program; `null` asks the server's portmapper.
    #[serde(deserialize_with = "Option::deserialize")]
    pub mount_port: Option<u16>,
    /// Exported path, as the MOUNT program knows it.
    pub export: String,
    /// Protocol version; 3.
    pub version: u32,
    /// TCP connections, 1 to 16.
    pub nconnect: u32,
    /// `AUTH_SYS` user.
    pub uid: u32,
    /// `AUTH_SYS` group.
    pub gid: u32,
    /// What a completed write promises.
    pub durability: Durability,
    /// Give up when the server has not answered for this long.
    pub timeout_ns: Nanos,
    /// Whether READ payload reaches the worker's buffers (`false` lets large payloads be discarded in the kernel).
    pub keep_payload: bool,
    /// Address of this machine that all connections come from, MOUNT's too; `null` leaves the choice to the system.
    #[serde(deserialize_with = "Option::deserialize")]
    pub source: Option<IpAddr>,
}

/// One file (or device) and the region of it that is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilePlan {
    /// Path; for NFS relative to the export.
    pub path: String,
    /// Where the region starts.
    pub offset_bytes: u64,
    /// How long the region is.
    pub bytes: u64,
    /// Where in the region sequential operations begin.
    pub start_bytes: u64,
    /// What is done before the run.
    pub layout: Layout,
    /// Whether the file stays after the run; `false` removes it if this run created it.
    pub keep: bool,
}

/// A disk of a cloud, emulated over local files: each operation is done at once and handed back when the disk and its
/// virtual machine would have had it done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskPlan {
    /// What people call it.
    pub name: String,
    /// File that keeps what the cache holds and the burst credits from run to run. Workers that name the same one share the
    /// disk; while a run uses it, no other can use one in the same directory.
    pub state_path: String,
    /// Of the disk itself, or of several striped ones together.
    pub limits: IoLimits,
    /// The largest operation that counts as one; a larger one counts as several.
    pub io_bytes: u32,
    /// What its virtual machine's host keeps of it.
    pub cache: HostCache,
    /// Added to each operation that goes to the disk.
    pub latency_ns: Nanos,
    /// What it is attached to; `null` sets no further limits.
    #[serde(deserialize_with = "Option::deserialize")]
    pub vm: Option<VmPlan>,
}

/// What a host keeps of a disk near its virtual machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostCache {
    /// Nothing.
    None,
    /// What was read or written; writes are done once the disk has them.
    ReadOnly,
    /// What was read or written; writes are done once the cache has them, and go to the disk later.
    ReadWrite,
}

/// A virtual machine, whose limits all disks with the same name of it share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VmPlan {
    /// Its name.
    pub name: String,
    /// Of what goes to disks.
    #[serde(deserialize_with = "Option::deserialize")]
    pub uncached: Option<IoLimits>,
    /// Of what goes to disks with a host cache, whether it is in the cache or not.
    #[serde(deserialize_with = "Option::deserialize")]
    pub cached: Option<IoLimits>,
    /// Size of the cache of all its disks.
    pub cache_bytes: u64,
}

/// Operations and bytes per second, reads and writes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IoLimits {
    /// Operations per second; at least 1.
    pub iops: u64,
    /// Bytes per second; at least 1.
    pub bytes_per_s: u64,
    /// What can be had beyond that for a time.
    #[serde(deserialize_with = "Option::deserialize")]
    pub burst: Option<IoBurst>,
}

/// Limits that hold while credits last: each operation and byte above the limits costs one, each below gains one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IoBurst {
    /// Operations per second; at least the limit.
    pub iops: u64,
    /// Bytes per second; at least the limit.
    pub bytes_per_s: u64,
    /// How long the credits last at the full burst, if none are gone yet.
    pub duration_ns: Nanos,
}

/// What is done to a file before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// It must be there and long enough (always so for devices and the null engine).
    Existing,
    /// Created if missing, written up to the region's end where it is shorter; what is there stays.
    Fill,
    /// Created if missing, extended without writing where it is shorter; what is there stays.
    Reserve,
    /// Must not exist; created and written.
    New,
    /// Created if missing, with whatever length it has; operations beyond its end extend it or move nothing.
    Create,
    /// Created if missing, emptied if not, and written: what was there is lost (the user said so).
    Recreate,
    /// As `Recreate`, but extended without writing.
    RecreateReserve,
}

/// Which file the next operation goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileSelect {
    /// One operation each, in order.
    RoundRobin,
    /// Any, with equal chance.
    Random,
    /// Any, with a chance that goes by the size of its region: all bytes are as likely.
    BySize,
    /// The first to its end, then the next.
    Sequential,
}

/// Kinds of operation. Open-ended: metadata operations come as further names. Flushes (NFS: COMMIT) come last; they are
/// in the mix of a replay alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    /// Data from the file.
    Read,
    /// Data to the file.
    Write,
    /// A range that is not needed any more (`BLKDISCARD`; `FALLOC_FL_PUNCH_HOLE` on files).
    Trim,
    /// `fsync(2)`, issued by a [`SyncPlan`].
    Fsync,
    /// `fdatasync(2)`, likewise.
    Fdatasync,
    /// `sync_file_range(2)` over the region written since the last flush, waiting for it; likewise.
    SyncFileRange,
    /// `fsync(2)` of a file after the last operation.
    FsyncAtEnd,
}

impl OperationKind {
    /// All kinds, in the order in which results list them.
    pub const ALL: [Self; 7] =
        [Self::Read, Self::Write, Self::Trim, Self::Fsync, Self::Fdatasync, Self::SyncFileRange, Self::FsyncAtEnd];

    /// The name used in plans and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
            Self::Fsync => "fsync",
            Self::Fdatasync => "fdatasync",
            Self::SyncFileRange => "sync_file_range",
            Self::FsyncAtEnd => "fsync_at_end",
        }
    }

    /// Whether it is a flush, which moves no data.
    #[inline]
    pub fn is_flush(self) -> bool {
        self >= Self::Fsync
    }
}

/// One kind of operation in a worker's mix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationPlan {
    /// What is done.
    pub kind: OperationKind,
    /// Weight in the mix; with a rate on any operation, operations are paced one by one and weights do not count.
    pub share: u32,
    /// Bytes of one operation.
    pub blocks: Blocks,
    /// Offsets of random operations are multiples of this; 0 is the smallest block.
    pub align_bytes: u64,
    /// Per cent of the operations that go to a random place; the others go on from the last one.
    pub random_percent: u32,
    /// Which places chance prefers.
    pub distribution: Distribution,
    /// Most that is asked of this kind; `null` is as fast as possible.
    #[serde(deserialize_with = "Option::deserialize")]
    pub rate: Option<Rate>,
}

/// Bytes of one operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Blocks {
    /// Always the same.
    Fixed {
        /// How many; at least 1.
        bytes: u32,
    },
    /// `low`, `low + step` and so on up to `high`, with equal chance.
    Range {
        /// Smallest; at least 1.
        low: u32,
        /// Largest.
        high: u32,
        /// At least 1.
        step: u32,
    },
    /// One of several, by weight.
    Split {
        /// At least one, with a weight above 0 in sum.
        parts: Vec<BlockShare>,
    },
}

/// One block size of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockShare {
    /// At least 1.
    pub bytes: u32,
    /// Its share of the operations, relative to the others'.
    pub weight: u32,
}

impl Blocks {
    /// The smallest.
    pub fn smallest(&self) -> u32 {
        match self {
            Self::Fixed { bytes } => *bytes,
            Self::Range { low, .. } => *low,
            Self::Split { parts } => parts.iter().map(|part| part.bytes).min().unwrap_or(0),
        }
    }

    /// The largest: what a buffer must hold.
    pub fn largest(&self) -> u32 {
        match self {
            Self::Fixed { bytes } => *bytes,
            Self::Range { high, .. } => *high,
            Self::Split { parts } => parts.iter().map(|part| part.bytes).max().unwrap_or(0),
        }
    }
}

/// Which places chance prefers. Numbers of blocks are spread over the region by a hash where the distribution is about
/// popularity (Zipf, Pareto), and are places where it is about location (normal, zones).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Distribution {
    /// All alike.
    Uniform {},
    /// The k-th most popular block with a chance of 1/k^theta.
    Zipf {
        /// Above 0, not 1.
        theta: f64,
        /// Where the most popular block is, as a part of the region; `null` spreads by a hash.
        #[serde(deserialize_with = "Option::deserialize")]
        center: Option<f64>,
    },
    /// Self-similar: a share of `1 - h` of the operations goes to a share of `h` of the blocks.
    Pareto {
        /// Between 0 and 1.
        h: f64,
        /// Where the most popular block is, as a part of the region; `null` spreads by a hash.
        #[serde(deserialize_with = "Option::deserialize")]
        center: Option<f64>,
    },
    /// Gaussian around the middle of the region.
    Normal {
        /// Standard deviation in per cent of the region.
        deviation_percent: f64,
        /// The middle, as a part of the region; `null` is one half.
        #[serde(deserialize_with = "Option::deserialize")]
        center: Option<f64>,
    },
    /// Zones one after another, each with its share of the operations.
    Zones {
        /// In the order in which they lie; those beyond the region's end are cut off.
        zones: Vec<Zone>,
    },
}

/// A part of a region with its share of the operations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// Per cent of the operations.
    pub access_percent: f64,
    /// Where it starts, from the region's start.
    pub offset_bytes: u64,
    /// How long it is.
    pub bytes: u64,
}

/// An open-loop rate: `count` per `per_ns`. The k-th operation is due at exactly k × per / count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// What is counted.
    pub unit: RateUnit,
    /// How many; at least 1.
    pub count: u64,
    /// In how long; at least 1.
    pub per_ns: Nanos,
    /// When, within that.
    pub arrivals: Arrivals,
}

/// When operations of a rate are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// At equal distances.
    Even,
    /// At exponentially distributed distances (a Poisson process) of that mean.
    Poisson,
}

/// What a rate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateUnit {
    /// Operations.
    Operations,
    /// Bytes.
    Bytes,
}

/// Where in a file the next operation goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// Whether a random block can come again before all have come; draws that prefer some places always can.
    pub cover: Cover,
    /// Whether the next pass over the region repeats the random sequence of this one.
    pub passes: Passes,
    /// Operations at consecutive places that follow each random one, itself included (fio's `randread:8`); at least 1.
    pub run_length: u32,
    /// Left out after each sequential operation; negative goes backwards (fio's `read:8k`).
    pub gap_bytes: i64,
    /// Further bytes to leave out after each sequential operation, drawn up to this (vdbench's `stride`); 0 is none.
    pub gap_spread_bytes: u64,
    /// What follows the end of the region in sequential order.
    pub at_end: AtEnd,
    /// Who shares a sequential position.
    pub position: Position,
    /// fio's strided zones; `null` uses the whole region.
    #[serde(deserialize_with = "Option::deserialize")]
    pub strided: Option<Strided>,
}

/// What follows the end of the region in sequential order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtEnd {
    /// Its start.
    Wrap,
    /// The worker's end, once all its files are through (vdbench's `seekpct=eof`).
    Stop,
}

/// Who shares a sequential position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Position {
    /// Each kind of operation of a worker has its own (fio).
    Kind,
    /// All kinds of a worker share one (vdbench, DiskSpd).
    Worker,
    /// All workers of a job share one per file (DiskSpd's `-si`).
    Job,
    /// All kinds take turns at one that only the last of them moves on: a place is trimmed, then written (fio's `trimwrite`).
    Identical,
    /// Each kind has its own, and stays where it is for the rest of a run (fio's `rw_sequencer=identical`).
    Repeated,
}

impl Position {
    /// Whether each kind of operation of a worker has one.
    pub(crate) fn is_of_kind(self) -> bool {
        matches!(self, Self::Kind | Self::Repeated)
    }
}

/// A window of `range_bytes` that moves by `range_bytes + skip_bytes` when `zone_bytes` have been transferred in it (fio's
/// `zonemode=strided`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Strided {
    /// Bytes of the region that a zone spans (fio's `zonerange`).
    pub range_bytes: u64,
    /// Bytes to transfer in a zone before the next (fio's `zonesize`).
    pub zone_bytes: u64,
    /// Bytes left out after a zone (fio's `zoneskip`).
    pub skip_bytes: u64,
}

/// Whether a block can come again before all have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cover {
    /// Every block once per pass (fio's random map).
    Once,
    /// Each draw is independent (fio's `norandommap`).
    Independent,
}

/// Whether the next pass over the region repeats the sequence of this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Passes {
    /// The same sequence again (fio's `randrepeat=1`).
    Same,
    /// A new sequence.
    Fresh,
}

/// What ends a worker: whichever comes first. At least one is set, or it runs until it is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Length of the measured window, after the ramp.
    #[serde(deserialize_with = "Option::deserialize")]
    pub runtime_ns: Option<Nanos>,
    /// Bytes transferred, all kinds together, ramp included.
    #[serde(deserialize_with = "Option::deserialize")]
    pub bytes: Option<u64>,
    /// Operations, all kinds together, ramp included.
    #[serde(deserialize_with = "Option::deserialize")]
    pub operations: Option<u64>,
    /// Whether a write for which there is no room ends the worker in order (fio's `fill_device`); otherwise it has failed.
    pub when_full: bool,
}

/// What is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Payload {
    /// What buffers hold.
    pub content: Content,
    /// What happens to a buffer before each write.
    pub renew: Renew,
    /// Per cent by which the content can be compressed; zeros (or the pattern) make up for it.
    pub compress_percent: u32,
    /// Bytes in which that share is kept; 0 is the whole block.
    pub compress_chunk_bytes: u32,
    /// Per cent of the blocks that have been written before.
    pub dedupe_percent: u32,
}

/// What buffers hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Content {
    /// Random bytes from the worker's seed.
    Random {},
    /// Zeros.
    Zero {},
    /// A pattern over and over, from the start of each buffer.
    Pattern {
        /// In hexadecimal, at least one byte; `%o` of fio (the offset, 8 bytes, little-endian) is written as `oooooooooooooooo`.
        bytes: String,
    },
    /// Bytes from a random place of a pool that is made once (DiskSpd's `-Z1M`): from a file, or random.
    Pool {
        /// Size of the pool.
        bytes: u64,
        /// File that fills the pool; `null` fills it by chance.
        #[serde(deserialize_with = "Option::deserialize")]
        path: Option<String>,
    },
}

/// What happens to a buffer before each write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Renew {
    /// Nothing: the same bytes again.
    Keep,
    /// A few bytes of each 512 change, so that no two blocks are the same (fio's `scramble_buffers`).
    Scramble,
    /// All bytes are new (fio's `refill_buffers`).
    Refill,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) use super::plain::{file, operation, worker};

    /// A disk of 1000 IOPS and 1 MB/s by itself, without a cache.
    pub(crate) fn disk() -> DiskPlan {
        DiskPlan {
            name: "disk".into(),
            state_path: "state".into(),
            limits: IoLimits { iops: 1000, bytes_per_s: 1_000_000, burst: None },
            io_bytes: 256 << 10,
            cache: HostCache::None,
            latency_ns: 0,
            vm: None,
        }
    }

    #[test]
    fn unknown_fields_are_refused() {
        let mut value = serde_json::to_value(worker()).unwrap();
        value["surprise"] = 1.into();
        assert!(serde_json::from_value::<Worker>(value).unwrap_err().to_string().contains("surprise"));
    }
}
