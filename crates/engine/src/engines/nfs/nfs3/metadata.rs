//! Metadata operations on an export, one call at a time on one connection. A connection that breaks ends the worker.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use iocurve_meter::{Clock, Nanos};
use iocurve_wire::nfs3::{
    ACCESS3args, ACCESS3res, COMMIT3args, COMMIT3res, CREATE3args, CREATE3res, Failed, GETATTR3args, GETATTR3res,
    LOOKUP3args, LOOKUP3res, MKDIR3args, MKDIR3res, NFS_PROGRAM, NFS_V3, READ3args, READ3res, REMOVE3args, REMOVE3res,
    RENAME3args, RENAME3res, RMDIR3args, RMDIR3res, SETATTR3args, SETATTR3res, WRITE3args, WRITE3res, createhow3,
    diropargs3, nfs_fh3, nfsproc3, nfsstat3, sattr3, set_time, stable_how,
};
use iocurve_wire::xdr::{Decode, Reader};

use super::super::protocol::Session as _;
use super::session::{FILE_MODE, Session};
use super::{stability, status};
use crate::engines::buffers::SlotMap;
use crate::engines::local::Finished;
use crate::engines::metadata::check;
use crate::engines::request::{Completion, Engine, Request};
use crate::error::EngineError;
use crate::plan::{FilePlan, NfsMount, OperationKind};
use crate::tree::{Paths, TreeState};

/// Permissions of new directories.
pub(super) const DIRECTORY_MODE: u32 = 0o755;
/// Most bytes of one READ or WRITE, far below the longest reply that is accepted.
const CALL_BYTES_MAX: u32 = 512 << 10;
/// `ACCESS3_READ`: the right to read a file or to list a directory.
const ACCESS3_READ: u32 = 1;

/// Performs each operation in `submit`. Handles of directories are looked up once, handles of files by operations.
pub(crate) struct NfsMetadataEngine<'a> {
    session: Session<'a>,
    stop: &'a AtomicBool,
    paths: Paths,
    directories: HashMap<String, nfs_fh3>,
    opened: HashMap<u32, nfs_fh3>,
    /// Open files with unstable data.
    unstable: BTreeSet<u32>,
    /// Write verifier of the server; another one means that it restarted.
    verifier: Option<[u8; 8]>,
    verifier_changed: bool,
    stable: stable_how,
    keep_open: bool,
    slots: SlotMap,
    finished: Finished,
}

/// The result of one operation: a negated `errno`, or an error that ends the worker.
type Done<T> = Result<Result<T, nfsstat3>, EngineError>;

/// Continues with the value of a call that the server did not refuse.
macro_rules! granted {
    ($call:expr) => {
        match $call? {
            Ok(value) => value,
            Err(status) => return Ok(Err(status)),
        }
    };
}

impl<'a> NfsMetadataEngine<'a> {
    /// Mounts the export. Files are looked up by the operations.
    pub(crate) fn connect(
        mount: &NfsMount,
        files: &[FilePlan],
        slots: SlotMap,
        clock: Clock,
        stop: &'a AtomicBool,
        keep_open: bool,
        tree: Option<&Arc<TreeState>>,
    ) -> Result<Self, EngineError> {
        let session = Session::open(mount, stop)?;
        let paths = if let Some(tree) = tree {
            Paths::Tree(Arc::clone(tree))
        } else {
            let names = files.iter().map(|file| normal(&file.path)).collect::<Result<Vec<_>, _>>()?;
            Paths::listed(names.iter().map(String::as_str))?
        };
        Ok(Self {
            directories: HashMap::from([(String::new(), session.root)]),
            session,
            stop,
            paths,
            opened: HashMap::new(),
            unstable: BTreeSet::new(),
            verifier: None,
            verifier_changed: false,
            stable: stability(mount.durability),
            keep_open,
            finished: Finished::new(1, clock),
            slots,
        })
    }

    fn carry_out(&mut self, request: &Request) -> Done<i64> {
        let file = request.address.file;
        match request.kind {
            OperationKind::Create => self.create(file),
            OperationKind::Open => self.open(file),
            OperationKind::Close => self.close(file),
            OperationKind::Getattr => {
                let object = granted!(self.handle(file));
                let got: GETATTR3res = self.session.rpc.nfs(nfsproc3::NFSPROC3_GETATTR, &GETATTR3args { object })?;
                Ok(plain(got))
            }
            OperationKind::Setattr => self.set_times(file),
            OperationKind::Access => self.access(file),
            OperationKind::Rename => self.rename(file, request.address.offset),
            OperationKind::Delete => self.delete(file),
            OperationKind::Mkdir => self.make_directory(file),
            OperationKind::Rmdir => self.remove_directory(file),
            OperationKind::Read => self.read(request),
            OperationKind::Write => self.write(request),
            _ => self.commit(file),
        }
    }

