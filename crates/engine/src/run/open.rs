//! Opens the engine that a worker's plan names, and runs the worker on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engines::buffers::Buffers;
use crate::engines::emulated::{Disk, Emulated};
use crate::engines::files::{check_direct_blocks, is_regular_file};
use crate::engines::nfs::{NfsEngine, NfsMetadataEngine, Opening, with_version};
use crate::engines::request::Engine;
use crate::engines::{
    AioEngine, MetadataEngine, MmapEngine, NullEngine, Setup, SpaceEngine, SyncEngine, UringEngine, capabilities,
};
use crate::error::EngineError;
use crate::outcome::{ConnectionOutcome, State};
use crate::plan::{EnginePlan, FilePlan, OperationKind, Worker};
use crate::record::Recorded;
use crate::verify;
use crate::worker::{Ended, Load, Publish, Shared, Start};

/// Opens a worker's engine, waits for the start and runs the worker to its end.
///
/// The worker's files are on `disk`, if there is one. `unwritten_bytes` counts those of a region. `wait_for_start` returns the time at which the worker starts;
/// `None` means that another worker could not be prepared, so that this one does not run either.
pub(super) fn open_and_run(
    worker: &Worker,
    buffers: Buffers,
    shared: &Shared,
    disk: Option<Disk>,
    unwritten_bytes: &dyn Fn(&FilePlan) -> u64,
    wait_for_start: &mut dyn FnMut() -> Option<Start>,
    publish: &mut Publish<'_>,
) -> Result<Option<Ran>, EngineError> {
    // SAFETY: the loop borrows a slot before it submits a request for it, or after its completion.
    let slots = unsafe { buffers.slot_map() };
    let setup = |open| Setup::new(worker, open, &slots, &shared.clock);
    let aligned = |open| check_direct_blocks(open, &worker.files, &worker.operations).map(|()| setup(open));
    let mut labels = verify::labels(worker);
    let engine = capabilities(&worker.engine);
    let mut unwritten = None;
    if disk.is_none() && engine.local && engine.moves_data && !engine.does_metadata {
        unwritten = worker.does(OperationKind::Read).then(|| worker.files.iter().map(unwritten_bytes).sum());
        labels.extend(labels_of_files(worker));
    }
    let run = Runner { worker, buffers, shared, disk, labels, unwritten, wait_for_start, publish };
    match &worker.engine {
        EnginePlan::Null {} => run.drive(NullEngine::default()),
        EnginePlan::Sync { open } => run.drive(SyncEngine::open(aligned(open)?)?),
        EnginePlan::Aio { open } => run.drive(AioEngine::open(aligned(open)?)?),
        EnginePlan::Uring { open } => run.drive(UringEngine::open(aligned(open)?)?),
        EnginePlan::Mmap { open } => run.drive(MmapEngine::open(setup(open))?),
        EnginePlan::Space { open, call } => run.drive(SpaceEngine::open(setup(open), *call)?),
        EnginePlan::Metadata { open, keep_open } => {
            run.drive(MetadataEngine::open(setup(open), *keep_open, shared.tree.as_ref())?)
        }
        EnginePlan::NfsMetadata { mount, keep_open } => {
            let (clock, stop) = (shared.clock.clone(), Arc::clone(&shared.stop));
            let (files, slots, depth) = (&worker.files, slots.clone(), worker.depth);
            let opening = Opening { keep_open: *keep_open, tree: shared.tree.as_ref() };
            with_version!(mount, P => {
                run.drive(NfsMetadataEngine::<P>::connect(mount, files, slots, depth, clock, stop, opening)?)
            })
        }
        EnginePlan::Nfs { mount } => {
            let (clock, stop) = (shared.clock.clone(), Arc::clone(&shared.stop));
            let (slots, depth) = (slots.clone(), worker.depth);
            with_version!(mount, P => {
                run.drive(NfsEngine::<P>::connect(mount, &worker.files, slots, depth, clock, stop)?)
            })
        }
    }
}

/// Runs a worker on any engine.
struct Runner<'a> {
    worker: &'a Worker,
    buffers: Buffers,
    shared: &'a Shared,
    disk: Option<Disk>,
    /// Labels that are known before the engine is opened.
    labels: Vec<String>,
    /// Bytes of the files that were never written, where that is known.
    unwritten: Option<u64>,
    wait_for_start: &'a mut dyn FnMut() -> Option<Start>,
    publish: &'a mut Publish<'a>,
}

impl Runner<'_> {
    /// Puts the emulated disk around the engine, if there is one. No other code knows about the disk.
    fn drive<E: Engine>(mut self, engine: E) -> Result<Option<Ran>, EngineError> {
        let Some(disk) = self.disk.take() else { return self.run(engine) };
        let Worker { files, depth, .. } = self.worker;
        let clock = self.shared.clock.clone();
        self.run(Emulated::new(engine, disk, files, *depth, clock))
    }

    fn run<E: Engine>(self, mut engine: E) -> Result<Option<Ran>, EngineError> {
        let worker = self.worker;
        let depth = worker.depth.min(engine.depth_max());
        let load = Load::new(worker, depth, self.buffers, self.shared.clone())?;
        let Some(start) = (self.wait_for_start)() else { return Ok(None) };
        let (mut ended, recorder) = load.run(&mut engine, start, self.publish);
        if ended.error.is_none()
            && let Err(error) = engine.finish()
        {
            (ended.state, ended.error) = (State::Failed, Some(error));
        }
        let (described, reconnects) = (engine.describe(), engine.reconnects());
        let mut labels = [self.labels, engine.labels(), std::mem::take(&mut ended.labels)].concat();
        let (mut counters, connections) = (engine.counters(), engine.connections());
        let mut count = |name: &str, value: u64| counters.insert(name.to_owned(), value);
        if let Some(unwritten) = self.unwritten.filter(|&bytes| bytes > 0) {
            labels.push("file_has_holes".to_owned());
            count("unwritten_bytes", unwritten);
            count("file_bytes", worker.files.iter().map(|file| file.bytes).sum());
        }
        if let (sampled, zeros @ 1..) = ended.zeros {
            labels.push("reads_zeros".to_owned());
            count("sampled_reads", sampled);
            count("zero_reads", zeros);
        }
        let recorded = recorder.finish();
        Ok(Some(Ran { ended, recorded, engine: described, reconnects, counters, connections, labels }))
    }
}

/// A worker that has run, and its engine.
pub(super) struct Ran {
    pub(super) ended: Ended,
    pub(super) recorded: Recorded,
    pub(super) engine: String,
    pub(super) reconnects: u64,
    pub(super) counters: BTreeMap<String, u64>,
    pub(super) connections: Vec<ConnectionOutcome>,
    pub(super) labels: Vec<String>,
}

/// Labels for properties of a worker's local files that affect its figures.
fn labels_of_files(worker: &Worker) -> Option<String> {
    let punches = worker.does(OperationKind::Trim) && worker.files.iter().any(is_regular_file);
    punches.then(|| "trim_punches_holes".to_owned())
}
