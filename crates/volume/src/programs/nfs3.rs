//! The NFS program off the data path (RFC 1813): one function per procedure.
#![allow(clippy::wildcard_imports)] // the whole protocol is spoken here
#![allow(clippy::result_large_err)] // results are the protocol's, and are encoded at once
#![allow(clippy::needless_pass_by_value)] // decoded arguments belong to their procedure

use iocurve_wire::nfs3::*;
use iocurve_wire::xdr::{Decode, Encode, Reader, Writer, from_bytes};

use super::call::{Admitted, Call, Refused};
use super::nfs3_readdir::{readdir, readdirplus};
use crate::store::names::NAME_BYTES_MAX;
use crate::store::{
    Changed, Creation, FILE_BYTES_MAX, LINKS_MAX, LISTING_BYTES_MAX, Named, Removal, Store, TRANSFER_BYTES_MAX, access,
};

/// Answers a call of the NFS program that is not on the data path.
pub(super) fn answer(call: &Call<'_>, out: &mut Writer<'_>) -> Result<(), Refused> {
    let procedure = nfsproc3::from_u32(call.procedure).ok_or(Refused::Procedure)?;
    if procedure == nfsproc3::NFSPROC3_NULL {
        return Ok(from_bytes(call.arguments)?);
    }
    // Every other procedure begins with a handle. If there is a second one, it must be of the same export.
    let file = Reader::new(call.arguments).opaque(NFS3_FHSIZE)?;
    match call.admit(file, is_non_idempotent(call.procedure)) {
        Ok(call) => carry_out(&call, procedure, out),
        Err(refusal) => {
            refuse(procedure, refusal.status3(), out);
            Ok(())
        }
    }
}

/// Encodes a result without attributes: each part that may be left out is a word of zeros.
pub(super) fn refuse(procedure: nfsproc3, status: nfsstat3, out: &mut Writer<'_>) {
    let parts = match procedure {
        nfsproc3::NFSPROC3_GETATTR => 0,
        nfsproc3::NFSPROC3_RENAME => 4,
        nfsproc3::NFSPROC3_LINK => 3,
        nfsproc3::NFSPROC3_WRITE | nfsproc3::NFSPROC3_COMMIT => 2,
        procedure if is_non_idempotent(procedure as u32) => 2,
        _ => 1,
    };
    status.encode(out);
    (0..parts).for_each(|_| out.u32(0));
}

fn carry_out(call: &Admitted<'_>, procedure: nfsproc3, out: &mut Writer<'_>) -> Result<(), Refused> {
    match procedure {
        nfsproc3::NFSPROC3_SETATTR => run(call, out, setattr)?,
        nfsproc3::NFSPROC3_LOOKUP => run(call, out, lookup)?,
        nfsproc3::NFSPROC3_ACCESS => run(call, out, access)?,
        nfsproc3::NFSPROC3_READLINK => readlink(call, from_bytes(call.arguments)?, out),
        nfsproc3::NFSPROC3_CREATE => run(call, out, create)?,
        nfsproc3::NFSPROC3_MKDIR => run(call, out, mkdir)?,
        nfsproc3::NFSPROC3_SYMLINK => run(call, out, symlink)?,
        nfsproc3::NFSPROC3_MKNOD => run(call, out, mknod)?,
        nfsproc3::NFSPROC3_REMOVE => run(call, out, remove)?,
        nfsproc3::NFSPROC3_RMDIR => run(call, out, rmdir)?,
        nfsproc3::NFSPROC3_RENAME => run(call, out, rename)?,
        nfsproc3::NFSPROC3_LINK => run(call, out, link)?,
        nfsproc3::NFSPROC3_READDIR => readdir(call, &from_bytes(call.arguments)?, out),
        nfsproc3::NFSPROC3_READDIRPLUS => readdirplus(call, &from_bytes(call.arguments)?, out),
        nfsproc3::NFSPROC3_FSSTAT => run(call, out, fsstat)?,
        nfsproc3::NFSPROC3_FSINFO => run(call, out, fsinfo)?,
        nfsproc3::NFSPROC3_PATHCONF => run(call, out, pathconf)?,
        nfsproc3::NFSPROC3_NULL
        | nfsproc3::NFSPROC3_GETATTR
        | nfsproc3::NFSPROC3_READ
        | nfsproc3::NFSPROC3_WRITE
        | nfsproc3::NFSPROC3_COMMIT => return Err(Refused::Procedure),
    }
    Ok(())
}

/// True if a procedure may answer differently when it is executed again.
pub(super) fn is_non_idempotent(procedure: u32) -> bool {
    matches!(
        nfsproc3::from_u32(procedure),
        Some(
            nfsproc3::NFSPROC3_SETATTR
                | nfsproc3::NFSPROC3_CREATE
                | nfsproc3::NFSPROC3_MKDIR
                | nfsproc3::NFSPROC3_SYMLINK
                | nfsproc3::NFSPROC3_MKNOD
                | nfsproc3::NFSPROC3_REMOVE
                | nfsproc3::NFSPROC3_RMDIR
                | nfsproc3::NFSPROC3_RENAME
                | nfsproc3::NFSPROC3_LINK
        )
    )
}

