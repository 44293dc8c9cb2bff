//! Operations: their kinds, sizes and addresses, and how they are submitted.

use serde::{Deserialize, Serialize};

use super::pacing::Rate;

/// Kinds of operation. Reads, writes and trims come first, then metadata operations, which need a metadata engine.
/// Flushes (NFS: COMMIT) come last; only a replay has them in its mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// Discards a range (`BLKDISCARD`; `FALLOC_FL_PUNCH_HOLE` on files).
    Trim,
    /// Creates a regular file, or opens it if it exists (NFS: CREATE, UNCHECKED).
    Create,
    /// Opens a file (NFS: LOOKUP).
    Open,
    /// Closes an open file (NFS: COMMIT if unstable data were written to it, else no call).
    Close,
    /// Gets the attributes of a name with `stat(2)` (NFS: LOOKUP, or GETATTR if the file is open).
    Getattr,
    /// Sets access and modification time to now with `utimensat(2)` (NFS: LOOKUP unless the file is open, then
    /// SETATTR).
    Setattr,
    /// Checks that a name may be read with `faccessat(2)` (NFS: LOOKUP unless the file is open, then ACCESS).
    Access,
    /// Renames a file to the path of another file, whose index the address has as its offset. A file with that name is
    /// never replaced.
    Rename,
    /// Removes a file (NFS: REMOVE).
    Delete,
    /// Creates a directory.
    Mkdir,
    /// Removes an empty directory.
    Rmdir,
    /// Finds a name with `faccessat(2)` of `F_OK` (NFS: LOOKUP).
    Lookup,
    /// Gives a file a second name, whose index the address has as its offset (NFS: LOOKUP unless the file is open, then
    /// LINK).
    Link,
    /// Creates a symbolic link to a file of the same directory; the address has the link's index as its offset.
    Symlink,
    /// Reads a symbolic link with `readlink(2)` (`NFSv3`: LOOKUP, then READLINK).
    Readlink,
    /// Lists a directory to its end: names only, as `getdents64(2)` (NFS: READDIR until its end).
    Readdir,
    /// Lists a directory to its end, with the attributes of its entries: `getdents64(2)` and `statx(2)` of each (`NFSv3`:
    /// READDIRPLUS, `NFSv4.1`: READDIR with attributes, until its end).
    Readdirplus,
    /// Copies a file to the path of another, whose index the address has as its offset: opens both, reads and writes
    /// all, closes both.
    Copy,
    /// Opens a file, reads all of it, closes it.
    ReadFile,
    /// Creates a file or empties the one that exists, writes all of it, closes it. What was written is then on stable
    /// storage over NFS, as after a close(2) of a kernel client.
    WriteFile,
    /// `fsync(2)`, issued by a [`SyncPlan`].
    Fsync,
    /// `fdatasync(2)`, issued by a [`SyncPlan`].
    Fdatasync,
    /// `sync_file_range(2)` over the region written since the last flush, including the wait for write-back; issued by
    /// a [`SyncPlan`].
    SyncFileRange,
    /// `fsync(2)` of a file after the last operation.
    FsyncAtEnd,
}

impl OperationKind {
    /// All kinds, in the order in which results list them.
    pub const ALL: [Self; 26] = [
        Self::Read,
        Self::Write,
        Self::Trim,
        Self::Create,
        Self::Open,
        Self::Close,
        Self::Getattr,
        Self::Setattr,
        Self::Access,
        Self::Rename,
        Self::Delete,
        Self::Mkdir,
        Self::Rmdir,
        Self::Lookup,
        Self::Link,
        Self::Symlink,
        Self::Readlink,
        Self::Readdir,
        Self::Readdirplus,
        Self::Copy,
        Self::ReadFile,
        Self::WriteFile,
        Self::Fsync,
        Self::Fdatasync,
        Self::SyncFileRange,
        Self::FsyncAtEnd,
    ];

