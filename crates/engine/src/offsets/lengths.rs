//! Block sizes: the length of the next operation.

use iocurve_meter::Rng;

use crate::plan::Blocks;

/// Block sizes of one kind of operation, ready to be drawn from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lengths {
    Fixed(u32),
    /// `low`, `low + step` and so on, `count` of them.
    Range {
        low: u32,
        step: u32,
        count: u32,
    },
    /// Sizes in ascending order, each with the sum of the weights up to it.
    Split(Vec<(u32, u64)>),
}

impl Lengths {
    /// The error says what is wrong with the sizes.
    pub(crate) fn new(blocks: &Blocks) -> Result<Self, String> {
        match *blocks {
            Blocks::Fixed { bytes: 0 } => Err("a block must have at least 1 byte".into()),
            Blocks::Fixed { bytes } => Ok(Self::Fixed(bytes)),
            Blocks::Range { low: 0, .. } => Err("a range of blocks must start at 1 byte or more".into()),
            Blocks::Range { step: 0, .. } => Err("a range of blocks needs a step of 1 byte or more".into()),
            Blocks::Range { low, high, .. } if low > high => {
                Err(format!("a range of blocks from {low} to {high} bytes is empty; the smaller size comes first"))
            }
            Blocks::Range { low, high, step } => Ok(Self::Range { low, step, count: (high - low) / step + 1 }),
            Blocks::Split { ref parts } => {
                let mut sizes: Vec<_> = parts.iter().filter(|part| part.weight > 0).collect();
                sizes.sort_by_key(|part| part.bytes);
                match sizes.first() {
                    None => return Err("no block size has a weight above 0".into()),
                    Some(part) if part.bytes == 0 => return Err("a block must have at least 1 byte".into()),
                    Some(_) => {}
                }
                let mut upto = 0;
                Ok(Self::Split(
                    sizes
                        .into_iter()
                        .map(|part| {
                            upto += u64::from(part.weight);
                            (part.bytes, upto)
                        })
                        .collect(),
                ))
            }
        }
    }

    pub(crate) fn smallest(&self) -> u64 {
        match self {
            Self::Fixed(bytes) | Self::Range { low: bytes, .. } => u64::from(*bytes),
            Self::Split(sizes) => u64::from(sizes[0].0),
        }
    }

    pub(crate) fn largest(&self) -> u64 {
        match self {
            Self::Fixed(bytes) => u64::from(*bytes),
            Self::Range { low, step, count } => u64::from(low + step * (count - 1)),
            Self::Split(sizes) => u64::from(sizes[sizes.len() - 1].0),
        }
    }

    /// Draws a size that fits into `room`, which is at least the smallest: as if drawn until one fits, like fio.
    #[inline(always)]
    pub(crate) fn draw(&self, room: u64, rng: &mut Rng) -> u32 {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Range { .. } | Self::Split(_) => self.draw_one_of_many(room, rng),
        }
    }

    fn draw_one_of_many(&self, room: u64, rng: &mut Rng) -> u32 {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Range { low, step, count } => {
                let fitting = room.saturating_sub(u64::from(*low)) / u64::from(*step) + 1;
                low + step * rng.below(fitting.min(u64::from(*count))) as u32
            }
            Self::Split(sizes) => {
                let fitting = sizes.iter().rposition(|&(bytes, _)| u64::from(bytes) <= room).unwrap_or(0);
                let drawn = rng.below(sizes[fitting].1);
                sizes[sizes.iter().position(|&(_, upto)| drawn < upto).unwrap_or(fitting)].0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::plan::BlockShare;

    fn split(parts: &[(u32, u32)]) -> Blocks {
        Blocks::Split { parts: parts.iter().map(|&(bytes, weight)| BlockShare { bytes, weight }).collect() }
    }

    fn drawn(blocks: &Blocks, room: u64, count: usize) -> BTreeMap<u32, usize> {
        let (lengths, mut rng) = (Lengths::new(blocks).unwrap(), Rng::new(1));
        let mut seen = BTreeMap::new();
        for _ in 0..count {
            *seen.entry(lengths.draw(room, &mut rng)).or_default() += 1;
        }
        seen
    }

    #[test]
    fn a_range_has_its_low_and_every_step_up_to_its_high() {
        let range = Blocks::Range { low: 4096, high: 10_000, step: 2048 };
        assert_eq!(drawn(&range, u64::MAX, 1000).into_keys().collect::<Vec<_>>(), [4096, 6144, 8192]);
        let lengths = Lengths::new(&range).unwrap();
        assert_eq!((lengths.smallest(), lengths.largest()), (4096, 8192));
    }

    #[test]
    fn a_split_is_met_within_chance_and_skips_sizes_without_weight() {
        let seen = drawn(&split(&[(65_536, 30), (512, 0), (4096, 70)]), u64::MAX, 10_000);
        assert_eq!(seen.keys().copied().collect::<Vec<_>>(), [4096, 65_536]);
        // 7,000 expected; five standard deviations are 229.
        assert!(seen[&4096].abs_diff(7000) < 229, "{seen:?}");
    }

    #[test]
    fn sizes_that_do_not_fit_are_not_drawn_and_the_others_keep_their_proportion() {
        let seen = drawn(&split(&[(4096, 10), (8192, 30), (65_536, 60)]), 10_000, 10_000);
        assert_eq!(seen.keys().copied().collect::<Vec<_>>(), [4096, 8192]);
        // 2,500 expected; five standard deviations are 217.
        assert!(seen[&4096].abs_diff(2500) < 217, "{seen:?}");
        let range = Blocks::Range { low: 512, high: 1 << 20, step: 512 };
        assert_eq!(drawn(&range, 1535, 1000).into_keys().collect::<Vec<_>>(), [512, 1024]);
        assert_eq!(drawn(&range, 512, 10).into_keys().collect::<Vec<_>>(), [512]);
    }

    #[test]
    fn invalid_sizes_are_refused() {
        let refusal = |blocks: &Blocks| Lengths::new(blocks).unwrap_err();
        assert_eq!(refusal(&Blocks::Fixed { bytes: 0 }), "a block must have at least 1 byte");
        assert_eq!(
            refusal(&Blocks::Range { low: 8192, high: 4096, step: 512 }),
            "a range of blocks from 8192 to 4096 bytes is empty; the smaller size comes first"
        );
        assert_eq!(
            refusal(&Blocks::Range { low: 512, high: 4096, step: 0 }),
            "a range of blocks needs a step of 1 byte or more"
        );
        assert_eq!(refusal(&split(&[(4096, 0)])), "no block size has a weight above 0");
        assert_eq!(refusal(&split(&[])), "no block size has a weight above 0");
        assert_eq!(refusal(&split(&[(0, 1)])), "a block must have at least 1 byte");
    }
}
