use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::nfs3::{
    COMMIT3args, COMMIT3res, GETATTR3res, READ3args, READ3res, READ3resok, WRITE3args, WRITE3res, nfs_fh3,
};
use crate::nfs3::{NFS_PROGRAM, NFS_V3};
use crate::record::write_record;
use crate::rpc::{Accepted, AcceptedReply, CallHeader, Rejected, ReplyBody, ReplyHeader, auth_stat, mismatch_info};
use crate::rpc::{Xid, opaque_auth};
use crate::sample::{Entropy, Sample};
use crate::xdr::{Encode, to_bytes};

/// A call as the full codec writes it.
fn call(xid: u32, procedure: nfsproc3, cred: opaque_auth<'_>, arguments: &impl Encode) -> Vec<u8> {
    let mut bytes = Vec::new();
    let verf = opaque_auth::NONE;
    let header =
        CallHeader { xid, rpcvers: RPC_VERSION, prog: NFS_PROGRAM, vers: NFS_V3, proc: procedure as u32, cred, verf };
    write_record(&mut bytes, |writer| {
        header.encode(writer);
        arguments.encode(writer);
    });
    bytes
}

/// A reply as the full codec writes it, without its record mark.
fn reply(xid: u32, verf: opaque_auth<'_>, results: &impl Encode) -> Vec<u8> {
    let accepted = AcceptedReply { verf, stat: Accepted::SUCCESS(()) };
    let mut bytes = to_bytes(&ReplyHeader { xid, body: ReplyBody::MSG_ACCEPTED(accepted) });
    bytes.extend(to_bytes(results));
    bytes
}

/// Parses a whole reply, and checks that every part of it gives the same result or "incomplete".
fn parse<'r, T: PartialEq + std::fmt::Debug + Copy>(
    record: &'r [u8],
    xid: u32,
    result: impl Fn(&Reply<'r>, usize) -> Result<T, Unparsed>,
) -> T {
    let parse = |arrived: usize| {
        let reply = Reply::new(&record[..arrived], record.len());
        let head = reply.head()?;
        assert_eq!((head.xid, head.verdict), (Xid(xid), Verdict::Success));
        result(&reply, head.result_at)
    };
    let whole = parse(record.len()).expect("a whole reply is parsed");
    for arrived in 0..record.len() {
        match parse(arrived) {
            Ok(parsed) => assert_eq!(parsed, whole),
            Err(error) => assert_eq!(error, Unparsed::Incomplete),
        }
    }
    whole
}

proptest! {
    #[test]
    fn templates_say_what_the_codec_says(
        xid: u32,
        offset: u64,
        handle in vec(any::<u8>(), 0..=64),
        body in vec(any::<u8>(), 0..=400),
        data in vec(any::<u8>(), 0..40),
        entropy in vec(any::<u8>(), 1),
    ) {
        let file = nfs_fh3::new(&handle).unwrap();
        let count = data.len() as u32;
        let credential = opaque_auth { flavor: 1, body: &body };
        let encoded = to_bytes(&credential);
        // Bytes appended before stay.
        let mut out = b"before".to_vec();

        let stable = stable_how::sample(&mut Entropy::new(&entropy));
        let mut calls = FileCalls::new(&encoded, &vec![7; handle.len()], stable);
        calls.set_file(&encoded, &handle, stable);
        calls.append_read(&mut out, Xid(xid), offset, count);
        let expected = call(xid, nfsproc3::NFSPROC3_READ, credential, &READ3args { file, offset, count });
        prop_assert_eq!(&out[6..], &expected);

        out.truncate(6);
        calls.append_commit(&mut out, Xid(xid), offset, count);
        let expected = call(xid, nfsproc3::NFSPROC3_COMMIT, credential, &COMMIT3args { file, offset, count });
        prop_assert_eq!(&out[6..], &expected);

        out.truncate(6);
        calls.append_write(&mut out, Xid(xid), offset, count);
        out.extend(&data);
        out.resize(out.len() + padding(count) as usize, 0);
        let expected =
            call(xid, nfsproc3::NFSPROC3_WRITE, credential, &WRITE3args { file, offset, count, stable, data: &data });
        prop_assert_eq!(&out[6..], &expected);
    }

    #[test]
    fn replies_are_parsed_as_the_codec_parses_them(
        xid: u32,
        verifier in vec(any::<u8>(), 0..=400),
        entropy in vec(any::<u8>(), 0..400),
    ) {
        let verf = opaque_auth { flavor: 0, body: &verifier };

        let mut read = READ3res::sample(&mut Entropy::new(&entropy));
        if let Ok(READ3resok { count, data, .. }) = &mut read {
            *count = data.len() as u32;
        }
        let record = reply(xid, verf, &read);
        let parsed = parse(&record, xid, Reply::read);
        match read {
            Ok(read) => {
                prop_assert_eq!((parsed.status, parsed.count, parsed.eof), (0, read.count, read.eof));
                prop_assert_eq!(&record[parsed.payload_at..][..read.data.len()], read.data);
            }
            Err(failed) => prop_assert_eq!(parsed.status, failed.status as u32),
        }

        let write = WRITE3res::sample(&mut Entropy::new(&entropy));
        let parsed = parse(&reply(xid, verf, &write), xid, Reply::write);
        let expected = match write {
            Ok(ok) => WriteResult { status: 0, count: ok.count, committed: ok.committed as u32, verifier: ok.verf },
            Err(failed) => WriteResult { status: failed.status as u32, count: 0, committed: 0, verifier: [0; 8] },
        };
        prop_assert_eq!(parsed, expected);

        let commit = COMMIT3res::sample(&mut Entropy::new(&entropy));
        let parsed = parse(&reply(xid, verf, &commit), xid, Reply::commit);
        let expected = match commit {
            Ok(ok) => CommitResult { status: 0, verifier: ok.verf },
            Err(failed) => CommitResult { status: failed.status as u32, verifier: [0; 8] },
        };
        prop_assert_eq!(parsed, expected);
    }

    #[test]
    fn no_reply_is_a_panic(bytes in vec(any::<u8>(), 0..300), length in 0..400_usize, result_at in 0..64_usize) {
        let reply = Reply::new(&bytes, length);
        let _ = (reply.head(), reply.read(result_at), reply.write(result_at), reply.commit(result_at));
    }

    #[test]
    fn no_damaged_reply_is_a_panic(at in 0..128_usize, byte: u8) {
        let mut record = read_reply(100);
        record[at] = byte;
        let reply = Reply::new(&record, record.len());
        if let Ok(head) = reply.head()
            && let Ok(result) = reply.read(head.result_at)
        {
            prop_assert!(result.status != 0 || result.payload_at + result.count as usize <= record.len());
        }
    }
}

