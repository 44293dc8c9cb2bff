//! The loop itself: submit what is due, reap what is done.

mod verified;

use std::ops::Range;

use iocurve_meter::Nanos;

use super::flush::{self, Flushes};
use super::hold::Hold;
use super::mix::{Mix, Next};
use super::progress::{DRAIN, DRAIN_WHEN_STOPPED, Progress};
use super::read_back::ReadBack;
use super::search::Verdict;
use super::submissions::Submissions;
use super::visit::{LOOK_AGAIN, Visits};
use super::wake::Wake;
use super::{Ended, LOOK_AROUND, Shared, Start};
use crate::engines::buffers::Buffers;
use crate::engines::request::{Address, Completion, Engine, Request};
use crate::error::EngineError;
use crate::offsets::Offsets;
use crate::offsets::replay::Replay;
use crate::outcome::{IntervalOutcome, State};
use crate::payload::Filler;
use crate::plan::{OperationKind, Worker};
use crate::record::{Done, Recorder, Tally};
use crate::verify::Verifier;

/// What a write ends with for which there is no room.
const NO_ROOM: [i64; 2] = [libc::ENOSPC as i64, libc::EDQUOT as i64];

/// The load of one worker, ready to start: all memory is taken, all addresses are computable.
pub struct Load<'a> {
    plan: &'a Worker,
    shared: Shared,
    offsets: Offsets,
    filler: Filler,
    buffers: Buffers,
    mix: Mix,
    hold: Option<Hold>,
    replay: Option<Replay>,
    flushes: Option<Flushes>,
    /// Files that are flushed when all else is done, from this one on.
    closing: Range<u32>,
    verifier: Option<Verifier<'a>>,
    read_back: ReadBack,
    visits: Visits,
    /// When operations were handed over, where that is measured apart.
    submissions: Option<Submissions>,
    recorder: Recorder,
    /// By number of the operation in the plan; what is issued besides comes after those.
    kinds: Vec<OperationKind>,
    slots: Vec<InFlight>,
    free: Vec<u32>,
    issued_operations: u64,
    issued_bytes: u64,
    /// How many are issued at most; none any more once there is no place left to go to.
    most_operations: u64,
    most_bytes: u64,
    /// Whether there was no room for a write: what was written is not read back, as in fio.
    is_full: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct InFlight {
    submitted: Nanos,
    due: Nanos,
    offset: u64,
    length: u32,
    file: u32,
    operation: u32,
    reads_back: bool,
}

impl<'a> Load<'a> {
    /// `buffers` has `depth` slots of the largest block.
    pub fn new(plan: &'a Worker, depth: u32, mut buffers: Buffers, shared: Shared) -> Result<Self, EngineError> {
        let replay = Replay::open(plan)?;
        Ok(Self {
            plan,
            offsets: Offsets::new(plan, &shared.positions)?.or_replayed(replay.as_ref()),
            shared,
            filler: Filler::new(plan, buffers.slots_mut())?,
            buffers,
            mix: replay.clone().map_or_else(|| Mix::new(plan), Mix::Replayed),
            replay,
            hold: Hold::new(plan, depth as usize),
            flushes: Flushes::new(plan),
            closing: 0..if plan.sync_at_end { plan.files.len() as u32 } else { 0 },
            verifier: Verifier::new(plan, depth)?,
            read_back: ReadBack::default(),
            visits: Visits::new(depth),
            submissions: plan.submission_latency.then(|| Submissions::new(depth as usize)),
            recorder: Recorder::new(plan).with_log(plan.log)?,
            kinds: plan.recorded_kinds(),
            slots: vec![InFlight::default(); depth as usize],
            free: (0..depth).rev().collect(),
            issued_operations: 0,
            issued_bytes: 0,
            most_operations: plan.end.operations.unwrap_or(u64::MAX),
            most_bytes: plan.end.bytes.unwrap_or(u64::MAX),
            is_full: false,
        })
    }

