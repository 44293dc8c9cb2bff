//! Record marking (RFC 5531 §11): RPC messages are records on a byte stream, and a record is one or more fragments.

use thiserror::Error;

use crate::xdr::Writer;

/// Bytes of a record mark.
pub const RECORD_MARK_BYTES: usize = 4;

/// Precedes each fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordMark {
    /// Bytes of the fragment, at most 2³¹ − 1, not counting the mark.
    pub length: u32,
    /// The fragment ends its record.
    pub last: bool,
}

impl RecordMark {
    const LAST: u32 = 1 << 31;

    /// Reads the four bytes on the wire.
    #[inline]
    pub const fn from_bytes(bytes: [u8; RECORD_MARK_BYTES]) -> Self {
        let word = u32::from_be_bytes(bytes);
        Self { length: word & !Self::LAST, last: word & Self::LAST != 0 }
    }

    /// Returns the four bytes on the wire.
    #[inline]
    pub const fn to_bytes(self) -> [u8; RECORD_MARK_BYTES] {
        (self.length | if self.last { Self::LAST } else { 0 }).to_be_bytes()
    }
}

/// Appends one record of a single fragment: its mark, then what `body` writes.
pub fn write_record(out: &mut Vec<u8>, body: impl FnOnce(&mut Writer<'_>)) {
    let start = out.len();
    let mut writer = Writer::new(out);
    writer.u32(0);
    body(&mut writer);
    let length = (writer.position() - start - RECORD_MARK_BYTES) as u32;
    writer.patch_u32(start, u32::from_be_bytes(RecordMark { length, last: true }.to_bytes()));
}

/// Splits a byte stream into records, without a socket and without a receive buffer of its own.
///
/// The caller appends received bytes to its buffer and calls [`advance`](Self::advance) until that asks for more bytes. A record of
/// one fragment, which nearly every record is, is lent out of the caller's buffer. Only records of several fragments are copied.
///
/// A large record need not fit the caller's buffer: once [`Progress::Partial`] has shown enough of its head, the caller takes the
/// record over with [`take_partial`](Self::take_partial). The rest of the record then comes piece by piece, or bypasses the buffer.
#[derive(Debug)]
pub struct Reassembler {
    /// Longest record accepted, all its fragments together. Each mark is checked against it before memory is taken.
    record_bytes_max: usize,
    /// Decides what the next byte of the stream belongs to.
    state: State,
    /// Fragments of the current record so far; at most `record_bytes_max` bytes. Empty in `State::Mark` and `State::Body`.
    joined: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The next byte is the first of a record's first mark.
    Mark,
    /// The next byte is the first of a later fragment's mark.
    NextMark,
    /// `left` more bytes of a fragment are to be joined; never 0.
    Fragment { left: usize, last: bool },
    /// As `Mark`; but `joined` still holds the record that was lent to the caller last.
    Lent,
    /// `left` more bytes belong to a record that the caller has taken over; never 0.
    Body { left: usize },
}

/// Result of looking at the bytes received so far.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress<'r, 'i> {
    /// Nothing more can be said until `missing` bytes have been appended to the input. Only an incomplete mark is left in it.
    NeedBytes {
        /// Exactly the bytes up to the end of the mark, the fragment or the body that is arriving.
        missing: usize,
    },
    /// A whole record, without its marks; it has been taken off the input.
    Record(&'r [u8]),
    /// The start of a record of one fragment. It stays in the input: append more bytes and advance again, or take it over.
    Partial {
        /// The record so far, which is all of the input behind the mark; shorter than `length`.
        arrived: &'i [u8],
        /// Bytes of the whole record.
        length: usize,
    },
    /// The next bytes of a record that was taken over; they have been taken off the input.
    Body(&'i [u8]),
}

/// A record is longer than any that the receiver expects. The stream is of no more use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a record of {length} bytes is longer than {limit} bytes")]
pub struct RecordTooLong {
    /// Bytes of the record up to the end of the fragment whose mark has just arrived.
    pub length: usize,
    /// Longest record accepted.
    pub limit: usize,
}

impl Reassembler {
    /// Starts at the first byte of a stream whose records have at most `record_bytes_max` bytes.
    pub const fn new(record_bytes_max: usize) -> Self {
        Self { record_bytes_max, state: State::Mark, joined: Vec::new() }
    }

    /// Looks at the bytes that have been received and not yet taken, and takes those it is done with off the front of `input`. Call it
    /// again with what is left of `input` after [`Progress::Record`] and [`Progress::Body`].
    #[inline]
    pub fn advance<'r, 'i: 'r>(&'r mut self, input: &mut &'i [u8]) -> Result<Progress<'r, 'i>, RecordTooLong> {
        if self.state != State::Mark {
            return self.continue_record(input);
        }
        let Some((mark, body)) = split_mark(input) else { return Ok(need_mark(input)) };
        if !mark.last {
            return self.join(input);
        }
        let length = self.check(mark.length)?;
        match body.split_at_checked(length) {
            Some((record, rest)) => {
                *input = rest;
                Ok(Progress::Record(record))
            }
            None => Ok(Progress::Partial { arrived: body, length }),
        }
    }

    fn continue_record<'r, 'i: 'r>(&'r mut self, input: &mut &'i [u8]) -> Result<Progress<'r, 'i>, RecordTooLong> {
        match self.state {
            State::Body { left } if input.is_empty() => Ok(Progress::NeedBytes { missing: left }),
            State::Body { left } => {
                let body = take(input, left);
                self.body_received(body.len());
                Ok(Progress::Body(body))
            }
            State::Mark | State::Lent => {
                self.reset();
                self.advance(input)
            }
            State::NextMark | State::Fragment { .. } => self.join(input),
        }
    }

    /// Joins fragments until the record is complete or the input ends.
    fn join<'r, 'i: 'r>(&'r mut self, input: &mut &'i [u8]) -> Result<Progress<'r, 'i>, RecordTooLong> {
        loop {
            let (left, last) = if let State::Fragment { left, last } = self.state {
                (left, last)
            } else {
                let Some((mark, rest)) = split_mark(input) else { return Ok(need_mark(input)) };
                let length = self.check(mark.length)?;
                *input = rest;
                (length, mark.last)
            };
            let taken = take(input, left);
            self.joined.extend_from_slice(taken);
            match (left - taken.len(), last) {
                (0, false) => self.state = State::NextMark,
                (0, true) => {
                    self.state = State::Lent;
                    return Ok(Progress::Record(&self.joined));
                }
                (left, last) => {
                    self.state = State::Fragment { left, last };
                    return Ok(Progress::NeedBytes { missing: left });
                }
            }
        }
    }

    /// Takes the record that [`advance`](Self::advance) has just shown as [`Progress::Partial`] off the `input`, of which nothing is
    /// left. The caller has its `arrived` bytes; the others come as [`Progress::Body`], unless the caller receives them elsewhere.
    pub fn take_partial(&mut self, input: &mut &[u8]) {
        let missing = split_mark(input).map_or(0, |(mark, body)| (mark.length as usize).saturating_sub(body.len()));
        debug_assert!(missing > 0 && self.state == State::Mark, "the input begins with a partial record");
        self.state = if missing > 0 { State::Body { left: missing } } else { State::Mark };
        *input = &[];
    }

    /// Notes that `count` bytes of the record taken over did not come through the input: they were received straight to where they
    /// are kept, or discarded in the kernel.
    #[inline]
    pub fn body_received(&mut self, count: usize) {
        let left = self.body_left();
        debug_assert!(count <= left, "{count} bytes of a body of which {left} are missing");
        if left > 0 {
            self.state = if count < left { State::Body { left: left - count } } else { State::Mark };
        }
    }

    /// Bytes still to come of the record taken over; 0 once it is complete.
    #[inline]
    pub const fn body_left(&self) -> usize {
        if let State::Body { left } = self.state { left } else { 0 }
    }

    /// Forgets the current record: the next byte is the first of another record, or of another stream.
    pub fn reset(&mut self) {
        self.state = State::Mark;
        self.joined.clear();
    }

    /// True if a record has arrived in part, and is not lent out of the caller's buffer.
    #[inline]
    pub const fn is_inside(&self) -> bool {
        !matches!(self.state, State::Mark | State::Lent)
    }

    /// Bytes of memory taken for joined fragments.
    #[inline]
    pub const fn buffer_bytes(&self) -> usize {
        self.joined.capacity()
    }

    /// Frees the buffer of joined fragments unless a record is under way in it. A stream that falls idle should hold no memory.
    pub fn free_buffer(&mut self) {
        if self.state == State::Lent {
            self.reset();
        }
        if self.joined.is_empty() {
            self.joined = Vec::new();
        }
    }

    /// The length of a fragment, if the record does not become too long by it.
    #[inline]
    fn check(&self, fragment_bytes: u32) -> Result<usize, RecordTooLong> {
        let (length, limit) = (self.joined.len() + fragment_bytes as usize, self.record_bytes_max);
        if length > limit { Err(RecordTooLong { length, limit }) } else { Ok(fragment_bytes as usize) }
    }
}

#[inline]
fn split_mark(input: &[u8]) -> Option<(RecordMark, &[u8])> {
    let (mark, rest) = input.split_first_chunk()?;
    Some((RecordMark::from_bytes(*mark), rest))
}

fn need_mark<'r, 'i>(input: &[u8]) -> Progress<'r, 'i> {
    Progress::NeedBytes { missing: RECORD_MARK_BYTES - input.len() }
}

/// Takes up to `limit` bytes off the front.
fn take<'i>(input: &mut &'i [u8], limit: usize) -> &'i [u8] {
    let (taken, rest) = input.split_at(limit.min(input.len()));
    *input = rest;
    taken
}

#[cfg(test)]
mod tests;
