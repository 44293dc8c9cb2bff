//! Work on a tree: selects a file, opens it, transfers, closes it, and selects the next.
//!
//! A walk has a lane for each operation that may be in flight. A lane has one file at a time, and its next step is decided
//! when the step before has completed: so each file keeps its order, and as many files are in progress as there are lanes.

mod effects;
mod mixed;
mod pick;

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use iocurve_meter::{Latencies, Nanos, Rng};

pub(super) use self::effects::is_already_done;
use self::mixed::Draw;
use self::pick::Pick;
use super::next::Next;
use super::tickets::Tickets;
use super::wake::Wake;
use crate::engines::request::Address;
use crate::error::EngineError;
use crate::offsets::{Handover, Lengths};
use crate::outcome::DifferenceOutcome;
use crate::plan::{OperationKind, StopAfter, TreeTask, TreeWork, Worker};
use crate::tree::{Differences, Name, Reservation, TreeState};

/// Pause before a walk looks again for a file that is not in use.
const RETRY_NS: Nanos = 200_000;

#[derive(Debug)]
pub(super) struct Walk {
    state: Arc<TreeState>,
    work: TreeWork,
    /// A transfer of fewer bytes than requested has failed.
    whole_transfers: bool,
    task: usize,
    pick: Pick,
    /// By kind: its number in the plan.
    operations: [Option<usize>; OperationKind::ALL.len()],
    /// By operation: sizes of transfers.
    lengths: Vec<Lengths>,
    read_share: u64,
    write_share: u64,
    /// The kinds of a mix.
    draw: Draw,
    /// Transfers go to random places of the file.
    jumps: bool,
    tickets: Option<Tickets>,
    rng: Rng,
    lanes: Vec<Lane>,
    /// Lanes that have a file in progress, and no step in flight.
    working: VecDeque<u32>,
    /// Lanes that have neither a file nor a step in flight.
    idle: Vec<u32>,
    /// By slot: the lane whose step is there.
    of_slot: Vec<u32>,
    /// The next step, and its lane.
    pending: Option<(u32, Step)>,
    /// Lane of the step that was issued last.
    issued: u32,
    handover: Handover,
    /// Sizes that were not as they should be.
    differences: Differences,
    /// Times of files from their open to their close.
    files: Option<Latencies>,
}

/// One file or directory in progress.
#[derive(Debug, Default)]
struct Lane {
    open: Option<Open>,
    /// The file that is being opened.
    opening: Option<Open>,
    /// A reserved file, and the kind of operation that it was reserved for: other operations had to come first.
    then: Option<(u32, OperationKind)>,
    /// The kind that was drawn from a mix.
    drawn: Option<OperationKind>,
    /// The step in flight.
    step: Option<Step>,
}

/// An open file.
#[derive(Debug)]
struct Open {
    entry: u32,
    /// Its number by the name that it was opened by.
    number: u32,
    /// Submission of its open.
    opened: Nanos,
    position: u64,
    transfers: u64,
    bytes: u64,
    transfers_max: u64,
    bytes_max: u64,
    /// The file is closed without a transfer.
    only_opens: bool,
    /// Writes have not been flushed yet.
    is_dirty: bool,
    /// A transfer failed: the file is not used again.
    is_broken: bool,
}

/// One operation.
#[derive(Debug, Clone, Copy)]
struct Step {
    kind: OperationKind,
    address: Address,
    effect: Effect,
}

/// Change of the tree by a step that succeeded.
#[derive(Debug, Clone, Copy)]
enum Effect {
    /// The file is open, and was created if it was missing.
    Opened {
        created: bool,
    },
    Transferred,
    Flushed,
    Closed,
    /// The file is used no longer.
    Looked,
    Deleted,
    /// The file has a further name.
    NameMade(Name),
    NameRemoved(Name),
    /// The file is at the other of its two places.
    Renamed,
    /// The file was written as one operation.
    Written {
        created: bool,
    },
    DirectoryMade,
    DirectoryRemoved,
    /// The directory is used no longer.
    DirectoryLooked,
    LeftoverRemoved,
}

