//! Random bytes as fast as memory takes them.

use iocurve_meter::Rng;

const LANES: usize = 8;
const WIDE: usize = LANES * 8;

/// Fills memory with incompressible bytes that follow from the seed.
///
/// Eight xorshift generators side by side (Marsaglia, 2003), which the compiler turns into vector instructions.
#[inline]
pub(super) fn fill_random(bytes: &mut [u8], seed: u64) {
    let mut rng = Rng::new(seed);
    // A generator must not start at zero.
    let mut lanes: [u64; LANES] = std::array::from_fn(|_| rng.next_u64() | 1);
    let (wide, rest) = bytes.as_chunks_mut::<WIDE>();
    for place in wide {
        step(&mut lanes);
        for (word, lane) in place.as_chunks_mut::<8>().0.iter_mut().zip(lanes) {
            *word = lane.to_le_bytes();
        }
    }
    step(&mut lanes);
    for (byte, random) in rest.iter_mut().zip(lanes.iter().flat_map(|lane| lane.to_le_bytes())) {
        *byte = random;
    }
}

#[inline]
fn step(lanes: &mut [u64; LANES]) {
    for lane in lanes {
        *lane ^= *lane << 13;
        *lane ^= *lane >> 7;
        *lane ^= *lane << 17;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(bytes: usize, seed: u64) -> Vec<u8> {
        let mut memory = vec![0; bytes];
        fill_random(&mut memory, seed);
        memory
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_another_one_others() {
        assert_eq!(random(1000, 7), random(1000, 7));
        let (a, b) = (random(4096, 7), random(4096, 8));
        // One byte in 256 is the same by chance.
        assert!(a.iter().zip(&b).filter(|(a, b)| a == b).count() < 50);
    }

    #[test]
    fn bytes_at_the_front_do_not_depend_on_the_length() {
        assert_eq!(random(100, 7), random(1000, 7)[..100]);
    }

    #[test]
    fn every_value_comes_about_as_often_as_every_other() {
        let mut counts = [0u32; 256];
        for byte in random(1 << 20, 1) {
            counts[byte as usize] += 1;
        }
        // 4,096 expected of each; six standard deviations are 384.
        assert!(counts.iter().all(|count| (3712..4480).contains(count)), "{counts:?}");
    }
}
