//! The system calls of metadata operations.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use crate::engines::buffers::SlotMap;
use crate::engines::local::{flush, transfer};
use crate::engines::request::Request;
use crate::plan::OperationKind;
use crate::tree::Paths;

/// Permissions of new files and directories, before the umask.
const FILE_MODE: libc::c_uint = 0o644;
const DIRECTORY_MODE: libc::mode_t = 0o755;
/// Bytes of one `getdents64(2)`, as in glibc.
const LIST_BYTES: usize = 32 << 10;

/// The files of a worker, and how they are opened.
#[derive(Debug, Clone)]
pub(super) struct Access {
    pub(super) paths: Paths,
    /// Flags of every open, without those of reading and writing.
    pub(super) flags: libc::c_int,
    /// Files that an operation opens are written, too.
    pub(super) writes: bool,
    pub(super) slots: SlotMap,
}

/// An operation, and the open file that it needs.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) request: Request,
    /// The file that is read, written or flushed, or that is closed.
    pub(super) file: Option<Given>,
}

#[derive(Debug)]
pub(super) enum Given {
    Open(Arc<OwnedFd>),
    ToClose(Arc<OwnedFd>),
}

/// A completed operation.
#[derive(Debug)]
pub(super) struct Performed {
    pub(super) request: Request,
    pub(super) result: i64,
    /// The file that was opened.
    pub(super) opened: Option<OwnedFd>,
}

impl Access {
    pub(super) fn perform(&self, job: Job) -> Performed {
        let Job { request, file } = job;
        let mut opened = None;
        let result = match (request.kind, file) {
            (OperationKind::Create | OperationKind::Open, _) => {
                let access = if self.writes { libc::O_RDWR } else { libc::O_RDONLY };
                let create = if request.kind == OperationKind::Create { libc::O_CREAT } else { 0 };
                self.open(request.address.file, access | create).map(|file| {
                    opened = Some(file);
                    0
                })
            }
            (OperationKind::Close, Some(Given::ToClose(file))) => {
                // An operation that still uses it closes it.
                Arc::into_inner(file).map_or(Ok(0), |file| close(file).map(|()| 0))
            }
            (_, Some(Given::Open(descriptor))) => Ok(self.on_open_file(&request, descriptor.as_raw_fd())),
            (kind, _) if kind.moves_data() || kind.is_flush() || kind == OperationKind::Close => Err(libc::EBADF),
            _ => self.on_names(&request),
        };
        Performed { request, result: result.unwrap_or_else(|errno| -i64::from(errno)), opened }
    }

    fn on_names(&self, request: &Request) -> Result<i64, libc::c_int> {
        let name = self.paths.terminated(request.address.file);
        let path = name.as_ptr();
        // SAFETY: every path ends with a zero byte and outlives the calls; a result has its place.
        unsafe {
            match request.kind {
                OperationKind::Getattr => {
                    let mut status: libc::stat = std::mem::zeroed();
                    let got = done(libc::stat(path, &raw mut status));
                    if self.paths.is_verified() { got.map(|_| status.st_size) } else { got }
                }
                OperationKind::Setattr => done(libc::utimensat(libc::AT_FDCWD, path, std::ptr::null(), 0)),
                OperationKind::Access => done(libc::faccessat(libc::AT_FDCWD, path, libc::R_OK, 0)),
                OperationKind::Lookup => done(libc::faccessat(libc::AT_FDCWD, path, libc::F_OK, 0)),
                OperationKind::Delete => done(libc::unlink(path)),
                OperationKind::Mkdir => done(libc::mkdir(path, DIRECTORY_MODE)),
                OperationKind::Rename => {
                    let target = self.second(request)?;
                    match done(libc::renameat2(
                        libc::AT_FDCWD,
                        path,
                        libc::AT_FDCWD,
                        target.as_ptr(),
                        libc::RENAME_NOREPLACE,
                    )) {
                        // NFS and other file systems do not have the flag.
                        Err(libc::EINVAL) => rename_to_free(&name, &target),
                        renamed => renamed,
                    }
                }
                OperationKind::Link => done(libc::link(path, self.second(request)?.as_ptr())),
                OperationKind::Symlink => {
                    // In the same directory the name alone leads to the file.
                    let bytes = name.to_bytes_with_nul();
                    let last = bytes.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
                    done(libc::symlink(path.add(last), self.second(request)?.as_ptr()))
                }
                OperationKind::Readlink => {
                    let mut target = [0_u8; libc::PATH_MAX as usize];
                    let read = libc::readlink(path, target.as_mut_ptr().cast(), target.len());
                    if read < 0 { Err(last_errno()) } else { Ok(0) }
                }
                OperationKind::Readdir | OperationKind::Readdirplus => self.list(request),
                OperationKind::ReadFile => self.read_file(request),
                OperationKind::WriteFile => self.write_file(request),
                OperationKind::Copy => self.copy(request),
                _ => done(libc::rmdir(path)),
            }
        }
    }

