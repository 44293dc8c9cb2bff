//! The writes of a worker that must be read back.

use std::collections::VecDeque;

use super::proof::SEQUENCE_MASK;
use crate::engines::request::Address;
use crate::error::EngineError;
use crate::plan::FilePlan;

/// A write to the interval is in flight.
const IN_FLIGHT: u32 = 1 << 31;
/// Two writes were in flight at once: either may be the last.
const RACED: u32 = 1 << 30;
/// The interval must be read back.
const WAITING: u32 = 1 << 29;

/// Most memory of a worker.
const MEMORY_BYTES_MAX: u64 = 1 << 30;
/// A mark, and an entry in the queue.
const BYTES_PER_INTERVAL: u64 = 8;

/// The newest write of every interval of a worker's files, and the queue of intervals to read back.
///
/// It takes eight bytes for each interval, however long the run; plans that need too much are refused. Memory is
/// touched only as intervals are written.
#[derive(Debug)]
pub(super) struct Written {
    interval_bytes: u64,
    regions: Vec<Region>,
    marks: Vec<u32>,
    queue: VecDeque<u32>,
}

#[derive(Debug)]
struct Region {
    offset: u64,
    /// Number of its first interval, over all files.
    first: u32,
}

impl Written {
    pub(super) fn new(files: &[FilePlan], interval_bytes: u32) -> Result<Self, EngineError> {
        let interval_bytes = u64::from(interval_bytes);
        let (mut regions, mut intervals) = (Vec::with_capacity(files.len()), 0_u64);
        for file in files {
            regions.push(Region { offset: file.offset_bytes, first: intervals.min(u64::from(u32::MAX)) as u32 });
            intervals = intervals.saturating_add(file.bytes.div_ceil(interval_bytes));
        }
        let needed = intervals.saturating_mul(BYTES_PER_INTERVAL);
        if needed > MEMORY_BYTES_MAX {
            return Err(EngineError::Plan(format!(
                "to remember which of {intervals} intervals of {interval_bytes} bytes were written takes {needed} bytes of \
                 memory for each worker, and {MEMORY_BYTES_MAX} are allowed; use larger blocks or a smaller region"
            )));
        }
        let queue = VecDeque::with_capacity(intervals as usize);
        Ok(Self { interval_bytes, regions, marks: vec![0; intervals as usize], queue })
    }

    /// Called before a write is submitted.
    #[inline]
    pub(super) fn submitted(&mut self, address: Address, sequence: u64) {
        let mark = IN_FLIGHT | WAITING | (sequence as u32 & SEQUENCE_MASK);
        for interval in self.intervals(address) {
            let before = self.marks[interval as usize];
            let raced = match before {
                _ if before & IN_FLIGHT != 0 => RACED,
                // A third write may follow while the first is still in flight.
                _ if before & WAITING != 0 => before & RACED,
                _ => 0,
            };
            if before & WAITING == 0 {
                self.queue.push_back(interval);
            }
            self.marks[interval as usize] = mark | raced;
        }
    }

    /// Called when a write has completed.
    #[inline]
    pub(super) fn completed(&mut self, address: Address, sequence: u64) {
        for interval in self.intervals(address) {
            let mark = &mut self.marks[interval as usize];
            if *mark & SEQUENCE_MASK == sequence as u32 & SEQUENCE_MASK {
                *mark &= !IN_FLIGHT;
            }
        }
    }

    /// Records a range that another run wrote: it must be read back, whichever write it holds.
    pub(super) fn found(&mut self, address: Address) {
        for interval in self.intervals(address) {
            if self.marks[interval as usize] & WAITING == 0 {
                self.queue.push_back(interval);
            }
            self.marks[interval as usize] = WAITING | RACED;
        }
    }

    /// Number of intervals that wait to be read back.
    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Puts the queue in the order of the offsets.
    pub(super) fn sort(&mut self) {
        self.queue.make_contiguous().sort_unstable();
    }

    /// Takes the next range to read back: intervals of one write, at most `most` bytes.
    pub(super) fn take(&mut self, most: u32) -> Option<Address> {
        let first = self.queue.pop_front()?;
        let mark = self.marks[first as usize];
        self.marks[first as usize] &= !WAITING;
        let (file, offset) = self.place(first);
        let mut count = 1;
        while self.queue.front() == Some(&(first + count))
            && self.marks[(first + count) as usize] == mark
            && self.place(first + count).0 == file
            && u64::from(count + 1) * self.interval_bytes <= u64::from(most)
        {
            self.queue.pop_front();
            self.marks[(first + count) as usize] &= !WAITING;
            count += 1;
        }
        Some(Address { file, offset, length: count * self.interval_bytes as u32 })
    }

    /// Low bits of the number of the newest write to the interval at `offset`, if it is certain.
    pub(super) fn sequence(&self, file: u32, offset: u64) -> Option<u32> {
        let mark = self.marks[self.number(file, offset) as usize];
        (mark & RACED == 0).then_some(mark & SEQUENCE_MASK)
    }

