//! The loop of one worker: what is due is submitted, what is done is recorded.
//!
//! The loop owns time, pacing and accounting; the engine moves bytes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use iocurve_meter::{Clock, Nanos, Pacer};

use crate::chance::Rng;
use crate::cpu::thread_cpu_time;
use crate::error::EngineError;
use crate::offsets::{Address, Offsets};
use crate::outcome::{CpuTime, IntervalOutcome, State};
use crate::payload::Filler;
use crate::plan::{End, OperationKind, OperationPlan, RateUnit, Worker};
use crate::recorder::{Done, Recorder, Tally};
use crate::request::{Buffers, Completion, Engine, Request};

/// Longest time the loop waits before it looks at the stop flag again.
const LOOK_AROUND: Nanos = 50_000_000;
/// How long what is in flight may take to come back after the end, or after a stop.
const DRAIN: Nanos = 30_000_000_000;
const DRAIN_WHEN_STOPPED: Nanos = 1_000_000_000;

/// What a worker shares with the run.
#[derive(Debug, Clone)]
pub struct Shared {
    /// Set from outside to end the run early.
    pub stop: Arc<AtomicBool>,
    /// The clock of all workers.
    pub clock: Clock,
    /// Length of a reporting interval.
    pub interval_ns: Nanos,
}

/// How the loop ended.
#[derive(Debug)]
pub struct Ended {
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
    /// Operations in flight after a submission, by power of two.
    pub depth_levels: BTreeMap<String, u64>,
}

/// The load of one worker, ready to start: all memory is taken, all addresses are computable.
pub struct Load<'a> {
    plan: &'a Worker,
    shared: Shared,
    offsets: Offsets,
    filler: Filler,
    buffers: Arc<Buffers>,
    mix: Mix,
    recorder: Recorder,
    slots: Vec<InFlight>,
    free: Vec<u32>,
    issued_operations: u64,
    issued_bytes: u64,
    depth_levels: [u64; 7],
}

#[derive(Debug, Clone, Copy, Default)]
struct InFlight {
    submitted: Nanos,
    due: Nanos,
    offset: u64,
    length: u32,
    file: u32,
    operation: u32,
}

impl<'a> Load<'a> {
    /// `buffers` has `depth` slots of the largest block.
    pub fn new(plan: &'a Worker, depth: u32, buffers: Arc<Buffers>, shared: Shared) -> Result<Self, EngineError> {
        Ok(Self {
            plan,
            shared,
            offsets: Offsets::new(plan)?,
            filler: Filler::new(plan, &buffers),
            buffers,
            mix: Mix::new(plan),
            recorder: Recorder::new(&plan.operations),
            slots: vec![InFlight::default(); depth as usize],
            free: (0..depth).rev().collect(),
            issued_operations: 0,
            issued_bytes: 0,
            depth_levels: [0; 7],
        })
    }

    /// Runs to the end. `group_start` is the instant that all workers of the group count from; `publish` sees every
    /// closed interval.
    pub fn run<E: Engine>(
        mut self,
        engine: &mut E,
        group_start: Nanos,
        publish: &mut dyn FnMut(&IntervalOutcome, &[Tally]),
    ) -> (Ended, Recorder) {
        let mut progress = Progress::new(self.plan, group_start, self.shared.interval_ns);
        self.wait_until(progress.start);
        self.mix.start(progress.start);
        let result = self.drive(engine, &mut progress, publish);
        let now = self.shared.clock.now();
        progress.finish(now, &mut self.recorder, publish);
        let (state, error) = match result {
            Ok(state) => (state, None),
            Err(error) => (State::Failed, Some(error)),
        };
        let ended = Ended {
            state,
            error,
            window: (progress.window_start - group_start, progress.window_end - group_start),
            drained: now.saturating_sub(group_start),
            drained_operations: progress.drained_operations,
            cpu: progress.cpu(),
            depth_levels: named_levels(&self.depth_levels),
        };
        (ended, self.recorder)
    }

