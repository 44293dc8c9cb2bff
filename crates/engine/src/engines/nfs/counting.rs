//! The client's protocol against replies that were made before, without sockets, clocks and servers, so that instructions can
//! be counted.

use std::io::Cursor as Bytes;

use iocurve_meter::SECOND;
use iocurve_wire::nfs3::{
    CREATE3res, CREATE3resok, GETATTR3res, GETATTR3resok, READ3res, READ3resok, WRITE3res, WRITE3resok, fattr3, ftype3,
    nfs_fh3, nfstime3, specdata3, stable_how, wcc_data,
};
use iocurve_wire::nfs4::attributes::{Attributes, bitmap4, fattr4};
use iocurve_wire::nfs4::operations::{
    GETATTR4resok, GETFH4resok, OPEN4resok, READ4resok, SEQUENCE4resok, WRITE4resok, nfs_resop4, open_delegation4,
};
use iocurve_wire::nfs4::{change_info4, compound4_result_head, nfs_fh4, nfsstat4, stateid4};
use iocurve_wire::record::{RECORD_MARK_BYTES, RecordMark};
use iocurve_wire::rpc::{ReplyHeader, opaque_auth};
use iocurve_wire::xdr::{from_bytes, to_bytes};

use super::load::flight::Flight;
use super::load::incoming::{Incoming, NAMED_REPLY_BYTES_MAX};
use super::load::outgoing::Outgoing;
use super::names::Procedure;
use super::nfs3::Nfs3;
use super::nfs4::Nfs4;
use super::protocol::{CallLimits, Protocol};
use super::stream::Pipe;
use crate::engines::buffers::Buffers;
use crate::engines::request::{Address, Request};
use crate::plan::{Durability, NfsMount, OperationKind};

/// Kinds of calls that [`make_calls`] knows.
pub const KINDS: [&str; 8] = ["read", "write", "getattr", "create", "read4", "write4", "getattr4", "create4"];

const BLOCK_BYTES: usize = 4096;
/// Calls that are sent together.
const CALLS_PER_TURN: u32 = 32;
const HANDLE: [u8; 32] = [7; 32];
/// No other bytes of a call or of a reply are like it.
const SESSION: [u8; 16] = *b"session counted!";
const DATA: [u8; BLOCK_BYTES] = [1; BLOCK_BYTES];

/// Makes calls of a kind, 32 at a time, and takes the replies; returns the number of calls.
///
/// # Panics
/// If a reply does not complete its call, or there is no such kind.
pub fn make_calls(kind: &str, count: u64) -> u64 {
    let turns = count.div_ceil(u64::from(CALLS_PER_TURN));
    match kind.strip_suffix('4') {
        None => {
            let protocol = Nfs3::new(&credential(), &[handle3()], Durability::None);
            repeat(protocol, &handle3(), kind, &results3(kind), turns);
        }
        Some(kind) => {
            let protocol = Nfs4::of_session(&credential(), SESSION, &HANDLE.into(), &mount());
            repeat(protocol, &HANDLE.into(), kind, &results4(kind), turns);
        }
    }
    turns * u64::from(CALLS_PER_TURN)
}

fn repeat<P: Protocol>(protocol: P, directory: &P::Handle, kind: &str, results: &[u8], turns: u64) {
    let buffers = Buffers::new(CALLS_PER_TURN as usize, BLOCK_BYTES);
    // SAFETY: no slot is ever borrowed.
    let slots = unsafe { buffers.slot_map() };
    let limits = CallLimits { read: 1 << 20, write: 1 << 20 };
    let mut client = Client {
        flight: Flight::new(protocol, slots, CALLS_PER_TURN, 1, limits, &mount()),
        outgoing: Outgoing::default(),
        incoming: Incoming::new(BLOCK_BYTES as u32, NAMED_REPLY_BYTES_MAX),
        pipe: Pipe::default(),
    };
    let reply = [&to_bytes(&ReplyHeader::success(0)), results].concat();
    let mark = RecordMark { length: reply.len() as u32, last: true }.to_bytes();
    let mut replies = [&mark[..], &reply].concat().repeat(CALLS_PER_TURN as usize);
    let mut session_at = None;
    for turn in 0..turns {
        for slot in 0..CALLS_PER_TURN {
            client.call(kind, slot, turn, directory);
        }
        client.outgoing.send(&client.pipe, client.flight.slots()).expect("memory takes all calls");
        if turn == 0 {
            session_at = client.session_at(&replies[..mark.len() + reply.len()]);
        }
        client.number(&mut replies, mark.len() + reply.len(), session_at);
        client.take(&mut replies);
    }
}

