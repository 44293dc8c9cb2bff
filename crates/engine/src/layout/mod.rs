//! Layout and removal of a load's files, local or on NFS.

mod local;

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use iocurve_meter::Nanos;

use crate::engines::{capabilities, nfs};
use crate::error::EngineError;
use crate::plan::{FilePlan, Layout, NfsMount, Plan, Worker};
use crate::stall::HURRIED_NS;

pub use self::local::lay_out;

/// Files to be removed after the run.
#[derive(Debug, Default)]
pub struct Targets {
    local: Vec<PathBuf>,
    nfs: Vec<(NfsMount, Vec<String>)>,
}

impl Targets {
    /// Lays out the files of all groups. `progress` is called with the bytes written and the bytes to write; `stop`
    /// ends the layout with an error. After an error, files that the plan does not keep are removed.
    pub fn lay_out(plan: &Plan, progress: &dyn Fn(u64, u64), stop: &AtomicBool) -> Result<Self, EngineError> {
        let mut targets = Self::default();
        let result = targets.lay_out_all(plan, progress, stop);
        match result {
            Ok(()) => Ok(targets),
            Err(error) => {
                // The first error is the one to report.
                let _ = targets.remove(Some(HURRIED_NS), &AtomicBool::new(false));
                Err(error)
            }
        }
    }

    /// Removes the files; ignores missing ones. A server is waited for up to `patience_ns`, or as long as the load
    /// waits; when `stop` is set, not at all.
    pub fn remove(self, patience_ns: Option<Nanos>, stop: &AtomicBool) -> Result<(), EngineError> {
        let mut result = Ok(());
        for path in self.local {
            if let Err(source) = remove_local(&path)
                && source.kind() != io::ErrorKind::NotFound
            {
                result = Err(EngineError::Path { action: "remove", path: path.display().to_string(), source });
            }
        }
        for (mount, paths) in self.nfs {
            let timeout_ns = patience_ns.unwrap_or(mount.timeout_ns).min(mount.timeout_ns);
            if let Err(error) = nfs::remove(&NfsMount { timeout_ns, ..mount }, &paths, stop) {
                result = Err(error);
            }
        }
        result
    }

    fn lay_out_all(&mut self, plan: &Plan, progress: &dyn Fn(u64, u64), stop: &AtomicBool) -> Result<(), EngineError> {
        let (local, mounts) = by_place(plan);
        let local: Vec<&FilePlan> = local.iter().collect();
        let remote_bytes: u64 = mounts.iter().flat_map(|(_, files)| files).map(bytes_to_write_at_most).sum();
        let total = local::total_bytes(&local) + remote_bytes;
        let done = Cell::new(0);
        let seed = plan.groups.first().map_or(0, |group| group.workers[0].seed);

        let created = lay_out(&local, seed, &|bytes| progress(bytes, total), stop)?;
        let temporary: HashSet<&Path> =
            local.iter().filter(|file| !file.keep).map(|file| Path::new(&file.path)).collect();
        self.local = created.into_iter().filter(|path| temporary.contains(path.as_path())).collect();
        self.expect_created(plan, stop)?;
        done.set(local::total_bytes(&local));
        for (mount, files) in mounts {
            let created = nfs::layout(&mount, &files, seed, &|bytes| progress(done.get() + bytes, total), stop)?;
            let paths = files.iter().zip(created).filter(|(file, created)| *created && !file.keep);
            self.nfs.push((mount, paths.map(|(file, _)| file.path.clone()).collect()));
        }
        Ok(())
    }

    /// Files and directories that metadata operations will create are removed after the run, unless they are there now.
    fn expect_created(&mut self, plan: &Plan, stop: &AtomicBool) -> Result<(), EngineError> {
        let workers = || plan.groups.iter().flat_map(|group| &group.workers);
        let local = unprepared(workers().filter(|worker| worker.engine.mount().is_none()));
        let absent = |path: &PathBuf| std::fs::symlink_metadata(path).is_err();
        self.local.extend(local.into_iter().map(PathBuf::from).filter(absent));
        for worker in workers() {
            let Some(mount) = worker.engine.mount() else { continue };
            let paths = unprepared(std::iter::once(worker));
            if !paths.is_empty() {
                self.nfs.push((mount.clone(), nfs::absent(mount, paths, stop)?));
            }
        }
        Ok(())
    }
}

/// Removes a file or an empty directory. A directory that is not empty stays: others have put something there.
fn remove_local(path: &Path) -> io::Result<()> {
    if !std::fs::symlink_metadata(path)?.is_dir() {
        return std::fs::remove_file(path);
    }
    match std::fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        removed => removed,
    }
}

