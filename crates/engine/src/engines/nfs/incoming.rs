//! Replies on their way in: a byte stream becomes records, records become completions.
//!
//! Received bytes lie in one staging buffer and are parsed there, as many replies as there are. A payload that is not all
//! there yet has a state of its own, so that its rest can go straight to the slot's buffer or be dropped in the kernel,
//! and no record has to fit the staging buffer. Nothing here touches a socket but [`Incoming::receive`].

use std::io;

use iocurve_wire::client_fast::{READ_REPLY_HEAD_BYTES, ReadResult, Reply, Unparsed, Verdict, padding};
use iocurve_wire::record::{RECORD_MARK_BYTES, RecordMark};

use crate::engines::request::Completion;

use super::flight::{CallKind, Flight, LARGE_BYTES};
use super::socket::{DONTWAIT, Socket, not_now};

/// Room for what one receive brings.
const STAGING_BYTES: usize = 256 << 10;
/// Longest reply without READ payload: a head with the longest verifier and a failed or written result are far below.
const PLAIN_REPLY_BYTES_MAX: usize = 2048;
/// A payload's rest from this size up is dropped by a call of its own.
const DISCARD_BYTES_MIN: u32 = LARGE_BYTES / 2;

/// Why a connection is no good any more.
#[derive(Debug)]
pub enum Lost {
    /// It was closed or broke.
    Closed(io::Error),
    /// What came makes no sense.
    Garbage(&'static str),
}

/// Receiving side of one connection.
#[derive(Debug)]
pub struct Incoming {
    staging: Box<[u8]>,
    start: usize,
    end: usize,
    state: State,
    /// Fragments of a record that came in several.
    assembled: Vec<u8>,
    /// Longest record that can be a reply.
    record_bytes_max: usize,
    /// Whether a reply has come since this was last cleared.
    pub heard: bool,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// A record mark comes next.
    Record,
    /// The rest of a READ payload, then padding.
    Payload { call: u32, result: ReadResult, placed: u32, padding: u32 },
    /// The rest of a fragment of a record that has several.
    Fragment { left: usize, last: bool },
    /// The mark of the next fragment.
    FragmentMark,
}

/// Where the next bytes go.
enum Target {
    Staging { bytes: usize },
    Payload { call: u32, placed: u32, left: u32, staging: usize },
    Nowhere { bytes: usize },
}

impl Incoming {
    /// For replies to READs of at most `read_bytes_max`.
    pub fn new(read_bytes_max: u32) -> Self {
        Self {
            staging: vec![0; STAGING_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            state: State::Record,
            assembled: Vec::new(),
            record_bytes_max: PLAIN_REPLY_BYTES_MAX + read_bytes_max as usize,
            heard: false,
        }
    }

    /// Forgets what was received: the next byte is the first of a new connection.
    pub fn reset(&mut self) {
        self.start = 0;
        self.end = 0;
        self.state = State::Record;
        self.assembled.clear();
    }

    /// Receives what there is and completes what that completes. Only the first receive may wait, and only without `DONTWAIT`.
    pub fn receive(
        &mut self,
        socket: &Socket,
        flags: libc::c_int,
        connection: usize,
        flight: &mut Flight,
        done: &mut Vec<Completion>,
    ) -> Result<(), Lost> {
        let mut flags = flags;
        loop {
            let (asked, received) = self.receive_once(socket, flags, connection, flight);
            let bytes = match received {
                Ok(0) => return Err(Lost::Closed(io::ErrorKind::UnexpectedEof.into())),
                Ok(bytes) => bytes,
                Err(error) if not_now(&error) => return Ok(()),
                Err(error) => return Err(Lost::Closed(error)),
            };
            self.process(connection, flight, done).map_err(Lost::Garbage)?;
            // Less than asked for was all there was.
            if bytes < asked {
                return Ok(());
            }
            flags = DONTWAIT;
        }
    }

    fn receive_once(
        &mut self,
        socket: &Socket,
        flags: libc::c_int,
        connection: usize,
        flight: &mut Flight,
    ) -> (usize, io::Result<usize>) {
        match self.target(flight.load(connection).large_reads > 0, flight.keep_payload()) {
            Target::Staging { bytes } => {
                let received = socket.receive(&mut self.staging[self.end..self.end + bytes], flags);
                self.end += *received.as_ref().unwrap_or(&0);
                (bytes, received)
            }
            Target::Nowhere { bytes } => {
                flight.payload_discarded = true;
                let received = socket.discard(bytes, flags);
                self.placed(*received.as_ref().unwrap_or(&0) as u32);
                (bytes, received)
            }
            Target::Payload { call, placed, left, staging } => {
                let payload = flight.destination(call, placed, left);
                let next = &mut self.staging[..staging];
                let pieces = [iovec(payload), iovec(next)];
                // SAFETY: both pieces are exclusive slices that live through the call.
                let received = unsafe { socket.receive_scattered(&pieces, flags) };
                let bytes = *received.as_ref().unwrap_or(&0);
                self.placed(bytes.min(left as usize) as u32);
                self.end = bytes.saturating_sub(left as usize);
                (left as usize + staging, received)
            }
        }
    }

    /// Decides where the next bytes go. Before a large payload only its head is asked for, so that the payload stays in the
    /// socket until it is known where it goes.
    fn target(&mut self, large_reads: bool, keep_payload: bool) -> Target {
        self.compact();
        let head = if large_reads { READ_REPLY_HEAD_BYTES } else { self.staging.len() };
        if let State::Payload { call, result, placed, padding } = self.state {
            let left = result.count - placed;
            let after = padding as usize + head;
            if keep_payload && left > 0 {
                return Target::Payload { call, placed, left, staging: after.min(self.staging.len()) };
            }
            if left >= DISCARD_BYTES_MIN {
                return Target::Nowhere { bytes: left as usize };
            }
            return Target::Staging { bytes: (left as usize + after).min(self.staging.len()) };
        }
        let room = self.staging.len() - self.end;
        let bytes = if head > self.end { head - self.end } else { head };
        Target::Staging { bytes: bytes.min(room) }
    }

    /// Moves what is not parsed yet to the front.
    fn compact(&mut self) {
        if self.start > 0 {
            self.staging.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
    }

    fn placed(&mut self, bytes: u32) {
        if let State::Payload { placed, .. } = &mut self.state {
            *placed += bytes;
        }
    }

    /// Parses all that is in the staging buffer.
    fn process(
        &mut self,
        connection: usize,
        flight: &mut Flight,
        done: &mut Vec<Completion>,
    ) -> Result<(), &'static str> {
        loop {
            let more = match self.state {
                State::Record => self.record(connection, flight, done)?,
                State::Payload { call, result, placed, padding } => {
                    self.payload(call, result, placed, padding, flight, done)
                }
                State::FragmentMark => self.fragment_mark()?,
                State::Fragment { left, last } => self.fragment(left, last, connection, flight, done)?,
            };
            if !more {
                return Ok(());
            }
        }
    }

    /// The next record, where it starts in the staging buffer; returns whether there may be more to do.
    fn record(
        &mut self,
        connection: usize,
        flight: &mut Flight,
        done: &mut Vec<Completion>,
    ) -> Result<bool, &'static str> {
        let Some((length, last)) = self.mark()? else { return Ok(false) };
        if !last {
            self.start += RECORD_MARK_BYTES;
            self.assembled.clear();
            self.state = State::Fragment { left: length, last };
            return Ok(true);
        }
        let arrived = &self.staging[self.start + RECORD_MARK_BYTES..self.end];
        match answer(&Reply::new(arrived, length), length, connection, flight, done) {
            Ok(Answer::Done) => self.start += RECORD_MARK_BYTES + length,
            Ok(Answer::Payload { call, result }) => {
                self.start += RECORD_MARK_BYTES + result.payload_at;
                self.state = State::Payload { call, result, placed: 0, padding: padding(result.count) };
            }
            Err(Unparsed::Incomplete) => return Ok(false),
            Err(Unparsed::Malformed(why)) => return Err(why),
        }
        self.heard = true;
        Ok(true)
    }