    fn drive<E: Engine>(
        &mut self,
        engine: &mut E,
        progress: &mut Progress,
        publish: &mut dyn FnMut(&IntervalOutcome, &[Tally]),
    ) -> Result<State, EngineError> {
        let mut done = Vec::with_capacity(self.slots.len());
        let mut last = self.shared.clock.now();
        let mut open = true;
        let mut state = State::Finished;
        let mut failure = None;
        loop {
            if open {
                if self.shared.stop.load(Ordering::Relaxed) {
                    (open, state) = (false, State::Interrupted);
                    progress.end_window(self.shared.clock.now(), DRAIN_WHEN_STOPPED);
                } else if last >= progress.window_end {
                    open = false;
                    progress.end_window(progress.window_end, DRAIN);
                }
            }
            let wake = if open { self.fill(engine)? } else { Wake::Never };
            let in_flight = self.slots.len() - self.free.len();
            if in_flight == 0 {
                match wake {
                    Wake::At(due) => {
                        self.wait_until(due.min(progress.boundary()));
                        last = self.shared.clock.now();
                        progress.advance(last, &mut self.recorder, publish);
                        continue;
                    }
                    // Everything asked for was issued and is done.
                    Wake::Exhausted if open => {
                        progress.end_window(last, 0);
                        return Ok(state);
                    }
                    _ => return failure.map_or(Ok(state), Err),
                }
            }
            if !open && last >= progress.give_up {
                return failure.map_or_else(|| self.not_drained(in_flight, state), Err);
            }
            let deadline = wake.at().min(progress.boundary()).min(last + LOOK_AROUND);
            engine.reap(1, deadline, &mut done)?;
            last = self.shared.clock.now();
            progress.advance(last, &mut self.recorder, publish);
            for completion in done.drain(..) {
                let result = self.complete(completion, last, progress);
                if let Err(error) = result
                    && failure.is_none()
                {
                    (open, state, failure) = (false, State::Failed, Some(error));
                    progress.end_window(last, DRAIN_WHEN_STOPPED);
                }
            }
        }
    }

    /// Submits what is due, and says what the loop is waiting for besides completions.
    #[inline]
    fn fill<E: Engine>(&mut self, engine: &mut E) -> Result<Wake, EngineError> {
        let now = self.shared.clock.now();
        let free_before = self.free.len();
        let mut wake = Wake::Never;
        while let Some(slot) = self.free.pop() {
            let due = if self.exhausted() { Err(Wake::Exhausted) } else { self.mix.next(now) };
            let next = due.and_then(|next| Ok((next, self.offsets.next(next.operation).ok_or(Wake::Exhausted)?)));
            match next {
                Ok((next, address)) => self.submit(engine, slot, next, address, now)?,
                Err(reason) => {
                    self.free.push(slot);
                    wake = reason;
                    break;
                }
            }
            if E::SYNCHRONOUS {
                break;
            }
        }
        let submitted = free_before - self.free.len();
        if submitted > 0 {
            self.depth_levels[level(self.slots.len() - self.free.len())] += submitted as u64;
        }
        Ok(wake)
    }

    #[inline]
    fn submit<E: Engine>(
        &mut self,
        engine: &mut E,
        slot: u32,
        next: Next,
        address: Address,
        now: Nanos,
    ) -> Result<(), EngineError> {
        let Address { file, offset, length } = address;
        let kind = self.plan.operations[next.operation].kind;
        let due = next.due.unwrap_or(now);
        self.slots[slot as usize] =
            InFlight { submitted: now, due, offset, length, file, operation: next.operation as u32 };
        if kind == OperationKind::Write {
            self.filler.renew(&self.buffers, slot, length);
        }
        self.issued_operations += 1;
        self.issued_bytes += u64::from(length);
        engine.submit(Request { slot, kind, file, offset, length })
    }

