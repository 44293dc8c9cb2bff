//! Where the next operation goes: a file and an offset in it.

use crate::chance::{Permutation, Rng};
use crate::error::EngineError;
use crate::plan::{Cover, FileSelect, Passes, Worker};

/// Where one operation goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// Index into the worker's files.
    pub file: u32,
    /// From the file's start.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
}

/// The addresses of one worker, one after another.
#[derive(Debug)]
pub struct Offsets {
    files: Vec<Region>,
    select: FileSelect,
    current: usize,
    rng: Rng,
}

/// One file's region; `tracks` has one place for each of the worker's operations.
#[derive(Debug)]
struct Region {
    start: u64,
    tracks: Vec<Track>,
}

/// What has been visited so far. Operations of one block size share a random order, as they share fio's random map.
#[derive(Debug)]
enum Track {
    Sequential { next: u64, blocks: u64, block_bytes: u64 },
    Once { order: Permutation, index: u64, pass: u64, blocks: u64, block_bytes: u64, seed: u64, passes: Passes },
    Independent { blocks: u64, block_bytes: u64 },
    SharedWith(usize),
}

/// An address, and whether the file's region was gone through with it.
struct Step {
    offset: u64,
    length: u32,
    wrapped: bool,
}

impl Offsets {
    /// Addresses for a worker's plan, repeatable from its seed.
    pub fn new(worker: &Worker) -> Result<Self, EngineError> {
        let files = worker
            .files
            .iter()
            .enumerate()
            .map(|(index, file)| {
                let seed = Rng::new(worker.seed ^ ((index as u64 + 1) << 32)).next_u64();
                Ok(Region { start: file.offset_bytes, tracks: tracks(worker, index, seed)? })
            })
            .collect::<Result<_, EngineError>>()?;
        Ok(Self { files, select: worker.file_select, current: 0, rng: Rng::new(worker.seed) })
    }

    /// Address for the worker's operation number `operation`; `None` when its regions are through and do not begin again.
    #[inline]
    pub fn next(&mut self, operation: usize) -> Option<Address> {
        let file = match self.select {
            FileSelect::Random if self.files.len() > 1 => self.rng.below(self.files.len() as u64) as usize,
            _ => self.current,
        };
        let step = self.files[file].next(operation, &mut self.rng);
        match self.select {
            FileSelect::RoundRobin => self.go_on(),
            FileSelect::Sequential if step.wrapped => self.go_on(),
            _ => {}
        }
        Some(Address { file: file as u32, offset: step.offset, length: step.length })
    }

    #[inline]
    fn go_on(&mut self) {
        self.current += 1;
        if self.current == self.files.len() {
            self.current = 0;
        }
    }
}

impl Region {
    #[inline]
    fn next(&mut self, operation: usize, rng: &mut Rng) -> Step {
        let track = match self.tracks[operation] {
            Track::SharedWith(other) => other,
            _ => operation,
        };
        let step = self.tracks[track].next(rng);
        Step { offset: self.start + step.offset, ..step }
    }
}

impl Track {
    #[inline]
    fn next(&mut self, rng: &mut Rng) -> Step {
        match self {
            Self::Sequential { next, blocks, block_bytes } => {
                let offset = *next * *block_bytes;
                *next += 1;
                let wrapped = *next == *blocks;
                if wrapped {
                    *next = 0;
                }
                Step { offset, length: *block_bytes as u32, wrapped }
            }
            Self::Once { order, index, pass, blocks, block_bytes, seed, passes } => {
                let offset = order.at(*index) * *block_bytes;
                *index += 1;
                let wrapped = *index == *blocks;
                if wrapped {
                    *index = 0;
                    if *passes == Passes::Fresh {
                        *pass += 1;
                        *order = Permutation::new(*blocks, *seed ^ Rng::new(*pass).next_u64());
                    }
                }
                Step { offset, length: *block_bytes as u32, wrapped }
            }
            Self::Independent { blocks, block_bytes } => {
                let offset = rng.below(*blocks) * *block_bytes;
                Step { offset, length: *block_bytes as u32, wrapped: false }
            }
            Self::SharedWith(_) => unreachable!("resolved by the region"),
        }
    }
}

