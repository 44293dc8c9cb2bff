use super::*;
use crate::engines::emulated::cache::BLOCK_BYTES;
use crate::plan::tests::disk as plan;
use crate::plan::{IoBurst, IoLimits};

const S: Nanos = 1_000_000_000;
const MB: u64 = 1_000_000;

fn limits(iops: u64, bytes_per_s: u64) -> IoLimits {
    IoLimits { iops, bytes_per_s, burst: None }
}

/// A `Standard_D8ds_v4` with a cache of `cache_blocks` blocks: 12,800 IOPS and 192 MB/s uncached, 77,000 and 485 MB/s
/// cached.
fn vm(cache_blocks: u64) -> VmPlan {
    let cache_bytes = cache_blocks * BLOCK_BYTES;
    let (uncached, cached) = (Some(limits(12_800, 192 * MB)), Some(limits(77_000, 485 * MB)));
    VmPlan { name: "Standard_D8ds_v4".into(), uncached, cached, cache_bytes }
}

/// `stripe` P30 disks, striped.
fn p30(stripe: u64, cache: HostCache) -> DiskPlan {
    DiskPlan { limits: limits(stripe * 5_000, stripe * 200 * MB), cache, ..plan() }
}

fn machine(vm: Option<&VmPlan>, disks: &[DiskPlan]) -> Machine {
    let mut machine = Machine::new(vm, 0, 0);
    for (number, disk) in disks.iter().enumerate() {
        assert_eq!(machine.attach(disk, 0), number);
        assert_eq!(machine.cache.add_file(Vec::new(), 0), number);
    }
    machine
}

fn access(kind: OperationKind, block: u64, length: u32) -> Access {
    Access { kind, file: 0, offset: block * BLOCK_BYTES, length }
}

fn read(block: u64) -> Access {
    access(OperationKind::Read, block, 4096)
}

fn write(block: u64) -> Access {
    access(OperationKind::Write, block, 4096)
}

/// Completion time of an operation submitted after `count` others, all at 0, and the limit it waited for.
fn behind(machine: &mut Machine, disk: usize, count: u64, access: impl Fn(u64) -> Access) -> (Nanos, Option<Limit>) {
    let admitted = (0..=count).map(|block| machine.admit(disk, access(block), 0)).last().unwrap();
    (admitted.due, admitted.limit)
}

#[test]
fn without_a_machine_the_disk_alone_is_the_limit() {
    let mut alone = machine(None, &[p30(1, HostCache::None)]);
    assert_eq!(behind(&mut alone, 0, 5_000, read), (S, Some(Limit::DiskIops)));
    let mut alone = machine(None, &[p30(1, HostCache::None)]);
    let large = |block| access(OperationKind::Write, block, 250_000);
    assert_eq!(behind(&mut alone, 0, 800, large), (S, Some(Limit::DiskThroughput)));
}

#[test]
fn a_large_operation_counts_as_several() {
    let mut alone = machine(None, &[DiskPlan { limits: limits(100, 1_000 * MB), ..plan() }]);
    let each: Vec<Nanos> = [256 << 10, (256 << 10) + 1, 1 << 20]
        .into_iter()
        .map(|length| alone.admit(0, access(OperationKind::Read, 0, length), 0).due)
        .collect();
    assert_eq!(each, [0, S / 100, S / 100 * 3]);
    assert_eq!(alone.admit(0, access(OperationKind::Read, 0, 1), 0).due, S / 100 * 7);
}

#[test]
fn three_striped_disks_are_held_by_the_machines_uncached_limit() {
    let vm = vm(0);
    let mut striped = machine(Some(&vm), &[p30(3, HostCache::None)]);
    assert_eq!(behind(&mut striped, 0, 12_800, write), (S, Some(Limit::UncachedIops)));
    // 64 KiB: 192 MB/s are less than three times 200.
    let mut striped = machine(Some(&vm), &[p30(3, HostCache::None)]);
    let large = |block| access(OperationKind::Write, block, 64_000);
    assert_eq!(behind(&mut striped, 0, 3_000, large), (S, Some(Limit::UncachedThroughput)));
}

#[test]
fn a_cold_cache_reads_at_the_disks_speed_and_a_warm_one_at_its_own() {
    let vm = vm(100_000);
    let mut cached = machine(Some(&vm), &[p30(1, HostCache::ReadOnly)]);
    assert_eq!(behind(&mut cached, 0, 5_000, read), (S, Some(Limit::DiskIops)));
    // 5,001 hits, behind the 5,001 misses that went through the cache, too.
    let (due, limit) = behind(&mut cached, 0, 5_000, read);
    assert_eq!((due, limit), ((10_001 * S).div_ceil(77_000), Some(Limit::CachedIops)));
}

#[test]
fn cached_reads_and_uncached_writes_do_not_hold_each_other_up() {
    let vm = vm(100_000);
    let mut both = machine(Some(&vm), &[p30(3, HostCache::None), p30(1, HostCache::ReadOnly)]);
    (0..1_000).for_each(|block| assert!(!both.cache.read(0, block * BLOCK_BYTES, BLOCK_BYTES)));
    let reads = |number| read(number % 1_000);
    assert_eq!(behind(&mut both, 1, 77_000, reads), (S, Some(Limit::CachedIops)));
    assert_eq!(behind(&mut both, 0, 12_800, write), (S, Some(Limit::UncachedIops)));
}

