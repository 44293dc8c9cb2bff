//! Permissions for changes of names. A store evaluates them under the lock under which it makes the change, for both versions of the
//! protocol.

use iocurve_wire::nfs3::{createhow3, fattr3, ftype3, nfsstat3, sattr3};

use super::access::{self, Caller};
use super::contract::Creation;

/// Checks that the caller may look up names in a directory.
pub(super) fn check_search(caller: &Caller, directory: &fattr3) -> Result<(), nfsstat3> {
    if directory.file_type != ftype3::NF3DIR {
        return Err(nfsstat3::NFS3ERR_NOTDIR);
    }
    access::check(caller, directory, access::EXECUTE)
}

/// Checks that the caller may add names to a directory.
pub(super) fn check_addition(caller: &Caller, directory: &fattr3) -> Result<(), nfsstat3> {
    access::check(caller, directory, access::WRITE | access::EXECUTE)
}

/// Checks permissions for a new name: to write the directory, and root for a device. A file that exists and is to be truncated must
/// be the caller's or writable.
pub(super) fn check_creation(
    caller: &Caller,
    directory: &fattr3,
    existing: Option<&fattr3>,
    what: &Creation<'_>,
) -> Result<(), nfsstat3> {
    match (existing, what) {
        (Some(file), Creation::File(createhow3::UNCHECKED(sattr3 { size: size @ Some(_), .. }))) => {
            let cut = sattr3 { size: *size, ..sattr3::default() };
            access::check_setattr(caller, file, &cut).map(drop)
        }
        (Some(_), _) => Ok(()),
        (None, what) => {
            if let Creation::Special(_, file_type, _) = what {
                access::check_special(caller, *file_type)?;
            }
            check_addition(caller, directory)
        }
    }
}

/// A new file with the attributes that the caller may give it in a directory, and the user it is to belong to.
pub(super) fn granted<'a>(caller: &Caller, directory: &fattr3, what: Creation<'a>) -> (Creation<'a>, Caller) {
    let what = what.with_attributes(|file_type, asked| access::initial(caller, directory, file_type, asked));
    (what, access::creator(caller, directory))
}

/// Checks that the caller may move a file from one directory to another, over a file that may be there: both directories must be
/// writable, and so must a directory that gets another parent.
pub(super) fn check_rename(
    caller: &Caller,
    (from, moved): (&fattr3, &fattr3),
    (to, replaced): (&fattr3, Option<&fattr3>),
) -> Result<(), nfsstat3> {
    access::check_removal(caller, from, moved)?;
    if let Some(replaced) = replaced {
        access::check_removal(caller, to, replaced)?;
    }
    check_addition(caller, to)?;
    if moved.file_type == ftype3::NF3DIR && from.fileid != to.fileid {
        access::check(caller, moved, access::WRITE)?;
    }
    Ok(())
}
