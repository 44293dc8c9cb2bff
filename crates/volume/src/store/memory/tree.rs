//! The tree of names. All changes of names are serialized by the namespace lock; whoever holds it locks one node at a time, so that
//! locks cannot form a cycle.

use iocurve_wire::nfs3::{createhow3, createverf3, fattr3, ftype3, nfsstat3, sattr3, wcc_data};

use super::MemoryStore;
use super::content::Content;
use super::directory::{Directory, Link};
use super::node::{Body, Node};
use super::slots::{FreeSlots, ROOT};
use crate::store::access::{self, Caller};
use crate::store::contract::{Changed, Creation, DEPTH_MAX, LINKS_MAX, NAME_BYTES, Named, Removal, Store};
use crate::store::names::{SYMLINK_BYTES_MAX, check_name, check_removable, is_dots};
use crate::store::operations;

/// A directory in which names change, with its attributes before.
pub(super) struct Parent {
    link: Link,
    pub(super) attributes: fattr3,
}

impl MemoryStore {
    /// Changes names in one directory, in which the caller may look them up, and records its attributes before and after.
    pub(super) fn change<R>(
        &self,
        caller: &Caller,
        directory: &[u8],
        change: impl FnOnce(&mut FreeSlots, &Parent) -> Result<R, nfsstat3>,
    ) -> Changed<R> {
        let mut free_slots = self.namespace();
        let parent = match self.parent(directory) {
            Ok(parent) => parent,
            Err(status) => return Changed::refused(status),
        };
        let result = operations::check_search(caller, &parent.attributes);
        let result = result.and_then(|()| change(&mut free_slots, &parent));
        Changed { result, wcc: wcc_data { before: Some(parent.attributes.wcc()), after: self.getattr(directory).ok() } }
    }

    /// The directory of a handle.
    pub(super) fn parent(&self, directory: &[u8]) -> Result<Parent, nfsstat3> {
        self.view(directory, |link, node| {
            Ok(Parent { link, attributes: self.attributes(link.index, link.stamp, node) })
        })
    }

    pub(super) fn create_in(
        &self,
        free_slots: &mut FreeSlots,
        caller: &Caller,
        parent: &Parent,
        name: &[u8],
        what: Creation<'_>,
    ) -> Result<Named, nfsstat3> {
        let existing = if is_dots(name) { Some(parent.link) } else { self.find(parent, name).ok() };
        let found = existing.map(|link| self.named(link)).transpose()?;
        let attributes = found.as_ref().map(|found| &found.attributes);
        operations::check_creation(caller, &parent.attributes, attributes, &what)?;
        check_name(name)?;
        match (existing, &what) {
            (Some(link), Creation::File(how)) => self.create_existing(link, how),
            (Some(_), _) => Err(nfsstat3::NFS3ERR_EXIST),
            (None, _) => {
                let (what, owner) = operations::granted(caller, &parent.attributes, what);
                if let Creation::Directory(_) = what {
                    self.check_not_within(None, parent.link)?;
                }
                self.add(free_slots, parent, name, self.new_node(&what, owner, parent.link)?)
            }
        }
    }

    /// Answers CREATE for a name that exists.
    fn create_existing(&self, link: Link, how: &createhow3) -> Result<Named, nfsstat3> {
        match how {
            createhow3::GUARDED(_) => return Err(nfsstat3::NFS3ERR_EXIST),
            createhow3::EXCLUSIVE(verf) => {
                let is_same = self.node(link, |node| Ok(node.createverf == Some(*verf)))?;
                if !is_same {
                    return Err(nfsstat3::NFS3ERR_EXIST);
                }
            }
            createhow3::UNCHECKED(new) => self.node_mut(link, |node| {
                node.content_mut().map_err(|_| nfsstat3::NFS3ERR_EXIST)?;
                // Of an existing file only the size is set, as open(2) with O_TRUNC does.
                new.size.map_or(Ok(()), |size| self.resize(node, size))
            })?,
        }
        self.named(link)
    }

    fn new_node(&self, what: &Creation<'_>, caller: Caller, parent: Link) -> Result<Node, nfsstat3> {
        let (file_type, mode, body, new) = match what {
            Creation::File(how) => {
                let new = match how {
                    createhow3::UNCHECKED(new) | createhow3::GUARDED(new) => *new,
                    createhow3::EXCLUSIVE(_) => sattr3::default(),
                };
                (ftype3::NF3REG, 0o644, Body::File(Content::default()), new)
            }
            Creation::Directory(new) => {
                (ftype3::NF3DIR, 0o755, Body::Directory(Box::new(Directory::new(parent))), *new)
            }
            Creation::Symlink(new, target) => (ftype3::NF3LNK, 0o777, symlink(target)?, *new),
            Creation::Special(new, file_type, spec) => (*file_type, 0o644, Body::Special(*spec), *new),
        };
        let mut node = Node::new(file_type, mode, caller, body);
        node.createverf = exclusive(what);
        if file_type != ftype3::NF3REG && new.size.is_some() {
            return Err(nfsstat3::NFS3ERR_INVAL);
        }
        self.apply(&mut node, &new)?;
        Ok(node)
    }

