use iocurve_meter::Nanos;

/// A completed operation, to be recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    /// Number of its kind; see [`crate::plan::Worker::recorded_kinds`].
    pub operation: usize,
    /// Time at which the engine got the operation.
    pub submitted: Nanos,
    /// Time at which the engine had sent it; the same as `submitted` unless submission latency is measured.
    pub sent: Nanos,
    /// Scheduled time; the same as `submitted` in a closed loop.
    pub due: Nanos,
    pub at: Nanos,
    pub asked: u32,
    pub bytes: u32,
    pub offset: u64,
    /// Index of the file in the plan.
    pub file: u32,
}
