use super::*;
use crate::engines::testing::Scratch;
use crate::outcome::DifferenceKind;
use crate::plan::{SizeShare, TreeNames, TreePart, TreeTask};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn tree() -> Tree {
    Tree {
        depth: 2,
        width: 3,
        files: 4,
        files_on_all_levels: false,
        sizes: vec![SizeShare { bytes: 1000, weight: 1 }],
        sizes_spread: false,
        used_bytes: None,
        part: None,
        further_roots: Vec::new(),
        creates_parents: false,
        names: None,
    }
}

fn state(tree: &Tree, found: &[Found]) -> TreeState {
    TreeState::new("/a", tree, None, vec![TreeTask::Transfer], 1, found).unwrap()
}

fn found(path: &str, is_directory: bool) -> Found {
    Found { path: path.to_owned(), is_directory, bytes: 7, has_others: false }
}

#[test]
fn every_entry_has_a_path_and_every_path_its_entry() {
    for files_on_all_levels in [false, true] {
        let shape = Shape::new("/a", &Tree { files_on_all_levels, ..tree() }).unwrap();
        assert_eq!((shape.directories(), shape.files()), (12, if files_on_all_levels { 48 } else { 36 }));
        for entry in 0..shape.directories() + shape.files() {
            let path = shape.path(entry);
            let parts: Vec<&str> = path.strip_prefix("/a/").unwrap().split('/').collect();
            assert_eq!(shape.entry(&parts), Some((entry, Name::File)), "{path}");
            let above = shape.parent(entry).map_or_else(|| "/a".to_owned(), |parent| shape.path(parent));
            assert_eq!(path.rsplit_once('/').unwrap().0, above);
        }
    }
}

#[test]
fn parts_of_a_tree_have_every_file_once() {
    let mut all = Vec::new();
    for number in 0..5 {
        let part = Some(TreePart { number, of: 5 });
        let used = |used_bytes| {
            let state = state(&Tree { used_bytes, part, ..tree() }, &[]);
            (0..state.used_files()).map(|position| state.used_file(position)).collect::<Vec<_>>()
        };
        let files = used(None);
        assert_eq!(files.len(), if number == 0 { 8 } else { 7 });
        let some = used(Some(2000));
        assert!(some.len() == 2 && some.iter().all(|file| files.contains(file)));
        all.extend(files);
    }
    all.sort_unstable();
    assert_eq!(all, (12..48).collect::<Vec<_>>());
    let refused = Shape::new("/a", &Tree { part: Some(TreePart { number: 36, of: 37 }), ..tree() });
    assert!(refused.unwrap_err().to_string().contains("at least one file for each part"));
}

#[test]
fn names_are_those_of_vdbench() {
    let shape = Shape::new("/a/", &tree()).unwrap();
    assert_eq!(shape.path(0), "/a/vdb.1_1.dir");
    assert_eq!(shape.path(4), "/a/vdb.1_1.dir/vdb.2_2.dir");
    assert_eq!(shape.path(11), "/a/vdb.1_3.dir/vdb.2_3.dir");
    assert_eq!(shape.path(12), "/a/vdb.1_1.dir/vdb.2_1.dir/vdb_f0000.file");
    assert_eq!(shape.path(16), "/a/vdb.1_2.dir/vdb.2_1.dir/vdb_f0004.file");
    assert_eq!(shape.path(47), "/a/vdb.1_3.dir/vdb.2_3.dir/vdb_f0035.file");
    assert_eq!(Shape::new("", &tree()).unwrap().path(0), "vdb.1_1.dir");
    let deep = Shape::new("/a", &Tree { depth: 3, width: 2, files: 1, ..tree() }).unwrap();
    assert_eq!(deep.path(14 + 1), "/a/vdb.1_1.dir/vdb.2_2.dir/vdb.3_1.dir/vdb_f0001.file");
    assert_eq!(deep.path(14 + 4), "/a/vdb.1_1.dir/vdb.2_1.dir/vdb.3_2.dir/vdb_f0004.file");
    for other in [
        "vdb.1_1.dir/vdb.2_4.dir",
        "vdb.1_1.dir/vdb_f0001.file",
        "vdb.2_1.dir",
        "vdb.1_1.dir/vdb.2_1.dir/vdb_f1.file",
        "vdb.1_2.dir/vdb.2_1.dir/vdb_f0000.file",
    ] {
        assert_eq!(shape.entry(&other.split('/').collect::<Vec<_>>()), None, "{other}");
    }
    assert_eq!(kind_of(None, "vdb_f0001.file.bak"), None);
    assert_eq!(kind_of(None, "vdb.x_1.dir"), None);
}

