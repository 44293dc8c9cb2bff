//! Rates: when operations are due, and how late they are.

use super::*;
use crate::plan::Position;

fn rate(unit: RateUnit, count: u64, arrivals: Arrivals) -> Rate {
    Rate { unit, count, per_ns: 1000 * MS, arrivals }
}

fn paced(kind: OperationKind, count: u64) -> OperationPlan {
    OperationPlan { rate: Some(rate(RateUnit::Operations, count, Arrivals::Even)), ..operation(kind, 4096) }
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
    // One at a time, 10 ms each, due every 5 ms: operation k starts at 10 k and was due at 5 k.
    let plan = Worker { operations: vec![paced(OperationKind::Read, 200)], end: for_ms(100), ..worker() };
    let read = &simulate(&plan, 10 * MS).kinds["read"];
    assert_eq!(read.operations, 9);
    assert_eq!(read.service.max_ns, 10 * MS);
    // The tenth completes at the end of the window, after it.
    assert_eq!(read.response.as_ref().unwrap().max_ns, 9 * 5 * MS + 10 * MS);
}

#[test]
fn operations_beyond_the_limit_count_as_late_in_every_interval() {
    // As before, operation k takes 5 k + 10 ms; those from 3 on take longer than 22 ms.
    let operations = vec![paced(OperationKind::Read, 200)];
    let plan = Worker { operations, end: for_ms(100), response_limit_ns: Some(22 * MS), ..worker() };
    let ran = simulate(&plan, 10 * MS);
    // The tenth, too, which drains, and of the ten that were never sent those due by 75 ms.
    assert_eq!(ran.kinds["read"].late, 6 + 1 + 6);
    let intervals = ran.intervals.iter().filter_map(|interval| interval.operations.get("read"));
    assert_eq!(intervals.map(|read| read.late).sum::<u64>(), 6);
    let open = simulate(&Worker { response_limit_ns: None, ..plan }, 10 * MS);
    assert_eq!(open.kinds["read"].late, 0);
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
fn a_rate_over_all_kinds_keeps_the_mix_by_shares() {
    let operations = vec![
        OperationPlan { share: 75, ..operation(OperationKind::Read, 4096) },
        OperationPlan { share: 25, ..operation(OperationKind::Write, 4096) },
    ];
    let rate = Some(rate(RateUnit::Operations, 1000, Arrivals::Even));
    let ran = simulate(&Worker { depth: 4, operations, rate, end: for_ms(10_000), ..worker() }, MS);
    let (read, write) = (&ran.kinds["read"], &ran.kinds["write"]);
    assert_eq!(read.operations + write.operations, 10_000 - 1);
    // 7,500 expected; five standard deviations are 217.
    assert!((7283..7717).contains(&read.operations), "{}", read.operations);
    assert!(ran.times.iter().zip(0..).all(|(&time, number)| time == number * MS));
    for kind in [read, write] {
        assert_eq!(kind.response.as_ref().map(|response| (response.min_ns, response.max_ns)), Some((MS, MS)));
    }
}

#[test]
fn a_rate_in_bytes_over_several_sizes_is_paced_by_the_bytes_issued() {
    let operations = vec![operation(OperationKind::Read, 4096), operation(OperationKind::Write, 16384)];
    let rate = Some(rate(RateUnit::Bytes, 4096 * 1000, Arrivals::Even));
    let ran = simulate(&Worker { depth: 4, operations, rate, end: for_ms(1000), ..worker() }, MS);
    let mut bytes = 0;
    for (request, &time) in ran.requests.iter().zip(&ran.times) {
        assert_eq!(time, bytes / 4096 * MS);
        bytes += u64::from(request.address.length);
    }
    assert!(ran.kinds["read"].operations > 100 && ran.kinds["write"].operations > 100);
    assert!((999 * 4096..1004 * 4096).contains(&bytes), "{bytes}");
}

#[test]
fn a_rate_in_bytes_of_one_kind_is_paced_by_its_own_bytes() {
    let operations = vec![
        OperationPlan {
            rate: Some(rate(RateUnit::Bytes, 8192 * 100, Arrivals::Even)),
            ..operation(OperationKind::Read, 8192)
        },
        paced(OperationKind::Write, 50),
    ];
    let ran = simulate(&Worker { depth: 4, operations, end: for_ms(1000), ..worker() }, MS);
    assert_eq!((ran.kinds["read"].operations, ran.kinds["write"].operations), (100, 50));
}

#[test]
fn arrivals_by_chance_are_on_time_and_as_many_as_the_rate_says() {
    let rate = Some(rate(RateUnit::Operations, 1000, Arrivals::Poisson));
    let plan = Worker { depth: 64, rate, end: for_ms(10_000), ..worker() };
    let ran = simulate(&plan, MS);
    let read = &ran.kinds["read"];
    // 10,000 expected; five standard deviations are 500.
    assert!((9500..10_500).contains(&read.operations), "{}", read.operations);
    let response = read.response.as_ref().unwrap();
    assert_eq!((response.min_ns, response.max_ns), (MS, MS));
    let distances: std::collections::BTreeSet<Nanos> = ran.times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(distances.len() > 9000, "{}", distances.len());
    assert_eq!(ran.times, simulate(&plan, MS).times);
    assert_ne!(ran.times, simulate(&Worker { seed: 2, ..plan }, MS).times);
}

#[test]
fn kinds_at_one_place_take_turns() {
    let operations = vec![operation(OperationKind::Trim, 4096), operation(OperationKind::Write, 4096)];
    let access = Access { position: Position::Identical, ..worker().access };
    let end = End { runtime_ns: None, bytes: None, operations: Some(6), when_full: false };
    let ran = simulate(&Worker { depth: 4, operations, access, end, ..worker() }, MS);
    let kinds: Vec<OperationKind> = ran.requests.iter().map(|request| request.kind).collect();
    assert_eq!(kinds, [OperationKind::Trim, OperationKind::Write].repeat(3));
}

#[test]
fn a_rate_of_the_first_kind_paces_kinds_that_take_turns() {
    let rate = Rate { unit: RateUnit::Operations, count: 100, per_ns: 1000 * MS, arrivals: Arrivals::Even };
    let trim = OperationPlan { rate: Some(rate), ..operation(OperationKind::Trim, 4096) };
    let operations = vec![trim, operation(OperationKind::Write, 4096)];
    let access = Access { position: Position::Identical, ..worker().access };
    let end = End { runtime_ns: None, bytes: None, operations: Some(6), when_full: false };
    let ran = simulate(&Worker { depth: 4, operations, access, end, ..worker() }, MS);
    let kinds: Vec<OperationKind> = ran.requests.iter().map(|request| request.kind).collect();
    assert_eq!(kinds, [OperationKind::Trim, OperationKind::Write].repeat(3));
    let since_start: Vec<Nanos> = ran.times.iter().map(|at| at - ran.times[0]).collect();
    assert_eq!(since_start, [0, 0, 10 * MS, 10 * MS, 20 * MS, 20 * MS]);
}

#[test]
fn the_engine_is_asked_while_the_loop_waits_for_its_start_or_for_an_operation() {
    let rate = Rate { per_ns: 100_000 * MS, ..rate(RateUnit::Operations, 1, Arrivals::Even) };
    let operations = vec![OperationPlan { rate: Some(rate), ..operation(OperationKind::Read, 4096) }];
    let plan = Worker { operations, start_delay_ns: 100_000 * MS, end: for_ms(150_000), ..worker() };
    let mut idle = Arc::default();
    let ran = simulate_with(&plan, MS, |engine, _| idle = Arc::clone(&engine.idle));
    assert_eq!(ran.kinds["read"].operations, 2);
    let times = idle.lock().unwrap();
    assert!(times.is_sorted_by(|one, next| (STOP_CHECK..=2 * STOP_CHECK).contains(&(next - one))));
    assert!(times.len() > 2400, "{}", times.len());
}
