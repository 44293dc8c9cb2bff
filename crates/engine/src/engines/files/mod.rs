//! Local files and block devices, opened as the plan says.

mod device;
mod direct;

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Seek};
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::fs::{Advice, SeekFrom, fadvise, fdatasync, seek};

use self::device::refuse_device_in_use;
pub(crate) use self::direct::check_direct_blocks;
use self::direct::no_direct;
use crate::engines::buffers::{Buffers, SlotMap};
use crate::engines::request::Request;
use crate::error::{EngineError, TargetError};
use crate::plan::{Durability, FileOpen, FilePlan, Layout, OperationKind};

/// Requests that an engine sends at once, without waiting for the next reap: enough to share the cost of entering the
/// kernel and waking the device, few enough that the device works on them while the next are prepared. Measured in
/// `bench/README.md`.
pub(crate) const SEND_BATCH: usize = 8;

/// The open files of a worker.
#[derive(Debug)]
pub(crate) struct LocalFiles {
    files: Vec<File>,
    devices: Vec<bool>,
    /// Offset and bytes of the worker's region in each file.
    regions: Vec<(i64, i64)>,
}

impl LocalFiles {
    /// Opens every file as `open` says: for reading, and for writing if the worker `writes`.
    ///
    /// Refuses a region beyond the end of a file that may not grow, direct I/O where the file system has none, and
    /// writing to a block device that is mounted or otherwise in use.
    pub(crate) fn open(open: &FileOpen, plans: &[FilePlan], writes: bool) -> Result<Self, EngineError> {
        let files = plans.iter().map(|plan| open_file(open, plan, writes)).collect::<Result<Vec<_>, _>>()?;
        let is_device = |file: &File| file.metadata().is_ok_and(|status| status.file_type().is_block_device());
        let devices = files.iter().map(is_device).collect();
        let regions = plans.iter().map(|plan| (plan.offset_bytes as i64, plan.bytes as i64)).collect();
        Ok(Self { files, devices, regions })
    }

    /// Returns `true` if the request goes to a block device.
    pub(crate) fn is_device(&self, request: &Request) -> bool {
        self.devices[request.address.file as usize]
    }

    /// Writes dirty pages to the storage and drops them from the page cache, so that reads come from the storage.
    pub(crate) fn settle(&self) -> Result<(), EngineError> {
        for file in &self.files {
            let flushed = fdatasync(file);
            flushed.map_err(|error| EngineError::System { action: "flush what was written", source: error.into() })?;
            // Pages that stay in the cache are no failure.
            let _ = fadvise(file, 0, None, Advice::DontNeed);
        }
        Ok(())
    }

    /// Drops the regions' clean pages of these files from the page cache, as fio does: dirty pages of a device are written
    /// first (its `BLKFLSBUF`), those of a file stay.
    pub(crate) fn drop_cached_pages(&self, files: Range<usize>) -> Result<(), EngineError> {
        for number in files {
            let (file, (offset, bytes)) = (&self.files[number], self.regions[number]);
            if self.devices[number] {
                file.sync_data().map_err(|source| EngineError::System { action: "flush a device", source })?;
            }
            // SAFETY: only numbers are passed. Pages that stay in the cache are no failure.
            unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, bytes, libc::POSIX_FADV_DONTNEED) };
        }
        Ok(())
    }

    /// The descriptors, in the order of the plan.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        self.files.iter().map(AsRawFd::as_raw_fd).collect()
    }

    /// Returns `true` if the kernel can start I/O on every file without blocking the calling thread (`FMODE_NOWAIT`).
    /// Network and memory file systems mostly cannot.
    pub(crate) fn start_without_blocking(&self) -> bool {
        let mut memory = Buffers::new(1, 4096);
        let memory = memory.slot_mut(0, 4096);
        let piece = libc::iovec { iov_base: memory.as_mut_ptr().cast(), iov_len: memory.len() };
        self.files.iter().all(|file| {
            // SAFETY: one piece of memory that may be written to.
            let read = unsafe { libc::preadv2(file.as_raw_fd(), &raw const piece, 1, 0, libc::RWF_NOWAIT) };
            read >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EOPNOTSUPP)
        })
    }

    /// The descriptor and the memory of a request.
    ///
    /// An engine passes both to the kernel, so a request out of bounds is an error here and never a stray access.
    #[inline]
    pub(crate) fn target(&self, request: &Request, slots: &SlotMap) -> Result<(RawFd, *mut u8), EngineError> {
        let moves_data = matches!(request.kind, OperationKind::Read | OperationKind::Write);
        let fits = (request.slot as usize) < slots.count()
            && (request.address.length as usize <= slots.stride() || !moves_data)
            && request.address.offset <= i64::MAX as u64 - u64::from(u32::MAX);
        match self.files.get(request.address.file as usize) {
            Some(file) if fits => Ok((file.as_raw_fd(), slots.slot(request.slot))),
            _ => Err(misfit(request, self.files.len(), slots)),
        }
    }
}

