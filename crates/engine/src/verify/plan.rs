//! Checks of the verification in a plan, and values derived from it.

use super::proof::header_bytes;
use crate::engines::capabilities;
use crate::error::EngineError;
use crate::payload::Pattern;
use crate::plan::{Blocks, Cover, OperationKind, Verify, VerifyMap, VerifyMethod, Worker};

/// Label of a worker whose engine moves no data to compare.
const NOTHING_TO_COMPARE: &str = "verify_nothing_to_compare";

/// Refuses invalid verification, with a message for the user.
pub(crate) fn check(worker: &Worker) -> Result<(), EngineError> {
    let Some(plan) = &worker.verify else { return Ok(()) };
    let refuse = |text: String| Err(EngineError::Plan(format!("{}: {text}", worker.job)));
    let has_pattern = matches!(plan.method, VerifyMethod::Pattern | VerifyMethod::PatternHeader);
    if has_pattern && plan.pattern.is_empty() {
        return refuse("verification by a pattern needs a pattern; set it".into());
    }
    if !plan.pattern.is_empty() {
        Pattern::parse(&plan.pattern)?;
    }
    let places = places_bytes(worker);
    let interval = u64::from(interval_bytes(worker, plan));
    if interval == 0 || !places.is_multiple_of(interval) {
        return refuse(format!(
            "a verification interval of {interval} bytes does not divide the blocks, which begin and end at multiples of \
             {places} bytes"
        ));
    }
    let header = header_bytes(plan.method) as u64;
    if u64::from(plan.header_offset) + header > interval {
        return refuse(format!(
            "a verification header of {header} bytes at {} does not fit into intervals of {interval} bytes; use larger \
             blocks or intervals, or another method",
            plan.header_offset
        ));
    }
    if plan.backlog == Some(0) || plan.pass_bytes == Some(0) {
        return refuse("a verification backlog or pass must be at least 1".into());
    }
    if plan.only && worker.writes() && worker.end.bytes.is_none() && worker.end.operations.is_none() {
        return refuse("verify_only needs a size or a number of operations: a runtime does not determine what an earlier run wrote".into());
    }
    if plan.only && worker.writes() && !plan.read_back {
        return refuse("verify_only without reading back has nothing to do".into());
    }
    if plan.read_back && worker.does(OperationKind::Trim) {
        return refuse("trimmed data cannot be read back and compared; leave out the trims or the verification".into());
    }
    if let Some(what) = tree_fault(worker, plan) {
        return refuse(what.into());
    }
    if let Some(what) = plan.map.as_ref().and_then(|map| map_fault(worker, plan, map)) {
        return refuse(what.into());
    }
    if !capabilities(&worker.engine).keeps_payload && plan.method != VerifyMethod::Null {
        return refuse("verification needs the payload of READs, which this mount discards; set keep_payload".into());
    }
    Ok(())
}

/// Error for invalid maps.
fn map_fault(worker: &Worker, plan: &Verify, map: &VerifyMap) -> Option<&'static str> {
    let interval = u64::from(plan.interval_bytes);
    if map.paths.len() != worker.files.len() {
        return Some("each file needs its own verification map");
    }
    if interval == 0 || worker.files.iter().any(|file| !file.offset_bytes.is_multiple_of(interval)) {
        return Some(
            "regions must begin at a multiple of the verification interval, which all workers share; set the interval",
        );
    }
    if matches!(plan.method, VerifyMethod::Null | VerifyMethod::Pattern) {
        return Some("data of other workers are checked by their headers; use a method with a header");
    }
    if plan.read_back || plan.only || plan.backlog.is_some() {
        return Some(
            "with a verification map every read is compared, and data are not read back; switch reading back off",
        );
    }
    let trims = worker.does(OperationKind::Trim);
    trims.then_some("a verification map cannot record trims; leave out the trims or the verification")
}

/// Error for invalid verification of a tree.
fn tree_fault(worker: &Worker, plan: &Verify) -> Option<&'static str> {
    let tree = worker.tree.as_ref()?;
    let Some(map) = &plan.map else { return Some("verification on a directory tree needs a verification map") };
    if map.before_write || map.after_write {
        return Some("on a directory tree data are compared when a task reads them; switch further reads off");
    }
    tree.files_shared.then_some("verification on a directory tree needs files that one operation uses at a time")
}

/// Labels that follow from the plan alone.
pub(crate) fn labels(worker: &Worker) -> Vec<String> {
    let compares = worker.verify.as_ref().is_none_or(|plan| plan.method == method(worker, plan));
    if compares { Vec::new() } else { vec![NOTHING_TO_COMPARE.to_owned()] }
}

/// Method of the comparison; `Null` if the engine moves no data.
pub(super) fn method(worker: &Worker, plan: &Verify) -> VerifyMethod {
    if capabilities(&worker.engine).moves_data { plan.method } else { VerifyMethod::Null }
}

/// Length of an interval: the plan's, or the largest that fits all blocks.
pub(super) fn interval_bytes(worker: &Worker, plan: &Verify) -> u32 {
    if plan.interval_bytes == 0 { places_bytes(worker) as u32 } else { plan.interval_bytes }
}

/// Returns `true` if a block may be overwritten, wholly or partly, before it is read back.
pub(super) fn may_overlap(worker: &Worker) -> bool {
    let access = &worker.access;
    access.cover == Cover::Independent || access.gap_bytes != 0 || access.run_length > 1
}

/// Greatest common divisor of all block boundaries, from the region's start.
fn places_bytes(worker: &Worker) -> u64 {
    let writes = worker.writes();
    let compares = !writes || worker.verify.as_ref().is_some_and(|plan| plan.map.is_some());
    let moves = |kind| kind == OperationKind::Write || (kind == OperationKind::Read && compares);
    let operations = worker.operations.iter().filter(|operation| moves(operation.kind));
    let sizes =
        operations.map(|operation| greatest_common_divisor(step_bytes(&operation.blocks), operation.align_bytes));
    let places = sizes.fold(0, greatest_common_divisor);
    let starts = worker.files.iter().map(|file| file.start_bytes);
    // Going backwards, a pass begins at the end of the region.
    let ends = worker.files.iter().filter(|_| worker.access.gap_bytes < 0).map(|file| file.bytes);
    let zones = worker.access.strided.iter().flat_map(|zone| [zone.range_bytes, zone.zone_bytes, zone.skip_bytes]);
    starts
        .chain(ends)
        .chain(zones)
        .chain([worker.access.gap_bytes.unsigned_abs()])
        .fold(places, greatest_common_divisor)
}

/// Greatest common divisor of the sizes.
fn step_bytes(blocks: &Blocks) -> u64 {
    match blocks {
        Blocks::Fixed { bytes } => u64::from(*bytes),
        Blocks::Range { low, step, .. } => greatest_common_divisor(u64::from(*low), u64::from(*step)),
        Blocks::Split { parts } => parts.iter().map(|part| u64::from(part.bytes)).fold(0, greatest_common_divisor),
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
