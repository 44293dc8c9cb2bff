use crate::{Nanos, SECOND};

/// Parts of a token, for costs that are no whole number of tokens.
pub const PARTS: u64 = 1000;

/// A token bucket with exact integer arithmetic: over any time it grants `burst + rate × time` tokens, exactly.
///
/// The bucket can go into debt: a cost larger than its level is granted later. So one bucket serves requests of any
/// size, and callers are served in the order of their calls.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    rate_per_s: u64,
    /// Capacity, in units of 10⁻⁹ token.
    capacity: i128,
    /// Level at `updated`, in units of 10⁻⁹ token; negative is debt.
    level: i128,
    updated: Nanos,
}

impl TokenBucket {
    /// Creates a full bucket that gains `rate_per_s` tokens a second up to `burst`.
    ///
    /// # Panics
    /// If the rate is 0: nothing could ever be granted.
    pub fn new(rate_per_s: u64, burst: u64, now: Nanos) -> Self {
        assert!(rate_per_s > 0, "a bucket needs a rate");
        let capacity = i128::from(burst) * i128::from(SECOND);
        Self { rate_per_s, capacity, level: capacity, updated: now }
    }

    /// Takes `cost` tokens and returns the delay after `now` until they are granted.
    ///
    /// `now` must not go back between calls; an earlier time counts as the latest one seen.
    pub fn take(&mut self, now: Nanos, cost: u64) -> Nanos {
        self.take_late(now, 0, cost)
    }

    /// As [`take`](Self::take), for a caller that may have come `late_ns` late: on top of its capacity the bucket has kept what it gains
    /// in that time, and keeps it as long as callers say so. A call without it goes back to the capacity.
    pub fn take_late(&mut self, now: Nanos, late_ns: Nanos, cost: u64) -> Nanos {
        self.take_units(now, late_ns, i128::from(cost) * i128::from(SECOND))
    }

    /// As [`take_late`](Self::take_late), of a cost in 1/[`PARTS`] tokens.
    pub fn take_parts(&mut self, now: Nanos, late_ns: Nanos, parts: u64) -> Nanos {
        self.take_units(now, late_ns, units(parts))
    }

    #[inline]
    fn take_units(&mut self, now: Nanos, late_ns: Nanos, units: i128) -> Nanos {
        self.refill_to(self.capacity + i128::from(late_ns) * i128::from(self.rate_per_s), now);
        self.level -= units;
        let wait = self.wait();
        // A caller whose `now` is before `updated` waits from its own time.
        wait + (self.updated - self.updated.min(now)) * u64::from(wait > 0)
    }

    /// Returns unused tokens, in 1/[`PARTS`]; those beyond the capacity are lost.
    pub fn refund_parts(&mut self, now: Nanos, parts: u64) {
        self.refill(now);
        self.level = self.capacity.min(self.level + units(parts));
    }

    /// Changes rate and burst from `now` on; tokens beyond the new burst are lost, debt stays.
    ///
    /// # Panics
    /// If the rate is 0.
    pub fn set_rate(&mut self, rate_per_s: u64, burst: u64, now: Nanos) {
        assert!(rate_per_s > 0, "a bucket needs a rate");
        self.refill(now);
        self.rate_per_s = rate_per_s;
        self.capacity = i128::from(burst) * i128::from(SECOND);
        self.level = self.level.min(self.capacity);
    }

    /// Whole tokens in the bucket at `now`; negative is debt.
    pub fn level(&self, now: Nanos) -> i64 {
        let mut at = self.clone();
        at.refill(now);
        at.level.div_euclid(i128::from(SECOND)) as i64
    }

    /// Capacity, in tokens.
    pub fn burst(&self) -> u64 {
        (self.capacity / i128::from(SECOND)) as u64
    }

    /// Rate, in tokens per second.
    pub fn rate_per_s(&self) -> u64 {
        self.rate_per_s
    }

    fn refill(&mut self, now: Nanos) {
        self.refill_to(self.capacity, now);
    }

    fn refill_to(&mut self, most: i128, now: Nanos) {
        let elapsed = now.saturating_sub(self.updated);
        self.updated = self.updated.max(now);
        self.level = most.min(self.level + i128::from(elapsed) * i128::from(self.rate_per_s));
    }

    fn wait(&self) -> Nanos {
        if self.level >= 0 {
            return 0;
        }
        let debt = self.level.unsigned_abs();
        // A division of 64 bits is several times as fast, and enough for most debts.
        u64::try_from(debt)
            .map_or_else(|_| debt.div_ceil(u128::from(self.rate_per_s)) as Nanos, |debt| debt.div_ceil(self.rate_per_s))
    }
}

