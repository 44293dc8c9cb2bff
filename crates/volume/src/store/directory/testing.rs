//! A hold of tests on the system calls of this thread: they fail on demand, and are recorded.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::MutexGuard;

use super::{DirectoryStore, sys};

thread_local! {
    static FAILING_SYNCS: Cell<u32> = const { Cell::new(0) };
    static RECORDED: RefCell<Option<Vec<Event>>> = const { RefCell::new(None) };
}

/// A system call that changed something, or put it on stable storage. Files and directories go by their inodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) enum Event {
    Make { directory: u64, name: Vec<u8>, inode: u64, is_directory: bool },
    Unlink { directory: u64, name: Vec<u8> },
    Rename { from: u64, old: Vec<u8>, to: u64, new: Vec<u8> },
    Link { inode: u64, directory: u64, name: Vec<u8> },
    Size { inode: u64, size: u64 },
    Write { inode: u64, offset: u64, data: Vec<u8> },
    Sync { inode: u64 },
}

/// Lets the next `count` calls that put something on stable storage fail, as on a disk that does not write.
pub(in crate::store) fn fail_syncs(count: u32) {
    FAILING_SYNCS.set(count);
}

impl DirectoryStore {
    /// Holds what changes of names take turns by.
    pub(in crate::store) fn hold_names(&self) -> MutexGuard<'_, ()> {
        self.namespace()
    }
}

/// Records the calls of this thread from now on.
pub(in crate::store) fn record() {
    RECORDED.set(Some(Vec::new()));
}

/// Number of calls that were recorded so far.
pub(in crate::store) fn recorded() -> usize {
    RECORDED.with_borrow(|events| events.as_ref().map_or(0, Vec::len))
}

/// Ends the record.
pub(in crate::store) fn take_record() -> Vec<Event> {
    RECORDED.take().unwrap_or_default()
}

/// The inode of an open file.
pub(in crate::store) fn inode(fd: &impl AsFd) -> u64 {
    sys::stat(fd).map_or(0, |stat| stat.id.inode)
}

pub(super) fn note(event: impl FnOnce() -> Event) {
    RECORDED.with_borrow_mut(|events| {
        if let Some(events) = events {
            events.push(event());
        }
    });
}

/// Notes a call that puts a file on stable storage, unless it is to fail.
pub(super) fn before_sync(file: &(impl AsFd + AsRawFd)) -> io::Result<()> {
    match FAILING_SYNCS.get() {
        0 => {
            note(|| Event::Sync { inode: inode(file) });
            Ok(())
        }
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
