//! The mix: kind and due time of the next operation.

use iocurve_meter::{Nanos, Rng};

use super::next::Next;
use super::schedule::Schedule;
use super::wake::Wake;
use super::walk::Walk;
use crate::offsets::replay::Replay;
use crate::plan::{Position, Worker};

/// Order of the kinds: chosen as soon as possible or by one schedule; or each kind by its own schedule, in turns or
/// not.
#[derive(Debug)]
pub(super) enum Mix {
    Unpaced(Choice),
    Paced(Choice, Schedule),
    EachPaced(Vec<Option<Schedule>>),
    TurnsPaced {
        next: usize,
        schedules: Vec<Option<Schedule>>,
    },
    Replayed(Replay),
    Walked(Box<Walk>),
    /// An operation that was chosen before, then the mix.
    Held(Next, Box<Mix>),
}

/// Choice of the next kind.
#[derive(Debug)]
pub(super) enum Choice {
    Only,
    Shares {
        upto: Vec<u64>,
        total: u64,
        rng: Rng,
    },
    /// Kinds take turns at one offset.
    Turns {
        next: usize,
        kinds: usize,
    },
}

impl Mix {
    pub(super) fn new(worker: &Worker) -> Self {
        let seed = |number: u64| Rng::new(worker.seed ^ 0x6475_6500 ^ (number << 32)).next_u64();
        if worker.operations.iter().any(|operation| operation.rate.is_some()) {
            let schedules = (1..)
                .zip(&worker.operations)
                .map(|(number, operation)| operation.rate.map(|rate| Schedule::new(rate, seed(number))))
                .collect();
            return match worker.access.position {
                Position::Identical => Self::TurnsPaced { next: 0, schedules },
                _ => Self::EachPaced(schedules),
            };
        }
        let choice = Choice::new(worker);
        match worker.rate {
            Some(rate) => Self::Paced(choice, Schedule::new(rate, seed(0))),
            None => Self::Unpaced(choice),
        }
    }

    /// Starts all schedules.
    pub(super) fn start(&mut self, now: Nanos, worker: &Worker) {
        let mut smallest = worker.operations.iter().map(|operation| operation.blocks.smallest());
        match self {
            Self::Unpaced(_) => {}
            Self::Replayed(replay) => replay.start(now),
            Self::Walked(walk) => walk.start(now),
            Self::Held(_, mix) => mix.start(now, worker),
            Self::Paced(_, schedule) => schedule.start(now, smallest.min().unwrap_or(1)),
            Self::EachPaced(schedules) | Self::TurnsPaced { schedules, .. } => {
                for schedule in schedules {
                    let bytes = smallest.next().unwrap_or(1);
                    if let Some(schedule) = schedule {
                        schedule.start(now, bytes);
                    }
                }
            }
        }
    }

    /// The next operation, if one is due.
    #[inline(always)]
    pub(super) fn next(&mut self, now: Nanos) -> Result<Next, Wake> {
        match self {
            Self::Unpaced(choice) => Ok(Next { operation: choice.next(), due: None }),
            Self::Paced(_, schedule) if schedule.due() > now => Err(Wake::At(schedule.due())),
            Self::Paced(choice, schedule) => Ok(Next { operation: choice.next(), due: Some(schedule.due()) }),
            Self::EachPaced(schedules) => earliest(schedules, now),
            Self::Replayed(replay) => replayed(replay, now),
            Self::Walked(walk) => walk.next(now),
            Self::Held(..) => Ok(self.release()),
            Self::TurnsPaced { next, schedules } => match schedules[*next].as_ref().map(Schedule::due) {
                Some(due) if due > now => Err(Wake::At(due)),
                due => Ok(Next { operation: *next, due }),
            },
        }
    }

    /// Makes the next operation `next`, which [`Self::next`] has returned and which was not issued.
    #[cold]
    pub(super) fn hold(&mut self, next: Next) {
        let mix = std::mem::replace(self, Self::EachPaced(Vec::new()));
        *self = Self::Held(next, Box::new(mix));
    }

    #[cold]
    fn release(&mut self) -> Next {
        let Self::Held(next, mix) = std::mem::replace(self, Self::EachPaced(Vec::new())) else {
            unreachable!("an operation is held");
        };
        *self = *mix;
        next
    }

    /// Called when an operation of `bytes` bytes was issued.
    #[inline]
    pub(super) fn issued(&mut self, operation: usize, bytes: u32) {
        match self {
            Self::Unpaced(_) | Self::Replayed(_) | Self::Held(..) => {}
            Self::Walked(walk) => walk.issued(),
            Self::Paced(_, schedule) => schedule.advance(bytes),
            Self::EachPaced(schedules) => {
                if let Some(schedule) = &mut schedules[operation] {
                    schedule.advance(bytes);
                }
            }
            Self::TurnsPaced { next, schedules } => {
                if let Some(schedule) = &mut schedules[operation] {
                    schedule.advance(bytes);
                }
                *next = (operation + 1) % schedules.len();
            }
        }
    }

