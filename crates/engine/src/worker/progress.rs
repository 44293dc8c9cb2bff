//! Where a worker stands in time: intervals, ramp, window.

use std::collections::BTreeMap;

use iocurve_meter::Nanos;

use super::Start;
use crate::cpu::thread_cpu_time;
use crate::outcome::{CpuTime, IntervalOutcome};
use crate::plan::Worker;
use crate::record::{Recorder, Tally};

/// How long what is in flight may take to come back after the end, or after a stop.
pub(super) const DRAIN: Nanos = 30_000_000_000;
pub(super) const DRAIN_WHEN_STOPPED: Nanos = 1_000_000_000;

/// Where a worker stands in time: intervals, ramp, window.
#[derive(Debug)]
pub(super) struct Progress {
    group_start: Nanos,
    pub(super) start: Nanos,
    interval_ns: Nanos,
    opened: Nanos,
    /// When the current interval ends: at the next multiple of its length, the end of the ramp, or the end of the window.
    boundary: Nanos,
    /// When nothing more is issued.
    pub(super) issue_end: Nanos,
    /// Whether the window goes on until files are flushed at the end.
    flushes_at_end: bool,
    pub(super) window_start: Nanos,
    pub(super) window_end: Nanos,
    pub(super) give_up: Nanos,
    pub(super) ended: bool,
    pub(super) drained_operations: u64,
    cpu_start: CpuTime,
    cpu_end: Option<CpuTime>,
}

impl Progress {
    pub(super) fn new(plan: &Worker, start: Start, interval_ns: Nanos) -> Self {
        let Start { group: group_start, own } = start;
        let start = own.saturating_add(plan.start_delay_ns);
        let window_start = start.saturating_add(plan.ramp_ns);
        let window_end = plan.end.runtime_ns.map_or(Nanos::MAX, |runtime| window_start.saturating_add(runtime));
        let flushes_at_end = plan.sync_at_end && plan.cooldown_ns == 0;
        let mut progress = Self {
            group_start,
            start,
            interval_ns,
            opened: start,
            boundary: Nanos::MAX,
            issue_end: window_end.saturating_add(plan.cooldown_ns),
            flushes_at_end,
            window_start,
            window_end: if flushes_at_end { Nanos::MAX } else { window_end },
            give_up: Nanos::MAX,
            ended: false,
            drained_operations: 0,
            cpu_start: thread_cpu_time(),
            cpu_end: None,
        };
        progress.open(start);
        progress
    }

    /// When the loop must look again, by the clock alone.
    #[inline]
    pub(super) fn next_look(&self, now: Nanos) -> Nanos {
        let end = if now < self.issue_end { self.issue_end } else { Nanos::MAX };
        self.boundary.min(end)
    }

    /// An interval begins.
    fn open(&mut self, at: Nanos) {
        let next = self.group_start + ((at - self.group_start) / self.interval_ns + 1) * self.interval_ns;
        let ramp_end = if at < self.window_start { self.window_start } else { Nanos::MAX };
        self.opened = at;
        self.boundary = if self.ended { Nanos::MAX } else { next.min(ramp_end).min(self.window_end) };
    }

    /// Closes the intervals that are over at `now`.
    #[inline]
    pub(super) fn advance(
        &mut self,
        now: Nanos,
        recorder: &mut Recorder,
        publish: &mut dyn FnMut(&IntervalOutcome, &[Tally]),
    ) {
        if now >= self.boundary {
            self.close_until(now, recorder, publish);
        }
    }

    #[cold]
    fn close_until(
        &mut self,
        now: Nanos,
        recorder: &mut Recorder,
        publish: &mut dyn FnMut(&IntervalOutcome, &[Tally]),
    ) {
        while !self.ended && now >= self.boundary {
            let boundary = self.boundary;
            self.close(boundary, recorder, publish);
            if boundary == self.window_start {
                self.cpu_start = thread_cpu_time();
            }
            if boundary == self.window_end {
                self.end_window(boundary, DRAIN);
            }
        }
    }

    fn close(&mut self, end: Nanos, recorder: &mut Recorder, publish: &mut dyn FnMut(&IntervalOutcome, &[Tally])) {
        let interval = IntervalOutcome {
            index: (self.opened - self.group_start) / self.interval_ns,
            ramp: self.opened < self.window_start,
            start_ns: self.opened - self.group_start,
            end_ns: end - self.group_start,
            operations: BTreeMap::new(),
        };
        recorder.close(interval, publish);
        self.open(end);
    }

    /// Nothing is issued after `end`. The window ends there, too, unless it has before or flushes are part of it.
    pub(super) fn end_issuing(&mut self, end: Nanos) {
        if self.flushes_at_end {
            self.give_up = end.saturating_add(DRAIN);
        } else {
            self.end_window(end, DRAIN);
        }
    }

    /// What was measured so far counts no more: the window begins now.
    pub(super) fn restart(
        &mut self,
        now: Nanos,
        recorder: &mut Recorder,
        publish: &mut dyn FnMut(&IntervalOutcome, &[Tally]),
    ) {
        self.advance(now, recorder, publish);
        if now > self.opened {
            self.close(now, recorder, publish);
        }
        recorder.forget(now);
        self.window_start = now;
        self.open(self.opened);
        self.cpu_start = thread_cpu_time();
    }

    /// No operation counts after `end`; what is in flight gets `grace` to come back.
    pub(super) fn end_window(&mut self, end: Nanos, grace: Nanos) {
        self.give_up = end.saturating_add(grace);
        if self.ended {
            return;
        }
        (self.ended, self.boundary) = (true, Nanos::MAX);
        // A stop before the window leaves it empty.
        self.window_end = self.window_end.min(end).max(self.window_start);
        self.cpu_end = Some(thread_cpu_time());
    }

    /// Closes the last interval, if there is anything in it.
    pub(super) fn finish(
        &mut self,
        now: Nanos,
        recorder: &mut Recorder,
        publish: &mut dyn FnMut(&IntervalOutcome, &[Tally]),
    ) {
        self.end_window(now, 0);
        if self.window_end > self.opened {
            self.close(self.window_end, recorder, publish);
        }
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