/// Parts of tokens in units of a level.
fn units(parts: u64) -> i128 {
    i128::from(parts) * i128::from(SECOND / PARTS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn grants_the_burst_at_once_and_then_one_token_per_period() {
        let mut bucket = TokenBucket::new(1000, 3, 0);
        let waits: Vec<Nanos> = (0..5).map(|_| bucket.take(0, 1)).collect();
        assert_eq!(waits, [0, 0, 0, 1_000_000, 2_000_000]);
    }

    #[test]
    fn rounds_a_wait_up_never_down() {
        let mut bucket = TokenBucket::new(3, 0, 0);
        assert_eq!(bucket.take(0, 1), 333_333_334);
        assert_eq!(bucket.take(0, 1), 666_666_667);
        assert_eq!(bucket.take(0, 1), 1_000_000_000);
    }

    #[test]
    fn saves_up_no_more_than_the_burst() {
        let mut bucket = TokenBucket::new(10, 2, 0);
        bucket.take(0, 2);
        assert_eq!((bucket.level(100 * SECOND), bucket.burst()), (2, 2));
        assert_eq!(bucket.take(100 * SECOND, 3), 100_000_000);
    }

    #[test]
    fn keeps_what_a_late_caller_missed_and_no_more() {
        const MS: Nanos = 1_000_000;
        let late = |late_ns, now, costs: &[u64]| {
            let mut bucket = TokenBucket::new(1000, 10, 0);
            assert_eq!(bucket.take(0, 10), 0);
            costs.iter().map(|cost| bucket.take_late(now, late_ns, *cost)).collect::<Vec<_>>()
        };
        // It holds 10 of the 200 tokens of 200 ms, and those of the 130 ms of which the caller was late.
        assert_eq!(late(130 * MS, 200 * MS, &[140, 1]), [0, MS]);
        assert_eq!(late(0, 200 * MS, &[10, 1]), [0, MS]);
        // There are never more than came in.
        assert_eq!(late(130 * MS, 20 * MS, &[20, 1]), [0, MS]);
        let mut bucket = TokenBucket::new(1000, 10, 0);
        assert_eq!(bucket.take_late(SECOND, 130 * MS, 40), 0);
        assert_eq!((bucket.level(SECOND), bucket.take(SECOND, 11)), (10, MS), "punctual again");
    }

    #[test]
    fn a_refund_pays_debts_and_fills_no_more_than_the_burst() {
        let mut bucket = TokenBucket::new(1000, 3, 0);
        assert_eq!(bucket.take(0, 1003), SECOND);
        bucket.refund_parts(SECOND / 2, 501 * PARTS);
        assert_eq!(bucket.level(SECOND / 2), 1);
        bucket.refund_parts(SECOND / 2, 501 * PARTS);
        assert_eq!(bucket.level(SECOND / 2), 3);
        assert_eq!(bucket.take(SECOND / 2, 4), 1_000_000);
    }

    #[test]
    fn a_new_rate_counts_from_its_moment() {
        let mut bucket = TokenBucket::new(1000, 0, 0);
        assert_eq!(bucket.take(0, 1000), SECOND);
        bucket.set_rate(2000, 0, SECOND / 2);
        // 500 tokens of debt are left, and 1,000 more are requested, at 2,000 a second.
        assert_eq!(bucket.take(SECOND / 2, 1000), 750_000_000);
    }

    #[test]
    fn a_caller_with_an_older_time_waits_until_the_same_moment() {
        let mut bucket = TokenBucket::new(1000, 0, 0);
        bucket.take(5_000_000, 5);
        // The five are granted at 10 ms, the one after them at 11 ms.
        assert_eq!(bucket.take(4_000_000, 1), 7_000_000);
    }

    proptest! {
        /// For any sequence of calls: no window grants more than burst + rate × time.
        #[test]
        fn never_grants_more_than_its_rate(
            rate in 1u64..2_000_000_000, burst in 0u64..1_000_000,
            asks in prop::collection::vec((0u64..50_000_000, 0u64..50_000_000, 1u64..2_000_000), 1..200),
        ) {
            let mut bucket = TokenBucket::new(rate, burst, 0);
            let (mut now, mut given) = (0, 0u128);
            for (gap, late_ns, cost) in asks {
                now += gap;
                let granted_at = now + bucket.take_late(now, late_ns, cost);
                given += u128::from(cost);
                let allowed = u128::from(burst) * u128::from(SECOND) + u128::from(granted_at) * u128::from(rate);
                prop_assert!(given * u128::from(SECOND) <= allowed);
            }
        }

        /// Under constant demand it grants exactly its rate: the last grant is due at ceil(total / rate).
        #[test]
        fn gives_exactly_its_rate(rate in 1u64..2_000_000_000, costs in prop::collection::vec(1u64..2_000_000, 1..200)) {
            let mut bucket = TokenBucket::new(rate, 0, 0);
            let last = costs.iter().map(|&cost| bucket.take(0, cost)).last().unwrap();
            let total: u128 = costs.iter().map(|&c| u128::from(c)).sum();
            prop_assert_eq!(u128::from(last), (total * u128::from(SECOND)).div_ceil(u128::from(rate)));
        }
    }
}
