//! The operations that make and use sessions.
#![allow(clippy::wildcard_imports)] // the whole protocol is spoken here
#![allow(clippy::needless_pass_by_value)] // decoded arguments belong to their operation
#![allow(clippy::unnecessary_wraps)] // every operation has a status

use std::sync::Arc;

use iocurve_wire::nfs4::operations::create_session::{
    CREATE_SESSION4_FLAG_CONN_BACK_CHAN, CREATE_SESSION4_FLAG_CONN_RDMA, CREATE_SESSION4_FLAG_PERSIST,
};
use iocurve_wire::nfs4::operations::direction::{
    CDFC4_BACK_OR_BOTH, CDFC4_FORE, CDFC4_FORE_OR_BOTH, CDFS4_BOTH, CDFS4_FORE,
};
use iocurve_wire::nfs4::operations::exchgid::{
    EXCHGID4_FLAG_BIND_PRINC_STATEID, EXCHGID4_FLAG_CONFIRMED_R, EXCHGID4_FLAG_SUPP_MOVED_MIGR,
    EXCHGID4_FLAG_SUPP_MOVED_REFER, EXCHGID4_FLAG_UPD_CONFIRMED_REC_A, EXCHGID4_FLAG_USE_NON_PNFS,
    EXCHGID4_FLAG_USE_PNFS_DS, EXCHGID4_FLAG_USE_PNFS_MDS,
};
use iocurve_wire::nfs4::operations::*;
use iocurve_wire::nfs4::{
    channel_attrs4, nfs_impl_id4, nfs_opnum4, nfsstat4, nfstime4, owner_name4, server_owner4, sessionid4,
};
use iocurve_wire::xdr::{Decode, Reader};

use super::MESSAGE_BYTES_MAX;
use super::compound::{Compound, Next};
use crate::nfs4_state::{Address, ClientOwner, Exchanged, NfsSession, Origin, Request, SessionRequest, Started};
use crate::programs::turn::Turn;

/// Most slots of a session. Clients ask for 64 (Linux by default) or more; ANF gives 180.
const SLOTS_MAX: u32 = 256;

/// Most operations of a COMPOUND.
const OPERATIONS_MAX: u32 = 128;

/// Longest reply that is kept in a slot. Those to operations that must not be executed twice are shorter.
const KEPT_BYTES_MAX: u32 = 8192;

/// Shortest limit of calls and replies with which anything can be done in a session.
const MESSAGE_BYTES_MIN: u32 = 256;

/// Operation, status, session, and the numbers of `SEQUENCE4resok`.
const SEQUENCE_RESULT_BYTES: usize = 4 + 4 + 16 + 5 * 4;

/// SEQUENCE (§18.46).
pub(super) fn sequence(compound: &mut Compound<'_, '_>, reader: &mut Reader<'_>) -> Next {
    let decoded = SEQUENCE4args::decode(reader).map_err(|_| nfsstat4::NFS4ERR_BADXDR);
    let started = decoded.and_then(|arguments| Ok((arguments, start(compound, &arguments)?)));
    let (arguments, highest_slot, started) = match started {
        Ok((arguments, (highest_slot, started))) => (arguments, highest_slot, started),
        Err(status) => return compound.put::<()>(nfs_opnum4::OP_SEQUENCE, &Err(status)),
    };
    if let Started::Replay(reply) = started {
        return compound.replay(&reply);
    }
    // Each call has this result: appended in one piece it takes a fifth of the instructions.
    let words = [arguments.sa_sequenceid, arguments.sa_slotid, highest_slot, highest_slot, 0];
    let mut result = [0; SEQUENCE_RESULT_BYTES];
    result[..4].copy_from_slice(&(nfs_opnum4::OP_SEQUENCE as u32).to_be_bytes());
    result[8..24].copy_from_slice(&arguments.sa_sessionid);
    result[24..].chunks_exact_mut(4).zip(words).for_each(|(at, word)| at.copy_from_slice(&word.to_be_bytes()));
    compound.turn.batch.bytes(&result);
    match started {
        Started::New(slot) => compound.sequenced(slot, arguments.sa_cachethis),
        _ => uncached(compound, reader),
    }
}

/// Begins the call in its slot; returns the highest slot of the session, too.
fn start(compound: &mut Compound<'_, '_>, arguments: &SEQUENCE4args) -> Result<(u32, Started), nfsstat4> {
    let now = compound.turn.now;
    let session = find(compound.turn, &arguments.sa_sessionid).ok_or(nfsstat4::NFS4ERR_BADSESSION)?;
    let fore = &session.fore;
    match () {
        () if compound.received.call_bytes > fore.ca_maxrequestsize as usize => {
            return Err(nfsstat4::NFS4ERR_REQ_TOO_BIG);
        }
        () if compound.count > fore.ca_maxoperations => return Err(nfsstat4::NFS4ERR_TOO_MANY_OPS),
        () if arguments.sa_cachethis && fore.ca_maxresponsesize_cached < MESSAGE_BYTES_MIN / 2 => {
            return Err(nfsstat4::NFS4ERR_REP_TOO_BIG_TO_CACHE);
        }
        () => {}
    }
    let request = Request {
        principal: compound.principal,
        bytes: compound.received.call_bytes as u32,
        operations: compound.count,
    };
    Ok((session.highest_slot(), session.start(arguments, request, now)?))
}

