//! Engines: what carries out I/O.

pub mod buffers;
mod capabilities;
pub(crate) mod emulated;
pub mod files;
pub mod local;
pub mod nfs;
mod null;
pub mod request;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use capabilities::capabilities;
pub use local::{AioEngine, MmapEngine, Setup, SyncEngine, UringEngine};
pub use null::NullEngine;
