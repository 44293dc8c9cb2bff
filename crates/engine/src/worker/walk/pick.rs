//! Selection of files and directories, and what the walk has selected but not begun.

use iocurve_meter::Rng;

use crate::permutation::Permutation;
use crate::plan::{TreeSelect, TreeWork};
use crate::tree::TreeState;

/// Most files that are tried before the worker checks for the end of the run.
pub(super) const TRIES: u64 = 10_000;

#[derive(Debug)]
pub(super) struct Pick {
    how: TreeSelect,
    once: bool,
    order: Option<Permutation>,
    /// Files or directories in a row that did not suit.
    pub(super) rejected: u64,
    /// A directory whose parent does not exist yet.
    pub(super) waiting: Option<u32>,
    /// Number of a directory to remove, below which entries are still being removed.
    pub(super) removal: Option<u64>,
}

impl Pick {
    pub(super) fn new(work: &TreeWork) -> Self {
        Self { how: work.select, once: work.select_once, order: None, rejected: 0, waiting: None, removal: None }
    }

    /// Position of the next file; `None` if each was selected once.
    pub(super) fn file(&mut self, state: &TreeState, rng: &mut Rng) -> Option<u64> {
        let count = state.used_files();
        if self.once {
            let turn = Some(state.next_file()).filter(|&turn| turn < count)?;
            let is_random = self.how != TreeSelect::Sequential {};
            // All workers on the tree have one order.
            return Some(if is_random {
                self.order.get_or_insert_with(|| Permutation::new(count, 2)).at(turn)
            } else {
                turn
            });
        }
        Some(match self.how {
            TreeSelect::Sequential {} => state.next_file() % count,
            TreeSelect::Random {} => rng.below(count),
            TreeSelect::Skewed { half_within_ppm } => skewed(count, half_within_ppm, rng),
        })
    }

    /// The next directory: upwards to create them, downwards to remove them.
    pub(super) fn directory(&mut self, state: &TreeState, rng: &mut Rng, upwards: bool) -> u32 {
        let count = u64::from(state.shape().directories());
        let place = match self.how {
            TreeSelect::Sequential {} => state.next_directory() % count,
            _ => rng.below(count),
        };
        (if upwards { place } else { count - 1 - place }) as u32
    }

    /// The next directory to list; `None` if each was selected once.
    pub(super) fn listed(&mut self, state: &TreeState, rng: &mut Rng) -> Option<u32> {
        let count = u64::from(state.shape().directories());
        if self.once {
            return Some(state.next_directory()).filter(|&turn| turn < count).map(|turn| turn as u32);
        }
        Some(self.directory(state, rng, true))
    }

    /// Rejections in a row after which nothing is expected to suit: every one was seen, or very probably so.
    pub(super) fn rejections_max(&self, count: u64) -> u64 {
        match self.how {
            TreeSelect::Sequential {} => count,
            _ => count.saturating_mul(20).max(1000),
        }
    }
}

/// Exponentially distributed: half of the numbers are below a share of the count.
fn skewed(count: u64, half_within_ppm: u32, rng: &mut Rng) -> u64 {
    let half = count as f64 * f64::from(half_within_ppm) / 1e6;
    loop {
        let place = -(1.0 - rng.unit()).log2() * half;
        if place < count as f64 {
            return place as u64;
        }
    }
}
