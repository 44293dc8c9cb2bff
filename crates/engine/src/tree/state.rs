//! The existing directories and files of a tree. All workers of a group on one tree share it; every change is one atomic operation.

use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::journal::{Entries, Journal};
use super::{Differences, Name, Row, Shape};
use crate::error::EngineError;
use crate::plan::{Tree, TreeTask};

/// A file: it exists; then 7 bits with the number of its users; then a bit for each further name; then its length.
const EXISTS: u64 = 1 << 63;
const USER: u64 = 1 << 56;
const USERS: u64 = 0x7f << 56;
const LENGTH: u64 = (1 << 48) - 1;
/// A directory: it exists, or is being created or removed, or failed; then the number of entries in it.
const DIRECTORY_EXISTS: u32 = 1 << 31;
const DIRECTORY_BUSY: u32 = 1 << 30;
/// It could not be created, or cannot be used.
const DIRECTORY_FAILED: u32 = 1 << 29;
const DIRECTORY_ENTRIES: u32 = DIRECTORY_FAILED - 1;

/// An operation on the file failed, and the server may have executed it.
const UNCERTAIN: u64 = 1 << 55;
/// An operation that changes its names is in flight.
const CHANGING: u64 = 1 << 54;

/// The bit of a file that says that it has a name. The renamed file has no other.
const fn bit(name: Name) -> u64 {
    1 << (48 + name as u64)
}
/// Names that a file has in addition to the one that it is used by.
const FURTHER: [Name; 3] = [Name::Link, Name::Symlink, Name::Copy];

/// An entry found below the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Path below the root.
    pub(crate) path: String,
    pub(crate) is_directory: bool,
    pub(crate) bytes: u64,
    /// The directory has entries that are not of a tree, or is above one that has.
    pub(crate) has_others: bool,
}

/// A file with certain names, by the numbers of its names.
#[derive(Debug)]
pub(super) struct Settled {
    /// Smallest and largest length; they differ while the file is in use. `None` if the file does not exist.
    pub(super) length: Option<(u64, u64)>,
    /// The name that it is used by.
    pub(super) current: u32,
    pub(super) others: Vec<u32>,
}

/// Result of reserving a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reservation {
    /// Others use the file.
    Busy,
    Made {
        /// Length of the file; `None` if it does not exist.
        length: Option<u64>,
    },
}

/// A tree in use.
#[derive(Debug)]
pub(crate) struct TreeState {
    shape: Shape,
    /// Root of the second tree, if there is one.
    target: Option<String>,
    entries: Entries,
    /// Positions of the files that are used in the part of the tree; `None` is all.
    used: Option<Vec<u32>>,
    /// Paths of leftovers of other trees.
    leftovers: Vec<String>,
    /// Entries to remove: files, then directories from the lowest level up.
    removals: Vec<(u32, bool)>,
    /// Next file and next directory in turn.
    file_turn: AtomicU64,
    directory_turn: AtomicU64,
    /// By task: entries taken, and entries done.
    stages: Vec<(AtomicU64, AtomicU64)>,
    /// Number of the first entry to remove of each level of directories.
    removal_levels: Vec<u64>,
    /// Tasks of all workers.
    tasks: Vec<TreeTask>,
    /// Offsets at which sequential transfers continue, for files that were not transferred to their end.
    positions: Mutex<HashMap<u32, u64>>,
    /// The place of each file among all files; absent without verification.
    row: Option<Row>,
    /// Names and sizes that were not as the journal has them.
    journal_differences: Differences,
}

impl TreeState {
    /// The state of a tree below `root`, where `found` exists. `tasks` are those of all workers on it.
    pub(crate) fn new(
        root: &str,
        tree: &Tree,
        target: Option<&str>,
        tasks: Vec<TreeTask>,
        stages: usize,
        found: &[Found],
    ) -> Result<Self, EngineError> {
        let shape = Shape::new(root, tree)?;
        let mut state = Self {
            entries: Entries::new(&shape),
            used: tree.used_bytes.map(|bytes| shape.used(bytes)),
            shape,
            target: target.map(|root| root.trim_end_matches('/').to_owned()),
            leftovers: Vec::new(),
            removals: Vec::new(),
            file_turn: AtomicU64::new(0),
            directory_turn: AtomicU64::new(0),
            stages: (0..stages).map(|_| (AtomicU64::new(0), AtomicU64::new(0))).collect(),
            removal_levels: Vec::new(),
            tasks,
            positions: Mutex::new(HashMap::new()),
            row: None,
            journal_differences: Differences::default(),
        };
        let depth = |path: &str| path.matches('/').count();
        let mut found: Vec<&Found> = found.iter().collect();
        found.sort_by_key(|entry| (!entry.is_directory, depth(&entry.path)));
        for entry in found {
            state.add(entry);
        }
        state.sort_removals();
        Ok(state)
    }

