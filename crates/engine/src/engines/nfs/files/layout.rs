//! Layout of files on an export: they are created, written or extended before the run, and removed after it. Existing
//! data are not touched unless the plan recreates the file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use iocurve_meter::{Clock, Nanos, Rng};

use crate::engines::buffers::Buffers;
use crate::engines::request::{Address, Completion, Engine, Request};
use crate::error::{ConnectionError, EngineError, TargetError};
use crate::plan::{Durability, FilePlan, Layout, NfsMount, OperationKind};
use crate::stall::HURRIED_NS;

use super::super::calls::Mountable;
use super::super::export::{Export, missing};
use super::super::load::NfsEngine;
use super::super::version::with_version;

/// Writes in flight.
const DEPTH: u32 = 16;
/// Bytes of one write, if the server accepts that many in one call.
const BLOCK_BYTES: u32 = 1 << 20;
/// Longest time between two polls of the stop flag.
const STOP_CHECK_NS: Nanos = 100_000_000;
/// Most time for writes in flight after a failure or a stop.
const SETTLE_NS: Nanos = 2_000_000_000;
/// Most attempts: a server may restart again and again while files are written.
const ATTEMPTS_MAX: u32 = 3;

/// Performs the [`Layout`] of each file; returns, by file, `true` if it was created here.
///
/// Data are pseudo-random from `seed`, and on stable storage at the end. `progress` is called with the bytes written so
/// far. On an error, or when `stop` is set, everything is undone: files created here are removed, files extended here
/// get their former length.
pub fn layout(
    mount: &NfsMount,
    files: &[FilePlan],
    seed: u64,
    progress: &dyn Fn(u64),
    stop: &AtomicBool,
) -> Result<Vec<bool>, EngineError> {
    with_version!(mount, P => layout_on::<P>(mount, files, seed, progress, stop))
}

/// Removes files and empty directories; ignores missing ones, and leaves directories that are not empty. When `stop` is
/// set, it waits for the server no longer.
pub fn remove(mount: &NfsMount, paths: &[String], stop: &AtomicBool) -> Result<(), EngineError> {
    with_version!(mount, P => remove_on::<P>(mount, paths, stop))
}

fn layout_on<P: Mountable>(
    mount: &NfsMount,
    files: &[FilePlan],
    seed: u64,
    progress: &dyn Fn(u64),
    stop: &AtomicBool,
) -> Result<Vec<bool>, EngineError> {
    let mut changes = Changes::<P>::default();
    let result = lay_out(mount, files, seed, progress, stop, &mut changes);
    if let Err(error) = result {
        changes.undo(mount);
        return Err(error);
    }
    Ok(files.iter().map(|file| changes.created.contains(&file.path)).collect())
}

/// Those of `paths` that do not exist on the export.
pub(crate) fn absent(mount: &NfsMount, paths: Vec<String>, stop: &AtomicBool) -> Result<Vec<String>, EngineError> {
    with_version!(mount, P => absent_on::<P>(mount, paths, stop))
}

fn absent_on<P: Mountable>(
    mount: &NfsMount,
    paths: Vec<String>,
    stop: &AtomicBool,
) -> Result<Vec<String>, EngineError> {
    let mut export = Export::<P>::mount(mount, stop)?;
    let mut absent = Vec::new();
    for path in paths {
        if !export.exists(&path)? {
            absent.push(path);
        }
    }
    Ok(absent)
}

fn remove_on<P: Mountable>(mount: &NfsMount, paths: &[String], stop: &AtomicBool) -> Result<(), EngineError> {
    if paths.is_empty() {
        return Ok(());
    }
    let mut export = Export::<P>::mount(mount, stop)?;
    let mut result = Ok(());
    for path in paths {
        // Continues after an error; the first one is reported.
        result = result.and(export.remove(path));
    }
    result
}

/// Changes that can be undone.
struct Changes<P: Mountable> {
    created: Vec<String>,
    /// Path, handle and former length.
    extended: Vec<(String, P::Handle, u64)>,
}

impl<P: Mountable> Default for Changes<P> {
    fn default() -> Self {
        Self { created: Vec::new(), extended: Vec::new() }
    }
}

