//! The data of one file: a table of chunks with holes in it.

use crate::store::arena::{CHUNK_BYTES, ChunkId};

/// Chunks named by one leaf of the table: 16 MiB of the file.
const LEAF_CHUNKS: usize = 1024;

/// Maps the parts of a file to chunks; 0 is a hole.
#[derive(Debug, Default)]
pub(super) struct Content {
    leaves: Vec<Option<Box<[ChunkId; LEAF_CHUNKS]>>>,
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
        let position = offset + at as u64;
        let start = (position % CHUNK_BYTES as u64) as usize;
        let span =
            Span { number: position / CHUNK_BYTES as u64, start, length: (length - at).min(CHUNK_BYTES - start) };
        at += span.length;
        (span.length > 0).then_some(span)
    })
}

impl Content {
    /// Returns the chunk with this number in the file, 0 for a hole.
    #[inline]
    pub(super) fn get(&self, number: u64) -> ChunkId {
        let (leaf, index) = place(number);
        self.leaves.get(leaf).and_then(Option::as_ref).map_or(0, |leaf| leaf[index])
    }

    /// Puts a chunk in place and returns the one it replaces, 0 for a hole.
    pub(super) fn put(&mut self, number: u64, id: ChunkId) -> ChunkId {
        let (leaf, index) = place(number);
        if leaf >= self.leaves.len() {
            self.leaves.resize_with(leaf + 1, || None);
        }
        let slot = &mut self.leaves[leaf].get_or_insert_with(|| Box::new([0; LEAF_CHUNKS]))[index];
        let old = std::mem::replace(slot, id);
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
        leaves * size_of::<Option<Box<[ChunkId; LEAF_CHUNKS]>>>() as u64
    }

    /// Removes all chunks from this number on and returns them.
    pub(super) fn cut(&mut self, first: u64) -> Vec<ChunkId> {
        let (leaf, index) = place(first);
        let mut cut = Vec::new();
        for (number, leaf) in self.leaves.iter_mut().enumerate().skip(leaf).filter_map(|(n, l)| Some((n, l.as_mut()?)))
        {
            let start = if number == place(first).0 { index } else { 0 };
            cut.extend(leaf[start..].iter_mut().map(std::mem::take).filter(|id| *id != 0));
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
        let mut content = Content::default();
        assert_eq!(content.put(LEAF_CHUNKS as u64 * 3, 7), 0);
        assert_eq!((content.get(0), content.get(LEAF_CHUNKS as u64 * 3)), (0, 7));
        assert_eq!(content.bytes(), CHUNK_BYTES as u64);
        assert_eq!(content.missing(0, CHUNK_BYTES), 1);
        assert!(!content.covers(0, 1));
    }

    #[test]
    fn cutting_takes_all_that_follows() {
        let mut content = Content::default();
        for (number, id) in [(1, 11), (2, 12), (LEAF_CHUNKS as u64 + 5, 13)] {
            content.put(number, id);
        }
        assert_eq!(content.cut(2), [12, 13]);
        assert_eq!((content.get(1), content.get(2), content.bytes()), (11, 0, CHUNK_BYTES as u64));
        assert_eq!(content.cut(0), [11]);
        assert_eq!(content.bytes(), 0);
    }
}
