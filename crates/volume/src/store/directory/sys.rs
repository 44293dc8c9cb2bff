//! System calls that the standard library does not have: everything by directory descriptor and name, nothing by path.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libc::{c_int, c_long};

use iocurve_wire::nfs3::{fattr3, ftype3, nfsstat3, nfstime3, specdata3};

use crate::store::contract::Space;
use crate::store::names::SYMLINK_BYTES_MAX;

/// Identifies a file: inode numbers are used again, but not with the same time of birth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Id {
    pub(super) inode: u64,
    /// 0 on file systems that do not know it.
    pub(super) birth_ns: u64,
}

/// Attributes that the file system reports.
#[derive(Debug, Clone)]
pub(super) struct Stat {
    pub(super) id: Id,
    pub(super) device: (u32, u32),
    pub(super) file_type: ftype3,
    pub(super) size: u64,
    pub(super) nlink: u32,
    attributes: fattr3,
}

impl Stat {
    pub(super) fn attributes(&self) -> fattr3 {
        self.attributes
    }

    /// The times that may stand for an exclusive CREATE's verifier.
    pub(super) fn verifier(&self) -> (u32, u32) {
        (self.attributes.atime.seconds, self.attributes.mtime.seconds)
    }
}

/// A name in a directory.
#[derive(Debug)]
pub(super) struct Found<'n> {
    pub(super) inode: u64,
    pub(super) cookie: u64,
    pub(super) name: &'n [u8],
}

/// A change of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Time {
    Keep,
    Now,
    At(nfstime3),
}

/// Translates an error to the protocol's status.
pub(super) fn status_of(error: &io::Error) -> nfsstat3 {
    match error.raw_os_error() {
        Some(libc::ENAMETOOLONG) => nfsstat3::NFS3ERR_NAMETOOLONG,
        Some(libc::ENOTEMPTY) => nfsstat3::NFS3ERR_NOTEMPTY,
        // The server is short of something: a client tries again.
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => nfsstat3::NFS3ERR_JUKEBOX,
        Some(libc::EDQUOT) => nfsstat3::NFS3ERR_DQUOT,
        Some(libc::ESTALE) => nfsstat3::NFS3ERR_STALE,
        Some(libc::EOPNOTSUPP) => nfsstat3::NFS3ERR_NOTSUPP,
        // The file is being executed on this machine.
        Some(libc::ETXTBSY) => nfsstat3::NFS3ERR_ACCES,
        // The protocol took over the numbers that Unix systems have in common.
        Some(number) => nfsstat3::from_u32(number as u32).unwrap_or(nfsstat3::NFS3ERR_IO),
        None => nfsstat3::NFS3ERR_IO,
    }
}

/// The user that this process acts as.
pub(super) fn own_uid() -> u32 {
    // SAFETY: a system call without pointers that cannot fail.
    unsafe { libc::geteuid() }
}

/// True if this process is root's.
pub(super) fn is_root() -> bool {
    own_uid() == 0
}

/// Opens the directory itself. Fails on a kernel on which nothing can be opened below it.
pub(super) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: a string of ours.
    let root = owned(unsafe { libc::open(path.as_ptr(), libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC) }.into())?;
    match open_step(&root, b".", libc::O_PATH) {
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            let text = "the kernel has no openat2: to serve a directory needs Linux 5.6 or newer";
            Err(io::Error::new(io::ErrorKind::Unsupported, text))
        }
        _ => Ok(root),
    }
}

/// Longest path that is opened in one step; the system takes 4095 bytes.
const PATH_BYTES_MAX: usize = 4000;

/// Opens `path` below `root`, never elsewhere, and through no symbolic link. The path may have any length.
pub(super) fn open_beneath(root: &OwnedFd, path: &[u8], flags: c_int) -> io::Result<OwnedFd> {
    let (mut at, mut rest) = (None, path);
    while rest.len() > PATH_BYTES_MAX
        && let Some(cut) = rest[..PATH_BYTES_MAX].iter().rposition(|byte| *byte == b'/')
    {
        at = Some(open_step(at.as_ref().unwrap_or(root), &rest[..cut], libc::O_PATH | libc::O_DIRECTORY)?);
        rest = &rest[cut + 1..];
    }
    open_step(at.as_ref().unwrap_or(root), rest, flags)
}

