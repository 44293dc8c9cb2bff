//! The NFS program off the data path (RFC 1813): one function per procedure.
#![allow(clippy::wildcard_imports)] // the whole protocol is spoken here
#![allow(clippy::result_large_err)] // results are the protocol's, and are encoded at once
#![allow(clippy::needless_pass_by_value)] // decoded arguments belong to their procedure

use iocurve_wire::nfs3::*;
use iocurve_wire::xdr::{Decode, Encode, Reader, Writer, from_bytes};

use super::call::{Admitted, Call, Refused};
use super::nfs3_readdir::{readdir, readdirplus};
use crate::store::names::NAME_BYTES_MAX;
use crate::store::{Creation, FILE_BYTES_MAX, LINKS_MAX, LISTING_BYTES_MAX, Store, TRANSFER_BYTES_MAX, access};

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
    let mut wcc = wcc_data::default();
    let SETATTR3args { object, new_attributes, guard } = arguments;
    let files = call.files(&object);
    let set = files.getattr(object.as_bytes()).and_then(|file| {
        (wcc.before, wcc.after) = (Some(file.wcc()), Some(file));
        let new = access::check_setattr(&call.caller, &file, &new_attributes)?;
        files.setattr(object.as_bytes(), &new, guard, &mut wcc)
    });
    match set {
        Ok(()) => Ok(SETATTR3resok { obj_wcc: wcc }),
        Err(status) => Err(Failed { status, rest: wcc }),
    }
}

fn lookup(call: &Admitted<'_>, LOOKUP3args { what }: LOOKUP3args<'_>) -> LOOKUP3res {
    let found = searchable(call, &what.dir).and_then(|_| call.files(&what.dir).lookup(what.dir.as_bytes(), what.name));
    let dir_attributes = call.attributes(&what.dir);
    match found {
        Ok(object) => Ok(LOOKUP3resok { object, obj_attributes: call.attributes(&object), dir_attributes }),
        Err(status) => Err(Failed { status, rest: dir_attributes }),
    }
}

