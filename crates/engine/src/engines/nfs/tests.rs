pub(super) mod misbehaving;
mod misbehaviour;
pub(super) mod scripted;
mod server;

use std::collections::BTreeSet;
use std::io::Cursor;
use std::net::{IpAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use iocurve_meter::{Rng, SECOND};
use iocurve_wire::nfs3::{
    READ3res, READ3resok, WRITE3res, WRITE3resok, ftype3, nfs_fh3, nfsproc3, nfsstat3, stable_how, wcc_data,
};
use iocurve_wire::record::{RECORD_MARK_BYTES, RecordMark};
use iocurve_wire::rpc::CallHeader;
use iocurve_wire::xdr::{Decode, Reader, to_bytes};

use self::scripted::{EXPORT, READ, WRITE, check_errno, connect, explained, file, first, marked, pattern, reply};
use self::server::{Act, Server};
use super::conversation::JUKEBOX_DELAY_NS;
use super::load::flight::Flight;
use super::load::incoming::{Incoming, Lost, NAMED_REPLY_BYTES_MAX};
use super::load::outgoing::Outgoing;
use super::nfs3::Nfs3;
use super::protocol::CallLimits;
use super::stream::Pipe;
use super::*;
use crate::engines::buffers::Buffers;
use crate::engines::request::{Address, Completion, Engine, Request};
use crate::error::EngineError;
use crate::plan::{Durability, FilePlan, Layout, NfsMount, OperationKind};

/// Number of the engine's first connection, as the server counts them.
const FIRST: usize = 1;

type Client = scripted::Client<Nfs3>;

#[test]
fn every_read_brings_its_own_bytes() {
    let content = pattern(64 * 70_000);
    for (nconnect, length) in [(1, 4096), (3, 4096), (1, 70_000), (3, 70_000), (1, 1), (2, 32 << 10)] {
        let server = Server::answering().with_file("f", &content);
        let mut client = Client::new(&server, 16, 70_000, |mount| mount.nconnect = nconnect);
        for round in 0..4 {
            let offset = |slot: u32| u64::from(slot * 4 + round) * u64::from(length);
            for slot in 0..16 {
                client.submit(slot, READ, offset(slot), length);
            }
            let expected: Vec<_> = (0..16).map(|slot| (slot, i64::from(length))).collect();
            assert_eq!(client.reap(16).unwrap(), expected);
            for slot in 0..16 {
                let (start, length) = (offset(slot) as usize, length as usize);
                assert_eq!(client.buffer(slot, length), &content[start..start + length], "{nconnect} {length}");
            }
        }
        let connections: BTreeSet<usize> = server.seen().iter().map(|seen| seen.connection).collect();
        assert_eq!(connections.len() as u32, nconnect);
        assert!(client.engine.labels().is_empty());
    }
}

#[test]
fn loopback_traffic_is_not_paced_and_the_result_says_so() {
    let server = Server::answering().with_file("f", &pattern(10));
    let client = Client::new(&server, 1, 10, |mount| mount.nconnect = 2);
    let expected = "user-space NFSv3 over 2 TCP connections (reno) to 127.0.0.1:";
    assert_eq!(client.engine.describe()[..expected.len()], *expected);
}

#[test]
fn unwanted_payload_is_dropped_and_the_result_says_so() {
    let server = Server::answering().with_file("f", &pattern(1 << 20));
    let mut client = Client::new(&server, 4, 100_000, |mount| mount.keep_payload = false);
    for slot in 0..4 {
        client.submit(slot, READ, 0, 4000);
    }
    assert_eq!(client.reap(4).unwrap(), [(0, 4000), (1, 4000), (2, 4000), (3, 4000)]);
    assert!(client.engine.labels().is_empty());
    for _ in 0..3 {
        client.submit(0, READ, 3, 99_999);
        client.submit(1, READ, 0, 1);
        client.submit(2, READ, 0, 32 << 10);
        assert_eq!(client.reap(3).unwrap(), [(0, 99_999), (1, 1), (2, 32 << 10)]);
    }
    assert_eq!(client.engine.labels(), ["payload_discarded"]);
    assert_eq!(client.buffer(0, 100_000), vec![0; 100_000]);
    for length in [4_000, 99_999] {
        client.engine.inspect(0);
        client.submit(0, READ, 3, length);
        client.submit(1, READ, 3, length);
        client.reap(2).unwrap();
        let kept = pattern(1 << 20)[3..3 + length as usize].to_vec();
        assert_eq!(client.buffer(0, length as usize), kept, "an inspected payload is kept");
        assert_eq!(client.buffer(1, length as usize), vec![0; length as usize]);
    }
    client.submit(0, READ, 7, 4_000);
    client.reap(1).unwrap();
    assert_eq!(client.buffer(0, 4_000), pattern(1 << 20)[3..4_003].to_vec(), "the next one is not");
}

#[test]
fn writes_reach_their_offsets() {
    for (nconnect, length) in [(1, 4096), (3, 4097), (2, 70_001)] {
        let server = Server::answering().with_file("f", b"");
        let mut client = Client::new(&server, 8, 70_001, |mount| mount.nconnect = nconnect);
        let content = pattern(8 * length);
        for slot in 0..8 {
            let start = slot as usize * length;
            client.buffer(slot, length).copy_from_slice(&content[start..start + length]);
            client.submit(slot, WRITE, start as u64, length as u32);
        }
        let expected: Vec<_> = (0..8).map(|slot| (slot, length as i64)).collect();
        assert_eq!(client.reap(8).unwrap(), expected);
        assert!(server.content("f").unwrap() == content);
    }
}

#[test]
fn an_operation_larger_than_a_call_is_split() {
    let content = pattern(30_000);
    let server = Server::answering().with_file("f", &content).with_call_bytes_max(4096);
    let mut client = Client::new(&server, 2, 10_000, |mount| mount.nconnect = 2);
    client.submit(0, READ, 5, 10_000);
    client.submit(1, READ, 20_000, 10_000);
    assert_eq!(client.reap(2).unwrap(), [(0, 10_000), (1, 10_000)]);
    assert_eq!(server.seen().len(), 6);
    assert_eq!(client.buffer(0, 10_000), &content[5..10_005]);
    client.buffer(1, 10_000).fill(1);
    client.submit(1, WRITE, 100, 9000);
    assert_eq!(client.reap(1).unwrap(), [(1, 9000)]);
    assert_eq!(server.content("f").unwrap(), [&content[..100], &[1; 9000], &content[9100..]].concat());
}

#[test]
fn a_mount_sends_less_in_a_call_than_the_server_takes() {
    let content = pattern(30_000);
    let server = Server::answering().with_file("f", &content);
    let mut client = Client::new(&server, 1, 10_000, |mount| (mount.rsize, mount.wsize) = (Some(4096), Some(1024)));
    assert_eq!(client.one(READ, 5, 10_000), 10_000);
    assert_eq!(server.seen().len(), 3);
    assert_eq!(client.buffer(0, 10_000), &content[5..10_005]);
    assert_eq!(client.one(WRITE, 0, 10_000), 10_000);
    assert_eq!(server.seen().len(), 3 + 10);
    assert!(
        server.content("f").unwrap()
            == content[5..10_005].iter().chain(&content[10_000..]).copied().collect::<Vec<_>>()
    );
}

#[test]
fn the_end_of_the_file_makes_a_read_short() {
    let server = Server::answering().with_file("f", &pattern(10_000)).with_call_bytes_max(4096);
    let mut client = Client::new(&server, 1, 8192, |_| {});
    assert_eq!(client.one(READ, 9000, 4096), 1000);
    assert_eq!(client.one(READ, 5000, 8192), 5000);
    assert_eq!(client.one(READ, 10_000, 4096), 0);
    assert_eq!(client.one(READ, 10_000, 0), 0);
}

#[test]
fn partial_reads_and_writes_are_continued() {
    let content = pattern(10_000);
    let server = Server::new(|_| Act::AtMost(999)).with_file("f", &content);
    let mut client = Client::new(&server, 2, 5000, |_| {});
    assert_eq!(client.one(READ, 1, 5000), 5000);
    assert_eq!(client.buffer(0, 5000), &content[1..5001]);
    client.buffer(0, 5000).reverse();
    let written = client.buffer(0, 5000).to_vec();
    assert_eq!(client.one(WRITE, 2, 5000), 5000);
    assert_eq!(server.content("f").unwrap()[2..5002], written);
    let xids: BTreeSet<u32> = server.seen().iter().map(|seen| seen.xid).collect();
    assert_eq!(xids.len(), 12, "each part is a call of its own");
}

#[test]
fn a_server_that_takes_nothing_is_given_up() {
    let server = Server::new(|_| Act::AtMost(0)).with_file("f", b"");
    let mut client = Client::new(&server, 1, 4096, |_| {});
    assert_eq!(client.one(WRITE, 0, 4096), -i64::from(libc::EIO));
}

#[test]
fn replies_may_come_in_fragments() {
    let content = pattern(100_000);
    for bytes in [1, 7, 128, 4096] {
        let server = Server::new(move |_| Act::Fragments(bytes)).with_file("f", &content);
        let mut client = Client::new(&server, 3, 50_000, |_| {});
        client.submit(0, READ, 9, 50_000);
        client.submit(1, READ, 50_000, 4096);
        client.submit(2, READ, 3, 3);
        assert_eq!(client.reap(3).unwrap(), [(0, 50_000), (1, 4096), (2, 3)]);
        assert_eq!(client.buffer(0, 50_000), &content[9..50_009]);
        assert_eq!(client.buffer(1, 4096), &content[50_000..54_096]);
        assert_eq!(client.one(WRITE, 0, 4096), 4096);
        assert_eq!(client.engine.reconnects(), 0);
    }
}

/// Replies to a large READ, a small READ and a WRITE, in two segments that meet at `split`.
fn receive_in_two(wire: &mut Wire, split: usize) {
    let length = |slot: u32| [40_000, 101, 5][slot as usize];
    for slot in 0..3 {
        let kind = if slot == 2 { WRITE } else { READ };
        wire.call(Request { slot, kind, address: Address { file: 0, offset: 0, length: length(slot) } });
    }
    wire.outgoing.send(&wire.pipe, wire.flight.slots()).unwrap();
    let content = pattern(40_000);
    let replies: Vec<u8> = (0..3).flat_map(|slot| wire.reply_to_next_call(&content[..length(slot) as usize])).collect();
    let (first, second) = replies.split_at(split.min(replies.len()));
    let mut done = Vec::new();
    for segment in [first, second] {
        wire.receive(segment, &mut done).unwrap();
    }
    let expected = [0, 1, 2].map(|slot| Completion { slot, result: i64::from(length(slot)) });
    assert_eq!(done, expected, "split at {split}");
    for slot in 0..2 {
        let length = length(slot) as usize;
        let buffer = wire.buffers.slot_mut(slot, length);
        assert!(!wire.flight.keeps_payload(0) || buffer == &content[..length], "split at {split}");
        buffer.fill(0);
    }
}

/// The client's protocol on a connection in memory.
struct Wire {
    pipe: Pipe,
    /// Bytes of the client that are replied to.
    taken: usize,
    buffers: Buffers,
    flight: Flight<Nfs3>,
    outgoing: Outgoing,
    incoming: Incoming,
}

impl Wire {
    fn new(keep_payload: bool) -> Self {
        let protocol = Nfs3::new(&[0; 8], &[nfs_fh3::new(b"f").unwrap()], Durability::FileSync);
        let limits = CallLimits { read: 1 << 20, write: 1 << 20 };
        let buffers = Buffers::new(3, 40_000);
        // SAFETY: tests access a slot before they make a call for it, or after its completion.
        let slots = unsafe { buffers.slot_map() };
        let mount = NfsMount { keep_payload, timeout_ns: SECOND, ..scripted::mount(0, 3) };
        let flight = Flight::new(protocol, slots, 3, 1, limits, &mount);
        let (outgoing, incoming) = (Outgoing::default(), Incoming::new(40_000, NAMED_REPLY_BYTES_MAX));
        Self { pipe: Pipe::default(), taken: 0, buffers, flight, outgoing, incoming }
    }

    fn receive(&mut self, segment: &[u8], done: &mut Vec<Completion>) -> Result<(), Lost> {
        self.pipe.replies.replace(Cursor::new(segment.to_vec()));
        self.incoming.receive(&self.pipe, false, 0, &mut self.flight, done)
    }

    fn call(&mut self, request: Request) {
        self.flight.open_operation(request.slot, 1);
        let call = self.flight.open_call(&request, 0, request.address.length);
        self.flight.calls.assign(call, 0);
        self.flight.write(call, &mut self.outgoing);
    }

    fn reply_to_next_call(&mut self, content: &[u8]) -> Vec<u8> {
        let sent = self.pipe.sent.borrow();
        let (mark, call) = sent[self.taken..].split_first_chunk().unwrap();
        self.taken += RECORD_MARK_BYTES + RecordMark::from_bytes(*mark).length as usize;
        let mut reader = Reader::new(call);
        let header = CallHeader::decode(&mut reader).unwrap();
        let attributes = Some(counting::attributes(ftype3::NF3REG, 40_000));
        let count = content.len() as u32;
        let results = if header.proc == nfsproc3::NFSPROC3_READ as u32 {
            let read: READ3res<'_> = Ok(READ3resok { file_attributes: attributes, count, eof: false, data: content });
            to_bytes(&read)
        } else {
            let file_wcc = wcc_data { before: None, after: attributes };
            let write: WRITE3res = Ok(WRITE3resok { file_wcc, count, committed: stable_how::FILE_SYNC, verf: [0; 8] });
            to_bytes(&write)
        };
        marked(&reply(header.xid, &results))
    }
}

#[test]
fn replies_may_be_split_anywhere() {
    for keep_payload in [true, false] {
        let mut wire = Wire::new(keep_payload);
        // Every position except inside the large payload, where every 997th suffices.
        let splits = (0..200).chain((200..39_900).step_by(997)).chain(39_900..40_650);
        for split in splits {
            receive_in_two(&mut wire, split);
        }
        assert_eq!(wire.flight.payload_discarded, !keep_payload);
    }
}

#[test]
fn damaged_replies_are_never_a_panic() {
    let mut chance = Rng::new(1);
    let mut refused = 0;
    for round in 0..2000 {
        let keep_payload = round % 2 == 0;
        let mut wire = Wire::new(keep_payload);
        for slot in 0..3 {
            let kind = if slot == 2 { WRITE } else { READ };
            wire.call(Request { slot, kind, address: Address { file: 0, offset: 0, length: 500 } });
        }
        wire.outgoing.send(&wire.pipe, wire.flight.slots()).unwrap();
        let content = pattern(500);
        let mut replies: Vec<u8> = (0..3).flat_map(|_| wire.reply_to_next_call(&content)).collect();
        for _ in 0..=chance.below(3) {
            let at = chance.below(replies.len() as u64) as usize;
            replies[at] = chance.next_u64() as u8;
        }
        let mut done = Vec::new();
        match wire.receive(&replies, &mut done) {
            Ok(()) => {}
            Err(Lost::Garbage(_)) => refused += 1,
            Err(Lost::Closed(error)) => panic!("{error}"),
        }
        assert!(done.len() <= 3);
    }
    assert!(refused > 200, "{refused} replies were refused");
}

#[test]
fn statuses_become_the_errno_of_a_kernel_client() {
    let cases = [
        (nfsstat3::NFS3ERR_NOSPC, libc::ENOSPC),
        (nfsstat3::NFS3ERR_DQUOT, libc::EDQUOT),
        (nfsstat3::NFS3ERR_ACCES, libc::EACCES),
        (nfsstat3::NFS3ERR_IO, libc::EIO),
        (nfsstat3::NFS3ERR_STALE, libc::ESTALE),
        (nfsstat3::NFS3ERR_ROFS, libc::EROFS),
        (nfsstat3::NFS3ERR_SERVERFAULT, libc::EIO),
    ];
    for (status, errno) in cases {
        check_errno::<Nfs3, server::Shared>(move |_| Act::Fail(status), errno);
    }
}

#[test]
fn a_server_that_is_not_ready_is_asked_again_later() {
    let script = first([Act::Fail(nfsstat3::NFS3ERR_JUKEBOX), Act::Fail(nfsstat3::NFS3ERR_JUKEBOX)]);
    let server = Server::new(script).with_file("f", &pattern(4096));
    let mut client = Client::new(&server, 1, 4096, |_| {});
    let before = client.clock.now();
    assert_eq!(client.one(READ, 0, 4096), 4096);
    assert!(client.clock.now() - before >= 2 * JUKEBOX_DELAY_NS);
    let xids: BTreeSet<u32> = server.seen().iter().map(|seen| seen.xid).collect();
    assert_eq!(xids.len(), 3);
}

#[test]
fn a_server_that_is_never_ready_fails_the_operation() {
    let server = Server::new(|_| Act::Fail(nfsstat3::NFS3ERR_JUKEBOX)).with_file("f", b"");
    let mut client = Client::new(&server, 1, 4096, |mount| mount.timeout_ns = SECOND / 5);
    assert_eq!(client.one(READ, 0, 4096), -i64::from(libc::ETIMEDOUT));
}

#[test]
fn a_broken_connection_is_re_established_and_its_calls_are_sent_again() {
    for nconnect in [1, 2] {
        let mut closed = false;
        let mut held = 0;
        // The first connection takes four calls without answering and is closed at the fifth.
        let script = move |seen: server::Seen| {
            if closed || seen.connection != FIRST {
                return Act::Answer;
            }
            held += 1;
            closed = held == 5;
            if closed { Act::Close } else { Act::Silence }
        };
        let content = pattern(16 * 4096);
        let server = Server::new(script).with_file("f", &content);
        let mut client = Client::new(&server, 16, 4096, |mount| mount.nconnect = nconnect);
        for slot in 0..16 {
            client.submit(slot, READ, u64::from(slot) * 4096, 4096);
        }
        let expected: Vec<_> = (0..16).map(|slot| (slot, 4096)).collect();
        assert_eq!(client.reap(16).unwrap(), expected);
        assert_eq!(client.engine.reconnects(), 1);
        for slot in 0..16 {
            let start = slot as usize * 4096;
            assert_eq!(client.buffer(slot, 4096), &content[start..start + 4096]);
        }
        let seen = server.seen();
        let lost = seen.iter().filter(|seen| seen.connection == FIRST).map(|seen| seen.xid);
        let again: BTreeSet<u32> =
            seen.iter().filter(|seen| seen.connection == FIRST + nconnect as usize).map(|seen| seen.xid).collect();
        assert!(lost.into_iter().all(|xid| again.contains(&xid)), "calls keep their xid");
    }
}

#[test]
fn a_connection_that_the_server_forgot_is_replaced_and_its_calls_are_sent_again() {
    for nconnect in [1, 2] {
        let script = move |seen: server::Seen| {
            if seen.connection < FIRST + nconnect { Act::Silence } else { Act::Answer }
        };
        let content = pattern(4 * 4096);
        let server = Server::new(script).with_file("f", &content);
        let change = |mount: &mut NfsMount| (mount.timeout_ns, mount.nconnect) = (3 * SECOND / 2, nconnect as u32);
        let mut client = Client::new(&server, 4, 4096, change);
        for slot in 0..4 {
            client.submit(slot, READ, u64::from(slot) * 4096, 4096);
        }
        let expected: Vec<_> = (0..4).map(|slot| (slot, 4096)).collect();
        assert_eq!(client.reap(4).unwrap(), expected);
        assert_eq!(client.engine.reconnects(), nconnect as u64);
        let xids: BTreeSet<u32> = server.seen().iter().map(|seen| seen.xid).collect();
        assert_eq!((server.seen().len(), xids.len()), (8, 4), "calls keep their xid");
    }
}

#[test]
fn a_connection_that_the_server_forgot_while_files_are_prepared_is_replaced() {
    let server = Server::answering().with_file("f", b"");
    let mount = NfsMount { timeout_ns: 3 * SECOND / 2, ..server.mount() };
    assert!(connect::<Nfs3>(&mount, "f").is_ok());
    let next = server.peers(2).len();
    server.ignore(next);
    assert!(connect::<Nfs3>(&mount, "f").is_ok());
    assert_eq!(server.peers(next).len(), next + 3, "MOUNT twice, then NFS");
}

#[test]
fn a_write_is_sent_again_whole() {
    let server = Server::new(first([Act::Close])).with_file("f", b"");
    let mut client = Client::new(&server, 1, 300_000, |_| {});
    let content = pattern(300_000);
    client.buffer(0, 300_000).copy_from_slice(&content);
    assert_eq!(client.one(WRITE, 0, 300_000), 300_000);
    assert!(server.content("f").unwrap() == content);
    assert_eq!(client.engine.reconnects(), 1);
}

#[test]
fn invalid_replies_cost_the_connection_and_the_operation_continues() {
    let too_long = vec![0xff; 64];
    let unknown_xid = marked(&reply(0x1234, &[0; 4]));
    let not_a_reply = marked(&[0; 40]);
    let empty = marked(&[]);
    for bytes in [too_long, unknown_xid, not_a_reply, empty] {
        let server = Server::new(first([Act::Raw(bytes)])).with_file("f", &pattern(4096));
        let mut client = Client::new(&server, 1, 4096, |_| {});
        assert_eq!(client.one(READ, 0, 4096), 4096);
        assert_eq!(client.buffer(0, 4096), pattern(4096));
        assert_eq!(client.engine.reconnects(), 1);
    }
}

#[test]
fn a_server_with_too_many_invalid_replies_is_an_error() {
    let server = Server::new(|_| Act::Raw(vec![0xff; 64])).with_file("f", b"");
    let mut client = Client::new(&server, 1, 4096, |_| {});
    client.submit(0, READ, 0, 4096);
    let error = client.reap(1).unwrap_err().to_string();
    let expected = format!(
        "NFS server 127.0.0.1:{}: 5 replies were invalid (the last one: a record is longer than any reply); is it an NFSv3 \
         server?",
        server.port
    );
    assert_eq!(error, expected);
}

#[test]
fn a_reply_with_more_data_than_requested_is_invalid() {
    // A valid reply with 8 bytes to the call, whatever its length.
    let script = |seen: server::Seen| {
        let results = [0, 0, 8, 1, 8, 0, 0].map(u32::to_be_bytes).concat();
        Act::Raw(marked(&reply(seen.xid, &results)))
    };
    let server = Server::new(script).with_file("f", b"");
    let mut client = Client::new(&server, 1, 4096, |_| {});
    assert_eq!(client.one(READ, 0, 4096), 8);
    client.submit(0, READ, 0, 4);
    let error = client.reap(1).unwrap_err().to_string();
    assert!(error.contains("it has more data than requested"), "{error}");
}

#[test]
fn silence_is_given_up_after_the_timeout() {
    let server = Server::new(|_| Act::Silence).with_file("f", b"");
    let mut client = Client::new(&server, 1, 4096, |mount| mount.timeout_ns = SECOND / 4);
    client.submit(0, READ, 0, 4096);
    let error = client.reap(1).unwrap_err().to_string();
    assert!(error.starts_with(&format!("NFS server 127.0.0.1:{} has not answered for ", server.port)), "{error}");
    assert!(error.contains("the timeout is 0.2 s"), "{error}");
}

#[test]
fn a_server_that_closes_every_connection_is_given_up_after_the_timeout() {
    let server = Server::new(|_| Act::Close).with_file("f", b"");
    let mut client = Client::new(&server, 4, 4096, |mount| (mount.timeout_ns, mount.nconnect) = (SECOND / 4, 2));
    for slot in 0..4 {
        client.submit(slot, READ, 0, 4096);
    }
    let error = client.reap(4).unwrap_err().to_string();
    assert!(error.contains("(last error: "), "{error}");
    // Pauses of 0, 10, 20, 40, 80, 160 ms: reconnects back off.
    assert!(client.engine.reconnects() <= 2 * 8, "{} reconnects", client.engine.reconnects());
}

#[test]
fn reap_returns_at_its_deadline_and_takes_up_again() {
    let (tell, told) = mpsc::channel::<()>();
    let told = Mutex::new(told);
    let script = move |_| {
        told.lock().unwrap().recv().unwrap();
        Act::Answer
    };
    let server = Server::new(script).with_file("f", &pattern(4096));
    for nconnect in [1, 2] {
        let mut client = Client::new(&server, 1, 4096, |mount| mount.nconnect = nconnect);
        client.submit(0, READ, 0, 4096);
        let mut done = Vec::new();
        for wait_ns in [0, 1_000_000, 60_000_000] {
            let deadline = client.clock.now() + wait_ns;
            client.engine.reap(1, deadline, &mut done).unwrap();
            assert!(client.clock.now() >= deadline);
            client.engine.reap(0, deadline, &mut done).unwrap();
            assert!(done.is_empty());
        }
        tell.send(()).unwrap();
        assert_eq!(client.reap(1).unwrap(), [(0, 4096)]);
    }
}

#[test]
fn a_stop_ends_waiting() {
    let server = Server::new(|_| Act::Silence).with_file("f", b"");
    for nconnect in [1, 2] {
        let mut client = Client::new(&server, 1, 4096, |mount| mount.nconnect = nconnect);
        client.submit(0, READ, 0, 4096);
        let stop = Arc::clone(&client.stop);
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            stop.store(true, Ordering::Relaxed);
        });
        let mut done = Vec::new();
        // Without the stop this would wait for an hour, and the mount's timeout would end it with an error.
        client.engine.reap(1, client.clock.now() + 3600 * SECOND, &mut done).unwrap();
        assert!(done.is_empty());
        client.engine.finish().unwrap();
    }
}

