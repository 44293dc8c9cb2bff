//! Plain loads: reads of one size at random places of one file, as fast as they complete. What other loads need for each
//! operation is decided once for each batch.

use iocurve_meter::Nanos;

use super::Load;
use crate::engines::request::{Completion, Engine, Request};
use crate::error::EngineError;
use crate::plan::{OperationKind, Worker};
use crate::worker::slots::InFlight;

/// Returns `true` if the load may be plain; whether its addresses are is known for each batch.
pub(super) fn is_plain(plan: &Worker) -> bool {
    let [operation] = plan.operations.as_slice() else { return false };
    operation.kind == OperationKind::Read
        && operation.rate.is_none()
        && plan.rate.is_none()
        && plan.verify.is_none()
        && plan.syncs.is_empty()
        && plan.log.is_none()
        && !plan.submission_latency
}

impl Load<'_> {
    /// Submits up to `count` plain reads; returns how many. The next operation may have something special, or there is none.
    #[inline(always)]
    pub(super) fn submit_plain<E: Engine>(
        &mut self,
        count: usize,
        engine: &mut E,
        now: Nanos,
    ) -> Result<usize, EngineError> {
        let Some((scattered, most)) = self.supply.plain() else { return Ok(0) };
        let count = self.data.zeros.pass_over(most.min(count as u64));
        let mut bytes = 0;
        for _ in 0..count {
            let (address, _) = scattered.next();
            bytes += u64::from(address.length);
            let slot = self.slots.take(InFlight::new(0, address, now, now));
            engine.submit(Request { slot, kind: OperationKind::Read, address })?;
        }
        self.supply.issued_plain(count, bytes);
        Ok(count as usize)
    }

    /// Records the plain reads with which `done` begins; returns how many. Those that were submitted together have the same
    /// latency.
    #[inline(always)]
    pub(super) fn complete_plain(&mut self, done: &[Completion], at: Nanos) -> usize {
        let (mut submitted, mut count, mut bytes) = (0, 0, 0);
        let mut completed = 0;
        for completion in done {
            let in_flight = self.slots.of(completion.slot);
            let length = in_flight.address.length;
            if completion.result != i64::from(length) || self.data.zeros.is_of(completion.slot) {
                break;
            }
            if in_flight.submitted != submitted {
                self.recorder.record_alike(0, at.saturating_sub(submitted), count, bytes);
                (submitted, count, bytes) = (in_flight.submitted, 0, 0);
            }
            self.slots.release(completion.slot);
            count += 1;
            bytes += u64::from(length);
            completed += 1;
        }
        self.recorder.record_alike(0, at.saturating_sub(submitted), count, bytes);
        completed
    }
}
