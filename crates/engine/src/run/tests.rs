use iocurve_meter::Nanos;

use super::*;
use crate::check::PLAN_VERSION;
use crate::engines::testing::Scratch;
use crate::plan::tests::{operation, worker};
use crate::plan::{
    Durability, End, EndsOthers, EnginePlan, FileOpen, Flow, OperationKind, SteadyCriterion, SteadyFigure, SteadyState,
    Worker,
};

const MS: Nanos = 1_000_000;

/// Reads `operations` blocks on the null engine; `None` reads until the worker is stopped.
fn reader(job: &str, operations: Option<u64>) -> Worker {
    Worker { job: job.into(), end: End { runtime_ns: None, bytes: None, operations, when_full: false }, ..worker() }
}

fn waiting(worker: Worker, wait_for: &[&str]) -> Worker {
    Worker { wait_for: wait_for.iter().map(|&job| job.into()).collect(), ..worker }
}

fn start(workers: Vec<Worker>) -> Run {
    let group = Group { workers };
    Run::start(Plan { version: PLAN_VERSION, name: "t".into(), interval_ns: 100 * MS, groups: vec![group] }).unwrap()
}

fn outcome_of(run: &Run) -> Outcome {
    run.wait(Duration::from_secs(60)).expect("it ends").unwrap()
}

fn operations(worker: &WorkerOutcome) -> u64 {
    worker.operations["read"].operations
}

#[test]
fn a_waiting_worker_starts_when_all_workers_of_the_job_have_ended() {
    let workers = [reader("first", Some(10)), Worker { jobnum: 1, ..reader("first", Some(20_000)) }];
    let second = Worker { start_delay_ns: 3 * MS, ..waiting(reader("second", Some(20)), &["first"]) };
    let third = waiting(reader("third", Some(30)), &["second", "first"]);
    let workers = [workers.to_vec(), vec![second, third]].concat();
    let outcome = outcome_of(&start(workers));
    assert_eq!(outcome.state, State::Finished);
    let [a, b, second, third] = outcome.workers.as_slice() else { panic!("{} workers", outcome.workers.len()) };
    assert_eq!([a, b, second, third].map(operations), [10, 20_000, 20, 30]);
    assert!(second.window_start_ns >= a.drained_ns.max(b.drained_ns) + 3 * MS);
    assert!(third.window_start_ns >= second.drained_ns);
    assert_eq!(second.intervals[0].index, second.window_start_ns / (100 * MS));
}

#[test]
fn the_course_has_every_operation_of_every_group() {
    let groups = [vec![reader("a", Some(200_000)), reader("b", Some(7))], vec![reader("c", Some(20))]];
    let groups = groups.map(|workers| Group { workers }).to_vec();
    let run = Run::start(Plan { version: PLAN_VERSION, name: "t".into(), interval_ns: 100 * MS, groups }).unwrap();
    let outcome = outcome_of(&run);
    let counted = |group| {
        let of_group = outcome.intervals.iter().filter(|interval| interval.group == group);
        of_group.filter_map(|interval| interval.operations.get("read")).map(|read| read.operations).sum::<u64>()
    };
    assert_eq!([counted(0), counted(1)], [200_007, 20]);
    let mut reads = outcome.intervals.iter().filter_map(|interval| interval.operations.get("read"));
    assert!(reads.all(|read| read.p99_ns.is_some()));
}

#[test]
fn a_worker_ends_others_as_finished_and_waiting_workers_do_not_start() {
    let first = Worker { ends_others: EndsOthers::Always, ..reader("first", Some(10)) };
    let workers = vec![first, reader("endless", None), waiting(reader("late", Some(10)), &["endless"])];
    let outcome = outcome_of(&start(workers));
    assert_eq!(outcome.state, State::Finished);
    assert_eq!(operations(&outcome.workers[0]), 10);
    let late = &outcome.workers[2];
    assert_eq!(outcome.workers[1].state, State::Finished);
    // It may have started in the instant between the ends of the two others.
    assert!(late.engine == "not started" || late.operations["read"].operations <= 10);
}

#[test]
fn an_exit_group_ends_without_the_others() {
    let first = Worker { ends_others: EndsOthers::Always, ends_exit_group_only: true, ..reader("first", Some(10)) };
    let other = Worker { exit_group: 1, ..reader("other", Some(200_000)) };
    let outcome = outcome_of(&start(vec![first, reader("endless", None), other]));
    assert_eq!(outcome.state, State::Finished);
    assert_eq!([0, 2].map(|number| operations(&outcome.workers[number])), [10, 200_000]);
}

