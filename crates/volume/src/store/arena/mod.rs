//! Memory for file data: one reservation of address space, cut into chunks, given back to the system when files go.

mod regions;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use regions::{REGION_CHUNKS, Regions};

pub(in crate::store) use regions::ChunkId;

/// Bytes of a chunk: the grain in which files are sparse.
pub(in crate::store) const CHUNK_BYTES: usize = 16 << 10;

const REGION_BYTES: usize = REGION_CHUNKS * CHUNK_BYTES;

/// Words of 64 bits for the chunks of a region.
const REFERRED_WORDS: usize = REGION_CHUNKS / 64;

/// The chunks of one store.
#[derive(Debug)]
pub(in crate::store) struct Arena {
    mapping: *mut u8,
    /// Start of the first region, on a boundary of huge pages.
    base: *mut u8,
    most_regions: usize,
    /// A bit for each chunk whose pages a client may still see, because they were sent by reference.
    referred: Box<[AtomicU64]>,
    regions: Mutex<Regions>,
    /// There may be regions to repair.
    needs_repair: AtomicBool,
    /// A region was split since the last repair.
    was_split: AtomicBool,
}

// SAFETY: `base` is a mapping that lives as long as the arena; who may touch which chunk is decided by ownership of its number.
unsafe impl Send for Arena {}
// SAFETY: as for `Send`; `regions` is behind a lock, and all else that changes is atomic.
unsafe impl Sync for Arena {}

/// A chunk that is in no file. It goes back to the arena when dropped; nobody else may hold a pointer into it.
#[derive(Debug)]
pub(in crate::store) struct OwnedChunk {
    arena: Arc<Arena>,
    id: ChunkId,
    clean: bool,
}