#[test]
fn unstable_writes_are_committed_at_the_end() {
    let server = Server::answering().with_file("f", b"");
    let commits = || server.seen().iter().filter(|seen| seen.procedure == nfsproc3::NFSPROC3_COMMIT).count();
    for (durability, expected) in [(Durability::None, 1), (Durability::DataSync, 1), (Durability::FileSync, 1)] {
        let mut client = Client::new(&server, 2, 4096, |mount| mount.durability = durability);
        client.submit(0, WRITE, 0, 4096);
        client.submit(1, WRITE, 4096, 4096);
        client.reap(2).unwrap();
        client.engine.finish().unwrap();
        assert_eq!(commits(), expected, "{durability:?}");
        assert!(client.engine.labels().is_empty());
    }
}

#[test]
fn a_write_that_is_less_stable_than_requested_ends_the_run() {
    let server = Server::new(|seen| match seen.procedure {
        nfsproc3::NFSPROC3_WRITE => Act::Unstable,
        _ => Act::Answer,
    })
    .with_file("f", b"");
    for durability in [Durability::DataSync, Durability::FileSync] {
        let mut client = Client::new(&server, 1, 4096, |mount| mount.durability = durability);
        client.submit(0, WRITE, 0, 4096);
        let error = client.reap(1).unwrap_err().to_string();
        assert!(error.starts_with("f: invalid reply from server"), "{error}");
        assert!(error.ends_with("a WRITE is less stable than requested, so its data may be lost"), "{error}");
    }
    let mut client = Client::new(&server, 1, 4096, |_| {});
    client.submit(0, WRITE, 0, 4096);
    client.reap(1).unwrap();
}

