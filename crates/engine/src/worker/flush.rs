//! Flushes after a number of writes, and of every file at the end.

use std::ops::Range;

use crate::engines::request::Address;
use crate::plan::{OperationKind, SyncPlan, Worker};

/// The flushes of a worker, numbered: first the flushes of the plan, then the one at the end.
#[derive(Debug)]
pub(super) struct Flushes {
    after_writes: Option<AfterWrites>,
    /// Files that are still to be flushed at the end.
    at_end: Range<u32>,
    number_at_end: usize,
}

impl Flushes {
    pub(super) fn new(worker: &Worker) -> Self {
        let at_end = 0..if worker.sync_at_end { worker.files.len() as u32 } else { 0 };
        Self { after_writes: AfterWrites::new(worker), at_end, number_at_end: worker.syncs.len() }
    }

    /// Counts a write that is about to be submitted.
    #[inline]
    pub(super) fn count(&mut self, write: Address) {
        if let Some(after_writes) = &mut self.after_writes {
            after_writes.count(write);
        }
    }

    /// Number and range of the flush that is due now, if any. `issued` counts the operations issued so far.
    #[inline]
    pub(super) fn take(&mut self, issued: u64) -> Option<(usize, Address)> {
        self.after_writes.as_mut()?.take(issued)
    }

    /// Number and range of the next flush at the end.
    pub(super) fn take_at_end(&mut self) -> Option<(usize, Address)> {
        let file = self.at_end.next()?;
        // A length of 0 is the whole file.
        Some((self.number_at_end, Address { file, offset: 0, length: 0 }))
    }
}

/// Counts writes towards the next flush, which is of the file that was written last.
///
/// As in fio, a flush is due before an operation while the number of writes is a multiple of its interval: reads and
/// trims that follow such a write are flushed before, too. Two flushes never follow each other.
#[derive(Debug)]
struct AfterWrites {
    syncs: Vec<SyncPlan>,
    writes: u64,
    /// Number of the flush that is due until the next write, and its file.
    due: Option<(usize, u32)>,
    /// Operations issued before the last flush.
    flushed_at: u64,
    /// By file: the range written since its last flush, where the kind of flush takes a range.
    ranges: Vec<Option<(u64, u64)>>,
}

impl AfterWrites {
    fn new(worker: &Worker) -> Option<Self> {
        let syncs = &worker.syncs;
        let has_ranges = syncs.iter().any(|sync| sync.kind == OperationKind::SyncFileRange);
        let ranges = vec![None; if has_ranges { worker.files.len() } else { 0 }];
        (!syncs.is_empty()).then(|| Self { syncs: syncs.clone(), writes: 0, due: None, flushed_at: 0, ranges })
    }

    fn count(&mut self, write: Address) {
        if let Some(range) = self.ranges.get_mut(write.file as usize) {
            let (start, end) = (write.offset, write.offset + u64::from(write.length));
            *range = Some(range.map_or((start, end), |(first, last)| (first.min(start), last.max(end))));
        }
        self.writes += 1;
        let due = self.syncs.iter().position(|sync| self.writes.is_multiple_of(u64::from(sync.every)));
        self.due = due.map(|number| (number, write.file));
    }

    #[inline]
    fn take(&mut self, issued: u64) -> Option<(usize, Address)> {
        let (number, file) = self.due?;
        if issued == self.flushed_at {
            return None;
        }
        self.flushed_at = issued;
        Some((number, self.range(number, file)))
    }

    /// The range to flush. Of a range without writes since its last flush one byte is left: a length of 0 would be the
    /// rest of the file, which is for ranges that are too long for a request.
    fn range(&mut self, number: usize, file: u32) -> Address {
        let range = self.ranges.get_mut(file as usize).and_then(Option::take);
        let nothing_new = (0, u64::from(self.syncs[number].kind == OperationKind::SyncFileRange));
        let (start, end) = range.unwrap_or(nothing_new);
        Address { file, offset: start, length: u32::try_from(end - start).unwrap_or(0) }
    }
}
