//! Layout of local files: they are created, written or reserved before the run. Existing data are not touched unless
//! the plan recreates the file.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use iocurve_meter::{mix, seed_of};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;

use crate::engines::files::length_bytes;
use crate::error::{EngineError, TargetError};
use crate::plan::{FilePlan, Layout};

/// Bytes that [`lay_out`] will write. Reserved bytes are not written and do not count.
pub(super) fn total_bytes(files: &[&FilePlan]) -> u64 {
    let missing = |target: &Target| match target.layout {
        Layout::Fill => target.end.saturating_sub(length_bytes(&target.path).unwrap_or(0)),
        _ => target.end,
    };
    targets(files).iter().filter(|target| target.layout.writes()).map(missing).sum()
}

/// Performs the [`Layout`] of each file, and returns the files that it created, as the plans name them.
///
/// A file that several plans name is laid out once, up to the end of the furthest region. Data are pseudo-random from
/// `seed`, and on stable storage at the end, so that the run does not measure the layout's write-back. `progress` is
/// called with the bytes written so far.
///
/// On an error, or when `stop` is set, everything is undone: files created here are removed, files extended here get
/// their former length. The data of a recreated file are lost, but no file is emptied before the free space is known to
/// suffice and all other files are laid out.
pub fn lay_out(
    files: &[&FilePlan],
    seed: u64,
    progress: &dyn Fn(u64),
    stop: &AtomicBool,
) -> Result<Vec<PathBuf>, EngineError> {
    let mut preparation = Preparation { seed, progress, stop, written: 0, changes: Vec::new() };
    let mut targets = targets(files);
    // Files that are emptied come last: everything else that can fail comes before the step that cannot be undone.
    targets.sort_by_key(|target| target.layout.empties());
    check_space(&targets)?;
    match targets.iter().try_for_each(|target| preparation.prepare(target)) {
        Ok(()) => Ok(preparation.created()),
        Err(error) => {
            preparation.undo();
            Err(error)
        }
    }
}

/// One file, even if several plans name it.
#[derive(Debug)]
struct Target {
    /// The file's path in the first plan that has the file.
    path: PathBuf,
    /// Canonical path: the same for every name of the file.
    identity: PathBuf,
    /// Length that the file must have.
    end: u64,
    layout: Layout,
}

impl Target {
    /// Bytes that the layout takes from the file system.
    fn missing_bytes(&self) -> u64 {
        if matches!(self.layout, Layout::Existing | Layout::Nothing) {
            return 0;
        }
        let kept = fs::metadata(&self.path).map_or(0, |found| match found.is_file() {
            true if self.layout.empties() => found.blocks() * 512,
            true => found.len(),
            false => self.end,
        });
        self.end.saturating_sub(kept)
    }
}

fn targets(files: &[&FilePlan]) -> Vec<Target> {
    let mut targets: Vec<Target> = Vec::new();
    let mut known: HashMap<PathBuf, usize> = HashMap::new();
    for file in files {
        let path = PathBuf::from(&file.path);
        let identity = identity(&path);
        let end = file.needed_end();
        if let Some(&index) = known.get(&identity) {
            let target = &mut targets[index];
            target.end = target.end.max(end);
            target.layout = target.layout.stronger(file.layout);
        } else {
            known.insert(identity.clone(), targets.len());
            targets.push(Target { path, identity, end, layout: file.layout });
        }
    }
    for target in targets.iter_mut().filter(|target| target.layout == Layout::Create) {
        // The length stays: another plan that needs one has its own layout.
        target.end = 0;
    }
    targets
}

/// Canonical path of a file, even if it does not exist.
fn identity(path: &Path) -> PathBuf {
    if let Ok(canonical) = fs::canonicalize(path) {
        return canonical;
    }
    match (fs::canonicalize(directory_of(path)), path.file_name()) {
        (Ok(directory), Some(name)) => directory.join(name),
        _ => path.to_owned(),
    }
}

fn check_directory(path: &Path) -> Result<(), EngineError> {
    if path.is_dir() {
        return Ok(());
    }
    Err(TargetError::NotADirectory { path: text(path) }.into())
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A change that can be undone.
enum Change {
    Created(PathBuf),
    Extended { path: PathBuf, former_length: u64 },
}

struct Preparation<'a> {
    seed: u64,
    progress: &'a dyn Fn(u64),
    stop: &'a AtomicBool,
    written: u64,
    changes: Vec<Change>,
}

