//! Which kind of operation comes next, and when it is due.

use iocurve_meter::{Nanos, Pacer};

use crate::chance::Rng;
use crate::plan::{OperationPlan, RateUnit, Worker};

/// What the loop waits for besides completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wake {
    /// The next paced operation.
    At(Nanos),
    /// Nothing: all slots are taken.
    Never,
    /// Nothing more: all was issued.
    Exhausted,
}

impl Wake {
    /// When it comes, if it comes by itself.
    pub(super) fn at(self) -> Nanos {
        match self {
            Self::At(due) => due,
            Self::Never | Self::Exhausted => Nanos::MAX,
        }
    }
}

/// The next operation to issue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Next {
    pub(super) operation: usize,
    /// When it was due; `None` in a closed loop.
    pub(super) due: Option<Nanos>,
}

/// Which kind comes next: by shares in a closed loop, by schedule under a rate.
#[derive(Debug)]
pub(super) enum Mix {
    Single,
    Shares { upto: Vec<u64>, total: u64, rng: Rng },
    Paced(Vec<Paced>),
}

#[derive(Debug)]
pub(super) struct Paced {
    rate: Option<(Pacer, u64)>,
    plan: Option<(u64, Nanos)>,
}

impl Mix {
    pub(super) fn new(worker: &Worker) -> Self {
        if worker.operations.iter().any(|operation| operation.rate.is_some()) {
            return Self::Paced(worker.operations.iter().map(Paced::new).collect());
        }
        if worker.operations.len() == 1 {
            return Self::Single;
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

    /// Schedules begin here.
    pub(super) fn start(&mut self, now: Nanos) {
        if let Self::Paced(kinds) = self {
            for kind in kinds {
                kind.start(now);
            }
        }
    }

    #[inline]
    pub(super) fn next(&mut self, now: Nanos) -> Result<Next, Wake> {
        match self {
            Self::Single => Ok(Next { operation: 0, due: None }),
            Self::Shares { upto, total, rng } => {
                let drawn = rng.below(*total);
                let operation = upto.iter().position(|&limit| drawn < limit).unwrap_or(0);
                Ok(Next { operation, due: None })
            }
            Self::Paced(kinds) => earliest(kinds, now),
        }
    }
}

/// The kind whose next operation was due first. A kind without a rate is always due now, after those that are late.
fn earliest(kinds: &mut [Paced], now: Nanos) -> Result<Next, Wake> {
    let (operation, due) = kinds
        .iter()
        .enumerate()
        .map(|(index, kind)| (index, kind.due().unwrap_or(now)))
        .min_by_key(|&(_, due)| due)
        .expect("a worker has operations");
    if due > now {
        return Err(Wake::At(due));
    }
    let kind = &mut kinds[operation];
    kind.advance();
    Ok(Next { operation, due: kind.rate.is_some().then_some(due) })
}

impl Paced {
    fn new(operation: &OperationPlan) -> Self {
        let plan = operation.rate.map(|rate| (rate.count, rate.per_ns));
        let units = match operation.rate.map(|rate| rate.unit) {
            Some(RateUnit::Bytes) => u64::from(operation.blocks.smallest()),
            _ => 1,
        };
        Self { rate: plan.map(|(count, per_ns)| (Pacer::new(count, per_ns, 0), units)), plan }
    }

    fn start(&mut self, now: Nanos) {
        if let (Some((pacer, _)), Some((count, per_ns))) = (&mut self.rate, self.plan) {
            *pacer = Pacer::new(count, per_ns, now);
        }
    }

    fn due(&self) -> Option<Nanos> {
        self.rate.as_ref().map(|(pacer, _)| pacer.due())
    }

    fn advance(&mut self) {
        if let Some((pacer, units)) = &mut self.rate {
            pacer.advance(*units);
        }
    }
}
