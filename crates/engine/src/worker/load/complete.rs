//! Records completed operations.

use iocurve_meter::Nanos;

use super::Load;
use crate::engines::request::{Address, Completion, Engine};
use crate::error::{EngineError, TargetError};
use crate::plan::OperationKind;
use crate::record::Done;
use crate::worker::search::Verdict;
use crate::worker::slots::InFlight;
use crate::worker::submit_gate::SubmitGate;
use crate::worker::timeline::Timeline;
use crate::worker::walk::is_already_done;

/// Errors that mean "device full" or "quota exceeded".
const NO_SPACE: [i32; 2] = [libc::ENOSPC, libc::EDQUOT];

impl Load<'_> {
    /// Completes the reaped operations; with a limit on completions at once, the rest waits for the next round.
    #[inline]
    pub(super) fn complete_reaped<E: Engine>(
        &mut self,
        done: &mut Vec<Completion>,
        wanted: usize,
        now: Nanos,
        timeline: &mut Timeline<'_>,
    ) {
        let most = self.gate.as_ref().map_or(usize::MAX, SubmitGate::reap_max);
        let taken = done.len().min(most);
        if timeline.measures() && (taken > 0 || wanted == 0) {
            self.recorder.levels.completed(taken);
        }
        let is_plain = self.is_plain && timeline.measures();
        let plain = if is_plain { self.complete_plain(&done[..taken], now) } else { 0 };
        for mut completion in done.drain(..taken).skip(plain) {
            let Completion { slot, result } = completion;
            if E::WALKS
                && let Some(walk) = self.supply.walk()
            {
                completion.result = walk.checked(slot, result);
            }
            if let Err(error) = self.complete(completion, now, timeline) {
                self.fail(error, now, timeline);
            }
            // Only now may other workers use the file.
            if E::WALKS
                && let Some(walk) = self.supply.walk()
            {
                walk.completed(slot, result, now, timeline.measures());
            }
        }
    }

    #[inline(always)]
    fn complete(&mut self, completion: Completion, at: Nanos, timeline: &mut Timeline<'_>) -> Result<(), EngineError> {
        let Completion { slot, result } = completion;
        let done = self.slots.release(slot);
        let counts = timeline.completed(done.due);
        if self.data.zeros.is_of(slot) {
            self.data.zeros.end(self.data.buffers.slot(slot, result.max(0) as usize));
        }
        if result < 0 {
            return self.failed(slot, &done, std::io::Error::from_raw_os_error(-result as i32), counts);
        }
        let bytes = result as u32;
        if bytes < done.address.length && self.fails_short(&done) {
            let text = format!("{bytes} of {} bytes were moved", done.address.length);
            return self.failed(slot, &done, std::io::Error::other(text), counts);
        }
        if self.data.verifier.is_some() {
            self.complete_verified(slot, &done, at, bytes, counts)?;
        } else if counts {
            self.record(slot, &done, at, bytes);
        }
        if self.gate.is_some() && counts { self.tell_gate(&done, at) } else { Ok(()) }
    }

    #[inline(never)]
    fn complete_verified(
        &mut self,
        slot: u32,
        done: &InFlight,
        at: Nanos,
        bytes: u32,
        counts: bool,
    ) -> Result<(), EngineError> {
        if counts && !done.reads_again {
            self.record(slot, done, at, bytes);
        }
        self.verify_completion(slot, done, bytes)
    }

    #[inline(always)]
    fn record(&mut self, slot: u32, done: &InFlight, at: Nanos, bytes: u32) {
        let &InFlight { submitted, due, address, operation, .. } = done;
        let Address { file, offset, length: asked } = address;
        let operation = operation as usize;
        let done = Done { operation, submitted, sent: submitted, due, at, asked, bytes, offset, file };
        match &self.slots.submissions {
            None => self.recorder.record(done),
            Some(submissions) => {
                self.recorder.record_in_parts(Done { sent: submissions.of(slot, submitted), ..done });
            }
        }
    }

    /// Records what the window leaves over: operations that did not complete, and those that were due and never submitted.
    #[cold]
    pub(super) fn record_left_over(&mut self, now: Nanos, timeline: &Timeline<'_>) {
        let counts = |done: &InFlight| timeline.left_over(done.due) && !done.reads_again;
        for (slot, in_flight) in self.slots.in_flight().filter(|(_, in_flight)| counts(in_flight)) {
            let &InFlight { submitted, due, address, operation, .. } = in_flight;
            let Address { file, offset, length: asked } = address;
            let sent = self.slots.submissions.as_ref().map_or(submitted, |sent| sent.of(slot, submitted));
            let operation = operation as usize;
            self.recorder.record_unfinished(Done {
                operation,
                submitted,
                sent,
                due,
                at: now,
                asked,
                bytes: 0,
                offset,
                file,
            });
        }
        let (start, end, recorder) = (timeline.window_start, timeline.window_end, &mut self.recorder);
        if let Some(gate) = &mut self.gate {
            gate.end(end, &mut self.supply.mix);
        }
        self.supply.miss_due_before(end, |operation, due, count| {
            if due >= start {
                recorder.record_missed(operation, end - due, count);
            }
        });
    }

    /// Returns `true` if an operation that has moved fewer bytes than requested has failed. Verification compares the bytes instead.
    #[cold]
    fn fails_short(&self, done: &InFlight) -> bool {
        let is_transfer = self.kinds[done.operation as usize].is_transfer();
        self.plan.whole_transfers && self.data.verifier.is_none() && is_transfer
    }

    #[cold]
    fn failed(&mut self, slot: u32, done: &InFlight, source: std::io::Error, counts: bool) -> Result<(), EngineError> {
        let &InFlight { address, operation, .. } = done;
        let kind = self.kinds[operation as usize];
        self.finish_range_step(slot, kind, address, true);
        if let Some(verifier) = &self.data.verifier {
            verifier.failed(kind, address);
        }
        if self.plan.end.when_full && source.raw_os_error().is_some_and(|errno| NO_SPACE.contains(&errno)) {
            self.supply.end();
            self.data.is_full = true;
            return Ok(());
        }
        // Each client with a part of a tree makes and removes all its directories.
        let is_of_directory = matches!(kind, OperationKind::Mkdir | OperationKind::Rmdir);
        let is_shared = || self.shared.tree.as_ref().is_some_and(|tree| tree.shape().is_shared());
        let result = -i64::from(source.raw_os_error().unwrap_or(libc::EIO));
        if is_of_directory && is_already_done(kind, result) && is_shared() {
            return Ok(());
        }
        if counts {
            self.recorder.record_error(operation as usize);
        }
        let path = match &self.shared.tree {
            Some(tree) => tree.path(address.file),
            None => self.plan.files[address.file as usize].path.clone(),
        };
        if self.failures.count(kind, &path, &source) {
            return Ok(());
        }
        if kind.is_metadata() {
            return Err(EngineError::Path { action: kind.name(), path, source });
        }
        let Address { length, offset, .. } = address;
        Err(EngineError::Operation { kind: kind.name(), length, offset, path, source })
    }

    /// Tells the gate that an operation of the plan has completed.
    #[inline(never)]
    fn tell_gate(&mut self, done: &InFlight, at: Nanos) -> Result<(), EngineError> {
        let Some(gate) = &mut self.gate else { return Ok(()) };
        if done.operation as usize >= self.plan.operations.len() || done.reads_back {
            return Ok(());
        }
        let service = at - done.submitted;
        if gate.completed(service, at) != Verdict::Unattainable {
            return Ok(());
        }
        let target_ns = self.plan.latency_target.map_or(0, |target| target.target_ns);
        Err(TargetError::SlowerThanTarget { job: self.plan.job.clone(), service_ns: service, target_ns }.into())
    }
}
