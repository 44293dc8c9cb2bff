//! Counts and latencies of one worker: by kind, by interval and over the measured window.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use iocurve_meter::{Latencies, Nanos};

use super::course::joined;
use super::done::Done;
use super::levels::Levels;
use super::log::Log;
use crate::error::EngineError;
use crate::outcome::{IntervalKind, IntervalOutcome, KindOutcome, LatencyOutcome, LogOutcome};
use crate::plan::{LogPlan, OperationKind, OperationPlan, Worker};

/// Counts and latencies of one kind of operation.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    pub operations: u64,
    /// Bytes moved; entries, if the operations list directories.
    moved: u64,
    lists: bool,
    pub errors: u64,
    /// Operations that moved fewer bytes than requested.
    pub short: u64,
    /// From submission to completion.
    pub service: Latencies,
    /// From due time to completion, for paced kinds.
    pub response: Option<Latencies>,
    /// Response latency beyond which operations are late; the largest number without a limit.
    limit: Nanos,
    /// The two parts of the service latency, if submission latency is measured.
    pub parts: Option<Box<Parts>>,
}

/// The parts of the service latency.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    /// From submission to sending.
    pub submission: Latencies,
    /// From sending to completion.
    pub completion: Latencies,
}

impl Tally {
    fn new(kind: OperationKind, paced: bool, limit: Option<Nanos>, in_parts: bool) -> Self {
        let lists = kind.lists();
        let response = paced.then(Latencies::new);
        let parts = in_parts.then(|| Box::new(Parts { submission: Latencies::new(), completion: Latencies::new() }));
        let limit = limit.unwrap_or(Nanos::MAX);
        Self { operations: 0, moved: 0, lists, errors: 0, short: 0, service: Latencies::new(), response, limit, parts }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.moved += other.moved;
        self.errors += other.errors;
        self.short += other.short;
        self.service.add(&other.service);
        if let (Some(mine), Some(theirs)) = (&mut self.response, &other.response) {
            mine.add(theirs);
        }
        if let (Some(mine), Some(theirs)) = (&mut self.parts, &other.parts) {
            mine.submission.add(&theirs.submission);
            mine.completion.add(&theirs.completion);
        }
    }

    fn clear(&mut self) {
        (self.operations, self.moved, self.errors, self.short) = (0, 0, 0, 0);
        self.service.clear();
        if let Some(response) = &mut self.response {
            response.clear();
        }
        if let Some(parts) = &mut self.parts {
            parts.submission.clear();
            parts.completion.clear();
        }
    }

    /// Bytes moved.
    pub(crate) fn bytes(&self) -> u64 {
        if self.lists { 0 } else { self.moved }
    }

