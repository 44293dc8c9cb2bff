use super::*;
use crate::engines::buffers::Buffers;
use crate::engines::request::Address;
use crate::engines::testing::{Scratch, open};
use crate::plan::Layout;

use iocurve_meter::Clock;
use std::path::Path;

/// An engine over `directory`, `directory/file` and `directory/other`, numbered 0 to 2.
struct Bench {
    engine: MetadataEngine,
    buffers: Buffers,
    scratch: Scratch,
}

const BLOCK: usize = 4096;

fn plan(path: String) -> FilePlan {
    FilePlan { path, offset_bytes: 0, bytes: 1, start_bytes: 0, layout: Layout::Nothing, keep: true }
}

impl Bench {
    fn new(keep_open: bool) -> Self {
        let scratch = Scratch::new("metadata");
        let paths = ["directory", "directory/file", "directory/other"].map(|name| plan(scratch.other(name)));
        let (open, buffers) = (open(false), Buffers::new(1, BLOCK));
        // SAFETY: tests access a slot before they submit a request for it, or after its completion.
        let slots = unsafe { buffers.slot_map() };
        let setup = Setup { open: &open, files: &paths, writes: true, slots, depth: 1, clock: Clock::new() };
        let engine = MetadataEngine::open(setup, keep_open, None).unwrap();
        Self { engine, buffers, scratch }
    }

    fn does_at(&mut self, kind: OperationKind, file: u32, offset: u64, length: u32) -> i64 {
        self.engine.submit(Request { slot: 0, kind, address: Address { file, offset, length } }).unwrap();
        let mut done = Vec::new();
        self.engine.reap(1, Nanos::MAX, &mut done).unwrap();
        assert_eq!(done.len(), 1);
        done[0].result
    }

    fn does(&mut self, kind: OperationKind, file: u32) -> i64 {
        self.does_at(kind, file, 0, 1)
    }

    fn exists(&self, name: &str) -> bool {
        Path::new(&self.scratch.other(name)).exists()
    }
}

const MISSING: i64 = -(libc::ENOENT as i64);
const CLOSED: i64 = -(libc::EBADF as i64);

#[test]
fn names_are_made_looked_at_changed_and_removed() {
    let mut bench = Bench::new(false);
    let looks = [OperationKind::Getattr, OperationKind::Setattr, OperationKind::Access, OperationKind::Open];
    assert_eq!(bench.does(OperationKind::Create, 1), MISSING);
    assert_eq!(bench.does(OperationKind::Mkdir, 0), 0);
    assert_eq!(bench.does(OperationKind::Mkdir, 0), -i64::from(libc::EEXIST));
    assert_eq!(looks.map(|kind| bench.does(kind, 1)), [MISSING; 4]);
    assert_eq!([bench.does(OperationKind::Create, 1), bench.does(OperationKind::Create, 1)], [0, 0]);
    assert_eq!(looks.map(|kind| bench.does(kind, 1)), [0; 4]);
    assert_eq!(bench.does(OperationKind::Rmdir, 0), -i64::from(libc::ENOTEMPTY));
    assert_eq!(bench.does_at(OperationKind::Rename, 1, 2, 1), 0);
    assert!(!bench.exists("directory/file") && bench.exists("directory/other"));
    assert_eq!(bench.does(OperationKind::Delete, 1), MISSING);
    assert_eq!([bench.does(OperationKind::Delete, 2), bench.does(OperationKind::Rmdir, 0)], [0, 0]);
    assert!(!bench.exists("directory"));
}

#[test]
fn a_rename_never_replaces_a_file() {
    let mut bench = Bench::new(false);
    for (kind, file) in [(OperationKind::Mkdir, 0), (OperationKind::Create, 1), (OperationKind::Create, 2)] {
        assert_eq!(bench.does(kind, file), 0);
    }
    assert_eq!(bench.does_at(OperationKind::Rename, 1, 2, 1), -i64::from(libc::EEXIST));
    assert_eq!(bench.does_at(OperationKind::Rename, 1, 9, 1), -i64::from(libc::EINVAL));
    assert!(bench.exists("directory/file") && bench.exists("directory/other"));
}

