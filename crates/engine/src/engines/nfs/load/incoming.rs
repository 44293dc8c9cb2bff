//! Receiving replies: a byte stream becomes records, records become completions.
//!
//! Received bytes are kept in one staging buffer. A [`Reassembler`] splits them into records, and replies are parsed in
//! place. If the payload of a READ reply has not all arrived, the rest of it goes straight to the slot's buffer or is
//! dropped in the kernel, so that records need not fit the staging buffer. The bytes come from any [`Stream`].

use std::io::{self, IoSliceMut};

use iocurve_wire::client_fast::{Malformed, ReadResult, Reply, Unparsed, Verdict};
use iocurve_wire::record::{Progress, RECORD_MARK_BYTES, Reassembler};

use super::super::names::{ENTRIES_BYTES, WHOLE_BYTES_MAX};
use super::super::protocol::{CallKind, Passed, Protocol};
use super::super::stream::{Stream, not_now};
use super::flight::Flight;
use super::table::LARGE_BYTES;
use crate::engines::request::Completion;

/// Size of the buffer for one receive.
const STAGING_BYTES: usize = 256 << 10;
/// Longest reply without READ payload. A head with the longest verifier and a failed or written result are far below.
const PLAIN_REPLY_BYTES_MAX: usize = 2048;
/// Longest reply to a call on a name: a list of entries, or a whole file.
pub(in crate::engines::nfs) const NAMED_REPLY_BYTES_MAX: usize =
    PLAIN_REPLY_BYTES_MAX + if ENTRIES_BYTES > WHOLE_BYTES_MAX { ENTRIES_BYTES } else { WHOLE_BYTES_MAX } as usize;
/// From this size up, the rest of a payload is dropped by a separate system call.
const DISCARD_BYTES_MIN: u32 = LARGE_BYTES / 2;

/// The reason that a connection cannot be used any more.
#[derive(Debug)]
pub(in crate::engines::nfs) enum Lost {
    /// It was closed or broke.
    Closed(io::Error),
    /// The server sent an invalid reply.
    Garbage(Malformed),
}

/// Receiving side of one connection.
#[derive(Debug)]
pub(in crate::engines::nfs) struct Incoming {
    staging: Box<[u8]>,
    /// Start of the received bytes that are not parsed yet.
    start: usize,
    end: usize,
    records: Reassembler,
    /// The READ reply whose payload is still arriving.
    payload: Option<Payload>,
    /// A reply has come since this was last cleared.
    pub heard: bool,
    /// A reply has begun to come since this was last cleared.
    pub heard_part: bool,
}

/// A payload that is still arriving; padding may follow it in its record.
#[derive(Debug, Clone, Copy)]
struct Payload {
    call: u32,
    result: ReadResult,
    placed: u32,
}

impl Payload {
    fn left(&self) -> u32 {
        self.result.count - self.placed
    }

    /// Copies received bytes to the slot's buffer, or drops them; bytes behind the payload are padding.
    fn place<P: Protocol>(&mut self, bytes: &[u8], flight: &mut Flight<P>) {
        let taken = bytes.len().min(self.left() as usize);
        if flight.keeps_payload(self.call) && taken > 0 {
            flight.destination(self.call, self.placed, taken as u32).copy_from_slice(&bytes[..taken]);
        }
        self.placed += taken as u32;
    }
}

/// Destination of the next bytes.
enum Target {
    Staging { bytes: usize },
    Payload { payload: Payload, staging: usize },
    Nowhere { bytes: usize },
}

impl Incoming {
    /// For replies to READs of at most `read_bytes_max`, and others of at most `reply_bytes_max`.
    pub(in crate::engines::nfs) fn new(read_bytes_max: u32, reply_bytes_max: usize) -> Self {
        Self {
            // Memory that no reply has reached takes none of the machine's.
            staging: vec![0; STAGING_BYTES.max(RECORD_MARK_BYTES + reply_bytes_max)].into_boxed_slice(),
            start: 0,
            end: 0,
            records: Reassembler::new(reply_bytes_max.max(PLAIN_REPLY_BYTES_MAX + read_bytes_max as usize)),
            payload: None,
            heard: false,
            heard_part: false,
        }
    }

    /// Discards received bytes: the next byte is the first of a new connection.
    pub(in crate::engines::nfs) fn reset(&mut self) {
        (self.start, self.end, self.payload) = (0, 0, None);
        self.records.reset();
    }

