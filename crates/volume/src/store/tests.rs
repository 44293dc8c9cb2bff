//! One suite for every store.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use iocurve_wire::nfs3::{createhow3, createverf3, ftype3, nfstime3, specdata3};

use super::contract::{DEPTH_MAX, NAME_BYTES};
use super::directory::DirectoryStore;
use super::faulty::{Faults, FaultyStore};
use super::handle::HandleKey;
use super::memory::MemoryStore;
use super::*;

const QUOTA_BYTES: u64 = 64 << 20;
/// Root, of an export that allows everything.
const CALLER: Caller = {
    let mut caller = Caller::new(0, 0);
    (caller.rights.suid, caller.rights.dev) = (true, true);
    caller
};

/// Runs each check on a fresh store of each kind.
macro_rules! suite {
    ($($check:ident),* $(,)?) => {
        mod memory_store { $(#[test] fn $check() { super::$check(&super::memory()); })* }
        mod directory_store { $(#[test] fn $check() {
            let served = tempfile::tempdir().unwrap();
            super::$check(&super::directory_store(served.path()));
        })* }
        mod store_with_faults_that_never_happen { $(#[test] fn $check() { super::$check(&super::faulty()); })* }
    };
}

suite! {
    names_come_and_go,
    holes_read_as_zeros,
    cutting_a_file_forgets_what_was_behind,
    received_data_are_the_files,
    hard_links_share_a_file,
    symbolic_links_keep_their_target,
    renaming_replaces_what_it_may,
    directories_do_not_move_into_themselves,
    creating_again_depends_on_how,
    a_removed_file_is_stale,
    attributes_are_set_if_the_guard_allows,
    listings_go_on_where_they_ended,
    a_listing_ends_at_the_name_that_has_no_room,
    nothing_lies_between_the_attributes_before_and_after,
    ten_thousand_names_are_listed_once_each_while_they_are_removed,
    the_quota_is_kept_and_given_back,
    a_write_of_nothing_is_free_wherever_it_is,
    handles_of_others_are_refused,
    a_flipped_bit_of_a_handle_is_no_other_file,
    names_count_against_the_quota,
    targets_count_against_the_quota,
    a_create_that_fails_leaves_nothing,
    wrong_types_are_refused,
    data_are_for_owners_and_for_whom_the_mode_allows,
    names_must_be_names,
    paths_may_be_longer_than_a_system_call_takes,
    directories_have_a_greatest_depth,
    dots_are_no_new_names,
    a_name_never_leads_to_the_file_of_another_name,
    names_are_changed_by_those_whom_the_directories_allow,
}

fn directory_store(path: &Path) -> DirectoryStore {
    DirectoryStore::open(path, QUOTA_BYTES, HandleKey::new(*b"the key of tests"), true).unwrap()
}

fn memory() -> MemoryStore {
    MemoryStore::new(*b"memory-1", QUOTA_BYTES, 1 << 40).unwrap()
}

fn faulty() -> FaultyStore<Files> {
    with_faults(Files::Memory(memory()))
}

fn with_faults(inner: Files) -> FaultyStore<Files> {
    let faults = Faults { rates: Vec::new(), seed: 0, log: None };
    FaultyStore::new(inner, "/vol".to_owned(), faults, None)
}

#[test]
fn only_a_directory_keeps_verifiers_in_times_with_faults_or_without() {
    let served = tempfile::tempdir().unwrap();
    let directory = || Files::Directory(directory_store(served.path()));
    let faulty = |inner| Files::Faulty(with_faults(inner));
    assert!(directory().keeps_verifiers_in_times());
    assert!(faulty(directory()).keeps_verifiers_in_times());
    assert!(!Files::Memory(memory()).keeps_verifiers_in_times());
    assert!(!faulty(Files::Memory(memory())).keeps_verifiers_in_times());
}

fn handle_of(named: Named) -> nfs_fh3 {
    named.handle
}

fn file_of((found, _): (Named, fattr3)) -> nfs_fh3 {
    found.handle
}

/// A name of a listing: cookie, name, file number and handle.
type Shown = (u64, String, u64, Option<nfs_fh3>);

/// At most `limit` names after a cookie; `true` if no name follows.
fn list<S: Store>(store: &S, directory: &nfs_fh3, after: u64, limit: usize) -> Result<(Vec<Shown>, bool), nfsstat3> {
    list_as(store, &CALLER, directory, after, limit)
}

fn list_as<S: Store>(
    store: &S,
    caller: &Caller,
    directory: &nfs_fh3,
    after: u64,
    limit: usize,
) -> Result<(Vec<Shown>, bool), nfsstat3> {
    let (mut shown, range) = (Vec::new(), Range { after, with_attributes: true });
    let listed = store.readdir(caller, directory.as_bytes(), range, &mut |entry| {
        let has_room = shown.len() < limit;
        if has_room {
            assert!(entry.attributes.is_none_or(|attributes| attributes.fileid == entry.fileid));
            let name = String::from_utf8(entry.name.to_vec()).unwrap();
            shown.push((entry.cookie, name, entry.fileid, entry.handle));
        }
        has_room
    })?;
    Ok((shown, listed.end))
}

fn file<S: Store>(store: &S, name: &str) -> nfs_fh3 {
    create(store, name, &createhow3::UNCHECKED(sattr3::default())).unwrap()
}

fn create<S: Store>(store: &S, name: &str, how: &createhow3) -> Result<nfs_fh3, nfsstat3> {
    let root = store.root();
    store.create(&CALLER, root.as_bytes(), name.as_bytes(), Creation::File(how.clone())).result.map(handle_of)
}

fn directory<S: Store>(store: &S, parent: &nfs_fh3, name: &str) -> nfs_fh3 {
    let what = Creation::Directory(sattr3 { mode: Some(0o750), ..sattr3::default() });
    store.create(&CALLER, parent.as_bytes(), name.as_bytes(), what).result.map(handle_of).unwrap()
}

fn write<S: Store>(store: &S, file: &nfs_fh3, offset: u64, data: &[u8]) -> Result<u64, nfsstat3> {
    store.write(&CALLER, file.as_bytes(), offset, data, stable_how::UNSTABLE).map(|written| written.after.size)
}

fn read<S: Store>(store: &S, file: &nfs_fh3, offset: u64, count: u32) -> Result<(Vec<u8>, bool), nfsstat3> {
    let mut batch = Batch::default();
    let _guard = crossbeam_epoch::pin();
    let read = store.read(&CALLER, file.as_bytes(), offset, count, &mut batch)?;
    let mut data = Vec::new();
    batch.copy_from(0, &mut data);
    assert_eq!(data.len() % 4, 0, "padded");
    data.truncate(read.count as usize);
    Ok((data, read.eof))
}

fn resize<S: Store>(store: &S, file: &nfs_fh3, size: u64) -> Result<(), nfsstat3> {
    let new = sattr3 { size: Some(size), ..sattr3::default() };
    store.setattr(&CALLER, file.as_bytes(), &new, None).result
}

fn rename<S: Store>(store: &S, from: (&nfs_fh3, &str), to: (&nfs_fh3, &str)) -> Result<(), nfsstat3> {
    let (from, to) = ((from.0.as_bytes(), from.1.as_bytes()), (to.0.as_bytes(), to.1.as_bytes()));
    store.rename(&CALLER, from, to).result
}

fn remove<S: Store>(store: &S, name: &str) -> Result<(), nfsstat3> {
    store.remove(&CALLER, store.root().as_bytes(), name.as_bytes(), Removal::File).result
}

fn lookup<S: Store>(store: &S, name: &str) -> Result<nfs_fh3, nfsstat3> {
    store.lookup(&CALLER, store.root().as_bytes(), name.as_bytes()).map(file_of)
}

fn names_come_and_go<S: Store>(store: &S) {
    let root = store.root();
    let how = createhow3::UNCHECKED(sattr3 { mode: Some(0o640), ..sattr3::default() });
    let Changed { result, wcc } = store.create(&CALLER, root.as_bytes(), b"a", Creation::File(how));
    let made = result.map(handle_of).unwrap();
    assert!(wcc.before.unwrap().ctime <= wcc.after.unwrap().ctime);
    let attributes = store.getattr(made.as_bytes()).unwrap();
    assert_eq!((attributes.file_type, attributes.mode, attributes.nlink), (ftype3::NF3REG, 0o640, 1));
    assert_eq!(lookup(store, "a"), Ok(made));
    assert_eq!((lookup(store, "."), lookup(store, "..")), (Ok(root), Ok(root)));
    assert_eq!(lookup(store, "b"), Err(nfsstat3::NFS3ERR_NOENT));

    let inner = directory(store, &root, "d");
    assert_eq!(store.getattr(root.as_bytes()).unwrap().nlink, 3);
    assert_eq!(store.lookup(&CALLER, inner.as_bytes(), b"..").map(file_of), Ok(root));
    directory(store, &inner, "e");
    let rmdir = |name: &str| store.remove(&CALLER, root.as_bytes(), name.as_bytes(), Removal::Directory).result;
    assert_eq!(rmdir("d"), Err(nfsstat3::NFS3ERR_NOTEMPTY));
    assert_eq!(rmdir("a"), Err(nfsstat3::NFS3ERR_NOTDIR));
    assert_eq!(remove(store, "d"), Err(nfsstat3::NFS3ERR_ISDIR));
    store.remove(&CALLER, inner.as_bytes(), b"e", Removal::Directory).result.unwrap();
    assert_eq!(rmdir("d"), Ok(()));
    assert_eq!(remove(store, "a"), Ok(()));
    assert_eq!(remove(store, "a"), Err(nfsstat3::NFS3ERR_NOENT));
    assert_eq!(store.getattr(root.as_bytes()).unwrap().nlink, 2);
}

fn holes_read_as_zeros<S: Store>(store: &S) {
    let file = file(store, "sparse");
    assert_eq!(write(store, &file, 100_000, b"end"), Ok(100_003));
    let (data, eof) = read(store, &file, 99_998, 100).unwrap();
    assert_eq!((data.as_slice(), eof), (&b"\0\0end"[..], true));
    let (data, eof) = read(store, &file, 0, 50_000).unwrap();
    assert_eq!((data, eof), (vec![0; 50_000], false));
    assert_eq!(read(store, &file, 100_003, 1), Ok((vec![], true)));
    assert_eq!(read(store, &file, u64::MAX, 1), Ok((vec![], true)));
    assert!(store.getattr(file.as_bytes()).unwrap().used < 100_000);
    assert_eq!(write(store, &file, FILE_BYTES_MAX, b"x"), Err(nfsstat3::NFS3ERR_FBIG));
    assert_eq!(write(store, &file, u64::MAX, b"xy"), Err(nfsstat3::NFS3ERR_FBIG));
}

fn cutting_a_file_forgets_what_was_behind<S: Store>(store: &S) {
    let file = file(store, "f");
    write(store, &file, 0, &vec![7; 40_000]).unwrap();
    resize(store, &file, 20_000).unwrap();
    resize(store, &file, 40_000).unwrap();
    let (data, _) = read(store, &file, 0, 40_000).unwrap();
    assert!(data[..20_000].iter().all(|byte| *byte == 7));
    assert!(data[20_000..].iter().all(|byte| *byte == 0));
    assert_eq!(resize(store, &file, FILE_BYTES_MAX + 1), Err(nfsstat3::NFS3ERR_FBIG));
}

fn received_data_are_the_files<S: Store>(store: &S) {
    let file = file(store, "f");
    write(store, &file, 0, &vec![1; 80_000]).unwrap();
    let data: Vec<u8> = (0..50_000_u32).map(|n| (n % 251) as u8).collect();
    let mut buffer = store.begin_write(&CALLER, file.as_bytes(), 10_001, 50_000).unwrap();
    assert_eq!((buffer.copy_from(&data[..30_000]), buffer.missing()), (30_000, 20_000));
    assert_eq!(buffer.copy_from(&data[30_000..]), 20_000);
    let written = store.finish_write(buffer, stable_how::FILE_SYNC).unwrap();
    assert_eq!((written.before.size, written.after.size), (80_000, 80_000));
    let mut expected = vec![1; 80_000];
    expected[10_001..60_001].copy_from_slice(&data);
    assert_eq!(read(store, &file, 0, 80_000), Ok((expected, true)));
}

fn hard_links_share_a_file<S: Store>(store: &S) {
    let (root, one) = (store.root(), file(store, "one"));
    let link =
        |file: &nfs_fh3, name: &str| store.link(&CALLER, file.as_bytes(), root.as_bytes(), name.as_bytes()).result;
    assert_eq!(link(&one, "two"), Ok(()));
    assert_eq!(link(&one, "two"), Err(nfsstat3::NFS3ERR_EXIST));
    assert_eq!(link(&directory(store, &root, "d"), "three"), Err(nfsstat3::NFS3ERR_INVAL));
    write(store, &lookup(store, "two").unwrap(), 0, b"shared").unwrap();
    assert_eq!(store.getattr(one.as_bytes()).unwrap().nlink, 2);
    assert_eq!(rename(store, (&root, "one"), (&root, "two")), Ok(()), "two names of one file: nothing happens");
    remove(store, "one").unwrap();
    assert_eq!(read(store, &one, 0, 10), Ok((b"shared".to_vec(), true)));
    assert_eq!(store.getattr(one.as_bytes()).unwrap().nlink, 1);
}

fn symbolic_links_keep_their_target<S: Store>(store: &S) {
    let root = store.root();
    let none = sattr3::default();
    let make = |name: &str, target: &[u8]| {
        let what = Creation::Symlink(none, target);
        store.create(&CALLER, root.as_bytes(), name.as_bytes(), what).result.map(handle_of)
    };
    let link = make("link", b"../outside").unwrap();
    assert_eq!(store.readlink(link.as_bytes()), Ok(b"../outside".to_vec()));
    assert_eq!(store.getattr(link.as_bytes()).unwrap().file_type, ftype3::NF3LNK);
    assert_eq!(store.readlink(root.as_bytes()), Err(nfsstat3::NFS3ERR_INVAL));
    assert_eq!(store.lookup(&CALLER, link.as_bytes(), b"x").map(file_of), Err(nfsstat3::NFS3ERR_NOTDIR));
    assert_eq!(make("link", b"again"), Err(nfsstat3::NFS3ERR_EXIST));
}

fn renaming_replaces_what_it_may<S: Store>(store: &S) {
    let root = store.root();
    let (one, two) = (file(store, "one"), file(store, "two"));
    let (d, e) = (directory(store, &root, "d"), directory(store, &root, "e"));
    assert_eq!(rename(store, (&root, "one"), (&root, "two")), Ok(()));
    assert_eq!((lookup(store, "one"), lookup(store, "two")), (Err(nfsstat3::NFS3ERR_NOENT), Ok(one)));
    assert_eq!(store.getattr(two.as_bytes()), Err(nfsstat3::NFS3ERR_STALE));
    assert_eq!(rename(store, (&root, "two"), (&root, "d")), Err(nfsstat3::NFS3ERR_ISDIR));
    assert_eq!(rename(store, (&root, "d"), (&root, "two")), Err(nfsstat3::NFS3ERR_NOTDIR));
    assert_eq!(rename(store, (&root, "two"), (&d, "in")), Ok(()));
    assert_eq!(rename(store, (&root, "e"), (&root, "d")), Err(nfsstat3::NFS3ERR_NOTEMPTY));
    assert_eq!(rename(store, (&d, "in"), (&root, "out")), Ok(()));
    assert_eq!(rename(store, (&root, "e"), (&root, "d")), Ok(()));
    assert_eq!(lookup(store, "d"), Ok(e));
    assert_eq!(store.getattr(root.as_bytes()).unwrap().nlink, 3);
    assert_eq!(rename(store, (&root, "no"), (&root, "d")), Err(nfsstat3::NFS3ERR_NOENT));
    assert_eq!(read(store, &lookup(store, "out").unwrap(), 0, 1), Ok((vec![], true)));
}

fn directories_do_not_move_into_themselves<S: Store>(store: &S) {
    let root = store.root();
    let a = directory(store, &root, "a");
    let b = directory(store, &a, "b");
    assert_eq!(rename(store, (&root, "a"), (&b, "c")), Err(nfsstat3::NFS3ERR_INVAL));
    assert_eq!(rename(store, (&a, "b"), (&root, "b")), Ok(()));
    assert_eq!(store.lookup(&CALLER, b.as_bytes(), b"..").map(file_of), Ok(root));
    assert_eq!(rename(store, (&root, "a"), (&b, "c")), Ok(()));
    assert_eq!(store.lookup(&CALLER, a.as_bytes(), b"..").map(file_of), Ok(b));
}

fn creating_again_depends_on_how<S: Store>(store: &S) {
    let made = file(store, "f");
    write(store, &made, 0, b"data").unwrap();
    let none = sattr3::default();
    assert_eq!(create(store, "f", &createhow3::UNCHECKED(none)), Ok(made));
    assert_eq!(store.getattr(made.as_bytes()).unwrap().size, 4);
    assert_eq!(create(store, "f", &createhow3::UNCHECKED(sattr3 { size: Some(0), ..none })), Ok(made));
    assert_eq!(store.getattr(made.as_bytes()).unwrap().size, 0);
    assert_eq!(create(store, "f", &createhow3::GUARDED(none)), Err(nfsstat3::NFS3ERR_EXIST));
    let verf: createverf3 = [1, 2, 3, 4, 5, 6, 7, 8];
    let exclusive = create(store, "x", &createhow3::EXCLUSIVE(verf)).unwrap();
    assert_eq!(create(store, "x", &createhow3::EXCLUSIVE(verf)), Ok(exclusive));
    assert_eq!(create(store, "x", &createhow3::EXCLUSIVE([9; 8])), Err(nfsstat3::NFS3ERR_EXIST));
    directory(store, &store.root(), "d");
    assert_eq!(create(store, "d", &createhow3::UNCHECKED(none)), Err(nfsstat3::NFS3ERR_EXIST));
}

fn a_removed_file_is_stale<S: Store>(store: &S) {
    let gone = file(store, "f");
    write(store, &gone, 0, b"data").unwrap();
    remove(store, "f").unwrap();
    assert_eq!(store.getattr(gone.as_bytes()), Err(nfsstat3::NFS3ERR_STALE));
    assert_eq!(write(store, &gone, 0, b"data"), Err(nfsstat3::NFS3ERR_STALE));
    assert_eq!(store.begin_write(&CALLER, gone.as_bytes(), 0, 1 << 20).unwrap_err(), nfsstat3::NFS3ERR_STALE);
    let next = file(store, "f");
    assert_ne!(next, gone);
    assert_eq!(read(store, &gone, 0, 4), Err(nfsstat3::NFS3ERR_STALE));
}

fn attributes_are_set_if_the_guard_allows<S: Store>(store: &S) {
    let file = file(store, "f");
    let time = nfstime3 { seconds: 1_000_000_000, nseconds: 5 };
    let mtime = iocurve_wire::nfs3::set_time::SET_TO_CLIENT_TIME(time);
    let new = sattr3 { mode: Some(0o4711), mtime, ..sattr3::default() };
    let Changed { result, wcc } = store.setattr(&CALLER, file.as_bytes(), &new, None);
    result.unwrap();
    let after = store.getattr(file.as_bytes()).unwrap();
    assert_eq!((after.mode, after.mtime, wcc.after), (0o4711, time, Some(after)));
    let wrong = Some(nfstime3 { seconds: 1, nseconds: 1 });
    assert_eq!(store.setattr(&CALLER, file.as_bytes(), &new, wrong).result, Err(nfsstat3::NFS3ERR_NOT_SYNC));
    assert_eq!(store.setattr(&CALLER, file.as_bytes(), &new, Some(after.ctime)).result, Ok(()));
}

fn listings_go_on_where_they_ended<S: Store>(store: &S) {
    for n in 0..100 {
        file(store, &format!("file-{n}"));
    }
    let root = store.root();
    let (mut names, mut cookie) = (Vec::new(), 0);
    loop {
        let (listed, end) = list(store, &root, cookie, 7).unwrap();
        for (.., fileid, handle) in &listed {
            assert_eq!(store.getattr(handle.unwrap().as_bytes()).unwrap().fileid, *fileid);
        }
        cookie = listed.last().map_or(cookie, |entry| entry.0);
        names.extend(listed.into_iter().map(|(_, name, ..)| name));
        if end {
            break;
        }
    }
    names.sort();
    let mut expected: Vec<_> = (0..100).map(|n| format!("file-{n}")).chain([".".into(), "..".into()]).collect();
    expected.sort();
    assert_eq!(names, expected);
}

/// The visitor is not called again, whatever the store has looked up ahead; the listing goes on with that name.
fn a_listing_ends_at_the_name_that_has_no_room<S: Store>(store: &S) {
    (0..200).for_each(|number| _ = file(store, &number.to_string()));
    let root = store.root();
    let whole = list(store, &root, 0, 1000).unwrap().0;
    for (with_attributes, room) in [(false, 0), (true, 1), (false, 9), (true, 70), (true, 202)] {
        let (mut visited, range) = (Vec::new(), Range { after: 0, with_attributes });
        let listed = store.readdir(&CALLER, root.as_bytes(), range, &mut |entry| {
            assert!(entry.attributes.is_some() || !with_attributes);
            visited.push(entry.cookie);
            visited.len() <= room
        });
        let expected = whole.iter().take(room + 1).map(|entry| entry.0);
        assert_eq!(visited, expected.collect::<Vec<_>>());
        assert_eq!(listed, Ok(Listed { directory: store.getattr(root.as_bytes()).unwrap(), end: room == 202 }));
    }
}

/// A change of names sets mtime and ctime alike, one of the mode only the ctime: the attributes that a change reports after itself have both
/// alike, whatever others do to the directory.
fn nothing_lies_between_the_attributes_before_and_after<S: Store + Sync>(store: &S) {
    let root = store.root();
    let other = directory(store, &root, "d");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                for (directory, mode) in [(root, 0o700), (other, 0o700), (root, 0o770), (other, 0o770)] {
                    let new = sattr3 { mode: Some(mode), ..sattr3::default() };
                    store.setattr(&CALLER, directory.as_bytes(), &new, None).result.unwrap();
                }
            }
        });
        let is_apart = |wcc: wcc_data| wcc.after.is_none_or(|after| after.mtime != after.ctime);
        let mut apart = 0;
        for _ in 0..2_000 {
            let what = Creation::File(createhow3::GUARDED(sattr3::default()));
            let made = store.create(&CALLER, root.as_bytes(), b"f", what);
            let linked = store.link(&CALLER, made.result.unwrap().handle.as_bytes(), root.as_bytes(), b"l");
            let moved = store.rename(&CALLER, (root.as_bytes(), b"f"), (other.as_bytes(), b"f"));
            let removed = store.remove(&CALLER, other.as_bytes(), b"f", Removal::File);
            let unlinked = store.remove(&CALLER, root.as_bytes(), b"l", Removal::File);
            let all = [made.wcc, linked.wcc, moved.wcc.0, moved.wcc.1, removed.wcc, unlinked.wcc];
            apart += all.into_iter().filter(|wcc| is_apart(*wcc)).count();
        }
        is_over.store(true, Relaxed);
        assert_eq!(apart, 0, "changes of 12,000");
    });
}

