//! The data of one file: a piece of a chunk, or a table of chunks with holes in it.

use super::pieces::Small;
use crate::store::arena::{CHUNK_BYTES, ChunkId};

/// The data of one file. It is small until it is written beyond what a piece holds, and again when it is cut to nothing.
#[derive(Debug)]
pub(super) enum Content {
    Small(Small),
    Chunks(Chunks),
}

/// Most chunks named by one leaf of the table: 16 MiB of the file.
const LEAF_CHUNKS: usize = 1024;

/// Shortest leaf with chunks.
const LEAF_CHUNKS_MIN: usize = 4;

/// Most bytes of a leaf without its places: its entry in the table, which may be half empty, and what an allocation takes.
const LEAF_BYTES: usize = 2 * size_of::<Box<[ChunkId]>>() + 16;

/// Maps the parts of a file to chunks; 0 is a hole.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    /// Each leaf is as long as its last chunk needs.
    leaves: Vec<Box<[ChunkId]>>,
    filled: u64,
    /// Lengths of all leaves together.
    places: u32,
}

/// A part of a transfer that lies in one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    /// Number of the chunk in the file.
    pub(super) number: u64,
    /// First byte in the chunk.
    pub(super) start: usize,
    pub(super) length: usize,
}

impl Span {
    /// First byte in the file.
    pub(super) fn position(&self) -> u64 {
        self.number * CHUNK_BYTES as u64 + self.start as u64
    }
}

/// Cuts a transfer into parts of one chunk each.
pub(super) fn spans(offset: u64, length: usize) -> impl Iterator<Item = Span> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == length {
            return None;
        }
        let position = offset + at as u64;
        let start = (position % CHUNK_BYTES as u64) as usize;
        let span =
            Span { number: position / CHUNK_BYTES as u64, start, length: (length - at).min(CHUNK_BYTES - start) };
        at += span.length;
        Some(span)
    })
}

impl Content {
    /// Bytes of data memory in the file.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Small(small) => small.bytes(),
            Self::Chunks(chunks) => chunks.bytes(),
        }
    }

    /// True if a part of the file lies in chunks and has no holes.
    pub(super) fn covers(&self, offset: u64, length: usize) -> bool {
        match self {
            Self::Small(_) => length == 0,
            Self::Chunks(chunks) => chunks.covers(offset, length),
        }
    }
}

impl Default for Content {
    fn default() -> Self {
        Self::Small(Small::default())
    }
}

impl Chunks {
    /// Returns the chunk with this number in the file, 0 for a hole.
    #[inline]
    pub(super) fn get(&self, number: u64) -> ChunkId {
        let (leaf, index) = place(number);
        self.leaves.get(leaf).and_then(|leaf| leaf.get(index)).map_or(0, |id| *id)
    }

    /// Puts a chunk in place and returns the one it replaces, 0 for a hole.
    pub(super) fn put(&mut self, number: u64, id: ChunkId) -> ChunkId {
        let (leaf, index) = place(number);
        if leaf >= self.leaves.len() {
            self.leaves.resize_with(leaf + 1, Box::default);
        }
        let leaf = &mut self.leaves[leaf];
        if index >= leaf.len() {
            let mut longer = vec![0; leaf_places(index)];
            longer[..leaf.len()].copy_from_slice(leaf);
            self.places += (longer.len() - leaf.len()) as u32;
            *leaf = longer.into();
        }
        let old = std::mem::replace(&mut leaf[index], id);
        self.filled += u64::from(old == 0);
        old
    }

    /// Counts the holes in a part of the file.
    pub(super) fn missing(&self, offset: u64, length: usize) -> u64 {
        spans(offset, length).filter(|span| self.get(span.number) == 0).count() as u64
    }

    /// Bytes of memory that the table itself takes.
    pub(super) fn table_bytes(&self) -> u64 {
        bytes_of_table(self.leaves.len(), self.places as usize)
    }

    /// As [`Self::table_bytes`], once all of a part of the file has chunks.
    pub(super) fn table_bytes_with(&self, offset: u64, length: usize) -> u64 {
        let (mut leaves, mut places) = (self.leaves.len(), self.places as usize);
        // The last chunk in each leaf is the last one that counts.
        let mut grown = (usize::MAX, 0);
        for (leaf, index) in spans(offset, length).map(|span| place(span.number)) {
            let before = self.leaves.get(leaf).map_or(0, |leaf| leaf.len());
            let growth = leaf_places(index).saturating_sub(before);
            places += if grown.0 == leaf { growth - grown.1 } else { growth };
            (leaves, grown) = (leaves.max(leaf + 1), (leaf, growth));
        }
        bytes_of_table(leaves, places)
    }

