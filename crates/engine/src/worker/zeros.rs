//! A sample of the blocks that are read: those that hold nothing but zeros were perhaps never written.

/// The distance between two sampled reads doubles after this many.
const DOUBLES_AFTER: u64 = 64;
/// Most bytes of a block that are compared.
const BYTES_MAX: usize = 64 << 10;
const NO_SLOT: u32 = u32::MAX;

/// Inspects one read at a time: the first ones, then ever fewer.
#[derive(Debug)]
pub(super) struct ZeroSample {
    /// Reads until the next sampled one.
    left: u64,
    step: u64,
    /// Slot of the read that is inspected once it has completed.
    slot: u32,
    reads: u64,
    zeros: u64,
}

impl ZeroSample {
    /// Samples nothing unless payload reaches the buffers.
    pub(super) fn new(is_on: bool) -> Self {
        Self { left: if is_on { 1 } else { u64::MAX }, step: 1, slot: NO_SLOT, reads: 0, zeros: 0 }
    }

    /// Counts a read; returns `true` if it is to be sampled.
    #[inline]
    pub(super) fn is_due(&mut self) -> bool {
        self.left -= 1;
        self.left == 0
    }

    /// Number of reads before the next one to be sampled.
    #[inline]
    pub(super) fn unsampled(&self) -> u64 {
        self.left - 1
    }

    /// Counts reads before the next one to be sampled.
    #[inline]
    pub(super) fn pass_over(&mut self, reads: u64) {
        self.left -= reads;
    }

    /// Samples the read in this slot, unless another one is still in flight.
    #[cold]
    pub(super) fn begin(&mut self, slot: u32) -> bool {
        let is_free = self.slot == NO_SLOT;
        self.left = if is_free { self.step } else { 1 };
        if is_free {
            self.slot = slot;
        }
        is_free
    }

    #[inline]
    pub(super) fn is_of(&self, slot: u32) -> bool {
        self.slot == slot
    }

    /// Counts the block, of which nothing was read if the read failed.
    #[cold]
    pub(super) fn end(&mut self, block: &[u8]) {
        self.slot = NO_SLOT;
        if block.is_empty() {
            return;
        }
        self.reads += 1;
        self.zeros += u64::from(block[..block.len().min(BYTES_MAX)].iter().all(|&byte| byte == 0));
        if self.reads.is_multiple_of(DOUBLES_AFTER) {
            self.step = self.step.saturating_mul(2);
        }
    }

    /// Sampled reads, and those of them that were all zeros.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.reads, self.zeros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_sampled_one_at_a_time_and_ever_fewer() {
        let mut sample = ZeroSample::new(true);
        let mut sampled = Vec::new();
        for read in 0..100_000 {
            if sample.is_due() && sample.begin(3) {
                sampled.push(read);
                assert!(sample.is_of(3));
                sample.end(&[0, 0, u8::from(read % 4 == 0)]);
                assert!(!sample.is_of(3));
            }
        }
        assert_eq!(sampled[..64], (0..64).collect::<Vec<_>>());
        assert_eq!(sampled[64..66], [64, 66]);
        assert_eq!(sample.counts().0, sampled.len() as u64);
        assert!(sampled.len() < 64 * 11 && sampled.len() > 64 * 9, "{}", sampled.len());
    }

    #[test]
    fn only_whole_blocks_of_zeros_count_and_failed_reads_do_not() {
        let mut sample = ZeroSample::new(true);
        for block in [&[0; 4096][..], &[0, 0, 1], &[], &[0]] {
            assert!(sample.is_due() && sample.begin(0));
            assert!(sample.is_due() && !sample.begin(1), "one at a time");
            sample.end(block);
        }
        assert_eq!(sample.counts(), (3, 2));
        let mut off = ZeroSample::new(false);
        assert!((0..100).all(|_| !off.is_due()));
    }
}
