//! The procedures that carry the load: READ, WRITE, COMMIT and GETATTR, without allocation, under the volume's limits.

use iocurve_meter::Nanos;
use iocurve_wire::nfs3::{
    COMMIT3res, Failed, GETATTR3res, READ3res, WRITE3res, nfs_fh3, nfsstat3, stable_how, wcc_data,
};
use iocurve_wire::record::write_record;
use iocurve_wire::rpc::ReplyHeader;
use iocurve_wire::server_fast::{self, READ_REPLY_BYTES, RangeArgs, WriteArgs};
use iocurve_wire::xdr::Encode;

use crate::access::Permissions;
use crate::session::Session;
use crate::stats::IoStats;
use crate::store::{Caller, Landing, Store, TRANSFER_BYTES_MAX, Written};
use crate::worker::{Delayed, Operation, Worker};

/// GETATTR (RFC 1813 §3.3.1).
#[inline]
pub fn getattr<S: Store>(worker: &mut Worker<S>, xid: u32, object: &[u8]) {
    worker.counters.calls.other_operations.add(1);
    match worker.served.store.getattr(object) {
        Ok(attributes) => worker.batch.bytes(&server_fast::getattr_reply(xid, &attributes)),
        Err(status) => reply::<S, GETATTR3res>(worker, xid, &Err(Failed { status, rest: () })),
    }
}

/// READ (RFC 1813 §3.3.6); under limits it is carried out when it is due.
#[inline]
pub fn read<S: Store>(
    session: &mut Session,
    worker: &mut Worker<S>,
    (xid, by): (u32, &Caller),
    arguments: RangeArgs<'_>,
    now: Nanos,
) {
    let RangeArgs { file, offset, count } = arguments;
    let export = worker.served.store.export_of(file);
    if worker.served.exports[export].throttle.is_limited()
        && let Some(bytes) = read_bytes(worker, by, &arguments)
        && let Some(file) = nfs_fh3::new(file)
    {
        let operation = Operation::Read { xid, by: *by, file, offset, count };
        if let Some(operation) = session.delay(worker, export, bytes, operation, now) {
            carry_out(worker, operation);
        }
        return;
    }
    read_now(worker, (xid, by), file, offset, count);
}

/// How many bytes a READ will find; `None` if it will fail, which costs nothing.
fn read_bytes<S: Store>(worker: &Worker<S>, by: &Caller, arguments: &RangeArgs<'_>) -> Option<u64> {
    let attributes = worker.served.store.getattr(arguments.file).ok()?;
    Permissions::of(&attributes).check_read(by).ok()?;
    let count = u64::from(arguments.count.min(TRANSFER_BYTES_MAX));
    Some(count.min(attributes.size.saturating_sub(arguments.offset)))
}

#[inline]
fn read_now<S: Store>(worker: &mut Worker<S>, (xid, by): (u32, &Caller), file: &[u8], offset: u64, count: u32) {
    let head = worker.batch.gap(READ_REPLY_BYTES);
    match worker.served.store.read(by, file, offset, count, &mut worker.batch) {
        Ok(read) => {
            worker.batch.patch(head, &server_fast::read_reply(xid, &read.attributes, read.count, read.eof));
            let export = worker.served.store.export_of(file);
            worker.count(export, &IoStats { reads: 1, read_bytes: u64::from(read.count), ..IoStats::default() });
        }
        Err(status) => {
            worker.batch.rewind(head);
            let attributes = worker.served.store.getattr(file).ok();
            reply::<S, READ3res<'_>>(worker, xid, &Err(Failed { status, rest: attributes }));
        }
    }
}

/// WRITE (RFC 1813 §3.3.7); it is carried out at once, and under limits its reply waits.
#[inline]
pub fn write<S: Store>(
    session: &mut Session,
    worker: &mut Worker<S>,
    (xid, by): (u32, &Caller),
    arguments: &WriteArgs<'_>,
    now: Nanos,
) {
    let WriteArgs { file, offset, stable, length, arrived } = *arguments;
    let export = worker.served.store.export_of(file);
    match worker.served.store.write(by, file, offset, &arrived[..length as usize], stable) {
        Ok(written) => write_done(session, worker, xid, export, &written, (length, stable), now),
        Err(status) => write_failed(worker, xid, file, status),
    }
}

/// A WRITE whose data were received in place.
pub fn landed<S: Store>(
    session: &mut Session,
    worker: &mut Worker<S>,
    xid: u32,
    landing: Landing,
    stable: stable_how,
    now: Nanos,
) {
    let (file, length) = (landing.file, landing.length() as u32);
    let export = worker.served.store.export_of(file.as_bytes());
    match worker.served.store.landed(landing, stable) {
        Ok(written) => write_done(session, worker, xid, export, &written, (length, stable), now),
        Err(status) => write_failed(worker, xid, file.as_bytes(), status),
    }
}

#[inline]
fn write_done<S: Store>(
    session: &mut Session,
    worker: &mut Worker<S>,
    xid: u32,
    export: usize,
    Written { before, after }: &Written,
    (length, stable): (u32, stable_how),
    now: Nanos,
) {
    worker.count(export, &IoStats { writes: 1, write_bytes: u64::from(length), ..IoStats::default() });
    let reply = server_fast::write_reply(xid, before, after, length, stable, worker.served.writeverf);
    if !worker.served.exports[export].throttle.is_limited() {
        return worker.batch.bytes(&reply);
    }
    if let Some(operation) = session.delay(worker, export, u64::from(length), Operation::Reply(reply.into()), now) {
        carry_out(worker, operation);
    }
}

/// Answers a WRITE with an error.
pub fn write_failed<S: Store>(worker: &mut Worker<S>, xid: u32, file: &[u8], status: nfsstat3) {
    let rest = wcc_data { before: None, after: worker.served.store.getattr(file).ok() };
    reply::<S, WRITE3res>(worker, xid, &Err(Failed { status, rest }));
}

/// COMMIT (RFC 1813 §3.3.21); the whole file is committed, whatever the range.
pub fn commit<S: Store>(worker: &mut Worker<S>, xid: u32, arguments: RangeArgs<'_>) {
    worker.counters.calls.commits.add(1);
    match worker.served.store.commit(arguments.file) {
        Ok(Written { before, after }) => {
            worker.batch.bytes(&server_fast::commit_reply(xid, &before, &after, worker.served.writeverf));
        }
        Err(status) => {
            let rest = wcc_data { before: None, after: worker.served.store.getattr(arguments.file).ok() };
            reply::<S, COMMIT3res>(worker, xid, &Err(Failed { status, rest }));
        }
    }
}

/// Does what is left of an operation that waited.
pub fn resume<S: Store>(worker: &mut Worker<S>, Delayed { waited_ns, export, operation, .. }: Delayed) {
    worker.count(export, &IoStats { throttled_operations: 1, throttled_ns: waited_ns, ..IoStats::default() });
    carry_out(worker, operation);
}

fn carry_out<S: Store>(worker: &mut Worker<S>, operation: Operation) {
    match operation {
        Operation::Read { xid, by, file, offset, count } => {
            read_now(worker, (xid, &by), file.as_bytes(), offset, count);
        }
        Operation::Reply(reply) => worker.batch.bytes(&reply),
    }
}

fn reply<S, R: Encode>(worker: &mut Worker<S>, xid: u32, result: &R) {
    worker.batch.append(|out| {
        write_record(out, |writer| {
            ReplyHeader::success(xid).encode(writer);
            result.encode(writer);
        });
    });
}
