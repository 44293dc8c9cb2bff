//! Engines perform I/O. They know requests, not the loop that submits them.

pub(crate) mod buffers;
mod capabilities;
pub(crate) mod emulated;
pub(crate) mod files;
mod local;
mod metadata;
pub mod nfs;
mod null;
pub(crate) mod request;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use capabilities::capabilities;
pub use local::{AioEngine, Setup, SyncEngine, UringEngine};
pub(crate) use local::{MmapEngine, SpaceEngine};
pub(crate) use metadata::MetadataEngine;
pub(crate) use null::NullEngine;
