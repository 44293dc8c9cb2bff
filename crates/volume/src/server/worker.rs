//! What one thread works with.

use std::sync::Arc;

use iocurve_meter::Nanos;

use crate::pending::{SessionId, Timers};
use crate::qos::Key;
use crate::reply::batch::Batch;
use crate::reply::splice::SplicePipes;
use crate::served::Served;
use crate::stats::{Counters, IoStats};
use crate::store::Store;

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
        let input = vec![0; crate::server::session::INPUT_BYTES];
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
