//! The tree of names. All changes of names are serialized by the namespace lock; whoever holds it locks one node at a time, so that
//! locks cannot form a cycle.

use iocurve_wire::nfs3::{createhow3, createverf3, fattr3, ftype3, nfsstat3, sattr3, wcc_data};

use super::MemoryStore;
use super::content::Content;
use super::directory::{Directory, Link};
use super::node::{Body, Node};
use super::slots::{FreeSlots, ROOT};
use crate::store::access::{self, Caller};
use crate::store::contract::{Changed, Creation, DEPTH_MAX, LINKS_MAX, NAME_BYTES, Named, Removal};
use crate::store::names::{SYMLINK_BYTES_MAX, check_name, check_removable, is_dots};
use crate::store::operations;

/// A directory in which a name changes.
pub(super) struct Parent {
    link: Link,
    /// The node that has the name.
    found: Option<Link>,
    /// Attributes before the change.
    pub(super) attributes: fattr3,
    /// Attributes by now.
    after: fattr3,
}

impl Parent {
    pub(super) fn wcc(&self) -> wcc_data {
        wcc_data { before: Some(self.attributes.wcc()), after: Some(self.after) }
    }

    fn found(&self) -> Result<Link, nfsstat3> {
        self.found.ok_or(nfsstat3::NFS3ERR_NOENT)
    }
}

impl MemoryStore {
    /// Changes a name in a directory, in which the caller may look it up, and records the attributes before and after.
    pub(super) fn change<R>(
        &self,
        caller: &Caller,
        (directory, name): (&[u8], &[u8]),
        change: impl FnOnce(&mut FreeSlots, &mut Parent) -> Result<R, nfsstat3>,
    ) -> Changed<R> {
        let mut free_slots = self.namespace();
        let mut parent = match self.parent(directory, name) {
            Ok(parent) => parent,
            Err(status) => return Changed::refused(status),
        };
        let result = operations::check_search(caller, &parent.attributes);
        let result = result.and_then(|()| change(&mut free_slots, &mut parent));
        Changed { result, wcc: parent.wcc() }
    }

    /// The directory of a handle, and its node of a name.
    pub(super) fn parent(&self, directory: &[u8], name: &[u8]) -> Result<Parent, nfsstat3> {
        self.view(directory, |link, node| {
            let attributes = self.attributes(link.index, link.stamp, node);
            let found = node.directory().ok().and_then(|directory| directory.get(name));
            Ok(Parent { link, found, attributes, after: attributes })
        })
    }

    /// Changes the names of a directory, and notes its attributes.
    fn change_names(&self, parent: &mut Parent, change: impl FnOnce(&mut Directory, &mut u32)) -> Result<(), nfsstat3> {
        let Link { index, stamp } = parent.link;
        parent.after = self.node_mut(parent.link, |node| {
            let mut nlink = node.nlink;
            change(node.directory_mut()?, &mut nlink);
            node.nlink = nlink;
            node.touch();
            Ok(self.attributes(index, stamp, node))
        })?;
        Ok(())
    }