impl Effect {
    /// Returns `true` if the names of a file change, or the whole file.
    fn changes_file(self) -> bool {
        matches!(
            self,
            Self::Opened { created: true }
                | Self::Deleted
                | Self::NameMade(_)
                | Self::NameRemoved(_)
                | Self::Renamed
                | Self::Written { .. }
        )
    }
}

/// Reason why there is no step.
enum Halt {
    /// Others use what the step needs.
    Wait,
    Over,
}

impl Walk {
    /// The walk of a worker with a tree, with `depth` lanes.
    pub(super) fn new(
        worker: &Worker,
        state: &Arc<TreeState>,
        depth: u32,
        shared: Option<Tickets>,
    ) -> Result<Option<Self>, EngineError> {
        let Some(work) = &worker.tree else { return Ok(None) };
        let number = |kind| worker.operations.iter().position(|operation| operation.kind == kind);
        let lengths = worker.operations.iter().map(|operation| Lengths::new(&operation.blocks));
        let share = |kind| number(kind).map_or(0, |number| u64::from(worker.operations[number].share));
        let mut rng = Rng::new(worker.seed);
        Ok(Some(Self {
            state: Arc::clone(state),
            work: work.clone(),
            whole_transfers: worker.whole_transfers && worker.verify.is_none(),
            task: 0,
            pick: Pick::new(work),
            operations: OperationKind::ALL.map(number),
            lengths: lengths.collect::<Result<_, _>>().map_err(EngineError::Plan)?,
            read_share: share(OperationKind::Read),
            write_share: share(OperationKind::Write),
            draw: Draw::new(&worker.operations),
            jumps: worker.operations.iter().any(|operation| operation.random_percent > 0),
            tickets: worker.rate.map(|rate| shared.unwrap_or_else(|| Tickets::new(rate, rng.next_u64()))),
            rng,
            lanes: (0..depth).map(|_| Lane::default()).collect(),
            working: VecDeque::with_capacity(depth as usize),
            idle: (0..depth).rev().collect(),
            of_slot: vec![0; depth as usize],
            pending: None,
            issued: 0,
            handover: Handover::default(),
            differences: Differences::default(),
            files: work.times_files.then(Latencies::new),
        }))
    }

    pub(super) fn handover(&self) -> Handover {
        Rc::clone(&self.handover)
    }

    pub(super) fn start(&mut self, now: Nanos) {
        if let Some(tickets) = &mut self.tickets {
            tickets.start(now);
        }
    }

    pub(super) fn postpone(&mut self, by: Nanos) {
        if let Some(tickets) = &mut self.tickets {
            tickets.postpone(by);
        }
    }

    /// About how many operations are due before `end`.
    pub(super) fn backlog(&self, end: Nanos) -> u64 {
        self.tickets.as_ref().map_or(0, |tickets| tickets.backlog(end))
    }

    /// Takes the next operation that is due before `end` and will not be issued; its kind is that of the step which waits,
    /// or is drawn.
    pub(super) fn miss(&mut self, end: Nanos, at_once: u64) -> Option<(usize, Nanos)> {
        let due = self.tickets.as_mut()?.miss(end, at_once)?;
        let kind = match self.pending.take() {
            Some((_, step)) => step.kind,
            None => self.drawn_kind()?,
        };
        Some((self.operations[kind as usize]?, due))
    }

    /// A kind that the task is for.
    fn drawn_kind(&mut self) -> Option<OperationKind> {
        match self.task()? {
            TreeTask::Mix => self.draw.next(&mut self.rng),
            TreeTask::Transfer if self.rng.below(self.read_share + self.write_share) < self.read_share => {
                Some(OperationKind::Read)
            }
            _ => OperationKind::ALL
                .into_iter()
                .find(|&kind| self.operations[kind as usize].is_some() && self.is_requested(0, kind)),
        }
    }

