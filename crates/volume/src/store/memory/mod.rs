//! Files in memory: sparse, bounded, and read without a copy.
//!
//! A READ takes the file's lock for reading, lends chunks to the batch, and is done; chunks that are freed meanwhile stay mapped
//! until every batch that may show them has been sent (epochs). Small files are in pieces of chunks, and copied. A client may still see chunks that were sent by reference. These are
//! parted from their pages before they are used again: by whole huge pages where possible; other huge pages are split by it, and
//! rebuilt when a thread is idle. A WRITE over existing data takes the lock for reading, too: like writers of one mapped file,
//! clients that race for the same bytes get one or the other of them.

mod content;
mod data;
mod directory;
mod node;
mod pieces;
mod slots;
mod tree;

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use iocurve_wire::nfs3::{
    cookieverf3, fattr3, ftype3, nfs_fh3, nfsstat3, sattr3, sattrguard3, set_time, stable_how, wcc_data,
};

use super::access::{self, Caller, without_privileges};
use super::budget::Budget;
use super::contract::{
    Changed, Creation, Entry, FILE_BYTES_MAX, Listed, NAME_BYTES, Named, Range, Read, Removal, Space, Store,
    TRANSFER_BYTES_MAX, Upkeep, Written, check_end,
};
use super::handle::HandleKey;
use super::names::NAME_BYTES_MAX;
use super::operations;
use super::times::{from_nfstime, wall_ns};
use super::write_buffer::WriteBuffer;
use crate::reply::batch::{BULK_PIECE_BYTES, Batch};
use data::DataMemory;
use directory::{Directory, Link};
use node::{Body, Node};
use slots::{FILES_MAX, FreeSlots, Held, ROOT, Slot, Slots};

/// Bytes of a handle: the store's id, the slot, and a stamp.
const HANDLE_BYTES: usize = 8 + 4 + 8;

/// Names of a directory that are taken under its lock at once, if their attributes are listed, too. A thread that holds the lock of a directory
/// waits for the lock of no file, so the attributes are looked up between two pages.
const PAGE_NAMES_MIN: usize = 8;
const PAGE_NAMES_MAX: usize = 64;

/// The root is the first node of its slot.
const ROOT_GENERATION: u64 = 0;

/// Files in memory.
#[derive(Debug)]
pub(crate) struct MemoryStore {
    /// Begins every handle, and tells this store's handles from those of an earlier one.
    id: [u8; 8],
    key: HandleKey,
    slots: Slots,
    /// Held while names change.
    namespace: Mutex<FreeSlots>,
    data: DataMemory,
}

impl MemoryStore {
    /// An empty store of at most `limit_bytes` (then `NFS3ERR_NOSPC`) and `quota_bytes` (then `NFS3ERR_DQUOT`), data and
    /// metadata together. `id` must differ from that of an earlier store whose handles clients may still have.
    pub(crate) fn new(id: [u8; 8], quota_bytes: u64, limit_bytes: u64) -> io::Result<Self> {
        // As many as names fit, and the root.
        let most = (limit_bytes / NAME_BYTES + 1).min(FILES_MAX.into()) as u32;
        let (slots, namespace) = (Slots::new(most), Mutex::new(FreeSlots::new(most)));
        let (key, data) = (HandleKey::random(), DataMemory::new(quota_bytes, limit_bytes)?);
        let store = Self { id, key, slots, namespace, data };
        let root = store.link(ROOT, ROOT_GENERATION);
        let body = Body::Directory(Box::new(Directory::new(root, 0)));
        store.put(root, Node::new(ftype3::NF3DIR, 0o777, Caller::default(), body));
        Ok(store)
    }

    /// The link to a node that is to be in a slot. `generation` tells nodes of the same slot apart.
    fn link(&self, index: u32, generation: u64) -> Link {
        Link { index, stamp: self.key.check([u64::from_be_bytes(self.id), index.into(), generation]) }
    }

    /// Puts a node into its slot.
    fn put(&self, Link { index, stamp }: Link, node: Node) {
        *self.slots.get_or_make(index).write() = Held { stamp, node: Some(node) };
    }

    /// Start of the store, position of the node, and the stamp that proves both.
    fn handle(&self, Link { index, stamp }: Link) -> nfs_fh3 {
        let mut bytes = [0; HANDLE_BYTES];
        bytes[..8].copy_from_slice(&self.id);
        bytes[8..12].copy_from_slice(&index.to_be_bytes());
        bytes[12..].copy_from_slice(&stamp.to_be_bytes());
        nfs_fh3::new(&bytes).expect("short enough")
    }

