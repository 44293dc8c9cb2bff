//! One connection: bytes in, bytes out. It knows no sockets and reads no clock.
//!
//! A turn takes what the transport has, answers every complete call in it, and sends all replies at once. What the transport does
//! not take is copied, and no more calls are read until it has gone; so a slow peer holds a bounded amount of memory and nothing
//! of the store. The data of a large WRITE that have not arrived are received where the store keeps them.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;

use crossbeam_epoch as epoch;
use libc::iovec;
use thiserror::Error;

use iocurve_meter::Nanos;
use iocurve_wire::nfs3::{NFS_PROGRAM, NFS_V3, nfsproc3, stable_how};
use iocurve_wire::record::{RECORD_MARK_BYTES, RecordMark};
use iocurve_wire::rpc::{CallHeader, RPC_VERSION, opaque_auth};
use iocurve_wire::server_fast::WriteArgs;
use iocurve_wire::xdr::{Decode, Reader, XdrError, padding};

use crate::batch::Batch;
use crate::calls::{self, Credential};
use crate::data;
use crate::qos::{Key, Waiter};
use crate::splice::SplicePipes;
use crate::store::{Landing, Store, TRANSFER_BYTES_MAX};
use crate::worker::{Delayed, Operation, SessionId, Worker};

/// Longest head of a call before the data of a WRITE: call header with two full authenticators, handle, numbers.
const HEAD_BYTES_MAX: usize = 24 + 2 * (8 + 400) + 68 + 20;

/// Longest record that is taken.
const RECORD_BYTES_MAX: usize = TRANSFER_BYTES_MAX as usize + HEAD_BYTES_MAX + 4;

/// Longest record of a call that carries no data to write: names, link targets and their envelope.
const SMALL_RECORD_BYTES_MAX: usize = 16 << 10;

/// A WRITE whose record is at least this long is received in place if it has not arrived as a whole.
const LANDING_BYTES_MIN: usize = SMALL_RECORD_BYTES_MAX;

/// Bytes that one receive takes at most.
const RECEIVE_BYTES: usize = 256 << 10;

/// Room for what one receive brings behind a call that was not complete. What waits for the next turn came from here, and fits.
pub(crate) const INPUT_BYTES: usize = SMALL_RECORD_BYTES_MAX + RECORD_MARK_BYTES + RECEIVE_BYTES;

/// Bytes received behind the data of a large WRITE: enough for the head of the next call, which is then received in place, too.
const TAIL_BYTES: usize = 1024;

/// A batch is sent once it has this many bytes. The replies of 64 READs of 8 KiB still leave in one send.
const BATCH_BYTES: usize = 768 << 10;

/// The same if it goes by reference, so that pipe and socket take all of it and nothing is copied after all.
const BULK_BATCH_BYTES: usize = 256 << 10;

/// A turn ends once it has sent this many bytes; then other connections have theirs.
const TURN_BYTES: usize = 4 << 20;

/// Most operations of one connection that wait for their time; further calls stay in the transport.
const DELAYED_MAX: usize = 4096;

/// `IOV_MAX` of Linux.
const IOVECS_MAX: usize = 1024;

/// What carries the bytes of a connection. Neither method waits; both say `WouldBlock` instead.
pub trait Transport {
    /// Receives into the pieces in order and returns how many bytes came; 0 when the peer has ended.
    ///
    /// # Safety
    /// The pieces must be writable memory that nothing else refers to.
    unsafe fn receive(&mut self, into: &[iovec]) -> io::Result<usize>;

    /// Sends from the pieces in order and returns how many bytes were taken.
    ///
    /// # Safety
    /// The pieces must be readable memory.
    unsafe fn send(&mut self, from: &[iovec]) -> io::Result<usize>;

    /// Gets ready to send by reference, if it can.
    fn prepare_to_refer(&mut self, _pipes: &mut SplicePipes) -> bool {
        false
    }

    /// Sends pieces, those that are lent by reference, and returns how many bytes were taken. Some of them it may still hold. It must
    /// be ready, and hold nothing.
    ///
    /// # Safety
    /// The pieces must be readable memory; what is lent is shown to the peer as it is when the peer reads it.
    unsafe fn refer(&mut self, _pieces: impl Iterator<Item = (bool, iovec)>) -> io::Result<usize> {
        Ok(0)
    }