    /// The second path of an operation.
    fn second(&self, request: &Request) -> Result<std::borrow::Cow<'_, CStr>, libc::c_int> {
        let number = u32::try_from(request.address.offset).ok().filter(|&number| self.paths.has(number));
        number.map(|number| self.paths.terminated(number)).ok_or(libc::EINVAL)
    }

    fn open(&self, file: u32, flags: libc::c_int) -> Result<OwnedFd, libc::c_int> {
        self.open_path(&self.paths.terminated(file), flags)
    }

    fn open_path(&self, path: &CStr, flags: libc::c_int) -> Result<OwnedFd, libc::c_int> {
        loop {
            // SAFETY: the path ends with a zero byte.
            let opened = unsafe { libc::open(path.as_ptr(), self.flags | flags, FILE_MODE) };
            if opened >= 0 {
                // SAFETY: the descriptor is new, and nothing else closes it.
                return Ok(unsafe { OwnedFd::from_raw_fd(opened) });
            }
            if last_errno() != libc::EINTR {
                return Err(last_errno());
            }
        }
    }

    /// Reads, writes or flushes a file that an operation has opened.
    fn on_open_file(&self, request: &Request, descriptor: RawFd) -> i64 {
        match request.kind {
            OperationKind::Read | OperationKind::Write => transfer(request, descriptor, self.slots.slot(request.slot)),
            _ => flush(descriptor, request),
        }
    }

    // -- whole files ------------------------------------------------------------------------------------------------

    fn read_file(&self, request: &Request) -> Result<i64, libc::c_int> {
        let file = self.open(request.address.file, libc::O_RDONLY)?;
        let mut all = 0;
        while all < u64::from(request.address.length) {
            let read = self.move_part(request, OperationKind::Read, file.as_raw_fd(), all)?;
            if read == 0 {
                break;
            }
            all += read;
        }
        close(file)?;
        Ok(all as i64)
    }

    fn write_file(&self, request: &Request) -> Result<i64, libc::c_int> {
        let file = self.open(request.address.file, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC)?;
        let mut all = 0;
        while all < u64::from(request.address.length) {
            all += self.move_part(request, OperationKind::Write, file.as_raw_fd(), all)?;
        }
        close(file)?;
        Ok(all as i64)
    }

    fn copy(&self, request: &Request) -> Result<i64, libc::c_int> {
        let source = self.open(request.address.file, libc::O_RDONLY)?;
        let target = self.open_path(&self.second(request)?, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC)?;
        let mut all = 0;
        loop {
            let read = self.move_part(request, OperationKind::Read, source.as_raw_fd(), all)?;
            if read == 0 {
                break;
            }
            let end = all + read;
            while all < end {
                let at = (read - (end - all)) as usize;
                all +=
                    self.move_bytes(request, OperationKind::Write, target.as_raw_fd(), all, at, (end - all) as usize)?;
            }
        }
        close(target)?;
        Ok(all as i64)
    }

    /// Moves the next part of a whole file, at most what a buffer holds.
    fn move_part(
        &self,
        request: &Request,
        kind: OperationKind,
        descriptor: RawFd,
        from: u64,
    ) -> Result<u64, libc::c_int> {
        // A copy ends where the file does.
        let left =
            if request.kind == OperationKind::Copy { u64::MAX } else { u64::from(request.address.length) - from };
        self.move_bytes(request, kind, descriptor, from, 0, left.min(self.slots.stride() as u64) as usize)
    }

    /// Moves bytes between a file and the slot's buffer, from `at` on.
    fn move_bytes(
        &self,
        request: &Request,
        kind: OperationKind,
        descriptor: RawFd,
        from: u64,
        at: usize,
        bytes: usize,
    ) -> Result<u64, libc::c_int> {
        assert!(at + bytes <= self.slots.stride());
        loop {
            // SAFETY: inside the slot's buffer, by the check above; the slot is in flight.
            let moved = unsafe {
                let buffer = self.slots.slot(request.slot).add(at).cast::<libc::c_void>();
                match kind {
                    OperationKind::Write => libc::pwrite(descriptor, buffer.cast_const(), bytes, from as i64),
                    _ => libc::pread(descriptor, buffer, bytes, from as i64),
                }
            };
            match moved {
                // A file system that takes no byte would be asked without end.
                0 if kind == OperationKind::Write => return Err(libc::EIO),
                0.. => return Ok(moved as u64),
                _ if last_errno() == libc::EINTR => {}
                _ => return Err(last_errno()),
            }
        }
    }

    // -- directories ------------------------------------------------------------------------------------------------

    /// Lists a directory: the number of its entries.
    fn list(&self, request: &Request) -> Result<i64, libc::c_int> {
        // Flags of files do not fit directories.
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let path = self.paths.terminated(request.address.file);
        // SAFETY: the path ends with a zero byte; the descriptor is new, and nothing else closes it.
        let directory = unsafe {
            let opened = libc::open(path.as_ptr(), flags);
            if opened < 0 {
                return Err(last_errno());
            }
            OwnedFd::from_raw_fd(opened)
        };
        let mut buffer = vec![0_u64; LIST_BYTES / 8];
        let mut entries = 0;
        loop {
            // SAFETY: the kernel writes at most as many bytes as the buffer has.
            let read =
                unsafe { libc::syscall(libc::SYS_getdents64, directory.as_raw_fd(), buffer.as_mut_ptr(), LIST_BYTES) };
            if read < 0 {
                return Err(last_errno());
            }
            if read == 0 {
                close(directory)?;
                return Ok(entries);
            }
            // SAFETY: as many bytes were written.
            let bytes = unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), read as usize) };
            for name in names(bytes) {
                entries += 1;
                if request.kind == OperationKind::Readdirplus {
                    attributes(directory.as_raw_fd(), name)?;
                }
            }
        }
    }
}

