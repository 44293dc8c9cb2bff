//! The trees of a group: finds what exists of them, and lets workers on one tree share it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::engines::nfs;
use crate::error::EngineError;
use crate::outcome::{State, WorkerOutcome};
use crate::plan::{Group, NfsMount, OperationKind, Tree, TreeTask, Verify, VerifyMap, Worker};
use crate::tree::{CONTROL_FILE, Differences, DirectoryEntry, EntryKind, Found, Lister, TreeState, list};

/// The tree of each worker of a group. Its root is created if it is missing.
pub(super) fn of_group(group: &Group, stop: &AtomicBool) -> Result<Vec<Option<Arc<TreeState>>>, EngineError> {
    let mut known: Vec<(Place<'_>, Arc<TreeState>)> = Vec::new();
    let mut trees = Vec::with_capacity(group.workers.len());
    for worker in &group.workers {
        let Some(place) = Place::of(worker) else {
            trees.push(None);
            continue;
        };
        let state = match known.iter().find(|(other, _)| *other == place) {
            Some((_, state)) => Arc::clone(state),
            None => Arc::new(place.read(group, stop)?),
        };
        trees.push(Some(Arc::clone(&state)));
        known.push((place, state));
    }
    Ok(trees)
}

/// Compares the names and sizes of each verified tree with what its workers have left. The first worker on a tree gets the
/// differences.
pub(super) fn verify(
    group: &Group,
    trees: &[Option<Arc<TreeState>>],
    outcomes: &mut [WorkerOutcome],
    stop: &AtomicBool,
) {
    let mut known: Vec<&Arc<TreeState>> = Vec::new();
    for (number, tree) in trees.iter().enumerate() {
        let Some(tree) = tree.as_ref().filter(|tree| tree.is_verified()) else { continue };
        let Some(place) = Place::of(&group.workers[number]) else { continue };
        if known.iter().any(|other| Arc::ptr_eq(other, tree)) {
            continue;
        }
        known.push(tree);
        let Some(outcome) = outcomes.iter_mut().find(|outcome| outcome.worker as usize == number) else { continue };
        let error = match place.differences(tree, stop).map(|found| tree.journal_differences().clone().and(found)) {
            Ok(mut differences) => {
                let error = differences.failure();
                outcome.differences.append(&mut differences.list);
                error
            }
            Err(error) => Some(error),
        };
        if let Some(error) = error {
            outcome.state = State::Failed;
            outcome.errno.get_or_insert(error.errno());
            outcome.error.get_or_insert(error.to_string());
        }
    }
}

/// A tree, where it is.
#[derive(PartialEq)]
struct Place<'a> {
    mount: Option<&'a NfsMount>,
    root: &'a str,
    tree: &'a Tree,
    target: Option<&'a str>,
}

impl<'a> Place<'a> {
    fn of(worker: &'a Worker) -> Option<Self> {
        let work = worker.tree.as_ref()?;
        Some(Self {
            mount: worker.engine.mount(),
            root: &worker.files.first()?.path,
            tree: &work.tree,
            target: work.target.as_deref(),
        })
    }

    fn read(&self, group: &'a Group, stop: &AtomicBool) -> Result<TreeState, EngineError> {
        let workers: Vec<&Worker> =
            group.workers.iter().filter(|worker| Self::of(worker).is_some_and(|other| other == *self)).collect();
        let works: Vec<_> = workers.iter().filter_map(|worker| worker.tree.as_ref()).collect();
        let tasks: Vec<TreeTask> = works.iter().flat_map(|work| work.tasks.iter().copied()).collect();
        let stages = works.iter().map(|work| work.tasks.len()).max().unwrap_or(0);
        let interval = |verify: Option<&Verify>| verify.map(|verify| verify.interval_bytes);
        let mut verifies = workers.iter().map(|worker| worker.verify.as_ref());
        let verify = verifies.next().flatten();
        if verifies.any(|other| interval(other) != interval(verify)) {
            return self.refuse("of the workers on a directory tree all verify it, in the same intervals, or none");
        }
        let has_several_roots = !self.tree.further_roots.is_empty();
        if has_several_roots && (self.target.is_some() || verify.is_some() || tasks.contains(&TreeTask::Remove)) {
            return self.refuse("a tree with several roots is neither removed, verified nor copied to another tree");
        }
        let mut found = self.find(self.root, stop)?;
        found.retain(|entry| self.tree.has_below(0, &entry.path));
        for (number, root) in (1..).zip(&self.tree.further_roots) {
            let below = self.find(root, stop)?;
            found.extend(below.into_iter().filter(|entry| self.tree.has_below(number, &entry.path)));
        }
        if found.extract_if(.., |entry| entry.path == CONTROL_FILE).count() > 0
            && workers.iter().any(|worker| changes(worker))
        {
            self.remove_control_file(stop)?;
        }
        let state = TreeState::new(self.root, self.tree, self.target, tasks, stages, &found)?;
        if let Some(target) = self.target {
            self.find(target, stop)?.iter().for_each(|entry| state.add_target(entry));
        }
        let Some(verify) = verify else { return Ok(state) };
        let state = state.verified(verify.interval_bytes);
        match &verify.map {
            Some(VerifyMap { tree: Some(path), take_over, .. }) => state.journaled(path, *take_over, &found),
            _ => Ok(state),
        }
    }

