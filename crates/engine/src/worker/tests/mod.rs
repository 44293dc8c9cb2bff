//! Whole runs on a clock that the test controls.

mod batch;
mod flush;
mod left_over;
mod pacing;
mod passes;
mod plain;
mod replay;
mod search;
mod submissions;
mod think;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use super::*;
use crate::engines::buffers::Buffers;
use crate::engines::request::{Completion, Engine, Request};
use crate::offsets::SharedPositions;
use crate::outcome::IntervalOutcome;
use crate::plan::tests::{file, operation, worker};
use crate::plan::{
    Access, Arrivals, Cover, Durability, End, EnginePlan, FileOpen, NfsMount, OperationKind, OperationPlan, Passes,
    Rate, RateUnit, Tolerance, Worker,
};
use crate::record::Recorded;

const MS: Nanos = 1_000_000;

/// Service time of a request, given the number of operations in flight, itself included.
type Service = Box<dyn Fn(&Request, usize) -> Nanos>;

/// An engine on a clock that the test controls.
struct Simulated {
    clock: Clock,
    service: Service,
    /// By the time at which they complete.
    in_flight: BTreeMap<(Nanos, usize), Completion>,
    requests: Vec<Request>,
    /// Time at which each request was submitted.
    times: Vec<Nanos>,
    /// Requests submitted between two reaps, if any.
    batches: Vec<usize>,
    batch: usize,
    /// Duration of a reap that does not wait.
    reap_ns: Nanos,
    /// Duration of sending one operation.
    send_ns: Nanos,
    /// Submitted, but not sent.
    unsent: u64,
    fail_at: Option<usize>,
    /// From this request on, operations move half of their bytes.
    short_at: Option<usize>,
    /// From this request on, writes find no space.
    full_at: Option<usize>,
    /// The flag that is set after this many requests.
    end_at: Option<(usize, Arc<AtomicBool>)>,
    /// Duration of a drop of cached pages.
    drop_ns: Nanos,
    /// Drops of cached pages: requests before, and files.
    drops: Vec<(usize, Range<usize>)>,
    /// Times at which the loop said that it waits.
    idle: Arc<Mutex<Vec<Nanos>>>,
}

impl Simulated {
    fn new(clock: &Clock, service: Service) -> Self {
        Self {
            clock: clock.clone(),
            service,
            in_flight: BTreeMap::new(),
            requests: Vec::new(),
            times: Vec::new(),
            batches: Vec::new(),
            batch: 0,
            reap_ns: 0,
            send_ns: 0,
            unsent: 0,
            fail_at: None,
            short_at: None,
            full_at: None,
            end_at: None,
            drop_ns: 0,
            drops: Vec::new(),
            idle: Arc::default(),
        }
    }
}

impl Engine for Simulated {
    fn submit(&mut self, request: Request) -> Result<(), EngineError> {
        let number = self.requests.len();
        self.requests.push(request);
        self.times.push(self.clock.now());
        self.batch += 1;
        self.unsent += 1;
        if let Some((count, end)) = &self.end_at {
            end.store(self.requests.len() >= *count, Ordering::Relaxed);
        }
        let moved = if request.kind.is_flush() { 0 } else { i64::from(request.address.length) };
        let result = match () {
            () if self.fail_at == Some(number) => -i64::from(libc::EIO),
            () if self.full_at.is_some_and(|full| number >= full) => -i64::from(libc::ENOSPC),
            () if self.short_at.is_some_and(|short| number >= short) => moved / 2,
            () => moved,
        };
        let done = self.clock.now() + (self.service)(&request, self.in_flight.len() + 1);
        self.in_flight.insert((done, number), Completion { slot: request.slot, result });
        Ok(())
    }

    fn send(&mut self) -> Result<(), EngineError> {
        self.clock.advance(std::mem::take(&mut self.unsent) * self.send_ns);
        Ok(())
    }

    fn reap(&mut self, min: usize, deadline: Nanos, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        if self.batch > 0 {
            self.batches.push(std::mem::take(&mut self.batch));
        }
        if min > 0 {
            let last = self.in_flight.keys().nth(min - 1).map_or(Nanos::MAX, |&(at, _)| at);
            self.clock.wait_until(last.min(deadline));
        }
        self.clock.advance(self.reap_ns);
        while let Some(next) = self.in_flight.first_entry().filter(|next| next.key().0 <= self.clock.now()) {
            done.push(next.remove());
        }
        Ok(())
    }

    fn drop_cached_pages(&mut self, files: Range<usize>) -> Result<(), EngineError> {
        self.drops.push((self.requests.len(), files));
        self.clock.advance(self.drop_ns);
        Ok(())
    }

