//! The byte stream of a connection, as the framing sees it.

use std::io;

use libc::iovec;

use crate::reply::splice::SplicePipes;

/// Carries the bytes of a connection. No method waits: receiving and sending fail with `WouldBlock` instead.
pub(crate) trait Transport {
    /// Receives into the pieces in order and returns how many bytes came; 0 when the peer has ended the stream.
    ///
    /// # Safety
    /// The pieces must be writable memory that nothing else refers to.
    unsafe fn receive(&mut self, into: &[iovec]) -> io::Result<usize>;

    /// Sends from the pieces in order and returns how many bytes were taken.
    ///
    /// # Safety
    /// The pieces must be readable memory.
    unsafe fn send(&mut self, from: &[iovec]) -> io::Result<usize>;

    /// Prepares to send by reference, and returns whether it can.
    fn prepare_send_by_reference(&mut self, _pipes: &mut SplicePipes) -> bool {
        false
    }

    /// Sends pieces, those marked as lent by reference, and returns how many bytes were taken. It may hold some of these back until
    /// [`flush`](Self::flush). Call it only when prepared, and when nothing is held.
    ///
    /// # Safety
    /// The pieces must be readable memory. The peer sees lent pieces as they are when it reads them.
    unsafe fn send_by_reference(&mut self, _pieces: impl Iterator<Item = (bool, iovec)>) -> io::Result<usize> {
        Ok(0)
    }

    /// Bytes of memory that it holds for bytes on their way.
    fn held_bytes(&self) -> usize {
        0
    }

    /// Sends bytes that it holds, and returns whether all of them have gone.
    fn flush(&mut self, _pipes: &mut SplicePipes) -> io::Result<bool> {
        Ok(true)
    }
}

pub(super) fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
