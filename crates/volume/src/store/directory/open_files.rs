//! Regular files that are kept open between calls, as long as they are used: a file that is open for writing cannot be executed, and
//! one that is open at all keeps its file system busy.

use std::collections::HashMap;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use iocurve_meter::{Nanos, SECOND};

use super::sys::Id;

/// Most files kept open; beyond it all are closed, and opened again as they are used.
const OPEN_FILES_MAX: usize = 512;

/// A file that was not used for this long, and at most for twice as long, is closed.
const IDLE_NS: Nanos = SECOND;

/// No file is open.
const NEVER: Nanos = Nanos::MAX;

/// A file was opened, and the time of the next look is not set yet.
const SOON: Nanos = 0;

#[derive(Debug)]
pub(super) struct OpenFiles {
    files: Mutex<HashMap<Id, Entry>>,
    /// When to look for idle files next.
    next_look: AtomicU64,
}

#[derive(Debug)]
struct Entry {
    file: Arc<OpenFile>,
    access: Access,
    /// Used since the last look.
    is_used: bool,
}

/// A regular file that is open.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: File,
    /// Held while the file is put on stable storage. A file that is opened again for more access keeps it.
    pub(super) syncing: Arc<Mutex<()>>,
}

impl OpenFile {
    pub(super) fn new(file: File) -> Self {
        Self { file, syncing: Arc::default() }
    }
}

/// The use that a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(super) enum Access {
    Read,
    /// Also for reading.
    Write,
}

impl OpenFiles {
    /// A file that is open for at least this use.
    pub(super) fn get(&self, id: Id, access: Access) -> Option<Arc<OpenFile>> {
        let mut files = self.files();
        let open = files.get_mut(&id).filter(|open| open.access >= access)?;
        open.is_used = true;
        Some(Arc::clone(&open.file))
    }

    /// Keeps a file open, in the place of one that was open for less.
    pub(super) fn insert(&self, id: Id, access: Access, mut file: OpenFile) -> Arc<OpenFile> {
        let mut files = self.files();
        if files.len() >= OPEN_FILES_MAX {
            files.clear();
        }
        if let Some(before) = files.get(&id) {
            file.syncing = Arc::clone(&before.file.syncing);
        }
        let file = Arc::new(file);
        files.insert(id, Entry { file: Arc::clone(&file), access, is_used: true });
        if self.next_look.load(Relaxed) == NEVER {
            self.next_look.store(SOON, Relaxed);
        }
        file
    }

    pub(super) fn remove(&self, id: Id) {
        self.files().remove(&id);
    }

    pub(super) fn close_all(&self) {
        self.files().clear();
    }

    /// Closes idle files if it is time to look, and returns when to look again; `None` if no file is open.
    pub(super) fn close_idle(&self, now: Nanos) -> Option<Nanos> {
        let next_look = self.next_look.load(Relaxed);
        if now < next_look {
            return (next_look != NEVER).then_some(next_look);
        }
        let mut files = self.files();
        if next_look != SOON {
            files.retain(|_, open| std::mem::take(&mut open.is_used));
        }
        let next_look = if files.is_empty() { NEVER } else { now + IDLE_NS };
        self.next_look.store(next_look, Relaxed);
        (next_look != NEVER).then_some(next_look)
    }

    fn files(&self) -> MutexGuard<'_, HashMap<Id, Entry>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for OpenFiles {
    fn default() -> Self {
        Self { files: Mutex::default(), next_look: NEVER.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_closed_once_nobody_uses_them() {
        let (files, null) = (OpenFiles::default(), || OpenFile::new(File::open("/dev/null").unwrap()));
        let id = |inode| Id { inode, birth_ns: 0 };
        assert_eq!(files.close_idle(5), None);
        let first = files.insert(id(1), Access::Read, null());
        files.insert(id(2), Access::Write, null());
        assert!(files.get(id(1), Access::Write).is_none(), "open for less");
        assert_eq!(files.close_idle(5), Some(5 + IDLE_NS));
        assert_eq!(files.close_idle(4 + IDLE_NS), Some(5 + IDLE_NS));
        // Both were used before this look, one of them after it.
        assert_eq!(files.close_idle(5 + IDLE_NS), Some(5 + 2 * IDLE_NS));
        assert!(files.get(id(1), Access::Read).is_some());
        assert_eq!(files.close_idle(5 + 2 * IDLE_NS), Some(5 + 3 * IDLE_NS));
        assert!(files.get(id(2), Access::Read).is_none());
        assert_eq!(files.close_idle(5 + 3 * IDLE_NS), None);
        assert_eq!(Arc::strong_count(&first), 1);
    }
}
