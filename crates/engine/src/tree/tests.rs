use super::*;
use crate::plan::{SizeShare, TreeTask};

fn tree() -> Tree {
    Tree {
        depth: 2,
        width: 3,
        files: 4,
        files_on_all_levels: false,
        sizes: vec![SizeShare { bytes: 1000, weight: 1 }],
        sizes_spread: false,
        used_bytes: None,
        creates_parents: false,
    }
}

fn state(tree: &Tree, found: &[Found]) -> TreeState {
    TreeState::new("/a", tree, vec![TreeTask::Transfer], 1, found).unwrap()
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
            assert_eq!(shape.entry(&parts), Some(entry), "{path}");
            let above = shape.parent(entry).map_or_else(|| "/a".to_owned(), |parent| shape.path(parent));
            assert_eq!(path.rsplit_once('/').unwrap().0, above);
        }
    }
}

#[test]
fn names_are_those_of_vdbench() {
    let shape = Shape::new("/a/", &tree()).unwrap();
    assert_eq!(shape.path(0), "/a/vdb.1_1.dir");
    assert_eq!(shape.path(11), "/a/vdb.1_3.dir/vdb.2_3.dir");
    assert_eq!(shape.path(12), "/a/vdb.1_1.dir/vdb.2_1.dir/vdb_f0001.file");
    assert_eq!(shape.path(47), "/a/vdb.1_3.dir/vdb.2_3.dir/vdb_f0004.file");
    assert_eq!(Shape::new("", &tree()).unwrap().path(0), "vdb.1_1.dir");
    for other in
        ["vdb.1_1.dir/vdb.2_4.dir", "vdb.1_1.dir/vdb_f0001.file", "vdb.2_1.dir", "vdb.1_1.dir/vdb.2_1.dir/vdb_f1.file"]
    {
        assert_eq!(shape.entry(&other.split('/').collect::<Vec<_>>()), None, "{other}");
    }
    assert_eq!(kind_of("vdb_f0001.file.bak"), None);
    assert_eq!(kind_of("vdb.x_1.dir"), None);
}

#[test]
fn sizes_have_the_shares_that_are_asked_for_and_never_change() {
    let sizes = vec![SizeShare { bytes: 10, weight: 25 }, SizeShare { bytes: 20, weight: 75 }];
    let shape = Shape::new("/a", &Tree { files: 1000, sizes, ..tree() }).unwrap();
    let drawn: Vec<u64> = (12..9012).map(|entry| shape.size(entry)).collect();
    let small = drawn.iter().filter(|&&size| size == 10).count();
    // Five standard deviations: 5 × √(9000 × 0.25 × 0.75) = 205.
    assert!((2045..2455).contains(&small), "{small}");
    assert_eq!(drawn, (12..9012).map(|entry| shape.size(entry)).collect::<Vec<_>>());
    let spread = Shape::new("/a", &Tree { files: 1000, sizes_spread: true, ..tree() }).unwrap();
    assert!((12..9012).all(|entry| (500..=1500).contains(&spread.size(entry))));
}

#[test]
fn a_part_of_the_files_has_the_bytes_that_are_asked_for() {
    let state = state(&Tree { used_bytes: Some(10_500), ..tree() }, &[]);
    assert_eq!(state.used_files(), 11);
    let files: Vec<u32> = (0..11).map(|position| state.used_file(position)).collect();
    assert!(files.is_sorted() && files.iter().all(|file| (12..48).contains(file)));
}

#[test]
fn what_is_found_exists_and_is_removed_from_the_lowest_level_up() {
    let entries = [
        found("vdb.1_1.dir/vdb.2_1.dir/vdb_f0002.file", false),
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
            "/a/vdb.1_1.dir/vdb.2_1.dir/vdb_f0002.file",
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
