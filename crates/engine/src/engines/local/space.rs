//! fallocate and ftruncate in place of reads and writes.

use iocurve_meter::Nanos;

use super::{Finished, PUNCH, Setup, flush, uninterrupted};
use crate::engines::buffers::SlotMap;
use crate::engines::files::LocalFiles;
use crate::engines::request::{Completion, Engine, Request};
use crate::error::EngineError;
use crate::plan::{OperationKind, SpaceCall};

/// Makes one call for each operation, in `submit`.
#[derive(Debug)]
pub(crate) struct SpaceEngine {
    files: LocalFiles,
    call: SpaceCall,
    slots: SlotMap,
    finished: Finished,
}

impl SpaceEngine {
    /// Opens the files for writing, whatever the kinds of the operations.
    pub(crate) fn open(setup: Setup<'_>, call: SpaceCall) -> Result<Self, EngineError> {
        let files = LocalFiles::open(setup.open, setup.files, true)?;
        Ok(Self { files, call, slots: setup.slots, finished: Finished::new(setup.depth, setup.clock) })
    }
}

impl Engine for SpaceEngine {
    const SYNCHRONOUS: bool = true;

    fn submit(&mut self, request: Request) -> Result<(), EngineError> {
        let (descriptor, _) = self.files.target(&request, &self.slots)?;
        let (offset, length) = (request.address.offset as i64, i64::from(request.address.length));
        let mode = match request.kind {
            OperationKind::Read => libc::FALLOC_FL_KEEP_SIZE,
            OperationKind::Trim => PUNCH,
            _ => 0,
        };
        let result = if request.kind.is_flush() {
            flush(descriptor, &request)
        } else {
            // SAFETY: only numbers are passed.
            let called = uninterrupted(|| unsafe {
                match self.call {
                    SpaceCall::Fallocate => libc::fallocate(descriptor, mode, offset, length),
                    SpaceCall::Ftruncate => libc::ftruncate(descriptor, offset),
                }
            });
            if called == 0 { length } else { called }
        };
        self.finished.push(Completion { slot: request.slot, result });
        Ok(())
    }

    fn reap(&mut self, min: usize, deadline: Nanos, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        self.finished.reap(min, deadline, done);
        Ok(())
    }

    fn describe(&self) -> String {
        match self.call {
            SpaceCall::Fallocate => "fallocate".to_owned(),
            SpaceCall::Ftruncate => "ftruncate".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::engines::request::Address;
    use crate::engines::testing::{Scratch, open, setup};

    const BLOCK: u32 = 4096;

    fn does(call: SpaceCall, scratch: &Scratch, kind: OperationKind, block: u64) -> i64 {
        let (files, open) = ([scratch.plan(BLOCK as usize)], open(false));
        let mut engine = SpaceEngine::open(setup(&open, &files, true, 1), call).unwrap();
        let address = Address { file: 0, offset: block * u64::from(BLOCK), length: BLOCK };
        engine.submit(Request { slot: 0, kind, address }).unwrap();
        let mut done = Vec::new();
        engine.reap(1, Nanos::MAX, &mut done).unwrap();
        done[0].result
    }

    #[test]
    fn a_write_allocates_a_read_keeps_the_length_and_a_trim_makes_a_hole() {
        let scratch = Scratch::with_file("space", BLOCK as usize);
        let length = || fs::metadata(scratch.path()).unwrap().len();
        assert_eq!((does(SpaceCall::Fallocate, &scratch, OperationKind::Read, 4), length()), (4096, 4096));
        assert_eq!((does(SpaceCall::Fallocate, &scratch, OperationKind::Write, 2), length()), (4096, 3 * 4096));
        let before = fs::metadata(scratch.path()).unwrap().blocks();
        assert_eq!(does(SpaceCall::Fallocate, &scratch, OperationKind::Trim, 0), 4096);
        assert!(fs::metadata(scratch.path()).unwrap().blocks() < before);
    }

    #[test]
    fn a_write_cuts_or_extends_the_file_to_its_offset() {
        let scratch = Scratch::with_file("space", 4 * BLOCK as usize);
        let length = || fs::metadata(scratch.path()).unwrap().len();
        assert_eq!((does(SpaceCall::Ftruncate, &scratch, OperationKind::Write, 2), length()), (4096, 2 * 4096));
        assert_eq!((does(SpaceCall::Ftruncate, &scratch, OperationKind::Write, 5), length()), (4096, 5 * 4096));
    }
}
