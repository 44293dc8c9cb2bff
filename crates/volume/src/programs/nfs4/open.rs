//! OPEN, CLOSE and `OPEN_DOWNGRADE`.
#![allow(clippy::wildcard_imports)] // the whole protocol is spoken here
#![allow(clippy::needless_pass_by_value)] // decoded arguments belong to their operation

use iocurve_wire::nfs3::{createhow3, ftype3, nfsstat3, sattr3};
use iocurve_wire::nfs4::attributes::{FATTR4_TIME_ACCESS_SET, FATTR4_TIME_MODIFY_SET, bitmap4};
use iocurve_wire::nfs4::operations::share::*;
use iocurve_wire::nfs4::operations::*;
use iocurve_wire::nfs4::{change_info4, component4, nfsstat4, stateid4};

use super::attributes::to_set;
use super::compound::Compound;
use super::names::check_name;
use super::place::{Found, Place};
use super::{change, changed, status_of};
use crate::nfs4_state::{NfsClient, OpenRequest};
use crate::store::Files;
use crate::store::{Changed, Creation, Store, access};

/// An OPEN looks up and makes its name at most this number of times while others make and remove it.
const TURNS_MAX: usize = 8;

/// The file that was found or made for an OPEN.
struct Opened<'t> {
    found: Found<'t>,
    cinfo: change_info4,
    attrset: bitmap4,
    is_new: bool,
    /// Size that the file is to be cut to once it is open.
    cut: Option<u64>,
}

/// OPEN (§18.16).
pub(super) fn open(compound: &mut Compound<'_, '_>, arguments: OPEN4args<'_>) -> Result<OPEN4resok, nfsstat4> {
    let access = check_share(&arguments)?;
    let (served, now) = (compound.turn.served, compound.turn.now);
    let place = compound.place()?;
    let is_change = access & OPEN4_SHARE_ACCESS_WRITE != 0 || matches!(arguments.openhow, openflag4::OPEN4_CREATE(_));
    compound.check_rules(is_change)?;
    let is_reclaim = matches!(arguments.claim, open_claim4::CLAIM_PREVIOUS(_));
    served.nfs4.check_open(client(compound)?, is_reclaim, now)?;
    let opened = match arguments.claim {
        open_claim4::CLAIM_NULL(name) => by_name(compound, &place, name, &arguments.openhow)?,
        open_claim4::CLAIM_FH(()) | open_claim4::CLAIM_PREVIOUS(_) => by_handle(compound, &place, &arguments.openhow)?,
        _ => return Err(nfsstat4::NFS4ERR_NOTSUPP),
    };
    let found = opened.found.regular()?;
    if !opened.is_new && !is_reclaim {
        check_permissions(compound, &found, access)?;
    }
    let request =
        OpenRequest { owner: arguments.owner.owner.0, file: &found.handle, access, deny: arguments.share_deny };
    let slot = compound.slot.as_mut().ok_or(nfsstat4::NFS4ERR_OP_NOT_IN_SESSION)?;
    let before = slot.session.client.generation();
    let (stateid, was_open) = served.nfs4.open(&slot.session.client, &request, now)?;
    // The WRITE or READ that follows need not check it, if this OPEN is the only change since.
    let shown = if access & OPEN4_SHARE_ACCESS_WRITE == 0 { access } else { OPEN4_SHARE_ACCESS_WRITE };
    slot.show(&stateid, &found.handle, shown, before + 1);
    if let Some(size) = opened.cut
        && let Err(status) = cut(compound, &found, size)
    {
        if !was_open {
            served.nfs4.close(client(compound)?, &stateid, &found.handle)?;
        }
        return Err(status);
    }
    compound.go_to(Place::In(found.handle));
    compound.stateid = Some(stateid);
    Ok(OPEN4resok {
        stateid,
        cinfo: opened.cinfo,
        rflags: OPEN4_RESULT_LOCKTYPE_POSIX,
        attrset: opened.attrset,
        delegation: no_delegation(arguments.share_access),
    })
}

/// The client of the session.
fn client<'c>(compound: &'c Compound<'_, '_>) -> Result<&'c NfsClient, nfsstat4> {
    compound.session().map(|session| &*session.client).ok_or(nfsstat4::NFS4ERR_OP_NOT_IN_SESSION)
}

