//! Files of any type as the memory store has them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use iocurve_wire::nfs3::{createverf3, fattr3, ftype3, nfsstat3, specdata3, wcc_attr};

use super::content::Content;
use super::directory::Directory;
use crate::store::access::{Caller, Permissions};
use crate::store::times::{to_nfstime, wall_ns};

/// Device number of files that are not devices.
const NO_DEVICE: specdata3 = specdata3 { specdata1: 0, specdata2: 0 };

/// A file that was written within this time is expected to be written again: 0.1 s. READs of 256 KiB among as many WRITEs to the same
/// file ran at two thirds of the speed when they were sent by reference.
const CHANGING_NS: u64 = 100_000_000;

/// A file of any type. Times are nanoseconds since 1970. `mtime` and `ctime` change under a lock for reading, too.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) file_type: ftype3,
    pub(super) mode: u32,
    pub(super) nlink: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) size: u64,
    pub(super) atime: u64,
    pub(super) mtime: AtomicU64,
    ctime: AtomicU64,
    /// Verifier of the exclusive CREATE that made it.
    pub(super) createverf: Option<createverf3>,
    pub(super) body: Body,
}

#[derive(Debug)]
pub(super) enum Body {
    File(Content),
    /// Boxed: a slot for a file should not be as large as one for a directory.
    Directory(Box<Directory>),
    Symlink(Vec<u8>),
    Special(specdata3),
}

impl Node {
    pub(super) fn new(file_type: ftype3, mode: u32, caller: Caller, body: Body) -> Self {
        let now = wall_ns();
        let nlink = if file_type == ftype3::NF3DIR { 2 } else { 1 };
        let Caller { uid, gid, .. } = caller;
        let (mtime, ctime) = (now.into(), now.into());
        let mut node =
            Self { file_type, mode, nlink, uid, gid, size: 0, atime: now, mtime, ctime, createverf: None, body };
        node.size = node.target_bytes();
        node
    }

    #[inline]
    pub(super) fn permissions(&self) -> Permissions {
        Permissions { mode: self.mode, uid: self.uid, gid: self.gid }
    }

    /// Data of a regular file, or the error for any other.
    #[inline]
    pub(super) fn content(&self) -> Result<&Content, nfsstat3> {
        match &self.body {
            Body::File(content) => Ok(content),
            Body::Directory(_) => Err(nfsstat3::NFS3ERR_ISDIR),
            _ => Err(nfsstat3::NFS3ERR_INVAL),
        }
    }

    /// As [`content`](Self::content).
    pub(super) fn content_mut(&mut self) -> Result<&mut Content, nfsstat3> {
        match &mut self.body {
            Body::File(content) => Ok(content),
            Body::Directory(_) => Err(nfsstat3::NFS3ERR_ISDIR),
            _ => Err(nfsstat3::NFS3ERR_INVAL),
        }
    }

    /// Bytes of a symbolic link's target, which count as data do.
    pub(super) fn target_bytes(&self) -> u64 {
        if let Body::Symlink(target) = &self.body { target.len() as u64 } else { 0 }
    }

    /// Names in a directory, or the error for anything else.
    pub(super) fn directory(&self) -> Result<&Directory, nfsstat3> {
        match &self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(nfsstat3::NFS3ERR_NOTDIR),
        }
    }

    /// As [`directory`](Self::directory).
    pub(super) fn directory_mut(&mut self) -> Result<&mut Directory, nfsstat3> {
        match &mut self.body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(nfsstat3::NFS3ERR_NOTDIR),
        }
    }

    /// Notes a change of data. Times increase with every change, so that clients notice each one.
    #[inline]
    pub(super) fn touch(&self) {
        let now = wall_ns();
        advance(&self.mtime, now);
        advance(&self.ctime, now);
    }

    /// True if the file was written so recently that more writes are to be expected.
    pub(super) fn is_changing(&self) -> bool {
        wall_ns().saturating_sub(self.mtime.load(Relaxed)) < CHANGING_NS
    }

    /// True if the mode has neither set-user-ID nor set-group-ID, which a WRITE would clear.
    #[inline]
    pub(super) fn is_unprivileged(&self) -> bool {
        self.mode & 0o6000 == 0
    }

    /// Notes a change of attributes.
    pub(super) fn touch_ctime(&self) {
        advance(&self.ctime, wall_ns());
    }

    /// The attributes in `pre_op_attr`.
    #[inline]
    pub(super) fn wcc(&self) -> wcc_attr {
        let time = |time: &AtomicU64| to_nfstime(time.load(Relaxed));
        wcc_attr { size: self.size, mtime: time(&self.mtime), ctime: time(&self.ctime) }
    }

    #[inline]
    pub(super) fn attributes(&self, fileid: u64, fsid: u64) -> fattr3 {
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

/// Moves a time to `now`, or further if it is there already: writers that share the lock each move it.
#[inline]
fn advance(time: &AtomicU64, now: u64) {
    let later = |last: u64| Some(now.max(last + 1));
    // It always has a new value.
    let _ = time.fetch_update(Relaxed, Relaxed, later);
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn time_moves_on_at_every_change_of_several_writers() {
        const CHANGES: u64 = 200_000;
        let node = Node::new(ftype3::NF3REG, 0, Caller::default(), Body::File(Content::default()));
        // Far ahead of the clock, each change is one step.
        for time in [&node.mtime, &node.ctime] {
            time.store(u64::MAX / 2, Relaxed);
        }
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..CHANGES).for_each(|_| node.touch()));
            }
        });
        let moved = [&node.mtime, &node.ctime].map(|time| time.load(Relaxed) - u64::MAX / 2);
        assert_eq!(moved, [2 * CHANGES; 2]);
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
