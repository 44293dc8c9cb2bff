//! What a worker measured: counts and latencies by kind and interval, levels, and a log of operations.

pub mod levels;
pub mod log;
pub mod recorder;

pub use levels::Levels;
pub use recorder::{Done, Recorded, Recorder, Tally};
