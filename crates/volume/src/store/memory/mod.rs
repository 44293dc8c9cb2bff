//! Files in memory: sparse, bounded, and read without a copy.
//!
//! A READ takes the file's lock for reading, lends chunks to the batch, and is done; chunks that are freed meanwhile stay mapped
//! until every batch that may show them has been sent (epochs). Those that were sent by reference, which a client may still see, are
//! parted from their pages before they are used again: where that can be by whole huge pages, and else those are mended when a thread
//! has nothing to do. A WRITE over existing data takes the lock for reading, too: like
//! writers of one mapped file, clients that race for the same bytes get one or the other of them.
//! All changes of names are in a queue (`namespace`); whoever holds it locks one node at a time, so that locks cannot form a ring.

mod content;
mod node;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_epoch as epoch;

use iocurve_wire::nfs3::{
    cookieverf3, createhow3, createverf3, fattr3, ftype3, nfs_fh3, nfsstat3, sattr3, sattrguard3, set_time, specdata3,
    stable_how, wcc_data,
};

use super::{
    Caller, Creation, Entry, FILE_BYTES_MAX, Landing, Listing, Piece, Read, SYMLINK_BYTES_MAX, Space, Store,
    TRANSFER_BYTES_MAX, Written, check_end, check_name, from_nfstime, wall_ns,
};
use crate::reply::batch::{BULK_PIECE_BYTES, Batch};
use crate::store::access::without_privileges;
use crate::store::arena::{Arena, CHUNK_BYTES, ChunkId};
use content::{Content, spans};
use node::{Body, Directory, Node, Slot, Slots};

pub use content::Budget;

/// Bytes that a name and its file cost beside the data: an upper bound. A file with a name of 12 bytes takes 290 to 380 bytes of
/// memory, depending on how full tables that double in size are.
const NODE_BYTES: u64 = 1024;

/// Most files.
const FILES_MAX: u32 = 1 << 26;

/// Most names of one file.
pub(crate) const LINKS_MAX: u32 = 32_000;

const ROOT: u32 = 0;

/// Files in memory.
#[derive(Debug)]
pub struct MemoryStore {
    /// Tells this store's handles from those of an earlier one.
    id: [u8; 8],
    slots: Slots,
    namespace: Mutex<Namespace>,
    arena: Arc<Arena>,
    budget: Budget,
    /// Chunks freed that may still be on their way to a client.
    retired: Arc<AtomicU64>,
}

/// Which slots are free. Who holds its lock may change names.
#[derive(Debug)]
struct Namespace {
    free: Vec<u32>,
    next: u32,
}

impl MemoryStore {
    /// An empty store of at most `limit_bytes` (then `NFS3ERR_NOSPC`) and `quota_bytes` (then `NFS3ERR_DQUOT`), data and
    /// metadata together. `id` must differ from that of an earlier store whose handles clients may still have.
    pub fn new(id: [u8; 8], quota_bytes: u64, limit_bytes: u64) -> io::Result<Self> {
        // Chunks that are on their way in or out are not in the budget; a quarter more has room for them. The quota may grow later.
        let arena = Arena::new(limit_bytes.saturating_add(limit_bytes / 4).saturating_add(256 << 20))?;
        let store = Self {
            id,
            slots: Slots::default(),
            namespace: Mutex::new(Namespace { free: Vec::new(), next: ROOT + 1 }),
            arena,
            budget: Budget::new(quota_bytes, limit_bytes),
            retired: Arc::default(),
        };
        let root = Node::new(ftype3::NF3DIR, 0o777, Caller::default(), Body::Directory(Box::new(Directory::new(ROOT))));
        store.slots.get_or_make(ROOT).write().node = Some(root);
        Ok(store)
    }