    /// Sends what it holds, and says whether all of that has gone.
    fn flush(&mut self, _pipes: &mut SplicePipes) -> io::Result<bool> {
        Ok(true)
    }
}

/// Why a connection is closed.
#[derive(Debug, Error)]
pub enum Close {
    /// The peer ended it.
    #[error("the peer has ended the connection")]
    Ended,
    /// The transport failed.
    #[error("{0}")]
    Transport(#[from] io::Error),
    /// A record is longer than any call.
    #[error("a record of {0} bytes is longer than any call")]
    RecordTooLong(usize),
    /// A record is no call.
    #[error("a record is no call: {0}")]
    NoCall(#[from] XdrError),
}

impl Close {
    /// Whether the peer broke the protocol.
    pub fn is_protocol_error(&self) -> bool {
        matches!(self, Self::RecordTooLong(_) | Self::NoCall(_))
    }
}

/// What a connection waits for after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Bytes from the peer.
    Receive,
    /// Room to send.
    Send,
    /// Nothing: it has more to do, after others had their turn.
    Turn,
    /// One of its delayed operations.
    Due,
}

/// One connection.
#[derive(Debug)]
pub struct Session {
    /// Its number.
    pub id: SessionId,
    /// Who is there, in words.
    pub peer: String,
    /// Names the client and this connection where limits are shared.
    path: [Key; 2],
    /// Who called last.
    pub(crate) credential: Credential,
    /// Input of the next turn that is here already.
    held: Vec<u8>,
    /// Fragments of a record whose last one has not come.
    joined: Vec<u8>,
    /// What is missing of the fragment that is coming.
    fragment: Option<RecordMark>,
    /// Bytes of input to be ignored.
    skip: usize,
    /// A WRITE whose data are arriving.
    arriving: Option<Arriving>,
    /// The last call was a large WRITE; the next one probably is, too.
    bulk: bool,
    /// Operations that are due.
    ready: VecDeque<Delayed>,
    /// Operations that wait for limits or for their time.
    delayed: usize,
    /// How many of them there may be.
    delayed_max: usize,
    /// Has met limits, which remember it.
    is_throttled: bool,
    /// Replies that the transport did not take, from `sent` on.
    pending: Vec<u8>,
    sent: usize,
    iovecs: Vec<iovec>,
}

// SAFETY: `iovecs` is scratch that is filled and used within one call.
unsafe impl Send for Session {}

/// A WRITE whose data are arriving.
#[derive(Debug)]
struct Arriving {
    xid: u32,
    stable: stable_how,
    landing: Landing,
}

/// Why calls are not looked at any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// There is no complete one.
    Input,
    /// The batch is full.
    Batch,
    /// Too many wait for their time.
    Delayed,
}

impl Session {
    /// A connection with nothing received yet.
    pub fn new(id: SessionId, peer: String) -> Self {
        Self {
            id,
            path: [client(&peer), Key::from(id)],
            peer,
            credential: Credential::default(),
            held: Vec::new(),
            joined: Vec::new(),
            fragment: None,
            skip: 0,
            arriving: None,
            bulk: false,
            ready: VecDeque::new(),
            delayed: 0,
            delayed_max: DELAYED_MAX,
            is_throttled: false,
            pending: Vec::new(),
            sent: 0,
            iovecs: Vec::new(),
        }
    }

    /// Hands over an operation that is due now; a turn must follow.
    pub fn due(&mut self, delayed: Delayed) {
        self.delayed -= 1;
        self.ready.push_back(delayed);
    }

    /// Whether none of its operations wait.
    pub fn is_movable(&self) -> bool {
        self.delayed == 0 && self.ready.is_empty()
    }

    /// Operations that were received and wait for their time or their turn.
    pub fn in_flight(&self) -> usize {
        self.delayed + self.ready.len()
    }

