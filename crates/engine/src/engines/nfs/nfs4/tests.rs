mod misbehaviour;
mod server;

use std::sync::atomic::AtomicBool;

use iocurve_meter::{Nanos, SECOND};
use iocurve_wire::nfs4::nfs_opnum4::{self, OP_READ, OP_SEQUENCE};
use iocurve_wire::nfs4::{nfsstat4, stateid4};
use iocurve_wire::record::RECORD_MARK_BYTES;
use iocurve_wire::rpc::opaque_auth;
use iocurve_wire::xdr::to_bytes;

use self::server::{Act, Seen, Server, Shared};
use super::super::conversation::JUKEBOX_DELAY_NS;
use super::super::conversation::{Conversation, Question, Results, Turn};
use super::super::tests::scripted::{
    self, Program, READ, Reaction, WRITE, check_errno, explained, file, first, pattern,
};
use super::super::{layout, remove};
use super::Nfs4;
use super::client::{self, Registration};
use super::opens::{Handle, Open};
use crate::engines::request::Engine;
use crate::error::EngineError;
use crate::plan::{FilePlan, Layout, NfsMount};

type Client = scripted::Client<Nfs4>;

fn calls(server: &Server, operation: nfs_opnum4) -> Vec<Seen> {
    server.seen().into_iter().filter(|seen| seen.operation == operation).collect()
}

#[test]
fn reads_and_writes_reach_their_offsets_on_all_connections() {
    for (nconnect, length) in [(1, 4096), (3, 4097), (1, 70_000), (2, 70_001)] {
        let server = Server::answering().with_file("f", b"");
        let mut client = Client::new(&server, 8, 70_001, |mount| mount.nconnect = nconnect);
        assert_eq!(server.connections(), [nconnect as usize]);
        let content = pattern(8 * length);
        for slot in 0..8 {
            let start = slot as usize * length;
            client.buffers.slot_mut(slot, length).copy_from_slice(&content[start..start + length]);
            client.submit(slot, WRITE, start as u64, length as u32);
        }
        let expected: Vec<_> = (0..8).map(|slot| (slot, length as i64)).collect();
        assert_eq!(client.reap(8).unwrap(), expected);
        assert!(server.lock().files["f"] == content);
        for slot in 0..8 {
            client.buffers.slot_mut(slot, length).fill(0);
            client.submit(slot, READ, u64::from(slot) * length as u64, length as u32);
        }
        assert_eq!(client.reap(8).unwrap(), expected);
        for slot in 0..8 {
            let start = slot as usize * length;
            assert_eq!(client.buffers.slot_mut(slot, length), &content[start..start + length]);
        }
        client.engine.finish().unwrap();
        assert_eq!(calls(&server, nfs_opnum4::OP_COMMIT).len(), 1);
        drop(client);
        assert_eq!(server.kept(), [0, 0, 0], "the client has given everything back");
    }
}

#[test]
fn the_session_and_not_the_depth_bounds_the_calls_in_flight() {
    let server = Server::answering().with_file("f", &pattern(4096));
    let mut client = Client::new(&server, 32, 4096, |mount| mount.session_slots = 4);
    assert_eq!((client.counter("session_slots"), client.counter("slot_waits")), (4, 0));
    for slot in 0..32 {
        client.submit(slot, READ, 0, 4096);
    }
    client.engine.send().unwrap();
    assert_eq!(client.counter("session_slots"), 4);
    let expected: Vec<_> = (0..32).map(|slot| (slot, 4096)).collect();
    assert_eq!(client.reap(32).unwrap(), expected);
    assert_eq!(client.counter("slot_waits"), 28);
    assert!(client.counter("slot_wait_ns") > 0);
    // Those before the load have prepared it, on slot 0.
    let before = u64::from(calls(&server, OP_READ).iter().find(|seen| seen.slot == 0).unwrap().sequence) - 1;
    assert_eq!(client.counter("session_calls"), before + 32);
    let reads = calls(&server, OP_READ);
    for slot in 0..4 {
        let sequences: Vec<u32> = reads.iter().filter(|seen| seen.slot == slot).map(|seen| seen.sequence).collect();
        let (first, count) = (sequences[0], sequences.len() as u32);
        assert_eq!(sequences, (first..first + count).collect::<Vec<_>>(), "calls of slot {slot} are numbered in order");
    }
    assert!(reads.iter().all(|seen| seen.slot < 4));
}

