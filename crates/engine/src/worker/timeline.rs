//! The worker's times: intervals, ramp, measured window.

use iocurve_meter::Nanos;

use super::Start;
use crate::cpu::thread_cpu_time;
use crate::outcome::{CpuTime, IntervalKinds, IntervalOutcome};
use crate::plan::Worker;
use crate::record::{Recorder, Tally};

/// Called with every interval that a worker closes.
pub(crate) type Publish<'a> = dyn FnMut(&IntervalOutcome, &[Tally]) + 'a;

/// Closes intervals as time passes, and keeps the bounds of the measured window.
pub(super) struct Timeline<'a> {
    publish: &'a mut Publish<'a>,
    group_start: Nanos,
    interval_ns: Nanos,
    /// Start of the worker's load.
    pub(super) start: Nanos,
    /// Start of the current interval.
    opened: Nanos,
    /// End of the current interval: the next multiple of its length, the end of the ramp, or the end of the window.
    boundary: Nanos,
    /// Nothing is issued from this time on.
    pub(super) issue_end: Nanos,
    /// The window continues until files are flushed at the end.
    flushes_at_end: bool,
    pub(super) window_start: Nanos,
    pub(super) window_end: Nanos,
    window_is_over: bool,
    /// Operations are submitted after the window, in the cool-down.
    has_cooldown: bool,
    /// Operations that completed after the window.
    drained_operations: u64,
    cpu_start: CpuTime,
    cpu_end: Option<CpuTime>,
}

impl<'a> Timeline<'a> {
    pub(super) fn new(plan: &Worker, start: Start, interval_ns: Nanos, publish: &'a mut Publish<'a>) -> Self {
        let Start { group: group_start, own } = start;
        let start = own.saturating_add(plan.start_delay_ns);
        let window_start = start.saturating_add(plan.ramp_ns);
        let window_end = plan.end.runtime_ns.map_or(Nanos::MAX, |runtime| window_start.saturating_add(runtime));
        let flushes_at_end = plan.sync_at_end && plan.cooldown_ns == 0;
        let mut timeline = Self {
            publish,
            group_start,
            interval_ns,
            start,
            opened: start,
            boundary: Nanos::MAX,
            issue_end: window_end.saturating_add(plan.cooldown_ns),
            flushes_at_end,
            window_start,
            window_end: if flushes_at_end { Nanos::MAX } else { window_end },
            window_is_over: false,
            has_cooldown: plan.cooldown_ns > 0,
            drained_operations: 0,
            cpu_start: thread_cpu_time(),
            cpu_end: None,
        };
        timeline.open(start);
        timeline
    }

    /// Returns `true` if an operation that completes now is counted.
    #[inline]
    pub(super) fn measures(&self) -> bool {
        !self.window_is_over
    }

    /// Counts an operation that completes now; returns `true` if it completed or was due in the window (or in the ramp).
    #[inline]
    pub(super) fn completed(&mut self, due: Nanos) -> bool {
        self.measures() || self.drained(due)
    }

    #[cold]
    fn drained(&mut self, due: Nanos) -> bool {
        self.drained_operations += 1;
        self.left_over(due)
    }

    /// Returns `true` if an operation that completes after the window was due in it. A window that ended before it began has
    /// none.
    pub(super) fn left_over(&self, due: Nanos) -> bool {
        self.window_end > self.window_start && (!self.has_cooldown || due < self.window_end)
    }

    /// The next time at which the loop must check the clock.
    #[inline]
    pub(super) fn next_deadline(&self, now: Nanos) -> Nanos {
        let end = if now < self.issue_end { self.issue_end } else { Nanos::MAX };
        self.boundary.min(end)
    }

    /// Closes the intervals that are over at `now`.
    #[inline]
    pub(super) fn advance(&mut self, now: Nanos, recorder: &mut Recorder) {
        if now >= self.boundary {
            self.close_until(now, recorder);
        }
    }

    #[cold]
    fn close_until(&mut self, now: Nanos, recorder: &mut Recorder) {
        while self.measures() && now >= self.boundary {
            let boundary = self.boundary;
            self.close(boundary, recorder);
            if boundary == self.window_start {
                self.cpu_start = thread_cpu_time();
            }
            if boundary == self.window_end {
                self.end_window(boundary, recorder);
            }
        }
    }

    fn open(&mut self, at: Nanos) {
        let next = self.group_start + ((at - self.group_start) / self.interval_ns + 1) * self.interval_ns;
        let ramp_end = if at < self.window_start { self.window_start } else { Nanos::MAX };
        self.opened = at;
        self.boundary = if self.measures() { next.min(ramp_end).min(self.window_end) } else { Nanos::MAX };
    }

    fn close(&mut self, end: Nanos, recorder: &mut Recorder) {
        let interval = IntervalOutcome {
            index: (self.opened - self.group_start) / self.interval_ns,
            joined: 1,
            ramp: self.opened < self.window_start,
            start_ns: self.opened - self.group_start,
            end_ns: end - self.group_start,
            operations: IntervalKinds::default(),
        };
        recorder.close(interval, &mut *self.publish);
        self.open(end);
    }

    /// Nothing is issued after `end`. The window ends there, too, unless it is over already or flushes are part of it.
    pub(super) fn end_issuing(&mut self, end: Nanos, recorder: &mut Recorder) {
        if !self.flushes_at_end {
            self.end_window(end, recorder);
        }
    }

    /// Restarts the measured window: earlier measurements do not count.
    pub(super) fn restart(&mut self, now: Nanos, recorder: &mut Recorder) {
        self.advance(now, recorder);
        if now > self.opened {
            self.close(now, recorder);
        }
        recorder.forget(now);
        self.window_start = now;
        self.open(self.opened);
        self.cpu_start = thread_cpu_time();
    }

    /// Ends the window, and closes its last interval unless that is empty. From now on the recorder has what the window left
    /// over.
    pub(super) fn end_window(&mut self, end: Nanos, recorder: &mut Recorder) {
        if self.window_is_over {
            return;
        }
        (self.window_is_over, self.boundary) = (true, Nanos::MAX);
        // A stop before the window leaves it empty.
        self.window_end = self.window_end.min(end).max(self.window_start);
        self.cpu_end = Some(thread_cpu_time());
        if self.window_end > self.opened {
            self.close(self.window_end, recorder);
        }
        recorder.end_window();
    }

    pub(super) fn drained_operations(&self) -> u64 {
        self.drained_operations
    }

    pub(super) fn cpu(&self) -> CpuTime {
        let end = self.cpu_end.unwrap_or_else(thread_cpu_time);
        CpuTime {
            user_ns: end.user_ns - self.cpu_start.user_ns,
            system_ns: end.system_ns - self.cpu_start.system_ns,
            context_switches: end.context_switches - self.cpu_start.context_switches,
            major_faults: end.major_faults - self.cpu_start.major_faults,
            minor_faults: end.minor_faults - self.cpu_start.minor_faults,
        }
    }
}