    fn payload(
        &mut self,
        call: u32,
        result: ReadResult,
        placed: u32,
        padding: u32,
        flight: &mut Flight,
        done: &mut Vec<Completion>,
    ) -> bool {
        let arrived = self.end - self.start;
        let taken = ((result.count - placed) as usize).min(arrived);
        if flight.keep_payload() && taken > 0 {
            let from = &self.staging[self.start..self.start + taken];
            flight.destination(call, placed, taken as u32).copy_from_slice(from);
        }
        let placed = placed + taken as u32;
        let padded = if placed == result.count { (padding as usize).min(arrived - taken) } else { 0 };
        self.start += taken + padded;
        let padding = padding - padded as u32;
        if placed < result.count || padding > 0 {
            self.state = State::Payload { call, result, placed, padding };
            return false;
        }
        self.state = State::Record;
        flight.read_done(call, result, done);
        true
    }

    fn fragment_mark(&mut self) -> Result<bool, &'static str> {
        let Some((left, last)) = self.mark()? else { return Ok(false) };
        if self.assembled.len() + left > self.record_bytes_max {
            return Err("a record is longer than any reply");
        }
        self.start += RECORD_MARK_BYTES;
        self.state = State::Fragment { left, last };
        Ok(true)
    }

    fn fragment(
        &mut self,
        left: usize,
        last: bool,
        connection: usize,
        flight: &mut Flight,
        done: &mut Vec<Completion>,
    ) -> Result<bool, &'static str> {
        let taken = left.min(self.end - self.start);
        self.assembled.extend_from_slice(&self.staging[self.start..self.start + taken]);
        self.start += taken;
        if taken < left {
            self.state = State::Fragment { left: left - taken, last };
            return Ok(false);
        }
        self.state = if last { State::Record } else { State::FragmentMark };
        if last {
            self.whole_record(connection, flight, done)?;
        }
        Ok(true)
    }

    /// A record put together from fragments.
    fn whole_record(
        &mut self,
        connection: usize,
        flight: &mut Flight,
        done: &mut Vec<Completion>,
    ) -> Result<(), &'static str> {
        let record = &self.assembled[..];
        match answer(&Reply::new(record, record.len()), record.len(), connection, flight, done) {
            Ok(Answer::Done) => {}
            Ok(Answer::Payload { call, result }) => {
                if flight.keep_payload() {
                    let payload = &record[result.payload_at..result.payload_at + result.count as usize];
                    flight.destination(call, 0, result.count).copy_from_slice(payload);
                }
                flight.read_done(call, result, done);
            }
            Err(Unparsed::Incomplete) => return Err("the record ends inside its reply"),
            Err(Unparsed::Malformed(why)) => return Err(why),
        }
        self.heard = true;
        Ok(())
    }

    /// Length of the fragment that starts here and whether it is the last, once its mark has arrived.
    fn mark(&self) -> Result<Option<(usize, bool)>, &'static str> {
        let Some(mark) = self.staging[self.start..self.end].first_chunk() else { return Ok(None) };
        let RecordMark { length, last } = RecordMark::from_bytes(*mark);
        if length as usize > self.record_bytes_max {
            return Err("a record is longer than any reply");
        }
        Ok(Some((length as usize, last)))
    }
}

