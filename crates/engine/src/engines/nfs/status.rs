//! Statuses as `errno`, and as messages for the user. A status has the same number in every version that has it.

use iocurve_wire::nfs3::nfsstat3;
#[allow(clippy::enum_glob_use)] // the statuses are the subject of this file
use iocurve_wire::nfs4::nfsstat4::{self, *};

use super::protocol::Protocol;
use crate::error::EngineError;

/// The caller may not do that.
pub(super) const PERM: u32 = NFS4ERR_PERM as u32;
/// The caller has no access.
pub(super) const ACCES: u32 = NFS4ERR_ACCESS as u32;
/// The file system cannot be written.
pub(super) const ROFS: u32 = NFS4ERR_ROFS as u32;
/// A handle of a file that is gone.
pub(super) const STALE: u32 = NFS4ERR_STALE as u32;
/// A handle that is none.
pub(super) const BADHANDLE: u32 = NFS4ERR_BADHANDLE as u32;
/// A name that does not exist.
pub(super) const NOENT: u32 = NFS4ERR_NOENT as u32;
/// A name that exists.
pub(super) const EXIST: u32 = NFS4ERR_EXIST as u32;
/// Something other than a directory where a directory is needed.
pub(super) const NOTDIR: u32 = NFS4ERR_NOTDIR as u32;
/// A directory where something else is needed.
pub(super) const ISDIR: u32 = NFS4ERR_ISDIR as u32;
/// A directory with entries.
pub(super) const NOTEMPTY: u32 = NFS4ERR_NOTEMPTY as u32;

/// The `errno` that a kernel client would return.
pub(super) fn errno(status: u32) -> i32 {
    match nfsstat4::from_u32(status) {
        Some(NFS4ERR_PERM) => libc::EPERM,
        Some(NFS4ERR_NOENT) => libc::ENOENT,
        Some(NFS4ERR_NXIO) => libc::ENXIO,
        Some(NFS4ERR_ACCESS | NFS4ERR_OPENMODE | NFS4ERR_WRONGSEC) => libc::EACCES,
        Some(NFS4ERR_EXIST) => libc::EEXIST,
        Some(NFS4ERR_XDEV) => libc::EXDEV,
        Some(NFS4ERR_NOTDIR) => libc::ENOTDIR,
        Some(NFS4ERR_ISDIR) => libc::EISDIR,
        Some(NFS4ERR_INVAL) => libc::EINVAL,
        Some(NFS4ERR_FBIG) => libc::EFBIG,
        Some(NFS4ERR_NOSPC) => libc::ENOSPC,
        Some(NFS4ERR_ROFS) => libc::EROFS,
        Some(NFS4ERR_MLINK) => libc::EMLINK,
        Some(NFS4ERR_NAMETOOLONG) => libc::ENAMETOOLONG,
        Some(NFS4ERR_NOTEMPTY) => libc::ENOTEMPTY,
        Some(NFS4ERR_DQUOT) => libc::EDQUOT,
        Some(NFS4ERR_STALE | NFS4ERR_BADHANDLE | NFS4ERR_FHEXPIRED) => libc::ESTALE,
        Some(NFS4ERR_NOTSUPP) => libc::EOPNOTSUPP,
        Some(NFS4ERR_LOCKED | NFS4ERR_SHARE_DENIED | NFS4ERR_FILE_OPEN) => libc::EBUSY,
        Some(NFS4ERR_DELAY | NFS4ERR_GRACE) => libc::ETIMEDOUT,
        Some(_) => libc::EIO,
        None => errno_of_nfs3(status),
    }
}

/// For statuses that `NFSv4.1` does not have.
fn errno_of_nfs3(status: u32) -> i32 {
    match nfsstat3::from_u32(status) {
        Some(nfsstat3::NFS3ERR_NODEV) => libc::ENODEV,
        Some(nfsstat3::NFS3ERR_REMOTE) => libc::EREMOTE,
        _ => libc::EIO,
    }
}

/// An error about `path`, with advice.
pub(super) fn refused<P: Protocol>(action: &'static str, path: &str, status: u32) -> EngineError {
    error(action, path, status, P::status_name(status))
}

/// As [`refused`], for a status that has this name in its version.
pub(super) fn error(action: &'static str, path: &str, status: u32, name: &'static str) -> EngineError {
    EngineError::Nfs { action, path: path.to_owned(), status: name, hint: hint(status).to_owned() }
}

fn hint(status: u32) -> &'static str {
    match nfsstat4::from_u32(status) {
        Some(NFS4ERR_NOENT | NFS4ERR_NOTDIR) => "; check the path",
        Some(NFS4ERR_PERM | NFS4ERR_ACCESS) => "; check the permissions on the server, or use another uid and gid",
        Some(NFS4ERR_WRONGSEC) => "; the export does not accept AUTH_SYS, or wants a privileged port",
        Some(NFS4ERR_EXIST) => "; it is not overwritten: remove it or use another name",
        Some(NFS4ERR_NOSPC) => "; free space or use a smaller size",
        Some(NFS4ERR_DQUOT) => "; raise the quota or use a smaller size",
        Some(NFS4ERR_FBIG) => "; the server does not support files of this size",
        Some(NFS4ERR_ROFS) => "; the export is read-only",
        Some(NFS4ERR_STALE | NFS4ERR_BADHANDLE | NFS4ERR_FHEXPIRED) => "; the file or the export is gone: run again",
        Some(NFS4ERR_SHARE_DENIED | NFS4ERR_LOCKED) => "; another client has the file open and denies this access",
        Some(NFS4ERR_DELAY) => "; the server was not ready within the timeout",
        Some(NFS4ERR_GRACE) => "; the server is still in its grace period after a restart",
        Some(NFS4ERR_MINOR_VERS_MISMATCH) => "; the server does not serve NFSv4.1",
        _ => "",
    }
}
