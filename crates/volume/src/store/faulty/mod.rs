//! A store that injects faults into the READs and WRITEs of another, and into names and attributes ([`Faults`]). A volume without faults has none.
//!
//! Operations on one file come one after the other, so that the same operations in the same order are hit again.

mod chances;
mod faults;
mod log;
mod sectors;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use iocurve_meter::Nanos;
use iocurve_wire::nfs3::{cookieverf3, fattr3, nfs_fh3, nfsstat3, sattr3, sattrguard3, stable_how, wcc_data};

use super::access::Caller;
use super::budget::Budget;
use super::contract::{Changed, Creation, Entry, Listed, Named, Range, Read, Removal, Space, Store, Upkeep, Written};
use super::write_buffer::{Piece, WriteBuffer};
use crate::reply::batch::Batch;
use chances::Chances;
pub use faults::{FaultKind, FaultRate, FaultRecord, FaultStats, Faults};
pub(crate) use log::FaultLog;
use log::Injected;
use sectors::{SECTOR_BYTES, Sectors};

/// Reads and writes for this store itself, after the client's own rights were checked.
const OWN: Caller = Caller::new(0, 0);

/// A store with faults.
#[derive(Debug)]
pub(crate) struct FaultyStore<S> {
    /// Behind a pointer, because a store with faults is one of the [`Files`](super::Files) that it has inside.
    inner: Box<S>,
    export: String,
    faults: Faults,
    injected: Injected,
    files: Mutex<HashMap<Vec<u8>, Arc<Mutex<FaultyFile>>>>,
    /// Paths below the export, as clients have looked them up.
    paths: Mutex<HashMap<Vec<u8>, String>>,
    older_bytes: Option<Arc<AtomicUsize>>,
}

/// State of one file.
#[derive(Debug)]
struct FaultyFile {
    path: String,
    chances: Chances,
    sectors: Sectors,
    /// Attributes before the newest WRITE that made the file longer.
    older: Option<fattr3>,
}

/// A WRITE of which not everything, or nothing, is stored where it belongs.
#[derive(Debug, Clone, Copy)]
enum Spoiled {
    /// Only this number of bytes is stored.
    Torn(u64),
    Lost,
    /// It is stored at this offset.
    Misdirected(u64),
}

/// A WRITE, as the store that is to carry it out gets it.
struct WriteArgs<'a> {
    caller: &'a Caller,
    file: &'a [u8],
    offset: u64,
    data: &'a [u8],
    stable: stable_how,
}

impl<S: Store> FaultyStore<S> {
    pub(crate) fn new(inner: S, export: String, faults: Faults, log: Option<FaultLog>) -> Self {
        let is_stale = faults.rates.iter().any(|rate| rate.kind == FaultKind::StaleRead);
        let paths = HashMap::from([(inner.root().as_bytes().to_vec(), String::new())]);
        Self {
            inner: Box::new(inner),
            export,
            faults,
            injected: Injected::new(log),
            files: Mutex::default(),
            paths: Mutex::new(paths),
            older_bytes: is_stale.then(Arc::default),
        }
    }

    /// The store behind the faults.
    pub(crate) fn inner(&self) -> &S {
        &self.inner
    }

    /// The faults injected so far.
    pub(crate) fn counts(&self) -> FaultStats {
        self.injected.counts()
    }

    /// State of a file, from its first READ or WRITE on.
    fn file(&self, file: &[u8], fileid: u64) -> Arc<Mutex<FaultyFile>> {
        let mut files = lock(&self.files);
        if let Some(known) = files.get(file) {
            return Arc::clone(known);
        }
        let path = lock(&self.paths).get(file).cloned().unwrap_or_else(|| format!("file number {fileid}"));
        let (chances, sectors) = (Chances::new(&self.faults, &path), Sectors::new(self.older_bytes.clone()));
        let made = Arc::new(Mutex::new(FaultyFile { path, chances, sectors, older: None }));
        files.insert(file.to_vec(), Arc::clone(&made));
        made
    }

