//! Promises of the store in a directory beyond the suite.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::store::directory::testing::fail_syncs;

/// Closes the files that are open.
fn close_idle(store: &DirectoryStore) {
    let mut next = store.close_idle(0);
    while let Some(now) = next {
        next = store.close_idle(now);
    }
}

#[test]
fn handles_outlive_a_restart() {
    let served = tempfile::tempdir().unwrap();
    let open = || directory_store(served.path());
    let (handle, inner) = {
        let store = open();
        let handle = file(&store, "f");
        write(&store, &handle, 0, b"kept").unwrap();
        (handle, directory(&store, &store.root(), "d"))
    };
    let store = open();
    assert_eq!(read(&store, &handle, 0, 9), Ok((b"kept".to_vec(), true)));
    assert_eq!(store.lookup(&CALLER, inner.as_bytes(), b"..").map(file_of), Ok(store.root()));
    assert!(store.space().bytes_free <= QUOTA_BYTES - 4, "what is there counts");
}

#[test]
fn nothing_outside_the_directory_is_reached() {
    let outside = tempfile::tempdir().unwrap();
    let served = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink(outside.path(), served.path().join("way")).unwrap();
    let store = directory_store(served.path());
    let way = lookup(&store, "way").unwrap();
    assert_eq!(store.lookup(&CALLER, way.as_bytes(), b"secret").map(file_of), Err(nfsstat3::NFS3ERR_NOTDIR));
    assert_eq!(lookup(&store, "way/secret"), Err(nfsstat3::NFS3ERR_ACCES));
    assert_eq!(lookup(&store, "../x"), Err(nfsstat3::NFS3ERR_ACCES));

    // A directory that another program replaces by a link does not lead out, either.
    let inner = directory(&store, &store.root(), "d");
    std::fs::remove_dir(served.path().join("d")).unwrap();
    std::os::unix::fs::symlink(outside.path(), served.path().join("d")).unwrap();
    assert_eq!(store.lookup(&CALLER, inner.as_bytes(), b"secret").map(file_of), Err(nfsstat3::NFS3ERR_STALE));
}

#[test]
fn a_file_can_be_executed_while_nobody_writes_it() {
    let served = tempfile::tempdir().unwrap();
    let store = directory_store(served.path());
    let program = file(&store, "true");
    let mode = sattr3 { mode: Some(0o755), ..sattr3::default() };
    store.setattr(&CALLER, program.as_bytes(), &mode, None).result.unwrap();
    write(&store, &program, 0, &std::fs::read("/bin/true").unwrap()).unwrap();
    let execute = || std::process::Command::new(served.path().join("true")).status().map(|status| status.success());
    assert_eq!(execute().unwrap_err().raw_os_error(), Some(libc::ETXTBSY));
    close_idle(&store);
    // A fork of another test may hold the file open for a moment.
    let patience = std::time::Instant::now() + Duration::from_secs(20);
    while execute().is_err() && std::time::Instant::now() < patience {}
    assert!(execute().unwrap());
    read(&store, &program, 0, 9).unwrap();
    assert!(execute().unwrap(), "reading does not open it for writing");
}

#[test]
fn what_others_remove_or_enlarge_does_not_upset_the_quota() {
    let served = tempfile::tempdir().unwrap();
    let store = directory_store(served.path());
    let before = store.budget().used();
    std::fs::write(served.path().join("theirs"), [0; 1000]).unwrap();
    lookup(&store, "theirs").unwrap();
    assert_eq!(store.budget().used() - before, NAME_BYTES + 1000);
    std::fs::write(served.path().join("theirs"), [0; 5000]).unwrap();
    remove(&store, "theirs").unwrap();
    assert_eq!(store.budget().used(), before);
}

#[test]
fn what_others_put_there_is_seen() {
    let served = tempfile::tempdir().unwrap();
    let store = directory_store(served.path());
    std::fs::write(served.path().join("new"), "theirs").unwrap();
    assert_eq!(read(&store, &lookup(&store, "new").unwrap(), 0, 9), Ok((b"theirs".to_vec(), true)));
}

/// A disk that cannot write: the data that were written may be gone, so the verifier has to change.
#[test]
fn a_failure_to_sync_is_told_by_the_write_verifier() {
    let served = tempfile::tempdir().unwrap();
    let store = directory_store(served.path());
    let made = file(&store, "f");
    let stable = |how| store.write(&CALLER, made.as_bytes(), 0, b"data", how).map(|written| written.after.size);
    assert_eq!((stable(stable_how::UNSTABLE), store.sync_failures()), (Ok(4), 0));
    fail_syncs(1);
    assert_eq!(store.commit(made.as_bytes()).unwrap_err(), nfsstat3::NFS3ERR_IO);
    assert_eq!(store.sync_failures(), 1);
    assert_eq!((store.commit(made.as_bytes()).is_ok(), store.sync_failures()), (true, 1));
    for how in [stable_how::DATA_SYNC, stable_how::FILE_SYNC] {
        fail_syncs(1);
        assert_eq!((stable(how), stable(how)), (Err(nfsstat3::NFS3ERR_IO), Ok(4)));
    }
    assert_eq!(store.sync_failures(), 3);
}

