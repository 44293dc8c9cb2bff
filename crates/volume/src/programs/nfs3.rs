//! The NFS program off the data path (RFC 1813): one function per procedure.
#![allow(clippy::wildcard_imports)] // the whole protocol is spoken here
#![allow(clippy::result_large_err)] // results are the protocol's, and are encoded at once
#![allow(clippy::needless_pass_by_value)] // decoded arguments belong to their procedure

use iocurve_wire::nfs3::*;
use iocurve_wire::xdr::{Decode, Encode, List, Writer, from_bytes, padding};

use crate::programs::call::{Call, Refused};
use crate::store::access;
use crate::store::memory::LINKS_MAX;
use crate::store::{Creation, Entry, FILE_BYTES_MAX, Listing, NAME_BYTES_MAX, Store, TRANSFER_BYTES_MAX};

/// Most bytes of a listing.
const LISTING_BYTES_MAX: u32 = 64 << 10;

/// Answers a call of the NFS program that the data path does not.
pub fn answer<S: Store>(call: &Call<'_, S>, out: &mut Writer<'_>) -> Result<(), Refused> {
    let procedure = nfsproc3::from_u32(call.procedure).ok_or(Refused::Procedure)?;
    match procedure {
        nfsproc3::NFSPROC3_NULL => from_bytes::<()>(call.arguments)?,
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
        nfsproc3::NFSPROC3_GETATTR | nfsproc3::NFSPROC3_READ | nfsproc3::NFSPROC3_WRITE | nfsproc3::NFSPROC3_COMMIT => {
            return Err(Refused::Procedure);
        }
    }
    Ok(())
}

/// Decodes the arguments, runs the procedure, encodes its result.
fn run<'a, S, A: Decode<'a>, R: Encode>(
    call: &Call<'a, S>,
    out: &mut Writer<'_>,
    procedure: impl FnOnce(&Call<'a, S>, A) -> R,
) -> Result<(), Refused> {
    procedure(call, from_bytes(call.arguments)?).encode(out);
    Ok(())
}

/// Attributes of a file that may have gone.
fn attributes<S: Store>(call: &Call<'_, S>, file: &nfs_fh3) -> post_op_attr {
    call.served.store.getattr(file.as_bytes()).ok()
}

fn setattr<S: Store>(call: &Call<'_, S>, arguments: SETATTR3args) -> SETATTR3res {
    let mut wcc = wcc_data::default();
    let SETATTR3args { object, new_attributes, guard } = arguments;
    let store = &call.served.store;
    let set = store.getattr(object.as_bytes()).and_then(|file| {
        (wcc.before, wcc.after) = (Some(file.wcc()), Some(file));
        let new = access::check_setattr(&call.caller, &file, &new_attributes)?;
        store.setattr(object.as_bytes(), &new, guard, &mut wcc)
    });
    match set {
        Ok(()) => Ok(SETATTR3resok { obj_wcc: wcc }),
        Err(status) => Err(Failed { status, rest: wcc }),
    }
}

fn lookup<S: Store>(call: &Call<'_, S>, LOOKUP3args { what }: LOOKUP3args<'_>) -> LOOKUP3res {
    let found = searchable(call, &what.dir).and_then(|_| call.served.store.lookup(what.dir.as_bytes(), what.name));
    let dir_attributes = attributes(call, &what.dir);
    match found {
        Ok(object) => Ok(LOOKUP3resok { object, obj_attributes: attributes(call, &object), dir_attributes }),
        Err(status) => Err(Failed { status, rest: dir_attributes }),
    }
}

/// A directory in which the caller may look names up.
fn searchable<S: Store>(call: &Call<'_, S>, directory: &nfs_fh3) -> Result<fattr3, nfsstat3> {
    let found = call.served.store.getattr(directory.as_bytes())?;
    if found.file_type != ftype3::NF3DIR {
        return Err(nfsstat3::NFS3ERR_NOTDIR);
    }
    access::check(&call.caller, &found, access::EXECUTE)?;
    Ok(found)
}

fn access<S: Store>(call: &Call<'_, S>, ACCESS3args { object, access }: ACCESS3args) -> ACCESS3res {
    let found = call.served.store.getattr(object.as_bytes()).map_err(|status| Failed { status, rest: None })?;
    Ok(ACCESS3resok { obj_attributes: Some(found), access: access::granted(&call.caller, &found, access) })
}

fn readlink<S: Store>(call: &Call<'_, S>, READLINK3args { symlink }: READLINK3args, out: &mut Writer<'_>) {
    let target = call.served.store.readlink(symlink.as_bytes());
    let symlink_attributes = attributes(call, &symlink);
    let result: READLINK3res<'_> = match &target {
        Ok(target) => Ok(READLINK3resok { symlink_attributes, data: target }),
        Err(status) => Err(Failed { status: *status, rest: symlink_attributes }),
    };
    result.encode(out);
}