    #[inline]
    fn complete(&mut self, completion: Completion, at: Nanos, progress: &mut Progress) -> Result<(), EngineError> {
        let InFlight { submitted, due, offset, length, file, operation } = self.slots[completion.slot as usize];
        self.free.push(completion.slot);
        if progress.ended {
            progress.drained_operations += 1;
        } else if completion.result >= 0 {
            let bytes = completion.result as u32;
            self.recorder.record(Done { operation: operation as usize, submitted, due, at, asked: length, bytes });
        } else {
            self.recorder.record_error(operation as usize);
        }
        if completion.result >= 0 {
            return Ok(());
        }
        Err(EngineError::Operation {
            kind: self.plan.operations[operation as usize].kind.name(),
            length,
            offset,
            path: self.plan.files[file as usize].path.clone(),
            source: std::io::Error::from_raw_os_error(-completion.result as i32),
        })
    }

    /// Whether all bytes and operations that the plan asks for have been issued.
    #[inline]
    fn exhausted(&self) -> bool {
        let End { bytes, operations, .. } = self.plan.end;
        bytes.is_some_and(|limit| self.issued_bytes >= limit)
            || operations.is_some_and(|limit| self.issued_operations >= limit)
    }

    fn not_drained(&self, in_flight: usize, state: State) -> Result<State, EngineError> {
        if state == State::Interrupted {
            return Ok(state);
        }
        Err(EngineError::Connection(format!(
            "{in_flight} operations of {} did not come back within {} s of the end of the run",
            self.plan.job,
            DRAIN / 1_000_000_000
        )))
    }

    /// Waits in steps short enough to see the stop flag.
    fn wait_until(&self, deadline: Nanos) {
        while !self.shared.stop.load(Ordering::Relaxed) {
            let now = self.shared.clock.now();
            if now >= deadline {
                return;
            }
            self.shared.clock.wait_until(deadline.min(now + LOOK_AROUND));
        }
    }
}

/// What the loop waits for besides completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wake {
    /// The next paced operation.
    At(Nanos),
    /// Nothing: all slots are taken.
    Never,
    /// Nothing more: all was issued.
    Exhausted,
}

impl Wake {
    fn at(self) -> Nanos {
        match self {
            Self::At(due) => due,
            Self::Never | Self::Exhausted => Nanos::MAX,
        }
    }
}

/// The next operation to issue.
#[derive(Debug, Clone, Copy)]
struct Next {
    operation: usize,
    /// When it was due; `None` in a closed loop.
    due: Option<Nanos>,
}

/// Which kind comes next: by shares in a closed loop, by schedule under a rate.
#[derive(Debug)]
enum Mix {
    Single,
    Shares { upto: Vec<u64>, total: u64, rng: Rng },
    Paced(Vec<Paced>),
}

#[derive(Debug)]
struct Paced {
    rate: Option<(Pacer, u64)>,
    plan: Option<(u64, Nanos)>,
}

impl Mix {
    fn new(worker: &Worker) -> Self {
        if worker.operations.iter().any(|operation| operation.rate.is_some()) {
            return Self::Paced(worker.operations.iter().map(Paced::new).collect());
        }
        if worker.operations.len() == 1 {
            return Self::Single;
        }
        let mut total = 0;
        let upto = worker
            .operations
            .iter()
            .map(|operation| {
                total += u64::from(operation.share);
                total
            })
            .collect();
        Self::Shares { upto, total, rng: Rng::new(worker.seed.rotate_left(17) ^ 0x006d_6978) }
    }

    /// Schedules begin here.
    fn start(&mut self, now: Nanos) {
        if let Self::Paced(kinds) = self {
            for kind in kinds {
                kind.start(now);
            }
        }
    }

