//! The system calls of metadata operations.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::fs::{self, AtFlags, CWD, Mode, OFlags, RawDir, RenameFlags, Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;

use crate::engines::buffers::SlotMap;
use crate::engines::local::{flush, transfer};
use crate::engines::request::Request;
use crate::plan::OperationKind;
use crate::tree::Paths;

/// Permissions of new files and directories, before the umask.
const FILE_MODE: Mode = Mode::from_raw_mode(0o644);
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o755);
/// The time of the call, for access and modification.
const NOW: Timestamps = Timestamps {
    last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
    last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
};
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
        let path = &*name;
        match request.kind {
            OperationKind::Getattr => {
                let bytes = fs::stat(path).map_err(Errno::raw_os_error)?.st_size;
                Ok(if self.paths.is_verified() { bytes } else { 0 })
            }
            OperationKind::Setattr => done(fs::utimensat(CWD, path, &NOW, AtFlags::empty())),
            OperationKind::Access => done(fs::access(path, fs::Access::READ_OK)),
            OperationKind::Lookup => done(fs::access(path, fs::Access::EXISTS)),
            OperationKind::Delete => done(fs::unlink(path)),
            OperationKind::Mkdir => done(fs::mkdir(path, DIRECTORY_MODE)),
            OperationKind::Rename => {
                let target = self.second(request)?;
                match fs::renameat_with(CWD, path, CWD, &*target, RenameFlags::NOREPLACE) {
                    // NFS and other file systems do not have the flag.
                    Err(Errno::INVAL) => rename_to_free(path, &target),
                    renamed => done(renamed),
                }
            }
            OperationKind::Link => done(fs::link(path, &*self.second(request)?)),
            OperationKind::Symlink => done(fs::symlink(last_name(path), &*self.second(request)?)),
            OperationKind::Readlink => {
                let mut target = [0_u8; libc::PATH_MAX as usize];
                done(fs::readlinkat_raw(CWD, path, &mut target).map(drop))
            }
            OperationKind::Readdir | OperationKind::Readdirplus => self.list(request),
            OperationKind::ReadFile => self.read_file(request),
            OperationKind::WriteFile => self.write_file(request),
            OperationKind::Copy => self.copy(request),
            _ => done(fs::rmdir(path)),
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
        let flags = OFlags::from_bits_retain((self.flags | flags) as u32);
        loop {
            match fs::open(path, flags, FILE_MODE) {
                Err(Errno::INTR) => {}
                opened => return opened.map_err(Errno::raw_os_error),
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
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let path = self.paths.terminated(request.address.file);
        let directory = fs::open(&*path, flags, Mode::empty()).map_err(Errno::raw_os_error)?;
        let mut buffer = Vec::with_capacity(LIST_BYTES);
        let mut list = RawDir::new(&directory, buffer.spare_capacity_mut());
        let mut entries = 0;
        while let Some(entry) = list.next() {
            let entry = entry.map_err(Errno::raw_os_error)?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            entries += 1;
            if request.kind == OperationKind::Readdirplus {
                attributes(&directory, name)?;
            }
        }
        close(directory)?;
        Ok(entries)
    }
}

/// The last name of a path: in the same directory it alone leads to the file.
fn last_name(path: &CStr) -> &CStr {
    let bytes = path.to_bytes_with_nul();
    let start = bytes.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    CStr::from_bytes_with_nul(&bytes[start..]).unwrap_or(path)
}

fn attributes(directory: &OwnedFd, name: &CStr) -> Result<(), libc::c_int> {
    match fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        // Another client may have removed the entry since.
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.raw_os_error()),
    }
}

fn close(file: OwnedFd) -> Result<(), libc::c_int> {
    // SAFETY: nothing else closes the descriptor.
    if unsafe { libc::close(file.into_raw_fd()) } == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Renames a file to a name that nothing has when it is looked up.
fn rename_to_free(from: &CStr, to: &CStr) -> Result<i64, libc::c_int> {
    match fs::lstat(to) {
        Ok(_) => Err(libc::EEXIST),
        Err(Errno::NOENT) => done(fs::rename(from, to)),
        Err(errno) => Err(errno.raw_os_error()),
    }
}

fn done(result: Result<(), Errno>) -> Result<i64, libc::c_int> {
    result.map(|()| 0).map_err(Errno::raw_os_error)
}

fn last_errno() -> libc::c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}