#[test]
fn a_server_may_give_fewer_slots_than_asked_for() {
    let server = Server::answering().with_file("f", &pattern(4096));
    server.lock().slots = 2;
    let client = Client::new(&server, 1, 4096, |mount| mount.session_slots = 180);
    assert_eq!(client.counter("session_slots"), 2);
}

#[test]
fn a_lost_reply_is_asked_for_again_on_its_slot() {
    let server = Server::new(first([Act::Answer, Act::LoseReply])).with_file("f", &pattern(4096));
    let mut client = Client::new(&server, 1, 4096, |_| {});
    assert_eq!(client.one(READ, 0, 4096), 4096);
    assert_eq!(client.one(READ, 0, 4096), 4096);
    assert_eq!((client.engine.reconnects(), client.counter("session_recoveries")), (1, 0));
    let reads = calls(&server, OP_READ);
    let of = |seen: &Seen| (seen.slot, seen.sequence);
    // The server has not kept the reply: the call is repeated as the next one of its slot.
    assert_eq!(reads.len(), 4);
    assert_eq!((reads[1].xid, of(&reads[1])), (reads[2].xid, of(&reads[2])), "the call is repeated as it was");
    assert_eq!(of(&reads[3]), (reads[2].slot, reads[2].sequence + 1));
    assert_ne!(reads[3].xid, reads[2].xid);
    assert_eq!(client.one(READ, 0, 4096), 4096);
}

#[test]
fn a_reply_that_the_server_has_kept_completes_its_call() {
    let server = Server::new(first([Act::Answer, Act::LoseReply])).with_file("f", &pattern(4096));
    server.lock().keeps_replies = true;
    let mut client = Client::new(&server, 1, 4096, |_| {});
    for _ in 0..3 {
        assert_eq!(client.one(READ, 0, 4096), 4096);
    }
    let reads = calls(&server, OP_READ);
    let sequences: Vec<u32> = reads.iter().map(|seen| seen.sequence - reads[0].sequence).collect();
    assert_eq!(sequences, [0, 1, 1, 2]);
    assert_eq!((client.engine.reconnects(), client.counter("session_recoveries")), (1, 0));
}

#[test]
fn a_call_that_was_never_executed_is_sent_again_on_its_slot() {
    for nconnect in [1, 2] {
        let server = Server::new(first([Act::Close, Act::Close])).with_file("f", &pattern(4 * 4096));
        let mut client = Client::new(&server, 4, 4096, |mount| mount.nconnect = nconnect);
        for slot in 0..4 {
            client.submit(slot, READ, u64::from(slot) * 4096, 4096);
        }
        assert_eq!(client.reap(4).unwrap(), [(0, 4096), (1, 4096), (2, 4096), (3, 4096)]);
        assert_eq!(client.counter("session_recoveries"), 0);
        for slot in 0..4 {
            let start = slot as usize * 4096;
            assert_eq!(client.buffers.slot_mut(slot, 4096), &pattern(4 * 4096)[start..start + 4096]);
        }
    }
}

