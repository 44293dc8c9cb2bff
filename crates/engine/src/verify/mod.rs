//! Verification: written data are read back and compared.
//!
//! A write is cut into intervals of one length at fixed offsets. Each interval carries a header ([`proof`]) or holds a
//! pattern, so that it can be checked by itself, whichever write it was part of. [`Written`] remembers the newest write
//! of each interval; [`Verifier`] decides when to read back.

mod differences;
mod digest;
mod dump;
mod last_writes;
mod map;
mod plan;
mod proof;
#[cfg(test)]
mod tests;
mod written;

use std::sync::Arc;

use crate::engines::request::Address;
use crate::error::{EngineError, Fault};
use crate::outcome::{DifferenceOutcome, LastWrite};
use crate::payload::{Filler, Material};
use crate::plan::{FilePlan, OperationKind, Verify, VerifyMethod, Worker};
use crate::tree::{Name, Row, TreeState};

use differences::{Difference, Differences, Nature};
use last_writes::LastWrites;
use map::Map;
pub(crate) use plan::{check, labels};
use proof::{Proof, SEQUENCE_MASK, Stamp};
use written::Written;

/// Most blocks that are dumped, because a whole file may differ.
const DUMPS_MAX: u64 = 16;

/// Label of a worker that ended before all its writes were read back.
const NOT_ALL_READ_BACK: &str = "verify_not_all_read_back";

/// The loop's next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// The load goes on.
    Load,
    /// Wait until all operations in flight have completed.
    Drain,
    /// A pass over what was written begins, and nothing is in flight: settle the engine, then ask again.
    Settle,
    /// Read this range back.
    ReadBack(Address),
}

/// A completed operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompletedOperation {
    pub slot: u32,
    pub kind: OperationKind,
    pub address: Address,
    /// Bytes moved.
    pub bytes: u32,
    /// It is a read for verification.
    pub reads_back: bool,
    /// It is a second read of data that differed.
    pub reads_again: bool,
}

/// The verification of one worker.
#[derive(Debug)]
pub(crate) struct Verifier<'a> {
    worker: &'a Worker,
    plan: &'a Verify,
    proof: Proof,
    interval_bytes: u32,
    largest: u32,
    /// `None` if nothing is read back.
    written: Option<Written>,
    /// By file; empty if the plan has no maps.
    maps: Vec<Map>,
    /// Number of the write in each slot.
    in_flight: Vec<u64>,
    stage: Stage,
    /// Writes not read back yet.
    writes_waiting: u64,
    /// Bytes issued when the current pass ends.
    pass_end: Option<u64>,
    checked: u64,
    differences: Differences,
    dumped: Vec<String>,
    last_writes: LastWrites,
    /// The tree whose files the worker uses: its map has all of them in one row.
    tree: Option<Arc<TreeState>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Load,
    /// This many more operations.
    ReadBack(u64),
}

impl<'a> Verifier<'a> {
    /// `None` if the plan has no verification. Allocates all memory.
    pub(crate) fn new(
        worker: &'a Worker,
        depth: u32,
        tree: Option<&Arc<TreeState>>,
    ) -> Result<Option<Self>, EngineError> {
        let Some(plan) = &worker.verify else { return Ok(None) };
        let interval_bytes = plan::interval_bytes(worker, plan);
        let writes = worker.writes();
        let written = if plan.read_back && writes { Some(Written::new(&worker.files, interval_bytes)?) } else { None };
        let maps = maps(worker, plan, interval_bytes, tree.and_then(|tree| tree.row()))?;
        let verifier = Self {
            worker,
            plan,
            proof: Proof::new(plan, plan::method(worker, plan))?,
            interval_bytes,
            largest: worker.block_bytes_max(),
            written,
            maps,
            in_flight: vec![0; depth as usize],
            stage: Stage::Load,
            writes_waiting: 0,
            pass_end: plan.pass_bytes,
            checked: 0,
            differences: Differences::default(),
            dumped: Vec::new(),
            last_writes: LastWrites::new(if writes && tree.is_none() { worker.files.len() } else { 0 }, depth),
            tree: tree.cloned(),
        };
        if plan.map.as_ref().is_some_and(|map| map.take_over) {
            verifier.forget_missing_files();
        }
        Ok(Some(verifier))
    }