impl<P: Mountable> Changes<P> {
    /// If a change cannot be undone, the original error is still the one to report.
    fn undo(&self, mount: &NfsMount) {
        // The layout may have failed because the server is silent.
        let mount = &NfsMount { timeout_ns: mount.timeout_ns.min(HURRIED_NS), ..mount.clone() };
        let never = AtomicBool::new(false);
        if !self.created.is_empty() {
            let _ = remove_on::<P>(mount, &self.created, &never);
        }
        if self.extended.is_empty() {
            return;
        }
        if let Ok(mut export) = Export::<P>::mount(mount, &never) {
            for (path, handle, length) in &self.extended {
                let _ = export.set_size(handle, path, *length);
            }
        }
    }
}

/// Bytes of a file that must be written.
struct Gap<P: Mountable> {
    path: String,
    handle: P::Handle,
    start: u64,
    end: u64,
}

fn lay_out<P: Mountable>(
    mount: &NfsMount,
    files: &[FilePlan],
    seed: u64,
    progress: &dyn Fn(u64),
    stop: &AtomicBool,
    changes: &mut Changes<P>,
) -> Result<(), EngineError> {
    let mut export = Export::<P>::mount(mount, stop)?;
    let mut gaps = Vec::new();
    let emptied = |file: &&FilePlan| file.layout.empties();
    // Files that are emptied come last: everything else that can fail comes before the step that cannot be undone.
    for file in files.iter().filter(|file| !emptied(file)).chain(files.iter().filter(emptied)) {
        check_stop(stop)?;
        gaps.extend(prepare(&mut export, file, changes)?);
    }
    if gaps.is_empty() {
        return Ok(());
    }
    for _ in 0..ATTEMPTS_MAX {
        // A new engine for each attempt, to forget the server's former write verifier.
        if write(Export::<P>::mount(mount, stop)?, mount, &gaps, seed, progress, stop)? {
            return Ok(());
        }
    }
    Err(ConnectionError::Restarts { server: export.server().to_owned(), times: ATTEMPTS_MAX }.into())
}

/// Creates or extends a file, or creates a directory, as planned; returns the bytes to write.
fn prepare<P: Mountable>(
    export: &mut Export<'_, P>,
    file: &FilePlan,
    changes: &mut Changes<P>,
) -> Result<Option<Gap<P>>, EngineError> {
    if file.layout == Layout::Directory {
        if export.make_directory(&file.path)? {
            changes.created.push(file.path.clone());
        }
        return Ok(None);
    }
    let end = file.needed_end();
    let found = if file.layout == Layout::New { None } else { export.find(&file.path)? };
    let (handle, length) = match &found {
        Some((handle, length)) => (handle.clone(), *length),
        None if file.layout == Layout::Existing => return Err(missing(&file.path)),
        None => {
            let handle = export.create(&file.path)?;
            changes.created.push(file.path.clone());
            (handle, 0)
        }
    };
    let anew = found.is_some() && file.layout.empties();
    let length = if anew { 0 } else { length };
    if anew {
        export.set_size(&handle, &file.path, 0)?;
    }
    if length >= end {
        return Ok(None);
    }
    if file.layout == Layout::Existing {
        return Err(TargetError::Short { path: file.path.clone(), length, end }.into());
    }
    if found.is_some() && !anew {
        changes.extended.push((file.path.clone(), handle.clone(), length));
    }
    if matches!(file.layout, Layout::Reserve | Layout::RecreateReserve) {
        export.set_size(&handle, &file.path, end)?;
        return Ok(None);
    }
    Ok(Some(Gap { path: file.path.clone(), handle, start: length, end }))
}

/// Writes all gaps; returns `false` if the server may have lost data.
fn write<'a, P: Mountable>(
    export: Export<'a, P>,
    mount: &NfsMount,
    gaps: &[Gap<P>],
    seed: u64,
    progress: &dyn Fn(u64),
    stop: &'a AtomicBool,
) -> Result<bool, EngineError> {
    // One COMMIT at the end is enough; stable writes would take long.
    let mount = NfsMount { durability: Durability::None, ..mount.clone() };
    let block = BLOCK_BYTES.min(export.limits().write);
    let buffers = Buffers::new(DEPTH as usize, block as usize);
    let files = gaps.iter().map(|gap| (gap.path.clone(), gap.handle.clone())).collect();
    let clock = Clock::new();
    // SAFETY: the writer fills a slot before it submits a write for it, and again only after its completion.
    let slots = unsafe { buffers.slot_map() };
    let engine = NfsEngine::<P>::with_handles(export, &mount, files, slots, DEPTH, clock.clone(), Arc::default())?;
    let mut writer = Writer { engine, clock, buffers, gaps, seed, in_flight: [None; DEPTH as usize], written: 0 };
    let result = writer.write_all(requests(gaps, block), progress, stop);
    if result.is_err() {
        writer.settle();
    }
    result
}