    /// Runs to the end. `publish` sees every closed interval.
    pub fn run<E: Engine>(
        mut self,
        engine: &mut E,
        start: Start,
        publish: &mut dyn FnMut(&IntervalOutcome, &[Tally]),
    ) -> (Ended, Recorder) {
        let group_start = start.group;
        let mut progress = Progress::new(self.plan, start, self.shared.interval_ns);
        self.recorder.begin(group_start, progress.window_start);
        self.wait_until(progress.start);
        self.mix.start(progress.start, self.plan);
        self.read_back.counts_from(progress.window_start);
        if let Some(hold) = &mut self.hold {
            hold.start(progress.start, progress.window_start);
        }
        let result = self.drive(engine, &mut progress, publish);
        self.leave_places();
        let now = self.shared.clock.now();
        progress.finish(now, &mut self.recorder, publish);
        let read_back = self.read_back.ends(progress.window_end);
        let cut_short = self.replay.as_ref().and_then(Replay::failure);
        let result = result.and_then(|state| cut_short.map_or(Ok(state), Err));
        let differs = || self.verifier.as_ref().and_then(Verifier::failure);
        let (state, error) = match result {
            Ok(state) => differs().map_or((state, None), |error| (State::Failed, Some(error))),
            Err(error) => (State::Failed, Some(error)),
        };
        let ended = Ended {
            state,
            error,
            window: (progress.window_start - group_start, progress.window_end - group_start),
            drained: now.saturating_sub(group_start),
            drained_operations: progress.drained_operations,
            cpu: progress.cpu(),
            read_back,
            depth_found: self.hold.as_ref().and_then(Hold::depth_found),
            labels: self.verifier.as_ref().map_or_else(Vec::new, Verifier::labels),
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
            if open || !progress.ended {
                match self.shared.told_to_end() {
                    Some(State::Interrupted) => {
                        (open, state) = (false, State::Interrupted);
                        progress.end_window(self.shared.clock.now(), DRAIN_WHEN_STOPPED);
                    }
                    Some(_) if open => {
                        open = false;
                        progress.end_issuing(self.shared.clock.now());
                    }
                    None if open && last >= progress.issue_end => {
                        open = false;
                        progress.end_issuing(progress.issue_end);
                    }
                    _ => {}
                }
            }
            let wake = if open { self.fill(engine)? } else { Wake::Exhausted };
            match wake {
                Wake::Found => {
                    open = false;
                    progress.end_issuing(last);
                }
                Wake::Measure => progress.restart(last, &mut self.recorder, publish),
                _ => {}
            }
            if self.in_flight() == 0 {
                if !wake.is_last() {
                    self.wait_for(wake, progress.next_look(last));
                    last = self.shared.clock.now();
                    progress.advance(last, &mut self.recorder, publish);
                    continue;
                }
                // Everything asked for was issued and is done.
                open = false;
                if state != State::Finished || failure.is_some() || !self.flush_next(engine)? {
                    progress.end_window(last, 0);
                    return failure.map_or(Ok(state), Err);
                }
                progress.give_up = Nanos::MAX;
            }
            if !open && last >= progress.give_up {
                return failure.map_or_else(|| self.not_drained(state), Err);
            }
            let deadline = wake.at().min(progress.next_look(last)).min(last + LOOK_AROUND);
            let wanted = self.hold.as_ref().map_or(1, |hold| hold.wanted(wake, self.in_flight()));
            engine.reap(wanted.saturating_sub(done.len()), deadline, &mut done)?;
            last = self.shared.clock.now();
            progress.advance(last, &mut self.recorder, publish);
            let most = self.hold.as_ref().map_or(usize::MAX, Hold::most);
            let taken = done.len().min(most);
            if !progress.ended && (taken > 0 || wanted == 0) {
                self.recorder.levels.completed(taken);
            }
            for completion in done.drain(..taken) {
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
        let in_flight = self.in_flight();
        let leave = match &mut self.hold {
            None => Ok(self.free.len()),
            Some(hold) => hold.leave(now, in_flight, &mut self.mix),
        };
        let (submitted, wake) = match leave {
            Ok(count) => self.submit_and_stamp(count, engine, now)?,
            Err(wake) => (0, wake),
        };
        if submitted > 0 {
            self.recorder.levels.submitted(submitted, E::HAND_OVER_AT, in_flight + submitted);
        }
        Ok(wake)
    }

    #[inline(always)]
    fn submit_up_to<E: Engine>(
        &mut self,
        count: usize,
        engine: &mut E,
        now: Nanos,
    ) -> Result<(usize, Wake), EngineError> {
        for submitted in 0..count {
            if let Err(wake) = self.submit_next(engine, now)? {
                return Ok((submitted, wake));
            }
            if let Some(hold) = &mut self.hold
                && hold.is_called(now)
            {
                return Ok((submitted + 1, Wake::Now));
            }
        }
        let in_flight = self.in_flight();
        Ok((count, self.hold.as_mut().map_or(Wake::Never, |hold| hold.filled(in_flight))))
    }

    /// The same; where handing over is measured or takes long, in parts.
    #[inline]
    fn submit_and_stamp<E: Engine>(
        &mut self,
        count: usize,
        engine: &mut E,
        now: Nanos,
    ) -> Result<(usize, Wake), EngineError> {
        if self.submissions.is_none() && !engine.blocks() {
            return self.submit_up_to(count, engine, now);
        }
        self.submit_in_parts(count, engine, now)
    }

    /// As many at a time as the engine hands over at once, stamped before and after. What takes long goes on after a look around.
    #[inline(never)]
    fn submit_in_parts<E: Engine>(
        &mut self,
        count: usize,
        engine: &mut E,
        mut now: Nanos,
    ) -> Result<(usize, Wake), EngineError> {
        let (began, mut submitted) = (now, 0);
        loop {
            let part = (count - submitted).min(E::HAND_OVER_AT);
            if let Some(submissions) = &mut self.submissions {
                // Slots are taken from the end.
                submissions.expect(&self.free[self.free.len() - part..]);
            }
            let (taken, wake) = self.submit_up_to(part, engine, now)?;
            submitted += taken;
            if taken > 0 {
                engine.hand_over()?;
            }
            let sent = self.shared.clock.now();
            if let Some(submissions) = &mut self.submissions {
                submissions.sent(taken, sent);
            }
            let is_called = self.hold.as_ref().is_some_and(|hold| hold.is_called(now));
            if taken < part || submitted == count || is_called {
                return Ok((submitted, wake));
            }
            if sent - began >= LOOK_AROUND {
                return Ok((submitted, Wake::Now));
            }
            now = sent;
        }
    }

    /// Submits the next operation, unless there is a reason to wait or to end.
    #[inline(always)]
    fn submit_next<E: Engine>(&mut self, engine: &mut E, now: Nanos) -> Result<Result<(), Wake>, EngineError> {
        if self.verifier.is_some()
            && let Some(submitted) = self.verify_next(engine, now)?
        {
            return Ok(submitted);
        }
        if self.exhausted() {
            return Ok(Err(Wake::Exhausted));
        }
        if let Some((flush, range)) = self.flushes.as_mut().and_then(Flushes::take) {
            self.flush(engine, flush, range, now)?;
            return Ok(Ok(()));
        }
        if let Some(flow) = &mut self.shared.flow
            && !flow.may_go()
        {
            return Ok(Err(Wake::At(now + LOOK_AGAIN)));
        }
        let next = match self.mix.next(now) {
            Ok(next) => next,
            Err(wake) => return Ok(Err(wake)),
        };
        let Some(address) = self.offsets.next(next.operation) else { return self.submit_last(engine, now) };
        self.count(next.operation, address.length);
        if self.verifier.is_some() {
            return self.submit_verified(engine, next, address, now);
        }
        self.submit(engine, next, address, now)?;
        Ok(Ok(()))
    }

    /// There is no place left to go to: what is still to come is not of the load.
    #[cold]
    fn submit_last<E: Engine>(&mut self, engine: &mut E, now: Nanos) -> Result<Result<(), Wake>, EngineError> {
        self.most_operations = 0;
        self.submit_next(engine, now)
    }

    /// One of the operations that are asked for.
    #[inline(always)]
    fn count(&mut self, operation: usize, length: u32) {
        self.mix.issued(operation, length);
        self.issued_operations += 1;
        self.issued_bytes += u64::from(length);
        if let Some(flow) = &mut self.shared.flow {
            flow.gone();
        }
    }

    #[inline(always)]
    fn submit<E: Engine>(
        &mut self,
        engine: &mut E,
        next: Next,
        address: Address,
        now: Nanos,
    ) -> Result<(), EngineError> {
        let Next { operation, due } = next;
        let slot = self.take_slot(operation, address, now, due.unwrap_or(now));
        let kind = self.kinds[operation];
        if kind == OperationKind::Write {
            self.prepare_write(slot, address);
        }
        if let Some(hold) = &mut self.hold {
            hold.issued();
        }
        engine.submit(Request { slot, kind, address })
    }

    #[inline(never)]
    fn prepare_write(&mut self, slot: u32, address: Address) {
        let block = self.buffers.slot_mut(slot, address.length as usize);
        match &mut self.verifier {
            None => self.filler.renew(block, address.offset),
            Some(verifier) => verifier.stamp(&mut self.filler, block, slot, address),
        }
        if let Some(flushes) = &mut self.flushes {
            flushes.written(address);
        }
    }

    /// A flush is neither an operation nor bytes of those that are asked for, and never waits for a schedule.
    #[inline(never)]
    fn flush<E: Engine>(
        &mut self,
        engine: &mut E,
        flush: usize,
        range: Address,
        now: Nanos,
    ) -> Result<(), EngineError> {
        let operation = self.plan.operations.len() + flush;
        let slot = self.take_slot(operation, Address { length: 0, ..range }, now, now);
        engine.submit(Request { slot, kind: self.kinds[operation], address: range })
    }

    /// Flushes the next file of those that are flushed at the end, if there is one.
    fn flush_next<E: Engine>(&mut self, engine: &mut E) -> Result<bool, EngineError> {
        let Some(file) = self.closing.next() else { return Ok(false) };
        self.flush(engine, self.plan.syncs.len(), flush::whole(file), self.shared.clock.now())?;
        Ok(true)
    }

    #[inline]
    fn take_slot(&mut self, operation: usize, address: Address, submitted: Nanos, due: Nanos) -> u32 {
        let slot = self.free.pop().expect("no more is submitted than there are slots");
        let Address { file, offset, length } = address;
        let operation = operation as u32;
        self.slots[slot as usize] = InFlight { submitted, due, offset, length, file, operation, reads_back: false };
        slot
    }

    #[inline]
    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    #[inline(always)]
    fn complete(&mut self, completion: Completion, at: Nanos, progress: &mut Progress) -> Result<(), EngineError> {
        let Completion { slot, result } = completion;
        let done = self.slots[slot as usize];
        self.free.push(slot);
        let counts = !progress.ended;
        progress.drained_operations += u64::from(progress.ended);
        if result < 0 {
            return self.failed(slot, &done, result, counts);
        }
        let bytes = result as u32;
        if counts {
            let InFlight { submitted, due, offset, length, operation, .. } = done;
            let operation = operation as usize;
            let done = Done { operation, submitted, sent: submitted, due, at, asked: length, bytes, offset };
            match &self.submissions {
                None => self.recorder.record(done),
                Some(submissions) => {
                    self.recorder.record_in_parts(Done { sent: submissions.of(slot, submitted), ..done });
                }
            }
        }
        if self.verifier.is_some() {
            self.came_back(slot, &done, bytes)?;
        }
        if self.hold.is_some() && counts { self.held(&done, at) } else { Ok(()) }
    }

    #[cold]
    fn failed(&mut self, slot: u32, done: &InFlight, result: i64, counts: bool) -> Result<(), EngineError> {
        let &InFlight { offset, length, file, operation, .. } = done;
        let (kind, address) = (self.kinds[operation as usize], Address { file, offset, length });
        self.visited(slot, kind, address, true);
        if self.plan.end.when_full && NO_ROOM.contains(&-result) {
            (self.most_operations, self.is_full) = (0, true);
            return Ok(());
        }
        if counts {
            self.recorder.record_error(operation as usize);
        }
        Err(EngineError::Operation {
            kind: kind.name(),
            length,
            offset,
            path: self.plan.files[file as usize].path.clone(),
            source: std::io::Error::from_raw_os_error(-result as i32),
        })
    }

    /// Tells what keeps operations back that one is done, if it is one of those.
    #[inline(never)]
    fn held(&mut self, done: &InFlight, at: Nanos) -> Result<(), EngineError> {
        let Some(hold) = &mut self.hold else { return Ok(()) };
        if done.operation as usize >= self.plan.operations.len() || done.reads_back {
            return Ok(());
        }
        let service = at - done.submitted;
        if hold.completed(service, at) != Verdict::Hopeless {
            return Ok(());
        }
        Err(EngineError::Target(format!(
            "{}: an operation took {service} ns with nothing else in flight: no depth keeps the latency target of {} ns",
            self.plan.job,
            self.plan.latency_target.map_or(0, |target| target.target_ns)
        )))
    }

    /// Whether all bytes and operations that the plan asks for have been issued.
    #[inline]
    fn exhausted(&self) -> bool {
        self.issued_operations >= self.most_operations || self.issued_bytes >= self.most_bytes
    }

    fn not_drained(&self, state: State) -> Result<State, EngineError> {
        if state == State::Interrupted {
            return Ok(state);
        }
        Err(EngineError::Connection(format!(
            "{} operations of {} did not come back within {} s of the end of the run",
            self.in_flight(),
            self.plan.job,
            DRAIN / 1_000_000_000
        )))
    }

    /// Waits with nothing in flight, at most until `limit`.
    fn wait_for(&self, wake: Wake, limit: Nanos) {
        match wake {
            Wake::At(instant) => self.wait_until(instant.min(limit)),
            Wake::Busy(instant) => {
                let step = self.shared.clock.now().saturating_add(LOOK_AROUND);
                self.shared.clock.spin_until(instant.min(limit).min(step));
            }
            _ => {}
        }
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
