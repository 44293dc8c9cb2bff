//! Copies from and to files mapped into memory; a flush is msync.

use std::io;
use std::ops::Range;
use std::os::fd::RawFd;
use std::ptr;

use iocurve_meter::Nanos;

use super::bus_error::{self, Guarded};
use crate::engines::buffers::SlotMap;
use crate::engines::files::LocalFiles;
use crate::engines::local::{self, Finished, Setup};
use crate::engines::request::{Completion, Engine, Request};
use crate::error::EngineError;
use crate::plan::{Durability, FileOpen, FilePlan, OperationKind};

/// Performs each operation in `submit`. A file that cannot be mapped as a whole is mapped in windows, one at a time.
///
/// If another process truncates the file during the run, or the file system finds no block, the operation fails; see
/// [`bus_error`]. Reads in the last page beyond the new end return zeros.
#[derive(Debug)]
pub(crate) struct MmapEngine {
    files: LocalFiles,
    mappings: Vec<Mapping>,
    slots: SlotMap,
    writes: bool,
    direct: bool,
    /// Each write is on stable storage before it completes.
    write_through: bool,
    finished: Finished,
}

impl MmapEngine {
    /// Opens and maps the files.
    pub(crate) fn open(setup: Setup<'_>) -> Result<Self, EngineError> {
        Self::with_window(setup, usize::MAX)
    }

    fn with_window(setup: Setup<'_>, window: usize) -> Result<Self, EngineError> {
        bus_error::catch()?;
        let through_cache = FileOpen { direct: false, durability: Durability::None, ..*setup.open };
        let files = LocalFiles::open(&through_cache, setup.files, setup.writes)?;
        let map = |(plan, descriptor)| Mapping::open(plan, descriptor, setup.writes, window);
        let mappings = setup.files.iter().zip(files.descriptors()).map(map).collect::<Result<_, _>>()?;
        Ok(Self {
            files,
            mappings,
            writes: setup.writes,
            direct: setup.open.direct,
            write_through: setup.open.direct || setup.open.durability != Durability::None,
            finished: Finished::new(setup.depth, setup.clock),
            slots: setup.slots,
        })
    }

    /// Bytes copied or a negated `errno`.
    fn copy(&mut self, request: &Request, memory: *mut u8) -> i64 {
        let is_write = request.kind == OperationKind::Write;
        if is_write && !self.writes {
            return -i64::from(libc::EBADF);
        }
        let mapping = &mut self.mappings[request.address.file as usize];
        let place = match mapping.reach(request.address.offset, request.address.length) {
            Ok(place) => place,
            Err(errno) => return -i64::from(errno),
        };
        let (from, to) = if is_write { (memory, place) } else { (place, memory) };
        let guarded = Guarded { start: place as usize, bytes: request.address.length as usize };
        // SAFETY: the mapping and the slot's buffer have `length` bytes each and do not overlap.
        if !unsafe { guarded.copy(from, to) } {
            return mapping.cut_short(request);
        }
        if is_write && self.write_through {
            let result = mapping.flush(request.address.offset, u64::from(request.address.length));
            if result != 0 {
                return result;
            }
        }
        i64::from(request.address.length)
    }

    fn flush(&self, request: &Request, descriptor: RawFd) -> i64 {
        let mapping = &self.mappings[request.address.file as usize];
        if request.kind == OperationKind::SyncFileRange && mapping.holds(request.address.offset, request.address.length)
        {
            mapping.flush(request.address.offset, u64::from(request.address.length))
        } else if mapping.is_whole() {
            mapping.flush(mapping.start, mapping.bytes as u64)
        } else {
            // Data written through earlier windows are flushed, too.
            local::sync_file(request.kind, descriptor)
        }
    }
}

impl Engine for MmapEngine {
    const SYNCHRONOUS: bool = true;

    fn submit(&mut self, request: Request) -> Result<(), EngineError> {
        let (descriptor, memory) = self.files.target(&request, &self.slots)?;
        let result = match request.kind {
            OperationKind::Read | OperationKind::Write => self.copy(&request, memory),
            OperationKind::Trim => local::trim(descriptor, self.files.is_device(&request), &request),
            _ => self.flush(&request, descriptor),
        };
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
        match self.mappings.iter().find(|mapping| !mapping.is_whole()) {
            None => "copies from and to mapped files".to_owned(),
            Some(mapping) => format!("copies from and to files mapped {} MiB at a time", mapping.window >> 20),
        }
    }

