//! Sizes of files, and the files that are used, as vdbench draws them.

use super::java_random::JavaRandom;
use crate::plan::Tree;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Size of each file.
#[derive(Debug)]
pub(super) enum Sizes {
    Same(u64),
    Drawn(Vec<u64>),
}

impl Sizes {
    pub(super) fn new(tree: &Tree, files: u32) -> Self {
        let first = tree.sizes[0].bytes;
        let mut random = JavaRandom::new(0);
        if tree.sizes_spread {
            return Self::Drawn((0..files).map(|_| spread(first, &mut random)).collect());
        }
        if tree.sizes.len() == 1 {
            return Self::Same(first);
        }
        let weights = tree.sizes.iter().map(|size| u64::from(size.weight)).sum();
        let one = |_| {
            let mut drawn = below(weights, &mut random);
            for size in &tree.sizes {
                let weight = u64::from(size.weight);
                if drawn < weight {
                    return size.bytes;
                }
                drawn -= weight;
            }
            first
        };
        Self::Drawn((0..files).map(one).collect())
    }

    pub(super) fn of(&self, file: u32) -> u64 {
        match self {
            Self::Same(bytes) => *bytes,
            Self::Drawn(sizes) => sizes[file as usize],
        }
    }
}

/// A size between a half and one and a half times the average, rounded to a multiple that grows with it; 0 if it is less than half a KiB.
fn spread(average: u64, random: &mut JavaRandom) -> u64 {
    let drawn = average / 2 + below(average, random);
    let step = match (drawn, average) {
        (10_485_760.., _) => MIB,
        (_, MIB..) => 100 * KIB,
        (_, 102_400..) => 10 * KIB,
        _ => KIB,
    };
    (drawn + step / 2) / step * step
}

fn below(bound: u64, random: &mut JavaRandom) -> u64 {
    match u32::try_from(bound) {
        Ok(bound) if bound < 1 << 31 => u64::from(random.below(bound)),
        // vdbench has no such sizes.
        _ => (random.unit() * bound as f64) as u64,
    }
}

/// The files that have `bytes` together, chosen at random, in order of their numbers.
pub(super) fn used(files: u32, bytes: u64, size: impl Fn(u32) -> u64) -> Vec<u32> {
    let mut random = JavaRandom::new(0);
    let (mut is_used, mut count, mut left) = (vec![false; files as usize], 0, bytes);
    while left > 0 && count < files {
        let file = (random.unit() * f64::from(files)) as u32;
        if !std::mem::replace(&mut is_used[file as usize], true) {
            (count, left) = (count + 1, left.saturating_sub(size(file)));
        }
    }
    (0..files).filter(|&file| is_used[file as usize]).collect()
}
