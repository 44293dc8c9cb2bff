//! What happens to local files before the run: they are created, written or reserved, and nothing that was there is touched.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::EngineError;
use crate::files::length_bytes;
use crate::plan::{FilePlan, Layout};

/// Bytes that [`lay_out`] will write. Reserved bytes are not written and do not count.
pub fn total_bytes(files: &[&FilePlan]) -> u64 {
    let written = |target: &Target| matches!(target.layout, Layout::Fill | Layout::New);
    let missing = |target: &Target| target.end.saturating_sub(length_bytes(&target.path).unwrap_or(0));
    targets(files).iter().filter(|target| written(target)).map(missing).sum()
}

/// Does what each file's [`Layout`] says and returns which files it created, as the plans name them.
///
/// A file that several plans name is laid out once, up to the end of their furthest region. What is written is
/// pseudo-random, from `seed`, and on stable storage at the end, so that the run does not measure the layout's
/// write-back. `progress` is told the bytes written so far. On an error, or when `stop` is set, everything is put
/// back: files created here are gone, files extended here have their former length.
pub fn lay_out(
    files: &[&FilePlan],
    seed: u64,
    progress: &dyn Fn(u64),
    stop: &AtomicBool,
) -> Result<Vec<PathBuf>, EngineError> {
    let mut session = Session { seed, progress, stop, written: 0, changes: Vec::new() };
    match targets(files).iter().try_for_each(|target| session.prepare(target)) {
        Ok(()) => Ok(session.created()),
        Err(error) => {
            session.undo();
            Err(error)
        }
    }
}

/// One file, however often it is named.
#[derive(Debug)]
struct Target {
    /// As the first plan names it.
    path: PathBuf,
    /// The same for every way to name the file.
    identity: PathBuf,
    /// How long it must be.
    end: u64,
    layout: Layout,
}

fn targets(files: &[&FilePlan]) -> Vec<Target> {
    let mut targets: Vec<Target> = Vec::new();
    for file in files {
        let path = PathBuf::from(&file.path);
        let identity = identity(&path);
        let end = file.offset_bytes.saturating_add(file.bytes);
        match targets.iter_mut().find(|target| target.identity == identity) {
            Some(target) => {
                target.end = target.end.max(end);
                target.layout = stronger(target.layout, file.layout);
            }
            None => targets.push(Target { path, identity, end, layout: file.layout }),
        }
    }
    targets
}

/// The same path for the same file, whether it is there already or not.
fn identity(path: &Path) -> PathBuf {
    if let Ok(canonical) = fs::canonicalize(path) {
        return canonical;
    }
    match (fs::canonicalize(directory_of(path)), path.file_name()) {
        (Ok(directory), Some(name)) => directory.join(name),
        _ => path.to_owned(),
    }
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn stronger(one: Layout, other: Layout) -> Layout {
    let strength = |layout| match layout {
        Layout::Existing | Layout::Create | Layout::Recreate | Layout::RecreateReserve => 0,
        Layout::Reserve => 1,
        Layout::Fill => 2,
        Layout::New => 3,
    };
    if strength(one) >= strength(other) { one } else { other }
}

/// What was changed, so that it can be put back.
enum Change {
    Created(PathBuf),
    Extended { path: PathBuf, former_length: u64 },
}

struct Session<'a> {
    seed: u64,
    progress: &'a dyn Fn(u64),
    stop: &'a AtomicBool,
    written: u64,
    changes: Vec<Change>,
}

