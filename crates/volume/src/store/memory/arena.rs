//! Memory for file data: one reservation of address space, cut into chunks, given back to the system when files go.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

/// Bytes of a chunk: the grain in which files are sparse.
pub const CHUNK_BYTES: usize = 16 << 10;

/// Freed chunks that keep their memory, to be used again without a page fault: 64 MiB.
const WARM_CHUNKS: usize = (64 << 20) / CHUNK_BYTES;

/// Number of a chunk; 0 is none.
pub type ChunkId = u32;

/// All chunks of a store.
#[derive(Debug)]
pub struct Arena {
    base: *mut u8,
    chunks: u32,
    free: Mutex<Free>,
}

// SAFETY: `base` is a mapping that lives as long as the arena; who may touch which chunk is decided by ownership of its number.
unsafe impl Send for Arena {}
unsafe impl Sync for Arena {}

#[derive(Debug)]
struct Free {
    /// Chunks with old data in them, the last one freed last.
    warm: VecDeque<ChunkId>,
    /// Chunks that are zero.
    cold: Vec<ChunkId>,
    /// First chunk that was never used, and is zero.
    next: ChunkId,
}

/// A chunk that is in no file. It goes back to the arena when dropped; nobody else may hold a pointer into it.
#[derive(Debug)]
pub struct OwnedChunk {
    arena: Arc<Arena>,
    id: ChunkId,
    clean: bool,
}

impl Arena {
    /// Reserves address space for `bytes` of data; memory is taken when it is touched.
    pub fn new(bytes: u64) -> io::Result<Arc<Self>> {
        let chunks = u32::try_from(bytes.div_ceil(CHUNK_BYTES as u64) + 1).unwrap_or(u32::MAX);
        let length = chunks as usize * CHUNK_BYTES;
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping that nothing else knows of.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags | libc::MAP_NORESERVE, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // Huge pages make copies cheaper; without them everything still works, so the outcome does not matter.
        // SAFETY: the mapping made above.
        unsafe { libc::madvise(base, length, libc::MADV_HUGEPAGE) };
        let free = Mutex::new(Free { warm: VecDeque::new(), cold: Vec::new(), next: 1 });
        Ok(Arc::new(Self { base: base.cast(), chunks, free }))
    }

    /// Takes `count` chunks, or none if there are not as many.
    pub fn take(self: &Arc<Self>, count: usize) -> Option<Vec<OwnedChunk>> {
        let mut free = self.free.lock().expect("no panic under the lock");
        let unused = (self.chunks - free.next) as usize;
        if free.warm.len() + free.cold.len() + unused < count {
            return None;
        }
        let chunk = |(id, clean)| OwnedChunk { arena: Arc::clone(self), id, clean };
        Some((0..count).map(|_| chunk(free.pop())).collect())
    }

    /// Start of a chunk's bytes.
    #[inline]
    pub fn data(&self, id: ChunkId) -> *mut u8 {
        debug_assert!(id != 0 && id < self.chunks);
        // SAFETY: inside the mapping.
        unsafe { self.base.add(id as usize * CHUNK_BYTES) }
    }

    /// Takes back chunks that nobody holds a pointer into.
    pub fn give_back(&self, ids: &mut [ChunkId]) {
        ids.sort_unstable();
        let room = {
            let mut free = self.free.lock().expect("no panic under the lock");
            let room = WARM_CHUNKS.saturating_sub(free.warm.len()).min(ids.len());
            free.warm.extend(&ids[..room]);
            room
        };
        let given = &ids[room..];
        for run in given.chunk_by(|one, next| one + 1 == *next) {
            let length = run.len() * CHUNK_BYTES;
            // SAFETY: these chunks are in no file and in no list.
            unsafe { libc::madvise(self.data(run[0]).cast(), length, libc::MADV_DONTNEED) };
        }
        self.free.lock().expect("no panic under the lock").cold.extend(given);
    }
}

impl Free {
    fn pop(&mut self) -> (ChunkId, bool) {
        if let Some(id) = self.warm.pop_back() {
            return (id, false);
        }
        let id = self.cold.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        (id, true)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; chunks keep the arena alive.
        unsafe { libc::munmap(self.base.cast(), self.chunks as usize * CHUNK_BYTES) };
    }
}

impl OwnedChunk {
    /// Start of its bytes.
    pub fn data(&self) -> *mut u8 {
        self.arena.data(self.id)
    }

    /// Makes all bytes zero.
    pub fn zero(&mut self) {
        if !self.clean {
            // SAFETY: the chunk is ours alone.
            unsafe { self.data().write_bytes(0, CHUNK_BYTES) };
            self.clean = true;
        }
    }

    /// Gives the chunk to a file.
    pub fn into_id(self) -> ChunkId {
        let id = self.id;
        // SAFETY: the arena is read once, and its owner is forgotten.
        drop(unsafe { std::ptr::read(&raw const self.arena) });
        std::mem::forget(self);
        id
    }
}

impl Drop for OwnedChunk {
    fn drop(&mut self) {
        self.arena.give_back(&mut [self.id]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_back() {
        let arena = Arena::new(2 * CHUNK_BYTES as u64).unwrap();
        let both = arena.take(2).unwrap();
        assert!(arena.take(1).is_none());
        drop(both);
        assert_eq!(arena.take(2).unwrap().len(), 2);
    }

    #[test]
    fn used_chunks_are_zeroed_again() {
        let arena = Arena::new(CHUNK_BYTES as u64).unwrap();
        let chunk = arena.take(1).unwrap().pop().unwrap();
        // SAFETY: the chunk is ours.
        unsafe { chunk.data().write(7) };
        drop(chunk);
        let mut chunk = arena.take(1).unwrap().pop().unwrap();
        chunk.zero();
        // SAFETY: the chunk is ours.
        assert_eq!(unsafe { chunk.data().read() }, 0);
    }

    #[test]
    fn memory_beyond_the_warm_chunks_is_given_back() {
        let count = WARM_CHUNKS + 2;
        let arena = Arena::new((count * CHUNK_BYTES) as u64).unwrap();
        let mut ids: Vec<_> = arena.take(count).unwrap().into_iter().map(OwnedChunk::into_id).collect();
        let last = arena.data(*ids.iter().max().unwrap());
        // SAFETY: the chunk is ours.
        unsafe { last.write(7) };
        arena.give_back(&mut ids);
        // SAFETY: still mapped; the memory behind it was given back, so that it is zero.
        assert_eq!(unsafe { last.read() }, 0);
    }
}