/// Decodes the arguments, runs the procedure, encodes its result.
fn run<'a, A: Decode<'a>, R: Encode>(
    call: &Admitted<'a>,
    out: &mut Writer<'_>,
    procedure: impl FnOnce(&Admitted<'a>, A) -> R,
) -> Result<(), Refused> {
    procedure(call, from_bytes(call.arguments)?).encode(out);
    Ok(())
}

fn setattr(call: &Admitted<'_>, arguments: SETATTR3args) -> SETATTR3res {
    let SETATTR3args { object, new_attributes, guard } = arguments;
    let set = call.files(&object).setattr(&call.caller, object.as_bytes(), &new_attributes, guard);
    answered(set).map(|((), obj_wcc)| SETATTR3resok { obj_wcc })
}

/// The parts of a reply: a failure has the attributes before and after, too.
fn answered<T, W>(Changed { result, wcc }: Changed<T, W>) -> Result<(T, W), Failed<W>> {
    match result {
        Ok(done) => Ok((done, wcc)),
        Err(status) => Err(Failed { status, rest: wcc }),
    }
}

fn lookup(call: &Admitted<'_>, LOOKUP3args { what }: LOOKUP3args<'_>) -> LOOKUP3res {
    match call.files(&what.dir).lookup(&call.caller, what.dir.as_bytes(), what.name) {
        Ok((Named { handle, attributes }, directory)) => {
            Ok(LOOKUP3resok { object: handle, obj_attributes: Some(attributes), dir_attributes: Some(directory) })
        }
        Err(status) => Err(Failed { status, rest: call.attributes(&what.dir) }),
    }
}

fn access(call: &Admitted<'_>, ACCESS3args { object, access }: ACCESS3args) -> ACCESS3res {
    let found = call.files(&object).getattr(object.as_bytes()).map_err(|status| Failed { status, rest: None })?;
    Ok(ACCESS3resok { obj_attributes: Some(found), access: access::granted(&call.caller, &found, access) })
}

fn readlink(call: &Admitted<'_>, READLINK3args { symlink }: READLINK3args, out: &mut Writer<'_>) {
    let target = call.files(&symlink).readlink(symlink.as_bytes());
    let symlink_attributes = call.attributes(&symlink);
    let result: READLINK3res<'_> = match &target {
        Ok(target) => Ok(READLINK3resok { symlink_attributes, data: target }),
        Err(status) => Err(Failed { status: *status, rest: symlink_attributes }),
    };
    result.encode(out);
}