/// What a reply leaves to do.
enum Answer {
    /// Nothing; the record can go.
    Done,
    /// Its payload has to be brought to its place.
    Payload { call: u32, result: ReadResult },
}

/// Looks at a reply; a READ that brings payload is handed back, everything else is done when its record is whole.
fn answer(
    reply: &Reply<'_>,
    length: usize,
    connection: usize,
    flight: &mut Flight,
    done: &mut Vec<Completion>,
) -> Result<Answer, Unparsed> {
    let head = reply.head()?;
    let Some((call, kind)) = flight.find(head.xid, connection) else {
        return Err(Unparsed::Malformed("it answers no call that was made"));
    };
    if kind == CallKind::Read && head.verdict == Verdict::Success {
        let result = reply.read(head.result_at)?;
        if result.status == 0 {
            if result.count > flight.asked(call) {
                return Err(Unparsed::Malformed("it brings more than was asked for"));
            }
            return Ok(Answer::Payload { call, result });
        }
    }
    if length > PLAIN_REPLY_BYTES_MAX {
        return Err(Unparsed::Malformed("it is too long for what it answers"));
    }
    if !reply.is_whole() {
        return Err(Unparsed::Incomplete);
    }
    match (head.verdict, kind) {
        (Verdict::Success, CallKind::Read) => flight.read_done(call, reply.read(head.result_at)?, done),
        (Verdict::Success, CallKind::Write) => {
            let result = reply.write(head.result_at)?;
            if result.count > flight.asked(call) {
                return Err(Unparsed::Malformed("it wrote more than was asked for"));
            }
            flight.write_done(call, result, done);
        }
        (Verdict::Success, CallKind::Commit) => flight.commit_done(call, reply.commit(head.result_at)?, done),
        (verdict, _) => flight.rejected(call, verdict, done),
    }
    Ok(Answer::Done)
}

fn iovec(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}
