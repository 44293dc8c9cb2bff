//! The loop of one worker: what is due is submitted, what is done is recorded.
//!
//! The loop owns time, pacing and accounting; the engine moves bytes.

#![allow(clippy::inline_always, reason = "a call that is not inlined costs as much as what it does")]

mod flight;
pub(crate) mod flow;
mod flush;
mod load;
mod mix;
mod phase;
mod progress;
mod range_locks;
mod read_back;
mod schedule;
mod search;
mod submissions;
mod submit_gate;
mod supply;
#[cfg(test)]
mod tests;
mod think;
mod wake;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use iocurve_meter::{Clock, Nanos};

use self::flow::Share;
use crate::error::EngineError;
use crate::offsets::SharedPositions;
use crate::outcome::{CpuTime, State};

pub(crate) use load::Load;
pub(crate) use progress::Publish;

/// Longest time between two polls of the stop flag.
const STOP_CHECK: Nanos = 50_000_000;

/// What a worker shares with the run.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    /// Set from outside to end the run early.
    pub stop: Arc<AtomicBool>,
    /// Set by the run to end the worker in order, as finished: its window ends there.
    pub finish: Arc<AtomicBool>,
    /// The clock of all workers.
    pub clock: Clock,
    /// Length of a reporting interval.
    pub interval_ns: Nanos,
    /// Sequential positions that it has in common with other workers of its job.
    pub positions: SharedPositions,
    /// Its part of the operations of workers that keep in proportion.
    pub flow: Option<Share>,
}

impl Shared {
    /// The state that a stop ends the worker in, if one is requested.
    #[inline]
    fn stop_requested(&self) -> Option<State> {
        if self.stop.load(Ordering::Relaxed) {
            return Some(State::Interrupted);
        }
        self.finish.load(Ordering::Relaxed).then_some(State::Finished)
    }
}

/// When a worker starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    /// The instant that all workers of the group count from.
    pub group: Nanos,
    /// When this one's turn came: the same, or later if it waited for others.
    pub own: Nanos,
}

impl Start {
    /// Together with the group.
    pub(crate) fn with_group(at: Nanos) -> Self {
        Self { group: at, own: at }
    }
}

/// How the loop ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Finished, interrupted or failed.
    pub state: State,
    /// Why it failed.
    pub error: Option<EngineError>,
    /// The measured window, since the group's start.
    pub window: (Nanos, Nanos),
    /// When nothing was in flight any more, since the group's start.
    pub drained: Nanos,
    /// Operations that came back after the window.
    pub drained_operations: u64,
    /// CPU time in the window.
    pub cpu: CpuTime,
    /// The depth that a search for what a latency allows has come to.
    pub depth_found: Option<u32>,
    /// Part of the window in which what was written was read back, and nothing else was done.
    pub read_back: Nanos,
    /// What a reader must know about how it went.
    pub labels: Vec<String>,
}