/// Attributes of a directory, if the caller may look up names in it.
fn searchable(call: &Admitted<'_>, directory: &nfs_fh3) -> Result<fattr3, nfsstat3> {
    let found = call.files(directory).getattr(directory.as_bytes())?;
    if found.file_type != ftype3::NF3DIR {
        return Err(nfsstat3::NFS3ERR_NOTDIR);
    }
    access::check(&call.caller, &found, access::EXECUTE)?;
    Ok(found)
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

/// Attributes of a directory before and after a change that was refused before it began.
fn unchanged(call: &Admitted<'_>, directory: &nfs_fh3) -> wcc_data {
    let found = call.attributes(directory);
    wcc_data { before: found.map(|found| found.wcc()), after: found }
}

/// The common part of CREATE, MKDIR, SYMLINK and MKNOD.
fn make(call: &Admitted<'_>, r#where: &diropargs3<'_>, what: Creation<'_>) -> CREATE3res {
    let refused = |status| Failed { status, rest: unchanged(call, &r#where.dir) };
    let directory = searchable(call, &r#where.dir).map_err(refused)?;
    check_creation(call, &directory, r#where, &what).map_err(refused)?;
    let owner = access::creator(&call.caller, &directory);
    let what = what.with_attributes(|file_type, asked| access::initial(&call.caller, &directory, file_type, asked));
    let mut dir_wcc = wcc_data::default();
    match call.files(&r#where.dir).create(r#where.dir.as_bytes(), r#where.name, what, owner, &mut dir_wcc) {
        Ok(obj) => Ok(CREATE3resok { obj: Some(obj), obj_attributes: call.attributes(&obj), dir_wcc }),
        Err(status) => Err(Failed { status, rest: dir_wcc }),
    }
}

/// Checks permissions for a new name: to write the directory, and root for a device. A file that exists and is to be truncated must
/// be the caller's or writable.
fn check_creation(
    call: &Admitted<'_>,
    directory: &fattr3,
    r#where: &diropargs3<'_>,
    what: &Creation<'_>,
) -> Result<(), nfsstat3> {
    match (named(call, r#where), what) {
        (Some(file), Creation::File(createhow3::UNCHECKED(sattr3 { size: size @ Some(_), .. }))) => {
            let cut = sattr3 { size: *size, ..sattr3::default() };
            access::check_setattr(&call.caller, &file, &cut).map(drop)
        }
        (Some(_), _) => Ok(()),
        (None, what) => {
            if let Creation::Special(_, file_type, _) = what {
                access::check_special(&call.caller, *file_type)?;
            }
            access::check(&call.caller, directory, access::WRITE | access::EXECUTE)
        }
    }
}

/// Attributes of a name in a directory, if it exists.
fn named(call: &Admitted<'_>, what: &diropargs3<'_>) -> Option<fattr3> {
    let file = call.files(&what.dir).lookup(what.dir.as_bytes(), what.name).ok()?;
    call.attributes(&file)
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

/// Checks that the caller may remove a name, and returns the attributes of its file if the name exists.
fn removable(call: &Admitted<'_>, what: &diropargs3<'_>) -> Result<Option<fattr3>, nfsstat3> {
    let directory = searchable(call, &what.dir)?;
    let found = named(call, what);
    if let Some(file) = &found {
        access::check_removal(&call.caller, &directory, file)?;
    }
    Ok(found)
}

fn remove(call: &Admitted<'_>, REMOVE3args { object }: REMOVE3args<'_>) -> REMOVE3res {
    removable(call, &object).map_err(|status| Failed { status, rest: unchanged(call, &object.dir) })?;
    let mut dir_wcc = wcc_data::default();
    match call.files(&object.dir).remove(object.dir.as_bytes(), object.name, &mut dir_wcc) {
        Ok(()) => Ok(REMOVE3resok { dir_wcc }),
        Err(status) => Err(Failed { status, rest: dir_wcc }),
    }
}

fn rmdir(call: &Admitted<'_>, RMDIR3args { object }: RMDIR3args<'_>) -> RMDIR3res {
    removable(call, &object).map_err(|status| Failed { status, rest: unchanged(call, &object.dir) })?;
    let mut dir_wcc = wcc_data::default();
    match call.files(&object.dir).rmdir(object.dir.as_bytes(), object.name, &mut dir_wcc) {
        Ok(()) => Ok(RMDIR3resok { dir_wcc }),
        Err(status) => Err(Failed { status, rest: dir_wcc }),
    }
}

fn rename(call: &Admitted<'_>, RENAME3args { from, to }: RENAME3args<'_>) -> RENAME3res {
    let mut both = RENAME3resok { fromdir_wcc: wcc_data::default(), todir_wcc: wcc_data::default() };
    // Nothing is said of another export: the client may not be allowed to use it.
    let export = call.served.exports.of_both(from.dir.as_bytes(), to.dir.as_bytes());
    let export = export.map_err(|status| Failed { status, rest: both.clone() })?;
    check_rename(call, &from, &to).map_err(|status| Failed {
        status,
        rest: RENAME3resok { fromdir_wcc: unchanged(call, &from.dir), todir_wcc: unchanged(call, &to.dir) },
    })?;
    let wcc = (&mut both.fromdir_wcc, &mut both.todir_wcc);
    let (from, to) = ((from.dir.as_bytes(), from.name), (to.dir.as_bytes(), to.name));
    match export.files.rename(from, to, wcc) {
        Ok(()) => Ok(both),
        Err(status) => Err(Failed { status, rest: both }),
    }
}

/// Checks permissions for a RENAME: both directories must be writable, and so must a directory that gets another parent.
fn check_rename(call: &Admitted<'_>, from: &diropargs3<'_>, to: &diropargs3<'_>) -> Result<(), nfsstat3> {
    let moved = removable(call, from)?;
    removable(call, to)?;
    access::check(&call.caller, &searchable(call, &to.dir)?, access::WRITE | access::EXECUTE)?;
    match moved {
        Some(moved) if moved.file_type == ftype3::NF3DIR && from.dir != to.dir => {
            access::check(&call.caller, &moved, access::WRITE)
        }
        _ => Ok(()),
    }
}

fn link(call: &Admitted<'_>, LINK3args { file, link }: LINK3args<'_>) -> LINK3res {
    let mut linkdir_wcc = wcc_data::default();
    // Nothing is said of another export: the client may not be allowed to use it.
    let export = call.served.exports.of_both(file.as_bytes(), link.dir.as_bytes());
    let nothing = LINK3resok { file_attributes: None, linkdir_wcc };
    let export = export.map_err(|status| Failed { status, rest: nothing })?;
    let linked = searchable(call, &link.dir).and_then(|directory| {
        linkdir_wcc = unchanged(call, &link.dir);
        access::check(&call.caller, &directory, access::WRITE | access::EXECUTE)?;
        export.files.link(file.as_bytes(), link.dir.as_bytes(), link.name, &mut linkdir_wcc)
    });
    let both = LINK3resok { file_attributes: call.attributes(&file), linkdir_wcc };
    match linked {
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