    /// The next operation, if one is due.
    pub(super) fn next(&mut self, now: Nanos) -> Result<Next, Wake> {
        let (lane, step) = if let Some(pending) = self.pending {
            pending
        } else {
            let decided = self.decide().map_err(|halt| match halt {
                Halt::Wait => Wake::At(now + RETRY_NS),
                Halt::Over => Wake::Exhausted,
            })?;
            self.announce(decided.1);
            decided
        };
        self.pending = Some((lane, step));
        let is_paced = self.is_requested(lane, step.kind);
        let due = self.tickets.as_mut().filter(|_| is_paced).map(Tickets::due);
        if let Some(due) = due.filter(|&due| due > now) {
            return Err(Wake::At(due));
        }
        self.handover.set(Some(step.address));
        let operation = self.operations[step.kind as usize].unwrap_or_else(|| panic!("{:?} is planned", step.kind));
        Ok(Next { operation, due })
    }

    /// Called when the step was issued.
    pub(super) fn issued(&mut self) {
        let Some((lane, step)) = self.pending.take() else { return };
        if self.is_requested(lane, step.kind)
            && let Some(tickets) = &mut self.tickets
        {
            tickets.issued();
        }
        self.lanes[lane as usize].step = Some(step);
        self.issued = lane;
    }

    /// Called with the slot that the step issued last is in.
    pub(super) fn submitted(&mut self, slot: u32, now: Nanos) {
        self.of_slot[slot as usize] = self.issued;
        if let Some(opening) = &mut self.lanes[self.issued as usize].opening {
            opening.opened = now;
        }
    }

    /// Called with the result of the step in a slot before it is recorded. Compares the size of a file that attributes were got
    /// of, and returns the result without it.
    pub(super) fn checked(&mut self, slot: u32, result: i64) -> i64 {
        let Some(step) = self.lanes[self.of_slot[slot as usize] as usize].step else { return result };
        if step.kind != OperationKind::Getattr || result < 0 || !self.state.is_verified() {
            return result;
        }
        let number = step.address.file;
        if let Some((entry, _)) = Name::split(number)
            && let Some(wanted) = self.state.existing_length(entry)
            && wanted != result as u64
        {
            self.differences.size(self.state.path(number), result as u64, wanted);
        }
        0
    }

    /// The first difference that was found, if there is one.
    pub(super) fn failure(&self) -> Option<EngineError> {
        self.differences.failure()
    }

    pub(super) fn take_files(&mut self) -> Option<Latencies> {
        self.files.take()
    }

    pub(super) fn take_differences(&mut self) -> Vec<DifferenceOutcome> {
        std::mem::take(&mut self.differences.list)
    }

    /// Called when the step in a slot has completed, with its result.
    pub(super) fn completed(&mut self, slot: u32, result: i64, now: Nanos, counts: bool) {
        let lane = self.of_slot[slot as usize];
        let Some(step) = self.lanes[lane as usize].step.take() else { return };
        if counts
            && let (Effect::Closed, Some(files), Some(open)) =
                (step.effect, &mut self.files, &self.lanes[lane as usize].open)
            && result >= 0
            && !open.is_broken
        {
            files.record(now.saturating_sub(open.opened));
        }
        let is_short = self.whole_transfers && step.kind.is_transfer() && result < i64::from(step.address.length);
        self.settle(lane, step, (result >= 0 && !is_short) || is_already_done(step.kind, result));
        let Lane { open, then, .. } = &self.lanes[lane as usize];
        if open.is_some() || then.is_some() {
            self.working.push_back(lane);
        } else {
            self.idle.push(lane);
        }
    }

    /// A rate counts what a task is for, and not the opens and closes around it.
    fn is_requested(&self, lane: u32, kind: OperationKind) -> bool {
        if self.task() == Some(TreeTask::Mix) {
            return self.lanes[lane as usize].drawn == Some(kind);
        }
        match kind {
            OperationKind::Open => self.task() == Some(TreeTask::Open),
            OperationKind::Create => self.task() == Some(TreeTask::Create),
            OperationKind::Delete => self.task() == Some(TreeTask::Delete),
            OperationKind::Close | OperationKind::Fsync => false,
            _ => true,
        }
    }