    fn name(&self, directory: &[u8], name: &[u8], file: &nfs_fh3) {
        if name == b"." || name == b".." {
            return;
        }
        let mut paths = lock(&self.paths);
        let Some(above) = paths.get(directory) else { return };
        let name = String::from_utf8_lossy(name);
        let path = if above.is_empty() { name.into_owned() } else { format!("{above}/{name}") };
        paths.insert(file.as_bytes().to_vec(), path);
    }

    /// The file of a name, whoever may look it up.
    fn found(&self, directory: &[u8], name: &[u8]) -> Option<Named> {
        self.inner.lookup(&OWN, directory, name).ok().map(|found| found.0)
    }

    /// Forgets a file whose last name is gone.
    fn forget(&self, file: Option<Named>) {
        if let Some(Named { handle: file, .. }) = file
            && self.inner.getattr(file.as_bytes()).is_err()
        {
            lock(&self.files).remove(file.as_bytes());
            lock(&self.paths).remove(file.as_bytes());
        }
    }

    /// Content of a range of a file; zeros beyond the end.
    fn content(&self, file: &[u8], offset: u64, length: usize) -> Result<Vec<u8>, nfsstat3> {
        let _guard = crossbeam_epoch::pin();
        let mut batch = Batch::default();
        let read = self.inner.read(&OWN, file, offset, length as u32, &mut batch)?;
        let mut data = data_of(&mut batch, read.count);
        data.resize(length, 0);
        Ok(data)
    }

