//! A run: files are laid out, then group after group, one thread per worker.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::board::Board;
use crate::cpu::{bind_thread, wake_on_time};
use crate::disk::{Disks, HELD_UP_NS};
use crate::engines::{Ran, open_and_run};
use crate::error::EngineError;
use crate::flow::{self, Share};
use crate::offsets::SharedPositions;
use crate::order::Order;
use crate::outcome::{CpuTime, IntervalOutcome, Live, Outcome, State, WorkerOutcome};
use crate::plan::{Group, OperationKind, Plan, Worker};
use crate::plan_check::check;
use crate::recorder::{Tally, recorded_kinds};
use crate::request::Buffers;
use crate::targets::Targets;
use crate::worker::{Shared, Start};

/// A run that is under way in threads of its own.
#[derive(Debug)]
pub struct Run {
    board: Arc<Board>,
    supervisor: Mutex<Option<JoinHandle<Result<Outcome, EngineError>>>>,
}

impl Run {
    /// Checks the plan and starts it. Errors of the plan come at once; others from [`Self::wait`].
    pub fn start(plan: Plan) -> Result<Self, EngineError> {
        check(&plan)?;
        let board = Arc::new(Board::new(plan.interval_ns));
        let shared_board = Arc::clone(&board);
        let supervisor = thread::Builder::new()
            .name("iocurve-run".into())
            .spawn(move || supervise(&plan, &shared_board))
            .map_err(|source| EngineError::System { action: "start a thread", source })?;
        Ok(Self { board, supervisor: Mutex::new(Some(supervisor)) })
    }

    /// What runs now.
    pub fn live(&self) -> Live {
        self.board.live()
    }

    /// Asks the run to end in order; what was measured is kept.
    pub fn stop(&self) {
        self.board.stop.store(true, Ordering::Relaxed);
    }

    /// Waits until the run has ended, at most `timeout`. `None` is "not yet" (or the outcome was taken before).
    ///
    /// An error means that nothing was measured: the layout or the preparation failed.
    pub fn wait(&self, timeout: Duration) -> Option<Result<Outcome, EngineError>> {
        if !self.board.wait_until_over(timeout) {
            return None;
        }
        let handle = self.supervisor.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(
            handle
                .join()
                .unwrap_or_else(|_| Err(EngineError::Plan("the run ended by a fault of iocurve itself".into()))),
        )
    }
}

fn supervise(plan: &Plan, board: &Board) -> Result<Outcome, EngineError> {
    let result = lay_out_and_run(plan, board);
    board.over();
    result
}

