//! The loop itself: submit what is due, reap what is done.

use std::sync::Arc;

use iocurve_meter::Nanos;

use super::depth::DepthLevels;
use super::mix::{Mix, Next, Wake};
use super::progress::{DRAIN, DRAIN_WHEN_STOPPED, Progress};
use super::{Ended, LOOK_AROUND, Shared};
use crate::error::EngineError;
use crate::offsets::{Address, Offsets};
use crate::outcome::{IntervalOutcome, State};
use crate::payload::Filler;
use crate::plan::{End, OperationKind, Worker};
use crate::recorder::{Done, Recorder, Tally};
use crate::request::{Buffers, Completion, Engine, Request};

/// The load of one worker, ready to start: all memory is taken, all addresses are computable.
pub struct Load<'a> {
    plan: &'a Worker,
    shared: Shared,
    offsets: Offsets,
    filler: Filler,
    buffers: Arc<Buffers>,
    mix: Mix,
    recorder: Recorder,
    slots: Vec<InFlight>,
    free: Vec<u32>,
    issued_operations: u64,
    issued_bytes: u64,
    depth_levels: DepthLevels,
}

#[derive(Debug, Clone, Copy, Default)]
struct InFlight {
    submitted: Nanos,
    due: Nanos,
    offset: u64,
    length: u32,
    file: u32,
    operation: u32,
}

impl<'a> Load<'a> {
    /// `buffers` has `depth` slots of the largest block.
    pub fn new(plan: &'a Worker, depth: u32, buffers: Arc<Buffers>, shared: Shared) -> Result<Self, EngineError> {
        Ok(Self {
            plan,
            shared,
            offsets: Offsets::new(plan)?,
            filler: Filler::new(plan, &buffers)?,
            buffers,
            mix: Mix::new(plan),
            recorder: Recorder::new(&plan.operations).with_log(plan.log)?,
            slots: vec![InFlight::default(); depth as usize],
            free: (0..depth).rev().collect(),
            issued_operations: 0,
            issued_bytes: 0,
            depth_levels: DepthLevels::default(),
        })
    }

    /// Runs to the end. `group_start` is the instant that all workers of the group count from; `publish` sees every
    /// closed interval.
    pub fn run<E: Engine>(
        mut self,
        engine: &mut E,
        group_start: Nanos,
        publish: &mut dyn FnMut(&IntervalOutcome, &[Tally]),
    ) -> (Ended, Recorder) {
        let mut progress = Progress::new(self.plan, group_start, self.shared.interval_ns);
        self.recorder.begin(group_start, progress.window_start);
        self.wait_until(progress.start);
        self.mix.start(progress.start);
        let result = self.drive(engine, &mut progress, publish);
        let now = self.shared.clock.now();
        progress.finish(now, &mut self.recorder, publish);
        let (state, error) = match result {
            Ok(state) => (state, None),
            Err(error) => (State::Failed, Some(error)),
        };
        let ended = Ended {
            state,
            error,
            window: (progress.window_start - group_start, progress.window_end - group_start),
            drained: now.saturating_sub(group_start),
            drained_operations: progress.drained_operations,
            cpu: progress.cpu(),
            depth_levels: self.depth_levels.named(),
        };
        (ended, self.recorder)
    }

    fn drive<E: Engine>(
        &mut self,
        engine: &mut E,
        progress: &mut Progress,
        publish: &mut dyn FnMut(&IntervalOutcome, &[Tally]),
    ) -> Result<State, EngineError> {
        let mut done = Vec::with_capacity(self.slots.len());
        let mut last = self.shared.clock.now();
        let mut open = true;
        let mut state = State::Finished;
        let mut failure = None;
        loop {
            if open {
                if let Some(told) = self.shared.told_to_end() {
                    (open, state) = (false, told);
                    let grace = if told == State::Interrupted { DRAIN_WHEN_STOPPED } else { DRAIN };
                    progress.end_window(self.shared.clock.now(), grace);
                } else if last >= progress.window_end {
                    open = false;
                    progress.end_window(progress.window_end, DRAIN);
                }
            }
            let wake = if open { self.fill(engine)? } else { Wake::Never };
            let in_flight = self.slots.len() - self.free.len();
            if in_flight == 0 {
                match wake {
                    Wake::At(due) => {
                        self.wait_until(due.min(progress.boundary()));
                        last = self.shared.clock.now();
                        progress.advance(last, &mut self.recorder, publish);
                        continue;
                    }
                    // Everything asked for was issued and is done.
                    Wake::Exhausted if open => {
                        progress.end_window(last, 0);
                        return Ok(state);
                    }
                    _ => return failure.map_or(Ok(state), Err),
                }
            }
            if !open && last >= progress.give_up {
                return failure.map_or_else(|| self.not_drained(in_flight, state), Err);
            }
            let deadline = wake.at().min(progress.boundary()).min(last + LOOK_AROUND);
            engine.reap(1, deadline, &mut done)?;
            last = self.shared.clock.now();
            progress.advance(last, &mut self.recorder, publish);
            for completion in done.drain(..) {
                let result = self.complete(completion, last, progress);
                if let Err(error) = result
                    && failure.is_none()
                {
                    (open, state, failure) = (false, State::Failed, Some(error));
                    progress.end_window(last, DRAIN_WHEN_STOPPED);
                }
            }
        }
    }