    /// A file that the run before was deleting when it was killed, and that is gone: the content of a new one is unknown.
    fn forget_missing_files(&self) {
        let Some(tree) = self.tree.as_ref().filter(|tree| tree.journal_differences().is_empty()) else { return };
        let files = (0..tree.shape().files_of_part()).map(|position| tree.shape().file_of_part(position));
        let entries = files.map(|file| tree.shape().directories() + file);
        entries.filter(|&entry| tree.existing_length(entry).is_none()).for_each(|entry| self.deleted(entry));
    }

    /// Returns `true` if operations are only counted, to reconstruct an earlier run's writes.
    pub(crate) fn submits_nothing(&self) -> bool {
        self.plan.only && self.written.is_some()
    }

    /// Fills the block of a write in `slot`, and records the write.
    #[inline]
    pub(crate) fn stamp(&mut self, filler: &mut Filler, block: &mut [u8], slot: u32, address: Address) {
        let Some(address) = self.place(address) else { return filler.renew(block, address.offset) };
        let seed = filler.seeds().draw();
        let newest = filler.seeds().newest();
        let (map, file) = (self.maps.get(address.file as usize), self.key(address.file));
        let (material, step) = (filler.material(), self.interval_bytes as usize);
        for (interval, offset) in block.chunks_mut(step).zip((address.offset..).step_by(step)) {
            let sequence = map.map_or(newest, |map| map::following(map.known(offset).newest).into());
            self.make(material, interval, Stamp { file, offset, sequence, seed });
        }
        if let Some(map) = map {
            map.writing(address.offset, address.length);
        }
        if let Some(written) = &mut self.written {
            written.submitted(address, newest);
            self.in_flight[slot as usize] = newest;
            self.writes_waiting += 1;
        }
    }

    /// Records a completed operation; returns `true` if its block must be compared ([`Self::compare`]).
    #[inline]
    pub(crate) fn completed(&mut self, done: &CompletedOperation) -> bool {
        if self.tree.is_some() {
            return self.completed_in_tree(done);
        }
        if done.kind == OperationKind::Write {
            self.last_writes.completed(done.address);
        }
        if let Some(map) = self.maps.get(done.address.file as usize) {
            let Address { offset, length, .. } = done.address;
            match done.kind {
                OperationKind::Write if done.bytes == length => map.written(offset, length),
                OperationKind::Write => map.forget(offset, length),
                _ => return true,
            }
            return false;
        }
        match (done.kind, &mut self.written) {
            (OperationKind::Write, Some(written)) => {
                written.completed(done.address, self.in_flight[done.slot as usize]);
                false
            }
            // A read of a worker that also writes may have completed before the write.
            (OperationKind::Read, _) => done.reads_back || !self.worker.writes(),
            _ => false,
        }
    }

    /// As [`Self::completed`], on a file of the tree that nothing else uses.
    fn completed_in_tree(&self, done: &CompletedOperation) -> bool {
        let Some(map) = self.maps.first() else { return false };
        let is_whole = done.bytes == done.address.length && done.bytes <= self.largest;
        match (done.kind, self.place(done.address)) {
            (OperationKind::Read | OperationKind::ReadFile, Some(_)) => return done.address.length <= self.largest,
            (OperationKind::Write | OperationKind::WriteFile, Some(place)) if is_whole => {
                map.written(place.offset, place.length);
            }
            (OperationKind::Write | OperationKind::WriteFile, _) => self.failed(done.kind, done.address),
            (OperationKind::Delete, _) => self.deleted(done.address.file),
            _ => {}
        }
        false
    }

    /// Called when an operation on a file of the tree has failed: the content of a write is unknown.
    pub(crate) fn failed(&self, kind: OperationKind, address: Address) {
        let writes = matches!(kind, OperationKind::Write | OperationKind::WriteFile);
        if let (Some(map), Some(place), true) = (self.maps.first(), self.place(address), writes && self.tree.is_some())
        {
            map.forget(place.offset, place.length);
        }
    }

    /// A file of the tree was deleted by one of its names: the content of a new one is unknown.
    fn deleted(&self, number: u32) {
        let Some((tree, row)) = self.tree.as_ref().and_then(|tree| Some((tree, tree.row()?))) else { return };
        let Some((entry, name)) = Name::split(number) else { return };
        let is_its_own = matches!(name, Name::File | Name::Renamed | Name::Target);
        if !tree.is_directory(entry)
            && is_its_own
            && let (Some(map), Some(range)) = (self.maps.first(), row.range(entry))
        {
            range.step_by(self.interval_bytes as usize).for_each(|place| map.forget(place, 1));
        }
    }

