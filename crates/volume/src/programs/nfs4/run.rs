//! Execution of a COMPOUND (RFC 8881 §16.2): its operations in order, until one fails, and its reply.
#![allow(clippy::wildcard_imports)] // the whole protocol is spoken here
#![allow(clippy::unnecessary_wraps)] // every operation has a status

use iocurve_wire::nfs4::attributes::bitmap4;
use iocurve_wire::nfs4::operations::*;
use iocurve_wire::nfs4::{MINOR_VERSION, compound4_head, nfs_fh4, nfs_opnum4, nfsstat4};
use iocurve_wire::record::{RECORD_MARK_BYTES, RecordMark};
use iocurve_wire::rpc::CallHeader;
use iocurve_wire::xdr::{Decode, Encode, Reader};

use super::compound::{Compound, NOBODY, Next, REPLY_HEAD_BYTES, Received, ReplyStart};
use super::place::Place;
use super::{attributes, data, lock, names, open, readdir, sessions};
use crate::nfs4_state::Principal;
use crate::pending::{Operation, SuspendedCompound};
use crate::programs::turn::Turn;
use crate::qos::Extent;
use crate::reply::batch::Mark;

/// Bytes of a result that has no more than a status.
const STATUS_BYTES: usize = 8;

pub(super) fn answer(turn: &mut Turn<'_>, header: &CallHeader<'_>, arguments: &[u8], received: Received) {
    let mut reader = Reader::new(arguments);
    let Ok(head) = compound4_head::decode(&mut reader) else { return turn.refuse_arguments(header.xid) };
    let reply = ReplyStart::new(turn, header.xid, head.tag);
    let stated = turn.credential.stated();
    let uid = stated.map_or(u32::MAX, |stated| stated.uid);
    let mut compound = Compound {
        principal: Principal { flavor: header.cred.flavor, uid },
        turn,
        stated,
        caller: NOBODY,
        current: None,
        saved: None,
        stateid: None,
        saved_stateid: None,
        slot: None,
        count: head.count,
        done: 0,
        received,
        is_kept: false,
        is_due: false,
        written: None,
        is_counted: false,
        reply,
    };
    if head.minorversion == MINOR_VERSION {
        compound.run(reader, head.tag);
    } else {
        compound.finish(nfsstat4::NFS4ERR_MINOR_VERS_MISMATCH);
    }
}

/// Goes on with a COMPOUND whose READ is due.
pub(crate) fn resume(turn: &mut Turn<'_>, suspended: SuspendedCompound) {
    let SuspendedCompound { xid, tag, results, arguments, stated, principal, handles, .. } = suspended;
    let SuspendedCompound { stateids, slot, counts, is_kept, written, .. } = suspended;
    let reply = ReplyStart::new(turn, xid, &tag);
    turn.batch.bytes(&results);
    let place = |handle: Option<iocurve_wire::nfs3::nfs_fh3>| {
        handle.and_then(|handle| Place::of_handle(turn.served, handle.as_bytes()).ok())
    };
    let (current, saved) = (place(handles[0]), place(handles[1]));
    let mut compound = Compound {
        principal,
        turn,
        stated,
        caller: NOBODY,
        current,
        saved,
        stateid: stateids[0],
        saved_stateid: stateids[1],
        slot,
        count: counts[0],
        done: counts[1],
        received: Received { call_bytes: 0, buffer: None },
        is_kept,
        is_due: true,
        written,
        is_counted: true,
        reply,
    };
    compound.take_caller();
    compound.run(Reader::new(&arguments), &tag);
}

impl Compound<'_, '_> {
    fn run(&mut self, mut reader: Reader<'_>, tag: &[u8]) {
        while self.done < self.count {
            let (before, mark, at) = (reader.clone(), self.turn.batch.gap(0), self.turn.batch.length());
            let number = reader.u32().unwrap_or(u32::MAX);
            match self.operation(number, &mut reader) {
                Next::Done(status) => {
                    self.done += 1;
                    self.turn.count_operation(number);
                    let status = self.limited(status, mark, at);
                    if status != nfsstat4::NFS4_OK {
                        return self.finish(status);
                    }
                }
                Next::Suspend(extent) => {
                    if self.is_suspended(&extent, before.rest(), tag) {
                        return;
                    }
                    self.is_due = true;
                    reader = before;
                }
                Next::Replayed => return,
            }
        }
        self.finish(nfsstat4::NFS4_OK);
    }

