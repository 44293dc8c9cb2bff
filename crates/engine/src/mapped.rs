//! Files that are mapped into memory: what is stored in them survives the process however it ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::error::{EngineError, TargetError};

/// Bytes before the words, by which a file is recognised.
pub(crate) const HEADER_BYTES: usize = 64;

/// A file of a header and words, of which other processes and threads may have mappings, too.
#[derive(Debug)]
pub(crate) struct MappedFile {
    /// Start of the mapping, header included.
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: this value owns the mapping; all words are atomic.
unsafe impl Send for MappedFile {}
// SAFETY: as above.
unsafe impl Sync for MappedFile {}

impl MappedFile {
    /// Opens a file of `words` bytes after its header, and creates it if it is missing. `what` is its purpose; `other` says what a file
    /// of this purpose is for whose header is another.
    pub(crate) fn open(
        path: &str,
        header: &[u8; HEADER_BYTES],
        words: u64,
        what: &str,
        other: &str,
    ) -> Result<Self, EngineError> {
        let wrong = |source| TargetError::Mapped { path: path.to_owned(), purpose: what.to_owned(), source };
        let bytes = words + HEADER_BYTES as u64;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(Path::new(path))
            .map_err(wrong)?;
        prepare(&mut file, header, bytes, what, other).map_err(wrong)?;
        let bytes = bytes as usize;
        Ok(Self { start: map(&file, bytes).map_err(wrong)?, bytes })
    }

    /// The 32-bit words from an offset after the header.
    pub(crate) fn words32(&self, offset: usize, count: usize) -> &[AtomicU32] {
        assert!(offset.is_multiple_of(4) && HEADER_BYTES + offset + 4 * count <= self.bytes, "words beyond the end");
        // SAFETY: the mapping, which starts at a page, has these words as long as this value lives, and all access is atomic.
        unsafe { slice::from_raw_parts(self.start.add(HEADER_BYTES + offset).cast().as_ptr(), count) }
    }

    /// The 64-bit words from an offset after the header.
    pub(crate) fn words64(&self, offset: usize, count: usize) -> &[AtomicU64] {
        assert!(offset.is_multiple_of(8) && HEADER_BYTES + offset + 8 * count <= self.bytes, "words beyond the end");
        // SAFETY: as above.
        unsafe { slice::from_raw_parts(self.start.add(HEADER_BYTES + offset).cast().as_ptr(), count) }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Writes the header and preallocates all words. Other workers may do the same at the same time.
fn prepare(file: &mut File, header: &[u8; HEADER_BYTES], bytes: u64, what: &str, other: &str) -> io::Result<()> {
    let mut found = Vec::with_capacity(HEADER_BYTES);
    Read::by_ref(file).take(HEADER_BYTES as u64).read_to_end(&mut found)?;
    if found.is_empty() || found.iter().all(|byte| *byte == 0) {
        file.seek(SeekFrom::Start(0))?;
        file.write_all(header)?;
    } else if found.get(..8) != header.get(..8) {
        return Err(io::Error::other(format!("is not a {what}; name another file")));
    } else if found != header {
        return Err(io::Error::other(format!("was created for {other}")));
    }
    // Touching a word without space on the disk would kill the process (SIGBUS).
    // SAFETY: the descriptor is open.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as libc::off_t) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

fn map(file: &File, bytes: usize) -> io::Result<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping of an open file.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    match NonNull::new(start.cast::<u8>()) {
        Some(mapped) if start != libc::MAP_FAILED => Ok(mapped),
        _ => Err(io::Error::last_os_error()),
    }
}
