//! Any bytes as a reply to the NFS client's hot path, of either version: no panic, a payload inside the record, and the same result from every
//! part of a reply that suffices for one. What is taken for the reply to a COMPOUND is what the codec reads.

#![no_main]

use arbitrary::Arbitrary;
use iocurve_wire::client_fast::nfs4::{Compound, SlotSequence};
use iocurve_wire::client_fast::{Reply, Unparsed, Verdict};
use iocurve_wire::nfs4::compound4_result_head;
use iocurve_wire::nfs4::operations::nfs_resop4;
use iocurve_wire::xdr::{Decode, Reader};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
struct Received<'a> {
    /// Bytes that have arrived of the record.
    arrived: u16,
    /// A head that the RPC layer accepts precedes the bytes.
    accepted: bool,
    bytes: &'a [u8],
}

/// The call that is answered; few inputs would have another session, slot or sequence id.
const SESSION: [u8; 16] = [0; 16];
const CALL: SlotSequence = SlotSequence { slot: 0, sequence: 0 };

/// All that the client reads from a reply, as text.
fn parsed(reply: &Reply<'_>) -> Vec<Result<String, Unparsed>> {
    let head = match reply.head() {
        Ok(head) if head.verdict == Verdict::Success => head,
        other => return vec![other.map(|head| format!("{head:?}"))],
    };
    let at = head.result_at;
    let mut all = vec![
        reply.read(at).map(|result| format!("{result:?}")),
        reply.write(at).map(|result| format!("{result:?}")),
        reply.commit(at).map(|result| format!("{result:?}")),
        reply.compound(at, &SESSION, CALL).map(|result| format!("{result:?}")),
    ];
    if let Ok(Compound::Sequenced(at)) = reply.compound(at, &SESSION, CALL) {
        all.push(reply.read4(at).map(|result| format!("{result:?}")));
        all.push(reply.write4(at).map(|result| format!("{result:?}")));
        all.push(reply.commit4(at).map(|result| format!("{result:?}")));
    }
    all
}

/// A READ of version 4.1 that succeeded says what the codec says.
fn check_read4(record: &[u8]) {
    let reply = Reply::new(record, record.len());
    let Ok(head) = reply.head() else { return };
    let Ok(Compound::Sequenced(at)) = reply.compound(head.result_at, &SESSION, CALL) else { return };
    let Some(read) = reply.read4(at).ok().filter(|read| read.status == 0) else { return };
    let payload = &record[read.payload_at..][..read.count as usize];
    let mut reader = Reader::new(&record[head.result_at..]);
    if compound4_result_head::decode(&mut reader).is_err() {
        return;
    }
    let results: Vec<_> = std::iter::from_fn(|| nfs_resop4::decode(&mut reader).ok()).take(3).collect();
    if let [_, _, nfs_resop4::READ(Ok(result))] = results.as_slice() {
        assert_eq!((result.data, result.eof), (payload, read.eof));
    }
}

fuzz_target!(|received: Received<'_>| {
    let mut record = Vec::new();
    if received.accepted {
        record.extend([0, 0, 0, 7, 0, 0, 0, 1]);
        record.extend([0; 16]);
    }
    record.extend_from_slice(received.bytes);
    let whole = parsed(&Reply::new(&record, record.len()));
    let arrived = (received.arrived as usize).min(record.len());
    for (part, whole) in parsed(&Reply::new(&record[..arrived], record.len())).iter().zip(&whole) {
        assert!(part == whole || *part == Err(Unparsed::Incomplete) || whole.is_err(), "{part:?} {whole:?}");
    }
    check_read4(&record);
});