fn lay_out_and_run(plan: &Plan, board: &Board) -> Result<Outcome, EngineError> {
    let disks = Disks::open(plan, HELD_UP_NS, &board.clock)?;
    let targets = Targets::lay_out(plan, &|bytes, total| board.layout_progress(bytes, total), &board.stop)?;
    let mut workers = Vec::new();
    let mut result = Ok(());
    let mut is_ended = false;
    for (index, group) in plan.groups.iter().enumerate() {
        if board.stopped() {
            break;
        }
        if is_ended {
            let left_out = |(number, worker)| not_started(index, number, worker, State::Finished, None);
            workers.extend(group.workers.iter().enumerate().map(left_out));
            continue;
        }
        match run_group(index, group, &disks, board) {
            Ok((outcomes, ends_run)) => {
                workers.extend(outcomes);
                is_ended = ends_run;
            }
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    if disks.keep().is_err() {
        // What was measured stands all the same.
        for worker in &mut workers {
            worker.labels.push("disk_state_not_kept".to_owned());
        }
    }
    let removed = targets.remove();
    match result {
        // What earlier groups measured is kept; the error is told with the group that could not start.
        Err(error) if workers.is_empty() => return Err(error),
        Err(error) => workers.push(never_started(plan, workers.len(), &error)),
        Ok(()) => removed?,
    }
    let interrupted = if board.stopped() { State::Interrupted } else { State::Finished };
    let state = workers.iter().map(|worker| worker.state).max().unwrap_or(interrupted).max(interrupted);
    Ok(Outcome { state, workers })
}

/// Runs one group, and says whether it ends the run; an error means that it could not be prepared and nothing of it ran.
fn run_group(
    index: usize,
    group: &Group,
    disks: &Disks,
    board: &Board,
) -> Result<(Vec<WorkerOutcome>, bool), EngineError> {
    board.phase("prepare", index);
    let positions = SharedPositions::of_group(group);
    let flows = flow::of_group(group);
    let order = Order::new(group);
    board.start(group.workers.iter().filter(|worker| worker.wait_for.is_empty()).count());
    let results: Vec<Result<Option<WorkerOutcome>, EngineError>> = thread::scope(|scope| {
        let handles: Vec<_> = group
            .workers
            .iter()
            .zip(positions.into_iter().zip(flows))
            .enumerate()
            .map(|(number, (worker, (positions, flow)))| {
                let closed = Cell::new(0);
                let place =
                    Place { group: index, number, worker, positions, flow, disks, order: &order, board, closed };
                thread::Builder::new()
                    .name(format!("{}.{}", worker.job, worker.clone))
                    .spawn_scoped(scope, move || run_worker(&place))
                    .map_err(|source| {
                        order.failed();
                        EngineError::System { action: "start a thread", source }
                    })
            })
            .collect();
        handles
            .into_iter()
            .map(|handle| match handle?.join() {
                Ok(result) => result,
                Err(_) => Err(EngineError::Plan("a worker ended by a fault of iocurve itself".into())),
            })
            .collect()
    });
    // If one could not be prepared, its error speaks for the group, and the others are `None`.
    let outcomes: Result<Vec<WorkerOutcome>, _> = results.into_iter().filter_map(Result::transpose).collect();
    let steady = |outcome: WorkerOutcome| WorkerOutcome { steady_state: order.steady(outcome.report_group), ..outcome };
    Ok((outcomes?.into_iter().map(steady).collect(), order.ends_run()))
}

/// A worker in its run.
#[derive(Debug)]
struct Place<'a> {
    group: usize,
    number: usize,
    worker: &'a Worker,
    positions: SharedPositions,
    flow: Option<Share>,
    disks: &'a Disks,
    order: &'a Order<'a>,
    board: &'a Board,
    /// How many intervals it has closed.
    closed: Cell<u64>,
}

/// `None` if another worker could not be prepared, so that this one has not run either.
fn run_worker(place: &Place<'_>) -> Result<Option<WorkerOutcome>, EngineError> {
    let Place { group, number, worker, order, board, .. } = *place;
    let mut leaving = Leaving { place, runs: worker.wait_for.is_empty(), how: State::Failed };
    if worker.wait_for.is_empty() {
        let start = || order.prepared(&board.clock).map(Start::with_group);
        let ran = prepare_and_run(place, &mut { start })?;
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
    // Others have run: an error is this worker's alone.
    let outcome = match prepare_and_run(place, &mut { start }) {
        Ok(ran) => ran.map(|ran| outcome(group, number, worker, ran)),
        Err(error) => Some(not_started(group, number, worker, State::Failed, Some(&error))),
    };
    leaving.how = outcome.as_ref().map_or(State::Failed, |outcome| outcome.state);
    Ok(outcome)
}

fn prepare_and_run(place: &Place<'_>, start: &mut dyn FnMut() -> Option<Start>) -> Result<Option<Ran>, EngineError> {
    let Place { number, worker, disks, order, board, .. } = *place;
    wake_on_time();
    if !worker.cpus.is_empty() {
        bind_thread(&worker.cpus)
            .map_err(|source| EngineError::System { action: "bind a worker to its processor", source })?;
    }
    let block = worker.operations.iter().map(|operation| operation.blocks.largest()).max().unwrap_or(0);
    let buffers = Buffers::new(worker.depth as usize, block as usize);
    let shared = Shared {
        stop: Arc::clone(&board.stop),
        finish: order.finish_flag(number),
        clock: board.clock.clone(),
        interval_ns: board.interval_ns,
        positions: place.positions.clone(),
        flow: place.flow.clone(),
    };
    let names: Vec<&'static str> = recorded_kinds(worker).into_iter().map(OperationKind::name).collect();
    let mut publish = |interval: &IntervalOutcome, tallies: &[Tally]| {
        board.publish(&names, interval, tallies);
        place.closed.set(interval.index + 1);
        order.interval_closed(number, interval, tallies);
    };
    let disk = worker.disk.as_ref().map(|plan| disks.get(plan));
    open_and_run(worker, &buffers, &shared, disk, start, &mut publish)
}

/// Tells the others that a worker has left, however it does: by its end, an error or a panic.
struct Leaving<'a> {
    place: &'a Place<'a>,
    /// Whether it is among those that run.
    runs: bool,
    how: State,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let Place { number, order, board, .. } = *self.place;
        if self.runs {
            board.worker_ended(self.place.closed.get());
            // Who leaves before the start must not leave the others waiting.
            order.failed();
        }
        if let Some(flow) = &self.place.flow {
            flow.end();
        }
        order.ended(number, self.how);
    }
}

