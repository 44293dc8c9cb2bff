//! Limits of operations and bytes per second: the wait of an operation.

use iocurve_meter::{Nanos, SECOND, TokenBucket};

use crate::plan::{IoBurst, IoLimits};

/// Operations and bytes per second, each by itself. An operation is charged at once, and waits until all operations
/// before it are paid for: an idle throttle delays nothing.
#[derive(Debug)]
pub(super) struct Throttle {
    operations: Flow,
    bytes: Flow,
}

/// Burst credits of operations and of bytes; negative if too much was admitted.
pub(super) type Credits = [i64; 2];

impl Throttle {
    /// Starts with full credits. Throughput not used in the last `slack` can be made up for.
    pub(super) fn new(limits: &IoLimits, slack: Nanos, now: Nanos) -> Self {
        let IoLimits { iops, bytes_per_s, burst } = *limits;
        let burst_of = |rate: fn(IoBurst) -> u64| burst.map(|burst| (rate(burst), burst.duration_ns));
        Self {
            operations: Flow::new(iops, burst_of(|burst| burst.iops), slack, now),
            bytes: Flow::new(bytes_per_s, burst_of(|burst| burst.bytes_per_s), slack, now),
        }
    }

    /// Charges operations and bytes; returns the delay after `now` until each limit allows the completion.
    pub(super) fn take(&mut self, now: Nanos, operations: u64, bytes: u64) -> [Nanos; 2] {
        [self.operations.take(now, operations), self.bytes.take(now, bytes)]
    }

    /// Remaining credits, if it has a burst.
    pub(super) fn credits(&self, now: Nanos) -> Option<Credits> {
        Some([self.operations.credits(now)?, self.bytes.credits(now)?])
    }

    /// Restores saved credits, and adds those gained since.
    pub(super) fn restore(&mut self, now: Nanos, [operations, bytes]: Credits, since: Nanos) {
        self.operations.restore(now, operations, since);
        self.bytes.restore(now, bytes, since);
    }
}

/// One limit of a throttle. With a burst, credits are unused amounts of the base rate.
#[derive(Debug)]
struct Flow {
    sustained: TokenBucket,
    burst: Option<TokenBucket>,
}

impl Flow {
    fn new(rate: u64, burst: Option<(u64, Nanos)>, slack: Nanos, now: Nanos) -> Self {
        let bucket = |rate, saved: i128| TokenBucket::new(rate, u64::try_from(saved).unwrap_or(u64::MAX), now);
        let credits = burst.map_or(0, |(most, duration)| gained(most - rate, duration));
        Self {
            sustained: bucket(rate, credits.max(gained(rate, slack))),
            burst: burst.map(|(most, _)| bucket(most, gained(most, slack))),
        }
    }

    fn take(&mut self, now: Nanos, cost: u64) -> Nanos {
        let burst = self.burst.as_mut().map_or(0, |burst| behind(burst, now, cost));
        behind(&mut self.sustained, now, cost).max(burst)
    }

    fn credits(&self, now: Nanos) -> Option<i64> {
        self.burst.is_some().then(|| self.sustained.level(now))
    }

    fn restore(&mut self, now: Nanos, credits: i64, since: Nanos) {
        let full = i128::from(self.sustained.burst());
        let there = i128::from(credits) + gained(self.sustained.rate_per_s(), since);
        self.sustained.take(now, u64::try_from((full - there).max(0)).unwrap_or(u64::MAX));
    }
}

/// Charges a cost; returns the delay until all earlier costs are paid for.
fn behind(bucket: &mut TokenBucket, now: Nanos, cost: u64) -> Nanos {
    let wait = bucket.take(now, 0);
    bucket.take(now, cost);
    wait
}

fn gained(rate_per_s: u64, time: Nanos) -> i128 {
    i128::from(rate_per_s) * i128::from(time) / i128::from(SECOND)
}
