//! The record of clients of a directory: an extended attribute of it, so that it goes with the directory and no file shows it. Where the file
//! system has no such attributes there is no record, and a restarted server waits for no client.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::recovery::ClientRecord;

const ATTRIBUTE: &CStr = c"user.iocurve.nfs4_clients";

/// Most bytes that are read.
const BYTES_MAX: usize = 4096;

#[derive(Debug)]
pub(crate) struct DirectoryRecord(Option<CString>);

impl DirectoryRecord {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self(CString::new(directory.into_os_string().as_bytes()).ok())
    }
}

impl ClientRecord for DirectoryRecord {
    fn read(&self) -> Vec<u64> {
        let Some(path) = &self.0 else { return Vec::new() };
        let mut bytes = [0_u8; BYTES_MAX];
        // SAFETY: two strings of ours, and a buffer with its length.
        let length =
            unsafe { libc::getxattr(path.as_ptr(), ATTRIBUTE.as_ptr(), bytes.as_mut_ptr().cast(), bytes.len()) };
        let length = usize::try_from(length).unwrap_or(0);
        bytes[..length].chunks_exact(8).map(|word| u64::from_be_bytes(word.try_into().expect("eight bytes"))).collect()
    }

    fn write(&self, clients: &[u64]) {
        let Some(path) = &self.0 else { return };
        let bytes: Vec<u8> = clients.iter().flat_map(|client| client.to_be_bytes()).collect();
        // SAFETY: two strings of ours, and bytes with their length. Without the attribute clients cannot reclaim, which is no failure.
        unsafe { libc::setxattr(path.as_ptr(), ATTRIBUTE.as_ptr(), bytes.as_ptr().cast(), bytes.len(), 0) };
    }
}
