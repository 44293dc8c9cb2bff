//! The context of a procedure: the exports, the batch that its reply goes into, and the connection that it answers.
//!
//! A connection has its turn when its thread serves it. A [`Turn`] lends the parts of thread and connection that programs may use,
//! so that programs know neither of the two.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use iocurve_meter::{Clock, Nanos};
use iocurve_wire::record::write_record;
use iocurve_wire::rpc::{Accepted, Rejected, ReplyHeader, auth_stat};
use iocurve_wire::xdr::Encode;

use crate::memory::{TIGHT_BYTES, Tight};
use crate::nfs4_state::NfsSession;
use crate::pending::{ConnectionId, Operation, Pending, Timers};
use crate::qos::Extent;
use crate::qos::Key;
use crate::qos::throttle::Arrival;
use crate::reply::batch::Batch;
use crate::served::credential::Credential;
use crate::served::rules::{ClientAccess, Refusal};
use crate::served::{Export, Exports, Served};
use crate::stats::{Counters, IoStats};
use crate::store::TRANSFER_BYTES_MAX;

/// One turn of a connection.
#[derive(Debug)]
pub(crate) struct Turn<'t> {
    pub(crate) served: &'t Served,
    /// Replies of this turn, in the order in which they leave.
    pub(crate) batch: &'t mut Batch,
    /// The caller of the connection's last call.
    pub(crate) credential: &'t mut Credential,
    /// The connection's operations that are not answered.
    pub(crate) pending: &'t mut Pending,
    /// The NFSv4.1 session that the connection used last.
    pub(crate) nfs_session: &'t mut Option<Arc<NfsSession>>,
    pub(crate) peer: &'t Peer,
    pub(crate) now: Nanos,
    /// Memory for connections that is short.
    pub(crate) tight: Tight,
    pub(crate) thread: ThreadParts<'t>,
}

/// The parts of the thread that only [`Turn`] itself uses.
#[derive(Debug)]
pub(crate) struct ThreadParts<'t> {
    pub(crate) number: usize,
    pub(crate) timers: &'t mut Timers,
    pub(crate) counters: &'t Counters,
    /// READs and WRITEs of this turn.
    pub(crate) io: &'t mut IoStats,
    /// Ends the turn in time; `None` where no time passes.
    pub(crate) length: Option<TurnLength<'t>>,
}

/// The time that a turn may take. The clock is read after a number of operations.
#[derive(Debug)]
pub(crate) struct TurnLength<'t> {
    pub(crate) clock: &'t Clock,
    /// Its calls may wait for a disk.
    pub(crate) may_wait: bool,
    /// Operations since the clock was read, and how many there are between two readings.
    pub(crate) operations: u32,
    pub(crate) stride: u32,
    /// Longest time.
    pub(crate) limit_ns: Nanos,
    /// When it is over; `None` before the first reading.
    pub(crate) end: Option<Nanos>,
}

impl TurnLength<'_> {
    /// Reads the clock.
    #[cold]
    pub(crate) fn is_over(&mut self) -> bool {
        self.operations = 0;
        let now = self.clock.now();
        now >= *self.end.get_or_insert(now + self.limit_ns)
    }
}

/// The client's end of a connection.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) connection: ConnectionId,
    /// The client's address as text.
    pub(crate) address: String,
    /// Names the client and the connection where limits are shared.
    pub(crate) path: [Key; 2],
    /// The use that the client may make of each export, by number.
    access: Box<[ClientAccess]>,
}

impl Peer {
    pub(crate) fn new(connection: ConnectionId, peer: SocketAddr, exports: &Exports) -> Self {
        let client = match peer.ip() {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        };
        let (address, access) = (peer.ip().to_string(), exports.access(peer));
        Self { connection, address, path: [client, Key::from(connection)], access }
    }

    /// The use that the client may make of an export.
    #[inline]
    pub(crate) fn access(&self, export: &Export) -> ClientAccess {
        self.access[export.number]
    }
}

impl<'t> Turn<'t> {
    /// True if calls of this turn have kept the thread from its other connections for long.
    #[inline]
    pub(crate) fn is_long(&mut self) -> bool {
        let length = self.thread.length.as_mut();
        length.is_some_and(|length| length.operations >= length.stride && length.is_over())
    }

    /// Notes the number of operations of a call.
    #[inline]
    pub(crate) fn spend(&mut self, operations: u32) {
        if let Some(length) = &mut self.thread.length {
            length.operations = length.operations.saturating_add(operations);
        }
    }

    /// True if calls may wait for a disk.
    pub(crate) fn may_wait(&self) -> bool {
        self.thread.length.as_ref().is_some_and(|length| length.may_wait)
    }