    /// Takes up what exists in the second tree: copies, and files that were renamed.
    pub(crate) fn add_target(&self, found: &Found) {
        let parts: Vec<&str> = found.path.split('/').collect();
        let Some((entry, Name::File)) = self.shape.entry(&parts) else { return };
        if self.is_directory(entry) {
            return;
        }
        if self.file(entry).load(Ordering::Acquire) & EXISTS != 0 {
            self.set_name(entry, Name::Copy);
        } else {
            self.set_name(entry, Name::Renamed);
            self.set_file(entry, found.bytes);
        }
    }

    /// Files come first, then the directories of one level after the other, from below.
    fn sort_removals(&mut self) {
        let mut removals = mem::take(&mut self.removals);
        removals.sort_unstable_by_key(|&(entry, is_directory)| (is_directory, entry));
        let files = removals.partition_point(|(_, is_directory)| !is_directory);
        let depth = |entry| self.path(entry).matches('/').count();
        removals[files..].sort_by_cached_key(|&(entry, _)| (usize::MAX - depth(entry), entry));
        let mut levels: Vec<u64> = removals[files..]
            .windows(2)
            .enumerate()
            .filter(|(_, pair)| depth(pair[0].0) != depth(pair[1].0))
            .map(|(at, _)| (files + at + 1) as u64)
            .collect();
        if files > 0 && files < removals.len() {
            levels.insert(0, files as u64);
        }
        (self.removals, self.removal_levels) = (removals, levels);
    }

