//! When operations were handed over, where that is measured apart.

use iocurve_meter::Nanos;

#[derive(Debug)]
pub(super) struct Submissions {
    /// By slot: when its operation was handed over.
    sent: Vec<Nanos>,
    /// Slots that are free for what comes next; the last is taken first.
    next: Vec<u32>,
}

impl Submissions {
    pub(super) fn new(depth: usize) -> Self {
        Self { sent: vec![0; depth], next: Vec::with_capacity(depth) }
    }

    /// These slots will be taken, from the last on.
    pub(super) fn expect(&mut self, free: &[u32]) {
        self.next.clear();
        self.next.extend_from_slice(free);
    }

    /// So many of them were taken, and what is in them was handed over.
    pub(super) fn sent(&mut self, taken: usize, at: Nanos) {
        for &slot in self.next.iter().rev().take(taken) {
            self.sent[slot as usize] = at;
        }
    }

    /// When the operation in a slot was handed over that had been submitted at that time; a flush at the end is not stamped.
    pub(super) fn of(&self, slot: u32, submitted: Nanos) -> Nanos {
        self.sent[slot as usize].max(submitted)
    }
}
