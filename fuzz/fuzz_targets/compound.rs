//! COMPOUNDs as records, and their replies.

use iocurve_wire::nfs3::NFS_PROGRAM;
use iocurve_wire::nfs4::operations::nfs_resop4;
use iocurve_wire::nfs4::{NFS_V4, NFSPROC4_COMPOUND, compound4_head, compound4_result_head, nfsstat4};
use iocurve_wire::record::{RecordMark, write_record};
use iocurve_wire::rpc::{CallHeader, ReplyHeader, opaque_auth};
use iocurve_wire::xdr::{Decode, Encode, Reader};

/// The record of a COMPOUND of these operations.
pub fn record(xid: u32, operations: &[Vec<u8>]) -> Vec<u8> {
    let (cred, verf) = (opaque_auth::NONE, opaque_auth::NONE);
    let mut record = Vec::new();
    write_record(&mut record, |writer| {
        let (prog, vers, proc) = (NFS_PROGRAM, NFS_V4, NFSPROC4_COMPOUND);
        CallHeader { xid, rpcvers: 2, prog, vers, proc, cred, verf }.encode(writer);
        compound4_head { tag: b"fuzz", minorversion: 1, count: operations.len() as u32 }.encode(writer);
        operations.iter().for_each(|operation| writer.bytes(operation));
    });
    record
}

/// Checks a reply, and returns its results with the operations that they are of.
pub fn results(reply: &[u8], xid: u32) -> (nfsstat4, Vec<nfs_resop4<'_>>) {
    let (mark, reply) = reply.split_first_chunk().expect("an answer");
    assert_eq!(RecordMark::from_bytes(*mark).length as usize, reply.len(), "one answer");
    let mut reader = Reader::new(reply);
    assert_eq!(ReplyHeader::decode(&mut reader).expect("a reply"), ReplyHeader::success(xid));
    let head = compound4_result_head::decode(&mut reader).expect("the result of a COMPOUND");
    let mut found = Vec::new();
    for at in 0..head.count {
        let status = nfsstat4::decode(&mut Reader::new(&reader.rest()[4..])).expect("a status");
        assert_eq!(status, if at + 1 < head.count { nfsstat4::NFS4_OK } else { head.status });
        match nfs_resop4::decode(&mut reader) {
            Ok(result) => found.push(result),
            // The last operation may be one that is not executed here: behind its number there is a status alone.
            Err(_) => assert_eq!((at + 1, reader.rest().len()), (head.count, 4)),
        }
    }
    (head.status, found)
}