    fn idle(&mut self) -> Result<(), EngineError> {
        self.idle.lock().unwrap().push(self.clock.now());
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
    /// Time at which each request was submitted, since the group's start.
    times: Vec<Nanos>,
    batches: Vec<usize>,
    drops: Vec<(usize, Range<usize>)>,
    depths: BTreeMap<String, u64>,
    submits: BTreeMap<String, u64>,
    completes: BTreeMap<String, u64>,
}

impl Simulation {
    fn times_ms(&self) -> Vec<f64> {
        self.times.iter().map(|&time| time as f64 / MS as f64).collect()
    }
}

/// The group starts here, on the clock of all workers.
const START: Nanos = 5 * MS;

fn simulate(plan: &Worker, service: Nanos) -> Simulation {
    simulate_with(plan, service, |_, _| {})
}

fn simulate_with(plan: &Worker, service: Nanos, prepare: impl FnOnce(&mut Simulated, &Shared)) -> Simulation {
    simulate_on(plan, Box::new(move |_, _| service), prepare)
}

fn shared() -> Shared {
    Shared {
        stop: Arc::default(),
        finish: Arc::default(),
        tree: None,
        flow: None,
        tickets: None,
        clock: Clock::manual(),
        interval_ns: 100 * MS,
        positions: SharedPositions::default(),
        failed: Arc::default(),
    }
}

fn simulate_on(plan: &Worker, service: Service, prepare: impl FnOnce(&mut Simulated, &Shared)) -> Simulation {
    let shared = shared();
    let mut engine = Simulated::new(&shared.clock, service);
    prepare(&mut engine, &shared);
    let (ended, recorded) = drive(plan, shared, &mut engine);
    let Recorded { operations: kinds, intervals, levels, .. } = recorded;
    let [depths, submits, completes] = levels.named();
    let times = engine.times.iter().map(|time| time - START).collect();
    Simulation {
        ended,
        kinds,
        intervals,
        requests: engine.requests,
        times,
        batches: engine.batches,
        drops: engine.drops,
        depths,
        submits,
        completes,
    }
}

fn drive(plan: &Worker, shared: Shared, engine: &mut impl Engine) -> (Ended, Recorded) {
    let buffers = Buffers::new(plan.depth as usize, plan.block_bytes_max() as usize);
    let load = Load::new(plan, plan.depth, buffers, shared).unwrap();
    let (ended, recorder) = load.run(engine, Start::with_group(START), &mut |_, _| {});
    (ended, recorder.finish())
}

fn for_ms(runtime: u64) -> End {
    End { runtime_ns: Some(runtime * MS), bytes: None, operations: None, when_full: false }
}

#[test]
fn a_closed_loop_keeps_its_depth_in_flight() {
    let plan = Worker { depth: 8, end: for_ms(1000), ..worker() };
    let ran = simulate(&plan, MS);
    let read = &ran.kinds["read"];
    // 8 every millisecond; the last batch completes at the very end of the window, so it is not counted.
    assert_eq!((read.operations, read.bytes), (999 * 8, 999 * 8 * 4096));
    assert_eq!((read.service.min_ns, read.service.max_ns), (MS, MS));
    assert_eq!(ran.ended.window, (0, 1000 * MS));
    assert_eq!(ran.ended.drained_operations, 8);
    assert_eq!(ran.depths, BTreeMap::from([("8".into(), 1000 * 8)]));
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
fn later_intervals_are_joined_and_lose_only_their_percentiles() {
    let plan = Worker { ramp_ns: 50 * MS, end: for_ms(1_600), intervals_singly: Some(4), ..worker() };
    let [ran, single] = [&plan, &Worker { intervals_singly: None, ..plan.clone() }].map(|plan| simulate(plan, MS));
    let seen: Vec<_> = ran.intervals.iter().map(|i| (i.index, i.joined, i.start_ns / MS, i.end_ns / MS)).collect();
    let singly = [(0, 1, 0, 50), (0, 1, 50, 100), (1, 1, 100, 200), (2, 1, 200, 300), (3, 1, 300, 400)];
    assert_eq!(seen[..5], singly);
    assert_eq!(
        seen[5..],
        [(4, 2, 400, 600), (6, 2, 600, 800), (8, 4, 800, 1200), (12, 4, 1200, 1600), (16, 1, 1600, 1650)]
    );
    let counted = |ran: &Simulation| ran.intervals.iter().map(|i| i.operations["read"].operations).sum::<u64>();
    assert_eq!((counted(&ran), single.intervals.len()), (counted(&single), 18));
    let read = ran.intervals[8].operations["read"];
    assert_eq!((read.operations, read.bytes, read.p50_ns, read.p99_ns), (400, 400 * 4096, None, None));
    assert_eq!((read.min_ns, read.max_ns, read.mean_ns, read.stddev_ns), (MS, MS, MS as f64, 0.0));
}

#[test]
fn the_load_goes_on_after_the_window_and_is_not_counted() {
    let plan = Worker { depth: 8, ramp_ns: 100 * MS, end: for_ms(200), cooldown_ns: 50 * MS, ..worker() };
    let ran = simulate(&plan, MS);
    assert_eq!(ran.kinds["read"].operations, 8 * 200);
    // Operations that complete at the very end of the window are not counted.
    assert_eq!((ran.requests.len(), ran.ended.drained_operations), (8 * 350, 8 * 51));
    assert_eq!((ran.ended.window, ran.ended.drained), ((100 * MS, 300 * MS), 350 * MS));
    let seen: Vec<_> = ran.intervals.iter().map(|i| (i.ramp, i.start_ns / MS, i.end_ns / MS)).collect();
    assert_eq!(seen, [(true, 0, 100), (false, 100, 200), (false, 200, 300)]);
}

#[test]
fn a_cool_down_may_be_longer_than_the_time_to_drain() {
    let plan = Worker { end: for_ms(1_000), cooldown_ns: 60_000 * MS, ..worker() };
    let ran = simulate(&plan, MS);
    assert_eq!((ran.ended.state, ran.requests.len()), (State::Finished, 61_000));
    assert_eq!((ran.ended.window, ran.ended.drained), ((0, 1_000 * MS), 61_000 * MS));
}

#[test]
fn what_is_in_flight_at_the_end_has_the_timeout_of_the_mount_to_complete() {
    let mount = |timeout_s: u64| NfsMount {
        host: "127.0.0.1".into(),
        port: None,
        mount_port: None,
        export: "/vol".into(),
        version: 3,
        nconnect: 1,
        uid: 0,
        gid: 0,
        durability: Durability::None,
        timeout_ns: timeout_s * 1_000 * MS,
        keep_payload: false,
        source: None,
        session_slots: 64,
        rsize: None,
        wsize: None,
        tls: None,
    };
    let ended = |engine, service_s: u64| {
        let plan = Worker { engine, end: for_ms(1_000), ..worker() };
        let ran = simulate(&plan, service_s * 1_000 * MS);
        (ran.ended.state, ran.ended.error.map(|error| error.to_string()))
    };
    for engine in
        [EnginePlan::Nfs { mount: mount(120) }, EnginePlan::NfsMetadata { mount: mount(120), keep_open: true }]
    {
        assert_eq!(ended(engine.clone(), 100), (State::Finished, None));
        let (state, error) = ended(engine, 140);
        assert_eq!(state, State::Failed);
        assert!(error.unwrap().ends_with("did not complete within 120 s after the end of the run"));
    }
    // The engine gives up by itself after a shorter timeout.
    assert_eq!(ended(EnginePlan::Nfs { mount: mount(5) }, 20), (State::Finished, None));
    assert_eq!(ended(EnginePlan::Null {}, 40).0, State::Failed);
}

#[test]
fn a_stop_in_the_cool_down_ends_the_load_and_leaves_the_window() {
    let plan = Worker { end: for_ms(100), cooldown_ns: 10_000 * MS, ..worker() };
    let ran = simulate_with(&plan, MS, |engine, shared| engine.end_at = Some((150, Arc::clone(&shared.stop))));
    assert_eq!((ran.ended.state, ran.requests.len()), (State::Interrupted, 150));
    assert_eq!((ran.ended.window, ran.ended.drained), ((0, 100 * MS), 150 * MS));
}

#[test]
fn a_device_without_room_ends_the_worker_as_the_plan_says() {
    let operations = vec![operation(OperationKind::Write, 4096)];
    let full = |when_full| {
        let end = End { when_full, ..for_ms(1_000) };
        let plan = Worker { depth: 4, operations: operations.clone(), end, ..worker() };
        simulate_with(&plan, MS, |engine, _| engine.full_at = Some(10))
    };
    let ran = full(true);
    assert_eq!((ran.ended.state, ran.kinds["write"].operations, ran.kinds["write"].errors), (State::Finished, 10, 0));
    assert_eq!((ran.requests.len(), ran.ended.drained), (12, 3 * MS));
    assert_eq!(full(false).ended.state, State::Failed);
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
fn shares_are_met_within_chance() {
    let operations = vec![
        OperationPlan { share: 75, ..operation(OperationKind::Read, 4096) },
        OperationPlan { share: 25, ..operation(OperationKind::Write, 4096) },
    ];
    let end = End { runtime_ns: None, bytes: None, operations: Some(10_000), when_full: false };
    let ran = simulate(&Worker { depth: 16, operations, end, ..worker() }, MS);
    // 7,500 expected; five standard deviations are 217.
    assert!((7283..7717).contains(&ran.kinds["read"].operations), "{}", ran.kinds["read"].operations);
    assert_eq!(ran.kinds["read"].operations + ran.kinds["write"].operations, 10_000);
}

#[test]
fn the_same_seed_is_the_same_load() {
    let access = Access { cover: Cover::Independent, passes: Passes::Fresh, ..worker().access };
    let operations = vec![OperationPlan { random_percent: 100, ..operation(OperationKind::Read, 4096) }];
    let end = End { runtime_ns: None, bytes: None, operations: Some(500), when_full: false };
    let plan = Worker { depth: 4, access, operations, end, files: vec![file("f", 1 << 30)], ..worker() };
    assert_eq!(simulate(&plan, MS).requests, simulate(&plan, MS).requests);
    let other = Worker { seed: 2, ..plan.clone() };
    assert_ne!(simulate(&plan, MS).requests, simulate(&other, MS).requests);
}

#[test]
fn a_failed_operation_ends_the_worker_and_keeps_its_measurements() {
    let plan = Worker { end: for_ms(1000), ..worker() };
    let ran = simulate_with(&plan, MS, |engine, _| engine.fail_at = Some(10));
    assert_eq!(ran.ended.state, State::Failed);
    assert_eq!((ran.kinds["read"].operations, ran.kinds["read"].errors), (10, 1));
    let text = ran.ended.error.unwrap().to_string();
    assert!(text.starts_with("read of 4096 bytes at offset 40960 of f: Input/output error"), "{text}");
}

#[test]
fn a_stop_ends_the_window_at_once() {
    let plan = Worker { end: for_ms(1000), ..worker() };
    let ran = simulate_with(&plan, MS, |_, shared| shared.stop.store(true, Ordering::Relaxed));
    assert_eq!(ran.ended.state, State::Interrupted);
    assert_eq!((ran.ended.window, ran.requests.len()), ((0, 0), 0));
}

#[test]
fn a_worker_asked_to_finish_ends_its_window_there() {
    let plan = Worker { end: for_ms(1000), ..worker() };
    let ran = simulate_with(&plan, MS, |engine, shared| engine.end_at = Some((7, Arc::clone(&shared.finish))));
    assert_eq!((ran.ended.state, ran.ended.window, ran.requests.len()), (State::Finished, (0, 7 * MS), 7));
    assert_eq!((ran.kinds["read"].operations, ran.ended.drained_operations), (7, 0));

    let late = Worker { start_delay_ns: 500 * MS, ..plan };
    let ran = simulate_with(&late, MS, |_, shared| shared.finish.store(true, Ordering::Relaxed));
    assert_eq!((ran.ended.state, ran.requests.len()), (State::Finished, 0));
    assert_eq!(ran.ended.window, (500 * MS, 500 * MS));
}

#[test]
fn short_transfers_end_a_worker_that_tolerates_some_errors() {
    let tolerance = |errnos| Tolerance { kinds: vec![OperationKind::Read], errnos, errors_max: None };
    let run = |tolerates| {
        let plan = Worker { tolerates, whole_transfers: true, end: for_ms(100), ..worker() };
        let ran = simulate_with(&plan, MS, |engine, _| engine.short_at = Some(10));
        (ran.ended.state, ran.kinds["read"].operations, ran.kinds["read"].errors)
    };
    assert_eq!(run(vec![]), (State::Failed, 10, 1));
    assert_eq!(run(vec![tolerance(vec![libc::EIO])]), (State::Failed, 10, 1));
    assert_eq!(run(vec![tolerance(vec![])]), (State::Finished, 10, 90));
}

#[test]
fn blocks_of_zeros_are_counted_in_a_sample_where_payload_reaches_the_buffers() {
    // The simulated engine leaves the buffers as they are: zeros.
    let plan = Worker { depth: 8, end: for_ms(1000), ..worker() };
    assert_eq!(simulate(&plan, MS).ended.zeros, (0, 0), "the null engine has no payload");
    let open = FileOpen { direct: false, durability: Durability::None, invalidate: true };
    let (reads, zeros) = simulate(&Worker { engine: EnginePlan::Sync { open }, ..plan }, MS).ended.zeros;
    assert!(reads > 64 && reads == zeros, "{reads} {zeros}");
}
