//! State of a COMPOUND (RFC 8881 §16.2.3): what its operations read, set and append to.

use iocurve_wire::nfs4::{nfs_opnum4, nfsstat4, stateid4};
use iocurve_wire::record::{RECORD_MARK_BYTES, RecordMark};
use iocurve_wire::rpc::ReplyHeader;
use iocurve_wire::xdr::{Encode, Writer};

use super::place::{Found, Place};
use super::{refused, status_of};
use crate::nfs4_state::{NfsSession, Principal, SlotUse};
use crate::programs::turn::Turn;
use crate::qos::Extent;
use crate::reply::batch::Mark;
use crate::served::pseudo_root::PseudoDirectory;
use crate::store::access::Caller;
use crate::store::write_buffer::WriteBuffer;

/// Record mark, and an RPC reply that says "accepted, `AUTH_NONE`, success".
pub(super) const REPLY_HEAD_BYTES: usize = RECORD_MARK_BYTES + 24;

/// The caller while no filehandle is set.
pub(super) const NOBODY: Caller = Caller::new(65534, 65534);

/// A COMPOUND that is being executed.
#[derive(Debug)]
pub(super) struct Compound<'c, 't> {
    pub(super) turn: &'c mut Turn<'t>,
    /// The user that the client states; `None` if it states none.
    pub(super) stated: Option<Caller>,
    /// The user that it stands for in the export of the current filehandle.
    pub(super) caller: Caller,
    pub(super) principal: Principal,
    pub(super) current: Option<Place>,
    pub(super) saved: Option<Place>,
    pub(super) stateid: Option<stateid4>,
    pub(super) saved_stateid: Option<stateid4>,
    pub(super) slot: Option<SlotUse>,
    /// Number of operations of the call, and of results so far.
    pub(super) count: u32,
    pub(super) done: u32,
    pub(super) received: Received,
    /// The reply is to be kept in the slot.
    pub(super) is_kept: bool,
    /// A READ that waited for limits is due.
    pub(super) is_due: bool,
    /// Number of the export that WRITEs went to, and their data; those of several count as if they followed each other.
    pub(super) written: Option<(usize, Extent)>,
    pub(super) is_counted: bool,
    pub(super) reply: ReplyStart,
}

/// Facts about a call that its bytes do not contain.
#[derive(Debug)]
pub(super) struct Received {
    /// Bytes of the whole call.
    pub(super) call_bytes: usize,
    /// The data of its first WRITE, if they are not in it.
    pub(super) buffer: Option<WriteBuffer>,
}

/// Start of the reply in the batch, and the fields that are filled in when it is complete.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReplyStart {
    pub(super) xid: u32,
    pub(super) record: Mark,
    pub(super) count: Mark,
    /// Length of the batch before the reply, and before the results.
    pub(super) start: usize,
    pub(super) results: usize,
}

/// The step after an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// It has this status, and its result is in the batch.
    Done(nfsstat4),
    /// It waits for limits; nothing of its result is in the batch.
    Suspend(Extent),
    /// The whole reply has been replaced by one that was given before.
    Replayed,
}

impl Compound<'_, '_> {
    /// Appends a result.
    #[inline]
    pub(super) fn put<R: Encode>(&mut self, operation: nfs_opnum4, result: &Result<R, nfsstat4>) -> Next {
        self.write(|writer| {
            operation.encode(writer);
            result.encode(writer);
        });
        Next::Done(result.as_ref().err().copied().unwrap_or(nfsstat4::NFS4_OK))
    }