/// Checks the bits of access and deny, and returns those of access without what is wanted beside it.
fn check_share(arguments: &OPEN4args<'_>) -> Result<u32, nfsstat4> {
    let access = arguments.share_access & OPEN4_SHARE_ACCESS_BOTH;
    let is_known = arguments.share_access & !OPEN4_SHARE_ACCESS_KNOWN == 0;
    let is_known = is_known && arguments.share_deny & !OPEN4_SHARE_DENY_BOTH == 0;
    if access == 0 || !is_known { Err(nfsstat4::NFS4ERR_INVAL) } else { Ok(access) }
}

/// Why there is no delegation: the server gives none.
fn no_delegation(share_access: u32) -> open_delegation4 {
    let why = match share_access & OPEN4_SHARE_ACCESS_WANT_DELEG_MASK {
        0 => return open_delegation4::OPEN_DELEGATE_NONE(()),
        OPEN4_SHARE_ACCESS_WANT_NO_DELEG => open_none_delegation4::WND4_NOT_WANTED(()),
        OPEN4_SHARE_ACCESS_WANT_CANCEL => open_none_delegation4::WND4_CANCELLED(()),
        _ => open_none_delegation4::WND4_RESOURCE(false),
    };
    open_delegation4::OPEN_DELEGATE_NONE_EXT(why)
}

fn by_handle<'t>(compound: &Compound<'_, 't>, place: &Place, how: &openflag4<'_>) -> Result<Opened<'t>, nfsstat4> {
    let found = place.found(compound.turn.served)?;
    if !matches!(how, openflag4::OPEN4_NOCREATE(())) {
        return Err(nfsstat4::NFS4ERR_INVAL);
    }
    let same = change(found.attributes.ctime);
    let cinfo = change_info4 { atomic: false, before: same, after: same };
    Ok(Opened { found, cinfo, attrset: bitmap4::default(), is_new: false, cut: None })
}

fn by_name<'t>(
    compound: &Compound<'_, 't>,
    place: &Place,
    name: component4<'_>,
    how: &openflag4<'_>,
) -> Result<Opened<'t>, nfsstat4> {
    if let Place::Above(_) = place {
        return Err(if matches!(how, openflag4::OPEN4_CREATE(_)) {
            nfsstat4::NFS4ERR_ROFS
        } else {
            nfsstat4::NFS4ERR_NOENT
        });
    }
    let directory = place.found(compound.turn.served)?.directory()?;
    check_name(name)?;
    for _ in 0..TURNS_MAX {
        match (directory.files().lookup(&compound.caller, directory.file(), name), how) {
            (Ok((named, _)), how) => return existing(compound, &directory, directory.sibling(named), name, how),
            (Err(nfsstat3::NFS3ERR_NOENT), openflag4::OPEN4_CREATE(how)) => {
                // Another client may make the name just now: then it exists.
                match make(compound, &directory, name, how) {
                    Err(nfsstat4::NFS4ERR_EXIST) if matches!(how, createhow4::UNCHECKED4(_)) => {}
                    made => return made,
                }
            }
            (Err(status), _) => return Err(status_of(status)),
        }
    }
    Err(nfsstat4::NFS4ERR_DELAY)
}

/// OPEN of a name that exists.
fn existing<'t>(
    compound: &Compound<'_, 't>,
    directory: &Found<'t>,
    found: Found<'t>,
    name: component4<'_>,
    how: &openflag4<'_>,
) -> Result<Opened<'t>, nfsstat4> {
    let same = change(directory.attributes.ctime);
    let cinfo = change_info4 { atomic: true, before: same, after: same };
    let mut opened = Opened { found, cinfo, attrset: bitmap4::default(), is_new: false, cut: None };
    match how {
        openflag4::OPEN4_NOCREATE(()) => {}
        openflag4::OPEN4_CREATE(createhow4::UNCHECKED4(new)) => {
            // Of an existing file only the size is set, and only to 0 (§18.16.3).
            opened.cut = to_set(new)?.0.size.filter(|size| *size == 0);
            if opened.cut.is_some() {
                opened.attrset = bitmap4::of(&[iocurve_wire::nfs4::attributes::FATTR4_SIZE]);
            }
        }
        openflag4::OPEN4_CREATE(createhow4::GUARDED4(_)) => return Err(nfsstat4::NFS4ERR_EXIST),
        // The store tells whether the same call has made it.
        openflag4::OPEN4_CREATE(how) => return make(compound, directory, name, how),
    }
    Ok(opened)
}