    /// Decodes the operation with this number, carries it out and appends its result.
    fn operation(&mut self, number: u32, reader: &mut Reader<'_>) -> Next {
        #[allow(clippy::enum_glob_use)] // there are as many lines as operations
        use nfs_opnum4::*;
        let Some(operation) = nfs_opnum4::from_u32(number).filter(|op| *op != OP_ILLEGAL) else {
            return self.put::<()>(OP_ILLEGAL, &Err(nfsstat4::NFS4ERR_OP_ILLEGAL));
        };
        if let Err(status) = self.check_position(operation).and_then(|()| self.check_use(operation)) {
            return self.refuse(operation, status);
        }
        match operation {
            OP_SEQUENCE => sessions::sequence(self, reader),
            OP_PUTFH => self.run_one(operation, reader, putfh),
            OP_READ => data::read(self, reader),
            OP_WRITE if self.received.buffer.is_some() => self.run_one(operation, reader, data::write_received),
            OP_WRITE => self.run_one(operation, reader, data::write),
            OP_GETATTR => attributes::getattr(self, reader),
            OP_ACCESS => self.run_one(operation, reader, attributes::access),
            OP_LOOKUP => self.run_one(operation, reader, names::lookup),
            OP_COMMIT => self.run_one(operation, reader, data::commit),
            OP_OPEN => self.run_one(operation, reader, open::open),
            OP_CLOSE => self.run_one(operation, reader, open::close),
            OP_OPEN_DOWNGRADE => self.run_one(operation, reader, open::open_downgrade),
            OP_CREATE => self.run_one(operation, reader, names::create),
            OP_GETFH => getfh(self),
            OP_LINK => self.run_one(operation, reader, names::link),
            OP_LOCK => lock::lock(self, reader),
            OP_LOCKT => lock::lockt(self, reader),
            OP_LOCKU => self.run_one(operation, reader, lock::locku),
            OP_LOOKUPP => self.run_one(operation, reader, names::lookupp),
            OP_NVERIFY => self.run_one(operation, reader, attributes::nverify),
            OP_VERIFY => self.run_one(operation, reader, attributes::verify),
            OP_PUTPUBFH | OP_PUTROOTFH => self.run_one(operation, reader, putrootfh),
            OP_READDIR => readdir::readdir(self, reader),
            OP_READLINK => names::readlink(self),
            OP_REMOVE => self.run_one(operation, reader, names::remove),
            OP_RENAME => self.run_one(operation, reader, names::rename),
            OP_RESTOREFH => self.run_one(operation, reader, restorefh),
            OP_SAVEFH => self.run_one(operation, reader, savefh),
            OP_SECINFO => self.run_one(operation, reader, names::secinfo),
            OP_SECINFO_NO_NAME => self.run_one(operation, reader, names::secinfo_no_name),
            OP_SETATTR => attributes::setattr(self, reader),
            OP_TEST_STATEID => self.run_one(operation, reader, lock::test_stateid),
            OP_FREE_STATEID => self.run_one(operation, reader, lock::free_stateid),
            OP_EXCHANGE_ID => sessions::exchange_id(self, reader),
            OP_CREATE_SESSION => self.run_one(operation, reader, sessions::create_session),
            OP_DESTROY_SESSION => self.run_one(operation, reader, sessions::destroy_session),
            OP_DESTROY_CLIENTID => self.run_one(operation, reader, sessions::destroy_clientid),
            OP_BIND_CONN_TO_SESSION => self.run_one(operation, reader, sessions::bind_conn_to_session),
            OP_BACKCHANNEL_CTL => self.run_one(operation, reader, sessions::backchannel_ctl),
            OP_RECLAIM_COMPLETE => self.run_one(operation, reader, sessions::reclaim_complete),
            _ => self.put::<()>(operation, &Err(nfsstat4::NFS4ERR_NOTSUPP)),
        }
    }

