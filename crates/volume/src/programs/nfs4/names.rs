//! Names in directories: LOOKUP, CREATE, REMOVE, RENAME, LINK, READLINK and SECINFO.
#![allow(clippy::wildcard_imports)] // the whole protocol is spoken here
#![allow(clippy::needless_pass_by_value)] // decoded arguments belong to their operation

use iocurve_wire::nfs3::{ftype3, specdata3};
use iocurve_wire::nfs4::operations::secinfo_style::{SECINFO_STYLE4_CURRENT_FH, SECINFO_STYLE4_PARENT};
use iocurve_wire::nfs4::operations::*;
use iocurve_wire::nfs4::{component4, nfs_opnum4, nfsstat4};

use super::attributes::to_set;
use super::compound::{Compound, Next};
use super::place::{Found, Place};
use super::{change_info, changed, status_of};
use crate::store::names::NAME_BYTES_MAX;
use crate::store::{Changed, Creation, Removal, Store, access};

/// Checks the form of a name (§1.7.2, §14.5). `.` and `..` are names of directories in no operation.
pub(super) fn check_name(name: component4<'_>) -> Result<(), nfsstat4> {
    match name {
        [] => Err(nfsstat4::NFS4ERR_INVAL),
        b"." | b".." => Err(nfsstat4::NFS4ERR_BADNAME),
        name if name.len() > NAME_BYTES_MAX => Err(nfsstat4::NFS4ERR_NAMETOOLONG),
        name if name.iter().any(|byte| matches!(byte, b'/' | 0)) => Err(nfsstat4::NFS4ERR_BADCHAR),
        _ => Ok(()),
    }
}

/// LOOKUP (§18.13).
pub(super) fn lookup(
    compound: &mut Compound<'_, '_>,
    LOOKUP4args { objname }: LOOKUP4args<'_>,
) -> Result<(), nfsstat4> {
    let found = find(compound, &compound.place()?, objname)?;
    compound.go_to(found);
    Ok(())
}

/// The place of a name in a directory.
fn find(compound: &Compound<'_, '_>, place: &Place, name: component4<'_>) -> Result<Place, nfsstat4> {
    let served = compound.turn.served;
    let directory = match place {
        Place::Above(_) => None,
        Place::In(_) => Some(directory(compound, place)?),
    };
    check_name(name)?;
    let above = place.pseudo_directory(served).and_then(|above| served.pseudo_root.child(above, name));
    match (above, directory) {
        // As in READDIR, an export that the client may not use is not there.
        (Some(child), _) if !compound.may_use(child) => Err(nfsstat4::NFS4ERR_NOENT),
        (Some(child), _) => Ok(Place::above(served, child)),
        (None, Some(directory)) => named(compound, &directory, name),
        (None, None) => Err(nfsstat4::NFS4ERR_NOENT),
    }
}

/// The place of a name in a directory of an export.
fn named(compound: &Compound<'_, '_>, directory: &Found<'_>, name: &[u8]) -> Result<Place, nfsstat4> {
    let found = directory.files().lookup(&compound.caller, directory.file(), name);
    found.map(|(found, _)| Place::In(found.handle)).map_err(status_of)
}

/// A directory of an export.
fn directory<'t>(compound: &Compound<'_, 't>, place: &Place) -> Result<Found<'t>, nfsstat4> {
    place.found(compound.turn.served)?.directory()
}

/// LOOKUPP (§18.14).
pub(super) fn lookupp(compound: &mut Compound<'_, '_>, (): ()) -> Result<(), nfsstat4> {
    let parent = parent(compound)?;
    compound.go_to(parent);
    Ok(())
}

fn parent(compound: &Compound<'_, '_>) -> Result<Place, nfsstat4> {
    let (served, place) = (compound.turn.served, compound.place()?);
    let found = match place {
        Place::Above(_) => None,
        Place::In(_) => Some(directory(compound, &place)?),
    };
    if let Some(found) = &found {
        access::check(&compound.caller, &found.attributes, access::EXECUTE).map_err(status_of)?;
    }
    if let Some(directory) = place.pseudo_directory(served) {
        let above = served.pseudo_root.parent(directory).ok_or(nfsstat4::NFS4ERR_NOENT)?;
        return Ok(Place::above(served, above));
    }
    named(compound, &found.ok_or(nfsstat4::NFS4ERR_NOENT)?, b"..")
}

