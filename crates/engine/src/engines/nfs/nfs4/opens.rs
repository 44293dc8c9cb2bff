//! Opening and closing files (RFC 8881 §9).

use std::sync::Arc;

use iocurve_wire::client_fast::Malformed;
use iocurve_wire::nfs4::operations::{
    CLOSE4args, OPEN4args, PUTFH4args, nfs_argop4, nfs_resop4, open_claim4, openflag4, share,
};
use iocurve_wire::nfs4::{nfs_fh4, nfsstat4, owner_name4, state_owner4, stateid4};

use super::super::protocol::Judgement;
use super::super::status::refused;
use super::client::Client;
use super::{Nfs4, status};
use crate::error::EngineError;

/// A file handle. Each call on a name has one, so that a copy allocates nothing.
pub(super) type Handle = Arc<[u8]>;

/// An open file.
#[derive(Debug, Clone)]
pub(in super::super) struct Open {
    pub path: String,
    pub handle: Handle,
    pub stateid: stateid4,
    /// `share_access` of the open.
    pub access: u32,
}

/// Opens a file for reading and writing, or for reading only where writing is refused.
pub(super) fn open_by_handle(client: &mut Client<'_>, path: &str, handle: &Handle) -> Result<Open, EngineError> {
    let opened = open_either_way(client, path, handle, openflag4::OPEN4_NOCREATE(()), open_claim4::CLAIM_FH(()))?;
    opened.map_err(|status| refused::<Nfs4>("open", path, status as u32))
}

/// Opens what `claim` names, beginning at `current`, for reading and writing, or for reading only where writing is refused.
pub(super) fn open_either_way(
    client: &mut Client<'_>,
    path: &str,
    current: &Handle,
    how: openflag4<'_>,
    claim: open_claim4<'_>,
) -> Result<Result<Open, nfsstat4>, EngineError> {
    use nfsstat4::{NFS4ERR_ACCESS, NFS4ERR_PERM, NFS4ERR_ROFS};
    let mut attempt = |access| {
        let opened = open(client, current, access, how, claim)?;
        Ok::<_, EngineError>(opened.map(|(stateid, handle)| Open { path: path.to_owned(), handle, stateid, access }))
    };
    match attempt(share::OPEN4_SHARE_ACCESS_BOTH)? {
        Err(NFS4ERR_ACCESS | NFS4ERR_PERM | NFS4ERR_ROFS) => attempt(share::OPEN4_SHARE_ACCESS_READ),
        opened => Ok(opened),
    }
}

/// Opens a file again after a restart of the server, under its earlier open.
pub(super) fn reclaim(client: &mut Client<'_>, open_before: &Open) -> Result<Result<stateid4, nfsstat4>, EngineError> {
    let Open { handle, access, .. } = open_before;
    let opened = open(client, handle, *access, openflag4::OPEN4_NOCREATE(()), open_claim4::CLAIM_PREVIOUS(0))?;
    Ok(opened.map(|(stateid, _)| stateid))
}

/// Closes a file; a state that the server has forgotten is closed, too.
pub(super) fn close(
    client: &mut Client<'_>,
    handle: &Handle,
    open_stateid: stateid4,
) -> Result<Result<(), nfsstat4>, EngineError> {
    let close = nfs_argop4::CLOSE(CLOSE4args { seqid: 0, open_stateid });
    Ok(match client.compound(&[put(handle), close], |_| {})? {
        Err(failed) if status::judge(failed.status as u32) != Judgement::Recover => Err(failed.status),
        _ => Ok(()),
    })
}

/// Opens for writing, or whatever `access` says; returns the state, and the handle that the server gives.
pub(super) fn open(
    client: &mut Client<'_>,
    current: &Handle,
    access: u32,
    openhow: openflag4<'_>,
    claim: open_claim4<'_>,
) -> Result<Result<(stateid4, Handle), nfsstat4>, EngineError> {
    let owner = client.registration.owner().to_owned();
    let clientid = client.registration.clientid;
    let open = nfs_argop4::OPEN(OPEN4args {
        seqid: 0,
        share_access: access | share::OPEN4_SHARE_ACCESS_WANT_NO_DELEG,
        share_deny: share::OPEN4_SHARE_DENY_NONE,
        owner: state_owner4 { clientid, owner: owner_name4(&owner) },
        openhow,
        claim,
    });
    let (mut handle, mut stateid) = (Handle::default(), None);
    let opened = client.compound(&[put(current), open, nfs_argop4::GETFH(())], |result| {
        take_handle(&result, &mut handle);
        if let nfs_resop4::OPEN(Ok(opened)) = result {
            stateid = Some(opened.stateid);
        }
    })?;
    match (opened, stateid) {
        // The current state of an open, whatever its number (§8.2.2): calls may overtake each other.
        (Ok(()), Some(stateid)) => Ok(Ok((stateid4 { seqid: 0, ..stateid }, handle))),
        (Ok(()), None) => Err(client.rpc.invalid(&Malformed::StateMissing)),
        (Err(failed), _) => Ok(Err(failed.status)),
    }
}

pub(super) fn put(handle: &Handle) -> nfs_argop4<'_> {
    nfs_argop4::PUTFH(PUTFH4args { object: nfs_fh4(handle) })
}

pub(super) fn take_handle(result: &nfs_resop4<'_>, handle: &mut Handle) {
    if let nfs_resop4::GETFH(Ok(found)) = result {
        *handle = found.object.0.into();
    }
}
