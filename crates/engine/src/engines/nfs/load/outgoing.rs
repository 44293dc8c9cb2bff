//! Sending calls: queued as they are made, sent together.

use std::io;
use std::ptr;

use crate::engines::buffers::SlotMap;

use super::super::transport::socket::{PIECES_MAX, Socket, not_now};

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
    iovecs: Vec<libc::iovec>,
}

#[derive(Debug, Clone, Copy)]
enum Piece {
    Heads { start: usize, end: usize },
    Payload { slot: u32, at: u32, length: u32 },
}

// SAFETY: `iovecs` is scratch memory of `send_once`; its pointers are not used after it.
unsafe impl Send for Outgoing {}

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
    pub(in crate::engines::nfs) fn payload(&mut self, slot: u32, at: u32, length: u32, padding: u32) {
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

    /// Sends as much as the socket accepts now. A socket that took less than it was given is full.
    pub(in crate::engines::nfs) fn send(&mut self, socket: &Socket, slots: &SlotMap) -> io::Result<()> {
        while self.first < self.pieces.len() {
            let (given, sent) = self.send_once(socket, slots);
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

    /// Gives unsent bytes to the socket; returns how many, and how many it took.
    fn send_once(&mut self, socket: &Socket, slots: &SlotMap) -> (usize, io::Result<usize>) {
        if let [Piece::Heads { start, end }] = self.pieces[self.first..] {
            let heads = &self.heads[start + self.sent..end];
            return (heads.len(), socket.send(heads));
        }
        self.iovecs.clear();
        for piece in self.pieces[self.first..].iter().take(PIECES_MAX) {
            let bytes: *const [u8] = match *piece {
                Piece::Heads { start, end } => &raw const self.heads[start..end],
                // SAFETY: the call was made for a range inside the slot's buffer.
                Piece::Payload { slot, at, length } => unsafe {
                    ptr::slice_from_raw_parts(slots.slot(slot).add(at as usize), length as usize)
                },
            };
            self.iovecs.push(libc::iovec { iov_base: bytes.cast::<libc::c_void>().cast_mut(), iov_len: bytes.len() });
        }
        let first = &mut self.iovecs[0];
        // SAFETY: `sent` is less than the piece's length.
        first.iov_base = unsafe { first.iov_base.byte_add(self.sent) };
        first.iov_len -= self.sent;
        let given = self.iovecs.iter().map(|piece| piece.iov_len).sum();
        // SAFETY: heads and buffers are alive, and neither moves during the call.
        (given, unsafe { socket.send_gathered(&self.iovecs) })
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