/// Names in the result of `getdents64(2)`, without the directory itself and its parent.
fn names(mut bytes: &[u8]) -> impl Iterator<Item = &CStr> {
    const NAME_AT: usize = 19;
    std::iter::from_fn(move || {
        loop {
            let length = usize::from(u16::from_ne_bytes(bytes.get(16..18)?.try_into().ok()?));
            let name = CStr::from_bytes_until_nul(bytes.get(NAME_AT..length)?).ok()?;
            bytes = &bytes[length..];
            if name != c"." && name != c".." {
                return Some(name);
            }
        }
    })
}

fn attributes(directory: RawFd, name: &CStr) -> Result<(), libc::c_int> {
    // SAFETY: the name ends with a zero byte, and the result has its place.
    let code = unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        libc::fstatat(directory, name.as_ptr(), &raw mut status, libc::AT_SYMLINK_NOFOLLOW)
    };
    // Another client may have removed the entry since.
    if code == 0 || last_errno() == libc::ENOENT { Ok(()) } else { Err(last_errno()) }
}

fn close(file: OwnedFd) -> Result<(), libc::c_int> {
    // SAFETY: nothing else closes the descriptor.
    if unsafe { libc::close(file.into_raw_fd()) } == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Renames a file to a name that nothing has when it is looked up.
fn rename_to_free(from: &CStr, to: &CStr) -> Result<i64, libc::c_int> {
    // SAFETY: the paths end with zero bytes; the status has its place.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        match done(libc::lstat(to.as_ptr(), &raw mut status)) {
            Ok(_) => Err(libc::EEXIST),
            Err(libc::ENOENT) => done(libc::rename(from.as_ptr(), to.as_ptr())),
            Err(errno) => Err(errno),
        }
    }
}

fn done(code: libc::c_int) -> Result<i64, libc::c_int> {
    if code == 0 { Ok(0) } else { Err(last_errno()) }
}

fn last_errno() -> libc::c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}