#[test]
fn a_flush_is_a_commit_and_an_operation() {
    let commits =
        |server: &Server| server.seen().iter().filter(|seen| seen.procedure == nfsproc3::NFSPROC3_COMMIT).count();
    let server = Server::answering().with_file("f", b"").with_call_bytes_max(4096);
    let mut client = Client::new(&server, 2, 4096, |_| {});
    client.submit(0, WRITE, 0, 4096);
    // Whatever its range, it is one call.
    client.submit(1, OperationKind::Fsync, 0, 1 << 30);
    assert_eq!(client.reap(2).unwrap(), [(0, 4096), (1, 0)]);
    assert_eq!(commits(&server), 1);

    let refusing = |seen: server::Seen| match seen.procedure {
        nfsproc3::NFSPROC3_COMMIT => Act::Fail(nfsstat3::NFS3ERR_NOSPC),
        _ => Act::Answer,
    };
    let server = Server::new(refusing).with_file("f", b"");
    let mut client = Client::new(&server, 1, 4096, |_| {});
    assert_eq!(client.one(OperationKind::Fsync, 0, 0), -i64::from(libc::ENOSPC));
    client.engine.finish().unwrap();
}

#[test]
fn a_server_that_may_have_lost_writes_is_named() {
    let server = Server::answering().with_file("f", b"");
    let mut client = Client::new(&server, 1, 4096, |_| {});
    for _ in 0..3 {
        client.one(WRITE, 0, 4096);
        server.change_verifier();
    }
    client.engine.finish().unwrap();
    assert_eq!(client.engine.labels(), ["write_verifier_changed"]);
    assert_eq!(client.engine.counters().get("verifier_changes"), Some(&3), "also of a server that syncs no WRITE");
}

