//! The operations in flight, and the NFS calls that carry them.
//!
//! An operation is one call, or several if it exceeds the server's limit for one call. The `xid` of a call holds its
//! index in the table and a generation, so that a reply finds its call with one look-up, and a duplicate or late reply
//! finds none.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use iocurve_meter::{Clock, Nanos};
use iocurve_wire::client_fast::{CommitResult, ReadResult, Unparsed, Verdict, WriteResult, padding};
use iocurve_wire::nfs3::{nfsstat3, stable_how};

use crate::engines::buffers::SlotMap;
use crate::engines::request::{Completion, Request};
use crate::plan::OperationKind;

use super::super::calls::CallLimits;
use super::super::names::{NamedCall, Procedure};
use super::super::protocol::{Arguments, CallKind, Found, Judgement, MORE_THAN_REQUESTED, Protocol};
use super::super::status::errno;
use super::super::transport::patience::{GRACE_NS_MAX, JUKEBOX_DELAY_NS};
use super::outgoing::Outgoing;

/// READ payloads from this size up are received separately: straight into the slot's buffer, or dropped. Below it the
/// extra system call costs more than the copy.
pub(in crate::engines::nfs) const LARGE_BYTES: u32 = 32 << 10;
/// Most calls in flight: bounds memory, whatever limits a server reports.
pub(in crate::engines::nfs) const CALLS_MAX: u64 = 1 << 20;
/// The slot of a call that no operation waits for.
const NO_SLOT: u32 = u32::MAX;
/// Most repetitions of a call for which the server's state had to be restored.
const RECOVERIES_MAX: u16 = 16;
/// Time from which a call waits that was in flight when the session was lost.
const SINCE_RECOVERY: Nanos = Nanos::MAX;
/// Most attempts of a write of which the server accepts no byte.
const FRUITLESS_WRITES_MAX: u16 = 3;

/// Waits for a free slot of the session.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::engines::nfs) struct SlotWaits {
    /// Calls that waited.
    pub calls: u64,
    /// Their time without a slot.
    pub wait_ns: Nanos,
    /// Calls of sessions that were lost.
    pub calls_before: u64,
}

/// Load of one connection.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::engines::nfs) struct ConnectionLoad {
    /// Calls without a reply.
    pub calls: u32,
    /// Calls without a reply that read [`LARGE_BYTES`] or more.
    pub large_reads: u32,
}

/// One call. A free entry of the table keeps its last `xid`.
#[derive(Debug, Clone, Copy)]
struct Call<S> {
    xid: u32,
    sequence: S,
    place: Place,
    kind: CallKind,
    /// Attempts that were postponed or moved no byte.
    retries: u16,
    slot: u32,
    file: u32,
    offset: u64,
    length: u32,
    /// Offset of its payload in the slot's buffer.
    at: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Free,
    /// Must be issued, for the first time or again.
    Waiting,
    On(u8),
}