/// Attributes of a directory around a change that was refused before it began.
fn unchanged<S: Store>(call: &Call<'_, S>, directory: &nfs_fh3) -> wcc_data {
    let found = attributes(call, directory);
    wcc_data { before: found.map(|found| found.wcc()), after: found }
}

/// What CREATE, MKDIR, SYMLINK and MKNOD have in common.
fn make<S: Store>(call: &Call<'_, S>, r#where: &diropargs3<'_>, what: Creation<'_>) -> CREATE3res {
    let refused = |status| Failed { status, rest: unchanged(call, &r#where.dir) };
    let directory = searchable(call, &r#where.dir).map_err(refused)?;
    check_creation(call, &directory, r#where, &what).map_err(refused)?;
    let owner = access::creator(&call.caller, &directory);
    let initial = |file_type, asked| access::initial(&call.caller, &directory, file_type, asked);
    let (how, new);
    let what = match what {
        Creation::File(asked) => {
            how = match asked {
                createhow3::UNCHECKED(asked) => createhow3::UNCHECKED(initial(ftype3::NF3REG, asked)),
                createhow3::GUARDED(asked) => createhow3::GUARDED(initial(ftype3::NF3REG, asked)),
                createhow3::EXCLUSIVE(verf) => createhow3::EXCLUSIVE(*verf),
            };
            Creation::File(&how)
        }
        Creation::Directory(asked) => {
            new = initial(ftype3::NF3DIR, asked);
            Creation::Directory(&new)
        }
        Creation::Symlink(asked, target) => {
            new = initial(ftype3::NF3LNK, asked);
            Creation::Symlink(&new, target)
        }
        Creation::Special(asked, file_type, spec) => {
            new = initial(file_type, asked);
            Creation::Special(&new, file_type, spec)
        }
    };
    let mut dir_wcc = wcc_data::default();
    match call.served.store.create(r#where.dir.as_bytes(), r#where.name, what, owner, &mut dir_wcc) {
        Ok(obj) => Ok(CREATE3resok { obj: Some(obj), obj_attributes: attributes(call, &obj), dir_wcc }),
        Err(status) => Err(Failed { status, rest: dir_wcc }),
    }
}

/// A new name needs permission to write the directory, a device needs root, and a file that is there already must be the caller's
/// or writable to be cut.
fn check_creation<S: Store>(
    call: &Call<'_, S>,
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
        (None, Creation::Special(_, ftype3::NF3BLK | ftype3::NF3CHR, _)) if !call.caller.is_root() => {
            Err(nfsstat3::NFS3ERR_PERM)
        }
        (None, _) => access::check(&call.caller, directory, access::WRITE | access::EXECUTE),
    }
}

/// Attributes of what a directory has under a name, if it has it.
fn named<S: Store>(call: &Call<'_, S>, what: &diropargs3<'_>) -> Option<fattr3> {
    let file = call.served.store.lookup(what.dir.as_bytes(), what.name).ok()?;
    attributes(call, &file)
}

fn create<S: Store>(call: &Call<'_, S>, arguments: CREATE3args<'_>) -> CREATE3res {
    make(call, &arguments.r#where, Creation::File(&arguments.how))
}

fn mkdir<S: Store>(call: &Call<'_, S>, arguments: MKDIR3args<'_>) -> MKDIR3res {
    make(call, &arguments.r#where, Creation::Directory(&arguments.attributes))
}

fn symlink<S: Store>(call: &Call<'_, S>, arguments: SYMLINK3args<'_>) -> SYMLINK3res {
    let symlinkdata3 { symlink_attributes, symlink_data } = &arguments.symlink;
    make(call, &arguments.r#where, Creation::Symlink(symlink_attributes, symlink_data))
}

fn mknod<S: Store>(call: &Call<'_, S>, arguments: MKNOD3args<'_>) -> MKNOD3res {
    let none = specdata3::default();
    let what = match &arguments.what {
        mknoddata3::NF3BLK(device) => Creation::Special(&device.dev_attributes, ftype3::NF3BLK, device.spec),
        mknoddata3::NF3CHR(device) => Creation::Special(&device.dev_attributes, ftype3::NF3CHR, device.spec),
        mknoddata3::NF3SOCK(new) => Creation::Special(new, ftype3::NF3SOCK, none),
        mknoddata3::NF3FIFO(new) => Creation::Special(new, ftype3::NF3FIFO, none),
        mknoddata3::NF3REG(()) | mknoddata3::NF3DIR(()) | mknoddata3::NF3LNK(()) => {
            return Err(Failed { status: nfsstat3::NFS3ERR_BADTYPE, rest: wcc_data::default() });
        }
    };
    make(call, &arguments.r#where, what)
}

/// Checks that the caller may take a name out of its directory, and returns what it stands for, if it is there.
fn removable<S: Store>(call: &Call<'_, S>, what: &diropargs3<'_>) -> Result<Option<fattr3>, nfsstat3> {
    let directory = searchable(call, &what.dir)?;
    let found = named(call, what);
    if let Some(file) = &found {
        access::check_removal(&call.caller, &directory, file)?;
    }
    Ok(found)
}

fn remove<S: Store>(call: &Call<'_, S>, REMOVE3args { object }: REMOVE3args<'_>) -> REMOVE3res {
    removable(call, &object).map_err(|status| Failed { status, rest: unchanged(call, &object.dir) })?;
    let mut dir_wcc = wcc_data::default();
    match call.served.store.remove(object.dir.as_bytes(), object.name, &mut dir_wcc) {
        Ok(()) => Ok(REMOVE3resok { dir_wcc }),
        Err(status) => Err(Failed { status, rest: dir_wcc }),
    }
}

fn rmdir<S: Store>(call: &Call<'_, S>, RMDIR3args { object }: RMDIR3args<'_>) -> RMDIR3res {
    removable(call, &object).map_err(|status| Failed { status, rest: unchanged(call, &object.dir) })?;
    let mut dir_wcc = wcc_data::default();
    match call.served.store.rmdir(object.dir.as_bytes(), object.name, &mut dir_wcc) {
        Ok(()) => Ok(RMDIR3resok { dir_wcc }),
        Err(status) => Err(Failed { status, rest: dir_wcc }),
    }
}

fn rename<S: Store>(call: &Call<'_, S>, RENAME3args { from, to }: RENAME3args<'_>) -> RENAME3res {
    check_rename(call, &from, &to).map_err(|status| Failed {
        status,
        rest: RENAME3resok { fromdir_wcc: unchanged(call, &from.dir), todir_wcc: unchanged(call, &to.dir) },
    })?;
    let mut both = RENAME3resok { fromdir_wcc: wcc_data::default(), todir_wcc: wcc_data::default() };
    let wcc = (&mut both.fromdir_wcc, &mut both.todir_wcc);
    match call.served.store.rename((from.dir.as_bytes(), from.name), (to.dir.as_bytes(), to.name), wcc) {
        Ok(()) => Ok(both),
        Err(status) => Err(Failed { status, rest: both }),
    }
}

/// Both directories must be writable, and so must a directory that gets another one above it.
fn check_rename<S: Store>(call: &Call<'_, S>, from: &diropargs3<'_>, to: &diropargs3<'_>) -> Result<(), nfsstat3> {
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

fn link<S: Store>(call: &Call<'_, S>, LINK3args { file, link }: LINK3args<'_>) -> LINK3res {
    let mut linkdir_wcc = wcc_data::default();
    let linked = searchable(call, &link.dir).and_then(|directory| {
        linkdir_wcc = unchanged(call, &link.dir);
        access::check(&call.caller, &directory, access::WRITE | access::EXECUTE)?;
        call.served.store.link(file.as_bytes(), link.dir.as_bytes(), link.name, &mut linkdir_wcc)
    });
    let both = LINK3resok { file_attributes: attributes(call, &file), linkdir_wcc };
    match linked {
        Ok(()) => Ok(both),
        Err(status) => Err(Failed { status, rest: both }),
    }
}

fn readdir<S: Store>(call: &Call<'_, S>, arguments: &READDIR3args, out: &mut Writer<'_>) {
    let dir_attributes = attributes(call, &arguments.dir);
    let count = arguments.count.min(LISTING_BYTES_MAX) as usize;
    let listing = list(call, &arguments.dir, arguments.cookie, arguments.cookieverf, count / ENTRY_BYTES_MIN);
    let result: READDIR3res<'_> = match &listing {
        Err(status) => Err(Failed { status: *status, rest: dir_attributes }),
        Ok(listing) => {
            let (fitting, eof) =
                fit(listing, |entry| entry_bytes(entry) + 4, count.saturating_sub(LISTING_FRAME_BYTES));
            let entries = fitting.iter().map(|Entry { fileid, name, cookie, .. }| entry3 {
                fileid: *fileid,
                name,
                cookie: *cookie,
            });
            let reply = dirlist3 { entries: List(entries.collect()), eof };
            answer_listing(fitting.is_empty() && !eof, dir_attributes).map(|()| READDIR3resok {
                dir_attributes,
                cookieverf: call.served.store.cookieverf(arguments.dir.as_bytes()),
                reply,
            })
        }
    };
    result.encode(out);
}

fn readdirplus<S: Store>(call: &Call<'_, S>, arguments: &READDIRPLUS3args, out: &mut Writer<'_>) {
    let dir_attributes = attributes(call, &arguments.dir);
    let count = arguments.maxcount.min(LISTING_BYTES_MAX) as usize;
    let listing = list(call, &arguments.dir, arguments.cookie, arguments.cookieverf, count / PLUS_BYTES_MIN);
    let result: READDIRPLUS3res<'_> = match &listing {
        Err(status) => Err(Failed { status: *status, rest: dir_attributes }),
        Ok(listing) => {
            let (fitting, eof) = fit(listing, plus_bytes, count.saturating_sub(LISTING_FRAME_BYTES));
            let entries = fitting.iter().map(|entry| entryplus3 {
                fileid: entry.fileid,
                name: &entry.name,
                cookie: entry.cookie,
                name_attributes: entry.handle.as_ref().and_then(|handle| attributes(call, handle)),
                name_handle: entry.handle,
            });
            let reply = dirlistplus3 { entries: List(entries.collect()), eof };
            answer_listing(fitting.is_empty() && !eof, dir_attributes).map(|()| READDIRPLUS3resok {
                dir_attributes,
                cookieverf: call.served.store.cookieverf(arguments.dir.as_bytes()),
                reply,
            })
        }
    };
    result.encode(out);
}

/// Bytes of a listing beside its entries: attributes, verifier, end of list, end of directory.
const LISTING_FRAME_BYTES: usize = 4 + FATTR3_BYTES + 8 + 4 + 4;

/// Up to one more name than can fit.
fn list<S: Store>(
    call: &Call<'_, S>,
    directory: &nfs_fh3,
    cookie: u64,
    cookieverf: cookieverf3,
    fitting_max: usize,
) -> Result<Listing, nfsstat3> {
    let store = &call.served.store;
    access::check(&call.caller, &store.getattr(directory.as_bytes())?, access::READ)?;
    if cookie != 0 && cookieverf != store.cookieverf(directory.as_bytes()) {
        return Err(nfsstat3::NFS3ERR_BAD_COOKIE);
    }
    store.readdir(directory.as_bytes(), cookie, fitting_max + 1)
}

/// An entry with a name of one byte.
const ENTRY_BYTES_MIN: usize = 4 + 8 + 4 + 4 + 8;

/// The same with attributes and no handle.
const PLUS_BYTES_MIN: usize = ENTRY_BYTES_MIN + 4 + FATTR3_BYTES + 4;

fn entry_bytes(entry: &Entry) -> usize {
    8 + 4 + entry.name.len() + padding(entry.name.len()) + 8
}

fn plus_bytes(entry: &Entry) -> usize {
    let handle = entry.handle.map_or(0, |handle| 4 + handle.as_bytes().len() + padding(handle.as_bytes().len()));
    4 + entry_bytes(entry) + 4 + FATTR3_BYTES + 4 + handle
}

/// The entries that fit into `room`, and whether the directory ends with them.
fn fit(listing: &Listing, bytes: impl Fn(&Entry) -> usize, room: usize) -> (&[Entry], bool) {
    let mut left = room;
    let fits = |entry: &&Entry| match left.checked_sub(bytes(entry)) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    let count = listing.entries.iter().take_while(fits).count();
    (&listing.entries[..count], listing.end && count == listing.entries.len())
}

/// Fails if not even one entry fits.
fn answer_listing(too_small: bool, dir_attributes: post_op_attr) -> Result<(), Failed<post_op_attr>> {
    if too_small {
        return Err(Failed { status: nfsstat3::NFS3ERR_TOOSMALL, rest: dir_attributes });
    }
    Ok(())
}

fn fsstat<S: Store>(call: &Call<'_, S>, FSSTAT3args { fsroot }: FSSTAT3args) -> FSSTAT3res {
    let found = call.served.store.getattr(fsroot.as_bytes()).map_err(|status| Failed { status, rest: None })?;
    let space = call.served.store.space(fsroot.as_bytes());
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

fn fsinfo<S: Store>(call: &Call<'_, S>, FSINFO3args { fsroot }: FSINFO3args) -> FSINFO3res {
    use properties::{FSF3_CANSETTIME, FSF3_HOMOGENEOUS, FSF3_LINK, FSF3_SYMLINK};
    let found = call.served.store.getattr(fsroot.as_bytes()).map_err(|status| Failed { status, rest: None })?;
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

fn pathconf<S: Store>(call: &Call<'_, S>, PATHCONF3args { object }: PATHCONF3args) -> PATHCONF3res {
    let found = call.served.store.getattr(object.as_bytes()).map_err(|status| Failed { status, rest: None })?;
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
