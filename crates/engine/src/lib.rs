//! The engine: plan → threads → I/O → outcome.
//!
//! [`Run::start`] takes a [`plan::Plan`] and returns, in the end, an [`outcome::Outcome`]. In between, each worker is one
//! thread with its own engine and memory. On the hot path nothing is shared and nothing is allocated per operation.
//!
//! # The rooms
//!
//! Each room is a folder (or a file), and uses only rooms below it:
//!
//! ```text
//! run        the run: groups, threads, opening engines, steady state, live view
//! check      refuses plans that cannot be carried out
//! worker     the loop: phase, load, submit gate, range locks, mix, supply
//! layout     files before and after the load, local or on NFS
//! verify     stamps blocks, reads them back, compares
//! record     counts, latencies, batch levels, log
//! payload    the data that are written
//! offsets    file and offset of the next operation; replay
//! engines    requests, buffers, and what carries them out: null, local, nfs, emulated
//! cpu        CPU time and binding of the calling thread
//! error      errors with texts for people
//! outcome    what was measured: mirrored by Python
//! plan       what runs: mirrored by Python; facts.rs has what follows from it
//! chance     random numbers that repeat from their seed
//! ```
//!
//! The worker owns time, pacing and accounting; an engine moves bytes and knows neither. A worker's loop is in
//! `worker/load.rs`: it looks for the end, fills, reaps and completes. Where it stands is its `worker/phase.rs`.
//!
//! # To add an engine
//!
//! 1. `plan/target.rs`: a variant of [`plan::EnginePlan`], and its mirror in Python.
//! 2. `engines/`: a type that implements [`Engine`]. `engines/testing.rs` has the suite that engines for local files pass.
//! 3. `engines/capabilities.rs`: what it can do. Checks, layout and verification follow from that.
//! 4. `run/open.rs`: opens it.

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