    /// Keeps a READ or WRITE of `bytes` until the limits of its export let it through and it is due. Returns it if that is now.
    pub(crate) fn delay<S>(
        &mut self,
        worker: &mut Worker<S>,
        export: usize,
        bytes: u64,
        operation: Operation,
        now: Nanos,
    ) -> Option<Operation> {
        let throttle = &worker.served.exports[export].throttle;
        self.is_throttled = true;
        self.delayed_max = throttle.requests_in_flight().min(DELAYED_MAX);
        let is_write = matches!(operation, Operation::Reply(_));
        let waiter = Waiter { thread: worker.thread, export, arrived: now, path: self.path, operation };
        match throttle.admit(waiter, is_write, bytes) {
            Some(through) if through.due <= now => return Some(through.operation),
            Some(through) => worker.timers.push(through),
            None => {}
        }
        self.delayed += 1;
        None
    }

    /// Takes back all that waits, when the connection ends. Says whether others may go through sooner.
    pub fn forget<S>(&self, worker: &mut Worker<S>, now: Nanos) -> bool {
        self.is_throttled && worker.forget(now, self.path)
    }

    /// Sends what waits, receives, answers.
    pub fn turn<S: Store, T: Transport>(
        &mut self,
        worker: &mut Worker<S>,
        transport: &mut T,
        now: Nanos,
    ) -> Result<Interest, Close> {
        if !self.flush(worker, transport)? {
            return Ok(Interest::Send);
        }
        let mut input = std::mem::take(&mut worker.input);
        let interest = self.answer(worker, transport, &mut input, now);
        worker.input = input;
        interest
    }

    /// The batches of a turn.
    fn answer<S: Store, T: Transport>(
        &mut self,
        worker: &mut Worker<S>,
        transport: &mut T,
        input: &mut [u8],
        now: Nanos,
    ) -> Result<Interest, Close> {
        let mut filled = self.held.len();
        input[..filled].copy_from_slice(&self.held);
        self.held.clear();
        if filled > SMALL_RECORD_BYTES_MAX {
            // A backlog is rare; idle connections should not hold memory for one.
            self.held = Vec::new();
        }
        let (mut at, mut received, mut answered_bytes) = (0, false, 0);
        while answered_bytes < TURN_BYTES {
            let guard = epoch::pin();
            let mut answered = self.calls(worker, &input[..filled], &mut at, now);
            if matches!(answered, Ok(Stop::Input)) && !received {
                received = true;
                input.copy_within(at..filled, 0);
                filled -= at;
                at = 0;
                answered = self
                    .receive(worker, transport, input, &mut filled, now)
                    .and_then(|()| self.calls(worker, &input[..filled], &mut at, now));
            }
            answered_bytes += worker.batch.length();
            let gone = self.send(worker, transport);
            drop(guard);
            let (stop, gone) = (answered?, gone?);
            if !gone || stop != Stop::Batch {
                self.held.extend_from_slice(&input[at..filled]);
                return Ok(match stop {
                    _ if !gone => Interest::Send,
                    Stop::Delayed => Interest::Due,
                    _ => Interest::Receive,
                });
            }
        }
        self.held.extend_from_slice(&input[at..filled]);
        Ok(Interest::Turn)
    }

    /// Answers what is due and every complete call from `at` on.
    fn calls<S: Store>(
        &mut self,
        worker: &mut Worker<S>,
        input: &[u8],
        at: &mut usize,
        now: Nanos,
    ) -> Result<Stop, Close> {
        loop {
            let most = if worker.batch.is_bulk() { BULK_BATCH_BYTES } else { BATCH_BYTES };
            if worker.batch.length() >= most {
                return Ok(Stop::Batch);
            }
            if let Some(delayed) = self.ready.pop_front() {
                data::resume(worker, delayed);
                continue;
            }
            let skipped = self.skip.min(input.len() - *at);
            *at += skipped;
            self.skip -= skipped;
            if self.delayed >= self.delayed_max {
                return Ok(Stop::Delayed);
            }
            match self.record(worker, &input[*at..], now)? {
                None => return Ok(Stop::Input),
                Some(taken) => *at += taken,
            }
        }
    }

