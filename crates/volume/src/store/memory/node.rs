//! Files and directories of the memory store, and the slots they live in.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use iocurve_wire::nfs3::{createverf3, fattr3, ftype3, nfsstat3, specdata3, wcc_attr};

use super::content::Content;
use super::{Caller, NO_DEVICE};
use crate::store::access::Permissions;
use crate::store::{to_nfstime, wall_ns};

/// A file that was written within this time is expected to be written again: 0.1 s. READs of 256 KiB among as many WRITEs to the same
/// file ran at two thirds of the speed when they were sent by reference.
const CHANGING_NS: u64 = 100_000_000;

/// All slots. They come in segments that double in size and never move, so that a slot is found without a lock.
#[derive(Debug, Default)]
pub struct Slots {
    segments: [OnceLock<Box<[Slot]>>; 20],
}

/// Slots of the first segment.
const FIRST_SEGMENT: u32 = 128;

/// A place for one node.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Slot(RwLock<Held>);

/// What is in a slot.
#[derive(Debug, Default)]
pub struct Held {
    /// How many nodes were here before; part of the handle.
    pub generation: u32,
    /// The node, if there is one.
    pub node: Option<Node>,
}

impl Slots {
    /// The slot with this number, if its segment is there.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&Slot> {
        let (segment, offset) = Self::place(index)?;
        self.segments.get(segment)?.get()?.get(offset)
    }

    /// The slot with this number.
    pub fn get_or_make(&self, index: u32) -> &Slot {
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
    /// Locks for reading.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, Held> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks for writing.
    pub fn write(&self) -> RwLockWriteGuard<'_, Held> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// The node, if it is the one that a handle meant.
    #[inline]
    pub fn expect(&self, generation: u32) -> Result<&Node, nfsstat3> {
        self.node.as_ref().filter(|_| self.generation == generation).ok_or(nfsstat3::NFS3ERR_STALE)
    }

    /// The node, if it is the one that a handle meant.
    pub fn expect_mut(&mut self, generation: u32) -> Result<&mut Node, nfsstat3> {
        self.node.as_mut().filter(|_| self.generation == generation).ok_or(nfsstat3::NFS3ERR_STALE)
    }
}

/// A file of any type. Times are nanoseconds since 1970; those that a WRITE sets change under a lock for reading.
#[derive(Debug)]
pub struct Node {
    pub file_type: ftype3,
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    pub atime: u64,
    pub mtime: AtomicU64,
    ctime: AtomicU64,
    /// Of the exclusive CREATE that made it.
    pub createverf: Option<createverf3>,
    pub body: Body,
}

/// What a node holds beside its attributes.
#[derive(Debug)]
pub enum Body {
    File(Content),
    /// Boxed: a slot for a file should not be as large as one for a directory.
    Directory(Box<Directory>),
    Symlink(Vec<u8>),
    Special(specdata3),
}

impl Node {
    /// A node made now.
    pub fn new(file_type: ftype3, mode: u32, caller: Caller, body: Body) -> Self {
        let now = wall_ns();
        let size = if let Body::Symlink(target) = &body { target.len() as u64 } else { 0 };
        let nlink = if file_type == ftype3::NF3DIR { 2 } else { 1 };
        let Caller { uid, gid, .. } = caller;
        let (mtime, ctime) = (now.into(), now.into());
        Self { file_type, mode, nlink, uid, gid, size, atime: now, mtime, ctime, createverf: None, body }
    }

    /// What decides who may do what with it.
    #[inline]
    pub fn permissions(&self) -> Permissions {
        Permissions { mode: self.mode, uid: self.uid, gid: self.gid }
    }

    /// Data of a regular file.
    #[inline]
    pub fn content(&self) -> Result<&Content, nfsstat3> {
        match &self.body {
            Body::File(content) => Ok(content),
            Body::Directory(_) => Err(nfsstat3::NFS3ERR_ISDIR),
            _ => Err(nfsstat3::NFS3ERR_INVAL),
        }
    }

    /// Data of a regular file.
    pub fn content_mut(&mut self) -> Result<&mut Content, nfsstat3> {
        match &mut self.body {
            Body::File(content) => Ok(content),
            Body::Directory(_) => Err(nfsstat3::NFS3ERR_ISDIR),
            _ => Err(nfsstat3::NFS3ERR_INVAL),
        }
    }

