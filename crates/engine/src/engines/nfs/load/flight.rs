//! The operations in flight, and the NFS calls that carry them: one call, or several if an operation exceeds the server's
//! limit for one call.

use std::collections::VecDeque;

use iocurve_meter::Nanos;
use iocurve_wire::client_fast::{CommitResult, Malformed, ReadResult, Unparsed, Verdict, WriteResult};
use iocurve_wire::nfs3::{nfsstat3, stable_how};

use crate::engines::buffers::SlotMap;
use crate::engines::request::{Completion, Request};
use crate::plan::{Durability, NfsMount, OperationKind};

use super::super::conversation::{Results, set_xid};
use super::super::names::{NamedCall, Procedure};
use super::super::nfs3::Nfs3;
use super::super::protocol::{Arguments, CallKind, CallLimits, Found, Judgement, Protocol, stability};
use super::super::status::errno;
use super::commits::Commits;
use super::outgoing::Outgoing;
use super::recovery::Recovery;
use super::table::{CallTable, Part};

/// Most calls in flight: bounds memory, whatever limits a server reports.
pub(in crate::engines::nfs) const CALLS_MAX: u64 = 1 << 20;
/// The slot of a call that no operation waits for.
const NO_SLOT: u32 = u32::MAX;
/// Most attempts of a write of which the server accepts no byte.
const FRUITLESS_WRITES_MAX: u16 = 3;

#[derive(Debug, Clone, Copy, Default)]
struct Operation {
    calls_left: u32,
    bytes: u32,
    errno: i32,
}

/// All operations and calls of one engine.
#[derive(Debug)]
pub(in crate::engines::nfs) struct Flight<P: Protocol> {
    pub protocol: P,
    pub calls: CallTable<P>,
    operations: Vec<Operation>,
    pub commits: Commits,
    pub(super) recovery: Recovery,
    slots: SlotMap,
    limits: CallLimits,
    keep_payload: bool,
    /// Slot of a READ whose payload is kept in any case.
    inspected: u32,
    /// Payload was dropped in the kernel.
    pub payload_discarded: bool,
    /// Replies to calls on names, in the order of arrival.
    pub answered: VecDeque<Answered<P>>,
    /// The call of a conversation, and the reply to it from its `xid` on.
    question: Vec<u8>,
    pub question_reply: Option<Results>,
}

impl Flight<Nfs3> {
    /// For the calls of conversations alone, one at a time on one connection: they are encoded already, for any version.
    pub(in crate::engines::nfs) fn of_conversations() -> Self {
        Self {
            calls: CallTable::new(2, 1),
            operations: Vec::new(),
            commits: Commits::new(0, stable_how::UNSTABLE),
            recovery: Recovery::new(0),
            protocol: Nfs3::new(&[], &[], Durability::None),
            slots: SlotMap::unused(),
            limits: CallLimits { read: 0, write: 0 },
            keep_payload: false,
            inspected: NO_SLOT,
            payload_discarded: false,
            answered: VecDeque::new(),
            question: Vec::new(),
            question_reply: None,
        }
    }
}

/// The reply to a call on a name.
#[derive(Debug)]
pub(in crate::engines::nfs) struct Answered<P: Protocol> {
    /// Slot of the operation.
    pub slot: u32,
    pub result: Result<Found<P>, u32>,
    /// The call was sent more than once: the server may have executed it before a restart.
    pub was_repeated: bool,
}

impl<P: Protocol> Flight<P> {
    /// For `depth` operations at a time on `connections` connections. Their [`CallLimits::calls`] must be at most
    /// [`CALLS_MAX`].
    pub(in crate::engines::nfs) fn new(
        protocol: P,
        slots: SlotMap,
        depth: u32,
        connections: usize,
        limits: CallLimits,
        mount: &NfsMount,
    ) -> Self {
        Self {
            calls: CallTable::new(limits.calls(depth, slots.stride()) as u32, connections),
            operations: vec![Operation::default(); depth as usize],
            commits: Commits::new(protocol.files(), stability(mount.durability)),
            recovery: Recovery::new(mount.timeout_ns),
            protocol,
            slots,
            limits,
            keep_payload: mount.keep_payload,
            inspected: NO_SLOT,
            payload_discarded: false,
            answered: VecDeque::new(),
            question: Vec::new(),
            question_reply: None,
        }
    }

