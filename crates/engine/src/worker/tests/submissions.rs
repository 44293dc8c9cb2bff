//! Submission latency.

use super::*;
use crate::plan::{SyncPlan, Think, ThinkCounts};

fn measuring(depth: u32, operations: u64) -> Worker {
    let end = End { operations: Some(operations), ..for_ms(1_000_000) };
    Worker { depth, end, submission_latency: true, ..worker() }
}

/// Sending takes 1 ms for each operation; an operation takes 10 ms from its submission.
fn simulate_submissions(plan: &Worker) -> Simulation {
    simulate_with(plan, 10 * MS, |engine, _| engine.send_ns = MS)
}

/// Count, smallest and largest, in milliseconds.
fn spread(latency: Option<&crate::outcome::LatencyOutcome>) -> Option<(u64, u64, u64)> {
    latency.map(|latency| (latency.count, latency.min_ns / MS, latency.max_ns / MS))
}

#[test]
fn a_batch_is_stamped_before_and_after_it_is_sent() {
    let ran = simulate_submissions(&measuring(4, 8));
    let read = &ran.kinds["read"];
    assert_eq!(ran.times_ms(), [vec![0.; 4], vec![10.; 4]].concat());
    assert_eq!(spread(Some(&read.service)), Some((8, 10, 10)));
    assert_eq!(spread(read.submission.as_ref()), Some((8, 4, 4)));
    assert_eq!(spread(read.completion.as_ref()), Some((8, 6, 6)));
}

#[test]
fn each_operation_has_the_stamp_of_its_own_slot() {
    // The operation in slot k takes k + 4 ms: the others are sent while it is in flight.
    let service: Service = Box::new(|request, _| u64::from(request.slot + 4) * MS);
    let ran = simulate_on(&measuring(3, 6), service, |engine, _| engine.send_ns = MS);
    assert_eq!(ran.times_ms(), [0., 0., 0., 4., 5., 6.]);
    let read = &ran.kinds["read"];
    // First three at once, then one at a time as each completes.
    assert_eq!(spread(read.submission.as_ref()), Some((6, 1, 3)));
    assert_eq!(spread(read.completion.as_ref()), Some((6, 1, 5)));
    assert_eq!(spread(Some(&read.service)), Some((6, 4, 6)));
}

#[test]
fn it_is_not_measured_unless_that_is_asked_for() {
    let ran = simulate_submissions(&Worker { submission_latency: false, ..measuring(4, 8) });
    let read = &ran.kinds["read"];
    assert_eq!((spread(read.submission.as_ref()), spread(read.completion.as_ref())), (None, None));
    assert_eq!(ran.times_ms(), [vec![0.; 4], vec![10.; 4]].concat());
}

#[test]
fn flushes_and_the_ramp_are_kept_apart() {
    let syncs = vec![SyncPlan { kind: OperationKind::Fsync, every: 2 }];
    let operations = vec![operation(OperationKind::Write, 4096)];
    let plan = Worker { syncs, operations, ramp_ns: 25 * MS, sync_at_end: true, ..measuring(1, 5) };
    let ran = simulate_submissions(&plan);
    // Two writes, a flush, two writes, a flush, a write and the flush at the end; two have completed when the ramp is
    // over.
    let (write, flush) = (&ran.kinds["write"], &ran.kinds["fsync"]);
    assert_eq!(spread(write.submission.as_ref()), Some((3, 1, 1)));
    assert_eq!(spread(write.completion.as_ref()), Some((3, 9, 9)));
    assert_eq!(spread(flush.submission.as_ref()), Some((2, 1, 1)));
    assert_eq!(spread(ran.kinds["fsync_at_end"].submission.as_ref()), Some((1, 0, 0)));
}

#[test]
fn a_pause_begins_on_time_although_more_operations_are_sent_in_a_batch() {
    let think = Think {
        pause_ns: 5 * MS,
        spin_ns: 0,
        every: 2,
        counts: ThinkCounts::Issued,
        every_ns: None,
        drains: true,
        moves_schedule: false,
    };
    let ran = simulate_submissions(&Worker { think: Some(think), ..measuring(4, 4) });
    assert_eq!(ran.times_ms(), [0., 0., 15., 15.]);
    assert_eq!(spread(ran.kinds["read"].submission.as_ref()), Some((4, 2, 2)));
}

/// Sends eight operations at once; they complete while it sends them.
struct Blocking(Simulated);

impl Engine for Blocking {
    fn send_batch(_in_flight: usize) -> usize {
        8
    }

    fn submit(&mut self, request: Request) -> Result<(), EngineError> {
        self.0.submit(request)
    }

    fn sending_blocks(&self) -> bool {
        true
    }

    fn send(&mut self) -> Result<(), EngineError> {
        self.0.send()
    }

    fn reap(&mut self, min: usize, deadline: Nanos, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        self.0.reap(min, deadline, done)
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

#[test]
fn an_engine_that_blocks_is_not_handed_more_at_once_than_a_look_around_takes() {
    for submission_latency in [false, true] {
        let plan = Worker { depth: 1024, end: for_ms(200), submission_latency, ..worker() };
        let shared = shared();
        let mut engine = Blocking(Simulated { send_ns: MS, ..Simulated::new(&shared.clock, Box::new(|_, _| 0)) });
        let (ended, recorded) = drive(&plan, shared, &mut engine);
        // Fifty of a millisecond each, then a check; the fourth round ends with the window.
        assert_eq!(engine.0.batches, [50, 50, 50, 50]);
        assert_eq!((recorded.operations["read"].operations, ended.drained_operations), (150, 50));
        assert_eq!(ended.window, (0, 200 * MS));
    }
}

#[test]
fn operations_due_together_have_their_own_times_where_sending_blocks() {
    for submission_latency in [false, true] {
        let plan = Worker { submission_latency, ..measuring(4, 4) };
        let shared = shared();
        let mut engine = Blocking(Simulated { send_ns: MS, ..Simulated::new(&shared.clock, Box::new(|_, _| 0)) });
        let (_, recorded) = drive(&plan, shared, &mut engine);
        // All complete with the fourth, 4 ms after the first was submitted.
        assert_eq!(spread(Some(&recorded.operations["read"].service)), Some((4, 1, 4)), "{submission_latency}");
    }
}