    /// Translates the range of an operation to that of the map; `None` if the map does not cover it.
    #[inline]
    fn place(&self, address: Address) -> Option<Address> {
        let Some(tree) = &self.tree else { return Some(address) };
        let offset = tree.row()?.place(address.file, address.offset, address.length)?;
        Some(Address { file: 0, offset, ..address })
    }

    /// The path of a place, and the offset in the file.
    fn file_at(&self, place: Address) -> (String, u64) {
        let in_tree = self.tree.as_ref().and_then(|tree| {
            let (entry, offset) = tree.row()?.at(place.offset)?;
            Some((tree.path(tree.current(entry)), offset))
        });
        in_tree.unwrap_or_else(|| (self.worker.files[place.file as usize].path.clone(), place.offset))
    }

    /// Compares a block that was read with the data written there. Returns `true` if it is to be read again: a second
    /// read tells data that are wrong from data that were read wrong. An error ends the worker.
    pub(crate) fn compare(
        &mut self,
        filler: &mut Filler,
        block: &[u8],
        read: &CompletedOperation,
    ) -> Result<bool, EngineError> {
        let before = self.differences.count();
        let Some(Address { file, offset, .. }) = self.place(read.address) else { return Ok(false) };
        let step = self.interval_bytes as usize;
        for (number, interval) in block.chunks(step).enumerate() {
            let start = number * step;
            let place = Address { file, offset: offset + start as u64, length: interval.len() as u32 };
            let there = (read.bytes as usize).saturating_sub(start).min(interval.len());
            let checked = self.check_interval(&interval[..there], place);
            if read.reads_again {
                self.settle(filler, &interval[..there], place, checked.err());
                continue;
            }
            self.checked += 1;
            if let Err(fault) = checked {
                self.note(filler, &interval[..there], place, fault, None);
                if self.plan.fatal {
                    return self.failure().map_or(Ok(false), Err);
                }
            }
        }
        // A walk does not read again.
        Ok(self.tree.is_none() && !read.reads_again && self.differences.count() > before && !self.differences.is_full())
    }

    /// Locks a range, unless it is locked.
    pub(crate) fn lock(&self, address: Address) -> bool {
        let Some(map) = self.maps.get(address.file as usize) else { return true };
        if self.plan.map.as_ref().is_some_and(|plan| plan.take_over) {
            map.take_over(address.offset, address.length);
            return true;
        }
        map.lock(address.offset, address.length)
    }

    /// Unlocks a range; after a `failed` write its content is unknown.
    pub(crate) fn unlock(&self, address: Address, failed: bool) {
        let Some(map) = self.maps.get(address.file as usize) else { return };
        if failed {
            map.forget(address.offset, address.length);
        }
        map.unlock(address.offset, address.length);
    }

    /// Returns `true` if operations lock their ranges.
    pub(crate) fn locks_ranges(&self) -> bool {
        !self.maps.is_empty() && self.tree.is_none()
    }

    /// Returns `true` if a range is read and compared before it is written.
    pub(crate) fn reads_before(&self, address: Address) -> bool {
        self.plan.map.as_ref().is_some_and(|plan| plan.before_write)
            && self.maps[address.file as usize].knows(address.offset, address.length)
    }

    /// Returns `true` if a range is read and compared after it was written.
    pub(crate) fn reads_after(&self) -> bool {
        self.plan.map.as_ref().is_some_and(|plan| plan.after_write)
    }

    /// Records a range that an earlier run wrote: it must be read back.
    pub(crate) fn found(&mut self, address: Address) {
        if let Some(written) = &mut self.written {
            written.found(address);
            self.writes_waiting += 1;
        }
    }