    /// Error message for an invalid request.
    #[inline]
    pub(in crate::engines::nfs) fn refusal(&self, request: &Request) -> Option<String> {
        let moves_data = matches!(request.kind, OperationKind::Read | OperationKind::Write);
        let fits = (request.slot as usize) < self.operations.len().min(self.slots.count())
            && (request.address.file as usize) < self.commits.files()
            && request.address.length as usize <= self.slots.stride();
        if moves_data && fits { None } else { self.unusual_refusal(request) }
    }

    #[cold]
    fn unusual_refusal(&self, request: &Request) -> Option<String> {
        if request.slot as usize >= self.operations.len().min(self.slots.count()) {
            Some(format!("slot {} is beyond the depth of {}", request.slot, self.operations.len()))
        } else if request.address.file as usize >= self.commits.files() {
            Some(format!("file {} is not one of the {} files", request.address.file, self.commits.files()))
        } else if request.kind == OperationKind::Trim {
            Some(format!("{} has no trim", P::NAME))
        } else if request.kind.is_metadata() {
            Some(format!("{} needs a metadata engine", request.kind.name()))
        } else if !request.kind.is_flush() && request.address.length as usize > self.slots.stride() {
            Some(format!("{} bytes do not fit a buffer of {}", request.address.length, self.slots.stride()))
        } else {
            None
        }
    }

    /// Most bytes of one call of this kind.
    pub(in crate::engines::nfs) fn call_bytes_max(&self, kind: OperationKind) -> u32 {
        match kind {
            OperationKind::Read => self.limits.read,
            _ => self.limits.write,
        }
    }

    /// Opens a slot for an operation of `calls` calls.
    pub(in crate::engines::nfs) fn open_operation(&mut self, slot: u32, calls: u32) {
        self.operations[slot as usize] = Operation { calls_left: calls, bytes: 0, errno: 0 };
    }

    /// Opens the call that carries `length` bytes of a request, from `at` on.
    pub(in crate::engines::nfs) fn open_call(&mut self, request: &Request, at: u32, length: u32) -> u32 {
        let Request { slot, kind, address } = *request;
        let kind = match kind {
            OperationKind::Read => CallKind::Read,
            OperationKind::Write => CallKind::Write,
            kind if !kind.is_flush() => unreachable!("refused with the plan"),
            _ => return self.calls.open(Part::without_data(CallKind::Commit, slot, address.file)),
        };
        let offset = address.offset + u64::from(at);
        self.calls.open(Part { kind, slot, file: address.file, offset, length, at })
    }

    /// Takes up an open file under a number, the next one at most.
    pub(in crate::engines::nfs) fn set_file(&mut self, number: u32, path: &str, handle: &P::Handle, state: P::State) {
        self.protocol.set_file(number, path, handle, state);
        self.commits.grow(self.protocol.files());
    }

    /// Notes that the calls of a connection were sent again.
    pub(in crate::engines::nfs) fn note_repeated(&mut self, connection: usize) {
        for index in self.calls.on(Some(connection)).collect::<Vec<_>>() {
            self.calls.note_repeated(index);
        }
    }

    /// Opens a COMMIT for the next file that needs one, if the table has room.
    pub(in crate::engines::nfs) fn open_commit(&mut self) -> Option<u32> {
        if self.calls.is_full() {
            return None;
        }
        let file = self.commits.next()?;
        Some(self.calls.open(Part::without_data(CallKind::Commit, NO_SLOT, file)))
    }

    /// Opens a call that renews the lease, if the table has room.
    pub(in crate::engines::nfs) fn open_renewal(&mut self) -> Option<u32> {
        let renewal = Part::without_data(CallKind::Renewal, NO_SLOT, 0);
        (!self.calls.is_full()).then(|| self.calls.open(renewal))
    }

