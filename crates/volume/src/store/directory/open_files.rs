//! Regular files that are kept open between calls.

use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::sys::Id;

/// Most files kept open; beyond it all are closed, and opened again as they are used.
const OPEN_FILES_MAX: usize = 512;

#[derive(Debug, Default)]
pub(super) struct OpenFiles(Mutex<HashMap<Id, Arc<File>>>);

impl OpenFiles {
    pub(super) fn get(&self, id: Id) -> Option<Arc<File>> {
        self.files().get(&id).cloned()
    }

    pub(super) fn insert(&self, id: Id, file: &Arc<File>) {
        let mut files = self.files();
        if files.len() >= OPEN_FILES_MAX {
            files.clear();
        }
        files.insert(id, Arc::clone(file));
    }

    pub(super) fn remove(&self, id: Id) {
        self.files().remove(&id);
    }

    fn files(&self) -> MutexGuard<'_, HashMap<Id, Arc<File>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