    /// Finds the slot that a handle names, and the stamp that it expects there.
    #[inline]
    fn locate(&self, handle: &[u8]) -> Result<(u32, &Slot, u64), nfsstat3> {
        let handle: &[u8; HANDLE_BYTES] = handle.try_into().map_err(|_| nfsstat3::NFS3ERR_BADHANDLE)?;
        if handle[..8] != self.id {
            return Err(nfsstat3::NFS3ERR_STALE);
        }
        let index = u32::from_be_bytes([handle[8], handle[9], handle[10], handle[11]]);
        let slot = self.slots.get(index).ok_or(nfsstat3::NFS3ERR_STALE)?;
        let stamp = u64::from_be_bytes(*handle.last_chunk().expect("longer"));
        Ok((index, slot, stamp))
    }

    fn view<R>(&self, handle: &[u8], view: impl FnOnce(Link, &Node) -> Result<R, nfsstat3>) -> Result<R, nfsstat3> {
        let (index, slot, stamp) = self.locate(handle)?;
        view(Link { index, stamp }, slot.read().expect(stamp)?)
    }

    // The compiler by itself inlines it or not as other code changes: 40 instructions of each READ and GETATTR.
    #[inline]
    fn attributes(&self, index: u32, stamp: u64, node: &Node) -> fattr3 {
        node.attributes(fileid(Link { index, stamp }), u64::from_be_bytes(self.id))
    }

    fn namespace(&self) -> MutexGuard<'_, FreeSlots> {
        self.namespace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file by its link.
    fn named(&self, link: Link) -> Result<Named, nfsstat3> {
        let Link { index, stamp } = link;
        let held = self.slots.get(index).ok_or(nfsstat3::NFS3ERR_STALE)?.read();
        Ok(Named { handle: self.handle(link), attributes: self.attributes(index, stamp, held.expect(stamp)?) })
    }

    fn entry<'n>(&self, name: &'n [u8], (cookie, link): (u64, Link), attributes: Option<fattr3>) -> Entry<'n> {
        Entry { fileid: fileid(link), name, cookie, handle: Some(self.handle(link)), attributes }
    }

    /// Sets attributes as a client asked for them.
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

    fn resize(&self, node: &mut Node, size: u64) -> Result<(), nfsstat3> {
        if size > FILE_BYTES_MAX {
            return Err(nfsstat3::NFS3ERR_FBIG);
        }
        let shorter = size < node.size;
        let content = node.content_mut()?;
        if shorter {
            self.data.truncate(content, size);
        }
        node.size = size;
        node.touch();
        Ok(())
    }
}

impl Store for MemoryStore {
    fn root(&self) -> nfs_fh3 {
        self.handle(self.link(ROOT, ROOT_GENERATION))
    }

    #[inline]
    fn getattr(&self, file: &[u8]) -> Result<fattr3, nfsstat3> {
        let (index, slot, stamp) = self.locate(file)?;
        Ok(self.attributes(index, stamp, slot.read().expect(stamp)?))
    }

    fn setattr(&self, caller: &Caller, file: &[u8], new: &sattr3, guard: sattrguard3) -> Changed {
        let (index, slot, stamp) = match self.locate(file) {
            Ok(located) => located,
            Err(status) => return Changed::refused(status),
        };
        // The attributes of a directory change with its names, too.
        let is_directory = slot.read().expect(stamp).is_ok_and(|node| node.file_type == ftype3::NF3DIR);
        let _names = is_directory.then(|| self.namespace());
        let mut held = slot.write();
        let node = match held.expect_mut(stamp) {
            Ok(node) => node,
            Err(status) => return Changed::refused(status),
        };
        let before = self.attributes(index, stamp, node);
        let result = access::check_setattr(caller, &before, new).and_then(|new| match guard {
            Some(ctime) if ctime != before.ctime => Err(nfsstat3::NFS3ERR_NOT_SYNC),
            _ => self.apply(node, &new),
        });
        let after = Some(self.attributes(index, stamp, node));
        Changed { result, wcc: wcc_data { before: Some(before.wcc()), after } }
    }

