//! Refuses plans that cannot run, before any file is touched.

mod disks;

use std::collections::{BTreeMap, BTreeSet};

use iocurve_meter::Nanos;

use crate::engines::capabilities;
use crate::error::EngineError;
use crate::offsets;
use crate::payload;
use crate::plan::{EnginePlan, Group, LatencyTarget, Layout, OperationKind, Plan, SyncPlan, Worker};
use crate::record::log::RECORDS_MAX;
use crate::verify;

/// Version of the plan contract that this build runs.
pub(crate) const PLAN_VERSION: u32 = 2;

/// Checks that the plan can run; the error says what is wrong.
pub fn check(plan: &Plan) -> Result<(), EngineError> {
    let refuse = |text: String| Err(EngineError::Plan(text));
    if plan.version != PLAN_VERSION {
        return refuse(format!(
            "plan version {} is not supported; this build runs version {PLAN_VERSION}",
            plan.version
        ));
    }
    if plan.interval_ns < 1_000_000 {
        return refuse("interval_ns is below a millisecond".into());
    }
    if let Some(what) =
        plan.groups.iter().find_map(|group| order(group).or_else(|| steady_state(group, plan.interval_ns)))
    {
        return refuse(what);
    }
    disks::check(plan)?;
    for worker in plan.groups.iter().flat_map(|group| &group.workers) {
        if let Some(what) =
            load(worker).or_else(|| pacing(worker)).or_else(|| kinds(worker)).map(str::to_owned).or_else(|| log(worker))
        {
            return refuse(format!("{}: {what}", worker.job));
        }
        payload::check(worker)?;
        verify::check(worker)?;
        offsets::check(worker)?;
    }
    Ok(())
}

fn load(worker: &Worker) -> Option<&'static str> {
    if worker.depth == 0 || worker.files.is_empty() || worker.operations.is_empty() {
        return Some("depth, files and operations must not be empty");
    }
    let nothing = worker.operations.iter().all(|operation| operation.share == 0 && operation.rate.is_none());
    if worker.flow.is_some_and(|flow| flow.weight == 0) {
        return Some("the weight of a flow is at least 1");
    }
    nothing.then_some("all shares of the mix are 0")
}

fn pacing(worker: &Worker) -> Option<&'static str> {
    let rates = worker.operations.iter().filter_map(|operation| operation.rate).chain(worker.rate);
    if rates.clone().any(|rate| rate.count == 0 || rate.per_ns == 0) {
        return Some("a rate must be above 0, over a time above 0");
    }
    if worker.replay.is_some() && rates.clone().next().is_some() {
        return Some("a replay has recorded times; leave out the rate");
    }
    let each_is_paced = worker.operations.iter().any(|operation| operation.rate.is_some());
    if each_is_paced && worker.rate.is_some() {
        return Some("a rate for all kinds together and one for a kind exclude each other; leave one out");
    }
    if worker.think.is_some_and(|think| think.every == 0 && think.every_ns.is_none()) {
        return Some("a pause needs a number of operations or a length of load between pauses; set one of them");
    }
    if worker.think.is_some_and(|think| think.spin_ns > think.pause_ns) {
        return Some("the spinning part of a pause is longer than the pause");
    }
    if worker.cooldown_ns > 0 && worker.end.runtime_ns.is_none() {
        return Some("a cool-down needs a runtime; set one");
    }
    let LatencyTarget { target_ns, window_ns, percentile, .. } = worker.latency_target?;
    if target_ns == 0 || window_ns == 0 {
        return Some("a latency target and its window must be above 0");
    }
    let is_possible = percentile > 0.0 && percentile <= 100.0;
    (!is_possible).then_some("the percentile of a latency target must be above 0 and at most 100")
}

fn order(group: &Group) -> Option<String> {
    let mut waits: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for worker in &group.workers {
        waits.entry(&worker.job).or_default().extend(worker.wait_for.iter().map(String::as_str));
    }
    for (job, others) in &waits {
        if let Some(unknown) = others.iter().find(|other| !waits.contains_key(**other)) {
            return Some(format!("{job}: waits for {unknown}, but its group has no job of that name; check the name"));
        }
    }
    // Jobs without `wait_for` are removed, then jobs that waited only for those, and so on. What remains is a circle.
    while let Some(free) = waits.iter().find(|(_, others)| others.is_empty()).map(|(job, _)| *job) {
        waits.remove(free);
        for others in waits.values_mut() {
            others.remove(free);
        }
    }
    let circle: Vec<&str> = waits.into_keys().collect();
    (!circle.is_empty()).then(|| format!("{}: wait for each other and would never start", circle.join(", ")))
}