    /// Receives available data and completes the operations that are answered. Only the first receive may wait, and
    /// only if it `waits`.
    pub(in crate::engines::nfs) fn receive<P: Protocol>(
        &mut self,
        stream: &impl Stream,
        waits: bool,
        connection: usize,
        flight: &mut Flight<P>,
        done: &mut Vec<Completion>,
    ) -> Result<(), Lost> {
        let mut waits = waits;
        loop {
            let (asked, received) = self.receive_once(stream, waits, connection, flight);
            let bytes = match received {
                Ok(0) => return Err(Lost::Closed(io::ErrorKind::UnexpectedEof.into())),
                Ok(bytes) => bytes,
                Err(error) if not_now(&error) => return Ok(()),
                Err(error) => return Err(Lost::Closed(error)),
            };
            self.process(connection, flight, done).map_err(Lost::Garbage)?;
            // A short receive has emptied the socket.
            if bytes < asked {
                return Ok(());
            }
            waits = false;
        }
    }

    fn receive_once<P: Protocol>(
        &mut self,
        stream: &impl Stream,
        waits: bool,
        connection: usize,
        flight: &mut Flight<P>,
    ) -> (usize, io::Result<usize>) {
        let keeps = self.payload.is_some_and(|payload| flight.keeps_payload(payload.call));
        match self.target(P::READ_REPLY_HEAD_BYTES, flight.calls.load(connection).large_reads > 0, keeps) {
            Target::Staging { bytes } => {
                let next = &mut self.staging[self.end..self.end + bytes];
                let received = stream.receive(&mut [IoSliceMut::new(next)], waits);
                self.end += *received.as_ref().unwrap_or(&0);
                (bytes, received)
            }
            Target::Nowhere { bytes } => {
                flight.payload_discarded = true;
                let received = stream.discard(bytes, waits);
                self.placed(*received.as_ref().unwrap_or(&0) as u32);
                (bytes, received)
            }
            Target::Payload { payload, staging } => {
                let left = payload.left();
                let rest = flight.destination(payload.call, payload.placed, left);
                let next = &mut self.staging[..staging];
                let received = stream.receive(&mut [IoSliceMut::new(rest), IoSliceMut::new(next)], waits);
                let bytes = *received.as_ref().unwrap_or(&0);
                self.placed(bytes.min(left as usize) as u32);
                self.end = bytes.saturating_sub(left as usize);
                (left as usize + staging, received)
            }
        }
    }

    /// Decides where the next bytes go. Before a large payload only its head is requested, so that the payload stays in
    /// the socket until its destination is known.
    fn target(&mut self, head_bytes: usize, large_reads: bool, keep_payload: bool) -> Target {
        self.compact();
        let head = if large_reads { head_bytes } else { self.staging.len() };
        let Some(payload) = self.payload else {
            let room = self.staging.len() - self.end;
            let bytes = if head > self.end { head - self.end } else { head };
            return Target::Staging { bytes: bytes.min(room) };
        };
        let left = payload.left() as usize;
        // Padding, and the head of the next reply.
        let after = self.records.body_left() - left + head;
        if keep_payload && left > 0 {
            return Target::Payload { payload, staging: after.min(self.staging.len()) };
        }
        if left >= DISCARD_BYTES_MIN as usize {
            return Target::Nowhere { bytes: left };
        }
        Target::Staging { bytes: (left + after).min(self.staging.len()) }
    }