impl Arena {
    /// Reserves address space for at least `bytes` of data; memory is taken when it is touched.
    pub(in crate::store) fn new(bytes: u64) -> io::Result<Arc<Self>> {
        let most_regions = (bytes / REGION_BYTES as u64 + 1).min(u64::from(u32::MAX) / REGION_CHUNKS as u64) as usize;
        let length = Self::mapping_bytes(most_regions);
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping that nothing else knows of.
        let mapping =
            unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags | libc::MAP_NORESERVE, -1, 0) };
        if mapping == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // Without huge pages everything still works, so the outcome does not matter.
        // SAFETY: the mapping made above.
        unsafe { libc::madvise(mapping, length, libc::MADV_HUGEPAGE) };
        let mapping: *mut u8 = mapping.cast();
        let base = mapping.wrapping_add(mapping.align_offset(REGION_BYTES));
        let referred = (0..most_regions * REFERRED_WORDS).map(|_| AtomicU64::new(0)).collect();
        Ok(Arc::new(Self {
            mapping,
            base,
            most_regions,
            referred,
            regions: Mutex::new(Regions::new(most_regions)),
            needs_repair: false.into(),
            was_split: false.into(),
        }))
    }

    /// One region more than are used, so that the first one can begin on its boundary.
    fn mapping_bytes(regions: usize) -> usize {
        (regions + 1) * REGION_BYTES
    }

    /// Takes `count` chunks for a file, or `None` if there are fewer. Chunks of one file are neighbours in memory as far as possible;
    /// the last one returned comes first in memory.
    pub(in crate::store) fn take(self: &Arc<Self>, file: u32, count: usize) -> Option<Vec<OwnedChunk>> {
        let mut regions = self.regions();
        if regions.available() < count {
            return None;
        }
        let chunk = |(id, clean)| OwnedChunk { arena: Arc::clone(self), id, clean };
        let mut taken: Vec<_> = (0..count).map(|_| chunk(regions.pop(file))).collect();
        for chunk in taken.iter().filter(|chunk| self.is_referred(chunk.id as usize)) {
            regions.split(chunk.id);
            self.needs_repair.store(true, Relaxed);
            self.was_split.store(true, Relaxed);
        }
        drop(regions);
        self.detach(&mut taken);
        taken.reverse();
        Some(taken)
    }

    /// Notes that a client may see these bytes for any length of time. Bytes that are not the arena's are ignored.
    pub(in crate::store) fn sent_by_reference(&self, data: *const u8, length: usize) {
        let offset = data.addr().wrapping_sub(self.base.addr());
        if offset >= self.most_regions * REGION_BYTES || length == 0 {
            return;
        }
        for chunk in offset / CHUNK_BYTES..=(offset + length - 1) / CHUNK_BYTES {
            if !self.is_referred(chunk) {
                self.referred[chunk / 64].fetch_or(1 << (chunk % 64), Relaxed);
            }
        }
    }

    fn is_referred(&self, chunk: usize) -> bool {
        self.referred[chunk / 64].load(Relaxed) & 1 << (chunk % 64) != 0
    }

    /// Gives chunks that are to be used again new pages where a client may still see the old ones.
    fn detach(&self, taken: &mut [OwnedChunk]) {
        let mut at = 0;
        while at < taken.len() {
            let run = taken[at..].iter().enumerate().take_while(|(number, chunk)| {
                let id = chunk.id as usize;
                id == taken[at].id as usize + number && self.is_referred(id)
            });
            let length = run.count();
            for chunk in &mut taken[at..at + length] {
                self.referred[chunk.id as usize / 64].fetch_and(!(1 << (chunk.id % 64)), Relaxed);
                chunk.clean = true;
            }
            self.discard(taken[at].id as usize * CHUNK_BYTES, length * CHUNK_BYTES);
            at += length.max(1);
        }
    }

    /// True if a client may see any chunk of a region.
    fn is_seen(&self, region: usize) -> bool {
        self.referred[region * REFERRED_WORDS..][..REFERRED_WORDS].iter().any(|word| word.load(Relaxed) != 0)
    }

    fn discard_region(&self, region: usize) {
        let words = &self.referred[region * REFERRED_WORDS..][..REFERRED_WORDS];
        for word in words {
            word.store(0, Relaxed);
        }
        self.discard(region * REGION_BYTES, REGION_BYTES);
    }

    /// Gives memory that is in no file back to the system. It then reads as zeros; pages that a client still sees stay with the client.
    fn discard(&self, offset: usize, length: usize) {
        if length == 0 {
            return;
        }
        // SAFETY: inside the mapping, and in no file.
        let status = unsafe { libc::madvise(self.base.add(offset).cast(), length, libc::MADV_DONTNEED) };
        // To continue would show the data of one file in another.
        assert_eq!(status, 0, "memory must not be locked");
    }

    pub(in crate::store) fn needs_repair(&self) -> bool {
        self.needs_repair.load(Relaxed)
    }

    /// Makes one split region a huge page again, if the system can; that copies 2 MiB. Does nothing if a region was split since the
    /// last call: while files change, repairs would not last. Returns whether to go on with the next region at once.
    pub(in crate::store) fn repair_huge_page(&self) -> bool {
        if self.was_split.swap(false, Relaxed) {
            return false;
        }
        let mut regions = self.regions();
        let Some(region) = regions.next_to_repair() else {
            self.needs_repair.store(false, Relaxed);
            return false;
        };
        drop(regions);
        let start = self.base.wrapping_add(region * REGION_BYTES).cast();
        // It fails while a client may see some of the pages, and before Linux 6.1.
        // SAFETY: inside the mapping, whose content stays as it is.
        if unsafe { libc::madvise(start, REGION_BYTES, libc::MADV_COLLAPSE) } == 0 {
            self.regions().repaired(region);
        }
        true
    }

    /// The first byte of a chunk.
    #[inline]
    pub(in crate::store) fn data(&self, id: ChunkId) -> *mut u8 {
        debug_assert!(id != 0 && (id as usize) < self.most_regions * REGION_CHUNKS);
        // SAFETY: inside the mapping.
        unsafe { self.base.add(id as usize * CHUNK_BYTES) }
    }

    /// Takes back chunks that nobody holds a pointer into.
    pub(in crate::store) fn give_back(&self, ids: &[ChunkId]) {
        let mut regions = self.regions();
        let discarded: Vec<usize> =
            ids.iter().filter_map(|id| regions.push(*id, |region| self.is_seen(region))).collect();
        drop(regions);
        for region in discarded {
            // All its chunks are in no file and, for now, in no list.
            self.discard_region(region);
            self.regions().discarded(region);
        }
    }

    fn regions(&self) -> MutexGuard<'_, Regions> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; chunks keep the arena alive.
        unsafe { libc::munmap(self.mapping.cast(), Self::mapping_bytes(self.most_regions)) };
    }
}

impl OwnedChunk {
    /// Its first byte.
    pub(in crate::store) fn data(&self) -> *mut u8 {
        self.arena.data(self.id)
    }

    /// Makes all bytes zero.
    pub(in crate::store) fn zero(&mut self) {
        if !self.clean {
            // SAFETY: the chunk is ours alone.
            unsafe { self.data().write_bytes(0, CHUNK_BYTES) };
            self.clean = true;
        }
    }

    /// Gives the chunk to a file.
    pub(in crate::store) fn into_id(self) -> ChunkId {
        let id = self.id;
        // SAFETY: the arena is read once, and its owner is forgotten.
        drop(unsafe { std::ptr::read(&raw const self.arena) });
        std::mem::forget(self);
        id
    }
}

impl Drop for OwnedChunk {
    fn drop(&mut self) {
        self.arena.give_back(&[self.id]);
    }
}

#[cfg(test)]
mod tests {
    use super::regions::WARM_REGIONS;
    use super::*;

    #[test]
    fn chunks_come_back() {
        let arena = Arena::new(1).unwrap();
        let all = arena.take(0, REGION_CHUNKS - 1).unwrap();
        assert!(arena.take(0, 1).is_none());
        drop(all);
        assert!(arena.take(0, REGION_CHUNKS).is_none());
        assert_eq!(arena.take(0, REGION_CHUNKS - 1).unwrap().len(), REGION_CHUNKS - 1);
    }

