//! The loop of one worker submits operations that are due and records completions.
//!
//! The loop owns time, pacing and accounting; the engine moves bytes. Time comes from a clock that tests control.

#![allow(clippy::inline_always, reason = "a call that is not inlined costs as much as what it does")]

mod failures;
pub(crate) mod flow;
mod flush;
mod load;
mod mix;
mod next;
mod phase;
mod range_locks;
mod read_back;
mod schedule;
mod search;
mod slots;
mod submissions;
mod submit_gate;
mod supply;
#[cfg(test)]
mod tests;
mod think;
pub(crate) mod tickets;
mod timeline;
mod wake;
mod walk;
mod zeros;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use iocurve_meter::{Clock, Latencies, Nanos};

use self::flow::Share;
use self::tickets::Tickets;
use crate::error::EngineError;
use crate::offsets::SharedPositions;
use crate::outcome::{CpuTime, DifferenceOutcome, FailureOutcome, LastWrite, State};
use crate::tree::TreeState;

pub(crate) use load::Load;
pub(crate) use timeline::Publish;

/// Longest time between two polls of the stop flag.
const STOP_CHECK: Nanos = 50_000_000;

/// Shared by a worker and its run.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    /// Stops the run.
    pub stop: Arc<AtomicBool>,
    /// Ends the worker cleanly, as finished; its window ends there.
    pub finish: Arc<AtomicBool>,
    pub clock: Clock,
    pub interval_ns: Nanos,
    /// Sequential positions that the workers of a job share.
    pub positions: SharedPositions,
    /// Failures so far of all workers of the group that count against the limit of a tolerance.
    pub failed: Arc<AtomicU64>,
    /// Tree that the worker works on.
    pub tree: Option<Arc<TreeState>>,
    /// Share of the worker in its flow.
    pub flow: Option<Share>,
    /// Due times that the worker shares with others.
    pub tickets: Option<Tickets>,
}

impl Shared {
    /// The state in which a requested stop ends the worker, if any.
    #[inline]
    fn stop_requested(&self) -> Option<State> {
        if self.stop.load(Ordering::Relaxed) {
            return Some(State::Interrupted);
        }
        self.finish.load(Ordering::Relaxed).then_some(State::Finished)
    }
}

/// Start of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    /// Start of the group: the zero of all times in the outcome.
    pub group: Nanos,
    /// Start of this worker; later than the group's if it waited for others.
    pub own: Nanos,
}

impl Start {
    pub(crate) fn with_group(at: Nanos) -> Self {
        Self { group: at, own: at }
    }
}

/// End of the loop.
#[derive(Debug)]
pub(crate) struct Ended {
    pub state: State,
    pub error: Option<EngineError>,
    /// The measured window, since the group's start.
    pub window: (Nanos, Nanos),
    /// Time at which all operations had completed, since the group's start.
    pub drained: Nanos,
    /// Operations that completed after the window, those of the cool-down included.
    pub drained_operations: u64,
    pub cpu: CpuTime,
    /// Depth that the search for a latency target has converged to.
    pub depth_found: Option<u32>,
    /// Part of the window in which written data were read back, and nothing else was done.
    pub read_back: Nanos,
    /// Labels for the result.
    pub labels: Vec<String>,
    /// Sampled reads, and those of them that held only zeros.
    pub zeros: (u64, u64),
    /// Operations that failed and did not end the worker.
    pub failures: Vec<FailureOutcome>,
    /// Differences found by verification.
    pub differences: Vec<DifferenceOutcome>,
    pub last_writes: Vec<LastWrite>,
    /// Times of files from their open to their close.
    pub files: Option<Latencies>,
}
