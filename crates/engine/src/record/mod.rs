//! Records of a worker: counts and latencies by kind and interval, batch levels, and a log of operations.

pub(crate) mod course;
mod done;
mod levels;
pub(crate) mod log;
pub(crate) mod recorder;

pub(crate) use course::Course;
pub(crate) use done::Done;
pub(crate) use recorder::{Recorded, Recorder, Tally, latency_outcome};
