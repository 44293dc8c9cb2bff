//! One file's region: sequential positions, random places, zones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use iocurve_meter::Rng;

use super::kinds::{AtEdge, Kind, Recipe};
use super::places::{DrawnRange, Places, VisitOrder};
use crate::plan::{FilePlan, Passes, Strided};

/// A position behind the end of every region.
const PAST_END: u64 = u64::MAX;

/// Rules of sequential operations, the same for all files of a worker.
#[derive(Debug)]
pub(super) struct SequentialRules {
    pub(super) gap: i64,
    pub(super) spread: u64,
    /// An exhausted region waits until all are exhausted; otherwise it restarts by itself.
    pub(super) ends: bool,
    /// The last operation of a pass is reported as exhausting the region, also if the region restarts by itself.
    pub(super) shows_pass: bool,
    /// The region also ends backwards.
    pub(super) stops: bool,
    pub(super) strided: Option<Strided>,
    /// Least bytes of the last operation of the region, which may have fewer than a block; otherwise a whole block.
    pub(super) last_block_min: Option<u32>,
    /// Bytes of the smallest block of all kinds.
    pub(super) smallest: u64,
    pub(super) recipes: Vec<Recipe>,
    pub(super) passes: Passes,
}

#[derive(Debug)]
pub(super) struct Region {
    start: u64,
    bytes: u64,
    seed: u64,
    window: Window,
    /// Bytes transferred in this window; counted for zones only.
    given: u64,
    positions: Vec<u64>,
    shared: Option<Arc<AtomicU64>>,
    places: Vec<Places>,
}

/// The current part of a region, from the region's start: all of it, or a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    from: u64,
    to: u64,
}

impl Region {
    /// `positions` is the number of sequential positions; with `shared`, several workers share one.
    pub(super) fn new(
        file: &FilePlan,
        rules: &SequentialRules,
        positions: usize,
        shared: Option<Arc<AtomicU64>>,
        seed: u64,
    ) -> Self {
        let to = rules.strided.map_or(file.bytes, |strided| strided.range_bytes.min(file.bytes));
        let mut region = Self {
            start: file.offset_bytes,
            bytes: file.bytes,
            seed,
            window: Window { from: 0, to },
            given: 0,
            positions: vec![file.start_bytes; positions],
            shared,
            places: Vec::new(),
        };
        region.places = region.make_places(rules);
        region
    }

