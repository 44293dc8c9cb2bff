//! Opens the engine that a worker's plan names, and runs the worker on it.

use std::sync::Arc;

use crate::engines::buffers::Buffers;
use crate::engines::emulated::{Disk, Emulated};
use crate::engines::files::{check_direct_blocks, has_hole, is_regular_file};
use crate::engines::nfs::NfsEngine;
use crate::engines::request::Engine;
use crate::engines::{AioEngine, MmapEngine, NullEngine, Setup, SyncEngine, UringEngine};
use crate::error::EngineError;
use crate::outcome::State;
use crate::plan::{EnginePlan, OperationKind, Worker};
use crate::record::Recorded;
use crate::verify;
use crate::worker::{Ended, Load, Publish, Shared, Start};

/// Opens a worker's engine, waits for the group's start and runs the worker to its end.
///
/// Its files are on `disk`, if there is one. `wait_for_start` returns the instant at which the worker starts, or `None` if another one could not be prepared;
/// this one then has not run either.
pub(super) fn open_and_run(
    worker: &Worker,
    buffers: Buffers,
    shared: &Shared,
    disk: Option<Disk>,
    wait_for_start: &mut dyn FnMut() -> Option<Start>,
    publish: &mut Publish<'_>,
) -> Result<Option<Ran>, EngineError> {
    let Worker { files, depth, .. } = worker;
    // SAFETY: the loop borrows a slot before it submits a request for it, or after its completion.
    let slots = unsafe { buffers.slot_map() };
    let setup = |open| Setup::new(worker, open, &slots, &shared.clock);
    let mut labels = verify::labels(worker);
    if let EnginePlan::Sync { open } | EnginePlan::Aio { open } | EnginePlan::Uring { open } = &worker.engine {
        check_direct_blocks(open, files, &worker.operations)?;
    }
    if disk.is_none() && !matches!(worker.engine, EnginePlan::Null {} | EnginePlan::Nfs { .. }) {
        labels.extend(labels_of_files(worker));
    }
    let run = Runner { worker, buffers, shared, disk, labels, wait_for_start, publish };
    match &worker.engine {
        EnginePlan::Null {} => run.drive(NullEngine::default()),
        EnginePlan::Sync { open } => run.drive(SyncEngine::open(setup(open))?),
        EnginePlan::Aio { open } => run.drive(AioEngine::open(setup(open))?),
        EnginePlan::Uring { open } => run.drive(UringEngine::open(setup(open))?),
        EnginePlan::Mmap { open } => run.drive(MmapEngine::open(setup(open))?),
        EnginePlan::Nfs { mount } => run.drive(NfsEngine::connect(
            mount,
            files,
            slots.clone(),
            *depth,
            shared.clock.clone(),
            Arc::clone(&shared.stop),
        )?),
    }
}

/// What it takes to run a worker, whatever its engine.
struct Runner<'a> {
    worker: &'a Worker,
    buffers: Buffers,
    shared: &'a Shared,
    disk: Option<Disk>,
    /// What is known before the engine is opened.
    labels: Vec<String>,
    wait_for_start: &'a mut dyn FnMut() -> Option<Start>,
    publish: &'a mut Publish<'a>,
}

impl Runner<'_> {
    /// The only place that knows whether there is an emulated disk.
    fn drive<E: Engine>(mut self, engine: E) -> Result<Option<Ran>, EngineError> {
        let Some(disk) = self.disk.take() else { return self.run(engine) };
        let Worker { files, depth, .. } = self.worker;
        let clock = self.shared.clock.clone();
        self.run(Emulated::new(engine, disk, files, *depth, clock))
    }

    fn run<E: Engine>(self, mut engine: E) -> Result<Option<Ran>, EngineError> {
        let worker = self.worker;
        let depth = if E::SYNCHRONOUS { 1 } else { worker.depth };
        let load = Load::new(worker, depth, self.buffers, self.shared.clone())?;
        let Some(start) = (self.wait_for_start)() else { return Ok(None) };
        let (mut ended, recorder) = load.run(&mut engine, start, self.publish);
        if ended.error.is_none()
            && let Err(error) = engine.finish()
        {
            (ended.state, ended.error) = (State::Failed, Some(error));
        }
        let (described, reconnects) = (engine.describe(), engine.reconnects());
        let labels = [self.labels, engine.labels(), std::mem::take(&mut ended.labels)].concat();
        Ok(Some(Ran { ended, recorded: recorder.finish(), engine: described, reconnects, labels }))
    }
}

/// What an engine and its worker leave behind.
pub(super) struct Ran {
    pub(super) ended: Ended,
    pub(super) recorded: Recorded,
    pub(super) engine: String,
    pub(super) reconnects: u64,
    pub(super) labels: Vec<String>,
}

/// What the local files of a worker mean for its figures.
fn labels_of_files(worker: &Worker) -> Vec<String> {
    let labels = [
        ("file_has_holes", worker.does(OperationKind::Read) && worker.files.iter().any(has_hole)),
        ("trim_punches_holes", worker.does(OperationKind::Trim) && worker.files.iter().any(is_regular_file)),
    ];
    labels.into_iter().filter(|(_, applies)| *applies).map(|(label, _)| label.to_owned()).collect()
}
