//! The outcome of a run: the document that the engine returns. `python/iocurve/engine/outcome.py` is generated from these
//! types (`make contract`); `serde(default)` is a default in Python, too.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Index;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use iocurve_meter::Nanos;

/// The outcome of a whole plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Outcome {
    /// The worst state of its workers.
    pub state: State,
    /// One for each worker that was started, in plan order.
    pub workers: Vec<WorkerOutcome>,
    /// Waits for servers, in order, in every phase of the run.
    #[serde(default)]
    pub stalls: Vec<Stall>,
    /// Reason why files of the run could not be removed; `null` if they could.
    #[serde(default)]
    pub files_left: Option<String>,
    /// Course of each group over time, all workers together. The first 1,024 intervals are kept singly, the next
    /// 1,024 in pairs, the next 2,048 in fours, and so on.
    #[serde(default)]
    pub intervals: Vec<GroupInterval>,
}

/// One interval, or several joined, of all workers of a group. Times are since the group's start.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GroupInterval {
    /// Index of the group.
    pub group: u32,
    /// Number of the interval, the first of those that are joined.
    pub index: u64,
    /// Number of intervals that are joined.
    pub joined: u32,
    /// The interval belongs to the ramp.
    pub ramp: bool,
    /// Start of the first worker, since the group's start.
    pub start_ns: Nanos,
    /// End of the last worker, since the group's start.
    pub end_ns: Nanos,
    /// By kind: only kinds that completed something or failed.
    pub operations: BTreeMap<String, IntervalKind>,
}

/// A server that did not answer for a time, and was waited for as on a hard mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Stall {
    /// Address of the server.
    pub server: String,
    /// Phase of the run: `layout`, `prepare` (mount), `load`, `cleanup`.
    pub phase: String,
    /// Why the server was waited for (`Connection refused`).
    pub reason: String,
    /// Since the start of the run.
    pub start_ns: Nanos,
    /// Length of the wait.
    pub duration_ns: Nanos,
}

/// A time in which the load client did not run. Latencies and rates of that time are not the target's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Absence {
    /// Start, since the group's start.
    pub start_ns: Nanos,
    /// Its length.
    pub duration_ns: Nanos,
}

/// End of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Ended as planned.
    Finished,
    /// Was stopped; what it measured is kept.
    Interrupted,
    /// Failed; what it measured until then is kept.
    Failed,
}

/// Outcome of one worker. Times are since the group's start.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkerOutcome {
    /// Index of its group in the plan.
    pub group: u32,
    /// Index in its group.
    pub worker: u32,
    /// Name of its job.
    pub job: String,
    /// Number in its job, from 0.
    pub jobnum: u32,
    /// Workers with the same number are reported as one.
    pub report_group: u32,
    /// Description of the engine (`io_uring, registered buffers and files`).
    pub engine: String,
    /// How the worker ended.
    pub state: State,
    /// Message of the error, if it failed.
    pub error: Option<String>,
    /// `errno` of the error; EIO where the error has no number.
    #[serde(default)]
    pub errno: Option<i32>,
    /// Start of the measured window, since the group's start.
    pub window_start_ns: Nanos,
    /// End of the measured window, since the group's start.
    pub window_end_ns: Nanos,
    /// Completion of the last operation, since the group's start.
    pub drained_ns: Nanos,
    /// Operations that completed after the window, those of the cool-down included.
    pub drained_operations: u64,
    /// By kind: only kinds in the plan.
    pub operations: BTreeMap<String, KindOutcome>,
    /// Time of each file of a tree from its open to its close; `null` unless the plan records it.
    #[serde(default)]
    pub files: Option<LatencyOutcome>,
    /// CPU time of the worker's thread in its window.
    pub cpu: CpuTime,
    /// Operations by the number in flight just after their submission: 1, 2 or more, 4 or more, … (the key is the lower
    /// bound, as in fio; `>=64` last).
    pub depth_levels: BTreeMap<String, u64>,
    /// Submissions by batch size: up to 4, 8, 16, 32, 64 (the key is the upper bound, as in fio; `>=64` last).
    #[serde(default)]
    pub submit_levels: BTreeMap<String, u64>,
    /// Reaps by batch size, with the same keys; `0` counts polls that found none.
    #[serde(default)]
    pub complete_levels: BTreeMap<String, u64>,
    /// Depth that the search for a latency target has converged to; `null` without a search.
    pub latency_depth: Option<u32>,
    /// Part of the window in which written data were read back, and nothing else was done.
    pub read_back_ns: Nanos,
    /// Connections that were re-established (NFS).
    pub reconnects: u64,
    /// Counters of the engine, by name: of an emulated disk `reads`, `cache_read_hits`, `waited_for_disk_iops`; of NFS
    /// `verifier_changes`, where there are any; of NFSv4.1 `session_slots`, `session_calls`, `slot_waits`, `slot_wait_ns`, `session_recoveries`; of reads `sampled_reads` and `zero_reads` (blocks of zeros), and
    /// `file_bytes` with `unwritten_bytes`, where there are any.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
    /// TCP connections at the end of the run (NFS).
    #[serde(default)]
    pub connections: Vec<ConnectionOutcome>,
    /// Facts that a reader of the figures must know (`payload_discarded`, …).
    pub labels: Vec<String>,
    /// Operations that failed and did not end the worker, by kind and error; at most 100.
    #[serde(default)]
    pub failures: Vec<FailureOutcome>,
    /// Differences found by verification, in the order in which they were found; at most 1000.
    #[serde(default)]
    pub differences: Vec<DifferenceOutcome>,
    /// Up to `depth` writes of each file that completed last, newest first; empty without verification.
    #[serde(default)]
    pub last_writes: Vec<LastWrite>,
    /// One for each interval, ramp included; later ones are joined where the plan says so (`intervals_singly`).
    pub intervals: Vec<IntervalOutcome>,
    /// Times in which this process did not run, although its load was to: it was stopped, or had no processor.
    #[serde(default)]
    #[cfg_attr(test, schemars(default))]
    pub absences: Vec<Absence>,
    /// Steady state of the whole report group; `null` where the plan has none.
    pub steady_state: Option<SteadyOutcome>,
    /// Log of the measured window, if the plan has one.
    pub log: Option<LogOutcome>,
}

