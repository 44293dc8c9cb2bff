//! Plan → threads → I/O → recordings.
//!
//! [`Run::start`] takes a [`plan::Plan`] and gives back, in the end, an [`outcome::Outcome`]. In between, each worker is one
//! thread with its own engine and memory; nothing is shared on the hot path and nothing is allocated per operation.

pub mod chance;
mod check;
mod cpu;
pub mod engines;
pub mod error;
pub mod layout;
pub mod offsets;
pub mod outcome;
pub mod payload;
pub mod plan;
pub mod record;
pub mod run;
pub mod verify;
pub mod worker;

pub use engines::buffers::{Buffers, SlotMap};
pub use engines::request::{Address, Completion, Engine, Request};
pub use error::EngineError;
pub use run::Run;
pub use run::ceiling::null_ceiling;
