//! One operation at a time per range: an operation waits for its range, then the range is read, written and read again,
//! as verification requires.

use std::collections::VecDeque;

use iocurve_meter::Nanos;

use super::next::Next;
use crate::engines::request::Address;

/// Time between two attempts to lock a range, or to continue in a flow whose other workers are behind.
pub(super) const RETRY_NS: Nanos = 20_000;

/// The next operation in a locked range.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// The operation that the range was locked for.
    Operation(Next, Address),
    /// A read of written data, to be compared.
    Compare(Address),
    /// A second read of data that differed, and the operation that follows it.
    Again(Address, Option<Next>),
}

/// The locked ranges of a worker, and the operation that waits for one.
#[derive(Debug, Default)]
pub(super) struct RangeLocks {
    steps: VecDeque<Step>,
    waiting: Option<(Next, Address)>,
    /// By slot: the operation that follows a read of its range.
    following: Vec<Option<Next>>,
}

impl RangeLocks {
    pub(super) fn new(depth: u32) -> Self {
        Self { following: vec![None; depth as usize], ..Self::default() }
    }

    /// Sets the operation that follows the read in this slot.
    pub(super) fn set_following(&mut self, slot: u32, next: Next) {
        self.following[slot as usize] = Some(next);
    }

    pub(super) fn take_following(&mut self, slot: u32) -> Option<Next> {
        self.following[slot as usize].take()
    }

    /// Makes an operation wait until its range is unlocked.
    pub(super) fn wait(&mut self, next: Next, address: Address) {
        self.waiting = Some((next, address));
    }

    pub(super) fn take_waiting(&mut self) -> Option<(Next, Address)> {
        self.waiting.take()
    }

    pub(super) fn push_step(&mut self, step: Step) {
        self.steps.push_back(step);
    }

    pub(super) fn take_step(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }
}