/// As `rm -r` does it: what has been listed is gone when the listing goes on. The work is one call for each hundred names.
fn ten_thousand_names_are_listed_once_each_while_they_are_removed<S: Store>(store: &S) {
    const NAMES: usize = 10_000;
    for n in 0..NAMES {
        file(store, &format!("file-{n}"));
    }
    let root = store.root();
    let (mut names, mut cookie, mut calls) = (HashSet::new(), 0, 0);
    loop {
        let (listed, end) = list(store, &root, cookie, 100).unwrap();
        calls += 1;
        for (own, name, ..) in listed {
            cookie = own;
            if name != "." && name != ".." {
                remove(store, &name).unwrap();
            }
            assert!(names.insert(name), "listed twice");
        }
        if end {
            break;
        }
    }
    assert_eq!((names.len(), calls), (NAMES + 2, (NAMES + 2).div_ceil(100)));
}

fn the_quota_is_kept_and_given_back<S: Store>(store: &S) {
    let (one, two) = (file(store, "one"), file(store, "two"));
    let mebibyte = vec![5; 1 << 20];
    let free = |store: &S| store.space().bytes_free;
    let before = free(store);
    let written = (0..200).take_while(|n| write(store, &one, n << 20, &mebibyte).is_ok()).count() as u64;
    assert!((62..=64).contains(&written), "{written} MiB fit into 64 MiB");
    assert_eq!(write(store, &two, 0, &vec![0; 2 << 20]), Err(nfsstat3::NFS3ERR_DQUOT));
    let mut buffer = store.begin_write(&CALLER, two.as_bytes(), 0, 2 << 20).unwrap();
    buffer.received(2 << 20);
    assert_eq!(store.finish_write(buffer, stable_how::UNSTABLE).unwrap_err(), nfsstat3::NFS3ERR_DQUOT);
    assert_eq!(store.getattr(two.as_bytes()).unwrap().size, 0);
    assert_eq!(write(store, &one, 0, &mebibyte), Ok(written << 20), "what is there can be overwritten");
    resize(store, &one, 1 << 20).unwrap();
    assert!(write(store, &two, 0, &mebibyte).is_ok());
    remove(store, "one").unwrap();
    remove(store, "two").unwrap();
    assert!(free(store) >= before);
}

