//! Directory trees: names and sizes by number, and what exists of them while workers use them.
//!
//! Directories and files have one row of numbers: first the directories, level after level, then the files, then
//! whatever else with a name of a tree was found below the root (leftovers of another tree).
//!
//! Names (unless the plan has others), sizes and the files that are used are those of vdbench 5.04.07, so that each tool can use the trees of the
//! other. Files are numbered over the whole tree, level after level: first those of the first directory of each
//! directory above, then those of the second.
//!
//! From a dialect to the calls: `dialects/vdbench/file_plan.py` makes sections of them,
//! with `Load.tasks`, and `job/resolve/tree.py` the workers; from `planned.Planned` on, SDs and FSDs take one path.
//! elbencho's phases are trees of other names (`TreeNames`), in several roots; where a tool computes files and
//! offsets itself (mdtest's names, elbencho's shares), sections have them as `Files.regions`. The plan describes the
//! tree and the tasks (`plan/tree.rs`); `crates/engine/src/tree` has names, sizes and what exists, shared by the
//! workers of a group; `worker/walk.rs` decides one step after another and hands addresses to the loop, which knows
//! nothing of trees. `tree/list.rs` says which entries belong to a tree, `run/trees.rs` reads them from a file
//! system, `engines/nfs/files/listing.rs` from an export. A walk has a lane for each operation in flight: a lane has
//! one file, and its next step is decided when the step before has completed. `worker/walk/mixed.rs` draws kinds by
//! share, `walk/failed.rs` undoes what was noted for a step that failed. A file has further names (link, symlink,
//! copy, renamed): a number has the name in its upper bits (`tree/names.rs`). `tree/verified.rs` has the files of a
//! verified tree in one row, so that one map and the headers of `verify` serve all of them, and compares a list of
//! the tree with what its workers have left; `tree/journal.rs` keeps what exists in a file that survives the process
//! (`mapped.rs`). A metadata engine carries the steps out; over NFS it is calls of a load
//! (`engines/nfs/metadata.rs`), in one `Flight` with READ and WRITE, on local file systems threads
//! (`engines/metadata/pool.rs`).

mod java_random;
mod journal;
mod list;
mod names;
mod sizes;
mod state;
mod verified;

use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::sync::Arc;

use crate::error::EngineError;
use crate::plan::Tree;

pub(crate) use self::list::{DirectoryEntry, EntryKind, Lister, list};
pub(crate) use self::state::{Found, Reservation, TreeState};
pub(crate) use self::verified::{Differences, Row};

pub(crate) use self::names::{CONTROL_FILE, Name};
use self::names::{ENTRIES_MAX, Kind, kind_of};
use self::sizes::Sizes;

/// The directories and files of a tree, computed from their numbers.
#[derive(Debug)]
pub(crate) struct Shape {
    root: String,
    tree: Tree,
    /// By level: number of its first directory; then the number of all directories.
    starts: Vec<u32>,
    files: u32,
    sizes: Sizes,
}

impl Shape {
    pub(crate) fn new(root: &str, tree: &Tree) -> Result<Self, EngineError> {
        let refuse = |what: &str| Err(EngineError::Plan(format!("the tree in {root} {what}")));
        let no_average = tree.sizes_spread && tree.sizes.iter().any(|size| size.bytes == 0);
        if tree.depth == 0 || tree.width == 0 || tree.files == 0 || tree.sizes.is_empty() || no_average {
            return refuse("needs at least one level, directory, file and size");
        }
        if tree.sizes.iter().all(|size| size.weight == 0) {
            return refuse("has no file size with a weight above 0");
        }
        let (mut starts, mut of_level, mut all) = (vec![0_u32], 1_u64, 0_u64);
        for _ in 0..tree.depth {
            of_level *= u64::from(tree.width);
            all += of_level;
            if all > ENTRIES_MAX {
                return refuse("has more than 2^29 directories");
            }
            starts.push(all as u32);
        }
        let files = if tree.files_on_all_levels { all } else { of_level } * u64::from(tree.files);
        if all + files > ENTRIES_MAX {
            return refuse("has more than 2^29 directories and files");
        }
        if tree.part.is_some_and(|part| part.number >= part.of || u64::from(part.number) >= files) {
            return refuse("has no file in a part that is used: it needs at least one file for each part");
        }
        let root = if root == "/" { root } else { root.trim_end_matches('/') }.to_owned();
        let sizes = Sizes::new(tree, files as u32);
        Ok(Self { root, tree: tree.clone(), starts, files: files as u32, sizes })
    }

