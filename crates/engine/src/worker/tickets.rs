//! Due times that are taken one by one, by one worker or by all workers of a rate group.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use iocurve_meter::{Nanos, Rng};

use super::schedule::Schedule;
use crate::plan::{Group, Rate};

/// Takes due times from a schedule that other workers may take from, too. A worker that has none takes the next one
/// and waits for it: so a rate is kept as long as any worker of the group can issue.
#[derive(Debug, Clone)]
pub(crate) struct Tickets {
    schedule: Arc<Mutex<SharedSchedule>>,
    /// Taken, and not yet issued.
    taken: Option<Nanos>,
}

#[derive(Debug)]
struct SharedSchedule {
    schedule: Schedule,
    is_started: bool,
}

/// By worker of a group: the due times of its rate group, if it has one.
pub(crate) fn of_group(group: &Group) -> Vec<Option<Tickets>> {
    let mut made: BTreeMap<u32, Tickets> = BTreeMap::new();
    let tickets = group.workers.iter().map(|worker| {
        let (number, rate) = (worker.tree.as_ref()?.rate_group?, worker.rate?);
        let new = || Tickets::new(rate, Rng::new(worker.seed ^ 0x7469_636b).next_u64());
        Some(made.entry(number).or_insert_with(new).clone())
    });
    tickets.collect()
}

impl Tickets {
    pub(super) fn new(rate: Rate, seed: u64) -> Self {
        let schedule = SharedSchedule { schedule: Schedule::new(rate, seed), is_started: false };
        Self { schedule: Arc::new(Mutex::new(schedule)), taken: None }
    }

    /// Starts the schedule at `now`, unless another worker has started it.
    pub(super) fn start(&mut self, now: Nanos) {
        let mut shared = self.locked();
        if !shared.is_started {
            shared.is_started = true;
            shared.schedule.start(now, 1);
        }
    }

    /// The due time of this worker's next operation.
    pub(super) fn due(&mut self) -> Nanos {
        if let Some(due) = self.taken {
            return due;
        }
        let mut shared = self.locked();
        let due = shared.schedule.due();
        shared.schedule.advance(1);
        drop(shared);
        self.taken = Some(due);
        due
    }

    /// Called when the operation was issued.
    pub(super) fn issued(&mut self) {
        self.taken = None;
    }

    /// Takes a due time before `end`, and those after it up to `at_once` as if they were due with it.
    pub(super) fn miss(&mut self, end: Nanos, at_once: u64) -> Option<Nanos> {
        if let Some(due) = self.taken.filter(|&due| due < end) {
            self.taken = None;
            if at_once > 1 {
                self.locked().schedule.pass(at_once - 1, 1);
            }
            return Some(due);
        }
        let mut shared = self.locked();
        let due = Some(shared.schedule.due()).filter(|&due| due < end)?;
        shared.schedule.pass(at_once, 1);
        Some(due)
    }

    /// About how many operations are due before `end`.
    pub(super) fn backlog(&self, end: Nanos) -> u64 {
        self.locked().schedule.backlog(end)
    }

    /// Moves all future due times.
    pub(super) fn postpone(&mut self, by: Nanos) {
        self.taken = self.taken.map(|due| due.saturating_add(by));
        self.locked().schedule.postpone(by);
    }

    fn locked(&self) -> MutexGuard<'_, SharedSchedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::tests::worker;
    use crate::plan::{Arrivals, RateUnit, Worker};

    const SECOND: Nanos = 1_000_000_000;

    fn rate(count: u64) -> Rate {
        Rate { unit: RateUnit::Operations, count, per_ns: SECOND, arrivals: Arrivals::Even }
    }

    fn grouped(numbers: &[Option<u32>]) -> Vec<Option<Tickets>> {
        let member = |&rate_group: &Option<u32>| {
            let work = json!({
                "tree": {
                    "depth": 1, "width": 1, "files": 1, "files_on_all_levels": false,
                    "sizes": [{ "bytes": 1, "weight": 1 }], "sizes_spread": false, "used_bytes": null, "part": null,
                    "further_roots": [], "creates_parents": false, "names": null,
                },
                "tasks": ["transfer"], "select": { "kind": "sequential" }, "select_once": false, "delete_first": false,
                "flush_before_close": false, "files_shared": false, "times_files": false, "rate_group": rate_group,
                "stop_after": null, "target": null,
            });
            let tree = Some(serde_json::from_value(work).unwrap());
            Worker { rate: Some(rate(10)), tree, ..worker() }
        };
        of_group(&Group { workers: numbers.iter().map(member).collect() })
    }

    fn next(tickets: &mut Tickets) -> Nanos {
        let due = tickets.due();
        tickets.issued();
        due / (SECOND / 10)
    }

    #[test]
    fn a_worker_that_issues_nothing_leaves_the_rate_to_the_others() {
        let mut all: Vec<Tickets> = grouped(&[Some(1), Some(1), Some(1)]).into_iter().flatten().collect();
        for tickets in &mut all {
            tickets.start(0);
        }
        assert_eq!([next(&mut all[0]), next(&mut all[1]), next(&mut all[0]), next(&mut all[0])], [0, 1, 2, 3]);
        // A due time that was taken stays with its worker.
        assert_eq!([all[2].due(), all[2].due()], [4 * SECOND / 10; 2]);
        assert_eq!([next(&mut all[0]), next(&mut all[2]), next(&mut all[1])], [5, 4, 6]);
    }

    #[test]
    fn each_group_has_one_schedule() {
        let mut all = grouped(&[Some(1), None, Some(2)]);
        assert!(all.remove(1).is_none());
        for tickets in all.iter_mut().flatten() {
            tickets.start(0);
            assert_eq!([next(tickets), next(tickets)], [0, 1]);
        }
    }

    #[test]
    fn what_is_missed_is_counted_once() {
        let mut all: Vec<Tickets> = grouped(&[Some(1), Some(1)]).into_iter().flatten().collect();
        for tickets in &mut all {
            tickets.start(0);
        }
        all[1].due();
        let counts = all.iter_mut().map(|tickets| (0..).map_while(|_| tickets.miss(SECOND, 1)).count());
        assert_eq!(counts.collect::<Vec<_>>(), [9, 1]);
    }
}
