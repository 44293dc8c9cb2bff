//! Notices when this process does not run: it was stopped, or had no processor. What the workers then wait for is not
//! the target's time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use iocurve_meter::{Clock, Nanos};

use crate::outcome::Absence;

/// Time between two checks of the clock.
const STEP: Duration = Duration::from_millis(50);
/// A check that comes this much after the one before it follows an absence. A busy machine delays a thread that sleeps by
/// milliseconds.
const ABSENCE_MIN: Nanos = 300_000_000;

/// A thread that does nothing but check the clock.
#[derive(Debug)]
pub(super) struct Watch {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Absence>>>,
}

impl Watch {
    /// Starts the thread. Where that fails no absence is noticed.
    pub(super) fn start(clock: Clock) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let thread = std::thread::Builder::new().name("iocurve-watch".into());
        Self { over, thread: thread.spawn(move || watch(&clock, &is_over)).ok() }
    }

    /// Ends the thread; returns the absences since `start`, in times since then. `None`: the load never started.
    pub(super) fn end(mut self, start: Option<Nanos>) -> Vec<Absence> {
        self.over.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Vec::new() };
        thread.thread().unpark();
        let found = thread.join().unwrap_or_default();
        start.map_or_else(Vec::new, |start| found.into_iter().filter_map(|absence| since(absence, start)).collect())
    }
}

fn watch(clock: &Clock, over: &AtomicBool) -> Vec<Absence> {
    let (mut found, mut last) = (Vec::new(), clock.now());
    while !over.load(Ordering::Relaxed) {
        std::thread::park_timeout(STEP);
        let now = clock.now();
        found.extend(absence(last, now));
        last = now;
    }
    found
}

/// The absence between two checks, if there was one.
fn absence(last: Nanos, now: Nanos) -> Option<Absence> {
    let duration_ns = now.saturating_sub(last);
    (duration_ns >= ABSENCE_MIN).then_some(Absence { start_ns: last, duration_ns })
}

/// The part of an absence after `start`, in times since then.
fn since(absence: Absence, start: Nanos) -> Option<Absence> {
    let end = absence.start_ns + absence.duration_ns;
    let begun = absence.start_ns.max(start);
    (end > begun).then(|| Absence { start_ns: begun - start, duration_ns: end - begun })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn a_check_that_comes_late_follows_an_absence() {
        assert_eq!(absence(10 * MS, 60 * MS), None);
        assert_eq!(absence(10 * MS, 10 * MS + ABSENCE_MIN - 1), None);
        let found = Absence { start_ns: 10 * MS, duration_ns: 3_000 * MS };
        assert_eq!(absence(10 * MS, 3_010 * MS), Some(found));
        assert_eq!(absence(20 * MS, 10 * MS), None);
    }

    #[test]
    fn only_the_time_after_the_start_counts() {
        let found = Absence { start_ns: 100, duration_ns: 50 };
        assert_eq!(since(found, 40), Some(Absence { start_ns: 60, duration_ns: 50 }));
        assert_eq!(since(found, 120), Some(Absence { start_ns: 0, duration_ns: 30 }));
        assert_eq!(since(found, 150), None);
    }

    #[test]
    fn a_process_that_runs_was_not_absent() {
        let clock = Clock::new();
        let after = clock.now() + 3_600_000 * MS;
        let watch = Watch::start(clock.clone());
        std::thread::sleep(STEP);
        assert_eq!(watch.end(Some(after)), []);
        assert_eq!(Watch::start(clock).end(None), []);
    }
}
