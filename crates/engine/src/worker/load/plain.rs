//! Plain loads: reads and writes of one size at random places of one file, as fast as they complete. What other loads need
//! for each operation is decided once for each batch.

use iocurve_meter::Nanos;

use super::Load;
use crate::engines::request::{Completion, Engine, Request};
use crate::error::EngineError;
use crate::plan::{OperationKind, OperationPlan, Worker};
use crate::worker::slots::InFlight;

/// Returns `true` if the load may be plain; whether its addresses are is known for each batch.
pub(super) fn is_plain(plan: &Worker) -> bool {
    let is_plain = |operation: &OperationPlan| {
        matches!(operation.kind, OperationKind::Read | OperationKind::Write) && operation.rate.is_none()
    };
    plan.operations.iter().all(is_plain)
        && plan.rate.is_none()
        && plan.verify.is_none()
        && plan.syncs.is_empty()
        && plan.log.is_none()
        && !plan.submission_latency
}

impl Load<'_> {
    /// Submits up to `count` plain operations; returns how many. The next operation may have something special, or there is
    /// none.
    #[inline(always)]
    pub(super) fn submit_plain<E: Engine>(
        &mut self,
        count: usize,
        engine: &mut E,
        now: Nanos,
    ) -> Result<usize, EngineError> {
        match self.plan.operations.as_slice() {
            [only] if only.kind == OperationKind::Read => self.submit_each::<E, true>(count, engine, now),
            _ => self.submit_each::<E, false>(count, engine, now),
        }
    }

    /// As [`Self::submit_plain`]. Reads alone are not chosen and have no data to prepare.
    #[inline(always)]
    fn submit_each<E: Engine, const READS_ALONE: bool>(
        &mut self,
        count: usize,
        engine: &mut E,
        now: Nanos,
    ) -> Result<usize, EngineError> {
        let Some((choice, scattered, most)) = self.supply.plain() else { return Ok(0) };
        let count = most.min(count as u64).min(self.data.zeros.unsampled());
        let (mut bytes, mut reads) = (0, 0);
        for _ in 0..count {
            let operation = if READS_ALONE { 0 } else { choice.next() };
            let kind = if READS_ALONE { OperationKind::Read } else { self.kinds[operation] };
            let (address, _) = scattered.next();
            bytes += u64::from(address.length);
            let slot = self.slots.take(InFlight::new(operation as u32, address, now, now));
            if kind == OperationKind::Read {
                reads += 1;
            } else {
                self.data.renew(slot, address);
            }
            engine.submit(Request { slot, kind, address })?;
        }
        self.data.zeros.pass_over(reads);
        self.supply.issued_plain(count, bytes);
        Ok(count as usize)
    }

    /// Records the plain operations with which `done` begins; returns how many. Those of one kind that were submitted
    /// together have the same latency.
    #[inline(always)]
    pub(super) fn complete_plain(&mut self, done: &[Completion], at: Nanos) -> usize {
        let (mut submitted, mut operation, mut count, mut bytes) = (0, 0, 0, 0);
        let mut completed = 0;
        for completion in done {
            let in_flight = self.slots.of(completion.slot);
            let length = in_flight.address.length;
            if completion.result != i64::from(length) || self.data.zeros.is_of(completion.slot) {
                break;
            }
            if (in_flight.submitted, in_flight.operation) != (submitted, operation) {
                self.recorder.record_alike(operation as usize, at.saturating_sub(submitted), count, bytes);
                (submitted, operation, count, bytes) = (in_flight.submitted, in_flight.operation, 0, 0);
            }
            self.slots.release(completion.slot);
            count += 1;
            bytes += u64::from(length);
            completed += 1;
        }
        self.recorder.record_alike(operation as usize, at.saturating_sub(submitted), count, bytes);
        completed
    }
}