    /// Removes all chunks from this number on and returns them.
    pub(super) fn cut(&mut self, first: u64) -> Vec<ChunkId> {
        let (leaf, index) = place(first);
        let mut cut = Vec::new();
        for (number, ids) in self.leaves.iter_mut().enumerate().skip(leaf) {
            let start = if number == leaf { index } else { 0 };
            cut.extend(ids.iter_mut().skip(start).map(std::mem::take).filter(|id| *id != 0));
        }
        let kept = (leaf + usize::from(index > 0)).min(self.leaves.len());
        self.places -= self.leaves.drain(kept..).map(|leaf| leaf.len() as u32).sum::<u32>();
        self.leaves.shrink_to(2 * kept);
        self.filled -= cut.len() as u64;
        cut
    }

    /// Bytes of data memory in the file.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.filled * CHUNK_BYTES as u64
    }

    /// True if a part of the file has no holes.
    pub(super) fn covers(&self, offset: u64, length: usize) -> bool {
        spans(offset, length).all(|span| self.get(span.number) != 0)
    }
}

/// Places of a leaf whose last chunk is at an index.
fn leaf_places(index: usize) -> usize {
    (index + 1).next_power_of_two().max(LEAF_CHUNKS_MIN)
}

fn bytes_of_table(leaves: usize, places: usize) -> u64 {
    (leaves * LEAF_BYTES + places * size_of::<ChunkId>()) as u64
}

fn place(number: u64) -> (usize, usize) {
    ((number / LEAF_CHUNKS as u64) as usize, (number % LEAF_CHUNKS as u64) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_are_cut_at_chunks() {
        let chunk = CHUNK_BYTES as u64;
        let cut: Vec<_> = spans(chunk - 1, CHUNK_BYTES + 2).collect();
        assert_eq!(
            cut,
            [
                Span { number: 0, start: CHUNK_BYTES - 1, length: 1 },
                Span { number: 1, start: 0, length: CHUNK_BYTES },
                Span { number: 2, start: 0, length: 1 },
            ]
        );
        assert_eq!(spans(5, 0).count(), 0);
    }

    #[test]
    fn the_table_takes_what_was_said_before() {
        let leaf = (LEAF_CHUNKS * CHUNK_BYTES) as u64;
        let mut content = Chunks::default();
        for (offset, length) in
            [(0, 1), (leaf - 1, 2), (5 * leaf + 100, 1 << 20), (leaf * 6 - 9, 1 << 20), (3, 1 << 20)]
        {
            let expected = content.table_bytes_with(offset, length);
            for span in spans(offset, length) {
                content.put(span.number, 7);
            }
            assert_eq!(content.table_bytes(), expected);
            let of_leaves: usize = content.leaves.iter().map(|leaf| size_of_val(&**leaf)).sum();
            // The four entries of the shortest table are in what the name counts.
            let table = content.leaves.capacity().saturating_sub(4) * size_of::<Box<[ChunkId]>>();
            assert!(table + of_leaves <= expected as usize);
        }
        content.cut(LEAF_CHUNKS as u64 + 1);
        assert_eq!(content.table_bytes(), (2 * LEAF_BYTES + (LEAF_CHUNKS + LEAF_CHUNKS_MIN) * 4) as u64);
        content.cut(0);
        assert_eq!((content.table_bytes(), content.places), (0, 0));
    }

    #[test]
    fn holes_stay_holes() {
        let mut content = Chunks::default();
        assert_eq!(content.put(LEAF_CHUNKS as u64 * 3, 7), 0);
        assert_eq!((content.get(0), content.get(LEAF_CHUNKS as u64 * 3)), (0, 7));
        assert_eq!(content.bytes(), CHUNK_BYTES as u64);
        assert_eq!(content.missing(0, CHUNK_BYTES), 1);
        assert!(!content.covers(0, 1));
    }

    #[test]
    fn cutting_takes_all_that_follows() {
        let mut content = Chunks::default();
        for (number, id) in [(1, 11), (2, 12), (LEAF_CHUNKS as u64 + 5, 13)] {
            content.put(number, id);
        }
        assert_eq!(content.cut(2), [12, 13]);
        assert_eq!((content.get(1), content.get(2), content.bytes()), (11, 0, CHUNK_BYTES as u64));
        assert_eq!(content.cut(0), [11]);
        assert_eq!(content.bytes(), 0);
    }
}
