//! Emulated disks.

use serde::{Deserialize, Serialize};

use iocurve_meter::Nanos;

/// A cloud disk, emulated over local files: each operation runs immediately, but completes only when the disk and its
/// virtual machine would have completed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DiskPlan {
    /// Name of the disk, for messages.
    pub name: String,
    /// File that keeps the cached blocks and the burst credits from run to run. Workers that name the same file share
    /// the disk. While a run uses the disk, no other run can use one in the same directory.
    pub state_path: String,
    /// Limits of the disk, or of several striped disks together.
    pub limits: IoLimits,
    /// The largest operation that counts as one, in bytes; a larger one counts as several.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub io_bytes: u32,
    /// Caching by the virtual machine's host.
    pub cache: HostCache,
    /// Latency added to each operation that goes to the disk.
    #[cfg_attr(test, schemars(default))]
    pub latency_ns: Nanos,
    /// Virtual machine that the disk is attached to; `null` sets no further limits.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub vm: Option<VmPlan>,
}

/// Caching of a disk by the host of its virtual machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HostCache {
    /// No caching.
    None,
    /// Reads and writes fill the cache; a write completes once it is on the disk.
    ReadOnly,
    /// Reads and writes fill the cache; a write completes once it is in the cache, and goes to the disk later.
    ReadWrite,
}

/// A virtual machine. Disks that name the same one share its limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct VmPlan {
    /// Name of the machine.
    pub name: String,
    /// Limits of operations that go to disks; `null` is no limit.
    #[serde(deserialize_with = "Option::deserialize")]
    pub uncached: Option<IoLimits>,
    /// Limits of operations on disks with a host cache, whether they hit the cache or not.
    #[serde(deserialize_with = "Option::deserialize")]
    pub cached: Option<IoLimits>,
    /// Size of the cache that all disks share.
    pub cache_bytes: u64,
}

/// Operations and bytes per second, reads and writes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct IoLimits {
    /// Operations per second; at least 1.
    pub iops: u64,
    /// Bytes per second; at least 1.
    pub bytes_per_s: u64,
    /// Higher limits while burst credits last.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub burst: Option<IoBurst>,
}

/// Limits that hold while credits last: each operation and byte above the base limits costs a credit, each below gains
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct IoBurst {
    /// Operations per second; at least the base limit.
    pub iops: u64,
    /// Bytes per second; at least the base limit.
    pub bytes_per_s: u64,
    /// Time that full credits last at the full burst.
    pub duration_ns: Nanos,
}