    fn refuse<T>(&self, text: &str) -> Result<T, EngineError> {
        Err(EngineError::Plan(format!("{}: {text}", self.root)))
    }

    /// Lists the tree again: what is there, and what its workers have left.
    fn differences(&self, state: &TreeState, stop: &AtomicBool) -> Result<Differences, EngineError> {
        let target = self.target.map(|target| self.find(target, stop)).transpose()?;
        Ok(state.differences(&self.find(self.root, stop)?, &target.unwrap_or_default()))
    }

    fn find(&self, root: &str, stop: &AtomicBool) -> Result<Vec<Found>, EngineError> {
        match self.mount {
            Some(mount) => nfs::find_tree(mount, root, self.tree, stop),
            None => find_local(root, self.tree, stop),
        }
    }

    /// vdbench believes its record of a tree; without it vdbench looks what exists.
    fn remove_control_file(&self, stop: &AtomicBool) -> Result<(), EngineError> {
        let path = if self.root.is_empty() { CONTROL_FILE.to_owned() } else { format!("{}/{CONTROL_FILE}", self.root) };
        match self.mount {
            Some(mount) => nfs::remove(mount, &[path], stop),
            None => match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(EngineError::Path { action: "remove", path, source: error })
                }
                _ => Ok(()),
            },
        }
    }
}

/// Returns `true` if a worker may change which entries a tree has, or their sizes.
fn changes(worker: &Worker) -> bool {
    let reads_only = |task: &TreeTask| match task {
        TreeTask::Open
        | TreeTask::Getattr
        | TreeTask::Setattr
        | TreeTask::Access
        | TreeTask::Lookup
        | TreeTask::Readlink
        | TreeTask::Readdir
        | TreeTask::Readdirplus
        | TreeTask::ReadFile => true,
        TreeTask::Transfer => worker.operations.iter().all(|operation| operation.kind != OperationKind::Write),
        _ => false,
    };
    worker.tree.as_ref().is_some_and(|work| !work.tasks.iter().all(reads_only))
}

/// Everything with the name of a tree below a local root.
fn find_local(root: &str, tree: &Tree, stop: &AtomicBool) -> Result<Vec<Found>, EngineError> {
    let path = Path::new(root);
    let created = if tree.creates_parents { fs::create_dir_all(path) } else { fs::create_dir(path) };
    match created {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(EngineError::Path { action: "create", path: root.to_owned(), source: error });
        }
        _ => {}
    }
    list(&mut Local, &path.to_owned(), tree.names.as_ref(), stop)
}

/// The file systems of this machine.
struct Local;

impl Lister for Local {
    type Directory = PathBuf;

    fn entries(&mut self, directory: &PathBuf, _below: &str) -> Result<Vec<DirectoryEntry<PathBuf>>, EngineError> {
        let failed = |source| EngineError::Path { action: "list", path: directory.display().to_string(), source };
        let entry = |entry: fs::DirEntry| {
            let file_type = entry.file_type()?;
            let kind = match (file_type.is_file(), file_type.is_dir()) {
                (true, _) => EntryKind::File,
                (_, true) => EntryKind::Directory,
                _ if file_type.is_symlink() => EntryKind::Symlink,
                _ => EntryKind::Other,
            };
            let bytes = if kind == EntryKind::File { entry.metadata()?.len() } else { 0 };
            let name = entry.file_name().to_string_lossy().into_owned();
            Ok(DirectoryEntry { name, kind, bytes, handle: entry.path() })
        };
        let read = fs::read_dir(directory).map_err(failed)?.filter_map(|read| match read.and_then(entry) {
            // It was removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            read => Some(read.map_err(failed)),
        });
        read.collect()
    }
}
