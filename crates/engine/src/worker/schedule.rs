//! Due times of a rate.

use iocurve_meter::{Nanos, Pacer, Rng};

use crate::plan::{Arrivals, Rate, RateUnit};

/// The due times of one rate, in order.
#[derive(Debug)]
pub(super) struct Schedule {
    rate: Rate,
    pacer: Pacer,
    rng: Rng,
}

impl Schedule {
    pub(super) fn new(rate: Rate, seed: u64) -> Self {
        Self { rate, pacer: Pacer::new(rate.count, rate.per_ns, 0), rng: Rng::new(seed) }
    }

    /// Starts at `now`. The first even arrival is due at once, the first random one after the interval of an operation
    /// of `first_bytes`.
    pub(super) fn start(&mut self, now: Nanos, first_bytes: u32) {
        self.pacer = Pacer::new(self.rate.count, self.rate.per_ns, now);
        if self.rate.arrivals == Arrivals::Poisson {
            self.advance(first_bytes);
        }
    }

    #[inline]
    pub(super) fn due(&self) -> Nanos {
        self.pacer.due()
    }

    /// Called when an operation of `bytes` bytes was issued.
    #[inline(never)]
    pub(super) fn advance(&mut self, bytes: u32) {
        self.pass(1, bytes);
    }

    /// Advances by several operations of `bytes` bytes each, with one distance drawn for all of them.
    pub(super) fn pass(&mut self, operations: u64, bytes: u32) {
        let units = match self.rate.unit {
            RateUnit::Operations => operations,
            RateUnit::Bytes => operations.saturating_mul(u64::from(bytes)),
        };
        match self.rate.arrivals {
            Arrivals::Even => self.pacer.advance(units),
            Arrivals::Poisson => self.pacer.advance_by(units as f64 * exponential(&mut self.rng)),
        }
    }

    /// About how many units are due before `end`.
    pub(super) fn backlog(&self, end: Nanos) -> u64 {
        let behind_ns = end.saturating_sub(self.due());
        (behind_ns as f64 * self.rate.count as f64 / self.rate.per_ns as f64) as u64
    }

    /// Moves all future due times.
    pub(super) fn postpone(&mut self, by: Nanos) {
        self.pacer.postpone(by);
    }
}

/// Exponentially distributed with a mean of 1.
fn exponential(rng: &mut Rng) -> f64 {
    /// 2^53: the number of steps of an `f64` from 0 to 1.
    const STEPS: f64 = 9_007_199_254_740_992.0;
    let below_one = (rng.next_u64() >> 11) as f64 / STEPS;
    -(-below_one).ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    fn schedule(unit: RateUnit, count: u64, arrivals: Arrivals) -> Schedule {
        let mut schedule = Schedule::new(Rate { unit, count, per_ns: SECOND, arrivals }, 7);
        schedule.start(0, 4096);
        schedule
    }

    fn distances(schedule: &mut Schedule, count: usize, bytes: u32) -> Vec<Nanos> {
        let mut last = schedule.due();
        let step = |_| {
            schedule.advance(bytes);
            let distance = schedule.due() - last;
            last = schedule.due();
            distance
        };
        (0..count).map(step).collect()
    }

    #[test]
    fn bytes_are_paced_by_the_size_of_issued_operations() {
        let mut even = schedule(RateUnit::Bytes, 1 << 20, Arrivals::Even);
        let due: Vec<Nanos> = [1 << 18, 1 << 19, 1 << 18]
            .into_iter()
            .map(|bytes| {
                even.advance(bytes);
                even.due()
            })
            .collect();
        assert_eq!(due, [SECOND / 4, SECOND * 3 / 4, SECOND]);
    }

    #[test]
    fn arrivals_by_chance_are_exponential_with_the_mean_of_the_rate() {
        let mut poisson = schedule(RateUnit::Operations, 1000, Arrivals::Poisson);
        assert_ne!(poisson.due(), 0);
        let all = distances(&mut poisson, 100_000, 4096);
        let mean = all.iter().sum::<Nanos>() as f64 / 100_000.0;
        // Five standard deviations of the mean of 100,000: 5 / √100,000 = 1.6 %.
        assert!((mean - 1e6).abs() < 16_000.0, "{mean}");
        // The deviation equals the mean, and 1/e of the intervals are longer than the mean.
        let variance = all.iter().map(|&one| (one as f64 - mean).powi(2)).sum::<f64>() / 100_000.0;
        assert!((variance.sqrt() - 1e6).abs() < 25_000.0, "{}", variance.sqrt());
        let longer = all.iter().filter(|&&one| one > 1_000_000).count();
        assert!((36_000..37_600).contains(&longer), "{longer}");
    }

    #[test]
    fn larger_operations_keep_a_longer_distance_by_chance_too() {
        let small = distances(&mut schedule(RateUnit::Bytes, 1 << 20, Arrivals::Poisson), 1000, 4096);
        let large = distances(&mut schedule(RateUnit::Bytes, 1 << 20, Arrivals::Poisson), 1000, 8192);
        // Twice as long each, except for the fraction of a nanosecond cut off from each due time.
        assert!(small.iter().zip(&large).all(|(&small, &large)| (2 * small).abs_diff(large) <= 6));
    }

    #[test]
    fn another_seed_is_another_schedule() {
        let rate = Rate { unit: RateUnit::Operations, count: 1000, per_ns: SECOND, arrivals: Arrivals::Poisson };
        let first = |seed| {
            let mut schedule = Schedule::new(rate, seed);
            schedule.start(0, 1);
            distances(&mut schedule, 10, 1)
        };
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
    }
}
