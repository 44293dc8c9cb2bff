//! The addresses of a load: file and offset of each operation.
//!
//! Addresses are computed: nothing is allocated or shared per operation, and the same seed gives the same addresses.
//!
//! - A **random** operation goes to a place: a multiple of its alignment (by default its smallest block) at which the
//!   smallest block fits. With `cover: once` no byte comes twice in a pass; kinds with that setting share the visited
//!   places, as they share fio's random map. If no two operations can overlap, a permutation gives the order and takes
//!   no memory; only blocks of several sizes need a map, as in fio: see `places`. Distributions other than uniform are
//!   always drawn independently: fio turns the random map off for them.
//! - A **sequential** operation begins at the end of the previous one of its position, plus the gap. At the end of the
//!   region only sizes that still fit are drawn; a rest that is too small for all sizes is skipped, as in fio, or is the
//!   last operation (`short_last_block`).
//!   Backwards, it continues from the end, less the gap. The first pass begins at `start_bytes`, later passes at the
//!   region's start.
//! - **Mixed** operations (`random_percent` between 0 and 100, or a `run_length`) are sequential ones that continue from
//!   the random ones; if no block fits at the end, they are random. Sequential ones do not count as visited.
//! - A **pass** is over when every file is exhausted; then all files restart, or, with `at_end: stop`, no address is
//!   left. A file is exhausted as soon as one of its positions has reached the end of the region, or all of it was
//!   visited once. Independent draws never end. Under a time limit alone passes do not count, and each file restarts by
//!   itself.
//! - **Zones** advance per file; in a zone operations wrap around until its bytes are transferred.
//! - With `invalidate` and the page cache, the first operation of each further pass is announced to the worker, which
//!   drops the cached pages first. A sequential pass with a gap is announced only if its last block reaches the end, as
//!   in fio.

#![allow(clippy::inline_always, reason = "a call that is not inlined costs as much as the address")]

mod bitmap;
mod kinds;
mod lengths;
mod places;
mod preference;
mod region;
pub(crate) mod replay;
mod scattered;
mod selection;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

pub(crate) use self::lengths::Lengths;

use iocurve_meter::Rng;

use self::kinds::{Jump, Kind, ends, kinds};
use self::region::{Region, SequentialRules};
use self::replay::Replay;
pub(crate) use self::scattered::Scattered;
use self::selection::Selection;
use crate::engines::request::Address;
use crate::error::EngineError;
use crate::plan::{AtEnd, Group, Passes, Position, Worker};

/// Checks a worker's addresses; the error says what is wrong.
pub(crate) fn check(worker: &Worker) -> Result<(), EngineError> {
    kinds(worker).map(|_| ())
}

/// Sequential positions that the workers of a job share, one per file; empty if they share none.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedPositions(Vec<Arc<AtomicU64>>);

impl SharedPositions {
    /// Positions for each worker of a group. Workers with `position: job` share the position of a region, which begins
    /// at the start position of the first of them.
    pub(crate) fn of_group(group: &Group) -> Vec<Self> {
        let mut all = BTreeMap::new();
        let of_worker = |worker: &Worker| {
            if worker.access.position != Position::Job {
                return Self::default();
            }
            let of_file = |file: &crate::plan::FilePlan| {
                let region = (worker.job.clone(), file.path.clone(), file.offset_bytes, file.bytes);
                Arc::clone(all.entry(region).or_insert_with(|| Arc::new(AtomicU64::new(file.start_bytes))))
            };
            Self(worker.files.iter().map(of_file).collect())
        };
        group.workers.iter().map(of_worker).collect()
    }
}

/// The address of the next operation, from the walk of a tree.
pub(crate) type Handover = Rc<Cell<Option<Address>>>;

/// The addresses of one worker, one after another.
#[derive(Debug)]
pub(crate) struct Offsets {
    kinds: Vec<Kind>,
    rules: SequentialRules,
    regions: Vec<Region>,
    selection: Selection,
    rng: Rng,
    seed: u64,
    run_length: u32,
    /// Operations left in this run after its random one.
    run_left: u32,
    source: Source,
    /// Cached pages are dropped before each further pass.
    drops_pages: bool,
    /// No address is left.
    is_over: bool,
}