    /// Decides the next step, from the bytes issued and the operations in flight.
    #[inline]
    pub(crate) fn next_step(&mut self, issued_bytes: u64, exhausted: bool, in_flight: usize) -> NextStep {
        if let Stage::ReadBack(left) = self.stage {
            if left > 0
                && let Some(address) = self.written.as_mut().and_then(|written| written.take(self.largest))
            {
                self.stage = Stage::ReadBack(left - 1);
                self.writes_waiting = self.writes_waiting.saturating_sub(1);
                return NextStep::ReadBack(address);
            }
            if in_flight > 0 {
                return NextStep::Drain;
            }
            self.stage = Stage::Load;
            if self.waiting() == 0 {
                self.writes_waiting = 0;
            }
        }
        let Some(most) = self.due(issued_bytes, exhausted) else { return NextStep::Load };
        if in_flight > 0 {
            return NextStep::Drain;
        }
        self.stage = Stage::ReadBack(most);
        if self.pass_ends(issued_bytes) {
            self.pass_end = self.pass_end.zip(self.plan.pass_bytes).map(|(end, bytes)| end.saturating_add(bytes));
        }
        if let (Some(written), true) = (&mut self.written, plan::may_overlap(self.worker)) {
            written.sort();
        }
        // A part of a backlog is read from where the writes went: settling after every few writes would be the load.
        if most == u64::MAX { NextStep::Settle } else { self.next_step(issued_bytes, exhausted, in_flight) }
    }

    /// Number of operations to read back now, if it is time to.
    fn due(&self, issued_bytes: u64, exhausted: bool) -> Option<u64> {
        if self.waiting() == 0 {
            return None;
        }
        if exhausted || self.pass_ends(issued_bytes) {
            return Some(u64::MAX);
        }
        let backlog = u64::from(self.plan.backlog?);
        let is_full = self.writes_waiting > 0 && self.writes_waiting.is_multiple_of(backlog);
        is_full.then_some(if self.plan.backlog_batch == 0 { backlog } else { u64::from(self.plan.backlog_batch) })
    }

    fn pass_ends(&self, issued_bytes: u64) -> bool {
        self.pass_end.is_some_and(|end| issued_bytes >= end)
    }

    fn waiting(&self) -> usize {
        self.written.as_ref().map_or(0, Written::waiting)
    }

    fn check_interval(&self, interval: &[u8], place: Address) -> Result<(), Fault> {
        if self.proof.method() == VerifyMethod::Null {
            return Ok(());
        }
        if interval.len() < place.length as usize {
            return Err(Fault::Short { bytes: interval.len() });
        }
        if !self.proof.fits(interval) {
            return Ok(());
        }
        if let Some(map) = self.maps.get(place.file as usize) {
            return self.check_known(interval, place.offset, map);
        }
        let sequence = self.written.as_ref().and_then(|written| written.sequence(place.file, place.offset));
        self.proof.check(interval, self.key(place.file), place.offset, sequence)
    }

    /// Key of a file in its blocks; 0 without maps.
    #[inline]
    fn key(&self, file: u32) -> u32 {
        self.maps.get(file as usize).map_or(0, Map::key)
    }

    /// Checks an interval by its map; an interval unknown to the map passes.
    fn check_known(&self, interval: &[u8], offset: u64, map: &Map) -> Result<(), Fault> {
        let known = map.known(offset);
        let possible =
            [known.is_open.then(|| map::following(known.newest)), (known.newest != 0).then_some(known.newest)];
        let right = |number: &u32| self.proof.check(interval, map.key(), offset, Some(*number)).is_ok();
        match possible.into_iter().flatten().find(right) {
            Some(number) if known.is_open => map.settle(offset, number),
            None if known.newest != 0 => {
                return self
                    .proof
                    .check(interval, map.key(), offset, Some(known.newest))
                    .map_err(|fault| self.named(fault));
            }
            None if known.is_open => map.forget(offset, 1),
            _ => {}
        }
        Ok(())
    }

    /// Names the file that a block of a tree belongs to.
    fn named(&self, fault: Fault) -> Fault {
        match fault {
            Fault::Offset { got, .. } if self.tree.is_some() => {
                let (path, offset) = self.file_at(Address { file: 0, offset: got, length: 0 });
                Fault::Place { path, offset }
            }
            fault => fault,
        }
    }

    /// Records the result of a second read.
    fn settle(&mut self, filler: &mut Filler, interval: &[u8], place: Address, fault: Option<Fault>) {
        let is_known = self.differences.settle(place, fault.is_some());
        if let Some(fault) = fault
            && !is_known
        {
            self.note(filler, interval, place, fault, Some(false));
        }
    }

