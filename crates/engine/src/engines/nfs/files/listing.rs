//! Finds what exists of a tree on an export, by any version of NFS.

use std::sync::atomic::AtomicBool;

use super::super::calls::{Calls, Entry, Mountable};
use super::super::export::Export;
use super::super::names::{Listed, Node, Procedure};
use super::super::status::{EXIST, refused};
use super::super::version::with_version;
use crate::error::{EngineError, TargetError};
use crate::plan::{NfsMount, Tree};
use crate::tree::{DirectoryEntry, EntryKind, Found, Lister, list};

/// Everything with the name of a tree below a root, which is created if it is missing.
pub(crate) fn find_tree(
    mount: &NfsMount,
    root: &str,
    tree: &Tree,
    stop: &AtomicBool,
) -> Result<Vec<Found>, EngineError> {
    with_version!(mount, P => find_tree_on::<P>(mount, root, tree, stop))
}

fn find_tree_on<P: Mountable>(
    mount: &NfsMount,
    root: &str,
    tree: &Tree,
    stop: &AtomicBool,
) -> Result<Vec<Found>, EngineError> {
    let mut export = Export::<P>::mount(mount, stop)?;
    let directory = open_root(&mut export, root, tree.creates_parents)?;
    list(&mut export, &directory, tree.names.as_ref(), stop)
}

fn open_root<P: Mountable>(
    export: &mut Export<'_, P>,
    root: &str,
    creates_parents: bool,
) -> Result<P::Handle, EngineError> {
    let mut directory = export.calls.root().clone();
    let mut parts = root.split('/').filter(|part| !part.is_empty()).peekable();
    while let Some(part) = parts.next() {
        directory = match export.look_up(&directory, part, root)? {
            Some(Node { handle, kind: EntryKind::Directory, .. }) => handle,
            Some(_) => {
                return Err(TargetError::NotADirectoryInRoot { root: root.into(), name: part.into() }.into());
            }
            None if creates_parents || parts.peek().is_none() => {
                make(export, &Entry { directory: &directory, name: part }, root)?
            }
            None => {
                return Err(TargetError::MissingInRoot { root: root.into(), name: part.into() }.into());
            }
        };
    }
    Ok(directory)
}

/// Makes a directory on the way to `root`, which another client may make at the same time.
fn make<P: Mountable>(
    export: &mut Export<'_, P>,
    entry: &Entry<'_, P::Handle>,
    root: &str,
) -> Result<P::Handle, EngineError> {
    match export.calls.on_name(Procedure::Mkdir, entry)?.map(|made| made.handle) {
        Ok(Some(handle)) => Ok(handle),
        Ok(None) | Err(EXIST) => export.calls.look_up(entry)?.map_err(|status| refused::<P>("look up", root, status)),
        Err(status) => Err(refused::<P>("create", root, status)),
    }
}

impl<P: Mountable> Lister for Export<'_, P> {
    type Directory = P::Handle;

    fn entries(&mut self, directory: &P::Handle, below: &str) -> Result<Vec<DirectoryEntry<P::Handle>>, EngineError> {
        let mut entries = Vec::new();
        for Listed { name, node } in self.list_all(below, directory, Procedure::List)? {
            if name == b"." || name == b".." {
                continue;
            }
            let name = String::from_utf8_lossy(&name).into_owned();
            let node = match node {
                Some(node) => Some(node),
                None => self.look_up(directory, &name, below)?,
            };
            entries.extend(node.map(|Node { handle, kind, bytes, .. }| DirectoryEntry { name, kind, bytes, handle }));
        }
        Ok(entries)
    }
}
