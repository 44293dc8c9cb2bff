//! The null ceiling of this machine: operations per second of the loop alone.

use std::time::Duration;

use iocurve_meter::Nanos;

use crate::check::PLAN_VERSION;
use crate::error::EngineError;
use crate::plan::{Access, End, Group, OperationKind, OperationPlan, Passes, Plan, Worker, plain};
use crate::run::Run;

/// Measures the operations per second of the loop on one core with the null engine.
///
/// It is the upper bound of one worker: 4 KiB random reads at depth 32, with every latency recorded.
pub fn null_ceiling(duration: Duration) -> Result<f64, EngineError> {
    let plan = ceiling_plan(duration);
    let run = Run::start(plan)?;
    let outcome = loop {
        if let Some(outcome) = run.wait(Duration::from_secs(1)) {
            break outcome?;
        }
    };
    let operations: u64 = outcome.workers[0].operations.values().map(|kind| kind.operations).sum();
    Ok(operations as f64 / duration.as_secs_f64())
}

fn ceiling_plan(duration: Duration) -> Plan {
    let runtime_ns = duration.as_nanos() as Nanos;
    let plain = plain::worker();
    let worker = Worker {
        job: "null ceiling".into(),
        files: vec![plain::file("null", 1 << 30)],
        operations: vec![OperationPlan { random_percent: 100, ..plain::operation(OperationKind::Read, 4096) }],
        access: Access { passes: Passes::Fresh, ..plain.access },
        depth: 32,
        ramp_ns: runtime_ns / 10,
        end: End { runtime_ns: Some(runtime_ns), bytes: None, operations: None, when_full: false },
        ..plain
    };
    let group = Group { workers: vec![worker] };
    Plan { version: PLAN_VERSION, name: "null ceiling".into(), interval_ns: 1_000_000_000, groups: vec![group] }
}