/// Finds a session: nearly always it is the one that the connection used last.
#[inline]
fn find<'s>(turn: &'s mut Turn<'_>, id: &sessionid4) -> Option<&'s Arc<NfsSession>> {
    let last = &mut *turn.nfs_session;
    if last.as_ref().is_none_or(|session| session.id != *id || session.has_ended()) {
        *last = turn.served.nfs4.session(id);
    }
    last.as_ref()
}

/// Answers a call that was executed before and whose reply was not kept: the operation after SEQUENCE says so.
fn uncached(compound: &mut Compound<'_, '_>, reader: &mut Reader<'_>) -> Next {
    match reader.u32().ok().and_then(nfs_opnum4::from_u32) {
        Some(operation) => {
            compound.done += 1;
            compound.put::<()>(operation, &Err(nfsstat4::NFS4ERR_RETRY_UNCACHED_REP))
        }
        None => Next::Done(nfsstat4::NFS4_OK),
    }
}

/// `EXCHANGE_ID` (§18.35).
pub(super) fn exchange_id(compound: &mut Compound<'_, '_>, reader: &mut Reader<'_>) -> Next {
    let decoded = EXCHANGE_ID4args::decode(reader).map_err(|_| nfsstat4::NFS4ERR_BADXDR);
    let exchanged = decoded.and_then(|arguments| exchange(compound, &arguments));
    let served = compound.turn.served;
    let name = owner_name4(served.nfs4.scope.as_bytes());
    let result = exchanged.map(|exchanged| EXCHANGE_ID4resok {
        eir_clientid: exchanged.client,
        eir_sequenceid: exchanged.sequence,
        eir_flags: EXCHGID4_FLAG_USE_NON_PNFS | if exchanged.is_confirmed { EXCHGID4_FLAG_CONFIRMED_R } else { 0 },
        eir_state_protect: state_protect4_r::SP4_NONE(()),
        eir_server_owner: server_owner4 { so_minor_id: 0, so_major_id: name },
        eir_server_scope: name,
        eir_server_impl_id: Some(nfs_impl_id4 {
            nii_domain: b"iocurve",
            nii_name: served.nfs4.implementation.as_bytes(),
            nii_date: nfstime4::default(),
        }),
    });
    compound.put(nfs_opnum4::OP_EXCHANGE_ID, &result)
}

fn exchange(compound: &Compound<'_, '_>, arguments: &EXCHANGE_ID4args<'_>) -> Result<Exchanged, nfsstat4> {
    const KNOWN: u32 = EXCHGID4_FLAG_SUPP_MOVED_REFER
        | EXCHGID4_FLAG_SUPP_MOVED_MIGR
        | EXCHGID4_FLAG_BIND_PRINC_STATEID
        | EXCHGID4_FLAG_USE_NON_PNFS
        | EXCHGID4_FLAG_USE_PNFS_MDS
        | EXCHGID4_FLAG_USE_PNFS_DS
        | EXCHGID4_FLAG_UPD_CONFIRMED_REC_A;
    if arguments.eia_flags & !KNOWN != 0 {
        return Err(nfsstat4::NFS4ERR_INVAL);
    }
    match arguments.eia_state_protect {
        state_protect4_a::SP4_NONE(()) => {}
        // It takes RPCSEC_GSS, which is not served here.
        state_protect4_a::SP4_MACH_CRED(_) => return Err(nfsstat4::NFS4ERR_INVAL),
        state_protect4_a::SP4_SSV(_) => return Err(nfsstat4::NFS4ERR_ENCR_ALG_UNSUPP),
    }
    let owner = &arguments.eia_clientowner;
    let is_update = arguments.eia_flags & EXCHGID4_FLAG_UPD_CONFIRMED_REC_A != 0;
    let owner = ClientOwner { id: owner.co_ownerid.0, verifier: owner.co_verifier, origin: origin(compound) };
    compound.turn.served.nfs4.exchange_id(&owner, is_update, compound.turn.now)
}

fn origin(compound: &Compound<'_, '_>) -> Origin {
    Origin { address: Address::new(compound.turn.peer.path[0]), principal: compound.principal }
}

/// `CREATE_SESSION` (§18.36).
pub(super) fn create_session(
    compound: &mut Compound<'_, '_>,
    arguments: CREATE_SESSION4args<'_>,
) -> Result<CREATE_SESSION4resok, nfsstat4> {
    const KNOWN: u32 =
        CREATE_SESSION4_FLAG_PERSIST | CREATE_SESSION4_FLAG_CONN_BACK_CHAN | CREATE_SESSION4_FLAG_CONN_RDMA;
    if arguments.csa_flags & !KNOWN != 0 {
        return Err(nfsstat4::NFS4ERR_INVAL);
    }
    let request = SessionRequest {
        client: arguments.csa_clientid,
        sequence: arguments.csa_sequence,
        origin: origin(compound),
        fore: fore_channel(&arguments.csa_fore_chan_attrs)?,
        back: back_channel(&arguments.csa_back_chan_attrs)?,
    };
    compound.turn.served.nfs4.create_session(&request, compound.turn.now)
}

