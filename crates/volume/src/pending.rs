//! Operations that wait for their time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use iocurve_meter::Nanos;
use iocurve_wire::nfs3::nfs_fh3;

use crate::store::Caller;

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
    pub fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|next| next.0.delayed.due)
    }

    /// Operations that wait.
    pub fn waiting(&self) -> usize {
        self.heap.len()
    }

    /// Drops all operations of a session that has ended.
    pub fn forget(&mut self, session: SessionId) {
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
