//! The replies of one turn, gathered into one send: bytes written here, and data lent by the store.

use libc::iovec;

use iocurve_wire::xdr::padding;

/// Zeros that holes in files are read from.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Mean size of pieces from which on a batch is sent by reference. READs of 64 KiB took a fifth longer by it, READs of 256 KiB a
/// fifth less.
pub(crate) const BULK_PIECE_BYTES: usize = 128 << 10;

/// Replies in the order in which they leave.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    own: Vec<u8>,
    segments: Vec<Segment>,
    /// First of the `own` bytes that are in no segment yet.
    open: usize,
    lent_bytes: usize,
    lent_pieces: usize,
    /// Some of the data are likely to be overwritten soon.
    is_changing: bool,
    iovecs: Vec<iovec>,
}

// SAFETY: the pointers are used only between `lend` and `clear`, on the thread that has the batch.
unsafe impl Send for Batch {}

#[derive(Debug, Clone, Copy)]
enum Segment {
    Own { start: usize, length: usize },
    Lent { data: *const u8, length: usize },
}

/// A position in a batch, to rewind to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    own: usize,
    segments: usize,
    open: usize,
    lent_bytes: usize,
    lent_pieces: usize,
}

impl Batch {
    pub(crate) fn length(&self) -> usize {
        self.own.len() + self.lent_bytes
    }