    /// Opens a call of a conversation.
    pub(in crate::engines::nfs) fn open_question(&mut self, record: Vec<u8>) -> u32 {
        self.question = record;
        self.calls.open_counted(Part::without_data(CallKind::Conversation, NO_SLOT, 0))
    }

    /// The call of the conversation that was opened last.
    pub(in crate::engines::nfs) fn question(&self) -> &[u8] {
        &self.question
    }

    /// Takes what the call needs to be sent; `false` if it must [wait](Self::wait) for that.
    pub(in crate::engines::nfs) fn acquire(&mut self, index: u32) -> bool {
        let Some(sequence) = self.protocol.acquire() else { return false };
        self.calls[index].sequence = sequence;
        true
    }

    /// Lets a call wait for a slot of the session.
    pub(in crate::engines::nfs) fn wait(&mut self, index: u32, now: Nanos) {
        self.recovery.wait(index, now);
    }

    /// The next waiting call, if it can be sent now.
    pub(in crate::engines::nfs) fn acquire_next(&mut self, now: Nanos) -> Option<u32> {
        let (index, sequence) = self.recovery.acquire(&mut self.protocol, now)?;
        self.calls[index].sequence = sequence;
        Some(index)
    }

    /// Takes all calls off their connections; they wait, and what they wait for is not a slot.
    pub(in crate::engines::nfs) fn suspend(&mut self) {
        self.recovery.wait_for_server();
        for index in self.calls.on(None).collect::<Vec<_>>() {
            self.calls.note_repeated(index);
            // No reply has come and none will: the call does not count in the session that is lost.
            self.unload(index, false);
            self.calls.renumber(index);
            self.recovery.suspend(index);
        }
    }

    /// Goes on with a new session.
    pub(in crate::engines::nfs) fn resume(&mut self, protocol: P) {
        self.recovery.resume(self.protocol.slots().map_or(0, |counts| counts.calls));
        self.protocol = protocol;
    }

    /// Queues a call.
    pub(in crate::engines::nfs) fn write(&self, index: u32, outgoing: &mut Outgoing) {
        let call = &self.calls[index];
        let (xid, sequence, Part { kind, slot, file, offset, length, .. }) = (call.xid, call.sequence, call.part);
        let arguments = Arguments { xid, sequence, file, offset, length };
        outgoing.call(|heads| match kind {
            CallKind::Read => self.protocol.append_read(arguments, heads),
            CallKind::Write => self.protocol.append_write(arguments, heads),
            CallKind::Commit => self.protocol.append_commit(arguments, heads),
            CallKind::Renewal => self.protocol.append_renewal(xid, sequence, heads),
            CallKind::Conversation => {
                let start = heads.len();
                heads.extend_from_slice(&self.question);
                set_xid(&mut heads[start..], xid);
            }
            CallKind::Named => {
                let named = self.calls.named(index);
                let writes = named.procedure == Procedure::WriteWhole;
                let data = if writes { self.data(slot, named.length) } else { &[] };
                self.protocol.append_named(named, data, xid, sequence, heads);
            }
        });
        if kind == CallKind::Write {
            outgoing.payload(&call.part);
        }
    }

    /// The first bytes of a slot's buffer.
    fn data(&self, slot: u32, length: u32) -> &[u8] {
        assert!(length as usize <= self.slots.stride());
        // SAFETY: inside the slot's buffer, by the check above; the slot is in flight, so that only this engine
        // accesses it.
        unsafe { std::slice::from_raw_parts(self.slots.slot(slot), length as usize) }
    }

    /// Queues all calls of a connection again, with the same `xid`s.
    pub(in crate::engines::nfs) fn write_all(&self, connection: usize, outgoing: &mut Outgoing) {
        for index in self.calls.on(Some(connection)) {
            self.write(index, outgoing);
        }
    }

