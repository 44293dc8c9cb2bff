//! A run lays out the files, then runs one group after another, each worker on a thread.

mod absence;
pub(crate) mod board;
pub(crate) mod ceiling;
mod open;
pub(crate) mod order;
mod outcomes;
pub(crate) mod steady;
#[cfg(test)]
mod tests;
mod thread;
mod trees;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, ScopedJoinHandle};
use std::time::Duration;

use self::absence::Watch;
use self::board::Board;
use self::order::GroupOrder;
use self::outcomes::{never_started, not_started};
use self::thread::{WorkerThread, run_worker};
use crate::check::check;
use crate::engines::emulated::{DELAY_TOLERATED_NS, Disks};
use crate::error::EngineError;
use crate::layout::Targets;
use crate::offsets::SharedPositions;
use crate::outcome::{GroupInterval, IntervalRecord, Live, Outcome, State, WorkerOutcome};
use crate::plan::{Group, Plan};
use crate::stall::HURRIED_NS;
use crate::worker::{flow, tickets};

/// A run in progress, on its own threads.
#[derive(Debug)]
pub struct Run {
    board: Arc<Board>,
    supervisor: Mutex<Option<JoinHandle<Result<Outcome, EngineError>>>>,
}

impl Run {
    /// Checks the plan and starts it. An invalid plan is an error here; other errors come from [`Self::wait`].
    pub fn start(plan: Plan) -> Result<Self, EngineError> {
        Self::start_on(plan, false)
    }

    /// As [`Self::start`], but each group waits, prepared, until [`Self::release`] gives its start, and closed intervals
    /// are kept for [`Self::take_records`].
    pub fn start_held(plan: Plan) -> Result<Self, EngineError> {
        let run = Self::start_on(plan, true)?;
        let board = Arc::clone(&run.board);
        std::thread::Builder::new()
            .name("iocurve-lease".into())
            .spawn(move || board.watch_lease())
            .map_err(|source| EngineError::System { action: "start a thread", source })?;
        Ok(run)
    }

    fn start_on(plan: Plan, held: bool) -> Result<Self, EngineError> {
        check(&plan)?;
        let board = Arc::new(Board::new(plan.interval_ns, held));
        let shared_board = Arc::clone(&board);
        let supervisor = std::thread::Builder::new()
            .name("iocurve-run".into())
            .spawn(move || supervise(&plan, &shared_board))
            .map_err(|source| EngineError::System { action: "start a thread", source })?;
        Ok(Self { board, supervisor: Mutex::new(Some(supervisor)) })
    }

    /// The live view: progress and the newest interval.
    pub fn live(&self) -> Live {
        self.board.live()
    }

    /// Stops the run cleanly; the outcome keeps everything measured so far.
    pub fn stop(&self) {
        self.board.stop.store(true, Ordering::Relaxed);
    }

    /// Ends the load now, as if its time were over: operations in flight are waited for, and the run counts as finished.
    pub fn finish(&self) {
        self.board.finish();
    }

    /// Releases the group that waits (phase `ready`): it starts at `unix_ns`, in ns since 1970 by the system's clock, or
    /// as soon as possible where that has passed. Returns the start, by the same clock.
    pub fn release(&self, unix_ns: u64) -> u64 {
        self.board.release(unix_ns)
    }

    /// Takes the intervals that a held run has closed since the last call, workers merged.
    pub fn take_records(&self) -> Vec<IntervalRecord> {
        self.board.take_records()
    }

    /// A held run stops by itself after `lease`, unless this is called again before.
    pub fn renew_lease(&self, lease: Duration) {
        self.board.renew_lease(lease);
    }

    /// Waits for the outcome, at most `timeout`. Returns `None` if the run goes on, or if the outcome was taken before.
    ///
    /// An error means that nothing was measured: the layout or the preparation failed.
    pub fn wait(&self, timeout: Duration) -> Option<Result<Outcome, EngineError>> {
        if !self.board.wait_until_over(timeout) {
            return None;
        }
        let handle = self.supervisor.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(handle.join().unwrap_or_else(|_| {
            Err(EngineError::Plan("internal error: the run's thread panicked; please report it".into()))
        }))
    }
}

fn supervise(plan: &Plan, board: &Board) -> Result<Outcome, EngineError> {
    let result = board.stalls.recording(|| lay_out_and_run(plan, board));
    board.over();
    result
}

fn lay_out_and_run(plan: &Plan, board: &Board) -> Result<Outcome, EngineError> {
    let disks = Disks::open(plan, DELAY_TOLERATED_NS, &board.clock)?;
    let targets = Targets::lay_out(plan, &|bytes, total| board.layout_progress(bytes, total), &board.stop)
        .map_err(|error| if board.stopped() { EngineError::StoppedInLayout } else { error })?;
    let mut workers = Vec::new();
    let result = run_groups(plan, &disks, board, &mut workers);
    if disks.keep().is_err() {
        // The figures are valid even though the state of the disks was not saved.
        for worker in &mut workers {
            worker.labels.push("disk_state_not_kept".to_owned());
        }
    }
    let failed = result.is_err() || workers.iter().any(|worker| worker.state != State::Finished);
    board.stalls.phase("cleanup");
    let removed = if failed || board.stopped() {
        targets.remove(Some(HURRIED_NS), &AtomicBool::new(false))
    } else {
        targets.remove(None, &board.stop)
    };
    match result {
        // The figures of earlier groups are kept; the error belongs to the group that could not start.
        Err(_) if workers.is_empty() && board.stopped() => return Err(EngineError::StoppedBeforeLoad),
        Err(error) if workers.is_empty() => return Err(error),
        Err(error) => workers.push(never_started(plan, workers.len(), &error)),
        Ok(()) => {}
    }
    let interrupted = if board.stopped() { State::Interrupted } else { State::Finished };
    let state = workers.iter().map(|worker| worker.state).max().unwrap_or(interrupted).max(interrupted);
    // Files that stay cost no figures.
    let files_left = removed.err().map(|error| error.to_string());
    let mut intervals = board.take_course();
    mark_restarted(&mut intervals, plan, &workers);
    Ok(Outcome { state, workers, stalls: board.stalls.all(), files_left, intervals })
}