#[test]
fn a_commit_that_fails_is_an_error() {
    let server = Server::new(|seen| match seen.procedure {
        nfsproc3::NFSPROC3_COMMIT => Act::Fail(nfsstat3::NFS3ERR_NOSPC),
        _ => Act::Answer,
    });
    let server = server.with_file("f", b"");
    let mut client = Client::new(&server, 1, 4096, |_| {});
    client.one(WRITE, 0, 4096);
    let error = client.engine.finish().unwrap_err().to_string();
    assert_eq!(error, "commit f: the server answered NFS3ERR_NOSPC; free space or use a smaller size");
}

#[test]
fn requests_that_cannot_be_are_refused() {
    let server = Server::answering().with_file("f", b"");
    let mut client = Client::new(&server, 2, 4096, |_| {});
    let request = Request { slot: 0, kind: READ, address: Address { file: 0, offset: 0, length: 4096 } };
    let mut refused = |request| client.engine.submit(request).unwrap_err().to_string();
    assert_eq!(refused(Request { slot: 2, ..request }), "slot 2 is beyond the depth of 2");
    assert_eq!(
        refused(Request { address: Address { file: 1, ..request.address }, ..request }),
        "file 1 is not one of the 1 files"
    );
    assert_eq!(
        refused(Request { address: Address { length: 4097, ..request.address }, ..request }),
        "4097 bytes do not fit a buffer of 4096"
    );
    assert_eq!(refused(Request { kind: OperationKind::Trim, ..request }), "NFSv3 has no trim");
}

