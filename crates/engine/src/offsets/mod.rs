//! Where the next operation goes: a file and an offset in it.
//!
//! All of it is computed: nothing is allocated or shared per operation, and the same seed gives the same addresses.
//!
//! - A **random** operation goes to a multiple of its alignment (by default its smallest block) where the smallest block
//!   fits. With `cover: once` no byte comes twice in a pass; `kinds` that do so share what has been visited, as they
//!   share fio's random map. Where no two operations can overlap, a bijection gives the order (no memory); only blocks
//!   of several sizes need a map, as in fio: see `places`. Other distributions than the uniform are drawn independently,
//!   whatever `cover` says: fio turns the random map off for them.
//! - A **sequential** operation begins where the last one of its position ended, plus the gap. Several sizes at the end
//!   of the region: what still fits is drawn; a rest that nothing fits into is left out, as in fio. Backwards, it goes on
//!   from the end, less the gap. The first pass begins at `start_bytes`, the others at the region's start.
//! - **Mixed** operations (`random_percent` between, or a `run_length`) are sequential ones that go on from the random
//!   ones; where there is no room at the end, they are random. Sequential ones do not count as visited.
//! - A **pass** is over when every file is through; then all begin again, or, with `at_end: stop`, nothing comes any
//!   more. A file is through as soon as one of its positions has come to the end of the region, or all of it was visited
//!   once. Independent draws never end. Under a time limit alone nobody counts passes, and each file begins again by
//!   itself.
//! - **Zones** move per file; in a zone operations go round until its bytes are transferred.

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

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use self::kinds::{Jump, Kind, ends, kinds};
use self::region::{Region, Walk};
use self::replay::Replay;
use self::scattered::Scattered;
use self::selection::Selection;
use crate::chance::Rng;
use crate::engines::request::Address;
use crate::error::EngineError;
use crate::plan::{AtEnd, Group, Passes, Position, Worker};

/// Whether a worker's addresses make sense; the error says what does not.
pub(crate) fn check(worker: &Worker) -> Result<(), EngineError> {
    kinds(worker).map(|_| ())
}

/// The sequential positions that a worker shares with the others of its job, one per file; empty if it shares none.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedPositions(Vec<Arc<AtomicU64>>);

impl SharedPositions {
    /// For each worker of a group: those with `position: job` share the regions that are the same. Each begins where its
    /// first worker does.
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

/// The addresses of one worker, one after another.
#[derive(Debug)]
pub(crate) struct Offsets {
    kinds: Vec<Kind>,
    walk: Walk,
    regions: Vec<Region>,
    selection: Selection,
    rng: Rng,
    seed: u64,
    run_length: u32,
    /// Operations that follow the random one of this run.
    run_left: u32,
    course: Course,
    /// Whether nothing comes any more.
    is_over: bool,
}

/// What decides where operations go, chosen at the start so that no operation pays for what its worker does not use.
#[derive(Debug)]
enum Course {
    /// To the next place of the only file.
    Scattered(Scattered),
    /// Each goes where its kind, the files and the zones say.
    Own,
    /// The place that all kinds visit until the last of them has (fio's `trimwrite`).
    ForAll(Option<Address>),
    /// Where it was recorded.
    Replayed(Replay),
    /// The last place of each kind, where it stays during a run (fio's `rw_sequencer=identical`); by file and kind.
    ForEach(Vec<u64>),
}

impl Offsets {
    /// Addresses for a worker's plan, repeatable from its seed.
    pub(crate) fn new(worker: &Worker, shared: &SharedPositions) -> Result<Self, EngineError> {
        let (kinds, recipes) = kinds(worker)?;
        let access = &worker.access;
        let walk = Walk {
            gap: access.gap_bytes,
            spread: access.gap_spread_bytes,
            ends: ends(worker),
            stops: access.at_end == AtEnd::Stop,
            strided: access.strided,
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
                Region::new(file, &walk, positions, shared.0.get(index).cloned(), seed)
            })
            .collect();
        let course = match access.position {
            Position::Identical => Course::ForAll(None),
            Position::Repeated => {
                let starts = worker.files.iter().flat_map(|file| vec![file.offset_bytes; kinds.len()]);
                Course::ForEach(starts.collect())
            }
            _ => Scattered::new(&kinds, &walk, &regions).map_or(Course::Own, Course::Scattered),
        };
        Ok(Self {
            kinds,
            walk,
            regions,
            selection: Selection::new(worker),
            rng: Rng::new(worker.seed),
            seed: worker.seed,
            run_length: access.run_length,
            run_left: 0,
            course,
            is_over: false,
        })
    }

    /// The same, or where a replay says.
    #[must_use]
    pub(crate) fn or_replayed(self, replay: Option<&Replay>) -> Self {
        let Some(replay) = replay else { return self };
        Self { course: Course::Replayed(replay.clone()), ..self }
    }

    /// Address for the worker's operation number `operation`; `None` when its regions are through and do not begin again.
    #[inline]
    pub(crate) fn next(&mut self, operation: usize) -> Option<Address> {
        match &mut self.course {
            Course::Scattered(scattered) => Some(scattered.next()),
            _ => self.next_by_kind(operation),
        }
    }

    #[inline(never)]
    fn next_by_kind(&mut self, operation: usize) -> Option<Address> {
        match &self.course {
            Course::Replayed(replay) => replay.take(),
            Course::ForAll(_) => self.next_for_all(operation),
            Course::ForEach(_) => self.next_for_each(operation),
            Course::Own | Course::Scattered(_) => self.next_place(operation),
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
        let address = match self.course {
            Course::ForAll(Some(address)) => address,
            _ => self.next_place(operation)?,
        };
        let is_last = operation + 1 == self.kinds.len();
        self.course = Course::ForAll((!is_last).then_some(address));
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
        if let Course::ForEach(starts) = &mut self.course {
            starts[address.file as usize * kinds + operation] = address.offset;
        }
        Some(address)
    }

    /// The last place of this kind once more, with a size of its own (a place of what is left by others can be short).
    fn again(&mut self, operation: usize) -> Address {
        let file = self.selection.next(&mut self.rng);
        let offset = match &self.course {
            Course::ForEach(starts) => starts[file * self.kinds.len() + operation],
            _ => 0,
        };
        let room = self.regions[file].end() - offset;
        let length = self.kinds[operation].shape.lengths.draw(room, &mut self.rng);
        Address { file: file as u32, offset, length: u64::from(length).min(room) as u32 }
    }

    /// Counts the operations of a run, all kinds and files together; whether this is the first of one.
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
            let spot = self.regions[file].next(&self.kinds[operation], &self.walk, jumps, &mut self.rng);
            if spot.is_none_or(|spot| spot.through) {
                self.is_through(file);
            }
            if let Some(spot) = spot {
                return Some(Address { file: file as u32, offset: spot.offset, length: spot.length });
            }
        }
        None
    }

    /// A file is through; after the last of them a new pass begins, if one does.
    #[cold]
    fn is_through(&mut self, file: usize) {
        if self.selection.is_through(file) {
            return;
        }
        if self.walk.stops {
            self.is_over = true;
            return;
        }
        self.selection.begin_again();
        for region in &mut self.regions {
            region.begin_again(&self.walk);
        }
        if self.walk.passes == Passes::Same {
            self.rng = Rng::new(self.seed);
        }
    }
}

#[cfg(test)]
mod tests;
