//! The order in which the workers of a group start, and end each other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use iocurve_meter::Nanos;

use crate::engines::files::Unwritten;
use crate::outcome::{IntervalOutcome, State, SteadyOutcome};
use crate::plan::{EndsOthers, Group, Worker};
use crate::record::Tally;
use crate::run::steady::Steadiness;

/// Time between two polls of the stop flag by a waiting worker.
const STOP_CHECK: Duration = Duration::from_millis(20);

/// Shared by the workers of one group. Workers without `wait_for` prepare themselves, wait for each other and start at
/// one instant; if one cannot be prepared, none starts.
#[derive(Debug)]
pub(crate) struct GroupOrder<'a> {
    group: &'a Group,
    /// By worker: the flag that ends it cleanly.
    finish: Vec<Arc<AtomicBool>>,
    /// Failures that count against the limit of a tolerance.
    pub(crate) failed: Arc<AtomicU64>,
    /// Holes of the files that workers without `wait_for` read.
    pub(crate) unwritten: Unwritten,
    state: Mutex<GroupState>,
    changed: Condvar,
}

#[derive(Debug)]
struct GroupState {
    /// Workers without `wait_for` that are not prepared yet.
    unprepared: usize,
    start: Option<Nanos>,
    failed: bool,
    /// Running workers of those that end the others together.
    together: usize,
    /// Workers that have not ended, by job.
    left: BTreeMap<String, usize>,
    /// By report group.
    steadiness: BTreeMap<u32, Steadiness>,
    ends_run: bool,
}

impl<'a> GroupOrder<'a> {
    pub(crate) fn new(group: &'a Group) -> Self {
        let mut left = BTreeMap::new();
        let mut steadiness = BTreeMap::new();
        for worker in &group.workers {
            *left.entry(worker.job.clone()).or_default() += 1;
            if let Some(plan) = worker.steady_state {
                let same = |other: &&Worker| other.report_group == worker.report_group;
                let workers = group.workers.iter().filter(same).count();
                steadiness.entry(worker.report_group).or_insert_with(|| Steadiness::new(plan, workers));
            }
        }
        let unprepared = group.workers.iter().filter(|worker| worker.wait_for.is_empty()).count();
        let together = group.workers.iter().filter(|worker| worker.ends_others == EndsOthers::Together).count();
        Self {
            group,
            finish: group.workers.iter().map(|_| Arc::default()).collect(),
            failed: Arc::default(),
            unwritten: Unwritten::default(),
            state: Mutex::new(GroupState {
                unprepared,
                start: None,
                failed: false,
                together,
                left,
                steadiness,
                ends_run: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// By worker: the flag that ends it cleanly.
    pub(crate) fn finish_flags(&self) -> &[Arc<AtomicBool>] {
        &self.finish
    }

    pub(crate) fn finish_flag(&self, number: usize) -> Arc<AtomicBool> {
        Arc::clone(&self.finish[number])
    }

    /// Called by a worker that is prepared. Waits for the others and returns the common start, which the last of them
    /// gets from `start`; `None` if one cannot be prepared.
    pub(crate) fn prepared(&self, start: impl FnOnce() -> Nanos) -> Option<Nanos> {
        let mut state = self.lock();
        state.unprepared -= 1;
        if state.unprepared == 0 && !state.failed {
            drop(state);
            let start = start();
            state = self.lock();
            state.start = Some(start);
        }
        self.changed.notify_all();
        self.common_start(state)
    }

    /// Waits for the common start without being one of the workers that it waits for.
    pub(crate) fn others_start(&self) -> Option<Nanos> {
        self.common_start(self.lock())
    }

    /// The common start, if there was one.
    pub(crate) fn started(&self) -> Option<Nanos> {
        self.lock().start
    }

    /// Called when a worker cannot be prepared. Ignored after the start.
    pub(crate) fn failed(&self) {
        let mut state = self.lock();
        if state.start.is_none() {
            state.failed = true;
        }
        self.changed.notify_all();
    }

    /// Waits until all workers of the jobs in `wait_for` have ended. `None`: this worker may start; otherwise it must
    /// end in this state without starting.
    pub(crate) fn wait_for_turn(&self, number: usize, stop: &AtomicBool) -> Option<State> {
        let waits_for = &self.group.workers[number].wait_for;
        let mut state = self.lock();
        loop {
            if stop.load(Ordering::Relaxed) {
                return Some(State::Interrupted);
            }
            if self.finish[number].load(Ordering::Relaxed) {
                return Some(State::Finished);
            }
            if waits_for.iter().all(|job| state.left.get(job).is_none_or(|left| *left == 0)) {
                return None;
            }
            state = self.changed.wait_timeout(state, STOP_CHECK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Called when a worker has ended: others may start, or end with it.
    pub(crate) fn ended(&self, number: usize, how: State) {
        let worker = &self.group.workers[number];
        let mut state = self.lock();
        if let Some(left) = state.left.get_mut(&worker.job) {
            *left -= 1;
        }
        if let Some(steadiness) = state.steadiness.get_mut(&worker.report_group) {
            steadiness.worker_ended();
        }
        let ends_others = match worker.ends_others {
            EndsOthers::Never => false,
            EndsOthers::Always => true,
            EndsOthers::OnError => how == State::Failed,
            EndsOthers::Together => {
                state.together -= 1;
                state.together == 0
            }
        };
        if ends_others {
            state.ends_run |= worker.ends_run;
            let ends = |other: &Worker| !worker.ends_exit_group_only || other.exit_group == worker.exit_group;
            let others = self.group.workers.iter().zip(&self.finish).filter(|(other, _)| ends(other));
            others.for_each(|(_, finish)| finish.store(true, Ordering::Relaxed));
        }
        self.changed.notify_all();
    }

    /// Called when a worker has closed an interval. The report group ends once its figures are steady.
    pub(crate) fn interval_closed(&self, number: usize, interval: &IntervalOutcome, tallies: &[Tally]) {
        let worker = &self.group.workers[number];
        if worker.steady_state.is_none() {
            return;
        }
        // Flushes come after the mix, and are not part of the figure.
        let mix = &tallies[..worker.operations.len()];
        let mut state = self.lock();
        let Some(steadiness) = state.steadiness.get_mut(&worker.report_group) else { return };
        if steadiness.interval_closed(interval, mix) {
            for (other, finish) in self.group.workers.iter().zip(&self.finish) {
                if other.report_group == worker.report_group {
                    finish.store(true, Ordering::Relaxed);
                }
            }
            self.changed.notify_all();
        }
    }

    /// Returns `true` if a worker has asked to leave out later groups.
    pub(crate) fn ends_run(&self) -> bool {
        self.lock().ends_run
    }

    /// Steady state of a report group, if the plan has one.
    pub(crate) fn steady(&self, report_group: u32) -> Option<SteadyOutcome> {
        self.lock().steadiness.get(&report_group).map(Steadiness::outcome)
    }

    fn common_start(&self, state: MutexGuard<'_, GroupState>) -> Option<Nanos> {
        let opened = self.changed.wait_while(state, |state| state.start.is_none() && !state.failed);
        let state = opened.unwrap_or_else(PoisonError::into_inner);
        if state.failed { None } else { state.start }
    }

    fn lock(&self) -> MutexGuard<'_, GroupState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