#[test]
fn a_connection_that_the_server_forgot_is_replaced_in_the_same_session() {
    let script =
        |seen: Seen| if seen.connection == 0 && seen.operation == OP_READ { Act::Silence } else { Act::Answer };
    let server = Server::new(script).with_file("f", &pattern(4 * 4096));
    let mut client = Client::new(&server, 4, 4096, |mount| mount.timeout_ns = 3 * SECOND / 2);
    for slot in 0..4 {
        client.submit(slot, READ, u64::from(slot) * 4096, 4096);
    }
    assert_eq!(client.reap(4).unwrap(), [(0, 4096), (1, 4096), (2, 4096), (3, 4096)]);
    assert_eq!((client.engine.reconnects(), client.counter("session_recoveries")), (1, 0));
    let of = |seen: &Seen| (seen.xid, seen.slot, seen.sequence);
    let reads: Vec<_> = calls(&server, OP_READ).iter().map(of).collect();
    assert_eq!(reads[..4], reads[4..], "calls are repeated as they were");
}

#[test]
fn a_lost_session_is_replaced_and_its_calls_are_made_anew() {
    use nfsstat4::{
        NFS4ERR_BAD_HIGH_SLOT, NFS4ERR_BADSESSION, NFS4ERR_BADSLOT, NFS4ERR_CONN_NOT_BOUND_TO_SESSION,
        NFS4ERR_DEADSESSION, NFS4ERR_SEQ_FALSE_RETRY, NFS4ERR_SEQ_MISORDERED,
    };
    for status in [
        NFS4ERR_BADSESSION,
        NFS4ERR_DEADSESSION,
        NFS4ERR_BADSLOT,
        NFS4ERR_BAD_HIGH_SLOT,
        NFS4ERR_SEQ_MISORDERED,
        NFS4ERR_SEQ_FALSE_RETRY,
        NFS4ERR_CONN_NOT_BOUND_TO_SESSION,
    ] {
        let acts = [Act::Answer, Act::FailSequence(status), Act::FailSequence(status)];
        let server = Server::new(first(acts)).with_file("f", &pattern(16 * 4096));
        let mut client = Client::new(&server, 16, 4096, |mount| mount.nconnect = 2);
        for slot in 0..16 {
            client.submit(slot, READ, u64::from(slot) * 4096, 4096);
        }
        let expected: Vec<_> = (0..16).map(|slot| (slot, 4096)).collect();
        assert_eq!(client.reap(16).unwrap(), expected, "{}", status.name());
        assert!((1..=2).contains(&client.counter("session_recoveries")), "{}", status.name());
        assert_eq!(server.lock().opened, ["RECLAIM_COMPLETE", "CLAIM_FH"], "the client id and its open are kept");
        assert_eq!(server.connections(), [2]);
        for slot in 0..16 {
            let start = slot as usize * 4096;
            assert_eq!(client.buffers.slot_mut(slot, 4096), &pattern(16 * 4096)[start..start + 4096]);
        }
        drop(client);
        assert_eq!(server.kept(), [0, 0, 0]);
    }
}

#[test]
fn calls_that_a_lost_session_did_not_answer_count_once() {
    let script = |seen: Seen| match (seen.connection, seen.operation, seen.slot) {
        (0, OP_READ, 0) => Act::FailSequence(nfsstat4::NFS4ERR_BADSESSION),
        (0, OP_READ, _) => Act::Silence,
        _ => Act::Answer,
    };
    let server = Server::new(script).with_file("f", &pattern(8 * 4096));
    let mut client = Client::new(&server, 8, 4096, |_| {});
    for slot in 0..8 {
        client.submit(slot, READ, u64::from(slot) * 4096, 4096);
    }
    let expected: Vec<_> = (0..8).map(|slot| (slot, 4096)).collect();
    assert_eq!(client.reap(8).unwrap(), expected);
    assert_eq!(client.counter("session_recoveries"), 1);
    assert_eq!(client.counter("session_calls"), server.lock().sequenced);
}

#[test]
fn after_a_restart_opens_are_reclaimed_before_anything_else() {
    let server = Server::new(first([Act::Answer, Act::Restart])).with_file("f", &pattern(4 * 4096));
    server.lock().grace = 2;
    let mut client = Client::new(&server, 4, 4096, |mount| mount.nconnect = 2);
    for round in 0..3 {
        for slot in 0..4 {
            client.submit(slot, READ, u64::from(slot) * 4096, 4096);
        }
        assert_eq!(client.reap(4).unwrap(), [(0, 4096), (1, 4096), (2, 4096), (3, 4096)], "{round}");
    }
    assert_eq!(client.counter("session_recoveries"), 1);
    let expected = ["RECLAIM_COMPLETE", "CLAIM_FH", "CLAIM_FH", "CLAIM_FH", "CLAIM_PREVIOUS", "RECLAIM_COMPLETE"];
    assert_eq!(server.lock().opened, expected);
}