    /// About how many operations, or bytes, are due before `end`.
    pub(super) fn backlog(&self, end: Nanos) -> u64 {
        match self {
            Self::Unpaced(_) | Self::Replayed(_) => 0,
            Self::Walked(walk) => walk.backlog(end),
            Self::Held(_, mix) => mix.backlog(end),
            Self::Paced(_, schedule) => schedule.backlog(end),
            Self::EachPaced(schedules) | Self::TurnsPaced { schedules, .. } => {
                schedules.iter().flatten().map(|schedule| schedule.backlog(end)).sum()
            }
        }
    }

    /// Takes the next operation that is due before `end` and will not be issued, and those after it up to `at_once` as if
    /// they were due with it. Kinds without a rate are never due.
    pub(super) fn miss(&mut self, end: Nanos, at_once: u64, bytes: &[u32]) -> Option<(usize, Nanos)> {
        match self {
            Self::Unpaced(_) => None,
            Self::Replayed(replay) => {
                let (operation, due) = replay.next()?;
                let due = due.filter(|&due| due < end)?;
                replay.take();
                Some((operation, due))
            }
            Self::Walked(walk) => walk.miss(end, at_once),
            Self::Held(..) => {
                let Next { operation, due } = self.release();
                let due = due.filter(|&due| due < end)?;
                self.issued(operation, bytes[operation]);
                Some((operation, due))
            }
            Self::Paced(choice, schedule) => {
                let due = missed(schedule, end)?;
                let operation = choice.next();
                schedule.pass(at_once, bytes[operation]);
                Some((operation, due))
            }
            Self::EachPaced(schedules) | Self::TurnsPaced { schedules, .. } => {
                let paced = schedules.iter_mut().enumerate();
                let first = paced.filter_map(|(operation, schedule)| Some((operation, schedule.as_mut()?)));
                let (operation, schedule) = first.min_by_key(|(_, schedule)| schedule.due())?;
                let due = missed(schedule, end)?;
                schedule.pass(at_once, bytes[operation]);
                Some((operation, due))
            }
        }
    }

    /// Moves all future due times.
    pub(super) fn postpone(&mut self, by: Nanos) {
        match self {
            Self::Unpaced(_) => {}
            Self::Replayed(replay) => replay.postpone(by),
            Self::Walked(walk) => walk.postpone(by),
            Self::Held(next, mix) => {
                next.due = next.due.map(|due| due.saturating_add(by));
                mix.postpone(by);
            }
            Self::Paced(_, schedule) => schedule.postpone(by),
            Self::EachPaced(schedules) | Self::TurnsPaced { schedules, .. } => {
                schedules.iter_mut().flatten().for_each(|schedule| schedule.postpone(by));
            }
        }
    }
}

fn missed(schedule: &Schedule, end: Nanos) -> Option<Nanos> {
    Some(schedule.due()).filter(|&due| due < end)
}

/// Chooses the kind whose next operation is due first. A kind without a rate is due now, after all that are late.
#[inline(never)]
fn earliest(schedules: &[Option<Schedule>], now: Nanos) -> Result<Next, Wake> {
    let (operation, due) = schedules
        .iter()
        .enumerate()
        .map(|(index, schedule)| (index, schedule.as_ref().map_or(now, Schedule::due)))
        .min_by_key(|&(_, due)| due)
        .expect("a worker has operations");
    if due > now {
        return Err(Wake::At(due));
    }
    Ok(Next { operation, due: schedules[operation].is_some().then_some(due) })
}

#[inline(never)]
fn replayed(replay: &Replay, now: Nanos) -> Result<Next, Wake> {
    match replay.next() {
        None => Err(Wake::Exhausted),
        Some((_, Some(due))) if due > now => Err(Wake::At(due)),
        Some((operation, due)) => Ok(Next { operation, due }),
    }
}

impl Choice {
    fn new(worker: &Worker) -> Self {
        let kinds = worker.operations.len();
        if kinds == 1 {
            return Self::Only;
        }
        if worker.access.position == Position::Identical {
            return Self::Turns { next: 0, kinds };
        }
        let mut total = 0;
        let upto = worker
            .operations
            .iter()
            .map(|operation| {
                total += u64::from(operation.share);
                total
            })
            .collect();
        Self::Shares { upto, total, rng: Rng::new(worker.seed.rotate_left(17) ^ 0x006d_6978) }
    }

    /// Number of the next operation.
    #[inline]
    pub(super) fn next(&mut self) -> usize {
        match self {
            Self::Only => 0,
            Self::Shares { upto, total, rng } => by_share(upto, *total, rng),
            Self::Turns { next, kinds } => {
                let operation = *next;
                *next = (operation + 1) % *kinds;
                operation
            }
        }
    }
}

#[inline(never)]
fn by_share(upto: &[u64], total: u64, rng: &mut Rng) -> usize {
    let drawn = rng.below(total);
    upto.iter().position(|&limit| drawn < limit).unwrap_or(0)
}
