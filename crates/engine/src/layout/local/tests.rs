use std::cell::RefCell;

use super::*;
use crate::engines::testing::{Scratch, pattern};

fn plan(path: &str, offset_bytes: u64, bytes: u64, layout: Layout) -> FilePlan {
    FilePlan { path: path.to_owned(), offset_bytes, bytes, start_bytes: 0, layout, keep: true }
}

fn run(files: &[FilePlan]) -> Result<Vec<PathBuf>, String> {
    let files: Vec<&FilePlan> = files.iter().collect();
    lay_out(&files, 1, &|_| {}, &AtomicBool::new(false)).map_err(|error| error.to_string())
}

fn total(files: &[FilePlan]) -> u64 {
    total_bytes(&files.iter().collect::<Vec<_>>())
}

#[test]
fn fill_creates_a_file_of_random_bytes_that_are_stored() {
    let scratch = Scratch::new("fill");
    let files = [plan(scratch.path(), 1000, 3_000_000, Layout::Fill)];
    assert_eq!(total(&files), 3_001_000);
    assert_eq!(run(&files), Ok(vec![PathBuf::from(scratch.path())]));
    assert_eq!(total(&files), 0);
    let content = fs::read(scratch.path()).unwrap();
    assert_eq!(content.len(), 3_001_000);
    let mut counts = [0; 256];
    for byte in content {
        counts[usize::from(byte)] += 1;
    }
    assert!(counts.iter().all(|count| (10_000..14_000).contains(count)), "{counts:?}");
    assert!(fs::metadata(scratch.path()).unwrap().blocks() * 512 >= 3_001_000);
}

#[test]
fn fill_keeps_existing_data_and_continues_as_if_written_at_once() {
    let (whole, parts) = (Scratch::new("whole"), Scratch::with_file("parts", 1_500_001));
    run(&[plan(whole.path(), 0, 2_500_000, Layout::Fill)]).unwrap();
    assert_eq!(run(&[plan(parts.path(), 0, 2_500_000, Layout::Fill)]), Ok(vec![]));
    let (whole, parts) = (fs::read(whole.path()).unwrap(), fs::read(parts.path()).unwrap());
    assert_eq!(parts[..1_500_001], pattern(0, 1_500_001));
    assert_eq!(parts.len(), 2_500_000);
    assert_ne!(parts[1_500_001..], whole[1_500_001..], "files differ in content");
}

#[test]
fn content_depends_on_seed_and_place_alone() {
    let mut block = [0; 4];
    let two = fill(&mut block, 7, 0).to_vec();
    assert_eq!(fill(&mut block, 7, 16)[..16], two[16..]);
    assert_ne!(fill(&mut block, 8, 0), two);
}

#[test]
fn a_file_long_enough_is_not_touched() {
    let scratch = Scratch::with_file("long", 5000);
    for layout in [Layout::Existing, Layout::Create, Layout::Fill, Layout::Reserve] {
        assert_eq!(run(&[plan(scratch.path(), 1000, 4000, layout)]), Ok(vec![]));
        assert_eq!(fs::read(scratch.path()).unwrap(), pattern(0, 5000));
    }
}

#[test]
fn existing_must_be_there_and_long_enough() {
    let scratch = Scratch::with_file("existing", 5000);
    let path = scratch.path();
    assert_eq!(
        run(&[plan(scratch.path(), 4097, 4096, Layout::Existing)]),
        Err(format!("{path} has 5000 bytes, but the plan uses 8193; use a smaller size or offset"))
    );
    let missing = scratch.other("missing");
    let error = run(&[plan(&missing, 0, 1, Layout::Existing)]).unwrap_err();
    assert!(error.ends_with("does not exist, and this job does not create it; check the path or create it first"));
    assert!(!Path::new(&missing).exists());
}

#[test]
fn new_refuses_a_file_that_is_there() {
    let scratch = Scratch::with_file("new", 10);
    let error = run(&[plan(scratch.path(), 0, 20, Layout::New)]).unwrap_err();
    assert!(error.ends_with("already exists and is not overwritten; remove it or use another name"), "{error}");
    assert_eq!(fs::read(scratch.path()).unwrap(), pattern(0, 10));

    let dangling = scratch.other("dangling");
    std::os::unix::fs::symlink(scratch.other("nowhere"), &dangling).unwrap();
    assert!(run(&[plan(&dangling, 0, 20, Layout::New)]).is_err());

    let fresh = plan(&scratch.other("fresh"), 0, 20, Layout::New);
    assert_eq!(run(std::slice::from_ref(&fresh)).unwrap().len(), 1);
    assert_eq!(fs::metadata(&fresh.path).unwrap().len(), 20);
}

