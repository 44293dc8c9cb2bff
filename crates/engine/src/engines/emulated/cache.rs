//! Host cache of a virtual machine: the set of cached blocks of its disks, without their data.

/// Unit of caching. 4 KiB is a page of the guest and the smallest operation that benchmarks measure: with a larger unit
/// the cache would warm up too soon.
pub(super) const BLOCK_BYTES: u64 = 4096;
const WORD_BITS: u64 = 64;

/// The cached blocks. When the cache is full, a clock hand passes over all blocks (CLOCK): it evicts blocks not used
/// since its last pass.
#[derive(Debug)]
pub(super) struct Cache {
    capacity: u64,
    used: u64,
    files: Vec<Blocks>,
    /// File and word that the hand points to.
    hand: (usize, usize),
}

/// Two bits for each block of a file.
#[derive(Debug, Default)]
struct Blocks {
    present: Vec<u64>,
    /// Used since the hand's last pass.
    recent: Vec<u64>,
}

impl Cache {
    pub(super) fn new(bytes: u64) -> Self {
        Self { capacity: bytes / BLOCK_BYTES, used: 0, files: Vec::new(), hand: (0, 0) }
    }

    /// Adds a file whose cached blocks are `present`, with room for the blocks below `bytes`; returns its number.
    pub(super) fn add_file(&mut self, present: Vec<u64>, bytes: u64) -> usize {
        let number = self.files.len();
        let recent = vec![0; present.len()];
        self.used += present.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        self.files.push(Blocks { present, recent });
        self.grow(number, bytes);
        while self.used > self.capacity {
            self.evict();
        }
        number
    }

    /// Allocates room for the blocks of a file below `bytes`.
    pub(super) fn grow(&mut self, file: usize, bytes: u64) {
        let words = usize::try_from(bytes.div_ceil(BLOCK_BYTES * WORD_BITS)).unwrap_or(usize::MAX);
        let blocks = &mut self.files[file];
        if blocks.present.len() < words {
            blocks.present.resize(words, 0);
            blocks.recent.resize(words, 0);
        }
    }

    /// Caches all blocks of a range; returns `true` if they were cached before.
    pub(super) fn read(&mut self, file: usize, offset: u64, length: u64) -> bool {
        let (first, end) = (offset / BLOCK_BYTES, (offset + length).div_ceil(BLOCK_BYTES));
        let missed = (first..end).filter(|&block| !self.use_block(file, block)).count();
        missed == 0
    }

    /// Caches the blocks that are written as a whole. A block written in part keeps its state.
    pub(super) fn write(&mut self, file: usize, offset: u64, length: u64) {
        for block in offset.div_ceil(BLOCK_BYTES)..(offset + length) / BLOCK_BYTES {
            self.use_block(file, block);
        }
    }

    /// Cached blocks of a file, one bit each.
    pub(super) fn present(&self, file: usize) -> &[u64] {
        &self.files[file].present
    }

    fn use_block(&mut self, file: usize, block: u64) -> bool {
        self.grow(file, (block + 1) * BLOCK_BYTES);
        let (word, bit) = ((block / WORD_BITS) as usize, 1 << (block % WORD_BITS));
        let was_there = self.files[file].present[word] & bit != 0;
        if !was_there {
            if self.capacity == 0 {
                return false;
            }
            if self.used >= self.capacity {
                self.evict();
            }
            self.files[file].present[word] |= bit;
            self.used += 1;
        }
        self.files[file].recent[word] |= bit;
        was_there
    }

    /// Evicts the first block from the hand on that was not used recently; the second round finds one at the latest.
    fn evict(&mut self) {
        loop {
            let (file, word) = self.hand;
            let Some(blocks) = self.files.get_mut(file) else {
                self.hand = (0, 0);
                continue;
            };
            let Some((present, recent)) = blocks.present.get_mut(word).zip(blocks.recent.get_mut(word)) else {
                self.hand = (file + 1, 0);
                continue;
            };
            let idle = *present & !*recent;
            if idle != 0 {
                *present &= !(1 << idle.trailing_zeros());
                self.used -= 1;
                return;
            }
            *recent = 0;
            self.hand = (file, word + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const B: u64 = BLOCK_BYTES;

    fn cache(blocks: u64) -> Cache {
        let mut cache = Cache::new(blocks * B);
        cache.add_file(Vec::new(), 0);
        cache
    }

    #[test]
    fn a_range_is_cached_once_all_of_it_was_read() {
        let mut cache = cache(100);
        assert!(!cache.read(0, 0, B));
        assert!(cache.read(0, 0, B));
        assert!(cache.read(0, 100, 500));
        assert!(!cache.read(0, B - 1, 2));
        assert!(cache.read(0, 0, 2 * B));
        assert_eq!(cache.present(0), [0b11]);
    }

    #[test]
    fn a_write_fills_the_blocks_that_it_covers() {
        let mut cache = cache(100);
        cache.write(0, 1, 3 * B);
        assert_eq!(cache.present(0)[0], 0b110);
        cache.write(0, 4 * B, B - 1);
        assert!(!cache.read(0, 4 * B, 1));
    }

    #[test]
    fn recently_used_blocks_outlive_others() {
        let mut cache = cache(3);
        for block in [0, 1, 2] {
            cache.read(0, block * B, B);
        }
        // The hand has passed all blocks, so none counts as used; then 0 and 2 are used.
        cache.read(0, 3 * B, B);
        assert_eq!(cache.present(0), [0b1110]);
        cache.read(0, 2 * B, B);
        cache.read(0, 4 * B, B);
        assert_eq!(cache.present(0), [0b11100]);
    }

    #[test]
    fn never_holds_more_than_its_size_whatever_is_read() {
        let mut cache = cache(70);
        cache.add_file(Vec::new(), 0);
        for number in 0..10_000_u64 {
            cache.read((number % 2) as usize, number * 7919 % 1000 * B, 3 * B);
            let held: u32 = (0..2).flat_map(|file| cache.present(file)).map(|word| word.count_ones()).sum();
            assert_eq!(u64::from(held), cache.used);
            assert!(held <= 70);
        }
        assert_eq!(cache.used, 70);
    }

    #[test]
    fn a_file_cached_before_is_cut_to_the_size_of_the_cache() {
        let mut cache = Cache::new(3 * B);
        cache.add_file(vec![0b1111_0000], 0);
        assert_eq!(cache.present(0), [0b1110_0000]);
    }
}
