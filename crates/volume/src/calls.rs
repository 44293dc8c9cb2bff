//! From the bytes of a call to the procedure that answers it (RFC 5531 §9).

use iocurve_meter::Nanos;
use iocurve_wire::mount3::{MOUNT_PROGRAM, MOUNT_V3};
use iocurve_wire::nfs3::{NFS_PROGRAM, NFS_V3, nfsproc3};
use iocurve_wire::portmap::{PMAP_PROG, PMAP_VERS};
use iocurve_wire::record::write_record;
use iocurve_wire::rpc::{
    AUTH_SYS_GIDS_MAX, Accepted, CallHeader, RPC_VERSION, Rejected, ReplyHeader, auth_flavor, auth_stat, authsys_parms,
    mismatch_info, opaque_auth,
};
use iocurve_wire::server_fast::{self, RangeArgs, WriteArgs};
use iocurve_wire::xdr::{Decode, Encode, Reader, Writer, XdrError, from_bytes};

use crate::session::{Close, Session};
use crate::store::{Caller, Store};
use crate::worker::{Served, Worker};
use crate::{data, mount3, nfs3, portmap, replies};

/// Longest name of a machine in `AUTH_SYS` (RFC 5531 App. A).
const MACHINE_NAME_BYTES_MAX: usize = 255;

/// Why a call that was understood has no results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The program has no such procedure.
    Procedure,
    /// The arguments cannot be decoded.
    Arguments,
}

impl From<XdrError> for Refused {
    fn from(_: XdrError) -> Self {
        Self::Arguments
    }
}

/// A call to a procedure off the data path.
#[derive(Debug)]
pub struct Call<'a, S> {
    /// What is served.
    pub served: &'a Served<S>,
    /// The procedure.
    pub procedure: u32,
    /// Its arguments.
    pub arguments: &'a [u8],
    /// Who calls.
    pub caller: Caller,
    /// Where from, in words.
    pub peer: &'a str,
}

/// Answers one record. Only one that is no call at all costs the connection.
#[inline]
pub fn answer<S: Store>(session: &mut Session, worker: &mut Worker<S>, record: &[u8], now: Nanos) -> Result<(), Close> {
    let mut reader = Reader::new(record);
    let header = CallHeader::decode(&mut reader)?;
    let arguments = reader.rest();
    if (header.rpcvers, header.prog, header.vers) != (RPC_VERSION, NFS_PROGRAM, NFS_V3) {
        answer_program(session, worker, &header, arguments, now);
        return Ok(());
    }
    let xid = header.xid;
    let caller = match session.credential.caller(&header.cred) {
        Ok(caller) => *caller,
        Err(stat) => {
            deny(worker, xid, stat);
            return Ok(());
        }
    };
    let answered = match nfsproc3::from_u32(header.proc) {
        Some(nfsproc3::NFSPROC3_READ) => {
            RangeArgs::parse(arguments).map(|arguments| data::read(session, worker, (xid, &caller), arguments, now))
        }
        Some(nfsproc3::NFSPROC3_WRITE) => WriteArgs::parse(arguments, arguments.len())
            .map(|arguments| data::write(session, worker, (xid, &caller), &arguments, now)),
        Some(nfsproc3::NFSPROC3_GETATTR) => {
            server_fast::parse_getattr(arguments).map(|object| data::getattr(worker, xid, object))
        }
        Some(nfsproc3::NFSPROC3_COMMIT) => {
            RangeArgs::parse(arguments).map(|arguments| data::commit(worker, xid, arguments))
        }
        _ => {
            answer_program(session, worker, &header, arguments, now);
            Ok(())
        }
    };
    if answered.is_err() {
        reply(worker, &ReplyHeader::accepted(xid, Accepted::GARBAGE_ARGS(())));
    }
    Ok(())
}

/// Answers a call off the data path; one that must not be carried out twice, as it was answered before.
fn answer_program<S: Store>(
    session: &mut Session,
    worker: &mut Worker<S>,
    header: &CallHeader<'_>,
    arguments: &[u8],
    now: Nanos,
) {
    worker.counters.calls.other_operations.add(1);
    let xid = header.xid;
    let refusal = match check(session, header) {
        Err(refusal) => refusal,
        Ok(caller) => {
            let served = &worker.served;
            let is_kept = header.prog == NFS_PROGRAM && replies::is_kept(header.proc);
            let key = is_kept.then(|| served.replies.key(&session.peer, header, arguments));
            if let Some(record) = key.and_then(|key| served.replies.find(key, now)) {
                return worker.batch.bytes(&record);
            }
            let procedure = header.proc;
            let call = Call { served, procedure, arguments, caller, peer: &session.peer };
            let answered = worker.batch.write(|out| {
                let start = out.len();
                answer_call(header, &call, out)?;
                if let Some(key) = key {
                    served.replies.keep(key, &out[start..], now);
                }
                Ok(())
            });
            match answered {
                Ok(()) => return,
                Err(Refused::Procedure) => ReplyHeader::accepted(xid, Accepted::PROC_UNAVAIL(())),
                Err(Refused::Arguments) => ReplyHeader::accepted(xid, Accepted::GARBAGE_ARGS(())),
            }
        }
    };
    reply(worker, &refusal);
}

