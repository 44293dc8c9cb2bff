//! Names of directories and files, as vdbench gives them.

/// Meaning of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory { level: u32, number: u32 },
    File { number: u32 },
}

pub(super) fn directory(level: u32, number: u32) -> String {
    format!("vdb.{level}_{number}.dir")
}

pub(super) fn file(number: u32) -> String {
    format!("vdb_f{number:04}.file")
}

/// Directory or file of a tree; `None` for any other name.
pub(crate) fn kind_of(name: &str) -> Option<Kind> {
    let number = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    if let Some(file) = name.strip_prefix("vdb_f").and_then(|name| name.strip_suffix(".file")) {
        return Some(Kind::File { number: number(file)? });
    }
    let (level, within) = name.strip_prefix("vdb.")?.strip_suffix(".dir")?.split_once('_')?;
    Some(Kind::Directory { level: number(level)?, number: number(within)? })
}

/// vdbench's record of which directories and files exist, at the root of a tree. It is wrong once another program has changed the tree;
/// without it vdbench looks what exists.
pub(crate) const CONTROL_FILE: &str = "vdb_control.file";
