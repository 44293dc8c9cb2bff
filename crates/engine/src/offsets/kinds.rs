//! The kinds of operation of a worker, the same for all its files. Invalid plans are refused here.

use std::collections::BTreeMap;

use super::lengths::Lengths;
use super::places::{Map, Places, Shape, VisitOrder};
use crate::error::EngineError;
use crate::plan::{Access, AtEnd, Cover, Distribution, FilePlan, FileSelect, OperationPlan, Passes, Position, Worker};

/// Most memory for maps of visited units, over all files of a worker: 2³³ units, such as 32 TiB in blocks of 4 KiB.
const MAP_BYTES_MAX: u64 = 1 << 30;
/// Largest offset in a file.
const OFFSET_MAX: u64 = i64::MAX as u64;
const NO_RUN: &str = "a run must have at least 1 operation";

#[derive(Debug)]
pub(super) struct Kind {
    pub(super) shape: Shape,
    pub(super) smallest: u64,
    pub(super) jump: Jump,
    pub(super) edge: AtEdge,
    /// Index of its sequential position in a region.
    pub(super) position: usize,
    /// Index in a region of the places that its offsets are drawn from.
    pub(super) places: usize,
    /// Its random operations set the sequential position.
    pub(super) sets_position: bool,
}

/// Share of the operations that go to a random offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Jump {
    Never,
    Always,
    /// This percentage of the operations, or of the operations that begin a run.
    Mixed(u32),
}

/// Behaviour of a sequential operation at the end of the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AtEdge {
    /// Goes to a random offset, as in fio.
    Jump,
    /// Wraps to the other end.
    Wrap,
    /// Exhausts the file.
    End,
}

/// Parameters of the random places of a kind in a window. Kinds with the same parameters share the places.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Recipe {
    Once { align: u64 },
    Map { unit: u64 },
    Drawn { distribution: Distribution, lengths: Lengths, align: u64 },
}

impl Recipe {
    pub(super) fn make(&self, window_bytes: u64, passes: Passes, seed: u64) -> Places {
        match self {
            Self::Once { align } => Places::Once(VisitOrder::new((window_bytes / align).max(1), passes, seed)),
            Self::Map { unit } => Places::Map(Box::new(Map::new(units(window_bytes, *unit), *unit, passes, seed))),
            Self::Drawn { distribution, lengths, align } => {
                Places::drawn(distribution, &Shape { lengths: lengths.clone(), align: *align }, window_bytes, seed)
            }
        }
    }
}

fn units(window_bytes: u64, unit: u64) -> u64 {
    (window_bytes / unit).max(1)
}

/// Returns `true` if an exhausted file waits until all files are exhausted, as in fio. It waits if passes count: if
/// bytes, operations or the end of the region end the worker, or if files are used one after another. Under a time
/// limit alone each file restarts by itself.
pub(super) fn ends(worker: &Worker) -> bool {
    let access = &worker.access;
    let counts = worker.end.bytes.is_some() || worker.end.operations.is_some();
    access.at_end == AtEnd::Stop
        || (access.position != Position::Job && (counts || worker.file_select == FileSelect::Sequential))
}

/// The kinds of a worker, and the recipes of their places. The error is a message for the user.
pub(super) fn kinds(worker: &Worker) -> Result<(Vec<Kind>, Vec<Recipe>), EngineError> {
    let shapes: Vec<Shape> = worker
        .operations
        .iter()
        .map(|operation| {
            shape(worker, operation)
                .map_err(|what| EngineError::Plan(format!("{}: {}: {what}", worker.job, operation.kind.name())))
        })
        .collect::<Result<_, _>>()?;
    let mut recipes = Vec::new();
    let covered = covering(worker, &shapes);
    let mut kinds = Vec::with_capacity(shapes.len());
    for (operation, shape) in worker.operations.iter().zip(&shapes) {
        let recipe = if covers(worker, operation) {
            covered.clone()
        } else {
            let (lengths, align) = (shape.lengths.clone(), shape.align);
            Some(Recipe::Drawn { distribution: operation.distribution.clone(), lengths, align })
        };
        kinds.push(Kind {
            smallest: shape.lengths.smallest(),
            shape: shape.clone(),
            jump: jump(worker, operation),
            edge: AtEdge::Wrap,
            position: if worker.access.position.is_of_kind() { kinds.len() } else { 0 },
            places: place_of(recipe, &mut recipes),
            sets_position: false,
        });
    }
    set_edges(&mut kinds, ends(worker) && worker.access.strided.is_none());
    check_regions(worker, &kinds, &recipes)?;
    Ok((kinds, recipes))
}