fn steady_state(group: &Group, interval_ns: Nanos) -> Option<String> {
    for worker in &group.workers {
        let wrong = |what: String| Some(format!("{}: {what}", worker.job));
        let differs =
            |other: &Worker| other.report_group == worker.report_group && other.steady_state != worker.steady_state;
        if let Some(other) = group.workers.iter().find(|other| differs(other)) {
            return wrong(format!("is reported with {}, but has another steady-state criterion", other.job));
        }
        let Some(steady) = worker.steady_state else { continue };
        if steady.check_ns == 0 || !steady.check_ns.is_multiple_of(interval_ns) {
            return wrong(format!(
                "steady-state samples every {} ns are not a multiple of the interval, {interval_ns} ns",
                steady.check_ns
            ));
        }
        if steady.duration_ns < 2 * steady.check_ns || !steady.duration_ns.is_multiple_of(steady.check_ns) {
            return wrong(format!(
                "a steady state over {} ns does not consist of two or more samples of {} ns",
                steady.duration_ns, steady.check_ns
            ));
        }
        if !steady.limit.is_finite() || steady.limit < 0.0 {
            return wrong(format!("a limit of {} for a steady state is never met", steady.limit));
        }
    }
    None
}

fn log(worker: &Worker) -> Option<String> {
    let log = worker.log?;
    if log.records == 0 {
        return Some("a log of 0 records would keep nothing; leave it out".into());
    }
    if log.records > RECORDS_MAX {
        return Some(format!("a log of {} records is too large; {RECORDS_MAX} at most", log.records));
    }
    if log.window_ns == Some(0) {
        return Some("the windows of a log must be longer than 0; null records each operation".into());
    }
    if log.files && log.window_ns.is_some() {
        return Some("files are recorded in a log without windows; leave out window_ns".into());
    }
    (log.histograms && log.window_ns.is_none()).then(|| "histograms need a log with windows; set window_ns".into())
}

fn kinds(worker: &Worker) -> Option<&'static str> {
    let engine = capabilities(&worker.engine);
    let may_flush = worker.replay.is_some() || worker.tree.as_ref().is_some_and(|tree| tree.flush_before_close);
    if OperationKind::ALL.into_iter().any(|kind| kind.is_flush() && worker.does(kind)) && !may_flush {
        return Some("a flush cannot be part of a mix; set the number of writes between flushes");
    }
    if worker.does(OperationKind::Trim) && !engine.can_trim {
        return Some(match worker.engine.mount() {
            Some(mount) if mount.version == 4 => {
                "NFSv4.1 has no trim; leave it out, or use another engine on a kernel mount"
            }
            Some(_) => "NFSv3 has no trim; leave it out, or use another engine on a kernel mount",
            None => "a metadata engine does not trim; leave it out, or use another engine",
        });
    }
    if worker.submission_latency && engine.immediate {
        return Some("a synchronous engine has no submission latency; leave submission_latency out");
    }
    if let Some(what) = refused_metadata(worker).or_else(|| refused_tree(worker)) {
        return Some(what);
    }
    let grows = worker.files.iter().any(|file| file.layout == Layout::Create);
    if grows && !engine.can_grow {
        return Some("a mapped file cannot grow; lay the files out before the run");
    }
    refused_syncs(&worker.syncs)
}

fn refused_metadata(worker: &Worker) -> Option<&'static str> {
    let does = worker.operations.iter().any(|operation| operation.kind.is_metadata());
    if does && !capabilities(&worker.engine).does_metadata {
        return Some("this engine has files open from start to end; use a metadata engine");
    }
    if !capabilities(&worker.engine).does_metadata {
        let nothing = worker.files.iter().any(|file| matches!(file.layout, Layout::Nothing | Layout::Directory));
        return nothing.then_some("a file that is not prepared needs a metadata engine");
    }
    if worker.disk.is_some() {
        return Some("an emulated disk does not model metadata operations; leave it out");
    }
    let verifies = worker.verify.is_some() && worker.tree.is_none();
    verifies.then_some("a metadata engine verifies data only on a directory tree; leave the verification out")
}

/// A tree is walked one step after another, by an engine that keeps the file open between them.
fn refused_tree(worker: &Worker) -> Option<&'static str> {
    let tree = worker.tree.as_ref()?;
    let keeps_open = match worker.engine {
        EnginePlan::Metadata { keep_open, .. } | EnginePlan::NfsMetadata { keep_open, .. } => keep_open,
        _ => false,
    };
    if !keeps_open || worker.files.len() != 1 {
        return Some(
            "work on a tree needs a metadata engine that keeps files open, and one file: the root of the tree",
        );
    }
    if worker.replay.is_some() || !worker.syncs.is_empty() || worker.sync_at_end || worker.flow.is_some() {
        return Some("work on a tree has no replay, flushes after writes or flow");
    }
    if worker.operations.iter().any(|operation| operation.rate.is_some()) {
        return Some("work on a tree has one rate for all kinds");
    }
    if tree.rate_group.is_some() && (worker.rate.is_none() || worker.think.is_some()) {
        return Some("a rate group needs a rate, and has no pauses");
    }
    let missing = tree.tasks.iter().flat_map(|task| task.kinds()).any(|&kind| !worker.does(kind));
    let lacks = |wanted: bool, kind| wanted && !worker.does(kind);
    if missing
        || lacks(tree.delete_first, OperationKind::Delete)
        || lacks(tree.flush_before_close, OperationKind::Fsync)
    {
        return Some("a task on the tree needs a kind of operation that the worker does not have");
    }
    tree.tasks.is_empty().then_some("work on a tree needs a task")
}

