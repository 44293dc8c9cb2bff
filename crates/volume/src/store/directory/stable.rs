//! Stable storage: what is put there before a reply, and what a failure means.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use iocurve_wire::nfs3::{ftype3, stable_how};

use super::open_files::OpenFile;
use super::sys::{self, Stat};

/// Puts files and names on stable storage.
#[derive(Debug)]
pub(super) struct Stable {
    /// Changes of names and attributes are answered before they are stable.
    is_async: bool,
    /// Calls that failed. The system reports once that it could not write data, and may have dropped them by then.
    failures: AtomicU64,
}

impl Stable {
    pub(super) fn new(is_async: bool) -> Self {
        Self { is_async, failures: 0.into() }
    }

    pub(super) fn is_async(&self) -> bool {
        self.is_async
    }

    pub(super) fn failures(&self) -> u64 {
        self.failures.load(SeqCst)
    }

    /// Puts data of a file on stable storage as a WRITE says. One call after the other: the system reports a failure to one of them,
    /// and those that follow must find it noted.
    pub(super) fn data(&self, open: &OpenFile, how: stable_how) -> io::Result<()> {
        if how == stable_how::UNSTABLE {
            return Ok(());
        }
        let _syncing = open.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        self.noted(if how == stable_how::DATA_SYNC { sync_data(&open.file) } else { sync_all(&open.file) })
    }

    /// Puts the attributes of a new or changed file on stable storage.
    pub(super) fn attributes(&self, open: &OpenFile) -> io::Result<()> {
        if self.is_async { Ok(()) } else { self.data(open, stable_how::FILE_SYNC) }
    }

    /// As [`Self::attributes`], of a file that is no regular one. What cannot be opened is put there with its file system.
    pub(super) fn attributes_of(&self, file: &OwnedFd, stat: &Stat, root: &OwnedFd) -> io::Result<()> {
        match stat.file_type {
            _ if self.is_async => Ok(()),
            ftype3::NF3DIR => self.names(file, root),
            _ => self.noted(sys::reopen_directory(root).and_then(|root| sys::sync_file_system(&root))),
        }
    }

    /// Puts the names of a directory on stable storage, and its attributes.
    pub(super) fn names(&self, directory: &OwnedFd, root: &OwnedFd) -> io::Result<()> {
        if self.is_async {
            return Ok(());
        }
        self.noted(match sys::reopen_directory(directory) {
            Ok(directory) => return self.open_names(directory),
            // This process may change the directory, but not read it.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                sys::reopen_directory(root).and_then(|root| sys::sync_file_system(&root))
            }
            Err(error) => Err(error),
        })
    }

    /// As [`Self::names`], of a directory that is open for reading.
    pub(super) fn open_names(&self, directory: OwnedFd) -> io::Result<()> {
        self.noted(sync_all(&File::from(directory)))
    }

    fn noted(&self, synced: io::Result<()>) -> io::Result<()> {
        if synced.is_err() {
            self.failures.fetch_add(1, SeqCst);
        }
        synced
    }
}

fn sync_data(file: &File) -> io::Result<()> {
    #[cfg(test)]
    super::testing::before_sync(file)?;
    file.sync_data()
}

fn sync_all(file: &File) -> io::Result<()> {
    #[cfg(test)]
    super::testing::before_sync(file)?;
    file.sync_all()
}
