//! Search for the largest depth that meets a latency target.

use iocurve_meter::Nanos;

use crate::plan::LatencyTarget;

/// Conclusion from a window at one depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The window goes on.
    Continue,
    /// The depth was lowered; operations in flight must complete first.
    Lowered,
    /// The search has converged; one more window measures at this depth.
    Measure,
    /// That last window is over.
    Found,
    /// Not even one operation at a time meets the target.
    Unattainable,
}

/// Starts at depth 1 and doubles until a window fails, then halves the distance between the largest good depth and the
/// smallest bad one.
#[derive(Debug)]
pub(super) struct Search {
    target: LatencyTarget,
    most: u32,
    depth: u32,
    /// Largest good depth.
    low: u32,
    /// Smallest bad depth.
    high: u32,
    /// Consecutive good windows with the next depth known as bad.
    steady: u32,
    /// The last window, at the depth found, has begun.
    last: bool,
    window_start: Nanos,
    operations: u64,
    late: u64,
}

impl Search {
    pub(super) fn new(target: LatencyTarget, most: u32) -> Self {
        Self {
            target,
            most,
            depth: 1,
            low: 1,
            high: most,
            steady: 0,
            last: false,
            window_start: 0,
            operations: 0,
            late: 0,
        }
    }

    pub(super) fn depth(&self) -> u32 {
        self.depth
    }

    /// Begins a new window at `start`; operations completed before it do not count.
    pub(super) fn restart(&mut self, start: Nanos) {
        (self.window_start, self.operations, self.late) = (start, 0, 0);
    }

    /// Counts a completed operation. If all must be within the latency, a single late one lowers the depth at once.
    pub(super) fn completed(&mut self, service: Nanos, now: Nanos) -> Verdict {
        if now < self.window_start {
            return Verdict::Continue;
        }
        self.operations += 1;
        let is_late = service > self.target.target_ns;
        self.late += u64::from(is_late);
        if !is_late || self.target.percentile < 100.0 {
            return Verdict::Continue;
        }
        if self.depth == 1 { Verdict::Unattainable } else { self.lower() }
    }

    /// Evaluates the window once it is over.
    pub(super) fn judge(&mut self, now: Nanos) -> Verdict {
        if self.operations == 0 || now < self.window_start.saturating_add(self.target.window_ns) {
            return Verdict::Continue;
        }
        let good = (self.operations - self.late) as f64 * 100.0 / self.operations as f64;
        if good >= self.target.percentile {
            return self.good(now);
        }
        // At depth 1 the window goes on until enough of it is good.
        if self.depth == 1 { Verdict::Continue } else { self.lower() }
    }

    fn good(&mut self, now: Nanos) -> Verdict {
        let before = self.depth;
        self.low = self.depth;
        if self.depth + 1 == self.high {
            // Without this the depth could never pass a bad depth again: raise the bound a little.
            self.steady += 1;
            if self.steady >= 3 {
                (self.high, self.steady) = (self.high + 1, 0);
            }
        }
        let next = if self.high == self.most { self.depth * 2 } else { u32::midpoint(self.depth, self.high) };
        self.depth = next.min(self.most);
        self.restart(now);
        match (self.depth == before && !self.target.run_on, self.last) {
            (false, _) => Verdict::Continue,
            (true, true) => Verdict::Found,
            (true, false) => {
                self.last = true;
                Verdict::Measure
            }
        }
    }

    fn lower(&mut self) -> Verdict {
        self.high = self.depth;
        if self.depth == self.low {
            self.low -= 1;
        }
        self.depth = u32::midpoint(self.depth, self.low);
        self.steady = 0;
        Verdict::Lowered
    }
}
