//! A fast keyed hash of the numbers of clients and connections.
//!
//! A key is multiplied with itself under two secret words, and both halves of the product are folded together. Addresses are chosen by clients,
//! so the words are random for each table: without them no client can make its addresses collide.

use std::hash::{BuildHasher, Hasher, RandomState};

/// The secret words of one table.
#[derive(Debug, Clone)]
pub(super) struct KeyHash([u64; 2]);

/// The state of a hash.
#[derive(Debug)]
pub(super) struct KeyHasher {
    words: [u64; 2],
    hash: u64,
}

impl Default for KeyHash {
    fn default() -> Self {
        let random = RandomState::new();
        Self([0, 1].map(|word| random.hash_one(word)))
    }
}

impl BuildHasher for KeyHash {
    type Hasher = KeyHasher;

    #[inline]
    fn build_hasher(&self) -> KeyHasher {
        KeyHasher { words: self.0, hash: 0 }
    }
}

impl Hasher for KeyHasher {
    #[inline]
    fn write_u128(&mut self, key: u128) {
        let (low, high) = (key as u64 ^ self.words[0] ^ self.hash, (key >> 64) as u64 ^ self.words[1]);
        let product = u128::from(low) * u128::from(high);
        self.hash = (product as u64 ^ (product >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(16) {
            let mut key = [0; 16];
            key[..part.len()].copy_from_slice(part);
            self.write_u128(u128::from_le_bytes(key));
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.hash
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Tables take the lowest bits for the place and the highest seven to compare.
    fn collisions(hash: &KeyHash, keys: impl Iterator<Item = u128>) -> (usize, usize) {
        let hashes: Vec<u64> = keys.map(|key| hash.hash_one(key)).collect();
        let places: HashSet<u64> = hashes.iter().map(|hash| hash % (1 << 16)).collect();
        let all: HashSet<&u64> = hashes.iter().collect();
        (hashes.len() - places.len(), hashes.len() - all.len())
    }

    #[test]
    fn keys_that_differ_little_are_spread_as_by_chance() {
        let hash = KeyHash([0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db]);
        // 4,096 balls into 65,536 places: 125 meet another one on average.
        let numbers = collisions(&hash, 1..=4096);
        let addresses = collisions(&hash, (1..=4096).map(|host| 0xffff_0a00_0000 + host));
        let networks = collisions(&hash, (1..=4096).map(|network| network << 64 | 1));
        for (in_one_place, equal) in [numbers, addresses, networks] {
            assert!((60..200).contains(&in_one_place), "{in_one_place}");
            assert_eq!(equal, 0);
        }
    }

    #[test]
    fn tables_have_different_secrets() {
        assert_ne!(KeyHash::default().hash_one(1_u128), KeyHash::default().hash_one(1_u128));
    }
}
