//! Sending calls: queued as they are made, sent together.

use std::io::{self, IoSlice};
use std::mem;
use std::slice;

use iocurve_wire::client_fast::padding;

use crate::engines::buffers::SlotMap;

use super::super::stream::{PIECES_MAX, Stream, not_now};
use super::table::Part;

/// Unsent bytes of one connection.
#[derive(Debug, Default)]
pub(in crate::engines::nfs) struct Outgoing {
    /// Heads of calls, one after another.
    heads: Vec<u8>,
    /// Pieces to send, in order. A payload is sent from the slot's buffer.
    pieces: Vec<Piece>,
    /// Index of the first piece that is not sent completely.
    first: usize,
    /// Bytes of that piece that are sent.
    sent: usize,
    /// Memory for the list of a send.
    slices: Vec<IoSlice<'static>>,
}

#[derive(Debug, Clone, Copy)]
enum Piece {
    Heads { start: usize, end: usize },
    Payload { slot: u32, at: u32, length: u32 },
}

impl Outgoing {
    /// Queues a call whose head `append` writes.
    pub(in crate::engines::nfs) fn call(&mut self, append: impl FnOnce(&mut Vec<u8>)) {
        let start = self.heads.len();
        append(&mut self.heads);
        let now = self.heads.len();
        match self.pieces.last_mut() {
            Some(Piece::Heads { end, .. }) => *end = now,
            _ => self.pieces.push(Piece::Heads { start, end: now }),
        }
    }

    /// Queues the payload of the previous call, and its padding.
    pub(in crate::engines::nfs) fn payload(&mut self, call: &Part) {
        let Part { slot, at, length, .. } = *call;
        let padding = padding(length);
        self.pieces.push(Piece::Payload { slot, at, length });
        if padding > 0 {
            self.call(|heads| heads.extend_from_slice(&[0; 3][..padding as usize]));
        }
    }

    pub(in crate::engines::nfs) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(in crate::engines::nfs) fn clear(&mut self) {
        self.heads.clear();
        self.pieces.clear();
        self.first = 0;
        self.sent = 0;
    }

    /// Sends as much as the stream accepts now. A stream that took less than it was given is full.
    pub(in crate::engines::nfs) fn send(&mut self, stream: &impl Stream, slots: &SlotMap) -> io::Result<()> {
        while self.first < self.pieces.len() {
            let (given, sent) = self.send_once(stream, slots);
            let sent = match sent {
                Err(error) if not_now(&error) => 0,
                sent => sent?,
            };
            self.advance(sent);
            if sent < given {
                self.compact();
                return Ok(());
            }
        }
        self.clear();
        Ok(())
    }

    /// Gives unsent bytes to the stream; returns how many, and how many it took.
    fn send_once(&mut self, stream: &impl Stream, slots: &SlotMap) -> (usize, io::Result<usize>) {
        if let [Piece::Heads { start, end }] = self.pieces[self.first..] {
            let heads = &self.heads[start + self.sent..end];
            return (heads.len(), stream.send(&[IoSlice::new(heads)]));
        }
        let mut slices = emptied(mem::take(&mut self.slices));
        slices.extend(self.pieces[self.first..].iter().take(PIECES_MAX).map(|piece| match *piece {
            Piece::Heads { start, end } => IoSlice::new(&self.heads[start..end]),
            Piece::Payload { slot, at, length } => {
                // SAFETY: the call was made for a range inside the slot's buffer, which is not written to while it is in
                // flight.
                IoSlice::new(unsafe { slice::from_raw_parts(slots.slot(slot).add(at as usize), length as usize) })
            }
        }));
        slices[0].advance(self.sent);
        let given = slices.iter().map(|slice| slice.len()).sum();
        let sent = stream.send(&slices);
        self.slices = emptied(slices);
        (given, sent)
    }

    /// Drops sent pieces from time to time: with a socket that is always behind, the queue never becomes empty.
    fn compact(&mut self) {
        if self.first < PIECES_MAX {
            return;
        }
        self.pieces.drain(..self.first);
        self.first = 0;
        let heads = self.pieces.iter().find_map(|piece| match piece {
            Piece::Heads { start, .. } => Some(*start),
            Piece::Payload { .. } => None,
        });
        let dropped = heads.unwrap_or(self.heads.len());
        self.heads.drain(..dropped);
        for piece in &mut self.pieces {
            if let Piece::Heads { start, end } = piece {
                *start -= dropped;
                *end -= dropped;
            }
        }
    }

    fn advance(&mut self, mut bytes: usize) {
        while bytes > 0 {
            let left = self.pieces[self.first].length() - self.sent;
            if bytes < left {
                self.sent += bytes;
                return;
            }
            bytes -= left;
            self.first += 1;
            self.sent = 0;
        }
    }
}

impl Piece {
    fn length(self) -> usize {
        match self {
            Self::Heads { start, end } => end - start,
            Self::Payload { length, .. } => length as usize,
        }
    }
}

/// The memory of a list, for other slices.
fn emptied<'b>(mut slices: Vec<IoSlice<'_>>) -> Vec<IoSlice<'b>> {
    slices.clear();
    slices.into_iter().map(|_| unreachable!("the list is empty")).collect()
}