fn a_write_of_nothing_is_free_wherever_it_is<S: Store>(store: &S) {
    let file = file(store, "f");
    let before = store.budget().used();
    assert_eq!(write(store, &file, 1 << 20, &[]), Ok(0));
    assert_eq!((store.getattr(file.as_bytes()).unwrap().size, store.budget().used()), (0, before));
    // A file with set-user-ID takes another path, since the WRITE clears the bit.
    for offset in [0, 1 << 40] {
        let privileged = sattr3 { mode: Some(0o4755), ..sattr3::default() };
        store.setattr(&CALLER, file.as_bytes(), &privileged, None).result.unwrap();
        assert_eq!(write(store, &file, offset, &[]), Ok(0));
        assert_eq!((store.getattr(file.as_bytes()).unwrap().mode, store.budget().used()), (0o755, before));
    }
}

fn handles_of_others_are_refused<S: Store>(store: &S) {
    let root = store.root();
    assert_eq!(store.getattr(&[]), Err(nfsstat3::NFS3ERR_BADHANDLE));
    assert_eq!(store.getattr(&[1; 64]), Err(nfsstat3::NFS3ERR_BADHANDLE));
    for at in 0..root.as_bytes().len() {
        let mut wrong = root.as_bytes().to_vec();
        wrong[at] ^= 0x55;
        assert_eq!(store.getattr(&wrong), Err(nfsstat3::NFS3ERR_STALE), "byte {at}");
    }
}