    fn task(&self) -> Option<TreeTask> {
        self.work.tasks.get(self.task).copied()
    }

    /// The next step, and its lane. A lane with a file in progress comes first: others may wait for the file.
    fn decide(&mut self) -> Result<(u32, Step), Halt> {
        if let Some(lane) = self.working.pop_front() {
            if let Some(step) = self.on_file(lane)? {
                return Ok((lane, step));
            }
            self.idle.push(lane);
        }
        let Some(lane) = self.idle.pop() else { return Err(Halt::Wait) };
        let decided = self.begin(lane);
        if decided.is_err() {
            self.idle.push(lane);
        }
        decided.map(|step| (lane, step))
    }

    /// The next step on the file of a lane; `None` if the lane has none any more.
    fn on_file(&mut self, lane: u32) -> Result<Option<Step>, Halt> {
        if self.lanes[lane as usize].open.is_some() {
            return Ok(Some(self.on_open_file(lane)));
        }
        let Some((entry, kind)) = self.lanes[lane as usize].then.take() else { return Ok(None) };
        let decided = match kind {
            OperationKind::Create if self.task() == Some(TreeTask::Transfer) => {
                self.create_in_directory(lane, entry).map(Some)
            }
            kind => self.on_reserved(lane, entry, kind),
        };
        if decided.is_err() {
            self.idle.push(lane);
        }
        decided
    }

    /// The first step on the next file or directory.
    fn begin(&mut self, lane: u32) -> Result<Step, Halt> {
        loop {
            let decided = match self.task() {
                None => Err(Halt::Over),
                Some(TreeTask::Remove) => self.remove(),
                Some(TreeTask::MakeDirectories) => self.make_directory(),
                Some(TreeTask::Fill) => self.fill(lane),
                Some(TreeTask::Transfer) => self.begin_transfers(lane),
                Some(TreeTask::Create) => self.create(lane),
                Some(TreeTask::Mkdir | TreeTask::Rmdir) => self.change_directory(),
                Some(TreeTask::Readdir) => self.list(OperationKind::Readdir),
                Some(TreeTask::Readdirplus) => self.list(OperationKind::Readdirplus),
                Some(TreeTask::WriteFile) => self.write_file(lane),
                Some(TreeTask::Mix) => self.mix(lane),
                Some(task) => self.on_existing_file(lane, task),
            };
            match decided {
                Ok(Some(step)) => {
                    self.pick.rejected = 0;
                    return Ok(step);
                }
                // The next task begins.
                Ok(None) => self.task += 1,
                Err(halt) => return Err(halt),
            }
        }
    }

    // -- tasks that workers share -----------------------------------------------------------------------------------

    /// Waits for the others to complete the task.
    fn end_task(&self, total: u64) -> Result<Option<Step>, Halt> {
        if self.state.is_complete(self.task, total) { Ok(None) } else { Err(Halt::Wait) }
    }

    /// A directory is removed once all that is below it has been.
    fn remove(&mut self) -> Result<Option<Step>, Halt> {
        let total = self.state.removals().len() as u64;
        let taken = self.pick.removal.take().or_else(|| self.state.take(self.task, total));
        let Some(number) = taken else { return self.end_task(total) };
        if !self.state.is_complete(self.task, self.state.removed_before(number)) {
            self.pick.removal = Some(number);
            return Err(Halt::Wait);
        }
        let (number, is_directory) = self.state.removals()[number as usize];
        let kind = if is_directory { OperationKind::Rmdir } else { OperationKind::Delete };
        let effect = match (self.state.name_of(number), is_directory) {
            (None, _) => Effect::LeftoverRemoved,
            (Some(_), true) => Effect::DirectoryRemoved,
            (Some((entry, name)), false) => {
                self.state.reserve(entry, true);
                if matches!(name, Name::File | Name::Renamed) { Effect::Deleted } else { Effect::NameRemoved(name) }
            }
        };
        Ok(Some(Step::on(number, kind, effect)))
    }

