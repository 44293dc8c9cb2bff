//! Operations that the window leaves over: in flight at its end, never completed, or due and never sent.

use std::cell::Cell;

use super::*;
use crate::plan::Rate;

/// A device that carries out one operation after another, each in 20 ms.
fn one_by_one() -> Service {
    Box::new(|_, in_flight| in_flight as u64 * 20 * MS)
}

#[test]
fn operations_in_flight_at_the_end_are_in_the_latencies_with_what_they_took() {
    let plan = Worker { depth: 256, end: for_ms(4_000), ..worker() };
    let ran = simulate_on(&plan, one_by_one(), |_, _| {});
    let read = &ran.kinds["read"];
    // One each 20 ms; the one at 4 s completes after the window.
    assert_eq!((read.operations, read.bytes), (199, 199 * 4096));
    assert_eq!((read.drained, read.drained_bytes, read.unfinished), (256, 256 * 4096, 0));
    assert_eq!((read.service.count, read.service.max_ns), (199 + 256, 256 * 20 * MS));
    assert_eq!((ran.ended.window, ran.ended.drained), ((0, 4_000 * MS), (199 + 256) * 20 * MS));
    // The first 256 operations took 20, 40, … 5,120 ms, the others 5,120 ms.
    let mean = (256.0 * 257.0 / 2.0 + 199.0 * 256.0) * 20e6 / 455.0;
    assert!((read.service.mean_ns - mean).abs() < 1.0, "{}", read.service.mean_ns);
    assert_eq!(
        ran.intervals.iter().filter_map(|one| one.operations.get("read")).map(|one| one.operations).sum::<u64>(),
        199
    );
}

#[test]
fn a_stall_at_the_end_is_in_the_latencies_however_long_it_drains() {
    // From the 2,500th operation on the target takes 6 s.
    let count = Cell::new(0);
    let service: Service = Box::new(move |_, _| {
        count.set(count.get() + 1);
        if count.get() < 2_500 { MS } else { 6_000 * MS }
    });
    let ran = simulate_on(&Worker { end: for_ms(4_000), ..worker() }, service, |_, _| {});
    let read = &ran.kinds["read"];
    assert_eq!((read.operations, read.drained, read.service.max_ns), (2_499, 1, 6_000 * MS));
}

#[test]
fn the_drain_goes_on_while_operations_complete() {
    // 3,000 in flight, one each 20 ms: the last takes a minute.
    let plan = Worker { depth: 3_000, end: for_ms(1_000), ..worker() };
    let ran = simulate_on(&plan, one_by_one(), |_, _| {});
    assert_eq!((ran.ended.state, ran.kinds["read"].service.max_ns), (State::Finished, 60_000 * MS));
}

#[test]
fn an_operation_that_never_completes_counts_with_the_age_it_reached() {
    let never: Service = Box::new(|request, _| if request.slot == 0 { Nanos::MAX / 2 } else { MS });
    let ran = simulate_on(&Worker { depth: 2, end: for_ms(1_000), ..worker() }, never, |_, _| {});
    let read = &ran.kinds["read"];
    assert_eq!((ran.ended.state, read.operations, read.drained, read.unfinished), (State::Failed, 999, 1, 1));
    assert_eq!((read.service.count, read.service.max_ns), (1_001, ran.ended.drained));
    assert!(ran.ended.drained >= 31_000 * MS, "{}", ran.ended.drained);
}

#[test]
fn a_stopped_worker_keeps_what_was_in_flight() {
    let never: Service = Box::new(|request, _| if request.slot == 0 { Nanos::MAX / 2 } else { MS });
    let plan = Worker { depth: 2, end: for_ms(10_000), ..worker() };
    let ran = simulate_on(&plan, never, |engine, shared| engine.end_at = Some((101, Arc::clone(&shared.stop))));
    let read = &ran.kinds["read"];
    assert_eq!((ran.ended.state, read.unfinished), (State::Interrupted, 1));
    assert_eq!(read.service.max_ns, ran.ended.drained);
}

#[test]
fn a_failure_after_the_window_counts_as_one_in_it() {
    let plan = Worker { depth: 4, end: for_ms(10), ..worker() };
    let ran = simulate_with(&plan, 6 * MS, |engine, _| engine.fail_at = Some(5));
    let read = &ran.kinds["read"];
    assert_eq!((ran.ended.state, read.operations, read.drained, read.errors), (State::Failed, 4, 3, 1));
}

#[test]
fn what_is_submitted_after_the_window_counts_nowhere() {
    let plan = Worker { depth: 8, end: for_ms(200), cooldown_ns: 50 * MS, ..worker() };
    let read = &simulate(&plan, 3 * MS).kinds["read"];
    // 67 rounds of 3 ms are submitted before 200 ms, and the last of them completes at 201 ms.
    assert_eq!((read.operations, read.drained, read.service.count), (66 * 8, 8, 67 * 8));
}