/// All writes, in order; their slots are set later.
fn requests<P: Mountable>(gaps: &[Gap<P>], block: u32) -> impl Iterator<Item = Request> + '_ {
    gaps.iter().enumerate().flat_map(move |(file, gap)| {
        let blocks = (gap.end - gap.start).div_ceil(u64::from(block));
        (0..blocks).map(move |number| {
            let offset = gap.start + number * u64::from(block);
            let length = (gap.end - offset).min(u64::from(block)) as u32;
            Request { slot: 0, kind: OperationKind::Write, address: Address { file: file as u32, offset, length } }
        })
    })
}

struct Writer<'a, P: Mountable> {
    engine: NfsEngine<P>,
    clock: Clock,
    buffers: Buffers,
    gaps: &'a [Gap<P>],
    seed: u64,
    in_flight: [Option<Request>; DEPTH as usize],
    written: u64,
}

impl<P: Mountable> Writer<'_, P> {
    fn write_all(
        &mut self,
        requests: impl Iterator<Item = Request>,
        progress: &dyn Fn(u64),
        stop: &AtomicBool,
    ) -> Result<bool, EngineError> {
        for request in requests {
            self.write(request, progress, stop)?;
        }
        self.finish(progress, stop)
    }

    /// Waits for writes in flight, so that nothing is written after the changes were undone.
    fn settle(&mut self) {
        let end = self.clock.now() + SETTLE_NS;
        let mut done = Vec::new();
        while !self.engine.flight.calls.is_empty() && self.clock.now() < end {
            if self.engine.reap(1, end, &mut done).is_err() {
                return;
            }
        }
    }

    fn write(&mut self, request: Request, progress: &dyn Fn(u64), stop: &AtomicBool) -> Result<(), EngineError> {
        let slot = loop {
            match self.in_flight.iter().position(Option::is_none) {
                Some(slot) => break slot,
                None => self.reap(progress, stop)?,
            }
        };
        let request = Request { slot: slot as u32, ..request };
        self.fill(&request);
        self.in_flight[slot] = Some(request);
        self.engine.submit(request)
    }

    fn finish(&mut self, progress: &dyn Fn(u64), stop: &AtomicBool) -> Result<bool, EngineError> {
        while self.in_flight.iter().any(Option::is_some) {
            self.reap(progress, stop)?;
        }
        self.engine.finish()?;
        check_stop(stop)?;
        Ok(self.engine.flight.commits.verifier_changes == 0)
    }

    fn fill(&mut self, request: &Request) {
        let Address { file, offset, length } = request.address;
        let mut rng = Rng::new(self.seed ^ offset.rotate_left(20) ^ u64::from(file));
        rng.fill(self.buffers.slot_mut(request.slot, length as usize));
    }

    fn reap(&mut self, progress: &dyn Fn(u64), stop: &AtomicBool) -> Result<(), EngineError> {
        let mut done: Vec<Completion> = Vec::with_capacity(DEPTH as usize);
        self.engine.reap(1, self.clock.now() + STOP_CHECK_NS, &mut done)?;
        for completion in done {
            let request = self.in_flight[completion.slot as usize].take().expect("it was in flight");
            if completion.result < 0 {
                return Err(EngineError::Operation {
                    kind: "layout write",
                    length: request.address.length,
                    offset: request.address.offset,
                    path: self.gaps[request.address.file as usize].path.clone(),
                    source: std::io::Error::from_raw_os_error(-completion.result as i32),
                });
            }
            self.written += completion.result as u64;
            progress(self.written);
        }
        check_stop(stop)
    }
}

fn check_stop(stop: &AtomicBool) -> Result<(), EngineError> {
    if stop.load(Ordering::Relaxed) {
        return Err(EngineError::StoppedInLayout);
    }
    Ok(())
}