    #[test]
    fn neighbours_are_taken_together() {
        let arena = Arena::new(1).unwrap();
        let mut taken = arena.take(0, 3).unwrap();
        let first = taken.pop().unwrap().into_id();
        assert_eq!([taken.pop().unwrap().into_id(), taken.pop().unwrap().into_id()], [first + 1, first + 2]);
    }

    #[test]
    fn used_chunks_are_zeroed_again() {
        let arena = Arena::new(1).unwrap();
        let chunk = arena.take(0, 1).unwrap().pop().unwrap();
        let id = chunk.id;
        // SAFETY: the chunk is ours.
        unsafe { chunk.data().write(7) };
        drop(chunk);
        let mut chunk = arena.take(0, 1).unwrap().pop().unwrap();
        assert_eq!((chunk.id, chunk.clean), (id, false));
        chunk.zero();
        // SAFETY: the chunk is ours.
        assert_eq!(unsafe { chunk.data().read() }, 0);
    }

    /// Taken and given back again, with a byte in it.
    fn used(arena: &Arc<Arena>, count: usize) -> Vec<ChunkId> {
        let ids: Vec<_> = arena.take(0, count).unwrap().into_iter().map(OwnedChunk::into_id).collect();
        // SAFETY: the chunks are ours.
        ids.iter().for_each(|id| unsafe { arena.data(*id).write(7) });
        ids
    }

    #[test]
    fn what_may_still_be_seen_has_other_pages_when_it_is_used_again() {
        let arena = Arena::new(1).unwrap();
        let (ids, _others) = (used(&arena, 4), used(&arena, 4));
        // The end of one chunk and the start of the next; then what is not the arena's.
        let [one, other] = [ids[2], ids[1]];
        assert_eq!(other, one + 1);
        arena.sent_by_reference(arena.data(other).wrapping_sub(1), 2);
        arena.sent_by_reference(std::ptr::null(), 1);
        arena.sent_by_reference(arena.data(1).wrapping_sub(1 << 40), 1);
        arena.give_back(&ids);
        let again = arena.take(0, 4).unwrap();
        // SAFETY: the chunks are ours.
        let bytes: Vec<_> = again.iter().map(|chunk| (chunk.id, chunk.clean, unsafe { chunk.data().read() })).collect();
        assert_eq!(
            bytes,
            ids.iter()
                .map(|id| if [one, other].contains(id) { (*id, true, 0) } else { (*id, false, 7) })
                .collect::<Vec<_>>()
        );
        assert!(!arena.is_referred(one as usize) && !arena.is_referred(other as usize));
    }

    #[test]
    fn a_region_of_which_a_part_may_be_seen_is_discarded_as_a_whole() {
        let arena = Arena::new(REGION_BYTES as u64).unwrap();
        let ids = used(&arena, REGION_CHUNKS);
        arena.sent_by_reference(arena.data(ids[5]), 1);
        arena.give_back(&ids);
        let again = arena.take(0, 1).unwrap().pop().unwrap();
        assert!(again.clean && ids.contains(&again.id));
        // SAFETY: still mapped, and in no file.
        assert_eq!(ids.iter().filter(|id| unsafe { arena.data(**id).read() } != 0).count(), 0);
    }

    #[test]
    fn repaired_pages_keep_their_data() {
        let arena = Arena::new(REGION_BYTES as u64).unwrap();
        let ids = used(&arena, REGION_CHUNKS);
        assert!(!arena.needs_repair());
        arena.sent_by_reference(arena.data(ids[5]), 1);
        arena.give_back(&ids[5..6]);
        let again = arena.take(0, REGION_CHUNKS).unwrap();
        assert!(arena.needs_repair() && again.iter().any(|chunk| chunk.id == ids[5] && chunk.clean));
        assert_eq!([arena.repair_huge_page(), arena.repair_huge_page()], [false, true], "not while it was just split");
        // SAFETY: the chunks are ours.
        let sum: usize = ids.iter().map(|id| usize::from(unsafe { arena.data(*id).read() })).sum();
        assert_eq!((arena.needs_repair(), sum), (true, 7 * (REGION_CHUNKS - 1)));
        assert!(!arena.repair_huge_page() && !arena.needs_repair());
    }

    #[test]
    fn memory_beyond_the_warm_regions_is_given_back() {
        let regions = WARM_REGIONS + 3;
        let arena = Arena::new((regions * REGION_BYTES) as u64).unwrap();
        let take_all = || -> Vec<ChunkId> {
            let all = arena.take(0, regions * REGION_CHUNKS).unwrap();
            all.into_iter().map(OwnedChunk::into_id).collect()
        };
        let ids = take_all();
        for id in &ids {
            // SAFETY: the chunk is ours.
            unsafe { arena.data(*id).write(7) };
        }
        arena.give_back(&ids);
        // SAFETY: still mapped; memory that was given back reads as zeros.
        let zeros = ids.iter().filter(|id| unsafe { arena.data(**id).read() } == 0).count();
        assert_eq!(zeros, (regions - WARM_REGIONS) * REGION_CHUNKS);
        let again = take_all();
        assert_eq!(again.len(), ids.len());
    }
}
