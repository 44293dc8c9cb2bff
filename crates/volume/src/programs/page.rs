//! The entries of a listing as a reply has them, in either version of NFS.

use iocurve_wire::xdr::{Encode, Writer};

/// Encoded entries that fit into the room that the client has for them.
#[derive(Debug)]
pub(super) struct Page {
    bytes: Vec<u8>,
    room: usize,
}

impl Page {
    /// No entries so far. Those of `count` bytes have room, of which the reply takes `frame_bytes` for itself.
    pub(super) fn new(count: usize, frame_bytes: usize) -> Self {
        let room = count.saturating_sub(frame_bytes);
        Self { bytes: Vec::with_capacity(room), room }
    }

    /// Adds an entry if it has room; `false` if it has not.
    #[inline]
    pub(super) fn add(&mut self, entry: impl FnOnce(&mut Writer<'_>)) -> bool {
        let start = self.bytes.len();
        let mut writer = Writer::new(&mut self.bytes);
        true.encode(&mut writer);
        entry(&mut writer);
        let fits = self.bytes.len() <= self.room;
        if !fits {
            self.bytes.truncate(start);
        }
        fits
    }

    /// True if no entry had room, although there are some.
    pub(super) fn is_too_small(&self, end: bool) -> bool {
        self.bytes.is_empty() && !end
    }

    /// Appends the entries, and says whether the directory ends with them.
    pub(super) fn finish(&self, end: bool, out: &mut Writer<'_>) {
        out.bytes(&self.bytes);
        false.encode(out);
        end.encode(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_does_not_fit_leaves_nothing() {
        let mut page = Page::new(20, 8);
        assert!(!page.add(|out| out.u64(1 << 32)) || page.bytes.len() == 12);
        assert!(!page.add(|out| out.u32(2)));
        assert_eq!((page.bytes.len(), page.is_too_small(false)), (12, false));
        let mut small = Page::new(7, 8);
        assert!(!small.add(|_| {}));
        assert_eq!((small.is_too_small(false), small.is_too_small(true)), (true, false));
        let mut bytes = Vec::new();
        page.finish(true, &mut Writer::new(&mut bytes));
        assert_eq!(bytes, [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    }
}