    /// A record without the name of the file.
    fn record(
        &self,
        file: &FaultyFile,
        operation: &'static str,
        fault: FaultKind,
        range: (u64, u64),
    ) -> FaultRecord<'_> {
        let sector = file.sectors.at(range.0);
        FaultRecord {
            fault,
            export: &self.export,
            file: "",
            operation,
            offset: range.0,
            length: range.1,
            write: sector.write,
            generation: sector.generation,
            found_generation: None,
            bit: None,
            stored_at: None,
        }
    }

    /// Returns `true` if a kind that is about names or attributes hits the file.
    fn hits(&self, file: &[u8], fileid: u64, kind: FaultKind, operation: &'static str) -> bool {
        if !self.has(kind) {
            return false;
        }
        let state = self.file(file, fileid);
        let mut state = lock(&state);
        if !state.chances.hits(kind) {
            return false;
        }
        let record = self.record(&state, operation, kind, (0, 0));
        self.injected.note(&FaultRecord { file: &state.path, ..record });
        true
    }

    /// Attributes of a file, or those before its newest WRITE.
    fn perhaps_older(&self, file: &[u8], right: fattr3) -> fattr3 {
        if !self.has(FaultKind::StaleAttributes) {
            return right;
        }
        let known = lock(&self.files).get(file).map(Arc::clone);
        let older = known.and_then(|known| lock(&known).older);
        let is_stale = older.is_some() && self.hits(file, right.fileid, FaultKind::StaleAttributes, "GETATTR");
        older.filter(|_| is_stale).unwrap_or(right)
    }

    /// Gives a file another name than the client knows: with an end behind it.
    fn move_away(&self, directory: &[u8], name: &[u8], end: &[u8]) -> Result<(), nfsstat3> {
        let elsewhere = [name, end].concat();
        self.inner.rename(&OWN, (directory, name), (directory, &elsewhere)).result
    }

    fn has(&self, kind: FaultKind) -> bool {
        self.faults.rates.iter().any(|rate| rate.kind == kind)
    }

    /// Changes data that were read, or fails the READ.
    fn spoil_read(&self, file: &mut FaultyFile, offset: u64, data: &mut [u8]) -> Result<(), nfsstat3> {
        let length = data.len() as u64;
        if file.chances.hits(FaultKind::Eio) {
            let record = self.record(file, "READ", FaultKind::Eio, (offset, length));
            self.injected.note(&FaultRecord { file: &file.path, ..record });
            return Err(nfsstat3::NFS3ERR_IO);
        }
        if file.chances.hits(FaultKind::StaleRead)
            && let Some((start, older)) = file.sectors.make_stale(offset, data)
        {
            let record = self.record(file, "READ", FaultKind::StaleRead, (start, offset + length - start));
            self.injected.note(&FaultRecord { file: &file.path, found_generation: Some(older), ..record });
        }
        let (mut from, bits) = (0, length * 8);
        while let Some(hit) = file.chances.first_hit(FaultKind::FlipBit, from, bits) {
            let (byte, bit) = (hit / 8, (hit % 8) as u8);
            data[byte as usize] ^= 1 << bit;
            let record = self.record(file, "READ", FaultKind::FlipBit, (offset + byte, 1));
            self.injected.note(&FaultRecord { file: &file.path, bit: Some(bit), ..record });
            from = hit + 1;
        }
        Ok(())
    }

    /// Fails a WRITE, if it is to fail.
    fn refuse_write(&self, file: &mut FaultyFile, offset: u64, length: u64) -> Result<(), nfsstat3> {
        let kinds = [(FaultKind::Eio, nfsstat3::NFS3ERR_IO), (FaultKind::Enospc, nfsstat3::NFS3ERR_NOSPC)];
        for (kind, status) in kinds {
            if file.chances.hits(kind) {
                let record = self.record(file, "WRITE", kind, (offset, length));
                self.injected.note(&FaultRecord { file: &file.path, ..record });
                return Err(status);
            }
        }
        Ok(())
    }

    /// Carries out a WRITE that the client may do.
    fn write_checked(&self, write: &WriteArgs<'_>) -> Result<Written, nfsstat3> {
        let before = self.inner.getattr(write.file)?;
        let file = self.file(write.file, before.fileid);
        let mut file = lock(&file);
        let (offset, length) = (write.offset, write.data.len() as u64);
        self.refuse_write(&mut file, offset, length)?;
        let size = self.inner.getattr(write.file)?.size;
        if size < offset + length {
            file.older = Some(fattr3 { size, ..before });
        }
        let held = self.content(write.file, offset, write.data.len())?;
        let Some(spoiled) = choose(&mut file.chances, offset, length, size).filter(|it| it.shows(&held, write.data))
        else {
            let written = self.inner.write(write.caller, write.file, offset, write.data, write.stable)?;
            file.sectors.acknowledge(offset, &held);
            file.sectors.stored(offset, length);
            return Ok(written);
        };
        let written = self.write_spoiled(write, spoiled)?;
        file.sectors.acknowledge(offset, &held);
        self.note_spoiled(&mut file, write, spoiled);
        Ok(written)
    }

    /// Stores what is left of a WRITE. The file grows as if all of it were stored.
    fn write_spoiled(&self, write: &WriteArgs<'_>, spoiled: Spoiled) -> Result<Written, nfsstat3> {
        let &WriteArgs { file, offset, data, stable, .. } = write;
        let store = |offset, data: &[u8]| self.inner.write(&OWN, file, offset, data, stable);
        match spoiled {
            Spoiled::Torn(kept) => drop(store(offset, &data[..kept as usize])?),
            Spoiled::Misdirected(to) => drop(store(to, data)?),
            Spoiled::Lost => {}
        }
        let (after, end) = (self.inner.getattr(file)?, offset + data.len() as u64);
        if after.size < end { store(end - 1, &[0]) } else { Ok(Written { before: after.wcc(), after }) }
    }

    fn note_spoiled(&self, file: &mut FaultyFile, write: &WriteArgs<'_>, spoiled: Spoiled) {
        let (offset, length) = (write.offset, write.data.len() as u64);
        let (kind, kept, stored_at) = match spoiled {
            Spoiled::Torn(kept) => (FaultKind::TornWrite, kept, None),
            Spoiled::Lost => (FaultKind::LostWrite, 0, None),
            Spoiled::Misdirected(to) => (FaultKind::MisdirectedWrite, 0, Some(to)),
        };
        file.sectors.stored(offset, kept);
        if let Some(to) = stored_at {
            file.sectors.spoiled(to, length);
        }
        let found = file.sectors.at(offset + kept).held;
        let record = self.record(file, "WRITE", kind, (offset + kept, length - kept));
        self.injected.note(&FaultRecord { file: &file.path, found_generation: Some(found), stored_at, ..record });
    }
}