/// Marks intervals before the window of a worker that has restarted it as ramp.
fn mark_restarted(intervals: &mut [GroupInterval], plan: &Plan, workers: &[WorkerOutcome]) {
    let restarts = |worker: &WorkerOutcome| {
        let planned =
            plan.groups.get(worker.group as usize).and_then(|group| group.workers.get(worker.worker as usize));
        planned.is_some_and(|planned| planned.latency_target.is_some())
    };
    for worker in workers.iter().filter(|worker| restarts(worker)) {
        for interval in intervals.iter_mut().filter(|interval| interval.group == worker.group) {
            interval.ramp |= interval.start_ns < worker.window_start_ns;
        }
    }
}

/// Runs group after group, until the run is stopped, a group ends it, or one cannot be prepared.
fn run_groups(plan: &Plan, disks: &Disks, board: &Board, workers: &mut Vec<WorkerOutcome>) -> Result<(), EngineError> {
    let mut is_ended = false;
    for (index, group) in plan.groups.iter().enumerate() {
        if board.stopped() {
            break;
        }
        if is_ended || board.finishes() {
            let left_out = |(number, worker)| not_started(index, number, worker, State::Finished, None);
            workers.extend(group.workers.iter().enumerate().map(left_out));
            continue;
        }
        let (outcomes, ends_run) = run_group(index, group, disks, board)?;
        workers.extend(outcomes);
        is_ended = ends_run;
    }
    Ok(())
}

/// Runs one group; returns the outcomes and whether the group ends the run. An error means that the group could not be
/// prepared and none of its workers ran.
fn run_group(
    index: usize,
    group: &Group,
    disks: &Disks,
    board: &Board,
) -> Result<(Vec<WorkerOutcome>, bool), EngineError> {
    board.phase("prepare", index);
    let order = GroupOrder::new(group);
    let ramps = group.workers.iter().any(|worker| worker.ramp_ns > 0);
    let first = group.workers.iter().filter(|worker| worker.wait_for.is_empty()).count();
    board.start(first, ramps, order.finish_flags());
    let trees = trees::of_group(group, &board.stop)?;
    let shared = SharedPositions::of_group(group)
        .into_iter()
        .zip(flow::of_group(group))
        .zip(tickets::of_group(group))
        .zip(trees.clone());
    let members =
        group.workers.iter().zip(shared).enumerate().map(|(number, (worker, (((positions, flow), tickets), tree)))| {
            let (order, closed) = (&order, Cell::new(0));
            WorkerThread { group: index, number, worker, positions, tree, flow, tickets, disks, order, board, closed }
        });
    let watch = Watch::start(board.clock.clone());
    let results = run_threads(members.collect(), &order);
    let absences = watch.end(order.started());
    // If one worker could not be prepared, its error is the group's, and the other results are `None`.
    let outcomes: Result<Vec<WorkerOutcome>, _> = results.into_iter().filter_map(Result::transpose).collect();
    let steady = |outcome: WorkerOutcome| WorkerOutcome {
        steady_state: order.steady(outcome.report_group),
        absences: absences.iter().copied().filter(|absence| absence.start_ns < outcome.drained_ns).collect(),
        ..outcome
    };
    let mut outcomes: Vec<WorkerOutcome> = outcomes?.into_iter().map(steady).collect();
    if !board.stopped() {
        trees::verify(group, &trees, &mut outcomes, &board.stop);
    }
    Ok((outcomes, order.ends_run()))
}

/// Runs each member on its own thread, and waits for all of them.
fn run_threads<'a>(
    members: Vec<WorkerThread<'a>>,
    order: &GroupOrder<'_>,
) -> Vec<Result<Option<WorkerOutcome>, EngineError>> {
    std::thread::scope(|scope| {
        let spawn = |member: WorkerThread<'a>| {
            let thread = std::thread::Builder::new().name(format!("{}.{}", member.worker.job, member.worker.jobnum));
            thread.spawn_scoped(scope, move || run_worker(&member)).map_err(|source| {
                order.failed();
                EngineError::System { action: "start a thread", source }
            })
        };
        let handles: Vec<_> = members.into_iter().map(spawn).collect();
        let join = |handle: Result<ScopedJoinHandle<'_, _>, EngineError>| {
            handle?.join().unwrap_or_else(|_| {
                Err(EngineError::Plan("internal error: a worker's thread panicked; please report it".into()))
            })
        };
        handles.into_iter().map(join).collect()
    })
}
