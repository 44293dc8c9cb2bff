use iocurve_meter::Nanos;

/// One operation that is to be recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    /// Number among the kinds that recordings have.
    pub operation: usize,
    /// When it was handed to the engine.
    pub submitted: Nanos,
    /// When the engine had handed it over; the same as `submitted` where that is not measured apart.
    pub sent: Nanos,
    /// When it was due; the same as `submitted` in a closed loop.
    pub due: Nanos,
    /// When it was done.
    pub at: Nanos,
    /// Bytes asked for.
    pub asked: u32,
    /// Bytes moved.
    pub bytes: u32,
    /// Where in its file.
    pub offset: u64,
}
