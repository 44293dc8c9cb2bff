//! A map file remembers which writes a file received. Workers of the same file share the map, and later runs continue
//! with it.
//!
//! The map has a word for each interval of the file: the number of its newest write, 0 if the content is unknown, and
//! and flags for locked and open intervals. The words are mapped into memory, so they survive the process however it
//! ends.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use super::proof::{KEY_MASK, SEQUENCE_MASK};
use crate::error::EngineError;
use crate::mapped::{HEADER_BYTES, MappedFile};

/// An operation has locked the interval.
const LOCKED: u32 = 1 << 31;
/// A write to the interval is in flight: it may or may not have reached the file.
const WRITING: u32 = 1 << 30;

const MAGIC: [u8; 8] = *b"ioCmap1\n";
/// Largest map of a file.
const MAP_BYTES_MAX: u64 = 1 << 30;

/// State of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    /// Number of the newest write; 0 if the content is unknown.
    pub newest: u32,
    /// A run ended while the next write was in flight.
    pub is_open: bool,
}

/// The map of one file.
#[derive(Debug)]
pub(super) struct Map {
    interval_bytes: u64,
    words: u64,
    key: u32,
    file: MappedFile,
}

impl Map {
    /// Opens the map of a file of `file_bytes` bytes, and creates it if it is missing.
    pub(super) fn open(path: &str, interval_bytes: u32, file_bytes: u64) -> Result<Self, EngineError> {
        let words = file_bytes.div_ceil(u64::from(interval_bytes));
        let bytes = words.saturating_mul(4).saturating_add(HEADER_BYTES as u64);
        if bytes > MAP_BYTES_MAX {
            return Err(EngineError::Plan(format!(
                "a verification map of {words} intervals of {interval_bytes} bytes takes {bytes} bytes, and \
                 {MAP_BYTES_MAX} are allowed for each file; use larger blocks or a smaller file"
            )));
        }
        // The magic and the length of an interval; the rest is zeros.
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&interval_bytes.to_le_bytes());
        let other = format!("block sizes other than {interval_bytes} bytes");
        let file = MappedFile::open(path, &header, 4 * words, "verification map", &other)?;
        Ok(Self { interval_bytes: u64::from(interval_bytes), words, key: key_of(path), file })
    }

    /// Key in the blocks of this file, by which a block written to another file is detected; never 0.
    pub(super) fn key(&self) -> u32 {
        self.key
    }

    /// Locks a range, unless one of its intervals is locked.
    pub(super) fn lock(&self, offset: u64, length: u32) -> bool {
        let (first, end) = self.range(offset, length);
        for number in first..end {
            if self.word(number).fetch_or(LOCKED, Ordering::AcqRel) & LOCKED != 0 {
                (first..number).for_each(|taken| self.change(taken, !LOCKED));
                return false;
            }
        }
        true
    }

    /// Locks a range, even if an interrupted run left it locked.
    pub(super) fn take_over(&self, offset: u64, length: u32) {
        let (first, end) = self.range(offset, length);
        (first..end).for_each(|number| {
            self.word(number).fetch_or(LOCKED, Ordering::AcqRel);
        });
    }

    /// Called before a write to a locked range is submitted.
    pub(super) fn writing(&self, offset: u64, length: u32) {
        let (first, end) = self.range(offset, length);
        (first..end).for_each(|number| {
            self.word(number).fetch_or(WRITING, Ordering::AcqRel);
        });
    }

    /// Called when that write has completed.
    pub(super) fn written(&self, offset: u64, length: u32) {
        let (first, end) = self.range(offset, length);
        for number in first..end {
            let next = following(self.word(number).load(Ordering::Acquire) & SEQUENCE_MASK);
            self.word(number).store(next | LOCKED, Ordering::Release);
        }
    }

    /// Marks the content of a locked range as unknown.
    pub(super) fn forget(&self, offset: u64, length: u32) {
        let (first, end) = self.range(offset, length);
        (first..end).for_each(|number| self.word(number).store(LOCKED, Ordering::Release));
    }

    /// Records that the interval at `offset`, which was open, holds the write of this number.
    pub(super) fn settle(&self, offset: u64, newest: u32) {
        self.word(offset / self.interval_bytes).store(newest | LOCKED, Ordering::Release);
    }

    /// Unlocks a range.
    pub(super) fn unlock(&self, offset: u64, length: u32) {
        let (first, end) = self.range(offset, length);
        (first..end).for_each(|number| self.change(number, !LOCKED));
    }

    pub(super) fn known(&self, offset: u64) -> Known {
        let word = self.word(offset / self.interval_bytes).load(Ordering::Acquire);
        Known { newest: word & SEQUENCE_MASK, is_open: word & WRITING != 0 }
    }

    /// Returns `true` if the content of any interval of a range is known.
    pub(super) fn knows(&self, offset: u64, length: u32) -> bool {
        let (first, end) = self.range(offset, length);
        (first..end).any(|number| self.word(number).load(Ordering::Acquire) & SEQUENCE_MASK != 0)
    }

    fn range(&self, offset: u64, length: u32) -> (u64, u64) {
        let end = (offset + u64::from(length)).div_ceil(self.interval_bytes);
        (offset / self.interval_bytes, end.min(self.words))
    }

    fn change(&self, number: u64, mask: u32) {
        self.word(number).fetch_and(mask, Ordering::AcqRel);
    }

    fn word(&self, number: u64) -> &AtomicU32 {
        &self.file.words32(0, self.words as usize)[number as usize]
    }
}