/// A WRITE that waits for the disk lets others change names meanwhile, also one that makes its file longer.
#[test]
fn a_write_that_makes_a_file_longer_does_not_hold_names() {
    let served = tempfile::tempdir().unwrap();
    let store = directory_store(served.path());
    let (made, (sender, receiver)) = (file(&store, "f"), std::sync::mpsc::channel());
    std::thread::scope(|scope| {
        let held = store.hold_names();
        scope.spawn(|| {
            let written = store.write(&CALLER, made.as_bytes(), 0, b"data", stable_how::FILE_SYNC);
            sender.send(written.map(|written| written.after.size)).unwrap();
        });
        let written = receiver.recv_timeout(Duration::from_secs(20));
        drop(held);
        assert_eq!(written, Ok(Ok(4)), "it waits for names");
    });
}

/// As exports(5) has `sync`: what was answered is on stable storage. With `async` nothing is put there.
#[test]
fn changes_of_names_are_stable_before_their_reply() {
    let served = tempfile::tempdir().unwrap();
    for (is_async, failed) in [(false, Err(nfsstat3::NFS3ERR_IO)), (true, Ok(()))] {
        let store = DirectoryStore::open(served.path(), QUOTA_BYTES, HandleKey::random(), is_async).unwrap();
        let root = store.root();
        let (f, d) = (file(&store, "f"), directory(&store, &root, "d"));
        let mode = sattr3 { mode: Some(0o700), ..sattr3::default() };
        let changes: [&dyn Fn() -> Result<(), nfsstat3>; 9] = [
            &|| store.setattr(&CALLER, f.as_bytes(), &mode, None).result,
            &|| store.setattr(&CALLER, d.as_bytes(), &mode, None).result,
            &|| create(&store, "g", &createhow3::GUARDED(sattr3::default())).map(drop),
            &|| store.create(&CALLER, root.as_bytes(), b"e", Creation::Directory(mode)).result.map(handle_of).map(drop),
            &|| {
                store
                    .create(&CALLER, root.as_bytes(), b"s", Creation::Symlink(mode, b"x"))
                    .result
                    .map(handle_of)
                    .map(drop)
            },
            &|| store.link(&CALLER, f.as_bytes(), root.as_bytes(), b"h").result,
            &|| rename(&store, (&root, "f"), (&root, "r")),
            &|| remove(&store, "r"),
            &|| store.remove(&CALLER, root.as_bytes(), b"d", Removal::Directory).result,
        ];
        for change in changes {
            fail_syncs(1);
            assert_eq!(change(), failed);
        }
        fail_syncs(0);
        std::fs::remove_dir_all(served.path().join("e")).ok();
        for name in ["g", "h", "s"] {
            std::fs::remove_file(served.path().join(name)).ok();
        }
    }
}

/// A client exchanges a file for a pipe, and the other way round, while others read and write it: no call waits for the pipe's other end.
#[test]
fn a_pipe_in_the_place_of_a_file_holds_up_nobody() {
    let served = tempfile::tempdir().unwrap();
    let store = Arc::new(directory_store(served.path()));
    let root = store.root();
    let pipe = Creation::Special(sattr3::default(), ftype3::NF3FIFO, specdata3::default());
    store.create(&CALLER, root.as_bytes(), b"pipe", pipe).result.map(handle_of).unwrap();
    let used = file(&*store, "f");
    let is_over = Arc::new(AtomicBool::new(false));
    let (done, is_done) = std::sync::mpsc::channel();
    let using = {
        let (store, is_over) = (Arc::clone(&store), Arc::clone(&is_over));
        std::thread::spawn(move || {
            while !is_over.load(Relaxed) {
                let _ = read(&*store, &used, 0, 9);
                let _ = write(&*store, &used, 0, b"data");
                close_idle(&store);
            }
            done.send(()).unwrap();
        })
    };
    let at = |name: &str| served.path().join(name);
    for _ in 0..3_000 {
        // By another program, so that the store goes on to look for the file under its name.
        std::fs::rename(at("f"), at("kept")).unwrap();
        std::fs::rename(at("pipe"), at("f")).unwrap();
        std::fs::rename(at("f"), at("pipe")).unwrap();
        std::fs::rename(at("kept"), at("f")).unwrap();
    }
    is_over.store(true, Relaxed);
    is_done.recv_timeout(Duration::from_secs(20)).expect("it waits for the pipe");
    using.join().unwrap();
}

