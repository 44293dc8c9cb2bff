use std::collections::BTreeSet;

use super::*;
use crate::plan::tests::{file, operation, worker};
use crate::plan::{
    Access, BlockShare, Blocks, Cover, Distribution, End, FilePlan, FileSelect, OperationKind, OperationPlan, Strided,
    Zone,
};

const K: u64 = 1024;
const ONCE_SAME: Access = with(Cover::Once, Passes::Same);
const ONCE_FRESH: Access = with(Cover::Once, Passes::Fresh);
const INDEPENDENT: Access = with(Cover::Independent, Passes::Fresh);
const SEQUENTIAL: Access = ONCE_SAME;

const fn with(cover: Cover, passes: Passes) -> Access {
    Access {
        cover,
        passes,
        run_length: 1,
        gap_bytes: 0,
        gap_spread_bytes: 0,
        at_end: AtEnd::Wrap,
        position: Position::Kind,
        strided: None,
        short_last_block: false,
    }
}

fn offsets(plan: &Worker) -> Offsets {
    Offsets::new(plan, &SharedPositions::default()).unwrap()
}

fn files(sizes: &[u64]) -> Vec<FilePlan> {
    sizes.iter().map(|&bytes| file("f", bytes)).collect()
}

fn split(parts: &[(u64, u32)]) -> Blocks {
    Blocks::Split { parts: parts.iter().map(|&(bytes, weight)| BlockShare { bytes: bytes as u32, weight }).collect() }
}

fn reads(random_percent: u32, blocks: Blocks) -> Vec<OperationPlan> {
    vec![OperationPlan { blocks, random_percent, ..operation(OperationKind::Read, 1) }]
}

fn blocks(bytes: u64) -> Blocks {
    Blocks::Fixed { bytes: bytes as u32 }
}

/// Reads and writes of 4 KiB.
fn both(random_percent: u32) -> Vec<OperationPlan> {
    [OperationKind::Read, OperationKind::Write]
        .map(|kind| OperationPlan { random_percent, ..operation(kind, 4096) })
        .into()
}

fn sequential(sizes: &[u64], access: Access) -> Worker {
    Worker { files: files(sizes), operations: reads(0, blocks(4 * K)), access, ..worker() }
}

fn random(sizes: &[u64], access: Access) -> Worker {
    Worker { files: files(sizes), operations: reads(100, blocks(4 * K)), access, ..worker() }
}

fn by_bytes(bytes: u64) -> End {
    End { runtime_ns: None, bytes: Some(bytes), operations: None, when_full: false }
}

/// Files and offsets in KiB.
fn take(offsets: &mut Offsets, count: usize) -> Vec<(u32, u64)> {
    (0..count).map(|_| place(offsets, 0)).collect()
}

fn place(offsets: &mut Offsets, operation: usize) -> (u32, u64) {
    let address = offsets.next(operation).unwrap();
    assert_eq!(address.offset % K, 0);
    (address.file, address.offset / K)
}

/// Offsets in KiB in the only file.
fn places(plan: &Worker, count: usize) -> Vec<u64> {
    take(&mut offsets(plan), count).into_iter().map(|(_, offset)| offset).collect()
}

/// Offsets and lengths in KiB of all operations.
fn all(plan: &Worker) -> Vec<(u64, u64)> {
    let mut offsets = offsets(plan);
    std::iter::from_fn(|| offsets.next(0))
        .map(|address| (address.offset / K, u64::from(address.length) / K))
        .take(100_000)
        .collect()
}

/// Returns `true` if operations touch every KiB from `from` to `to` once, and no other.
fn covers_once(operations: &[(u64, u64)], from: u64, to: u64) -> bool {
    let mut touched: Vec<u64> = operations.iter().flat_map(|&(offset, length)| offset..offset + length).collect();
    touched.sort_unstable();
    touched.into_iter().eq(from..to)
}

mod sequential {
    use super::*;

    #[test]
    fn it_goes_through_and_starts_again_leaving_the_odd_tail() {
        let plan = sequential(&[12 * K + 100], SEQUENTIAL);
        assert_eq!(places(&plan, 4), [0, 4, 8, 0]);
    }

    #[test]
    fn the_tail_is_the_last_operation_where_the_plan_says_so() {
        let access = Access { short_last_block: true, ..SEQUENTIAL };
        let plan = Worker { end: by_bytes(26 * K), ..sequential(&[9 * K, 4 * K, 3 * K], access) };
        let plan = Worker { file_select: FileSelect::Sequential, ..plan };
        let mut offsets = offsets(&plan);
        let taken = std::iter::from_fn(|| offsets.next(0)).take(6);
        let taken: Vec<_> = taken.map(|Address { file, offset, length }| (file, offset / K, length)).collect();
        assert_eq!(taken, [(0, 0, 4096), (0, 4, 4096), (0, 8, 1024), (1, 0, 4096), (2, 0, 3072), (0, 0, 4096)]);
        let random = Worker { access, ..random(&[9 * K], ONCE_SAME) };
        let refused = Offsets::new(&random, &SharedPositions::default()).unwrap_err().to_string();
        assert!(refused.contains("a short last block needs sequential operations without gaps"), "{refused}");
    }

