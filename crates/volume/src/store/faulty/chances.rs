//! Chooses the operations of a file that are hit: each kind has a separate sequence, from the seed and the name of the file.

use super::faults::{FaultKind, FaultRate, Faults};
use iocurve_meter::{Rng, seed_of};

/// The chances of one file.
#[derive(Debug)]
pub(super) struct Chances(Vec<Chance>);

#[derive(Debug)]
struct Chance {
    kind: FaultKind,
    rate: f64,
    random: Rng,
    /// Trials without a hit before the next hit.
    misses: u64,
}

impl Chances {
    pub(super) fn new(faults: &Faults, file: &str) -> Self {
        let chance = |rate: &FaultRate| {
            let random = Rng::new(faults.seed ^ seed_of(file.as_bytes()) ^ seed_of(&[rate.kind as u8]));
            let mut chance = Chance { kind: rate.kind, rate: rate.rate, random, misses: 0 };
            chance.misses = chance.draw_misses();
            chance
        };
        Self(faults.rates.iter().map(chance).collect())
    }

    /// True if an operation is hit by this kind. Each operation that the kind applies to must ask once.
    pub(super) fn hits(&mut self, kind: FaultKind) -> bool {
        self.first_hit(kind, 0, 1).is_some()
    }

    /// The first trial from `from` on, of `trials`, that this kind hits.
    pub(super) fn first_hit(&mut self, kind: FaultKind, from: u64, trials: u64) -> Option<u64> {
        let chance = self.of(kind)?;
        let left = trials - from;
        if chance.misses >= left {
            chance.misses -= left;
            return None;
        }
        let hit = from + chance.misses;
        chance.misses = chance.draw_misses();
        Some(hit)
    }

    /// A number below `end`, from the sequence of this kind.
    pub(super) fn below(&mut self, kind: FaultKind, end: u64) -> u64 {
        self.of(kind).map_or(0, |chance| chance.random.below(end))
    }

    fn of(&mut self, kind: FaultKind) -> Option<&mut Chance> {
        self.0.iter_mut().find(|chance| chance.kind == kind)
    }
}

impl Chance {
    /// Misses before a hit are distributed geometrically.
    fn draw_misses(&mut self) -> u64 {
        (self.random.unit_above_zero().ln() / (-self.rate).ln_1p()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chances(seed: u64, rate: f64, file: &str) -> Chances {
        let rates = vec![FaultRate { kind: FaultKind::LostWrite, rate }, FaultRate { kind: FaultKind::Eio, rate: 0.5 }];
        Chances::new(&Faults { rates, seed, log: None }, file)
    }

    fn hits(mut chances: Chances) -> Vec<bool> {
        (0..20_000).map(|_| chances.hits(FaultKind::LostWrite)).collect()
    }

    #[test]
    fn the_rate_is_kept_and_the_seed_and_the_file_decide() {
        let count = hits(chances(1, 0.01, "a")).iter().filter(|hit| **hit).count();
        // 200 are expected, with a standard deviation of 14.
        assert!((140..260).contains(&count), "{count}");
        assert_eq!(hits(chances(1, 0.01, "a")), hits(chances(1, 0.01, "a")));
        assert_ne!(hits(chances(1, 0.01, "a")), hits(chances(2, 0.01, "a")));
        assert_ne!(hits(chances(1, 0.01, "a")), hits(chances(1, 0.01, "b")));
    }

    #[test]
    fn another_kind_changes_nothing() {
        let mut mixed = chances(1, 0.01, "a");
        let between = (0..20_000).map(|_| {
            mixed.hits(FaultKind::Eio);
            mixed.hits(FaultKind::LostWrite)
        });
        assert_eq!(between.collect::<Vec<_>>(), hits(chances(1, 0.01, "a")));
    }

    #[test]
    fn one_hits_always_and_a_kind_without_a_rate_never() {
        assert!(hits(chances(1, 1.0, "a")).iter().all(|hit| *hit));
        let mut chances = chances(1, 1.0, "a");
        assert_eq!(chances.first_hit(FaultKind::FlipBit, 0, u64::MAX), None);
        assert_eq!(chances.first_hit(FaultKind::LostWrite, 5, 9), Some(5));
    }

    #[test]
    fn trials_of_one_operation_are_those_of_many() {
        let mut whole = chances(3, 0.01, "a");
        let (mut from, mut places) = (0, Vec::new());
        while let Some(hit) = whole.first_hit(FaultKind::LostWrite, from, 20_000) {
            places.push(hit as usize);
            from = hit + 1;
        }
        let single: Vec<_> =
            hits(chances(3, 0.01, "a")).iter().enumerate().filter(|(_, hit)| **hit).map(|(at, _)| at).collect();
        assert_eq!(places, single);
    }
}
