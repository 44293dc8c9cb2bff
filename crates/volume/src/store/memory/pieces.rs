//! Memory for small files: chunks of the arena, each cut into pieces of one size.
//!
//! A piece belongs to one file, is copied in and out under the file's lock, and never lent. The budget counts the chunks, so that
//! pieces which are free among others take no memory that does not count.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use iocurve_wire::nfs3::nfsstat3;

use crate::store::arena::{Arena, CHUNK_BYTES, ChunkId};
use crate::store::budget::Budget;

/// Most bytes of a file in a piece.
pub(super) const PIECE_BYTES_MAX: usize = 8 << 10;

/// The smallest piece. A chunk has at most one for each bit of a `u64`.
const PIECE_BYTES_MIN: usize = CHUNK_BYTES / 64;

/// Sizes of pieces, each twice the one before.
const CLASSES: usize = (PIECE_BYTES_MAX / PIECE_BYTES_MIN).ilog2() as usize + 1;

/// The data of a small file. Behind them are zeros.
#[derive(Debug, Default)]
pub(super) struct Small {
    /// The chunk that the piece is in; 0 without a piece.
    chunk: ChunkId,
    length: u16,
    class: u8,
    /// Number of the piece in its chunk.
    index: u8,
}

/// The free pieces of one size, in the chunks that have some: a bit for each.
type FreePieces = BTreeMap<ChunkId, u64>;

#[derive(Debug, Default)]
pub(super) struct Pieces([Mutex<FreePieces>; CLASSES]);

impl Small {
    /// Bytes of data memory.
    pub(super) fn bytes(&self) -> u64 {
        if self.chunk == 0 { 0 } else { bytes_of(self.class) as u64 }
    }

    /// The data, up to the last byte that was written.
    pub(super) fn data(&self, arena: &Arena) -> &[u8] {
        if self.chunk == 0 {
            return &[];
        }
        // SAFETY: this number of bytes of the piece was written, and change only by `&mut self`.
        unsafe { std::slice::from_raw_parts(self.start(arena), usize::from(self.length)) }
    }

    fn start(&self, arena: &Arena) -> *mut u8 {
        // SAFETY: the piece is inside its chunk.
        unsafe { arena.data(self.chunk).add(usize::from(self.index) * bytes_of(self.class)) }
    }

    /// Forgets the data from `length` on.
    pub(super) fn cut(&mut self, length: usize) {
        self.length = usize::from(self.length).min(length) as u16;
    }
}

impl Pieces {
    /// Writes data that end within [`PIECE_BYTES_MAX`], into a larger piece if they need one.
    pub(super) fn write(
        &self,
        arena: &Arc<Arena>,
        budget: &Budget,
        small: &mut Small,
        offset: usize,
        data: &[u8],
    ) -> Result<(), nfsstat3> {
        let end = offset + data.len();
        debug_assert!(end <= PIECE_BYTES_MAX);
        if end as u64 > small.bytes() {
            let larger = self.take(arena, budget, end)?;
            let larger = Small { length: small.length, ..larger };
            let kept = small.data(arena);
            // SAFETY: two pieces, of which the new one is the longer.
            unsafe { std::ptr::copy_nonoverlapping(kept.as_ptr(), larger.start(arena), kept.len()) };
            self.give_back(arena, budget, &std::mem::replace(small, larger));
        }
        let written = usize::from(small.length);
        let start = small.start(arena);
        // SAFETY: inside the piece, which is this file's, and the file's lock is held.
        unsafe {
            start.add(written).write_bytes(0, offset.saturating_sub(written));
            std::ptr::copy_nonoverlapping(data.as_ptr(), start.add(offset), data.len());
        }
        small.length = written.max(end) as u16;
        Ok(())
    }

    /// Takes a piece of at least `bytes`, with no data in it.
    fn take(&self, arena: &Arc<Arena>, budget: &Budget, bytes: usize) -> Result<Small, nfsstat3> {
        let class = class_of(bytes);
        let mut free = self.free(class);
        if free.is_empty() {
            budget.take(CHUNK_BYTES as u64)?;
            // Chunks of one class lie together, as those of a file do.
            let Some(chunk) = arena.take(class.into(), 1).and_then(|mut chunks| chunks.pop()) else {
                budget.give_back(CHUNK_BYTES as u64);
                return Err(nfsstat3::NFS3ERR_NOSPC);
            };
            free.insert(chunk.into_id(), all_of(class));
        }
        let mut first = free.first_entry().expect("one was added");
        let (chunk, index) = (*first.key(), first.get().trailing_zeros());
        *first.get_mut() &= !(1 << index);
        if *first.get() == 0 {
            first.remove();
        }
        Ok(Small { chunk, length: 0, class, index: index as u8 })
    }

