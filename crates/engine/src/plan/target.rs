//! Targets of the load: engines, mounts and files.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use iocurve_meter::Nanos;

/// Engine that performs the I/O.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(extend("class" = "{}Engine")))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum EnginePlan {
    /// No I/O: the cost of the loop itself.
    Null {},
    /// pread and pwrite, one at a time.
    Sync {
        /// Flags that files are opened with.
        open: FileOpen,
    },
    /// Linux native AIO (`io_submit`).
    Aio {
        /// Flags that files are opened with.
        open: FileOpen,
    },
    /// `io_uring` with registered files and buffers.
    Uring {
        /// Flags that files are opened with.
        open: FileOpen,
    },
    /// Copies from and to files mapped into memory; a flush is `msync`.
    Mmap {
        /// Flags that files are opened with.
        open: FileOpen,
    },
    /// User-space NFS over `nconnect` TCP connections that belong to this worker.
    Nfs {
        /// Server, export and connections.
        mount: NfsMount,
    },
    /// Calls that allocate or cut the space of files, one at a time; they move no data (fio's falloc and ftruncate).
    Space {
        /// Flags that files are opened with.
        open: FileOpen,
        /// The call that an operation makes.
        call: SpaceCall,
    },
    /// Metadata operations on local files and directories, with reads and writes of open files: those of a tree in threads, one
    /// for each operation in flight, others one at a time.
    Metadata {
        /// Flags that files are opened with.
        open: FileOpen,
        /// Create and open leave the file open for reads and writes, until it is closed or deleted; otherwise they
        /// close it at once.
        keep_open: bool,
    },
    /// Metadata operations on an NFS export, with reads and writes of open files: calls in flight on the connections.
    NfsMetadata {
        /// Server and export.
        mount: NfsMount,
        /// As in `MetadataEngine`.
        keep_open: bool,
    },
}

/// Call of the space engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SpaceCall {
    /// `fallocate(2)` of the range: a write allocates it and extends the file, a read allocates it and keeps the length,
    /// a trim punches a hole.
    Fallocate,
    /// `ftruncate(2)` of the file to the offset of a write.
    Ftruncate,
}

/// Flags that local files are opened with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FileOpen {
    /// Bypass the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Guarantee of a completed write.
    pub durability: Durability,
    /// Drop the file's pages from the page cache before the run and, without `direct`, before each further pass.
    pub invalidate: bool,
}

/// Guarantee of a completed write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// No guarantee (NFS: UNSTABLE).
    None,
    /// The data are on stable storage (`O_DSYNC`; NFS: `DATA_SYNC`).
    DataSync,
    /// Data and attributes are on stable storage (`O_SYNC`; NFS: `FILE_SYNC`).
    FileSync,
}

/// A user-space NFS mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    /// Protocol version: 3, or 4 for 4.1.
    #[cfg_attr(test, schemars(extend("enum" = [3, 4])))]
    pub version: u32,
    /// TCP connections of each worker, 1 to 16.
    #[cfg_attr(test, schemars(range(min = 1, max = 16)))]
    pub nconnect: u32,
    /// `AUTH_SYS` user.
    pub uid: u32,
    /// `AUTH_SYS` group.
    pub gid: u32,
    /// Guarantee of a completed write.
    pub durability: Durability,
    /// The engine gives up when the server has not answered for this long.
    pub timeout_ns: Nanos,
    /// READ payload is copied to the worker's buffers; otherwise large payloads are discarded in the kernel.
    pub keep_payload: bool,
    /// Local address of all connections, MOUNT's too; `null` leaves the choice to the system.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub source: Option<IpAddr>,
    /// NFSv4.1: slots to ask the server for, the most calls in flight of each worker; 1 to 1024.
    #[cfg_attr(test, schemars(range(min = 1, max = 1024), extend("default" = 64)))]
    pub session_slots: u32,
    /// Most bytes of one READ, also where the server takes more; `null` is the server's limit.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default, range(min = 1024, max = 1_048_576)))]
    pub rsize: Option<u32>,
    /// Most bytes of one WRITE, also where the server takes more; `null` is the server's limit.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default, range(min = 1024, max = 1_048_576)))]
    pub wsize: Option<u32>,
    /// TLS of all connections but the portmapper's (RFC 9289); `null`: nothing is encrypted.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub tls: Option<NfsTls>,
}

/// TLS of a user-space NFS mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NfsTls {
    /// PEM file with the authorities that are trusted; `null`: those of the system.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub ca: Option<String>,
    /// PEM file with the client's certificate and its key, for servers that ask for one.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(test, schemars(default))]
    pub certificate: Option<String>,
    /// Any certificate is accepted: encrypted, but the server is not known.
    #[cfg_attr(test, schemars(default))]
    pub insecure: bool,
}

/// A file or device, and the region of it that is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FilePlan {
    /// Path; for NFS relative to the export.
    pub path: String,
    /// Start of the region.
    pub offset_bytes: u64,
    /// Length of the region.
    pub bytes: u64,
    /// Offset in the region at which sequential operations begin.
    #[cfg_attr(test, schemars(default))]
    pub start_bytes: u64,
    /// Preparation before the run.
    pub layout: Layout,
    /// The file stays after the run; otherwise the run removes it if it created it.
    pub keep: bool,
}

/// Preparation of a file before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// The file must exist and be long enough (always so for devices and the null engine).
    Existing,
    /// Created if missing, and written up to the region's end; existing data stay.
    Fill,
    /// Created if missing, and extended to the region's end without writing; existing data stay.
    Reserve,
    /// The file must not exist; it is created and written.
    New,
    /// Created if missing; the length stays. Writes behind the end extend the file, reads there return no data.
    Create,
    /// Created if missing, emptied if not, and written. Existing data are lost: the user requested it.
    Recreate,
    /// As `recreate`, but extended without writing.
    RecreateReserve,
    /// A directory, created if missing; what it has stays.
    Directory,
    /// Nothing is prepared: metadata operations create the file or directory, or find it there.
    Nothing,
}

/// Order in which operations go to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileSelect {
    /// One file after another, in turn.
    RoundRobin,
    /// Random, all files equally likely.
    Random,
    /// Random, in proportion to the size of the region: all bytes are equally likely.
    BySize,
    /// One file to its end, then the next.
    Sequential,
}
