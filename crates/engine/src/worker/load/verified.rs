//! What the loop does besides for verification; a load without it never comes here.

use iocurve_meter::Nanos;

use super::{InFlight, Load};
use crate::engines::request::Address;
use crate::engines::request::{Engine, Request};
use crate::error::EngineError;
use crate::plan::OperationKind;
use crate::verify::{CameBack, Turn};
use crate::worker::mix::Next;
use crate::worker::visit::{LOOK_AGAIN, Step};
use crate::worker::wake::Wake;

impl Load<'_> {
    /// Goes on where places are held, or reads back what was written, where it is time to; reading back is neither an
    /// operation nor bytes of those that are asked for, and never waits for a schedule.
    #[inline(never)]
    pub(super) fn verify_next<E: Engine>(
        &mut self,
        engine: &mut E,
        now: Nanos,
    ) -> Result<Option<Result<(), Wake>>, EngineError> {
        if let Some(submitted) = self.visit_next(engine, now)? {
            return Ok(Some(submitted));
        }
        if self.is_full {
            return Ok(None);
        }
        let (exhausted, in_flight) = (self.exhausted(), self.in_flight());
        loop {
            let Some(verifier) = &mut self.verifier else { return Ok(None) };
            match verifier.turn(self.issued_bytes, exhausted, in_flight) {
                Turn::Load => {
                    self.read_back.ends(now);
                    return Ok(None);
                }
                Turn::Drain => return Ok(Some(Err(Wake::Never))),
                Turn::Settle { is_pass } => {
                    if is_pass {
                        self.read_back.begins(now);
                    }
                    engine.settle()?;
                }
                Turn::ReadBack(address) => {
                    self.compare(engine, address, now)?;
                    return Ok(Some(Ok(())));
                }
            }
        }
    }

    /// Submits an operation that was drawn, unless it is only gone through, to know what an earlier run wrote.
    #[inline(never)]
    pub(super) fn submit_verified<E: Engine>(
        &mut self,
        engine: &mut E,
        next: Next,
        address: Address,
        now: Nanos,
    ) -> Result<Result<(), Wake>, EngineError> {
        let Some(verifier) = &mut self.verifier else { return Ok(Ok(())) };
        if verifier.only_looks() {
            if self.kinds[next.operation] == OperationKind::Write {
                verifier.found(address);
            }
            return Ok(Err(Wake::Now));
        }
        if verifier.holds() {
            return self.visit(engine, next, address, now);
        }
        self.submit(engine, next, address, now)?;
        Ok(Ok(()))
    }

    /// Compares what came back with what was written there.
    #[inline(never)]
    pub(super) fn came_back(&mut self, slot: u32, done: &InFlight, bytes: u32) -> Result<(), EngineError> {
        let Some(verifier) = &mut self.verifier else { return Ok(()) };
        let &InFlight { offset, length, file, operation, reads_back, .. } = done;
        let (kind, address) = (self.kinds[operation as usize], Address { file, offset, length });
        let back = CameBack { slot, kind, address, bytes, reads_back };
        let compared = verifier.came_back(&mut self.filler, self.buffers.slot(slot, length as usize), back);
        self.visited(slot, kind, address, false);
        compared
    }

    /// Goes on at places that are held, or with the operation that waits for its place.
    fn visit_next<E: Engine>(&mut self, engine: &mut E, now: Nanos) -> Result<Option<Result<(), Wake>>, EngineError> {
        match self.visits.take_step() {
            Some(Step::Operation(next, address)) => self.submit(engine, next, address, now)?,
            Some(Step::Check(address)) => {
                self.compare(engine, address, now)?;
            }
            None => {
                let Some((next, address)) = self.visits.take_waiting() else { return Ok(None) };
                return self.visit(engine, next, address, now).map(Some);
            }
        }
        Ok(Some(Ok(())))
    }

    /// Takes the place of an operation, or lets it wait for that.
    fn visit<E: Engine>(
        &mut self,
        engine: &mut E,
        next: Next,
        address: Address,
        now: Nanos,
    ) -> Result<Result<(), Wake>, EngineError> {
        let Some(verifier) = &self.verifier else { return Ok(Ok(())) };
        if !verifier.hold(address) {
            self.visits.wait(next, address);
            return Ok(Err(Wake::At(now + LOOK_AGAIN)));
        }
        if self.kinds[next.operation] == OperationKind::Write && verifier.reads_before(address) {
            let slot = self.compare(engine, address, now)?;
            self.visits.comes_before(slot, next);
        } else {
            self.submit(engine, next, address, now)?;
        }
        Ok(Ok(()))
    }

    /// An operation has come back from a place that was held for it.
    pub(super) fn visited(&mut self, slot: u32, kind: OperationKind, address: Address, failed: bool) {
        let Some(verifier) = &self.verifier else { return };
        if !verifier.holds() || kind.is_flush() {
            return;
        }
        let following = self.visits.take_following(slot);
        match following {
            Some(next) if !failed => self.visits.go_on(Step::Operation(next, address)),
            None if !failed && kind == OperationKind::Write && verifier.reads_after() => {
                self.visits.go_on(Step::Check(address));
            }
            _ => verifier.release(address, failed && kind == OperationKind::Write),
        }
    }

    /// What was still to be done at places that are held is not done.
    pub(super) fn leave_places(&mut self) {
        while let Some(Step::Operation(_, address) | Step::Check(address)) = self.visits.take_step() {
            if let Some(verifier) = &self.verifier {
                verifier.release(address, false);
            }
        }
    }

    /// Reads what is to be compared, beside the operations that are asked for.
    fn compare<E: Engine>(&mut self, engine: &mut E, address: Address, now: Nanos) -> Result<u32, EngineError> {
        let kind = OperationKind::Read;
        let operation = self.kinds.iter().position(|&recorded| recorded == kind).unwrap_or(0);
        let slot = self.take_slot(operation, address, now, now);
        self.slots[slot as usize].reads_back = true;
        engine.submit(Request { slot, kind, address })?;
        Ok(slot)
    }
}
