//! The slots that nodes live in, found by number without a lock.

use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use iocurve_wire::nfs3::nfsstat3;

use super::node::Node;

/// Most files.
pub(super) const FILES_MAX: u32 = 1 << 26;

/// Slot of the root directory.
pub(super) const ROOT: u32 = 0;

/// The numbers of slots without a node.
#[derive(Debug)]
pub(super) struct FreeSlots {
    /// Slots that were used before.
    used: Vec<u32>,
    /// First slot that was never used.
    next: u32,
    /// Slots taken so far; the root's is the first.
    taken: u64,
}

impl FreeSlots {
    /// All slots are free but that of the root.
    pub(super) fn new() -> Self {
        Self { used: Vec::new(), next: ROOT + 1, taken: 1 }
    }

    /// Takes a slot, and a number that tells its node from all others of the store.
    pub(super) fn take(&mut self) -> Option<(u32, u64)> {
        let slot = self.used.pop().or_else(|| {
            (self.next < FILES_MAX).then(|| {
                self.next += 1;
                self.next - 1
            })
        })?;
        self.taken += 1;
        Some((slot, self.taken))
    }

    /// Number of slots with a node.
    pub(super) fn nodes(&self) -> u64 {
        u64::from(self.next) - self.used.len() as u64
    }

    pub(super) fn give_back(&mut self, index: u32) {
        self.used.push(index);
    }
}

/// All slots. They are allocated in segments that double in size and never move, so that a slot is found without a lock.
#[derive(Debug, Default)]
pub(super) struct Slots {
    segments: [OnceLock<Box<[Slot]>>; 20],
}

/// Slots of the first segment.
const FIRST_SEGMENT: u32 = 128;

/// A place for one node.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Slot(RwLock<Held>);

#[derive(Debug, Default)]
pub(super) struct Held {
    /// The part of the node's handle that no other node has and no client can guess.
    pub(super) stamp: u64,
    pub(super) node: Option<Node>,
}

impl Slots {
    /// Returns a slot if its segment exists.
    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&Slot> {
        let (segment, offset) = Self::place(index)?;
        self.segments.get(segment)?.get()?.get(offset)
    }

    /// Returns a slot, and makes its segment if that does not exist.
    pub(super) fn get_or_make(&self, index: u32) -> &Slot {
        let (segment, offset) = Self::place(index).expect("fewer files than slots");
        let make = || (0..FIRST_SEGMENT << segment).map(|_| Slot::default()).collect();
        &self.segments[segment].get_or_init(make)[offset]
    }

    /// Segment and offset: segment n starts at (2ⁿ − 1) × the first one's length.
    #[inline]
    fn place(index: u32) -> Option<(usize, usize)> {
        let shifted = index.checked_add(FIRST_SEGMENT)?;
        let segment = shifted.ilog2() - FIRST_SEGMENT.ilog2();
        Some((segment as usize, (shifted - (FIRST_SEGMENT << segment)) as usize))
    }
}

impl Slot {
    #[inline]
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Held> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Held> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Returns the node if it is the one that the handle was made for.
    #[inline]
    pub(super) fn expect(&self, stamp: u64) -> Result<&Node, nfsstat3> {
        self.node.as_ref().filter(|_| self.stamp == stamp).ok_or(nfsstat3::NFS3ERR_STALE)
    }

    /// As [`expect`](Self::expect).
    pub(super) fn expect_mut(&mut self, stamp: u64) -> Result<&mut Node, nfsstat3> {
        self.node.as_mut().filter(|_| self.stamp == stamp).ok_or(nfsstat3::NFS3ERR_STALE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_never_overlap() {
        let places: Vec<_> = (0..1000).map(|index| Slots::place(index).unwrap()).collect();
        assert_eq!(places[0], (0, 0));
        assert_eq!(places[127], (0, 127));
        assert_eq!(places[128], (1, 0));
        assert_eq!(places[383], (1, 255));
        assert_eq!(places[384], (2, 0));
        assert!(Slots::place(u32::MAX).is_none());
    }

    #[test]
    fn a_slot_is_two_cache_lines() {
        assert_eq!(size_of::<Slot>(), 128);
    }
}
