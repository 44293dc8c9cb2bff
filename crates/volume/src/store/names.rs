//! Rules for names in a directory.

use iocurve_wire::nfs3::nfsstat3;

/// Longest name in a directory.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// Longest target of a symbolic link.
pub(super) const SYMLINK_BYTES_MAX: usize = 4095;

/// Checks a name that is to be created.
pub(super) fn check_name(name: &[u8]) -> Result<(), nfsstat3> {
    match name {
        [] => Err(nfsstat3::NFS3ERR_ACCES),
        name if name.len() > NAME_BYTES_MAX => Err(nfsstat3::NFS3ERR_NAMETOOLONG),
        name if name.iter().any(|byte| matches!(byte, b'/' | 0)) => Err(nfsstat3::NFS3ERR_ACCES),
        _ => Ok(()),
    }
}

/// Checks a name that is to be removed or replaced.
pub(super) fn check_removable(name: &[u8]) -> Result<(), nfsstat3> {
    match name {
        b"." => Err(nfsstat3::NFS3ERR_INVAL),
        b".." => Err(nfsstat3::NFS3ERR_EXIST),
        name => check_name(name),
    }
}

pub(super) fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}
