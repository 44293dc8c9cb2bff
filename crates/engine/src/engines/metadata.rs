//! Metadata operations on local files and directories, one system call at a time.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use crate::engines::buffers::SlotMap;
use crate::engines::files::open_flags;
use crate::engines::local::{Finished, Setup, flush, transfer};
use crate::engines::request::{Completion, Engine, Request};
use crate::error::EngineError;
use crate::plan::{FilePlan, OperationKind};
use crate::tree::{Paths, TreeState};

use iocurve_meter::Nanos;

/// Permissions of new files and directories, before the umask.
const FILE_MODE: libc::c_uint = 0o644;
const DIRECTORY_MODE: libc::mode_t = 0o755;

/// Performs each operation in `submit`. Files are opened by operations, and not before.
#[derive(Debug)]
pub(crate) struct MetadataEngine {
    paths: Paths,
    /// By file: its descriptor while it is open.
    descriptors: HashMap<u32, OwnedFd>,
    flags: libc::c_int,
    keep_open: bool,
    slots: SlotMap,
    finished: Finished,
}

impl MetadataEngine {
    /// Refuses paths that exist and are neither regular files nor directories, before anything is changed. The paths are
    /// those of the tree, if there is one.
    pub(crate) fn open(setup: Setup<'_>, keep_open: bool, tree: Option<&Arc<TreeState>>) -> Result<Self, EngineError> {
        setup.files.iter().try_for_each(check_path)?;
        let listed = || Paths::listed(setup.files.iter().map(|file| file.path.as_str()));
        let paths = tree.map_or_else(listed, |tree| Ok(Paths::Tree(Arc::clone(tree))))?;
        let descriptors = HashMap::new();
        let access = if setup.writes { libc::O_RDWR } else { libc::O_RDONLY };
        let flags = open_flags(setup.open) | access | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        let finished = Finished::new(setup.depth, setup.clock);
        Ok(Self { paths, descriptors, flags, keep_open, slots: setup.slots, finished })
    }

    fn carry_out(&mut self, request: &Request) -> i64 {
        let file = request.address.file;
        match request.kind {
            OperationKind::Create => return self.open_file(file, libc::O_CREAT),
            OperationKind::Open => return self.open_file(file, 0),
            OperationKind::Close => return self.close(file),
            OperationKind::Rename => return self.rename(request),
            OperationKind::Delete => drop(self.descriptors.remove(&file)),
            kind if kind.is_metadata() => {}
            _ => return self.on_open_file(request),
        }
        let name = self.paths.terminated(file);
        let path = name.as_ptr();
        // SAFETY: every path ends with a zero byte and outlives the calls.
        let code = unsafe {
            match request.kind {
                OperationKind::Getattr => {
                    let mut status: libc::stat = std::mem::zeroed();
                    libc::stat(path, &raw mut status)
                }
                OperationKind::Setattr => libc::utimensat(libc::AT_FDCWD, path, std::ptr::null(), 0),
                OperationKind::Access => libc::faccessat(libc::AT_FDCWD, path, libc::R_OK, 0),
                OperationKind::Delete => libc::unlink(path),
                OperationKind::Mkdir => libc::mkdir(path, DIRECTORY_MODE),
                _ => libc::rmdir(path),
            }
        };
        i64::from(if code == 0 { 0 } else { -last_errno() })
    }

    fn open_file(&mut self, file: u32, create: libc::c_int) -> i64 {
        let path = self.paths.terminated(file);
        let opened = loop {
            // SAFETY: the path ends with a zero byte.
            let opened = unsafe { libc::open(path.as_ptr(), self.flags | create, FILE_MODE) };
            if opened >= 0 || last_errno() != libc::EINTR {
                break opened;
            }
        };
        if opened < 0 {
            return -i64::from(last_errno());
        }
        // SAFETY: the descriptor is new, and nothing else closes it.
        self.descriptors.insert(file, unsafe { OwnedFd::from_raw_fd(opened) });
        if self.keep_open { 0 } else { self.close(file) }
    }

    fn close(&mut self, file: u32) -> i64 {
        let Some(descriptor) = self.descriptors.remove(&file) else { return -i64::from(libc::EBADF) };
        // SAFETY: nothing else closes the descriptor.
        let code = unsafe { libc::close(descriptor.into_raw_fd()) };
        i64::from(if code == 0 { 0 } else { -last_errno() })
    }

    fn rename(&self, request: &Request) -> i64 {
        let target = u32::try_from(request.address.offset).ok();
        let Some(target) = target.filter(|&target| (target as usize) < self.paths.count()) else {
            return -i64::from(libc::EINVAL);
        };
        let (from, target) = (self.paths.terminated(request.address.file), self.paths.terminated(target));
        let (here, flags) = (libc::AT_FDCWD, libc::RENAME_NOREPLACE);
        // SAFETY: both paths end with a zero byte.
        let code = unsafe { libc::renameat2(here, from.as_ptr(), here, target.as_ptr(), flags) };
        i64::from(if code == 0 { 0 } else { -last_errno() })
    }

    /// Reads, writes or flushes a file that an operation has opened.
    fn on_open_file(&self, request: &Request) -> i64 {
        use std::os::fd::AsRawFd;
        let Some(descriptor) = self.descriptors.get(&request.address.file) else {
            return -i64::from(libc::EBADF);
        };
        let descriptor: RawFd = descriptor.as_raw_fd();
        match request.kind {
            OperationKind::Read | OperationKind::Write => transfer(request, descriptor, self.slots.slot(request.slot)),
            _ => flush(descriptor, request),
        }
    }
}

impl Engine for MetadataEngine {
    const SYNCHRONOUS: bool = true;
    const SEND_BATCH: usize = 1;
    const WALKS: bool = true;

    fn submit(&mut self, request: Request) -> Result<(), EngineError> {
        check(&request, self.paths.count(), &self.slots)?;
        let result = self.carry_out(&request);
        self.finished.push(Completion { slot: request.slot, result });
        Ok(())
    }

    fn reap(&mut self, min: usize, deadline: Nanos, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        self.finished.reap(min, deadline, done);
        Ok(())
    }

    fn describe(&self) -> String {
        "metadata operations on local files".to_owned()
    }
}

/// Refuses a request out of bounds: it would reach memory or a file that is not the worker's.
pub(super) fn check(request: &Request, files: usize, slots: &SlotMap) -> Result<(), EngineError> {
    let fits = (request.slot as usize) < slots.count()
        && (!request.kind.moves_data() || request.address.length as usize <= slots.stride())
        && (request.address.file as usize) < files
        && request.address.offset <= i64::MAX as u64 - u64::from(u32::MAX);
    if fits && request.kind != OperationKind::Trim {
        return Ok(());
    }
    Err(EngineError::Plan(format!("{request:?} does not fit: there are {files} files and {} buffers", slots.count())))
}

fn check_path(file: &FilePlan) -> Result<(), EngineError> {
    if fs::symlink_metadata(&file.path).is_ok_and(|status| !status.is_file() && !status.is_dir()) {
        return Err(EngineError::Target(format!(
            "{} is neither a regular file nor a directory, and metadata operations are for those; name another path",
            file.path
        )));
    }
    Ok(())
}

fn last_errno() -> libc::c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

#[cfg(test)]
mod tests;