fn refused_syncs(syncs: &[SyncPlan]) -> Option<&'static str> {
    let is_twice = |kind| syncs.iter().filter(|sync| sync.kind == kind).count() > 1;
    if syncs.iter().any(|sync| sync.every == 0) {
        Some("the number of writes between flushes must be above 0")
    } else if syncs.iter().any(|sync| !SyncPlan::KINDS.contains(&sync.kind)) {
        Some("only fsync, fdatasync and sync_file_range can follow writes")
    } else {
        SyncPlan::KINDS
            .into_iter()
            .any(is_twice)
            .then_some("each kind of flush can have only one number of writes between flushes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::{operation, worker};
    use crate::plan::{
        Arrivals, Durability, End, EnginePlan, LogPlan, NfsMount, OperationPlan, Rate, RateUnit, SteadyCriterion,
        SteadyFigure, SteadyState, Think, ThinkCounts,
    };

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
            session_slots: 64,
            uid: 0,
            gid: 0,
            durability: Durability::None,
            timeout_ns: 1,
            keep_payload: true,
            source: None,
            rsize: None,
            wsize: None,
            tls: None,
        }
    }

    #[test]
    fn a_plan_of_another_version_or_with_hardly_any_interval_is_refused() {
        let plan = Plan { version: PLAN_VERSION, name: "t".into(), interval_ns: 1_000_000, groups: Vec::new() };
        let text = |plan: &Plan| check(plan).unwrap_err().to_string();
        assert!(check(&plan).is_ok());
        assert_eq!(
            text(&Plan { version: 1, ..plan.clone() }),
            "plan version 1 is not supported; this build runs version 2"
        );
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
    fn times_that_cannot_be_kept_are_refused() {
        let rate = Rate { unit: RateUnit::Operations, count: 1, per_ns: 1, arrivals: Arrivals::Poisson };
        let paced = |rate| vec![OperationPlan { rate: Some(rate), ..operation(OperationKind::Read, 4096) }];
        let text = |worker: Worker| refusal(vec![worker]);
        assert_eq!(text(Worker { rate: Some(rate), ..worker() }), "");
        let nothing = "job: a rate must be above 0, over a time above 0";
        assert_eq!(text(Worker { rate: Some(Rate { per_ns: 0, ..rate }), ..worker() }), nothing);
        assert_eq!(text(Worker { operations: paced(Rate { count: 0, ..rate }), ..worker() }), nothing);
        assert_eq!(
            text(Worker { rate: Some(rate), operations: paced(rate), ..worker() }),
            "job: a rate for all kinds together and one for a kind exclude each other; leave one out"
        );

        let think = Think {
            pause_ns: 2,
            spin_ns: 2,
            every: 0,
            counts: ThinkCounts::Issued,
            every_ns: Some(1),
            drains: true,
            moves_schedule: false,
        };
        let thinking = |think| text(Worker { think: Some(think), ..worker() });
        assert_eq!(thinking(think), "");
        assert_eq!(
            thinking(Think { spin_ns: 3, ..think }),
            "job: the spinning part of a pause is longer than the pause"
        );
        assert_eq!(
            thinking(Think { every_ns: None, ..think }),
            "job: a pause needs a number of operations or a length of load between pauses; set one of them"
        );

        let runtime = |runtime_ns| End { runtime_ns, ..worker().end };
        let cooling = |runtime_ns| text(Worker { end: runtime(runtime_ns), cooldown_ns: 1, ..worker() });
        assert_eq!(cooling(Some(1)), "");
        assert_eq!(cooling(None), "job: a cool-down needs a runtime; set one");

        let target = LatencyTarget { target_ns: 1, window_ns: 1, percentile: 100.0, run_on: false };
        let searching = |target| text(Worker { latency_target: Some(target), ..worker() });
        assert_eq!(searching(target), "");
        let times = "job: a latency target and its window must be above 0";
        assert_eq!(searching(LatencyTarget { window_ns: 0, ..target }), times);
        let share = "job: the percentile of a latency target must be above 0 and at most 100";
        for percentile in [0.0, 100.1, f64::NAN] {
            assert_eq!(searching(LatencyTarget { percentile, ..target }), share);
        }
    }

    #[test]
    fn kinds_that_an_engine_does_not_have_are_refused() {
        let trims = Worker { operations: vec![operation(OperationKind::Trim, 4096)], ..worker() };
        assert_eq!(refusal(vec![trims.clone()]), "");
        assert_eq!(
            refusal(vec![Worker { engine: EnginePlan::Nfs { mount: mount() }, ..trims }]),
            "job: NFSv3 has no trim; leave it out, or use another engine on a kernel mount"
        );
        assert_eq!(
            refusal(vec![Worker { operations: vec![operation(OperationKind::FsyncAtEnd, 4096)], ..worker() }]),
            "job: a flush cannot be part of a mix; set the number of writes between flushes"
        );
        assert_eq!(
            refusal(vec![Worker { submission_latency: true, ..worker() }]),
            "job: a synchronous engine has no submission latency; leave submission_latency out"
        );
        let flushing = |syncs| refusal(vec![Worker { syncs, ..worker() }]);
        let [never, often] = [0, 1].map(|every| SyncPlan { kind: OperationKind::Fsync, every });
        let reading = SyncPlan { kind: OperationKind::Read, ..often };
        assert_eq!(flushing(vec![never]), "job: the number of writes between flushes must be above 0");
        assert_eq!(flushing(vec![reading]), "job: only fsync, fdatasync and sync_file_range can follow writes");
        assert_eq!(
            flushing(vec![often, often]),
            "job: each kind of flush can have only one number of writes between flushes"
        );
    }

    #[test]
    fn logs_that_would_keep_nothing_or_too_much_are_refused() {
        let text = |window_ns, histograms, records| {
            refusal(vec![Worker { log: Some(LogPlan { window_ns, histograms, records, files: false }), ..worker() }])
        };
        assert_eq!(text(None, false, 1), "");
        assert_eq!(text(Some(1), true, RECORDS_MAX), "");
        assert_eq!(text(None, false, 0), "job: a log of 0 records would keep nothing; leave it out");
        let most = format!("job: a log of {} records is too large; {RECORDS_MAX} at most", RECORDS_MAX + 1);
        assert_eq!(text(None, false, RECORDS_MAX + 1), most);
        assert_eq!(
            text(Some(0), false, 1),
            "job: the windows of a log must be longer than 0; null records each operation"
        );
        assert_eq!(text(None, true, 1), "job: histograms need a log with windows; set window_ns");
    }

    fn waiting(job: &str, wait_for: &[&str]) -> Worker {
        Worker { job: job.into(), wait_for: wait_for.iter().map(|&name| name.into()).collect(), ..worker() }
    }

    #[test]
    fn waits_for_unknown_jobs_and_circular_waits_are_refused() {
        let (a, b) = (waiting("a", &[]), waiting("b", &["a"]));
        assert_eq!(refusal(vec![waiting("c", &["a", "b"]), b.clone(), a.clone()]), "");
        assert_eq!(
            refusal(vec![a, b, waiting("c", &["x"])]),
            "c: waits for x, but its group has no job of that name; check the name"
        );
        let circle = vec![waiting("a", &["b"]), waiting("b", &["c"]), waiting("c", &["a"]), waiting("d", &[])];
        assert_eq!(refusal(circle), "a, b, c: wait for each other and would never start");
        assert_eq!(refusal(vec![waiting("a", &["a"])]), "a: wait for each other and would never start");
    }

    #[test]
    fn steady_states_that_could_not_be_judged_are_refused() {
        const S: Nanos = 1_000_000_000;
        let good = SteadyState {
            figure: SteadyFigure::Iops,
            criterion: SteadyCriterion::Slope,
            limit: 1.0,
            limit_is_percent: true,
            duration_ns: 4 * S,
            ramp_ns: 0,
            check_ns: 2 * S,
        };
        let text = |steady| refusal(vec![Worker { steady_state: Some(steady), ..worker() }]);
        assert_eq!(text(good), "");
        assert_eq!(
            text(SteadyState { check_ns: S / 2, ..good }),
            "job: steady-state samples every 500000000 ns are not a multiple of the interval, 1000000000 ns"
        );
        assert_eq!(
            text(SteadyState { duration_ns: 2 * S, ..good }),
            "job: a steady state over 2000000000 ns does not consist of two or more samples of 2000000000 ns"
        );
        assert_eq!(text(SteadyState { limit: -1.0, ..good }), "job: a limit of -1 for a steady state is never met");
        assert_eq!(
            refusal(vec![worker(), Worker { job: "other".into(), steady_state: Some(good), ..worker() }]),
            "job: is reported with other, but has another steady-state criterion"
        );
    }
}
