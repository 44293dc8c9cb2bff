//! How many operations were in flight.

use std::collections::BTreeMap;

/// Operations by how many were in flight once they were handed over: 1, 2, 4, 8, 16, 32, 64, each standing for all up to the next.
#[derive(Debug, Default)]
pub(super) struct DepthLevels([u64; 7]);

impl DepthLevels {
    /// `submitted` operations were handed over and `in_flight` are now.
    #[inline]
    pub(super) fn record(&mut self, submitted: usize, in_flight: usize) {
        self.0[(in_flight.max(1).ilog2() as usize).min(6)] += submitted as u64;
    }

    /// Counts above 0 by the level's name in results.
    pub(super) fn named(&self) -> BTreeMap<String, u64> {
        let names = ["1", "2", "4", "8", "16", "32", ">=64"];
        names.iter().zip(self.0).filter(|(_, count)| *count > 0).map(|(name, count)| ((*name).into(), count)).collect()
    }
}
