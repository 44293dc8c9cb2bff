//! Names of inodes below the directory, learned from a scan at the start and from every name seen since, and what each of them counts
//! against the quota.

use std::collections::{BTreeSet, HashMap};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use iocurve_wire::nfs3::{ftype3, nfsstat3};

use super::sys::{Id, Stat};
use crate::store::budget::Budget;
use crate::store::contract::{DEPTH_MAX, NAME_BYTES};

/// The known names of each inode. What is used of the budget is always the names and the sizes that are noted here.
#[derive(Debug)]
pub(super) struct Inodes {
    root: Id,
    known: RwLock<HashMap<u64, Known>>,
    pub(super) budget: Budget,
}

/// A name, with the inode of its directory.
type Name = (u64, Vec<u8>);

/// The names of an inode. Nearly all have one; what a name costs does not depend on the number of others.
#[derive(Debug, Default)]
struct Names {
    /// There is one if there are more.
    first: Option<Name>,
    more: BTreeSet<Name>,
}

/// One inode and its names.
#[derive(Debug)]
struct Known {
    id: Id,
    names: Names,
    /// Bytes that its data count; it may have grown without this server's knowledge.
    counted: u64,
}

impl Names {
    fn has(&self, parent: u64, name: &[u8]) -> bool {
        let is_first = self.first.as_ref().is_some_and(|(at, called)| *at == parent && called == name);
        is_first || !self.more.is_empty() && self.more.contains(&(parent, name.to_vec()))
    }

    fn add(&mut self, name: Name) {
        if self.first.is_none() {
            self.first = Some(name);
        } else {
            self.more.insert(name);
        }
    }

    fn remove(&mut self, name: &Name) {
        if self.first.as_ref() == Some(name) {
            self.first = self.more.pop_first();
        } else {
            self.more.remove(name);
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Name> {
        self.first.iter().chain(&self.more)
    }

    fn count(&self) -> usize {
        usize::from(self.first.is_some()) + self.more.len()
    }
}

impl Known {
    fn new(id: Id) -> Self {
        Self { id, names: Names::default(), counted: 0 }
    }

    /// Bytes that it counts with its names.
    fn bytes(&self) -> u64 {
        self.counted + NAME_BYTES * self.names.count() as u64
    }
}

impl Inodes {
    /// Knows only the root.
    pub(super) fn new(root: Id, budget: Budget) -> Self {
        Self { root, known: RwLock::default(), budget }
    }

    pub(super) fn root(&self) -> Id {
        self.root
    }

    /// Notes that a file is found under a name. What was unknown of it counts from now on, even beyond the quota.
    pub(super) fn discover(&self, stat: &Stat, parent: u64, name: &[u8]) {
        let size = if matches!(stat.file_type, ftype3::NF3REG | ftype3::NF3LNK) { stat.size } else { 0 };
        let mut known = self.write();
        let entry = self.entry(&mut known, stat.id);
        if entry.names.has(parent, name) {
            return;
        }
        if entry.names.count() == 0 {
            entry.counted = size;
            self.budget.use_anyway(size);
        }
        entry.names.add((parent, name.to_vec()));
        self.budget.use_anyway(NAME_BYTES);
    }

    /// Notes a name that was made, and for which [`NAME_BYTES`] were taken from the budget.
    pub(super) fn add(&self, id: Id, parent: u64, name: &[u8]) {
        let mut known = self.write();
        let names = &mut self.entry(&mut known, id).names;
        if names.has(parent, name) {
            // It was removed by another program.
            self.budget.give_back(NAME_BYTES);
        } else {
            names.add((parent, name.to_vec()));
        }
    }

    /// The entry of an inode. An earlier one with its number, which others have removed, no longer counts.
    fn entry<'k>(&self, known: &'k mut HashMap<u64, Known>, id: Id) -> &'k mut Known {
        let entry = known.entry(id.inode).or_insert_with(|| Known::new(id));
        if entry.id != id {
            self.budget.give_back(entry.bytes());
            *entry = Known::new(id);
        }
        entry
    }

