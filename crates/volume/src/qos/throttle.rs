//! One export's quality of service, shared by all threads. Without limits, an operation checks one flag.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};

use iocurve_meter::Nanos;

use super::bucket::Bucket;
use super::gate::Request;
use super::{Extent, Key, Kind, Limits, Qos, Quantity, Scope};
use crate::pending::{ConnectionId, Delayed, Operation};

/// The limits of an export, and the operations that wait for them.
///
/// Every thread with operations that wait here collects when the next operation is admitted. The first thread to do so admits
/// the operations of all threads, and leaves those of other threads for these to collect. New operations can only postpone that time;
/// when the limits change or a connection ends, threads must be woken.
#[derive(Debug)]
pub(crate) struct Throttle {
    is_limited: AtomicBool,
    /// Most operations of a connection that wait; `u32::MAX` without a limit.
    requests_in_flight: AtomicU32,
    /// When the next operation is admitted; `Nanos::MAX` if none waits.
    next: AtomicU64,
    threads: Vec<Slot>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    qos: Qos<Waiter>,
    /// Admitted operations that each thread is to collect.
    released: Vec<Vec<Delayed>>,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Slot {
    /// Operations that wait, or were admitted and not collected.
    waiting: AtomicUsize,
    /// Some were admitted and not collected.
    is_ready: AtomicBool,
}

/// Origin of an operation that asks to be admitted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    /// The thread that will collect it.
    pub(crate) thread: usize,
    /// Number of the export.
    pub(crate) export: usize,
    /// When it arrived.
    pub(crate) arrived: Nanos,
    /// Client and connection that it came from.
    pub(crate) path: [Key; 2],
}

#[derive(Debug)]
struct Waiter {
    arrival: Arrival,
    operation: Operation,
}

impl Throttle {
    /// The throttle of an export that `threads` threads serve.
    pub(crate) fn new(limits: Limits, threads: usize, now: Nanos) -> Self {
        let released = (0..threads).map(|_| Vec::new()).collect();
        let throttle = Self {
            is_limited: AtomicBool::new(false),
            requests_in_flight: AtomicU32::new(u32::MAX),
            next: AtomicU64::new(Nanos::MAX),
            threads: (0..threads).map(|_| Slot::default()).collect(),
            state: Mutex::new(State { qos: Qos::new(limits, now), released }),
        };
        throttle.publish(throttle.lock().qos.limits());
        throttle
    }

    /// True if operations must be admitted.
    #[inline]
    pub(crate) fn is_limited(&self) -> bool {
        self.is_limited.load(Relaxed)
    }

    /// Most operations of a connection that may wait.
    pub(crate) fn requests_in_flight(&self) -> usize {
        self.requests_in_flight.load(Relaxed) as usize
    }

    /// Admits a READ or WRITE of an extent, and returns when it is due. If it must wait, `operation` makes it, and its thread collects it later.
    pub(crate) fn admit(
        &self,
        arrival: Arrival,
        is_write: bool,
        extent: &Extent,
        operation: impl FnOnce() -> Operation,
    ) -> Option<Nanos> {
        let Arrival { thread, arrived, path, .. } = arrival;
        let mut state = self.lock();
        let State { qos, released } = &mut *state;
        let asked = Request { path, is_write, bytes: extent.bytes, is_hit: qos.is_hit(extent), item: () };
        let waiter = || Waiter { arrival, operation: operation() };
        let due = qos.admit(arrived, &asked, waiter, |due, other| self.put(released, due, other));
        self.publish_next(qos.next());
        if due.is_none() {
            self.threads[thread].waiting.fetch_add(1, Relaxed);
        }
        due
    }

    /// Counts the operations of a thread that wait.
    pub(crate) fn waiting(&self, thread: usize) -> usize {
        self.threads[thread].waiting.load(Relaxed)
    }

    /// When a thread should collect: 0 for now, `None` if none of its operations wait.
    pub(crate) fn next(&self, thread: usize) -> Option<Nanos> {
        let slot = &self.threads[thread];
        if slot.waiting.load(Relaxed) == 0 {
            return None;
        }
        let next = self.next.load(Acquire);
        Some(if slot.is_ready.load(Relaxed) { 0 } else { next })
    }

