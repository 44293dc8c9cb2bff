//! Names of directories and files: those that vdbench gives them, or those of the plan.

use crate::plan::{Tree, TreeNames};

/// Meaning of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `level` and `number` are from 1.
    Directory { level: Option<u32>, number: u32 },
    /// The number is from 0: over the whole tree in vdbench's names, in the directory in others.
    File { number: u32, name: Name },
}

/// The names of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    /// Its own.
    File,
    /// A hard link.
    Link,
    /// A symbolic link.
    Symlink,
    /// The one that it is renamed to.
    Renamed,
    /// A copy.
    Copy,
    /// Its own, in the second tree.
    Target,
}

/// A file's number takes the bits below.
const NAME_SHIFT: u32 = 29;
/// Numbers of entries are below.
pub(super) const ENTRIES_MAX: u64 = 1 << NAME_SHIFT;

impl Name {
    /// The names in one directory, with their ends.
    const ENDS: [(Self, &'static str); 5] = [
        (Self::File, "file"),
        (Self::Link, "link"),
        (Self::Symlink, "symlink"),
        (Self::Renamed, "renamed"),
        (Self::Copy, "copy"),
    ];
    const ALL: [Self; 6] = [Self::File, Self::Link, Self::Symlink, Self::Renamed, Self::Copy, Self::Target];

    /// The number that a file has by this name.
    pub(crate) fn of(self, entry: u32) -> u32 {
        entry | (self as u32) << NAME_SHIFT
    }

    /// The entry that a number means, and its name.
    pub(crate) fn split(number: u32) -> Option<(u32, Self)> {
        let name = Self::ALL.get((number >> NAME_SHIFT) as usize)?;
        Some((number & ((1 << NAME_SHIFT) - 1), *name))
    }

    /// End of the name.
    fn end(self) -> &'static str {
        Self::ENDS.iter().find(|(name, _)| *name == self).map_or("file", |(_, end)| end)
    }
}

impl Tree {
    /// Number of the root that the directories of the first level with this number, from 1, are in.
    pub(super) fn root_of(&self, number: u32) -> usize {
        (number as usize - 1) % (self.further_roots.len() + 1)
    }

    /// Returns `true` if a path below a root, by the root's number, is in the directory that the tree has there.
    pub(crate) fn has_below(&self, root: usize, path: &str) -> bool {
        let first = path.split('/').next().unwrap_or(path);
        match kind_of(self.names.as_ref(), first) {
            Some(Kind::Directory { number, .. }) => number == 0 || self.root_of(number) == root,
            _ => root == 0,
        }
    }

    /// Appends the name of a directory by its number in the directory above, from 1.
    pub(super) fn push_directory_name(&self, path: &mut String, level: u32, number: u32) {
        match &self.names {
            None => {
                path.push_str("vdb.");
                push_number(path, level, 1);
                path.push('_');
                push_number(path, number, 1);
                path.push_str(".dir");
            }
            Some(names) => push_numbered(path, &names.directory, number - 1),
        }
    }

    /// Appends a name of a file by its number in the whole tree, from 0.
    pub(super) fn push_file_name(&self, path: &mut String, number: u32, name: Name) {
        match &self.names {
            None => {
                path.push_str("vdb_f");
                push_number(path, number, 4);
            }
            Some(names) => {
                push_numbered(path, &names.file, number % self.files);
                if matches!(name, Name::File | Name::Target) {
                    return;
                }
            }
        }
        path.push('.');
        path.push_str(name.end());
    }
}

/// Appends a name of this pattern.
fn push_numbered(path: &mut String, pattern: &str, number: u32) {
    let (before, after) = pattern.split_once("{}").map_or((pattern, None), |(before, after)| (before, Some(after)));
    path.push_str(before);
    if let Some(after) = after {
        push_number(path, number, 1);
        path.push_str(after);
    }
}

/// Appends a number, with zeros before it up to `digits_min` digits. A load makes a path for each operation; `write!` would take several
/// times as long.
fn push_number(text: &mut String, mut number: u32, digits_min: usize) {
    let mut digits = [b'0'; 10];
    let mut first = digits.len();
    while number > 0 || digits.len() - first < digits_min {
        first -= 1;
        digits[first] += (number % 10) as u8;
        number /= 10;
    }
    text.extend(digits[first..].iter().map(|&digit| char::from(digit)));
}

/// Directory or file of a tree; `None` for any other name.
pub(crate) fn kind_of(names: Option<&TreeNames>, name: &str) -> Option<Kind> {
    if let Some(names) = names {
        let directory = |number: u32| Kind::Directory { level: None, number: number.saturating_add(1) };
        return numbered(&names.directory, name).map(directory).or_else(|| file_of(names, name));
    }
    if let Some((file, end)) = name.strip_prefix("vdb_f").and_then(|name| name.split_once('.')) {
        let (name, _) = Name::ENDS.into_iter().find(|(_, known)| *known == end)?;
        return Some(Kind::File { number: digits(file)?, name });
    }
    let (level, within) = name.strip_prefix("vdb.")?.strip_suffix(".dir")?.split_once('_')?;
    Some(Kind::Directory { level: Some(digits(level)?), number: digits(within)? })
}

/// A file of a plan's names: its own name, or one with an end.
fn file_of(names: &TreeNames, text: &str) -> Option<Kind> {
    let ended = |(name, end)| Some((name, text.strip_suffix(end)?.strip_suffix('.')?));
    let further = Name::ENDS.into_iter().skip(1).find_map(ended);
    let (name, own) = further.unwrap_or((Name::File, text));
    Some(Kind::File { number: numbered(&names.file, own)?, name })
}

/// The number in a name of this pattern.
fn numbered(pattern: &str, name: &str) -> Option<u32> {
    match pattern.split_once("{}") {
        Some((before, after)) => digits(name.strip_prefix(before)?.strip_suffix(after)?),
        None => (name == pattern).then_some(0),
    }
}

fn digits(text: &str) -> Option<u32> {
    text.bytes().all(|digit| digit.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// vdbench's record of which directories and files exist, at the root of a tree. It is wrong once another program has changed the tree;
/// without it vdbench looks what exists.
pub(crate) const CONTROL_FILE: &str = "vdb_control.file";
