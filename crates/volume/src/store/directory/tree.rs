//! Changes of names. They are serialized by the namespace lock, so that the inodes that are known follow the file system.

use std::ffi::CString;
use std::os::fd::OwnedFd;

use iocurve_wire::nfs3::{createhow3, createverf3, ftype3, nfs_fh3, nfsstat3, sattr3, set_time, wcc_data};

use super::DirectoryStore;
use super::sys::{self, Found, Id, Stat, status_of};
use crate::store::access::Caller;
use crate::store::contract::{Creation, Entry, NAME_BYTES, Store};
use crate::store::names::{check_name, check_removable, is_dots};

impl DirectoryStore {
    /// Changes names in one directory and records its attributes before and after.
    pub(super) fn change<R>(
        &self,
        directory: &[u8],
        wcc: &mut wcc_data,
        change: impl FnOnce(&OwnedFd, u64) -> Result<R, nfsstat3>,
    ) -> Result<R, nfsstat3> {
        let _names = self.namespace();
        let id = self.id(directory)?;
        wcc.before = Some(self.stat(id)?.attributes().wcc());
        let changed = self.open_directory(id).and_then(|fd| change(&fd, id.inode));
        wcc.after = self.getattr(directory).ok();
        changed
    }

    pub(super) fn create_in(
        &self,
        directory: &OwnedFd,
        parent: u64,
        name: &[u8],
        what: &Creation<'_>,
        caller: Caller,
    ) -> Result<nfs_fh3, nfsstat3> {
        check_name(name)?;
        if is_dots(name) {
            return Err(nfsstat3::NFS3ERR_EXIST);
        }
        match (self.stat_in(directory, name), what) {
            (Some(stat), Creation::File(how)) => {
                self.discover(&stat, parent, name);
                self.create_existing(&stat, how)
            }
            _ => self.make(directory, parent, name, what, caller),
        }
    }

    /// Answers CREATE for a name that exists.
    fn create_existing(&self, stat: &Stat, how: &createhow3) -> Result<nfs_fh3, nfsstat3> {
        let exists = match how {
            createhow3::GUARDED(_) => true,
            createhow3::EXCLUSIVE(verf) => stat.verifier() != verifier(*verf),
            createhow3::UNCHECKED(_) => stat.file_type != ftype3::NF3REG,
        };
        if exists {
            return Err(nfsstat3::NFS3ERR_EXIST);
        }
        if let createhow3::UNCHECKED(sattr3 { size: Some(size), .. }) = how {
            self.resize(stat.id, *size)?;
        }
        Ok(self.handle(stat.id))
    }

    /// Makes a name that does not exist. If that fails halfway, nothing of it stays.
    fn make(
        &self,
        directory: &OwnedFd,
        parent: u64,
        name: &[u8],
        what: &Creation<'_>,
        caller: Caller,
    ) -> Result<nfs_fh3, nfsstat3> {
        let path = CString::new(name).map_err(|_| nfsstat3::NFS3ERR_INVAL)?;
        self.budget.take(NAME_BYTES)?;
        if let Err(error) = sys::make(directory, &path, what) {
            self.budget.give_back(NAME_BYTES);
            return Err(status_of(&error));
        }
        let made = self.finish_make(directory, parent, name, what, caller);
        if made.is_err() {
            self.undo_make(directory, parent, name, what);
        }
        made
    }

    /// Gives a new name to the caller if this process may, and sets its attributes.
    fn finish_make(
        &self,
        directory: &OwnedFd,
        parent: u64,
        name: &[u8],
        what: &Creation<'_>,
        caller: Caller,
    ) -> Result<nfs_fh3, nfsstat3> {
        let stat = self.stat_in(directory, name).ok_or(nfsstat3::NFS3ERR_IO)?;
        self.inodes.remember(stat.id, parent, name);
        let mut new = attributes_of(what);
        let (fd, _) = self.reach(stat.id, libc::O_PATH)?;
        let owner = (new.uid.take().or(Some(caller.uid)), new.gid.take().or(Some(caller.gid)));
        match sys::chown(&fd, owner.0, owner.1) {
            // Only root can give files away; a server that is not root owns them itself. A file that root was asked to give away
            // must not stay root's.
            Err(error) if sys::is_root() => return Err(status_of(&error)),
            _ => {}
        }
        if stat.file_type == ftype3::NF3LNK {
            new.mode = None;
        }
        self.apply(stat.id, &new)?;
        Ok(self.handle(stat.id))
    }

    /// Removes a name that was made a moment ago. What cannot be removed stays, and counts against the quota.
    fn undo_make(&self, directory: &OwnedFd, parent: u64, name: &[u8], what: &Creation<'_>) {
        let flags = if matches!(what, Creation::Directory(_)) { libc::AT_REMOVEDIR } else { 0 };
        let _ = self.unlink(directory, parent, name, flags);
    }

