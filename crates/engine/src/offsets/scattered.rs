//! The fast path for plain random loads.

use super::kinds::{Jump, Kind};
use super::lengths::Lengths;
use super::places::VisitOrder;
use super::region::{Region, SequentialRules};
use crate::engines::request::Address;

/// All operations go to random places of one file, each place once a pass, with blocks of one size.
#[derive(Debug)]
pub(crate) struct Scattered {
    order: VisitOrder,
    start: u64,
    align: u64,
    length: u32,
}

impl Scattered {
    /// `None` if the load has any other feature.
    pub(super) fn new(kinds: &[Kind], rules: &SequentialRules, regions: &[Region]) -> Option<Self> {
        let ([region], [first, ..]) = (regions, kinds) else { return None };
        let &Lengths::Fixed(length) = &first.shape.lengths else { return None };
        let alike = |kind: &Kind| {
            kind.jump == Jump::Always && kind.places == first.places && kind.shape.lengths == first.shape.lengths
        };
        if rules.stops || rules.strided.is_some() || !kinds.iter().all(alike) {
            return None;
        }
        let order = region.order(first)?.clone();
        Some(Self { order, start: region.window_start(), align: first.shape.align, length })
    }

    /// Places that are left of the pass, the next one included.
    #[inline(always)]
    pub(crate) fn left_in_pass(&self) -> u64 {
        self.order.left()
    }

    /// Operations until `bytes` bytes are issued.
    #[inline(always)]
    pub(crate) fn operations_of(&self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.length))
    }

    /// The next address, and `true` if it is the last of the pass.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> (Address, bool) {
        let (place, exhausted) = self.order.next();
        (Address { file: 0, offset: self.start + place * self.align, length: self.length }, exhausted)
    }
}