    /// End of the region, from the file's start.
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes
    }

    /// Visit order of its places, if the kind visits each place once.
    pub(super) fn order(&self, kind: &Kind) -> Option<&VisitOrder> {
        match &self.places[kind.places] {
            Places::Once(order) => Some(order),
            _ => None,
        }
    }

    /// Start of the window, from the file's start.
    pub(super) fn window_start(&self) -> u64 {
        self.start + self.window.from
    }

    fn make_places(&self, rules: &SequentialRules) -> Vec<Places> {
        let make = |(number, recipe): (usize, &Recipe)| {
            let seed = self.seed ^ (number as u64).rotate_right(8) ^ self.window.from;
            recipe.make(self.window.to - self.window.from, rules.passes, seed)
        };
        rules.recipes.iter().enumerate().map(make).collect()
    }

    /// The next operation, from the file's start; `None` if the region is exhausted.
    #[inline(always)]
    pub(super) fn next(
        &mut self,
        kind: &Kind,
        rules: &SequentialRules,
        jumps: bool,
        rng: &mut Rng,
    ) -> Option<DrawnRange> {
        if let Some(strided) = &rules.strided {
            self.advance_zone(*strided, rules)?;
        }
        let step = if jumps { None } else { self.sequential(kind, rules, rng) };
        let drawn = match step {
            Some(drawn) => DrawnRange { offset: self.start + drawn.offset, ..drawn },
            None if jumps || kind.edge == AtEdge::Jump => {
                let drawn = self.jump(kind, rng);
                if kind.sets_position {
                    self.set_position(drawn, kind, rules, rng);
                }
                DrawnRange { exhausted: drawn.exhausted && rules.shows_pass, ..drawn }
            }
            None => return None,
        };
        self.given += u64::from(drawn.length);
        Some(drawn)
    }

    /// A random operation in the window, from the file's start; `true` means that it exhausts the window.
    #[inline(always)]
    fn jump(&mut self, kind: &Kind, rng: &mut Rng) -> DrawnRange {
        let Window { from, to } = self.window;
        let drawn = self.places[kind.places].draw(&kind.shape, to - from, rng);
        DrawnRange { offset: self.start + from + drawn.offset, ..drawn }
    }

    #[inline(never)]
    fn set_position(&mut self, drawn: DrawnRange, kind: &Kind, rules: &SequentialRules, rng: &mut Rng) {
        let next = rules.after(drawn.offset - self.start, drawn.length, rng);
        let next = u64::try_from(next).unwrap_or(PAST_END);
        match &self.shared {
            None => self.positions[kind.position] = next,
            Some(shared) => shared.store(next, Ordering::Relaxed),
        }
    }

    #[inline(always)]
    fn sequential(&mut self, kind: &Kind, rules: &SequentialRules, rng: &mut Rng) -> Option<DrawnRange> {
        let Some(shared) = &self.shared else {
            let (drawn, next) = self.window.step(self.positions[kind.position], kind, rules, rng)?;
            self.positions[kind.position] = next;
            return Some(drawn);
        };
        self.sequential_shared(shared, kind, rules, rng)
    }

    fn sequential_shared(
        &self,
        shared: &AtomicU64,
        kind: &Kind,
        rules: &SequentialRules,
        rng: &mut Rng,
    ) -> Option<DrawnRange> {
        let mut seen = shared.load(Ordering::Relaxed);
        loop {
            let (drawn, next) = self.window.step(seen, kind, rules, rng)?;
            match shared.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(drawn),
                Err(now) => seen = now,
            }
        }
    }

    /// Moves to the next zone once the bytes of this one are transferred; `None` if that exhausts the region.
    #[inline(never)]
    fn advance_zone(&mut self, strided: Strided, rules: &SequentialRules) -> Option<()> {
        if self.given < strided.zone_bytes {
            return Some(());
        }
        let next = self.window.from.saturating_add(strided.range_bytes).saturating_add(strided.skip_bytes);
        let is_behind = next.saturating_add(rules.smallest) > self.bytes;
        self.enter(if is_behind { 0 } else { next }, rules);
        (!is_behind || !rules.ends).then_some(())
    }

    /// Begins a window.
    fn enter(&mut self, from: u64, rules: &SequentialRules) {
        let old = self.window;
        let range = rules.strided.map_or(self.bytes, |strided| strided.range_bytes);
        self.window = Window { from, to: from.saturating_add(range).min(self.bytes) };
        self.given = 0;
        self.positions.fill(from);
        if self.window.to - from == old.to - old.from {
            self.places.iter_mut().for_each(Places::restart);
        } else {
            self.places = self.make_places(rules);
        }
    }

    /// Begins a new pass, at the region's start.
    pub(super) fn restart(&mut self, rules: &SequentialRules) {
        self.enter(0, rules);
    }
}

impl Window {
    /// A sequential operation at a position, and the next position; `None` if no block fits any more and the window
    /// does not wrap.
    #[inline]
    fn step(self, position: u64, kind: &Kind, rules: &SequentialRules, rng: &mut Rng) -> Option<(DrawnRange, u64)> {
        let last = self.to - rules.last_block_min.map_or(kind.smallest, u64::from);
        let offset = match position {
            _ if position <= last => position,
            _ if kind.edge == AtEdge::Wrap => self.from,
            _ => return None,
        };
        let mut length = kind.shape.lengths.draw(self.to - offset, rng);
        if rules.last_block_min.is_some() {
            length = u64::from(length).min(self.to - offset) as u32;
        }
        let next = rules.after(offset, length, rng);
        let is_before = next < self.from as i64;
        if !is_before && next as u64 <= last {
            return Some((DrawnRange { offset, length, exhausted: false }, next as u64));
        }
        let turns = kind.edge == AtEdge::Wrap || (is_before && kind.edge == AtEdge::End && !rules.stops);
        let next = match (turns, is_before) {
            (true, true) => (self.to as i64).saturating_add(rules.gap).clamp(self.from as i64, last as i64) as u64,
            (true, false) => self.from,
            (false, _) => PAST_END,
        };
        let exhausted = match kind.edge {
            AtEdge::End => !turns,
            AtEdge::Wrap if rules.ends || is_before => false,
            AtEdge::Wrap => rules.shows_pass && (rules.gap == 0 || offset + u64::from(length) == self.to),
            AtEdge::Jump => false,
        };
        Some((DrawnRange { offset, length, exhausted }, next))
    }
}

impl SequentialRules {
    /// Offset of the next sequential operation, inside the window or not.
    #[inline]
    fn after(&self, offset: u64, length: u32, rng: &mut Rng) -> i64 {
        let next = (offset as i64 + i64::from(length)).saturating_add(self.gap);
        if self.spread == 0 { next } else { next.saturating_add(rng.below(self.spread.saturating_add(1)) as i64) }
    }
}