    /// The name used in plans and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
            Self::Create => "create",
            Self::Open => "open",
            Self::Close => "close",
            Self::Getattr => "getattr",
            Self::Setattr => "setattr",
            Self::Access => "access",
            Self::Rename => "rename",
            Self::Delete => "delete",
            Self::Mkdir => "mkdir",
            Self::Rmdir => "rmdir",
            Self::Lookup => "lookup",
            Self::Link => "link",
            Self::Symlink => "symlink",
            Self::Readlink => "readlink",
            Self::Readdir => "readdir",
            Self::Readdirplus => "readdirplus",
            Self::Copy => "copy",
            Self::ReadFile => "read_file",
            Self::WriteFile => "write_file",
            Self::Fsync => "fsync",
            Self::Fdatasync => "fdatasync",
            Self::SyncFileRange => "sync_file_range",
            Self::FsyncAtEnd => "fsync_at_end",
        }
    }

    /// Returns `true` if the operation concerns the bytes of its range.
    #[inline]
    pub fn moves_data(self) -> bool {
        self <= Self::Trim
    }

    /// Returns `true` for a flush, which moves no data.
    #[inline]
    pub fn is_flush(self) -> bool {
        self >= Self::Fsync
    }

    /// Returns `true` for a read or write of a part of a file.
    #[inline]
    pub fn is_transfer(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }

    /// Returns `true` for an operation on a name, on attributes or on a whole file.
    #[inline]
    pub fn is_metadata(self) -> bool {
        self > Self::Trim && self < Self::Fsync
    }

    /// Returns `true` for an operation that reads or writes a whole file, and opens and closes it.
    #[inline]
    pub fn moves_whole_files(self) -> bool {
        matches!(self, Self::Copy | Self::ReadFile | Self::WriteFile)
    }

    /// Returns `true` for an operation that lists a directory: its result is the number of entries.
    #[inline]
    pub fn lists(self) -> bool {
        matches!(self, Self::Readdir | Self::Readdirplus)
    }
}

/// One kind of operation in a worker's mix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OperationPlan {
    /// Kind of the operation.
    pub kind: OperationKind,
    /// Weight in the mix. If any operation has a rate, each kind is paced by itself and weights are ignored.
    pub share: u32,
    /// Block sizes.
    pub blocks: Blocks,
    /// Alignment of random offsets; 0 is the smallest block.
    #[cfg_attr(test, schemars(default))]
    pub align_bytes: u64,
    /// Per cent of the operations that go to a random offset; the others continue after the last one.
    #[cfg_attr(test, schemars(range(max = 100)))]
    pub random_percent: u32,
    /// Distribution of random offsets.
    #[cfg_attr(test, schemars(extend("default" = {"kind": "uniform"})))]
    pub distribution: Distribution,
    /// Rate limit of this kind; `null` is as fast as possible.
    #[serde(deserialize_with = "Option::deserialize")]
    pub rate: Option<Rate>,
}

/// Bytes of one operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(extend("class" = "Block{}")))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Blocks {
    /// Operations of one size.
    #[cfg_attr(test, schemars(title = "FixedBlocks"))]
    Fixed {
        /// At least 1.
        #[cfg_attr(test, schemars(range(min = 1)))]
        bytes: u32,
    },
    /// `low`, `low + step` and so on up to `high`, all equally likely.
    Range {
        /// Smallest; at least 1.
        #[cfg_attr(test, schemars(range(min = 1)))]
        low: u32,
        /// Largest.
        #[cfg_attr(test, schemars(range(min = 1)))]
        high: u32,
        /// At least 1.
        #[cfg_attr(test, schemars(range(min = 1)))]
        step: u32,
    },
    /// Several sizes by weight (fio's bssplit).
    Split {
        /// At least one, with a sum of weights above 0.
        #[cfg_attr(test, schemars(length(min = 1)))]
        parts: Vec<BlockShare>,
    },
}

/// One of several block sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BlockShare {
    /// Size; at least 1.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub bytes: u32,
    /// Share of the operations, relative to the other sizes.
    pub weight: u32,
}

