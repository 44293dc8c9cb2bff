//! Calls of `NFSv4.1` on names, in a load: each is one COMPOUND.

use std::sync::LazyLock;

use iocurve_wire::client_fast::Unparsed;
use iocurve_wire::nfs4::attributes::{Attributes, bitmap4};
use iocurve_wire::nfs4::operations::{
    ACCESS4args, CLOSE4args, CREATE4args, GETATTR4args, LINK4args, LOOKUP4args, OPEN4args, READ4args, READDIR4args,
    REMOVE4args, RENAME4args, SETATTR4args, WRITE4args, access, createhow4, createtype4, nfs_argop4, nfs_resop4,
    open_claim4, openflag4, share,
};
use iocurve_wire::nfs4::{nfsstat4, owner_name4, settime4, stable_how4, state_owner4, stateid4};
use iocurve_wire::xdr::{Decode, Reader, to_bytes};

use super::super::calls::FILE_MODE;
use super::super::names::{Cursor, ENTRIES_BYTES, ListedPage, NamedCall, Procedure};
use super::super::protocol::{Found, LESS_STABLE};
use super::Nfs4;
use super::calls::{CREATED, Encoded, LISTED, MADE_DIRECTORY, STAT, attributes, made_here};
use super::client::Registration;
use super::opens::{Handle, Open, put};

/// State of an open and its `share_access`.
pub(super) type OpenState = (stateid4, u32);

const MALFORMED: Unparsed = Unparsed::Malformed("it has not the results of its operations");

static UNSET: Encoded = LazyLock::new(|| to_bytes(&Attributes::default()));
static EMPTIED: Encoded =
    LazyLock::new(|| to_bytes(&Attributes { mode: Some(FILE_MODE), size: Some(0), ..Attributes::default() }));
static TOUCHED: Encoded = LazyLock::new(|| {
    let now = Some(settime4::SET_TO_SERVER_TIME4(()));
    to_bytes(&Attributes { time_access_set: now, time_modify_set: now, ..Attributes::default() })
});