    /// Checks that an operation may be where it is: in a session, or alone (RFC 8881 §2.10.2.1, §18.46.3).
    fn check_position(&self, operation: nfs_opnum4) -> Result<(), nfsstat4> {
        use nfs_opnum4::{
            OP_BIND_CONN_TO_SESSION, OP_CREATE_SESSION, OP_DESTROY_CLIENTID, OP_DESTROY_SESSION, OP_EXCHANGE_ID,
            OP_SEQUENCE,
        };
        let is_alone = self.count == 1;
        match operation {
            OP_SEQUENCE if self.done > 0 => Err(nfsstat4::NFS4ERR_SEQUENCE_POS),
            OP_SEQUENCE => Ok(()),
            OP_BIND_CONN_TO_SESSION if !is_alone => Err(nfsstat4::NFS4ERR_NOT_ONLY_OP),
            OP_EXCHANGE_ID | OP_CREATE_SESSION | OP_DESTROY_SESSION | OP_DESTROY_CLIENTID
                if self.slot.is_none() && !is_alone =>
            {
                Err(nfsstat4::NFS4ERR_NOT_ONLY_OP)
            }
            OP_BIND_CONN_TO_SESSION | OP_EXCHANGE_ID | OP_CREATE_SESSION | OP_DESTROY_SESSION | OP_DESTROY_CLIENTID => {
                Ok(())
            }
            _ if self.slot.is_none() => Err(nfsstat4::NFS4ERR_OP_NOT_IN_SESSION),
            _ => Ok(()),
        }
    }

    /// Checks that the rules of the export allow an operation on the current filehandle. OPEN checks whether it changes something.
    fn check_use(&self, operation: nfs_opnum4) -> Result<(), nfsstat4> {
        use nfs_opnum4::{
            OP_CLOSE, OP_CREATE, OP_LINK, OP_PUTFH, OP_PUTPUBFH, OP_PUTROOTFH, OP_REMOVE, OP_RENAME, OP_RESTOREFH,
            OP_SAVEFH, OP_SEQUENCE, OP_SETATTR, OP_WRITE,
        };
        match operation {
            OP_SEQUENCE | OP_PUTFH | OP_PUTROOTFH | OP_PUTPUBFH | OP_SAVEFH | OP_RESTOREFH | OP_CLOSE => Ok(()),
            OP_CREATE | OP_LINK | OP_REMOVE | OP_RENAME | OP_SETATTR | OP_WRITE => self.check_rules(true),
            _ => self.check_rules(false),
        }
    }

    /// Appends the result of an operation that is not executed.
    fn refuse(&mut self, operation: nfs_opnum4, status: nfsstat4) -> Next {
        self.put::<()>(operation, &Err(status));
        if operation == nfs_opnum4::OP_SETATTR {
            self.write(|writer| bitmap4::default().encode(writer));
        }
        Next::Done(status)
    }

    /// Decodes the arguments of an operation, carries it out and appends its result.
    #[inline]
    fn run_one<'a, A: Decode<'a>, R: Encode>(
        &mut self,
        operation: nfs_opnum4,
        reader: &mut Reader<'a>,
        carry_out: impl FnOnce(&mut Self, A) -> Result<R, nfsstat4>,
    ) -> Next {
        let arguments = A::decode(reader).map_err(|_| nfsstat4::NFS4ERR_BADXDR);
        let result = arguments.and_then(|arguments| carry_out(self, arguments));
        self.put(operation, &result)
    }

    /// Replaces a result that makes the reply too long for the session.
    fn limited(&mut self, status: nfsstat4, mark: Mark, at: usize) -> nfsstat4 {
        let Some(fore) = self.session().map(|session| session.fore) else { return status };
        let bytes = self.turn.batch.length() - self.reply.start - RECORD_MARK_BYTES;
        let too_long = match () {
            () if bytes > fore.ca_maxresponsesize as usize => nfsstat4::NFS4ERR_REP_TOO_BIG,
            () if self.is_kept && bytes > fore.ca_maxresponsesize_cached as usize => {
                nfsstat4::NFS4ERR_REP_TOO_BIG_TO_CACHE
            }
            () => return status,
        };
        let mut result = Vec::new();
        self.turn.batch.copy_from(at, &mut result);
        self.turn.batch.rewind(mark);
        self.turn.batch.bytes(&result[..STATUS_BYTES - 4]);
        self.write(|writer| {
            too_long.encode(writer);
            if result.starts_with(&(nfs_opnum4::OP_SETATTR as u32).to_be_bytes()) {
                bitmap4::default().encode(writer);
            }
        });
        too_long
    }

    /// Completes the reply, keeps it in the slot if it is to be kept, and lets it wait if limits ask for that.
    fn finish(&mut self, status: nfsstat4) {
        if !self.is_counted {
            self.turn.count_other();
        }
        self.fill_in(status);
        let start = self.reply.start;
        if let Some(slot) = self.slot.take() {
            // Too long are a tag that is, and what came before a result that was.
            let most = slot.session.fore.ca_maxresponsesize_cached as usize + STATUS_BYTES;
            let bytes = self.turn.batch.length() - start - RECORD_MARK_BYTES;
            let kept = (self.is_kept && bytes <= most).then(|| {
                let mut reply = Vec::new();
                self.turn.batch.copy_from(start + REPLY_HEAD_BYTES, &mut reply);
                reply
            });
            slot.finish(kept);
        }
        self.delay_written();
    }

