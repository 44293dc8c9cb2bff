use std::sync::Arc;

use super::*;
use crate::engines::emulated::Disks;
use crate::engines::local::Setup;
use crate::engines::testing::{Scratch, check_transfers};
use crate::engines::{AioEngine, MmapEngine, NullEngine, SyncEngine, UringEngine};
use crate::plan::tests::{disk, file, operation, worker};
use crate::plan::{Arrivals, OperationKind};
use crate::plan::{DiskPlan, End, Group, IoBurst, IoLimits, OperationPlan, Plan, Rate, RateUnit, SyncPlan, Worker};
use crate::run::Run;

const S: Nanos = 1_000_000_000;

fn limits(iops: u64) -> IoLimits {
    IoLimits { iops, bytes_per_s: 1 << 40, burst: None }
}

fn plan(workers: Vec<Worker>) -> Plan {
    Plan { version: 2, name: "t".into(), interval_ns: S, groups: vec![Group { workers }] }
}

/// A new disk in its own directory.
fn opened(scratch: &Scratch, limits: IoLimits, clock: &Clock) -> Disk {
    let disk = DiskPlan { state_path: scratch.other("state.json"), limits, ..disk() };
    let disks = Disks::open(&plan(vec![Worker { disk: Some(disk.clone()), ..worker() }]), 0, clock).unwrap();
    disks.get(&disk)
}

fn emulated<E: Engine>(
    setup: Setup<'_>,
    open: fn(Setup<'_>) -> Result<E, EngineError>,
) -> Result<Emulated<E>, EngineError> {
    let Setup { files, depth, clock, .. } = setup.clone();
    let disk = opened(&Scratch::new("emulated"), limits(100_000), &clock);
    Ok(Emulated::new(open(setup)?, disk, files, depth, clock))
}

#[test]
fn passes_the_engine_suite_over_each_engine() {
    check_transfers(|setup| emulated(setup, SyncEngine::open));
    check_transfers(|setup| emulated(setup, AioEngine::open));
    check_transfers(|setup| emulated(setup, UringEngine::open));
    check_transfers(|setup| emulated(setup, MmapEngine::open));
}

#[test]
fn completions_wait_until_they_are_due() {
    let clock = Clock::manual();
    let disk = opened(&Scratch::new("due"), limits(1_000), &clock);
    let mut engine = Emulated::new(NullEngine::default(), disk, &[file("f", 1 << 20)], 8, clock.clone());
    for slot in 0..4 {
        let request =
            Request { slot, kind: OperationKind::Read, address: Address { file: 0, offset: 0, length: 4096 } };
        engine.submit(request).unwrap();
    }
    let mut reap = |min, deadline| {
        let mut done = Vec::new();
        engine.reap(min, deadline, &mut done).unwrap();
        (clock.now(), done.iter().map(|completion| completion.slot).collect::<Vec<_>>())
    };
    assert_eq!(reap(0, 0), (0, vec![0]));
    assert_eq!(reap(0, 0), (0, vec![]));
    assert_eq!(reap(1, S), (S / 1_000, vec![1]));
    assert_eq!(reap(1, S / 1_000 + 5), (S / 1_000 + 5, vec![]));
    assert_eq!(reap(2, S), (S / 1_000 * 3, vec![2, 3]));
}

/// A closed loop over a P20 whose credits last for a second, on a clock that moves only while the loop waits.
#[test]
fn a_run_sees_the_burst_end() {
    use crate::engines::buffers::Buffers;
    use crate::offsets::SharedPositions;
    use crate::outcome::IntervalOutcome;
    use crate::record::Tally;
    use crate::worker::{Load, Shared, Start};

    let burst = IoBurst { iops: 3_500, bytes_per_s: 1 << 40, duration_ns: S };
    let clock = Clock::manual();
    let disk = opened(&Scratch::new("burst"), IoLimits { burst: Some(burst), ..limits(2_300) }, &clock);
    let end = End { runtime_ns: Some(4 * S), ..worker().end };
    let worker = Worker { depth: 16, end, ..worker() };
    let shared = Shared {
        stop: Arc::default(),
        finish: Arc::default(),
        clock: clock.clone(),
        interval_ns: S,
        positions: SharedPositions::default(),
        failed: Arc::default(),
        tree: None,
        flow: None,
        tickets: None,
    };
    let mut engine = Emulated::new(NullEngine::default(), disk, &worker.files, 16, clock);
    let load = Load::new(&worker, 16, Buffers::new(16, 4096), shared).unwrap();
    let mut seconds = Vec::new();
    let mut publish = |interval: &IntervalOutcome, _: &[Tally]| seconds.push(interval.operations["read"].operations);
    load.run(&mut engine, Start::with_group(0), &mut publish);
    assert_eq!(seconds, [3_500, 2_300, 2_300, 2_300]);
    assert_eq!(engine.labels(), ["emulated_disk", "limited_by_disk_iops"]);
}

#[test]
fn measurements_are_valid_even_if_the_state_cannot_be_written() {
    let scratch = Scratch::new("unwritable");
    let disk = DiskPlan { state_path: scratch.other("state.json"), limits: limits(1_000_000), ..disk() };
    // A directory blocks the path of the new state.
    std::fs::create_dir(scratch.other("state.new")).unwrap();
    let end = End { operations: Some(5), ..worker().end };
    let run = Run::start(plan(vec![Worker { disk: Some(disk), end, ..worker() }])).unwrap();
    let outcome = run.wait(std::time::Duration::from_secs(60)).expect("it ends").unwrap();
    assert_eq!(outcome.workers[0].operations["read"].operations, 5);
    assert_eq!(outcome.workers[0].labels, ["emulated_disk", "disk_state_not_kept"]);
}

#[test]
fn a_run_on_a_disk_says_so_and_keeps_its_state() {
    let scratch = Scratch::new("run");
    let disk = DiskPlan { state_path: scratch.other("state.json"), limits: limits(1_000_000), ..disk() };
    let rate = Rate { unit: RateUnit::Operations, count: 10_000, per_ns: S, arrivals: Arrivals::Even };
    let write = OperationPlan { rate: Some(rate), ..operation(OperationKind::Write, 4096) };
    let worker = Worker {
        disk: Some(disk.clone()),
        operations: vec![write],
        syncs: vec![SyncPlan { kind: OperationKind::Fsync, every: 10 }],
        end: End { operations: Some(50), ..worker().end },
        ..worker()
    };
    let run = Run::start(plan(vec![worker])).unwrap();
    let outcome = run.wait(std::time::Duration::from_secs(60)).expect("it ends").unwrap();
    let only = &outcome.workers[0];
    assert_eq!((only.operations["write"].operations, only.operations["fsync"].operations), (50, 4));
    assert_eq!(only.engine, "null, on an emulated disk");
    assert_eq!(only.labels, ["emulated_disk"]);
    assert!(std::path::Path::new(&disk.state_path).exists());
}