/// A block, or an interval of one, that does not hold what was written; or a name or a size that is not as it was left, without
/// offsets and lengths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DifferenceOutcome {
    /// Path of the file.
    pub path: String,
    /// Offset in the file.
    pub offset: u64,
    /// Bytes compared.
    pub length: u32,
    /// Offset of the first byte that differs, if it is known; else the same as `offset`.
    pub first_offset: u64,
    /// Nature of the difference.
    pub kind: DifferenceKind,
    /// Number of the write that was found among those of the worker, or with a map among those of the place.
    pub found_write: Option<u64>,
    /// Number of the write that belongs there; `null` if it is not known.
    pub expected_write: Option<u64>,
    /// A second read found a difference, too; `null` without a second read.
    pub persists: Option<bool>,
    /// The difference in words.
    pub text: String,
}

/// Nature of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    /// A few bits differ.
    FlippedBits,
    /// The first sectors are right, the others are not.
    TornWrite,
    /// An older write is there, at a second read, too.
    LostWrite,
    /// An older write was read; a second read is right.
    StaleRead,
    /// A lost write or a stale read, and it is not known which.
    OlderData,
    /// The block belongs elsewhere.
    MisdirectedWrite,
    /// Anything else.
    Damaged,
    /// A file or directory is not there.
    Missing,
    /// A file or directory is there that was removed or renamed.
    Unexpected,
    /// The size of a file is not that of what was written.
    WrongSize,
}

/// A write near the end of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LastWrite {
    /// Index of its file in the plan.
    pub file: u32,
    /// Its offset in the file.
    pub offset: u64,
}

/// A TCP connection as the kernel reports it (`TCP_INFO`); times and counts since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ConnectionOutcome {
    /// Smoothed round-trip time.
    pub rtt_ns: Nanos,
    /// Smallest round-trip time.
    pub rtt_ns_min: Nanos,
    /// Congestion window, in segments.
    pub congestion_window: u32,
    /// Largest segment to send.
    pub segment_bytes: u32,
    /// Segments that were sent again.
    pub retransmits: u32,
    /// Time with data to send or unacknowledged.
    pub busy_ns: Nanos,
    /// Part of the busy time in which the receiver's window held the sender back.
    pub receive_window_limited_ns: Nanos,
    /// Part of the busy time in which the send buffer held the sender back.
    pub send_buffer_limited_ns: Nanos,
    /// Bytes that were sent and acknowledged.
    #[serde(default)]
    #[cfg_attr(test, schemars(default))]
    pub sent_bytes: u64,
    /// Bytes that were received.
    #[serde(default)]
    #[cfg_attr(test, schemars(default))]
    pub received_bytes: u64,
}

