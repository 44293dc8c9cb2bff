//! MOUNT, version 3 (RFC 1813 Appendix I): from an exported path to a file handle.
#![allow(non_camel_case_types)] // the RFC's names

use crate::nfs3::nfs_fh3;
use crate::xdr::{Decode, Encode, List, Reader, Writer, XdrError, xdr_enum, xdr_struct};

/// Program number.
pub const MOUNT_PROGRAM: u32 = 100_005;
/// Version.
pub const MOUNT_V3: u32 = 3;

/// Longest path name.
pub const MNTPATHLEN: usize = 1024;

/// Does nothing.
pub const MOUNTPROC3_NULL: u32 = 0;
/// [`dirpath`] → [`mountres3`].
pub const MOUNTPROC3_MNT: u32 = 1;
/// Nothing → [`mountlist`].
pub const MOUNTPROC3_DUMP: u32 = 2;
/// [`dirpath`] → nothing.
pub const MOUNTPROC3_UMNT: u32 = 3;
/// Nothing → nothing.
pub const MOUNTPROC3_UMNTALL: u32 = 4;
/// Nothing → [`exports`].
pub const MOUNTPROC3_EXPORT: u32 = 5;

/// A path on the server.
pub type dirpath<'a> = &'a [u8];

/// Result of DUMP: the mounts that clients have told of.
pub type mountlist<'a> = List<mountbody<'a>>;

/// Result of EXPORT: the directories that can be mounted.
pub type exports<'a> = List<exportnode<'a>>;

/// Result of MNT.
pub type mountres3 = Result<mountres3_ok, mountstat3>;

xdr_enum! {
    /// Reasons to refuse a mount.
    #[allow(missing_docs)] // the RFC's table
    mountstat3 {
        MNT3_OK = 0,
        MNT3ERR_PERM = 1,
        MNT3ERR_NOENT = 2,
        MNT3ERR_IO = 5,
        MNT3ERR_ACCES = 13,
        MNT3ERR_NOTDIR = 20,
        MNT3ERR_INVAL = 22,
        MNT3ERR_NAMETOOLONG = 63,
        MNT3ERR_NOTSUPP = 10004,
        MNT3ERR_SERVERFAULT = 10006,
    }
}

xdr_struct! {
    /// A successful mount.
    mountres3_ok {
        /// Handle of the directory.
        fhandle: nfs_fh3,
        /// Flavors of authentication the server takes, preferred first.
        auth_flavors: Vec<u32>,
    }

    /// One mount of one client.
    mountbody<'a> {
        /// The client.
        ml_hostname: &'a [u8],
        /// The directory that it mounted.
        ml_directory: dirpath<'a>,
    }

    /// One exported directory.
    exportnode<'a> {
        /// Its path.
        ex_dir: dirpath<'a>,
        /// Groups of clients that may mount it; everyone if empty.
        ex_groups: List<&'a [u8]>,
    }
}

impl Encode for mountres3 {
    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Ok(mounted) => {
                mountstat3::MNT3_OK.encode(writer);
                mounted.encode(writer);
            }
            Err(status) => status.encode(writer),
        }
    }
}

impl<'a> Decode<'a> for mountres3 {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, XdrError> {
        match mountstat3::decode(reader)? {
            mountstat3::MNT3_OK => Ok(Ok(mountres3_ok::decode(reader)?)),
            status => Ok(Err(status)),
        }
    }
}
