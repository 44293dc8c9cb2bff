//! Plan → threads → I/O → recordings.

pub mod error;
pub mod outcome;
pub mod plan;
pub mod request;

pub use error::EngineError;
pub use request::{Buffers, Completion, Engine, Request};