    /// Fills in the length of the reply, its status and the number of its results.
    fn fill_in(&mut self, status: nfsstat4) {
        let ReplyStart { xid, record, count, start, .. } = self.reply;
        let length = (self.turn.batch.length() - start - RECORD_MARK_BYTES) as u32;
        let mut head = [0; REPLY_HEAD_BYTES + 4];
        head[..4].copy_from_slice(&RecordMark { length, last: true }.to_bytes());
        head[4..8].copy_from_slice(&xid.to_be_bytes());
        head[8..12].copy_from_slice(&1_u32.to_be_bytes()); // REPLY; the zeros after it: accepted, AUTH_NONE, success
        head[REPLY_HEAD_BYTES..].copy_from_slice(&(status as u32).to_be_bytes());
        self.turn.batch.patch(record, &head);
        self.turn.batch.patch(count, &self.done.to_be_bytes());
    }

    /// Under limits the reply to WRITEs waits, unless there is no room for what else is in it.
    fn delay_written(&mut self) {
        let Some((export, extent)) = self.written else { return };
        let export = self.turn.served.exports.numbered(export);
        if !export.throttle.is_limited() || !self.may_wait(0) {
            return;
        }
        self.turn.is_reply_due(export, &extent, |turn| {
            let mut reply = Vec::new();
            turn.batch.copy_from(self.reply.start, &mut reply);
            turn.batch.rewind(self.reply.record);
            reply.into()
        });
    }

    /// Lets the COMPOUND wait before a READ of an extent. False if it need not wait, and goes on.
    fn is_suspended(&mut self, extent: &Extent, arguments: &[u8], tag: &[u8]) -> bool {
        let Some(Place::In(file)) = self.current else { return false };
        let export = self.turn.export(file.as_bytes());
        let handle = |place: Option<Place>| place.map(|place| place.handle());
        let is_due = self.turn.is_read_due(export, extent, |turn| {
            let mut results = Vec::new();
            turn.batch.copy_from(self.reply.results, &mut results);
            turn.batch.rewind(self.reply.record);
            Operation::Compound(Box::new(SuspendedCompound {
                xid: self.reply.xid,
                tag: tag.into(),
                results,
                arguments: arguments.into(),
                stated: self.stated,
                principal: self.principal,
                handles: [handle(self.current), handle(self.saved)],
                stateids: [self.stateid, self.saved_stateid],
                slot: self.slot.take(),
                counts: [self.count, self.done],
                is_kept: self.is_kept,
                written: self.written,
            }))
        });
        !is_due
    }
}

/// PUTFH (§18.19). Operations find out whether the file still exists: CLOSE must work on one that was removed.
fn putfh(
    compound: &mut Compound<'_, '_>,
    PUTFH4args { object: nfs_fh4(handle) }: PUTFH4args<'_>,
) -> Result<(), nfsstat4> {
    let place = Place::of_handle(compound.turn.served, handle)?;
    compound.go_to(place);
    Ok(())
}

/// PUTROOTFH (§18.21), and PUTPUBFH (§18.20), which is the same here.
fn putrootfh(compound: &mut Compound<'_, '_>, (): ()) -> Result<(), nfsstat4> {
    let root = Place::above(compound.turn.served, 0);
    compound.go_to(root);
    Ok(())
}

/// GETFH (§18.8).
fn getfh(compound: &mut Compound<'_, '_>) -> Next {
    let handle = compound.place().map(|place| place.handle());
    let result = handle.as_ref().map(|handle| GETFH4resok { object: nfs_fh4(handle.as_bytes()) });
    compound.put(nfs_opnum4::OP_GETFH, &result.map_err(|status| *status))
}

/// SAVEFH (§18.28).
fn savefh(compound: &mut Compound<'_, '_>, (): ()) -> Result<(), nfsstat4> {
    compound.saved = Some(compound.place()?);
    compound.saved_stateid = compound.stateid;
    Ok(())
}

/// RESTOREFH (§18.27).
fn restorefh(compound: &mut Compound<'_, '_>, (): ()) -> Result<(), nfsstat4> {
    let saved = compound.saved.ok_or(nfsstat4::NFS4ERR_NOFILEHANDLE)?;
    compound.go_to(saved);
    compound.stateid = compound.saved_stateid;
    Ok(())
}
