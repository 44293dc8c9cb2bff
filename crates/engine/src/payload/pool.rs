//! A pool of bytes that is made once; each write takes a part of it (`DiskSpd`'s `-Z1M`).

use std::fs::File;
use std::io::Read;

use iocurve_meter::Rng;

use crate::error::{EngineError, TargetError};
use crate::payload::random::fill_random;

/// Largest pool of a worker.
pub(super) const POOL_BYTES_MAX: u64 = 1 << 30;
/// Parts begin at multiples of this.
const STEP: u64 = 8;

/// The pool of one worker.
#[derive(Debug)]
pub(super) struct Pool(Vec<u8>);

impl Pool {
    /// Makes a pool: the beginning of a file, repeated if the file is shorter, or random bytes.
    pub(super) fn new(bytes: u64, path: Option<&str>, seed: u64) -> Result<Self, EngineError> {
        let mut pool = vec![0; bytes as usize];
        match path {
            None => fill_random(&mut pool, seed),
            Some(path) => read_over_and_over(path, &mut pool)?,
        }
        Ok(Self(pool))
    }

    /// Copies the part that `seed` chooses. The pool must be at least as long as `memory`.
    #[inline]
    pub(super) fn fill(&self, memory: &mut [u8], seed: u64) {
        let places = (self.0.len() - memory.len()) as u64 / STEP + 1;
        let start = (Rng::new(seed).below(places) * STEP) as usize;
        memory.copy_from_slice(&self.0[start..start + memory.len()]);
    }
}

fn read_over_and_over(path: &str, pool: &mut [u8]) -> Result<(), EngineError> {
    let failed = |source| EngineError::Path { action: "read", path: path.to_owned(), source };
    let mut file = File::open(path).map_err(failed)?;
    let mut filled = 0;
    while filled < pool.len() {
        match file.read(&mut pool[filled..]).map_err(failed)? {
            0 => break,
            more => filled += more,
        }
    }
    if filled == 0 {
        return Err(TargetError::Empty { path: path.to_owned() }.into());
    }
    for place in filled..pool.len() {
        pool[place] = pool[place - filled];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::testing::Scratch;

    fn part(pool: &Pool, bytes: usize, seed: u64) -> Vec<u8> {
        let mut memory = vec![0; bytes];
        pool.fill(&mut memory, seed);
        memory
    }

    #[test]
    fn parts_come_from_many_places_of_a_pool_and_from_nowhere_else() {
        let pool = Pool::new(4096, None, 1).unwrap();
        let mut starts: Vec<usize> = (0..200)
            .map(|seed| {
                let found = part(&pool, 512, seed);
                pool.0.windows(512).position(|window| window == found).expect("a part of the pool")
            })
            .collect();
        starts.sort_unstable();
        starts.dedup();
        // 449 places, 200 draws: 161 different ones are expected.
        assert!(starts.len() > 130, "{}", starts.len());
    }

    #[test]
    fn a_part_may_be_the_whole_pool() {
        let pool = Pool::new(512, None, 1).unwrap();
        assert_eq!(part(&pool, 512, 9), pool.0);
    }

    #[test]
    fn a_short_file_fills_its_pool_over_and_over() {
        let scratch = Scratch::new("pool");
        std::fs::write(scratch.path(), b"abc").unwrap();
        assert_eq!(Pool::new(8, Some(scratch.path()), 1).unwrap().0, b"abcabcab");
        std::fs::write(scratch.path(), b"").unwrap();
        let text = Pool::new(8, Some(scratch.path()), 1).unwrap_err().to_string();
        assert!(text.ends_with("is empty; what is to be written cannot be taken from it"), "{text}");
    }
}
