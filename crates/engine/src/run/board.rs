//! The live view of a run, and its stop flag.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use iocurve_meter::{Clock, Nanos};

use crate::outcome::{GroupInterval, IntervalOutcome, IntervalRecord, Live, LiveTotals};
use crate::record::course::figures;
use crate::record::{Course, Tally};
use crate::stall::Stalls;

/// Time between the last worker's preparation and the common start: every thread must be waiting by then.
const LEAD: Nanos = 2_000_000;
/// Time between two polls of the stop flag while a group waits for its release.
const STOP_CHECK: Duration = Duration::from_millis(20);

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
    /// The running group begins with a ramp.
    ramps: bool,
    /// Intervals that some running workers have not closed, by index; the part in the ramp comes before the rest.
    open: BTreeMap<(u64, bool), OpenInterval>,
    /// Closed intervals.
    course: Course,
    /// The flags that end the workers of the running group cleanly.
    finish: Vec<Arc<AtomicBool>>,
    /// The run ends cleanly: see [`Board::finish`].
    finishes: bool,
    /// Set in a held run, whose groups wait for their release.
    held: Option<Held>,
    over: bool,
}

/// Further parts of a held run: see `Run::start_held`.
#[derive(Debug, Default)]
struct Held {
    /// Start of the group that waits.
    released: Option<Nanos>,
    /// The run stops by itself at this instant; `None` sets no limit.
    lease_ends: Option<Instant>,
    /// Intervals that all running workers have closed, and that were not taken yet.
    closed: Vec<ClosedInterval>,
}

/// An interval, merged over workers.
#[derive(Debug)]
struct ClosedInterval {
    group: u32,
    interval: IntervalOutcome,
    kinds: BTreeMap<&'static str, Tally>,
    jobs: BTreeMap<String, LiveTotals>,
}

#[derive(Debug)]
struct OpenInterval {
    /// Running workers that have closed the interval.
    closed_by: usize,
    start_ns: Nanos,
    end_ns: Nanos,
    kinds: BTreeMap<&'static str, Tally>,
    jobs: BTreeMap<String, LiveTotals>,
}

impl LiveTotals {
    fn add(&mut self, more: Self) {
        self.operations += more.operations;
        self.bytes += more.bytes;
        self.errors += more.errors;
    }
}

impl From<&Tally> for LiveTotals {
    fn from(tally: &Tally) -> Self {
        Self { operations: tally.operations, bytes: tally.bytes(), errors: tally.errors }
    }
}

/// Adds the operations of a worker, or of a part of an interval, by kind.
fn add<'a>(kinds: &mut BTreeMap<&'static str, Tally>, more: impl IntoIterator<Item = (&'static str, &'a Tally)>) {
    for (name, tally) in more {
        kinds.entry(name).and_modify(|sum| sum.add(tally)).or_insert_with(|| tally.clone());
    }
}

/// Ends the workers of these flags cleanly.
fn set(flags: &[Arc<AtomicBool>]) {
    for flag in flags {
        flag.store(true, Ordering::Relaxed);
    }
}