/// Index of a recipe, which is added if it is new.
fn place_of(recipe: Option<Recipe>, recipes: &mut Vec<Recipe>) -> usize {
    let Some(recipe) = recipe else { return 0 };
    recipes.iter().position(|other| *other == recipe).unwrap_or_else(|| {
        recipes.push(recipe);
        recipes.len() - 1
    })
}

fn jump(worker: &Worker, operation: &OperationPlan) -> Jump {
    match operation.random_percent {
        0 => Jump::Never,
        100 if worker.access.run_length == 1 => Jump::Always,
        percent => Jump::Mixed(percent),
    }
}

/// Sets the behaviour at the end of the region: it depends on the other kinds that move the position.
fn set_edges(kinds: &mut [Kind], ends: bool) {
    let mut moved: BTreeMap<usize, (bool, bool)> = BTreeMap::new();
    for kind in kinds.iter() {
        let (jumps, continues) = moved.entry(kind.position).or_default();
        *jumps |= kind.jump != Jump::Never;
        *continues |= kind.jump != Jump::Always;
    }
    for kind in kinds {
        let (jumps, continues) = moved[&kind.position];
        kind.sets_position = jumps && continues;
        kind.edge = match kind.jump {
            Jump::Mixed(_) => AtEdge::Jump,
            Jump::Never if ends && !jumps => AtEdge::End,
            _ => AtEdge::Wrap,
        };
    }
}

/// Returns `true` if a kind visits every place once. Only the uniform distribution does, as in fio.
fn covers(worker: &Worker, operation: &OperationPlan) -> bool {
    operation.random_percent > 0
        && worker.access.cover == Cover::Once
        && operation.distribution == (Distribution::Uniform {})
}

