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
}

impl Thinking {
    pub(super) fn new(plan: Think) -> Self {
        Self { plan, count: 0, last_count: 0, last_end: 0, fresh: false }
    }

    /// The load begins.
    pub(super) fn start(&mut self, now: Nanos) {
        self.last_end = now;
    }

    pub(super) fn issued(&mut self) {
        self.fresh = true;
        self.count += u64::from(self.plan.counts == ThinkCounts::Issued);
    }

    pub(super) fn completed(&mut self) {
        self.count += u64::from(self.plan.counts == ThinkCounts::Completed);
    }

    /// Whether it is time for a pause.
    pub(super) fn is_due(&self, now: Nanos) -> bool {
        let Think { every, every_ns, .. } = self.plan;
        let by_count = every > 0 && self.count >= self.last_count + u64::from(every);
        let by_time = every_ns.is_some_and(|load| now >= self.last_end.saturating_add(load));
        self.fresh && (by_count || by_time)
    }

    /// A pause is called for. What still completes before it begins counts towards the one after it.
    pub(super) fn call(&mut self) {
        (self.last_count, self.fresh) = (self.count, false);
    }

    /// The pause that begins now is busy until the first instant and over at the second.
    pub(super) fn begin(&self, now: Nanos) -> (Nanos, Nanos) {
        (now.saturating_add(self.plan.spin_ns), now.saturating_add(self.plan.pause_ns))
    }

    /// The pause that began at `begun` is over. How much later everything is due because of it.
    pub(super) fn end(&mut self, begun: Nanos, now: Nanos) -> Nanos {
        self.last_end = now;
        if self.plan.keeps_schedule { 0 } else { now - begun }
    }
}
