//! The course of a group over time, workers merged. Later intervals are joined, so that it stays small in a long run.

use std::collections::BTreeMap;

use iocurve_meter::Nanos;

use super::Tally;
use crate::outcome::{GroupInterval, IntervalKind};

/// Intervals of a group that are kept singly.
const SINGLY: u64 = 1_024;

/// Length, in intervals, of the record that has interval `index`: 1 for the first `singly`, then 2, 4, 8, ….
///
/// `singly` is taken as a power of two. A record starts at a multiple of its length, so that longer ones consist of
/// whole shorter ones; their number grows with the logarithm of the time.
pub(crate) fn joined(index: u64, singly: u64) -> u64 {
    let blocks = index / singly.next_power_of_two();
    1 << (u64::BITS - blocks.leading_zeros())
}

/// The group intervals of a run.
#[derive(Debug, Default)]
pub(crate) struct Course {
    intervals: Vec<GroupInterval>,
    /// Tallies of the newest record, while more intervals may join it.
    open: BTreeMap<&'static str, Tally>,
}

impl Course {
    /// Adds an interval that all workers of a group have closed; intervals come in order. `operations` are the figures
    /// of `kinds`.
    pub(crate) fn add(
        &mut self,
        group: u32,
        (index, ramp): (u64, bool),
        (start_ns, end_ns): (Nanos, Nanos),
        kinds: &BTreeMap<&'static str, Tally>,
        operations: &BTreeMap<String, IntervalKind>,
    ) {
        let length = joined(index, SINGLY);
        let first = index - index % length;
        let place = (group, first, ramp);
        if self.intervals.last().is_none_or(|last| (last.group, last.index, last.ramp) != place) {
            self.finish();
            let (joined, operations) = (0, BTreeMap::new());
            self.intervals.push(GroupInterval { group, index: first, joined, ramp, start_ns, end_ns, operations });
        }
        if let Some(last) = self.intervals.last_mut() {
            last.joined = last.joined.max((index - first + 1) as u32);
            (last.start_ns, last.end_ns) = (last.start_ns.min(start_ns), last.end_ns.max(end_ns));
            for (name, kind) in operations.iter().filter(|(_, kind)| kind.operations > 0 || kind.errors > 0) {
                last.operations.entry(name.clone()).and_modify(|sum| sum.join(kind)).or_insert(*kind);
            }
        }
        if length > 1 {
            for (name, tally) in kinds {
                self.open.entry(name).and_modify(|sum| sum.add(tally)).or_insert_with(|| tally.clone());
            }
        }
    }

    /// Sets the percentiles of the newest record, which come from its tallies.
    fn finish(&mut self) {
        if let Some(last) = self.intervals.last_mut() {
            for (name, tally) in self.open.iter().filter(|(_, tally)| !tally.is_empty()) {
                last.operations.insert((*name).to_owned(), tally.interval());
            }
        }
        self.open.clear();
    }

    pub(crate) fn take(&mut self) -> Vec<GroupInterval> {
        self.finish();
        std::mem::take(&mut self.intervals)
    }
}

/// The figures of an interval, by kind.
pub(crate) fn figures(kinds: &BTreeMap<&'static str, Tally>) -> BTreeMap<String, IntervalKind> {
    kinds.iter().map(|(name, tally)| ((*name).to_owned(), tally.interval())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::recorder::tests::tally_of;

    #[test]
    fn records_become_longer_and_start_at_multiples_of_their_length() {
        assert_eq!([0, 7, 8, 15, 16, 31, 32, 63, 64].map(|index| joined(index, 8)), [1, 1, 2, 2, 4, 4, 8, 8, 16]);
        assert_eq!(joined(9, 7), 2);
        assert_eq!(joined(3, 1), 4);
    }

    #[test]
    fn a_long_course_is_short_and_has_exact_sums_and_percentiles() {
        let mut course = Course::default();
        let hour = 3_600;
        let made = [2_000, 1_000].map(|latency| {
            let kinds = BTreeMap::from([("read", tally_of(2, 512, latency)), ("write", tally_of(0, 512, 0))]);
            let figures = figures(&kinds);
            (kinds, figures)
        });
        for index in 0..hour {
            let (kinds, figures) = &made[usize::from(index % 4 > 0)];
            course.add(0, (index, false), (index * 10, (index + 1) * 10), kinds, figures);
        }
        let found = course.take();
        // 1,024 singly, 512 of 2 and 388 of 4.
        assert_eq!(found.len(), 1_024 + 512 + 388);
        assert_eq!(found.iter().map(|one| one.operations["read"].operations).sum::<u64>(), 2 * hour);
        assert_eq!(found.iter().map(|one| u64::from(one.joined)).sum::<u64>(), hour);
        assert!(found.iter().all(|one| one.operations.len() == 1 && one.start_ns == one.index * 10));
        assert!(found.windows(2).all(|two| two[0].end_ns == two[1].start_ns));
        let last = &found[found.len() - 1];
        assert_eq!((last.index, last.joined, last.end_ns), (3_596, 4, 36_000));
        let read = last.operations["read"];
        assert_eq!((read.operations, read.bytes), (8, 8 * 512));
        assert_eq!((read.p50_ns, read.p99_ns, read.min_ns, read.max_ns), (Some(1_000), Some(2_000), 1_000, 2_000));
    }
}
