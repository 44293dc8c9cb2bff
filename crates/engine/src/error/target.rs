//! Reasons why a target does not meet a plan's needs, with messages for the user.

use std::io;

use iocurve_wire::client_fast::Malformed;
use thiserror::Error;

/// A file, a directory, a device or an export is not what the plan needs.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum TargetError {
    #[error("{path} already exists and is not overwritten; remove it or use another name")]
    Exists { path: String },
    #[error("{path} does not exist, and this job does not create it; check the path or create it first")]
    Missing { path: String },
    #[error("{path} does not exist on the export, and this job does not create it; check the path")]
    MissingOnExport { path: String },
    #[error("create {path}: the directory {directory} does not exist; create it first")]
    MissingParent { path: String, directory: String },
    #[error("{path}: the directory {directory} does not exist; create it first")]
    MissingDirectory { path: String, directory: String },
    #[error("{root}: there is no directory {name} on the export; create it first")]
    MissingInRoot { root: String, name: String },
    #[error("{path} is not a directory; use another name")]
    NotADirectory { path: String },
    #[error("{path} on {server} is not a directory")]
    NotADirectoryOnServer { path: String, server: String },
    #[error("{path}: {name} is not a directory")]
    NotADirectoryIn { path: String, name: String },
    #[error("{name} in {root} is not a directory")]
    NotADirectoryInRoot { root: String, name: String },
    #[error("{path} on {server} is not a regular file")]
    NotAFileOnServer { path: String, server: String },
    #[error("{path} is not a regular file and cannot be recreated; use it without recreating, or name a regular file")]
    NotRecreatable { path: String },
    #[error("{path} is {kind}; name a file in it or a block device")]
    NoLength { path: String, kind: &'static str },
    #[error(
        "{path} is neither a regular file nor a directory, and metadata operations are for those; name another path"
    )]
    NoMetadata { path: String },
    #[error("{path:?} names no file in the export")]
    NoName { path: String },
    #[error("{path}: .. is not allowed in paths of an export; name the file directly")]
    Parent { path: String },
    #[error("{path} has {length} bytes, but the plan uses {end}; use a smaller size or offset")]
    Short { path: String, length: u64, end: u64 },
    #[error(
        "{path} has {length} bytes, but the region starts at {start} and is {bytes} bytes long; use a smaller size or offset"
    )]
    ShortOfRegion { path: String, length: u64, start: u64, bytes: u64 },
    #[error("lay out {path}: no space: the run needs {missing} more bytes here, but {}", no_space(*available))]
    NoSpace { path: String, missing: u64, available: Option<u64> },
    #[error("{path} is empty; what is to be written cannot be taken from it")]
    Empty { path: String },
    #[error("{path} is in use by {user}; writing to it would destroy its data: unmount it or use another device")]
    InUse { path: String, user: String },
    #[error(
        "open {path}: its file system does not support direct I/O (O_DIRECT); switch direct I/O off or use another file system"
    )]
    NoDirect { path: String },
    #[error(
        "{what} of {value} bytes is not a multiple of {multiple} bytes, which direct I/O on {path} needs; use a multiple of \
         {multiple} or switch direct I/O off"
    )]
    Unaligned { what: String, value: u64, multiple: u64, path: String },
    #[error("{path}: the server lists more than {most} entries of one directory; use several directories")]
    TooManyEntries { path: String, most: usize },
    #[error("{path}: the server wrote {written} of {bytes} bytes")]
    PartlyWritten { path: String, written: usize, bytes: usize },
    #[error("{path}: invalid reply from server {server}: {why}")]
    InvalidReply { path: String, server: String, why: Malformed },
    #[error("{path} ({purpose}): {source}")]
    Mapped { path: String, purpose: String, source: io::Error },
    #[error("{path} is not a valid state of an emulated disk ({why}); remove it to start with a new disk")]
    DiskState { path: String, why: String },
    #[error(
        "{directory}: the emulated disk is in use by another run; wait until that run has ended, or name another directory"
    )]
    DiskInUse { directory: String },
    #[error(
        "{job}: an operation took {service_ns} ns with nothing else in flight: no depth meets the latency target of {target_ns} \
         ns"
    )]
    SlowerThanTarget { job: String, service_ns: u64, target_ns: u64 },
}

fn no_space(available: Option<u64>) -> String {
    match available {
        Some(available) => format!("{available} are available; free space or use a smaller size"),
        None => "the file system took fewer; a quota may apply, or another program wrote".to_owned(),
    }
}
