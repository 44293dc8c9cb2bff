//! Replies on their way out of a connection. The transport takes a batch or a part of it; the rest is copied and goes first next time.

use std::io;

use libc::iovec;

use super::transport::{Transport, is_temporary};
use super::worker::Spare;
use crate::reply::batch::Batch;
use crate::store::Upkeep;

/// `IOV_MAX` of Linux.
const IOVECS_MAX: usize = 1024;

/// The unsent bytes of a connection.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// Replies that the transport did not take, of which the first `sent` bytes have been sent since.
    pub(super) unsent: Vec<u8>,
    sent: usize,
}

impl Outgoing {
    /// Bytes of memory that it holds between turns.
    pub(super) fn bytes(&self) -> usize {
        self.unsent.capacity()
    }

    /// Sends the batch, clears it, and keeps a copy of the bytes that the transport does not take. Returns whether all have gone.
    pub(super) fn send<T: Transport>(
        &mut self,
        batch: &mut Batch,
        store: &impl Upkeep,
        transport: &mut T,
        spare: &mut Spare,
    ) -> io::Result<bool> {
        let by_reference = batch.is_bulk() && transport.prepare_send_by_reference(&mut spare.pipes);
        let sent =
            if by_reference { send_by_reference(batch, store, transport) } else { send_copied(batch, transport) };
        if let Ok(sent) = &sent
            && *sent < batch.length()
        {
            self.unsent = spare.take(batch.length() - *sent);
            batch.copy_from(*sent, &mut self.unsent);
        }
        batch.clear();
        sent?;
        Ok(transport.flush(&mut spare.pipes)? && self.unsent.is_empty())
    }

    /// Sends unsent bytes, and returns whether all have gone.
    pub(super) fn flush<T: Transport>(&mut self, transport: &mut T, spare: &mut Spare) -> io::Result<bool> {
        if !transport.flush(&mut spare.pipes)? {
            return Ok(false);
        }
        while self.sent < self.unsent.len() {
            let rest = &self.unsent[self.sent..];
            let piece = iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() };
            // SAFETY: the piece is a part of `unsent`.
            match unsafe { transport.send(&[piece]) } {
                Ok(count) => self.sent += count,
                Err(error) if is_temporary(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.sent = 0;
        spare.keep(std::mem::take(&mut self.unsent));
        Ok(true)
    }
}

/// Sends a batch and returns how many bytes the transport took.
fn send_copied<T: Transport>(batch: &mut Batch, transport: &mut T) -> io::Result<usize> {
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

/// As [`send_copied`], but lent pieces go by reference.
fn send_by_reference<T: Transport>(batch: &mut Batch, store: &impl Upkeep, transport: &mut T) -> io::Result<usize> {
    for (_, piece) in batch.pieces().filter(|(is_lent, _)| *is_lent) {
        store.sent_by_reference(piece.iov_base.cast(), piece.iov_len);
    }
    // SAFETY: as in `send_copied`; and the store parts lent memory from its pages before it uses it for another file.
    unsafe { transport.send_by_reference(batch.pieces()) }
}