    #[test]
    fn each_kind_has_its_own_position() {
        let mut all = offsets(&Worker { operations: both(0), ..sequential(&[32 * K], SEQUENTIAL) });
        assert_eq!([0, 1, 0, 1].map(|operation| place(&mut all, operation).1), [0, 0, 4, 4]);
    }

    #[test]
    fn all_kinds_of_a_worker_can_share_a_position() {
        let access = Access { position: Position::Worker, ..SEQUENTIAL };
        let mut all = offsets(&Worker { operations: both(0), ..sequential(&[16 * K], access) });
        assert_eq!([0, 1, 1, 0, 1].map(|operation| place(&mut all, operation).1), [0, 4, 8, 12, 0]);
    }

    #[test]
    fn the_workers_of_a_job_can_share_a_position_in_the_same_region() {
        let access = Access { position: Position::Job, ..SEQUENTIAL };
        let other = Worker { job: "other".into(), ..sequential(&[16 * K], access) };
        let group = Group { workers: vec![sequential(&[16 * K], access), sequential(&[16 * K], access), other] };
        let shared = SharedPositions::of_group(&group);
        let mut all: Vec<_> =
            group.workers.iter().zip(&shared).map(|(plan, shared)| Offsets::new(plan, shared).unwrap()).collect();
        let seen = [0, 1, 2, 1, 0, 1, 2].map(|worker| place(&mut all[worker], 0).1);
        assert_eq!(seen, [0, 4, 0, 8, 12, 0, 4]);
    }

    #[test]
    fn a_shared_position_that_stops_ends_all_its_workers() {
        let access = Access { position: Position::Job, at_end: AtEnd::Stop, ..SEQUENTIAL };
        let group = Group { workers: vec![sequential(&[12 * K], access), sequential(&[12 * K], access)] };
        let shared = SharedPositions::of_group(&group);
        let mut one = Offsets::new(&group.workers[0], &shared[0]).unwrap();
        let mut other = Offsets::new(&group.workers[1], &shared[1]).unwrap();
        assert_eq!([place(&mut one, 0).1, place(&mut other, 0).1, place(&mut one, 0).1], [0, 4, 8]);
        assert_eq!((one.next(0), other.next(0)), (None, None));
    }

