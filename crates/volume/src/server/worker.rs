//! The state of one thread.

use std::sync::Arc;

use iocurve_meter::{Clock, Nanos};

use crate::nfs4_state::NfsSession;
use crate::pending::{Pending, Timers};
use crate::programs::turn::{Peer, ThreadParts, Turn, TurnLength};
use crate::reply::batch::Batch;
use crate::reply::splice::SplicePipes;
use crate::served::Served;
use crate::served::credential::Credential;
use crate::stats::{Counters, IoStats};

/// One for each thread; its connections share it.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) served: Arc<Served>,
    /// Number of this thread.
    thread: usize,
    /// Ends turns in time; `None` where no time passes.
    clock: Option<Clock>,
    /// Calls may wait for a disk.
    may_wait: bool,
    pub(super) counters: Arc<Counters>,
    /// READs and WRITEs of the turn.
    pub(super) io: IoStats,
    /// Operations that wait for their time.
    pub(super) timers: Timers,
    /// Replies of the turn.
    batch: Batch,
    /// Bytes received in the turn.
    input: Vec<u8>,
    spare: Spare,
}

/// A turn ends once it has taken this time.
const TURN_NS: Nanos = 250_000;

/// As `TURN_NS`, where calls may wait for a disk.
const WAITING_TURN_NS: Nanos = 1_000_000;

/// Operations between two looks at the clock. Where calls may wait for a disk there is one after each.
const OPERATIONS_PER_LOOK: u32 = 16;

/// Spare memory is lent for replies if it is at most this many times as large as they are.
const SPARE_FACTOR_MAX: usize = 2;

/// Memory and pipes kept for the next connection that needs some.
#[derive(Debug, Default)]
pub(super) struct Spare {
    /// Empty memory for replies that a transport does not take.
    memory: Vec<u8>,
    /// Empty pipes for sending by reference.
    pub(super) pipes: SplicePipes,
}

impl Spare {
    /// Empty memory for `bytes`. Large memory is not lent for few: a connection may hold it for long.
    pub(super) fn take(&mut self, bytes: usize) -> Vec<u8> {
        if self.memory.capacity() <= SPARE_FACTOR_MAX * bytes { std::mem::take(&mut self.memory) } else { Vec::new() }
    }

    /// Keeps the larger one of two buffers: memory fresh from the system costs more than the copy into it.
    pub(super) fn keep(&mut self, used: Vec<u8>) {
        if used.capacity() > self.memory.capacity() {
            self.memory = used;
            self.memory.clear();
        }
    }
}

impl Worker {
    /// A worker that receives at most `input_bytes` at once.
    pub(crate) fn new(served: Arc<Served>, thread: usize, counters: Arc<Counters>, input_bytes: usize) -> Self {
        let (timers, batch, input) = (Timers::default(), Batch::default(), vec![0; input_bytes]);
        let (io, spare) = (IoStats::default(), Spare::default());
        Self { served, thread, clock: None, may_wait: false, counters, io, timers, batch, input, spare }
    }

    /// Has turns end in time by this clock, sooner where calls may not wait for a disk.
    #[must_use]
    pub(super) fn with_clock(self, clock: Clock, may_wait: bool) -> Self {
        Self { clock: Some(clock), may_wait, ..self }
    }

    /// Lends what a turn of a connection needs: the turn itself, the input buffer, and the spare parts.
    pub(super) fn turn<'t>(
        &'t mut self,
        credential: &'t mut Credential,
        pending: &'t mut Pending,
        nfs_session: &'t mut Option<Arc<NfsSession>>,
        peer: &'t Peer,
        now: Nanos,
    ) -> (Turn<'t>, &'t mut [u8], &'t mut Spare) {
        let Self { served, thread, clock, may_wait, counters, io, timers, batch, input, spare } = self;
        let may_wait = *may_wait;
        let length = clock.as_ref().map(|clock| {
            let (limit_ns, stride) = if may_wait { (WAITING_TURN_NS, 1) } else { (TURN_NS, OPERATIONS_PER_LOOK) };
            let end = may_wait.then(|| clock.now() + limit_ns);
            TurnLength { clock, may_wait, operations: 0, stride, limit_ns, end }
        });
        let thread = ThreadParts { number: *thread, timers, counters, io, length };
        let tight = served.memory.tight();
        (Turn { served, batch, credential, pending, nfs_session, peer, now, tight, thread }, input, spare)
    }

    pub(super) fn spare(&mut self) -> &mut Spare {
        &mut self.spare
    }

    /// Counts the operations that wait for limits or for their time.
    pub(crate) fn waiting(&self) -> usize {
        let throttled = self.served.exports.iter().map(|export| export.throttle.waiting(self.thread));
        self.timers.waiting() + throttled.sum::<usize>()
    }

    /// When the next of these operations can go on.
    pub(crate) fn next(&self) -> Option<Nanos> {
        let throttled = self.served.exports.iter().filter_map(|export| export.throttle.next(self.thread));
        throttled.chain(self.timers.next()).min()
    }

    /// Notes that the thread comes late, if it does.
    pub(crate) fn came_late(&self, now: Nanos, late_ns: Nanos) {
        if late_ns > 0 {
            self.counters.starved_ns.add(late_ns);
            self.served.exports.iter().for_each(|export| export.throttle.came_late(now, self.thread, late_ns));
        }
    }

    /// Moves operations that limits have admitted to the timers.
    pub(crate) fn collect(&mut self, now: Nanos) {
        for export in self.served.exports.iter() {
            export.throttle.collect(now, self.thread, |delayed| self.timers.push(delayed));
        }
    }

    /// Drops all operations of a connection that has ended. Returns whether others may be admitted sooner by it.
    pub(super) fn forget(&mut self, peer: &Peer, now: Nanos) -> bool {
        self.timers.forget(peer.connection);
        let forgotten = self.served.exports.iter().map(|export| export.throttle.forget(now, self.thread, peer.path));
        forgotten.sum::<usize>() > 0
    }
}