#[test]
fn reserve_extends_and_keeps_existing_data() {
    let scratch = Scratch::with_file("reserve", 5000);
    let files = [plan(scratch.path(), 0, 3 << 20, Layout::Reserve)];
    assert_eq!(total(&files), 0);
    assert_eq!(run(&files), Ok(vec![]));
    let content = fs::read(scratch.path()).unwrap();
    assert_eq!(content[..5000], pattern(0, 5000));
    assert_eq!(content[5000..], vec![0; (3 << 20) - 5000]);
}

#[test]
fn create_makes_an_empty_file_and_leaves_one_that_is_there() {
    let scratch = Scratch::with_file("create", 10);
    assert_eq!(run(&[plan(scratch.path(), 0, 1 << 60, Layout::Create)]), Ok(vec![]));
    assert_eq!(fs::read(scratch.path()).unwrap(), pattern(0, 10));
    let fresh = plan(&scratch.other("fresh"), 0, 1 << 60, Layout::Create);
    assert_eq!((total(std::slice::from_ref(&fresh)), run(std::slice::from_ref(&fresh)).unwrap().len()), (0, 1));
    assert_eq!(fs::metadata(&fresh.path).unwrap().len(), 0);
}

#[test]
fn recreate_rewrites_an_existing_file_and_does_not_list_it_as_created() {
    let scratch = Scratch::with_file("recreate", 5000);
    let files = [plan(scratch.path(), 0, 3000, Layout::Recreate)];
    assert_eq!(total(&files), 3000);
    assert_eq!(run(&files), Ok(vec![]));
    let content = fs::read(scratch.path()).unwrap();
    assert_eq!(content.len(), 3000);
    assert_ne!(content, pattern(0, 3000));
    let fresh = plan(&scratch.other("fresh"), 0, 20, Layout::Recreate);
    assert_eq!(run(std::slice::from_ref(&fresh)), Ok(vec![PathBuf::from(&fresh.path)]));
    assert_eq!(fs::metadata(&fresh.path).unwrap().len(), 20);
}

#[test]
fn recreate_reserve_empties_and_extends_without_writing() {
    let scratch = Scratch::with_file("anew", 5000);
    let files = [plan(scratch.path(), 0, 1 << 20, Layout::RecreateReserve)];
    assert_eq!(total(&files), 0);
    assert_eq!(run(&files), Ok(vec![]));
    assert_eq!(fs::read(scratch.path()).unwrap(), vec![0; 1 << 20]);
}

#[test]
fn nothing_is_emptied_without_space_for_the_new_data() {
    let scratch = Scratch::with_file("room", 5000);
    for layout in [Layout::Recreate, Layout::RecreateReserve] {
        let error = run(&[plan(scratch.path(), 0, 1 << 60, layout)]).unwrap_err();
        assert!(error.contains(": no space: "), "{error}");
        assert_eq!(fs::read(scratch.path()).unwrap(), pattern(0, 5000));
    }
}

#[test]
fn nothing_is_emptied_when_another_file_is_not_as_it_must_be() {
    let scratch = Scratch::with_file("other", 5000);
    let missing = plan(&scratch.other("missing"), 0, 1, Layout::Existing);
    assert!(run(&[plan(scratch.path(), 0, 100, Layout::Recreate), missing]).is_err());
    assert_eq!(fs::read(scratch.path()).unwrap(), pattern(0, 5000));
}

#[test]
fn only_regular_files_are_recreated() {
    let error = run(&[plan("/dev/null", 0, 10, Layout::Recreate)]).unwrap_err();
    assert_eq!(
        error,
        "/dev/null is not a regular file and cannot be recreated; use it without recreating, or name a regular file"
    );
}

#[test]
fn a_file_named_twice_is_laid_out_once_to_the_furthest_end() {
    let scratch = Scratch::new("twice");
    let detour = scratch.other("./file");
    let files = [
        plan(scratch.path(), 0, 1000, Layout::Existing),
        plan(&detour, 5000, 3000, Layout::New),
        plan(scratch.path(), 0, 10, Layout::Reserve),
    ];
    assert_eq!(total(&files), 8000);
    assert_eq!(run(&files).unwrap().len(), 1);
    assert_eq!(fs::metadata(scratch.path()).unwrap().len(), 8000);
}

#[test]
fn a_missing_directory_is_named() {
    let scratch = Scratch::new("directory");
    let path = scratch.other("deeper/file");
    let directory = Path::new(&path).parent().unwrap().display().to_string();
    assert_eq!(
        run(&[plan(&path, 0, 10, Layout::Fill)]),
        Err(format!("create {path}: the directory {directory} does not exist; create it first"))
    );
}