    /// Hands a thread its admitted operations.
    pub(crate) fn collect(&self, now: Nanos, thread: usize, take: impl FnMut(Delayed)) {
        if self.next(thread).is_none_or(|next| next > now) {
            return;
        }
        let mut state = self.lock();
        let State { qos, released } = &mut *state;
        qos.advance(now, |due, waiter| self.put(released, due, waiter));
        self.publish_next(qos.next());
        let slot = &self.threads[thread];
        slot.is_ready.store(false, Relaxed);
        slot.waiting.fetch_sub(released[thread].len(), Relaxed);
        released[thread].drain(..).for_each(take);
    }

    /// Notes that a thread comes `late_ns` late `now`: what the limits would have admitted meanwhile is not lost.
    pub(crate) fn came_late(&self, now: Nanos, thread: usize, late_ns: Nanos) {
        if self.is_limited() {
            self.lock().qos.came_late(now, thread, late_ns);
        }
    }

    /// Drops the operations of a connection that has ended, and returns how many there were. If there were any, those behind them may
    /// be admitted sooner: all threads must be woken.
    pub(crate) fn forget(&self, now: Nanos, thread: usize, path: [Key; 2]) -> usize {
        let mut state = self.lock();
        let State { qos, released } = &mut *state;
        let mut forgotten = qos.remove(now, path, |due, waiter| self.put(released, due, waiter));
        released[thread].retain(|delayed| {
            let is_own = delayed.connection == path[1] as ConnectionId;
            forgotten += usize::from(is_own);
            !is_own
        });
        self.publish_next(qos.next());
        self.threads[thread].waiting.fetch_sub(forgotten, Relaxed);
        forgotten
    }

    /// Changes the limits, also for operations that wait; all threads must then be woken.
    pub(crate) fn set_limits(&self, now: Nanos, limits: Limits) {
        let mut state = self.lock();
        let State { qos, released } = &mut *state;
        qos.set_limits(now, limits, |due, waiter| self.put(released, due, waiter));
        self.publish_next(qos.next());
        self.publish(qos.limits());
    }

    pub(crate) fn limits(&self) -> Limits {
        self.lock().qos.limits().clone()
    }

    /// Burst credits left; `None` without a burst.
    pub(crate) fn credits(&self, now: Nanos) -> Option<u64> {
        self.lock().qos.credits(now)
    }

    pub(crate) fn buckets(&self, now: Nanos) -> Vec<Bucket> {
        self.lock().qos.buckets(now)
    }

    /// The time for which buckets keep what they gain on top of their capacities, because a thread came late.
    pub(crate) fn catch_up_ns(&self, now: Nanos) -> Nanos {
        self.lock().qos.catch_up_ns(now)
    }

    fn publish(&self, limits: &Limits) {
        let requests = limits.cap(Scope::Connection, Quantity::Requests, Kind::Any);
        let requests = requests.map_or(u32::MAX, |cap| cap.value.try_into().unwrap_or(u32::MAX));
        self.requests_in_flight.store(requests, Relaxed);
        self.is_limited.store(limits.any(), Relaxed);
    }

    /// A thread that sees this time also sees the operations put before.
    fn publish_next(&self, next: Option<Nanos>) {
        self.next.store(next.unwrap_or(Nanos::MAX), Release);
    }

