//! What the loop itself can do: the ceiling for any figure of this machine.

use std::time::Duration;

use iocurve_meter::Nanos;

use crate::error::EngineError;
use crate::plan::{EnginePlan, Group, Plan, Worker};
use crate::plan_check::PLAN_VERSION;
use crate::run::Run;

/// Operations per second that the loop itself can do on one core, measured with the null engine.
///
/// The ceiling for any figure of this machine: 4 KiB random reads at depth 32, every latency recorded.
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
    use crate::plan::{
        Access, AtEnd, Batch, Blocks, Content, Cover, Distribution, End, EndsOthers, FilePlan, FileSelect, Layout,
        OperationKind, OperationPlan, Passes, Payload, Position, Renew,
    };
    let runtime_ns = duration.as_nanos() as Nanos;
    let worker = Worker {
        job: "null ceiling".into(),
        clone: 0,
        report_group: 0,
        engine: EnginePlan::Null {},
        files: vec![FilePlan {
            path: "null".into(),
            offset_bytes: 0,
            bytes: 1 << 30,
            start_bytes: 0,
            layout: Layout::Existing,
            keep: true,
        }],
        file_select: FileSelect::RoundRobin,
        file_run: 1,
        operations: vec![OperationPlan {
            kind: OperationKind::Read,
            share: 1,
            blocks: Blocks::Fixed { bytes: 4096 },
            align_bytes: 0,
            random_percent: 100,
            distribution: Distribution::Uniform {},
            rate: None,
        }],
        access: Access {
            cover: Cover::Once,
            passes: Passes::Fresh,
            run_length: 1,
            gap_bytes: 0,
            gap_spread_bytes: 0,
            at_end: AtEnd::Wrap,
            position: Position::Kind,
            strided: None,
        },
        depth: 32,
        batch: Batch { submit: 0, complete_min: 1, complete_max: 0, low: 0 },
        rate: None,
        think: None,
        sync: None,
        sync_at_end: false,
        wait_for: Vec::new(),
        start_delay_ns: 0,
        ramp_ns: runtime_ns / 10,
        end: End { runtime_ns: Some(runtime_ns), bytes: None, operations: None },
        ends_others: EndsOthers::Never,
        latency_target: None,
        steady_state: None,
        seed: 1,
        payload: Payload {
            content: Content::Zero {},
            renew: Renew::Keep,
            compress_percent: 0,
            compress_chunk_bytes: 0,
            dedupe_percent: 0,
        },
        verify: None,
        log: None,
        cpus: Vec::new(),
    };
    let group = Group { workers: vec![worker] };
    Plan { version: PLAN_VERSION, name: "null ceiling".into(), interval_ns: 1_000_000_000, groups: vec![group] }
}
