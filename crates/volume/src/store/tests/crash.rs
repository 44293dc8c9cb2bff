//! Crashes of the machine: a recorded sequence of the directory store's system calls is cut after every prefix, calls that were not put
//! on stable storage are dropped by chance, and the directory that is left is served again. `CRASH_SEEDS` says how many sequences are tried.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::store::directory::testing::{Event, record, recorded, take_record};

/// Calls of clients in one sequence.
const CALLS: usize = 40;

/// Numbers from a seed (Knuth's MMIX generator).
struct Chance(u64);

impl Chance {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % count
    }

    fn is_so(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// A file as clients have been told of it: its content, unless some of it may be lost.
type Told = Option<Vec<u8>>;

/// The names below the root and what clients know of their files, after a call was answered.
#[derive(Debug, Clone, Default)]
struct Answered {
    /// Number of system calls by then.
    calls: usize,
    files: BTreeMap<String, Told>,
    directories: BTreeSet<String>,
    /// Names that the call after this one may change.
    next: Vec<String>,
}

/// Clients of a store, and what each call has told them.
struct Clients<'s> {
    store: &'s DirectoryStore,
    chance: Chance,
    answered: Vec<Answered>,
}

impl Clients<'_> {
    fn now(&mut self) -> &mut Answered {
        self.answered.last_mut().expect("the start is one")
    }

    /// The directory of a path, and its last name.
    fn place<'p>(&self, path: &'p str) -> (nfs_fh3, &'p [u8]) {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let directory = if above.is_empty() { self.store.root() } else { lookup(self.store, above).unwrap() };
        (directory, name.as_bytes())
    }

    fn find(&self, path: &str) -> nfs_fh3 {
        let (directory, name) = self.place(path);
        self.store.lookup(&CALLER, directory.as_bytes(), name).map(file_of).unwrap()
    }

    /// A path of two directories and three names.
    fn path(&mut self) -> String {
        let name = ["a", "b", "c"][self.chance.below(3)];
        let directories: Vec<_> = self.now().directories.iter().cloned().collect();
        match self.chance.below(directories.len() + 1) {
            0 => name.to_owned(),
            number => format!("{}/{name}", directories[number - 1]),
        }
    }

    /// Makes one call, and notes what its answer has told.
    fn call(&mut self) {
        let (path, to) = (self.path(), self.path());
        let kind = self.chance.below(8);
        self.now().next = match kind {
            0 => vec!["d".to_owned()],
            1 => vec!["e".to_owned()],
            _ => vec![path.clone(), to.clone()],
        };
        let mut after = self.now().clone();
        self.carry_out(kind, &path, &to, &mut after);
        after.calls = recorded();
        self.answered.push(after);
    }

    fn carry_out(&mut self, kind: usize, path: &str, to: &str, after: &mut Answered) {
        let known = after.files.get(path).cloned();
        match (kind, known) {
            (0 | 1, _) => {
                let name = ["d", "e"][kind];
                if after.directories.insert(name.to_owned()) {
                    directory(self.store, &self.store.root(), name);
                }
            }
            (2 | 3, None) => {
                let (parent, name) = self.place(path);
                let what = Creation::File(createhow3::GUARDED(sattr3::default()));
                self.store.create(&CALLER, parent.as_bytes(), name, what).result.unwrap();
                after.files.insert(path.to_owned(), Some(Vec::new()));
            }
            (2..=4, Some(told)) => self.write(path, told, after),
            (5, Some(told)) if path != to => {
                let ((from, old), (target, new)) = (self.place(path), self.place(to));
                self.store.rename(&CALLER, (from.as_bytes(), old), (target.as_bytes(), new)).result.unwrap();
                after.files.remove(path);
                after.files.insert(to.to_owned(), told);
            }
            (6, Some(_)) => {
                let (parent, name) = self.place(path);
                self.store.remove(&CALLER, parent.as_bytes(), name, Removal::File).result.unwrap();
                after.files.remove(path);
            }
            (7, Some(told)) => {
                let new = sattr3 { size: Some(3), ..sattr3::default() };
                self.store.setattr(&CALLER, self.find(path).as_bytes(), &new, None).result.unwrap();
                let resized = told.map(|mut data| {
                    data.resize(3, 0);
                    data
                });
                after.files.insert(path.to_owned(), resized);
            }
            _ => {}
        }
    }

    /// Writes some bytes, stable or not, or commits those that were written before.
    fn write(&mut self, path: &str, told: Told, after: &mut Answered) {
        let (file, byte) = (self.find(path), self.chance.below(256) as u8);
        let data = vec![byte; 1 + self.chance.below(20)];
        let how = if self.chance.is_so() { stable_how::UNSTABLE } else { stable_how::FILE_SYNC };
        self.store.write(&CALLER, file.as_bytes(), 0, &data, how).unwrap();
        if how == stable_how::UNSTABLE && self.chance.is_so() {
            after.files.insert(path.to_owned(), None);
            return;
        }
        self.store.commit(file.as_bytes()).unwrap();
        let whole = read(self.store, &file, 0, 1000).unwrap().0;
        assert!(told.is_none_or(|told| whole.len() >= told.len()) && whole.starts_with(&data));
        after.files.insert(path.to_owned(), Some(whole));
    }
}

/// A disk after a crash: names by directory, data by inode.
#[derive(Debug, Default)]
struct Disk {
    names: BTreeMap<u64, BTreeMap<Vec<u8>, u64>>,
    data: BTreeMap<u64, Vec<u8>>,
}

