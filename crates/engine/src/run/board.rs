//! The live view of a run, and its stop flag.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use iocurve_meter::{Clock, Nanos};

use crate::outcome::{IntervalKind, IntervalOutcome, Live};
use crate::record::Tally;
use crate::stall::Stalls;

/// Shared by the threads of the run and its observers.
#[derive(Debug)]
pub(crate) struct Board {
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) clock: Clock,
    pub(crate) interval_ns: Nanos,
    pub(crate) stalls: Arc<Stalls>,
    state: Mutex<BoardState>,
    changed: Condvar,
}

#[derive(Debug)]
struct BoardState {
    live: Live,
    /// Workers of the running group that have not ended.
    running: usize,
    /// Intervals that some running workers have not closed.
    open: BTreeMap<u64, OpenInterval>,
    over: bool,
}

#[derive(Debug)]
struct OpenInterval {
    /// Running workers that have closed the interval.
    closed_by: usize,
    ramp: bool,
    kinds: BTreeMap<&'static str, Tally>,
}

impl Board {
    pub(crate) fn new(interval_ns: Nanos) -> Self {
        let live = Live {
            phase: "layout".into(),
            group: 0,
            elapsed_ns: 0,
            layout_bytes: 0,
            layout_bytes_total: 0,
            intervals: 0,
            operations: BTreeMap::new(),
            waiting: None,
        };
        let clock = Clock::new();
        let stalls = Stalls::new(clock.clone());
        stalls.phase("layout");
        Self {
            stop: Arc::new(AtomicBool::new(false)),
            clock,
            stalls,
            interval_ns,
            state: Mutex::new(BoardState { live, running: 0, open: BTreeMap::new(), over: false }),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn live(&self) -> Live {
        Live { waiting: self.stalls.waiting(), ..self.lock().live.clone() }
    }

    /// Waits for the end of the run, at most `timeout`; returns `true` if the run is over.
    pub(crate) fn wait_until_over(&self, timeout: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), timeout, |state| !state.over);
        waited.unwrap_or_else(PoisonError::into_inner).0.over
    }

    /// Starts a group of `workers` workers. The last of them to close an interval publishes it.
    pub(crate) fn start(&self, workers: usize) {
        self.lock().running = workers;
    }

    fn lock(&self) -> MutexGuard<'_, BoardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn layout_progress(&self, bytes: u64, bytes_total: u64) {
        let mut state = self.lock();
        (state.live.layout_bytes, state.live.layout_bytes_total) = (bytes, bytes_total);
        state.live.elapsed_ns = self.clock.now();
    }

    pub(crate) fn phase(&self, phase: &str, group: usize) {
        let mut state = self.lock();
        self.stalls.phase(phase);
        phase.clone_into(&mut state.live.phase);
        state.live.group = group as u32;
        state.live.elapsed_ns = 0;
        state.live.intervals = 0;
        state.live.operations.clear();
        state.open.clear();
    }

    /// Adds the interval that a worker has closed. The live view shows it once all running workers have closed it.
    pub(crate) fn publish(&self, names: &[&'static str], interval: &IntervalOutcome, tallies: &[Tally]) {
        let mut state = self.lock();
        let running = state.running;
        let entry = state.open.entry(interval.index).or_insert_with(|| OpenInterval {
            closed_by: 0,
            ramp: interval.ramp,
            kinds: BTreeMap::new(),
        });
        entry.closed_by += 1;
        entry.ramp = interval.ramp;
        for (name, tally) in names.iter().zip(tallies) {
            entry.kinds.entry(name).and_modify(|sum| sum.add(tally)).or_insert_with(|| tally.clone());
        }
        if entry.closed_by < running {
            return;
        }
        let operations: BTreeMap<String, IntervalKind> =
            entry.kinds.iter().map(|(name, tally)| ((*name).to_owned(), tally.interval())).collect();
        state.live.phase = if interval.ramp { "ramp".into() } else { "run".into() };
        state.live.elapsed_ns = interval.end_ns;
        state.live.intervals = interval.index + 1;
        state.live.operations = operations;
        state.open = state.open.split_off(&(interval.index + 1));
    }

    pub(crate) fn worker_started(&self) {
        self.lock().running += 1;
    }

    /// Removes a worker that has ended after closing `closed` intervals; the other workers still have to close those.
    pub(crate) fn worker_ended(&self, closed: u64) {
        let mut state = self.lock();
        state.running -= 1;
        state.open.range_mut(..closed).for_each(|(_, open)| open.closed_by -= 1);
    }

    pub(crate) fn over(&self) {
        let mut state = self.lock();
        state.over = true;
        state.live.phase = "done".into();
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::recorder::tests::tally_of;

    #[test]
    fn an_interval_is_shown_when_all_have_closed_it_also_those_that_have_left_since() {
        let board = Board::new(1_000);
        board.phase("prepare", 0);
        board.start(3);
        let close = |index, operations| {
            let (start_ns, end_ns) = (index * 1_000, (index + 1) * 1_000);
            let interval = IntervalOutcome { index, start_ns, end_ns, ramp: false, operations: BTreeMap::new() };
            board.publish(&["read"], &interval, &[tally_of(operations, 512, 10)]);
        };
        let shown = || (board.live().intervals, board.live().operations.get("read").map(|read| read.operations));
        close(0, 1);
        board.worker_ended(1);
        close(0, 2);
        assert_eq!(shown(), (0, None));
        close(0, 4);
        assert_eq!(shown(), (1, Some(7)));
        board.worker_ended(1);
        close(1, 8);
        assert_eq!(shown(), (2, Some(8)));
    }
}
