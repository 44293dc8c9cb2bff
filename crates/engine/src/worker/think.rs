//! Pauses between operations.

use iocurve_meter::Nanos;

use crate::plan::{Think, ThinkCounts};

/// Counts operations towards the next pause. Operations that move data count, flushes do not.
#[derive(Debug)]
pub(super) struct Thinking {
    plan: Think,
    /// Operations counted so far.
    count: u64,
    /// Count at which the last pause was due.
    last_count: u64,
    /// End of the last pause.
    last_end: Nanos,
    /// An operation was submitted since the last pause; otherwise no pause follows.
    fresh: bool,
    /// Operations that completed before the last pause suffice for the next.
    is_overdue: bool,
}

impl Thinking {
    pub(super) fn new(plan: Think) -> Self {
        Self { plan, count: 0, last_count: 0, last_end: 0, fresh: false, is_overdue: false }
    }

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

    pub(super) fn is_due(&self, now: Nanos) -> bool {
        let by_time = self.plan.every_ns.is_some_and(|load| now >= self.last_end.saturating_add(load));
        self.fresh && (self.is_full() || by_time)
    }

    fn is_full(&self) -> bool {
        self.plan.every > 0 && self.count >= self.last_count + u64::from(self.plan.every)
    }

    /// Requests a pause, for the operation that completed the count. Further completions count towards the next pause.
    pub(super) fn call(&mut self) {
        let by_count = self.is_full() && !self.is_overdue;
        self.last_count = if by_count { self.last_count + u64::from(self.plan.every) } else { self.count };
        self.fresh = false;
    }

    /// Operations in flight complete before a pause begins.
    pub(super) fn drains(&self) -> bool {
        self.plan.drains
    }

    /// Begins a pause; returns the end of its busy part and its end.
    pub(super) fn begin(&self, now: Nanos) -> (Nanos, Nanos) {
        (now.saturating_add(self.plan.spin_ns), now.saturating_add(self.plan.pause_ns))
    }

    /// Ends the pause that began at `begun`; returns the time by which it moves due times.
    pub(super) fn end(&mut self, begun: Nanos, now: Nanos) -> Nanos {
        (self.last_end, self.is_overdue) = (now, self.is_full());
        if self.plan.moves_schedule { now - begun } else { 0 }
    }
}
