//! NFS statuses as `errno` and as messages for the user.

use iocurve_wire::nfs3::nfsstat3;

use crate::error::EngineError;

/// The `errno` that a kernel client would return.
pub(super) fn errno(status: u32) -> i32 {
    match nfsstat3::from_u32(status) {
        Some(nfsstat3::NFS3ERR_PERM) => libc::EPERM,
        Some(nfsstat3::NFS3ERR_NOENT) => libc::ENOENT,
        Some(nfsstat3::NFS3ERR_NXIO) => libc::ENXIO,
        Some(nfsstat3::NFS3ERR_ACCES) => libc::EACCES,
        Some(nfsstat3::NFS3ERR_EXIST) => libc::EEXIST,
        Some(nfsstat3::NFS3ERR_XDEV) => libc::EXDEV,
        Some(nfsstat3::NFS3ERR_NODEV) => libc::ENODEV,
        Some(nfsstat3::NFS3ERR_NOTDIR) => libc::ENOTDIR,
        Some(nfsstat3::NFS3ERR_ISDIR) => libc::EISDIR,
        Some(nfsstat3::NFS3ERR_INVAL) => libc::EINVAL,
        Some(nfsstat3::NFS3ERR_FBIG) => libc::EFBIG,
        Some(nfsstat3::NFS3ERR_NOSPC) => libc::ENOSPC,
        Some(nfsstat3::NFS3ERR_ROFS) => libc::EROFS,
        Some(nfsstat3::NFS3ERR_MLINK) => libc::EMLINK,
        Some(nfsstat3::NFS3ERR_NAMETOOLONG) => libc::ENAMETOOLONG,
        Some(nfsstat3::NFS3ERR_NOTEMPTY) => libc::ENOTEMPTY,
        Some(nfsstat3::NFS3ERR_DQUOT) => libc::EDQUOT,
        Some(nfsstat3::NFS3ERR_STALE | nfsstat3::NFS3ERR_BADHANDLE) => libc::ESTALE,
        Some(nfsstat3::NFS3ERR_REMOTE) => libc::EREMOTE,
        Some(nfsstat3::NFS3ERR_NOTSUPP) => libc::EOPNOTSUPP,
        Some(nfsstat3::NFS3ERR_JUKEBOX) => libc::ETIMEDOUT,
        _ => libc::EIO,
    }
}

/// The RFC's name of a status.
pub(super) fn name(status: u32) -> &'static str {
    nfsstat3::from_u32(status).map_or("a status that NFSv3 does not have", nfsstat3::name)
}

/// An error about `path`, with advice.
pub(super) fn refused(action: &'static str, path: &str, status: u32) -> EngineError {
    EngineError::Nfs { action, path: path.to_owned(), status: name(status), hint: hint(status).to_owned() }
}

fn hint(status: u32) -> &'static str {
    match nfsstat3::from_u32(status) {
        Some(nfsstat3::NFS3ERR_NOENT | nfsstat3::NFS3ERR_NOTDIR) => "; check the path",
        Some(nfsstat3::NFS3ERR_PERM | nfsstat3::NFS3ERR_ACCES) => {
            "; check the permissions on the server, or use another uid and gid"
        }
        Some(nfsstat3::NFS3ERR_EXIST) => "; it is not overwritten: remove it or use another name",
        Some(nfsstat3::NFS3ERR_NOSPC) => "; free space or use a smaller size",
        Some(nfsstat3::NFS3ERR_DQUOT) => "; raise the quota or use a smaller size",
        Some(nfsstat3::NFS3ERR_FBIG) => "; the server does not support files of this size",
        Some(nfsstat3::NFS3ERR_ROFS) => "; the export is read-only",
        Some(nfsstat3::NFS3ERR_STALE | nfsstat3::NFS3ERR_BADHANDLE) => "; the file or the export is gone: run again",
        Some(nfsstat3::NFS3ERR_JUKEBOX) => "; the server was not ready within the timeout",
        _ => "",
    }
}