    #[inline]
    fn next(&mut self, now: Nanos) -> Result<Next, Wake> {
        match self {
            Self::Single => Ok(Next { operation: 0, due: None }),
            Self::Shares { upto, total, rng } => {
                let drawn = rng.below(*total);
                let operation = upto.iter().position(|&limit| drawn < limit).unwrap_or(0);
                Ok(Next { operation, due: None })
            }
            Self::Paced(kinds) => earliest(kinds, now),
        }
    }
}

/// The kind whose next operation was due first. A kind without a rate is always due now, after those that are late.
fn earliest(kinds: &mut [Paced], now: Nanos) -> Result<Next, Wake> {
    let (operation, due) = kinds
        .iter()
        .enumerate()
        .map(|(index, kind)| (index, kind.due().unwrap_or(now)))
        .min_by_key(|&(_, due)| due)
        .expect("a worker has operations");
    if due > now {
        return Err(Wake::At(due));
    }
    let kind = &mut kinds[operation];
    kind.advance();
    Ok(Next { operation, due: kind.rate.is_some().then_some(due) })
}

impl Paced {
    fn new(operation: &OperationPlan) -> Self {
        let plan = operation.rate.map(|rate| (rate.count, rate.per_ns));
        let units = match operation.rate.map(|rate| rate.unit) {
            Some(RateUnit::Bytes) => u64::from(operation.blocks.smallest()),
            _ => 1,
        };
        Self { rate: plan.map(|(count, per_ns)| (Pacer::new(count, per_ns, 0), units)), plan }
    }

    fn start(&mut self, now: Nanos) {
        if let (Some((pacer, _)), Some((count, per_ns))) = (&mut self.rate, self.plan) {
            *pacer = Pacer::new(count, per_ns, now);
        }
    }

    fn due(&self) -> Option<Nanos> {
        self.rate.as_ref().map(|(pacer, _)| pacer.due())
    }

    fn advance(&mut self) {
        if let Some((pacer, units)) = &mut self.rate {
            pacer.advance(*units);
        }
    }
}

/// Where a worker stands in time: intervals, ramp, window.
#[derive(Debug)]
struct Progress {
    group_start: Nanos,
    start: Nanos,
    interval_ns: Nanos,
    opened: Nanos,
    window_start: Nanos,
    window_end: Nanos,
    give_up: Nanos,
    ended: bool,
    drained_operations: u64,
    cpu_start: CpuTime,
    cpu_end: Option<CpuTime>,
}

impl Progress {
    fn new(plan: &Worker, group_start: Nanos, interval_ns: Nanos) -> Self {
        let start = group_start.saturating_add(plan.start_delay_ns);
        let window_start = start.saturating_add(plan.ramp_ns);
        let window_end = plan.end.runtime_ns.map_or(Nanos::MAX, |runtime| window_start.saturating_add(runtime));
        Self {
            group_start,
            start,
            interval_ns,
            opened: start,
            window_start,
            window_end,
            give_up: Nanos::MAX,
            ended: false,
            drained_operations: 0,
            cpu_start: thread_cpu_time(),
            cpu_end: None,
        }
    }

    /// When the current interval ends: at the next multiple of its length, the end of the ramp, or the end of the window.
    fn boundary(&self) -> Nanos {
        if self.ended {
            return Nanos::MAX;
        }
        let next = self.group_start + ((self.opened - self.group_start) / self.interval_ns + 1) * self.interval_ns;
        let ramp_end = if self.opened < self.window_start { self.window_start } else { Nanos::MAX };
        next.min(ramp_end).min(self.window_end)
    }

    /// Closes the intervals that are over at `now`.
    #[inline]
    fn advance(&mut self, now: Nanos, recorder: &mut Recorder, publish: &mut dyn FnMut(&IntervalOutcome, &[Tally])) {
        while !self.ended && now >= self.boundary() {
            let boundary = self.boundary();
            self.close(boundary, recorder, publish);
            if boundary == self.window_start {
                self.cpu_start = thread_cpu_time();
            }
            if boundary == self.window_end {
                self.end_window(boundary, DRAIN);
            }
        }
    }

