//! Opens and locks, and the open files that have them.

use std::collections::BTreeSet;
use std::sync::Arc;

use iocurve_wire::nfs3::nfs_fh3;
use iocurve_wire::nfs4::clientid4;

use super::ranges::Ranges;

/// A file that an open owner has open.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) key: StateKey,
    pub(super) seqid: u32,
    /// Union of the access bits, and of the deny bits.
    pub(super) access: u32,
    pub(super) deny: u32,
    /// Bit `4 * access + deny` for each OPEN: `OPEN_DOWNGRADE` goes back to a union of some of these.
    pub(super) opened: u16,
    /// Numbers of the lock owners' states that were made with it.
    pub(super) locks: BTreeSet<u64>,
}

/// A file in which a lock owner has locks, or had some.
#[derive(Debug)]
pub(super) struct LockState {
    pub(super) key: StateKey,
    pub(super) seqid: u32,
    /// Number of the open that it was made with.
    pub(super) open: u64,
    /// Number of its locked ranges.
    pub(super) ranges: usize,
    /// Its place among the lock owners without locks; 0 if it has some.
    pub(super) idle: u64,
}

/// The key of an open or of a lock owner's state. Open owners and lock owners have separate names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct StateKey {
    pub(super) client: clientid4,
    pub(super) file: nfs_fh3,
    pub(super) is_lock: bool,
    pub(super) owner: Arc<[u8]>,
}

/// An open file: its opens and its locks.
#[derive(Debug, Default)]
pub(super) struct FileState {
    /// Number of opens and lock owners' states.
    pub(super) states: usize,
    /// The opens that read, write, deny reading and deny writing.
    pub(super) shares: [BTreeSet<u64>; 4],
    pub(super) ranges: Ranges,
}

/// An owner may have as many bytes in the room of one state.
const OWNER_BYTES: usize = 128;

impl StateKey {
    /// The states as which it counts: more than one if its owner is long.
    pub(super) fn room(&self) -> usize {
        1 + self.owner.len() / OWNER_BYTES
    }

    pub(super) fn new(client: clientid4, file: &nfs_fh3, is_lock: bool, owner: &[u8]) -> Self {
        Self { client, file: *file, is_lock, owner: owner.into() }
    }
}

impl FileState {
    pub(super) fn states(&self) -> usize {
        self.states
    }

    pub(super) fn ranges(&self) -> usize {
        self.ranges.len()
    }
}
