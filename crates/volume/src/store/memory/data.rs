//! The memory behind the data of all files: chunks from the arena and pieces of them, within the budget.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam_epoch as epoch;

use iocurve_wire::nfs3::nfsstat3;

use super::content::{Chunks, Content, Span, spans};
use super::pieces::{PIECE_BYTES_MAX, Pieces};
use crate::reply::batch::Batch;
use crate::store::arena::{Arena, CHUNK_BYTES, ChunkId, OwnedChunk};
use crate::store::budget::Budget;
use crate::store::write_buffer::{Piece, WriteBuffer};

#[derive(Debug)]
pub(super) struct DataMemory {
    pub(super) arena: Arc<Arena>,
    pub(super) budget: Budget,
    pieces: Pieces,
    /// Chunks taken out of files that may still be on their way to a client.
    retired: Arc<AtomicU64>,
}

impl DataMemory {
    pub(super) fn new(quota_bytes: u64, limit_bytes: u64) -> io::Result<Self> {
        // Chunks that are on their way in or out are not in the budget; a quarter more has room for them. The quota may grow later.
        let arena = Arena::new(limit_bytes.saturating_add(limit_bytes / 4).saturating_add(256 << 20))?;
        let (budget, pieces) = (Budget::new(quota_bytes, limit_bytes), Pieces::default());
        Ok(Self { arena, budget, pieces, retired: Arc::default() })
    }

    /// Appends a part of a file to the batch, without copying it if it is in chunks. The caller holds the file's lock, and an epoch guard until the
    /// batch is cleared.
    #[inline]
    pub(super) fn lend(&self, content: &Content, offset: u64, length: usize, batch: &mut Batch) {
        let chunks = match content {
            Content::Chunks(chunks) => chunks,
            Content::Small(small) => {
                let data = small.data(&self.arena);
                let start = data.len().min(offset as usize);
                let data = &data[start..data.len().min(start + length)];
                batch.bytes(data);
                return batch.zeros(length - data.len());
            }
        };
        for span in spans(offset, length) {
            match chunks.get(span.number) {
                0 => batch.zeros(span.length),
                // SAFETY: a chunk that leaves the file stays mapped as long as the caller's epoch guard lives.
                id => unsafe { batch.lend(self.arena.data(id).add(span.start), span.length) },
            }
        }
    }

    /// Writes data, into memory that the file gets where it has none. The caller holds the file's lock for writing.
    pub(super) fn write(&self, file: u32, content: &mut Content, offset: u64, data: &[u8]) -> Result<(), nfsstat3> {
        let chunks = match content {
            Content::Small(small) if offset + data.len() as u64 <= PIECE_BYTES_MAX as u64 => {
                return self.pieces.write(&self.arena, &self.budget, small, offset as usize, data);
            }
            content => self.chunks(file, content)?,
        };
        self.fill_holes(file, chunks, offset, data.len())?;
        self.copy_into(chunks, offset, data);
        Ok(())
    }

