//! Operations that failed and do not end the worker.

use std::io;

use crate::outcome::FailureOutcome;
use crate::plan::{OperationKind, Worker};

/// Most rows.
const ROWS_MAX: usize = 100;

/// Counts failures by kind and error.
#[derive(Debug)]
pub(super) struct Failures {
    /// Failures that do not end the worker.
    left: u64,
    rows: Vec<FailureOutcome>,
}

impl Failures {
    pub(super) fn new(plan: &Worker) -> Self {
        Self { left: plan.tree.as_ref().map_or(0, |work| work.errors_max), rows: Vec::new() }
    }

    /// Counts a failure; `false` if it ends the worker.
    pub(super) fn count(&mut self, kind: OperationKind, path: &str, errno: i32) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        if let Some(row) = self.rows.iter_mut().find(|row| row.kind == kind.name() && row.errno == errno) {
            row.count += 1;
        } else if self.rows.len() < ROWS_MAX {
            let (kind, path) = (kind.name().to_owned(), path.to_owned());
            let error = io::Error::from_raw_os_error(errno).to_string();
            self.rows.push(FailureOutcome { kind, path, errno, error, count: 1 });
        }
        true
    }

    pub(super) fn into_rows(self) -> Vec<FailureOutcome> {
        self.rows
    }
}
