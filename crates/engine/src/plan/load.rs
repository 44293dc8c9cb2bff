//! Operations: their kinds, sizes and addresses, and how they are submitted.

use serde::{Deserialize, Serialize};

use super::pacing::Rate;

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