#[test]
fn a_write_goes_through_a_read_only_cache_and_fills_it() {
    let vm = vm(100_000);
    let mut cached = machine(Some(&vm), &[DiskPlan { latency_ns: 7, ..p30(1, HostCache::ReadOnly) }]);
    assert_eq!(behind(&mut cached, 0, 5_000, write), (S + 7, Some(Limit::DiskIops)));
    assert_eq!(cached.admit(0, read(17), S), Admitted { due: S, limit: None, is_hit: false });
    let hit = cached.admit(0, read(17), S);
    assert_eq!(hit, Admitted { due: S + S.div_ceil(77_000), limit: Some(Limit::CachedIops), is_hit: true });
}

#[test]
fn a_write_to_a_read_write_cache_is_done_there_and_a_flush_waits_for_the_disk() {
    let vm = vm(100_000);
    let mut cached = machine(Some(&vm), &[p30(1, HostCache::ReadWrite)]);
    let (due, limit) = behind(&mut cached, 0, 5_000, write);
    assert_eq!((due, limit), ((5_000 * S).div_ceil(77_000), Some(Limit::CachedIops)));
    let flush = cached.admit(0, access(OperationKind::Fsync, 0, 0), 0);
    assert_eq!(flush, Admitted { due: S, limit: None, is_hit: false });
    assert_eq!(cached.admit(0, access(OperationKind::Fsync, 0, 0), 2 * S).due, 2 * S);
}

#[test]
fn a_read_write_cache_that_is_full_takes_writes_as_fast_as_the_disk_does() {
    let vm = vm(100);
    let mut cached = machine(Some(&vm), &[p30(1, HostCache::ReadWrite)]);
    // The first of a hundred is on the disk at once, so the hundredth finds space in the cache.
    let full = behind(&mut cached, 0, 100, write);
    assert_eq!(full, ((100 * S).div_ceil(77_000), Some(Limit::CachedIops)));
    // The next ones find space as those before them reach the disk.
    let next: Vec<Nanos> = (0..50).map(|block| cached.admit(0, write(block), 0).due).collect();
    assert_eq!(next[49], 50 * S / 5_000);
}

#[test]
fn trims_count_against_nothing() {
    let mut alone = machine(None, &[p30(1, HostCache::None)]);
    let trims = |block| access(OperationKind::Trim, block, 1 << 30);
    assert_eq!(behind(&mut alone, 0, 100, trims), (0, None));
    assert_eq!(behind(&mut alone, 0, 0, read), (0, None));
    assert_eq!(behind(&mut alone, 0, 0, read), (S / 5_000, Some(Limit::DiskIops)));
}

/// A P20 with credits for two seconds: 3,500 IOPS while they last, then 2,300.
#[test]
fn a_burst_ends_with_its_credits() {
    let burst = IoBurst { iops: 3_500, bytes_per_s: 170 * MB, duration_ns: 2 * S };
    let p20 = DiskPlan { limits: IoLimits { burst: Some(burst), ..limits(2_300, 150 * MB) }, ..plan() };
    let mut machine = machine(None, std::slice::from_ref(&p20));
    let mut now = 0;
    let mut done = [0; 6];
    // A closed loop with one operation in flight.
    while now < 6 * S {
        now = machine.admit(0, read(0), now).due;
        if let Some(second) = done.get_mut((now / S) as usize) {
            *second += 1;
        }
    }
    assert_eq!(done, [3_500, 3_500, 2_300, 2_300, 2_300, 2_300]);
    // While idle it gains the credits that it does not use.
    assert_eq!(machine.credits(0, now + S)[0].1[0], 2_299);
}

#[test]
fn recently_missed_throughput_is_made_up_for() {
    let mut machine = Machine::new(None, S / 20, 0);
    machine.attach(&p30(1, HostCache::None), 0);
    // 50 ms are 250 operations, however long the disk was idle.
    assert_eq!(behind(&mut machine, 0, 250, read), (0, None));
    assert_eq!(machine.admit(0, read(0), 10 * S).due, 10 * S);
    let due: Vec<Nanos> = (0..252).map(|block| machine.admit(0, read(block), 20 * S).due - 20 * S).collect();
    assert_eq!(due[249..], [0, 0, S / 5_000]);
}

#[test]
fn credits_are_gained_up_to_the_full_bucket_while_idle() {
    let burst = IoBurst { iops: 3_500, bytes_per_s: 170 * MB, duration_ns: 10 * S };
    let p20 = DiskPlan { limits: IoLimits { burst: Some(burst), ..limits(2_300, 150 * MB) }, ..plan() };
    let credits = |left, since| {
        let mut machine = machine(None, std::slice::from_ref(&p20));
        machine.restore_credits(0, "disk", left, since, 0);
        machine.credits(0, 0)
    };
    assert_eq!(credits([0, -5], 0), [("disk", [0, -5])]);
    assert_eq!(credits([100, 0], 2 * S), [("disk", [4_700, 200_000_000])]);
    assert_eq!(credits([0, 0], 3600 * S), [("disk", [12_000, 200_000_000])]);
}