/// The common part of CREATE, MKDIR, SYMLINK and MKNOD.
fn make(call: &Admitted<'_>, r#where: &diropargs3<'_>, what: Creation<'_>) -> CREATE3res {
    let made = call.files(&r#where.dir).create(&call.caller, r#where.dir.as_bytes(), r#where.name, what);
    let (Named { handle, attributes }, dir_wcc) = answered(made)?;
    Ok(CREATE3resok { obj: Some(handle), obj_attributes: Some(attributes), dir_wcc })
}

fn create(call: &Admitted<'_>, arguments: CREATE3args<'_>) -> CREATE3res {
    make(call, &arguments.r#where, Creation::File(arguments.how))
}

fn mkdir(call: &Admitted<'_>, arguments: MKDIR3args<'_>) -> MKDIR3res {
    make(call, &arguments.r#where, Creation::Directory(arguments.attributes))
}

fn symlink(call: &Admitted<'_>, arguments: SYMLINK3args<'_>) -> SYMLINK3res {
    let symlinkdata3 { symlink_attributes, symlink_data } = &arguments.symlink;
    make(call, &arguments.r#where, Creation::Symlink(*symlink_attributes, symlink_data))
}

fn mknod(call: &Admitted<'_>, arguments: MKNOD3args<'_>) -> MKNOD3res {
    let none = specdata3::default();
    let what = match &arguments.what {
        mknoddata3::NF3BLK(device) => Creation::Special(device.dev_attributes, ftype3::NF3BLK, device.spec),
        mknoddata3::NF3CHR(device) => Creation::Special(device.dev_attributes, ftype3::NF3CHR, device.spec),
        mknoddata3::NF3SOCK(new) => Creation::Special(*new, ftype3::NF3SOCK, none),
        mknoddata3::NF3FIFO(new) => Creation::Special(*new, ftype3::NF3FIFO, none),
        mknoddata3::NF3REG(()) | mknoddata3::NF3DIR(()) | mknoddata3::NF3LNK(()) => {
            return Err(Failed { status: nfsstat3::NFS3ERR_BADTYPE, rest: wcc_data::default() });
        }
    };
    make(call, &arguments.r#where, what)
}

fn remove(call: &Admitted<'_>, REMOVE3args { object }: REMOVE3args<'_>) -> REMOVE3res {
    take_away(call, &object, Removal::File).map(|dir_wcc| REMOVE3resok { dir_wcc })
}

fn rmdir(call: &Admitted<'_>, RMDIR3args { object }: RMDIR3args<'_>) -> RMDIR3res {
    take_away(call, &object, Removal::Directory).map(|dir_wcc| RMDIR3resok { dir_wcc })
}

/// The common part of REMOVE and RMDIR.
fn take_away(call: &Admitted<'_>, object: &diropargs3<'_>, what: Removal) -> Result<wcc_data, Failed<wcc_data>> {
    let removed = call.files(&object.dir).remove(&call.caller, object.dir.as_bytes(), object.name, what);
    answered(removed).map(|((), wcc)| wcc)
}

fn rename(call: &Admitted<'_>, RENAME3args { from, to }: RENAME3args<'_>) -> RENAME3res {
    let both = |(fromdir_wcc, todir_wcc)| RENAME3resok { fromdir_wcc, todir_wcc };
    // Nothing is said of another export: the client may not be allowed to use it.
    let export = call.served.exports.of_both(from.dir.as_bytes(), to.dir.as_bytes());
    let export = export.map_err(|status| Failed { status, rest: both(Default::default()) })?;
    let (from, to) = ((from.dir.as_bytes(), from.name), (to.dir.as_bytes(), to.name));
    match answered(export.files.rename(&call.caller, from, to)) {
        Ok(((), wcc)) => Ok(both(wcc)),
        Err(Failed { status, rest }) => Err(Failed { status, rest: both(rest) }),
    }
}

fn link(call: &Admitted<'_>, LINK3args { file, link }: LINK3args<'_>) -> LINK3res {
    // Nothing is said of another export: the client may not be allowed to use it.
    let export = call.served.exports.of_both(file.as_bytes(), link.dir.as_bytes());
    let nothing = LINK3resok { file_attributes: None, linkdir_wcc: wcc_data::default() };
    let export = export.map_err(|status| Failed { status, rest: nothing })?;
    let Changed { result, wcc: linkdir_wcc } =
        export.files.link(&call.caller, file.as_bytes(), link.dir.as_bytes(), link.name);
    let both = LINK3resok { file_attributes: call.attributes(&file), linkdir_wcc };
    match result {
        Ok(()) => Ok(both),
        Err(status) => Err(Failed { status, rest: both }),
    }
}

fn fsstat(call: &Admitted<'_>, FSSTAT3args { fsroot }: FSSTAT3args) -> FSSTAT3res {
    let files = call.files(&fsroot);
    let found = files.getattr(fsroot.as_bytes()).map_err(|status| Failed { status, rest: None })?;
    let space = files.space();
    Ok(FSSTAT3resok {
        obj_attributes: Some(found),
        tbytes: space.bytes_total,
        fbytes: space.bytes_free,
        abytes: space.bytes_free,
        tfiles: space.files_total,
        ffiles: space.files_free,
        afiles: space.files_free,
        invarsec: 0,
    })
}

fn fsinfo(call: &Admitted<'_>, FSINFO3args { fsroot }: FSINFO3args) -> FSINFO3res {
    use properties::{FSF3_CANSETTIME, FSF3_HOMOGENEOUS, FSF3_LINK, FSF3_SYMLINK};
    let found = call.files(&fsroot).getattr(fsroot.as_bytes()).map_err(|status| Failed { status, rest: None })?;
    Ok(FSINFO3resok {
        obj_attributes: Some(found),
        rtmax: TRANSFER_BYTES_MAX,
        rtpref: TRANSFER_BYTES_MAX,
        rtmult: 4096,
        wtmax: TRANSFER_BYTES_MAX,
        wtpref: TRANSFER_BYTES_MAX,
        wtmult: 4096,
        dtpref: LISTING_BYTES_MAX,
        maxfilesize: FILE_BYTES_MAX,
        time_delta: nfstime3 { seconds: 0, nseconds: 1 },
        properties: FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME,
    })
}

fn pathconf(call: &Admitted<'_>, PATHCONF3args { object }: PATHCONF3args) -> PATHCONF3res {
    let found = call.files(&object).getattr(object.as_bytes()).map_err(|status| Failed { status, rest: None })?;
    Ok(PATHCONF3resok {
        obj_attributes: Some(found),
        linkmax: LINKS_MAX,
        name_max: NAME_BYTES_MAX as u32,
        no_trunc: true,
        chown_restricted: true,
        case_insensitive: false,
        case_preserving: true,
    })
}
