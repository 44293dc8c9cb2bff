//! What runs: the contract between Python (which resolves a job into a plan) and the engine.
//!
//! Everything is decided here: sizes are bytes, times are nanoseconds, a `null` is a decision ("no limit").
//! `python/iocurve/plan.py` mirrors these types; a contract test holds the two together. No field may be left out:
//! serde would take a missing `Option` for `null`, hence the `deserialize_with`.

mod disk;
mod facts;
mod load;
mod pacing;
mod payload;
pub(crate) mod plain;
mod target;
mod verify;

use serde::{Deserialize, Serialize};

use iocurve_meter::Nanos;

pub use self::disk::{DiskPlan, HostCache, IoBurst, IoLimits, VmPlan};
pub use self::load::{
    Access, AtEnd, Batch, BlockShare, Blocks, Cover, Distribution, OperationKind, OperationPlan, Passes, Position,
    ReplayPlan, Strided, SyncPlan, Zone,
};
pub use self::pacing::{
    Arrivals, End, EndsOthers, Flow, LatencyTarget, Rate, RateUnit, SteadyCriterion, SteadyFigure, SteadyState, Think,
    ThinkCounts,
};
pub use self::payload::{Content, Payload, Renew};
pub use self::target::{Durability, EnginePlan, FileOpen, FilePlan, FileSelect, Layout, NfsMount};
pub use self::verify::{Verify, VerifyMap, VerifyMethod};

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
