//! A worker's log of operations: each operation, or sums over windows. Its memory is allocated before the start.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use iocurve_meter::{Latencies, Nanos};

use super::done::Done;
use crate::error::EngineError;
use crate::outcome::LogOutcome;
use crate::plan::LogPlan;

/// Most records of a log; more would take over 6 GiB.
pub(crate) const RECORDS_MAX: u64 = 1 << 27;

/// The log of a worker. The ramp is not logged.
#[derive(Debug)]
pub(crate) struct Log {
    records_max: usize,
    lost: u64,
    group_start: Nanos,
    window_start: Nanos,
    /// Submission latency is measured.
    in_parts: bool,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Operations { records: Vec<OperationRecord>, paced: bool, with_files: bool },
    Windows { length_ns: Nanos, records: Vec<Window>, open: Vec<Sums>, number: u64, histograms: Vec<String> },
}

#[derive(Debug, Clone, Copy)]
struct OperationRecord {
    at: Nanos,
    offset: u64,
    service: Nanos,
    submission: Nanos,
    response: Nanos,
    bytes: u32,
    file: u32,
    kind: u8,
}

/// One kind of operation in one window.
#[derive(Debug, Clone, Copy)]
struct Window {
    start: Nanos,
    kind: u8,
    operations: u64,
    bytes: u64,
    mean: f64,
    max: Nanos,
    submission_mean: f64,
    submission_max: Nanos,
    completion_max: Nanos,
}

/// Sums of one kind in the open window.
#[derive(Debug, Clone, Default)]
struct Sums {
    operations: u64,
    bytes: u64,
    total: u128,
    max: Nanos,
    submission_total: u128,
    submission_max: Nanos,
    completion_max: Nanos,
    /// Completion latencies: from sending to completion.
    histogram: Option<Latencies>,
}

impl Log {
    /// Allocates a log for `kinds` kinds of operation. `paced`: the operations have response latencies; `in_parts`:
    /// submission latency is measured.
    pub(crate) fn new(plan: LogPlan, kinds: usize, paced: bool, in_parts: bool) -> Result<Self, EngineError> {
        let records_max = plan.records as usize;
        let body = match plan.window_ns {
            None => Body::Operations { records: reserve(records_max)?, paced, with_files: plan.files },
            Some(length_ns) => {
                let histogram = plan.histograms.then(Latencies::new);
                let empty = Sums { histogram, ..Sums::default() };
                Body::Windows {
                    length_ns,
                    records: reserve(records_max)?,
                    open: vec![empty; kinds],
                    number: 0,
                    histograms: Vec::new(),
                }
            }
        };
        Ok(Self { records_max, lost: 0, group_start: 0, window_start: Nanos::MAX, in_parts, body })
    }

    /// Sets the start of the measured window; nothing before it is logged.
    pub(crate) fn begin(&mut self, group_start: Nanos, window_start: Nanos) {
        (self.group_start, self.window_start) = (group_start, window_start);
    }

    /// Ends the measured window. Operations in flight are logged when they complete, in addition to the maximum: there are at
    /// most the depth.
    pub(crate) fn end_window(&mut self) {
        self.records_max = usize::MAX;
    }

    /// Restarts the measured window: earlier records are dropped.
    pub(crate) fn restart(&mut self, now: Nanos) {
        (self.window_start, self.lost) = (now, 0);
        match &mut self.body {
            Body::Operations { records, .. } => records.clear(),
            Body::Windows { records, open, number, histograms, .. } => {
                records.clear();
                histograms.clear();
                open.iter_mut().for_each(Sums::clear);
                *number = 0;
            }
        }
    }

    #[inline(never)]
    pub(crate) fn record(&mut self, done: &Done) {
        if done.at < self.window_start {
            return;
        }
        let service = done.at.saturating_sub(done.submitted);
        let submission = done.sent.saturating_sub(done.submitted);
        if let Body::Operations { records, .. } = &mut self.body {
            if records.len() == self.records_max {
                self.lost += 1;
                return;
            }
            records.push(OperationRecord {
                at: done.at,
                offset: done.offset,
                service,
                submission,
                response: done.at.saturating_sub(done.due),
                bytes: done.bytes,
                file: done.file,
                kind: done.operation as u8,
            });
            return;
        }
        self.add_to_window(done, service, submission);
    }

    #[inline]
    fn add_to_window(&mut self, done: &Done, service: Nanos, submission: Nanos) {
        let Body::Windows { length_ns, number, .. } = &self.body else { return };
        let belongs_to = (done.at - self.window_start) / length_ns;
        if belongs_to != *number {
            self.close_window(belongs_to);
        }
        let Body::Windows { open, .. } = &mut self.body else { return };
        let sums = &mut open[done.operation];
        sums.operations += 1;
        sums.bytes += u64::from(done.bytes);
        sums.total += u128::from(service);
        sums.max = sums.max.max(service);
        let completion = service - submission;
        sums.submission_total += u128::from(submission);
        sums.submission_max = sums.submission_max.max(submission);
        sums.completion_max = sums.completion_max.max(completion);
        if let Some(histogram) = &mut sums.histogram {
            histogram.record(completion);
        }
    }

