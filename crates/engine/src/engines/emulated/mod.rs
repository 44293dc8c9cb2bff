//! An emulated disk around another engine: operations complete when the disk would have completed them.

mod cache;
mod disks;
mod model;
mod state;
#[cfg(test)]
mod tests;
mod throttle;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use iocurve_meter::{Clock, Nanos};

use self::model::{Access, Limit};
use crate::engines::request::{Address, Completion, Engine, Request};
use crate::error::EngineError;
use crate::plan::{FilePlan, OperationKind};

pub(crate) use self::disks::{DELAY_TOLERATED_NS, Disk, Disks};

/// Submits each operation to the inner engine immediately, and delays its completion until the disk's time. Flushes do
/// not reach the inner engine: data on the emulated disk are durable, and this machine's storage is not measured.
#[derive(Debug)]
pub(crate) struct Emulated<E> {
    inner: E,
    disk: Disk,
    /// Indices of the worker's files on the disk.
    files: Vec<usize>,
    clock: Clock,
    /// By slot: the time at which its operation is due.
    due: Vec<Nanos>,
    /// Operations in flight in the inner engine.
    in_inner: usize,
    from_inner: Vec<Completion>,
    /// Completions that are not due yet, the earliest first.
    waiting: BinaryHeap<Reverse<(Nanos, u32, i64)>>,
    operations: u64,
    /// Reads, and those that the machine's cache answered.
    reads: u64,
    read_hits: u64,
    /// Number of operations that waited for each limit.
    limited: [u64; Limit::ALL.len()],
}

impl<E: Engine> Emulated<E> {
    /// Wraps an open engine, with at most `depth` operations in flight.
    pub(crate) fn new(inner: E, disk: Disk, files: &[FilePlan], depth: u32, clock: Clock) -> Self {
        let depth = depth as usize;
        Self {
            inner,
            files: disk.files(files),
            disk,
            clock,
            due: vec![0; depth],
            in_inner: 0,
            from_inner: Vec::with_capacity(depth),
            waiting: BinaryHeap::with_capacity(depth),
            operations: 0,
            reads: 0,
            read_hits: 0,
            limited: [0; Limit::ALL.len()],
        }
    }

    /// Takes the completions of the inner engine.
    fn collect(&mut self, min: usize, deadline: Nanos) -> Result<(), EngineError> {
        self.inner.reap(min, deadline, &mut self.from_inner)?;
        self.in_inner -= self.from_inner.len();
        for Completion { slot, result } in self.from_inner.drain(..) {
            self.waiting.push(Reverse((self.due[slot as usize], slot, result)));
        }
        Ok(())
    }

    /// Releases the completions that are due.
    fn release(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        while let Some(&Reverse((due, slot, result))) = self.waiting.peek()
            && due <= now
        {
            self.waiting.pop();
            done.push(Completion { slot, result });
        }
    }
}

impl<E: Engine> Engine for Emulated<E> {
    const SYNCHRONOUS: bool = E::SYNCHRONOUS;
    const WALKS: bool = E::WALKS;

    #[inline]
    fn send_batch(in_flight: usize) -> usize {
        E::send_batch(in_flight)
    }

    fn submit(&mut self, request: Request) -> Result<(), EngineError> {
        let Request { slot, kind, address: Address { file, offset, length } } = request;
        let (Some(&file), Some(due)) = (self.files.get(file as usize), self.due.get_mut(slot as usize)) else {
            // The inner engine has the error message.
            return self.inner.submit(request);
        };
        let admitted = self.disk.admit(Access { kind, file, offset, length }, self.clock.now());
        *due = admitted.due;
        self.operations += 1;
        self.reads += u64::from(kind == OperationKind::Read);
        self.read_hits += u64::from(admitted.is_hit);
        if let Some(limit) = admitted.limit {
            self.limited[limit as usize] += 1;
        }
        if kind.is_flush() {
            self.waiting.push(Reverse((admitted.due, slot, 0)));
            return Ok(());
        }
        self.in_inner += 1;
        self.inner.submit(request)
    }

    fn inspect(&mut self, slot: u32) {
        self.inner.inspect(slot);
    }

    fn sending_blocks(&self) -> bool {
        self.inner.sending_blocks()
    }

    fn send(&mut self) -> Result<(), EngineError> {
        self.inner.send()
    }

    fn reap(&mut self, min: usize, deadline: Nanos, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        let (before, wanted) = (done.len(), done.len() + min);
        self.collect(0, 0)?;
        loop {
            let now = self.clock.now();
            self.release(now, done);
            if done.len() >= wanted || now >= deadline {
                return Ok(());
            }
            let next = self.waiting.peek().map(|&Reverse((due, ..))| due.min(deadline));
            match next {
                Some(next) if self.in_inner == 0 => self.clock.wait_until(next),
                None if self.in_inner == 0 && done.len() > before => return Ok(()),
                // With nothing in flight this sleeps until the deadline.
                None if self.in_inner == 0 => return self.inner.reap(wanted - done.len(), deadline, done),
                next => self.collect(1, next.unwrap_or(deadline))?,
            }
        }
    }

    fn idle(&mut self) -> Result<(), EngineError> {
        self.inner.idle()
    }

    fn finish(&mut self) -> Result<(), EngineError> {
        self.inner.finish()
    }

    fn describe(&self) -> String {
        format!("{}, on an emulated {}", self.inner.describe(), self.disk.name())
    }

    fn counters(&self) -> BTreeMap<String, u64> {
        let waited = Limit::ALL.into_iter().map(|limit| (limit.counter(), self.limited[limit as usize]));
        let reads = [("reads".to_owned(), self.reads), ("cache_read_hits".to_owned(), self.read_hits)];
        waited.filter(|(_, count)| *count > 0).chain(reads).collect()
    }

    fn labels(&self) -> Vec<String> {
        // The inner engine's open flags are not part of the measurement.
        let own = self.inner.labels().into_iter().filter(|label| label != "aio_buffered_is_synchronous");
        let limit = Limit::ALL.into_iter().find(|&limit| self.limited[limit as usize] * 2 > self.operations);
        own.chain(["emulated_disk".to_owned()]).chain(limit.map(|limit| limit.label().to_owned())).collect()
    }
}