    /// The export of a handle.
    #[inline]
    pub(crate) fn export(&self, file: &[u8]) -> &'t Export {
        self.served.exports.of(file)
    }

    /// Fails unless the client may use an export in this way.
    #[inline]
    pub(crate) fn check(&self, export: &Export, is_change: bool) -> Result<(), Refusal> {
        self.peer.access(export).check(is_change)
    }

    /// Admits a call if the client may use the export in this way. Take the call's credential first; its caller in this export is the
    /// credential's then.
    #[inline]
    pub(crate) fn admit(&mut self, export: &Export, is_change: bool) -> Result<(), Refusal> {
        let access = self.peer.access(export);
        access.check(is_change)?;
        self.credential.enter(export, access);
        Ok(())
    }

    /// Most bytes of data that a READ may find now; a client reads on behind them.
    #[inline]
    pub(crate) fn read_bytes_max(&self) -> u32 {
        if self.tight.transfers { TIGHT_BYTES as u32 } else { TRANSFER_BYTES_MAX }
    }

    /// True if the limits of an export have admitted a READ of an extent, and it is due now. Otherwise `operation` makes what waits.
    pub(crate) fn is_read_due(
        &mut self,
        export: &Export,
        extent: &Extent,
        operation: impl FnOnce(&mut Self) -> Operation,
    ) -> bool {
        self.is_due(export, false, extent, operation)
    }

    /// As [`Self::is_read_due`], for the reply of a WRITE.
    pub(crate) fn is_reply_due(
        &mut self,
        export: &Export,
        extent: &Extent,
        reply: impl FnOnce(&mut Self) -> Box<[u8]>,
    ) -> bool {
        self.is_due(export, true, extent, |turn| Operation::Reply(reply(turn)))
    }

    fn is_due(
        &mut self,
        export: &Export,
        is_write: bool,
        extent: &Extent,
        operation: impl FnOnce(&mut Self) -> Operation,
    ) -> bool {
        self.pending.throttled(export.throttle.requests_in_flight());
        let (thread, arrived, path) = (self.thread.number, self.now, self.peer.path);
        let arrival = Arrival { thread, export: export.number, arrived, path };
        let mut operation = Some(operation);
        let mut make = |turn: &mut Self| {
            let made = operation.take().expect("it waits once")(turn);
            turn.pending.wait(made.bytes());
            made
        };
        match export.throttle.admit(arrival, is_write, extent, || make(self)) {
            Some(due) if due <= self.now => return true,
            Some(due) => {
                let operation = make(self);
                self.thread.timers.push(arrival.delayed(due, operation));
            }
            None => {}
        }
        false
    }

    /// Counts READs and WRITEs of an export.
    #[inline]
    pub(crate) fn count(&mut self, export: usize, io: &IoStats) {
        self.thread.counters.exports[export].add(io);
        *self.thread.io += *io;
    }

    /// Counts a COMMIT.
    #[inline]
    pub(crate) fn count_commit(&self) {
        self.thread.counters.calls.commits.add(1);
    }

    /// Counts a call that is neither READ nor WRITE nor COMMIT.
    #[inline]
    pub(crate) fn count_other(&self) {
        self.thread.counters.calls.other_operations.add(1);
    }

    /// Counts a call of an `NFSv3` procedure by its number.
    #[inline]
    pub(crate) fn count_procedure(&self, number: u32) {
        if let Some(counter) = self.thread.counters.nfs3.get(number as usize) {
            counter.add(1);
        }
    }

    /// Counts an operation of a COMPOUND by its number.
    #[inline]
    pub(crate) fn count_operation(&self, number: u32) {
        if let Some(counter) = self.thread.counters.nfs4.get(number as usize) {
            counter.add(1);
        }
    }

    /// Appends a reply whose result is in the codec's form.
    pub(crate) fn reply<R: Encode>(&mut self, xid: u32, result: &R) {
        self.batch.append(|out| {
            write_record(out, |writer| {
                ReplyHeader::success(xid).encode(writer);
                result.encode(writer);
            });
        });
    }

    /// Appends a reply that has no result.
    pub(crate) fn refuse(&mut self, reply: &ReplyHeader<'_>) {
        self.batch.append(|out| write_record(out, |writer| reply.encode(writer)));
    }

    /// Appends the reply to a call whose arguments cannot be decoded.
    pub(crate) fn refuse_arguments(&mut self, xid: u32) {
        self.refuse(&ReplyHeader::accepted(xid, Accepted::GARBAGE_ARGS(())));
    }

    /// Appends the reply to a call whose credential is not accepted.
    pub(crate) fn refuse_credential(&mut self, xid: u32, stat: auth_stat) {
        self.refuse(&ReplyHeader::denied(xid, Rejected::AUTH_ERROR(stat)));
    }
}
