//! The procedures that carry the load: READ, WRITE, COMMIT and GETATTR, without allocation, under the volume's limits.

use iocurve_wire::nfs3::{
    COMMIT3res, Failed, GETATTR3res, READ3res, WRITE3res, nfs_fh3, nfsproc3, nfsstat3, stable_how, wcc_data, writeverf3,
};
use iocurve_wire::record::write_record;
use iocurve_wire::rpc::{CallHeader, ReplyHeader};
use iocurve_wire::server_fast::{self, READ_REPLY_BYTES, RangeArgs, WriteArgs};
use iocurve_wire::xdr::Encode;

use super::turn::Turn;
use super::{nfs3, nfs4};
use crate::pending::{Delayed, Operation};
use crate::qos::Extent;
use crate::served::Export;
use crate::served::rules::Refusal;
use crate::stats::IoStats;
use crate::store::access::{Caller, Permissions};
use crate::store::write_buffer::WriteBuffer;
use crate::store::{Store, TRANSFER_BYTES_MAX, Written};

/// Answers a call of the NFS program if its procedure is one of these; returns `false` if it is not.
#[inline]
pub(super) fn answer(turn: &mut Turn<'_>, header: &CallHeader<'_>, arguments: &[u8]) -> bool {
    use nfsproc3::{NFSPROC3_COMMIT, NFSPROC3_GETATTR, NFSPROC3_READ, NFSPROC3_WRITE};
    let Some(procedure @ (NFSPROC3_READ | NFSPROC3_WRITE | NFSPROC3_COMMIT | NFSPROC3_GETATTR)) =
        nfsproc3::from_u32(header.proc)
    else {
        return false;
    };
    let xid = header.xid;
    if let Err(stat) = turn.credential.take(&header.cred) {
        turn.refuse_credential(xid, stat);
        return true;
    }
    let answered = match procedure {
        NFSPROC3_READ => RangeArgs::parse(arguments).map(|arguments| read(turn, xid, &arguments)),
        NFSPROC3_WRITE => WriteArgs::parse(arguments, arguments.len()).map(|arguments| write(turn, xid, &arguments)),
        NFSPROC3_COMMIT => RangeArgs::parse(arguments).map(|arguments| commit(turn, xid, arguments.file)),
        _ => server_fast::parse_getattr(arguments).map(|object| getattr(turn, xid, object)),
    };
    if answered.is_err() {
        turn.refuse_arguments(xid);
    }
    true
}

/// GETATTR (RFC 1813 §3.3.1).
#[inline]
fn getattr(turn: &mut Turn<'_>, xid: u32, object: &[u8]) {
    turn.count_procedure(nfsproc3::NFSPROC3_GETATTR as u32);
    let export = turn.export(object);
    if let Err(refusal) = turn.check(export, false) {
        return refuse(turn, xid, nfsproc3::NFSPROC3_GETATTR, refusal);
    }
    match export.files.getattr(object) {
        Ok(attributes) => turn.batch.bytes(&server_fast::getattr_reply(xid, &attributes)),
        Err(status) => turn.reply::<GETATTR3res>(xid, &Err(Failed { status, rest: () })),
    }
}

/// READ (RFC 1813 §3.3.6); under limits it is executed when it is due.
#[inline]
fn read(turn: &mut Turn<'_>, xid: u32, arguments: &RangeArgs<'_>) {
    let export = turn.export(arguments.file);
    if let Err(refusal) = turn.admit(export, false) {
        return refuse(turn, xid, nfsproc3::NFSPROC3_READ, refusal);
    }
    if export.throttle.is_limited()
        && let Some(bytes) = read_bytes(export, turn.credential.caller(), arguments)
        && let Some(file) = nfs_fh3::new(arguments.file)
    {
        let RangeArgs { offset, count, .. } = *arguments;
        let caller = *turn.credential.caller();
        let extent = Extent::of(arguments.file, offset, bytes);
        if !turn.is_read_due(export, &extent, |_| Operation::Read { xid, caller, file, offset, count }) {
            return;
        }
    }
    read_now(turn, export, xid, None, arguments);
}

/// Bytes that a READ will find; `None` if it will fail, which costs nothing.
fn read_bytes(export: &Export, caller: &Caller, arguments: &RangeArgs<'_>) -> Option<u64> {
    let attributes = export.files.getattr(arguments.file).ok()?;
    Permissions::of(&attributes).check_read(caller).ok()?;
    let count = u64::from(arguments.count.min(TRANSFER_BYTES_MAX));
    Some(count.min(attributes.size.saturating_sub(arguments.offset)))
}

/// Carries out a READ for a caller, or for that of the last credential.
#[inline]
fn read_now(turn: &mut Turn<'_>, export: &Export, xid: u32, caller: Option<&Caller>, arguments: &RangeArgs<'_>) {
    let RangeArgs { file, offset, count } = *arguments;
    let count = count.min(turn.read_bytes_max());
    let caller = caller.unwrap_or_else(|| turn.credential.caller());
    let head = turn.batch.gap(READ_REPLY_BYTES);
    match export.files.read(caller, file, offset, count, turn.batch) {
        Ok(read) => {
            turn.batch.patch(head, &server_fast::read_reply(xid, &read.attributes, read.count, read.eof));
            turn.count(export.number, &IoStats { reads: 1, read_bytes: u64::from(read.count), ..IoStats::default() });
        }
        Err(status) => {
            turn.batch.rewind(head);
            let attributes = export.files.getattr(file).ok();
            turn.reply::<READ3res<'_>>(xid, &Err(Failed { status, rest: attributes }));
        }
    }
}

