//! The worker's loop: check the end conditions, fill, reap, complete.

mod complete;
mod fill;
mod plain;
mod verify;

use iocurve_meter::Nanos;

use super::failures::Failures;
use super::flush::Flushes;
use super::phase::{DRAIN, Event, Phase};
use super::range_locks::RangeLocks;
use super::read_back::ReadBack;
use super::slots::Slots;
use super::submit_gate::SubmitGate;
use super::supply::Supply;
use super::timeline::{Publish, Timeline};
use super::wake::Wake;
use super::walk::Walk;
use super::zeros::ZeroSample;
use super::{Ended, STOP_CHECK, Shared, Start};
use crate::engines::buffers::Buffers;
use crate::engines::capabilities;
use crate::engines::request::{Completion, Engine};
use crate::error::{ConnectionError, EngineError};
use crate::outcome::State;
use crate::payload::Filler;
use crate::plan::{OperationKind, Worker};
use crate::record::Recorder;
use crate::verify::Verifier;

/// The load of one worker, ready to start: all memory is allocated, all addresses are computable.
pub(crate) struct Load<'a> {
    plan: &'a Worker,
    shared: Shared,
    supply: Supply,
    slots: Slots,
    data: Data<'a>,
    failures: Failures,
    gate: Option<SubmitGate>,
    flushes: Flushes,
    ending: Ending,
    /// The last time at which the engine was told that the loop waits.
    idled: Nanos,
    recorder: Recorder,
    /// By number of the operation; flushes and reads for verification come after the operations of the plan.
    kinds: Vec<OperationKind>,
    is_plain: bool,
}

/// The data that are moved, and their verification.
struct Data<'a> {
    buffers: Buffers,
    filler: Filler,
    verifier: Option<Verifier<'a>>,
    locks: RangeLocks,
    read_back: ReadBack,
    zeros: ZeroSample,
    /// A write failed for lack of space: written data are not read back, as in fio.
    is_full: bool,
}

/// The phase of the loop, and the state in which the worker will end.
struct Ending {
    phase: Phase,
    state: State,
    failure: Option<EngineError>,
}

impl<'a> Load<'a> {
    /// `buffers` has `depth` slots of the largest block.
    pub(crate) fn new(
        plan: &'a Worker,
        depth: u32,
        mut buffers: Buffers,
        mut shared: Shared,
    ) -> Result<Self, EngineError> {
        let gate = SubmitGate::new(plan, depth as usize);
        Ok(Self {
            plan,
            is_plain: plain::is_plain(plan) && gate.is_none(),
            supply: Supply::new(plan, depth, &mut shared)?,
            slots: Slots::new(depth, plan.submission_latency),
            data: Data {
                filler: Filler::new(plan, buffers.slots_mut())?,
                buffers,
                verifier: Verifier::new(plan, depth, shared.tree.as_ref())?,
                locks: RangeLocks::new(depth),
                read_back: ReadBack::default(),
                zeros: ZeroSample::new(capabilities(&plan.engine).fills_reads() && plan.does(OperationKind::Read)),
                is_full: false,
            },
            failures: Failures::new(plan, &shared.failed),
            gate,
            flushes: Flushes::new(plan),
            ending: Ending { phase: Phase::Issuing, state: State::Finished, failure: None },
            idled: 0,
            recorder: Recorder::new(plan).with_log(plan.log)?,
            kinds: plan.recorded_kinds(),
            shared,
        })
    }

