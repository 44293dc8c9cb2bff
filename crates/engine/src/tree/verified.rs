//! Verification of a tree: where the bytes of its files are in one map, and which names and sizes are not as they should be.

use std::collections::HashMap;
use std::ops::Range;

use super::{Found, Name, Shape, TreeState};
use crate::error::EngineError;
use crate::outcome::{DifferenceKind, DifferenceOutcome};

/// Most differences that are described one by one; all are counted.
const DIFFERENCES_MAX: usize = 1000;

/// The bytes of all files of a tree in one row, each file from the start of an interval: so a place in the row says which
/// file a block belongs to, and where in the file.
#[derive(Debug)]
pub(crate) struct Row {
    /// By file: its first interval; then the end.
    starts: Vec<u64>,
    interval_bytes: u64,
    directories: u32,
}

impl Row {
    pub(super) fn new(shape: &Shape, interval_bytes: u32) -> Self {
        let interval_bytes = u64::from(interval_bytes.max(1));
        let mut starts = Vec::with_capacity(shape.files() as usize + 1);
        starts.push(0);
        let mut end = 0;
        for file in 0..shape.files() {
            end += shape.size(shape.directories() + file).div_ceil(interval_bytes);
            starts.push(end);
        }
        Self { starts, interval_bytes, directories: shape.directories() }
    }

    /// Bytes of the row.
    pub(crate) fn bytes(&self) -> u64 {
        self.starts.last().map_or(0, |end| end * self.interval_bytes)
    }

    /// Place of a part of a file by the file's number; `None` if the file is longer than planned there.
    pub(crate) fn place(&self, number: u32, offset: u64, length: u32) -> Option<u64> {
        let (entry, _) = Name::split(number)?;
        let file = entry.checked_sub(self.directories)? as usize;
        let place = self.starts.get(file)? * self.interval_bytes + offset;
        let end = self.starts.get(file + 1)? * self.interval_bytes;
        (place + u64::from(length) <= end).then_some(place)
    }

    /// The places of a file.
    pub(crate) fn range(&self, entry: u32) -> Option<Range<u64>> {
        let file = entry.checked_sub(self.directories)? as usize;
        Some(self.starts[file] * self.interval_bytes..self.starts.get(file + 1)? * self.interval_bytes)
    }

    /// The file of a place, and the offset in it; `None` beyond the end.
    pub(crate) fn at(&self, place: u64) -> Option<(u32, u64)> {
        let after = self.starts.partition_point(|&start| start * self.interval_bytes <= place);
        let file = after.checked_sub(1).filter(|_| place < self.bytes())?;
        Some((self.directories + file as u32, place - self.starts[file] * self.interval_bytes))
    }
}

impl TreeState {
    /// Names and sizes that are not as the operations on the tree have left them. `found` is everything below the root, then
    /// everything below that of the second tree. Files and directories that an operation was creating, renaming or removing are left out.
    pub(crate) fn differences(&self, found: &[Found], in_target: &[Found]) -> Differences {
        let mut seen: HashMap<u32, u64> = HashMap::with_capacity(found.len());
        let mut add = |entry: &Found, is_target: bool| {
            let parts: Vec<&str> = entry.path.split('/').collect();
            if let Some((number, name)) = self.shape().entry(&parts)
                && self.is_directory(number) == entry.is_directory
                && !(is_target && entry.is_directory)
            {
                seen.insert(if is_target { Name::Target.of(number) } else { name.of(number) }, entry.bytes);
            }
        };
        for entry in found {
            add(entry, false);
        }
        for entry in in_target {
            add(entry, true);
        }
        let mut differences = Differences::default();
        // Other clients make and remove directories, too.
        let directories = if self.shape().is_shared() { 0 } else { self.shape().directories() };
        for entry in 0..directories {
            match (self.settled_directory(entry), seen.remove(&entry)) {
                (Some(true), None) => differences.add(self.path(entry), MISSING, "the directory is not there"),
                (Some(false), Some(_)) => {
                    differences.add(self.path(entry), UNEXPECTED, "the directory is there, and was removed");
                }
                _ => {}
            }
        }
        let files = self.shape().directories()..self.shape().directories() + self.shape().files();
        for entry in files.filter(|&entry| self.shape().is_in_part(entry)) {
            self.compare_file(entry, &mut seen, &mut differences);
        }
        differences
    }

    fn compare_file(&self, entry: u32, seen: &mut HashMap<u32, u64>, differences: &mut Differences) {
        let names = [Name::File, Name::Link, Name::Symlink, Name::Renamed, Name::Copy, Name::Target];
        let there = names.map(|name| (name.of(entry), seen.remove(&name.of(entry))));
        let Some(known) = self.settled(entry) else { return };
        for (number, bytes) in there {
            let is_current = known.length.is_some() && number == known.current;
            let is_wanted = is_current || known.others.contains(&number);
            match (is_wanted, bytes) {
                (true, None) => differences.add(self.path(number), MISSING, "it was created, and is not there"),
                (false, Some(_)) => differences.add(self.path(number), UNEXPECTED, "it is there, and should not be"),
                (_, Some(bytes)) if is_current => {
                    let (least, most) = known.length.unwrap_or_default();
                    if !(least..=most).contains(&bytes) {
                        differences.add(self.path(number), SIZE, &wrong_size(bytes, least));
                    }
                }
                _ => {}
            }
        }
    }
}

const MISSING: DifferenceKind = DifferenceKind::Missing;
const UNEXPECTED: DifferenceKind = DifferenceKind::Unexpected;
const SIZE: DifferenceKind = DifferenceKind::WrongSize;

fn wrong_size(found: u64, wanted: u64) -> String {
    format!("its size is {found} bytes instead of {wanted}")
}

/// Differences of names and sizes, in the order in which they were found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Differences {
    pub(crate) list: Vec<DifferenceOutcome>,
    count: u64,
}

impl Differences {
    fn add(&mut self, path: String, kind: DifferenceKind, text: &str) {
        self.count += 1;
        if self.list.len() < DIFFERENCES_MAX {
            let (found_write, expected_write, text) = (None, None, text.to_owned());
            let (offset, length, first_offset, persists) = (0, 0, 0, None);
            let found = DifferenceOutcome {
                path,
                offset,
                length,
                first_offset,
                kind,
                found_write,
                expected_write,
                persists,
                text,
            };
            self.list.push(found);
        }
    }

    /// The attributes of a file have another size than the file.
    pub(crate) fn size(&mut self, path: String, found: u64, wanted: u64) {
        self.add(path, SIZE, &wrong_size(found, wanted));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// These differences, then others.
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.count += others.count;
        self.list.extend(others.list);
        self.list.truncate(DIFFERENCES_MAX);
        self
    }

    /// The first difference, with the number of all of them.
    pub(crate) fn failure(&self) -> Option<EngineError> {
        let first = self.list.first()?;
        let more =
            if self.count > 1 { format!("; {} names differ, this is the first", self.count) } else { String::new() };
        Some(EngineError::Name { path: first.path.clone(), text: format!("{}{more}", first.text) })
    }
}
