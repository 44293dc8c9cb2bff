//! Places where one operation at a time may be: an operation waits until its place is free, then reads, writes and reads
//! again there, as the verification asks.

use std::collections::VecDeque;

use iocurve_meter::Nanos;

use super::mix::Next;
use crate::engines::request::Address;

/// How soon a place that others hold, or an operation that others are to catch up with, is looked at again.
pub(super) const LOOK_AGAIN: Nanos = 20_000;

/// What is to be done at a place next.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// The operation itself.
    Operation(Next, Address),
    /// What was written is read and compared.
    Check(Address),
}

/// Which places are visited now.
#[derive(Debug, Default)]
pub(super) struct Visits {
    /// Places that are held: what to do there.
    steps: VecDeque<Step>,
    /// The operation that waits for its place.
    waiting: Option<(Next, Address)>,
    /// By slot: the operation that follows a read of its place.
    following: Vec<Option<Next>>,
}

impl Visits {
    pub(super) fn new(depth: u32) -> Self {
        Self { following: vec![None; depth as usize], ..Self::default() }
    }

    /// The read in this slot comes before an operation.
    pub(super) fn comes_before(&mut self, slot: u32, next: Next) {
        self.following[slot as usize] = Some(next);
    }

    /// The operation that the read in this slot came before.
    pub(super) fn take_following(&mut self, slot: u32) -> Option<Next> {
        self.following[slot as usize].take()
    }

    /// An operation has to wait for its place.
    pub(super) fn wait(&mut self, next: Next, address: Address) {
        self.waiting = Some((next, address));
    }

    /// The operation that waited.
    pub(super) fn take_waiting(&mut self) -> Option<(Next, Address)> {
        self.waiting.take()
    }

    /// Something is to be done at a place that is held.
    pub(super) fn go_on(&mut self, step: Step) {
        self.steps.push_back(step);
    }

    /// What to do next.
    pub(super) fn take_step(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }
}