    pub(crate) fn directories(&self) -> u32 {
        self.starts[self.starts.len() - 1]
    }

    pub(crate) fn files(&self) -> u32 {
        self.files
    }

    /// Checksum of everything that names and sizes follow from.
    fn checksum(&self) -> u32 {
        let Tree { depth, width, files, files_on_all_levels, sizes, sizes_spread, names, .. } = &self.tree;
        crc32c::crc32c(
            format!("{:?}", (depth, width, files, files_on_all_levels, sizes, sizes_spread, names)).as_bytes(),
        )
    }

    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    /// Directory that an entry is in; `None` is the root.
    pub(crate) fn parent(&self, entry: u32) -> Option<u32> {
        if let Some(file) = entry.checked_sub(self.directories()) {
            return Some(self.directory_of(file));
        }
        let level = self.level(entry);
        let number = (entry - self.starts[level]) / self.tree.width;
        level.checked_sub(1).map(|above| self.starts[above] + number)
    }

    /// Directory that a file is in, by the file's number.
    fn directory_of(&self, file: u32) -> u32 {
        let place = self.first_with_files() + file / self.tree.files;
        let level = self.level(place);
        let (within, above) = (place - self.starts[level], self.directories_above(level));
        self.starts[level] + within % above * self.tree.width + within / above
    }

    /// Place of a directory in the order in which its files are numbered.
    fn place_of(&self, directory: u32) -> u32 {
        let level = self.level(directory);
        let within = directory - self.starts[level];
        self.starts[level] + within % self.tree.width * self.directories_above(level) + within / self.tree.width
    }

    /// Number of directories on the level above; the root is one.
    fn directories_above(&self, level: usize) -> u32 {
        level.checked_sub(1).map_or(1, |above| self.starts[level] - self.starts[above])
    }

    /// Path of a directory or file.
    #[cfg(test)]
    fn path(&self, entry: u32) -> String {
        self.path_as(entry, None, Name::File)
    }

    /// Path of a directory, or of a file by one of its names, below the root of a second tree if there is one.
    fn path_as(&self, entry: u32, root: Option<&str>, name: Name) -> String {
        let file = entry.checked_sub(self.directories());
        let directory = file.map_or(entry, |file| self.directory_of(file));
        let root = root.unwrap_or_else(|| self.root_of(directory));
        let mut path = String::with_capacity(root.len() + 16 * self.starts.len() + 16);
        path.push_str(root);
        self.push_directory(&mut path, directory);
        if let Some(file) = file {
            path.push('/');
            self.tree.push_file_name(&mut path, file, name);
        }
        path
    }

    /// Bytes of a file.
    pub(crate) fn size(&self, entry: u32) -> u64 {
        self.sizes.of(entry - self.directories())
    }

    /// Number of files in the part of the tree that is used.
    pub(crate) fn files_of_part(&self) -> u32 {
        self.tree.part.map_or(self.files, |part| (self.files - part.number).div_ceil(part.of))
    }

    /// The file at a position in the part of the tree that is used.
    pub(crate) fn file_of_part(&self, position: u32) -> u32 {
        self.tree.part.map_or(position, |part| part.number + position * part.of)
    }

    /// Returns `true` if a file is in the part of the tree that is used.
    pub(crate) fn is_in_part(&self, entry: u32) -> bool {
        self.tree.part.is_none_or(|part| (entry - self.directories()) % part.of == part.number)
    }

    /// Returns `true` if other clients use other parts of the tree.
    pub(crate) fn is_shared(&self) -> bool {
        self.tree.part.is_some_and(|part| part.of > 1)
    }

    /// Positions in the part of the files that have `bytes` together.
    pub(crate) fn used(&self, bytes: u64) -> Vec<u32> {
        sizes::used(self.files_of_part(), bytes, |position| self.sizes.of(self.file_of_part(position)))
    }