/// Carries the calls of a conversation to the server's program; no socket has part in it, and time passes by its pauses alone.
fn converse<T>(server: &mut Shared, mut conversation: Conversation<'_, T>) -> (Result<T, EngineError>, Nanos) {
    const REPLY_HEAD_BYTES: usize = 24;
    let mut now = 0;
    loop {
        match conversation.proceed(now, false) {
            Turn::Asks(Question { record, connection }) => {
                let call = &record[RECORD_MARK_BYTES..];
                let act = server.act(connection, call);
                let Reaction::Send(reply) = server.react(connection, call, act) else { panic!("{act:?}") };
                let bytes = reply[RECORD_MARK_BYTES + REPLY_HEAD_BYTES..].to_vec();
                conversation.answer(Ok(Results { bytes, was_repeated: false }));
            }
            Turn::Waits(until) => now = until,
            Turn::Ends(result) => return (result, now),
        }
    }
}

fn recovery<'a>(client: &'a mut client::Client, opens: &'a mut [Option<Open>]) -> Conversation<'a, ()> {
    Conversation::new(client.line.clone(), client.recover(opens, 3))
}

#[test]
fn a_session_is_made_anew_by_bytes_alone() {
    let mut server = Shared::new(Box::new(|_| Act::Answer));
    server.files.insert("f".to_owned(), pattern(4096));
    let credential = to_bytes(&opaque_auth::NONE);
    let mut client = client::Client::new("a server", &credential, SECOND, Registration::new(4), 1);
    let (handle, access) = (Handle::from(*b"f"), 3);
    let mut opens = [Some(Open { path: "f".to_owned(), handle, stateid: stateid4::ANONYMOUS, access }), None];
    // A grace period of minutes, in calls of 100 ms.
    server.grace = 2_000;
    let (recovered, took_ns) = converse(&mut server, recovery(&mut client, &mut opens));
    recovered.unwrap();
    assert_eq!(took_ns, 2_000 * JUKEBOX_DELAY_NS);
    let (last, reclaims) = server.opened.split_last().unwrap();
    assert_eq!((*last, reclaims.len()), ("RECLAIM_COMPLETE", 2_001));
    assert!(reclaims.iter().all(|claim| *claim == "CLAIM_PREVIOUS"));
    assert_eq!((server.kept(), server.connections()), ([1, 1, 1], vec![3]));
    assert_ne!(opens[0].as_ref().unwrap().stateid, stateid4::ANONYMOUS);

    // A session is lost while it is made: the next attempt, after a pause, finds the client id.
    server.opened.clear();
    server.at_setup.push_back((nfs_opnum4::OP_TEST_STATEID, Act::FailSequence(nfsstat4::NFS4ERR_BADSESSION)));
    let (recovered, took_ns) = converse(&mut server, recovery(&mut client, &mut opens));
    recovered.unwrap();
    assert_eq!((took_ns, server.opened.len()), (2 * JUKEBOX_DELAY_NS, 0));
    assert_eq!((server.kept(), server.connections()), ([1, 1, 1], vec![3]));
}

#[test]
fn an_open_that_cannot_be_reclaimed_is_made_anew() {
    for refused in [nfsstat4::NFS4ERR_NO_GRACE, nfsstat4::NFS4ERR_RECLAIM_BAD] {
        let server = Server::new(first([Act::Restart])).with_file("f", &pattern(4096));
        server.lock().no_reclaim = Some(refused);
        let mut client = Client::new(&server, 1, 4096, |_| {});
        assert_eq!(client.one(READ, 0, 4096), 4096);
        let expected = ["RECLAIM_COMPLETE", "CLAIM_FH", "CLAIM_PREVIOUS", "RECLAIM_COMPLETE", "CLAIM_FH"];
        assert_eq!(server.lock().opened, expected);
    }
}