#[test]
fn a_worker_that_ends_the_run_prevents_later_groups() {
    let run = |ends_others| {
        let first = Worker { ends_others, ends_run: true, ..reader("first", Some(10)) };
        let groups = [first, reader("second", Some(20)), reader("third", Some(30))];
        let groups = groups.map(|worker| Group { workers: vec![worker] }).to_vec();
        let run = Run::start(Plan { version: PLAN_VERSION, name: "t".into(), interval_ns: 100 * MS, groups }).unwrap();
        let outcome = outcome_of(&run);
        outcome.workers.into_iter().map(|worker| (worker.group, worker.state, worker.engine)).collect::<Vec<_>>()
    };
    let all = |later: &str| [(0, "null"), (1, later), (2, later)].map(|(at, it)| (at, State::Finished, it.to_owned()));
    assert_eq!(run(EndsOthers::Always), all("not started"));
    assert_eq!(run(EndsOthers::OnError), all("null"));
}

#[test]
fn workers_that_end_the_others_together_do_so_when_the_last_of_them_ends() {
    let together = |name, operations| Worker { ends_others: EndsOthers::Together, ..reader(name, Some(operations)) };
    let workers = vec![together("first", 10), reader("endless", None), together("last", 200_000)];
    let outcome = outcome_of(&start(workers));
    assert_eq!(outcome.state, State::Finished);
    assert_eq!([0, 2].map(|number| operations(&outcome.workers[number])), [10, 200_000]);
}

#[test]
fn workers_of_one_flow_keep_their_proportion() {
    let part = |name, weight, end| Worker { flow: Some(Flow { id: 1, weight }), ..reader(name, end) };
    let first = Worker { ends_others: EndsOthers::Always, ..part("first", 3, Some(30_000)) };
    let outcome = outcome_of(&start(vec![first, part("second", 1, Some(100_000))]));
    let second = operations(&outcome.workers[1]);
    // It may continue alone between the end of the first and its notification.
    assert!(second >= 9_740, "{second} of 10,000");
    assert_eq!(operations(&outcome.workers[0]), 30_000);
}

#[test]
fn a_worker_that_cannot_start_after_others_have_run_fails_alone_or_ends_the_others() {
    let scratch = Scratch::with_file("odd", 4096);
    let open = FileOpen { direct: true, durability: Durability::None, invalidate: false };
    let odd = Worker {
        engine: EnginePlan::Sync { open },
        files: vec![scratch.plan(4096)],
        operations: vec![operation(OperationKind::Read, 1001)],
        ends_others: EndsOthers::OnError,
        ..waiting(reader("odd", Some(1)), &["first"])
    };
    let outcome = outcome_of(&start(vec![reader("first", Some(10)), odd, reader("endless", None)]));
    assert_eq!(outcome.state, State::Failed);
    let states: Vec<State> = outcome.workers.iter().map(|worker| worker.state).collect();
    assert_eq!(states, [State::Finished, State::Failed, State::Finished]);
    assert_eq!(operations(&outcome.workers[0]), 10);
    assert!(outcome.workers[1].error.as_ref().unwrap().contains("direct I/O"));
}

#[test]
fn a_success_does_not_end_workers_that_only_an_error_ends() {
    let first = Worker { ends_others: EndsOthers::OnError, ..reader("first", Some(10)) };
    let outcome = outcome_of(&start(vec![first, reader("second", Some(30_000))]));
    assert_eq!(operations(&outcome.workers[1]), 30_000);
}

#[test]
fn a_stop_reaches_waiting_workers() {
    let run = start(vec![reader("endless", None), waiting(reader("late", Some(10)), &["endless"])]);
    // Both run once the first has closed an interval.
    let patience = std::time::Instant::now() + Duration::from_secs(60);
    while run.live().intervals == 0 && std::time::Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(1));
    }
    run.stop();
    let outcome = outcome_of(&run);
    let seen: Vec<_> = outcome.workers.iter().map(|worker| (worker.state, worker.error.clone())).collect();
    assert_eq!(seen, [(State::Interrupted, None), (State::Interrupted, None)]);
}

