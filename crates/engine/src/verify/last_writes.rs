//! The last writes of each file, for states that other runs continue from.

use crate::engines::request::Address;
use crate::outcome::LastWrite;

/// Most offsets that are kept, over all files: a worker may have a million of them.
const KEPT_MAX: usize = 1 << 16;

/// By file: a ring of the offsets of its last writes.
#[derive(Debug)]
pub(super) struct LastWrites {
    offsets: Vec<Option<u64>>,
    /// By file: place of the next offset in its ring.
    next: Vec<u32>,
    depth: usize,
}

impl LastWrites {
    /// Keeps as many offsets of each file as operations can be in flight; none if there are too many files.
    pub(super) fn new(files: usize, depth: u32) -> Self {
        let depth = depth as usize;
        let files = if files.saturating_mul(depth) <= KEPT_MAX { files } else { 0 };
        Self { offsets: vec![None; files * depth], next: vec![0; files], depth }
    }

    #[inline]
    pub(super) fn completed(&mut self, write: Address) {
        let Some(next) = self.next.get_mut(write.file as usize) else { return };
        self.offsets[write.file as usize * self.depth + *next as usize] = Some(write.offset);
        *next = (*next + 1) % self.depth as u32;
    }

    /// All offsets, file by file.
    pub(super) fn newest_first(&self) -> Vec<LastWrite> {
        let rings = self.offsets.chunks(self.depth).zip(&self.next).zip(0..);
        let newest = |((ring, &next), file): ((&[Option<u64>], &u32), u32)| {
            let (after, before) = ring.split_at(next as usize);
            let offsets = before.iter().chain(after).rev().copied().flatten();
            offsets.map(|offset| LastWrite { file, offset }).collect::<Vec<_>>()
        };
        rings.flat_map(newest).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(file: u32, offset: u64) -> Address {
        Address { file, offset, length: 1 }
    }

    #[test]
    fn the_newest_of_each_file_come_first_and_older_ones_are_forgotten() {
        let mut last = LastWrites::new(2, 3);
        for place in [write(0, 1), write(1, 9), write(0, 2), write(0, 3), write(0, 4)] {
            last.completed(place);
        }
        let found: Vec<_> = last.newest_first().into_iter().map(|write| (write.file, write.offset)).collect();
        assert_eq!(found, [(0, 4), (0, 3), (0, 2), (1, 9)]);
    }

    #[test]
    fn of_too_many_files_none_is_kept() {
        let mut last = LastWrites::new(KEPT_MAX + 1, 1);
        last.completed(write(0, 1));
        assert!(last.newest_first().is_empty());
    }
}