    /// Leaves an operation for its thread to collect.
    fn put(&self, released: &mut [Vec<Delayed>], due: Nanos, waiter: Waiter) {
        let Waiter { arrival, operation } = waiter;
        self.threads[arrival.thread].is_ready.store(true, Relaxed);
        released[arrival.thread].push(arrival.delayed(due, operation));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arrival {
    /// An admitted operation that is due at this time.
    pub(crate) fn delayed(self, due: Nanos, operation: Operation) -> Delayed {
        let Self { export, arrived, path, .. } = self;
        Delayed { due, waited_ns: due.saturating_sub(arrived), export, connection: path[1] as ConnectionId, operation }
    }
}

#[cfg(test)]
mod tests {
    use iocurve_meter::SECOND;

    use super::*;
    use crate::qos::Cap;

    /// A READ of 1,000 bytes; each client has one connection, of the same number.
    fn admit(throttle: &Throttle, now: Nanos, thread: usize, connection: ConnectionId) -> Option<Nanos> {
        let arrival = Arrival { thread, export: 0, arrived: now, path: [connection.into(); 2] };
        throttle.admit(arrival, false, &Extent::of(&[0; 8], 0, 1000), || Operation::Reply(Box::default()))
    }

    fn collect(throttle: &Throttle, now: Nanos, thread: usize) -> Vec<(ConnectionId, Nanos, Nanos)> {
        let mut collected = Vec::new();
        throttle.collect(now, thread, |delayed| collected.push((delayed.connection, delayed.due, delayed.waited_ns)));
        collected
    }

    fn one_a_second() -> Throttle {
        Throttle::new(Limits::of([Cap::iops(1)]), 2, 0)
    }

    #[test]
    fn every_thread_collects_its_own() {
        let throttle = one_a_second();
        assert_eq!(admit(&throttle, 5, 0, 1), Some(5));
        assert_eq!([throttle.next(0), throttle.next(1)], [None, None]);
        for (thread, connection) in [(1, 2), (0, 3), (1, 4)] {
            assert_eq!(admit(&throttle, 5, thread, connection), None);
        }
        // The token for connection 2 is there a second after the first one was taken.
        let second = 5 + SECOND;
        assert_eq!([throttle.next(0), throttle.next(1)], [Some(second), Some(second)]);
        assert_eq!(collect(&throttle, second - 1, 1), []);
        assert_eq!(collect(&throttle, second, 0), [], "let through for the other thread");
        assert_eq!([throttle.next(0), throttle.next(1)], [Some(second + SECOND), Some(0)]);
        assert_eq!(collect(&throttle, second + 1, 1), [(2, second, SECOND)]);
        // Late, and still due when it was.
        assert_eq!(collect(&throttle, 10 * SECOND, 1), [(4, second + 2 * SECOND, 3 * SECOND)]);
        assert_eq!(collect(&throttle, 10 * SECOND, 0), [(3, second + SECOND, 2 * SECOND)]);
        assert_eq!([throttle.waiting(0), throttle.waiting(1)], [0, 0]);
        assert_eq!([throttle.next(0), throttle.next(1)], [None, None]);
    }

    #[test]
    fn an_ended_connection_is_forgotten_wherever_its_operations_are() {
        let throttle = one_a_second();
        admit(&throttle, 0, 0, 1);
        for (thread, connection) in [(0, 1), (0, 1), (1, 2), (0, 1)] {
            assert_eq!(admit(&throttle, 0, thread, connection), None);
        }
        // One has gone through and was not collected, two wait.
        assert_eq!(collect(&throttle, SECOND, 1), []);
        assert_eq!(throttle.forget(SECOND, 0, [1; 2]), 3);
        assert_eq!(throttle.forget(SECOND, 0, [1; 2]), 0);
        assert_eq!((throttle.waiting(0), collect(&throttle, 100 * SECOND, 0)), (0, vec![]));
        assert_eq!(collect(&throttle, 100 * SECOND, 1), [(2, 2 * SECOND, 2 * SECOND)]);
    }

    #[test]
    fn limits_that_go_let_all_through() {
        let throttle = one_a_second();
        for _ in 0..5 {
            admit(&throttle, 0, 1, 1);
        }
        throttle.set_limits(SECOND / 2, Limits::default());
        assert_eq!((throttle.is_limited(), throttle.next(0), throttle.next(1)), (false, None, Some(SECOND / 2)));
        assert_eq!(collect(&throttle, SECOND / 2, 1), [(1, SECOND / 2, SECOND / 2); 4]);
        assert_eq!(throttle.limits(), Limits::default());
    }

    #[test]
    fn operations_without_limits_pass_if_limits_go_between_the_look_and_the_admission() {
        let throttle = one_a_second();
        throttle.set_limits(0, Limits::default());
        assert_eq!([admit(&throttle, 3, 0, 1), admit(&throttle, 3, 0, 1)], [Some(3), Some(3)]);
    }
}
