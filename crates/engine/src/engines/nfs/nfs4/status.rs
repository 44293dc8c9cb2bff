//! Maps statuses of `NFSv4.1` to the client's next step.

#[allow(clippy::enum_glob_use)] // the statuses are the subject of this file
use iocurve_wire::nfs4::nfsstat4::{self, *};

use super::super::protocol::Judgement;
use super::super::status;
use crate::error::EngineError;

/// Name of the version in messages and results.
pub(super) const NAME: &str = "NFSv4.1";

/// The RFC's name of a status.
pub(super) fn name(status: u32) -> &'static str {
    nfsstat4::from_u32(status).map_or("a status that NFSv4.1 does not have", nfsstat4::name)
}

/// An error about `path`, with advice.
pub(super) fn refused(action: &'static str, path: &str, status: u32) -> EngineError {
    status::error(action, path, status, name(status))
}

/// Decides what follows from a status other than success.
pub(super) fn judge(status: u32) -> Judgement {
    match nfsstat4::from_u32(status) {
        Some(NFS4ERR_DELAY) => Judgement::Later,
        Some(NFS4ERR_GRACE) => Judgement::AfterGrace,
        Some(NFS4ERR_RETRY_UNCACHED_REP) => Judgement::Now,
        Some(
            NFS4ERR_BADSESSION
            | NFS4ERR_DEADSESSION
            | NFS4ERR_BADSLOT
            | NFS4ERR_BAD_HIGH_SLOT
            | NFS4ERR_SEQ_MISORDERED
            | NFS4ERR_SEQ_FALSE_RETRY
            | NFS4ERR_CONN_NOT_BOUND_TO_SESSION
            | NFS4ERR_STALE_CLIENTID
            | NFS4ERR_STALE_STATEID
            | NFS4ERR_BAD_STATEID
            | NFS4ERR_OLD_STATEID
            | NFS4ERR_EXPIRED
            | NFS4ERR_ADMIN_REVOKED,
        ) => Judgement::Recover,
        _ => Judgement::Failed,
    }
}
