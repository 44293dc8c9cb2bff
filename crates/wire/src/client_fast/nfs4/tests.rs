use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{Unparsed, Verdict, padding};
use super::*;
use crate::nfs4::operations::{COMMIT4resok, READ4resok, SEQUENCE4resok, WRITE4resok, nfs_resop4};
use crate::nfs4::{NFS_PROGRAM, NFS_V4, NFSPROC4_COMPOUND};
use crate::nfs4::{compound4_result_head, nfsstat4};
use crate::record::write_record;
use crate::rpc::{CallHeader, ReplyHeader, opaque_auth};
use crate::rpc::{RPC_VERSION, Xid};
use crate::xdr::to_bytes;

const SESSION: sessionid4 = [9; 16];
const AT: SlotSequence = SlotSequence { slot: 7, sequence: 0x0102_0304 };

/// A call as the full codec writes it.
fn call(xid: u32, cred: opaque_auth<'_>, operations: &[nfs_argop4<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (prog, vers, proc, verf) = (NFS_PROGRAM, NFS_V4, NFSPROC4_COMPOUND, opaque_auth::NONE);
    let header = CallHeader { xid, rpcvers: RPC_VERSION, prog, vers, proc, cred, verf };
    write_record(&mut bytes, |writer| {
        header.encode(writer);
        compound4_head { tag: &[], minorversion: 1, count: operations.len() as u32 }.encode(writer);
        for operation in operations {
            operation.encode(writer);
        }
    });
    bytes
}

/// A reply as the full codec writes it, without its record mark.
fn reply(status: nfsstat4, results: &[nfs_resop4<'_>]) -> Vec<u8> {
    let mut bytes = to_bytes(&ReplyHeader::success(1));
    bytes.extend(to_bytes(&compound4_result_head { status, tag: &[], count: results.len() as u32 }));
    for result in results {
        bytes.extend(to_bytes(result));
    }
    bytes
}

fn sequenced() -> nfs_resop4<'static> {
    nfs_resop4::SEQUENCE(Ok(SEQUENCE4resok {
        sr_sessionid: SESSION,
        sr_sequenceid: AT.sequence,
        sr_slotid: AT.slot,
        sr_highest_slotid: 3,
        sr_target_highest_slotid: 4,
        sr_status_flags: 5,
    }))
}