/// The client's protocol on a connection in memory.
struct Client<P: Protocol> {
    flight: Flight<P>,
    outgoing: Outgoing,
    incoming: Incoming,
    pipe: Pipe,
}

impl<P: Protocol> Client<P> {
    // One place that makes calls, and one that takes replies: their parts are inlined as in the engine.
    #[inline(never)]
    fn call(&mut self, kind: &str, slot: u32, turn: u64, directory: &P::Handle) {
        let offset = turn % 256 * BLOCK_BYTES as u64;
        let moves = |kind| Request { slot, kind, address: Address { file: 0, offset, length: BLOCK_BYTES as u32 } };
        self.flight.open_operation(slot, 1);
        let call = match kind {
            "read" => self.flight.open_call(&moves(OperationKind::Read), 0, BLOCK_BYTES as u32),
            "write" => self.flight.open_call(&moves(OperationKind::Write), 0, BLOCK_BYTES as u32),
            kind => self.flight.calls.open_named(slot, |named| {
                named.directory.clone_from(directory);
                named.name.clear();
                (named.procedure, named.file) = (Procedure::Getattr, 0);
                if kind == "create" {
                    named.procedure = Procedure::Create;
                    named.name.extend_from_slice(b"name0000");
                }
            }),
        };
        assert!(self.flight.acquire(call), "each call has a slot of the session");
        self.flight.calls.assign(call, 0);
        self.flight.write(call, &mut self.outgoing);
    }

    /// Offset of the session in a call that was sent and in the reply to it, if calls have one.
    fn session_at(&self, reply: &[u8]) -> Option<(usize, usize)> {
        let find = |bytes: &[u8]| bytes.windows(SESSION.len()).position(|window| window == SESSION);
        find(&self.pipe.sent.borrow()).zip(find(reply))
    }

    /// Makes each reply that of a call that was sent: by its `xid`, its slot and its sequence id.
    fn number(&self, replies: &mut [u8], reply_bytes: usize, session_at: Option<(usize, usize)>) {
        let mut sent = self.pipe.sent.borrow_mut();
        let mut calls = &sent[..];
        for reply in replies.chunks_mut(reply_bytes) {
            let (mark, _) = calls.split_first_chunk().expect("a call for each reply");
            let (call, rest) = calls.split_at(RECORD_MARK_BYTES + RecordMark::from_bytes(*mark).length as usize);
            reply[RECORD_MARK_BYTES..][..4].copy_from_slice(&call[RECORD_MARK_BYTES..][..4]);
            if let Some((of_call, of_reply)) = session_at {
                // The sequence id and the slot follow the session.
                reply[of_reply + SESSION.len()..][..8].copy_from_slice(&call[of_call + SESSION.len()..][..8]);
            }
            calls = rest;
        }
        sent.clear();
    }

    #[inline(never)]
    fn take(&mut self, replies: &mut Vec<u8>) {
        let mut done = Vec::with_capacity(CALLS_PER_TURN as usize);
        self.pipe.replies.replace(Bytes::new(std::mem::take(replies)));
        self.incoming.receive(&self.pipe, false, 0, &mut self.flight, &mut done).expect("replies to the calls");
        *replies = self.pipe.replies.take().into_inner();
        let named = std::mem::take(&mut self.flight.answered);
        let granted = named.iter().filter(|answered| answered.result.is_ok()).count();
        let moved = done.iter().filter(|completion| completion.result == BLOCK_BYTES as i64).count();
        assert_eq!(granted + moved, CALLS_PER_TURN as usize, "each call is answered");
    }
}