#[test]
fn failures_to_mount_are_explained() {
    let server = Server::answering().with_file("f", b"").with_file("d/f", b"");
    let mount = server.mount();
    let explained = explained::<Nfs3>;
    assert_eq!(
        explained(&NfsMount { export: "/nope".into(), ..mount.clone() }, "f"),
        format!("mount /nope of 127.0.0.1: the server answered MNT3ERR_NOENT; it exports {EXPORT}")
    );
    assert_eq!(
        explained(&mount, "g"),
        "g does not exist on the export, and this job does not create it; check the path"
    );
    assert_eq!(explained(&mount, "e/f"), "e/f: the directory e does not exist; create it first");
    assert_eq!(explained(&mount, "f/f"), "f/f: f is not a directory");
    assert_eq!(explained(&mount, "d/../f"), "d/../f: .. is not allowed in paths of an export; name the file directly");
    assert_eq!(explained(&mount, "/"), "\"/\" names no file in the export");
    assert_eq!(explained(&mount, "d"), format!("d on 127.0.0.1:{} is not a regular file", server.port));
    assert_eq!(
        explained(&NfsMount { version: 5, ..mount.clone() }, "f"),
        "NFS version 5 is not supported; use 3, or 4 for 4.1"
    );
    assert_eq!(explained(&NfsMount { nconnect: 17, ..mount.clone() }, "f"), "nconnect is 17; it must be 1 to 16");
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert_eq!(
        explained(&NfsMount { port: Some(unused), ..mount.clone() }, "f"),
        format!("NFS server 127.0.0.1:{unused} refused the connection: is the server running, and is this its port?")
    );
    assert!(connect::<Nfs3>(&mount, "/d//./f").is_ok());
}