/// Most holes of a region that are counted: a file of more fragments has been written to.
const HOLES_MAX: usize = 100_000;

/// The bytes of the region that hold no data: reading them takes no I/O, and returns zeros at memory speed.
///
/// Preallocated space without data counts as a hole, if the file system reports it. Devices have none.
pub(crate) fn unwritten_bytes(plan: &FilePlan) -> u64 {
    // By path first: opening a pipe could block for ever.
    if !is_regular_file(plan) {
        return 0;
    }
    let Ok(file) = File::open(&plan.path) else { return 0 };
    let length = file.metadata().map_or(0, |status| status.len());
    let (mut at, end) = (plan.offset_bytes, plan.offset_bytes.saturating_add(plan.bytes).min(length));
    let mut unwritten = 0;
    for _ in 0..HOLES_MAX {
        let Ok(hole) = seek(&file, SeekFrom::Hole(at)) else { break };
        if hole >= end {
            break;
        }
        // No data follow: the hole reaches to the end.
        at = seek(&file, SeekFrom::Data(hole)).map_or(end, |data| data.min(end));
        unwritten += at - hole;
    }
    unwritten
}

/// The bytes without data of the regions that several workers read, each region counted once.
#[derive(Debug, Default)]
pub(crate) struct Unwritten {
    regions: Mutex<BTreeMap<Region, Arc<OnceLock<u64>>>>,
}

/// Path, start and length.
type Region = (String, u64, u64);

impl Unwritten {
    /// As [`unwritten_bytes`]; the first call for a region counts, and others wait for it.
    pub(crate) fn of(&self, plan: &FilePlan) -> u64 {
        let region = (plan.path.clone(), plan.offset_bytes, plan.bytes);
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = Arc::clone(regions.entry(region).or_default());
        drop(regions);
        *counted.get_or_init(|| unwritten_bytes(plan))
    }
}

/// Returns `true` if the file exists and is a regular file.
pub(crate) fn is_regular_file(plan: &FilePlan) -> bool {
    fs::metadata(&plan.path).is_ok_and(|status| status.is_file())
}

/// Returns `true` for a device of the kernel's without a length and without data to lose: /dev/null, zero, full, random
/// and urandom, which are 1:3, 5, 7, 8 and 9 (Linux, admin-guide/devices.txt).
fn is_endless(metadata: &Metadata) -> bool {
    let device = metadata.rdev();
    metadata.file_type().is_char_device() && libc::major(device) == 1 && matches!(libc::minor(device), 3 | 5 | 7..=9)
}