    fn lookup(&self, caller: &Caller, directory: &[u8], name: &[u8]) -> Result<(Named, fattr3), nfsstat3> {
        let (found, attributes) = self.view(directory, |own, node| {
            let attributes = self.attributes(own.index, own.stamp, node);
            operations::check_search(caller, &attributes)?;
            let found = match (node.directory()?, name) {
                (_, b".") => own,
                (directory, b"..") => directory.parent,
                (_, name) if name.len() > NAME_BYTES_MAX => return Err(nfsstat3::NFS3ERR_NAMETOOLONG),
                (directory, name) => directory.get(name).ok_or(nfsstat3::NFS3ERR_NOENT)?,
            };
            Ok((found, attributes))
        })?;
        // One that has just been removed is no other file that took its slot.
        Ok((self.named(found).map_err(|_| nfsstat3::NFS3ERR_NOENT)?, attributes))
    }

    fn readlink(&self, link: &[u8]) -> Result<Vec<u8>, nfsstat3> {
        self.view(link, |_, node| match &node.body {
            Body::Symlink(target) => Ok(target.clone()),
            _ => Err(nfsstat3::NFS3ERR_INVAL),
        })
    }

    #[inline]
    fn read(&self, caller: &Caller, file: &[u8], offset: u64, count: u32, batch: &mut Batch) -> Result<Read, nfsstat3> {
        let (index, slot, stamp) = self.locate(file)?;
        let held = slot.read();
        let node = held.expect(stamp)?;
        let content = node.content()?;
        node.permissions().check_read(caller)?;
        let left = node.size.saturating_sub(offset);
        let count = u64::from(count.min(TRANSFER_BYTES_MAX)).min(left) as u32;
        self.data.lend(content, offset, count as usize, batch);
        if count as usize >= BULK_PIECE_BYTES && node.is_changing() {
            batch.expect_change();
        }
        batch.pad(count as usize);
        let attributes = self.attributes(index, stamp, node);
        Ok(Read { attributes, count, eof: u64::from(count) == left })
    }

    #[inline]
    fn write(
        &self,
        caller: &Caller,
        file: &[u8],
        offset: u64,
        data: &[u8],
        _: stable_how,
    ) -> Result<Written, nfsstat3> {
        let end = check_end(offset, data.len() as u64)?;
        let (index, slot, stamp) = self.locate(file)?;
        {
            let held = slot.read();
            let node = held.expect(stamp)?;
            let content = node.content()?;
            node.permissions().check_write(caller)?;
            if end <= node.size && node.is_unprivileged() && content.covers(offset, data.len()) {
                let before = node.wcc();
                self.data.copy_in(content, offset, data);
                node.touch();
                return Ok(Written { before, after: self.attributes(index, stamp, node) });
            }
        }
        let mut held = slot.write();
        let node = held.expect_mut(stamp)?;
        let before = node.wcc();
        if !data.is_empty() {
            self.data.write(index, node.content_mut()?, offset, data)?;
        }
        node.size = node.size.max(end);
        node.mode = without_privileges(node.mode);
        node.touch();
        Ok(Written { before, after: self.attributes(index, stamp, node) })
    }

    fn begin_write(&self, caller: &Caller, file: &[u8], offset: u64, length: u32) -> Result<WriteBuffer, nfsstat3> {
        check_end(offset, u64::from(length))?;
        let Link { index, .. } = self.view(file, |own, node| {
            node.content().and_then(|_| node.permissions().check_write(caller)).map(|()| own)
        })?;
        self.data.buffer(index, file, offset, length as usize)
    }

    fn finish_write(&self, buffer: WriteBuffer, _: stable_how) -> Result<Written, nfsstat3> {
        let end = check_end(buffer.offset, buffer.length() as u64)?;
        let (index, slot, stamp) = self.locate(buffer.file.as_bytes())?;
        let mut held = slot.write();
        let node = held.expect_mut(stamp)?;
        let before = node.wcc();
        let replaced = self.data.put(index, node.content_mut()?, buffer)?;
        node.size = node.size.max(end);
        node.mode = without_privileges(node.mode);
        node.touch();
        let after = self.attributes(index, stamp, node);
        drop(held);
        self.data.retire(replaced);
        Ok(Written { before, after })
    }

    fn commit(&self, file: &[u8]) -> Result<Written, nfsstat3> {
        let (index, slot, stamp) = self.locate(file)?;
        let held = slot.read();
        let node = held.expect(stamp)?;
        node.content()?;
        Ok(Written { before: node.wcc(), after: self.attributes(index, stamp, node) })
    }