impl Session<'_> {
    fn prepare(&mut self, target: &Target) -> Result<(), EngineError> {
        let path = &target.path;
        // `symlink_metadata`: a link that leads nowhere is something that is there, too.
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create(target),
            Err(source) => Err(path_error("look at", path, source)),
            Ok(_) if target.layout == Layout::New => Err(EngineError::Target(format!(
                "{} exists already and is not overwritten; remove it or use another name",
                path.display()
            ))),
            Ok(_) => self.extend_existing(target),
        }
    }

    fn create(&mut self, target: &Target) -> Result<(), EngineError> {
        let path = &target.path;
        if target.layout == Layout::Existing {
            return Err(EngineError::Target(format!(
                "{} does not exist, and this job does not create it; check the path or create it first",
                path.display()
            )));
        }
        if !directory_of(path).is_dir() {
            return Err(EngineError::Target(format!(
                "create {}: the directory {} does not exist; create it first",
                path.display(),
                directory_of(path).display()
            )));
        }
        let created = OpenOptions::new().write(true).create_new(true).open(path);
        let file = created.map_err(|source| path_error("create", path, source))?;
        self.changes.push(Change::Created(path.clone()));
        self.extend(&file, target, 0)
    }

    fn extend_existing(&mut self, target: &Target) -> Result<(), EngineError> {
        let path = &target.path;
        let length = length_bytes(path)?;
        if length >= target.end {
            return Ok(());
        }
        let is_device = fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device());
        if is_device || target.layout == Layout::Existing {
            return Err(EngineError::Target(format!(
                "{} has {length} bytes, but {} are to be used; use a smaller size or offset",
                path.display(),
                target.end
            )));
        }
        let opened = OpenOptions::new().write(true).open(path);
        let file = opened.map_err(|source| path_error("open", path, source))?;
        self.changes.push(Change::Extended { path: path.clone(), former_length: length });
        self.extend(&file, target, length)
    }

    fn extend(&mut self, file: &File, target: &Target, from: u64) -> Result<(), EngineError> {
        let missing = target.end - from;
        let explain = |source: io::Error| layout_error(&target.path, missing, &source, free_bytes(&target.path));
        if free_bytes(&target.path).is_some_and(|free| missing > free) {
            // Said at once: writing until nothing is left would take long and starve everybody else.
            return Err(explain(io::Error::from_raw_os_error(libc::ENOSPC)));
        }
        self.check_stop()?;
        match target.layout {
            Layout::Reserve => reserve(file, from, target.end).map_err(explain),
            _ => self.write(file, target, from, &explain),
        }
    }

    /// Writes from `from` to the target's end, with little of it dirty at any time and nothing at the end.
    fn write(
        &mut self,
        file: &File,
        target: &Target,
        from: u64,
        explain: &dyn Fn(io::Error) -> EngineError,
    ) -> Result<(), EngineError> {
        let seed = mix(self.seed ^ hash(&target.identity));
        let mut block = vec![0_u64; (BLOCK_BYTES / 8) as usize];
        let mut at = from;
        while at < target.end {
            self.check_stop()?;
            // Blocks start at multiples of their size, so a file's content depends on seed and place alone.
            let start = at - at % BLOCK_BYTES;
            let end = (start + BLOCK_BYTES).min(target.end);
            let content = fill(&mut block, seed, start);
            file.write_all_at(&content[(at - start) as usize..(end - start) as usize], at).map_err(explain)?;
            if end.is_multiple_of(WRITE_BACK_BYTES) {
                write_back(file, end).map_err(explain)?;
            }
            self.written += end - at;
            (self.progress)(self.written);
            at = end;
        }
        file.sync_data().map_err(explain)
    }

    fn check_stop(&self) -> Result<(), EngineError> {
        if self.stop.load(Ordering::Relaxed) { Err(EngineError::StoppedInLayout) } else { Ok(()) }
    }

    fn created(self) -> Vec<PathBuf> {
        let created = |change| match change {
            Change::Created(path) => Some(path),
            Change::Extended { .. } => None,
        };
        self.changes.into_iter().filter_map(created).collect()
    }

    /// What cannot be put back stays; the error that led here says more than this one would.
    fn undo(&self) {
        for change in &self.changes {
            let _ = match change {
                Change::Created(path) => fs::remove_file(path),
                Change::Extended { path, former_length } => {
                    OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(*former_length))
                }
            };
        }
    }
}

/// Written at once, between two looks at the stop flag.
const BLOCK_BYTES: u64 = 1 << 20;

/// Dirty at most twice this much.
const WRITE_BACK_BYTES: u64 = 16 << 20;

/// Starts writing back the newest stretch before `end` and waits for the one before it, so that the disk is kept busy
/// while the next blocks are made.
fn write_back(file: &File, end: u64) -> io::Result<()> {
    const START: libc::c_uint = libc::SYNC_FILE_RANGE_WRITE;
    const FINISH: libc::c_uint =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    sync_range(file, end - WRITE_BACK_BYTES, START)?;
    match end.checked_sub(2 * WRITE_BACK_BYTES) {
        Some(before) => sync_range(file, before, FINISH),
        None => Ok(()),
    }
}

