//! Whole runs on a clock that the test holds.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;

use super::*;
use crate::outcome::IntervalOutcome;
use crate::plan::tests::{file, operation, worker};
use crate::plan::{Access, Arrivals, Cover, End, OperationKind, OperationPlan, Passes, Rate, RateUnit, Worker};
use crate::recorder::Recorded;
use crate::request::{Buffers, Completion, Engine, Request};

const MS: Nanos = 1_000_000;

/// An engine on a clock that the test holds: every operation takes `service` after it is sent.
struct Simulated {
    clock: Clock,
    service: Nanos,
    in_flight: VecDeque<(Nanos, Completion)>,
    requests: Vec<Request>,
    fail_at: Option<usize>,
    /// After so many requests the worker is told to end as finished.
    finish_at: Option<(usize, Arc<AtomicBool>)>,
}

impl Simulated {
    fn new(clock: &Clock, service: Nanos) -> Self {
        let in_flight = VecDeque::new();
        Self { clock: clock.clone(), service, in_flight, requests: Vec::new(), fail_at: None, finish_at: None }
    }
}

impl Engine for Simulated {
    fn submit(&mut self, request: Request) -> Result<(), EngineError> {
        let failed = self.fail_at == Some(self.requests.len());
        self.requests.push(request);
        if let Some((count, finish)) = &self.finish_at {
            finish.store(self.requests.len() >= *count, Ordering::Relaxed);
        }
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
    let shared = Shared { stop: Arc::default(), finish: Arc::default(), clock: Clock::manual(), interval_ns: 100 * MS };
    let mut engine = Simulated::new(&shared.clock, service);
    prepare(&mut engine, &shared);
    let buffers = Buffers::new(plan.depth as usize, 4096);
    let load = Load::new(plan, plan.depth, buffers, shared).unwrap();
    let (ended, recorder) = load.run(&mut engine, 5 * MS, &mut |_, _| {});
    let Recorded { operations: kinds, intervals, .. } = recorder.finish();
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
    let plan = Worker { depth: 4, operations: vec![paced(OperationKind::Read, 300)], end: for_ms(1000), ..worker() };
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

#[test]
fn a_worker_that_is_told_to_finish_does_so_and_its_window_ends_there() {
    let plan = Worker { end: for_ms(1000), ..worker() };
    let ran = simulate_with(&plan, MS, |engine, shared| engine.finish_at = Some((7, Arc::clone(&shared.finish))));
    assert_eq!((ran.ended.state, ran.ended.window, ran.requests.len()), (State::Finished, (0, 7 * MS), 7));
    assert_eq!((ran.kinds["read"].operations, ran.ended.drained_operations), (7, 0));

    let late = Worker { start_delay_ns: 500 * MS, ..plan };
    let ran = simulate_with(&late, MS, |_, shared| shared.finish.store(true, Ordering::Relaxed));
    assert_eq!((ran.ended.state, ran.requests.len()), (State::Finished, 0));
    assert_eq!(ran.ended.window, (500 * MS, 500 * MS));
}