/// Parses a whole reply, and checks that every part of it gives the same result or "incomplete".
fn parse<T: PartialEq + std::fmt::Debug + Copy>(
    record: &[u8],
    result: impl Fn(&Reply<'_>, usize) -> Result<T, Unparsed>,
) -> T {
    let parse = |arrived: usize| {
        let reply = Reply::new(&record[..arrived], record.len());
        let head = reply.head()?;
        assert_eq!((head.xid, head.verdict), (Xid(1), Verdict::Success));
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

fn at(reply: &Reply<'_>, result_at: usize) -> Result<usize, Unparsed> {
    match reply.compound(result_at, &SESSION, AT)? {
        Compound::Sequenced(at) => Ok(at),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn templates_say_what_the_codec_says(
        xid: u32,
        offset: u64,
        handle in vec(any::<u8>(), 0..=128),
        body in vec(any::<u8>(), 0..=400),
        data in vec(any::<u8>(), 0..40),
        session: [u8; 16],
        other: [u8; 12],
        highest_slot: u32,
    ) {
        let stateid = stateid4 { seqid: 0, other };
        let count = data.len() as u32;
        let cred = opaque_auth { flavor: 1, body: &body };
        let credential = to_bytes(&cred);
        let calls = SessionCalls { credential: &credential, session, highest_slot };
        let sequence = nfs_argop4::SEQUENCE(SEQUENCE4args {
            sa_sessionid: session,
            sa_sequenceid: AT.sequence,
            sa_slotid: AT.slot,
            sa_highest_slotid: highest_slot,
            sa_cachethis: false,
        });
        let file = nfs_argop4::PUTFH(PUTFH4args { object: nfs_fh4(&handle) });
        // Bytes appended before stay.
        let mut out = b"before".to_vec();

        let stable = stable_how4::DATA_SYNC;
        let mut on_file = FileCalls::new(&calls, &vec![7; handle.len()], stateid4::ANONYMOUS, stable);
        on_file.set_file(&calls, &handle, stateid, stable);
        on_file.append_read(&mut out, Xid(xid), AT, offset, count);
        let read = nfs_argop4::READ(READ4args { stateid, offset, count });
        prop_assert_eq!(&out[6..], call(xid, cred, &[sequence.clone(), file.clone(), read]));

        out.truncate(6);
        on_file.append_commit(&mut out, Xid(xid), AT, offset, count);
        let commit = nfs_argop4::COMMIT(COMMIT4args { offset, count });
        prop_assert_eq!(&out[6..], call(xid, cred, &[sequence.clone(), file.clone(), commit]));

        out.truncate(6);
        on_file.append_write(&mut out, Xid(xid), AT, offset, count);
        out.extend_from_slice(&data);
        out.extend_from_slice(&[0; 3][..padding(count) as usize]);
        let write = nfs_argop4::WRITE(WRITE4args { stateid, offset, stable, data: &data });
        prop_assert_eq!(&out[6..], call(xid, cred, &[sequence.clone(), file, write]));

        out.truncate(6);
        CompoundTemplate::new(&calls).append(&mut out, Xid(xid), AT, false, &[]);
        prop_assert_eq!(&out[6..], call(xid, cred, &[sequence]));
    }

    #[test]
    fn results_are_those_of_the_codec(eof: bool, data in vec(any::<u8>(), 0..40), verifier: [u8; 8], count: u32) {
        let (put, ok) = (nfs_resop4::PUTFH(Ok(())), nfsstat4::NFS4_OK);
        let read = reply(ok, &[sequenced(), put.clone(), nfs_resop4::READ(Ok(READ4resok { eof, data: &data }))]);
        let result = parse(&read, |reply, result_at| reply.read4(at(reply, result_at)?));
        prop_assert_eq!((result.status, result.count as usize, result.eof), (0, data.len(), eof));
        prop_assert_eq!(&read[result.payload_at..][..data.len()], &data);

        let committed = stable_how4::FILE_SYNC;
        let written = WRITE4resok { count, committed, writeverf: verifier };
        let write = reply(ok, &[sequenced(), put.clone(), nfs_resop4::WRITE(Ok(written))]);
        let result = parse(&write, |reply, result_at| reply.write4(at(reply, result_at)?));
        prop_assert_eq!(result, WriteResult { status: 0, count, committed: committed as u32, verifier });

        let commit = reply(ok, &[sequenced(), put, nfs_resop4::COMMIT(Ok(COMMIT4resok { writeverf: verifier }))]);
        let result = parse(&commit, |reply, result_at| reply.commit4(at(reply, result_at)?));
        prop_assert_eq!(result, CommitResult { status: 0, verifier });
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in vec(any::<u8>(), 0..200), length in 0_usize..300) {
        let reply = Reply::new(&bytes, length);
        for at in [0, 24, 96] {
            let _ = (reply.compound(at, &SESSION, AT), reply.read4(at + 4), reply.write4(at + 4), reply.commit4(at + 4));
        }
    }
}

#[test]
fn a_status_is_that_of_the_operation_that_failed() {
    use nfsstat4::{NFS4ERR_BADSESSION, NFS4ERR_DELAY, NFS4ERR_MINOR_VERS_MISMATCH, NFS4ERR_STALE};
    let refused = |status, results: &[nfs_resop4<'_>]| {
        parse(&reply(status, results), |reply, at| reply.compound(at, &SESSION, AT))
    };
    assert_eq!(
        refused(NFS4ERR_BADSESSION, &[nfs_resop4::SEQUENCE(Err(NFS4ERR_BADSESSION))]),
        Compound::Refused(NFS4ERR_BADSESSION as u32)
    );
    assert_eq!(refused(NFS4ERR_MINOR_VERS_MISMATCH, &[]), Compound::Refused(NFS4ERR_MINOR_VERS_MISMATCH as u32));
    assert_eq!(refused(nfsstat4::NFS4_OK, &[sequenced()]), Compound::Empty);
    let results: [&[nfs_resop4<'_>]; 2] = [
        &[sequenced(), nfs_resop4::PUTFH(Err(NFS4ERR_STALE))],
        &[sequenced(), nfs_resop4::PUTFH(Ok(())), nfs_resop4::READ(Err(NFS4ERR_DELAY))],
    ];
    for (status, results) in [NFS4ERR_STALE, NFS4ERR_DELAY].into_iter().zip(results) {
        let record = reply(status, results);
        let read = parse(&record, |reply, result_at| reply.read4(at(reply, result_at)?));
        assert_eq!(read, ReadResult { status: status as u32, count: 0, eof: false, payload_at: 0 });
        let write = parse(&record, |reply, result_at| reply.write4(at(reply, result_at)?));
        assert_eq!(write.status, status as u32);
    }
}

#[test]
fn a_reply_that_contradicts_itself_or_its_call_is_malformed() {
    use nfsstat4::{NFS4_OK, NFS4ERR_IO, NFS4ERR_STALE};
    let (put, read) = (nfs_resop4::PUTFH(Ok(())), nfs_resop4::READ(Ok(READ4resok { eof: true, data: b"data" })));
    let good = reply(NFS4_OK, &[sequenced(), put.clone(), read.clone()]);
    let malformed = |record: &[u8], session, call, why| {
        let reply = Reply::new(record, record.len());
        let at = reply.head().unwrap().result_at;
        assert_eq!(reply.compound(at, &session, call), Err(Unparsed::Malformed(why)));
    };
    let another = Malformed::Sequence;
    malformed(&good, [8; 16], AT, another);
    malformed(&good, SESSION, SlotSequence { slot: 8, ..AT }, another);
    malformed(&good, SESSION, SlotSequence { sequence: 1, ..AT }, another);
    let contradiction = Malformed::Status;
    let contradicting: [(_, &[nfs_resop4<'_>]); 5] = [
        (NFS4_OK, &[]),
        (NFS4ERR_IO, &[sequenced()]),
        (NFS4_OK, &[sequenced(), nfs_resop4::PUTFH(Err(NFS4ERR_STALE))]),
        (NFS4ERR_IO, &[sequenced(), put.clone(), read.clone()]),
        (NFS4_OK, &[sequenced(), put.clone(), nfs_resop4::READ(Err(NFS4ERR_IO))]),
    ];
    for (status, results) in contradicting {
        malformed(&reply(status, results), SESSION, AT, contradiction);
    }
    let count = Malformed::ResultMissing;
    malformed(&reply(NFS4_OK, &[sequenced(), put.clone()]), SESSION, AT, count);
    malformed(&reply(NFS4_OK, &[sequenced(), put.clone(), put, read]), SESSION, AT, count);
}

#[test]
fn the_head_of_a_read_reply_has_the_length_that_is_asked_for() {
    let read = nfs_resop4::READ(Ok(READ4resok { eof: false, data: &[0; 4096] }));
    let record = reply(nfsstat4::NFS4_OK, &[sequenced(), nfs_resop4::PUTFH(Ok(())), read]);
    let result = parse(&record, |reply, result_at| reply.read4(at(reply, result_at)?));
    assert_eq!(RECORD_MARK_BYTES + result.payload_at, READ_REPLY_HEAD_BYTES);
}
