//! Flushes after a number of writes, and at the end.

use super::*;
use crate::plan::SyncPlan;

fn writing(every: u32, operations: u64) -> Worker {
    let end = End { runtime_ns: None, bytes: None, operations: Some(operations), when_full: false };
    let syncs = vec![SyncPlan { kind: OperationKind::Fdatasync, every }];
    Worker { operations: vec![operation(OperationKind::Write, 4096)], syncs, end, ..worker() }
}

fn kinds(ran: &Simulation) -> String {
    ran.requests.iter().map(|request| if request.kind.is_flush() { 's' } else { initial(request.kind) }).collect()
}

fn initial(kind: OperationKind) -> char {
    kind.name().chars().next().unwrap()
}

/// A flush takes 5 ms, everything else 1 ms.
fn simulate_flushes(plan: &Worker) -> Simulation {
    simulate_on(plan, slow_flush(), |_, _| {})
}

fn slow_flush() -> Service {
    Box::new(|request, _| if request.kind.is_flush() { 5 * MS } else { MS })
}

#[test]
fn a_flush_follows_a_number_of_writes_and_does_not_count_as_an_operation() {
    let ran = simulate_flushes(&writing(3, 7));
    assert_eq!(kinds(&ran), "wwwswwwsw");
    let (write, sync) = (&ran.kinds["write"], &ran.kinds["fdatasync"]);
    assert_eq!((write.operations, write.bytes, write.service.max_ns), (7, 7 * 4096, MS));
    assert_eq!((sync.operations, sync.bytes, sync.short, sync.service.min_ns), (2, 0, 0, 5 * MS));
    assert_eq!(ran.ended.window, (0, 17 * MS));
    // As in fio, no flush follows the last write.
    assert_eq!(kinds(&simulate_flushes(&writing(4, 4))), "wwww");
    assert_eq!(kinds(&simulate_flushes(&writing(1, 4))), "wswswsw");
}

#[test]
fn reads_do_not_count_towards_a_flush() {
    let access = Access { position: crate::plan::Position::Identical, ..worker().access };
    let operations = vec![operation(OperationKind::Read, 4096), operation(OperationKind::Write, 4096)];
    assert_eq!(kinds(&simulate_flushes(&Worker { operations, access, ..writing(2, 8) })), "rwrwsrswrw");
}

#[test]
fn a_flush_takes_a_place_in_flight_and_never_waits_for_a_schedule() {
    let rate = Rate { unit: RateUnit::Operations, count: 100, per_ns: 1000 * MS, arrivals: Arrivals::Even };
    let ran = simulate_flushes(&Worker { rate: Some(rate), depth: 2, ..writing(2, 5) });
    assert_eq!(kinds(&ran), "wwswwsw");
    assert_eq!(ran.times_ms(), [0., 10., 10., 20., 30., 30., 40.]);
    assert!(ran.kinds["write"].response.is_some() && ran.kinds["fdatasync"].response.is_none());
    assert_eq!(ran.depths, BTreeMap::from([("1".into(), 3), ("2".into(), 4)]));
}

#[test]
fn a_range_covers_the_writes_since_the_last_flush() {
    let sync = SyncPlan { kind: OperationKind::SyncFileRange, every: 2 };
    let ran = simulate_flushes(&Worker { syncs: vec![sync], ..writing(2, 5) });
    let ranges = |ran: &Simulation| -> Vec<(u32, u64, u32)> {
        let flushes = ran.requests.iter().filter(|request| request.kind.is_flush());
        flushes.map(|request| (request.address.file, request.address.offset, request.address.length)).collect()
    };
    assert_eq!(ranges(&ran), [(0, 0, 8192), (0, 8192, 8192)]);

    // Each file has its own range; the file written last is flushed.
    let files = vec![file("a", 1 << 20), file("b", 1 << 20)];
    let ran = simulate_flushes(&Worker { files, syncs: vec![SyncPlan { every: 3, ..sync }], ..writing(3, 7) });
    assert_eq!(ranges(&ran), [(0, 0, 8192), (1, 0, 12288)]);
}

