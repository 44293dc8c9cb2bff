//! Files in a folder of this machine.
//!
//! A handle is the file's inode number and birth time, so it outlives a restart and is not taken over by a later file. Where an inode
//! is found is known from a scan at the start and from every name seen since; the path is walked again at every use, strictly below
//! the folder and through no symbolic link, and what is found there must be the inode that was meant. The quota counts file sizes.

mod sys;

use std::collections::HashMap;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use iocurve_wire::nfs3::{
    cookieverf3, createhow3, createverf3, fattr3, ftype3, nfs_fh3, nfsstat3, sattr3, sattrguard3, set_time, specdata3,
    stable_how, wcc_data,
};

use super::memory::{Budget, check_removable};
use super::{
    Caller, Creation, Entry, Landing, Listing, Piece, Read, Space, Store, TRANSFER_BYTES_MAX, Written, check_end,
    check_name,
};
use crate::reply::batch::Batch;
use crate::store::access::{Permissions, without_privileges};
use sys::{Id, Stat, Time, status_of};

/// Files that are kept open; when there are more, all are closed and opened again as they are used.
const OPEN_FILES_MAX: usize = 512;

/// Directories below each other; deeper ones are not served.
const DEPTH_MAX: usize = 1024;

/// Files in a folder.
#[derive(Debug)]
pub struct DirectoryStore {
    root: OwnedFd,
    root_stat: Stat,
    /// Where inodes are.
    known: RwLock<HashMap<u64, Known>>,
    /// Regular files that are open.
    open: Mutex<HashMap<Id, Arc<File>>>,
    /// Held while names or sizes change.
    namespace: Mutex<()>,
    budget: Budget,
}

/// Where an inode is: directories (by inode) and names in them.
#[derive(Debug, Clone)]
struct Known {
    id: Id,
    names: Vec<(u64, Vec<u8>)>,
}

impl DirectoryStore {
    /// Serves the folder at `path`, which must exist.
    pub fn open(path: &Path, quota_bytes: u64) -> io::Result<Self> {
        let root = sys::open_root(path)?;
        let store = Self {
            root_stat: sys::stat(&root)?,
            root,
            known: RwLock::default(),
            open: Mutex::default(),
            namespace: Mutex::default(),
            budget: Budget::new(quota_bytes, u64::MAX),
        };
        store.scan()?;
        Ok(store)
    }

    /// Learns where everything is and how much there is.
    fn scan(&self) -> io::Result<()> {
        let mut directories = vec![self.root_stat.id];
        while let Some(id) = directories.pop() {
            let Ok(directory) = self.open_directory(id) else { continue };
            for entry in sys::list(&directory, 0, usize::MAX)?.0 {
                if matches!(entry.name.as_slice(), b"." | b"..") {
                    continue;
                }
                let Some(stat) = self.stat_in(&directory, &entry.name) else { continue };
                if self.remember(stat.id, id.inode, &entry.name) && stat.file_type == ftype3::NF3REG {
                    self.budget.use_anyway(stat.size);
                }
                if stat.file_type == ftype3::NF3DIR {
                    directories.push(stat.id);
                }
            }
        }
        Ok(())
    }

    /// What all handles begin with: the same for the same folder, so that handles and cookies outlive a restart.
    fn prefix(&self) -> [u8; 8] {
        let Id { inode, birth_ns } = self.root_stat.id;
        (inode.rotate_left(32) ^ birth_ns).to_be_bytes()
    }