    fn add(&mut self, found: &Found) {
        let parts: Vec<&str> = found.path.split('/').collect();
        let known = self.shape.entry(&parts).filter(|&(entry, _)| self.is_directory(entry) == found.is_directory);
        match known {
            Some((entry, _)) if found.is_directory => self.set_directory(entry),
            Some((entry, Name::File)) => self.set_file(entry, found.bytes),
            Some((entry, name)) => {
                self.set_name(entry, name);
                if name == Name::Renamed {
                    self.set_file(entry, found.bytes);
                } else {
                    self.enter(entry);
                }
            }
            None => {}
        }
        if !found.has_others {
            let entry = known.map_or_else(
                || {
                    self.leftovers.push(format!("{}/{}", self.shape.root(), found.path));
                    self.shape.directories() + self.shape.files() + self.leftovers.len() as u32 - 1
                },
                |(entry, name)| name.of(entry),
            );
            self.removals.push((entry, found.is_directory));
        }
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns `true` if a number is one of a directory, a leftover or a name of a file.
    pub(crate) fn has(&self, number: u32) -> bool {
        Name::split(number).is_some_and(|(entry, name)| match name {
            Name::File => (entry as usize) < self.entries_of_tree() + self.leftovers.len(),
            _ => !self.is_directory(entry) && (entry as usize) < self.entries_of_tree(),
        })
    }

    /// Path by a number that there is.
    pub(crate) fn path(&self, number: u32) -> String {
        let Some((entry, name)) = Name::split(number) else { return String::new() };
        let root = if name == Name::Target { self.target.as_deref() } else { None };
        match (entry as usize).checked_sub(self.entries_of_tree()) {
            None => self.shape.path_as(entry, root, name),
            Some(leftover) => self.leftovers[leftover].clone(),
        }
    }

    /// The number of a file by the name that it is renamed or copied to: its own in the second tree, if there is one.
    pub(crate) fn destination(&self, entry: u32, name: Name) -> u32 {
        if self.target.is_some() { Name::Target.of(entry) } else { name.of(entry) }
    }

    pub(crate) fn has_target(&self) -> bool {
        self.target.is_some()
    }

    pub(crate) fn is_directory(&self, entry: u32) -> bool {
        entry < self.shape.directories()
    }

    /// Number of directories and files of the tree itself.
    fn entries_of_tree(&self) -> usize {
        self.entries.directories().len() + self.entries.files().len()
    }

    /// Entries that must be gone before one of the removals: the files, and the directories of lower levels.
    pub(crate) fn removed_before(&self, number: u64) -> u64 {
        let levels = self.removal_levels.partition_point(|&first| first <= number);
        levels.checked_sub(1).map_or(0, |level| self.removal_levels[level])
    }

    /// The entry of a number and its name; `None` for a leftover.
    pub(crate) fn name_of(&self, number: u32) -> Option<(u32, Name)> {
        Name::split(number).filter(|&(entry, _)| (entry as usize) < self.entries_of_tree())
    }

    pub(crate) fn removals(&self) -> &[(u32, bool)] {
        &self.removals
    }

    /// Returns `true` if a worker has one of these tasks.
    pub(crate) fn expects(&self, tasks: &[TreeTask]) -> bool {
        tasks.iter().any(|task| self.tasks.contains(task))
    }

    // -- files ------------------------------------------------------------------------------------------------------

    /// Number of files that are used.
    pub(crate) fn used_files(&self) -> u64 {
        self.used.as_ref().map_or(u64::from(self.shape.files_of_part()), |used| used.len() as u64)
    }

    /// The used file at a position.
    pub(crate) fn used_file(&self, position: u64) -> u32 {
        let in_part = self.used.as_ref().map_or(position as u32, |used| used[position as usize]);
        self.shape.directories() + self.shape.file_of_part(in_part)
    }

    /// The position of the next file in turn, counted on without end.
    pub(crate) fn next_file(&self) -> u64 {
        self.file_turn.fetch_add(1, Ordering::Relaxed)
    }

    /// Reserves a file, for one user or for several.
    pub(crate) fn reserve(&self, entry: u32, is_shared: bool) -> Reservation {
        let reserved = |value: u64| {
            let users = (value & USERS) / USER;
            (users == 0 || (is_shared && users < 127)).then_some(value + USER)
        };
        match self.file(entry).fetch_update(Ordering::AcqRel, Ordering::Acquire, reserved) {
            Err(_) => Reservation::Busy,
            Ok(before) => Reservation::Made { length: (before & EXISTS != 0).then_some(before & LENGTH) },
        }
    }

    pub(crate) fn release(&self, entry: u32) {
        self.file(entry).fetch_sub(USER, Ordering::AcqRel);
    }

    /// Length of a file; `None` if it does not exist.
    pub(crate) fn existing_length(&self, entry: u32) -> Option<u64> {
        let value = self.file(entry).load(Ordering::Acquire);
        (value & EXISTS != 0).then_some(value & LENGTH)
    }

    /// Length of a file; 0 if it does not exist.
    pub(crate) fn length(&self, entry: u32) -> u64 {
        self.file(entry).load(Ordering::Acquire) & LENGTH
    }

    /// A write of the file has ended there.
    pub(crate) fn extend(&self, entry: u32, end: u64) {
        let longer = |value: u64| (end > value & LENGTH).then_some((value & !LENGTH) | end);
        // An error means that the file is longer.
        let _ = self.file(entry).fetch_update(Ordering::AcqRel, Ordering::Acquire, longer);
    }

    /// Counts a file as created, by its user.
    pub(crate) fn created(&self, entry: u32) {
        self.file(entry).fetch_or(EXISTS, Ordering::AcqRel);
    }

    /// Returns `true` if a file has a further name, or is used by that name.
    pub(crate) fn has_name(&self, entry: u32, name: Name) -> bool {
        self.file(entry).load(Ordering::Acquire) & bit(name) != 0
    }

    /// A further name of a file in the tree, if it has one.
    pub(crate) fn further_name(&self, entry: u32) -> Option<Name> {
        let in_tree = |name: Name| name != Name::Copy || self.target.is_none();
        FURTHER.into_iter().find(|&name| in_tree(name) && self.has_name(entry, name))
    }

    /// The number of a file by the name that it is used by.
    pub(crate) fn current(&self, entry: u32) -> u32 {
        if self.has_name(entry, Name::Renamed) { self.destination(entry, Name::Renamed) } else { entry }
    }

    /// A file has got a name, by its only user.
    pub(crate) fn set_name(&self, entry: u32, name: Name) {
        self.file(entry).fetch_or(bit(name), Ordering::AcqRel);
    }

    /// A file has lost a name, by its only user.
    pub(crate) fn clear_name(&self, entry: u32, name: Name) {
        self.file(entry).fetch_and(!bit(name), Ordering::AcqRel);
    }

    /// A file is at the other of its two places, by its only user. One that has left the tree is not in its directory.
    pub(crate) fn renamed(&self, entry: u32) {
        let before = self.file(entry).fetch_xor(bit(Name::Renamed), Ordering::AcqRel);
        if self.target.is_some() && before & bit(Name::Renamed) == 0 {
            self.left(entry);
        }
    }

    /// Its only user has written the file again.
    pub(crate) fn set_length(&self, entry: u32, bytes: u64) {
        let value = self.file(entry);
        value.fetch_and(!LENGTH, Ordering::AcqRel);
        value.fetch_or(bytes.min(LENGTH), Ordering::AcqRel);
    }

    /// Counts a file as deleted, by its only user.
    pub(crate) fn deleted(&self, entry: u32) {
        if self.file(entry).fetch_and(USERS, Ordering::AcqRel) & EXISTS != 0 {
            self.left(entry);
        }
        self.set_position(entry, 0);
    }

    /// The place where sequential transfers continue.
    pub(crate) fn position(&self, entry: u32) -> u64 {
        self.positions.lock().unwrap_or_else(PoisonError::into_inner).get(&entry).copied().unwrap_or(0)
    }

    pub(crate) fn set_position(&self, entry: u32, position: u64) {
        let mut positions = self.positions.lock().unwrap_or_else(PoisonError::into_inner);
        if position == 0 {
            positions.remove(&entry);
        } else {
            positions.insert(entry, position);
        }
    }

    /// An operation that changes names of a file failed.
    pub(crate) fn uncertain(&self, entry: u32) {
        self.file(entry).fetch_or(UNCERTAIN, Ordering::AcqRel);
    }

    /// An operation that changes names of a file is about to be submitted, by its only user.
    pub(crate) fn changes(&self, entry: u32) {
        self.file(entry).fetch_or(CHANGING, Ordering::AcqRel);
    }

    /// That operation has completed, and its effect is noted.
    pub(crate) fn changed(&self, entry: u32) {
        self.file(entry).fetch_and(!CHANGING, Ordering::AcqRel);
    }

    /// The file, if no operation that changes its names is in flight, and none that changes it has failed.
    pub(super) fn settled(&self, entry: u32) -> Option<Settled> {
        let value = self.file(entry).load(Ordering::Acquire);
        let has = |name| value & bit(name) != 0;
        let length = value & LENGTH;
        let longest = if value & USERS == 0 { length } else { length.max(self.shape.size(entry)) };
        (value & (CHANGING | UNCERTAIN) == 0).then(|| Settled {
            length: (value & EXISTS != 0).then_some((length, longest)),
            current: self.current(entry),
            others: FURTHER.into_iter().filter(|&name| has(name)).map(|name| self.further(entry, name)).collect(),
        })
    }

    /// The number of a file by a further name.
    fn further(&self, entry: u32, name: Name) -> u32 {
        if name == Name::Copy { self.destination(entry, name) } else { name.of(entry) }
    }

    /// Returns `true` if a directory exists, `None` while an operation is on it and after one that failed.
    pub(super) fn settled_directory(&self, entry: u32) -> Option<bool> {
        let value = self.directory(entry).load(Ordering::Acquire);
        (value & (DIRECTORY_BUSY | DIRECTORY_FAILED) == 0).then_some(value & DIRECTORY_EXISTS != 0)
    }

    /// Verifies contents in intervals of this length, sizes and names.
    pub(crate) fn verified(self, interval_bytes: u32) -> Self {
        Self { row: Some(Row::new(&self.shape, interval_bytes)), ..self }
    }

    /// Keeps what exists in the journal at `path`. `recovers` compares what was found with the journal of an earlier run first, whose
    /// process may have been killed.
    pub(crate) fn journaled(mut self, path: &str, recovers: bool, found: &[Found]) -> Result<Self, EngineError> {
        let journal = Entries::Journal(Journal::open(path, &self.shape)?);
        let exists = mem::replace(&mut self.entries, journal);
        if recovers && self.entries.is_complete() {
            self.journal_differences = self.differences(found, &[]);
        }
        if self.journal_differences.is_empty() {
            self.entries.take_over(&exists);
        } else {
            // The journal stays as it is, so that a second recovery finds the same.
            self.entries = exists;
        }
        Ok(self)
    }

    /// Names and sizes that were not as the journal of an earlier run has them.
    pub(crate) fn journal_differences(&self) -> &Differences {
        &self.journal_differences
    }

    pub(crate) fn is_verified(&self) -> bool {
        self.row.is_some()
    }

    pub(crate) fn row(&self) -> Option<&Row> {
        self.row.as_ref()
    }

    fn file(&self, entry: u32) -> &AtomicU64 {
        &self.entries.files()[(entry - self.shape.directories()) as usize]
    }

    fn directory(&self, entry: u32) -> &AtomicU32 {
        &self.entries.directories()[entry as usize]
    }

    fn set_file(&self, entry: u32, bytes: u64) {
        self.created(entry);
        self.extend(entry, bytes.min(LENGTH));
        self.enter(entry);
    }

    // -- directories ------------------------------------------------------------------------------------------------

    /// The position of the next directory in turn, counted on without end.
    pub(crate) fn next_directory(&self) -> u64 {
        self.directory_turn.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn directory_exists(&self, entry: u32) -> bool {
        let value = self.directory(entry).load(Ordering::Acquire);
        value & DIRECTORY_EXISTS != 0
    }

    /// Returns `true` if the directory of an entry failed: the entry cannot be created.
    pub(crate) fn is_cut_off(&self, entry: u32) -> bool {
        let failed = |parent: u32| self.directory(parent).load(Ordering::Acquire) & DIRECTORY_FAILED != 0;
        self.shape.parent(entry).is_some_and(failed)
    }

    /// Adds an entry to the directory that it will be in; `false` if that directory does not exist.
    pub(crate) fn enter(&self, entry: u32) -> bool {
        let entered =
            |value: u32| (value & (DIRECTORY_EXISTS | DIRECTORY_BUSY) == DIRECTORY_EXISTS).then_some(value + 1);
        let Some(parent) = self.shape.parent(entry) else { return true };
        self.directory(parent).fetch_update(Ordering::AcqRel, Ordering::Acquire, entered).is_ok()
    }

    /// The entry is not in its directory any more.
    pub(crate) fn left(&self, entry: u32) {
        if let Some(parent) = self.shape.parent(entry) {
            let directory = self.directory(parent);
            let left = |value: u32| (value & DIRECTORY_ENTRIES > 0).then_some(value - 1);
            // An error means that the directory was removed, too.
            let _ = directory.fetch_update(Ordering::AcqRel, Ordering::Acquire, left);
        }
    }

    /// Uses a directory that exists: it is not removed meanwhile.
    pub(crate) fn use_directory(&self, entry: u32) -> bool {
        let used = |value: u32| (value & (DIRECTORY_EXISTS | DIRECTORY_BUSY) == DIRECTORY_EXISTS).then_some(value + 1);
        self.directory(entry).fetch_update(Ordering::AcqRel, Ordering::Acquire, used).is_ok()
    }

    pub(crate) fn leave_directory(&self, entry: u32) {
        self.directory(entry).fetch_sub(1, Ordering::AcqRel);
    }

    /// Reserves a directory that does not exist, to create it.
    pub(crate) fn reserve_missing_directory(&self, entry: u32) -> bool {
        let directory = self.directory(entry);
        directory.compare_exchange(0, DIRECTORY_BUSY, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Reserves an empty directory, to remove it.
    pub(crate) fn reserve_empty_directory(&self, entry: u32) -> bool {
        let (directory, busy) = (self.directory(entry), DIRECTORY_EXISTS | DIRECTORY_BUSY);
        directory.compare_exchange(DIRECTORY_EXISTS, busy, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// A directory is about to be created or removed.
    pub(crate) fn directory_changes(&self, entry: u32) {
        self.directory(entry).fetch_or(DIRECTORY_BUSY, Ordering::AcqRel);
    }

    /// Gives up the reservation of a missing directory.
    pub(crate) fn release_directory(&self, entry: u32) {
        self.directory(entry).fetch_and(!DIRECTORY_BUSY, Ordering::AcqRel);
    }

    /// A directory could not be created: nothing is created in it.
    pub(crate) fn directory_failed(&self, entry: u32) {
        self.directory(entry).store(DIRECTORY_FAILED, Ordering::Release);
    }

    pub(crate) fn directory_made(&self, entry: u32) {
        self.directory(entry).store(DIRECTORY_EXISTS, Ordering::Release);
    }

    pub(crate) fn directory_removed(&self, entry: u32) {
        self.directory(entry).store(0, Ordering::Release);
        self.left(entry);
    }

    fn set_directory(&self, entry: u32) {
        self.directory_made(entry);
        self.enter(entry);
    }

    // -- tasks that workers share -----------------------------------------------------------------------------------

    /// Takes the next entry of a shared task; `None` when all `total` are taken.
    pub(crate) fn take(&self, task: usize, total: u64) -> Option<u64> {
        let next = |taken: u64| (taken < total).then_some(taken + 1);
        self.stages[task].0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).ok()
    }

    /// Counts an entry of a shared task as done.
    pub(crate) fn done(&self, task: usize) {
        self.stages[task].1.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns `true` if all entries of a shared task are done.
    pub(crate) fn is_complete(&self, task: usize, total: u64) -> bool {
        self.stages[task].1.load(Ordering::Acquire) >= total
    }
}
