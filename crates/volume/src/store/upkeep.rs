//! Work that a store leaves to the threads, to be done between calls.

use iocurve_meter::Nanos;

/// Keeps a store tidy. A store with nothing to tidy keeps these defaults.
pub(crate) trait Upkeep {
    /// Notes that data which a READ has lent are being sent by reference: from now on a client may see this memory until it has been
    /// parted from its pages. The caller still holds the epoch guard under which the data were lent.
    fn sent_by_reference(&self, _data: *const u8, _length: usize) {}

    /// Frees memory of removed data that is no longer on its way to a client, and returns whether some is left to free.
    fn reclaim(&self) -> bool {
        false
    }

    /// Closes files that are open and not in use, and returns when to call it again.
    fn close_idle(&self, _now: Nanos) -> Option<Nanos> {
        None
    }

    /// True if [`repair_huge_page`](Self::repair_huge_page) may have something to do.
    fn needs_repair(&self) -> bool {
        false
    }

    /// Rebuilds one split huge page (takes at most 1 ms), and returns whether the caller should go on with the next one at once.
    fn repair_huge_page(&self) -> bool {
        false
    }
}
