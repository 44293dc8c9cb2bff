//! Times at which operations were sent, for submission latency.

use iocurve_meter::Nanos;

/// Send times of the operations in flight.
#[derive(Debug)]
pub(super) struct Submissions {
    /// By slot: the time at which its operation was sent.
    sent: Vec<Nanos>,
    /// Free slots that the next submissions take, the last one first.
    next: Vec<u32>,
}

impl Submissions {
    pub(super) fn new(depth: usize) -> Self {
        Self { sent: vec![0; depth], next: Vec::with_capacity(depth) }
    }

    /// The next submissions take these slots, the last one first.
    pub(super) fn expect(&mut self, free: &[u32]) {
        self.next.clear();
        self.next.extend_from_slice(free);
    }

    /// The first `taken` of the expected slots were taken, and their operations sent.
    pub(super) fn sent(&mut self, taken: usize, at: Nanos) {
        for &slot in self.next.iter().rev().take(taken) {
            self.sent[slot as usize] = at;
        }
    }

    /// Time at which the operation in a slot was sent. A flush at the end is not stamped: it counts as sent when
    /// submitted.
    pub(super) fn of(&self, slot: u32, submitted: Nanos) -> Nanos {
        self.sent[slot as usize].max(submitted)
    }
}
