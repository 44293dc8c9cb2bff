//! Files as filehandles name them: in an export, or above all exports.

use iocurve_wire::nfs3::{fattr3, ftype3, nfs_fh3};
use iocurve_wire::nfs4::nfsstat4;

use super::status_of;
use crate::served::pseudo_root::{PseudoDirectory, PseudoRoot};
use crate::served::{Export, Served};
use crate::store::{Files, Named, Store};

/// A current or saved filehandle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A directory above the exports.
    Above(PseudoDirectory),
    /// A file of an export.
    In(nfs_fh3),
}

/// A file of an export with its attributes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<'s> {
    pub(super) export: &'s Export,
    pub(super) handle: nfs_fh3,
    pub(super) attributes: fattr3,
}

impl<'s> Found<'s> {
    pub(super) fn files(&self) -> &'s Files {
        &self.export.files
    }

    pub(super) fn file(&self) -> &[u8] {
        self.handle.as_bytes()
    }

    /// A file of the same export, as its store has found it.
    pub(super) fn sibling(&self, Named { handle, attributes }: Named) -> Self {
        Self { export: self.export, handle, attributes }
    }

    /// Fails unless this is a directory, with the status for an operation that needs one.
    pub(super) fn directory(self) -> Result<Self, nfsstat4> {
        match self.attributes.file_type {
            ftype3::NF3DIR => Ok(self),
            ftype3::NF3LNK => Err(nfsstat4::NFS4ERR_SYMLINK),
            _ => Err(nfsstat4::NFS4ERR_NOTDIR),
        }
    }

    /// Fails unless this is a regular file, with the status for an operation that needs one.
    pub(super) fn regular(self) -> Result<Self, nfsstat4> {
        match self.attributes.file_type {
            ftype3::NF3REG => Ok(self),
            ftype3::NF3DIR => Err(nfsstat4::NFS4ERR_ISDIR),
            ftype3::NF3LNK => Err(nfsstat4::NFS4ERR_SYMLINK),
            _ => Err(nfsstat4::NFS4ERR_WRONG_TYPE),
        }
    }
}

impl Place {
    /// The place of a handle that a client sends.
    #[inline]
    pub(super) fn of_handle(served: &Served, handle: &[u8]) -> Result<Self, nfsstat4> {
        if let Some(directory) = served.pseudo_root.of_handle(handle) {
            return Ok(Self::above(served, directory));
        }
        let file = nfs_fh3::new(handle).ok_or(nfsstat4::NFS4ERR_BADHANDLE)?;
        if !served.exports.has(handle) {
            // Its store tells whether it may be one of an earlier start.
            served.exports.of(handle).files.getattr(handle).map_err(status_of)?;
        }
        Ok(Self::In(file))
    }

    /// A directory above the exports, or the root of the export that is there.
    pub(super) fn above(served: &Served, directory: PseudoDirectory) -> Self {
        match served.pseudo_root.export(directory) {
            Some(export) => Self::In(served.exports.numbered(export).files.root()),
            None => Self::Above(directory),
        }
    }

    pub(super) fn handle(&self) -> nfs_fh3 {
        match self {
            Self::Above(directory) => PseudoRoot::handle(*directory),
            Self::In(handle) => *handle,
        }
    }

    /// The directory among those above the exports, if it is one of them or the root of an export.
    pub(super) fn pseudo_directory(&self, served: &Served) -> Option<PseudoDirectory> {
        match self {
            Self::Above(directory) => Some(*directory),
            Self::In(handle) => {
                let export = served.exports.of(handle.as_bytes());
                export.is_root(handle).then(|| served.pseudo_root.of_export(export.number))
            }
        }
    }

    /// The file of an export with its attributes; above the exports nothing can be changed.
    pub(super) fn found<'s>(&self, served: &'s Served) -> Result<Found<'s>, nfsstat4> {
        let Self::In(handle) = *self else { return Err(nfsstat4::NFS4ERR_ROFS) };
        let export = served.exports.of(handle.as_bytes());
        let attributes = export.files.getattr(handle.as_bytes()).map_err(status_of)?;
        Ok(Found { export, handle, attributes })
    }
}