    pub(super) fn create_in(
        &self,
        free_slots: &mut FreeSlots,
        caller: &Caller,
        parent: &mut Parent,
        name: &[u8],
        what: Creation<'_>,
    ) -> Result<Named, nfsstat3> {
        let existing = if is_dots(name) { Some(parent.link) } else { parent.found };
        let found = existing.map(|link| self.named(link)).transpose()?;
        let attributes = found.as_ref().map(|found| &found.attributes);
        operations::check_creation(caller, &parent.attributes, attributes, &what)?;
        check_name(name)?;
        match (existing, &what) {
            (Some(link), Creation::File(how)) => self.create_existing(link, how),
            (Some(_), _) => Err(nfsstat3::NFS3ERR_EXIST),
            (None, _) => {
                let (what, owner) = operations::granted(caller, &parent.attributes, what);
                let is_directory = matches!(what, Creation::Directory(_));
                let level = if is_directory { self.level_below(parent.link)? } else { 0 };
                if level as usize >= DEPTH_MAX {
                    return Err(nfsstat3::NFS3ERR_NAMETOOLONG);
                }
                let node = self.new_node(&what, owner, (parent.link, level))?;
                self.add(free_slots, parent, name, node)
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

    fn new_node(&self, what: &Creation<'_>, caller: Caller, (parent, level): (Link, u32)) -> Result<Node, nfsstat3> {
        let (file_type, mode, body, new) = match what {
            Creation::File(how) => {
                let new = match how {
                    createhow3::UNCHECKED(new) | createhow3::GUARDED(new) => *new,
                    createhow3::EXCLUSIVE(_) => sattr3::default(),
                };
                (ftype3::NF3REG, 0o644, Body::File(Content::default()), new)
            }
            Creation::Directory(new) => {
                (ftype3::NF3DIR, 0o755, Body::Directory(Box::new(Directory::new(parent, level))), *new)
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
    fn add(&self, free_slots: &mut FreeSlots, parent: &mut Parent, name: &[u8], node: Node) -> Result<Named, nfsstat3> {
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
        self.change_names(parent, |names, nlink| {
            names.insert(name, link);
            *nlink += u32::from(is_directory);
        })?;
        Ok(made)
    }

    pub(super) fn remove_from(
        &self,
        free_slots: &mut FreeSlots,
        caller: &Caller,
        parent: &mut Parent,
        name: &[u8],
        what: Removal,
    ) -> Result<(), nfsstat3> {
        check_removable(name)?;
        let link = parent.found()?;
        let is_directory = self.node(link, |node| {
            let attributes = self.attributes(link.index, link.stamp, node);
            access::check_removal(caller, &parent.attributes, &attributes)?;
            check_replaced(node, what.is_directory(attributes.file_type))
        })?;
        self.take_name(parent, name, is_directory)?;
        self.unlink(free_slots, link);
        Ok(())
    }

    /// Moves a name between directories, both of which exist.
    pub(super) fn rename_in(
        &self,
        free_slots: &mut FreeSlots,
        caller: &Caller,
        (from, old): (&mut Parent, &[u8]),
        (to, new): (&mut Parent, &[u8]),
    ) -> Result<(), nfsstat3> {
        check_removable(old)?;
        check_removable(new)?;
        let (moved, replaced) = (from.found()?, to.found);
        let is_directory = self.check_rename(caller, (from, moved), (to, replaced))?;
        if replaced == Some(moved) {
            return Ok(());
        }
        if is_directory && to.link != from.link {
            self.check_not_within(moved, to.link)?;
        }
        let check = |link| self.node(link, |node| check_replaced(node, is_directory));
        let directory_replaced = replaced.map_or(Ok(false), check)?;
        // The new name first: at no moment does the file have no name at all.
        self.change_names(to, |names, nlink| {
            names.insert(new, moved);
            *nlink += u32::from(is_directory);
            *nlink -= u32::from(directory_replaced);
        })?;
        self.take_name(from, old, is_directory)?;
        if to.link == from.link {
            to.after = from.after;
        }
        self.set_parent((moved, is_directory), to.link)?;
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
    fn set_parent(&self, (moved, is_directory): (Link, bool), parent: Link) -> Result<(), nfsstat3> {
        let level = if is_directory { self.level_below(parent)? } else { 0 };
        self.node_mut(moved, |node| {
            if let Body::Directory(directory) = &mut node.body {
                (directory.parent, directory.level) = (parent, level);
            }
            node.touch_ctime();
            Ok(())
        })
    }

    pub(super) fn link_in(
        &self,
        caller: &Caller,
        parent: &mut Parent,
        name: &[u8],
        file: &[u8],
    ) -> Result<(), nfsstat3> {
        operations::check_addition(caller, &parent.attributes)?;
        check_name(name)?;
        let link = self.view(file, |own, node| match node.file_type {
            ftype3::NF3DIR => Err(nfsstat3::NFS3ERR_INVAL),
            _ if node.nlink >= LINKS_MAX => Err(nfsstat3::NFS3ERR_MLINK),
            _ => Ok(own),
        })?;
        if is_dots(name) || parent.found.is_some() {
            return Err(nfsstat3::NFS3ERR_EXIST);
        }
        self.data.budget.take(NAME_BYTES)?;
        self.node_mut(link, |node| {
            node.nlink += 1;
            node.touch_ctime();
            Ok(())
        })?;
        self.change_names(parent, |names, _| names.insert(name, link))
    }

    /// The level of what is in a directory.
    fn level_below(&self, directory: Link) -> Result<u32, nfsstat3> {
        self.node(directory, |node| Ok(node.directory()?.level + 1))
    }

    /// Checks that a directory does not go into itself, nor too deep.
    fn check_not_within(&self, moved: Link, into: Link) -> Result<(), nfsstat3> {
        let mut at = into;
        for _ in 1..DEPTH_MAX {
            match at {
                _ if at == moved => return Err(nfsstat3::NFS3ERR_INVAL),
                Link { index: ROOT, .. } => return Ok(()),
                _ => at = self.node(at, |node| Ok(node.directory()?.parent))?,
            }
        }
        Err(nfsstat3::NFS3ERR_NAMETOOLONG)
    }

    /// Takes a name out of a directory.
    fn take_name(&self, parent: &mut Parent, name: &[u8], is_directory: bool) -> Result<(), nfsstat3> {
        self.change_names(parent, |names, nlink| {
            names.remove(name);
            *nlink -= u32::from(is_directory);
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

/// Checks that a name of a node may be taken by one of this kind, or removed as one, and returns whether it is a directory.
fn check_replaced(node: &Node, by_directory: bool) -> Result<bool, nfsstat3> {
    match (&node.body, by_directory) {
        (Body::Directory(_), false) => Err(nfsstat3::NFS3ERR_ISDIR),
        (Body::Directory(old), true) if !old.is_empty() => Err(nfsstat3::NFS3ERR_NOTEMPTY),
        (Body::Directory(_), true) => Ok(true),
        (_, true) => Err(nfsstat3::NFS3ERR_NOTDIR),
        (_, false) => Ok(false),
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
