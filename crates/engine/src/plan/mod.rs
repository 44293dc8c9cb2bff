//! The plan of a run: the contract between Python, which resolves a job into a plan, and the engine.
//!
//! A plan leaves nothing open: sizes are bytes, times are nanoseconds, and `null` is a decision ("no limit").
//! `python/iocurve/engine/plan.py` is generated from these types (`make contract`), defaults included: `schemars(default)`
//! is a default in Python. Rust requires every field; serde would read a missing `Option` as `null`, hence the
//! `deserialize_with`.

mod disk;
mod facts;
mod load;
mod pacing;
mod payload;
pub(crate) mod plain;
mod target;
mod tree;
mod verify;

use serde::{Deserialize, Serialize};

use iocurve_meter::Nanos;

pub use self::disk::{DiskPlan, HostCache, IoBurst, IoLimits, VmPlan};
pub use self::load::{
    Access, AtEnd, Batch, BlockShare, Blocks, Cover, Distribution, OperationKind, OperationPlan, Passes, Position,
    ReplayPlan, Strided, SyncPlan, Tolerance, Zone,
};
pub use self::pacing::{
    Arrivals, End, EndsOthers, Flow, LatencyTarget, Rate, RateUnit, SteadyCriterion, SteadyFigure, SteadyState, Think,
    ThinkCounts,
};
pub use self::payload::{Content, Payload, Renew};
pub use self::target::{Durability, EnginePlan, FileOpen, FilePlan, FileSelect, Layout, NfsMount, NfsTls, SpaceCall};
pub use self::tree::{SizeShare, StopAfter, Tree, TreeNames, TreePart, TreeSelect, TreeTask, TreeWork};
pub use self::verify::{Verify, VerifyMap, VerifyMethod};

/// A whole run: groups that start one after another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Version of this contract; this build runs version 2.
    #[cfg_attr(test, schemars(extend("const" = 2, "default" = 2)))]
    pub version: u32,
    /// Name of the run, for messages.
    pub name: String,
    /// Length of one reporting interval.
    pub interval_ns: Nanos,
    /// Each group starts when the one before it has ended.
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub groups: Vec<Group>,
}

/// Workers that start at the same instant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Each worker is one thread.
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub workers: Vec<Worker>,
}