/// A handle with a flipped bit is no other file's, of whatever kind the file is.
fn a_flipped_bit_of_a_handle_is_no_other_file<S: Store>(store: &S) {
    let root = store.root();
    let mut handles: Vec<_> = (0..300).map(|number| file(store, &number.to_string())).collect();
    handles.extend([root, directory(store, &root, "d")]);
    handles.extend((0..10).filter_map(|number| {
        let name = format!("removed-{number}");
        let made = file(store, &name);
        remove(store, &name).unwrap();
        store.getattr(made.as_bytes()).is_ok().then_some(made)
    }));
    for handle in handles {
        for bit in 0..handle.as_bytes().len() * 8 {
            let mut wrong = handle.as_bytes().to_vec();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(store.getattr(&wrong), Err(nfsstat3::NFS3ERR_STALE), "bit {bit}");
        }
    }
}

/// Each name counts as the memory store has it, so that a client cannot fill a disk with empty files.
fn names_count_against_the_quota<S: Store>(store: &S) {
    let used = |store: &S| store.budget().used();
    let before = used(store);
    let one = file(store, "one");
    let root = store.root();
    assert_eq!(used(store) - before, NAME_BYTES);
    store.link(&CALLER, one.as_bytes(), root.as_bytes(), b"two").result.unwrap();
    directory(store, &root, "d");
    assert_eq!(used(store) - before, 3 * NAME_BYTES);
    rename(store, (&root, "one"), (&root, "three")).unwrap();
    assert_eq!((lookup(store, "one"), used(store) - before), (Err(nfsstat3::NFS3ERR_NOENT), 3 * NAME_BYTES));
    file(store, "four");
    rename(store, (&root, "four"), (&root, "three")).unwrap();
    assert_eq!(used(store) - before, 3 * NAME_BYTES);
    assert!(store.link(&CALLER, one.as_bytes(), root.as_bytes(), b"two").result.is_err());
    assert_eq!(used(store) - before, 3 * NAME_BYTES, "what fails costs nothing");
    for name in ["two", "three"] {
        remove(store, name).unwrap();
    }
    store.remove(&CALLER, root.as_bytes(), b"d", Removal::Directory).result.unwrap();
    assert_eq!(used(store), before);
    store.budget().set_quota(before + NAME_BYTES - 1);
    let how = createhow3::UNCHECKED(sattr3::default());
    assert_eq!(create(store, "five", &how), Err(nfsstat3::NFS3ERR_DQUOT));
    assert_eq!((lookup(store, "five"), used(store)), (Err(nfsstat3::NFS3ERR_NOENT), before));
}

