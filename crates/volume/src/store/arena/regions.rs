//! The free chunks, and the order in which they are used. Nothing here touches memory: chunks are numbers.
//!
//! A region of chunks is one huge page, and stays one only as long as memory is given back by the whole region. So whole regions are
//! used before parts of others, which have time to become whole, and files that are written at once lie together.

use std::collections::VecDeque;

/// Number of a chunk; 0 is none.
pub(in crate::store) type ChunkId = u32;

/// Chunks of a region: one for each bit of a `u128`.
pub(super) const REGION_CHUNKS: usize = 128;

/// Regions that chunks are taken from at the same time, so that files which are written at the same time do not mix.
const LANES: usize = 16;

/// Regions without data that keep their memory, to be used again without a page fault: 64 MiB.
pub(super) const WARM_REGIONS: usize = 32;

/// Free chunks beside data that are left alone as long as there are whole regions: 64 MiB.
const LOOSE_CHUNKS: usize = 32 * REGION_CHUNKS;

const ALL: u128 = u128::MAX;

/// The free chunks of an arena.
#[derive(Debug)]
pub(super) struct Regions {
    /// All regions that were ever used.
    states: Vec<Region>,
    /// Most regions there can be.
    most: usize,
    /// The region of each lane, from which chunks are taken.
    current: [Option<usize>; LANES],
    /// Regions all of whose chunks are free: first those without memory, then those with.
    whole: VecDeque<usize>,
    /// Regions in which a chunk became free, each once, in the order in which that began. Some may be whole, full or current since.
    partial: VecDeque<usize>,
    /// Free chunks in all regions.
    chunks: usize,
    /// Whole regions with memory.
    warm: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Region {
    /// A bit for each chunk that is free.
    free: u128,
    /// A bit for each chunk that was used since the region was all zeros.
    used: u128,
    is_current: bool,
    is_listed_as_partial: bool,
    memory: Memory,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Memory {
    /// A huge page, if the system had one.
    #[default]
    Huge,
    /// A part of the memory was given back, which splits the huge page.
    Split,
    /// As `Split`, and a repair has been tried.
    Tried,
}

impl Regions {
    /// Starts with `most` regions, none of which was used.
    pub(super) fn new(most: usize) -> Self {
        // Chunk 0 is none, so it is never free.
        let states = vec![Region { free: ALL - 1, is_listed_as_partial: true, ..Region::default() }];
        let (current, whole, partial) = ([None; LANES], VecDeque::new(), VecDeque::from([0]));
        Self { states, most, current, whole, partial, chunks: REGION_CHUNKS - 1, warm: 0 }
    }

    /// Counts the chunks that can be taken.
    pub(super) fn available(&self) -> usize {
        self.chunks + (self.most - self.states.len()) * REGION_CHUNKS
    }

    /// Takes a chunk for a file; one must be available. Returns `true` with it if it is all zeros.
    pub(super) fn pop(&mut self, file: u32) -> (ChunkId, bool) {
        let lane = file as usize % LANES;
        loop {
            let Some(number) = self.current[lane] else {
                self.current[lane] = self.next();
                continue;
            };
            let region = &mut self.states[number];
            region.is_current = region.free != 0;
            if region.free == 0 {
                self.current[lane] = None;
                continue;
            }
            self.chunks -= 1;
            let index = region.free.trailing_zeros();
            let bit = 1 << index;
            let is_zero = region.used & bit == 0;
            region.free &= !bit;
            region.used |= bit;
            return (number as u32 * REGION_CHUNKS as u32 + index, is_zero);
        }
    }

    /// Chooses the next region to take chunks from.
    fn next(&mut self) -> Option<usize> {
        let partial = if self.loose() > LOOSE_CHUNKS { self.next_partial() } else { None };
        partial
            .or_else(|| self.next_whole())
            .or_else(|| self.next_unused())
            .or_else(|| self.next_partial())
            .or_else(|| self.current.iter_mut().find_map(Option::take))
    }

    /// Counts the free chunks in regions that are neither whole nor current.
    fn loose(&self) -> usize {
        let current = self.current.iter().flatten().map(|number| self.states[*number].free.count_ones() as usize);
        self.chunks - self.whole.len() * REGION_CHUNKS - current.sum::<usize>()
    }

    fn next_whole(&mut self) -> Option<usize> {
        let number = self.whole.pop_back()?;
        self.warm -= usize::from(self.states[number].used != 0);
        Some(number)
    }

    fn next_unused(&mut self) -> Option<usize> {
        let number = self.states.len();
        (number < self.most).then(|| {
            self.states.push(Region { free: ALL, ..Region::default() });
            self.chunks += REGION_CHUNKS;
            number
        })
    }

    fn next_partial(&mut self) -> Option<usize> {
        loop {
            let number = self.partial.pop_front()?;
            let region = &mut self.states[number];
            region.is_listed_as_partial = false;
            if region.free != 0 && region.free != ALL && !region.is_current {
                return Some(number);
            }
        }
    }

    /// Notes that the huge page of this chunk's region is split.
    pub(super) fn split(&mut self, id: ChunkId) {
        self.states[id as usize / REGION_CHUNKS].memory = Memory::Split;
    }

    /// Returns a region that was split since its last repair.
    pub(super) fn next_to_repair(&mut self) -> Option<usize> {
        let found = self.states.iter().position(|region| region.memory == Memory::Split)?;
        self.states[found].memory = Memory::Tried;
        Some(found)
    }

    /// Notes that a region is a huge page again.
    pub(super) fn repaired(&mut self, number: usize) {
        let memory = &mut self.states[number].memory;
        if *memory == Memory::Tried {
            *memory = Memory::Huge;
        }
    }

    /// Takes back a chunk. A region that becomes whole by it is taken out of use and returned if its memory should be discarded:
    /// because it was split, because a client may see a part of it (`is_seen`), or because enough regions are warm.
    pub(super) fn push(&mut self, id: ChunkId, is_seen: impl Fn(usize) -> bool) -> Option<usize> {
        let number = id as usize / REGION_CHUNKS;
        let region = &mut self.states[number];
        region.free |= 1 << (id as usize % REGION_CHUNKS);
        self.chunks += 1;
        if region.free != ALL {
            if !region.is_listed_as_partial && !region.is_current {
                region.is_listed_as_partial = true;
                self.partial.push_back(number);
            }
            return None;
        }
        if std::mem::take(&mut region.is_current) {
            let lane = self.current.iter_mut().find(|current| **current == Some(number));
            *lane.expect("a current region is that of a lane") = None;
        }
        if self.warm == WARM_REGIONS || region.memory != Memory::Huge || is_seen(number) {
            region.free = 0;
            self.chunks -= REGION_CHUNKS;
            return Some(number);
        }
        self.warm += 1;
        self.whole.push_back(number);
        None
    }

    /// Puts a region whose memory was discarded back into use.
    pub(super) fn discarded(&mut self, number: usize) {
        let region = &mut self.states[number];
        *region = Region { free: ALL, is_listed_as_partial: region.is_listed_as_partial, ..Region::default() };
        self.chunks += REGION_CHUNKS;
        self.whole.push_front(number);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const REGION: u32 = REGION_CHUNKS as u32;

    fn take(regions: &mut Regions, file: u32, count: usize) -> Vec<ChunkId> {
        (0..count).map(|_| regions.pop(file).0).collect()
    }

    fn give_back(regions: &mut Regions, ids: impl IntoIterator<Item = ChunkId>) {
        for id in ids {
            assert_eq!(regions.push(id, |_| false), None);
        }
    }

    #[test]
    fn files_that_are_written_at_once_do_not_mix() {
        let mut regions = Regions::new(3);
        let taken: Vec<_> = (0..3).flat_map(|_| [regions.pop(7).0, regions.pop(8).0]).collect();
        assert_eq!(taken, [REGION, 2 * REGION, REGION + 1, 2 * REGION + 1, REGION + 2, 2 * REGION + 2]);
    }

    #[test]
    fn whole_regions_are_used_before_parts_of_others() {
        let mut regions = Regions::new(4);
        let (first, second) = (take(&mut regions, 0, REGION_CHUNKS), take(&mut regions, 0, REGION_CHUNKS));
        give_back(&mut regions, [first[5]]);
        give_back(&mut regions, second.clone());
        assert_eq!(take(&mut regions, 0, REGION_CHUNKS), second, "it has memory");
        assert_eq!(take(&mut regions, 0, REGION_CHUNKS)[0], 3 * REGION, "never used");
        assert_eq!(take(&mut regions, 0, REGION_CHUNKS - 1)[0], 1, "the region without chunk 0");
        assert_eq!((regions.pop(0), regions.available()), ((first[5], false), 0));
    }

    #[test]
    fn many_free_chunks_beside_data_are_used_before_whole_regions() {
        let mut regions = Regions::new(100);
        let ids = take(&mut regions, 0, 66 * REGION_CHUNKS);
        // Beside those of the region without chunk 0.
        let mut every_other = ids.iter().copied().step_by(2);
        give_back(&mut regions, every_other.by_ref().take(LOOSE_CHUNKS - (REGION_CHUNKS - 1)));
        assert_eq!(take(&mut regions, 0, REGION_CHUNKS)[0], 67 * REGION);
        give_back(&mut regions, every_other.next());
        assert_eq!(take(&mut regions, 0, 2), [1, 2], "the region that has had them longest");
    }

    #[test]
    fn the_last_chunks_may_be_in_the_region_of_another_file() {
        let mut regions = Regions::new(2);
        let one = regions.pop(1).0;
        let other = take(&mut regions, 2, 2 * REGION_CHUNKS - 2);
        assert!(one == REGION && other.contains(&(REGION + 1)) && regions.available() == 0);
    }

    #[test]
    fn a_whole_region_that_was_split_or_may_be_seen_loses_its_memory() {
        let mut regions = Regions::new(2);
        for is_split in [true, false] {
            let ids = take(&mut regions, 0, REGION_CHUNKS);
            assert_eq!(ids[0], REGION);
            if is_split {
                regions.split(ids[9]);
            }
            give_back(&mut regions, ids[1..].iter().copied());
            assert_eq!(regions.push(ids[0], |region| region == 1 && !is_split), Some(1));
            assert_eq!(regions.available(), REGION_CHUNKS - 1, "nobody else may take it");
            regions.discarded(1);
        }
        assert_eq!(regions.pop(0), (REGION, true));
    }

    #[test]
    fn a_region_is_repaired_once_after_each_split() {
        let mut regions = Regions::new(3);
        let ids = take(&mut regions, 0, 2 * REGION_CHUNKS);
        regions.split(ids[0]);
        regions.split(ids[1]);
        regions.split(ids[REGION_CHUNKS]);
        assert_eq!([0; 3].map(|_| regions.next_to_repair()), [Some(1), Some(2), None]);
        regions.repaired(1);
        regions.split(ids[REGION_CHUNKS]);
        regions.repaired(2);
        assert_eq!([0; 2].map(|_| regions.next_to_repair()), [Some(2), None], "split again meanwhile");
        let lose_memory = |regions: &mut Regions, ids: &[ChunkId]| {
            ids.iter().filter_map(|id| regions.push(*id, |_| false)).collect::<Vec<_>>()
        };
        assert_eq!(lose_memory(&mut regions, &ids), [2], "the other one is a huge page again");
    }

    #[test]
    fn no_chunk_is_taken_twice_and_none_is_lost() {
        let mut regions = Regions::new(40);
        let (mut taken, mut chance) = (Vec::new(), 1_u64);
        let mut below = |bound: usize| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (chance >> 33) as usize % bound
        };
        for round in 0..100 {
            for _ in 0..below(1 + regions.available()) {
                taken.push(regions.pop(below(5) as u32).0);
            }
            assert_eq!(taken.iter().collect::<HashSet<_>>().len(), taken.len());
            for _ in 0..below(1 + taken.len()) {
                let id = taken.swap_remove(below(taken.len()));
                if let Some(region) = regions.push(id, |region| region % 3 == round % 3) {
                    regions.discarded(region);
                }
            }
            assert_eq!(taken.len() + regions.available(), 40 * REGION_CHUNKS - 1);
        }
        for id in taken {
            if let Some(region) = regions.push(id, |_| true) {
                regions.discarded(region);
            }
        }
        assert_eq!(take(&mut regions, 0, 40 * REGION_CHUNKS - 1).iter().collect::<HashSet<_>>().len(), 5119);
    }
}