    /// Puts a new node into a slot and under a name.
    fn add(&self, free_slots: &mut FreeSlots, directory: &Parent, name: &[u8], node: Node) -> Result<Named, nfsstat3> {
        let bytes = NAME_BYTES + node.target_bytes();
        self.data.budget.take(bytes)?;
        let is_directory = node.file_type == ftype3::NF3DIR;
        let Some((index, generation)) = free_slots.take() else {
            self.data.budget.give_back(bytes);
            return Err(nfsstat3::NFS3ERR_NOSPC);
        };
        let link = self.link(index, generation);
        let made = Named { handle: self.handle(link), attributes: self.attributes(index, link.stamp, &node) };
        self.put(link, node);
        self.node_mut(directory.link, |parent| {
            parent.directory_mut()?.insert(name, link);
            parent.nlink += u32::from(is_directory);
            parent.touch();
            Ok(())
        })?;
        Ok(made)
    }

    pub(super) fn remove_from(
        &self,
        free_slots: &mut FreeSlots,
        caller: &Caller,
        parent: &Parent,
        name: &[u8],
        what: Removal,
    ) -> Result<(), nfsstat3> {
        let link = self.removable(caller, parent, name)?;
        let file_type = self.node(link, |node| Ok(node.file_type))?;
        let is_directory = what.is_directory(file_type);
        self.check_replaced(link, is_directory)?;
        self.take_name(parent.link, name, is_directory)?;
        self.unlink(free_slots, link);
        Ok(())
    }

    /// The node of a name that the caller may remove.
    fn removable(&self, caller: &Caller, parent: &Parent, name: &[u8]) -> Result<Link, nfsstat3> {
        check_removable(name)?;
        let link = self.find(parent, name)?;
        access::check_removal(caller, &parent.attributes, &self.named(link)?.attributes)?;
        Ok(link)
    }

    /// Moves a name between directories, both of which exist.
    pub(super) fn rename_in(
        &self,
        free_slots: &mut FreeSlots,
        caller: &Caller,
        (from, old): (&Parent, &[u8]),
        (to, new): (&Parent, &[u8]),
    ) -> Result<(), nfsstat3> {
        check_removable(old)?;
        check_removable(new)?;
        let moved = self.find(from, old)?;
        let replaced = self.find(to, new).ok();
        let is_directory = self.check_rename(caller, (from, moved), (to, replaced))?;
        if replaced == Some(moved) {
            return Ok(());
        }
        if is_directory {
            self.check_not_within(Some(moved), to.link)?;
        }
        let directory_replaced = replaced.map_or(Ok(false), |link| self.check_replaced(link, is_directory))?;
        // The new name first: at no moment does the file have no name at all.
        self.node_mut(to.link, |node| {
            node.directory_mut()?.insert(new, moved);
            node.nlink += u32::from(is_directory);
            node.nlink -= u32::from(directory_replaced);
            node.touch();
            Ok(())
        })?;
        self.take_name(from.link, old, is_directory)?;
        self.set_parent(moved, to.link)?;
        if let Some(link) = replaced {
            self.unlink(free_slots, link);
        }
        Ok(())
    }

    /// Checks that the caller may move a file, and returns whether it is a directory.
    fn check_rename(
        &self,
        caller: &Caller,
        (from, moved): (&Parent, Link),
        (to, replaced): (&Parent, Option<Link>),
    ) -> Result<bool, nfsstat3> {
        let moved = self.named(moved)?.attributes;
        let replaced = replaced.map(|link| self.named(link)).transpose()?.map(|found| found.attributes);
        operations::check_rename(caller, (&from.attributes, &moved), (&to.attributes, replaced.as_ref()))?;
        Ok(moved.file_type == ftype3::NF3DIR)
    }

    /// Notes where a node is now; only directories know their parent.
    fn set_parent(&self, moved: Link, parent: Link) -> Result<(), nfsstat3> {
        self.node_mut(moved, |node| {
            if let Body::Directory(directory) = &mut node.body {
                directory.parent = parent;
            }
            node.touch_ctime();
            Ok(())
        })
    }

