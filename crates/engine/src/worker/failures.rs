//! Operations that failed and do not end the worker.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::outcome::FailureOutcome;
use crate::plan::{OperationKind, Tolerance, Worker};

/// Most rows.
const ROWS_MAX: usize = 100;

/// Counts failures by kind and error.
#[derive(Debug)]
pub(super) struct Failures {
    tolerates: Vec<Tolerance>,
    /// Those of all workers of the group that have a limit.
    of_group: Arc<AtomicU64>,
    rows: Vec<FailureOutcome>,
}

impl Failures {
    pub(super) fn new(plan: &Worker, of_group: &Arc<AtomicU64>) -> Self {
        Self { tolerates: plan.tolerates.clone(), of_group: Arc::clone(of_group), rows: Vec::new() }
    }

    /// Counts a failure; `false` if it ends the worker.
    pub(super) fn count(&mut self, kind: OperationKind, path: &str, error: &io::Error) -> bool {
        let errno = error.raw_os_error();
        // A transfer that came up short has no errno: only what tolerates all errors tolerates it.
        let fits = |tolerance: &&Tolerance| {
            let Tolerance { kinds, errnos, .. } = tolerance;
            let is_tolerated = errnos.is_empty() || errno.is_some_and(|errno| errnos.contains(&errno));
            (kinds.is_empty() || kinds.contains(&kind)) && is_tolerated
        };
        let errno = errno.unwrap_or(libc::EIO);
        let is_tolerated = match self.tolerates.iter().find(fits) {
            None => false,
            Some(Tolerance { errors_max: None, .. }) => true,
            Some(&Tolerance { errors_max: Some(most), .. }) => self.of_group.fetch_add(1, Ordering::Relaxed) < most,
        };
        if !is_tolerated {
            return false;
        }
        if let Some(row) = self.rows.iter_mut().find(|row| row.kind == kind.name() && row.errno == errno) {
            row.count += 1;
        } else if self.rows.len() < ROWS_MAX {
            let (kind, path) = (kind.name().to_owned(), path.to_owned());
            self.rows.push(FailureOutcome { kind, path, errno, error: error.to_string(), count: 1 });
        }
        true
    }

    pub(super) fn into_rows(self) -> Vec<FailureOutcome> {
        self.rows
    }
}
