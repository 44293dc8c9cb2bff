//! Opening and closing files (RFC 8881 §9), also after the server has lost or ended the session: then opens are kept, reclaimed
//! or repeated (§8.4).

use std::sync::Arc;

use iocurve_meter::Nanos;
use iocurve_wire::client_fast::Malformed;
use iocurve_wire::nfs4::operations::{
    CLOSE4args, FREE_STATEID4args, OPEN4args, PUTFH4args, TEST_STATEID4args, nfs_argop4, nfs_resop4, open_claim4,
    openflag4, share,
};
use iocurve_wire::nfs4::{nfs_fh4, nfsstat4, owner_name4, state_owner4, stateid4};

use super::super::protocol::Judgement;
use super::client::{Client, Kept};
use super::status::{self, refused};
use crate::error::EngineError;

/// Pause between two attempts to restore a session.
const PAUSE_NS: Nanos = 200_000_000;

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
pub(super) async fn open_by_handle(client: &mut Client, path: &str, handle: &Handle) -> Result<Open, EngineError> {
    use nfsstat4::{NFS4ERR_ACCESS, NFS4ERR_PERM, NFS4ERR_ROFS};
    let mut access = share::OPEN4_SHARE_ACCESS_BOTH;
    loop {
        match open(client, handle, access, open_claim4::CLAIM_FH(())).await? {
            Ok((stateid, handle)) => return Ok(Open { path: path.to_owned(), handle, stateid, access }),
            Err(NFS4ERR_ACCESS | NFS4ERR_PERM | NFS4ERR_ROFS) if access == share::OPEN4_SHARE_ACCESS_BOTH => {
                access = share::OPEN4_SHARE_ACCESS_READ;
            }
            Err(status) => return Err(refused("open", path, status as u32)),
        }
    }
}

impl Client {
    /// Repeats attempts to [`Self::restore`] until one succeeds, or the timeout is over, and binds all `connections`.
    pub(super) async fn recover(&mut self, opens: &mut [Option<Open>], connections: u32) -> Result<(), EngineError> {
        let started = self.line.now();
        // Another attempt continues with what the server has counted in this one.
        while let Err(error) = self.restore(opens).await {
            if !matches!(error, EngineError::Connection(_)) || self.line.is_late(started, self.timeout_ns) {
                return Err(error);
            }
            self.line.pause(PAUSE_NS).await;
        }
        for connection in 1..connections {
            self.bind(connection as usize).await?;
        }
        Ok(())
    }

    /// Replaces a lost session by a new one, in which the files are open as before.
    pub(super) async fn restore(&mut self, opens: &mut [Option<Open>]) -> Result<(), EngineError> {
        match self.renew().await? {
            Kept::ClientId => restore_revoked(self, opens).await,
            Kept::Nothing => restore_all(self, opens).await,
        }
    }
}

/// Opens again the files whose state the server has revoked.
async fn restore_revoked(client: &mut Client, opens: &mut [Option<Open>]) -> Result<(), EngineError> {
    for open in opens.iter_mut().flatten() {
        let test = nfs_argop4::TEST_STATEID(TEST_STATEID4args { ts_stateids: vec![open.stateid] });
        let mut state = nfsstat4::NFS4ERR_BAD_STATEID;
        let operations = [test];
        let tested = client.compound(&operations, |result| {
            if let nfs_resop4::TEST_STATEID(Ok(tested)) = result {
                state = tested.tsr_status_codes.first().copied().unwrap_or(state);
            }
        });
        if tested.await?.is_ok() && state == nfsstat4::NFS4_OK {
            continue;
        }
        // The server keeps a revoked state until the client knows of it.
        let free = nfs_argop4::FREE_STATEID(FREE_STATEID4args { fsa_stateid: open.stateid });
        let _ = client.compound(&[free], |_| {}).await?;
        *open = open_by_handle(client, &open.path, &open.handle).await?;
    }
    Ok(())
}

/// Reclaims all opens, and opens again those that the server does not let be reclaimed.
async fn restore_all(client: &mut Client, opens: &mut [Option<Open>]) -> Result<(), EngineError> {
    use nfsstat4::{NFS4ERR_NO_GRACE, NFS4ERR_NOTSUPP, NFS4ERR_RECLAIM_BAD, NFS4ERR_RECLAIM_CONFLICT};
    let mut lost = Vec::new();
    for open in opens.iter_mut().flatten() {
        match reclaim(client, open).await? {
            Ok(stateid) => open.stateid = stateid,
            Err(NFS4ERR_NO_GRACE | NFS4ERR_RECLAIM_BAD | NFS4ERR_RECLAIM_CONFLICT | NFS4ERR_NOTSUPP) => {
                lost.push(open);
            }
            Err(status) => return Err(refused("reclaim", &open.path, status as u32)),
        }
    }
    client.reclaim_complete().await?;
    for open in lost {
        *open = open_by_handle(client, &open.path, &open.handle).await?;
    }
    Ok(())
}

/// Opens a file again after a restart of the server, under its earlier open.
async fn reclaim(client: &mut Client, open_before: &Open) -> Result<Result<stateid4, nfsstat4>, EngineError> {
    let Open { handle, access, .. } = open_before;
    let opened = open(client, handle, *access, open_claim4::CLAIM_PREVIOUS(0)).await?;
    Ok(opened.map(|(stateid, _)| stateid))
}

/// Closes a file; a state that the server has forgotten is closed, too.
pub(super) async fn close(
    client: &mut Client,
    handle: &Handle,
    open_stateid: stateid4,
) -> Result<Result<(), nfsstat4>, EngineError> {
    let close = nfs_argop4::CLOSE(CLOSE4args { seqid: 0, open_stateid });
    Ok(match client.compound(&[put(handle), close], |_| {}).await? {
        Err(status) if status::judge(status as u32) != Judgement::Recover => Err(status),
        _ => Ok(()),
    })
}

/// Opens for writing, or whatever `access` says; returns the state, and the handle that the server gives.
async fn open(
    client: &mut Client,
    current: &Handle,
    access: u32,
    claim: open_claim4<'_>,
) -> Result<Result<(stateid4, Handle), nfsstat4>, EngineError> {
    let owner = client.registration.owner().to_owned();
    let clientid = client.registration.clientid;
    let open = nfs_argop4::OPEN(OPEN4args {
        seqid: 0,
        share_access: access | share::OPEN4_SHARE_ACCESS_WANT_NO_DELEG,
        share_deny: share::OPEN4_SHARE_DENY_NONE,
        owner: state_owner4 { clientid, owner: owner_name4(&owner) },
        openhow: openflag4::OPEN4_NOCREATE(()),
        claim,
    });
    let (mut handle, mut stateid) = (Handle::default(), None);
    let operations = [put(current), open, nfs_argop4::GETFH(())];
    let opened = client.compound(&operations, |result| {
        take_handle(&result, &mut handle);
        if let nfs_resop4::OPEN(Ok(opened)) = result {
            stateid = Some(opened.stateid);
        }
    });
    match (opened.await?, stateid) {
        // The current state of an open, whatever its number (§8.2.2): calls may overtake each other.
        (Ok(()), Some(stateid)) => Ok(Ok((stateid4 { seqid: 0, ..stateid }, handle))),
        (Ok(()), None) => Err(client.invalid(Malformed::StateMissing)),
        (Err(status), _) => Ok(Err(status)),
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
