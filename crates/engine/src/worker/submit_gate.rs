//! Delays operations although slots are free and operations are due: batches, pauses, the search for a depth.

use iocurve_meter::Nanos;

use super::mix::Mix;
use super::search::{Search, Verdict};
use super::think::Thinking;
use super::wake::Wake;
use crate::plan::{Batch, Worker};

/// Decides how many operations may be submitted now, and how many completions to reap.
#[derive(Debug)]
pub(super) struct SubmitGate {
    batch: Batch,
    depth: usize,
    /// Nothing is submitted while more operations than this are in flight.
    closed_above: Option<usize>,
    /// Step before the next operation, once that few are in flight.
    state: GateState,
    think: Option<Thinking>,
    search: Option<Search>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GateState {
    Submit,
    Pause,
    /// The rest of a pause.
    Pausing {
        begun: Nanos,
        busy_until: Nanos,
        over: Nanos,
    },
    /// A new window of the search.
    Window,
    /// The last window of the search: the measured window restarts with it.
    LastWindow,
    Found,
}

impl SubmitGate {
    /// `None` if nothing is ever delayed.
    pub(super) fn new(worker: &Worker, depth: usize) -> Option<Self> {
        let Batch { submit, complete_min, complete_max, low } = worker.batch;
        let is_plain = (submit, complete_min, complete_max, low) == (0, 1, 0, 0)
            && worker.think.is_none()
            && worker.latency_target.is_none();
        (!is_plain).then(|| Self {
            batch: worker.batch,
            depth,
            closed_above: None,
            state: GateState::Submit,
            think: worker.think.map(Thinking::new),
            search: worker.latency_target.map(|target| Search::new(target, depth as u32)),
        })
    }

    /// Starts the load and, at another time, the measured window; the search counts from the window.
    pub(super) fn start(&mut self, load: Nanos, window: Nanos) {
        if let Some(think) = &mut self.think {
            think.start(load);
        }
        if let Some(search) = &mut self.search {
            search.restart(window);
        }
    }

    /// Returns the number of operations that may be submitted while `in_flight` are in flight, or the event to wait
    /// for. A pause that moves the schedule moves it when the pause is over.
    pub(super) fn allowance(&mut self, now: Nanos, in_flight: usize, mix: &mut Mix) -> Result<usize, Wake> {
        if self.state == GateState::Submit {
            self.poll(now);
        }
        if self.state == GateState::Found {
            return Err(Wake::Found);
        }
        if self.closed_above.is_some_and(|most| in_flight > most) {
            return Err(Wake::Never);
        }
        self.closed_above = None;
        self.resume(now, mix)?;
        let room = self.limit().saturating_sub(in_flight);
        Ok(if self.batch.submit == 0 { room } else { room.min(self.batch.submit as usize) })
    }

    /// Called when an operation was submitted.
    pub(super) fn submitted(&mut self) {
        if let Some(think) = &mut self.think {
            think.submitted();
        }
    }

    /// Returns `true` if a pause is due.
    pub(super) fn pause_is_due(&self, now: Nanos) -> bool {
        self.think.as_ref().is_some_and(|think| think.is_due(now))
    }

    /// Moves the schedule by a pause that the end of the load cuts short, if it is one that moves it.
    pub(super) fn end(&mut self, now: Nanos, mix: &mut Mix) {
        if let (GateState::Pausing { begun, .. }, Some(think)) = (self.state, &mut self.think) {
            mix.postpone(think.end(begun.min(now), now));
        }
    }

    /// Called when an operation has succeeded.
    pub(super) fn completed(&mut self, service: Nanos, now: Nanos) -> Verdict {
        if let Some(think) = &mut self.think {
            think.completed();
        }
        match &mut self.search {
            // Before the next window begins, operations submitted at another depth complete.
            Some(search) if self.state == GateState::Submit => {
                let verdict = search.completed(service, now);
                self.apply(verdict);
                verdict
            }
            _ => Verdict::Continue,
        }
    }

    /// Called when the submit allowance is exhausted; returns the event that the loop waits for.
    pub(super) fn allowance_used(&mut self, in_flight: usize) -> Wake {
        let limit = self.limit();
        if in_flight < limit {
            return Wake::Now;
        }
        let at_once = (self.batch.complete_min as usize).clamp(1, limit);
        let low = if self.batch.low == 0 { limit } else { self.batch.low as usize };
        self.closed_above = Some((in_flight - at_once).min(low));
        Wake::Never
    }

    /// Completions to wait for.
    pub(super) fn reap_min(&self, wake: Wake, in_flight: usize) -> usize {
        match self.closed_above {
            _ if wake == Wake::Now || self.batch.complete_min == 0 => 0,
            Some(most) => in_flight.saturating_sub(most).clamp(1, self.batch.complete_min as usize),
            None => 1,
        }
    }

    /// Most completions to take at once.
    pub(super) fn reap_max(&self) -> usize {
        if self.batch.complete_max == 0 { usize::MAX } else { self.batch.complete_max as usize }
    }

    /// The depth that the search has converged to.
    pub(super) fn depth_found(&self) -> Option<u32> {
        self.search.as_ref().map(Search::depth)
    }

    fn limit(&self) -> usize {
        self.search.as_ref().map_or(self.depth, |search| search.depth() as usize)
    }

    /// Checks whether a pause or another depth is due.
    fn poll(&mut self, now: Nanos) {
        if let Some(think) = &mut self.think
            && think.is_due(now)
        {
            think.call();
            (self.closed_above, self.state) = (think.drains().then_some(0), GateState::Pause);
        } else if let Some(search) = &mut self.search {
            let verdict = search.judge(now);
            self.apply(verdict);
        }
    }

    fn apply(&mut self, verdict: Verdict) {
        let next = match verdict {
            Verdict::Continue | Verdict::Unattainable => return,
            Verdict::Lowered => GateState::Window,
            Verdict::Measure => GateState::LastWindow,
            Verdict::Found => GateState::Found,
        };
        (self.closed_above, self.state) = (Some(0), next);
    }

    /// Performs the step that comes before the next operation.
    fn resume(&mut self, now: Nanos, mix: &mut Mix) -> Result<(), Wake> {
        if let (GateState::Pause, Some(think)) = (self.state, &self.think) {
            let (busy_until, over) = think.begin(now);
            self.state = GateState::Pausing { begun: now, busy_until, over };
        }
        let state = self.state;
        match state {
            GateState::Pausing { busy_until, .. } if now < busy_until => return Err(Wake::Busy(busy_until)),
            GateState::Pausing { over, .. } if now < over => return Err(Wake::At(over)),
            _ => self.state = GateState::Submit,
        }
        if let (GateState::Pausing { begun, .. }, Some(think)) = (state, &mut self.think) {
            mix.postpone(think.end(begun, now));
        }
        if let (GateState::Window | GateState::LastWindow, Some(search)) = (state, &mut self.search) {
            search.restart(now);
        }
        if state == GateState::LastWindow { Err(Wake::Measure) } else { Ok(()) }
    }
}