    /// Answers the first record of `input` and returns how many bytes it took; `None` if it is not complete.
    #[inline]
    fn record<S: Store>(&mut self, worker: &mut Worker<S>, input: &[u8], now: Nanos) -> Result<Option<usize>, Close> {
        if self.fragment.is_some() {
            return self.join(worker, input, now);
        }
        let Some((mark, rest)) = input.split_first_chunk::<RECORD_MARK_BYTES>() else { return Ok(None) };
        let mark = RecordMark::from_bytes(*mark);
        let length = mark.length as usize;
        if length + self.joined.len() > RECORD_BYTES_MAX {
            return Err(Close::RecordTooLong(length + self.joined.len()));
        }
        if !mark.last || !self.joined.is_empty() {
            self.fragment = Some(mark);
            return Ok(Some(RECORD_MARK_BYTES));
        }
        if let Some(record) = rest.get(..length) {
            self.bulk &= length >= LANDING_BYTES_MIN;
            calls::answer(self, worker, record, now)?;
            return Ok(Some(RECORD_MARK_BYTES + length));
        }
        if length < LANDING_BYTES_MIN {
            return Ok(None);
        }
        self.land(worker, rest, length, now)
    }

    /// Collects a fragment as it comes, and answers the record once its last one is complete.
    fn join<S: Store>(&mut self, worker: &mut Worker<S>, input: &[u8], now: Nanos) -> Result<Option<usize>, Close> {
        let Some(RecordMark { length, last }) = self.fragment.take() else { return Ok(None) };
        let taken = input.len().min(length as usize);
        self.joined.extend_from_slice(&input[..taken]);
        let left = length - taken as u32;
        if left > 0 {
            self.fragment = Some(RecordMark { length: left, last });
        } else if last {
            let record = std::mem::take(&mut self.joined);
            calls::answer(self, worker, &record, now)?;
        }
        Ok((taken > 0 || left == 0).then_some(taken))
    }

    /// Prepares for the data of a large WRITE of which `arrived` is there.
    fn land<S: Store>(
        &mut self,
        worker: &mut Worker<S>,
        arrived: &[u8],
        length: usize,
        now: Nanos,
    ) -> Result<Option<usize>, Close> {
        let (xid, cred, arguments) = match parse_write(arrived, length) {
            Err(XdrError::Truncated { .. }) if arrived.len() < HEAD_BYTES_MAX => return Ok(None),
            parsed => parsed?,
        };
        self.bulk = true;
        let padded = arguments.length as usize + padding(arguments.length as usize);
        self.skip = padded - arguments.arrived.len();
        match self.credential.caller(&cred) {
            Err(stat) => calls::deny(worker, xid, stat),
            Ok(by) => match worker.served.store.land(by, arguments.file, arguments.offset, arguments.length) {
                Err(status) => data::write_failed(worker, xid, arguments.file, status),
                Ok(mut landing) => {
                    let data = &arguments.arrived[..arguments.arrived.len().min(landing.length())];
                    self.skip = padded - landing.length() - (arguments.arrived.len() - data.len());
                    landing.copy_from(data);
                    self.arriving = Some(Arriving { xid, stable: arguments.stable, landing });
                    self.landed(worker, now);
                }
            },
        }
        Ok(Some(RECORD_MARK_BYTES + arrived.len()))
    }

    /// Carries out a large WRITE if all its data have arrived.
    fn landed<S: Store>(&mut self, worker: &mut Worker<S>, now: Nanos) {
        if let Some(Arriving { xid, stable, landing }) =
            self.arriving.take_if(|arriving| arriving.landing.missing() == 0)
        {
            data::landed(self, worker, xid, landing, stable, now);
        }
    }

    /// Receives what is there: data of a large WRITE where they belong, everything else behind the `filled` input.
    fn receive<S: Store, T: Transport>(
        &mut self,
        worker: &mut Worker<S>,
        transport: &mut T,
        input: &mut [u8],
        filled: &mut usize,
        now: Nanos,
    ) -> Result<(), Close> {
        self.iovecs.clear();
        let missing = self.arriving.as_mut().map_or(0, |arriving| {
            arriving.landing.room(&mut self.iovecs);
            arriving.landing.missing()
        });
        let room = if self.bulk { TAIL_BYTES } else { RECEIVE_BYTES };
        let room = &mut input[*filled..][..room];
        self.iovecs.push(iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() });
        // SAFETY: the landing's room and the input are ours alone.
        let count = match unsafe { transport.receive(&self.iovecs) } {
            Ok(0) => return Err(Close::Ended),
            Ok(count) => count,
            Err(error) if is_temporary(&error) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let data = count.min(missing);
        *filled += count - data;
        if let Some(arriving) = &mut self.arriving {
            arriving.landing.arrived(data);
            self.landed(worker, now);
        }
        Ok(())
    }