    /// The entry with this path below the root, if it is one of this tree, and its name.
    pub(crate) fn entry(&self, parts: &[&str]) -> Option<(u32, Name)> {
        let (mut number, mut level) = (0_u32, 0);
        for part in parts {
            match kind_of(self.tree.names.as_ref(), part)? {
                Kind::Directory { level: named, number: within } => {
                    let fits =
                        named.is_none_or(|named| named as usize == level + 1) && level < self.tree.depth as usize;
                    if !fits || !(1..=self.tree.width).contains(&within) {
                        return None;
                    }
                    (number, level) = (number * self.tree.width + within - 1, level + 1);
                }
                Kind::File { number: named, name } => {
                    let directory = self.starts[level.checked_sub(1)?] + number;
                    let place = self.place_of(directory).checked_sub(self.first_with_files())?;
                    let before = if self.tree.names.is_some() { place * self.tree.files } else { 0 };
                    let file = named.checked_add(before)?;
                    let mut own = String::new();
                    self.tree.push_file_name(&mut own, file, name);
                    let fits = file / self.tree.files == place && own == *part;
                    return fits.then(|| (self.directories() + file, name));
                }
            }
        }
        level.checked_sub(1).map(|level| (self.starts[level] + number, Name::File))
    }

    fn first_with_files(&self) -> u32 {
        if self.tree.files_on_all_levels { 0 } else { self.starts[self.tree.depth as usize - 1] }
    }

    /// Level of a directory, from 0.
    fn level(&self, directory: u32) -> usize {
        self.starts.partition_point(|&start| start <= directory) - 1
    }

    /// The root that a directory is below.
    fn root_of(&self, directory: u32) -> &str {
        if self.tree.further_roots.is_empty() {
            return &self.root;
        }
        let level = self.level(directory);
        let first = (directory - self.starts[level]) / self.directories_above(level) % self.tree.width + 1;
        match self.tree.root_of(first).checked_sub(1) {
            Some(further) => &self.tree.further_roots[further],
            None => &self.root,
        }
    }

    /// Appends the path of a directory to that of the root.
    fn push_directory(&self, path: &mut String, directory: u32) {
        let level = self.level(directory);
        let within = directory - self.starts[level];
        // Directories of the level that each directory above contains.
        let mut below = self.directories_above(level);
        for level in 1..=level as u32 + 1 {
            if !path.is_empty() {
                path.push('/');
            }
            self.tree.push_directory_name(path, level, within / below % self.tree.width + 1);
            below /= self.tree.width;
        }
    }
}

/// Paths by number: those of a plan, or those of a tree.
#[derive(Debug, Clone)]
pub(crate) enum Paths {
    Listed(Vec<CString>),
    Tree(Arc<TreeState>),
}

impl Paths {
    pub(crate) fn listed<'a>(paths: impl Iterator<Item = &'a str>) -> Result<Self, EngineError> {
        let terminated = |path: &str| {
            let refused = |_| EngineError::Plan(format!("{path:?} has a zero byte and cannot be a path"));
            CString::new(path.as_bytes()).map_err(refused)
        };
        paths.map(terminated).collect::<Result<_, _>>().map(Self::Listed)
    }

    /// Returns `true` if there is a path of this number.
    pub(crate) fn has(&self, number: u32) -> bool {
        match self {
            Self::Listed(paths) => (number as usize) < paths.len(),
            Self::Tree(tree) => tree.has(number),
        }
    }

    /// Returns `true` if attributes are compared: an operation that gets them results in the size of the file.
    pub(crate) fn is_verified(&self) -> bool {
        matches!(self, Self::Tree(tree) if tree.is_verified())
    }

    pub(crate) fn text(&self, number: u32) -> Cow<'_, str> {
        match self {
            Self::Listed(paths) => paths[number as usize].to_string_lossy(),
            Self::Tree(tree) => Cow::Owned(tree.path(number)),
        }
    }

    /// A path, ended by a zero byte.
    pub(crate) fn terminated(&self, number: u32) -> Cow<'_, CStr> {
        match self {
            Self::Listed(paths) => Cow::Borrowed(&paths[number as usize]),
            // The root was opened: it has no zero byte.
            Self::Tree(tree) => Cow::Owned(CString::new(tree.path(number)).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests;
