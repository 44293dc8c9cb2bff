//! The two verbs between the worker loop and an engine, and what they speak about.

use iocurve_meter::Nanos;

use crate::error::EngineError;
use crate::plan::OperationKind;

/// Place of one operation: a range of one of the worker's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// Index into the worker's files.
    pub file: u32,
    /// Bytes from the file's start.
    pub offset: u64,
    /// Bytes; of a flush, the bytes written since the last one.
    pub length: u32,
}

/// One operation to carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Number of the buffer and of the place in flight, below the worker's depth; free again once completed.
    pub slot: u32,
    /// Kind of the operation.
    pub kind: OperationKind,
    /// Range that it reads, writes, trims or flushes.
    pub address: Address,
}

/// One operation that finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Slot of the request.
    pub slot: u32,
    /// Bytes moved (given back by a trim; 0 of a flush), or a negated `errno`.
    pub result: i64,
}

/// Carries out I/O. The worker loop does the pacing and the accounting.
pub trait Engine {
    /// Whether `submit` does the whole operation before it returns; the loop then stamps each one by itself.
    const SYNCHRONOUS: bool = false;

    /// Requests that `submit` hands over at once; the rest goes with the next reap.
    const HAND_OVER_AT: usize = usize::MAX;

    /// Hands over one request. It may finish now or later; `reap` reports it either way.
    /// An error ends the worker; an operation that fails is a `Completion` with a negative result.
    fn submit(&mut self, request: Request) -> Result<(), EngineError>;

    /// Whether handing over can take as long as the operations themselves: the loop then looks at the clock between pieces.
    fn blocks(&self) -> bool {
        false
    }

    /// Sends what was handed over, without waiting. The loop asks for it where it measures how long that takes; otherwise
    /// it goes with the next reap.
    fn hand_over(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Sends what was handed over, then waits for `min` completions or until `deadline` (worker clock), and appends
    /// what has finished to `done`. With `min` 0 it does not wait. May return early with fewer (even none).
    fn reap(&mut self, min: usize, deadline: Nanos, done: &mut Vec<Completion>) -> Result<(), EngineError>;

    /// Called once after an orderly end, when nothing is in flight: makes good what was promised (an NFS COMMIT).
    fn finish(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Called when nothing is in flight and what was written is about to be read back: reads are to come from where it
    /// is kept, not from a cache on the way.
    fn settle(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    /// What carries out the I/O, in words, for the result.
    fn describe(&self) -> String;

    /// What a reader must know about figures from this engine, for the result.
    fn labels(&self) -> Vec<String> {
        Vec::new()
    }

    /// Connections that were made anew.
    fn reconnects(&self) -> u64 {
        0
    }
}