    /// Sends the batch, and keeps a copy of what the transport does not take. Says whether all of it has gone.
    fn send<S: Store, T: Transport>(&mut self, worker: &mut Worker<S>, transport: &mut T) -> Result<bool, Close> {
        let batch = &mut worker.batch;
        let by_reference = batch.is_bulk() && transport.prepare_to_refer(&mut worker.pipes);
        let sent = if by_reference { refer(batch, &worker.served.store, transport) } else { send(batch, transport) };
        if let Ok(sent) = &sent
            && *sent < batch.length()
        {
            self.pending = std::mem::take(&mut worker.spare);
            batch.copy_from(*sent, &mut self.pending);
        }
        batch.clear();
        sent?;
        Ok(transport.flush(&mut worker.pipes)? && self.pending.is_empty())
    }

    /// Sends what waits, and says whether all of it has gone.
    fn flush<S, T: Transport>(&mut self, worker: &mut Worker<S>, transport: &mut T) -> Result<bool, Close> {
        if !transport.flush(&mut worker.pipes)? {
            return Ok(false);
        }
        while self.sent < self.pending.len() {
            let rest = &self.pending[self.sent..];
            let piece = iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() };
            // SAFETY: the piece is a part of `pending`.
            match unsafe { transport.send(&[piece]) } {
                Ok(count) => self.sent += count,
                Err(error) if is_temporary(&error) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        // One such buffer is kept for whoever needs it next: memory fresh from the system costs more than the copy.
        let used = std::mem::take(&mut self.pending);
        if used.capacity() > worker.spare.capacity() {
            worker.spare = used;
            worker.spare.clear();
        }
        self.sent = 0;
        Ok(true)
    }
}

/// Sends a batch and returns how many bytes the transport took.
fn send<T: Transport>(batch: &mut Batch, transport: &mut T) -> io::Result<usize> {
    let mut sent = 0;
    for part in batch.iovecs().chunks(IOVECS_MAX) {
        let length: usize = part.iter().map(|piece| piece.iov_len).sum();
        // SAFETY: the batch's own bytes are in its vector, and lent ones are kept by the turn's epoch guard.
        match unsafe { transport.send(part) } {
            Ok(count) => {
                sent += count;
                if count < length {
                    break;
                }
            }
            Err(error) if is_temporary(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

/// The same, with what is lent by reference.
fn refer<S: Store, T: Transport>(batch: &mut Batch, store: &S, transport: &mut T) -> io::Result<usize> {
    for (_, piece) in batch.pieces().filter(|(is_lent, _)| *is_lent) {
        store.referred(piece.iov_base.cast(), piece.iov_len);
    }
    // SAFETY: as in `send`; and what is lent will be parted from its pages before it is used for another file.
    unsafe { transport.refer(batch.pieces()) }
}

/// Names a client by its address.
fn client(peer: &str) -> Key {
    match peer.parse() {
        Ok(IpAddr::V4(address)) => address.to_ipv6_mapped().to_bits(),
        Ok(IpAddr::V6(address)) => address.to_bits(),
        Err(_) => 0,
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Parses the head of a WRITE whose record is `length` bytes long. Nothing else may be that long.
fn parse_write(arrived: &[u8], length: usize) -> Result<(u32, opaque_auth<'_>, WriteArgs<'_>), XdrError> {
    let mut reader = Reader::new(arrived);
    let header = CallHeader::decode(&mut reader)?;
    let is_write = (header.rpcvers, header.prog, header.vers) == (RPC_VERSION, NFS_PROGRAM, NFS_V3)
        && header.proc == nfsproc3::NFSPROC3_WRITE as u32;
    if !is_write {
        return Err(XdrError::TooLong { length, limit: SMALL_RECORD_BYTES_MAX });
    }
    let head = arrived.len() - reader.rest().len();
    Ok((header.xid, header.cred, WriteArgs::parse(reader.rest(), length - head)?))
}

#[cfg(test)]
mod tests;
