//! What runs: the contract between Python (which resolves a job into a plan) and the engine.
//!
//! Everything is decided here: sizes are bytes, times are nanoseconds, a `null` is a decision ("no limit").
//! `python/iocurve/plan.py` mirrors these types; a contract test holds the two together. No field may be left out:
//! serde would take a missing `Option` for `null`, hence the `deserialize_with`.

use serde::{Deserialize, Serialize};

use iocurve_meter::Nanos;

/// A whole run: groups that start one after another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Version of this contract; this build runs version 1.
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
    /// What I/O goes to; at least one.
    pub files: Vec<FilePlan>,
    /// Which file the next operation goes to.
    pub file_select: FileSelect,
    /// What is done, in which shares; at least one.
    pub operations: Vec<OperationPlan>,
    /// Where in a file the next operation goes.
    pub access: Access,
    /// Operations in flight at most; an engine that is synchronous runs at 1.
    pub depth: u32,
    /// Wait this long after the group's start.
    pub start_delay_ns: Nanos,
    /// Load that runs but is not counted, before the measured window.
    pub ramp_ns: Nanos,
    /// What ends the worker.
    pub end: End,
    /// Seed of all chance in this worker.
    pub seed: u64,
    /// What is written.
    pub payload: Payload,
    /// Processor the thread is bound to; `null` leaves it to the scheduler.
    #[serde(deserialize_with = "Option::deserialize")]
    pub cpu: Option<u32>,
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
    /// What is done before the run.
    pub layout: Layout,
    /// Whether the file stays after the run; `false` removes it if this run created it.
    pub keep: bool,
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
}

/// Which file the next operation goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileSelect {
    /// One operation each, in order.
    RoundRobin,
    /// Any, with equal chance.
    Random,
    /// The first to its end, then the next.
    Sequential,
}

/// Kinds of operation. Open-ended: metadata operations, flush and trim come as further names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    /// Data from the file.
    Read,
    /// Data to the file.
    Write,
}

impl OperationKind {
    /// All kinds, in the order in which results list them.
    pub const ALL: [Self; 2] = [Self::Read, Self::Write];

    /// The name used in plans and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// One kind of operation in a worker's mix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationPlan {
    /// What is done.
    pub kind: OperationKind,
    /// Weight in the mix; with a rate on any operation, operations are paced one by one and weights do not count.
    pub share: u32,
    /// Bytes of one operation.
    pub block_bytes: u32,
    /// Most that is asked of this kind; `null` is as fast as possible.
    #[serde(deserialize_with = "Option::deserialize")]
    pub rate: Option<Rate>,
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

/// Where in a file the next operation goes. Offsets are multiples of the operation's block size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case", deny_unknown_fields)]
pub enum Access {
    /// One after another, from the start again at the end; each kind has its own position.
    Sequential {},
    /// By chance.
    Random {
        /// Whether a block can come again before all have come.
        cover: Cover,
        /// Whether the next pass over the region repeats the sequence of this one.
        passes: Passes,
    },
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
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Payload {
    /// What buffers hold at the start.
    pub content: Content,
    /// What happens to a buffer before each write.
    pub renew: Renew,
}

/// What buffers hold at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Random bytes from the worker's seed.
    Random,
    /// Zeros.
    Zero,
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

    pub(crate) fn file(path: &str, bytes: u64) -> FilePlan {
        FilePlan { path: path.into(), offset_bytes: 0, bytes, layout: Layout::Existing, keep: true }
    }

    pub(crate) fn operation(kind: OperationKind, block_bytes: u32) -> OperationPlan {
        OperationPlan { kind, share: 1, block_bytes, rate: None }
    }

    /// A worker that reads 4 KiB blocks of 1 MiB sequentially, with an engine that does nothing.
    pub(crate) fn worker() -> Worker {
        Worker {
            job: "job".into(),
            clone: 0,
            report_group: 0,
            engine: EnginePlan::Null {},
            files: vec![file("f", 1 << 20)],
            file_select: FileSelect::RoundRobin,
            operations: vec![operation(OperationKind::Read, 4096)],
            access: Access::Sequential {},
            depth: 1,
            start_delay_ns: 0,
            ramp_ns: 0,
            end: End { runtime_ns: None, bytes: None, operations: None },
            seed: 1,
            payload: Payload { content: Content::Zero, renew: Renew::Keep },
            cpu: None,
        }
    }

    #[test]
    fn unknown_fields_are_refused() {
        let mut value = serde_json::to_value(worker()).unwrap();
        value["surprise"] = 1.into();
        assert!(serde_json::from_value::<Worker>(value).unwrap_err().to_string().contains("surprise"));
    }
}