    /// Entries listed; 0 if the operations move bytes.
    fn entries(&self) -> u64 {
        if self.lists { self.moved } else { 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.operations == 0 && self.errors == 0
    }

    /// Number of late operations; counted from the histogram, so that recording an operation costs no more.
    fn late(&self) -> u64 {
        let over = |response: &Latencies| response.count_between(self.limit + 1, response.max());
        self.response.as_ref().filter(|response| response.max() > self.limit).map_or(0, over)
    }

    /// The tally as an interval reports it.
    pub(crate) fn interval(&self) -> IntervalKind {
        IntervalKind {
            operations: self.operations,
            bytes: self.bytes(),
            errors: self.errors,
            late: self.late(),
            entries: self.entries(),
            mean_ns: self.service.mean(),
            stddev_ns: self.service.stddev(),
            p50_ns: Some(self.service.percentile(50.0)),
            p99_ns: Some(self.service.percentile(99.0)),
            min_ns: self.service.min(),
            max_ns: self.service.max(),
        }
    }

    /// The tally of a window with what the window left over: in its latencies, but not in its operations and bytes.
    fn with(mut self, drained: &Self, left: LeftOver) -> KindOutcome {
        let (operations, moved) = (self.operations, self.moved);
        self.add(drained);
        (self.operations, self.moved) = (operations, moved);
        KindOutcome {
            drained: drained.operations,
            drained_bytes: drained.bytes(),
            unfinished: left.unfinished,
            missed: left.missed,
            ..self.outcome()
        }
    }

    /// The tally with its histograms.
    pub(crate) fn outcome(&self) -> KindOutcome {
        KindOutcome {
            operations: self.operations,
            bytes: self.bytes(),
            errors: self.errors,
            short: self.short,
            drained: 0,
            drained_bytes: 0,
            unfinished: 0,
            missed: 0,
            entries: self.entries(),
            late: self.late(),
            service: latency_outcome(&self.service),
            response: self.response.as_ref().map(latency_outcome),
            submission: self.parts.as_ref().map(|parts| latency_outcome(&parts.submission)),
            completion: self.parts.as_ref().map(|parts| latency_outcome(&parts.completion)),
        }
    }
}

pub(crate) fn latency_outcome(latencies: &Latencies) -> LatencyOutcome {
    LatencyOutcome {
        count: latencies.count(),
        min_ns: latencies.min(),
        max_ns: latencies.max(),
        mean_ns: latencies.mean(),
        stddev_ns: latencies.stddev(),
        histogram: STANDARD.encode(latencies.encode()),
    }
}

/// Operations of one kind that the window left over and that did not complete.
#[derive(Debug, Clone, Copy, Default)]
struct LeftOver {
    unfinished: u64,
    missed: u64,
}

/// Records operations in the current interval; a closed interval is added to the window. After the last one has closed, the
/// interval has what the window left over.
#[derive(Debug)]
pub(crate) struct Recorder {
    names: Vec<&'static str>,
    interval: Vec<Tally>,
    window: Vec<Tally>,
    left_over: Vec<LeftOver>,
    intervals: Vec<IntervalOutcome>,
    /// Intervals that are kept singly; the largest number if none is joined.
    singly: u64,
    log: Option<Log>,
    /// Numbers of the kinds that are flushes, which are not logged.
    flushes: Range<usize>,
    /// Levels of the window; levels of the ramp are dropped as its intervals close.
    pub levels: Levels,
}

impl Recorder {
    /// Allocates all memory.
    pub(crate) fn new(worker: &Worker) -> Self {
        let in_parts = worker.submission_latency;
        let all_paced = worker.rate.is_some() || worker.replay.as_ref().is_some_and(|replay| replay.paced);
        let is_paced = |operation: &OperationPlan| operation.rate.is_some() || all_paced;
        let tally = |one: &OperationPlan| Tally::new(one.kind, is_paced(one), worker.response_limit_ns, in_parts);
        let mut tallies: Vec<Tally> = worker.operations.iter().map(tally).collect();
        let kinds = worker.recorded_kinds();
        let first_flush = worker.operations.len();
        let flushes = first_flush..first_flush + kinds.iter().filter(|kind| kind.is_flush()).count();
        tallies.extend(kinds[first_flush..].iter().map(|&kind| Tally::new(kind, false, None, in_parts)));
        let names: Vec<_> = kinds.into_iter().map(OperationKind::name).collect();
        Self {
            names,
            interval: tallies.clone(),
            left_over: vec![LeftOver::default(); tallies.len()],
            window: tallies,
            intervals: Vec::new(),
            singly: worker.intervals_singly.map_or(1 << 63, u64::from),
            log: None,
            flushes,
            levels: Levels::default(),
        }
    }

    /// Adds a log, if the plan has one.
    pub(crate) fn with_log(self, plan: Option<LogPlan>) -> Result<Self, EngineError> {
        let paced = self.interval.iter().any(|tally| tally.response.is_some());
        let in_parts = self.interval.iter().any(|tally| tally.parts.is_some());
        let log = plan.map(|plan| Log::new(plan, self.names.len(), paced, in_parts)).transpose()?;
        Ok(Self { log, ..self })
    }

    /// Sets the start of the measured window, for the log.
    pub(crate) fn begin(&mut self, group_start: Nanos, window_start: Nanos) {
        if let Some(log) = &mut self.log {
            log.begin(group_start, window_start);
        }
    }

    /// Ends the measured window, for the log.
    pub(crate) fn end_window(&mut self) {
        if let Some(log) = &mut self.log {
            log.end_window();
        }
    }

    /// Records an operation that succeeded.
    #[expect(clippy::inline_always, reason = "a call that is not inlined costs as much as the counting")]
    #[inline(always)]
    pub(crate) fn record(&mut self, done: Done) {
        let tally = &mut self.interval[done.operation];
        tally.operations += 1;
        tally.moved += u64::from(done.bytes);
        tally.short += u64::from(done.bytes < done.asked);
        tally.service.record(done.at.saturating_sub(done.submitted));
        if let Some(response) = &mut tally.response {
            response.record(done.at.saturating_sub(done.due));
        }
        if let Some(log) = &mut self.log
            && !self.flushes.contains(&done.operation)
        {
            log.record(&done);
        }
    }