    #[test]
    fn threads_that_share_a_position_take_every_place_once() {
        let access = Access { position: Position::Job, at_end: AtEnd::Stop, ..SEQUENTIAL };
        let plan = Worker { operations: reads(0, blocks(K)), ..sequential(&[10_000 * K], access) };
        let group = Group { workers: vec![plan; 4] };
        let mut seen: Vec<(u64, u64)> = std::thread::scope(|scope| {
            let shared = SharedPositions::of_group(&group);
            let threads: Vec<_> = group
                .workers
                .iter()
                .zip(shared)
                .map(|(plan, shared)| {
                    scope.spawn(move || {
                        let mut all = Offsets::new(plan, &shared).unwrap();
                        std::iter::from_fn(|| all.next(0)).map(|at| (at.offset / K, 1)).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        seen.sort_unstable();
        assert!(covers_once(&seen, 0, 10_000));
    }

    #[test]
    fn a_gap_is_left_out_and_one_that_leads_behind_the_end_leads_to_the_start() {
        // As fio does with rw=read:8k and size=60k.
        let plan = sequential(&[60 * K], Access { gap_bytes: 8 * K as i64, ..SEQUENTIAL });
        assert_eq!(places(&plan, 7), [0, 12, 24, 36, 48, 0, 12]);
    }

    #[test]
    fn backwards_it_goes_on_from_the_end() {
        // As fio does with rw=read:-8k and size=64k.
        let plan = sequential(&[64 * K], Access { gap_bytes: -8 * K as i64, ..SEQUENTIAL });
        let expected = [0, 56, 52, 48, 44, 40, 36, 32, 28, 24, 20, 16, 12, 8, 4, 0];
        assert_eq!(places(&plan, 16), expected);
        assert_eq!(places(&Worker { end: by_bytes(64 * K), ..plan }, 16), expected);
    }

    #[test]
    fn a_gap_shorter_than_the_block_goes_forward_in_smaller_steps() {
        let plan = sequential(&[12 * K], Access { gap_bytes: -(K as i64), ..SEQUENTIAL });
        assert_eq!(places(&plan, 5), [0, 3, 6, 0, 3]);
    }

    #[test]
    fn a_gap_can_be_drawn() {
        let access = Access { gap_bytes: K as i64, gap_spread_bytes: 8 * K, ..SEQUENTIAL };
        let mut all = offsets(&sequential(&[1 << 30], access));
        let seen: Vec<u64> = (0..1000).map(|_| all.next(0).unwrap().offset).collect();
        let gaps: Vec<u64> = seen.windows(2).map(|pair| pair[1] - pair[0] - 4 * K).collect();
        assert!(gaps.iter().all(|gap| (K..=9 * K).contains(gap)), "{gaps:?}");
        let mean = gaps.iter().sum::<u64>() / gaps.len() as u64;
        // 5 KiB are expected; five standard deviations are 374.
        assert!(mean.abs_diff(5 * K) < 374, "{mean}");
    }

    #[test]
    fn it_begins_at_the_given_offset_and_wraps_to_the_region_s_start() {
        let mut plan = sequential(&[16 * K], SEQUENTIAL);
        (plan.files[0].offset_bytes, plan.files[0].start_bytes) = (64 * K, 8 * K);
        assert_eq!(places(&plan, 4), [72, 76, 64, 68]);
    }

    #[test]
    fn blocks_of_several_sizes_fill_the_region_except_a_rest_too_small_for_any() {
        let access = Access { at_end: AtEnd::Stop, ..SEQUENTIAL };
        for seed in 0..50 {
            for (parts, rest) in [(split(&[(4 * K, 1), (12 * K, 1)]), 0), (split(&[(3 * K, 1), (6 * K, 1)]), 1)] {
                let plan = Worker { operations: reads(0, parts), seed, ..sequential(&[64 * K], access) };
                assert!(covers_once(&all(&plan), 0, 64 - rest), "{:?}", all(&plan));
            }
        }
    }

    #[test]
    fn at_the_end_nothing_comes_any_more_if_it_is_to_stop() {
        let access = Access { at_end: AtEnd::Stop, ..SEQUENTIAL };
        let mut all = offsets(&sequential(&[8 * K, 4 * K], access));
        assert_eq!(take(&mut all, 3), [(0, 0), (1, 0), (0, 4)]);
        assert_eq!((all.next(0), all.next(0)), (None, None));
        let mut late = sequential(&[8 * K], access);
        late.files[0].start_bytes = 5 * K;
        assert_eq!(offsets(&late).next(0), None);
    }
}

mod random {
    use super::*;

    #[test]
    fn once_visits_every_block_of_a_pass() {
        let mut all = offsets(&random(&[1 << 20], ONCE_FRESH));
        let expected: BTreeSet<(u32, u64)> = (0..256).map(|block| (0, block * 4)).collect();
        for _ in 0..3 {
            assert_eq!(take(&mut all, 256).into_iter().collect::<BTreeSet<_>>(), expected);
        }
    }

    #[test]
    fn a_kind_goes_to_the_same_places_alone_and_among_others() {
        for access in [ONCE_SAME, ONCE_FRESH] {
            let alone = Worker { end: by_bytes(5 << 20), ..random(&[1 << 20], access) };
            let besides = [operation(OperationKind::Write, 4096)];
            let among = Worker { operations: [&alone.operations[..], &besides].concat(), ..alone.clone() };
            assert!(matches!(offsets(&alone).source, Source::Scattered(_)));
            assert!(matches!(offsets(&among).source, Source::Regions));
            assert_eq!(places(&alone, 1000), places(&among, 1000));
        }
    }

    #[test]
    fn passes_repeat_or_do_not() {
        let mixed =
            |access| Worker { operations: reads(100, split(&[(4 * K, 1), (8 * K, 1)])), ..random(&[1 << 20], access) };
        for (same, fresh) in
            [(random(&[1 << 20], ONCE_SAME), random(&[1 << 20], ONCE_FRESH)), (mixed(ONCE_SAME), mixed(ONCE_FRESH))]
        {
            let two_passes = |plan: &Worker| {
                let mut offsets = offsets(plan);
                [(), ()].map(|()| {
                    let mut left = 1 << 20;
                    std::iter::from_fn(|| {
                        let address = (left > 0).then(|| offsets.next(0).unwrap())?;
                        left -= u64::from(address.length);
                        Some(address)
                    })
                    .collect::<Vec<_>>()
                })
            };
            for end in [End { runtime_ns: Some(1), bytes: None, operations: None, when_full: false }, by_bytes(2 << 20)]
            {
                let [first, second] = two_passes(&Worker { end, ..same.clone() });
                assert!(first == second);
                let [first, second] = two_passes(&Worker { end, ..fresh.clone() });
                assert!(first != second);
            }
        }
    }

    #[test]
    fn kinds_of_one_block_size_share_the_random_map() {
        let mut all = offsets(&Worker { operations: both(100), ..random(&[1 << 20], ONCE_FRESH) });
        let seen: BTreeSet<u64> = (0..256).map(|i| place(&mut all, i % 2).1).collect();
        assert_eq!(seen.len(), 256);
    }

    #[test]
    fn kinds_of_several_block_sizes_touch_no_byte_twice() {
        for seed in 0..50 {
            let mut operations = both(100);
            operations[1].blocks = blocks(12 * K);
            let mut all = offsets(&Worker { operations, seed, ..random(&[100 * K], ONCE_FRESH) });
            let (mut seen, mut bytes) = (Vec::new(), 0);
            while bytes < 100 {
                let address = all.next((seed as usize + seen.len()) % 2).unwrap();
                seen.push((address.offset / K, u64::from(address.length) / K));
                bytes += u64::from(address.length) / K;
            }
            assert!(covers_once(&seen, 0, 100), "{seen:?}");
        }
    }

    #[test]
    fn blocks_of_several_sizes_visit_every_byte_once_and_are_shortened_if_necessary() {
        let access = Access { at_end: AtEnd::Stop, ..ONCE_FRESH };
        let mut shortened = 0;
        for seed in 0..50 {
            for sizes in [
                split(&[(4 * K, 50), (16 * K, 50)]),
                split(&[(2 * K, 1), (32 * K, 99)]),
                Blocks::Range { low: 4096, high: 65_536, step: 4096 },
            ] {
                let plan = Worker { operations: reads(100, sizes.clone()), seed, ..random(&[512 * K], access) };
                let seen = all(&plan);
                let unit = u64::from(sizes.smallest()) / K;
                assert!(seen.iter().all(|&(offset, length)| offset % unit == 0 && length % unit == 0));
                assert!(covers_once(&seen, 0, 512), "{seen:?}");
                if unit == 2 {
                    shortened += seen.iter().filter(|&&(_, length)| length != 2 && length != 32).count();
                }
            }
        }
        assert!(shortened > 0);
    }

    #[test]
    fn places_far_enough_apart_need_no_map() {
        let mut operations = reads(100, split(&[(K, 1), (3 * K, 1)]));
        operations[0].align_bytes = 4 * K;
        let plan = Worker { operations, ..random(&[1 << 40], ONCE_FRESH) };
        let mut all = offsets(&plan);
        let seen: BTreeSet<u64> = take(&mut all, 1000).into_iter().map(|(_, offset)| offset).collect();
        assert!(seen.len() == 1000 && seen.iter().all(|offset| offset % 4 == 0));
    }

    #[test]
    fn independent_draws_repeat_blocks() {
        let seen: BTreeSet<_> = places(&random(&[1 << 20], INDEPENDENT), 256).into_iter().collect();
        // 1 − 1/e of 256 blocks are expected: 162.
        assert!((130..195).contains(&seen.len()), "{}", seen.len());
    }

    #[test]
    fn offsets_are_multiples_of_the_alignment() {
        let mut plan = random(&[10 * K], INDEPENDENT);
        plan.operations[0].align_bytes = K;
        let seen: BTreeSet<u64> = places(&plan, 1000).into_iter().collect();
        assert!(seen.into_iter().eq(0..=6));
        plan.operations[0].align_bytes = 8 * K;
        assert_eq!(places(&plan, 2), [0, 0]);
    }

    #[test]
    fn a_distribution_knows_no_random_map() {
        let mut plan = random(&[1 << 20], ONCE_SAME);
        plan.operations[0].distribution = Distribution::Zipf { theta: 1.2, center: Some(0.5) };
        let seen = places(&plan, 1000);
        let hits = seen.iter().filter(|&&offset| offset == 512).count();
        // A chance of 0.2605 for the first of 256 ranks; five standard deviations are 69.
        assert!(hits.abs_diff(260) < 69, "{hits}");
    }

    #[test]
    fn every_nth_is_random_and_the_others_follow_it() {
        let mut all = offsets(&Worker {
            operations: both(100),
            ..random(&[1 << 20], Access { run_length: 4, position: Position::Worker, ..ONCE_FRESH })
        });
        let seen: Vec<u64> = (0..4000).map(|i| place(&mut all, i % 2).1).collect();
        for run in seen.chunks(4) {
            let follows = run.windows(2).filter(|pair| pair[1] == pair[0] + 4).count();
            assert!(follows == 3 || run.contains(&1020), "{run:?}");
        }
        let starts: BTreeSet<u64> = seen.chunks(4).map(|run| run[0]).collect();
        assert!(starts.len() > 200, "{}", starts.len());
    }

    #[test]
    fn a_share_of_the_operations_is_random() {
        let plan = Worker { operations: reads(30, blocks(4 * K)), ..random(&[1 << 40], ONCE_FRESH) };
        let seen = places(&plan, 10_001);
        let jumps = seen.windows(2).filter(|pair| pair[1] != pair[0] + 4).count();
        // 3,000 expected; five standard deviations are 230.
        assert!(jumps.abs_diff(3000) < 230, "{jumps}");
    }

    #[test]
    fn a_position_at_the_end_leads_to_a_random_place() {
        let plan = Worker { operations: reads(50, blocks(4 * K)), ..random(&[16 * K], INDEPENDENT) };
        let seen = places(&plan, 4000);
        let after_the_last: BTreeSet<u64> = seen.windows(2).filter(|pair| pair[0] == 12).map(|pair| pair[1]).collect();
        assert!(after_the_last.into_iter().eq([0, 4, 8, 12]));
    }
}

mod identical {
    use super::*;

    #[test]
    fn all_kinds_visit_a_place_before_the_next() {
        for (random_percent, blocks) in [(0, blocks(4 * K)), (100, split(&[(4 * K, 1), (8 * K, 1)]))] {
            let mut operations = both(random_percent);
            operations[0].blocks = blocks;
            let access = Access { position: Position::Identical, ..ONCE_FRESH };
            let mut all = offsets(&Worker { operations, ..random(&[1 << 20, 1 << 20], access) });
            let seen: Vec<Address> = (0..200).map(|i| all.next(i % 2).unwrap()).collect();
            assert!(seen.chunks(2).all(|pair| pair[0] == pair[1]), "{seen:?}");
            assert_eq!(seen.iter().map(|at| (at.file, at.offset)).collect::<BTreeSet<_>>().len(), 100);
        }
    }

    #[test]
    fn all_kinds_visit_an_address_for_a_whole_run() {
        let access = Access { position: Position::Identical, run_length: 2, ..ONCE_FRESH };
        let mut all = offsets(&Worker { operations: both(100), ..random(&[1 << 20], access) });
        let seen: Vec<u64> = (0..8).map(|i| place(&mut all, i % 2).1).collect();
        assert!(seen.chunks(2).all(|pair| pair[0] == pair[1]), "{seen:?}");
        let distances: Vec<u64> = seen.chunks(4).map(|run| run[2].abs_diff(run[0])).collect();
        assert_eq!(distances, [distances[0]; 2]);
    }

    #[test]
    fn each_kind_stays_at_its_place_for_a_run() {
        // As fio does with rw=randrw:4 and rw_sequencer=identical, including the 0 of a kind without an earlier offset.
        let access = Access { position: Position::Repeated, run_length: 4, ..ONCE_FRESH };
        let mut all = offsets(&Worker { operations: both(100), ..random(&[1 << 20], access) });
        let seen: Vec<u64> = [0, 0, 1, 1, 0, 1, 0, 1].into_iter().map(|kind| place(&mut all, kind).1).collect();
        assert_eq!((seen[1], seen[2], seen[3]), (seen[0], 0, 0));
        assert_ne!(seen[4], seen[0]);
        assert_eq!((seen[5], seen[6], seen[7]), (0, seen[4], 0));
    }
}

mod zones {
    use super::*;

    fn strided(range: u64, zone: u64, skip: u64) -> Strided {
        Strided { range_bytes: range * K, zone_bytes: zone * K, skip_bytes: skip * K }
    }

    #[test]
    fn a_zone_is_left_when_its_bytes_are_transferred() {
        // As fio does with zonemode=strided.
        let plan = sequential(&[64 * K], Access { strided: Some(strided(8, 8, 8)), ..SEQUENTIAL });
        assert_eq!(places(&plan, 10), [0, 4, 16, 20, 32, 36, 48, 52, 0, 4]);
        let plan = sequential(&[64 * K], Access { strided: Some(strided(8, 16, 4)), ..SEQUENTIAL });
        assert_eq!(places(&plan, 10), [0, 4, 0, 4, 12, 16, 12, 16, 24, 28]);
    }

    #[test]
    fn a_zone_is_visited_at_random_too() {
        let plan = random(&[64 * K], Access { strided: Some(strided(16, 16, 16)), ..ONCE_FRESH });
        let seen = places(&plan, 12);
        let zones: Vec<BTreeSet<u64>> = seen.chunks(4).map(|zone| zone.iter().copied().collect()).collect();
        assert_eq!(zones, [[0, 4, 8, 12], [32, 36, 40, 44], [0, 4, 8, 12]].map(BTreeSet::from));
    }

    #[test]
    fn the_last_zone_is_cut_off_at_the_end_and_left_out_if_no_block_fits() {
        let plan = sequential(&[46 * K], Access { strided: Some(strided(16, 16, 4)), ..SEQUENTIAL });
        assert_eq!(places(&plan, 13), [0, 4, 8, 12, 20, 24, 28, 32, 40, 40, 40, 40, 0]);
        let plan = sequential(&[43 * K], Access { strided: Some(strided(16, 16, 4)), ..SEQUENTIAL });
        assert_eq!(places(&plan, 9), [0, 4, 8, 12, 20, 24, 28, 32, 0]);
    }

    #[test]
    fn behind_the_last_zone_it_stops_if_it_is_to() {
        let access = Access { strided: Some(strided(8, 8, 24)), at_end: AtEnd::Stop, ..SEQUENTIAL };
        assert_eq!(all(&sequential(&[64 * K], access)), [(0, 4), (4, 4), (32, 4), (36, 4)]);
    }

    #[test]
    fn zones_of_a_distribution_have_their_shares() {
        let zone = |access_percent, offset: u64, bytes: u64| Zone {
            access_percent,
            offset_bytes: offset * K,
            bytes: bytes * K,
        };
        let mut plan = random(&[100 * K], INDEPENDENT);
        plan.operations[0].distribution = Distribution::Zones { zones: vec![zone(90.0, 0, 8), zone(10.0, 80, 100)] };
        let seen = places(&plan, 10_000);
        let first = seen.iter().filter(|&&offset| offset < 8).count();
        assert!(seen.iter().all(|offset| !(8..80).contains(offset)));
        // 9,000 expected; five standard deviations are 150.
        assert!(first.abs_diff(9000) < 150, "{first}");
    }
}

mod passes {
    use super::*;

    #[test]
    fn round_robin_takes_the_files_in_turn() {
        let plan = Worker { operations: reads(0, blocks(K)), ..sequential(&[2 * K, 2 * K], SEQUENTIAL) };
        assert_eq!(take(&mut offsets(&plan), 4), [(0, 0), (1, 0), (0, 1), (1, 1)]);
    }

    #[test]
    fn sequential_file_select_finishes_a_file_first() {
        let plan = Worker { file_select: FileSelect::Sequential, ..sequential(&[8 * K, 4 * K], SEQUENTIAL) };
        assert_eq!(take(&mut offsets(&plan), 5), [(0, 0), (0, 4), (1, 0), (0, 0), (0, 4)]);
        let plan = Worker { file_select: FileSelect::Sequential, ..random(&[64 * K, 32 * K], ONCE_FRESH) };
        let seen: Vec<u32> = take(&mut offsets(&plan), 48).into_iter().map(|(file, _)| file).collect();
        assert_eq!(
            seen,
            [
                [0; 16],
                [1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0],
                [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]
            ]
            .concat()
        );
    }

    #[test]
    fn if_bytes_are_counted_a_smaller_file_waits_for_the_larger() {
        for file_select in [FileSelect::RoundRobin, FileSelect::Random, FileSelect::BySize, FileSelect::Sequential] {
            for plan in [sequential(&[4 * K, 64 * K, 16 * K], SEQUENTIAL), random(&[4 * K, 64 * K, 16 * K], ONCE_FRESH)]
            {
                let mut all = offsets(&Worker { file_select, end: by_bytes(168 * K), ..plan });
                for _ in 0..2 {
                    let pass: BTreeSet<_> = take(&mut all, 21).into_iter().collect();
                    assert_eq!(pass.len(), 21);
                }
            }
        }
    }

    #[test]
    fn under_a_time_alone_each_file_begins_again_by_itself() {
        let mut all = offsets(&sequential(&[4 * K, 12 * K], SEQUENTIAL));
        assert_eq!(take(&mut all, 6), [(0, 0), (1, 0), (0, 0), (1, 4), (0, 0), (1, 8)]);
    }
}

mod refusals {
    use super::*;
    use crate::plan::Distribution::{Normal, Pareto, Zipf, Zones};

    fn refusal(plan: &Worker) -> String {
        check(plan).err().map(|error| error.to_string()).unwrap_or_default()
    }

    fn preferring(distribution: Distribution) -> Worker {
        let mut plan = random(&[64 * K], INDEPENDENT);
        plan.operations[0].distribution = distribution;
        plan
    }

    #[test]
    fn a_region_starts_at_its_offset_and_has_room_for_a_block() {
        let mut plan = sequential(&[1 << 20], SEQUENTIAL);
        plan.files[0].offset_bytes = 1 << 30;
        assert_eq!(places(&plan, 1), [1 << 20]);
        let small = Worker { operations: reads(0, blocks(8 * K)), ..sequential(&[4 * K], SEQUENTIAL) };
        let text = refusal(&small);
        assert!(text.starts_with("f: the region of 4096 bytes is smaller than one block of 8192"), "{text}");
        plan.files[0].offset_bytes = u64::MAX;
        assert_eq!(
            refusal(&plan),
            format!("f: the region ends behind byte {}, the largest offset in a file", i64::MAX)
        );
    }

    #[test]
    fn invalid_sizes_and_shares() {
        let sizes = |blocks| refusal(&Worker { operations: reads(100, blocks), ..random(&[64 * K], ONCE_FRESH) });
        let range = Blocks::Range { low: 8192, high: 4096, step: 1 };
        let text = "job: read: a range of blocks from 8192 to 4096 bytes is empty; the smaller size comes first";
        assert_eq!(sizes(range), text);
        assert_eq!(sizes(split(&[(4096, 0)])), "job: read: no block size has a weight above 0");
        let over = Worker { operations: reads(101, blocks(4 * K)), ..random(&[64 * K], ONCE_FRESH) };
        assert_eq!(refusal(&over), "job: read: 101 per cent of the operations are random; the maximum is 100");
        let mut close = random(&[64 * K], ONCE_FRESH);
        close.operations[0].align_bytes = 512;
        assert_eq!(
            refusal(&close),
            "job: read: blocks of 4096 bytes at multiples of 512 overlap, so they cannot all be visited once; \
             let each draw be independent (norandommap)"
        );
    }

    #[test]
    fn invalid_distributions() {
        for (distribution, text) in [
            (Zipf { theta: 1.0, center: None }, "a Zipf distribution needs a theta above 0 other than 1, not 1"),
            (Zipf { theta: -1.0, center: None }, "a Zipf distribution needs a theta above 0 other than 1, not -1"),
            (Zipf { theta: f64::NAN, center: None }, "a Zipf distribution needs a theta above 0 other than 1, not NaN"),
            (
                Zipf { theta: 1.2, center: Some(2.0) },
                "the centre of a zipf distribution must be between 0 and 1, not 2",
            ),
            (Pareto { h: 1.0, center: None }, "a Pareto distribution needs a power between 0 and 1, not 1"),
            (
                Normal { deviation_percent: 101.0, center: None },
                "a normal distribution needs a deviation from 0 to 100 per cent, not 101",
            ),
            (Zones { zones: vec![] }, "no zone has a share of the operations"),
            (
                Zones { zones: vec![Zone { access_percent: 0.0, offset_bytes: 0, bytes: 4096 }] },
                "no zone has a share of the operations",
            ),
            (
                Zones {
                    zones: vec![
                        Zone { access_percent: 10.0, offset_bytes: 0, bytes: 4096 },
                        Zone { access_percent: -1.0, offset_bytes: 0, bytes: 4096 },
                    ],
                },
                "a zone's share of the operations must not be negative",
            ),
        ] {
            assert_eq!(refusal(&preferring(distribution)), format!("job: read: {text}"));
        }
        let beyond = Zone { access_percent: 100.0, offset_bytes: 64 * K, bytes: 4096 };
        assert_eq!(
            refusal(&preferring(Zones { zones: vec![beyond] })),
            "f: all zones lie beyond the region of 65536 bytes; use smaller zones or a larger size"
        );
    }

    #[test]
    fn invalid_sequential_rules() {
        let accessed = |access| refusal(&sequential(&[64 * K], access));
        assert_eq!(accessed(Access { run_length: 0, ..SEQUENTIAL }), "job: a run must have at least 1 operation");
        let strided = |range_bytes, zone_bytes| Some(Strided { range_bytes, zone_bytes, skip_bytes: 0 });
        assert_eq!(
            accessed(Access { strided: strided(1024, 4096), ..SEQUENTIAL }),
            "job: a zone of 1024 bytes is smaller than one block of 4096; use a larger zone or a smaller block"
        );
        assert_eq!(
            accessed(Access { strided: strided(4096, 0), ..SEQUENTIAL }),
            "job: a zone must transfer at least 1 byte"
        );
        let mut late = sequential(&[4096], SEQUENTIAL);
        late.files[0].start_bytes = 4096;
        assert_eq!(
            refusal(&late),
            "f: operations cannot begin 4096 bytes into a region of 4096; start earlier or use a larger size"
        );
    }

    #[test]
    fn a_map_that_takes_too_much_memory() {
        let plan = Worker { operations: reads(100, split(&[(512, 1), (1024, 1)])), ..random(&[1 << 43], ONCE_FRESH) };
        assert_eq!(
            refusal(&plan),
            "job: the random map of blocks of these sizes would take 2147483648 bytes of memory, and 1073741824 are \
             the most; use a larger smallest block, or let each draw be independent (norandommap)"
        );
    }
}

mod any_plan {
    use super::*;

    /// A random plan, valid or not.
    fn drawn(rng: &mut Rng) -> Worker {
        let mut size = |largest: u64| {
            let bits = rng.below(largest);
            1 + rng.below(1 << bits)
        };
        let (range_bytes, zone_bytes, skip_bytes) = (size(18), size(18), size(18) - 1);
        let sizes: Vec<u64> = (0..4).map(|_| size(20)).collect();
        let lengths: Vec<u32> = (0..24).map(|_| size(14) as u32).collect();
        let mut pick = |of: u64| rng.below(of) as usize;
        let files = sizes[..=pick(4)]
            .iter()
            .map(|&bytes| FilePlan {
                offset_bytes: [0, 4096, 1 << 40][pick(3)],
                start_bytes: if pick(3) == 0 { bytes / 3 } else { 0 },
                ..file("f", bytes)
            })
            .collect();
        let operations = (0..=pick(3))
            .map(|number| {
                let [a, b, c, d] = [0, 1, 2, 3].map(|at| lengths[number * 4 + at]);
                let blocks = match pick(4) {
                    0 => Blocks::Range { low: a, high: a.saturating_add(b), step: c },
                    1 => split(&[(a.into(), b % 5), (c.into(), d % 5), (512, 1)]),
                    _ => Blocks::Fixed { bytes: a },
                };
                let center = [None, Some(0.0), Some(0.7), Some(1.0)][pick(4)];
                let distribution = match pick(8) {
                    0 => Distribution::Zipf { theta: f64::from(b % 30) / 10.0, center },
                    1 => Distribution::Pareto { h: f64::from(b % 10) / 10.0, center },
                    2 => Distribution::Normal { deviation_percent: f64::from(b % 100), center },
                    3 => Distribution::Zones {
                        zones: [(a, b), (c, d)]
                            .map(|(offset, bytes)| Zone {
                                access_percent: f64::from(bytes % 100),
                                offset_bytes: offset.into(),
                                bytes: bytes.into(),
                            })
                            .into(),
                    },
                    _ => Distribution::Uniform {},
                };
                OperationPlan {
                    blocks,
                    distribution,
                    align_bytes: [0, 0, 0, d.into(), 4096][pick(5)],
                    random_percent: [0, 0, 100, 100, 50][pick(5)],
                    ..operation(OperationKind::ALL[number], 1)
                }
            })
            .collect();
        let access = Access {
            cover: [Cover::Once, Cover::Independent][pick(2)],
            passes: [Passes::Same, Passes::Fresh][pick(2)],
            run_length: [1, 1, 1, 3][pick(4)],
            gap_bytes: [0, 0, 0, 4096, -4096, -100_000, i64::MAX, i64::MIN][pick(8)],
            gap_spread_bytes: [0, 0, 0, 10_000, i64::MAX as u64][pick(5)],
            at_end: [AtEnd::Wrap, AtEnd::Wrap, AtEnd::Stop][pick(3)],
            position: [Position::Kind, Position::Worker, Position::Job, Position::Identical, Position::Repeated]
                [pick(5)],
            strided: [None, None, Some(Strided { range_bytes, zone_bytes, skip_bytes })][pick(3)],
            short_last_block: pick(10) == 0,
        };
        Worker {
            files,
            operations,
            access,
            file_select: [FileSelect::RoundRobin, FileSelect::Random, FileSelect::Sequential][pick(3)],
            file_run: 1 + pick(3) as u32,
            end: [by_bytes(1 << 20), worker().end][pick(2)],
            seed: rng.next_u64(),
            ..worker()
        }
    }

    fn addresses(plan: &Worker) -> Vec<Option<Address>> {
        let group = Group { workers: vec![plan.clone()] };
        let mut all = Offsets::new(plan, &SharedPositions::of_group(&group)[0]).unwrap();
        let mut kinds = Rng::new(7);
        (0..500).map(|_| all.next(kinds.below(plan.operations.len() as u64) as usize)).collect()
    }

    #[test]
    fn nothing_is_ever_outside_the_region_and_all_of_it_repeats_from_the_seed() {
        let mut rng = Rng::new(42);
        let mut carried_out = 0;
        for number in 0..3000 {
            let plan = drawn(&mut rng);
            if check(&plan).is_err() {
                continue;
            }
            carried_out += 1;
            let seen = addresses(&plan);
            for address in seen.iter().flatten() {
                let file = &plan.files[address.file as usize];
                let end = file.offset_bytes + file.bytes;
                let is_inside =
                    address.offset >= file.offset_bytes && address.offset + u64::from(address.length) <= end;
                assert!(is_inside && address.length > 0, "plan {number}: {address:?} of {plan:?}");
            }
            let is_endless = plan.access.at_end == AtEnd::Wrap;
            assert!(!is_endless || seen.iter().all(Option::is_some), "plan {number} ended: {plan:?}");
            assert_eq!(seen, addresses(&plan), "plan {number}: {plan:?}");
        }
        assert!(carried_out > 700, "{carried_out}");
    }

    #[test]
    fn a_covering_pass_touches_no_byte_twice_whatever_the_blocks() {
        let mut rng = Rng::new(43);
        let mut carried_out = 0;
        for number in 0..3000 {
            let mut plan = drawn(&mut rng);
            plan.access = Access { at_end: AtEnd::Stop, ..ONCE_FRESH };
            for operation in &mut plan.operations {
                (operation.random_percent, operation.distribution) = (100, Distribution::Uniform {});
            }
            plan.files.truncate(1);
            if check(&plan).is_err() {
                continue;
            }
            carried_out += 1;
            let mut seen: Vec<Address> = addresses(&plan).into_iter().flatten().collect();
            seen.sort_unstable_by_key(|address| address.offset);
            let overlap = seen.windows(2).find(|pair| pair[0].offset + u64::from(pair[0].length) > pair[1].offset);
            assert_eq!(overlap, None, "plan {number}: {plan:?}");
        }
        assert!(carried_out > 500, "{carried_out}");
    }
}

/// The worker drops cached pages before each further pass.
fn dropping(plan: Worker) -> Worker {
    let open = crate::plan::FileOpen { direct: false, durability: crate::plan::Durability::None, invalidate: true };
    Worker { engine: crate::plan::EnginePlan::Sync { open }, ..plan }
}

/// Number of addresses before each pass, and the files of that pass; the addresses are those of a worker that drops
/// nothing.
fn drops(plan: &Worker, count: usize) -> Vec<(usize, Range<usize>)> {
    let (mut quiet, mut drops) = (offsets(plan), Vec::new());
    let mut dropping = offsets(&dropping(plan.clone()));
    for given in 0..count {
        let address = dropping.next(0).or_else(|| {
            drops.push((given, dropping.begin_pass()?));
            dropping.next(0)
        });
        assert_eq!(address, quiet.next(0));
    }
    drops
}

#[test]
fn cached_pages_are_dropped_before_the_first_operation_of_each_further_pass() {
    let of_one = |operations: &[usize]| operations.iter().map(|&operation| (operation, 0..1)).collect::<Vec<_>>();
    for access in [ONCE_SAME, ONCE_FRESH] {
        for end in [worker().end, by_bytes(1 << 20)] {
            let plan = |plan| Worker { end, ..plan };
            assert_eq!(drops(&plan(sequential(&[16 * K], access)), 12), of_one(&[4, 8]));
            assert_eq!(drops(&plan(random(&[16 * K], access)), 13), of_one(&[4, 8, 12]));
        }
    }
    assert_eq!(drops(&random(&[16 * K], INDEPENDENT), 100), []);
    let stops = Access { at_end: AtEnd::Stop, ..ONCE_SAME };
    assert_eq!(drops(&Worker { end: by_bytes(1 << 20), ..sequential(&[16 * K], stops) }, 20), []);
}

#[test]
fn files_that_restart_together_are_dropped_together() {
    let [three, two] = [sequential(&[8 * K; 3], ONCE_SAME), random(&[8 * K, 16 * K], ONCE_SAME)];
    assert_eq!(drops(&three, 13), [(4, 0..1), (5, 1..2), (6, 2..3), (10, 0..1), (11, 1..2), (12, 2..3)]);
    assert_eq!(drops(&Worker { end: by_bytes(1 << 20), ..three }, 13), [(6, 0..3), (12, 0..3)]);
    assert_eq!(drops(&Worker { end: by_bytes(1 << 20), ..two }, 13), [(6, 0..2), (12, 0..2)]);
}

#[test]
fn a_pass_with_a_gap_is_over_where_its_last_block_reaches_the_end() {
    let with_gap = |bytes, gap_bytes| sequential(&[bytes], Access { gap_bytes, ..SEQUENTIAL });
    assert_eq!(drops(&with_gap(16 * K, 4096), 10), []);
    assert_eq!(drops(&with_gap(12 * K, 4096), 5), [(2, 0..1), (4, 0..1)]);
    assert_eq!(drops(&with_gap(16 * K, -8192), 10), []);
    assert_eq!(drops(&sequential(&[18 * K], SEQUENTIAL), 9), [(4, 0..1), (8, 0..1)]);
}