/// CPU time, context switches and page faults of a thread.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CpuTime {
    /// In user mode.
    pub user_ns: Nanos,
    /// In the kernel.
    pub system_ns: Nanos,
    /// Voluntary and involuntary context switches.
    pub context_switches: u64,
    /// Page faults that waited for I/O.
    #[serde(default)]
    pub major_faults: u64,
    /// Page faults without I/O.
    #[serde(default)]
    pub minor_faults: u64,
}

/// Operations of one kind on a tree that failed with one error, in the measured window or outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FailureOutcome {
    /// Kind of the operations.
    pub kind: String,
    /// Path of the first.
    pub path: String,
    /// `errno`.
    pub errno: i32,
    /// Its message.
    pub error: String,
    /// Number of the operations.
    pub count: u64,
}

/// One kind of operation in a worker's measured window.
///
/// Latencies are of the operations that completed in the window and of those that it left over: a target that is slow or
/// stalls at the end is in them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct KindOutcome {
    /// Operations that completed in the window.
    pub operations: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Operations that moved fewer bytes than requested.
    pub short: u64,
    /// Operations that were due in the window, or submitted in it without a rate, and completed after it.
    #[serde(default)]
    #[cfg_attr(test, schemars(default))]
    pub drained: u64,
    /// Bytes they moved.
    #[serde(default)]
    #[cfg_attr(test, schemars(default))]
    pub drained_bytes: u64,
    /// Operations that were due in the window, or submitted in it without a rate, and had not completed when the worker
    /// ended. Each is in the latencies with the age that it had then, a lower bound.
    #[serde(default)]
    #[cfg_attr(test, schemars(default))]
    pub unfinished: u64,
    /// Operations that were due in the window and never submitted, under a rate. Each is in the response latency with its
    /// age at the end of the window, a lower bound.
    #[serde(default)]
    #[cfg_attr(test, schemars(default))]
    pub missed: u64,
    /// Entries of directories that they listed; 0 for all kinds but `readdir` and `readdirplus`.
    #[serde(default)]
    #[cfg_attr(test, schemars(default))]
    pub entries: u64,
    /// Operations whose response took longer than the plan's `response_limit_ns`; 0 without one.
    #[serde(default)]
    #[cfg_attr(test, schemars(default))]
    pub late: u64,
    /// Service latency: from submission to completion.
    pub service: LatencyOutcome,
    /// Response latency: from due time to completion, under a rate; `null` in a closed loop, where it equals the service
    /// latency.
    pub response: Option<LatencyOutcome>,
    /// Submission latency (fio's slat): from submission to sending; `null` unless it was measured.
    #[serde(default)]
    pub submission: Option<LatencyOutcome>,
    /// Completion latency (fio's clat): from sending to completion; `null` unless submission latency was measured.
    #[serde(default)]
    pub completion: Option<LatencyOutcome>,
}

/// A latency distribution.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LatencyOutcome {
    /// Values recorded.
    pub count: u64,
    /// Smallest, exact.
    pub min_ns: Nanos,
    /// Largest, exact.
    pub max_ns: Nanos,
    /// Mean, exact.
    pub mean_ns: f64,
    /// Standard deviation of the population.
    pub stddev_ns: f64,
    /// `HdrHistogram` V2 with DEFLATE, base64; three significant digits.
    pub histogram: String,
}

/// One worker in one interval. Times are since the group's start.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IntervalOutcome {
    /// Number of the interval since the group's start; interval k is [k, k+1) × `interval_ns`. Of joined ones the first.
    pub index: u64,
    /// Number of intervals that are joined.
    #[serde(default = "one")]
    #[cfg_attr(test, schemars(extend("default" = 1)))]
    pub joined: u32,
    /// The interval belongs to the ramp. One that straddles the ramp's end is split in two records.
    pub ramp: bool,
    /// Start, since the group's start.
    pub start_ns: Nanos,
    /// End, since the group's start.
    pub end_ns: Nanos,
    /// By kind: only kinds that completed something or failed.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, IntervalKind>"))]
    pub operations: IntervalKinds,
}

fn one() -> u32 {
    1
}