    /// Names in a directory.
    pub fn directory(&self) -> Result<&Directory, nfsstat3> {
        match &self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(nfsstat3::NFS3ERR_NOTDIR),
        }
    }

    /// Names in a directory.
    pub fn directory_mut(&mut self) -> Result<&mut Directory, nfsstat3> {
        match &mut self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(nfsstat3::NFS3ERR_NOTDIR),
        }
    }

    /// Notes a change of data. Time moves on at every change, so that clients notice each one.
    #[inline]
    pub fn touch(&self) {
        let now = wall_ns();
        advance(&self.mtime, now);
        advance(&self.ctime, now);
    }

    /// Whether it was written just now.
    pub fn is_changing(&self) -> bool {
        wall_ns().saturating_sub(self.mtime.load(Relaxed)) < CHANGING_NS
    }

    /// Whether there is no set-user-ID or set-group-ID, which a WRITE would take away.
    #[inline]
    pub fn is_unprivileged(&self) -> bool {
        self.mode & 0o6000 == 0
    }

    /// Notes a change of attributes.
    pub fn touch_ctime(&self) {
        advance(&self.ctime, wall_ns());
    }

    /// What `pre_op_attr` says.
    #[inline]
    pub fn wcc(&self) -> wcc_attr {
        let time = |time: &AtomicU64| to_nfstime(time.load(Relaxed));
        wcc_attr { size: self.size, mtime: time(&self.mtime), ctime: time(&self.ctime) }
    }

    /// All attributes.
    #[inline]
    pub fn attributes(&self, fileid: u64, fsid: u64) -> fattr3 {
        let (size, used, rdev) = match &self.body {
            Body::File(content) => (self.size, content.bytes(), NO_DEVICE),
            Body::Directory(directory) => (directory.size(), 4096, NO_DEVICE),
            Body::Symlink(_) => (self.size, 0, NO_DEVICE),
            Body::Special(spec) => (0, 0, *spec),
        };
        let wcc_attr { mtime, ctime, .. } = self.wcc();
        let Self { file_type, mode, nlink, uid, gid, .. } = *self;
        fattr3 {
            file_type,
            mode,
            nlink,
            uid,
            gid,
            size,
            used,
            rdev,
            fsid,
            fileid,
            atime: to_nfstime(self.atime),
            mtime,
            ctime,
        }
    }
}

fn advance(time: &AtomicU64, now: u64) {
    let last = time.load(Relaxed);
    time.store(now.max(last + 1), Relaxed);
}

/// Names in a directory. Cookies count names up as they come, so that one never means another name.
#[derive(Debug)]
pub struct Directory {
    /// The directory it is in; the root is in itself.
    pub parent: u32,
    cookies: HashMap<Arc<[u8]>, u64>,
    entries: BTreeMap<u64, (Arc<[u8]>, u32)>,
    next_cookie: u64,
}

/// Cookie of `.`.
const DOT: u64 = 1;
/// Cookie of `..`.
const DOT_DOT: u64 = 2;

impl Directory {
    /// An empty directory.
    pub fn new(parent: u32) -> Self {
        Self { parent, cookies: HashMap::new(), entries: BTreeMap::new(), next_cookie: DOT_DOT + 1 }
    }

    /// Whether there are no names but the two that every directory has.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes that `ls` shows.
    pub fn size(&self) -> u64 {
        4096 + 32 * self.entries.len() as u64
    }

    /// The node under a name.
    pub fn get(&self, name: &[u8]) -> Option<u32> {
        self.cookies.get(name).map(|cookie| self.entries[cookie].1)
    }

    /// Puts a node under a name, in the place of any other.
    pub fn insert(&mut self, name: &[u8], index: u32) {
        if let Some(cookie) = self.cookies.get(name) {
            self.entries.get_mut(cookie).expect("both tables agree").1 = index;
            return;
        }
        let name: Arc<[u8]> = name.into();
        self.cookies.insert(Arc::clone(&name), self.next_cookie);
        self.entries.insert(self.next_cookie, (name, index));
        self.next_cookie += 1;
    }

    /// Takes a name away.
    pub fn remove(&mut self, name: &[u8]) {
        if let Some(cookie) = self.cookies.remove(name) {
            self.entries.remove(&cookie);
        }
    }

    /// At most `limit` names after `cookie` with their cookies and nodes, and whether nothing follows them.
    pub fn list(&self, own: u32, cookie: u64, limit: usize) -> (Vec<(u64, Vec<u8>, u32)>, bool) {
        let dots = [(DOT, b".".to_vec(), own), (DOT_DOT, b"..".to_vec(), self.parent)];
        let dots = dots.into_iter().filter(|dot| dot.0 > cookie);
        let after = self.entries.range((Excluded(cookie.max(DOT_DOT)), Unbounded));
        let names = after.map(|(cookie, (name, index))| (*cookie, name.to_vec(), *index));
        let mut all = dots.chain(names);
        let listed: Vec<_> = all.by_ref().take(limit).collect();
        (listed, all.next().is_none())
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

    #[test]
    fn cookies_outlive_changes() {
        let mut directory = Directory::new(0);
        for name in ["a", "b", "c"] {
            directory.insert(name.as_bytes(), 9);
        }
        let (first, end) = directory.list(5, 0, 3);
        assert_eq!(first.iter().map(|(_, name, _)| name.as_slice()).collect::<Vec<_>>(), [&b"."[..], b"..", b"a"]);
        assert!(!end);
        directory.remove(b"b");
        directory.insert(b"b", 9);
        let (rest, end) = directory.list(5, first[2].0, 10);
        assert_eq!(rest.iter().map(|(_, name, _)| name.as_slice()).collect::<Vec<_>>(), [b"c", b"b"]);
        assert!(end);
    }

    #[test]
    fn what_was_written_just_now_is_changing() {
        let node = Node::new(ftype3::NF3REG, 0, Caller::default(), Body::File(Content::default()));
        assert!(node.is_changing());
        node.mtime.store(wall_ns() - CHANGING_NS, Relaxed);
        assert!(!node.is_changing());
        node.touch();
        assert!(node.is_changing());
    }

    #[test]
    fn time_moves_on_at_every_change() {
        let node = Node::new(ftype3::NF3REG, 0, Caller::default(), Body::File(Content::default()));
        node.mtime.store(u64::MAX / 2, Relaxed);
        node.touch();
        node.touch();
        assert_eq!(node.mtime.load(Relaxed), u64::MAX / 2 + 2);
    }
}
