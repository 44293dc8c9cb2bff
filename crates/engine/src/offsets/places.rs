//! Random places in a window of a region.

use iocurve_meter::Rng;

use super::bitmap::Bitmap;
use super::lengths::Lengths;
use super::preference::Preference;
use crate::permutation::Permutation;
use crate::plan::{Distribution, Passes};

/// Sizes and alignment of the random operations of one kind.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) lengths: Lengths,
    pub(super) align: u64,
}

impl Shape {
    /// Number of places in a window: offsets at which the smallest block fits. If places are further apart than that,
    /// only whole distances count, as in fio. At least one.
    pub(super) fn places(&self, window_bytes: u64) -> u64 {
        let smallest = self.lengths.smallest();
        let places = match window_bytes.checked_sub(smallest) {
            Some(rest) if self.align < smallest => rest / self.align + 1,
            _ => window_bytes / self.align,
        };
        places.max(1)
    }
}

/// A range in a window; `true` means that it exhausts the window.
#[derive(Debug, Clone, Copy)]
pub(super) struct DrawnRange {
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) exhausted: bool,
}

/// Random places of a window, and the set of visited ones. Kinds that visit every place once share one set.
#[derive(Debug)]
pub(super) enum Places {
    /// Every place once, if operations cannot overlap.
    Once(VisitOrder),
    /// Every byte once, if operations of several sizes could overlap: fio's random map.
    Map(Box<Map>),
    /// Independent draws, all places equally likely.
    Independent { places: u64 },
    /// Independent draws from a distribution; it has no random map, as in fio.
    Preferred(Box<Preference>),
}

impl Places {
    pub(super) fn drawn(distribution: &Distribution, shape: &Shape, window_bytes: u64, seed: u64) -> Self {
        let places = shape.places(window_bytes);
        Preference::new(distribution, places, shape.align, seed)
            .map_or(Self::Independent { places }, |preference| Self::Preferred(Box::new(preference)))
    }

    /// Draws the next operation in a window of `window_bytes`.
    #[inline(always)]
    pub(super) fn draw(&mut self, shape: &Shape, window_bytes: u64, rng: &mut Rng) -> DrawnRange {
        let (place, exhausted) = match self {
            Self::Once(order) => order.next(),
            Self::Independent { places } => (rng.below(*places), false),
            Self::Preferred(preference) => (preference.draw(rng), false),
            Self::Map(map) => return map.draw(shape, window_bytes),
        };
        let offset = place * shape.align;
        DrawnRange { offset, length: shape.lengths.draw(window_bytes - offset, rng), exhausted }
    }

    /// Abandons an unfinished pass, and begins a new one.
    pub(super) fn restart(&mut self) {
        match self {
            Self::Once(order) => order.restart(),
            Self::Map(map) => map.restart(),
            Self::Independent { .. } | Self::Preferred(_) => {}
        }
    }
}

/// Every place once per pass, by a bijection: no memory, however large the region.
#[derive(Debug, Clone)]
pub(super) struct VisitOrder {
    permutation: Permutation,
    index: u64,
    places: u64,
    pass: Pass,
}

impl VisitOrder {
    pub(super) fn new(places: u64, passes: Passes, seed: u64) -> Self {
        Self { permutation: Permutation::new(places, seed), index: 0, places, pass: Pass { seed, number: 0, passes } }
    }

    /// The next place, and `true` if it is the last of the pass; after that, the next pass begins.
    #[inline(always)]
    pub(super) fn next(&mut self) -> (u64, bool) {
        let place = self.permutation.at(self.index);
        self.index += 1;
        if self.index < self.places {
            return (place, false);
        }
        self.begin();
        (place, true)
    }

    #[inline(always)]
    pub(super) fn left(&self) -> u64 {
        self.places - self.index
    }

    fn restart(&mut self) {
        if self.index > 0 {
            self.begin();
        }
    }

    #[cold]
    fn begin(&mut self) {
        self.index = 0;
        if let Some(seed) = self.pass.next() {
            self.permutation = Permutation::new(self.places, seed);
        }
    }
}

/// The current pass over a region.
#[derive(Debug, Clone)]
struct Pass {
    seed: u64,
    number: u64,
    passes: Passes,
}

impl Pass {
    /// Seed of the next pass; `None` if it repeats this one.
    fn next(&mut self) -> Option<u64> {
        (self.passes == Passes::Fresh).then(|| {
            self.number += 1;
            self.seed ^ Rng::new(self.number).next_u64()
        })
    }
}

/// Every byte once per pass, in units that all offsets and sizes are multiples of (a smaller block takes a whole unit).
/// If the drawn place was visited, the next free unit is taken instead. The operation ends before the next visited
/// unit, shortened if need be. This is fio's random map, with fio's bias: places behind long visited stretches are more
/// likely.
#[derive(Debug)]
pub(super) struct Map {
    visited: Bitmap,
    unit: u64,
    rng: Rng,
    pass: Pass,
}

impl Map {
    pub(super) fn new(units: u64, unit: u64, passes: Passes, seed: u64) -> Self {
        Self { visited: Bitmap::new(units), unit, rng: Rng::new(seed), pass: Pass { seed, number: 0, passes } }
    }

    #[inline(never)]
    fn draw(&mut self, shape: &Shape, window_bytes: u64) -> DrawnRange {
        // Cleared only now, because the previous pass may have been the last.
        if self.visited.free() == 0 {
            self.clear();
        }
        let drawn = self.rng.below(shape.places(window_bytes)) * shape.align / self.unit;
        let unit = self.visited.next_free(drawn).expect("a unit is free");
        let offset = unit * self.unit;
        let length = u64::from(shape.lengths.draw(window_bytes - offset, &mut self.rng));
        let free = self.visited.visit(unit, length.div_ceil(self.unit)) * self.unit;
        DrawnRange { offset, length: length.min(free) as u32, exhausted: self.visited.free() == 0 }
    }

    fn restart(&mut self) {
        if self.visited.free() > 0 {
            self.clear();
        }
    }

    fn clear(&mut self) {
        self.visited.clear();
        let seed = self.pass.next().unwrap_or(self.pass.seed);
        self.rng = Rng::new(seed);
    }
}