    fn handle(&self, index: u32, generation: u32) -> nfs_fh3 {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.id);
        bytes[8..12].copy_from_slice(&index.to_be_bytes());
        bytes[12..].copy_from_slice(&generation.to_be_bytes());
        nfs_fh3::new(&bytes).expect("short enough")
    }

    fn handle_of(&self, index: u32) -> Option<nfs_fh3> {
        let held = self.slots.get(index)?.read();
        held.node.as_ref().map(|_| self.handle(index, held.generation))
    }

    /// The slot that a handle names, and the generation it expects there.
    #[inline]
    fn locate(&self, handle: &[u8]) -> Result<(u32, &Slot, u32), nfsstat3> {
        let handle: &[u8; 16] = handle.try_into().map_err(|_| nfsstat3::NFS3ERR_BADHANDLE)?;
        if handle[..8] != self.id {
            return Err(nfsstat3::NFS3ERR_STALE);
        }
        let word = |at: usize| u32::from_be_bytes([handle[at], handle[at + 1], handle[at + 2], handle[at + 3]]);
        let slot = self.slots.get(word(8)).ok_or(nfsstat3::NFS3ERR_STALE)?;
        Ok((word(8), slot, word(12)))
    }

    fn view<R>(&self, handle: &[u8], view: impl FnOnce(u32, &Node) -> Result<R, nfsstat3>) -> Result<R, nfsstat3> {
        let (index, slot, generation) = self.locate(handle)?;
        view(index, slot.read().expect(generation)?)
    }

    fn attributes(&self, index: u32, generation: u32, node: &Node) -> fattr3 {
        node.attributes(u64::from(generation) << 32 | u64::from(index + 1), u64::from_be_bytes(self.id))
    }

    fn namespace(&self) -> MutexGuard<'_, Namespace> {
        self.namespace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a change of names in one directory and records its attributes around it.
    fn change<R>(
        &self,
        directory: &[u8],
        wcc: &mut wcc_data,
        change: impl FnOnce(&mut Namespace, u32) -> Result<R, nfsstat3>,
    ) -> Result<R, nfsstat3> {
        let mut namespace = self.namespace();
        let before = self.getattr(directory)?;
        wcc.before = Some(before.wcc());
        let changed = self.view(directory, |index, node| node.directory().map(|_| index));
        let changed = changed.and_then(|index| change(&mut namespace, index));
        wcc.after = self.getattr(directory).ok();
        changed
    }

    /// The node that a directory has under a name.
    fn find(&self, directory: u32, name: &[u8]) -> Result<u32, nfsstat3> {
        self.node(directory, |node| node.directory()?.get(name).ok_or(nfsstat3::NFS3ERR_NOENT))
    }

    /// Reads a node that the namespace lock keeps alive.
    fn node<R>(&self, index: u32, read: impl FnOnce(&Node) -> Result<R, nfsstat3>) -> Result<R, nfsstat3> {
        let held = self.slots.get(index).ok_or(nfsstat3::NFS3ERR_STALE)?.read();
        read(held.node.as_ref().ok_or(nfsstat3::NFS3ERR_STALE)?)
    }

    /// Changes a node that the namespace lock keeps alive.
    fn node_mut<R>(&self, index: u32, change: impl FnOnce(&mut Node) -> Result<R, nfsstat3>) -> Result<R, nfsstat3> {
        let mut held = self.slots.get(index).ok_or(nfsstat3::NFS3ERR_STALE)?.write();
        change(held.node.as_mut().ok_or(nfsstat3::NFS3ERR_STALE)?)
    }

    /// Puts a new node into a slot and under a name.
    fn add(&self, namespace: &mut Namespace, directory: u32, name: &[u8], node: Node) -> Result<nfs_fh3, nfsstat3> {
        self.budget.take(NODE_BYTES)?;
        let is_directory = node.file_type == ftype3::NF3DIR;
        let index = namespace.free.pop().or_else(|| {
            (namespace.next < FILES_MAX).then(|| {
                namespace.next += 1;
                namespace.next - 1
            })
        });
        let Some(index) = index else {
            self.budget.give_back(NODE_BYTES);
            return Err(nfsstat3::NFS3ERR_NOSPC);
        };
        let generation = {
            let mut held = self.slots.get_or_make(index).write();
            held.node = Some(node);
            held.generation
        };
        self.node_mut(directory, |parent| {
            parent.directory_mut()?.insert(name, index);
            parent.nlink += u32::from(is_directory);
            parent.touch();
            Ok(())
        })?;
        Ok(self.handle(index, generation))
    }

    /// Takes a name out of a directory.
    fn take_name(&self, directory: u32, name: &[u8], is_directory: bool) -> Result<(), nfsstat3> {
        self.node_mut(directory, |node| {
            node.directory_mut()?.remove(name);
            node.nlink -= u32::from(is_directory);
            node.touch();
            Ok(())
        })
    }

    /// Takes one name away from a node, which goes with its last one.
    fn unlink(&self, namespace: &mut Namespace, index: u32) {
        let Some(slot) = self.slots.get(index) else { return };
        let mut held = slot.write();
        let Some(node) = held.node.as_mut() else { return };
        if node.file_type != ftype3::NF3DIR && node.nlink > 1 {
            node.nlink -= 1;
            node.touch_ctime();
            self.budget.give_back(NODE_BYTES);
            return;
        }
        let mut node = held.node.take().expect("it was there");
        held.generation = held.generation.wrapping_add(1);
        drop(held);
        if let Body::File(content) = &mut node.body {
            self.cut(content, 0);
        }
        self.budget.give_back(NODE_BYTES);
        namespace.free.push(index);
    }

    /// Frees a file's chunks from this number on.
    fn cut(&self, content: &mut Content, first: u64) {
        let table = content.table_bytes(0);
        let cut = content.cut(first);
        self.budget.give_back((cut.len() * CHUNK_BYTES) as u64 + table - content.table_bytes(0));
        self.retire(cut);
    }

    /// Gives chunks back to the arena once no batch can show them any more.
    fn retire(&self, ids: Vec<ChunkId>) {
        if ids.is_empty() {
            return;
        }
        let (arena, retired, count) = (Arc::clone(&self.arena), Arc::clone(&self.retired), ids.len() as u64);
        retired.fetch_add(count, Relaxed);
        let guard = epoch::pin();
        guard.defer(move || {
            arena.give_back(&ids);
            retired.fetch_sub(count, Relaxed);
        });
        guard.flush();
    }

    /// Makes chunks where a transfer has none.
    fn fill_holes(&self, index: u32, content: &mut Content, offset: u64, length: usize) -> Result<(), nfsstat3> {
        let missing = content.missing(offset, length) as usize;
        let cost =
            (missing * CHUNK_BYTES) as u64 + content.table_bytes(offset + length as u64) - content.table_bytes(0);
        self.budget.take(cost)?;
        let Some(mut chunks) = self.arena.take(index, missing) else {
            self.budget.give_back(cost);
            return Err(nfsstat3::NFS3ERR_NOSPC);
        };
        for span in spans(offset, length) {
            if content.get(span.number) == 0 {
                let mut chunk = chunks.pop().expect("as many as are missing");
                if span.length < CHUNK_BYTES {
                    chunk.zero();
                }
                content.put(span.number, chunk.into_id());
            }
        }
        Ok(())
    }

    /// Copies data into chunks that are there.
    #[inline]
    fn copy_in(&self, content: &Content, offset: u64, data: &[u8]) {
        let mut rest = data;
        for span in spans(offset, data.len()) {
            let (now, later) = rest.split_at(span.length);
            // SAFETY: the file's lock keeps the chunk in the file, and the span is inside it.
            unsafe {
                let target = self.arena.data(content.get(span.number)).add(span.start);
                std::ptr::copy_nonoverlapping(now.as_ptr(), target, now.len());
            }
            rest = later;
        }
    }

    /// Sets the size of a file.
    fn resize(&self, node: &mut Node, size: u64) -> Result<(), nfsstat3> {
        if size > FILE_BYTES_MAX {
            return Err(nfsstat3::NFS3ERR_FBIG);
        }
        let shorter = size < node.size;
        let content = node.content_mut()?;
        if shorter {
            self.cut(content, size.div_ceil(CHUNK_BYTES as u64));
            let (last, kept) = (size / CHUNK_BYTES as u64, (size % CHUNK_BYTES as u64) as usize);
            let id = content.get(last);
            if kept > 0 && id != 0 {
                // What lies beyond the end must read as zeros if the file grows again.
                // SAFETY: inside a chunk that the file's lock keeps in the file.
                unsafe { self.arena.data(id).add(kept).write_bytes(0, CHUNK_BYTES - kept) };
            }
        }
        node.size = size;
        node.touch();
        Ok(())
    }

    fn apply(&self, node: &mut Node, new: &sattr3) -> Result<(), nfsstat3> {
        if let Some(size) = new.size {
            self.resize(node, size)?;
        }
        node.mode = new.mode.map_or(node.mode, |mode| mode & 0o7777);
        node.uid = new.uid.unwrap_or(node.uid);
        node.gid = new.gid.unwrap_or(node.gid);
        set_time(&mut node.atime, new.atime);
        set_time(node.mtime.get_mut(), new.mtime);
        node.touch_ctime();
        Ok(())
    }

    /// What CREATE answers when the name is there.
    fn create_existing(&self, index: u32, how: &createhow3) -> Result<nfs_fh3, nfsstat3> {
        match how {
            createhow3::GUARDED(_) => return Err(nfsstat3::NFS3ERR_EXIST),
            createhow3::EXCLUSIVE(verf) => {
                self.node(
                    index,
                    |node| {
                        if node.createverf == Some(*verf) { Ok(()) } else { Err(nfsstat3::NFS3ERR_EXIST) }
                    },
                )?;
            }
            createhow3::UNCHECKED(new) => self.node_mut(index, |node| {
                node.content_mut().map_err(|_| nfsstat3::NFS3ERR_EXIST)?;
                // Of an existing file only the size is set, as open(2) with O_TRUNC does.
                new.size.map_or(Ok(()), |size| self.resize(node, size))
            })?,
        }
        self.handle_of(index).ok_or(nfsstat3::NFS3ERR_STALE)
    }

    /// The node of a new name.
    fn make(&self, what: &Creation<'_>, caller: Caller, parent: u32) -> Result<Node, nfsstat3> {
        let none = sattr3::default();
        let (file_type, mode, body, new) = match *what {
            Creation::File(how) => {
                let new = match how {
                    createhow3::UNCHECKED(new) | createhow3::GUARDED(new) => new,
                    createhow3::EXCLUSIVE(_) => &none,
                };
                (ftype3::NF3REG, 0o644, Body::File(Content::default()), new)
            }
            Creation::Directory(new) => (ftype3::NF3DIR, 0o755, Body::Directory(Box::new(Directory::new(parent))), new),
            Creation::Symlink(new, target) => (ftype3::NF3LNK, 0o777, symlink(target)?, new),
            Creation::Special(new, file_type, spec) => (file_type, 0o644, Body::Special(spec), new),
        };
        let mut node = Node::new(file_type, mode, caller, body);
        node.createverf = exclusive(what);
        if file_type != ftype3::NF3REG && new.size.is_some() {
            return Err(nfsstat3::NFS3ERR_INVAL);
        }
        self.apply(&mut node, new)?;
        Ok(node)
    }

    /// Checks that a name may be replaced by a node of this kind, and returns whether it is a directory.
    fn check_replaced(&self, replaced: u32, by_directory: bool) -> Result<bool, nfsstat3> {
        self.node(replaced, |node| match (&node.body, by_directory) {
            (Body::Directory(_), false) => Err(nfsstat3::NFS3ERR_ISDIR),
            (Body::Directory(old), true) if !old.is_empty() => Err(nfsstat3::NFS3ERR_NOTEMPTY),
            (Body::Directory(_), true) => Ok(true),
            (_, true) => Err(nfsstat3::NFS3ERR_NOTDIR),
            (_, false) => Ok(false),
        })
    }

    /// Checks that a directory is not moved into itself.
    fn check_no_ring(&self, moved: u32, into: u32) -> Result<(), nfsstat3> {
        let mut at = into;
        while at != moved {
            if at == ROOT {
                return Ok(());
            }
            at = self.node(at, |node| Ok(node.directory()?.parent))?;
        }
        Err(nfsstat3::NFS3ERR_INVAL)
    }

    /// Moves a name between directories that both exist.
    fn rename_in(
        &self,
        namespace: &mut Namespace,
        (from, old): (u32, &[u8]),
        (to, new): (u32, &[u8]),
    ) -> Result<(), nfsstat3> {
        let moved = self.find(from, old)?;
        let is_directory = self.node(moved, |node| Ok(node.file_type == ftype3::NF3DIR))?;
        let replaced = self.find(to, new).ok();
        if replaced == Some(moved) {
            return Ok(());
        }
        if is_directory {
            self.check_no_ring(moved, to)?;
        }
        let directory_replaced = replaced.map_or(Ok(false), |index| self.check_replaced(index, is_directory))?;
        // The new name first: at no moment does the file have no name at all.
        self.node_mut(to, |node| {
            node.directory_mut()?.insert(new, moved);
            node.nlink += u32::from(is_directory);
            node.nlink -= u32::from(directory_replaced);
            node.touch();
            Ok(())
        })?;
        self.take_name(from, old, is_directory)?;
        self.node_mut(moved, |node| {
            if let Body::Directory(directory) = &mut node.body {
                directory.parent = to;
            }
            node.touch_ctime();
            Ok(())
        })?;
        if let Some(index) = replaced {
            self.unlink(namespace, index);
        }
        Ok(())
    }
}