/// The target of a symbolic link counts as data do.
fn targets_count_against_the_quota<S: Store>(store: &S) {
    let (root, before) = (store.root(), store.budget().used());
    let make = |target: &[u8]| {
        let what = Creation::Symlink(sattr3::default(), target);
        store.create(&CALLER, root.as_bytes(), b"link", what).result.map(handle_of)
    };
    let link = make(&[b'x'; 4000]).unwrap();
    assert_eq!(store.budget().used() - before, NAME_BYTES + 4000);
    store.link(&CALLER, link.as_bytes(), root.as_bytes(), b"two").result.unwrap();
    remove(store, "link").unwrap();
    assert_eq!(store.budget().used() - before, NAME_BYTES + 4000);
    remove(store, "two").unwrap();
    assert_eq!(store.budget().used(), before);
    store.budget().set_quota(before + NAME_BYTES + 3999);
    assert_eq!(make(&[b'x'; 4000]), Err(nfsstat3::NFS3ERR_DQUOT));
    assert_eq!((lookup(store, "link"), store.budget().used()), (Err(nfsstat3::NFS3ERR_NOENT), before));
}

/// A CREATE that cannot be finished, here for a size beyond all bounds, leaves no name and no charge.
fn a_create_that_fails_leaves_nothing<S: Store>(store: &S) {
    let before = store.budget().used();
    let huge = sattr3 { size: Some(FILE_BYTES_MAX + 1), ..sattr3::default() };
    for how in [createhow3::UNCHECKED(huge), createhow3::GUARDED(huge)] {
        assert_eq!(create(store, "f", &how), Err(nfsstat3::NFS3ERR_FBIG));
        assert_eq!((lookup(store, "f"), store.budget().used()), (Err(nfsstat3::NFS3ERR_NOENT), before));
    }
    let root = store.root();
    let sized = sattr3 { size: Some(1), ..sattr3::default() };
    let made = store.create(&CALLER, root.as_bytes(), b"d", Creation::Directory(sized)).result.map(handle_of);
    assert!(made.is_err());
    assert_eq!((lookup(store, "d"), store.budget().used()), (Err(nfsstat3::NFS3ERR_NOENT), before));
}

