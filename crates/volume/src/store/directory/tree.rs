//! Changes of names. They are serialized by the namespace lock, so that the inodes that are known follow the file system.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;

use iocurve_wire::nfs3::{createhow3, createverf3, ftype3, nfsstat3, nfstime3, sattr3, set_time, wcc_data};

use super::open_files::{Access, OpenFile};
use super::sys::{self, Found, Id, Stat, status_of};
#[cfg(test)]
use super::testing::{self, Event};
use super::{DirectoryStore, Reached, check_regular, stat_open, time};
use crate::store::access::{self, Caller};
use crate::store::contract::{Changed, Creation, Entry, NAME_BYTES, Named, Range, Removal, check_end};
use crate::store::names::{check_name, check_removable, is_dots};
use crate::store::operations;
use crate::store::times::from_nfstime;

impl DirectoryStore {
    /// Changes names in one directory, in which the caller may look them up, and records its attributes before and after. The change is on
    /// stable storage then.
    pub(super) fn change<R>(
        &self,
        caller: &Caller,
        directory: &[u8],
        change: impl FnOnce(&Reached) -> Result<R, nfsstat3>,
    ) -> Changed<R> {
        let names = self.namespace();
        let directory = match self.reach_names(directory) {
            Ok(directory) => directory,
            Err(status) => return Changed::refused(status),
        };
        let before = directory.stat.attributes();
        let changed = operations::check_search(caller, &before).and_then(|()| change(&directory));
        let wcc = wcc_data { before: Some(before.wcc()), after: directory.attributes() };
        drop(names);
        let result = changed.and_then(|changed| self.sync_names(directory).map(|()| changed));
        Changed { result, wcc }
    }

    pub(super) fn create_in(
        &self,
        caller: &Caller,
        directory: &Reached,
        name: &[u8],
        what: Creation<'_>,
    ) -> Result<Named, nfsstat3> {
        let parent = directory.stat.attributes();
        let existing = self.stat_in(directory, name);
        let attributes = existing.as_ref().ok().map(Stat::attributes);
        operations::check_creation(caller, &parent, attributes.as_ref(), &what)?;
        check_name(name)?;
        if is_dots(name) {
            return Err(nfsstat3::NFS3ERR_EXIST);
        }
        match (existing, &what) {
            (Ok(stat), Creation::File(how)) => {
                self.inodes.discover(&stat, directory.inode(), name);
                self.create_existing(&stat, how)
            }
            (Ok(_) | Err(nfsstat3::NFS3ERR_ACCES), _) => Err(nfsstat3::NFS3ERR_EXIST),
            (Err(nfsstat3::NFS3ERR_NOENT), _) => {
                let (what, owner) = operations::granted(caller, &parent, what);
                if let Creation::Directory(_) = what {
                    self.inodes.check_depth(directory.stat.id)?;
                }
                self.make(directory, name, &what, owner)
            }
            (Err(status), _) => Err(status),
        }
    }

    /// Answers CREATE for a name that exists.
    fn create_existing(&self, stat: &Stat, how: &createhow3) -> Result<Named, nfsstat3> {
        let exists = match how {
            createhow3::GUARDED(_) => true,
            createhow3::EXCLUSIVE(verf) => stat.verifier() != verifier(*verf),
            createhow3::UNCHECKED(_) => stat.file_type != ftype3::NF3REG,
        };
        if exists {
            return Err(nfsstat3::NFS3ERR_EXIST);
        }
        if let createhow3::UNCHECKED(sattr3 { size: Some(size), .. }) = how {
            let _size = self.file_lock(stat.id);
            self.resize(stat.id, *size)?;
            return Ok(self.named(&self.stat(stat.id)?));
        }
        Ok(self.named(stat))
    }

    /// Makes a name that does not exist. If that fails halfway, nothing of it stays.
    fn make(&self, directory: &Reached, name: &[u8], what: &Creation<'_>, owner: Caller) -> Result<Named, nfsstat3> {
        let path = CString::new(name).map_err(|_| nfsstat3::NFS3ERR_INVAL)?;
        self.inodes.budget.take(NAME_BYTES)?;
        let made = make_node(directory, &path, what).map_err(|error| {
            self.inodes.budget.give_back(NAME_BYTES);
            status_of(&error)
        })?;
        let id = made.stat.id;
        self.inodes.add(id, directory.inode(), name);
        let counted = match what {
            Creation::Symlink(_, target) => self.inodes.count(id, target.len() as u64),
            _ => Ok(()),
        };
        let finished = counted.and_then(|()| self.finish_make(made, what, owner));
        if finished.is_err() {
            self.undo_make(directory, name, id, what);
        }
        finished.map(|stat| self.named(&stat))
    }