/// Derived from the file name of the map, because directories may change between runs.
fn key_of(path: &str) -> u32 {
    let name = Path::new(path).file_name().unwrap_or_default().as_encoded_bytes();
    (crc32c::crc32c(name) & KEY_MASK).max(1)
}

/// Number of the next write; never 0.
pub(super) fn following(newest: u32) -> u32 {
    if newest == SEQUENCE_MASK { 1 } else { newest + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::testing::Scratch;

    fn open(scratch: &Scratch) -> Map {
        Map::open(scratch.path(), 4096, 65536).unwrap()
    }

    fn write(map: &Map, offset: u64) {
        assert!(map.lock(offset, 4096));
        map.writing(offset, 4096);
        map.written(offset, 4096);
        map.unlock(offset, 4096);
    }

    #[test]
    fn a_later_run_knows_the_number_of_each_newest_write() {
        let scratch = Scratch::new("map");
        let map = open(&scratch);
        write(&map, 8192);
        write(&map, 8192);
        drop(map);
        let map = open(&scratch);
        assert_eq!(map.known(8192), Known { newest: 2, is_open: false });
        assert_eq!(map.known(4096), Known { newest: 0, is_open: false });
        assert!(map.knows(4096, 8192) && !map.knows(0, 8192));
    }

    #[test]
    fn one_at_a_time_is_at_a_place() {
        let scratch = Scratch::new("map");
        let (one, other) = (open(&scratch), open(&scratch));
        assert!(one.lock(4096, 8192));
        assert!(!other.lock(0, 16384), "a part of it is held");
        assert!(other.lock(0, 4096), "what was free is free again");
        one.unlock(4096, 8192);
        assert!(other.lock(4096, 8192));
    }

    #[test]
    fn a_write_that_was_under_way_is_open() {
        let scratch = Scratch::new("map");
        let map = open(&scratch);
        write(&map, 0);
        assert!(map.lock(0, 4096));
        map.writing(0, 4096);
        drop(map);
        let map = open(&scratch);
        assert_eq!(map.known(0), Known { newest: 1, is_open: true });
        assert!(!map.lock(0, 4096));
        map.take_over(0, 4096);
        map.settle(0, 2);
        map.unlock(0, 4096);
        assert_eq!(map.known(0), Known { newest: 2, is_open: false });
    }

    #[test]
    fn a_file_that_is_not_a_map_of_these_blocks_is_not_changed() {
        let scratch = Scratch::new("map");
        std::fs::write(scratch.path(), "somebody's letters").unwrap();
        let text = Map::open(scratch.path(), 4096, 65536).unwrap_err().to_string();
        assert!(text.ends_with("(verification map): is not a verification map; name another file"), "{text}");
        assert_eq!(std::fs::read_to_string(scratch.path()).unwrap(), "somebody's letters");
        Map::open(&scratch.other("map2"), 512, 65536).unwrap();
        let text = Map::open(&scratch.other("map2"), 4096, 65536).unwrap_err().to_string();
        assert!(text.ends_with("was created for block sizes other than 4096 bytes"), "{text}");
    }

    #[test]
    fn too_many_intervals_are_refused() {
        let text = Map::open("nowhere", 512, 1 << 40).unwrap_err().to_string();
        assert!(text.contains("takes 8589934656 bytes"), "{text}");
    }

    #[test]
    fn files_are_distinguished_by_the_names_of_their_maps() {
        assert_eq!(key_of("/a/sd1.iocurve-map"), key_of("/b/c/sd1.iocurve-map"));
        assert_ne!(key_of("/a/sd1.iocurve-map"), key_of("/a/sd2.iocurve-map"));
        assert_eq!(key_of("123456789"), 0xe306_9283 & KEY_MASK);
    }

    #[test]
    fn numbers_begin_again_at_one() {
        assert_eq!([following(0), following(SEQUENCE_MASK)], [1, 1]);
    }
}