/// WRITE (RFC 1813 §3.3.7); it is executed at once, and under limits its reply waits.
#[inline]
fn write(turn: &mut Turn<'_>, xid: u32, arguments: &WriteArgs<'_>) {
    let WriteArgs { file, offset, stable, length, arrived } = *arguments;
    let export = turn.export(file);
    if let Err(refusal) = turn.admit(export, true) {
        return refuse(turn, xid, nfsproc3::NFSPROC3_WRITE, refusal);
    }
    let verifier = turn.served.write_verifier(export);
    match export.files.write(turn.credential.caller(), file, offset, &arrived[..length as usize], stable) {
        Ok(written) => {
            write_done(turn, export, xid, &written, &Extent::of(file, offset, length.into()), stable, verifier);
        }
        Err(status) => write_failed(turn, export, xid, file, status),
    }
}

/// A WRITE whose data are arriving.
#[derive(Debug)]
pub(crate) struct ArrivingWrite {
    xid: u32,
    stable: stable_how,
    pub(crate) buffer: WriteBuffer,
}

/// Begins a WRITE of which not all data have arrived. Returns `None` if it was refused and answered.
pub(super) fn begin_write(
    turn: &mut Turn<'_>,
    header: &CallHeader<'_>,
    arguments: &WriteArgs<'_>,
) -> Option<ArrivingWrite> {
    let (xid, export) = (header.xid, turn.export(arguments.file));
    let WriteArgs { file, offset, stable, length, arrived } = *arguments;
    if let Err(stat) = turn.credential.take(&header.cred) {
        turn.refuse_credential(xid, stat);
        return None;
    }
    if let Err(refusal) = turn.admit(export, true) {
        refuse(turn, xid, nfsproc3::NFSPROC3_WRITE, refusal);
        return None;
    }
    match export.files.begin_write(turn.credential.caller(), file, offset, length) {
        Ok(mut buffer) => {
            // The padding may have begun to arrive, too.
            buffer.copy_from(&arrived[..arrived.len().min(length as usize)]);
            Some(ArrivingWrite { xid, stable, buffer })
        }
        Err(status) => {
            write_failed(turn, export, xid, file, status);
            None
        }
    }
}

/// Finishes a WRITE whose data have all been received.
pub(crate) fn finish_write(turn: &mut Turn<'_>, write: ArrivingWrite) {
    let ArrivingWrite { xid, stable, buffer } = write;
    let file = buffer.file;
    let extent = Extent::of(file.as_bytes(), buffer.offset, buffer.length() as u64);
    let export = turn.export(file.as_bytes());
    let verifier = turn.served.write_verifier(export);
    match export.files.finish_write(buffer, stable) {
        Ok(written) => write_done(turn, export, xid, &written, &extent, stable, verifier),
        Err(status) => write_failed(turn, export, xid, file.as_bytes(), status),
    }
}

#[inline]
fn write_done(
    turn: &mut Turn<'_>,
    export: &Export,
    xid: u32,
    Written { before, after }: &Written,
    extent: &Extent,
    stable: stable_how,
    verifier: writeverf3,
) {
    turn.count(export.number, &IoStats { writes: 1, write_bytes: extent.bytes, ..IoStats::default() });
    let reply = server_fast::write_reply(xid, before, after, extent.bytes as u32, stable, verifier);
    if !export.throttle.is_limited() || turn.is_reply_due(export, extent, |_| reply.into()) {
        turn.batch.bytes(&reply);
    }
}

fn write_failed(turn: &mut Turn<'_>, export: &Export, xid: u32, file: &[u8], status: nfsstat3) {
    let rest = wcc_data { before: None, after: export.files.getattr(file).ok() };
    turn.reply::<WRITE3res>(xid, &Err(Failed { status, rest }));
}

/// COMMIT (RFC 1813 §3.3.21); the whole file is committed, whatever the range.
fn commit(turn: &mut Turn<'_>, xid: u32, file: &[u8]) {
    turn.count_commit();
    turn.count_procedure(nfsproc3::NFSPROC3_COMMIT as u32);
    let export = turn.export(file);
    if let Err(refusal) = turn.check(export, false) {
        return refuse(turn, xid, nfsproc3::NFSPROC3_COMMIT, refusal);
    }
    let files = &export.files;
    match files.commit(file) {
        Ok(Written { before, after }) => {
            turn.batch.bytes(&server_fast::commit_reply(xid, &before, &after, turn.served.write_verifier(export)));
        }
        Err(status) => {
            let rest = wcc_data { before: None, after: files.getattr(file).ok() };
            turn.reply::<COMMIT3res>(xid, &Err(Failed { status, rest }));
        }
    }
}

/// Refuses a call without a word about the file.
#[cold]
fn refuse(turn: &mut Turn<'_>, xid: u32, procedure: nfsproc3, refusal: Refusal) {
    turn.batch.append(|out| {
        write_record(out, |writer| {
            ReplyHeader::success(xid).encode(writer);
            nfs3::refuse(procedure, refusal.status3(), writer);
        });
    });
}

/// Does the rest of an operation that waited and is due.
pub(crate) fn resume(turn: &mut Turn<'_>, delayed: Delayed) {
    let Delayed { waited_ns, export, operation, .. } = delayed;
    turn.count(export, &IoStats { throttled_operations: 1, throttled_ns: waited_ns, ..IoStats::default() });
    carry_out(turn, turn.served.exports.numbered(export), operation);
}

fn carry_out(turn: &mut Turn<'_>, export: &Export, operation: Operation) {
    match operation {
        Operation::Read { xid, caller, file, offset, count } => {
            read_now(turn, export, xid, Some(&caller), &RangeArgs { file: file.as_bytes(), offset, count });
        }
        Operation::Reply(reply) => turn.batch.bytes(&reply),
        Operation::Compound(suspended) => nfs4::resume(turn, *suspended),
    }
}