#[test]
fn data_move_while_a_file_is_open() {
    let mut bench = Bench::new(true);
    bench.buffers.slot_mut(0, 3).copy_from_slice(b"abc");
    assert_eq!(bench.does(OperationKind::Mkdir, 0), 0);
    assert_eq!(bench.does_at(OperationKind::Write, 1, 0, 3), CLOSED);
    assert_eq!(bench.does(OperationKind::Create, 1), 0);
    assert_eq!(bench.does_at(OperationKind::Write, 1, 5, 3), 3);
    assert_eq!(bench.does(OperationKind::Fsync, 1), 0);
    assert_eq!([bench.does(OperationKind::Close, 1), bench.does(OperationKind::Close, 1)], [0, CLOSED]);
    assert_eq!([bench.does(OperationKind::Open, 1), bench.does_at(OperationKind::Read, 1, 4, 4)], [0, 4]);
    assert_eq!(bench.buffers.slot(0, 4), b"\0abc");
    assert_eq!([bench.does(OperationKind::Delete, 1), bench.does_at(OperationKind::Read, 1, 4, 4)], [0, CLOSED]);
}

#[test]
fn a_queued_operation_keeps_its_file_though_it_is_closed_before() {
    let mut bench = Bench::new(true);
    assert_eq!([bench.does(OperationKind::Mkdir, 0), bench.does(OperationKind::Create, 1)], [0, 0]);
    let bytes = BLOCK as u32;
    assert_eq!(bench.does_at(OperationKind::Write, 1, 0, bytes), i64::from(bytes));
    let address = Address { file: 1, offset: 0, length: bytes };
    let queued = bench.engine.job(Request { slot: 0, kind: OperationKind::Read, address });
    // The next file has the number of a descriptor that is closed.
    assert_eq!([bench.does(OperationKind::Close, 1), bench.does(OperationKind::Create, 2)], [0, 0]);
    assert_eq!(bench.engine.access.perform(queued).result, i64::from(bytes));
}

#[test]
fn operations_that_have_become_slow_are_carried_out_on_one_processor() {
    let mut bench = Bench::new(false);
    let address = Address { file: 0, offset: 0, length: 1 };
    let mut jobs = vec![bench.engine.job(Request { slot: 0, kind: OperationKind::Mkdir, address })];
    let mut pool = Pool::new(bench.engine.access.clone(), 2).unwrap();
    pool.send_as_short(&mut jobs);
    let mut performed = Vec::new();
    pool.reap(Some(Instant::now() + Duration::from_secs(5)), &mut performed);
    assert_eq!(performed.len(), 1);
}

#[test]
fn a_file_is_open_afterwards_only_if_the_plan_keeps_it_open() {
    let mut bench = Bench::new(false);
    assert_eq!([bench.does(OperationKind::Mkdir, 0), bench.does(OperationKind::Create, 1)], [0, 0]);
    assert_eq!([bench.does_at(OperationKind::Read, 1, 0, 1), bench.does(OperationKind::Close, 1)], [CLOSED, CLOSED]);
}

#[test]
fn a_path_that_is_no_file_and_no_directory_is_refused_before_anything_is_changed() {
    let files = [plan("/dev/null".to_owned())];
    let (open, buffers) = (open(false), Buffers::new(1, BLOCK));
    // SAFETY: no request is submitted.
    let slots = unsafe { buffers.slot_map() };
    let setup = Setup { open: &open, files: &files, writes: true, slots, depth: 1, clock: Clock::new() };
    let error = MetadataEngine::open(setup, false, None).unwrap_err().to_string();
    let expected =
        "/dev/null is neither a regular file nor a directory, and metadata operations are for those; name another path";
    assert_eq!(error, expected);
}

#[test]
fn requests_that_do_not_fit_are_refused() {
    let mut bench = Bench::new(false);
    let read =
        |slot, file, length| Request { slot, kind: OperationKind::Read, address: Address { file, offset: 0, length } };
    for request in [read(1, 0, 1), read(0, 3, 1), read(0, 0, BLOCK as u32 + 1)] {
        assert!(bench.engine.submit(request).is_err(), "{request:?}");
    }
    assert!(bench.engine.submit(Request { kind: OperationKind::Trim, ..read(0, 0, 1) }).is_err());
}