impl Disk {
    /// The disk after these calls. Those that were not put on stable storage are there by chance: names of a directory up to one of
    /// them, as journals have it, data in any order.
    fn after(events: &[Event], chance: &mut Chance) -> Self {
        let mut disk = Self::default();
        let mut torn = BTreeSet::new();
        for (number, event) in events.iter().enumerate() {
            let is_stable = |inode: u64| {
                let is_end = |event: &&Event| matches!(event, Event::Make { inode: made, .. } if *made == inode);
                let mut later = events[number + 1..].iter().take_while(|event| !is_end(event));
                later.any(|event| *event == Event::Sync { inode })
            };
            let mut names_stay = |directory: u64, chance: &mut Chance| {
                let stays = is_stable(directory) || !torn.contains(&directory) && chance.is_so();
                if !stays {
                    torn.insert(directory);
                }
                stays
            };
            match event {
                Event::Make { directory, name, inode, .. } | Event::Link { directory, name, inode } => {
                    if names_stay(*directory, chance) {
                        disk.names.entry(*directory).or_default().insert(name.clone(), *inode);
                    }
                    // The number may have been that of a file which was removed.
                    match event {
                        Event::Make { is_directory: false, .. } => _ = disk.data.insert(*inode, Vec::new()),
                        Event::Make { .. } => _ = disk.data.remove(inode),
                        _ => {}
                    }
                }
                Event::Unlink { directory, name } => {
                    if names_stay(*directory, chance) {
                        disk.names.entry(*directory).or_default().remove(name);
                    }
                }
                Event::Rename { from, old, to, new } => {
                    let moved = disk.names.get(from).and_then(|names| names.get(old)).copied();
                    let (adds, removes) = (names_stay(*to, chance), names_stay(*from, chance));
                    if let (Some(moved), true) = (moved, adds) {
                        disk.names.entry(*to).or_default().insert(new.clone(), moved);
                    }
                    if removes {
                        disk.names.entry(*from).or_default().remove(old);
                    }
                }
                Event::Size { inode, size } if is_stable(*inode) || chance.is_so() => {
                    disk.data.entry(*inode).or_default().resize(*size as usize, 0);
                }
                Event::Write { inode, offset, data } if is_stable(*inode) || chance.is_so() => {
                    let (start, end) = (*offset as usize, *offset as usize + data.len());
                    let content = disk.data.entry(*inode).or_default();
                    content.resize(content.len().max(end), 0);
                    content[start..end].copy_from_slice(data);
                }
                Event::Size { .. } | Event::Write { .. } | Event::Sync { .. } => {}
            }
        }
        disk
    }

    /// Puts its files into a directory.
    fn put(&self, directory: u64, path: &Path) {
        for (name, inode) in self.names.get(&directory).into_iter().flatten() {
            let path = path.join(std::str::from_utf8(name).unwrap());
            if let Some(data) = self.data.get(inode) {
                std::fs::write(path, data).unwrap();
            } else {
                std::fs::create_dir(&path).unwrap();
                self.put(*inode, &path);
            }
        }
    }
}

/// Compares a directory that is served again with what clients were told before the crash. Returns what was lost.
fn losses(path: &Path, told: &Answered) -> Vec<String> {
    let store = directory_store(path);
    let find = |path: &str| {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let directory = if above.is_empty() { store.root() } else { lookup(&store, above).ok()? };
        store.lookup(&CALLER, directory.as_bytes(), name.as_bytes()).ok().map(file_of)
    };
    let mut lost = Vec::new();
    let names = ["", "d/", "e/"].into_iter().flat_map(|above| ["a", "b", "c"].map(|name| format!("{above}{name}")));
    for path in names.filter(|path| !told.next.contains(path)) {
        match (told.files.get(&path), find(&path)) {
            (None, None) | (Some(None), Some(_)) => {}
            (Some(Some(data)), Some(file)) if read(&store, &file, 0, 1000).unwrap().0 == *data => {}
            (expected, found) => lost.push(format!("{path}: {expected:?}, {}", found.is_some())),
        }
    }
    lost.extend(told.directories.iter().filter(|path| find(path).is_none()).cloned());
    lost
}

/// Cuts a sequence of calls after every system call, and returns the number of cuts and what was lost.
fn crash(seed: u64, is_async: bool) -> (usize, Vec<String>) {
    let served = tempfile::tempdir().unwrap();
    let store = DirectoryStore::open(served.path(), QUOTA_BYTES, HandleKey::random(), is_async).unwrap();
    let root = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(served.path()).unwrap());
    let mut clients = Clients { store: &store, chance: Chance(seed), answered: vec![Answered::default()] };
    record();
    (0..CALLS).for_each(|_| clients.call());
    let (events, answered) = (take_record(), clients.answered);
    let (mut lost, mut chance) = (Vec::new(), Chance(!seed));
    for cut in 0..=events.len() {
        let told = answered.iter().rfind(|told| told.calls <= cut).unwrap();
        let left = tempfile::tempdir().unwrap();
        Disk::after(&events[..cut], &mut chance).put(root, left.path());
        lost.extend(losses(left.path(), told).into_iter().map(|lost| format!("seed {seed}, cut {cut}: {lost}")));
    }
    (events.len() + 1, lost)
}

#[test]
fn what_was_answered_outlives_a_crash_at_any_system_call() {
    let seeds = std::env::var("CRASH_SEEDS").map_or(6, |seeds| seeds.parse().unwrap());
    let mut cuts = 0;
    for seed in 1..=seeds {
        let (count, lost) = crash(seed, false);
        assert!(lost.is_empty(), "{lost:#?}");
        cuts += count;
    }
    println!("{cuts} crashes, nothing lost");
    assert!(cuts > 30 * seeds as usize, "{cuts} crashes");
}

#[test]
fn without_stable_names_a_crash_is_noticed() {
    assert!((1..=3).any(|seed| !crash(seed, true).1.is_empty()));
}
