//! Blocks in pseudo-random order, each exactly once.

use iocurve_meter::Rng;

/// A pseudo-random permutation of 0..n without a table.
///
/// Applies a few invertible steps on the next power of two until the result is below n (fewer than two rounds on
/// average). It needs no memory, however large the region; a bitmap would need a bit per block.
#[derive(Debug, Clone)]
pub(crate) struct Permutation {
    n: u64,
    mask: u64,
    shift: u32,
    keys: [u64; 3],
}

impl Permutation {
    /// Creates a permutation of `0..n`, chosen by `seed`.
    ///
    /// # Panics
    /// If `n` is 0.
    pub(crate) fn new(n: u64, seed: u64) -> Self {
        assert!(n > 0, "nothing to put in order");
        let bits = (64 - (n - 1).leading_zeros()).max(2);
        let mut rng = Rng::new(seed);
        Self {
            n,
            mask: u64::MAX >> (64 - bits),
            shift: bits.div_ceil(2),
            keys: std::array::from_fn(|_| rng.next_u64()),
        }
    }

    /// Returns the number at position `index`, which must be below `n`.
    #[inline]
    pub(crate) fn at(&self, index: u64) -> u64 {
        let mut x = index;
        loop {
            x = self.step(x);
            if x < self.n {
                return x;
            }
        }
    }

    /// Both steps are invertible: a multiplication by an odd number, and an XOR of the upper half into the lower half.
    #[inline]
    fn step(&self, mut x: u64) -> u64 {
        const ODD: [u64; 3] = [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03, 0x2545_f491_4f6c_dd1d];
        for (key, odd) in self.keys.iter().zip(ODD) {
            x = (x.wrapping_add(*key)).wrapping_mul(odd) & self.mask;
            x ^= x >> self.shift;
        }
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_has_every_number_once() {
        for n in [1, 2, 3, 4, 5, 63, 64, 65, 1000, 4096, 65537] {
            let order = Permutation::new(n, 42);
            let mut seen: Vec<u64> = (0..n).map(|i| order.at(i)).collect();
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..n), "n = {n}");
        }
    }

    #[test]
    fn neighbours_are_not_neighbours_any_more() {
        let n = 1 << 16;
        let order = Permutation::new(n, 7);
        let near = (1..n).filter(|&i| order.at(i).abs_diff(order.at(i - 1)) <= 16).count();
        // By chance, 32 of 65,536 indices are within 16 of the previous one.
        assert!((10..100).contains(&near), "{near}");
    }

    #[test]
    fn steps_have_no_favourite_distance() {
        let n = 1 << 16;
        let order = Permutation::new(n, 7);
        let mut buckets = [0u32; 64];
        for i in 1..n {
            buckets[(order.at(i).wrapping_sub(order.at(i - 1)) % n / (n / 64)) as usize] += 1;
        }
        // Expected are 1,024 in each bucket; the bounds are five standard deviations.
        assert!(buckets.iter().all(|&count| (864..1184).contains(&count)), "{buckets:?}");
    }

    #[test]
    fn another_seed_is_another_order() {
        let (a, b) = (Permutation::new(1000, 1), Permutation::new(1000, 2));
        let same = (0..1000).filter(|&i| a.at(i) == b.at(i)).count();
        assert!(same < 20, "{same}");
    }
}