#[test]
fn figures_that_hold_steady_end_their_report_group() {
    let steady = SteadyState {
        figure: SteadyFigure::Iops,
        criterion: SteadyCriterion::Deviation,
        limit: 1e18,
        limit_is_percent: false,
        duration_ns: 400 * MS,
        ramp_ns: 0,
        check_ns: 200 * MS,
    };
    let member = Worker { report_group: 7, steady_state: Some(steady), ..reader("member", None) };
    let other = Worker { ends_others: EndsOthers::Never, ..reader("other", Some(10)) };
    let outcome = outcome_of(&start(vec![member.clone(), member, other]));
    assert_eq!(outcome.state, State::Finished);
    let found = outcome.workers[0].steady_state.clone().unwrap();
    assert_eq!(outcome.workers[1].steady_state, Some(found.clone()));
    assert_eq!(outcome.workers[2].steady_state, None);
    let attained = found.attained_ns.unwrap();
    let ends: Vec<Nanos> = found.samples.iter().map(|sample| sample.end_ns).collect();
    assert_eq!((ends.len(), ends[1]), (2, attained));
    assert!(outcome.workers.iter().take(2).all(|worker| worker.window_end_ns >= attained));
    assert!(found.samples.iter().all(|sample| sample.iops > 0.0));
}

fn start_held(workers: Vec<Worker>) -> Run {
    let groups = workers.into_iter().map(|worker| Group { workers: vec![worker] }).collect();
    Run::start_held(Plan { version: PLAN_VERSION, name: "t".into(), interval_ns: 10 * MS, groups }).unwrap()
}

fn wait_until_ready(run: &Run, group: u32) {
    while (run.live().phase.as_str(), run.live().group) != ("ready", group) {
        assert!(run.wait(Duration::from_millis(1)).is_none());
    }
}

#[test]
fn each_group_of_a_held_run_waits_for_its_release_and_its_records_add_up_to_its_outcome() {
    let run = start_held(vec![reader("first", Some(100_000)), reader("second", Some(20))]);
    wait_until_ready(&run, 0);
    assert!(run.wait(Duration::from_millis(30)).is_none());
    assert!(run.take_records().is_empty());
    let started = run.release(0);
    wait_until_ready(&run, 1);
    assert!(run.release(0) > started);
    let outcome = outcome_of(&run);
    let records = run.take_records();
    let counted = |group| {
        let of_group = |record: &&IntervalRecord| record.group == group;
        let records = records.iter().filter(of_group).map(|record| record.operations["read"].operations);
        records.sum::<u64>()
    };
    assert_eq!(outcome.workers.iter().map(operations).collect::<Vec<_>>(), [100_000, 20]);
    assert_eq!([counted(0), counted(1)], [100_000, 20]);
}

#[test]
fn a_run_that_finishes_early_ends_as_by_its_time_and_starts_no_further_group() {
    let groups = ["endless", "never"].map(|name| Group { workers: vec![reader(name, None)] }).to_vec();
    let run = Run::start(Plan { version: PLAN_VERSION, name: "t".into(), interval_ns: 100 * MS, groups }).unwrap();
    let patience = std::time::Instant::now() + Duration::from_secs(60);
    while run.live().intervals == 0 && std::time::Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(1));
    }
    run.finish();
    let outcome = outcome_of(&run);
    let seen: Vec<_> = outcome.workers.iter().map(|worker| (worker.state, worker.engine == "not started")).collect();
    assert_eq!((outcome.state, seen), (State::Finished, vec![(State::Finished, false), (State::Finished, true)]));
    assert!(operations(&outcome.workers[0]) > 0);
}

#[test]
fn a_held_run_stops_by_itself_when_its_lease_is_not_renewed() {
    let run = start_held(vec![reader("endless", None)]);
    wait_until_ready(&run, 0);
    run.release(0);
    run.renew_lease(Duration::from_millis(50));
    assert_eq!(outcome_of(&run).state, State::Interrupted);
}

#[test]
fn a_held_run_that_is_stopped_before_its_release_ends() {
    let run = start_held(vec![reader("endless", None)]);
    wait_until_ready(&run, 0);
    run.stop();
    let outcome = outcome_of(&run);
    assert_eq!((outcome.state, operations(&outcome.workers[0])), (State::Interrupted, 0));
}