fn open_step(root: &OwnedFd, path: &[u8], flags: c_int) -> io::Result<OwnedFd> {
    let path = CString::new(path)?;
    // SAFETY: all zeros are "no flags".
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (flags | libc::O_NOFOLLOW | libc::O_CLOEXEC) as u64;
    how.resolve =
        libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS | libc::RESOLVE_NO_XDEV;
    let size = size_of::<libc::open_how>();
    // SAFETY: a string and a structure of ours, with its size.
    owned(unsafe { libc::syscall(libc::SYS_openat2, root.as_raw_fd(), path.as_ptr(), &raw const how, size) })
}

/// Opens again a regular file whose type was checked: the same file, whatever its names lead to by now. It never waits.
pub(super) fn reopen(file: &OwnedFd, flags: c_int) -> io::Result<OwnedFd> {
    let (path, flags) = (by_descriptor(file), flags | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC);
    // SAFETY: a string of ours.
    owned(unsafe { libc::open(path.as_ptr(), flags) }.into())
}

/// Opens a directory again, to read or sync its names.
pub(super) fn reopen_directory(directory: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: a constant string.
    owned(unsafe { libc::openat(directory.as_raw_fd(), c".".as_ptr(), flags) }.into())
}

/// Opens whatever has a name in a directory, without an effect on it.
pub(super) fn open_name(directory: &OwnedFd, name: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: a string of ours.
    owned(unsafe { libc::openat(directory.as_raw_fd(), name.as_ptr(), flags) }.into())
}

/// Puts everything of a file system on stable storage.
pub(super) fn sync_file_system(any: &OwnedFd) -> io::Result<()> {
    // SAFETY: no pointers.
    done(unsafe { libc::syncfs(any.as_raw_fd()) })
}

/// Stats an open file.
pub(super) fn stat(fd: &impl AsFd) -> io::Result<Stat> {
    statx(fd, c"", libc::AT_EMPTY_PATH)
}

/// Stats a name in a directory, and does not follow a symbolic link.
pub(super) fn stat_at(directory: &OwnedFd, name: &CStr) -> io::Result<Stat> {
    statx(directory, name, libc::AT_SYMLINK_NOFOLLOW)
}

fn statx(fd: &impl AsFd, name: &CStr, flags: c_int) -> io::Result<Stat> {
    // SAFETY: plain numbers.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    let mask = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: a string and a structure of ours.
    done(unsafe { libc::statx(fd, name.as_ptr(), flags, mask, &raw mut found) })?;
    let born = if found.stx_mask & libc::STATX_BTIME == 0 { 0 } else { nanoseconds(found.stx_btime) };
    let file_type = file_type(u32::from(found.stx_mode));
    Ok(Stat {
        id: Id { inode: found.stx_ino, birth_ns: born },
        device: (found.stx_dev_major, found.stx_dev_minor),
        file_type,
        size: found.stx_size,
        nlink: found.stx_nlink,
        attributes: fattr3 {
            file_type,
            mode: u32::from(found.stx_mode) & 0o7777,
            nlink: found.stx_nlink,
            uid: found.stx_uid,
            gid: found.stx_gid,
            size: found.stx_size,
            used: found.stx_blocks * 512,
            rdev: specdata3 { specdata1: found.stx_rdev_major, specdata2: found.stx_rdev_minor },
            fsid: u64::from(found.stx_dev_major) << 32 | u64::from(found.stx_dev_minor),
            fileid: found.stx_ino,
            atime: nfstime(found.stx_atime),
            mtime: nfstime(found.stx_mtime),
            ctime: nfstime(found.stx_ctime),
        },
    })
}

fn nanoseconds(time: libc::statx_timestamp) -> u64 {
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(u64::from(time.tv_nsec))
}