    /// Removes all replies, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.own.clear();
        self.segments.clear();
        self.open = 0;
        self.lent_bytes = 0;
        self.lent_pieces = 0;
        self.is_changing = false;
    }

    /// Appends bytes.
    #[inline]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.own.extend_from_slice(bytes);
    }

    /// Appends bytes by `write`; if that fails, its bytes are removed.
    pub(crate) fn write<E>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        let start = self.own.len();
        let written = write(&mut self.own);
        if written.is_err() {
            self.own.truncate(start);
        }
        written
    }

    /// Appends bytes by `write`.
    pub(crate) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.own);
    }

    /// Appends `length` zero bytes, to be overwritten by [`Batch::patch`].
    #[inline]
    pub(crate) fn gap(&mut self, length: usize) -> Mark {
        let mark = self.mark();
        self.own.resize(mark.own + length, 0);
        mark
    }

    /// Overwrites the start of a gap.
    #[inline]
    pub(crate) fn patch(&mut self, mark: Mark, bytes: &[u8]) {
        self.own[mark.own..mark.own + bytes.len()].copy_from_slice(bytes);
    }

    /// Removes everything that was appended since the mark.
    pub(crate) fn rewind(&mut self, mark: Mark) {
        self.own.truncate(mark.own);
        self.segments.truncate(mark.segments);
        self.open = mark.open;
        self.lent_bytes = mark.lent_bytes;
        self.lent_pieces = mark.lent_pieces;
    }

    /// Appends up to `length` bytes that `fill` writes. It returns how many it wrote; the rest is removed.
    pub(crate) fn fill<E>(
        &mut self,
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let start = self.own.len();
        self.own.resize(start + length, 0);
        let filled = fill(&mut self.own[start..]);
        self.own.truncate(start + filled.as_ref().map_or(0, |count| *count));
        filled
    }

    /// Appends the padding of `length` bytes of data.
    #[inline]
    pub(crate) fn pad(&mut self, length: usize) {
        self.bytes(&[0; 3][..padding(length)]);
    }

    /// Appends data without copying them.
    ///
    /// # Safety
    /// The memory must stay mapped until the batch is cleared or rewound. Its bytes may change meanwhile: they are only ever
    /// copied by the kernel or by [`Batch::copy_from`], or shown to the peer by reference.
    #[inline]
    pub(crate) unsafe fn lend(&mut self, data: *const u8, length: usize) {
        if length == 0 {
            return;
        }
        self.lent_bytes += length;
        if self.open == self.own.len()
            && let Some(Segment::Lent { data: last, length: last_length }) = self.segments.last_mut()
            && last.wrapping_add(*last_length) == data
        {
            *last_length += length;
            return;
        }
        self.close();
        self.lent_pieces += 1;
        self.segments.push(Segment::Lent { data, length });
    }

    /// Appends zeros without storing them.
    pub(crate) fn zeros(&mut self, length: usize) {
        let mut rest = length;
        while rest > 0 {
            let part = rest.min(ZEROS.len());
            // SAFETY: a static lives for ever.
            unsafe { self.lend(ZEROS.as_ptr(), part) };
            rest -= part;
        }
    }

    /// Notes that some of the data are likely to be overwritten soon. They are better copied: memory that was sent by reference must
    /// be parted from its pages when it is used again.
    pub(crate) fn expect_change(&mut self) {
        self.is_changing = true;
    }

    /// True if the batch is better sent by reference: its data are in large pieces, and stay as they are.
    #[inline]
    pub(crate) fn is_bulk(&self) -> bool {
        self.lent_bytes >= BULK_PIECE_BYTES * self.lent_pieces.max(1) && !self.is_changing
    }

    /// The batch in pieces; `true` with those that are lent.
    pub(crate) fn pieces(&mut self) -> impl Iterator<Item = (bool, iovec)> + use<'_> {
        self.close();
        let own = self.own.as_ptr();
        self.segments.iter().map(move |segment| match *segment {
            Segment::Own { start, length } => {
                (false, iovec { iov_base: own.wrapping_add(start).cast_mut().cast(), iov_len: length })
            }
            Segment::Lent { data, length } => (true, iovec { iov_base: data.cast_mut().cast(), iov_len: length }),
        })
    }

    /// The batch as a gather list.
    pub(crate) fn iovecs(&mut self) -> &[iovec] {
        let mut iovecs = std::mem::take(&mut self.iovecs);
        iovecs.clear();
        iovecs.extend(self.pieces().map(|(_, piece)| piece));
        self.iovecs = iovecs;
        &self.iovecs
    }

    /// Appends all but the first `skip` bytes of the batch to `out`.
    pub(crate) fn copy_from(&mut self, skip: usize, out: &mut Vec<u8>) {
        out.reserve(self.length() - skip);
        let mut skip = skip;
        for part in self.iovecs() {
            let skipped = skip.min(part.iov_len);
            skip -= skipped;
            let length = part.iov_len - skipped;
            let at = out.len();
            // SAFETY: own bytes are in the vector and lent ones still mapped; `out` has the room, see `reserve`.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    part.iov_base.cast::<u8>().add(skipped),
                    out.as_mut_ptr().add(at),
                    length,
                );
                out.set_len(at + length);
            }
        }
    }

    fn mark(&self) -> Mark {
        let Self { open, lent_bytes, lent_pieces, .. } = *self;
        Mark { own: self.own.len(), segments: self.segments.len(), open, lent_bytes, lent_pieces }
    }

    fn close(&mut self) {
        if self.open < self.own.len() {
            self.segments.push(Segment::Own { start: self.open, length: self.own.len() - self.open });
            self.open = self.own.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(batch: &mut Batch, skip: usize) -> Vec<u8> {
        let mut out = Vec::new();
        batch.copy_from(skip, &mut out);
        out
    }

    #[test]
    fn own_and_lent_bytes_keep_their_order() {
        static DATA: [u8; 4] = *b"data";
        let mut batch = Batch::default();
        batch.bytes(b"head");
        // SAFETY: a static lives for ever.
        unsafe { batch.lend(DATA.as_ptr(), 2) };
        // SAFETY: the same.
        unsafe { batch.lend(DATA[2..].as_ptr(), 2) };
        batch.bytes(b"tail");
        assert_eq!(batch.iovecs().len(), 3, "neighbours are joined");
        assert_eq!((batch.length(), content(&mut batch, 0)), (12, b"headdatatail".to_vec()));
        assert_eq!(content(&mut batch, 6), b"tatail");
    }

    #[test]
    fn gaps_are_patched_and_taken_back() {
        let mut batch = Batch::default();
        batch.bytes(b"a");
        let gap = batch.gap(2);
        batch.zeros(3);
        batch.patch(gap, b"bc");
        assert_eq!(content(&mut batch, 0), b"abc\0\0\0");
        batch.rewind(gap);
        batch.bytes(b"z");
        assert_eq!((batch.length(), content(&mut batch, 0)), (2, b"az".to_vec()));
    }

    #[test]
    fn data_in_large_pieces_are_bulk() {
        static DATA: [u8; 2 * BULK_PIECE_BYTES] = [0; 2 * BULK_PIECE_BYTES];
        let mut batch = Batch::default();
        batch.bytes(&DATA);
        assert!(!batch.is_bulk(), "none of it is lent");
        let mut lend = |length| {
            batch.bytes(b"head");
            // SAFETY: a static lives for ever.
            unsafe { batch.lend(DATA.as_ptr(), length) };
            batch.is_bulk()
        };
        assert_eq!([lend(BULK_PIECE_BYTES), lend(4096), lend(2 * BULK_PIECE_BYTES)], [true, false, true]);
        let kinds: Vec<_> = batch.pieces().map(|(is_lent, piece)| (is_lent, piece.iov_len)).collect();
        assert_eq!(kinds[1..4], [(true, BULK_PIECE_BYTES), (false, 4), (true, 4096)]);
        batch.expect_change();
        assert!(!batch.is_bulk());
        batch.clear();
        // SAFETY: a static lives for ever.
        unsafe { batch.lend(DATA.as_ptr(), DATA.len()) };
        assert!(batch.is_bulk());
    }

    #[test]
    fn filling_keeps_what_was_filled() {
        let mut batch = Batch::default();
        let filled: Result<usize, ()> = batch.fill(8, |room| {
            room[..2].copy_from_slice(b"ok");
            Ok(2)
        });
        batch.pad(2);
        assert_eq!((filled, content(&mut batch, 0)), (Ok(2), b"ok\0\0".to_vec()));
    }
}
