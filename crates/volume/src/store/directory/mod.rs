//! Files in a directory of this machine.
//!
//! A handle is the file's inode number and birth time with a keyed check, so it outlives a restart and is not taken over by a later
//! file. The names of an inode are known from a scan at the start and from every name seen since; the path is walked again at every
//! use, strictly below the directory and through no symbolic link, and must lead to the inode of the handle. The quota counts file sizes
//! and names.

mod inodes;
mod open_files;
mod sys;
mod tree;

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use iocurve_meter::Nanos;
use iocurve_wire::nfs3::{
    cookieverf3, fattr3, ftype3, nfs_fh3, nfsstat3, sattr3, sattrguard3, set_time, stable_how, wcc_data,
};

use super::access::{Caller, Permissions, without_privileges};
use super::budget::Budget;
use super::contract::{
    Creation, Listing, NAME_BYTES, Read, Space, Store, TRANSFER_BYTES_MAX, Upkeep, Written, check_end,
};
use super::handle::HandleKey;
use super::names::{check_name, is_dots};
use super::write_buffer::{Piece, WriteBuffer};
use crate::reply::batch::Batch;
use inodes::{Inodes, Remembered};
use open_files::{Access, OpenFiles};
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
    /// Held while names or sizes change.
    namespace: Mutex<()>,
    budget: Budget,
}

impl DirectoryStore {
    /// Serves the directory at `path`, which must exist.
    pub(crate) fn open(path: &Path, quota_bytes: u64, key: HandleKey) -> io::Result<Self> {
        let root = sys::open_root(path)?;
        let Stat { id, device, .. } = sys::stat(&root)?;
        let (inodes, open_files, namespace) = (Inodes::new(id), OpenFiles::default(), Mutex::default());
        let budget = Budget::new(quota_bytes, u64::MAX);
        let store = Self { root, device, key, inodes, open_files, namespace, budget };
        store.scan()?;
        Ok(store)
    }

