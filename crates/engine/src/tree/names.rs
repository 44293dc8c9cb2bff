//! Names of directories and files: those that vdbench gives them, or those of the plan.

use crate::plan::{Tree, TreeNames};

/// Meaning of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `level` and `number` are from 1.
    Directory { level: Option<u32>, number: u32 },
    /// The number is from 0: over the whole tree in vdbench's names, in the directory in others.
    File { number: u32 },
}

impl Tree {
    /// Name of a directory by its number in the directory above, from 1.
    pub(super) fn directory_name(&self, level: u32, number: u32) -> String {
        match &self.names {
            None => format!("vdb.{level}_{number}.dir"),
            Some(names) => names.directory.replace("{}", &(number - 1).to_string()),
        }
    }

    /// Name of a file by its number in the whole tree, from 0.
    pub(super) fn file_name(&self, number: u32) -> String {
        match &self.names {
            None => format!("vdb_f{number:04}.file"),
            Some(names) => names.file.replace("{}", &(number % self.files).to_string()),
        }
    }
}

/// Directory or file of a tree; `None` for any other name.
pub(crate) fn kind_of(names: Option<&TreeNames>, name: &str) -> Option<Kind> {
    if let Some(names) = names {
        let directory = |number: u32| Kind::Directory { level: None, number: number.saturating_add(1) };
        let file = |number| Kind::File { number };
        return numbered(&names.directory, name).map(directory).or_else(|| numbered(&names.file, name).map(file));
    }
    if let Some(file) = name.strip_prefix("vdb_f").and_then(|name| name.strip_suffix(".file")) {
        return Some(Kind::File { number: digits(file)? });
    }
    let (level, within) = name.strip_prefix("vdb.")?.strip_suffix(".dir")?.split_once('_')?;
    Some(Kind::Directory { level: Some(digits(level)?), number: digits(within)? })
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
