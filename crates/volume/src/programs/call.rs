//! A call as its program gets it, and the programs there are.

use iocurve_wire::mount3::{MOUNT_PROGRAM, MOUNT_V3};
use iocurve_wire::nfs3::{NFS_PROGRAM, NFS_V3, nfs_fh3, post_op_attr};
use iocurve_wire::nfs4::NFS_V4;
use iocurve_wire::portmap::{PMAP_PROG, PMAP_VERS};
use iocurve_wire::xdr::XdrError;

use super::turn::Peer;
use crate::memory::TIGHT_BYTES;
use crate::served::Served;
use crate::served::rules::Refusal;
use crate::store::Files;
use crate::store::access::Caller;
use crate::store::{LISTING_BYTES_MAX, Store};

/// A program in one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    Portmap2,
    Nfs3,
    Nfs4,
    Mount3,
}

impl Program {
    /// Programs that are served, in the order in which the port mapper lists them.
    pub(super) const ALL: [Self; 4] = [Self::Portmap2, Self::Nfs3, Self::Nfs4, Self::Mount3];

    /// Its program number and version.
    pub(super) const fn number(self) -> (u32, u32) {
        match self {
            Self::Portmap2 => (PMAP_PROG, PMAP_VERS),
            Self::Nfs3 => (NFS_PROGRAM, NFS_V3),
            Self::Nfs4 => (NFS_PROGRAM, NFS_V4),
            Self::Mount3 => (MOUNT_PROGRAM, MOUNT_V3),
        }
    }
}

/// A call to a procedure off the data path.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) served: &'a Served,
    /// Number of the procedure.
    pub(super) procedure: u32,
    /// Arguments, not yet decoded.
    pub(super) arguments: &'a [u8],
    /// The user that the client states; `None` if it states none. What the user may do depends on the export: [`Call::admit`].
    pub(super) stated: Option<Caller>,
    pub(super) peer: &'a Peer,
    /// Memory for connections is short.
    pub(super) is_tight: bool,
}

/// A call that the export of its first handle admits.
#[derive(Debug)]
pub(super) struct Admitted<'a> {
    pub(super) served: &'a Served,
    pub(super) arguments: &'a [u8],
    /// The user that the call is executed for.
    pub(super) caller: Caller,
    /// Most bytes of a listing.
    pub(super) listing_bytes_max: u32,
}

impl<'a> Call<'a> {
    /// Admits the call if the client may use the export of `file` in this way.
    pub(super) fn admit(&self, file: &[u8], is_change: bool) -> Result<Admitted<'a>, Refusal> {
        let export = self.served.exports.of(file);
        let caller = export.admit(self.stated.as_ref(), self.peer.access(export), is_change)?;
        let listing_bytes_max = if self.is_tight { TIGHT_BYTES as u32 } else { LISTING_BYTES_MAX };
        Ok(Admitted { served: self.served, arguments: self.arguments, caller, listing_bytes_max })
    }
}

impl<'a> Admitted<'a> {
    /// The files of the export that a handle belongs to.
    pub(super) fn files(&self, file: &nfs_fh3) -> &'a Files {
        &self.served.exports.of(file.as_bytes()).files
    }

    /// Attributes of a file; `None` if it has been removed.
    pub(super) fn attributes(&self, file: &nfs_fh3) -> post_op_attr {
        self.files(file).getattr(file.as_bytes()).ok()
    }
}

/// A call that was understood, but has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// The program has no such procedure.
    Procedure,
    /// The arguments cannot be decoded.
    Arguments,
}

impl From<XdrError> for Refused {
    fn from(_: XdrError) -> Self {
        Self::Arguments
    }
}
