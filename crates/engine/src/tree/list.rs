//! Finds what exists of a tree, on any file system.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{CONTROL_FILE, Found, Kind, Name, kind_of};
use crate::error::EngineError;
use crate::plan::TreeNames;

/// Kind of an entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// A regular file.
    File,
    Directory,
    /// A symbolic link.
    Symlink,
    Other,
}

/// An entry of a directory.
pub(crate) struct DirectoryEntry<D> {
    pub(crate) name: String,
    pub(crate) kind: EntryKind,
    pub(crate) bytes: u64,
    /// The entry itself, if it is a directory.
    pub(crate) handle: D,
}

/// A file system that trees are on.
pub(crate) trait Lister {
    type Directory;

    /// All entries of a directory but itself and its parent. `below` is its path below the tree's root.
    fn entries(
        &mut self,
        directory: &Self::Directory,
        below: &str,
    ) -> Result<Vec<DirectoryEntry<Self::Directory>>, EngineError>;
}

/// Everything with the name of a tree below a root.
pub(crate) fn list<L: Lister>(
    lister: &mut L,
    root: &L::Directory,
    names: Option<&TreeNames>,
    stop: &AtomicBool,
) -> Result<Vec<Found>, EngineError> {
    let mut found = Vec::new();
    list_below(lister, root, "", names, &mut found, stop)?;
    Ok(found)
}

/// Lists a directory; returns `true` if it has entries that are not of a tree.
fn list_below<L: Lister>(
    lister: &mut L,
    directory: &L::Directory,
    below: &str,
    names: Option<&TreeNames>,
    found: &mut Vec<Found>,
    stop: &AtomicBool,
) -> Result<bool, EngineError> {
    let mut has_others = false;
    for DirectoryEntry { name, kind, bytes, handle } in lister.entries(directory, below)? {
        if stop.load(Ordering::Relaxed) {
            return Err(EngineError::StoppedBeforeLoad);
        }
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        match (kind_of(names, &name), kind) {
            (Some(Kind::Directory { .. }), EntryKind::Directory) => {
                let others_inside = list_below(lister, &handle, &path, names, found, stop)?;
                has_others |= others_inside;
                found.push(Found { path, is_directory: true, bytes: 0, has_others: others_inside });
            }
            (Some(Kind::File { name: Name::Symlink, .. }), EntryKind::Symlink) => {
                found.push(Found { path, is_directory: false, bytes: 0, has_others: false });
            }
            (Some(Kind::File { .. }), EntryKind::File) => {
                found.push(Found { path, is_directory: false, bytes, has_others: false });
            }
            (None, EntryKind::File) if below.is_empty() && name == CONTROL_FILE => {
                found.push(Found { path, is_directory: false, bytes, has_others: false });
            }
            _ => has_others = true,
        }
    }
    Ok(has_others)
}
