//! The next operation of a worker.

use iocurve_meter::Nanos;

/// The next operation to issue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Next {
    pub(super) operation: usize,
    /// Scheduled time; `None` in a closed loop.
    pub(super) due: Option<Nanos>,
}
