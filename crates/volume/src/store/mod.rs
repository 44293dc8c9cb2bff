//! The files. A store knows files, names and attributes; it knows nothing of RPC, connections or limits.
//!
//! Procedures call [`Store`]; threads call [`Upkeep`] between calls. There are two stores, [`memory`] and [`directory`], [`faulty`]
//! injects faults into either, and [`Files`] is any of them.

pub(crate) mod access;
mod arena;
pub(crate) mod budget;
mod contract;
pub(crate) mod directory;
pub(crate) mod faulty;
pub(crate) mod handle;
pub(crate) mod memory;
pub(crate) mod names;
mod operations;
pub(crate) mod times;
pub(crate) mod write_buffer;

use enum_dispatch::enum_dispatch;

use iocurve_meter::Nanos;
use iocurve_wire::nfs3::{cookieverf3, fattr3, nfs_fh3, nfsstat3, sattr3, sattrguard3, stable_how, wcc_data};

use crate::reply::batch::Batch;
use access::Caller;
use budget::Budget;
pub(crate) use contract::{
    Changed, Creation, Entry, FILE_BYTES_MAX, LINKS_MAX, LISTING_BYTES_MAX, Listed, Named, Range, Read, Removal, Space,
    Store, TRANSFER_BYTES_MAX, Upkeep, Written,
};
use directory::DirectoryStore;
use faulty::{FaultStats, FaultyStore};
use memory::MemoryStore;
use write_buffer::WriteBuffer;

/// One of the stores. Calls are dispatched statically, so that a READ costs no virtual call.
#[enum_dispatch(Store, Upkeep)]
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // there are as many as exports, and a box would be one more step to every file
pub(crate) enum Files {
    Memory(MemoryStore),
    Directory(DirectoryStore),
    /// One of the others, with faults.
    Faulty(FaultyStore<Files>),
}

impl Files {
    /// The faults injected so far; `None` if none are.
    pub(crate) fn fault_counts(&self) -> Option<FaultStats> {
        if let Self::Faulty(store) = self { Some(store.counts()) } else { None }
    }

    /// Returns `true` if an exclusive create keeps its verifier in the times of the file.
    pub(crate) fn keeps_verifiers_in_times(&self) -> bool {
        match self {
            Self::Memory(_) => false,
            Self::Directory(_) => true,
            Self::Faulty(store) => store.inner().keeps_verifiers_in_times(),
        }
    }
}

#[cfg(test)]
mod tests;
