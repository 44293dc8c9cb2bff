//! Numbers only: clock, latencies, pacer, token bucket.
//!
//! This crate knows no I/O, no threads and no networks. Except for [`Clock`], time is always an argument, so that every
//! decision can be tested to the nanosecond.

mod bucket;
mod clock;
mod latencies;
mod pacer;

pub use bucket::TokenBucket;
pub use clock::Clock;
pub use latencies::{Latencies, LatencyError};
pub use pacer::Pacer;

/// Nanoseconds, as a length of time or since a clock's own start.
pub type Nanos = u64;

/// One second.
pub const SECOND: Nanos = 1_000_000_000;