impl Store for MemoryStore {
    fn root(&self, _export: usize) -> nfs_fh3 {
        self.handle_of(ROOT).expect("the root is never removed")
    }

    fn getattr(&self, file: &[u8]) -> Result<fattr3, nfsstat3> {
        let (index, slot, generation) = self.locate(file)?;
        Ok(self.attributes(index, generation, slot.read().expect(generation)?))
    }

    fn setattr(&self, file: &[u8], new: &sattr3, guard: sattrguard3, wcc: &mut wcc_data) -> Result<(), nfsstat3> {
        let (index, slot, generation) = self.locate(file)?;
        let mut held = slot.write();
        let node = held.expect_mut(generation)?;
        let before = self.attributes(index, generation, node).wcc();
        wcc.before = Some(before);
        let applied = match guard {
            Some(ctime) if ctime != before.ctime => Err(nfsstat3::NFS3ERR_NOT_SYNC),
            _ => self.apply(node, new),
        };
        wcc.after = Some(self.attributes(index, generation, node));
        applied
    }

    fn lookup(&self, directory: &[u8], name: &[u8]) -> Result<nfs_fh3, nfsstat3> {
        let found = self.view(directory, |index, node| match (node.directory()?, name) {
            (_, b".") => Ok(index),
            (directory, b"..") => Ok(directory.parent),
            (_, name) if name.len() > super::NAME_BYTES_MAX => Err(nfsstat3::NFS3ERR_NAMETOOLONG),
            (directory, name) => directory.get(name).ok_or(nfsstat3::NFS3ERR_NOENT),
        })?;
        self.handle_of(found).ok_or(nfsstat3::NFS3ERR_NOENT)
    }