    /// Gives a piece back, and its chunk when all of it is free.
    pub(super) fn give_back(&self, arena: &Arena, budget: &Budget, small: &Small) {
        if small.chunk == 0 {
            return;
        }
        let mut free = self.free(small.class);
        let pieces = free.entry(small.chunk).or_default();
        *pieces |= 1 << small.index;
        if *pieces == all_of(small.class) {
            free.remove(&small.chunk);
            arena.give_back(&[small.chunk]);
            budget.give_back(CHUNK_BYTES as u64);
        }
    }

    fn free(&self, class: u8) -> MutexGuard<'_, FreePieces> {
        self.0[usize::from(class)].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bytes_of(class: u8) -> usize {
    PIECE_BYTES_MIN << class
}

fn class_of(bytes: usize) -> u8 {
    (bytes.max(PIECE_BYTES_MIN).next_power_of_two() / PIECE_BYTES_MIN).ilog2() as u8
}

/// A bit for each piece of a chunk.
fn all_of(class: u8) -> u64 {
    u64::MAX >> (64 - CHUNK_BYTES / bytes_of(class))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_smallest_that_suffice() {
        let bytes = [1, 256, 257, 1024, 4097, PIECE_BYTES_MAX].map(|bytes| bytes_of(class_of(bytes)));
        assert_eq!(bytes, [256, 256, 512, 1024, 8192, 8192]);
        assert_eq!((all_of(0), all_of(class_of(PIECE_BYTES_MAX))), (u64::MAX, 0b11));
    }

    #[test]
    fn small_files_share_chunks_and_leave_nothing() {
        let (arena, pieces) = (Arena::new(1 << 20).unwrap(), Pieces::default());
        let budget = Budget::new(2 * CHUNK_BYTES as u64, u64::MAX);
        let mut files: Vec<_> = (0..32_u8).map(|_| Small::default()).collect();
        for (number, small) in files.iter_mut().enumerate() {
            pieces.write(&arena, &budget, small, 0, &[number as u8; 1024]).unwrap();
        }
        assert_eq!(budget.used(), 2 * CHUNK_BYTES as u64);
        let mut more = Small::default();
        assert_eq!(pieces.write(&arena, &budget, &mut more, 0, &[0; 1000]), Err(nfsstat3::NFS3ERR_DQUOT));
        for (number, small) in files.iter().enumerate() {
            assert_eq!((small.data(&arena), small.bytes()), (&[number as u8; 1024][..], 1024));
        }
        for small in files.iter().step_by(2) {
            pieces.give_back(&arena, &budget, small);
        }
        assert_eq!(budget.used(), 2 * CHUNK_BYTES as u64, "half of each is in use");
        pieces.write(&arena, &budget, &mut more, 0, &[7; 600]).unwrap();
        assert_eq!(more.chunk, files[0].chunk);
        for small in files.iter().skip(1).step_by(2).chain([&more]) {
            pieces.give_back(&arena, &budget, small);
        }
        assert_eq!(budget.used(), 0);
        assert!(pieces.0.iter().all(|free| free.lock().unwrap().is_empty()));
    }

    #[test]
    fn a_file_that_grows_keeps_its_data_and_reads_zeros_between() {
        let (arena, pieces) = (Arena::new(1 << 20).unwrap(), Pieces::default());
        let (budget, mut small) = (Budget::new(u64::MAX, u64::MAX), Small::default());
        let mut expected: Vec<u8> = Vec::new();
        for (offset, length) in [(10_usize, 20_usize), (0, 5), (200, 100), (250, 1000), (8000, 192), (3, 4000)] {
            let data: Vec<u8> = (0..length).map(|at| (offset + at) as u8 | 1).collect();
            expected.resize(expected.len().max(offset + length), 0);
            expected[offset..offset + length].copy_from_slice(&data);
            pieces.write(&arena, &budget, &mut small, offset, &data).unwrap();
            assert_eq!(small.data(&arena), expected);
        }
        small.cut(100);
        pieces.write(&arena, &budget, &mut small, 150, &[9]).unwrap();
        assert_eq!(small.data(&arena)[99..], [&[expected[99]][..], &[0; 50], &[9]].concat());
        pieces.give_back(&arena, &budget, &small);
        assert_eq!(budget.used(), 0);
    }
}