/// Recipe shared by the kinds that visit every place once: a permutation if no two operations can overlap, otherwise a
/// map.
fn covering(worker: &Worker, shapes: &[Shape]) -> Option<Recipe> {
    let covering: Vec<&Shape> = worker
        .operations
        .iter()
        .zip(shapes)
        .filter_map(|(operation, shape)| covers(worker, operation).then_some(shape))
        .collect();
    let align = covering.first()?.align;
    if covering.iter().all(|shape| shape.align == align && shape.lengths.largest() <= align) {
        return Some(Recipe::Once { align });
    }
    let unit = covering.iter().fold(0, |unit, shape| greatest_common_divisor(unit, shape.align));
    Some(Recipe::Map { unit })
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

fn shape(worker: &Worker, operation: &OperationPlan) -> Result<Shape, String> {
    let lengths = Lengths::new(&operation.blocks)?;
    let smallest = lengths.smallest();
    let align = if operation.align_bytes == 0 { smallest } else { operation.align_bytes };
    if operation.random_percent > 100 {
        return Err(format!("{} per cent of the operations are random; the maximum is 100", operation.random_percent));
    }
    if covers(worker, operation) && align < smallest {
        return Err(format!(
            "blocks of {smallest} bytes at multiples of {align} overlap, so they cannot all be visited once; \
             let each draw be independent (norandommap)"
        ));
    }
    preference(&operation.distribution)?;
    Ok(Shape { lengths, align })
}

fn preference(distribution: &Distribution) -> Result<(), String> {
    let (what, center) = match *distribution {
        Distribution::Uniform {} => return Ok(()),
        Distribution::Zipf { theta, center } if theta > 0.0 && theta.is_finite() && (theta - 1.0).abs() > 0.0 => {
            ("zipf", center)
        }
        Distribution::Zipf { theta, .. } => {
            return Err(format!("a Zipf distribution needs a theta above 0 other than 1, not {theta}"));
        }
        Distribution::Pareto { h, center } if h > 0.0 && h < 1.0 => ("pareto", center),
        Distribution::Pareto { h, .. } => {
            return Err(format!("a Pareto distribution needs a power between 0 and 1, not {h}"));
        }
        Distribution::Normal { deviation_percent, center } if (0.0..=100.0).contains(&deviation_percent) => {
            ("normal", center)
        }
        Distribution::Normal { deviation_percent, .. } => {
            return Err(format!(
                "a normal distribution needs a deviation from 0 to 100 per cent, not {deviation_percent}"
            ));
        }
        Distribution::Zones { ref zones } => {
            let sane = zones.iter().all(|zone| zone.access_percent >= 0.0 && zone.access_percent.is_finite());
            return match zones.iter().any(|zone| zone.access_percent > 0.0) {
                true if sane => Ok(()),
                true => Err("a zone's share of the operations must not be negative".into()),
                false => Err("no zone has a share of the operations".into()),
            };
        }
    };
    match center {
        Some(center) if !(0.0..=1.0).contains(&center) => {
            Err(format!("the centre of a {what} distribution must be between 0 and 1, not {center}"))
        }
        _ => Ok(()),
    }
}

fn check_regions(worker: &Worker, kinds: &[Kind], recipes: &[Recipe]) -> Result<(), EngineError> {
    let shortens = worker.access.short_last_block;
    let smallest = if shortens { None } else { kinds.iter().map(|kind| kind.smallest).max() }.unwrap_or(1);
    let refuse = |name: &str, what: String| Err(EngineError::Plan(format!("{name}: {what}")));
    if worker.file_run == 0 {
        return refuse(&worker.job, NO_RUN.into());
    }
    if shortens && (worker.access.gap_bytes != 0 || kinds.iter().any(|kind| kind.jump != Jump::Never)) {
        return refuse(&worker.job, "a short last block needs sequential operations without gaps".into());
    }
    if let Some(what) = access_fault(&worker.access, smallest) {
        return refuse(&worker.job, what);
    }
    let mut map_bytes = 0_u64;
    for file in &worker.files {
        if let Some(what) = region_fault(file, smallest, recipes) {
            return refuse(&file.path, what);
        }
        map_bytes = map_bytes.saturating_add(map_bytes_of(file, &worker.access, recipes));
    }
    if map_bytes > MAP_BYTES_MAX {
        return refuse(
            &worker.job,
            format!(
                "the random map of blocks of these sizes would take {map_bytes} bytes of memory, and {MAP_BYTES_MAX} are \
                 the most; use a larger smallest block, or let each draw be independent (norandommap)"
            ),
        );
    }
    Ok(())
}

fn access_fault(access: &Access, smallest: u64) -> Option<String> {
    if access.run_length == 0 {
        return Some(NO_RUN.into());
    }
    if access.gap_spread_bytes > OFFSET_MAX {
        return Some(format!("a gap of up to {} bytes is larger than any file", access.gap_spread_bytes));
    }
    let strided = access.strided?;
    if strided.range_bytes < smallest {
        return Some(format!(
            "a zone of {} bytes is smaller than one block of {smallest}; use a larger zone or a smaller block",
            strided.range_bytes
        ));
    }
    (strided.zone_bytes == 0).then(|| "a zone must transfer at least 1 byte".into())
}

fn region_fault(file: &FilePlan, smallest: u64, recipes: &[Recipe]) -> Option<String> {
    if file.bytes < smallest {
        return Some(format!(
            "the region of {} bytes is smaller than one block of {smallest}; use a larger size or a smaller block",
            file.bytes
        ));
    }
    if file.offset_bytes.saturating_add(file.bytes) > OFFSET_MAX {
        return Some(format!("the region ends behind byte {OFFSET_MAX}, the largest offset in a file"));
    }
    if file.start_bytes >= file.bytes {
        return Some(format!(
            "operations cannot begin {} bytes into a region of {}; start earlier or use a larger size",
            file.start_bytes, file.bytes
        ));
    }
    recipes.iter().find_map(|recipe| without_place(recipe, file.bytes))
}

/// Memory for the maps of a file.
fn map_bytes_of(file: &FilePlan, access: &Access, recipes: &[Recipe]) -> u64 {
    let window = access.strided.map_or(file.bytes, |strided| strided.range_bytes.min(file.bytes));
    let bytes = |recipe: &Recipe| match recipe {
        Recipe::Map { unit } => units(window, *unit).div_ceil(8),
        _ => 0,
    };
    recipes.iter().map(bytes).fold(0, u64::saturating_add)
}

/// Error for a distribution without any place in a region.
fn without_place(recipe: &Recipe, region_bytes: u64) -> Option<String> {
    let Recipe::Drawn { distribution: Distribution::Zones { zones }, lengths, align } = recipe else { return None };
    let places = Shape { lengths: lengths.clone(), align: *align }.places(region_bytes);
    let used = zones.iter().any(|zone| zone.access_percent > 0.0 && zone.offset_bytes / align < places);
    (!used)
        .then(|| format!("all zones lie beyond the region of {region_bytes} bytes; use smaller zones or a larger size"))
}