    /// Records operations that succeeded and took equally long, `bytes` in all. There is no log, and no schedule.
    #[inline]
    pub(crate) fn record_alike(&mut self, operation: usize, service: Nanos, count: u64, bytes: u64) {
        let tally = &mut self.interval[operation];
        tally.operations += count;
        tally.moved += bytes;
        tally.service.record_several(service, count);
    }

    /// Records an operation, and both parts of its latency.
    #[inline(never)]
    pub(crate) fn record_in_parts(&mut self, done: Done) {
        if let Some(parts) = &mut self.interval[done.operation].parts {
            parts.submission.record(done.sent.saturating_sub(done.submitted));
            parts.completion.record(done.at.saturating_sub(done.sent));
        }
        self.record(done);
    }

    /// Records an operation that did not complete, with the age that it has at `done.at`.
    pub(crate) fn record_unfinished(&mut self, done: Done) {
        let tally = &mut self.interval[done.operation];
        tally.service.record(done.at.saturating_sub(done.submitted));
        if let Some(response) = &mut tally.response {
            response.record(done.at.saturating_sub(done.due));
        }
        if let Some(parts) = &mut tally.parts {
            parts.submission.record(done.sent.saturating_sub(done.submitted));
            parts.completion.record(done.at.saturating_sub(done.sent));
        }
        self.left_over[done.operation].unfinished += 1;
    }

    /// Records `count` operations that were due `age` ago and never submitted.
    pub(crate) fn record_missed(&mut self, operation: usize, age: Nanos, count: u64) {
        if let Some(response) = &mut self.interval[operation].response {
            response.record_several(age, count);
        }
        self.left_over[operation].missed += count;
    }

    pub(crate) fn record_error(&mut self, operation: usize) {
        self.interval[operation].errors += 1;
    }

    /// Closes the current interval, calls `publish` with its tallies, and adds them to the window unless the interval
    /// is part of the ramp.
    pub(crate) fn close(&mut self, interval: IntervalOutcome, publish: impl FnOnce(&IntervalOutcome, &[Tally])) {
        let mut record = interval;
        for (name, tally) in self.names.iter().zip(&self.interval) {
            if !tally.is_empty() {
                record.operations.join(Cow::Borrowed(name), tally.interval());
            }
        }
        publish(&record, &self.interval);
        if record.ramp {
            self.levels.clear();
        }
        for (total, tally) in self.window.iter_mut().zip(&mut self.interval) {
            if !record.ramp {
                total.add(tally);
            }
            tally.clear();
        }
        self.keep(record);
    }

    fn keep(&mut self, interval: IntervalOutcome) {
        let first = interval.index - interval.index % joined(interval.index, self.singly);
        let joined = (interval.index - first + 1) as u32;
        match self.intervals.last_mut() {
            Some(last) if (last.index, last.ramp) == (first, interval.ramp) && interval.index > first => {
                last.joined = joined;
                last.end_ns = interval.end_ns;
                for (name, kind) in interval.operations {
                    last.operations.join(name, kind);
                }
            }
            _ => self.intervals.push(IntervalOutcome { index: first, joined, ..interval }),
        }
    }

    /// Drops the window so far: its intervals become part of the ramp.
    pub(crate) fn forget(&mut self, now: Nanos) {
        self.window.iter_mut().for_each(Tally::clear);
        self.levels.clear();
        self.intervals.iter_mut().for_each(|interval| interval.ramp = true);
        if let Some(log) = &mut self.log {
            log.restart(now);
        }
    }

    pub(crate) fn finish(self) -> Recorded {
        let drained = self.interval.iter().zip(self.left_over);
        let kinds = self.window.into_iter().zip(drained).map(|(tally, (drained, left))| tally.with(drained, left));
        Recorded {
            operations: self.names.iter().map(|name| (*name).to_owned()).zip(kinds).collect(),
            intervals: self.intervals,
            log: self.log.map(|log| log.finish(&self.names)),
            levels: self.levels,
        }
    }
}

/// The records of a worker that has ended.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// The window, by kind.
    pub operations: BTreeMap<String, KindOutcome>,
    pub intervals: Vec<IntervalOutcome>,
    pub log: Option<LogOutcome>,
    pub levels: Levels,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A number of operations of one size and latency.
    pub(crate) fn tally_of(operations: u64, bytes: u64, latency: Nanos) -> Tally {
        let mut tally = Tally::new(OperationKind::Read, false, None, false);
        (tally.operations, tally.moved) = (operations, operations * bytes);
        (0..operations).for_each(|_| tally.service.record(latency));
        tally
    }
}