    fn note(&mut self, filler: &mut Filler, interval: &[u8], place: Address, fault: Fault, persists: Option<bool>) {
        let expected = self.expected(filler, interval, place);
        let flipped = self.proof.flipped_header_bit(interval);
        let nature = flipped.map_or_else(
            || Nature::of(&fault, interval, expected.as_deref()),
            |(byte, bit)| Nature::FlippedBits { count: 1, byte, bit },
        );
        let found_write = self.proof.read(interval).map(|stamp| stamp.sequence);
        let expected_write = self.expected_write(filler, place);
        self.differences.add(Difference { place, fault, nature, found_write, expected_write, persists });
        if self.plan.dump && self.differences.count() <= DUMPS_MAX {
            let (path, offset) = self.file_at(place);
            self.dumped.push(dump::dump(&path, offset, interval, expected.as_deref()));
        }
    }

    /// Number of the write that belongs into an interval, if it is known.
    fn expected_write(&self, filler: &mut Filler, place: Address) -> Option<u64> {
        if let Some(map) = self.maps.get(place.file as usize) {
            let newest = map.known(place.offset).newest;
            return (newest != 0).then_some(newest.into());
        }
        let low = self.written.as_ref().and_then(|written| written.sequence(place.file, place.offset))?;
        Some(whole_sequence(low, filler.seeds().newest()))
    }

    /// Expected content of an interval, if it is known: from the number of its write, or from its own header.
    fn expected(&self, filler: &mut Filler, interval: &[u8], place: Address) -> Option<Vec<u8>> {
        let sequence = self.written.as_ref().and_then(|written| written.sequence(place.file, place.offset));
        let file = self.key(place.file);
        let stamp = match sequence {
            Some(low) => {
                let sequence = whole_sequence(low, filler.seeds().newest());
                Stamp { file, offset: place.offset, sequence, seed: filler.seeds().of(sequence) }
            }
            None if self.proof.has_header() => Stamp { file, offset: place.offset, ..self.proof.read(interval)? },
            None => Stamp { file, offset: place.offset, sequence: 0, seed: 0 },
        };
        let mut expected = vec![0; place.length as usize];
        self.make(filler.material(), &mut expected, stamp);
        // A header computed over other content is consistent with itself.
        let is_ours = sequence.is_some() || self.proof.same_header(interval, &expected);
        is_ours.then_some(expected)
    }

    fn make(&self, material: &Material, interval: &mut [u8], stamp: Stamp) {
        match self.proof.pattern() {
            Some(pattern) => pattern.fill(interval, stamp.offset),
            None => material.fill(interval, stamp.offset, stamp.seed ^ stamp.offset.rotate_left(32)),
        }
        if self.proof.fits(interval) {
            self.proof.stamp(interval, stamp);
        }
    }

    /// The first difference, with the number of all differences.
    pub(crate) fn failure(&self) -> Option<EngineError> {
        let first = self.differences.first()?;
        let (place, count, checked) = (first.place, self.differences.count(), self.checked);
        let more = (count > 1).then(|| format!("{count} of {checked} intervals differ, this is the first"));
        let parts = [first.text()].into_iter().chain(more).chain(self.dumped.iter().cloned());
        let text = parts.collect::<Vec<_>>().join("; ");
        let (path, offset) = self.file_at(place);
        Some(EngineError::Verification { path, offset, length: place.length, text })
    }

    /// The differences one by one.
    pub(crate) fn differences(&self) -> Vec<DifferenceOutcome> {
        self.differences.outcomes(|place| self.file_at(place))
    }

    /// The last writes that completed in each file, newest first.
    pub(crate) fn last_writes(&self) -> Vec<LastWrite> {
        self.last_writes.newest_first()
    }

    /// Labels for the result.
    pub(crate) fn labels(&self) -> Vec<String> {
        if self.waiting() > 0 { vec![NOT_ALL_READ_BACK.to_owned()] } else { Vec::new() }
    }
}

/// The largest number up to `newest` with these low bits.
fn whole_sequence(low: u32, newest: u64) -> u64 {
    let range = u64::from(SEQUENCE_MASK) + 1;
    let candidate = newest - newest % range + u64::from(low);
    if candidate > newest { candidate.saturating_sub(range) } else { candidate }
}

/// Opens the maps of the worker's files, if the plan has them.
fn maps(worker: &Worker, plan: &Verify, interval_bytes: u32, row: Option<&Row>) -> Result<Vec<Map>, EngineError> {
    let Some(map) = &plan.map else { return Ok(Vec::new()) };
    let bytes = |file: &FilePlan| row.map_or(file.offset_bytes + file.bytes, Row::bytes);
    let open = |(path, file): (&String, &FilePlan)| Map::open(path, interval_bytes, bytes(file));
    map.paths.iter().zip(&worker.files).map(open).collect()
}