    fn make_directory(&mut self) -> Result<Option<Step>, Halt> {
        let total = u64::from(self.state.shape().directories());
        loop {
            let entry = match self.pick.waiting.take() {
                Some(entry) => entry,
                None => match self.state.take(self.task, total) {
                    Some(number) => number as u32,
                    None => return self.end_task(total),
                },
            };
            let is_cut_off = self.state.is_cut_off(entry);
            if is_cut_off {
                self.state.directory_failed(entry);
            }
            if is_cut_off || self.state.directory_exists(entry) {
                self.state.done(self.task);
                continue;
            }
            if !self.state.enter(entry) {
                self.pick.waiting = Some(entry);
                return Err(Halt::Wait);
            }
            return Ok(Some(Step::on(entry, OperationKind::Mkdir, Effect::DirectoryMade)));
        }
    }

    fn fill(&mut self, lane: u32) -> Result<Option<Step>, Halt> {
        let total = self.state.used_files();
        loop {
            let Some(number) = self.state.take(self.task, total) else { return self.end_task(total) };
            let entry = self.state.used_file(number);
            let size = self.state.shape().size(entry);
            let reservation = self.state.reserve(entry, false);
            if let Reservation::Made { length } = reservation {
                // The task before has made the directory of each file, or could not.
                if length != Some(size) && (length.is_some() || self.state.enter(entry)) {
                    return Ok(Some(self.open_to_fill(lane, entry, length, size)));
                }
                self.state.release(entry);
            }
            self.state.done(self.task);
        }
    }

    /// Continues at the last whole transfer of a file that is too short.
    fn open_to_fill(&mut self, lane: u32, entry: u32, length: Option<u64>, size: u64) -> Step {
        let transfer =
            self.operations[OperationKind::Write as usize].map_or(1, |number| self.lengths[number].largest());
        let position = length.unwrap_or(0).min(size) / transfer * transfer;
        let open = Open {
            entry,
            number: self.state.current(entry),
            opened: 0,
            position,
            transfers: 0,
            bytes: 0,
            transfers_max: u64::MAX,
            bytes_max: u64::MAX,
            only_opens: false,
            is_dirty: false,
            is_broken: false,
        };
        self.open_file(lane, length, open)
    }

    // -- files ------------------------------------------------------------------------------------------------------

    fn begin_transfers(&mut self, lane: u32) -> Result<Option<Step>, Halt> {
        let may_create = self.write_share > 0 && self.read_share == 0 && !self.jumps;
        let needs_data = self.read_share > 0;
        let suits = move |_: &TreeState, _: u32, length: Option<u64>| match length {
            Some(bytes) => bytes > 0 || !needs_data,
            None => may_create,
        };
        let (entry, length) = self.select(suits, &[TreeTask::Create, TreeTask::Mkdir])?;
        if length.is_some() && self.work.delete_first && self.write_share > 0 {
            self.lanes[lane as usize].then = Some((entry, OperationKind::Create));
            return Ok(Some(Step::on(self.state.current(entry), OperationKind::Delete, Effect::Deleted)));
        }
        let open = self.opened(entry, length);
        Ok(Some(self.open_file(lane, length, open)))
    }

    /// Creates a reserved file that does not exist, in the directory that it is in.
    fn create_in_directory(&mut self, lane: u32, entry: u32) -> Result<Step, Halt> {
        if !self.state.enter(entry) {
            self.state.release(entry);
            return Err(Halt::Wait);
        }
        let open = self.opened(entry, None);
        Ok(self.open_file(lane, None, open))
    }