fn wrong_types_are_refused<S: Store>(store: &S) {
    let (root, file) = (store.root(), file(store, "f"));
    assert_eq!(read(store, &root, 0, 1), Err(nfsstat3::NFS3ERR_ISDIR));
    assert_eq!(write(store, &root, 0, b"x"), Err(nfsstat3::NFS3ERR_ISDIR));
    assert_eq!(store.lookup(&CALLER, file.as_bytes(), b"x").map(file_of), Err(nfsstat3::NFS3ERR_NOTDIR));
    assert_eq!(list(store, &file, 0, 9), Err(nfsstat3::NFS3ERR_NOTDIR));
    assert_eq!(resize(store, &root, 0), Err(nfsstat3::NFS3ERR_ISDIR));
}

fn paths_may_be_longer_than_a_system_call_takes<S: Store>(store: &S) {
    let name = "d".repeat(200);
    let deepest = (0..50).fold(store.root(), |parent, _| directory(store, &parent, &name));
    let how = createhow3::UNCHECKED(sattr3::default());
    let made = store.create(&CALLER, deepest.as_bytes(), b"f", Creation::File(how)).result.map(handle_of).unwrap();
    assert_eq!(write(store, &made, 0, b"deep"), Ok(4));
    assert_eq!(store.lookup(&CALLER, deepest.as_bytes(), b"f").map(file_of), Ok(made));
}

fn directories_have_a_greatest_depth<S: Store>(store: &S) {
    let make = |parent: &nfs_fh3| {
        let what = Creation::Directory(sattr3::default());
        store.create(&CALLER, parent.as_bytes(), b"d", what).result.map(handle_of)
    };
    let (mut deepest, mut depth) = (store.root(), 0);
    let failed = loop {
        match make(&deepest) {
            Ok(made) => (deepest, depth) = (made, depth + 1),
            Err(status) => break status,
        }
    };
    assert_eq!(failed, nfsstat3::NFS3ERR_NAMETOOLONG);
    assert!((DEPTH_MAX - 3..=DEPTH_MAX).contains(&depth), "{depth}");
    let how = createhow3::UNCHECKED(sattr3::default());
    let file = store.create(&CALLER, deepest.as_bytes(), b"f", Creation::File(how)).result;
    assert_eq!(write(store, &handle_of(file.unwrap()), 0, b"deep"), Ok(4));
    let root = store.root();
    directory(store, &root, "other");
    let (from, to) = ((root.as_bytes(), b"other".as_slice()), (deepest.as_bytes(), b"moved".as_slice()));
    let moved = store.rename(&CALLER, from, to).result;
    assert_eq!(moved, Err(nfsstat3::NFS3ERR_NAMETOOLONG));
}