    fn readlink(&self, link: &[u8]) -> Result<Vec<u8>, nfsstat3> {
        self.view(link, |_, node| match &node.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(nfsstat3::NFS3ERR_INVAL),
        })
    }

    #[inline]
    fn read(&self, by: &Caller, file: &[u8], offset: u64, count: u32, batch: &mut Batch) -> Result<Read, nfsstat3> {
        let (index, slot, generation) = self.locate(file)?;
        let held = slot.read();
        let node = held.expect(generation)?;
        let content = node.content()?;
        node.permissions().check_read(by)?;
        let left = node.size.saturating_sub(offset);
        let count = u64::from(count.min(TRANSFER_BYTES_MAX)).min(left) as u32;
        for span in spans(offset, count as usize) {
            match content.get(span.number) {
                0 => batch.zeros(span.length),
                // SAFETY: a chunk that leaves the file stays mapped as long as the caller's epoch guard lives.
                id => unsafe { batch.lend(self.arena.data(id).add(span.start), span.length) },
            }
        }
        if count as usize >= BULK_PIECE_BYTES && node.is_changing() {
            batch.expect_change();
        }
        batch.pad(count as usize);
        let attributes = self.attributes(index, generation, node);
        Ok(Read { attributes, count, eof: u64::from(count) == left })
    }

    fn referred(&self, data: *const u8, length: usize) {
        self.arena.refer(data, length);
    }

    #[inline]
    fn write(&self, by: &Caller, file: &[u8], offset: u64, data: &[u8], _: stable_how) -> Result<Written, nfsstat3> {
        let end = check_end(offset, data.len() as u64)?;
        let (index, slot, generation) = self.locate(file)?;
        {
            let held = slot.read();
            let node = held.expect(generation)?;
            let content = node.content()?;
            node.permissions().check_write(by)?;
            if end <= node.size && node.is_unprivileged() && content.covers(offset, data.len()) {
                let before = node.wcc();
                self.copy_in(content, offset, data);
                node.touch();
                return Ok(Written { before, after: self.attributes(index, generation, node) });
            }
        }
        let mut held = slot.write();
        let node = held.expect_mut(generation)?;
        let before = node.wcc();
        self.fill_holes(index, node.content_mut()?, offset, data.len())?;
        self.copy_in(node.content()?, offset, data);
        node.size = node.size.max(end);
        node.mode = without_privileges(node.mode);
        node.touch();
        Ok(Written { before, after: self.attributes(index, generation, node) })
    }

    fn land(&self, by: &Caller, file: &[u8], offset: u64, length: u32) -> Result<Landing, nfsstat3> {
        check_end(offset, u64::from(length))?;
        let index = self.view(file, |index, node| {
            node.content().and_then(|_| node.permissions().check_write(by)).map(|()| index)
        })?;
        let whole = spans(offset, length as usize).filter(|span| span.length == CHUNK_BYTES).count();
        let mut chunks = self.arena.take(index, whole).ok_or(nfsstat3::NFS3ERR_NOSPC)?;
        let pieces = spans(offset, length as usize).map(|span| match span.length {
            CHUNK_BYTES => Piece::Chunk(chunks.pop().expect("as many as there are whole spans")),
            length => Piece::Bytes(vec![0; length]),
        });
        Landing::new(file, offset, pieces.collect())
    }

    fn landed(&self, landing: Landing, _: stable_how) -> Result<Written, nfsstat3> {
        let end = check_end(landing.offset, landing.length() as u64)?;
        let (index, slot, generation) = self.locate(landing.file.as_bytes())?;
        let mut held = slot.write();
        let node = held.expect_mut(generation)?;
        let before = node.wcc();
        let replaced = self.put(index, node.content_mut()?, landing)?;
        node.size = node.size.max(end);
        node.mode = without_privileges(node.mode);
        node.touch();
        let after = self.attributes(index, generation, node);
        drop(held);
        self.retire(replaced);
        Ok(Written { before, after })
    }

    fn commit(&self, file: &[u8]) -> Result<Written, nfsstat3> {
        let (index, slot, generation) = self.locate(file)?;
        let held = slot.read();
        let node = held.expect(generation)?;
        node.content()?;
        Ok(Written { before: node.wcc(), after: self.attributes(index, generation, node) })
    }

    fn create(
        &self,
        directory: &[u8],
        name: &[u8],
        what: Creation<'_>,
        caller: Caller,
        wcc: &mut wcc_data,
    ) -> Result<nfs_fh3, nfsstat3> {
        self.change(directory, wcc, |namespace, parent| {
            check_name(name)?;
            let existing = if is_dots(name) { Ok(parent) } else { self.find(parent, name) };
            match (existing, &what) {
                (Ok(index), Creation::File(how)) => self.create_existing(index, how),
                (Ok(_), _) => Err(nfsstat3::NFS3ERR_EXIST),
                (Err(_), _) => self.add(namespace, parent, name, self.make(&what, caller, parent)?),
            }
        })
    }

    fn remove(&self, directory: &[u8], name: &[u8], wcc: &mut wcc_data) -> Result<(), nfsstat3> {
        self.change(directory, wcc, |namespace, parent| {
            check_removable(name)?;
            let index = self.find(parent, name)?;
            self.node(index, |node| match node.file_type {
                ftype3::NF3DIR => Err(nfsstat3::NFS3ERR_ISDIR),
                _ => Ok(()),
            })?;
            self.take_name(parent, name, false)?;
            self.unlink(namespace, index);
            Ok(())
        })
    }

    fn rmdir(&self, directory: &[u8], name: &[u8], wcc: &mut wcc_data) -> Result<(), nfsstat3> {
        self.change(directory, wcc, |namespace, parent| {
            check_removable(name)?;
            let index = self.find(parent, name)?;
            self.check_replaced(index, true)?;
            self.take_name(parent, name, true)?;
            self.unlink(namespace, index);
            Ok(())
        })
    }

    fn rename(
        &self,
        (from, old): (&[u8], &[u8]),
        (to, new): (&[u8], &[u8]),
        (from_wcc, to_wcc): (&mut wcc_data, &mut wcc_data),
    ) -> Result<(), nfsstat3> {
        let renamed = self.change(from, from_wcc, |namespace, from| {
            let to_index = self.view(to, |index, node| node.directory().map(|_| index))?;
            to_wcc.before = self.getattr(to).ok().map(|attributes| attributes.wcc());
            check_removable(old)?;
            check_removable(new)?;
            self.rename_in(namespace, (from, old), (to_index, new))
        });
        to_wcc.after = self.getattr(to).ok();
        renamed
    }

    fn link(&self, file: &[u8], directory: &[u8], name: &[u8], wcc: &mut wcc_data) -> Result<(), nfsstat3> {
        self.change(directory, wcc, |_, parent| {
            check_name(name)?;
            let index = self.view(file, |index, node| match node.file_type {
                ftype3::NF3DIR => Err(nfsstat3::NFS3ERR_INVAL),
                _ if node.nlink >= LINKS_MAX => Err(nfsstat3::NFS3ERR_MLINK),
                _ => Ok(index),
            })?;
            if is_dots(name) || self.find(parent, name).is_ok() {
                return Err(nfsstat3::NFS3ERR_EXIST);
            }
            self.budget.take(NODE_BYTES)?;
            self.node_mut(index, |node| {
                node.nlink += 1;
                node.touch_ctime();
                Ok(())
            })?;
            self.node_mut(parent, |node| {
                node.directory_mut()?.insert(name, index);
                node.touch();
                Ok(())
            })
        })
    }

    fn readdir(&self, directory: &[u8], cookie: u64, limit: usize) -> Result<Listing, nfsstat3> {
        let (names, end) = self.view(directory, |index, node| Ok(node.directory()?.list(index, cookie, limit)))?;
        let entry = |(cookie, name, index): (u64, Vec<u8>, u32)| {
            let handle = self.handle_of(index);
            let attributes = handle.and_then(|handle| self.getattr(handle.as_bytes()).ok());
            Entry { fileid: attributes.map_or(u64::from(index + 1), |found| found.fileid), name, cookie, handle }
        };
        Ok(Listing { entries: names.into_iter().map(entry).collect(), end })
    }

    fn cookieverf(&self, _directory: &[u8]) -> cookieverf3 {
        self.id
    }

    fn budget(&self, _export: usize) -> &Budget {
        &self.budget
    }

    fn space(&self, _file: &[u8]) -> Space {
        let bytes_free = self.budget.limit().saturating_sub(self.budget.used());
        let files_free = u64::from(FILES_MAX).min(bytes_free / NODE_BYTES);
        Space { bytes_total: self.budget.limit(), bytes_free, files_total: u64::from(FILES_MAX), files_free }
    }

    fn is_worn(&self) -> bool {
        self.arena.is_worn()
    }

    fn mend(&self) -> bool {
        self.arena.mend()
    }

    fn reclaim(&self) -> bool {
        if self.retired.load(Relaxed) > 0 {
            epoch::pin().flush();
        }
        self.retired.load(Relaxed) > 0
    }
}