    /// Logs the open window, and opens another.
    #[cold]
    fn close_window(&mut self, next: u64) {
        let Body::Windows { length_ns, records, open, number, histograms } = &mut self.body else { return };
        let start = self.window_start + *number * *length_ns;
        for (kind, sums) in open.iter_mut().enumerate().filter(|(_, sums)| sums.operations > 0) {
            if records.len() == self.records_max {
                self.lost += 1;
            } else {
                let (operations, bytes, max) = (sums.operations, sums.bytes, sums.max);
                records.push(Window {
                    start,
                    kind: kind as u8,
                    operations,
                    bytes,
                    mean: sums.total as f64 / operations as f64,
                    max,
                    submission_mean: sums.submission_total as f64 / operations as f64,
                    submission_max: sums.submission_max,
                    completion_max: sums.completion_max,
                });
                histograms.extend(sums.histogram.as_ref().map(|histogram| STANDARD.encode(histogram.encode())));
            }
            sums.clear();
        }
        *number = next;
    }

    /// Returns the log. `kinds` are the names of the operations, by their numbers.
    pub(crate) fn finish(mut self, kinds: &[&'static str]) -> LogOutcome {
        self.close_window(0);
        let since_start = |at: Nanos| at - self.group_start;
        let mut log = LogOutcome {
            kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
            lost: self.lost,
            ..LogOutcome::default()
        };
        match self.body {
            Body::Operations { records, paced, with_files } => {
                log.records = records.len() as u64;
                log.at_ns = column(&records, |record| since_start(record.at).to_le_bytes());
                log.kind = column(&records, |record| [record.kind]);
                log.bytes = column(&records, |record| u64::from(record.bytes).to_le_bytes());
                log.service_ns = column(&records, |record| (record.service as f64).to_le_bytes());
                log.offset = column(&records, |record| record.offset.to_le_bytes());
                if self.in_parts {
                    log.submission_ns = column(&records, |record| (record.submission as f64).to_le_bytes());
                }
                if with_files {
                    log.file = column(&records, |record| record.file.to_le_bytes());
                }
                if paced {
                    log.response_ns = column(&records, |record| record.response.to_le_bytes());
                }
            }
            Body::Windows { length_ns, records, histograms, .. } => {
                log.window_ns = Some(length_ns);
                log.records = records.len() as u64;
                log.at_ns = column(&records, |record| since_start(record.start).to_le_bytes());
                log.kind = column(&records, |record| [record.kind]);
                log.bytes = column(&records, |record| record.bytes.to_le_bytes());
                log.service_ns = column(&records, |record| record.mean.to_le_bytes());
                log.operations = column(&records, |record| record.operations.to_le_bytes());
                log.service_ns_max = column(&records, |record| record.max.to_le_bytes());
                if self.in_parts {
                    log.submission_ns = column(&records, |record| record.submission_mean.to_le_bytes());
                    log.submission_ns_max = column(&records, |record| record.submission_max.to_le_bytes());
                    log.completion_ns_max = column(&records, |record| record.completion_max.to_le_bytes());
                }
                log.histograms = histograms;
            }
        }
        log
    }
}

impl Sums {
    fn clear(&mut self) {
        let mut histogram = self.histogram.take();
        if let Some(histogram) = &mut histogram {
            histogram.clear();
        }
        *self = Self { histogram, ..Self::default() };
    }
}

fn reserve<T>(records: usize) -> Result<Vec<T>, EngineError> {
    let mut memory = Vec::new();
    memory.try_reserve_exact(records).map_err(|_| {
        EngineError::Plan(format!(
            "a log of {records} records does not fit into memory; use fewer records or longer windows"
        ))
    })?;
    Ok(memory)
}

/// One figure of all records, little-endian, in base64.
fn column<T, const BYTES: usize>(records: &[T], figure: impl Fn(&T) -> [u8; BYTES]) -> String {
    STANDARD.encode(records.iter().flat_map(figure).collect::<Vec<u8>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [&str; 2] = ["read", "write"];

    fn done(operation: usize, submitted: Nanos, at: Nanos, bytes: u32) -> Done {
        let (sent, due, asked, offset, file) = (submitted, submitted - 1, bytes, at * 10, at as u32 % 7);
        Done { operation, submitted, sent, due, at, asked, bytes, offset, file }
    }

    /// Keeps two reads and a write in a window that starts at 1000, after one read in the ramp.
    fn kept(plan: LogPlan, paced: bool) -> LogOutcome {
        let mut log = Log::new(plan, 2, paced, false).unwrap();
        log.begin(400, 1000);
        for done in [done(0, 900, 999, 7), done(0, 950, 1000, 512), done(1, 1000, 1040, 4096), done(0, 1001, 1250, 100)]
        {
            log.record(&done);
        }
        log.finish(&KINDS)
    }

    fn numbers(column: &str) -> Vec<u64> {
        let bytes = STANDARD.decode(column).unwrap();
        bytes.chunks(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap())).collect()
    }

    fn means(column: &str) -> Vec<f64> {
        numbers(column).into_iter().map(f64::from_bits).collect()
    }

    #[test]
    fn every_operation_after_the_ramp_is_kept() {
        let log = kept(LogPlan { window_ns: None, histograms: false, records: 3, files: true }, true);
        assert_eq!((log.records, log.lost, log.window_ns), (3, 0, None));
        assert_eq!(log.kinds, KINDS);
        assert_eq!(numbers(&log.at_ns), [600, 640, 850]);
        assert_eq!(STANDARD.decode(&log.kind).unwrap(), [0, 1, 0]);
        assert_eq!(numbers(&log.bytes), [512, 4096, 100]);
        assert_eq!(numbers(&log.offset), [10_000, 10_400, 12_500]);
        assert_eq!(STANDARD.decode(&log.file).unwrap(), [6, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0]);
        assert_eq!(means(&log.service_ns), [50.0, 40.0, 249.0]);
        assert_eq!(numbers(&log.response_ns), [51, 41, 250]);
        assert_eq!((log.operations, log.service_ns_max, log.histograms), (String::new(), String::new(), Vec::new()));
    }

    #[test]
    fn records_beyond_the_maximum_are_counted() {
        let log = kept(LogPlan { window_ns: None, histograms: false, records: 1, files: false }, false);
        assert_eq!((log.records, log.lost), (1, 2));
        assert_eq!((numbers(&log.at_ns), log.response_ns), (vec![600], String::new()));
        let log = kept(LogPlan { window_ns: Some(200), histograms: false, records: 2, files: false }, false);
        assert_eq!((log.records, log.lost), (2, 1));
    }

    #[test]
    fn windows_add_up_each_kind_and_skip_empty_kinds() {
        let plan = LogPlan { window_ns: Some(100), histograms: true, records: 9, files: false };
        let mut log = Log::new(plan, 2, false, false).unwrap();
        log.begin(400, 1000);
        for done in [done(0, 990, 1000, 1), done(0, 1000, 1099, 2), done(1, 1000, 1050, 4), done(0, 1000, 1300, 8)] {
            log.record(&done);
        }
        let log = log.finish(&KINDS);
        assert_eq!((log.records, log.lost, log.window_ns), (3, 0, Some(100)));
        assert_eq!(numbers(&log.at_ns), [600, 600, 900]);
        assert_eq!(STANDARD.decode(&log.kind).unwrap(), [0, 1, 0]);
        assert_eq!(numbers(&log.operations), [2, 1, 1]);
        assert_eq!(numbers(&log.bytes), [3, 4, 8]);
        assert_eq!(means(&log.service_ns), [54.5, 50.0, 300.0]);
        assert_eq!(numbers(&log.service_ns_max), [99, 50, 300]);
        let buckets =
            |number: usize| Latencies::decode(&STANDARD.decode(&log.histograms[number]).unwrap()).unwrap().buckets();
        assert_eq!((0..3).map(buckets).collect::<Vec<_>>(), [vec![(10, 1), (99, 1)], vec![(50, 1)], vec![(300, 1)]]);
    }

    #[test]
    fn the_submission_latency_is_kept_if_it_is_measured() {
        let first = Done { sent: 1010, ..done(0, 1000, 1050, 1) };
        let second = Done { sent: 1030, ..done(0, 1000, 1090, 1) };
        let kept = |window_ns, histograms| {
            let mut log =
                Log::new(LogPlan { window_ns, histograms, records: 9, files: false }, 1, false, true).unwrap();
            log.begin(400, 1000);
            log.record(&first);
            log.record(&second);
            log.finish(&["read"])
        };
        let each = kept(None, false);
        assert_eq!((means(&each.submission_ns), each.submission_ns_max), (vec![10.0, 30.0], String::new()));
        let window = kept(Some(100), true);
        assert_eq!((means(&window.submission_ns), means(&window.service_ns)), (vec![20.0], vec![70.0]));
        assert_eq!((numbers(&window.submission_ns_max), numbers(&window.completion_ns_max)), (vec![30], vec![60]));
        let histogram = Latencies::decode(&STANDARD.decode(&window.histograms[0]).unwrap()).unwrap();
        assert_eq!(histogram.buckets(), [(40, 1), (60, 1)]);
    }

    #[test]
    fn a_restarted_window_drops_earlier_records() {
        for (window_ns, expected) in [(None, vec![700]), (Some(100), vec![650])] {
            let mut log =
                Log::new(LogPlan { window_ns, histograms: false, records: 1, files: false }, 1, false, false).unwrap();
            log.begin(400, 1000);
            for at in [1010, 1020, 1049] {
                log.record(&done(0, 1000, at, 1));
            }
            log.restart(1050);
            log.record(&done(0, 1000, 1100, 1));
            let log = log.finish(&["read"]);
            assert_eq!((log.lost, numbers(&log.at_ns)), (0, expected));
        }
    }

    #[test]
    fn more_than_fits_into_memory_is_an_error() {
        let plan = LogPlan { window_ns: None, histograms: false, records: u64::MAX >> 8, files: false };
        assert!(Log::new(plan, 1, false, false).unwrap_err().to_string().contains("does not fit into memory"));
    }
}
