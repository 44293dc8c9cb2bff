//! Cached pages are dropped between passes.

use super::*;
use crate::plan::{Durability, EnginePlan, FileOpen, Position};

/// Four blocks, twice and a half, with 5 ms for each drop of cached pages.
fn two_passes_and_a_half(plan: Worker, depth: u32) -> Simulation {
    let open = FileOpen { direct: false, durability: Durability::None, invalidate: true };
    let end = End { operations: Some(10), ..for_ms(1000) };
    let (engine, files) = (EnginePlan::Sync { open }, vec![file("f", 4 * 4096)]);
    let plan = Worker { engine, files, depth, end, ..plan };
    simulate_with(&plan, MS, |engine, _| engine.drop_ns = 5 * MS)
}

#[test]
fn an_operation_that_starts_a_pass_is_stamped_after_the_drop() {
    let ran = two_passes_and_a_half(worker(), 1);
    assert_eq!(ran.drops, [(4, 0..1), (8, 0..1)]);
    assert_eq!(ran.times_ms(), [0.0, 1.0, 2.0, 3.0, 9.0, 10.0, 11.0, 12.0, 18.0, 19.0]);
    assert_eq!((ran.kinds["read"].service.min_ns, ran.kinds["read"].service.max_ns), (MS, MS));
}

#[test]
fn operations_in_flight_go_on_during_a_drop() {
    let ran = two_passes_and_a_half(worker(), 3);
    assert_eq!(ran.drops, [(4, 0..1), (8, 0..1)]);
    assert_eq!(ran.requests.len(), 10);
    assert_eq!(ran.times_ms(), [0.0, 0.0, 0.0, 1.0, 6.0, 6.0, 6.0, 7.0, 12.0, 12.0]);
}

#[test]
fn a_drop_loses_neither_a_turn_nor_a_due_time() {
    let operations = vec![operation(OperationKind::Read, 4096), operation(OperationKind::Write, 4096)];
    let access = Access { position: Position::Identical, ..worker().access };
    let ran = two_passes_and_a_half(Worker { operations, access, ..worker() }, 1);
    assert_eq!(ran.drops, [(7, 0..1)]);
    let pairs: Vec<_> = ran.requests.iter().map(|request| (request.kind, request.address.offset / 4096)).collect();
    let pair = |place| [(OperationKind::Read, place), (OperationKind::Write, place)];
    assert_eq!(pairs, [pair(0), pair(1), pair(2), pair(3), pair(0)].concat());
    let rate = Rate { unit: RateUnit::Operations, count: 1, per_ns: 4 * MS, arrivals: Arrivals::Even };
    let ran = two_passes_and_a_half(Worker { rate: Some(rate), ..worker() }, 1);
    assert_eq!(ran.times_ms(), [0.0, 4.0, 8.0, 12.0, 21.0, 22.0, 24.0, 28.0, 37.0, 38.0]);
    assert_eq!(ran.kinds["read"].response.as_ref().unwrap().max_ns, 6 * MS);
}
