//! The interface between the worker loop and an engine: submit and reap.

use std::collections::BTreeMap;
use std::ops::Range;

use iocurve_meter::Nanos;

use crate::error::EngineError;
use crate::outcome::ConnectionOutcome;
use crate::plan::OperationKind;

/// File and range of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// Index into the worker's files.
    pub file: u32,
    /// Bytes from the file's start.
    pub offset: u64,
    /// Bytes; for a flush, the bytes written since the last one.
    pub length: u32,
}

/// One operation to perform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Index of the buffer, below the worker's depth. The slot is busy until the completion.
    pub slot: u32,
    /// Kind of the operation.
    pub kind: OperationKind,
    /// Range that is read, written, trimmed or flushed.
    pub address: Address,
}

/// One completed operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Slot of the request.
    pub slot: u32,
    /// Bytes moved (for a trim, the bytes trimmed; for a flush, 0), or a negated `errno`.
    pub result: i64,
}

/// Performs I/O. The worker loop does the pacing and the accounting.
pub trait Engine {
    /// `submit` performs the whole operation before it returns; the loop then stamps each operation separately.
    const SYNCHRONOUS: bool = false;

    /// Creates, opens and removes files, and can so carry out a walk on a tree.
    const WALKS: bool = false;

    /// Most operations in flight, whatever the plan says.
    fn depth_max(&self) -> u32 {
        if Self::SYNCHRONOUS { 1 } else { u32::MAX }
    }

    /// Requests that `submit` collects before it sends them at once, while `in_flight` others are sent and not reaped. The
    /// next reap sends the rest.
    #[inline]
    fn send_batch(_in_flight: usize) -> usize {
        if Self::SYNCHRONOUS { 1 } else { usize::MAX }
    }

    /// Takes one request. It may complete now or later; `reap` reports it either way. An error ends the worker; an
    /// operation that fails is a `Completion` with a negative result.
    fn submit(&mut self, request: Request) -> Result<(), EngineError>;

    /// Returns `true` if sending requests can take as long as the operations themselves: the loop then reads the clock
    /// between batches.
    fn sending_blocks(&self) -> bool {
        false
    }

    /// Sends submitted requests, without waiting for their completion. The loop calls this if it measures submission
    /// latency; otherwise the next reap sends.
    fn send(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Sends submitted requests, then waits for `min` completions or until `deadline` (worker clock), and appends the
    /// completions to `done`. With `min` 0 it does not wait. May return early with fewer (even none).
    fn reap(&mut self, min: usize, deadline: Nanos, done: &mut Vec<Completion>) -> Result<(), EngineError>;

    /// Called about every 50 ms while the loop waits with nothing in flight: keeps what would expire (a lease). It does not wait.
    fn idle(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Announces that the loop inspects the payload of the next read in this slot: an engine that discards payload keeps this
    /// one.
    fn inspect(&mut self, _slot: u32) {}

    /// Called once after a clean end, when nothing is in flight: completes pending guarantees (an NFS COMMIT).
    fn finish(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Called before written data are read back, when nothing is in flight: writes them to stable storage and drops
    /// caches on the way, so that reads come from the storage.
    fn settle(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Called before a further pass over these files, while operations may be in flight: drops their clean pages from the
    /// page cache. Pages that stay there are no failure.
    fn drop_cached_pages(&mut self, _files: Range<usize>) -> Result<(), EngineError> {
        Ok(())
    }

    /// Description of the engine for the result.
    fn describe(&self) -> String;

    /// Labels for the result: facts that a reader of this engine's figures must know.
    fn labels(&self) -> Vec<String> {
        Vec::new()
    }

    /// Counters of the engine's own, by name (`cache_read_hits`).
    fn counters(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    /// State of its TCP connections, as the kernel reports it now.
    fn connections(&self) -> Vec<ConnectionOutcome> {
        Vec::new()
    }

    /// Number of times that a connection was re-established.
    fn reconnects(&self) -> u64 {
        0
    }
}