/// Checks that the call can be answered, and says who calls.
fn check(session: &mut Session, header: &CallHeader<'_>) -> Result<Caller, ReplyHeader<'static>> {
    let xid = header.xid;
    if header.rpcvers != RPC_VERSION {
        let versions = mismatch_info { low: RPC_VERSION, high: RPC_VERSION };
        return Err(ReplyHeader::denied(xid, Rejected::RPC_MISMATCH(versions)));
    }
    let served = match header.prog {
        NFS_PROGRAM => NFS_V3,
        MOUNT_PROGRAM => MOUNT_V3,
        PMAP_PROG => PMAP_VERS,
        _ => return Err(ReplyHeader::accepted(xid, Accepted::PROG_UNAVAIL(()))),
    };
    if header.vers != served {
        let versions = mismatch_info { low: served, high: served };
        return Err(ReplyHeader::accepted(xid, Accepted::PROG_MISMATCH(versions)));
    }
    session
        .credential
        .caller(&header.cred)
        .copied()
        .map_err(|stat| ReplyHeader::denied(xid, Rejected::AUTH_ERROR(stat)))
}

/// Says that the caller is not known.
pub fn deny<S>(worker: &mut Worker<S>, xid: u32, stat: auth_stat) {
    reply(worker, &ReplyHeader::denied(xid, Rejected::AUTH_ERROR(stat)));
}

/// The last credential of a connection, and whom it stands for: nearly every call brings the same one.
#[derive(Debug)]
pub struct Credential {
    flavor: u32,
    body: Vec<u8>,
    caller: Caller,
}

impl Default for Credential {
    fn default() -> Self {
        Self { flavor: auth_flavor::AUTH_NONE, body: Vec::new(), caller: NOBODY }
    }
}

impl Credential {
    /// Whom a credential stands for.
    #[inline]
    pub fn caller(&mut self, cred: &opaque_auth<'_>) -> Result<&Caller, auth_stat> {
        if cred.flavor != self.flavor || cred.body != self.body {
            self.caller = caller(cred)?;
            self.flavor = cred.flavor;
            self.body.clear();
            self.body.extend_from_slice(cred.body);
        }
        Ok(&self.caller)
    }
}

/// The user that NFS servers traditionally map strangers to.
const NOBODY: Caller = Caller::new(65534, 65534);

fn caller(cred: &opaque_auth<'_>) -> Result<Caller, auth_stat> {
    match cred.flavor {
        auth_flavor::AUTH_NONE => Ok(NOBODY),
        auth_flavor::AUTH_SYS => {
            let parms: authsys_parms<'_> = from_bytes(cred.body).map_err(|_| auth_stat::AUTH_BADCRED)?;
            let is_legal = parms.gids.len() <= AUTH_SYS_GIDS_MAX && parms.machinename.len() <= MACHINE_NAME_BYTES_MAX;
            let caller = Caller::new(parms.uid, parms.gid).with_groups(&parms.gids);
            is_legal.then_some(caller).ok_or(auth_stat::AUTH_BADCRED)
        }
        _ => Err(auth_stat::AUTH_BADCRED),
    }
}

fn answer_call<S: Store>(header: &CallHeader<'_>, call: &Call<'_, S>, out: &mut Vec<u8>) -> Result<(), Refused> {
    let mut answered = Ok(());
    write_record(out, |writer| {
        ReplyHeader::success(header.xid).encode(writer);
        answered = match header.prog {
            NFS_PROGRAM => nfs3::answer(call, writer),
            MOUNT_PROGRAM => mount3::answer(call, writer),
            _ => portmap::answer(call, writer),
        };
    });
    answered
}

fn reply<S>(worker: &mut Worker<S>, header: &ReplyHeader<'_>) {
    worker.batch.append(|out| write_record(out, |writer: &mut Writer<'_>| header.encode(writer)));
}
