//! From the bytes of a call to the program that answers it (RFC 5531 §9).

use iocurve_wire::nfs3::{NFS_PROGRAM, NFS_V3, nfsproc3};
use iocurve_wire::nfs4::NFS_V4;
use iocurve_wire::record::write_record;
use iocurve_wire::rpc::{Accepted, CallHeader, RPC_VERSION, Rejected, ReplyHeader, mismatch_info};
use iocurve_wire::server_fast::WriteArgs;
use iocurve_wire::xdr::{Decode, Encode, Reader, XdrError};

use super::call::{Call, Program, Refused};
use super::nfs3_data::{self, ArrivingWrite};
use super::nfs4::arriving::ArrivingCompound;
use super::turn::Turn;
use super::{mount3, nfs3, nfs4, portmap};
use crate::reply::cache::Repeated;

/// Longest head of a call before the data of a WRITE: call header with two full authenticators, and of a COMPOUND a tag of 512 bytes,
/// SEQUENCE, a handle and numbers.
const HEAD_BYTES_MAX: usize = 24 + 2 * (8 + 400) + (4 + 512 + 8) + (4 + 32) + (4 + 132) + (4 + 16 + 16);

/// Longest call: one with a WRITE. A version 3 WRITE has a shorter head than the longest that a session allows.
pub(crate) const CALL_BYTES_MAX: usize = nfs4::MESSAGE_BYTES_MAX as usize;

/// Longest call that carries no data to write: names, link targets and their envelope.
pub(crate) const SMALL_CALL_BYTES_MAX: usize = 16 << 10;

/// Answers one call. Fails only if the record is not a call at all, which costs the connection.
#[inline]
pub(crate) fn answer(turn: &mut Turn<'_>, record: &[u8]) -> Result<(), XdrError> {
    let mut reader = Reader::new(record);
    let header = CallHeader::decode(&mut reader)?;
    let arguments = reader.rest();
    match header.vers {
        NFS_V3 if is_nfs(&header) && nfs3_data::answer(turn, &header, arguments) => {}
        NFS_V4 if is_nfs(&header) => nfs4::answer(turn, &header, arguments),
        _ => answer_program(turn, &header, arguments),
    }
    Ok(())
}

/// State of a call longer than [`SMALL_CALL_BYTES_MAX`] of which the first bytes have arrived.
#[derive(Debug)]
pub(crate) enum LongCall {
    /// More bytes must arrive to tell.
    Incomplete,
    /// It was refused and answered; the rest of its bytes are to be skipped.
    Refused,
    /// The missing data are to be received into its buffer.
    Write(ArrivingWrite),
    /// It is a COMPOUND, and answered once all of it has arrived.
    Compound(ArrivingCompound),
}

/// Begins a call of `length` bytes, which must be a WRITE of version 3 or a COMPOUND.
pub(crate) fn begin_long(turn: &mut Turn<'_>, arrived: &[u8], length: usize) -> Result<LongCall, XdrError> {
    match begin(turn, arrived, length) {
        Err(XdrError::Truncated { .. }) if arrived.len() < HEAD_BYTES_MAX => Ok(LongCall::Incomplete),
        begun => begun,
    }
}

fn begin(turn: &mut Turn<'_>, arrived: &[u8], length: usize) -> Result<LongCall, XdrError> {
    let mut reader = Reader::new(arrived);
    let header = CallHeader::decode(&mut reader)?;
    if is_nfs(&header) && header.vers == NFS_V4 {
        return ArrivingCompound::begin(turn, &header, arrived, length).map(LongCall::Compound);
    }
    let (header, arguments) = parse_write(arrived, length)?;
    Ok(nfs3_data::begin_write(turn, &header, &arguments).map_or(LongCall::Refused, LongCall::Write))
}

/// Parses the head of a WRITE whose record is `length` bytes long. Nothing else of the other programs may be that long.
fn parse_write(arrived: &[u8], length: usize) -> Result<(CallHeader<'_>, WriteArgs<'_>), XdrError> {
    let mut reader = Reader::new(arrived);
    let header = CallHeader::decode(&mut reader)?;
    if !is_nfs(&header) || header.vers != NFS_V3 || header.proc != nfsproc3::NFSPROC3_WRITE as u32 {
        return Err(XdrError::TooLong { length, limit: SMALL_CALL_BYTES_MAX });
    }
    let head = arrived.len() - reader.rest().len();
    Ok((header, WriteArgs::parse(reader.rest(), length - head)?))
}