/// Length of a regular file, or size of a block device; an endless device is as long as any file can be.
pub(crate) fn length_bytes(path: &Path) -> Result<u64, EngineError> {
    let failed = |source| EngineError::Path { action: "open", path: path.display().to_string(), source };
    let metadata = fs::metadata(path).map_err(failed)?;
    if metadata.is_file() {
        return Ok(metadata.len());
    }
    if metadata.file_type().is_block_device() {
        return File::open(path).and_then(|mut device| device.seek(io::SeekFrom::End(0))).map_err(failed);
    }
    if is_endless(&metadata) {
        return Ok(i64::MAX as u64);
    }
    let kind = if metadata.is_dir() { "a directory" } else { "neither a regular file nor a block device" };
    Err(TargetError::NoLength { path: path.display().to_string(), kind }.into())
}

fn open_file(open: &FileOpen, plan: &FilePlan, writes: bool) -> Result<File, EngineError> {
    // Checked by path first: opening a pipe could block for ever.
    let length = length_bytes(Path::new(&plan.path))?;
    if plan.layout != Layout::Create {
        check_region(plan, length)?;
    }
    if writes {
        refuse_device_in_use(&plan.path)?;
    }
    let options = |flags| OpenOptions::new().read(true).write(writes).custom_flags(flags).open(&plan.path);
    // Without O_NOATIME, reads would cause atime writes that are measured with them; only the owner may set the flag.
    let opened = match options(open_flags(open) | libc::O_NOATIME) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => options(open_flags(open)),
        opened => opened,
    };
    let file = opened.map_err(|source| open_error(open, &plan.path, source))?;
    if open.invalidate && !file.metadata().is_ok_and(|metadata| metadata.file_type().is_char_device()) {
        drop_cached_pages(&file, plan)?;
    }
    Ok(file)
}

pub(crate) fn open_flags(open: &FileOpen) -> i32 {
    let durability = match open.durability {
        Durability::None => 0,
        Durability::DataSync => libc::O_DSYNC,
        Durability::FileSync => libc::O_SYNC,
    };
    durability | if open.direct { libc::O_DIRECT } else { 0 }
}

fn open_error(open: &FileOpen, path: &str, source: io::Error) -> EngineError {
    if open.direct && source.raw_os_error() == Some(libc::EINVAL) {
        return no_direct(path);
    }
    EngineError::Path { action: "open", path: path.to_owned(), source }
}

fn check_region(plan: &FilePlan, length: u64) -> Result<(), EngineError> {
    if plan.offset_bytes.checked_add(plan.bytes).is_some_and(|end| end <= length) {
        return Ok(());
    }
    let FilePlan { offset_bytes: start, bytes, .. } = *plan;
    Err(TargetError::ShortOfRegion { path: plan.path.clone(), length, start, bytes }.into())
}

/// Dirty pages cannot be dropped, hence the sync before.
fn drop_cached_pages(file: &File, plan: &FilePlan) -> Result<(), EngineError> {
    let failed = |source| EngineError::Path { action: "drop the cached pages of", path: plan.path.clone(), source };
    file.sync_data().map_err(failed)?;
    let (offset, length) = (plan.offset_bytes as i64, plan.bytes as i64);
    // SAFETY: only numbers are passed.
    let code = unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, length, libc::POSIX_FADV_DONTNEED) };
    if code == 0 { Ok(()) } else { Err(failed(io::Error::from_raw_os_error(code))) }
}

