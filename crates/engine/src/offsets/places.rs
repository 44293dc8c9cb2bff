//! Random places in a window of a region.

use super::bitmap::Bitmap;
use super::lengths::Lengths;
use super::preference::Preference;
use crate::chance::{Permutation, Rng};
use crate::plan::{Distribution, Passes};

/// How the random operations of one kind lie: their sizes, and what their offsets are multiples of.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) lengths: Lengths,
    pub(super) align: u64,
}

impl Shape {
    /// Places in a window: those where the smallest block fits; where places are further apart than that, whole
    /// distances, as fio counts. At least one.
    pub(super) fn places(&self, window_bytes: u64) -> u64 {
        let smallest = self.lengths.smallest();
        let places = match window_bytes.checked_sub(smallest) {
            Some(rest) if self.align < smallest => rest / self.align + 1,
            _ => window_bytes / self.align,
        };
        places.max(1)
    }
}

/// An offset in a window, and whether the window was gone through with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot {
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) through: bool,
}

/// What has been visited, and where chance goes next. Kinds that cover a region once share one.
#[derive(Debug)]
pub(super) enum Places {
    /// Every place once, where operations cannot touch one another.
    Once(VisitOrder),
    /// Every byte once, where operations of several sizes could overlap: fio's random map.
    Map(Box<Map>),
    /// Each draw by itself, all places alike.
    Independent { places: u64 },
    /// Each draw by itself. A distribution knows no random map, as in fio.
    Preferred(Box<Preference>),
}

impl Places {
    /// Independent draws.
    pub(super) fn drawn(distribution: &Distribution, shape: &Shape, window_bytes: u64, seed: u64) -> Self {
        let places = shape.places(window_bytes);
        Preference::new(distribution, places, shape.align, seed)
            .map_or(Self::Independent { places }, |preference| Self::Preferred(Box::new(preference)))
    }

    /// The next operation in a window of `window_bytes`.
    #[inline(always)]
    pub(super) fn draw(&mut self, shape: &Shape, window_bytes: u64, rng: &mut Rng) -> Spot {
        let (place, through) = match self {
            Self::Once(order) => order.next(),
            Self::Independent { places } => (rng.below(*places), false),
            Self::Preferred(preference) => (preference.draw(rng), false),
            Self::Map(map) => return map.draw(shape, window_bytes),
        };
        let offset = place * shape.align;
        Spot { offset, length: shape.lengths.draw(window_bytes - offset, rng), through }
    }

    /// A pass that was not finished is left, and a new one begins.
    pub(super) fn begin_again(&mut self) {
        match self {
            Self::Once(order) => order.begin_again(),
            Self::Map(map) => map.begin_again(),
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

    /// The next place, and whether it is the last of the pass; after that, the next pass begins.
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

    fn begin_again(&mut self) {
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

/// Which pass over a region this is.
#[derive(Debug, Clone)]
struct Pass {
    seed: u64,
    number: u64,
    passes: Passes,
}

impl Pass {
    /// The seed of the next one; `None` if it is the same again.
    fn next(&mut self) -> Option<u64> {
        (self.passes == Passes::Fresh).then(|| {
            self.number += 1;
            self.seed ^ Rng::new(self.number).next_u64()
        })
    }
}

/// Every byte once per pass, in units of what all offsets and sizes are multiples of (if they are; what is smaller than
/// a unit takes all of it). A place is drawn; if it was visited, the next free unit is taken instead; the operation ends
/// before what was visited, shortened if need be. That is how fio's random map works, and so it has fio's bias: places
/// behind long visited stretches are more likely.
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
    fn draw(&mut self, shape: &Shape, window_bytes: u64) -> Spot {
        // Cleared only now: the pass may have been the last.
        if self.visited.free() == 0 {
            self.clear();
        }
        let drawn = self.rng.below(shape.places(window_bytes)) * shape.align / self.unit;
        let unit = self.visited.next_free(drawn).expect("a unit is free");
        let offset = unit * self.unit;
        let length = u64::from(shape.lengths.draw(window_bytes - offset, &mut self.rng));
        let free = self.visited.visit(unit, length.div_ceil(self.unit)) * self.unit;
        Spot { offset, length: length.min(free) as u32, through: self.visited.free() == 0 }
    }

    fn begin_again(&mut self) {
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
