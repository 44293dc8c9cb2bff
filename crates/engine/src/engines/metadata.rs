//! Metadata operations on local files and directories, one system call at a time.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};

use crate::engines::buffers::SlotMap;
use crate::engines::files::open_flags;
use crate::engines::local::{Finished, Setup, flush, transfer};
use crate::engines::request::{Completion, Engine, Request};
use crate::error::EngineError;
use crate::plan::{FilePlan, OperationKind};

use iocurve_meter::Nanos;

/// Permissions of new files and directories, before the umask.
const FILE_MODE: libc::c_uint = 0o644;
const DIRECTORY_MODE: libc::mode_t = 0o755;

/// Performs each operation in `submit`. Files are opened by operations, and not before.
#[derive(Debug)]
pub(crate) struct MetadataEngine {
    paths: Vec<CString>,
    /// By file: its descriptor while it is open.
    descriptors: Vec<Option<OwnedFd>>,
    flags: libc::c_int,
    keep_open: bool,
    slots: SlotMap,
    finished: Finished,
}

impl MetadataEngine {
    /// Refuses paths that exist and are neither regular files nor directories, before anything is changed.
    pub(crate) fn open(setup: Setup<'_>, keep_open: bool) -> Result<Self, EngineError> {
        let paths = setup.files.iter().map(checked_path).collect::<Result<Vec<_>, _>>()?;
        let descriptors = std::iter::repeat_with(|| None).take(paths.len()).collect();
        let access = if setup.writes { libc::O_RDWR } else { libc::O_RDONLY };
        let flags = open_flags(setup.open) | access | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        let finished = Finished::new(setup.depth, setup.clock);
        Ok(Self { paths, descriptors, flags, keep_open, slots: setup.slots, finished })
    }

    fn carry_out(&mut self, request: &Request) -> i64 {
        let file = request.address.file as usize;
        let path = self.paths[file].as_ptr();
        // SAFETY: every path ends with a zero byte and outlives the calls.
        let code = unsafe {
            match request.kind {
                OperationKind::Create => return self.open_file(file, libc::O_CREAT),
                OperationKind::Open => return self.open_file(file, 0),
                OperationKind::Close => return self.close(file),
                OperationKind::Getattr => {
                    let mut status: libc::stat = std::mem::zeroed();
                    libc::stat(path, &raw mut status)
                }
                OperationKind::Setattr => libc::utimensat(libc::AT_FDCWD, path, std::ptr::null(), 0),
                OperationKind::Access => libc::faccessat(libc::AT_FDCWD, path, libc::R_OK, 0),
                OperationKind::Rename => return self.rename(request),
                OperationKind::Delete => {
                    self.descriptors[file] = None;
                    libc::unlink(path)
                }
                OperationKind::Mkdir => libc::mkdir(path, DIRECTORY_MODE),
                OperationKind::Rmdir => libc::rmdir(path),
                _ => return self.on_open_file(request),
            }
        };
        i64::from(if code == 0 { 0 } else { -last_errno() })
    }

    fn open_file(&mut self, file: usize, create: libc::c_int) -> i64 {
        let opened = loop {
            // SAFETY: the path ends with a zero byte.
            let opened = unsafe { libc::open(self.paths[file].as_ptr(), self.flags | create, FILE_MODE) };
            if opened >= 0 || last_errno() != libc::EINTR {
                break opened;
            }
        };
        if opened < 0 {
            return -i64::from(last_errno());
        }
        // SAFETY: the descriptor is new, and nothing else closes it.
        self.descriptors[file] = Some(unsafe { OwnedFd::from_raw_fd(opened) });
        if self.keep_open { 0 } else { self.close(file) }
    }

    fn close(&mut self, file: usize) -> i64 {
        let Some(descriptor) = self.descriptors[file].take() else { return -i64::from(libc::EBADF) };
        // SAFETY: nothing else closes the descriptor.
        let code = unsafe { libc::close(descriptor.into_raw_fd()) };
        i64::from(if code == 0 { 0 } else { -last_errno() })
    }

    fn rename(&self, request: &Request) -> i64 {
        let target = usize::try_from(request.address.offset).ok().and_then(|target| self.paths.get(target));
        let Some(target) = target else { return -i64::from(libc::EINVAL) };
        let from = self.paths[request.address.file as usize].as_ptr();
        let (here, flags) = (libc::AT_FDCWD, libc::RENAME_NOREPLACE);
        // SAFETY: both paths end with a zero byte.
        let code = unsafe { libc::renameat2(here, from, here, target.as_ptr(), flags) };
        i64::from(if code == 0 { 0 } else { -last_errno() })
    }

    /// Reads, writes or flushes a file that an operation has opened.
    fn on_open_file(&self, request: &Request) -> i64 {
        use std::os::fd::AsRawFd;
        let Some(descriptor) = &self.descriptors[request.address.file as usize] else {
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

    fn submit(&mut self, request: Request) -> Result<(), EngineError> {
        check(&request, self.paths.len(), &self.slots)?;
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

fn checked_path(file: &FilePlan) -> Result<CString, EngineError> {
    if fs::symlink_metadata(&file.path).is_ok_and(|status| !status.is_file() && !status.is_dir()) {
        return Err(EngineError::Target(format!(
            "{} is neither a regular file nor a directory, and metadata operations are for those; name another path",
            file.path
        )));
    }
    let path = CString::new(file.path.as_bytes());
    path.map_err(|_| EngineError::Plan(format!("{:?} has a zero byte and cannot be a path", file.path)))
}

fn last_errno() -> libc::c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

#[cfg(test)]
mod tests;
