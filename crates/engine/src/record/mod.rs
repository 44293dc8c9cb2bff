//! What a worker measured: counts and latencies by kind and interval, levels, and a log of operations.

mod done;
mod levels;
pub(crate) mod log;
pub(crate) mod recorder;

pub use done::Done;
pub use levels::Levels;
pub use recorder::{Recorded, Recorder, Tally};
