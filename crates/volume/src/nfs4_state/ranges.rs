//! Byte-range locks of one file, as POSIX has them: an owner's new lock replaces what it had in the range. Each operation takes
//! logarithmic time, and as much for each range that it replaces.

use std::collections::BTreeMap;

use super::interval_tree::{Interval, IntervalTree, Range};

/// A locked range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Locked {
    pub(super) range: Range,
    pub(super) is_write: bool,
    /// Number of the lock owner's state.
    pub(super) state: u64,
}

/// The locked ranges of a file. Those of one owner do not overlap.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// By the owner's state and the first byte.
    of_owners: BTreeMap<(u64, u64), Held>,
    reads: IntervalTree,
    writes: IntervalTree,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    last: u64,
    is_write: bool,
}

impl Ranges {
    /// The first lock that another owner has and that excludes this one.
    pub(super) fn conflict(&self, range: &Range, is_write: bool, state: Option<u64>) -> Option<Locked> {
        let read = || self.reads.find_other(range, state).map(|found| (found, false));
        let write = self.writes.find_other(range, state).map(|found| (found, true));
        let found = is_write.then(read).flatten().into_iter().chain(write);
        let (first, is_write) = found.min_by_key(|(interval, _)| interval.range.first)?;
        Some(Locked { range: first.range, is_write, state: first.owner })
    }

    /// Locks a range that no other owner excludes.
    pub(super) fn lock(&mut self, mut new: Locked) {
        self.unlock(&new.range, new.state);
        let Range { first, last } = new.range;
        let near = Range { first: first.saturating_sub(1), last: last.saturating_add(1) };
        let touching: Vec<_> = self.overlapping(&near, new.state).collect();
        for held in touching.into_iter().filter(|held| held.is_write == new.is_write) {
            self.remove(held);
            new.range.first = new.range.first.min(held.range.first);
            new.range.last = new.range.last.max(held.range.last);
        }
        self.add(new);
    }

    /// Unlocks what an owner has locked in a range.
    pub(super) fn unlock(&mut self, range: &Range, state: u64) {
        let overlapping: Vec<_> = self.overlapping(range, state).collect();
        for held in overlapping {
            self.remove(held);
            held.range.without(range).for_each(|range| self.add(Locked { range, ..held }));
        }
    }

    /// Unlocks all that an owner has locked.
    pub(super) fn unlock_all(&mut self, state: u64) {
        self.unlock(&Range { first: 0, last: u64::MAX }, state);
    }

    pub(super) fn len(&self) -> usize {
        self.of_owners.len()
    }

    /// The locks of an owner that overlap a range, in order.
    fn overlapping(&self, range: &Range, state: u64) -> impl Iterator<Item = Locked> {
        let Range { first, last } = *range;
        let before = self.of_owners.range((state, 0)..(state, first)).next_back();
        let before = before.filter(|(_, held)| held.last >= first);
        before
            .into_iter()
            .chain(self.of_owners.range((state, first)..=(state, last)))
            .map(|(&(state, first), &Held { last, is_write })| Locked { range: Range { first, last }, is_write, state })
    }

    fn add(&mut self, Locked { range, is_write, state }: Locked) {
        self.of_owners.insert((state, range.first), Held { last: range.last, is_write });
        self.tree(is_write).insert(Interval { range, owner: state });
    }

    fn remove(&mut self, Locked { range, is_write, state }: Locked) {
        self.of_owners.remove(&(state, range.first));
        self.tree(is_write).remove(&Interval { range, owner: state });
    }

    fn tree(&mut self, is_write: bool) -> &mut IntervalTree {
        if is_write { &mut self.writes } else { &mut self.reads }
    }
}

#[cfg(test)]
mod tests {
    use iocurve_wire::nfs4::nfsstat4;
    use proptest::prelude::*;

    use super::*;

    fn locked(first: u64, last: u64, is_write: bool, state: u64) -> Locked {
        Locked { range: Range { first, last }, is_write, state }
    }

    #[test]
    fn lengths_are_those_of_the_protocol() {
        assert_eq!(Range::new(5, 0), Err(nfsstat4::NFS4ERR_INVAL));
        assert_eq!(Range::new(u64::MAX - 3, 5), Err(nfsstat4::NFS4ERR_INVAL));
        assert_eq!(Range::new(u64::MAX - 3, 4).map(|range| range.length()), Ok(u64::MAX));
        assert_eq!(Range::new(5, u64::MAX), Ok(Range { first: 5, last: u64::MAX }));
        assert_eq!(Range::new(5, 7).map(|range| (range.last, range.length())), Ok((11, 7)));
    }

    #[test]
    fn readers_share_and_writers_do_not() {
        let mut ranges = Ranges::default();
        ranges.lock(locked(0, 9, false, 1));
        let conflict = |first, is_write, state| {
            ranges.conflict(&Range { first, last: first + 4 }, is_write, Some(state)).is_some()
        };
        assert_eq!(
            [conflict(5, false, 2), conflict(5, true, 2), conflict(5, true, 1), conflict(10, true, 2)],
            [false, true, false, false]
        );
    }

    proptest! {
        /// Against a table with one entry for each byte and owner.
        #[test]
        fn ranges_are_what_a_table_of_bytes_says(
            steps in proptest::collection::vec((0_u64..24, 1_u64..12, 0_u64..3, 0_u8..3), 1..60)
        ) {
            let mut ranges = Ranges::default();
            let mut table = [[None; 3]; 40];
            for (first, length, state, kind) in steps {
                let range = Range::new(first, length).unwrap();
                let bytes = first as usize..(first + length) as usize;
                let (is_write, own) = (kind == 1, state as usize);
                if kind == 2 {
                    ranges.unlock(&range, state);
                    table[bytes].iter_mut().for_each(|byte| byte[own] = None);
                    continue;
                }
                let excluded = table[bytes.clone()].iter().any(|byte| {
                    (0..3).any(|other| other != own && byte[other].is_some_and(|held: bool| held || is_write))
                });
                prop_assert_eq!(ranges.conflict(&range, is_write, Some(state)).is_some(), excluded);
                if !excluded {
                    ranges.lock(locked(range.first, range.last, is_write, state));
                    table[bytes].iter_mut().for_each(|byte| byte[own] = Some(is_write));
                }
            }
            for state in 0..3 {
                let of_table = table.iter().filter(|byte| byte[state].is_some()).count() as u64;
                let all = Range { first: 0, last: u64::MAX };
                let own = ranges.overlapping(&all, state as u64);
                prop_assert_eq!(own.map(|held| held.range.length()).sum::<u64>(), of_table);
            }
        }
    }
}
