//! The files of one export, in whichever store they are.

use iocurve_meter::Nanos;
use iocurve_wire::nfs3::{cookieverf3, fattr3, nfs_fh3, nfsstat3, sattr3, sattrguard3, stable_how, wcc_data};

use super::access::Caller;
use super::budget::Budget;
use super::directory::DirectoryStore;
use super::faulty::FaultyStore;
use super::memory::MemoryStore;
use super::upkeep::Upkeep;
use super::write_buffer::WriteBuffer;
use super::{Creation, Listing, Read, Space, Store, Written};
use crate::faults::FaultStats;
use crate::reply::batch::Batch;

/// One of the stores. Calls are dispatched statically, so that a READ costs no virtual call.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // there are as many as exports, and a box would be one more step to every file
pub(crate) enum Files {
    Memory(MemoryStore),
    Directory(DirectoryStore),
    /// One of the others, with faults; behind a pointer, because it has another one inside.
    Faulty(Box<FaultyStore<Files>>),
}

/// Calls a method of whichever store it is.
macro_rules! with {
    ($files:expr, $store:ident => $call:expr) => {
        match $files {
            Files::Memory($store) => $call,
            Files::Directory($store) => $call,
            Files::Faulty($store) => $call,
        }
    };
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

impl Store for Files {
    fn root(&self) -> nfs_fh3 {
        with!(self, store => store.root())
    }

    #[inline]
    fn getattr(&self, file: &[u8]) -> Result<fattr3, nfsstat3> {
        with!(self, store => store.getattr(file))
    }

    fn setattr(&self, file: &[u8], new: &sattr3, guard: sattrguard3, wcc: &mut wcc_data) -> Result<(), nfsstat3> {
        with!(self, store => store.setattr(file, new, guard, wcc))
    }

    fn lookup(&self, directory: &[u8], name: &[u8]) -> Result<nfs_fh3, nfsstat3> {
        with!(self, store => store.lookup(directory, name))
    }

    fn readlink(&self, link: &[u8]) -> Result<Vec<u8>, nfsstat3> {
        with!(self, store => store.readlink(link))
    }

    #[inline]
    fn read(&self, caller: &Caller, file: &[u8], offset: u64, count: u32, batch: &mut Batch) -> Result<Read, nfsstat3> {
        with!(self, store => store.read(caller, file, offset, count, batch))
    }

    #[inline]
    fn write(
        &self,
        caller: &Caller,
        file: &[u8],
        offset: u64,
        data: &[u8],
        stable: stable_how,
    ) -> Result<Written, nfsstat3> {
        with!(self, store => store.write(caller, file, offset, data, stable))
    }

    fn begin_write(&self, caller: &Caller, file: &[u8], offset: u64, length: u32) -> Result<WriteBuffer, nfsstat3> {
        with!(self, store => store.begin_write(caller, file, offset, length))
    }

    fn finish_write(&self, buffer: WriteBuffer, stable: stable_how) -> Result<Written, nfsstat3> {
        with!(self, store => store.finish_write(buffer, stable))
    }

    fn commit(&self, file: &[u8]) -> Result<Written, nfsstat3> {
        with!(self, store => store.commit(file))
    }

    fn create(
        &self,
        directory: &[u8],
        name: &[u8],
        what: Creation<'_>,
        caller: Caller,
        wcc: &mut wcc_data,
    ) -> Result<nfs_fh3, nfsstat3> {
        with!(self, store => store.create(directory, name, what, caller, wcc))
    }

    fn remove(&self, directory: &[u8], name: &[u8], wcc: &mut wcc_data) -> Result<(), nfsstat3> {
        with!(self, store => store.remove(directory, name, wcc))
    }

    fn rmdir(&self, directory: &[u8], name: &[u8], wcc: &mut wcc_data) -> Result<(), nfsstat3> {
        with!(self, store => store.rmdir(directory, name, wcc))
    }

    fn rename(
        &self,
        from: (&[u8], &[u8]),
        to: (&[u8], &[u8]),
        wcc: (&mut wcc_data, &mut wcc_data),
    ) -> Result<(), nfsstat3> {
        with!(self, store => store.rename(from, to, wcc))
    }

    fn link(&self, file: &[u8], directory: &[u8], name: &[u8], wcc: &mut wcc_data) -> Result<(), nfsstat3> {
        with!(self, store => store.link(file, directory, name, wcc))
    }

    fn readdir(&self, directory: &[u8], cookie: u64, limit: usize) -> Result<Listing, nfsstat3> {
        with!(self, store => store.readdir(directory, cookie, limit))
    }

    fn cookieverf(&self, directory: &[u8]) -> cookieverf3 {
        with!(self, store => store.cookieverf(directory))
    }

    fn space(&self) -> Space {
        with!(self, store => store.space())
    }

    fn budget(&self) -> &Budget {
        with!(self, store => store.budget())
    }
}

impl Upkeep for Files {
    fn sent_by_reference(&self, data: *const u8, length: usize) {
        with!(self, store => store.sent_by_reference(data, length));
    }

    fn reclaim(&self) -> bool {
        with!(self, store => store.reclaim())
    }

    fn close_idle(&self, now: Nanos) -> Option<Nanos> {
        with!(self, store => store.close_idle(now))
    }

    fn needs_repair(&self) -> bool {
        with!(self, store => store.needs_repair())
    }

    fn repair_huge_page(&self) -> bool {
        with!(self, store => store.repair_huge_page())
    }
}
