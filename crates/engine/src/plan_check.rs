//! Refuses plans that cannot be carried out, before anything is touched.

use crate::error::EngineError;
use crate::log::RECORDS_MAX;
use crate::offsets;
use crate::payload;
use crate::plan::{Arrivals, EnginePlan, Layout, OperationKind, Plan, Worker};
use crate::verify;

/// Version of the plan contract that this build runs.
pub const PLAN_VERSION: u32 = 2;

/// Whether the plan can be carried out; if not, the error says what of it cannot.
pub fn check(plan: &Plan) -> Result<(), EngineError> {
    let refuse = |text: String| Err(EngineError::Plan(text));
    if plan.version != PLAN_VERSION {
        return refuse(format!("plan version {} is not the {PLAN_VERSION} that this build runs", plan.version));
    }
    if plan.interval_ns < 1_000_000 {
        return refuse("interval_ns is below a millisecond".into());
    }
    for worker in plan.groups.iter().flat_map(|group| &group.workers) {
        if let Some(what) = load(worker).or_else(|| kinds(worker)).map(str::to_owned).or_else(|| log(worker)) {
            return refuse(format!("{}: {what}", worker.job));
        }
        payload::check(worker)?;
        verify::check(worker)?;
        offsets::check(worker)?;
        if let Some(what) = not_carried_out(worker) {
            return refuse(format!("{}: {what} cannot be carried out yet", worker.job));
        }
    }
    Ok(())
}

/// What is wrong with a worker's load.
fn load(worker: &Worker) -> Option<&'static str> {
    if worker.depth == 0 || worker.files.is_empty() || worker.operations.is_empty() {
        return Some("depth, files and operations must not be empty");
    }
    if worker.operations.iter().all(|operation| operation.share == 0 && operation.rate.is_none()) {
        return Some("all shares of the mix are 0");
    }
    let mut rates = worker.operations.iter().filter_map(|operation| operation.rate);
    rates.any(|rate| rate.count == 0).then_some("a rate of 0 would never issue anything")
}

/// What is wrong with its log.
fn log(worker: &Worker) -> Option<String> {
    let log = worker.log?;
    if log.records == 0 {
        return Some("a log of 0 records would keep nothing; leave it out".into());
    }
    if log.records > RECORDS_MAX {
        return Some(format!("a log of {} records is too large; {RECORDS_MAX} at most", log.records));
    }
    if log.window_ns == Some(0) {
        return Some("a log's windows must have a length; null keeps each operation".into());
    }
    (log.histograms && log.window_ns.is_none()).then(|| "a log of each operation has no histograms; say windows".into())
}

/// What is wrong with the kinds of its operations.
fn kinds(worker: &Worker) -> Option<&'static str> {
    let does = |kind| worker.operations.iter().any(|operation| operation.kind == kind);
    if does(OperationKind::Sync) {
        return Some("a flush is no part of a mix; say after how many writes one comes");
    }
    if does(OperationKind::Trim) && matches!(worker.engine, EnginePlan::Nfs { .. }) {
        return Some("NFSv3 has no trim; leave it out, or use another engine on a kernel's mount");
    }
    let grows = worker.files.iter().any(|file| file.layout == Layout::Create);
    if grows && matches!(worker.engine, EnginePlan::Mmap { .. }) {
        return Some("a mapped file cannot grow; have the files laid out before the run");
    }
    worker.sync.is_some_and(|sync| sync.every == 0).then_some("a flush after every 0 writes would never come")
}