impl Board {
    /// `held`: groups wait for [`Self::release`], and closed intervals are kept for [`Self::take_records`].
    pub(crate) fn new(interval_ns: Nanos, held: bool) -> Self {
        let live = Live {
            phase: "layout".into(),
            group: 0,
            elapsed_ns: 0,
            layout_bytes: 0,
            layout_bytes_total: 0,
            intervals: 0,
            operations: BTreeMap::new(),
            jobs: BTreeMap::new(),
            totals: BTreeMap::new(),
            waiting: None,
            clients: Vec::new(),
        };
        let clock = Clock::new();
        let stalls = Stalls::new(clock.clone());
        stalls.phase("layout");
        Self {
            stop: Arc::new(AtomicBool::new(false)),
            clock,
            stalls,
            interval_ns,
            state: Mutex::new(BoardState {
                live,
                running: 0,
                ramps: false,
                open: BTreeMap::new(),
                course: Course::default(),
                finish: Vec::new(),
                finishes: false,
                held: held.then(Held::default),
                over: false,
            }),
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

    /// Starts a group of `workers` workers, of which some may have a ramp; the flags `finish` end it. The last of them to
    /// close an interval publishes it.
    pub(crate) fn start(&self, workers: usize, ramps: bool, finish: &[Arc<AtomicBool>]) {
        let mut state = self.lock();
        (state.running, state.ramps) = (workers, ramps);
        finish.clone_into(&mut state.finish);
        if state.finishes {
            set(finish);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BoardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Ends the load of the running group as its own end would: what is in flight is waited for. Further groups do not run.
    pub(crate) fn finish(&self) {
        let mut state = self.lock();
        state.finishes = true;
        set(&state.finish);
    }

    pub(crate) fn finishes(&self) -> bool {
        self.lock().finishes
    }

    pub(crate) fn layout_progress(&self, bytes: u64, bytes_total: u64) {
        let mut state = self.lock();
        (state.live.layout_bytes, state.live.layout_bytes_total) = (bytes, bytes_total);
        state.live.elapsed_ns = self.clock.now();
    }

    pub(crate) fn phase(&self, phase: &str, group: usize) {
        let mut state = self.lock();
        self.stalls.phase(phase);
        state.close_before(None);
        phase.clone_into(&mut state.live.phase);
        state.live.group = group as u32;
        state.live.elapsed_ns = 0;
        state.live.intervals = 0;
        state.live.operations.clear();
        state.live.jobs.clear();
    }

    /// Adds the interval that a worker of `job` has closed. The live view shows it once all running workers have closed it.
    pub(crate) fn publish(&self, job: &str, names: &[&'static str], interval: &IntervalOutcome, tallies: &[Tally]) {
        let mut state = self.lock();
        let running = state.running;
        for (name, tally) in names.iter().zip(tallies).filter(|(_, tally)| !tally.is_empty()) {
            state.live.totals.entry((*name).to_owned()).or_default().add(tally.into());
        }
        let key = (interval.index, !interval.ramp);
        let (start_ns, end_ns) = (interval.start_ns, interval.end_ns);
        let opened = || OpenInterval { closed_by: 0, start_ns, end_ns, kinds: BTreeMap::new(), jobs: BTreeMap::new() };
        let entry = state.open.entry(key).or_insert_with(opened);
        entry.closed_by += 1;
        (entry.start_ns, entry.end_ns) = (entry.start_ns.min(start_ns), entry.end_ns.max(end_ns));
        add(&mut entry.kinds, names.iter().copied().zip(tallies));
        let of_job = entry.jobs.entry(job.to_owned()).or_default();
        for tally in tallies {
            of_job.add(tally.into());
        }
        // Workers with and without a ramp have closed the same time.
        let twin = (interval.index, interval.ramp);
        let closed_by = entry.closed_by;
        let beside = state.open.get(&twin).filter(|other| other.start_ns == start_ns);
        if closed_by + beside.map_or(0, |other| other.closed_by) < running {
            return;
        }
        let mut keys = vec![key];
        keys.extend(beside.map(|_| twin));
        keys.sort_unstable();
        state.close_before(Some(keys[0]));
        let BoardState { live, open, course, held, .. } = &mut *state;
        let (mut both, mut operations) = (BTreeMap::new(), BTreeMap::new());
        live.jobs.clear();
        for (key, OpenInterval { start_ns, end_ns, kinds, jobs, .. }) in
            keys.iter().filter_map(|key| Some((key, open.remove(key)?)))
        {
            let ramp = !key.1;
            operations = figures(&kinds);
            course.add(live.group, (key.0, ramp), (start_ns, end_ns), &kinds, &operations);
            if keys.len() > 1 {
                add(&mut both, kinds.iter().map(|(name, tally)| (*name, tally)));
            }
            for (job, totals) in &jobs {
                live.jobs.entry(job.clone()).or_default().add(*totals);
            }
            if let Some(held) = held {
                let interval = IntervalOutcome { ramp, ..interval.clone() };
                held.closed.push(ClosedInterval { group: live.group, interval, kinds, jobs });
            }
        }
        if keys.len() > 1 {
            operations = figures(&both);
        }
        live.phase = if keys.iter().any(|key| !key.1) { "ramp".into() } else { "run".into() };
        live.elapsed_ns = interval.end_ns;
        live.intervals = interval.index + 1;
        live.operations = operations;
    }

    /// The course of all groups over time.
    pub(crate) fn take_course(&self) -> Vec<GroupInterval> {
        let mut state = self.lock();
        state.close_before(None);
        state.course.take()
    }

    /// The common start of a group whose workers are all prepared: at once, or once a held run has released the group.
    pub(crate) fn start_of(&self, group: usize) -> Nanos {
        let start = self.wait_for_start(group);
        let mut state = self.lock();
        state.live.phase = if state.ramps { "ramp".into() } else { "run".into() };
        start
    }

    fn wait_for_start(&self, group: usize) -> Nanos {
        if self.lock().held.is_none() {
            return self.clock.now() + LEAD;
        }
        self.phase("ready", group);
        let mut state = self.lock();
        loop {
            if let Some(start) = state.held.as_mut().and_then(|held| held.released.take()) {
                return start;
            }
            if self.stopped() {
                return self.clock.now();
            }
            state = self.changed.wait_timeout(state, STOP_CHECK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Releases the group that waits: it starts at `unix_ns` (ns since 1970 by the system's clock), or as soon as
    /// possible where that has passed. Returns the start, by the same clock.
    pub(crate) fn release(&self, unix_ns: u64) -> u64 {
        let unix_now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let delay = unix_ns.saturating_sub(unix_now).max(LEAD);
        if let Some(held) = &mut self.lock().held {
            held.released = Some(self.clock.now() + delay);
        }
        self.changed.notify_all();
        unix_now + delay
    }

    /// The closed intervals that were not taken yet.
    pub(crate) fn take_records(&self) -> Vec<IntervalRecord> {
        let closed = self.lock().held.as_mut().map(|held| std::mem::take(&mut held.closed)).unwrap_or_default();
        // Histograms are encoded here, so that no worker waits for it.
        let record = |closed: ClosedInterval| IntervalRecord {
            group: closed.group,
            index: closed.interval.index,
            ramp: closed.interval.ramp,
            start_ns: closed.interval.start_ns,
            end_ns: closed.interval.end_ns,
            operations: closed.kinds.iter().map(|(name, tally)| ((*name).to_owned(), tally.outcome())).collect(),
            jobs: closed.jobs,
        };
        closed.into_iter().map(record).collect()
    }

    /// The run stops by itself after `lease`, unless the lease is renewed before.
    pub(crate) fn renew_lease(&self, lease: Duration) {
        if let Some(held) = &mut self.lock().held {
            held.lease_ends = Some(Instant::now() + lease);
        }
        self.changed.notify_all();
    }

    /// Stops the run when its lease ends; returns when the run is over.
    pub(crate) fn watch_lease(&self) {
        let mut state = self.lock();
        while !state.over {
            let lease_ends = state.held.as_ref().and_then(|held| held.lease_ends);
            let left = lease_ends.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                self.stop.store(true, Ordering::Relaxed);
                return;
            }
            let left = left.unwrap_or(Duration::MAX);
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(crate) fn worker_started(&self) {
        self.lock().running += 1;
    }

    /// Removes a worker that has ended after closing `closed` intervals; the other workers still have to close those.
    pub(crate) fn worker_ended(&self, closed: u64) {
        let mut state = self.lock();
        state.running -= 1;
        // Of two parts that began together, one with and one without a ramp, a worker has closed one.
        let mut taken = None;
        for (&(index, _), open) in state.open.range_mut(..(closed, false)) {
            let part = Some((index, open.start_ns));
            if open.closed_by > 0 && taken != part {
                open.closed_by -= 1;
                taken = part;
            }
        }
    }

    pub(crate) fn over(&self) {
        let mut state = self.lock();
        state.over = true;
        state.live.phase = "done".into();
        self.changed.notify_all();
    }
}

impl BoardState {
    /// Adds open intervals to the course: those before `end`, or all, of workers that have ended.
    fn close_before(&mut self, end: Option<(u64, bool)>) {
        while let Some(entry) = self.open.first_entry() {
            let (index, measured) = *entry.key();
            if end.is_some_and(|end| (index, measured) >= end) {
                break;
            }
            let OpenInterval { start_ns, end_ns, kinds, .. } = entry.remove();
            self.course.add(self.live.group, (index, !measured), (start_ns, end_ns), &kinds, &figures(&kinds));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::IntervalKinds;
    use crate::record::recorder::tests::tally_of;

    #[test]
    fn the_load_is_in_its_phase_before_an_interval_is_closed() {
        let board = Board::new(1_000, false);
        for (ramps, phase) in [(false, "run"), (true, "ramp")] {
            board.phase("prepare", 0);
            board.start(1, ramps, &[]);
            board.start_of(0);
            assert_eq!((board.live().phase.as_str(), board.live().intervals), (phase, 0));
        }
    }

    fn close(board: &Board, index: u64, ramp: bool, operations: u64) {
        close_of("job", board, index, ramp, operations);
    }

    fn close_of(job: &str, board: &Board, index: u64, ramp: bool, operations: u64) {
        let (start_ns, end_ns) = (index * 1_000, (index + 1) * 1_000);
        let interval =
            IntervalOutcome { index, start_ns, end_ns, joined: 1, ramp, operations: IntervalKinds::default() };
        board.publish(job, &["read"], &interval, &[tally_of(operations, 512, 10)]);
    }

    #[test]
    fn workers_with_and_without_a_ramp_close_an_interval_together() {
        let board = Board::new(1_000, true);
        board.phase("prepare", 0);
        board.start(4, true, &[]);
        for (ramp, operations) in [(true, 1), (false, 2), (true, 4)] {
            close(&board, 0, ramp, operations);
        }
        assert_eq!(board.live().intervals, 0);
        board.worker_ended(1);
        assert_eq!(board.live().intervals, 0);
        close(&board, 0, false, 8);
        let live = board.live();
        assert_eq!((live.phase.as_str(), live.intervals, live.operations["read"].operations), ("ramp", 1, 15));
        let records: Vec<_> =
            board.take_records().iter().map(|one| (one.ramp, one.operations["read"].operations)).collect();
        assert_eq!(records, [(true, 5), (false, 10)]);
    }

    #[test]
    fn an_interval_is_shown_when_all_have_closed_it_also_those_that_have_left_since() {
        let board = Board::new(1_000, false);
        board.phase("prepare", 0);
        board.start(3, false, &[]);
        let close = |index, operations| close(&board, index, false, operations);
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
        // The last interval is open: a worker that runs has not closed it.
        board.start(2, false, &[]);
        close(2, 16);
        assert_eq!(board.live().totals["read"].operations, 1 + 2 + 4 + 8 + 16);
        let course: Vec<_> =
            board.take_course().iter().map(|one| (one.index, one.operations["read"].operations)).collect();
        assert_eq!(course, [(0, 7), (1, 8), (2, 16)]);
    }

    #[test]
    fn each_of_several_jobs_has_its_operations_of_the_newest_interval() {
        let board = Board::new(1_000, true);
        board.phase("prepare", 0);
        board.start(3, true, &[]);
        close_of("db", &board, 0, false, 1);
        close_of("db", &board, 0, true, 2);
        close_of("log", &board, 0, false, 4);
        let of = |jobs: &BTreeMap<String, LiveTotals>| {
            jobs.iter().map(|(name, totals)| (name.clone(), totals.operations, totals.bytes)).collect::<Vec<_>>()
        };
        let (db, log) = (("db".to_owned(), 3, 1_536), ("log".to_owned(), 4, 2_048));
        assert_eq!(of(&board.live().jobs), [db, log.clone()]);
        let records: Vec<_> = board.take_records().iter().map(|one| of(&one.jobs)).collect();
        assert_eq!(records, [vec![("db".to_owned(), 2, 1_024)], vec![("db".to_owned(), 1, 512), log]]);
        board.start(1, false, &[]);
        close_of("db", &board, 1, false, 8);
        assert_eq!(of(&board.live().jobs), [("db".to_owned(), 8, 4_096)]);
    }
}