    fn intervals(&self, address: Address) -> std::ops::Range<u32> {
        let first = self.number(address.file, address.offset);
        first..first + u64::from(address.length).div_ceil(self.interval_bytes) as u32
    }

    fn number(&self, file: u32, offset: u64) -> u32 {
        let region = &self.regions[file as usize];
        region.first + ((offset - region.offset) / self.interval_bytes) as u32
    }

    fn place(&self, interval: u32) -> (u32, u64) {
        let file = self.regions.partition_point(|region| region.first <= interval) - 1;
        let region = &self.regions[file];
        (file as u32, region.offset + u64::from(interval - region.first) * self.interval_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::file;

    fn at(file: u32, offset: u64, length: u32) -> Address {
        Address { file, offset, length }
    }

    fn write(written: &mut Written, address: Address, sequence: u64) {
        written.submitted(address, sequence);
        written.completed(address, sequence);
    }

    fn drain(written: &mut Written, most: u32) -> Vec<(u32, u64, u32)> {
        std::iter::from_fn(|| written.take(most)).map(|a| (a.file, a.offset, a.length)).collect()
    }

    fn two_files() -> Written {
        let second = FilePlan { offset_bytes: 1 << 20, ..file("b", 8192) };
        Written::new(&[file("a", 16384), second], 1024).unwrap()
    }

    #[test]
    fn blocks_are_read_back_whole_and_in_the_order_written() {
        let mut written = two_files();
        write(&mut written, at(0, 8192, 4096), 1);
        write(&mut written, at(1, (1 << 20) + 4096, 4096), 2);
        write(&mut written, at(0, 0, 4096), 3);
        assert_eq!(written.waiting(), 12);
        assert_eq!(drain(&mut written, 4096), [(0, 8192, 4096), (1, (1 << 20) + 4096, 4096), (0, 0, 4096)]);
        assert_eq!(written.waiting(), 0);
    }

    #[test]
    fn sorted_they_come_in_the_order_of_their_places() {
        let mut written = two_files();
        write(&mut written, at(1, 1 << 20, 4096), 1);
        write(&mut written, at(0, 8192, 4096), 2);
        write(&mut written, at(0, 0, 4096), 3);
        written.sort();
        assert_eq!(drain(&mut written, 4096), [(0, 0, 4096), (0, 8192, 4096), (1, 1 << 20, 4096)]);
    }

    #[test]
    fn neighbours_of_different_writes_are_read_apart_and_so_are_files() {
        let mut written = two_files();
        write(&mut written, at(0, 14336, 2048), 7);
        write(&mut written, at(1, 1 << 20, 2048), 7);
        write(&mut written, at(1, (1 << 20) + 2048, 2048), 8);
        let expected = [(0, 14336, 2048), (1, 1 << 20, 2048), (1, (1 << 20) + 2048, 2048)];
        assert_eq!(drain(&mut written, 8192), expected);
    }

    #[test]
    fn a_block_written_again_is_read_once_with_its_newest_number() {
        let mut written = two_files();
        write(&mut written, at(0, 0, 2048), 1);
        write(&mut written, at(0, 1024, 2048), 2);
        assert_eq!([0, 1024, 2048].map(|offset| written.sequence(0, offset)), [Some(1), Some(2), Some(2)]);
        assert_eq!(drain(&mut written, 2048), [(0, 0, 1024), (0, 1024, 2048)]);
    }

    #[test]
    fn of_two_writes_at_once_either_may_be_the_last() {
        let mut written = two_files();
        written.submitted(at(0, 0, 2048), 1);
        written.submitted(at(0, 1024, 2048), 2);
        written.completed(at(0, 1024, 2048), 2);
        written.completed(at(0, 0, 2048), 1);
        assert_eq!([0, 1024, 2048].map(|offset| written.sequence(0, offset)), [Some(1), None, Some(2)]);
        write(&mut written, at(0, 1024, 1024), 3);
        assert_eq!(written.sequence(0, 1024), None, "the first may still have been on its way");
        drain(&mut written, 1024);
        write(&mut written, at(0, 1024, 1024), 4);
        assert_eq!(written.sequence(0, 1024), Some(4), "nothing is on its way when blocks are read back");
    }

    #[test]
    fn found_ranges_are_read_back_whichever_write_they_hold() {
        let mut written = two_files();
        written.found(at(0, 4096, 4096));
        assert_eq!(written.sequence(0, 4096), None);
        assert_eq!(drain(&mut written, 4096), [(0, 4096, 4096)]);
    }

    #[test]
    fn too_many_intervals_are_refused() {
        let text = Written::new(&[file("a", 1 << 40)], 4096).unwrap_err().to_string();
        assert!(text.contains("takes 2147483648 bytes of memory"), "{text}");
    }
}