impl MemoryStore {
    /// Puts landed pieces into a file and returns the chunks they replace.
    fn put(&self, index: u32, content: &mut Content, landing: Landing) -> Result<Vec<ChunkId>, nfsstat3> {
        let (offset, length) = (landing.offset, landing.length());
        let missing = content.missing(offset, length);
        let table = content.table_bytes(offset + length as u64) - content.table_bytes(0);
        let cost = missing * CHUNK_BYTES as u64 + table;
        self.budget.take(cost)?;
        let is_edge_hole = |span: &content::Span| span.length < CHUNK_BYTES && content.get(span.number) == 0;
        let holes = spans(offset, length).filter(is_edge_hole).count();
        let Some(mut edges) = self.arena.take(index, holes) else {
            self.budget.give_back(cost);
            return Err(nfsstat3::NFS3ERR_NOSPC);
        };
        let mut replaced = Vec::new();
        for (span, piece) in spans(offset, length).zip(landing.pieces) {
            match piece {
                Piece::Chunk(chunk) => replaced.push(content.put(span.number, chunk.into_id())),
                Piece::Bytes(bytes) => {
                    if content.get(span.number) == 0 {
                        let mut chunk = edges.pop().expect("one for each hole");
                        chunk.zero();
                        content.put(span.number, chunk.into_id());
                    }
                    let position = span.number * CHUNK_BYTES as u64 + span.start as u64;
                    self.copy_in(content, position, &bytes);
                }
            }
        }
        replaced.retain(|id| *id != 0);
        Ok(replaced)
    }
}

