//! A run: files are laid out, then group after group, one thread per worker.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use iocurve_meter::{Clock, Nanos};

use crate::board::Board;
use crate::cpu::{bind_thread, wake_on_time};
use crate::engines::{Ran, open_and_run};
use crate::error::EngineError;
use crate::offsets::SharedPositions;
use crate::outcome::{CpuTime, IntervalOutcome, Live, Outcome, State, WorkerOutcome};
use crate::plan::{EnginePlan, Group, OperationKind, Plan, Worker};
use crate::plan_check::{PLAN_VERSION, check};
use crate::recorder::{Tally, recorded_kinds};
use crate::request::Buffers;
use crate::targets::Targets;
use crate::worker::Shared;

/// Time between "all are ready" and the common start, so that every thread is waiting when it comes.
const LEAD: Nanos = 2_000_000;

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

/// Operations per second that the loop itself can do on one core, measured with the null engine.
///
/// The ceiling for any figure of this machine: 4 KiB random reads at depth 32, every latency recorded.
pub fn null_ceiling(duration: Duration) -> Result<f64, EngineError> {
    let plan = ceiling_plan(duration);
    let run = Run::start(plan)?;
    let outcome = loop {
        if let Some(outcome) = run.wait(Duration::from_secs(1)) {
            break outcome?;
        }
    };
    let operations: u64 = outcome.workers[0].operations.values().map(|kind| kind.operations).sum();
    Ok(operations as f64 / duration.as_secs_f64())
}

fn supervise(plan: &Plan, board: &Board) -> Result<Outcome, EngineError> {
    let result = lay_out_and_run(plan, board);
    board.over();
    result
}