    /// Runs to the end. Calls `publish` with every interval that closes.
    #[inline(always)]
    pub(crate) fn run<E: Engine>(
        mut self,
        engine: &mut E,
        start: Start,
        publish: &mut Publish<'_>,
    ) -> (Ended, Recorder) {
        let mut timeline = Timeline::new(self.plan, start, self.shared.interval_ns, publish);
        let started = self.start(engine, start.group, &timeline);
        let driven = started.and_then(|()| self.drive(engine, &mut timeline));
        self.release_all();
        let now = self.shared.clock.now();
        timeline.end_window(now, &mut self.recorder);
        self.record_left_over(now, &timeline);
        let (state, error) = self.verdict(driven);
        let mut differences = self.data.verifier.as_ref().map_or_else(Vec::new, Verifier::differences);
        differences.extend(self.supply.walk().map(Walk::take_differences).into_iter().flatten());
        let ended = Ended {
            state,
            error,
            window: (timeline.window_start - start.group, timeline.window_end - start.group),
            drained: now.saturating_sub(start.group),
            drained_operations: timeline.drained_operations(),
            cpu: timeline.cpu(),
            read_back: self.data.read_back.ends(timeline.window_end),
            depth_found: self.gate.as_ref().and_then(SubmitGate::depth_found),
            zeros: self.data.zeros.counts(),
            failures: self.failures.into_rows(),
            labels: self.data.verifier.as_ref().map_or_else(Vec::new, Verifier::labels),
            differences,
            last_writes: self.data.verifier.as_ref().map_or_else(Vec::new, Verifier::last_writes),
            files: self.supply.walk().and_then(Walk::take_files),
        };
        (ended, self.recorder)
    }

    /// Waits for the start of the load.
    fn start<E: Engine>(
        &mut self,
        engine: &mut E,
        group_start: Nanos,
        timeline: &Timeline<'_>,
    ) -> Result<(), EngineError> {
        self.recorder.begin(group_start, timeline.window_start);
        self.wait_until(engine, timeline.start)?;
        self.supply.mix.start(timeline.start, self.plan);
        self.data.read_back.counts_from(timeline.window_start);
        if let Some(gate) = &mut self.gate {
            gate.start(timeline.start, timeline.window_start);
        }
        Ok(())
    }

    fn drive<E: Engine>(&mut self, engine: &mut E, timeline: &mut Timeline<'_>) -> Result<State, EngineError> {
        let mut done = Vec::with_capacity(self.slots.depth());
        let mut now = self.shared.clock.now();
        loop {
            self.check_for_end(now, timeline);
            let wake = if self.ending.phase == Phase::Issuing { self.fill(engine)? } else { Wake::Exhausted };
            match wake {
                Wake::Found => self.end_load(now, timeline),
                Wake::Measure => timeline.restart(now, &mut self.recorder),
                _ => {}
            }
            if self.slots.is_empty() {
                if !wake.is_last() {
                    self.wait_for(engine, wake, timeline.next_deadline(now))?;
                    now = self.advance(timeline);
                    continue;
                }
                self.flush_next(engine, now, timeline)?;
            }
            if self.ending.phase == Phase::Over || self.ending.phase.is_overdue(now) {
                return self.end_state();
            }
            let wanted = self.reap(engine, wake, timeline.next_deadline(now).min(now + STOP_CHECK), &mut done)?;
            now = self.advance(timeline);
            if !done.is_empty() {
                self.ending.phase = self.ending.phase.after_completion(now, self.drain());
            }
            self.complete_reaped::<E>(&mut done, wanted, now, timeline);
        }
    }

    /// Checks whether the run was stopped, or the load is over.
    #[inline]
    fn check_for_end(&mut self, now: Nanos, timeline: &mut Timeline<'_>) {
        let issues = self.ending.phase == Phase::Issuing;
        if !issues && !timeline.measures() {
            return;
        }
        match self.shared.stop_requested() {
            Some(State::Interrupted) => self.stop(timeline),
            Some(_) if issues => self.end_load(self.shared.clock.now(), timeline),
            None if issues && now >= timeline.issue_end => self.end_load(timeline.issue_end, timeline),
            _ => {}
        }
    }

    #[cold]
    fn stop(&mut self, timeline: &mut Timeline<'_>) {
        let now = self.shared.clock.now();
        self.ending.state = State::Interrupted;
        self.ending.phase = self.ending.phase.after(Event::Stopped, now);
        timeline.end_window(now, &mut self.recorder);
    }

    #[cold]
    fn end_load(&mut self, at: Nanos, timeline: &mut Timeline<'_>) {
        self.ending.phase = self.ending.phase.after(Event::LoadOver { drain: self.drain() }, at);
        timeline.end_issuing(at, &mut self.recorder);
    }