impl Spoiled {
    /// True if the fault makes a difference, given what the range of the WRITE holds.
    fn shows(self, held: &[u8], data: &[u8]) -> bool {
        match self {
            Self::Torn(kept) => held[kept as usize..] != data[kept as usize..],
            Self::Lost | Self::Misdirected(_) => held != data,
        }
    }
}

/// Draws what happens to a WRITE. Each kind draws, so that none depends on another.
fn choose(chances: &mut Chances, offset: u64, length: u64, size: u64) -> Option<Spoiled> {
    let lost = chances.hits(FaultKind::LostWrite).then_some(Spoiled::Lost);
    let misdirected = chances.hits(FaultKind::MisdirectedWrite).then(|| elsewhere(chances, offset, length, size));
    let torn = chances.hits(FaultKind::TornWrite).then(|| torn(chances, offset, length));
    lost.or(misdirected.flatten()).or(torn.flatten())
}

/// Another place of the file, in units of this WRITE's length; `None` if the file has none.
fn elsewhere(chances: &mut Chances, offset: u64, length: u64, size: u64) -> Option<Spoiled> {
    if length == 0 {
        return None;
    }
    let (places, own) = (size / length, offset / length);
    let others = if own < places { places - 1 } else { places };
    if others == 0 {
        return None;
    }
    let drawn = chances.below(FaultKind::MisdirectedWrite, others);
    let place = if drawn >= own { drawn + 1 } else { drawn };
    Some(Spoiled::Misdirected(place * length))
}

/// A part of a WRITE that ends between two of its sectors; `None` if it has only one.
fn torn(chances: &mut Chances, offset: u64, length: u64) -> Option<Spoiled> {
    let first = SECTOR_BYTES - offset % SECTOR_BYTES;
    let seams = length.saturating_sub(first).div_ceil(SECTOR_BYTES);
    (seams > 0).then(|| Spoiled::Torn(first + chances.below(FaultKind::TornWrite, seams) * SECTOR_BYTES))
}

fn data_of(batch: &mut Batch, count: u32) -> Vec<u8> {
    let mut data = Vec::new();
    batch.copy_from(0, &mut data);
    data.truncate(count as usize);
    data
}

fn lock<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes methods on to the store behind the faults.
macro_rules! pass_on {
    ($(fn $method:ident(&self $(, $argument:ident: $of:ty)*) $(-> $result:ty)?;)*) => {
        $(fn $method(&self $(, $argument: $of)*) $(-> $result)? {
            self.inner.$method($($argument),*)
        })*
    };
}

impl<S: Store> Store for FaultyStore<S> {
    pass_on! {
        fn root(&self) -> nfs_fh3;
        fn setattr(&self, caller: &Caller, file: &[u8], new: &sattr3, guard: sattrguard3) -> Changed;
        fn readlink(&self, link: &[u8]) -> Result<Vec<u8>, nfsstat3>;
        fn commit(&self, file: &[u8]) -> Result<Written, nfsstat3>;
        fn sync_failures(&self) -> u64;
        fn link(&self, caller: &Caller, file: &[u8], directory: &[u8], name: &[u8]) -> Changed;
        fn cookieverf(&self, directory: &[u8]) -> cookieverf3;
        fn space(&self) -> Space;
        fn budget(&self) -> &Budget;
    }

    // Inlined, it would make each GETATTR of the other stores save registers.
    #[inline(never)]
    fn getattr(&self, file: &[u8]) -> Result<fattr3, nfsstat3> {
        self.inner.getattr(file).map(|right| self.perhaps_older(file, right))
    }

    fn lookup(&self, caller: &Caller, directory: &[u8], name: &[u8]) -> Result<(Named, fattr3), nfsstat3> {
        let found = self.inner.lookup(caller, directory, name)?;
        self.name(directory, name, &found.0.handle);
        Ok(found)
    }

    fn read(&self, caller: &Caller, file: &[u8], offset: u64, count: u32, batch: &mut Batch) -> Result<Read, nfsstat3> {
        let state = self.file(file, self.inner.getattr(file)?.fileid);
        let mut state = lock(&state);
        let mut right = Batch::default();
        let read = self.inner.read(caller, file, offset, count, &mut right)?;
        let mut data = data_of(&mut right, read.count);
        self.spoil_read(&mut state, offset, &mut data)?;
        batch.bytes(&data);
        batch.pad(data.len());
        Ok(read)
    }

