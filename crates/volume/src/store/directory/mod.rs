//! Files in a directory of this machine.
//!
//! A handle is the file's inode number and birth time with a keyed check, so it outlives a restart and is not taken over by a later
//! file. The names of an inode are known from a scan at the start and from every name seen since; the path is walked again at every
//! use, strictly below the directory and through no symbolic link, and must lead to the inode of the handle. The quota counts file sizes
//! and names.

mod data;
mod inodes;
mod open_files;
mod stable;
mod sys;
#[cfg(test)]
pub(super) mod testing;
mod tree;

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use iocurve_meter::Nanos;
use iocurve_wire::nfs3::{
    cookieverf3, fattr3, ftype3, nfs_fh3, nfsstat3, sattr3, sattrguard3, set_time, stable_how, wcc_data,
};

use super::access::{self, Caller};
use super::budget::Budget;
use super::contract::{
    Changed, Creation, Entry, Listed, Named, Range, Read, Removal, Space, Store, Upkeep, Written, check_end,
};
use super::handle::HandleKey;
use super::names::{check_name, is_dots};
use super::operations;
use super::write_buffer::WriteBuffer;
use crate::reply::batch::Batch;
use inodes::Inodes;
use open_files::{Access, OpenFile, OpenFiles};
use stable::Stable;
use sys::{Id, Stat, Time, status_of};

/// Bytes of a handle: the directory, the inode, its birth, and the check.
const HANDLE_BYTES: usize = 4 * 8;

/// Files in a directory.
#[derive(Debug)]
pub(crate) struct DirectoryStore {
    root: OwnedFd,
    /// Device of the directory's file system; others mounted below it are not served.
    device: (u32, u32),
    key: HandleKey,
    inodes: Inodes,
    open_files: OpenFiles,
    /// Held while names change.
    namespace: Mutex<()>,
    /// One is held while the size or the attributes of a file change.
    files: [Mutex<()>; FILE_LOCKS],
    /// Held while this process, unless it is root's, gives itself permission to open a file of its user.
    modes: Mutex<()>,
    stable: Stable,
}

/// Number of locks that the files share.
const FILE_LOCKS: usize = 64;

/// Locks under which the attributes of a file change.
type AttributeLocks<'s> = (Option<MutexGuard<'s, ()>>, MutexGuard<'s, ()>);

/// A file where it is now.
#[derive(Debug)]
struct Reached {
    fd: OwnedFd,
    stat: Stat,
    /// It is open for reading; otherwise nothing can be read or written by it.
    is_open: bool,
}

impl Reached {
    /// Checks that it is a directory.
    fn directory(self) -> Result<Self, nfsstat3> {
        match self.stat.file_type {
            ftype3::NF3DIR => Ok(self),
            _ => Err(nfsstat3::NFS3ERR_NOTDIR),
        }
    }

    fn inode(&self) -> u64 {
        self.stat.id.inode
    }

    /// Its attributes as they are now.
    fn attributes(&self) -> Option<fattr3> {
        sys::stat(&self.fd).ok().map(|stat| stat.attributes())
    }
}

impl DirectoryStore {
    /// Serves the directory at `path`, which must exist. With `is_async`, changes of names and attributes are answered before they are
    /// on stable storage.
    pub(crate) fn open(path: &Path, quota_bytes: u64, key: HandleKey, is_async: bool) -> io::Result<Self> {
        let root = sys::open_root(path)?;
        let Stat { id, device, .. } = sys::stat(&root)?;
        let store = Self {
            root,
            device,
            key,
            inodes: Inodes::new(id, Budget::new(quota_bytes, u64::MAX)),
            open_files: OpenFiles::default(),
            namespace: Mutex::default(),
            files: [const { Mutex::new(()) }; FILE_LOCKS],
            modes: Mutex::default(),
            stable: Stable::new(is_async),
        };
        store.scan()?;
        Ok(store)
    }

    /// Walks the directory to learn where inodes are, and counts the sizes of the files.
    fn scan(&self) -> io::Result<()> {
        let mut directories = vec![self.inodes.root()];
        while let Some(id) = directories.pop() {
            let Ok((directory, names)) = self.open_directory(id) else { continue };
            sys::list(&names, 0, |sys::Found { name, .. }| {
                if !is_dots(name)
                    && let Ok(stat) = self.stat_in(&directory, name)
                {
                    self.inodes.discover(&stat, id.inode, name);
                    if stat.file_type == ftype3::NF3DIR {
                        directories.push(stat.id);
                    }
                }
                true
            })?;
        }
        Ok(())
    }

