//! Memory in which the data of a large WRITE arrive, so that they are received where they are kept.

use libc::iovec;

use iocurve_wire::nfs3::{nfs_fh3, nfsstat3};

use super::arena::{CHUNK_BYTES, OwnedChunk};

/// The data of one WRITE, some of which may still be missing.
#[derive(Debug)]
pub(crate) struct WriteBuffer {
    /// File handle.
    pub(crate) file: nfs_fh3,
    /// Offset of the first byte in the file.
    pub(crate) offset: u64,
    /// Pieces in the order of the data.
    pub(super) pieces: Vec<Piece>,
    length: usize,
    received: usize,
}

/// Memory for a part of the data.
#[derive(Debug)]
pub(super) enum Piece {
    /// A whole chunk, which the store puts into the file as it is.
    Chunk(OwnedChunk),
    /// Bytes that the store copies into the file.
    Bytes(Vec<u8>),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Chunk(_) => CHUNK_BYTES,
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    fn start(&mut self) -> *mut u8 {
        match self {
            Self::Chunk(chunk) => chunk.data(),
            Self::Bytes(bytes) => bytes.as_mut_ptr(),
        }
    }
}

impl WriteBuffer {
    pub(super) fn new(file: &[u8], offset: u64, pieces: Vec<Piece>) -> Result<Self, nfsstat3> {
        let file = nfs_fh3::new(file).ok_or(nfsstat3::NFS3ERR_BADHANDLE)?;
        let length = pieces.iter().map(Piece::len).sum();
        Ok(Self { file, offset, pieces, length, received: 0 })
    }

    /// Bytes of data.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Bytes that have not been received.
    pub(crate) fn missing(&self) -> usize {
        self.length - self.received
    }

    /// Appends the memory for the missing bytes.
    pub(crate) fn missing_memory(&mut self, iovecs: &mut Vec<iovec>) {
        let mut skip = self.received;
        for piece in &mut self.pieces {
            let skipped = skip.min(piece.len());
            skip -= skipped;
            if skipped < piece.len() {
                let base = piece.start().wrapping_add(skipped);
                iovecs.push(iovec { iov_base: base.cast(), iov_len: piece.len() - skipped });
            }
        }
    }

    /// Notes that the next `count` bytes have been received.
    pub(crate) fn received(&mut self, count: usize) {
        self.received += count;
        debug_assert!(self.received <= self.length);
    }

    /// Copies the next bytes of the data from `data` and returns how many it took.
    pub(crate) fn copy_from(&mut self, data: &[u8]) -> usize {
        let mut iovecs = Vec::new();
        self.missing_memory(&mut iovecs);
        let mut rest = data;
        for memory in iovecs {
            let (now, later) = rest.split_at(rest.len().min(memory.iov_len));
            // SAFETY: the memory belongs to this buffer and is at least as long.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), memory.iov_base.cast(), now.len()) };
            rest = later;
        }
        let taken = data.len() - rest.len();
        self.received(taken);
        taken
    }
}
