//! Pseudo-random numbers that repeat exactly from their seed, on every machine and in every version.

/// `SplitMix64`: one addition and one mix per number (Steele, Lea and Flood, OOPSLA 2014).
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

    /// The sequence of a seed.
    #[inline]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::GOLDEN);
        mix(self.0)
    }

    /// A number below `bound`, uniform to 2⁻⁶⁴ × bound; 0 if `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in [0, 1), in steps of 2⁻⁵³.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number in (0, 1], in steps of 2⁻⁵³: it has a logarithm.
    #[inline]
    pub fn unit_above_zero(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Fills memory with the next numbers, in little-endian order of bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        let mut words = bytes.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.next_u64().to_le_bytes());
        }
        let rest = words.into_remainder();
        let last = self.next_u64().to_le_bytes();
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

/// The finalizer of `SplitMix64`: spreads every bit of a number over all bits.
#[inline]
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// FNV-1a with 64 bits: a seed from a name, the same on every machine and in every version.
pub fn seed_of(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_that_of_the_published_hash() {
        assert_eq!((seed_of(b""), seed_of(b"foobar")), (0xcbf2_9ce4_8422_2325, 0x8594_4171_f739_67e8));
    }

    #[test]
    fn the_first_numbers_of_a_seed_never_change() {
        let mut rng = Rng::new(0);
        assert_eq!([rng.next_u64(), rng.next_u64()], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
    }

    #[test]
    fn below_stays_below_and_reaches_both_ends() {
        let mut rng = Rng::new(1);
        let drawn: Vec<u64> = (0..1000).map(|_| rng.below(7)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&0), Some(&6)));
    }
}