    /// Begins all handles: the same for the same directory, so that handles and cookies outlive a restart.
    fn prefix(&self) -> [u8; 8] {
        let Id { inode, birth_ns } = self.inodes.root();
        (inode.rotate_left(32) ^ birth_ns).to_be_bytes()
    }

    fn handle(&self, id: Id) -> nfs_fh3 {
        let mut bytes = [0; HANDLE_BYTES];
        bytes[..8].copy_from_slice(&self.prefix());
        bytes[8..16].copy_from_slice(&id.inode.to_be_bytes());
        bytes[16..24].copy_from_slice(&id.birth_ns.to_be_bytes());
        bytes[24..].copy_from_slice(&self.check(id).to_be_bytes());
        nfs_fh3::new(&bytes).expect("short enough")
    }

    fn named(&self, stat: &Stat) -> Named {
        Named { handle: self.handle(stat.id), attributes: stat.attributes() }
    }

    fn check(&self, id: Id) -> u64 {
        self.key.check([u64::from_be_bytes(self.prefix()), id.inode, id.birth_ns])
    }

    fn id(&self, handle: &[u8]) -> Result<Id, nfsstat3> {
        let handle: &[u8; HANDLE_BYTES] = handle.try_into().map_err(|_| nfsstat3::NFS3ERR_BADHANDLE)?;
        if handle[..8] != self.prefix() {
            return Err(nfsstat3::NFS3ERR_STALE);
        }
        let word = |at: usize| u64::from_be_bytes(handle[at..at + 8].try_into().expect("eight bytes"));
        let id = Id { inode: word(8), birth_ns: word(16) };
        if self.check(id) == word(24) { Ok(id) } else { Err(nfsstat3::NFS3ERR_STALE) }
    }

    /// Finds a name that may change at any time, and notes it.
    fn find(&self, directory: &Reached, name: &[u8]) -> Result<Stat, nfsstat3> {
        let stat = self.stat_in(directory, name)?;
        if self.inodes.knows(stat.id, directory.inode(), name) {
            return Ok(stat);
        }
        // A file that is removed just now must not be noted behind its removal: it would count for ever.
        let _names = self.namespace();
        let stat = self.stat_in(directory, name)?;
        self.inodes.discover(&stat, directory.inode(), name);
        Ok(stat)
    }

    /// Finds an inode wherever it is now.
    fn reach(&self, id: Id) -> Result<Reached, nfsstat3> {
        self.reach_by(id, libc::O_PATH)
    }

    /// Finds a directory whose names are to change, and opens it if they are to be put on stable storage and this process may read it.
    fn reach_names(&self, directory: &[u8]) -> Result<Reached, nfsstat3> {
        let id = self.id(directory)?;
        if self.stable.is_async() {
            return self.reach(id);
        }
        self.reach_by(id, libc::O_RDONLY | libc::O_DIRECTORY).or_else(|_| self.reach(id))
    }

    fn reach_by(&self, id: Id, flags: i32) -> Result<Reached, nfsstat3> {
        let is_open = flags & libc::O_PATH == 0;
        let (mut failed, mut next) = (nfsstat3::NFS3ERR_STALE, 0);
        while let Some((number, path)) = self.inodes.path(id, next) {
            next = number + 1;
            let reached = sys::open_beneath(&self.root, &path, flags);
            match reached.and_then(|fd| Ok(Reached { stat: sys::stat(&fd)?, fd, is_open })) {
                Ok(reached) if reached.stat.id == id => return Ok(reached),
                Ok(_) => {}
                Err(error) => failed = unreachable_status(&error).map_or(failed, |status| self.make_room(status)),
            }
        }
        Err(failed)
    }

    fn directory(&self, id: Id) -> Result<Reached, nfsstat3> {
        self.reach(id)?.directory()
    }

    /// A directory, and its names for reading.
    fn open_directory(&self, id: Id) -> Result<(Reached, OwnedFd), nfsstat3> {
        let directory = self.directory(id)?;
        let names = sys::reopen_directory(&directory.fd).map_err(|error| status_of(&error))?;
        Ok((directory, names))
    }

