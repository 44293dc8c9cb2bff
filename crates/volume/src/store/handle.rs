//! The keyed check of file handles: a handle that was not given out, by a flipped bit or by a guess, names no file.

use std::hash::{BuildHasher, Hasher, RandomState};

#[allow(deprecated)]
// SipHash-2-4 by its documentation: what is not deprecated may hash differently in the next release
use std::hash::SipHasher;

/// The secret from which checks are made. Handles of a directory outlive a restart with the same key.
#[derive(Clone, Copy)]
pub(crate) struct HandleKey([u64; 2]);

impl HandleKey {
    pub(crate) fn new(bytes: [u8; 16]) -> Self {
        let key = u128::from_le_bytes(bytes);
        Self([key as u64, (key >> 64) as u64])
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.0[1]) << 64 | u128::from(self.0[0])).to_le_bytes()
    }

    /// A random key.
    pub(crate) fn random() -> Self {
        Self([0, 1].map(|half: u64| RandomState::new().hash_one(half)))
    }

    /// The check of a handle with these words.
    pub(super) fn check(&self, words: [u64; 3]) -> u64 {
        #[allow(deprecated)]
        let mut hasher = SipHasher::new_with_keys(self.0[0], self.0[1]);
        for word in words {
            hasher.write_u64(word.to_le());
        }
        hasher.finish()
    }
}

impl std::fmt::Debug for HandleKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("HandleKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_siphash_2_4() {
        // The key and the message of 24 bytes of the authors' test vectors.
        let key = HandleKey::new(std::array::from_fn(|at| at as u8));
        let word = |at: u8| u64::from_le_bytes(std::array::from_fn(|byte| at + byte as u8));
        assert_eq!(key.check([word(0), word(8), word(16)]), 0xb8ad_50c6_f649_af94);
    }

    #[test]
    fn a_check_depends_on_the_key_and_on_every_word() {
        let key = HandleKey::random();
        let check = key.check([1, 2, 3]);
        assert_eq!(key.check([1, 2, 3]), check);
        for words in [[0, 2, 3], [1, 0, 3], [1, 2, 0], [2, 1, 3]] {
            assert_ne!(key.check(words), check);
        }
        assert_ne!(HandleKey::random().check([1, 2, 3]), check);
    }
}