fn tracks(worker: &Worker, file: usize, seed: u64) -> Result<Vec<Track>, EngineError> {
    let region_bytes = worker.files[file].bytes;
    let mut tracks = Vec::with_capacity(worker.operations.len());
    for (index, operation) in worker.operations.iter().enumerate() {
        let block_bytes = u64::from(operation.blocks.smallest());
        if block_bytes == 0 || region_bytes < block_bytes {
            return Err(EngineError::Plan(format!(
                "{}: the region of {region_bytes} bytes is smaller than one block of {block_bytes}; use a larger size or a smaller block",
                worker.files[file].path
            )));
        }
        let blocks = region_bytes / block_bytes;
        let twin = worker.operations[..index].iter().position(|other| other.blocks == operation.blocks);
        let passes = worker.access.passes;
        tracks.push(match (operation.random_percent, worker.access.cover, twin) {
            (0, _, _) => Track::Sequential { next: 0, blocks, block_bytes },
            (_, _, Some(other)) => Track::SharedWith(other),
            (_, Cover::Once, None) => {
                let order = Permutation::new(blocks, seed);
                Track::Once { order, index: 0, pass: 0, blocks, block_bytes, seed, passes }
            }
            (_, Cover::Independent, None) => Track::Independent { blocks, block_bytes },
        });
    }
    Ok(tracks)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::plan::tests::{file, operation, worker};
    use crate::plan::{Access, OperationKind, OperationPlan};

    #[derive(Clone, Copy)]
    enum Order {
        Sequential,
        Random(Cover, Passes),
    }

    const SEQUENTIAL: Order = Order::Sequential;
    const ONCE_SAME: Order = Order::Random(Cover::Once, Passes::Same);
    const ONCE_FRESH: Order = Order::Random(Cover::Once, Passes::Fresh);
    const INDEPENDENT: Order = Order::Random(Cover::Independent, Passes::Fresh);

    fn offsets(order: Order, mut operations: Vec<OperationPlan>, sizes: &[u64], select: FileSelect) -> Offsets {
        let mut access = worker().access;
        if let Order::Random(cover, passes) = order {
            access = Access { cover, passes, ..access };
            for operation in &mut operations {
                operation.random_percent = 100;
            }
        }
        let files = sizes.iter().map(|&bytes| file("f", bytes)).collect();
        Offsets::new(&Worker { access, operations, files, file_select: select, ..worker() }).unwrap()
    }

    fn reads(block_bytes: u32) -> Vec<OperationPlan> {
        vec![operation(OperationKind::Read, block_bytes)]
    }

    fn take(offsets: &mut Offsets, count: usize) -> Vec<(u32, u64)> {
        (0..count).map(|_| place(offsets, 0)).collect()
    }

    fn place(offsets: &mut Offsets, operation: usize) -> (u32, u64) {
        let address = offsets.next(operation).unwrap();
        (address.file, address.offset)
    }

    #[test]
    fn sequential_goes_through_and_starts_again_leaving_the_odd_tail() {
        let mut all = offsets(SEQUENTIAL, reads(4096), &[3 * 4096 + 100], FileSelect::RoundRobin);
        assert_eq!(take(&mut all, 4), [(0, 0), (0, 4096), (0, 8192), (0, 0)]);
    }

    #[test]
    fn each_kind_has_its_own_sequential_position() {
        let both = vec![operation(OperationKind::Read, 4096), operation(OperationKind::Write, 4096)];
        let mut all = offsets(SEQUENTIAL, both, &[8 * 4096], FileSelect::RoundRobin);
        assert_eq!([0, 1, 0, 1].map(|operation| place(&mut all, operation)), [(0, 0), (0, 0), (0, 4096), (0, 4096)]);
    }

    #[test]
    fn round_robin_takes_the_files_in_turn() {
        let mut all = offsets(SEQUENTIAL, reads(512), &[1024, 1024], FileSelect::RoundRobin);
        assert_eq!(take(&mut all, 4), [(0, 0), (1, 0), (0, 512), (1, 512)]);
    }

    #[test]
    fn sequential_file_select_finishes_a_file_first() {
        let mut all = offsets(SEQUENTIAL, reads(512), &[1024, 512], FileSelect::Sequential);
        assert_eq!(take(&mut all, 4), [(0, 0), (0, 512), (1, 0), (0, 0)]);
    }

    #[test]
    fn once_visits_every_block_of_a_pass() {
        let mut all = offsets(ONCE_FRESH, reads(4096), &[1 << 20], FileSelect::RoundRobin);
        let expected: BTreeSet<(u32, u64)> = (0..256).map(|block| (0, block * 4096)).collect();
        for _ in 0..3 {
            assert_eq!(take(&mut all, 256).into_iter().collect::<BTreeSet<_>>(), expected);
        }
    }

    #[test]
    fn passes_repeat_or_do_not() {
        let mut same = offsets(ONCE_SAME, reads(4096), &[1 << 20], FileSelect::RoundRobin);
        assert_eq!(take(&mut same, 256), take(&mut same, 256));
        let mut fresh = offsets(ONCE_FRESH, reads(4096), &[1 << 20], FileSelect::RoundRobin);
        assert_ne!(take(&mut fresh, 256), take(&mut fresh, 256));
    }

    #[test]
    fn kinds_of_one_block_size_share_the_random_map() {
        let both = vec![operation(OperationKind::Read, 4096), operation(OperationKind::Write, 4096)];
        let mut all = offsets(ONCE_FRESH, both, &[1 << 20], FileSelect::RoundRobin);
        let seen: BTreeSet<u64> = (0..256).map(|i| place(&mut all, i % 2).1).collect();
        assert_eq!(seen.len(), 256);
    }

    #[test]
    fn independent_draws_repeat_blocks() {
        let mut all = offsets(INDEPENDENT, reads(4096), &[1 << 20], FileSelect::RoundRobin);
        let seen: BTreeSet<_> = take(&mut all, 256).into_iter().collect();
        // 1 − 1/e of 256 blocks are expected: 162.
        assert!((130..195).contains(&seen.len()), "{}", seen.len());
    }

    #[test]
    fn a_region_starts_at_its_offset() {
        let mut plan = Worker { operations: reads(4096), ..worker() };
        plan.files[0].offset_bytes = 1 << 30;
        assert_eq!(place(&mut Offsets::new(&plan).unwrap(), 0), (0, 1 << 30));
    }

    #[test]
    fn a_region_smaller_than_a_block_is_refused() {
        let plan = Worker { operations: reads(8192), files: vec![file("small", 4096)], ..worker() };
        let text = Offsets::new(&plan).unwrap_err().to_string();
        assert!(text.starts_with("small: the region of 4096 bytes is smaller than one block of 8192"), "{text}");
    }
}