/// What the contract has and this build does not carry out yet, so that nothing is silently left out.
fn not_carried_out(worker: &Worker) -> Option<&'static str> {
    use crate::plan::EndsOthers;
    let batch = worker.batch;
    let pacing = worker.rate.is_some()
        || worker.think.is_some()
        || (batch.submit, batch.complete_min, batch.complete_max, batch.low) != (0, 1, 0, 0)
        || worker.latency_target.is_some()
        || worker
            .operations
            .iter()
            .filter_map(|operation| operation.rate)
            .any(|rate| rate.arrivals == Arrivals::Poisson);
    let kinds = worker.sync.is_some() || worker.sync_at_end;
    let groups =
        !worker.wait_for.is_empty() || worker.ends_others != EndsOthers::Never || worker.steady_state.is_some();
    [(pacing, "this pacing"), (kinds, "flushes"), (groups, "this order of jobs or their end")]
        .into_iter()
        .find_map(|(is_used, what)| is_used.then_some(what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::{operation, worker};
    use crate::plan::{Durability, Group, LogPlan, NfsMount, SyncKind, SyncPlan};

    fn refusal(workers: Vec<Worker>) -> String {
        let plan = Plan {
            version: PLAN_VERSION,
            name: "t".into(),
            interval_ns: 1_000_000_000,
            groups: vec![Group { workers }],
        };
        check(&plan).err().map(|error| error.to_string()).unwrap_or_default()
    }

    fn mount() -> NfsMount {
        NfsMount {
            host: "server".into(),
            port: None,
            mount_port: None,
            export: "/vol".into(),
            version: 3,
            nconnect: 1,
            uid: 0,
            gid: 0,
            durability: Durability::None,
            timeout_ns: 1,
            keep_payload: true,
        }
    }

    #[test]
    fn a_plan_of_another_version_or_with_hardly_any_interval_is_refused() {
        let plan = Plan { version: PLAN_VERSION, name: "t".into(), interval_ns: 1_000_000, groups: Vec::new() };
        let text = |plan: &Plan| check(plan).unwrap_err().to_string();
        assert!(check(&plan).is_ok());
        assert_eq!(text(&Plan { version: 1, ..plan.clone() }), "plan version 1 is not the 2 that this build runs");
        assert_eq!(text(&Plan { interval_ns: 999_999, ..plan }), "interval_ns is below a millisecond");
    }

    #[test]
    fn a_load_that_would_do_nothing_is_refused() {
        assert_eq!(refusal(vec![worker()]), "");
        let empty = "job: depth, files and operations must not be empty";
        assert_eq!(refusal(vec![Worker { depth: 0, ..worker() }]), empty);
        assert_eq!(refusal(vec![Worker { files: Vec::new(), ..worker() }]), empty);
        let mut none = worker();
        none.operations[0].share = 0;
        assert_eq!(refusal(vec![none]), "job: all shares of the mix are 0");
    }

    #[test]
    fn kinds_that_an_engine_does_not_have_are_refused() {
        let trims = Worker { operations: vec![operation(OperationKind::Trim, 4096)], ..worker() };
        assert_eq!(refusal(vec![trims.clone()]), "");
        assert_eq!(
            refusal(vec![Worker { engine: EnginePlan::Nfs { mount: mount() }, ..trims }]),
            "job: NFSv3 has no trim; leave it out, or use another engine on a kernel's mount"
        );
        assert_eq!(
            refusal(vec![Worker { operations: vec![operation(OperationKind::Sync, 4096)], ..worker() }]),
            "job: a flush is no part of a mix; say after how many writes one comes"
        );
        let sync = Some(SyncPlan { kind: SyncKind::Fsync, every: 0 });
        assert_eq!(refusal(vec![Worker { sync, ..worker() }]), "job: a flush after every 0 writes would never come");
    }

    #[test]
    fn logs_that_would_keep_nothing_or_too_much_are_refused() {
        let text = |window_ns, histograms, records| {
            refusal(vec![Worker { log: Some(LogPlan { window_ns, histograms, records }), ..worker() }])
        };
        assert_eq!(text(None, false, 1), "");
        assert_eq!(text(Some(1), true, RECORDS_MAX), "");
        assert_eq!(text(None, false, 0), "job: a log of 0 records would keep nothing; leave it out");
        let most = format!("job: a log of {} records is too large; {RECORDS_MAX} at most", RECORDS_MAX + 1);
        assert_eq!(text(None, false, RECORDS_MAX + 1), most);
        assert_eq!(text(Some(0), false, 1), "job: a log's windows must have a length; null keeps each operation");
        assert_eq!(text(None, true, 1), "job: a log of each operation has no histograms; say windows");
    }
}
