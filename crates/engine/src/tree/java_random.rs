//! `java.util.Random`, as the documentation of Java SE defines it: vdbench draws the sizes of files, and the files that
//! are used, from its sequence of seed 0.

/// The 48 bits of state.
#[derive(Debug)]
pub(super) struct JavaRandom(u64);

const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const MASK: u64 = (1 << 48) - 1;

impl JavaRandom {
    pub(super) fn new(seed: u64) -> Self {
        Self((seed ^ MULTIPLIER) & MASK)
    }

    fn next(&mut self, bits: u32) -> u64 {
        self.0 = self.0.wrapping_mul(MULTIPLIER).wrapping_add(0xB) & MASK;
        self.0 >> (48 - bits)
    }

    /// A number below `bound`, as `nextInt` draws it; `bound` is 1 to 2³¹ - 1.
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        let bound = u64::from(bound);
        if bound.is_power_of_two() {
            return ((bound * self.next(31)) >> 31) as u32;
        }
        loop {
            let bits = self.next(31);
            let drawn = bits % bound;
            // The last numbers that do not divide evenly are drawn again.
            if bits - drawn + bound <= 1 << 31 {
                return drawn as u32;
            }
        }
    }

    /// A number in [0, 1), as `nextDouble` draws it.
    pub(super) fn unit(&mut self) -> f64 {
        let high = self.next(26) << 27;
        (high + self.next(27)) as f64 / (1_u64 << 53) as f64
    }
}
