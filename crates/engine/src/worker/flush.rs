//! Flushes after so many writes.

use crate::engines::request::Address;
use crate::plan::{OperationKind, SyncPlan, Worker};

/// Counts writes towards the next flush, which is of the file that was written last.
#[derive(Debug)]
pub(super) struct Flushes {
    syncs: Vec<SyncPlan>,
    writes: u64,
    /// Which of the plan's flushes comes next, and of which file.
    due: Option<(usize, u32)>,
    /// What was written of each file since its last flush, where a flush is told so.
    ranges: Vec<Option<(u64, u64)>>,
}

impl Flushes {
    pub(super) fn new(worker: &Worker) -> Option<Self> {
        let syncs = &worker.syncs;
        let has_ranges = syncs.iter().any(|sync| sync.kind == OperationKind::SyncFileRange);
        let ranges = vec![None; if has_ranges { worker.files.len() } else { 0 }];
        (!syncs.is_empty()).then(|| Self { syncs: syncs.clone(), writes: 0, due: None, ranges })
    }

    /// A write was issued.
    pub(super) fn written(&mut self, address: Address) {
        if let Some(range) = self.ranges.get_mut(address.file as usize) {
            let (start, end) = (address.offset, address.offset + u64::from(address.length));
            *range = Some(range.map_or((start, end), |(first, last)| (first.min(start), last.max(end))));
        }
        self.writes += 1;
        let due = self.syncs.iter().position(|sync| self.writes.is_multiple_of(u64::from(sync.every)));
        self.due = due.map(|flush| (flush, address.file));
    }

    /// Which of the plan's flushes comes now, and of what, if one does. A range that is too long for a request goes to the end
    /// of the file: length 0.
    pub(super) fn take(&mut self) -> Option<(usize, Address)> {
        let (flush, file) = self.due.take()?;
        let range = self.ranges.get_mut(file as usize).and_then(Option::take);
        let (start, end) = range.unwrap_or((0, 0));
        Some((flush, Address { file, offset: start, length: u32::try_from(end - start).unwrap_or(0) }))
    }
}

/// All of a file.
pub(super) fn whole(file: u32) -> Address {
    Address { file, offset: 0, length: 0 }
}