    /// The first failure ends the load; operations in flight may still complete.
    #[cold]
    fn fail(&mut self, error: EngineError, now: Nanos, timeline: &mut Timeline<'_>) {
        if self.ending.failure.is_some() {
            return;
        }
        (self.ending.state, self.ending.failure) = (State::Failed, Some(error));
        self.ending.phase = self.ending.phase.after(Event::Failed, now);
        timeline.end_window(now, &mut self.recorder);
    }

    /// Flushes the next file at the end; without one, all requested operations were issued and have completed.
    #[cold]
    fn flush_next<E: Engine>(
        &mut self,
        engine: &mut E,
        now: Nanos,
        timeline: &mut Timeline<'_>,
    ) -> Result<(), EngineError> {
        if self.ending.phase == Phase::Issuing {
            self.supply.end();
        }
        let next = if self.ending.state == State::Finished { self.flushes.take_at_end() } else { None };
        self.ending.phase = self.ending.phase.after(Event::Idle { flushes: next.is_some() }, now);
        if let Some((number, range)) = next {
            return self.flush(engine, number, range, self.shared.clock.now());
        }
        timeline.end_window(now, &mut self.recorder);
        Ok(())
    }

    /// Reads the clock, and closes the intervals that are over.
    #[inline]
    fn advance(&mut self, timeline: &mut Timeline<'_>) -> Nanos {
        let now = self.shared.clock.now();
        timeline.advance(now, &mut self.recorder);
        now
    }

    /// Waits for completions; returns the number waited for.
    #[inline]
    fn reap<E: Engine>(
        &mut self,
        engine: &mut E,
        wake: Wake,
        limit: Nanos,
        done: &mut Vec<Completion>,
    ) -> Result<usize, EngineError> {
        let wanted = self.gate.as_ref().map_or(1, |gate| gate.reap_min(wake, self.slots.count()));
        let known = done.len();
        engine.reap(wanted.saturating_sub(known), wake.at().min(limit), done)?;
        Ok(wanted)
    }

    /// Most time for operations in flight to complete after the end of the load.
    fn drain(&self) -> Nanos {
        self.plan.engine.mount().map_or(DRAIN, |mount| mount.timeout_ns.max(DRAIN))
    }

    #[cold]
    fn end_state(&mut self) -> Result<State, EngineError> {
        match self.ending.failure.take() {
            Some(failure) => Err(failure),
            None if self.ending.phase == Phase::Over || self.ending.state == State::Interrupted => {
                Ok(self.ending.state)
            }
            None => {
                let (operations, seconds) = (self.slots.count(), self.drain() / 1_000_000_000);
                Err(ConnectionError::NotDrained { operations, job: self.plan.job.clone(), seconds }.into())
            }
        }
    }

    /// The state of the worker: a replay that was cut short and a difference found by verification are failures, too.
    fn verdict(&self, driven: Result<State, EngineError>) -> (State, Option<EngineError>) {
        let failure = |state| self.supply.failure().map_or(Ok(state), Err);
        match driven.and_then(failure) {
            Err(error) => (State::Failed, Some(error)),
            Ok(state) => match self.data.verifier.as_ref().and_then(Verifier::failure) {
                Some(error) => (State::Failed, Some(error)),
                None => (state, None),
            },
        }
    }

    /// Waits with nothing in flight, at most until `limit`.
    fn wait_for<E: Engine>(&mut self, engine: &mut E, wake: Wake, limit: Nanos) -> Result<(), EngineError> {
        match wake {
            Wake::At(instant) => return self.wait_until(engine, instant.min(limit)),
            Wake::Busy(instant) => {
                let step = self.shared.clock.now().saturating_add(STOP_CHECK);
                self.shared.clock.spin_until(instant.min(limit).min(step));
            }
            _ => {}
        }
        Ok(())
    }

    /// Waits in steps short enough to notice a stop, and to keep the engine's lease.
    fn wait_until<E: Engine>(&mut self, engine: &mut E, deadline: Nanos) -> Result<(), EngineError> {
        while self.shared.stop_requested().is_none() {
            let now = self.shared.clock.now();
            if now >= deadline {
                break;
            }
            if now.saturating_sub(self.idled) >= STOP_CHECK {
                self.idled = now;
                engine.idle()?;
            }
            self.shared.clock.wait_until(deadline.min(now + STOP_CHECK));
        }
        Ok(())
    }
}