    fn sync_failures(&self) -> u64 {
        0
    }

    fn create(&self, caller: &Caller, directory: &[u8], name: &[u8], what: Creation<'_>) -> Changed<Named> {
        self.change(caller, (directory, name), |free_slots, parent| {
            self.create_in(free_slots, caller, parent, name, what)
        })
    }

    fn remove(&self, caller: &Caller, directory: &[u8], name: &[u8], what: Removal) -> Changed {
        self.change(caller, (directory, name), |free_slots, parent| {
            self.remove_from(free_slots, caller, parent, name, what)
        })
    }

    fn rename(
        &self,
        caller: &Caller,
        (from, old): (&[u8], &[u8]),
        (to, new): (&[u8], &[u8]),
    ) -> Changed<(), (wcc_data, wcc_data)> {
        let mut target = wcc_data::default();
        let Changed { result, wcc } = self.change(caller, (from, old), |free_slots, from| {
            let mut to = self.parent(to, new)?;
            let renamed = operations::check_search(caller, &to.attributes)
                .and_then(|()| self.rename_in(free_slots, caller, (from, old), (&mut to, new)));
            target = to.wcc();
            renamed
        });
        Changed { result, wcc: (wcc, target) }
    }

    fn link(&self, caller: &Caller, file: &[u8], directory: &[u8], name: &[u8]) -> Changed {
        self.change(caller, (directory, name), |_, parent| self.link_in(caller, parent, name, file))
    }

    fn readdir(
        &self,
        caller: &Caller,
        directory: &[u8],
        range: Range,
        visit: &mut dyn FnMut(&Entry<'_>) -> bool,
    ) -> Result<Listed, nfsstat3> {
        let (mut after, mut page) = (range.after, PAGE_NAMES_MIN);
        let (mut names, mut found) = (Vec::new(), Vec::new());
        loop {
            let listed = self.view(directory, |own, node| {
                let directory = self.attributes(own.index, own.stamp, node);
                access::check(caller, &directory, access::READ)?;
                let end = node.directory()?.list(own, after, |cookie, name, link| {
                    if !range.with_attributes {
                        return visit(&self.entry(name, (cookie, link), None));
                    }
                    let has_room = found.len() < page;
                    if has_room {
                        found.push((names.len(), name.len(), cookie, link));
                        names.extend_from_slice(name);
                    }
                    has_room
                });
                Ok(Listed { directory, end })
            })?;
            for (start, length, cookie, link) in found.drain(..) {
                let attributes = self.named(link).ok().map(|named| named.attributes);
                if !visit(&self.entry(&names[start..start + length], (cookie, link), attributes)) {
                    return Ok(Listed { end: false, ..listed });
                }
                after = cookie;
            }
            if listed.end || !range.with_attributes {
                return Ok(listed);
            }
            names.clear();
            page = (2 * page).min(PAGE_NAMES_MAX);
        }
    }

    fn cookieverf(&self, _directory: &[u8]) -> cookieverf3 {
        self.id
    }

    fn space(&self) -> Space {
        let budget = &self.data.budget;
        let (bytes_total, bytes_free, nodes) = (budget.limit(), budget.free(), self.namespace().nodes());
        // As many more as names fit.
        let files_free = (u64::from(FILES_MAX) - nodes).min(bytes_free / NAME_BYTES);
        Space { bytes_total, bytes_free, files_total: nodes + files_free, files_free }
    }

    fn budget(&self) -> &Budget {
        &self.data.budget
    }
}

impl Upkeep for MemoryStore {
    fn sent_by_reference(&self, data: *const u8, length: usize) {
        self.data.arena.sent_by_reference(data, length);
    }

    fn reclaim(&self) -> bool {
        self.data.reclaim()
    }

    fn needs_repair(&self) -> bool {
        self.data.arena.needs_repair()
    }

    fn repair_huge_page(&self) -> bool {
        self.data.arena.repair_huge_page()
    }
}

/// A number that no other file of the store has, nor one that was removed.
fn fileid(Link { index, stamp }: Link) -> u64 {
    stamp << 32 | u64::from(index + 1)
}

fn set_time(time: &mut u64, new: set_time) {
    match new {
        set_time::DONT_CHANGE(()) => {}
        set_time::SET_TO_SERVER_TIME(()) => *time = wall_ns(),
        set_time::SET_TO_CLIENT_TIME(new) => *time = from_nfstime(new),
    }
}