#[test]
fn if_two_flushes_are_due_only_the_first_of_the_plan_is_issued() {
    let fsync = SyncPlan { kind: OperationKind::Fsync, every: 3 };
    let range = SyncPlan { kind: OperationKind::SyncFileRange, every: 2 };
    let ran = simulate_flushes(&Worker { syncs: vec![fsync, range], ..writing(1, 9) });
    let names: Vec<_> = ran.requests.iter().map(|request| initial(request.kind)).collect();
    assert_eq!(names.into_iter().collect::<String>(), "wwswfwswwfwwsw");
    assert_eq!((ran.kinds["fsync"].operations, ran.kinds["sync_file_range"].operations), (2, 3));
    // Any flush of a file resets its range.
    let ranges = ran.requests.iter().filter(|request| request.kind == OperationKind::SyncFileRange);
    let ranges: Vec<_> = ranges.map(|request| (request.address.offset, request.address.length)).collect();
    assert_eq!(ranges, [(0, 8192), (12288, 4096), (24576, 8192)]);
}

#[test]
fn every_file_is_flushed_at_the_end_and_the_window_holds_it() {
    let files = vec![file("a", 1 << 20), file("b", 1 << 20)];
    let plan = Worker { syncs: vec![], sync_at_end: true, files, depth: 4, ..writing(1, 6) };
    let ran = simulate_flushes(&plan);
    assert_eq!(kinds(&ran), "wwwwwwss");
    assert_eq!(ran.requests[6..].iter().map(|request| request.address.file).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(ran.times_ms()[6..], [2., 7.]);
    assert_eq!((ran.ended.window, ran.ended.drained), ((0, 12 * MS), 12 * MS));
    assert_eq!((ran.kinds["fsync_at_end"].operations, ran.kinds["fsync_at_end"].service.max_ns), (2, 5 * MS));

    // Operations in flight when the time is over are waited for and count, too.
    let ran = simulate_flushes(&Worker { end: for_ms(200), ..plan });
    assert_eq!(ran.ended.window, (0, 210 * MS));
    assert_eq!((ran.kinds["write"].operations, ran.ended.drained_operations), (4 * 200, 0));
    let counted: u64 = ran
        .intervals
        .iter()
        .map(|interval| interval.operations.get("fsync_at_end").map_or(0, |it| it.operations))
        .sum();
    assert_eq!(counted, 2);
}

#[test]
fn a_run_that_is_stopped_or_fails_flushes_nothing_more() {
    let plan = Worker { syncs: vec![], sync_at_end: true, ..writing(1, 100) };
    let stopped =
        simulate_on(&plan, slow_flush(), |engine, shared| engine.end_at = Some((7, Arc::clone(&shared.stop))));
    assert_eq!((stopped.ended.state, kinds(&stopped)), (State::Interrupted, "wwwwwww".into()));
    let failed = simulate_on(&plan, slow_flush(), |engine, _| engine.fail_at = Some(3));
    assert_eq!((failed.ended.state, kinds(&failed)), (State::Failed, "wwww".into()));
    let finished =
        simulate_on(&plan, slow_flush(), |engine, shared| engine.end_at = Some((7, Arc::clone(&shared.finish))));
    assert_eq!((finished.ended.state, kinds(&finished)), (State::Finished, "wwwwwwws".into()));
}

#[test]
fn a_run_can_be_stopped_while_it_flushes() {
    let plan = Worker { syncs: vec![], sync_at_end: true, ..writing(1, 3) };
    let ran = simulate_on(
        &plan,
        Box::new(|request, _| if request.kind.is_flush() { 3_600_000 * MS } else { MS }),
        |engine, shared| {
            engine.end_at = Some((4, Arc::clone(&shared.stop)));
        },
    );
    assert_eq!((ran.ended.state, kinds(&ran)), (State::Interrupted, "wwws".into()));
    assert_eq!(ran.kinds["write"].operations, 3);
}