    /// True if an inode is known under a name.
    pub(super) fn knows(&self, id: Id, parent: u64, name: &[u8]) -> bool {
        self.read().get(&id.inode).is_some_and(|entry| entry.id == id && entry.names.has(parent, name))
    }

    /// Forgets a name, and with its last name the inode.
    pub(super) fn forget(&self, id: Id, parent: u64, name: &[u8]) {
        let mut known = self.write();
        let Some(entry) = known.get_mut(&id.inode).filter(|entry| entry.id == id) else { return };
        let before = entry.bytes();
        entry.names.remove(&(parent, name.to_vec()));
        let after = if entry.names.count() == 0 { 0 } else { entry.bytes() };
        if after == 0 {
            known.remove(&id.inode);
        }
        self.budget.give_back(before - after);
    }

    /// Lets a file count `size` bytes, if more of them fit into the quota. A file without a name cannot grow.
    pub(super) fn count(&self, id: Id, size: u64) -> Result<(), nfsstat3> {
        let mut known = self.write();
        let entry = known.get_mut(&id.inode).filter(|entry| entry.id == id).ok_or(nfsstat3::NFS3ERR_STALE)?;
        match size.checked_sub(entry.counted) {
            Some(more) => self.budget.take(more)?,
            None => self.budget.give_back(entry.counted - size),
        }
        entry.counted = size;
        Ok(())
    }

    /// Lets a file count `size` bytes, the size that it has.
    pub(super) fn settle(&self, id: Id, size: u64) {
        let mut known = self.write();
        let Some(entry) = known.get_mut(&id.inode).filter(|entry| entry.id == id) else { return };
        self.budget.use_anyway(size);
        self.budget.give_back(entry.counted);
        entry.counted = size;
    }

    /// A path below the root that should lead to an inode, by the first of its names from this number on; and the number of that name.
    pub(super) fn path(&self, id: Id, first: usize) -> Option<(usize, Vec<u8>)> {
        if id == self.root {
            return (first == 0).then(|| (0, b".".to_vec()));
        }
        let known = self.read();
        let entry = known.get(&id.inode).filter(|entry| entry.id == id)?;
        let mut names = entry.names.iter().enumerate().skip(first);
        names.find_map(|(number, (parent, name))| Some((number, self.path_of(&known, *parent, name)?)))
    }

    fn path_of(&self, known: &HashMap<u64, Known>, parent: u64, name: &[u8]) -> Option<Vec<u8>> {
        let mut parts = vec![name];
        let mut at = parent;
        while at != self.root.inode {
            let (parent, name) = known.get(&at)?.names.first.as_ref()?;
            parts.push(name);
            at = *parent;
            if parts.len() > DEPTH_MAX {
                return None;
            }
        }
        parts.reverse();
        Some(parts.join(&b'/'))
    }

    /// Fails if names in a new directory of this one would be too deep.
    pub(super) fn check_depth(&self, directory: Id) -> Result<(), nfsstat3> {
        let (_, path) = self.path(directory, 0).ok_or(nfsstat3::NFS3ERR_STALE)?;
        let depth = path.split(|byte| *byte == b'/').count();
        if depth + 2 > DEPTH_MAX { Err(nfsstat3::NFS3ERR_NAMETOOLONG) } else { Ok(()) }
    }

    /// The directory that a directory is in; the root is in itself.
    pub(super) fn parent(&self, directory: Id) -> Option<Id> {
        if directory == self.root {
            return Some(directory);
        }
        let known = self.read();
        let (parent, _) = known.get(&directory.inode)?.names.first.as_ref()?;
        if *parent == self.root.inode {
            return Some(self.root);
        }
        known.get(parent).map(|entry| entry.id)
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<u64, Known>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<u64, Known>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}
