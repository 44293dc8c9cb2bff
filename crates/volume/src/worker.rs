//! What one thread works with, and what all threads share.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use iocurve_meter::Nanos;
use iocurve_wire::nfs3::{nfs_fh3, writeverf3};

use crate::batch::Batch;
use crate::qos::{Limits, Qos};
use crate::replies::ReplyCache;
use crate::stats::{Counters, IoStats};
use crate::store::Store;

/// Most mounts that are remembered for DUMP.
const MOUNTS_MAX: usize = 1024;

/// What is served: one for all threads.
#[derive(Debug)]
pub struct Served<S> {
    /// The files.
    pub store: S,
    /// What clients mount, in the order of the store's exports.
    pub exports: Vec<Export>,
    /// Port that clients are told.
    pub port: u16,
    /// Differs from that of any earlier start, so that clients send unstable data again.
    pub writeverf: writeverf3,
    /// Who has mounted what: client and directory.
    pub mounts: Mutex<BTreeSet<(String, Vec<u8>)>>,
    /// Replies to calls that must not be carried out twice.
    pub replies: ReplyCache,
}

/// What is mounted, and its limits, which may change while it is served.
#[derive(Debug)]
pub struct Export {
    /// Path that clients mount.
    pub path: String,
    /// Whether there is anything to limit; without it nobody looks at the buckets.
    limited: AtomicBool,
    qos: Mutex<(Limits, Qos)>,
}

impl Export {
    /// An export under limits.
    pub fn new(path: String, limits: Limits, now: Nanos) -> Self {
        let qos = Mutex::new((limits, Qos::new(limits, now)));
        Self { path, limited: limits.any().into(), qos }
    }

    /// Whether there is anything to limit.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.limited.load(Relaxed)
    }

    /// When a READ or WRITE of `bytes` may be answered, as a time after `now`.
    #[inline]
    pub fn admit(&self, now: Nanos, bytes: u64) -> Nanos {
        if self.is_limited() { self.qos().1.admit(now, bytes) } else { 0 }
    }

    /// What it is limited to.
    pub fn limits(&self) -> Limits {
        self.qos().0
    }

    /// Limits it from now on; what waits already is answered when it was to be.
    pub fn set_limits(&self, limits: Limits, now: Nanos) {
        let mut qos = self.qos();
        *qos = (limits, Qos::new(limits, now));
        self.limited.store(limits.any(), Relaxed);
    }

    fn qos(&self) -> MutexGuard<'_, (Limits, Qos)> {
        self.qos.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Served<S> {
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
    /// What it has done for the connection whose turn it is.
    pub(crate) turn: IoStats,
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
        Self { served, counters, turn: IoStats::default(), timers, batch, input, spare }
    }
}

impl<S> Worker<S> {
    /// Counts READs and WRITEs of an export.
    #[inline]
    pub(crate) fn count(&mut self, export: usize, done: &IoStats) {
        self.counters.exports[export].add(done);
        self.turn += *done;
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