    /// Keeps the payload of the next READ in this slot.
    pub(in crate::engines::nfs) fn inspect(&mut self, slot: u32) {
        self.inspected = slot;
    }

    /// Returns `true` if the payload of a call is copied to its slot.
    pub(in crate::engines::nfs) fn keeps_payload(&self, index: u32) -> bool {
        self.keep_payload || self.calls[index].part.slot == self.inspected
    }

    pub(in crate::engines::nfs) fn slots(&self) -> &SlotMap {
        &self.slots
    }

    /// Memory for `length` bytes of a READ's payload, starting at byte `from` of the payload.
    pub(in crate::engines::nfs) fn destination(&mut self, index: u32, from: u32, length: u32) -> &mut [u8] {
        let call = self.calls[index].part;
        assert!(u64::from(from) + u64::from(length) <= u64::from(call.length));
        assert!(call.at as usize + call.length as usize <= self.slots.stride());
        // SAFETY: inside the slot's buffer, by the checks above; the slot is in flight, so that only this engine
        // accesses it.
        unsafe {
            let start = self.slots.slot(call.slot).add(call.at as usize + from as usize);
            std::slice::from_raw_parts_mut(start, length as usize)
        }
    }

    /// Completes a READ whose payload is in place, or that failed.
    pub(in crate::engines::nfs) fn read_done(&mut self, index: u32, result: ReadResult, done: &mut Vec<Completion>) {
        if result.status != 0 {
            return self.refused(index, result.status, done);
        }
        let asked = self.calls[index].part.length;
        if result.count < asked && result.count > 0 && !result.eof {
            return self.continue_call(index, result.count);
        }
        self.close(index, result.count, 0, done);
    }

    /// Handles the reply to a WRITE.
    pub(in crate::engines::nfs) fn write_done(&mut self, index: u32, result: WriteResult, done: &mut Vec<Completion>) {
        if result.status != 0 {
            return self.refused(index, result.status, done);
        }
        let call = &mut self.calls[index];
        self.commits.written(call.part.file, &result);
        if result.count == call.part.length {
            return self.close(index, result.count, 0, done);
        }
        if result.count == 0 {
            call.retries += 1;
            if call.retries >= FRUITLESS_WRITES_MAX {
                return self.close(index, 0, libc::EIO, done);
            }
        }
        self.continue_call(index, result.count);
    }

    /// Handles the reply to a COMMIT.
    pub(in crate::engines::nfs) fn commit_done(
        &mut self,
        index: u32,
        result: CommitResult,
        done: &mut Vec<Completion>,
    ) {
        if result.status != 0 {
            return self.refused(index, result.status, done);
        }
        self.commits.note_verifier(result.verifier);
        self.close(index, 0, 0, done);
    }