fn outcome(group: usize, number: usize, worker: &Worker, ran: Ran) -> WorkerOutcome {
    let Ran { ended, recorded, engine, reconnects, labels } = ran;
    let [depth_levels, submit_levels, complete_levels] = recorded.levels.named();
    WorkerOutcome {
        group: group as u32,
        worker: number as u32,
        job: worker.job.clone(),
        clone: worker.clone,
        report_group: worker.report_group,
        engine,
        state: ended.state,
        errno: ended.error.as_ref().map(EngineError::errno),
        error: ended.error.map(|error| error.to_string()),
        window_start_ns: ended.window.0,
        window_end_ns: ended.window.1,
        drained_ns: ended.drained,
        drained_operations: ended.drained_operations,
        operations: recorded.operations,
        cpu: ended.cpu,
        depth_levels,
        submit_levels,
        complete_levels,
        latency_depth: ended.depth_found,
        read_back_ns: ended.read_back,
        reconnects,
        labels,
        intervals: recorded.intervals,
        steady_state: None,
        log: recorded.log,
    }
}

/// The record of the first worker of a group that could not be prepared, after others had run.
fn never_started(plan: &Plan, started: usize, error: &EngineError) -> WorkerOutcome {
    let all = plan.groups.iter().enumerate().flat_map(|(index, group)| group.workers.iter().map(move |w| (index, w)));
    let (group, worker) = all.clone().nth(started).expect("the group that failed has workers");
    not_started(group, 0, worker, State::Failed, Some(error))
}

/// The record of a worker that measured nothing.
fn not_started(
    group: usize,
    number: usize,
    worker: &Worker,
    state: State,
    error: Option<&EngineError>,
) -> WorkerOutcome {
    WorkerOutcome {
        group: group as u32,
        worker: number as u32,
        job: worker.job.clone(),
        clone: worker.clone,
        report_group: worker.report_group,
        engine: "not started".into(),
        state,
        error: error.map(ToString::to_string),
        errno: error.map(EngineError::errno),
        window_start_ns: 0,
        window_end_ns: 0,
        drained_ns: 0,
        drained_operations: 0,
        operations: BTreeMap::new(),
        cpu: CpuTime::default(),
        depth_levels: BTreeMap::new(),
        submit_levels: BTreeMap::new(),
        complete_levels: BTreeMap::new(),
        latency_depth: None,
        read_back_ns: 0,
        reconnects: 0,
        labels: Vec::new(),
        intervals: Vec::new(),
        steady_state: None,
        log: None,
    }
}

#[cfg(test)]
mod tests;