fn data_are_for_owners_and_for_whom_the_mode_allows<S: Store>(store: &S) {
    let made = file(store, "f");
    write(store, &made, 0, b"data").unwrap();
    let owner = store.getattr(made.as_bytes()).unwrap();
    let (owner, stranger) = (Caller::new(owner.uid, owner.gid), Caller::new(owner.uid + 1, owner.gid + 1));
    let refused = nfsstat3::NFS3ERR_ACCES;
    for (mode, may_read, may_write) in [(0o600, false, false), (0o604, true, false), (0o602, false, true)] {
        let new = sattr3 { mode: Some(mode), ..sattr3::default() };
        store.setattr(&CALLER, made.as_bytes(), &new, None).result.unwrap();
        for (by, may_read, may_write) in [(owner, true, true), (stranger, may_read, may_write)] {
            let _guard = crossbeam_epoch::pin();
            let mut batch = Batch::default();
            let read = store.read(&by, made.as_bytes(), 0, 4, &mut batch).map(drop);
            assert_eq!(read, if may_read { Ok(()) } else { Err(refused) }, "{mode:o}");
            assert_eq!(batch.length(), if may_read { 4 } else { 0 }, "{mode:o}");
            let expected = if may_write { Ok(()) } else { Err(refused) };
            let written = store.write(&by, made.as_bytes(), 0, b"DATA", stable_how::UNSTABLE).map(drop);
            assert_eq!(written, expected, "{mode:o}");
            assert_eq!(store.begin_write(&by, made.as_bytes(), 0, 40_000).map(drop), expected, "{mode:o}");
        }
    }
}

fn names_must_be_names<S: Store>(store: &S) {
    let make = |name: &str| create(store, name, &createhow3::GUARDED(sattr3::default()));
    assert_eq!(make(""), Err(nfsstat3::NFS3ERR_ACCES));
    assert_eq!(make("a/b"), Err(nfsstat3::NFS3ERR_ACCES));
    assert_eq!(make("a\0b"), Err(nfsstat3::NFS3ERR_ACCES));
    assert_eq!(make(&"n".repeat(256)), Err(nfsstat3::NFS3ERR_NAMETOOLONG));
    assert!(make(&"n".repeat(255)).is_ok());
    assert_eq!(make(".."), Err(nfsstat3::NFS3ERR_EXIST));
    assert_eq!(remove(store, "."), Err(nfsstat3::NFS3ERR_INVAL));
    let root = store.root();
    assert_eq!(rename(store, (&root, ".."), (&root, "x")), Err(nfsstat3::NFS3ERR_EXIST));
}

/// Dots exist in every directory: nothing is made under them, and nothing is remembered by them.
fn dots_are_no_new_names<S: Store>(store: &S) {
    let root = store.root();
    let outer = directory(store, &root, "d");
    let inner = directory(store, &outer, "e");
    let none = sattr3::default();
    let what = Creation::File(createhow3::UNCHECKED(none));
    let file = store.create(&CALLER, inner.as_bytes(), b"f", what).result.map(handle_of).unwrap();
    let hows = [createhow3::UNCHECKED(none), createhow3::GUARDED(none), createhow3::EXCLUSIVE([0; 8])];
    let files = hows.map(Creation::File).into_iter();
    let others = [
        Creation::Directory(none),
        Creation::Symlink(none, b"x"),
        Creation::Special(none, ftype3::NF3FIFO, specdata3::default()),
    ];
    let used = store.budget().used();
    for (what, name) in files.chain(others).flat_map(|what| [(what.clone(), &b"."[..]), (what, b"..")]) {
        let made = store.create(&CALLER, inner.as_bytes(), name, what).result.map(handle_of);
        assert_eq!(made, Err(nfsstat3::NFS3ERR_EXIST));
        let linked = store.link(&CALLER, file.as_bytes(), inner.as_bytes(), name).result;
        assert_eq!(linked, Err(nfsstat3::NFS3ERR_EXIST));
    }
    assert_eq!(store.budget().used(), used);
    assert_eq!(rename(store, (&outer, "e"), (&root, "g")), Ok(()));
    assert_eq!(rename(store, (&root, "d"), (&root, "h")), Ok(()));
    for file in [file, inner, outer] {
        assert!(store.getattr(file.as_bytes()).is_ok(), "found where it is now");
    }
    assert_eq!(store.lookup(&CALLER, inner.as_bytes(), b"..").map(file_of), Ok(root));
}