fn set_time(time: &mut u64, new: set_time) {
    match new {
        set_time::DONT_CHANGE(()) => {}
        set_time::SET_TO_SERVER_TIME(()) => *time = wall_ns(),
        set_time::SET_TO_CLIENT_TIME(new) => *time = from_nfstime(new),
    }
}

fn symlink(target: &[u8]) -> Result<Body, nfsstat3> {
    match target.len() {
        0 => Err(nfsstat3::NFS3ERR_INVAL),
        length if length > SYMLINK_BYTES_MAX => Err(nfsstat3::NFS3ERR_NAMETOOLONG),
        _ => Ok(Body::Symlink(target.to_vec())),
    }
}

fn exclusive(what: &Creation<'_>) -> Option<createverf3> {
    match what {
        Creation::File(createhow3::EXCLUSIVE(verf)) => Some(*verf),
        _ => None,
    }
}

fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// Checks a name that is to go away or to be replaced.
pub(crate) fn check_removable(name: &[u8]) -> Result<(), nfsstat3> {
    match name {
        b"." => Err(nfsstat3::NFS3ERR_INVAL),
        b".." => Err(nfsstat3::NFS3ERR_EXIST),
        name => check_name(name),
    }
}

/// Device number of files that have none.
pub(crate) const NO_DEVICE: specdata3 = specdata3 { specdata1: 0, specdata2: 0 };