/// Distribution of random offsets. In Zipf and Pareto the popular blocks are spread over the region by a hash; normal
/// and zones have locations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Distribution {
    /// All blocks are equally likely.
    Uniform {},
    /// The k-th most popular block has a probability proportional to 1/k^theta.
    Zipf {
        /// Above 0, not 1.
        #[cfg_attr(test, schemars(extend("exclusiveMinimum" = 0)))]
        theta: f64,
        /// Position of the most popular block, as a fraction of the region; `null` spreads popular blocks by a hash.
        #[serde(deserialize_with = "Option::deserialize")]
        #[cfg_attr(test, schemars(range(min = 0.0, max = 1.0), default))]
        center: Option<f64>,
    },
    /// Self-similar: a share of 1 - h of the operations goes to a share h of the blocks.
    Pareto {
        /// Between 0 and 1.
        #[cfg_attr(test, schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1)))]
        h: f64,
        /// Position of the most popular block, as a fraction of the region; `null` spreads popular blocks by a hash.
        #[serde(deserialize_with = "Option::deserialize")]
        #[cfg_attr(test, schemars(range(min = 0.0, max = 1.0), default))]
        center: Option<f64>,
    },
    /// Gaussian around the middle of the region.
    Normal {
        /// Standard deviation in per cent of the region.
        #[cfg_attr(test, schemars(extend("exclusiveMinimum" = 0)))]
        deviation_percent: f64,
        /// Position of the mean, as a fraction of the region; `null` is one half.
        #[serde(deserialize_with = "Option::deserialize")]
        #[cfg_attr(test, schemars(range(min = 0.0, max = 1.0), default))]
        center: Option<f64>,
    },
    /// Consecutive zones, each with a share of the operations.
    Zones {
        /// Zones in the order of their offsets. Anything beyond the region's end is cut off.
        #[cfg_attr(test, schemars(length(min = 1)))]
        zones: Vec<Zone>,
    },
}

/// A part of a region, with its share of the operations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// Per cent of the operations.
    #[cfg_attr(test, schemars(range(min = 0.0, max = 100.0)))]
    pub access_percent: f64,
    /// Start of the zone, from the region's start.
    pub offset_bytes: u64,
    /// Length of the zone.
    pub bytes: u64,
}

/// Order of the offsets in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// Order of the random blocks. With a distribution other than uniform a block can always come again.
    #[cfg_attr(test, schemars(extend("default" = "once")))]
    pub cover: Cover,
    /// Random sequence of the next pass over the region.
    #[cfg_attr(test, schemars(extend("default" = "same")))]
    pub passes: Passes,
    /// Consecutive operations at each random offset, the first included (fio's `randread:8`); at least 1.
    #[cfg_attr(test, schemars(range(min = 1), extend("default" = 1)))]
    pub run_length: u32,
    /// Bytes skipped after each sequential operation; negative goes backwards (fio's `read:8k`).
    #[cfg_attr(test, schemars(default))]
    pub gap_bytes: i64,
    /// Further bytes skipped after each sequential operation, drawn from 0 up to this (vdbench's `stride`).
    #[cfg_attr(test, schemars(default))]
    pub gap_spread_bytes: u64,
    /// Behaviour at the end of the region in sequential order.
    #[cfg_attr(test, schemars(extend("default" = "wrap")))]
    pub at_end: AtEnd,
    /// The last sequential operation of a region has the bytes that are left (elbencho); otherwise bytes that are fewer
    /// than a block are skipped.
    #[cfg_attr(test, schemars(default))]
    pub short_last_block: bool,
    /// Sharing of the sequential position.
    #[cfg_attr(test, schemars(extend("default" = "kind")))]
    pub position: Position,
    /// fio's strided zones; `null` uses the whole region.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub strided: Option<Strided>,
}

/// Behaviour at the end of the region in sequential order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AtEnd {
    /// Wraps to the region's start.
    Wrap,
    /// Ends the worker once all its files are exhausted (vdbench's `seekpct=eof`).
    Stop,
}

