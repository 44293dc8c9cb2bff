//! One export's quality of service, shared by all threads. An export without limits costs each operation one look at a flag.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};

use iocurve_meter::Nanos;

use super::{Key, Limits, Qos, Request};
use crate::worker::{Delayed, Operation, SessionId};

/// The limits of an export and all that waits for them.
///
/// Every thread with operations that wait here looks in when the next one goes through. Whoever comes first lets through what is
/// due, and leaves the operations of others where they find them. More operations can only put that moment off; when the limits
/// change or a connection ends, threads must be woken.
#[derive(Debug)]
pub struct Throttle {
    is_limited: AtomicBool,
    /// Most operations of a connection that wait; `u32::MAX` without a limit.
    requests_in_flight: AtomicU32,
    /// When something goes through next; `Nanos::MAX` if nothing waits.
    next: AtomicU64,
    /// What concerns each thread.
    threads: Vec<Slot>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Operations with their tickets.
    qos: Qos<(u64, Waiter)>,
    /// What has gone through, for each thread.
    released: Vec<Vec<Delayed>>,
    /// How many tickets were given out.
    tickets: u64,
}

/// What concerns one thread.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Slot {
    /// Operations that wait, or have gone through and were not collected.
    waiting: AtomicUsize,
    /// Some have gone through.
    is_ready: AtomicBool,
}

/// An operation that is to go through.
#[derive(Debug)]
pub struct Waiter {
    /// The thread that will collect it.
    pub thread: usize,
    /// Number of the export.
    pub export: usize,
    /// When it came.
    pub arrived: Nanos,
    /// Whose it is: client, session.
    pub path: [Key; 2],
    /// The operation.
    pub operation: Operation,
}

impl Throttle {
    /// The limits of an export that `threads` threads serve.
    pub fn new(limits: Limits, threads: usize, now: Nanos) -> Self {
        let released = (0..threads).map(|_| Vec::new()).collect();
        let throttle = Self {
            is_limited: AtomicBool::new(false),
            requests_in_flight: AtomicU32::new(u32::MAX),
            next: AtomicU64::new(Nanos::MAX),
            threads: (0..threads).map(|_| Slot::default()).collect(),
            state: Mutex::new(State { qos: Qos::new(limits, now), released, tickets: 0 }),
        };
        throttle.publish(&limits);
        throttle
    }

    /// Whether operations must be admitted.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.is_limited.load(Relaxed)
    }

    /// Most operations of a connection that may wait.
    pub fn requests_in_flight(&self) -> usize {
        self.requests_in_flight.load(Relaxed) as usize
    }

    /// Takes in a READ or WRITE of `bytes`. Returns it if it has gone through; otherwise it waits, and will be collected.
    pub fn admit(&self, waiter: Waiter, is_write: bool, bytes: u64) -> Option<Delayed> {
        let Waiter { thread, arrived, path, .. } = waiter;
        let mut own = None;
        let mut state = self.lock();
        let State { qos, released, tickets } = &mut *state;
        *tickets += 1;
        let ticket = *tickets;
        qos.admit(arrived, Request { path, is_write, bytes, item: (ticket, waiter) }, |due, (number, waiter)| {
            if number == ticket {
                own = Some(waiter.delayed(due));
            } else {
                self.put(released, due, waiter);
            }
        });
        self.publish_next(qos.next());
        if own.is_none() {
            self.threads[thread].waiting.fetch_add(1, Relaxed);
        }
        own
    }

    /// Operations of a thread that wait.
    pub fn waiting(&self, thread: usize) -> usize {
        self.threads[thread].waiting.load(Relaxed)
    }

    /// When a thread should collect: now if that is 0, never if nothing of it waits.
    pub fn next(&self, thread: usize) -> Option<Nanos> {
        let slot = &self.threads[thread];
        if slot.waiting.load(Relaxed) == 0 {
            return None;
        }
        let next = self.next.load(Acquire);
        Some(if slot.is_ready.load(Relaxed) { 0 } else { next })
    }

    /// Takes out what has gone through for a thread.
    pub fn collect(&self, now: Nanos, thread: usize, take: impl FnMut(Delayed)) {
        if self.next(thread).is_none_or(|next| next > now) {
            return;
        }
        let mut state = self.lock();
        let State { qos, released, .. } = &mut *state;
        qos.advance(now, |due, (_, waiter)| self.put(released, due, waiter));
        self.publish_next(qos.next());
        let slot = &self.threads[thread];
        slot.is_ready.store(false, Relaxed);
        slot.waiting.fetch_sub(released[thread].len(), Relaxed);
        released[thread].drain(..).for_each(take);
    }

    /// Forgets a session that has ended, and returns how many operations of it waited. If there were any, those behind them may
    /// go through sooner: all threads must be woken.
    pub fn forget(&self, now: Nanos, thread: usize, path: [Key; 2]) -> usize {
        let mut state = self.lock();
        let State { qos, released, .. } = &mut *state;
        let mut forgotten = qos.remove(now, path, |due, (_, waiter)| self.put(released, due, waiter));
        released[thread].retain(|delayed| {
            let is_own = delayed.session == path[1] as SessionId;
            forgotten += usize::from(is_own);
            !is_own
        });
        self.publish_next(qos.next());
        self.threads[thread].waiting.fetch_sub(forgotten, Relaxed);
        forgotten
    }

    /// Changes the limits, for those who wait, too; all threads must then be woken.
    pub fn set_limits(&self, now: Nanos, limits: Limits) {
        let mut state = self.lock();
        let State { qos, released, .. } = &mut *state;
        qos.set_limits(now, limits, |due, (_, waiter)| self.put(released, due, waiter));
        self.publish_next(qos.next());
        self.publish(&limits);
    }

    /// What the export is limited to.
    pub fn limits(&self) -> Limits {
        *self.lock().qos.limits()
    }

    /// Burst credits that are left; `None` without a burst.
    pub fn credits(&self, now: Nanos) -> Option<u64> {
        self.lock().qos.credits(now)
    }

    fn publish(&self, limits: &Limits) {
        self.requests_in_flight.store(limits.connection.requests_in_flight.unwrap_or(u32::MAX), Relaxed);
        self.is_limited.store(limits.any(), Relaxed);
    }

    /// Who sees this sees also what was put before.
    fn publish_next(&self, next: Option<Nanos>) {
        self.next.store(next.unwrap_or(Nanos::MAX), Release);
    }

    /// Leaves an operation for its thread to collect.
    fn put(&self, released: &mut [Vec<Delayed>], due: Nanos, waiter: Waiter) {
        self.threads[waiter.thread].is_ready.store(true, Relaxed);
        released[waiter.thread].push(waiter.delayed(due));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    fn delayed(self, due: Nanos) -> Delayed {
        let Self { export, arrived, path, operation, .. } = self;
        Delayed { due, waited_ns: due.saturating_sub(arrived), export, session: path[1] as SessionId, operation }
    }
}