    pub(super) fn link_in(&self, caller: &Caller, parent: &Parent, name: &[u8], file: &[u8]) -> Result<(), nfsstat3> {
        operations::check_addition(caller, &parent.attributes)?;
        check_name(name)?;
        let link = self.view(file, |own, node| match node.file_type {
            ftype3::NF3DIR => Err(nfsstat3::NFS3ERR_INVAL),
            _ if node.nlink >= LINKS_MAX => Err(nfsstat3::NFS3ERR_MLINK),
            _ => Ok(own),
        })?;
        if is_dots(name) || self.find(parent, name).is_ok() {
            return Err(nfsstat3::NFS3ERR_EXIST);
        }
        self.data.budget.take(NAME_BYTES)?;
        self.node_mut(link, |node| {
            node.nlink += 1;
            node.touch_ctime();
            Ok(())
        })?;
        self.node_mut(parent.link, |node| {
            node.directory_mut()?.insert(name, link);
            node.touch();
            Ok(())
        })
    }

    /// Checks that a name may be replaced by a node of this kind, and returns whether it is a directory.
    fn check_replaced(&self, replaced: Link, by_directory: bool) -> Result<bool, nfsstat3> {
        self.node(replaced, |node| match (&node.body, by_directory) {
            (Body::Directory(_), false) => Err(nfsstat3::NFS3ERR_ISDIR),
            (Body::Directory(old), true) if !old.is_empty() => Err(nfsstat3::NFS3ERR_NOTEMPTY),
            (Body::Directory(_), true) => Ok(true),
            (_, true) => Err(nfsstat3::NFS3ERR_NOTDIR),
            (_, false) => Ok(false),
        })
    }

    /// Checks that a directory, which is new or moved, does not go into itself, nor too deep.
    fn check_not_within(&self, moved: Option<Link>, into: Link) -> Result<(), nfsstat3> {
        let mut at = into;
        for _ in 1..DEPTH_MAX {
            match at {
                _ if Some(at) == moved => return Err(nfsstat3::NFS3ERR_INVAL),
                Link { index: ROOT, .. } => return Ok(()),
                _ => at = self.node(at, |node| Ok(node.directory()?.parent))?,
            }
        }
        Err(nfsstat3::NFS3ERR_NAMETOOLONG)
    }

    /// Takes a name out of a directory.
    fn take_name(&self, directory: Link, name: &[u8], is_directory: bool) -> Result<(), nfsstat3> {
        self.node_mut(directory, |node| {
            node.directory_mut()?.remove(name);
            node.nlink -= u32::from(is_directory);
            node.touch();
            Ok(())
        })
    }

    /// Takes one name away from a node, and removes the node with its last name.
    fn unlink(&self, free_slots: &mut FreeSlots, Link { index, .. }: Link) {
        let Some(slot) = self.slots.get(index) else { return };
        let mut held = slot.write();
        let Some(node) = held.node.as_mut() else { return };
        self.data.budget.give_back(NAME_BYTES);
        if node.file_type != ftype3::NF3DIR && node.nlink > 1 {
            node.nlink -= 1;
            node.touch_ctime();
            return;
        }
        self.data.budget.give_back(node.target_bytes());
        let removed = held.node.take();
        drop(held);
        if let Some(Node { body: Body::File(mut content), .. }) = removed {
            self.data.remove(&mut content);
        }
        free_slots.give_back(index);
    }

    /// The node that a directory has under a name.
    fn find(&self, directory: &Parent, name: &[u8]) -> Result<Link, nfsstat3> {
        self.node(directory.link, |node| node.directory()?.get(name).ok_or(nfsstat3::NFS3ERR_NOENT))
    }

    /// Reads a node that the namespace lock keeps alive.
    fn node<R>(&self, link: Link, read: impl FnOnce(&Node) -> Result<R, nfsstat3>) -> Result<R, nfsstat3> {
        let held = self.slots.get(link.index).ok_or(nfsstat3::NFS3ERR_STALE)?.read();
        read(held.node.as_ref().ok_or(nfsstat3::NFS3ERR_STALE)?)
    }

    /// Changes a node that the namespace lock keeps alive.
    fn node_mut<R>(&self, link: Link, change: impl FnOnce(&mut Node) -> Result<R, nfsstat3>) -> Result<R, nfsstat3> {
        let mut held = self.slots.get(link.index).ok_or(nfsstat3::NFS3ERR_STALE)?.write();
        change(held.node.as_mut().ok_or(nfsstat3::NFS3ERR_STALE)?)
    }
}

fn symlink(target: &[u8]) -> Result<Body, nfsstat3> {
    match target.len() {
        0 => Err(nfsstat3::NFS3ERR_INVAL),
        length if length > SYMLINK_BYTES_MAX => Err(nfsstat3::NFS3ERR_NAMETOOLONG),
        _ => Ok(Body::Symlink(target.to_vec())),
    }
}

fn exclusive(what: &Creation<'_>) -> Option<createverf3> {
    match what {
        Creation::File(createhow3::EXCLUSIVE(verf)) => Some(*verf),
        _ => None,
    }
}
