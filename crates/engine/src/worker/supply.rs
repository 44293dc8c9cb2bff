//! The remaining operations: their kinds and due times, their addresses, and their number.

use std::ops::Range;

use iocurve_meter::Nanos;

use super::Shared;
use super::flow::Share;
use super::mix::{Choice, Mix};
use super::next::Next;
use super::range_locks::RETRY_NS;
use super::wake::Wake;
use super::walk::Walk;
use crate::engines::request::Address;
use crate::error::EngineError;
use crate::offsets::replay::Replay;
use crate::offsets::{Offsets, Scattered};
use crate::plan::Worker;

/// Number of missed operations that are counted one by one.
const MISSED_SINGLY: u64 = 1 << 24;

/// Counts operations and bytes as they are issued. Flushes and reads for verification are not counted.
#[derive(Debug)]
pub(super) struct Supply {
    pub(super) mix: Mix,
    offsets: Offsets,
    replay: Option<Replay>,
    flow: Option<Share>,
    /// By operation: mean size of a block.
    mean_bytes: Vec<u32>,
    issued_operations: u64,
    issued_bytes: u64,
    /// 0 once no address is left.
    operations_max: u64,
    bytes_max: u64,
}

impl Supply {
    pub(super) fn new(plan: &Worker, depth: u32, shared: &mut Shared) -> Result<Self, EngineError> {
        let replay = Replay::open(plan)?;
        let tickets = shared.tickets.take();
        let walk = shared.tree.as_ref().map(|tree| Walk::new(plan, tree, depth, tickets)).transpose()?.flatten();
        let offsets = Offsets::new(plan, &shared.positions)?.or_replayed(replay.as_ref());
        let flow = shared.flow.take();
        Ok(Self {
            offsets: offsets.or_walked(walk.as_ref().map(Walk::handover)),
            mix: match (walk, &replay) {
                (Some(walk), _) => Mix::Walked(Box::new(walk)),
                (None, Some(replay)) => Mix::Replayed(replay.clone()),
                (None, None) => Mix::new(plan),
            },
            replay,
            flow,
            mean_bytes: plan.operations.iter().map(|operation| operation.blocks.mean()).collect(),
            issued_operations: 0,
            issued_bytes: 0,
            operations_max: plan.end.operations.unwrap_or(u64::MAX),
            bytes_max: plan.end.bytes.unwrap_or(u64::MAX),
        })
    }

    /// The next operation, unless it is not due or other workers of its flow are behind.
    #[inline(always)]
    pub(super) fn next(&mut self, now: Nanos) -> Result<Next, Wake> {
        if let Some(flow) = &mut self.flow
            && !flow.may_submit()
        {
            return Err(Wake::At(now + RETRY_NS));
        }
        self.mix.next(now)
    }

    /// The address of that operation; `None` if a pass is over ([`Self::begin_pass`]), or if its regions are exhausted.
    #[inline(always)]
    pub(super) fn address(&mut self, operation: usize) -> Option<Address> {
        self.offsets.next(operation)
    }

    /// Files of the pass that starts with `next`, if their cached pages are to be dropped before it; then `next` comes
    /// again.
    pub(super) fn begin_pass(&mut self, next: Next) -> Option<Range<usize>> {
        let files = self.offsets.begin_pass()?;
        self.mix.hold(next);
        Some(files)
    }

    /// Counts a requested operation.
    #[inline(always)]
    pub(super) fn issued(&mut self, operation: usize, length: u32) {
        self.mix.issued(operation, length);
        self.issued_operations += 1;
        self.issued_bytes += u64::from(length);
        if let Some(flow) = &mut self.flow {
            flow.submitted();
        }
    }

    /// The choice of kinds, the places of operations in any order, and how many can be issued before there is none, or
    /// another pass begins. `None` if kind, time or place of the next operation is to be chosen otherwise.
    #[inline(always)]
    pub(super) fn plain(&mut self) -> Option<(&mut Choice, &mut Scattered, u64)> {
        let (Mix::Unpaced(choice), None) = (&mut self.mix, &self.flow) else { return None };
        let scattered = self.offsets.scattered()?;
        let bytes = self.bytes_max.saturating_sub(self.issued_bytes);
        let operations = self.operations_max.saturating_sub(self.issued_operations);
        let most = operations.min(scattered.left_in_pass() - 1).min(scattered.operations_of(bytes));
        Some((choice, scattered, most))
    }

    /// Counts operations of [`Self::plain`].
    #[inline(always)]
    pub(super) fn issued_plain(&mut self, operations: u64, bytes: u64) {
        self.issued_operations += operations;
        self.issued_bytes += bytes;
    }

    /// Calls `miss` with what was due before `end` and was not issued: the operation, its due time, and how many there are.
    /// In a backlog beyond [`MISSED_SINGLY`], several operations count as one that was due when the first of them was.
    pub(super) fn miss_due_before(&mut self, end: Nanos, mut miss: impl FnMut(usize, Nanos, u64)) {
        let at_once = 1 + self.mix.backlog(end) / MISSED_SINGLY;
        while !self.is_exhausted()
            && let Some((operation, due)) = self.mix.miss(end, at_once, &self.mean_bytes)
        {
            let count = at_once.min(self.operations_max - self.issued_operations);
            self.issued_operations += count;
            self.issued_bytes = self.issued_bytes.saturating_add(count * u64::from(self.mean_bytes[operation]));
            miss(operation, due, count);
        }
    }

    /// The walk on a tree, if there is one.
    pub(super) fn walk(&mut self) -> Option<&mut Walk> {
        match &mut self.mix {
            Mix::Walked(walk) => Some(walk),
            _ => None,
        }
    }

    /// Issues nothing more.
    pub(super) fn end(&mut self) {
        self.operations_max = 0;
    }

    /// Returns `true` if all operations or bytes of the plan were issued.
    #[inline]
    pub(super) fn is_exhausted(&self) -> bool {
        self.issued_operations >= self.operations_max || self.issued_bytes >= self.bytes_max
    }

    #[inline]
    pub(super) fn issued_operations(&self) -> u64 {
        self.issued_operations
    }

    pub(super) fn issued_bytes(&self) -> u64 {
        self.issued_bytes
    }

    /// The error that ended a replay early, or the difference that a walk found, if there is one.
    pub(super) fn failure(&self) -> Option<EngineError> {
        match &self.mix {
            Mix::Walked(walk) => walk.failure(),
            _ => self.replay.as_ref().and_then(Replay::failure),
        }
    }
}
