//! The slots that nodes live in, found by number without a lock.

use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use iocurve_wire::nfs3::nfsstat3;

use super::node::Node;

/// Most files of any store.
pub(super) const FILES_MAX: u32 = 1 << 26;

/// Slot of the root directory.
pub(super) const ROOT: u32 = 0;

/// The numbers of slots without a node.
#[derive(Debug)]
pub(super) struct FreeSlots {
    /// Number of slots, with and without a node.
    most: u32,
    /// Slots that were used before.
    used: Vec<u32>,
    /// First slot that was never used.
    next: u32,
    /// Slots taken so far; the root's is the first.
    taken: u64,
}

impl FreeSlots {
    /// All slots are free but that of the root.
    pub(super) fn new(most: u32) -> Self {
        Self { most, used: Vec::new(), next: ROOT + 1, taken: 1 }
    }

    /// Takes a slot, and a number that tells its node from all others of the store.
    pub(super) fn take(&mut self) -> Option<(u32, u64)> {
        let slot = self.used.pop().or_else(|| {
            (self.next < self.most).then(|| {
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

/// All slots. They are allocated in segments that never move, so that a slot is found without a lock. Segments are short: to make one
/// takes no longer among a million files than among a thousand.
#[derive(Debug)]
pub(super) struct Slots {
    segments: Box<[OnceLock<Box<[Slot; SEGMENT_SLOTS]>>]>,
}

/// 128 KiB.
const SEGMENT_SLOTS: usize = 1024;

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
    /// Room for at most `most` slots, of which none exists.
    pub(super) fn new(most: u32) -> Self {
        Self { segments: (0..=most as usize / SEGMENT_SLOTS).map(|_| OnceLock::new()).collect() }
    }

    /// Returns a slot if its segment exists.
    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&Slot> {
        let index = index as usize;
        self.segments.get(index / SEGMENT_SLOTS)?.get().map(|segment| &segment[index % SEGMENT_SLOTS])
    }

    /// Returns a slot, and makes its segment if that does not exist.
    pub(super) fn get_or_make(&self, index: u32) -> &Slot {
        let index = index as usize;
        let make = || {
            let slots: Vec<_> = (0..SEGMENT_SLOTS).map(|_| Slot::default()).collect();
            slots.try_into().expect("one for each slot of a segment")
        };
        &self.segments[index / SEGMENT_SLOTS].get_or_init(make)[index % SEGMENT_SLOTS]
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
        let slots = Slots::new(3000);
        assert!(slots.get(0).is_none() && slots.get(u32::MAX).is_none());
        for index in 0..3000 {
            slots.get_or_make(index).write().stamp = index.into();
        }
        assert!((0..3000).all(|index| slots.get(index).unwrap().read().stamp == u64::from(index)));
    }

    #[test]
    fn a_slot_is_two_cache_lines() {
        assert_eq!(size_of::<Slot>(), 128);
    }
}
