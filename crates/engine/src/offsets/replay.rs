//! Replay of recorded operations, read from a file during the load.

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufReader, Read};
use std::rc::Rc;

use iocurve_meter::Nanos;

use crate::engines::request::Address;
use crate::error::EngineError;
use crate::plan::{OperationKind, Worker};

/// Bytes of one record: due time (`u64`, ns since the worker's start), offset (`u64`), length (`u32`), number of the
/// file (`u32`), number of the kind in [`OperationKind::ALL`] (`u32`), 4 bytes of zeros; little-endian.
pub(crate) const RECORD_BYTES: usize = 32;

/// The records of a worker, in order. Mix and offsets share them.
#[derive(Debug, Clone)]
pub(crate) struct Replay(Rc<RefCell<Stream>>);

#[derive(Debug)]
struct Stream {
    file: BufReader<File>,
    path: String,
    paced: bool,
    /// By kind: its number in the plan.
    operations: [Option<usize>; OperationKind::ALL.len()],
    /// By operation: most bytes of a record.
    largest: Vec<u32>,
    files: u32,
    /// Zero of the due times.
    origin: Nanos,
    /// Records not read yet.
    left: u64,
    read: u64,
    current: Option<Record>,
    failure: Option<EngineError>,
}

#[derive(Debug, Clone, Copy)]
struct Record {
    due: Nanos,
    address: Address,
    operation: usize,
}

impl Replay {
    /// Opens the recording of a plan, at its first record; `None` if the plan has none.
    pub(crate) fn open(worker: &Worker) -> Result<Option<Self>, EngineError> {
        let Some(plan) = &worker.replay else { return Ok(None) };
        let failed = |source| EngineError::Path { action: "open", path: plan.path.clone(), source };
        let number = |kind| worker.operations.iter().position(|operation| operation.kind == kind);
        let mut stream = Stream {
            file: BufReader::with_capacity(1 << 16, File::open(&plan.path).map_err(failed)?),
            path: plan.path.clone(),
            paced: plan.paced,
            operations: OperationKind::ALL.map(number),
            largest: worker.operations.iter().map(|operation| operation.blocks.largest()).collect(),
            files: worker.files.len() as u32,
            origin: 0,
            left: plan.records,
            read: 0,
            current: None,
            failure: None,
        };
        stream.advance();
        Ok(Some(Self(Rc::new(RefCell::new(stream)))))
    }

    /// Sets the zero of the due times.
    pub(crate) fn start(&self, now: Nanos) {
        self.0.borrow_mut().origin = now;
    }

    /// Moves all future due times.
    pub(crate) fn postpone(&self, by: Nanos) {
        self.0.borrow_mut().origin += by;
    }

    /// Index of the next operation, and its due time if the replay is paced; `None` when all were taken.
    pub(crate) fn next(&self) -> Option<(usize, Option<Nanos>)> {
        let stream = self.0.borrow();
        let due = |record: &Record| stream.paced.then(|| stream.origin.saturating_add(record.due));
        stream.current.map(|record| (record.operation, due(&record)))
    }

    pub(crate) fn take(&self) -> Option<Address> {
        let mut stream = self.0.borrow_mut();
        let taken = stream.current.take();
        stream.advance();
        taken.map(|record| record.address)
    }

    /// The error that ended the replay early, if one did.
    pub(crate) fn failure(&self) -> Option<EngineError> {
        self.0.borrow_mut().failure.take()
    }
}

impl Stream {
    fn advance(&mut self) {
        self.current = None;
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        let mut bytes = [0; RECORD_BYTES];
        let result = match self.file.read_exact(&mut bytes) {
            Ok(()) => self.record(&bytes),
            Err(source) => Err(EngineError::Path { action: "read", path: self.path.clone(), source }),
        };
        self.read += 1;
        match result {
            Ok(record) => self.current = Some(record),
            Err(error) => (self.left, self.failure) = (0, Some(error)),
        }
    }

    fn record(&self, bytes: &[u8; RECORD_BYTES]) -> Result<Record, EngineError> {
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let short = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let (due, offset, length, file, kind) = (long(0), long(8), short(16), short(20), short(24));
        let operation = self.operations.get(kind as usize).copied().flatten();
        let fits = |operation: usize| length <= self.largest[operation] && file < self.files;
        if let Some(operation) = operation.filter(|&operation| fits(operation)) {
            return Ok(Record { due, address: Address { file, offset, length }, operation });
        }
        let Self { path, read, .. } = self;
        Err(EngineError::Plan(format!("{path}: record {read} is not an operation of this worker")))
    }
}