    fn labels(&self) -> Vec<String> {
        if self.direct { vec!["mmap_direct_is_msync".to_owned()] } else { Vec::new() }
    }
}

/// Smallest window that is tried when the kernel refuses memory for a larger one.
const WINDOW_MIN: usize = 1 << 20;

/// The part of a file that is mapped now.
#[derive(Debug)]
struct Mapping {
    descriptor: RawFd,
    protection: libc::c_int,
    /// End of the region in the file.
    region_end: u64,
    region_start: u64,
    /// Most bytes to map at once.
    window: usize,
    address: *mut u8,
    /// Offset of the mapping in the file, a multiple of a page.
    start: u64,
    /// Length of the mapping; 0 while nothing is mapped.
    bytes: usize,
}

// SAFETY: the value owns the mapping and is not tied to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    fn open(plan: &FilePlan, descriptor: RawFd, writes: bool, window: usize) -> Result<Self, EngineError> {
        let protection = libc::PROT_READ | if writes { libc::PROT_WRITE } else { 0 };
        let region_start = plan.offset_bytes - plan.offset_bytes % PAGE;
        let region_end = plan.offset_bytes + plan.bytes;
        let mut mapping = Self {
            descriptor,
            protection,
            region_end,
            region_start,
            window,
            address: ptr::null_mut(),
            start: 0,
            bytes: 0,
        };
        mapping.reach(plan.offset_bytes, 1).map_err(|errno| EngineError::Path {
            action: "map",
            path: plan.path.clone(),
            source: io::Error::from_raw_os_error(errno),
        })?;
        Ok(mapping)
    }

    fn holds(&self, offset: u64, length: u32) -> bool {
        offset >= self.start && offset + u64::from(length) <= self.start + self.bytes as u64
    }

    fn is_whole(&self) -> bool {
        self.start <= self.region_start && self.start + self.bytes as u64 >= self.region_end
    }

    /// Address of a range; maps the window that begins with it, if it is not mapped yet. The error is an `errno`.
    #[inline]
    fn reach(&mut self, offset: u64, length: u32) -> Result<*mut u8, i32> {
        if self.bytes == 0 || !self.holds(offset, length) {
            self.map(offset, length)?;
        }
        // SAFETY: the range is inside the mapping.
        Ok(unsafe { self.address.add((offset - self.start) as usize) })
    }

    #[cold]
    fn map(&mut self, offset: u64, length: u32) -> Result<(), i32> {
        self.unmap();
        // The mapping begins at the region's start if the whole region fits.
        let whole = self.region_end.saturating_sub(self.region_start) <= self.window as u64;
        let wanted = if whole { offset.min(self.region_start) } else { offset };
        let start = wanted - wanted % PAGE;
        let least = (offset - start) as usize + length as usize;
        loop {
            let to_end = usize::try_from(self.region_end.saturating_sub(start)).unwrap_or(usize::MAX);
            let bytes = to_end.min(self.window).max(least).max(1);
            // SAFETY: a new mapping, at a place of the kernel's choice.
            let address = unsafe {
                libc::mmap(ptr::null_mut(), bytes, self.protection, libc::MAP_SHARED, self.descriptor, start as i64)
            };
            if address != libc::MAP_FAILED {
                (self.address, self.start, self.bytes) = (address.cast(), start, bytes);
                return Ok(());
            }
            let errno = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
            if errno != libc::ENOMEM || bytes <= WINDOW_MIN.max(least) {
                return Err(errno);
            }
            self.window = (bytes / 2).max(WINDOW_MIN);
            if whole {
                return self.map(offset, length);
            }
        }
    }

    fn unmap(&mut self) {
        if self.bytes > 0 {
            // SAFETY: this value owns the mapping; no pointer into it is left.
            unsafe { libc::munmap(self.address.cast(), self.bytes) };
            self.bytes = 0;
        }
    }

    /// 0 or a negated `errno`. The range is mapped.
    fn flush(&self, offset: u64, bytes: u64) -> i64 {
        let within_page = (offset - self.start) % PAGE;
        let first = (offset - self.start - within_page) as usize;
        // SAFETY: the range is inside the mapping and begins with a page.
        let code =
            unsafe { libc::msync(self.address.add(first).cast(), (bytes + within_page) as usize, libc::MS_SYNC) };
        if code == 0 { 0 } else { -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)) }
    }

    /// Result of an operation with missing pages. Unmaps the empty pages put in their place.
    #[cold]
    fn cut_short(&mut self, request: &Request) -> i64 {
        self.unmap();
        // SAFETY: all zeros is a valid `stat`, and the call writes one.
        let length = unsafe {
            let mut status: libc::stat = std::mem::zeroed();
            if libc::fstat(self.descriptor, &raw mut status) == 0 { status.st_size as u64 } else { u64::MAX }
        };
        let end = request.address.offset + u64::from(request.address.length);
        if request.kind == OperationKind::Read && end > length {
            return length.saturating_sub(request.address.offset) as i64;
        }
        -i64::from(libc::EIO)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.unmap();
    }
}