    fn handle(&self, id: Id) -> nfs_fh3 {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&self.prefix());
        bytes[8..16].copy_from_slice(&id.inode.to_be_bytes());
        bytes[16..].copy_from_slice(&id.birth_ns.to_be_bytes());
        nfs_fh3::new(&bytes).expect("short enough")
    }

    fn id(&self, handle: &[u8]) -> Result<Id, nfsstat3> {
        let handle: &[u8; 24] = handle.try_into().map_err(|_| nfsstat3::NFS3ERR_BADHANDLE)?;
        if handle[..8] != self.prefix() {
            return Err(nfsstat3::NFS3ERR_STALE);
        }
        let word = |at: usize| u64::from_be_bytes(handle[at..at + 8].try_into().expect("eight bytes"));
        Ok(Id { inode: word(8), birth_ns: word(16) })
    }

    /// Notes that an inode is found under a name, and says whether it was unknown before.
    fn remember(&self, id: Id, parent: u64, name: &[u8]) -> bool {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let entry = known.entry(id.inode).or_insert_with(|| Known { id, names: Vec::new() });
        if entry.id != id {
            *entry = Known { id, names: Vec::new() };
        }
        let new = entry.names.is_empty();
        if !entry.names.iter().any(|(at, called)| *at == parent && called == name) {
            entry.names.push((parent, name.to_vec()));
        }
        new
    }

    fn forget(&self, id: Id, parent: u64, name: &[u8]) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = known.get_mut(&id.inode) {
            entry.names.retain(|(at, called)| *at != parent || called != name);
            if entry.names.is_empty() {
                known.remove(&id.inode);
            }
        }
    }

    /// All paths below the root that should lead to an inode.
    fn paths(&self, id: Id) -> Vec<Vec<u8>> {
        if id == self.root_stat.id {
            return vec![b".".to_vec()];
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let names = known.get(&id.inode).filter(|entry| entry.id == id).map_or(&[][..], |entry| &entry.names);
        names.iter().filter_map(|(parent, name)| self.path(&known, *parent, name)).collect()
    }

    fn path(&self, known: &HashMap<u64, Known>, parent: u64, name: &[u8]) -> Option<Vec<u8>> {
        let mut parts = vec![name];
        let mut at = parent;
        while at != self.root_stat.id.inode {
            let (parent, name) = known.get(&at)?.names.first()?;
            parts.push(name);
            at = *parent;
            if parts.len() > DEPTH_MAX {
                return None;
            }
        }
        parts.reverse();
        Some(parts.join(&b'/'))
    }

    /// Opens what a handle means, wherever it is now.
    fn reach(&self, id: Id, flags: i32) -> Result<(OwnedFd, Stat), nfsstat3> {
        let mut failed = nfsstat3::NFS3ERR_STALE;
        for path in self.paths(id) {
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

    /// A regular file, open for reading and, where that is allowed, for writing.
    fn file(&self, id: Id) -> Result<Arc<File>, nfsstat3> {
        if let Some(file) = self.open_files().get(&id) {
            return Ok(Arc::clone(file));
        }
        // Only what is known to be a regular file is opened: to open a device or a pipe may do things.
        match self.reach(id, libc::O_PATH)?.1.file_type {
            ftype3::NF3REG => {}
            ftype3::NF3DIR => return Err(nfsstat3::NFS3ERR_ISDIR),
            _ => return Err(nfsstat3::NFS3ERR_INVAL),
        }
        let (fd, _) = self.reach(id, libc::O_RDWR).or_else(|_| self.reach(id, libc::O_RDONLY))?;
        let file = Arc::new(File::from(fd));
        let mut open = self.open_files();
        if open.len() >= OPEN_FILES_MAX {
            open.clear();
        }
        open.insert(id, Arc::clone(&file));
        Ok(file)
    }

    fn open_files(&self) -> MutexGuard<'_, HashMap<Id, Arc<File>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn namespace(&self) -> MutexGuard<'_, ()> {
        self.namespace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a directory has under a name, if it is on the folder's own file system.
    fn stat_in(&self, directory: &OwnedFd, name: &[u8]) -> Option<Stat> {
        let name = CString::new(name).ok()?;
        sys::stat_at(directory, &name).ok().filter(|stat| stat.device == self.root_stat.device)
    }

    fn stat(&self, id: Id) -> Result<Stat, nfsstat3> {
        let open = self.open_files().get(&id).cloned();
        match open {
            Some(file) => sys::stat(file.as_ref()).map_err(|error| status_of(&error)),
            None => Ok(self.reach(id, libc::O_PATH)?.1),
        }
    }

    /// Runs a change of names in one directory and records its attributes around it.
    fn change<R>(
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

    /// Notes a change of size in the quota.
    fn account(&self, old: u64, new: u64) -> Result<(), nfsstat3> {
        if new >= old {
            return self.budget.take(new - old);
        }
        self.budget.give_back(old - new);
        Ok(())
    }

    fn resize(&self, id: Id, size: u64) -> Result<(), nfsstat3> {
        check_end(size, 0)?;
        let file = self.file(id)?;
        let old = self.stat(id)?.size;
        self.account(old, size)?;
        file.set_len(size).map_err(|error| {
            // The way back cannot fail: it undoes what has just fitted.
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

    /// What CREATE answers when the name is there.
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

    /// Makes what is not there, and gives it to the caller where this process may.
    fn make(
        &self,
        directory: &OwnedFd,
        parent: u64,
        name: &[u8],
        what: &Creation<'_>,
        caller: Caller,
    ) -> Result<nfs_fh3, nfsstat3> {
        let path = CString::new(name).map_err(|_| nfsstat3::NFS3ERR_INVAL)?;
        sys::make(directory, &path, what).map_err(|error| status_of(&error))?;
        let stat = self.stat_in(directory, name).ok_or(nfsstat3::NFS3ERR_IO)?;
        self.remember(stat.id, parent, name);
        let mut new = attributes_of(what);
        let (fd, _) = self.reach(stat.id, libc::O_PATH)?;
        // Only root can give files away; a server that is not root owns them itself.
        let _ = sys::chown(&fd, new.uid.take().or(Some(caller.uid)), new.gid.take().or(Some(caller.gid)));
        if stat.file_type == ftype3::NF3LNK {
            new.mode = None;
        }
        self.apply(stat.id, &new)?;
        Ok(self.handle(stat.id))
    }

    /// Forgets a name that has gone, and its file if it was the last one.
    fn gone(&self, stat: &Stat, parent: u64, name: &[u8]) {
        self.forget(stat.id, parent, name);
        if stat.file_type == ftype3::NF3REG && stat.nlink <= 1 {
            self.budget.give_back(stat.size);
            self.open_files().remove(&stat.id);
        }
    }

    fn unlink(&self, directory: &OwnedFd, parent: u64, name: &[u8], flags: i32) -> Result<(), nfsstat3> {
        check_removable(name)?;
        let stat = self.stat_in(directory, name).ok_or(nfsstat3::NFS3ERR_NOENT)?;
        let path = CString::new(name).map_err(|_| nfsstat3::NFS3ERR_INVAL)?;
        sys::unlink(directory, &path, flags).map_err(|error| status_of(&error))?;
        self.gone(&stat, parent, name);
        Ok(())
    }

    /// Moves a name between directories that both exist.
    fn rename_in(
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
            self.gone(replaced, to_inode, new);
        }
        self.forget(moved.id, from_inode, old);
        self.remember(moved.id, to_inode, new);
        Ok(())
    }

    /// Checks that the caller may write a regular file.
    fn check_write(&self, by: &Caller, id: Id) -> Result<(), nfsstat3> {
        self.file(id)?;
        Permissions::of(&self.stat(id)?.attributes()).check_write(by)
    }

    /// Writes data that may make the file longer.
    fn write_at(&self, id: Id, offset: u64, data: &[u8], stable: stable_how) -> Result<Written, nfsstat3> {
        let end = check_end(offset, data.len() as u64)?;
        let file = self.file(id)?;
        let mut before = self.stat(id)?;
        let mut _sizes = None;
        if end > before.size {
            _sizes = Some(self.namespace());
            before = self.stat(id)?;
            self.account(before.size, end.max(before.size))?;
        }
        let failed = |error: &io::Error| {
            // What was written before it failed stays; the quota follows the size that the file has now.
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

    fn entry(&self, directory: &OwnedFd, own: Id, found: sys::Found) -> Entry {
        let handle = match found.name.as_slice() {
            b"." => Some(own),
            b".." => self.parent(own),
            name => self.stat_in(directory, name).map(|stat| {
                self.remember(stat.id, own.inode, name);
                stat.id
            }),
        };
        let fileid = handle.map_or(found.inode, |id| id.inode);
        Entry { fileid, name: found.name, cookie: found.cookie, handle: handle.map(|id| self.handle(id)) }
    }

    /// The directory that a directory is in; the root is in itself.
    fn parent(&self, directory: Id) -> Option<Id> {
        if directory == self.root_stat.id {
            return Some(directory);
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let (parent, _) = known.get(&directory.inode)?.names.first()?;
        if *parent == self.root_stat.id.inode {
            return Some(self.root_stat.id);
        }
        known.get(parent).map(|entry| entry.id)
    }
}

impl Store for DirectoryStore {
    fn root(&self, _export: usize) -> nfs_fh3 {
        self.handle(self.root_stat.id)
    }

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
            b".." => self.parent(id).ok_or(nfsstat3::NFS3ERR_STALE)?,
            name => {
                check_name(name)?;
                let stat = self.stat_in(&fd, name).ok_or(nfsstat3::NFS3ERR_NOENT)?;
                self.remember(stat.id, id.inode, name);
                stat.id
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

    fn read(&self, by: &Caller, file: &[u8], offset: u64, count: u32, batch: &mut Batch) -> Result<Read, nfsstat3> {
        let id = self.id(file)?;
        let open = self.file(id)?;
        let attributes = self.stat(id)?.attributes();
        Permissions::of(&attributes).check_read(by)?;
        let left = attributes.size.saturating_sub(offset);
        let wanted = u64::from(count.min(TRANSFER_BYTES_MAX)).min(left) as usize;
        let count = batch.fill(wanted, |room| read_full(&open, room, offset)).map_err(|error| status_of(&error))?;
        batch.pad(count);
        Ok(Read { attributes, count: count as u32, eof: count as u64 == left || count < wanted })
    }

    fn write(
        &self,
        by: &Caller,
        file: &[u8],
        offset: u64,
        data: &[u8],
        stable: stable_how,
    ) -> Result<Written, nfsstat3> {
        let id = self.id(file)?;
        self.check_write(by, id)?;
        self.write_at(id, offset, data, stable)
    }

    fn land(&self, by: &Caller, file: &[u8], offset: u64, length: u32) -> Result<Landing, nfsstat3> {
        check_end(offset, u64::from(length))?;
        self.check_write(by, self.id(file)?)?;
        Landing::new(file, offset, vec![Piece::Bytes(vec![0; length as usize])])
    }

    fn landed(&self, landing: Landing, stable: stable_how) -> Result<Written, nfsstat3> {
        let (id, mut at) = (self.id(landing.file.as_bytes())?, landing.offset);
        let mut written = Err(nfsstat3::NFS3ERR_INVAL);
        for piece in &landing.pieces {
            if let Piece::Bytes(bytes) = piece {
                written = Ok(self.write_at(id, at, bytes, stable)?);
                at += bytes.len() as u64;
            }
        }
        written
    }

    fn commit(&self, file: &[u8]) -> Result<Written, nfsstat3> {
        let id = self.id(file)?;
        let open = self.file(id)?;
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
        self.change(directory, wcc, |fd, parent| {
            check_name(name)?;
            match (self.stat_in(fd, name), &what) {
                (Some(stat), Creation::File(how)) => {
                    self.remember(stat.id, parent, name);
                    self.create_existing(&stat, how)
                }
                _ => self.make(fd, parent, name, &what, caller),
            }
        })
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
        self.change(directory, wcc, |fd, parent| {
            check_name(name)?;
            let id = self.id(file)?;
            let (source, stat) = self.reach(id, libc::O_PATH)?;
            if stat.file_type == ftype3::NF3DIR {
                return Err(nfsstat3::NFS3ERR_INVAL);
            }
            sys::link(&source, fd, name).map_err(|error| status_of(&error))?;
            self.remember(id, parent, name);
            Ok(())
        })
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

    fn budget(&self, _export: usize) -> &Budget {
        &self.budget
    }

    fn space(&self, _file: &[u8]) -> Space {
        let system =
            sys::space(&self.root).unwrap_or(Space { bytes_total: 0, bytes_free: 0, files_total: 0, files_free: 0 });
        let bytes_free = self.budget.limit().saturating_sub(self.budget.used()).min(system.bytes_free);
        Space { bytes_total: self.budget.limit().min(system.bytes_total), bytes_free, ..system }
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

/// The times of a file that stand for an exclusive CREATE's verifier, as RFC 1813 §3.3.8 proposes.
fn verifier(verf: createverf3) -> (u32, u32) {
    let word = |at: usize| u32::from_be_bytes([verf[at], verf[at + 1], verf[at + 2], verf[at + 3]]);
    // File systems with signed times of 32 bits lose the highest one.
    (word(0) & 0x7fff_ffff, word(4) & 0x7fff_ffff)
}

/// Attributes that a new file is given.
fn attributes_of(what: &Creation<'_>) -> sattr3 {
    match what {
        Creation::File(createhow3::UNCHECKED(new) | createhow3::GUARDED(new)) => *new,
        Creation::File(createhow3::EXCLUSIVE(verf)) => {
            let (atime, mtime) = verifier(*verf);
            let at = |seconds| set_time::SET_TO_CLIENT_TIME(iocurve_wire::nfs3::nfstime3 { seconds, nseconds: 0 });
            sattr3 { atime: at(atime), mtime: at(mtime), ..sattr3::default() }
        }
        Creation::Directory(new) | Creation::Symlink(new, _) | Creation::Special(new, ..) => **new,
    }
}

/// Device number as the protocol has it.
fn rdev(major: u32, minor: u32) -> specdata3 {
    specdata3 { specdata1: major, specdata2: minor }
}
