//! The Python structs of plans and outcomes.

use iocurve_contract::Module;

use crate::outcome::{IntervalRecord, Live, Outcome};
use crate::plan::{OperationKind, Plan, SyncPlan};

const PLAN: &str = "The plan of a run: the contract between Python, which resolves a job into a plan, and the engine.

A plan leaves nothing open: sizes are bytes, times are nanoseconds, and `null` is a decision (\"no limit\").

Generated from `crates/engine/src/plan` by `make contract`. `iocurve.engine.derived` computes values from plans.";

const OUTCOME: &str = "The outcome of a run, as the engine returns it.

Generated from `crates/engine/src/outcome.rs` by `make contract`. `iocurve.engine.derived` computes values from outcomes.";

fn names(chosen: impl Fn(&OperationKind) -> bool) -> Vec<&'static str> {
    OperationKind::ALL.iter().filter(|kind| chosen(kind)).map(|kind| kind.name()).collect()
}

#[test]
fn python_has_the_plan() {
    let of = "OperationKind";
    let metadata = "Operations on names and attributes, which move no data. They need a metadata engine.";
    let flushes = "Kinds that move no data, and do not count as requested operations.";
    Module::new(PLAN, true)
        .subset(of, "MetadataKind", &names(|kind| kind.is_metadata()), metadata)
        .supplement(of, "METADATA_KINDS: tuple[MetadataKind, ...] = get_args(MetadataKind)\n")
        .subset(of, "SyncKind", &names(|kind| SyncPlan::KINDS.contains(kind)), "Flushes that a `SyncPlan` issues.")
        .subset(of, "FlushKind", &names(|kind| kind.is_flush()), flushes)
        .supplement(of, "FLUSH_KINDS: tuple[FlushKind, ...] = get_args(FlushKind)\n")
        .with::<Plan>()
        .compare("python/iocurve/engine/plan.py");
}

#[test]
fn python_has_the_outcome() {
    Module::new(OUTCOME, false)
        .with::<Outcome>()
        .with::<IntervalRecord>()
        .with::<Live>()
        .compare("python/iocurve/engine/outcome.py");
}
