//! What one thread works with, and what all threads share.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::{Arc, Mutex, PoisonError};

use iocurve_meter::Nanos;
use iocurve_wire::nfs3::{nfs_fh3, writeverf3};

use crate::batch::Batch;
use crate::qos::Qos;
use crate::stats::Counters;
use crate::store::Store;

/// Most mounts that are remembered for DUMP.
const MOUNTS_MAX: usize = 1024;

/// What is served: one for all threads.
#[derive(Debug)]
pub struct Served<S> {
    /// The files.
    pub store: S,
    /// Path that clients mount.
    pub export: String,
    /// Port that clients are told.
    pub port: u16,
    /// Differs from that of any earlier start, so that clients send unstable data again.
    pub writeverf: writeverf3,
    /// Limits; `None` costs nothing.
    pub qos: Option<Mutex<Qos>>,
    /// Who has mounted what: client and directory.
    pub mounts: Mutex<BTreeSet<(String, Vec<u8>)>>,
}

impl<S> Served<S> {
    /// When a READ or WRITE of `bytes` may be answered, as a time after `now`.
    #[inline]
    pub fn admit(&self, now: Nanos, bytes: u64) -> Nanos {
        let Some(qos) = &self.qos else { return 0 };
        qos.lock().unwrap_or_else(PoisonError::into_inner).admit(now, bytes)
    }

    /// Remembers a mount.
    pub fn mounted(&self, client: &str, directory: &[u8]) {
        let mut mounts = self.mounts.lock().unwrap_or_else(PoisonError::into_inner);
        if mounts.len() < MOUNTS_MAX {
            mounts.insert((client.to_owned(), directory.to_vec()));
        }
    }

    /// Forgets a client's mount of a directory, or all its mounts.
    pub fn unmounted(&self, client: &str, directory: Option<&[u8]>) {
        let mut mounts = self.mounts.lock().unwrap_or_else(PoisonError::into_inner);
        mounts.retain(|(host, path)| host != client || directory.is_some_and(|directory| path != directory));
    }
}

/// What one thread works with.
#[derive(Debug)]
pub struct Worker<S> {
    /// What is served.
    pub served: Arc<Served<S>>,
    /// What this thread has done.
    pub(crate) counters: Arc<Counters>,
    /// Operations that wait for their time.
    pub timers: Timers,
    /// Replies of the turn.
    pub batch: Batch,
    /// Bytes received in the turn.
    pub input: Vec<u8>,
    /// Empty memory for replies that a transport does not take.
    pub spare: Vec<u8>,
}

impl<S: Store> Worker<S> {
    /// A worker with nothing to do.
    pub(crate) fn new(served: Arc<Served<S>>, counters: Arc<Counters>) -> Self {
        let input = vec![0; crate::session::INPUT_BYTES];
        let (timers, batch, spare) = (Timers::default(), Batch::default(), Vec::new());
        Self { served, counters, timers, batch, input, spare }
    }
}

/// Number of a connection; never used twice.
pub type SessionId = u64;

/// Operations that wait for their time, soonest first and in the order in which they came.
#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<Delayed>>,
    sequence: u64,
}

/// An operation that waits.
#[derive(Debug)]
struct Delayed {
    due: Nanos,
    sequence: u64,
    session: SessionId,
    operation: Operation,
}

/// What is left to do when an operation is due.
#[derive(Debug)]
pub enum Operation {
    /// All of a READ, so that no data are kept.
    Read {
        /// Of the call.
        xid: u32,
        /// The file.
        file: nfs_fh3,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        count: u32,
    },
    /// To send the reply of a WRITE that was carried out on arrival.
    Reply(Box<[u8]>),
}

impl Timers {
    /// Keeps an operation of a session until `due`.
    pub fn push(&mut self, due: Nanos, session: SessionId, operation: Operation) {
        self.sequence += 1;
        self.heap.push(Reverse(Delayed { due, sequence: self.sequence, session, operation }));
    }

    /// When the next operation is due.
    pub fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|next| next.0.due)
    }

    /// Operations that wait.
    pub fn waiting(&self) -> usize {
        self.heap.len()
    }

    /// Drops all operations of a session that has ended.
    pub fn forget(&mut self, session: SessionId) {
        self.heap.retain(|Reverse(delayed)| delayed.session != session);
    }

    /// Takes out the next operation if it is due.
    pub fn pop(&mut self, now: Nanos) -> Option<(SessionId, Operation)> {
        self.next().filter(|due| *due <= now)?;
        self.heap.pop().map(|Reverse(delayed)| (delayed.session, delayed.operation))
    }
}

impl Ord for Delayed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.sequence).cmp(&(other.due, other.sequence))
    }
}

impl PartialOrd for Delayed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Delayed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Delayed {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_leave_when_due_and_in_order() {
        let mut timers = Timers::default();
        for (due, session) in [(20, 1), (10, 2), (20, 3)] {
            timers.push(due, session, Operation::Reply(Box::default()));
        }
        assert_eq!(timers.next(), Some(10));
        assert!(timers.pop(9).is_none());
        let left: Vec<_> = std::iter::from_fn(|| timers.pop(20)).map(|(session, _)| session).collect();
        assert_eq!(left, [2, 1, 3]);
    }

    #[test]
    fn operations_go_with_their_session() {
        let mut timers = Timers::default();
        for (due, session) in [(20, 1), (10, 2), (30, 1)] {
            timers.push(due, session, Operation::Reply(Box::default()));
        }
        timers.forget(1);
        assert_eq!((timers.waiting(), timers.pop(100).map(|(session, _)| session)), (1, Some(2)));
    }
}