    /// A regular file, open for reading or for both.
    fn file(&self, id: Id, access: Access) -> Result<Arc<OpenFile>, nfsstat3> {
        if let Some(file) = self.open_files.get(id, access) {
            return Ok(file);
        }
        let reached = self.reach(id)?;
        // Only regular files are opened: opening a device or a pipe may have effects.
        check_regular(reached.stat.file_type)?;
        let opened = self.reopen(&reached, access).map_err(|error| self.make_room(status_of(&error)))?;
        Ok(self.open_files.insert(id, access, OpenFile::new(File::from(opened))))
    }

    /// Closes files that are kept open if the server is short of descriptors: the call that failed is made again.
    fn make_room(&self, status: nfsstat3) -> nfsstat3 {
        if status == nfsstat3::NFS3ERR_JUKEBOX {
            self.open_files.close_all();
        }
        status
    }

    /// Opens a regular file that was reached. A process that is not root's may have to allow itself to use a file of its user: clients
    /// may, as owners, whatever the mode says.
    fn reopen(&self, reached: &Reached, access: Access) -> io::Result<OwnedFd> {
        let flags = match access {
            Access::Read => libc::O_RDONLY,
            Access::Write => libc::O_RDWR,
        };
        match sys::reopen(&reached.fd, flags) {
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied
                    && reached.stat.attributes().uid == sys::own_uid() =>
            {
                let _modes = lock(&self.modes);
                let mode = sys::stat(&reached.fd)?.attributes().mode;
                sys::chmod(&reached.fd, mode | 0o600)?;
                let opened = sys::reopen(&reached.fd, flags);
                sys::chmod(&reached.fd, mode)?;
                opened
            }
            opened => opened,
        }
    }

    fn namespace(&self) -> MutexGuard<'_, ()> {
        lock(&self.namespace)
    }

    /// The lock under which the size and the attributes of a file change. Those who hold that of the namespace, too, take it first.
    fn file_lock(&self, id: Id) -> MutexGuard<'_, ()> {
        lock(&self.files[id.inode as usize % FILE_LOCKS])
    }

    /// A file with its attributes, which change under these locks alone: those of a directory also with its names.
    fn lock_attributes(&self, file: &[u8]) -> Result<(Reached, AttributeLocks<'_>, fattr3), nfsstat3> {
        let file = self.reach(self.id(file)?)?;
        let names = (file.stat.file_type == ftype3::NF3DIR).then(|| self.namespace());
        let locks = (names, self.file_lock(file.stat.id));
        let before = sys::stat(&file.fd).map_err(|error| status_of(&error))?.attributes();
        Ok((file, locks, before))
    }

    /// Stats a name in a directory. What is on another file system is there, but not served.
    fn stat_in(&self, directory: &Reached, name: &[u8]) -> Result<Stat, nfsstat3> {
        let name = CString::new(name).map_err(|_| nfsstat3::NFS3ERR_INVAL)?;
        let stat = sys::stat_at(&directory.fd, &name).map_err(|error| status_of(&error))?;
        if stat.device == self.device { Ok(stat) } else { Err(nfsstat3::NFS3ERR_ACCES) }
    }

    fn stat(&self, id: Id) -> Result<Stat, nfsstat3> {
        match self.open_files.get(id, Access::Read) {
            Some(open) => stat_open(&open),
            None => Ok(self.reach(id)?.stat),
        }
    }

    /// Changes the size of a file, the lock of which is held.
    fn resize(&self, id: Id, size: u64) -> Result<(), nfsstat3> {
        check_end(size, 0)?;
        let open = self.file(id, Access::Write)?;
        if size > stat_open(&open)?.size {
            self.inodes.count(id, size)?;
        }
        let resized = cut(&open, size).map_err(|error| status_of(&error));
        self.inodes.settle(id, stat_open(&open)?.size);
        resized
    }

    /// Sets attributes of a file, the lock of which is held; the size first, since it changes times.
    fn apply(&self, file: &Reached, new: &sattr3) -> Result<(), nfsstat3> {
        if let Some(size) = new.size {
            self.resize(file.stat.id, size)?;
        }
        let set = || {
            if new.uid.is_some() || new.gid.is_some() {
                sys::chown(&file.fd, new.uid, new.gid)?;
            }
            if let Some(mode) = new.mode {
                let _modes = lock(&self.modes);
                sys::chmod(&file.fd, mode & 0o7777)?;
            }
            sys::set_times(&file.fd, time(new.atime), time(new.mtime))
        };
        set().map_err(|error| status_of(&error))
    }

    /// Puts the names of a directory on stable storage.
    fn sync_names(&self, directory: Reached) -> Result<(), nfsstat3> {
        let synced = if directory.is_open {
            self.stable.open_names(directory.fd)
        } else {
            self.stable.names(&directory.fd, &self.root)
        };
        synced.map_err(|error| status_of(&error))
    }

    /// Puts the attributes of a file on stable storage.
    fn sync_attributes(&self, file: &Reached) -> Result<(), nfsstat3> {
        let synced = match file.stat.file_type {
            ftype3::NF3REG => self.stable.attributes(&*self.file(file.stat.id, Access::Read)?),
            _ => self.stable.attributes_of(&file.fd, &file.stat, &self.root),
        };
        synced.map_err(|error| status_of(&error))
    }
}

