//! The calls before TLS: the client's question, and the server's replies to calls that are not encrypted.

use std::io;

use iocurve_wire::nfs3::NFS_PROGRAM;
use iocurve_wire::record::{Progress, Reassembler, write_record};
use iocurve_wire::rpc::{
    Accepted, AcceptedReply, CallHeader, RPC_VERSION, Rejected, ReplyBody, ReplyHeader, auth_flavor, auth_stat,
    opaque_auth,
};
use iocurve_wire::xdr::{Decode, Encode, Reader};

/// Body of the verifier with which a server offers TLS (RFC 9289 §4.1).
const STARTTLS: &[u8] = b"STARTTLS";
/// Longest record before TLS; a NULL call with two full authenticators is shorter.
const RECORD_BYTES_MAX: usize = 1024;
/// Most bytes that wait for the end of a record: empty fragments have no length, but they take memory.
const WAITING_BYTES_MAX: usize = 8 * RECORD_BYTES_MAX;
/// First byte of a TLS handshake. As the first byte of a record mark it would announce 352 MiB.
pub(crate) const HANDSHAKE: u8 = 22;
/// `xid` of the question; no other call precedes it on a connection.
const XID: u32 = 0x1075;

/// Appends the question for TLS: a NULL call, which every version of every program has.
pub(crate) fn ask(out: &mut Vec<u8>, version: u32) {
    let cred = opaque_auth { flavor: auth_flavor::AUTH_TLS, body: &[] };
    let (prog, vers, verf) = (NFS_PROGRAM, version, opaque_auth::NONE);
    let call = CallHeader { xid: XID, rpcvers: RPC_VERSION, prog, vers, proc: 0, cred, verf };
    write_record(out, |writer| call.encode(writer));
}

/// Takes the first record off the bytes, if all of it has arrived, and passes it on.
pub(crate) fn take_record<R>(bytes: &mut Vec<u8>, take: impl FnOnce(&[u8]) -> R) -> io::Result<Option<R>> {
    let mut records = Reassembler::new(RECORD_BYTES_MAX);
    let mut input = &bytes[..];
    let taken = match records.advance(&mut input).map_err(|error| invalid(&error.to_string()))? {
        Progress::Record(record) => take(record),
        _ if bytes.len() > WAITING_BYTES_MAX => return Err(invalid("a record of too many fragments")),
        _ => return Ok(None),
    };
    let used = bytes.len() - input.len();
    bytes.drain(..used);
    Ok(Some(taken))
}

/// Reads the reply to [`ask`]. Fails unless the server offers TLS.
pub(crate) fn check_offer(record: &[u8]) -> io::Result<()> {
    let reply = ReplyHeader::decode(&mut Reader::new(record)).map_err(|error| invalid(&error.to_string()))?;
    match reply.body {
        ReplyBody::MSG_ACCEPTED(AcceptedReply { verf, .. }) if verf.body == STARTTLS => Ok(()),
        _ => Err(not_offered()),
    }
}

/// Error of a server without TLS.
pub(crate) fn not_offered() -> io::Error {
    io::Error::other(
        "it does not offer TLS (RFC 9289); turn TLS on there (exports(5): xprtsec=tls; iocurve volume serve --tls), or leave \
         out tls",
    )
}

/// Appends the reply to a call that came without TLS; returns whether TLS begins. NULL calls are answered, all others refused.
pub(crate) fn answer(record: &[u8], out: &mut Vec<u8>) -> io::Result<bool> {
    let call = CallHeader::decode(&mut Reader::new(record)).map_err(|error| invalid(&error.to_string()))?;
    let begins = call.proc == 0 && call.cred.flavor == auth_flavor::AUTH_TLS;
    let verf = opaque_auth { flavor: auth_flavor::AUTH_NONE, body: if begins { STARTTLS } else { &[] } };
    let reply = match call.proc {
        0 => {
            let body = ReplyBody::MSG_ACCEPTED(AcceptedReply { verf, stat: Accepted::SUCCESS(()) });
            ReplyHeader { xid: call.xid, body }
        }
        _ => ReplyHeader::denied(call.xid, Rejected::AUTH_ERROR(auth_stat::AUTH_TOOWEAK)),
    };
    write_record(out, |writer| reply.encode(writer));
    Ok(begins)
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}
