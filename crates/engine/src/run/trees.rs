//! The trees of a group: finds what exists of them, and lets workers on one tree share it.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::engines::nfs;
use crate::error::EngineError;
use crate::plan::{Group, NfsMount, Tree, TreeTask, Worker};
use crate::tree::{Found, Kind, TreeState, is_control_file, kind_of};

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

/// A tree, where it is.
#[derive(PartialEq)]
struct Place<'a> {
    mount: Option<&'a NfsMount>,
    root: &'a str,
    tree: &'a Tree,
}

impl<'a> Place<'a> {
    fn of(worker: &'a Worker) -> Option<Self> {
        let work = worker.tree.as_ref()?;
        Some(Self { mount: worker.engine.mount(), root: &worker.files.first()?.path, tree: &work.tree })
    }

    fn read(&self, group: &'a Group, stop: &AtomicBool) -> Result<TreeState, EngineError> {
        let works = group.workers.iter().filter(|worker| Self::of(worker).is_some_and(|other| other == *self));
        let works: Vec<_> = works.filter_map(|worker| worker.tree.as_ref()).collect();
        let tasks: Vec<TreeTask> = works.iter().flat_map(|work| work.tasks.iter().copied()).collect();
        let stages = works.iter().map(|work| work.tasks.len()).max().unwrap_or(0);
        let found = match self.mount {
            Some(mount) => nfs::find_tree(mount, self.root, self.tree.creates_parents, stop)?,
            None => find_local(self.root, self.tree.creates_parents, stop)?,
        };
        TreeState::new(self.root, self.tree, tasks, stages, &found)
    }
}

/// Everything with the name of a tree below a local root.
fn find_local(root: &str, creates_parents: bool, stop: &AtomicBool) -> Result<Vec<Found>, EngineError> {
    let path = Path::new(root);
    let created = if creates_parents { fs::create_dir_all(path) } else { fs::create_dir(path) };
    match created {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(EngineError::Path { action: "create", path: root.to_owned(), source: error });
        }
        _ => {}
    }
    let mut found = Vec::new();
    list_local(path, "", &mut found, stop)?;
    Ok(found)
}

/// Lists a directory; returns `true` if it has entries that are not of a tree.
fn list_local(directory: &Path, below: &str, found: &mut Vec<Found>, stop: &AtomicBool) -> Result<bool, EngineError> {
    let failed = |source| EngineError::Path { action: "list", path: directory.display().to_string(), source };
    let mut has_others = false;
    for entry in fs::read_dir(directory).map_err(failed)? {
        if stop.load(Ordering::Relaxed) {
            return Err(EngineError::StoppedBeforeLoad);
        }
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let (Some(name), kind) = (name.to_str(), entry.file_type().map_err(failed)?) else {
            has_others = true;
            continue;
        };
        let path = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
        match kind_of(name) {
            Some(Kind::Directory { .. }) if kind.is_dir() => {
                let others_inside = list_local(&entry.path(), &path, found, stop)?;
                has_others |= others_inside;
                found.push(Found { path, is_directory: true, bytes: 0, has_others: others_inside });
            }
            Some(Kind::File { .. }) if kind.is_file() => {
                let bytes = entry.metadata().map_err(failed)?.len();
                found.push(Found { path, is_directory: false, bytes, has_others: false });
            }
            _ if below.is_empty() && is_control_file(name) && kind.is_file() => {
                found.push(Found { path, is_directory: false, bytes: 0, has_others: false });
            }
            _ => has_others = true,
        }
    }
    Ok(has_others)
}