/// Hands the operations of a call to `append`; `open` is the file that the call closes.
pub(super) fn with_operations(
    registration: &Registration,
    open: Option<&Open>,
    call: &NamedCall<Handle>,
    data: &[u8],
    append: impl FnOnce(&[nfs_argop4<'_>]),
) {
    let (name, new_name) = (&*call.name, &*call.new_name);
    let on_object = |append: &dyn Fn(&[nfs_argop4<'_>]), operation: nfs_argop4<'_>| {
        let (directory, look_up) = (put(&call.directory), nfs_argop4::LOOKUP(LOOKUP4args { objname: name }));
        if name.is_empty() { append(&[directory, operation]) } else { append(&[directory, look_up, operation]) }
    };
    // Only one of the arms calls it.
    let append = std::cell::Cell::new(Some(append));
    let append = |operations: &[nfs_argop4<'_>]| {
        if let Some(append) = append.take() {
            append(operations);
        }
    };
    let opening = |access, openhow| {
        nfs_argop4::OPEN(OPEN4args {
            seqid: 0,
            share_access: access | share::OPEN4_SHARE_ACCESS_WANT_NO_DELEG,
            share_deny: share::OPEN4_SHARE_DENY_NONE,
            owner: state_owner4 { clientid: registration.clientid, owner: owner_name4(registration.owner()) },
            openhow,
            claim: open_claim4::CLAIM_NULL(name),
        })
    };
    let open_by_name =
        |access, openhow| append(&[put(&call.directory), opening(access, openhow), nfs_argop4::GETFH(())]);
    // The handle is for a file that stays open, as the operation in the middle failed.
    let opened_for = |open, operation| {
        let close = nfs_argop4::CLOSE(CLOSE4args { seqid: 0, open_stateid: stateid4::CURRENT });
        append(&[put(&call.directory), open, nfs_argop4::GETFH(()), operation, close]);
    };
    let create_empty = || openflag4::OPEN4_CREATE(createhow4::UNCHECKED4(made_here(&EMPTIED)));
    match call.procedure {
        Procedure::LookUp => on_object(&append, nfs_argop4::GETFH(())),
        Procedure::Create => {
            let how = openflag4::OPEN4_CREATE(createhow4::UNCHECKED4(made_here(&CREATED)));
            open_by_name(share::OPEN4_SHARE_ACCESS_BOTH, how);
        }
        Procedure::CreateEmpty => open_by_name(share::OPEN4_SHARE_ACCESS_BOTH, create_empty()),
        Procedure::ReadWhole => {
            let read = READ4args { stateid: stateid4::CURRENT, offset: 0, count: call.length };
            let open = opening(share::OPEN4_SHARE_ACCESS_READ, openflag4::OPEN4_NOCREATE(()));
            opened_for(open, nfs_argop4::READ(read));
        }
        Procedure::WriteWhole => {
            let stable = stable_how4::FILE_SYNC;
            let write = WRITE4args { stateid: stateid4::CURRENT, offset: 0, stable, data };
            opened_for(opening(share::OPEN4_SHARE_ACCESS_WRITE, create_empty()), nfs_argop4::WRITE(write));
        }
        Procedure::Link => {
            let link = nfs_argop4::LINK(LINK4args { newname: new_name });
            let (file, save, target) = (put(&call.directory), nfs_argop4::SAVEFH(()), put(&call.new_directory));
            let look_up = nfs_argop4::LOOKUP(LOOKUP4args { objname: name });
            if name.is_empty() {
                append(&[file, save, target, link]);
            } else {
                append(&[file, look_up, save, target, link]);
            }
        }
        Procedure::Symlink => {
            let objtype = createtype4::NF4LNK(new_name);
            let create = CREATE4args { objtype, objname: name, createattrs: made_here(&UNSET) };
            append(&[put(&call.directory), nfs_argop4::CREATE(create)]);
        }
        Procedure::Readlink => on_object(&append, nfs_argop4::READLINK(())),
        Procedure::Readdir | Procedure::Readdirplus => {
            let attr_request = if call.procedure == Procedure::Readdir { bitmap4::of(&[]) } else { LISTED };
            let Cursor { cookie, verifier: cookieverf } = call.cursor;
            let (dircount, maxcount) = (ENTRIES_BYTES, ENTRIES_BYTES);
            let list = READDIR4args { cookie, cookieverf, dircount, maxcount, attr_request };
            append(&[put(&call.directory), nfs_argop4::READDIR(list)]);
        }
        Procedure::Open => open_by_name(share::OPEN4_SHARE_ACCESS_BOTH, openflag4::OPEN4_NOCREATE(())),
        Procedure::OpenToRead => open_by_name(share::OPEN4_SHARE_ACCESS_READ, openflag4::OPEN4_NOCREATE(())),
        Procedure::Close => {
            let Some(open) = open else { unreachable!("only an open file is closed") };
            let close = nfs_argop4::CLOSE(CLOSE4args { seqid: 0, open_stateid: open.stateid });
            append(&[put(&open.handle), close]);
        }
        Procedure::Getattr => on_object(&append, nfs_argop4::GETATTR(GETATTR4args { attr_request: STAT })),
        Procedure::Setattr => {
            let set = SETATTR4args { stateid: stateid4::ANONYMOUS, obj_attributes: made_here(&TOUCHED) };
            on_object(&append, nfs_argop4::SETATTR(set));
        }
        Procedure::Access => {
            on_object(&append, nfs_argop4::ACCESS(ACCESS4args { access: access::ACCESS3_READ }));
        }
        // REMOVE takes directories as well.
        Procedure::Remove | Procedure::Rmdir => {
            append(&[put(&call.directory), nfs_argop4::REMOVE(REMOVE4args { target: name })]);
        }
        Procedure::Mkdir => {
            let objtype = createtype4::NF4DIR(());
            let create = CREATE4args { objtype, objname: name, createattrs: made_here(&MADE_DIRECTORY) };
            append(&[put(&call.directory), nfs_argop4::CREATE(create), nfs_argop4::GETFH(())]);
        }
        Procedure::Rename => {
            let rename = nfs_argop4::RENAME(RENAME4args { oldname: name, newname: new_name });
            append(&[put(&call.directory), nfs_argop4::SAVEFH(()), put(&call.new_directory), rename]);
        }
    }
}

/// Parses the results behind SEQUENCE: the first that failed is the last one.
pub(super) fn parse(procedure: Procedure, results: &[u8]) -> Result<Result<Found<Nfs4>, u32>, Unparsed> {
    let mut reader = Reader::new(results);
    let mut found = Found::<Nfs4>::default();
    let mut is_complete = false;
    let mut is_open = false;
    while !reader.rest().is_empty() {
        let mut start = Reader::new(reader.rest());
        start.u32().map_err(|_| MALFORMED)?;
        let status = nfsstat4::decode(&mut start).map_err(|_| MALFORMED)?;
        if status != nfsstat4::NFS4_OK {
            // The file that the same call has opened is still open.
            let is_left = is_open && matches!(procedure, Procedure::ReadWhole | Procedure::WriteWhole);
            return Ok(if is_left {
                Ok(Found::<Nfs4> { failed: Some(status as u32), ..found })
            } else {
                Err(status as u32)
            });
        }
        match nfs_resop4::decode(&mut reader).map_err(|_| MALFORMED)? {
            nfs_resop4::GETFH(Ok(result)) => {
                found.handle = Some(result.object.0.into());
                is_complete |= matches!(
                    procedure,
                    Procedure::LookUp
                        | Procedure::Create
                        | Procedure::CreateEmpty
                        | Procedure::Open
                        | Procedure::OpenToRead
                        | Procedure::Mkdir
                );
            }
            // The current state of an open, whatever its number (§8.2.2): calls may overtake each other.
            nfs_resop4::OPEN(Ok(opened)) => {
                found.state = (stateid4 { seqid: 0, ..opened.stateid }, accesses(procedure));
                is_open = true;
            }
            result @ nfs_resop4::GETATTR(Ok(_)) => {
                found.size = attributes(&result).and_then(|attributes| attributes.size);
                is_complete = true;
            }
            nfs_resop4::ACCESS(Ok(checked)) => {
                found.may_read = checked.access & access::ACCESS3_READ != 0;
                is_complete = true;
            }
            nfs_resop4::READ(Ok(read)) => {
                let at = read.data.as_ptr().addr() - results.as_ptr().addr();
                found.moved = at..at + read.data.len();
            }
            nfs_resop4::WRITE(Ok(written)) => {
                if written.committed != stable_how4::FILE_SYNC {
                    return Err(Unparsed::Malformed(LESS_STABLE));
                }
                found.moved = 0..written.count as usize;
            }
            nfs_resop4::READDIR(Ok(list)) => {
                let entries = list.reply.entries.0.iter().map(|entry| (entry.name, entry.cookie));
                found.listed = Some(ListedPage::of(entries, list.cookieverf, list.reply.eof));
                is_complete = true;
            }
            nfs_resop4::CREATE(_) => is_complete = procedure == Procedure::Symlink,
            nfs_resop4::CLOSE(_)
            | nfs_resop4::SETATTR(_)
            | nfs_resop4::REMOVE(_)
            | nfs_resop4::RENAME(_)
            | nfs_resop4::LINK(_)
            | nfs_resop4::READLINK(_) => is_complete = true,
            _ => {}
        }
    }
    if is_complete { Ok(Ok(found)) } else { Err(MALFORMED) }
}

fn accesses(procedure: Procedure) -> u32 {
    match procedure {
        Procedure::OpenToRead | Procedure::ReadWhole => share::OPEN4_SHARE_ACCESS_READ,
        Procedure::WriteWhole => share::OPEN4_SHARE_ACCESS_WRITE,
        _ => share::OPEN4_SHARE_ACCESS_BOTH,
    }
}
