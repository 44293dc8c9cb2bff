//! Calls on their way into a connection: bytes become records, and records are answered.
//!
//! Bytes are received into the thread's input buffer, records are answered where they lie in it, and only the bytes that wait for the
//! next turn are kept by the connection. The data of a large WRITE that have not arrived are received where the store keeps them.

use libc::iovec;

use iocurve_wire::record::{Progress, RECORD_MARK_BYTES, Reassembler};

use super::close::Close;
use super::transport::{Transport, is_temporary};
use crate::memory::TIGHT_BYTES;
use crate::programs::dispatch::{self, CALL_BYTES_MAX, LongCall, SMALL_CALL_BYTES_MAX};
use crate::programs::nfs3_data::{self, ArrivingWrite};
use crate::programs::nfs4::arriving::ArrivingCompound;
use crate::programs::turn::Turn;

/// Bytes that one receive takes at most.
const RECEIVE_BYTES: usize = 256 << 10;

/// Size of a thread's input buffer: one receive behind a small call that is not complete.
pub(crate) const INPUT_BYTES: usize = RECORD_MARK_BYTES + SMALL_CALL_BYTES_MAX + RECEIVE_BYTES;

/// Bytes received behind the data of a large WRITE: enough for the head of the next call, whose data are then received in place, too.
const TAIL_BYTES: usize = 1024;

/// A batch is sent once it has this many bytes. The replies of 64 READs of 8 KiB still leave in one send.
pub(super) const BATCH_BYTES: usize = 768 << 10;

/// As `BATCH_BYTES`, for batches sent by reference: pipe and socket take all of it, and nothing is copied after all.
const BULK_BATCH_BYTES: usize = 256 << 10;

/// The state of the record whose bytes arrive next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// None of its bytes have arrived.
    Between,
    /// Some of its bytes have arrived. Records are numbered from the first one of the connection.
    Inside { record: u64 },
}

/// Why no further call is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// There is no complete one.
    Input,
    /// The batch is full.
    Batch,
    /// As many operations wait as may.
    Pending,
    /// Something large would begin, and memory is tight.
    Memory,
    /// The turn has taken its time.
    Long,
}

/// The receiving side of a connection.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) records: Reassembler,
    /// Bytes received and not taken in the last turn.
    held: Vec<u8>,
    /// A large WRITE whose data are arriving. The missing bytes of its buffer and its padding are the body left in `records`.
    write: Option<ArrivingWrite>,
    /// A long COMPOUND, part of which is arriving. The missing bytes are the body left in `records`.
    compound: Option<ArrivingCompound>,
    /// The last call was a large WRITE; the next one probably is, too.
    is_bulk: bool,
    /// Records that have arrived.
    arrived: u64,
    /// The peer has ended the stream: nothing more arrives.
    has_ended: bool,
    iovecs: Vec<iovec>,
}

// SAFETY: `iovecs` is scratch that is filled and used within one call.
unsafe impl Send for Incoming {}

impl Incoming {
    pub(super) fn new() -> Self {
        let records = Reassembler::new(CALL_BYTES_MAX);
        Self {
            records,
            held: Vec::new(),
            write: None,
            compound: None,
            is_bulk: false,
            arrived: 0,
            has_ended: false,
            iovecs: Vec::new(),
        }
    }

    /// Puts bytes held since the last turn at the start of the input buffer and returns how many there are.
    pub(super) fn release(&mut self, input: &mut [u8]) -> usize {
        let count = self.held.len();
        input[..count].copy_from_slice(&self.held);
        self.held.clear();
        if count > SMALL_CALL_BYTES_MAX {
            // A backlog is rare; idle connections should not hold memory for one.
            self.held = Vec::new();
        }
        count
    }

    /// Holds bytes until the next turn. They come from the input buffer, and fit there again.
    pub(super) fn hold(&mut self, rest: &[u8]) {
        self.held.extend_from_slice(rest);
        if self.records.buffer_bytes() > SMALL_CALL_BYTES_MAX {
            self.records.free_buffer();
        }
    }

    /// Bytes of memory that it holds between turns for the record that is arriving.
    pub(super) fn record_bytes(&self) -> usize {
        self.records.buffer_bytes()
            + self.write.as_ref().map_or(0, |write| write.buffer.length())
            + self.compound.as_ref().map_or(0, ArrivingCompound::bytes)
    }

    /// Bytes of memory that it holds between turns for calls that were received and not answered.
    pub(super) fn held_bytes(&self) -> usize {
        self.held.capacity()
    }

    /// True if the peer has ended the stream. It may still wait for replies.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Tells between turns whether a record has arrived in part.
    pub(super) fn arrival(&self) -> Arrival {
        let is_inside =
            self.write.is_some() || self.compound.is_some() || !self.held.is_empty() || self.records.is_inside();
        if is_inside { Arrival::Inside { record: self.arrived } } else { Arrival::Between }
    }

