//! Pauses between operations.

use super::*;
use crate::plan::{Think, ThinkCounts};

/// A pause of 10 ms after every three completed operations.
fn think() -> Think {
    Think {
        pause_ns: 10 * MS,
        spin_ns: 0,
        every: 3,
        counts: ThinkCounts::Completed,
        every_ns: None,
        drains: true,
        moves_schedule: false,
    }
}

fn thinking(think: Think) -> Worker {
    Worker { think: Some(think), end: for_ms(30), ..worker() }
}

#[test]
fn a_pause_follows_a_number_of_operations() {
    for spin_ns in [0, 4 * MS, 10 * MS] {
        let ran = simulate(&thinking(Think { spin_ns, ..think() }), MS);
        assert_eq!(ran.times_ms(), [0., 1., 2., 13., 14., 15., 26., 27., 28.]);
        assert_eq!(ran.kinds["read"].operations, 9);
    }
}

#[test]
fn a_pause_is_over_with_the_window() {
    let ran = simulate(&Worker { end: for_ms(20), ..thinking(think()) }, MS);
    assert_eq!((ran.ended.window, ran.ended.drained), ((0, 20 * MS), 20 * MS));
    assert_eq!(ran.times.len(), 6);
}

#[test]
fn operations_in_flight_complete_before_a_pause() {
    let issued = Think { every: 2, counts: ThinkCounts::Issued, ..think() };
    let ran = simulate(&Worker { depth: 4, ..thinking(issued) }, MS);
    assert_eq!(ran.times_ms(), [0., 0., 11., 11., 22., 22.]);
    assert_eq!(ran.depths, BTreeMap::from([("2".into(), 6)]));

    // Completed operations count: the depth is filled before the first completes.
    let ran = simulate(&Worker { depth: 4, ..thinking(Think { every: 4, ..think() }) }, MS);
    assert_eq!(ran.times_ms(), [0., 0., 0., 0., 11., 11., 11., 11., 22., 22., 22., 22.]);
}

#[test]
fn completions_before_a_pause_count_towards_the_next() {
    let plan = Worker { depth: 4, end: for_ms(40), ..thinking(Think { every: 1, ..think() }) };
    // All four at once: the first triggers a pause, and the others suffice for one after every operation from here on.
    assert_eq!(simulate(&plan, MS).times_ms(), [0., 0., 0., 0., 11., 22., 33.]);
    // Slot by slot, one to four milliseconds: the pause begins when the last completes.
    let ran = simulate_on(&plan, Box::new(|request, _| u64::from(request.slot + 1) * MS), |_, _| {});
    assert_eq!(ran.times_ms()[..5], [0., 0., 0., 0., 14.]);
}

#[test]
fn a_pause_can_begin_while_operations_are_in_flight() {
    let plan = Think { every: 2, counts: ThinkCounts::Issued, drains: false, ..think() };
    let ran = simulate(&Worker { depth: 3, ..thinking(plan) }, 25 * MS);
    // Only one of the third pair gets a slot until the first have completed.
    assert_eq!(ran.times_ms(), [0., 0., 10., 25.]);
}

#[test]
fn a_pause_follows_a_length_of_load() {
    let ran = simulate(&thinking(Think { every: 0, every_ns: Some(5 * MS), ..think() }), MS);
    assert_eq!(ran.times_ms(), [0., 1., 2., 3., 4., 15., 16., 17., 18., 19.]);
    // Or a number of operations, whichever is first.
    let ran = simulate(&thinking(Think { every: 2, every_ns: Some(5 * MS), ..think() }), MS);
    assert_eq!(ran.times_ms(), [0., 1., 12., 13., 24., 25.]);
}

#[test]
fn due_times_go_on_or_are_moved_by_a_pause() {
    let rate = Rate { unit: RateUnit::Operations, count: 1000, per_ns: 1000 * MS, arrivals: Arrivals::Even };
    let operations = vec![OperationPlan { rate: Some(rate), ..operation(OperationKind::Read, 4096) }];
    let plan =
        |moves_schedule| Worker { operations: operations.clone(), ..thinking(Think { moves_schedule, ..think() }) };

    // Done after 0.1 ms each, so that the first pause is from 2.1 to 12.1 ms.
    let moved = simulate(&plan(true), MS / 10);
    assert_eq!(moved.times_ms(), [0., 1., 2., 13., 14., 15., 26., 27., 28.]);
    assert_eq!(moved.kinds["read"].response.as_ref().unwrap().max_ns, MS / 10);

    let kept = simulate(&plan(false), MS / 10);
    assert_eq!(kept.times_ms(), [0., 1., 2., 12.1, 12.2, 12.3, 22.4, 22.5, 22.6]);
    // The first after the second pause was due at 6 ms, and the first that the end in the third pause left out at 9 ms.
    let read = &kept.kinds["read"];
    assert_eq!((read.service.max_ns, read.missed), (MS / 10, 21));
    assert_eq!(read.response.as_ref().unwrap().max_ns, 30 * MS - 9 * MS);
}
