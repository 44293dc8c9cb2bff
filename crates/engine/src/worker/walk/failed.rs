//! Steps that failed: the tree is as before, and the lane goes on with another file.

use super::{Effect, Step, Walk};
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
    /// Undoes what was noted for a step that failed.
    pub(super) fn undo(&mut self, lane: u32, step: Step) {
        let Address { file, .. } = step.address;
        let entry = Name::split(file).map_or(file, |(entry, _)| entry);
        let changes_file = step.effect.changes_file();
        if changes_file || step.kind == OperationKind::Write {
            self.state.uncertain(entry);
        }
        if changes_file {
            self.state.changed(entry);
        }
        match step.effect {
            Effect::Transferred | Effect::Flushed => {
                // The file is closed next, and stays reserved.
                if let Some(open) = &mut self.lanes[lane as usize].open {
                    (open.transfers_max, open.is_dirty, open.is_broken) = (0, false, true);
                }
            }
            Effect::Opened { created } => {
                self.lanes[lane as usize].opening = None;
                self.give_up(lane, entry, created);
                if self.task() == Some(TreeTask::Fill) {
                    self.state.done(self.task);
                }
            }
            Effect::Closed => self.closed(lane, entry),
            Effect::Written { created } => self.give_up(lane, entry, created),
            Effect::NameMade(name) => {
                let entered = !self.state.has_name(entry, name) && (name != Name::Copy || !self.state.has_target());
                self.give_up(lane, entry, entered);
            }
            Effect::Looked | Effect::Deleted | Effect::NameRemoved(_) | Effect::Renamed => {
                self.give_up(lane, entry, false);
            }
            Effect::DirectoryMade => {
                self.state.left(entry);
                if self.task() == Some(TreeTask::MakeDirectories) {
                    self.state.directory_failed(entry);
                } else {
                    self.state.release_directory(entry);
                }
            }
            Effect::DirectoryRemoved => self.state.release_directory(entry),
            Effect::DirectoryLooked => self.state.leave_directory(entry),
            Effect::LeftoverRemoved => {}
        }
        self.count_done();
    }

    fn give_up(&mut self, lane: u32, entry: u32, entered: bool) {
        self.lanes[lane as usize].then = None;
        if entered {
            self.state.left(entry);
        }
        self.state.release(entry);
    }
}
