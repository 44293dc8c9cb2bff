//! Plan → threads → I/O → recordings.
//!
//! [`Run::start`] takes a [`plan::Plan`] and gives back, in the end, an [`outcome::Outcome`]. In between, each worker is one
//! thread with its own engine and memory; nothing is shared on the hot path and nothing is allocated per operation.

#![warn(unreachable_pub)]

mod chance;
mod check;
mod cpu;
pub mod engines;
mod error;
pub mod layout;
mod offsets;
pub mod outcome;
mod payload;
pub mod plan;
mod record;
mod run;
mod verify;
mod worker;

pub use engines::buffers::{Buffers, SlotMap};
pub use engines::request::{Address, Completion, Engine, Request};
pub use error::{EngineError, Fault};
pub use run::Run;
pub use run::ceiling::null_ceiling;
