//! Shared by the tests of local files: scratch files, and one suite that every engine must pass.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use iocurve_meter::{Clock, Nanos};

use super::Setup;
use crate::engines::buffers::Buffers;
use crate::engines::files::unwritten_bytes;
use crate::engines::request::{Address, Completion, Engine, Request};
use crate::error::EngineError;
use crate::plan::{Durability, FileOpen, FilePlan, Layout, OperationKind};

/// A directory in the build directory (a real disk more often than `/tmp` is), removed when dropped.
pub(crate) struct Scratch {
    directory: PathBuf,
    path: String,
}

impl Scratch {
    /// Creates a new directory; `path` is that of a file in it that does not exist yet.
    pub(crate) fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let build = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let directory = build.join(format!("scratch-{}-{number}-{name}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let path = directory.join("file").to_str().unwrap().to_owned();
        Self { directory, path }
    }

    /// The same, with a file of `bytes` patterned bytes.
    pub(crate) fn with_file(name: &str, bytes: usize) -> Self {
        let scratch = Self::new(name);
        fs::write(&scratch.path, pattern(0, bytes)).unwrap();
        scratch
    }

    /// Path of the file.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// A plan for the first `bytes` bytes of the file.
    pub(crate) fn plan(&self, bytes: usize) -> FilePlan {
        plan(&self.path, bytes)
    }

    /// Path of another file in the directory.
    pub(crate) fn other(&self, name: &str) -> String {
        self.directory.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It may stay: the build directory is scratch itself.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Bytes that differ by offset.
pub(crate) fn pattern(offset: usize, bytes: usize) -> Vec<u8> {
    (offset..offset + bytes).map(|place| (place / 512 * 31 + place) as u8).collect()
}

/// Flags that files are opened with: direct or not.
pub(crate) fn open(direct: bool) -> FileOpen {
    FileOpen { direct, durability: Durability::None, invalidate: false }
}

/// Parameters of an engine, with buffers of one block and their own clock.
pub(crate) fn setup<'a>(open: &'a FileOpen, files: &'a [FilePlan], writes: bool, depth: u32) -> Setup<'a> {
    setup_on(&Buffers::new(depth as usize, BLOCK), open, files, writes, depth)
}

fn setup_on<'a>(buffers: &Buffers, open: &'a FileOpen, files: &'a [FilePlan], writes: bool, depth: u32) -> Setup<'a> {
    // SAFETY: tests access a slot before they submit a request for it, or after its completion.
    let slots = unsafe { buffers.slot_map() };
    Setup { open, files, writes, slots, depth, clock: Clock::new() }
}

/// Opens an engine for a test.
pub(crate) type Opener<E> = fn(Setup<'_>) -> Result<E, EngineError>;

/// All requirements on an engine for local files, buffered and direct.
pub(crate) fn check_engine<E: Engine>(opener: Opener<E>) {
    for direct in possible_ways() {
        reads_past_the_end_are_short(opener, direct);
    }
    check_mapped_engine(opener);
}

/// The same, without the current length of files, which an engine that maps them cannot know.
pub(crate) fn check_mapped_engine<E: Engine>(opener: Opener<E>) {
    flushes_leave_nothing_dirty(opener);
    settling_leaves_nothing_dirty(opener);
    check_transfers(opener);
}

/// The same, without guarantees of the storage below.
pub(crate) fn check_transfers<E: Engine>(opener: Opener<E>) {
    for direct in possible_ways() {
        writes_then_reads_back(opener, direct);
        a_batch_completes_whole(opener, direct);
        several_files_are_distinguished(opener, direct);
        trims_read_as_zeros(opener, direct);
    }
    writing_a_read_only_file_fails_that_operation_alone(opener);
    zero_does_not_wait(opener);
    a_deadline_ends_the_wait(opener);
    requests_that_do_not_fit_are_refused(opener);
    dropping_with_operations_in_flight_is_clean(opener);
}

const BLOCK: usize = 4096;

struct Bench<E> {
    engine: E,
    buffers: Buffers,
    clock: Clock,
    scratch: Scratch,
}

impl<E: Engine> Bench<E> {
    fn new(opener: Opener<E>, direct: bool, writes: bool, blocks: usize, depth: u32) -> Self {
        let scratch = Scratch::with_file("engine", blocks * BLOCK);
        let plans = [scratch.plan(blocks * BLOCK)];
        Self::over(opener, direct, writes, &plans, depth, scratch)
    }

    fn over(opener: Opener<E>, direct: bool, writes: bool, plans: &[FilePlan], depth: u32, scratch: Scratch) -> Self {
        let (open, buffers) = (open(direct), Buffers::new(depth as usize, BLOCK));
        let setup = setup_on(&buffers, &open, plans, writes, depth);
        let clock = setup.clock.clone();
        Self { engine: opener(setup).unwrap(), buffers, clock, scratch }
    }

    fn submit(&mut self, kind: OperationKind, slot: u32, block: u64) {
        let request =
            Request { slot, kind, address: Address { file: 0, offset: block * BLOCK as u64, length: BLOCK as u32 } };
        self.engine.submit(request).unwrap();
    }

    /// Waits, for at most ten seconds, until `count` have completed; in order of slot.
    fn finish(&mut self, count: usize) -> Vec<Completion> {
        let mut done = Vec::new();
        let deadline = self.clock.now() + 10_000_000_000;
        while done.len() < count && self.clock.now() < deadline {
            let missing = count - done.len();
            self.engine.reap(missing, deadline, &mut done).unwrap();
        }
        done.sort_by_key(|completion| completion.slot);
        done
    }

    fn fill(&mut self, slot: u32, content: &[u8]) {
        self.buffers.slot_mut(slot, content.len()).copy_from_slice(content);
    }

    fn content(&self, slot: u32, bytes: usize) -> &[u8] {
        self.buffers.slot(slot, bytes)
    }
}

fn plan(path: &str, bytes: usize) -> FilePlan {
    FilePlan {
        path: path.to_owned(),
        offset_bytes: 0,
        bytes: bytes as u64,
        start_bytes: 0,
        layout: Layout::Existing,
        keep: true,
    }
}

fn done(slots: std::ops::Range<u32>, result: i64) -> Vec<Completion> {
    slots.map(|slot| Completion { slot, result }).collect()
}

/// Buffered, and direct if the file system supports it.
fn possible_ways() -> impl Iterator<Item = bool> {
    [false, true].into_iter().filter(|direct| !direct || direct_is_possible())
}

fn direct_is_possible() -> bool {
    use std::os::unix::fs::OpenOptionsExt;
    let scratch = Scratch::with_file("direct", BLOCK);
    File::options().read(true).custom_flags(libc::O_DIRECT).open(scratch.path()).is_ok()
}

fn writes_then_reads_back<E: Engine>(opener: Opener<E>, direct: bool) {
    let mut bench = Bench::new(opener, direct, true, 8, 4);
    for (slot, block) in [(0, 5), (1, 0), (2, 7)] {
        bench.fill(slot, &vec![0xA0 | slot as u8; BLOCK]);
        bench.submit(OperationKind::Write, slot, block);
    }
    assert_eq!(bench.finish(3), done(0..3, BLOCK as i64));

    let mut expected = pattern(0, 8 * BLOCK);
    for (slot, block) in [(0, 5), (1, 0), (2, 7)] {
        expected[block * BLOCK..(block + 1) * BLOCK].fill(0xA0 | slot);
    }
    assert_eq!(fs::read(bench.scratch.path()).unwrap(), expected);

    for (slot, block) in [(3, 5), (2, 6), (1, 7), (0, 0)] {
        bench.submit(OperationKind::Read, slot, block);
    }
    assert_eq!(bench.finish(4), done(0..4, BLOCK as i64));
    for (slot, block) in [(3, 5), (2, 6), (1, 7), (0, 0)] {
        assert_eq!(bench.content(slot, BLOCK), &expected[block * BLOCK..(block + 1) * BLOCK]);
    }
}

/// More than the default size of any ring, and every slot again after its completion.
fn a_batch_completes_whole<E: Engine>(opener: Opener<E>, direct: bool) {
    const DEPTH: u32 = 300;
    let mut bench = Bench::new(opener, direct, false, DEPTH as usize, DEPTH);
    for _ in 0..3 {
        for slot in 0..DEPTH {
            bench.submit(OperationKind::Read, slot, u64::from(slot * 7 % DEPTH));
        }
        assert_eq!(bench.finish(DEPTH as usize), done(0..DEPTH, BLOCK as i64));
    }
    for slot in [0, 1, 299] {
        assert_eq!(bench.content(slot, BLOCK), pattern((slot * 7 % DEPTH) as usize * BLOCK, BLOCK));
    }
}

fn reads_past_the_end_are_short<E: Engine>(opener: Opener<E>, direct: bool) {
    let mut bench = Bench::new(opener, direct, false, 2, 2);
    // Shorter than in the plan, as if another process had truncated the file during the run.
    File::options().write(true).open(bench.scratch.path()).unwrap().set_len(BLOCK as u64 + 1536).unwrap();
    bench.submit(OperationKind::Read, 0, 1);
    bench.submit(OperationKind::Read, 1, 9);
    assert_eq!(bench.finish(2), [Completion { slot: 0, result: 1536 }, Completion { slot: 1, result: 0 }]);
    assert_eq!(bench.content(0, 1536), pattern(BLOCK, 1536));
}

fn several_files_are_distinguished<E: Engine>(opener: Opener<E>, direct: bool) {
    let scratch = Scratch::with_file("several", BLOCK);
    let other = scratch.other("second");
    fs::write(&other, vec![7; BLOCK]).unwrap();
    let plans = [plan(scratch.path(), BLOCK), plan(&other, BLOCK)];
    let mut bench = Bench::over(opener, direct, false, &plans, 2, scratch);
    for (slot, file) in [(0, 1), (1, 0)] {
        let request =
            Request { slot, kind: OperationKind::Read, address: Address { file, offset: 0, length: BLOCK as u32 } };
        bench.engine.submit(request).unwrap();
    }
    assert_eq!(bench.finish(2), done(0..2, BLOCK as i64));
    assert_eq!(bench.content(0, BLOCK), vec![7; BLOCK]);
    assert_eq!(bench.content(1, BLOCK), pattern(0, BLOCK));
}

/// A file keeps its length, and the trimmed range takes no space. A trim needs no buffer of its size.
fn trims_read_as_zeros<E: Engine>(opener: Opener<E>, direct: bool) {
    let mut bench = Bench::new(opener, direct, true, 8, 2);
    let trim = Request {
        slot: 0,
        kind: OperationKind::Trim,
        address: Address { file: 0, offset: 2 * BLOCK as u64, length: 3 * BLOCK as u32 },
    };
    bench.engine.submit(trim).unwrap();
    assert_eq!(bench.finish(1), done(0..1, 3 * BLOCK as i64));
    bench.submit(OperationKind::Trim, 0, 7);
    bench.submit(OperationKind::Read, 1, 4);
    assert_eq!(bench.finish(2), done(0..2, BLOCK as i64));
    assert_eq!(bench.content(1, BLOCK), vec![0; BLOCK]);
    let mut expected = pattern(0, 8 * BLOCK);
    expected[2 * BLOCK..5 * BLOCK].fill(0);
    expected[7 * BLOCK..].fill(0);
    assert_eq!(fs::read(bench.scratch.path()).unwrap(), expected);
    let trimmed = FilePlan { offset_bytes: 2 * BLOCK as u64, ..bench.scratch.plan(BLOCK) };
    assert_eq!(unwritten_bytes(&trimmed), BLOCK as u64);
}

fn flushes_leave_nothing_dirty<E: Engine>(opener: Opener<E>) {
    let several = 4;
    for kind in OperationKind::ALL.into_iter().filter(|kind| kind.is_flush()) {
        let scratch = Scratch::with_file("flush", several * BLOCK);
        let files = [scratch.plan(several * BLOCK)];
        let mut bench = Bench::over(opener, false, true, &files, 2, scratch);
        File::open(bench.scratch.path()).unwrap().sync_all().unwrap();
        for block in [1, 3] {
            bench.submit(OperationKind::Write, 0, block);
            assert_eq!(bench.finish(1), done(0..1, BLOCK as i64));
        }
        let length = 3 * BLOCK as u32;
        let flush = Request { slot: 1, kind, address: Address { file: 0, offset: BLOCK as u64, length } };
        bench.engine.submit(flush).unwrap();
        assert_eq!(bench.finish(1), [Completion { slot: 1, result: 0 }]);
        assert!(matches!(dirty_pages(bench.scratch.path()), Some(0) | None), "{kind:?}");
    }
}

fn settling_leaves_nothing_dirty<E: Engine>(opener: Opener<E>) {
    let mut bench = Bench::new(opener, false, true, 4, 1);
    bench.submit(OperationKind::Write, 0, 1);
    assert_eq!(bench.finish(1), done(0..1, BLOCK as i64));
    bench.engine.settle().unwrap();
    assert!(matches!(dirty_pages(bench.scratch.path()), Some(0) | None));
}

/// Pages of a file that are dirty or under write-back; `None` if the kernel does not report them (before Linux 6.5).
fn dirty_pages(path: &str) -> Option<u64> {
    use std::os::fd::AsRawFd;
    const CACHESTAT: libc::c_long = 451;
    let (file, whole) = (File::open(path).unwrap(), [0_u64; 2]);
    // Cached, dirty, being written, evicted, recently evicted.
    let mut pages = [0_u64; 5];
    // SAFETY: a range of two numbers and room for five, as `cachestat(2)` says.
    let code = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), whole.as_ptr(), pages.as_mut_ptr(), 0) };
    (code == 0).then_some(pages[1] + pages[2])
}

fn writing_a_read_only_file_fails_that_operation_alone<E: Engine>(opener: Opener<E>) {
    let mut bench = Bench::new(opener, false, false, 4, 3);
    bench.submit(OperationKind::Read, 0, 0);
    bench.submit(OperationKind::Write, 1, 1);
    bench.submit(OperationKind::Read, 2, 2);
    let results: Vec<i64> = bench.finish(3).iter().map(|completion| completion.result).collect();
    assert_eq!(results, [BLOCK as i64, -i64::from(libc::EBADF), BLOCK as i64]);
    assert_eq!(fs::read(bench.scratch.path()).unwrap(), pattern(0, 4 * BLOCK));
}

fn zero_does_not_wait<E: Engine>(opener: Opener<E>) {
    let mut bench = Bench::new(opener, false, false, 1, 1);
    let mut finished = Vec::new();
    // Nothing will ever complete: a wait would not end.
    bench.engine.reap(0, Nanos::MAX, &mut finished).unwrap();
    bench.engine.reap(1, Nanos::MAX, &mut finished).unwrap();
    assert_eq!(finished, []);
    bench.submit(OperationKind::Read, 0, 0);
    let deadline = bench.clock.now() + 10_000_000_000;
    while finished.is_empty() && bench.clock.now() < deadline {
        bench.engine.reap(0, Nanos::MAX, &mut finished).unwrap();
    }
    assert_eq!(finished, done(0..1, BLOCK as i64));
}

fn a_deadline_ends_the_wait<E: Engine>(opener: Opener<E>) {
    let mut bench = Bench::new(opener, false, false, 1, 2);
    let mut finished = Vec::new();
    let deadline = bench.clock.now() + 3_000_000;
    bench.engine.reap(1, deadline, &mut finished).unwrap();
    assert!(bench.clock.now() >= deadline);
    bench.engine.reap(1, 0, &mut finished).unwrap();
    assert_eq!(finished, []);

    // Two are requested and only one is in flight: the reap returns that one.
    bench.submit(OperationKind::Read, 1, 0);
    let deadline = bench.clock.now() + 10_000_000_000;
    bench.engine.reap(2, deadline, &mut finished).unwrap();
    assert!(bench.clock.now() < deadline);
    assert_eq!(finished, [Completion { slot: 1, result: BLOCK as i64 }]);
}

fn requests_that_do_not_fit_are_refused<E: Engine>(opener: Opener<E>) {
    let mut bench = Bench::new(opener, false, false, 1, 2);
    let fits =
        Request { slot: 0, kind: OperationKind::Read, address: Address { file: 0, offset: 0, length: BLOCK as u32 } };
    let misfits = [
        Request { slot: 2, ..fits },
        Request { address: Address { file: 1, ..fits.address }, ..fits },
        Request { address: Address { length: BLOCK as u32 + 1, ..fits.address }, ..fits },
        Request { address: Address { offset: u64::MAX, ..fits.address }, ..fits },
    ];
    for request in misfits {
        let error = bench.engine.submit(request).unwrap_err().to_string();
        assert!(error.ends_with("does not fit: there are 1 files and 2 buffers of 4096 bytes"), "{error}");
    }
    bench.submit(OperationKind::Read, 0, 0);
    assert_eq!(bench.finish(1), done(0..1, BLOCK as i64));
}

fn dropping_with_operations_in_flight_is_clean<E: Engine>(opener: Opener<E>) {
    let mut bench = Bench::new(opener, direct_is_possible(), false, 64, 64);
    for slot in 0..32 {
        bench.submit(OperationKind::Read, slot, u64::from(slot));
    }
    bench.engine.reap(0, Nanos::MAX, &mut Vec::new()).unwrap();
    for slot in 32..64 {
        bench.submit(OperationKind::Read, slot, u64::from(slot));
    }
    let Bench { engine, buffers, .. } = bench;
    assert!(buffers.holders() > 1);
    drop(engine);
    assert_eq!(buffers.holders(), 1);
}