    /// Gives a new file to the caller if this process may, sets its attributes, and puts them on stable storage. All by the descriptor:
    /// another program may exchange the name.
    fn finish_make(&self, made: Reached, what: &Creation<'_>, owner: Caller) -> Result<Stat, nfsstat3> {
        let mut new = attributes_of(what);
        let owner = (new.uid.take().unwrap_or(owner.uid), new.gid.take().unwrap_or(owner.gid));
        let has = made.stat.attributes();
        if owner != (has.uid, has.gid) {
            match sys::chown(&made.fd, Some(owner.0), Some(owner.1)) {
                // Only root can give files away; a server that is not root owns them itself. A file that root was to give away must not
                // stay root's.
                Err(error) if sys::is_root() => return Err(status_of(&error)),
                _ => {}
            }
        }
        if made.stat.file_type == ftype3::NF3LNK {
            new.mode = None;
        }
        if made.stat.file_type != ftype3::NF3REG {
            if new.size.is_some() {
                check_regular(made.stat.file_type)?;
            }
            self.apply(&made, &new)?;
            self.sync_attributes(&made)?;
            return sys::stat(&made.fd).map_err(|error| status_of(&error));
        }
        self.finish_file(made, &new)
    }

    /// As [`Self::finish_make`], for a regular file. It stays open, so that its owner can write it whatever its mode.
    fn finish_file(&self, made: Reached, new: &sattr3) -> Result<Stat, nfsstat3> {
        let (id, mode) = (made.stat.id, made.stat.attributes().mode);
        if let Some(size) = new.size {
            check_end(size, 0)?;
            self.inodes.count(id, size)?;
        }
        let open = OpenFile::new(File::from(made.fd));
        let set = || {
            if let Some(size) = new.size.filter(|size| *size > 0) {
                super::cut(&open, size)?;
            }
            if let Some(new) = new.mode.map(|new| new & 0o7777).filter(|new| *new != mode) {
                sys::chmod(&open.file, new)?;
            }
            sys::set_times(&open.file, time(new.atime), time(new.mtime))?;
            self.stable.attributes(&open)
        };
        set().map_err(|error| status_of(&error))?;
        let stat = stat_open(&open)?;
        self.open_files.insert(id, Access::Write, open);
        Ok(stat)
    }

    /// Removes a name that was made a moment ago. What cannot be removed stays, and counts against the quota.
    fn undo_make(&self, directory: &Reached, name: &[u8], id: Id, what: &Creation<'_>) {
        let flags = if matches!(what, Creation::Directory(_)) { libc::AT_REMOVEDIR } else { 0 };
        if let Ok(stat) = self.stat_in(directory, name)
            && stat.id == id
        {
            let _ = self.unlink(directory, name, &stat, flags);
        }
    }

    pub(super) fn remove_from(
        &self,
        caller: &Caller,
        directory: &Reached,
        name: &[u8],
        what: Removal,
    ) -> Result<(), nfsstat3> {
        check_removable(name)?;
        let stat = self.stat_in(directory, name)?;
        access::check_removal(caller, &directory.stat.attributes(), &stat.attributes())?;
        let flags = if what.is_directory(stat.file_type) { libc::AT_REMOVEDIR } else { 0 };
        self.unlink(directory, name, &stat, flags)
    }

    fn unlink(&self, directory: &Reached, name: &[u8], stat: &Stat, flags: i32) -> Result<(), nfsstat3> {
        let path = CString::new(name).map_err(|_| nfsstat3::NFS3ERR_INVAL)?;
        sys::unlink(&directory.fd, &path, flags).map_err(|error| status_of(&error))?;
        #[cfg(test)]
        testing::note(|| Event::Unlink { directory: directory.inode(), name: name.to_vec() });
        self.forget(stat, directory, name);
        Ok(())
    }

    /// Moves a name between directories, both of which exist.
    pub(super) fn rename_in(
        &self,
        caller: &Caller,
        (from, old): (&Reached, &[u8]),
        (to, new): (&Reached, &[u8]),
    ) -> Result<(), nfsstat3> {
        check_removable(old)?;
        check_removable(new)?;
        let moved = self.stat_in(from, old)?;
        let replaced = match self.stat_in(to, new) {
            Ok(replaced) => Some(replaced),
            Err(nfsstat3::NFS3ERR_NOENT) => None,
            Err(status) => return Err(status),
        };
        let over = replaced.as_ref().map(Stat::attributes);
        let (source, target) = (from.stat.attributes(), to.stat.attributes());
        operations::check_rename(caller, (&source, &moved.attributes()), (&target, over.as_ref()))?;
        if replaced.as_ref().is_some_and(|replaced| replaced.id == moved.id) {
            return Ok(());
        }
        if moved.file_type == ftype3::NF3DIR && from.stat.id != to.stat.id {
            self.inodes.check_depth(to.stat.id)?;
        }
        sys::rename(&from.fd, old, &to.fd, new).map_err(|error| status_of(&error))?;
        #[cfg(test)]
        testing::note(|| Event::Rename { from: from.inode(), old: old.to_vec(), to: to.inode(), new: new.to_vec() });
        if let Some(replaced) = &replaced {
            self.forget(replaced, to, new);
        }
        // The new name first: a file without one would be new.
        self.inodes.discover(&moved, to.inode(), new);
        self.inodes.forget(moved.id, from.inode(), old);
        Ok(())
    }

