//! What keeps operations back although there is room and they are due: batches, pauses, the search for a depth.

use iocurve_meter::Nanos;

use super::mix::Mix;
use super::search::{Search, Verdict};
use super::think::Thinking;
use super::wake::Wake;
use crate::plan::{Batch, Worker};

/// The state of all that keeps operations back.
#[derive(Debug)]
pub(super) struct Hold {
    batch: Batch,
    depth: usize,
    /// Nothing is handed over while more than this many are in flight.
    until: Option<usize>,
    /// What comes before the next operation, once that is so.
    then: Then,
    think: Option<Thinking>,
    search: Option<Search>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// Nothing.
    GoOn,
    /// A pause.
    Pause,
    /// The rest of a pause that began at the first instant, is busy until the second and over at the third.
    Pausing(Nanos, Nanos, Nanos),
    /// A new window of the search.
    Window,
    /// The last window of the search: only from here on is measured.
    LastWindow,
    /// The end.
    Found,
}

impl Hold {
    /// `None` if nothing is ever kept back.
    pub(super) fn new(worker: &Worker, depth: usize) -> Option<Self> {
        let Batch { submit, complete_min, complete_max, low } = worker.batch;
        let is_plain = (submit, complete_min, complete_max, low) == (0, 1, 0, 0)
            && worker.think.is_none()
            && worker.latency_target.is_none();
        (!is_plain).then(|| Self {
            batch: worker.batch,
            depth,
            until: None,
            then: Then::GoOn,
            think: worker.think.map(Thinking::new),
            search: worker.latency_target.map(|target| Search::new(target, depth as u32)),
        })
    }

    /// The load begins, and later what is measured: only that counts for the search.
    pub(super) fn start(&mut self, load: Nanos, window: Nanos) {
        if let Some(think) = &mut self.think {
            think.start(load);
        }
        if let Some(search) = &mut self.search {
            search.restart(window);
        }
    }

    /// How many may be handed over while so many are in flight, or what to wait for. A schedule that a pause moves is
    /// moved when the pause is over.
    pub(super) fn leave(&mut self, now: Nanos, in_flight: usize, mix: &mut Mix) -> Result<usize, Wake> {
        if self.then == Then::GoOn {
            self.look(now);
        }
        if self.then == Then::Found {
            return Err(Wake::Found);
        }
        if self.until.is_some_and(|most| in_flight > most) {
            return Err(Wake::Never);
        }
        self.until = None;
        self.carry_on(now, mix)?;
        let room = self.limit().saturating_sub(in_flight);
        Ok(if self.batch.submit == 0 { room } else { room.min(self.batch.submit as usize) })
    }

    /// An operation was handed over.
    pub(super) fn issued(&mut self) {
        if let Some(think) = &mut self.think {
            think.issued();
        }
    }

    /// Whether it is time for a pause.
    pub(super) fn is_called(&self, now: Nanos) -> bool {
        self.think.as_ref().is_some_and(|think| think.is_due(now))
    }

    /// An operation has succeeded.
    pub(super) fn completed(&mut self, service: Nanos, now: Nanos) -> Verdict {
        if let Some(think) = &mut self.think {
            think.completed();
        }
        match &mut self.search {
            // What comes back before the next window was begun at another depth.
            Some(search) if self.then == Then::GoOn => {
                let verdict = search.completed(service, now);
                self.follow(verdict);
                verdict
            }
            _ => Verdict::Continue,
        }
    }

    /// As many are in flight as were let go. What the loop waits for now, if nothing else holds it.
    pub(super) fn filled(&mut self, in_flight: usize) -> Wake {
        let limit = self.limit();
        if in_flight < limit {
            return Wake::Now;
        }
        let at_once = (self.batch.complete_min as usize).clamp(1, limit);
        let low = if self.batch.low == 0 { limit } else { self.batch.low as usize };
        self.until = Some((in_flight - at_once).min(low));
        Wake::Never
    }

    /// Completions to wait for.
    pub(super) fn wanted(&self, wake: Wake, in_flight: usize) -> usize {
        match self.until {
            _ if wake == Wake::Now || self.batch.complete_min == 0 => 0,
            Some(most) => in_flight.saturating_sub(most).clamp(1, self.batch.complete_min as usize),
            None => 1,
        }
    }

    /// Completions to take at once.
    pub(super) fn most(&self) -> usize {
        if self.batch.complete_max == 0 { usize::MAX } else { self.batch.complete_max as usize }
    }

    /// The depth that the search has come to.
    pub(super) fn depth_found(&self) -> Option<u32> {
        self.search.as_ref().map(Search::depth)
    }

    fn limit(&self) -> usize {
        self.search.as_ref().map_or(self.depth, |search| search.depth() as usize)
    }

    /// Whether it is time for a pause or another depth.
    fn look(&mut self, now: Nanos) {
        if let Some(think) = &mut self.think
            && think.is_due(now)
        {
            think.call();
            (self.until, self.then) = (think.drains().then_some(0), Then::Pause);
        } else if let Some(search) = &mut self.search {
            let verdict = search.judge(now);
            self.follow(verdict);
        }
    }

    fn follow(&mut self, verdict: Verdict) {
        let then = match verdict {
            Verdict::Continue | Verdict::Hopeless => return,
            Verdict::Lowered => Then::Window,
            Verdict::Measure => Then::LastWindow,
            Verdict::Found => Then::Found,
        };
        (self.until, self.then) = (Some(0), then);
    }

    /// What comes before the next operation.
    fn carry_on(&mut self, now: Nanos, mix: &mut Mix) -> Result<(), Wake> {
        if let (Then::Pause, Some(think)) = (self.then, &self.think) {
            let (busy, over) = think.begin(now);
            self.then = Then::Pausing(now, busy, over);
        }
        let then = self.then;
        match then {
            Then::Pausing(_, busy, _) if now < busy => return Err(Wake::Busy(busy)),
            Then::Pausing(_, _, over) if now < over => return Err(Wake::At(over)),
            _ => self.then = Then::GoOn,
        }
        if let (Then::Pausing(begun, ..), Some(think)) = (then, &mut self.think) {
            mix.postpone(think.end(begun, now));
        }
        if let (Then::Window | Then::LastWindow, Some(search)) = (then, &mut self.search) {
            search.restart(now);
        }
        if then == Then::LastWindow { Err(Wake::Measure) } else { Ok(()) }
    }
}
