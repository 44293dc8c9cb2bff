//! A hold of tests on the system calls of this thread.

use std::cell::Cell;
use std::fs::File;
use std::io;

use super::DirectoryStore;

thread_local! {
    static FAILING_SYNCS: Cell<u32> = const { Cell::new(0) };
}

/// Lets the next `count` calls that put something on stable storage fail, as on a disk that does not write.
pub(in crate::store) fn fail_syncs(count: u32) {
    FAILING_SYNCS.set(count);
}

pub(super) fn before_sync(_: &File) -> io::Result<()> {
    match FAILING_SYNCS.get() {
        0 => Ok(()),
        count => {
            FAILING_SYNCS.set(count - 1);
            Err(io::Error::from_raw_os_error(libc::EIO))
        }
    }
}

impl DirectoryStore {
    /// Takes everything below the directory for files of another file system.
    pub(in crate::store) fn pretend_device(&mut self, device: (u32, u32)) {
        self.device = device;
    }
}
