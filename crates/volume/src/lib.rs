//! The embedded NFS volume: an NFS version 3 server with a service level.
//!
//! [`Volume::start`] binds one TCP port that answers the NFS, MOUNT and port mapper programs. Each thread has a core and the
//! connections whose packets arrive there (`reactor`); a connection's bytes are turned into replies without sockets and clocks
//! (`session`), by way of the call's program (`calls`) to one function per procedure (`data` and `nfs3`). Files are kept by
//! a `store`; limits are decided by `qos`, with time as an argument.

#![warn(unreachable_pub)]

mod config;
mod credential;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod pending;
mod programs;
mod qos;
mod reply;
mod served;
mod server;
mod stats;
mod store;
mod turn;
mod volume;

pub use config::{ExportConfig, StoreConfig, VolumeConfig, VolumeError};
pub use qos::{Bucket, Burst, ClientLimits, ConnectionLimits, Distribution, Latency, Level, Limits, Parallelism};
pub use stats::{CallStats, ClientStats, ConnectionStats, ExportStats, IoStats, Stats};
pub use volume::Volume;