/// Source of the addresses, chosen at the start so that operations do not pay for features that the worker does not
/// use.
#[derive(Debug)]
enum Source {
    /// The next place of the only file.
    Scattered(Scattered),
    /// Kind, files and zones are chosen for each operation.
    Regions,
    /// One address for all kinds in turn (fio's `trimwrite`).
    Identical(Option<Address>),
    /// The recorded address.
    Replayed(Replay),
    /// The address that the walk of a tree has chosen.
    Walked(Handover),
    /// The last offset of each kind, repeated during a run (fio's `rw_sequencer=identical`); by file and kind.
    Repeated(Vec<u64>),
    /// None until [`Offsets::begin_pass`]: these files start a pass, from the next source.
    PassOver { files: Range<usize>, next: Box<Source> },
}

impl Offsets {
    /// Addresses for a worker's plan, repeatable from its seed.
    pub(crate) fn new(worker: &Worker, shared: &SharedPositions) -> Result<Self, EngineError> {
        let (kinds, recipes) = kinds(worker)?;
        let access = &worker.access;
        let (ends, drops_pages) = (ends(worker), worker.engine.drops_cached_pages());
        let rules = SequentialRules {
            gap: access.gap_bytes,
            spread: access.gap_spread_bytes,
            ends,
            shows_pass: (ends || drops_pages) && access.strided.is_none(),
            stops: access.at_end == AtEnd::Stop,
            strided: access.strided,
            last_block_min: access.short_last_block.then_some(1),
            smallest: kinds.iter().map(|kind| kind.smallest).max().unwrap_or(1),
            recipes,
            passes: access.passes,
        };
        let positions = if access.position.is_of_kind() { kinds.len() } else { 1 };
        let regions: Vec<Region> = worker
            .files
            .iter()
            .enumerate()
            .map(|(index, file)| {
                let seed = Rng::new(worker.seed ^ ((index as u64 + 1) << 32)).next_u64();
                Region::new(file, &rules, positions, shared.0.get(index).cloned(), seed)
            })
            .collect();
        let source = match access.position {
            Position::Identical => Source::Identical(None),
            Position::Repeated => {
                let starts = worker.files.iter().flat_map(|file| vec![file.offset_bytes; kinds.len()]);
                Source::Repeated(starts.collect())
            }
            _ => Scattered::new(&kinds, &rules, &regions).map_or(Source::Regions, Source::Scattered),
        };
        Ok(Self {
            kinds,
            rules,
            regions,
            selection: Selection::new(worker),
            rng: Rng::new(worker.seed),
            seed: worker.seed,
            run_length: access.run_length,
            run_left: 0,
            source,
            drops_pages,
            is_over: false,
        })
    }

    /// Replaces the addresses by those of a replay, if there is one.
    #[must_use]
    pub(crate) fn or_replayed(self, replay: Option<&Replay>) -> Self {
        let Some(replay) = replay else { return self };
        Self { source: Source::Replayed(replay.clone()), ..self }
    }

    /// Replaces the addresses by those that the walk of a tree hands over, if there is one.
    #[must_use]
    pub(crate) fn or_walked(self, handover: Option<Handover>) -> Self {
        let Some(handover) = handover else { return self };
        Self { source: Source::Walked(handover), ..self }
    }

    /// Next address for the worker's operation number `operation`; `None` if a pass is over ([`Self::begin_pass`]), or if
    /// the files are exhausted and do not restart.
    #[inline]
    pub(crate) fn next(&mut self, operation: usize) -> Option<Address> {
        match &mut self.source {
            Source::Scattered(scattered) => {
                let (address, exhausted) = scattered.next();
                if exhausted {
                    self.pass_over(0..1);
                }
                Some(address)
            }
            _ => self.next_by_kind(operation),
        }
    }

    /// The places of the only file, if nothing else decides about the next address.
    #[inline]
    pub(crate) fn scattered(&mut self) -> Option<&mut Scattered> {
        match &mut self.source {
            Source::Scattered(scattered) => Some(scattered),
            _ => None,
        }
    }

    /// Files of the pass that starts with the next address, if their cached pages are to be dropped before it.
    pub(crate) fn begin_pass(&mut self) -> Option<Range<usize>> {
        match std::mem::replace(&mut self.source, Source::Regions) {
            Source::PassOver { files, next } => {
                self.source = *next;
                Some(files)
            }
            source => {
                self.source = source;
                None
            }
        }
    }

    /// The operation after this one starts a pass over `files`.
    #[cold]
    fn pass_over(&mut self, files: Range<usize>) {
        if self.drops_pages && !matches!(self.source, Source::PassOver { .. }) {
            let next = Box::new(std::mem::replace(&mut self.source, Source::Regions));
            self.source = Source::PassOver { files, next };
        }
    }