impl Store for DirectoryStore {
    fn root(&self) -> nfs_fh3 {
        self.handle(self.inodes.root())
    }

    // Inlined, it would make each GETATTR of the memory store save registers.
    #[inline(never)]
    fn getattr(&self, file: &[u8]) -> Result<fattr3, nfsstat3> {
        Ok(self.stat(self.id(file)?)?.attributes())
    }

    fn setattr(&self, caller: &Caller, file: &[u8], new: &sattr3, guard: sattrguard3) -> Changed {
        let (file, locks, before) = match self.lock_attributes(file) {
            Ok(locked) => locked,
            Err(status) => return Changed::refused(status),
        };
        let applied = access::check_setattr(caller, &before, new).and_then(|new| match guard {
            Some(ctime) if ctime != before.ctime => Err(nfsstat3::NFS3ERR_NOT_SYNC),
            _ => self.apply(&file, &new),
        });
        let wcc = wcc_data { before: Some(before.wcc()), after: file.attributes() };
        drop(locks);
        Changed { result: applied.and_then(|()| self.sync_attributes(&file)), wcc }
    }

    fn lookup(&self, caller: &Caller, directory: &[u8], name: &[u8]) -> Result<(Named, fattr3), nfsstat3> {
        let directory = self.reach(self.id(directory)?)?;
        let attributes = directory.stat.attributes();
        operations::check_search(caller, &attributes)?;
        let stat = match name {
            b"." => directory.stat,
            b".." => {
                let parent = self.inodes.parent(directory.stat.id).ok_or(nfsstat3::NFS3ERR_STALE)?;
                self.reach(parent)?.stat
            }
            name => {
                check_name(name)?;
                self.find(&directory, name)?
            }
        };
        Ok((self.named(&stat), attributes))
    }

    fn readlink(&self, link: &[u8]) -> Result<Vec<u8>, nfsstat3> {
        let link = self.reach(self.id(link)?)?;
        match link.stat.file_type {
            ftype3::NF3LNK => sys::read_link(&link.fd).map_err(|error| status_of(&error)),
            _ => Err(nfsstat3::NFS3ERR_INVAL),
        }
    }

    fn read(&self, caller: &Caller, file: &[u8], offset: u64, count: u32, batch: &mut Batch) -> Result<Read, nfsstat3> {
        self.read_at(caller, self.id(file)?, offset, count, batch)
    }

    fn write(
        &self,
        caller: &Caller,
        file: &[u8],
        offset: u64,
        data: &[u8],
        stable: stable_how,
    ) -> Result<Written, nfsstat3> {
        let id = self.id(file)?;
        self.check_write(caller, id)?;
        self.write_at(id, offset, data, stable)
    }

    fn begin_write(&self, caller: &Caller, file: &[u8], offset: u64, length: u32) -> Result<WriteBuffer, nfsstat3> {
        self.check_write(caller, self.id(file)?)?;
        data::buffer(file, offset, length)
    }

    fn finish_write(&self, buffer: WriteBuffer, stable: stable_how) -> Result<Written, nfsstat3> {
        self.write_buffer(self.id(buffer.file.as_bytes())?, &buffer, stable)
    }

    fn commit(&self, file: &[u8]) -> Result<Written, nfsstat3> {
        self.commit_data(self.id(file)?)
    }

    fn sync_failures(&self) -> u64 {
        self.stable.failures()
    }

    fn create(&self, caller: &Caller, directory: &[u8], name: &[u8], what: Creation<'_>) -> Changed<Named> {
        self.change(caller, directory, |parent| self.create_in(caller, parent, name, what))
    }