/// Makes a regular file.
fn make<'t>(
    compound: &Compound<'_, 't>,
    directory: &Found<'t>,
    name: component4<'_>,
    how: &createhow4<'_>,
) -> Result<Opened<'t>, nfsstat4> {
    let caller = &compound.caller;
    let (how, new, attrset) = match how {
        createhow4::UNCHECKED4(new) | createhow4::GUARDED4(new) => {
            let (new, attrset) = to_set(new)?;
            (createhow3::GUARDED(new), None, attrset)
        }
        createhow4::EXCLUSIVE4(verf) => (createhow3::EXCLUSIVE(*verf), None, bitmap4::default()),
        createhow4::EXCLUSIVE4_1(both) => {
            let (new, attrset) = to_set(&both.cva_attrs)?;
            (createhow3::EXCLUSIVE(both.cva_verf), Some(new), attrset)
        }
    };
    let is_exclusive = matches!(how, createhow3::EXCLUSIVE(_));
    let files = directory.files();
    let (mut made, cinfo) = changed(files.create(caller, directory.file(), name, Creation::File(how)))?;
    if let Some(new) = new {
        let new = access::initial(caller, &directory.attributes, ftype3::NF3REG, &new);
        let Changed { result, wcc } = files.setattr(caller, made.handle.as_bytes(), &new, None);
        result.map_err(status_of)?;
        made.attributes = wcc.after.unwrap_or(made.attributes);
    }
    let attrset = if is_exclusive { with_verifier(files, attrset) } else { attrset };
    let found = directory.sibling(made);
    Ok(Opened { found, cinfo, attrset, is_new: true, cut: None })
}

/// A directory keeps the verifier in the times of the file; the reply says so, and the client sets them.
fn with_verifier(files: &Files, mut attrset: bitmap4) -> bitmap4 {
    if files.keeps_verifiers_in_times() {
        attrset.insert(FATTR4_TIME_ACCESS_SET);
        attrset.insert(FATTR4_TIME_MODIFY_SET);
    }
    attrset
}

fn check_permissions(compound: &Compound<'_, '_>, found: &Found<'_>, access: u32) -> Result<(), nfsstat4> {
    let caller = &compound.caller;
    // A user who may execute a file must be able to read it (§18.16.3).
    let may_read = access::may(caller, &found.attributes, access::READ)
        || access == OPEN4_SHARE_ACCESS_READ && access::may(caller, &found.attributes, access::EXECUTE);
    let may_write = access::may(caller, &found.attributes, access::WRITE);
    let needs = |bit| access & bit != 0;
    if needs(OPEN4_SHARE_ACCESS_READ) && !may_read || needs(OPEN4_SHARE_ACCESS_WRITE) && !may_write {
        return Err(nfsstat4::NFS4ERR_ACCESS);
    }
    Ok(())
}

/// Cuts a file that has just been opened.
fn cut(compound: &Compound<'_, '_>, found: &Found<'_>, size: u64) -> Result<(), nfsstat4> {
    let new = sattr3 { size: Some(size), ..sattr3::default() };
    found.files().setattr(&compound.caller, found.file(), &new, None).result.map_err(status_of)
}

/// CLOSE (§18.2).
pub(super) fn close(
    compound: &mut Compound<'_, '_>,
    CLOSE4args { open_stateid, .. }: CLOSE4args,
) -> Result<stateid4, nfsstat4> {
    let (file, stateid) = (compound.place()?.handle(), compound.meant(open_stateid)?);
    compound.turn.served.nfs4.close(client(compound)?, &stateid, &file)?;
    compound.stateid = None;
    Ok(stateid4::INVALID)
}

/// `OPEN_DOWNGRADE` (§18.18).
pub(super) fn open_downgrade(
    compound: &mut Compound<'_, '_>,
    arguments: OPEN_DOWNGRADE4args,
) -> Result<stateid4, nfsstat4> {
    let (file, stateid) = (compound.place()?.handle(), compound.meant(arguments.open_stateid)?);
    let share = (arguments.share_access & OPEN4_SHARE_ACCESS_BOTH, arguments.share_deny);
    if share.0 == 0 || share.1 & !OPEN4_SHARE_DENY_BOTH != 0 {
        return Err(nfsstat4::NFS4ERR_INVAL);
    }
    let changed = compound.turn.served.nfs4.downgrade(client(compound)?, &stateid, &file, share)?;
    compound.stateid = Some(changed);
    Ok(changed)
}
