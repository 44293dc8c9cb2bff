//! The outcome of a worker, whether it ran or not.

use std::collections::BTreeMap;

use super::open::Ran;
use crate::error::EngineError;
use crate::outcome::{CpuTime, State, WorkerOutcome};
use crate::plan::{Plan, Worker};
use crate::record::latency_outcome;

pub(super) fn outcome(group: usize, number: usize, worker: &Worker, ran: Ran) -> WorkerOutcome {
    let Ran { ended, recorded, engine, reconnects, counters, connections, labels } = ran;
    let [depth_levels, submit_levels, complete_levels] = recorded.levels.named();
    WorkerOutcome {
        group: group as u32,
        worker: number as u32,
        job: worker.job.clone(),
        jobnum: worker.jobnum,
        report_group: worker.report_group,
        engine,
        state: ended.state,
        errno: ended.error.as_ref().map(EngineError::errno),
        error: ended.error.map(|error| error.to_string()),
        window_start_ns: ended.window.0,
        window_end_ns: ended.window.1,
        drained_ns: ended.drained,
        drained_operations: ended.drained_operations,
        operations: recorded.operations,
        files: ended.files.as_ref().map(latency_outcome),
        cpu: ended.cpu,
        depth_levels,
        submit_levels,
        complete_levels,
        latency_depth: ended.depth_found,
        read_back_ns: ended.read_back,
        reconnects,
        counters,
        connections,
        labels,
        failures: ended.failures,
        differences: ended.differences,
        last_writes: ended.last_writes,
        intervals: recorded.intervals,
        absences: Vec::new(),
        steady_state: None,
        log: recorded.log,
    }
}

/// Outcome of the first worker of a group that could not be prepared, after other groups had run.
pub(super) fn never_started(plan: &Plan, started: usize, error: &EngineError) -> WorkerOutcome {
    let all = plan.groups.iter().enumerate().flat_map(|(index, group)| group.workers.iter().map(move |w| (index, w)));
    let (group, worker) = all.clone().nth(started).expect("the group that failed has workers");
    not_started(group, 0, worker, State::Failed, Some(error))
}

/// Outcome of a worker that measured nothing.
pub(super) fn not_started(
    group: usize,
    number: usize,
    worker: &Worker,
    state: State,
    error: Option<&EngineError>,
) -> WorkerOutcome {
    WorkerOutcome {
        group: group as u32,
        worker: number as u32,
        job: worker.job.clone(),
        jobnum: worker.jobnum,
        report_group: worker.report_group,
        engine: "not started".into(),
        state,
        error: error.map(ToString::to_string),
        errno: error.map(EngineError::errno),
        window_start_ns: 0,
        window_end_ns: 0,
        drained_ns: 0,
        drained_operations: 0,
        operations: BTreeMap::new(),
        files: None,
        cpu: CpuTime::default(),
        depth_levels: BTreeMap::new(),
        submit_levels: BTreeMap::new(),
        complete_levels: BTreeMap::new(),
        latency_depth: None,
        read_back_ns: 0,
        reconnects: 0,
        counters: BTreeMap::new(),
        connections: Vec::new(),
        labels: Vec::new(),
        failures: Vec::new(),
        differences: Vec::new(),
        last_writes: Vec::new(),
        intervals: Vec::new(),
        absences: Vec::new(),
        steady_state: None,
        log: None,
    }
}
