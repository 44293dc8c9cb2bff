//! A worker's I/O buffers: the loop owns them, engines know their addresses.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

/// One buffer per slot, in one page-aligned allocation. The worker loop owns it.
///
/// A borrowed slot borrows all of them, so two slots cannot be held at once:
///
/// ```compile_fail,E0499
/// let mut buffers = iocurve_engine::Buffers::new(2, 4096);
/// let first = buffers.slot_mut(0, 512);
/// let second = buffers.slot_mut(1, 512);
/// first.copy_from_slice(second);
/// ```
///
/// Nor can a slot be read while it is written to:
///
/// ```compile_fail,E0502
/// let mut buffers = iocurve_engine::Buffers::new(1, 4096);
/// let read = buffers.slot(0, 512);
/// buffers.slot_mut(0, 512).fill(1);
/// assert_eq!(read[0], 0);
/// ```
#[derive(Debug)]
pub struct Buffers {
    memory: Arc<Memory>,
}

impl Buffers {
    /// `count` buffers of at least `bytes` each, zeroed, every one aligned to a page.
    pub fn new(count: usize, bytes: usize) -> Self {
        Self { memory: Arc::new(Memory::zeroed(count, bytes)) }
    }

    /// The first `length` bytes of a slot.
    #[inline]
    pub fn slot(&self, slot: u32, length: usize) -> &[u8] {
        assert!(length <= self.memory.stride);
        // SAFETY: inside the allocation. Nothing writes to it while this borrow lasts: `slot_mut` takes `&mut self`,
        // and the caller of `slot_map` keeps engines away from borrowed slots.
        unsafe { slice::from_raw_parts(self.memory.slot(slot), length) }
    }

    /// The first `length` bytes of a slot, to be written to.
    #[inline]
    pub fn slot_mut(&mut self, slot: u32, length: usize) -> &mut [u8] {
        assert!(length <= self.memory.stride);
        // SAFETY: inside the allocation. No other reference exists while this borrow lasts: it takes `&mut self`, and
        // the caller of `slot_map` keeps engines away from borrowed slots.
        unsafe { slice::from_raw_parts_mut(self.memory.slot(slot), length) }
    }

    /// All slots, each at its full length.
    pub fn slots_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let Memory { base, stride, count } = *self.memory;
        // SAFETY: the whole allocation; see `slot_mut`.
        unsafe { slice::from_raw_parts_mut(base.as_ptr(), stride * count) }.chunks_mut(stride)
    }

    /// Returns the addresses of the slots, for an engine. The map keeps the memory alive, even after the loop has
    /// ended.
    ///
    /// # Safety
    /// The engine, and the kernel on its behalf, use a slot from the submission of a request for it until they report its
    /// completion. The caller must not borrow the slot in between.
    pub unsafe fn slot_map(&self) -> SlotMap {
        SlotMap { memory: Arc::clone(&self.memory) }
    }

    /// Number of holders of the memory: this value, and every slot map.
    #[cfg(test)]
    pub(crate) fn holders(&self) -> usize {
        Arc::strong_count(&self.memory)
    }
}

/// Addresses of a worker's buffers, for an engine to pass to the kernel.
#[derive(Debug, Clone)]
pub struct SlotMap {
    memory: Arc<Memory>,
}

impl SlotMap {
    /// A map for calls that move no data of operations.
    pub(crate) fn unused() -> Self {
        Self { memory: Arc::new(Memory::zeroed(1, 1)) }
    }

    /// Start of a slot's buffer.
    #[inline]
    pub fn slot(&self, slot: u32) -> *mut u8 {
        self.memory.slot(slot)
    }

    /// Bytes from one slot to the next.
    #[inline]
    pub fn stride(&self) -> usize {
        self.memory.stride
    }

    /// Number of slots.
    #[inline]
    pub fn count(&self) -> usize {
        self.memory.count
    }
}

#[derive(Debug)]
struct Memory {
    base: NonNull<u8>,
    stride: usize,
    count: usize,
}

// SAFETY: plain memory. Only `Buffers` makes references into it, and the borrow checker checks those.
unsafe impl Send for Memory {}
// SAFETY: as above; the type itself only returns addresses.
unsafe impl Sync for Memory {}

impl Memory {
    const ALIGN: usize = 4096;

    fn zeroed(count: usize, bytes: usize) -> Self {
        let (stride, count) = (bytes.max(1).next_multiple_of(Self::ALIGN), count.max(1));
        let layout = Self::layout(stride, count);
        // SAFETY: the layout is not zero-sized.
        let Some(base) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        Self { base, stride, count }
    }

    fn layout(stride: usize, count: usize) -> Layout {
        let bytes = stride.checked_mul(count).expect("buffer memory fits the address space");
        Layout::from_size_align(bytes, Self::ALIGN).expect("buffer memory fits the address space")
    }

    #[inline]
    fn slot(&self, slot: u32) -> *mut u8 {
        assert!((slot as usize) < self.count);
        // SAFETY: inside the allocation, by the check above.
        unsafe { self.base.add(slot as usize * self.stride).as_ptr() }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with the same layout.
        unsafe { dealloc(self.base.as_ptr(), Self::layout(self.stride, self.count)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_zeroed_page_aligned_and_apart() {
        let mut buffers = Buffers::new(3, 5000);
        assert!(buffers.slots_mut().all(|slot| slot.len() == 8192 && slot.iter().all(|&byte| byte == 0)));
        for slot in 0..3 {
            let memory = buffers.slot_mut(slot, 8192);
            assert_eq!(memory.as_ptr() as usize % 4096, 0);
            memory.fill(slot as u8 + 1);
        }
        let first_and_last = |slot| [buffers.slot(slot, 8192)[0], buffers.slot(slot, 8192)[8191]];
        assert_eq!([0, 1, 2].map(first_and_last), [[1; 2], [2; 2], [3; 2]]);
    }

    #[test]
    fn an_engine_writes_to_the_buffers_that_the_loop_reads() {
        let mut buffers = Buffers::new(2, 16);
        buffers.slot_mut(1, 16).fill(7);
        // SAFETY: no slot is borrowed while the map is written through.
        let map = unsafe { buffers.slot_map() };
        assert_eq!((map.count(), map.stride()), (2, 4096));
        // SAFETY: sixteen bytes of a slot that is not borrowed.
        unsafe { map.slot(1).add(8).write_bytes(9, 8) };
        assert_eq!(buffers.slot(1, 16), [[7; 8], [9; 8]].concat());
        buffers.slot_mut(1, 16)[15] = 1;
        // SAFETY: as above.
        assert_eq!(unsafe { map.slot(1).add(15).read() }, 1);
    }

    #[test]
    fn a_map_keeps_the_memory_when_the_loop_is_gone() {
        let buffers = Buffers::new(1, 1);
        // SAFETY: no slot is ever borrowed.
        let map = unsafe { buffers.slot_map() };
        assert_eq!(buffers.holders(), 2);
        drop(buffers);
        // SAFETY: the map keeps the memory alive.
        unsafe { map.slot(0).write(5) };
        let other = map.clone();
        drop(map);
        // SAFETY: the other reference keeps it alive, too.
        assert_eq!(unsafe { other.slot(0).read() }, 5);
    }

    #[test]
    #[should_panic(expected = "slot as usize) < self.count")]
    fn a_slot_beyond_the_last_is_refused() {
        Buffers::new(2, 4096).slot(2, 1);
    }

    #[test]
    #[should_panic(expected = "length <= self.memory.stride")]
    fn more_than_a_slot_is_refused() {
        Buffers::new(2, 4096).slot_mut(0, 4097);
    }
}