#[test]
fn a_stop_in_the_ramp_leaves_nothing_over() {
    let plan = Worker { depth: 2, ramp_ns: 1_000 * MS, end: for_ms(1_000), ..worker() };
    let ran = simulate_with(&plan, 10 * MS, |engine, shared| engine.end_at = Some((20, Arc::clone(&shared.stop))));
    let read = &ran.kinds["read"];
    assert_eq!((read.operations, read.drained, read.unfinished, read.service.count), (0, 0, 0, 0));
}

#[test]
fn due_operations_that_were_never_sent_are_missed() {
    // One at a time, 10 ms each, due every 5 ms: operation k was due at 5 k and starts at 10 k.
    let rate = Some(Rate { unit: RateUnit::Operations, count: 200, per_ns: 1_000 * MS, arrivals: Arrivals::Even });
    let plan = Worker { rate, end: for_ms(100), ..worker() };
    let ran = simulate(&plan, 10 * MS);
    let read = &ran.kinds["read"];
    // 20 are due in the window; the tenth completes at its end.
    assert_eq!((read.operations, read.drained, read.missed), (9, 1, 10));
    let response = read.response.as_ref().unwrap();
    assert_eq!((read.service.count, response.count), (10, 20));
    // Those never sent have waited since they were due: 50, 45, … 5 ms.
    assert_eq!((response.min_ns, response.max_ns), (5 * MS, 55 * MS));
}

#[test]
fn due_operations_that_were_sent_in_the_cool_down_are_left_over() {
    // As above; those due at 50, 55, … 95 ms start at 100, 110, … 190 ms.
    let rate = Some(Rate { unit: RateUnit::Operations, count: 200, per_ns: 1_000 * MS, arrivals: Arrivals::Even });
    let ran = simulate(&Worker { rate, end: for_ms(100), cooldown_ns: 200 * MS, ..worker() }, 10 * MS);
    let read = &ran.kinds["read"];
    assert_eq!((read.operations, read.drained, read.missed), (9, 11, 0));
    assert_eq!(read.response.as_ref().map(|response| (response.count, response.max_ns)), Some((20, 105 * MS)));
}

#[test]
fn a_rate_that_is_met_misses_nothing() {
    for arrivals in [Arrivals::Even, Arrivals::Poisson] {
        let rate = Some(Rate { unit: RateUnit::Operations, count: 1_000, per_ns: 1_000 * MS, arrivals });
        let ran = simulate(&Worker { depth: 64, rate, end: for_ms(1_000), ..worker() }, MS / 10);
        assert_eq!(ran.kinds["read"].missed, 0, "{arrivals:?}");
    }
}

#[test]
fn missed_operations_of_each_kind_are_those_of_its_own_rate() {
    let rated = |kind, count| {
        let rate = Some(Rate { unit: RateUnit::Operations, count, per_ns: 1_000 * MS, arrivals: Arrivals::Even });
        OperationPlan { rate, ..operation(kind, 4096) }
    };
    let operations = vec![rated(OperationKind::Read, 300), rated(OperationKind::Write, 100)];
    let ran = simulate(&Worker { operations, end: for_ms(1_000), ..worker() }, 10 * MS);
    let [read, write] = ["read", "write"].map(|kind| &ran.kinds[kind]);
    let due = |kind: &crate::outcome::KindOutcome| kind.operations + kind.drained + kind.missed;
    assert_eq!((due(read), due(write)), (300, 100));
    assert_eq!(read.operations + write.operations + read.drained + write.drained, 100);
}

#[test]
fn no_more_is_missed_than_the_plan_has() {
    let rate = Some(Rate { unit: RateUnit::Operations, count: 1_000, per_ns: 1_000 * MS, arrivals: Arrivals::Even });
    let end = End { operations: Some(30), ..for_ms(100) };
    let ran = simulate(&Worker { rate, end, ..worker() }, 10 * MS);
    let read = &ran.kinds["read"];
    assert_eq!((read.operations + read.drained, read.missed), (10, 20));
}

#[test]
fn a_huge_rate_ends_at_once_and_misses_what_was_due() {
    let rate = Some(Rate { unit: RateUnit::Operations, count: 1 << 40, per_ns: 1_000 * MS, arrivals: Arrivals::Even });
    let ran = simulate(&Worker { rate, end: for_ms(1_000), ..worker() }, 10 * MS);
    let missed = ran.kinds["read"].missed as f64;
    assert!((missed / 2f64.powi(40) - 1.0).abs() < 1e-4, "{missed}");
}