    pub(super) fn write(&mut self, write: impl FnOnce(&mut Writer<'_>)) {
        self.turn.batch.append(|out| write(&mut Writer::new(out)));
    }

    /// Bytes that the reply may still have.
    pub(super) fn room(&self) -> usize {
        let used = self.turn.batch.length() - self.reply.start - RECORD_MARK_BYTES;
        let most = self.session().map_or(0, |session| {
            let fore = session.fore;
            if self.is_kept {
                fore.ca_maxresponsesize.min(fore.ca_maxresponsesize_cached)
            } else {
                fore.ca_maxresponsesize
            }
        });
        (most as usize).saturating_sub(used)
    }

    /// True if the COMPOUND may wait with its results so far, and `argument_bytes` of its call.
    pub(super) fn may_wait(&self, argument_bytes: usize) -> bool {
        let results = self.turn.batch.length() - self.reply.results;
        self.turn.pending.has_room(results + argument_bytes, self.turn.tight.waiting)
    }

    /// Notes the result of SEQUENCE.
    pub(super) fn sequenced(&mut self, slot: SlotUse, is_kept: bool) -> Next {
        (self.slot, self.is_kept) = (Some(slot), is_kept);
        Next::Done(nfsstat4::NFS4_OK)
    }

    /// Replaces the reply so far by one that was given before: status, tag and results.
    pub(super) fn replay(&mut self, kept: &[u8]) -> Next {
        self.turn.batch.rewind(self.reply.record);
        let (xid, length) = (self.reply.xid, (kept.len() + REPLY_HEAD_BYTES - RECORD_MARK_BYTES) as u32);
        self.write(|writer| {
            writer.bytes(&RecordMark { length, last: true }.to_bytes());
            ReplyHeader::success(xid).encode(writer);
            writer.bytes(kept);
        });
        Next::Replayed
    }

    pub(super) fn session(&self) -> Option<&NfsSession> {
        self.slot.as_ref().map(|slot| &*slot.session)
    }

    /// The current filehandle.
    pub(super) fn place(&self) -> Result<Place, nfsstat4> {
        self.current.ok_or(nfsstat4::NFS4ERR_NOFILEHANDLE)
    }

    /// The file that the current filehandle names, with its attributes.
    pub(super) fn found(&self) -> Result<Found<'_>, nfsstat4> {
        self.place()?.found(self.turn.served)
    }

    /// Sets the current filehandle; no state goes with it.
    pub(super) fn go_to(&mut self, place: Place) {
        (self.current, self.stateid) = (Some(place), None);
        self.take_caller();
    }

    /// Finds the caller in the export of the current filehandle. Above the exports nothing depends on who it is.
    pub(super) fn take_caller(&mut self) {
        if let Some(Place::In(file)) = self.current {
            let export = self.turn.export(file.as_bytes());
            self.caller = export.rules.caller(self.stated.as_ref(), self.turn.peer.access(export));
        }
    }

    /// Fails if two filehandles are of different exports: the rules are checked for that of the current one.
    pub(super) fn check_same_export(&self, one: &Place, other: &Place) -> Result<(), nfsstat4> {
        match (one, other) {
            (Place::In(one), Place::In(other)) => {
                self.turn.served.exports.of_both(one.as_bytes(), other.as_bytes()).map(drop).map_err(status_of)
            }
            _ => Err(nfsstat4::NFS4ERR_ROFS),
        }
    }

    /// Fails unless the client may use the export of the current filehandle in this way.
    pub(super) fn check_rules(&self, is_change: bool) -> Result<(), nfsstat4> {
        let Some(Place::In(file)) = self.current else { return Ok(()) };
        self.turn.check(self.turn.export(file.as_bytes()), is_change).map_err(refused)
    }

    /// True unless an export is in the place of a directory above the exports, and the client may not use it.
    pub(super) fn may_use(&self, directory: PseudoDirectory) -> bool {
        let served = self.turn.served;
        let export = served.pseudo_root.export(directory).map(|export| served.exports.numbered(export));
        export.is_none_or(|export| self.turn.check(export, false).is_ok())
    }

    /// The state id that an argument means: the special one (§8.2.3) is that of the last operation that made or used one.
    pub(super) fn meant(&self, stateid: stateid4) -> Result<stateid4, nfsstat4> {
        match stateid {
            stateid4::CURRENT => self.stateid.ok_or(nfsstat4::NFS4ERR_BAD_STATEID),
            stateid4::INVALID => Err(nfsstat4::NFS4ERR_BAD_STATEID),
            stateid => Ok(stateid),
        }
    }
}

impl ReplyStart {
    /// Begins a reply.
    pub(super) fn new(turn: &mut Turn<'_>, xid: u32, tag: &[u8]) -> Self {
        let start = turn.batch.length();
        let record = turn.batch.gap(REPLY_HEAD_BYTES + 4);
        turn.batch.append(|out| Writer::new(out).opaque(tag));
        let count = turn.batch.gap(4);
        Self { xid, record, count, start, results: turn.batch.length() }
    }
}
