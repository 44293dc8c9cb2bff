//! READs and WRITEs that wait for limits or for their time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use iocurve_meter::Nanos;
use iocurve_wire::nfs3::nfs_fh3;
use iocurve_wire::nfs4::stateid4;

use crate::memory::{TIGHT_OPERATIONS, TIGHT_WAITING_BYTES};
use crate::nfs4_state::{Principal, SlotUse};
use crate::qos::Extent;
use crate::store::access::Caller;

/// Most operations of one connection that wait; further calls stay in the transport.
pub(crate) const PENDING_MAX: usize = 4096;

/// Most bytes of replies and arguments that wait with the operations of one connection, but for one more.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// Number of a connection; never used twice.
pub(crate) type ConnectionId = u64;

/// The rest of an operation, to be done when it is due.
#[derive(Debug)]
pub(crate) enum Operation {
    /// All of a READ, so that no data are kept.
    Read { xid: u32, caller: Caller, file: nfs_fh3, offset: u64, count: u32 },
    /// Sending the reply of a WRITE that was executed on arrival.
    Reply(Box<[u8]>),
    /// A COMPOUND from a READ on.
    Compound(Box<SuspendedCompound>),
}

impl Operation {
    /// Bytes of replies and arguments that are kept with it.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Read { .. } => 0,
            Self::Reply(reply) => reply.len(),
            Self::Compound(compound) => compound.tag.len() + compound.results.capacity() + compound.arguments.len(),
        }
    }
}

/// An NFSv4.1 COMPOUND that waits before a READ.
#[derive(Debug)]
pub(crate) struct SuspendedCompound {
    pub(crate) xid: u32,
    pub(crate) tag: Box<[u8]>,
    /// Results so far.
    pub(crate) results: Vec<u8>,
    /// Arguments from the READ on.
    pub(crate) arguments: Box<[u8]>,
    /// The user that the client states; `None` if it states none.
    pub(crate) stated: Option<Caller>,
    /// The principal of the call, which owns what it makes.
    pub(crate) principal: Principal,
    /// Current and saved filehandle, and their state ids.
    pub(crate) handles: [Option<nfs_fh3>; 2],
    pub(crate) stateids: [Option<stateid4>; 2],
    pub(crate) slot: Option<SlotUse>,
    /// Number of operations, and of results so far.
    pub(crate) counts: [u32; 2],
    /// The reply is to be kept in the slot.
    pub(crate) is_kept: bool,
    /// Number of the export that WRITEs before the READ went to, and their bytes.
    pub(crate) written: Option<(usize, Extent)>,
}

/// An operation that the limits have admitted, and that is answered at a certain time.
#[derive(Debug)]
pub(crate) struct Delayed {
    /// When it is to be answered.
    pub(crate) due: Nanos,
    /// From its arrival until it is due.
    pub(crate) waited_ns: Nanos,
    /// Number of its export.
    pub(crate) export: usize,
    pub(crate) connection: ConnectionId,
    pub(crate) operation: Operation,
}

/// Operations of one connection that have been received and not answered.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Operations that wait: in a throttle, or in the timers of the connection's thread.
    waiting: usize,
    /// [`Operation::bytes`] of all that were received and not answered.
    bytes: usize,
    /// Most operations that may wait.
    waiting_max: usize,
    /// Operations that are due, and answered in the connection's next turn.
    due: VecDeque<Delayed>,
    /// Some throttle has met this connection, and remembers it.
    is_throttled: bool,
}

impl Pending {
    /// Notes that an operation with these [`Operation::bytes`] waits.
    pub(crate) fn wait(&mut self, bytes: usize) {
        self.waiting += 1;
        self.bytes += bytes;
    }

    /// True if an operation with these [`Operation::bytes`] may wait. While memory is tight, none that keeps much may.
    pub(crate) fn has_room(&self, bytes: usize, is_tight: bool) -> bool {
        bytes <= TIGHT_WAITING_BYTES / 2 || !is_tight && self.bytes < WAITING_BYTES_MAX
    }

