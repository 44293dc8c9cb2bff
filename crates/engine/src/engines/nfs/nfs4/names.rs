//! Calls of `NFSv4.1` on names, in a load: each is one COMPOUND.

use iocurve_wire::client_fast::Unparsed;
use iocurve_wire::nfs4::attributes::{Attributes, fattr4};
use iocurve_wire::nfs4::operations::{
    ACCESS4args, CLOSE4args, CREATE4args, GETATTR4args, LOOKUP4args, OPEN4args, REMOVE4args, RENAME4args, SETATTR4args,
    access, createhow4, createtype4, nfs_argop4, nfs_resop4, open_claim4, openflag4, share,
};
use iocurve_wire::nfs4::{nfsstat4, owner_name4, settime4, state_owner4, stateid4};
use iocurve_wire::xdr::{Decode, Reader, from_bytes, to_bytes};

use super::super::calls::{DIRECTORY_MODE, FILE_MODE};
use super::super::names::{NamedCall, Procedure};
use super::super::protocol::Found;
use super::Nfs4;
use super::calls::STAT;
use super::client::Registration;
use super::opens::{Handle, Open, put};

/// State of an open and its `share_access`.
pub(super) type OpenState = (stateid4, u32);

const MALFORMED: Unparsed = Unparsed::Malformed("it has not the results of its operations");

/// Hands the operations of a call to `append`; `open` is the file that the call closes.
pub(super) fn with_operations(
    registration: &Registration,
    open: Option<&Open>,
    call: &NamedCall<Handle>,
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
    let open_by_name = |access, openhow| {
        let open = nfs_argop4::OPEN(OPEN4args {
            seqid: 0,
            share_access: access | share::OPEN4_SHARE_ACCESS_WANT_NO_DELEG,
            share_deny: share::OPEN4_SHARE_DENY_NONE,
            owner: state_owner4 { clientid: registration.clientid, owner: owner_name4(registration.owner()) },
            openhow,
            claim: open_claim4::CLAIM_NULL(name),
        });
        append(&[put(&call.directory), open, nfs_argop4::GETFH(())]);
    };
    match call.procedure {
        Procedure::LookUp => on_object(&append, nfs_argop4::GETFH(())),
        Procedure::Create => {
            let mode = to_bytes(&Attributes { mode: Some(FILE_MODE), ..Attributes::default() });
            let how = openflag4::OPEN4_CREATE(createhow4::UNCHECKED4(made_here(&mode)));
            open_by_name(share::OPEN4_SHARE_ACCESS_BOTH, how);
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
            let now = Some(settime4::SET_TO_SERVER_TIME4(()));
            let times = to_bytes(&Attributes { time_access_set: now, time_modify_set: now, ..Attributes::default() });
            let set = SETATTR4args { stateid: stateid4::ANONYMOUS, obj_attributes: made_here(&times) };
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
            let mode = to_bytes(&Attributes { mode: Some(DIRECTORY_MODE), ..Attributes::default() });
            let objtype = createtype4::NF4DIR(());
            let create = CREATE4args { objtype, objname: name, createattrs: made_here(&mode) };
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
    while !reader.rest().is_empty() {
        let mut start = Reader::new(reader.rest());
        start.u32().map_err(|_| MALFORMED)?;
        let status = nfsstat4::decode(&mut start).map_err(|_| MALFORMED)?;
        if status != nfsstat4::NFS4_OK {
            return Ok(Err(status as u32));
        }
        match nfs_resop4::decode(&mut reader).map_err(|_| MALFORMED)? {
            nfs_resop4::GETFH(Ok(result)) => {
                found.handle = Some(result.object.0.to_vec());
                is_complete |= matches!(
                    procedure,
                    Procedure::LookUp | Procedure::Create | Procedure::Open | Procedure::OpenToRead | Procedure::Mkdir
                );
            }
            // The current state of an open, whatever its number (§8.2.2): calls may overtake each other.
            nfs_resop4::OPEN(Ok(opened)) => {
                found.state = (stateid4 { seqid: 0, ..opened.stateid }, accesses(procedure));
            }
            nfs_resop4::GETATTR(Ok(_)) => (found.has_attributes, is_complete) = (true, true),
            nfs_resop4::ACCESS(Ok(checked)) => {
                found.may_read = checked.access & access::ACCESS3_READ != 0;
                is_complete = true;
            }
            nfs_resop4::CLOSE(_) | nfs_resop4::SETATTR(_) | nfs_resop4::REMOVE(_) | nfs_resop4::RENAME(_) => {
                is_complete = true;
            }
            _ => {}
        }
    }
    if is_complete { Ok(Ok(found)) } else { Err(MALFORMED) }
}

fn accesses(procedure: Procedure) -> u32 {
    match procedure {
        Procedure::OpenToRead => share::OPEN4_SHARE_ACCESS_READ,
        _ => share::OPEN4_SHARE_ACCESS_BOTH,
    }
}

fn made_here(attributes: &[u8]) -> fattr4<'_> {
    from_bytes(attributes).expect("attributes that were made here")
}
