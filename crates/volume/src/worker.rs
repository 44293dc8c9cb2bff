//! What one thread works with, and what all threads share.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::{Arc, Mutex, PoisonError};

use iocurve_meter::Nanos;
use iocurve_wire::nfs3::{nfs_fh3, writeverf3};

use crate::batch::Batch;
use crate::qos::{Key, Limits, Throttle};
use crate::replies::ReplyCache;
use crate::splice::SplicePipes;
use crate::stats::{Counters, IoStats};
use crate::store::{Caller, Store};

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
    /// What it is limited to, and what waits for that.
    pub throttle: Throttle,
}

impl Export {
    /// An export under limits, served by so many threads.
    pub fn new(path: String, limits: Limits, threads: usize, now: Nanos) -> Self {
        Self { path, throttle: Throttle::new(limits, threads, now) }
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
    /// Number of this thread.
    pub thread: usize,
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
    /// Empty pipes for what is sent by reference.
    pub pipes: SplicePipes,
}

impl<S: Store> Worker<S> {
    /// A worker with nothing to do.
    pub(crate) fn new(served: Arc<Served<S>>, thread: usize, counters: Arc<Counters>) -> Self {
        let input = vec![0; crate::session::INPUT_BYTES];
        let (timers, batch, spare) = (Timers::default(), Batch::default(), Vec::new());
        let pipes = SplicePipes::default();
        Self { served, thread, counters, turn: IoStats::default(), timers, batch, input, spare, pipes }
    }
}

impl<S> Worker<S> {
    /// Counts READs and WRITEs of an export.
    #[inline]
    pub(crate) fn count(&mut self, export: usize, done: &IoStats) {
        self.counters.exports[export].add(done);
        self.turn += *done;
    }

    /// Operations that wait for limits or for their time.
    pub fn waiting(&self) -> usize {
        let throttled = self.served.exports.iter().map(|export| export.throttle.waiting(self.thread));
        self.timers.waiting() + throttled.sum::<usize>()
    }

    /// When there is something to do for those that wait.
    pub fn next(&self) -> Option<Nanos> {
        let throttled = self.served.exports.iter().filter_map(|export| export.throttle.next(self.thread));
        throttled.chain(self.timers.next()).min()
    }

    /// Moves what limits have let through to the timers.
    pub fn collect(&mut self, now: Nanos) {
        for export in &self.served.exports {
            export.throttle.collect(now, self.thread, |delayed| self.timers.push(delayed));
        }
    }

    /// Drops all operations of a session that has ended. Says whether others may go through sooner.
    pub fn forget(&mut self, now: Nanos, path: [Key; 2]) -> bool {
        self.timers.forget(path[1] as SessionId);
        let forgotten = self.served.exports.iter().map(|export| export.throttle.forget(now, self.thread, path));
        forgotten.sum::<usize>() > 0
    }
}

/// Number of a connection; never used twice.
pub type SessionId = u64;

/// Operations that wait for their time, soonest first and in the order in which they came.
#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<Timed>>,
    sequence: u64,
}

#[derive(Debug)]
struct Timed {
    sequence: u64,
    delayed: Delayed,
}

/// An operation that waits for its time.
#[derive(Debug)]
pub struct Delayed {
    /// When it is to be answered.
    pub due: Nanos,
    /// How long after its arrival that is.
    pub waited_ns: Nanos,
    /// Number of its export.
    pub export: usize,
    /// Its session.
    pub session: SessionId,
    /// What is left to do.
    pub operation: Operation,
}

/// What is left to do when an operation is due.
#[derive(Debug)]
pub enum Operation {
    /// All of a READ, so that no data are kept.
    Read {
        /// Of the call.
        xid: u32,
        /// Who calls.
        by: Caller,
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
    /// Keeps an operation until it is due.
    pub fn push(&mut self, delayed: Delayed) {
        self.sequence += 1;
        self.heap.push(Reverse(Timed { sequence: self.sequence, delayed }));
    }

    /// When the next operation is due.
    fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|next| next.0.delayed.due)
    }

    /// Operations that wait.
    fn waiting(&self) -> usize {
        self.heap.len()
    }

    /// Drops all operations of a session that has ended.
    fn forget(&mut self, session: SessionId) {
        self.heap.retain(|Reverse(timed)| timed.delayed.session != session);
    }

    /// Takes out the next operation if it is due.
    pub fn pop(&mut self, now: Nanos) -> Option<Delayed> {
        self.next().filter(|due| *due <= now)?;
        self.heap.pop().map(|Reverse(timed)| timed.delayed)
    }
}

impl Ord for Timed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.delayed.due, self.sequence).cmp(&(other.delayed.due, other.sequence))
    }
}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Timed {}

#[cfg(test)]
mod tests {
    use super::*;

    fn timers(operations: &[(Nanos, SessionId)]) -> Timers {
        let mut timers = Timers::default();
        for &(due, session) in operations {
            let operation = Operation::Reply(Box::default());
            timers.push(Delayed { due, waited_ns: 0, export: 0, session, operation });
        }
        timers
    }

    #[test]
    fn operations_leave_when_due_and_in_order() {
        let mut timers = timers(&[(20, 1), (10, 2), (20, 3)]);
        assert_eq!(timers.next(), Some(10));
        assert!(timers.pop(9).is_none());
        let left: Vec<_> = std::iter::from_fn(|| timers.pop(20)).map(|delayed| delayed.session).collect();
        assert_eq!(left, [2, 1, 3]);
    }

    #[test]
    fn operations_go_with_their_session() {
        let mut timers = timers(&[(20, 1), (10, 2), (30, 1)]);
        timers.forget(1);
        assert_eq!((timers.waiting(), timers.pop(100).map(|delayed| delayed.session)), (1, Some(2)));
    }
}