#[inline]
fn is_nfs(header: &CallHeader<'_>) -> bool {
    (header.rpcvers, header.prog) == (RPC_VERSION, NFS_PROGRAM)
}

/// Answers a call off the data path. A call that must not be executed twice is answered as it was the first time.
#[inline(never)]
fn answer_program(turn: &mut Turn<'_>, header: &CallHeader<'_>, arguments: &[u8]) {
    turn.count_other();
    if let Err(refusal) = carry_out(turn, header, arguments) {
        turn.refuse(&refusal);
    }
}

fn carry_out(turn: &mut Turn<'_>, header: &CallHeader<'_>, arguments: &[u8]) -> Result<(), ReplyHeader<'static>> {
    let xid = header.xid;
    let program = program(header)?;
    if program == Program::Nfs3 {
        turn.count_procedure(header.proc);
    }
    turn.credential.take(&header.cred).map_err(|stat| ReplyHeader::denied(xid, Rejected::AUTH_ERROR(stat)))?;
    let (served, now, peer) = (turn.served, turn.now, turn.peer);
    let is_kept = program == Program::Nfs3 && nfs3::is_non_idempotent(header.proc);
    let begun = is_kept.then(|| served.replies.begin(served.replies.key(&peer.address, header, arguments), now));
    let execution = match begun {
        Some(Repeated::No(execution)) => Some(execution),
        Some(Repeated::InProgress) => return Ok(()),
        Some(Repeated::Answered(record)) => {
            turn.batch.bytes(&record);
            return Ok(());
        }
        None => None,
    };
    let call = Call {
        served,
        procedure: header.proc,
        arguments,
        stated: turn.credential.stated(),
        peer,
        is_tight: turn.tight.transfers,
    };
    let answered = turn.batch.write(|out| {
        let start = out.len();
        answer_call(xid, program, &call, out)?;
        if let Some(execution) = execution {
            execution.keep(&out[start..], now);
        }
        Ok(())
    });
    answered.map_err(|refused| match refused {
        Refused::Procedure => ReplyHeader::accepted(xid, Accepted::PROC_UNAVAIL(())),
        Refused::Arguments => ReplyHeader::accepted(xid, Accepted::GARBAGE_ARGS(())),
    })
}

/// Finds the program of a call.
fn program(header: &CallHeader<'_>) -> Result<Program, ReplyHeader<'static>> {
    let xid = header.xid;
    if header.rpcvers != RPC_VERSION {
        let versions = mismatch_info { low: RPC_VERSION, high: RPC_VERSION };
        return Err(ReplyHeader::denied(xid, Rejected::RPC_MISMATCH(versions)));
    }
    let wanted = (header.prog, header.vers);
    let found = Program::ALL.into_iter().find(|program| program.number() == wanted);
    found.ok_or_else(|| ReplyHeader::accepted(xid, not_served(header.prog)))
}

/// Refuses a version of a program that is served in others, or the program.
fn not_served(program: u32) -> Accepted {
    let served = || Program::ALL.into_iter().map(Program::number).filter(|(number, _)| *number == program);
    let versions = || served().map(|(_, version)| version);
    match (versions().min(), versions().max()) {
        (Some(low), Some(high)) => Accepted::PROG_MISMATCH(mismatch_info { low, high }),
        _ => Accepted::PROG_UNAVAIL(()),
    }
}

fn answer_call(xid: u32, program: Program, call: &Call<'_>, out: &mut Vec<u8>) -> Result<(), Refused> {
    let mut answered = Ok(());
    write_record(out, |writer| {
        ReplyHeader::success(xid).encode(writer);
        answered = match program {
            Program::Nfs3 => nfs3::answer(call, writer),
            // `answer` has sent its calls there.
            Program::Nfs4 => Err(Refused::Procedure),
            Program::Mount3 => mount3::answer(call, writer),
            Program::Portmap2 => portmap::answer(call, writer),
        };
    });
    answered
}
