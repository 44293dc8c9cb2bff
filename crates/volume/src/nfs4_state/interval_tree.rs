//! Ranges by their first byte, each with an owner: finds one of another owner that overlaps a range, in logarithmic time.
//!
//! A treap (Seidel and Aragon, Algorithmica 1996): a search tree by key and a heap by random priority, so that its depth is
//! logarithmic in whatever order clients lock. A node notes how far its subtree reaches, for the two owners that reach farthest:
//! one of them is not the owner that asks.

use std::hash::{BuildHasher, RandomState};

use iocurve_wire::nfs4::nfsstat4;

/// A range of bytes; `last` is the last of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Range {
    /// The range that offset and length of the protocol mean; the length may be "to the end".
    pub(crate) fn new(offset: u64, length: u64) -> Result<Self, nfsstat4> {
        let last = match length {
            0 => None,
            u64::MAX => Some(u64::MAX),
            length => offset.checked_add(length - 1),
        };
        last.map(|last| Self { first: offset, last }).ok_or(nfsstat4::NFS4ERR_INVAL)
    }

    /// Its length, as the protocol writes it.
    pub(crate) fn length(&self) -> u64 {
        if self.last == u64::MAX { u64::MAX } else { self.last - self.first + 1 }
    }

    /// The parts of this range that are outside another.
    pub(super) fn without(&self, other: &Self) -> impl Iterator<Item = Self> + use<> {
        let before =
            (self.first < other.first).then(|| Self { first: self.first, last: self.last.min(other.first - 1) });
        let after = (self.last > other.last).then(|| Self { first: self.first.max(other.last + 1), last: self.last });
        before.into_iter().chain(after)
    }
}

/// A range and the number of its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) range: Range,
    pub(super) owner: u64,
}

/// Intervals, of which no two of one owner have the same first byte.
#[derive(Debug, Default)]
pub(super) struct IntervalTree {
    root: Link,
    /// Makes priorities that no client can foresee.
    priorities: RandomState,
}

type Link = Option<Box<Node>>;

/// First byte and owner.
type Key = (u64, u64);

#[derive(Debug)]
struct Node {
    interval: Interval,
    priority: u64,
    reach: Reach,
    left: Link,
    right: Link,
}

/// Last byte and owner of the interval that reaches farthest, and of the farthest of another owner.
#[derive(Debug, Clone, Copy, Default)]
struct Reach([Option<(u64, u64)>; 2]);

impl Interval {
    fn key(&self) -> Key {
        (self.range.first, self.owner)
    }
}

impl Reach {
    fn add(&mut self, new: (u64, u64)) {
        let [first, second] = &mut self.0;
        match first {
            Some(farthest) if farthest.1 == new.1 => farthest.0 = farthest.0.max(new.0),
            Some(farthest) if farthest.0 >= new.0 => *second = (*second).max(Some(new)),
            _ => *second = first.replace(new),
        }
    }

    /// The farthest byte of another owner than this one.
    fn of_another(&self, owner: Option<u64>) -> Option<u64> {
        self.0.iter().flatten().find(|(_, other)| Some(*other) != owner).map(|(last, _)| *last)
    }
}

impl Node {
    /// Recomputes how far its subtree reaches.
    fn update(&mut self) {
        let mut reach = Reach::default();
        reach.add((self.interval.range.last, self.interval.owner));
        let children = [&self.left, &self.right].into_iter().flatten();
        children.flat_map(|child| child.reach.0).flatten().for_each(|far| reach.add(far));
        self.reach = reach;
    }
}

impl IntervalTree {
    pub(super) fn insert(&mut self, interval: Interval) {
        let priority = self.priorities.hash_one(interval.key());
        let mut node = Node { interval, priority, reach: Reach::default(), left: None, right: None };
        node.update();
        let (before, after) = split(self.root.take(), interval.key());
        self.root = merge(merge(before, Some(Box::new(node))), after);
    }

    pub(super) fn remove(&mut self, interval: &Interval) {
        let (first, owner) = interval.key();
        let (before, rest) = split(self.root.take(), (first, owner));
        let (_, after) = split(rest, (first, owner + 1));
        self.root = merge(before, after);
    }

    /// The first interval of another owner that overlaps a range.
    pub(super) fn find_other(&self, range: &Range, owner: Option<u64>) -> Option<Interval> {
        find_other(&self.root, range, owner)
    }
}

/// Parts a tree into the nodes before a key, and the others.
fn split(link: Link, key: Key) -> (Link, Link) {
    let Some(mut node) = link else { return (None, None) };
    if node.interval.key() < key {
        let (before, after) = split(node.right.take(), key);
        node.right = before;
        node.update();
        (Some(node), after)
    } else {
        let (before, after) = split(node.left.take(), key);
        node.left = after;
        node.update();
        (before, Some(node))
    }
}

/// Joins two trees, of which one is before the other.
fn merge(before: Link, after: Link) -> Link {
    match (before, after) {
        (Some(mut before), Some(mut after)) => Some(if before.priority > after.priority {
            before.right = merge(before.right.take(), Some(after));
            before.update();
            before
        } else {
            after.left = merge(Some(before), after.left.take());
            after.update();
            after
        }),
        (before, after) => before.or(after),
    }
}

/// Searches no subtree twice: one that reaches far enough has what is sought, unless it extends beyond the range; then so does
/// everything after it.
fn find_other(link: &Link, range: &Range, owner: Option<u64>) -> Option<Interval> {
    let node = link.as_deref()?;
    node.reach.of_another(owner).filter(|last| *last >= range.first)?;
    let Interval { range: own, owner: of } = node.interval;
    find_other(&node.left, range, owner).or_else(|| match () {
        () if own.first > range.last => None,
        () if Some(of) != owner && own.last >= range.first => Some(node.interval),
        () => find_other(&node.right, range, owner),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(link: &Link) -> usize {
        link.as_ref().map_or(0, |node| 1 + depth(&node.left).max(depth(&node.right)))
    }

    #[test]
    fn the_tree_is_shallow_however_it_was_made() {
        let mut tree = IntervalTree::default();
        let interval = |number: u64| Interval { range: Range { first: 2 * number, last: 2 * number }, owner: 7 };
        (0..1 << 14).for_each(|number| tree.insert(interval(number)));
        // 14 would be perfect. A random tree of 16,384 nodes is deeper than 60 once in far more than 10⁹ trees.
        assert!(depth(&tree.root) <= 60, "{}", depth(&tree.root));
        let all = Range { first: 0, last: u64::MAX };
        assert_eq!(tree.find_other(&all, Some(7)), None);
        assert_eq!(tree.find_other(&Range { first: 11, last: 14 }, Some(8)), Some(interval(6)));
        (0..1 << 14).filter(|number| number % 1024 != 5).for_each(|number| tree.remove(&interval(number)));
        assert_eq!(tree.find_other(&Range { first: 11, last: u64::MAX }, None), Some(interval(1029)));
        assert!(depth(&tree.root) <= 16);
    }
}
