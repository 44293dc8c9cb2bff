//! Plain loads, compared with the same loads under a log, which are not plain.

use iocurve_meter::Rng;

use super::*;
use crate::plan::{Durability, EnginePlan, FileOpen, LogPlan};

/// Random reads or writes of a small file, or a mix: over and over, with failures, short transfers, blocks that are sampled,
/// and each kind of end.
fn drawn(seed: u64) -> (Worker, Simulated, Shared) {
    let mut rng = Rng::new(seed);
    let depth = 1 + rng.below(9) as u32;
    let open = FileOpen { direct: false, durability: Durability::None, invalidate: rng.below(2) == 0 };
    let access = Access { cover: Cover::Once, passes: Passes::Fresh, ..worker().access };
    let kinds = [&[OperationKind::Read][..], &[OperationKind::Write], &[OperationKind::Read, OperationKind::Write]];
    let random = |kind: &OperationKind| OperationPlan { random_percent: 100, ..operation(*kind, 4096) };
    let operations = kinds[rng.below(3) as usize].iter().map(random).collect();
    let end = End {
        runtime_ns: (rng.below(3) == 0).then(|| 30 * MS + rng.below(MS)),
        bytes: (rng.below(3) == 0).then(|| 1 + rng.below(300 * 4096)),
        operations: Some(1 + rng.below(400)),
        when_full: false,
    };
    let files = vec![file("f", (1 + rng.below(60)) * 4096)];
    let ramp_ns = rng.below(2) * 3 * MS;
    let engine = if rng.below(2) == 0 { EnginePlan::Null {} } else { EnginePlan::Sync { open } };
    let plan = Worker { engine, files, operations, access, depth, ramp_ns, end, seed, ..worker() };
    let shared = shared();
    let step = 1 + rng.below(4);
    let service: Service = Box::new(move |request, _| (request.address.offset / 4096 % step + 1) * MS / 2);
    let mut engine = Simulated::new(&shared.clock, service);
    engine.fail_at = (rng.below(3) == 0).then(|| rng.below(200) as usize);
    engine.short_at = (rng.below(3) == 0).then(|| rng.below(200) as usize);
    (plan, engine, shared)
}

/// Everything that a run did and recorded.
fn ran(log: Option<LogPlan>, seed: u64) -> impl PartialEq + std::fmt::Debug {
    let (plan, mut engine, shared) = drawn(seed);
    let plan = Worker { log, ..plan };
    let (ended, recorded) = drive(&plan, shared, &mut engine);
    let Recorded { operations, intervals, levels, .. } = recorded;
    let error = ended.error.map(|error| error.to_string());
    let counts = (ended.drained_operations, ended.zeros, ended.window, ended.drained);
    (
        (engine.requests, engine.times, engine.batches, engine.drops),
        (format!("{:?}", ended.state), error, counts),
        (format!("{operations:?} {intervals:?}"), levels.named()),
    )
}

#[test]
fn a_plain_load_is_the_load_that_it_would_be_otherwise() {
    let log = LogPlan { window_ns: None, histograms: false, records: 1000, files: false };
    for seed in 0..300 {
        assert_eq!(ran(None, seed), ran(Some(log), seed), "seed {seed}");
    }
}