impl<S> Call<S> {
    fn is_large_read(&self) -> bool {
        self.kind == CallKind::Read && self.length >= LARGE_BYTES
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Operation {
    calls_left: u32,
    bytes: u32,
    errno: i32,
}

/// All calls of one engine.
#[derive(Debug)]
pub(in crate::engines::nfs) struct Flight<P: Protocol> {
    pub protocol: P,
    calls: Vec<Call<P::Sequence>>,
    free: Vec<u32>,
    index_bits: u32,
    operations: Vec<Operation>,
    /// By file: `true` if the server may hold some of its data in memory only.
    unstable: Vec<bool>,
    unstable_files: Vec<u32>,
    slots: SlotMap,
    limits: CallLimits,
    keep_payload: bool,
    /// Slot of a READ whose payload is kept in any case.
    inspected: u32,
    jukebox_retries_max: u16,
    loads: Vec<ConnectionLoad>,
    verifier: Option<[u8; 8]>,
    /// Changes of the server's write verifier: at each it may have lost data that it had accepted.
    pub verifier_changes: u64,
    /// Payload was dropped in the kernel.
    pub payload_discarded: bool,
    /// Calls that wait for a slot of the session, and since when.
    waiting: VecDeque<(Nanos, u32)>,
    pub slot_waits: SlotWaits,
    /// Status that says that the session, or the state of a file, is lost.
    pub state_lost: Option<u32>,
    /// Calls to repeat now, on any connection.
    pub retry_now: Vec<u32>,
    /// Calls to repeat later, at the server's request.
    pub retry_later: Vec<u32>,
    /// A COMMIT that failed: file and status.
    pub commit_failure: Option<(u32, u32)>,
    /// By index of the call: calls on names. Empty until there is one.
    named: Vec<NamedCall<P::Handle>>,
    /// By index of the call: a call on a name was sent more than once.
    repeated: Vec<bool>,
    /// Replies to calls on names, in the order of arrival.
    pub answered: VecDeque<Answered<P>>,
    /// The stability that WRITEs ask for.
    pub stable: stable_how,
    /// The file of a WRITE that the server made less stable than requested.
    pub less_stable: Option<u32>,
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
    /// A table for `depth` operations at a time on `connections` connections. Their [`CallLimits::calls`] must be at
    /// most [`CALLS_MAX`].
    pub(in crate::engines::nfs) fn new(
        protocol: P,
        slots: SlotMap,
        depth: u32,
        connections: usize,
        limits: CallLimits,
        keep_payload: bool,
        timeout_ns: Nanos,
    ) -> Self {
        let places = limits.calls(depth, slots.stride()) as u32;
        let index_bits = places.trailing_zeros();
        // Servers remember calls by xid and client address, and reserved ports are reused soon: start at a random
        // generation.
        let generation = RandomState::new().hash_one(0u8) as u32;
        let free_call = |index| Call {
            xid: generation << index_bits | index,
            sequence: P::Sequence::default(),
            place: Place::Free,
            kind: CallKind::Read,
            retries: 0,
            slot: 0,
            file: 0,
            offset: 0,
            length: 0,
            at: 0,
        };
        Self {
            calls: (0..places).map(free_call).collect(),
            free: (0..places).rev().collect(),
            index_bits,
            operations: vec![Operation::default(); depth as usize],
            unstable: vec![false; protocol.files()],
            unstable_files: Vec::new(),
            protocol,
            slots,
            limits,
            keep_payload,
            inspected: NO_SLOT,
            jukebox_retries_max: (timeout_ns / JUKEBOX_DELAY_NS).clamp(1, u64::from(u16::MAX)) as u16,
            loads: vec![ConnectionLoad::default(); connections],
            verifier: None,
            verifier_changes: 0,
            payload_discarded: false,
            waiting: VecDeque::new(),
            slot_waits: SlotWaits::default(),
            state_lost: None,
            retry_now: Vec::new(),
            retry_later: Vec::new(),
            commit_failure: None,
            named: Vec::new(),
            repeated: Vec::new(),
            answered: VecDeque::new(),
            stable: stable_how::UNSTABLE,
            less_stable: None,
        }
    }

    /// Error message for an invalid request.
    #[inline]
    pub(in crate::engines::nfs) fn refusal(&self, request: &Request) -> Option<String> {
        let moves_data = matches!(request.kind, OperationKind::Read | OperationKind::Write);
        let fits = (request.slot as usize) < self.operations.len().min(self.slots.count())
            && (request.address.file as usize) < self.unstable.len()
            && request.address.length as usize <= self.slots.stride();
        if moves_data && fits { None } else { self.unusual_refusal(request) }
    }

    #[cold]
    fn unusual_refusal(&self, request: &Request) -> Option<String> {
        if request.slot as usize >= self.operations.len().min(self.slots.count()) {
            Some(format!("slot {} is beyond the depth of {}", request.slot, self.operations.len()))
        } else if request.address.file as usize >= self.unstable.len() {
            Some(format!("file {} is not one of the {} files", request.address.file, self.unstable.len()))
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
        let kind = match request.kind {
            OperationKind::Read => CallKind::Read,
            OperationKind::Write => CallKind::Write,
            kind if !kind.is_flush() => unreachable!("refused with the plan"),
            _ => return self.open(CallKind::Commit, request.slot, request.address.file, 0, 0, 0),
        };
        self.open(kind, request.slot, request.address.file, request.address.offset + u64::from(at), length, at)
    }

    /// Opens a call on a name for the operation in a slot; `fill` writes the call over an earlier one.
    pub(in crate::engines::nfs) fn open_named(
        &mut self,
        slot: u32,
        fill: impl FnOnce(&mut NamedCall<P::Handle>),
    ) -> u32 {
        let index = self.open(CallKind::Named, slot, 0, 0, 0, 0);
        if self.named.is_empty() {
            self.named.resize_with(self.calls.len(), NamedCall::default);
            self.repeated.resize(self.calls.len(), false);
        }
        fill(&mut self.named[index as usize]);
        self.repeated[index as usize] = false;
        index
    }

    /// Takes up an open file under a number, the next one at most.
    pub(in crate::engines::nfs) fn set_file(&mut self, number: u32, path: &str, handle: &P::Handle, state: P::State) {
        self.protocol.set_file(number, path, handle, state);
        if self.unstable.len() < self.protocol.files() {
            self.unstable.push(false);
        }
    }

    /// Returns `true` if a file has data that the server may hold in memory only, and counts them as committed.
    pub(in crate::engines::nfs) fn take_unstable(&mut self, file: u32) -> bool {
        if !std::mem::take(&mut self.unstable[file as usize]) {
            return false;
        }
        self.unstable_files.retain(|&other| other != file);
        true
    }

    /// Notes that the calls of a connection were sent again.
    pub(in crate::engines::nfs) fn note_repeated(&mut self, connection: usize) {
        let place = Place::On(connection as u8);
        for (call, repeated) in self.calls.iter().zip(&mut self.repeated) {
            *repeated |= call.place == place;
        }
    }

    /// Opens a COMMIT for the next file that needs one, if the table has room.
    pub(in crate::engines::nfs) fn open_commit(&mut self) -> Option<u32> {
        if self.free.is_empty() {
            return None;
        }
        let file = self.unstable_files.pop()?;
        self.unstable[file as usize] = false;
        Some(self.open(CallKind::Commit, NO_SLOT, file, 0, 0, 0))
    }

    /// Opens a call that renews the lease, if the table has room.
    pub(in crate::engines::nfs) fn open_renewal(&mut self) -> Option<u32> {
        (!self.free.is_empty()).then(|| self.open(CallKind::Renewal, NO_SLOT, 0, 0, 0, 0))
    }

    fn open(&mut self, kind: CallKind, slot: u32, file: u32, offset: u64, length: u32, at: u32) -> u32 {
        let index = self.free.pop().expect("the table has a place for every call of every slot");
        let xid = self.next_xid(index);
        self.calls[index as usize] = Call {
            xid,
            sequence: P::Sequence::default(),
            place: Place::Waiting,
            kind,
            retries: 0,
            slot,
            file,
            offset,
            length,
            at,
        };
        index
    }

    /// Takes what the call needs to be sent; a call that does not get it waits, and this returns `false`.
    pub(in crate::engines::nfs) fn acquire(&mut self, index: u32, clock: &Clock) -> bool {
        let Some(sequence) = self.protocol.acquire() else {
            self.waiting.push_back((clock.now(), index));
            return false;
        };
        self.calls[index as usize].sequence = sequence;
        true
    }

    /// Returns `true` if calls wait for a slot.
    pub(in crate::engines::nfs) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The next waiting call, if it can be sent now.
    pub(in crate::engines::nfs) fn acquire_next(&mut self, now: Nanos) -> Option<u32> {
        let &(since, index) = self.waiting.front()?;
        self.calls[index as usize].sequence = self.protocol.acquire()?;
        self.waiting.pop_front();
        if since != SINCE_RECOVERY {
            self.slot_waits.calls += 1;
            self.slot_waits.wait_ns += now.saturating_sub(since);
        }
        Some(index)
    }

    /// Takes all calls off their connections; they wait, and what they wait for is not a slot.
    pub(in crate::engines::nfs) fn suspend(&mut self) {
        for (since, _) in &mut self.waiting {
            *since = SINCE_RECOVERY;
        }
        for index in 0..self.calls.len() as u32 {
            if matches!(self.calls[index as usize].place, Place::On(_)) {
                if let Some(repeated) = self.repeated.get_mut(index as usize) {
                    *repeated = true;
                }
                // No reply has come and none will: the call does not count in the session that is lost.
                self.unload(index, false);
                self.reissue(index);
                self.waiting.push_back((SINCE_RECOVERY, index));
            }
        }
    }

    /// Goes on with a new session.
    pub(in crate::engines::nfs) fn resume(&mut self, protocol: P) {
        self.slot_waits.calls_before += self.protocol.slots().map_or(0, |counts| counts.calls);
        self.protocol = protocol;
        self.state_lost = None;
        // Calls that were made meanwhile waited for the server, and not for a slot.
        self.waiting.iter_mut().for_each(|(since, _)| *since = SINCE_RECOVERY);
    }

    /// Assigns a call to a connection; it is not queued yet.
    pub(in crate::engines::nfs) fn assign(&mut self, index: u32, connection: usize) {
        let call = &mut self.calls[index as usize];
        call.place = Place::On(connection as u8);
        let load = &mut self.loads[connection];
        load.calls += 1;
        load.large_reads += u32::from(call.is_large_read());
    }

    /// Queues a call.
    pub(in crate::engines::nfs) fn write(&self, index: u32, outgoing: &mut Outgoing) {
        let call = &self.calls[index as usize];
        let Call { xid, sequence, file, offset, length, .. } = *call;
        let arguments = Arguments { xid, sequence, file, offset, length };
        outgoing.call(|heads| match call.kind {
            CallKind::Read => self.protocol.append_read(arguments, heads),
            CallKind::Write => self.protocol.append_write(arguments, heads),
            CallKind::Commit => self.protocol.append_commit(arguments, heads),
            CallKind::Renewal => self.protocol.append_renewal(xid, sequence, heads),
            CallKind::Named => {
                let named = &self.named[index as usize];
                let writes = named.procedure == Procedure::WriteWhole;
                let data = if writes { self.data(call.slot, named.length) } else { &[] };
                self.protocol.append_named(named, data, xid, sequence, heads);
            }
        });
        if call.kind == CallKind::Write {
            outgoing.payload(call.slot, call.at, length, padding(length));
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
        let place = Place::On(connection as u8);
        for index in 0..self.calls.len() {
            if self.calls[index].place == place {
                self.write(index as u32, outgoing);
            }
        }
    }

    /// The call that a reply on a connection belongs to.
    pub(in crate::engines::nfs) fn find(&self, xid: u32, connection: usize) -> Option<(u32, CallKind)> {
        let index = xid & (self.calls.len() as u32 - 1);
        let call = &self.calls[index as usize];
        (call.xid == xid && call.place == Place::On(connection as u8)).then_some((index, call.kind))
    }

    /// Slot and sequence id of a call.
    pub(in crate::engines::nfs) fn sequence(&self, index: u32) -> P::Sequence {
        self.calls[index as usize].sequence
    }

    pub(in crate::engines::nfs) fn load(&self, connection: usize) -> ConnectionLoad {
        self.loads[connection]
    }

    /// Returns `true` if nothing is in flight.
    pub(in crate::engines::nfs) fn is_empty(&self) -> bool {
        self.free.len() == self.calls.len()
    }

    /// Bytes that a READ or WRITE requested.
    pub(in crate::engines::nfs) fn asked(&self, index: u32) -> u32 {
        self.calls[index as usize].length
    }

    /// Keeps the payload of the next READ in this slot.
    pub(in crate::engines::nfs) fn inspect(&mut self, slot: u32) {
        self.inspected = slot;
    }

    /// Returns `true` if the payload of a call is copied to its slot.
    pub(in crate::engines::nfs) fn keeps_payload(&self, index: u32) -> bool {
        self.keep_payload || self.calls[index as usize].slot == self.inspected
    }

    pub(in crate::engines::nfs) fn slots(&self) -> &SlotMap {
        &self.slots
    }

    /// Memory for `length` bytes of a READ's payload, starting at byte `from` of the payload.
    pub(in crate::engines::nfs) fn destination(&mut self, index: u32, from: u32, length: u32) -> &mut [u8] {
        let call = &self.calls[index as usize];
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
        let asked = self.calls[index as usize].length;
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
        if result.committed < self.stable as u32 {
            self.less_stable = Some(self.calls[index as usize].file);
        }
        if result.committed == stable_how::UNSTABLE as u32 {
            self.note_unstable(self.calls[index as usize].file);
            self.note_verifier(result.verifier);
        }
        let call = &mut self.calls[index as usize];
        if result.count == call.length {
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
        self.note_verifier(result.verifier);
        self.close(index, 0, 0, done);
    }

    /// Handles the reply to a call on a name, whose results are `results`.
    pub(in crate::engines::nfs) fn named_done(
        &mut self,
        index: u32,
        results: &[u8],
        done: &mut Vec<Completion>,
    ) -> Result<(), Unparsed> {
        let NamedCall { procedure, length, .. } = self.named[index as usize];
        match P::named(procedure, results)? {
            Ok(Found::<P> { failed: Some(status), .. }) if P::judge(status) != Judgement::Failed => {
                self.refused(index, status, done);
            }
            Ok(found) => {
                if procedure == Procedure::ReadWhole {
                    let data = &results[found.moved.clone()];
                    if data.len() > length as usize {
                        return Err(Unparsed::Malformed(MORE_THAN_REQUESTED));
                    }
                    let slot = self.calls[index as usize].slot;
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
        let call = &mut self.calls[index as usize];
        call.place = Place::Free;
        self.free.push(index);
        self.answered.push_back(Answered { slot: call.slot, result, was_repeated: self.repeated[index as usize] });
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
        let retries_max = self.retries_max(judgement);
        let call = &mut self.calls[index as usize];
        if call.retries >= retries_max {
            return self.fail(index, status, done);
        }
        call.retries += 1;
        self.reissue(index);
        match judgement {
            Judgement::Now => self.retry_now.push(index),
            Judgement::Recover => {
                self.state_lost = Some(status);
                self.waiting.push_front((SINCE_RECOVERY, index));
            }
            _ => self.retry_later.push(index),
        }
    }

    fn retries_max(&self, judgement: Judgement) -> u16 {
        match judgement {
            Judgement::Failed => 0,
            Judgement::Later => self.jukebox_retries_max,
            Judgement::AfterGrace => self.jukebox_retries_max.max((GRACE_NS_MAX / JUKEBOX_DELAY_NS) as u16),
            Judgement::Now | Judgement::Recover => RECOVERIES_MAX,
        }
    }

    fn fail(&mut self, index: u32, status: u32, done: &mut Vec<Completion>) {
        let call = &self.calls[index as usize];
        if call.kind == CallKind::Named {
            return self.answer(index, Err(status));
        }
        if call.slot == NO_SLOT && call.kind == CallKind::Commit {
            self.commit_failure = Some((call.file, status));
        }
        self.close(index, 0, errno(status), done);
    }

    /// Continues a call that moved only some of its bytes: the rest becomes the call.
    fn continue_call(&mut self, index: u32, bytes: u32) {
        self.reissue(index);
        let call = &mut self.calls[index as usize];
        call.offset += u64::from(bytes);
        call.length -= bytes;
        call.at += bytes;
        self.operations[call.slot as usize].bytes += bytes;
        self.retry_now.push(index);
    }

    /// Takes a call off its connection, under a new `xid`: to the server it is a new call.
    fn reissue(&mut self, index: u32) {
        self.unload(index, true);
        let xid = self.next_xid(index);
        self.calls[index as usize].xid = xid;
    }

    fn close(&mut self, index: u32, bytes: u32, errno: i32, done: &mut Vec<Completion>) {
        self.unload(index, true);
        let call = &mut self.calls[index as usize];
        call.place = Place::Free;
        self.free.push(index);
        let slot = call.slot;
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
        let call = &mut self.calls[index as usize];
        if let Place::On(connection) = call.place {
            call.place = Place::Waiting;
            let load = &mut self.loads[connection as usize];
            load.calls -= 1;
            load.large_reads -= u32::from(call.is_large_read());
            self.protocol.release(call.sequence, executed);
        }
    }

    fn next_xid(&self, index: u32) -> u32 {
        self.calls[index as usize].xid.wrapping_add(1 << self.index_bits)
    }

    fn note_unstable(&mut self, file: u32) {
        if !self.unstable[file as usize] {
            self.unstable[file as usize] = true;
            self.unstable_files.push(file);
        }
    }

    fn note_verifier(&mut self, verifier: [u8; 8]) {
        if self.verifier.is_some_and(|known| known != verifier) {
            self.verifier_changes += 1;
        }
        self.verifier = Some(verifier);
    }
}
