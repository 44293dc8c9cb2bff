//! Distribution of the queue depth and of batch sizes, in fio's levels.

use std::collections::BTreeMap;

/// Counts by level.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    /// Operations by the number in flight just after their submission: 1, 2, 4, 8, 16, 32, 64, each up to the next.
    depths: [u64; 7],
    /// Submissions by batch size; see [`batch_level`].
    submits: [u64; 7],
    /// Reaps by batch size.
    completes: [u64; 7],
}

impl Levels {
    /// Counts `count` operations that were sent while `before` were in flight, as many at a time as `batch` returns for those
    /// in flight.
    #[inline]
    pub(crate) fn submitted(&mut self, count: usize, before: usize, batch: impl Fn(usize) -> usize) {
        let after = before + count;
        self.depths[(after.max(1).ilog2() as usize).min(6)] += count as u64;
        let mut in_flight = before;
        while in_flight < after {
            let part = batch(in_flight).min(after - in_flight);
            self.submits[batch_level(part)] += 1;
            in_flight += part;
        }
    }

    /// Counts a reap of `count` completions.
    #[inline]
    pub(crate) fn completed(&mut self, count: usize) {
        self.completes[batch_level(count)] += 1;
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Counts above 0 by the name of the level in results: depths, submits, completes.
    pub(crate) fn named(&self) -> [BTreeMap<String, u64>; 3] {
        [
            named(["1", "2", "4", "8", "16", "32", ">=64"], self.depths),
            named(["0", "4", "8", "16", "32", "64", ">=64"], self.submits),
            named(["0", "4", "8", "16", "32", "64", ">=64"], self.completes),
        ]
    }
}

/// Level of a batch: 0, up to 4, up to 8, 16, 32, 64, more.
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
    fn operations_sent_in_parts_count_by_their_parts() {
        let mut levels = Levels::default();
        levels.submitted(19, 13, |in_flight| if in_flight < 16 { 1 } else { 8 });
        levels.submitted(19, 13, |_| usize::MAX);
        let [depths, submits, completes] = levels.named();
        assert_eq!(depths, BTreeMap::from([("32".into(), 38)]));
        assert_eq!(submits, BTreeMap::from([("8".into(), 2), ("4".into(), 3), ("32".into(), 1)]));
        assert!(completes.is_empty());
    }
}