#[test]
fn a_session_that_is_lost_during_reclaim_does_not_end_it() {
    let lost = Act::FailSequence(nfsstat4::NFS4ERR_BADSESSION);
    for (operation, reclaims) in [(nfs_opnum4::OP_OPEN, 1), (nfs_opnum4::OP_RECLAIM_COMPLETE, 2)] {
        let server = Server::new(first([Act::Answer, Act::Restart])).with_file("f", &pattern(4096));
        let mut client = Client::new(&server, 1, 4096, |_| {});
        server.lock().at_setup.push_back((operation, lost));
        for _ in 0..3 {
            assert_eq!(client.one(READ, 0, 4096), 4096);
        }
        let mut expected = vec!["RECLAIM_COMPLETE", "CLAIM_FH"];
        expected.extend(vec!["CLAIM_PREVIOUS"; reclaims]);
        expected.push("RECLAIM_COMPLETE");
        assert_eq!(server.lock().opened, expected);
    }
}

#[test]
fn an_open_that_has_expired_is_made_anew() {
    let server = Server::new(first([Act::Answer, Act::Revoke])).with_file("f", &pattern(4096));
    let mut client = Client::new(&server, 1, 4096, |_| {});
    for _ in 0..3 {
        assert_eq!(client.one(READ, 0, 4096), 4096);
    }
    assert_eq!(client.counter("session_recoveries"), 1);
    assert_eq!(server.lock().opened, ["RECLAIM_COMPLETE", "CLAIM_FH", "FREE_STATEID", "CLAIM_FH"]);
}

#[test]
fn a_state_that_is_never_valid_fails_the_operation_in_the_end() {
    let bad = Act::Fail(nfsstat4::NFS4ERR_BAD_STATEID);
    let server = Server::new(move |_| bad).with_file("f", &pattern(4096));
    let mut client = Client::new(&server, 1, 4096, |_| {});
    assert_eq!(client.one(READ, 0, 4096), -i64::from(libc::EIO));
    assert_eq!(client.counter("session_recoveries"), 16);
}

#[test]
fn delay_and_grace_are_waited_out() {
    use nfsstat4::{NFS4ERR_DELAY, NFS4ERR_GRACE};
    let acts = [Act::FailSequence(NFS4ERR_DELAY), Act::Fail(NFS4ERR_DELAY), Act::Fail(NFS4ERR_GRACE)];
    let server = Server::new(first(acts)).with_file("f", &pattern(4096));
    let mut client = Client::new(&server, 1, 4096, |_| {});
    assert_eq!(client.one(READ, 0, 4096), 4096);
    let sequences: Vec<u32> = calls(&server, OP_READ).iter().map(|seen| seen.sequence).collect();
    let start = sequences[0];
    // A call that SEQUENCE has refused does not count.
    assert_eq!(sequences, [start, start, start + 1, start + 2]);
    assert_eq!(client.counter("session_recoveries"), 0);
}

#[test]
fn a_server_that_is_never_ready_fails_the_operation() {
    let server = Server::new(|_| Act::Fail(nfsstat4::NFS4ERR_DELAY)).with_file("f", &pattern(4096));
    let mut client = Client::new(&server, 1, 4096, |mount| mount.timeout_ns = SECOND / 5);
    assert_eq!(client.one(READ, 0, 4096), -i64::from(libc::ETIMEDOUT));
}

