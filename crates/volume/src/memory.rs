//! The memory that all connections together hold, in two halves: for transfers, which are records that are arriving and replies that
//! are not taken, and for calls that wait for the limits of an export.
//!
//! Each connection settles its account after each turn. Once the accounts of a half together reach its limit, it is tight: connections
//! go on with small pieces, and begin nothing large. So connections hold at most the limit, a turn of each thread, and
//! `TIGHT_CONNECTION_BYTES` for each connection. Calls that wait may do so for long; transfers have a separate half, in which those
//! that stall give way. The buffers of sockets are the system's, and bounded by it.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Default of the limit.
pub(crate) const LIMIT_BYTES: usize = 128 << 20;

/// While memory is tight: most bytes of one receive, of the data of a READ, and of a listing; and the size at which a batch is sent.
pub(crate) const TIGHT_BYTES: usize = 8 << 10;

/// While memory is tight: most operations of one connection that wait.
pub(crate) const TIGHT_OPERATIONS: usize = 16;

/// While memory is tight: most bytes of replies and arguments that wait with the operations of one connection.
pub(crate) const TIGHT_WAITING_BYTES: usize = 1 << 10;

/// Memory of one operation that waits, with its place in queues.
const OPERATION_BYTES: usize = 256;

/// Most memory of a connection that began nothing large: a small call and a receive behind it, a reply behind a full batch, operations.
#[cfg(test)]
const TIGHT_CONNECTION_BYTES: usize =
    (16 << 10) + TIGHT_BYTES + 2 * TIGHT_BYTES + TIGHT_OPERATIONS * OPERATION_BYTES + TIGHT_WAITING_BYTES;

/// One for all connections.
#[derive(Debug)]
pub(crate) struct ConnectionMemory {
    transfers: Half,
    waiting: Half,
}

#[derive(Debug)]
struct Half {
    used: AtomicUsize,
    limit: usize,
}

/// The halves that are tight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tight {
    /// Nothing large may be received or answered.
    pub(crate) transfers: bool,
    /// Few operations may wait.
    pub(crate) waiting: bool,
}

/// The memory of one connection, in both halves.
#[derive(Debug, Default)]
pub(crate) struct Account {
    transfers: usize,
    waiting: usize,
}

impl ConnectionMemory {
    pub(crate) fn new(limit: usize) -> Self {
        let half = || Half { used: AtomicUsize::new(0), limit: limit / 2 };
        Self { transfers: half(), waiting: half() }
    }

    #[inline]
    pub(crate) fn tight(&self) -> Tight {
        Tight { transfers: self.transfers.is_tight(), waiting: self.waiting.is_tight() }
    }

    /// Notes the bytes that a connection holds for transfers now, those of calls that wait, and the operations that wait.
    #[inline]
    pub(crate) fn settle(&self, account: &mut Account, transfers: usize, calls: usize, operations: usize) {
        self.transfers.settle(&mut account.transfers, transfers);
        self.waiting.settle(&mut account.waiting, calls + operations * OPERATION_BYTES);
    }

    /// Bytes that connections hold.
    pub(crate) fn used(&self) -> usize {
        self.transfers.used.load(Relaxed) + self.waiting.used.load(Relaxed)
    }
}

impl Half {
    #[inline]
    fn is_tight(&self) -> bool {
        self.used.load(Relaxed) >= self.limit
    }

    #[inline]
    fn settle(&self, before: &mut usize, bytes: usize) {
        if bytes != *before {
            // Wraps to a subtraction if it is less than before.
            self.used.fetch_add(bytes.wrapping_sub(*before), Relaxed);
            *before = bytes;
        }
    }
}

impl Default for ConnectionMemory {
    fn default() -> Self {
        Self::new(LIMIT_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_add_up() {
        let memory = ConnectionMemory::new(2000);
        let (mut one, mut other) = (Account::default(), Account::default());
        memory.settle(&mut one, 600, 0, 1);
        memory.settle(&mut other, 399, 743, 0);
        assert_eq!((memory.used(), memory.tight()), (1998, Tight::default()));
        memory.settle(&mut other, 400, 744, 0);
        assert_eq!(memory.tight(), Tight { transfers: true, waiting: true });
        memory.settle(&mut one, 0, 0, 1);
        assert_eq!(memory.tight(), Tight { transfers: false, waiting: true });
        memory.settle(&mut one, 0, 0, 0);
        memory.settle(&mut other, 0, 0, 0);
        assert_eq!((memory.used(), memory.tight()), (0, Tight::default()));
    }

    #[test]
    fn five_thousand_connections_are_bounded() {
        const { assert!(LIMIT_BYTES + 5000 * TIGHT_CONNECTION_BYTES <= 352 << 20) };
    }
}