/// Figures by kind, ordered by name. A run keeps thousands of these: a tree would take ten times the memory.
#[derive(Debug, Clone, Default)]
pub struct IntervalKinds(Vec<(Cow<'static, str>, IntervalKind)>);

impl IntervalKinds {
    /// The figures of one kind.
    pub fn get(&self, kind: &str) -> Option<&IntervalKind> {
        self.position(kind).ok().map(|at| &self.0[at].1)
    }

    /// Adds the figures of a later interval.
    pub(crate) fn join(&mut self, kind: Cow<'static, str>, later: IntervalKind) {
        match self.position(&kind) {
            Ok(at) => self.0[at].1.join(&later),
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, (kind, later));
            }
        }
    }

    fn position(&self, kind: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(name, _)| (**name).cmp(kind))
    }
}

impl IntoIterator for IntervalKinds {
    type Item = (Cow<'static, str>, IntervalKind);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Index<&str> for IntervalKinds {
    type Output = IntervalKind;

    fn index(&self, kind: &str) -> &IntervalKind {
        self.get(kind).unwrap_or_else(|| panic!("no operations of kind {kind}"))
    }
}

impl Serialize for IntervalKinds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(kind, figures)| (kind, figures)))
    }
}

impl<'de> Deserialize<'de> for IntervalKinds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let kinds = BTreeMap::<String, IntervalKind>::deserialize(deserializer)?;
        Ok(Self(kinds.into_iter().map(|(kind, figures)| (Cow::Owned(kind), figures)).collect()))
    }
}

/// One kind of operation in one interval; latencies are service latencies.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IntervalKind {
    /// Completed operations.
    pub operations: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Operations whose response took longer than the plan's `response_limit_ns`; 0 without one.
    #[serde(default)]
    #[cfg_attr(test, schemars(default))]
    pub late: u64,
    /// Entries of directories that they listed; 0 for all kinds but `readdir` and `readdirplus`.
    #[serde(default)]
    #[cfg_attr(test, schemars(default))]
    pub entries: u64,
    /// Mean service latency.
    pub mean_ns: f64,
    /// Its standard deviation, of the population.
    pub stddev_ns: f64,
    /// Median service latency; `null` in joined intervals of one worker.
    pub p50_ns: Option<Nanos>,
    /// 99th percentile of the service latency; `null` in joined intervals of one worker.
    pub p99_ns: Option<Nanos>,
    /// Smallest service latency, exact.
    pub min_ns: Nanos,
    /// Largest service latency, exact.
    pub max_ns: Nanos,
}

impl IntervalKind {
    /// Adds a later interval; percentiles are lost.
    pub(crate) fn join(&mut self, later: &Self) {
        let count = (self.operations + later.operations).max(1) as f64;
        let (mine, theirs) = (self.operations as f64, later.operations as f64);
        let mean_ns = mine.mul_add(self.mean_ns, theirs * later.mean_ns) / count;
        let square = |stddev: f64, mean: f64| stddev * stddev + (mean - mean_ns) * (mean - mean_ns);
        let squares = mine * square(self.stddev_ns, self.mean_ns) + theirs * square(later.stddev_ns, later.mean_ns);
        self.min_ns = match (self.operations, later.operations) {
            (0, _) => later.min_ns,
            (_, 0) => self.min_ns,
            _ => self.min_ns.min(later.min_ns),
        };
        (self.mean_ns, self.stddev_ns) = (mean_ns, (squares / count).sqrt());
        self.max_ns = self.max_ns.max(later.max_ns);
        (self.p50_ns, self.p99_ns) = (None, None);
        self.operations += later.operations;
        self.bytes += later.bytes;
        self.errors += later.errors;
        self.late += later.late;
        self.entries += later.entries;
    }
}

/// Steady state of a report group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SteadyOutcome {
    /// Time at which the figures became steady, since the group's start; `null` if they never did.
    pub attained_ns: Option<Nanos>,
    /// Value compared with the limit: the deviation or the slope, in per cent of the mean if the limit is.
    pub criterion: f64,
    /// Largest deviation from the mean of the samples, in the figure's unit.
    pub deviation: f64,
    /// Slope of the least-squares line, in the figure's unit per sample.
    pub slope: f64,
    /// The newest samples, at most one window of them.
    pub samples: Vec<SteadySample>,
}

/// All workers of a report group in one period.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SteadySample {
    /// End of the period, since the group's start.
    pub end_ns: Nanos,
    /// Operations per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Mean service latency.
    pub latency_ns: f64,
}