    fn opened(&self, entry: u32, length: Option<u64>) -> Open {
        let size = self.state.shape().size(entry);
        let (transfers_max, bytes_max) = match self.work.stop_after {
            None => (u64::MAX, size),
            Some(StopAfter::Transfers { count }) => (count, u64::MAX),
            Some(StopAfter::Percent { percent }) => (u64::MAX, (size * u64::from(percent) / 100).max(1)),
        };
        let continues = self.work.stop_after.is_some() && !self.jumps;
        let position = match length {
            Some(length) if continues && self.write_share > 0 && length < size => length,
            Some(length) if continues => Some(self.state.position(entry)).filter(|&place| place < length).unwrap_or(0),
            _ => 0,
        };
        Open {
            entry,
            number: self.state.current(entry),
            opened: 0,
            position,
            transfers: 0,
            bytes: 0,
            transfers_max,
            bytes_max,
            only_opens: self.task() != Some(TreeTask::Transfer),
            is_dirty: false,
            is_broken: false,
        }
    }

    fn open_file(&mut self, lane: u32, length: Option<u64>, open: Open) -> Step {
        let (created, number) = (length.is_none(), open.number);
        let kind = if created { OperationKind::Create } else { OperationKind::Open };
        self.lanes[lane as usize].opening = Some(open);
        Step::on(number, kind, Effect::Opened { created })
    }

    fn on_open_file(&mut self, lane: u32) -> Step {
        let Some(open) = &self.lanes[lane as usize].open else { unreachable!("asked with an open file") };
        let (number, flushes) = (open.number, open.is_dirty && self.work.flush_before_close);
        let transfer = if open.only_opens { None } else { self.transfer(lane) };
        transfer.unwrap_or_else(|| {
            let flush = (OperationKind::Fsync, Effect::Flushed);
            let (kind, effect) = if flushes { flush } else { (OperationKind::Close, Effect::Closed) };
            Step::on(number, kind, effect)
        })
    }

    /// The next transfer on the open file; `None` if it is to be closed.
    fn transfer(&mut self, lane: u32) -> Option<Step> {
        let open = self.lanes[lane as usize].open.as_ref()?;
        if open.transfers >= open.transfers_max || open.bytes >= open.bytes_max {
            return None;
        }
        let writes = self.task() == Some(TreeTask::Fill)
            || self.rng.below(self.read_share + self.write_share) >= self.read_share;
        let kind = if writes { OperationKind::Write } else { OperationKind::Read };
        let limit = if writes { self.state.shape().size(open.entry) } else { self.state.length(open.entry) };
        let drawn = u64::from(self.lengths[self.operations[kind as usize]?].draw(u64::MAX, &mut self.rng));
        let offset = if self.jumps { self.rng.below((limit / drawn).max(1)) * drawn } else { open.position };
        let length = drawn.min(limit.saturating_sub(offset)) as u32;
        let address = Address { file: open.number, offset, length };
        (length > 0).then_some(Step { kind, address, effect: Effect::Transferred })
    }

    fn create(&mut self, lane: u32) -> Result<Option<Step>, Halt> {
        let (entry, _) = self.select(|_, _, length| length.is_none(), &[TreeTask::Delete, TreeTask::Mkdir])?;
        let open = self.opened(entry, None);
        Ok(Some(self.open_file(lane, None, open)))
    }

    fn write_file(&mut self, lane: u32) -> Result<Option<Step>, Halt> {
        let (entry, length) = self.select(|_, _, _| true, &[TreeTask::Mkdir])?;
        Ok(Some(self.written(lane, entry, length)))
    }

    /// Writes a reserved file as one operation.
    fn written(&mut self, _lane: u32, entry: u32, length: Option<u64>) -> Step {
        let effect = Effect::Written { created: length.is_none() };
        let bytes = self.state.shape().size(entry);
        Step::on(self.state.current(entry), OperationKind::WriteFile, effect).of_bytes(bytes)
    }

    fn on_existing_file(&mut self, lane: u32, task: TreeTask) -> Result<Option<Step>, Halt> {
        let makers = [TreeTask::Create, TreeTask::Transfer, TreeTask::WriteFile];
        // A task has one kind of operation, or opens and closes.
        let kind = task.kinds().first().copied().unwrap_or(OperationKind::Open);
        let suits = move |state: &TreeState, entry: u32, length: Option<u64>| {
            length.is_some()
                && match kind {
                    OperationKind::Link => !state.has_name(entry, Name::Link),
                    OperationKind::Symlink => !state.has_name(entry, Name::Symlink),
                    OperationKind::Readlink => state.has_name(entry, Name::Symlink),
                    OperationKind::Rename => !state.has_target() || !state.has_name(entry, Name::Renamed),
                    OperationKind::ReadFile => length > Some(0),
                    _ => true,
                }
        };
        let (entry, _) = self.select(suits, &makers)?;
        self.on_reserved(lane, entry, kind)
    }

