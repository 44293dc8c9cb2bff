//! Counts and logs injected faults.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::faults::{FaultRecord, FaultStats};

/// The log of a volume, which its exports share.
#[derive(Debug, Clone)]
pub(crate) struct FaultLog(Arc<Mutex<File>>);

impl FaultLog {
    /// Creates the log. A file that is there already is kept, and is an error.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self(Arc::new(Mutex::new(File::options().append(true).create_new(true).open(path)?))))
    }

    fn append(&self, record: &FaultRecord<'_>) {
        let Ok(mut line) = serde_json::to_vec(record) else { return };
        line.push(b'\n');
        // A full disk costs the log, not the volume: the counters go on.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line);
    }
}

/// Counts and logs the faults of one export.
#[derive(Debug)]
pub(super) struct Injected {
    counts: Mutex<FaultStats>,
    log: Option<FaultLog>,
}

impl Injected {
    pub(super) fn new(log: Option<FaultLog>) -> Self {
        Self { counts: Mutex::default(), log }
    }

    pub(super) fn note(&self, record: &FaultRecord<'_>) {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner).of(record.fault) += 1;
        if let Some(log) = &self.log {
            log.append(record);
        }
    }

    pub(super) fn counts(&self) -> FaultStats {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
