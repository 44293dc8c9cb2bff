//! A user-space NFS client: many calls in flight on each of `nconnect` TCP connections.
//!
//! A version of NFS is a `protocol` (`nfs3`, `nfs4`): its `calls` mount the `export` over a `transport`, `files` prepares files there,
//! and [`NfsEngine`] carries the load (`load`). Calls that follow from each other are a `conversation`, which both make.
//!
//! Only `transport`, the mounts in `calls`, and `load`'s engine and `connection` know sockets and clocks. The rest sends
//! and receives by a `stream`, and time is an argument: tests give it bytes.

mod calls;
mod conversation;
pub mod counting;
mod export;
mod files;
mod load;
mod metadata;
mod names;
mod nfs3;
mod nfs4;
mod protocol;
mod status;
mod stream;
#[cfg(test)]
mod tests;
mod transport;
mod version;

pub use files::{SmallFiles, layout, remove, small_files};
pub(crate) use files::{absent, find_tree};
pub use load::NfsEngine;
pub(crate) use metadata::{NfsMetadataEngine, Opening};
pub use names::FileFacts;
pub use nfs3::Nfs3;
pub use nfs4::Nfs4;
pub use version::Version;
pub(crate) use version::with_version;
