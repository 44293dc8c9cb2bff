//! Quality of service as decisions: when may an operation be answered? Time is an argument.

use iocurve_meter::{Nanos, TokenBucket};
use serde::{Deserialize, Serialize};

/// What a volume is limited to. Reads and writes are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Bytes of READ and WRITE data per second.
    pub throughput_bytes_per_s: Option<u64>,
    /// READ and WRITE operations per second.
    pub iops: Option<u64>,
    /// Added to every READ and WRITE.
    pub latency_ns: Nanos,
}

impl Limits {
    /// Whether there is anything to limit.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}

/// The volume's buckets.
#[derive(Debug)]
pub struct Qos {
    throughput: Option<TokenBucket>,
    iops: Option<TokenBucket>,
    latency_ns: Nanos,
}

impl Qos {
    /// Fraction of a second that a volume which was idle may catch up on: 1/64 s, 15.6 ms.
    const BURSTS_PER_S: u64 = 64;

    /// Full buckets.
    pub fn new(limits: Limits, now: Nanos) -> Self {
        let bucket = |rate: u64| TokenBucket::new(rate, (rate / Self::BURSTS_PER_S).max(1), now);
        Self {
            throughput: limits.throughput_bytes_per_s.map(bucket),
            iops: limits.iops.map(bucket),
            latency_ns: limits.latency_ns,
        }
    }

    /// Counts one READ or WRITE that moves `bytes` and returns how long after `now` it may be answered.
    pub fn admit(&mut self, now: Nanos, bytes: u64) -> Nanos {
        let take = |bucket: &mut Option<TokenBucket>, cost| bucket.as_mut().map_or(0, |bucket| bucket.take(now, cost));
        let queued = take(&mut self.throughput, bytes).max(take(&mut self.iops, 1));
        queued + self.latency_ns
    }
}

#[cfg(test)]
mod tests {
    use iocurve_meter::SECOND;

    use super::*;

    #[test]
    fn throughput_is_exact_to_the_nanosecond() {
        let limits = Limits { throughput_bytes_per_s: Some(64 << 20), ..Limits::default() };
        let mut qos = Qos::new(limits, 0);
        // The burst is 1 MiB; each further MiB is due 1/64 s after the one before.
        assert_eq!(qos.admit(0, 1 << 20), 0);
        for n in 1..=64 {
            assert_eq!(qos.admit(0, 1 << 20), n * SECOND / 64);
        }
    }

    #[test]
    fn the_tighter_limit_decides_and_latency_comes_on_top() {
        let limits = Limits { throughput_bytes_per_s: Some(6400), iops: Some(64), latency_ns: 7 };
        let mut qos = Qos::new(limits, 0);
        assert_eq!(qos.admit(0, 100), 7);
        assert_eq!(qos.admit(0, 10), SECOND / 64 + 7, "IOPS");
        assert_eq!(qos.admit(0, 590), SECOND * 6 / 64 + 7, "throughput");
        assert_eq!(qos.admit(SECOND, 1), 7, "rested");
    }

    #[test]
    fn no_limits_no_wait() {
        assert!(!Limits::default().any());
        assert!(Limits { latency_ns: 1, ..Limits::default() }.any());
        assert_eq!(Qos::new(Limits::default(), 5).admit(9, u64::MAX), 0);
    }
}