/// The nearest time that the protocol has: its seconds begin in 1970 and end in 2106.
fn nfstime(time: libc::statx_timestamp) -> nfstime3 {
    match u32::try_from(time.tv_sec) {
        Ok(seconds) => nfstime3 { seconds, nseconds: time.tv_nsec },
        Err(_) if time.tv_sec < 0 => nfstime3::default(),
        Err(_) => nfstime3 { seconds: u32::MAX, nseconds: 999_999_999 },
    }
}

fn file_type(mode: u32) -> ftype3 {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => ftype3::NF3DIR,
        libc::S_IFBLK => ftype3::NF3BLK,
        libc::S_IFCHR => ftype3::NF3CHR,
        libc::S_IFLNK => ftype3::NF3LNK,
        libc::S_IFSOCK => ftype3::NF3SOCK,
        libc::S_IFIFO => ftype3::NF3FIFO,
        _ => ftype3::NF3REG,
    }
}

/// Creates a regular file under a name that does not exist, open for reading and writing.
pub(super) fn create_file(directory: &OwnedFd, name: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: a string of ours.
    owned(unsafe { libc::openat(directory.as_raw_fd(), name.as_ptr(), flags, 0o644) }.into())
}

pub(super) fn create_directory(directory: &OwnedFd, name: &CStr) -> io::Result<()> {
    // SAFETY: a string of ours.
    done(unsafe { libc::mkdirat(directory.as_raw_fd(), name.as_ptr(), 0o755) })
}

pub(super) fn create_symlink(directory: &OwnedFd, name: &CStr, target: &[u8]) -> io::Result<()> {
    let target = CString::new(target)?;
    // SAFETY: strings of ours.
    done(unsafe { libc::symlinkat(target.as_ptr(), directory.as_raw_fd(), name.as_ptr()) })
}

/// Creates a special file; for a device `spec` is its number.
pub(super) fn create_special(directory: &OwnedFd, name: &CStr, file_type: ftype3, spec: specdata3) -> io::Result<()> {
    let mode = match file_type {
        ftype3::NF3BLK => libc::S_IFBLK,
        ftype3::NF3CHR => libc::S_IFCHR,
        ftype3::NF3SOCK => libc::S_IFSOCK,
        _ => libc::S_IFIFO,
    };
    let device = libc::makedev(spec.specdata1, spec.specdata2);
    // SAFETY: a string of ours.
    done(unsafe { libc::mknodat(directory.as_raw_fd(), name.as_ptr(), mode | 0o644, device) })
}

pub(super) fn unlink(directory: &OwnedFd, name: &CStr, flags: c_int) -> io::Result<()> {
    // SAFETY: a string of ours.
    done(unsafe { libc::unlinkat(directory.as_raw_fd(), name.as_ptr(), flags) })
}

pub(super) fn rename(from: &OwnedFd, old: &[u8], to: &OwnedFd, new: &[u8]) -> io::Result<()> {
    let (old, new) = (CString::new(old)?, CString::new(new)?);
    // SAFETY: strings of ours.
    done(unsafe { libc::renameat(from.as_raw_fd(), old.as_ptr(), to.as_raw_fd(), new.as_ptr()) })
}

/// Gives an open file one more name.
pub(super) fn link(file: &OwnedFd, directory: &OwnedFd, name: &[u8]) -> io::Result<()> {
    let (source, name) = (by_descriptor(file), CString::new(name)?);
    let (at, to, flags) = (libc::AT_FDCWD, directory.as_raw_fd(), libc::AT_SYMLINK_FOLLOW);
    // SAFETY: strings of ours.
    done(unsafe { libc::linkat(at, source.as_ptr(), to, name.as_ptr(), flags) })
}

pub(super) fn chown(file: &impl AsFd, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
    let (uid, gid) = (uid.unwrap_or(u32::MAX), gid.unwrap_or(u32::MAX));
    // SAFETY: a constant string.
    done(unsafe { libc::fchownat(file.as_fd().as_raw_fd(), c"".as_ptr(), uid, gid, libc::AT_EMPTY_PATH) })
}

