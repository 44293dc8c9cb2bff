//! Submits operations that are due.

use iocurve_meter::Nanos;

use super::{Data, Load};
use crate::engines::request::{Address, Engine, Request};
use crate::error::EngineError;
use crate::plan::OperationKind;
use crate::worker::STOP_CHECK;
use crate::worker::next::Next;
use crate::worker::slots::InFlight;
use crate::worker::wake::{Issue, Wake};

impl Load<'_> {
    /// Submits operations that are due, and returns the event, other than completions, that the loop waits for.
    #[inline]
    pub(super) fn fill<E: Engine>(&mut self, engine: &mut E) -> Result<Wake, EngineError> {
        let now = self.shared.clock.now();
        let in_flight = self.slots.count();
        let allowance = match &mut self.gate {
            None => Ok(self.slots.free()),
            Some(gate) => gate.allowance(now, in_flight, &mut self.supply.mix),
        };
        let (submitted, wake) = match allowance {
            Ok(count) => self.submit_and_stamp(count, engine, now)?,
            Err(wake) => (0, wake),
        };
        if submitted > 0 {
            let batch = |in_flight| if engine.sending_blocks() { 1 } else { E::send_batch(in_flight) };
            self.recorder.levels.submitted(submitted, in_flight, batch);
        }
        Ok(wake)
    }

    /// Submits up to `count` operations: in parts if sending is measured or takes long.
    #[inline]
    fn submit_and_stamp<E: Engine>(
        &mut self,
        count: usize,
        engine: &mut E,
        now: Nanos,
    ) -> Result<(usize, Wake), EngineError> {
        if self.slots.submissions.is_none() && !engine.sending_blocks() {
            return self.submit_up_to(count, engine, now);
        }
        self.submit_in_parts(count, engine, now)
    }

    /// Submits as many operations at a time as the engine sends at once, and stamps them before and after sending. An
    /// engine whose sending blocks gets one at a time: the others would wait for it, and share its time. After [`STOP_CHECK`] the loop checks for a stop before it continues.
    #[inline(never)]
    fn submit_in_parts<E: Engine>(
        &mut self,
        count: usize,
        engine: &mut E,
        mut now: Nanos,
    ) -> Result<(usize, Wake), EngineError> {
        let (began, mut submitted) = (now, 0);
        loop {
            let part_max = if engine.sending_blocks() { 1 } else { E::send_batch(self.slots.count()) };
            let part = (count - submitted).min(part_max);
            self.slots.expect_submissions(part);
            let (taken, wake) = self.submit_up_to(part, engine, now)?;
            submitted += taken;
            if taken > 0 {
                engine.send()?;
            }
            let sent = self.shared.clock.now();
            self.slots.sent(taken, sent);
            let pauses = self.gate.as_ref().is_some_and(|gate| gate.pause_is_due(now));
            if taken < part || submitted == count || pauses {
                return Ok((submitted, wake));
            }
            if sent - began >= STOP_CHECK {
                return Ok((submitted, Wake::Now));
            }
            now = sent;
        }
    }

    #[inline(always)]
    fn submit_up_to<E: Engine>(
        &mut self,
        count: usize,
        engine: &mut E,
        now: Nanos,
    ) -> Result<(usize, Wake), EngineError> {
        let plain = if self.is_plain { self.submit_plain(count, engine, now)? } else { 0 };
        for submitted in plain..count {
            if let Issue::Blocked(wake) = self.submit_next(engine, now)? {
                return Ok((submitted, wake));
            }
            if let Some(gate) = &mut self.gate
                && gate.pause_is_due(now)
            {
                return Ok((submitted + 1, Wake::Now));
            }
        }
        let in_flight = self.slots.count();
        Ok((count, self.gate.as_mut().map_or(Wake::Never, |gate| gate.allowance_used(in_flight))))
    }

    /// Submits the next operation, unless there is a reason to wait or to end.
    #[inline(always)]
    fn submit_next<E: Engine>(&mut self, engine: &mut E, now: Nanos) -> Result<Issue, EngineError> {
        if self.data.verifier.is_some()
            && let Some(issue) = self.verify_next(engine, now)?
        {
            return Ok(issue);
        }
        if self.supply.is_exhausted() {
            return Ok(Issue::Blocked(Wake::Exhausted));
        }
        if let Some((number, range)) = self.flushes.take(self.supply.issued_operations()) {
            self.flush(engine, number, range, now)?;
            return Ok(Issue::Submitted);
        }
        let next = match self.supply.next(now) {
            Ok(next) => next,
            Err(wake) => return Ok(Issue::Blocked(wake)),
        };
        let Some(address) = self.supply.address(next.operation) else { return self.pass_over(engine, next, now) };
        self.supply.issued(next.operation, address.length);
        if self.data.verifier.is_some() {
            return self.submit_verified(engine, next, address, now);
        }
        self.submit(engine, next, address, now)?;
        Ok(Issue::Submitted)
    }

    /// Drops the cached pages of files that start another pass: the operation comes again, with the time after that. If no
    /// address is left, only verification may have operations to submit.
    #[cold]
    fn pass_over<E: Engine>(&mut self, engine: &mut E, next: Next, now: Nanos) -> Result<Issue, EngineError> {
        if let Some(files) = self.supply.begin_pass(next) {
            engine.drop_cached_pages(files)?;
            return Ok(Issue::Blocked(Wake::Now));
        }
        self.supply.end();
        self.submit_next(engine, now)
    }

    #[inline(always)]
    pub(super) fn submit<E: Engine>(
        &mut self,
        engine: &mut E,
        next: Next,
        address: Address,
        now: Nanos,
    ) -> Result<(), EngineError> {
        let Next { operation, due } = next;
        let slot = self.slots.take(InFlight::new(operation as u32, address, now, due.unwrap_or(now)));
        let kind = self.kinds[operation];
        if kind != OperationKind::Read {
            self.prepare(kind, slot, address);
        } else if self.data.zeros.is_due() && self.data.zeros.begin(slot) {
            engine.inspect(slot);
        }
        if let Some(gate) = &mut self.gate {
            gate.submitted();
        }
        if E::WALKS
            && let Some(walk) = self.supply.walk()
        {
            walk.submitted(slot, now);
        }
        engine.submit(Request { slot, kind, address })
    }

    /// Prepares an operation that is not a read.
    #[inline(never)]
    fn prepare(&mut self, kind: OperationKind, slot: u32, address: Address) {
        match kind {
            OperationKind::Write => self.prepare_write(slot, address),
            OperationKind::WriteFile => {
                // A larger file has the same data in each of its transfers.
                let length = address.length.min(self.plan.block_bytes_max());
                self.prepare_write(slot, Address { length, ..address });
            }
            OperationKind::ReadFile | OperationKind::Copy => {}
            kind if kind.is_metadata() => self.slots.expect_no_bytes(slot),
            _ => {}
        }
    }

    fn prepare_write(&mut self, slot: u32, address: Address) {
        self.data.renew(slot, address);
        self.flushes.count(address);
    }

    /// Submits a flush. It counts neither as an operation nor as bytes of the plan, and never waits for a schedule.
    #[inline(never)]
    pub(super) fn flush<E: Engine>(
        &mut self,
        engine: &mut E,
        number: usize,
        range: Address,
        now: Nanos,
    ) -> Result<(), EngineError> {
        let operation = self.plan.operations.len() + number;
        let address = Address { length: 0, ..range };
        let slot = self.slots.take(InFlight::new(operation as u32, address, now, now));
        engine.submit(Request { slot, kind: self.kinds[operation], address: range })
    }
}

impl Data<'_> {
    /// Prepares the data of a write.
    #[inline]
    pub(super) fn renew(&mut self, slot: u32, address: Address) {
        let block = self.buffers.slot_mut(slot, address.length as usize);
        match &mut self.verifier {
            None => self.filler.renew(block, address.offset),
            Some(verifier) => verifier.stamp(&mut self.filler, block, slot, address),
        }
    }
}
