//! Engines for local files, and their common parts: set-up, flushes and trims.

mod aio;
mod bus_error;
mod mmap;
mod space;
mod sync;
mod uring;

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use iocurve_meter::{Clock, Nanos};

use crate::engines::buffers::SlotMap;
use crate::engines::request::{Completion, Request};
use crate::plan::{FileOpen, FilePlan, OperationKind, Worker};

pub use aio::AioEngine;
pub(crate) use mmap::MmapEngine;
pub(crate) use space::SpaceEngine;
pub use sync::SyncEngine;
pub(super) use sync::transfer;
pub use uring::UringEngine;

/// Parameters for opening an engine for local files.
#[derive(Debug, Clone)]
pub struct Setup<'a> {
    /// Flags that the files are opened with.
    pub open: &'a FileOpen,
    /// The worker's files.
    pub files: &'a [FilePlan],
    /// The worker writes or trims.
    pub writes: bool,
    /// Addresses of the buffers.
    pub slots: SlotMap,
    /// Most operations in flight.
    pub depth: u32,
    /// Clock of the worker.
    pub clock: Clock,
}

impl<'a> Setup<'a> {
    /// Takes the parameters from a worker's plan.
    pub fn new(worker: &'a Worker, open: &'a FileOpen, slots: &SlotMap, clock: &Clock) -> Self {
        Self {
            open,
            files: &worker.files,
            writes: worker.changes_files(),
            slots: slots.clone(),
            depth: worker.depth,
            clock: clock.clone(),
        }
    }
}

/// Completions of engines that perform operations inside `submit`, for the next reap.
#[derive(Debug)]
pub(super) struct Finished {
    done: Vec<Completion>,
    clock: Clock,
}

impl Finished {
    pub(super) fn new(depth: u32, clock: Clock) -> Self {
        Self { done: Vec::with_capacity(depth as usize), clock }
    }

    #[inline]
    pub(super) fn push(&mut self, completion: Completion) {
        self.done.push(completion);
    }

    /// See [`crate::Engine::reap`].
    #[inline]
    pub(super) fn reap(&mut self, min: usize, deadline: Nanos, done: &mut Vec<Completion>) {
        if min > 0 && self.done.is_empty() && deadline != Nanos::MAX {
            std::thread::sleep(Duration::from_nanos(deadline.saturating_sub(self.clock.now())));
        }
        done.append(&mut self.done);
    }
}

/// Flushes a file and waits for it: 0 or a negated `errno`.
pub(super) fn flush(descriptor: RawFd, request: &Request) -> i64 {
    if request.kind != OperationKind::SyncFileRange {
        return sync_file(request.kind, descriptor);
    }
    let (offset, length) = (request.address.offset as i64, i64::from(request.address.length));
    // SAFETY: only numbers are passed.
    uninterrupted(|| unsafe { libc::sync_file_range(descriptor, offset, length, WHOLE_SYNC) })
}

/// Flushes all of a file and waits for it: 0 or a negated `errno`.
pub(super) fn sync_file(kind: OperationKind, descriptor: RawFd) -> i64 {
    // SAFETY: only numbers are passed.
    uninterrupted(|| unsafe {
        if kind == OperationKind::Fdatasync { libc::fdatasync(descriptor) } else { libc::fsync(descriptor) }
    })
}

/// Trims a range of a device or a file: the bytes of the range or a negated `errno`. A file keeps its length and reads
/// as zeros there.
pub(super) fn trim(descriptor: RawFd, is_device: bool, request: &Request) -> i64 {
    let result = uninterrupted(|| {
        if is_device {
            let range = [request.address.offset, u64::from(request.address.length)];
            // SAFETY: the request reads two numbers.
            unsafe { libc::ioctl(descriptor, BLKDISCARD, &raw const range) }
        } else {
            // SAFETY: only numbers are passed.
            unsafe {
                libc::fallocate(descriptor, PUNCH, request.address.offset as i64, i64::from(request.address.length))
            }
        }
    });
    if result == 0 { i64::from(request.address.length) } else { result }
}

/// Starts write-back and waits for its end.
pub(super) const WHOLE_SYNC: libc::c_uint =
    libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;

/// Flags of `fallocate` for a trim.
pub(super) const PUNCH: libc::c_int = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;

/// `_IO(0x12, 119)` (`linux/fs.h`).
const BLKDISCARD: libc::Ioctl = 0x1277;

fn uninterrupted(mut call: impl FnMut() -> libc::c_int) -> i64 {
    loop {
        if call() == 0 {
            return 0;
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR) => {}
            code => return -i64::from(code.unwrap_or(libc::EIO)),
        }
    }
}