    /// Handles the reply to a call on a name, whose results are `results`.
    pub(in crate::engines::nfs) fn named_done(
        &mut self,
        index: u32,
        results: &[u8],
        done: &mut Vec<Completion>,
    ) -> Result<(), Unparsed> {
        let NamedCall { procedure, length, .. } = *self.calls.named(index);
        match P::named(procedure, results)? {
            Ok(Found::<P> { failed: Some(status), .. }) if P::judge(status) != Judgement::Failed => {
                self.refused(index, status, done);
            }
            Ok(found) => {
                if procedure == Procedure::ReadWhole {
                    let data = &results[found.moved.clone()];
                    if data.len() > length as usize {
                        return Err(Unparsed::Malformed(Malformed::MoreThanRequested));
                    }
                    let slot = self.calls[index].part.slot;
                    assert!(data.len() <= self.slots.stride());
                    // SAFETY: inside the slot's buffer, by the check above; the slot is in flight, so that only this
                    // engine accesses it.
                    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.slots.slot(slot), data.len()) };
                }
                self.answer(index, Ok(found));
            }
            Err(status) => self.refused(index, status, done),
        }
        Ok(())
    }

    /// Frees a call on a name.
    fn answer(&mut self, index: u32, result: Result<Found<P>, u32>) {
        self.unload(index, true);
        self.calls.close(index);
        let (slot, was_repeated) = (self.calls[index].part.slot, self.calls.was_repeated(index));
        self.answered.push_back(Answered { slot, result, was_repeated });
    }

    /// Handles the reply to a call of a conversation, which needs no slot of a session.
    pub(in crate::engines::nfs) fn question_done(&mut self, index: u32, reply: &[u8]) {
        self.calls.take_off(index);
        self.calls.close(index);
        let was_repeated = self.calls.was_repeated(index);
        self.question_reply = Some(Results { bytes: reply.to_vec(), was_repeated });
    }

    /// Handles the reply to a renewal.
    pub(in crate::engines::nfs) fn renewed(&mut self, index: u32, done: &mut Vec<Completion>) {
        self.close(index, 0, 0, done);
    }

    /// Handles a call that the server's RPC layer rejected.
    pub(in crate::engines::nfs) fn rejected(&mut self, index: u32, verdict: Verdict, done: &mut Vec<Completion>) {
        self.unload(index, false);
        match verdict {
            // These numbers mean the same in all versions.
            Verdict::DeniedCredential(_) => self.fail(index, nfsstat3::NFS3ERR_ACCES as u32, done),
            _ => self.fail(index, nfsstat3::NFS3ERR_SERVERFAULT as u32, done),
        }
    }

    /// Handles a call that the server did not take up.
    pub(in crate::engines::nfs) fn not_executed(&mut self, index: u32, status: u32, done: &mut Vec<Completion>) {
        self.unload(index, P::counted(status));
        self.refused(index, status, done);
    }

    fn refused(&mut self, index: u32, status: u32, done: &mut Vec<Completion>) {
        let judgement = P::judge(status);
        let retries_max = self.recovery.retries_max(judgement);
        let call = &mut self.calls[index];
        if call.retries >= retries_max {
            return self.fail(index, status, done);
        }
        call.retries += 1;
        self.reissue(index);
        self.recovery.refused(index, status, judgement);
    }

    fn fail(&mut self, index: u32, status: u32, done: &mut Vec<Completion>) {
        let Part { kind, slot, file, .. } = self.calls[index].part;
        if kind == CallKind::Named {
            return self.answer(index, Err(status));
        }
        if slot == NO_SLOT && kind == CallKind::Commit {
            self.commits.failure = Some((file, status));
        }
        self.close(index, 0, errno(status), done);
    }

    /// Continues a call that moved only some of its bytes: the rest becomes the call.
    fn continue_call(&mut self, index: u32, bytes: u32) {
        self.reissue(index);
        let call = &mut self.calls[index].part;
        call.offset += u64::from(bytes);
        call.length -= bytes;
        call.at += bytes;
        self.operations[call.slot as usize].bytes += bytes;
        self.recovery.retry_now.push(index);
    }

    /// Takes a call off its connection, under a new `xid`: to the server it is a new call.
    fn reissue(&mut self, index: u32) {
        self.unload(index, true);
        self.calls.renumber(index);
    }

    fn close(&mut self, index: u32, bytes: u32, errno: i32, done: &mut Vec<Completion>) {
        self.unload(index, true);
        self.calls.close(index);
        let slot = self.calls[index].part.slot;
        if slot == NO_SLOT {
            return;
        }
        let operation = &mut self.operations[slot as usize];
        operation.bytes += bytes;
        operation.calls_left -= 1;
        if operation.errno == 0 {
            operation.errno = errno;
        }
        if operation.calls_left == 0 {
            let result = if operation.errno == 0 { i64::from(operation.bytes) } else { -i64::from(operation.errno) };
            done.push(Completion { slot, result });
            if slot == self.inspected {
                self.inspected = NO_SLOT;
            }
        }
    }

    /// Takes a call off its connection, if it is on one; `executed` if the server has counted it.
    fn unload(&mut self, index: u32, executed: bool) {
        if let Some(sequence) = self.calls.take_off(index) {
            self.protocol.release(sequence, executed);
        }
    }
}
