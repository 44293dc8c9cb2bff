//! Small files of an export, each read or written in one call, and facts about others: for the manifests of runs.

use std::sync::atomic::AtomicBool;

use super::nfs3::Nfs3;
use super::nfs4::Nfs4;
use super::protocol::{Protocol, Session as _};
use super::version::Version;
use crate::error::EngineError;
use crate::plan::NfsMount;

/// Facts about a file, by which it is known again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFacts {
    /// A regular file with one name.
    pub is_plain: bool,
    /// Length.
    pub bytes: u64,
    /// Number of the file in its file system.
    pub id: u64,
    /// Time of the last change of its data, since 1970.
    pub modified_ns: u64,
    /// User number, or the name that a server of `NFSv4.1` gives.
    pub owner: String,
}

/// An export, as a place for small files in its root.
pub trait SmallFiles {
    /// Names in the root. Names that are not UTF-8 are left out.
    fn names(&mut self) -> Result<Vec<String>, EngineError>;

    /// Facts about a file; `None` if there is none.
    fn facts(&mut self, name: &str) -> Result<Option<FileFacts>, EngineError>;

    /// Reads the first `bytes_max` bytes of a file.
    fn read(&mut self, name: &str, bytes_max: u32) -> Result<Vec<u8>, EngineError>;

    /// Writes the beginning of a file, to stable storage and in one call; `new` creates it and fails if it exists.
    fn write(&mut self, name: &str, data: &[u8], new: bool) -> Result<(), EngineError>;

    /// Removes a file; ignores a missing one.
    fn remove(&mut self, name: &str) -> Result<(), EngineError>;
}

/// Mounts an export.
pub fn small_files<'a>(mount: &NfsMount, stop: &'a AtomicBool) -> Result<Box<dyn SmallFiles + 'a>, EngineError> {
    match Version::of(mount)? {
        Version::V3 => Ok(Box::new(<Nfs3 as Protocol>::Session::open(mount, stop)?)),
        Version::V4_1 => Ok(Box::new(<Nfs4 as Protocol>::Session::open(mount, stop)?)),
    }
}

/// Checks that the server wrote all bytes of a small file.
pub(super) fn check_written(name: &str, written: u32, count: u32) -> Result<(), EngineError> {
    if written != count {
        return Err(EngineError::Target(format!("{name}: the server wrote {written} of {count} bytes")));
    }
    Ok(())
}