    /// Notes that a throttle decides about an operation, and how many it lets wait.
    pub(crate) fn throttled(&mut self, waiting_max: usize) {
        self.is_throttled = true;
        self.waiting_max = waiting_max.min(PENDING_MAX);
    }

    /// Takes an operation that waited and is due now. The connection must have a turn.
    pub(crate) fn due(&mut self, delayed: Delayed) {
        self.waiting -= 1;
        self.due.push_back(delayed);
    }

    /// Takes out the next operation that is due.
    #[inline]
    pub(crate) fn pop_due(&mut self) -> Option<Delayed> {
        let due = self.due.pop_front()?;
        self.bytes -= due.operation.bytes();
        Some(due)
    }

    /// True if no further operation may wait; while memory is tight, fewer may.
    #[inline]
    pub(crate) fn is_full(&self, is_tight: bool) -> bool {
        let (waiting_max, bytes_max) = if is_tight {
            (self.waiting_max.min(TIGHT_OPERATIONS), TIGHT_WAITING_BYTES / 2)
        } else {
            (self.waiting_max, WAITING_BYTES_MAX)
        };
        self.waiting >= waiting_max || self.bytes >= bytes_max
    }

    pub(crate) fn is_throttled(&self) -> bool {
        self.is_throttled
    }

    /// Bytes that the operations keep.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts the operations that were received and not answered.
    pub(crate) fn in_flight(&self) -> usize {
        self.waiting + self.due.len()
    }
}

impl Default for Pending {
    fn default() -> Self {
        Self { waiting: 0, bytes: 0, waiting_max: PENDING_MAX, due: VecDeque::new(), is_throttled: false }
    }
}

/// Operations that wait for their time, soonest first and in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<Timed>>,
    sequence: u64,
}

#[derive(Debug)]
struct Timed {
    sequence: u64,
    delayed: Delayed,
}

impl Timers {
    /// Keeps an operation until it is due.
    pub(crate) fn push(&mut self, delayed: Delayed) {
        self.sequence += 1;
        self.heap.push(Reverse(Timed { sequence: self.sequence, delayed }));
    }

    /// Takes the operations of others, behind those that are due at the same time.
    pub(crate) fn append(&mut self, mut others: Self) {
        if self.heap.is_empty() {
            others.sequence = others.sequence.max(self.sequence);
            *self = others;
            return;
        }
        while let Some(Reverse(timed)) = others.heap.pop() {
            self.push(timed.delayed);
        }
    }

    /// When the next operation is due.
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|next| next.0.delayed.due)
    }

    /// Counts the operations that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.heap.len()
    }

    /// Drops all operations of a connection that has ended.
    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        self.heap.retain(|Reverse(timed)| timed.delayed.connection != connection);
    }

    /// Takes out the next operation if it is due.
    pub(crate) fn pop(&mut self, now: Nanos) -> Option<Delayed> {
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

    fn timers(operations: &[(Nanos, ConnectionId)]) -> Timers {
        let mut timers = Timers::default();
        for &(due, connection) in operations {
            let operation = Operation::Reply(Box::default());
            timers.push(Delayed { due, waited_ns: 0, export: 0, connection, operation });
        }
        timers
    }

    #[test]
    fn operations_leave_when_due_and_in_order() {
        let mut timers = timers(&[(20, 1), (10, 2), (20, 3)]);
        assert_eq!(timers.next(), Some(10));
        assert!(timers.pop(9).is_none());
        let left: Vec<_> = std::iter::from_fn(|| timers.pop(20)).map(|delayed| delayed.connection).collect();
        assert_eq!(left, [2, 1, 3]);
    }

    #[test]
    fn operations_go_with_their_connection() {
        let mut timers = timers(&[(20, 1), (10, 2), (30, 1)]);
        timers.forget(1);
        assert_eq!((timers.waiting(), timers.pop(100).map(|delayed| delayed.connection)), (1, Some(2)));
    }
}
