//! Pauses between operations.

use iocurve_meter::Nanos;

use crate::plan::{Think, ThinkCounts};

/// Counts towards the next pause. Operations that move data count, flushes do not.
#[derive(Debug)]
pub(super) struct Thinking {
    plan: Think,
    /// Operations of the counted sort so far.
    count: u64,
    /// Their number when the last pause was called for.
    last_count: u64,
    /// When the last pause ended.
    last_end: Nanos,
    /// Whether anything was issued since: without that, no pause follows another.
    fresh: bool,
    /// Whether what came back before the last pause was already enough for the next.
    is_overdue: bool,
}

impl Thinking {
    pub(super) fn new(plan: Think) -> Self {
        Self { plan, count: 0, last_count: 0, last_end: 0, fresh: false, is_overdue: false }
    }

    /// The load begins.
    pub(super) fn start(&mut self, now: Nanos) {
        self.last_end = now;
    }

    pub(super) fn submitted(&mut self) {
        self.fresh = true;
        self.count += u64::from(self.plan.counts == ThinkCounts::Issued);
    }

    pub(super) fn completed(&mut self) {
        self.count += u64::from(self.plan.counts == ThinkCounts::Completed);
    }

    /// Whether it is time for a pause.
    pub(super) fn is_due(&self, now: Nanos) -> bool {
        let by_time = self.plan.every_ns.is_some_and(|load| now >= self.last_end.saturating_add(load));
        self.fresh && (self.is_full() || by_time)
    }

    fn is_full(&self) -> bool {
        self.plan.every > 0 && self.count >= self.last_count + u64::from(self.plan.every)
    }

    /// A pause is called for, by the operation that made the number full. What completes besides counts towards the
    /// pause after it.
    pub(super) fn call(&mut self) {
        let by_count = self.is_full() && !self.is_overdue;
        self.last_count = if by_count { self.last_count + u64::from(self.plan.every) } else { self.count };
        self.fresh = false;
    }

    /// Whether what is in flight comes back first.
    pub(super) fn drains(&self) -> bool {
        self.plan.drains
    }

    /// The pause that begins now is busy until the first instant and over at the second.
    pub(super) fn begin(&self, now: Nanos) -> (Nanos, Nanos) {
        (now.saturating_add(self.plan.spin_ns), now.saturating_add(self.plan.pause_ns))
    }

    /// The pause that began at `begun` is over. How much later everything is due because of it.
    pub(super) fn end(&mut self, begun: Nanos, now: Nanos) -> Nanos {
        (self.last_end, self.is_overdue) = (now, self.is_full());
        if self.plan.moves_schedule { now - begun } else { 0 }
    }
}
