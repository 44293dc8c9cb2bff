//! The loop's part in verification; a load without verification never runs this code.

use iocurve_meter::Nanos;

use super::Load;
use crate::engines::request::{Address, Engine, Request};
use crate::error::EngineError;
use crate::plan::OperationKind;
use crate::verify::{CompletedOperation, NextStep};
use crate::worker::next::Next;
use crate::worker::range_locks::{RETRY_NS, Step};
use crate::worker::slots::InFlight;
use crate::worker::wake::{Issue, Wake};

impl Load<'_> {
    /// Continues in locked ranges, or reads written data back when it is time to. `None`: the load goes on. Reads for
    /// verification count neither as operations nor as bytes of the plan, and never wait for a schedule.
    #[inline(never)]
    pub(super) fn verify_next<E: Engine>(&mut self, engine: &mut E, now: Nanos) -> Result<Option<Issue>, EngineError> {
        if let Some(issue) = self.step_next(engine, now)? {
            return Ok(Some(issue));
        }
        if self.data.is_full {
            return Ok(None);
        }
        let (exhausted, in_flight) = (self.supply.is_exhausted(), self.slots.count());
        loop {
            let Some(verifier) = &mut self.data.verifier else { return Ok(None) };
            match verifier.next_step(self.supply.issued_bytes(), exhausted, in_flight) {
                NextStep::Load => {
                    self.data.read_back.ends(now);
                    return Ok(None);
                }
                NextStep::Drain => return Ok(Some(Issue::Blocked(Wake::Never))),
                NextStep::Settle => {
                    self.data.read_back.begins(now);
                    engine.settle()?;
                }
                NextStep::ReadBack(address) => {
                    self.compare(engine, address, now)?;
                    return Ok(Some(Issue::Submitted));
                }
            }
        }
    }

    /// Submits an operation of the plan. If only an earlier run's data are verified, a write is noted instead.
    #[inline(never)]
    pub(super) fn submit_verified<E: Engine>(
        &mut self,
        engine: &mut E,
        next: Next,
        address: Address,
        now: Nanos,
    ) -> Result<Issue, EngineError> {
        let Some(verifier) = &mut self.data.verifier else { return Ok(Issue::Submitted) };
        if verifier.submits_nothing() {
            if self.kinds[next.operation] == OperationKind::Write {
                verifier.found(address);
            }
            return Ok(Issue::Blocked(Wake::Now));
        }
        if verifier.locks_ranges() {
            return self.lock_and_submit(engine, next, address, now);
        }
        self.submit(engine, next, address, now)?;
        Ok(Issue::Submitted)
    }

    /// Compares a block that was read with the data written there.
    #[inline(never)]
    pub(super) fn verify_completion(&mut self, slot: u32, done: &InFlight, bytes: u32) -> Result<(), EngineError> {
        let data = &mut self.data;
        let Some(verifier) = &mut data.verifier else { return Ok(()) };
        let &InFlight { address, operation, reads_back, reads_again, .. } = done;
        let kind = self.kinds[operation as usize];
        let back = CompletedOperation { slot, kind, address, bytes, reads_back, reads_again };
        let compared = if verifier.completed(&back) {
            verifier.compare(&mut data.filler, data.buffers.slot(slot, address.length as usize), &back)
        } else {
            Ok(false)
        };
        if let Ok(true) = compared {
            let following = data.locks.take_following(slot);
            data.locks.push_step(Step::Again(address, following));
        } else {
            self.finish_range_step(slot, kind, address, false);
        }
        compared.map(drop)
    }

    /// Takes the next step in a locked range, or retries the lock that an operation waits for.
    fn step_next<E: Engine>(&mut self, engine: &mut E, now: Nanos) -> Result<Option<Issue>, EngineError> {
        match self.data.locks.take_step() {
            Some(Step::Operation(next, address)) => self.submit(engine, next, address, now)?,
            Some(Step::Compare(address)) => {
                self.compare(engine, address, now)?;
            }
            Some(Step::Again(address, following)) => {
                let slot = self.read_to_compare(engine, address, now, true)?;
                if let Some(next) = following {
                    self.data.locks.set_following(slot, next);
                }
            }
            None => {
                let Some((next, address)) = self.data.locks.take_waiting() else { return Ok(None) };
                return self.lock_and_submit(engine, next, address, now).map(Some);
            }
        }
        Ok(Some(Issue::Submitted))
    }

    /// Locks the range of an operation and submits the operation, or a read that comes before it. If the range is
    /// locked already, the operation waits.
    fn lock_and_submit<E: Engine>(
        &mut self,
        engine: &mut E,
        next: Next,
        address: Address,
        now: Nanos,
    ) -> Result<Issue, EngineError> {
        let Some(verifier) = &self.data.verifier else { return Ok(Issue::Submitted) };
        if !verifier.lock(address) {
            self.data.locks.wait(next, address);
            return Ok(Issue::Blocked(Wake::At(now + RETRY_NS)));
        }
        if self.kinds[next.operation] == OperationKind::Write && verifier.reads_before(address) {
            let slot = self.compare(engine, address, now)?;
            self.data.locks.set_following(slot, next);
        } else {
            self.submit(engine, next, address, now)?;
        }
        Ok(Issue::Submitted)
    }

    /// Called when an operation in a locked range has completed: the next step there follows, or the range is unlocked.
    pub(super) fn finish_range_step(&mut self, slot: u32, kind: OperationKind, address: Address, failed: bool) {
        let Some(verifier) = &self.data.verifier else { return };
        if !verifier.locks_ranges() || kind.is_flush() {
            return;
        }
        let following = self.data.locks.take_following(slot);
        match following {
            Some(next) if !failed => self.data.locks.push_step(Step::Operation(next, address)),
            None if !failed && kind == OperationKind::Write && verifier.reads_after() => {
                self.data.locks.push_step(Step::Compare(address));
            }
            _ => verifier.unlock(address, failed && kind == OperationKind::Write),
        }
    }

    /// Unlocks the ranges in which steps were left; those steps are not taken.
    pub(super) fn release_all(&mut self) {
        while let Some(step) = self.data.locks.take_step() {
            let (Step::Operation(_, address) | Step::Compare(address) | Step::Again(address, _)) = step;
            if let Some(verifier) = &self.data.verifier {
                verifier.unlock(address, false);
            }
        }
    }

    /// Submits a read to be compared; returns its slot.
    fn compare<E: Engine>(&mut self, engine: &mut E, address: Address, now: Nanos) -> Result<u32, EngineError> {
        self.read_to_compare(engine, address, now, false)
    }

    fn read_to_compare<E: Engine>(
        &mut self,
        engine: &mut E,
        address: Address,
        now: Nanos,
        reads_again: bool,
    ) -> Result<u32, EngineError> {
        let kind = OperationKind::Read;
        let operation = self.kinds.iter().position(|&recorded| recorded == kind).unwrap_or(0) as u32;
        let in_flight = InFlight { submitted: now, due: now, address, operation, reads_back: true, reads_again };
        let slot = self.slots.take(in_flight);
        engine.submit(Request { slot, kind, address })?;
        Ok(slot)
    }
}
