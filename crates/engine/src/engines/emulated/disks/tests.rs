use super::*;
use crate::engines::emulated::cache::BLOCK_BYTES;
use crate::engines::emulated::model::Limit;
use crate::engines::testing::Scratch;
use crate::plan::tests::{disk, file, worker};
use crate::plan::{Group, HostCache, IoBurst, IoLimits, OperationKind, VmPlan, Worker};

const S: Nanos = 1_000_000_000;

fn cached(scratch: &Scratch, state: &str) -> DiskPlan {
    let limits = IoLimits { iops: 1_000_000, bytes_per_s: 1 << 40, burst: None };
    let vm = VmPlan { name: "vm".into(), uncached: None, cached: Some(limits), cache_bytes: 100 * BLOCK_BYTES };
    let slow = IoLimits { iops: 10, bytes_per_s: 1 << 40, burst: None };
    let state_path = scratch.other(state);
    DiskPlan { state_path, cache: HostCache::ReadOnly, limits: slow, vm: Some(vm), ..disk() }
}

fn plan(disks: &[DiskPlan]) -> Plan {
    let workers = disks.iter().map(|disk| Worker { disk: Some(disk.clone()), ..worker() }).collect();
    Plan { version: 2, name: "t".into(), interval_ns: S, groups: vec![Group { workers }] }
}

fn open(disks: &[DiskPlan]) -> Disks {
    Disks::open(&plan(disks), 0, &Clock::manual()).unwrap()
}

/// By block: `true` if it is in the cache; reading the blocks caches them.
fn hits(disk: &Disk, path: &str, blocks: std::ops::Range<u64>) -> Vec<bool> {
    let number = disk.files(&[file(path, 1 << 20)])[0];
    let read = |block| Access { kind: OperationKind::Read, file: number, offset: block * BLOCK_BYTES, length: 4096 };
    // From now on, operations that go to the disk have to wait for it.
    disk.admit(Access { kind: OperationKind::Write, length: 1, ..read(200) }, 0);
    blocks.map(|block| disk.admit(read(block), 0).limit != Some(Limit::DiskIops)).collect()
}

#[test]
fn the_next_run_finds_the_cache_warm() {
    let scratch = Scratch::with_file("warm", 1 << 20);
    let plans = [cached(&scratch, "state.json")];
    let first = open(&plans);
    assert_eq!(hits(&first.get(&plans[0]), scratch.path(), 0..3), [false; 3]);
    first.keep().unwrap();
    drop(first);
    let second = open(&plans);
    assert_eq!(hits(&second.get(&plans[0]), scratch.path(), 0..4), [true, true, true, false]);
    // Drops the disk without saving, as if the process had been killed.
    drop(second);
    assert_eq!(hits(&open(&plans).get(&plans[0]), scratch.path(), 0..4), [true, true, true, false]);
}

#[test]
fn another_file_of_the_same_name_is_not_cached() {
    let scratch = Scratch::with_file("anew", 1 << 20);
    let plans = [cached(&scratch, "state.json")];
    let first = open(&plans);
    assert_eq!(hits(&first.get(&plans[0]), scratch.path(), 0..3), [false; 3]);
    first.keep().unwrap();
    drop(first);
    fs::write(scratch.other("new"), "anew").unwrap();
    fs::rename(scratch.other("new"), scratch.path()).unwrap();
    assert_eq!(hits(&open(&plans).get(&plans[0]), scratch.path(), 0..3), [false; 3]);
}

#[test]
fn disks_of_one_machine_share_its_cache_and_keep_their_own_part_of_it() {
    let scratch = Scratch::with_file("two", 1 << 20);
    fs::write(scratch.other("b"), vec![0; 1 << 20]).unwrap();
    let plans = [cached(&scratch, "a.json"), cached(&scratch, "b.json")];
    let disks = open(&plans);
    assert_eq!(hits(&disks.get(&plans[0]), scratch.path(), 0..80), [false; 80]);
    assert_eq!(hits(&disks.get(&plans[1]), &scratch.other("b"), 0..60), [false; 60]);
    disks.keep().unwrap();
    drop(disks);
    let kept = |index: usize| {
        let state = State::read(Path::new(&plans[index].state_path)).unwrap().unwrap();
        state.files.iter().flat_map(CachedFile::words).map(u64::count_ones).sum::<u32>()
    };
    // 140 blocks do not fit in 100.
    assert_eq!((kept(0), kept(1)), (40, 60));
}

#[test]
fn burst_credits_are_kept() {
    let scratch = Scratch::new("credits");
    let burst = IoBurst { iops: 200, bytes_per_s: 2, duration_ns: 1_000 * S };
    let limits = IoLimits { iops: 1, bytes_per_s: 1, burst: Some(burst) };
    let plans = [DiskPlan { state_path: scratch.other("state.json"), limits, ..disk() }];
    let disks = open(&plans);
    for _ in 0..1_000 {
        disks.get(&plans[0]).admit(Access { kind: OperationKind::Read, file: 0, offset: 0, length: 1 }, 0);
    }
    disks.keep().unwrap();
    drop(disks);
    let state = State::read(Path::new(&plans[0].state_path)).unwrap().unwrap();
    assert_eq!(state.credits["disk"], [198_000, 0]);
    let again = open(&plans);
    let left = lock_of(&again.get(&plans[0]).machine).machine.credits(0, 0);
    // Seconds may have passed since; hardly a thousand.
    assert!((198_000..199_000).contains(&left[0].1[0]), "{left:?}");
}

#[test]
fn two_runs_cannot_use_one_disk_at_once() {
    let scratch = Scratch::new("locked");
    let plans = [cached(&scratch, "state.json")];
    let first = open(&plans);
    let directory = Path::new(scratch.path()).parent().unwrap().display().to_string();
    let text = Disks::open(&plan(&plans), 0, &Clock::manual()).unwrap_err().to_string();
    assert_eq!(
        text,
        format!(
            "{directory}: the emulated disk is in use by another run; wait until that run has ended, or name another directory"
        )
    );
    drop(first);
    assert!(Disks::open(&plan(&plans), 0, &Clock::manual()).is_ok());
}

#[test]
fn an_invalid_state_is_refused_and_stays() {
    let scratch = Scratch::new("broken");
    let plans = [cached(&scratch, "state.json")];
    let text = |content: &str| {
        fs::write(&plans[0].state_path, content).unwrap();
        let error = Disks::open(&plan(&plans), 0, &Clock::manual()).unwrap_err().to_string();
        assert_eq!(fs::read_to_string(&plans[0].state_path).unwrap(), content);
        error.replace(&plans[0].state_path, "FILE")
    };
    let advice = "remove it to start with a new disk";
    let newer = r#"{"version":9,"saved_unix_ns":0,"credits":{},"files":[]}"#;
    assert_eq!(text(newer), format!("FILE is not a valid state of an emulated disk (it has version 9); {advice}"));
    assert_eq!(
        text("{"),
        format!(
            "FILE is not a valid state of an emulated disk (EOF while parsing an object at line 1 column 1); {advice}"
        )
    );
}