    fn close(&mut self, end: Nanos, recorder: &mut Recorder, publish: &mut dyn FnMut(&IntervalOutcome, &[Tally])) {
        let interval = IntervalOutcome {
            index: (self.opened - self.group_start) / self.interval_ns,
            ramp: self.opened < self.window_start,
            start_ns: self.opened - self.group_start,
            end_ns: end - self.group_start,
            operations: BTreeMap::new(),
        };
        recorder.close(interval, publish);
        self.opened = end;
    }

    /// No operation counts after `end`; what is in flight gets `grace` to come back.
    fn end_window(&mut self, end: Nanos, grace: Nanos) {
        if self.ended {
            return;
        }
        self.ended = true;
        // A stop before the window leaves it empty.
        self.window_end = self.window_end.min(end).max(self.window_start);
        self.give_up = end.saturating_add(grace);
        self.cpu_end = Some(thread_cpu_time());
    }

    /// Closes the last interval, if there is anything in it.
    fn finish(&mut self, now: Nanos, recorder: &mut Recorder, publish: &mut dyn FnMut(&IntervalOutcome, &[Tally])) {
        self.end_window(now, 0);
        if self.window_end > self.opened {
            self.close(self.window_end, recorder, publish);
        }
    }

    fn cpu(&self) -> CpuTime {
        let end = self.cpu_end.unwrap_or_else(thread_cpu_time);
        CpuTime {
            user_ns: end.user_ns - self.cpu_start.user_ns,
            system_ns: end.system_ns - self.cpu_start.system_ns,
            context_switches: end.context_switches - self.cpu_start.context_switches,
        }
    }
}

/// Index of a depth among 1, 2, 4, 8, 16, 32, 64, each standing for all up to the next.
#[inline]
fn level(in_flight: usize) -> usize {
    (in_flight.max(1).ilog2() as usize).min(6)
}

