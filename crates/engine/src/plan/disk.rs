//! Emulated disks.

use serde::{Deserialize, Serialize};

use iocurve_meter::Nanos;

/// A disk of a cloud, emulated over local files: each operation is done at once and handed back when the disk and its
/// virtual machine would have had it done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskPlan {
    /// What people call it.
    pub name: String,
    /// File that keeps what the cache holds and the burst credits from run to run. Workers that name the same one share the
    /// disk; while a run uses it, no other can use one in the same directory.
    pub state_path: String,
    /// Of the disk itself, or of several striped ones together.
    pub limits: IoLimits,
    /// The largest operation that counts as one; a larger one counts as several.
    pub io_bytes: u32,
    /// What its virtual machine's host keeps of it.
    pub cache: HostCache,
    /// Added to each operation that goes to the disk.
    pub latency_ns: Nanos,
    /// What it is attached to; `null` sets no further limits.
    #[serde(deserialize_with = "Option::deserialize")]
    pub vm: Option<VmPlan>,
}

/// What a host keeps of a disk near its virtual machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostCache {
    /// Nothing.
    None,
    /// What was read or written; writes are done once the disk has them.
    ReadOnly,
    /// What was read or written; writes are done once the cache has them, and go to the disk later.
    ReadWrite,
}

/// A virtual machine, whose limits all disks with the same name of it share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VmPlan {
    /// Its name.
    pub name: String,
    /// Of what goes to disks.
    #[serde(deserialize_with = "Option::deserialize")]
    pub uncached: Option<IoLimits>,
    /// Of what goes to disks with a host cache, whether it is in the cache or not.
    #[serde(deserialize_with = "Option::deserialize")]
    pub cached: Option<IoLimits>,
    /// Size of the cache of all its disks.
    pub cache_bytes: u64,
}

/// Operations and bytes per second, reads and writes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IoLimits {
    /// Operations per second; at least 1.
    pub iops: u64,
    /// Bytes per second; at least 1.
    pub bytes_per_s: u64,
    /// What can be had beyond that for a time.
    #[serde(deserialize_with = "Option::deserialize")]
    pub burst: Option<IoBurst>,
}

/// Limits that hold while credits last: each operation and byte above the limits costs one, each below gains one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IoBurst {
    /// Operations per second; at least the limit.
    pub iops: u64,
    /// Bytes per second; at least the limit.
    pub bytes_per_s: u64,
    /// How long the credits last at the full burst, if none are gone yet.
    pub duration_ns: Nanos,
}
