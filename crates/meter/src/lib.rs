//! Numbers only: clock, histogram, recorder, pacer, token bucket. Time is an argument.

/// Nanoseconds, as a length of time or since a clock's own start.
pub type Nanos = u64;