fn named_levels(levels: &[u64; 7]) -> BTreeMap<String, u64> {
    let names = ["1", "2", "4", "8", "16", "32", ">=64"];
    names.iter().zip(levels).filter(|(_, count)| **count > 0).map(|(name, count)| ((*name).into(), *count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::{file, operation, worker};
    use crate::plan::{Access, Arrivals, Cover, Passes, Rate};

    const MS: Nanos = 1_000_000;

    /// An engine on a clock that the test holds: every operation takes `service` after it is sent.
    struct Simulated {
        clock: Clock,
        service: Nanos,
        in_flight: std::collections::VecDeque<(Nanos, Completion)>,
        requests: Vec<Request>,
        fail_at: Option<usize>,
    }

    impl Simulated {
        fn new(clock: &Clock, service: Nanos) -> Self {
            let in_flight = std::collections::VecDeque::new();
            Self { clock: clock.clone(), service, in_flight, requests: Vec::new(), fail_at: None }
        }
    }

    impl Engine for Simulated {
        fn submit(&mut self, request: Request) -> Result<(), EngineError> {
            let failed = self.fail_at == Some(self.requests.len());
            self.requests.push(request);
            let result = if failed { -i64::from(libc::EIO) } else { i64::from(request.length) };
            let completion = Completion { slot: request.slot, result };
            self.in_flight.push_back((self.clock.now() + self.service, completion));
            Ok(())
        }

        fn reap(&mut self, min: usize, deadline: Nanos, done: &mut Vec<Completion>) -> Result<(), EngineError> {
            if min > 0 {
                let next = self.in_flight.front().map_or(Nanos::MAX, |&(at, _)| at);
                self.clock.wait_until(next.min(deadline));
            }
            while self.in_flight.front().is_some_and(|&(at, _)| at <= self.clock.now()) {
                done.extend(self.in_flight.pop_front().map(|(_, completion)| completion));
            }
            Ok(())
        }

        fn describe(&self) -> String {
            "simulated".into()
        }
    }

    struct Simulation {
        ended: Ended,
        kinds: BTreeMap<String, crate::outcome::KindOutcome>,
        intervals: Vec<IntervalOutcome>,
        requests: Vec<Request>,
    }

    fn simulate(plan: &Worker, service: Nanos) -> Simulation {
        simulate_with(plan, service, |_, _| {})
    }

    fn simulate_with(plan: &Worker, service: Nanos, prepare: impl FnOnce(&mut Simulated, &Shared)) -> Simulation {
        let shared = Shared { stop: Arc::new(AtomicBool::new(false)), clock: Clock::manual(), interval_ns: 100 * MS };
        let mut engine = Simulated::new(&shared.clock, service);
        prepare(&mut engine, &shared);
        let buffers = Buffers::new(plan.depth as usize, 4096);
        let load = Load::new(plan, plan.depth, buffers, shared).unwrap();
        let (ended, recorder) = load.run(&mut engine, 5 * MS, &mut |_, _| {});
        let (kinds, intervals) = recorder.finish();
        Simulation { ended, kinds, intervals, requests: engine.requests }
    }

    fn for_ms(runtime: u64) -> End {
        End { runtime_ns: Some(runtime * MS), bytes: None, operations: None }
    }

    fn paced(kind: OperationKind, count: u64) -> OperationPlan {
        let rate = Rate { unit: RateUnit::Operations, count, per_ns: 1_000_000_000, arrivals: Arrivals::Even };
        OperationPlan { rate: Some(rate), ..operation(kind, 4096) }
    }

    #[test]
    fn a_closed_loop_keeps_its_depth_in_flight() {
        let plan = Worker { depth: 8, end: for_ms(1000), ..worker() };
        let ran = simulate(&plan, MS);
        let read = &ran.kinds["read"];
        // 8 every millisecond; the last batch comes back at the very end of the window, which it is not part of.
        assert_eq!((read.operations, read.bytes), (999 * 8, 999 * 8 * 4096));
        assert_eq!((read.service.min_ns, read.service.max_ns), (MS, MS));
        assert_eq!(ran.ended.window, (0, 1000 * MS));
        assert_eq!(ran.ended.drained_operations, 8);
        assert_eq!(ran.ended.depth_levels, BTreeMap::from([("8".into(), 1000 * 8)]));
        assert!(read.response.is_none());
    }

    #[test]
    fn intervals_are_numbered_from_the_start_of_the_group() {
        let plan = Worker { start_delay_ns: 50 * MS, ramp_ns: 100 * MS, end: for_ms(120), ..worker() };
        let ran = simulate(&plan, MS);
        let seen: Vec<_> = ran.intervals.iter().map(|i| (i.index, i.ramp, i.start_ns / MS, i.end_ns / MS)).collect();
        assert_eq!(seen, [(0, true, 50, 100), (1, true, 100, 150), (1, false, 150, 200), (2, false, 200, 270)]);
        let counted: u64 = ran.intervals.iter().filter(|i| !i.ramp).map(|i| i.operations["read"].operations).sum();
        assert_eq!(counted, ran.kinds["read"].operations);
        assert_eq!(ran.ended.window, (150 * MS, 270 * MS));
    }

    #[test]
    fn ends_after_bytes_and_counts_every_one() {
        let plan = Worker { depth: 3, end: End { bytes: Some(10 * 4096), ..for_ms(1_000_000) }, ..worker() };
        let ran = simulate(&plan, MS);
        assert_eq!((ran.kinds["read"].operations, ran.requests.len()), (10, 10));
        assert_eq!(ran.ended.window, (0, 4 * MS));
        assert_eq!(ran.ended.state, State::Finished);
    }

    #[test]
    fn a_rate_is_met_exactly_while_the_engine_keeps_up() {
        let plan =
            Worker { depth: 4, operations: vec![paced(OperationKind::Read, 300)], end: for_ms(1000), ..worker() };
        let read = &simulate(&plan, MS).kinds["read"];
        assert_eq!(read.operations, 300);
        let response = read.response.as_ref().unwrap();
        assert_eq!((response.min_ns, response.max_ns), (MS, MS));
    }

    #[test]
    fn response_counts_from_the_due_moment_when_the_engine_is_too_slow() {
        // One at a time, 10 ms each, asked for every 5 ms: the k-th starts at 10 k and was due at 5 k.
        let plan = Worker { operations: vec![paced(OperationKind::Read, 200)], end: for_ms(100), ..worker() };
        let read = &simulate(&plan, 10 * MS).kinds["read"];
        assert_eq!(read.operations, 9);
        assert_eq!(read.service.max_ns, 10 * MS);
        assert_eq!(read.response.as_ref().unwrap().max_ns, 8 * 5 * MS + 10 * MS);
    }

    #[test]
    fn each_kind_has_its_own_rate_and_the_shares_do_not_count() {
        let operations = vec![
            OperationPlan { share: 70, ..paced(OperationKind::Read, 100) },
            OperationPlan { share: 30, ..paced(OperationKind::Write, 100) },
        ];
        let ran = simulate(&Worker { depth: 4, operations, end: for_ms(1000), ..worker() }, MS);
        assert_eq!((ran.kinds["read"].operations, ran.kinds["write"].operations), (100, 100));
    }

    #[test]
    fn shares_are_met_within_chance() {
        let operations = vec![
            OperationPlan { share: 75, ..operation(OperationKind::Read, 4096) },
            OperationPlan { share: 25, ..operation(OperationKind::Write, 4096) },
        ];
        let end = End { runtime_ns: None, bytes: None, operations: Some(10_000) };
        let ran = simulate(&Worker { depth: 16, operations, end, ..worker() }, MS);
        // 7,500 expected; five standard deviations are 217.
        assert!((7283..7717).contains(&ran.kinds["read"].operations), "{}", ran.kinds["read"].operations);
        assert_eq!(ran.kinds["read"].operations + ran.kinds["write"].operations, 10_000);
    }

    #[test]
    fn the_same_seed_is_the_same_load() {
        let access = Access { cover: Cover::Independent, passes: Passes::Fresh, ..worker().access };
        let operations = vec![OperationPlan { random_percent: 100, ..operation(OperationKind::Read, 4096) }];
        let end = End { runtime_ns: None, bytes: None, operations: Some(500) };
        let plan = Worker { depth: 4, access, operations, end, files: vec![file("f", 1 << 30)], ..worker() };
        assert_eq!(simulate(&plan, MS).requests, simulate(&plan, MS).requests);
        let other = Worker { seed: 2, ..plan.clone() };
        assert_ne!(simulate(&plan, MS).requests, simulate(&other, MS).requests);
    }

    #[test]
    fn a_failed_operation_ends_the_worker_and_keeps_what_was_measured() {
        let plan = Worker { end: for_ms(1000), ..worker() };
        let ran = simulate_with(&plan, MS, |engine, _| engine.fail_at = Some(10));
        assert_eq!(ran.ended.state, State::Failed);
        assert_eq!((ran.kinds["read"].operations, ran.kinds["read"].errors), (10, 1));
        let text = ran.ended.error.unwrap().to_string();
        assert!(text.starts_with("read of 4096 bytes at offset 40960 of f: Input/output error"), "{text}");
    }

    #[test]
    fn a_stop_ends_the_window_where_it_comes() {
        let plan = Worker { end: for_ms(1000), ..worker() };
        let ran = simulate_with(&plan, MS, |_, shared| shared.stop.store(true, Ordering::Relaxed));
        assert_eq!(ran.ended.state, State::Interrupted);
        assert_eq!((ran.ended.window, ran.requests.len()), ((0, 0), 0));
    }
}