    fn create(&mut self, file: u32) -> Done<i64> {
        let dir = granted!(self.directory(file));
        let how = createhow3::UNCHECKED(sattr3 { mode: Some(FILE_MODE), ..sattr3::default() });
        let path = self.paths.text(file);
        let arguments = CREATE3args { r#where: diropargs3 { dir, name: last_name(&path) }, how };
        let created: CREATE3res = self.session.rpc.nfs(nfsproc3::NFSPROC3_CREATE, &arguments)?;
        match created {
            Err(failed) => Ok(Err(failed.status)),
            Ok(_) if !self.keep_open => Ok(Ok(0)),
            Ok(created) => match created.obj {
                Some(handle) => {
                    self.opened.insert(file, handle);
                    Ok(Ok(0))
                }
                None => self.open(file),
            },
        }
    }

    fn open(&mut self, file: u32) -> Done<i64> {
        let handle = granted!(self.look_up(file));
        if self.keep_open {
            self.opened.insert(file, handle);
        }
        Ok(Ok(0))
    }

    fn close(&mut self, file: u32) -> Done<i64> {
        if self.unstable.contains(&file) {
            granted!(self.commit(file));
        }
        Ok(if self.opened.remove(&file).is_some() { Ok(0) } else { Ok(-i64::from(libc::EBADF)) })
    }

    fn set_times(&mut self, file: u32) -> Done<i64> {
        let object = granted!(self.handle(file));
        let now = set_time::SET_TO_SERVER_TIME(());
        let new_attributes = sattr3 { atime: now, mtime: now, ..sattr3::default() };
        let arguments = SETATTR3args { object, new_attributes, guard: None };
        let set: SETATTR3res = self.session.rpc.nfs(nfsproc3::NFSPROC3_SETATTR, &arguments)?;
        Ok(plain(set))
    }

    fn access(&mut self, file: u32) -> Done<i64> {
        let object = granted!(self.handle(file));
        let arguments = ACCESS3args { object, access: ACCESS3_READ };
        let checked: ACCESS3res = self.session.rpc.nfs(nfsproc3::NFSPROC3_ACCESS, &arguments)?;
        let may_read = |access: u32| if access & ACCESS3_READ == 0 { -i64::from(libc::EACCES) } else { 0 };
        Ok(checked.map(|checked| may_read(checked.access)).map_err(|failed| failed.status))
    }

    fn rename(&mut self, file: u32, target: u64) -> Done<i64> {
        let Some(target) = u32::try_from(target).ok().filter(|&target| (target as usize) < self.paths.count()) else {
            return Ok(Ok(-i64::from(libc::EINVAL)));
        };
        let from = granted!(self.directory(file));
        let to = granted!(self.directory(target));
        // RENAME would replace a file of that name.
        match self.look_up(target)? {
            Err(nfsstat3::NFS3ERR_NOENT) => {}
            Err(status) => return Ok(Err(status)),
            Ok(_) => return Ok(Err(nfsstat3::NFS3ERR_EXIST)),
        }
        let (path, target) = (self.paths.text(file), self.paths.text(target));
        let arguments = RENAME3args {
            from: diropargs3 { dir: from, name: last_name(&path) },
            to: diropargs3 { dir: to, name: last_name(&target) },
        };
        let renamed: RENAME3res = self.session.rpc.nfs(nfsproc3::NFSPROC3_RENAME, &arguments)?;
        self.directories.remove(&*self.paths.text(file));
        Ok(plain(renamed))
    }

    fn delete(&mut self, file: u32) -> Done<i64> {
        let dir = granted!(self.directory(file));
        self.unstable.remove(&file);
        self.opened.remove(&file);
        let path = self.paths.text(file);
        let arguments = REMOVE3args { object: diropargs3 { dir, name: last_name(&path) } };
        let removed: REMOVE3res = self.session.rpc.nfs(nfsproc3::NFSPROC3_REMOVE, &arguments)?;
        Ok(plain(removed))
    }

    fn make_directory(&mut self, file: u32) -> Done<i64> {
        let dir = granted!(self.directory(file));
        let attributes = sattr3 { mode: Some(DIRECTORY_MODE), ..sattr3::default() };
        let path = self.paths.text(file);
        let arguments = MKDIR3args { r#where: diropargs3 { dir, name: last_name(&path) }, attributes };
        let made: MKDIR3res = self.session.rpc.nfs(nfsproc3::NFSPROC3_MKDIR, &arguments)?;
        if let Ok(made) = &made
            && let Some(handle) = made.obj
        {
            self.directories.insert(self.paths.text(file).into_owned(), handle);
        }
        Ok(plain(made))
    }

    fn remove_directory(&mut self, file: u32) -> Done<i64> {
        let dir = granted!(self.directory(file));
        self.directories.remove(&*self.paths.text(file));
        let path = self.paths.text(file);
        let arguments = RMDIR3args { object: diropargs3 { dir, name: last_name(&path) } };
        let removed: RMDIR3res = self.session.rpc.nfs(nfsproc3::NFSPROC3_RMDIR, &arguments)?;
        Ok(plain(removed))
    }

    fn read(&mut self, request: &Request) -> Done<i64> {
        let Some(&handle) = self.opened.get(&request.address.file) else { return Ok(Ok(-i64::from(libc::EBADF))) };
        let limit = self.session.limits().read.min(CALL_BYTES_MAX);
        let (mut at, length) = (0, request.address.length);
        while at < length {
            let (offset, count) = (request.address.offset + u64::from(at), (length - at).min(limit));
            let arguments = READ3args { file: handle, offset, count };
            // SAFETY: the slot's buffer has room for the whole request, which was checked, and is this operation's.
            let place = unsafe {
                std::slice::from_raw_parts_mut(self.slots.slot(request.slot).add(at as usize), count as usize)
            };
            let (bytes, is_end) = granted!(read_into(&mut self.session, &arguments, place));
            at += bytes;
            if is_end || bytes == 0 {
                break;
            }
        }
        Ok(Ok(i64::from(at)))
    }

    fn write(&mut self, request: &Request) -> Done<i64> {
        let file = request.address.file;
        let Some(&handle) = self.opened.get(&file) else { return Ok(Ok(-i64::from(libc::EBADF))) };
        let limit = self.session.limits().write.min(CALL_BYTES_MAX);
        let (mut at, length) = (0, request.address.length);
        while at < length {
            let (offset, count) = (request.address.offset + u64::from(at), (length - at).min(limit));
            // SAFETY: the slot's buffer holds the whole request, which was checked, and does not change before the
            // completion.
            let data =
                unsafe { std::slice::from_raw_parts(self.slots.slot(request.slot).add(at as usize), count as usize) };
            let arguments = WRITE3args { file: handle, offset, count, stable: self.stable, data };
            let written: WRITE3res = self.session.rpc.nfs(nfsproc3::NFSPROC3_WRITE, &arguments)?;
            let written = match written {
                Ok(written) => written,
                Err(failed) => return Ok(Err(failed.status)),
            };
            self.seen_verifier(written.verf);
            if written.committed == stable_how::UNSTABLE {
                self.unstable.insert(file);
            }
            if written.count == 0 {
                break;
            }
            at += written.count.min(count);
        }
        Ok(Ok(i64::from(at)))
    }

    fn commit(&mut self, file: u32) -> Done<i64> {
        let Some(&handle) = self.opened.get(&file) else { return Ok(Ok(-i64::from(libc::EBADF))) };
        let arguments = COMMIT3args { file: handle, offset: 0, count: 0 };
        let committed: COMMIT3res = self.session.rpc.nfs(nfsproc3::NFSPROC3_COMMIT, &arguments)?;
        if let Ok(committed) = &committed {
            self.unstable.remove(&file);
            self.seen_verifier(committed.verf);
        }
        Ok(plain(committed))
    }

    fn seen_verifier(&mut self, verifier: [u8; 8]) {
        self.verifier_changed |= self.verifier.is_some_and(|known| known != verifier);
        self.verifier = Some(verifier);
    }

    /// Handle of a file: that of the open file, or a new look-up.
    fn handle(&mut self, file: u32) -> Done<nfs_fh3> {
        match self.opened.get(&file) {
            Some(&handle) => Ok(Ok(handle)),
            None => self.look_up(file),
        }
    }

    fn look_up(&mut self, file: u32) -> Done<nfs_fh3> {
        let dir = granted!(self.directory(file));
        let name = self.paths.text(file).into_owned();
        self.look_up_in(dir, &name)
    }

    /// Looks up the last name of `path` in a directory.
    fn look_up_in(&mut self, dir: nfs_fh3, path: &str) -> Done<nfs_fh3> {
        let arguments = LOOKUP3args { what: diropargs3 { dir, name: last_name(path) } };
        let found: LOOKUP3res = self.session.rpc.nfs(nfsproc3::NFSPROC3_LOOKUP, &arguments)?;
        Ok(found.map(|found| found.object).map_err(|failed| failed.status))
    }

    /// Handle of the directory that a path is in; directories that are not known yet are looked up from the root on.
    fn directory(&mut self, file: u32) -> Done<nfs_fh3> {
        let parent = self.paths.text(file).rsplit_once('/').map_or_else(String::new, |(parent, _)| parent.to_owned());
        if let Some(&handle) = self.directories.get(&parent) {
            return Ok(Ok(handle));
        }
        let (mut dir, mut known) = (self.session.root, String::new());
        for name in parent.split('/') {
            known = if known.is_empty() { name.to_owned() } else { format!("{known}/{name}") };
            if let Some(&handle) = self.directories.get(&known) {
                dir = handle;
                continue;
            }
            dir = granted!(self.look_up_in(dir, name));
            self.directories.insert(known.clone(), dir);
        }
        Ok(Ok(dir))
    }
}

impl Engine for NfsMetadataEngine<'_> {
    const SYNCHRONOUS: bool = true;
    const SEND_BATCH: usize = 1;

    fn submit(&mut self, request: Request) -> Result<(), EngineError> {
        check(&request, self.paths.count(), &self.slots)?;
        let result = match self.carry_out(&request) {
            Ok(Ok(result)) => result,
            Ok(Err(status)) => -i64::from(status::errno(status as u32)),
            // A stopped call stays in flight: the loop gives it up, and the run counts as interrupted.
            Err(_) if self.stop.load(Ordering::Relaxed) => return Ok(()),
            Err(error) => return Err(error),
        };
        self.finished.push(Completion { slot: request.slot, result });
        Ok(())
    }

    fn reap(&mut self, min: usize, deadline: Nanos, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        self.finished.reap(min, deadline, done);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), EngineError> {
        while let Some(file) = self.unstable.pop_first() {
            if let Err(status) = self.commit(file)? {
                return Err(status::refused("commit", &self.paths.text(file), status as u32));
            }
        }
        Ok(())
    }

    fn describe(&self) -> String {
        format!("metadata operations over NFSv3, one call at a time, to {}", self.session.server())
    }

    fn labels(&self) -> Vec<String> {
        self.verifier_changed.then(|| "write_verifier_changed".to_owned()).into_iter().collect()
    }
}

/// Reads into a buffer; returns the bytes read, and whether they reach the end of the file.
fn read_into(session: &mut Session<'_>, arguments: &READ3args, place: &mut [u8]) -> Done<(u32, bool)> {
    let server = session.server().to_owned();
    let results = session.rpc.transact(NFS_PROGRAM, NFS_V3, nfsproc3::NFSPROC3_READ as u32, arguments)?;
    let invalid = || EngineError::Connection(format!("invalid reply to a READ from server {server}"));
    let read = READ3res::decode(&mut Reader::new(results)).map_err(|_| invalid())?;
    match read {
        Err(failed) => Ok(Err(failed.status)),
        Ok(read) => {
            let place = place.get_mut(..read.data.len()).ok_or_else(invalid)?;
            place.copy_from_slice(read.data);
            Ok(Ok((read.data.len() as u32, read.eof)))
        }
    }
}

/// Result of a call whose values are not needed.
fn plain<T, F>(result: Result<T, Failed<F>>) -> Result<i64, nfsstat3> {
    result.map(|_| 0).map_err(|failed| failed.status)
}

/// The last name of a path.
fn last_name(path: &str) -> &[u8] {
    path.rsplit_once('/').map_or(path, |(_, name)| name).as_bytes()
}

/// A path as its names, one `/` between them.
fn normal(path: &str) -> Result<String, EngineError> {
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
    if names.is_empty() {
        return Err(EngineError::Target(format!("{path:?} names no file in the export")));
    }
    if names.contains(&"..") {
        return Err(EngineError::Target(format!(
            "{path}: .. is not allowed in paths of an export; name the file directly"
        )));
    }
    Ok(names.join("/"))
}
