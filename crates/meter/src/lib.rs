//! Clock, latency histogram, pacer, token bucket and random numbers.
//!
//! This crate has no I/O, no threads and no networks. Except for [`Clock`], time is always an argument, so that tests
//! can check every decision to the nanosecond.

mod bucket;
mod clock;
mod latencies;
mod pacer;
mod rng;

pub use bucket::{PARTS, TokenBucket};
pub use clock::Clock;
pub use latencies::{Latencies, LatencyError};
pub use pacer::Pacer;
pub use rng::{Rng, mix, seed_of};

/// Nanoseconds: a duration, or the time since the zero of a clock.
pub type Nanos = u64;

/// One second.
pub const SECOND: Nanos = 1_000_000_000;