#[test]
fn a_client_without_calls_renews_its_lease() {
    let server = Server::answering().with_file("f", &pattern(4096));
    server.lock().lease_s = 1;
    let mut client = Client::new(&server, 1, 4096, |_| {});
    let (end, mut done) = (client.clock.now() + 60 * SECOND, Vec::new());
    while calls(&server, OP_SEQUENCE).len() < 2 {
        assert!(client.clock.now() < end);
        client.engine.reap(1, client.clock.now() + SECOND / 20, &mut done).unwrap();
    }
    assert!(done.is_empty());
    assert_eq!(client.one(READ, 0, 4096), 4096);
}

/// A load that waits for its start, or for its next operation, asks the engine now and then.
#[test]
fn a_client_that_waits_renews_its_lease_and_has_a_place_for_it() {
    // The renewal is never answered: the only operation at a time needs another place.
    let server = Server::new(|seen| match seen.operation {
        OP_SEQUENCE => Act::Silence,
        _ => Act::Answer,
    });
    let server = server.with_file("f", &pattern(4096));
    server.lock().lease_s = 1;
    let mut client = Client::new(&server, 1, 4096, |_| {});
    let (end, before) = (client.clock.now() + 60 * SECOND, calls(&server, OP_SEQUENCE).len());
    while calls(&server, OP_SEQUENCE).len() == before {
        assert!(client.clock.now() < end);
        client.clock.wait_until(client.clock.now() + SECOND / 50);
        client.engine.idle().unwrap();
    }
    assert_eq!(client.one(READ, 0, 4096), 4096);
}

#[test]
fn a_server_that_does_not_come_back_is_given_up() {
    let server = Server::new(|_| Act::FailSequence(nfsstat4::NFS4ERR_BADSESSION)).with_file("f", &pattern(4096));
    let mut client = Client::new(&server, 1, 4096, |_| {});
    assert_eq!(client.one(READ, 0, 4096), -i64::from(libc::EIO));

    let server = Server::new(|_| Act::Silence).with_file("f", &pattern(4096));
    let mut client = Client::new(&server, 1, 4096, |mount| mount.timeout_ns = SECOND / 4);
    client.submit(0, READ, 0, 4096);
    let error = client.reap(1).unwrap_err().to_string();
    assert!(error.starts_with(&format!("NFS server 127.0.0.1:{} has not answered for ", server.port)), "{error}");
}

#[test]
fn statuses_become_the_errno_of_a_kernel_client() {
    let cases = [
        (nfsstat4::NFS4ERR_NOSPC, libc::ENOSPC),
        (nfsstat4::NFS4ERR_DQUOT, libc::EDQUOT),
        (nfsstat4::NFS4ERR_ACCESS, libc::EACCES),
        (nfsstat4::NFS4ERR_STALE, libc::ESTALE),
        (nfsstat4::NFS4ERR_LOCKED, libc::EBUSY),
        (nfsstat4::NFS4ERR_SERVERFAULT, libc::EIO),
    ];
    for (status, errno) in cases {
        check_errno::<Nfs4, Shared>(move |_| Act::Fail(status), errno);
    }
}

#[test]
fn layout_creates_fills_and_reserves_and_keeps_existing_data() {
    let server = Server::answering().with_file("old", b"here before").with_file("d/old", b"");
    let files = [
        file("old", 3_000_000, Layout::Fill),
        file("new", 2_500_001, Layout::New),
        file("reserved", 9_999_999, Layout::Reserve),
        file("d/old", 10, Layout::Fill),
    ];
    let lay_out = |files: &[FilePlan]| layout(&server.mount(), files, 1, &|_| {}, &AtomicBool::new(false));
    assert_eq!(lay_out(&files).unwrap(), [false, true, true, false]);
    let content = |name| server.content(name);
    assert_eq!(content("old").unwrap()[..11], *b"here before");
    assert_eq!(content("old").unwrap().len(), 3_000_000);
    assert_eq!(content("new").unwrap().len(), 2_500_001);
    assert!(content("reserved").unwrap() == vec![0; 9_999_999]);
    assert_eq!(content("d/old").unwrap().len(), 10);

    let refused = lay_out(&[file("new", 10, Layout::New)]).unwrap_err().to_string();
    assert_eq!(
        refused,
        "create new: the server answered NFS4ERR_EXIST; it is not overwritten: remove it or use another name"
    );
    let paths = ["new", "not there"].map(str::to_owned);
    remove(&server.mount(), &paths, &AtomicBool::new(false)).unwrap();
    assert_eq!(content("new"), None);
    assert_eq!(server.kept(), [0, 0, 0]);
}