    /// Walks the directory to learn where inodes are, and counts the sizes of the files.
    fn scan(&self) -> io::Result<()> {
        let mut directories = vec![self.inodes.root()];
        while let Some(id) = directories.pop() {
            let Ok(directory) = self.open_directory(id) else { continue };
            for entry in sys::list(&directory, 0, usize::MAX)?.0 {
                if is_dots(&entry.name) {
                    continue;
                }
                let Some(stat) = self.stat_in(&directory, &entry.name) else { continue };
                self.discover(&stat, id.inode, &entry.name);
                if stat.file_type == ftype3::NF3DIR {
                    directories.push(stat.id);
                }
            }
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
    fn find(&self, directory: &OwnedFd, parent: u64, name: &[u8]) -> Option<Stat> {
        let stat = self.stat_in(directory, name)?;
        if self.inodes.knows(stat.id, parent, name) {
            return Some(stat);
        }
        // A file that is removed just now must not be noted behind its removal: it would count for ever.
        let _names = self.namespace();
        let stat = self.stat_in(directory, name)?;
        self.discover(&stat, parent, name);
        Some(stat)
    }

    /// Notes a name that is there. One that was not known counts against the quota from now on. Names must not change meanwhile.
    fn discover(&self, stat: &Stat, parent: u64, name: &[u8]) {
        let Remembered { new_name, new_inode } = self.inodes.remember(stat.id, parent, name);
        if new_name {
            let size = if new_inode && stat.file_type == ftype3::NF3REG { stat.size } else { 0 };
            self.budget.use_anyway(NAME_BYTES + size);
        }
    }

    /// Opens an inode, wherever it is now.
    fn reach(&self, id: Id, flags: i32) -> Result<(OwnedFd, Stat), nfsstat3> {
        let mut failed = nfsstat3::NFS3ERR_STALE;
        for path in self.inodes.paths(id) {
            match sys::open_beneath(&self.root, &path, flags).and_then(|fd| sys::stat(&fd).map(|stat| (fd, stat))) {
                Ok((fd, stat)) if stat.id == id => return Ok((fd, stat)),
                Err(error) if error.raw_os_error() == Some(libc::EACCES) => failed = nfsstat3::NFS3ERR_ACCES,
                _ => {}
            }
        }
        Err(failed)
    }

    fn open_directory(&self, id: Id) -> Result<OwnedFd, nfsstat3> {
        let (_, stat) = self.reach(id, libc::O_PATH)?;
        match stat.file_type {
            ftype3::NF3DIR => Ok(self.reach(id, libc::O_RDONLY | libc::O_DIRECTORY)?.0),
            _ => Err(nfsstat3::NFS3ERR_NOTDIR),
        }
    }

    /// A regular file, open for reading or for both.
    fn file(&self, id: Id, access: Access) -> Result<Arc<File>, nfsstat3> {
        if let Some(file) = self.open_files.get(id, access) {
            return Ok(file);
        }
        // Only regular files are opened: opening a device or a pipe may have effects.
        check_regular(self.reach(id, libc::O_PATH)?.1.file_type)?;
        let flags = match access {
            Access::Read => libc::O_RDONLY,
            Access::Write => libc::O_RDWR,
        };
        let file = Arc::new(File::from(self.reach(id, flags)?.0));
        self.open_files.insert(id, access, &file);
        Ok(file)
    }

    fn namespace(&self) -> MutexGuard<'_, ()> {
        self.namespace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stats a name in a directory, if it is on the directory's own file system.
    fn stat_in(&self, directory: &OwnedFd, name: &[u8]) -> Option<Stat> {
        let name = CString::new(name).ok()?;
        sys::stat_at(directory, &name).ok().filter(|stat| stat.device == self.device)
    }

    fn stat(&self, id: Id) -> Result<Stat, nfsstat3> {
        match self.open_files.get(id, Access::Read) {
            Some(file) => sys::stat(file.as_ref()).map_err(|error| status_of(&error)),
            None => Ok(self.reach(id, libc::O_PATH)?.1),
        }
    }

    /// Counts a change of size against the quota.
    fn account(&self, old: u64, new: u64) -> Result<(), nfsstat3> {
        if new >= old {
            return self.budget.take(new - old);
        }
        self.budget.give_back(old - new);
        Ok(())
    }

    fn resize(&self, id: Id, size: u64) -> Result<(), nfsstat3> {
        check_end(size, 0)?;
        let file = self.file(id, Access::Write)?;
        let old = self.stat(id)?.size;
        self.account(old, size)?;
        file.set_len(size).map_err(|error| {
            // This cannot fail: it undoes a change that has just fitted.
            let _ = self.account(size, old);
            status_of(&error)
        })
    }

    /// Sets attributes; the size first, since it changes times.
    fn apply(&self, id: Id, new: &sattr3) -> Result<(), nfsstat3> {
        if let Some(size) = new.size {
            self.resize(id, size)?;
        }
        let (fd, _) = self.reach(id, libc::O_PATH)?;
        let set = || {
            if new.uid.is_some() || new.gid.is_some() {
                sys::chown(&fd, new.uid, new.gid)?;
            }
            if let Some(mode) = new.mode {
                sys::chmod(&fd, mode & 0o7777)?;
            }
            sys::set_times(&fd, time(new.atime), time(new.mtime))
        };
        set().map_err(|error| status_of(&error))
    }

    /// Checks that the caller may write a regular file.
    fn check_write(&self, caller: &Caller, id: Id) -> Result<(), nfsstat3> {
        let stat = self.stat(id)?;
        check_regular(stat.file_type)?;
        Permissions::of(&stat.attributes()).check_write(caller)
    }

    /// Writes data that may make the file longer.
    fn write_at(&self, id: Id, offset: u64, data: &[u8], stable: stable_how) -> Result<Written, nfsstat3> {
        let end = check_end(offset, data.len() as u64)?;
        let file = self.file(id, Access::Write)?;
        let mut before = self.stat(id)?;
        let mut _sizes = None;
        if end > before.size {
            _sizes = Some(self.namespace());
            before = self.stat(id)?;
            self.account(before.size, end.max(before.size))?;
        }
        let failed = |error: &io::Error| {
            // Data written before the failure stay; the quota follows the size that the file has now.
            let now = self.stat(id).map_or(before.size, |stat| stat.size);
            self.budget.give_back(end.max(before.size).saturating_sub(now.max(before.size)));
            status_of(error)
        };
        file.write_all_at(data, offset).map_err(|error| failed(&error))?;
        let synced = match stable {
            stable_how::UNSTABLE => Ok(()),
            stable_how::DATA_SYNC => file.sync_data(),
            stable_how::FILE_SYNC => file.sync_all(),
        };
        synced.map_err(|error| status_of(&error))?;
        self.take_privileges(id, before.attributes().mode)?;
        Ok(Written { before: before.attributes().wcc(), after: self.stat(id)?.attributes() })
    }

    /// Takes set-user-ID and set-group-ID from a file that was written, as the system does unless root writes.
    fn take_privileges(&self, id: Id, mode: u32) -> Result<(), nfsstat3> {
        let kept = without_privileges(mode);
        if kept == mode {
            return Ok(());
        }
        let (fd, _) = self.reach(id, libc::O_PATH)?;
        sys::chmod(&fd, kept).map_err(|error| status_of(&error))
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

    fn setattr(&self, file: &[u8], new: &sattr3, guard: sattrguard3, wcc: &mut wcc_data) -> Result<(), nfsstat3> {
        let id = self.id(file)?;
        let _sizes = self.namespace();
        let before = self.stat(id)?.attributes().wcc();
        wcc.before = Some(before);
        let applied = match guard {
            Some(ctime) if ctime != before.ctime => Err(nfsstat3::NFS3ERR_NOT_SYNC),
            _ => self.apply(id, new),
        };
        wcc.after = self.getattr(file).ok();
        applied
    }

    fn lookup(&self, directory: &[u8], name: &[u8]) -> Result<nfs_fh3, nfsstat3> {
        let id = self.id(directory)?;
        let fd = self.open_directory(id)?;
        let found = match name {
            b"." => id,
            b".." => self.inodes.parent(id).ok_or(nfsstat3::NFS3ERR_STALE)?,
            name => {
                check_name(name)?;
                self.find(&fd, id.inode, name).ok_or(nfsstat3::NFS3ERR_NOENT)?.id
            }
        };
        Ok(self.handle(found))
    }

    fn readlink(&self, link: &[u8]) -> Result<Vec<u8>, nfsstat3> {
        let (fd, stat) = self.reach(self.id(link)?, libc::O_PATH)?;
        match stat.file_type {
            ftype3::NF3LNK => sys::read_link(&fd).map_err(|error| status_of(&error)),
            _ => Err(nfsstat3::NFS3ERR_INVAL),
        }
    }

    fn read(&self, caller: &Caller, file: &[u8], offset: u64, count: u32, batch: &mut Batch) -> Result<Read, nfsstat3> {
        let id = self.id(file)?;
        let open = self.file(id, Access::Read)?;
        let attributes = self.stat(id)?.attributes();
        Permissions::of(&attributes).check_read(caller)?;
        let left = attributes.size.saturating_sub(offset);
        let wanted = u64::from(count.min(TRANSFER_BYTES_MAX)).min(left) as usize;
        let count = batch.fill(wanted, |room| read_full(&open, room, offset)).map_err(|error| status_of(&error))?;
        batch.pad(count);
        Ok(Read { attributes, count: count as u32, eof: count as u64 == left || count < wanted })
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
        check_end(offset, u64::from(length))?;
        self.check_write(caller, self.id(file)?)?;
        WriteBuffer::new(file, offset, vec![Piece::Bytes(vec![0; length as usize])])
    }

    fn finish_write(&self, buffer: WriteBuffer, stable: stable_how) -> Result<Written, nfsstat3> {
        let (id, mut at) = (self.id(buffer.file.as_bytes())?, buffer.offset);
        let mut written = Err(nfsstat3::NFS3ERR_INVAL);
        for piece in &buffer.pieces {
            if let Piece::Bytes(bytes) = piece {
                written = Ok(self.write_at(id, at, bytes, stable)?);
                at += bytes.len() as u64;
            }
        }
        written
    }

    fn commit(&self, file: &[u8]) -> Result<Written, nfsstat3> {
        let id = self.id(file)?;
        let open = self.file(id, Access::Read)?;
        let before = self.stat(id)?.attributes().wcc();
        open.sync_data().map_err(|error| status_of(&error))?;
        Ok(Written { before, after: self.stat(id)?.attributes() })
    }

    fn create(
        &self,
        directory: &[u8],
        name: &[u8],
        what: Creation<'_>,
        caller: Caller,
        wcc: &mut wcc_data,
    ) -> Result<nfs_fh3, nfsstat3> {
        self.change(directory, wcc, |fd, parent| self.create_in(fd, parent, name, &what, caller))
    }

    fn remove(&self, directory: &[u8], name: &[u8], wcc: &mut wcc_data) -> Result<(), nfsstat3> {
        self.change(directory, wcc, |fd, parent| self.unlink(fd, parent, name, 0))
    }

    fn rmdir(&self, directory: &[u8], name: &[u8], wcc: &mut wcc_data) -> Result<(), nfsstat3> {
        self.change(directory, wcc, |fd, parent| self.unlink(fd, parent, name, libc::AT_REMOVEDIR))
    }

    fn rename(
        &self,
        (from, old): (&[u8], &[u8]),
        (to, new): (&[u8], &[u8]),
        (from_wcc, to_wcc): (&mut wcc_data, &mut wcc_data),
    ) -> Result<(), nfsstat3> {
        let renamed = self.change(from, from_wcc, |from, from_inode| {
            let to_id = self.id(to)?;
            let to = self.open_directory(to_id)?;
            to_wcc.before = self.stat(to_id).ok().map(|stat| stat.attributes().wcc());
            self.rename_in((from, from_inode, old), (&to, to_id.inode, new))
        });
        to_wcc.after = self.getattr(to).ok();
        renamed
    }

    fn link(&self, file: &[u8], directory: &[u8], name: &[u8], wcc: &mut wcc_data) -> Result<(), nfsstat3> {
        self.change(directory, wcc, |fd, parent| self.link_in(fd, parent, name, file))
    }

    fn readdir(&self, directory: &[u8], cookie: u64, limit: usize) -> Result<Listing, nfsstat3> {
        let id = self.id(directory)?;
        let fd = self.open_directory(id)?;
        let (found, end) = sys::list(&fd, cookie, limit).map_err(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => nfsstat3::NFS3ERR_BAD_COOKIE,
            _ => status_of(&error),
        })?;
        Ok(Listing { entries: found.into_iter().map(|found| self.entry(&fd, id, found)).collect(), end })
    }

    fn cookieverf(&self, _directory: &[u8]) -> cookieverf3 {
        self.prefix()
    }

    fn budget(&self) -> &Budget {
        &self.budget
    }

    fn space(&self) -> Space {
        let system = sys::space(&self.root).unwrap_or_default();
        let bytes_free = self.budget.free().min(system.bytes_free);
        Space { bytes_total: self.budget.limit().min(system.bytes_total), bytes_free, ..system }
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

fn read_full(file: &File, room: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < room.len() {
        match file.read_at(&mut room[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn time(new: set_time) -> Time {
    match new {
        set_time::DONT_CHANGE(()) => Time::Keep,
        set_time::SET_TO_SERVER_TIME(()) => Time::Now,
        set_time::SET_TO_CLIENT_TIME(time) => Time::At(time),
    }
}
