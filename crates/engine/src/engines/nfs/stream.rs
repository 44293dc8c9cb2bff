//! The bytes between client and server, as the client's protocol has them: a socket carries them, or memory in tests.

use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};

/// Most pieces in one send (`UIO_MAXIOV`).
pub(super) const PIECES_MAX: usize = 1024;

/// A connection to the server. It blocks only where a call says so.
pub(super) trait Stream {
    /// Sends as much as the connection accepts now of at most [`PIECES_MAX`] pieces.
    fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Receives into one or several buffers, in order. If it `waits`, it waits a short time for the first byte.
    fn receive(&self, into: &mut [IoSliceMut<'_>], waits: bool) -> io::Result<usize>;

    /// Drops up to `bytes` received bytes, without copying them.
    fn discard(&self, bytes: usize, waits: bool) -> io::Result<usize>;
}

/// Returns `true` for an error that only means "try again later".
pub(super) fn not_now(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// A connection in memory, for tests and for counting instructions.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    /// Bytes of the client.
    pub sent: RefCell<Vec<u8>>,
    /// Bytes of the server, and how many of them the client has received.
    pub replies: RefCell<io::Cursor<Vec<u8>>>,
}

impl Stream for Pipe {
    fn send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.sent.borrow_mut().write_vectored(pieces)
    }

    fn receive(&self, into: &mut [IoSliceMut<'_>], _waits: bool) -> io::Result<usize> {
        match self.replies.borrow_mut().read_vectored(into)? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            bytes => Ok(bytes),
        }
    }

    fn discard(&self, bytes: usize, waits: bool) -> io::Result<usize> {
        self.receive(&mut [IoSliceMut::new(&mut vec![0; bytes])], waits)
    }
}