impl Preparation<'_> {
    fn prepare(&mut self, target: &Target) -> Result<(), EngineError> {
        let path = &target.path;
        // `symlink_metadata`: a dangling link exists, too.
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create(target),
            Err(source) => Err(path_error("look at", path, source)),
            Ok(_) if target.layout == Layout::Directory => check_directory(path),
            Ok(_) if target.layout == Layout::New => Err(TargetError::Exists { path: text(path) }.into()),
            Ok(_) if target.layout.empties() => self.empty(target),
            Ok(_) => self.extend_existing(target),
        }
    }

    fn create(&mut self, target: &Target) -> Result<(), EngineError> {
        let path = &target.path;
        if target.layout == Layout::Existing {
            return Err(TargetError::Missing { path: text(path) }.into());
        }
        let directory = directory_of(path);
        if !directory.is_dir() {
            return Err(TargetError::MissingParent { path: text(path), directory: text(directory) }.into());
        }
        if target.layout == Layout::Directory {
            self.check_stop()?;
            fs::create_dir(path).map_err(|source| path_error("create", path, source))?;
            self.changes.push(Change::Created(path.clone()));
            return Ok(());
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
            return Err(TargetError::Short { path: text(path), length, end: target.end }.into());
        }
        let opened = OpenOptions::new().write(true).open(path);
        let file = opened.map_err(|source| path_error("open", path, source))?;
        self.changes.push(Change::Extended { path: path.clone(), former_length: length });
        self.extend(&file, target, length)
    }

    /// Empties a file and extends it: the user asked to recreate it.
    fn empty(&mut self, target: &Target) -> Result<(), EngineError> {
        let path = &target.path;
        let metadata = fs::metadata(path).map_err(|source| path_error("look at", path, source))?;
        if !metadata.is_file() {
            return Err(TargetError::NotRecreatable { path: text(path) }.into());
        }
        let opened = OpenOptions::new().write(true).open(path);
        let file = opened.map_err(|source| path_error("open", path, source))?;
        self.check_stop()?;
        file.set_len(0).map_err(|source| path_error("empty", path, source))?;
        self.extend(&file, target, 0)
    }

    fn extend(&mut self, file: &File, target: &Target, from: u64) -> Result<(), EngineError> {
        let missing = target.end - from;
        self.check_stop()?;
        let explain = |source: io::Error| layout_error(&target.path, missing, &source, available_bytes(&target.path));
        match target.layout {
            _ if missing == 0 => Ok(()),
            Layout::Reserve | Layout::RecreateReserve => reserve(file, from, target.end).map_err(explain),
            _ => self.write(file, target, from, &explain),
        }
    }

    /// Writes from `from` to the target's end. Few bytes are dirty at any time, none at the end.
    fn write(
        &mut self,
        file: &File,
        target: &Target,
        from: u64,
        explain: &dyn Fn(io::Error) -> EngineError,
    ) -> Result<(), EngineError> {
        // Files must differ; otherwise a store that deduplicates would keep only one of them.
        let seed = mix(self.seed ^ seed_of(target.identity.as_os_str().as_encoded_bytes()));
        let mut block = vec![0_u64; (BLOCK_BYTES / 8) as usize];
        let mut at = from;
        while at < target.end {
            self.check_stop()?;
            // Blocks start at multiples of their size, so that a file's content depends on seed and offset alone.
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

    /// If a change cannot be undone, the original error is still the one to report.
    fn undo(&self) {
        for change in &self.changes {
            let _ = match change {
                Change::Created(path) => super::remove_local(path),
                Change::Extended { path, former_length } => {
                    OpenOptions::new().write(true).open(path).and_then(|file| file.set_len(*former_length))
                }
            };
        }
    }
}

/// Bytes written between two polls of the stop flag.
const BLOCK_BYTES: u64 = 1 << 20;

/// Bytes written between two starts of write-back; at most twice as many are dirty.
const WRITE_BACK_BYTES: u64 = 16 << 20;

/// Starts write-back of the newest stretch before `end`, and waits for the previous one: the disk stays busy while the
/// next blocks are generated.
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
        // Without this call on the file system, the final sync does all the write-back.
        Some(libc::ENOSYS | libc::EINVAL | libc::ESPIPE | libc::EINTR) => Ok(()),
        _ => Err(error),
    }
}

/// Extends without writing. The space is preallocated if the file system supports that; otherwise the file is sparse.
fn reserve(file: &File, from: u64, end: u64) -> io::Result<()> {
    loop {
        match fallocate(file, FallocateFlags::empty(), from, end - from) {
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return file.set_len(end),
            result => return Ok(result?),
        }
    }
}

/// Fails before the first byte if the files do not fit: writing until the disk is full takes long and affects other users.
fn check_space(targets: &[Target]) -> Result<(), EngineError> {
    let mut needed: HashMap<u64, (&Target, u64)> = HashMap::new();
    for target in targets {
        let missing = target.missing_bytes();
        let Ok(directory) = fs::metadata(directory_of(&target.identity)) else { continue };
        needed.entry(directory.dev()).or_insert((target, 0)).1 += missing;
    }
    for (target, missing) in needed.into_values() {
        let available = available_bytes(&target.path);
        if available.is_some_and(|available| missing > available) {
            let full = io::Error::from_raw_os_error(libc::ENOSPC);
            return Err(layout_error(&target.path, missing, &full, available));
        }
    }
    Ok(())
}

/// Bytes that the file system of `path` has for users; `None` if it does not report them.
fn available_bytes(path: &Path) -> Option<u64> {
    let status = statvfs(directory_of(path)).ok()?;
    (status.f_blocks > 0).then(|| status.f_bavail.saturating_mul(status.f_frsize))
}

fn layout_error(path: &Path, missing: u64, source: &io::Error, available: Option<u64>) -> EngineError {
    if source.raw_os_error() != Some(libc::ENOSPC) {
        let source = source.raw_os_error().map_or_else(|| source.kind().into(), io::Error::from_raw_os_error);
        return path_error("lay out", path, source);
    }
    TargetError::NoSpace { path: text(path), missing, available: available.filter(|bytes| *bytes < missing) }.into()
}

fn path_error(action: &'static str, path: &Path, source: io::Error) -> EngineError {
    EngineError::Path { action, path: text(path), source }
}

/// Fills `block` with the data for offset `start` of a file, and returns them as bytes. Data at an offset do not depend on earlier data.
fn fill(block: &mut [u64], seed: u64, start: u64) -> &[u8] {
    let first = start / 8;
    for (number, word) in (first..).zip(block.iter_mut()) {
        *word = mix(seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))).to_le();
    }
    // SAFETY: any eight bytes of a u64 are eight u8, and u8 needs no alignment.
    unsafe { std::slice::from_raw_parts(block.as_ptr().cast(), size_of_val(block)) }
}

#[cfg(test)]
mod tests;