#[test]
fn all_connections_come_from_the_address_that_the_plan_names() {
    let server = Server::answering().with_file("f", b"");
    let source = IpAddr::from([127, 0, 1, 9]);
    assert!(connect::<Nfs3>(&NfsMount { source: Some(source), nconnect: 3, ..server.mount() }, "f").is_ok());
    // The connection of MOUNT comes first.
    assert_eq!(server.peers(4), [source; 4]);
}

#[test]
fn an_address_that_connections_cannot_come_from_is_explained() {
    let server = Server::answering().with_file("f", b"");
    let from = |source: &str| NfsMount { source: Some(source.parse().unwrap()), ..server.mount() };
    let explained = |source| explained::<Nfs3>(&from(source), "f");
    // Reserved for documentation (RFC 5737), so it is not a local address.
    assert_eq!(
        explained("192.0.2.1"),
        "cannot use the local address 192.0.2.1: Cannot assign requested address (os error 99); name an address of this \
         machine, as `ip address` lists them"
    );
    assert_eq!(
        scripted::explained::<Nfs3>(&NfsMount { host: "::1".into(), ..from("127.0.0.1") }, "f"),
        format!(
            "MOUNT server [::1]:{} cannot be reached: its addresses are not of the family of the local address \
             127.0.0.1",
            server.port
        )
    );
    assert!(server.peers(0).is_empty());
}