/// The limits that a client gets for the limits that it asks for.
fn fore_channel(asked: &channel_attrs4) -> Result<channel_attrs4, nfsstat4> {
    if asked.ca_maxrequestsize < MESSAGE_BYTES_MIN
        || asked.ca_maxresponsesize < MESSAGE_BYTES_MIN
        || asked.ca_maxoperations == 0
        || asked.ca_maxrequests == 0
    {
        return Err(nfsstat4::NFS4ERR_TOOSMALL);
    }
    Ok(channel_attrs4 {
        ca_headerpadsize: 0,
        ca_maxrequestsize: asked.ca_maxrequestsize.min(MESSAGE_BYTES_MAX),
        ca_maxresponsesize: asked.ca_maxresponsesize.min(MESSAGE_BYTES_MAX),
        ca_maxresponsesize_cached: asked.ca_maxresponsesize_cached.min(KEPT_BYTES_MAX),
        ca_maxoperations: asked.ca_maxoperations.min(OPERATIONS_MAX),
        ca_maxrequests: asked.ca_maxrequests.min(SLOTS_MAX),
        ca_rdma_ird: None,
    })
}

/// The back channel is not used; its limits must still allow a callback.
fn back_channel(asked: &channel_attrs4) -> Result<channel_attrs4, nfsstat4> {
    if asked.ca_maxrequestsize < MESSAGE_BYTES_MIN || asked.ca_maxoperations < 2 || asked.ca_maxrequests == 0 {
        return Err(nfsstat4::NFS4ERR_TOOSMALL);
    }
    Ok(channel_attrs4 { ca_headerpadsize: 0, ca_rdma_ird: None, ..*asked })
}

/// `DESTROY_SESSION` (§18.37).
pub(super) fn destroy_session(
    compound: &mut Compound<'_, '_>,
    DESTROY_SESSION4args { dsa_sessionid }: DESTROY_SESSION4args,
) -> Result<(), nfsstat4> {
    let is_own = compound.session().is_some_and(|session| session.id == dsa_sessionid);
    if is_own && compound.done + 1 < compound.count {
        return Err(nfsstat4::NFS4ERR_NOT_ONLY_OP);
    }
    compound.turn.served.nfs4.destroy_session(&dsa_sessionid)
}

/// `DESTROY_CLIENTID` (§18.50).
pub(super) fn destroy_clientid(
    compound: &mut Compound<'_, '_>,
    DESTROY_CLIENTID4args { dca_clientid }: DESTROY_CLIENTID4args,
) -> Result<(), nfsstat4> {
    compound.turn.served.nfs4.destroy_client(dca_clientid)
}

/// `BIND_CONN_TO_SESSION` (§18.34). Any connection may be used for any session; there are no callbacks for a back channel to carry.
pub(super) fn bind_conn_to_session(
    compound: &mut Compound<'_, '_>,
    arguments: BIND_CONN_TO_SESSION4args,
) -> Result<BIND_CONN_TO_SESSION4resok, nfsstat4> {
    find(compound.turn, &arguments.bctsa_sessid).ok_or(nfsstat4::NFS4ERR_BADSESSION)?;
    let bctsr_dir = match arguments.bctsa_dir {
        CDFC4_FORE | CDFC4_FORE_OR_BOTH => CDFS4_FORE,
        CDFC4_BACK_OR_BOTH => CDFS4_BOTH,
        _ => return Err(nfsstat4::NFS4ERR_INVAL),
    };
    Ok(BIND_CONN_TO_SESSION4resok {
        bctsr_sessid: arguments.bctsa_sessid,
        bctsr_dir,
        bctsr_use_conn_in_rdma_mode: false,
    })
}

/// `BACKCHANNEL_CTL` (§18.33): there are no callbacks whose credentials could change.
pub(super) fn backchannel_ctl(_: &mut Compound<'_, '_>, _: BACKCHANNEL_CTL4args<'_>) -> Result<(), nfsstat4> {
    Ok(())
}

/// `RECLAIM_COMPLETE` (§18.51).
pub(super) fn reclaim_complete(
    compound: &mut Compound<'_, '_>,
    RECLAIM_COMPLETE4args { rca_one_fs }: RECLAIM_COMPLETE4args,
) -> Result<(), nfsstat4> {
    if rca_one_fs {
        return compound.place().map(drop);
    }
    let served = compound.turn.served;
    let session = compound.session().ok_or(nfsstat4::NFS4ERR_OP_NOT_IN_SESSION)?;
    served.nfs4.reclaim_complete(&session.client)
}