    /// Moves the unparsed bytes to the front.
    fn compact(&mut self) {
        if self.start > 0 {
            self.staging.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
    }

    /// Records payload that bypassed the staging buffer.
    fn placed(&mut self, bytes: u32) {
        if let Some(payload) = &mut self.payload {
            payload.placed += bytes;
            self.records.body_received(bytes as usize);
        }
    }

    /// Parses all complete replies in the staging buffer.
    fn process<P: Protocol>(
        &mut self,
        connection: usize,
        flight: &mut Flight<P>,
        done: &mut Vec<Completion>,
    ) -> Result<(), Malformed> {
        let Self { staging, start, end, records, payload, heard, heard_part } = self;
        let mut input = &staging[*start..*end];
        loop {
            if records.body_left() == 0
                && let Some(Payload { call, result, .. }) = payload.take()
            {
                *heard = true;
                flight.read_done(call, result, done);
            }
            match records.advance(&mut input).map_err(|_| Malformed::LongRecord)? {
                Progress::NeedBytes { .. } => break,
                Progress::Record(record) => {
                    *heard = true;
                    whole_reply(record, connection, flight, done)?;
                }
                Progress::Partial { arrived, length } => {
                    let Some(mut begun) = partial_reply(arrived, length, connection, flight)? else { break };
                    *heard_part = true;
                    begun.place(&arrived[begun.result.payload_at..], flight);
                    *payload = Some(begun);
                    records.take_partial(&mut input);
                }
                Progress::Body(bytes) => {
                    if let Some(payload) = payload {
                        payload.place(bytes, flight);
                    }
                }
            }
        }
        *start = *end - input.len();
        Ok(())
    }
}

/// Completes the call that a whole record answers.
fn whole_reply<P: Protocol>(
    record: &[u8],
    connection: usize,
    flight: &mut Flight<P>,
    done: &mut Vec<Completion>,
) -> Result<(), Malformed> {
    match answer(&Reply::new(record, record.len()), record.len(), connection, flight, done) {
        Ok(Answer::Done) => Ok(()),
        Ok(Answer::Payload { call, result }) => {
            Payload { call, result, placed: 0 }.place(&record[result.payload_at..], flight);
            flight.read_done(call, result, done);
            Ok(())
        }
        Err(Unparsed::Incomplete) => Err(Malformed::RecordEnds),
        Err(Unparsed::Malformed(why)) => Err(why),
    }
}

/// Handles the payload of a record that has begun to arrive, once its head is complete. Other replies wait until they
/// are complete.
fn partial_reply<P: Protocol>(
    arrived: &[u8],
    length: usize,
    connection: usize,
    flight: &mut Flight<P>,
) -> Result<Option<Payload>, Malformed> {
    match answer(&Reply::new(arrived, length), length, connection, flight, &mut Vec::new()) {
        Ok(Answer::Payload { call, result }) => Ok(Some(Payload { call, result, placed: 0 })),
        Ok(Answer::Done) | Err(Unparsed::Incomplete) => Ok(None),
        Err(Unparsed::Malformed(why)) => Err(why),
    }
}

/// Result of parsing a reply.
enum Answer {
    /// Its call is completed.
    Done,
    /// Its payload must still be received.
    Payload { call: u32, result: ReadResult },
}

/// Parses a reply. A READ with payload is returned; any other call is completed when its record is complete.
fn answer<P: Protocol>(
    reply: &Reply<'_>,
    length: usize,
    connection: usize,
    flight: &mut Flight<P>,
    done: &mut Vec<Completion>,
) -> Result<Answer, Unparsed> {
    let head = reply.head()?;
    let Some((call, kind)) = flight.calls.find(head.xid, connection) else {
        return Err(Unparsed::Malformed(Malformed::UnknownXid));
    };
    let passed = match head.verdict {
        Verdict::Success if kind != CallKind::Conversation => {
            let sequence = flight.calls[call].sequence;
            flight.protocol.pass(reply, head.result_at, sequence, kind == CallKind::Named)?
        }
        _ => Passed::At(0),
    };
    if let (CallKind::Read, Verdict::Success, Passed::At(at)) = (kind, head.verdict, passed) {
        let result = P::read(reply, at)?;
        if result.status == 0 {
            if result.count > flight.calls[call].part.length {
                return Err(Unparsed::Malformed(Malformed::MoreThanRequested));
            }
            return Ok(Answer::Payload { call, result });
        }
    }
    let length_max = match kind {
        CallKind::Conversation => length,
        CallKind::Named => NAMED_REPLY_BYTES_MAX,
        _ => PLAIN_REPLY_BYTES_MAX,
    };
    if length > length_max {
        return Err(Unparsed::Malformed(Malformed::TooLong));
    }
    if !reply.is_whole() {
        return Err(Unparsed::Incomplete);
    }
    match (head.verdict, passed) {
        (Verdict::Success, Passed::At(at)) => executed(reply, at, call, kind, flight, done)?,
        (Verdict::Success, Passed::Alone) if kind == CallKind::Renewal => flight.renewed(call, done),
        (Verdict::Success, Passed::Alone) => return Err(Unparsed::Malformed(Malformed::OperationMissing)),
        (Verdict::Success, Passed::Refused(status)) => flight.not_executed(call, status, done),
        (_, Passed::At(at)) if kind == CallKind::Conversation => flight.question_done(call, reply.results(at)),
        (verdict, _) => flight.rejected(call, verdict, done),
    }
    Ok(Answer::Done)
}

/// Completes a call by the result of its operation.
fn executed<P: Protocol>(
    reply: &Reply<'_>,
    at: usize,
    call: u32,
    kind: CallKind,
    flight: &mut Flight<P>,
    done: &mut Vec<Completion>,
) -> Result<(), Unparsed> {
    match kind {
        CallKind::Read => flight.read_done(call, P::read(reply, at)?, done),
        CallKind::Write => {
            let result = P::write(reply, at)?;
            if result.count > flight.calls[call].part.length {
                return Err(Unparsed::Malformed(Malformed::WroteMore));
            }
            flight.write_done(call, result, done);
        }
        CallKind::Commit => flight.commit_done(call, P::commit(reply, at)?, done),
        CallKind::Named => flight.named_done(call, reply.results(at), done)?,
        CallKind::Renewal => flight.renewed(call, done),
        CallKind::Conversation => flight.question_done(call, reply.results(at)),
    }
    Ok(())
}
