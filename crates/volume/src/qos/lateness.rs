//! The lateness of threads that ask for tokens.
//!
//! A thread without a processor takes no tokens, so buckets fill up and lose the rest. What they lose so is kept for a while: each
//! bucket then holds more, by the time for which a thread was late in the last second.

use std::collections::VecDeque;

use iocurve_meter::{Nanos, SECOND};

/// A thread that was late has this long to catch up.
const CATCH_UP_NS: Nanos = SECOND;

/// The most for which buckets make up: a quarter of a second's tokens.
const LATE_NS_MAX: Nanos = SECOND / 4;

/// The late times of threads.
#[derive(Debug, Default)]
pub(super) struct Lateness(Vec<LateTimes>);

/// When a thread was late in the last second, and by how much; and the sum.
#[derive(Debug, Default)]
struct LateTimes {
    times: VecDeque<(Nanos, Nanos)>,
    sum_ns: Nanos,
}

impl Lateness {
    /// Notes that a thread comes `late_ns` late `now`.
    pub(super) fn note(&mut self, thread: usize, now: Nanos, late_ns: Nanos) {
        self.0.resize_with(self.0.len().max(thread + 1), LateTimes::default);
        let LateTimes { times, sum_ns } = &mut self.0[thread];
        times.push_back((now, late_ns));
        *sum_ns += late_ns;
    }

    /// The time for which buckets keep what they gain on top of their capacities: that for which the latest thread was late in the
    /// last second, within a bound.
    pub(super) fn late_ns(&mut self, now: Nanos) -> Nanos {
        let late = self.0.iter_mut().map(|thread| thread.sum_ns(now)).max().unwrap_or(0);
        if late == 0 {
            self.0.clear();
        }
        late.min(LATE_NS_MAX)
    }
}

impl LateTimes {
    fn sum_ns(&mut self, now: Nanos) -> Nanos {
        while let Some((_, late_ns)) = self.times.front().filter(|(at, _)| *at + CATCH_UP_NS <= now) {
            self.sum_ns -= late_ns;
            self.times.pop_front();
        }
        self.sum_ns
    }
}