/// Paths that nothing prepares and that the run does not keep, without those that `others` prepare, the deepest first.
fn unprepared<'a>(workers: impl Iterator<Item = &'a Worker>) -> Vec<String> {
    let files = workers.flat_map(|worker| &worker.files);
    let paths: BTreeSet<&String> =
        files.filter(|file| file.layout == Layout::Nothing && !file.keep).map(|file| &file.path).collect();
    paths.into_iter().rev().cloned().collect()
}

fn bytes_to_write_at_most(file: &FilePlan) -> u64 {
    if file.layout.writes() { file.offset_bytes + file.bytes } else { 0 }
}

/// Files that are prepared, local ones and those of each mount. A file that several workers use is listed once, with
/// the union of their needs.
fn by_place(plan: &Plan) -> (Vec<FilePlan>, Vec<(NfsMount, Vec<FilePlan>)>) {
    let mut local = Vec::new();
    let mut mounts: Vec<(NfsMount, Vec<FilePlan>)> = Vec::new();
    let mut known: HashMap<(Option<usize>, &str), usize> = HashMap::new();
    for worker in plan.groups.iter().flat_map(|group| &group.workers) {
        if !capabilities(&worker.engine).moves_data {
            continue;
        }
        let number = worker.engine.mount().map(|mount| {
            mounts.iter().position(|(other, _)| same_export(other, mount)).unwrap_or_else(|| {
                mounts.push((mount.clone(), Vec::new()));
                mounts.len() - 1
            })
        });
        let files = number.map_or(&mut local, |number| &mut mounts[number].1);
        for file in worker.files.iter().filter(|file| file.layout != Layout::Nothing) {
            if let Some(&index) = known.get(&(number, file.path.as_str())) {
                merge(&mut files[index], file);
            } else {
                known.insert((number, &file.path), files.len());
                files.push(file.clone());
            }
        }
    }
    (local, mounts)
}

fn same_export(a: &NfsMount, b: &NfsMount) -> bool {
    (&a.host, a.port, a.mount_port, &a.export) == (&b.host, b.port, b.mount_port, &b.export)
}

/// Merges two uses of a file: the union of the regions, and the stronger layout.
fn merge(file: &mut FilePlan, other: &FilePlan) {
    let end = file.needed_end().max(other.needed_end());
    file.offset_bytes = file.offset_bytes.min(other.offset_bytes).min(end);
    file.bytes = end - file.offset_bytes;
    file.keep |= other.keep;
    file.layout = file.layout.stronger(other.layout);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::{file, worker};
    use crate::plan::{Durability, EnginePlan, FileOpen, Group, Worker};

    fn plan(workers: Vec<Worker>) -> Plan {
        Plan { version: 1, name: "t".into(), interval_ns: 1_000_000_000, groups: vec![Group { workers }] }
    }

    fn local(files: Vec<FilePlan>) -> Worker {
        let open = FileOpen { direct: false, durability: Durability::None, invalidate: false };
        Worker { engine: EnginePlan::Sync { open }, files, ..worker() }
    }

    #[test]
    fn a_shared_file_is_laid_out_once_as_large_and_as_filled_as_any_needs() {
        let reserve = FilePlan { layout: Layout::Reserve, keep: false, ..file("a", 100) };
        let fill = FilePlan { layout: Layout::Fill, offset_bytes: 50, ..file("a", 200) };
        let (files, mounts) = by_place(&plan(vec![local(vec![reserve]), local(vec![fill, file("b", 1)])]));
        let expected = FilePlan { layout: Layout::Fill, ..file("a", 250) };
        assert_eq!(files, [expected, file("b", 1)]);
        assert!(mounts.is_empty());
    }

    #[test]
    fn a_file_of_several_plans_is_recreated_once_with_the_longest_length() {
        let anew = FilePlan { layout: Layout::RecreateReserve, ..file("a", 100) };
        let fill = FilePlan { layout: Layout::Fill, ..file("a", 60) };
        let any = FilePlan { layout: Layout::Create, ..file("a", 900) };
        let (files, _) = by_place(&plan(vec![local(vec![any]), local(vec![anew.clone()]), local(vec![fill, anew])]));
        assert_eq!(files, [FilePlan { layout: Layout::Recreate, ..file("a", 100) }]);
    }

    #[test]
    fn the_null_engine_has_no_files() {
        assert!(by_place(&plan(vec![worker()])).0.is_empty());
    }
}