/// Sharing of the sequential position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Position {
    /// Each kind of operation of a worker has a position (fio).
    Kind,
    /// All kinds of a worker share a position (vdbench, DiskSpd).
    Worker,
    /// All workers of a job share a position per file (DiskSpd's `-si`).
    Job,
    /// All kinds take turns at one position, which only the last kind advances: a range is trimmed, then written (fio's
    /// `trimwrite`).
    Identical,
    /// Each kind has a position, and repeats it for the rest of a run (fio's `rw_sequencer=identical`).
    Repeated,
}

/// Zones with gaps between them: a window of `range_bytes` that advances by `range_bytes + skip_bytes` when `zone_bytes` have been transferred in it
/// (fio's `zonemode=strided`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Strided {
    /// Bytes of the region that a zone spans (fio's `zonerange`).
    pub range_bytes: u64,
    /// Bytes to transfer in a zone before moving to the next (fio's `zonesize`).
    pub zone_bytes: u64,
    /// Bytes skipped after a zone (fio's `zoneskip`).
    pub skip_bytes: u64,
}

/// Order of the random blocks in a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cover {
    /// Every block once per pass (fio's random map).
    Once,
    /// Blocks are drawn independently (fio's `norandommap`).
    Independent,
}

/// Random sequence of the next pass over the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Passes {
    /// The same sequence again (fio's `randrepeat=1`).
    Same,
    /// A new sequence.
    Fresh,
}

/// Batch sizes of submission and completion. `submit` 0, `complete_min` 1, `complete_max` 0 and `low` 0 submit and
/// complete as soon as possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// Most operations submitted at once; 0 is all that are due.
    #[cfg_attr(test, schemars(default))]
    pub submit: u32,
    /// Completions to wait for at once; 0 polls without waiting.
    #[cfg_attr(test, schemars(extend("default" = 1)))]
    pub complete_min: u32,
    /// Most completions reaped at once; 0 is all that are available.
    #[cfg_attr(test, schemars(default))]
    pub complete_max: u32,
    /// Once the depth is reached, the worker submits nothing until at most this many operations are in flight (fio's
    /// `iodepth_low`); 0 is the depth itself.
    #[cfg_attr(test, schemars(default))]
    pub low: u32,
}

/// A flush after every `every` writes, reported as its own kind (NFS: COMMIT).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SyncPlan {
    /// `fsync`, `fdatasync` or `sync_file_range`, each at most once.
    #[cfg_attr(test, schemars(extend("subset" = "SyncKind")))]
    pub kind: OperationKind,
    /// Writes between two flushes; at least 1.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub every: u32,
}

impl SyncPlan {
    /// Kinds of flush that can follow writes.
    pub(crate) const KINDS: [OperationKind; 3] =
        [OperationKind::Fsync, OperationKind::Fdatasync, OperationKind::SyncFileRange];
}

/// Replay of a recording (fio's `read_iolog`). `operations` lists its kinds and their largest sizes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Replay"))]
#[serde(deny_unknown_fields)]
pub struct ReplayPlan {
    /// File of records, little-endian: due time (u64, ns since the worker's start), offset (u64), bytes (u32), index of
    /// the file (u32), index of the kind in `OperationKind` (u32), 4 bytes of zeros.
    pub path: String,
    /// Number of records.
    pub records: u64,
    /// Each operation waits for its due time; otherwise they run as fast as possible.
    pub paced: bool,
}

/// Failed operations that are counted, with the first path of each kind and error, and do not end the worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Tolerance {
    /// Kinds of operation; empty for all.
    #[cfg_attr(test, schemars(default))]
    pub kinds: Vec<OperationKind>,
    /// Error numbers (errno); empty for all.
    #[cfg_attr(test, schemars(default))]
    pub errnos: Vec<i32>,
    /// Most failures of all workers of the group, those of every tolerance with a limit together: one more ends the worker that has it. `null`: no limit.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub errors_max: Option<u64>,
}