    /// Receives bytes that are there: data of a large WRITE into their buffer, everything else behind the `filled` input.
    pub(super) fn receive<T: Transport>(
        &mut self,
        turn: &mut Turn<'_>,
        transport: &mut T,
        input: &mut [u8],
        filled: &mut usize,
    ) -> Result<(), Close> {
        self.iovecs.clear();
        let write = self.write.as_mut().map(|write| &mut write.buffer);
        let buffer = write.or_else(|| self.compound.as_mut().and_then(ArrivingCompound::buffer));
        let missing = buffer.map_or(0, |buffer| {
            buffer.missing_memory(&mut self.iovecs);
            buffer.missing()
        });
        let room = match () {
            () if self.is_bulk => TAIL_BYTES,
            () if turn.tight.transfers || turn.tight.waiting => TIGHT_BYTES,
            () => RECEIVE_BYTES,
        };
        let room = &mut input[*filled..][..room];
        self.iovecs.push(iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() });
        // SAFETY: the write's buffer and the input are ours alone.
        let count = match unsafe { transport.receive(&self.iovecs) } {
            Ok(0) => {
                self.has_ended = true;
                return Ok(());
            }
            Ok(count) => count,
            Err(error) if is_temporary(&error) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let data = count.min(missing);
        *filled += count - data;
        let write = self.write.as_mut().map(|write| &mut write.buffer);
        if let Some(buffer) = write.or_else(|| self.compound.as_mut().and_then(ArrivingCompound::buffer)) {
            buffer.received(data);
            self.records.body_received(data);
            self.finish_write(turn);
            self.finish_compound(turn)?;
        }
        Ok(())
    }

    /// Answers operations that are due, then every complete call, and takes those off the input.
    pub(super) fn answer(&mut self, turn: &mut Turn<'_>, input: &mut &[u8]) -> Result<Stop, Close> {
        loop {
            if turn.is_long() {
                return Ok(Stop::Long);
            }
            let limit = match () {
                () if turn.tight.transfers => TIGHT_BYTES,
                () if turn.batch.is_bulk() => BULK_BATCH_BYTES,
                () => BATCH_BYTES,
            };
            if turn.batch.length() >= limit {
                return Ok(Stop::Batch);
            }
            if let Some(delayed) = turn.pending.pop_due() {
                turn.spend(1);
                nfs3_data::resume(turn, delayed);
                continue;
            }
            if turn.pending.is_full(turn.tight.waiting) {
                return Ok(Stop::Pending);
            }
            match self.records.advance(input)? {
                Progress::Record(record) => {
                    self.arrived += 1;
                    self.is_bulk &= record.len() >= SMALL_CALL_BYTES_MAX;
                    turn.spend(1);
                    dispatch::answer(turn, record)?;
                }
                Progress::Partial { length, .. } if length >= SMALL_CALL_BYTES_MAX && turn.tight.transfers => {
                    return Ok(Stop::Memory);
                }
                Progress::Partial { arrived, length } if length >= SMALL_CALL_BYTES_MAX => {
                    if !self.begin_write(turn, arrived, length)? {
                        return Ok(Stop::Input);
                    }
                    self.records.take_partial(input);
                }
                Progress::Body(body) => {
                    // Without a COMPOUND these are bytes of a WRITE that was refused, or padding.
                    if let Some(compound) = &mut self.compound {
                        compound.append(body);
                    }
                    self.finish_compound(turn)?;
                }
                Progress::Partial { .. } | Progress::NeedBytes { .. } => {
                    if turn.tight.transfers && self.records.buffer_bytes() > SMALL_CALL_BYTES_MAX {
                        return Err(Close::NoMemory);
                    }
                    return Ok(Stop::Input);
                }
            }
        }
    }

    /// Begins a large WRITE once its head has arrived, and returns whether it has.
    fn begin_write(&mut self, turn: &mut Turn<'_>, arrived: &[u8], length: usize) -> Result<bool, Close> {
        match dispatch::begin_long(turn, arrived, length)? {
            LongCall::Incomplete => return Ok(false),
            LongCall::Refused => self.arrived += 1,
            LongCall::Write(write) => self.write = Some(write),
            LongCall::Compound(mut compound) => {
                self.is_bulk = compound.buffer().is_some();
                self.compound = Some(compound);
                return Ok(true);
            }
        }
        self.is_bulk = true;
        self.finish_write(turn);
        Ok(true)
    }

    /// Answers a long COMPOUND if all of it has arrived.
    fn finish_compound(&mut self, turn: &mut Turn<'_>) -> Result<(), Close> {
        match self.compound.take_if(|_| self.records.body_left() == 0) {
            Some(compound) => {
                self.arrived += 1;
                turn.spend(1);
                Ok(compound.answer(turn)?)
            }
            None => Ok(()),
        }
    }

    /// Finishes a large WRITE if all its data have arrived.
    fn finish_write(&mut self, turn: &mut Turn<'_>) {
        if let Some(write) = self.write.take_if(|write| write.buffer.missing() == 0) {
            self.arrived += 1;
            turn.spend(1);
            nfs3_data::finish_write(turn, write);
        }
    }
}