fn lay_out_and_run(plan: &Plan, board: &Board) -> Result<Outcome, EngineError> {
    let targets = Targets::lay_out(plan, &|bytes, total| board.layout_progress(bytes, total), &board.stop)?;
    let mut workers = Vec::new();
    let mut result = Ok(());
    for (index, group) in plan.groups.iter().enumerate() {
        if board.stopped() {
            break;
        }
        match run_group(index, group, board) {
            Ok(outcomes) => workers.extend(outcomes),
            Err(error) => {
                result = Err(error);
                break;
            }
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

/// Runs one group; an error means that it could not be prepared and nothing of it ran.
fn run_group(index: usize, group: &Group, board: &Board) -> Result<Vec<WorkerOutcome>, EngineError> {
    board.phase("prepare", index);
    board.start(group.workers.len());
    let gate = Gate::new(group.workers.len());
    let positions = SharedPositions::of_group(group);
    let results: Vec<Result<Option<WorkerOutcome>, EngineError>> = thread::scope(|scope| {
        let handles: Vec<_> = group
            .workers
            .iter()
            .zip(positions)
            .enumerate()
            .map(|(number, (worker, positions))| {
                let gate = &gate;
                thread::Builder::new()
                    .name(format!("{}.{}", worker.job, worker.clone))
                    .spawn_scoped(scope, move || run_worker(index, number, worker, positions, gate, board))
                    .map_err(|source| {
                        gate.failed();
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
    results.into_iter().filter_map(Result::transpose).collect()
}

fn run_worker(
    group: usize,
    number: usize,
    worker: &Worker,
    positions: SharedPositions,
    gate: &Gate,
    board: &Board,
) -> Result<Option<WorkerOutcome>, EngineError> {
    let _ended = OnDrop(|| board.worker_ended());
    let at_gate = PassOrFail(gate);
    wake_on_time();
    if !worker.cpus.is_empty() {
        bind_thread(&worker.cpus)
            .map_err(|source| EngineError::System { action: "bind a worker to its processor", source })?;
    }
    let block = worker.operations.iter().map(|operation| operation.blocks.largest()).max().unwrap_or(0);
    let buffers = Buffers::new(worker.depth as usize, block as usize);
    let shared = Shared {
        stop: Arc::clone(&board.stop),
        finish: Arc::default(),
        clock: board.clock.clone(),
        interval_ns: board.interval_ns,
        positions,
    };
    let names: Vec<&'static str> = recorded_kinds(worker).into_iter().map(OperationKind::name).collect();
    let mut publish = |interval: &IntervalOutcome, tallies: &[Tally]| board.publish(&names, interval, tallies);
    let mut wait_for_start = || {
        at_gate.0.pass(&board.clock);
        at_gate.0.start()
    };
    let ran = open_and_run(worker, &buffers, &shared, &mut wait_for_start, &mut publish)?;
    Ok(ran.map(|ran| outcome(group, number, worker, ran)))
}

fn outcome(group: usize, number: usize, worker: &Worker, ran: Ran) -> WorkerOutcome {
    let Ran { ended, recorded, engine, reconnects, labels } = ran;
    WorkerOutcome {
        group: group as u32,
        worker: number as u32,
        job: worker.job.clone(),
        clone: worker.clone,
        report_group: worker.report_group,
        engine,
        state: ended.state,
        error: ended.error.map(|error| error.to_string()),
        window_start_ns: ended.window.0,
        window_end_ns: ended.window.1,
        drained_ns: ended.drained,
        drained_operations: ended.drained_operations,
        operations: recorded.operations,
        cpu: ended.cpu,
        depth_levels: ended.depth_levels,
        reconnects,
        labels,
        intervals: recorded.intervals,
        log: recorded.log,
    }
}

/// The record of the first worker of a group that could not be prepared, after others had run.
fn never_started(plan: &Plan, started: usize, error: &EngineError) -> WorkerOutcome {
    let all = plan.groups.iter().enumerate().flat_map(|(index, group)| group.workers.iter().map(move |w| (index, w)));
    let (group, worker) = all.clone().nth(started).expect("the group that failed has workers");
    WorkerOutcome {
        group: group as u32,
        worker: 0,
        job: worker.job.clone(),
        clone: worker.clone,
        report_group: worker.report_group,
        engine: "not started".into(),
        state: State::Failed,
        error: Some(error.to_string()),
        window_start_ns: 0,
        window_end_ns: 0,
        drained_ns: 0,
        drained_operations: 0,
        operations: BTreeMap::new(),
        cpu: CpuTime::default(),
        depth_levels: BTreeMap::new(),
        reconnects: 0,
        labels: Vec::new(),
        intervals: Vec::new(),
        log: None,
    }
}

/// All workers of a group wait here until all are prepared, then start at one instant. One that fails lets none start.
#[derive(Debug)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug)]
struct GateState {
    missing: usize,
    start: Option<Nanos>,
    failed: bool,
}

impl Gate {
    fn new(workers: usize) -> Self {
        let state = GateState { missing: workers, start: None, failed: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This worker is prepared; returns when all are or one has failed.
    fn pass(&self, clock: &Clock) {
        let mut state = self.lock();
        state.missing -= 1;
        if state.missing == 0 && !state.failed {
            state.start = Some(clock.now() + LEAD);
        }
        self.changed.notify_all();
        let _open = self
            .changed
            .wait_while(state, |state| state.start.is_none() && !state.failed)
            .unwrap_or_else(PoisonError::into_inner);
    }

    /// The common start; `None` if the group does not start.
    fn start(&self) -> Option<Nanos> {
        let state = self.lock();
        if state.failed { None } else { state.start }
    }

    fn failed(&self) {
        let mut state = self.lock();
        if state.start.is_none() {
            state.failed = true;
        }
        self.changed.notify_all();
    }
}

/// A worker that leaves before the start, by an error or a panic, must not leave the others waiting.
struct PassOrFail<'a>(&'a Gate);

impl Drop for PassOrFail<'_> {
    fn drop(&mut self) {
        self.0.failed();
    }
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn ceiling_plan(duration: Duration) -> Plan {
    use crate::plan::{
        Access, AtEnd, Batch, Blocks, Content, Cover, Distribution, End, EndsOthers, FilePlan, FileSelect, Layout,
        OperationKind, OperationPlan, Passes, Payload, Position, Renew,
    };
    let runtime_ns = duration.as_nanos() as Nanos;
    let worker = Worker {
        job: "null ceiling".into(),
        clone: 0,
        report_group: 0,
        engine: EnginePlan::Null {},
        files: vec![FilePlan {
            path: "null".into(),
            offset_bytes: 0,
            bytes: 1 << 30,
            start_bytes: 0,
            layout: Layout::Existing,
            keep: true,
        }],
        file_select: FileSelect::RoundRobin,
        file_run: 1,
        operations: vec![OperationPlan {
            kind: OperationKind::Read,
            share: 1,
            blocks: Blocks::Fixed { bytes: 4096 },
            align_bytes: 0,
            random_percent: 100,
            distribution: Distribution::Uniform {},
            rate: None,
        }],
        access: Access {
            cover: Cover::Once,
            passes: Passes::Fresh,
            run_length: 1,
            gap_bytes: 0,
            gap_spread_bytes: 0,
            at_end: AtEnd::Wrap,
            position: Position::Kind,
            strided: None,
        },
        depth: 32,
        batch: Batch { submit: 0, complete_min: 1, complete_max: 0, low: 0 },
        rate: None,
        think: None,
        sync: None,
        sync_at_end: false,
        wait_for: Vec::new(),
        start_delay_ns: 0,
        ramp_ns: runtime_ns / 10,
        end: End { runtime_ns: Some(runtime_ns), bytes: None, operations: None },
        ends_others: EndsOthers::Never,
        latency_target: None,
        steady_state: None,
        seed: 1,
        payload: Payload {
            content: Content::Zero {},
            renew: Renew::Keep,
            compress_percent: 0,
            compress_chunk_bytes: 0,
            dedupe_percent: 0,
        },
        verify: None,
        log: None,
        cpus: Vec::new(),
    };
    let group = Group { workers: vec![worker] };
    Plan { version: PLAN_VERSION, name: "null ceiling".into(), interval_ns: 1_000_000_000, groups: vec![group] }
}