    pub(super) fn unlink(&self, directory: &OwnedFd, parent: u64, name: &[u8], flags: i32) -> Result<(), nfsstat3> {
        check_removable(name)?;
        let stat = self.stat_in(directory, name).ok_or(nfsstat3::NFS3ERR_NOENT)?;
        let path = CString::new(name).map_err(|_| nfsstat3::NFS3ERR_INVAL)?;
        sys::unlink(directory, &path, flags).map_err(|error| status_of(&error))?;
        self.forget(&stat, parent, name);
        Ok(())
    }

    /// Moves a name between directories, both of which exist.
    pub(super) fn rename_in(
        &self,
        (from, from_inode, old): (&OwnedFd, u64, &[u8]),
        (to, to_inode, new): (&OwnedFd, u64, &[u8]),
    ) -> Result<(), nfsstat3> {
        check_removable(old)?;
        check_removable(new)?;
        let moved = self.stat_in(from, old).ok_or(nfsstat3::NFS3ERR_NOENT)?;
        let replaced = self.stat_in(to, new);
        if replaced.as_ref().is_some_and(|replaced| replaced.id == moved.id) {
            return Ok(());
        }
        sys::rename(from, old, to, new).map_err(|error| status_of(&error))?;
        if let Some(replaced) = &replaced {
            self.forget(replaced, to_inode, new);
        }
        // The new name first: a file without one would be new.
        self.discover(&moved, to_inode, new);
        if self.inodes.forget(moved.id, from_inode, old) {
            self.budget.give_back(NAME_BYTES);
        }
        Ok(())
    }

    /// Forgets a name that was removed, and its file with the last name.
    fn forget(&self, stat: &Stat, parent: u64, name: &[u8]) {
        if self.inodes.forget(stat.id, parent, name) {
            self.budget.give_back(NAME_BYTES);
        }
        if stat.file_type == ftype3::NF3REG && stat.nlink <= 1 {
            self.budget.give_back(stat.size);
            self.open_files.remove(stat.id);
        }
    }

    pub(super) fn link_in(&self, directory: &OwnedFd, parent: u64, name: &[u8], file: &[u8]) -> Result<(), nfsstat3> {
        check_name(name)?;
        let id = self.id(file)?;
        let (source, stat) = self.reach(id, libc::O_PATH)?;
        if stat.file_type == ftype3::NF3DIR {
            return Err(nfsstat3::NFS3ERR_INVAL);
        }
        self.budget.take(NAME_BYTES)?;
        let linked = sys::link(&source, directory, name).map_err(|error| status_of(&error));
        match linked {
            Ok(()) => _ = self.inodes.remember(id, parent, name),
            Err(_) => self.budget.give_back(NAME_BYTES),
        }
        linked
    }

    /// One entry of a listing; a name that is listed is known from then on.
    pub(super) fn entry(&self, directory: &OwnedFd, own: Id, found: Found) -> Entry {
        let handle = match found.name.as_slice() {
            b"." => Some(own),
            b".." => self.inodes.parent(own),
            name => self.find(directory, own.inode, name).map(|stat| stat.id),
        };
        let fileid = handle.map_or(found.inode, |id| id.inode);
        Entry { fileid, name: found.name, cookie: found.cookie, handle: handle.map(|id| self.handle(id)) }
    }
}

/// Represents the verifier of an exclusive CREATE as times of the file, as RFC 1813 §3.3.8 proposes.
fn verifier(verf: createverf3) -> (u32, u32) {
    let word = |at: usize| u32::from_be_bytes([verf[at], verf[at + 1], verf[at + 2], verf[at + 3]]);
    // File systems with signed times of 32 bits lose the highest one.
    (word(0) & 0x7fff_ffff, word(4) & 0x7fff_ffff)
}

/// Attributes that a new file is given.
fn attributes_of(what: &Creation<'_>) -> sattr3 {
    match what {
        Creation::File(createhow3::EXCLUSIVE(verf)) => {
            let (atime, mtime) = verifier(*verf);
            let at = |seconds| set_time::SET_TO_CLIENT_TIME(iocurve_wire::nfs3::nfstime3 { seconds, nseconds: 0 });
            sattr3 { atime: at(atime), mtime: at(mtime), ..sattr3::default() }
        }
        Creation::File(createhow3::UNCHECKED(new) | createhow3::GUARDED(new))
        | Creation::Directory(new)
        | Creation::Symlink(new, _)
        | Creation::Special(new, ..) => *new,
    }
}