fn sync_range(file: &File, start: u64, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: only numbers are passed.
    let code = unsafe { libc::sync_file_range(file.as_raw_fd(), start as i64, WRITE_BACK_BYTES as i64, flags) };
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        _ if code == 0 => Ok(()),
        // A file system without it: the sync at the end does all the work.
        Some(libc::ENOSYS | libc::EINVAL | libc::ESPIPE | libc::EINTR) => Ok(()),
        _ => Err(error),
    }
}

/// Extends without writing: space is set aside where the file system can do that, else the file becomes sparse.
fn reserve(file: &File, from: u64, end: u64) -> io::Result<()> {
    loop {
        // SAFETY: only numbers are passed.
        let code = unsafe { libc::fallocate(file.as_raw_fd(), 0, from as i64, (end - from) as i64) };
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            _ if code == 0 => return Ok(()),
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => return file.set_len(end),
            _ => return Err(error),
        }
    }
}

/// Free bytes on the file system of `path`, or `None` where it does not say.
fn free_bytes(path: &Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let directory = std::ffi::CString::new(directory_of(path).as_os_str().as_bytes()).ok()?;
    // SAFETY: all zeros is a valid `statvfs`.
    let mut status: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `directory` ends with a zero byte and `status` is writable.
    let code = unsafe { libc::statvfs(directory.as_ptr(), &raw mut status) };
    (code == 0 && status.f_blocks > 0).then(|| status.f_bfree.saturating_mul(status.f_frsize))
}

fn layout_error(path: &Path, missing: u64, source: &io::Error, free: Option<u64>) -> EngineError {
    if source.raw_os_error() != Some(libc::ENOSPC) {
        let source = source.raw_os_error().map_or_else(|| source.kind().into(), io::Error::from_raw_os_error);
        return path_error("lay out", path, source);
    }
    let free = free.map_or_else(|| "too few".to_owned(), |free| free.to_string());
    EngineError::Target(format!(
        "lay out {}: no space: {missing} bytes are to be added and {free} are free on its file system; free space or use a smaller size",
        path.display()
    ))
}

fn path_error(action: &'static str, path: &Path, source: io::Error) -> EngineError {
    EngineError::Path { action, path: path.display().to_string(), source }
}

/// Fills `block` with what belongs at `start` of a file and returns it as bytes.
fn fill(block: &mut [u64], seed: u64, start: u64) -> &[u8] {
    let first = start / 8;
    for (number, word) in (first..).zip(block.iter_mut()) {
        *word = mix(seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))).to_le();
    }
    // SAFETY: any eight bytes of a u64 are eight u8, and u8 needs no alignment.
    unsafe { std::slice::from_raw_parts(block.as_ptr().cast(), size_of_val(block)) }
}