/// CREATE (§18.4): everything but regular files.
pub(super) fn create(compound: &mut Compound<'_, '_>, arguments: CREATE4args<'_>) -> Result<CREATE4resok, nfsstat4> {
    let directory = directory(compound, &compound.place()?)?;
    check_name(arguments.objname)?;
    let (new, attrset) = to_set(&arguments.createattrs)?;
    let none = specdata3::default();
    let device =
        |spec: iocurve_wire::nfs4::specdata4| specdata3 { specdata1: spec.specdata1, specdata2: spec.specdata2 };
    let what = match arguments.objtype {
        createtype4::NF4DIR(()) => Creation::Directory(new),
        createtype4::NF4LNK(target) => Creation::Symlink(new, target),
        createtype4::NF4BLK(spec) => Creation::Special(new, ftype3::NF3BLK, device(spec)),
        createtype4::NF4CHR(spec) => Creation::Special(new, ftype3::NF3CHR, device(spec)),
        createtype4::NF4SOCK(()) => Creation::Special(new, ftype3::NF3SOCK, none),
        createtype4::NF4FIFO(()) => Creation::Special(new, ftype3::NF3FIFO, none),
        createtype4::NF4REG(()) | createtype4::NF4ATTRDIR(()) | createtype4::NF4NAMEDATTR(()) => {
            return Err(nfsstat4::NFS4ERR_BADTYPE);
        }
    };
    let made = directory.files().create(&compound.caller, directory.file(), arguments.objname, what);
    let (made, cinfo) = changed(made)?;
    compound.go_to(Place::In(made.handle));
    Ok(CREATE4resok { cinfo, attrset })
}

/// REMOVE (§18.25): a file or an empty directory.
pub(super) fn remove(
    compound: &mut Compound<'_, '_>,
    REMOVE4args { target }: REMOVE4args<'_>,
) -> Result<REMOVE4resok, nfsstat4> {
    let directory = directory(compound, &compound.place()?)?;
    check_name(target)?;
    let removed = directory.files().remove(&compound.caller, directory.file(), target, Removal::Any);
    let ((), cinfo) = changed(removed)?;
    Ok(REMOVE4resok { cinfo })
}

/// RENAME (§18.26).
pub(super) fn rename(
    compound: &mut Compound<'_, '_>,
    RENAME4args { oldname, newname }: RENAME4args<'_>,
) -> Result<RENAME4resok, nfsstat4> {
    let (to, from) = (compound.place()?, compound.saved.ok_or(nfsstat4::NFS4ERR_NOFILEHANDLE)?);
    compound.check_same_export(&from, &to)?;
    let (from, to) = (directory(compound, &from)?, directory(compound, &to)?);
    check_name(oldname)?;
    check_name(newname)?;
    let (old, new) = ((from.file(), oldname), (to.file(), newname));
    let Changed { result, wcc: (source, target) } = from.files().rename(&compound.caller, old, new);
    result.map_err(status_of)?;
    Ok(RENAME4resok { source_cinfo: change_info(&source), target_cinfo: change_info(&target) })
}

/// LINK (§18.9): the saved filehandle is the file, the current one the directory.
pub(super) fn link(
    compound: &mut Compound<'_, '_>,
    LINK4args { newname }: LINK4args<'_>,
) -> Result<LINK4resok, nfsstat4> {
    let (place, file) = (compound.place()?, compound.saved.ok_or(nfsstat4::NFS4ERR_NOFILEHANDLE)?);
    compound.check_same_export(&file, &place)?;
    let directory = directory(compound, &place)?;
    let file = file.found(compound.turn.served)?;
    check_name(newname)?;
    if file.attributes.file_type == ftype3::NF3DIR {
        return Err(nfsstat4::NFS4ERR_ISDIR);
    }
    let ((), cinfo) = changed(file.files().link(&compound.caller, file.file(), directory.file(), newname))?;
    Ok(LINK4resok { cinfo })
}

/// READLINK (§18.24).
pub(super) fn readlink(compound: &mut Compound<'_, '_>) -> Next {
    let target = compound.found().and_then(|found| match found.attributes.file_type {
        ftype3::NF3LNK => found.files().readlink(found.file()).map_err(status_of),
        _ => Err(nfsstat4::NFS4ERR_WRONG_TYPE),
    });
    let result = target.as_ref().map(|target| READLINK4resok { link: target }).map_err(|status| *status);
    compound.put(nfs_opnum4::OP_READLINK, &result)
}

/// Flavors that are accepted everywhere.
fn flavors() -> Vec<secinfo4<'static>> {
    vec![secinfo4::AUTH_SYS(()), secinfo4::AUTH_NONE(())]
}

/// SECINFO (§18.29); it leaves no current filehandle.
pub(super) fn secinfo(
    compound: &mut Compound<'_, '_>,
    SECINFO4args { name }: SECINFO4args<'_>,
) -> Result<Vec<secinfo4<'static>>, nfsstat4> {
    find(compound, &compound.place()?, name)?;
    compound.current = None;
    Ok(flavors())
}

/// `SECINFO_NO_NAME` (§18.45).
pub(super) fn secinfo_no_name(
    compound: &mut Compound<'_, '_>,
    SECINFO_NO_NAME4args { style }: SECINFO_NO_NAME4args,
) -> Result<Vec<secinfo4<'static>>, nfsstat4> {
    match style {
        SECINFO_STYLE4_CURRENT_FH => compound.place().map(drop)?,
        SECINFO_STYLE4_PARENT => parent(compound).map(drop)?,
        _ => return Err(nfsstat4::NFS4ERR_INVAL),
    }
    compound.current = None;
    Ok(flavors())
}