#[test]
fn no_space_is_found_out_before_anything_is_written_and_leaves_no_file() {
    let scratch = Scratch::new("space");
    let bytes = 1 << 60;
    for layout in [Layout::Fill, Layout::Reserve, Layout::New] {
        let error = run(&[plan(scratch.path(), 0, bytes, layout)]).unwrap_err();
        assert!(error.contains(&format!("no space: the run needs {bytes} more bytes here, but ")), "{error}");
        assert!(error.ends_with(" are available; free space or use a smaller size"), "{error}");
        assert!(!Path::new(scratch.path()).exists());
    }
}

#[test]
fn files_that_fit_one_by_one_but_not_together_are_refused_before_the_first_byte() {
    let (first, second) = (Scratch::new("fits-1"), Scratch::new("fits-2"));
    let bytes = available_bytes(Path::new(first.path())).unwrap() / 10 * 6;
    let files = [plan(first.path(), 0, bytes, Layout::Reserve), plan(second.path(), 0, bytes, Layout::Reserve)];
    let error = run(&files).unwrap_err();
    assert!(error.contains(&format!("no space: the run needs {} more bytes here", 2 * bytes)), "{error}");
    assert!(!Path::new(first.path()).exists() && !Path::new(second.path()).exists());
}

#[test]
fn no_space_while_writing_reports_the_bytes_missing() {
    let full = io::Error::from_raw_os_error(libc::ENOSPC);
    assert_eq!(
        layout_error(Path::new("/d/f"), 4096, &full, Some(512)).to_string(),
        "lay out /d/f: no space: the run needs 4096 more bytes here, but 512 are available; free space or use a smaller size"
    );
    assert_eq!(
        layout_error(Path::new("/d/f"), 4096, &full, Some(8192)).to_string(),
        "lay out /d/f: no space: the run needs 4096 more bytes here, but the file system took fewer; a quota may apply, or \
         another program wrote"
    );
    let other = io::Error::from_raw_os_error(libc::EFBIG);
    assert_eq!(
        layout_error(Path::new("/d/f"), 4096, &other, None).to_string(),
        "lay out /d/f: File too large (os error 27)"
    );
}

#[test]
fn a_stop_puts_everything_back() {
    let scratch = Scratch::with_file("stop", 1000);
    let created = scratch.other("created");
    let complete = scratch.other("complete");
    let files = [
        plan(&complete, 0, 100, Layout::Fill),
        plan(scratch.path(), 0, 2000, Layout::Fill),
        plan(&created, 0, 64 << 20, Layout::New),
    ];
    let stop = AtomicBool::new(false);
    let seen = RefCell::new(Vec::new());
    let progress = |bytes| {
        seen.borrow_mut().push(bytes);
        stop.store(bytes > 3 << 20, Ordering::Relaxed);
    };
    let error = lay_out(&files.iter().collect::<Vec<_>>(), 1, &progress, &stop).unwrap_err();
    assert!(matches!(error, EngineError::StoppedInLayout), "{error}");
    let mebi = 1 << 20;
    assert_eq!(*seen.borrow(), [100, 1100, 1100 + mebi, 1100 + 2 * mebi, 1100 + 3 * mebi]);
    assert!(!Path::new(&created).exists() && !Path::new(&complete).exists());
    assert_eq!(fs::read(scratch.path()).unwrap(), pattern(0, 1000));
}

#[test]
fn long_layouts_pass_through_write_back() {
    let scratch = Scratch::new("write-back");
    run(&[plan(scratch.path(), 0, 3 * WRITE_BACK_BYTES + 1, Layout::Fill)]).unwrap();
    assert_eq!(fs::metadata(scratch.path()).unwrap().len(), 3 * WRITE_BACK_BYTES + 1);
}

#[test]
fn a_use_that_takes_any_length_does_not_make_the_file_longer() {
    let scratch = Scratch::new("any-length");
    let files = [plan(scratch.path(), 0, 9000, Layout::Create), plan(scratch.path(), 0, 100, Layout::Fill)];
    assert_eq!((total(&files), run(&files).unwrap().len()), (100, 1));
    assert_eq!(fs::metadata(scratch.path()).unwrap().len(), 100);
    // A file that another worker writes needs no layout.
    let scratch = Scratch::new("written-by-another");
    let files =
        [plan(scratch.path(), 0, 9000, Layout::Create), plan(&scratch.other("./file"), 0, 100, Layout::Existing)];
    assert_eq!((total(&files), run(&files).unwrap().len()), (0, 1));
    assert_eq!(fs::metadata(scratch.path()).unwrap().len(), 0);
}
