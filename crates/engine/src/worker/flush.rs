//! Flushes after so many writes.

use crate::offsets::Address;
use crate::plan::{SyncKind, Worker};

/// Counts writes towards the next flush, which is of the file that was written last.
#[derive(Debug)]
pub(super) struct Flushes {
    every: u32,
    writes: u32,
    file: Option<u32>,
    /// What was written of each file since its last flush, where a flush is told so.
    ranges: Vec<Option<(u64, u64)>>,
}

impl Flushes {
    pub(super) fn new(worker: &Worker) -> Option<Self> {
        let sync = worker.sync?;
        let files = if sync.kind == SyncKind::SyncFileRange { worker.files.len() } else { 0 };
        Some(Self { every: sync.every, writes: 0, file: None, ranges: vec![None; files] })
    }

    /// A write was issued.
    pub(super) fn written(&mut self, address: Address) {
        if let Some(range) = self.ranges.get_mut(address.file as usize) {
            let (start, end) = (address.offset, address.offset + u64::from(address.length));
            *range = Some(range.map_or((start, end), |(first, last)| (first.min(start), last.max(end))));
        }
        self.writes += 1;
        if self.writes == self.every {
            (self.writes, self.file) = (0, Some(address.file));
        }
    }

    /// What is to be flushed now, if anything. A range that is too long for a request goes to the end of the file: length 0.
    pub(super) fn take(&mut self) -> Option<Address> {
        let file = self.file.take()?;
        let range = self.ranges.get_mut(file as usize).and_then(Option::take);
        let (start, end) = range.unwrap_or((0, 0));
        Some(Address { file, offset: start, length: u32::try_from(end - start).unwrap_or(0) })
    }
}

/// All of a file.
pub(super) fn whole(file: u32) -> Address {
    Address { file, offset: 0, length: 0 }
}
