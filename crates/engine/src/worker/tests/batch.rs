//! Batches of submissions and completions.

use super::*;
use crate::plan::Batch;

fn batched(batch: impl FnOnce(&mut Batch)) -> Worker {
    let mut plan = Worker { depth: 8, end: for_ms(20), ..worker() };
    batch(&mut plan.batch);
    plan
}

fn levels<const COUNT: usize>(counts: [(&str, u64); COUNT]) -> BTreeMap<String, u64> {
    counts.into_iter().map(|(level, count)| (level.to_owned(), count)).collect()
}

/// The operation in slot k takes k + 1 milliseconds.
fn staggered(plan: &Worker) -> Simulation {
    simulate_on(plan, Box::new(|request, _| u64::from(request.slot + 1) * MS), |_, _| {})
}

#[test]
fn the_batch_size_of_submissions_is_met() {
    let ran = simulate(&batched(|batch| batch.submit = 3), 10 * MS);
    assert_eq!(ran.batches, [3, 3, 2, 3, 3, 2]);
    assert_eq!(ran.times_ms(), [vec![0.; 8], vec![10.; 8]].concat());
    assert_eq!(ran.submits, levels([("4", 6)]));
    let plain = simulate(&batched(|_| {}), 10 * MS);
    assert_eq!((plain.batches, plain.submits, plain.completes), (vec![8, 8], levels([("8", 2)]), levels([("8", 1)])));
}

#[test]
fn batches_of_the_ramp_do_not_count() {
    let ran = simulate(&Worker { ramp_ns: 15 * MS, depth: 5, ..batched(|_| {}) }, 10 * MS);
    // Submitted at 0, 10, 20 and 30; completions at 10 belong to the ramp, too.
    assert_eq!((ran.depths, ran.submits), (levels([("4", 10)]), levels([("8", 2)])));
    assert_eq!(ran.completes, levels([("8", 2)]));
}

#[test]
fn the_given_number_of_completions_is_waited_for() {
    let ran = staggered(&batched(|batch| batch.complete_min = 4));
    assert_eq!(ran.times_ms()[..12], [vec![0.; 8], vec![4.; 4]].concat());
    let plain = staggered(&batched(|_| {}));
    assert_eq!(plain.times_ms()[..12], [vec![0.; 8], vec![1., 2., 2., 3.]].concat());
}

#[test]
fn nothing_is_submitted_until_few_are_in_flight() {
    let ran = staggered(&Worker { end: for_ms(7), ..batched(|batch| batch.low = 2) });
    assert_eq!(ran.times_ms(), [vec![0.; 8], vec![6.; 6]].concat());
    // Each is stamped when it completes, although the next are not submitted yet; the last two and the six that follow
    // complete after the window.
    let read = &ran.kinds["read"];
    assert_eq!((read.operations, read.drained), (6, 8));
    assert_eq!((read.service.min_ns, read.service.max_ns), (MS, 8 * MS));
    let all = (1..=8).chain(1..=6).sum::<u64>() * MS;
    assert!((read.service.mean_ns - all as f64 / 14.0).abs() < 1.0);
}

#[test]
fn at_most_the_given_number_of_completions_are_taken_at_once() {
    let ran = simulate(&Worker { end: for_ms(15), ..batched(|batch| batch.complete_max = 1) }, 10 * MS);
    assert_eq!(ran.batches, [8, 1, 1, 1, 1, 1, 1, 1, 1]);
    assert_eq!(ran.kinds["read"].operations, 8);
    assert_eq!(ran.ended.drained_operations, 8);
}

#[test]
fn completions_can_be_looked_for_without_waiting() {
    let plan = batched(|batch| batch.complete_min = 0);
    let ran = simulate_with(&plan, MS, |engine, _| engine.reap_ns = MS / 4);
    // Four polls find the operations that take a millisecond.
    assert_eq!(ran.times_ms()[..24], [vec![0.; 8], vec![1.; 8], vec![2.; 8]].concat());
    // 20 ms: each time three of four polls find nothing; the last poll comes at the end.
    assert_eq!(ran.completes, levels([("0", 20 * 3), ("8", 19)]));
}
