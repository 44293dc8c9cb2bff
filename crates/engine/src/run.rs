//! A run: files are laid out, then group after group, one thread per worker.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use iocurve_meter::{Clock, Nanos};

use crate::cpu::{bind_thread, wake_on_time};
use crate::engines::{Ran, open_and_run};
use crate::error::EngineError;
use crate::outcome::{CpuTime, IntervalKind, IntervalOutcome, Live, Outcome, State, WorkerOutcome};
use crate::plan::{Arrivals, EnginePlan, Group, Plan, Worker};
use crate::recorder::Tally;
use crate::request::Buffers;
use crate::targets::Targets;
use crate::worker::Shared;

/// Version of the plan contract that this build runs.
pub const PLAN_VERSION: u32 = 2;

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
        self.board.lock().live.clone()
    }

    /// Asks the run to end in order; what was measured is kept.
    pub fn stop(&self) {
        self.board.stop.store(true, Ordering::Relaxed);
    }

    /// Waits until the run has ended, at most `timeout`. `None` is "not yet" (or the outcome was taken before).
    ///
    /// An error means that nothing was measured: the layout or the preparation failed.
    pub fn wait(&self, timeout: Duration) -> Option<Result<Outcome, EngineError>> {
        let state = self.board.lock();
        let (state, _) = self
            .board
            .changed
            .wait_timeout_while(state, timeout, |state| !state.over)
            .unwrap_or_else(PoisonError::into_inner);
        if !state.over {
            return None;
        }
        drop(state);
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

/// Shared by the run's threads and whoever looks at it.
#[derive(Debug)]
pub(crate) struct Board {
    stop: Arc<AtomicBool>,
    clock: Clock,
    interval_ns: Nanos,
    state: Mutex<BoardState>,
    changed: Condvar,
}

#[derive(Debug)]
struct BoardState {
    live: Live,
    /// Workers of the running group that have not ended.
    running: usize,
    /// Intervals that not all running workers have closed yet.
    open: BTreeMap<u64, OpenInterval>,
    over: bool,
}

#[derive(Debug)]
struct OpenInterval {
    closed_by: usize,
    ramp: bool,
    kinds: BTreeMap<&'static str, Tally>,
}

impl Board {
    fn new(interval_ns: Nanos) -> Self {
        let live = Live {
            phase: "layout".into(),
            group: 0,
            elapsed_ns: 0,
            layout_bytes: 0,
            layout_bytes_total: 0,
            intervals: 0,
            operations: BTreeMap::new(),
        };
        Self {
            stop: Arc::new(AtomicBool::new(false)),
            clock: Clock::new(),
            interval_ns,
            state: Mutex::new(BoardState { live, running: 0, open: BTreeMap::new(), over: false }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BoardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn layout_progress(&self, bytes: u64, bytes_total: u64) {
        let mut state = self.lock();
        (state.live.layout_bytes, state.live.layout_bytes_total) = (bytes, bytes_total);
        state.live.elapsed_ns = self.clock.now();
    }

    fn phase(&self, phase: &str, group: usize) {
        let mut state = self.lock();
        phase.clone_into(&mut state.live.phase);
        state.live.group = group as u32;
        state.live.elapsed_ns = 0;
        state.live.intervals = 0;
        state.live.operations.clear();
        state.open.clear();
    }

    /// One worker has closed an interval; the last one to do so brings it into the live view.
    fn publish(&self, names: &[&'static str], interval: &IntervalOutcome, tallies: &[Tally]) {
        let mut state = self.lock();
        let running = state.running;
        let entry = state.open.entry(interval.index).or_insert_with(|| OpenInterval {
            closed_by: 0,
            ramp: interval.ramp,
            kinds: BTreeMap::new(),
        });
        entry.closed_by += 1;
        entry.ramp = interval.ramp;
        for (name, tally) in names.iter().zip(tallies) {
            entry.kinds.entry(name).and_modify(|sum| sum.add(tally)).or_insert_with(|| tally.clone());
        }
        if entry.closed_by < running {
            return;
        }
        let operations: BTreeMap<String, IntervalKind> =
            entry.kinds.iter().map(|(name, tally)| ((*name).to_owned(), tally.interval())).collect();
        state.live.phase = if interval.ramp { "ramp".into() } else { "run".into() };
        state.live.elapsed_ns = interval.end_ns;
        state.live.intervals = interval.index + 1;
        state.live.operations = operations;
        state.open = state.open.split_off(&(interval.index + 1));
    }

    fn worker_ended(&self) {
        self.lock().running -= 1;
    }

    fn over(&self) {
        let mut state = self.lock();
        state.over = true;
        state.live.phase = "done".into();
        self.changed.notify_all();
    }
}

fn check(plan: &Plan) -> Result<(), EngineError> {
    let refuse = |text: String| Err(EngineError::Plan(text));
    if plan.version != PLAN_VERSION {
        return refuse(format!("plan version {} is not the {PLAN_VERSION} that this build runs", plan.version));
    }
    if plan.interval_ns < 1_000_000 {
        return refuse("interval_ns is below a millisecond".into());
    }
    for worker in plan.groups.iter().flat_map(|group| &group.workers) {
        if worker.depth == 0 || worker.files.is_empty() || worker.operations.is_empty() {
            return refuse(format!("{}: depth, files and operations must not be empty", worker.job));
        }
        if worker.operations.iter().all(|operation| operation.share == 0 && operation.rate.is_none()) {
            return refuse(format!("{}: all shares of the mix are 0", worker.job));
        }
        if worker.operations.iter().filter_map(|operation| operation.rate).any(|rate| rate.count == 0) {
            return refuse(format!("{}: a rate of 0 would never issue anything", worker.job));
        }
        if let Some(what) = not_carried_out(worker) {
            return refuse(format!("{}: {what} cannot be carried out yet", worker.job));
        }
    }
    Ok(())
}

/// What the contract has and this build does not carry out yet, so that nothing is silently left out.
fn not_carried_out(worker: &Worker) -> Option<&'static str> {
    use crate::plan::{AtEnd, Blocks, Content, Distribution, EndsOthers, Layout, OperationKind, Position};
    let access = &worker.access;
    let batch = worker.batch;
    let addresses = worker.operations.iter().any(|operation| {
        !matches!(operation.blocks, Blocks::Fixed { .. })
            || !matches!(operation.distribution, Distribution::Uniform {})
            || !matches!(operation.random_percent, 0 | 100)
            || operation.align_bytes != 0
    }) || access.run_length != 1
        || access.gap_bytes != 0
        || access.gap_spread_bytes != 0
        || access.at_end != AtEnd::Wrap
        || access.position != Position::Kind
        || access.strided.is_some()
        || worker.file_run != 1
        || worker.files.iter().any(|file| file.start_bytes != 0);
    let pacing = worker.rate.is_some()
        || worker.think.is_some()
        || (batch.submit, batch.complete_min, batch.complete_max, batch.low) != (0, 1, 0, 0)
        || worker.latency_target.is_some()
        || worker
            .operations
            .iter()
            .filter_map(|operation| operation.rate)
            .any(|rate| rate.arrivals == Arrivals::Poisson);
    let payload = matches!(worker.payload.content, Content::Pattern { .. } | Content::Pool { .. })
        || worker.payload.compress_percent != 0
        || worker.payload.dedupe_percent != 0
        || worker.verify.is_some();
    let kinds =
        worker.operations.iter().any(|operation| matches!(operation.kind, OperationKind::Trim | OperationKind::Sync))
            || worker.sync.is_some()
            || worker.sync_at_end;
    let files = worker
        .files
        .iter()
        .any(|file| matches!(file.layout, Layout::Create | Layout::Recreate | Layout::RecreateReserve));
    let groups = !worker.wait_for.is_empty()
        || worker.ends_others != EndsOthers::Never
        || worker.steady_state.is_some()
        || worker.log.is_some();
    [
        (addresses, "these addresses or block sizes"),
        (pacing, "this pacing"),
        (payload, "this payload or verification"),
        (kinds, "trims and flushes"),
        (files, "this layout of files"),
        (groups, "this order of jobs, their end or their log"),
    ]
    .into_iter()
    .find_map(|(is_used, what)| is_used.then_some(what))
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
    board.lock().running = group.workers.len();
    let gate = Gate::new(group.workers.len());
    let results: Vec<Result<Option<WorkerOutcome>, EngineError>> = thread::scope(|scope| {
        let handles: Vec<_> = group
            .workers
            .iter()
            .enumerate()
            .map(|(number, worker)| {
                let gate = &gate;
                thread::Builder::new()
                    .name(format!("{}.{}", worker.job, worker.clone))
                    .spawn_scoped(scope, move || run_worker(index, number, worker, gate, board))
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
    };
    let names: Vec<&'static str> = worker.operations.iter().map(|operation| operation.kind.name()).collect();
    let mut publish = |interval: &IntervalOutcome, tallies: &[Tally]| board.publish(&names, interval, tallies);
    let mut wait_for_start = || {
        at_gate.0.pass(&board.clock);
        at_gate.0.start()
    };
    let ran = open_and_run(worker, &buffers, &shared, &mut wait_for_start, &mut publish)?;
    Ok(ran.map(|ran| outcome(group, number, worker, ran)))
}

fn outcome(group: usize, number: usize, worker: &Worker, ran: Ran) -> WorkerOutcome {
    let Ran { ended, operations, intervals, engine, reconnects, labels } = ran;
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
        operations,
        cpu: ended.cpu,
        depth_levels: ended.depth_levels,
        reconnects,
        labels,
        intervals,
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