#[test]
fn a_plan_may_have_other_names_which_number_within_a_directory() {
    let names = |directory: &str, file: &str| Some(TreeNames { directory: directory.into(), file: file.into() });
    let shape =
        Shape::new("/a/r0", &Tree { depth: 1, width: 3, files: 4, names: names("d{}", "r0-f{}"), ..tree() }).unwrap();
    assert_eq!(shape.path(2), "/a/r0/d2");
    assert_eq!(shape.path(3 + 5), "/a/r0/d1/r0-f1");
    for entry in 0..shape.directories() + shape.files() {
        let path = shape.path(entry);
        let parts: Vec<&str> = path.strip_prefix("/a/r0/").unwrap().split('/').collect();
        assert_eq!(shape.entry(&parts), Some((entry, Name::File)), "{path}");
    }
    for other in ["d3", "d0/r0-f4", "d0/r1-f0", "d0/r0-f01", "d0/d1", "vdb.1_1.dir"] {
        assert_eq!(shape.entry(&other.split('/').collect::<Vec<_>>()), None, "{other}");
    }
    let one =
        Shape::new("/a", &Tree { depth: 1, width: 1, files: 2, names: names("out", "r7-f{}"), ..tree() }).unwrap();
    assert_eq!((one.path(0), one.path(2)), ("/a/out".to_owned(), "/a/out/r7-f1".to_owned()));
}

#[test]
fn directories_are_in_several_roots_in_turn() {
    let names = Some(TreeNames { directory: "d{}".into(), file: "r0-f{}".into() });
    let further_roots = vec!["/b/r0".into(), "/c/r0".into()];
    let tree = Tree { depth: 1, width: 5, files: 1, names, further_roots, ..tree() };
    let shape = Shape::new("/a/r0", &tree).unwrap();
    let paths = [0, 1, 2, 3, 4, 5 + 4].map(|entry| shape.path(entry));
    assert_eq!(paths, ["/a/r0/d0", "/b/r0/d1", "/c/r0/d2", "/a/r0/d3", "/b/r0/d4", "/b/r0/d4/r0-f0"]);
    let below = |root| ["d0", "d1", "d2", "d3/r0-f0", "other"].map(|path| tree.has_below(root, path));
    assert_eq!(below(0), [true, false, false, true, true]);
    assert_eq!(below(1), [false, true, false, false, false]);
}

/// Sizes that vdbench 5.04.07 gave files 0, 1, 2…, in KiB.
#[test]
fn sizes_are_those_that_vdbench_draws() {
    let drawn = |sizes: &[(u64, u32)], sizes_spread, scale: u64, count: u32| {
        let sizes = sizes.iter().map(|&(bytes, weight)| SizeShare { bytes, weight }).collect();
        let shape = Shape::new("/a", &Tree { depth: 1, width: 1, files: 1000, sizes, sizes_spread, ..tree() }).unwrap();
        (1..=count).map(|entry| shape.size(entry) / scale).collect::<Vec<_>>()
    };
    let halves = drawn(&[(4096, 50), (8192, 50)], false, KIB, 20);
    assert_eq!(halves, [8, 4, 4, 4, 4, 8, 8, 8, 4, 8, 8, 8, 8, 8, 8, 4, 8, 8, 4, 4]);
    let quarters = drawn(&[(4096, 25), (8192, 25), (16384, 50)], false, KIB, 10);
    assert_eq!(quarters, [16, 8, 8, 8, 4, 16, 16, 16, 4, 16]);
    assert_eq!(drawn(&[(8192, 1)], true, KIB, 12), [10, 11, 6, 9, 9, 6, 8, 5, 9, 10, 7, 6]);
    assert_eq!(drawn(&[(10_000, 1)], true, KIB, 12), [6, 11, 13, 11, 8, 6, 9, 14, 13, 8, 6, 7]);
    assert_eq!(drawn(&[(MIB, 1)], true, 100 * KIB, 12), [13, 14, 8, 11, 12, 8, 11, 6, 11, 13, 9, 8]);
    assert_eq!(drawn(&[(10 * MIB, 1)], true, 1, 2), [12 * MIB, 80 * 100 * KIB]);
}

#[test]
fn the_files_that_are_used_are_those_of_vdbench() {
    let used = |files, bytes| {
        let state = state(&Tree { depth: 1, width: 1, files, used_bytes: Some(bytes), ..tree() }, &[]);
        (0..state.used_files()).map(|position| state.used_file(position) - 1).collect::<Vec<_>>()
    };
    assert_eq!(used(40, 10_000), [9, 13, 15, 22, 23, 25, 29, 35, 37, 39]);
    let of_hundred =
        [2, 10, 12, 14, 24, 27, 33, 38, 41, 48, 54, 55, 59, 62, 63, 73, 74, 77, 81, 83, 87, 94, 96, 98, 99];
    assert_eq!(used(100, 24_001), of_hundred);
    assert_eq!(used(3, 1 << 40), [0, 1, 2]);
}