/// Payloads of READs are dropped, as in a load that verifies nothing.
fn mount() -> NfsMount {
    NfsMount {
        host: String::new(),
        port: None,
        mount_port: None,
        export: String::new(),
        version: 3,
        nconnect: 1,
        uid: 0,
        gid: 0,
        durability: Durability::None,
        timeout_ns: SECOND,
        keep_payload: false,
        source: None,
        session_slots: CALLS_PER_TURN,
        rsize: None,
        wsize: None,
        tls: None,
    }
}

fn credential() -> Vec<u8> {
    to_bytes(&opaque_auth::NONE)
}

fn handle3() -> nfs_fh3 {
    nfs_fh3::new(&HANDLE).expect("a handle of 32 bytes")
}

pub(super) fn attributes(file_type: ftype3, size: u64) -> fattr3 {
    let time = nfstime3::default();
    fattr3 {
        file_type,
        mode: 0o644,
        nlink: 1,
        uid: 0,
        gid: 0,
        size,
        used: size,
        rdev: specdata3::default(),
        fsid: 1,
        fileid: 2,
        atime: time,
        mtime: time,
        ctime: time,
    }
}

fn results3(kind: &str) -> Vec<u8> {
    let attributes = attributes(ftype3::NF3REG, 1 << 20);
    let (after, count) = (Some(attributes), BLOCK_BYTES as u32);
    let wcc = wcc_data { before: Some(attributes.wcc()), after };
    match kind {
        "read" => {
            let read: READ3res<'_> = Ok(READ3resok { file_attributes: after, count, eof: false, data: &DATA });
            to_bytes(&read)
        }
        "write" => {
            let (committed, verf) = (stable_how::FILE_SYNC, [0; 8]);
            let written: WRITE3res = Ok(WRITE3resok { file_wcc: wcc, count, committed, verf });
            to_bytes(&written)
        }
        "getattr" => {
            let found: GETATTR3res = Ok(GETATTR3resok { obj_attributes: attributes });
            to_bytes(&found)
        }
        "create" => {
            let created: CREATE3res = Ok(CREATE3resok { obj: Some(handle3()), obj_attributes: after, dir_wcc: wcc });
            to_bytes(&created)
        }
        _ => panic!("there is no kind {kind}"),
    }
}

fn results4(kind: &str) -> Vec<u8> {
    let attributes = to_bytes(&Attributes { size: Some(1 << 20), mode: Some(0o644), ..Attributes::default() });
    let obj_attributes: fattr4<'_> = from_bytes(&attributes).expect("attributes");
    let (committed, writeverf) = (stable_how::FILE_SYNC, [0; 8]);
    let operations = match kind {
        "read" => vec![nfs_resop4::READ(Ok(READ4resok { eof: false, data: &DATA }))],
        "write" => {
            vec![nfs_resop4::WRITE(Ok(WRITE4resok { count: BLOCK_BYTES as u32, committed, writeverf }))]
        }
        "getattr" => vec![nfs_resop4::GETATTR(Ok(GETATTR4resok { obj_attributes }))],
        "create" => {
            let opened = OPEN4resok {
                stateid: stateid4 { seqid: 1, other: [3; 12] },
                cinfo: change_info4::default(),
                rflags: 0,
                attrset: bitmap4::default(),
                delegation: open_delegation4::OPEN_DELEGATE_NONE(()),
            };
            vec![nfs_resop4::OPEN(Ok(opened)), nfs_resop4::GETFH(Ok(GETFH4resok { object: nfs_fh4(&HANDLE) }))]
        }
        _ => panic!("there is no kind {kind}"),
    };
    let sequence = SEQUENCE4resok {
        sr_sessionid: SESSION,
        sr_sequenceid: 0,
        sr_slotid: 0,
        sr_highest_slotid: CALLS_PER_TURN - 1,
        sr_target_highest_slotid: CALLS_PER_TURN - 1,
        sr_status_flags: 0,
    };
    let before = [nfs_resop4::SEQUENCE(Ok(sequence)), nfs_resop4::PUTFH(Ok(()))];
    let count = (before.len() + operations.len()) as u32;
    let head = to_bytes(&compound4_result_head { status: nfsstat4::NFS4_OK, tag: &[], count });
    before.iter().chain(&operations).fold(head, |mut results, result| {
        results.extend(to_bytes(result));
        results
    })
}