#[test]
fn a_server_that_says_nothing_when_mounting_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mount =
        NfsMount { port: Some(port), mount_port: Some(port), timeout_ns: SECOND / 5, ..Server::answering().mount() };
    let error = explained::<Nfs3>(&mount, "f");
    assert_eq!(error, format!("server 127.0.0.1:{port} did not answer within 0.2 s"));
}

fn lay_out(server: &Server, files: &[FilePlan]) -> Result<Vec<bool>, EngineError> {
    layout(&server.mount(), files, 1, &|_| {}, &AtomicBool::new(false))
}

#[test]
fn layout_creates_fills_and_reserves_and_keeps_existing_data() {
    let server = Server::answering().with_file("old", b"here before").with_file("long", &[1; 5000]);
    let files = [
        file("old", 3_000_000, Layout::Fill),
        file("long", 4000, Layout::Fill),
        file("new", 2_500_001, Layout::New),
        file("reserved", 9_999_999, Layout::Reserve),
        FilePlan { offset_bytes: 100, ..file("f", 100, Layout::Fill) },
        file("long", 5000, Layout::Existing),
    ];
    let reports = Mutex::new(Vec::new());
    let report = |bytes| reports.lock().unwrap().push(bytes);
    let created = layout(&server.mount(), &files, 1, &report, &AtomicBool::new(false)).unwrap();
    assert_eq!(created, [false, false, true, true, true, false]);
    let old = server.content("old").unwrap();
    assert_eq!((old.len(), &old[..11]), (3_000_000, &b"here before"[..]));
    assert!(old[11..].chunks(1000).all(|bytes| bytes.iter().any(|byte| *byte != 0)));
    assert_eq!(server.content("long").unwrap(), [1; 5000]);
    assert_eq!(server.content("new").unwrap().len(), 2_500_001);
    assert!(server.content("reserved").unwrap() == vec![0; 9_999_999]);
    assert_eq!(server.content("f").unwrap().len(), 200);
    let written = 3_000_000 - 11 + 2_500_001 + 200;
    let reports = reports.into_inner().unwrap();
    assert!(reports.is_sorted());
    assert_eq!(reports.last(), Some(&written));
    let commits = server.seen().iter().filter(|seen| seen.procedure == nfsproc3::NFSPROC3_COMMIT).count();
    assert_eq!(commits, 3);

    let path = |name: &str| name.to_owned();
    remove(&server.mount(), &[path("new"), path("not there"), path("f")], &AtomicBool::new(false)).unwrap();
    assert_eq!((server.content("new"), server.content("f")), (None, None));
    assert!(server.content("reserved").is_some());
}

