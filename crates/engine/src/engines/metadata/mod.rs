//! Metadata operations on local files and directories: those of a walk at a depth above 1 by threads, others in `submit`.

mod access;
mod pool;

use std::collections::HashMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engines::buffers::SlotMap;
use crate::engines::files::open_flags;
use crate::engines::local::Setup;
use crate::engines::request::{Completion, Engine, Request};
use crate::error::{EngineError, TargetError};
use crate::plan::{FilePlan, OperationKind};
use crate::tree::{Paths, TreeState};

use iocurve_meter::{Clock, Nanos};

use self::access::{Access, Given, Job, Performed};
use self::pool::{Pool, WAIT_MAX};

/// Files are opened by operations, and not before.
#[derive(Debug)]
pub(crate) struct MetadataEngine {
    /// Absent if `submit` completes operations.
    pool: Option<Pool>,
    access: Access,
    /// By file: its descriptor while it is open. Operations that wait in the pool share it: a number of a closed file could soon be another
    /// file's.
    descriptors: HashMap<u32, Arc<OwnedFd>>,
    keep_open: bool,
    clock: Clock,
    jobs: Vec<Job>,
    performed: Vec<Performed>,
}

impl MetadataEngine {
    /// Refuses paths that exist and are neither regular files nor directories, before anything is changed. The paths are
    /// those of the tree, if there is one.
    pub(crate) fn open(setup: Setup<'_>, keep_open: bool, tree: Option<&Arc<TreeState>>) -> Result<Self, EngineError> {
        setup.files.iter().try_for_each(check_path)?;
        let listed = || Paths::listed(setup.files.iter().map(|file| file.path.as_str()));
        let paths = tree.map_or_else(listed, |tree| Ok(Paths::Tree(Arc::clone(tree))))?;
        let flags = open_flags(setup.open) | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        let access = Access { paths, flags, writes: setup.writes, slots: setup.slots };
        let pool = (setup.depth > 1 && tree.is_some()).then(|| Pool::new(access.clone(), setup.depth)).transpose()?;
        let (descriptors, clock) = (HashMap::new(), setup.clock);
        Ok(Self { access, descriptors, keep_open, clock, pool, jobs: Vec::new(), performed: Vec::new() })
    }

    /// The operation with the descriptor that it needs.
    fn job(&mut self, request: Request) -> Job {
        let file = request.address.file;
        let given = match request.kind {
            OperationKind::Close => self.descriptors.remove(&file).map(Given::ToClose),
            OperationKind::Delete => {
                self.descriptors.remove(&file);
                None
            }
            kind if kind.moves_data() || kind.is_flush() => {
                self.descriptors.get(&file).map(|descriptor| Given::Open(Arc::clone(descriptor)))
            }
            _ => None,
        };
        Job { request, file: given }
    }

    /// Keeps the files that were opened.
    fn complete(&mut self, done: &mut Vec<Completion>) {
        for Performed { request, result, opened } in self.performed.drain(..) {
            if self.keep_open
                && let Some(opened) = opened
            {
                self.descriptors.insert(request.address.file, Arc::new(opened));
            }
            done.push(Completion { slot: request.slot, result });
        }
    }
}

impl Engine for MetadataEngine {
    const WALKS: bool = true;

    fn submit(&mut self, request: Request) -> Result<(), EngineError> {
        check(&request, &self.access.paths, &self.access.slots)?;
        let job = self.job(request);
        if self.pool.is_some() {
            self.jobs.push(job);
        } else {
            self.performed.push(self.access.perform(job));
        }
        Ok(())
    }

    fn depth_max(&self) -> u32 {
        if self.pool.is_some() { u32::MAX } else { 1 }
    }

    fn send(&mut self) -> Result<(), EngineError> {
        if let Some(pool) = &self.pool {
            pool.send(&mut self.jobs);
        }
        Ok(())
    }

    fn reap(&mut self, min: usize, deadline: Nanos, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        self.send()?;
        let left = Duration::from_nanos(deadline.saturating_sub(self.clock.now())).min(WAIT_MAX);
        match &mut self.pool {
            Some(pool) => pool.reap((min > 0).then(|| Instant::now() + left), &mut self.performed),
            None if min > 0 && self.performed.is_empty() && deadline != Nanos::MAX => std::thread::sleep(left),
            None => {}
        }
        self.complete(done);
        Ok(())
    }

    fn describe(&self) -> String {
        match &self.pool {
            Some(pool) => format!("metadata operations on local files, by {} threads", pool.threads()),
            None => "metadata operations on local files".to_owned(),
        }
    }
}

/// Refuses a request out of bounds: it would reach memory or a file that is not the worker's.
pub(super) fn check(request: &Request, paths: &Paths, slots: &SlotMap) -> Result<(), EngineError> {
    let fits = (request.slot as usize) < slots.count()
        && (!request.kind.moves_data() || request.address.length as usize <= slots.stride())
        && paths.has(request.address.file)
        && request.address.offset <= i64::MAX as u64 - u64::from(u32::MAX);
    if fits && request.kind != OperationKind::Trim {
        return Ok(());
    }
    Err(EngineError::Plan(format!("{request:?} does not fit: there are {} buffers, or no such file", slots.count())))
}

fn check_path(file: &FilePlan) -> Result<(), EngineError> {
    if fs::symlink_metadata(&file.path).is_ok_and(|status| !status.is_file() && !status.is_dir()) {
        return Err(TargetError::NoMetadata { path: file.path.clone() }.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
