//! The thread of one worker: prepares, waits for its start, runs and reports how it ended.

use std::cell::Cell;
use std::sync::Arc;

use super::board::Board;
use super::open::{Ran, open_and_run};
use super::order::GroupOrder;
use super::outcomes::{not_started, outcome};
use crate::cpu::{bind_thread, wake_on_time};
use crate::engines::buffers::Buffers;
use crate::engines::emulated::Disks;
use crate::engines::files::unwritten_bytes;
use crate::error::EngineError;
use crate::offsets::SharedPositions;
use crate::outcome::{IntervalOutcome, State, WorkerOutcome};
use crate::plan::{FilePlan, OperationKind, Worker};
use crate::record::Tally;
use crate::tree::TreeState;
use crate::worker::flow::Share;
use crate::worker::tickets::Tickets;
use crate::worker::{Shared, Start};

/// A worker, and the run that it belongs to.
#[derive(Debug)]
pub(super) struct WorkerThread<'a> {
    pub(super) group: usize,
    pub(super) number: usize,
    pub(super) worker: &'a Worker,
    pub(super) positions: SharedPositions,
    pub(super) tree: Option<Arc<TreeState>>,
    pub(super) flow: Option<Share>,
    pub(super) tickets: Option<Tickets>,
    pub(super) disks: &'a Disks,
    pub(super) order: &'a GroupOrder<'a>,
    pub(super) board: &'a Board,
    /// Intervals that the worker has closed.
    pub(super) closed: Cell<u64>,
}

/// Prepares the worker, waits for its start and runs it. `None` means that another worker could not be prepared, so
/// that this one did not run either.
pub(super) fn run_worker(thread: &WorkerThread<'_>) -> Result<Option<WorkerOutcome>, EngineError> {
    let WorkerThread { group, number, worker, order, board, .. } = *thread;
    let mut leaving = EndGuard { thread, runs: worker.wait_for.is_empty(), how: State::Failed };
    if worker.wait_for.is_empty() {
        let load_begins = |_: &Start| board.stalls.phase("load");
        let start = || order.prepared(|| board.start_of(group)).map(Start::with_group).inspect(load_begins);
        let ran = prepare_and_run(thread, &mut { start })?;
        leaving.how = ran.as_ref().map_or(State::Failed, |ran| ran.ended.state);
        return Ok(ran.map(|ran| outcome(group, number, worker, ran)));
    }
    let Some(group_start) = order.others_start() else { return Ok(None) };
    if let Some(told) = order.wait_for_turn(number, &board.stop) {
        leaving.how = told;
        return Ok(Some(not_started(group, number, worker, told, None)));
    }
    board.worker_started();
    leaving.runs = true;
    let start = || Some(Start { group: group_start, own: board.clock.now() });
    // Other workers have run: the error fails this worker alone.
    let outcome = match prepare_and_run(thread, &mut { start }) {
        Ok(ran) => ran.map(|ran| outcome(group, number, worker, ran)),
        Err(error) => Some(not_started(group, number, worker, State::Failed, Some(&error))),
    };
    leaving.how = outcome.as_ref().map_or(State::Failed, |outcome| outcome.state);
    Ok(outcome)
}

fn prepare_and_run(
    thread: &WorkerThread<'_>,
    start: &mut dyn FnMut() -> Option<Start>,
) -> Result<Option<Ran>, EngineError> {
    let WorkerThread { number, worker, disks, order, board, .. } = *thread;
    wake_on_time();
    if !worker.cpus.is_empty() {
        bind_thread(&worker.cpus)
            .map_err(|source| EngineError::System { action: "bind a worker to its processor", source })?;
    }
    let buffers = Buffers::new(worker.depth as usize, worker.block_bytes_max() as usize);
    let shared = Shared {
        stop: Arc::clone(&board.stop),
        finish: order.finish_flag(number),
        clock: board.clock.clone(),
        interval_ns: board.interval_ns,
        positions: thread.positions.clone(),
        failed: Arc::clone(&order.failed),
        tree: thread.tree.clone(),
        flow: thread.flow.clone(),
        tickets: thread.tickets.clone(),
    };
    let names: Vec<&'static str> = worker.recorded_kinds().into_iter().map(OperationKind::name).collect();
    let mut publish = |interval: &IntervalOutcome, tallies: &[Tally]| {
        board.publish(&worker.job, &names, interval, tallies);
        thread.closed.set(interval.index + 1);
        order.interval_closed(number, interval, tallies);
    };
    let disk = worker.disk.as_ref().map(|plan| disks.get(plan));
    // A worker that waits for others counts what these have left unwritten.
    let counts_with_others = worker.wait_for.is_empty();
    let unwritten = |file: &FilePlan| if counts_with_others { order.unwritten.of(file) } else { unwritten_bytes(file) };
    board.stalls.recording(|| open_and_run(worker, buffers, &shared, disk, &unwritten, start, &mut publish))
}

/// Tells the other workers that this one has ended: as planned, by an error or by a panic.
struct EndGuard<'a> {
    thread: &'a WorkerThread<'a>,
    /// The worker counts as running.
    runs: bool,
    how: State,
}

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        let WorkerThread { number, order, board, .. } = *self.thread;
        if self.runs {
            board.worker_ended(self.thread.closed.get());
            // If the worker ends before the start, the others must not wait for it.
            order.failed();
        }
        if let Some(flow) = &self.thread.flow {
            flow.end();
        }
        order.ended(number, self.how);
    }
}