    /// The next step towards an operation of a kind on a reserved file. If it is not the operation itself, the lane comes
    /// back to the file.
    fn on_reserved(&mut self, lane: u32, entry: u32, kind: OperationKind) -> Result<Option<Step>, Halt> {
        let state = Arc::clone(&self.state);
        let (current, length) = (state.current(entry), state.existing_length(entry));
        let looks = |number| Step::on(number, kind, Effect::Looked);
        let makes =
            |name: Name, number: u32| Step::on(current, kind, Effect::NameMade(name)).to(number, length.unwrap_or(0));
        let removes = |name: Name| Step::on(name.of(entry), OperationKind::Delete, Effect::NameRemoved(name));
        let (step, is_last) = match kind {
            OperationKind::Create | OperationKind::Delete if length.is_some() => match state.further_name(entry) {
                Some(name) => (removes(name), false),
                None => (Step::on(current, OperationKind::Delete, Effect::Deleted), kind == OperationKind::Delete),
            },
            OperationKind::Create => (self.create_in_directory(lane, entry)?, true),
            OperationKind::Open => {
                let open = self.opened(entry, length);
                (self.open_file(lane, length, open), true)
            }
            OperationKind::Link if state.has_name(entry, Name::Link) => (removes(Name::Link), false),
            OperationKind::Symlink if state.has_name(entry, Name::Symlink) => (removes(Name::Symlink), false),
            OperationKind::Readlink if !state.has_name(entry, Name::Symlink) => {
                state.enter(entry);
                let step = makes(Name::Symlink, Name::Symlink.of(entry));
                (Step { kind: OperationKind::Symlink, ..step }, false)
            }
            OperationKind::Link => {
                state.enter(entry);
                (makes(Name::Link, Name::Link.of(entry)), true)
            }
            OperationKind::Symlink => {
                state.enter(entry);
                (makes(Name::Symlink, Name::Symlink.of(entry)), true)
            }
            OperationKind::Copy => {
                if !state.has_target() && !state.has_name(entry, Name::Copy) {
                    state.enter(entry);
                }
                (makes(Name::Copy, state.destination(entry, Name::Copy)), true)
            }
            OperationKind::Rename => {
                let other = if current == entry { state.destination(entry, Name::Renamed) } else { entry };
                (Step::on(current, kind, Effect::Renamed).to(other, 0), true)
            }
            OperationKind::Readlink => (looks(Name::Symlink.of(entry)), true),
            OperationKind::ReadFile => (looks(current).of_bytes(length.unwrap_or(0)), true),
            OperationKind::WriteFile => (self.written(lane, entry, length), true),
            _ => (looks(current), true),
        };
        if !is_last {
            self.lanes[lane as usize].then = Some((entry, kind));
        }
        Ok(Some(step))
    }

    /// Selects and reserves a file whose length (`None`: it does not exist) suits. A file that does not exist is counted in
    /// its directory, which must exist. `makers` are the tasks of other workers that bring such files into being.
    fn select(
        &mut self,
        suits: impl Fn(&TreeState, u32, Option<u64>) -> bool,
        makers: &[TreeTask],
    ) -> Result<(u32, Option<u64>), Halt> {
        let suits = |state: &TreeState, entry, length: Option<u64>| {
            suits(state, entry, length) && (length.is_some() || state.enter(entry))
        };
        if let Some(found) = self.find(pick::TRIES, suits)? {
            return Ok(found);
        }
        let all_seen = self.pick.rejected >= self.pick.rejections_max(self.state.used_files());
        Err(if all_seen && !self.state.expects(makers) { Halt::Over } else { Halt::Wait })
    }

