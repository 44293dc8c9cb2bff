//! How many operations were in flight, handed over and fetched at once.

use std::collections::BTreeMap;

/// Counts by how many there were, in fio's levels.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    /// Operations by how many were in flight once they were handed over: 1, 2, 4, 8, 16, 32, 64, each standing for all up to
    /// the next.
    depths: [u64; 7],
    /// Times that operations were handed over: by how many at once; see [`batch_level`].
    submits: [u64; 7],
    /// Times that completions were fetched, likewise.
    completes: [u64; 7],
}

impl Levels {
    /// `count` operations, at least one, were handed over, `at_once` at a time, and `in_flight` are now.
    #[inline]
    pub(crate) fn submitted(&mut self, count: usize, at_once: usize, in_flight: usize) {
        self.depths[(in_flight.max(1).ilog2() as usize).min(6)] += count as u64;
        let (full, rest) = (count / at_once, count % at_once);
        if full > 0 {
            self.submits[batch_level(at_once)] += full as u64;
        }
        if rest > 0 {
            self.submits[batch_level(rest)] += 1;
        }
    }

    /// So many completions were fetched at once.
    #[inline]
    pub(crate) fn completed(&mut self, count: usize) {
        self.completes[batch_level(count)] += 1;
    }

    /// Nothing was counted yet.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Counts above 0 by the level's name in results: depths, submits, completes.
    pub(crate) fn named(&self) -> [BTreeMap<String, u64>; 3] {
        [
            named(["1", "2", "4", "8", "16", "32", ">=64"], self.depths),
            named(["0", "4", "8", "16", "32", "64", ">=64"], self.submits),
            named(["0", "4", "8", "16", "32", "64", ">=64"], self.completes),
        ]
    }
}

/// None, up to 4, up to 8, 16, 32, 64, more.
#[inline]
fn batch_level(count: usize) -> usize {
    if count == 0 { 0 } else { (((count - 1) | 3).ilog2() as usize).min(6) }
}

fn named(names: [&str; 7], counts: [u64; 7]) -> BTreeMap<String, u64> {
    names.into_iter().zip(counts).filter(|(_, count)| *count > 0).map(|(name, count)| (name.into(), count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_belongs_to_the_first_level_that_holds_it() {
        let levels = [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2), (9, 3), (16, 3), (17, 4), (33, 5), (64, 5), (65, 6)];
        for (count, level) in levels {
            assert_eq!(batch_level(count), level, "{count}");
        }
        assert_eq!(batch_level(usize::MAX), 6);
    }

    #[test]
    fn what_is_handed_over_in_parts_counts_by_its_parts() {
        let mut levels = Levels::default();
        levels.submitted(19, 8, 32);
        levels.submitted(19, usize::MAX, 32);
        let [depths, submits, completes] = levels.named();
        assert_eq!(depths, BTreeMap::from([("32".into(), 38)]));
        assert_eq!(submits, BTreeMap::from([("8".into(), 2), ("4".into(), 1), ("32".into(), 1)]));
        assert!(completes.is_empty());
    }
}