/// One thread: its engine, its files, its load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "independent settings")]
pub struct Worker {
    /// Name of the job this worker is a part of.
    pub job: String,
    /// Number of this worker in the job (fio's `$jobnum`), from 0.
    pub jobnum: u32,
    /// Workers with the same number are reported as one (fio's `group_reporting`).
    pub report_group: u32,
    /// Engine that performs the I/O.
    pub engine: EnginePlan,
    /// Emulated disk that the files are on; `null` uses the files as they are.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub disk: Option<DiskPlan>,
    /// Files that operations go to; at least one.
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub files: Vec<FilePlan>,
    /// Order in which operations go to the files.
    pub file_select: FileSelect,
    /// Consecutive operations on one file before the next is selected; at least 1.
    #[cfg_attr(test, schemars(range(min = 1), extend("default" = 1)))]
    pub file_run: u32,
    /// Kinds of operation and their shares; at least one.
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub operations: Vec<OperationPlan>,
    /// Order of the offsets in a file.
    pub access: Access,
    /// Most operations in flight (queue depth); a synchronous engine runs at 1.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub depth: u32,
    /// Batch sizes of submission and completion.
    #[cfg_attr(test, schemars(extend("default" = {})))]
    pub batch: Batch,
    /// Rate limit of all kinds together, with the shares of the mix kept; excludes rates of single kinds.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub rate: Option<Rate>,
    /// Response latency beyond which operations under a rate count as late, in intervals as in the window.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub response_limit_ns: Option<Nanos>,
    /// Intervals of this worker that are kept singly, a power of two; the next as many are joined in pairs, twice as many in
    /// fours, and so on. `null` joins none.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub intervals_singly: Option<u32>,
    /// Pauses between operations.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub think: Option<Think>,
    /// Flushes after writes; if several are due, only the first is issued (fio).
    #[cfg_attr(test, schemars(default))]
    pub syncs: Vec<SyncPlan>,
    /// Replays a recording instead of what `operations` and `access` would choose.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub replay: Option<ReplayPlan>,
    /// Works on the files of a directory tree instead of what `files` and `access` would choose; needs a metadata engine
    /// that keeps files open.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub tree: Option<TreeWork>,
    /// Flush every file once, after the last operation (fio's `end_fsync`).
    #[cfg_attr(test, schemars(default))]
    pub sync_at_end: bool,
    /// Keeps operations in proportion to those of other workers of the group; `null` runs independently.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub flow: Option<Flow>,
    /// Jobs of the same group whose workers must all have ended before this one starts (fio's `wait_for`).
    #[cfg_attr(test, schemars(default))]
    pub wait_for: Vec<String>,
    /// Delay of the start, after the group's start or after the workers waited for.
    pub start_delay_ns: Nanos,
    /// Load that runs before the measured window and is not counted.
    pub ramp_ns: Nanos,
    /// Conditions that end the worker.
    pub end: End,
    /// Failures that do not end the worker; the first tolerance that fits an operation and its error applies.
    #[cfg_attr(test, schemars(default))]
    pub tolerates: Vec<Tolerance>,
    /// A read or write that moves fewer bytes than requested has failed (`EIO`); else it counts with the bytes that it moved.
    #[cfg_attr(test, schemars(default))]
    pub whole_transfers: bool,
    /// Load that continues after the window that `end.runtime_ns` ends, and is not counted (DiskSpd's `-C`).
    #[cfg_attr(test, schemars(default))]
    pub cooldown_ns: Nanos,
    /// Ends the other workers of the group when this one has ended.
    #[cfg_attr(test, schemars(extend("default" = "never")))]
    pub ends_others: EndsOthers,
    /// Later groups are then left out, too (fio's `exit_what=all`).
    #[cfg_attr(test, schemars(default))]
    pub ends_run: bool,
    /// Only workers with the same `exit_group` end then (fio's `exit_what=group`).
    #[cfg_attr(test, schemars(default))]
    pub ends_exit_group_only: bool,
    /// fio's groupid: counts `stonewall` and `new_group`.
    #[cfg_attr(test, schemars(default))]
    pub exit_group: u32,
    /// Load client that runs the worker, from 0; a run without a cluster has one client, which runs all. The engine runs
    /// all workers of the plan that it is given.
    #[cfg_attr(test, schemars(default))]
    pub client: u32,
    /// Searches for the depth that a latency allows, instead of running at `depth`.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub latency_target: Option<LatencyTarget>,
    /// Ends the report group's workers once their figures are steady; a criterion that is never met changes nothing.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub steady_state: Option<SteadyState>,
    /// Seed of all random choices of this worker.
    pub seed: u64,
    /// Data that are written.
    pub payload: Payload,
    /// Verification: data that are read are compared with what was written.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub verify: Option<Verify>,
    /// Log of the operations, in addition to the intervals.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub log: Option<LogPlan>,
    /// Submission latency is measured apart (fio's slat): each batch is then sent as soon as it is submitted.
    /// Only for engines that complete operations after sending them.
    #[cfg_attr(test, schemars(default))]
    pub submission_latency: bool,
    /// Processors that the thread may run on; empty leaves the choice to the scheduler.
    #[cfg_attr(test, schemars(default))]
    pub cpus: Vec<u32>,
}

/// A log of operations, in addition to the intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LogPlan {
    /// Adds operations up over windows of this length; `null` records each operation, with its offset.
    #[serde(deserialize_with = "Option::deserialize")]
    pub window_ns: Option<Nanos>,
    /// Each window keeps its latency histogram.
    pub histograms: bool,
    /// Most records; later ones are counted as lost.
    pub records: u64,
    /// Each operation is recorded with its file.
    #[cfg_attr(test, schemars(default))]
    pub files: bool,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) use super::plain::{file, operation, worker};

    /// A disk of 1000 IOPS and 1 MB/s without a cache.
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