pub(super) fn chmod(file: &impl AsFd, mode: u32) -> io::Result<()> {
    let path = by_descriptor(file);
    // SAFETY: a string of ours.
    done(unsafe { libc::chmod(path.as_ptr(), mode) })
}

pub(super) fn set_times(file: &impl AsFd, atime: Time, mtime: Time) -> io::Result<()> {
    if (atime, mtime) == (Time::Keep, Time::Keep) {
        return Ok(());
    }
    let timespec = |time| match time {
        Time::Keep => libc::timespec { tv_sec: 0, tv_nsec: libc::UTIME_OMIT },
        Time::Now => libc::timespec { tv_sec: 0, tv_nsec: libc::UTIME_NOW },
        Time::At(time) => libc::timespec { tv_sec: time.seconds.into(), tv_nsec: time.nseconds.into() },
    };
    let times = [timespec(atime), timespec(mtime)];
    // SAFETY: a constant string and two times of ours.
    done(unsafe { libc::utimensat(file.as_fd().as_raw_fd(), c"".as_ptr(), times.as_ptr(), libc::AT_EMPTY_PATH) })
}

pub(super) fn read_link(link: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut target = vec![0; SYMLINK_BYTES_MAX + 1];
    // SAFETY: a constant string and a buffer of ours with its length.
    let length = unsafe { libc::readlinkat(link.as_raw_fd(), c"".as_ptr(), target.as_mut_ptr().cast(), target.len()) };
    target.truncate(usize::try_from(length).map_err(|_| io::Error::last_os_error())?);
    Ok(target)
}

/// Calls `visit` with the names after `cookie` until it returns `false`; `true` if it took them all.
pub(super) fn list(directory: &OwnedFd, cookie: u64, mut visit: impl FnMut(Found<'_>) -> bool) -> io::Result<bool> {
    let fd = directory.as_raw_fd();
    // SAFETY: no pointers.
    if unsafe { libc::lseek(fd, cookie as i64, libc::SEEK_SET) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut buffer = vec![0_u8; 32 << 10];
    loop {
        // SAFETY: a buffer of ours with its length.
        let length = unsafe { libc::syscall(libc::SYS_getdents64, fd, buffer.as_mut_ptr(), buffer.len()) };
        let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
        if length == 0 {
            return Ok(true);
        }
        let mut rest = &buffer[..length];
        while let Some((entry, behind)) = next_entry(rest) {
            if !visit(entry) {
                return Ok(false);
            }
            rest = behind;
        }
    }
}

/// One `linux_dirent64`: inode, offset of the next one, own length, type, name with a zero behind it.
fn next_entry(bytes: &[u8]) -> Option<(Found<'_>, &[u8])> {
    let (inode, rest) = bytes.split_first_chunk()?;
    let (cookie, rest) = rest.split_first_chunk()?;
    let length = u16::from_ne_bytes(*rest.first_chunk()?) as usize;
    let name = bytes.get(19..length)?.split(|byte| *byte == 0).next()?;
    Some((Found { inode: u64::from_ne_bytes(*inode), cookie: u64::from_ne_bytes(*cookie), name }, &bytes[length..]))
}

pub(super) fn space(root: &OwnedFd) -> io::Result<Space> {
    // SAFETY: plain numbers.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a structure of ours.
    done(unsafe { libc::fstatvfs(root.as_raw_fd(), &raw mut found) })?;
    let block = found.f_frsize;
    Ok(Space {
        bytes_total: found.f_blocks * block,
        bytes_free: found.f_bavail * block,
        files_total: found.f_files,
        files_free: found.f_favail,
    })
}

/// A path to an open file, even if that has no name.
fn by_descriptor(fd: &impl AsFd) -> CString {
    CString::new(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())).expect("no zero in it")
}

fn owned(fd: c_long) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}

fn done(status: c_int) -> io::Result<()> {
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