/// Files that are mounted below the directory are not served, and said to be so: a name that is there and cannot be made.
#[test]
fn what_is_on_another_file_system_is_refused() {
    let served = tempfile::tempdir().unwrap();
    let mut store = directory_store(served.path());
    let used = file(&store, "f");
    store.pretend_device((0, 1));
    assert_eq!(lookup(&store, "f"), Err(nfsstat3::NFS3ERR_ACCES));
    for how in [createhow3::UNCHECKED(sattr3::default()), createhow3::EXCLUSIVE([1; 8])] {
        assert_eq!(create(&store, "f", &how), Err(nfsstat3::NFS3ERR_EXIST));
    }
    assert_eq!(remove(&store, "f"), Err(nfsstat3::NFS3ERR_ACCES));
    let root = store.root();
    assert_eq!(rename(&store, (&root, "f"), (&root, "g")), Err(nfsstat3::NFS3ERR_ACCES));
    let (listed, _) = list(&store, &root, 0, 9).unwrap();
    assert!(listed.iter().any(|entry| entry.1 == "f" && entry.3.is_none()));
    assert!(store.getattr(used.as_bytes()).is_ok());
}

/// A server of any user: owners write what they have made, whatever its mode says.
#[test]
fn a_server_that_is_not_root_writes_files_that_are_read_only() {
    let served = tempfile::tempdir().unwrap();
    let user = 54_321;
    std::os::unix::fs::chown(served.path(), Some(user), Some(user)).unwrap();
    let path = served.path().to_owned();
    std::thread::spawn(move || {
        // SAFETY: a system call without pointers; of this thread alone, as opposed to that of the library.
        let status = unsafe { libc::syscall(libc::SYS_setresuid, user, user, user) };
        assert_eq!(status, 0);
        let store = directory_store(&path);
        let caller = Caller::new(user, user);
        for mode in [0o444, 0] {
            let name = format!("f{mode}");
            let how = createhow3::GUARDED(sattr3 { mode: Some(mode), ..sattr3::default() });
            let made = create(&store, &name, &how).unwrap();
            let write = || store.write(&caller, made.as_bytes(), 0, b"data", stable_how::UNSTABLE).map(drop);
            assert_eq!(write(), Ok(()));
            close_idle(&store);
            assert_eq!(read(&store, &made, 0, 9).map(|read| read.0), Ok(b"data".to_vec()));
            assert_eq!(write(), Ok(()), "opened anew");
            assert_eq!(store.getattr(made.as_bytes()).unwrap().mode, mode);
        }
    })
    .join()
    .unwrap();
}

#[test]
fn times_before_the_first_second_become_it() {
    let served = tempfile::tempdir().unwrap();
    let store = directory_store(served.path());
    let made = file(&store, "f");
    let old = std::time::UNIX_EPOCH - Duration::new(5, 5);
    let times = std::fs::FileTimes::new().set_modified(old).set_accessed(old);
    std::fs::File::options().write(true).open(served.path().join("f")).unwrap().set_times(times).unwrap();
    let found = store.getattr(made.as_bytes()).unwrap();
    assert_eq!((found.mtime, found.atime), (nfstime3::default(), nfstime3::default()));
}

/// Each of many names of a file is found, listed and removed, in any order, and the quota is what it was.
#[test]
fn a_file_may_have_thousands_of_names() {
    const NAMES: u32 = 5000;
    let served = tempfile::tempdir().unwrap();
    let store = directory_store(served.path());
    let (root, before) = (store.root(), store.budget().used());
    let first = file(&store, "0");
    for number in 1..NAMES {
        let name = number.to_string();
        store.link(&CALLER, first.as_bytes(), root.as_bytes(), name.as_bytes()).result.unwrap();
    }
    let (listed, _) = list(&store, &root, 0, 2 * NAMES as usize).unwrap();
    assert_eq!(listed.iter().filter(|entry| entry.3 == Some(first)).count(), NAMES as usize);
    for number in (0..NAMES).rev().step_by(2).chain((0..NAMES).step_by(2)) {
        assert_eq!(lookup(&store, &number.to_string()), Ok(first));
        remove(&store, &number.to_string()).unwrap();
    }
    assert_eq!((store.getattr(first.as_bytes()).err(), store.budget().used()), (Some(nfsstat3::NFS3ERR_STALE), before));
}