    /// Forgets a name that was removed, and closes its file with the last name.
    fn forget(&self, stat: &Stat, directory: &Reached, name: &[u8]) {
        self.inodes.forget(stat.id, directory.inode(), name);
        if stat.file_type == ftype3::NF3REG && stat.nlink <= 1 {
            self.open_files.remove(stat.id);
        }
    }

    pub(super) fn link_in(
        &self,
        caller: &Caller,
        directory: &Reached,
        name: &[u8],
        file: &[u8],
    ) -> Result<(), nfsstat3> {
        operations::check_addition(caller, &directory.stat.attributes())?;
        check_name(name)?;
        let source = self.reach(self.id(file)?)?;
        if source.stat.file_type == ftype3::NF3DIR {
            return Err(nfsstat3::NFS3ERR_INVAL);
        }
        self.inodes.budget.take(NAME_BYTES)?;
        if let Err(error) = sys::link(&source.fd, &directory.fd, name) {
            self.inodes.budget.give_back(NAME_BYTES);
            return Err(status_of(&error));
        }
        #[cfg(test)]
        testing::note(|| Event::Link { inode: source.inode(), directory: directory.inode(), name: name.to_vec() });
        self.inodes.add(source.stat.id, directory.inode(), name);
        Ok(())
    }

    /// One entry of a listing; a name that is listed is known from then on.
    pub(super) fn entry<'n>(&self, directory: &Reached, found: Found<'n>, range: Range) -> Entry<'n> {
        let (own, Found { inode, cookie, name }) = (&directory.stat, found);
        let (id, stat) = match name {
            b"." => (Some(own.id), Some(own.clone())),
            b".." => {
                let parent = self.inodes.parent(own.id);
                let above = || if parent == Some(own.id) { Some(own.clone()) } else { self.stat(parent?).ok() };
                (parent, if range.with_attributes { above() } else { None })
            }
            name => {
                let found = self.find(directory, name).ok();
                (found.as_ref().map(|stat| stat.id), found)
            }
        };
        let (fileid, handle) = (id.map_or(inode, |id| id.inode), id.map(|id| self.handle(id)));
        Entry { fileid, name, cookie, handle, attributes: stat.map(|stat| stat.attributes()) }
    }
}

/// Makes a file, directory, link or special file under a name that does not exist.
fn make_node(directory: &Reached, name: &CStr, what: &Creation<'_>) -> io::Result<Reached> {
    // The file system's own clock.
    let earliest = from_nfstime(directory.stat.attributes().ctime);
    let fd = match what {
        Creation::File(_) => sys::create_file(&directory.fd, name)?,
        Creation::Directory(_) => {
            sys::create_directory(&directory.fd, name)?;
            sys::open_name(&directory.fd, name)?
        }
        Creation::Symlink(_, target) => {
            sys::create_symlink(&directory.fd, name, target)?;
            sys::open_name(&directory.fd, name)?
        }
        Creation::Special(_, file_type, spec) => {
            sys::create_special(&directory.fd, name, *file_type, *spec)?;
            sys::open_name(&directory.fd, name)?
        }
    };
    let is_open = matches!(what, Creation::File(_));
    let made = Reached { stat: sys::stat(&fd)?, fd, is_open };
    #[cfg(test)]
    testing::note(|| Event::Make {
        directory: directory.inode(),
        name: name.to_bytes().to_vec(),
        inode: made.inode(),
        is_directory: matches!(what, Creation::Directory(_)),
    });
    if is_new(&made.stat, what, earliest) {
        Ok(made)
    } else {
        Err(io::Error::other("another program has exchanged a new file"))
    }
}

/// True if a file can be the one that was just made. Another program may have put a file there that is not its own: it is not to be
/// given away.
fn is_new(stat: &Stat, what: &Creation<'_>, earliest: u64) -> bool {
    let (file_type, nlink) = match what {
        Creation::File(_) => return true,
        Creation::Directory(_) => (ftype3::NF3DIR, stat.nlink),
        Creation::Symlink(..) => (ftype3::NF3LNK, 1),
        Creation::Special(_, file_type, _) => (*file_type, 1),
    };
    let is_own = stat.attributes().uid == sys::own_uid();
    let is_born = stat.id.birth_ns == 0 || stat.id.birth_ns >= earliest;
    (stat.file_type, stat.nlink) == (file_type, nlink) && is_own && is_born
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
            let at = |seconds| set_time::SET_TO_CLIENT_TIME(nfstime3 { seconds, nseconds: 0 });
            sattr3 { atime: at(atime), mtime: at(mtime), ..sattr3::default() }
        }
        Creation::File(createhow3::UNCHECKED(new) | createhow3::GUARDED(new))
        | Creation::Directory(new)
        | Creation::Symlink(new, _)
        | Creation::Special(new, ..) => *new,
    }
}
