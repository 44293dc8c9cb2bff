//! The emulated disks of a run: opened once, shared by its workers, and saved for the next run.
//!
//! [`super::model`] decides when an operation completes; it knows neither files nor clocks.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use iocurve_meter::{Clock, Nanos};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::model::{Access, Admitted, Machine};
use super::state::{CachedFile, State};
use crate::error::{EngineError, TargetError};
use crate::plan::{DiskPlan, FilePlan, Plan};

/// A worker's thread may be delayed for this long without costing the disk any throughput.
pub(crate) const DELAY_TOLERATED_NS: Nanos = 50_000_000;

/// The open disks of a run; no other run can use them.
#[derive(Debug)]
pub(crate) struct Disks {
    open: BTreeMap<PathBuf, Disk>,
    clock: Clock,
    /// Locked directories, by the open files that hold the locks.
    locked: BTreeMap<PathBuf, File>,
}

/// A disk, and the virtual machine that it may share with others.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    machine: Arc<Mutex<Attached>>,
    number: usize,
    name: String,
}

/// A machine and the files on its disks: their index in the cache, and the index of the disk.
#[derive(Debug)]
struct Attached {
    machine: Machine,
    files: Vec<(usize, String)>,
}

impl Disks {
    /// Opens all disks of a plan, in the state that the last run left. Throughput missed in the last `slack` can be
    /// made up for.
    pub(crate) fn open(plan: &Plan, slack: Nanos, clock: &Clock) -> Result<Self, EngineError> {
        let mut disks = Self { open: BTreeMap::new(), clock: clock.clone(), locked: BTreeMap::new() };
        let mut machines = BTreeMap::new();
        for worker in plan.groups.iter().flat_map(|group| &group.workers) {
            let Some(plan) = &worker.disk else { continue };
            let path = PathBuf::from(&plan.state_path);
            if disks.open.contains_key(&path) {
                continue;
            }
            let directory = path.parent().unwrap_or(Path::new(".")).to_owned();
            if let Entry::Vacant(place) = disks.locked.entry(directory) {
                let lock = lock(place.key())?;
                place.insert(lock);
            }
            let shared = plan.vm.as_ref().map_or_else(|| plan.state_path.clone(), |vm| format!("vm {}", vm.name));
            let machine = machines.entry(shared).or_insert_with(|| Attached::new(plan, slack, clock.now()));
            let disk = Disk::attach(machine, plan, State::read(&path)?, clock.now());
            disks.open.insert(path, disk);
        }
        Ok(disks)
    }

    pub(crate) fn get(&self, plan: &DiskPlan) -> Disk {
        self.open[Path::new(&plan.state_path)].clone()
    }

    /// Saves the state of the disks for the next run.
    pub(crate) fn keep(&self) -> Result<(), EngineError> {
        let now = self.clock.now();
        self.open.iter().try_for_each(|(path, disk)| disk.state(now).write(path))
    }
}

impl Attached {
    fn new(plan: &DiskPlan, slack: Nanos, now: Nanos) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self { machine: Machine::new(plan.vm.as_ref(), slack, now), files: Vec::new() }))
    }
}

impl Disk {
    fn attach(machine: &Arc<Mutex<Attached>>, plan: &DiskPlan, state: Option<State>, now: Nanos) -> Self {
        let disk = Self {
            number: lock_of(machine).machine.attach(plan, now),
            machine: Arc::clone(machine),
            name: plan.name.clone(),
        };
        disk.restore(state.unwrap_or_default(), now);
        disk
    }

    fn restore(&self, state: State, now: Nanos) {
        let since = unix_ns().saturating_sub(state.saved_unix_ns);
        let mut attached = lock_of(&self.machine);
        let Attached { machine, files } = &mut *attached;
        for (name, credits) in state.credits {
            machine.restore_credits(self.number, &name, credits, since, now);
        }
        for file in state.files.into_iter().filter(|file| inode(&file.path) == file.inode) {
            machine.cache.add_file(file.words(), 0);
            files.push((self.number, file.path));
        }
    }

    fn state(&self, now: Nanos) -> State {
        let attached = lock_of(&self.machine);
        let Attached { machine, files } = &*attached;
        let credits = machine.credits(self.number, now).into_iter().map(|(name, left)| (name.to_owned(), left));
        let own = files.iter().enumerate().filter(|(_, (disk, _))| *disk == self.number);
        let files = own.filter_map(|(file, (_, path))| CachedFile::new(path, inode(path), machine.cache.present(file)));
        State { saved_unix_ns: unix_ns(), credits: credits.collect(), files: files.collect(), ..State::default() }
    }

    /// Name of the disk, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Indices of a worker's files for [`Access`].
    pub(crate) fn files(&self, plans: &[FilePlan]) -> Vec<usize> {
        let mut attached = lock_of(&self.machine);
        let Attached { machine, files } = &mut *attached;
        let mut number = |plan: &FilePlan| {
            let end = plan.offset_bytes + plan.bytes;
            let known = files.iter().position(|(disk, path)| *disk == self.number && *path == plan.path);
            let number = known.unwrap_or_else(|| {
                files.push((self.number, plan.path.clone()));
                machine.cache.add_file(Vec::new(), 0)
            });
            machine.cache.grow(number, end);
            number
        };
        plans.iter().map(&mut number).collect()
    }

    /// Admits an operation that is submitted now.
    #[inline]
    pub(crate) fn admit(&self, access: Access, now: Nanos) -> Admitted {
        lock_of(&self.machine).machine.admit(self.number, access, now)
    }
}

fn lock_of(machine: &Mutex<Attached>) -> MutexGuard<'_, Attached> {
    machine.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a directory against other runs; the system unlocks it when this process ends.
fn lock(directory: &Path) -> Result<File, EngineError> {
    let failed = |action, source| EngineError::Path { action, path: directory.display().to_string(), source };
    let opened = File::open(directory).map_err(|source| failed("open the emulated disk in", source))?;
    match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(opened),
        Err(Errno::WOULDBLOCK) => Err(TargetError::DiskInUse { directory: directory.display().to_string() }.into()),
        Err(error) => Err(failed("lock the emulated disk in", error.into())),
    }
}

fn inode(path: &str) -> Option<u64> {
    fs::metadata(path).ok().map(|status| status.ino())
}

fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