#[test]
fn layout_overwrites_nothing_and_puts_everything_back_when_it_fails() {
    let server = Server::answering().with_file("old", b"here before");
    let before = [file("a", 10, Layout::Fill), file("old", 100, Layout::Reserve)];
    let failing = [
        (
            file("old", 10, Layout::New),
            "create old: the server answered NFS3ERR_EXIST; it is not overwritten: remove it or use another name",
        ),
        (
            file("missing", 10, Layout::Existing),
            "missing does not exist on the export, and this job does not create it; check the path",
        ),
        (file("old", 101, Layout::Existing), "old has 100 bytes, but the plan uses 101; use a smaller size or offset"),
    ];
    for (file, expected) in failing {
        let files = [before.as_slice(), &[file]].concat();
        assert_eq!(lay_out(&server, &files).unwrap_err().to_string(), expected);
        assert_eq!(server.content("a"), None);
        assert_eq!(server.content("old").unwrap(), b"here before");
    }
}

#[test]
fn layout_recreates_files_and_uses_others_as_they_are() {
    let server = Server::answering().with_file("old", b"here before").with_file("any", b"as it is");
    let files = [
        file("old", 5, Layout::Recreate),
        file("any", 1 << 40, Layout::Create),
        file("new", 1 << 40, Layout::Create),
        file("anew", 70, Layout::Recreate),
    ];
    assert_eq!(lay_out(&server, &files).unwrap(), [false, false, true, true]);
    let old = server.content("old").unwrap();
    assert_eq!(old.len(), 5);
    assert_ne!(old, b"here ");
    assert_eq!(server.content("any").unwrap(), b"as it is");
    assert_eq!((server.content("new").unwrap().len(), server.content("anew").unwrap().len()), (0, 70));
    assert_eq!(lay_out(&server, &[file("old", 9, Layout::RecreateReserve)]).unwrap(), [false]);
    assert_eq!(server.content("old").unwrap(), [0; 9]);

    let missing = file("missing", 10, Layout::Existing);
    lay_out(&server, &[file("any", 100, Layout::Recreate), missing]).unwrap_err();
    assert_eq!(server.content("any").unwrap(), b"as it is");
}

#[test]
fn layout_that_is_stopped_puts_everything_back() {
    let server = Server::answering();
    let stop = AtomicBool::new(false);
    let stop_it = |_| stop.store(true, Ordering::Relaxed);
    let error = layout(&server.mount(), &[file("f", 50 << 20, Layout::Fill)], 1, &stop_it, &stop).unwrap_err();
    assert_eq!(error.to_string(), "stopped while files were laid out; the files created so far are removed");
    assert_eq!(server.content("f"), None);
}

#[test]
fn layout_names_the_file_that_does_not_fit() {
    let full = |seen: server::Seen| match seen.procedure {
        nfsproc3::NFSPROC3_WRITE => Act::Fail(nfsstat3::NFS3ERR_NOSPC),
        _ => Act::Answer,
    };
    let server = Server::new(full);
    let error = lay_out(&server, &[file("f", 100, Layout::New)]).unwrap_err().to_string();
    assert!(error.starts_with("layout write of 100 bytes at offset 0 of f: No space left on device"), "{error}");
    assert_eq!(server.content("f"), None);
}
