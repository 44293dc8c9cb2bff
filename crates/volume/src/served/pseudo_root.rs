//! The directories above the exports, which clients of version 4 walk from the root (RFC 8881 §7.3).
//!
//! They follow from the paths of the exports, have nothing else in them, and never change while the volume is served. Where an export
//! lies below another one, the name of the export hides a file of the same name.

use iocurve_wire::nfs3::nfs_fh3;

/// Begins the handles of these directories.
const PREFIX: [u8; 8] = *b"\0pseudo4";

/// Number of a directory; 0 is the root.
pub(crate) type PseudoDirectory = u32;

#[derive(Debug)]
pub(crate) struct PseudoRoot(Vec<Node>);

#[derive(Debug)]
struct Node {
    parent: PseudoDirectory,
    name: Vec<u8>,
    /// The export whose root is here.
    export: Option<usize>,
}

impl PseudoRoot {
    /// The directories that lead to exports with these paths.
    pub(crate) fn new<'p>(paths: impl Iterator<Item = &'p str>) -> Self {
        let mut root = Self(vec![Node { parent: 0, name: Vec::new(), export: None }]);
        for (export, path) in paths.enumerate() {
            let names = path.split('/').filter(|name| !name.is_empty());
            let at = names.fold(0, |at, name| root.child_or_new(at, name.as_bytes()));
            root.0[at as usize].export = Some(export);
        }
        root
    }

    fn child_or_new(&mut self, parent: PseudoDirectory, name: &[u8]) -> PseudoDirectory {
        self.child(parent, name).unwrap_or_else(|| {
            self.0.push(Node { parent, name: name.to_vec(), export: None });
            self.0.len() as PseudoDirectory - 1
        })
    }

    /// The directory under a name.
    pub(crate) fn child(&self, parent: PseudoDirectory, name: &[u8]) -> Option<PseudoDirectory> {
        self.children(parent).find(|(_, own)| *own == name).map(|(child, _)| child)
    }

    /// All names in a directory.
    pub(crate) fn children(&self, parent: PseudoDirectory) -> impl Iterator<Item = (PseudoDirectory, &[u8])> {
        let numbered = self.0.iter().enumerate().skip(1);
        let own = numbered.filter(move |(_, node)| node.parent == parent);
        own.map(|(number, node)| (number as PseudoDirectory, node.name.as_slice()))
    }

    /// The directory that a directory is in; `None` for the root.
    pub(crate) fn parent(&self, directory: PseudoDirectory) -> Option<PseudoDirectory> {
        (directory != 0).then(|| self.0[directory as usize].parent)
    }

    /// The export whose root is in the place of a directory.
    pub(crate) fn export(&self, directory: PseudoDirectory) -> Option<usize> {
        self.0[directory as usize].export
    }

    /// The directory in whose place the root of an export is.
    pub(crate) fn of_export(&self, export: usize) -> PseudoDirectory {
        self.0.iter().position(|node| node.export == Some(export)).unwrap_or(0) as PseudoDirectory
    }

    /// The directory of a handle; `None` if the handle is that of a file in an export.
    pub(crate) fn of_handle(&self, handle: &[u8]) -> Option<PseudoDirectory> {
        let number = handle.strip_prefix(&PREFIX)?.try_into().ok().map(u32::from_be_bytes)?;
        ((number as usize) < self.0.len()).then_some(number)
    }

    pub(crate) fn handle(directory: PseudoDirectory) -> nfs_fh3 {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&PREFIX);
        bytes[8..].copy_from_slice(&directory.to_be_bytes());
        nfs_fh3::new(&bytes).expect("short enough")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_directories() {
        let root = PseudoRoot::new(["/vol", "/a/b", "/a/b/c"].into_iter());
        let names = |at| root.children(at).map(|(_, name)| name.to_vec()).collect::<Vec<_>>();
        assert_eq!(names(0), [b"vol".to_vec(), b"a".to_vec()]);
        let a = root.child(0, b"a").unwrap();
        let b = root.child(a, b"b").unwrap();
        assert_eq!((root.export(a), root.export(b), root.of_export(1)), (None, Some(1), b));
        assert_eq!(root.child(b, b"c").and_then(|c| root.export(c)), Some(2));
        assert_eq!((root.parent(b), root.parent(0)), (Some(a), None));
        assert_eq!(root.of_handle(PseudoRoot::handle(b).as_bytes()), Some(b));
        assert_eq!(root.of_handle(PseudoRoot::handle(99).as_bytes()), None);
        assert_eq!(root.of_handle(b"export-a00000000"), None);
    }

    #[test]
    fn the_root_itself_may_be_an_export() {
        let root = PseudoRoot::new(["/"].into_iter());
        assert_eq!((root.export(0), root.children(0).count()), (Some(0), 0));
    }
}