/// The finalizer of `SplitMix64` (Steele, Lea and Flood, 2014): each place gets its bits without the ones before it.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Different files get different content, or a store that deduplicates would keep one of them (FNV-1a).
fn hash(path: &Path) -> u64 {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::engines::testing::{Scratch, pattern};

    fn plan(path: &str, offset_bytes: u64, bytes: u64, layout: Layout) -> FilePlan {
        FilePlan { path: path.to_owned(), offset_bytes, bytes, start_bytes: 0, layout, keep: true }
    }

    fn run(files: &[FilePlan]) -> Result<Vec<PathBuf>, String> {
        let files: Vec<&FilePlan> = files.iter().collect();
        lay_out(&files, 1, &|_| {}, &AtomicBool::new(false)).map_err(|error| error.to_string())
    }

    fn total(files: &[FilePlan]) -> u64 {
        total_bytes(&files.iter().collect::<Vec<_>>())
    }

    #[test]
    fn fill_creates_a_file_of_random_bytes_that_are_stored() {
        let scratch = Scratch::new("fill");
        let files = [plan(scratch.path(), 1000, 3_000_000, Layout::Fill)];
        assert_eq!(total(&files), 3_001_000);
        assert_eq!(run(&files), Ok(vec![PathBuf::from(scratch.path())]));
        assert_eq!(total(&files), 0);
        let content = fs::read(scratch.path()).unwrap();
        assert_eq!(content.len(), 3_001_000);
        let mut counts = [0; 256];
        for byte in content {
            counts[usize::from(byte)] += 1;
        }
        assert!(counts.iter().all(|count| (10_000..14_000).contains(count)), "{counts:?}");
        assert!(fs::metadata(scratch.path()).unwrap().blocks() * 512 >= 3_001_000);
    }

    #[test]
    fn fill_leaves_what_is_there_and_continues_as_if_written_at_once() {
        let (whole, parts) = (Scratch::new("whole"), Scratch::with_file("parts", 1_500_001));
        run(&[plan(whole.path(), 0, 2_500_000, Layout::Fill)]).unwrap();
        assert_eq!(run(&[plan(parts.path(), 0, 2_500_000, Layout::Fill)]), Ok(vec![]));
        let (whole, parts) = (fs::read(whole.path()).unwrap(), fs::read(parts.path()).unwrap());
        assert_eq!(parts[..1_500_001], pattern(0, 1_500_001));
        assert_eq!(parts.len(), 2_500_000);
        assert_ne!(parts[1_500_001..], whole[1_500_001..], "files differ in content");
    }

    #[test]
    fn content_depends_on_seed_and_place_alone() {
        let mut block = [0; 4];
        let two = fill(&mut block, 7, 0).to_vec();
        assert_eq!(fill(&mut block, 7, 16)[..16], two[16..]);
        assert_ne!(fill(&mut block, 8, 0), two);
    }

    #[test]
    fn a_file_long_enough_is_not_touched() {
        let scratch = Scratch::with_file("long", 5000);
        for layout in [Layout::Existing, Layout::Fill, Layout::Reserve] {
            assert_eq!(run(&[plan(scratch.path(), 1000, 4000, layout)]), Ok(vec![]));
            assert_eq!(fs::read(scratch.path()).unwrap(), pattern(0, 5000));
        }
    }

    #[test]
    fn existing_must_be_there_and_long_enough() {
        let scratch = Scratch::with_file("existing", 5000);
        let path = scratch.path();
        assert_eq!(
            run(&[plan(scratch.path(), 4097, 4096, Layout::Existing)]),
            Err(format!("{path} has 5000 bytes, but 8193 are to be used; use a smaller size or offset"))
        );
        let missing = scratch.other("missing");
        let error = run(&[plan(&missing, 0, 1, Layout::Existing)]).unwrap_err();
        assert!(error.ends_with("does not exist, and this job does not create it; check the path or create it first"));
        assert!(!Path::new(&missing).exists());
    }

    #[test]
    fn new_refuses_a_file_that_is_there() {
        let scratch = Scratch::with_file("new", 10);
        let error = run(&[plan(scratch.path(), 0, 20, Layout::New)]).unwrap_err();
        assert!(error.ends_with("exists already and is not overwritten; remove it or use another name"), "{error}");
        assert_eq!(fs::read(scratch.path()).unwrap(), pattern(0, 10));

        let dangling = scratch.other("dangling");
        std::os::unix::fs::symlink(scratch.other("nowhere"), &dangling).unwrap();
        assert!(run(&[plan(&dangling, 0, 20, Layout::New)]).is_err());

        let fresh = plan(&scratch.other("fresh"), 0, 20, Layout::New);
        assert_eq!(run(std::slice::from_ref(&fresh)).unwrap().len(), 1);
        assert_eq!(fs::metadata(&fresh.path).unwrap().len(), 20);
    }

    #[test]
    fn reserve_extends_and_keeps_what_is_there() {
        let scratch = Scratch::with_file("reserve", 5000);
        let files = [plan(scratch.path(), 0, 3 << 20, Layout::Reserve)];
        assert_eq!(total(&files), 0);
        assert_eq!(run(&files), Ok(vec![]));
        let content = fs::read(scratch.path()).unwrap();
        assert_eq!(content[..5000], pattern(0, 5000));
        assert_eq!(content[5000..], vec![0; (3 << 20) - 5000]);
    }

    #[test]
    fn a_file_named_twice_is_laid_out_once_to_the_furthest_end() {
        let scratch = Scratch::new("twice");
        let detour = scratch.other("./file");
        let files = [
            plan(scratch.path(), 0, 1000, Layout::Existing),
            plan(&detour, 5000, 3000, Layout::New),
            plan(scratch.path(), 0, 10, Layout::Reserve),
        ];
        assert_eq!(total(&files), 8000);
        assert_eq!(run(&files).unwrap().len(), 1);
        assert_eq!(fs::metadata(scratch.path()).unwrap().len(), 8000);
    }

    #[test]
    fn a_missing_directory_is_named() {
        let scratch = Scratch::new("directory");
        let path = scratch.other("deeper/file");
        let directory = Path::new(&path).parent().unwrap().display().to_string();
        assert_eq!(
            run(&[plan(&path, 0, 10, Layout::Fill)]),
            Err(format!("create {path}: the directory {directory} does not exist; create it first"))
        );
    }

    #[test]
    fn no_space_is_found_out_before_anything_is_written_and_leaves_no_file() {
        let scratch = Scratch::new("space");
        let bytes = 1 << 60;
        for layout in [Layout::Fill, Layout::Reserve, Layout::New] {
            let error = run(&[plan(scratch.path(), 0, bytes, layout)]).unwrap_err();
            assert!(error.contains(&format!("no space: {bytes} bytes are to be added and ")), "{error}");
            assert!(!Path::new(scratch.path()).exists());
        }
    }

    #[test]
    fn no_space_while_writing_says_how_much() {
        let full = io::Error::from_raw_os_error(libc::ENOSPC);
        assert_eq!(
            layout_error(Path::new("/d/f"), 4096, &full, Some(512)).to_string(),
            "lay out /d/f: no space: 4096 bytes are to be added and 512 are free on its file system; free space or use a smaller size"
        );
        let other = io::Error::from_raw_os_error(libc::EFBIG);
        assert_eq!(
            layout_error(Path::new("/d/f"), 4096, &other, None).to_string(),
            "lay out /d/f: File too large (os error 27)"
        );
    }

    #[test]
    fn a_stop_puts_everything_back() {
        let scratch = Scratch::with_file("stop", 1000);
        let created = scratch.other("created");
        let complete = scratch.other("complete");
        let files = [
            plan(&complete, 0, 100, Layout::Fill),
            plan(scratch.path(), 0, 2000, Layout::Fill),
            plan(&created, 0, 64 << 20, Layout::New),
        ];
        let stop = AtomicBool::new(false);
        let seen = RefCell::new(Vec::new());
        let progress = |bytes| {
            seen.borrow_mut().push(bytes);
            stop.store(bytes > 3 << 20, Ordering::Relaxed);
        };
        let error = lay_out(&files.iter().collect::<Vec<_>>(), 1, &progress, &stop).unwrap_err();
        assert!(matches!(error, EngineError::StoppedInLayout), "{error}");
        let mebi = 1 << 20;
        assert_eq!(*seen.borrow(), [100, 1100, 1100 + mebi, 1100 + 2 * mebi, 1100 + 3 * mebi]);
        assert!(!Path::new(&created).exists() && !Path::new(&complete).exists());
        assert_eq!(fs::read(scratch.path()).unwrap(), pattern(0, 1000));
    }

    #[test]
    fn long_layouts_pass_through_write_back() {
        let scratch = Scratch::new("write-back");
        run(&[plan(scratch.path(), 0, 3 * WRITE_BACK_BYTES + 1, Layout::Fill)]).unwrap();
        assert_eq!(fs::metadata(scratch.path()).unwrap().len(), 3 * WRITE_BACK_BYTES + 1);
    }

    #[test]
    fn a_layout_that_says_less_does_not_undo_one_that_says_more() {
        assert_eq!(stronger(Layout::Existing, Layout::Reserve), Layout::Reserve);
        assert_eq!(stronger(Layout::Fill, Layout::Reserve), Layout::Fill);
        assert_eq!(stronger(Layout::Fill, Layout::New), Layout::New);
    }
}