    /// Submits what is due, and says what the loop is waiting for besides completions.
    #[inline]
    fn fill<E: Engine>(&mut self, engine: &mut E) -> Result<Wake, EngineError> {
        let now = self.shared.clock.now();
        let free_before = self.free.len();
        let mut wake = Wake::Never;
        while let Some(slot) = self.free.pop() {
            let due = if self.exhausted() { Err(Wake::Exhausted) } else { self.mix.next(now) };
            let next = due.and_then(|next| Ok((next, self.offsets.next(next.operation).ok_or(Wake::Exhausted)?)));
            match next {
                Ok((next, address)) => self.submit(engine, slot, next, address, now)?,
                Err(reason) => {
                    self.free.push(slot);
                    wake = reason;
                    break;
                }
            }
            if E::SYNCHRONOUS {
                break;
            }
        }
        let submitted = free_before - self.free.len();
        if submitted > 0 {
            self.depth_levels.record(submitted, self.slots.len() - self.free.len());
        }
        Ok(wake)
    }

    #[inline]
    fn submit<E: Engine>(
        &mut self,
        engine: &mut E,
        slot: u32,
        next: Next,
        address: Address,
        now: Nanos,
    ) -> Result<(), EngineError> {
        let Address { file, offset, length } = address;
        let kind = self.plan.operations[next.operation].kind;
        let due = next.due.unwrap_or(now);
        self.slots[slot as usize] =
            InFlight { submitted: now, due, offset, length, file, operation: next.operation as u32 };
        if kind == OperationKind::Write {
            self.filler.renew(&self.buffers, slot, offset, length);
        }
        self.issued_operations += 1;
        self.issued_bytes += u64::from(length);
        engine.submit(Request { slot, kind, file, offset, length })
    }

    #[inline]
    fn complete(&mut self, completion: Completion, at: Nanos, progress: &mut Progress) -> Result<(), EngineError> {
        let InFlight { submitted, due, offset, length, file, operation } = self.slots[completion.slot as usize];
        self.free.push(completion.slot);
        if progress.ended {
            progress.drained_operations += 1;
        } else if completion.result >= 0 {
            let bytes = completion.result as u32;
            self.recorder.record(Done {
                operation: operation as usize,
                submitted,
                due,
                at,
                asked: length,
                bytes,
                offset,
            });
        } else {
            self.recorder.record_error(operation as usize);
        }
        if completion.result >= 0 {
            return Ok(());
        }
        Err(EngineError::Operation {
            kind: self.plan.operations[operation as usize].kind.name(),
            length,
            offset,
            path: self.plan.files[file as usize].path.clone(),
            source: std::io::Error::from_raw_os_error(-completion.result as i32),
        })
    }

    /// Whether all bytes and operations that the plan asks for have been issued.
    #[inline]
    fn exhausted(&self) -> bool {
        let End { bytes, operations, .. } = self.plan.end;
        bytes.is_some_and(|limit| self.issued_bytes >= limit)
            || operations.is_some_and(|limit| self.issued_operations >= limit)
    }

    fn not_drained(&self, in_flight: usize, state: State) -> Result<State, EngineError> {
        if state == State::Interrupted {
            return Ok(state);
        }
        Err(EngineError::Connection(format!(
            "{in_flight} operations of {} did not come back within {} s of the end of the run",
            self.plan.job,
            DRAIN / 1_000_000_000
        )))
    }

    /// Waits in steps short enough to see that the worker is told to end.
    fn wait_until(&self, deadline: Nanos) {
        while self.shared.told_to_end().is_none() {
            let now = self.shared.clock.now();
            if now >= deadline {
                return;
            }
            self.shared.clock.wait_until(deadline.min(now + LOOK_AROUND));
        }
    }
}
