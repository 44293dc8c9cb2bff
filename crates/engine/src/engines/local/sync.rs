//! pread and pwrite, fsync and fallocate, one at a time.

use std::io;
use std::ops::Range;
use std::os::fd::RawFd;

use iocurve_meter::Nanos;

use crate::engines::local::{self, Finished, Setup};

use crate::engines::buffers::SlotMap;
use crate::engines::files::LocalFiles;
use crate::engines::request::{Completion, Engine, Request};
use crate::error::EngineError;
use crate::plan::OperationKind;

/// Performs each operation in `submit`.
#[derive(Debug)]
pub struct SyncEngine {
    files: LocalFiles,
    slots: SlotMap,
    finished: Finished,
}

impl SyncEngine {
    /// Opens the files. `depth` only bounds the completions that wait to be reaped.
    pub fn open(setup: Setup<'_>) -> Result<Self, EngineError> {
        Ok(Self {
            files: LocalFiles::open(setup.open, setup.files, setup.writes)?,
            slots: setup.slots,
            finished: Finished::new(setup.depth, setup.clock),
        })
    }

    fn carry_out(&self, request: &Request, descriptor: RawFd, memory: *mut u8) -> i64 {
        match request.kind {
            OperationKind::Read | OperationKind::Write => transfer(request, descriptor, memory),
            OperationKind::Trim => local::trim(descriptor, self.files.is_device(request), request),
            _ => local::flush(descriptor, request),
        }
    }
}

impl Engine for SyncEngine {
    const SYNCHRONOUS: bool = true;

    fn submit(&mut self, request: Request) -> Result<(), EngineError> {
        let (descriptor, memory) = self.files.target(&request, &self.slots)?;
        let result = self.carry_out(&request, descriptor, memory);
        self.finished.push(Completion { slot: request.slot, result });
        Ok(())
    }

    fn reap(&mut self, min: usize, deadline: Nanos, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        self.finished.reap(min, deadline, done);
        Ok(())
    }

    fn settle(&mut self) -> Result<(), EngineError> {
        self.files.settle()
    }

    fn drop_cached_pages(&mut self, files: Range<usize>) -> Result<(), EngineError> {
        self.files.drop_cached_pages(files)
    }

    fn describe(&self) -> String {
        "pread and pwrite".to_owned()
    }
}

/// Bytes moved or a negated `errno`. A call that a signal interrupts is repeated.
pub(in crate::engines) fn transfer(request: &Request, descriptor: RawFd, memory: *mut u8) -> i64 {
    let (length, offset) = (request.address.length as usize, request.address.offset as i64);
    loop {
        // SAFETY: `memory` has room for `length` bytes and is this operation's until it has finished.
        let moved = unsafe {
            if request.kind == OperationKind::Read {
                libc::pread(descriptor, memory.cast(), length, offset)
            } else {
                libc::pwrite(descriptor, memory.cast(), length, offset)
            }
        };
        if moved >= 0 {
            return moved as i64;
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR) => {}
            code => return -i64::from(code.unwrap_or(libc::EIO)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::testing::check_engine;

    #[test]
    fn passes_the_engine_suite() {
        check_engine(SyncEngine::open);
    }
}
