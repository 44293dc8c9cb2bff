//! The operations in flight, by slot.

use iocurve_meter::Nanos;

use super::submissions::Submissions;
use crate::engines::request::Address;

/// One slot for each operation that may be in flight.
#[derive(Debug)]
pub(super) struct Slots {
    by_slot: Vec<InFlight>,
    /// Free slots, of which the last one is taken first, and room for the others.
    free: Box<[u32]>,
    free_count: usize,
    /// Time at which each operation was sent, if that is measured.
    pub(super) submissions: Option<Submissions>,
}

/// An operation from its submission to its completion.
#[derive(Debug, Clone, Copy)]
pub(super) struct InFlight {
    pub(super) submitted: Nanos,
    pub(super) due: Nanos,
    pub(super) address: Address,
    /// Its number among the recorded kinds.
    pub(super) operation: u32,
    /// Verification submitted it, to compare written data.
    pub(super) reads_back: bool,
    /// Verification reads data again that differed; it is not recorded.
    pub(super) reads_again: bool,
}

impl InFlight {
    /// An operation that verification has no part in.
    #[inline]
    pub(super) fn new(operation: u32, address: Address, submitted: Nanos, due: Nanos) -> Self {
        Self { submitted, due, address, operation, reads_back: false, reads_again: false }
    }
}

impl Slots {
    pub(super) fn new(depth: u32, measures_submission: bool) -> Self {
        let nowhere = Address { file: 0, offset: 0, length: 0 };
        Self {
            by_slot: vec![InFlight::new(0, nowhere, 0, 0); depth as usize],
            free: (0..depth).rev().collect(),
            free_count: depth as usize,
            submissions: measures_submission.then(|| Submissions::new(depth as usize)),
        }
    }

    #[inline]
    pub(super) fn take(&mut self, operation: InFlight) -> u32 {
        self.free_count = self.free_count.checked_sub(1).expect("no more is submitted than there are slots");
        let slot = self.free[self.free_count];
        self.by_slot[slot as usize] = operation;
        slot
    }

    /// The operation in this slot moves no data, whatever length it has in the plan.
    pub(super) fn expect_no_bytes(&mut self, slot: u32) {
        self.by_slot[slot as usize].address.length = 0;
    }

    #[inline]
    pub(super) fn release(&mut self, slot: u32) -> InFlight {
        self.free[self.free_count] = slot;
        self.free_count += 1;
        self.by_slot[slot as usize]
    }

    #[inline]
    pub(super) fn of(&self, slot: u32) -> &InFlight {
        &self.by_slot[slot as usize]
    }

    /// The operations in flight, with their slots.
    pub(super) fn in_flight(&self) -> impl Iterator<Item = (u32, &InFlight)> {
        let mut is_free = vec![false; self.depth()];
        self.free[..self.free_count].iter().for_each(|&slot| is_free[slot as usize] = true);
        (0..).zip(&self.by_slot).zip(is_free).filter_map(|(operation, is_free)| (!is_free).then_some(operation))
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        self.by_slot.len() - self.free_count
    }

    #[inline]
    pub(super) fn free(&self) -> usize {
        self.free_count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    pub(super) fn depth(&self) -> usize {
        self.by_slot.len()
    }

    /// The next `count` submissions will be stamped together.
    pub(super) fn expect_submissions(&mut self, count: usize) {
        if let Some(submissions) = &mut self.submissions {
            submissions.expect(&self.free[self.free_count - count..self.free_count]);
        }
    }

    /// The first `taken` of the submissions expected were sent by `at`.
    pub(super) fn sent(&mut self, taken: usize, at: Nanos) {
        if let Some(submissions) = &mut self.submissions {
            submissions.sent(taken, at);
        }
    }
}
