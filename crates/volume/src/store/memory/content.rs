//! The data of one file: a table of chunks with holes in it.

use iocurve_wire::nfs3::nfsstat3;

use crate::store::arena::{CHUNK_BYTES, ChunkId};

/// Chunks named by one leaf of the table: 16 MiB of the file.
const LEAF_CHUNKS: usize = 1024;

/// Which chunk holds which part of the file; 0 is a hole.
#[derive(Debug, Default)]
pub struct Content {
    leaves: Vec<Option<Box<[ChunkId; LEAF_CHUNKS]>>>,
    chunks: u64,
}

/// A part of a transfer that lies in one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Number of the chunk in the file.
    pub number: u64,
    /// First byte in the chunk.
    pub start: usize,
    /// Bytes.
    pub length: usize,
}

/// Cuts a transfer into parts of one chunk each.
pub fn spans(offset: u64, length: usize) -> impl Iterator<Item = Span> {
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
    /// The chunk with this number in the file, 0 if there is none.
    #[inline]
    pub fn get(&self, number: u64) -> ChunkId {
        let (leaf, index) = place(number);
        self.leaves.get(leaf).and_then(Option::as_ref).map_or(0, |leaf| leaf[index])
    }

    /// Puts a chunk in place and returns the one that was there, 0 if none was.
    pub fn put(&mut self, number: u64, id: ChunkId) -> ChunkId {
        let (leaf, index) = place(number);
        if leaf >= self.leaves.len() {
            self.leaves.resize_with(leaf + 1, || None);
        }
        let slot = &mut self.leaves[leaf].get_or_insert_with(|| Box::new([0; LEAF_CHUNKS]))[index];
        let old = std::mem::replace(slot, id);
        self.chunks += u64::from(old == 0);
        old
    }

    /// How many chunks a transfer lacks.
    pub fn missing(&self, offset: u64, length: usize) -> u64 {
        spans(offset, length).filter(|span| self.get(span.number) == 0).count() as u64
    }

    /// Bytes of memory that the table itself takes once it reaches up to `end`.
    pub fn table_bytes(&self, end: u64) -> u64 {
        let leaves = (self.leaves.len() as u64).max(end.div_ceil((CHUNK_BYTES * LEAF_CHUNKS) as u64));
        leaves * size_of::<Option<Box<[ChunkId; LEAF_CHUNKS]>>>() as u64
    }

    /// Takes out all chunks from this number on.
    pub fn cut(&mut self, first: u64) -> Vec<ChunkId> {
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
    pub fn bytes(&self) -> u64 {
        self.chunks * CHUNK_BYTES as u64
    }

    /// Checks that every part of a transfer has its chunk.
    pub fn covers(&self, offset: u64, length: usize) -> bool {
        spans(offset, length).all(|span| self.get(span.number) != 0)
    }
}

fn place(number: u64) -> (usize, usize) {
    ((number / LEAF_CHUNKS as u64) as usize, (number % LEAF_CHUNKS as u64) as usize)
}

/// A count of bytes that is bounded: by a quota, which may change, and by the room there is.
#[derive(Debug)]
pub struct Budget {
    used: std::sync::atomic::AtomicU64,
    quota: std::sync::atomic::AtomicU64,
    room: u64,
}

impl Budget {
    /// Nothing used yet.
    pub fn new(quota: u64, room: u64) -> Self {
        Self { used: 0.into(), quota: quota.into(), room }
    }

    /// Uses `bytes`, if the quota (else `NFS3ERR_DQUOT`) and the room (else `NFS3ERR_NOSPC`) have them.
    pub fn take(&self, bytes: u64) -> Result<(), nfsstat3> {
        use std::sync::atomic::Ordering::Relaxed;
        let (quota, limit) = (self.quota(), self.limit());
        let fits = |used: u64| used.checked_add(bytes).filter(|used| *used <= limit);
        let full = if quota <= self.room { nfsstat3::NFS3ERR_DQUOT } else { nfsstat3::NFS3ERR_NOSPC };
        self.used.fetch_update(Relaxed, Relaxed, fits).map(drop).map_err(|_| full)
    }

    /// Sets another quota. One below what is used takes nothing away; no more is given until enough was given back.
    pub fn set_quota(&self, quota: u64) {
        self.quota.store(quota, std::sync::atomic::Ordering::Relaxed);
    }

    /// The quota.
    pub fn quota(&self) -> u64 {
        self.quota.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Uses `bytes` even beyond the limit: they are there already.
    pub fn use_anyway(&self, bytes: u64) {
        self.used.fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
    }

    /// Gives `bytes` back.
    pub fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, std::sync::atomic::Ordering::Relaxed);
    }

    /// Bytes used.
    pub fn used(&self) -> u64 {
        self.used.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Bytes there are.
    pub fn limit(&self) -> u64 {
        self.quota().min(self.room)
    }
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

    #[test]
    fn a_budget_is_kept_to_the_byte() {
        let budget = Budget::new(10, u64::MAX);
        assert_eq!(budget.take(10), Ok(()));
        assert_eq!(budget.take(1), Err(nfsstat3::NFS3ERR_DQUOT));
        budget.give_back(4);
        assert_eq!((budget.take(4), budget.used()), (Ok(()), 10));
    }
}
