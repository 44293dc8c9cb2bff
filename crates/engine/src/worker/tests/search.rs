//! The search for the depth that meets a latency target.

use super::*;
use crate::plan::LatencyTarget;

/// 90 % within 5.5 ms, tried for 100 ms each.
fn target() -> LatencyTarget {
    LatencyTarget { target_ns: 5_500_000, window_ns: 100 * MS, percentile: 90.0, run_on: false }
}

fn searching(target: LatencyTarget) -> Worker {
    Worker { depth: 32, latency_target: Some(target), end: for_ms(20_000), ..worker() }
}

/// Service time in milliseconds equals the number in flight: five is the most that meets 5.5 ms.
fn simulate_search(plan: &Worker) -> Simulation {
    simulate_on(plan, Box::new(|_, in_flight| in_flight as u64 * MS), |_, _| {})
}

#[test]
fn the_depth_is_doubled_until_it_is_too_much_then_halved_in_between() {
    let ran = simulate_search(&searching(target()));
    assert_eq!((ran.ended.state, ran.ended.depth_found), (State::Finished, Some(5)));
    let (start, end) = ran.ended.window;
    assert_eq!(end - start, 100 * MS);
    assert!(end < 1000 * MS, "{end}");
    // Only the last window counts: at the depth found, alone.
    let read = &ran.kinds["read"];
    assert_eq!((read.service.max_ns, read.operations), (5 * MS, 100));
    let counted: u64 =
        ran.intervals.iter().filter(|interval| !interval.ramp).map(|i| i.operations["read"].operations).sum();
    assert_eq!(counted, read.operations);
    assert!(ran.depths.keys().eq(["4"]));
}

#[test]
fn the_whole_depth_is_taken_if_the_latency_allows_it() {
    let ran = simulate_search(&searching(LatencyTarget { target_ns: 1000 * MS, ..target() }));
    assert_eq!((ran.ended.state, ran.ended.depth_found), (State::Finished, Some(32)));
}

#[test]
fn a_search_can_run_on_to_the_end_and_all_of_it_counts() {
    let plan = searching(LatencyTarget { run_on: true, ..target() });
    let ran = simulate_search(&plan);
    assert_eq!((ran.ended.state, ran.ended.window), (State::Finished, (0, 20_000 * MS)));
    // Every fourth window it tries one more than the largest good depth.
    assert!(matches!(ran.ended.depth_found, Some(5 | 6)), "{:?}", ran.ended.depth_found);
    let counted: u64 = ran.intervals.iter().map(|interval| interval.operations["read"].operations).sum();
    assert_eq!(counted, ran.kinds["read"].operations);
}

#[test]
fn with_a_target_for_all_operations_a_single_late_one_lowers_the_depth_at_once() {
    let ran = simulate_search(&searching(LatencyTarget { percentile: 100.0, ..target() }));
    assert_eq!((ran.ended.state, ran.ended.depth_found), (State::Finished, Some(5)));
    assert_eq!(ran.kinds["read"].service.max_ns, 5 * MS);
}

#[test]
fn a_target_for_all_operations_that_no_depth_meets_is_an_error() {
    let plan = searching(LatencyTarget { percentile: 100.0, target_ns: MS / 2, ..target() });
    let ran = simulate_search(&plan);
    assert_eq!((ran.ended.state, ran.ended.depth_found), (State::Failed, Some(1)));
    let text = ran.ended.error.unwrap().to_string();
    assert_eq!(
        text,
        "job: an operation took 1000000 ns with nothing else in flight: no depth meets the latency target of 500000 ns"
    );
    // With a percentile the search goes on at depth 1.
    let ran = simulate_search(&searching(LatencyTarget { percentile: 99.0, target_ns: MS / 2, ..target() }));
    assert_eq!((ran.ended.state, ran.ended.depth_found), (State::Finished, Some(1)));
    assert_eq!(ran.ended.window, (0, 20_000 * MS));
}

#[test]
fn the_ramp_is_not_part_of_the_search() {
    let ran = simulate_search(&Worker { ramp_ns: 300 * MS, ..searching(target()) });
    assert_eq!(ran.ended.depth_found, Some(5));
    assert!(ran.times.iter().zip(1..).all(|(&time, number)| time >= 300 * MS || time == (number - 1) * MS));
}
