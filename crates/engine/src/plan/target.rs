//! Engines, how files are opened and mounted, and the files themselves.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use iocurve_meter::Nanos;

/// How I/O is carried out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum EnginePlan {
    /// Nothing is done: the cost of the loop itself.
    Null {},
    /// pread and pwrite, one at a time.
    Sync {
        /// How files are opened.
        open: FileOpen,
    },
    /// Linux native AIO (`io_submit`).
    Aio {
        /// How files are opened.
        open: FileOpen,
    },
    /// `io_uring` with registered files and buffers.
    Uring {
        /// How files are opened.
        open: FileOpen,
    },
    /// Copies from and to files mapped into memory; a flush is `msync`.
    Mmap {
        /// How files are opened.
        open: FileOpen,
    },
    /// User-space NFS over `nconnect` TCP connections of this worker's own.
    Nfs {
        /// Which server and export, and how to talk to it.
        mount: NfsMount,
    },
}

/// How local files are opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileOpen {
    /// Bypass the page cache (`O_DIRECT`).
    pub direct: bool,
    /// What a completed write promises.
    pub durability: Durability,
    /// Drop the file's pages from the page cache before the run.
    pub invalidate: bool,
}

/// What a completed write promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Nothing (NFS: UNSTABLE).
    None,
    /// The data are on stable storage (`O_DSYNC`; NFS: `DATA_SYNC`).
    DataSync,
    /// Data and attributes are (`O_SYNC`; NFS: `FILE_SYNC`).
    FileSync,
}

/// A user-space NFS mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NfsMount {
    /// Host name or address.
    pub host: String,
    /// TCP port of the NFS program; `null` asks the server's portmapper.
    #[serde(deserialize_with = "Option::deserialize")]
    pub port: Option<u16>,
    /// TCP port of the MOUNT program; `null` asks the server's portmapper.
    #[serde(deserialize_with = "Option::deserialize")]
    pub mount_port: Option<u16>,
    /// Exported path, as the MOUNT program knows it.
    pub export: String,
    /// Protocol version; 3.
    pub version: u32,
    /// TCP connections, 1 to 16.
    pub nconnect: u32,
    /// `AUTH_SYS` user.
    pub uid: u32,
    /// `AUTH_SYS` group.
    pub gid: u32,
    /// What a completed write promises.
    pub durability: Durability,
    /// Give up when the server has not answered for this long.
    pub timeout_ns: Nanos,
    /// Whether READ payload reaches the worker's buffers (`false` lets large payloads be discarded in the kernel).
    pub keep_payload: bool,
    /// Address of this machine that all connections come from, MOUNT's too; `null` leaves the choice to the system.
    #[serde(deserialize_with = "Option::deserialize")]
    pub source: Option<IpAddr>,
}

/// One file (or device) and the region of it that is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilePlan {
    /// Path; for NFS relative to the export.
    pub path: String,
    /// Where the region starts.
    pub offset_bytes: u64,
    /// How long the region is.
    pub bytes: u64,
    /// Where in the region sequential operations begin.
    pub start_bytes: u64,
    /// What is done before the run.
    pub layout: Layout,
    /// Whether the file stays after the run; `false` removes it if this run created it.
    pub keep: bool,
}

/// What is done to a file before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// It must be there and long enough (always so for devices and the null engine).
    Existing,
    /// Created if missing, written up to the region's end where it is shorter; what is there stays.
    Fill,
    /// Created if missing, extended without writing where it is shorter; what is there stays.
    Reserve,
    /// Must not exist; created and written.
    New,
    /// Created if missing, with whatever length it has; operations beyond its end extend it or move nothing.
    Create,
    /// Created if missing, emptied if not, and written: what was there is lost (the user said so).
    Recreate,
    /// As `Recreate`, but extended without writing.
    RecreateReserve,
}

/// Which file the next operation goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileSelect {
    /// One operation each, in order.
    RoundRobin,
    /// Any, with equal chance.
    Random,
    /// Any, with a chance that goes by the size of its region: all bytes are as likely.
    BySize,
    /// The first to its end, then the next.
    Sequential,
}
