//! Names of inodes below the directory, learned from a scan at the start and from every name seen since.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::sys::Id;

/// Deepest path that is served, in directories.
const DEPTH_MAX: usize = 1024;

/// The known names of each inode.
#[derive(Debug)]
pub(super) struct Inodes {
    root: Id,
    known: RwLock<HashMap<u64, Known>>,
}

/// News of an inode that was found under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Remembered {
    pub(super) new_name: bool,
    pub(super) new_inode: bool,
}

/// One inode and its names, each with the inode of its directory.
#[derive(Debug, Clone)]
struct Known {
    id: Id,
    names: Vec<(u64, Vec<u8>)>,
}

impl Inodes {
    /// Knows only the root.
    pub(super) fn new(root: Id) -> Self {
        Self { root, known: RwLock::default() }
    }

    pub(super) fn root(&self) -> Id {
        self.root
    }

    /// Notes that an inode is found under a name, and returns what of it was unknown before.
    pub(super) fn remember(&self, id: Id, parent: u64, name: &[u8]) -> Remembered {
        let mut known = self.write();
        let entry = known.entry(id.inode).or_insert_with(|| Known { id, names: Vec::new() });
        if entry.id != id {
            *entry = Known { id, names: Vec::new() };
        }
        let new_inode = entry.names.is_empty();
        let new_name = !entry.names.iter().any(|(at, called)| *at == parent && called == name);
        if new_name {
            entry.names.push((parent, name.to_vec()));
        }
        Remembered { new_name, new_inode }
    }

    /// True if an inode is known under a name.
    pub(super) fn knows(&self, id: Id, parent: u64, name: &[u8]) -> bool {
        let known = self.read();
        let names = known.get(&id.inode).filter(|entry| entry.id == id).map_or(&[][..], |entry| &entry.names);
        names.iter().any(|(at, called)| *at == parent && called == name)
    }

    /// Forgets a name, and with its last name the inode. Returns whether the name was known.
    pub(super) fn forget(&self, id: Id, parent: u64, name: &[u8]) -> bool {
        let mut known = self.write();
        let Some(entry) = known.get_mut(&id.inode) else { return false };
        let count = entry.names.len();
        entry.names.retain(|(at, called)| *at != parent || called != name);
        let was_known = entry.names.len() < count;
        if entry.names.is_empty() {
            known.remove(&id.inode);
        }
        was_known
    }

    /// All paths below the root that should lead to an inode.
    pub(super) fn paths(&self, id: Id) -> Vec<Vec<u8>> {
        if id == self.root {
            return vec![b".".to_vec()];
        }
        let known = self.read();
        let names = known.get(&id.inode).filter(|entry| entry.id == id).map_or(&[][..], |entry| &entry.names);
        names.iter().filter_map(|(parent, name)| self.path(&known, *parent, name)).collect()
    }

    fn path(&self, known: &HashMap<u64, Known>, parent: u64, name: &[u8]) -> Option<Vec<u8>> {
        let mut parts = vec![name];
        let mut at = parent;
        while at != self.root.inode {
            let (parent, name) = known.get(&at)?.names.first()?;
            parts.push(name);
            at = *parent;
            if parts.len() > DEPTH_MAX {
                return None;
            }
        }
        parts.reverse();
        Some(parts.join(&b'/'))
    }

    /// The directory that a directory is in; the root is in itself.
    pub(super) fn parent(&self, directory: Id) -> Option<Id> {
        if directory == self.root {
            return Some(directory);
        }
        let known = self.read();
        let (parent, _) = known.get(&directory.inode)?.names.first()?;
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