#[cold]
fn misfit(request: &Request, files: usize, slots: &SlotMap) -> EngineError {
    EngineError::Plan(format!(
        "{request:?} does not fit: there are {files} files and {} buffers of {} bytes",
        slots.count(),
        slots.stride()
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::engines::testing::{Scratch, open};

    fn plan(path: &str, offset_bytes: u64, bytes: u64) -> FilePlan {
        FilePlan { path: path.to_owned(), offset_bytes, bytes, start_bytes: 0, layout: Layout::Existing, keep: true }
    }

    fn error_of<T>(result: Result<T, EngineError>) -> String {
        result.err().expect("an error").to_string()
    }

    #[test]
    fn holes_are_counted_in_the_region_that_has_them() {
        let scratch = Scratch::with_file("hole", 1 << 20);
        OpenOptions::new().write(true).open(scratch.path()).unwrap().set_len(2 << 20).unwrap();
        let unwritten = |offset, bytes| unwritten_bytes(&plan(scratch.path(), offset, bytes));
        assert_eq!(unwritten(0, 1 << 20), 0);
        assert_eq!(unwritten(0, 2 << 20), 1 << 20);
        assert_eq!(unwritten(3 << 19, 1 << 19), 1 << 19);
        assert_eq!(unwritten(0, 8 << 20), 1 << 20, "nothing lies behind the end");
        let file = OpenOptions::new().write(true).open(scratch.path()).unwrap();
        file.write_all_at(&[1; 4096], 3 << 19).unwrap();
        assert_eq!(unwritten(0, 2 << 20), (1 << 20) - 4096);
        // SAFETY: a system call without pointers.
        assert_eq!(unsafe { libc::fallocate(file.as_raw_fd(), 0, 1 << 20, 1 << 20) }, 0);
        assert!(unwritten(0, 2 << 20) <= (1 << 20) - 4096);
    }

    #[test]
    fn a_region_that_several_workers_read_is_counted_once() {
        let scratch = Scratch::with_file("shared-hole", 4096);
        let file = OpenOptions::new().write(true).open(scratch.path()).unwrap();
        file.set_len(2 << 20).unwrap();
        let (unwritten, whole) = (Unwritten::default(), plan(scratch.path(), 0, 2 << 20));
        assert_eq!(unwritten.of(&whole), (2 << 20) - 4096);
        file.write_all_at(&[1; 4096], 1 << 20).unwrap();
        assert_eq!(unwritten.of(&whole), (2 << 20) - 4096, "a second count would find what was written");
        assert_eq!(unwritten.of(&plan(scratch.path(), 1 << 20, 1 << 20)), (1 << 20) - 4096, "another region");
    }

    #[test]
    fn opens_a_region_that_fits_exactly_and_refuses_one_byte_more() {
        let scratch = Scratch::with_file("region", 8192);
        let path = scratch.path();
        assert_eq!(LocalFiles::open(&open(false), &[plan(path, 4096, 4096)], false).unwrap().descriptors().len(), 1);
        assert_eq!(
            error_of(LocalFiles::open(&open(false), &[plan(path, 4096, 4097)], false)),
            format!(
                "{path} has 8192 bytes, but the region starts at 4096 and is 4097 bytes long; use a smaller size or offset"
            )
        );
        assert!(LocalFiles::open(&open(false), &[plan(path, u64::MAX, 2)], false).is_err());
        let any_length = FilePlan { layout: Layout::Create, ..plan(path, 4096, 1 << 40) };
        assert!(LocalFiles::open(&open(false), &[any_length], false).is_ok());
    }

    #[test]
    fn opens_read_only_unless_the_worker_writes_and_as_durable_as_asked() {
        let scratch = Scratch::with_file("flags", 4096);
        let flags = |open: &FileOpen, writes| {
            let files = LocalFiles::open(open, &[plan(scratch.path(), 0, 4096)], writes).unwrap();
            // SAFETY: F_GETFL takes no argument.
            unsafe { libc::fcntl(files.descriptors()[0], libc::F_GETFL) }
        };
        let durable = |durability| FileOpen { direct: false, durability, invalidate: true };
        assert_eq!(flags(&durable(Durability::None), false) & libc::O_ACCMODE, libc::O_RDONLY);
        assert_eq!(flags(&durable(Durability::None), true) & libc::O_ACCMODE, libc::O_RDWR);
        assert_eq!(flags(&durable(Durability::None), true) & libc::O_SYNC, 0);
        assert_eq!(flags(&durable(Durability::DataSync), true) & libc::O_SYNC, libc::O_DSYNC);
        assert_eq!(flags(&durable(Durability::FileSync), true) & libc::O_SYNC, libc::O_SYNC);
    }

    #[test]
    fn invalidate_leaves_no_page_in_the_cache() {
        let scratch = Scratch::with_file("cached", 1 << 20);
        assert!(cached_pages(scratch.path(), 1 << 20) > 0);
        let invalidate = FileOpen { invalidate: true, ..open(false) };
        LocalFiles::open(&invalidate, &[plan(scratch.path(), 0, 1 << 20)], false).unwrap();
        assert_eq!(cached_pages(scratch.path(), 1 << 20), 0);
    }

    #[test]
    fn a_further_pass_drops_the_pages_of_the_region_alone() {
        // A page of the cache can have up to 2 MiB, and goes only as a whole.
        const BYTES: usize = 8 << 20;
        let scratch = Scratch::with_file("passes", BYTES);
        File::open(scratch.path()).unwrap().sync_data().unwrap();
        let half = BYTES as u64 / 2;
        let files = [plan(scratch.path(), 0, 2 * half), plan(scratch.path(), half, half)];
        let files = LocalFiles::open(&open(false), &files, false).unwrap();
        fs::read(scratch.path()).unwrap();
        assert_eq!(cached_pages(scratch.path(), BYTES), 2048);
        files.drop_cached_pages(1..2).unwrap();
        assert_eq!(cached_pages(scratch.path(), BYTES), 1024);
        files.drop_cached_pages(0..2).unwrap();
        assert_eq!(cached_pages(scratch.path(), BYTES), 0);
    }

    fn cached_pages(path: &str, bytes: usize) -> usize {
        let file = File::open(path).unwrap();
        let mut residency = vec![0_u8; bytes.div_ceil(4096)];
        // SAFETY: a new mapping, read by `mincore` and then unmapped.
        unsafe {
            let map = libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0);
            assert_ne!(map, libc::MAP_FAILED);
            assert_eq!(libc::mincore(map, bytes, residency.as_mut_ptr()), 0);
            libc::munmap(map, bytes);
        }
        residency.iter().filter(|&&page| page & 1 == 1).count()
    }

    #[test]
    fn refuses_directories_and_missing_files() {
        let directory = std::env::temp_dir().display().to_string();
        assert_eq!(
            error_of(LocalFiles::open(&open(false), &[plan(&directory, 0, 1)], false)),
            format!("{directory} is a directory; name a file in it or a block device")
        );
        let missing = error_of(LocalFiles::open(&open(false), &[plan("/nowhere/at-all", 0, 1)], false));
        assert_eq!(missing, "open /nowhere/at-all: No such file or directory (os error 2); check the path");
    }

    #[test]
    fn direct_io_on_a_file_system_without_it_is_refused() {
        assert_eq!(
            error_of(LocalFiles::open(&open(true), &[plan("/proc/self/stat", 0, 0)], false)),
            "open /proc/self/stat: its file system does not support direct I/O (O_DIRECT); switch direct I/O off or use another file system"
        );
    }

    #[test]
    fn files_that_may_block_are_detected() {
        // procfs has never been able to start a read without blocking.
        let procfs = LocalFiles {
            files: vec![File::open("/proc/self/mounts").unwrap()],
            devices: vec![false],
            regions: Vec::new(),
        };
        assert!(!procfs.start_without_blocking());
        let scratch = Scratch::with_file("blocking", 4096);
        let files = LocalFiles::open(&open(false), &[scratch.plan(4096)], false).unwrap();
        // SAFETY: all zeros is a valid `statfs`, and the call writes one.
        let kind = unsafe {
            let mut status: libc::statfs = std::mem::zeroed();
            assert_eq!(libc::fstatfs(files.descriptors()[0], &raw mut status), 0);
            status.f_type
        };
        if [libc::EXT4_SUPER_MAGIC, libc::XFS_SUPER_MAGIC].contains(&kind) {
            assert!(files.start_without_blocking());
        }
    }
}