/// Mount, layout and removal go on when the server restarts, ends the session or loses the connection in any of their calls.
#[test]
fn set_up_survives_a_server_that_forgets() {
    use nfs_opnum4::{OP_CREATE_SESSION, OP_GETATTR, OP_LOOKUP, OP_OPEN, OP_REMOVE, OP_SETATTR};
    for act in [Act::Restart, Act::RestartAfter, Act::Close, Act::LoseReply] {
        let server = Server::answering().with_file("old", b"here before").with_file("f", &pattern(4096));
        let path = "new".to_owned();
        let try_with = |operations: &[nfs_opnum4], work: &dyn Fn()| {
            server.lock().at_setup = operations.iter().map(|operation| (*operation, act)).collect();
            work();
            assert!(server.lock().at_setup.is_empty(), "{act:?} at {:?}", server.lock().at_setup);
        };
        let files = [file("old", 3_000_000, Layout::Fill), file(&path, 1_000_000, Layout::Reserve)];
        try_with(&[OP_CREATE_SESSION, OP_LOOKUP, OP_GETATTR, OP_OPEN, OP_SETATTR], &|| {
            let laid_out = layout(&server.mount(), &files, 1, &|_| {}, &AtomicBool::new(false));
            assert_eq!(laid_out.unwrap(), [false, true], "{act:?}");
        });
        assert_eq!(server.lock().files["old"].len(), 3_000_000);
        assert_eq!(server.lock().files[&path], vec![0; 1_000_000]);
        try_with(&[OP_OPEN], &|| {
            let mut client = Client::new(&server, 1, 4096, |_| {});
            assert_eq!(client.one(READ, 0, 4096), 4096, "{act:?}");
        });
        try_with(&[OP_LOOKUP, OP_REMOVE], &|| {
            remove(&server.mount(), std::slice::from_ref(&path), &AtomicBool::new(false)).unwrap();
        });
        assert!(!server.lock().files.contains_key(&path));
    }
}

#[test]
fn failures_to_mount_are_explained() {
    let server = Server::answering().with_file("f", b"").with_file("d/f", b"");
    let explained = explained::<Nfs4>;
    let mount = server.mount();
    assert_eq!(
        explained(&NfsMount { export: "/nope".into(), ..mount.clone() }, "f"),
        format!("mount /nope of 127.0.0.1:{}: the server answered NFS4ERR_NOENT; check the path", server.port)
    );
    assert_eq!(
        explained(&mount, "g"),
        "g does not exist on the export, and this job does not create it; check the path"
    );
    assert_eq!(explained(&mount, "e/f"), "e/f: the directory e does not exist; create it first");
    assert_eq!(explained(&mount, "f/f"), "f/f: f is not a directory");
    assert_eq!(explained(&mount, "d"), format!("d on 127.0.0.1:{} is not a regular file", server.port));
    assert_eq!(server.kept(), [0, 0, 0], "a mount that failed leaves nothing behind");
}

#[test]
fn reap_returns_at_its_deadline_while_a_session_is_made() {
    let server = Server::new(first([Act::Restart])).with_file("f", &pattern(4096));
    let mut client = Client::new(&server, 1, 4096, |_| {});
    server.lock().grace = u32::MAX;
    client.submit(0, READ, 0, 4096);
    let mut done = Vec::new();
    let deadline = client.clock.now() + SECOND / 2;
    client.engine.reap(1, deadline, &mut done).unwrap();
    assert!(done.is_empty());
    assert!(client.clock.now() >= deadline);
    server.lock().grace = 0;
    assert_eq!(client.reap(1).unwrap(), [(0, 4096)]);
}