/// A log of operations: one record for each operation, or for each kind in each window. Columns have one entry per
/// record, in the order of completion; they are little-endian, in base64.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LogOutcome {
    /// Length of a window; `null` where each record is one operation. The last window may be shorter.
    pub window_ns: Option<Nanos>,
    /// Records kept.
    pub records: u64,
    /// Records beyond the plan's maximum.
    pub lost: u64,
    /// Names of the kinds, by their numbers.
    pub kinds: Vec<String>,
    /// `u64`: completion of the operation, or start of the window, since the group's start.
    pub at_ns: String,
    /// `u8`: number of the kind.
    pub kind: String,
    /// `u64`: bytes moved.
    pub bytes: String,
    /// `f64`: service latency, the mean over a window.
    pub service_ns: String,
    /// `u64`: response latency of an operation; empty if the worker is not paced.
    pub response_ns: String,
    /// `u64`: offset of an operation in its file; empty with windows.
    pub offset: String,
    /// `u32`: index of an operation's file in the plan; empty unless the plan asks for it.
    #[serde(default)]
    pub file: String,
    /// `u64`: operations in a window; empty without windows.
    pub operations: String,
    /// `u64`: largest service latency in a window; empty without windows.
    pub service_ns_max: String,
    /// `f64`: submission latency, the mean over a window; empty unless it was measured.
    #[serde(default)]
    pub submission_ns: String,
    /// `u64`: largest submission latency in a window; empty unless it was measured.
    #[serde(default)]
    pub submission_ns_max: String,
    /// `u64`: largest completion latency in a window; empty unless submission latency was measured.
    #[serde(default)]
    pub completion_ns_max: String,
    /// One histogram per record, if the plan has them, as in [`LatencyOutcome`]; of the completion latency where
    /// submission latency was measured.
    pub histograms: Vec<String>,
}

/// An interval of a held run, merged over workers. Times are since the group's start.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IntervalRecord {
    /// Index of the group.
    pub group: u32,
    /// Number of the interval, from 0.
    pub index: u64,
    /// The interval belongs to the ramp.
    pub ramp: bool,
    /// Start, since the group's start.
    pub start_ns: Nanos,
    /// End, since the group's start.
    pub end_ns: Nanos,
    /// By kind, with histograms.
    pub operations: BTreeMap<String, KindOutcome>,
    /// By the name of the job.
    #[serde(default)]
    pub jobs: BTreeMap<String, LiveTotals>,
}

/// Live view of a run, over all workers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Live {
    /// `layout`, `prepare`, `ready` (waits for the other clients), `ramp`, `run`, `done`.
    pub phase: String,
    /// Index of the running group.
    pub group: u32,
    /// Since the group's start (since the run's start during layout).
    pub elapsed_ns: Nanos,
    /// Bytes written by the layout so far.
    pub layout_bytes: u64,
    /// Bytes the layout will write, as far as known.
    pub layout_bytes_total: u64,
    /// Number of the newest interval that all running workers have closed, from 1; 0 before the first.
    pub intervals: u64,
    /// That interval, merged over workers, by kind.
    pub operations: BTreeMap<String, IntervalKind>,
    /// That interval, by the name of the job.
    #[serde(default)]
    pub jobs: BTreeMap<String, LiveTotals>,
    /// Totals of all intervals that workers have closed since the start of the run, ramps included, by kind.
    #[serde(default)]
    pub totals: BTreeMap<String, LiveTotals>,
    /// The server that the run waits for, since when, and why; `null` if it waits for none.
    #[serde(default)]
    pub waiting: Option<String>,
    /// The load clients; empty from the engine, which knows only this machine.
    #[serde(default)]
    pub clients: Vec<LiveClient>,
}

/// Totals of one kind of operation, or of one job, in the live view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LiveTotals {
    /// Completed operations.
    pub operations: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// Operations that failed.
    pub errors: u64,
}

/// A load client in the live view.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LiveClient {
    /// Name of the client.
    pub host: String,
    /// `running`, `silent`, `finished`, `interrupted`, `failed`, `lost`.
    pub state: String,
    /// Operations of all kinds in its newest interval.
    #[serde(default)]
    pub operations: u64,
    /// Bytes of all kinds in its newest interval.
    #[serde(default)]
    pub bytes: u64,
}
