//! One file's region: sequential positions, random places, zones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::kinds::{AtEdge, Kind, Recipe};
use super::places::{Places, Spot, VisitOrder};
use crate::chance::Rng;
use crate::plan::{FilePlan, Passes, Strided};

/// A position behind the end of every region.
const BEHIND: u64 = u64::MAX;

/// Rules of sequential operations, the same for all files of a worker.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) gap: i64,
    pub(super) spread: u64,
    /// An exhausted region waits until all are exhausted; otherwise it restarts by itself.
    pub(super) ends: bool,
    /// The region also ends backwards.
    pub(super) stops: bool,
    pub(super) strided: Option<Strided>,
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
        walk: &Walk,
        positions: usize,
        shared: Option<Arc<AtomicU64>>,
        seed: u64,
    ) -> Self {
        let to = walk.strided.map_or(file.bytes, |strided| strided.range_bytes.min(file.bytes));
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
        region.places = region.make_places(walk);
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

    fn make_places(&self, walk: &Walk) -> Vec<Places> {
        let make = |(number, recipe): (usize, &Recipe)| {
            let seed = self.seed ^ (number as u64).rotate_right(8) ^ self.window.from;
            recipe.make(self.window.to - self.window.from, walk.passes, seed)
        };
        walk.recipes.iter().enumerate().map(make).collect()
    }

    /// The next operation, from the file's start; `None` if the region is exhausted.
    #[inline(always)]
    pub(super) fn next(&mut self, kind: &Kind, walk: &Walk, jumps: bool, rng: &mut Rng) -> Option<Spot> {
        if let Some(strided) = &walk.strided {
            self.advance_zone(*strided, walk)?;
        }
        let step = if jumps { None } else { self.walk_on(kind, walk, rng) };
        let spot = match step {
            Some(spot) => Spot { offset: self.start + spot.offset, ..spot },
            None if jumps || kind.edge == AtEdge::Jump => {
                let spot = self.jump(kind, rng);
                if kind.sets_position {
                    self.set_position(spot, kind, walk, rng);
                }
                Spot { exhausted: spot.exhausted && walk.ends && walk.strided.is_none(), ..spot }
            }
            None => return None,
        };
        self.given += u64::from(spot.length);
        Some(spot)
    }

    /// A random operation in the window, from the file's start; `true` means that it exhausts the window.
    #[inline(always)]
    fn jump(&mut self, kind: &Kind, rng: &mut Rng) -> Spot {
        let Window { from, to } = self.window;
        let drawn = self.places[kind.places].draw(&kind.shape, to - from, rng);
        Spot { offset: self.start + from + drawn.offset, ..drawn }
    }

    #[inline(never)]
    fn set_position(&mut self, spot: Spot, kind: &Kind, walk: &Walk, rng: &mut Rng) {
        let next = walk.after(spot.offset - self.start, spot.length, rng);
        let next = u64::try_from(next).unwrap_or(BEHIND);
        match &self.shared {
            None => self.positions[kind.position] = next,
            Some(shared) => shared.store(next, Ordering::Relaxed),
        }
    }

    #[inline(always)]
    fn walk_on(&mut self, kind: &Kind, walk: &Walk, rng: &mut Rng) -> Option<Spot> {
        let Some(shared) = &self.shared else {
            let (spot, next) = self.window.step(self.positions[kind.position], kind, walk, rng)?;
            self.positions[kind.position] = next;
            return Some(spot);
        };
        self.walk_shared(shared, kind, walk, rng)
    }

    fn walk_shared(&self, shared: &AtomicU64, kind: &Kind, walk: &Walk, rng: &mut Rng) -> Option<Spot> {
        let mut seen = shared.load(Ordering::Relaxed);
        loop {
            let (spot, next) = self.window.step(seen, kind, walk, rng)?;
            match shared.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(spot),
                Err(now) => seen = now,
            }
        }
    }

    /// Moves to the next zone once the bytes of this one are transferred; `None` if that exhausts the region.
    #[inline(never)]
    fn advance_zone(&mut self, strided: Strided, walk: &Walk) -> Option<()> {
        if self.given < strided.zone_bytes {
            return Some(());
        }
        let next = self.window.from.saturating_add(strided.range_bytes).saturating_add(strided.skip_bytes);
        let is_behind = next.saturating_add(walk.smallest) > self.bytes;
        self.enter(if is_behind { 0 } else { next }, walk);
        (!is_behind || !walk.ends).then_some(())
    }

    /// Begins a window.
    fn enter(&mut self, from: u64, walk: &Walk) {
        let old = self.window;
        let range = walk.strided.map_or(self.bytes, |strided| strided.range_bytes);
        self.window = Window { from, to: from.saturating_add(range).min(self.bytes) };
        self.given = 0;
        self.positions.fill(from);
        if self.window.to - from == old.to - old.from {
            self.places.iter_mut().for_each(Places::restart);
        } else {
            self.places = self.make_places(walk);
        }
    }

    /// Begins a new pass, at the region's start.
    pub(super) fn restart(&mut self, walk: &Walk) {
        self.enter(0, walk);
    }
}

impl Window {
    /// A sequential operation at a position, and the next position; `None` if no block fits any more and the window
    /// does not wrap.
    #[inline]
    fn step(self, position: u64, kind: &Kind, walk: &Walk, rng: &mut Rng) -> Option<(Spot, u64)> {
        let last = self.to - kind.smallest;
        let offset = match position {
            _ if position <= last => position,
            _ if kind.edge == AtEdge::Wrap => self.from,
            _ => return None,
        };
        let length = kind.shape.lengths.draw(self.to - offset, rng);
        let next = walk.after(offset, length, rng);
        let is_before = next < self.from as i64;
        if !is_before && next as u64 <= last {
            return Some((Spot { offset, length, exhausted: false }, next as u64));
        }
        let turns = kind.edge == AtEdge::Wrap || (is_before && kind.edge == AtEdge::End && !walk.stops);
        let next = match (turns, is_before) {
            (true, true) => (self.to as i64).saturating_add(walk.gap).clamp(self.from as i64, last as i64) as u64,
            (true, false) => self.from,
            (false, _) => BEHIND,
        };
        Some((Spot { offset, length, exhausted: !turns && kind.edge == AtEdge::End }, next))
    }
}

impl Walk {
    /// Offset of the next sequential operation, inside the window or not.
    #[inline]
    fn after(&self, offset: u64, length: u32, rng: &mut Rng) -> i64 {
        let next = (offset as i64 + i64::from(length)).saturating_add(self.gap);
        if self.spread == 0 { next } else { next.saturating_add(rng.below(self.spread.saturating_add(1)) as i64) }
    }
}
