//! A mix of operations on names, attributes and whole files: each lane draws the next kind by the shares of the plan.

use iocurve_meter::Rng;

use super::{Effect, Halt, Step, Walk};
use crate::plan::{OperationKind, OperationPlan};

/// Files or directories that are tried for a kind, before its inverse.
const TRIES: u64 = 32;
/// Kinds that are drawn before the walk waits for other workers.
const DRAWS: u32 = 16;

/// Draws kinds by their shares.
#[derive(Debug)]
pub(super) struct Draw {
    /// Sum of the shares up to each kind.
    sums: Vec<(u64, OperationKind)>,
}

impl Draw {
    pub(super) fn new(operations: &[OperationPlan]) -> Self {
        let drawn = |kind: OperationKind| kind.is_metadata() && kind != OperationKind::Close;
        let mut sum = 0;
        let shares = operations.iter().filter(|one| drawn(one.kind) && one.share > 0).map(|one| {
            sum += u64::from(one.share);
            (sum, one.kind)
        });
        Self { sums: shares.collect() }
    }

    pub(super) fn next(&self, rng: &mut Rng) -> Option<OperationKind> {
        let all = self.sums.last()?.0;
        let at = rng.below(all);
        self.sums.iter().find(|(sum, _)| at < *sum).map(|(_, kind)| *kind)
    }
}

impl Walk {
    /// The first step of the next operation of a mix.
    pub(super) fn mix(&mut self, lane: u32) -> Result<Option<Step>, Halt> {
        for _ in 0..DRAWS {
            let Some(kind) = self.draw.next(&mut self.rng) else { return Err(Halt::Over) };
            let step = self.mixed(lane, kind)?;
            if step.is_some() {
                self.lanes[lane as usize].drawn = Some(kind);
                return Ok(step);
            }
        }
        Err(Halt::Wait)
    }

    fn mixed(&mut self, lane: u32, kind: OperationKind) -> Result<Option<Step>, Halt> {
        match kind {
            OperationKind::Mkdir | OperationKind::Rmdir => {
                let makes = kind == OperationKind::Mkdir;
                let inverse = if makes { OperationKind::Rmdir } else { OperationKind::Mkdir };
                let step = self.find_directory(TRIES, makes);
                let inverts = step.is_none() && self.operations[inverse as usize].is_some();
                Ok(if inverts { self.find_directory(TRIES, !makes) } else { step })
            }
            OperationKind::Readdir | OperationKind::Readdirplus => {
                for _ in 0..TRIES {
                    let entry = self.pick.directory(&self.state, &mut self.rng, true);
                    if self.state.use_directory(entry) {
                        return Ok(Some(Step::on(entry, kind, Effect::DirectoryLooked)));
                    }
                }
                Ok(None)
            }
            OperationKind::Create => {
                let found = match self.find(TRIES, |_, _, length| length.is_none())? {
                    None if self.operations[OperationKind::Delete as usize].is_some() => self.any_file()?,
                    found => found,
                };
                self.on_found(lane, found, kind)
            }
            OperationKind::WriteFile => {
                let found = self.find(TRIES, |_, _, _| true)?;
                self.on_found(lane, found, kind)
            }
            OperationKind::Delete => {
                let found = self.any_file()?;
                if found.is_none() && self.operations[OperationKind::WriteFile as usize].is_some() {
                    return self.mixed(lane, OperationKind::WriteFile);
                }
                self.on_found(lane, found, kind)
            }
            kind => {
                let needs_data = kind == OperationKind::ReadFile;
                let found =
                    self.find(TRIES, move |_, _, length| length.is_some_and(|bytes| bytes > 0 || !needs_data))?;
                self.on_found(lane, found, kind)
            }
        }
    }

    fn any_file(&mut self) -> Result<Option<(u32, Option<u64>)>, Halt> {
        self.find(TRIES, |_, _, length| length.is_some())
    }

    /// The first step towards an operation on a file, if one was found and its directory exists.
    fn on_found(
        &mut self,
        lane: u32,
        found: Option<(u32, Option<u64>)>,
        kind: OperationKind,
    ) -> Result<Option<Step>, Halt> {
        let Some((entry, length)) = found else { return Ok(None) };
        let is_written = length.is_none() && kind == OperationKind::WriteFile;
        if is_written && !self.state.enter(entry) {
            self.state.release(entry);
            return Ok(None);
        }
        match self.on_reserved(lane, entry, kind) {
            // The directory of a file to create does not exist yet.
            Err(_) => Ok(None),
            step => step,
        }
    }
}