    fn write(
        &self,
        caller: &Caller,
        file: &[u8],
        offset: u64,
        data: &[u8],
        stable: stable_how,
    ) -> Result<Written, nfsstat3> {
        // Checks that the WRITE is allowed; nothing is received into the memory.
        drop(self.inner.begin_write(caller, file, offset, data.len() as u32)?);
        self.write_checked(&WriteArgs { caller, file, offset, data, stable })
    }

    fn begin_write(&self, caller: &Caller, file: &[u8], offset: u64, length: u32) -> Result<WriteBuffer, nfsstat3> {
        drop(self.inner.begin_write(caller, file, offset, length)?);
        WriteBuffer::new(file, offset, vec![Piece::Bytes(vec![0; length as usize])])
    }

    fn finish_write(&self, buffer: WriteBuffer, stable: stable_how) -> Result<Written, nfsstat3> {
        let WriteBuffer { file, offset, pieces, .. } = &buffer;
        let bytes = |piece: &Piece| if let Piece::Bytes(bytes) = piece { bytes.clone() } else { Vec::new() };
        let data: Vec<u8> = pieces.iter().flat_map(bytes).collect();
        self.write_checked(&WriteArgs { caller: &OWN, file: file.as_bytes(), offset: *offset, data: &data, stable })
    }

    fn create(&self, caller: &Caller, directory: &[u8], name: &[u8], what: Creation<'_>) -> Changed<Named> {
        let is_file = matches!(what, Creation::File(_));
        let is_new = self.has(FaultKind::LostCreate) && is_file && self.found(directory, name).is_none();
        let Changed { result, wcc } = self.inner.create(caller, directory, name, what);
        let result = result.and_then(|made| {
            self.name(directory, name, &made.handle);
            if is_new && self.hits(made.handle.as_bytes(), made.attributes.fileid, FaultKind::LostCreate, "CREATE") {
                self.move_away(directory, name, b".lost")?;
            }
            Ok(made)
        });
        Changed { result, wcc }
    }

    fn remove(&self, caller: &Caller, directory: &[u8], name: &[u8], what: Removal) -> Changed {
        let gone = self.found(directory, name);
        let removed = self.inner.remove(caller, directory, name, what);
        if removed.result.is_ok() {
            self.forget(gone);
        }
        removed
    }

    fn rename(&self, caller: &Caller, from: (&[u8], &[u8]), to: (&[u8], &[u8])) -> Changed<(), (wcc_data, wcc_data)> {
        let replaced = self.found(to.0, to.1);
        let Changed { result, wcc } = self.inner.rename(caller, from, to);
        let result = result.and_then(|()| {
            self.forget(replaced);
            let Some(moved) = self.found(to.0, to.1) else { return Ok(()) };
            let kind = FaultKind::MisdirectedRename;
            if self.hits(moved.handle.as_bytes(), moved.attributes.fileid, kind, "RENAME") {
                return self.move_away(to.0, to.1, b".misdirected");
            }
            self.name(to.0, to.1, &moved.handle);
            Ok(())
        });
        Changed { result, wcc }
    }

    fn readdir(
        &self,
        caller: &Caller,
        directory: &[u8],
        range: Range,
        visit: &mut dyn FnMut(&Entry<'_>) -> bool,
    ) -> Result<Listed, nfsstat3> {
        self.inner.readdir(caller, directory, range, &mut |entry| {
            let mut shown = *entry;
            if let Some(file) = &entry.handle {
                self.name(directory, entry.name, file);
                shown.attributes = entry.attributes.map(|right| self.perhaps_older(file.as_bytes(), right));
            }
            visit(&shown)
        })
    }
}

impl<S: Upkeep> Upkeep for FaultyStore<S> {
    pass_on! {
        fn sent_by_reference(&self, data: *const u8, length: usize);
        fn reclaim(&self) -> bool;
        fn close_idle(&self, now: Nanos) -> Option<Nanos>;
        fn needs_repair(&self) -> bool;
        fn repair_huge_page(&self) -> bool;
    }
}