/// Mappings start at multiples of this; valid for every architecture with pages of 64 KiB or less.
const PAGE: u64 = 65_536;

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;
    use crate::engines::request::Address;
    use crate::engines::testing::{Scratch, check_mapped_engine, open, pattern, setup};

    #[test]
    fn passes_the_engine_suite() {
        check_mapped_engine(MmapEngine::open);
    }

    #[test]
    fn passes_it_with_small_windows() {
        check_mapped_engine(|setup| MmapEngine::with_window(setup, 5000));
    }

    fn request(kind: OperationKind, offset: u64) -> Request {
        Request { slot: 0, kind, address: Address { file: 0, offset, length: 4096 } }
    }

    fn one(engine: &mut MmapEngine, request: Request) -> i64 {
        let mut done = Vec::new();
        engine.submit(request).unwrap();
        engine.reap(1, 0, &mut done).unwrap();
        assert_eq!(done.len(), 1);
        done[0].result
    }

    #[test]
    fn a_file_that_is_cut_during_the_run_fails_operations_and_nothing_else() {
        let scratch = Scratch::with_file("cut", 64 << 10);
        let (files, open) = ([scratch.plan(64 << 10)], open(false));
        let mut engine = MmapEngine::open(setup(&open, &files, true, 1)).unwrap();
        let cut = |bytes| File::options().write(true).open(scratch.path()).unwrap().set_len(bytes).unwrap();
        cut(8192);
        let memory = engine.slots.slot(0);
        assert_eq!(one(&mut engine, request(OperationKind::Read, 8192)), 0);
        assert_eq!(one(&mut engine, request(OperationKind::Read, 8190)), 2);
        // SAFETY: nothing is in flight.
        unsafe { memory.write_bytes(5, 4096) };
        assert_eq!(one(&mut engine, request(OperationKind::Write, 32 << 10)), -i64::from(libc::EIO));
        assert_eq!(one(&mut engine, request(OperationKind::Write, 4096)), 4096);
        cut(64 << 10);
        // Data written to the missing pages are lost.
        assert_eq!(one(&mut engine, request(OperationKind::Write, 16 << 10)), 4096);
        let mut expected = vec![0; 64 << 10];
        expected[..4096].copy_from_slice(&pattern(0, 4096));
        expected[4096..8192].fill(5);
        expected[16 << 10..20 << 10].fill(5);
        drop(engine);
        assert_eq!(fs::read(scratch.path()).unwrap(), expected);
    }

    #[test]
    fn describes_its_way_of_working() {
        let scratch = Scratch::with_file("says", 3 << 20);
        let files = [scratch.plan(3 << 20)];
        let (cached, direct) = (open(false), open(true));
        let engine = MmapEngine::open(setup(&cached, &files, false, 1)).unwrap();
        assert_eq!(engine.describe(), "copies from and to mapped files");
        assert_eq!(engine.labels(), Vec::<String>::new());
        let engine = MmapEngine::with_window(setup(&direct, &files, false, 1), 2 << 20).unwrap();
        assert_eq!(engine.describe(), "copies from and to files mapped 2 MiB at a time");
        assert_eq!(engine.labels(), ["mmap_direct_is_msync"]);
    }
}
