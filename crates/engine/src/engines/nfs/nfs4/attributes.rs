//! Attributes of `NFSv4.1`: those that calls ask for and set, and what they say of an object.

use std::sync::LazyLock;

use iocurve_wire::nfs4::attributes::{
    Attributes, FATTR4_CHANGE, FATTR4_FILEHANDLE, FATTR4_FILEID, FATTR4_MODE, FATTR4_NUMLINKS, FATTR4_OWNER,
    FATTR4_OWNER_GROUP, FATTR4_RDATTR_ERROR, FATTR4_SIZE, FATTR4_SPACE_USED, FATTR4_TIME_ACCESS, FATTR4_TIME_METADATA,
    FATTR4_TIME_MODIFY, FATTR4_TYPE, bitmap4, fattr4,
};
use iocurve_wire::nfs4::nfs_ftype4;
use iocurve_wire::nfs4::operations::{GETATTR4args, entry4, nfs_argop4, nfs_resop4};
use iocurve_wire::xdr::{from_bytes, to_bytes};

use super::super::names::{DIRECTORY_MODE, Details, FILE_MODE, FileFacts, Listed, Node};
use super::opens::Handle;
use crate::tree::EntryKind;

/// Attributes that stat(2) asks for.
pub(super) const STAT: bitmap4 = bitmap4::of(&[
    FATTR4_TYPE,
    FATTR4_CHANGE,
    FATTR4_SIZE,
    FATTR4_FILEID,
    FATTR4_MODE,
    FATTR4_NUMLINKS,
    FATTR4_OWNER,
    FATTR4_OWNER_GROUP,
    FATTR4_SPACE_USED,
    FATTR4_TIME_ACCESS,
    FATTR4_TIME_METADATA,
    FATTR4_TIME_MODIFY,
]);
/// Attributes of an object that is found outside a load.
pub(super) const FACTS: bitmap4 =
    bitmap4::of(&[FATTR4_TYPE, FATTR4_SIZE, FATTR4_FILEID, FATTR4_NUMLINKS, FATTR4_OWNER, FATTR4_TIME_MODIFY]);
/// Attributes of a [`Listed`] entry; one that the server cannot read has an error instead.
pub(super) const LISTED: bitmap4 = bitmap4::of(&[FATTR4_TYPE, FATTR4_SIZE, FATTR4_RDATTR_ERROR, FATTR4_FILEHANDLE]);

/// Attributes as calls have them, encoded once.
pub(super) type Encoded = LazyLock<Vec<u8>>;

/// Attributes of a new file.
pub(super) static CREATED: Encoded =
    LazyLock::new(|| to_bytes(&Attributes { mode: Some(FILE_MODE), ..Attributes::default() }));
/// Attributes of a new directory.
pub(super) static MADE_DIRECTORY: Encoded =
    LazyLock::new(|| to_bytes(&Attributes { mode: Some(DIRECTORY_MODE), ..Attributes::default() }));

pub(super) fn get(attr_request: bitmap4) -> nfs_argop4<'static> {
    nfs_argop4::GETATTR(GETATTR4args { attr_request })
}

pub(super) fn made_here(attributes: &[u8]) -> fattr4<'_> {
    from_bytes(attributes).expect("attributes that were made here")
}

pub(super) fn attributes<'a>(result: &nfs_resop4<'a>) -> Option<Attributes<'a>> {
    match result {
        nfs_resop4::GETATTR(Ok(found)) => found.obj_attributes.values().ok(),
        _ => None,
    }
}

fn kind_and_bytes(found: &Attributes<'_>) -> Option<(EntryKind, u64)> {
    let kind = match found.file_type? {
        nfs_ftype4::NF4REG => EntryKind::File,
        nfs_ftype4::NF4DIR => EntryKind::Directory,
        nfs_ftype4::NF4LNK => EntryKind::Symlink,
        _ => EntryKind::Other,
    };
    Some((kind, found.size?))
}

pub(super) fn listed(entry: &entry4<'_>) -> Listed<Handle> {
    let node = |found: &Attributes<'_>| {
        let (kind, bytes) = kind_and_bytes(found)?;
        Some(Node { handle: found.filehandle?.into(), kind, bytes, facts: None })
    };
    Listed { name: entry.name.to_vec(), node: entry.attrs.values().ok().and_then(|found| node(&found)) }
}

/// The object that has these attributes.
pub(super) fn object(found: &Attributes<'_>) -> Option<Box<Details<Handle>>> {
    let (kind, bytes) = kind_and_bytes(found)?;
    Some(Box::new(Details::Object { kind, bytes, facts: facts(found) }))
}

fn facts(found: &Attributes<'_>) -> Option<FileFacts> {
    let modified = found.time_modify?;
    Some(FileFacts {
        is_plain: found.file_type? == nfs_ftype4::NF4REG && found.numlinks.unwrap_or(1) == 1,
        bytes: found.size?,
        id: found.fileid?,
        modified_ns: u64::try_from(modified.seconds).ok()? * 1_000_000_000 + u64::from(modified.nseconds),
        owner: String::from_utf8_lossy(found.owner?).into_owned(),
    })
}