#[test]
fn what_is_found_exists_and_is_removed_from_the_lowest_level_up() {
    let entries = [
        found("vdb.1_1.dir/vdb.2_1.dir/vdb_f0001.file", false),
        found("vdb.1_1.dir/vdb.2_1.dir", true),
        Found { has_others: true, ..found("vdb.1_1.dir", true) },
        found("vdb.7_1.dir", true),
        found("vdb.7_1.dir/vdb_f0001.file", false),
    ];
    let state = state(&tree(), &entries);
    assert_eq!(state.reserve(13, false), Reservation::Made { length: Some(7) });
    assert_eq!(state.reserve(13, false), Reservation::Busy);
    assert_eq!(state.reserve(12, false), Reservation::Made { length: None });
    assert!(state.directory_exists(0) && state.directory_exists(3) && !state.directory_exists(1));
    let removals: Vec<String> = state.removals().iter().map(|&(entry, _)| state.path(entry)).collect();
    assert_eq!(
        removals,
        [
            "/a/vdb.1_1.dir/vdb.2_1.dir/vdb_f0001.file",
            "/a/vdb.7_1.dir/vdb_f0001.file",
            "/a/vdb.1_1.dir/vdb.2_1.dir",
            "/a/vdb.7_1.dir",
        ]
    );
}

#[test]
fn a_directory_is_removed_only_when_it_is_empty_and_nothing_enters_it_then() {
    let state = state(&tree(), &[found("vdb.1_1.dir", true), found("vdb.1_1.dir/vdb.2_1.dir", true)]);
    assert!(!state.reserve_empty_directory(0));
    assert!(state.enter(12));
    assert!(!state.reserve_empty_directory(3));
    state.left(12);
    assert!(state.reserve_empty_directory(3));
    assert!(!state.enter(12));
    state.directory_removed(3);
    assert!(state.reserve_empty_directory(0));
}

#[test]
fn a_directory_is_removed_after_the_files_and_the_directories_below() {
    let tree_found = [
        found("vdb.1_1.dir", true),
        found("vdb.1_2.dir", true),
        found("vdb.1_1.dir/vdb.2_1.dir", true),
        found("vdb.1_1.dir/vdb.2_1.dir/vdb_f0001.file", false),
        found("vdb.1_1.dir/vdb.2_1.dir/vdb_f0002.file", false),
    ];
    let state = state(&tree(), &tree_found);
    let before: Vec<u64> = (0..5).map(|number| state.removed_before(number)).collect();
    assert_eq!(before, [0, 0, 2, 3, 3]);
}

/// The differences between a journal and the tree, after a process that ended at any moment.
fn recovered(path: &str, found: &[Found]) -> Vec<(DifferenceKind, String)> {
    let state = TreeState::new("/a", &two_files(), None, vec![], 1, found).unwrap().verified(1024);
    let state = state.journaled(path, true, found).unwrap();
    let differences = state.journal_differences().clone();
    differences.list.into_iter().map(|one| (one.kind, one.path)).collect()
}

fn two_files() -> Tree {
    Tree { depth: 1, width: 1, files: 2, sizes: vec![SizeShare { bytes: 4096, weight: 1 }], ..tree() }
}

#[test]
fn a_journal_knows_names_and_sizes_and_which_of_them_were_changing() {
    let scratch = Scratch::new("tree-journal");
    let file = |number: u32, bytes| Found {
        path: format!("vdb.1_1.dir/vdb_f{number:04}.file"),
        is_directory: false,
        bytes,
        has_others: false,
    };
    let directory = Found { path: "vdb.1_1.dir".into(), is_directory: true, bytes: 0, has_others: false };
    let (both, one) = ([directory.clone(), file(0, 4096), file(1, 2048)], [directory.clone(), file(0, 4096)]);
    let path = |number| format!("/a/vdb.1_1.dir/vdb_f{number:04}.file");
    let start = || {
        let state = TreeState::new("/a", &two_files(), None, vec![], 1, &both).unwrap().verified(1024);
        state.journaled(scratch.path(), false, &both).unwrap()
    };
    start();
    assert_eq!(recovered(scratch.path(), &both), []);
    // Until the tree is as it was, each recovery finds the same.
    for _ in 0..2 {
        assert_eq!(recovered(scratch.path(), &one), [(DifferenceKind::Missing, path(1))]);
    }
    // A file that was being written may be longer, up to its size, but not shorter.
    let longer = [directory.clone(), file(0, 4096), file(1, 4096)];
    assert_eq!(recovered(scratch.path(), &longer), [(DifferenceKind::WrongSize, path(1))]);
    start().reserve(2, false);
    assert_eq!(recovered(scratch.path(), &longer), []);
    start().reserve(2, false);
    let shorter = [directory, file(0, 4096), file(1, 1024)];
    assert_eq!(recovered(scratch.path(), &shorter), [(DifferenceKind::WrongSize, path(1))]);
    // A file that was being deleted is there or not.
    for found in [&both[..], &one[..]] {
        let state = start();
        state.reserve(2, false);
        state.changes(2);
        drop(state);
        assert_eq!(recovered(scratch.path(), found), []);
    }
    // One that was deleted is not.
    let state = start();
    state.reserve(2, false);
    state.changes(2);
    state.deleted(2);
    assert_eq!(recovered(scratch.path(), &both), [(DifferenceKind::Unexpected, path(1))]);
}