    fn remove(&self, caller: &Caller, directory: &[u8], name: &[u8], what: Removal) -> Changed {
        self.change(caller, directory, |parent| self.remove_from(caller, parent, name, what))
    }

    fn rename(
        &self,
        caller: &Caller,
        (from, old): (&[u8], &[u8]),
        (to, new): (&[u8], &[u8]),
    ) -> Changed<(), (wcc_data, wcc_data)> {
        let (mut target, mut to_wcc) = (None, wcc_data::default());
        let Changed { result, wcc } = self.change(caller, from, |from| {
            let to = target.insert(self.reach_names(to)?);
            to_wcc.before = Some(to.stat.attributes().wcc());
            let renamed = operations::check_search(caller, &to.stat.attributes())
                .and_then(|()| self.rename_in(caller, (from, old), (to, new)));
            to_wcc.after = to.attributes();
            renamed
        });
        let wcc = (wcc, to_wcc);
        let Some(to) = target else { return Changed { result, wcc } };
        let result = result.and_then(|()| self.sync_names(to));
        Changed { result, wcc }
    }

    fn link(&self, caller: &Caller, file: &[u8], directory: &[u8], name: &[u8]) -> Changed {
        self.change(caller, directory, |parent| self.link_in(caller, parent, name, file))
    }

    fn readdir(
        &self,
        caller: &Caller,
        directory: &[u8],
        range: Range,
        visit: &mut dyn FnMut(&Entry<'_>) -> bool,
    ) -> Result<Listed, nfsstat3> {
        let (directory, names) = self.open_directory(self.id(directory)?)?;
        let attributes = directory.stat.attributes();
        access::check(caller, &attributes, access::READ)?;
        let listed = sys::list(&names, range.after, |found| visit(&self.entry(&directory, found, range)));
        let end = listed.map_err(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => nfsstat3::NFS3ERR_BAD_COOKIE,
            _ => status_of(&error),
        })?;
        Ok(Listed { directory: attributes, end })
    }

    fn cookieverf(&self, _directory: &[u8]) -> cookieverf3 {
        self.prefix()
    }

    fn budget(&self) -> &Budget {
        &self.inodes.budget
    }

    fn space(&self) -> Space {
        let system = sys::space(&self.root).unwrap_or_default();
        let bytes_free = self.inodes.budget.free().min(system.bytes_free);
        Space { bytes_total: self.inodes.budget.limit().min(system.bytes_total), bytes_free, ..system }
    }
}

impl Upkeep for DirectoryStore {
    fn close_idle(&self, now: Nanos) -> Option<Nanos> {
        self.open_files.close_idle(now)
    }
}

/// Checks that a file has data.
fn check_regular(file_type: ftype3) -> Result<(), nfsstat3> {
    match file_type {
        ftype3::NF3REG => Ok(()),
        ftype3::NF3DIR => Err(nfsstat3::NFS3ERR_ISDIR),
        _ => Err(nfsstat3::NFS3ERR_INVAL),
    }
}

/// Stats a file that is open. One without a name is no longer there.
fn stat_open(open: &OpenFile) -> Result<Stat, nfsstat3> {
    let stat = sys::stat(&open.file).map_err(|error| status_of(&error))?;
    if stat.nlink == 0 { Err(nfsstat3::NFS3ERR_STALE) } else { Ok(stat) }
}

/// Sets the size of a file.
fn cut(open: &OpenFile, size: u64) -> io::Result<()> {
    open.file.set_len(size)?;
    #[cfg(test)]
    testing::note(|| testing::Event::Size { inode: testing::inode(&open.file), size });
    Ok(())
}

/// The status of a file that exists, but cannot be reached; `None` if a path just did not lead to it.
fn unreachable_status(error: &io::Error) -> Option<nfsstat3> {
    match error.raw_os_error() {
        Some(libc::EACCES) => Some(nfsstat3::NFS3ERR_ACCES),
        _ => Some(status_of(error)).filter(|status| *status == nfsstat3::NFS3ERR_JUKEBOX),
    }
}

fn lock(mutex: &Mutex<()>) -> MutexGuard<'_, ()> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn time(new: set_time) -> Time {
    match new {
        set_time::DONT_CHANGE(()) => Time::Keep,
        set_time::SET_TO_SERVER_TIME(()) => Time::Now,
        set_time::SET_TO_CLIENT_TIME(time) => Time::At(time),
    }
}
