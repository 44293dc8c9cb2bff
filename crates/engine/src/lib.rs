//! Plan → threads → I/O → recordings.
//!
//! [`Run::start`] takes a [`plan::Plan`] and gives back, in the end, an [`outcome::Outcome`]. In between, each worker is one
//! thread with its own engine and memory; nothing is shared on the hot path and nothing is allocated per operation.

mod board;
mod ceiling;
pub mod chance;
pub mod cpu;
mod disk;
pub mod engines;
pub mod error;
pub mod files;
mod flow;
pub mod layout;
mod levels;
pub mod log;
pub mod offsets;
mod order;
pub mod outcome;
pub mod payload;
pub mod plan;
pub mod plan_check;
pub mod recorder;
pub mod replay;
mod request;
pub mod run;
mod steady;
pub mod targets;
pub mod verify;
pub mod worker;

pub use ceiling::null_ceiling;
pub use error::EngineError;
pub use request::{Buffers, Completion, Engine, Request};
pub use run::Run;