    /// The source of addresses, also between two passes.
    fn addresses(&mut self) -> &mut Source {
        match &mut self.source {
            Source::PassOver { next, .. } => next,
            source => source,
        }
    }

    #[inline(never)]
    fn next_by_kind(&mut self, operation: usize) -> Option<Address> {
        match &self.source {
            Source::PassOver { .. } => None,
            Source::Replayed(replay) => replay.take(),
            Source::Walked(handover) => handover.take(),
            Source::Identical(_) => self.next_for_all(operation),
            Source::Repeated(_) => self.next_for_each(operation),
            Source::Regions | Source::Scattered(_) => self.next_place(operation),
        }
    }

    #[inline(always)]
    fn next_place(&mut self, operation: usize) -> Option<Address> {
        let jumps = match self.kinds[operation].jump {
            Jump::Never => false,
            Jump::Always => true,
            Jump::Mixed(percent) => self.begins_run() && self.jumps(percent),
        };
        self.place(operation, jumps)
    }

    #[inline(never)]
    fn next_for_all(&mut self, operation: usize) -> Option<Address> {
        let address = match self.source {
            Source::Identical(Some(address)) => address,
            _ => self.next_place(operation)?,
        };
        let is_last = operation + 1 == self.kinds.len();
        *self.addresses() = Source::Identical((!is_last).then_some(address));
        Some(address)
    }

    #[inline(never)]
    fn next_for_each(&mut self, operation: usize) -> Option<Address> {
        if self.is_over {
            return None;
        }
        let kinds = self.kinds.len();
        let address = match self.kinds[operation].jump {
            Jump::Mixed(percent) => {
                if self.begins_run() {
                    let jumps = self.jumps(percent);
                    self.place(operation, jumps)?
                } else {
                    self.again(operation)
                }
            }
            Jump::Never | Jump::Always => self.place(operation, false)?,
        };
        if let Source::Repeated(starts) = self.addresses() {
            starts[address.file as usize * kinds + operation] = address.offset;
        }
        Some(address)
    }

    /// Repeats the last offset of this kind with a newly drawn size; a visited neighbour can shorten it.
    fn again(&mut self, operation: usize) -> Address {
        let file = self.selection.next(&mut self.rng);
        let offset = match &self.source {
            Source::Repeated(starts) => starts[file * self.kinds.len() + operation],
            _ => 0,
        };
        let room = self.regions[file].end() - offset;
        let length = self.kinds[operation].shape.lengths.draw(room, &mut self.rng);
        Address { file: file as u32, offset, length: u64::from(length).min(room) as u32 }
    }

    /// Counts the operations of a run, all kinds and files together; returns `true` for its first operation.
    #[inline]
    fn begins_run(&mut self) -> bool {
        let begins = self.run_left == 0;
        self.run_left = if begins { self.run_length - 1 } else { self.run_left - 1 };
        begins
    }

    #[inline]
    fn jumps(&mut self, percent: u32) -> bool {
        percent == 100 || self.rng.below(100) < u64::from(percent)
    }

    #[inline(always)]
    fn place(&mut self, operation: usize, jumps: bool) -> Option<Address> {
        while !self.is_over {
            let file = self.selection.next(&mut self.rng);
            let spot = self.regions[file].next(&self.kinds[operation], &self.rules, jumps, &mut self.rng);
            if spot.is_none_or(|spot| spot.exhausted) {
                self.file_exhausted(file);
            }
            if let Some(spot) = spot {
                return Some(Address { file: file as u32, offset: spot.offset, length: spot.length });
            }
        }
        None
    }

    /// Called when a file is exhausted. It has restarted, or waits for the others: after the last file a new pass begins,
    /// unless the plan stops there.
    #[cold]
    fn file_exhausted(&mut self, file: usize) {
        if !self.rules.ends {
            self.pass_over(file..file + 1);
            return;
        }
        if self.selection.exhaust(file) {
            return;
        }
        if self.rules.stops {
            self.is_over = true;
            return;
        }
        self.selection.restart();
        for region in &mut self.regions {
            region.restart(&self.rules);
        }
        if self.rules.passes == Passes::Same {
            self.rng = Rng::new(self.seed);
        }
        self.pass_over(0..self.regions.len());
    }
}

#[cfg(test)]
mod tests;