/// A successful reply to READ, without attributes: 24 bytes of head, then status, no attributes, count, eof, payload.
fn read_reply(count: u32) -> Vec<u8> {
    let data = vec![7; count as usize];
    let read: READ3res<'_> = Ok(READ3resok { file_attributes: None, count, eof: true, data: &data });
    reply(5, opaque_auth::NONE, &read)
}

fn malformed(record: &[u8], length: usize) -> Malformed {
    let reply = Reply::new(record, length);
    let parsed = reply.head().and_then(|head| reply.read(head.result_at));
    match parsed {
        Err(Unparsed::Malformed(why)) => why,
        other => panic!("expected a malformed reply, but it was {other:?}"),
    }
}

#[test]
fn replies_that_lie_are_refused() {
    let sound = read_reply(8);
    let damaged = |at: usize, word: u32| {
        let mut record = sound.clone();
        record[at..at + 4].copy_from_slice(&word.to_be_bytes());
        malformed(&record, record.len())
    };
    assert_eq!(damaged(4, 0), Malformed::NotAReply);
    assert_eq!(damaged(8, 2), Malformed::ReplyStat);
    assert_eq!(damaged(16, 401), Malformed::LongVerifier);
    assert_eq!(damaged(16, 400), Malformed::RecordEnds);
    assert_eq!(damaged(28, 2), Malformed::Boolean);
    assert_eq!(damaged(32, 9), Malformed::Count);
    assert_eq!(damaged(36, 7), Malformed::Boolean);
    assert_eq!(malformed(&sound, sound.len() + 4), Malformed::Payload);
    assert_eq!(malformed(&sound, sound.len() - 4), Malformed::Payload);
    assert_eq!(malformed(&sound, 20), Malformed::RecordEnds);
}

#[test]
fn what_the_rpc_layer_refuses_is_told_apart() {
    let verdict = |header: ReplyHeader<'_>| {
        let bytes = to_bytes(&header);
        Reply::new(&bytes, bytes.len()).head().unwrap().verdict
    };
    let versions = || mismatch_info { low: 2, high: 4 };
    assert_eq!(verdict(ReplyHeader::accepted(1, Accepted::SYSTEM_ERR(()))), Verdict::Failed(5));
    assert_eq!(verdict(ReplyHeader::accepted(1, Accepted::PROG_MISMATCH(versions()))), Verdict::Failed(2));
    let tooweak = Rejected::AUTH_ERROR(auth_stat::AUTH_TOOWEAK);
    assert_eq!(verdict(ReplyHeader::denied(1, tooweak)), Verdict::DeniedCredential(5));
    assert_eq!(verdict(ReplyHeader::denied(1, Rejected::RPC_MISMATCH(versions()))), Verdict::DeniedVersion);
}

#[test]
fn the_head_of_a_read_reply_has_the_length_that_is_asked_for() {
    let mut attributes = GETATTR3res::sample(&mut Entropy::new(&[1; 100])).unwrap().obj_attributes;
    attributes.size = 4096;
    let data = [0; 4096];
    let read: READ3res<'_> = Ok(READ3resok { file_attributes: Some(attributes), count: 4096, eof: false, data: &data });
    let record = reply(1, opaque_auth::NONE, &read);
    let payload_at = Reply::new(&record, record.len()).read(24).unwrap().payload_at;
    assert_eq!(RECORD_MARK_BYTES + payload_at, READ_REPLY_HEAD_BYTES);
}

#[test]
fn a_read_call_byte_by_byte() {
    let mut out = Vec::new();
    let credential = to_bytes(&opaque_auth::NONE);
    FileCalls::new(&credential, b"abcde", stable_how::UNSTABLE).append_read(&mut out, Xid(0x0102_0304), 0x1000, 0x200);
    #[rustfmt::skip]
    let expected = [
        0x80, 0, 0, 64,
        1, 2, 3, 4,  0, 0, 0, 0,  0, 0, 0, 2,  0, 1, 0x86, 0xa3,  0, 0, 0, 3,  0, 0, 0, 6,
        0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0,
        0, 0, 0, 5,  b'a', b'b', b'c', b'd', b'e', 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0x10, 0,  0, 0, 2, 0,
    ];
    assert_eq!(out, expected);
}
