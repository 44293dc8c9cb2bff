//! The engine: plan → threads → I/O → outcome.
//!
//! [`Run::start`] takes a [`plan::Plan`]; the run returns an [`outcome::Outcome`] at its end. Each worker is one thread
//! with its own engine and memory. The hot path shares nothing between threads and does not allocate.
//!
//! # Modules
//!
//! Each module uses only modules below it in this list:
//!
//! ```text
//! run        the run: groups, threads, opening engines, trees, steady state, live view
//! check      refuses plans that cannot run
//! worker     the loop: phase, load, submit gate, range locks, mix, walk, supply
//! layout     creates and removes the files of a load, local or on NFS
//! verify     stamps blocks, reads them back, compares
//! record     counts, latencies, batch levels, log
//! payload    the data that are written
//! offsets    file and offset of the next operation; replay
//! engines    requests, buffers, and the engines: null, local, metadata, nfs, emulated
//! tree       directory trees: names, sizes, and what exists of them
//! mapped     files mapped into memory, which survive the process
//! stall      waits for servers, for the live view and the outcome
//! cpu        CPU time and binding of the calling thread
//! error      errors, with messages for the user
//! outcome    results of a run
//! plan       input of a run; facts.rs derives values from it
//! permutation  blocks in pseudo-random order, each once
//! ```
//!
//! `contract.rs` generates the Python structs of plan and outcome.
//!
//! The worker owns time, pacing and accounting; an engine moves bytes and knows neither. A worker's loop is in
//! `worker/load.rs`: it checks the end conditions, fills, reaps and completes. Its state is in `worker/phase.rs`.
//!
//! # To add an engine
//!
//! 1. `plan/target.rs`: a variant of [`plan::EnginePlan`]; `make contract` writes its struct in Python.
//! 2. `engines`: a module that implements [`Engine`].
//! 3. `engines/capabilities.rs`: its capabilities. Checks, layout and verification depend on them.
//! 4. `run/open.rs`: opens it.

mod check;
#[cfg(test)]
mod contract;
mod cpu;
pub mod engines;
mod error;
pub mod layout;
mod mapped;
mod offsets;
pub mod outcome;
mod payload;
mod permutation;
pub mod plan;
mod record;
mod run;
mod stall;
mod tree;
mod verify;
mod worker;

pub use check::check as check_plan;
pub use engines::buffers::{Buffers, SlotMap};
pub use engines::request::{Address, Completion, Engine, Request};
pub use error::{ConnectionError, EngineError, InvalidReply, TargetError};
pub use run::Run;
pub use run::ceiling::null_ceiling;
