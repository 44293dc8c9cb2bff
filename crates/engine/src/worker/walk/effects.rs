//! Effects of steps: what a step changes of the tree and its lane if it has succeeded, and what is undone if it has failed.

use super::{Effect, Open, Step, Walk};
use crate::engines::request::Address;
use crate::plan::{OperationKind, TreeTask};
use crate::tree::Name;

/// Returns `true` if an operation failed because another client has done the same.
pub(in crate::worker) fn is_already_done(kind: OperationKind, result: i64) -> bool {
    match kind {
        OperationKind::Delete | OperationKind::Rmdir => result == -i64::from(libc::ENOENT),
        OperationKind::Mkdir => result == -i64::from(libc::EEXIST),
        _ => false,
    }
}

impl Walk {
    /// Marks the entry whose names change, before the step is submitted: a journal has it if the process is killed meanwhile.
    pub(super) fn announce(&self, step: Step) {
        match step.effect {
            effect if effect.changes_file() => self.state.changes(step.entry()),
            Effect::DirectoryMade | Effect::DirectoryRemoved => self.state.directory_changes(step.entry()),
            _ => {}
        }
    }

    /// Called when a step has ended: the effect of one that succeeded, and what undoes one that failed.
    pub(super) fn settle(&mut self, lane: u32, step: Step, succeeded: bool) {
        let entry = step.entry();
        if !succeeded {
            self.note_uncertain(entry, step);
        }
        match (step.effect, succeeded) {
            (Effect::Opened { created }, true) => self.was_opened(lane, entry, created),
            (Effect::Opened { created }, false) => self.not_opened(lane, entry, created),
            (Effect::Transferred, true) => self.transferred(lane, step),
            (Effect::Flushed, true) => self.on_open(lane, |open| open.is_dirty = false),
            // The file is closed next, and stays reserved.
            (Effect::Transferred | Effect::Flushed, false) => self.on_open(lane, |open| {
                (open.transfers_max, open.is_dirty, open.is_broken) = (0, false, true);
            }),
            (Effect::Closed, _) => self.closed(lane, entry),
            (Effect::Looked, true) => self.let_go(lane, entry),
            (Effect::Deleted, true) => {
                self.state.deleted(entry);
                self.let_go(lane, entry);
            }
            (Effect::NameMade(name), true) => {
                self.state.set_name(entry, name);
                self.changed(lane, entry);
            }
            (Effect::NameMade(name), false) => {
                let entered = !self.state.has_name(entry, name) && (name != Name::Copy || !self.state.has_target());
                self.give_up(lane, entry, entered);
            }
            (Effect::NameRemoved(name), true) => {
                self.state.clear_name(entry, name);
                self.state.left(entry);
                self.changed(lane, entry);
            }
            (Effect::Renamed, true) => {
                self.state.renamed(entry);
                self.changed(lane, entry);
            }
            (Effect::Written { .. }, true) => {
                self.state.created(entry);
                self.state.set_length(entry, self.state.shape().size(entry));
                self.changed(lane, entry);
            }
            (Effect::Written { created }, false) => self.give_up(lane, entry, created),
            (Effect::Looked | Effect::Deleted | Effect::NameRemoved(_) | Effect::Renamed, false) => {
                self.give_up(lane, entry, false);
            }
            (Effect::DirectoryMade, true) => self.state.directory_made(entry),
            (Effect::DirectoryMade, false) => self.directory_not_made(entry),
            (Effect::DirectoryRemoved, true) => self.state.directory_removed(entry),
            (Effect::DirectoryRemoved, false) => self.state.release_directory(entry),
            (Effect::DirectoryLooked, _) => self.state.leave_directory(entry),
            (Effect::LeftoverRemoved, _) => {}
        }
        self.count_done();
    }

    /// A step that failed may have changed the file.
    fn note_uncertain(&self, entry: u32, step: Step) {
        let changes_file = step.effect.changes_file();
        if changes_file || step.kind == OperationKind::Write {
            self.state.uncertain(entry);
        }
        if changes_file {
            self.state.changed(entry);
        }
    }

    fn on_open(&mut self, lane: u32, change: impl FnOnce(&mut Open)) {
        if let Some(open) = &mut self.lanes[lane as usize].open {
            change(open);
        }
    }

    fn was_opened(&mut self, lane: u32, entry: u32, created: bool) {
        if created {
            self.state.created(entry);
            self.state.changed(entry);
        }
        let lane = &mut self.lanes[lane as usize];
        lane.open = lane.opening.take();
    }

    fn not_opened(&mut self, lane: u32, entry: u32, created: bool) {
        self.lanes[lane as usize].opening = None;
        self.give_up(lane, entry, created);
        if self.task() == Some(TreeTask::Fill) {
            self.state.done(self.task);
        }
    }

    fn transferred(&mut self, lane: u32, step: Step) {
        let Address { offset, length, .. } = step.address;
        let Some(open) = &mut self.lanes[lane as usize].open else { return };
        let end = offset + u64::from(length);
        (open.position, open.transfers, open.bytes) = (end, open.transfers + 1, open.bytes + u64::from(length));
        if step.kind == OperationKind::Write {
            open.is_dirty = true;
            self.state.extend(open.entry, end);
        }
    }

    fn closed(&mut self, lane: u32, entry: u32) {
        let open = self.lanes[lane as usize].open.take();
        if let Some(open) = &open
            && self.work.stop_after.is_some()
            && !self.jumps
        {
            self.state.set_position(entry, open.position);
        }
        if !open.is_some_and(|open| open.is_broken) {
            self.state.release(entry);
        }
        if self.task() == Some(TreeTask::Fill) {
            self.state.done(self.task);
        }
    }
    fn directory_not_made(&self, entry: u32) {
        self.state.left(entry);
        if self.task() == Some(TreeTask::MakeDirectories) {
            self.state.directory_failed(entry);
        } else {
            self.state.release_directory(entry);
        }
    }

    /// Names or contents of a file have changed, and the step was the last one on it.
    fn changed(&self, lane: u32, entry: u32) {
        self.state.changed(entry);
        self.let_go(lane, entry);
    }

    /// Counts the entry of a task that workers share.
    fn count_done(&self) {
        let shared = [TreeTask::Remove, TreeTask::MakeDirectories];
        if self.task().is_some_and(|task| shared.contains(&task)) {
            self.state.done(self.task);
        }
    }

    /// Gives the reservation of a file up, unless the lane goes on with the file.
    fn let_go(&self, lane: u32, entry: u32) {
        if self.lanes[lane as usize].then.is_none() {
            self.state.release(entry);
        }
    }

    fn give_up(&mut self, lane: u32, entry: u32, entered: bool) {
        self.lanes[lane as usize].then = None;
        if entered {
            self.state.left(entry);
        }
        self.state.release(entry);
    }
}