fn names_are_changed_by_those_whom_the_directories_allow<S: Store>(store: &S) {
    let root = store.root();
    let inner = directory(store, &root, "d");
    let made = file(store, "f");
    let set = |file: &nfs_fh3, mode| {
        let new = sattr3 { mode: Some(mode), ..sattr3::default() };
        store.setattr(&CALLER, file.as_bytes(), &new, None).result.unwrap();
    };
    set(&root, 0o777);
    let stranger = Caller::new(4_321, 4_321);
    let what = || Creation::File(createhow3::UNCHECKED(sattr3 { size: Some(0), ..sattr3::default() }));
    let refused = Err(nfsstat3::NFS3ERR_ACCES);
    let create = |name: &str| store.create(&stranger, inner.as_bytes(), name.as_bytes(), what()).result;
    let found = |name: &[u8]| store.lookup(&stranger, inner.as_bytes(), name).map(drop);
    let list = || list_as(store, &stranger, &inner, 0, 9).map(drop);
    let link = || store.link(&stranger, made.as_bytes(), inner.as_bytes(), b"l").result;
    let enter = || store.rename(&stranger, (root.as_bytes(), b"f"), (inner.as_bytes(), b"f")).result;
    let remove = |name: &[u8]| store.remove(&stranger, inner.as_bytes(), name, Removal::Any).result;
    set(&inner, 0o774);
    assert_eq!((create("a").map(drop), found(b"a"), list(), remove(b"a")), (refused, refused, Ok(()), refused));
    set(&inner, 0o771);
    assert_eq!((create("a").map(drop), found(b"a")), (refused, Err(nfsstat3::NFS3ERR_NOENT)));
    assert_eq!((list(), link(), enter()), (refused, refused, refused));
    set(&inner, 0o1777);
    let own = create("a").unwrap();
    assert_eq!((own.attributes.uid, own.attributes.gid), (stranger.uid, stranger.gid));
    assert_eq!(
        (found(b"a"), link(), remove(b"l"), remove(b"a")),
        (Ok(()), Ok(()), Err(nfsstat3::NFS3ERR_PERM), Ok(()))
    );
    let cut = |mode| {
        set(&made, mode);
        store.create(&stranger, root.as_bytes(), b"f", what()).result.map(|found| found.handle)
    };
    assert_eq!((cut(0o644), cut(0o646)), (Err(nfsstat3::NFS3ERR_ACCES), Ok(made)));
    let mode = sattr3 { mode: Some(0o777), ..sattr3::default() };
    let changed = store.setattr(&stranger, made.as_bytes(), &mode, None).result;
    assert_eq!((changed, enter()), (Err(nfsstat3::NFS3ERR_PERM), Ok(())));
}

/// One thread makes and removes two names in turn, of which another looks up and lists the first: it must not get files of the second.
fn a_name_never_leads_to_the_file_of_another_name<S: Store + Sync>(store: &S) {
    const TURNS: usize = 3_000;
    let is_over = AtomicBool::new(false);
    let (mut found, mut others) = (HashSet::new(), HashSet::new());
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut found = HashSet::new();
            while !is_over.load(Relaxed) {
                found.extend(lookup(store, "x"));
                let (listed, _) = list(store, &store.root(), 0, 9).unwrap();
                found.extend(listed.into_iter().filter(|entry| entry.1 == "x").filter_map(|entry| entry.3));
            }
            found
        });
        for _ in 0..TURNS {
            file(store, "x");
            remove(store, "x").unwrap();
            others.insert(file(store, "y"));
            remove(store, "y").unwrap();
        }
        is_over.store(true, Relaxed);
        found = looking.join().unwrap();
    });
    assert_eq!(found.intersection(&others).count(), 0, "of {} files of x", found.len());
    assert_eq!(store.budget().used(), 0, "nothing is left that counts");
}

#[test]
fn memory_that_is_full_has_no_space() {
    let store = MemoryStore::new(*b"memory-2", 1 << 40, 1 << 20).unwrap();
    let file = file(&store, "f");
    assert_eq!(write(&store, &file, 0, &vec![1; 2 << 20]), Err(nfsstat3::NFS3ERR_NOSPC));
    assert_eq!(write(&store, &file, FILE_BYTES_MAX - 1, b"x"), Err(nfsstat3::NFS3ERR_NOSPC), "the table is counted");
}

#[test]
fn inodes_in_use_are_those_of_files() {
    let store = memory();
    let in_use = || store.space().files_total - store.space().files_free;
    assert_eq!(in_use(), 1, "the root directory");
    for name in ["f", "g", "h"] {
        file(&store, name);
    }
    assert_eq!(in_use(), 4);
    remove(&store, "g").unwrap();
    assert_eq!(in_use(), 3);
}

#[test]
fn data_lent_to_a_batch_outlive_their_file() {
    let store = memory();
    let made = file(&store, "f");
    write(&store, &made, 0, &vec![7; 65_536]).unwrap();
    let mut batch = Batch::default();
    let guard = crossbeam_epoch::pin();
    store.read(&CALLER, made.as_bytes(), 0, 65_536, &mut batch).unwrap();
    remove(&store, "f").unwrap();
    write(&store, &file(&store, "g"), 0, &vec![9; 65_536]).unwrap();
    let mut data = Vec::new();
    batch.copy_from(0, &mut data);
    assert!(data.iter().all(|byte| *byte == 7));
    batch.clear();
    drop(guard);
    while store.reclaim() {}
}

#[test]
fn threads_may_do_everything_at_once() {
    let store = memory();
    let seen = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let (store, seen) = (&store, &seen);
            scope.spawn(move || {
                for round in 0..200_u64 {
                    let name = format!("f{}", round % 3);
                    let Ok(file) = create(store, &name, &createhow3::UNCHECKED(sattr3::default())) else { continue };
                    let _ = write(store, &file, round % 5 * 10_000, &vec![thread + 1; 30_000]);
                    if let Ok((data, _)) = read(store, &file, 0, 70_000) {
                        assert!(data.iter().all(|byte| *byte <= 4));
                        seen.fetch_add(data.len() as u64, Relaxed);
                    }
                    let _ = resize(store, &file, round * 100);
                    let root = store.root();
                    let _ = rename(store, (&root, &name), (&root, "f0"));
                    let _ = remove(store, &name);
                }
            });
        }
    });
    assert!(seen.load(Relaxed) > 0);
    for name in ["f0", "f1", "f2"] {
        let _ = remove(&store, name);
    }
    assert_eq!(store.space().bytes_free, QUOTA_BYTES, "nothing is lost");
}

mod crash;
mod directory;