    /// Tries to select and reserve a file.
    fn find(
        &mut self,
        tries: u64,
        suits: impl Fn(&TreeState, u32, Option<u64>) -> bool,
    ) -> Result<Option<(u32, Option<u64>)>, Halt> {
        let is_shared = self.work.files_shared && self.task() == Some(TreeTask::Transfer);
        for _ in 0..self.state.used_files().min(tries) {
            let Some(position) = self.pick.file(&self.state, &mut self.rng) else { return Err(Halt::Over) };
            let entry = self.state.used_file(position);
            let Reservation::Made { length } = self.state.reserve(entry, is_shared) else { continue };
            if suits(&self.state, entry, length) {
                return Ok(Some((entry, length)));
            }
            self.state.release(entry);
            self.pick.rejected += 1;
        }
        Ok(None)
    }

    // -- directories ------------------------------------------------------------------------------------------------

    fn change_directory(&mut self) -> Result<Option<Step>, Halt> {
        let makes = self.task() == Some(TreeTask::Mkdir);
        let total = u64::from(self.state.shape().directories());
        if let Some(step) = self.find_directory(pick::TRIES, makes) {
            return Ok(Some(step));
        }
        let others = if makes { &[TreeTask::Rmdir][..] } else { &[TreeTask::Mkdir, TreeTask::Delete] };
        let all_seen = self.pick.rejected >= self.pick.rejections_max(total);
        Err(if all_seen && !self.state.expects(others) { Halt::Over } else { Halt::Wait })
    }

    /// Tries to find a directory to create or to remove.
    fn find_directory(&mut self, tries: u64, makes: bool) -> Option<Step> {
        for _ in 0..u64::from(self.state.shape().directories()).min(tries) {
            let entry = self.pick.directory(&self.state, &mut self.rng, makes);
            let reserved = if makes {
                self.state.reserve_missing_directory(entry)
            } else {
                self.state.reserve_empty_directory(entry)
            };
            if reserved && makes && !self.state.enter(entry) {
                self.state.release_directory(entry);
            } else if reserved {
                let made = (OperationKind::Mkdir, Effect::DirectoryMade);
                let (kind, effect) = if makes { made } else { (OperationKind::Rmdir, Effect::DirectoryRemoved) };
                return Some(Step::on(entry, kind, effect));
            }
            self.pick.rejected += 1;
        }
        None
    }

    fn list(&mut self, kind: OperationKind) -> Result<Option<Step>, Halt> {
        let total = u64::from(self.state.shape().directories());
        for _ in 0..total.min(pick::TRIES) {
            let Some(entry) = self.pick.listed(&self.state, &mut self.rng) else { return Err(Halt::Over) };
            if self.state.use_directory(entry) {
                return Ok(Some(Step::on(entry, kind, Effect::DirectoryLooked)));
            }
            self.pick.rejected += 1;
        }
        let all_seen = self.pick.rejected >= self.pick.rejections_max(total);
        Err(if all_seen && !self.state.expects(&[TreeTask::Mkdir]) { Halt::Over } else { Halt::Wait })
    }
}

impl Step {
    /// The file or directory that it works on.
    fn entry(&self) -> u32 {
        let number = self.address.file;
        Name::split(number).map_or(number, |(entry, _)| entry)
    }

    /// An operation on a name.
    fn on(entry: u32, kind: OperationKind, effect: Effect) -> Self {
        Self { kind, address: Address { file: entry, offset: 0, length: 0 }, effect }
    }

    /// Bytes of the whole file.
    fn of_bytes(self, bytes: u64) -> Self {
        let length = u32::try_from(bytes).unwrap_or(u32::MAX);
        Self { address: Address { length, ..self.address }, ..self }
    }

    /// An operation with a second name; a copy has `bytes`.
    fn to(self, number: u32, bytes: u64) -> Self {
        let step = if self.kind == OperationKind::Copy { self.of_bytes(bytes) } else { self };
        Self { address: Address { offset: u64::from(number), ..step.address }, ..step }
    }
}