    /// The chunks of a file. The data of a small one move into its first chunk.
    fn chunks<'c>(&self, file: u32, content: &'c mut Content) -> Result<&'c mut Chunks, nfsstat3> {
        if let Content::Small(small) = content {
            let mut chunks = Chunks::default();
            let data = small.data(&self.arena);
            if !data.is_empty() {
                self.fill_holes(file, &mut chunks, 0, data.len())?;
                self.copy_into(&chunks, 0, data);
            }
            self.pieces.give_back(&self.arena, &self.budget, small);
            *content = Content::Chunks(chunks);
        }
        match content {
            Content::Chunks(chunks) => Ok(chunks),
            Content::Small(_) => unreachable!("it has chunks now"),
        }
    }

    /// Copies data into chunks that the file [covers](Content::covers). The caller holds the file's lock.
    #[inline]
    pub(super) fn copy_in(&self, content: &Content, offset: u64, data: &[u8]) {
        if let Content::Chunks(chunks) = content {
            self.copy_into(chunks, offset, data);
        }
    }

    #[inline]
    fn copy_into(&self, chunks: &Chunks, offset: u64, data: &[u8]) {
        let mut rest = data;
        for span in spans(offset, data.len()) {
            let (now, later) = rest.split_at(span.length);
            // SAFETY: the file's lock keeps the chunk in the file, and the span is inside it. Under a lock for reading another WRITE, or a
            // READ that copies, may touch the same bytes at this time. By Rust's rules that is a data race; what makes it harmless here is
            // that no reference to the bytes exists, that nothing is decided by their values, and that the copy is a call of the system's
            // memcpy, which no compiler sees through. Clients that race get bytes of one or the other (RFC 1813 promises no more).
            unsafe {
                let target = self.arena.data(chunks.get(span.number)).add(span.start);
                std::ptr::copy_nonoverlapping(now.as_ptr(), target, now.len());
            }
            rest = later;
        }
    }

    /// Allocates the chunks that a transfer lacks.
    fn fill_holes(&self, file: u32, chunks: &mut Chunks, offset: u64, length: usize) -> Result<(), nfsstat3> {
        let mut taken = self.take(file, chunks, offset, length, chunks.missing(offset, length) as usize)?;
        for span in spans(offset, length) {
            if chunks.get(span.number) == 0 {
                let mut chunk = taken.pop().expect("one for each missing chunk");
                if span.length < CHUNK_BYTES {
                    chunk.zero();
                }
                chunks.put(span.number, chunk.into_id());
            }
        }
        Ok(())
    }

    /// Allocates memory for the data of a WRITE: the chunks that it fills, and bytes to be copied for its edges.
    pub(super) fn buffer(&self, file: u32, handle: &[u8], offset: u64, length: usize) -> Result<WriteBuffer, nfsstat3> {
        let whole = spans(offset, length).filter(|span| span.length == CHUNK_BYTES).count();
        let mut chunks = self.arena.take(file, whole).ok_or(nfsstat3::NFS3ERR_NOSPC)?;
        let pieces = spans(offset, length).map(|span| match span.length {
            CHUNK_BYTES => Piece::Chunk(chunks.pop().expect("as many as there are whole spans")),
            length => Piece::Bytes(vec![0; length]),
        });
        WriteBuffer::new(handle, offset, pieces.collect())
    }

    /// Puts received data into a file and returns the chunks they replace, which must be retired.
    pub(super) fn put(&self, file: u32, content: &mut Content, buffer: WriteBuffer) -> Result<Vec<ChunkId>, nfsstat3> {
        let (offset, length) = (buffer.offset, buffer.length());
        let chunks = self.chunks(file, content)?;
        let is_edge_hole = |span: &Span| span.length < CHUNK_BYTES && chunks.get(span.number) == 0;
        let holes = spans(offset, length).filter(is_edge_hole).count();
        let mut edges = self.take(file, chunks, offset, length, holes)?;
        let mut replaced = Vec::new();
        for (span, piece) in spans(offset, length).zip(buffer.pieces) {
            match piece {
                Piece::Chunk(chunk) => replaced.push(chunks.put(span.number, chunk.into_id())),
                Piece::Bytes(bytes) => {
                    if chunks.get(span.number) == 0 {
                        let mut chunk = edges.pop().expect("one for each hole");
                        chunk.zero();
                        chunks.put(span.number, chunk.into_id());
                    }
                    self.copy_into(chunks, span.position(), &bytes);
                }
            }
        }
        replaced.retain(|id| *id != 0);
        Ok(replaced)
    }

    /// Takes what a transfer lacks out of the budget, and `count` chunks out of the arena.
    fn take(
        &self,
        file: u32,
        chunks: &Chunks,
        offset: u64,
        length: usize,
        count: usize,
    ) -> Result<Vec<OwnedChunk>, nfsstat3> {
        let table_bytes = chunks.table_bytes_with(offset, length) - chunks.table_bytes();
        let cost = chunks.missing(offset, length) * CHUNK_BYTES as u64 + table_bytes;
        self.budget.take(cost)?;
        self.arena.take(file, count).ok_or_else(|| {
            self.budget.give_back(cost);
            nfsstat3::NFS3ERR_NOSPC
        })
    }

    /// Cuts a file to `size` bytes, fewer than it had.
    pub(super) fn truncate(&self, content: &mut Content, size: u64) {
        match content {
            content if size == 0 => self.remove(content),
            Content::Small(small) => small.cut(size as usize),
            Content::Chunks(chunks) => {
                self.remove_from(chunks, size.div_ceil(CHUNK_BYTES as u64));
                let (last, kept) = (size / CHUNK_BYTES as u64, (size % CHUNK_BYTES as u64) as usize);
                let id = chunks.get(last);
                if kept > 0 && id != 0 {
                    // The bytes beyond the end must read as zeros if the file grows again.
                    // SAFETY: inside a chunk that the file's lock keeps in the file.
                    unsafe { self.arena.data(id).add(kept).write_bytes(0, CHUNK_BYTES - kept) };
                }
            }
        }
    }

    /// Removes all data of a file.
    pub(super) fn remove(&self, content: &mut Content) {
        match std::mem::take(content) {
            Content::Small(small) => self.pieces.give_back(&self.arena, &self.budget, &small),
            Content::Chunks(mut chunks) => self.remove_from(&mut chunks, 0),
        }
    }

    /// Removes a file's chunks from this number on.
    fn remove_from(&self, chunks: &mut Chunks, first: u64) {
        let table_bytes = chunks.table_bytes();
        let cut = chunks.cut(first);
        self.budget.give_back((cut.len() * CHUNK_BYTES) as u64 + table_bytes - chunks.table_bytes());
        self.retire(cut);
    }

    /// Gives chunks back to the arena once no batch can show them any more.
    pub(super) fn retire(&self, ids: Vec<ChunkId>) {
        if ids.is_empty() {
            return;
        }
        let (arena, retired, count) = (Arc::clone(&self.arena), Arc::clone(&self.retired), ids.len() as u64);
        retired.fetch_add(count, Relaxed);
        let guard = epoch::pin();
        guard.defer(move || {
            arena.give_back(&ids);
            retired.fetch_sub(count, Relaxed);
        });
        guard.flush();
    }

    /// Gives retired chunks back as far as that is possible now, and returns whether some are left.
    pub(super) fn reclaim(&self) -> bool {
        if self.retired.load(Relaxed) > 0 {
            epoch::pin().flush();
        }
        self.retired.load(Relaxed) > 0
    }
}
