//! The cache of an emulated server: the blocks that were read or written last (LRU). It holds no data, only which blocks it would hold.

use std::collections::{HashMap, VecDeque};

use super::fair::Key;
use super::key_hash::KeyHash;
use super::limits::BLOCK_BYTES_MIN;

/// Most blocks: of a larger cache each has more bytes. A block takes about 100 bytes of memory.
const BLOCKS_MAX: u64 = 1 << 20;

/// Data of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The end of the file's handle, which is a keyed checksum of the rest.
    file: u64,
    offset: u64,
    pub(crate) bytes: u64,
}

impl Extent {
    #[inline]
    pub(crate) fn of(handle: &[u8], offset: u64, bytes: u64) -> Self {
        Self { file: handle.last_chunk().map_or(0, |end| u64::from_le_bytes(*end)), offset, bytes }
    }

    /// The same with further data behind it.
    pub(crate) fn and(self, bytes: u64) -> Self {
        Self { bytes: self.bytes + bytes, ..self }
    }
}

/// The blocks that are held.
#[derive(Debug)]
pub(super) struct Cache {
    block_bytes: u64,
    blocks_max: usize,
    /// By block: when it was used last.
    used: HashMap<Key, u64, KeyHash>,
    /// Uses in their order; those of blocks that were used again, or are held no longer, are left over.
    order: VecDeque<(u64, Key)>,
    uses: u64,
}

impl Cache {
    pub(super) fn new(bytes: u64) -> Self {
        let block_bytes = bytes.div_ceil(BLOCKS_MAX).max(BLOCK_BYTES_MIN).next_power_of_two();
        let (used, order) = (HashMap::default(), VecDeque::new());
        Self { block_bytes, blocks_max: (bytes / block_bytes).max(1) as usize, used, order, uses: 0 }
    }

    /// True if all blocks of an extent are held. They are the ones used last then.
    pub(super) fn touch(&mut self, extent: &Extent) -> bool {
        let Extent { file, offset, bytes } = *extent;
        let end = offset.saturating_add(bytes).div_ceil(self.block_bytes);
        let mut is_held = true;
        for block in offset / self.block_bytes..end {
            is_held &= self.touch_block(Key::from(file) << 64 | Key::from(block));
        }
        is_held
    }

    fn touch_block(&mut self, block: Key) -> bool {
        self.uses += 1;
        let is_held = self.used.insert(block, self.uses).is_some();
        self.order.push_back((self.uses, block));
        while self.used.len() > self.blocks_max {
            let (use_, oldest) = self.order.pop_front().expect("each block that is held has a use");
            if self.used.get(&oldest) == Some(&use_) {
                self.used.remove(&oldest);
            }
        }
        if self.order.len() > 2 * self.blocks_max {
            let used = &self.used;
            self.order.retain(|(use_, block)| used.get(block) == Some(use_));
        }
        is_held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = BLOCK_BYTES_MIN;

    fn touched(cache: &mut Cache, blocks: &[u64]) -> Vec<bool> {
        blocks.iter().map(|block| cache.touch(&Extent::of(&[1; 32], block * BLOCK, BLOCK))).collect()
    }

    #[test]
    fn the_blocks_used_last_are_held() {
        let mut cache = Cache::new(3 * BLOCK);
        assert_eq!(touched(&mut cache, &[0, 1, 2, 0, 3]), [false, false, false, true, false]);
        // 1 was used before 0, 2 and 3.
        assert_eq!(touched(&mut cache, &[0, 2, 3, 1, 0]), [true, true, true, false, false]);
        for round in 0..100 {
            assert_eq!(touched(&mut cache, &[7, 8, 7]), [round > 0, round > 0, true]);
            assert!(cache.order.len() <= 6, "uses that are over are dropped");
        }
    }

    #[test]
    fn an_extent_is_held_if_all_of_its_blocks_are() {
        let mut cache = Cache::new(16 * BLOCK);
        assert_eq!(touched(&mut cache, &[0, 1]), [false, false]);
        let mut extent = |file: &[u8], offset, bytes| cache.touch(&Extent::of(file, offset, bytes));
        assert!(extent(&[1; 32], 1, 2 * BLOCK - 1));
        assert!(!extent(&[1; 32], 1, 2 * BLOCK), "the next block is touched");
        assert!(extent(&[1; 32], 1, 2 * BLOCK));
        assert!(!extent(&[2; 32], 0, 1), "another file");
    }

    #[test]
    fn half_of_a_file_is_hit_as_predictions_expect() {
        // Blocks drawn independently; each once in a new order; each once in the same order. `model/forward.py` has the formulas.
        let (blocks, passes) = (4096_u64, 20);
        let mut random = SmallRandom(7);
        let independent: Vec<u64> = (0..blocks * passes).map(|_| random.below(blocks)).collect();
        let mut orders = (0..passes).map(|_| {
            let mut order: Vec<u64> = (0..blocks).collect();
            (1..order.len()).for_each(|last| order.swap(last, random.below(last as u64 + 1) as usize));
            order
        });
        let again = orders.next().expect("one").repeat(passes as usize);
        let fresh = orders.flatten().collect::<Vec<_>>();
        for (order, share) in [(independent, 0.5), (fresh, 0.5 + 0.5 * 0.5_f64.ln()), (again, 0.0)] {
            let mut cache = Cache::new(blocks / 2 * BLOCK);
            let (warm, measured) = order.split_at(blocks as usize);
            touched(&mut cache, warm);
            let hits = touched(&mut cache, measured).iter().filter(|is_hit| **is_hit).count();
            assert!((hits as f64 / measured.len() as f64 - share).abs() < 0.005, "{hits} hits, {share}");
        }
    }

    /// Numbers of a linear congruential generator (Knuth, MMIX).
    struct SmallRandom(u64);

    impl SmallRandom {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % end
        }
    }

    #[test]
    fn a_large_cache_has_larger_blocks_and_no_more_of_them() {
        for (bytes, block_bytes, blocks) in [
            (BLOCK, BLOCK, 1),
            (1 << 32, BLOCK, 1 << 20),
            ((1 << 32) + 1, 2 * BLOCK, 1 << 19),
            (1 << 40, 1 << 20, 1 << 20),
        ] {
            let cache = Cache::new(bytes);
            assert_eq!((cache.block_bytes, cache.blocks_max), (block_bytes, blocks));
        }
    }
}
