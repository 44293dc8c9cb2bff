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

/// Maps the parts of a file to chunks; 0 is a hole.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    /// Each leaf is as long as its last chunk needs.
    leaves: Vec<Box<[ChunkId]>>,
    chunks: u64,
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
            let mut longer = vec![0; (index + 1).next_power_of_two().max(LEAF_CHUNKS_MIN)];
            longer[..leaf.len()].copy_from_slice(leaf);
            *leaf = longer.into();
        }
        let old = std::mem::replace(&mut leaf[index], id);
        self.chunks += u64::from(old == 0);
        old
    }

    /// Counts the holes in a part of the file.
    pub(super) fn missing(&self, offset: u64, length: usize) -> u64 {
        spans(offset, length).filter(|span| self.get(span.number) == 0).count() as u64
    }

    /// Bytes of memory that the table itself takes once it extends to `end`.
    pub(super) fn table_bytes(&self, end: u64) -> u64 {
        let leaves = (self.leaves.len() as u64).max(end.div_ceil((CHUNK_BYTES * LEAF_CHUNKS) as u64));
        leaves * size_of::<Box<[ChunkId]>>() as u64
    }

    /// Removes all chunks from this number on and returns them.
    pub(super) fn cut(&mut self, first: u64) -> Vec<ChunkId> {
        let (leaf, index) = place(first);
        let mut cut = Vec::new();
        for (number, ids) in self.leaves.iter_mut().enumerate().skip(leaf) {
            let start = if number == leaf { index } else { 0 };
            cut.extend(ids.iter_mut().skip(start).map(std::mem::take).filter(|id| *id != 0));
        }
        self.leaves.truncate(leaf + usize::from(index > 0));
        self.chunks -= cut.len() as u64;
        cut
    }

    /// Bytes of data memory in the file.
    pub(super) fn bytes(&self) -> u64 {
        self.chunks * CHUNK_BYTES as u64
    }

    /// True if a part of the file has no holes.
    pub(super) fn covers(&self, offset: u64, length: usize) -> bool {
        spans(offset, length).all(|span| self.get(span.number) != 0)
    }
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
